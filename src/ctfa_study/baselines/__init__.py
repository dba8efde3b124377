"""Rivals to compare with, each an estimator written from its own paper."""

from ctfa_study.baselines._aso import ASORegressor
from ctfa_study.baselines._feature_penalties import ClusteredLassoRegressor, OSCARRegressor
from ctfa_study.baselines._groups import GroupMeansRegressor, WardGroupsRegressor
from ctfa_study.baselines._hard_sharing import HardSharingRegressor
from ctfa_study.baselines._matched import MatchedGroupsRegressor
from ctfa_study.baselines._matrix_penalties import DirtyRegressor, L21Regressor, TraceNormRegressor
from ctfa_study.baselines._mean_regularized import MeanRegularizedRegressor
from ctfa_study.baselines._pair_rules import PairDevianceAggregator, PairR2Aggregator
from ctfa_study.baselines._plain import (
    PooledOffsetsRegressor,
    PooledRegressor,
    RandomRegressor,
    SingleTaskRegressor,
)
from ctfa_study.baselines._predecessors import GenLinCFA, LinCFA, NonLinCFA
from ctfa_study.baselines._search import TaskSearchCV
from ctfa_study.baselines._shared import CurdsAndWheyRegressor, ReducedRankRegressor
from ctfa_study.baselines._spectral import ClusteredMTLRegressor, ConvexASORegressor

__all__ = [
    "ASORegressor",
    "ClusteredLassoRegressor",
    "ClusteredMTLRegressor",
    "ConvexASORegressor",
    "CurdsAndWheyRegressor",
    "DirtyRegressor",
    "GenLinCFA",
    "GroupMeansRegressor",
    "HardSharingRegressor",
    "L21Regressor",
    "LinCFA",
    "MatchedGroupsRegressor",
    "MeanRegularizedRegressor",
    "NonLinCFA",
    "OSCARRegressor",
    "PairDevianceAggregator",
    "PairR2Aggregator",
    "PooledOffsetsRegressor",
    "PooledRegressor",
    "RandomRegressor",
    "ReducedRankRegressor",
    "SingleTaskRegressor",
    "TaskSearchCV",
    "TraceNormRegressor",
    "WardGroupsRegressor",
]
