"""Rivals to compare with, each an estimator written from its own paper."""

from ctfa.baselines._search import TaskSearchCV
from ctfa.baselines._single import SingleTaskRegressor

__all__ = ["SingleTaskRegressor", "TaskSearchCV"]
