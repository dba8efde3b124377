"""Targets that share coefficients: the questions of ``PooledSpace``, compiled.

What pairs cost is answered for many pairs per call; the scan stays where it is. A question is the
sum of two small Gram matrices and one Cholesky factorization of it, of several pairs side by side:
one vector instruction does the same step of all. Where that keeps too few digits, where inputs
depend on each other and where no degree of freedom is left, the space itself is asked.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ctfa.core.criteria import Loss, target_risk
from ctfa.core.spaces.pooled import NEARLY_NO_DOF, ROUNDING, TRUSTED_DIGITS, Pool, PooledSpace
from ctfa.core.types import FloatArray, IntArray
from ctfa.kernels.compiling import CompiledQuestions, compiled, place_of, reordered

#: Pairs that are factored side by side.
LANES = 8


class Rule(NamedTuple):
    """What counts as rounding."""

    trusted_digits: float
    rounding: float
    nearly_no_dof: float


def questions(space: PooledSpace, criterion: Loss) -> CompiledQuestions | None:
    """Take over the questions; None for a criterion without a kernel."""
    start = space.start()
    if start is None or place_of(criterion, ("target_risk",)) is None:
        return None
    rule = Rule(TRUSTED_DIGITS, ROUNDING, NEARLY_NO_DOF)
    return CompiledQuestions(space, criterion, _losses, _join, (*start, rule))


def warm_up() -> None:
    """Compile everything by a small problem, or find it compiled."""
    inputs = np.random.default_rng(0).normal(size=(3, 8, 2))
    asked = questions(PooledSpace.of(list(inputs), list(inputs[:, :, 0])), target_risk)
    assert asked is not None
    asked.losses(0, np.array([1, 2]))
    asked.merge(0, 1)


@compiled
def _losses(
    gram: FloatArray, pool: Pool, rule: Rule, first: IntArray, second: IntArray
) -> tuple[FloatArray, int]:
    """Losses of pairs; not a number where the space has to be asked, and how often that is."""
    count, width = second.size, gram.shape[1]
    work = np.ones((width, width, LANES))
    rise, losses, n_doubtful = np.empty(LANES), np.empty(count), 0
    for start in range(0, count, LANES):
        some = min(LANES, count - start)
        for lane in range(some):
            mine, theirs = gram[first[start + lane]], gram[second[start + lane]]
            for i in range(width):
                for j in range(i + 1):
                    work[i, j, lane] = mine[i, j] + theirs[i, j]
        _last_pivots(work, rise, rule.trusted_digits)
        for lane in range(some):
            k = start + lane
            losses[k] = _loss(pool, first[k], second[k], rise[lane], width - 1.0, rule)
            n_doubtful += np.isnan(losses[k])
    return losses, n_doubtful


@compiled
def _join(gram: FloatArray, pool: Pool, rule: Rule, block: int, other: int) -> bool:
    """Merge two groups; change nothing and say so where the space has to do it."""
    width = gram.shape[1]
    work, rise = np.ones((width, width, LANES)), np.empty(LANES)
    for i in range(width):
        for j in range(i + 1):
            work[i, j, 0] = gram[block, i, j] + gram[other, i, j]
    _last_pivots(work, rise, rule.trusted_digits)
    full = pool.rank[block] == width - 1.0 and pool.rank[other] == width - 1.0
    explained = pool.explained[block] + pool.explained[other]
    if not (full and rise[0] >= 0.0 and explained - rise[0] > rule.trusted_digits * explained):
        return False
    for i in range(width):
        for j in range(width):
            gram[block, i, j] += gram[other, i, j]
    gram[block, -1, -1] -= rise[0]  # of the target along the inputs, which is what is explained
    pool.explained[block] = explained - rise[0]
    pool.residual[block] += pool.residual[other] + rise[0]
    pool.n_samples[block] += pool.n_samples[other]
    pool.n_tasks[block] += pool.n_tasks[other]
    pool.weight[block] += pool.weight[other]
    return True


@reordered
def _last_pivots(work: FloatArray, rise: FloatArray, trusted: float) -> None:
    """Factor Gram matrices side by side, in place: their last pivots.

    Not a number where they keep too few digits: pivots are judged as shares of their squares.
    """
    width, smallest = work.shape[0], np.ones(LANES)
    for i in range(width):
        square = work[i, i].copy()
        for j in range(i):
            for k in range(j):
                for lane in range(LANES):
                    work[i, j, lane] -= work[i, k, lane] * work[j, k, lane]
            for lane in range(LANES):
                work[i, j, lane] *= work[j, j, lane]
                work[i, i, lane] -= work[i, j, lane] * work[i, j, lane]
        for lane in range(LANES):
            pivot = work[i, i, lane]
            share = pivot / square[lane]
            if i == width - 1:
                rise[lane] = pivot if smallest[lane] * share > trusted else np.nan
            else:
                smallest[lane] = min(smallest[lane], share)
                work[i, i, lane] = 1.0 / np.sqrt(pivot)


@compiled
def _loss(pool: Pool, block: int, other: int, rise: float, lost: float, rule: Rule) -> float:
    """``(F - 1)/(F_star - 1)`` of slopes in common, as ``PooledSpace`` has it."""
    v_block = pool.n_samples[block] - pool.n_tasks[block]
    v_other = pool.n_samples[other] - pool.n_tasks[other]
    dof = v_block + v_other - 2.0 * lost
    full = pool.rank[block] == lost and pool.rank[other] == lost
    if not (full and lost > 0.0 and dof > 0.0 and rise >= 0.0):
        return np.nan
    if not rise > rule.rounding * (pool.explained[block] + pool.explained[other]):
        rise = 0.0
    v = v_block + v_other
    spare = max(v - lost - 1.0, rule.nearly_no_dof)
    common = v_block * v_other * (v * v - 2.0 * v * lost - v + 2.0)
    common /= v * (v - 1.0) * (v + 2.0) * spare
    bias = saved = 0.0
    for at, own, others in ((block, v_block, v_other), (other, v_other, v_block)):
        weight = pool.weight[at] if own > 1.0 else 0.0
        bias += weight * (others / v - common)
        own_spare = max(own - lost - 1.0, rule.nearly_no_dof)
        saved += weight * (1.0 / own_spare - 1.0 / spare)
    credit = v_block * v_other * (v - lost) / ((v - 1.0) * (v + 2.0)) * saved
    if bias > 0.0:
        credit /= bias
    f_statistic = 0.0
    if rise != 0.0:
        noise = (pool.residual[block] + pool.residual[other]) / dof
        f_statistic = rise / (lost * max(noise, 0.0))
    loss: float = (f_statistic - 1.0) / max(credit, rule.nearly_no_dof)
    return loss
