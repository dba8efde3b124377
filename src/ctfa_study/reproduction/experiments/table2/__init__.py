"""Table 2: QM9."""

from ctfa_study.reproduction.experiments.table2.table import TABLE2

__all__ = ["TABLE2"]
