"""Labelled data in chunks: read once, never whole, and decided as in memory."""

import gc
import itertools
import threading
import types
import warnings
import weakref

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold
from sklearn.neighbors import KNeighborsRegressor

import ctfa
from ctfa import CTFARegressor
from ctfa._reading.sums import collection
from ctfa.labelled import _reading
from ctfa.labelled._reading import arrange, gather
from generated import examples

dask = pytest.importorskip("dask")
xr = pytest.importorskip("xarray")
da = pytest.importorskip("dask.array")

N_ROWS = 240
QUICK = {"held_out": None, "max_loss": 1.5}


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Pieces of few rows, as those of large data are of few of theirs."""
    monkeypatch.setattr(_reading, "PIECE", 8 * 16 * 30)


def drivers(rng, n_rows=N_ROWS):
    return rng.normal(size=(n_rows, 4)) + 3.0


def basins(seed=0, n_rows=N_ROWS):
    """Twelve basins in two regions, four features that they share, months and a trend."""
    rng = np.random.default_rng(seed)
    X = drivers(rng, n_rows)
    slopes = np.repeat([[1.0, 0.0, 0.5, 0.0], [0.0, 1.0, 0.0, -1.0]], 6, axis=0)
    months = np.arange(n_rows) % 12
    seasons = np.sin(months)[:, None] + 0.01 * np.arange(n_rows)[:, None]
    flow = X @ slopes.T + seasons + rng.normal(size=(n_rows, 12))
    held = {"flow": (("time", "basin"), flow, {"units": "mm"})}
    held |= {f"driver{k}": ("time", column, {"units": "K"}) for k, column in enumerate(X.T)}
    coords = {
        "time": pd.date_range("1990-01-01", periods=n_rows, freq="MS"),
        "basin": [f"b{k:02}" for k in range(12)],
        "lon": ("basin", np.arange(12.0)),
        "lat": ("basin", np.zeros(12)),
    }
    return xr.Dataset(held, coords=coords)


def grid(seed=0, n_rows=N_ROWS):
    """Four by five cells in two halves, an ocean of two cells and one that never changes."""
    rng = np.random.default_rng(seed)
    X = drivers(rng, n_rows)
    west = np.where(np.arange(5) < 3, 1.0, -1.0)
    flow = X[:, :1, None] * west - X[:, 1:2, None] + rng.normal(size=(n_rows, 4, 5))
    flow[:, 0, 0] = flow[:, 3, 4] = np.nan
    flow[:, 2, 2] = 7.0
    held = {
        "flow": (("time", "lat", "lon"), flow.astype(np.float32)),
        "drivers": (("time", "index"), X),
    }
    coords = {
        "time": pd.date_range("1990-01-01", periods=n_rows, freq="MS"),
        "lat": np.array([45.0, 44.0, 43.0, 42.0], dtype=np.float32),
        "lon": np.array([-2.0, -1.0, 0.0, 1.0, 2.0]),
        "index": list("abcd"),
    }
    return xr.Dataset(held, coords=coords)


def refuse(*_, **__):
    raise AssertionError("something was computed")


def same(one, two, data):
    """Whether two fits say the same."""
    xr.testing.assert_identical(one.regions, two.regions)
    np.testing.assert_allclose(two.history.loss, one.history.loss, rtol=1e-8, atol=1e-8)
    assert two.estimator.max_loss_ == one.estimator.max_loss_
    xr.testing.assert_allclose(two.coef, one.coef, rtol=1e-8)
    xr.testing.assert_allclose(two.coef_error, one.coef_error, rtol=1e-8)
    assert two.coef.attrs == one.coef.attrs
    xr.testing.assert_allclose(two.predict(data), one.predict(data), rtol=1e-8)
    np.testing.assert_allclose(two.estimator.trust_, one.estimator.trust_, rtol=1e-6)
    if one.held_out is not None:
        assert two.held_out.how == one.held_out.how
        for method, errors in two.held_out.errors.items():
            np.testing.assert_allclose(errors, one.held_out.errors[method], rtol=1e-8)
        np.testing.assert_allclose(two.held_out.climatology, one.held_out.climatology, rtol=1e-8)
        assert two.held_out.reference == one.held_out.reference


class Watched:
    """Arrays in chunks that write down when a chunk is made and when it is let go."""

    def __init__(self):
        self.made, self.alive, self.most = [], 0, 0
        self.lock = threading.Lock()

    def array(self, values, chunks):
        def read(block, block_info=None):
            own = np.array(block)
            with self.lock:
                self.made.append(block_info[0]["chunk-location"])
                self.alive += 1
                self.most = max(self.most, self.alive)
            weakref.finalize(own, self.gone)
            return own

        meta = np.empty((0,) * values.ndim, dtype=values.dtype)
        found = da.from_array(values, chunks=chunks).map_blocks(read, dtype=values.dtype, meta=meta)
        return found

    def gone(self):
        with self.lock:
            self.alive -= 1


# -- Decisions -------------------------------------------------------------------------------------


@pytest.mark.more
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"held_out": 3, "cv": 4},
        {"anomalies": "month", "detrend": True},
        {"anomalies": "dayofyear", "held_out": None},
        {"head": "levels", "weights": np.arange(1.0, 13.0)},
        {"neighbours": "nearest:3", "standardise": False, "max_loss": 1.2},
        {"merge_features": False, "cv": KFold(4, shuffle=True, random_state=0), "held_out": None},
    ],
    ids=lambda options: "-".join(options) or "plain",
)
def test_chunks_decide_as_rows_in_memory_do(options):
    data = basins()
    one = ctfa.labelled.fit(data, target="flow", **options)
    two = ctfa.labelled.fit(data.chunk(time=37, basin=5), target="flow", **options)
    same(one, two, data)
    assert any("read in chunks" in note for note in two.notes)
    assert list(two.estimator.feature_names_in_) == [f"driver{k}" for k in range(4)]
    assert str(two.why("b03")) == str(one.why("b03"))


@pytest.mark.more
@pytest.mark.parametrize("options", [{}, {"anomalies": "month", "detrend": True}])
def test_many_rows_are_stood_in_for_by_few(options, monkeypatch):
    data = basins(n_rows=2600)
    given = []
    fit = CTFARegressor._fit_stand_ins

    def noted(model, sample, *others):
        given.append((sample.n_samples, len(sample.inputs)))
        return fit(model, sample, *others)

    one = ctfa.labelled.fit(data, target="flow", **options)
    monkeypatch.setattr(CTFARegressor, "_fit_stand_ins", noted)
    two = ctfa.labelled.fit(data.chunk(time=300), target="flow", **options)
    same(one, two, data)
    assert given[0][0] == 2600
    assert all(n_rows < n_samples for n_samples, n_rows in given)


cuts = st.lists(st.integers(1, N_ROWS - 1), max_size=6, unique=True)


def heights(cut, total=N_ROWS):
    return tuple(np.diff([0, *sorted(cut), total]).tolist())


@pytest.mark.more
@settings(max_examples=examples(15), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=cuts,
    others=cuts,
    places=st.sampled_from([(12,), (5, 7), (1, 1, 10)]),
    piece=st.integers(1, 200),
    seed=st.integers(0, 3),
)
def test_chunks_need_not_fit_each_other(rows, others, places, piece, seed):
    data = basins(seed)
    one = ctfa.labelled.fit(data, target="flow", **QUICK)
    pieces = data.copy()
    pieces["flow"] = data.flow.chunk(time=heights(rows), basin=places)
    for number, cut in enumerate((others, rows[:1], others[:2])):
        name = f"driver{number}"
        pieces[name] = data[name].chunk(time=heights(cut))
    before = _reading.PIECE
    _reading.PIECE = 8 * 16 * piece
    try:
        two = ctfa.labelled.fit(pieces, target="flow", **QUICK)
    finally:
        _reading.PIECE = before
    same(one, two, data)


@settings(max_examples=examples(50), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=st.lists(st.integers(1, 50), min_size=1, max_size=20), width=st.integers(1, 400))
def test_pieces_hold_all_rows_and_no_more_than_they_may(sizes, width):
    found = _reading.row_chunks(sizes, width)
    most = max(_reading.PIECE // (8 * width), 1)
    assert sum(found) == sum(sizes)
    assert min(found) >= 1
    assert max(found) <= most
    if max(sizes) <= most:
        assert all(first + second > most for first, second in itertools.pairwise(found))


@pytest.mark.more
def test_a_grid_in_chunks_keeps_its_ocean_apart():
    data = grid()
    options = {"target": "flow", "features": "drivers", "task": ("lat", "lon")}
    options |= {"neighbours": "rook", "weights": "area"}
    one = ctfa.labelled.fit(data, **options)
    two = ctfa.labelled.fit(data.chunk(time=50, lat=3, lon=2), **options)
    same(one, two, data)
    assert set(one.notes) < set(two.notes)
    assert "2 cells of 20 without data, left out" in two.notes
    assert "1 cell where flow never changes, left out" in two.notes
    stacked = data.stack(cell=("lat", "lon")).chunk(time=50, cell=7)
    listed = {**options, "task": "cell", "masked": "leave"}
    three = ctfa.labelled.fit(stacked, **listed)
    np.testing.assert_array_equal(three.regions.values, one.regions.values.ravel())
    with pytest.raises(ValueError, match="2 cells without a single value: "):
        ctfa.labelled.fit(stacked, **{**listed, "masked": "error"})


@pytest.mark.more
def test_arrays_by_themselves_and_features_in_memory_will_do():
    data = grid()
    one = ctfa.labelled.fit(data.flow, features=data.drivers, **QUICK)
    lazy = data.flow.chunk(time=41)
    for features in (data.drivers, data.drivers.chunk(time=19, index=1)):
        two = ctfa.labelled.fit(lazy, features=features, **QUICK)
        same(one, two, data.drivers)
    three = ctfa.labelled.fit(data.flow, features=data.drivers.chunk(time=19), **QUICK)
    same(one, three, data.drivers)


def test_coordinates_in_chunks_do_not_make_data_lazy():
    data = basins()
    lazy = data.assign_coords(area=("basin", da.from_array(np.arange(12.0), chunks=5)))
    found = ctfa.labelled.fit(lazy, target="flow", **QUICK)
    assert not any("in chunks" in note for note in found.notes)
    np.testing.assert_array_equal(found.regions.area, np.arange(12.0))


@pytest.mark.more
def test_files_are_fitted_as_they_lie_on_the_disk(tmp_path):
    pytest.importorskip("zarr")
    pytest.importorskip("h5netcdf")
    data = basins()
    one = ctfa.labelled.fit(data, target="flow")
    data.chunk(time=50).to_zarr(tmp_path / "basins.zarr", zarr_format=2)
    for number, years in enumerate((slice(0, 100), slice(100, None))):
        data.isel(time=years).to_netcdf(tmp_path / f"part{number}.nc", engine="h5netcdf")
    several = {"engine": "h5netcdf", "data_vars": "minimal", "coords": "minimal"}
    several["compat"] = "override"
    with xr.open_zarr(tmp_path / "basins.zarr") as zarr:
        same(one, ctfa.labelled.fit(zarr, target="flow"), data)
    with xr.open_mfdataset(str(tmp_path / "part*.nc"), **several) as parts:
        same(one, ctfa.labelled.fit(parts, target="flow"), data)
        assert parts.flow.chunks is not None
    with xr.open_dataset(tmp_path / "part0.nc", engine="h5netcdf", chunks={"time": 30}) as part:
        half = ctfa.labelled.fit(data.isel(time=slice(0, 100)), target="flow", **QUICK)
        same(half, ctfa.labelled.fit(part, target="flow", **QUICK), data)
    whole = ctfa.labelled.read(tmp_path / "basins.zarr", lazy=True)
    same(one, ctfa.labelled.fit(whole, target="flow"), data)


def test_rows_that_only_the_target_has_are_left_out():
    data = basins()
    short = data[["driver0", "driver1"]].isel(time=slice(20, None))
    one = ctfa.labelled.fit(data.flow, features=short, **QUICK)
    two = ctfa.labelled.fit(data.flow.chunk(time=50), features=short.chunk(time=33), **QUICK)
    same(one, two, short)
    assert "20 of 240 rows have no features and are left out" in two.notes


# -- Laziness --------------------------------------------------------------------------------------


def test_a_fit_reads_every_chunk_once_and_holds_few_of_them():
    data = basins()
    seen = Watched()
    lazy = data.copy()
    lazy["flow"] = (("time", "basin"), seen.array(data.flow.values, (10, 6)), data.flow.attrs)
    seen.made.clear()
    with dask.config.set(scheduler="threads", num_workers=2):
        found = ctfa.labelled.fit(lazy, target="flow", anomalies="month", neighbours="nearest:3")
    assert found.held_out is not None
    # Those of the first piece, 30 rows, are looked at before.
    first = [(row, column) for row in range(3) for column in range(2)]
    every = [(row, column) for row in range(24) for column in range(2)]
    assert sorted(seen.made) == sorted(every + first)
    assert seen.most <= 24
    gc.collect()
    assert seen.alive == 0


@pytest.mark.more
def test_a_feature_that_does_not_change_at_first_takes_no_pass_more():
    data = basins()
    data["driver1"][:30] = 2.0
    seen = Watched()
    lazy = data.copy()
    lazy["flow"] = (("time", "basin"), seen.array(data.flow.values, (30, 12)), data.flow.attrs)
    seen.made.clear()
    found = ctfa.labelled.fit(lazy, target="flow", **QUICK)
    assert sorted(row for row, _ in seen.made) == [0, *range(8)]
    said = "driver1 never changes in the first 30 rows: leave driver1 out, unless it changes later"
    assert said in found.notes
    assert not any("never" in note for note in ctfa.labelled.fit(data, target="flow").notes)


def test_seasons_and_trends_are_not_judged_by_the_first_rows():
    data = basins()
    data["flow"] = data.flow + 20.0 * np.abs(np.arange(N_ROWS) % 60 - 30.0)[:, None] / 30.0
    data = data.assign(again=data.driver0 * 2.0)
    options = {"target": "flow", "merge_features": False, **QUICK}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*(condition number|depend on)", RuntimeWarning)
        found = ctfa.labelled.fit(data.chunk(time=30), **options)
    assert not any("explains" in note for note in found.notes)
    said = "driver0 and again are nearly the same (|r| > 0.999) in the first "
    assert any(note.startswith(said) for note in found.notes)


@pytest.mark.more
def test_an_ocean_takes_one_more_pass_that_reads_each_chunk_once():
    data = grid()
    seen = Watched()
    lazy = data.copy()
    lazy["flow"] = (data.flow.dims, seen.array(data.flow.values, (30, 4, 5)))
    seen.made.clear()
    ctfa.labelled.fit(lazy, target="flow", features="drivers", task=("lat", "lon"))
    counts = [sum(row == k for row, *_ in seen.made) for k in range(8)]
    assert counts == [3] + [2] * 7


def test_nothing_is_computed_before_the_first_rows_are():
    data = grid().chunk(time=50, lat=2)
    with dask.config.set(scheduler=refuse):
        gathered = gather(data, "flow", "drivers", None, ("lat", "lon"))
        Y, (X,) = _reading.tables_of(gathered)
        assert X.shape == (N_ROWS, 4)
        assert Y.shape == (N_ROWS, 20)
        assert X.numblocks[1] == Y.numblocks[1] == 1
        assert X.chunks[0] == Y.chunks[0]
        with pytest.raises(RuntimeError, match="something was computed"):
            ctfa.labelled.fit(data, target="flow", features="drivers", task=("lat", "lon"))
    arrays = arrange(gathered, "auto")
    assert arrays.is_lazy
    assert not arrays.is_presumed  # an ocean has to be looked for
    assert arrays.Y.shape == (N_ROWS, 17)


@pytest.mark.more
@pytest.mark.parametrize("options", [{}, {"anomalies": "season", "detrend": True}])
def test_predictions_stay_in_chunks_of_the_same_rows(options):
    data = grid()
    lazy = data.chunk(time=50, lat=3, index=2)
    known = {"target": "flow", "features": "drivers", "task": ("lat", "lon")}
    found = ctfa.labelled.fit(lazy, **known, **QUICK, **options)
    with dask.config.set(scheduler=refuse):
        predicted = found.predict(lazy)
        assert predicted.chunksizes["time"] == lazy.chunksizes["time"]
        assert predicted.dims == data.flow.dims
        assert predicted.attrs == data.flow.attrs
    xr.testing.assert_allclose(predicted.compute(), found.predict(data))
    one = ctfa.labelled.fit(data, **known, **QUICK, **options)
    xr.testing.assert_allclose(predicted.compute(), one.predict(data), rtol=1e-8)


def test_a_fit_lets_go_of_its_data(tmp_path):
    lazy = basins().chunk(time=40)
    found = ctfa.labelled.fit(lazy, target="flow", **QUICK)
    reached, left = set(), [found]
    while left:
        thing = left.pop()
        skipped = isinstance(thing, type | types.ModuleType | types.FunctionType)
        if id(thing) in reached or skipped:
            continue
        reached.add(id(thing))
        assert not dask.is_dask_collection(thing)
        assert not isinstance(thing, np.ndarray) or thing.size < N_ROWS
        left += gc.get_referents(thing)
    found.save(tmp_path / "flow.ctfa")
    again = ctfa.labelled.load(tmp_path / "flow.ctfa")
    xr.testing.assert_identical(again.predict(lazy).compute(), found.predict(lazy).compute())
    found.report(tmp_path / "flow.html")


# -- What sums cannot answer -----------------------------------------------------------------------


def with_gaps(data, first=100):
    gappy = data.copy(deep=True)
    gappy.flow.values[first : first + 5, 3] = np.nan
    return gappy


@pytest.mark.more
def test_rows_lacking_a_feature_are_left_out_wherever_they_are():
    for row in (3, 200):
        data = basins()
        data.driver2.values[row] = np.nan
        one = ctfa.labelled.fit(data, target="flow", **QUICK)
        two = ctfa.labelled.fit(data.chunk(time=50), target="flow", **QUICK)
        same(one, two, data)
        assert "1 row lacking a feature (mostly driver2), left out" in two.notes
        assert any("read in chunks" in note for note in two.notes)


@pytest.mark.more
@pytest.mark.parametrize("first", [2, 100])
def test_gaps_are_worked_with_in_memory(first):
    data = with_gaps(basins(), first)
    one = ctfa.labelled.fit(data, target="flow", **QUICK)
    two = ctfa.labelled.fit(data.chunk(time=50, basin=4), target="flow", **QUICK)
    same(one, two, data)
    assert two.notes == one.notes
    assert two.series is not None


def test_more_rows_than_are_gathered_are_refused_in_the_words_of_the_data(monkeypatch):
    monkeypatch.setattr(collection, "ROWS_LIMIT", 1000)
    lazy = with_gaps(basins()).chunk(time=50)
    with pytest.raises(ValueError, match=r"flow with missing values needs the rows.*ds\.load\(\)"):
        ctfa.labelled.fit(lazy, target="flow")
    with pytest.raises(ValueError, match=r"solver='ridge'.* needs the rows"):
        ctfa.labelled.fit(basins().chunk(time=50), target="flow", solver="ridge")


@pytest.mark.parametrize(("name", "row"), [("flow", 1), ("flow", 150), ("driver1", 150)])
def test_infinite_numbers_are_named_as_in_memory(name, row):
    data = basins()
    data[name].values[row] = np.inf
    count = 12 if name == "flow" else 1
    with pytest.raises(ValueError, match=rf"{name} holds {count} infinite values?: turn them"):
        ctfa.labelled.fit(data.chunk(time=50), target="flow")


@pytest.mark.more
def test_wide_tables_are_gathered_where_their_rows_are_fewer(monkeypatch):
    monkeypatch.setattr(collection, "SUMS_LIMIT", 20_000)
    data = basins()
    found = ctfa.labelled.fit(data.chunk(time=50), target="flow")
    same(ctfa.labelled.fit(data, target="flow"), found, data)
    assert found.series is not None
    monkeypatch.setattr(collection, "ROWS_LIMIT", 1000)
    options = {"regressor": LinearRegression(), "max_loss": 1.5}  # which ask no folds
    less = ctfa.labelled.fit(data.chunk(time=50), target="flow", **options)
    assert less.held_out is None
    assert any("nothing was held out" in note for note in less.notes)
    with pytest.raises(ValueError, match=r"give a number for max_loss.*ds\.load\(\) before fit"):
        ctfa.labelled.fit(data.chunk(time=50), target="flow")


@pytest.mark.more
def test_regressors_that_learn_from_rows_get_them():
    data = basins()
    nearest = {"regressor": KNeighborsRegressor(3), "head": "mean"}
    one = ctfa.labelled.fit(data, target="flow", **nearest, **QUICK)
    two = ctfa.labelled.fit(data.chunk(time=50), target="flow", **nearest, **QUICK)
    xr.testing.assert_identical(one.regions, two.regions)
    xr.testing.assert_allclose(two.predict(data), one.predict(data), rtol=1e-6)
    # What judges merges by rows that it was not fitted to needs them all: they are loaded.
    three = ctfa.labelled.fit(data.chunk(time=50), target="flow", regressor=KNeighborsRegressor(3))
    assert three.held_out is not None
    cheap = {**nearest, "solver": "ols", "max_loss": 1.5}
    four = ctfa.labelled.fit(data.chunk(time=50), target="flow", **cheap)
    assert any("nothing was held out: KNeighborsRegressor" in note for note in four.notes)
    blocks = ctfa.labelled.fit(data.chunk(time=50), target="flow", held_out=KFold(3, shuffle=True))
    assert blocks.held_out is None
    with pytest.raises(ValueError, match="held_out='all' is not known"):
        ctfa.labelled.fit(data.chunk(time=50), target="flow", held_out="all")


def test_a_chunk_that_cannot_be_read_is_one_clear_error():
    def broken(block):
        raise OSError("disk on fire")

    data = basins()
    lazy = data.chunk(time=50)
    lazy["driver0"] = ("time", lazy.driver0.data.map_blocks(broken, meta=np.empty(0)))
    with pytest.raises(RuntimeError, match=r"could not be read in chunks .OSError: disk on fire"):
        ctfa.labelled.fit(lazy, target="flow")


def own_inputs(n_samples=900, **options):
    made = ctfa.datasets.make_basins(6, n_samples, 2, n_regions=2, random_state=0, **options)
    return made.to_xarray()


@pytest.mark.parametrize(
    "options",
    [
        {"aggregate": "mean", "max_loss": 1.2},
        {"aggregate": "auto", "anomalies": "month", "cv": 4, "held_out": 3},
        {"aggregate": "pool", "head": "levels", "weights": None, "held_out": None},
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_features_of_each_tasks_own_decide_as_in_memory(options):
    data = own_inputs()
    one = ctfa.labelled.fit(data, target="flow", **options)
    two = ctfa.labelled.fit(data.chunk(time=70, basin=4), target="flow", **options)
    xr.testing.assert_identical(one.regions, two.regions)
    assert two.estimator.aggregate_ == one.estimator.aggregate_
    np.testing.assert_allclose(two.history.loss, one.history.loss, rtol=1e-8, atol=1e-8)
    xr.testing.assert_allclose(two.coef, one.coef, rtol=1e-8)
    known = np.isfinite(two.coef_error)
    np.testing.assert_allclose(two.coef_error.where(known), one.coef_error.where(known), rtol=1e-8)
    # What disturbs all members of a region at a time is in no sums.
    alone = np.bincount(two.estimator.labels_) == 1
    expected = alone if two.estimator.aggregate_ == "pool" else np.ones_like(alone)
    np.testing.assert_array_equal(known.all("feature"), expected)
    xr.testing.assert_allclose(two.predict(data), one.predict(data), rtol=1e-8)
    if one.held_out is not None:
        for method, errors in two.held_out.errors.items():
            np.testing.assert_allclose(errors, one.held_out.errors[method], rtol=1e-8)
        np.testing.assert_allclose(two.held_out.climatology, one.held_out.climatology, rtol=1e-8)
        assert two.held_out.reference == one.held_out.reference


@pytest.mark.more
def test_features_of_each_tasks_own_are_read_once():
    data = own_inputs()
    seen = Watched()
    lazy = data.copy()
    name = next(name for name in data.data_vars if name != "flow")
    lazy[name] = (data[name].dims, seen.array(data[name].values, (90, 6)))
    lazy["flow"] = data.flow.chunk(time=90)
    seen.made.clear()
    with dask.config.set(scheduler="threads", num_workers=2):
        found = ctfa.labelled.fit(lazy, target="flow", aggregate="mean")
    assert found.held_out is not None
    assert sorted(row for row, _ in seen.made) == [0, *range(10)]
    assert seen.most <= 6


def test_gaps_in_features_of_each_tasks_own_are_worked_with_in_memory(monkeypatch):
    data = own_inputs(120, gaps=0.05)
    options = {"target": "flow", "aggregate": "mean", **QUICK}
    one = ctfa.labelled.fit(data, **options)
    two = ctfa.labelled.fit(data.chunk(time=20, basin=3), **options)
    xr.testing.assert_identical(one.regions, two.regions)
    xr.testing.assert_identical(two.coef, one.coef)
    assert two.notes == one.notes
    monkeypatch.setattr(collection, "ROWS_LIMIT", 1000)
    with pytest.raises(ValueError, match=r"flow or features with missing values needs the rows"):
        ctfa.labelled.fit(data.chunk(time=20), **options)


def test_a_table_of_dask_is_told_what_to_do():
    try:
        import dask.dataframe as dd
    except ImportError as error:  # also where its own needs are not met
        pytest.skip(str(error))
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 4)), columns=list("abcd"))
    with pytest.raises(ValueError, match=r"Dask data frame, .* pass table.compute\(\)"):
        ctfa.labelled.fit(dd.from_pandas(frame, npartitions=2), target=["c", "d"])
