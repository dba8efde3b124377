"""Norms of the matrix of all tasks' coefficients, and the regressors that they make."""

from __future__ import annotations

from typing import Any

import numpy as np

from ctfa.core.types import FloatArray
from ctfa_study.baselines._proximal import Penalty, Solution, least_squares, solve
from ctfa_study.baselines._tasks import (
    LinearTasks,
    TaskData,
    TaskMoments,
    read_at_least_zero,
    read_count,
)


class TraceNorm:
    """``alpha`` times the sum of the singular values."""

    n_parts = 1

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha

    def value(self, parts: FloatArray) -> float:
        """``h``."""
        return self.alpha * float(np.linalg.svd(parts[0], compute_uv=False).sum())

    def prox(self, parts: FloatArray, step: float) -> FloatArray:
        """Soft-threshold the singular values."""
        left, values, right = np.linalg.svd(parts[0], full_matrices=False)
        values = np.maximum(values - self.alpha * step, 0.0)
        kept = np.count_nonzero(values)
        return np.asarray((left[:, :kept] * values[:kept]) @ right[:kept])[None]

    def dual_norm(self, gradient: FloatArray) -> float:
        """Largest singular value."""
        return float(np.linalg.norm(gradient, 2)) / self.alpha


class L21Norm:
    """``alpha`` times the sum over features of the length of their coefficients in all tasks."""

    n_parts = 1

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha

    def value(self, parts: FloatArray) -> float:
        """``h``."""
        return self.alpha * float(np.linalg.norm(parts[0], axis=0).sum())

    def prox(self, parts: FloatArray, step: float) -> FloatArray:
        """Soft-threshold the lengths."""
        length = np.linalg.norm(parts[0], axis=0)
        left = np.maximum(length - self.alpha * step, 0.0)
        return np.asarray(parts * (left / np.where(length > 0.0, length, 1.0)))

    def dual_norm(self, gradient: FloatArray) -> float:
        """Largest length."""
        return float(np.linalg.norm(gradient, axis=0).max()) / self.alpha


class DirtyNorm:
    """``alpha |S|_1 + alpha_shared sum_j max_t |B_tj|`` of a sparse and a shared part."""

    n_parts = 2

    def __init__(self, alpha: float, alpha_shared: float) -> None:
        self.alpha, self.alpha_shared = alpha, alpha_shared

    def value(self, parts: FloatArray) -> float:
        """``h``."""
        sparse, shared = np.abs(parts)
        return self.alpha * float(sparse.sum()) + self.alpha_shared * float(
            shared.max(axis=0).sum()
        )

    def prox(self, parts: FloatArray, step: float) -> FloatArray:
        """Soft-threshold the one; of the other, take off the nearest point of a ball.

        The conjugate of the maximum norm is the indicator of the ball of the sum norm, so that its
        prox is what the projection on that ball leaves (Moreau).
        """
        sparse, shared = parts
        sparse = np.sign(sparse) * np.maximum(np.abs(sparse) - self.alpha * step, 0.0)
        return np.stack((sparse, shared - onto_sum_ball(shared, self.alpha_shared * step)))

    def dual_norm(self, gradient: FloatArray) -> float:
        """The larger of the two parts' own."""
        size = np.abs(gradient)
        of_sparse = float(size.max()) / self.alpha
        return max(of_sparse, float(size.sum(axis=0).max()) / self.alpha_shared)


def onto_sum_ball(columns: FloatArray, radius: float) -> FloatArray:
    """Nearest point to each column among those whose absolute values add up to the radius at most.

    By sorting: Duchi et al., "Efficient projections onto the l1-ball", ICML 2008.
    """
    size = np.abs(columns)
    ordered = -np.sort(-size, axis=0)
    count = np.arange(1.0, size.shape[0] + 1.0)[:, None]
    level = (np.cumsum(ordered, axis=0) - radius) / count
    above = np.count_nonzero(ordered > level, axis=0)
    threshold = np.take_along_axis(level, np.maximum(above - 1, 0)[None], axis=0)[0]
    shrunk = np.sign(columns) * np.maximum(size - np.maximum(threshold, 0.0), 0.0)
    return np.asarray(np.where(ordered.sum(axis=0) <= radius, columns, shrunk))


class _Penalised(LinearTasks):
    """Least squares of all tasks with a norm of their coefficients as penalty."""

    tol: Any
    max_iter: Any

    def _solve(self, moments: TaskMoments, penalty: Penalty) -> Solution:
        tol, max_iter = self._limits()
        solution = solve(moments, penalty, tol=tol, max_iter=max_iter)
        self._report(solution)
        return solution

    def _limits(self) -> tuple[float, int]:
        return read_at_least_zero(self.tol, "tol"), read_count(self.max_iter, "max_iter")

    def _report(self, solution: Solution) -> None:
        self.objectives_, self.gap_ = solution.objectives, solution.gap
        self.n_iter_ = solution.n_iter

    def _unpenalised(self, moments: TaskMoments) -> FloatArray:
        """Least squares, where the penalty is zero and no dual point would be feasible."""
        self._limits()
        coef = least_squares(moments)
        self._report(Solution(coef[None], np.array([moments.loss(coef)]), 0.0))
        return coef


class TraceNormRegressor(_Penalised):
    """Coefficients of low rank: the trace norm of all tasks' coefficients as penalty.

    Minimises ``sum_t |y_t - X_t w_t - b_t|^2 / (2 n_t) + alpha |W|_*`` with ``|W|_*`` the sum of
    the singular values of the coefficients, one row per task.

    Parameters
    ----------
    alpha : float, default=0.1
        Weight of the penalty; zero is least squares. Standardise features and targets first.
    tol : float, default=1e-8
        Duality gap at which to stop, over the objective of zero coefficients.
    max_iter : int, default=10000
        Steps after which to stop with a warning.

    Attributes
    ----------
    coef_ : ndarray of shape (n_tasks, n_features)
    intercept_ : ndarray of shape (n_tasks,)
    rank_ : int
        Rank of ``coef_``.
    alpha_max_ : float
        The least ``alpha`` that makes all coefficients zero.
    objectives_ : ndarray
        Value of the objective after each step, the start before them.
    gap_ : float
        Relative duality gap reached.
    n_iter_ : int
        Number of steps.

    References
    ----------
    Argyriou, Evgeniou and Pontil, "Multi-task feature learning", NIPS 2006, whose problem this is
    in its convex form; Ji and Ye, "An accelerated gradient method for trace norm minimization",
    ICML 2009.

    Examples
    --------
    >>> from ctfa_study.baselines import TraceNormRegressor
    >>> from ctfa.datasets import make_paper_synthetic
    >>> X, Y = make_paper_synthetic(60, 5, 3, random_state=0)
    >>> TraceNormRegressor(alpha=0.01).fit(X, Y).predict(X).shape
    (60, 3)
    """

    def __init__(self, alpha: Any = 0.1, *, tol: Any = 1e-8, max_iter: Any = 10_000) -> None:
        self.alpha = alpha
        self.tol = tol
        self.max_iter = max_iter

    def _fit_tasks(self, data: TaskData) -> None:
        alpha = read_at_least_zero(self.alpha, "alpha")
        self.alpha_max_ = TraceNorm(1.0).dual_norm(data.moments.cross)
        if alpha == 0.0:
            coef = self._unpenalised(data.moments)
        else:
            coef = self._solve(data.moments, TraceNorm(alpha)).coef
        self.rank_ = int(np.linalg.matrix_rank(coef))
        self._settle(coef, data.moments)


class L21Regressor(_Penalised):
    """Features used by all tasks or by none: a group lasso over the tasks of each feature.

    Minimises ``sum_t |y_t - X_t w_t - b_t|^2 / (2 n_t) + alpha sum_j |W_j|_2`` with ``W_j`` the
    coefficients of feature ``j`` in all tasks. Where tasks share their rows that is
    ``sklearn.linear_model.MultiTaskLasso``.

    Parameters
    ----------
    alpha : float, default=0.1
        Weight of the penalty; zero is least squares. Standardise features and targets first.
    tol : float, default=1e-8
        Duality gap at which to stop, over the objective of zero coefficients.
    max_iter : int, default=10000
        Steps after which to stop with a warning.

    Attributes
    ----------
    coef_ : ndarray of shape (n_tasks, n_features)
    intercept_ : ndarray of shape (n_tasks,)
    alpha_max_ : float
        The least ``alpha`` that makes all coefficients zero.
    objectives_ : ndarray
        Value of the objective after each step, the start before them.
    gap_ : float
        Relative duality gap reached.
    n_iter_ : int
        Number of steps.

    References
    ----------
    Obozinski, Taskar and Jordan, "Joint covariate selection and joint subspace selection for
    multiple classification problems", Statistics and Computing 20 (2010).

    Examples
    --------
    >>> from ctfa_study.baselines import L21Regressor
    >>> from ctfa.datasets import make_paper_synthetic
    >>> X, Y = make_paper_synthetic(60, 5, 3, random_state=0)
    >>> L21Regressor(alpha=0.01).fit(X, Y).predict(X).shape
    (60, 3)
    """

    def __init__(self, alpha: Any = 0.1, *, tol: Any = 1e-8, max_iter: Any = 10_000) -> None:
        self.alpha = alpha
        self.tol = tol
        self.max_iter = max_iter

    def _fit_tasks(self, data: TaskData) -> None:
        alpha = read_at_least_zero(self.alpha, "alpha")
        self.alpha_max_ = L21Norm(1.0).dual_norm(data.moments.cross)
        if alpha == 0.0:
            coef = self._unpenalised(data.moments)
        else:
            coef = self._solve(data.moments, L21Norm(alpha)).coef
        self._settle(coef, data.moments)


class DirtyRegressor(_Penalised):
    """Coefficients that are a shared part, with whole features at zero, and a sparse part.

    Minimises ``sum_t |y_t - X_t w_t - b_t|^2 / (2 n_t) + alpha |S|_1 + alpha_shared |B|_1,inf``
    over ``W = S + B``, where the last norm is the sum over features of the largest absolute
    coefficient in any task.

    Parameters
    ----------
    alpha : float, default=0.1
        Weight of the sparse part's penalty. Standardise features and targets first.
    alpha_shared : float or None, default=None
        Weight of the shared part's penalty; None is ``alpha`` times the square root of the number
        of tasks. Below ``alpha`` nothing is sparse, and above ``n_tasks * alpha`` nothing is
        shared. Where either weight is zero the model is least squares.
    tol : float, default=1e-8
        Duality gap at which to stop, over the objective of zero coefficients.
    max_iter : int, default=10000
        Steps after which to stop with a warning.

    Attributes
    ----------
    coef_ : ndarray of shape (n_tasks, n_features)
    sparse_ : ndarray of shape (n_tasks, n_features)
        ``S``.
    shared_ : ndarray of shape (n_tasks, n_features)
        ``B``; only the sum of the two is unique.
    intercept_ : ndarray of shape (n_tasks,)
    objectives_ : ndarray
        Value of the objective after each step, the start before them.
    gap_ : float
        Relative duality gap reached.
    n_iter_ : int
        Number of steps.

    References
    ----------
    Jalali, Ravikumar, Sanghavi and Ruan, "A dirty model for multi-task learning", NIPS 2010.

    Examples
    --------
    >>> from ctfa_study.baselines import DirtyRegressor
    >>> from ctfa.datasets import make_paper_synthetic
    >>> X, Y = make_paper_synthetic(60, 5, 3, random_state=0)
    >>> model = DirtyRegressor(alpha=0.01).fit(X, Y)
    >>> bool((model.coef_ == model.sparse_ + model.shared_).all())
    True
    """

    def __init__(
        self,
        alpha: Any = 0.1,
        alpha_shared: Any = None,
        *,
        tol: Any = 1e-8,
        max_iter: Any = 10_000,
    ) -> None:
        self.alpha = alpha
        self.alpha_shared = alpha_shared
        self.tol = tol
        self.max_iter = max_iter

    def _fit_tasks(self, data: TaskData) -> None:
        alpha = read_at_least_zero(self.alpha, "alpha")
        of_shared = alpha * np.sqrt(data.n_tasks)
        if self.alpha_shared is not None:
            of_shared = read_at_least_zero(self.alpha_shared, "alpha_shared")
        if alpha == 0.0 or of_shared == 0.0:
            coef = self._unpenalised(data.moments)
            nothing = np.zeros_like(coef)
            parts = (coef, nothing) if alpha == 0.0 else (nothing, coef)
        else:
            sparse, shared = self._solve(data.moments, DirtyNorm(alpha, of_shared)).parts
            parts = sparse, shared
        self.sparse_, self.shared_ = parts
        self._settle(self.sparse_ + self.shared_, data.moments)
