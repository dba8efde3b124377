"""Targets that have inputs of their own, fitted by ridge regression (Phase I, own inputs)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ctfa.core.fit import Fit
from ctfa.core.small_fits import about_mean, judge, residual_as_if_left_out
from ctfa.core.spaces.base import unit_vectors
from ctfa.core.spaces.gappy_paired import FEWEST_ROWS, TARGET, Comparison, GappyPairedSpace
from ctfa.core.spaces.paired import LEAST_NOISE, ROUNDING
from ctfa.core.types import BoolArray, FloatArray, IntArray

#: What two blocks that cannot be compared leave unexplained: any loss of theirs is beyond limits.
NEXT_TO_NOTHING = 1e-200


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
