"""What can be merged, and how a merge changes the fits."""
