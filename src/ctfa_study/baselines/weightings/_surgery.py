"""Weightings that alter each task's gradient by the others', one by one in random order.

An altered gradient is a combination of the given ones, so its coefficients and their inner products
are all that is kept; all tasks are altered at once, each in an order of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ctfa.core.types import FloatArray, IntArray
from ctfa_study.baselines.weightings._by_gram import inner
from ctfa_study.baselines.weightings._step import Step, Told, Weighting, on_gradients, require

#: Similarities nearer to 1 than this have no target: no finite step would reach it.
PARALLEL = 1e-8


@dataclass(frozen=True)
class PCGrad(Weighting):
    """Each gradient loses its part against any other that it conflicts with; their sum is the step.

    ``g_i <- g_i - (g_i . g_j / |g_j|^2) g_j`` where ``g_i . g_j < 0``, for all j in random order,
    ``g_j`` being the gradient as it was. Yu, Kumar, Gupta, Levine, Hausman and Finn (2020),
    Gradient surgery for multi-task learning, NeurIPS.
    """

    label = "PCGrad"
    needs = "gram"

    def weigh(self, told: Told, state: Any) -> tuple[Step, Any]:
        """Coefficients of the sum of the altered gradients."""
        gram = inner(told)
        every = np.arange(told.n_tasks)
        squares = np.diag(gram)
        coefficients, products = np.eye(told.n_tasks), gram.copy()
        for other in orders(told):
            dots = products[every, other]
            conflict = (dots < 0.0) & (squares[other] > 0.0)
            added = np.where(conflict, -dots / np.where(conflict, squares[other], 1.0), 0.0)
            coefficients[every, other] += added
            products += added[:, None] * gram[other]
        return on_gradients(coefficients.sum(axis=0)), None


@dataclass(frozen=True)
class GradVac(Weighting):
    """Each gradient is turned towards any other until they are as similar as they use to be.

    Where the cosine of ``g_i`` with ``g_j`` is below its moving average, as much of ``g_j`` is
    added that it is equal; the average, 0 at the start, then moves by ``beta`` towards the cosine
    seen. Wang, Tsvetkov, Firat and Cao (2021), Gradient vaccine: investigating and improving
    multi-task optimization in massively multilingual models, ICLR. One group: all shared
    parameters.

    Parameters
    ----------
    beta : float, default=0.5
        Part of the new similarity in the moving average (0.01 in the paper, 0.5 in LibMTL).
    """

    beta: float = 0.5
    label = "GradVac"
    needs = "gram"

    def __post_init__(self) -> None:
        require(self.beta, "beta", 0.0, 1.0)

    def start(self, n_tasks: int) -> FloatArray:
        """Targets, one for each ordered pair."""
        return np.zeros((n_tasks, n_tasks))

    def weigh(self, told: Told, state: FloatArray) -> tuple[Step, FloatArray]:
        """Coefficients of the sum of the turned gradients, and new targets."""
        gram = inner(told)
        every = np.arange(told.n_tasks)
        norms = np.sqrt(np.diag(gram))
        targets = state.copy()
        coefficients, products, squares = np.eye(told.n_tasks), gram.copy(), np.diag(gram).copy()
        for other in orders(told):
            dots, size = products[every, other], np.sqrt(np.maximum(squares, 0.0))
            lengths = size * norms[other]
            seen = np.divide(dots, lengths, out=np.zeros_like(dots), where=lengths > 0.0)
            seen, target = np.clip(seen, -1.0, 1.0), targets[every, other]
            across = np.sqrt(1.0 - target**2)
            turn = (seen < target) & (lengths > 0.0) & (across > PARALLEL)
            wanted = target * np.sqrt(1.0 - seen**2) - seen * across
            added = np.zeros_like(dots)
            np.divide(size * wanted, norms[other] * across, out=added, where=turn)
            coefficients[every, other] += added
            squares += 2.0 * added * dots + added**2 * norms[other] ** 2
            products += added[:, None] * gram[other]
            targets[every, other] = (1.0 - self.beta) * target + self.beta * seen
        return on_gradients(coefficients.sum(axis=0)), targets


def orders(told: Told) -> IntArray:
    """Whom each task meets, (K - 1, K): all others in a random order of its own."""
    n = told.n_tasks
    steps = told.rng.permuted(np.tile(np.arange(1, n), (n, 1)), axis=1)
    return np.asarray((np.arange(n)[:, None] + steps) % n, dtype=np.intp).T
