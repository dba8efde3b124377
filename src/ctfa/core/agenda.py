"""Which pair of blocks to look at next, when any two may merge."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ctfa.core.graph import Neighbours
from ctfa.core.types import FloatArray, IntArray


class NearestPairs:
    """The pair of smallest key, for spaces where a merge changes only its own pairs.

    Each block remembers its nearest partner among later blocks. After a merge the other pairs'
    keys stand, so a block whose partner has gone keeps its old key as a lower bound and looks
    again only when that bound comes up as the smallest: O(L) memory, about O(L^2) keys in all.
    """

    def __init__(
        self,
        n_variables: int,
        keys: Callable[[int, IntArray], FloatArray],
        neighbours: Neighbours | None,
    ) -> None:
        self._keys = keys
        self._neighbours = neighbours
        self._alive = np.ones(n_variables, dtype=bool)
        self._key = np.full(n_variables, np.inf)
        self._partner = np.full(n_variables, -1, dtype=np.intp)
        self._fresh = np.ones(n_variables, dtype=bool)
        for block in range(n_variables):
            self._look(block)

    def smallest(self) -> tuple[int, int, float] | None:
        """Return the pair of smallest key (first by index among equals), or None."""
        while self._key.size:
            block = int(np.argmin(self._key))
            key = float(self._key[block])
            if key == np.inf:
                return None
            if self._fresh[block]:
                return block, int(self._partner[block]), key
            self._look(block)
        return None

    def merged(self, block: int, other: int) -> None:
        """Take note that ``other`` went into ``block`` (``block < other``)."""
        self._alive[other] = False
        self._key[other] = np.inf
        orphaned = self._alive & ((self._partner == other) | (self._partner == block))
        self._fresh[orphaned] = False
        others = self._candidates(block)
        keys = self._keys(block, others)
        later = others > block
        self._settle(block, others[later], keys[later])
        earlier, their_keys = others[~later], keys[~later]
        bound = self._key[earlier]
        nearer = (their_keys < bound) | (
            (their_keys == bound) & ((block < self._partner[earlier]) | ~self._fresh[earlier])
        )
        won = earlier[nearer]
        self._key[won], self._partner[won], self._fresh[won] = their_keys[nearer], block, True

    def remaining(self) -> IntArray:
        """Each block left with its nearest later partner, where it has one: ``(pairs, 2)``."""
        for block in np.flatnonzero(self._alive & ~self._fresh):
            self._look(int(block))
        left = np.flatnonzero(self._alive & np.isfinite(self._key))
        return np.column_stack([left, self._partner[left]])

    def _candidates(self, block: int) -> IntArray:
        if self._neighbours is not None:
            return self._neighbours.of(block)
        others = np.flatnonzero(self._alive)
        return np.asarray(others[others != block])

    def _look(self, block: int) -> None:
        others = self._candidates(block)
        others = others[others > block]
        self._settle(block, others, self._keys(block, others) if others.size else np.empty(0))

    def _settle(self, block: int, others: IntArray, keys: FloatArray) -> None:
        self._fresh[block] = True
        if not others.size:
            self._key[block], self._partner[block] = np.inf, -1
            return
        nearest = int(np.argmin(keys))
        self._key[block], self._partner[block] = keys[nearest], others[nearest]


class RankedPairs:
    """All pairs, strongest first, for spaces where every merge changes every answer.

    A refused pair is dropped until one of its two blocks changes, so the order never depends on
    the answers. The list is sorted once and mended at each merge.
    """

    def __init__(self, strength: FloatArray, first: IntArray, second: IntArray) -> None:
        order = np.lexsort((second, first, -strength))
        self._strength = strength[order]
        self._first, self._second = first[order], second[order]
        self._head = 0

    def __len__(self) -> int:
        return int(self._strength.size) - self._head

    def peek(self, count: int) -> tuple[IntArray, IntArray]:
        """Return the next pairs."""
        window = slice(self._head, self._head + count)
        return self._first[window], self._second[window]

    def drop(self, count: int) -> None:
        """Drop pairs that were refused."""
        self._head += count

    def merged(self, block: int, other: int, partners: IntArray, strength: FloatArray) -> None:
        """Replace all pairs of the two blocks by those of the merged one."""
        first, second = self._first[self._head :], self._second[self._head :]
        stays = ~((first == block) | (second == block) | (first == other) | (second == other))
        first, second = first[stays], second[stays]
        old = self._strength[self._head :][stays]
        low, high = np.minimum(block, partners), np.maximum(block, partners)
        order = np.lexsort((high, low, -strength))
        at = np.searchsorted(-old, -strength[order], side="left")
        self._strength = np.insert(old, at, strength[order])
        self._first = np.insert(first, at, low[order])
        self._second = np.insert(second, at, high[order])
        self._head = 0
