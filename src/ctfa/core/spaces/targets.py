"""Targets that share their inputs (Phase I)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ctfa.core.design import Design
from ctfa.core.fit import Evidence, Fit
from ctfa.core.gram import DenseGram, FactoredGram, Gram
from ctfa.core.members import MemberGuard, MemberRisk
from ctfa.core.spaces.base import InSample, MergeSpace, Reading, correlations
from ctfa.core.types import BoolArray, FloatArray, IntArray

#: More targets than this and the two matrices of inner products are not held in memory.
DENSE_LIMIT = 5_000


class TargetSpace(MergeSpace):
    """Targets to merge by their mean, all regressed on the same inputs.

    Fitted values and residuals are linear in the target, so those of a mean are the means of its
    members'. Inner products of fitted values and of residuals answer every question: no regression
    is run again, and a candidate costs a handful of arithmetic operations whatever its size.

    With ``flip``, two blocks whose explained parts point against each other are compared with one
    of them turned round, and merge that way: ``signs`` says which members were turned.
    """

    def __init__(
        self,
        columns: tuple[FloatArray, FloatArray],
        sizes: FloatArray,
        reading: Reading,
        *,
        dense: bool | None = None,
        flip: bool = False,
    ) -> None:
        """Take sums over members of what the reading multiplies; ``dense``: hold all products."""
        if dense is None:
            dense = sizes.size <= DENSE_LIMIT
        self._gram: Gram = DenseGram.of(columns) if dense else FactoredGram(columns)
        self._size = sizes
        self._reading = reading
        self._flip = flip
        self._members = [[variable] for variable in range(sizes.size)] if flip else []
        # What a sequence of merges would leave depends on how each of them turns out.
        self.foresees = not flip
        self.n_variables = int(sizes.size)
        self.n_samples, self.rank = reading.n_samples, reading.rank
        self.signs = np.ones(self.n_variables) if flip else None
        self._guard: MemberGuard | None = None

    @classmethod
    def of(
        cls,
        design: Design,
        centred: FloatArray,
        *,
        sizes: IntArray | None = None,
        dense: bool | None = None,
        flip: bool = False,
    ) -> TargetSpace:
        """Build from a factored design and targets, or means of so many, centred over its rows."""
        members = np.ones(centred.shape[1]) if sizes is None else np.asarray(sizes, dtype=float)
        if sizes is not None:
            centred = centred * members  # sums, as if the members had been merged here
        reading = InSample(design.n_samples, design.n_inputs, design.rank)
        return cls(design.coordinates(centred), members, reading, dense=dense, flip=flip)

    def evidence(self, block: int | IntArray, others: IntArray) -> Evidence:
        """Fits of both means, of the mean of all members, and of the two means' difference."""
        at = block if isinstance(block, np.ndarray) else slice(block, block + 1)
        a, b, diagonal = self._size[at], self._size[others], self._gram.diagonal
        first, second = diagonal[:, at], diagonal[:, others]
        both = self._gram.products(block, others)
        turn = np.ones(others.size)
        if self._flip:
            turn = self._turn(both)
            both = both * turn

        def restore(squares: FloatArray, lost: BoolArray) -> None:
            which = np.flatnonzero(lost)
            mine = block[which] if isinstance(block, np.ndarray) else np.array([block])
            squares[:, which] = self._explicit(mine[None], others[which], turn[which])

        return self._judge(a, b, first, second, both, restore)

    def foresee(self, block: int, sequence: IntArray, others: IntArray) -> Evidence:
        """Evidence against the others, row k after the block absorbed the first k of a sequence."""
        grown = np.concatenate(([block], sequence))
        a, b = self._size[grown].cumsum()[:, None], self._size[others]
        first, both = self._gram.foresee(block, sequence, others)
        second = self._gram.diagonal[:, None, others]

        def restore(squares: FloatArray, lost: BoolArray) -> None:
            for state in np.flatnonzero(lost.any(axis=1)):
                which = np.flatnonzero(lost[state])
                members = grown[: state + 1, None]
                squares[:, state, which] = self._explicit(members, others[which], np.ones(1))

        return self._judge(a, b, first, second, both, restore)

    def _judge(
        self,
        a: FloatArray,
        b: FloatArray,
        first: FloatArray,
        second: FloatArray,
        both: FloatArray,
        restore: Callable[[FloatArray, BoolArray], None],
    ) -> Evidence:
        """Put fits together from inner products of two block sums, of each and of both.

        ``restore`` takes squared differences explicitly where expanding the square lost its digits.
        """
        fit = self._reading.fit

        def difference() -> Fit:
            total = first / a**2 + second / b**2
            squares = np.maximum(total - 2.0 * (both / (a * b)), 0.0)
            lost = np.asarray((squares < CANCELLATION * total).any(axis=0))
            if lost.any():
                restore(squares, lost)
            return fit(squares, a + b)

        return Evidence(
            lambda: (fit(first / a**2, a), fit(second / b**2, b)),
            lambda: fit((first + second + 2.0 * both) / (a + b) ** 2, a + b),
            difference,
        )

    def _turn(self, both: FloatArray) -> FloatArray:
        """Minus one where the other block has to be turned round, one elsewhere."""
        return np.where(self._reading.explained(both) < 0.0, -1.0, 1.0)

    def _explicit(self, members: IntArray, others: IntArray, turn: FloatArray) -> FloatArray:
        """Squared differences from the vectors, exactly zero when they agree to rounding.

        The first mean is that of all the member blocks together: ``(blocks, 1)`` of them, or
        ``(blocks, others)`` where it is another one for each of the others.
        """
        sizes, theirs = self._size[members].sum(axis=0), self._size[others]
        squares = np.empty((len(self._gram.diagonal), others.size))
        grown, asked = self._gram.sums(members.reshape(-1)), self._gram.sums(others)
        for square, mine, other in zip(squares, grown, asked, strict=True):
            total = mine.reshape(*members.shape, -1).sum(axis=0)
            gap = total / sizes[:, None] - other / (theirs * turn)[:, None]
            square[:] = np.einsum("ij,ij->i", gap, gap)
        total = self._gram.diagonal[:, others] / theirs**2
        return np.where(squares > ROUNDING * total, squares, 0.0)

    def start(self) -> tuple[DenseGram, FloatArray, InSample] | None:
        """What a compiled scan of least-squares fits starts from, and leaves as it is.

        Products of fitted values and of residuals, the members of each, and the reading. None if it
        is not all held, or if more than two inner products has a say in a merge.
        """
        reading, gram = self._reading, self._gram
        if not (isinstance(reading, InSample) and isinstance(gram, DenseGram)):
            return None
        if self._flip or self.is_guarded or gram.has_merged:
            return None
        return gram, self._size, reading

    def correlation(self, block: int | IntArray, others: IntArray) -> FloatArray:
        """Correlation of the mean targets; of a pair that would be flipped, without its sign."""
        length = self._reading.total(self._gram.diagonal)
        both = self._gram.products(block, others)
        products = self._reading.total(both)
        if self._flip:
            products = products * self._turn(both)
        return correlations(products, length[block], length[others])

    def absorb(self, block: int, others: IntArray) -> None:
        """Average several blocks, each member with the same weight."""
        turn = np.ones(others.size)
        if self._flip:
            turn = self._turn(self._gram.products(block, others))
            self._turn_round(block, others, turn)
        if self._guard is not None:
            self._guard.merge(block, others, turn)
        self._gram.merge(block, others)
        self._size[block] += self._size[others].sum()

    def protect(self, risk: MemberRisk) -> None:
        """Refuse from now on what any member is predicted to lose by."""
        self._guard, self.is_guarded = MemberGuard(risk, apart=not self._flip), True

    def allows(self, block: int, others: IntArray) -> BoolArray:
        """Whether no member would lose by each merge."""
        assert self._guard is not None
        both = self._gram.products(block, others)
        turn = self._turn(both) if self._flip else np.ones(others.size)
        return self._guard.allows(block, others, turn)

    def _turn_round(self, block: int, others: IntArray, turn: FloatArray) -> None:
        """Flip the blocks that are about to be merged against their sign."""
        for other, sign in zip(others.tolist(), turn.tolist(), strict=True):
            if sign < 0.0:
                self._gram.negate(other)
                assert self.signs is not None
                self.signs[self._members[other]] *= -1.0
            self._members[block] += self._members[other]

    def expect(self, blocks: IntArray, others: IntArray) -> None:
        """Prepare inner products ahead, where they are not all held."""
        self._gram.expect(blocks, others)

    def mean_correlation(self) -> FloatArray:
        """Average correlation of each target with all of them."""
        scale = np.sqrt(self._reading.total(self._gram.diagonal))
        sums = self._reading.total(self._gram.row_sums(np.where(scale > 0.0, scale, np.inf)))
        return np.asarray(sums / sums.size)

    @property
    def total_variance(self) -> float:
        """Mean variance of the targets as they stand, the scale of losses in target units."""
        total = self._reading.total(self._gram.diagonal) / self._size**2
        return float(total.mean()) / (self.n_samples - 1)


#: An expanded square that keeps less than this of its parts is taken explicitly: targets with a
#: strong part in common differ by little, and that little decides.
CANCELLATION = 1e-6
#: A squared difference smaller than this, relative to what is subtracted, is rounding.
ROUNDING = 1e-26
