"""Points of the convex hull of some vectors, from their inner products alone."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq, nnls

from ctfa.core.types import FloatArray

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
