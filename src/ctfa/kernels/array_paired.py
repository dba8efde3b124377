"""What pairs of tasks with inputs of their own cost, for arrays of the array API standard.

All blocks stand in one table, a column each, so that a merge rewrites one column and every step of
a factorization goes along memory. The Gram matrix of two blocks' added rows is ``G + G' + C + C.T``
with ``C`` the products of one's rows with the other's. One product of matrices gives half of that
for a few blocks with everybody, the Gram matrices being rows like those of samples; a step for each
row, for all pairs at once, then leads to their last pivots. Where few are asked a device waits for
launches, not for numbers: steps are as few as can be, and what each would check is checked at the
end.

The identity loses digits where rows cancel, and sums of squares lose them where targets are alike.
By tighter limits than the space's own such pairs are left open, as not a number, for the space.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ctfa.core.spaces import PairedSpace
from ctfa.core.spaces.paired import LEAST_NOISE, ROUNDING, TRUSTED_PIVOT
from ctfa.core.types import FloatArray
from ctfa.kernels.devices import Device

#: A pivot below this share of its two parts' squares is left to the space. Added rows are at most
#: twice as long, so whatever the space would not trust is among them.
FIRM = 2.0 * TRUSTED_PIVOT
#: Squared differences of mean targets below this share of their squares are left to the space.
ALIKE = 1e-5
#: Decimals of a correlation, as ``core.directions`` rounds them.
DIGITS = 1e13
#: Numbers of the products at once: two gigabytes, and a quarter of that for steps.
AT_ONCE = 1 << 28
#: Single numbers of a block, the last rows of its column. The clock says when it changed.
SIZE, TOTAL, RESIDUAL, RANK, CLOCK = range(-5, 0)


class Shape(NamedTuple):
    """What the arithmetic needs besides the table."""

    n_samples: float
    length: int  # numbers of a series
    n_rows: int  # inputs, then the target
    full_rank: bool  # whether every block has the rank of all inputs


class Answers(NamedTuple):
    """Of each block asked about with every column."""

    losses: Any  # not a number where the space has to be asked
    correlation: Any


def table_of(space: PairedSpace, clock: FloatArray, device: Device) -> Any:
    """All blocks of a space: sums by sample and row, Gram matrices, unit matrices, numbers."""
    xp = device.xp
    sums, size, _, total, residual, rank = space.blocks()
    n_blocks, n_rows, length = sums.shape
    rows = device.array(sums)
    gram = xp.matmul(rows, xp.permute_dims(rows, (0, 2, 1)))
    unit = device.array(np.eye(n_rows).reshape(-1, 1))
    parts = (
        xp.reshape(xp.permute_dims(rows, (2, 1, 0)), (length * n_rows, n_blocks)),
        xp.reshape(xp.permute_dims(gram, (1, 2, 0)), (n_rows * n_rows, n_blocks)),
        xp.broadcast_to(unit, (n_rows * n_rows, n_blocks)),
        device.array(np.stack((size, total, residual, rank, clock))),
    )
    return xp.concat(parts, axis=0)


def column_of(space: PairedSpace, block: int, clock: float) -> FloatArray:
    """A block's column, as it stands now."""
    sums, size, _, total, residual, rank = space.blocks()
    rows = sums[block]
    numbers = size[block], total[block], residual[block], rank[block], clock
    parts = rows.T, rows @ rows.T, np.eye(rows.shape[0])
    return np.concatenate((*(part.ravel() for part in parts), numbers))


def width_of(n_rows: int, n_blocks: int) -> int:
    """Blocks that may be asked about at once."""
    return min(n_blocks, max(1, AT_ONCE // (n_rows * n_rows * n_blocks)))


def answers(device: Device, shape: Shape, table: Any, places: Any) -> Answers:
    """Losses and correlations of the blocks at some places with those at all."""
    xp = device.xp
    n_rows, n_asked, n_blocks = shape.n_rows, places.shape[0], table.shape[1]
    ends = [shape.length * n_rows + k * n_rows * n_rows for k in range(3)]
    mine = xp.take(table, places, axis=1)
    rows = xp.reshape(mine[: ends[0], :], (shape.length, n_rows * n_asked))
    halves = (mine[ends[1] : ends[2], :], mine[ends[0] : ends[1], :])
    left = (rows, *(xp.reshape(0.5 * half, (n_rows, n_rows * n_asked)) for half in halves))
    everybody = xp.reshape(table[: ends[2], :], (shape.length + 2 * n_rows, n_rows * n_blocks))
    half_grams = xp.matmul(xp.permute_dims(xp.concat(left, axis=0), (1, 0)), everybody)
    half_grams = xp.reshape(half_grams, (n_rows, n_asked, n_rows, n_blocks))
    of_targets = xp.matmul(
        xp.permute_dims(rows[:, -n_asked:], (1, 0)), everybody[: shape.length, -n_blocks:]
    )
    squares = (
        xp.reshape(mine[ends[0] : ends[1] : n_rows + 1, :], (n_rows, n_asked, 1)),
        xp.reshape(table[ends[0] : ends[1] : n_rows + 1, :], (n_rows, 1, n_blocks)),
    )
    before = squares[0] + squares[1]
    pivots = _pivots(device, half_grams, full_rank=shape.full_rank)
    first = [xp.reshape(mine[k, :], (n_asked, 1)) for k in (SIZE, TOTAL, RESIDUAL, RANK)]
    second = [xp.reshape(table[k, :], (1, n_blocks)) for k in (SIZE, TOTAL, RESIDUAL, RANK)]
    gap = first[1] + second[1] - 2.0 * of_targets / (first[0] * second[0])
    firm = xp.all(pivots >= FIRM * before, axis=0) & (gap > ALIKE * (first[1] + second[1]))
    rank: Any = float(n_rows - 1)
    if not shape.full_rank:
        rank = xp.sum(xp.astype(before[:-1, :, :] > 0.0, xp.float64), axis=0)
        # Without any input there is nothing to weigh: let one rounding decide, the space's.
        firm = firm & (rank > 0.0)
    losses = _risk(xp, shape, (first, second), gap, pivots[-1, :, :], rank)
    scale = xp.sqrt(squares[0][-1, :, :] * squares[1][-1, :, :])
    correlation = xp.where(scale > 0.0, of_targets / xp.where(scale > 0.0, scale, 1.0), 0.0)
    return Answers(xp.where(firm, losses, xp.nan), xp.round(correlation * DIGITS) / DIGITS)


def _pivots(device: Device, half_grams: Any, *, full_rank: bool) -> Any:
    """Pivots of the Cholesky factorizations of matrices ``H + H.T``, H at rows 0 and 2.

    Column by column, each less what those before explain; columns of the factor take the place of
    numbers that are no longer wanted. An input that neither block has leaves zeros; a matrix that
    is not positive definite ends in what is not a number, or in pivots that nobody trusts.
    """
    xp, n_rows = device.xp, half_grams.shape[0]
    pivots = []
    for j in range(n_rows):
        column = xp.permute_dims(half_grams[j, :, j:, :], (1, 0, 2)) + half_grams[j:, :, j, :]
        if j:
            factor = half_grams[j:, :, :j, :]
            column = column - xp.sum(factor * factor[:1, :, :, :], axis=2)
        pivot = column[0, :, :]
        pivots.append(pivot)
        if j < n_rows - 1:
            root = xp.sqrt(pivot if full_rank else xp.where(pivot > 0.0, pivot, 1.0))
            below = (slice(j + 1, None), slice(None), j, slice(None))
            half_grams = device.put(half_grams, below, column[1:, :, :] / root)
    return xp.stack(pivots)


def _risk(xp: Any, shape: Shape, blocks: Any, gap: Any, pivot: Any, joint_rank: Any) -> Any:
    """``(F - 1)/(F_star - 1)`` of what a merge gives up, as ``PairedSpace`` splits it."""
    (a, total, mine, rank_a), (b, total_other, theirs, rank_b) = blocks
    n, both = shape.n_samples, a + b
    share = a * b / both
    residual = (a * mine + b * theirs - pivot / both) / share
    explained = gap - residual
    rank = joint_rank if shape.full_rank else xp.where(joint_rank > 1.0, joint_rank, 1.0)
    dof = n - rank - 1.0
    if not shape.full_rank:
        unit, reference = _credit(rank, n), rank / dof
        extra: Any = 0.0
        shift: Any = 0.0
        for noise, its_rank in ((a / share * mine, rank_a), (b / share * theirs, rank_b)):
            extra = extra + noise * (_credit(its_rank, n) / unit - 1.0)
            shift = shift + noise * (its_rank / (n - its_rank - 1.0) - reference)
        explained, residual = explained + reference * extra - shift, residual + extra
    least = LEAST_NOISE * xp.maximum(gap, ROUNDING * (total + total_other))
    saves_none = residual < least
    raised = xp.where(saves_none, least - residual, 0.0)
    f_star = 1.0 + (n - 1.0) / (dof - 1.0)
    explained = explained + rank / dof * f_star * raised
    f_statistic = explained / (rank * (xp.where(saves_none, least, residual) / dof))
    return (f_statistic - 1.0) / ((n - 1.0) / (dof - 1.0))


def _credit(rank: Any, n_samples: float) -> Any:
    """Rise of the risk per residual sum of squares."""
    spare = n_samples - rank - 1.0
    return rank / spare * (n_samples - 1.0) / (spare - 1.0)
