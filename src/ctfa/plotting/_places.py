"""Where targets lie: outlines with holes, cells of a grid, or points; and which of them touch."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial import Delaunay, QhullError

from ctfa.core.types import FloatArray, IntArray

#: Corners nearer than this share of the map are one.
SAME = 1e-9
#: Positions farther than this share of a cell from the grid are no grid.
OFF_GRID = 0.05


class Where(NamedTuple):
    """Places as they are drawn."""

    points: FloatArray | None  # (n_targets, 2), where there are no outlines
    rings: list[list[FloatArray]]  # of each target, without the corner that closes them
    geographic: bool
    pairs: IntArray | None = None  # who touches whom, where the places can tell


class Outlines(NamedTuple):
    """Sides of all polygons."""

    ends: FloatArray  # (sides, 2, 2)
    owner: IntArray  # (sides,)
    side: IntArray  # (sides,): the same number where two polygons share it


def read_places(places: Any, n_targets: int) -> Where:
    """Places of any kind: geometries, objects with positions, lists of outlines, pairs."""
    if places is None:
        raise ValueError(
            "it is not known where the targets lie: give places, one outline or one position each."
        )
    if hasattr(places, "geom_type"):  # geopandas, series or frame
        return _of_geometries(places, n_targets)
    if hasattr(places, "positions") and hasattr(places, "outlines"):
        return _of_object(places, n_targets)
    if hasattr(places, "to_numpy"):  # a data frame, which would be gone through by its columns
        places = places.to_numpy()
    _require_number(len(places), n_targets)
    each = [[np.asarray(place, dtype=np.float64)] for place in places]
    if all(place[0].shape == (2,) for place in each):
        points = np.stack([place[0] for place in each])
        _require_finite([[point] for point in points])
        return Where(points, [], geographic=False)
    return Where(None, _checked(each), geographic=False)


def outlines_of(rings: Sequence[Sequence[FloatArray]]) -> Outlines:
    """Every side of every target's rings, the same one of two targets by one number."""
    flat = [ring for own in rings for ring in own]
    of_ring = np.repeat(np.arange(len(rings)), [len(own) for own in rings])
    sizes = np.array([len(ring) for ring in flat])
    corners = np.concatenate(flat)
    following = np.concatenate([np.roll(ring, -1, axis=0) for ring in flat])
    grain = SAME * max(float(np.ptp(corners, axis=0).max()), np.finfo(float).tiny)
    _, number = np.unique(np.rint(corners / grain), axis=0, return_inverse=True)
    number = np.asarray(number).reshape(-1)
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    place = np.arange(len(corners)) - starts
    after = starts + (place + 1) % np.repeat(sizes, sizes)
    sides = np.sort(np.column_stack((number, number[after])), axis=1)
    _, side = np.unique(sides, axis=0, return_inverse=True)
    owner = np.repeat(of_ring, sizes)
    return Outlines(np.stack((corners, following), axis=1), owner, np.asarray(side).reshape(-1))


def is_border(outlines: Outlines, labels: IntArray) -> Any:
    """Sides with one group only on one of their hands: of the map, or of two groups."""
    n_sides = int(outlines.side.max()) + 1
    group = labels[outlines.owner]
    low, high = np.full(n_sides, labels.size), np.full(n_sides, -1)
    np.minimum.at(low, outlines.side, group)
    np.maximum.at(high, outlines.side, group)
    alone = np.bincount(outlines.side, minlength=n_sides) == 1
    return ((low != high) | alone)[outlines.side]


def touching(where: Where, outlines: Outlines | None) -> IntArray:
    """Pairs of places that touch."""
    if where.pairs is not None:
        return where.pairs
    if outlines is not None:
        order = np.argsort(outlines.side, kind="stable")
        same = np.flatnonzero(np.diff(outlines.side[order]) == 0)
        return outlines.owner[np.column_stack((order[same], order[same + 1]))]
    points = where.points
    assert points is not None
    try:
        corners = Delaunay(points).simplices
    except (QhullError, ValueError):  # fewer than three, or all in one line
        line = np.lexsort(points.T[::-1])
        return np.column_stack((line[:-1], line[1:]))
    return np.concatenate((corners[:, :2], corners[:, 1:], corners[:, ::2]))


def areas(rings: Sequence[Sequence[FloatArray]]) -> list[Any]:
    """One path a target; rings within an odd number of others are holes."""
    path = importlib.import_module("matplotlib.path").Path
    found = []
    for own in rings:
        turned = _turned(path, own) if len(own) > 1 else own
        closed = [np.concatenate((ring, ring[:1])) for ring in turned]
        codes = [
            np.array([path.MOVETO, *[path.LINETO] * (len(ring) - 2), path.CLOSEPOLY])
            for ring in closed
        ]
        found.append(path(np.concatenate(closed), np.concatenate(codes)))
    return found


def _turned(path: Any, rings: Sequence[FloatArray]) -> list[FloatArray]:
    """Rings so turned that holes run the other way: what runs both ways is not filled."""
    turned = []
    for number, ring in enumerate(rings):
        # A corner of a hole may lie on the ring around it; the middle of a side seldom does.
        inside = ring[:2].mean(axis=0)
        depth = sum(
            bool(path(other).contains_point(inside)) for k, other in enumerate(rings) if k != number
        )
        turned.append(ring if (_area(ring) > 0.0) == (depth % 2 == 0) else ring[::-1])
    return turned


def _area(ring: FloatArray) -> float:
    """Twice the area, above zero where corners run against the clock."""
    x, y = ring.T - ring.mean(axis=0)[:, None]
    return float(x @ np.roll(y, -1) - y @ np.roll(x, -1))


def _of_geometries(places: Any, n_targets: int) -> Where:
    """Polygons, multipolygons or points of geopandas, in the order of their rows."""
    series = places.geometry
    _require_number(len(series), n_targets)
    crs = getattr(series, "crs", None)
    geographic = crs is not None and bool(crs.is_geographic)
    kinds = sorted({str(kind) for kind in series.geom_type})
    if kinds == ["Point"]:
        points = np.column_stack((series.x, series.y)).astype(float)
        return Where(points, [], geographic)
    if not set(kinds) <= {"Polygon", "MultiPolygon"}:
        raise ValueError(
            f"places holds {', '.join(kinds)}: give polygons (or multipolygons) for all targets, "
            "or points for all."
        )
    each = [
        [
            np.asarray(ring.coords, dtype=np.float64)[:, :2]
            for part in getattr(shape, "geoms", [shape])
            for ring in (part.exterior, *part.interiors)
        ]
        for shape in series
    ]
    # Borders of real areas seldom have the same corners on both hands: the geometries know better.
    pairs = np.asarray(series.sindex.query(series, predicate="intersects")).T
    return Where(None, _checked(each), geographic, pairs[pairs[:, 0] < pairs[:, 1]])


def _of_object(places: Any, n_targets: int) -> Where:
    """Anything with positions, outlines, and the cell of a grid."""
    geographic = bool(getattr(places, "geographic", False))
    if places.outlines is not None:
        _require_number(len(places.outlines), n_targets)
        each = [[np.asarray(ring, dtype=np.float64) for ring in own] for own in places.outlines]
        return Where(None, _checked(each), geographic)
    points = np.asarray(places.positions, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] != 2:
        raise ValueError(f"positions has shape {points.shape}: give two numbers for each target.")
    _require_number(len(points), n_targets)
    _require_finite([[point] for point in points])
    cell = getattr(places, "cell", None)
    if cell is None:
        return Where(points, [], geographic)
    return Where(None, _cells(points, np.asarray(cell, dtype=float)), geographic)


def _cells(points: FloatArray, cell: FloatArray) -> list[list[FloatArray]]:
    """The four corners about each position of a grid."""
    first = points.min(axis=0)
    steps = (points - first) / cell
    # On the grid itself: positions in single precision would part cells that touch.
    if np.abs(steps - np.rint(steps)).max() < OFF_GRID:
        steps = np.rint(steps)
    corner = np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]])
    return [[first + (step + corner) * cell] for step in steps]


def _checked(each: list[list[FloatArray]]) -> list[list[FloatArray]]:
    _require_finite(each)
    for number, own in enumerate(each):
        if not own:
            raise ValueError(f"place {number} has no outline: give one ring or more a target.")
        for ring in own:
            if ring.ndim != 2 or ring.shape[1] != 2 or len(ring) < 3:
                raise ValueError(
                    f"place {number} has shape {ring.shape}: an outline has three corners or more, "
                    "each a pair of numbers; a position is one pair."
                )
    # A corner that closes an outline is not one more corner.
    return [
        [r[:-1] if len(r) > 3 and np.array_equal(r[0], r[-1]) else r for r in own] for own in each
    ]


def _require_number(n_places: int, n_targets: int) -> None:
    if n_places != n_targets:
        raise ValueError(
            f"there are {n_places} places and {n_targets} targets: give one outline or one "
            "position for each target, in the order of the targets."
        )


def _require_finite(each: Sequence[Sequence[FloatArray]]) -> None:
    lost = [k for k, own in enumerate(each) if not all(np.isfinite(ring).all() for ring in own)]
    if lost:
        raise ValueError(
            f"place {lost[0]} holds NaN or infinity ({len(lost)} such): leave those targets out, "
            "or say where they lie."
        )
