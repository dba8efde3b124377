"""Least squares with a norm as penalty: one accelerated proximal gradient method for all of them.

Minimise ``f(W) + h(W)``, with ``f`` the loss of ``TaskMoments`` and ``h`` a norm. The steps are
those of Beck and Teboulle, "A fast iterative shrinkage-thresholding algorithm for linear inverse
problems", SIAM J. Imaging Sciences 2 (2009), the momentum is dropped where it points uphill, as in
O'Donoghue and Candès, "Adaptive restart for accelerated gradient schemes", Found. Comput. Math. 15
(2015).

The conjugate of a norm is zero where its dual norm is at most one and infinite elsewhere. So the
residuals, made shorter until the dual norm of the gradient is one, give a lower bound on the
optimum (``TaskMoments.dual``), and the gap to it bounds what all further steps could gain.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple, Protocol

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ctfa.core.types import FloatArray
from ctfa_study.baselines._tasks import TaskMoments


class Norm(Protocol):
    """A norm of coefficients, which may be split into several parts that add up, (P, T, D)."""

    n_parts: int

    def value(self, parts: FloatArray) -> float:
        """``h`` of the parts."""

    def dual_norm(self, gradient: FloatArray) -> float:
        """Largest ``<U, gradient>`` over parts whose sum is ``U`` and whose ``h`` is one."""


class Penalty(Norm, Protocol):
    """A norm that this solver can minimise."""

    def prox(self, parts: FloatArray, step: float) -> FloatArray:
        """Minimiser of ``|U - parts|^2 / 2 + step h(U)`` over ``U``."""


class Solution(NamedTuple):
    """Where the solver stopped."""

    parts: FloatArray  # (P, T, D)
    objectives: FloatArray  # one per iteration, the start before them
    gap: float  # over the objective of zero coefficients

    @property
    def coef(self) -> FloatArray:
        """The coefficients, (T, D)."""
        return np.asarray(self.parts.sum(axis=0))

    @property
    def n_iter(self) -> int:
        """Number of steps."""
        return self.objectives.size - 1


def solve(moments: TaskMoments, penalty: Penalty, *, tol: float, max_iter: int) -> Solution:
    """Minimise the loss and the penalty until the relative gap is at most ``tol``.

    Relative means over the objective of zero coefficients, which is half the variance of the
    targets: a fit that is nearly exact has an objective that rounding alone decides.
    """
    parts = np.zeros((penalty.n_parts, *moments.shape))
    gradient = moments.gradient(parts[0])
    scale = moments.loss(parts[0])
    objectives = [scale]
    gap = duality_gap(moments, penalty, parts)
    # The Hessian of a sum of parts has that many times the curvature.
    lipschitz = penalty.n_parts * moments.curvature
    ahead, slope, momentum = parts, gradient, 1.0
    n_iter = 0
    while gap > tol * scale and n_iter < max_iter:
        n_iter += 1
        new = penalty.prox(ahead - slope / lipschitz, 1.0 / lipschitz)
        new_gradient = moments.gradient(new.sum(axis=0))
        moved = new - parts
        if np.vdot(ahead - new, moved) > 0.0:
            momentum = 1.0
        following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        push = (momentum - 1.0) / following
        ahead = new + push * moved
        # The gradient is affine, so that of a point on a line through two known ones is known.
        slope = new_gradient + push * (new_gradient - gradient)
        parts, gradient, momentum = new, new_gradient, following
        objectives.append(_loss(moments, parts, gradient) + penalty.value(parts))
        if n_iter % CHECK_EVERY == 0 or n_iter == max_iter:
            gap = duality_gap(moments, penalty, parts)
    relative = gap / scale if scale > 0.0 else 0.0
    if gap > tol * scale:
        warnings.warn(
            f"stopped after max_iter={max_iter} steps with a relative duality gap of "
            f"{relative:.1e}, above tol={tol:g}: standardise the features, raise max_iter or tol, "
            "or use a larger penalty.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return Solution(parts, np.array(objectives), relative)


def duality_gap(moments: TaskMoments, penalty: Norm, parts: FloatArray) -> float:
    """Bound on what the objective at these parts exceeds its minimum by."""
    coef = parts.sum(axis=0)
    norm = penalty.dual_norm(moments.gradient(coef))
    dual = moments.dual(coef, 1.0 / max(norm, 1.0))
    return max(moments.loss(coef) + penalty.value(parts) - dual, 0.0)


def least_squares(moments: TaskMoments) -> FloatArray:
    """Coefficients of least norm without any penalty, (T, D)."""
    values, vectors = moments.spectrum
    along = (vectors.swapaxes(1, 2) @ moments.cross[:, :, None])[:, :, 0]
    along = np.where(values > 0.0, along / np.where(values > 0.0, values, 1.0), 0.0)
    return np.asarray((vectors @ along[:, :, None])[:, :, 0])


def _loss(moments: TaskMoments, parts: FloatArray, gradient: FloatArray) -> float:
    """The loss, where its gradient is known already."""
    product = np.vdot(parts.sum(axis=0), gradient - moments.cross)
    return max(0.5 * float(moments.square.sum() + product), 0.0)


#: The gap costs about as much as a step.
CHECK_EVERY = 10
#: Singular values of a system of equations below this share of the largest are rounding.
RANK_CUTOFF = 1e-12
