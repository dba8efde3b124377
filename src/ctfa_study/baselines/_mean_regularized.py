"""Tasks drawn towards a mean of their coefficients, which is learned with them."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg

from ctfa.core.types import FloatArray
from ctfa_study.baselines._proximal import RANK_CUTOFF
from ctfa_study.baselines._tasks import LinearTasks, TaskData, TaskMoments, read_at_least_zero


class MeanRegularizedRegressor(LinearTasks):
    """Coefficients ``w_t = w_0 + v_t``, with the part that is a task's own held small.

    Minimises ``sum_t |y_t - X_t w_t - b_t|^2 / (2 n_t) + alpha / 2 sum_t |v_t|^2
    + alpha_mean / 2 |w_0|^2``. Between the limits of a ridge regression for each task and one for
    all of them; solved exactly, by one decomposition per task and one system of ``n_features``
    equations.

    Parameters
    ----------
    alpha : float, default=1.0
        Weight of the tasks' own parts; infinite makes all tasks equal, zero is least squares for
        each task by itself, with the common part in directions that its rows leave open.
        Standardise features and targets first.
    alpha_mean : float, default=0.0
        Weight of the common part; infinite makes it zero, which leaves a ridge regression for each
        task.

    Attributes
    ----------
    coef_ : ndarray of shape (n_tasks, n_features)
    mean_coef_ : ndarray of shape (n_features,)
        ``w_0``.
    intercept_ : ndarray of shape (n_tasks,)

    References
    ----------
    Evgeniou and Pontil, "Regularized multi-task learning", KDD 2004, with the squared loss in place
    of the hinge. With ``n`` rows per task their weights are ``lambda_1 = n n_tasks alpha`` and
    ``lambda_2 = n alpha_mean``.

    Examples
    --------
    >>> from ctfa_study.baselines import MeanRegularizedRegressor
    >>> from ctfa.datasets import make_paper_synthetic
    >>> X, Y = make_paper_synthetic(60, 5, 3, random_state=0)
    >>> MeanRegularizedRegressor(alpha=0.5).fit(X, Y).predict(X).shape
    (60, 3)
    """

    def __init__(self, alpha: Any = 1.0, *, alpha_mean: Any = 0.0) -> None:
        self.alpha = alpha
        self.alpha_mean = alpha_mean

    def _fit_tasks(self, data: TaskData) -> None:
        alpha = read_at_least_zero(self.alpha, "alpha", infinite=True)
        of_mean = read_at_least_zero(self.alpha_mean, "alpha_mean", infinite=True)
        self.mean_coef_, coef = around_a_mean(data.moments, alpha, of_mean)
        self._settle(coef, data.moments)


def around_a_mean(
    moments: TaskMoments, alpha: float, of_mean: float
) -> tuple[FloatArray, FloatArray]:
    """The common part and all tasks' coefficients.

    With ``G_t`` and ``c_t`` the moments of a task, a given ``w_0`` makes
    ``w_t = (G_t + alpha)^-1 (c_t + alpha w_0)``; put into the condition on ``w_0``, which is
    ``of_mean w_0 = alpha sum_t (w_t - w_0)``, that leaves

        (of_mean / alpha + sum_t (G_t + alpha)^-1 G_t) w_0 = sum_t (G_t + alpha)^-1 c_t

    In the eigenvectors of each ``G_t`` all of this is a product, so that no weight is too large or
    too small. Where the system leaves ``w_0`` open it is the one of least norm.
    """
    n_tasks, n_features = moments.shape
    values, vectors = moments.spectrum
    # Both sides times alpha where that is large: an infinite one has its limit.
    factor = max(alpha, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        inverse = np.where(values > 0.0, 1.0 / (values / factor + min(alpha, 1.0)), 0.0)
        kept = np.where(values > 0.0, 1.0 / (1.0 + values / np.float64(alpha)), 1.0)
        on_mean = of_mean / np.float64(min(alpha, 1.0)) if of_mean > 0.0 else 0.0
    along = _rotated(moments.cross, vectors)
    mean = np.zeros(n_features)
    if np.isfinite(on_mean):
        products = (vectors * (inverse * values)[:, None, :]) @ np.swapaxes(vectors, 1, 2)
        # One of each where all tasks have the same rows.
        system = n_tasks / products.shape[0] * products.sum(axis=0) + on_mean * np.eye(n_features)
        right = _back(inverse * along, vectors).sum(axis=0)
        mean = np.asarray(linalg.lstsq(system, right, cond=RANK_CUTOFF)[0])
    every = _rotated(np.broadcast_to(mean, moments.shape), vectors)
    return mean, _back(inverse / factor * along + kept * every, vectors)


def _rotated(rows: FloatArray, vectors: FloatArray) -> FloatArray:
    """Coordinates of each task's row in its own basis, or in the one that all share."""
    if vectors.shape[0] == 1:
        return np.asarray(rows @ vectors[0])
    return np.asarray((rows[:, None, :] @ vectors)[:, 0])


def _back(rows: FloatArray, vectors: FloatArray) -> FloatArray:
    return _rotated(rows, np.swapaxes(vectors, 1, 2))
