"""Pictures of coefficients, gains and stability: what is drawn are the model's numbers."""

import copy
import itertools

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV

import ctfa
from ctfa import CTFARegressor, FeatureAggregator
from ctfa.estimators.targets import in_units
from ctfa.estimators.view import FittedGroups
from ctfa.plotting import plot_coefficients, plot_gains, plot_stability
from ctfa.plotting._axes import CHOSEN
from ctfa.plotting._matrices import side_by_side
from ctfa.report._coefficients import coefficients_of
from pictured import MADE, MODEL, OWN, POOLED, WHOLE, data, fitted, names_along, rgb
from problems import features_in_fours


@pytest.fixture
def ax():
    pytest.importorskip("matplotlib", reason="pictures need matplotlib").use("Agg")
    from matplotlib import pyplot

    yield pyplot.figure().subplots()
    pyplot.close("all")


# The coefficients.


def value_of(model):
    return coefficients_of(FittedGroups.of(model)).value


@pytest.mark.more
@pytest.mark.parametrize(
    "regressor", [None, Ridge(), GridSearchCV(Ridge(), {"alpha": [1.0]}, cv=3)]
)
def test_collapsed_coefficients_predict_as_the_model_does(regressor):
    X, Y = data(9)
    features = FeatureAggregator(max_loss=np.inf)
    model = CTFARegressor(regressor, features=features, head="mean").fit(X, Y)
    value = value_of(model)
    step = X + np.eye(70, 5)
    after, before = (in_units(model.targets_, model.predict(rows)) for rows in (step, X))
    moved = after - before
    np.testing.assert_allclose(moved[:5], value[model.labels_].T, atol=1e-10)


@pytest.mark.parametrize("features", [None, "passthrough", FeatureAggregator(max_loss=np.inf)])
def test_coefficients_are_those_of_groups_without_what_members_add(features):
    model = CTFARegressor(features=features).fit(*features_in_fours())
    np.testing.assert_allclose(value_of(model), model.group_coef_, atol=1e-10)


def test_coefficients_of_pooled_tasks_predict_as_the_model_does():
    tasks = MADE.tasks[:4]
    moved = POOLED.predict(MADE.data[:4] + np.eye(4), tasks) - POOLED.predict(MADE.data[:4], tasks)
    where = [int(np.flatnonzero(POOLED.tasks_ == task)[0]) for task in tasks]
    np.testing.assert_allclose(moved, POOLED.coef_[where, np.arange(4)], atol=1e-10)
    value = value_of(POOLED)
    np.testing.assert_allclose(value, POOLED.group_coef_, atol=1e-10)


def test_slots_that_a_group_has_not_are_grey(ax):
    value = value_of(OWN)
    has = np.zeros(value.shape, dtype=bool)
    np.logical_or.at(has, OWN.labels_, OWN.layout_ >= 0)
    np.testing.assert_array_equal(np.isnan(value), ~has)
    plot_coefficients(OWN, ax=ax)
    assert set(names_along(ax.xaxis)) == {"slot0", "slot1", "slot2", "slot3"}


def test_the_map_of_coefficients_holds_them_sorted_by_size(ax):
    plot_coefficients(MODEL, ax=ax)
    rows = np.argsort(-MODEL.partition_.sizes, kind="stable")
    columns = side_by_side(FittedGroups.of(MODEL).means[rows])
    drawn = ax.images[0].get_array()
    np.testing.assert_array_equal(drawn, value_of(MODEL)[np.ix_(rows, columns)])
    low, high = ax.images[0].get_clim()
    assert low == -high
    ax.clear()
    plot_coefficients(MODEL, max_groups=1, ax=ax)
    assert ax.images[0].get_array().shape[0] == 1
    assert "the 1 largest" in ax.get_title()


def test_features_of_a_mean_are_side_by_side_in_the_largest_group():
    mean = np.array([[0, 1, 0, 2, 1], [0, 1, 2, 3, 4]])
    assert side_by_side(mean).tolist() == [0, 2, 1, 4, 3]
    assert side_by_side(np.array([[0, 1, 2], [0, 1, 2]])).tolist() == [0, 1, 2]


def test_only_linear_regressors_have_coefficients(ax):
    X, Y = data(4)
    forest = CTFARegressor(RandomForestRegressor(2, max_depth=2)).fit(X, Y)
    with pytest.raises(TypeError, match="RandomForestRegressor has no coefficient"):
        plot_coefficients(forest, ax=ax)
    with pytest.raises(ValueError, match="max_groups=0"):
        plot_coefficients(MODEL, max_groups=0, ax=ax)


# The gains.


@pytest.mark.parametrize("model", [MODEL, WHOLE, OWN])
def test_gains_of_a_model_are_sorted_with_the_losers_in_red(model, ax):
    plot_gains(model, ax=ax)
    gain = model._evidence.gain.value
    dots = ax.collections[-1]
    np.testing.assert_allclose(dots.get_offsets()[:, 1], np.sort(gain))
    red = (dots.get_facecolors() == rgb(CHOSEN)).all(axis=1)
    np.testing.assert_array_equal(red, np.sort(gain) < 0.0)
    how = "predicted" if model is OWN else "on held-out folds"
    said = f"{how}: {(gain > 0).sum()} gain, {(gain < 0).sum()} lose"
    assert ax.get_title().startswith(said)
    bars = np.array([path.vertices[:, 1] for path in ax.collections[0].get_paths()])
    order = np.argsort(gain, kind="stable")
    error = model._evidence.gain.standard_error[order]
    np.testing.assert_allclose(np.ptp(bars, axis=1), 2.0 * error, atol=1e-12)


def test_gains_of_pooled_tasks_are_those_that_why_tells(ax):
    plot_gains(POOLED, ax=ax)
    told = np.array([POOLED.why(task).gain for task in POOLED.tasks_])
    drawn = ax.collections[-1].get_offsets()[:, 1]
    np.testing.assert_allclose(drawn, np.sort(told[np.isfinite(told)]))


@pytest.mark.more
@pytest.mark.parametrize("standardise", [True, False])
def test_gains_of_labelled_data_are_those_of_held_out_rows(standardise, ax):
    pytest.importorskip("xarray")
    pytest.importorskip("geopandas")
    world = ctfa.datasets.make_basins(24, 60, 3, n_regions=3, noise=2.0, random_state=0)
    options = {"target": "flow", "sample": "time", "task": "basin", "aggregate": "mean"}
    options["neighbours"] = world.to_geopandas()
    fit = ctfa.labelled.fit(world.to_xarray(), standardise=standardise, **options)
    plot_gains(fit, ax=ax)
    gain = fit.held_out.gain
    assert np.count_nonzero(gain) > 10
    np.testing.assert_allclose([bar.get_height() for bar in ax.patches], np.sort(gain))
    helped, hurt = fit.held_out.helped.sum(), fit.held_out.hurt.sum()
    said = f"on held-out rows: {helped} helped, {hurt} hurt"
    assert ax.get_title().startswith(said)
    drawn = next(line for line in ax.lines if line.get_label() == "predicted").get_ydata()
    order = np.argsort(gain, kind="stable")
    expected = fit.estimator._evidence.gain.value[order] if standardise else np.full(24, np.nan)
    np.testing.assert_allclose(drawn, expected)


@pytest.mark.more
def test_held_out_gains_have_the_predicted_ones_beside_them(ax):
    pytest.importorskip("pandas")
    frame = MODEL.compare(*data(14))
    plot_gains(frame, ax=ax)
    frame = frame.sort_values("gain", kind="stable")
    heights = [bar.get_height() for bar in ax.patches]
    np.testing.assert_allclose(heights, frame["gain"])
    predicted = next(line for line in ax.lines if line.get_label() == "predicted")
    np.testing.assert_allclose(predicted.get_ydata(), frame["predicted_gain"])
    assert names_along(ax.xaxis)[0] == frame["target"].iloc[0]
    with pytest.raises(TypeError, match="no column 'target'"):
        plot_gains(MODEL.merges_, ax=ax)


# Stability.


def test_the_matrix_is_ordered_by_group_with_a_frame_each(ax):
    plot_stability(MODEL, ax=ax)
    drawn = np.asarray(ax.images[0].get_array())
    order = [int(name.strip("y")) for name in names_along(ax.yaxis)]
    assert sorted(order) == list(range(14))
    np.testing.assert_array_equal(drawn, MODEL.stability_[np.ix_(order, order)])
    labels = MODEL.labels_[order].tolist()
    runs = [len(list(run)) for _, run in itertools.groupby(labels)]
    assert len(runs) == MODEL.n_groups_
    starts = np.cumsum([0, *runs[:-1]])
    frames = [(patch.get_x() + 0.5, patch.get_width()) for patch in ax.patches]
    assert frames == list(zip(starts, runs, strict=True))
    bar = ax.figure.axes[-1]
    assert names_along(bar.yaxis) == ["0", "0.05", "0.5", "0.95", "1"]


def test_stability_has_to_be_asked_for_first(ax):
    with pytest.raises(ValueError, match=r"call model\.stability"):
        plot_stability(WHOLE, ax=ax)
    with pytest.raises(TypeError, match="has no stability"):
        plot_stability(POOLED, ax=ax)


def test_stability_of_one_target_and_of_many_is_drawn(ax):
    one = fitted(1, 1.0)
    one.stability_ = np.ones((1, 1))
    plot_stability(one, ax=ax)
    many = copy.copy(fitted(90, 0.8))
    many.stability_ = (many.labels_[:, None] == many.labels_).astype(float)
    ax.clear()
    plot_stability(many, ax=ax)
    assert "100% of the pairs" in ax.get_title()
    assert names_along(ax.yaxis) == []
