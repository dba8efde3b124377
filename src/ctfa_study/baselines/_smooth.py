"""Minimise the loss of all tasks plus a smooth convex penalty, until the duality gap is closed."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from ctfa import _reading as check
from ctfa.core.types import AnyArray, FloatArray
from ctfa_study.baselines._tasks import LinearTasks, TaskMoments, read_at_least_zero, read_count

#: Corrections that the quasi-Newton method remembers.
MEMORY = 20
#: Least price in the metric, as a part of the largest curvature: it must have a Cholesky factor.
FLOOR = 1e-10


class Penalty(Protocol):
    """A convex function of coefficients (T, D), smooth and homogeneous of degree two."""

    @property
    def usual_price(self) -> float:
        """A number p such that ``p |W|^2`` is of the penalty's size."""

    def value_and_gradient(self, coef: FloatArray) -> tuple[float, FloatArray]:
        """Value, and gradient (T, D)."""

    def conjugate(self, coef: FloatArray) -> float:
        """The conjugate function, homogeneous of degree two as well."""


@dataclass
class Minimum:
    """Coefficients, and how far their objective may be from the least."""

    coef: FloatArray
    objectives: list[float] = field(default_factory=list)  # of each iterate, the start first
    gap: float = np.inf


class Done(Exception):
    """Raised inside the quasi-Newton method to leave it: every SciPy lets that pass."""


def descend(
    objective: Callable[[FloatArray], tuple[float, FloatArray]],
    start: FloatArray,
    note: Callable[[Any], None],
    max_iter: int,
) -> None:
    """Limited-memory quasi-Newton steps; ``note`` is told of each point and raises Done."""
    minimize(  # type: ignore[call-overload]
        objective,
        start,
        jac=True,
        method="L-BFGS-B",
        callback=note,
        options={
            "maxiter": max_iter,
            "maxfun": 40 * max_iter,
            "maxcor": MEMORY,
            "ftol": 0.0,
            "gtol": 0.0,
        },
    )


class SmoothTasks(LinearTasks):
    """Linear tasks whose penalty is smooth and convex.

    Needs parameters ``tol``, ``max_iter`` and ``warm_start``.
    """

    tol: Any
    max_iter: Any
    warm_start: Any

    def _minimise(self, moments: TaskMoments, penalty: Penalty) -> None:
        check.require_flag(self.warm_start, "warm_start")
        tol, max_iter = read_at_least_zero(self.tol, "tol"), read_count(self.max_iter, "max_iter")
        start = getattr(self, "coef_", None) if self.warm_start else None
        if start is not None and start.shape != moments.shape:
            start = None
        found = minimise(moments, penalty, start, tol=tol, max_iter=max_iter)
        self._settle(found.coef, moments)
        self.objectives_ = np.array(found.objectives)
        self.objective_ = found.objectives[-1]
        self.gap_ = found.gap
        self.n_iter_ = len(found.objectives)


def minimise(
    moments: TaskMoments, penalty: Penalty, start: FloatArray | None, *, tol: float, max_iter: int
) -> Minimum:
    """Limited-memory quasi-Newton steps in coordinates in which the loss is round.

    In these coordinates ``f(W) + p |W|^2`` has the identity as its Hessian, so what is left to
    learn is how the penalty differs from one price; without them the same steps took five to
    twenty times as many iterations on schools. Ends when the gap is at most ``tol`` times the loss
    of no coefficients, and warns when it does not get there.
    """
    metric = _Metric.of(moments, penalty.usual_price)
    found = Minimum(metric.ridge(moments.cross) if start is None else start)
    goal = tol * moments.loss(np.zeros(moments.shape))

    def objective(point: FloatArray) -> tuple[float, FloatArray]:
        coef = metric.coef(point)
        value, slope = penalty.value_and_gradient(coef)
        return moments.loss(coef) + value, metric.slope(moments.gradient(coef) + slope)

    def note(coef: FloatArray) -> None:
        found.coef = coef
        found.objectives.append(moments.loss(coef) + penalty.value_and_gradient(coef)[0])
        found.gap = max(found.objectives[-1] - lower_bound(moments, penalty, coef), 0.0)
        if found.gap <= goal or len(found.objectives) >= max_iter:
            raise Done

    try:
        note(found.coef)
        # Rounding can make the line search give up early: once more from there, without memory.
        for _ in range(2):
            start_at = metric.point(found.coef)
            descend(objective, start_at, lambda point: note(metric.coef(point)), max_iter)
    except Done:
        pass
    if found.gap > goal:
        _warn(found, goal, max_iter)
    return found


def lower_bound(moments: TaskMoments, penalty: Penalty, coef: FloatArray) -> float:
    """Dual function at the residuals of W, scaled the best way: no objective is below it.

    The conjugate is of degree two, so the bound is a parabola in the scale.
    """
    linear = float(np.sum(moments.square) - np.sum(coef * moments.cross))
    conjugate = penalty.conjugate(-moments.gradient(coef))
    bend = float(moments.residual_squares(coef).sum()) + 2.0 * conjugate
    scale = linear / bend if bend > 0.0 else 1.0
    return moments.dual(coef, scale) - scale**2 * conjugate


@dataclass(frozen=True, eq=False)
class _Metric:
    """Coordinates ``z_t = C_t' w_t`` with ``C_t C_t' = G_t + 2 p I``."""

    factor: AnyArray  # (T or 1, D, D), C_t
    inverse: AnyArray  # applied at every step, to one vector per task: cheaper than solving

    @classmethod
    def of(cls, moments: TaskMoments, price: float) -> _Metric:
        twice = max(2.0 * price, FLOOR * moments.curvature)
        factor = np.linalg.cholesky(moments.gram + twice * np.eye(moments.shape[1]))
        return cls(np.asarray(factor), np.asarray(np.linalg.inv(factor)))

    def ridge(self, cross: FloatArray) -> FloatArray:
        return _times(_times(cross, self.inverse.swapaxes(1, 2)), self.inverse)

    def point(self, coef: FloatArray) -> FloatArray:
        return _times(coef, self.factor).ravel()

    def coef(self, point: FloatArray) -> FloatArray:
        return _times(point.reshape(-1, self.factor.shape[1]), self.inverse)

    def slope(self, gradient: FloatArray) -> FloatArray:
        return _times(gradient, self.inverse.swapaxes(1, 2)).ravel()


def _times(rows: FloatArray, matrices: AnyArray) -> FloatArray:
    """Row t times matrix t."""
    if matrices.shape[0] == 1:
        return np.asarray(rows @ matrices[0])
    return np.asarray(np.einsum("ti,tij->tj", rows, matrices))


def _warn(found: Minimum, goal: float, max_iter: int) -> None:
    ended = len(found.objectives) >= max_iter
    warnings.warn(
        f"the objective {found.objectives[-1]:.6g} may be {found.gap:.2g} above the least, and tol "
        f"asks for {goal:.2g}: "
        + (
            f"max_iter={max_iter} came first. Raise it, or raise tol."
            if ended
            else "rounding allows no further step. Raise tol, or standardise the features."
        ),
        ConvergenceWarning,
        stacklevel=6,
    )
