"""Pairs of blocks that wait for their turn on a heap, compiled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ctfa.core.types import FloatArray, IntArray
from ctfa.kernels.compiling import compiled

#: A block that is gone changed later than any pair was put on the heap.
GONE = np.iinfo(np.int64).max


class Heap(NamedTuple):
    """Pairs by key and then by index; those that are no more stay until they come up.

    A pair is no more when one of its blocks has changed since. ``changed`` says, for each block,
    after how many merges it last did.
    """

    key: FloatArray
    pair: IntArray  # first * blocks + second, first < second
    since: IntArray  # merges made when the pair was put here
    size: IntArray  # one number


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
