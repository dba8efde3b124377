"""Table 1: SARCOS and School."""

from ctfa_study.reproduction.experiments.table1.table import TABLE1

__all__ = ["TABLE1"]
