"""The method on plain arrays: spaces, criteria and scans. numpy and scipy only."""
