"""Convex ASO and clustered tasks: few directions deserve a low price, and which is unknown.

A direction with singular value ``s`` costs ``price * s**2``. There are two prices, and a number of
*units*: a whole unit lowers the price of a direction from ``high`` to ``low``, a part of a unit
lowers it in part, and it is not known beforehand which directions get them::

    h(W) = min over m of sum_i s_i(W)^2 / scale_i,   scale_i = 1/high + m_i (1/low - 1/high),
           0 <= m_i <= 1,  sum_i m_i <= units

It is the squared box norm of the singular values (McDonald, Pontil and Stamos 2016). Convex ASO has
it for directions among features, clustered tasks have it for directions among tasks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.cluster import AgglomerativeClustering

from ctfa.core.types import FloatArray, IntArray
from ctfa_study.baselines._smooth import SmoothTasks
from ctfa_study.baselines._tasks import TaskData, read_count, read_positive

#: Singular values below this part of the largest get no unit: their square is not seen beside it.
NEGLIGIBLE = 1e-150


def fill(values: FloatArray, ratio: float, units: float) -> FloatArray:
    """Minimise ``sum_i values_i^2 / scale_i`` with scales in [1, ratio] and units to spend.

    The units are ``sum_i (scale_i - 1) / (ratio - 1)``. Where a scale is between its bounds,
    ``values_i / scale_i`` is the same for all such i (the level of the water), so
    ``scale_i = clip(values_i * x, 1, ratio)`` for one number ``x``, and what is spent is a rising
    function of ``x`` with a corner where a scale leaves either bound: find the two corners it lies
    between, and solve a linear equation.

    Parameters
    ----------
    values : ndarray of shape (n,)
        Not negative, in any order.
    ratio : float
        Largest scale, 1 or more.
    units : float
        What there is to spend, 0 or more.
    """
    scales = np.ones(values.size)
    top = float(values.max(initial=0.0))
    if top == 0.0 or units <= 0.0 or ratio == 1.0:
        return scales
    relative = values / top
    filled = relative > NEGLIGIBLE
    # A value of zero gains nothing from a unit, so those with a value get one each if there are
    # enough.
    if np.count_nonzero(filled) <= units:
        scales[filled] = ratio
        return scales
    part = relative[filled]
    scales[filled] = np.clip(part * _level(part, ratio, units * (ratio - 1.0)), 1.0, ratio)
    return scales


def _level(part: FloatArray, ratio: float, budget: float) -> float:
    """The ``x`` at which ``sum(clip(part * x, 1, ratio) - 1)`` is the budget, below its maximum."""
    corners = np.sort(np.concatenate([1.0 / part, ratio / part]))
    # Bisection among the corners, each sum taken afresh: slopes added up from corner to corner
    # would lose a small value beside a large one that has come and gone.
    below, above = 0, corners.size - 1
    while above - below > 1:
        middle = (below + above) // 2
        if np.sum(np.clip(part * corners[middle], 1.0, ratio) - 1.0) <= budget:
            below = middle
        else:
            above = middle
    halfway = part * (0.5 * (corners[below] + corners[above]))
    inside = (halfway > 1.0) & (halfway < ratio)
    if not inside.any():  # a flat stretch: everything on it costs the same
        return float(corners[below])
    spent = np.sum(np.clip(part * corners[below], 1.0, ratio) - 1.0)
    step = (budget - spent) / part[inside].sum()
    return float(np.clip(corners[below] + step, corners[below], corners[above]))


class Directions(NamedTuple):
    """Singular directions of coefficients, and what each costs."""

    left: FloatArray  # (T, k), among tasks
    values: FloatArray  # (k,)
    right: FloatArray  # (k, D), among features
    prices: FloatArray  # (k,)


@dataclass(frozen=True)
class TwoPrices:
    """The penalty above, of a matrix with one row per task."""

    low: float
    high: float
    units: float

    def directions(self, coef: FloatArray) -> Directions:
        """Best prices for these coefficients."""
        left, values, right = np.linalg.svd(coef, full_matrices=False)
        return Directions(left, values, right, self.high / fill(values, self.ratio, self.units))

    @property
    def ratio(self) -> float:
        """How many times the high price is the low one."""
        return self.high / self.low

    @property
    def usual_price(self) -> float:
        """The price halfway between the two, counted in factors."""
        return float(np.sqrt(self.low * self.high))

    def value_and_gradient(self, coef: FloatArray) -> tuple[float, FloatArray]:
        """``h(W)`` and its gradient, which is that of the squares at the best prices (Danskin)."""
        left, values, right, prices = self.directions(coef)
        return float(prices @ values**2), 2.0 * (left * (values * prices)) @ right

    def conjugate(self, coef: FloatArray) -> float:
        """``h*(Z)``: a quarter of the squares over their prices, the largest at the low one."""
        squares = np.linalg.svd(coef, compute_uv=False) ** 2
        whole = int(min(np.floor(self.units), squares.size))
        cheap = float(squares[:whole].sum())
        if whole < squares.size:
            cheap += (self.units - whole) * float(squares[whole])
        saving = 1.0 / self.low - 1.0 / self.high
        return 0.25 * (float(squares.sum()) / self.high + saving * cheap)


class ConvexASORegressor(SmoothTasks):
    """Convex alternating structure optimisation (Chen, Tang, Liu and Ye 2009).

    Coefficients are cheap along a few directions of features that all tasks share, and dear along
    all others; which directions, the data say. With one row of ``W`` per task it minimises ::

        sum_t |y_t - X_t w_t|^2 / (2 n_t)
            + alpha eta (1 + eta) tr(W (eta I + M)^-1 W'),   0 <= M <= I,  tr M = n_components

    over ``W`` and ``M``. A direction inside ``M`` costs ``alpha eta`` times its square, one outside
    ``alpha (1 + eta)`` times. If ``M`` had to be a projection this would be ASO with a ridge
    penalty added, whose minimum is hard to find; the relaxation is convex and its minimum is found,
    with a duality gap that says how nearly.

    Parameters
    ----------
    n_components : int, default=2
        Dimensions that tasks share, h in the paper; as many as features or more make it ridge
        regression of each task. Useful: 1, 2, 3, 5 and 10, below both tasks and features.
    alpha : float, default=1.0
        Price of leaving the shared directions, the paper's alpha (the loss here is half the mean
        squared error, theirs has no half). Useful on standardised features and targets: 1 to 100
        where tasks have few rows, down to 1e-3 where they have many.
    eta : float, default=0.01
        Price of the coefficients as a whole beside it: the paper's ``beta / alpha``. Towards 0 the
        shared directions are free, towards infinity (with ``alpha eta`` fixed) it is ridge
        regression. Useful: 0.001, 0.01 and 0.1; ``alpha eta`` is the price of what is shared, and
        about 0.1 was best on schools.
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
    shared_ : ndarray of shape (n_features, n_features)
        ``M``. Its trace is less than ``n_components`` where the coefficients have a smaller rank:
        what is left could go anywhere.
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
    ASORegressor : Without the relaxation.
    ClusteredMTLRegressor : The same penalty for directions of tasks about their mean.

    References
    ----------
    Chen, Tang, Liu and Ye (2009), A convex formulation for learning shared structures from multiple
    tasks, ICML.

    Examples
    --------
    >>> from ctfa_study.baselines import ConvexASORegressor
    >>> from ctfa.datasets import make_paper_synthetic
    >>> X, Y = make_paper_synthetic(60, 5, 3, random_state=0)
    >>> model = ConvexASORegressor(n_components=1).fit(X, Y)
    >>> model.coef_.shape, round(float(model.shared_.trace()), 3)
    ((3, 5), 1.0)
    """

    def __init__(
        self,
        n_components: Any = 2,
        *,
        alpha: Any = 1.0,
        eta: Any = 0.01,
        tol: Any = 1e-6,
        max_iter: Any = 1000,
        warm_start: Any = False,
    ) -> None:
        self.n_components = n_components
        self.alpha = alpha
        self.eta = eta
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start

    def _fit_tasks(self, data: TaskData) -> None:
        alpha, eta = read_positive(self.alpha, "alpha"), read_positive(self.eta, "eta")
        units = read_count(self.n_components, "n_components")
        penalty = TwoPrices(alpha * eta, alpha * (1.0 + eta), units)
        self._minimise(data.moments, penalty)
        found = penalty.directions(self.coef_)
        # scale = (eta + m) / eta, and m is what M has in this direction.
        inside = np.clip(eta * (penalty.high / found.prices - 1.0), 0.0, 1.0)
        self.shared_ = (found.right.T * inside) @ found.right


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
    for the T - 1 others. It minimises, with one row of ``W`` per task, ::

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
