"""Who is asked next. A scan asks a space, judges by a criterion, and merges.

All scans take the same arguments and return the history of what they did. ``max_loss`` is the
largest loss accepted, ``tolerance`` is added to it so that rounding does not decide exact ties,
``neighbours`` says who may merge at all, and pairs whose means correlate less than
``min_correlation`` are never asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np

from ctfa.core.agenda import NearestPairs, RankedPairs
from ctfa.core.criteria import Criterion
from ctfa.core.graph import Neighbours
from ctfa.core.history import Ledger, MergeHistory
from ctfa.core.spaces.base import MergeSpace
from ctfa.core.types import BoolArray, FloatArray, IntArray

#: Candidates asked about at once: few at first, because the first of them is often accepted.
FIRST_CHUNK, LARGEST_CHUNK = 64, 4096
#: Merges predicted at once, and the candidates among which they are looked for, at most.
LONGEST_RUN, WIDEST_RUN = 32, 256


class Scan(Protocol):
    """A way through the candidates."""

    def __call__(
        self,
        space: MergeSpace,
        criterion: Criterion,
        *,
        max_loss: float,
        order: IntArray,
        neighbours: Neighbours | None = None,
        min_correlation: float = -1.0,
        tolerance: float = 0.0,
    ) -> MergeHistory:
        """Merge until nothing more is accepted."""


def grow(
    space: MergeSpace,
    criterion: Criterion,
    *,
    max_loss: float,
    order: IntArray,
    neighbours: Neighbours | None = None,
    min_correlation: float = -1.0,
    tolerance: float = 0.0,
) -> MergeHistory:
    """Algorithm 2: one pass over the free variables for each group that is opened.

    With neighbours a group goes over them until none is accepted: one pass would miss those that
    become neighbours only later and leave a connected group in pieces.
    """
    judge = _Judge(space, criterion, max_loss + tolerance, min_correlation)
    return _grow_groups(judge, order, neighbours, restart=neighbours is not None)


def restart(
    space: MergeSpace,
    criterion: Criterion,
    *,
    max_loss: float,
    order: IntArray,
    neighbours: Neighbours | None = None,
    min_correlation: float = -1.0,
    tolerance: float = 0.0,
) -> MergeHistory:
    """The authors' loop: after each merge the group asks the free variables from the first again."""
    judge = _Judge(space, criterion, max_loss + tolerance, min_correlation)
    return _grow_groups(judge, order, neighbours, restart=True)


def best_first(
    space: MergeSpace,
    criterion: Criterion,
    *,
    max_loss: float,
    order: IntArray,
    neighbours: Neighbours | None = None,
    min_correlation: float = -1.0,
    tolerance: float = 0.0,
) -> MergeHistory:
    """Merge the two blocks of smallest loss, again and again; the order given plays no part."""
    judge = _Judge(space, criterion, max_loss + tolerance, min_correlation)
    if not space.merge_is_local:
        return _best_first_afresh(judge, neighbours)

    def keys(block: int, others: IntArray) -> FloatArray:
        judge.ledger.n_comparisons += others.size
        return judge.all_losses(block, others)

    return _merge_nearest(judge, NearestPairs(space.n_variables, keys, neighbours), neighbours)


def correlation(
    space: MergeSpace,
    criterion: Criterion,
    *,
    max_loss: float,
    order: IntArray,
    neighbours: Neighbours | None = None,
    min_correlation: float = -1.0,
    tolerance: float = 0.0,
) -> MergeHistory:
    """Ask the most correlated two blocks first; a refusal stands until one of them changes."""
    judge = _Judge(space, criterion, max_loss + tolerance, min_correlation)
    if not space.merge_is_local:
        return _ask_ranked(judge, neighbours)

    # A refused pair stays refused while its blocks stand, so the next merge is the strongest pair
    # among the acceptable ones, and a whole row is judged at once.
    def keys(block: int, others: IntArray) -> FloatArray:
        judge.ledger.n_comparisons += others.size
        losses = judge.all_losses(block, others)
        accepted = losses <= judge.limit
        judge.ledger.refuse(block, others[~accepted], losses[~accepted])
        return np.where(accepted, -judge.space.correlation(block, others), np.inf)

    return _merge_nearest(judge, NearestPairs(space.n_variables, keys, neighbours), neighbours)


SCANS: dict[str, Scan] = {
    "best-first": best_first,
    "correlation": correlation,
    "grow": grow,
    "restart": restart,
}


class _Judge:
    """A criterion applied to a space, with the limits that make a merge acceptable."""

    def __init__(
        self, space: MergeSpace, criterion: Criterion, limit: float, min_correlation: float
    ) -> None:
        self.space, self.criterion, self.limit = space, criterion, limit
        self.min_correlation = min_correlation
        self.ledger = Ledger(space.n_variables)

    def may_meet(self, block: int | IntArray, others: IntArray) -> IntArray:
        """Positions of the others that correlate enough to be asked."""
        if self.min_correlation <= -1.0:
            return np.arange(others.size)
        return np.flatnonzero(self.space.correlation(block, others) >= self.min_correlation)

    def losses(self, block: int | IntArray, others: IntArray) -> FloatArray:
        """Loss of each merge."""
        return np.asarray(self.criterion(self.space.evidence(block, others)), dtype=float)

    def all_losses(self, block: int, others: IntArray) -> FloatArray:
        """Loss of each merge, infinite where the pair may not be asked."""
        meets = self.may_meet(block, others)
        if meets.size == others.size:
            return self.losses(block, others)
        losses = np.full(others.size, np.inf)
        if meets.size:
            losses[meets] = self.losses(block, others[meets])
        return losses

    def merge(self, block: int, other: int, loss: float, neighbours: Neighbours | None) -> None:
        """Merge in the space, the graph and the ledger."""
        self.space.merge(block, other)
        self.ledger.accept(block, other, loss)
        if neighbours is not None:
            neighbours.merge(block, other)

    def first_acceptable(self, block: int, queue: IntArray, width: int) -> Hit | None:
        """Find the first candidate in the queue that is accepted."""
        for chunk in _chunks(queue.size, width):
            others = queue[chunk]
            meets = self.may_meet(block, others)
            if meets.size < others.size:
                others = others[meets]
            if not others.size:
                continue
            # Asked in one vector, not one by one: the first acceptable candidate is the same, and
            # a refusal costs nothing extra.
            losses = self.losses(block, others)
            accepted = np.flatnonzero(losses <= self.limit)
            if accepted.size:
                hit = int(accepted[0])
                self.ledger.n_comparisons += hit + 1
                self.ledger.refuse(block, others[:hit], losses[:hit])
                return Hit(float(losses[hit]), chunk.start + meets[accepted])
            self.ledger.n_comparisons += others.size
            self.ledger.refuse(block, others, losses)
        return None


class Hit(NamedTuple):
    """A candidate that is accepted, with others in sight that would be if they were asked now."""

    loss: float
    positions: IntArray  # in the queue; the first is the accepted one


def _grow_groups(
    judge: _Judge, order: IntArray, neighbours: Neighbours | None, *, restart: bool
) -> MergeHistory:
    space = judge.space
    order = np.asarray(order, dtype=np.intp)
    rank = np.empty(order.size, dtype=np.intp)
    rank[order] = np.arange(order.size)
    free = np.ones(order.size, dtype=bool)
    foresees = space.foresees and neighbours is None and judge.min_correlation <= -1.0
    for seed in order:
        if not free[seed]:
            continue
        block = int(seed)
        free[block] = False
        queue = _queue(block, order[rank[block] + 1 :], free, rank, neighbours)
        space.expect(np.concatenate(([block], queue[:256])), queue)
        if foresees:
            free[_grow_by_runs(judge, block, queue, restart=restart)] = False
        else:
            _grow_by_steps(judge, block, queue, (order, free, rank), neighbours, restart=restart)
        space.retire(block)
    return judge.ledger.close()


def _grow_by_steps(
    judge: _Judge,
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
    while (hit := judge.first_acceptable(block, queue[start:], FIRST_CHUNK)) is not None:
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


def _grow_by_runs(judge: _Judge, block: int, queue: IntArray, *, restart: bool) -> IntArray:
    """Grow one block by runs of predicted merges, each verified before it is made.

    Prediction: the candidates that are acceptable now will be taken in their order. The space
    answers for all the states of that run at once, and the run is cut at the first state in which
    the scan would have done otherwise; so the decisions are those of one step at a time.
    """
    ledger = judge.ledger
    members: list[IntArray] = []
    start, width = 0, FIRST_CHUNK
    while (hit := judge.first_acceptable(block, queue[start:], width)) is not None:
        predicted = start + hit.positions[:LONGEST_RUN]
        taken, losses = _verified_run(judge, block, queue, predicted, restart=restart)
        width = min(WIDEST_RUN, 2 * width) if taken.size >= predicted.size else FIRST_CHUNK
        run = queue[taken]
        judge.space.absorb(block, run)
        for other, loss in zip(run.tolist(), [hit.loss, *losses], strict=True):
            ledger.accept(block, other, loss)
        if restart:
            ledger.forget_refusals(block)
        members.append(run)
        start = 0 if restart else int(taken[-1]) + 1 - taken.size
        queue = np.delete(queue, taken)
    return np.concatenate(members) if members else queue[:0]


def _verified_run(
    judge: _Judge, block: int, queue: IntArray, predicted: IntArray, *, restart: bool
) -> tuple[IntArray, list[float]]:
    """Positions in the queue that the scan takes in turn, and the losses of all but the first."""
    if predicted.size == 1:
        return predicted, []
    first = 0 if restart else int(predicted[0]) + 1
    columns = np.arange(first, int(predicted[-1]) + 1)
    evidence = judge.space.foresee(block, queue[predicted], queue[columns])
    losses = np.asarray(judge.criterion(evidence))[1:]
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
    judge.ledger.refuse_all(losses[:states][asked])
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


def _merge_nearest(
    judge: _Judge, pairs: NearestPairs, neighbours: Neighbours | None
) -> MergeHistory:
    ledger = judge.ledger
    while (pair := pairs.smallest()) is not None:
        block, other, _ = pair
        loss = float(judge.losses(block, np.array([other]))[0])
        if not loss <= judge.limit:
            break
        judge.merge(block, other, loss, neighbours)
        ledger.forget_refusals(block)
        pairs.merged(block, other)
    for block, other, _ in pairs.remaining():
        loss = judge.losses(block, np.array([other]))
        ledger.refuse(block, np.array([other]), loss)
        ledger.refuse(other, np.array([block]), loss)
    return ledger.close()


def _best_first_afresh(judge: _Judge, neighbours: Neighbours | None) -> MergeHistory:
    """Ask every pair again after every merge, because every answer has changed."""
    ledger = judge.ledger
    alive = np.arange(judge.space.n_variables)
    while True:
        best: tuple[float, int, int] | None = None
        for block in map(int, alive):
            later = alive[alive > block]
            others = later if neighbours is None else neighbours.among(block, later)
            losses = judge.all_losses(block, others) if others.size else np.empty(0)
            ledger.n_comparisons += others.size
            if not others.size:
                continue
            nearest = int(np.argmin(losses))
            if losses[nearest] < np.inf and (best is None or losses[nearest] < best[0]):
                best = (float(losses[nearest]), block, int(others[nearest]))
        if best is None:
            break
        loss, block, other = best
        if not loss <= judge.limit:
            ledger.refuse(block, np.array([other]), np.array([loss]))
            ledger.refuse(other, np.array([block]), np.array([loss]))
            break
        judge.merge(block, other, loss, neighbours)
        alive = alive[alive != other]
    return ledger.close()


def _ask_ranked(judge: _Judge, neighbours: Neighbours | None) -> MergeHistory:
    """Go down the list of pairs, a few at a time, and mend it after each merge."""
    space, ledger = judge.space, judge.ledger
    alive = np.ones(space.n_variables, dtype=bool)

    def partners(block: int) -> tuple[IntArray, FloatArray]:
        others = np.flatnonzero(alive) if neighbours is None else neighbours.of(block)
        others = others[others != block]
        strength = space.correlation(block, others)
        meets = np.ones(others.size, bool) if judge.min_correlation <= -1.0 else (
            strength >= judge.min_correlation
        )
        return others[meets], strength[meets]

    firsts, seconds, strengths = [], [], []
    for block in range(space.n_variables):
        others, strength = partners(block)
        later = others > block
        firsts.append(np.full(np.count_nonzero(later), block))
        seconds.append(others[later])
        strengths.append(strength[later])
    pairs = RankedPairs(*(np.concatenate(part) for part in (strengths, firsts, seconds)))
    chunk = FIRST_CHUNK
    while len(pairs):
        first, second = pairs.peek(chunk)
        losses = judge.losses(first, second)
        accepted = losses <= judge.limit
        hit = int(accepted.argmax())
        found = bool(accepted[hit])
        refused = hit if found else losses.size
        ledger.n_comparisons += refused + found
        for block, other, loss in zip(first[:refused], second[:refused], losses, strict=False):
            ledger.refuse(int(block), np.array([other]), np.array([loss]))
            ledger.refuse(int(other), np.array([block]), np.array([loss]))
        pairs.drop(refused + found)
        chunk = FIRST_CHUNK if found else min(2 * chunk, LARGEST_CHUNK)
        if found:
            block, other = int(first[hit]), int(second[hit])
            judge.merge(block, other, float(losses[hit]), neighbours)
            ledger.forget_refusals(block)
            alive[other] = False
            pairs.merged(block, other, *partners(block))
    return ledger.close()


def _chunks(n_candidates: int, width: int) -> Iterator[slice]:
    start = 0
    while start < n_candidates:
        yield slice(start, min(start + width, n_candidates))
        start += width
        width = min(2 * width, LARGEST_CHUNK)
