"""Methods side by side: the same splits, one measure, intervals and a paired test."""

from ctfa_study.comparison._data import DATA, Data
from ctfa_study.comparison._harness import Step
from ctfa_study.comparison._methods import Method
from ctfa_study.comparison._metrics import METRICS, Metric
from ctfa_study.comparison._problem import Problem, read_problem
from ctfa_study.comparison._registry import METHODS
from ctfa_study.comparison._run import compare
from ctfa_study.comparison._splits import SPLITS, Split
from ctfa_study.comparison._summary import Comparison, MethodSummary

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
