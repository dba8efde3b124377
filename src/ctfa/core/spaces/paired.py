"""Targets that have inputs of their own, sample by sample in pairs (Phase I, own inputs)."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy import linalg

from ctfa.core.design import EPS, row_scales
from ctfa.core.fit import Evidence, Fit
from ctfa.core.series import CONSTANT, Series, centre
from ctfa.core.small_fits import about_mean, chunks, judge, residual_as_if_left_out
from ctfa.core.spaces.base import MergeSpace, correlations, unit_vectors
from ctfa.core.types import AnyArray, BoolArray, FloatArray, IntArray

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
    n_inputs: FloatArray  # (fits, pairs): columns given, as the `mse` criterion counts them
    sizes: FloatArray  # (fits, pairs)
    total: FloatArray  # what a merge loses of all members' squares, over ab/(a+b)
    lost: FloatArray  # and of their residuals' squares
    n_samples: FloatArray  # enough where it does not matter, so that no division fails
    refused: BoolArray  # too few rows to judge


class LeastSquares(NamedTuple):
    """Blocks judged by least squares; two with ``n <= rank + 2`` common rows never merge.

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

    ``mse`` counts columns, not ranks: with ``every_column`` pairs without degrees of freedom by
    that count, ``n <= columns + 1``, never merge either, which are the authors' decisions.
    """

    every_column: bool = False

    def enough(self, n_rows: FloatArray, columns: FloatArray) -> tuple[BoolArray, BoolArray]:
        """Whether rows are enough to judge fits on so many columns, and where the rank decides."""
        enough = n_rows > columns + 1 if self.every_column else np.ones(n_rows.shape, dtype=bool)
        return enough, enough & (n_rows <= columns + 2)

    def counted(self, n_rows: FloatArray, rank: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Rows to count by, and where there are too few to judge fits of such a rank."""
        refused = n_rows <= rank + 2.0
        return np.where(refused, rank + 4.0, n_rows), refused

    def solve(
        self, rows: FloatArray, n_rows: FloatArray, before: FloatArray | None = None
    ) -> FloatArray:
        """Totals, residual sums of squares and coefficients of fits of blocks, ``(3, blocks)``.

        By Gram matrices, and by singular values of the rows where these lose too many digits. A row
        of zeros, an input that a block lacks or that is constant, counts for nothing and costs
        nothing: it is an orthogonal direction of its own, whose pivot is one.
        """
        gram = rows @ rows.swapaxes(1, 2)
        diagonal = np.arange(rows.shape[1])
        square = gram[:, diagonal, diagonal]
        if before is not None and drop_cancelled(rows, square, before):
            return self.solve(rows, n_rows)
        empty = square == 0.0
        scale = np.sqrt(np.where(empty, 1.0, square))
        gram /= scale[:, :, None] * scale[:, None, :]
        gram[:, diagonal, diagonal] += empty
        pivot = pivots(gram)
        rank = np.count_nonzero(~empty[:, :-1], axis=1).astype(float)
        found: FloatArray = np.stack((square[:, -1], pivot[:, -1] * square[:, -1], rank))
        weak = np.flatnonzero(~(pivot > TRUSTED_PIVOT).all(axis=1))
        if weak.size:
            found[1:, weak] = squares_left(rows[weak])
        return found

    def left(self, rows: FloatArray, n_rows: float) -> FloatArray:
        """What the fit of one block leaves of its target, row by row; by singular values."""
        inputs: FloatArray = rows[:-1]
        target: FloatArray = rows[-1]
        length = np.sqrt(np.einsum("ij,ij->i", inputs, inputs))
        columns = (inputs[length > 0.0] / length[length > 0.0, None]).T
        if columns.shape[1] == 0:
            return np.asarray(target)
        left, values, _ = linalg.svd(columns, full_matrices=False, check_finite=False)
        basis = left[:, values > max(columns.shape) * EPS * values[0]]
        for _ in range(2):  # twice: the first sweep leaves rounding of the fit
            target = target - basis @ (basis.T @ target)
        return np.asarray(target)

    def fit(self, found: Comparison, which: int) -> Fit:
        """One of the three fits as a criterion is told."""
        total, residual, rank = found.numbers[which]
        n, columns = found.n_samples, np.minimum(found.n_inputs[which], found.n_samples - 2.0)
        dof = n - rank - 1.0
        return Fit(total - residual, residual, n, columns, rank, dof, found.sizes[which])

    def difference(self, found: Comparison) -> Fit:
        """What a merge loses, put as a regression that it gives up.

        That is the squared difference of two means, split into what inputs explain of it and the
        rest.
        """
        totals, residuals, ranks = found.numbers.swapaxes(0, 1)
        a, b, size = found.sizes
        n_samples, total = found.n_samples, found.total
        explained, residual = total - found.lost, found.lost
        rank = np.maximum(ranks[2], 1.0)
        dof = n_samples - rank - 1.0
        if (ranks != rank).any():
            # Fits of different rank pay differently for their noise: count it in units of the
            # merged fit's, so that the gain is the same.
            noise = np.stack((a, b, -size)) / (a * b / size) * residuals
            per_residual, unit = ranks / (n_samples - ranks - 1.0), credit(rank, n_samples)
            reference = rank / dof
            extra = (noise * (credit(ranks, n_samples) / unit - 1.0)).sum(axis=0)
            explained = explained + reference * extra
            explained -= (noise * (per_residual - reference)).sum(axis=0)
            # Two blocks without inputs are told apart by nothing, which rounding must not decide.
            empty = ~ranks.any(axis=0)
            explained = np.where(empty, 0.0, explained)
            residual = np.where(empty, total, residual + extra)
        # Where a merge saves no noise variance no credit decides, only the gain itself: hold that
        # at m = 1 and let the noise be the least there is, so that losses stay numbers in order.
        least = LEAST_NOISE * np.maximum(total, ROUNDING * (totals[0] + totals[1]))
        none_saved = (residual < least) & ((explained != 0.0) | (residual != 0.0))
        if none_saved.any():
            f_star = 1.0 + (n_samples - 1.0) / (dof - 1.0)
            raised = np.where(none_saved, least - residual, 0.0)
            explained = explained + rank / dof * f_star * raised
            residual = np.where(none_saved, least, residual)
        # All explained and nothing left is an infinite F, whatever too few rows would say.
        explained = np.where(found.refused, 1.0, explained)
        residual = np.where(found.refused, 0.0, residual)
        columns = np.minimum(found.n_inputs[2], n_samples - 2.0)
        return Fit(explained, residual, n_samples, columns, rank, dof, size)


class Penalised(NamedTuple):
    """Blocks judged by ridge regressions and generalised cross-validation.

    The penalty is chosen for each fit, so that there may be fewer rows than inputs; two blocks with
    fewer than three rows in common never merge.

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
    """

    def enough(self, n_rows: FloatArray, columns: FloatArray) -> tuple[BoolArray, BoolArray]:
        """Whether rows are enough to judge; the rank decides nothing."""
        return n_rows >= FEWEST_ROWS, np.zeros(n_rows.shape, dtype=bool)

    def counted(self, n_rows: FloatArray, rank: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Rows to count by, and where there are too few to judge."""
        return np.maximum(n_rows, FEWEST_ROWS), n_rows < FEWEST_ROWS

    def solve(
        self, rows: FloatArray, n_rows: FloatArray, before: FloatArray | None = None
    ) -> FloatArray:
        """Totals in sample, residuals as if each row were left out, coefficients used."""
        if before is not None:
            drop_cancelled(rows, np.einsum("kij,kij->ki", rows, rows), before)
        found = judge(rows, np.maximum(n_rows, 1.0), 1.0)
        total = np.einsum("kn,kn->k", rows[:, -1], rows[:, -1])
        return np.stack((total, found.residual, found.used))

    def left(self, rows: FloatArray, n_rows: float) -> FloatArray:
        """What the fit of one block leaves of its target, as if each row were left out."""
        return residual_as_if_left_out(rows, n_rows)

    def fit(self, found: Comparison, which: int) -> Fit:
        """One of the three fits as a criterion is told."""
        total, residual, used = found.numbers[which]
        n = found.n_samples
        explained = about_mean(total, n, 1.0) - residual
        return Fit(explained, residual, n, found.n_inputs[which], used, n - 1.0, found.sizes[which])

    def difference(self, found: Comparison) -> Fit:
        """What a merge gives up, read as a regression of the difference of the two means."""
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


#: By which model blocks are judged.
Reading: TypeAlias = LeastSquares | Penalised
BY_LEAST_SQUARES = LeastSquares()


class PairedSpace(MergeSpace):
    """Targets to merge by their mean, each regressed on inputs of its own, which are averaged too.

    Inputs go by name (the rain of its own basin, say), over the same samples. A block is the sum
    ``[X; y]`` of its members: the regression of a mean target on mean inputs does not feel the
    scale of the inputs, and its sums of squares are those of the sums over the squared size. An
    input that a task lacks is a row of zeros, so that the sum is that of the members that have it;
    a block has an input if one of its members does. One Cholesky factorization of a small Gram
    matrix, target last, is a whole regression: its last pivot is the residual sum of squares.

    Where values are missing, ``counts`` says how many members are observed, and the series of a
    block, its target and each of its inputs, is row by row the mean of these. A block is complete
    in the rows where its target and every input that any of its members has are observed by at
    least one member. Two blocks are compared on the rows where both are complete, exactly as if
    these were all there is: the fits of both, the fit of the mean of all observed members of both,
    their ranks and degrees of freedom.

    What is exact with gaps: every fit, and with it the value of a block on these rows, and the gain
    of a merge as the difference of such values, with the sizes of the blocks whether or not all
    members are observed. What is dropped: rows where only one of two blocks is complete; rows where
    a block lacks one of its inputs; that a mean of few members has more noise than one of many
    (rows count the same, or by their weights); and that members of different level make a mean
    jump where one of them is missing, so centre the series first. A merge can therefore lose what
    only the rows outside would have shown, and ``F`` can be negative not only where averaged inputs
    explain more but where the mean over those observed is not the mean by size.
    """

    def __init__(
        self,
        sums: FloatArray,
        sizes: FloatArray,
        has: BoolArray,
        reading: Reading = BY_LEAST_SQUARES,
        *,
        counts: AnyArray | None = None,
        row_scale: FloatArray | None = None,
        n_samples: int | None = None,
    ) -> None:
        self._sums = sums  # (tasks, inputs then target, rows); owned and changed
        self._size = sizes
        self._has = has  # (tasks, inputs): which a block has; owned and changed
        #: Whether no task lacks an input that another has.
        self.has_all_inputs = bool(has.all())
        self._reading = reading
        self.n_variables, n_rows, self.n_samples = map(int, sums.shape)
        self.n_inputs = n_rows - 1
        # Total and residual sums of squares and rank of blocks on all their rows.
        self._known = np.full((3, self.n_variables), np.nan)
        self._counts = counts  # of those observed, small integers; None if all are
        if counts is None:
            if n_samples is not None:  # another number where the rows stand in for so many
                self.n_samples = n_samples
            self._square = np.einsum("ijk,ijk->ij", sums, sums)
            self.directions = self._directions
            for chunk in chunks(self.n_variables, sums[0].size):
                self._store(chunk)
            return
        self.is_guarded = True  # pairs of too few rows
        self._weights = None if row_scale is None else row_scale**2
        self._complete = np.stack([self._rows_of(block) for block in range(self.n_variables)])
        self._magnitude = np.zeros((self.n_variables, n_rows))
        self._take_level_off(counts)

    @classmethod
    def of(
        cls, inputs: FloatArray, targets: FloatArray, *, sizes: IntArray | None = None
    ) -> PairedSpace:
        """Build from inputs ``(tasks, samples, inputs)`` and targets ``(samples, tasks)``.

        With ``sizes``, each is the mean of so many tasks already.
        """
        rows = np.concatenate((inputs.swapaxes(1, 2), targets.T[:, None]), axis=1)
        series = Series(rows, np.ones(rows[:, :-1, 0].shape, dtype=bool))
        return cls.of_series(series, sizes=sizes, overwrite=True)

    @classmethod
    def of_series(
        cls,
        series: Series,
        reading: Reading = BY_LEAST_SQUARES,
        *,
        sizes: AnyArray | None = None,
        counts: AnyArray | None = None,
        overwrite: bool = False,
    ) -> PairedSpace:
        """Build from series, NaN where missing; with ``overwrite`` their array is taken over.

        Rows of weight zero are left out, so that the samples are those that count. With ``sizes``,
        each task is the mean of so many already, or counts for so much. Those that have gaps then
        come with ``counts`` ``(tasks, slots + 1, rows)``, how many of their members were observed,
        or weights of one or more where anything is; series with counts are compared row by row
        even if they are complete.
        """
        if series.weights is not None and not series.weights.all():
            used = series.weights > 0.0
            counts = None if counts is None else counts[:, :, used]
            series, overwrite = series.take(used), True
        weights, has = series.weights, series.has.copy()
        sums = series.values if overwrite else series.values.copy()
        members = np.ones(series.n_tasks) if sizes is None else np.array(sizes, dtype=float)
        if counts is None and series.is_complete and series.n_samples >= FEWEST_ROWS:
            for chunk in chunks(len(sums), sums[0].size):
                rows = sums[chunk]
                rows[:, :-1][~has[chunk]] = 0.0
                if not series.is_centred:
                    centre(rows, np.ones(sums.shape[2]) if weights is None else weights)
                if weights is not None:
                    rows *= np.sqrt(weights)
                if sizes is not None:
                    rows *= members[chunk, None, None]
            return cls(sums, members, has, reading, n_samples=series.n_samples)
        kind = np.min_scalar_type(int(members.sum()))  # a group of all tasks must fit
        if (members != np.round(members)).any():
            kind = np.dtype(float)
        tally = np.empty(sums.shape, dtype=kind)
        for task, rows in enumerate(sums):
            tally[task] = np.where(np.isnan(rows), 0, 1 if counts is None else counts[task])
            rows[tally[task] == 0] = 0.0
            if counts is not None:
                sums[task] *= tally[task]
        row_scale = None if weights is None else row_scales(series.n_rows, weights)[1]
        return cls(sums, members, has, reading, counts=tally, row_scale=row_scale)

    def evidence(self, block: int | IntArray, others: IntArray) -> Evidence:
        """Fits of both means, of the mean of all members, and what tells the two apart."""
        found, reading = cache(lambda: self._compare(block, others)), self._reading
        return Evidence(
            lambda: (reading.fit(found(), 0), reading.fit(found(), 1)),
            lambda: reading.fit(found(), 2),
            lambda: reading.difference(found()),
        )

    def allows(self, block: int | IntArray, others: IntArray) -> BoolArray:
        """Whether the two have rows enough in common to be judged."""
        if self._counts is None:
            return super().allows(block, others)  # type: ignore[arg-type]
        n_rows = (self._complete[block] & self._complete[others]).sum(axis=1)
        columns = (self._has[block] | self._has[others]).sum(axis=1)
        enough, doubtful = self._reading.enough(n_rows, columns)
        at = np.flatnonzero(doubtful)
        if at.size:  # the rank decides, and it takes the fits
            mine = np.broadcast_to(block, others.shape)[at]
            enough[at] = ~self._compare(mine, others[at]).refused
        return np.asarray(enough)

    def correlation(self, block: int | IntArray, others: IntArray) -> FloatArray:
        """Correlation of the mean targets; with gaps over the rows where both are observed."""
        if self._counts is None:
            products = np.einsum("...j,...j->...", self._sums[block, -1], self._sums[others, -1])
            return correlations(products, self._square[block, -1], self._square[others, -1])
        found = np.empty(others.size)
        blocks = np.broadcast_to(block, others.shape)
        for chunk in chunks(others.size, 2 * self.n_samples):
            mine, theirs = blocks[chunk], others[chunk]
            common = (self._counts[mine, -1] > 0) & (self._counts[theirs, -1] > 0)
            sides = (self._series(side, common, TARGET)[:, 0] for side in (mine, theirs))
            unit = [unit_vectors(rows, np.einsum("kj,kj->k", rows, rows)) for rows in sides]
            found[chunk] = np.einsum("kj,kj->k", *unit)
        return found

    def merge(self, block: int, other: int) -> None:
        """Average two blocks, targets and inputs, each observed member with the same weight."""
        self._sums[block] += self._sums[other]
        self._size[block] += self._size[other]
        self.merged(block, other)
        if self._counts is None:
            before = self._square[block] + self._square[other]
            rows = self._sums[block : block + 1]
            square = np.einsum("kij,kij->ki", rows, rows)
            drop_cancelled(rows, square, before)
            self._square[block] = square[0]
            self._store(slice(block, block + 1))
            return
        self._counts[block] += self._counts[other]
        np.maximum(self._magnitude[block], self._magnitude[other], out=self._magnitude[block])
        self._complete[block] = self._rows_of(block)
        self._known[:, block] = np.nan

    def merged(self, block: int, other: int) -> None:
        """Record that two blocks were merged in the arrays of ``start``."""
        self._has[block] |= self._has[other]

    def start(self) -> tuple[FloatArray, ...] | None:
        """What compiled code asks and merges by itself; None with gaps, or by ridge regression.

        Sums, sizes, squares, totals, residuals and ranks.
        """
        if self._counts is not None or not isinstance(self._reading, LeastSquares):
            return None
        return self._sums, self._size, self._square, *self._known

    def mean_correlation(self) -> FloatArray:
        """Average correlation of each target with all of them."""
        if self._counts is not None:
            return super().mean_correlation()
        targets = self._directions(slice(None))
        return np.asarray(targets @ targets.mean(axis=0))

    @property
    def total_variance(self) -> float:
        """Mean variance of the targets as they stand, each over its own rows."""
        everyone, n_rows = np.arange(self.n_variables), np.array([self.n_samples])
        seen = None if self._counts is None else self._counts[:, -1] > 0
        if seen is None:
            rows = self._series(everyone, seen, TARGET)
        else:
            rows, n_rows = self._centred(self._mean(everyone, TARGET), seen), seen.sum(axis=1)
        return float((np.einsum("kij,kij->k", rows, rows) / np.maximum(n_rows - 1, 1)).mean())

    def _directions(self, blocks: IntArray | slice) -> FloatArray:
        """Mean targets of unit length: their inner products are the correlations."""
        return unit_vectors(self._sums[blocks, -1], self._square[blocks, -1])

    # ------------------------------------------------------------------ two blocks compared

    def _compare(self, block: int | IntArray, others: IntArray) -> Comparison:
        """Everything that is asked about the block and each of the others."""
        blocks = np.broadcast_to(block, others.shape)
        numbers = np.empty((3, 3, others.size))
        n_rows, total, lost = (np.empty(others.size) for _ in range(3))
        a, b = self._size[blocks], self._size[others]
        size = a + b
        for chunk in chunks(others.size, (1 if self._counts is None else 2) * self._sums[0].size):
            mine, theirs, here = blocks[chunk], others[chunk], numbers[..., chunk]
            if self._counts is None:
                common, n_rows[chunk] = None, self.n_samples
                here[0], here[1] = self._known[:, mine], self._known[:, theirs]
                # Of one block its rows, not a copy for each of the others.
                at = block if isinstance(block, int) else mine
                both = self._sums[theirs] + self._sums[at]
                before = self._square[theirs] + self._square[at]
                here[2] = self._reading.solve(both, n_rows[chunk], before)
                here[2, :2] /= size[chunk] ** 2
            else:
                common = self._complete[mine] & self._complete[theirs]
                n_rows[chunk] = common.sum(axis=1)
                both = self._union(mine, theirs, common)
                here[0], here[1] = self._alone(mine, common), self._alone(theirs, common)
                here[2] = self._reading.solve(both, n_rows[chunk])
            total[chunk], lost[chunk] = self._losses(mine, theirs, common, both, here)
        columns = np.full((3, others.size), float(self.n_inputs))
        if not self.has_all_inputs:
            has, theirs_have = self._has[blocks], self._has[others]
            columns[:] = [part.sum(axis=1) for part in (has, theirs_have, has | theirs_have)]
        refused = np.zeros(others.size, dtype=bool)
        if self._counts is not None:
            n_rows, refused = self._reading.counted(n_rows, numbers[:, 2].max(axis=0))
        sizes = np.stack((a, b, size))
        return Comparison(numbers, columns, sizes, total, lost, n_rows, refused)

    def _losses(
        self,
        mine: IntArray,
        theirs: IntArray,
        common: BoolArray | None,
        both: FloatArray,
        numbers: FloatArray,
    ) -> tuple[FloatArray, FloatArray]:
        """What a merge loses of all members' total and residual squares, over ``ab/(a+b)``.

        Of tasks nearly alike sums of squares have lost the digits: there it is taken from what fits
        leave of the three, row by row, and is exactly zero where that is rounding.
        """
        a, b = self._size[mine], self._size[theirs]
        size, share = a + b, a * b / (a + b)
        gap = self._series(mine, common, TARGET) - self._series(theirs, common, TARGET)
        total = np.einsum("kij,kij->k", gap, gap)
        if common is not None:
            total -= self._drift(mine, theirs, common, both[:, -1])
        residual, scale = numbers[:, 1], numbers[0, 0] + numbers[1, 0]
        lost = (a * residual[0] + b * residual[1] - size * residual[2]) / share
        near = np.abs(total) < NEARLY_EQUAL * scale
        for k in np.flatnonzero(near).tolist():
            rows = None if common is None else common[k : k + 1]
            n_rows = float(self.n_samples if rows is None else rows.sum())
            if n_rows < FEWEST_ROWS:
                continue
            left = [
                self._reading.left(self._series(side[k : k + 1], rows)[0], n_rows)
                for side in (mine, theirs)
            ]
            joint = self._reading.left(both[k], n_rows) / (size[k] if common is None else 1.0)
            mean, gap = (a[k] * left[0] + b[k] * left[1]) / size[k], left[0] - left[1]
            square = float(gap @ gap + size[k] / share[k] * ((mean - joint) @ (mean + joint)))
            lost[k] = square if abs(square) > ROUNDING * scale[k] / share[k] else 0.0
            total[k] = total[k] if abs(total[k]) > ROUNDING**2 * scale[k] else 0.0
        return total, lost

    def _drift(
        self, mine: IntArray, theirs: IntArray, common: BoolArray, both: FloatArray
    ) -> FloatArray | float:
        """What the mean of those observed, which is not that by size, takes off a squared gap."""
        assert self._counts is not None
        a, b = self._size[mine], self._size[theirs]
        here, there = self._counts[mine, -1].astype(float), self._counts[theirs, -1].astype(float)
        moved = np.where(common, here * b[:, None] - there * a[:, None], 0.0)  # free of rounding
        if not moved.any():
            return 0.0
        moved /= np.maximum(here + there, 1.0) * (a + b)[:, None]
        raw = self._mean(mine, TARGET) - self._mean(theirs, TARGET)
        drift = self._centred(moved[:, None] * raw, common)[:, 0]
        moved_by = np.einsum("ki,ki->k", drift, 2.0 * both - drift)
        return np.asarray((a + b) ** 2 / (a * b) * moved_by)

    def _series(self, blocks: IntArray, rows: BoolArray | None, which: slice = EVERY) -> FloatArray:
        """Series of blocks, centred on some rows and zero elsewhere; None for all rows."""
        if rows is None:
            return np.asarray(self._sums[blocks, which] / self._size[blocks, None, None])
        centred = self._centred(self._mean(blocks, which), rows)
        self._drop_rounding(centred, self._magnitude[blocks, which])
        return centred

    # ------------------------------------------------------------------ all observed

    def _store(self, blocks: slice) -> None:
        """Fit blocks on all their rows."""
        rows = self._sums[blocks]
        n_rows = np.full(len(rows), float(self.n_samples))
        self._known[:, blocks] = self._reading.solve(rows, n_rows)
        self._known[:2, blocks] /= self._size[blocks] ** 2

    # ------------------------------------------------------------------ some missing

    def _take_level_off(self, counts: AnyArray) -> None:
        """Take one constant off each input and the target of all tasks, which changes no answer.

        Without the common part of a large level sums keep their digits.
        """
        level, n_values = np.zeros((2, self.n_inputs + 1))
        for rows, tally in zip(self._sums, counts, strict=True):
            level += rows.sum(axis=1)
            n_values += tally.sum(axis=1)
        level /= np.maximum(n_values, 1.0)
        for task, tally in enumerate(counts):
            self._sums[task] -= level[:, None] * tally
            means = self._sums[task] / np.maximum(tally, 1)
            self._magnitude[task] = np.abs(means).max(axis=1, initial=0.0) + np.abs(level)

    def _rows_of(self, block: int) -> BoolArray:
        """Rows where a block is complete."""
        assert self._counts is not None
        counts = self._counts[block]
        seen = (counts[:-1] > 0) | ~self._has[block][:, None]
        return np.asarray(seen.all(axis=0) & (counts[-1] > 0))

    def _alone(self, blocks: IntArray, common: BoolArray) -> FloatArray:
        """Fits of the blocks on common rows; those on all rows of a block are remembered."""
        on_all = (common == self._complete[blocks]).all(axis=1)
        unknown = np.unique(blocks[on_all & np.isnan(self._known[0, blocks])])
        if unknown.size:
            self._known[:, unknown] = self._solve(unknown, self._complete[unknown])
        found = self._known[:, blocks]
        partly = np.flatnonzero(~on_all)
        if partly.size:
            found[:, partly] = self._solve(blocks[partly], common[partly])
        return np.asarray(found)

    def _solve(self, blocks: IntArray, rows: BoolArray) -> FloatArray:
        return self._reading.solve(self._series(blocks, rows), rows.sum(axis=1))

    def _union(self, mine: IntArray, theirs: IntArray, common: BoolArray) -> FloatArray:
        """Series of two blocks in one."""
        assert self._counts is not None
        sums = self._sums[theirs] + self._sums[mine]
        sums /= np.maximum(self._counts[theirs] + self._counts[mine].astype(float), 1.0)
        centred = self._centred(sums, common)
        self._drop_rounding(centred, np.maximum(self._magnitude[mine], self._magnitude[theirs]))
        return centred

    def _mean(self, blocks: IntArray, which: slice) -> FloatArray:
        """Means of those observed, zero where there are none."""
        assert self._counts is not None
        return np.asarray(self._sums[blocks, which] / np.maximum(self._counts[blocks, which], 1))

    def _centred(self, rows: FloatArray, kept: BoolArray) -> FloatArray:
        """Centre on the rows kept, by their weights, which count as many as there are rows."""
        weight = kept.astype(float) if self._weights is None else kept * self._weights
        total = np.maximum(weight.sum(axis=1), TINY)
        centred = rows
        for _ in range(2):  # twice: the mean's own rounding
            mean = np.einsum("...ij,...j->...i", centred, weight) / total[:, None]
            centred = centred - mean[:, :, None]
        scale = kept
        if self._weights is not None:
            scale = np.sqrt(weight * (kept.sum(axis=1) / total)[:, None])
        return np.asarray(centred * scale[:, None])

    def _drop_rounding(self, centred: FloatArray, magnitude: FloatArray) -> None:
        """Make a series zero that is constant on its rows, or whose members cancel."""
        length = np.sqrt(np.einsum("kij,kij->ki", centred, centred))
        centred[length <= CONSTANT * np.sqrt(self.n_samples) * magnitude] = 0.0


def drop_cancelled(rows: FloatArray, square: FloatArray, before: FloatArray) -> bool:
    """Make added rows zero that cancelled, not rounding; say whether there are any.

    ``square`` holds their squared lengths, ``before`` those of what was added up.
    """
    cancelled = (square <= CANCELLED * before) & (square > 0.0)
    found = bool(cancelled.any())
    if found:
        rows[cancelled] = square[cancelled] = 0.0
    return found


def credit(rank: Any, n_samples: Any) -> Any:
    """Rise of the risk per residual sum of squares, ``r/(n-r-1) (n-1)/(n-r-2)``."""
    spare = n_samples - rank - 1.0
    return rank / spare * (n_samples - 1.0) / (spare - 1.0)


def pivots(unit: FloatArray) -> FloatArray:
    """Pivots of the Cholesky factorizations of matrices of unit diagonal; zero where one fails."""
    with suppress(np.linalg.LinAlgError):
        return np.asarray(np.diagonal(np.linalg.cholesky(unit), axis1=1, axis2=2) ** 2)
    # One failure fails the batch. Find the weak ones on matrices lifted out of reach of rounding.
    found = np.zeros(unit.shape[:2])
    lifted = np.linalg.cholesky(unit + LIFT * np.eye(unit.shape[1]))
    firm = np.flatnonzero((np.diagonal(lifted, axis1=1, axis2=2) ** 2 > TRUSTED_PIVOT).all(axis=1))
    # Should the lift have hidden one, all are left to singular values, slowly.
    with suppress(np.linalg.LinAlgError):
        found[firm] = np.diagonal(np.linalg.cholesky(unit[firm]), axis1=1, axis2=2) ** 2
    return found


def squares_left(rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Residual sums of squares and ranks by singular values, for many blocks at once.

    Those of the triangles, which have as many rows as columns; ``LeastSquares.left`` decides alike.
    """
    inputs = rows[:, :-1]
    length = np.sqrt(np.einsum("kij,kij->ki", inputs, inputs))
    columns = rows.copy()
    columns[:, :-1] /= np.where(length > 0.0, length, 1.0)[:, :, None]
    triangle: FloatArray = np.asarray(np.linalg.qr(columns.swapaxes(1, 2), mode="r"))
    left, values, _ = np.linalg.svd(triangle[:, :, :-1], full_matrices=False)
    larger = np.maximum(rows.shape[2], np.count_nonzero(length, axis=1))
    kept = values > EPS * larger[:, None] * values[:, :1]
    basis, target = left * kept[:, None], triangle[:, :, -1:]
    for _ in range(2):  # twice: the first sweep leaves rounding of the fit
        target = target - basis @ (basis.swapaxes(1, 2) @ target)
    residual = np.einsum("kij,kij->k", target, target)
    return np.asarray(residual), kept.sum(axis=1).astype(float)


#: A pivot below this share of its diagonal, the target's too, and the Gram matrix has lost too many
#: digits: singular values of the rows decide.
TRUSTED_PIVOT = 1e-6
#: Added to a unit diagonal to tell the singular ones in a batch; far below what is trusted.
LIFT = 1e-9
#: A squared length below this share of its parts' is rounding.
CANCELLED = 1e-24
#: Mean targets whose squared difference is below this share of their own squares: what a merge
#: loses is then taken from vectors, not from sums of squares.
NEARLY_EQUAL = 1e-6
#: What rounding leaves of a difference taken from vectors, relative to the squares of the targets.
ROUNDING = 1e-14
#: Noise credited at least, relative to the squared difference of the two mean targets.
LEAST_NOISE = 1e-12
