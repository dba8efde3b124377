"""The estimators: tasks in, groups and their models out."""
