"""The order of variables, and which may merge."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeAlias

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from ctfa.core.spaces.base import MergeSpace
from ctfa.core.types import BoolArray, IntArray

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
    """At most this many of all vertices, evenly; with a graph, whole neighbourhoods.

    Vertices far apart in a graph would have no partner to merge with. Neighbourhoods grow breadth
    first from vertices evenly among all.
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
    """A graph whose vertices merge as blocks do: no edge, no merge; components never join.

    Parameters
    ----------
    graph : sparse array of shape (n_variables, n_variables)
        Symmetric; the diagonal is ignored.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from ctfa.core.graph import Neighbours
    >>> path = Neighbours(sparse.csr_array(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])))
    >>> path.of(0)
    array([1])
    >>> path.merge(0, 1)
    >>> path.of(0)
    array([2])
    """

    def __init__(self, graph: sparse.csr_array) -> None:
        self._of: list[set[int]] = [
            set(map(int, graph.indices[start:stop])) - {vertex}
            for vertex, (start, stop) in enumerate(
                zip(graph.indptr, graph.indptr[1:], strict=False)
            )
        ]

    @property
    def n_edges(self) -> int:
        """Number of pairs of neighbours."""
        return sum(map(len, self._of)) // 2

    def of(self, block: int) -> IntArray:
        """Blocks next to this one, ascending."""
        return np.array(sorted(self._of[block]), dtype=np.intp)

    def edges(self) -> tuple[IntArray, IntArray]:
        """All pairs of neighbours, ``first < second``, ascending."""
        count = [len(near) for near in self._of]
        first = np.repeat(np.arange(len(count)), count)
        second = np.fromiter(chain.from_iterable(self._of), dtype=np.intp, count=first.size)
        first, second = first[first < second], second[first < second]
        order = np.lexsort((second, first))
        return first[order], second[order]

    def merge(self, block: int, other: int) -> None:
        """Give the neighbours of ``other`` to ``block``."""
        moved = self._of[other]
        for neighbour in moved:
            self._of[neighbour].discard(other)
            self._of[neighbour].add(block)
        self._of[block] |= moved
        self._of[block].discard(block)
        self._of[other] = set()


@dataclass(frozen=True)
class Wishes:
    """Wishes for groups besides their losses."""

    n_groups: int | None = None
    #: Error above the best that is accepted, as a share; None is one standard error.
    tolerance: float | None = None
    min_size: int = 1
    together: tuple[tuple[int, ...], ...] = ()  # variables of one group, joined before any other
    apart: tuple[tuple[int, int], ...] = ()  # pairs that are never in one group

    @property
    def shape_groups(self) -> bool:
        """Whether wishes change the path itself, not only where it is cut."""
        return self.min_size > 1 or bool(self.together or self.apart)

    @property
    def joins(self) -> list[tuple[int, int]]:
        """Merges that come first."""
        return [(min(group), other) for group in self.together for other in sorted(group)[1:]]

    def __bool__(self) -> bool:
        return self != NO_WISHES

    def of(self, kept: IntArray) -> Wishes:
        """The same of some of the variables."""
        place = {variable: at for at, variable in enumerate(kept.tolist())}
        groups = (tuple(place[one] for one in group if one in place) for group in self.together)
        pairs = ((place.get(a, -1), place.get(b, -1)) for a, b in self.apart)
        return replace(
            self,
            together=tuple(group for group in groups if len(group) > 1),
            apart=tuple(pair for pair in pairs if min(pair) >= 0),
        )


#: Whatever the losses say.
NO_WISHES = Wishes()


#: Tries after which vertices held apart are taken to fit, and number of vertices beyond which
#: nothing is tried.
MOST_TRIES, MOST_HELD = 20_000, 500


def fit_into(apart: dict[int, set[int]], n_groups: int) -> bool:
    """Whether vertices fit into this many groups, no two of a group being held apart."""
    order = sorted(apart, key=lambda one: -len(apart[one]))
    if not order or n_groups > len(apart[order[0]]) or len(order) > MOST_HELD:
        return True
    group: dict[int, int] = {}
    tries = 0

    def place(at: int) -> bool:
        nonlocal tries
        tries += 1
        if at == len(order) or tries > MOST_TRIES:
            return True
        taken = {group[one] for one in apart[order[at]] if one in group}
        # An empty group is as good as any other.
        opened = max(group.values(), default=-1) + 1
        for number in range(min(opened + 1, n_groups)):
            if number not in taken:
                group[order[at]] = number
                if place(at + 1):
                    return True
                del group[order[at]]
        return False

    return place(0)


class Separation:
    """Blocks that may not meet: those held apart, those that are gone and, where small ones are to
    grow, two that have ``least`` members; or one of them, if ``both`` must be small.

    Of at ``most`` so many groups in the end, two may not meet either whose group would leave those
    held apart no room in so many.
    """

    def __init__(
        self,
        n_variables: int,
        apart: Iterable[tuple[int, int]] = (),
        least: int = 1,
        *,
        both: bool = False,
        most: int | None = None,
    ) -> None:
        self._most = most
        self.gone = np.zeros(n_variables, dtype=bool)
        self._sizes, self._least = np.ones(n_variables, dtype=np.intp), least
        self._meet = np.logical_and if both else np.logical_or
        self._apart: dict[int, set[int]] = {}
        for one, other in apart:
            self._apart.setdefault(one, set()).add(other)
            self._apart.setdefault(other, set()).add(one)

    def allows(self, block: int | IntArray, others: IntArray) -> BoolArray:
        """Whether a block may meet each of the others, or pair by pair."""
        allowed = ~(self.gone[others] | self.gone[block])
        if self._least > 1:
            small, smaller = self._sizes[block] < self._least, self._sizes[others] < self._least
            allowed &= self._meet(small, smaller)
        for one in np.unique(block).tolist() if self._apart else []:
            if one in self._apart:
                held = np.isin(others, list(self._apart[one]))
                allowed &= ~(held & (block == one))
        if self._most is not None and self._apart:
            known = [*self._apart]
            for at in np.flatnonzero(allowed & np.isin(block, known) & np.isin(others, known)):
                first = int(block[at]) if isinstance(block, np.ndarray) else block
                allowed[at] = self._leaves_room(first, int(others[at]))
        return np.asarray(allowed)

    def _leaves_room(self, block: int, other: int) -> bool:
        """Whether those held apart fit into so many groups after a merge."""
        most = self._most
        assert most is not None
        both = self._apart[block] | self._apart[other]
        merged = {one: held - {other} for one, held in self._apart.items() if one != other}
        for one in both:
            merged[one] = merged[one] | {block}
        return fit_into(merged | {block: both}, most)

    def merge(self, block: int, other: int) -> None:
        """Record a merge."""
        self.gone[other] = True
        self._sizes[block] += self._sizes[other]
        held = self._apart.pop(other, set())
        for one in held:
            self._apart[one].discard(other)
            self._apart[one].add(block)
        if held:
            self._apart.setdefault(block, set()).update(held)
