"""Which pair of blocks to look at next, where every merge changes every answer."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ctfa.core.types import BoolArray, FloatArray, IntArray

#: Merges after which the first list of ``RankedPairs`` is cleared of pairs that no longer hold.
SWEEP = 32


class RankedPairs:
    """All pairs, strongest first, for spaces where every merge changes every answer.

    A refused pair is dropped until one of its two blocks changes, so the order never depends on
    the answers. The first list is sorted once; pairs of blocks that have changed since are skipped
    in it and kept in a second, shorter list, the only one that merges have to mend.
    """

    def __init__(self, n_variables: int, pairs: PairList) -> None:
        self._first_list = pairs.sorted()
        self._later_list = PairList.empty()
        self._head = self._merges = 0
        self._changed = np.zeros(n_variables, dtype=bool)
        self._shown_from_first = np.empty(0, dtype=np.intp)

    def peek(self, count: int) -> tuple[IntArray, IntArray]:
        """Return the next pairs; none when all have been dropped."""
        at = self._next_unchanged(count)
        later = self._later_list.take(slice(count))
        both = self._first_list.take(at).join(later)
        order = both.order()[:count]
        # Where each shown pair came from; -1 for the second list.
        self._shown_from_first = np.concatenate((at, np.full(later.size, -1)))[order]
        shown = both.take(order)
        return shown.first, shown.second

    def drop(self, count: int) -> None:
        """Drop the first of the pairs shown last."""
        gone = self._shown_from_first[:count]
        self._head = max(self._head, int(gone.max(initial=-1)) + 1)
        self._later_list = self._later_list.take(slice(int(np.count_nonzero(gone < 0)), None))

    def merged(self, block: int, other: int, partners: IntArray, strength: FloatArray) -> None:
        """Replace all pairs of the two blocks by those of the merged one."""
        self._changed[[block, other]] = True
        self._merges += 1
        if self._merges % SWEEP == 0:
            rest = self._first_list.take(slice(self._head, None))
            holds = ~(self._changed[rest.first] | self._changed[rest.second])
            self._first_list, self._head = rest.take(holds), 0
        kept = self._later_list.take(~self._later_list.involves(block, other))
        new = PairList(strength, np.minimum(block, partners), np.maximum(block, partners))
        self._later_list = kept.insert(new.sorted())

    def _next_unchanged(self, count: int) -> IntArray:
        """Positions in the first list of the next pairs whose blocks are as they were."""
        found: list[IntArray] = []
        missing, start = count, self._head
        while missing > 0 and start < self._first_list.size:
            window = self._first_list.take(slice(start, start + 4 * count))
            holds = ~(self._changed[window.first] | self._changed[window.second])
            found.append(start + np.flatnonzero(holds)[:missing])
            missing -= found[-1].size
            start += window.size
        at = np.concatenate(found) if found else np.empty(0, dtype=np.intp)
        self._head = int(at[0]) if at.size else self._first_list.size
        return at


class PairList(NamedTuple):
    """Pairs of blocks, ``first < second``, and how strongly each is correlated."""

    strength: FloatArray
    first: IntArray
    second: IntArray

    @classmethod
    def empty(cls) -> PairList:
        """No pairs."""
        return cls(np.empty(0), np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp))

    @property
    def size(self) -> int:
        """Number of pairs."""
        return int(self.strength.size)

    def take(self, which: slice | IntArray | BoolArray) -> PairList:
        """Some of them."""
        return PairList(self.strength[which], self.first[which], self.second[which])

    def join(self, other: PairList) -> PairList:
        """Put both lists in one."""
        return PairList(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))

    def order(self) -> IntArray:
        """Strongest first, then by index."""
        return np.lexsort((self.second, self.first, -self.strength))

    def sorted(self) -> PairList:
        """All of them in order."""
        return self.take(self.order())

    def insert(self, other: PairList) -> PairList:
        """Insert a short sorted list into this sorted one."""
        at = np.searchsorted(-self.strength, -other.strength)
        joined = PairList(*(np.insert(a, at, b) for a, b in zip(self, other, strict=True)))
        # Found by strength alone: where it ties with a neighbour's, the indices decide.
        new = at + np.arange(at.size)
        beside = np.concatenate((new[new > 0] - 1, new[new < joined.size - 1]))
        tied = joined.strength[beside] == joined.strength[beside + 1]
        return joined.sorted() if tied.any() else joined

    def involves(self, block: int, other: int) -> BoolArray:
        """Which pairs contain one of two blocks."""
        first, second = self.first, self.second
        hits = (first == block) | (first == other) | (second == block) | (second == other)
        return np.asarray(hits)
