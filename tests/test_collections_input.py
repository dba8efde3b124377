"""Data in chunks, or of other array libraries, that cannot be used: refused as rows in memory."""

import numpy as np
import pytest

from ctfa import CTFARegressor, TargetAggregator
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


@pytest.mark.parametrize("what", ["X", "Y", "sample_weight"])
@pytest.mark.parametrize("method", ["fit", "partial_fit", "score"])
def test_masked_values_of_chunks_are_refused(method, what):
    X, Y = paper()
    model = CTFARegressor().fit(X, Y)
    given = dict(zip(("X", "Y", "sample_weight"), lazily(X, Y, np.arange(200.0)), strict=True))
    given[what] = da.ma.masked_greater(given[what], 1)
    with pytest.raises(ValueError, match=f"{what} is an array with [0-9]+ masked values: fill"):
        getattr(model, method)(*given.values())


def test_a_mask_that_only_the_chunks_know_of_is_refused_too():
    X, Y = lazily(*paper())
    hidden = Y.map_blocks(lambda block: np.ma.masked_greater(block, 1), meta=np.empty((0, 0)))
    with pytest.raises(ValueError, match=r"Y is an array with [0-9]+ masked values"):
        TargetAggregator(max_loss=1.0).fit(X, hidden)
    model = CTFARegressor().fit(X, Y)
    with pytest.raises(ValueError, match=r"X is an array with [0-9]+ masked values"):
        model.predict(da.ma.masked_greater(X, 1)).compute()
    np.testing.assert_allclose(
        model.predict(da.ma.masked_greater(X, 1e9)).compute(), model.predict(X).compute()
    )


def test_a_mask_of_an_array_in_memory_is_said_of_its_table():
    X, Y = paper()
    with pytest.raises(ValueError, match=r"Y is an array with [0-9]+ masked values"):
        CTFARegressor().fit(*lazily(X), np.ma.masked_greater(Y, 1))


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
    assert type(caught.value) is ValueError


def test_arrays_are_counted_without_being_changed():
    X, Y = paper()
    lazy = uncounted(X)
    CTFARegressor().fit(lazy, Y)
    assert all(np.isnan(size) for size in lazy.chunks[0])
