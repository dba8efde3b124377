"""Which pair of blocks to look at next.

``RankedRows`` where a merge changes only its own pairs, ``RankedPairs`` where it changes every
answer, ``Directions`` where correlations are cheap and questions are not.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from ctfa.core.graph import Neighbours
from ctfa.core.types import AnyArray, BoolArray, FloatArray, IntArray

#: Pairs that a row remembers, at first and at most; doubled each time it has used them up.
SHORTEST_ROW, LONGEST_ROW = 16, 256
#: A key computed again may differ from itself by rounding, and by no more than this.
SLACK = 1e-12
#: Later than any change.
GONE = np.iinfo(np.intp).max
#: Merges after which the first list of ``RankedPairs`` is cleared of pairs that no longer hold.
SWEEP = 32
#: Blocks whose first rows are computed at once.
AT_ONCE = 256
#: Decimals of a correlation: what a product leaves behind them depends on the size of the matrix,
#: and pairs that tie should come in order.
DIGITS = 13
#: Share of directions that may be of blocks that are gone.
GONE_AT_MOST = 0.2

#: One of the pairs that ``RankedPairs`` keeps.
PAIR = np.dtype([("strength", float), ("first", np.intp), ("second", np.intp)])

Keys = Callable[[int, IntArray], FloatArray]


class Pair(NamedTuple):
    """Two blocks, ``first < second``, and to whose row they belong."""

    first: int
    second: int
    key: float
    owner: int


class Row:
    """The first pairs of one block, by key and then by index; those behind are not remembered."""

    __slots__ = (
        *("at", "dropped", "dropped_to", "keys", "others", "reach", "whole", "width"),
        *("ahead", "known"),
    )

    def __init__(
        self, others: IntArray, keys: FloatArray, width: int | None = None, *, whole: bool = True
    ) -> None:
        """Remember the smallest keys, with all that tie with the last of them; others ascend.

        ``whole`` where no pairs were left out before.
        """
        if width is not None and keys.size > width:
            near = keys <= np.partition(keys, width)[width]
            whole = whole and bool(near.all())
            others, keys = others[near], keys[near]
        order = np.argsort(keys, kind="stable")
        others, keys = others[order], keys[order]
        if keys.size and keys[-1] == np.inf:
            finite = int(np.searchsorted(keys, np.inf))
            others, keys, whole = others[:finite], keys[:finite], True
        self.others, self.keys, self.whole = others, keys, whole
        self.at = 0
        #: No pair behind the remembered ones has a smaller key.
        self.reach = float(keys[-1]) if keys.size else -np.inf
        #: Pairs up to this key were dropped, if they still are the row's; of those that have it to
        #: rounding, these others.
        self.dropped_to = -np.inf
        self.dropped: list[tuple[float, int]] = []
        self.width = SHORTEST_ROW
        #: Losses of pairs that were asked before their turn, and how many are asked next.
        self.known: dict[int, float] = {}
        self.ahead = 1

    def drop(self, keys: FloatArray, others: IntArray) -> None:
        """Drop pairs; by the time the row looks again it has used up all it remembers."""
        if not keys.size:
            return
        if self.reach > self.dropped_to:
            self.dropped_to = self.reach
            self.dropped = [pair for pair in self.dropped if pair[0] > self.reach - 2.0 * SLACK]
        near = keys > self.reach - 2.0 * SLACK
        self.dropped += zip(keys[near].tolist(), others[near].tolist(), strict=True)

    def are_left(self, others: IntArray, keys: FloatArray) -> BoolArray:
        """Which pairs, asked about again, were not dropped."""
        left = keys > self.dropped_to - SLACK
        if self.dropped:
            left &= ~np.isin(others, [other for _, other in self.dropped])
        return np.asarray(left)


class RankedRows:
    """The pair of smallest key, first by index among equals.

    A pair belongs to the row of whichever of its blocks changed last, so a merge begins one row
    and ends two, and what other rows remember stays true, less the pairs of blocks that are gone.
    Rows are long and few of their pairs are ever wanted: a row remembers its first pairs and asks
    again when these are used up. Pairs that were dropped need no memory: a row drops its pairs in
    order, so they are those up to the last one dropped. Memory is O(blocks), or O(edges).
    """

    def __init__(
        self,
        n_variables: int,
        keys: Keys,
        neighbours: Neighbours | None,
        rows: Iterable[tuple[int, Row]] | None = None,
        admits: Callable[[int, IntArray], BoolArray] | None = None,
        find: Callable[[int], Row] | None = None,
    ) -> None:
        """Begin with the rows given, or ask for each block's pairs with all earlier ones.

        Infinite keys are pairs that never come up. ``admits`` says which pairs would not be dropped
        if they came up; rows that drop many are told ahead. ``find`` finds a block's first pairs
        with all that changed before it, where a backend ranks them and none is dropped.
        """
        self._keys, self._neighbours, self._admits = keys, neighbours, admits
        self._find = find
        # When each block changed last: at first in the order of their indices, and never again
        # once it is gone. Read one by one, or all at once.
        self._changed = list(range(n_variables))
        self._changes = np.arange(n_variables)
        self._now = n_variables
        self.rows: dict[int, Row] = {}
        self._heap: list[tuple[float, int, int, int, int]] = []
        if rows is None:
            for block in range(1, n_variables):
                self._begin(block)
        else:
            for block, row in rows:
                self._show(block, row)

    def smallest(self) -> Pair | None:
        """Return the pair of smallest key, or None."""
        heap, changed = self._heap, self._changed
        while heap:
            key, first, second, owner, since = heap[0]
            row = self.rows.get(owner)
            if row is None or changed[owner] != since:
                heapq.heappop(heap)
                continue
            if second < 0:
                heapq.heappop(heap)
                self._look_again(owner, row)
                continue
            other = first if second == owner else second
            if changed[other] < since:
                return Pair(first, second, key, owner)
            heapq.heappop(heap)
            row.at += 1
            self._show(owner, row)
        return None

    def next_of(self, owner: int, count: int) -> IntArray:
        """Others of the next pairs that a row remembers, the one it shows first."""
        row = self.rows[owner]
        others = row.others[row.at : row.at + count]
        return np.asarray(others[self._changes[others] < self._changes[owner]])

    def drop(self) -> None:
        """Drop the pair shown last until one of its blocks changes."""
        owner = heapq.heappop(self._heap)[3]
        row = self.rows[owner]
        shown = slice(row.at, row.at + 1)
        row.drop(row.keys[shown], row.others[shown])
        row.at += 1
        self._show(owner, row)

    def merged(self, block: int, other: int) -> None:
        """Record that ``other`` went into ``block``, whose pairs are all new."""
        self.rows.pop(other, None)
        self.rows.pop(block, None)
        self._changed[other] = self._changes[other] = GONE
        self._changed[block] = self._changes[block] = self._now
        self._now += 1
        self._begin(block)

    def _begin(self, block: int) -> None:
        """Find the first pairs of a block with those that changed before it."""
        if self._find is not None:
            self._show(block, self._find(block))
            return
        if self._neighbours is None:
            others, width = np.flatnonzero(self._changes < self._changed[block]), SHORTEST_ROW
        else:  # few, and all remembered
            others, width = self._neighbours.of(block), None
        if others.size:
            self._show(block, Row(others, self._keys(block, others), width))

    def _show(self, block: int, row: Row) -> None:
        """Put the next pair of a row on the heap, or how far it reaches."""
        self.rows[block] = row
        changed, since = self._changed, self._changed[block]
        others = row.others
        while row.at < others.size:
            other = int(others[row.at])
            if changed[other] < since:
                first, second = (block, other) if block < other else (other, block)
                heapq.heappush(self._heap, (float(row.keys[row.at]), first, second, block, since))
                return
            row.at += 1
        if row.whole:
            del self.rows[block]
        else:
            heapq.heappush(self._heap, (row.reach, -1, -1, block, since))

    def _look_again(self, block: int, row: Row) -> None:
        """Remember the next pairs of a row that has used up those it knew."""
        if self._find is not None:
            self._begin(block)
            return
        others = np.flatnonzero(self._changes < self._changed[block])
        keys = self._keys(block, others)
        left = row.are_left(others, keys)
        found = Row(others[left], keys[left], row.width)
        found.width = min(2 * row.width, LONGEST_ROW)
        found.dropped_to, found.dropped = row.dropped_to, row.dropped
        if self._admits is not None and found.others.size:
            passes = self._admits(block, found.others)
            found.drop(found.keys[~passes], found.others[~passes])
            found.others, found.keys = found.others[passes], found.keys[passes]
        self._show(block, found)


class RankedPairs:
    """All pairs, strongest first, for spaces where every merge changes every answer.

    A refused pair is dropped until one of its two blocks changes, so the order never depends on
    the answers. The first list is sorted once; pairs of blocks that have changed since are skipped
    in it and kept in a second, shorter list, the only one that merges have to mend.
    """

    def __init__(
        self, n_variables: int, strength: FloatArray, first: IntArray, second: IntArray
    ) -> None:
        self._first_list = _strongest_first(strength, first, second)
        self._later_list = self._first_list[:0]
        self._head = self._merges = 0
        self._changed = np.zeros(n_variables, dtype=bool)
        self._shown_from_first = np.empty(0, dtype=np.intp)

    def peek(self, count: int) -> tuple[IntArray, IntArray]:
        """Return the next pairs; none when all have been dropped."""
        found: list[IntArray] = []
        missing, start = count, self._head
        while missing > 0 and start < self._first_list.size:
            window = self._first_list[start : start + 4 * count]
            holds = ~(self._changed[window["first"]] | self._changed[window["second"]])
            found.append(start + np.flatnonzero(holds)[:missing])
            missing -= found[-1].size
            start += window.size
        # Positions in the first list of the next pairs whose blocks are as they were.
        at = np.concatenate(found) if found else np.empty(0, dtype=np.intp)
        self._head = int(at[0]) if at.size else self._first_list.size
        later = self._later_list[:count]
        both = np.concatenate((self._first_list[at], later))
        order = np.lexsort((both["second"], both["first"], -both["strength"]))[:count]
        # Where each shown pair came from; -1 for the second list.
        self._shown_from_first = np.concatenate((at, np.full(later.size, -1)))[order]
        return both["first"][order], both["second"][order]

    def drop(self, count: int) -> None:
        """Drop the first of the pairs shown last."""
        gone = self._shown_from_first[:count]
        self._head = max(self._head, int(gone.max(initial=-1)) + 1)
        self._later_list = self._later_list[int(np.count_nonzero(gone < 0)) :]

    def merged(self, block: int, other: int, partners: IntArray, strength: FloatArray) -> None:
        """Replace all pairs of the two blocks by those of the merged one."""
        self._changed[[block, other]] = True
        self._merges += 1
        if self._merges % SWEEP == 0:
            rest = self._first_list[self._head :]
            holds = ~(self._changed[rest["first"]] | self._changed[rest["second"]])
            self._first_list, self._head = rest[holds], 0
        later = self._later_list
        first, second = later["first"], later["second"]
        later = later[(first != block) & (first != other) & (second != block) & (second != other)]
        new = _strongest_first(strength, np.minimum(block, partners), np.maximum(block, partners))
        at = np.searchsorted(-later["strength"], -new["strength"])
        later = np.insert(later, at, new)
        # Found by strength alone: where it ties with a neighbour's, the indices decide.
        placed = at + np.arange(at.size)
        beside = np.concatenate((placed[placed > 0] - 1, placed[placed < later.size - 1]))
        if (later["strength"][beside] == later["strength"][beside + 1]).any():
            later = _strongest_first(later["strength"], later["first"], later["second"])
        self._later_list = later


def _strongest_first(strength: FloatArray, first: IntArray, second: IntArray) -> AnyArray:
    """Pairs of blocks, ``first < second``, in the order of their correlations, then by index."""
    pairs = np.empty(strength.size, dtype=PAIR)
    order = np.lexsort((second, first, -strength))
    pairs["strength"], pairs["first"], pairs["second"] = (
        strength[order],
        first[order],
        second[order],
    )
    return pairs


class Directions:
    """Unit vectors of the blocks that are left."""

    def __init__(self, directions: Callable[[IntArray | slice], FloatArray]) -> None:
        """Take who says the mean targets of blocks, at unit length, zero where constant."""
        self._directions = directions
        self._vectors = np.ascontiguousarray(directions(slice(None)))
        self._slots = np.arange(len(self._vectors))
        self._place = self._slots.copy()  # of each slot among the vectors
        self._gone = np.zeros(self._slots.size, dtype=bool)

    def correlation(self, block: int, others: IntArray) -> FloatArray:
        """Correlation of a block with others."""
        products = self._vectors @ self._vectors[self._place[block]]
        return np.asarray(np.round(products[self._place[others]], DIGITS))

    def merged(self, block: int, other: int) -> None:
        """Record a merge in the space."""
        self._vectors[self._place[block]] = self._directions(np.array([block]))[0]
        self._gone[self._place[other]] = True
        if np.count_nonzero(self._gone) > GONE_AT_MOST * self._gone.size:
            self._slots = self._slots[~self._gone]
            self._vectors = self._vectors[~self._gone]
            self._place[self._slots] = np.arange(self._slots.size)
            self._gone = np.zeros(self._slots.size, dtype=bool)

    def first_rows(self, lowest: float) -> Iterator[tuple[int, Row]]:
        """Strongest pair of each block with an earlier one, by ``-correlation``, before merges."""
        for start in range(0, len(self._vectors), AT_ONCE):
            stop = min(start + AT_ONCE, len(self._vectors))
            products = self._vectors[start:stop] @ self._vectors[:stop].T
            products[:, start:][np.triu_indices(stop - start)] = -np.inf  # not earlier ones
            nearest = products.argmax(axis=1)
            strongest = np.round(products[np.arange(stop - start), nearest], DIGITS)
            for block, other, strength in zip(range(start, stop), nearest, strongest, strict=True):
                if block and strength >= lowest:
                    yield block, Row(np.array([other]), np.array([-strength]), whole=block == 1)
