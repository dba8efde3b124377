"""Rivals to compare with, each an estimator written from its own paper."""

from ctfa.baselines._matrix_penalties import DirtyRegressor, L21Regressor, TraceNormRegressor
from ctfa.baselines._mean_regularized import MeanRegularizedRegressor
from ctfa.baselines._single import SingleTaskRegressor

__all__ = [
    "DirtyRegressor",
    "L21Regressor",
    "MeanRegularizedRegressor",
    "SingleTaskRegressor",
    "TraceNormRegressor",
]
