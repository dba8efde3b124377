"""Rows that come piece by piece: the decisions of a fit on all of them, and none lost."""

import itertools
import pickle
from dataclasses import replace

import joblib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.linear_model import ElasticNet, Lasso, LinearRegression, Ridge
from sklearn.model_selection import KFold, PredefinedSplit
from sklearn.tree import DecisionTreeRegressor

from ctfa import CTFARegressor, CTFARegressorCV, FeatureAggregator, TargetAggregator, persistence
from ctfa._reading.streaming import RunningSums
from ctfa._reading.sums import collection
from ctfa.core.moments import Moments, Summary
from ctfa.datasets import make_paper_synthetic
from ctfa.estimators.models import HEADS
from generated import examples
from problems import RIDGE

X, Y = make_paper_synthetic(600, n_features=12, n_targets=6, random_state=0)
X, Y = X + 3.0, Y - 2.0
WEIGHTS = np.random.default_rng(1).uniform(0.5, 2.0, len(X))
MONTHS = np.eye(12)[np.arange(len(X)) % 12][:, 1:]
FIXED = TargetAggregator(max_loss=1.2)
FOLDED = FeatureAggregator("r2", max_loss=1e-3, cv=4)


def cut(n_rows, cuts):
    bounds = [0, *sorted({cut % (n_rows - 1) + 1 for cut in cuts}), n_rows]
    return [slice(a, b) for a, b in itertools.pairwise(bounds)]


def pieces(parts, *tables):
    return [tuple(table[part] for table in tables) for part in parts]


def same_histories(one, two):
    assert one.partition_ == two.partition_
    assert one.max_loss_ == two.max_loss_
    np.testing.assert_array_equal(one.history_.block, two.history_.block)
    np.testing.assert_array_equal(one.history_.other, two.history_.other)
    np.testing.assert_allclose(one.history_.loss, two.history_.loss, rtol=1e-7, atol=1e-9)


def same_evidence(one, two):
    """What each merge and each group saves, in closed form or on folds."""
    assert one.held_out == two.held_out
    np.testing.assert_allclose(one.gain.value, two.gain.value, rtol=1e-6, atol=1e-9)
    for name in ("gain", "score"):
        mine, theirs = one.columns()[name], two.columns()[name]
        np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-9)
    assert (one.served is None) == (two.served is None)
    if one.held_out:
        np.testing.assert_allclose(one.gain, two.gain, rtol=1e-6, atol=1e-9)
    if one.served is not None:
        np.testing.assert_allclose(one.served, two.served, rtol=1e-6, atol=1e-9)


def same_models(one, two, confounds=None):
    same_histories(one, two)
    for mine, theirs in zip(one.features_, two.features_, strict=True):
        same_histories(mine, theirs)
    np.testing.assert_allclose(one.trust_, two.trust_, rtol=1e-6, atol=1e-9)
    same_evidence(one._evidence, two._evidence)
    extra = {} if confounds is None else {"confounds": confounds}
    np.testing.assert_allclose(
        one.predict(X, **extra), two.predict(X, **extra), rtol=1e-7, atol=1e-7
    )


def folds_of(parts, n_folds):
    """Fold ``i`` as the ``i``-th block of all pieces, as a splitter of all rows."""
    fold, following = [], 0
    for part in parts:
        n_rows = part.stop - part.start
        if n_rows >= 2 * n_folds:
            blocks = np.array_split(np.arange(n_rows), n_folds)
            fold += list(np.repeat(np.arange(n_folds), [block.size for block in blocks]))
        else:
            fold += [(following + row) % n_folds for row in range(n_rows)]
            following = (following + n_rows) % n_folds
    return PredefinedSplit(fold)


cuttings = st.lists(st.integers(0, 10_000), max_size=8)

# -- The same as a fit -----------------------------------------------------------------------------


def streamed(model, parts, at_once, *tables):
    """Fitted to the pieces one after the other; at once where the first alone is too short."""
    if at_once or parts[0].stop < 30:
        return model.partial_fit(pieces(parts, *tables))
    for piece in pieces(parts, *tables):
        model.partial_fit(*piece)
    return model


@given(
    cuttings,
    st.booleans(),
    st.sampled_from([LinearRegression(), Ridge(3.0)]),
    st.sampled_from(HEADS),
)
@settings(max_examples=examples(25), deadline=None)
def test_any_pieces_decide_as_all_rows_do(cuts, at_once, regressor, head):
    model = CTFARegressor(regressor, targets=FIXED, head=head)
    same_models(streamed(clone(model), cut(len(X), cuts), at_once, X, Y), model.fit(X, Y))


@pytest.mark.more
@given(cuttings, st.booleans(), st.sampled_from(HEADS), st.sampled_from([1.2, "auto"]))
@settings(max_examples=examples(25), deadline=None)
def test_pieces_decide_as_all_rows_do_on_the_same_folds(cuts, at_once, head, max_loss):
    """Penalties are tempered on folds, and these say whether groups of features serve."""
    parts = cut(len(X), cuts)
    asked = TargetAggregator(max_loss=max_loss)
    known = TargetAggregator(max_loss=max_loss, cv=folds_of(parts, 10))
    model = streamed(CTFARegressor(targets=asked, head=head), parts, at_once, X, Y)
    same_models(model, CTFARegressor(targets=known, head=head).fit(X, Y))


@pytest.mark.more
@given(cuttings, st.sampled_from([None, LinearRegression()]), st.sampled_from(HEADS))
@settings(max_examples=examples(15), deadline=None)
def test_folds_are_blocks_of_the_pieces(cuts, regressor, head):
    parts = cut(len(X), cuts)
    model = CTFARegressor(regressor, features=FOLDED, head=head).partial_fit(pieces(parts, X, Y))
    expected = CTFARegressor(
        regressor,
        targets=TargetAggregator(cv=folds_of(parts, 10)),
        features=clone(FOLDED).set_params(cv=folds_of(parts, 4)),
        head=head,
    )
    same_models(model, expected.fit(X, Y))
    np.testing.assert_allclose(
        model.cv_curve_.fold_errors, expected.cv_curve_.fold_errors, rtol=1e-8
    )


def test_pieces_of_a_row_each_are_dealt_out():
    parts = [slice(i, i + 1) for i in range(200)]
    model = CTFARegressor().partial_fit(pieces(parts, X, Y))
    expected = CTFARegressor(targets=TargetAggregator(cv=folds_of(parts, 10)))
    same_models(model, expected.fit(X[:200], Y[:200]))


@pytest.mark.parametrize(
    "model",
    [
        CTFARegressor(),
        CTFARegressor(features=FOLDED, head="levels"),
        CTFARegressor(head="mean"),
        CTFARegressor(LinearRegression()),
        CTFARegressor(LinearRegression(), head="mean"),
        CTFARegressor(targets=FIXED),
        CTFARegressor(targets="passthrough"),
        CTFARegressor(targets="passthrough", head="mean"),
        CTFARegressor(features="passthrough"),
        CTFARegressor(targets=TargetAggregator(flip=True)),
        CTFARegressor(Ridge(3.0)),
        CTFARegressor(Ridge(3.0), targets=TargetAggregator(cv=3, flip=True)),
        CTFARegressor(Lasso(0.1), targets="passthrough"),
        CTFARegressor(ElasticNet(0.1), features="passthrough"),
        CTFARegressor(targets=TargetAggregator(guard="member", scan="correlation")),
    ],
    ids=[
        "default",
        "folds",
        "mean",
        "least squares",
        "least squares, mean",
        "limit",
        "no groups",
        "no groups, mean",
        "no features",
        "turned",
        "ridge",
        "flip",
        "lasso",
        "net",
        "guard",
    ],
)
@pytest.mark.parametrize("weights", [None, WEIGHTS, WEIGHTS * (np.arange(600) % 7 > 0)])
def test_the_first_piece_is_a_fit(model, weights):
    same_models(clone(model).partial_fit(X, Y, weights), clone(model).fit(X, Y, weights))


def test_few_rows_give_as_many_folds_as_a_fit():
    """Fifteen rows are seven folds of two or three, whoever divides them."""
    few = TargetAggregator(scan="correlation")
    one, two = clone(few).partial_fit(X[:17, :2], Y[:17]), clone(few).fit(X[:17, :2], Y[:17])
    assert one.cv_curve_.fold_errors.shape == two.cv_curve_.fold_errors.shape


def test_the_order_of_pieces_does_not_matter():
    parts = cut(len(X), [40, 90, 300, 411])
    # Each is long enough to be divided into all folds by itself.
    forward = CTFARegressor(targets=FIXED).partial_fit(pieces(parts, X, Y, WEIGHTS))
    back = CTFARegressor(targets=FIXED).partial_fit(pieces(parts[::-1], X, Y, WEIGHTS))
    same_models(forward, back)


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("regressor", [None, LinearRegression()])
def test_weights_confounds_and_weights_of_targets_go_along(regressor, head):
    areas = np.arange(1.0, 7.0)
    parts = cut(len(X), [100, 101, 350])
    given = [
        {"X": X[p], "y": Y[p], "sample_weight": WEIGHTS[p], "confounds": MONTHS[p]} for p in parts
    ]
    model = CTFARegressor(regressor, targets=FIXED, head=head)
    expected = clone(model).set_params(targets__cv=folds_of(parts, 10))
    expected.fit(X, Y, WEIGHTS, confounds=MONTHS, target_weight=areas)
    same_models(model.partial_fit(given, target_weight=areas), expected, MONTHS)
    np.testing.assert_allclose(model.targets_.target_weight_, areas / areas.mean())


def test_rows_without_weights_weigh_one():
    model = CTFARegressor(targets=FIXED).partial_fit(X[:300], Y[:300])
    model.partial_fit(X[300:], Y[300:], WEIGHTS[300:])
    weights = np.where(np.arange(600) < 300, 1.0, WEIGHTS)
    folds = clone(FIXED).set_params(cv=folds_of([slice(0, 300), slice(300, 600)], 10))
    same_models(model, CTFARegressor(targets=folds).fit(X, Y, weights))


def test_targets_alone_and_features_alone_are_streamed():
    parts = cut(len(X), [60, 77, 300])
    groups = TargetAggregator(max_loss=1.2).partial_fit(pieces(parts, X, Y))
    same_histories(groups, TargetAggregator(max_loss=1.2).fit(X, Y))
    np.testing.assert_allclose(groups.transform(Y), clone(groups).fit(X, Y).transform(Y))
    for features in (FeatureAggregator(), clone(FOLDED).set_params(cv=folds_of(parts, 4))):
        streamed = clone(features)
        if features.cv is not None:
            streamed.set_params(cv=4)
        streamed.partial_fit([{"X": X[p], "y": Y[p, 0]} for p in parts])
        same_histories(streamed, features.fit(X, Y[:, 0]))


def test_names_and_vectors_are_handed_back():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X).add_prefix("x")
    named = pd.DataFrame(Y, columns=list("abcdef"))
    model = CTFARegressor().partial_fit(frame[:300], named[:300])
    model.partial_fit(frame[300:], named[300:])
    assert list(model.predict(frame).columns) == list("abcdef")
    assert list(model.feature_names_in_) == list(frame.columns)
    alone = CTFARegressor().partial_fit(X, Y[:, 0])
    assert alone.predict(X).shape == (600,)
    series = CTFARegressor().partial_fit(frame, named["c"])
    assert series.predict(frame).name == "c"
    polars = pytest.importorskip("polars")
    table = polars.DataFrame(X, schema=list(frame.columns))
    model = CTFARegressor().partial_fit(table, polars.DataFrame(Y, schema=list("abcdef")))
    assert model.predict(table).columns == list("abcdef")


def test_pieces_may_be_of_dask_and_of_other_libraries():
    da = pytest.importorskip("dask.array")
    strict = pytest.importorskip("array_api_strict")
    lazy = da.from_array(X[:200], chunks=(70, 5)), da.from_array(Y[:200], chunks=(90, 6))
    foreign = strict.asarray(X[200:400]), strict.asarray(Y[200:400])
    parts = [slice(0, 200), slice(200, 400), slice(400, 600)]
    model = CTFARegressor().partial_fit([lazy, foreign, (X[400:], Y[400:])])
    expected = CTFARegressor().partial_fit(pieces(parts, X, Y))
    same_models(model, expected)


@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
def test_numbers_of_few_digits_are_fitted_and_predicted(kind):
    torch = pytest.importorskip("torch")
    inputs = torch.asarray(X).to(getattr(torch, kind))
    targets = torch.asarray(Y).to(getattr(torch, kind))
    known = inputs.double().numpy(), targets.double().numpy()
    for model in (CTFARegressor(targets=FIXED).fit, CTFARegressor(targets=FIXED).partial_fit):
        expected = CTFARegressor(targets=FIXED).fit(*known).predict(known[0])
        fitted = model(inputs, targets)
        np.testing.assert_allclose(np.asarray(fitted.predict(inputs)), expected)


def test_columns_of_dasks_frames_are_compared():
    pd = pytest.importorskip("pandas")
    try:
        import dask.dataframe as dd
    except ImportError as error:  # also where its own needs are not met
        pytest.skip(str(error))
    frame = pd.DataFrame(X).add_prefix("x")
    framed = CTFARegressor().partial_fit(
        dd.from_pandas(frame, npartitions=3), dd.from_pandas(pd.DataFrame(Y), npartitions=3)
    )
    assert list(framed.feature_names_in_) == list(frame.columns)
    with pytest.raises(ValueError, match="feature names should match"):
        framed.partial_fit(dd.from_pandas(frame[frame.columns[::-1]], npartitions=3), Y)


def test_rows_of_dask_are_reduced_while_they_are_few(monkeypatch):
    da = pytest.importorskip("dask.array")
    model = CTFARegressor(targets=FIXED).fit(X, Y)
    lazy = da.from_array(X, chunks=(170, X.shape[1])), da.from_array(Y, chunks=(170, Y.shape[1]))
    for mine, theirs in zip(model.reduce(*lazy), model.reduce(X, Y), strict=True):
        np.testing.assert_array_equal(mine[0], theirs[0])
        np.testing.assert_array_equal(mine[1], theirs[1])
    monkeypatch.setattr(collection, "ROWS_LIMIT", 1000)
    with pytest.raises(ValueError, match="reduce needs the rows themselves"):
        model.reduce(*lazy)


# -- A new year ------------------------------------------------------------------------------------


@pytest.mark.parametrize("regressor", [None, LinearRegression()])
@pytest.mark.parametrize("max_loss", ["auto", 1.2])
def test_a_year_is_added(regressor, max_loss):
    parts = [slice(0, 500), slice(500, 600)]
    model = CTFARegressor(regressor, targets=TargetAggregator(max_loss=max_loss))
    added = clone(model).partial_fit(X[:500], Y[:500]).partial_fit(X[500:], Y[500:])
    same_models(added, clone(model).partial_fit(pieces(parts, X, Y)))
    same_models(added, model.set_params(targets__cv=folds_of(parts, 10)).fit(X, Y))


def test_a_year_is_added_to_a_collection():
    da = pytest.importorskip("dask.array")
    lazy = da.from_array(X[:500], chunks=90), da.from_array(Y[:500])
    expected = CTFARegressor().partial_fit(X[:500], Y[:500])
    year = X[500:], Y[500:]
    same_models(CTFARegressor().partial_fit(*lazy).partial_fit(*year), expected.partial_fit(*year))


# -- A fit cannot be gone on with ------------------------------------------------------------------


def refused_after_fit(model, *data):
    """Whatever it was fitted to, with one sentence that says what to do, and no change."""
    what = rf"this {type(model).__name__} was made by fit.*Start with partial_fit in a new"
    refused(model, what, *data, verb="partial_fit")
    refused(model, what, iter([data]), verb="partial_fit")


@pytest.mark.more
@pytest.mark.parametrize("shape", [(100, 20), (250, 100), (2000, 4)])
@pytest.mark.parametrize("model", [CTFARegressor(), TargetAggregator(), FeatureAggregator()])
def test_no_fit_is_gone_on_with_whatever_the_shape(model, shape):
    inputs, targets = make_paper_synthetic(*shape, 6, random_state=0)
    data = inputs, targets[:, 0] if isinstance(model, FeatureAggregator) else targets
    refused_after_fit(clone(model).fit(*data), *data)
    again = clone(model).fit(*data)
    np.testing.assert_array_equal(clone(again).partial_fit(*data).labels_, again.labels_)


@pytest.mark.more
@pytest.mark.parametrize("library", ["dask", "dask frame", "strict", "pandas", "xarray"])
def test_no_fit_is_gone_on_with_whatever_the_container(library):
    if library == "strict":
        data = [pytest.importorskip("array_api_strict").asarray(table) for table in (X, Y)]
    elif library == "xarray":
        xarray = pytest.importorskip("xarray")
        data = [xarray.DataArray(table, dims=("row", "column")) for table in (X, Y)]
    elif library == "dask":
        da = pytest.importorskip("dask.array")
        data = [da.from_array(table, chunks=(90, table.shape[1])) for table in (X, Y)]
    else:
        pd = pytest.importorskip("pandas")
        data = [pd.DataFrame(X).add_prefix("x"), pd.DataFrame(Y).add_prefix("y")]
        if library == "dask frame":
            dd = pytest.importorskip("dask.dataframe")
            data = [dd.from_pandas(table, npartitions=3) for table in data]
    refused_after_fit(CTFARegressor().fit(*data), X, Y)
    refused_after_fit(CTFARegressor().fit(X, Y), *data)


@pytest.mark.more
@pytest.mark.parametrize(
    ("model", "known"),
    [
        (CTFARegressor(targets=TargetAggregator(cv=KFold(4))), {}),
        (CTFARegressor(targets=TargetAggregator(regressor=RIDGE)), {}),
        (CTFARegressor(DecisionTreeRegressor()), {}),
        (CTFARegressor(), {"groups": np.arange(600) // 50}),
        (TargetAggregator(), {"groups": np.arange(600) // 50}),
        (CTFARegressor(targets=FIXED), {"sample_weight": WEIGHTS, "confounds": MONTHS}),
    ],
)
def test_no_fit_is_gone_on_with_whatever_the_options(model, known):
    refused_after_fit(model.fit(X, Y, **known), X, Y)


def test_no_fit_with_gaps_is_gone_on_with():
    gappy = Y.copy()
    gappy[3, 2] = np.nan
    refused_after_fit(CTFARegressor().fit(X, gappy), X, Y)


def test_the_parts_of_a_model_cannot_be_gone_on_with():
    model = CTFARegressor(targets=FIXED).partial_fit(X, Y)
    refused_after_fit(model.targets_, X, Y)
    refused_after_fit(model.features_[0], X, Y[:, 0])


@pytest.mark.more
def test_a_fit_starts_anew_and_a_clone_has_no_sums():
    model = CTFARegressor().partial_fit(X[:300] * 2, Y[:300]).fit(X[300:], Y[300:])
    same_models(model, CTFARegressor().fit(X[300:], Y[300:]))
    refused_after_fit(model, X, Y)
    anew = clone(model).partial_fit(X[300:], Y[300:])
    same_models(anew, CTFARegressor().partial_fit(X[300:], Y[300:]))


@given(st.lists(st.integers(1, 30), max_size=12))
@settings(max_examples=examples(15), deadline=None)
def test_pieces_of_any_size_are_dealt_to_the_folds_they_should(steps):
    n_folds, at, following, there = 4, 200, 0, []
    model = TargetAggregator(cv=n_folds).partial_fit(X[:200], Y[:200], WEIGHTS[:200])
    for n_rows in steps:
        rows = np.arange(at, at + n_rows)
        fold = (following + np.arange(n_rows)) % n_folds
        if n_rows >= 2 * n_folds:
            fold = np.sort(np.arange(n_rows) % n_folds)
        else:
            following = (following + n_rows) % n_folds
        at += n_rows
        there.append((rows, fold))
        model.partial_fit(X[rows], Y[rows], WEIGHTS[rows])
    start = np.sort(np.arange(200) % n_folds)
    rows = np.concatenate([np.arange(200), *(rows for rows, _ in there)])
    splits = PredefinedSplit(np.concatenate([start, *(fold for _, fold in there)]))
    expected = TargetAggregator(cv=splits).fit(X[rows], Y[rows], WEIGHTS[rows])
    same_histories(model, expected)
    np.testing.assert_allclose(model.offsets_, expected.offsets_)


def refused(model, match, *data, verb="partial_fit", **known):
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match=match):
        getattr(model, verb)(*data, **known)
    assert pickle.dumps(model) == before


# -- Nothing is lost on bad input ------------------------------------------------------------------

NAN = X[:40].copy()
NAN[3, 2] = np.nan
GAPPY = Y[:40].copy()
GAPPY[5, 1] = np.nan


@pytest.mark.parametrize(
    ("match", "piece"),
    [
        ("NaN", (NAN, Y[:40])),
        ("missing values .first at row 5, target 'y1'", (X[:40], GAPPY)),
        ("expecting 12 features", (X[:40, 1:], Y[:40])),
        ("fit has seen 6 targets", (X[:40], Y[:40, :3])),
        ("39 rows|rows and y has 39", (X[:40], Y[:39])),
        ("sample_weight", (X[:40], Y[:40], np.ones(39))),
        ("negative", (X[:40], Y[:40], -np.ones(40))),
        ("zero for every row", (X[:40], Y[:40], np.zeros(40))),
        ("confounds has 2 columns", {"X": X[:40], "y": Y[:40], "confounds": MONTHS[:40, :2]}),
        ("target_weight differs", {"X": X[:40], "y": Y[:40], "target_weight": np.arange(1, 7)}),
        ("0 rows", (X[:0], Y[:0])),
        ("it needs 'X' and 'y'", {"X": X[:40]}),
        ("it needs 'X' and 'y'", {"X": X[:40], "y": Y[:40], "weight": 1}),
        ("a piece is", (X[:40],)),
        ("a piece is", X[:40]),
    ],
)
def test_a_refused_piece_changes_nothing_and_is_named(match, piece):
    model = CTFARegressor().partial_fit(X[:100], Y[:100])
    good = X[100:200], Y[100:200]
    refused(model, f"(?s)piece 1: .*({match})", [good, piece, good], verb="partial_fit")
    if isinstance(piece, tuple) and len(piece) > 1:
        refused(model, match, *piece, verb="partial_fit")


def test_other_names_are_refused():
    pd = pytest.importorskip("pandas")
    frame, named = pd.DataFrame(X).add_prefix("x"), pd.DataFrame(Y, columns=list("abcdef"))
    model = CTFARegressor().partial_fit(frame, named)
    refused(model, "feature names should match", frame.add_prefix("z"), named, verb="partial_fit")
    refused(model, "target names should match", frame, named[list("bacdef")], verb="partial_fit")


def test_a_chunk_with_a_hole_is_refused_where_it_is():
    da = pytest.importorskip("dask.array")
    model = CTFARegressor().partial_fit(X, Y)
    holed = da.from_array(NAN, chunks=(10, 12)), da.from_array(Y[:40], chunks=(10, 6))
    refused(model, "NaN at row 3, column 2", *holed, verb="partial_fit")
    gappy = da.from_array(X[:40], chunks=(10, 12)), da.from_array(GAPPY, chunks=(10, 6))
    refused(model, "missing values", *gappy, verb="partial_fit")


def test_an_iterator_that_fails_changes_nothing():
    def broken():
        yield X[:100], Y[:100]
        raise OSError("the disk is gone")

    model = CTFARegressor().partial_fit([(X[:100], Y[:100]), (X[100:], Y[100:])])
    before = pickle.dumps(model)
    with pytest.raises(OSError, match="the disk is gone") as caught:
        model.partial_fit(broken())
    assert "Piece 1 could not be read" in caught.value.__notes__[0]
    assert pickle.dumps(model) == before


def test_a_chunk_that_cannot_be_read_is_told_by_its_piece():
    da = pytest.importorskip("dask.array")

    def gone(block):
        raise OSError("the disk is gone")

    lazy = da.from_array(X[:40], chunks=(20, 12)).map_blocks(gone, dtype=float, meta=X[:0])
    model = CTFARegressor().partial_fit(X[:100], Y[:100])
    before = pickle.dumps(model)
    with pytest.raises(RuntimeError, match="the disk is gone") as caught:
        model.partial_fit([(X[:40], Y[:40]), (lazy, Y[:40])])
    assert any("This was piece 1; nothing" in note for note in caught.value.__notes__)
    assert pickle.dumps(model) == before


def test_a_stream_may_begin_with_fewer_rows_than_least_squares_needs():
    model = CTFARegressor(targets=FIXED)
    refused(model, "X has 1 rows that count", X[:1], Y[:1], verb="partial_fit")
    model.partial_fit(X[:10], Y[:10])
    folds = clone(FIXED).set_params(cv=folds_of([slice(0, 10), slice(10, 600)], 10))
    same_models(model.partial_fit(X[10:], Y[10:]), CTFARegressor(targets=folds).fit(X, Y))


def test_a_stream_of_least_squares_that_begins_with_too_few_rows_is_told_so():
    model = CTFARegressor(LinearRegression(), targets=FIXED, head="mean")
    with pytest.warns(RuntimeWarning, match="degrees of freedom.*Ridge regression"):
        model.partial_fit(X[:10], Y[:10])
    same_models(model.partial_fit(X[10:], Y[10:]), clone(model).fit(X, Y))


@pytest.mark.parametrize("n_rows", [20, 21, 22, 24])
@pytest.mark.parametrize("max_loss", [1.2, "auto"])
def test_pieces_judged_by_ridge_regression_decide_as_rows_do(n_rows, max_loss):
    """Where rows hardly outnumber coefficients, also where they are stood in for."""
    model = TargetAggregator(max_loss=max_loss, cv=2)
    few = X[:n_rows], Y[:n_rows]
    same_histories(clone(model).partial_fit(*few), clone(model).fit(*few))
    same_models(
        CTFARegressor(targets=clone(model)).partial_fit(*few),
        CTFARegressor(targets=clone(model)).fit(*few),
    )


def all_of_them(targets):
    return np.ones((len(targets), len(targets)))


@pytest.mark.parametrize(
    ("model", "match"),
    [
        (CTFARegressor(DecisionTreeRegressor()), "DecisionTreeRegressor.* learns from the rows"),
        (CTFARegressor(targets=TargetAggregator(regressor=RIDGE)), r"RidgeCV\(\).* row by row"),
        (TargetAggregator(regressor=RIDGE), r"RidgeCV\(\).* row by row"),
        (TargetAggregator(connectivity=all_of_them), "connectivity"),
        (TargetAggregator(cv=KFold(5)), "rows that are still to come"),
        (TargetAggregator(cv=None), "rows that are still to come"),
        (TargetAggregator(cv=1), "two or more"),
        (CTFARegressor(features=clone(FOLDED).set_params(cv=KFold(3))), "still to come"),
        (CTFARegressor(features=clone(FOLDED).set_params(cv=400)), "cannot split 600 rows"),
    ],
)
def test_what_sums_cannot_answer_is_refused(model, match):
    refused(model, match, X, Y, verb="partial_fit")


def test_a_matrix_of_neighbours_is_fine():
    ring = np.roll(np.eye(6), 1, axis=0)
    model = TargetAggregator(connectivity=ring + ring.T)
    same_histories(clone(model).partial_fit(X, Y), model.fit(X, Y))


def test_what_is_no_piece_is_said():
    model = CTFARegressor()
    refused(model, "the target y is None", X, verb="partial_fit")
    refused(model, "gave none", [], verb="partial_fit")
    refused(model, "put it into each", [(X, Y)], None, WEIGHTS, verb="partial_fit")
    refused(model, "the target y is None", {"X": X, "y": Y}, verb="partial_fit")
    refused(FeatureAggregator(), "y has 6 columns", X, Y, verb="partial_fit")


def test_folds_cannot_be_changed_on_the_way():
    model = TargetAggregator(cv=5).partial_fit(X[:300], Y[:300])
    refused(model.set_params(cv=4), "begun with 5 folds", X, Y, verb="partial_fit")
    model.set_params(cv=5).partial_fit(X[300:591], Y[300:591])
    limited = model.set_params(max_loss=1.2)  # needs none
    same_histories(limited.partial_fit(X[591:], Y[591:]), clone(FIXED).fit(X, Y))
    begun = TargetAggregator(max_loss=1.2).partial_fit(X, Y).set_params(max_loss="auto")
    refused(begun, "begun with no folds", X, Y, verb="partial_fit")


def test_a_search_takes_no_pieces():
    assert not hasattr(CTFARegressorCV(), "partial_fit")
    with pytest.raises(AttributeError, match="folds of its search hold the rows"):
        CTFARegressorCV().partial_fit(X, Y)


# -- Persistence -----------------------------------------------------------------------------------


def through_a_file(model, folder):
    persistence.save(model, folder / "model.ctfa")
    return persistence.load(folder / "model.ctfa")


def through_joblib(model, folder):
    joblib.dump(model, folder / "model.joblib")
    return joblib.load(folder / "model.joblib")


@pytest.mark.more
@pytest.mark.parametrize(
    "again", [through_a_file, through_joblib, lambda m, _: pickle.loads(pickle.dumps(m))]
)
@pytest.mark.parametrize(
    ("model", "targets"),
    [
        (CTFARegressor(), Y),
        (CTFARegressor(targets=FIXED, features=FOLDED), Y),
        (TargetAggregator(), Y),
        (FeatureAggregator(), Y[:, 0]),
        (clone(FOLDED), Y[:, 0]),
    ],
    ids=["auto", "fixed", "targets", "features", "folds"],
)
def test_a_saved_model_goes_on(model, targets, again, tmp_path):
    started = clone(model).partial_fit([(X[:300], targets[:300]), (X[300:305], targets[300:305])])
    loaded = again(started, tmp_path)
    for one in (started, loaded):
        one.partial_fit(X[305:], targets[305:])
    same_histories(started, loaded)
    np.testing.assert_array_equal(started.history_.loss, loaded.history_.loss)


def test_a_saved_model_of_frames_goes_on(tmp_path):
    pd = pytest.importorskip("pandas")
    frame, named = pd.DataFrame(X).add_prefix("x"), pd.DataFrame(Y, columns=list("abcdef"))
    loaded = through_a_file(CTFARegressor().partial_fit(frame[:500], named[:500]), tmp_path)
    loaded.partial_fit(frame[500:], named[500:])
    expected = CTFARegressor().partial_fit(X[:500], Y[:500]).partial_fit(X[500:], Y[500:])
    assert loaded.partition_ == expected.partition_
    np.testing.assert_allclose(loaded.predict(frame), expected.predict(X))
    assert list(loaded.predict(frame).columns) == list("abcdef")


@pytest.mark.parametrize("again", [through_a_file, lambda m, _: pickle.loads(pickle.dumps(m))])
def test_no_saved_fit_is_gone_on_with(again, tmp_path):
    refused_after_fit(again(CTFARegressor().fit(X, Y), tmp_path), X, Y)


@pytest.mark.more
@pytest.mark.parametrize(
    "change",
    [
        {"widths": (0, 11, 7)},
        {"folds": {"limit": 3}},
        {"folds": {"limit": 0}},
        {"classes": {99: Summary.of(np.ones((2, 18)))}},
        {"classes": {0: Summary.of(np.ones((2, 5)))}},
        {"next_fold": ()},
        {"classes": {0: Summary(4, 18, np.ones((3, 18)), None, None)}},
        {"classes": {0: Summary.of_moments(Moments(0, 0.0, np.ones(18), np.ones((18, 18))))}},
        {"classes": {0: Summary.of_moments(Moments(9, 9.0, np.ones(18), np.ones((3, 3))))}},
    ],
)
def test_sums_in_a_file_must_fit_together(change, tmp_path):
    model = CTFARegressor().partial_fit(X, Y)
    model._sums = replace(model._sums, **change)
    persistence.save(model, tmp_path / "model.ctfa")
    with pytest.raises(persistence.PersistenceError):
        persistence.load(tmp_path / "model.ctfa")


def test_sums_do_not_change_once_they_are_made():
    model = CTFARegressor().partial_fit(X[:300], Y[:300])
    kept = model._sums
    assert isinstance(kept, RunningSums)
    before = pickle.dumps(kept)
    model.partial_fit(X[300:], Y[300:])
    assert pickle.dumps(kept) == before
    assert LinearRegression in {type(one) for one in model.regressors_}
