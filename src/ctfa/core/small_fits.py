"""Many small regressions at once, each from the moments of its rows."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from ctfa.core.types import FloatArray, IntArray

#: Eigenvalues of a Gram matrix of unit diagonal below this are rounding.
RANK_CUTOFF = 1e-12
#: Penalties tried, for columns of unit variance and by the row: from next to nothing to all.
PENALTIES = np.logspace(-6.0, 2.0, 33)


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

    def summed(self, labels: IntArray, n_groups: int) -> RowMoments:
        """Moments of the rows of each group together, every task about its own means."""
        return RowMoments(*(_summed(part, labels, n_groups) for part in self))

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
    length = np.sqrt(np.einsum("bkk->bk", moments.gram))
    scale = np.where(length > 0.0, length, 1.0)
    values, vectors = np.linalg.eigh(moments.gram / (scale[:, :, None] * scale[:, None, :]))
    turned = np.einsum("bji,bj->bi", vectors, moments.moment / scale)
    firm = values > RANK_CUTOFF * np.maximum(values[:, -1:], 1.0)
    known = np.where(firm, values, 1.0)
    if penalised:
        weight = _best_weights(np.where(firm, values, 0.0), turned, known, moments)
    else:
        weight = np.where(firm, 1.0 / known, 0.0)
    coef = np.einsum("bij,bj->bi", vectors, weight * turned) / scale
    shrunk = weight * np.where(firm, values, 0.0)
    residual = moments.square - (turned**2 * weight * (2.0 - shrunk)).sum(axis=1)
    return Slopes(coef, shrunk.sum(axis=1), np.maximum(residual, 0.0))


def _best_weights(
    values: FloatArray, turned: FloatArray, known: FloatArray, moments: RowMoments
) -> FloatArray:
    """Weight of each direction at the penalty that cross-validation prefers."""
    # Columns have unit length: eigenvalues are shares, and so are penalties a row.
    penalty = PENALTIES[:, None, None]
    shrunk = values / (values + penalty)
    used = shrunk.sum(axis=2)
    squares = np.where(values > 0.0, turned**2 / known, 0.0)
    residual = moments.square - (squares * shrunk * (2.0 - shrunk)).sum(axis=2)
    spare = np.maximum(moments.n_rows - used - moments.n_levels, 1e-6 * moments.n_rows)
    best = (np.maximum(residual, 0.0) / spare**2).argmin(axis=0)
    return np.where(values > 0.0, 1.0 / (known + PENALTIES[best][:, None]), 0.0)


def _summed(part: FloatArray, labels: IntArray, n_groups: int) -> FloatArray:
    order = np.argsort(labels, kind="stable")
    sizes = np.bincount(labels, minlength=n_groups)
    starts = np.concatenate(([0], np.cumsum(sizes)[:-1])).astype(np.intp)
    return np.asarray(np.add.reduceat(part[order], starts, axis=0))
