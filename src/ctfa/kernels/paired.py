"""Targets with inputs of their own: the questions of ``PairedSpace``, compiled; scans of graphs.

What a pair costs, and what a merge leaves, is answered for many pairs per call; among all pairs the
scan stays where it is. A question is the Gram matrix of two blocks' added rows and one Cholesky
factorization of it. Where that keeps too few digits, by the rules of the space, the space itself is
asked.

On a graph of neighbours the scan itself is compiled (``on_graph``). Where groups grow large their
rows of pairs grow long, and a scan from Python pays more for taking pairs in turn than for asking
about them. Here the pairs wait on a heap, the neighbours of a block on a linked list, and one call
takes turn after turn. It returns after a while, so that a search can report and be stopped, and
at every question and merge whose Gram matrix has lost its digits: the space answers, and the next
call continues from there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ctfa.core import progress
from ctfa.core.backend import Edges
from ctfa.core.criteria import Loss, target_risk
from ctfa.core.history import Ledger
from ctfa.core.judge import LARGEST
from ctfa.core.scans import FINEST
from ctfa.core.spaces.paired import (
    CANCELLED,
    LEAST_NOISE,
    NEARLY_EQUAL,
    ROUNDING,
    TRUSTED_PIVOT,
    PairedSpace,
)
from ctfa.core.types import FloatArray, IntArray
from ctfa.kernels.compiling import CompiledQuestions, compiled, place_of, reordered

#: The compiled code knows a criterion by its place.
CRITERIA = ("mse", "corollary", "target_risk")
MSE, COROLLARY, RISK = range(3)
#: Work of a call, a tenth of a second or so, in looks at a correlation; a question counts as many.
BUDGET, QUESTION = 320_000, 16
#: Places among the counts.
STAGE, MERGES, COMPARISONS, DOUBTFUL, BLOCK, OTHER, N_COUNTS = range(7)
#: Places among the numbers.
LOSS, BEST_REFUSED, N_NUMBERS = range(3)
#: What comes next: take a pair, judge its loss, write down a merge that has been made.
TAKE, JUDGE, NOTE = range(3)
#: Why a call came back: nothing is left, time to report, and what the space has to do.
DONE, PAUSE, ASK, MERGE, ASK_ROW = range(5)
#: A block that is gone changed later than any pair was put on the heap.
GONE = np.iinfo(np.int64).max


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


def questions(space: PairedSpace, criterion: Loss) -> CompiledQuestions | None:
    """Take over the questions; None for a criterion or a reading without a kernel."""
    number, start = place_of(criterion, CRITERIA), space.start()
    # The paper's rule counts the columns that a block was given, which only the space knows.
    if number is None or start is None or (number == MSE and not space.has_all_inputs):
        return None
    rule = Rule(
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
    return CompiledQuestions(space, criterion, _losses, join, (Blocks(*start), rule))


def warm_up() -> None:
    """Compile everything by a small problem, or find it compiled."""
    inputs = np.random.default_rng(0).normal(size=(4, 8, 2))
    space, path = PairedSpace.of(inputs, inputs[:, :, 0].T + inputs[:, :, 1].T), np.arange(3)
    asked = questions(space, target_risk)
    assert asked is not None
    edges = path, path + 1, asked.losses(path, path + 1)
    limits = {"limit": 0.0, "min_correlation": -1.0}
    on_graph(space, target_risk, Ledger(4), edges, **limits, by_loss=True)
    asked.merge(0, 1)


@compiled
def _losses(
    blocks: Blocks, rule: Rule, first: IntArray, second: IntArray
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
def join(blocks: Blocks, rule: Rule, block: int, other: int) -> bool:
    """Merge two blocks; change nothing and say so where Gram matrices have lost too many digits."""
    n_rows, n_samples = blocks.sums.shape[1:]
    rows, gram = np.empty((n_rows, n_samples)), np.empty((n_rows, n_rows))
    square = np.empty(n_rows)
    _added(blocks.sums[block], blocks.sums[other], rows)
    _gram(rows, gram)
    for i in range(n_rows):
        square[i] = gram[i, i]
    residual, rank = _last_pivot(gram, blocks.square[block], blocks.square[other], rule)
    if residual < 0.0:
        return False
    size = blocks.size[block] + blocks.size[other]
    for i in range(n_rows):  # element by element: slices take a second longer to compile
        blocks.square[block, i] = square[i]
        for k in range(n_samples):
            blocks.sums[block, i, k] = rows[i, k]
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


class Heap(NamedTuple):
    """Pairs by key and then by index; those that no longer hold stay until they come up.

    A pair no longer holds when one of its blocks has changed since. ``changed`` says, for each
    block, after how many merges it last did.
    """

    key: FloatArray
    pair: IntArray  # first * blocks + second, first < second
    since: IntArray  # merges made when the pair was put here
    size: IntArray  # one number


class Turns(NamedTuple):
    """A scan under way: what it looks for, lists of neighbours, and what is written down.

    Merging two blocks appends one list to the other, walking one clears it up. The refusals are
    the ledger's own arrays.
    """

    by_loss: bool  # nearest first; strongest first if not
    limit: float
    lowest: float  # correlation that is asked
    largest: float
    finest: float  # ``to_rounding``
    budget: int
    head: IntArray
    tail: IntArray
    following: IntArray
    vertex: IntArray
    leader: IntArray  # of each task, or of the block that led it before
    seen: IntArray  # the walk that met a block last
    changed: IntArray  # merges made when a block changed last
    target: FloatArray  # of each block, side by side: in the sums they are pages apart
    counts: IntArray
    numbers: FloatArray
    merges: IntArray
    losses: FloatArray
    refused: IntArray
    refused_loss: FloatArray
    near: IntArray  # neighbours of the block that has just changed
    doubtful: IntArray


def on_graph(
    space: PairedSpace,
    criterion: Loss,
    ledger: Ledger,
    edges: Edges,
    *,
    limit: float,
    min_correlation: float,
    by_loss: bool,
) -> tuple[IntArray, IntArray] | None:
    """Merge from first keys on until nothing more is accepted; return the edges that are left.

    None for a criterion without a kernel.
    """
    asked = questions(space, criterion)
    if asked is None:
        return None
    blocks, rule = asked.state
    first, second, key = edges
    n_tasks = space.n_variables
    heap = heap_for(first.size)
    counts, numbers = np.zeros(N_COUNTS, np.int64), np.array([np.nan, ledger.best_refused])
    counts[COMPARISONS] = ledger.n_comparisons
    parts: list[Any] = [
        *(by_loss, float(limit), float(min_correlation), LARGEST, FINEST, BUDGET),
        *_lists_of(n_tasks, first, second),
        blocks.sums[:, -1].copy(),
        *(counts, numbers, np.empty((n_tasks, 2), np.int64), np.empty(n_tasks)),
        *(ledger.refused, ledger.refused_loss),
        *np.empty((2, n_tasks), np.int64),
    ]
    turns = Turns(*parts)

    def put(keys: FloatArray, first: IntArray, second: IntArray) -> None:
        put_all(heap, keys, (first * n_tasks + second).astype(np.int64), int(counts[MERGES]))

    put(key, first, second)
    while True:
        why = _turns(blocks, rule, heap, turns)
        written, made = ledger.n_merges, int(counts[MERGES])
        pairs, losses = turns.merges[written:made].tolist(), turns.losses[written:made].tolist()
        for (block, other), loss in zip(pairs, losses, strict=True):
            ledger.accept(block, other, loss)
            space.merged(block, other)
        ledger.n_comparisons = int(counts[COMPARISONS])
        ledger.best_refused = float(numbers[BEST_REFUSED])
        if why == DONE:
            return _edges_left(turns.leader, first, second)
        block, other = int(counts[BLOCK]), int(counts[OTHER])
        if why == ASK:
            numbers[LOSS] = min(asked.of_the_space(block, np.array([other]))[0], LARGEST)
        elif why == MERGE:
            space.merge(block, other)
        elif why == ASK_ROW:
            others = turns.doubtful[: counts[DOUBTFUL]].copy()
            asked_again = np.minimum(asked.of_the_space(block, others), LARGEST)
            put(asked_again, np.minimum(block, others), np.maximum(block, others))
        progress.go_on(ledger)


def _lists_of(n_tasks: int, first: IntArray, second: IntArray) -> tuple[IntArray, ...]:
    """Each task's own list, from ``head`` to ``changed``; ends say -1."""
    owner, vertex = np.concatenate((first, second)), np.concatenate((second, first))
    order = np.argsort(owner, kind="stable")
    owner, vertex = owner[order], vertex[order].astype(np.int64)
    following = np.arange(1, owner.size + 1)
    last = np.flatnonzero(np.diff(owner, append=-1))
    following[last] = -1
    head, tail = np.full(n_tasks, -1), np.full(n_tasks, -1)
    tail[owner[last]] = last
    head[owner[last]] = np.concatenate(([0], last[:-1] + 1))[: last.size]
    return head, tail, following, vertex, np.arange(n_tasks), *np.zeros((2, n_tasks), np.int64)


def _edges_left(leader: IntArray, first: IntArray, second: IntArray) -> tuple[IntArray, IntArray]:
    """Edges between blocks that are left, ascending."""
    above = leader[leader]
    while (leader != above).any():
        leader, above = above, above[above]
    first, second = leader[first], leader[second]
    apart = first != second
    low, high = np.minimum(first, second)[apart], np.maximum(first, second)[apart]
    low, high = np.divmod(np.unique(low * leader.size + high), max(leader.size, 1))
    return low, high


@compiled
def _spread(blocks: Blocks, rule: Rule, heap: Heap, turns: Turns) -> int:
    """Put the pairs of the block that has just changed on the heap; return their number."""
    counts = turns.counts
    block, n_tasks = counts[BLOCK], turns.head.size
    n_rows, n_samples = blocks.sums.shape[1:]
    rows, gram = np.empty((n_rows, n_samples)), np.empty((n_rows, n_rows))
    turns.target[block] = blocks.sums[block, -1]
    n_near = _neighbours(turns, block, counts[MERGES])
    make_room(heap, n_near, turns.changed)
    counts[DOUBTFUL] = 0
    for k in range(n_near):
        one = turns.near[k]
        strength = (
            np.rint(_correlation(turns.target, blocks.square, block, one) * turns.finest)
            / turns.finest
        )
        if not strength >= turns.lowest:
            continue
        key = -strength
        if turns.by_loss:
            key = pair_loss(blocks, block, one, rows, gram, rule)
            if np.isnan(key):
                turns.doubtful[counts[DOUBTFUL]] = one
                counts[DOUBTFUL] += 1
                continue
            key = min(key, turns.largest)
        put(heap, key, min(block, one) * n_tasks + max(block, one), counts[MERGES])
    return n_near


@compiled
def _turns(blocks: Blocks, rule: Rule, heap: Heap, turns: Turns) -> int:
    """Take pairs in turn until there are none, or Python is needed; say why."""
    counts, numbers = turns.counts, turns.numbers
    n_rows, n_samples = blocks.sums.shape[1:]
    rows, gram = np.empty((n_rows, n_samples)), np.empty((n_rows, n_rows))
    work = 0
    while work < turns.budget:
        if counts[STAGE] == TAKE:
            at = take(heap, turns.changed)
            if at < 0 or (turns.by_loss and not heap.key[at] <= turns.limit):
                return DONE
            block, other = divmod(heap.pair[at], turns.head.size)
            counts[BLOCK], counts[OTHER], counts[STAGE] = block, other, JUDGE
            numbers[LOSS] = heap.key[at]
            if not turns.by_loss:
                work += QUESTION
                numbers[LOSS] = pair_loss(blocks, block, other, rows, gram, rule)
                if np.isnan(numbers[LOSS]):
                    return ASK
        if counts[STAGE] == JUDGE:
            accepted = _judge(turns)
            counts[STAGE] = NOTE if accepted else TAKE
            if not accepted:
                continue
            if not join(blocks, rule, counts[BLOCK], counts[OTHER]):
                return MERGE
        _note(turns)
        counts[STAGE] = TAKE
        n_near = _spread(blocks, rule, heap, turns)
        work += n_near
        if turns.by_loss:
            counts[COMPARISONS] += n_near
            work += n_near * QUESTION
        if counts[DOUBTFUL]:
            return ASK_ROW
    return PAUSE


@compiled
def _judge(turns: Turns) -> bool:
    """Whether the pair is accepted; if not, both have refused each other."""
    if turns.by_loss:
        return True
    counts, numbers = turns.counts, turns.numbers
    counts[COMPARISONS] += 1
    # As in the judge: the largest number stands for an infinite loss.
    loss = numbers[LOSS] if np.isnan(numbers[LOSS]) else min(numbers[LOSS], turns.largest)
    numbers[LOSS] = loss
    if loss <= turns.limit:
        return True
    block, other = counts[BLOCK], counts[OTHER]
    for one, two in ((block, other), (other, block)):
        if loss < turns.refused_loss[one]:
            turns.refused_loss[one] = loss
            turns.refused[one] = two
    if not np.isnan(loss):
        numbers[BEST_REFUSED] = min(numbers[BEST_REFUSED], loss)
    return False


@compiled
def _note(turns: Turns) -> None:
    """Record the merge that was made, and append the list of one block to the other's."""
    counts = turns.counts
    block, other, made = counts[BLOCK], counts[OTHER], counts[MERGES]
    turns.merges[made, 0], turns.merges[made, 1] = block, other
    turns.losses[made] = turns.numbers[LOSS]
    turns.refused[block], turns.refused_loss[block] = -1, np.inf
    counts[MERGES] = made + 1
    turns.changed[block], turns.changed[other] = made + 1, GONE
    turns.leader[other] = block
    # Each has the other for a neighbour: neither list is empty.
    turns.following[turns.tail[block]] = turns.head[other]
    turns.tail[block] = turns.tail[other]


@compiled
def _neighbours(turns: Turns, block: int, walk: int) -> int:
    """Record the neighbours of a block; its list keeps each of them once."""
    count, kept, at = 0, -1, turns.head[block]
    while at >= 0:
        one = turns.vertex[at]
        while turns.leader[one] != one:
            turns.leader[one] = turns.leader[turns.leader[one]]
            one = turns.leader[one]
        if one != block and turns.seen[one] != walk:
            turns.seen[one], turns.vertex[at] = walk, one
            turns.near[count] = one
            count += 1
            if kept < 0:
                turns.head[block] = at
            else:
                turns.following[kept] = at
            kept = at
        at = turns.following[at]
    if kept < 0:
        turns.head[block] = -1
    else:
        turns.following[kept] = -1
    turns.tail[block] = kept
    return count


@reordered
def _correlation(target: FloatArray, square: FloatArray, block: int, other: int) -> float:
    """Correlation of two mean targets; a constant one has none."""
    mine, theirs = target[block], target[other]
    product = 0.0
    for k in range(mine.size):
        product += mine[k] * theirs[k]
    scale = np.sqrt(square[block, -1] * square[other, -1])
    return product / scale if scale > 0.0 else 0.0


def heap_for(n_edges: int) -> Heap:
    """Room for one pair per edge, and as many that no longer hold."""
    room = 2 * n_edges + 1
    pair, since = np.empty(room, np.int64), np.empty(room, np.int64)
    return Heap(np.empty(room), pair, since, np.zeros(1, np.int64))


@compiled
def put(heap: Heap, key: float, pair: int, since: int) -> None:
    """Put a pair on the heap; there has to be room."""
    at = heap.size[0]
    heap.key[at], heap.pair[at], heap.since[at] = key, pair, since
    heap.size[0] = at + 1
    while at and _comes_first(heap, at, (at - 1) // 2):
        _swap(heap, at, (at - 1) // 2)
        at = (at - 1) // 2


@compiled
def put_all(heap: Heap, keys: FloatArray, pairs: IntArray, since: int) -> None:
    """Put many; those of infinite key never come up."""
    for k in range(keys.size):
        if keys[k] < np.inf:
            put(heap, keys[k], pairs[k], since)


@compiled
def take(heap: Heap, changed: IntArray) -> int:
    """Take the first pair that still holds; return where it lies now, -1 if there is none."""
    while heap.size[0]:
        last: int = heap.size[0] - 1
        _swap(heap, 0, last)
        heap.size[0] = last
        _sink(heap, 0, last)
        if _still_is(heap, last, changed):
            return last
    return -1


@compiled
def make_room(heap: Heap, n_more: int, changed: IntArray) -> None:
    """Make room for more pairs: leave out those that no longer hold.

    What remains are edges, each of them once, and so are those to come: there never are more
    than at first.
    """
    if heap.size[0] + n_more <= heap.key.size:
        return
    kept = 0
    for at in range(heap.size[0]):
        if _still_is(heap, at, changed):
            _swap(heap, at, kept)
            kept += 1
    heap.size[0] = kept
    for at in range(kept // 2 - 1, -1, -1):
        _sink(heap, at, kept)


@compiled
def _still_is(heap: Heap, at: int, changed: IntArray) -> bool:
    pair, since = heap.pair[at], heap.since[at]
    first, second = pair // changed.size, pair % changed.size
    return bool(changed[first] <= since and changed[second] <= since)


@compiled
def _comes_first(heap: Heap, one: int, two: int) -> bool:
    if heap.key[one] != heap.key[two]:
        return bool(heap.key[one] < heap.key[two])
    return bool(heap.pair[one] < heap.pair[two])


@compiled
def _swap(heap: Heap, one: int, two: int) -> None:
    heap.key[one], heap.key[two] = heap.key[two], heap.key[one]
    heap.pair[one], heap.pair[two] = heap.pair[two], heap.pair[one]
    heap.since[one], heap.since[two] = heap.since[two], heap.since[one]


@compiled
def _sink(heap: Heap, at: int, size: int) -> None:
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and _comes_first(heap, child + 1, child):
            child += 1
        if not _comes_first(heap, child, at):
            return
        _swap(heap, at, child)
        at = child
