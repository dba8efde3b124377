"""Targets that have inputs of their own, with missing values or by ridge regression (Phase I)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple, Self

import numpy as np

from ctfa.core.design import EPS, row_scales
from ctfa.core.fit import Evidence, Fit
from ctfa.core.series import Series
from ctfa.core.small_fits import about_mean, chunks, judge, residual_as_if_left_out
from ctfa.core.spaces.base import MergeSpace, unit_vectors
from ctfa.core.spaces.paired import (
    LEAST_NOISE,
    NEARLY_EQUAL,
    ROUNDING,
    Joint,
    difference,
    fits,
    residual_lost,
    residual_of,
)
from ctfa.core.types import AnyArray, BoolArray, FloatArray, IntArray

#: Largest rounding of a value that was added up and centred, in units of its magnitude.
CONSTANT = 8.0 * EPS
#: Keeps the mean of no rows at zero instead of zero over zero.
TINY = float(np.finfo(np.float64).tiny)
#: Fewest rows that say anything: an intercept and a coefficient leave one to judge.
FEWEST_ROWS = 3
#: What two blocks that cannot be compared leave unexplained: any loss of theirs is beyond limits.
NEXT_TO_NOTHING = 1e-200
#: All series of a block, or its target alone.
EVERY, TARGET = slice(None), slice(-1, None)


class Comparison(NamedTuple):
    """Fits of both blocks and of what would replace them, on the rows common to both."""

    numbers: FloatArray  # (fits, 3, pairs): total, residual and coefficients of each
    n_inputs: FloatArray  # (fits, pairs)
    sizes: FloatArray  # (fits, pairs)
    total: FloatArray  # what a merge loses of all members' squares, over ab/(a+b)
    lost: FloatArray  # and of their residuals' squares
    n_samples: FloatArray  # enough where it does not matter, so that no division fails
    refused: BoolArray  # too few rows to judge


class GappyPairedSpace(MergeSpace):
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
        self._complete = np.stack([self._rows_of(block) for block in range(self.n_variables)])
        self._level = np.zeros(n_rows)
        self._magnitude = np.zeros((self.n_variables, n_rows))
        self._known = np.full((3, self.n_variables), np.nan)  # fits of blocks on all their rows
        self._take_level_off()

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
        tally = np.empty(sums.shape, dtype=kind)
        for task, rows in enumerate(sums):
            tally[task] = np.where(np.isnan(rows), 0, 1 if counts is None else counts[task])
            rows[tally[task] == 0] = 0.0
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
        found = cache(lambda: self._compare(block, others))
        return Evidence(
            lambda: (self._fit(found(), 0), self._fit(found(), 1)),
            lambda: self._fit(found(), 2),
            lambda: self._difference(found()),
        )

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
            enough[doubtful] = ~self._compare(mine, others[doubtful]).refused
        return np.asarray(enough)

    def correlation(self, block: int | IntArray, others: IntArray) -> FloatArray:
        """Correlation over the rows where both targets are observed; zero where one is constant."""
        found = np.empty(others.size)
        blocks = np.broadcast_to(block, others.shape)
        for chunk in chunks(others.size, 2 * self.n_samples):
            mine, theirs = blocks[chunk], others[chunk]
            common = (self._counts[mine, -1] > 0) & (self._counts[theirs, -1] > 0)
            unit = []
            for side in (mine, theirs):
                rows = self._series(side, common, TARGET)[:, 0]
                unit.append(unit_vectors(rows, np.einsum("kj,kj->k", rows, rows)))
            found[chunk] = np.einsum("kj,kj->k", *unit)
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

    @property
    def total_variance(self) -> float:
        """Mean variance of the targets as they stand, each over its own rows."""
        everyone = np.arange(self.n_variables)
        seen = self._counts[:, -1] > 0
        rows = self._centred(self._mean(everyone, TARGET), seen)
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

    def _compare(self, block: int | IntArray, others: IntArray) -> Comparison:
        """Everything that is asked about the block and each of the others."""
        blocks = np.broadcast_to(block, others.shape)
        numbers = np.zeros((3, 3, others.size))
        n_rows, total, lost = (np.zeros(others.size) for _ in range(3))
        for chunk in chunks(others.size, 2 * (self.n_inputs + 1) * self.n_samples):
            mine, theirs = blocks[chunk], others[chunk]
            common = self._complete[mine] & self._complete[theirs]
            n_rows[chunk] = common.sum(axis=1)
            both = self._union(mine, theirs, common)
            for which, side in enumerate((mine, theirs)):
                numbers[which][:, chunk] = self._alone(side, common)
            numbers[2][:, chunk] = self._solve(both, n_rows[chunk])
            total[chunk], lost[chunk] = self._losses(
                mine, theirs, common, both, numbers[..., chunk]
            )
        has, theirs_have = self._has[blocks], self._has[others]
        n_inputs = [part.sum(axis=1) for part in (has, theirs_have, has | theirs_have)]
        a, b = self._size[blocks], self._size[others]
        sizes = np.stack((a, b, a + b))
        n_samples, refused = self._enough(n_rows, numbers[:, 2].max(axis=0))
        return Comparison(numbers, np.stack(n_inputs), sizes, total, lost, n_samples, refused)

    # ------------------------------------------------------------------ by least squares

    def _enough(self, n_rows: FloatArray, rank: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Rows to count by, and where there are too few to judge fits of such a rank."""
        refused = n_rows <= rank + 2.0
        return np.where(refused, rank + 4.0, n_rows), refused

    def _solve(self, rows: FloatArray, n_rows: FloatArray) -> FloatArray:
        """Totals, residual sums of squares and coefficients of fits of blocks, ``(3, blocks)``."""
        return fits(rows)

    def _left(self, rows: FloatArray, n_rows: float) -> FloatArray:
        """What the fit of one block leaves of its target, row by row."""
        return residual_of(rows)[0]

    def _joint(self, found: Comparison, which: int) -> Joint:
        total, residual, rank = found.numbers[which]
        columns = np.minimum(found.n_inputs[which], found.n_samples - 2.0)
        return Joint(total, residual, rank, columns)

    def _fit(self, found: Comparison, which: int) -> Fit:
        """One of the three fits as a criterion is told."""
        return self._joint(found, which).fit(found.n_samples, found.sizes[which])

    def _difference(self, found: Comparison) -> Fit:
        """What a merge gives up, read as a regression of the difference of the two means."""
        fitted = self._joint(found, 0), self._joint(found, 1), self._joint(found, 2)
        a, b, _ = found.sizes
        fit = difference(fitted, (a, b), found.total, found.lost, found.n_samples)
        # All explained and nothing left is an infinite F, whatever these rows would say.
        return fit._replace(
            explained=np.where(found.refused, 1.0, fit.explained),
            residual=np.where(found.refused, 0.0, fit.residual),
        )

    # ------------------------------------------------------------------ fits and series of blocks

    def _alone(self, blocks: IntArray, common: BoolArray) -> FloatArray:
        """Fits of the blocks on common rows; those on all rows of a block are remembered."""
        on_all = (common == self._complete[blocks]).all(axis=1)
        unknown = np.unique(blocks[on_all & np.isnan(self._known[0, blocks])])
        if unknown.size:
            rows = self._complete[unknown]
            self._known[:, unknown] = self._solve(self._series(unknown, rows), rows.sum(axis=1))
        found = self._known[:, blocks]
        partly = np.flatnonzero(~on_all)
        if partly.size:
            rows = common[partly]
            found[:, partly] = self._solve(self._series(blocks[partly], rows), rows.sum(axis=1))
        return np.asarray(found)

    def _series(self, blocks: IntArray, rows: BoolArray, which: slice = EVERY) -> FloatArray:
        """Series of blocks, centred on some rows and zero elsewhere."""
        centred = self._centred(self._mean(blocks, which), rows)
        self._drop_rounding(centred, self._magnitude[blocks, which])
        return centred

    def _union(self, mine: IntArray, theirs: IntArray, common: BoolArray) -> FloatArray:
        """Series of two blocks in one."""
        sums = self._sums[theirs] + self._sums[mine]
        sums /= np.maximum(self._counts[theirs] + self._counts[mine].astype(float), 1.0)
        centred = self._centred(sums, common)
        self._drop_rounding(centred, np.maximum(self._magnitude[mine], self._magnitude[theirs]))
        return centred

    def _losses(
        self,
        mine: IntArray,
        theirs: IntArray,
        common: BoolArray,
        both: FloatArray,
        numbers: FloatArray,
    ) -> tuple[FloatArray, FloatArray]:
        """What a merge loses of all members' total and residual squares, over ``ab/(a+b)``."""
        a, b = self._size[mine], self._size[theirs]
        total = self._total_lost(mine, theirs, common, both[:, -1])
        scale = numbers[0, 0] + numbers[1, 0]
        alike = (np.abs(total) < NEARLY_EQUAL * scale) & (common.sum(axis=1) >= FEWEST_ROWS)
        near = np.flatnonzero(alike)

        def left(k: int) -> Iterator[FloatArray]:
            rows = common[k : k + 1]
            for side in (mine, theirs):
                yield self._left(self._series(side[k : k + 1], rows)[0], float(rows.sum()))
            yield self._left(both[k], float(rows.sum()))

        lost = residual_lost((a, b), numbers[:, 1], total, scale, near, map(left, near.tolist()))
        return total, lost

    def _total_lost(
        self, mine: IntArray, theirs: IntArray, common: BoolArray, both: FloatArray
    ) -> FloatArray:
        """What a merge loses of the squares of all members' targets, over ``ab/(a+b)``."""
        a, b = self._size[mine], self._size[theirs]
        gap = (self._series(mine, common, TARGET) - self._series(theirs, common, TARGET))[:, 0]
        # The mean of those observed is not the mean by size: what it moves by, free of rounding.
        here, there = self._counts[mine, -1].astype(float), self._counts[theirs, -1].astype(float)
        moved = np.where(common, here * b[:, None] - there * a[:, None], 0.0)
        total = np.einsum("ki,ki->k", gap, gap)
        if moved.any():
            moved /= np.maximum(here + there, 1.0) * (a + b)[:, None]
            raw = self._mean(mine, TARGET) - self._mean(theirs, TARGET)
            drift = self._centred(moved[:, None] * raw, common)[:, 0]
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


class PenalisedPairedSpace(GappyPairedSpace):
    """Targets to merge by their mean, each with inputs of its own, averaged too; ridge regression.

    Series, means, gaps and common rows are those of ``GappyPairedSpace``; complete series are the
    case without gaps, where the fits of blocks are remembered and only the merged one is new. Fits
    are penalised and judged by generalised cross-validation, the penalty chosen for each of
    them, so that there may be fewer rows than inputs.

    The value of a block of k members is ``k (total - residual)`` of the fit of its mean target on
    its mean inputs: both sums of squares as if each row were left out, ``total`` about the mean. A
    merge gains ``V(both) - V(P) - V(Q)``. With ``total_d`` and ``residual_d`` for what it loses of
    either sum over all members, over ``ab/(a+b)``, that is ``ab/(a+b) (residual_d - total_d)``. The
    two are what a regression of the difference of the two means would leave (with shared inputs
    and penalties they are that), and ``cross_validated_risk`` reads them as such: a loss of 1
    where nothing is gained, in units of the variance that the coefficients of the merged fit cost.

    On complete series ``total_d``, the squared difference of the mean targets, is not negative, and
    three cases are left. A merge that saves residual, ``residual_d > 0``, has a loss of at least
    ``1 - (n-1)/r``. One that raises it, because averaged inputs predict worse than the members'
    own, loses both ways and no limit pays for it: its noise is taken to be the least there is, and
    losses stay numbers, the larger the more it loses. Copies differ by nothing that a
    coefficient could tell, ``r = 1``, which is the least loss of all: they merge first. With gaps
    ``total_d`` can be negative, because the mean over those observed is not the mean by size; a
    merge that gains although it raises the residual then has as large a loss below zero.

    Two blocks with fewer than three rows in common never merge.
    """

    def _take_level_off(self) -> None:
        super()._take_level_off()
        self._whole = bool(self._complete.all()) and self.n_samples >= FEWEST_ROWS
        self.is_guarded = not self._whole
        if self._whole:
            # Once for all: sums of centred series are centred.
            weight = np.ones(self.n_samples) if self._weights is None else self._weights
            for task in range(self.n_variables):
                for _ in range(2):  # the mean's own rounding
                    level = self._sums[task] @ weight / weight.sum()
                    self._sums[task] -= level[:, None]

    def allows(self, block: int | IntArray, others: IntArray) -> BoolArray:
        """Whether the two have rows enough in common to be judged."""
        n_rows = (self._complete[block] & self._complete[others]).sum(axis=1)
        return np.asarray(n_rows >= FEWEST_ROWS)

    @property
    def directions(self) -> Callable[[IntArray | slice], FloatArray]:
        """Mean targets of unit length: on complete series their products are the correlations.

        Where values are missing there is no such thing, as a scan asks before it uses them.
        """
        if not self._whole:
            raise AttributeError("series with missing values have no directions")
        return self._directions

    def _directions(self, blocks: IntArray | slice) -> FloatArray:
        everyone = np.arange(self.n_variables)[blocks]
        rows = self._series(everyone, self._complete[everyone], TARGET)[:, 0]
        return unit_vectors(rows, np.einsum("kj,kj->k", rows, rows))

    def _centred(self, rows: FloatArray, kept: BoolArray) -> FloatArray:
        if not self._whole:
            return super()._centred(rows, kept)
        return rows if self._weights is None else rows * np.sqrt(self._weights)

    # ------------------------------------------------------------------ by ridge regression

    def _enough(self, n_rows: FloatArray, rank: FloatArray) -> tuple[FloatArray, BoolArray]:
        return np.maximum(n_rows, FEWEST_ROWS), n_rows < FEWEST_ROWS

    def _solve(self, rows: FloatArray, n_rows: FloatArray) -> FloatArray:
        """Totals in sample, residuals as if each row were left out, coefficients used."""
        found = judge(rows, np.maximum(n_rows, 1.0), 1.0)
        total = np.einsum("kn,kn->k", rows[:, -1], rows[:, -1])
        return np.stack((total, found.residual, found.used))

    def _left(self, rows: FloatArray, n_rows: float) -> FloatArray:
        return residual_as_if_left_out(rows, n_rows)

    def _fit(self, found: Comparison, which: int) -> Fit:
        total, residual, used = found.numbers[which]
        n = found.n_samples
        explained = about_mean(total, n, 1.0) - residual
        return Fit(explained, residual, n, found.n_inputs[which], used, n - 1.0, found.sizes[which])

    def _difference(self, found: Comparison) -> Fit:
        n = found.n_samples
        total = about_mean(found.total, n, 1.0)
        residual, rank = found.lost, found.numbers[2, 2]
        explained = total - residual
        # Without inputs the mean is all there is, and rounding must not decide.
        empty = ~found.numbers[:, 2].any(axis=0)
        explained, residual = np.where(empty, 0.0, explained), np.where(empty, total, residual)
        copies = (total == 0.0) & (residual == 0.0)
        rank = np.where(copies, 1.0, rank)
        # No limit pays for a rise of the residual: the least noise, and the gain as it is.
        scale = found.numbers[0, 0] + found.numbers[1, 0]
        least = LEAST_NOISE * np.maximum(np.abs(total), ROUNDING * scale)
        residual = np.where(copies, 0.0, np.maximum(residual, least))
        explained = np.where(found.refused, 1.0, explained)
        residual = np.where(found.refused, NEXT_TO_NOTHING, residual)
        return Fit(explained, residual, n, found.n_inputs[2], rank, n - 1.0, found.sizes[2])
