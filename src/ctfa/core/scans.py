"""Who is asked next. A scan asks a space, judges by a criterion, and merges.

All scans take the same arguments and return the history of what they did. ``max_loss`` is the
largest loss accepted, ``tolerance`` is added to it so that rounding does not decide exact ties,
``neighbours`` says who may merge at all, and pairs whose means correlate less than
``min_correlation`` are never asked. A new one is one ``Scan`` in ``SCANS``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, TypeAlias, cast

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

#: Goes through the candidates of a judge, given an order and perhaps who may merge with whom.
Search: TypeAlias = Callable[[Judge, IntArray, Neighbours | None], MergeHistory]


@dataclass(frozen=True)
class Scan:
    """A way through the candidates, and what is known of it."""

    name: str
    search: Search
    words: str = ""  # who is asked next, in the methods of a report
    nested: bool = False  # whether a larger limit only adds merges
    asks_once: bool = False  # whether refusals are of the time of asking, one target at a time
    has_auto: bool = False  # whether folds may choose its limit: its groups are of no order
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

        ``separation`` says who may not meet. It is needed where the search goes on after merges
        that ``begin`` it, the first ``n_joined`` of which no limit undoes.
        """
        with progress.searching("scan") as (_, is_own):
            judge = Judge(space, criterion, max_loss + tolerance, min_correlation, separation)
            try:
                judge.begin(begin, n_joined, neighbours)
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


def _best_first(judge: Judge, order: IntArray, neighbours: Neighbours | None) -> MergeHistory:
    """Merge the two blocks of smallest loss, again and again; the order given plays no part."""
    if not judge.space.merge_is_local:
        return _best_first_afresh(judge, neighbours)
    if neighbours is None and judge.ranked is not None:
        return merge_ranked(judge, judge.ranked, by_loss=True)
    return _merge_first(judge, neighbours, by_loss=True)


def _correlation(judge: Judge, order: IntArray, neighbours: Neighbours | None) -> MergeHistory:
    """Ask the most correlated two blocks first; a refusal stands until one of them changes."""
    if not judge.space.merge_is_local:
        return _ask_ranked(judge, neighbours)
    if neighbours is None and judge.ranked is not None:
        return merge_ranked(judge, judge.ranked, by_loss=False)
    has_directions = judge.separation is None and hasattr(judge.space, "directions")
    if neighbours is not None or has_directions:
        return _ask_strongest(judge, neighbours)
    return _merge_first(judge, None, by_loss=False)


def _grow_groups(
    judge: Judge, order: IntArray, neighbours: Neighbours | None, *, restart: bool = False
) -> MergeHistory:
    """Algorithm 2: one pass over the free variables for each group that is opened.

    The authors' loop starts again: after each merge the group asks from the first free variable.
    With neighbours a group goes over them until none is accepted: one pass would miss those that
    become neighbours only later and leave a connected group in pieces.
    """
    restart = restart or neighbours is not None
    space = judge.space
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
    by_runs = space.foresees and neighbours is None and judge.asks_everybody
    for seed in order:
        if not free[seed]:
            continue
        block, n_merges = int(seed), judge.ledger.n_merges
        free[block] = False
        queue = _queue(block, order[rank[block] + 1 :], free, rank, neighbours)
        space.expect(np.concatenate(([block], queue[:256])), queue)
        if by_runs:
            free[_grow_by_runs(judge, space, block, queue, restart=restart)] = False
        else:
            _grow_by_steps(judge, block, queue, (order, free, rank), neighbours, restart=restart)
        space.retire(block)
        # Few candidates are asked at first where the last block merged, twice as many where not.
        merged = judge.ledger.n_merges > n_merges
        judge.width = FIRST_CHUNK if merged else min(2 * judge.width, LARGEST_CHUNK)
    return judge.ledger.close()


best_first = Scan(
    "best-first", _best_first, "the pair of smallest loss first", nested=True, has_auto=True
)
correlation = Scan(
    "correlation",
    _correlation,
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
#: Nobody is asked any more, but whom each would refuse.
stay = Scan(
    "stay",
    lambda judge, order, neighbours: refuse_the_rest(
        judge, None if neighbours is None else neighbours.edges()
    ),
)
SCANS: dict[str, Scan] = {scan.name: scan for scan in (best_first, correlation, grow, restart)}


def _grow_by_runs(
    judge: Judge, space: MergeSpace, block: int, queue: IntArray, *, restart: bool
) -> IntArray:
    """Grow one block by runs of predicted merges, each verified before it is made.

    Nothing here changes a decision: it is the loop of ``_grow_by_steps`` with the arithmetic of
    many steps done at once. Takes a queue of free variables and returns those that joined.

    Prediction: the candidates that are acceptable now will be taken in their order. The space
    answers for all the states of that run at once, and the run is cut at the first state in which
    the scan would have done otherwise; so the decisions are those of one step at a time.
    """
    ledger = judge.ledger
    members: list[IntArray] = []
    start, width, length = 0, judge.width, FIRST_RUN
    while (hit := judge.first_acceptable(block, queue[start:], width)) is not None:
        loss, positions = hit
        predicted = start + positions[:length]
        taken, losses = _verified_run(judge, space, block, queue, predicted, restart=restart)
        came_true = taken.size >= predicted.size
        width = min(WIDEST_RUN, 2 * width) if came_true else FIRST_CHUNK
        length = min(LONGEST_RUN, 2 * length) if came_true else FIRST_RUN
        run = queue[taken]
        space.absorb(block, run)
        for other, its_loss in zip(run.tolist(), [loss, *losses], strict=True):
            ledger.accept(block, other, its_loss)
        if restart:
            ledger.forget_refusals(block)
        members.append(run)
        start = 0 if restart else int(taken[-1]) + 1 - taken.size
        left = np.ones(queue.size, dtype=bool)
        left[taken] = False
        queue = queue[left]
    return np.concatenate(members) if members else queue[:0]


def _verified_run(
    judge: Judge,
    space: MergeSpace,
    block: int,
    queue: IntArray,
    predicted: IntArray,
    *,
    restart: bool,
) -> tuple[IntArray, list[float]]:
    """Positions in the queue that the scan takes in turn, and the losses of all but the first."""
    if predicted.size == 1:
        return predicted, []
    first = 0 if restart else int(predicted[0]) + 1
    columns = np.arange(first, int(predicted[-1]) + 1)
    evidence = space.foresee(block, queue[predicted], queue[columns])
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
    # The state in which the prediction ends was asked correctly too; use what it answered.
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


def _grow_by_steps(
    judge: Judge,
    block: int,
    queue: IntArray,
    variables: tuple[IntArray, BoolArray, IntArray],
    neighbours: Neighbours | None,
    *,
    restart: bool,
) -> None:
    """Grow one block, a merge at a time."""
    order, free, rank = variables
    start = 0
    while (hit := judge.first_acceptable(block, queue[start:])) is not None:
        loss, positions = hit
        position = start + int(positions[0])
        other = int(queue[position])
        judge.merge(block, other, loss, neighbours)
        free[other] = False
        if neighbours is not None:
            queue = _queue(block, order, free, rank, neighbours)
        else:
            queue = np.concatenate((queue[:position], queue[position + 1 :]))
        start = 0 if restart else position
        if restart:
            judge.ledger.forget_refusals(block)


def _queue(
    block: int, order: IntArray, free: BoolArray, rank: IntArray, neighbours: Neighbours | None
) -> IntArray:
    """Free variables that may join a block, in order."""
    if neighbours is None:
        return order[free[order]]
    near = neighbours.of(block)
    near = near[free[near]]
    return near[np.argsort(rank[near])]


def _merge_first(judge: Judge, neighbours: Neighbours | None, *, by_loss: bool) -> MergeHistory:
    """Merge the pair of smallest loss, or the strongest of those that are accepted, in turn.

    Whole rows are judged at once. A refused pair stays refused while its blocks stand, so the
    strongest of the others is the next merge of a scan that asks the strongest first.
    """
    ledger = judge.ledger

    def keys(block: int | IntArray, others: IntArray) -> FloatArray:
        ledger.n_comparisons += others.size
        losses = judge.all_losses(block, others)
        if by_loss:
            return losses
        accepted = judge.accepts(losses)
        ledger.refuse(cast("int", block), others[~accepted], losses[~accepted])
        return np.where(accepted, -judge.space.correlation(block, others), np.inf)

    rows = None
    if neighbours is not None:
        edges = keys_of_edges(neighbours, keys)
        if (history := taken_by_kernel(judge, edges, by_loss=by_loss)) is not None:
            return history
        rows = rows_of(edges)
    pairs = RankedRows(judge.space.n_variables, keys, neighbours, rows)
    _merge_in_turn(judge, pairs, neighbours, by_loss=by_loss)
    return refuse_the_rest(judge, None if neighbours is None else neighbours.edges())


def _merge_in_turn(
    judge: Judge, pairs: RankedRows, neighbours: Neighbours | None, *, by_loss: bool
) -> None:
    """Merge the first pair while there is one, or while its key, the loss, is accepted."""
    while (pair := pairs.smallest()) is not None:
        block, other, loss = pair.first, pair.second, pair.key
        if not by_loss:
            loss = float(judge.losses(block, np.array([other]))[0])
        elif not loss <= judge.limit:
            break
        if not judge.may_still_meet(block, other):
            pairs.drop()
            continue
        judge.merge(block, other, loss, neighbours)
        judge.ledger.forget_refusals(block)
        pairs.merged(block, other)


def _ask_strongest(judge: Judge, neighbours: Neighbours | None) -> MergeHistory:
    """Ask no pair before its turn comes, or nearly: a question costs more than a correlation.

    The edges of a graph are asked all at once at the start: most will have their turn, and many at
    a time they cost little. Later rows are those of blocks that grow, and grow long.
    """
    space, ledger = judge.space, judge.ledger
    directions = None if neighbours is not None else Directions(cast("Any", space).directions)

    def keys(block: int | IntArray, others: IntArray) -> FloatArray:
        if directions is None:
            strength = to_rounding(space.correlation(block, others))
        else:
            strength = directions.correlation(cast("int", block), others)
        return np.where(strength >= judge.min_correlation, -strength, np.inf)

    def admits(block: int | IntArray, others: IntArray) -> BoolArray:
        losses = judge.all_losses(block, others)
        accepted = judge.accepts(losses)
        refused = np.flatnonzero(~accepted)
        ledger.n_comparisons += refused.size
        first = np.broadcast_to(block, others.shape)
        ledger.refuse_pairs(first[refused], others[refused], losses[refused])
        return accepted

    def first_keys(block: IntArray, others: IntArray) -> FloatArray:
        return np.where(admits(block, others), keys(block, others), np.inf)

    if neighbours is not None:
        edges = keys_of_edges(neighbours, first_keys)
        if (history := taken_by_kernel(judge, edges, by_loss=False)) is not None:
            return history
        rows = rows_of(edges)
    else:
        rows = cast("Directions", directions).first_rows(judge.min_correlation)
    pairs = RankedRows(space.n_variables, keys, neighbours, rows, admits)
    # Without a graph rows are told ahead by what they drop.
    ahead = None if neighbours is None else AskedAhead(judge, pairs)
    while (pair := pairs.smallest()) is not None:
        block, other = pair.first, pair.second
        if not judge.may_still_meet(block, other):
            pairs.drop()
            continue
        loss = ahead.loss(pair) if ahead else judge.all_losses(block, np.array([other]))
        ledger.n_comparisons += 1
        if not judge.accepts(loss)[0]:
            ledger.refuse_pairs(np.array([block]), np.array([other]), loss)
            pairs.drop()
            continue
        judge.merge(block, other, float(loss[0]), neighbours)
        ledger.forget_refusals(block)
        if directions is not None:
            directions.merged(block, other)
        if ahead is not None:
            ahead.merged(block, other)
        pairs.merged(block, other)
    if neighbours is not None:
        return refuse_the_rest(judge, neighbours.edges())
    # Everybody left has refused everybody else, when asked: too many to be asked again.
    return ledger.close()


def _best_first_afresh(judge: Judge, neighbours: Neighbours | None) -> MergeHistory:
    """Ask every pair again after every merge, because every answer has changed."""
    ledger = judge.ledger
    alive = np.flatnonzero(judge.left)
    while True:
        best: tuple[float, int, int] | None = None
        rows: list[tuple[int, IntArray, FloatArray]] = []
        for block in map(int, alive):
            others = alive if neighbours is None else neighbours.of(block)
            others = others[others > block]
            if not others.size:
                continue
            losses = judge.all_losses(block, others)
            ledger.n_comparisons += others.size
            rows.append((block, others, losses))
            nearest = int(np.argmin(losses))
            if losses[nearest] < np.inf and (best is None or losses[nearest] < best[0]):
                best = (float(losses[nearest]), block, int(others[nearest]))
        if best is None or not best[0] <= judge.limit:
            break
        loss, block, other = best
        judge.merge(block, other, loss, neighbours)
        alive = alive[alive != other]
    for block, others, losses in rows:
        ledger.refuse_pairs(np.full(others.size, block), others, losses)
    return ledger.close()


def _ask_ranked(judge: Judge, neighbours: Neighbours | None) -> MergeHistory:
    """Go down the list of pairs, a few at a time, and mend it after each merge."""
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
            break
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
            ledger.forget_refusals(block)
            alive[other] = False
            pairs.merged(block, other, *partners(block))
    return ledger.close()


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
    _merge_in_turn(judge, pairs, None, by_loss=by_loss)
    refused, refused_loss = ledger.refusals()
    blocks, others, losses = ranked.refusals()
    refused_loss[blocks] = losses
    refused[blocks] = np.where(losses < np.inf, others, -1)
    ledger.best_refused = min(ranked.best_refused, float(losses.min(initial=np.inf)))
    return ledger.close()


def refuse_the_rest(judge: Judge, edges: tuple[IntArray, IntArray] | None) -> MergeHistory:
    """All blocks left have refused each other, or their neighbours; say so as they stand now."""
    ledger = judge.ledger
    gone = [other for _, other, _, _ in ledger.merges]
    left = np.setdiff1d(np.arange(ledger.n_variables), gone)
    for leader in left.tolist():
        ledger.forget_refusals(leader)
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
    """Correlations without their last digits: copies of a task tie, whoever adds up products."""
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
        limit=judge.limit,
        min_correlation=judge.min_correlation,
        by_loss=by_loss,
    )
    return None if left is None else refuse_the_rest(judge, left)


def _slices(count: int) -> Iterator[slice]:
    return (slice(k, k + LARGEST_CHUNK) for k in range(0, count, LARGEST_CHUNK))


class AskedAhead:
    """Losses of the pairs that a row will show next, asked several at a time.

    A question by itself costs as much as ten together. Rows of blocks that have just merged are
    asked one pair first, then twice as many each time they refuse all that was asked.
    """

    def __init__(self, judge: Judge, pairs: RankedRows) -> None:
        self._judge, self._pairs = judge, pairs
        self._known: dict[int, dict[int, float]] = {}
        self._width: dict[int, int] = {}

    def loss(self, pair: Pair) -> FloatArray:
        """Loss of the pair shown now: it stands as long as neither of its blocks changes."""
        owner = pair.owner
        other = pair.first if pair.second == owner else pair.second
        known = self._known.setdefault(owner, {})
        if other not in known:
            width = self._width.get(owner, 1)
            others = self._pairs.next_of(owner, width)
            losses = self._judge.all_losses(owner, others)
            known.update(zip(others.tolist(), losses.tolist(), strict=True))
            self._width[owner] = min(2 * width, MOST_AHEAD)
        return np.array([known[other]])

    def merged(self, block: int, other: int) -> None:
        """Forget what changed."""
        for changed in (block, other):
            self._known.pop(changed, None)
            self._width.pop(changed, None)
