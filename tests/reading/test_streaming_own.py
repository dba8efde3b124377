"""Targets with inputs of their own, whose rows come piece by piece and go again."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold
from sklearn.tree import DecisionTreeRegressor

from ctfa import FeatureAggregator, MultiInputCTFARegressor, TargetAggregator, persistence
from ctfa._reading.sums import collection
from generated import examples
from problems import RIDGE, averaged
from test_stand_ins_own import assert_alike, problem
from test_streaming import cut, cuttings, folds_of, pieces, refused, refused_after_fit

X, Y, LAYOUT = problem(0, 500, n_tasks=5, n_slots=2)
WEIGHTS = np.random.default_rng(1).uniform(0.5, 2.0, len(X))
MONTHS = np.eye(12)[np.arange(len(X)) % 12][:, 1:]
FIXED = TargetAggregator(max_loss=1.2)
FOLDED = FeatureAggregator("r2", max_loss=1e-3, cv=4)


def own(regressor=None, **options):
    return averaged(LAYOUT, regressor, **options)


# -- The same as a fit -----------------------------------------------------------------------------


@given(cuttings, st.sampled_from(["mean", "pool"]), st.booleans())
@settings(max_examples=examples(15), deadline=None)
def test_any_pieces_decide_as_all_rows_do(cuts, aggregate, at_once):
    parts = cut(len(X), cuts)
    model = own(targets=FIXED, aggregate=aggregate, features=FeatureAggregator())
    expected = clone(model).fit(X, Y, WEIGHTS)
    if at_once or parts[0].stop < 30:
        model.partial_fit(pieces(parts, X, Y, WEIGHTS))
    else:
        for piece in pieces(parts, X, Y, WEIGHTS):
            model.partial_fit(*piece)
    assert_alike(expected, model, X)


@pytest.mark.more
@given(cuttings, st.sampled_from(["mean", "pool", "auto"]), st.sampled_from(["mean", "levels"]))
@settings(max_examples=examples(12), deadline=None)
def test_folds_are_blocks_of_the_pieces(cuts, aggregate, head):
    parts = cut(len(X), cuts)
    options = {"aggregate": aggregate, "head": head}
    model = own(targets=TargetAggregator(cv=6), **options).partial_fit(pieces(parts, X, Y))
    expected = own(targets=TargetAggregator(cv=folds_of(parts, 6)), **options)
    assert_alike(expected.fit(X, Y), model, X)


def test_folds_judge_features_of_pieces_too():
    parts = cut(len(X), [100, 105, 320])
    model = own(targets=TargetAggregator(cv=6), features=FOLDED).partial_fit(pieces(parts, X, Y))
    expected = own(
        targets=TargetAggregator(cv=folds_of(parts, 6)),
        features=clone(FOLDED).set_params(cv=folds_of(parts, 4)),
    )
    assert_alike(expected.fit(X, Y), model, X)


@pytest.mark.parametrize(
    "model",
    [
        own(),
        own(features=FOLDED),
        own(Ridge(3.0), aggregate="auto"),
        own(targets="passthrough"),
        own(targets=FIXED, head="levels"),
    ],
    ids=["default", "folds", "ridge", "apart", "shrink"],
)
@pytest.mark.parametrize("weights", [None, WEIGHTS * (np.arange(500) % 7 > 0)])
def test_the_first_piece_is_a_fit(model, weights):
    assert_alike(clone(model).fit(X, Y, weights), clone(model).partial_fit(X, Y, weights), X)


def test_weights_confounds_and_weights_of_targets_go_along():
    areas = np.arange(1.0, 6.0)
    given = [
        {"X": X[p], "y": Y[p], "sample_weight": WEIGHTS[p], "confounds": MONTHS[p]}
        for p in cut(len(X), [100, 101, 350])
    ]
    model = own(targets=FIXED).partial_fit(given, target_weight=areas)
    expected = own(targets=FIXED).fit(X, Y, WEIGHTS, confounds=MONTHS, target_weight=areas)
    assert_alike(expected, model, X, MONTHS)


def test_columns_that_several_targets_have_in_common_raise_no_doubts():
    """Equal columns are no trouble where no target has both; warnings are errors here."""
    doubled = np.hstack([X, X[:, :2]])
    layout = np.vstack([LAYOUT[1:], [10, 11]])
    targets = np.column_stack([Y[:, 1:], Y[:, 0]])
    model = averaged(layout, targets=FIXED)
    expected = clone(model).fit(doubled, targets)
    parts = cut(len(X), [99, 300])
    assert_alike(expected, model.partial_fit(pieces(parts, doubled, targets)), doubled)


def test_layouts_by_name_and_slots_that_some_have_not():
    pd = pytest.importorskip("pandas")
    wide, targets, layout = problem(2, 400, n_tasks=5, lacking=True)
    names = [f"slot{k % 3}_{k // 3}" for k in range(wide.shape[1])]
    frame, targets = pd.DataFrame(wide, columns=names), pd.DataFrame(targets).add_prefix("basin ")
    named = np.where(layout < 0, None, np.array(names, dtype=object)[layout])
    model = averaged(named, targets=FIXED)
    expected = clone(model).fit(frame, targets)
    model.partial_fit([(frame[:150], targets[:150]), (frame[150:], targets[150:])])
    assert_alike(expected, model, frame)
    assert list(model.predict(frame).columns) == list(targets.columns)
    other = frame.rename(columns={"slot0_0": "slot0_9"})
    refused(model, "feature names should match", other, targets, verb="partial_fit")


def test_pieces_may_be_of_dask_and_of_other_libraries():
    da = pytest.importorskip("dask.array")
    strict = pytest.importorskip("array_api_strict")
    lazy = da.from_array(X[:200], chunks=(70, 5)), da.from_array(Y[:200], chunks=(90, 5))
    foreign = strict.asarray(X[200:400]), strict.asarray(Y[200:400])
    parts = [slice(0, 200), slice(200, 400), slice(400, 500)]
    model = own().partial_fit([lazy, foreign, (X[400:], Y[400:])])
    expected = own().partial_fit(pieces(parts, X, Y))
    assert_alike(expected, model, X)


# -- Going on --------------------------------------------------------------------------------------


@pytest.mark.more
@pytest.mark.parametrize("model", [own(), own(targets=FIXED), own(aggregate="auto", head="levels")])
def test_a_year_is_added(model):
    parts = [slice(0, 400), slice(400, 500)]
    added = clone(model).partial_fit(X[:400], Y[:400]).partial_fit(X[400:], Y[400:])
    assert_alike(clone(model).partial_fit(pieces(parts, X, Y)), added, X)


@pytest.mark.more
def test_wide_sums_are_rows_while_these_are_fewer():
    wide, targets, layout = problem(1, 60, n_tasks=40)
    model = MultiInputCTFARegressor(layout).fit(wide, targets)
    streamed = MultiInputCTFARegressor(layout).partial_fit(wide, targets)
    assert all(part.rows is not None for part in streamed._sums.classes.values())
    assert_alike(model, streamed, wide)


HOLED = X.copy()
HOLED[3, 2] = np.nan
GAPPY = Y.copy()
GAPPY[5, 1] = np.nan


@pytest.mark.parametrize(
    ("model", "inputs", "targets", "known"),
    [
        (own(), X, Y, {}),
        (own(targets=FIXED), X, Y, {"sample_weight": WEIGHTS}),
        (own(), HOLED, Y, {}),
        (own(), X, GAPPY, {}),
        (own(targets=TargetAggregator(regressor=RIDGE)), X, Y, {}),
        (own(targets=TargetAggregator(cv=KFold(4))), X, Y, {}),
        (own(DecisionTreeRegressor(max_depth=2)), X, Y, {}),
        (own(), X, Y, {"groups": np.arange(500) // 50}),
    ],
    ids=["default", "weights", "inputs", "targets", "ridge", "splitter", "tree", "groups"],
)
@pytest.mark.parametrize("chunks", [None, 130])
def test_no_fit_is_gone_on_with(model, inputs, targets, known, chunks):
    if chunks is not None:
        da = pytest.importorskip("dask.array")
        inputs, targets = (da.from_array(table, chunks=chunks) for table in (inputs, targets))
    refused_after_fit(clone(model).fit(inputs, targets, **known), X, Y)


def test_a_fit_starts_anew():
    model = own(targets=FIXED).partial_fit(X, Y).fit(X[:200], Y[:200])
    assert_alike(own(targets=FIXED).fit(X[:200], Y[:200]), model, X)
    refused_after_fit(model, X[200:], Y[200:])


# -- Nothing is lost on bad input ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("match", "piece"),
    [
        ("X contains missing values .first at row 3, column 2", (HOLED[:40], Y[:40])),
        ("y contains missing values .first at row 5, target 'y1'", (X[:40], GAPPY[:40])),
        ("infinity", (np.where(np.isnan(HOLED), np.inf, HOLED)[:40], Y[:40])),
        ("expecting 10 features", (X[:40, 1:], Y[:40])),
        ("fit has seen 5 targets", (X[:40], Y[:40, :3])),
        ("negative", (X[:40], Y[:40], -np.ones(40))),
        ("confounds has 2 columns", {"X": X[:40], "y": Y[:40], "confounds": MONTHS[:40, :2]}),
        ("target_weight differs", {"X": X[:40], "y": Y[:40], "target_weight": np.arange(1, 6)}),
    ],
)
def test_a_refused_piece_changes_nothing_and_is_named(match, piece):
    model = own().partial_fit(X[:200], Y[:200])
    good = X[200:300], Y[200:300]
    refused(model, f"(?s)piece 1: .*({match})", [good, piece, good], verb="partial_fit")


def test_a_chunk_with_a_hole_is_refused_where_it_is():
    da = pytest.importorskip("dask.array")
    lazy = da.from_array(HOLED, chunks=90), da.from_array(Y, chunks=90)
    refused(own(), "X contains missing values .first at row 3, column 2", *lazy, verb="partial_fit")


def all_of_them(targets):
    return np.ones((len(targets), len(targets)))


@pytest.mark.parametrize(
    ("model", "match"),
    [
        (own(DecisionTreeRegressor()), "DecisionTreeRegressor.* learns from the rows"),
        (own(targets=TargetAggregator(regressor=RIDGE)), r"RidgeCV\(\).* row by row"),
        (own(targets=TargetAggregator(connectivity=all_of_them)), "connectivity"),
        (own(targets=TargetAggregator(cv=KFold(5))), "rows that are still to come"),
        (own(targets=TargetAggregator(max_loss=1.0, cv=KFold(5)), head="levels"), "still to come"),
        (own(features=FOLDED, aggregate="pool"), "cv of FeatureAggregator with aggregate='pool'"),
        (own(aggregate="median"), "aggregate"),
        (own(targets=TargetAggregator(flip=True)), "flip=True is for targets that share"),
        (MultiInputCTFARegressor(LAYOUT[:4]), "layout has 4 rows but y has 5 columns"),
    ],
)
def test_what_sums_cannot_answer_is_refused(model, match):
    refused(model, match, X, Y, verb="partial_fit")


def test_a_stream_may_begin_with_fewer_rows_than_least_squares_needs():
    model = own(targets=FIXED)
    refused(model, "X has 1 rows that count", X[:1], Y[:1], verb="partial_fit")
    with pytest.warns(RuntimeWarning, match="4 rows in which it and its 2 inputs.*Ridge"):
        model.partial_fit(X[:4], Y[:4])
    model.partial_fit(X[4:], Y[4:])
    assert_alike(own(targets=FIXED).fit(X, Y), model, X)


# -- Persistence -----------------------------------------------------------------------------------


def through_a_file(model, folder):
    persistence.save(model, folder / "model.ctfa")
    return persistence.load(folder / "model.ctfa")


@pytest.mark.parametrize("again", [through_a_file, lambda m, _: pickle.loads(pickle.dumps(m))])
@pytest.mark.parametrize(
    "model", [own(), own(targets=FIXED, features=FOLDED), own(aggregate="pool", head="levels")]
)
def test_a_saved_model_goes_on(model, again, tmp_path):
    started = clone(model).partial_fit([(X[:300], Y[:300]), (X[300:305], Y[300:305])])
    loaded = again(started, tmp_path)
    for one in (started, loaded):
        one.partial_fit(X[305:], Y[305:])
    np.testing.assert_array_equal(started.history_.loss, loaded.history_.loss)
    assert_alike(started, loaded, X)


def test_rows_of_dask_are_reduced_while_they_are_few(monkeypatch):
    da = pytest.importorskip("dask.array")
    model = own(targets=FIXED).fit(X, Y)
    lazy = da.from_array(X, chunks=(170, X.shape[1])), da.from_array(Y, chunks=(170, Y.shape[1]))
    for mine, theirs in zip(model.reduce(*lazy), model.reduce(X, Y), strict=True):
        np.testing.assert_array_equal(mine[0], theirs[0])
        np.testing.assert_array_equal(mine[1], theirs[1])
    monkeypatch.setattr(collection, "ROWS_LIMIT", 1000)
    with pytest.raises(ValueError, match="reduce needs the rows themselves"):
        model.reduce(*lazy)
