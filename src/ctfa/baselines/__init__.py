"""Rivals to compare with, each an estimator written from its own paper."""

from ctfa.baselines._aso import ASORegressor
from ctfa.baselines._clustered import ClusteredMTLRegressor
from ctfa.baselines._convex_aso import ConvexASORegressor
from ctfa.baselines._curds import CurdsAndWheyRegressor
from ctfa.baselines._feature_penalties import ClusteredLassoRegressor, OSCARRegressor
from ctfa.baselines._groups import GroupMeansRegressor, WardGroupsRegressor
from ctfa.baselines._hard_sharing import HardSharingRegressor
from ctfa.baselines._matched import MatchedGroupsRegressor
from ctfa.baselines._matrix_penalties import DirtyRegressor, L21Regressor, TraceNormRegressor
from ctfa.baselines._mean_regularized import MeanRegularizedRegressor
from ctfa.baselines._one_model import PooledOffsetsRegressor, PooledRegressor
from ctfa.baselines._pair_rules import PairDevianceAggregator, PairR2Aggregator
from ctfa.baselines._predecessors import GenLinCFA, LinCFA, NonLinCFA
from ctfa.baselines._random import RandomRegressor
from ctfa.baselines._reduced_rank import ReducedRankRegressor
from ctfa.baselines._search import TaskSearchCV
from ctfa.baselines._single import SingleTaskRegressor

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
