"""Table 1: SARCOS and School."""

from ctfa.reproduction.experiments.table1.table import TABLE1

__all__ = ["TABLE1"]
