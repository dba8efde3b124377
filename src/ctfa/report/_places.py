"""Where targets are drawn: outlines on a grid of whole numbers, and who lies across each side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial import Delaunay, QhullError

from ctfa.core.types import AnyArray, BoolArray, FloatArray, IntArray
from ctfa.report._material import Places

#: Coordinates are whole numbers up to this: finer than any screen, two bytes each.
GRID = 65535
#: Corners kept of all outlines together: about two megabytes.
MOST_CORNERS = 250_000
#: A ring with no more corners than this keeps them all.
FEWEST = 4


class Drawing(NamedTuple):
    """What the page draws; coordinates in steps of the grid, north up."""

    kind: str  # "outlines", "cells", "dots" or "tiles"
    box: tuple[float, float, float, float]  # west, south, east, north
    squeeze: float  # length of a unit east in units north
    geographic: bool
    corners: IntArray  # (n, 2)
    starts: IntArray  # (rings + 1,)
    owner: IntArray  # (rings,)
    across: IntArray  # (n,): target across the side from a corner to the next; L for nobody
    pairs: IntArray  # (k, 2): dots that touch
    given: int  # corners before they were thinned


def read_places(places: Any, n_targets: int) -> Places:
    """Places from what a user may give: Places, outlines, or positions."""
    known = places if isinstance(places, Places) else guessed(places)
    positions = np.asarray(known.positions, dtype=np.float64)
    if positions.shape != (n_targets, 2):
        raise ValueError(
            f"places has positions of shape {positions.shape} for {n_targets} targets: give one "
            "outline, or one pair of coordinates, for each target in the order of the targets."
        )
    require_known(np.isfinite(positions).all(axis=1))
    if known.outlines is not None and len(known.outlines) != n_targets:
        raise ValueError(
            f"places has {len(known.outlines)} outlines for {n_targets} targets: give the rings "
            "of each target, in the order of the targets."
        )
    return known


def require_known(known: Any) -> None:
    """Refuse places of which some are not known."""
    lost = np.flatnonzero(~np.asarray(known, dtype=bool))
    if lost.size:
        raise ValueError(
            f"place {lost[0]} holds NaN or infinity ({lost.size} such): leave those targets out, "
            "or say where they lie."
        )


def require_outline(number: int, ring: FloatArray) -> None:
    """Refuse what is no outline."""
    if ring.ndim != 2 or ring.shape[1] != 2 or len(ring) < 3:
        raise ValueError(
            f"place {number} has shape {ring.shape}: an outline has three corners or more, each a "
            "pair of numbers; a position is one pair."
        )


def drawing_of(places: Places) -> Drawing:
    """Outlines, cells as outlines, or dots as outlines of one corner."""
    positions = np.asarray(places.positions, dtype=np.float64)
    if places.outlines is not None:
        kind = "outlines"
        each = [[np.asarray(r, dtype=np.float64) for r in rings] for rings in places.outlines]
    elif places.cell is not None:
        half = np.abs(np.asarray(places.cell, dtype=np.float64)) / 2.0
        around = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * half
        kind, each = "cells", [[position + around] for position in positions]
    else:
        kind, each = "dots", [[position[None]] for position in positions]
    for number, ring in enumerate(ring for own in each for ring in own):
        if ring.ndim != 2 or ring.shape[1] != 2 or not np.isfinite(ring).all():
            raise ValueError(
                f"ring {number} of the outlines has shape {ring.shape} or holds NaN: give arrays "
                "of shape (n_corners, 2)."
            )
    rings = Rings.joined(each)
    low, high = rings.corners.min(axis=0), rings.corners.max(axis=0)
    middle = np.clip((low[1] + high[1]) / 2.0, -80.0, 80.0)
    span = np.where(high > low, high - low, 1.0)
    on_grid = np.asarray(np.rint((rings.corners - low) / span * GRID), dtype=np.intp)
    kept = thinned(Rings.of(on_grid, np.diff(rings.starts), rings.owner), MOST_CORNERS)
    is_dots = kind == "dots"
    return Drawing(
        kind,
        box=(float(low[0]), float(low[1]), float(high[0]), float(high[1])),
        squeeze=float(np.cos(np.radians(middle))) if places.geographic else 1.0,
        geographic=places.geographic,
        corners=kept.corners,
        starts=kept.starts,
        owner=kept.owner,
        across=np.empty(0, dtype=np.intp) if is_dots else _across(kept, len(each)),
        pairs=touching_points(positions) if is_dots else np.empty((0, 2), dtype=np.intp),
        given=len(rings.corners),
    )


def tiles_of(order: IntArray) -> Drawing:
    """Targets without places as tiles: row after row in the order of the merge tree.

    Every other row runs backwards, so that the members of any group at any limit touch.
    """
    n_targets = order.size
    n_columns = max(1, int(np.ceil(np.sqrt(1.6 * n_targets))))
    rank = np.empty(n_targets, dtype=np.intp)
    rank[order] = np.arange(n_targets)
    row, column = np.divmod(rank, n_columns)
    column = np.where(row % 2 == 1, n_columns - 1 - column, column)
    where = np.column_stack((column, -row)).astype(np.float64)
    drawn = drawing_of(Places(where, cell=(1.0, 1.0)))
    return drawn._replace(kind="tiles")


def guessed(places: Any) -> Places:
    """Places from a list of outlines, or from positions."""
    if hasattr(places, "to_numpy"):  # a data frame, which would be gone through by its columns
        places = places.to_numpy()
    try:
        each = [np.asarray(place, dtype=np.float64) for place in places]
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"places is {type(places).__name__}: give ctfa.report.Places, a list of outlines of "
            "shape (n_corners, 2), or positions of shape (n_targets, 2)."
        ) from error
    if each and all(place.shape == (2,) for place in each):
        positions = np.stack(each)
        return Places(positions, geographic=_looks_geographic(positions))
    for number, place in enumerate(each):
        require_outline(number, place)
    positions = np.array([place.mean(axis=0) for place in each]).reshape(-1, 2)
    return Places(positions, [[place] for place in each], geographic=_looks_geographic(positions))


def _looks_geographic(positions: FloatArray) -> bool:
    """Whether coordinates can be degrees; say so by ``Places`` where the guess is wrong."""
    return bool((np.abs(positions) <= [360.0, 90.0]).all())


def _across(rings: Rings, n_targets: int) -> IntArray:
    """Who has the same side as each corner and the next."""
    first, second = same_sides(rings.sides(rings.corners[:, 0] * (GRID + 1) + rings.corners[:, 1]))
    owner = rings.owner[rings.ring]
    across = np.full(len(rings.corners), n_targets, dtype=np.intp)
    across[first], across[second] = owner[second], owner[first]
    across[across == owner] = n_targets
    return across


def same_sides(side: IntArray) -> tuple[IntArray, IntArray]:
    """Corners from which the same side goes: each, and the next that has it."""
    order = np.argsort(side, kind="stable")
    same = np.diff(side[order]) == 0
    return order[:-1][same], order[1:][same]


def touching_points(positions: FloatArray) -> IntArray:
    """Pairs of points that are next to each other, each pair once."""
    try:
        corners: AnyArray = Delaunay(positions).simplices
    except (QhullError, ValueError):  # fewer than three, or all in one line
        line = np.lexsort(positions.T[::-1])
        return np.column_stack((line[:-1], line[1:]))
    both = np.concatenate((corners[:, :2], corners[:, 1:], corners[:, ::2]))
    return np.unique(np.sort(both, axis=1), axis=0).astype(np.intp)


@dataclass(frozen=True, eq=False)
class Rings:
    """Closed lines one after another; the corner that closes a line is left out."""

    corners: AnyArray  # (n, 2)
    starts: IntArray  # (rings + 1,)
    owner: IntArray  # (rings,)

    @classmethod
    def joined(cls, each: Sequence[Sequence[FloatArray]]) -> Rings:
        """Every ring of every target."""
        rings = [ring for own in each for ring in own]
        starts = np.cumsum([0, *map(len, rings)])
        owner = np.repeat(np.arange(len(each)), [len(own) for own in each])
        return cls(np.concatenate(rings), starts, owner)

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

    def sides(self, point: IntArray) -> IntArray:
        """Number of the side from each corner to the next; corners of one ``point`` are one."""
        ends = np.sort(np.column_stack((point, point[self.following])), axis=1)
        _, side = np.unique(ends, axis=0, return_inverse=True)
        return np.asarray(side).reshape(-1)

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
