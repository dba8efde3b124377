"""Data in chunks, or of other array libraries: the same decisions as from rows in memory."""

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.linear_model import Lasso, LinearRegression, Ridge, RidgeCV
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    PredefinedSplit,
    RepeatedKFold,
    ShuffleSplit,
    TimeSeriesSplit,
)
from sklearn.tree import DecisionTreeRegressor

import problems
from ctfa import (
    CTFARegressor,
    CTFARegressorCV,
    FeatureAggregator,
    TargetAggregator,
    feature_path,
    nonlinctfa,
    target_path,
)
from ctfa._reading.sums import collection
from ctfa.core.moments import Moments, StandIns, Summary
from ctfa.datasets import make_paper_synthetic
from ctfa.estimators.models import HEADS
from generated import examples
from problems import RIDGE

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
strict = pytest.importorskip("array_api_strict")


def paper(n_samples=600, seed=0):
    X, Y = make_paper_synthetic(n_samples, n_features=12, n_targets=6, random_state=seed)
    return X + 3.0, Y - 2.0


def chunks_of(n_rows, cuts):
    bounds = [0, *sorted({cut % (n_rows - 1) + 1 for cut in cuts}), n_rows]
    return tuple(b - a for a, b in itertools.pairwise(bounds) if b > a)


chunkings = st.lists(st.integers(0, 10_000), max_size=6)


def chunked(X, Y, first=(), second=None):
    return (
        da.from_array(X, chunks=(chunks_of(len(X), first), 5)),
        da.from_array(Y, chunks=(chunks_of(len(Y), first if second is None else second), 4)),
    )


def same_histories(one, two, rtol=1e-7):
    assert one.partition_ == two.partition_
    assert one.max_loss_ == two.max_loss_
    np.testing.assert_array_equal(one.history_.block, two.history_.block)
    np.testing.assert_array_equal(one.history_.other, two.history_.other)
    np.testing.assert_allclose(one.history_.loss, two.history_.loss, rtol=rtol, atol=1e-9)


def same_models(one, two, X):
    same_histories(one, two)
    for mine, theirs in zip(one.features_, two.features_, strict=True):
        same_histories(mine, theirs)
    np.testing.assert_allclose(one.trust_, two.trust_, rtol=1e-6, atol=1e-9)
    assert one._evidence.held_out == two._evidence.held_out
    np.testing.assert_allclose(one._evidence.gain, two._evidence.gain, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(one.predict(X), two.predict(X), rtol=1e-8, atol=1e-8)


heads = st.sampled_from(HEADS)


# -- Rows that stand in for others -----------------------------------------------------------------


@given(st.integers(0, 50), st.integers(1, 6), st.integers(0, 40), st.booleans())
@settings(max_examples=examples(60), deadline=None)
def test_stand_ins_have_the_moments_of_those_they_stand_for(seed, width, n_rows, weighed):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n_rows + 2, width)) @ rng.normal(size=(width, width)) + 5.0
    weights = rng.uniform(0.1, 3.0, n_rows + 2) if weighed else None
    moments = Moments.of(rows, weights)
    found, counts, each = StandIns.of(moments)
    assert len(found) == width + 1
    again = Moments.of(found, each)
    assert counts.sum() == pytest.approx(len(rows))
    assert again.weight == pytest.approx(moments.weight)
    np.testing.assert_allclose(again.mean, moments.mean, rtol=1e-10)
    np.testing.assert_allclose(again.cross, moments.cross, rtol=1e-6, atol=1e-9)


def test_few_rows_are_kept_as_they_are():
    rows = np.random.default_rng(0).normal(size=(4, 3))
    summary = Summary.of(rows[:2]) + Summary.of(rows[2:])
    np.testing.assert_array_equal(summary.stand_ins().rows, rows)
    many = summary + Summary.of(rows)
    assert many.rows is None
    assert many.n_samples == 8


# -- The same decisions ----------------------------------------------------------------------------


@given(
    st.integers(0, 5),
    chunkings,
    chunkings,
    st.sampled_from([None, LinearRegression()]),
    heads,
    st.sampled_from(["auto", 1.0, None]),
)
@settings(max_examples=examples(50), deadline=None)
def test_any_chunks_of_rows_give_the_model_of_all_rows(
    seed, first, second, regressor, head, max_loss
):
    X, Y = paper(300, seed)
    targets = "passthrough" if max_loss is None else TargetAggregator(max_loss=max_loss, cv=5)
    model = CTFARegressor(regressor, targets=targets, head=head)
    same_models(clone(model).fit(X, Y), model.fit(*chunked(X, Y, first, second)), X)


@given(
    st.sampled_from(["gaussian", "correlated", "offset", "heavy_tailed"]),
    st.integers(0, 20),
    chunkings,
    st.sampled_from(["best-first", "correlation", "grow", "restart"]),
    st.sampled_from(["risk", "mse", "corollary"]),
)
@settings(max_examples=examples(40), deadline=None)
def test_every_scan_and_criterion_decides_alike(family, seed, cuts, scan, criterion):
    problem = problems.make_problem(family if family in problems.FAMILIES else "gaussian", seed)
    limit = 1.0 if criterion == "risk" else 0.0
    make = TargetAggregator(criterion, max_loss=limit, scan=scan)
    one = make.fit(problem.X, problem.Y)
    two = TargetAggregator(criterion, max_loss=limit, scan=scan).fit(
        *chunked(problem.X, problem.Y, cuts)
    )
    same_histories(one, two, rtol=1e-5)


@pytest.mark.parametrize(
    "cv",
    [
        4,
        KFold(4, shuffle=True, random_state=1),
        TimeSeriesSplit(3),
        ShuffleSplit(3, random_state=0),
        PredefinedSplit(np.arange(300) % 3),
        [(np.arange(200), np.arange(200, 300)), (np.arange(100, 300), np.arange(100))],
    ],
    ids=lambda cv: type(cv).__name__,
)
@pytest.mark.parametrize("weighed", [False, True])
def test_any_folds_choose_the_same_limit(cv, weighed):
    X, Y = paper(300)
    rng = np.random.default_rng(0)
    weights = rng.uniform(0.5, 2.0, 300) * (rng.uniform(size=300) > 0.1) if weighed else None
    lazy = None if weights is None else da.from_array(weights, chunks=77)
    one = TargetAggregator(cv=cv).fit(X, Y, weights)
    two = TargetAggregator(cv=cv).fit(*chunked(X, Y, [70, 200]), lazy)
    same_histories(one, two)
    np.testing.assert_allclose(one.cv_curve_.error, two.cv_curve_.error, rtol=1e-9)


def test_rows_of_one_label_stay_in_one_fold():
    X, Y = paper(300)
    labels = np.random.default_rng(0).integers(0, 12, 300)
    one = TargetAggregator(cv=GroupKFold(4)).fit(X, Y, groups=labels)
    two = TargetAggregator(cv=GroupKFold(4)).fit(
        *chunked(X, Y, [70, 200]), groups=da.from_array(labels, chunks=50)
    )
    np.testing.assert_allclose(one.cv_curve_.error, two.cv_curve_.error, rtol=1e-9)


@pytest.mark.parametrize("options", [{"flip": True}, {"guard": "member"}, {"scale": "center"}])
def test_options_of_targets_work_in_chunks(options):
    X, Y = paper(300)
    one = TargetAggregator(max_loss=1.5, **options).fit(X, Y)
    same_histories(one, TargetAggregator(max_loss=1.5, **options).fit(*chunked(X, Y, [100])))


@pytest.mark.parametrize("cv", [None, 5])
@pytest.mark.parametrize("criterion", ["risk", "r2", "feature-mse"])
def test_features_merge_alike(criterion, cv):
    if cv is not None and criterion != "r2":
        pytest.skip("judged in sample")
    X, Y = paper(400)
    limit = "auto" if criterion == "risk" else 1e-4
    one = FeatureAggregator(criterion, max_loss=limit, cv=cv).fit(X, Y[:, 0])
    two = FeatureAggregator(criterion, max_loss=limit, cv=cv).fit(
        *chunked(X, Y[:, :1], [130]), None
    )
    same_histories(one, two)


@pytest.mark.more
@pytest.mark.parametrize("regressor", [None, LinearRegression(), Ridge(3.0), Lasso(0.05)])
@pytest.mark.parametrize("head", ["mean", "levels"])
def test_regressors_of_sums_are_those_of_the_rows(regressor, head):
    X, Y = paper(400)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 400)
    one = CTFARegressor(regressor, head=head).fit(X, Y, weights)
    two = CTFARegressor(regressor, head=head).fit(
        *chunked(X, Y, [130]), da.from_array(weights, chunks=100)
    )
    np.testing.assert_allclose(one.predict(X), two.predict(X), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("head", HEADS)
def test_a_penalty_chosen_row_by_row_is_chosen_on_the_rows(head):
    X, Y = paper(400)
    model = CTFARegressor(RidgeCV([0.1, 10.0, 1000.0]), head=head)
    same_models(clone(model).fit(X, Y), model.fit(*chunked(X, Y, [130])), X)


@pytest.mark.parametrize("regressor", [None, LinearRegression()])
@pytest.mark.parametrize("head", HEADS)
def test_confounds_and_weights_of_targets_go_along(regressor, head):
    X, Y = paper(400)
    month = np.arange(400) % 12
    seasons = (month[:, None] == np.arange(12)).astype(float)
    Y = Y + 3.0 * np.sin(month)[:, None]
    given = {"confounds": seasons, "target_weight": np.arange(1.0, 7.0)}
    one = CTFARegressor(regressor, head=head).fit(X, Y, **given)
    two = CTFARegressor(regressor, head=head).fit(*chunked(X, Y, [100, 333]), **given)
    same_histories(one, two)
    predicted = two.predict(
        da.from_array(X, chunks=(90, 12)), confounds=da.from_array(seasons, chunks=(77, 12))
    )
    np.testing.assert_allclose(
        predicted.compute(), one.predict(X, confounds=seasons), rtol=1e-7, atol=1e-7
    )


def test_regressors_that_learn_from_rows_get_the_rows_of_their_group(monkeypatch):
    X, Y = paper(400)
    weights = np.ones(400)
    weights[:30] = 0.0
    cheap = TargetAggregator(regressor=LinearRegression())
    tree = DecisionTreeRegressor(max_depth=3, random_state=0)
    model = CTFARegressor(tree, targets=cheap, head="mean")
    one = clone(model).fit(X, Y, weights)
    two = clone(model).fit(*chunked(X, Y, [130]), weights)
    np.testing.assert_allclose(one.predict(X), two.predict(X), rtol=1e-7)
    # Too many for all groups at once: group by group.
    widest = max(features.n_groups_ for features in two.features_) + 1
    monkeypatch.setattr(collection, "ROWS_LIMIT", 8 * 400 * widest)
    three = clone(model).fit(*chunked(X, Y, [130]), weights)
    np.testing.assert_allclose(one.predict(X), three.predict(X), rtol=1e-7)
    monkeypatch.setattr(collection, "ROWS_LIMIT", 1000)
    with pytest.raises(ValueError, match=r"needs the rows themselves .* 400 rows of"):
        model.fit(*chunked(X, Y, [130]))


def test_members_whose_own_models_learn_from_rows_get_all_rows(monkeypatch):
    X, Y = paper(400)
    weights = np.ones(400)
    weights[:30] = 0.0
    model = CTFARegressor(DecisionTreeRegressor(max_depth=3, random_state=0))
    one = clone(model).fit(X, Y, weights)
    two = clone(model).fit(*chunked(X, Y, [130]), weights)
    np.testing.assert_allclose(one.predict(X), two.predict(X), rtol=1e-7)
    monkeypatch.setattr(collection, "ROWS_LIMIT", 1000)
    what = r"judges row by row, and TargetAggregator\(.* does not, needs the rows .* 400 rows of"
    with pytest.raises(ValueError, match=what):
        model.fit(*chunked(X, Y, [130]))


@pytest.mark.more
@pytest.mark.parametrize("regressor", [None, LinearRegression(), Ridge(3.0)])
@pytest.mark.parametrize("head", HEADS)
def test_the_search_scores_alike(regressor, head):
    X, Y = paper(300)
    search = CTFARegressorCV(regressor, target_losses=[0.0, 1.0, 2.0], cv=4, head=head)
    one, two = clone(search).fit(X, Y), search.fit(*chunked(X, Y, [111]))
    assert one.best_params_ == two.best_params_
    np.testing.assert_allclose(one.predict(X), two.predict(X), rtol=1e-7, atol=1e-7)
    for name in ("mean_test_score", "std_test_score", "mean_n_groups"):
        np.testing.assert_allclose(one.cv_results_[name], two.cv_results_[name], rtol=1e-7)


@pytest.mark.more
def test_a_search_with_regressors_that_learn_from_rows_scores_alike():
    X, Y = paper(300)
    tree = DecisionTreeRegressor(max_depth=2, random_state=0)
    trees = CTFARegressorCV(tree, target_losses=[1.0], cv=3)
    np.testing.assert_allclose(
        trees.fit(X, Y).best_score_, trees.fit(*chunked(X, Y, [111])).best_score_, rtol=1e-7
    )


def test_paths_and_the_papers_algorithm_work_in_chunks():
    X, Y = paper(300)
    lazy = chunked(X, Y, [50, 99])
    for one, two in zip(target_path(X, Y, [0.5, 2.0]), target_path(*lazy, [0.5, 2.0]), strict=True):
        assert one.partition == two.partition
    for one, two in zip(
        feature_path(X, Y[:, 0], [1.0, 9.0]),
        feature_path(lazy[0], lazy[1][:, 0], [1.0, 9.0]),
        strict=True,
    ):
        assert one.partition == two.partition
    assert nonlinctfa().fit(X, Y).partition_ == nonlinctfa().fit(*lazy).partition_


# -- Frames ----------------------------------------------------------------------------------------


def test_frames_of_dask_keep_their_names():
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    X, Y = paper(300)
    X = pd.DataFrame(X, columns=[f"f{i}" for i in range(12)])
    Y = pd.DataFrame(Y, columns=list("abcdef"))
    lazy = dd.from_pandas(X, npartitions=4), dd.from_pandas(Y, npartitions=4)
    one, two = CTFARegressor().fit(X, Y), CTFARegressor().fit(*lazy)
    same_models(one, two, X)
    assert list(two.feature_names_in_) == list(X.columns)
    assert list(two.target_names_in_) == list("abcdef")
    predicted = two.predict(lazy[0])
    assert dask.is_dask_collection(predicted)
    pd.testing.assert_frame_equal(predicted.compute(), one.predict(X), rtol=1e-8)
    means = two.targets_.transform(lazy[1])
    pd.testing.assert_frame_equal(means.compute(), one.targets_.transform(Y), rtol=1e-8)
    with pytest.raises(ValueError, match="feature names should match"):
        two.predict(lazy[0].rename(columns={"f1": "g1"}))
    series = CTFARegressor().fit(lazy[0], lazy[1]["a"])
    np.testing.assert_allclose(
        series.predict(lazy[0]).compute(), CTFARegressor().fit(X, Y["a"]).predict(X), rtol=1e-8
    )


def test_frames_with_other_things_than_numbers_are_refused():
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": ["x", "y", "z"]})
    with pytest.raises(ValueError, match=r"column 'b' of X holds .* not numbers"):
        CTFARegressor().fit(dd.from_pandas(frame, npartitions=1), da.ones((3, 2)))


# -- Other array libraries -------------------------------------------------------------------------


def torch_array(values):
    return pytest.importorskip("torch").asarray(values)


@pytest.mark.parametrize("make", [strict.asarray, torch_array], ids=["strict", "torch"])
@given(st.integers(0, 3), st.booleans())
@settings(max_examples=examples(8), deadline=None)
def test_arrays_of_other_libraries_give_the_same_model(make, seed, weighed):
    X, Y = paper(300, seed)
    weights = np.random.default_rng(seed).uniform(0.5, 2.0, 300) if weighed else None
    one = CTFARegressor().fit(X, Y, weights)
    given_weights = None if weights is None else make(weights)
    two = CTFARegressor().fit(make(X), make(Y), given_weights)
    same_models(one, two, X)
    predicted = two.predict(make(X))
    assert type(predicted) is type(make(X))
    np.testing.assert_allclose(np.asarray(predicted), one.predict(X), rtol=1e-8)


@pytest.mark.parametrize("make", [strict.asarray, torch_array], ids=["strict", "torch"])
def test_folds_of_any_kind_are_taken_on_the_device(make):
    X, Y = paper(300)
    cv = KFold(4, shuffle=True, random_state=0)
    same_histories(TargetAggregator(cv=cv).fit(X, Y), TargetAggregator(cv=cv).fit(make(X), make(Y)))


def test_numbers_of_single_precision_are_summed_in_double():
    X, Y = paper(300)
    single = X.astype(np.float32), Y.astype(np.float32)
    one = CTFARegressor().fit(*(part.astype(np.float64) for part in single))
    two = CTFARegressor().fit(*(strict.asarray(part) for part in single))
    same_histories(one, two)


# -- What cannot be summed -------------------------------------------------------------------------


@pytest.mark.more
def test_missing_targets_are_worked_with_in_memory(monkeypatch):
    X, Y = paper(300)
    Y[5, 2] = np.nan
    one, two = CTFARegressor().fit(X, Y), CTFARegressor().fit(*chunked(X, Y, [100]))
    np.testing.assert_allclose(one.predict(X), two.predict(X), rtol=1e-10)
    monkeypatch.setattr(collection, "ROWS_LIMIT", 1000)
    with pytest.raises(ValueError, match="a target with missing values needs the rows"):
        CTFARegressor().fit(*chunked(X, Y, [100]))


@pytest.mark.parametrize(
    "aggregator",
    [
        TargetAggregator(max_loss=1.0, regressor=RIDGE),
        TargetAggregator(max_loss=1.0, connectivity=lambda rows: np.ones((6, 6))),
    ],
    ids=["ridge", "callable"],
)
def test_options_that_need_rows_get_them(aggregator):
    X, Y = paper(200)
    same_histories(aggregator.fit(X, Y), clone(aggregator).fit(*chunked(X, Y, [100])))


@pytest.mark.parametrize(
    ("where", "value", "match"),
    [
        ("X", np.nan, r"Input X contains NaN or infinity \(first NaN at row 250, column 3\)"),
        ("X", np.inf, r"first infinity at row 250, column 3"),
        ("Y", np.inf, r"Input y contains infinity at row 250, column 'y3'"),
    ],
)
def test_numbers_that_are_not_finite_are_named(where, value, match):
    X, Y = paper(300)
    (X if where == "X" else Y)[250, 3] = value
    with pytest.raises(ValueError, match=match):
        CTFARegressor().fit(*chunked(X, Y, [100, 200]))


def test_numbers_too_large_to_square_are_named():
    X, Y = paper(300)
    X[:, 4] *= 1e75
    with pytest.raises(ValueError, match=r"Input X has numbers of about 3e\+75 in column 4"):
        CTFARegressor().fit(*chunked(X, Y, [100]))


def test_tables_of_different_heights_are_refused():
    X, Y = paper(300)
    with pytest.raises(ValueError, match="X has 300 rows and y has 299"):
        CTFARegressor().fit(da.from_array(X), da.from_array(Y[:-1]))
    with pytest.raises(ValueError, match="X has 300 rows and y has 299"):
        CTFARegressor().fit(strict.asarray(X), strict.asarray(Y[:-1]))


def test_chunks_that_hold_other_rows_than_they_say_are_found():
    X, Y = paper(300)
    lying = da.from_array(X, chunks=(100, 12)).map_blocks(lambda block: block[:-1], dtype=float)
    with pytest.raises((ValueError, RuntimeError), match="rows"):
        CTFARegressor().fit(lying, da.from_array(Y, chunks=(100, 6)))
    short = da.from_array(Y, chunks=(100, 6)).map_blocks(lambda block: block[:-1], dtype=float)
    with pytest.raises(RuntimeError, match="X has 300 rows and 297 were read"):
        CTFARegressor().fit(lying, short)


def test_a_constant_target_and_too_few_rows_are_told_as_in_memory():
    X, Y = paper(300)
    constant = Y.copy()
    constant[:, 1] = 7.0
    with pytest.raises(ValueError, match="target 'y1' is constant"):
        CTFARegressor().fit(*chunked(X, constant, [100]))
    few = X[:10], Y[:10]
    with pytest.raises(ValueError, match="degrees of freedom"):
        TargetAggregator("mse", max_loss=1.0).fit(*chunked(*few, [4]))
    least_squares = CTFARegressor(LinearRegression(), head="mean")
    with pytest.warns(RuntimeWarning, match="Ridge regression"):
        found = clone(least_squares).fit(*chunked(*few, [4]))
    with pytest.warns(RuntimeWarning, match="Ridge regression"):
        expected = least_squares.fit(*few)
    np.testing.assert_array_equal(found.labels_, expected.labels_)
    np.testing.assert_allclose(found.predict(few[0]), expected.predict(few[0]))


@pytest.mark.more
@pytest.mark.parametrize("n_rows", [10, 20, 22, 24])
@pytest.mark.parametrize("head", HEADS)
def test_few_rows_are_judged_by_ridge_regression_without_a_word(n_rows, head):
    X, Y = paper(300)
    few = X[:n_rows], Y[:n_rows]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = CTFARegressor(head=head).fit(*chunked(*few, [4]))
        same_models(CTFARegressor(head=head).fit(*few), found, X)


def test_rows_drawn_several_times_are_refused():
    X, Y = paper(300)
    twice = [(np.arange(300) // 2, np.arange(10)), (np.arange(100), np.arange(100, 200))]
    with pytest.raises(ValueError, match="draws rows several times"):
        TargetAggregator(cv=twice).fit(*chunked(X, Y, [100]))
    many = RepeatedKFold(n_splits=10, n_repeats=9, random_state=0)
    with pytest.raises(ValueError, match="use fewer folds"):
        TargetAggregator(cv=many).fit(*chunked(*paper(2000), [100]))


def test_columns_that_nearly_depend_on_each_other_are_asked_of_rows_or_warned_about(monkeypatch):
    X, Y = paper(300)
    X[:, 1] = X[:, 0] + 1e-6 * X[:, 1]
    in_memory = TargetAggregator(max_loss=1.0).fit(X, Y)
    same_histories(in_memory, TargetAggregator(max_loss=1.0).fit(*chunked(X, Y, [100])))
    monkeypatch.setattr(collection, "DOUBTS_LIMIT", 1000)
    with pytest.warns(RuntimeWarning, match=r"columns of X .* sums of squares see a part below"):
        TargetAggregator(max_loss=1.0).fit(*chunked(X, Y, [100]))


@pytest.mark.parametrize("size", [1e-5, 1e-6, 1e-7, 1e-8])
def test_targets_that_differ_by_little_are_asked_of_rows_or_warned_about(size, monkeypatch):
    for seed in range(4):
        X, Y = paper(300, seed)
        Y[:, 1] = Y[:, 0] + size * Y[:, 1]
        in_memory = TargetAggregator(max_loss=1.0).fit(X, Y)
        two = TargetAggregator(max_loss=1.0).fit(*chunked(X, Y, [100]))
        assert in_memory.partition_ == two.partition_
    if size < 1e-5:
        monkeypatch.setattr(collection, "DOUBTS_LIMIT", 1000)
        with pytest.warns(RuntimeWarning, match="targets depend on each other"):
            TargetAggregator(max_loss=1.0).fit(*chunked(X, Y, [100]))


def test_columns_far_from_zero_are_asked_of_rows_or_warned_about(monkeypatch):
    X, Y = paper(300)
    X[:, 2] += 1e11
    in_memory = TargetAggregator(max_loss=1.0).fit(X, Y)
    same_histories(in_memory, TargetAggregator(max_loss=1.0).fit(*chunked(X, Y, [100])))
    monkeypatch.setattr(collection, "DOUBTS_LIMIT", 1000)
    with pytest.warns(RuntimeWarning, match=r"a mean of .e\+11 times its spread"):
        TargetAggregator(max_loss=1.0).fit(*chunked(X, Y, [100]))


@pytest.mark.more
def test_ridge_by_solvers_that_go_row_by_row_gets_rows():
    X, Y = paper(3000)
    one = CTFARegressor(Ridge(solver="saga", random_state=0)).fit(X, Y)
    two = CTFARegressor(Ridge(solver="saga", random_state=0)).fit(*chunked(X, Y, [1000]))
    assert one.partition_ == two.partition_
    np.testing.assert_allclose(one.predict(X), two.predict(X), atol=0.2)


def test_wide_tables_say_what_their_sums_would_take():
    X, Y = da.zeros((10**6, 20_000), chunks=(1000, -1)), da.zeros((10**6, 3), chunks=(1000, -1))
    with pytest.raises(ValueError, match="20003 columns, and their sums of products in 11 parts"):
        CTFARegressor().fit(X, Y)


# -- Laziness --------------------------------------------------------------------------------------


def counted(X, n_chunks=6):
    """A Dask array that writes down which chunks were computed."""
    seen = []
    size = len(X) // n_chunks

    def read(block, block_info=None):
        seen.append(block_info[0]["chunk-location"][0])
        return block

    return da.from_array(X, chunks=(size, -1)).map_blocks(
        read, dtype=float, meta=np.empty((0, 0))
    ), seen


def test_a_fit_reads_every_chunk_once_and_a_prediction_none():
    X, Y = paper(600)
    lazy, seen = counted(X)
    targets = da.from_array(Y, chunks=(100, -1))
    seen.clear()
    model = CTFARegressor(features=FeatureAggregator("r2", max_loss=1e-4, cv=4)).fit(lazy, targets)
    assert sorted(seen) == list(range(6))
    seen.clear()
    predicted = model.predict(lazy)
    model.targets_.transform(targets)
    model.features_[0].transform(lazy)
    assert seen == []
    assert predicted.shape == (600, 6)
    assert predicted.chunks[0] == lazy.chunks[0]
    np.testing.assert_allclose(predicted[100:110].compute(), model.predict(X[100:110]), rtol=1e-10)
    assert sorted(set(seen)) == [1]


def test_scores_are_those_of_the_rows_in_memory():
    X, Y = paper(300)
    model = CTFARegressor().fit(X, Y)
    weights = np.random.default_rng(0).uniform(0.0, 2.0, 300)
    lazy = chunked(X, Y, [50, 180])
    np.testing.assert_allclose(
        model.score_per_target(*lazy, weights), model.score_per_target(X, Y, weights), rtol=1e-12
    )
    Y[:40, 2] = np.nan
    assert model.score(*chunked(X, Y, [50, 180])) == pytest.approx(model.score(X, Y), rel=1e-12)
    assert model.score(strict.asarray(X), strict.asarray(Y)) == pytest.approx(model.score(X, Y))


def test_models_say_before_computing_that_columns_do_not_fit():
    X, Y = paper(300)
    model = CTFARegressor().fit(X, Y)
    with pytest.raises(ValueError, match="12 features"):
        model.predict(da.from_array(X[:, :7], chunks=(100, 7)))


@pytest.mark.more
@pytest.mark.parametrize("scheduler", ["threads", "synchronous", "processes"])
def test_any_scheduler_adds_the_same_sums(scheduler):
    X, Y = paper(300)
    with dask.config.set(scheduler=scheduler):
        two = TargetAggregator(max_loss=1.0).fit(*chunked(X, Y, [50, 100, 150, 200]))
    same_histories(TargetAggregator(max_loss=1.0).fit(X, Y), two)
