"""Many small regressions at once: from the moments of their rows, or each on the rows it has.

``regress`` is for predictions to compare and average: least squares, or ridge regression at a
penalty by the row. What follows ``Judged`` is for decisions, ridge regressions like those of
``ridge.py`` for many small problems: columns at unit length, the same penalties, rows judged as if
left out at the average leverage, all penalties by one eigendecomposition of a small matrix.
``fit_columns`` is for series with missing values (NaN).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, Self

import numpy as np

from ctfa.core.design import Design, weighted_mean
from ctfa.core.partition import Partition
from ctfa.core.ridge import SMALLEST_SLACK
from ctfa.core.types import BoolArray, FloatArray, IntArray, Number

#: Eigenvalues of a Gram matrix of unit diagonal below this are rounding.
RANK_CUTOFF = 1e-12
#: With pivots of unit columns above this no column depends on others.
FIRM = 1e-6
#: Penalties that ``regress`` tries, for columns of unit variance and by the row: from next to
#: nothing to all.
PENALTIES = np.logspace(-6.0, 4.0, 41)
ROW_PENALTIES = np.logspace(-6.0, 2.0, 33)
#: A Gram matrix is trusted where even the weakest penalty leaves this share of the target, and this
#: many rows to spare. Elsewhere residuals would be differences of nearly equal numbers.
TRUSTED_SHARE, TRUSTED_ROWS = 1e-4, 0.5
#: Errors closer than this are equal, and the stronger penalty is taken: with two rows all are.
TIE = 1e-10
#: Eigenvalues below this share of the largest are zero.
ROUNDING = 1e-13
#: Numbers handled at once: two megabytes, which stay in the cache.
CACHED_NUMBERS = 1 << 18


def chunks(count: int, numbers: int) -> Iterator[slice]:
    """As many at once, of so many numbers each, as stay in the cache."""
    width = max(1, CACHED_NUMBERS // max(1, numbers))
    for start in range(0, count, width):
        yield slice(start, min(start + width, count))


class RowMoments(NamedTuple):
    """Cross-products of rows about their means, one regression each; they add over tasks."""

    gram: FloatArray  # (B, K, K) of the inputs
    moment: FloatArray  # (B, K) of inputs and target
    square: FloatArray  # (B,) of the target
    n_rows: FloatArray  # (B,)
    n_levels: FloatArray  # (B,): intercepts spent

    @classmethod
    def of(cls, inputs: FloatArray, target: FloatArray, n_rows: FloatArray) -> Self:
        """Moments of ``(B, K, n)`` and ``(B, n)``, centred, zero in rows that do not count."""
        return cls(
            inputs @ inputs.swapaxes(1, 2),
            np.einsum("bkn,bn->bk", inputs, target),
            np.einsum("bn,bn->b", target, target),
            n_rows,
            np.ones(n_rows.size),
        )

    def summed(self, labels: IntArray) -> RowMoments:
        """Moments of the rows of each group together, every task about its own means."""
        return RowMoments(*(summed(part, labels) for part in self))

    def about(self, coef: FloatArray) -> RowMoments:
        """The same with ``inputs @ coef`` taken off each target."""
        taken = np.einsum("bjk,bk->bj", self.gram, coef)
        moment = self.moment - taken
        square = self.square - np.einsum("bk,bk->b", coef, self.moment + moment)
        return self._replace(moment=moment, square=np.maximum(square, 0.0))


class Slopes(NamedTuple):
    """Coefficients and how many directions they spend."""

    coef: FloatArray  # (B, K)
    used: FloatArray  # (B,)
    residual: FloatArray  # (B,) sum of squares


def regress(moments: RowMoments, *, penalised: bool) -> Slopes:
    """Least squares, the shortest where not determined; or ridge by generalised cross-validation.

    From Gram matrices: good for predictions to compare and average, not for decisions that hang on
    the last digits.
    """
    coef = None if penalised else firm_coefficients(moments.gram, moments.moment)
    if coef is not None:
        used = np.full(coef.shape[0], float(coef.shape[1]))
        residual = moments.square - np.einsum("bk,bk->b", coef, moments.moment)
        return Slopes(coef, used, np.maximum(residual, 0.0))
    values, vectors, turned = _turned(moments)
    firm = values > RANK_CUTOFF * np.maximum(values[:, -1:], 1.0)
    known = np.where(firm, values, 1.0)
    if penalised:
        weight = _best_weights(np.where(firm, values, 0.0), turned, known, moments)
    else:
        weight = np.where(firm, 1.0 / known, 0.0)
    coef = np.einsum("bij,bj->bi", vectors, weight * turned) / _scale(moments)
    shrunk = weight * np.where(firm, values, 0.0)
    residual = moments.square - (turned**2 * weight * (2.0 - shrunk)).sum(axis=1)
    return Slopes(coef, shrunk.sum(axis=1), np.maximum(residual, 0.0))


def firm_coefficients(gram: FloatArray, moment: FloatArray) -> FloatArray | None:
    """Least squares by Cholesky factors, where in all regressions no column depends on others."""
    square = np.einsum("bkk->bk", gram)
    if not (square > 0.0).all():
        return None
    unit = np.sqrt(square)
    scaled = gram / (unit[:, :, None] * unit[:, None, :])
    try:
        pivots = np.einsum("bkk->bk", np.linalg.cholesky(scaled)) ** 2
    except np.linalg.LinAlgError:
        return None
    if not pivots.min(initial=1.0) > FIRM:
        return None
    return np.asarray(np.linalg.solve(scaled, (moment / unit)[:, :, None])[:, :, 0] / unit)


def _best_weights(
    values: FloatArray, turned: FloatArray, known: FloatArray, moments: RowMoments
) -> FloatArray:
    """Weight of each direction at the penalty that cross-validation prefers."""
    # Columns have unit length: eigenvalues are shares, and so are penalties per row.
    penalty = ROW_PENALTIES[:, None, None]
    shrunk = values / (values + penalty)
    used = shrunk.sum(axis=2)
    squares = np.where(values > 0.0, turned**2 / known, 0.0)
    residual = moments.square - (squares * shrunk * (2.0 - shrunk)).sum(axis=2)
    spare = np.maximum(moments.n_rows - used - moments.n_levels, 1e-6 * moments.n_rows)
    best = (np.maximum(residual, 0.0) / spare**2).argmin(axis=0)
    return np.where(values > 0.0, 1.0 / (known + ROW_PENALTIES[best][:, None]), 0.0)


def summed(part: FloatArray, labels: IntArray) -> FloatArray:
    """Sums over groups, every one of which has a member."""
    if (labels[1:] < labels[:-1]).any():
        order = np.argsort(labels, kind="stable")
        part, labels = part[order], labels[order]
    starts = np.concatenate(([0], np.flatnonzero(labels[1:] != labels[:-1]) + 1))
    return np.asarray(np.add.reduceat(part, starts, axis=0))


class Judged(NamedTuple):
    """Ridge regressions at the penalties that cross-validation prefers."""

    residual: FloatArray  # (B,): sum of squares as if each row were left out
    used: FloatArray  # (B,): effective number of coefficients, without intercepts
    penalty: FloatArray  # (B,): for columns at unit length


def about_mean(square: FloatArray, n_rows: Number, n_levels: Number) -> FloatArray:
    """Squares that constants leave, one for each level, judged as those of a fit are."""
    slack = np.maximum(1.0 - np.asarray(n_levels) / n_rows, SMALLEST_SLACK)
    return np.asarray(square / slack**2)


def judge(columns: FloatArray, n_rows: FloatArray, n_levels: Number) -> Judged:
    """Regress the last of ``(B, K + 1, rows)`` on the others; centred, zero in rows not used.

    ``n_rows`` says how many count, ``n_levels`` how many intercepts were taken off.
    """
    levels = np.broadcast_to(np.asarray(n_levels, dtype=float), n_rows.shape)
    if columns.shape[2] <= columns.shape[1]:
        return judge_columns(columns, n_rows, levels)
    gram = columns @ columns.swapaxes(1, 2)
    return judge_gram(gram, n_rows, levels, lambda weak: columns[weak])


def judge_gram(
    gram: FloatArray,
    n_rows: FloatArray,
    n_levels: FloatArray,
    columns: Callable[[IntArray], FloatArray],
) -> Judged:
    """Judge from cross-products of inputs and, last, the target.

    Answers that do not keep their digits there are taken from the columns themselves.
    """
    found, trusted = _judge_moments(moments_of(gram, n_rows, n_levels))
    weak = np.flatnonzero(~trusted)
    if weak.size:
        replace(found, weak, judge_columns(columns(weak), n_rows[weak], n_levels[weak]))
    return found


def moments_of(gram: FloatArray, n_rows: FloatArray, n_levels: FloatArray) -> RowMoments:
    """Read cross-products of inputs and, last, the target."""
    return RowMoments(gram[:, :-1, :-1], gram[:, :-1, -1], gram[:, -1, -1], n_rows, n_levels)


def replace(
    found: tuple[FloatArray, ...], at: IntArray | slice, better: tuple[FloatArray, ...]
) -> None:
    """Put some answers in the place of others."""
    for old, new in zip(found, better, strict=True):
        old[at] = new


def _judge_moments(moments: RowMoments) -> tuple[Judged, BoolArray]:
    """Do it, and say which of the answers keep their digits there."""
    count, n_inputs = moments.moment.shape
    found = Judged(np.empty(count), np.empty(count), np.empty(count))
    trusted = np.empty(count, dtype=bool)
    for chunk in chunks(count, 2 * PENALTIES.size * n_inputs):
        part = RowMoments(*(column[chunk] for column in moments))
        values, _, turned = _turned(part)
        penalty = PENALTIES[:, None, None]
        weight = 1.0 / (values + penalty)
        kept = (values * weight).sum(axis=2)
        left = part.square - (turned**2 * (weight + penalty * weight**2)).sum(axis=2)
        spare = part.n_rows - part.n_levels - kept
        trusted[chunk] = (left[0] > TRUSTED_SHARE * part.square) & (spare[0] > TRUSTED_ROWS)
        replace(found, chunk, _best(np.maximum(left, 0.0), spare, kept, part.n_rows))
    return found, trusted


def judge_columns(columns: FloatArray, n_rows: FloatArray, n_levels: FloatArray) -> Judged:
    """Do the same from the rows themselves, of which there may be fewer than inputs.

    In the coordinates of the rows a residual is a sum of squares, never a difference.
    """
    count, n_columns, n_samples = columns.shape
    found = Judged(np.empty(count), np.empty(count), np.empty(count))
    size = min(n_columns, n_samples)
    most = max(size, n_columns * n_samples // PENALTIES.size)
    for chunk in chunks(count, 2 * PENALTIES.size * most):
        rows = _unit(columns[chunk])
        if n_samples > n_columns:
            rows = np.asarray(np.linalg.qr(rows.swapaxes(1, 2), mode="r")).swapaxes(1, 2)
        inputs, target = rows[:, :-1], rows[:, -1]
        values, vectors = np.linalg.eigh(inputs.swapaxes(1, 2) @ inputs)
        squares = np.einsum("bij,bi->bj", vectors, target) ** 2
        # Rounding in place of zero would count where hardly a row is spared.
        values = np.where(values > ROUNDING * values[:, -1:], values, 0.0)
        rest = PENALTIES[:, None, None] / (values + PENALTIES[:, None, None])
        left = (rest**2 * squares).sum(axis=2)
        kept = size - rest.sum(axis=2)
        # Whole numbers first: where nearly all rows are used up, what is spared is small.
        spare = (n_rows[chunk] - n_levels[chunk] - size) + rest.sum(axis=2)
        replace(found, chunk, _best(left, spare, kept, n_rows[chunk]))
    return found


def residual_as_if_left_out(columns: FloatArray, n_rows: float) -> FloatArray:
    """Residuals of one regression, ``(K + 1, rows)`` as in ``judge`` with a single level."""
    each = np.array([n_rows])
    penalty = float(judge_columns(columns[None], each, np.ones(1)).penalty[0])
    rows = _unit(columns[None])[0]
    left, values, _ = np.linalg.svd(rows[:-1].T, full_matrices=False)
    kept = values**2 / (values**2 + penalty)
    target = rows[-1]
    spare = n_rows - 1.0 - values.size + (1.0 - kept).sum()
    fitted = left @ (kept * (left.T @ target))
    return np.asarray((target - fitted) / max(spare / n_rows, SMALLEST_SLACK))


def coefficients(moments: RowMoments, penalty: FloatArray) -> FloatArray:
    """Coefficients ``(B, K)`` at given penalties, in the units of the inputs."""
    values, vectors, turned = _turned(moments)
    unit = np.einsum("bij,bj->bi", vectors, turned / (values + penalty[:, None]))
    return np.asarray(unit / _scale(moments))


def _best(left: FloatArray, spare: FloatArray, kept: FloatArray, n_rows: FloatArray) -> Judged:
    """The strongest penalty of those with the smallest error; arguments are by penalty, then B."""
    slack = np.maximum(spare / n_rows, SMALLEST_SLACK)
    errors = left / slack**2
    good = errors <= (1.0 + TIE) * errors.min(axis=0)
    best = PENALTIES.size - 1 - good[::-1].argmax(axis=0)
    each = np.arange(best.size)
    return Judged(errors[best, each], kept[best, each], PENALTIES[best])


def _turned(moments: RowMoments) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Eigenvalues and vectors of unit columns, and the target's products with these."""
    scale = _scale(moments)
    values, vectors = np.linalg.eigh(moments.gram / (scale[:, :, None] * scale[:, None, :]))
    turned = np.einsum("bji,bj->bi", vectors, moments.moment / scale)
    return np.maximum(values, 0.0), vectors, turned


def _scale(moments: RowMoments) -> FloatArray:
    """Lengths of the columns; one where there is nothing."""
    square = np.einsum("bkk->bk", moments.gram)
    return np.sqrt(np.where(square > 0.0, square, 1.0))


def _unit(columns: FloatArray) -> FloatArray:
    """Inputs at unit length, the target as it is."""
    length = np.sqrt(np.einsum("bkn,bkn->bk", columns, columns))
    length[:, -1] = 1.0
    return np.asarray(columns / np.where(length > 0.0, length, 1.0)[:, :, None])


class ColumnFits(NamedTuple):
    """Predictions of a column are ``intercept + X @ coef``."""

    intercept: FloatArray  # (m,)
    coef: FloatArray  # (n_inputs, m)


def observed_mean(
    partition: Partition, values: FloatArray, weights: FloatArray | None = None
) -> FloatArray:
    """Average the observed members of each group row by row: ``(n, L) -> (n, n_groups)``.

    By their ``weights`` (L,), if these are given. NaN where no member is observed.
    """
    observed = ~np.isnan(values)
    share = partition.mean(observed.astype(float), weights)
    filled = partition.mean(np.where(observed, values, 0.0), weights)
    return np.where(share > 0.0, filled / np.where(share > 0.0, share, 1.0), np.nan)


def patterns(observed: BoolArray) -> Iterator[tuple[BoolArray, IntArray]]:
    """Rows observed, and the columns that are observed in exactly these, one pattern at a time."""
    packed = np.packbits(observed, axis=0)
    _, first, which = np.unique(packed, axis=1, return_index=True, return_inverse=True)
    which = which.reshape(-1)
    order = np.argsort(which, kind="stable")
    for column, members in zip(
        first, np.split(order, np.cumsum(np.bincount(which))[:-1]), strict=True
    ):
        yield observed[:, column], members


def fit_columns(
    X: FloatArray, columns: FloatArray, row_scale: FloatArray | None = None
) -> ColumnFits:
    """Fit each column by least squares with an intercept on the rows where it is observed.

    The inputs are factored once for each distinct pattern. Coefficients are the shortest ones
    where the rows do not determine them; a column without any row is predicted by zero, which is
    its mean in the units it came in.
    """
    n_columns = columns.shape[1]
    intercept, coef = np.zeros(n_columns), np.zeros((X.shape[1], n_columns))
    for rows, members in patterns(~np.isnan(columns)):
        if not rows.any():
            continue
        design = subset_design(X, rows, row_scale)
        values = columns[np.ix_(rows, members)]
        fitted, _ = design.coordinates(design.centre(values))
        coef[:, members] = design.root.T @ fitted
        level = weighted_mean(values, design.row_scale)
        intercept[members] = level - design.mean @ coef[:, members]
    return ColumnFits(intercept, coef)


def subset_design(X: FloatArray, rows: BoolArray, row_scale: FloatArray | None) -> Design:
    """The inputs on some of the rows."""
    return Design.of(X[rows], None if row_scale is None else row_scale[rows] ** 2)
