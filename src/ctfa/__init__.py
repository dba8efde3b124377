"""Interpretable aggregation of many related regression targets and their features."""
