"""Scans on a graph: the edges are asked many at a time at the start and at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np

from ctfa.core import backend
from ctfa.core.backend import Edges
from ctfa.core.graph import Neighbours
from ctfa.core.history import MergeHistory
from ctfa.core.judge import LARGEST_CHUNK, Judge
from ctfa.core.rows import Pair, RankedRows, Row, first_of
from ctfa.core.types import FloatArray, IntArray

#: Correlations are compared in units of its inverse, 1e-12.
FINEST = 2.0**40


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
        (int(second[start]), first_of(first[start:stop], key[start:stop], None))
        for start, stop in pairwise(bounds)
    )


def taken_by_kernel(judge: Judge, edges: Edges, *, by_loss: bool) -> MergeHistory | None:
    """Have the edges taken in turn by a kernel; None where there is none for the problem."""
    if judge.space.is_guarded:
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
    return None if left is None else refuse_edges(judge, *left)


def refuse_edges(judge: Judge, first: IntArray, second: IntArray) -> MergeHistory:
    """Everybody left has refused their neighbours; say so as they stand now."""
    ledger = judge.ledger
    gone = {other for _, other, _, _ in ledger.merges}
    for leader in set(range(ledger.n_variables)) - gone:
        ledger.forget_refusals(leader)
    for chunk in _slices(first.size):
        losses = judge.all_losses(first[chunk], second[chunk])
        ledger.refuse_pairs(first[chunk], second[chunk], losses)
    return ledger.close()


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


#: Pairs asked at once.
MOST_AHEAD = 64
