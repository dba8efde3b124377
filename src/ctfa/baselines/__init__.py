"""Rivals to compare with, each an estimator written from its own paper."""

from ctfa.baselines._feature_penalties import ClusteredLassoRegressor, OSCARRegressor
from ctfa.baselines._matrix_penalties import DirtyRegressor, L21Regressor, TraceNormRegressor
from ctfa.baselines._mean_regularized import MeanRegularizedRegressor
from ctfa.baselines._one_model import PooledOffsetsRegressor, PooledRegressor
from ctfa.baselines._single import SingleTaskRegressor

__all__ = [
    "ClusteredLassoRegressor",
    "DirtyRegressor",
    "L21Regressor",
    "MeanRegularizedRegressor",
    "OSCARRegressor",
    "PooledOffsetsRegressor",
    "PooledRegressor",
    "SingleTaskRegressor",
    "TraceNormRegressor",
]
