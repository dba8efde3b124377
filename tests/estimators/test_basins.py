"""The invented map: cells that tile it, regions that hold together, a truth that is true."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csgraph
from sklearn.metrics import adjusted_rand_score, homogeneity_score

from ctfa import multi_input_layout
from ctfa.core.criteria import target_risk
from ctfa.core.graph import Neighbours
from ctfa.core.scans import best_first
from ctfa.core.spaces.paired import PairedSpace
from ctfa.datasets import make_basins


@pytest.fixture(scope="module")
def basins():
    return make_basins(300, 60, 5, n_regions=8, random_state=0)


def test_everything_has_its_shape(basins):
    assert basins.data.shape == (60, 1500)
    assert basins.layout.shape == (300, 5)
    assert basins.target.shape == (60, 300)
    assert basins.inputs.shape == (60, 300, 5)
    assert np.shares_memory(basins.inputs, basins.data)
    assert basins.coefficients.shape == (8, 5)
    assert basins.lat.shape == basins.lon.shape == basins.regions.shape == (300,)
    assert len(basins.target_names) == len(set(basins.target_names)) == 300
    assert basins.slot_names == ["temperature", "precipitation", "evaporation", "radiation", "snow"]
    assert not np.isnan(basins.data).any()


def test_columns_lie_as_the_layout_says(basins):
    X, layout = multi_input_layout(basins.inputs)
    assert_array_equal(X, basins.data)
    assert_array_equal(layout, basins.layout)


@pytest.mark.parametrize("n_basins", [1, 2, 3, 7, 50, 1000])
def test_a_map_is_a_connected_graph_with_about_six_neighbours(n_basins):
    graph = make_basins(n_basins, 3, 2, n_regions=1, random_state=1).connectivity
    assert graph.shape == (n_basins, n_basins)
    assert (graph != graph.T).nnz == 0
    assert not graph.diagonal().any()
    assert set(graph.data.tolist()) <= {1.0}
    assert csgraph.connected_components(graph)[0] == 1
    if n_basins == 1000:  # cells at the rim have fewer
        assert 5.6 < graph.nnz / n_basins < 6.0


@pytest.mark.parametrize("n_basins", [1, 2, 5, 300])
def test_polygons_tile_the_box_and_hold_their_points(n_basins):
    basins = make_basins(n_basins, 3, 2, n_regions=1, random_state=2)
    areas = []
    for outline, x, y in zip(basins.polygons, basins.lon, basins.lat, strict=True):
        after = np.roll(outline, -1, axis=0)
        areas.append(0.5 * (outline[:, 0] * after[:, 1] - after[:, 0] * outline[:, 1]).sum())
        side, to_point = after - outline, [x, y] - outline
        turns = side[:, 0] * to_point[:, 1] - side[:, 1] * to_point[:, 0]
        assert (turns > -1e-9).all()  # counterclockwise, convex, and the point inside
    assert min(areas) > 0.0
    assert_allclose(sum(areas), 40.0 * 34.0, rtol=1e-9)


def test_neighbours_share_a_side(basins):
    graph = basins.connectivity.tocoo()
    for first, second in list(zip(graph.row, graph.col, strict=True))[:200]:
        mine, theirs = basins.polygons[first], basins.polygons[second]
        apart = np.abs(mine[:, None] - theirs[None]).max(axis=2)
        assert (apart < 1e-9).any(axis=1).sum() >= 2


def test_regions_hold_together(basins):
    assert_array_equal(np.unique(basins.regions), np.arange(8))
    for region in range(8):
        members = np.flatnonzero(basins.regions == region)
        part = basins.connectivity[members][:, members]
        assert csgraph.connected_components(part)[0] == 1


def test_without_noise_every_basin_responds_as_its_region_does():
    basins = make_basins(40, 60, 4, n_regions=3, noise=0.0, missing_slots=0.5, random_state=3)
    for basin, columns in enumerate(basins.layout):
        has = columns >= 0
        table = np.column_stack((basins.data[:, columns[has]], np.ones(60)))
        found = np.linalg.lstsq(table, basins.target[:, basin], rcond=None)[0][:-1]
        unit = basins.target_units[basin] / basins.slot_units[has]
        assert_allclose(found, unit * basins.coefficients[basins.regions[basin], has], atol=1e-6)


def test_coefficients_wander_smoothly_when_asked():
    same = make_basins(200, 60, 3, n_regions=1, noise=0.0, random_state=4)
    wander = make_basins(200, 60, 3, n_regions=1, noise=0.0, within=0.5, random_state=4)
    spreads = []
    for basins in (same, wander):
        slopes = []
        for basin, columns in enumerate(basins.layout):
            table = np.column_stack((basins.data[:, columns], np.ones(60)))
            slope = np.linalg.lstsq(table, basins.target[:, basin], rcond=None)[0][:-1]
            slopes.append(slope * basins.slot_units / basins.target_units[basin])
        spreads.append(np.std(slopes, axis=0))
        near = basins.connectivity.tocoo()
        steps = np.asarray(slopes)[near.row] - np.asarray(slopes)[near.col]
    assert spreads[0].max() < 1e-6
    assert spreads[1].max() > 0.1
    assert steps.std() < 0.5 * np.std(slopes)


def test_weather_is_alike_nearby_and_lasts(basins):
    series = basins.inputs - basins.inputs.mean(axis=0)
    series = series / series.std(axis=0)
    near = basins.connectivity.tocoo()
    alike = (series[:, near.row] * series[:, near.col]).mean()
    far = (series[:, :150] * series[:, 150:]).mean()
    assert alike > 0.9
    assert far < alike - 0.2
    assert (series[1:] * series[:-1]).mean() > 0.2


def test_gaps_are_as_many_as_asked_and_come_in_blocks():
    basins = make_basins(200, 100, 4, gaps=(0.1, 0.3), random_state=5)
    for values, share in ((basins.data, 0.1), (basins.target, 0.3)):
        missing = np.isnan(values)
        assert missing.mean() == pytest.approx(share, rel=0.05)
        # Were months missing one by one, the next would be missing as often as any.
        assert missing[1:][missing[:-1]].mean() == pytest.approx(2 / 3, abs=0.03)


def test_snow_is_missing_where_it_is_warm():
    basins = make_basins(200, 30, 4, missing_slots=0.25, random_state=6)
    has = basins.layout[:, -1] >= 0
    assert np.count_nonzero(~has) == 50
    assert (basins.layout[:, :-1] >= 0).all()
    assert basins.data.shape == (30, 750)
    assert basins.lat[has].mean() > basins.lat[~has].mean() + 3.0
    X, layout = multi_input_layout(basins.inputs)
    assert_array_equal(layout, basins.layout)
    assert_array_equal(X, basins.data)


def test_a_seed_decides_everything():
    options = {"gaps": 0.1, "missing_slots": 0.2, "within": 0.1}
    first, again, other = (
        make_basins(60, 20, 3, n_regions=4, random_state=seed, **options) for seed in (7, 7, 8)
    )
    for key in ("data", "target", "layout", "regions", "coefficients", "lat", "elevation"):
        assert_array_equal(first[key], again[key], err_msg=key)
    assert not np.array_equal(first.lat, other.lat)
    # What is not drawn differently stays the same: noise scales, outlines are only left out.
    assert make_basins(60, 20, 3, polygons=False, random_state=7).polygons is None


def test_merging_under_the_graph_finds_regions():
    basins = make_basins(150, n_regions=6, noise=2.0, random_state=0)

    def standard(values):
        return (values - values.mean(axis=0)) / values.std(axis=0)

    space = PairedSpace.of(standard(basins.inputs).swapaxes(0, 1), standard(basins.target))
    history = best_first(
        space,
        target_risk,
        max_loss=1.5,
        order=np.arange(150),
        neighbours=Neighbours(basins.connectivity),
    )
    found = history.partition().labels
    # Pieces of regions: where the weather at both ends differs, a whole one is not worth its mean.
    assert homogeneity_score(basins.regions, found) > 0.8
    assert adjusted_rand_score(basins.regions, found) > 0.4
    shuffled = np.random.default_rng(0).permutation(found)
    assert abs(adjusted_rand_score(basins.regions, shuffled)) < 0.05


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"n_basins": 0}, "n_basins=0: give a whole number, 1 or more"),
        ({"n_regions": 500}, "n_regions=500: give a whole number, from 1 to 400"),
        ({"noise": -1.0}, "noise=-1.0: give a number, 0.0 or more"),
        ({"gaps": 0.9}, "gaps=0.9: give a number, from 0.0 to 0.5"),
        ({"gaps": (0.1, 0.1, 0.1)}, "or a pair"),
        ({"missing_slots": 2.0}, "missing_slots=2.0: give a number, from 0.0 to 1.0"),
        ({"missing_slots": 0.1, "n_features": 1}, "at least two features"),
    ],
)
def test_wrong_options_are_told(options, text):
    with pytest.raises(ValueError, match=text):
        make_basins(**options)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"n_basins": "5"}, "n_basins='5' is not a whole number"),
        ({"n_regions": 2.5}, "n_regions=2.5 is not a whole number"),
        ({"gaps": "a"}, "gaps='a' is not a number"),
        ({"gaps": (0.1, None)}, "gaps=None is not a number"),
        ({"noise": "loud"}, "noise='loud' is not a number"),
    ],
)
def test_what_is_no_number_is_told(options, text):
    with pytest.raises(TypeError, match=text):
        make_basins(**options)
