"""The inputs, centred and factored once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy import linalg
from scipy.linalg import lapack

from ctfa.core.types import BoolArray, FloatArray

EPS = float(np.finfo(np.float64).eps)
#: Below this reciprocal condition (of columns at unit length) triangular factors stop being trusted
#: and singular values decide what the rank is.
TRUSTED_RCOND = 1e-10
#: Below this one a triangle is inverted by substitution, column by column: its rounding stays along
#: what the inputs hardly see, where predictions do not feel it. The faster way loses 1e-6 of a loss
#: at a condition number of 1e7.
EASY_RCOND = 1e-4
#: A direction weaker than this makes decisions depend on rounding; callers warn.
DOUBTFUL_RCOND = 0.9e-9
#: The same for numbers that came in single precision, as those of most files do: a mean of two
#: columns beside them is dependent up to its rounding, and a direction of rounding would multiply
#: by millions what is different in the rows to predict.
SINGLE_RCOND = 1e-6
#: A dropped direction counts as an exact dependence up to this many times the rounding of the
#: inputs' own numbers. Copies, sums and indicators stay below 1.4; a copy that differs by 2^-45 of
#: its spread reaches 45.
ROUNDED = 2.0


class GivenScale(NamedTuple):
    """Numbers that unit columns were made from."""

    size: FloatArray  # (D,): length about zero, in the length about the mean; zero of a constant
    row_scale: FloatArray  # (n,): what a constant is in these rows


#: A centred matrix taken apart: five of a ``Design``.
Factors: TypeAlias = tuple[
    tuple[FloatArray, FloatArray] | None, FloatArray | None, FloatArray, FloatArray, float
]


@dataclass(frozen=True, eq=False)
class Design:
    """Inputs ``X``, centred (and weighted), and factored once for any number of questions.

    ``root`` is the square root of the generalised inverse of the Gram matrix,
    ``inv(X'X) = root' root``, in the units of ``X``: the least-squares coefficients of ``y`` are
    ``root' c``, with ``c`` the coordinates of ``y`` in an orthonormal basis of the columns.
    ``null`` is an orthonormal basis of the coefficient vectors that ``X`` cannot see (rank
    deficiency, or ``n <= D``); coefficients are the shortest ones, the limit of a vanishing ridge
    penalty.
    """

    n_samples: int
    n_inputs: int
    mean: FloatArray
    row_scale: FloatArray  # square roots of the weights, summing to n_samples when squared
    used: BoolArray  # rows with positive weight
    reflectors: tuple[FloatArray, FloatArray] | None  # Householder vectors, where QR is trusted
    basis: FloatArray | None  # left singular vectors, where it is not
    root: FloatArray  # (rank, n_inputs)
    null: FloatArray  # (n_inputs - rank, n_inputs)
    rcond: float  # of the weakest direction that is more than rounding, kept or not
    length: FloatArray  # of each centred column; zero for constants

    @classmethod
    def of(
        cls,
        X: FloatArray,
        weights: FloatArray | None = None,
        n_samples: int | None = None,
        single: bool | None = None,
    ) -> Design:
        """Centre and factor; QR where it can be trusted, singular values otherwise.

        ``n_samples`` is given where the rows stand in for another number of them, ``single`` where
        it is known whether what ``X`` was made of came in single precision.
        """
        used, row_scale = row_scales(X.shape[0], weights, n_samples)
        rows = X if used.all() else X[used]
        row_weights = row_scale**2
        mean = row_weights @ rows / row_weights.sum()
        columns = np.subtract(rows, mean, order="F")
        shift = row_weights @ columns / row_weights.sum()  # the mean's own rounding
        columns -= shift
        mean += shift
        if weights is not None:
            columns *= row_scale[:, None]
        length = column_lengths(mean, columns)
        unit = np.where(length > 0.0, length, np.inf)
        columns /= unit
        given = None
        if n_samples in (None, rows.shape[0]):  # rows that stand in for others are not as exact
            size = np.sqrt(1.0 + row_weights.sum() * (mean / unit) ** 2)
            given = GivenScale(np.where(length > 0.0, size, 0.0), row_scale)
        single = is_single(rows) if single is None else single
        factors = factor(columns, length, given, SINGLE_RCOND if single else 0.0)
        count = rows.shape[0] if n_samples is None else n_samples
        return cls(count, rows.shape[1], mean, row_scale, used, *factors, length)

    @property
    def rank(self) -> int:
        """Number of coefficients the inputs can determine."""
        return int(self.root.shape[0])

    @property
    def is_doubtful(self) -> bool:
        """Whether rounding of the inputs themselves could change a decision."""
        return self.rank > 0 and self.rcond < DOUBTFUL_RCOND

    def coefficients(self, targets: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Least squares of ``(n, L)`` targets: coefficients ``(D, L)`` and intercepts ``(L,)``."""
        rows = targets if self.used.all() else targets[self.used]
        coef = self.root.T @ self.coordinates(self.centre(targets))[0]
        return coef, weighted_mean(rows, self.row_scale) - self.mean @ coef

    def centre(self, columns: FloatArray) -> FloatArray:
        """Centre (and weight) other columns over the same rows."""
        rows = columns if self.used.all() else columns[self.used]
        centred = rows - weighted_mean(rows, self.row_scale)
        if (self.row_scale != 1.0).any():
            centred *= self.row_scale[:, None]
        return np.asarray(centred)

    def coordinates(self, centred: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Split centred columns into what the inputs explain and what they leave.

        Both come as coordinates: inner products of the first are those of the fitted values, inner
        products of the second those of the residuals. The residuals are never a difference of two
        large numbers, which is all they would be when R2 is close to one.
        """
        if self.reflectors is not None:
            packed, tau = self.reflectors
            turned = reflected(packed, tau, centred, transposed=True)
            return turned[: self.rank], turned[self.rank :]
        basis = self.basis
        assert basis is not None
        fitted = basis.T @ centred
        left = centred - basis @ fitted
        correction = basis.T @ left  # once more: the first sweep leaves rounding of the fit
        return fitted + correction, left - basis @ correction

    def fitted(self, coordinates: FloatArray) -> FloatArray:
        """Rows of what the inputs explain, from its coordinates."""
        if self.reflectors is None:
            assert self.basis is not None
            return np.asarray(self.basis @ coordinates)
        packed, tau = self.reflectors
        padded = np.zeros((packed.shape[0], coordinates.shape[1]), order="F")
        padded[: self.rank] = coordinates
        return reflected(packed, tau, padded, transposed=False)


def row_scales(
    n_rows: int, weights: FloatArray | None, n_samples: int | None = None
) -> tuple[BoolArray, FloatArray]:
    """Rows that count, and the square roots of their weights normalised to sum to their number.

    That number is ``n_samples`` where the rows stand in for so many.
    """
    if weights is None:
        return np.ones(n_rows, dtype=bool), np.ones(n_rows)
    used = weights > 0.0
    kept = weights[used]
    total = kept.size if n_samples is None else n_samples
    return used, np.sqrt(kept * (total / kept.sum()))


def weighted_mean(rows: FloatArray, row_scale: FloatArray) -> FloatArray:
    """Weighted column means, corrected once for their own rounding."""
    weights = row_scale**2
    total = float(weights.sum())
    mean = weights @ rows / total
    return np.asarray(mean + weights @ (rows - mean) / total)


def column_lengths(mean: FloatArray, centred: FloatArray) -> FloatArray:
    """Lengths of centred columns; zero for a constant column, whose centred values are rounding."""
    length = np.sqrt(np.einsum("ji,ji->j", centred.T, centred.T))
    # A column that is large beside its mean is not constant: the mean alone sets the scale.
    return np.where(length > 8.0 * EPS * np.sqrt(centred.shape[0]) * np.abs(mean), length, 0.0)


def about_means(rows: FloatArray, row_scale: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Weighted column means, and the rows about them: constant columns are exactly zero."""
    mean = weighted_mean(rows, row_scale)
    centred = rows - mean
    # A large level leaves rounding of the mean, which would pass for one more direction.
    centred -= weighted_mean(centred, row_scale)
    centred[:, column_lengths(mean, centred) == 0.0] = 0.0
    return mean, np.asarray(centred)


def is_single(rows: FloatArray) -> bool:
    """Whether numbers came in single precision: it has them all, and they are not whole."""
    for some in (rows[:16], rows):  # most data are recognised by their first rows
        with np.errstate(over="ignore"):
            found = (some.astype(np.float32) == some).all(axis=0)
        if not found.any():
            return False
    columns = rows[:, found]
    return bool((columns != np.rint(columns)).any())


def factor(
    columns: FloatArray, length: FloatArray, given: GivenScale | None = None, weakest: float = 0.0
) -> Factors:
    """Take apart unit columns of the given lengths.

    ``given`` says how exact they are; without it every direction too weak to keep is rounding.
    None is kept that is weaker than ``weakest``.
    """
    n_rows, n_inputs = columns.shape
    if n_rows > n_inputs > 0:
        work, _ = lapack.dgeqrf_lwork(n_rows, n_inputs)
        packed, tau, _, _ = lapack.dgeqrf(columns, lwork=int(work))
        triangle = np.triu(packed[:n_inputs])
        inverse, singular = lapack.dtrtri(triangle)
        rcond = (
            0.0
            if singular
            else 1.0 / float(np.linalg.norm(triangle, 1) * np.linalg.norm(inverse, 1))
        )
        if rcond > max(TRUSTED_RCOND, weakest):
            if rcond < EASY_RCOND:
                inverse = linalg.solve_triangular(triangle, np.eye(n_inputs), check_finite=False)
            root = inverse.T / length
            return (packed, tau), None, root, np.empty((0, n_inputs)), rcond
    return _factor_deficient(columns, length, given, weakest)


def reflected(
    packed: FloatArray, tau: FloatArray, columns: FloatArray, *, transposed: bool
) -> FloatArray:
    """Multiply by an orthogonal factor, or by its transpose, without forming it."""
    columns = np.asfortranarray(columns)
    way = "T" if transposed else "N"
    # LAPACK writes ones into the reflectors while it works, and then puts back what it had found:
    # other threads would read them, and memory that processes share cannot be written.
    packed = packed.copy(order="F")
    _, work, _ = lapack.dormqr("L", way, packed, tau, columns, -1)
    return np.asarray(lapack.dormqr("L", way, packed, tau, columns, int(work[0]))[0])


def singular_values(columns: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Singular vectors and values; by the slower routine where the faster one gives up.

    Divide and conquer does so on some tables of indicators with an empty column.
    """
    try:
        return linalg.svd(columns, full_matrices=False)
    except linalg.LinAlgError:
        return linalg.svd(columns, full_matrices=False, lapack_driver="gesvd")


def _factor_deficient(
    columns: FloatArray, length: FloatArray, given: GivenScale | None, least: float
) -> Factors:
    """Do the same by singular values, with the cut-off of a least-squares solver.

    Rank is decided on unit columns, so that it does not depend on units; the shortest coefficients
    are then taken in the units given, by removing what lies in the null space of ``X`` itself.
    """
    n_rows, n_inputs = columns.shape
    left, values, right = singular_values(columns)
    largest = values[0] if values.size else 0.0
    rank = int(np.count_nonzero(values > max(max(n_rows, n_inputs) * EPS, least) * largest))
    scale = np.where(length > 0.0, length, 1.0)
    root = right[:rank] / values[:rank, None] / scale
    complement = linalg.qr(right[:rank].T)[0][:, rank:] if rank else np.eye(n_inputs)
    null = linalg.qr(complement / scale[:, None], mode="economic")[0].T
    for _ in range(2):  # twice: the first sweep leaves rounding of what it removed
        root -= (root @ null.T) @ null
    root[:, length == 0.0] = 0.0
    basis = left[:, :rank]
    weakest = values[rank - 1] if rank else largest
    if given is not None and not least and 0 < rank < min(n_rows - 1, n_inputs):
        weakest = _overlooked(columns, basis, right[rank], given) or weakest
    return None, basis, root, np.asarray(null), float(weakest / largest) if rank else 1.0


def _overlooked(
    columns: FloatArray, basis: FloatArray, direction: FloatArray, given: GivenScale
) -> float:
    """Strength of a direction that was dropped, zero where it is a dependence of the inputs."""
    beyond = columns @ direction
    # Of indicators, which have two values each, the centring of many rows is rounded alike.
    level = given.row_scale / np.linalg.norm(given.row_scale)
    beyond -= level * (level @ beyond)
    beyond -= basis @ (basis.T @ beyond)
    strength = float(np.linalg.norm(beyond))
    # A constant column has no size, and leaves nothing but the rounding of the vector.
    rounding = EPS * max(float(given.size @ np.abs(direction)), 1.0)
    return strength if strength > ROUNDED * rounding else 0.0
