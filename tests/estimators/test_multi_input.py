"""Targets with inputs of their own, end to end."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, RidgeCV
from sklearn.model_selection import GridSearchCV, KFold

import oracle_own
from ctfa import (
    FeatureAggregator,
    MultiInputCTFARegressor,
    TargetAggregator,
    multi_input_layout,
    nonlinctfa,
    target_path,
)
from ctfa.core.graph import some_vertices
from ctfa.datasets import make_basins
from ctfa.estimators import multi_input, search
from problems import RIDGE, averaged


def problem(seed=0, n=80, n_tasks=6, n_slots=3, noise=1.0, local=0.3):
    """Two families of tasks: inputs nearly in common, responses opposite."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(n, 1, n_slots))
    inputs = common + local * rng.normal(size=(n, n_tasks, n_slots))
    coef = np.where(np.arange(n_tasks)[:, None] < n_tasks // 2, 1.0, -1.0) * np.ones(n_slots)
    target = np.einsum("nlk,lk->nl", inputs, coef) + noise * rng.normal(size=(n, n_tasks))
    return inputs, target + 5.0 * np.arange(n_tasks)


def fixed(max_loss=1.5, **options):
    return TargetAggregator(max_loss=max_loss, **options)


@pytest.mark.parametrize("aggregate", ["mean", "pool", "auto"])
@pytest.mark.parametrize("head", ["mean", "levels"])
def test_two_families_are_found_and_predicted_better_than_alone(aggregate, head):
    inputs, Y = problem(n=160, n_slots=8, noise=4.0, local=0.1)
    X, layout = multi_input_layout(inputs)
    train, test = slice(0, 60), slice(60, None)
    model = MultiInputCTFARegressor(layout, aggregate=aggregate, head=head)
    model.fit(X[train], Y[train])
    alone = MultiInputCTFARegressor(layout, targets="passthrough").fit(X[train], Y[train])
    families = [set(group // 3) for group in model.partition_.groups]
    assert model.n_groups_ < 6
    assert all(len(family) == 1 for family in families)
    error, single = (((m.predict(X[test]) - Y[test]) ** 2).mean() for m in (model, alone))
    assert error < single
    assert model.aggregate_ in ("mean", "pool")
    assert (set(model.aggregate_errors_) == {"mean", "pool"}) == (aggregate == "auto")


def test_a_target_by_itself_is_its_own_least_squares_fit():
    inputs, Y = problem()
    X, layout = multi_input_layout(inputs)
    for options in ({"targets": "passthrough"}, {"targets": fixed(-np.inf), "aggregate": "pool"}):
        model = MultiInputCTFARegressor(layout, **options).fit(X, Y)
        for task in range(Y.shape[1]):
            own = LinearRegression().fit(inputs[:, task], Y[:, task]).predict(inputs[:, task])
            np.testing.assert_allclose(model.predict(X)[:, task], own, rtol=1e-9)


@pytest.mark.parametrize("scale", ["standard", "center", "none"])
def test_a_group_of_means_is_least_squares_of_means(scale):
    inputs, Y = problem()
    X, layout = multi_input_layout(inputs)
    model = averaged(layout, targets=fixed(np.inf, scale=scale)).fit(X, Y)
    assert model.n_groups_ == 1
    centre, spread = inputs.mean(axis=0), inputs.std(axis=0)
    offset, unit = Y.mean(axis=0), Y.std(axis=0)
    if scale != "standard":
        spread, unit = np.ones_like(spread), np.ones_like(unit)
    if scale == "none":
        centre, offset = np.zeros_like(centre), np.zeros_like(offset)
    mean_inputs = ((inputs - centre) / spread).mean(axis=1)
    mean_target = ((Y - offset) / unit).mean(axis=1)
    fitted = LinearRegression().fit(mean_inputs, mean_target).predict(mean_inputs)
    np.testing.assert_allclose(model.predict(X), fitted[:, None] * unit + offset, rtol=1e-9)


def test_pooled_groups_share_coefficients_and_keep_their_inputs():
    inputs, Y = problem()
    X, layout = multi_input_layout(inputs)
    model = averaged(layout, targets=fixed(np.inf, scale="center"), aggregate="pool").fit(X, Y)
    rows = (inputs - inputs.mean(axis=0)).transpose(1, 0, 2).reshape(-1, inputs.shape[2])
    target = (Y - Y.mean(axis=0)).T.reshape(-1)
    coef = np.linalg.lstsq(rows, target, rcond=None)[0]
    expected = (inputs - inputs.mean(axis=0)) @ coef + Y.mean(axis=0)
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-9)


@pytest.mark.parametrize("scan", ["best-first", "correlation"])
@pytest.mark.parametrize("criterion", ["risk", "mse"])
@pytest.mark.parametrize("seed", range(4))
def test_decisions_are_those_of_refits(scan, criterion, seed):
    inputs, Y = problem(seed, n_tasks=7, noise=2.0)
    X, layout = multi_input_layout(inputs)
    limit = 1.0 if criterion == "risk" else 0.0
    targets = TargetAggregator(criterion, max_loss=limit, scan=scan, scale="none")
    model = averaged(layout, targets=targets).fit(X, Y)
    expected = oracle_own.paired_groups(
        inputs.transpose(1, 0, 2), Y, limit, criterion=criterion, scan=scan
    )
    assert {tuple(g) for g in model.partition_.groups} == {
        tuple(sorted(g)) for g in expected.groups
    }


def test_the_authors_variant_asks_the_most_correlated_first():
    inputs, Y = problem(3, n_tasks=8, noise=2.0)
    X, layout = multi_input_layout(inputs)
    model = nonlinctfa(0.0, layout=layout).fit(X, Y)
    expected = oracle_own.paired_groups(
        inputs.transpose(1, 0, 2), Y, 0.0, criterion="mse", scan="correlation"
    )
    assert isinstance(model, MultiInputCTFARegressor)
    assert {tuple(g) for g in model.partition_.groups} == {
        tuple(sorted(g)) for g in expected.groups
    }
    assert nonlinctfa(1e9, layout=layout).fit(X, Y).n_groups_ == 8
    assert nonlinctfa(-1e9, layout=layout).fit(X, Y).n_groups_ == 1


@pytest.mark.parametrize("aggregate", ["mean", "pool"])
def test_units_of_each_series_do_not_matter(aggregate):
    inputs, Y = problem(1, noise=2.0)
    rng = np.random.default_rng(5)
    shape = inputs.shape[1:]
    other = inputs * rng.uniform(0.1, 10.0, shape) + rng.normal(size=shape) * 100.0
    unit, level = rng.uniform(0.1, 10.0, Y.shape[1]), rng.normal(size=Y.shape[1]) * 50.0
    options = {"targets": fixed(1.0), "aggregate": aggregate, "head": "levels"}
    X, layout = multi_input_layout(inputs)
    Z, _ = multi_input_layout(other)
    first = MultiInputCTFARegressor(layout, **options).fit(X, Y)
    second = MultiInputCTFARegressor(layout, **options).fit(Z, Y * unit + level)
    assert first.partition_ == second.partition_
    np.testing.assert_allclose(
        second.predict(Z), first.predict(X) * unit + level, rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize("aggregate", ["mean", "pool"])
def test_the_order_of_targets_and_of_slots_does_not_matter(aggregate):
    inputs, Y = problem(2, noise=2.0)
    order, slots = np.random.default_rng(0).permutation(6), [2, 0, 1]
    X, layout = multi_input_layout(inputs)
    options = {"targets": fixed(1.0), "aggregate": aggregate, "head": "levels"}
    first = MultiInputCTFARegressor(layout, **options).fit(X, Y)
    second = MultiInputCTFARegressor(layout[order][:, slots], **options).fit(X, Y[:, order])
    np.testing.assert_allclose(second.predict(X), first.predict(X)[:, order], rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("aggregate", ["mean", "pool"])
def test_a_slot_that_only_some_have_is_used_where_it_exists(aggregate):
    rng = np.random.default_rng(0)
    inputs, Y = problem(4, n=200, n_tasks=4, noise=0.5)
    snow = rng.normal(size=(200, 4))
    Y = Y + 3.0 * snow * [1, 1, 0, 0]
    X = np.column_stack((inputs.reshape(200, -1), snow[:, :2]))
    layout = np.column_stack((np.arange(12).reshape(4, 3), [12, 13, -1, -1]))
    model = MultiInputCTFARegressor(layout, targets=fixed(1.0), aggregate=aggregate).fit(X, Y)
    labels = model.labels_
    assert labels[0] != labels[2]
    assert labels[1] != labels[3]
    assert model._models.slots[labels[0], 3]
    assert not model._models.slots[labels[2], 3]
    # What others' snow is plays no part for those that have none.
    moved = X.copy()
    moved[:, 12:] += 100.0 * rng.normal(size=(200, 2))
    before, after = model.predict(X), model.predict(moved)
    np.testing.assert_array_equal(before[:, 2:], after[:, 2:])
    assert np.abs(before[:, :2] - after[:, :2]).max() > 1.0


@pytest.mark.parametrize("aggregate", ["mean", "pool"])
def test_a_group_of_which_one_has_snow_predicts_the_others_without_inventing(aggregate):
    inputs, Y = problem(4, n_tasks=3)
    X = np.column_stack((inputs.reshape(80, -1), np.random.default_rng(0).normal(size=80)))
    layout = np.column_stack((np.arange(9).reshape(3, 3), [9, -1, -1]))
    model = MultiInputCTFARegressor(layout, targets=fixed(np.inf), aggregate=aggregate).fit(X, Y)
    assert model.n_groups_ == 1
    blind = X.copy()
    blind[:, 9] = np.nan
    with pytest.warns(RuntimeWarning, match="predictions are NaN"):
        predicted = model.predict(blind)
    # The mean has lost its snow for everybody; shared coefficients only for the one that has some.
    lost = np.isnan(predicted).all(axis=0)
    assert lost.tolist() == ([True] * 3 if aggregate == "mean" else [True, False, False])


@pytest.mark.parametrize("aggregate", ["mean", "pool", "auto"])
@pytest.mark.parametrize("head", ["mean", "levels"])
def test_gaps_at_different_times_are_worked_with(aggregate, head):
    rng = np.random.default_rng(7)
    inputs, Y = problem(5, n=240, noise=1.0)
    X, layout = multi_input_layout(inputs)
    holes, gaps = X.copy(), Y.copy()
    holes[rng.random(X.shape) < 0.05] = np.nan
    gaps[rng.random(Y.shape) < 0.1] = np.nan
    model = MultiInputCTFARegressor(layout, aggregate=aggregate, head=head)
    model.fit(holes[:160], gaps[:160])
    predicted = model.predict(X[160:])
    assert np.isfinite(predicted).all()
    assert ((predicted - Y[160:]) ** 2).mean() < 2.0
    # Shared coefficients need a target's own inputs; a mean, those of some member.
    missing = np.isnan(holes[160:].reshape(80, 6, 3))
    lost = missing.any(axis=2)
    if model.aggregate_ == "mean":
        members = (model.labels_[:, None] == model.labels_).astype(int)
        observed = np.einsum("nmk,ml->nlk", ~missing, members) > 0
        lost = ~observed.all(axis=2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        some = model.predict(holes[160:])
    np.testing.assert_array_equal(np.isnan(some), lost)
    assert any("predictions are NaN" in str(w.message) for w in caught) == lost.any()
    assert 0.0 < model.score(X[160:], gaps[160:]) < 1.0


@pytest.mark.parametrize("aggregate", ["mean", "pool"])
def test_rows_without_anything_change_nothing(aggregate):
    inputs, Y = problem(6)
    X, layout = multi_input_layout(inputs)
    more = np.vstack((X, np.full((5, X.shape[1]), np.nan)))
    nothing = np.vstack((Y, np.full((5, Y.shape[1]), np.nan)))
    options = {"targets": fixed(1.0), "aggregate": aggregate}
    first = averaged(layout, **options).fit(X, Y)
    second = averaged(layout, **options).fit(more, nothing)
    assert first.partition_ == second.partition_
    np.testing.assert_allclose(first.predict(X), second.predict(X), rtol=1e-9)


@pytest.mark.parametrize("aggregate", ["mean", "pool"])
def test_weights_count_as_repetitions_in_the_fit_of_groups(aggregate):
    inputs, Y = problem(8)
    X, layout = multi_input_layout(inputs)
    weights = np.random.default_rng(0).integers(0, 3, 80)
    again = np.repeat(np.arange(80), weights)
    options = {"targets": fixed(np.inf), "aggregate": aggregate}
    first = averaged(layout, **options).fit(X, Y, sample_weight=weights)
    second = averaged(layout, **options).fit(X[again], Y[again])
    np.testing.assert_allclose(first.predict(X), second.predict(X), rtol=1e-9)


def test_neighbours_limit_who_may_merge_in_every_form_of_graph():
    inputs, Y = problem(9, n_tasks=6, noise=3.0)
    X, layout = multi_input_layout(inputs)
    pairs = np.array([[0, 1], [1, 2], [3, 4]])
    matrix = sparse.lil_array((6, 6))
    for a, b in pairs:
        matrix[a, b] = matrix[b, a] = 1
    found = [
        MultiInputCTFARegressor(layout, targets=fixed(np.inf, connectivity=graph)).fit(X, Y)
        for graph in (pairs, pairs.tolist(), matrix.tocsr(), matrix.toarray(), lambda _: matrix)
    ]
    for model in found:
        assert {tuple(g) for g in model.partition_.groups} == {(0, 1, 2), (3, 4), (5,)}


def test_slots_merge_within_a_group_where_asked():
    rng = np.random.default_rng(0)
    twins = rng.normal(size=(120, 4, 1)) + 0.01 * rng.normal(size=(120, 4, 2))
    inputs = np.concatenate((twins, rng.normal(size=(120, 4, 1))), axis=2)
    Y = inputs @ [1.0, 1.0, -2.0] + rng.normal(size=(120, 4))
    X, layout = multi_input_layout(inputs)
    for aggregate in ("mean", "pool"):
        model = MultiInputCTFARegressor(
            layout, targets=fixed(np.inf), features=FeatureAggregator(), aggregate=aggregate
        ).fit(X, Y)
        (features,) = model.features_
        assert features.get_feature_names_out().tolist() == ["mean(slot0, slot1)", "slot2"]
        assert np.isfinite(model.predict(X)).all()
        assert model.reduce(X, Y)[0].features.shape == (120, 2)


@pytest.mark.more
def test_series_shorter_than_their_inputs_need_a_penalty():
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(14, 5, 20))
    Y = inputs[:, :, :3].sum(axis=2) + 0.1 * rng.normal(size=(14, 5))
    X, layout = multi_input_layout(inputs)
    for aggregate in ("mean", "pool", "auto"):
        short = MultiInputCTFARegressor(layout, targets=fixed(1.0, cv=3), aggregate=aggregate)
        with pytest.warns(RuntimeWarning, match="14 rows.*20 inputs.*Ridge regression is used"):
            short.fit(X, Y)
        assert np.isfinite(short.predict(X)).all()
        asked = short.set_params(targets__regressor=RIDGE).fit(X, Y)
        np.testing.assert_array_equal(asked.labels_, short.labels_)
    for aggregate in ("mean", "pool", "auto"):
        model = MultiInputCTFARegressor(
            layout,
            RidgeCV(),
            targets=TargetAggregator(regressor=RIDGE, cv=3),
            aggregate=aggregate,
            head="levels",
        ).fit(X, Y)
        assert np.isfinite(model.predict(X)).all()


def test_any_regressor_serves_a_group():
    inputs, Y = problem(1)
    X, layout = multi_input_layout(inputs)
    for aggregate in ("mean", "pool"):
        model = MultiInputCTFARegressor(
            layout,
            RandomForestRegressor(n_estimators=5, random_state=0),
            targets=fixed(1.0),
            aggregate=aggregate,
        ).fit(X, Y)
        assert len(model.regressors_) == model.n_groups_
        assert model.score(X, Y) > 0.5


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_come_back_as_frames_and_layouts_may_be_names(library):
    inputs, Y = problem()
    X, layout = multi_input_layout(inputs)
    frame = pd.DataFrame if library == "pandas" else pl.DataFrame
    columns = [f"{slot}_{basin}" for basin in "abcdef" for slot in ("rain", "sun", "wind")]
    table = frame(dict(zip(columns, X.T, strict=True)))
    targets = frame(dict(zip("abcdef", Y.T, strict=True)))
    named = np.array(columns)[layout]
    by_name = MultiInputCTFARegressor(named, targets=fixed(1.0)).fit(table, targets)
    by_place = MultiInputCTFARegressor(layout, targets=fixed(1.0)).fit(X, Y)
    predicted = by_name.predict(table)
    assert type(predicted) is frame
    assert list(predicted.columns) == list("abcdef")
    np.testing.assert_array_equal(np.asarray(predicted), by_place.predict(X))
    assert "a" in str(by_name.why("a"))


def test_what_is_said_of_merges_adds_up():
    inputs, Y = problem(2, n=60, noise=4.0)
    X, layout = multi_input_layout(inputs)
    for aggregate in ("mean", "pool"):
        model = averaged(layout, targets=fixed(1.0), aggregate=aggregate)
        model.fit(X, Y)
        merges = model.merges_
        assert len(merges) == 6 - model.n_groups_ > 0
        below = (merges["f_statistic"] - 1.0) / (merges["f_star"] - 1.0)
        np.testing.assert_allclose(below, merges["loss"], rtol=1e-6)
        # A merge within break-even is one that is predicted to gain.
        assert (merges["gain"] >= 0.0).all()
        again = pickle.loads(pickle.dumps(model))
        pd.testing.assert_frame_equal(again.merges_, merges)
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        words = str(model.why(0))
        assert str(again.why(0)) == words
        assert ("shares its coefficients" in words) == (aggregate == "pool")
        assert ("means of their inputs" in words) == (aggregate == "mean")
        assert "trusts" not in words


@pytest.mark.parametrize("aggregate", ["mean", "pool"])
def test_gains_of_members_add_up_to_those_of_merges(aggregate):
    inputs, Y = problem(2, n=60, noise=4.0)
    X, layout = multi_input_layout(inputs)
    model = MultiInputCTFARegressor(layout, RidgeCV(), targets=fixed(2.0), aggregate=aggregate).fit(
        X, Y
    )
    members = sum(model.why(target).gain for target in range(6))
    # Averaged: one identity. Shared: two estimates of one thing.
    close = {"mean": 1e-9, "pool": 0.2}[aggregate]
    assert members == pytest.approx(model.merges_["gain"].sum(), rel=close)


@pytest.mark.more
def test_predicted_gains_of_averaged_members_are_unbiased():
    rng = np.random.default_rng(0)
    n, n_new, n_tasks, n_slots = 30, 2000, 3, 4
    predicted, true = [], []
    for _ in range(150):
        common = rng.normal(size=(n + n_new, 1, n_slots))
        inputs = common + 0.5 * rng.normal(size=(n + n_new, n_tasks, n_slots))
        noise = rng.normal(size=(n + n_new, 1)) + rng.normal(size=(n + n_new, n_tasks))
        Y = inputs.sum(axis=2) + 1.5 * noise
        X, layout = multi_input_layout(inputs)
        targets = fixed(np.inf, scale="center")
        model = averaged(layout, targets=targets).fit(X[:n], Y[:n])
        alone = averaged(layout, targets="passthrough").fit(X[:n], Y[:n])
        errors = [((m.predict(X[n:]) - Y[n:]) ** 2).mean(axis=0) for m in (alone, model)]
        true.append(errors[0][0] - errors[1][0])
        predicted.append(model.why(0).gain)
    gap = np.array(predicted) - np.array(true)
    assert abs(gap.mean()) < 3.0 * gap.std() / np.sqrt(gap.size)
    assert abs(np.mean(true)) > 0.1  # there is something to predict


def test_penalised_merges_are_explained_without_an_f():
    inputs, Y = problem(2, n=60, noise=4.0)
    X, layout = multi_input_layout(inputs)
    for aggregate in ("mean", "pool"):
        targets = fixed(2.0, regressor=RIDGE)
        model = MultiInputCTFARegressor(layout, targets=targets, aggregate=aggregate).fit(X, Y)
        assert model.merges_["f_statistic"].isna().all()
        assert model.merges_["gain"].notna().all()
        words = "".join(str(model.why(target)) for target in range(6))
        assert "nan" not in words
        assert "predicted gain" in words


def test_stability_and_comparison_with_single_targets():
    inputs, Y = problem(2, n=90, noise=3.0)
    X, layout = multi_input_layout(inputs)
    model = MultiInputCTFARegressor(layout, targets=fixed(1.0), aggregate="pool").fit(X, Y)
    together = model.stability(X, Y, cv=KFold(5))
    assert together.shape == (6, 6)
    assert (np.diag(together) == 1.0).all()
    assert together[0, 1] > together[0, 4]
    table = model.compare(X, Y, cv=3)
    assert table["gain"].mean() > 0.0


@pytest.mark.more
def test_scikit_learn_searches_and_clones_it():
    inputs, Y = problem(2, n=60, noise=3.0)
    X, layout = multi_input_layout(inputs)
    search = GridSearchCV(
        MultiInputCTFARegressor(layout, targets=fixed(1.0)),
        {"aggregate": ["mean", "pool"], "targets__max_loss": [0.0, 2.0]},
        cv=KFold(3),
    ).fit(X, Y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert clone(search.best_estimator_).get_params()["aggregate"] in ("mean", "pool")


def test_averaging_is_chosen_where_inputs_are_noisy_and_sharing_where_they_are_local():
    rng = np.random.default_rng(0)
    n, n_tasks = 150, 12
    weather = rng.normal(size=(n, 1, 3))
    measured = weather + 2.0 * rng.normal(size=(n, n_tasks, 3))
    same = weather[:, 0] @ np.ones(3)
    Y = same[:, None] + 0.5 * rng.normal(size=(n, n_tasks))
    X, layout = multi_input_layout(measured)
    assert MultiInputCTFARegressor(layout, aggregate="auto").fit(X, Y).aggregate_ == "mean"
    local = rng.normal(size=(n, n_tasks, 3))
    Y = local.sum(axis=2) + 2.0 * rng.normal(size=(n, n_tasks))
    X, layout = multi_input_layout(local)
    assert MultiInputCTFARegressor(layout, aggregate="auto").fit(X, Y).aggregate_ == "pool"


def test_neighbouring_basins_pay():
    basins = make_basins(n_basins=60, n_samples=160, n_features=6, noise=2.0, random_state=0)
    train, test = slice(0, 80), slice(80, None)
    targets = TargetAggregator(connectivity=basins.connectivity, cv=5)
    model = MultiInputCTFARegressor(basins.layout, targets=targets, aggregate="auto")
    model.fit(basins.data[train], basins.target[train])
    alone = MultiInputCTFARegressor(basins.layout, targets="passthrough")
    alone.fit(basins.data[train], basins.target[train])
    unit = basins.target.var(axis=0)
    errors = [
        (((m.predict(basins.data[test]) - basins.target[test]) ** 2) / unit).mean()
        for m in (model, alone)
    ]
    assert model.n_groups_ < 60
    assert errors[0] < errors[1]


INPUTS, TARGET = problem(n=40)
TABLE, LAYOUT = multi_input_layout(INPUTS)


@pytest.mark.parametrize(
    ("options", "X", "Y", "message"),
    [
        ({"layout": LAYOUT[:5]}, TABLE, TARGET, "layout has 5 rows but y has 6"),
        ({"layout": LAYOUT.ravel()}, TABLE, TARGET, "layout has shape"),
        ({"layout": LAYOUT + 1}, TABLE, TARGET, "column 18 but X has 18"),
        ({"layout": LAYOUT - 2}, TABLE, TARGET, "column -2"),
        ({"layout": LAYOUT + 0.5}, TABLE, TARGET, "whole numbers"),
        ({"layout": np.where(LAYOUT < 3, -1, LAYOUT)}, TABLE, TARGET, "target 0 no column"),
        ({"layout": np.maximum(LAYOUT, 1)}, TABLE, TARGET, "a column twice"),
        ({"layout": LAYOUT.astype(str)}, TABLE, TARGET, "layout holds names"),
        ({"aggregate": "median"}, TABLE, TARGET, "aggregate"),
        ({"head": "median"}, TABLE, TARGET, "head"),
        ({"targets": TargetAggregator(flip=True)}, TABLE, TARGET, "flip"),
        ({"targets": TargetAggregator(guard="member")}, TABLE, TARGET, "guard"),
        (
            {"targets": TargetAggregator("mse", max_loss=0.0), "aggregate": "pool"},
            TABLE,
            TARGET,
            "rule for means",
        ),
        ({"targets": fixed(1.0, scale="none"), "aggregate": "pool"}, TABLE, TARGET, "scale='none'"),
        ({}, np.where(TABLE > 1, np.inf, TABLE), TARGET, "infinity"),
        ({}, TABLE, np.where(np.arange(40)[:, None] < 39, np.nan, TARGET), "1 row"),
        ({}, TABLE, TARGET * [1, 1, 0, 1, 1, 1], "constant|vary"),
    ],
)
def test_bad_input_is_refused_in_words(options, X, Y, message):
    model = MultiInputCTFARegressor(**{"layout": LAYOUT, **options})
    with pytest.raises(ValueError, match=message):
        model.fit(X, Y)


def test_an_edge_to_nobody_is_refused():
    targets = fixed(1.0, connectivity=[(0, 1), (1, 9), (2, 3)])
    with pytest.raises(ValueError, match="edge to 9"):
        MultiInputCTFARegressor(LAYOUT, targets=targets).fit(TABLE, TARGET)


@pytest.mark.parametrize("aggregate", ["mean", "pool"])
@pytest.mark.parametrize("scan", ["best-first", "correlation"])
def test_a_path_has_the_groups_of_each_limit(aggregate, scan):
    inputs, Y = problem(2, noise=3.0)
    X, layout = multi_input_layout(inputs)
    limits = [-np.inf, 0.0, 0.5, 1.0, 2.0, 10.0, np.inf]
    points = target_path(X, Y, limits, layout=layout, aggregate=aggregate, scan=scan)
    for limit, point in zip(limits, points, strict=True):
        targets = fixed(limit, scan=scan)
        model = MultiInputCTFARegressor(layout, targets=targets, aggregate=aggregate).fit(X, Y)
        assert model.partition_ == point.partition
        assert model.loss_interval_ == pytest.approx(point.loss_interval)
    assert points[0].n_groups == 6
    assert points[-1].n_groups == 1


def test_nothing_merged_compares_as_nothing_gained():
    """In the same units, whatever those of the inputs are."""
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(80, 4, 3)) * [1e-2, 1.0, 100.0]
    Y = (inputs / [1e-2, 1.0, 100.0]).sum(axis=2) + rng.normal(size=(80, 4))
    X, layout = multi_input_layout(inputs)
    model = MultiInputCTFARegressor(layout, RidgeCV(), targets=fixed(-np.inf)).fit(X, Y)
    np.testing.assert_allclose(model.compare(X, Y, cv=3)["gain"], 0.0, atol=1e-12)


@pytest.mark.more
def test_models_are_compared_on_rows_that_both_predict():
    rng = np.random.default_rng(0)
    weather = rng.normal(size=(200, 1, 1))
    inputs = weather + 0.1 * rng.normal(size=(200, 6, 1))
    missing = rng.random((200, 6)) < 0.2
    # Noisy exactly where a target's own input is missing and only its group can predict.
    Y = weather[:, :, 0] + np.where(missing, 3.0, 0.1) * rng.normal(size=(200, 6))
    inputs[missing] = np.nan
    X, layout = multi_input_layout(inputs)
    model = MultiInputCTFARegressor(layout, targets=fixed(np.inf)).fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = model.compare(X, Y, cv=4)
    assert (table["error"] < 0.3).all()


def test_slots_are_called_by_what_their_columns_have_in_common():
    inputs, Y = problem()
    X, layout = multi_input_layout(inputs)
    columns = [f"{slot}_{basin}" for basin in "abcdef" for slot in ("rain", "sun", "wind")]
    table = pd.DataFrame(X, columns=columns)
    model = MultiInputCTFARegressor(layout, targets=fixed(np.inf), features=FeatureAggregator())
    model.fit(table, Y)
    assert model.features_[0].feature_names_in_.tolist() == ["rain", "sun", "wind"]


def test_a_limit_of_no_merge_that_was_chosen_is_said_to_be_chosen(monkeypatch):
    inputs, Y = problem()
    X, layout = multi_input_layout(inputs)
    given = MultiInputCTFARegressor(layout, targets=fixed(-np.inf), aggregate="pool").fit(X, Y)
    assert "switched off" in str(given.why(0))
    monkeypatch.setattr("ctfa.estimators.search.LIMITS", (-np.inf,))
    chosen = MultiInputCTFARegressor(layout, aggregate="pool", head="levels").fit(X, Y)
    assert chosen.max_loss_ == -np.inf
    assert "held-out rows preferred no merge" in str(chosen.why(0))


@pytest.mark.parametrize("options", [{"scale": "none"}, {"criterion": "mse"}])
def test_what_is_about_means_alone_is_averaged_by_default(options):
    inputs, Y = problem(3)
    X, layout = multi_input_layout(inputs)
    model = MultiInputCTFARegressor(layout, targets=fixed(1.0, **options)).fit(X, Y)
    assert model.aggregate_ == "mean"
    assert set(model.aggregate_errors_) == {"mean"}


def test_a_target_whose_amplitude_differs_is_not_ruined_by_its_group():
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(120, 8, 3)) + rng.normal(size=(120, 1, 3))
    times = np.r_[4.0, np.ones(7)]
    Y = times * (inputs @ [1.0, -0.5, 0.2]) + rng.normal(size=(120, 8))
    X, layout = multi_input_layout(inputs)
    train, test = slice(0, 80), slice(80, None)
    for scale in ("standard", "center"):
        kinds = (fixed(np.inf, scale=scale), "passthrough")
        models = [MultiInputCTFARegressor(layout, targets=targets) for targets in kinds]
        errors = [
            ((model.fit(X[train], Y[train]).predict(X[test]) - Y[test]) ** 2).mean(axis=0)
            for model in models
        ]
        assert models[0].n_groups_ == 1
        assert errors[0][0] < 1.1 * errors[1][0]
        assert errors[0].mean() < 1.02 * errors[1].mean()


def test_folds_of_very_many_targets_ask_some_neighbourhoods_of_them(monkeypatch):
    monkeypatch.setattr(multi_input, "ASKED_ON_FOLDS", 30)
    basins = make_basins(60, 60, 3, n_regions=3, random_state=0)
    targets = TargetAggregator(connectivity=basins.connectivity)
    model = MultiInputCTFARegressor(basins.layout, targets=targets)
    model.fit(basins.data, basins.target)
    assert model.cv_curve_.n_groups.max() == 30
    assert model.labels_.size == 60
    asked = some_vertices(60, 30, basins.connectivity)
    few = MultiInputCTFARegressor(
        basins.layout[asked],
        targets=TargetAggregator(connectivity=basins.connectivity[asked][:, asked]),
    ).fit(basins.data, basins.target[:, asked])
    np.testing.assert_allclose(few.cv_curve_.error, model.cv_curve_.error, rtol=1e-9)
    assert few.max_loss_ == model.max_loss_


def test_a_number_of_groups_of_very_many_targets_is_priced_by_all_of_them(monkeypatch):
    monkeypatch.setattr(multi_input, "ASKED_ON_FOLDS", 30)
    asked, judge_fold = [], search._judge_fold

    def judged(*given):
        asked.append((given[0].n_tasks, given[2][1][0]))
        return judge_fold(*given)

    monkeypatch.setattr(search, "_judge_fold", judged)
    basins = make_basins(60, 60, 3, n_regions=3, random_state=0)
    targets = TargetAggregator(n_groups=3, connectivity=basins.connectivity)
    model = MultiInputCTFARegressor(basins.layout, targets=targets)
    model.fit(basins.data, basins.target)
    assert model.n_groups_ == 3
    assert np.isfinite(model.targets_.price_.error)
    # Six of ten blocks of six rows, from the first to the last.
    assert sorted(asked) == [(60, 6 * fold) for fold in (0, 2, 4, 5, 7, 9)]


def test_folds_far_apart_that_agree_end_the_comparison_of_ways(monkeypatch):
    ways = []

    def judged(*given):
        ways.append(given[4])
        return judge_fold(*given)

    judge_fold = search._judge_fold
    monkeypatch.setattr(search, "_judge_fold", judged)
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(80, 12, 3))
    Y = inputs.sum(axis=2) + rng.normal(size=(80, 12))
    X, layout = multi_input_layout(inputs)
    model = MultiInputCTFARegressor(layout).fit(X, Y)
    assert model.aggregate_ == "pool"
    assert [len(each) for each in ways] == [2] * 3 + [1] * 7
    assert model.aggregate_errors_["pool"] < model.aggregate_errors_["mean"]
    curve = model.cv_curve_
    # Folds stay in the order of the rows, whoever was asked first.
    alone = MultiInputCTFARegressor(layout, aggregate="pool").fit(X, Y).cv_curve_
    np.testing.assert_allclose(curve.fold_errors, alone.fold_errors, rtol=1e-12)
