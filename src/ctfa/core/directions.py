"""Correlations of one block with all others, as one product with a matrix kept in one piece."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from ctfa.core.rows import Row
from ctfa.core.spaces.base import MergeSpace
from ctfa.core.types import FloatArray, IntArray

#: Blocks whose first rows are computed at once.
AT_ONCE = 256
#: Decimals of a correlation: what a product leaves behind them depends on the size of the matrix,
#: and pairs that tie should come in order.
DIGITS = 13
#: Share of rows that may be of blocks that are gone.
GONE = 0.2


class DirectedSpace(MergeSpace, Protocol):
    """A space whose correlations are inner products, and whose questions are worth avoiding."""

    def directions(self, blocks: IntArray | slice) -> FloatArray:
        """Mean targets of unit length, zero where constant."""


class Directions:
    """Unit vectors of the blocks that are left."""

    def __init__(self, space: DirectedSpace) -> None:
        self._space = space
        self._vectors = np.ascontiguousarray(space.directions(slice(None)))
        self._slots = np.arange(len(self._vectors))
        self._place = self._slots.copy()  # of each slot among the vectors
        self._gone = np.zeros(self._slots.size, dtype=bool)

    def correlation(self, block: int, others: IntArray) -> FloatArray:
        """Correlation of a block with others."""
        products = self._vectors @ self._vectors[self._place[block]]
        return np.asarray(np.round(products[self._place[others]], DIGITS))

    def merged(self, block: int, other: int) -> None:
        """Take note of a merge in the space."""
        self._vectors[self._place[block]] = self._space.directions(np.array([block]))[0]
        self._gone[self._place[other]] = True
        if np.count_nonzero(self._gone) > GONE * self._gone.size:
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
