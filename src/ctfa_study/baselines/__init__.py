"""Rivals to compare with, each an estimator written from its own paper."""

from ctfa_study.baselines._aso import ASORegressor
from ctfa_study.baselines._clustered import ClusteredMTLRegressor
from ctfa_study.baselines._convex_aso import ConvexASORegressor
from ctfa_study.baselines._curds import CurdsAndWheyRegressor
from ctfa_study.baselines._feature_penalties import ClusteredLassoRegressor, OSCARRegressor
from ctfa_study.baselines._groups import GroupMeansRegressor, WardGroupsRegressor
from ctfa_study.baselines._hard_sharing import HardSharingRegressor
from ctfa_study.baselines._matched import MatchedGroupsRegressor
from ctfa_study.baselines._matrix_penalties import DirtyRegressor, L21Regressor, TraceNormRegressor
from ctfa_study.baselines._mean_regularized import MeanRegularizedRegressor
from ctfa_study.baselines._one_model import PooledOffsetsRegressor, PooledRegressor
from ctfa_study.baselines._pair_rules import PairDevianceAggregator, PairR2Aggregator
from ctfa_study.baselines._predecessors import GenLinCFA, LinCFA, NonLinCFA
from ctfa_study.baselines._random import RandomRegressor
from ctfa_study.baselines._reduced_rank import ReducedRankRegressor
from ctfa_study.baselines._search import TaskSearchCV
from ctfa_study.baselines._single import SingleTaskRegressor

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
