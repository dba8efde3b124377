"""The paper, table by table: its numbers, ours, and why they differ."""

from ctfa.comparison import Step
from ctfa.reproduction._case import AUTHORS, HONEST, Case, Experiment, Finding, Plan
from ctfa.reproduction._claims import Claim, Claims, Statement, load_claims
from ctfa.reproduction._page import write_page
from ctfa.reproduction._reproduce import Reproduction, reproduce
from ctfa.reproduction._results import Figure, Results
from ctfa.reproduction.compare import Judged, Verdict, judge, judge_statements
from ctfa.reproduction.experiments import EXPERIMENTS

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
