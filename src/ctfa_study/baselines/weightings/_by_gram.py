"""Weightings that look at the inner products of the tasks' shared gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq, nnls

from ctfa.core.types import FloatArray
from ctfa_study.baselines.weightings._by_losses import LEAST_LOSS
from ctfa_study.baselines.weightings._step import (
    Learned,
    Step,
    Told,
    Weighting,
    on_gradients,
    on_losses,
    require,
)

#: Inner products below this part of the largest are rounding of gradients in single precision.
ROUNDING = 1e-10
#: A vector shorter than this part of the longest is none: inner products do not tell it from 0.
SHORTEST = 1e-7
#: Newton's method ends when the relative error of every equation is below this.
SETTLED = 1e-10
MAX_NEWTON = 200
#: Exchanges of non-negative least squares, for each vector.
MAX_EXCHANGES = 100


def factor(gram: FloatArray) -> FloatArray:
    """Vectors with these inner products, one column each."""
    values, vectors = np.linalg.eigh(gram)
    return np.asarray(np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T)


def least_norm(columns: FloatArray, shift: FloatArray | None = None) -> FloatArray:
    """Weights in the simplex of the point ``columns @ w + shift`` nearest to the origin.

    With ``b_i = columns_i + shift`` and w = t v, v in the simplex, ``|B w|^2 + (sum(w) - 1)^2`` is
    ``t^2 |B v|^2 + (t - 1)^2``: least at the same v whatever t. So non-negative least squares
    solves it exactly, in finitely many steps, where Frank and Wolfe's method only draws near.
    """
    points = columns if shift is None else columns + shift[:, None]
    size = np.sqrt(np.mean(points**2) * points.shape[0])
    if size == 0.0:
        return np.full(points.shape[1], 1.0 / points.shape[1])
    system = np.vstack([points / size, np.ones(points.shape[1])])
    goal = np.append(np.zeros(points.shape[0]), 1.0)
    weights = np.maximum(nnls(system, goal, maxiter=MAX_EXCHANGES * goal.size)[0], 0.0)
    return np.asarray(weights / weights.sum())


def conflict_averse(gram: FloatArray, radius: float) -> FloatArray:
    """Coefficients of the vector in the ball about the mean that serves the worst task best.

    The ball has the centre ``g0``, the mean of the vectors, and the radius ``radius |g0|``. In the
    dual, over weights w in the simplex, ``g_w . g0 + r |g_w|`` is to be least, r the radius; the
    answer is ``g0 + r g_w / |g_w|``. Because ``r |x| = min_t (r / 2) (|x|^2 / t + t)``, for a given
    t it is a point nearest to the origin, of the vectors moved by ``(t / r) g0``; the least over t
    is convex in t, and at rest ``t = |g_w|``.
    """
    n = gram.shape[0]
    mean = np.full(n, 1.0 / n)
    columns = factor(gram)
    centre = columns @ mean
    reach = radius * float(np.linalg.norm(centre))
    if reach == 0.0:
        return mean

    def weights(logarithm: float) -> FloatArray:
        return least_norm(columns, np.exp(logarithm) / reach * centre)

    def excess(logarithm: float) -> float:
        size = float(np.linalg.norm(columns @ weights(logarithm)))
        return float(np.log(max(size, 1e-300)) - logarithm)

    # No point of the hull is longer than the longest vector, so there t is too large.
    high = 0.5 * float(np.log(np.diag(gram).max()))
    low = high + float(np.log(SHORTEST))
    if excess(high) >= 0.0:
        best = weights(high)
    elif excess(low) <= 0.0:  # the origin is in the hull
        best = weights(low)
    else:
        best = weights(brentq(excess, low, high, xtol=1e-10))
    size = float(np.linalg.norm(columns @ best))
    return mean + (reach / size) * best if size > 0.0 else mean


def bargain(gram: FloatArray) -> FloatArray:
    """The positive solution of ``gram @ a = 1 / a``.

    It minimises ``a' gram a / 2 - sum(log a)``, which is convex, so that Newton's method with
    halved steps finds the one solution. Where some mixture of the vectors vanishes there is none;
    ``ROUNDING`` on the diagonal makes it finite.
    """
    scale = np.sqrt(np.diag(gram))
    scale = np.where(scale > 0.0, scale, 1.0)
    # In units of each vector's length: those solutions differ by these units alone.
    system = gram / np.outer(scale, scale) + ROUNDING * np.eye(gram.shape[0])

    def value(point: FloatArray) -> float:
        return float(0.5 * point @ system @ point - np.log(point).sum())

    # On the ray of equal weights the best point.
    a = np.full(scale.size, np.sqrt(scale.size / max(system.sum(), ROUNDING)))
    for _ in range(MAX_NEWTON):
        slope = system @ a - 1.0 / a
        if np.abs(slope * a).max() <= SETTLED:
            break
        step = -np.linalg.solve(system + np.diag(a**-2.0), slope)
        # Full steps where the decrement is small, and never out of the positive orthant.
        shrinking = -step / a
        length = min(1.0, 0.99 / max(float(shrinking.max()), 1e-300))
        now, fall = value(a), float(slope @ step)
        while value(a + length * step) > now + 1e-4 * length * fall + 1e-12 and length > 1e-12:
            length *= 0.5
        a = a + length * step
    return np.asarray(a / scale)


class Balance(NamedTuple):
    """What GradNorm keeps: weights that add up to K, and the losses of the first step."""

    weights: Learned
    first: FloatArray | None


@dataclass(frozen=True)
class GradNorm(Weighting):
    """Weights learnt so that slow tasks have large gradients.

    With ``G_i = w_i |g_i|`` and ``r_i`` what is left of task i's first loss, over the mean of that,
    weights take a step down ``sum_i |G_i - mean(G) r_i^alpha|`` with the targets held fixed, and
    are scaled to add up to K. Chen, Badrinarayanan, Lee and Rabinovich (2018), GradNorm: gradient
    normalization for adaptive loss balancing in deep multitask networks, ICML.

    Norms are over all shared parameters (in the paper over the last shared layer).

    Parameters
    ----------
    alpha : float, default=1.5
        How strongly tasks are pulled to a common rate.
    rate : float, default=0.025
        Learning rate of the weights, by Adam.
    """

    alpha: float = 1.5
    rate: float = 0.025
    label = "GradNorm"
    needs = "gram"

    #: No weight falls below this, which a step of fixed size could make negative.
    LEAST = 1e-3

    def __post_init__(self) -> None:
        require(self.alpha, "alpha", 0.0)
        require(self.rate, "rate", 0.0, open_="low")

    def start(self, n_tasks: int) -> Balance:
        """Equal weights."""
        return Balance(Learned.at(np.ones(n_tasks)), None)

    def weigh(self, told: Told, state: Balance) -> tuple[Step, Balance]:
        """Weights now, and one step further."""
        first = np.maximum(told.losses, LEAST_LOSS) if state.first is None else state.first
        weights, norms = state.weights.values, np.sqrt(np.diag(inner(told)))
        left = told.losses / first
        relative = left / max(float(left.mean()), LEAST_LOSS)
        sizes = weights * norms
        slope = np.sign(sizes - sizes.mean() * relative**self.alpha) * norms
        moved = state.weights.moved(slope, self.rate)
        values = np.maximum(moved.values, self.LEAST)
        moved = moved.replaced(told.n_tasks * values / values.sum())
        return on_losses(weights), Balance(moved, first)


@dataclass(frozen=True)
class MGDA(Weighting):
    """The shortest vector in the convex hull of the gradients, which lowers all losses.

    Sener and Koltun (2018), Multi-task learning as multi-objective optimization, NeurIPS; without
    their upper bound by the gradient in the representation, and exact where the paper iterates.
    """

    label = "MGDA"
    needs = "gram"

    def weigh(self, told: Told, state: Any) -> tuple[Step, Any]:
        """Weights of the nearest point to the origin."""
        return on_gradients(least_norm(factor(inner(told)))), None


@dataclass(frozen=True)
class CAGrad(Weighting):
    """The step near the mean gradient that serves the task served least best.

    Maximises ``min_i g_i . d`` over ``|d - g0| <= alpha |g0|``. Liu, Liu, Jin, Stone and Liu
    (2021), Conflict-averse gradient descent for multi-task learning, NeurIPS.

    Parameters
    ----------
    alpha : float, default=0.5
        Radius of the ball, c in the paper, from 0 (the mean gradient) to below 1.
    """

    alpha: float = 0.5
    label = "CAGrad"
    needs = "gram"

    def __post_init__(self) -> None:
        require(self.alpha, "alpha", 0.0, 1.0, open_="high")

    def weigh(self, told: Told, state: Any) -> tuple[Step, Any]:
        """Coefficients of the step."""
        return on_gradients(conflict_averse(inner(told), self.alpha)), None


@dataclass(frozen=True)
class IMTL(Weighting):
    """Impartial learning: a step with the same projection on every task's gradient.

    Losses are first brought to one scale, ``exp(s_i) L_i`` with ``s_i`` learnt by minimising
    ``exp(s_i) L_i - s_i`` (at rest 1 / L_i); then the step ``sum_i a_i g_i`` of the scaled losses
    has ``d . g_i / |g_i|`` equal for all i, with ``sum a = 1``. Weights may be negative. Liu, Li,
    Kuang, Xue, Chen, Yang, Liao and Zhang (2021), Towards impartial multi-task learning, ICLR.

    Where gradients are linearly dependent, weights of least norm.
    """

    label = "IMTL"
    needs = "gram"

    def start(self, n_tasks: int) -> Learned:
        """Unit scales."""
        return Learned.at(np.zeros(n_tasks))

    def weigh(self, told: Told, state: Learned) -> tuple[Step, Learned]:
        """Weights in terms of the losses as they are."""
        scales = np.exp(state.values)
        weights = impartial(inner(told) * np.outer(scales, scales))
        slope = scales * told.losses - 1.0
        step = Step(weights * scales, scales, weights * scales)
        return step, state.moved(slope, told.learning_rate)


@dataclass(frozen=True)
class NashMTL(Weighting):
    """The tasks' bargain: ``G a = 1 / a``, so that the product of their gains is largest.

    Navon, Shamsian, Achituve, Maron, Kawaguchi, Chechik and Fetaya (2022), Multi-task learning as a
    bargaining game, ICML. Solved exactly as a convex problem where the paper linearises; weights
    are those of the inner products over their Frobenius norm, as the authors scale them, computed
    again at every step and without their limit on the length of the step.
    """

    label = "Nash-MTL"
    needs = "gram"

    def weigh(self, told: Told, state: Any) -> tuple[Step, Any]:
        """Weights of losses, for the heads too."""
        gram = inner(told)
        size = float(np.linalg.norm(gram))
        return on_losses(bargain(gram / size) if size > 0.0 else np.ones(told.n_tasks)), None


def impartial(gram: FloatArray) -> FloatArray:
    """Weights that add up to 1, of a combination with equal projections on all vectors."""
    norms = np.sqrt(np.diag(gram))
    there = norms > 0.0
    if not there.any():
        return np.full(norms.size, 1.0 / norms.size)
    # In units of each vector's length, cosines @ b = c for all; the sum to 1 fixes c.
    units = norms[there]
    cosines = gram[np.ix_(there, there)] / np.outer(units, units)
    equal = np.linalg.lstsq(cosines, np.ones(units.size), rcond=ROUNDING)[0] / units
    weights = np.zeros(norms.size)
    # Where the sum vanishes the sum to 1 is out of reach: the direction alone is kept.
    total = equal.sum()
    weights[there] = equal / (total if abs(total) > ROUNDING * np.abs(equal).sum() else 1.0)
    return weights


def inner(told: Told) -> FloatArray:
    """Give the inner products, which a weighting that needs them is told."""
    assert told.gram is not None
    return told.gram
