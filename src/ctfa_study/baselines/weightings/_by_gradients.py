"""Weightings that need the tasks' gradients themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ctfa.core.types import FloatArray
from ctfa_study.baselines.weightings._step import Step, Told, Weighting, require


@dataclass(frozen=True)
class GradDrop(Weighting):
    """At each unit of the shared representation, gradients of one sign alone pass.

    ``P = (1 + sum_i G_i / sum_i |G_i|) / 2`` with ``G_i`` the gradient times the sign of the unit,
    summed over the batch; where a uniform draw is below P those with ``G_i > 0`` pass, elsewhere
    those with ``G_i < 0``. Chen, Ngiam, Huang, Luong, Kretzschmar, Chai and Anguelov (2020), Just
    pick a sign: optimizing deep multitask models with gradient sign dropout, NeurIPS.

    Parameters
    ----------
    leak : float, default=0.0
        Part of every gradient that passes in any case.
    """

    leak: float = 0.0
    label = "GradDrop"
    needs = "activations"

    def __post_init__(self) -> None:
        require(self.leak, "leak", 0.0, 1.0)

    def weigh(self, told: Told, state: Any) -> tuple[Step, Any]:
        """What passes, (K, h); a task's weight is the mean over units."""
        pulls = told.pulls
        assert pulls is not None
        total = np.abs(pulls).sum(axis=0)
        purity = np.divide(pulls.sum(axis=0), total, out=np.zeros_like(total), where=total > 0.0)
        up = told.rng.random(total.size) < 0.5 * (1.0 + purity)
        passes = np.where(up, pulls > 0.0, pulls < 0.0)
        parts = self.leak + (1.0 - self.leak) * passes
        return Step(parts.mean(axis=1), np.ones(told.n_tasks), parts), None


class Tracked(NamedTuple):
    """What MoCo keeps: followed gradients and the weights of tasks."""

    gradients: FloatArray | None  # (K, p)
    weights: FloatArray  # (K,)
    n_steps: int


@dataclass(frozen=True)
class MoCo(Weighting):
    """MGDA without its bias: gradients and weights are followed over steps.

    ``Y <- Y - beta_t (Y - gradients)``, then the weights move by ``-gamma_t (Y Y' + rho) w`` and
    are projected on the simplex; the step is ``w' Y``. Rates fall as ``1 / t^decay``. Fernando,
    Shen, Liu, Chaudhury, Murugesan and Chen (2023), Mitigating gradient bias in multi-objective
    learning: a provably convergent approach, ICLR.

    The paper's algorithm on the gradients as they are: LibMTL scales each to the size of its loss
    and uses a softmax in place of the projection.

    Parameters
    ----------
    beta, gamma : float, default=0.5, 0.1
        First rates of the gradients and of the weights.
    decay : float, default=0.5
        How fast both fall.
    rho : float, default=0.0
        Pull of the weights towards equal ones.
    """

    beta: float = 0.5
    gamma: float = 0.1
    decay: float = 0.5
    rho: float = 0.0
    label = "MoCo"
    needs = "gradients"

    def __post_init__(self) -> None:
        require(self.beta, "beta", 0.0, 1.0, open_="low")
        for name in ("gamma", "decay", "rho"):
            require(getattr(self, name), name, 0.0)

    def start(self, n_tasks: int) -> Tracked:
        """No gradient yet, equal weights."""
        return Tracked(None, np.full(n_tasks, 1.0 / n_tasks), 0)

    def weigh(self, told: Told, state: Tracked) -> tuple[Step, Tracked]:
        """The step along the followed gradients."""
        given = told.gradients
        assert given is not None
        n = state.n_steps + 1
        before = np.zeros_like(given) if state.gradients is None else state.gradients
        followed = before + (self.beta / n**self.decay) * (given - before)
        slope = followed @ (followed.T @ state.weights) + self.rho * state.weights
        weights = onto_simplex(state.weights - self.gamma / n**self.decay * slope)
        step = Step(weights, np.ones(told.n_tasks), weights @ followed)
        return step, Tracked(followed, weights, n)


def onto_simplex(point: FloatArray) -> FloatArray:
    """The nearest point with no negative part and sum 1."""
    falling = np.sort(point)[::-1]
    levels = (np.cumsum(falling) - 1.0) / np.arange(1, point.size + 1)
    level = levels[np.flatnonzero(falling > levels)[-1]]
    return np.asarray(np.maximum(point - level, 0.0))
