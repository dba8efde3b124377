"""Rivals to compare with, each an estimator written from its own paper."""

from ctfa.baselines._aso import ASORegressor
from ctfa.baselines._clustered import ClusteredMTLRegressor
from ctfa.baselines._convex_aso import ConvexASORegressor
from ctfa.baselines._single import SingleTaskRegressor

__all__ = ["ASORegressor", "ClusteredMTLRegressor", "ConvexASORegressor", "SingleTaskRegressor"]
