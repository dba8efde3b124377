"""Targets with missing values that share their inputs (Phase I)."""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ctfa.core.fit import Evidence, Fit
from ctfa.core.gaps import ROUNDING
from ctfa.core.spaces.targets import CANCELLATION
from ctfa.core.subsets import FEWEST_ROWS, RowSubsets, Squares
from ctfa.core.types import AnyArray, BoolArray, FloatArray, IntArray, Number

#: So many candidates of one question with the same common rows have their inputs factored and
#: their coordinates kept; fewer are solved in a batch with the others.
SHARED = 4
#: Bytes of coordinates kept; the sets of rows asked about longest ago go first.
KEPT_BYTES = 2**28
#: Keeps the mean of no rows at zero instead of zero over zero.
TINY = float(np.finfo(np.float64).tiny)


class GappyTargetSpace:
    """Targets to merge by the mean of those observed, regressed on the same complete inputs.

    The series of a block is, row by row, the mean of its observed members. Two blocks are compared
    on the rows that both have: the difference of their series is regressed on the inputs over
    these rows alone, exactly as if they were all there is, so rows, rank and degrees of freedom
    are each candidate's own. Two blocks with too few common rows to judge, ``n <= rank + 2``,
    differ infinitely. The fits of the two series and of their mean, weighted by sizes, are those on
    the common rows too.

    Where many pairs have the same common rows, the inputs are factored once for these rows, and
    answers are inner products of coordinates; pairs with rows of their own are solved many at once.
    """

    merge_is_local = True
    foresees = False
    is_guarded = False

    def __init__(
        self, inputs: RowSubsets, series: FloatArray, counts: FloatArray, sizes: FloatArray
    ) -> None:
        self._inputs = inputs
        self._counts = counts  # (n_variables, n): observed members, row by row
        self._series = series  # (n_variables, n): their mean, zero where there are none
        self._has = counts > 0
        self._size = sizes
        self.n_variables = int(sizes.size)
        self.n_samples, self.n_inputs, self.rank = inputs.n_samples, inputs.n_inputs, inputs.rank
        self._changed = np.zeros(self.n_variables, dtype=np.intp)  # how often a block did
        self._pattern_of: dict[bytes, int] = {}
        self._patterns: list[BoolArray] = []
        self._pattern = np.array([self._numbered(has) for has in self._has], dtype=np.intp)
        self._kept = Recent()

    @classmethod
    def of(
        cls,
        X: FloatArray,
        values: FloatArray,
        *,
        row_scale: FloatArray | None = None,
        counts: AnyArray | None = None,
        sizes: IntArray | None = None,
    ) -> GappyTargetSpace:
        """Build from complete inputs and targets ``(n, L)`` in their units, NaN where missing.

        ``row_scale`` holds the square roots of the rows' weights, all positive. Targets that are
        means of several already come with ``sizes``, their members, and ``counts`` ``(n, L)``,
        how many of these were observed in each row: a mean of few weighs less than one of many.
        """
        observed = ~np.isnan(values)
        series = np.ascontiguousarray(np.where(observed, values, 0.0).T)
        present = observed if counts is None else np.where(observed, counts, 0)
        members = np.ones(values.shape[1]) if sizes is None else np.asarray(sizes, dtype=float)
        return cls(
            RowSubsets(X, row_scale), series, np.ascontiguousarray(present.T, dtype=float), members
        )

    def evidence(self, block: int | IntArray, others: IntArray) -> Evidence:
        """Fits on common rows: of both series, of the mean of all members, of the difference."""
        a, b = self._size[block], self._size[others]
        question = self._sort(block, others)
        fit = partial(self._fit, question)
        difference = fit(1.0, -1.0, a + b)
        refused = np.less_equal(difference.n_samples, difference.rank + 2)
        if refused.any():
            # Too few rows for a break-even to exist. All explained and nothing left is an infinite
            # F, whatever these rows would say.
            difference = difference._replace(
                explained=np.where(refused, 1.0, difference.explained),
                residual=np.where(refused, 0.0, difference.residual),
            )
        share = a / (a + b)
        return Evidence(
            lambda: (fit(1.0, 0.0, a), fit(0.0, 1.0, b)),
            lambda: fit(share, 1.0 - share, a + b),
            difference,
        )

    def correlation(self, block: int | IntArray, others: IntArray) -> FloatArray:
        """Correlation over the common rows; zero where one is constant there, or hardly a row."""
        question = self._sort(block, others)
        found = np.zeros(others.size)
        for here, where in question.shared:
            found[where] = here.correlation(_picked(block, where), others[where])
        if question.single.size:
            found[question.single] = self._correlate(question)
        return found

    def merge(self, block: int, other: int) -> None:
        """Average two blocks, each observed member with the same weight."""
        mine, theirs = self._counts[block], self._counts[other]
        both = mine + theirs
        total = mine * self._series[block] + theirs * self._series[other]
        self._series[block] = total / np.maximum(both, 1.0)
        self._counts[block] = both
        self._has[block] = both > 0
        self._size[block] += self._size[other]
        self._pattern[block] = self._numbered(self._has[block])
        self._changed[block] += 1

    def expect(self, blocks: IntArray, others: IntArray) -> None:
        """Nothing to prepare."""

    def retire(self, block: int) -> None:
        """Nothing to release."""

    def mean_correlation(self) -> FloatArray:
        """Average correlation of each target with all of them, pair by pair on common rows."""
        everyone = np.arange(self.n_variables)
        return np.array([self.correlation(k, everyone).mean() for k in range(self.n_variables)])

    @property
    def total_variance(self) -> float:
        """Mean variance of the targets as they stand, each over its own rows."""
        weight = self._has * self._inputs.row_scale**2
        total = np.maximum(weight.sum(axis=1), TINY)
        mean = np.einsum("ki,ki->k", weight, self._series) / total
        squares = np.einsum("ki,ki->k", weight, (self._series - mean[:, None]) ** 2) / total
        n_rows = self._has.sum(axis=1)
        return float((squares * n_rows / np.maximum(n_rows - 1, 1)).mean())

    def _numbered(self, has: BoolArray) -> int:
        """Give the same number to the same rows."""
        number = self._pattern_of.setdefault(has.tobytes(), len(self._patterns))
        if number == len(self._patterns):
            self._patterns.append(has.copy())
        return number

    def _sort(self, block: int | IntArray, others: IntArray) -> Question:
        """Sort the candidates by the rows that they have in common with the block."""
        if isinstance(block, np.ndarray):
            which = np.arange(others.size)
            common = self._has[block] & self._has[others]
        else:
            # As many intersections as patterns, which are often few.
            numbers, which = np.unique(self._pattern[others], return_inverse=True)
            rows = [self._patterns[number] for number in numbers.tolist()]
            common = self._has[block] & np.reshape(rows, (-1, self.n_samples)).astype(bool)
        packed = np.packbits(common, axis=1)
        names = [row.tobytes() for row in packed]
        number_of = {name: k for k, name in enumerate(dict.fromkeys(names))}
        rows_of = np.array([number_of[name] for name in names], dtype=np.intp)[which]
        candidates = np.bincount(rows_of, minlength=len(number_of))
        first_of = {name: k for k, name in reversed(list(enumerate(names)))}
        shared = []
        alone = np.ones(others.size, dtype=bool)
        for name, number in number_of.items():
            here = self._kept.get(name)
            if here is None:
                few = candidates[number] < SHARED and self._inputs.solves_batches
                kept = common[first_of[name]]
                if few or kept.sum() < FEWEST_ROWS:
                    continue
                here = CommonRows(self._inputs, kept, self.n_variables)
                self._kept.put(name, here)
            where = np.flatnonzero(rows_of == number)
            alone[where] = False
            here.refresh(self._series, self._changed, _blocks(block, others, where))
            shared.append((here, where))
        single = np.flatnonzero(alone)
        return Question(block, others, shared, single, common[which[single]])

    def _fit(self, question: Question, u: Number, v: Number, size: FloatArray) -> Fit:
        """Fit ``u`` times the block's series plus ``v`` times each candidate's."""
        u, v = (np.broadcast_to(weight, question.others.shape) for weight in (u, v))
        found = np.zeros((2, question.others.size))
        counts = np.zeros((2, question.others.size))
        for here, where in question.shared:
            block = _picked(question.block, where)
            found[:, where] = here.squares(block, question.others[where], u[where], v[where])
            counts[:, where] = [[here.n_samples], [here.rank]]
        if question.single.size:
            squares = self._solve(question, u[question.single], v[question.single])
            found[:, question.single] = squares.explained, squares.residual
            counts[:, question.single] = squares.n_samples, squares.rank
        n_samples, rank = counts
        # At least two, where it does not matter: fewer are refused, and no division fails.
        dof = np.maximum(n_samples - rank - 1, 2)
        n_samples = np.maximum(n_samples, 2)
        return Fit(found[0], found[1], n_samples, self.n_inputs, rank, dof, size)

    def _solve(self, question: Question, u: FloatArray, v: FloatArray) -> Squares:
        """Fit the candidates whose common rows are their own."""
        first = self._series[_picked(question.block, question.single)]
        second = self._series[question.others[question.single]]
        squares = self._inputs.squares(u[:, None] * first + v[:, None] * second, question.kept)
        size = np.abs(second) * question.kept * self._inputs.row_scale
        rounding = ROUNDING * np.einsum("ki,ki->k", size, size)
        return squares._replace(
            explained=squares.explained * (squares.explained > rounding),
            residual=squares.residual * (squares.residual > rounding),
        )

    def _correlate(self, question: Question) -> FloatArray:
        """Correlate with the candidates whose common rows are their own."""
        weight = question.kept * self._inputs.row_scale**2
        total = np.maximum(weight.sum(axis=1), TINY)
        scaled = []
        for blocks in (_picked(question.block, question.single), question.others[question.single]):
            series = np.broadcast_to(self._series[blocks], weight.shape)
            mean = np.einsum("ki,ki->k", weight, series) / total
            spread = np.sqrt(weight) * (series - mean[:, None])
            length = np.einsum("ki,ki->k", spread, spread)
            constant = length <= ROUNDING * (length + mean**2 * total)
            length[constant | (question.kept.sum(axis=1) < FEWEST_ROWS)] = np.inf
            scaled.append(spread / np.sqrt(length)[:, None])
        return np.asarray(np.einsum("ki,ki->k", *scaled))


class Question(NamedTuple):
    """A block and candidates, sorted by the rows they have in common."""

    block: int | IntArray
    others: IntArray
    shared: list[tuple[CommonRows, IntArray]]  # candidates of rows that are shared by many
    single: IntArray  # the other candidates
    kept: BoolArray  # and the rows of each


class CommonRows:
    """Inputs factored on one set of rows, and the coordinates there of blocks asked about."""

    def __init__(self, inputs: RowSubsets, kept: BoolArray, n_blocks: int) -> None:
        self._design = inputs.design(kept)
        self._rows = np.flatnonzero(kept)
        self.n_samples, self.rank = self._rows.size, self._design.rank
        spare = self.n_samples
        if self._design.factors.reflectors is not None:
            spare -= self.rank
        self._vectors = (np.zeros((n_blocks, self.rank)), np.zeros((n_blocks, spare)))
        self._lengths = np.zeros((2, n_blocks))
        self._rounding = np.zeros(n_blocks)
        self._changed = np.full(n_blocks, -1, dtype=np.intp)

    @property
    def n_bytes(self) -> int:
        """Memory held, roughly."""
        return 8 * (self.n_samples + 3) * (self._changed.size + self.rank)

    def refresh(self, series: FloatArray, changed: IntArray, blocks: IntArray) -> None:
        """Take the coordinates of the blocks that have changed since they were last asked."""
        stale = blocks[self._changed[blocks] != changed[blocks]]
        if not stale.size:
            return
        columns = series[np.ix_(stale, self._rows)].T
        parts = self._design.coordinates(self._design.centre(columns))
        for k, part in enumerate(parts):
            self._vectors[k][stale] = part.T
            self._lengths[k, stale] = np.einsum("ij,ij->j", part, part)
        size = columns * self._design.row_scale[:, None]
        self._rounding[stale] = ROUNDING * np.einsum("ij,ij->j", size, size)
        self._changed[stale] = changed[stale]

    def squares(
        self, block: int | IntArray, others: IntArray, u: FloatArray, v: FloatArray
    ) -> FloatArray:
        """Squared lengths ``(2, others)`` of ``u`` times one series plus ``v`` times the other."""
        first = np.atleast_1d(self._lengths.T[block]).reshape(-1, 2).T
        parts = u**2 * first + v**2 * self._lengths[:, others]
        products = np.stack([_products(part, block, others) for part in self._vectors])
        squares: FloatArray = np.maximum(parts + 2.0 * u * v * products, 0.0)
        # Where the expanded square has lost its digits it is taken explicitly.
        lost = np.flatnonzero((squares < CANCELLATION * parts).any(axis=0))
        if lost.size:
            mine = _picked(block, lost)
            for k, part in enumerate(self._vectors):
                gap = u[lost, None] * part[mine] + v[lost, None] * part[others[lost]]
                squares[k, lost] = np.einsum("ij,ij->i", gap, gap)
            squares[:, lost] *= squares[:, lost] > self._rounding[others[lost]]
        return squares

    def correlation(self, block: int | IntArray, others: IntArray) -> FloatArray:
        """Correlation of a block's series with the others', or in pairs."""
        lengths = self._lengths.sum(axis=0)
        lengths = np.where(lengths > self._rounding, lengths, np.inf)
        products = sum(_products(part, block, others) for part in self._vectors)
        scale = np.sqrt(lengths)
        return np.asarray(products / scale[block] / scale[others])


class Recent:
    """What was asked for last, up to so many bytes; a copy starts with nothing."""

    def __init__(self) -> None:
        self._held: OrderedDict[bytes, CommonRows] = OrderedDict()
        self._n_bytes = 0

    def get(self, name: bytes) -> CommonRows | None:
        """Return what is held under this name, and note that it was wanted."""
        held = self._held.get(name)
        if held is not None:
            self._held.move_to_end(name)
        return held

    def put(self, name: bytes, rows: CommonRows) -> None:
        """Hold this, and let go of what was wanted longest ago."""
        self._held[name] = rows
        self._n_bytes += rows.n_bytes
        while self._n_bytes > KEPT_BYTES and len(self._held) > 1:
            self._n_bytes -= self._held.popitem(last=False)[1].n_bytes

    def __deepcopy__(self, memo: dict[int, Any]) -> Recent:
        return Recent()


def _picked(block: int | IntArray, where: IntArray) -> int | IntArray:
    """The block of each of these candidates: one for all, or one each."""
    return block[where] if isinstance(block, np.ndarray) else block


def _blocks(block: int | IntArray, others: IntArray, where: IntArray) -> IntArray:
    """Return everybody who takes part, once."""
    mine = np.atleast_1d(_picked(block, where))
    return np.unique(np.concatenate((mine, others[where])))


def _products(vectors: FloatArray, block: int | IntArray, others: IntArray) -> FloatArray:
    """Inner products of a block's vector with the others', or in pairs."""
    if isinstance(block, np.ndarray):
        return np.asarray(np.einsum("ij,ij->i", vectors[block], vectors[others]))
    if 2 * others.size < vectors.shape[0]:
        return np.asarray(vectors[others] @ vectors[block])
    # All of them, because picking rows would copy them.
    return np.asarray((vectors @ vectors[block])[others])
