"""Who is asked next. A scan asks a space, judges by a criterion, and merges.

All scans take the same arguments and return the history of what they did. ``max_loss`` is the
largest loss accepted, ``tolerance`` is added to it so that rounding does not decide exact ties,
``neighbours`` says who may merge at all, and pairs whose means correlate less than
``min_correlation`` are never asked. A new one is one ``Scan`` in ``SCANS``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, cast

import numpy as np

from ctfa.core import backend, progress
from ctfa.core.agenda import PairList, RankedPairs
from ctfa.core.all_pairs import merge_ranked, refuse_the_rest
from ctfa.core.criteria import Loss
from ctfa.core.directions import DirectedSpace, Directions
from ctfa.core.edges import (
    AskedAhead,
    keys_of_edges,
    refuse_edges,
    rows_of,
    taken_by_kernel,
    to_rounding,
)
from ctfa.core.graph import Neighbours
from ctfa.core.history import MergeHistory
from ctfa.core.judge import FIRST_CHUNK, LARGEST_CHUNK, Judge, Stopped
from ctfa.core.rows import RankedRows
from ctfa.core.runs import grow_by_runs
from ctfa.core.spaces.base import ForeseeingSpace, MergeSpace
from ctfa.core.types import BoolArray, FloatArray, IntArray

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
    ) -> MergeHistory:
        """Merge until nothing more is accepted; asked to stop, return what was found, and warn."""
        with progress.searching("scan") as (_, is_own):
            judge = Judge(space, criterion, max_loss + tolerance, min_correlation)
            try:
                history = self.search(judge, order, neighbours)
            except Stopped as stop:
                history = stop.ledger.close(complete=False)
        if is_own and not history.complete:
            warnings.warn(
                f"The search was stopped after {len(history)} merges: the groups are the "
                f"{history.n_variables - len(history)} found by then, not those of max_loss.",
                progress.SearchStopped,
                stacklevel=2,
            )
        return history


def _grow(judge: Judge, order: IntArray, neighbours: Neighbours | None) -> MergeHistory:
    """Algorithm 2: one pass over the free variables for each group that is opened.

    With neighbours a group goes over them until none is accepted: one pass would miss those that
    become neighbours only later and leave a connected group in pieces.
    """
    return _grow_groups(judge, order, neighbours, restart=neighbours is not None)


def _restart(judge: Judge, order: IntArray, neighbours: Neighbours | None) -> MergeHistory:
    """The authors' loop: after each merge the group asks from the first free variable again."""
    return _grow_groups(judge, order, neighbours, restart=True)


def _best_first(judge: Judge, order: IntArray, neighbours: Neighbours | None) -> MergeHistory:
    """Merge the two blocks of smallest loss, again and again; the order given plays no part."""
    if not judge.space.merge_is_local:
        return _best_first_afresh(judge, neighbours)
    if neighbours is None and judge.ranked is not None:
        return merge_ranked(judge, judge.ranked, by_loss=True)
    return _merge_nearest(judge, neighbours)


def _correlation(judge: Judge, order: IntArray, neighbours: Neighbours | None) -> MergeHistory:
    """Ask the most correlated two blocks first; a refusal stands until one of them changes."""
    if not judge.space.merge_is_local:
        return _ask_ranked(judge, neighbours)
    if neighbours is None and judge.ranked is not None:
        return merge_ranked(judge, judge.ranked, by_loss=False)
    if neighbours is not None or hasattr(judge.space, "directions"):
        return _ask_strongest(judge, neighbours)
    return _merge_strongest(judge)


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
    "grow", _grow, "groups grown one after another, as Algorithm 2 is printed", asks_once=True
)
restart = Scan(
    "restart",
    _restart,
    "groups grown one after another, starting again after each merge",
    asks_once=True,
)
SCANS: dict[str, Scan] = {scan.name: scan for scan in (best_first, correlation, grow, restart)}


def _grow_groups(
    judge: Judge, order: IntArray, neighbours: Neighbours | None, *, restart: bool
) -> MergeHistory:
    space = judge.space
    order = np.asarray(order, dtype=np.intp)
    if neighbours is None and judge.asks_everybody:
        history = backend.grow(
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
        block, n_merges = int(seed), len(judge.ledger.merges)
        free[block] = False
        queue = _queue(block, order[rank[block] + 1 :], free, rank, neighbours)
        space.expect(np.concatenate(([block], queue[:256])), queue)
        if by_runs:
            foreseeing = cast("ForeseeingSpace", space)
            free[grow_by_runs(judge, foreseeing, block, queue, restart=restart)] = False
        else:
            _grow_by_steps(judge, block, queue, (order, free, rank), neighbours, restart=restart)
        space.retire(block)
        judge.expect_merges(likely=len(judge.ledger.merges) > n_merges)
    return judge.ledger.close()


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
        position = start + int(hit.positions[0])
        other = int(queue[position])
        judge.merge(block, other, hit.loss, neighbours)
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


def _merge_nearest(judge: Judge, neighbours: Neighbours | None) -> MergeHistory:
    """Merge the pair of smallest loss while that is accepted."""

    def keys(block: int | IntArray, others: IntArray) -> FloatArray:
        judge.ledger.n_comparisons += others.size
        return judge.all_losses(block, others)

    rows = None
    if neighbours is not None:
        edges = keys_of_edges(neighbours, keys)
        if (history := taken_by_kernel(judge, edges, by_loss=True)) is not None:
            return history
        rows = rows_of(edges)
    pairs = RankedRows(judge.space.n_variables, keys, neighbours, rows)
    while (pair := pairs.smallest()) is not None and pair.key <= judge.limit:
        judge.merge(pair.first, pair.second, pair.key, neighbours)
        judge.ledger.forget_refusals(pair.first)
        pairs.merged(pair.first, pair.second)
    if neighbours is not None:
        return refuse_edges(judge, *neighbours.edges())
    return refuse_the_rest(judge, pairs.remaining())


def _merge_strongest(judge: Judge) -> MergeHistory:
    """Merge the strongest pair among those that are accepted, whole rows judged at once.

    A refused pair stays refused while its blocks stand, so that is the next merge of a scan that
    asks the strongest first.
    """
    ledger = judge.ledger

    def keys(block: int, others: IntArray) -> FloatArray:
        ledger.n_comparisons += others.size
        losses = judge.all_losses(block, others)
        accepted = judge.accepts(losses)
        ledger.refuse(block, others[~accepted], losses[~accepted])
        return np.where(accepted, -judge.space.correlation(block, others), np.inf)

    pairs = RankedRows(judge.space.n_variables, keys, None)
    while (pair := pairs.smallest()) is not None:
        loss = float(judge.losses(pair.first, np.array([pair.second]))[0])
        judge.merge(pair.first, pair.second, loss, None)
        ledger.forget_refusals(pair.first)
        pairs.merged(pair.first, pair.second)
    return refuse_the_rest(judge, pairs.remaining())


def _ask_strongest(judge: Judge, neighbours: Neighbours | None) -> MergeHistory:
    """Ask no pair before its turn comes, or nearly: a question costs more than a correlation.

    The edges of a graph are asked all at once at the start: most will have their turn, and many at
    a time they cost little. Later rows are those of blocks that grow, and grow long.
    """
    space, ledger = judge.space, judge.ledger
    directions = None if neighbours is not None else Directions(cast("DirectedSpace", space))

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
        return refuse_edges(judge, *neighbours.edges())
    # Everybody left has refused everybody else, when asked: too many to be asked again.
    return ledger.close()


def _best_first_afresh(judge: Judge, neighbours: Neighbours | None) -> MergeHistory:
    """Ask every pair again after every merge, because every answer has changed."""
    ledger = judge.ledger
    alive = np.arange(judge.space.n_variables)
    while True:
        best: tuple[float, int, int] | None = None
        rows: list[tuple[int, IntArray, FloatArray]] = []
        for block in map(int, alive):
            later = alive[alive > block]
            others = later if neighbours is None else neighbours.among(block, later)
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
    alive = np.ones(space.n_variables, dtype=bool)

    def partners(block: int) -> tuple[IntArray, FloatArray]:
        others = np.flatnonzero(alive) if neighbours is None else neighbours.of(block)
        others = others[others != block]
        strength = space.correlation(block, others)
        if not judge.has_floor:
            return others, strength
        meets = strength >= judge.min_correlation
        return others[meets], strength[meets]

    rows = []
    for block in range(space.n_variables):
        others, strength = partners(block)
        later = others > block
        rows.append(PairList(strength[later], np.full(later.sum(), block), others[later]))
    pairs = RankedPairs(
        space.n_variables, PairList(*(np.concatenate(part) for part in zip(*rows, strict=True)))
    )
    chunk = FIRST_CHUNK
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
        chunk = FIRST_CHUNK if found else min(2 * chunk, LARGEST_CHUNK)
        if found:
            block, other = int(first[hit]), int(second[hit])
            judge.merge(block, other, float(losses[hit]), neighbours)
            ledger.forget_refusals(block)
            alive[other] = False
            pairs.merged(block, other, *partners(block))
    return ledger.close()
