"""Tasks with rows of their own, whose rows come piece by piece and go again."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GroupKFold, KFold, PredefinedSplit
from sklearn.tree import DecisionTreeRegressor

from ctfa import FeatureAggregator, PooledCTFARegressor, TargetAggregator, persistence
from ctfa._collections import deal_tasks
from ctfa._streaming import TaskSums
from ctfa._streaming._remainders import of_possible_rank
from ctfa.core.moments import Moments
from ctfa.core.stand_ins import Summary
from test_stand_ins_pooled import assert_alike, problem
from test_streaming import cut, cuttings, pieces

X, Y, TASKS, _ = problem(3, n_tasks=6, longest=200, n_features=3)
ORDER = np.random.default_rng(0).permutation(len(Y))
X, Y, TASKS = X[ORDER], Y[ORDER], TASKS[ORDER]
WEIGHTS = np.random.default_rng(1).uniform(0.5, 2.0, len(Y))
FIXED = TargetAggregator(max_loss=1.2)


def refused(model, match, *data, verb="forget", **known):
    before = pickle.dumps(model)
    with pytest.raises((TypeError, ValueError), match=match):
        getattr(model, verb)(*data, **known)
    assert pickle.dumps(model) == before


# -- The same as a fit -----------------------------------------------------------------------------


@given(
    cuttings,
    st.booleans(),
    st.sampled_from(["mean", "shrink"]),
    st.sampled_from([None, FeatureAggregator()]),
)
@settings(max_examples=15, deadline=None)
def test_any_pieces_decide_as_all_rows_do(cuts, weighted, head, features):
    tables = (X, Y, TASKS, WEIGHTS) if weighted else (X, Y, TASKS)
    options = {"head": head, "features": features, "unseen": "nearest"}
    model = PooledCTFARegressor(**options).partial_fit(pieces(cut(len(Y), cuts), *tables))
    expected = PooledCTFARegressor(**options).fit(X, Y, TASKS, WEIGHTS if weighted else None)
    assert_alike(expected, model, X, TASKS)


@given(cuttings)
@settings(max_examples=8, deadline=None)
def test_pieces_one_by_one_and_all_at_once_are_the_same(cuts):
    parts = [part for part in cut(len(Y), cuts) if part.stop > 100]
    parts[0] = slice(0, parts[0].stop)
    model = PooledCTFARegressor(targets=FIXED)
    for piece in pieces(parts, X, Y, TASKS):
        model.partial_fit(*piece)
    assert_alike(PooledCTFARegressor(targets=FIXED).fit(X, Y, TASKS), model, X, TASKS)


def test_pieces_are_dealt_as_chunks_are():
    da = pytest.importorskip("dask.array")
    lazy = [da.from_array(table, chunks=90) for table in (X, Y, TASKS)]
    expected = PooledCTFARegressor().fit(*lazy)
    assert_alike(expected, PooledCTFARegressor().partial_fit(*lazy), X, TASKS)
    half = len(Y) // 2
    rest = [table[half:] for table in lazy]
    model = PooledCTFARegressor().partial_fit([(X[:half], Y[:half], TASKS[:half]), tuple(rest)])
    assert_alike(expected, model, X, TASKS)
    start = slice(0, half)
    expected = PooledCTFARegressor().fit(X[start], Y[start], TASKS[start])
    assert_alike(expected, model.forget(*rest), X[start], TASKS[start])


@pytest.mark.parametrize("library", ["array_api_strict", "torch"])
def test_pieces_may_be_of_other_libraries(library):
    space = pytest.importorskip(library)
    half = len(Y) // 2
    foreign = [space.asarray(table[:half]) for table in (X, Y, TASKS)]
    model = PooledCTFARegressor().partial_fit([tuple(foreign), (X[half:], Y[half:], TASKS[half:])])
    assert_alike(PooledCTFARegressor().fit(X, Y, TASKS), model, X, TASKS)


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


# -- Going on from a fit ---------------------------------------------------------------------------


LONG = np.arange(600) % 3  # tasks with rows enough in every fold
LONG_X = np.random.default_rng(5).normal(size=(600, 3))
LONG_Y = LONG_X[:, 0] * (LONG - 1.0) + np.random.default_rng(6).normal(size=600)


@pytest.mark.parametrize("targets", [None, FIXED, TargetAggregator(cv=4)])
@pytest.mark.parametrize("weights", [None, (np.arange(600) % 7).astype(float)])
@pytest.mark.parametrize("chunks", [None, 130])
def test_a_year_is_added_to_a_fitted_model(targets, weights, chunks):
    data = [LONG_X, LONG_Y, LONG] if weights is None else [LONG_X, LONG_Y, LONG, weights]
    model = PooledCTFARegressor(targets=targets)
    new, old = slice(540, None), [table[:540] for table in data]
    if chunks is not None:
        da = pytest.importorskip("dask.array")
        old = [da.from_array(table, chunks=chunks) for table in old]
    fitted = clone(model).fit(*old)
    fitted.partial_fit(*(table[new] for table in data))
    assert_alike(clone(model).partial_fit(*data), fitted, LONG_X, LONG)
    assert_alike(clone(model).fit(*data), fitted, LONG_X, LONG)


@pytest.mark.parametrize("chunks", [None, 130])
def test_a_fitted_model_holds_no_rows(chunks):
    """Of five rows of four columns the sums would be more than the rows, and give them away."""
    data = LONG_X, LONG_Y, np.where(np.arange(600) < 5, 9, LONG)
    if chunks is not None:
        da = pytest.importorskip("dask.array")
        data = [da.from_array(table, chunks=chunks) for table in data]
    model = PooledCTFARegressor(targets=FIXED).fit(*data)
    assert model._sums is None
    refused(model, "kept no sums", LONG_X, LONG_Y, LONG, verb="partial_fit")


@pytest.mark.parametrize(
    ("model", "known"),
    [
        (PooledCTFARegressor(targets=TargetAggregator(cv=KFold(4))), {}),
        (PooledCTFARegressor(DecisionTreeRegressor(max_depth=2)), {}),
        (PooledCTFARegressor(features=FeatureAggregator("r2", max_loss=1e-3, cv=3)), {}),
        (
            PooledCTFARegressor(targets=TargetAggregator(cv=GroupKFold(3))),
            {"groups": np.arange(len(Y)) % 9},
        ),
    ],
    ids=["splitter", "tree", "features", "groups"],
)
@pytest.mark.parametrize("chunks", [None, 130])
def test_a_fit_that_sums_cannot_go_on_from_keeps_none(model, known, chunks):
    data = X, Y, TASKS
    if chunks is not None:
        da = pytest.importorskip("dask.array")
        data = [da.from_array(table, chunks=chunks) for table in data]
    model = clone(model).fit(*data, **known)
    refused(model, "kept no sums", X, Y, TASKS, verb="partial_fit")
    refused(model, "keeps no sums", X, Y, TASKS)


def test_sums_of_more_than_the_data_are_not_kept():
    rng = np.random.default_rng(0)
    wide, ids = rng.normal(size=(400, 30)), np.arange(400) % 40
    model = PooledCTFARegressor(targets=FIXED).fit(wide, rng.normal(size=400), ids)
    assert model._sums is None


def test_a_fit_starts_anew_and_a_clone_has_no_sums():
    model = PooledCTFARegressor(targets=FIXED).partial_fit(X * 2, Y, TASKS)
    model.fit(LONG_X, LONG_Y, LONG)
    assert model._sums.n_rows == len(LONG_Y)
    assert getattr(clone(model), "_sums", None) is None


# -- Forgetting ------------------------------------------------------------------------------------


@given(st.data(), st.booleans())
@settings(max_examples=15, deadline=None)
def test_any_rows_can_be_forgotten_without_folds(data, weighted):
    gone = np.unique(data.draw(st.lists(st.integers(0, len(Y) - 1), min_size=1, max_size=250)))
    left = np.setdiff1d(np.arange(len(Y)), gone)
    tables = (X, Y, TASKS, WEIGHTS) if weighted else (X, Y, TASKS)
    model = PooledCTFARegressor(targets=FIXED).partial_fit(*tables)
    model.forget(*(table[gone] for table in tables))
    expected = PooledCTFARegressor(targets=FIXED).fit(*(table[left] for table in tables))
    assert_alike(expected, model, X[left], TASKS[left])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_with_folds_any_piece_goes_as_it_came(number, weighted):
    weights = np.where(np.arange(len(Y)) % 5, WEIGHTS, 0.0)
    tables = (X, Y, TASKS, weights) if weighted else (X, Y, TASKS)
    bounds = [slice(0, 100), slice(100, 180), slice(180, len(Y))]
    came = list(pieces(bounds, *tables))
    model = PooledCTFARegressor().partial_fit([*came, came[0]]).forget(*came[0])
    model.forget(*came[number])
    left = np.delete(np.arange(len(Y)), np.r_[bounds[number]])
    used = weights > 0.0 if weighted else np.ones(len(Y), dtype=bool)
    fold = np.full(len(Y), -1)
    fold[used] = deal_tasks(TASKS[used], 10)
    targets = TargetAggregator(cv=PredefinedSplit(fold[left]))
    expected = PooledCTFARegressor(targets=targets).fit(*(table[left] for table in tables))
    assert_alike(expected, model, X[left], TASKS[left])
    refused(model, "not added as one piece", *(table[5:40] for table in tables))


@given(cuttings)
@settings(max_examples=8, deadline=None)
def test_forgetting_what_came_gives_back_the_model_before(cuts):
    start = slice(0, 200)
    before = PooledCTFARegressor().partial_fit(X[start], Y[start], TASKS[start])
    model = PooledCTFARegressor().partial_fit(X[start], Y[start], TASKS[start])
    more = [(X[200:][part], Y[200:][part], TASKS[200:][part]) for part in cut(len(Y) - 200, cuts)]
    model.partial_fit(more).forget(more[::-1])
    assert_alike(before, model, X[start], TASKS[start])


def test_a_task_without_rows_is_gone():
    gone = TASKS == 2
    others = X[~gone], Y[~gone], TASKS[~gone]
    model = PooledCTFARegressor().partial_fit(*others).partial_fit(X[gone], Y[gone], TASKS[gone])
    assert model.tasks_.tolist() == [0, 1, 2, 3, 4, 5]
    model.forget(X[gone], Y[gone], TASKS[gone])
    assert model.tasks_.tolist() == [0, 1, 3, 4, 5]
    assert {task for task, _ in model._sums.classes} == {0, 1, 3, 4, 5}
    assert_alike(PooledCTFARegressor().fit(*others), model, X[~gone], TASKS[~gone])


@pytest.mark.parametrize("n_left", [1, 2, 3])
def test_a_task_of_few_rows_left_has_no_slopes_of_rounding(n_left):
    """Of one row sums of squares are zero, and of two there is one direction."""
    away = np.flatnonzero(TASKS == 0)[n_left:]
    left = np.setdiff1d(np.arange(len(Y)), away)
    model = PooledCTFARegressor(targets=FIXED).partial_fit(X, Y, TASKS)
    model.forget(X[away], Y[away], TASKS[away])
    expected = PooledCTFARegressor(targets=FIXED).fit(X[left], Y[left], TASKS[left])
    assert_alike(expected, model, X[left], TASKS[left])


def test_a_task_of_fewer_rows_than_slopes_joins_for_nothing():
    """Eight slopes fit three rows exactly: rounding must not be taken for a direction more."""
    rng = np.random.default_rng(0)
    ids = np.repeat([0, 1, 2, 3], [500, 60, 60, 60])
    wide = rng.normal(size=(ids.size, 8)) + 1e3
    target = wide @ rng.normal(size=8) + rng.normal(size=ids.size)
    away, left = np.arange(3, 500), np.r_[:3, 500 : ids.size]
    model = PooledCTFARegressor(targets=FIXED).partial_fit(wide, target, ids)
    model.forget(wide[away], target[away], ids[away])
    expected = PooledCTFARegressor(targets=FIXED).fit(wide[left], target[left], ids[left])
    assert 0 in (expected.history_.block[0], expected.history_.other[0])
    assert abs(model.history_.loss[0] - expected.history_.loss[0]) < 1e-12
    assert_alike(expected, model, wide[left], ids[left])


def test_sums_of_few_rows_have_few_directions():
    rows = np.random.default_rng(2).normal(size=(50, 6)) + 100.0
    left = Moments.of(rows) - Moments.of(rows[3:])
    exact = Moments.of(rows[:3])
    cleaned = of_possible_rank(Summary.of_moments(left)).moments
    values = np.linalg.eigvalsh(cleaned.cross)
    assert (np.abs(values[:-2]) < 1e-14 * values[-1]).all()
    np.testing.assert_allclose(cleaned.cross, exact.cross, rtol=1e-9, atol=1e-9)


def test_an_indicator_that_is_constant_among_what_is_left_is_constant():
    flags = (np.arange(len(Y)) % 5 == 0).astype(float)
    table = np.column_stack([X, flags])
    away = np.flatnonzero((TASKS == 0) & (flags == 1.0))
    left = np.setdiff1d(np.arange(len(Y)), away)
    model = PooledCTFARegressor(targets=FIXED).partial_fit(table, Y, TASKS)
    model.forget(table[away], Y[away], TASKS[away])
    expected = PooledCTFARegressor(targets=FIXED).fit(table[left], Y[left], TASKS[left])
    assert_alike(expected, model, table[left], TASKS[left])


def test_years_may_come_and_go_for_long():
    model = PooledCTFARegressor(targets=FIXED).partial_fit(X[:250], Y[:250], TASKS[:250])
    for start in range(0, 150, 10):
        new, old = slice(start + 250, start + 260), slice(start, start + 10)
        model.partial_fit(X[new], Y[new], TASKS[new]).forget(X[old], Y[old], TASKS[old])
    here = slice(150, 400)
    expected = PooledCTFARegressor(targets=FIXED).fit(X[here], Y[here], TASKS[here])
    assert_alike(expected, model, X[here], TASKS[here])


@pytest.mark.parametrize("offset", [1e4, 1e6, 1e8])
def test_rows_far_from_zero_are_forgotten_too(offset):
    """Means are rounded by more than squares are, and rows that were there are still known."""
    far, half = X + offset, len(Y) // 2
    model = PooledCTFARegressor(targets=FIXED)
    model.partial_fit([(far[:half], Y[:half], TASKS[:half]), (far[half:], Y[half:], TASKS[half:])])
    model.forget(far[:200], Y[:200], TASKS[:200])
    expected = PooledCTFARegressor(targets=FIXED).fit(far[200:], Y[200:], TASKS[200:])
    np.testing.assert_array_equal(model.labels_, expected.labels_)
    np.testing.assert_allclose(model.history_.loss, expected.history_.loss, rtol=1e-5, atol=1e-6)
    answer = expected.predict(far, TASKS)
    np.testing.assert_allclose(model.predict(far, TASKS), answer, rtol=1e-5, atol=1e-5)
    refused(model, "not among those", 2 * far[200:250], Y[200:250], TASKS[200:250])


def test_what_cannot_be_forgotten_is_refused():
    half = len(Y) // 2
    start = X[:half], Y[:half], TASKS[:half]
    model = PooledCTFARegressor(targets=FIXED).partial_fit(*start)
    refused(model, f"{len(Y)} rows were given to forget and there are {half}", X, Y, TASKS)
    refused(model, "nothing would be left", *start)
    refused(model, "not among those", 5 * X[:50], Y[:50], TASKS[:50])
    refused(model, "not among those", X[:50], Y[:50], TASKS[:50] + 50)
    refused(PooledCTFARegressor(), "keeps no sums", *start)
    rest = start[2] != 0
    refused(model, "single id", *(table[rest] for table in start))


def test_what_would_leave_only_rounding_is_refused():
    wild = X[:50].copy()
    wild[:, 1] *= 1e9
    model = PooledCTFARegressor(targets=FIXED)
    model.partial_fit([(X, Y, TASKS), (wild, Y[:50], TASKS[:50])])
    refused(model, "column 1 of X.* no digits to trust", wild, Y[:50], TASKS[:50])
    # Of a single task, too.
    wild[:, 1] /= 1e3
    model = PooledCTFARegressor(targets=FIXED)
    model.partial_fit([(X, Y, TASKS), (wild[:1], Y[:1], TASKS[:1])])
    match = f"column 1 of X, task {TASKS[0]}, has .* no digits to trust"
    refused(model, match, wild[:1], Y[:1], TASKS[:1])


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
        ("it needs 'X' and 'y'", {"X": X[:40], "y": Y[:40], "baseline": X}),
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
        (PooledCTFARegressor(targets=TargetAggregator(solver="ridge")), "solver='ridge'"),
        (PooledCTFARegressor(features=FeatureAggregator("r2", cv=3)), "cv of FeatureAggregator"),
        (PooledCTFARegressor(head="tail"), "head"),
    ],
)
def test_what_sums_cannot_answer_is_refused(model, match):
    refused(model, match, X, Y, TASKS, verb="partial_fit")


def test_folds_cannot_be_changed_on_the_way():
    model = PooledCTFARegressor(targets=TargetAggregator(cv=5)).partial_fit(X, Y, TASKS)
    model.set_params(targets__cv=4)
    refused(model, "begun with 5 folds", X, Y, TASKS, verb="partial_fit")
    model.set_params(targets=FIXED)  # needs none
    model.partial_fit(X[:9], Y[:9], TASKS[:9]).forget(X[:9], Y[:9], TASKS[:9])
    assert_alike(PooledCTFARegressor(targets=FIXED).fit(X, Y, TASKS), model, X, TASKS)
    begun = PooledCTFARegressor(targets=FIXED).partial_fit(X, Y, TASKS).set_params(targets=None)
    refused(begun, "begun with no folds", X, Y, TASKS, verb="partial_fit")


# -- Persistence -----------------------------------------------------------------------------------


def through_a_file(model, folder):
    persistence.save(model, folder / "model.ctfa")
    return persistence.load(folder / "model.ctfa")


@pytest.mark.parametrize("again", [through_a_file, lambda m, _: pickle.loads(pickle.dumps(m))])
@pytest.mark.parametrize("targets", [None, FIXED])
@pytest.mark.parametrize("started", ["fit", "partial_fit"])
def test_a_saved_model_goes_on(targets, again, started, tmp_path):
    inputs, target, schools = LONG_X, LONG_Y, np.array([f"school {k}" for k in LONG])
    one = PooledCTFARegressor(LinearRegression(), targets=targets)
    getattr(one, started)(inputs[:520], target[:520], schools[:520])
    one.partial_fit(inputs[520:540], target[520:540], schools[520:540])
    two = again(one, tmp_path)
    for model in (one, two):
        model.partial_fit(inputs[540:], target[540:], schools[540:])
        model.forget(inputs[520:540], target[520:540], schools[520:540])
    np.testing.assert_array_equal(one.history_.loss, two.history_.loss)
    np.testing.assert_array_equal(one.predict(inputs, schools), two.predict(inputs, schools))


@pytest.mark.parametrize(
    "change",
    [
        {"n_columns": 5},
        {"n_dealt": 2},
        {"n_dealt": -1},
        {"largest": np.zeros(3)},
        {"most": {}},
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


def test_no_rows_of_tasks_go_twice():
    rows = (X, Y, TASKS)
    first, second = (tuple(table[part] for table in rows) for part in (slice(90), slice(90, None)))
    some = tuple(table[100:110] for table in rows)
    model = PooledCTFARegressor(targets=FIXED)
    model.partial_fit([first, second, first]).forget(*first).forget(*some)
    refused(model, "forgotten already", *some)
    model.partial_fit(*some).forget(*some)
    refused(model, "forgotten already", *some)
    again = pickle.loads(pickle.dumps(model)).forget(*first)
    refused(again, "forgotten already", *first)
    model = PooledCTFARegressor().partial_fit([first, second, first]).forget([first, first])
    refused(model, "not added as one piece", *first)


def test_no_digits_of_a_difference_between_columns_are_refused():
    close = np.column_stack((X[:, 0], X[:, 0] + 1e-4 * X[:, 1], X[:, 2]))
    model = PooledCTFARegressor(targets=FIXED).partial_fit(close, Y, TASKS)
    model.partial_fit(1e3 * close, Y, TASKS)
    refused(model, "no digits are left of the difference", 1e3 * close, Y, TASKS)
