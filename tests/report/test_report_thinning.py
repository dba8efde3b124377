"""Outlines with fewer corners fit together as they did before."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctfa.datasets import make_basins
from ctfa.report import Places
from ctfa.report._places import GRID, Rings, drawing_of, read_places, thinned
from generated import examples


def winding(seed, n_basins=40, halvings=4):
    """A map whose borders wind, the same for both neighbours; corners on the grid."""
    basins = make_basins(n_basins, 5, 1, n_regions=2, random_state=seed)
    rng = np.random.default_rng(seed)
    bends = {}

    def between(a, b, depth):
        if depth == 0:
            return []
        one, two = min(a, b), max(a, b)
        if (one, two) not in bends:
            middle = (np.array(one) + two) / 2
            across = np.array([two[1] - one[1], one[0] - two[0]])
            bends[one, two] = tuple(middle + across * rng.uniform(-0.15, 0.15))
        bend = bends[one, two]
        return [*between(a, bend, depth - 1), bend, *between(bend, b, depth - 1)]

    outlines = []
    for polygon in basins.polygons:
        corners = [tuple(corner) for corner in np.round(polygon, 6)]
        ring = []
        for a, b in zip(corners, [*corners[1:], corners[0]], strict=True):
            ring += [a, *between(a, b, halvings)]
        outlines.append(np.array(ring))
    flat = np.concatenate(outlines)
    low, span = flat.min(axis=0), np.ptp(flat, axis=0)
    on_grid = np.rint((flat - low) / span * GRID).astype(np.intp)
    sizes = np.array([len(ring) for ring in outlines])
    return Rings.of(on_grid, sizes, np.arange(n_basins))


def sides(rings):
    """Ends of each side, as points."""
    start = [tuple(corner) for corner in rings.corners]
    return list(zip(start, [start[k] for k in rings.following], strict=True))


def starts_of_edge(rings):
    """Corners from which a side goes that nobody goes back along."""
    there = set(sides(rings))
    return {start for start, end in there if (end, start) not in there}


@settings(max_examples=examples(30))
@given(st.integers(0, 50), st.floats(0.1, 0.9))
def test_no_gap_opens_between_two_outlines(seed, share):
    rings = winding(seed, n_basins=12, halvings=3)
    fewer = thinned(rings, int(share * len(rings.corners)))
    assert len(fewer.corners) <= len(rings.corners)
    # Every side inside the map is gone along once in each direction, as it was; what is gone along
    # only once is the edge of the map.
    for some in (rings, fewer):
        there = sides(some)
        assert len(set(there)) == len(there)
    assert starts_of_edge(fewer) <= starts_of_edge(rings)
    kept = set(map(tuple, fewer.corners))
    for ring in range(len(fewer.owner)):
        before = [tuple(c) for c in rings.corners[rings.starts[ring] : rings.starts[ring + 1]]]
        after = [tuple(c) for c in fewer.corners[fewer.starts[ring] : fewer.starts[ring + 1]]]
        assert after == [corner for corner in before if corner in kept]
        assert len(after) >= 3


def test_the_flattest_corners_go_first():
    square = np.array([[0, 0], [500, 1], [1000, 0], [1000, 1000], [500, 1400], [0, 1000]])
    rings = Rings.of(square, np.array([6]), np.array([0]))
    left = thinned(rings, 5).corners.tolist()
    assert [500, 1] not in left
    assert [500, 1400] in left


def test_where_three_outlines_meet_nothing_moves():
    rings = winding(3)
    points, counts = np.unique(rings.corners, axis=0, return_counts=True)
    meeting = {tuple(point) for point in points[counts > 2]}
    fewer = thinned(rings, 1)
    assert meeting <= set(map(tuple, fewer.corners))
    assert len(fewer.corners) < 0.35 * len(rings.corners)


def test_a_corner_that_closes_a_ring_is_left_out_and_a_point_stays_one():
    corners = np.array([[0, 0], [9, 0], [9, 9], [0, 0], [5, 5], [5, 5], [5, 5]])
    rings = Rings.of(corners, np.array([4, 3]), np.array([0, 1]))
    assert rings.corners.tolist() == [[0, 0], [9, 0], [9, 9], [5, 5]]
    assert rings.starts.tolist() == [0, 3, 4]


def test_targets_may_have_several_rings_or_none():
    outer = np.array([[0.0, 0.0], [4.0, 0.0], [4.0, 4.0], [0.0, 4.0]])
    hole = outer / 4 + 1
    places = Places(np.zeros((3, 2)), [[outer, hole], [hole], []])
    drawing = drawing_of(read_places(places, 3))
    assert drawing.owner.tolist() == [0, 0, 1]
    # The island lies across the sides of the hole.
    assert drawing.across[4:8].tolist() == [1] * 4
    assert drawing.across[8:].tolist() == [0] * 4


def test_a_ring_with_nan_is_refused():
    with pytest.raises(ValueError, match="ring 0"):
        drawing_of(Places(np.zeros((1, 2)), [[np.full((3, 2), np.nan)]]))
