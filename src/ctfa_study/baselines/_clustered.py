"""Tasks in unknown clusters: coefficients near those of the others in the cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.cluster import AgglomerativeClustering

from ctfa.core.types import FloatArray, IntArray
from ctfa_study.baselines._numbers import read_count, read_positive
from ctfa_study.baselines._smooth import SmoothTasks
from ctfa_study.baselines._spectral import TwoPrices
from ctfa_study.baselines._tasks import TaskData


class ClusteredMTLRegressor(SmoothTasks):
    """Clustered multi-task learning (Jacob, Bach and Vert 2008).

    Were the clusters known, the penalty would have three parts: the size of the mean of all tasks,
    the distances of the clusters' means from it, and the distances of tasks from their cluster's
    mean. The clusters enter through ``P``, the projection onto vectors that are constant on each
    and sum to zero, a projection of rank r - 1 among T tasks::

        Omega(W) = mean T |w_mean|^2 + tr(V' S^-1 V),   V: W about the mean of its rows
        S = P / between + (I - P) / within

    and the relaxation allows any ``S`` with ``I / within <= S <= I / between`` and the same trace,
    ``(T - r + 1) / within + (r - 1) / between``. That trace counts the direction of the mean too,
    along which ``V`` is zero: the best ``S`` has the least eigenvalue there, so r - 1 units remain
    for the T - 1 others. It minimises, with one row of ``W`` a task, ::

        sum_t |y_t - X_t w_t|^2 / (2 n_t) + alpha min_S Omega(W)

    a smooth convex problem, with a duality gap that says how nearly it is solved.

    Parameters
    ----------
    n_clusters : int, default=2
        Clusters, r in the paper; no more than tasks are counted. One pulls all tasks to their mean.
        Useful: 1, 2, 3 and 5.
    alpha : float, default=1.0
        Size of the whole penalty, lambda in the paper. Useful on standardised features and targets:
        1 to 100 where tasks have few rows, down to 1e-3 where they have many.
    mean : float, default=0.01
        Price of the mean of all tasks, the paper's epsilon_M.
    between : float, default=0.1
        Price of the distance of clusters from that mean, epsilon_B.
    within : float, default=1.0
        Price of the distance of tasks from their cluster, epsilon_W, not below ``between``. Leave
        it 1, where ``alpha`` is chosen. All three equal: ridge regression of each task. Useful:
        ``mean`` 0.0001 to 0.01, ``between`` 0.1.
    tol : float, default=1e-6
        Ends when the duality gap is this part of the loss without coefficients.
    max_iter : int, default=1000
        Iterates at most, the start among them.
    warm_start : bool, default=False
        Start from the coefficients of the last fit, where they have the right shape.

    Attributes
    ----------
    coef_ : ndarray of shape (n_tasks, n_features)
        Coefficients.
    intercept_ : ndarray of shape (n_tasks,)
        Intercepts.
    covariance_ : ndarray of shape (n_tasks, n_tasks)
        ``S``. Its trace is less than what is allowed where the coefficients about their mean have a
        rank below r - 1: what is left could go anywhere.
    labels_ : ndarray of shape (n_tasks,)
        A cluster for each task: Ward's clusters of the coefficients. It is a reading of them, the
        convex problem itself names no cluster.
    objective_ : float
        Least value found.
    objectives_ : ndarray of shape (n_iter_,)
        Values on the way, which do not rise.
    gap_ : float
        ``objective_ - gap_`` is below the least value there is.
    n_iter_ : int
        Iterates, the start among them.
    tasks_ : ndarray of shape (n_tasks,)
        Ids of the tasks, where they have rows of their own.

    See Also
    --------
    ConvexASORegressor : The same penalty for directions of features.

    References
    ----------
    Jacob, Bach and Vert (2008), Clustered multi-task learning: a convex formulation, NIPS.

    Examples
    --------
    >>> from ctfa_study.baselines import ClusteredMTLRegressor
    >>> from ctfa.datasets import make_paper_synthetic
    >>> X, Y = make_paper_synthetic(60, 5, 4, random_state=0)
    >>> model = ClusteredMTLRegressor(n_clusters=2).fit(X, Y)
    >>> model.coef_.shape, model.labels_.size
    ((4, 5), 4)
    """

    def __init__(
        self,
        n_clusters: Any = 2,
        *,
        alpha: Any = 1.0,
        mean: Any = 0.01,
        between: Any = 0.1,
        within: Any = 1.0,
        tol: Any = 1e-6,
        max_iter: Any = 1000,
        warm_start: Any = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.alpha = alpha
        self.mean = mean
        self.between = between
        self.within = within
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start

    def _fit_tasks(self, data: TaskData) -> None:
        alpha, mean = read_positive(self.alpha, "alpha"), read_positive(self.mean, "mean")
        between = read_positive(self.between, "between")
        within = read_positive(self.within, "within")
        if between > within:
            raise ValueError(
                f"between={self.between!r} is above within={self.within!r}: tasks would be nearer "
                "to the mean of all than to their cluster. Pass between <= within."
            )
        n_clusters = min(read_count(self.n_clusters, "n_clusters"), data.n_tasks)
        about = TwoPrices(alpha * between, alpha * within, n_clusters - 1)
        self._minimise(data.moments, MeanAndClusters(alpha * mean, about))
        found = about.directions(self.coef_ - self.coef_.mean(axis=0))
        above = alpha / found.prices - 1.0 / within
        self.covariance_ = (found.left * above) @ found.left.T + np.eye(data.n_tasks) / within
        self.labels_ = _read_clusters(self.coef_, n_clusters)


@dataclass(frozen=True)
class MeanAndClusters:
    """One price for the mean of all tasks, two for what they differ from it."""

    mean: float
    about: TwoPrices

    @property
    def usual_price(self) -> float:
        """That of the differences, of which there are more."""
        return self.about.usual_price

    def value_and_gradient(self, coef: FloatArray) -> tuple[float, FloatArray]:
        """Value, and gradient (T, D)."""
        centre = coef.mean(axis=0)
        value, gradient = self.about.value_and_gradient(coef - centre)
        # T |centre|^2 has the gradient 2 centre for each task.
        value += self.mean * coef.shape[0] * float(centre @ centre)
        return value, gradient + 2.0 * self.mean * centre

    def conjugate(self, coef: FloatArray) -> float:
        """The sum of both: the mean and the differences from it are orthogonal."""
        centre = coef.mean(axis=0)
        size: float = coef.shape[0] * float(centre @ centre)
        return size / (4.0 * self.mean) + self.about.conjugate(coef - centre)


def _read_clusters(coef: FloatArray, n_clusters: int) -> IntArray:
    if coef.shape[0] == 1:
        return np.zeros(1, dtype=np.intp)
    return np.asarray(AgglomerativeClustering(n_clusters).fit_predict(coef), dtype=np.intp)
