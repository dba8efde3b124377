"""What can be merged, and what a merge does to the fits."""
