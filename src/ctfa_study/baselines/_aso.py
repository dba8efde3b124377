"""Tasks that share a subspace of features: alternating structure optimisation."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from ctfa.core.types import FloatArray
from ctfa_study.baselines._smooth import Done, descend
from ctfa_study.baselines._tasks import (
    LinearTasks,
    TaskData,
    TaskMoments,
    read_at_least_zero,
    read_count,
    read_positive,
)

#: Eigenvalues below this part of the largest count as zero.
RANK = 1e-12
#: Steps of the paper before the quasi-Newton method takes over.
ALTERNATIONS = 10
#: Quasi-Newton steps over which progress is measured.
PATIENCE = 10


class ASORegressor(LinearTasks):
    """Alternating structure optimisation (Ando and Zhang 2005).

    The coefficients of a task are a part of its own and a part in a subspace that all tasks share,
    ``w_t = u_t + Theta' v_t`` with orthonormal rows in ``Theta``, and only the part of its own has
    a price. It minimises, over ``u``, ``v`` and ``Theta``, ::

        sum_t |y_t - X_t w_t|^2 / (2 n_t) + alpha |u_t|^2

    For a given ``Theta`` every task is a ridge regression, solved exactly; for given coefficients
    the best ``Theta`` has the first singular vectors of ``W``. The paper alternates the two. Such
    steps never raise the objective, but a thousand did not settle on 139 schools, so after ten of
    them a quasi-Newton method lowers the same objective, as a function of ``Theta`` alone.

    The problem is not convex: what is found is a stationary point, and may not be the least. More
    starts help (``n_init``); ``ConvexASORegressor`` has no such doubt.

    Parameters
    ----------
    n_components : int, default=2
        Dimensions of the shared subspace, h in the paper. It is free of charge: with as many as
        tasks, or as features, every task has its own least squares. Useful: 1, 2, 3, 5 and 10,
        well below both.
    alpha : float or array-like of shape (n_tasks,), default=1.0
        Price of the part of its own, lambda in the paper, where the loss is the mean squared error
        without the half; one for all tasks or one each. Useful on standardised features and
        targets: 0.1 to 100, in factors of 10**0.5; a high price leaves reduced-rank regression.
    n_init : int, default=1
        Starts. The first is the paper's, from a ridge regression of each task; the others are
        random subspaces. The one with the least objective is kept.
    tol : float, default=1e-6
        Ends when ``stationarity_`` is this or less, or when ten quasi-Newton steps together lower
        the objective by less than this part of the loss without coefficients.
    max_iter : int, default=1000
        Iterates at most from each start, the start among them.
    random_state : int, RandomState instance or None, default=None
        For the random subspaces.

    Attributes
    ----------
    coef_ : ndarray of shape (n_tasks, n_features)
        Coefficients.
    intercept_ : ndarray of shape (n_tasks,)
        Intercepts.
    shared_ : ndarray of shape (n_components, n_features)
        ``Theta``, of no more rows than there are features.
    objective_ : float
        Least value found.
    objectives_ : ndarray of shape (n_iter_,)
        Values on the way from the best start, which do not rise.
    stationarity_ : float
        Slope of the objective when the subspace turns, beside the loss without coefficients. It is
        0 where ``Theta`` spans singular directions of the coefficients.
    n_iter_ : int
        Iterates from the best start.
    tasks_ : ndarray of shape (n_tasks,)
        Ids of the tasks, where they have rows of their own.

    References
    ----------
    Ando and Zhang (2005), A framework for learning predictive structures from multiple tasks and
    unlabeled data, Journal of Machine Learning Research 6.

    Examples
    --------
    >>> from ctfa_study.baselines import ASORegressor
    >>> from ctfa.datasets import make_paper_synthetic
    >>> X, Y = make_paper_synthetic(60, 5, 3, random_state=0)
    >>> model = ASORegressor(n_components=1).fit(X, Y)
    >>> model.coef_.shape, model.shared_.shape
    ((3, 5), (1, 5))
    """

    def __init__(
        self,
        n_components: Any = 2,
        *,
        alpha: Any = 1.0,
        n_init: Any = 1,
        tol: Any = 1e-6,
        max_iter: Any = 1000,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.alpha = alpha
        self.n_init = n_init
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def _fit_tasks(self, data: TaskData) -> None:
        tol, max_iter = read_at_least_zero(self.tol, "tol"), read_count(self.max_iter, "max_iter")
        n_init = read_count(self.n_init, "n_init")
        problem = SharedSubspace.of(data.moments, _read_prices(self.alpha, data.n_tasks))
        n_features = data.inputs.shape[1]
        rank = min(read_count(self.n_components, "n_components"), n_features)
        starts = [problem.best_subspace(problem.ridge(), rank)]
        random = check_random_state(self.random_state)
        for _ in range(n_init - 1):
            starts.append(_orthonormal(random.normal(size=(rank, n_features))))
        searches = [Search(problem, start, tol, max_iter) for start in starts]
        best = min(searches, key=lambda search: search.objectives[-1])
        self._settle(best.coef, data.moments)
        self.shared_ = best.subspace
        self.objectives_ = np.array(best.objectives)
        self.objective_ = best.objectives[-1]
        self.stationarity_ = best.stationarity
        self.n_iter_ = len(best.objectives)
        if not best.has_settled:
            why = (
                f"max_iter={max_iter} came first. Raise it, or raise tol."
                if len(best.objectives) >= max_iter
                else "rounding allows no further step. Raise tol, or standardise the features."
            )
            warnings.warn(
                f"the shared subspace is stationary to {best.stationarity:.2g} only, and "
                f"tol={tol:g} is not reached: {why}",
                ConvergenceWarning,
                stacklevel=3,
            )


@dataclass(frozen=True, eq=False)
class SharedSubspace:
    """The objective as a function of the subspace: what the tasks add is eliminated.

    In eigenvectors of ``G_t = X_t'X_t / n_t`` with values ``g``, given ``v`` the part of its own is
    ``(g + 2 alpha)^-1 (c - g Theta' v)``, and what remains is a system of h equations for ``v``
    with the matrix ``Theta g (g + 2 alpha)^-1 Theta'``. So one iteration decomposes nothing larger
    than h by h, and a task with fewer rows than h has the solution of least norm.
    """

    moments: TaskMoments
    prices: FloatArray  # (T,)
    vectors: FloatArray  # (T or 1, D, D)
    weights: FloatArray  # (T, D), g / (g + 2 alpha)
    slopes: FloatArray  # (T, D), ridge coefficients, in the eigenvectors
    shares: FloatArray  # (T, D), 2 alpha / (g + 2 alpha)

    @classmethod
    def of(cls, moments: TaskMoments, prices: FloatArray) -> SharedSubspace:
        """Decompose the moments of each task."""
        values, vectors = moments.spectrum
        cross = np.where(values > 0.0, (moments.cross[:, None] @ vectors)[:, 0], 0.0)
        twice = 2.0 * prices[:, None]
        total = values + twice
        return cls(moments, prices, vectors, values / total, cross / total, twice / total)

    def ridge(self) -> FloatArray:
        """Coefficients without anything shared."""
        return self._turn(self.slopes)

    def coef(self, subspace: FloatArray) -> FloatArray:
        """Best coefficients for a subspace."""
        inside = subspace @ self.vectors  # (T or 1, h, D)
        system = (inside * self.weights[:, None]) @ inside.swapaxes(1, 2)
        right = inside @ self.slopes[:, :, None]
        shared = np.linalg.pinv(system, rcond=RANK, hermitian=True) @ right
        added = (inside.swapaxes(1, 2) @ shared)[:, :, 0]
        return self._turn(self.slopes + self.shares * added)

    def objective(self, coef: FloatArray, subspace: FloatArray) -> float:
        """Loss, and the price of what is outside the subspace."""
        outside = coef - (coef @ subspace.T) @ subspace
        return self.moments.loss(coef) + float(self.prices @ np.sum(outside**2, axis=1))

    def best_subspace(self, coef: FloatArray, rank: int) -> FloatArray:
        """The first singular directions of the coefficients, each task weighted by its price."""
        # Directions beyond the number of tasks are needed too, so the full decomposition.
        right = np.linalg.svd(np.sqrt(self.prices)[:, None] * coef, full_matrices=True)[2]
        return np.asarray(right[:rank])

    def slope(self, coef: FloatArray, subspace: FloatArray) -> FloatArray:
        """Gradient in ``Theta`` at the best coefficients, across the subspace (Danskin)."""
        pull = (subspace @ coef.T * self.prices) @ coef
        return np.asarray(-2.0 * (pull - (pull @ subspace.T) @ subspace))

    def stationarity(self, coef: FloatArray, subspace: FloatArray) -> float:
        """Size of that gradient beside the loss without coefficients."""
        size = self.moments.loss(np.zeros_like(coef))
        return float(np.linalg.norm(self.slope(coef, subspace))) / size if size > 0.0 else 0.0

    def _turn(self, rows: FloatArray) -> FloatArray:
        return np.asarray((self.vectors @ rows[:, :, None])[:, :, 0])


@dataclass(eq=False)
class Search:
    """From one start to a stationary point."""

    problem: SharedSubspace
    subspace: FloatArray
    tol: float
    max_iter: int
    coef: FloatArray = field(init=False)
    objectives: list[float] = field(init=False, default_factory=list)
    stationarity: float = field(init=False, default=np.inf)
    has_settled: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        try:
            self._note(self.subspace)
            for _ in range(ALTERNATIONS):
                self._note(self.problem.best_subspace(self.coef, self.subspace.shape[0]))
            # Rounding can make the line search give up early: once more, without memory.
            for _ in range(2):
                self._descend()
        except Done:
            pass

    def _note(self, subspace: FloatArray) -> None:
        self.subspace = subspace
        self.coef = self.problem.coef(subspace)
        self.objectives.append(self.problem.objective(self.coef, subspace))
        self.stationarity = self.problem.stationarity(self.coef, subspace)
        self.has_settled = self.stationarity <= self.tol or self._is_flat()
        if self.has_settled or len(self.objectives) >= self.max_iter:
            raise Done

    def _is_flat(self) -> bool:
        """Whether the last steps gained little; those of the paper are small far from the end."""
        if len(self.objectives) <= 1 + ALTERNATIONS + PATIENCE:
            return False
        gained = self.objectives[-1 - PATIENCE] - self.objectives[-1]
        return gained < self.tol * self.problem.moments.loss(np.zeros_like(self.coef))

    def _descend(self) -> None:
        shape = self.subspace.shape

        def objective(point: FloatArray) -> tuple[float, FloatArray]:
            # Any basis of the subspace may be the point: B = R' Theta.
            basis, mix = np.linalg.qr(point.reshape(shape).T)
            coef = self.problem.coef(basis.T)
            slope = np.linalg.solve(mix, self.problem.slope(coef, basis.T))
            return self.problem.objective(coef, basis.T), slope.ravel()

        descend(
            objective,
            self.subspace.ravel(),
            lambda point: self._note(_orthonormal(point.reshape(shape))),
            self.max_iter,
        )


def _orthonormal(rows: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.qr(rows.T)[0].T)


def _read_prices(alpha: Any, n_tasks: int) -> FloatArray:
    if np.ndim(alpha) == 0:
        return np.full(n_tasks, read_positive(alpha, "alpha"))
    if len(alpha) != n_tasks:
        raise ValueError(
            f"alpha has {len(alpha)} values for {n_tasks} tasks: pass one number, or one per task."
        )
    return np.array([read_positive(value, "alpha") for value in np.asarray(alpha).tolist()])
