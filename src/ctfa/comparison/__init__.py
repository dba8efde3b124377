"""Methods side by side: the same splits, one measure, intervals and a paired test."""

from ctfa.comparison._data import DATA, Data
from ctfa.comparison._methods import Method
from ctfa.comparison._metrics import METRICS, Metric
from ctfa.comparison._problem import Problem, read_problem
from ctfa.comparison._registry import METHODS
from ctfa.comparison._resume import Step
from ctfa.comparison._run import compare
from ctfa.comparison._splits import SPLITS, Split
from ctfa.comparison._summary import Comparison, MethodSummary

__all__ = [
    "DATA",
    "METHODS",
    "METRICS",
    "SPLITS",
    "Comparison",
    "Data",
    "Method",
    "MethodSummary",
    "Metric",
    "Problem",
    "Split",
    "Step",
    "compare",
    "read_problem",
]
