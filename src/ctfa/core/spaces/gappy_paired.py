"""Targets that have inputs of their own, with missing values (Phase I, own inputs)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Self

import numpy as np

from ctfa.core.design import EPS, row_scales
from ctfa.core.fit import Evidence, Fit
from ctfa.core.series import Series
from ctfa.core.spaces.joint import (
    NEARLY_EQUAL,
    ROUNDING,
    Joint,
    difference,
    fits,
    residual_of,
    squares_left,
)
from ctfa.core.types import AnyArray, BoolArray, FloatArray, IntArray

#: Numbers handled at once: one megabyte an array, of which there are several.
CACHED_NUMBERS = 1 << 17
#: Largest rounding of a value that was added up and centred, in units of its magnitude.
CONSTANT = 8.0 * EPS
#: Keeps the mean of no rows at zero instead of zero over zero.
TINY = float(np.finfo(np.float64).tiny)


class GappyPairedSpace:
    """Targets to merge by the mean of those observed, each with inputs of its own, averaged too.

    Row by row the series of a block, its target and each of its inputs, is the mean of the members
    observed there. A block is complete in the rows where its target and every input that any of
    its members has are observed by at least one member. Two blocks are compared on the rows where
    both are complete, exactly as if these were all there is: the fits of both, the fit of the mean
    of all observed members of both, their ranks and degrees of freedom. On complete data the
    answers are those of ``PairedSpace``.

    What is exact: every fit, and with it the value ``k (explained - r s F_star)/(n-1)`` of a block
    of k members on these rows, and the gain of a merge as the difference of such values, with the
    sizes of the blocks whether or not all members are observed. What is dropped: rows where only
    one of two blocks is complete; rows where a block lacks one of its inputs; that a mean of few
    members has more noise than one of many (rows count the same, or by their weights); and that
    members of different level make a mean jump where one of them is missing, so centre the series
    first. A merge can therefore lose what only the rows outside would have shown, and ``F`` can be
    negative not only where averaged inputs explain more but where the mean over those observed is
    not the mean by size.

    Two blocks with too few common rows to judge, ``n <= rank + 2`` of any of the three fits, never
    merge, whatever the limit. ``mse`` counts columns, not ranks: with ``every_column`` pairs
    without degrees of freedom by that count, ``n <= columns + 1``, never merge either, which are
    the authors' decisions.
    """

    merge_is_local = True
    foresees = False
    is_guarded = True  # pairs of too few rows

    def __init__(
        self,
        sums: FloatArray,
        counts: AnyArray,
        sizes: FloatArray,
        has: BoolArray,
        *,
        row_scale: FloatArray | None = None,
        every_column: bool = False,
    ) -> None:
        self._sums = sums  # (tasks, inputs then target, rows): of those observed; owned and changed
        self._counts = counts  # how many they are, small integers; owned and changed
        self._size = sizes
        self._has = has
        self.n_variables, n_rows, self.n_samples = map(int, sums.shape)
        self.n_inputs = n_rows - 1
        self._weights = None if row_scale is None else row_scale**2
        self._every_column = every_column
        self._complete = np.empty((self.n_variables, self.n_samples), dtype=bool)
        self._level = np.zeros(n_rows)
        self._magnitude = np.zeros((self.n_variables, n_rows))
        self._known = np.full((3, self.n_variables), np.nan)  # fits of blocks on all their rows
        self._take_level_off()
        for block in range(self.n_variables):
            self._complete[block] = self._rows_of(block)

    @classmethod
    def of_series(
        cls,
        series: Series,
        *,
        sizes: AnyArray | None = None,
        counts: AnyArray | None = None,
        every_column: bool = False,
        overwrite: bool = False,
    ) -> Self:
        """Build from series with NaN where missing; with ``overwrite`` their array is taken over.

        Tasks that are means of several already come with ``sizes``, their members, and ``counts``
        ``(tasks, slots + 1, rows)``, how many of these were observed. Both may be weights instead;
        counts are then one or more where anything is observed. Rows of weight zero are left out.
        """
        weights = series.weights
        if weights is not None and not weights.all():
            used = weights > 0.0
            counts = None if counts is None else counts[:, :, used]
            series, overwrite = series.take(used), True
        sums = series.values if overwrite else series.values.copy()
        members = np.ones(series.n_tasks) if sizes is None else np.array(sizes, dtype=float)
        kind = np.min_scalar_type(int(members.sum()))  # a group of everybody must fit
        if (members != np.round(members)).any():
            kind = np.dtype(float)
        if counts is None:
            tally = np.empty(sums.shape, dtype=kind)
            for task, rows in enumerate(sums):
                np.copyto(tally[task], ~np.isnan(rows))
        else:
            tally = np.where(np.isnan(sums), 0, counts).astype(kind)
        for task in range(series.n_tasks):
            sums[task][tally[task] == 0] = 0.0
            if counts is not None:
                sums[task] *= tally[task]
        row_scale = None if series.weights is None else row_scales(series.n_rows, series.weights)[1]
        return cls(
            sums,
            tally,
            members,
            series.has.copy(),
            row_scale=row_scale,
            every_column=every_column,
        )

    def evidence(self, block: int | IntArray, others: IntArray) -> Evidence:
        """Fits on common rows: of both means, of the mean of all observed members of both."""
        known: list[Answer] = []

        def answer() -> Answer:
            if not known:
                known.append(self._answer(block, others))
            return known[0]

        def before() -> tuple[Fit, Fit]:
            found = answer()
            a, b = found.sizes
            return (
                found.fitted[0].fit(found.n_samples, a),
                found.fitted[1].fit(found.n_samples, b),
            )

        def after() -> Fit:
            found = answer()
            return found.fitted[2].fit(found.n_samples, found.sizes[0] + found.sizes[1])

        def apart() -> Fit:
            found = answer()
            fit = difference(found.fitted, found.sizes, found.total, found.lost, found.n_samples)
            # All explained and nothing left is an infinite F, whatever these rows would say.
            return fit._replace(
                explained=np.where(found.refused, 1.0, fit.explained),
                residual=np.where(found.refused, 0.0, fit.residual),
            )

        return Evidence(before, after, apart)

    def allows(self, block: int | IntArray, others: IntArray) -> BoolArray:
        """Whether the two have rows enough in common to be judged."""
        n_rows = (self._complete[block] & self._complete[others]).sum(axis=1)
        columns = (self._has[block] | self._has[others]).sum(axis=1)
        if self._every_column:
            enough = n_rows > columns + 1
        else:
            enough = np.ones(others.size, dtype=bool)
        doubtful = np.flatnonzero(enough & (n_rows <= columns + 2))
        if doubtful.size:  # the rank decides, and it takes the fits
            mine = np.broadcast_to(block, others.shape)[doubtful]
            enough[doubtful] = ~self._answer(mine, others[doubtful]).refused
        return np.asarray(enough)

    def correlation(self, block: int | IntArray, others: IntArray) -> FloatArray:
        """Correlation over the rows where both targets are observed; zero where one is constant."""
        found = np.empty(others.size)
        blocks = np.broadcast_to(block, others.shape)
        for chunk in self._chunks(others.size, 1):
            mine, theirs = blocks[chunk], others[chunk]
            common = (self._counts[mine, -1] > 0) & (self._counts[theirs, -1] > 0)
            unit = []
            for side in (mine, theirs):
                rows = self._centred(self._mean(side, slice(-1, None)), common)
                self._drop_rounding(rows, self._magnitude[side, -1:])
                square = np.einsum("kij,kij->k", rows, rows)
                unit.append(rows / np.sqrt(np.where(square > 0.0, square, np.inf))[:, None, None])
            found[chunk] = np.einsum("kij,kij->k", *unit)
        return found

    def merge(self, block: int, other: int) -> None:
        """Average two blocks, each observed member with the same weight."""
        self._sums[block] += self._sums[other]
        self._counts[block] += self._counts[other]
        self._has[block] |= self._has[other]
        self._size[block] += self._size[other]
        np.maximum(self._magnitude[block], self._magnitude[other], out=self._magnitude[block])
        self._complete[block] = self._rows_of(block)
        self._known[:, block] = np.nan

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
        everyone = np.arange(self.n_variables)
        seen = self._counts[:, -1] > 0
        rows = self._centred(self._mean(everyone, slice(-1, None)), seen)
        n_rows = np.maximum(seen.sum(axis=1) - 1, 1)
        return float((np.einsum("kij,kij->k", rows, rows) / n_rows).mean())

    def _take_level_off(self) -> None:
        """Take one constant off each input and the target of all tasks, which changes no answer.

        Without the common part of a large level sums keep their digits.
        """
        n_values = np.zeros(self._level.size)
        for rows, counts in zip(self._sums, self._counts, strict=True):
            self._level += rows.sum(axis=1)
            n_values += counts.sum(axis=1)
        self._level /= np.maximum(n_values, 1.0)
        for task, counts in enumerate(self._counts):
            self._sums[task] -= self._level[:, None] * counts
            means = self._sums[task] / np.maximum(counts, 1)
            largest = np.abs(means).max(axis=1, initial=0.0)
            self._magnitude[task] = largest + np.abs(self._level)

    def _rows_of(self, block: int) -> BoolArray:
        """Rows where a block is complete."""
        counts = self._counts[block]
        seen = (counts[:-1] > 0) | ~self._has[block][:, None]
        return np.asarray(seen.all(axis=0) & (counts[-1] > 0))

    def _answer(self, block: int | IntArray, others: IntArray) -> Answer:
        """Everything that is asked about the block and each of the others."""
        blocks = np.broadcast_to(block, others.shape)
        a, b = self._size[blocks], self._size[others]
        n_samples = np.zeros(others.size)
        numbers = np.zeros((3, 3, others.size))  # total, residual, rank of each of three fits
        total, lost = np.zeros(others.size), np.zeros(others.size)
        for chunk in self._chunks(others.size, self.n_inputs + 1):
            mine, theirs = blocks[chunk], others[chunk]
            common = self._complete[mine] & self._complete[theirs]
            n_samples[chunk] = common.sum(axis=1)
            views = self._views(mine, theirs, common)
            for which, side in enumerate((mine, theirs)):
                numbers[which][:, chunk] = self._alone(side, common, views[which])
            numbers[2][:, chunk] = _solved(views[2])
            total[chunk], lost[chunk] = self._losses(
                mine, theirs, common, views, numbers[:, :, chunk]
            )
        columns = (
            self._has[blocks].sum(axis=1),
            self._has[others].sum(axis=1),
            (self._has[blocks] | self._has[others]).sum(axis=1),
        )
        most = numbers[:, 2].max(axis=0)
        refused = n_samples <= most + 2.0
        # Enough, where it does not matter: those are refused, and no division fails.
        n_samples = np.where(refused, most + 4.0, n_samples)
        first, second, both = (
            Joint(part[0], part[1], part[2], np.minimum(given, n_samples - 2.0))
            for part, given in zip(numbers, columns, strict=True)
        )
        return Answer((first, second, both), (a, b), total, lost, n_samples, refused)

    def _alone(self, blocks: IntArray, common: BoolArray, rows: FloatArray) -> FloatArray:
        """Fits of the blocks on common rows; those on all rows of a block are remembered."""
        found = self._known[:, blocks]
        known = ~np.isnan(found[0]) & (common == self._complete[blocks]).all(axis=1)
        asked = np.flatnonzero(~known)
        if asked.size:
            found[:, asked] = _solved(rows[asked])
            whole = asked[(common[asked] == self._complete[blocks[asked]]).all(axis=1)]
            self._known[:, blocks[whole]] = found[:, whole]
        return np.asarray(found)

    def _views(self, mine: IntArray, theirs: IntArray, common: BoolArray) -> list[FloatArray]:
        """Both blocks and their union in pairs, centred on common rows and zero elsewhere."""
        every = slice(None)
        same = bool((mine == mine[0]).all())
        first = self._mean(mine[:1] if same else mine, every)
        second = self._mean(theirs, every)
        sums = self._sums[theirs] + self._sums[mine]
        sums /= np.maximum(self._counts[theirs] + self._counts[mine].astype(float), 1.0)
        magnitudes = (
            self._magnitude[mine],
            self._magnitude[theirs],
            np.maximum(self._magnitude[mine], self._magnitude[theirs]),
        )
        views = []
        for rows, magnitude in zip((first, second, sums), magnitudes, strict=True):
            centred = self._centred(rows, common)
            self._drop_rounding(centred, magnitude)
            views.append(centred)
        return views

    def _losses(
        self,
        mine: IntArray,
        theirs: IntArray,
        common: BoolArray,
        views: list[FloatArray],
        numbers: FloatArray,
    ) -> tuple[FloatArray, FloatArray]:
        """What a merge loses of all members' total and residual squares, over ``ab/(a+b)``."""
        a, b = self._size[mine], self._size[theirs]
        share = a * b / (a + b)
        total = self._total_lost(mine, theirs, common, [rows[:, -1] for rows in views])
        residual = numbers[:, 1]
        lost = (a * residual[0] + b * residual[1] - (a + b) * residual[2]) / share
        scale = numbers[0, 0] + numbers[1, 0]
        for k in np.flatnonzero(np.abs(total) < NEARLY_EQUAL * scale):
            left, right, joint = (residual_of(rows[k])[0] for rows in views)
            middle, apart = (a[k] * left + b[k] * right) / (a[k] + b[k]), left - right
            lost[k] = apart @ apart
            lost[k] += (a[k] + b[k]) / share[k] * ((middle - joint) @ (middle + joint))
            lost[k] = lost[k] if abs(lost[k]) > ROUNDING * scale[k] / share[k] else 0.0
            total[k] = total[k] if abs(total[k]) > ROUNDING**2 * scale[k] else 0.0
        return total, lost

    def _total_lost(
        self, mine: IntArray, theirs: IntArray, common: BoolArray, targets: list[FloatArray]
    ) -> FloatArray:
        """What a merge loses of the squares of all members' targets, over ``ab/(a+b)``."""
        a, b = self._size[mine], self._size[theirs]
        gap, both = targets[0] - targets[1], targets[2]
        # The mean of those observed is not the mean by size: what it moves by, free of rounding.
        here, there = self._counts[mine, -1].astype(float), self._counts[theirs, -1].astype(float)
        moved = here * b[:, None] - there * a[:, None]
        moved /= np.maximum(here + there, 1.0) * (a + b)[:, None]
        raw = self._mean(mine, slice(-1, None)) - self._mean(theirs, slice(-1, None))
        drift = self._centred(moved[:, None] * raw, common)[:, 0]
        total = np.einsum("ki,ki->k", gap, gap)
        total -= (a + b) ** 2 / (a * b) * np.einsum("ki,ki->k", drift, 2.0 * both - drift)
        return np.asarray(total)

    def _mean(self, blocks: IntArray, which: slice) -> FloatArray:
        """Means of those observed, zero where nobody is."""
        return np.asarray(self._sums[blocks, which] / np.maximum(self._counts[blocks, which], 1))

    def _centred(self, rows: FloatArray, kept: BoolArray) -> FloatArray:
        """Centre on the rows kept, by their weights, which count as many as there are rows."""
        weight = kept.astype(float) if self._weights is None else kept * self._weights
        total = np.maximum(weight.sum(axis=1), TINY)
        centred = rows - (np.einsum("...ij,...j->...i", rows, weight) / total[:, None])[:, :, None]
        shift = np.einsum("...ij,...j->...i", centred, weight) / total[:, None]
        centred -= shift[:, :, None]  # the mean's own rounding
        scale = (
            kept if self._weights is None else np.sqrt(weight * (kept.sum(axis=1) / total)[:, None])
        )
        centred *= scale[:, None]
        return np.asarray(centred)

    def _drop_rounding(self, centred: FloatArray, magnitude: FloatArray) -> None:
        """Make a series zero that is constant on its rows, or whose members cancel."""
        length = np.sqrt(np.einsum("kij,kij->ki", centred, centred))
        centred[length <= CONSTANT * np.sqrt(self.n_samples) * magnitude] = 0.0

    def _chunks(self, count: int, n_rows: int) -> Iterator[slice]:
        """As many blocks at once as stay in the cache."""
        width = max(1, CACHED_NUMBERS // max(1, n_rows * self.n_samples))
        for start in range(0, count, width):
            yield slice(start, min(start + width, count))


class Answer(NamedTuple):
    """Fits of both blocks and of what would replace them, on the rows common to both."""

    fitted: tuple[Joint, Joint, Joint]
    sizes: tuple[FloatArray, FloatArray]
    total: FloatArray  # what a merge loses of all members' squares, over ab/(a+b)
    lost: FloatArray  # and of their residuals' squares
    n_samples: FloatArray
    refused: BoolArray  # too few rows to judge


def _solved(rows: FloatArray) -> FloatArray:
    """Total and residual sums of squares and ranks, ``(3, blocks)``."""
    found = fits(rows)
    weak = np.flatnonzero(~found.trusted)
    if weak.size:
        found.residual[weak], found.rank[weak] = squares_left(rows[weak])
    return np.stack((found.total, found.residual, found.rank))
