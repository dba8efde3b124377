"""Targets with inputs of their own: laws, and what users try that nobody promised."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

from ctfa import MultiInputCTFARegressor, TargetAggregator, multi_input_layout
from problems import RIDGE, averaged


def problem(seed=0, n=60, n_tasks=5, n_slots=3, noise=1.0):
    """Two families of tasks: inputs nearly in common, responses opposite, levels far apart."""
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(n, 1, n_slots)) + 0.4 * rng.normal(size=(n, n_tasks, n_slots))
    coef = np.where(np.arange(n_tasks)[:, None] < n_tasks // 2, 1.0, -1.0) * np.ones(n_slots)
    target = np.einsum("nlk,lk->nl", inputs, coef) + noise * rng.normal(size=(n, n_tasks))
    return inputs, target + 5.0 * np.arange(n_tasks)


def fixed(max_loss=1.0, **options):
    return TargetAggregator(max_loss=max_loss, **options)


@pytest.mark.parametrize("aggregate", ["mean", "pool"])
def test_groups_are_reduced_to_means_without_a_second_phase_too(aggregate):
    inputs, Y = problem()
    X, layout = multi_input_layout(inputs)
    model = MultiInputCTFARegressor(layout, targets=fixed(), aggregate=aggregate).fit(X, Y)
    reduced = model.reduce(X, Y)
    assert len(reduced) == model.n_groups_
    for members, task in zip(model.partition_.groups, reduced, strict=True):
        np.testing.assert_allclose(task.target, Y[:, members].mean(axis=1))
        np.testing.assert_allclose(task.features, inputs[:, members].mean(axis=1))


@pytest.mark.parametrize("scale", ["standard", "center", "none"])
def test_levels_of_targets_play_no_part_where_predictions_are_missing(scale):
    inputs, Y = problem()
    X, layout = multi_input_layout(inputs)
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    Y = Y - Y.mean(axis=0)
    curves = [
        averaged(layout, targets=TargetAggregator(scale=scale, cv=3)).fit(X, Y + level).cv_curve_
        for level in (0.0, 1000.0)
    ]
    np.testing.assert_allclose(curves[0].fold_errors, curves[1].fold_errors, rtol=1e-6)
    assert curves[0].chosen == curves[1].chosen


@pytest.mark.parametrize("scale", ["standard", "none"])
def test_what_is_said_of_merges_does_not_change_with_data_that_change_after_fit(scale):
    inputs, Y = problem()
    X, layout = multi_input_layout(inputs)
    model = averaged(layout, targets=fixed(np.inf, scale=scale))
    expected = model.fit(X, Y).merges_
    model.fit(X, Y)
    X[:], Y[:] = 0.0, np.random.default_rng(0).normal(size=Y.shape)
    pd.testing.assert_frame_equal(model.merges_, expected)


@pytest.mark.parametrize("scale", ["standard", "center"])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_level_of_an_input_that_is_constant_where_targets_are_known_plays_no_part(seed, scale):
    inputs, Y = problem(seed, n=80, n_tasks=6)
    Y += np.einsum("nlk,lk->nl", inputs, 0.4 * np.random.default_rng(seed).normal(size=(6, 3)))
    inputs[:, :, 2] = 0.1
    inputs[3:9, 1, 2], Y[3:9, 1] = 7.0, np.nan
    predicted = []
    for level in (0.0, 0.37, 1e3):
        X, layout = multi_input_layout(inputs + np.array([0.0, 0.0, level]))
        model = MultiInputCTFARegressor(
            layout, targets=fixed(30.0, scale=scale), aggregate="pool", head="levels"
        )
        predicted.append(model.fit(X, Y).predict(X))
    for other in predicted[1:]:
        np.testing.assert_allclose(other, predicted[0], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("aggregate", ["mean", "pool"])
@pytest.mark.parametrize("scan", ["best-first", "correlation", "grow", "restart"])
@pytest.mark.parametrize("order", ["given", "correlation", "random", [2, 4, 3, 6, 5, 0, 1]])
def test_groups_found_again_on_all_rows_are_those_of_fit(aggregate, scan, order):
    inputs, Y = problem(n_tasks=7, noise=3.0)
    X, layout = multi_input_layout(inputs)
    targets = fixed(1.0, scan=scan, order=order, random_state=1)
    model = MultiInputCTFARegressor(layout, targets=targets, aggregate=aggregate).fit(X, Y)
    everything = np.arange(len(X))
    model.stability(X, Y, cv=[(everything, everything)])
    np.testing.assert_array_equal(model.stability_labels_[0], model.labels_)


@pytest.mark.more
def test_short_series_are_compared_with_penalised_models_of_their_own():
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(24, 4, 20))
    Y = inputs[:, :, :3].sum(axis=2) + 0.1 * rng.normal(size=(24, 4))
    X, layout = multi_input_layout(inputs)
    alone = MultiInputCTFARegressor(layout, Ridge(), targets="passthrough").fit(X, Y)
    own = Ridge().fit(inputs[:, 1], Y[:, 1]).predict(inputs[:, 1])
    np.testing.assert_allclose(alone.predict(X)[:, 1], own)
    model = MultiInputCTFARegressor(
        layout, Ridge(), targets=fixed(2.0, regressor=RIDGE), aggregate="pool"
    ).fit(X, Y)
    for fitted in (model, alone):
        table = fitted.compare(X, Y, cv=3)
        assert np.isfinite(table["error"]).all()
        assert np.isfinite(table["single_task_error"]).all()


@pytest.mark.more
def test_layouts_by_name_are_compared_as_those_by_position_are():
    inputs, Y = problem()
    X, layout = multi_input_layout(inputs)
    frame = pd.DataFrame(X).add_prefix("c")
    named = np.array(frame.columns)[layout]
    tables = [
        MultiInputCTFARegressor(columns, targets=fixed()).fit(data, Y).compare(data, Y, cv=3)
        for columns, data in ((named, frame), (layout, X))
    ]
    pd.testing.assert_frame_equal(*tables)


@pytest.mark.more
@pytest.mark.parametrize("nothing", [-1, None, np.nan, pd.NA])
@pytest.mark.parametrize("named", [False, True])
def test_a_slot_that_a_target_has_not_may_be_written_in_any_way(nothing, named):
    inputs, Y = problem()
    inputs[:, 1, 2] = np.nan
    X, layout = multi_input_layout(inputs)
    expected = MultiInputCTFARegressor(layout, targets=fixed()).fit(X, Y).predict(X)
    frame = pd.DataFrame(X).add_prefix("c")
    columns = list(frame.columns) if named else list(range(X.shape[1]))
    written = [[nothing if at < 0 else columns[at] for at in row] for row in layout.tolist()]
    data = frame if named else X
    for given in (written, pd.DataFrame(written), np.array(written, dtype=object)):
        model = MultiInputCTFARegressor(given, targets=fixed()).fit(data, Y)
        np.testing.assert_array_equal(model.layout_, layout)
        np.testing.assert_array_equal(model.predict(data), expected)


@pytest.mark.parametrize(
    ("max_loss", "aggregate", "head", "words"),
    [
        ("auto", "mean", "mean", "max_loss='auto' cannot.* max_loss=1.5 is used"),
        (1.0, "auto", "mean", "^aggregate='auto' cannot.* aggregate='pool' is used"),
        ("auto", "auto", "levels", "max_loss='auto' and aggregate='auto' cannot"),
        (1.0, "mean", "levels", "^the shrinkage of head='levels' cannot"),
    ],
)
def test_short_folds_are_said_to_choose_only_what_they_were_to_choose(
    max_loss, aggregate, head, words
):
    inputs, Y = problem(n=8)
    X, layout = multi_input_layout(inputs)
    model = MultiInputCTFARegressor(
        layout, targets=fixed(max_loss, cv=2), aggregate=aggregate, head=head
    )
    with pytest.warns(RuntimeWarning, match=words):
        model.fit(X, Y)


def test_folds_without_a_single_target_judge_nothing():
    inputs, Y = problem(n=90)
    X, layout = multi_input_layout(inputs)
    Y[:30] = np.nan
    rows = np.arange(90)
    folds = [(rows[rows // 30 != k], rows[rows // 30 == k]) for k in range(3)]
    first, second = (
        MultiInputCTFARegressor(layout, targets=TargetAggregator(cv=cv), aggregate="auto").fit(X, Y)
        for cv in (folds, folds[1:])
    )
    assert first.aggregate_errors_ == second.aggregate_errors_
    assert first.max_loss_ == second.max_loss_
