"""Labelled data as people have them: in another order, of another calendar, half of it."""

import itertools
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest

import ctfa
from ctfa.labelled._labels import on_tasks
from ctfa.labelled._tasks import find_labels
from ctfa.labelled._times import Seasons
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


def test_a_trend_that_was_counted_from_another_day_is_refused(dataset):
    """Files of earlier versions: ordinals of Python, or of a calendar of cftime."""
    fit = ctfa.labelled.fit(dataset, target="flow", detrend=True, **QUICK)
    for more in (719_163.0, 709_200.0, 2_440_588.0):
        old = replace(fit.confounds, origin=fit.confounds.origin + more)
        with pytest.raises(ValueError, match=r"fitted by an earlier version, .* Fit it again"):
            replace(fit, confounds=old).predict(dataset)
    counted = dataset.assign_coords(time=np.arange(96) + 2_451_545)  # days that are numbers
    later = ctfa.labelled.fit(counted, target="flow", detrend=True, **QUICK)
    assert later.predict(counted.assign_coords(time=np.arange(96))).notnull().all()


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


@pytest.mark.more
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


@pytest.mark.more
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


@pytest.mark.more
@pytest.mark.parametrize("part", ["season", "hour", "dayofyear"])
def test_other_parts_of_times_with_a_zone_are_known(dataset, part):
    frame, names = wide(dataset)
    options = {"target": names, "anomalies": part, "detrend": True, "held_out": None}
    plain = ctfa.labelled.fit(frame, max_loss=1.5, **options).predict(frame)
    here = frame.tz_localize("Europe/Madrid")
    zoned = ctfa.labelled.fit(here, max_loss=1.5, **options).predict(here)
    np.testing.assert_allclose(zoned.to_numpy(), plain.to_numpy())
    assert zoned.index.equals(here.index)


@pytest.mark.more
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
    told = verdict(fit.report_material().held_out, fit.estimator.labels_)
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


# -- Coordinates that are the same places in other numbers -----------------------------------------

GRID = {"target": "flow", "task": ("lat", "lon"), "held_out": None, "max_loss": 1.5}


def fine_grid(n_samples=60):
    """Four by six cells a tenth of a degree wide, west of Greenwich, in two halves."""
    rng = np.random.default_rng(3)
    shape = (n_samples, 4, 6)
    heat, rain = rng.normal(size=(2, n_samples, 1, 1)) + 0.3 * rng.normal(size=(2, *shape))
    noise = rng.normal(size=shape)
    west = np.arange(6) < 3
    dims = ("time", "lat", "lon")
    return xr.Dataset(
        {
            "flow": (dims, np.where(west, heat - rain, 2 * rain - heat) + noise),
            "heat": (dims, heat),
            "rain": (dims, rain),
        },
        coords={
            "time": pd.date_range("2001-01-01", periods=n_samples, freq="MS"),
            "lat": np.linspace(35.0, 35.3, 4),
            "lon": np.linspace(-0.3, 0.2, 6),
        },
    )


def in_single_precision(grid):
    return grid.assign_coords(lat=grid.lat.astype("f4"), lon=grid.lon.astype("f4"))


def counted_up(grid):
    return grid.assign_coords(lat=np.arange(35.0, 35.35, 0.1), lon=-0.3 + 0.1 * np.arange(6))


def eastward(grid):
    return grid.assign_coords(lon=grid.lon % 360)


WAYS = {
    "single precision": in_single_precision,
    "counted up": counted_up,
    "0 to 360": eastward,
    "0 to 360 in single precision": lambda grid: in_single_precision(eastward(grid)),
    "from south and east": lambda grid: eastward(in_single_precision(grid)).sortby(["lat", "lon"]),
}


@pytest.fixture(scope="module")
def grid():
    return fine_grid()


@pytest.fixture(scope="module", params=["mean", "pool"])
def on_grid(request, grid):
    return ctfa.labelled.fit(grid, **GRID, neighbours="queen", aggregate=request.param)


@pytest.mark.more
@pytest.mark.parametrize("way", WAYS)
def test_places_are_found_in_other_numbers(on_grid, grid, way, tmp_path):
    other = WAYS[way](grid)
    other.to_netcdf(tmp_path / "other.nc", engine="h5netcdf")
    read = ctfa.labelled.read(tmp_path / "other.nc")
    expected = on_grid.predict(grid)
    xr.testing.assert_identical(on_grid.predict(read), expected)
    np.testing.assert_array_equal(on_grid.to_regions(read.flow), on_grid.to_regions(grid.flow))
    again = ctfa.labelled.fit(
        other, **GRID, neighbours="queen", aggregate=on_grid.estimator.aggregate_
    )
    xr.testing.assert_identical(again.predict(grid), again.predict(other))
    places = [again.tasks.position((35.1, lon)) for lon in (-0.2, 359.8, np.float32(-0.2))]
    assert len(set(places)) == 1
    assert str(again.why((35.1, -0.2))) == str(again.why((np.float32(35.1), 359.8)))


def test_coordinates_packed_as_short_integers_are_the_same_places(on_grid, grid, tmp_path):
    packed = {"dtype": "int16", "scale_factor": np.float32(0.1), "add_offset": np.float32(0.0)}
    path = tmp_path / "packed.nc"
    grid.to_netcdf(path, engine="h5netcdf", encoding={"lat": packed, "lon": packed})
    assert not np.array_equal(ctfa.labelled.read(path).lat, grid.lat)
    xr.testing.assert_identical(on_grid.predict(ctfa.labelled.read(path)), on_grid.predict(grid))


def test_places_in_other_numbers_are_found_in_chunks(on_grid, grid):
    pytest.importorskip("dask.array")
    lazy = on_grid.predict(WAYS["0 to 360 in single precision"](grid).chunk(time=25))
    assert lazy.chunks is not None
    xr.testing.assert_allclose(lazy.compute(), on_grid.predict(grid))


@pytest.mark.parametrize("off", [0.05, 0.03, 0.01, 0.002])
def test_cells_of_a_shifted_grid_are_other_places(on_grid, grid, off):
    with pytest.raises(ValueError, match="heat lacks all of the 4 values of lat"):
        on_grid.predict(grid.assign_coords(lat=grid.lat + off))


def test_codes_that_differ_by_one_are_other_tasks():
    grid = fine_grid().stack(cell=("lat", "lon")).drop_vars(["cell", "lat", "lon"])
    codes = 2080012340.0 + 10 * np.arange(24)
    options = {"target": "flow", "task": "cell", "held_out": None, "aggregate": "pool"}
    found = ctfa.labelled.fit(grid.assign_coords(cell=codes), **options, max_loss=1.5)
    with pytest.raises(ValueError, match="lacks all of the 24 values of cell"):
        found.predict(grid.assign_coords(cell=codes + 1))


def test_identifiers_read_as_floats_may_be_close():
    grid = fine_grid().stack(cell=("lat", "lon")).drop_vars(["cell", "lat", "lon"])
    codes = np.r_[2060000010.0 + 10 * np.arange(23), 2060990000.0]  # HydroBASINS
    found = ctfa.labelled.fit(
        grid.assign_coords(cell=codes), target="flow", task="cell", held_out=None, max_loss=1.5
    )
    assert found.tasks.n_tasks == 24


def test_features_of_other_places_each_are_refused_by_name():
    grid = fine_grid()
    found = ctfa.labelled.fit(grid, **GRID, aggregate="pool")
    apart = xr.merge([grid.heat[:, :2], grid.rain[:, 2:]], join="outer", compat="no_conflicts")
    asked = {"heat": apart.heat[:, :2], "rain": apart.rain[:, 2:]}
    coords = found.tasks.coords
    there = {dim: np.ones(coords.sizes[dim], dtype=bool) for dim in ("lat", "lon")}
    on_tasks(asked["heat"], coords, ("lat", "lon"), there)
    with pytest.raises(ValueError, match="no lat is in all features: rain has none of those"):
        on_tasks(asked["rain"], coords, ("lat", "lon"), there)


def test_a_turn_is_only_for_longitudes():
    grid = fine_grid().rename(lon="column")
    found = ctfa.labelled.fit(grid, **{**GRID, "task": ("lat", "column")}, aggregate="pool")
    turned = grid.assign_coords(column=grid.column % 360)
    with pytest.warns(UserWarning, match="has 3 of the 6 values of column that were fitted"):
        assert found.predict(turned).sizes["column"] == 3
    turned.column.attrs["units"] = "degrees_east"
    xr.testing.assert_identical(found.predict(turned), found.predict(grid))


def test_stacked_cells_are_found_in_other_numbers(grid):
    options = {**GRID, "task": "cell"}
    found = ctfa.labelled.fit(grid.stack(cell=("lat", "lon")), **options, aggregate="pool")
    other = WAYS["from south and east"](grid).stack(cell=("lat", "lon"))
    expected = found.predict(grid.stack(cell=("lat", "lon")))
    xr.testing.assert_identical(found.predict(other), expected)
    some = other.isel(cell=[7, 3, 20])
    xr.testing.assert_identical(found.predict(some), expected.isel(cell=[0, 10, 23]))


def test_arrays_of_unequal_numbers_are_fitted_as_one_grid(grid):
    features = [in_single_precision(grid).heat, WAYS["0 to 360"](grid).rain]
    options = {**GRID, "aggregate": "pool"} | {"target": None}
    found = ctfa.labelled.fit(grid.flow, features=features, **options)
    same = ctfa.labelled.fit(grid.flow, features=[grid.heat, grid.rain], **options)
    xr.testing.assert_identical(found.regions, same.regions)
    xr.testing.assert_identical(found.coef, same.coef)


@pytest.mark.parametrize("way", ["single precision", "0 to 360"])
def test_files_joined_by_unequal_numbers_are_refused(grid, way):
    joined = xr.merge([grid[["flow"]], WAYS[way](grid)[["heat", "rain"]]], join="outer")
    with pytest.raises(ValueError, match="which are the same place: files were joined"):
        ctfa.labelled.fit(joined, **GRID)


@pytest.mark.more
def test_weights_neighbours_and_polygons_are_found_in_other_numbers(grid):
    other = WAYS["0 to 360 in single precision"](grid)
    weight = grid.flow.isel(time=0, drop=True).copy(data=np.arange(1.0, 25).reshape(4, 6))
    same = weight.assign_coords(lat=other.lat, lon=other.lon)
    table = same.to_series()
    options = {**GRID, "aggregate": "mean"}
    by_array, by_other, by_label = (
        ctfa.labelled.fit(grid, **options, weights=given).weights for given in (weight, same, table)
    )
    np.testing.assert_array_equal(by_other, by_array)
    np.testing.assert_array_equal(by_label, by_array)
    cells = [(lat, lon) for lat in other.lat.values for lon in other.lon.values]
    pairs = list(itertools.pairwise(cells))
    chain = ctfa.labelled.fit(grid, **options, neighbours=pairs)
    np.testing.assert_array_equal(
        chain.estimator.targets_.connectivity.toarray(), np.eye(24, k=1) + np.eye(24, k=-1)
    )
    geopandas, shapely = pytest.importorskip("geopandas"), pytest.importorskip("shapely")
    boxes = [shapely.box(b - 0.05, a - 0.05, b + 0.05, a + 0.05) for a, b in cells]
    held = {"lat": [a for a, _ in cells], "lon": [b for _, b in cells]}
    frame = geopandas.GeoDataFrame(held, geometry=boxes, crs="EPSG:4326")
    mapped = ctfa.labelled.fit(grid, **options, places=frame.sample(frac=1, random_state=0))
    np.testing.assert_allclose(mapped.geometry.centres()[:, 1], np.repeat(grid.lat, 6), atol=1e-5)


def test_a_long_table_is_found_in_other_numbers(grid):
    table = grid.to_dataframe().reset_index()
    options = {**GRID, "features": ["heat", "rain"], "sample": "time", "aggregate": "pool"}
    found = ctfa.labelled.fit(table, **options)
    other = table.assign(lat=table.lat.astype("f4"), lon=(table.lon % 360).astype("f4"))
    pd.testing.assert_series_equal(found.predict(other), found.predict(table))
    some = other[(other.lat < 35.15) & (other.lon > 350)]
    np.testing.assert_array_equal(found.predict(some), found.predict(table)[some.index])


def test_rows_of_one_cell_in_other_numbers_are_refused_as_copies(grid):
    table = grid.isel(time=slice(40)).assign_coords(lon=np.arange(6.0)).to_dataframe().reset_index()
    options = {**GRID, "features": ["heat", "rain"], "sample": "time", "aggregate": "pool"}
    found = ctfa.labelled.fit(table, **options)
    turned = table[table.lon == 1].assign(heat=99.0)
    turned = turned.assign(lon=turned.lon + 360.0)
    twice = pd.concat([table, turned], ignore_index=True)
    with pytest.raises(
        ValueError, match=r"160 rows more than once .* 35, 361\) after \(.* 35, 1\)"
    ):
        found.predict(twice)


def test_levels_of_a_series_are_found_by_their_names(grid):
    values = grid.flow.isel(time=0, drop=True).copy(data=np.arange(1.0, 25).reshape(4, 6))
    other = values.assign_coords(lat=[0.0, 1.0, 2.0, 3.0], lon=np.arange(6.0))
    squares = grid.assign_coords(lat=other.lat, lon=other.lon).isel(lon=slice(4))
    by_lat = other.isel(lon=slice(4)).to_series()
    by_lon = by_lat.reorder_levels(["lon", "lat"]).sort_index()
    options = {**GRID, "aggregate": "pool"}
    found = ctfa.labelled.fit(squares, **options, weights=by_lon)
    expected = ctfa.labelled.fit(squares, **options, weights=by_lat)
    np.testing.assert_array_equal(found.weights, expected.weights)
    np.testing.assert_array_equal(found.to_regions(by_lon), found.to_regions(by_lat))


def test_a_missing_label_among_others_leaves_them_found(grid):
    tasks = ctfa.labelled.fit(grid, **GRID, aggregate="pool").tasks
    index = pd.Index(np.r_[grid.lon.values.astype("f4") + 360.0, np.nan], name="lon")
    for given, among, expected in (
        (index, tasks.coords.index("lon"), [0, 1, 2, 3, 4, 5, -1]),
        (tasks.coords.index("lon"), index, [0, 1, 2, 3, 4, 5]),
    ):
        np.testing.assert_array_equal(find_labels(given, among, {"lon"}), expected)


def test_labels_of_mixed_kinds_are_matched_to_outlines_as_they_are(grid):
    geopandas, shapely = pytest.importorskip("geopandas"), pytest.importorskip("shapely")
    labels = np.array(["A1", 5, "C"], dtype=object)
    basins = grid.isel(lat=0, lon=slice(3), drop=True).drop_vars("lon").rename(lon="basin")
    boxes = [shapely.box(k, 0, k + 1, 1) for k in range(3)]
    held = {"basin": labels, "area": [1.5, 2.5, 3.5]}
    outlines = geopandas.GeoDataFrame(held, geometry=boxes, crs="EPSG:4326")
    found = ctfa.labelled.fit(
        basins.assign_coords(basin=labels), **{**GRID, "task": "basin"}, places=outlines[::-1]
    )
    np.testing.assert_allclose(found.geometry.centres()[:, 0], [0.5, 1.5, 2.5])


def test_single_precision_is_called_by_its_short_name(grid):
    found = ctfa.labelled.fit(in_single_precision(grid), **GRID, aggregate="pool")
    assert found.tasks.names[6] == "35.1°N 0.3°W"
    assert "35.1°N 0.3°W" in str(found.why((35.1, -0.3)))


# -- Some of the tasks -----------------------------------------------------------------------------


@pytest.mark.parametrize("lazy", [False, True])
def test_a_window_of_a_grid_is_predicted_by_itself(grid, lazy):
    masked = grid.copy(deep=True)
    masked.flow[:, 1, 2] = np.nan
    found = ctfa.labelled.fit(masked, **GRID, aggregate="pool")
    window = {"lat": slice(1, 3), "lon": slice(2, 5)}
    given = in_single_precision(grid).isel(window)
    predicted = found.predict(given.chunk(time=7) if lazy else given)
    assert (predicted.chunks is not None) == lazy
    xr.testing.assert_identical(predicted.compute(), found.predict(grid).isel(window))
    assert np.isnan(predicted.values).any(axis=0).sum() == 1


def test_seasons_and_gaps_of_some_tasks_are_those_of_all(grid):
    found = ctfa.labelled.fit(grid, **GRID, anomalies="month", aggregate="pool", head="levels")
    window = grid.isel(lat=[2], lon=[0, 5])
    whole = found.predict(grid)
    np.testing.assert_allclose(found.predict(window), whole.isel(lat=[2], lon=[0, 5]), rtol=1e-12)
    window.heat[3, 0, 1] = np.nan
    with pytest.warns(RuntimeWarning, match="1 of 120 predictions are NaN"):
        assert np.isnan(found.predict(window).values).sum() == 1


def test_a_region_of_means_needs_all_its_members(grid):
    found = ctfa.labelled.fit(grid, **GRID, neighbours="queen", aggregate="mean")
    assert 1 < found.n_regions < 24
    with pytest.raises(ValueError, match="predicted from the mean features of all its members"):
        found.predict(grid.isel(lat=[0], lon=[0]))
    # The halves share no region, and one has all members of its own.
    half = found.predict(grid.isel(lon=slice(0, 3)))
    xr.testing.assert_identical(half, found.predict(grid).isel(lon=slice(0, 3)))
    table = grid.to_dataframe().reset_index()
    long = ctfa.labelled.fit(
        table, **GRID, features=["heat", "rain"], sample="time", aggregate="mean"
    )
    with pytest.raises(ValueError, match="predicted from the mean features of all its members"):
        long.predict(table[table.lat == 35.0])
    half = table[table.lon < -0.05]
    np.testing.assert_array_equal(long.predict(half), long.predict(table)[half.index])


@pytest.mark.more
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_some_basins_of_tables_come_back_by_themselves(dataset, table, library):
    options = {"target": "flow", "features": FEATURES, "sample": "time", "task": "basin"}
    options |= {**QUICK, "aggregate": "pool"}
    some = table[table.basin.isin(["basin_03", "basin_07"])]
    give = pl.from_pandas if library == "polars" else lambda frame: frame
    long = ctfa.labelled.fit(give(table), **options)
    whole = np.asarray(long.predict(give(table)))
    np.testing.assert_array_equal(long.predict(give(some)), whole[some.index])
    frame = table.pivot(index="time", columns="basin", values=["flow", *FEATURES])
    pairs = ctfa.labelled.fit(frame, target="flow", **{**QUICK, "aggregate": "pool"})
    chosen = frame.loc[:, (slice(None), ["basin_03", "basin_07"])]
    expected = pairs.predict(frame)[["basin_03", "basin_07"]]
    pd.testing.assert_frame_equal(pairs.predict(chosen), expected)


def test_features_that_all_share_need_no_tasks_and_predict_all(dataset):
    frame, names = wide(dataset)
    found = ctfa.labelled.fit(frame, target=names, held_out=None, max_loss=1.5)
    some = frame[["warm", "wet", *names[:2]]]
    pd.testing.assert_frame_equal(found.predict(some), found.predict(frame))


def test_cells_that_had_no_data_have_no_model(grid):
    masked = grid.copy(deep=True)
    masked.flow[:, 1, 2] = np.nan
    found = ctfa.labelled.fit(masked, **GRID, aggregate="pool")
    with pytest.raises(ValueError, match="every cell in the data to predict from was without data"):
        found.predict(grid.isel(lat=[1], lon=[2]))


# -- One level, one member of an ensemble ----------------------------------------------------------


def with_level(grid, dim="level", values=(1000,)):
    """As a reanalysis has it: time, level, latitude, longitude."""
    return xr.concat([grid.assign_coords({dim: v}) for v in values], dim).transpose(
        "time", dim, ...
    )


@pytest.mark.parametrize("dim", ["level", "number", "height", "of_its_own"])
@pytest.mark.parametrize("named", [False, True])
def test_a_level_of_one_value_is_left_out_and_said(grid, dim, named, tmp_path):
    path = tmp_path / "levels.nc"
    with_level(grid, dim).to_netcdf(path, engine="h5netcdf")
    read = ctfa.labelled.read(path)
    options = {**GRID, "aggregate": "pool"} | ({} if named else {"task": None})
    plain = ctfa.labelled.fit(grid, **options)
    found = ctfa.labelled.fit(read, **options)
    assert f"{dim} has one value (1000), and is left out" in found.notes
    xr.testing.assert_identical(found.regions, plain.regions)
    expected = plain.predict(grid)
    for model, given in ((found, read), (found, grid), (plain, read)):
        xr.testing.assert_identical(model.predict(given), expected)
    weighted = [
        ctfa.labelled.fit(grid, **options, weights=w).weights
        for w in (np.abs(read.flow.isel(time=0)), np.abs(grid.flow.isel(time=0)))
    ]
    np.testing.assert_array_equal(*weighted)


def test_of_several_levels_one_is_to_be_chosen(grid):
    levels = with_level(grid, values=(1000, 850))
    found = ctfa.labelled.fit(grid, **GRID, aggregate="pool")
    for call in (
        lambda: ctfa.labelled.fit(levels, **GRID),
        lambda: ctfa.labelled.fit(levels, **{**GRID, "task": None}),
        lambda: ctfa.labelled.fit(levels.isel(lat=0), **{**GRID, "task": None}),
        lambda: ctfa.labelled.fit(grid, **GRID, weights=np.abs(levels.flow.isel(time=0))),
        lambda: found.predict(levels),
    ):
        with pytest.raises(ValueError, match=r"sel\(level=|select={'level': 1000}"):
            call()
    with pytest.raises(ValueError, match=r"heat, rain have 2 values along 'level' each: choose"):
        ctfa.labelled.fit(grid.flow, features=[levels.heat, levels.rain], task=("lat", "lon"))


def test_a_side_of_a_grid_may_have_one_value(grid):
    row = ctfa.labelled.fit(grid.isel(lat=[1]), **{**GRID, "task": None}, aggregate="pool")
    assert row.regions.dims == ("lat", "lon")


def test_coordinates_of_one_value_do_no_harm(grid, tmp_path):
    """One row of cells, with its latitude; heights of 2 m and of 10 m, as of heat and of wind."""
    row = grid.isel(lat=1)
    flow, heat = row.flow.assign_coords(height=2.0), row.heat.assign_coords(height=10.0)
    options = {"held_out": None, "max_loss": 1.5, "aggregate": "pool"}
    found = ctfa.labelled.fit(flow, features=[heat], **options, neighbours="nearest:2")
    np.testing.assert_allclose(found.places().positions[:, 1], 35.1)
    assert found.predict(row[["heat"]].assign_coords(height=99.0)).height == 2.0
    found.report(tmp_path / "page.html")


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (
            {"neighbors": "rook"},
            r"no option 'neighbors' \(did you mean 'neighbours'\?\): it has tar",
        ),
        ({"Anomaly": "month"}, r"no option 'Anomaly' \(did you mean 'anomalies'\?\)"),
        ({"colour": 1}, r"no option 'colour': it has target, features, .*n_jobs\."),
    ],
)
def test_options_that_are_none_are_named_with_what_was_meant(grid, option, said):
    with pytest.raises(TypeError, match=said):
        ctfa.labelled.fit(grid, **GRID, **option)


def test_the_number_of_regions_follows_from_a_limit_of_the_path(grid):
    found = ctfa.labelled.fit(grid, **GRID, neighbours="queen", aggregate="pool")
    path = found.path()
    limit = path.max_loss[path.n_groups == 5].item()
    again = ctfa.labelled.fit(
        grid, **{**GRID, "max_loss": limit}, neighbours="queen", aggregate="pool"
    )
    assert again.n_regions == path.n_groups[path.max_loss <= limit].min() <= 5


@pytest.mark.more
def test_a_selection_takes_levels_spans_and_members_by_label(grid):
    heights = xr.DataArray(np.array([1000.0, 850.1], dtype="f4"), dims="level", name="level")
    levels = xr.concat([grid, grid * 2.0], heights).assign_coords(grid.coords)
    levels = levels.assign_coords(season=("time", levels.time.dt.season.values))
    first = levels.isel(level=0, drop=True)
    in_summer = levels.season.isin(["JJA", "MAM"]).values
    for select, chosen in (
        ({"level": 1000}, first),
        ({"level": "850.1"}, levels.isel(level=1, drop=True)),
        ({"level": 1e3, "time": "2001:2002"}, first.sel(time=slice("2001", "2002"))),
        ({"level": 1e3, "time": slice("2001-02", None)}, first.sel(time=slice("2001-02", None))),
        ({"level": 1e3, "season": ["JJA", "MAM"]}, first.isel(time=in_summer)),
        ({"level": 1e3, "lat": "35.1:36"}, first.isel(lat=slice(1, None))),
    ):
        fit = ctfa.labelled.fit(levels, select=select, **GRID)
        plain = ctfa.labelled.fit(chosen, **GRID)
        xr.testing.assert_identical(fit.regions, plain.regions)
        assert fit.span == plain.span
        assert fit.plan.select == (("level", str(select["level"])),)
        # Levels are chosen again in other data; rows are those of the data.
        expected = plain.predict(levels.isel(level=int(select["level"] == "850.1"), drop=True))
        xr.testing.assert_identical(fit.predict(levels), expected)
    with pytest.raises(ValueError, match=r"level=850.1 is selected, and level has 1000"):
        ctfa.labelled.fit(levels, select={"level": "850.1"}, **GRID).predict(levels.sel(level=1000))
    with pytest.raises(ValueError, match=r"select names 'levle' \(did you mean 'level'\?\)"):
        ctfa.labelled.fit(levels, select={"levle": 850}, **GRID)


def test_a_selection_goes_eastward_across_greenwich(grid):
    west = grid.lon.values[:2]
    turned = grid.assign_coords(lon=(grid.lon - west[1]) % 360.0).sortby("lon")
    fit = ctfa.labelled.fit(turned, select={"lon": f"{west[0] - west[1]}:0"}, **GRID)
    plain = ctfa.labelled.fit(grid.isel(lon=slice(0, 2)), **GRID)
    np.testing.assert_array_equal(fit.regions, plain.regions)


def test_a_selection_of_rows_of_a_table_is_made_again(table):
    both = pd.concat([table.assign(model="a"), table.assign(model="b", flow=0.0)])
    long = {"target": "flow", "sample": "time", "task": "basin", **QUICK}
    fit = ctfa.labelled.fit(pl.from_pandas(both), select={"model": "a"}, **long)
    plain = ctfa.labelled.fit(table, **long)
    assert [slot.name for slot in fit.plan.slots] == [slot.name for slot in plain.plan.slots]
    found = fit.predict(pl.from_pandas(both))
    np.testing.assert_array_equal(found.to_numpy(), plain.predict(table).to_numpy())


def test_what_a_file_says_of_its_axes_comes_before_names(grid):
    odd = grid.rename(time="lev", lat="number", lon="month").drop_vars("lev")
    odd = odd.assign_coords(when=("lev", grid.indexes["time"]))
    odd["number"].attrs |= {"axis": "Y", "standard_name": "latitude"}
    odd["month"].attrs["units"] = "degrees_east"
    odd["when"].attrs["standard_name"] = "time"
    odd["when_bnds"] = (("lev", "bnds"), np.zeros((odd.sizes["lev"], 2)))
    odd["when"].attrs["bounds"] = "when_bnds"
    fit = ctfa.labelled.fit(odd, target="flow", neighbours="nearest:3", anomalies="month", **QUICK)
    plain = ctfa.labelled.fit(
        grid, target="flow", neighbours="nearest:3", anomalies="month", **QUICK
    )
    np.testing.assert_array_equal(fit.regions, plain.regions)
    assert fit.plan.dims == ("lev", "number", "month")
    assert [slot.name for slot in fit.plan.slots] == [slot.name for slot in plain.plan.slots]
    assert fit.tasks.names == plain.tasks.names


def test_months_are_matched_whatever_day_stamps_them(grid):
    middle = grid[["heat"]].assign_coords(time=grid.indexes["time"] + pd.Timedelta("14D"))
    noleap = grid[["rain"]].convert_calendar("noleap", use_cftime=True)
    fit = ctfa.labelled.fit(grid.flow, features=[middle.heat, noleap.rain], **QUICK)
    plain = ctfa.labelled.fit(grid.flow, features=[grid.heat, grid.rain], **QUICK)
    np.testing.assert_array_equal(fit.regions, plain.regions)
    assert "rows of heat have other dates, and are matched by month" in fit.notes


def test_cells_of_a_curvilinear_grid_lie_where_they_are_said_to(grid):
    lat, lon = np.meshgrid(grid.lat, grid.lon, indexing="ij")
    n = grid.sizes["time"]
    every = {"XLAT": lat + 0.01 * lon, "XLONG": lon + 0.01 * lat}
    units = {"XLAT": "degree_north", "XLONG": "degree_east"}
    wrf = grid.drop_vars(["lat", "lon"]).rename(lat="south_north", lon="west_east")
    dims = ("time", "south_north", "west_east")
    for name, values in every.items():
        there = np.repeat(values[None], n, 0)
        wrf = wrf.assign_coords({name: (dims, there, {"units": units[name]})})
    fit = ctfa.labelled.fit(wrf, target="flow", neighbours="nearest:3", weights="area", **QUICK)
    places = fit.places()
    np.testing.assert_allclose(places.positions[:, 1], every["XLAT"].ravel())
    assert places.geographic
    assert places.cell is None
    turned = wrf.isel(south_north=slice(None, None, -1))
    with pytest.raises(ValueError, match="heat lies elsewhere: XLAT differs by up to"):
        fit.predict(turned)
    with pytest.raises(ValueError, match="rain lies elsewhere: XLAT differs"):
        ctfa.labelled.fit(wrf.flow, features=[wrf.heat, turned.rain], **QUICK)


@pytest.mark.more
def test_weights_may_be_of_latitudes_alone_and_have_other_names(grid):
    by_latitude = np.cos(np.deg2rad(grid.lat)) ** 2
    whole = by_latitude.broadcast_like(grid.flow.isel(time=0, drop=True))
    weights = [
        ctfa.labelled.fit(grid, **GRID, weights=given).weights
        for given in (by_latitude, whole.rename(lat="latitude", lon="longitude"), whole)
    ]
    np.testing.assert_array_equal(weights[0], weights[2])
    np.testing.assert_array_equal(weights[1], weights[2])


def test_places_called_in_the_plural_are_counted_so(grid):
    points = grid.stack(points=("lat", "lon")).reset_index("points")
    fit = ctfa.labelled.fit(points, target="flow", neighbours="nearest:3", **QUICK)
    assert str(fit).startswith("24 points -> ")


def test_polygons_are_found_by_longitudes_and_latitudes_of_other_names(grid):
    geopandas, shapely = pytest.importorskip("geopandas"), pytest.importorskip("shapely")
    lat, lon = (side.ravel() for side in np.meshgrid(grid.lat, grid.lon, indexing="ij"))
    cells = shapely.box(lon - 0.05, lat - 0.05, lon + 0.05, lat + 0.05)
    frame = geopandas.GeoDataFrame(
        {"longitude": lon % 360.0, "latitude": lat.astype("f4")}, geometry=cells, crs=4326
    )
    fit = ctfa.labelled.fit(grid, **GRID, neighbours=frame.iloc[::-1])
    plain = ctfa.labelled.fit(grid, **GRID, neighbours="rook")
    np.testing.assert_array_equal(fit.regions, plain.regions)
    moved = frame.assign(longitude=(lon + 0.05) % 360.0)
    said = r"no shape lies at lon=-0.3 \(the nearest it has is 359.75: more than rounding apart"
    with pytest.raises(ValueError, match=said):
        ctfa.labelled.fit(grid, **GRID, neighbours=moved)
