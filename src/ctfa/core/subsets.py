"""The same inputs on many subsets of their rows: one subset factored, or many solved at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ctfa.core.design import Design
from ctfa.core.types import BoolArray, FloatArray, IntArray

#: Below this reciprocal condition of all rows each subset is factored by itself: normal equations
#: would have to trust the weak directions that all rows gave.
SAFE_RCOND = 1e-7
#: Largest norm of the inverse that is trusted. It is at least one over the smallest eigenvalue, and
#: that is one where all rows are kept: above it the rows kept hardly see some direction.
LARGEST_INVERSE = 1e4
#: Added to the diagonal, so that a subset of lower rank gives a huge inverse instead of an error.
#: One more step with the explicit residual removes what it does to the others.
RIDGE = 1e-12
#: Numbers held at once by the batched solver.
BATCH = 4_000_000
#: Largest table of products of two basis columns; with more inputs each subset is factored.
LARGEST_TABLE = 20_000_000
#: With fewer rows there is nothing to regress: an intercept and a residual take two.
FEWEST_ROWS = 3


class Squares(NamedTuple):
    """Sums of squares about the mean of the rows kept, one entry a series."""

    explained: FloatArray
    residual: FloatArray
    n_samples: IntArray
    rank: IntArray


class RowSubsets:
    """Inputs with an intercept, for least squares on any subset of their rows.

    With ``B`` an orthonormal basis of the inputs and the intercept over all rows, the Gram matrix
    of its kept rows, ``B'MB``, is close to a multiple of the identity as long as the rows dropped
    are not special. Its entries are sums of products of two columns over the rows kept: for many
    subsets at once, one matrix product of masks and products. Fitted values and residuals are
    then formed row by row and squared, never subtracted from a total. Subsets that lose a
    direction, or nearly, are factored by themselves.
    """

    def __init__(self, X: FloatArray, row_scale: FloatArray | None = None) -> None:
        self._weights = None if row_scale is None else row_scale**2
        design = Design.of(X, self._weights)
        self._X = X
        self.row_scale = design.row_scale
        self.n_samples, self.n_inputs, self.rank = design.n_samples, design.n_inputs, design.rank
        spanned = design.centre(X) @ design.root.T
        self._basis = np.linalg.qr(np.column_stack((self.row_scale, spanned)))[0]
        width = self._basis.shape[1]
        n_products = width * (width + 1) // 2
        self.solves_batches = (
            design.factors.rcond > SAFE_RCOND
            and width < self.n_samples
            and self.n_samples * n_products <= LARGEST_TABLE
        )
        if self.solves_batches:
            upper, lower = np.triu_indices(width)
            self._products = self._basis[:, upper] * self._basis[:, lower]
            self._place = np.empty((width, width), dtype=np.intp)
            self._place[upper, lower] = self._place[lower, upper] = np.arange(n_products)

    def design(self, kept: BoolArray) -> Design:
        """Factor the inputs on the rows kept."""
        return Design.of(self._X[kept], None if self._weights is None else self._weights[kept])

    def squares(self, series: FloatArray, kept: BoolArray) -> Squares:
        """Regress each series ``(m, n)`` on the inputs over its own rows ``kept`` ``(m, n)``.

        What a series holds in other rows plays no part, but must be a number. Series with fewer
        than ``FEWEST_ROWS`` rows get zeros.
        """
        n_kept = kept.sum(axis=1)
        found = np.zeros((2, n_kept.size))
        rank = np.zeros(n_kept.size, dtype=np.intp)
        alone = n_kept >= FEWEST_ROWS
        if self.solves_batches:
            batched = np.flatnonzero(n_kept > self.rank + 2)
            step = max(1, BATCH // (2 * self._place.size + 4 * self.n_samples))
            for start in range(0, batched.size, step):
                which = batched[start : start + step]
                squares, trusted = self._solve(series[which], kept[which])
                which = which[trusted]
                found[:, which], rank[which], alone[which] = squares[:, trusted], self.rank, False
        for k in np.flatnonzero(alone):
            design = self.design(kept[k])
            fitted, left = design.coordinates(design.centre(series[k, kept[k], None]))
            found[:, k] = np.sum(fitted**2), np.sum(left**2)
            rank[k] = design.rank
        return Squares(found[0], found[1], n_kept, rank)

    def _solve(self, series: FloatArray, kept: BoolArray) -> tuple[FloatArray, BoolArray]:
        """Solve the normal equations of many subsets; also say which of them can be trusted."""
        mask = kept.astype(float)
        gram = (mask @ self._products)[:, self._place]
        gram += RIDGE * np.eye(gram.shape[1])
        # Inverted, because it is used twice and its norm is what tells whom to trust.
        inverse = np.linalg.inv(gram)
        trusted = np.einsum("kij,kij->k", inverse, inverse) < LARGEST_INVERSE**2
        weight = mask * self.row_scale**2
        total = weight.sum(axis=1, keepdims=True)
        mask *= self.row_scale  # the intercept, from here on
        mean = np.einsum("ki,ki->k", weight, series)[:, None] / total
        left = (series - mean) * mask
        coefficients = np.zeros((left.shape[0], self._basis.shape[1]))
        for _ in range(2):  # twice: the second removes the rounding and the ridge of the first
            step = np.einsum("kij,kj->ki", inverse, left @ self._basis)
            coefficients += step
            left -= (step @ self._basis.T) * kept
        fitted = (coefficients[:, 1:] @ self._basis[:, 1:].T) * kept
        fitted -= np.einsum("ki,ki->k", fitted, mask)[:, None] / total * mask
        squares = np.stack([np.einsum("ki,ki->k", part, part) for part in (fitted, left)])
        # Weights count as many as there are rows, as in a fit of these rows alone.
        return squares * (kept.sum(axis=1) / total[:, 0]), trusted
