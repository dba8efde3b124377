"""Tasks with rows of their own, whose rows come piece by piece."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GroupKFold, KFold
from sklearn.tree import DecisionTreeRegressor

from ctfa import FeatureAggregator, PooledCTFARegressor, TargetAggregator, persistence
from ctfa._reading.streaming import TaskSums
from ctfa.core.moments import Summary
from generated import examples
from problems import RIDGE
from test_stand_ins_pooled import assert_alike, problem
from test_streaming import cut, cuttings, pieces, refused_after_fit

X, Y, TASKS, _ = problem(3, n_tasks=6, longest=200, n_features=3)
ORDER = np.random.default_rng(0).permutation(len(Y))
X, Y, TASKS = X[ORDER], Y[ORDER], TASKS[ORDER]
WEIGHTS = np.random.default_rng(1).uniform(0.5, 2.0, len(Y))
FIXED = TargetAggregator(max_loss=1.2)


def refused(model, match, *data, verb="partial_fit", **known):
    before = pickle.dumps(model)
    with pytest.raises((TypeError, ValueError), match=match):
        getattr(model, verb)(*data, **known)
    assert pickle.dumps(model) == before


# -- The same as a fit -----------------------------------------------------------------------------


@pytest.mark.more
@given(
    cuttings,
    st.booleans(),
    st.sampled_from(["mean", "levels"]),
    st.sampled_from([None, FeatureAggregator()]),
)
@settings(max_examples=examples(15), deadline=None)
def test_any_pieces_decide_as_all_rows_do(cuts, weighted, head, features):
    tables = (X, Y, TASKS, WEIGHTS) if weighted else (X, Y, TASKS)
    options = {"head": head, "features": features, "unseen": "nearest"}
    model = PooledCTFARegressor(**options).partial_fit(pieces(cut(len(Y), cuts), *tables))
    expected = PooledCTFARegressor(**options).fit(X, Y, TASKS, WEIGHTS if weighted else None)
    assert_alike(expected, model, X, TASKS)


@pytest.mark.more
@given(cuttings)
@settings(max_examples=examples(8), deadline=None)
def test_pieces_one_by_one_and_all_at_once_are_the_same(cuts):
    parts = [part for part in cut(len(Y), cuts) if part.stop > 100]
    parts[0] = slice(0, parts[0].stop)
    model = PooledCTFARegressor(targets=FIXED)
    for piece in pieces(parts, X, Y, TASKS):
        model.partial_fit(*piece)
    assert_alike(PooledCTFARegressor(targets=FIXED).fit(X, Y, TASKS), model, X, TASKS)


@pytest.mark.more
def test_pieces_are_dealt_as_chunks_are():
    da = pytest.importorskip("dask.array")
    lazy = [da.from_array(table, chunks=90) for table in (X, Y, TASKS)]
    expected = PooledCTFARegressor().fit(*lazy)
    assert_alike(expected, PooledCTFARegressor().partial_fit(*lazy), X, TASKS)
    half = len(Y) // 2
    rest = [table[half:] for table in lazy]
    model = PooledCTFARegressor().partial_fit([(X[:half], Y[:half], TASKS[:half]), tuple(rest)])
    assert_alike(expected, model, X, TASKS)


@pytest.mark.parametrize("library", ["array_api_strict", "torch"])
def test_pieces_may_be_of_other_libraries(library):
    space = pytest.importorskip(library)
    half = len(Y) // 2
    foreign = [space.asarray(table[:half]) for table in (X, Y, TASKS)]
    model = PooledCTFARegressor().partial_fit([tuple(foreign), (X[half:], Y[half:], TASKS[half:])])
    assert_alike(PooledCTFARegressor().fit(X, Y, TASKS), model, X, TASKS)


@pytest.mark.more
def test_new_tasks_may_come_in_any_piece():
    schools = np.array(["f", "e", "d", "c", "b", "a"])[TASKS]
    first = np.isin(schools, ["b", "d", "e"])
    model = PooledCTFARegressor().partial_fit(X[first], Y[first], schools[first])
    assert model.tasks_.tolist() == ["b", "d", "e"]
    model.partial_fit(X[~first], Y[~first], list(schools[~first]))
    assert model.tasks_.tolist() == list("abcdef")
    expected = PooledCTFARegressor().fit(X, Y, schools)
    np.testing.assert_array_equal(model.labels_, expected.labels_)
    np.testing.assert_allclose(model.predict(X, schools), expected.predict(X, schools), rtol=1e-8)


def test_ids_of_several_kinds_stay_apart():
    ids = np.array([1, "1", 2.5, (3, "x"), "z", True], dtype=object)
    ids = [("t", 0) if k == 5 else ids[k] for k in TASKS]
    half = len(Y) // 2
    model = PooledCTFARegressor(targets=FIXED).partial_fit(X[:half], Y[:half], ids[:half])
    model.partial_fit(X[half:], Y[half:], ids[half:])
    expected = PooledCTFARegressor(targets=FIXED).fit(X, Y, ids)
    assert list(model.tasks_) == list(expected.tasks_)
    np.testing.assert_allclose(model.predict(X, ids), expected.predict(X, ids), rtol=1e-8)


@pytest.mark.more
def test_ids_may_be_a_column():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("uvw")).assign(school=TASKS)
    expected = PooledCTFARegressor().fit(frame, Y, "school")
    half = len(Y) // 2
    halves = [(frame[:half], Y[:half]), (frame[half:], Y[half:])]
    both = PooledCTFARegressor().partial_fit(halves, tasks="school")
    np.testing.assert_array_equal(both.labels_, expected.labels_)
    np.testing.assert_allclose(both.predict(frame), expected.predict(frame), rtol=1e-8)
    one = PooledCTFARegressor().partial_fit(*halves[0], "school").partial_fit(*halves[1])
    np.testing.assert_allclose(one.predict(frame), expected.predict(frame), rtol=1e-8)
    assert list(one.feature_names_in_) == list("uvw")
    refused(one, "feature names", frame.rename(columns={"u": "q"}), Y, verb="partial_fit")


def test_a_model_of_all_tasks_and_other_regressors_go_along():
    parts = cut(len(Y), [100, 300])
    options = {"regressor": Ridge(2.0), "unseen": "global"}
    model = PooledCTFARegressor(**options).partial_fit(pieces(parts, X, Y, TASKS))
    expected = PooledCTFARegressor(**options).fit(X, Y, TASKS)
    assert_alike(expected, model, X, TASKS)
    strangers = np.full(len(Y), 99)
    np.testing.assert_allclose(
        model.predict(X, strangers), expected.predict(X, strangers), rtol=1e-8
    )


# -- Going on --------------------------------------------------------------------------------------


LONG = np.arange(600) % 3  # tasks with rows enough in every fold
LONG_X = np.random.default_rng(5).normal(size=(600, 3))
LONG_Y = LONG_X[:, 0] * (LONG - 1.0) + np.random.default_rng(6).normal(size=600)


@pytest.mark.more
@pytest.mark.parametrize("targets", [None, FIXED, TargetAggregator(cv=4)])
@pytest.mark.parametrize("weights", [None, (np.arange(600) % 7).astype(float)])
@pytest.mark.parametrize("chunks", [None, 130])
def test_a_year_is_added(targets, weights, chunks):
    data = [LONG_X, LONG_Y, LONG] if weights is None else [LONG_X, LONG_Y, LONG, weights]
    model = PooledCTFARegressor(targets=targets)
    new, old = slice(540, None), [table[:540] for table in data]
    if chunks is not None:
        da = pytest.importorskip("dask.array")
        old = [da.from_array(table, chunks=chunks) for table in old]
    grown = clone(model).partial_fit(*old)
    grown.partial_fit(*(table[new] for table in data))
    assert_alike(clone(model).partial_fit(*data), grown, LONG_X, LONG)
    assert_alike(clone(model).fit(*data), grown, LONG_X, LONG)


@pytest.mark.more
@pytest.mark.parametrize(
    ("model", "known"),
    [
        (PooledCTFARegressor(), {}),
        (PooledCTFARegressor(targets=FIXED), {"sample_weight": WEIGHTS}),
        (PooledCTFARegressor(targets=TargetAggregator(cv=KFold(4))), {}),
        (PooledCTFARegressor(DecisionTreeRegressor(max_depth=2)), {}),
        (PooledCTFARegressor(features=FeatureAggregator("r2", max_loss=1e-3, cv=3)), {}),
        (
            PooledCTFARegressor(targets=TargetAggregator(cv=GroupKFold(3))),
            {"groups": np.arange(len(Y)) % 9},
        ),
    ],
    ids=["default", "weights", "splitter", "tree", "features", "groups"],
)
@pytest.mark.parametrize("chunks", [None, 130])
def test_no_fit_is_gone_on_with(model, known, chunks):
    data = X, Y, TASKS
    if chunks is not None:
        da = pytest.importorskip("dask.array")
        data = [da.from_array(table, chunks=chunks) for table in data]
    refused_after_fit(clone(model).fit(*data, **known), X, Y, TASKS)


def test_a_fit_starts_anew_and_a_clone_has_no_sums():
    model = PooledCTFARegressor(targets=FIXED).partial_fit(X * 2, Y, TASKS)
    model.fit(LONG_X, LONG_Y, LONG)
    refused_after_fit(model, LONG_X, LONG_Y, LONG)
    assert clone(model).partial_fit(X, Y, TASKS)._sums.n_rows == len(Y)


# -- Nothing is lost on bad input ------------------------------------------------------------------

HOLED, GAPPY = X[:40].copy(), Y[:40].copy()
HOLED[3, 2] = GAPPY[5] = np.nan


@pytest.mark.parametrize(
    ("match", "piece"),
    [
        ("X contains NaN", (HOLED, Y[:40], TASKS[:40])),
        ("y contains NaN", (X[:40], GAPPY, TASKS[:40])),
        ("expecting 3 features", (X[:40, 1:], Y[:40], TASKS[:40])),
        ("rows", (X[:40], Y[:39], TASKS[:40])),
        ("tasks has 39 ids", (X[:40], Y[:40], TASKS[:39])),
        ("pass tasks=", (X[:40], Y[:40])),
        ("is missing", (X[:40], Y[:40], [None] * 40)),
        ("negative", (X[:40], Y[:40], TASKS[:40], -np.ones(40))),
        ("zero for every row", (X[:40], Y[:40], TASKS[:40], np.zeros(40))),
        ("a piece is", (X[:40],)),
        ("it needs 'X' and 'y'", {"X": X[:40], "tasks": TASKS[:40]}),
        ("it needs 'X' and 'y'", {"X": X[:40], "y": Y[:40], "confounds": X}),
    ],
)
def test_a_refused_piece_changes_nothing_and_is_named(match, piece):
    model = PooledCTFARegressor().partial_fit(X[:200], Y[:200], TASKS[:200])
    good = X[200:300], Y[200:300], TASKS[200:300]
    refused(model, f"(?s)piece 1: .*({match})", [good, piece, good], verb="partial_fit")


def test_what_is_no_piece_is_said():
    model = PooledCTFARegressor()
    refused(model, "the target y is None", X, verb="partial_fit")
    refused(model, "gave none", [], verb="partial_fit")
    refused(model, "put it into each", [(X, Y)], None, TASKS, verb="partial_fit")
    refused(model, "put it into each", [(X, Y, TASKS)], None, None, WEIGHTS, verb="partial_fit")
    refused(model, "single id", X, Y, np.zeros(len(Y)), verb="partial_fit")


@pytest.mark.parametrize(
    ("model", "match"),
    [
        (PooledCTFARegressor(DecisionTreeRegressor()), "DecisionTreeRegressor.* learns from"),
        (PooledCTFARegressor(targets=TargetAggregator(cv=KFold(5))), "still to come"),
        (PooledCTFARegressor(targets=TargetAggregator(cv=1)), "two or more"),
        (PooledCTFARegressor(targets=TargetAggregator(regressor=RIDGE)), r"RidgeCV\(\) is not"),
        (PooledCTFARegressor(features=FeatureAggregator("r2", cv=3)), "cv of FeatureAggregator"),
        (PooledCTFARegressor(head="tail"), "head"),
    ],
)
def test_what_sums_cannot_answer_is_refused(model, match):
    refused(model, match, X, Y, TASKS, verb="partial_fit")


def test_folds_cannot_be_changed_on_the_way():
    model = PooledCTFARegressor(targets=TargetAggregator(cv=5))
    model.partial_fit(X[9:], Y[9:], TASKS[9:]).set_params(targets__cv=4)
    refused(model, "begun with 5 folds", X, Y, TASKS, verb="partial_fit")
    model.set_params(targets=FIXED)  # needs none
    model.partial_fit(X[:9], Y[:9], TASKS[:9])
    assert_alike(PooledCTFARegressor(targets=FIXED).fit(X, Y, TASKS), model, X, TASKS)
    begun = PooledCTFARegressor(targets=FIXED).partial_fit(X, Y, TASKS).set_params(targets=None)
    refused(begun, "begun with no folds", X, Y, TASKS, verb="partial_fit")


# -- Persistence -----------------------------------------------------------------------------------


def through_a_file(model, folder):
    persistence.save(model, folder / "model.ctfa")
    return persistence.load(folder / "model.ctfa")


@pytest.mark.more
@pytest.mark.parametrize("again", [through_a_file, lambda m, _: pickle.loads(pickle.dumps(m))])
@pytest.mark.parametrize("targets", [None, FIXED])
def test_a_saved_model_goes_on(targets, again, tmp_path):
    inputs, target, schools = LONG_X, LONG_Y, np.array([f"school {k}" for k in LONG])
    one = PooledCTFARegressor(LinearRegression(), targets=targets)
    one.partial_fit(inputs[:520], target[:520], schools[:520])
    one.partial_fit(inputs[520:540], target[520:540], schools[520:540])
    two = again(one, tmp_path)
    for model in (one, two):
        model.partial_fit(inputs[540:], target[540:], schools[540:])
    np.testing.assert_array_equal(one.history_.loss, two.history_.loss)
    np.testing.assert_array_equal(one.predict(inputs, schools), two.predict(inputs, schools))
    refused_after_fit(again(clone(one).fit(X, Y, TASKS), tmp_path), X, Y, TASKS)


@pytest.mark.more
@pytest.mark.parametrize(
    "change",
    [
        {"n_columns": 5},
        {"n_dealt": 2},
        {"n_dealt": -1},
        {"classes": {(0, 99): Summary.of(np.ones((2, 4)))}},
        {"classes": {0: Summary.of(np.ones((2, 4)))}},
    ],
)
def test_sums_in_a_file_must_fit_together(change, tmp_path):
    model = PooledCTFARegressor().partial_fit(X, Y, TASKS)
    assert isinstance(model._sums, TaskSums)
    model._sums = replace(model._sums, **change)
    persistence.save(model, tmp_path / "model.ctfa")
    with pytest.raises(persistence.PersistenceError):
        persistence.load(tmp_path / "model.ctfa")
