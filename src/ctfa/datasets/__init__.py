"""Data to try the method on."""

from ctfa.datasets._basins import make_basins
from ctfa.datasets._gauges import make_gauges
from ctfa.datasets._synthetic import make_paper_synthetic

__all__ = ["make_basins", "make_gauges", "make_paper_synthetic"]
