"""Tasks that share directions of features: the convex relaxation of ASO."""

from __future__ import annotations

from typing import Any

import numpy as np

from ctfa_study.baselines._numbers import read_count, read_positive
from ctfa_study.baselines._smooth import SmoothTasks
from ctfa_study.baselines._spectral import TwoPrices
from ctfa_study.baselines._tasks import TaskData


class ConvexASORegressor(SmoothTasks):
    """Convex alternating structure optimisation (Chen, Tang, Liu and Ye 2009).

    Coefficients are cheap along a few directions of features that all tasks share, and dear along
    all others; which directions, the data say. With one row of ``W`` a task it minimises ::

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
