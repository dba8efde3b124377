"""The paper, table by table: its numbers, ours, and why they differ."""

from ctfa_study.comparison import Step
from ctfa_study.reproduction._case import AUTHORS, HONEST, Case, Experiment, Finding, Plan
from ctfa_study.reproduction._claims import Claim, Claims, Statement, load_claims
from ctfa_study.reproduction._page import write_page
from ctfa_study.reproduction._reproduce import Reproduction, reproduce
from ctfa_study.reproduction._results import Figure, Results
from ctfa_study.reproduction.compare import Judged, Verdict, judge, judge_statements
from ctfa_study.reproduction.experiments import EXPERIMENTS

__all__ = [
    "AUTHORS",
    "EXPERIMENTS",
    "HONEST",
    "Case",
    "Claim",
    "Claims",
    "Experiment",
    "Figure",
    "Finding",
    "Judged",
    "Plan",
    "Reproduction",
    "Results",
    "Statement",
    "Step",
    "Verdict",
    "judge",
    "judge_statements",
    "load_claims",
    "reproduce",
    "write_page",
]
