"""Data to try the method on."""

from ctfa.datasets._synthetic import make_paper_synthetic

__all__ = ["make_paper_synthetic"]
