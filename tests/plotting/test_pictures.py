"""Pictures of fitted models: what they say is what the model is."""

import itertools

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression

from ctfa import (
    CTFARegressor,
    FeatureAggregator,
    MultiInputCTFARegressor,
    PooledCTFARegressor,
    TargetAggregator,
)
from ctfa.core.partition import Partition
from ctfa.datasets import make_basins, make_paper_synthetic, make_task_groups
from ctfa.plotting import plot_data_flow, plot_groups_map
from ctfa.plotting._axes import COLOURS
from ctfa.plotting._data_flow import SHOWN, collect
from ctfa.plotting._groups_map import colours_of, outlines_of, touching
from ctfa.report._places import read_places, rings_of

BASINS = make_basins(40, 60, 4, n_regions=3, random_state=0)
X, Y = make_paper_synthetic(80, 12, 6, random_state=0)


@pytest.fixture
def ax():
    pytest.importorskip("matplotlib", reason="pictures need matplotlib").use("Agg")
    from matplotlib import pyplot

    yield pyplot.figure().subplots()
    pyplot.close("all")


def words(ax):
    return "\n".join(text.get_text() for text in ax.texts)


def test_blocks_have_the_sizes_and_groups_of_the_model():
    model = CTFARegressor().fit(X, Y)
    flow = collect(model, "80")
    assert flow.targets == "Y\n80 \u00d7 6"
    assert flow.inputs == "X: 80 \u00d7 12"
    assert len(flow.lanes) == model.n_groups_
    for size, lane in zip(sorted(model.partition_.sizes)[::-1], flow.lanes, strict=True):
        assert f"{size} targets" in lane.group
        assert lane.served == f"to {size}"
    kept = sorted(features.n_groups_ for features in model.features_)
    shown = sorted(int(lane.features.split("\u2192 ")[1].split()[0]) for lane in flow.lanes)
    assert shown == kept


def test_a_flow_is_drawn_on_the_axis_given(ax):
    model = CTFARegressor(features="passthrough").fit(X, Y)
    assert plot_data_flow(model, ax=ax) is ax
    assert "n \u00d7 6" in words(ax)
    assert words(ax).count("12 features, as they are") == model.n_groups_
    assert ax.get_title() == "6 targets predicted by 2 models"
    assert plot_data_flow(model) is not ax


@pytest.mark.more
def test_many_groups_are_drawn_as_few_blocks(ax):
    rng = np.random.default_rng(0)
    many = rng.normal(size=(30, 1000))
    model = CTFARegressor(targets="passthrough", features="passthrough")
    model.fit(rng.normal(size=(30, 2)), many)
    lanes = collect(model, "n").lanes
    assert len(lanes) == SHOWN + 1
    assert f"{1000 - SHOWN} more groups" in lanes[-1].group
    assert lanes[-1].served == f"to {1000 - SHOWN}"
    plot_data_flow(model, ax=ax)
    assert len(ax.texts) < 100


def test_targets_with_their_own_inputs_show_what_is_averaged_or_stacked():
    targets = TargetAggregator(max_loss=5.0)
    averaged = MultiInputCTFARegressor(BASINS.layout, targets=targets, aggregate="mean")
    averaged.fit(BASINS.data, BASINS.target)
    assert "mean inputs" in collect(averaged, "n").lanes[0].features
    assert "mean of" in collect(averaged, "n").lanes[0].group
    stacked = MultiInputCTFARegressor(BASINS.layout, targets=targets, aggregate="pool")
    stacked.fit(BASINS.data, BASINS.target)
    assert "stacked" in collect(stacked, "n").lanes[0].group


def test_tasks_with_their_own_rows_show_offsets_and_the_head():
    made = make_task_groups(40, 4, 6, rows="own", random_state=0)
    model = PooledCTFARegressor(features=FeatureAggregator(), head="levels")
    model.fit(made.data, made.target, made.tasks)
    flow = collect(model, "n")
    assert "of 6 tasks" in flow.targets
    assert "offset" in flow.predictions
    assert "own" in flow.predictions


def test_only_fitted_models_with_groups_have_a_flow():
    with pytest.raises(NotFittedError):
        plot_data_flow(CTFARegressor())
    with pytest.raises(TypeError, match="give a fitted CTFARegressor"):
        plot_data_flow(LinearRegression().fit(X, Y))


def test_a_map_has_the_colours_of_the_groups(ax):
    targets = TargetAggregator(connectivity=BASINS.connectivity, max_loss=5.0)
    model = MultiInputCTFARegressor(BASINS.layout, targets=targets)
    model.fit(BASINS.data, BASINS.target)
    assert plot_groups_map(model, BASINS.polygons, ax=ax) is ax
    assert ax.get_title() == f"40 targets in {model.n_groups_} groups"
    colours = ax.collections[0].get_facecolors()
    for members in model.partition_.groups:
        assert len(np.unique(colours[members], axis=0)) == 1
    for one, other in zip(*BASINS.connectivity.nonzero(), strict=True):
        same = np.array_equal(colours[one], colours[other])
        assert same == (model.labels_[one] == model.labels_[other])


def test_outlines_that_share_a_side_are_the_neighbours_of_the_map():
    where = read_places(BASINS.polygons, 40)
    pairs = touching(where, where.positions, outlines_of(rings_of(where)))
    found = {frozenset(pair) for pair in pairs.tolist()}
    wanted = zip(*BASINS.connectivity.nonzero(), strict=True)
    assert found == {frozenset(map(int, pair)) for pair in wanted}


def test_borders_are_the_sides_between_groups_and_of_the_map(ax):
    unit = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    row = [unit + np.array([step, 0.0]) for step in range(3)]
    plot_groups_map([0, 0, 1], row, ax=ax)
    borders = ax.collections[1].get_segments()
    inner = {float(side[0, 0]) for side in borders if side[0, 0] == side[1, 0]}
    assert inner == {0.0, 2.0, 3.0}  # not 1: both sides of it are one group


@pytest.mark.parametrize("seed", range(5))
def test_few_colours_tell_all_neighbours_apart(seed):
    basins = make_basins(300, 3, 1, random_state=seed)
    pairs = np.column_stack(basins.connectivity.nonzero())
    colours = colours_of(Partition.singletons(300), pairs)
    assert (colours[pairs[:, 0]] != colours[pairs[:, 1]]).all()
    assert len(COLOURS) > colours.max()


def test_more_neighbours_than_colours_still_have_numbers_of_their_own():
    pairs = np.array(list(itertools.combinations(range(12), 2)))
    assert sorted(colours_of(Partition.singletons(12), pairs)) == list(range(12))


def test_positions_are_drawn_as_dots_and_may_lie_in_a_line(ax):
    line = np.column_stack((np.arange(4.0), np.zeros(4)))
    plot_groups_map(Partition(np.array([0, 0, 1, 1])), line, ax=ax)
    first, _, third, _ = ax.collections[0].get_facecolors()
    assert not np.array_equal(first, third)
    np.testing.assert_array_equal(ax.collections[0].get_offsets(), line)
    square = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.1, 1.0]])
    plot_groups_map([0, 1, 2, 3], square, ax=ax, connectivity=sparse.csr_array((4, 4)))


@pytest.mark.parametrize(
    ("groups", "places", "said"),
    [
        ([0, 1], np.zeros((3, 2)), "3 places and 2 targets"),
        (np.zeros((2, 2)), np.zeros((2, 2)), "groups has shape"),
        ([0, 1], np.zeros((2, 3)), "place 0 has shape"),
    ],
)
def test_maps_say_what_is_wrong(groups, places, said, ax):
    with pytest.raises(ValueError, match=said):
        plot_groups_map(groups, places, ax=ax)


def test_positions_may_be_a_data_frame_and_must_be_known(ax):
    pandas = pytest.importorskip("pandas")
    where = pandas.DataFrame({"lon": [0.0, 1.0, 0.0], "lat": [0.0, 0.0, 1.0]})
    plot_groups_map([0, 0, 1], where, ax=ax)
    assert ax.collections
    where.loc[1, "lat"] = np.nan
    with pytest.raises(ValueError, match="place 1 holds NaN"):
        plot_groups_map([0, 0, 1], where, ax=ax)


def test_what_is_no_model_is_told_what_to_give():
    with pytest.raises(TypeError, match="int has no partition_: give a fitted CTFARegressor"):
        plot_data_flow(3)
