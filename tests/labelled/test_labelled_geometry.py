"""Shapes as plain arrays, and which of a map belongs to which task."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctfa.labelled._labels import key
from ctfa.labelled._places import EARTH_RADIUS, Geometry, match_polygons
from labelled_tasks import cells, tasks_along

geopandas = pytest.importorskip("geopandas", reason="maps need geopandas")
pytest.importorskip("xarray", reason="labelled data need xarray")
import shapely  # noqa: E402
from shapely.geometry import MultiPolygon, Point, Polygon, box  # noqa: E402


def squares(n, crs=None, **columns):
    """A row of unit squares."""
    shapes = [box(i, 0, i + 1, 1) for i in range(n)]
    return geopandas.GeoDataFrame(columns, geometry=shapes, crs=crs)


def test_shapes_come_back_as_they_were_with_their_reference_system():
    holed = Polygon([(0, 0), (4, 0), (4, 4), (0, 4)], [[(1, 1), (2, 1), (2, 2), (1, 2)]])
    shapes = [holed, MultiPolygon([box(5, 0, 6, 1), box(7, 0, 8, 1)]), Point(1, 2)]
    series = geopandas.GeoSeries(shapes, index=["a", "b", "c"], crs="EPSG:3035")
    series.index.name = "basin"
    held = Geometry.of(series)
    back = held.to_geoseries(series.index)
    assert back.geom_equals(series).all()
    assert back.crs == series.crs
    assert held.column == "basin"
    assert held.wkb.dtype == np.uint8
    assert held.offsets.dtype == np.int64
    assert [len(rings) for rings in held.rings()] == [2, 2, 0]
    assert held.rings()[0][1].shape == (5, 2)
    np.testing.assert_array_equal(held.areas(), [15, 2, 0])
    np.testing.assert_array_equal(held.centres()[1:], [[6.5, 0.5], [1, 2]])


def test_there_may_be_no_shapes():
    held = Geometry.of(squares(2, crs="EPSG:4326").geometry.iloc[:0])
    assert (len(held), held.rings(), held.areas().shape) == (0, [], (0,))


@pytest.mark.parametrize(("south", "north"), [(-90, 90), (0, 1), (30, 60), (-89, -88.5)])
def test_a_cell_in_degrees_has_the_area_of_its_zone(south, north):
    cell = Geometry.of(geopandas.GeoSeries([box(10, south, 12, north)], crs="EPSG:4326"))
    zone = EARTH_RADIUS**2 * np.radians(2) * np.diff(np.sin(np.radians([south, north])))[0]
    assert cell.areas()[0] == pytest.approx(zone, rel=1e-12)


def test_areas_in_degrees_are_those_of_an_equal_area_projection():
    rng = np.random.default_rng(0)
    shapes = shapely.convex_hull(shapely.multipoints(rng.uniform([0, 30], [20, 60], (9, 8, 2))))
    shapes[0] = shapely.difference(shapes[0], shapely.buffer(shapely.centroid(shapes[0]), 1))
    degrees = geopandas.GeoSeries(shapes, crs="EPSG:4326")
    # Straight lines of one map are curves of the other.
    fine = geopandas.GeoSeries(shapely.segmentize(shapes, 0.01), crs="EPSG:4326")
    planar = fine.to_crs(f"+proj=cea +R={EARTH_RADIUS}").area
    np.testing.assert_allclose(Geometry.of(degrees).areas(), planar, rtol=1e-6)
    projected = Geometry.of(degrees.to_crs("EPSG:3035"))
    assert not projected.is_geographic
    np.testing.assert_allclose(projected.areas(), degrees.to_crs("EPSG:3035").area)


def test_a_country_on_both_sides_of_the_date_line_has_its_centre_there():
    islands = MultiPolygon([box(178, -18, 180, -16), box(-180, -18, -178, -16)])
    held = Geometry.of(geopandas.GeoSeries([islands, box(0, 0, 2, 2)], crs="EPSG:4326"))
    centres = held.centres()
    assert abs(centres[0, 0]) == pytest.approx(180)
    assert centres[0, 1] == pytest.approx(-17, abs=0.01)
    np.testing.assert_allclose(centres[1], [1, 1])


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        (12, "12", True),
        (12, 12.0, True),
        ("12.0", np.int32(12), True),
        ("012", 12, False),
        ("012", "012", True),
        ("0", 0, True),
        (-3, "-3", True),
        (1.5, np.float32(1.5), True),
        (0.1, np.float32(0.1), True),
        ((1, "a"), [1.0, "a"], True),
        (" a", "a", True),
        ("a", "b", False),
        (np.nan, None, True),
        (np.datetime64("2020-01-01"), "2020-01-01", True),
    ],
)
def test_labels_are_the_same_whatever_type_a_file_gave_them(one, two, same):
    assert (key(one) == key(two)) is same


@given(st.permutations(range(6)), st.sampled_from([int, float, str]))
def test_polygons_are_matched_by_the_column_named_like_the_tasks(order, kind):
    frame = squares(6, basin=[kind(10 + i) for i in range(6)], other=range(10, 16))
    tasks = tasks_along("basin", [10 + i for i in order])
    held = match_polygons(frame, tasks)
    assert held.column == "basin"
    np.testing.assert_array_equal(held.centres()[:, 0], np.array(order) + 0.5)


def test_polygons_are_matched_by_another_column_that_has_all_labels():
    frame = squares(4, name=["a", "b", "c", "d"], code=["007", "008", "009", "010"])
    held = match_polygons(frame, tasks_along("basin", ["009", "007"]))
    assert held.column == "code"
    np.testing.assert_array_equal(held.centres()[:, 0], [2.5, 0.5])


def test_polygons_are_matched_by_an_index_with_labels():
    series = squares(3).geometry
    series.index = ["a", "b", "c"]
    held = match_polygons(series, tasks_along("basin", ["c", "a"]))
    np.testing.assert_array_equal(held.centres()[:, 0], [2.5, 0.5])


def test_polygons_are_taken_in_order_only_where_tasks_are_counted():
    held = match_polygons(squares(3).geometry, tasks_along("basin", [0, 1, 2]))
    np.testing.assert_array_equal(held.centres()[:, 0], [0.5, 1.5, 2.5])
    with pytest.raises(ValueError, match="it has no column of identifiers"):
        match_polygons(squares(3).geometry, tasks_along("basin", [1, 2, 3]))
    with pytest.raises(ValueError, match="from 4 rows"):
        match_polygons(squares(4).geometry, tasks_along("basin", [0, 1, 2]))


def test_cells_are_matched_by_two_columns():
    frame = squares(2, lon=[0.0, 5.0], lat=[1.0, 1.0])
    held = match_polygons(frame, cells([1.0], [5.0, 0.0]))
    np.testing.assert_array_equal(held.centres()[:, 0], [1.5, 0.5])


def refusal(frame, tasks):
    with pytest.raises(ValueError, match=r"\.$") as refused:
        match_polygons(frame, tasks)
    text = str(refused.value)
    assert "\n" not in text
    assert text.count(". ") - text.count("e.g. ") == 0, "one sentence"
    return text


def test_tasks_without_a_polygon_are_counted_and_named():
    frame = squares(3, basin=[1, 2, 3], area_km2=[1.0, 1.0, 1.0])
    text = refusal(frame, tasks_along("basin", [1, 2, 77, 78]))
    assert "2 of the 4 tasks have no polygon in 'basin' among 3 rows (e.g. 77, 78)" in text
    assert "columns are basin, area_km2" in text


def test_a_column_of_that_name_is_not_given_up_for_one_that_happens_to_fit():
    frame = squares(3, basin=[1, 2, 9], rank=[3, 2, 1])
    assert "1 of the 3 tasks" in refusal(frame, tasks_along("basin", [1, 2, 3]))


def test_two_columns_that_disagree_are_told():
    frame = squares(3, here=[1, 2, 3], there=[3, 2, 1])
    text = refusal(frame, tasks_along("basin", [1, 2]))
    assert "'here' and 'there'" in text
    assert "rename" in text


def test_several_polygons_of_one_task_are_to_be_dissolved():
    text = refusal(squares(3, basin=[1, 2, 2]), tasks_along("basin", [1, 2]))
    assert "1 of the 2 tasks have several rows" in text
    assert "dissolve" in text


@pytest.mark.parametrize("hole", [None, Polygon()])
def test_missing_and_empty_geometries_are_told(hole):
    frame = squares(3, basin=["a", "b", "c"])
    frame.loc[1, "geometry"] = hole
    assert "(e.g. b)" in refusal(frame, tasks_along("basin", ["a", "b", "c"]))
    assert len(match_polygons(frame, tasks_along("basin", ["a", "c"]))) == 2


def test_a_polygon_that_crosses_itself_is_repaired_with_a_warning():
    frame = squares(2, basin=["a", "b"])
    frame.loc[1, "geometry"] = Polygon([(0, 0), (2, 2), (2, 0), (0, 2), (0, 3), (0, 0)])
    with pytest.warns(UserWarning, match=r"1 of the 2 polygons were not valid \(e.g. b\)"):
        held = match_polygons(frame, tasks_along("basin", ["a", "b"]))
    assert held.shapes[1].is_valid
    assert held.areas()[1] == pytest.approx(2)


def test_a_polygon_that_encloses_nothing_is_told():
    frame = squares(2, basin=["a", "b"])
    frame.loc[1, "geometry"] = Polygon([(0, 0), (1, 1), (2, 2), (0, 0)])
    assert "enclose nothing (e.g. b)" in refusal(frame, tasks_along("basin", ["a", "b"]))


def test_what_is_no_map_is_told():
    assert "GeoDataFrame" in refusal([1, 2], tasks_along("basin", [1, 2]))
    frame = geopandas.GeoDataFrame({"basin": [1, 2]})
    assert "set_geometry" in refusal(frame, tasks_along("basin", [1, 2]))
