"""Data in chunks, or of other array libraries, that cannot be used: refused as rows in memory."""

import numpy as np
import pytest

from ctfa import CTFARegressor, FeatureAggregator, PooledCTFARegressor, TargetAggregator
from ctfa._errors import InputError
from ctfa.datasets import make_paper_synthetic

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
strict = pytest.importorskip("array_api_strict")


def paper(n_samples=200):
    return make_paper_synthetic(n_samples, n_features=5, n_targets=4, random_state=0)


def lazily(*tables, rows=50):
    return [da.from_array(table, chunks=(rows, *table.shape[1:])) for table in tables]


def uncounted(table, rows=50):
    """A Dask array that does not know how many rows its chunks have."""
    lazy = da.from_array(table, chunks=(rows, *table.shape[1:]))
    return lazy[da.from_array(np.ones(len(table), dtype=bool), chunks=rows)]


# -- Masks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["X", "y", "sample_weight"])
@pytest.mark.parametrize("method", ["fit", "partial_fit", "score"])
def test_masked_values_of_chunks_are_refused(method, what):
    X, Y = paper()
    model = CTFARegressor().partial_fit(X, Y)
    given = dict(zip(("X", "y", "sample_weight"), lazily(X, Y, np.arange(200.0)), strict=True))
    given[what] = da.ma.masked_greater(given[what], 1)
    with pytest.raises(ValueError, match=f"{what} is an array with [0-9]+ masked values: fill"):
        getattr(model, method)(*given.values())


def test_a_mask_that_only_the_chunks_know_of_is_refused_too():
    X, Y = lazily(*paper())
    hidden = Y.map_blocks(lambda block: np.ma.masked_greater(block, 1), meta=np.empty((0, 0)))
    with pytest.raises(ValueError, match=r"y is an array with [0-9]+ masked values"):
        TargetAggregator(max_loss=1.0).fit(X, hidden)
    model = CTFARegressor().fit(X, Y)
    with pytest.raises(ValueError, match=r"X is an array with [0-9]+ masked values"):
        model.predict(da.ma.masked_greater(X, 1)).compute()
    np.testing.assert_allclose(
        model.predict(da.ma.masked_greater(X, 1e9)).compute(), model.predict(X).compute()
    )


def test_a_mask_of_an_array_in_memory_is_said_of_its_table():
    X, Y = paper()
    with pytest.raises(ValueError, match=r"y is an array with [0-9]+ masked values"):
        CTFARegressor().fit(*lazily(X), np.ma.masked_greater(Y, 1))


def test_masks_of_weights_in_memory_and_of_tasks_are_refused():
    X, Y = paper()
    weights = np.ma.masked_greater(np.arange(200.0), 150)
    for given in ((X, Y), [strict.asarray(table) for table in (X, Y)]):
        with pytest.raises(ValueError, match="sample_weight is an array with 49 masked values"):
            CTFARegressor().fit(*given, weights)
    tasks = da.ma.masked_equal(da.from_array(np.arange(200) % 4, chunks=50), 3)
    with pytest.raises(ValueError, match=r"tasks is an array with [0-9]+ masked values"):
        PooledCTFARegressor().fit(*lazily(X, Y[:, 0]), tasks)


# -- Chunks that fail ------------------------------------------------------------------------------


def fails(block):
    raise ValueError("disk on fire")


@pytest.mark.parametrize("whole", [True, False])
def test_a_chunk_that_fails_is_no_fault_of_the_data(whole):
    X, Y = paper()
    lazy = lazily(X)[0] if whole else uncounted(X)
    broken = lazy.map_blocks(fails, dtype=float, meta=np.empty((0, 0)))
    for model in (CTFARegressor(), TargetAggregator(max_loss=1.0)):
        with pytest.raises(RuntimeError, match=r"could not be read in chunks .*disk on fire"):
            model.fit(broken, Y)


def test_what_is_said_of_the_data_of_a_chunk_stays_a_plain_error():
    X, Y = paper()
    weights = np.ones(200)
    weights[120] = -2.0
    with pytest.raises(ValueError, match=r"negative values \(smallest -2\)") as caught:
        TargetAggregator(max_loss=1.0).fit(*lazily(X, Y, weights))
    assert type(caught.value) is InputError  # as of rows in memory


def test_arrays_are_counted_without_being_changed():
    X, Y = paper()
    lazy = uncounted(X)
    CTFARegressor().fit(lazy, Y)
    assert all(np.isnan(size) for size in lazy.chunks[0])


def test_a_row_of_a_chunk_that_nobody_has_counted_is_called_so():
    X, Y = paper()
    X[120, 3] = np.nan
    with pytest.raises(ValueError, match=r"first NaN at row 20 of a chunk, column 3\)"):
        TargetAggregator(max_loss=1.0).fit(uncounted(X), uncounted(Y))


# -- Scores ----------------------------------------------------------------------------------------


def test_scores_refuse_other_targets_than_those_of_fit():
    pandas = pytest.importorskip("pandas")
    frames = pytest.importorskip("dask.dataframe")
    X, Y = paper()
    named = pandas.DataFrame(Y, columns=list("abcd"))
    model = CTFARegressor().fit(X, named)
    with pytest.raises(ValueError, match="y has 3 columns but fit has seen 4 targets"):
        model.score(*lazily(X, Y[:, :3]))
    turned = frames.from_pandas(named[list("bacd")], npartitions=3)
    with pytest.raises(ValueError, match="column 0 of y is 'b' and was 'a'"):
        model.score_per_target(*lazily(X), turned)
    lazy = frames.from_pandas(named, npartitions=3)
    assert model.score(*lazily(X), lazy) == pytest.approx(model.score(X, named))


@pytest.mark.parametrize("library", ["dask", "strict"])
def test_scores_refuse_weights_and_infinity_as_in_memory(library):
    X, Y = paper()
    model = CTFARegressor().fit(X, Y)

    def given(*tables):
        return lazily(*tables) if library == "dask" else [strict.asarray(one) for one in tables]

    for value, match in [
        (-1.0, r"negative values \(smallest -1\)"),
        (np.nan, "sample_weight contains NaN"),
    ]:
        weights = np.ones(200)
        weights[70] = value
        with pytest.raises(ValueError, match=match):
            model.score(*given(X, Y, weights))
    with pytest.raises(ValueError, match="zero for every row"):
        model.score(*given(X, Y, np.zeros(200)))
    with pytest.raises(ValueError, match="R2 of 1 row is not defined"):
        model.score(*given(X[:1], Y[:1]))
    Y[70, 2] = np.inf
    with pytest.raises(ValueError, match="Input y contains infinity at row 70, column 'y2'"):
        model.score(*given(X, Y))


def test_a_score_over_tasks_refuses_a_missing_target():
    X, Y = paper()
    tasks = np.arange(200) % 4
    model = PooledCTFARegressor().fit(X, Y[:, 0], tasks)
    y = Y[:, 0].copy()
    y[70] = np.nan
    with pytest.raises(ValueError, match=r"Input y contains NaN or infinity .*row 70"):
        model.score(*lazily(X, y, tasks))


# -- Empty chunks ----------------------------------------------------------------------------------


def with_empty_chunks(table):
    chunks = (0, 60, 0, 140, 0)
    return da.from_array(table, chunks=(chunks, *table.shape[1:]))


def test_empty_chunks_are_answered_with_nothing():
    X, Y = paper()
    model = CTFARegressor().fit(X, Y)
    lazy, targets = with_empty_chunks(X), with_empty_chunks(Y)
    again = CTFARegressor().fit(lazy, targets)
    assert again.partition_ == model.partition_
    np.testing.assert_allclose(model.predict(lazy).compute(), model.predict(X))
    np.testing.assert_allclose(
        model.targets_.transform(targets).compute(), model.targets_.transform(Y)
    )
    np.testing.assert_allclose(
        model.features_[0].transform(lazy).compute(), model.features_[0].transform(X)
    )
    assert model.score(lazy, targets) == pytest.approx(model.score(X, Y))


def test_empty_partitions_of_frames_are_answered_with_nothing():
    pandas = pytest.importorskip("pandas")
    frames = pytest.importorskip("dask.dataframe")
    X, Y = paper()
    rows, targets = pandas.DataFrame(X, columns=list("abcde")), pandas.DataFrame(Y)
    targets.columns = list("wxyz")
    model = CTFARegressor().fit(rows, targets)
    lazy = frames.from_pandas(rows, npartitions=4)
    lazy = lazy.map_partitions(lambda part: part[part.index >= 100])  # two of them are empty
    pandas.testing.assert_frame_equal(model.predict(lazy).compute(), model.predict(rows[100:]))


@pytest.mark.more
def test_empty_chunks_of_tasks_are_answered_with_nothing():
    X, Y = paper()
    for tasks in (np.arange(200) % 4, np.array(list("abcd") * 50, dtype=object)):
        given = X, Y[:, 0], tasks
        lazy = [with_empty_chunks(table) for table in given]
        model = PooledCTFARegressor().fit(*lazy)
        assert model.partition_ == PooledCTFARegressor().fit(*given).partition_
        np.testing.assert_allclose(
            model.predict(lazy[0], lazy[2]).compute(), model.predict(X, tasks)
        )
        assert model.score(*lazy) == pytest.approx(model.score(*given))


def test_one_target_of_another_library_is_a_vector():
    X, Y = paper()
    one = FeatureAggregator(max_loss=0.01).fit(X, Y[:, 0])
    two = FeatureAggregator(max_loss=0.01).fit(strict.asarray(X), strict.asarray(Y[:, 0]))
    assert one.partition_ == two.partition_


# -- Baselines -------------------------------------------------------------------------------------


def test_confounds_come_in_any_chunks():
    pandas = pytest.importorskip("pandas")
    frames = pytest.importorskip("dask.dataframe")
    X, Y = paper()
    trend = np.arange(200.0)[:, None]
    rows = pandas.DataFrame(X, columns=list("abcde"))
    model = CTFARegressor().fit(rows, Y, confounds=trend)
    expected = model.predict(rows, confounds=trend)
    lazy = frames.from_pandas(rows, npartitions=3)
    for given in (
        (lazy, trend),
        (lazy, trend[:, 0]),
        (lazy, lazily(trend)[0]),
        (lazy, uncounted(trend, 67)),
        (lazy, uncounted(trend, 40)),
        (rows, uncounted(trend)),
    ):
        np.testing.assert_allclose(model.predict(given[0], confounds=given[1]).compute(), expected)
        assert model.score(given[0], Y, confounds=given[1]) == pytest.approx(
            model.score(rows, Y, confounds=trend)
        )
    with pytest.raises(ValueError, match="X has 200 rows and confounds has 199"):
        model.predict(lazy, confounds=trend[1:])


# -- Tables that are none --------------------------------------------------------------------------


@pytest.mark.parametrize("library", ["dask", "strict"])
@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda X, Y: (X + 1j, Y), r"X holds numbers of .*Complex data not supported"),
        (lambda X, Y: (X, Y + 1j), r"y holds numbers of .*Complex data not supported"),
        (lambda X, Y: (X[:, 0], Y), r"Expected 2D array.*X\.reshape\(-1, 1\)"),
        (lambda X, Y: (X[:, :0], Y), r"X cannot be used \(0 feature.*pass at least one column"),
        (lambda X, Y: (X, Y[:, :0]), r"y cannot be used \(0 feature.*pass at least one column"),
        (lambda X, Y: (X[:0], Y[:0]), "X has 0 rows that count"),
        (lambda X, Y: (X, Y, np.ones((200, 1))), r"sample_weight has shape \(200, 1\)"),
    ],
)
def test_tables_that_are_none_are_refused(library, change, match):
    given = change(*paper())
    given = lazily(*given) if library == "dask" else [strict.asarray(table) for table in given]
    with pytest.raises(ValueError, match=match):
        CTFARegressor().fit(*given)


def test_dates_and_text_are_no_numbers():
    X, Y = paper()
    for dates in (X.astype("datetime64[D]"), X.astype("timedelta64[D]")):
        with pytest.raises(ValueError, match="X contains dates or durations"):
            CTFARegressor().fit(*lazily(dates, Y))
        with pytest.raises(ValueError, match="X contains dates or durations"):
            CTFARegressor().fit(dates, *lazily(Y))
    text = np.full(X.shape, "high")
    with pytest.raises(ValueError, match=r"X cannot be used \('high' is not a number"):
        CTFARegressor().fit(*lazily(text, Y))
    as_text = CTFARegressor().fit(*lazily(X.astype(object), Y))  # as in memory
    assert as_text.partition_ == CTFARegressor().fit(X, Y).partition_


@pytest.mark.parametrize(
    ("weights", "match"),
    [
        (-1.0, r"negative values \(smallest -1\)"),
        (np.ones((200, 1)), r"sample_weight has shape \(200, 1\)"),
        (["heavy"] * 200, "sample_weight cannot be used"),
        (np.ma.masked_greater(np.arange(200.0), 150), "49 masked values"),
        (np.ones(199), "X has 200 rows and sample_weight has 199"),
    ],
)
def test_weights_in_memory_of_rows_in_chunks_are_checked(weights, match):
    lazy = lazily(*paper())
    with pytest.raises(ValueError, match=match):
        CTFARegressor().fit(*lazy, weights)


def test_one_weight_for_all_rows_is_none():
    lazy = lazily(*paper())
    one, two = CTFARegressor().fit(*lazy), CTFARegressor().fit(*lazy, 3.0)
    np.testing.assert_array_equal(one.history_.loss, two.history_.loss)


def test_two_columns_of_one_name_are_refused():
    pandas = pytest.importorskip("pandas")
    frames = pytest.importorskip("dask.dataframe")
    X, Y = paper()
    double = frames.from_pandas(pandas.DataFrame(X, columns=list("abcda")), npartitions=3)
    with pytest.raises(ValueError, match="unique column names, and 'a' is that of 2 columns of X"):
        CTFARegressor().fit(double, *lazily(Y))
    double = frames.from_pandas(pandas.DataFrame(Y, columns=list("abca")), npartitions=3)
    with pytest.raises(ValueError, match="unique column names, and 'a' is that of 2 columns of y"):
        CTFARegressor().fit(*lazily(X), double)


def test_marks_of_missing_values_are_missing_values():
    pandas = pytest.importorskip("pandas")
    frames = pytest.importorskip("dask.dataframe")
    X, Y = paper()
    named = pandas.DataFrame(Y, columns=list("abcd")).astype("Float64")
    named["d"] = (10.0 * named["d"]).round().astype("Int64")
    model = TargetAggregator(max_loss=1.0).fit(X, named)
    lazy = frames.from_pandas(named, npartitions=3)
    whole = TargetAggregator(max_loss=1.0).fit(*lazily(X), lazy)
    assert whole.partition_ == model.partition_
    named.loc[3, "b"] = pandas.NA
    lazy = frames.from_pandas(named, npartitions=3)
    gappy = TargetAggregator(max_loss=1.0).fit(*lazily(X), lazy)
    assert gappy.partition_ == TargetAggregator(max_loss=1.0).fit(X, named).partition_
    with pytest.raises(ValueError, match="first NaN at row 3, column 'b'"):
        CTFARegressor().fit(lazy, *lazily(Y))


def test_columns_that_may_lack_values_are_predicted_from():
    pandas = pytest.importorskip("pandas")
    frames = pytest.importorskip("dask.dataframe")
    X, Y = paper()
    rows = pandas.DataFrame(X, columns=list("abcde"))
    targets = pandas.DataFrame(Y, columns=list("wxyz"))
    lazy = frames.from_pandas(rows.astype("Float64"), npartitions=3)
    for answers in (Y, targets):
        model = CTFARegressor().fit(rows, answers)
        np.testing.assert_allclose(model.predict(lazy).compute(), model.predict(rows))


def test_no_inputs_are_refused():
    _, Y = paper()
    with pytest.raises(ValueError, match="X is None: pass an array"):
        CTFARegressor().fit(None, *lazily(Y))


def test_a_chunk_of_another_height_is_named():
    X, Y = paper()
    short = lazily(Y)[0][da.from_array(np.arange(200) != 70, chunks=50)]
    with pytest.raises(ValueError, match="a chunk of y has 49 rows where that of X has 50"):
        TargetAggregator(max_loss=1.0).fit(uncounted(X), short)
