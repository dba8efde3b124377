"""Targets that share their inputs (Phase I)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ctfa.core.design import Design
from ctfa.core.fit import Evidence, Fit
from ctfa.core.gram import (
    DenseGram,
    FactoredGram,
    Gram,
    correlation,
    differences,
    mean_correlation,
)
from ctfa.core.moments import Moments
from ctfa.core.types import BoolArray, FloatArray, IntArray

#: More targets than this and the two matrices of inner products are not held in memory.
DENSE_LIMIT = 5_000


class TargetStart(NamedTuple):
    """Targets before any merge, of each kind: of fitted values, then of residuals."""

    matrices: FloatArray  # (kinds, L, L): inner products
    vectors: tuple[FloatArray, ...]  # (L, length): what was multiplied
    sizes: FloatArray  # members of each


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
        moments = moments.normalised()
        design = Design.from_moments(moments, n_inputs)
        return cls.of(design, moments.compact()[:, n_inputs:])

    def evidence(self, block: int | IntArray, others: IntArray) -> Evidence:
        """Fits of both means, of the mean of all members, and of the two means' difference."""
        at = block if isinstance(block, np.ndarray) else slice(block, block + 1)
        a, b, diagonal = self._size[at], self._size[others], self._gram.diagonal
        first, second = diagonal[:, at], diagonal[:, others]
        both = self._gram.products(block, others)

        def difference() -> Fit:
            squares, lost = _difference(first / a**2, second / b**2, both / (a * b))
            if lost.any():
                which = np.flatnonzero(lost)
                mine = block[which] if isinstance(block, np.ndarray) else np.array([block])
                squares[:, which] = self._explicit(mine[None], others[which])
            return self._fit(squares, a + b)

        return self._judge(a, b, first, second, both, difference)

    def foresee(self, block: int, sequence: IntArray, others: IntArray) -> Evidence:
        """Evidence against the others, row k after the block absorbed the first k of a sequence."""
        grown = np.concatenate(([block], sequence))
        a, b = self._size[grown].cumsum()[:, None], self._size[others]
        first, both = self._gram.foresee(block, sequence, others)
        second = self._gram.diagonal[:, None, others]

        def difference() -> Fit:
            squares, lost = _difference(first / a**2, second / b**2, both / (a * b))
            for state in np.flatnonzero(lost.any(axis=1)):
                which = np.flatnonzero(lost[state])
                members = grown[: state + 1, None]
                squares[:, state, which] = self._explicit(members, others[which])
            return self._fit(squares, a + b)

        return self._judge(a, b, first, second, both, difference)

    def _judge(
        self,
        a: FloatArray,
        b: FloatArray,
        first: FloatArray,
        second: FloatArray,
        both: FloatArray,
        difference: Callable[[], Fit],
    ) -> Evidence:
        """Put fits together from inner products of two block sums, of each and of both."""
        return Evidence(
            lambda: (self._fit(first / a**2, a), self._fit(second / b**2, b)),
            lambda: self._fit((first + second + 2.0 * both) / (a + b) ** 2, a + b),
            difference,
        )

    def _explicit(self, members: IntArray, others: IntArray) -> FloatArray:
        """Squared differences from the vectors, exactly zero when they agree to rounding."""
        sizes, theirs = self._size[members].sum(axis=0), self._size[others]
        squares = differences(self._gram, members, sizes, others, theirs)
        total = self._gram.diagonal[:, others] / theirs**2
        return np.where(squares > ROUNDING * total, squares, 0.0)

    def start(self) -> TargetStart | None:
        """What a compiled scan starts from, and leaves as it is; None if not (all) held."""
        if not isinstance(self._gram, DenseGram) or self._gram.vectors is None:
            return None
        return TargetStart(self._gram.matrices, self._gram.vectors, self._size)

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


def _difference(
    first: FloatArray, second: FloatArray, both: FloatArray
) -> tuple[FloatArray, BoolArray]:
    """Squared length of a difference of means, and where expanding the square lost its digits."""
    total = first + second
    length = np.maximum(total - 2.0 * both, 0.0)
    return length, np.asarray((length < CANCELLATION * total).any(axis=0))


#: An expanded square that keeps less than this of its parts is taken explicitly: targets with a
#: strong part in common differ by little, and that little decides.
CANCELLATION = 1e-6
#: A squared difference smaller than this, relative to what is subtracted, is rounding.
ROUNDING = 1e-26
