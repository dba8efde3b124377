"""Targets that have inputs of their own, sample by sample in pairs (Phase I, own inputs)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ctfa.core.design import column_lengths
from ctfa.core.fit import Evidence, Fit
from ctfa.core.series import Series, centre
from ctfa.core.spaces.joint import (
    CANCELLED,
    NEARLY_EQUAL,
    ROUNDING,
    Joint,
    difference,
    fits,
    residual_of,
    squares_left,
)
from ctfa.core.types import AnyArray, BoolArray, FloatArray, IntArray, Number

#: Numbers handled at once: two megabytes.
CACHED_NUMBERS = 1 << 18


class PairedSpace:
    """Targets to merge by their mean, each regressed on inputs of its own, which are averaged too.

    Inputs go by name (the rain of its own basin, say), over the same samples. A block is the sum
    ``[X; y]`` of its members: the regression of a mean target on mean inputs does not feel the
    scale of the inputs, and its sums of squares are those of the sums over the squared size. An
    input that a task lacks is a row of zeros, so that the sum is that of the members that have it;
    a block has an input if one of its members does. One Cholesky factorization of a small Gram
    matrix, target last, is a whole regression: its last pivot is the residual sum of squares.

    The risk. A block of k members predicts each of them by the fit of its mean, so that its value,
    what it takes off the total risk of its members, is ``k (var(mean target) - risk of its fit)``.
    With ``explained`` and ``s`` of that fit an unbiased estimate for jointly Gaussian data is
    ``V = k (explained - r s F_star) / (n-1)``, ``F_star = 1 + m (n-1)/(n-r-2)`` at ``m = 1``: the
    averaged inputs need not be right for any member, what they miss is noise to them. (With the
    noise of the members' own residuals for ``s`` the variance of that part would be left out.) A
    merge gains ``V(both) - V(P) - V(Q)``, and because ``a total_P + b total_Q - (a+b) total_both``
    is ``ab/(a+b)`` times the squared difference of the mean targets, what a merge loses of
    ``explained`` and of ``residual``, over ``ab/(a+b)``, splits that square as a regression of the
    difference would, which with shared inputs it is. The gain is then
    ``ab/(a+b) r s(d) (F_star - F(d)) / (n-1)`` here too. Two things differ: ``F`` is negative where
    averaged inputs explain more than the members' own; and a merge may raise the residual
    variance, so that it loses both ways and no ``m`` pays for it.
    """

    merge_is_local = True
    foresees = False
    is_guarded = False

    def __init__(
        self,
        sums: FloatArray,
        sizes: FloatArray,
        n_inputs: int,
        has: BoolArray | None = None,
        n_samples: int | None = None,
    ) -> None:
        self._sums = sums  # (tasks, inputs then target, rows), centred; owned and changed
        self._size = sizes
        self.n_variables = int(sums.shape[0])
        # Another number than that of the rows, where these stand in for so many.
        self.n_samples = int(sums.shape[2]) if n_samples is None else n_samples
        self.n_inputs = n_inputs
        self._has = has  # (tasks, inputs): which a block has, where they differ; owned and changed
        self._square = np.einsum("ijk,ijk->ij", sums, sums)
        self._total, self._residual, self._rank = (np.empty(self.n_variables) for _ in range(3))
        # What the inputs of a block leave of its target, kept where a difference once cancelled.
        self._left: dict[int, FloatArray] = {}
        for chunk in self._chunks(self.n_variables):
            self._store(np.arange(self.n_variables)[chunk], sums[chunk])

    @classmethod
    def of(
        cls, inputs: FloatArray, targets: FloatArray, *, sizes: IntArray | None = None
    ) -> PairedSpace:
        """Build from inputs ``(tasks, samples, inputs)`` and targets ``(samples, tasks)``.

        With ``sizes``, each is the mean of so many tasks already.
        """
        n_tasks, n_samples, n_inputs = inputs.shape
        rows = np.empty((n_tasks, n_inputs + 1, n_samples))
        rows[:, :-1], rows[:, -1] = inputs.swapaxes(1, 2), targets.T
        mean = rows.mean(axis=2, keepdims=True)
        rows -= mean
        shift = rows.mean(axis=2, keepdims=True)  # the mean's own rounding
        rows -= shift
        flat = rows.reshape(-1, n_samples)
        flat[column_lengths((mean + shift).ravel(), flat.T) == 0.0] = 0.0
        # An input that varies nowhere would only send every question the slow way.
        varies = np.asarray(rows.any(axis=(0, 2)))
        varies[-1] = True
        members = np.ones(n_tasks) if sizes is None else np.asarray(sizes, dtype=float)
        return cls(rows[:, varies] * members[:, None, None], members, n_inputs)

    @classmethod
    def of_series(
        cls, series: Series, *, sizes: AnyArray | None = None, overwrite: bool = False
    ) -> PairedSpace:
        """Build from complete series; with ``overwrite`` their array becomes that of the space.

        Rows of weight zero are left out, so that the samples are those that count; the others are
        centred by their weights, then scaled by the roots of these. With ``sizes``, each task is
        the mean of so many already, or counts for so much.
        """
        if not series.is_complete:
            raise ValueError(
                "PairedSpace was given series with missing values, but it compares tasks on all "
                "rows: use GappyPairedSpace, or leave out the rows that are not complete."
            )
        weights = series.weights
        if weights is not None and not weights.all():
            series, weights, overwrite = series.take(weights > 0.0), weights[weights > 0.0], True
        sums = series.values if overwrite else series.values.copy()
        each = np.ones(sums.shape[2]) if weights is None else weights
        members = np.ones(series.n_tasks) if sizes is None else np.array(sizes, dtype=float)
        for chunk in _chunks(*sums.shape):
            rows = sums[chunk]
            rows[:, :-1][~series.has[chunk]] = 0.0
            if not series.is_centred:
                centre(rows, each)
            if weights is not None:
                rows *= np.sqrt(weights)
            if sizes is not None:
                rows *= members[chunk, None, None]
        has = None if series.has.all() else series.has.copy()
        return cls(sums, members, series.n_slots, has, series.n_samples)

    def evidence(self, block: int | IntArray, others: IntArray) -> Evidence:
        """Fits of both means, of the mean of all members, and what tells the two apart."""
        at = block if isinstance(block, np.ndarray) else slice(block, block + 1)
        a, b = self._size[at], self._size[others]
        first, second = self._joint(at), self._joint(others)
        known: list[Joint] = []

        def joint() -> Joint:
            if not known:
                known.append(self._joined(block, others))
            return known[0]

        return Evidence(
            lambda: (first.fit(self.n_samples, a), second.fit(self.n_samples, b)),
            lambda: joint().fit(self.n_samples, a + b),
            lambda: self._difference(block, others, (first, second, joint())),
        )

    def correlation(self, block: int | IntArray, others: IntArray) -> FloatArray:
        """Correlation of the mean targets."""
        mine, theirs = self._sums[block, -1], self._sums[others, -1]
        scale = np.sqrt(self._square[block, -1] * self._square[others, -1])
        products = np.einsum("...j,...j->...", mine, theirs)
        return np.where(scale > 0.0, products / np.where(scale > 0.0, scale, 1.0), 0.0)

    def merge(self, block: int, other: int) -> None:
        """Average two blocks, targets and inputs, each member with the same weight."""
        self._sums[block] = self._added(block, other)
        self._square[block] = np.einsum("ij,ij->i", self._sums[block], self._sums[block])
        self._size[block] += self._size[other]
        self.merged(block, other)
        self._store(np.array([block]), self._sums[block : block + 1])

    def directions(self, blocks: IntArray | slice) -> FloatArray:
        """Mean targets of unit length: their inner products are the correlations."""
        length = np.sqrt(self._square[blocks, -1])
        return np.asarray(self._sums[blocks, -1] / np.where(length > 0.0, length, np.inf)[:, None])

    @property
    def has_all_inputs(self) -> bool:
        """Whether no task lacks an input that another has."""
        return self._has is None

    def blocks(self) -> tuple[FloatArray, ...]:
        """Sums, sizes, squares, totals, residuals and ranks, for those that merge by themselves."""
        return self._sums, self._size, self._square, self._total, self._residual, self._rank

    def merged(self, block: int, other: int) -> None:
        """Be told that somebody merged two blocks in these arrays."""
        if self._has is not None:
            self._has[block] |= self._has[other]
        self._left.pop(block, None)
        self._left.pop(other, None)

    def expect(self, blocks: IntArray, others: IntArray) -> None:
        """Nothing to prepare."""

    def retire(self, block: int) -> None:
        """Nothing to release."""

    def mean_correlation(self) -> FloatArray:
        """Average correlation of each target with all of them."""
        length = np.sqrt(self._square[:, -1])
        targets = self._sums[:, -1] / np.where(length > 0.0, length, np.inf)[:, None]
        return np.asarray(targets @ targets.mean(axis=0))

    @property
    def total_variance(self) -> float:
        """Mean variance of the targets as they stand, the scale of losses in target units."""
        total = self._square[:, -1] / self._size**2
        return float(total.mean()) / (self.n_samples - 1)

    def _store(self, blocks: IntArray, rows: FloatArray) -> None:
        found = fits(rows)
        weak = np.flatnonzero(~found.trusted)
        if weak.size:
            found.residual[weak], found.rank[weak] = squares_left(rows[weak])
        scale = self._size[blocks] ** 2
        self._total[blocks], self._residual[blocks] = found.total / scale, found.residual / scale
        self._rank[blocks] = found.rank

    def _joint(self, at: IntArray | slice) -> Joint:
        columns: Number = self.n_inputs
        if self._has is not None:
            columns = self._has[at].sum(axis=1).astype(float)
        return Joint(self._total[at], self._residual[at], self._rank[at], columns)

    def _joined(self, block: int | IntArray, others: IntArray) -> Joint:
        """Regressions after the block is merged with each of the others."""
        columns: Number = self.n_inputs
        if self._has is not None:
            columns = (self._has[block] | self._has[others]).sum(axis=1).astype(float)
        total, residual, rank = (np.empty(others.size) for _ in range(3))
        answer = Joint(total, residual, rank, columns)
        blocks = np.broadcast_to(block, others.shape)
        for chunk in self._chunks(others.size):
            mine, theirs = blocks[chunk], others[chunk]
            shared = block if isinstance(block, int) else mine  # one row, not a copy for each
            rows = self._sums[theirs] + self._sums[shared]
            found = fits(rows, self._square[mine] + self._square[theirs])
            weak = np.flatnonzero(~found.trusted)
            if weak.size:
                added = np.stack([self._added(int(mine[k]), int(theirs[k])) for k in weak])
                found.residual[weak], found.rank[weak] = squares_left(added)
            scale = (self._size[mine] + self._size[theirs]) ** 2
            answer.total[chunk], answer.residual[chunk] = (
                found.total / scale,
                found.residual / scale,
            )
            answer.rank[chunk] = found.rank
        return answer

    def _added(self, block: int, other: int) -> FloatArray:
        """Sum two blocks; rows that cancelled are zero, not rounding."""
        rows = self._sums[block] + self._sums[other]
        before = self._square[block] + self._square[other]
        rows[np.einsum("ij,ij->i", rows, rows) <= CANCELLED * before] = 0.0
        return np.asarray(rows)

    def _difference(
        self, block: int | IntArray, others: IntArray, fitted: tuple[Joint, Joint, Joint]
    ) -> Fit:
        """Split the squared difference of two mean targets as a merge would."""
        first, second, both = fitted
        blocks = np.broadcast_to(block, others.shape)
        a, b = self._size[blocks], self._size[others]
        share = a * b / (a + b)
        gap = self._sums[blocks, -1] / a[:, None] - self._sums[others, -1] / b[:, None]
        total = np.einsum("ij,ij->i", gap, gap)
        lost = (a * first.residual + b * second.residual - (a + b) * both.residual) / share
        scale = first.total + second.total
        for k in np.flatnonzero(total < NEARLY_EQUAL * scale):
            lost[k] = self._explicitly_lost(int(blocks[k]), int(others[k])) / share[k]
            lost[k] = lost[k] if abs(lost[k]) > ROUNDING * scale[k] / share[k] else 0.0
            total[k] = total[k] if total[k] > ROUNDING**2 * scale[k] else 0.0
        return difference(fitted, (a, b), total, lost, self.n_samples)

    def _explicitly_lost(self, block: int, other: int) -> float:
        """Residual sum of squares that a merge loses, from vectors: what is left of tasks alike."""
        a, b = self._size[block], self._size[other]
        mine, theirs = self._left_of(block) / a, self._left_of(other) / b
        joint = residual_of(self._added(block, other))[0] / (a + b)
        mean, gap = (a * mine + b * theirs) / (a + b), mine - theirs
        return float(a * b / (a + b) * (gap @ gap) + (a + b) * ((mean - joint) @ (mean + joint)))

    def _left_of(self, block: int) -> FloatArray:
        if block not in self._left:
            self._left[block] = residual_of(self._sums[block])[0]
        return self._left[block]

    def _chunks(self, count: int) -> Iterator[slice]:
        return _chunks(count, *self._sums.shape[1:])


def _chunks(count: int, n_series: int, n_rows: int) -> Iterator[slice]:
    """As many blocks at once as stay in the cache."""
    width = max(1, CACHED_NUMBERS // (n_series * n_rows))
    for start in range(0, count, width):
        yield slice(start, min(start + width, count))
