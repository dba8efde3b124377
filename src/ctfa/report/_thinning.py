"""Fewer corners in many outlines, without a gap opening between any two of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ctfa.core.types import BoolArray, IntArray

#: A ring with no more corners than this keeps them all.
FEWEST = 4


@dataclass(frozen=True, eq=False)
class Rings:
    """Closed lines one after another, on a grid; the corner that closes a line is left out."""

    corners: IntArray  # (n, 2)
    starts: IntArray  # (rings + 1,)
    owner: IntArray  # (rings,)

    @classmethod
    def of(cls, corners: IntArray, sizes: IntArray, owner: IntArray) -> Rings:
        """Drop corners that the next repeats, as those that close a ring are."""
        starts = np.concatenate(([0], np.cumsum(sizes))).astype(np.intp)
        rings = cls(corners, starts, owner)
        again = (corners == corners[rings.following]).all(axis=1)
        # An area smaller than the grid is a point, and stays one.
        alone = np.bincount(rings.ring, weights=~again, minlength=sizes.size) == 0
        again[starts[:-1][alone & (sizes > 0)]] = False
        return rings.keep(~again)

    @cached_property
    def ring(self) -> IntArray:
        """Ring of each corner."""
        return np.repeat(np.arange(self.owner.size), np.diff(self.starts))

    @cached_property
    def following(self) -> IntArray:
        """Position of the corner after each."""
        after = np.arange(1, len(self.corners) + 1)
        full = np.diff(self.starts) > 0
        after[self.starts[1:][full] - 1] = self.starts[:-1][full]
        return after

    @cached_property
    def preceding(self) -> IntArray:
        """Position of the corner before each."""
        before = np.empty(len(self.corners), dtype=np.intp)
        before[self.following] = np.arange(len(self.corners))
        return before

    def keep(self, kept: BoolArray) -> Rings:
        """Some of the corners."""
        sizes = np.bincount(self.ring[kept], minlength=self.owner.size)
        starts = np.concatenate(([0], np.cumsum(sizes))).astype(np.intp)
        return Rings(self.corners[kept], starts, self.owner)


def thinned(rings: Rings, at_most: int) -> Rings:
    """Take corners off, the flattest first, until so many are left or no more can go.

    A point goes only if every ring that has it runs through the same two points beside it, and then
    from all of them at once: borders stay common, and where three areas meet nothing moves.
    """
    while len(rings.corners) > at_most:
        goes = _flattest(rings, len(rings.corners) - at_most)
        if not goes.any():
            break
        rings = rings.keep(~goes)
    return rings


def _flattest(rings: Rings, n_wanted: int) -> BoolArray:
    """Corners to take off in one round: no two of them side by side."""
    key = rings.corners[:, 0] << 32 | rings.corners[:, 1]
    _, node = np.unique(key, return_inverse=True)
    node = np.asarray(node).reshape(-1)
    n_nodes = int(node.max()) + 1
    before, after = node[rings.preceding], node[rings.following]
    low, high = np.minimum(before, after), np.maximum(before, after)
    removable = np.ones(n_nodes, dtype=bool)
    for side in (low, high):
        least, most = np.full(n_nodes, n_nodes), np.full(n_nodes, -1)
        np.minimum.at(least, node, side)
        np.maximum.at(most, node, side)
        removable &= least == most
    small = np.diff(rings.starts)[rings.ring] <= FEWEST
    removable[node[small]] = False
    area = _area(rings)
    rank = np.full(n_nodes, np.iinfo(np.int64).max)
    rank[node] = area
    candidates = np.flatnonzero(removable)
    # Of equal areas the first goes: a rank that is never the same for two.
    order = candidates[np.argsort(rank[candidates], kind="stable")]
    place = np.full(n_nodes, n_nodes)
    place[order] = np.arange(order.size)
    # Only the flattest part of what is too much, so that flatness is judged again soon.
    flat = place[node] < max(n_wanted, 1)
    lowest = (place[node] < place[before]) & (place[node] < place[after])
    chosen = np.zeros(n_nodes, dtype=bool)
    chosen[node[flat & lowest]] = True
    # A point that is lowest in one ring is so in all: they have the same neighbours.
    return np.asarray(chosen[node])


def _area(rings: Rings) -> IntArray:
    """Twice the area of the triangle of each corner and those beside it."""
    here = rings.corners
    one = rings.corners[rings.preceding] - here
    two = rings.corners[rings.following] - here
    return np.asarray(np.abs(one[:, 0] * two[:, 1] - one[:, 1] * two[:, 0]))
