"""Where targets are drawn: outlines on a grid of whole numbers, and what lies across each side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
#: Positions farther than this share of a cell from the grid are not on a grid.
OFF_GRID = 0.05


class Drawing(NamedTuple):
    """What the page draws; coordinates in steps of the grid, north up."""

    kind: str  # "outlines", "cells", "dots" or "tiles"
    box: tuple[float, float, float, float]  # west, south, east, north
    squeeze: float  # length of a unit east in units north
    geographic: bool
    corners: IntArray  # (n, 2)
    starts: IntArray  # (rings + 1,)
    owner: IntArray  # (rings,)
    across: IntArray  # (n,): target across the side from a corner to the next; L for none
    pairs: IntArray  # (k, 2): dots that touch


def read_places(places: Any, n_targets: int) -> Places:
    """Places from what a user may give: geometries, an object like Places, outlines, positions."""
    if places is None:
        raise ValueError(
            "it is not known where the targets lie: give places, one outline or one position each."
        )
    if hasattr(places, "geom_type"):  # of geopandas, series or frame
        known = _of_geometries(places.geometry)
    elif hasattr(places, "positions") and hasattr(places, "outlines"):
        cell, geographic = getattr(places, "cell", None), getattr(places, "geographic", False)
        known = Places(places.positions, places.outlines, cell, bool(geographic))
    else:
        known = _guessed(places)
    positions = np.asarray(known.positions, dtype=np.float64)
    if positions.ndim != 2 or positions.shape[1] != 2:
        raise ValueError(
            f"positions has shape {positions.shape}: give two numbers for each target."
        )
    for each in (positions, known.outlines):
        if each is not None and len(each) != n_targets:
            raise ValueError(
                f"there are {len(each)} places and {n_targets} targets: give one outline or one "
                "position for each target, in the order of the targets."
            )
    lost = np.flatnonzero(~np.isfinite(positions).all(axis=1))
    if lost.size:
        raise ValueError(
            f"place {lost[0]} holds NaN or infinity ({lost.size} such): leave those targets out, "
            "or say where they lie."
        )
    return replace(known, positions=positions)


def _of_geometries(series: Any) -> Places:
    """Polygons, multipolygons or points of geopandas, in the order of their rows."""
    crs = getattr(series, "crs", None)
    geographic = crs is not None and bool(crs.is_geographic)
    kinds = sorted({str(kind) for kind in series.geom_type})
    if kinds == ["Point"]:
        return Places(np.column_stack((series.x, series.y)), geographic=geographic)
    if not set(kinds) <= {"Polygon", "MultiPolygon"}:
        raise ValueError(
            f"places holds {', '.join(kinds)}: give polygons (or multipolygons) for all targets, "
            "or points for all."
        )
    outlines = [
        [
            np.asarray(ring.coords, dtype=np.float64)[:, :2]
            for part in getattr(shape, "geoms", [shape])
            for ring in (part.exterior, *part.interiors)
        ]
        for shape in series
    ]
    positions = np.array([np.concatenate(rings).mean(axis=0) for rings in outlines])
    return Places(positions, outlines, geographic=geographic)


def _guessed(places: Any) -> Places:
    """Places from a list of outlines, or from positions; degrees where they can be degrees."""
    if hasattr(places, "to_numpy"):  # a data frame, which would be gone through by its columns
        places = places.to_numpy()
    try:
        each = [np.asarray(place, dtype=np.float64) for place in places]
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"places is {type(places).__name__}: give ctfa.report.Places, a list of outlines of "
            "shape (n_corners, 2), or positions of shape (n_targets, 2)."
        ) from error
    are_positions = bool(each) and all(place.shape == (2,) for place in each)
    for number, ring in enumerate([] if are_positions else each):
        if ring.ndim != 2 or ring.shape[1] != 2 or len(ring) < 3:
            raise ValueError(
                f"place {number} has shape {ring.shape}: an outline has three corners or more, "
                "each a pair of numbers; a position is one pair."
            )
    positions = [place if are_positions else place.mean(axis=0) for place in each]
    where = np.array(positions).reshape(-1, 2)
    outlines = None if are_positions else [[place] for place in each]
    geographic = bool((np.abs(where) <= [360.0, 90.0]).all())
    return Places(where, outlines, geographic=geographic)


def rings_of(places: Places) -> list[list[FloatArray]]:
    """Rings of each target: of outlines, the cell about each position, or the position alone."""
    positions = np.asarray(places.positions, dtype=np.float64)
    if places.outlines is None and places.cell is None:
        return [[position[None]] for position in positions]
    if places.outlines is None:
        cell, first = np.abs(np.asarray(places.cell, dtype=np.float64)), positions.min(axis=0)
        steps = (positions - first) / cell
        # On the grid itself: positions in single precision would part cells that touch.
        if np.abs(steps - np.rint(steps)).max() < OFF_GRID:
            steps = np.rint(steps)
        corner = np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]])
        return [[first + (step + corner) * cell] for step in steps]
    each = [[np.asarray(r, dtype=np.float64) for r in rings] for rings in places.outlines]
    for number, ring in enumerate(ring for rings in each for ring in rings):
        if ring.ndim != 2 or ring.shape[1] != 2 or len(ring) < 3 or not np.isfinite(ring).all():
            raise ValueError(
                f"ring {number} of the outlines has shape {ring.shape} or holds NaN: give arrays "
                "of shape (n_corners, 2), of three corners or more."
            )
    return [[r[:-1] if np.array_equal(r[0], r[-1]) else r for r in rings] for rings in each]


def drawing_of(places: Places) -> Drawing:
    """Outlines, cells as outlines, or dots as outlines of one corner."""
    kind = "cells" if places.outlines is None else "outlines"
    if places.outlines is None and places.cell is None:
        kind = "dots"
    rings = Rings.joined(rings_of(places))
    low, high = rings.corners.min(axis=0), rings.corners.max(axis=0)
    middle = np.clip((low[1] + high[1]) / 2.0, -80.0, 80.0)
    span = np.where(high > low, high - low, 1.0)
    on_grid = np.asarray(np.rint((rings.corners - low) / span * GRID), dtype=np.intp)
    kept = thinned(Rings.of(on_grid, np.diff(rings.starts), rings.owner), MOST_CORNERS)
    across, pairs = np.empty(0, dtype=np.intp), np.empty((0, 2), dtype=np.intp)
    if kind == "dots":
        pairs = touching_points(np.asarray(places.positions, dtype=np.float64))
    else:
        across = _across(kept, len(places.positions))
    return Drawing(
        kind,
        box=(float(low[0]), float(low[1]), float(high[0]), float(high[1])),
        squeeze=float(np.cos(np.radians(middle))) if places.geographic else 1.0,
        geographic=places.geographic,
        corners=kept.corners,
        starts=kept.starts,
        owner=kept.owner,
        across=across,
        pairs=pairs,
    )


def tiles_of(order: IntArray) -> Drawing:
    """Targets without places as tiles: row after row in the order of the merge tree.

    Every other row runs backwards, so that the members of any group at any limit touch.
    """
    n_columns = max(1, int(np.ceil(np.sqrt(1.6 * order.size))))
    row, column = np.divmod(np.argsort(order), n_columns)
    column = np.where(row % 2 == 1, n_columns - 1 - column, column)
    where = np.column_stack((column, -row)).astype(np.float64)
    return drawing_of(Places(where, cell=(1.0, 1.0)))._replace(kind="tiles")


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


def are_one(at: IntArray, values: IntArray, n_places: int) -> BoolArray:
    """Whether all values that fall on a place are the same."""
    low, high = np.full(n_places, values.max(initial=0)), np.full(n_places, values.min(initial=0))
    np.minimum.at(low, at, values)
    np.maximum.at(high, at, values)
    return np.asarray(low == high)


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
        owner = np.repeat(np.arange(len(each)), [len(own) for own in each])
        return cls(np.concatenate(rings), np.cumsum([0, *map(len, rings)]), owner)

    @classmethod
    def of(cls, corners: IntArray, sizes: IntArray, owner: IntArray) -> Rings:
        """Drop corners that the next repeats, as those that close a ring are."""
        rings = cls(corners, np.cumsum([0, *sizes]), owner)
        again = (corners == corners[rings.following]).all(axis=1)
        # An area smaller than the grid is a point, and stays one.
        alone = np.bincount(rings.ring, weights=~again, minlength=sizes.size) == 0
        again[rings.starts[:-1][alone & (sizes > 0)]] = False
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

    def sides(self, point: IntArray) -> IntArray:
        """Number of the side from each corner to the next; corners of one ``point`` are one."""
        ends = np.sort(np.column_stack((point, point[self.following])), axis=1)
        _, side = np.unique(ends, axis=0, return_inverse=True)
        return np.asarray(side).reshape(-1)

    def keep(self, kept: BoolArray) -> Rings:
        """Some of the corners."""
        sizes = np.bincount(self.ring[kept], minlength=self.owner.size)
        return Rings(self.corners[kept], np.cumsum([0, *sizes]), self.owner)


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
    here, following = rings.corners, rings.following
    _, node = np.unique(here[:, 0] << 32 | here[:, 1], return_inverse=True)
    node = np.asarray(node).reshape(-1)
    n_nodes, preceding = int(node.max()) + 1, np.argsort(following)
    before, after = node[preceding], node[following]
    removable = are_one(node, np.minimum(before, after), n_nodes)
    removable &= are_one(node, np.maximum(before, after), n_nodes)
    small = np.diff(rings.starts)[rings.ring] <= FEWEST
    removable[node[small]] = False
    one, two = here[preceding] - here, here[following] - here
    area = np.empty(n_nodes, dtype=here.dtype)  # twice that of a corner and those beside it
    area[node] = np.abs(one[:, 0] * two[:, 1] - one[:, 1] * two[:, 0])
    candidates = np.flatnonzero(removable)
    # Of equal areas the first goes: a rank that is never the same for two.
    order = candidates[np.argsort(area[candidates], kind="stable")]
    place = np.full(n_nodes, n_nodes)
    place[order] = np.arange(order.size)
    # Only the flattest part of what is too much, so that flatness is judged again soon.
    flat = place[node] < max(n_wanted, 1)
    lowest = (place[node] < place[before]) & (place[node] < place[after])
    chosen = np.zeros(n_nodes, dtype=bool)
    chosen[node[flat & lowest]] = True
    # A point that is lowest in one ring is so in all: they have the same neighbours.
    return np.asarray(chosen[node])
