"""Targets with inputs of their own, fitted to Dask's collections and arrays of other libraries."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.model_selection import KFold
from sklearn.tree import DecisionTreeRegressor

from ctfa import FeatureAggregator, MultiInputCTFARegressor, TargetAggregator, target_path
from ctfa._reading.sums import collection
from generated import examples
from problems import RIDGE, averaged
from test_stand_ins_own import assert_alike, problem

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")


def in_chunks(sizes, *tables):
    """Dask arrays of these chunks of rows."""
    return [da.from_array(t, chunks=(sizes, *t.shape[1:])) for t in tables]


def chunkings(n_rows):
    """Ways to cut so many rows."""
    cuts = st.lists(st.integers(1, n_rows - 1), unique=True, max_size=8)
    return cuts.map(lambda at: tuple(np.diff([0, *sorted(at), n_rows]).tolist()))


@settings(max_examples=examples(12), deadline=None)
@given(
    sizes=chunkings(500),
    seed=st.integers(0, 2**16),
    aggregate=st.sampled_from(["mean", "pool", "auto"]),
    head=st.sampled_from(["mean", "levels"]),
    weighted=st.booleans(),
)
def test_any_chunks_are_decided_as_rows_in_memory(sizes, seed, aggregate, head, weighted):
    X, Y, layout = problem(seed, 500, n_tasks=4, n_slots=2, lacking=False)
    plain = MultiInputCTFARegressor(layout, aggregate=aggregate, head=head)
    lazy = clone(plain)
    weights = np.random.default_rng(seed).uniform(0.5, 2.0, 500) if weighted else None
    own = None if weights is None else in_chunks(sizes, weights)[0]
    assert_alike(plain.fit(X, Y, weights), lazy.fit(*in_chunks(sizes, X, Y), own), X)
    answer = lazy.predict(in_chunks(sizes, X)[0])
    assert da.core.Array is type(answer)
    np.testing.assert_allclose(answer.compute(), plain.predict(X), rtol=1e-8, atol=1e-8)
    score = lazy.score(*in_chunks(sizes, X, Y), own)
    assert score == pytest.approx(plain.score(X, Y, weights), rel=1e-8)


@pytest.mark.parametrize("cv", [KFold(5, shuffle=True, random_state=0), KFold(4)])
def test_folds_of_any_splitter_choose_limits_and_features(cv):
    X, Y, layout = problem(1)
    model = MultiInputCTFARegressor(
        layout,
        targets=TargetAggregator(cv=cv),
        features=FeatureAggregator("r2", max_loss=1e-3, cv=KFold(3, shuffle=True, random_state=1)),
    )
    plain = clone(model).fit(X, Y)
    assert_alike(plain, model.fit(*in_chunks((200, 350, 350), X, Y)), X)


def test_frames_in_partitions_keep_names_and_layouts_by_name():
    X, Y, layout = problem(2, lacking=True)
    names = [f"slot{k % 3}_{k // 3}" for k in range(X.shape[1])]
    frame, targets = pd.DataFrame(X, columns=names), pd.DataFrame(Y).add_prefix("basin ")
    named = np.where(layout < 0, None, np.array(names, dtype=object)[layout])
    plain = MultiInputCTFARegressor(named).fit(frame, targets)
    lazy = MultiInputCTFARegressor(named).fit(
        dd.from_pandas(frame, npartitions=7), dd.from_pandas(targets, npartitions=7)
    )
    assert_alike(plain, lazy, frame)
    assert list(lazy.feature_names_in_) == names
    answer = lazy.predict(dd.from_pandas(frame, npartitions=3))
    pd.testing.assert_frame_equal(answer.compute(), plain.predict(frame), rtol=1e-8)


@pytest.mark.parametrize("library", ["array_api_strict", "torch"])
def test_arrays_of_other_libraries_are_decided_alike(library):
    space = pytest.importorskip(library)
    pytest.importorskip("array_api_compat")
    X, Y, layout = problem(3)
    plain = MultiInputCTFARegressor(layout, head="levels").fit(X, Y)
    other = MultiInputCTFARegressor(layout, head="levels")
    other.fit(space.asarray(X), space.asarray(Y))
    assert_alike(plain, other, X)
    answer = other.predict(space.asarray(X))
    assert type(answer) is type(space.asarray(X))
    np.testing.assert_allclose(np.asarray(answer), plain.predict(X), rtol=1e-8)


def test_confounds_and_weights_of_targets_come_in_chunks_too():
    X, Y, layout = problem(4)
    months = np.eye(12)[np.arange(len(X)) % 12]
    weight = np.linspace(0.5, 2.0, Y.shape[1])
    extra = {"target_weight": weight}
    plain = MultiInputCTFARegressor(layout).fit(X, Y, confounds=months, **extra)
    lazy = MultiInputCTFARegressor(layout).fit(
        *in_chunks((450, 450), X, Y), confounds=in_chunks((100, 800), months)[0], **extra
    )
    assert_alike(plain, lazy, X, months)
    answer = lazy.predict(in_chunks((900,), X)[0], confounds=in_chunks((300, 600), months)[0])
    np.testing.assert_allclose(answer.compute(), plain.predict(X, confounds=months), rtol=1e-8)


@pytest.mark.more
@pytest.mark.parametrize("features", [None, FeatureAggregator()])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_regressor_that_is_no_least_squares_gets_the_means_of_its_group(features, weighted):
    X, Y, layout = problem(5)
    tree = DecisionTreeRegressor(max_depth=3, random_state=0)
    weights = np.random.default_rng(1).integers(0, 3, len(X)).astype(float) if weighted else None
    plain = MultiInputCTFARegressor(layout, tree, features=features).fit(X, Y, weights)
    lazy = MultiInputCTFARegressor(layout, tree, features=features)
    lazy.fit(*in_chunks((100, 800), X, Y), None if weights is None else da.from_array(weights))
    np.testing.assert_array_equal(plain.labels_, lazy.labels_)
    # A threshold may fall on either side of a row that rounding has moved.
    differ = np.abs(lazy.predict(X) - plain.predict(X)) > 1e-8
    assert differ.mean() < 0.01


@pytest.mark.more
@pytest.mark.parametrize(
    "options",
    [
        {"targets": TargetAggregator(regressor=RIDGE)},
        {"aggregate": "pool", "features": FeatureAggregator("r2", max_loss=1e-3, cv=5)},
        {"aggregate": "pool", "regressor": DecisionTreeRegressor(max_depth=3, random_state=0)},
        {"head": "levels", "regressor": DecisionTreeRegressor(max_depth=3, random_state=0)},
    ],
    ids=["ridge", "folds for shared slots", "shared tree", "shrunk tree"],
)
def test_what_sums_cannot_answer_is_fitted_to_the_rows(options):
    X, Y, layout = problem(6)
    plain = MultiInputCTFARegressor(layout, **options).fit(X, Y)
    lazy = MultiInputCTFARegressor(layout, **options).fit(*in_chunks((300, 600), X, Y))
    assert_alike(plain, lazy, X)
    np.testing.assert_array_equal(lazy.predict(X), plain.predict(X))


def test_missing_values_in_chunks_are_fitted_as_rows():
    X, Y, layout = problem(7)
    X, Y = X.copy(), Y.copy()
    X[::7, 3], Y[::5, 2] = np.nan, np.nan
    plain = averaged(layout).fit(X, Y)
    lazy = averaged(layout).fit(*in_chunks((300, 600), X, Y))
    np.testing.assert_array_equal(plain.labels_, lazy.labels_)
    np.testing.assert_array_equal(lazy.predict(X), plain.predict(X))


def test_infinity_is_refused_where_it_is():
    X, Y, layout = problem(8)
    X = X.copy()
    X[700, 3] = np.inf
    with pytest.raises(ValueError, match="infinity at row 700, column 3"):
        MultiInputCTFARegressor(layout).fit(*in_chunks((300, 600), X, Y))


def test_tables_of_more_columns_than_rows_are_gathered(monkeypatch):
    """Sums of their products would be larger than they are."""
    from ctfa._reading.sums import collection

    X, Y, layout = problem(9, n=25, n_tasks=6, n_slots=4)
    assert sum((X.shape[1], Y.shape[1])) > len(X)
    plain = MultiInputCTFARegressor(layout).fit(X, Y)
    monkeypatch.setattr(collection, "SUMS_LIMIT", 1000)
    lazy = MultiInputCTFARegressor(layout).fit(*in_chunks((10, 15), X, Y))
    assert_alike(plain, lazy, X)


@pytest.mark.parametrize("options", [{}, {"aggregate": "pool"}, {"regressor": RIDGE}])
def test_paths_are_those_of_the_rows(options):
    X, Y, layout = problem(10)
    limits = [-1.0, 0.5, 1.5, 5.0, np.inf]
    plain = target_path(X, Y, limits, layout=layout, **options)
    lazy = target_path(*in_chunks((300, 600), X, Y), limits, layout=layout, **options)
    assert len({point.n_groups for point in plain}) > 2
    for one, two in zip(plain, lazy, strict=True):
        np.testing.assert_array_equal(one.partition.labels, two.partition.labels)


def test_sums_are_doubted_where_inputs_of_one_target_depend_on_each_other(monkeypatch):
    """Neighbours may well have the same rain: they are never in one regression as two inputs."""
    X, Y, layout = problem(11)
    X[:, 3] = X[:, 0]
    model = MultiInputCTFARegressor(layout, targets=TargetAggregator(max_loss=1.5))
    model.fit(*in_chunks((300, 600), X, Y))
    X[:, 1] = X[:, 0] + 1e-7 * X[:, 5]
    monkeypatch.setattr(collection, "DOUBTS_LIMIT", 1000)
    with pytest.warns(RuntimeWarning, match="depend on each other"):
        model.fit(*in_chunks((300, 600), X, Y))


def test_inputs_that_never_change_are_no_inputs():
    X, Y, layout = problem(12)
    X[:, 4] = 0.1
    plain = MultiInputCTFARegressor(layout).fit(X, Y)
    assert_alike(plain, MultiInputCTFARegressor(layout).fit(*in_chunks((7, 200, 693), X, Y)), X)
    Y[:, 2] = 0.1
    with pytest.raises(ValueError, match="constant"):
        MultiInputCTFARegressor(layout).fit(*in_chunks((7, 200, 693), X, Y))


def test_layouts_are_checked_before_a_chunk_is_read():
    X, Y, layout = problem(13)

    def fail(block):
        raise AssertionError("a chunk was read")

    unread = da.from_array(X, chunks=(300, X.shape[1])).map_blocks(fail, meta=np.empty((0, 0)))
    with pytest.raises(ValueError, match="layout names column 99"):
        MultiInputCTFARegressor(layout + 79).fit(unread, Y)


@pytest.mark.more
def test_held_out_rows_are_asked_of_chunks_too():
    X, Y, layout = problem(14, n=200, n_tasks=4)
    lazy = MultiInputCTFARegressor(layout).fit(*in_chunks((50, 150), X, Y))
    plain = MultiInputCTFARegressor(layout).fit(X, Y)
    one, two = plain.compare(X, Y, cv=3), lazy.compare(*in_chunks((50, 150), X, Y), cv=3)
    np.testing.assert_allclose(two.gain, one.gain, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("bad", "said"), [(-1.0, "negative"), (np.nan, "NaN")])
@pytest.mark.parametrize("limit", [1.5, "auto"])
def test_weights_in_chunks_are_checked_as_in_memory(bad, said, limit):
    X, Y, layout = problem(15)
    weights = np.ones(len(X))
    weights[500] = bad
    model = MultiInputCTFARegressor(layout, targets=TargetAggregator(max_loss=limit))
    with pytest.raises(ValueError, match=f"sample_weight contains {said}"):
        model.fit(*in_chunks((300, 600), X, Y, weights))
