"""What two inner products of a target say about its fit.

A space of targets keeps inner products of two kinds and answers every question from them. Which two
they are depends on how targets are fitted: by least squares they are those of fitted values and of
residuals, for a penalised fit those of the targets and of residuals
as if each row were left out.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from ctfa.core.fit import Fit
from ctfa.core.types import FloatArray


class InSample(NamedTuple):
    """Least squares: products of fitted values, then of residuals.

    ``fit`` reads a target, or a difference of two, from its two squared lengths; ``total`` gives
    inner products of the centred targets themselves, ``explained`` those of what inputs explain.
    """

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


class CrossValidated(NamedTuple):
    """A linear smoother judged by cross-validation: products of targets, then of residuals.

    What is explained is what remains of the target when each row is predicted from the others; it
    is negative where the inputs predict worse than the mean does.
    """

    n_samples: int
    n_inputs: int
    rank: float  # trace of the smoother: effective coefficients

    def fit(self, squares: FloatArray, size: FloatArray) -> Fit:
        """Honest explained sum of squares, and that of cross-validated residuals."""
        explained = squares[0] - squares[1]
        dof = self.n_samples - 1
        return Fit(explained, squares[1], self.n_samples, self.n_inputs, self.rank, dof, size)

    def total(self, products: FloatArray) -> FloatArray:
        """The products of targets."""
        return np.asarray(products[0])

    def explained(self, products: FloatArray) -> FloatArray:
        """What such predictions take away from the products of targets."""
        return np.asarray(products[0] - products[1])


#: How a pair of inner products is read.
Reading: TypeAlias = InSample | CrossValidated
