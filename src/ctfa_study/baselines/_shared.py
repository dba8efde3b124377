"""Methods that mix targets with shared rows: Curds and Whey, and reduced-rank regression."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.model_selection import KFold
from sklearn.utils.validation import check_is_fitted

from ctfa import _reading as check
from ctfa.core.types import FloatArray
from ctfa_study.baselines._tasks import read_at_least_zero, read_count_up_to

#: Share of the largest singular value of the inputs below which least squares leaves a direction
#: out, as scikit-learn's does; a penalty looks after such directions itself.
NEGLIGIBLE = 1e-6
#: The same, a row or a feature, for what is not there at all.
ROUNDING = float(np.finfo(float).eps)


class SharedRowsRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A regressor of several targets observed on the same rows.

    A method implements ``_fit_shared(inputs, targets)`` and ``_predict_shared(inputs)``.
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Fit all targets.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            Features.
        y : array-like of shape (n_samples, n_targets) or (n_samples,)
            A column for each target.
        """
        inputs = check.read_inputs(self, X, reset=True)
        targets = check.read_targets(y, inputs.shape[0], what="y")
        self._is_vector = targets.is_vector
        self._fit_shared(inputs, targets.values)
        return self

    def predict(self, X: Any) -> FloatArray:
        """Predict all targets, one column each."""
        check_is_fitted(self)
        predicted = self._predict_shared(check.read_inputs(self, X, reset=False))
        return predicted[:, 0] if self._is_vector else predicted

    def _fit_shared(self, inputs: FloatArray, targets: FloatArray) -> None:
        raise NotImplementedError

    def _predict_shared(self, inputs: FloatArray) -> FloatArray:
        raise NotImplementedError


class SharedRowsLinear(SharedRowsRegressor):
    """Targets with coefficients of their own: ``coef_`` (T, D) and ``intercept_`` (T,)."""

    coef_: FloatArray
    intercept_: FloatArray

    def _predict_shared(self, inputs: FloatArray) -> FloatArray:
        return np.asarray(inputs @ self.coef_.T + self.intercept_)


@dataclass(frozen=True, eq=False)
class RidgeFit:
    """Ridge regression of all targets in the singular vectors of the centred inputs.

    ``|Y - XB|^2 + alpha |B|^2``, which is scikit-learn's convention; alpha = 0 is least squares of
    least norm. The hat matrix is ``U diag(weights) U'``, and what a method does to the fitted
    values it does to the few rows of ``scores`` instead of all n.
    """

    axes: FloatArray  # (k, D), right singular vectors of the centred inputs
    singular: FloatArray  # (k,)
    weights: FloatArray  # (k,), s^2 / (s^2 + alpha)
    scores: FloatArray  # (k, T), U'Y
    mean_inputs: FloatArray  # (D,)
    mean_targets: FloatArray  # (T,)
    n_rows: int
    rank: int  # of the centred inputs, also where least squares leaves directions out

    @classmethod
    def of(cls, inputs: FloatArray, targets: FloatArray, alpha: float = 0.0) -> RidgeFit:
        """Factor the inputs and project the targets."""
        mean, level = inputs.mean(axis=0), targets.mean(axis=0)
        U, s, axes = np.linalg.svd(inputs - mean, full_matrices=False)
        there = s > ROUNDING * max(inputs.shape) * s.max(initial=0.0)
        rank = int(there.sum())
        kept = s > NEGLIGIBLE * s.max(initial=0.0) if alpha == 0.0 else there
        U, s, axes = U[:, kept], s[kept], axes[kept]
        scores = U.T @ (targets - level)
        return cls(axes, s, s**2 / (s**2 + alpha), scores, mean, level, inputs.shape[0], rank)

    @property
    def freedom(self) -> float:
        """Trace of the hat matrix."""
        return float(self.weights.sum())

    @property
    def half_fit(self) -> FloatArray:
        """``H^(1/2) Y`` in the singular vectors: (k, T), with inner products ``Y'HY``."""
        return np.asarray(np.sqrt(self.weights)[:, None] * self.scores)

    @property
    def fitted(self) -> FloatArray:
        """``HY`` in the singular vectors: (k, T)."""
        return np.asarray(self.weights[:, None] * self.scores)

    def coef(self, mixing: FloatArray | None = None) -> FloatArray:
        """Coefficients (T, D), of the fitted values times a (T, T) matrix where one is given."""
        fitted = self.fitted if mixing is None else self.fitted @ mixing
        return np.asarray((fitted / self.singular[:, None]).T @ self.axes)

    def intercept(self, coef: FloatArray) -> FloatArray:
        """Intercepts that go with coefficients."""
        return np.asarray(self.mean_targets - coef @ self.mean_inputs)


def contiguous_folds(n_folds: Any, n_rows: int) -> KFold:
    """Folds of neighbouring rows, no more than there are rows."""
    number = check.read_number(n_folds, "n_folds")
    if number != int(number) or number < 2:
        raise ValueError(
            f"n_folds={n_folds!r} is not a number of folds: pass a whole number from 2."
        )
    return KFold(min(int(number), n_rows))


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


class ReducedRankRegressor(SharedRowsLinear):
    """Least squares or ridge regression with coefficients of limited rank.

    Minimises ``|Y - XB|^2 + alpha |B|^2`` over coefficients of the rank given, in closed form: the
    coefficients without the limit times the projection on the leading right singular vectors of
    their fitted values. Izenman (1975), "Reduced-rank regression for the multivariate linear
    model", Journal of Multivariate Analysis 5(2), with the identity for weights; with a penalty
    Mukherjee and Zhu (2011), "Reduced rank ridge regression and its kernel extensions",
    Statistical Analysis and Data Mining 4(6).

    Parameters
    ----------
    rank : int or "cv", default="cv"
        Rank of the coefficients. ``"cv"``: that of least squared error on folds, the smallest
        among equals; there the rank may be 0, and every target is predicted by its mean.
    alpha : float or sequence of floats, default=0.0
        Penalty, as in ``Ridge``. Of several the folds choose one, together with the rank.
    n_folds : int, default=5
        Contiguous folds, where there is something to choose.

    Attributes
    ----------
    rank_ : int
        The rank used.
    alpha_ : float
        The penalty used.
    errors_ : ndarray of shape (n_alphas, n_ranks)
        Mean squared error of each choice on the folds, for ranks 0, 1, ...; only where there was
        something to choose.
    coef_ : ndarray of shape (n_targets, n_features)
    intercept_ : ndarray of shape (n_targets,)

    Notes
    -----
    Errors of all targets are added up in the units given: scale targets of different units first.

    Examples
    --------
    >>> import numpy as np
    >>> from ctfa_study.baselines import ReducedRankRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(80, 6))
    >>> Y = X[:, :1] @ rng.normal(size=(1, 5)) + rng.normal(size=(80, 5))
    >>> ReducedRankRegressor().fit(X, Y).rank_
    1
    """

    def __init__(self, rank: int | str = "cv", *, alpha: Any = 0.0, n_folds: int = 5) -> None:
        self.rank = rank
        self.alpha = alpha
        self.n_folds = n_folds

    def _fit_shared(self, inputs: FloatArray, targets: FloatArray) -> None:
        alphas = _read_penalties(self.alpha)
        largest = min(inputs.shape[1], targets.shape[1])
        by_folds = isinstance(self.rank, str) and self.rank == "cv"
        if by_folds:
            ranks = np.arange(largest + 1)
        else:
            ranks = np.array([read_count_up_to(self.rank, largest, "rank", "features or targets")])
        self.__dict__.pop("errors_", None)
        choice = (0, 0)
        if by_folds or len(alphas) > 1:
            errors = self._fold_errors(inputs, targets, alphas)
            self.errors_ = errors
            best = int(np.argmin(errors[:, ranks]))  # alphas by ranks, the first among equals
            choice = (best // ranks.size, best % ranks.size)
        self.alpha_, self.rank_ = alphas[choice[0]], int(ranks[choice[1]])
        fit = RidgeFit.of(inputs, targets, self.alpha_)
        leading = _axes(fit)[: self.rank_]
        self.coef_ = fit.coef(leading.T @ leading)
        self.intercept_ = fit.intercept(self.coef_)

    def _fold_errors(
        self, inputs: FloatArray, targets: FloatArray, alphas: list[float]
    ) -> FloatArray:
        """Mean squared error on the folds of each penalty and rank from 0 up, (A, R + 1)."""
        errors = np.zeros((len(alphas), min(inputs.shape[1], targets.shape[1]) + 1))
        for train, test in contiguous_folds(self.n_folds, inputs.shape[0]).split(inputs):
            for number, alpha in enumerate(alphas):
                fit = RidgeFit.of(inputs[train], targets[train], alpha)
                left = targets[test] - fit.mean_targets
                axes = _axes(fit)
                # In coordinates along the axes a rank r fit predicts the first r, and 0 for others.
                true = left @ axes.T
                predicted = (inputs[test] - fit.mean_inputs) @ fit.coef(axes.T).T
                won = np.cumsum(np.sum(true**2 - (true - predicted) ** 2, axis=0))
                # Fewer axes than the largest rank: the fold's training rows do not have that many.
                won = np.pad(won, (1, 0))
                won = np.pad(won, (0, errors.shape[1] - won.size), mode="edge")
                errors[number] += np.sum(left**2) - won
        return errors / targets.size


def _axes(fit: RidgeFit) -> FloatArray:
    """Right singular vectors of the fitted values of the penalised problem, (k, T)."""
    # Ridge is least squares on rows [X; sqrt(alpha) I]: its fitted values have inner products
    # Y'X (X'X + alpha I)^-1 X'Y, those of the half fit.
    return np.asarray(np.linalg.svd(fit.half_fit, full_matrices=False)[2])


def _read_penalties(alpha: Any) -> list[float]:
    if not isinstance(alpha, Iterable) or isinstance(alpha, str):
        return [read_at_least_zero(alpha, "alpha")]
    penalties = [read_at_least_zero(value, "alpha") for value in alpha]
    if not penalties:
        raise ValueError("alpha holds no penalties: pass a number, or several to choose among.")
    return penalties
