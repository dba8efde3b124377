"""Targets with inputs of their own: the questions of ``PairedSpace``, compiled.

Only what a pair costs, and what a merge leaves, is answered here, many pairs a call; the scan stays
where it is, but on a graph (``paired_scan``). A question is the Gram matrix of two blocks' added
rows and one Cholesky factorization of it. Where that keeps too few digits, by the rules of the
space, the space itself is asked.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ctfa.core.criteria import Loss
from ctfa.core.spaces import PairedSpace
from ctfa.core.spaces.paired import (
    CANCELLED,
    LEAST_NOISE,
    NEARLY_EQUAL,
    ROUNDING,
    TRUSTED_PIVOT,
)
from ctfa.core.types import FloatArray, IntArray
from ctfa.kernels.compiling import compiled, place_of, reordered

#: The compiled code knows a criterion by its place.
CRITERIA = ("mse", "corollary", "target_risk")
MSE, COROLLARY, RISK = range(3)


class Rule(NamedTuple):
    """A criterion, and what it needs besides sums of squares."""

    criterion: int
    n_samples: float
    n_inputs: float
    trusted_pivot: float
    cancelled: float
    nearly_equal: float
    rounding: float
    least_noise: float
    tiny: float


class Blocks(NamedTuple):
    """The blocks of a space as they stand; its own arrays, which merges change."""

    sums: FloatArray  # (tasks, inputs then target, samples)
    size: FloatArray
    square: FloatArray  # (tasks, inputs then target): of each row
    total: FloatArray  # of the mean target
    residual: FloatArray
    rank: FloatArray


class PairedQuestions:
    """Losses and merges of a space; it stays the owner of the blocks, and is changed by merges."""

    def __init__(self, space: PairedSpace, criterion: Loss, number: int) -> None:
        self._space, self._criterion = space, criterion
        self.blocks = Blocks(*space.blocks())
        self.rule = Rule(
            number,
            float(space.n_samples),
            float(space.n_inputs),
            TRUSTED_PIVOT,
            CANCELLED,
            NEARLY_EQUAL,
            ROUNDING,
            LEAST_NOISE,
            float(np.finfo(np.float64).tiny),
        )

    def losses(self, block: int | IntArray, others: IntArray) -> FloatArray:
        """Loss of merging a block with each of the others, or pair by pair."""
        others = others.astype(np.int64, copy=False)
        first = np.full(others.shape, block, dtype=np.int64)
        losses, n_doubtful = _losses(self.blocks, first, others, self.rule)
        if n_doubtful:
            doubtful = np.isnan(losses)
            losses[doubtful] = self.of_the_space(first[doubtful], others[doubtful])
        return np.asarray(losses)

    def of_the_space(self, blocks: IntArray, others: IntArray) -> FloatArray:
        """Losses of pairs by the space itself."""
        return np.asarray(self._criterion(self._space.evidence(blocks, others)), dtype=float)

    def merge(self, block: int, other: int) -> None:
        """Merge in the space."""
        if join(self.blocks, block, other, self.rule):
            self._space.merged(block, other)
        else:
            self._space.merge(block, other)


def questions(space: PairedSpace, criterion: Loss) -> PairedQuestions | None:
    """Take over the questions; None for a criterion without a kernel."""
    number = place_of(criterion, CRITERIA)
    # The paper's rule counts the columns that a block was given, which only the space knows.
    if number is None or (number == MSE and not space.has_all_inputs):
        return None
    return PairedQuestions(space, criterion, number)


@compiled
def _losses(
    blocks: Blocks, first: IntArray, second: IntArray, rule: Rule
) -> tuple[FloatArray, int]:
    """Losses of pairs; not a number where the space has to be asked, and how often that is."""
    n_rows, n_samples = blocks.sums.shape[1:]
    rows, gram = np.empty((n_rows, n_samples)), np.empty((n_rows, n_rows))
    losses, n_doubtful = np.empty(second.size), 0
    for k in range(second.size):
        losses[k] = pair_loss(blocks, first[k], second[k], rows, gram, rule)
        n_doubtful += np.isnan(losses[k])
    return losses, n_doubtful


@compiled
def join(blocks: Blocks, block: int, other: int, rule: Rule) -> bool:
    """Merge two blocks; change nothing and say so where Gram matrices have lost too many digits."""
    n_rows, n_samples = blocks.sums.shape[1:]
    rows, gram = np.empty((n_rows, n_samples)), np.empty((n_rows, n_rows))
    square = np.empty(n_rows)
    _added(blocks.sums[block], blocks.sums[other], rows)
    _gram(rows, gram)
    for i in range(n_rows):
        square[i] = gram[i, i]
    before = blocks.square[block], blocks.square[other]
    residual, rank = _last_pivot(gram, before[0], before[1], rule)
    if residual < 0.0:
        return False
    size = blocks.size[block] + blocks.size[other]
    blocks.sums[block] = rows
    blocks.square[block] = square
    blocks.size[block] = size
    blocks.total[block] = square[-1] / (size * size)
    blocks.residual[block] = residual / (size * size)
    blocks.rank[block] = rank
    return True


@compiled
def pair_loss(
    blocks: Blocks, block: int, other: int, rows: FloatArray, gram: FloatArray, rule: Rule
) -> float:
    """Loss of a pair, in the workspaces given; not a number where the space has to be asked."""
    a, b = blocks.size[block], blocks.size[other]
    gap = 0.0
    if rule.criterion == RISK:
        gap = _squared_gap(blocks.sums[block, -1], blocks.sums[other, -1], a, b)
        if gap < rule.nearly_equal * (blocks.total[block] + blocks.total[other]):
            return np.nan
    _added(blocks.sums[block], blocks.sums[other], rows)
    _gram(rows, gram)
    total = gram[-1, -1] / ((a + b) * (a + b))
    residual, rank = _last_pivot(gram, blocks.square[block], blocks.square[other], rule)
    if residual < 0.0:
        return np.nan
    residual /= (a + b) * (a + b)
    if rule.criterion == RISK:
        return _risk(blocks, block, other, gap, residual, rank, rule)
    return _two_task_loss(blocks, block, other, total, residual, rank, rule)


@compiled
def _risk(
    blocks: Blocks, block: int, other: int, gap: float, joint: float, joint_rank: float, rule: Rule
) -> float:
    """``(F - 1)/(F_star - 1)`` of what a merge gives up, as ``PairedSpace`` splits it."""
    a, b, n = blocks.size[block], blocks.size[other], rule.n_samples
    share = a * b / (a + b)
    mine, theirs = blocks.residual[block], blocks.residual[other]
    residual = (a * mine + b * theirs - (a + b) * joint) / share
    explained = gap - residual
    rank = max(joint_rank, 1.0)
    dof = n - rank - 1.0
    if blocks.rank[block] != rank or blocks.rank[other] != rank or joint_rank != rank:
        unit, reference = _credit(rank, n), rank / dof
        extra, shift = 0.0, 0.0
        for noise, its_rank in (
            (a / share * mine, blocks.rank[block]),
            (b / share * theirs, blocks.rank[other]),
            (-(a + b) / share * joint, joint_rank),
        ):
            extra += noise * (_credit(its_rank, n) / unit - 1.0)
            shift += noise * (its_rank / (n - its_rank - 1.0) - reference)
        explained += reference * extra - shift
        residual += extra
    scale = blocks.total[block] + blocks.total[other]
    least = rule.least_noise * max(gap, rule.rounding * scale)
    if residual < least and (explained != 0.0 or residual != 0.0):
        f_star = 1.0 + (n - 1.0) / (dof - 1.0)
        explained += rank / dof * f_star * (least - residual)
        residual = least
    f_statistic = 0.0
    if explained != 0.0:
        f_statistic = explained / (rank * (max(residual, 0.0) / dof))
    loss: float = (f_statistic - 1.0) / ((n - 1.0) / (dof - 1.0))
    return loss


@compiled
def _credit(rank: float, n_samples: float) -> float:
    """Rise of the risk per residual sum of squares."""
    spare = n_samples - rank - 1.0
    return rank / spare * (n_samples - 1.0) / (spare - 1.0)


@compiled
def _two_task_loss(
    blocks: Blocks,
    block: int,
    other: int,
    total: float,
    residual: float,
    rank: float,
    rule: Rule,
) -> float:
    """Variance and bias of Eq. 6 for the task that gains least."""
    n = rule.n_samples
    if rule.criterion == MSE:
        inputs = rule.n_inputs
        after = _shrunk_signal(total, residual, n - inputs - 1.0, rule)
    else:
        inputs = rank
        after = (total - residual) / (n - 1.0)
    before = 0.0
    for one in (block, other):
        dof = n - (inputs if rule.criterion == MSE else blocks.rank[one]) - 1.0
        before += _shrunk_signal(blocks.total[one], blocks.residual[one], dof, rule)
    least = min(blocks.residual[block], blocks.residual[other])
    variance_rise = (residual - least) / (n - inputs - 1.0) * (inputs / (n - 1.0))
    loss: float = variance_rise + 0.5 * before - after
    return loss


@compiled
def _shrunk_signal(total: float, residual: float, dof: float, rule: Rule) -> float:
    """``R2 (var - s2)``; a constant target explains nothing."""
    share = (total - residual) / max(total, rule.tiny)
    return share * (total / (rule.n_samples - 1.0) - residual / dof)


@compiled
def _last_pivot(
    gram: FloatArray, mine: FloatArray, theirs: FloatArray, rule: Rule
) -> tuple[float, float]:
    """Factor a Gram matrix in place: last pivot, the residual, and rank; -1 where not trusted.

    Inputs that neither block has are absent; a row that cancelled is left to the space.
    """
    n_rows, rank, pivot = gram.shape[0], 0.0, 0.0
    for i in range(n_rows):
        square = gram[i, i]
        before = mine[i] + theirs[i]
        if before == 0.0 and i < n_rows - 1:
            gram[i, : i + 1] = 0.0
            continue
        if not square > rule.cancelled * before:
            return -1.0, 0.0
        pivot = _eliminate(gram, i)
        if not pivot > rule.trusted_pivot * square:
            return -1.0, 0.0
        if i == n_rows - 1:
            break
        gram[i, i] = 1.0 / np.sqrt(pivot)
        rank += 1.0
    # Without any input there is nothing to weigh: let one rounding decide, the space's.
    return (pivot, rank) if rank > 0.0 else (-1.0, 0.0)


@reordered
def _eliminate(gram: FloatArray, i: int) -> float:
    """Row ``i`` of the factor, whose diagonal holds inverses; return its pivot."""
    pivot: float = gram[i, i]
    for j in range(i):
        entry = gram[i, j]
        for k in range(j):
            entry -= gram[i, k] * gram[j, k]
        entry *= gram[j, j]
        gram[i, j] = entry
        pivot -= entry * entry
    return pivot


@reordered
def _added(first: FloatArray, second: FloatArray, rows: FloatArray) -> None:
    for i in range(rows.shape[0]):
        for k in range(rows.shape[1]):
            rows[i, k] = first[i, k] + second[i, k]


@reordered
def _squared_gap(mine: FloatArray, theirs: FloatArray, a: float, b: float) -> float:
    """Squared difference of two mean targets, taken explicitly."""
    square = 0.0
    for k in range(mine.size):
        gap = mine[k] / a - theirs[k] / b
        square += gap * gap
    return square


@reordered
def _gram(rows: FloatArray, gram: FloatArray) -> None:
    """Lower triangle of inner products, two by two: each load serves two of them."""
    n_rows, n_samples = rows.shape
    for i in range(0, n_rows - 1, 2):
        for j in range(0, i, 2):
            p00 = p01 = p10 = p11 = 0.0
            for k in range(n_samples):
                x0, x1, y0, y1 = rows[i, k], rows[i + 1, k], rows[j, k], rows[j + 1, k]
                p00 += x0 * y0
                p01 += x0 * y1
                p10 += x1 * y0
                p11 += x1 * y1
            gram[i, j], gram[i, j + 1] = p00, p01
            gram[i + 1, j], gram[i + 1, j + 1] = p10, p11
        q00 = q10 = q11 = 0.0
        for k in range(n_samples):
            x0, x1 = rows[i, k], rows[i + 1, k]
            q00 += x0 * x0
            q10 += x1 * x0
            q11 += x1 * x1
        gram[i, i], gram[i + 1, i], gram[i + 1, i + 1] = q00, q10, q11
    if n_rows % 2:
        last = n_rows - 1
        for j in range(n_rows):
            product = 0.0
            for k in range(n_samples):
                product += rows[last, k] * rows[j, k]
            gram[last, j] = product
