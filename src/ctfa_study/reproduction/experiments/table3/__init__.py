"""Table 3: basins."""

from ctfa_study.reproduction.experiments.table3.table import TABLE3

__all__ = ["TABLE3"]
