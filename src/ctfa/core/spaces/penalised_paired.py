"""Targets that have inputs of their own, fitted by ridge regression (Phase I, own inputs)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Self

import numpy as np

from ctfa.core.fit import Evidence, Fit
from ctfa.core.penalised_fits import about_mean, judge, residual_as_if_left_out
from ctfa.core.series import Series
from ctfa.core.spaces.gappy_paired import GappyPairedSpace
from ctfa.core.spaces.joint import LEAST_NOISE, NEARLY_EQUAL, ROUNDING
from ctfa.core.types import AnyArray, BoolArray, FloatArray, IntArray

#: Fewest rows on which two blocks are compared: an intercept and a coefficient leave one to judge.
FEWEST_ROWS = 3
#: What two blocks that cannot be compared leave unexplained: any loss of theirs is beyond limits.
NEXT_TO_NOTHING = 1e-200


class PenalisedPairedSpace(GappyPairedSpace):
    """Targets to merge by their mean, each with inputs of its own, averaged too; ridge regression.

    Series, means, gaps and common rows are those of ``GappyPairedSpace``; complete series are the
    case without gaps, where the fits of blocks are remembered and only the merged one is new. Fits
    are penalised and judged by generalised cross-validation, the penalty chosen anew for each of
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
        super().__init__(sums, counts, sizes, has, row_scale=row_scale, every_column=every_column)
        self._whole = bool(self._complete.all()) and self.n_samples >= FEWEST_ROWS
        self.is_guarded = not self._whole
        if self._whole:
            # Once for all: sums of centred series are centred.
            weight = np.ones(self.n_samples) if self._weights is None else self._weights
            for task in range(self.n_variables):
                for _ in range(2):  # the mean's own rounding
                    level = self._sums[task] @ weight / weight.sum()
                    self._sums[task] -= level[:, None]

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

        With ``sizes``, each task is the mean of so many already: all of them wherever a value is
        observed, unless ``counts`` ``(tasks, slots + 1, rows)`` say how many. Rows of weight zero
        are left out.
        """
        if sizes is not None and counts is None:
            counts = np.broadcast_to(np.asarray(sizes)[:, None, None], series.values.shape)
        return super().of_series(
            series, sizes=sizes, counts=counts, every_column=every_column, overwrite=overwrite
        )

    def evidence(self, block: int | IntArray, others: IntArray) -> Evidence:
        """Judged fits of both means, of the mean of all members, and what a merge loses."""
        known: list[Comparison] = []

        def compared() -> Comparison:
            if not known:
                known.append(self._compare(block, others))
            return known[0]

        return Evidence(
            lambda: (compared().fit(0), compared().fit(1)),
            lambda: compared().fit(2),
            lambda: compared().difference(),
        )

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
        rows = self._of_whole(self._sums[everyone, -1:], self._counts[everyone, -1:, :1])
        self._drop_rounding(rows, self._magnitude[everyone, -1:])
        length = np.sqrt(np.einsum("kij,kij->k", rows, rows))
        return np.asarray(rows[:, 0] / np.where(length > 0.0, length, np.inf)[:, None])

    def _compare(self, block: int | IntArray, others: IntArray) -> Comparison:
        """Everything that is asked about the block and each of the others."""
        blocks = np.broadcast_to(block, others.shape)
        numbers = np.zeros((3, 3, others.size))  # total, residual, coefficients of three fits
        n_rows, total, lost = (np.zeros(others.size) for _ in range(3))
        for chunk in self._chunks(others.size, self.n_inputs + 1):
            mine, theirs = blocks[chunk], others[chunk]
            common = self._complete[mine] & self._complete[theirs]
            n_rows[chunk] = common.sum(axis=1)
            views = self._both(mine, theirs, common)
            for which, side in enumerate((mine, theirs)):
                numbers[which][:, chunk] = self._fitted(side, common)
            numbers[2][:, chunk] = _judged(views, n_rows[chunk])
            total[chunk], lost[chunk] = self._lost(mine, theirs, common, views, numbers[..., chunk])
        columns = np.stack(
            (
                self._has[blocks].sum(axis=1),
                self._has[others].sum(axis=1),
                (self._has[blocks] | self._has[others]).sum(axis=1),
            )
        )
        sizes = np.stack((self._size[blocks], self._size[others]))
        return Comparison(numbers, columns, sizes, total, lost, n_rows)

    def _fitted(self, blocks: IntArray, common: BoolArray) -> FloatArray:
        """Fits of the blocks on common rows; those on all rows of a block are remembered."""
        on_all = (
            np.ones(blocks.size, dtype=bool)
            if self._whole
            else (common == self._complete[blocks]).all(axis=1)
        )
        unknown = np.unique(blocks[on_all & np.isnan(self._known[0, blocks])])
        if unknown.size:
            rows = self._complete[unknown]
            self._known[:, unknown] = _judged(self._alone_on(unknown, rows), rows.sum(axis=1))
        found = self._known[:, blocks]
        partly = np.flatnonzero(~on_all)
        if partly.size:
            rows = common[partly]
            found[:, partly] = _judged(self._alone_on(blocks[partly], rows), rows.sum(axis=1))
        return np.asarray(found)

    def _alone_on(
        self, blocks: IntArray, rows: BoolArray, which: slice = slice(None)
    ) -> FloatArray:
        """Series of blocks, centred on some rows and zero elsewhere."""
        if self._whole:
            centred = self._of_whole(self._sums[blocks, which], self._counts[blocks, which, :1])
        else:
            centred = self._centred(self._mean(blocks, which), rows)
        self._drop_rounding(centred, self._magnitude[blocks, which])
        return centred

    def _both(self, mine: IntArray, theirs: IntArray, common: BoolArray) -> FloatArray:
        """Series of two blocks in one."""
        sums = self._sums[theirs] + self._sums[mine]
        if self._whole:
            counts = self._counts[theirs, :, :1] + self._counts[mine, :, :1].astype(float)
            centred = self._of_whole(sums, counts)
        else:
            sums /= np.maximum(self._counts[theirs] + self._counts[mine].astype(float), 1.0)
            centred = self._centred(sums, common)
        magnitude = np.maximum(self._magnitude[mine], self._magnitude[theirs])
        self._drop_rounding(centred, magnitude)
        return centred

    def _of_whole(self, sums: FloatArray, counts: AnyArray) -> FloatArray:
        """Means of complete series, which are centred already."""
        mean = sums / np.maximum(counts, 1.0)
        return np.asarray(mean if self._weights is None else mean * np.sqrt(self._weights))

    def _lost(
        self,
        mine: IntArray,
        theirs: IntArray,
        common: BoolArray,
        both: FloatArray,
        numbers: FloatArray,
    ) -> tuple[FloatArray, FloatArray]:
        """What a merge loses of all members' judged sums, about means and of residuals."""
        a, b = self._size[mine], self._size[theirs]
        share = a * b / (a + b)
        target = slice(-1, None)
        first, second = (self._alone_on(side, common, target)[:, 0] for side in (mine, theirs))
        if self._whole:
            gap = first - second
            total = np.einsum("ki,ki->k", gap, gap)
        else:
            total = self._total_lost(mine, theirs, common, [first, second, both[:, -1]])
        residual = numbers[:, 1]
        lost = (a * residual[0] + b * residual[1] - (a + b) * residual[2]) / share
        scale = numbers[0, 0] + numbers[1, 0]
        near = np.abs(total) < NEARLY_EQUAL * scale
        for k in np.flatnonzero(near & (common.sum(axis=1) >= FEWEST_ROWS)):
            at, rows = slice(k, k + 1), common[k : k + 1]
            n_rows = float(rows.sum())
            left, right, joint = (
                residual_as_if_left_out(series[0], n_rows)
                for series in (
                    self._alone_on(mine[at], rows),
                    self._alone_on(theirs[at], rows),
                    both[at],
                )
            )
            middle, apart = (a[k] * left + b[k] * right) / (a[k] + b[k]), left - right
            lost[k] = apart @ apart
            lost[k] += (a[k] + b[k]) / share[k] * ((middle - joint) @ (middle + joint))
            lost[k] = lost[k] if abs(lost[k]) > ROUNDING * scale[k] / share[k] else 0.0
            total[k] = total[k] if abs(total[k]) > ROUNDING**2 * scale[k] else 0.0
        return total, lost


class Comparison(NamedTuple):
    """Fits of both blocks and of what would replace them, on the rows common to both."""

    numbers: FloatArray  # (fits, 3, pairs): total in sample, residual judged, coefficients used
    n_inputs: FloatArray  # (fits, pairs)
    sizes: FloatArray  # (2, pairs)
    total: FloatArray  # what a merge loses of all members' squares in sample, over ab/(a+b)
    lost: FloatArray  # and of their judged residuals' squares
    n_rows: FloatArray

    @property
    def refused(self) -> BoolArray:
        """Whether there are too few rows to judge."""
        return self.n_rows < FEWEST_ROWS

    @property
    def n_samples(self) -> FloatArray:
        """Rows; enough where it does not matter, so that no division fails."""
        return np.maximum(self.n_rows, FEWEST_ROWS)

    def fit(self, which: int) -> Fit:
        """One of the three fits as a criterion is told."""
        total, residual, used = self.numbers[which]
        size = self.sizes[which] if which < 2 else self.sizes.sum(axis=0)
        explained = about_mean(total, self.n_samples, 1.0) - residual
        n = self.n_samples
        return Fit(explained, residual, n, self.n_inputs[which], used, n - 1.0, size)

    def difference(self) -> Fit:
        """What a merge gives up, read as a regression of the difference of the two means."""
        n = self.n_samples
        total = about_mean(self.total, n, 1.0)
        residual, rank = self.lost, self.numbers[2, 2]
        explained = total - residual
        # Without inputs the mean is all there is, and rounding must not decide.
        empty = ~self.numbers[:, 2].any(axis=0)
        explained, residual = np.where(empty, 0.0, explained), np.where(empty, total, residual)
        copies = (total == 0.0) & (residual == 0.0)
        rank = np.where(copies, 1.0, rank)
        # No limit pays for a rise of the residual: the least noise, and the gain as it is.
        scale = self.numbers[0, 0] + self.numbers[1, 0]
        least = LEAST_NOISE * np.maximum(np.abs(total), ROUNDING * scale)
        residual = np.where(copies, 0.0, np.maximum(residual, least))
        explained = np.where(self.refused, 1.0, explained)
        residual = np.where(self.refused, NEXT_TO_NOTHING, residual)
        return Fit(explained, residual, n, self.n_inputs[2], rank, n - 1.0, self.sizes.sum(axis=0))


def _judged(rows: FloatArray, n_rows: AnyArray) -> FloatArray:
    """Total in sample, residual as if left out, coefficients used: ``(3, blocks)``."""
    found = judge(rows, np.maximum(n_rows, 1.0), 1.0)
    total = np.einsum("kn,kn->k", rows[:, -1], rows[:, -1])
    return np.stack((total, found.residual, found.used))
