"""Who comes first, and who may merge with whom."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import TypeAlias

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from ctfa.core.spaces.base import MergeSpace
from ctfa.core.types import IntArray

Order: TypeAlias = Callable[[MergeSpace, np.random.Generator], IntArray]


def given(space: MergeSpace, rng: np.random.Generator) -> IntArray:
    """Return the order of the columns."""
    return np.arange(space.n_variables)


def random(space: MergeSpace, rng: np.random.Generator) -> IntArray:
    """Return a random order, as the paper's text has it."""
    return rng.permutation(space.n_variables)


def correlation(space: MergeSpace, rng: np.random.Generator) -> IntArray:
    """Return the most typical first: by average correlation with all others, descending."""
    return np.argsort(-space.mean_correlation(), kind="stable")


ORDERS: dict[str, Order] = {"given": given, "random": random, "correlation": correlation}


def some_vertices(count: int, most: int, graph: sparse.csr_array | None) -> IntArray:
    """At most so many of all vertices, evenly; with a graph whole neighbourhoods.

    Vertices far apart in a graph would have nobody to merge with. Neighbourhoods grow breadth first
    from vertices evenly among all.
    """
    if count <= most:
        return np.arange(count)
    if graph is None:
        return np.linspace(0, count - 1, most).round().astype(np.intp)
    chosen = np.zeros(count, dtype=bool)
    n_places = max(1, most // NEIGHBOURHOOD)
    for seed in np.linspace(0, count - 1, 2 * n_places + 1)[1::2].round().astype(int).tolist():
        near = csgraph.breadth_first_order(graph, seed, directed=False)[0]
        chosen[near[~chosen[near]][: most // n_places]] = True
    return np.flatnonzero(chosen)


#: Vertices of a neighbourhood.
NEIGHBOURHOOD = 250


class Neighbours:
    """A graph whose vertices merge as blocks do: no edge, no merge; components never join."""

    def __init__(self, graph: sparse.csr_array) -> None:
        self._of: list[set[int]] = [
            set(map(int, graph.indices[start:stop])) - {vertex}
            for vertex, (start, stop) in enumerate(
                zip(graph.indptr, graph.indptr[1:], strict=False)
            )
        ]

    def of(self, block: int) -> IntArray:
        """Blocks next to this one, ascending."""
        return np.array(sorted(self._of[block]), dtype=np.intp)

    def edges(self) -> tuple[IntArray, IntArray]:
        """All pairs of neighbours as they stand, ``first < second``, ascending."""
        count = [len(near) for near in self._of]
        first = np.repeat(np.arange(len(count)), count)
        second = np.fromiter(chain.from_iterable(self._of), dtype=np.intp, count=first.size)
        first, second = first[first < second], second[first < second]
        order = np.lexsort((second, first))
        return first[order], second[order]

    def merge(self, block: int, other: int) -> None:
        """Hand the neighbours of ``other`` to ``block``."""
        moved = self._of[other]
        for neighbour in moved:
            self._of[neighbour].discard(other)
            self._of[neighbour].add(block)
        self._of[block] |= moved
        self._of[block].discard(block)
        self._of[other] = set()
