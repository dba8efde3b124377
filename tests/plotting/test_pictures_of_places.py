"""Maps of groups and of numbers: areas with holes, cells of grids, geometries, projections."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from ctfa.plotting import plot_groups_map
from ctfa.plotting._groups_map import areas, is_border, outlines_of, touching
from ctfa.report import Places
from ctfa.report._places import read_places, rings_of

SQUARE = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
ROW = [SQUARE + np.array([step, 0.0]) for step in range(3)]


@pytest.fixture
def ax():
    pytest.importorskip("matplotlib", reason="pictures need matplotlib").use("Agg")
    from matplotlib import pyplot

    yield pyplot.figure().subplots()
    pyplot.close("all")


def about(middle, half):
    return (2.0 * SQUARE - 1.0) * half + np.asarray(middle)


def test_numbers_colour_a_map_about_zero_where_signs_differ(ax):
    plot_groups_map([0, 0, 1], ROW, values=[-1.0, 3.0, np.nan], label="gain", ax=ax)
    drawn = ax.collections[0]
    assert drawn.get_clim() == (-3.0, 3.0)
    np.testing.assert_array_equal(np.ma.getmaskarray(drawn.get_array()), [False, False, True])
    assert ax.figure.axes[-1].get_ylabel() == "gain"
    ax.figure.canvas.draw()
    colours = drawn.get_facecolors()
    assert colours[1][0] > colours[1][2]  # above zero warm, below zero cold
    assert colours[0][0] < colours[0][2]
    assert len(set(colours[2][:3])) == 1  # grey


def test_numbers_of_one_sign_are_coloured_from_the_lowest_to_the_highest(ax):
    plot_groups_map([0, 0, 1], ROW, values=[1.0, 3.0, 2.0], ax=ax)
    assert ax.collections[0].get_clim() == (1.0, 3.0)


@pytest.mark.parametrize("values", [[2.0, 2.0, 2.0], [np.nan] * 3, [0.0, 0.0, 0.0]])
def test_numbers_that_are_all_the_same_or_unknown_are_drawn(values, ax):
    plot_groups_map([0, 0, 1], ROW, values=values, ax=ax)
    ax.figure.canvas.draw()


def test_dots_are_coloured_by_numbers_too(ax):
    where = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    plot_groups_map([0, 1, 2], where, values=[-1.0, np.nan, 0.5], ax=ax)
    drawn = ax.collections[0]
    np.testing.assert_array_equal(drawn.get_offsets(), where)
    assert drawn.get_clim() == (-1.0, 1.0)


def test_there_is_one_number_a_target(ax):
    with pytest.raises(ValueError, match=r"values has shape \(2,\) and there are 3"):
        plot_groups_map([0, 0, 1], ROW, values=[1.0, 2.0], ax=ax)


@pytest.mark.parametrize("turns", [(1, 1, 1), (1, -1, 1), (-1, -1, -1), (-1, 1, 1)])
def test_holes_are_empty_and_islands_in_them_full_whichever_way_they_run(turns, ax):
    rings = [about((0, 0), half)[::turn] for half, turn in zip((3, 2, 1), turns, strict=True)]
    plot_groups_map([0], Places(np.zeros((1, 2)), outlines=[rings]), ax=ax)
    ax.figure.canvas.draw()
    image = np.asarray(ax.figure.canvas.buffer_rgba())

    def colour(x, y):
        across, up = ax.transData.transform((x, y))
        return tuple(image[image.shape[0] - 1 - int(up), int(across), :3].tolist())

    white = (255, 255, 255)
    assert colour(0.0, 0.3) != white
    assert colour(0.0, 1.5) == white
    assert colour(0.0, 2.5) != white


def test_a_target_of_two_parts_is_one_area_of_one_colour(ax):
    outlines = [[about((0, 0), 1), about((9, 0), 1)], [about((5, 0), 1)]]
    plot_groups_map([0, 1], Places(np.zeros((2, 2)), outlines=outlines), ax=ax)
    assert len(ax.collections[0].get_paths()) == 2
    assert ax.get_xlim()[1] > 9.0


def test_cells_of_a_grid_touch_in_single_precision():
    lon, lat = np.meshgrid(np.arange(0, 3, 0.1, dtype="f4"), np.arange(40, 42, 0.1, dtype="f4"))
    positions = np.column_stack((lon.ravel(), lat.ravel()))
    where = read_places(Places(positions, cell=(0.1, 0.1)), len(positions))
    rings = rings_of(where)
    pairs = touching(where, where.positions, outlines_of(rings))
    n_rows, n_columns = lon.shape
    assert len(pairs) == n_rows * (n_columns - 1) + n_columns * (n_rows - 1)
    middles = np.array([own[0].mean(axis=0) for own in rings])
    np.testing.assert_allclose(middles, positions, atol=1e-3)
    one_group = is_border(outlines_of(rings), np.zeros(len(positions), dtype=int))
    assert one_group.sum() == 2 * (n_rows + n_columns)


def test_positions_off_a_grid_keep_their_place():
    positions = np.array([[0.0, 0.0], [1.4, 0.0]])
    where = read_places(SimpleNamespace(positions=positions, outlines=None, cell=(1.0, 1.0)), 2)
    np.testing.assert_allclose([own[0].mean(axis=0) for own in rings_of(where)], positions)


def test_geometries_have_their_holes_parts_and_neighbours(ax):
    geopandas = pytest.importorskip("geopandas", reason="geometries need geopandas")
    shapely = pytest.importorskip("shapely")
    # The second has half the side of the first, whose corners are not its own.
    shapes = [
        shapely.Polygon(about((0, 0), 2), [about((0, 0), 1)]),
        shapely.box(2, -1, 4, 1),
        shapely.MultiPolygon([shapely.box(8, 0, 9, 1), shapely.box(10, 0, 11, 1)]),
    ]
    series = geopandas.GeoSeries(shapes, crs="EPSG:4326", index=["c", "a", "b"])
    where = read_places(series, 3)
    assert where.geographic
    rings = rings_of(where)
    assert [len(own) for own in rings] == [2, 1, 2]
    assert touching(series, where.positions, outlines_of(rings)).tolist() == [[0, 1]]
    assert len(areas(rings)) == 3
    plot_groups_map([0, 1, 2], geopandas.GeoDataFrame(geometry=series), ax=ax)
    first, second, _ = ax.collections[0].get_facecolors()
    assert not np.array_equal(first, second)


def test_points_of_geopandas_are_dots_and_lines_are_refused(ax):
    geopandas = pytest.importorskip("geopandas", reason="geometries need geopandas")
    shapely = pytest.importorskip("shapely")
    points = geopandas.GeoSeries([shapely.Point(1, 2), shapely.Point(3, 4)])
    plot_groups_map([0, 1], points, ax=ax)
    np.testing.assert_array_equal(ax.collections[0].get_offsets(), [[1, 2], [3, 4]])
    mixed = geopandas.GeoSeries([shapely.LineString([(0, 0), (1, 1)]), shapely.Point(0, 0)])
    with pytest.raises(ValueError, match="places holds LineString, Point"):
        plot_groups_map([0, 1], mixed, ax=ax)
    with pytest.raises(ValueError, match="there are 2 places and 3 targets"):
        plot_groups_map([0, 1, 2], points, ax=ax)


def test_degrees_are_as_wide_as_in_the_middle_of_the_map(ax):
    north = [ring + np.array([0.0, 59.5]) for ring in ROW]
    plot_groups_map([0, 1, 2], north, geographic=True, ax=ax)
    assert ax.get_aspect() == pytest.approx(2.0)
    plot_groups_map([0, 1, 2], north, ax=ax)
    assert ax.get_aspect() == 1.0


@pytest.mark.parametrize("places", [ROW, np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])])
def test_an_axis_with_a_projection_is_told_that_places_are_degrees(places, ax, monkeypatch):
    told = []

    class PlateCarree:
        def _as_mpl_transform(self, axis):
            told.append(axis)
            return axis.transData

    crs = ModuleType("cartopy.crs")
    crs.PlateCarree = PlateCarree
    monkeypatch.setitem(sys.modules, "cartopy", ModuleType("cartopy"))
    monkeypatch.setitem(sys.modules, "cartopy.crs", crs)
    ax.projection = object()
    plot_groups_map([0, 0, 1], places, ax=ax)
    ax.figure.canvas.draw()
    assert told == []
    plot_groups_map([0, 0, 1], places, geographic=True, ax=ax)
    ax.figure.canvas.draw()
    assert set(told) == {ax}


@pytest.mark.parametrize(
    ("places", "said"),
    [
        (Places(np.zeros((3, 3))), "positions has shape"),
        (Places(np.zeros((2, 2))), "there are 2 places"),
        (Places(np.zeros((3, 2)), outlines=[[SQUARE], [], [SQUARE]]), "place 1 has no outline"),
        (Places(np.full((3, 2), np.nan), cell=(1.0, 1.0)), "place 0 holds NaN"),
    ],
)
def test_places_that_are_none_are_told_apart(places, said, ax):
    with pytest.raises(ValueError, match=said):
        plot_groups_map([0, 1, 2], places, ax=ax)
