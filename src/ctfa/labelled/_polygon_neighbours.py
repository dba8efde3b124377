"""Polygons that share a border, or touch; and places that lie nearest."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from ctfa.core.types import FloatArray, IntArray
from ctfa.labelled._extras import need
from ctfa.labelled._geometry import Geometry

#: Of the diagonal of the map: vertices that near are the same. Files round, and so do projections.
SAME_PLACE = 1e-6
#: Of the size of a typical polygon, where these are tiny on a large map.
SAME_CORNER = 1e-3
#: In those lengths: what is shorter is a corner. Borders part slowly where they meet at a corner.
CORNER = 20
#: In those lengths: an edge that both polygons have, longer than rounding its ends can make it.
EDGE = 3


def border_edges(geometry: Geometry, corners: bool) -> tuple[IntArray, IntArray]:
    """Pairs of polygons with a common border of some length; with ``corners`` all that touch.

    Most borders run along the same vertices on both sides, and these are found by sorting edges.
    What is left of the pairs that touch is measured: how much of the outline of one lies in or on
    the other. Polygons that overlap are so neighbours, too.
    """
    shapely = need("shapely", "Neighbours of polygons")
    shapes, owner = _turned(shapely, geometry)
    near = _tolerance(shapely, shapes)
    tree = shapely.STRtree(shapes)
    first, second = tree.query(shapes, predicate="dwithin", distance=near)
    once = (first < second) & (owner[first] != owner[second])
    first, second = first[once], second[once]
    if not corners:
        shared = _shared_edges(shapely, shapes, first, second, near)
        # Both have this edge, however short; what is measured may be a corner, seen from near by.
        keep = shared > EDGE * near
        unsure = np.flatnonzero(~keep)
        measured = _measured(shapely, shapes, first[unsure], second[unsure], near)
        keep[unsure] = measured > CORNER * near
        first, second = first[keep], second[keep]
    return owner[first], owner[second]


def _turned(shapely: Any, geometry: Geometry) -> tuple[Any, IntArray]:
    """Shapes, those at the western edge of a world map once more at its eastern edge."""
    shapes = geometry.shapes
    owner = np.arange(len(shapes))
    if not geometry.is_geographic:
        return shapes, owner
    bounds = shapely.bounds(shapes)
    west, east = bounds[:, 0].min(), bounds[:, 2].max()
    slack = 360 * SAME_PLACE
    if east - west < 360 - slack:
        return shapes, owner
    edge = np.flatnonzero(bounds[:, 0] <= west + slack)
    again = shapely.transform(shapes[edge], lambda points: points + np.array([360.0, 0.0]))
    return np.concatenate([shapes, again]), np.concatenate([owner, edge])


def _tolerance(shapely: Any, shapes: Any) -> float:
    bounds = shapely.bounds(shapes)
    diagonal = np.hypot(*(bounds[:, 2:].max(axis=0) - bounds[:, :2].min(axis=0)))
    size = np.median(np.hypot(bounds[:, 2] - bounds[:, 0], bounds[:, 3] - bounds[:, 1]))
    return float(max(min(SAME_PLACE * diagonal, SAME_CORNER * size), 1e-9 * diagonal))


def _shared_edges(
    shapely: Any, shapes: Any, first: IntArray, second: IntArray, near: float
) -> FloatArray:
    """Length of the edges that two polygons have between the same two vertices, for each pair."""
    parts, of_shape = shapely.get_parts(shapes, return_index=True)
    rings, of_part = shapely.get_rings(parts, return_index=True)
    points, of_ring = shapely.get_coordinates(rings, return_index=True)
    rounded = np.rint((points - points.min(axis=0)) / near).astype(np.uint64)
    corner = (rounded[:, 0] << np.uint64(32)) | rounded[:, 1]
    within = of_ring[1:] == of_ring[:-1]
    start, end = corner[:-1][within], corner[1:][within]
    low, high = np.minimum(start, end), np.maximum(start, end)
    length = np.hypot(*(points[1:] - points[:-1])[within].T)
    owner = of_shape[of_part[of_ring[:-1][within]]]
    order = np.lexsort((high, low))
    low, high, length, owner = low[order], high[order], length[order], owner[order]
    same = (low[1:] == low[:-1]) & (high[1:] == high[:-1]) & (owner[1:] != owner[:-1])
    one, two = owner[:-1][same], owner[1:][same]
    n_shapes = np.int64(len(shapes))
    found = np.minimum(one, two) * n_shapes + np.maximum(one, two)
    asked = first * n_shapes + second
    known = np.argsort(asked)
    at = np.searchsorted(asked, found, sorter=known)
    there = at < asked.size
    there[there] = asked[known[at[there]]] == found[there]
    total = np.bincount(known[at[there]], length[:-1][same][there], minlength=asked.size)
    return np.asarray(total, dtype=np.float64)


def _measured(
    shapely: Any, shapes: Any, first: IntArray, second: IntArray, near: float
) -> FloatArray:
    """How much of the outline of one polygon lies in or on the other, the longer way."""
    if not first.size:
        return np.zeros(0)
    bounds = shapely.bounds(shapes)
    low = np.maximum(bounds[first, :2], bounds[second, :2]) - 2 * CORNER * near
    high = np.minimum(bounds[first, 2:], bounds[second, 2:]) + 2 * CORNER * near
    # Only where both are: outlines have many vertices, and a common corner needs few of them.
    common = shapely.box(*low.T, *high.T)
    one = shapely.intersection(shapely.boundary(shapes[first]), common)
    two = shapely.intersection(shapely.boundary(shapes[second]), common)
    fat_one = shapely.buffer(shapely.intersection(shapes[first], common), near, quad_segs=2)
    fat_two = shapely.buffer(shapely.intersection(shapes[second], common), near, quad_segs=2)
    return np.asarray(
        np.maximum(
            shapely.length(shapely.intersection(one, fat_two)),
            shapely.length(shapely.intersection(two, fat_one)),
        )
    )


def nearest_edges(positions: FloatArray, k: int, geographic: bool) -> tuple[IntArray, IntArray]:
    """Each place with the k nearest to it: on the globe where positions are degrees."""
    n_places = len(positions)
    if geographic:
        east, north = np.radians(positions).T
        # Chords are in the order of great circles, and a tree knows chords.
        positions = np.column_stack(
            [np.cos(north) * np.cos(east), np.cos(north) * np.sin(east), np.sin(north)]
        )
    near = np.asarray(cKDTree(positions).query(positions, k=k + 1)[1], dtype=np.intp)
    own = np.arange(n_places)[:, None]
    # Itself is among them unless others lie on the same spot; then the last gives way.
    drop = near == own
    drop[~drop.any(axis=1), -1] = True
    return np.repeat(np.arange(n_places), k), near[~drop]
