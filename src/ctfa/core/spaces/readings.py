"""What two inner products of a target say about its fit.

A space of targets keeps inner products of two kinds and answers every question from them. Which two
they are depends on how targets are fitted: by least squares they are those of fitted values and of
residuals, for a penalised fit those of the targets and of their left-out residuals.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from ctfa.core.fit import Fit
from ctfa.core.types import FloatArray


class Reading(Protocol):
    """How a pair of inner products is read."""

    @property
    def n_samples(self) -> int:
        """Rows."""

    @property
    def rank(self) -> float:
        """Coefficients, or effective ones."""

    def fit(self, squares: FloatArray, size: FloatArray) -> Fit:
        """The fit of a target, or of a difference of two, from its two squared lengths."""

    def total(self, products: FloatArray) -> FloatArray:
        """Inner products of the centred targets themselves."""

    def explained(self, products: FloatArray) -> FloatArray:
        """Inner products of what the inputs explain."""


class InSample(NamedTuple):
    """Least squares: products of fitted values, then of residuals."""

    n_samples: int
    n_inputs: int
    rank: int

    def fit(self, squares: FloatArray, size: FloatArray) -> Fit:
        """Explained and residual sums of squares, as they are."""
        dof = self.n_samples - self.rank - 1
        return Fit(squares[0], squares[1], self.n_samples, self.n_inputs, self.rank, dof, size)

    def total(self, products: FloatArray) -> FloatArray:
        """Fitted values and residuals are orthogonal, so their products add up."""
        return np.asarray(products.sum(axis=0))

    def explained(self, products: FloatArray) -> FloatArray:
        """The products of fitted values."""
        return np.asarray(products[0])


class LeftOut(NamedTuple):
    """A linear smoother judged row by row: products of targets, then of left-out residuals.

    What is explained is what remains of the target when each row is predicted from the others; it
    is negative where the inputs predict worse than the mean does.
    """

    n_samples: int
    n_inputs: int
    rank: float  # trace of the smoother: effective coefficients

    def fit(self, squares: FloatArray, size: FloatArray) -> Fit:
        """Honest explained sum of squares, and the sum of left-out residuals."""
        explained = squares[0] - squares[1]
        dof = self.n_samples - 1
        return Fit(explained, squares[1], self.n_samples, self.n_inputs, self.rank, dof, size)

    def total(self, products: FloatArray) -> FloatArray:
        """The products of targets."""
        return np.asarray(products[0])

    def explained(self, products: FloatArray) -> FloatArray:
        """What left-out predictions take away from the products of targets."""
        return np.asarray(products[0] - products[1])
