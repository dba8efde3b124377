"""Tasks with rows of their own, end to end: decisions of refits, laws, routing and bad input."""

import pickle
import re

import numpy as np
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Lasso, LinearRegression, RidgeCV
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    ShuffleSplit,
    cross_val_predict,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import ctfa
import oracle_own
from ctfa import FeatureAggregator, PooledCTFARegressor, TargetAggregator
from ctfa._reading.sums import deal_tasks
from ctfa.core.cut import CutCurve, middle_of_best
from generated import examples
from problems import RIDGE
from real_data import real
from test_core_against_oracle import assert_same_decisions
from test_pooled_space import dummy_rows, own_rows


def schools(seed=0, *, n_tasks=12, apart=0.0, n_inputs=3, shortest=6):
    """Two kinds of slopes, offsets of every task's own, unequal numbers of rows."""
    rng = np.random.default_rng(seed)
    slopes = np.stack([np.ones(n_inputs), -np.ones(n_inputs)])
    ids = np.repeat(np.arange(n_tasks), rng.integers(shortest, 40, size=n_tasks))
    X = rng.normal(size=(ids.size, n_inputs)) + rng.normal(size=(n_tasks, n_inputs))[ids]
    own = slopes[np.arange(n_tasks) % 2] + apart * rng.normal(size=(n_tasks, n_inputs))
    offsets = 3.0 * rng.normal(size=n_tasks)
    y = (X * own[ids]).sum(axis=1) + offsets[ids] + rng.normal(size=ids.size)
    return X, y, ids


def stacked(inputs, targets):
    ids = np.repeat(np.arange(len(targets)), [len(y) for y in targets])
    return np.vstack(inputs), np.concatenate(targets), ids


def fixed(m=1.0, **options):
    return TargetAggregator(max_loss=m, **options)


# -- Decisions -------------------------------------------------------------------------------------


@pytest.mark.parametrize("scan", ["best-first", "correlation", "grow", "restart"])
@pytest.mark.parametrize("with_graph", [False, True])
def test_groups_are_those_of_refits(scan, with_graph):
    compared = 0
    for seed in range(3):
        # Predictions of slopes that a task cannot estimate have no correlation to speak of.
        dummies = seed == 0 and scan != "correlation"
        inputs, targets = dummy_rows(seed) if dummies else own_rows("correlated", seed)
        n = len(inputs)
        upper = np.triu(np.random.default_rng(seed).uniform(size=(n, n)) < 0.6, 1)
        graph = upper | upper.T if with_graph else None
        X, y, ids = stacked(inputs, targets)
        for m in (0.5, 1.5):
            aggregator = fixed(m, scan=scan, connectivity=graph)
            model = PooledCTFARegressor(targets=aggregator).fit(X, y, tasks=ids)
            expected = oracle_own.pooled_groups(
                inputs, targets, m, scan=scan, neighbours=graph, tolerance=1e-10, tie=1e-9
            )
            compared += assert_same_decisions(model.history_, expected, m + 1e-10)
    assert compared > 3


def test_the_loss_of_every_merge_is_that_of_refits():
    inputs, targets = own_rows("gaussian", 1)
    X, y, ids = stacked(inputs, targets)
    model = PooledCTFARegressor(targets=fixed(np.inf)).fit(X, y, tasks=ids)
    frame = model.merges_
    for row in frame.itertuples():
        block, other = (tuple(map(int, side)) for side in (row.group, row.joined))
        expected = oracle_own.pooled_risk_loss(inputs, targets, block, other)
        assert row.loss == pytest.approx(expected, rel=1e-6)
        assert (row.f_statistic - 1.0) / (row.f_star - 1.0) == pytest.approx(row.loss, rel=1e-9)


def test_predictions_are_those_of_common_slopes_and_one_dummy_a_task():
    """With offsets far apart nothing is shrunk, and a regression on dummies says the same."""
    inputs, targets = own_rows("gaussian", 2)
    targets = [y + 1e3 * task for task, y in enumerate(targets)]
    X, y, ids = stacked(inputs, targets)
    model = PooledCTFARegressor(targets=fixed()).fit(X, y, tasks=ids)
    predicted = model.predict(X, tasks=ids)
    for group in model.partition_.groups:
        fit = oracle_own.pool(inputs, targets, group.tolist())
        for task in group:
            offset = targets[task].mean() - inputs[task].mean(axis=0) @ fit.coef
            expected = inputs[task] @ fit.coef + offset
            np.testing.assert_allclose(predicted[ids == task], expected, atol=1e-3)


def test_a_task_by_itself_is_one_least_squares_fit():
    X, y, ids = schools(1, shortest=10)
    model = PooledCTFARegressor(targets="passthrough").fit(X, y, tasks=ids)
    assert model.n_groups_ == 12
    predicted = model.predict(X, tasks=ids)
    for task in range(12):
        own = ids == task
        alone = LinearRegression().fit(X[own], y[own]).predict(X[own])
        np.testing.assert_allclose(predicted[own], alone, atol=1e-9)
    np.testing.assert_array_equal(model.trust_, 1.0)


def test_the_limit_chosen_finds_the_kinds():
    X, y, ids = schools(3)
    model = PooledCTFARegressor().fit(X, y, tasks=ids)
    np.testing.assert_array_equal(model.labels_, np.arange(12) % 2)
    assert model.max_loss_ == model.cv_curve_.max_loss[model.cv_curve_.chosen]
    low, high = model.loss_interval_
    assert low <= model.max_loss_ < high


def test_the_middle_of_the_best_limits_is_chosen():
    def chosen(*errors, n_groups=None):
        n_groups = np.ones(len(errors)) if n_groups is None else np.array(n_groups)
        limits = np.arange(float(len(errors)))
        return middle_of_best(CutCurve(limits, np.array([errors, errors]), n_groups, -1))

    assert chosen(3.0, 2.0, 1.0, 1.0, 1.0, 2.0, 1.0) == 3
    assert chosen(3.0, 2.0, 1.0) == 2
    assert chosen(0.0, 0.0) == 0
    assert chosen(1.0, 1.0, 2.0, n_groups=[3.0, 2.0, 1.0]) == 1  # a tie: fewer groups
    assert chosen(1.0, 1.0 - 1e-6, 2.0, n_groups=[2.0, 3.0, 1.0]) == 1


def test_the_limit_is_that_of_the_smallest_error():
    X, y, ids = schools(29, n_tasks=20)
    curve = PooledCTFARegressor().fit(X, y, tasks=ids).cv_curve_
    assert curve.error[curve.chosen] == pytest.approx(curve.error.min())


@given(seed=st.integers(0, 10_000), n_folds=st.integers(2, 12))
@settings(max_examples=examples(30), deadline=None)
def test_folds_hold_out_their_share_of_every_task(seed, n_folds):
    rng = np.random.default_rng(seed)
    ids = rng.permutation(np.repeat(np.arange(12), rng.integers(1, 40, 12)))
    fold = deal_tasks(ids, n_folds)
    for task in range(12):
        counts = np.bincount(fold[ids == task], minlength=n_folds)
        assert counts.max() - counts.min() <= 1
    assert np.ptp(np.bincount(fold, minlength=n_folds)) <= 12
    # What comes later changes nothing.
    np.testing.assert_array_equal(deal_tasks(ids[:100], n_folds), fold[:100])


def test_tasks_of_fewer_rows_than_folds_are_in_all_of_them():
    counts = np.bincount(deal_tasks(np.repeat(np.arange(100), 3), 10))
    np.testing.assert_array_equal(counts, 30)


def test_what_returns_among_rows_is_in_every_fold():
    weekday = np.arange(2_000) % 5
    fold = deal_tasks(np.zeros(2_000, dtype=int), 10)
    share = np.array([np.bincount(weekday[fold == k], minlength=5) for k in range(10)])
    assert share.min() > 20


def test_tasks_with_identical_data_merge():
    X, y, ids = schools(4, n_tasks=4, shortest=20)
    X, y = np.vstack([X, X]), np.concatenate([y, y])
    ids = np.concatenate([ids, ids + 4])
    model = PooledCTFARegressor(targets=fixed(0.0)).fit(X, y, tasks=ids)
    np.testing.assert_array_equal(model.labels_[:4], model.labels_[4:])


def test_own_slopes_help_where_tasks_of_a_group_differ():
    X, y, ids = schools(5, n_tasks=30, apart=0.7, shortest=15)
    rng = np.random.default_rng(0)
    train = rng.uniform(size=ids.size) < 0.7
    scores = {
        head: PooledCTFARegressor(targets=fixed(np.inf), head=head)
        .fit(X[train], y[train], tasks=ids[train])
        .score(X[~train], y[~train], tasks=ids[~train])
        for head in ("mean", "levels")
    }
    assert scores["levels"] > scores["mean"] + 0.1


@pytest.mark.parametrize("head", ["mean", "levels"])
def test_tasks_without_noise_are_predicted_exactly(head):
    X, _, ids = schools(28, n_tasks=5, shortest=3)
    y = X @ [1.0, -2.0, 0.5] + 10.0 * np.cos(ids)
    model = PooledCTFARegressor(targets=fixed(), head=head).fit(X, y, tasks=ids)
    assert model.n_groups_ == 1
    np.testing.assert_allclose(model.predict(X, tasks=ids), y, atol=1e-6)
    np.testing.assert_array_equal(model.trust_, 1.0)


# -- Laws ------------------------------------------------------------------------------------------


@pytest.mark.more
@given(
    seed=st.integers(0, 10_000),
    head=st.sampled_from(["mean", "levels"]),
    targets=st.sampled_from([None, fixed(1.5)]),
)
@settings(max_examples=examples(16), deadline=None)
def test_names_of_tasks_and_with_a_limit_the_order_of_rows_do_not_matter(seed, head, targets):
    X, y, ids = schools(seed % 50, n_tasks=5)
    rng = np.random.default_rng(seed)
    model = PooledCTFARegressor(targets=targets, head=head).fit(X, y, tasks=ids)
    expected = model.predict(X, tasks=ids)
    # Folds are dealt in the order of rows.
    rows = np.arange(ids.size) if targets is None else rng.permutation(ids.size)
    names = np.array([f"school {k}" for k in rng.permutation(5)])
    other = PooledCTFARegressor(targets=targets, head=head)
    other.fit(X[rows], y[rows], tasks=names[ids[rows]])
    assert other.max_loss_ == model.max_loss_
    np.testing.assert_allclose(other.predict(X, tasks=names[ids]), expected, atol=1e-6)
    place = [list(other.tasks_).index(name) for name in names]
    mine = model.labels_[:, None] == model.labels_
    theirs = other.labels_[place][:, None] == other.labels_[place]
    np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_allclose(other.trust_[place], model.trust_, atol=1e-6)


@pytest.mark.more
@pytest.mark.parametrize("head", ["mean", "levels"])
def test_units_of_the_target_scale_predictions(head):
    X, y, ids = schools(6, n_tasks=6)
    one = PooledCTFARegressor(head=head).fit(X, y, tasks=ids)
    two = PooledCTFARegressor(head=head).fit(X, 2.0 * y, tasks=ids)
    far = PooledCTFARegressor(head=head).fit(X, 1000.0 * y + 7.0, tasks=ids)
    expected = one.predict(X, tasks=ids)
    np.testing.assert_allclose(two.predict(X, tasks=ids), 2.0 * expected, rtol=1e-9)
    np.testing.assert_allclose(far.predict(X, tasks=ids), 1000.0 * expected + 7.0, rtol=1e-6)


def test_units_of_the_inputs_do_not_matter():
    X, y, ids = schools(7, n_tasks=6, apart=0.3)
    units, shift = np.array([0.1, 1.0, 100.0]), np.array([5.0, -2.0, 100.0])
    one = PooledCTFARegressor(head="levels").fit(X, y, tasks=ids)
    two = PooledCTFARegressor(head="levels").fit((X + shift) * units, y, tasks=ids)
    np.testing.assert_allclose(
        two.predict((X + shift) * units, tasks=ids), one.predict(X, tasks=ids), atol=1e-6
    )


def pupils(seed):
    """Inputs of pupils, of their schools (the same for all pupils of one), and of nobody."""
    X, y, ids = schools(seed, n_tasks=8, apart=0.3, n_inputs=2, shortest=10)
    rng = np.random.default_rng(seed)
    of_school = np.column_stack((rng.normal(size=8), np.arange(8) % 3 == 0))[ids]
    y = y + of_school @ [1.0, -0.5]
    X = np.column_stack((X, of_school, rng.integers(0, 2, y.size), np.full(y.size, 0.1)))
    return np.round(64.0 * X) / 64.0, y, ids  # so few digits that no level takes any away


shifts = st.lists(st.sampled_from([0.0, 0.3, -7.0, 1e3, 1e8]), min_size=6, max_size=6)
units = st.lists(st.sampled_from([1.0, 0.125, -4.0, 32.0]), min_size=6, max_size=6)


@pytest.mark.more
@given(
    seed=st.integers(0, 50),
    head=st.sampled_from(["mean", "levels"]),
    max_loss=st.sampled_from([1.5, np.inf, "auto"]),
    weighted=st.booleans(),
    shift=shifts,
    unit=units,
)
@settings(max_examples=examples(40), deadline=None)
def test_origins_and_units_of_the_inputs_do_not_matter(seed, head, max_loss, weighted, shift, unit):
    X, y, ids = pupils(seed)
    weights = np.random.default_rng(seed).uniform(0.5, 2.0, y.size) if weighted else None
    moved = (X + shift) * unit
    one, two = (
        PooledCTFARegressor(targets=fixed(max_loss), head=head).fit(Z, y, ids, weights)
        for Z in (X, moved)
    )
    assert one.max_loss_ == two.max_loss_
    np.testing.assert_array_equal(one.labels_, two.labels_)
    np.testing.assert_allclose(two.trust_, one.trust_, rtol=1e-6, atol=1e-6)
    # A regressor whose inputs lie at 1e8 rounds its own predictions.
    np.testing.assert_allclose(two.predict(moved, ids), one.predict(X, ids), rtol=1e-6, atol=2e-5)


@pytest.mark.more
@pytest.mark.parametrize("seed", range(4))
def test_origins_of_the_inputs_merge_no_features(seed):
    X, y, ids = pupils(seed)
    model = PooledCTFARegressor(targets=fixed(np.inf), features=FeatureAggregator())
    shift = np.array([1e3, 0.3, 1e8, 7.0, -1.0, 1e8])
    one, two = (clone(model).fit(Z, y, ids) for Z in (X, X + shift))
    np.testing.assert_array_equal(one.features_[0].labels_, two.features_[0].labels_)


def test_the_nearest_group_does_not_depend_on_the_origin_of_inputs():
    X, y, ids = pupils(3)
    model = PooledCTFARegressor(targets=fixed(1.5), unseen="nearest")
    shift = np.array([0.0, 1e3, 1e8, 1e8, 0.0, 1e8])
    one, two = (clone(model).fit(Z, y, ids) for Z in (X, X + shift))
    assert one.n_groups_ > 1
    np.testing.assert_allclose(two._nearest.spread, one._nearest.spread, rtol=1e-6)
    for task in range(8):
        mean = X[ids == task].mean(axis=0)
        assert one._nearest.group_of(mean) == two._nearest.group_of(mean + shift)


def test_scale_changes_the_unit_of_gains_and_no_decision():
    X, y, ids = schools(8)
    one, two = (
        PooledCTFARegressor(targets=TargetAggregator(scale=scale)).fit(X, y, tasks=ids)
        for scale in ("standard", "center")
    )
    np.testing.assert_array_equal(one.labels_, two.labels_)
    within = np.mean((y - (np.bincount(ids, y) / np.bincount(ids))[ids]) ** 2)
    np.testing.assert_allclose(two.merges_["gain"] / within, one.merges_["gain"])


def test_weights_are_repeated_rows_to_a_regressor_and_its_offsets():
    X, y, ids = schools(9, n_tasks=4)
    weights = np.where(np.arange(ids.size) % 3 == 0, 2, 1)
    model = PooledCTFARegressor(targets=fixed(np.inf)).fit(X, y, ids, sample_weight=weights)
    repeated = (np.repeat(part, weights, axis=0) for part in (X, y, ids))
    twice = PooledCTFARegressor(targets=fixed(np.inf)).fit(*repeated)
    # The ratio of variances counts rows, of which there are fewer here.
    np.testing.assert_allclose(
        model.regressors_[0].coef_, twice.regressors_[0].coef_, rtol=1e-2, atol=1e-2
    )
    dropped = np.where(ids == 3, 0.0, 1.0)
    fewer = PooledCTFARegressor(targets=fixed()).fit(X, y, ids, sample_weight=dropped)
    np.testing.assert_array_equal(fewer.tasks_, [0, 1, 2])


# -- Any regressor, features, options --------------------------------------------------------------


@pytest.mark.parametrize("head", ["mean", "levels"])
@pytest.mark.parametrize(
    "regressor",
    [
        RidgeCV(),
        make_pipeline(StandardScaler(), RidgeCV()),
        Lasso(0.01),
        RandomForestRegressor(20, min_samples_leaf=5, random_state=0),
    ],
    ids=lambda r: type(r).__name__,
)
def test_any_regressor_serves(regressor, head):
    X, y, ids = schools(10)
    model = PooledCTFARegressor(regressor, targets=fixed(1.5), head=head).fit(X, y, tasks=ids)
    assert model.score(X, y, tasks=ids) > 0.7
    assert len(model.regressors_) == len(model.features_) == model.n_groups_
    assert all(type(r) is type(regressor) for r in model.regressors_)


def test_features_are_merged_for_each_group():
    rng = np.random.default_rng(11)
    X, y, ids = schools(11, n_tasks=4)
    X = np.column_stack([X, X + 0.1 * rng.normal(size=X.shape)])
    model = PooledCTFARegressor(targets=fixed(1.5), features=FeatureAggregator())
    model.fit(X, y, tasks=ids)
    assert all(phase.n_groups_ < 6 for phase in model.features_)
    assert model.regressors_[0].n_features_in_ == model.features_[0].n_groups_
    assert model.score(X, y, tasks=ids) > 0.7
    kept = PooledCTFARegressor(targets=fixed(1.5)).fit(X, y, tasks=ids)
    assert all(phase.n_groups_ == 6 for phase in kept.features_)


def test_a_graph_is_of_the_tasks_in_order():
    X, y, ids = schools(12, n_tasks=4, shortest=20)
    names = np.array(["d", "c", "b", "a"])  # in order: a, b, c, d are tasks 3, 2, 1, 0
    graph = np.zeros((4, 4))
    graph[0, 2] = graph[2, 0] = 1  # a and c, tasks 3 and 1, of one kind
    model = PooledCTFARegressor(targets=fixed(np.inf, connectivity=graph))
    model.fit(X, y, tasks=names[ids])
    assert [group.tolist() for group in model.partition_.groups] == [[0, 2], [1], [3]]

    def meet(rows):
        assert rows.shape == (4, 3)
        np.testing.assert_allclose(rows[0], X[ids == 3].mean(axis=0))
        return graph

    again = PooledCTFARegressor(targets=fixed(np.inf, connectivity=meet))
    np.testing.assert_array_equal(again.fit(X, y, names[ids]).labels_, model.labels_)


def test_folds_are_of_the_rows_of_each_task_or_as_given():
    X, y, ids = schools(13, n_tasks=6)
    dealt = PooledCTFARegressor(targets=TargetAggregator(cv=4)).fit(X, y, tasks=ids)
    assert dealt.cv_curve_.fold_errors.shape[0] == 4
    given = PooledCTFARegressor(targets=TargetAggregator(cv=ShuffleSplit(3, random_state=0)))
    assert given.fit(X, y, tasks=ids).cv_curve_.fold_errors.shape[0] == 3
    pairs = np.arange(ids.size) // 2
    grouped = PooledCTFARegressor(targets=TargetAggregator(cv=GroupKFold(5)))
    assert grouped.fit(X, y, ids, groups=pairs).cv_curve_.fold_errors.shape[0] == 5
    with pytest.raises(ValueError, match="leaves no task with rows both"):
        grouped.fit(X, y, ids, groups=ids)


@pytest.mark.parametrize("head", ["mean", "levels"])
def test_tasks_of_one_or_two_rows_are_served(head):
    X, y, ids = schools(14, n_tasks=6, shortest=20)
    rows = np.concatenate([np.flatnonzero(ids < 4), np.flatnonzero(ids == 4)[:1]])
    rows = np.concatenate([rows, np.flatnonzero(ids == 5)[:2]])
    model = PooledCTFARegressor(head=head).fit(X[rows], y[rows], tasks=ids[rows])
    held_out = np.setdiff1d(np.flatnonzero(ids >= 4), rows)
    predicted = model.predict(X[held_out], tasks=ids[held_out])
    assert np.isfinite(predicted).all()
    text = str(model.why(4))
    assert "nan" not in text
    assert "too few rows" in text or "stays by itself" in text


# -- Ids -------------------------------------------------------------------------------------------


@pytest.mark.more
def test_any_hashable_id_will_do():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    X, y, ids = schools(15, n_tasks=4)
    words = np.array(["n", "e", "s", "w"])[ids]
    expected = PooledCTFARegressor(targets=fixed()).fit(X, y, tasks=words)
    kinds = {
        "list": words.tolist(),
        "objects": words.astype(object),
        "column": words[:, None],
        "series": pandas.Series(words, index=np.arange(ids.size)[::-1]),
        "categorical": pandas.Categorical(words),
        "categorical series": pandas.Series(words).astype("category"),
        "polars": polars.Series(words),
        "polars categorical": polars.Series(words, dtype=polars.Categorical),
    }
    for kind, tasks in kinds.items():
        model = PooledCTFARegressor(targets=fixed()).fit(X, y, tasks=tasks)
        assert list(model.tasks_) == ["e", "n", "s", "w"], kind
        np.testing.assert_array_equal(model.labels_, expected.labels_)
        np.testing.assert_allclose(
            model.predict(X, tasks=tasks), expected.predict(X, tasks=words), err_msg=kind
        )
    pairs = [(int(k), "x") for k in ids]
    assert PooledCTFARegressor(targets=fixed()).fit(X, y, pairs).tasks_[1] == (1, "x")
    mixed = [k if k < 2 else str(k) for k in ids.tolist()]
    assert PooledCTFARegressor(targets=fixed()).fit(X, y, mixed).tasks_.tolist() == [0, 1, "2", "3"]
    numbers = PooledCTFARegressor(targets=fixed()).fit(X, y, ids)
    assert numbers.tasks_.dtype.kind == "i"
    assert np.isfinite(numbers.predict(X[:2], [np.int8(1), 2.0])).all()


# -- Tasks that fit has not seen -------------------------------------------------------------------


def test_unseen_tasks_are_named_with_the_ways_out():
    X, y, ids = schools(16, n_tasks=4)
    model = PooledCTFARegressor(targets=fixed()).fit(X, y, tasks=ids)
    with pytest.raises(ValueError, match=r"not seen: 9, 'new'.*'global'.*'nearest'"):
        model.predict(X[:3], tasks=[9, 1, "new"])


def test_the_global_model_serves_unseen_tasks_and_no_other():
    X, y, ids = schools(17, n_tasks=8)
    model = PooledCTFARegressor(targets=fixed(1.5), unseen="global").fit(X, y, tasks=ids)
    plain = PooledCTFARegressor(targets=fixed(1.5)).fit(X, y, tasks=ids)
    tasks = ids[:50].astype(object)
    tasks[::2] = "new"
    predicted = model.predict(X[:50], tasks=tasks)
    everybody = PooledCTFARegressor(targets=fixed(np.inf)).fit(X, y, tasks=ids)
    assert everybody.n_groups_ == 1
    expected = everybody.regressors_[0].predict(X[:50:2])
    np.testing.assert_allclose(predicted[::2], expected)
    np.testing.assert_allclose(predicted[1::2], plain.predict(X[1:50:2], tasks=ids[1:50:2]))


def test_the_nearest_group_serves_unseen_tasks():
    rng = np.random.default_rng(18)
    ids = np.repeat(np.arange(4), 40)
    X = rng.normal(size=(160, 2)) + 10.0 * (ids % 2)[:, None]
    X = np.column_stack([X, 1e3 * rng.normal(size=160)])
    y = X[:, 0] * np.where(ids % 2, 3.0, -3.0) + rng.normal(size=160)
    model = PooledCTFARegressor(targets=fixed(1.5), unseen="nearest").fit(X, y, tasks=ids)
    assert model.n_groups_ == 2
    new = np.column_stack([rng.normal(size=(10, 2)) + 9.0, 1e3 * rng.normal(size=10)])
    expected = model.regressors_[model.labels_[1]].predict(new)
    np.testing.assert_allclose(model.predict(new, tasks=["new"] * 10), expected)


# -- Inside scikit-learn ---------------------------------------------------------------------------


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.mark.more
@pytest.mark.usefixtures("routing")
def test_tasks_are_routed():
    X, y, ids = schools(19, n_tasks=4, shortest=20)
    model = PooledCTFARegressor(targets=fixed())
    model.set_fit_request(tasks=True).set_predict_request(tasks=True)
    model.set_score_request(tasks=True)
    folds = KFold(3, shuffle=True, random_state=0)
    assert (cross_val_score(model, X, y, cv=folds, params={"tasks": ids}) > 0.5).all()
    search = GridSearchCV(model, {"targets__max_loss": [-np.inf, 1.0], "head": ["mean", "levels"]})
    search.fit(X, y, tasks=ids)
    assert search.best_estimator_.n_groups_ == 2
    assert search.score(X, y, tasks=ids) > 0.5
    pipeline = make_pipeline(StandardScaler(), model).fit(X, y, tasks=ids)
    assert pipeline.score(X, y, tasks=ids) > 0.5


@pytest.mark.more
@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("kind", ["array", "pandas", "polars"])
def test_a_column_of_tasks_goes_everywhere(kind):
    """``cross_val_predict`` hands metadata to ``fit`` alone."""
    X, y, ids = schools(19, n_tasks=4, shortest=20)
    if kind == "array":
        table, column = np.column_stack([X[:, :1], ids, X[:, 1:]]), 1
    else:
        library = pytest.importorskip(kind)
        table, column = library.DataFrame(dict(zip("abc", X.T, strict=True)) | {"s": ids}), "s"
    model = PooledCTFARegressor(targets=fixed()).set_fit_request(tasks=True)
    folds = KFold(3, shuffle=True, random_state=0)
    predicted = cross_val_predict(model, table, y, cv=folds, params={"tasks": column})
    expected = np.empty(ids.size)
    for train, test in folds.split(X):
        fitted = clone(model).fit(X[train], y[train], tasks=ids[train])
        expected[test] = fitted.predict(X[test], tasks=ids[test])
    np.testing.assert_allclose(predicted, expected)
    fitted = clone(model).fit(table, y, tasks=column)
    assert fitted.n_features_in_ == 3
    assert fitted.score(table, y) == pytest.approx(fitted.score(table, y, tasks=column))
    scored = clone(model).set_score_request(tasks=True)
    search = GridSearchCV(scored, {"targets__max_loss": [-np.inf, 1.0]})
    search.fit(table, y, tasks=column)
    np.testing.assert_allclose(search.predict(table), search.best_estimator_.predict(table))
    with pytest.raises(ValueError, match="is not a column of X"):
        fitted.fit(table, y, tasks="other")


def test_nested_parameters_of_the_default_are_set():
    model = PooledCTFARegressor().set_params(targets__max_loss=2.0)
    assert model.targets.max_loss == 2.0
    assert clone(model).get_params()["targets__max_loss"] == 2.0


def test_a_fitted_model_can_be_stored():
    X, y, ids = schools(20, n_tasks=5)
    model = PooledCTFARegressor(head="levels", unseen="nearest", targets=fixed())
    model.fit(X, y, tasks=ids)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X, tasks=ids), model.predict(X, tasks=ids))
    assert str(again.why(0)) == str(model.why(0))


def test_frames_keep_their_names():
    pandas = pytest.importorskip("pandas")
    X, y, ids = schools(21, n_tasks=4)
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    model = PooledCTFARegressor(targets=fixed()).fit(frame, pandas.Series(y), tasks=ids)
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    assert model.n_features_in_ == 3
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["b", "a", "c"]], tasks=ids)


def test_workers_change_nothing():
    X, y, ids = schools(22, n_tasks=5)
    one, two = (PooledCTFARegressor(n_jobs=n).fit(X, y, tasks=ids) for n in (None, 2))
    np.testing.assert_array_equal(one.predict(X, tasks=ids), two.predict(X, tasks=ids))


# -- Explanations ----------------------------------------------------------------------------------


def test_merges_and_refusals_are_told():
    X, y, ids = schools(23, n_tasks=6, shortest=15)
    names = np.array(["ash", "oak", "elm", "fir", "yew", "box"])
    model = PooledCTFARegressor(targets=fixed(3.0)).fit(X, y, tasks=names[ids])
    assert model.n_groups_ == 2
    frame = model.merges_
    assert len(frame) == 4
    assert (frame["gain_error"] > 0.0).all()
    members = frame["group"].map(len) + frame["joined"].map(len)
    assert (frame["worst_gain"] <= frame["gain"] / members).all()
    answer = model.why("elm")
    text = str(answer)
    assert text.startswith("elm shares its slopes with 2 other tasks: ash, yew.")
    assert "Nearest refused: pool(box, fir, oak)" in text
    assert "slopes differ by more than pooling saves" in text
    assert "mean(" not in text
    assert re.search(r"F = [\d.]+, break-even [\d.]+", text)
    assert answer.refusal.loss > 3.0
    assert answer.gain > 0.0
    with pytest.raises(ValueError, match="'pine' is not one of the 6 of fit"):
        model.why("pine")


@pytest.mark.more
def test_gains_of_a_task_are_what_it_gains():
    """Over many draws, the gain predicted for a task is the fall of its slopes' error."""
    rng = np.random.default_rng(24)
    slopes, gap = rng.normal(size=3), []
    lengths = [12, 30, 20]
    ids = np.repeat(np.arange(3), lengths)
    options = TargetAggregator(max_loss=np.inf, scale="center")
    for _ in range(100):
        X = rng.normal(size=(ids.size, 3))
        y = X @ slopes + rng.normal(size=ids.size)
        model = PooledCTFARegressor(targets=options).fit(X, y, tasks=ids)
        own = ids == 0
        risks = []
        for rows in (own, np.ones(ids.size, dtype=bool)):
            means = {k: (X[ids == k].mean(axis=0), y[ids == k].mean()) for k in range(3)}
            within = np.stack([X[i] - means[ids[i]][0] for i in np.flatnonzero(rows)])
            left = np.array([y[i] - means[ids[i]][1] for i in np.flatnonzero(rows)])
            coef = np.linalg.lstsq(within, left, rcond=None)[0]
            level = (y - X @ coef)[own].mean()
            risks.append(((coef - slopes) ** 2).sum() + level**2)
        gap.append(model.why(0).gain - (risks[0] - risks[1]))
    assert abs(np.mean(gap)) < 3.5 * np.std(gap) / np.sqrt(len(gap))


# -- Bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"tasks": None}, TypeError, "pass tasks=, one id for each row"),
        ({"tasks": "abc"}, ValueError, "tasks='abc' is not a column of X"),
        ({"tasks": 3}, ValueError, "tasks=3 is not a column of X"),
        ({"tasks": 0.5}, TypeError, "is not a list of ids"),
        ({"tasks": [0, 1]}, ValueError, "tasks has 2 ids but X has"),
        ({"tasks": np.zeros((4, 2))}, ValueError, r"tasks has shape \(4, 2\)"),
        ({"tasks": "one"}, ValueError, "a single id"),
        ({"tasks": "nan"}, ValueError, r"row 0 is missing \(nan\)"),
        ({"tasks": "none"}, ValueError, r"row 0 is missing \(None\)"),
        ({"tasks": "lists"}, TypeError, "cannot be used as an id"),
        ({"X": "vector"}, ValueError, "Expected 2D array, got 1D"),
        ({"X": "nan"}, ValueError, "Input X contains NaN"),
        ({"y": "nan"}, ValueError, "Input y contains NaN"),
        ({"y": "short"}, ValueError, "pass the same samples"),
        ({"y": "constant"}, ValueError, "constant within every task"),
    ],
)
def test_bad_data_are_refused(change, error, words):
    X, y, ids = schools(25, n_tasks=4)
    data = {"X": X, "y": y, "tasks": ids}
    bad = {
        ("tasks", "one"): np.zeros(ids.size),
        ("tasks", "nan"): np.where(np.arange(ids.size) == 0, np.nan, ids),
        ("tasks", "none"): [None, *ids[1:].tolist()],
        ("tasks", "lists"): [[k] for k in ids.tolist()],
        ("X", "vector"): X[:, 0],
        ("X", "nan"): np.where(X[3, 1] == X, np.nan, X),
        ("y", "nan"): np.where(y == y[3], np.nan, y),
        ("y", "short"): y[:-1],
        ("y", "constant"): ids.astype(float),
    }
    for name, value in change.items():
        known = isinstance(value, str) and (name, value) in bad
        data[name] = bad[name, value] if known else value
    with pytest.raises(error, match=words):
        PooledCTFARegressor().fit(data["X"], data["y"], tasks=data["tasks"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"targets": TargetAggregator("mse", max_loss=0.0)}, "criterion='mse' averages targets"),
        ({"targets": TargetAggregator("corollary", max_loss=0.0)}, "use criterion='risk'"),
        ({"targets": TargetAggregator(scale="none")}, "scale='none' would give"),
        ({"targets": TargetAggregator(flip=True)}, "flip=True is not available"),
        ({"targets": TargetAggregator(guard="member")}, "guard='member' is not available"),
        ({"targets": TargetAggregator(regressor=RIDGE)}, r"regressor=RidgeCV\(\) is not available"),
        ({"targets": TargetAggregator(scan="grow")}, "max_loss='auto' goes with"),
        ({"targets": TargetAggregator(cv=1)}, "use two or more"),
        ({"targets": TargetAggregator(connectivity=np.ones((3, 3)))}, "4 tasks"),
        ({"targets": "none"}, "use a TargetAggregator"),
        ({"features": "none"}, "use a FeatureAggregator"),
        ({"head": "median"}, "head='median' is not known"),
        ({"unseen": "ignore"}, "unseen='ignore' is not known"),
    ],
)
def test_bad_options_are_refused(options, words):
    X, y, ids = schools(26, n_tasks=4)
    with pytest.raises(ValueError, match=words):
        PooledCTFARegressor(**options).fit(X, y, tasks=ids)


def test_bad_questions_are_refused():
    X, y, ids = schools(27, n_tasks=4)
    with pytest.raises(sklearn.exceptions.NotFittedError):
        PooledCTFARegressor().predict(X, tasks=ids)
    with pytest.raises(sklearn.exceptions.NotFittedError):
        _ = PooledCTFARegressor().labels_
    model = PooledCTFARegressor(targets=fixed()).fit(X, y, tasks=ids)
    with pytest.raises(TypeError, match="pass tasks="):
        model.predict(X)
    with pytest.raises(TypeError, match="pass tasks="):
        model.score(X, y)
    with pytest.raises(ValueError, match="2 ids but X has"):
        model.predict(X, tasks=[0, 1])
    with pytest.raises(ValueError, match="features"):
        model.predict(X[:, :2], tasks=ids)


# -- Schools ---------------------------------------------------------------------------------------


@pytest.mark.more
@pytest.mark.data
def test_schools_gain_by_their_group_and_by_slopes_of_their_own():
    X, y, tasks = real("school", return_X_y=True)
    table = np.column_stack([X, y, tasks])
    rng = np.random.default_rng(0)
    train, test = [], []
    for task in np.unique(tasks):
        rows = table[tasks == task]
        rows = rows[rng.permutation(len(rows))]
        cut = round(0.7 * len(rows))
        train.append(rows[:cut])
        test.append(rows[cut:])
    train, test = np.vstack(train), np.vstack(test)

    def error(targets, head):
        model = PooledCTFARegressor(targets=targets, head=head)
        model.fit(train[:, :27], train[:, 27], tasks=train[:, 28])
        gap = (test[:, 27] - model.predict(test[:, :27], tasks=test[:, 28])) ** 2
        tasks = test[:, 28].astype(int)
        return np.sqrt(np.bincount(tasks, gap) / np.bincount(tasks)).mean() / 69.0

    alone, mean = error("passthrough", "mean"), error(fixed(6.0), "mean")
    shrunk = error(fixed(30.0), "levels")
    assert mean < 0.96 * alone
    assert shrunk < 0.999 * mean
    assert shrunk < 0.1450


@pytest.mark.more
@pytest.mark.data
def test_schools_are_predicted_alike_from_any_origin():
    X, y, tasks = real("school", return_X_y=True)
    scaled = StandardScaler().fit_transform(X)
    model = PooledCTFARegressor(targets=fixed(30.0), head="levels")
    raw, other = (clone(model).fit(Z, y, tasks) for Z in (X, scaled))
    np.testing.assert_array_equal(raw.labels_, other.labels_)
    np.testing.assert_allclose(other.predict(scaled, tasks), raw.predict(X, tasks), rtol=1e-6)


@pytest.mark.parametrize("head", ["mean", "levels"])
def test_a_constant_input_changes_nothing(head):
    rng = np.random.default_rng(0)
    tasks = np.repeat(np.arange(5), [12, 7, 20, 9, 15])
    X = rng.normal(size=(tasks.size, 2))
    y = X[:, 0] * np.where(tasks < 2, 1.0, -1.0) + tasks + rng.normal(size=tasks.size)
    more = np.column_stack((X, np.full(tasks.size, 3.3)))
    first, second = (PooledCTFARegressor(head=head).fit(Z, y, tasks) for Z in (X, more))
    assert first.max_loss_ == second.max_loss_
    np.testing.assert_allclose(first.offsets_, second.offsets_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(first.predict(X, tasks), second.predict(more, tasks), rtol=1e-6)


@pytest.mark.more
@pytest.mark.parametrize("max_loss", [1.0, "auto"])
@pytest.mark.parametrize("level", [1e5, 1e7])
@pytest.mark.parametrize("seed", range(4))
def test_the_level_of_inputs_plays_no_part_for_tasks_shorter_than_their_inputs(
    seed, level, max_loss
):
    rng = np.random.default_rng(seed)
    tasks = np.repeat(np.arange(7), rng.integers(2, 8, 7))
    # Few enough digits that the level takes none of them away.
    X = np.round(rng.normal(size=(tasks.size, 4)), 3)
    y = X.sum(axis=1) * np.where(tasks % 2 == 0, 1.0, -1.0) + rng.normal(size=tasks.size)
    targets = TargetAggregator(max_loss=max_loss)
    first, second = (PooledCTFARegressor(targets=targets).fit(Z, y, tasks) for Z in (X, X + level))
    assert first.max_loss_ == second.max_loss_
    np.testing.assert_array_equal(first.labels_, second.labels_)


@pytest.mark.parametrize("finished", [0, 1, 2])
def test_a_search_stopped_in_a_fold_is_decided_by_the_folds_before_it(finished):
    rng = np.random.default_rng(0)
    tasks = np.repeat(np.arange(5), [12, 7, 20, 9, 15])
    X = rng.normal(size=(tasks.size, 2))
    y = X[:, 0] * np.where(tasks < 2, 1.0, -1.0) + tasks + rng.normal(size=tasks.size)
    model = PooledCTFARegressor(targets=TargetAggregator(cv=3))
    whole = model.fit(X, y, tasks).cv_curve_.fold_errors

    def stop(now):
        return now.stage != f"fold {finished + 1} of 3"

    with (
        pytest.warns(ctfa.SearchStopped, match=f"in fold {finished + 1} of 3"),
        ctfa.progress(stop, every=0),
    ):
        model.fit(X, y, tasks)
    assert model.history_.complete
    if finished:
        np.testing.assert_array_equal(model.cv_curve_.fold_errors, whole[:finished])
    else:
        assert model.cv_curve_ is None
        assert model.max_loss_ == 1.5
