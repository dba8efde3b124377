"""Who may merge with whom, from whatever says so."""

import gzip
import io
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from ctfa.labelled._places import Geometry, components, islands, read_neighbours
from labelled_tasks import cells, stacked, tasks_along

pd = pytest.importorskip("pandas", reason="labels need pandas")
pytest.importorskip("xarray", reason="labelled data need xarray")
geopandas = pytest.importorskip("geopandas", reason="maps need geopandas")
import shapely  # noqa: E402
from shapely.geometry import MultiPolygon, Point, Polygon, box  # noqa: E402

ABC = ["a", "b", "c", "d"]


def edges(graph):
    """Pairs of neighbours; the graph is as promised."""
    assert isinstance(graph, sparse.csr_array)
    dense = graph.toarray()
    assert dense.dtype == np.float64
    np.testing.assert_array_equal(dense, dense.T)
    assert not dense.diagonal().any()
    assert set(np.unique(graph.data)) <= {1.0}
    return {(int(i), int(j)) for i, j in np.argwhere(dense) if i < j}


def refusal(neighbours, tasks, geometry=None):
    with pytest.raises(ValueError, match=r"\.$") as refused:
        read_neighbours(neighbours, tasks, geometry)
    text = str(refused.value)
    assert "\n" not in text
    assert text.count(". ") - text.count("e.g. ") == 0, "one sentence"
    return text


def by_definition(tasks, corners, around):
    """Cells whose steps along both axes are 0 or 1, one of each pair; slow on purpose."""
    rows, columns = tasks.places
    found = set()
    for i in range(tasks.n_tasks):
        for j in range(i):
            down, right = abs(rows[i] - rows[j]), abs(columns[i] - columns[j])
            right = min(right, tasks.shape[1] - right) if around else right
            if max(down, right) == 1 and (corners or down + right == 1):
                found.add((j, i))
    return found


@st.composite
def grids(draw):
    n_rows, n_columns = draw(st.integers(1, 5)), draw(st.integers(3, 7))
    around = draw(st.booleans())
    step = 360 / n_columns if around else draw(st.sampled_from([0.25, 1.0, 2.5]))
    start = draw(st.sampled_from([-180.0, 0.0, 0.125, 100.0]))
    rows = np.linspace(50, 30, n_rows) if draw(st.booleans()) else np.linspace(-80, 80, n_rows)
    columns = start + step * np.arange(n_columns)
    columns = columns.astype(draw(st.sampled_from([np.float32, np.float64])))
    places = [(i, j) for i in range(n_rows) for j in range(n_columns)]
    masked = draw(st.sets(st.sampled_from(places), max_size=len(places) - 1))
    return cells(rows, columns, masked), around


@given(grids(), st.booleans())
def test_cells_of_a_grid_have_the_neighbours_of_the_definition(grid, corners):
    tasks, around = grid
    graph = read_neighbours("queen" if corners else "rook", tasks)
    assert edges(graph) == by_definition(tasks, corners, around)


def test_longitudes_close_only_where_they_go_round_the_globe():
    rows = [0.0]
    assert len(edges(read_neighbours("rook", cells(rows, np.arange(0, 360, 10.0))))) == 36
    assert len(edges(read_neighbours("rook", cells(rows, np.arange(0, 350, 10.0))))) == 34
    in_metres = cells(rows, np.arange(0, 360, 10.0), dims=("y", "x"))
    assert len(edges(read_neighbours("rook", in_metres))) == 35
    # Both ends are the same meridian.
    assert len(edges(read_neighbours("rook", cells(rows, np.arange(0, 361, 10.0))))) == 36


def test_a_dimension_is_longitude_by_its_name_or_by_what_is_said_of_it():
    import xarray as xr

    from ctfa.labelled._tasks import Coordinates, LabelledTasks

    for attrs, n_edges in (({}, 3), ({"units": "degrees_east"}, 4)):
        data = xr.Dataset(coords={"j": [0.0], "i": ("i", [0.0, 90.0, 180.0, 270.0], attrs)})
        tasks = LabelledTasks(("j", "i"), Coordinates.of(data, ("j", "i")), np.arange(4))
        assert len(edges(read_neighbours("queen", tasks))) == n_edges


def test_a_map_across_the_meridian_is_not_torn():
    tasks = cells([0.0], [350.0, 355.0, 0.0, 5.0])
    assert edges(read_neighbours("rook", tasks)) == {(0, 1), (1, 2), (2, 3)}
    tasks = cells([0.0], [0.0, 5.0, 350.0, 355.0])
    assert edges(read_neighbours("rook", tasks)) == {(0, 1), (2, 3), (0, 3)}


@st.composite
def windows(draw):
    """The same columns as -180..180 and as 0..360, sorted as files have them, and whether round."""
    step = draw(st.sampled_from([0.05, 0.25, 0.5, 1.0, 1.25, 2.5, 5.0, 10.0, 45.0]))
    around = round(360 / step)
    n_columns = min(draw(st.integers(2, 40)), around)
    if around <= 144:
        n_columns = draw(st.sampled_from([n_columns, around, max(2, around - 1)]))
    first = draw(st.one_of(st.integers(-40, 5), st.integers(-around, around)))
    west = (first + draw(st.sampled_from([0.0, 0.5])) + np.arange(n_columns)) * step
    precision = draw(st.sampled_from([np.float32, np.float64]))
    return west, n_columns == around, precision


@given(windows(), st.sampled_from(["rook", "queen"]), st.booleans())
def test_a_window_has_the_same_neighbours_in_both_conventions(window, kind, listed):
    west, around, precision = window
    expected = by_definition(cells([10.0, 11.0], west), kind == "queen", around and west.size > 2)
    for turned in (west % 360.0, (west + 180.0) % 360.0 - 180.0):
        order = np.argsort(turned)
        tasks = cells([10.0, 11.0], turned[order].astype(precision))
        number = np.concatenate([order, order + west.size])
        graph = read_neighbours(kind, stacked(tasks) if listed else tasks)
        found = {tuple(sorted((int(number[i]), int(number[j])))) for i, j in edges(graph)}
        assert found == expected


@given(grids(), st.booleans())
def test_stacked_cells_have_the_same_neighbours_where_their_steps_can_be_told(grid, corners):
    tasks, _ = grid
    kind = "queen" if corners else "rook"
    rows, columns = tasks.places
    steps_are_there = all(
        n == 1 or (np.diff(np.unique(p)) == 1).any()
        for n, p in zip(tasks.shape, (rows, columns), strict=True)
    )
    if not steps_are_there:  # two columns far apart look like two that are wide
        return
    assert edges(read_neighbours(kind, stacked(tasks))) == edges(read_neighbours(kind, tasks))


@pytest.mark.parametrize("start", [0.0, -180.0])
@pytest.mark.parametrize("precision", ["f4", "f8"])
def test_stacked_cells_close_round_the_globe_in_both_conventions(start, precision):
    longitudes = (start + 0.1 * np.arange(3600)).astype(precision)
    row = cells([35.1], longitudes)
    for tasks in (row, stacked(row)):
        graph = read_neighbours("rook", tasks)
        assert (graph.sum(axis=1) == 2).all()
        assert graph[0, 3599] == 1


def test_stacked_cells_are_no_neighbours_across_a_column_that_is_absent():
    tasks = stacked(cells([0.0, 1.0], [0.0, 1.0, 2.0, 3.0], masked=[(0, 2), (1, 2)]))
    assert edges(read_neighbours("rook", tasks)) == {(0, 1), (3, 4), (0, 3), (1, 4), (2, 5)}


def test_stacked_cells_of_a_gaussian_grid_are_neighbours():
    rows = [-85.76, -80.27, -74.745, -69.213]
    tasks = stacked(cells(rows, np.arange(0, 360, 45.0)))
    assert len(edges(read_neighbours("rook", tasks))) == 4 * 8 + 3 * 8


def test_rook_needs_a_grid():
    text = refusal("rook", tasks_along("basin", ABC))
    assert "along 'basin' alone" in text


def lattice(n, shuffle=None):
    """Squares of an n by n board, as shapes."""
    shapes = np.array([box(j, i, j + 1, i + 1) for i in range(n) for j in range(n)])
    return shapes if shuffle is None else shapes[shuffle]


def geometry(shapes, crs=None):
    return Geometry.of(geopandas.GeoSeries(list(shapes), crs=crs))


@pytest.mark.parametrize(("kind", "on_grid"), [("border", "rook"), ("touch", "queen")])
def test_polygons_of_a_board_have_the_neighbours_of_its_cells(kind, on_grid):
    board = cells(np.arange(5.0), np.arange(5.0), dims=("y", "x"))
    tasks = tasks_along("basin", np.arange(25))
    found = read_neighbours(kind, tasks, geometry(lattice(5)))
    assert edges(found) == edges(read_neighbours(on_grid, board))


@given(st.integers(0, 1000), st.sampled_from(["vertices", "noise", "both"]))
def test_borders_stand_noise_and_vertices_of_one_side_only(seed, kind):
    rng = np.random.default_rng(seed)
    shapes = lattice(4)
    if kind != "noise":
        shapes = [
            shapely.segmentize(s, w) for s, w in zip(shapes, rng.uniform(0.1, 2, 16), strict=True)
        ]
    if kind != "vertices":
        near = 2e-7 * np.hypot(4, 4)
        points = [shapely.get_coordinates(shape)[:-1] for shape in shapes]
        shapes = [Polygon(p + rng.uniform(-near, near, p.shape)) for p in points]
    board = cells(np.arange(4.0), np.arange(4.0), dims=("y", "x"))
    tasks = tasks_along("basin", np.arange(16))
    for name, on_grid in (("border", "rook"), ("touch", "queen")):
        found = read_neighbours(name, tasks, geometry(shapes))
        assert edges(found) == edges(read_neighbours(on_grid, board))


def test_a_lake_with_an_island_a_half_side_and_an_overlap_are_borders():
    lake = Polygon([(0, 0), (4, 0), (4, 4), (0, 4)], [[(1, 1), (2, 1), (2, 2), (1, 2)]])
    island, half, over = box(1, 1, 2, 2), box(4, 1, 5, 3), box(3.5, 3.5, 5, 6)
    apart = MultiPolygon([box(9, 9, 10, 10), box(5, 0, 6, 2)])
    found = read_neighbours(
        "border", tasks_along("basin", range(5)), geometry([lake, island, half, over, apart])
    )
    assert edges(found) == {(0, 1), (0, 2), (0, 3), (2, 4)}


@pytest.mark.parametrize("kind", ["border", "touch"])
def test_polygons_that_lie_apart_have_no_neighbours(kind):
    apart = [box(3 * k, 0, 3 * k + 1, 1) for k in range(4)]
    assert edges(read_neighbours(kind, tasks_along("basin", ABC), geometry(apart))) == set()


def test_polygons_meet_at_the_date_line():
    shapes = [box(-180 + 60 * i, 0, -120 + 60 * i, 10) for i in range(6)]
    tasks = tasks_along("basin", range(6))
    ring = {(i, i + 1) for i in range(5)}
    assert edges(read_neighbours("border", tasks, geometry(shapes, "EPSG:4326"))) == ring | {(0, 5)}
    assert edges(read_neighbours("border", tasks, geometry(shapes))) == ring


def test_a_map_as_neighbours_is_matched_and_means_borders():
    order = np.random.default_rng(1).permutation(9)
    frame = geopandas.GeoDataFrame({"basin": order}, geometry=lattice(3, order))
    board = cells(np.arange(3.0), np.arange(3.0), dims=("y", "x"))
    found = read_neighbours(frame, tasks_along("basin", range(9)))
    assert edges(found) == edges(read_neighbours("rook", board))
    series = frame.set_index("basin").geometry
    assert edges(read_neighbours(series, tasks_along("basin", range(9)))) == edges(found)
    assert "1 of the 2 tasks have no polygon" in refusal(frame, tasks_along("basin", [3, 77]))


def test_borders_need_polygons_of_all_tasks():
    tasks = tasks_along("basin", range(4))
    assert "needs polygons" in refusal("border", tasks)
    assert "9 polygons and 4 tasks" in refusal("touch", tasks, geometry(lattice(3)))
    points = geometry([Point(i, 0) for i in range(4)])
    assert "4 of the 4 shapes have no area" in refusal("border", tasks, points)


@given(st.integers(0, 1000), st.integers(1, 6), st.booleans())
def test_nearest_are_those_of_the_shortest_great_circles(seed, k, geographic):
    rng = np.random.default_rng(seed)
    east, north = rng.uniform(-180, 180, 12), rng.uniform(-90, 90, 12)
    names = ("lon", "lat") if geographic else ("x", "y")
    tasks = tasks_along("station", range(12), **dict(zip(names, (east, north), strict=True)))
    found = edges(read_neighbours(("nearest", k), tasks))
    expected = set()
    for i in range(12):
        if geographic:  # the haversine formula
            a, b = np.radians(north[i]), np.radians(north)
            across = np.radians(east - east[i])
            far = np.sin((b - a) / 2) ** 2 + np.cos(a) * np.cos(b) * np.sin(across / 2) ** 2
        else:
            far = np.hypot(east - east[i], north - north[i])
        far[i] = np.inf
        expected |= {(min(i, int(j)), max(i, int(j))) for j in np.argsort(far)[:k]}
    assert found == expected
    assert edges(read_neighbours(f"nearest:{k}", tasks)) == expected


def test_stations_on_one_spot_are_each_others_nearest():
    tasks = tasks_along("station", range(5), x=[0.0] * 5, y=[0.0] * 5)
    graph = read_neighbours(("nearest", 2), tasks)
    assert (graph.sum(axis=1) >= 2).all()


def test_nearest_needs_positions_and_a_number():
    without = tasks_along("station", ABC)
    assert "needs positions" in refusal(("nearest", 2), without)
    centres = geometry(lattice(2))
    assert edges(read_neighbours(("nearest", 2), without, centres)) == {
        (0, 1),
        (0, 2),
        (1, 3),
        (2, 3),
    }
    placed = tasks_along("station", ABC, lon=[0.0, 1, 2, np.nan], lat=[0.0, 1, 2, 3])
    assert "1 of the 4 tasks have no position (e.g. d)" in refusal(("nearest", 2), placed)
    for count in (0, 4, 1.5, "x", None, True):
        assert "from 1 to 3" in refusal(("nearest", count), placed)
    assert "from 1 to 3" in refusal("nearest", placed)


class LikeGraph:
    """As libpysal's Graph has it."""

    def __init__(self, matrix, ids):
        self.sparse, self.unique_ids = sparse.coo_array(matrix), pd.Index(ids)


class LikeW:
    """As libpysal's W has it."""

    def __init__(self, matrix, ids):
        self.sparse, self.id_order = sparse.csr_matrix(matrix), list(ids)


CHAIN = np.eye(4, k=1) + np.eye(4, k=-1)


@pytest.mark.parametrize("kind", [LikeGraph, LikeW])
@pytest.mark.parametrize("ids", [["d", "b", "a", "c"], ["d", "b", "x", "c"]])
def test_a_libpysal_graph_is_read_by_its_labels(kind, ids):
    weights = kind(0.5 * CHAIN, ids)
    if "x" in ids:
        assert "1 of the 4 tasks (e.g. a) are not among the 4 labels" in refusal(
            weights, tasks_along("basin", ABC)
        )
        kept = ["b", "c", "d"]  # a graph of more than was fitted will do
        assert edges(read_neighbours(weights, tasks_along("basin", kept))) == {(0, 2)}
    else:
        assert edges(read_neighbours(weights, tasks_along("basin", ABC))) == {
            (1, 3),
            (0, 1),
            (0, 2),
        }


class LikeNetworkx:
    def __init__(self, nodes, pairs, called):
        self.nodes = (lambda: nodes) if called else nodes
        self.edges = (lambda: pairs) if called else pairs


@pytest.mark.parametrize("called", [True, False])
def test_a_networkx_graph_is_read_by_its_nodes(called):
    graph = LikeNetworkx([*ABC, "sea"], [("b", "a"), ("c", "d"), ("d", "sea")], called)
    assert edges(read_neighbours(graph, tasks_along("basin", ABC))) == {(0, 1), (2, 3)}
    text = refusal(graph, tasks_along("basin", ["a", "z"]))
    assert "1 of the 2 tasks (e.g. z) are not among the 5 nodes" in text


PAIRS = [("a", "b"), ("c", "b"), ("b", "a"), ("d", "d")]


@pytest.mark.parametrize(
    "pairs",
    [
        PAIRS,
        [list(pair) for pair in PAIRS],
        set(PAIRS),
        iter(PAIRS),
        np.array(PAIRS),
        np.array(PAIRS, dtype=object),
        pd.DataFrame(PAIRS),
        pd.DataFrame({"w": 1.0, "focal": [p[0] for p in PAIRS], "neighbor": [p[1] for p in PAIRS]}),
        lambda tasks: [(tasks.labels[0], tasks.labels[1]), ("c", "b")],
    ],
    ids=lambda pairs: type(pairs).__name__,
)
def test_pairs_of_labels_are_edges(pairs):
    assert edges(read_neighbours(pairs, tasks_along("basin", ABC))) == {(0, 1), (1, 2)}


def test_pairs_from_polars_and_of_numbers_are_edges():
    polars = pytest.importorskip("polars", reason="a frame of polars")
    frame = polars.DataFrame({"from": [10, 11], "to": [11, 13], "km": [1.0, 2.0]})
    tasks = tasks_along("basin", [10, 11, 12, 13])
    assert edges(read_neighbours(frame, tasks)) == {(0, 1), (1, 3)}
    assert edges(read_neighbours(np.array([[10, 11], [11, 13]]), tasks)) == {(0, 1), (1, 3)}
    assert edges(read_neighbours([("10", 11.0)], tasks)) == {(0, 1)}
    assert edges(read_neighbours([], tasks)) == set()


def test_pairs_of_cells_are_edges():
    tasks = cells([0.0, 1.0], [0.0, 1.0])
    assert edges(read_neighbours([((0, 0), (1, 1))], tasks)) == {(0, 3)}


def test_pairs_with_masked_tasks_are_left_out_and_with_unknown_ones_refused():
    tasks = tasks_along("basin", ABC, kept=[0, 1, 3])
    assert edges(read_neighbours([("a", "b"), ("b", "c"), ("b", "d")], tasks)) == {(0, 1), (1, 2)}
    text = refusal([("a", "b"), ("b", "zz"), ("zz", "yy")], tasks)
    assert "2 labels in the pairs of neighbours are not tasks (e.g. zz, yy)" in text


def test_a_matrix_is_read_in_the_order_of_the_tasks():
    tasks = tasks_along("basin", ABC)
    chain = {(0, 1), (1, 2), (2, 3)}
    labels = pd.DataFrame(CHAIN[::-1, ::-1], index=ABC[::-1], columns=ABC[::-1])
    for matrix in (CHAIN, CHAIN.astype(bool), sparse.coo_array(CHAIN), CHAIN.tolist(), labels):
        assert edges(read_neighbours(matrix, tasks)) == chain
    assert edges(read_neighbours(7 * CHAIN + np.eye(4), tasks)) == chain
    masked = tasks_along("basin", ABC, kept=[0, 1, 3])
    assert edges(read_neighbours(CHAIN, masked)) == {(0, 1)}
    assert edges(read_neighbours(CHAIN[:3, :3], masked)) == {(0, 1), (1, 2)}


def test_a_matrix_that_is_not_symmetric_is_made_so_with_a_warning():
    with pytest.warns(UserWarning, match="3 pairs are there in one direction only"):
        graph = read_neighbours(np.triu(CHAIN), tasks_along("basin", ABC))
    assert edges(graph) == {(0, 1), (1, 2), (2, 3)}


def test_what_is_not_understood_is_told_in_one_sentence():
    tasks = tasks_along("basin", ABC)
    assert "'bishop' is not known: give 'rook' or 'queen'" in refusal("bishop", tasks)
    assert "shape (3, 3), and there are 4 tasks" in refusal(np.eye(3), tasks)
    assert "shape (3, 3), and there are 4 tasks" in refusal(sparse.csr_array(np.eye(3)), tasks)
    assert "shape (3, 5), and there are 4 tasks" in refusal(np.zeros((3, 5)), tasks)
    assert "NaN, infinite or negative" in refusal(np.full((4, 4), np.nan), tasks)
    assert "NaN, infinite or negative" in refusal(-CHAIN, tasks)
    assert "given as int" in refusal(5, tasks)
    assert "3 rows" in refusal(["ab", "bc", "cd"], tasks)
    assert "columns x, y, z" in refusal(pd.DataFrame({"x": [1], "y": [1], "z": [1]}), tasks)
    assert read_neighbours(None, tasks) is None
    assert read_neighbours(lambda tasks: None, tasks) is None


def test_islands_and_components_are_counted():
    graph = read_neighbours([("a", "b"), ("c", "b")], tasks_along("basin", [*ABC, "e"]))
    np.testing.assert_array_equal(islands(graph), [3, 4])
    np.testing.assert_array_equal(components(graph), [3, 1, 1])


@pytest.mark.data
def test_borders_of_european_regions_are_those_that_plain_intersections_find():
    file = Path(os.environ.get("CTFA_DATA", "")) / "maps" / "nuts_2016_60M.geojson.gz"
    if "CTFA_DATA" not in os.environ or not file.exists():
        pytest.skip("CTFA_DATA names no folder with the maps")
    frame = geopandas.read_file(io.BytesIO(gzip.decompress(file.read_bytes())))
    frame = frame[frame.LEVL_CODE == 3]
    shapes = np.asarray(frame.geometry.array)
    first, second = shapely.STRtree(shapes).query(shapes, predicate="intersects")
    shared = shapely.length(shapely.intersection(shapes[first], shapes[second])) > 0
    expected = set(zip(first[shared].tolist(), second[shared].tolist(), strict=True))
    found = read_neighbours(frame, tasks_along("NUTS_ID", list(frame.NUTS_ID)))
    assert edges(found) == {(i, j) for i, j in expected if i < j}
    assert len(frame) > 1000
