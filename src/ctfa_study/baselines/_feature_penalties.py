"""Penalties that make coefficients of one target equal: each task is fitted by itself."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np
from sklearn.isotonic import isotonic_regression

from ctfa.core.types import FloatArray, IntArray
from ctfa_study.baselines._proximal import least_squares, solve
from ctfa_study.baselines._tasks import (
    LinearTasks,
    TaskData,
    TaskMoments,
    TaskRows,
    read_at_least_zero,
    read_count,
)


class SortedNorm:
    """``sum_i weights_i |b|_(i)``, the largest coefficient with the first and largest weight."""

    n_parts = 1

    def __init__(self, weights: FloatArray) -> None:
        self.weights = weights

    def value(self, parts: FloatArray) -> float:
        """``h``."""
        return float(np.sort(np.abs(parts.ravel()))[::-1] @ self.weights)

    def prox(self, parts: FloatArray, step: float) -> FloatArray:
        """Isotonic regression of what is left of the sorted sizes, none below zero.

        By the rearrangement inequality the minimiser has the order of the given sizes and their
        signs, and among vectors in that order the penalty is linear.
        """
        size = np.abs(parts.ravel())
        order = np.argsort(-size, kind="stable")
        left = isotonic_regression(size[order] - step * self.weights, increasing=False)
        size[order] = np.maximum(left, 0.0)
        return np.asarray(np.sign(parts) * size.reshape(parts.shape))

    def dual_norm(self, gradient: FloatArray) -> float:
        """Largest sum of some of the absolute values, over that of as many weights.

        The vertices of the unit ball are vectors of some equal magnitudes and zeros elsewhere.
        """
        sums = np.cumsum(np.sort(np.abs(gradient.ravel()))[::-1])
        return float(np.max(sums / np.cumsum(self.weights)))


class PairsNorm:
    """``alpha |b|_1 + alpha_pairs sum_{j<k} |b_j - b_k|``.

    In descending order the sum over pairs is linear: coefficient ``i`` of ``D`` is the larger of
    ``D - i`` pairs and the smaller of ``i - 1``, so it has the weight ``D + 1 - 2 i``.
    """

    n_parts = 1

    def __init__(self, alpha: float, alpha_pairs: float, n_features: int) -> None:
        self.alpha = alpha
        self.alpha_pairs = alpha_pairs
        self.weights = alpha_pairs * np.arange(n_features - 1.0, -n_features, -2.0)

    def value(self, parts: FloatArray) -> float:
        """``h``."""
        coef = np.sort(parts.ravel())[::-1]
        return float(coef @ self.weights) + self.alpha * float(np.abs(coef).sum())

    def prox(self, parts: FloatArray, step: float) -> FloatArray:
        """Isotonic regression of what is left of the sorted values, then a soft threshold.

        By the rearrangement inequality the minimiser ``u`` for the pairs alone has the order of
        the given point, and among vectors in that order the penalty is linear. The threshold may
        come after it: it is the prox of ``|b|_1``, so ``u - b`` is a subgradient of that at
        ``b``; and it is monotone, so what was in order stays in order, and each sign of
        ``u_j - u_k`` that is a subgradient of ``|u_j - u_k|`` is one of ``|b_j - b_k|`` too.
        Hence ``z - b = (z - u) + (u - b)`` is a subgradient of the sum at ``b``.
        """
        point = parts.ravel()
        order = np.argsort(-point, kind="stable")
        fused = np.empty_like(point)
        fused[order] = isotonic_regression(point[order] - step * self.weights, increasing=False)
        kept = np.maximum(np.abs(fused) - step * self.alpha, 0.0)
        return np.asarray(np.sign(fused) * kept).reshape(parts.shape)

    def dual_norm(self, gradient: FloatArray) -> float:
        """Largest sum of the greatest, or of the least, over the penalty of as many ones.

        In descending order ``b`` is a sum, with weights that are not negative, of vectors
        ``(1, ..., 1, 0, ..., 0)`` and ``(0, ..., 0, -1, ..., -1)``, on which ``h`` adds up; of
        ``k`` ones it is ``k alpha + k (D - k) alpha_pairs``.
        """
        ordered = np.sort(gradient.ravel())
        count = np.arange(1.0, ordered.size + 1.0)
        norm = count * (self.alpha + (ordered.size - count) * self.alpha_pairs)
        sums = np.maximum(np.cumsum(ordered[::-1]), -np.cumsum(ordered))
        if self.alpha == 0.0:
            # A common shift costs nothing; the gradient along it has been made zero.
            sums, norm = sums[:-1], norm[:-1]
        return float(np.max(sums / norm))


class _Fitted(NamedTuple):
    """One task."""

    coef: FloatArray  # (D,)
    gap: float
    n_iter: int


class _OneByOne(LinearTasks):
    """Each task fitted by itself, whether they share their rows or not."""

    def __init__(
        self,
        alpha: Any = 0.1,
        alpha_pairs: Any = 0.01,
        *,
        tol: Any = 1e-8,
        max_iter: Any = 10_000,
    ) -> None:
        self.alpha = alpha
        self.alpha_pairs = alpha_pairs
        self.tol = tol
        self.max_iter = max_iter

    def _fit_tasks(self, data: TaskData) -> None:
        fitted = [self._fit_one(rows) for rows in data]
        self.gap_ = np.array([one.gap for one in fitted])
        self.n_iter_ = np.array([one.n_iter for one in fitted])
        coef = np.stack([one.coef for one in fitted])
        self.groups_ = np.stack([self._group(row) for row in coef])
        self._settle(coef, data.moments)

    def _fit_one(self, rows: TaskRows) -> _Fitted:
        tol = read_at_least_zero(self.tol, "tol")
        max_iter = read_count(self.max_iter, "max_iter")
        alpha = read_at_least_zero(self.alpha, "alpha")
        of_pairs = read_at_least_zero(self.alpha_pairs, "alpha_pairs")
        moments = TaskData(rows.inputs, rows.target[:, None], None, 1).moments
        norm = self._norm(alpha, of_pairs, rows.inputs.shape[1])
        if not norm.weights.any() and alpha == 0.0:
            return _Fitted(least_squares(moments)[0], 0.0, 0)
        # What costs nothing is free: the clustered lasso does not see a shift common to all.
        free = alpha == 0.0 and isinstance(norm, PairsNorm)
        reduced = _without_shift(moments) if free else moments
        solution = solve(reduced, norm, tol=tol, max_iter=max_iter)
        coef = solution.coef[0]
        if free:
            coef = coef + _shift(moments, coef)
        return _Fitted(coef, solution.gap, solution.n_iter)

    def _norm(self, alpha: float, alpha_pairs: float, n_features: int) -> SortedNorm | PairsNorm:
        raise NotImplementedError

    def _group(self, coef: FloatArray) -> IntArray:
        raise NotImplementedError


class OSCARRegressor(_OneByOne):
    """Features of equal size: the larger coefficient of every pair as penalty.

    Minimises, for each task by itself, ``|y - X b - b_0|^2 / (2 n) + alpha |b|_1 + alpha_pairs
    sum_{j<k} max(|b_j|, |b_k|)``.

    Parameters
    ----------
    alpha : float, default=0.1
        Weight of the absolute values. Standardise features and targets first.
    alpha_pairs : float, default=0.01
        Weight of the pairs; each coefficient is in ``n_features - 1`` of them.
    tol : float, default=1e-8
        Duality gap at which to stop, over the objective of zero coefficients.
    max_iter : int, default=10000
        Steps after which to stop with a warning.

    Attributes
    ----------
    coef_ : ndarray of shape (n_tasks, n_features)
    intercept_ : ndarray of shape (n_tasks,)
    groups_ : ndarray of shape (n_tasks, n_features)
        Group of each feature: those whose coefficients have one absolute value.
    gap_ : ndarray of shape (n_tasks,)
        Relative duality gap reached.
    n_iter_ : ndarray of shape (n_tasks,)
        Number of steps.

    References
    ----------
    Bondell and Reich, "Simultaneous regression shrinkage, variable selection, and supervised
    clustering of predictors with OSCAR", Biometrics 64 (2008); as a sorted norm, Zeng and
    Figueiredo, "Solving OSCAR regularization problems by fast approximate proximal splitting
    algorithms", Digital Signal Processing 31 (2014).

    Examples
    --------
    >>> from ctfa_study.baselines import OSCARRegressor
    >>> from ctfa.datasets import make_paper_synthetic
    >>> X, Y = make_paper_synthetic(60, 5, 3, random_state=0)
    >>> OSCARRegressor(alpha=0.01).fit(X, Y).predict(X).shape
    (60, 3)
    """

    def _norm(self, alpha: float, alpha_pairs: float, n_features: int) -> SortedNorm:
        return SortedNorm(alpha + alpha_pairs * np.arange(n_features - 1.0, -1.0, -1.0))

    def _group(self, coef: FloatArray) -> IntArray:
        return _equal(np.abs(coef))


class ClusteredLassoRegressor(_OneByOne):
    """Features with equal coefficients: the difference of every pair as penalty.

    Minimises, for each task by itself, ``|y - X b - b_0|^2 / (2 n) + alpha |b|_1 + alpha_pairs
    sum_{j<k} |b_j - b_k|``.

    Parameters
    ----------
    alpha : float, default=0.1
        Weight of the absolute values; zero leaves a value common to all coefficients free.
        Standardise features and targets first.
    alpha_pairs : float, default=0.01
        Weight of the differences; each coefficient is in ``n_features - 1`` of them.
    tol : float, default=1e-8
        Duality gap at which to stop, over the objective of zero coefficients.
    max_iter : int, default=10000
        Steps after which to stop with a warning.

    Attributes
    ----------
    coef_ : ndarray of shape (n_tasks, n_features)
    intercept_ : ndarray of shape (n_tasks,)
    groups_ : ndarray of shape (n_tasks, n_features)
        Group of each feature: those whose coefficients are equal.
    gap_ : ndarray of shape (n_tasks,)
        Relative duality gap reached.
    n_iter_ : ndarray of shape (n_tasks,)
        Number of steps.

    References
    ----------
    She, "Sparse regression with exact clustering", Electronic Journal of Statistics 4 (2010).

    Examples
    --------
    >>> from ctfa_study.baselines import ClusteredLassoRegressor
    >>> from ctfa.datasets import make_paper_synthetic
    >>> X, Y = make_paper_synthetic(60, 5, 3, random_state=0)
    >>> ClusteredLassoRegressor(alpha=0.01).fit(X, Y).predict(X).shape
    (60, 3)
    """

    def _norm(self, alpha: float, alpha_pairs: float, n_features: int) -> PairsNorm:
        return PairsNorm(alpha, alpha_pairs, n_features)

    def _group(self, coef: FloatArray) -> IntArray:
        return _equal(coef)


def _without_shift(moments: TaskMoments) -> TaskMoments:
    """The loss at the best common shift of all coefficients, where the penalty does not see one.

    Both are then blind to a shift and the gradient along it is zero, without which no dual point
    would be feasible.
    """
    along, own, square = _shift_moments(moments)
    if not square > 0.0:
        return moments
    return dataclasses.replace(
        moments,
        gram=moments.gram - np.outer(along, along) / square,
        cross=moments.cross - own * along / square,
        square=np.maximum(moments.square - own**2 / square, 0.0),
    )


def _shift(moments: TaskMoments, coef: FloatArray) -> float:
    """What all coefficients have to be raised by for the least loss."""
    along, own, square = _shift_moments(moments)
    return (own - float(along @ coef)) / square if square > 0.0 else 0.0


def _shift_moments(moments: TaskMoments) -> tuple[FloatArray, float, float]:
    """Of the sum of all features: with each feature, with the target, with itself."""
    along = moments.gram[0].sum(axis=0)
    square = float(along.sum())
    # Features that add up to a constant.
    negligible = square <= FLAT * along.size * float(np.trace(moments.gram[0]))
    return along, float(moments.cross.sum()), 0.0 if negligible else square


def _equal(values: FloatArray) -> IntArray:
    """Labels of equal values, in order of their first."""
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[inverse.ravel()])


#: The sum of all features has no variance below this share of the most that it could have.
FLAT = 1e-12
