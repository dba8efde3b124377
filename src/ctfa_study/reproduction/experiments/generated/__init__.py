"""Section 5.1 and its figures: data that are generated."""

from ctfa_study.reproduction.experiments.generated.figures import FIGURES
from ctfa_study.reproduction.experiments.generated.synthetic import SYNTHETIC

__all__ = ["FIGURES", "SYNTHETIC"]
