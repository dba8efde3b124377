"""Rivals to compare with, each an estimator written from its own paper."""

from ctfa.baselines._curds import CurdsAndWheyRegressor
from ctfa.baselines._groups import GroupMeansRegressor, WardGroupsRegressor
from ctfa.baselines._predecessors import GenLinCFA, LinCFA, NonLinCFA
from ctfa.baselines._random import RandomRegressor
from ctfa.baselines._reduced_rank import ReducedRankRegressor
from ctfa.baselines._single import SingleTaskRegressor

__all__ = [
    "CurdsAndWheyRegressor",
    "GenLinCFA",
    "GroupMeansRegressor",
    "LinCFA",
    "NonLinCFA",
    "RandomRegressor",
    "ReducedRankRegressor",
    "SingleTaskRegressor",
    "WardGroupsRegressor",
]
