"""The order of questions. A scan asks a space, judges by a criterion, and merges.

All scans take the same arguments and return the history of what they did. ``max_loss`` is the
largest loss accepted, ``tolerance`` is added to it so that rounding does not decide exact ties,
``neighbours`` tells which blocks may merge at all, and pairs whose means correlate less than
``min_correlation`` are never asked. A new one is one ``Scan`` in ``SCANS``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TypeAlias, cast

import numpy as np

from ctfa.core import backend, progress
from ctfa.core.backend import Edges, RankedQuestions
from ctfa.core.criteria import Loss
from ctfa.core.graph import Neighbours, Separation
from ctfa.core.history import MergeHistory
from ctfa.core.judge import FIRST_CHUNK, LARGEST_CHUNK, Judge, Merge
from ctfa.core.rows import Directions, Pair, RankedPairs, RankedRows, Row
from ctfa.core.spaces.base import MergeSpace
from ctfa.core.types import BoolArray, FloatArray, IntArray

#: Merges predicted at once: at first, and at most while predictions come true.
FIRST_RUN, LONGEST_RUN = 12, 32
#: Candidates among which they are looked for, at most.
WIDEST_RUN = 256
#: Correlations are compared in units of its inverse, 1e-12.
FINEST = 2.0**40
#: Pairs asked at once down a list by correlation, after a merge: the first is often accepted.
FIRST_PAIRS = 8
#: Pairs asked at once.
MOST_AHEAD = 64

#: Goes through the candidates of a judge, given an order and perhaps a graph of neighbours.
Search: TypeAlias = Callable[[Judge, IntArray, Neighbours | None], MergeHistory]


@dataclass(frozen=True)
class Scan:
    """An order in which candidates are asked, and its properties.

    Examples
    --------
    >>> from ctfa.core.scans import SCANS
    >>> sorted(name for name, scan in SCANS.items() if scan.nested)
    ['best-first']
    """

    name: str
    search: Search
    words: str = ""  # which pair is asked next, in the methods of a report
    nested: bool = False  # whether a larger limit only adds merges
    asks_once: bool = False  # whether refusals are those at the time of asking
    has_auto: bool = False  # whether folds may choose its limit: its groups depend on no order
    by_correlation: bool = False  # whether it looks at correlations

    def __call__(
        self,
        space: MergeSpace,
        criterion: Loss,
        *,
        max_loss: float,
        order: IntArray,
        neighbours: Neighbours | None = None,
        min_correlation: float = -1.0,
        tolerance: float = 0.0,
        separation: Separation | None = None,
        begin: Sequence[Merge] = (),
        n_joined: int = 0,
    ) -> MergeHistory:
        """Merge until nothing more is accepted; asked to stop, return what was found, and warn.

        ``separation`` tells which blocks may not merge. It is needed where the search continues
        after merges that ``begin`` it, the first ``n_joined`` of which no limit undoes.
        """
        with progress.searching("scan") as (_, is_own):
            limit = max_loss + tolerance
            judge = Judge(space, criterion, limit, min_correlation, separation, neighbours)
            try:
                for block, other, known in begin:  # settled, the first of them whatever they cost
                    loss = judge.loss(block, other) if np.isnan(known) else known
                    judge.merge(block, other, loss, neighbours)
                judge.ledger.n_joined = n_joined
                history = self.search(judge, order, neighbours)
            except progress.Stopped as stop:
                history = stop.ledger.close(complete=False)
        if is_own and not history.complete:
            warnings.warn(
                f"The search was stopped after {len(history)} merges: the groups are the "
                f"{history.n_variables - len(history)} found by then, not those of max_loss.",
                progress.SearchStopped,
                stacklevel=2,
            )
        return history


def _take_pairs(
    judge: Judge, order: IntArray, neighbours: Neighbours | None, *, by_loss: bool
) -> MergeHistory:
    """Merge the pair that comes first, again and again; the order given plays no part.

    By loss the two blocks whose merge costs least; by correlation the most correlated that are
    accepted: a refusal stands until one of the two changes.
    """
    if not judge.space.merge_is_local:
        return (_take_afresh if by_loss else _go_down_a_list)(judge, neighbours)
    if neighbours is None and judge.ranked is not None:
        return merge_ranked(judge, judge.ranked, by_loss=by_loss)
    return _take_by_rows(judge, neighbours, by_loss=by_loss)


def _take_by_rows(judge: Judge, neighbours: Neighbours | None, *, by_loss: bool) -> MergeHistory:
    """Judge whole rows of pairs at once, before their turn comes.

    But by correlation no pair, or nearly, where a question costs more than a correlation.
    """
    space, ledger = judge.space, judge.ledger
    directions = None
    if not by_loss and neighbours is None and judge.separation is None and space.directions:
        directions = Directions(space.directions)
    in_turn = not by_loss and (neighbours is not None or directions is not None)

    def keys(block: int | IntArray, others: IntArray) -> FloatArray:
        if in_turn:
            if directions is None:
                strength = to_rounding(space.correlation(block, others))
            else:
                strength = directions.correlation(cast("int", block), others)
            return np.where(strength >= judge.min_correlation, -strength, np.inf)
        ledger.n_comparisons += others.size
        losses = judge.all_losses(block, others)
        if by_loss:
            return losses
        # A refused pair stays refused while its blocks stand, so the strongest of the others is
        # the next merge.
        accepted = judge.accepts(losses)
        ledger.refuse(cast("int", block), others[~accepted], losses[~accepted])
        return np.where(accepted, -space.correlation(block, others), np.inf)

    def admits(block: int | IntArray, others: IntArray) -> BoolArray:
        losses = judge.all_losses(block, others)
        accepted = judge.accepts(losses)
        refused = np.flatnonzero(~accepted)
        ledger.n_comparisons += refused.size
        mine = np.broadcast_to(block, others.shape)[refused]
        ledger.refuse_pairs(mine, others[refused], losses[refused])
        return accepted

    def first_keys(block: IntArray, others: IntArray) -> FloatArray:
        # The edges of a graph are asked all at once at the start: most will be reached, and
        # many at a time they cost little. Later rows are those of blocks that grow, and grow long.
        if in_turn:
            return np.where(admits(block, others), keys(block, others), np.inf)
        return keys(block, others)

    def ask(pair: Pair) -> float | None:
        """Several pairs that a row will show next cost little more than one.

        One pair of a block that has just merged, then twice as many each time all are refused.
        """
        if not in_turn:
            return judge.loss(pair.first, pair.second)
        owner, row = pair.owner, pairs.rows[pair.owner]
        other = pair.first if pair.second == owner else pair.second
        if other not in row.known:
            others = pairs.next_of(owner, row.ahead)
            losses = judge.all_losses(owner, others)
            row.known.update(zip(others.tolist(), losses.tolist(), strict=True))
            if neighbours is not None:  # without a graph rows are told ahead by what they drop
                row.ahead = min(2 * row.ahead, MOST_AHEAD)
        ledger.n_comparisons += 1
        if (loss := row.known[other]) <= judge.limit and loss < np.inf:
            return loss
        ledger.refuse_pairs(np.array([pair.first]), np.array([pair.second]), np.array([loss]))
        return None

    rows = told = None
    if neighbours is not None:
        edges = keys_of_edges(neighbours, first_keys)
        if (history := taken_by_kernel(judge, edges, by_loss=by_loss)) is not None:
            return history
        rows = rows_of(edges)
    elif directions is not None:
        rows, told = directions.first_rows(judge.min_correlation), directions.merged
    pairs = RankedRows(space.n_variables, keys, neighbours, rows, admits if in_turn else None)
    _in_turn(judge, pairs, neighbours, None if by_loss else ask, told)
    if directions is not None:
        # All blocks left have refused each other, when asked: too many to be asked again.
        return ledger.close()
    return refuse_the_rest(judge, None if neighbours is None else neighbours.edges())


def _grow_groups(
    judge: Judge, order: IntArray, neighbours: Neighbours | None, *, restart: bool = False
) -> MergeHistory:
    """Algorithm 2: one pass over the free variables for each group that is opened.

    The authors' loop starts again: after each merge the group asks from the first free variable.
    With neighbours a group goes over them until none is accepted: one pass would miss those that
    become neighbours only later and leave a connected group in pieces.
    """
    restart = restart or neighbours is not None
    space, ledger = judge.space, judge.ledger
    order = np.asarray(order, dtype=np.intp)
    if neighbours is None and judge.asks_everybody:
        history: MergeHistory | None = backend.grow(
            space, judge.criterion, limit=judge.limit, order=order, restart=restart
        )
        if history is not None:
            return history
    rank = np.empty(order.size, dtype=np.intp)
    rank[order] = np.arange(order.size)
    free = np.ones(order.size, dtype=bool)
    for seed in order:
        if not free[seed]:
            continue
        block, n_merges = int(seed), ledger.n_merges
        free[block] = False
        queue = _queue(block, order[rank[block] + 1 :], free, rank, neighbours)
        space.expect(np.concatenate(([block], queue[:256])), queue)
        _grow(judge, block, queue, (order, free, rank), neighbours, restart=restart)
        space.retire(block)
        # Few candidates are asked at first where the last block merged, twice as many where not.
        merged = ledger.n_merges > n_merges
        judge.width = FIRST_CHUNK if merged else min(2 * judge.width, LARGEST_CHUNK)
    return ledger.close()


best_first = Scan(
    "best-first",
    partial(_take_pairs, by_loss=True),
    "the pair of smallest loss first",
    nested=True,
    has_auto=True,
)
correlation = Scan(
    "correlation",
    partial(_take_pairs, by_loss=False),
    "the most correlated pair first",
    has_auto=True,
    by_correlation=True,
)
grow = Scan(
    "grow",
    _grow_groups,
    "groups grown one after another, as Algorithm 2 is printed",
    asks_once=True,
)
restart = Scan(
    "restart",
    partial(_grow_groups, restart=True),
    "groups grown one after another, starting again after each merge",
    asks_once=True,
)
#: No block is asked any more, except for what each would refuse.
stay = Scan(
    "stay",
    lambda judge, order, neighbours: refuse_the_rest(
        judge, None if neighbours is None else neighbours.edges()
    ),
)
SCANS: dict[str, Scan] = {scan.name: scan for scan in (best_first, correlation, grow, restart)}


def _grow(
    judge: Judge,
    block: int,
    queue: IntArray,
    variables: tuple[IntArray, BoolArray, IntArray],
    neighbours: Neighbours | None,
    *,
    restart: bool,
) -> None:
    """Grow one block, a merge at a time or by runs of predicted merges, where a space foresees.

    Prediction: the candidates that are acceptable now will be taken in their order. The space
    answers for all the states of that run at once, and the run is cut at the first state in which
    the scan would have done otherwise; so the decisions are those of one step at a time.
    """
    space, ledger = judge.space, judge.ledger
    order, free, rank = variables
    by_runs = space.foresees and neighbours is None and judge.asks_everybody
    shortest, longest = (FIRST_RUN, LONGEST_RUN) if by_runs else (1, 1)
    start, width, length = 0, judge.width, shortest
    while (hit := judge.first_acceptable(block, queue[start:], width)) is not None:
        loss, positions = hit
        predicted = start + positions[:length]
        taken, losses = _verified_run(judge, block, queue, predicted, restart=restart)
        if by_runs:
            came_true = taken.size >= predicted.size
            width = min(WIDEST_RUN, 2 * width) if came_true else FIRST_CHUNK
            length = min(longest, 2 * length) if came_true else shortest
        run = queue[taken]
        if run.size == 1:
            judge.merge(block, int(run[0]), loss, neighbours, forget=restart)
        else:
            space.absorb(block, run)
            for other, its_loss in zip(run.tolist(), [loss, *losses], strict=True):
                ledger.accept(block, other, its_loss, forget=restart)
        free[run] = False
        start = 0 if restart else int(taken[-1]) + 1 - taken.size
        if neighbours is not None:
            queue = _queue(block, order, free, rank, neighbours)
        else:
            queue = np.delete(queue, taken)


def _verified_run(
    judge: Judge, block: int, queue: IntArray, predicted: IntArray, *, restart: bool
) -> tuple[IntArray, list[float]]:
    """Positions in the queue that the scan takes in turn, and the losses of all but the first."""
    if predicted.size == 1:
        return predicted, []
    first = 0 if restart else int(predicted[0]) + 1
    columns = np.arange(first, int(predicted[-1]) + 1)
    evidence = judge.space.foresee(block, queue[predicted], queue[columns])
    losses = np.asarray(judge.criterion.loss(evidence))[1:]
    # State k has absorbed the first k+1 predicted; a single pass has also gone beyond them.
    if restart:
        gone = np.zeros(losses.shape, dtype=bool)
        for state, position in enumerate(predicted):
            gone[state:, position] = True
    else:
        gone = columns <= predicted[:, None]
    open_to = (losses <= judge.limit) & ~gone
    hits = open_to.argmax(axis=1)
    found = open_to[np.arange(hits.size), hits]
    as_predicted = found[:-1] & (hits[:-1] == predicted[1:] - first)
    wrong = np.flatnonzero(~as_predicted)
    states = int(wrong[0]) + 1 if wrong.size else predicted.size
    # The state in which the prediction ends was asked correctly too; use its answer.
    states -= not found[states - 1]
    hits = hits[:states]
    asked = ~gone[:states] & (np.arange(columns.size) <= hits[:, None])
    judge.ledger.n_comparisons += int(np.count_nonzero(asked))
    asked[np.arange(states), hits] = False
    refused = np.where(asked, losses[:states], np.inf)
    nearest = int(refused.argmin()) if refused.size else 0
    if refused.size and refused.flat[nearest] < np.inf:
        other = queue[columns[nearest % columns.size]]
        judge.ledger.refuse(block, np.array([other]), refused.flat[nearest : nearest + 1])
    taken = np.concatenate((predicted[:1], hits + first))
    return taken, losses[np.arange(states), hits].tolist()


def _queue(
    block: int, order: IntArray, free: BoolArray, rank: IntArray, neighbours: Neighbours | None
) -> IntArray:
    """Free variables that may join a block, in order."""
    if neighbours is None:
        return order[free[order]]
    near = neighbours.of(block)
    near = near[free[near]]
    return near[np.argsort(rank[near])]


def _in_turn(
    judge: Judge,
    pairs: RankedRows,
    neighbours: Neighbours | None,
    ask: Callable[[Pair], float | None] | None = None,
    told: Callable[[int, int], None] | None = None,
) -> None:
    """Merge the first pair while there is one.

    ``ask`` says what it costs, None if it is refused; without it that is its key. ``told`` is
    called with each merge before new pairs are looked for.
    """
    while (pair := pairs.smallest()) is not None:
        block, other = pair.first, pair.second
        if ask is None and not pair.key <= judge.limit:
            break
        loss, apart = None, judge.separation
        # Others have merged since the two were asked.
        if apart is None or apart.allows(block, np.array([other]))[0]:
            loss = pair.key if ask is None else ask(pair)
        if loss is None:
            pairs.drop()
            continue
        judge.merge(block, other, loss, neighbours)
        if told is not None:
            told(block, other)
        pairs.merged(block, other)


def _take_afresh(judge: Judge, neighbours: Neighbours | None) -> MergeHistory:
    """Ask every pair again after every merge, because every answer has changed."""
    ledger, alive = judge.ledger, np.flatnonzero(judge.left)
    while True:
        no_blocks = alive[:0]
        rows = [(no_blocks, no_blocks, np.empty(0))]
        for block in alive.tolist():
            others = alive if neighbours is None else neighbours.of(block)
            others = others[others > block]
            if others.size:
                losses = judge.all_losses(block, others)
                rows.append((np.full(others.size, block), others, losses))
        first, second, losses = map(np.concatenate, zip(*rows, strict=True))
        ledger.n_comparisons += losses.size
        best = int(losses.argmin()) if losses.size else 0
        if not judge.accepts(losses[best : best + 1]).any():
            ledger.refuse_pairs(first, second, losses)
            return ledger.close()
        judge.merge(int(first[best]), int(second[best]), float(losses[best]), neighbours)
        alive = alive[alive != second[best]]


def _go_down_a_list(judge: Judge, neighbours: Neighbours | None) -> MergeHistory:
    """Go down the list of pairs by correlation, a few at a time, and mend it after each merge."""
    space, ledger = judge.space, judge.ledger
    alive = judge.left

    def partners(block: int) -> tuple[IntArray, FloatArray]:
        others = np.flatnonzero(alive) if neighbours is None else neighbours.of(block)
        others = others[others != block]
        strength = space.correlation(block, others)
        if not judge.has_floor:
            return others, strength
        meets = strength >= judge.min_correlation
        return others[meets], strength[meets]

    rows = []
    for block in np.flatnonzero(alive).tolist():
        others, strength = partners(block)
        later = others > block
        rows.append((strength[later], np.full(later.sum(), block), others[later]))
    pairs = RankedPairs(space.n_variables, *map(np.concatenate, zip(*rows, strict=True)))
    chunk = FIRST_PAIRS
    while True:
        first, second = pairs.peek(chunk)
        if not first.size:
            return ledger.close()
        losses = judge.losses(first, second)
        accepted = losses <= judge.limit
        hit = int(accepted.argmax())
        found = bool(accepted[hit])
        refused = hit if found else losses.size
        ledger.n_comparisons += refused + found
        ledger.refuse_pairs(first[:refused], second[:refused], losses[:refused])
        pairs.drop(refused + found)
        chunk = FIRST_PAIRS if found else min(2 * chunk, LARGEST_CHUNK)
        if found:
            block, other = int(first[hit]), int(second[hit])
            judge.merge(block, other, float(losses[hit]), neighbours)
            alive[other] = False
            pairs.merged(block, other, *partners(block))


def merge_ranked(judge: Judge, ranked: RankedQuestions, *, by_loss: bool) -> MergeHistory:
    """Merge the pair that comes first, by loss or by correlation, while one is accepted.

    By correlation only pairs that are accepted have a rank: a refused pair stays refused while its
    blocks stand, so that is the next merge of a scan that asks the strongest first.
    """
    ledger = judge.ledger
    ranked.rank_by(None if by_loss else judge.limit)

    def row(block: int) -> Row:
        progress.go_on(ledger)
        ledger.n_comparisons += ranked.n_candidates(block)
        return ranked.row(block)

    def first_rows() -> Iterator[tuple[int, Row]]:
        for block, first in ranked.first_rows():
            progress.go_on(ledger)
            ledger.n_comparisons += block
            yield block, first

    pairs = RankedRows(judge.space.n_variables, judge.losses, None, first_rows(), find=row)
    _in_turn(
        judge, pairs, None, None if by_loss else lambda pair: judge.loss(pair.first, pair.second)
    )
    blocks, others, losses = ranked.refusals()
    ledger.refused_loss[blocks] = losses
    ledger.refused[blocks] = np.where(losses < np.inf, others, -1)
    ledger.best_refused = min(ranked.best_refused, float(losses.min(initial=np.inf)))
    return ledger.close()


def refuse_the_rest(judge: Judge, edges: tuple[IntArray, IntArray] | None) -> MergeHistory:
    """All blocks left have refused each other, or their neighbours; say so as they stand now."""
    ledger = judge.ledger
    gone = [other for _, other, _, _ in ledger.merges]
    left = np.setdiff1d(np.arange(ledger.n_variables), gone)
    ledger.refused[left], ledger.refused_loss[left] = -1, np.inf
    if edges is not None:
        for chunk in _slices(edges[0].size):
            first, second = edges[0][chunk], edges[1][chunk]
            ledger.refuse_pairs(first, second, judge.all_losses(first, second))
        return ledger.close()
    nearest = np.full(ledger.n_variables, np.inf)
    for leader in left[:-1].tolist():
        others = left[left > leader]
        losses = judge.all_losses(leader, others)
        ledger.refuse(leader, others, losses)
        closer = losses < nearest[others]
        nearest[others[closer]] = losses[closer]
        ledger.refuse_pairs(np.full(int(closer.sum()), leader), others[closer], losses[closer])
    return ledger.close()


def to_rounding(strength: FloatArray) -> FloatArray:
    """Correlations without their last digits: copies of a task tie, however products are summed."""
    return np.asarray(np.rint(strength * FINEST) / FINEST)


def keys_of_edges(
    neighbours: Neighbours, keys: Callable[[IntArray, IntArray], FloatArray]
) -> Edges:
    """Keys of all edges of a graph, by their later block, to which a pair belongs at first."""
    first, second = neighbours.edges()
    order = np.lexsort((first, second))
    first, second = first[order], second[order]
    known = [keys(second[chunk], first[chunk]) for chunk in _slices(first.size)]
    return first, second, np.concatenate(known) if known else np.empty(0)


def rows_of(edges: Edges) -> Iterator[tuple[int, Row]]:
    """First rows of all blocks of a graph."""
    first, second, key = edges
    bounds = [*np.flatnonzero(np.diff(second, prepend=-1)).tolist(), second.size]
    return (
        (int(second[start]), Row(first[start:stop], key[start:stop]))
        for start, stop in pairwise(bounds)
    )


def taken_by_kernel(judge: Judge, edges: Edges, *, by_loss: bool) -> MergeHistory | None:
    """Have the edges taken in turn by a kernel; None where there is none for the problem."""
    if judge.space.is_guarded or judge.separation is not None:
        return None
    left = backend.on_graph(
        judge.space,
        judge.criterion,
        judge.ledger,
        edges,
        n_pairs=judge.n_pairs,
        limit=judge.limit,
        min_correlation=judge.min_correlation,
        by_loss=by_loss,
    )
    return None if left is None else refuse_the_rest(judge, left)


def _slices(count: int) -> Iterator[slice]:
    return (slice(k, k + LARGEST_CHUNK) for k in range(0, count, LARGEST_CHUNK))
