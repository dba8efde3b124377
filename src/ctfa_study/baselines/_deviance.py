"""Deviances of many small generalised linear models with the canonical link, fitted together."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import expit, xlogy

from ctfa.core.types import FloatArray

#: Steps of Newton's method, and halvings of a step that leads uphill.
MAX_STEPS, MAX_HALVINGS = 60, 40
#: Decrease of a deviance, relative to its size, at which a fit has settled.
SETTLED = 1e-12
#: Added to unit curvatures, so that columns of zeros do no harm.
RIDGE = 1e-9


class Family(NamedTuple):
    """An exponential family: ``log p(y) = y theta - b(theta)`` up to a function of y."""

    cumulant: Callable[[FloatArray], FloatArray]  # b
    mean: Callable[[FloatArray], FloatArray]  # b'
    variance: Callable[[FloatArray], FloatArray]  # b'' as a function of the mean
    link: Callable[[float], float]  # theta of a mean
    best: Callable[[FloatArray], FloatArray]  # the log-likelihood of each y fitted by itself


FAMILIES = {
    "poisson": Family(
        np.exp,
        np.exp,
        lambda mean: mean,
        lambda mean: float(np.log(mean)),
        lambda y: np.asarray(xlogy(y, y) - y),
    ),
    "binomial": Family(
        lambda theta: np.logaddexp(0.0, theta),
        expit,
        lambda mean: mean * (1.0 - mean),
        lambda mean: float(np.log(mean / (1.0 - mean))),
        np.zeros_like,
    ),
}


def deviances(designs: FloatArray, target: FloatArray, family: str) -> FloatArray:
    """Least deviance of each model with an intercept and the columns of its design.

    Parameters
    ----------
    designs : ndarray of shape (m, n, p)
        Columns of each model, without the intercept.
    target : ndarray of shape (n,)
    family : {"poisson", "binomial"}

    Examples
    --------
    >>> import numpy as np
    >>> y = np.array([1.0, 2.0, 3.0, 6.0])
    >>> bool(np.isclose(deviances(np.zeros((1, 4, 1)), y, "poisson")[0], 4.4987, atol=1e-4))
    True
    """
    kind = FAMILIES[family]
    m, n, p = designs.shape
    scale = np.sqrt(np.mean(designs**2, axis=1, keepdims=True))
    X = np.concatenate([np.ones((m, n, 1)), designs / np.where(scale > 0.0, scale, 1.0)], axis=2)
    coef = np.zeros((m, p + 1))
    coef[:, 0] = kind.link(float(target.mean()))
    best = float(np.sum(kind.best(target)))

    def value(coef: FloatArray) -> FloatArray:
        theta = np.einsum("mnp,mp->mn", X, coef)
        with np.errstate(over="ignore"):
            return np.asarray(2.0 * (best - np.sum(target * theta - kind.cumulant(theta), axis=1)))

    now = value(coef)
    for _ in range(MAX_STEPS):
        mean = kind.mean(np.einsum("mnp,mp->mn", X, coef))
        slope = np.einsum("mnp,mn->mp", X, target - mean)
        bend = np.einsum("mnp,mn,mnq->mpq", X, kind.variance(mean), X)
        bend += RIDGE * n * np.eye(p + 1)
        step = np.linalg.solve(bend, slope[:, :, None])[:, :, 0]
        new = value(coef + step)
        for _ in range(MAX_HALVINGS):
            uphill = ~(new <= now)
            if not uphill.any():
                break
            step[uphill] *= 0.5
            new = value(coef + step)
        step[~(new <= now)] = 0.0
        coef = coef + step
        gained, now = now - value(coef), value(coef)
        if np.all(gained <= SETTLED * (1.0 + np.abs(now))):
            break
    return now
