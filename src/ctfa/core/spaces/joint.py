"""Regressions of mean targets on mean inputs, and what tells two of them apart."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

import numpy as np
from scipy import linalg

from ctfa.core.design import EPS
from ctfa.core.fit import Fit
from ctfa.core.types import BoolArray, FloatArray, Number


class Joint(NamedTuple):
    """Regressions of blocks' mean targets on their mean inputs."""

    total: FloatArray
    residual: FloatArray
    rank: FloatArray
    n_inputs: Number  # columns given, as the `mse` criterion counts them

    def fit(self, n_samples: Number, size: Number) -> Fit:
        """Return the same as a criterion is told."""
        explained, dof = self.total - self.residual, n_samples - self.rank - 1.0
        return Fit(explained, self.residual, n_samples, self.n_inputs, self.rank, dof, size)


def difference(
    fitted: tuple[Joint, Joint, Joint],
    sizes: tuple[FloatArray, FloatArray],
    total: FloatArray,
    lost: FloatArray,
    n_samples: Number,
) -> Fit:
    """Put what a merge loses as a regression that it gives up.

    ``fitted`` are both blocks and what would replace them, of ``sizes`` a and b. ``total`` is what
    a merge loses of the members' total sums of squares, ``lost`` what it loses of the residual
    ones, both over ``ab/(a+b)``: the squared difference of two means, split into what inputs
    explain of it and the rest.
    """
    first, second, both = fitted
    a, b = sizes
    share = a * b / (a + b)
    explained, residual = total - lost, lost
    rank = np.maximum(both.rank, 1.0)
    dof = n_samples - rank - 1.0
    ranks = np.stack(np.broadcast_arrays(first.rank, second.rank, both.rank))
    if (ranks != rank).any():
        # Fits of different rank pay differently for their noise: count it in units of the
        # merged fit's, so that the gain is the same.
        weights = np.stack((a, b, -(a + b))) / share
        noise = weights * np.stack(
            np.broadcast_arrays(first.residual, second.residual, both.residual)
        )
        per_residual, unit = ranks / (n_samples - ranks - 1.0), credit(rank, n_samples)
        reference = rank / dof
        extra = (noise * (credit(ranks, n_samples) / unit - 1.0)).sum(axis=0)
        explained = explained + reference * extra
        explained -= (noise * (per_residual - reference)).sum(axis=0)
        # Two blocks without inputs are told apart by nothing, which rounding must not decide.
        empty = ~ranks.any(axis=0)
        explained, residual = (
            np.where(empty, 0.0, explained),
            np.where(empty, total, residual + extra),
        )
    # Where a merge saves no noise variance no credit decides, only the gain itself: hold that
    # at m = 1 and let the noise be the least there is, so that losses stay numbers in order.
    least = LEAST_NOISE * np.maximum(total, ROUNDING * (first.total + second.total))
    none_saved = (residual < least) & ((explained != 0.0) | (residual != 0.0))
    if none_saved.any():
        f_star = 1.0 + (n_samples - 1.0) / (dof - 1.0)
        raised = np.where(none_saved, least - residual, 0.0)
        explained = explained + rank / dof * f_star * raised
        residual = np.where(none_saved, least, residual)
    return Fit(explained, residual, n_samples, both.n_inputs, rank, dof, a + b)


def credit(rank: FloatArray, n_samples: Number) -> FloatArray:
    """Rise of the risk per residual sum of squares, ``r/(n-r-1) (n-1)/(n-r-2)``."""
    spare = n_samples - rank - 1.0
    return np.asarray(rank / spare * (n_samples - 1.0) / (spare - 1.0))


class GramFits(NamedTuple):
    """Regressions from Gram matrices, and which of them keep their digits there."""

    total: FloatArray
    residual: FloatArray
    rank: FloatArray
    trusted: BoolArray


def fits(rows: FloatArray, before: FloatArray | None = None) -> GramFits:
    """Regress the last row on the others, for each of ``(blocks, rows, samples)``.

    ``before`` are squared lengths of what was added up: a row that cancelled is not trusted. A row
    of zeros, an input that a block lacks or that is constant, counts for nothing and costs nothing:
    it is an orthogonal direction of its own, whose pivot is one.
    """
    gram = rows @ rows.swapaxes(1, 2)
    diagonal = np.arange(rows.shape[1])
    square = gram[:, diagonal, diagonal]
    empty = square == 0.0
    scale = np.sqrt(np.where(empty, 1.0, square))
    gram /= scale[:, :, None] * scale[:, None, :]
    gram[:, diagonal, diagonal] += empty
    pivot = pivots(gram)
    trusted = np.asarray((pivot > TRUSTED_PIVOT).all(axis=1))
    if before is not None:
        trusted &= ((square > CANCELLED * before) | empty).all(axis=1)
    rank = np.count_nonzero(~empty[:, :-1], axis=1).astype(float)
    total = square[:, -1].copy()
    return GramFits(total, pivot[:, -1] * total, rank, trusted)


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

    Those of the triangles, which have as many rows as columns; the decisions of ``residual_of``.
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


def residual_of(rows: FloatArray) -> tuple[FloatArray, int]:
    """What the other rows leave of the last one, by singular values, and their rank."""
    inputs, target = rows[:-1], rows[-1]
    length = np.sqrt(np.einsum("ij,ij->i", inputs, inputs))
    columns = (inputs[length > 0.0] / length[length > 0.0, None]).T
    if columns.shape[1] == 0:
        return target, 0
    left, values, _ = linalg.svd(columns, full_matrices=False, check_finite=False)
    basis = left[:, values > max(columns.shape) * EPS * values[0]]
    for _ in range(2):  # twice: the first sweep leaves rounding of the fit
        target = target - basis @ (basis.T @ target)
    return np.asarray(target), int(basis.shape[1])


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
