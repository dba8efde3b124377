"""Labelled data as people have them: in another order, of another calendar, half of it."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

import ctfa
from ctfa.labelled._baseline import Seasons
from ctfa.report._words import verdict

xr = pytest.importorskip("xarray")
pytest.importorskip("geopandas")

FEATURES = ["temperature", "precipitation", "snow"]
QUICK = {"held_out": None, "max_loss": 1.5, "aggregate": "mean"}


@pytest.fixture(scope="module")
def dataset():
    return ctfa.datasets.make_basins(16, 96, 3, n_regions=3, random_state=0).to_xarray()


@pytest.fixture(scope="module")
def table(dataset):
    return dataset.to_dataframe().reset_index()


def wide(dataset):
    """A column for each basin, and two features that all share."""
    frame = dataset.flow.to_pandas()
    names = list(frame.columns)
    frame["warm"] = dataset.temperature.mean("basin").values
    frame["wet"] = dataset.precipitation.mean("basin").values
    return frame, names


def test_means_over_regions_find_their_tasks_by_label(dataset):
    fit = ctfa.labelled.fit(dataset, target="flow", **QUICK)
    means = fit.to_regions(dataset.flow)
    backwards = dataset.flow.isel(basin=slice(None, None, -1))
    xr.testing.assert_allclose(fit.to_regions(backwards), means)
    with pytest.raises(ValueError, match="flow lacks 8 of 16 values of basin"):
        fit.to_regions(dataset.flow.isel(basin=slice(8)))


def test_weights_of_ones_own_are_an_array_or_found_by_label(dataset):
    numbers = np.arange(1.0, 17.0)
    plain = ctfa.labelled.fit(dataset, target="flow", weights=numbers, **QUICK)
    np.testing.assert_allclose(plain.weights, numbers / numbers.mean())
    labelled = xr.DataArray(numbers, dims="basin", coords={"basin": dataset.basin}, name="weight")
    backwards = labelled.isel(basin=slice(None, None, -1))
    again = ctfa.labelled.fit(dataset, target="flow", weights=backwards, **QUICK)
    np.testing.assert_allclose(again.weights, plain.weights)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("anomalies", "month"),
        ("detrend", True),
        ("weights", "area"),
        ("solver", "ridge"),
        ("masked", "leave"),
        ("places", "somewhere"),
    ],
)
def test_options_that_rows_of_their_own_do_not_know_are_refused(table, option, value):
    kwargs = {"target": "flow", "features": FEATURES, "task": "basin"}
    with pytest.raises(ValueError, match=rf"{option}=.* \(sample="):
        ctfa.labelled.fit(table, **kwargs | {option: value})


def test_a_wide_table_is_predicted_from_times_and_features_alone(dataset):
    frame, names = wide(dataset)
    frame = frame.reset_index()
    fit = ctfa.labelled.fit(
        frame, target=names, sample="time", anomalies="month", held_out=None, max_loss=1.5
    )
    future = frame[["time", "warm", "wet"]]
    pd.testing.assert_frame_equal(fit.predict(future), fit.predict(frame))


def test_unsorted_times_of_another_calendar_are_refused(dataset):
    pytest.importorskip("cftime")
    times = xr.date_range("2000-01-01", periods=96, freq="MS", calendar="noleap", use_cftime=True)
    other = dataset.assign_coords(time=times)
    ctfa.labelled.fit(other, target="flow", anomalies="month", detrend=True, **QUICK)
    with pytest.raises(ValueError, match="time is not sorted: 2007-11-01 comes after"):
        ctfa.labelled.fit(other.isel(time=slice(None, None, -1)), target="flow", **QUICK)


def test_unsorted_dates_as_objects_are_refused(dataset):
    dates = [pd.Timestamp(time).date() for time in dataset.time.values]
    other = dataset.assign_coords(time=np.array(dates, dtype=object))
    with pytest.raises(ValueError, match="time is not sorted"):
        ctfa.labelled.fit(other.isel(time=slice(None, None, -1)), target="flow", **QUICK)


def times(kind):
    """The months of the data as others have them."""
    months = pd.date_range("2000-01-01", periods=96, freq="MS")
    if kind in ("date32[pyarrow]", "timestamp[us][pyarrow]"):
        return pd.Index(months, dtype=kind)
    return {
        "dates": np.array([month.date() for month in months], dtype=object),
        "datetimes": np.array([month.to_pydatetime() for month in months], dtype=object),
        "periods": months.to_period("M"),
        "seconds": months.to_numpy().astype("M8[s]"),
    }[kind]


KINDS = ["dates", "datetimes", "periods", "seconds", "date32[pyarrow]", "timestamp[us][pyarrow]"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", ["month", "dayofyear"])
def test_dates_mean_the_same_whatever_holds_them(dataset, kind, part):
    dataset = dataset.assign_coords(time=pd.date_range("2000-01-01", periods=96, freq="MS"))
    frame, names = wide(dataset)
    other = frame.set_axis(pd.Index(times(kind), name="time")).reset_index()
    frame = frame.reset_index()
    options = {"target": names, "sample": "time", "features": ["warm", "wet"], "held_out": None}
    options |= {"anomalies": part, "detrend": True, "max_loss": 1.5}
    fit = ctfa.labelled.fit(frame, **options)
    again = ctfa.labelled.fit(other, **options)
    for asked in (fit, again):
        for given in (frame, other):
            np.testing.assert_allclose(asked.predict(given), fit.predict(frame), rtol=1e-9)


@pytest.mark.parametrize("calendar", ["noleap", "360_day", "julian", "standard"])
@pytest.mark.parametrize("of_fit", [True, False])
def test_a_model_of_one_calendar_is_asked_in_another(dataset, calendar, of_fit):
    pytest.importorskip("cftime")
    trend = dataset.flow + xr.DataArray(np.arange(96.0), dims="time")
    ours = dataset.assign(flow=trend).assign_coords(
        time=xr.date_range("2040-01-01 12:00", periods=96, freq="MS")
    )
    theirs = ours.assign_coords(
        time=xr.date_range(
            "2040-01-01 12:00", periods=96, freq="MS", calendar=calendar, use_cftime=True
        )
    )
    options = {"target": "flow", "anomalies": "month", "detrend": True, **QUICK}
    fit = ctfa.labelled.fit(ours if of_fit else theirs, **options)
    asked, expected = fit.predict(theirs), fit.predict(ours)
    # A trend of one a month; leap years move a calendar by a day or two, of 360 days by more.
    np.testing.assert_allclose(asked.values, expected.values, atol=0.5)


def test_a_cycle_closes_at_the_end_of_a_year_of_360_days(dataset):
    pytest.importorskip("cftime")
    days = xr.date_range("2000-12-29", periods=4, calendar="360_day", use_cftime=True)
    samples = xr.DataArray(days, dims="time", name="time")
    columns = Seasons("dayofyear").columns(samples)
    steps = np.abs(np.diff(columns, axis=0)).max(axis=1)
    np.testing.assert_allclose(steps, steps[0], rtol=0.1)


@pytest.mark.parametrize("part", ["season", "hour", "dayofyear"])
def test_other_parts_of_times_with_a_zone_are_known(dataset, part):
    frame, names = wide(dataset)
    options = {"target": names, "anomalies": part, "detrend": True, "held_out": None}
    plain = ctfa.labelled.fit(frame, max_loss=1.5, **options).predict(frame)
    here = frame.tz_localize("Europe/Madrid")
    zoned = ctfa.labelled.fit(here, max_loss=1.5, **options).predict(here)
    np.testing.assert_allclose(zoned.to_numpy(), plain.to_numpy())
    assert zoned.index.equals(here.index)


@pytest.mark.parametrize("kind", ["long", "wide", "polars"])
def test_months_are_those_of_the_time_zone(dataset, kind):
    """Midnight in Madrid on the first of a month is another month in Greenwich."""
    dataset = dataset.assign_coords(time=pd.date_range("2000-01-01", periods=96, freq="SMS"))
    table = dataset.to_dataframe().reset_index()
    if kind == "wide":
        frame, names = wide(dataset)
        here = frame.tz_localize("Europe/Madrid")
        options = {"target": names}
    else:
        frame = table
        here = table.assign(time=table.time.dt.tz_localize("Europe/Madrid"))
        options = {"target": "flow", "features": FEATURES, "sample": "time", "task": "basin"}
    if kind == "polars":
        frame = pl.DataFrame({name: frame[name].to_numpy() for name in frame.columns})
        zoned = pl.col("time").dt.replace_time_zone("Europe/Madrid")
        here = frame.with_columns(zoned)
    options |= {"anomalies": "month", "held_out": None, "max_loss": 1.5}
    plain = ctfa.labelled.fit(frame, **options).predict(frame)
    zoned = ctfa.labelled.fit(here, **options).predict(here)
    np.testing.assert_allclose(np.asarray(zoned), np.asarray(plain))


def test_a_feature_along_one_side_of_a_grid_predicts_as_it_was_fitted():
    rng = np.random.default_rng(0)
    dims = ("time", "lat", "lon")
    grid = xr.Dataset(
        {
            "y": (dims, rng.normal(size=(60, 3, 4))),
            "x": (dims, rng.normal(size=(60, 3, 4))),
            "zonal": (("time", "lat"), rng.normal(size=(60, 3))),
        },
        coords={"lat": [50.0, 45.0, 40.0], "lon": [0.0, 5.0, 10.0, 15.0]},
    )
    fit = ctfa.labelled.fit(grid, target="y", task=("lat", "lon"), **QUICK)
    predicted = fit.predict(grid)
    whole = grid.assign(zonal=grid.zonal.expand_dims(lon=grid.lon))
    xr.testing.assert_allclose(fit.predict(whole), predicted)
    xr.testing.assert_allclose(fit.predict(grid.chunk(time=20)).compute(), predicted)


def test_a_lazy_polars_table_is_read_without_a_warning(table):
    lazy = pl.DataFrame({name: table[name].to_numpy() for name in table.columns}).lazy()
    kwargs = {"target": "flow", "features": FEATURES, "sample": "time", "task": "basin"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = ctfa.labelled.fit(lazy, **kwargs | QUICK)
        assert len(fit.predict(lazy)) == len(table)


def test_columns_of_the_table_of_regions_are_single_words(dataset):
    short = dataset.isel(basin=slice(4))
    fit = ctfa.labelled.fit(short, target="flow", **QUICK | {"held_out": 3})
    columns = fit.region_table().columns
    assert "single_task_ridge_error" in columns
    assert not [name for name in columns if " " in name]


def test_the_page_and_the_summary_tell_the_same_mean_error(dataset):
    short = dataset.isel(basin=slice(6))
    weights = np.array([50.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    fit = ctfa.labelled.fit(short, target="flow", **QUICK | {"held_out": 3, "weights": weights})
    expected = np.average(fit.errors.ctfa_error, weights=weights)
    assert not np.isclose(expected, fit.errors.ctfa_error.mean(), rtol=0.01)
    assert f"held-out error {expected:.3f}" in str(fit)
    told = verdict(fit.report_material().held_out)
    assert told["error"]["ctfa"] == pytest.approx(expected)


def test_a_series_that_never_changes_is_left_out_or_refused(dataset):
    data = dataset.copy(deep=True)
    data.flow[:, 2] = 5.0
    with pytest.raises(ValueError, match=r"flow never changes in 1 basin: basin_03"):
        ctfa.labelled.fit(data, target="flow", **QUICK)
    found = ctfa.labelled.fit(data, target="flow", masked="leave", **QUICK)
    assert int(found.regions.sel(basin="basin_03")) == -1
    assert "1 basin where flow never changes, left out" in str(found)


def test_lazy_predictions_keep_the_chunks_of_rows(dataset):
    pytest.importorskip("dask")
    found = ctfa.labelled.fit(dataset, target="flow", **QUICK)
    lazy = found.predict(dataset.chunk(time=24, basin=3))
    assert lazy.chunks[0] == (24,) * 4


def test_a_table_indexed_by_time_and_task_is_a_long_one(dataset, table):
    indexed = dataset[["flow", *FEATURES]].to_dataframe()
    options = {"target": "flow", "features": FEATURES, "sample": "time", "task": "basin"}
    found = ctfa.labelled.fit(indexed, **options, **QUICK)
    pd.testing.assert_series_equal(
        found.regions, ctfa.labelled.fit(table, **options, **QUICK).regions
    )
    assert found.predict(indexed).index.equals(indexed.index)


def test_one_row_is_too_few_and_not_constant(dataset):
    with pytest.raises(ValueError, match="pass more rows"):
        ctfa.labelled.fit(dataset.isel(time=[0]), target="flow", **QUICK)


def test_folds_that_cannot_be_are_called_by_the_option_that_asked(dataset):
    with pytest.raises(ValueError, match="held_out=500 cannot split 96 rows"):
        ctfa.labelled.fit(dataset, target="flow", **QUICK | {"held_out": 500})


def test_a_map_without_places_says_what_is_missing(dataset):
    pytest.importorskip("matplotlib")
    model = ctfa.labelled.fit(dataset, target="flow", **QUICK).estimator
    with pytest.raises(ValueError, match="give places"):
        ctfa.plotting.plot_groups_map(model)
