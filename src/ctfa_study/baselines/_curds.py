"""Curds and Whey: least squares, shrunk along the canonical coordinates of the targets."""

from __future__ import annotations

from typing import Any

import numpy as np

from ctfa import _validation as check
from ctfa.core.types import FloatArray
from ctfa_study.baselines._numbers import read_at_least_zero
from ctfa_study.baselines._shared import RidgeFit, SharedRowsLinear

#: Share of the largest variance below which a direction of standardised targets holds nothing.
NOTHING = 1e-10


class CurdsAndWheyRegressor(SharedRowsLinear):
    """Least squares of all targets, shrunk along their canonical coordinates.

    Breiman and Friedman (1997), "Predicting multivariate responses in multiple linear regression",
    Journal of the Royal Statistical Society B 59(1). The predictions of least squares are
    multiplied by ``T^-1 diag(d) T``, where the rows of T take the targets to their canonical
    coordinates. Along one with canonical correlation c, on n rows and D features, ``r = D/n``,
    generalised cross-validation gives the positive part of ::

        d = (1 - r)(c^2 - r) / ((1 - r)^2 c^2 + r^2 (1 - c^2))

    which does not depend on the units of the targets, nor on which linear combinations of them are
    called targets.

    Parameters
    ----------
    alpha : float, default=0.0
        Penalty of a ridge regression in place of least squares, as in ``Ridge``: for many or
        collinear features. r is then the mean leverage, and d minimises the same
        cross-validation for those fits.
    coordinates : {"auto", "canonical", "principal"}, default="auto"
        Every canonical correlation is one where targets and features together reach the number of
        rows, and nothing is shrunk. ``"principal"`` takes the principal axes of the fitted values
        of standardised targets instead, with the R2 along each for c^2; this is not in the paper.
        ``"auto"``: canonical up to a quarter as many targets as rows.

    Attributes
    ----------
    shrinkage_ : ndarray of shape (n_coordinates,)
        d, the strongest coordinate first; coordinates that are not listed have no fitted values.
    correlations_ : ndarray of shape (n_coordinates,)
        c^2.
    mixing_ : ndarray of shape (n_targets, n_targets)
        What the fitted values of centred targets are multiplied with from the right.
    coef_ : ndarray of shape (n_targets, n_features)
    intercept_ : ndarray of shape (n_targets,)

    Examples
    --------
    >>> import numpy as np
    >>> from ctfa_study.baselines import CurdsAndWheyRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 8))
    >>> Y = X[:, :1] + rng.normal(size=(60, 4))
    >>> CurdsAndWheyRegressor().fit(X, Y).shrinkage_.round(2)
    array([0.95, 0.54, 0.  , 0.  ])
    """

    def __init__(self, alpha: float = 0.0, *, coordinates: str = "auto") -> None:
        self.alpha = alpha
        self.coordinates = coordinates

    def _fit_shared(self, inputs: FloatArray, targets: FloatArray) -> None:
        check.require(self.coordinates, ["auto", "canonical", "principal"], "coordinates")
        scale = targets.std(axis=0)
        scale[~check.is_varying(targets)] = 1.0
        # Canonical coordinates have no units; in standard deviations no target is lost in rounding.
        Z = (targets - targets.mean(axis=0)) / scale
        fit = RidgeFit.of(inputs, Z, read_at_least_zero(self.alpha, "alpha"))
        to, back = _coordinates(fit, Z, self._is_canonical(*Z.shape))
        total = np.sum((Z @ to) ** 2, axis=0)
        cross = np.sum((fit.half_fit @ to) ** 2, axis=0)
        explained = np.sum((fit.fitted @ to) ** 2, axis=0)
        self.correlations_ = cross / np.maximum(total, np.finfo(float).tiny)
        # The paper's r counts features; those that others give exactly are none.
        r = (fit.freedom if self.alpha else fit.rank) / fit.n_rows
        self.shrinkage_ = cross_validated_shrinkage(total, cross, explained, r)
        mixing = (to * self.shrinkage_) @ back
        self.mixing_ = mixing * scale / scale[:, None]
        self.coef_ = fit.coef(mixing) * scale[:, None]
        self.intercept_ = targets.mean(axis=0) - self.coef_ @ fit.mean_inputs

    def _is_canonical(self, n_rows: int, n_targets: int) -> bool:
        if self.coordinates == "auto":
            return n_targets <= n_rows / 4
        return self.coordinates == "canonical"


def cross_validated_shrinkage(
    total: Any, cross: Any, explained: Any, leverage: float
) -> FloatArray:
    """Factors of the fitted values that generalised cross-validation likes best, 0 to 1 or more.

    With mean leverage r, the prediction of a row left out is ``(fitted - r y) / (1 - r)``; d times
    that is closest to y at ``(1 - r) y'(fitted - r y) / |fitted - r y|^2``. For least squares
    ``y'fitted = fitted'fitted = c^2 y'y``, and this is the published formula.

    Examples
    --------
    >>> float(cross_validated_shrinkage(1.0, 0.5, 0.5, 0.1).round(4))
    0.878
    """
    total, cross, explained = (np.asarray(part, dtype=float) for part in (total, cross, explained))
    above = (1.0 - leverage) * (cross - leverage * total)
    below = explained - 2.0 * leverage * cross + leverage**2 * total
    safe = below > np.finfo(float).eps * np.maximum(total, np.finfo(float).tiny)
    # Where the rows left out are predicted by nothing (r = 1), nothing is promised either.
    return np.where(safe, np.maximum(above, 0.0) / np.where(safe, below, 1.0), 0.0)


def _coordinates(fit: RidgeFit, Z: FloatArray, canonical: bool) -> tuple[FloatArray, FloatArray]:
    """Matrices (T, k) to the coordinates and (k, T) back."""
    if not canonical:
        _, _, turn = np.linalg.svd(fit.half_fit, full_matrices=False)
        return turn.T, turn
    spread, axes = np.linalg.eigh(Z.T @ Z)
    kept = spread > NOTHING * max(float(spread[-1]), np.finfo(float).tiny)
    length, axes = np.sqrt(spread[kept]), axes[:, kept]
    _, _, turn = np.linalg.svd(fit.half_fit @ (axes / length), full_matrices=False)
    # The way back is that of all coordinates, of which the first few are kept: the pseudo-inverse
    # of the few would lose what they share with the others.
    return (axes / length) @ turn.T, (turn * length) @ axes.T
