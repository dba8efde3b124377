"""Targets with inputs of their own: the questions of ``PairedSpace``, compiled; scans of graphs.

What a pair costs, and what a merge leaves, is answered many pairs a call; among all pairs the scan
stays where it is. A question is the Gram matrix of two blocks' added rows and one Cholesky
factorization of it. Where that keeps too few digits, by the rules of the space, the space itself is
asked.

On a graph of neighbours the scan itself is compiled (``GraphScan``). Where groups grow large their
rows of pairs grow long, and a scan from Python pays more for taking pairs in turn than for asking
about them. Here the pairs wait on a heap, the neighbours of a block on a linked list, and one call
takes turn after turn. It comes back when it has worked for a while, so that a search can report and
be stopped, and with every question and merge whose Gram matrix has lost its digits: the space
answers, and the next call goes on from there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ctfa.core import progress
from ctfa.core.backend import Edges
from ctfa.core.criteria import Loss
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
from ctfa.kernels.compiling import compiled, place_of, reordered

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
        blocks = np.full(others.size, block, dtype=np.int64)
        losses, n_doubtful = _losses(self.blocks, blocks, others, self.rule)
        if n_doubtful:
            doubtful = np.isnan(losses)
            losses[doubtful] = self.of_the_space(blocks[doubtful], others[doubtful])
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


class Terms(NamedTuple):
    """What a scan looks for."""

    by_loss: bool  # nearest first; strongest first if not
    limit: float
    lowest: float  # correlation that is asked
    largest: float
    finest: float  # ``to_rounding``
    budget: int


class Heap(NamedTuple):
    """Pairs by key and then by index; those that are no more stay until they come up.

    A pair is no more when one of its blocks has changed since. ``changed`` says, for each block,
    after how many merges it last did.
    """

    key: FloatArray
    pair: IntArray  # first * blocks + second, first < second
    since: IntArray  # merges made when the pair was put here
    size: IntArray  # one number


class Graph(NamedTuple):
    """Lists of neighbours; merging two appends one to the other, walking one clears it up."""

    head: IntArray
    tail: IntArray
    following: IntArray
    vertex: IntArray
    leader: IntArray  # of each task, or of who led it before
    seen: IntArray  # the walk that met a block last
    changed: IntArray  # merges made when a block changed last
    target: FloatArray  # of each block, side by side: in the sums they are pages apart


class Notes(NamedTuple):
    """What is written down; the refusals are the ledger's own arrays."""

    counts: IntArray
    numbers: FloatArray
    merges: IntArray
    losses: FloatArray
    refused: IntArray
    refused_loss: FloatArray
    near: IntArray  # neighbours of the block that has just changed
    doubtful: IntArray


class GraphScan:
    """A scan under way: arrays that the compiled code goes on with."""

    def __init__(
        self, asked: PairedQuestions, space: PairedSpace, ledger: Ledger, edges: Edges, terms: Terms
    ) -> None:
        self._asked, self._space, self._ledger, self._terms = asked, space, ledger, terms
        first, second, key = edges
        n_tasks = space.n_variables
        self._edges = first, second
        self._heap = heap_for(first.size)
        self._graph = _graph_of(asked.blocks.sums[:, -1].copy(), first, second)
        self._notes = Notes(
            np.zeros(N_COUNTS, np.int64),
            np.array([np.nan, ledger.best_refused]),
            np.empty((n_tasks, 2), np.int64),
            np.empty(n_tasks),
            *ledger.refusals(),
            np.empty(n_tasks, np.int64),
            np.empty(n_tasks, np.int64),
        )
        self._notes.counts[COMPARISONS] = ledger.n_comparisons
        self._put(key, first, second)

    def run(self) -> tuple[IntArray, IntArray]:
        """Merge until nothing more is accepted; return the edges that are left, ascending."""
        counts, numbers = self._notes.counts, self._notes.numbers
        while True:
            why = _turns(
                self._asked.blocks,
                self._asked.rule,
                self._terms,
                self._heap,
                self._graph,
                self._notes,
            )
            self._write_down()
            if why == DONE:
                return self._left()
            block, other = int(counts[BLOCK]), int(counts[OTHER])
            if why == ASK:
                numbers[LOSS] = self._losses(np.array([block]), np.array([other]))[0]
            elif why == MERGE:
                self._space.merge(block, other)
            elif why == ASK_ROW:
                others = self._notes.doubtful[: counts[DOUBTFUL]].copy()
                blocks = np.full(others.size, block)
                losses = self._losses(blocks, others)
                self._put(losses, np.minimum(blocks, others), np.maximum(blocks, others))
            progress.go_on(self._ledger)

    def _losses(self, blocks: IntArray, others: IntArray) -> FloatArray:
        return np.minimum(self._asked.of_the_space(blocks, others), LARGEST)

    def _put(self, keys: FloatArray, first: IntArray, second: IntArray) -> None:
        pairs = (first * self._space.n_variables + second).astype(np.int64)
        put_all(self._heap, keys, pairs, int(self._notes.counts[MERGES]))

    def _write_down(self) -> None:
        """Tell the ledger and the space what the compiled code did; the space did the rest."""
        notes, ledger = self._notes, self._ledger
        written, made = ledger.n_merges, int(notes.counts[MERGES])
        pairs, losses = notes.merges[written:made].tolist(), notes.losses[written:made].tolist()
        for (block, other), loss in zip(pairs, losses, strict=True):
            ledger.accept(block, other, loss)
            self._space.merged(block, other)
        ledger.n_comparisons = int(notes.counts[COMPARISONS])
        ledger.best_refused = float(notes.numbers[BEST_REFUSED])

    def _left(self) -> tuple[IntArray, IntArray]:
        leader, above = self._graph.leader, self._graph.leader[self._graph.leader]
        while (leader != above).any():
            leader, above = above, above[above]
        first, second = (leader[part] for part in self._edges)
        apart = first != second
        low, high = np.minimum(first, second)[apart], np.maximum(first, second)[apart]
        low, high = np.divmod(np.unique(low * leader.size + high), max(leader.size, 1))
        return low, high


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
    """Run the scan from its first keys on; None for a criterion without a kernel."""
    asked = questions(space, criterion)
    if asked is None:
        return None
    terms = Terms(by_loss, float(limit), float(min_correlation), LARGEST, FINEST, BUDGET)
    return GraphScan(asked, space, ledger, edges, terms).run()


def _graph_of(target: FloatArray, first: IntArray, second: IntArray) -> Graph:
    """Each task's own list; ends say -1."""
    n_tasks = target.shape[0]
    owner, vertex = np.concatenate((first, second)), np.concatenate((second, first))
    order = np.argsort(owner, kind="stable")
    owner, vertex = owner[order], vertex[order].astype(np.int64)
    following = np.arange(1, owner.size + 1)
    last = np.flatnonzero(np.diff(owner, append=-1))
    following[last] = -1
    head, tail = np.full(n_tasks, -1), np.full(n_tasks, -1)
    tail[owner[last]] = last
    head[owner[last]] = np.concatenate(([0], last[:-1] + 1))[: last.size]
    changed, seen = np.zeros(n_tasks, np.int64), np.zeros(n_tasks, np.int64)
    return Graph(head, tail, following, vertex, np.arange(n_tasks), seen, changed, target)


@compiled
def _spread(
    blocks: Blocks, rule: Rule, terms: Terms, heap: Heap, graph: Graph, notes: Notes
) -> int:
    """Put the pairs of the block that has just changed on the heap; return their number."""
    counts = notes.counts
    block, n_tasks = counts[BLOCK], graph.head.size
    n_rows, n_samples = blocks.sums.shape[1:]
    rows, gram = np.empty((n_rows, n_samples)), np.empty((n_rows, n_rows))
    graph.target[block] = blocks.sums[block, -1]
    n_near = _neighbours(graph, block, counts[MERGES], notes.near)
    make_room(heap, n_near, graph.changed)
    counts[DOUBTFUL] = 0
    for k in range(n_near):
        one = notes.near[k]
        strength = (
            np.rint(_correlation(graph.target, blocks.square, block, one) * terms.finest)
            / terms.finest
        )
        if not strength >= terms.lowest:
            continue
        key = -strength
        if terms.by_loss:
            key = pair_loss(blocks, block, one, rows, gram, rule)
            if np.isnan(key):
                notes.doubtful[counts[DOUBTFUL]] = one
                counts[DOUBTFUL] += 1
                continue
            key = min(key, terms.largest)
        put(heap, key, min(block, one) * n_tasks + max(block, one), counts[MERGES])
    return n_near


@compiled
def _turns(blocks: Blocks, rule: Rule, terms: Terms, heap: Heap, graph: Graph, notes: Notes) -> int:
    """Take pairs in turn until there are none, or Python is needed; say why."""
    counts, numbers = notes.counts, notes.numbers
    n_rows, n_samples = blocks.sums.shape[1:]
    rows, gram = np.empty((n_rows, n_samples)), np.empty((n_rows, n_rows))
    work = 0
    while work < terms.budget:
        if counts[STAGE] == TAKE:
            at = take(heap, graph.changed)
            if at < 0 or (terms.by_loss and not heap.key[at] <= terms.limit):
                return DONE
            block, other = divmod(heap.pair[at], graph.head.size)
            counts[BLOCK], counts[OTHER], counts[STAGE] = block, other, JUDGE
            numbers[LOSS] = heap.key[at]
            if not terms.by_loss:
                work += QUESTION
                numbers[LOSS] = pair_loss(blocks, block, other, rows, gram, rule)
                if np.isnan(numbers[LOSS]):
                    return ASK
        if counts[STAGE] == JUDGE:
            accepted = _judge(terms, notes)
            counts[STAGE] = NOTE if accepted else TAKE
            if not accepted:
                continue
            if not join(blocks, counts[BLOCK], counts[OTHER], rule):
                return MERGE
        _note(graph, notes)
        counts[STAGE] = TAKE
        n_near = _spread(blocks, rule, terms, heap, graph, notes)
        work += n_near
        if terms.by_loss:
            counts[COMPARISONS] += n_near
            work += n_near * QUESTION
        if counts[DOUBTFUL]:
            return ASK_ROW
    return PAUSE


@compiled
def _judge(terms: Terms, notes: Notes) -> bool:
    """Whether the pair is accepted; if not, both have refused each other."""
    if terms.by_loss:
        return True
    counts, numbers = notes.counts, notes.numbers
    counts[COMPARISONS] += 1
    # As the judge says it: the largest number stands for an infinite loss.
    loss = numbers[LOSS] if np.isnan(numbers[LOSS]) else min(numbers[LOSS], terms.largest)
    numbers[LOSS] = loss
    if loss <= terms.limit:
        return True
    block, other = counts[BLOCK], counts[OTHER]
    for one, two in ((block, other), (other, block)):
        if loss < notes.refused_loss[one]:
            notes.refused_loss[one] = loss
            notes.refused[one] = two
    if not np.isnan(loss):
        numbers[BEST_REFUSED] = min(numbers[BEST_REFUSED], loss)
    return False


@compiled
def _note(graph: Graph, notes: Notes) -> None:
    """Write down the merge that was made, and hand the list of one block to the other."""
    counts = notes.counts
    block, other, made = counts[BLOCK], counts[OTHER], counts[MERGES]
    notes.merges[made, 0], notes.merges[made, 1] = block, other
    notes.losses[made] = notes.numbers[LOSS]
    notes.refused[block], notes.refused_loss[block] = -1, np.inf
    counts[MERGES] = made + 1
    graph.changed[block], graph.changed[other] = made + 1, GONE
    graph.leader[other] = block
    # Each has the other for a neighbour: neither list is empty.
    graph.following[graph.tail[block]] = graph.head[other]
    graph.tail[block] = graph.tail[other]


@compiled
def _neighbours(graph: Graph, block: int, walk: int, near: IntArray) -> int:
    """Write down who is next to a block; its list keeps each of them once."""
    count, kept, at = 0, -1, graph.head[block]
    while at >= 0:
        one = graph.vertex[at]
        while graph.leader[one] != one:
            graph.leader[one] = graph.leader[graph.leader[one]]
            one = graph.leader[one]
        if one != block and graph.seen[one] != walk:
            graph.seen[one], graph.vertex[at] = walk, one
            near[count] = one
            count += 1
            if kept < 0:
                graph.head[block] = at
            else:
                graph.following[kept] = at
            kept = at
        at = graph.following[at]
    if kept < 0:
        graph.head[block] = -1
    else:
        graph.following[kept] = -1
    graph.tail[block] = kept
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
    """Room for a pair an edge, and as many that are no more."""
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
    """Take the first pair that still is one; return where it lies now, -1 if there is none."""
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
    """Make room for more pairs: leave out those that are no more.

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
