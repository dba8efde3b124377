"""Tasks with rows of their own, fitted to Dask's collections and arrays of other libraries."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import GroupKFold, KFold, PredefinedSplit

from ctfa import FeatureAggregator, PooledCTFARegressor, TargetAggregator
from generated import examples
from test_stand_ins_pooled import assert_alike, problem

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")


def cut(at, *tables):
    """Dask arrays of the same chunks of rows."""
    bounds = [0, *sorted({place % (len(tables[0]) - 1) + 1 for place in at}), len(tables[0])]
    sizes = tuple(np.diff(bounds).tolist())
    return [da.from_array(table, chunks=(sizes, *table.shape[1:])) for table in tables]


cuts = st.lists(st.integers(0, 10_000), max_size=6)


@settings(max_examples=examples(12), deadline=None)
@given(
    at=cuts,
    seed=st.integers(0, 2**16),
    head=st.sampled_from(["mean", "levels"]),
    weighted=st.booleans(),
    features=st.sampled_from([None, FeatureAggregator()]),
)
def test_any_chunks_are_decided_as_rows_in_memory(at, seed, head, weighted, features):
    X, y, index, fold = problem(seed, 5, 150, n_features=3)
    model = PooledCTFARegressor(
        targets=TargetAggregator(cv=PredefinedSplit(fold)), head=head, features=features
    )
    weights = np.random.default_rng(seed).integers(0, 4, y.size).astype(float) if weighted else None
    if weighted:
        weights[np.unique(index, return_index=True)[1]] += 1.0  # of every task some rows count
    own = None if weights is None else cut(at, weights)[0]
    plain = clone(model).fit(X, y, index, weights)
    lazy = clone(model).fit(*cut(at, X, y, index), own)
    assert_alike(plain, lazy, X, index)
    answer = lazy.predict(*cut(at, X, index))
    assert type(answer) is da.Array
    np.testing.assert_allclose(answer.compute(), plain.predict(X, index), rtol=1e-8, atol=1e-8)
    score = lazy.score(*cut(at, X, y, index), own)
    assert score == pytest.approx(plain.score(X, y, index, weights), rel=1e-8)


@pytest.mark.parametrize("level", [0.3, 1e3, 1e8])
@pytest.mark.parametrize("head", ["mean", "levels"])
def test_the_level_of_inputs_that_tasks_have_constant_plays_no_part_in_chunks(head, level):
    X, y, index, _ = problem(7, 6, 120, n_features=3)
    of_task = np.random.default_rng(0).integers(0, 9, 6)[index]
    one, two = (np.column_stack((X, of_task + at, np.full(y.size, at))) for at in (0.0, level))
    model = PooledCTFARegressor(targets=TargetAggregator(max_loss=1.5), head=head)
    plain = clone(model).fit(one, y, index)
    chunks = clone(model).fit(*cut([100, 300], two, y, index))
    pieces = clone(model).partial_fit([(two[k::3], y[k::3], index[k::3]) for k in range(3)])
    for other in (chunks, pieces):
        np.testing.assert_array_equal(other.labels_, plain.labels_)
        np.testing.assert_allclose(other.trust_, plain.trust_, rtol=1e-6)
        # An input at 1e8 is itself given to 1.5e-8.
        predicted = other.predict(two, index), plain.predict(one, index)
        np.testing.assert_allclose(*predicted, rtol=1e-5, atol=1e-8)


@pytest.mark.more
@settings(max_examples=examples(20), deadline=None)
@given(
    at=cuts,
    seed=st.integers(0, 2**16),
    longest=st.sampled_from([8, 100]),
    head=st.sampled_from(["mean", "levels"]),
    weighted=st.booleans(),
)
def test_a_number_of_folds_deals_rows_in_any_chunks_as_in_memory(at, seed, longest, head, weighted):
    X, y, index, _ = problem(seed, 5, longest, n_features=2)
    tables = [X, y, index]
    if weighted:
        tables.append(np.random.default_rng(seed).integers(0, 3, y.size).astype(float))
        tables[3][np.unique(index, return_index=True)[1]] += 1.0
    plain = PooledCTFARegressor(head=head).fit(*tables)
    assert_alike(plain, PooledCTFARegressor(head=head).fit(*cut(at, *tables)), X, index)


def test_chunks_are_read_once_where_rows_are_dealt():
    X, y, index, _ = problem(3, 4, 60)
    table, seen = np.column_stack((X, index)), []

    def note(block):
        seen.append(len(block))
        return block

    lazy = da.from_array(table, chunks=(40, -1)).map_blocks(note, meta=np.empty((0, 0)))
    seen.clear()
    PooledCTFARegressor().fit(lazy, y, -1)
    assert sum(seen) == len(y)


@pytest.mark.more
@pytest.mark.parametrize("cv", [KFold(4, shuffle=True, random_state=0), "lists", "groups", None])
def test_folds_of_any_splitter_choose_the_limit(cv):
    X, y, index, fold = problem(1)
    groups = None
    if cv == "lists":
        cv = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(5)]
    elif cv == "groups":
        cv, groups = GroupKFold(5), fold
    model = PooledCTFARegressor(targets=TargetAggregator(cv=cv))
    plain = clone(model).fit(X, y, index, groups=groups)
    lazy = clone(model).fit(*cut([200, 500], X, y, index), groups=groups)
    assert_alike(plain, lazy, X, index)


@pytest.mark.more
@pytest.mark.parametrize("ids", ["names", "numbers", "categories", "dates"])
def test_ids_are_a_column_of_a_frame_in_partitions(ids):
    X, y, index, fold = problem(2)
    schools = {
        "names": np.array([f"school {k}" for k in range(8)], dtype=object),
        "numbers": np.arange(10, 18),
        "categories": pd.Categorical(list("hgfedcba")),
        "dates": pd.date_range("2000", periods=8).to_numpy(),
    }[ids]
    frame = pd.DataFrame(X, columns=list("abcd")).assign(school=schools[index])
    model = PooledCTFARegressor(targets=TargetAggregator(cv=PredefinedSplit(fold)))
    plain = clone(model).fit(frame, y, "school")
    lazy = clone(model).fit(
        dd.from_pandas(frame, npartitions=5), dd.from_pandas(pd.Series(y), npartitions=5), "school"
    )
    assert list(lazy.tasks_) == list(plain.tasks_)
    assert list(lazy.feature_names_in_) == list("abcd")
    np.testing.assert_array_equal(lazy.labels_, plain.labels_)
    answer = lazy.predict(dd.from_pandas(frame, npartitions=3))
    np.testing.assert_allclose(answer.compute(), plain.predict(frame), rtol=1e-8)
    np.testing.assert_allclose(lazy.predict(frame), plain.predict(frame), rtol=1e-8)


def test_ids_are_a_column_of_an_array_in_chunks():
    X, y, index, fold = problem(3)
    table = np.column_stack((X[:, :2], index, X[:, 2:]))
    model = PooledCTFARegressor(targets=TargetAggregator(cv=PredefinedSplit(fold)))
    plain = clone(model).fit(table, y, 2)
    lazy = clone(model).fit(*cut([300], table, y), -3)
    np.testing.assert_array_equal(lazy.labels_, plain.labels_)
    answer = lazy.predict(cut([100], table)[0])
    np.testing.assert_allclose(answer.compute(), plain.predict(table), rtol=1e-8)
    with pytest.raises(ValueError, match="not a column of X"):
        clone(model).fit(*cut([300], table, y), 9)


def test_ids_in_memory_go_with_frames_whose_rows_nobody_counted():
    X, y, index, _ = problem(4)
    frame = dd.from_pandas(pd.DataFrame(X), npartitions=4)
    model = PooledCTFARegressor(targets=TargetAggregator(max_loss=1.5))
    lazy = clone(model).fit(frame, dd.from_pandas(pd.Series(y), npartitions=4), index)
    plain = clone(model).fit(X, y, list(index))
    assert_alike(plain, lazy, X, index)
    answer = lazy.predict(dd.from_pandas(pd.DataFrame(X), npartitions=2), list(index))
    np.testing.assert_allclose(answer.compute(), plain.predict(X, index), rtol=1e-8)


@pytest.mark.parametrize("unseen", ["global", "nearest"])
def test_strangers_in_chunks_are_predicted_as_in_memory(unseen):
    X, y, index, _ = problem(5)
    X[:, 3] = index
    model = PooledCTFARegressor(targets=TargetAggregator(max_loss=1.5), unseen=unseen)
    plain, lazy = clone(model).fit(X, y, index), clone(model).fit(*cut([70, 600], X, y, index))
    ids = np.where(np.arange(y.size) % 3 == 0, 100 + index % 4, index)
    answer = lazy.predict(*cut([10, 250], X, ids))
    np.testing.assert_allclose(answer.compute(), plain.predict(X, ids), rtol=1e-8)
    score = lazy.score(*cut([10, 250], X, y, ids))
    assert score == pytest.approx(plain.score(X, y, ids), rel=1e-8)


def test_strangers_are_refused_when_their_chunk_is_computed():
    X, y, index, _ = problem(5)
    lazy = PooledCTFARegressor(targets=TargetAggregator(max_loss=1.5))
    lazy.fit(*cut([70], X, y, index))
    answer = lazy.predict(*cut([10], X, np.where(index == 3, 99, index)))
    with pytest.raises(ValueError, match="tasks that fit has not seen: 99"):
        answer.compute()


@pytest.mark.more
@pytest.mark.parametrize(
    "options",
    [
        {"regressor": RandomForestRegressor(5, max_depth=3, random_state=0)},
        {"features": FeatureAggregator("r2", max_loss=1e-3, cv=5)},
    ],
    ids=["forest", "folds for features"],
)
def test_what_sums_cannot_answer_is_fitted_to_the_rows(options):
    """And then an integer cv deals them as in memory."""
    X, y, index, _ = problem(6)
    plain = PooledCTFARegressor(**options).fit(X, y, index)
    lazy = PooledCTFARegressor(**options).fit(*cut([70, 600], X, y, index))
    np.testing.assert_array_equal(lazy.labels_, plain.labels_)
    np.testing.assert_array_equal(lazy.predict(X, index), plain.predict(X, index))
    answer = lazy.predict(*cut([10], X, index))
    np.testing.assert_allclose(answer.compute(), plain.predict(X, index), rtol=1e-12)


@pytest.mark.parametrize("library", ["array_api_strict", "torch"])
def test_arrays_of_other_libraries_are_decided_alike(library):
    space = pytest.importorskip(library)
    pytest.importorskip("array_api_compat")
    X, y, index, _ = problem(7)
    plain = PooledCTFARegressor(head="levels").fit(X, y, index)
    other = PooledCTFARegressor(head="levels")
    other.fit(space.asarray(X), space.asarray(y), space.asarray(index))
    assert_alike(plain, other, X, index)
    answer = other.predict(space.asarray(X), space.asarray(index))
    assert type(answer) is type(space.asarray(X))
    np.testing.assert_array_equal(np.asarray(answer), plain.predict(X, index))


def test_bad_chunks_get_the_errors_of_bad_rows():
    X, y, index, _ = problem(8)
    holes = y.copy()
    holes[700] = np.nan
    model = PooledCTFARegressor()
    with pytest.raises(ValueError, match=r"Input y contains NaN .* at row 700"):
        model.fit(*cut([300], X, holes, index))
    with pytest.raises(ValueError, match="task of row 700 is missing"):
        model.fit(*cut([300], X, y, np.where(np.isnan(holes), np.nan, index)))
    with pytest.raises(ValueError, match="single id"):
        model.fit(*cut([300], X, y, np.zeros(y.size)))
    with pytest.raises(ValueError, match="one target"):
        model.fit(*cut([300], X, np.column_stack((y, y)), index))
    with pytest.raises(TypeError, match="the task of each row"):
        model.fit(*cut([300], X, y))
    with pytest.raises(ValueError, match="gives no folds"):
        PooledCTFARegressor(targets=TargetAggregator(cv=1)).fit(*cut([300], X, y, index))
    with pytest.raises(ValueError, match="weight"):
        model.fit(*cut([300], X, y, index, -np.ones(y.size)))
    model.fit(*cut([300], X, y, index))
    with pytest.raises(ValueError, match="features"):
        model.predict(*cut([300], X[:, :2], index))


def test_chunks_without_weight_do_not_count():
    X, y, index, fold = problem(11)
    weights = np.ones(y.size)
    weights[100:150] = 0.0
    model = PooledCTFARegressor(targets=TargetAggregator(cv=PredefinedSplit(fold)))
    plain = clone(model).fit(X, y, index, weights)
    lazy = clone(model).fit(*cut([99, 149], X, y, index, weights))
    assert_alike(plain, lazy, X, index)
    with pytest.raises(ValueError, match="0 rows that count"):
        model.set_params(targets__max_loss=1.5).fit(*cut([99], X, y, index, np.zeros(y.size)))


def test_sums_are_doubted_where_inputs_depend_on_each_other_within_tasks():
    X, y, index, _ = problem(9)
    X[:, 2] = index  # says nothing within tasks, which is no matter of digits
    model = PooledCTFARegressor(targets=TargetAggregator(max_loss=1.5))
    model.fit(*cut([300], X, y, index))
    X[:, 1] = X[:, 0] + 1e-7 * X[:, 3] + index
    with pytest.warns(RuntimeWarning, match="depend on each other"):
        model.fit(*cut([300], X, y, index))


@pytest.mark.more
def test_other_processes_sum_up_and_predict():
    dask = pytest.importorskip("dask")
    X, y, index, fold = problem(10)
    model = PooledCTFARegressor(targets=TargetAggregator(cv=PredefinedSplit(fold)))
    plain = clone(model).fit(X, y, index)
    with dask.config.set(scheduler="processes", num_workers=2):
        lazy = clone(model).fit(*cut([300], X, y, index))
        answer = lazy.predict(*cut([300], X, index)).compute()
    assert_alike(plain, lazy, X, index)
    np.testing.assert_allclose(answer, plain.predict(X, index), rtol=1e-8)
