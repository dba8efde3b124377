"""The inputs, centred and factored once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg
from scipy.linalg import lapack

from ctfa.core.moments import Moments
from ctfa.core.types import BoolArray, FloatArray

EPS = float(np.finfo(np.float64).eps)
#: Below this reciprocal condition (of columns scaled to unit length) triangular factors stop being
#: trusted and singular values decide what the rank is.
TRUSTED_RCOND = 1e-10
#: A kept direction weaker than this makes decisions depend on rounding; callers warn.
DOUBTFUL_RCOND = 0.9e-9


@dataclass(frozen=True, eq=False)
class Design:
    """Inputs ``X``, centred (and weighted), with an orthonormal basis and its relation to ``X``.

    ``basis`` spans the centred columns. ``root`` is the square root of the generalised inverse of
    the Gram matrix, ``inv(X'X) = root' root``, in the units of ``X``: the least-squares
    coefficients of ``y`` are ``root' basis' y``. ``null`` is an orthonormal basis of the
    coefficient vectors that ``X`` cannot see (rank deficiency, or ``n <= D``); coefficients are
    the shortest ones, the limit of a vanishing ridge penalty.
    """

    n_samples: int
    n_inputs: int
    mean: FloatArray
    row_scale: FloatArray  # square roots of the weights, summing to n_samples when squared
    used: BoolArray  # rows with positive weight
    basis: FloatArray  # (rows, rank)
    root: FloatArray  # (rank, n_inputs)
    null: FloatArray  # (n_inputs - rank, n_inputs)
    rcond: float  # of the directions that were kept

    @classmethod
    def of(cls, X: FloatArray, weights: FloatArray | None = None) -> Design:
        """Centre and factor; QR where it can be trusted, singular values otherwise."""
        used, row_scale = row_scales(X.shape[0], weights)
        rows = X[used]
        n_samples, n_inputs = rows.shape
        mean = weighted_mean(rows, row_scale)
        columns = np.asfortranarray((rows - mean) * row_scale[:, None])
        length = column_lengths(rows, columns)
        columns /= np.where(length > 0.0, length, 1.0)
        columns[:, length == 0.0] = 0.0
        basis, root, null, rcond = factor(columns, length)
        return cls(n_samples, n_inputs, mean, row_scale, used, basis, root, null, rcond)

    @classmethod
    def from_moments(cls, moments: Moments, n_inputs: int) -> Design:
        """Factor the inputs (the first columns) from sums alone, for rows too many to hold.

        The rows of ``moments.compact()`` stand in for the data: they have the same cross-products.
        """
        rows = moments.compact()[:, :n_inputs]
        length = np.sqrt(np.einsum("ij,ij->j", rows, rows))
        columns = np.asfortranarray(rows / np.where(length > 0.0, length, 1.0))
        basis, root, null, rcond = factor(columns, length)
        ones = np.ones(rows.shape[0])
        mean = moments.mean[:n_inputs]
        return cls(moments.n_samples, n_inputs, mean, ones, ones > 0, basis, root, null, rcond)

    @property
    def rank(self) -> int:
        """Number of coefficients the inputs can determine."""
        return int(self.basis.shape[1])

    @property
    def is_doubtful(self) -> bool:
        """Whether rounding of the inputs themselves could change a decision."""
        return self.rank > 0 and self.rcond < DOUBTFUL_RCOND

    def centre(self, columns: FloatArray) -> FloatArray:
        """Centre (and weight) other columns over the same rows."""
        rows = columns[self.used]
        return np.asarray((rows - weighted_mean(rows, self.row_scale)) * self.row_scale[:, None])

    def residuals(self, centred: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Coordinates of centred columns in the basis, and what the inputs leave unexplained.

        The projection is removed twice: once leaves residuals with the rounding of the fitted
        values, which is all there is when R2 is close to one.
        """
        coordinates = self.basis.T @ centred
        residual = centred - self.basis @ coordinates
        correction = self.basis.T @ residual
        residual -= self.basis @ correction
        return coordinates + correction, residual


def row_scales(n_rows: int, weights: FloatArray | None) -> tuple[BoolArray, FloatArray]:
    """Rows that count, and the square roots of their weights normalised to sum to their number."""
    if weights is None:
        return np.ones(n_rows, dtype=bool), np.ones(n_rows)
    used = weights > 0.0
    kept = weights[used]
    return used, np.sqrt(kept * (kept.size / kept.sum()))


def weighted_mean(rows: FloatArray, row_scale: FloatArray) -> FloatArray:
    """Weighted column means, corrected once for their own rounding."""
    weights = row_scale**2
    total = weights.sum()
    mean = weights @ rows / total
    return np.asarray(mean + weights @ (rows - mean) / total)


def column_lengths(rows: FloatArray, centred: FloatArray) -> FloatArray:
    """Lengths of centred columns; zero for a constant column, whose centred values are rounding."""
    length = np.sqrt(np.einsum("ij,ij->j", centred, centred))
    rounding = 8.0 * EPS * np.sqrt(rows.shape[0]) * np.abs(rows).max(axis=0, initial=0.0)
    return np.where(length > rounding, length, 0.0)


def factor(
    columns: FloatArray, length: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, float]:
    """Basis, root, null space and reciprocal condition of unit columns of the given lengths."""
    n_rows, n_inputs = columns.shape
    if n_rows > n_inputs:
        packed, tau, _, _ = lapack.dgeqrf(columns)
        triangle = np.triu(packed[:n_inputs])
        rcond = float(lapack.dtrcon(triangle)[0]) if n_inputs else 1.0
        if rcond > TRUSTED_RCOND:
            basis = lapack.dorgqr(packed, tau, overwrite_a=1)[0]
            root = lapack.dtrtri(triangle)[0].T / length
            return basis, root, np.empty((0, n_inputs)), rcond
    return _factor_deficient(columns, length)


def _factor_deficient(
    columns: FloatArray, length: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, float]:
    """Do the same by singular values, with the cut-off of a least-squares solver.

    Rank is decided on unit columns, so that it does not depend on units; the shortest coefficients
    are then taken in the units given, by removing what lies in the null space of ``X`` itself.
    """
    n_rows, n_inputs = columns.shape
    left, values, right = linalg.svd(columns, full_matrices=False)
    largest = values[0] if values.size else 0.0
    rank = int(np.count_nonzero(values > max(n_rows, n_inputs) * EPS * largest))
    scale = np.where(length > 0.0, length, 1.0)
    root = right[:rank] / values[:rank, None] / scale
    complement = linalg.qr(right[:rank].T)[0][:, rank:] if rank else np.eye(n_inputs)
    null = linalg.qr(complement / scale[:, None], mode="economic")[0].T
    for _ in range(2):  # twice, for the same reason as in residuals
        root -= (root @ null.T) @ null
    root[:, length == 0.0] = 0.0
    rcond = float(values[rank - 1] / largest) if rank else 1.0
    return left[:, :rank], root, null, rcond
