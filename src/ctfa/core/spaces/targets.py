"""Targets that share their inputs (Phase I)."""

from __future__ import annotations

import numpy as np

from ctfa.core.design import Design
from ctfa.core.fit import Evidence, Fit
from ctfa.core.gram import DenseGram, FactoredGram, Gram, correlation, mean_correlation
from ctfa.core.moments import Moments
from ctfa.core.types import FloatArray, IntArray

#: More targets than this and the two matrices of inner products are not held in memory.
DENSE_LIMIT = 5_000


class TargetSpace:
    """Targets to merge by their mean, all regressed on the same inputs.

    Fitted values and residuals are linear in the target, so those of a mean are the means of its
    members'. Inner products of fitted values and of residuals answer every question: no regression
    is run again, and a candidate costs a handful of arithmetic operations whatever its size.
    """

    merge_is_local = True
    foresees = True

    def __init__(self, gram: Gram, sizes: FloatArray, design: Design) -> None:
        self._gram = gram  # of fitted values, then of residuals
        self._size = sizes
        self.n_variables = int(sizes.size)
        self.n_samples, self.n_inputs, self.rank = design.n_samples, design.n_inputs, design.rank

    @classmethod
    def of(
        cls,
        design: Design,
        centred: FloatArray,
        *,
        sizes: IntArray | None = None,
        dense: bool | None = None,
    ) -> TargetSpace:
        """Build from a factored design and targets, or means of so many, centred over its rows."""
        members = np.ones(centred.shape[1]) if sizes is None else np.asarray(sizes, dtype=float)
        if sizes is not None:
            centred = centred * members  # sums, as if the members had been merged here
        if dense is None:
            dense = centred.shape[1] <= DENSE_LIMIT
        kind = DenseGram if dense else FactoredGram
        return cls(kind.of(design.coordinates(centred)), members, design)

    @classmethod
    def from_moments(cls, moments: Moments, n_inputs: int) -> TargetSpace:
        """Build from the moments of ``[X, Y]``, for rows too many to hold."""
        design = Design.from_moments(moments, n_inputs)
        return cls.of(design, moments.compact()[:, n_inputs:])

    def evidence(self, block: int | IntArray, others: IntArray) -> Evidence:
        """Fits of both means, of the mean of all members, and of the two means' difference."""
        at = block if isinstance(block, np.ndarray) else slice(block, block + 1)
        diagonal = self._gram.diagonal
        products = self._gram.products(block, others)
        return self._judge(
            self._size[at], self._size[others], diagonal[:, at], diagonal[:, others], products
        )

    def foresee(self, block: int, sequence: IntArray, others: IntArray) -> Evidence:
        """Evidence against the others, row k after the block absorbed the first k of a sequence."""
        sizes = self._size[np.concatenate(([block], sequence))].cumsum()[:, None]
        grown, products = self._gram.foresee(block, sequence, others)
        theirs = self._gram.diagonal[:, None, others]
        return self._judge(sizes, self._size[others], grown, theirs, products)

    def _judge(
        self, a: FloatArray, b: FloatArray, first: FloatArray, second: FloatArray, both: FloatArray
    ) -> Evidence:
        """Put fits together from inner products of two block sums, of each and of both."""
        return Evidence(
            (self._fit(first / a**2, a), self._fit(second / b**2, b)),
            self._fit((first + second + 2.0 * both) / (a + b) ** 2, a + b),
            lambda: self._fit(_difference(first / a**2, second / b**2, both / (a * b)), a + b),
        )

    def correlation(self, block: int | IntArray, others: IntArray) -> FloatArray:
        """Correlation of the mean targets."""
        return correlation(self._gram, block, others)

    def merge(self, block: int, other: int) -> None:
        """Average two blocks, each member with the same weight."""
        self.absorb(block, np.array([other]))

    def absorb(self, block: int, others: IntArray) -> None:
        """Merge several into one block at once."""
        self._gram.merge(block, others)
        self._size[block] += self._size[others].sum()

    def expect(self, blocks: IntArray, others: IntArray) -> None:
        """Prepare inner products ahead, where they are not all held."""
        self._gram.expect(blocks, others)

    def retire(self, block: int) -> None:
        """Nothing to release: a block is a row of what others need."""

    def mean_correlation(self) -> FloatArray:
        """Average correlation of each target with all of them."""
        return mean_correlation(self._gram)

    @property
    def total_variance(self) -> float:
        """Mean variance of the targets as they stand, the scale of losses in target units."""
        total = self._gram.diagonal.sum(axis=0) / self._size**2
        return float(total.mean()) / (self.n_samples - 1)

    def _fit(self, squares: FloatArray, size: FloatArray) -> Fit:
        dof = self.n_samples - self.rank - 1
        return Fit(squares[0], squares[1], self.n_samples, self.n_inputs, self.rank, dof, size)


def _difference(first: FloatArray, second: FloatArray, both: FloatArray) -> FloatArray:
    """Squared length of a difference of means; exactly zero when they agree to rounding."""
    total = first + second
    length = total - 2.0 * both
    return np.where(length > ROUNDING * total, length, 0.0)


#: A difference smaller than this, relative to what is subtracted, is rounding and not a signal.
ROUNDING = 1e-13
