"""Targets (Phase I): a block asks the free ones one by one, as the algorithm is printed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ctfa.core.criteria import Loss
from ctfa.core.history import MergeHistory
from ctfa.core.judge import LARGEST
from ctfa.core.spaces.targets import CANCELLATION, ROUNDING, TargetSpace
from ctfa.core.types import FloatArray, IntArray
from ctfa.kernels.compiling import Result, as_history, compiled, place_of, reordered

#: The compiled code knows a criterion by its place.
CRITERIA = ("mse", "corollary", "target_risk")
MSE, COROLLARY, RISK = range(3)


def grow(
    space: TargetSpace, criterion: Loss, *, limit: float, order: IntArray, restart: bool
) -> MergeHistory | None:
    """Run the scan; None for a criterion without a kernel, or without the products at hand."""
    number = place_of(criterion, CRITERIA)
    start = None if number is None else space.start()
    if number is None or start is None:
        return None
    gram, sizes, reading = start
    rule = Rule(
        number,
        float(reading.n_samples),
        float(reading.n_inputs if number == MSE else reading.rank),
        CANCELLATION,
        ROUNDING,
        LARGEST,
    )
    fitted, residual = zip(gram.matrices, gram.vectors, strict=True)
    size, queue = sizes.copy(), np.array(order, dtype=np.int64)
    return as_history(_grow(fitted, residual, size, queue, float(limit), restart, rule))


class Rule(NamedTuple):
    """A criterion of targets, and what it needs besides sums of squares."""

    criterion: int
    n_samples: float
    inputs: float  # as many as the criterion counts degrees of freedom for
    cancellation: float
    rounding: float
    largest: float


class Kind(NamedTuple):
    """Inner products of one kind: of fitted values, or of residuals."""

    products: FloatArray  # (L, L), left as they are
    rows: FloatArray  # (L, length): whose products they are
    square: FloatArray  # (L,): of each block's sum
    mean_square: FloatArray  # (L,): of its mean
    block_row: FloatArray  # (length,): the growing block's sum
    with_block: FloatArray  # products of that sum with those in the queue, by place


@compiled
def _grow(
    fitted_parts: tuple[FloatArray, FloatArray],
    residual_parts: tuple[FloatArray, FloatArray],
    size: FloatArray,
    queue: IntArray,
    limit: float,
    restart: bool,
    rule: Rule,
) -> Result:
    """Grow one block after another; ``size`` and the queue, all targets in order, are changed."""
    n_targets = queue.size
    merges, losses = np.empty((n_targets, 2), np.int64), np.empty(n_targets)
    refused, refused_loss = np.full(n_targets, -1, np.int64), np.full(n_targets, np.inf)
    n_merges, n_comparisons, best_refused = 0, 0, np.inf
    fitted, residual = _kind(*fitted_parts, size), _kind(*residual_parts, size)
    signal = np.empty(n_targets)
    for target in range(n_targets):
        signal[target] = _signal(target, fitted, residual, rule)
    head, tail = 0, n_targets
    while head < tail:
        block = queue[head]
        head += 1
        for kind in (fitted, residual):
            _begin(kind, block, queue, head, tail)
        place = head
        while place < tail:
            other = queue[place]
            n_comparisons += 1
            if rule.criterion == RISK:
                a, b = size[block], size[other]
                explained = _difference(fitted, block, other, place, a * b, rule)
                left = _difference(residual, block, other, place, a * b, rule)
                # Here and not in a function of its own: that would cost eight times the arithmetic.
                if explained < 0.0 or left < 0.0:
                    explained = _explicit(fitted, other, a, b, rule)
                    left = _explicit(residual, other, a, b, rule)
                loss = _risk(explained, left, rule)
            else:
                loss = _two_task_loss(block, other, place, fitted, residual, size, signal, rule)
            # As in the judge: the largest number stands for an infinite loss.
            loss = min(loss, rule.largest)
            if not loss <= limit:
                best_refused = min(best_refused, loss)
                if loss < refused_loss[block]:
                    refused[block], refused_loss[block] = other, loss
                place += 1
                continue
            merges[n_merges, 0], merges[n_merges, 1], losses[n_merges] = block, other, loss
            n_merges += 1
            if restart:  # all will be asked again
                refused[block], refused_loss[block] = -1, np.inf
            # A single pass never looks back: products with those behind are not needed.
            first = head if restart else place
            tail -= 1
            size[block] += size[other]
            for kind in (fitted, residual):
                _absorb(kind, block, other, size[block], place)
                _add_row(kind.with_block, kind.products[other], queue, first, place, tail)
            signal[block] = _signal(block, fitted, residual, rule)
            for ahead in range(place, tail):
                queue[ahead] = queue[ahead + 1]
            place = first
    return merges[:n_merges], losses[:n_merges], refused, refused_loss, n_comparisons, best_refused


@compiled
def _kind(products: FloatArray, rows: FloatArray, size: FloatArray) -> Kind:
    square = np.empty(size.size)
    for target in range(size.size):
        square[target] = products[target, target]
    return Kind(
        products, rows, square, square / (size * size), np.empty(rows.shape[1]), np.empty(size.size)
    )


@compiled
def _begin(kind: Kind, block: int, queue: IntArray, head: int, tail: int) -> None:
    """Make a target the block that grows."""
    for i in range(kind.block_row.size):
        kind.block_row[i] = kind.rows[block, i]
    for place in range(head, tail):
        kind.with_block[place] = kind.products[block, queue[place]]


@compiled
def _absorb(kind: Kind, block: int, other: int, size: float, place: int) -> None:
    """Add another's sum to that of the block."""
    kind.square[block] += 2.0 * kind.with_block[place] + kind.square[other]
    kind.mean_square[block] = kind.square[block] / (size * size)
    for i in range(kind.block_row.size):
        kind.block_row[i] += kind.rows[other, i]


@compiled
def _add_row(
    with_block: FloatArray, row: FloatArray, queue: IntArray, first: int, place: int, tail: int
) -> None:
    """Add one row of products to those of the queue, which closes up at a place."""
    for behind in range(first, place):
        with_block[behind] += row[queue[behind]]
    for ahead in range(place, tail):
        with_block[ahead] = with_block[ahead + 1] + row[queue[ahead + 1]]


@compiled
def _two_task_loss(
    block: int,
    other: int,
    place: int,
    fitted: Kind,
    residual: Kind,
    size: FloatArray,
    signal: FloatArray,
    rule: Rule,
) -> float:
    """Variance and bias of Eq. 6 for the task that gains least."""
    members = size[block] + size[other]
    explained = fitted.square[block] + fitted.square[other] + 2.0 * fitted.with_block[place]
    left = residual.square[block] + residual.square[other] + 2.0 * residual.with_block[place]
    explained, left = explained / (members * members), left / (members * members)
    if rule.criterion == MSE:
        after = _shrunk_signal(explained, left, rule)
    else:
        after = explained / (rule.n_samples - 1.0)
    least = min(residual.mean_square[block], residual.mean_square[other])
    noise_rise = (left - least) / (rule.n_samples - rule.inputs - 1.0)
    variance_rise = noise_rise * (rule.inputs / (rule.n_samples - 1.0))
    loss: float = variance_rise + 0.5 * (signal[block] + signal[other]) - after
    return loss


@compiled
def _signal(block: int, fitted: Kind, residual: Kind, rule: Rule) -> float:
    return _shrunk_signal(fitted.mean_square[block], residual.mean_square[block], rule)


@compiled
def _shrunk_signal(explained: float, left: float, rule: Rule) -> float:
    """``R2 (var - s2)``; a constant target explains nothing."""
    total = explained + left
    share = explained / total if total > 0.0 else 0.0
    noise = left / (rule.n_samples - rule.inputs - 1.0)
    return share * (total / (rule.n_samples - 1.0) - noise)


@compiled
def _risk(explained: float, left: float, rule: Rule) -> float:
    """``(F - 1)/(F_star - 1)``, F the regression F of the difference of the two means."""
    dof = rule.n_samples - rule.inputs - 1.0
    f_statistic = 0.0
    if explained > 0.0:
        f_statistic = explained / (max(rule.inputs, 1.0) * (left / dof))
    return (f_statistic - 1.0) / ((rule.n_samples - 1.0) / (dof - 1.0))


@compiled
def _difference(kind: Kind, block: int, other: int, place: int, pairs: float, rule: Rule) -> float:
    """Squared length of a difference of means; -1 where expanding the square lost its digits."""
    total = kind.mean_square[block] + kind.mean_square[other]
    length = max(total - 2.0 * (kind.with_block[place] / pairs), 0.0)
    return -1.0 if length < rule.cancellation * total else length


@reordered
def _explicit(kind: Kind, other: int, size: float, their_size: float, rule: Rule) -> float:
    """The same from the vectors, exactly zero when they agree to rounding."""
    square = 0.0
    for i in range(kind.block_row.size):
        gap = kind.block_row[i] / size - kind.rows[other, i] / their_size
        square += gap * gap
    return square if square > rule.rounding * kind.mean_square[other] else 0.0
