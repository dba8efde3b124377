"""Labelled data in, labelled results out: nothing is lost on the way."""

import dataclasses
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LinearRegression, Ridge, RidgeCV

import ctfa
from ctfa import CTFARegressor, MultiInputCTFARegressor, PooledCTFARegressor

xr = pytest.importorskip("xarray")
pytest.importorskip("geopandas")

FEATURES = ["temperature", "precipitation", "snow"]
QUICK = {"held_out": None, "max_loss": 1.5, "aggregate": "mean"}


def basins(n_basins=24, n_samples=96, **options):
    return ctfa.datasets.make_basins(n_basins, n_samples, 3, n_regions=3, random_state=0, **options)


@pytest.fixture(scope="module")
def world():
    return basins()


@pytest.fixture(scope="module")
def dataset(world):
    found = world.to_xarray()
    found.flow.attrs["long_name"] = "mean flow"
    found.time.attrs["axis"] = "T"
    return found


@pytest.fixture(scope="module")
def fit(dataset, world):
    return ctfa.labelled.fit(
        dataset,
        target="flow",
        sample="time",
        task="basin",
        neighbours=world.to_geopandas(),
        aggregate="mean",
        head="mean",
    )


def on_a_grid(seed=0, n_samples=80, masked=True):
    """Four by five cells in two halves, with an ocean of two cells."""
    rng = np.random.default_rng(seed)
    heat = rng.normal(size=(n_samples, 1, 1)) + 0.3 * rng.normal(size=(n_samples, 4, 5))
    rain = rng.normal(size=(n_samples, 1, 1)) + 0.3 * rng.normal(size=(n_samples, 4, 5))
    west = np.arange(5) < 3
    flow = np.where(west, heat - rain, -heat + 2 * rain) + rng.normal(size=heat.shape)
    if masked:
        flow[:, 0, 0] = flow[:, 3, 4] = np.nan
    coords = {
        "time": pd.date_range("1990-01-01", periods=n_samples, freq="MS"),
        "lat": np.array([45.0, 44.0, 43.0, 42.0], dtype=np.float32),
        "lon": np.array([-2.0, -1.0, 0.0, 1.0, 2.0]),
    }
    dims = ("time", "lat", "lon")
    held = {"flow": (dims, flow), "heat": (dims, heat), "rain": (dims, rain)}
    found = xr.Dataset(held, coords=coords)
    return found.assign_coords(height=(("lat", "lon"), np.ones((4, 5)), {"units": "m"}))


def test_the_same_as_the_estimator_by_hand(fit, world):
    aggregator = ctfa.TargetAggregator(connectivity=world.connectivity)
    model = MultiInputCTFARegressor(world.layout, targets=aggregator, aggregate="mean", head="mean")
    model.fit(world.data, world.target)
    np.testing.assert_array_equal(fit.regions.values, model.labels_)
    np.testing.assert_allclose(fit.predict(world.to_xarray()), model.predict(world.data))


def test_regions_keep_every_coordinate_of_the_tasks(fit, dataset):
    regions = fit.regions
    assert regions.dims == ("basin",)
    assert regions.dtype == np.int64
    for name in ("basin", "lon", "lat", "elevation"):
        xr.testing.assert_identical(regions[name].variable, dataset[name].variable)
        assert regions[name].dtype == dataset[name].dtype


def test_predictions_keep_name_units_order_and_coordinates(fit, dataset):
    predicted = fit.predict(dataset)
    assert predicted.name == "flow"
    assert predicted.attrs == dataset.flow.attrs
    assert predicted.dims == dataset.flow.dims
    for name in dataset.coords:
        xr.testing.assert_identical(predicted[name].variable, dataset[name].variable)
    turned = dataset.transpose("basin", "time")
    refit = ctfa.labelled.fit(turned, target="flow", sample="time", task="basin", **QUICK)
    assert refit.predict(turned).dims == ("basin", "time")


def test_lazy_in_lazy_out(fit, dataset):
    dask = pytest.importorskip("dask.array")
    lazy = fit.predict(dataset.chunk(time=10, basin=7))
    assert isinstance(lazy.data, dask.Array)
    xr.testing.assert_allclose(lazy.compute(), fit.predict(dataset))


def test_tasks_are_matched_by_label_in_any_order(fit, dataset):
    shuffled = dataset.isel(basin=np.random.default_rng(1).permutation(dataset.sizes["basin"]))
    xr.testing.assert_allclose(fit.predict(shuffled), fit.predict(dataset))
    with pytest.raises(ValueError, match=r"temperature lacks all of the 24 values of basin"):
        fit.predict(dataset.assign_coords(basin=np.arange(24)))


def test_a_grid_keeps_its_ocean_apart():
    grid = on_a_grid()
    found = ctfa.labelled.fit(
        grid, target="flow", task=("lat", "lon"), neighbours="rook", max_loss=1.5
    )
    assert found.regions.dims == ("lat", "lon")
    ocean = np.isnan(grid.flow).all("time")
    np.testing.assert_array_equal(found.regions == -1, ocean)
    assert found.regions.lat.dtype == np.float32
    assert "height" in found.regions.coords
    predicted = found.predict(grid)
    np.testing.assert_array_equal(np.isnan(predicted).all("time"), ocean)
    assert found.tasks.n_masked == 2
    assert "2 cells of 20 without data" in str(found)


def test_a_grid_and_its_stack_give_the_same_regions():
    grid = on_a_grid()
    options = {"target": "flow", "neighbours": "queen", **QUICK}
    gridded = ctfa.labelled.fit(grid, task=("lat", "lon"), **options)
    stacked = grid.stack(cell=("lat", "lon"))
    listed = ctfa.labelled.fit(stacked, task="cell", masked="leave", **options)
    assert listed.regions.indexes["cell"].equals(stacked.indexes["cell"])
    xr.testing.assert_equal(
        listed.regions.unstack("cell").sel(lat=grid.lat, lon=grid.lon).drop_vars("height"),
        gridded.regions.drop_vars("height"),
    )
    assert str(listed.why((44.0, 1.0))) == str(gridded.why((44.0, 1.0)))


def test_means_of_regions_and_back():
    grid = on_a_grid()
    found = ctfa.labelled.fit(grid, target="flow", task=("lat", "lon"), **QUICK)
    means = found.to_regions(grid.flow)
    assert means.dims == ("region", "time")
    assert means.attrs == grid.flow.attrs
    region = int(found.regions.sel(lat=44.0, lon=2.0))
    by_hand = grid.flow.where(found.regions == region).mean(("lat", "lon"))
    np.testing.assert_allclose(means.sel(region=region), by_hand)
    back = found.to_tasks(means)
    assert back.dims == grid.flow.dims
    xr.testing.assert_allclose(found.to_regions(back), means)
    assert np.isnan(back.sel(lat=45.0, lon=-2.0)).all()


def test_an_all_nan_basin_is_refused_and_can_be_left():
    data = basins().to_xarray()
    data.flow[:, 5] = np.nan
    with pytest.raises(ValueError, match=r"1 basin without a single value: basin_06"):
        ctfa.labelled.fit(data, target="flow", **QUICK)
    found = ctfa.labelled.fit(data, target="flow", masked="leave", **QUICK)
    assert int(found.regions.sel(basin="basin_06")) == -1
    assert np.isnan(found.predict(data).sel(basin="basin_06")).all()


@pytest.mark.more
def test_gaps_are_gaps_and_no_mask():
    data = basins(gaps=0.03).to_xarray()
    with pytest.warns(RuntimeWarning, match="predictions are NaN"):
        found = ctfa.labelled.fit(data, target="flow", **QUICK).predict(data)
    assert 0.0 < float(np.isnan(found).mean()) < 0.5
    summary = str(ctfa.labelled.fit(data, target="flow", **QUICK))
    assert "of flow missing" in summary
    assert "masked" not in summary


def test_a_feature_without_tasks_is_shared(dataset):
    data = dataset[["flow"]].assign(
        heat=dataset.temperature.mean("basin"), rain=dataset.precipitation.mean("basin")
    )
    found = ctfa.labelled.fit(data, target="flow", **QUICK)
    assert isinstance(found.estimator, CTFARegressor)
    mixed = ctfa.labelled.fit(data.assign(snow=dataset.snow), target="flow", **QUICK)
    assert isinstance(mixed.estimator, MultiInputCTFARegressor)
    assert mixed.estimator.layout_.max() == 25
    xr.testing.assert_allclose(
        mixed.predict(data.assign(snow=dataset.snow).chunk(time=9)),
        mixed.predict(data.assign(snow=dataset.snow)),
    )


def test_features_along_a_dimension_of_one_array(dataset):
    drivers = dataset[FEATURES].to_dataarray("driver")
    found = ctfa.labelled.fit(dataset.flow, features=drivers, **QUICK)
    named = ctfa.labelled.fit(dataset, target="flow", features=FEATURES, **QUICK)
    assert list(found.coef.feature.values) == FEATURES
    xr.testing.assert_equal(found.regions, named.regions)
    xr.testing.assert_equal(found.predict(drivers), named.predict(dataset))


def test_only_common_rows_are_used_and_said(dataset):
    later = dataset[FEATURES].isel(time=slice(10, None))
    found = ctfa.labelled.fit(dataset.flow, features=later, **QUICK)
    assert found.span[2] == 86
    assert "10 of 96 rows have no features" in str(found)
    other = later.assign_coords(time=later.time + np.timedelta64(40000, "D"))
    with pytest.raises(ValueError, match="have no time in common"):
        ctfa.labelled.fit(dataset.flow, features=other, **QUICK)


@pytest.mark.more
@pytest.mark.parametrize("shared", [True, False])
def test_what_is_not_asked_for_depends_on_whether_tasks_share_features(dataset, shared):
    drivers = [dataset[name].mean("basin") if shared else dataset[name] for name in FEATURES]
    model = ctfa.labelled.fit(dataset.flow, features=drivers, **QUICK).estimator
    asked = model.head, model.features, model.targets.regressor
    assert asked == ("levels", None if shared else "passthrough", None)
    options = {"head": "mean", "merge_features": True, "solver": "ridge"}
    other = ctfa.labelled.fit(dataset.flow, features=drivers, **QUICK, **options).estimator
    asked = other.head, type(other.features), type(other.targets.regressor)
    assert asked == ("mean", ctfa.FeatureAggregator, RidgeCV)


def test_coefficients_are_those_of_the_regressors(fit):
    coef, error = fit.coef, fit.coef_error
    assert coef.dims == ("region", "feature")
    assert list(coef.feature.values) == FEATURES
    assert list(coef.feature_units.values) == ["degC", "mm", "mm"]
    for group, regressor in enumerate(fit.estimator.regressors_):
        np.testing.assert_allclose(coef.sel(region=group), regressor.coef_)
    assert (error > 0.0).all()


def test_standard_errors_are_those_of_least_squares():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = X @ [1.0, -2.0] + rng.normal(size=60)
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y})
    found = ctfa.labelled.fit(
        frame, target=["y"], features=["a", "b"], held_out=None, standardise=False,
        merge_features=False, regressor=LinearRegression(),
    )  # fmt: skip
    columns = np.column_stack([np.ones(60), X])
    coef, rss, *_ = np.linalg.lstsq(columns, y, rcond=None)
    covariance = rss[0] / 57 * np.linalg.inv(columns.T @ columns)
    np.testing.assert_allclose(found.coef.to_numpy()[0], coef[1:])
    np.testing.assert_allclose(found.coef_error.to_numpy()[0], np.sqrt(np.diag(covariance))[1:])


def test_pooled_standard_errors_count_a_row_once(dataset):
    """Copies of a basin add no information, and do not shrink the errors."""
    one = dataset.isel(basin=[0])
    copies = xr.concat([one.assign_coords(basin=[f"b{k}"]) for k in range(4)], "basin")
    options = {"target": "flow", "aggregate": "pool", "held_out": None, "max_loss": np.inf}
    alone = ctfa.labelled.fit(one, **options).coef_error.values[0]
    many = ctfa.labelled.fit(copies, **options).coef_error.values[0]
    np.testing.assert_allclose(many, alone, rtol=0.2)  # half of it, were copies draws


def dummy_errors(X, y, columns):
    """Standard errors of least squares on X beside an intercept and other columns."""
    design = np.column_stack([X, columns])
    coef = np.linalg.lstsq(design, y, rcond=None)[0]
    spare = len(y) - np.linalg.matrix_rank(design)
    covariance = np.linalg.pinv(design.T @ design) * ((y - design @ coef) ** 2).sum() / spare
    return np.sqrt(np.diag(covariance))[: X.shape[1]]


def test_standard_errors_of_anomalies_pay_for_the_months():
    rng = np.random.default_rng(0)
    time = pd.date_range("2000-01-01", periods=36, freq="MS")
    X = rng.normal(size=(36, 2))
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": X @ [1.0, -2.0] + rng.normal(size=36)})
    frame["time"] = time
    found = ctfa.labelled.fit(
        frame, target=["y"], features=["a", "b"], sample="time", anomalies="month",
        held_out=None, standardise=False, merge_features=False, max_loss=1.5,
        regressor=LinearRegression(),
    )  # fmt: skip
    expected = dummy_errors(X, frame["y"].to_numpy(), np.eye(12)[time.month - 1])
    np.testing.assert_allclose(found.coef_error.to_numpy()[0], expected)


def test_a_feature_that_says_nothing_leaves_the_others_their_standard_errors(dataset):
    """A constant feature, and one that the season says all of, had left no feature an error."""
    month = xr.ones_like(dataset.snow) * np.sin(dataset.time.dt.month)
    plain = ctfa.labelled.fit(dataset, target="flow", anomalies="month", **QUICK)
    more = ctfa.labelled.fit(
        dataset.assign(month=month), target="flow", anomalies="month", **QUICK
    )  # fmt: skip
    error = more.coef_error.sel(feature=FEATURES)
    np.testing.assert_allclose(error, plain.coef_error.sel(feature=FEATURES), rtol=1e-6)
    assert more.coef_error.sel(feature="month").isnull().all()
    told = "no standard errors: features that never change or depend on others have none"
    assert more.coef_error.attrs["comment"].endswith(told)
    assert f"coefficients: {told}" in more.notes
    assert "no standard errors" not in plain.coef_error.attrs["comment"]
    assert "comment" not in more.coef.attrs


def test_dependent_features_have_no_standard_error_and_others_have(dataset):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*condition number", RuntimeWarning)
        fit = ctfa.labelled.fit(
            dataset.assign(twice=2.0 * dataset.snow), target="flow", **QUICK
        )  # fmt: skip
    missing = fit.coef_error.isnull().all("region")
    assert list(missing.feature.values[missing]) == ["snow", "twice"]
    assert (fit.coef_error.sel(feature=FEATURES[:2]) > 0.0).all()


def test_a_regressor_without_standard_errors_says_so(dataset, tmp_path):
    fit = ctfa.labelled.fit(dataset, target="flow", regressor=Ridge(1.0), **QUICK)
    told = "no standard errors: they are of least squares, and the regressor is Ridge"
    assert fit.coef_error.isnull().all()
    assert fit.coef_error.attrs["comment"].endswith(told)
    assert f"coefficients: {told}" in fit.notes
    fit.save(tmp_path / "m.ctfa")
    assert ctfa.labelled.load(tmp_path / "m.ctfa").coef_error.attrs["comment"].endswith(told)
    assert told in fit.report(tmp_path / "page.html").read_text(encoding="utf-8")


def test_shared_coefficients_of_data_in_chunks_say_why_they_have_no_standard_errors():
    pytest.importorskip("dask")
    dataset = basins(6, 600).to_xarray()
    options = QUICK | {"target": "flow", "aggregate": "pool", "anomalies": "month"}
    fit = ctfa.labelled.fit(dataset.chunk(time=100), **options)
    assert any("in 2 of 3 groups: members share" in note for note in fit.notes)
    assert any("which sums of data in chunks do not hold" in note for note in fit.notes)
    loaded = ctfa.labelled.fit(dataset, **options)
    assert (loaded.coef_error > 0.0).all()
    assert not any("standard errors" in note for note in loaded.notes)


@pytest.mark.more
def test_held_out_errors_are_of_models_that_saw_no_test_row(dataset):
    """The ctfa errors equal those of fitting each training part by hand."""
    found = ctfa.labelled.fit(dataset, target="flow", **QUICK | {"held_out": 4})
    errors = np.zeros(24)
    for rows in np.array_split(np.arange(96), 4):
        train = dataset.isel(time=np.setdiff1d(np.arange(96), rows))
        by_hand = ctfa.labelled.fit(train, target="flow", **QUICK)
        gap = by_hand.predict(dataset.isel(time=rows)) - dataset.flow.isel(time=rows)
        errors += (gap**2).sum("time").values / 96
    np.testing.assert_allclose(found.errors.ctfa_error, errors / dataset.flow.var("time").values)
    assert (found.errors.gain == found.errors.single_task_error - found.errors.ctfa_error).all()
    assert "4 blocks" in found.errors.attrs["held_out"]


@pytest.mark.parametrize(
    "options",
    [{"anomalies": "month"}, {"anomalies": "dayofyear"}, {"detrend": True},
     {"anomalies": "season", "detrend": True, "aggregate": "pool"}],
)  # fmt: skip
def test_seasons_and_trends_change_no_decision_and_come_back(dataset, options):
    options = QUICK | options
    found = ctfa.labelled.fit(dataset, target="flow", **options)
    season = 10.0 * np.cos(2 * np.pi * dataset.time.dt.dayofyear / 365.25)
    trend = (dataset.time - dataset.time[0]) / np.timedelta64(1000, "D")
    kind = options.get("anomalies")
    added = trend if kind is None else (dataset.time.dt.month % 12 // 3) * 3.0
    added = season if kind == "dayofyear" else added
    moved = dataset.assign(flow=dataset.flow + added, snow=dataset.snow - 3.0 * added)
    again = ctfa.labelled.fit(moved, target="flow", **options)
    xr.testing.assert_equal(again.regions, found.regions)
    back = again.predict(moved) - added
    xr.testing.assert_allclose(back, found.predict(dataset), atol=1e-6)
    xr.testing.assert_allclose(again.predict(moved.chunk(time=11)), again.predict(moved))


def test_anomalies_without_dates_say_so(dataset):
    counted = dataset.assign_coords(time=np.arange(96))
    with pytest.raises(ValueError, match="need dates along 'time'"):
        ctfa.labelled.fit(counted, target="flow", anomalies="month", **QUICK)
    assert ctfa.labelled.fit(counted, target="flow", detrend=True, **QUICK).n_regions


@pytest.mark.more
def test_long_tables_come_back_row_by_row(dataset):
    table = dataset.to_dataframe().reset_index()
    options = {"target": "flow", "features": FEATURES, "sample": "time", "task": "basin", **QUICK}
    by_table = ctfa.labelled.fit(table, **options)
    by_array = ctfa.labelled.fit(dataset, **{**options, "features": FEATURES})
    assert isinstance(by_table.regions, pd.Series)
    np.testing.assert_array_equal(by_table.regions, by_array.regions)
    shuffled = table.sample(frac=1.0, random_state=0)
    predicted = by_table.predict(shuffled)
    assert predicted.index.equals(shuffled.index)
    expected = by_array.predict(dataset).to_series()
    keys = pd.MultiIndex.from_frame(shuffled[["time", "basin"]])
    np.testing.assert_allclose(predicted, expected.reindex(keys))
    # Places of the tasks are found in the table too.
    assert by_table.places() is not None
    again = ctfa.labelled.fit(shuffled, **options)
    assert again.n_regions == by_table.n_regions


@pytest.mark.more
def test_polars_tables_give_polars_results(dataset):
    table = pl.from_pandas(dataset.to_dataframe().reset_index())
    options = {"target": "flow", "features": FEATURES, "sample": "time", "task": "basin"}
    found = ctfa.labelled.fit(table, max_loss=1.5, held_out=3, **options)
    assert isinstance(found.predict(table), pl.Series)
    assert found.predict(table).len() == table.height
    assert isinstance(found.errors, pl.DataFrame)
    assert isinstance(found.coef, pl.DataFrame)


def test_wide_tables_share_their_features():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(80, 3)), columns=["a", "b", "c"])
    for name in ("one", "two"):
        frame[name] = frame.a - frame.b + rng.normal(size=80)
    frame["three"] = 5.0 * frame.c + rng.normal(size=80)
    frame.index = pd.date_range("2000", periods=80, name="day")
    found = ctfa.labelled.fit(frame, target=["one", "two", "three"], held_out=None)
    assert isinstance(found.estimator, CTFARegressor)
    assert found.regions.to_dict() == {"one": 0, "two": 0, "three": 1}
    predicted = found.predict(frame[["a", "b", "c"]])
    assert list(predicted.columns) == ["one", "two", "three"]
    assert predicted.index.equals(frame.index)
    assert "mean of one" not in str(found.why("two"))


def test_columns_in_pairs_bring_inputs_of_their_own(dataset):
    parts = {name: dataset[name].to_pandas() for name in ["flow", *FEATURES]}
    table = pd.concat(parts, axis=1)
    found = ctfa.labelled.fit(table, target="flow", **QUICK)
    by_array = ctfa.labelled.fit(dataset, target="flow", **QUICK)
    np.testing.assert_array_equal(found.regions, by_array.regions)
    predicted = found.predict(table)
    np.testing.assert_allclose(predicted, by_array.predict(dataset).values)
    assert list(predicted.columns) == list(dataset.basin.values)


def test_rows_of_their_own_are_pooled():
    rng = np.random.default_rng(0)
    school = np.repeat(["a", "b", "c"], [30, 12, 40])
    x = rng.normal(size=82)
    y = x * np.where(school == "c", -2.0, 2.0) + (school == "a") + rng.normal(size=82)
    table = pd.DataFrame({"school": school, "x": x, "score": y})
    found = ctfa.labelled.fit(table, target="score", features="x", task="school")
    assert isinstance(found.estimator, PooledCTFARegressor)
    assert found.regions.to_dict() == {"a": 0, "b": 0, "c": 1}
    by_hand = PooledCTFARegressor().fit(x[:, None], y, tasks=school)
    np.testing.assert_allclose(found.predict(table), by_hand.predict(x[:, None], tasks=school))
    assert (found.coef_error > 0.0).all(axis=None)
    assert "a" in str(found.why("b"))
    assert found.errors.shape == (3, 7)
    assert f"skill {found.held_out.mean_skill('ctfa'):.2f} against the mean of the" in str(found)


def test_area_weights_come_from_latitude():
    grid = on_a_grid()
    options = {"target": "flow", "task": ("lat", "lon"), "held_out": None, "max_loss": np.inf}
    found = ctfa.labelled.fit(grid, weights="area", neighbours="rook", **options)
    cosine = np.cos(np.radians(grid.lat)) * xr.ones_like(grid.lon)
    mean = grid.flow.weighted(cosine).mean(("lat", "lon"))
    xr.testing.assert_allclose(found.to_regions(grid.flow).isel(region=0, drop=True), mean)


def test_weights_of_ones_own_are_those_of_the_same_areas():
    grid = on_a_grid()
    options = {"target": "flow", "task": ("lat", "lon"), "held_out": None, "max_loss": np.inf}
    cosine = np.cos(np.radians(grid.lat)) * xr.ones_like(grid.lon)
    by_area = ctfa.labelled.fit(grid, weights="area", neighbours="rook", **options)
    for own in (cosine, cosine.values.ravel()[by_area.tasks.kept]):
        found = ctfa.labelled.fit(grid, weights=own, neighbours="rook", **options)
        np.testing.assert_allclose(found.weights, by_area.weights)
        assert "tasks have weights" in found.notes


def test_a_result_prints_what_matters(fit):
    text = str(fit)
    assert "24 basins -> " in text
    assert "held-out error" in text
    assert "single-task" in text
    assert "helped" in text


def test_why_takes_labels_and_refuses_others(fit):
    assert "basin_03" in str(fit.why("basin_03"))
    with pytest.raises(KeyError, match="there is no basin 'basin_99' among the 24"):
        fit.why("basin_99")


def test_a_saved_result_says_and_predicts_the_same(fit, dataset, tmp_path):
    fit.save(tmp_path / "fit.ctfa")
    loaded = ctfa.labelled.load(tmp_path / "fit.ctfa")
    assert str(loaded) == str(fit)
    xr.testing.assert_identical(loaded.predict(dataset), fit.predict(dataset))
    xr.testing.assert_identical(loaded.regions, fit.regions)
    xr.testing.assert_identical(loaded.coef, fit.coef)
    xr.testing.assert_identical(loaded.errors, fit.errors)
    assert str(loaded.why("basin_05")) == str(fit.why("basin_05"))
    assert loaded.region_table().equals(fit.region_table())


def test_regions_have_outlines(fit):
    table, outlines = fit.region_table(), fit.region_outlines()
    assert len(table) == 24
    assert len(outlines) == fit.n_regions
    assert table.crs == outlines.crs
    assert outlines.n_tasks.sum() == 24
    assert outlines.geometry.is_valid.all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: (d, {"target": "flo"}), r"no variable 'flo' \(did you mean 'flow'\?\)"),
        (lambda d: (d, {"features": ["rain"]}), "no variable 'rain'"),
        (lambda d: (d, {"sample": "day"}), "sample is 'day', but flow has dimensions"),
        (lambda d: (d, {"task": "station"}), "task is 'station'"),
        (lambda d: (d.expand_dims(level=2), {}), r"besides time and basin there is level"),
        (lambda d: (d.isel(time=[0, 1, 1, 2]), {}), "time has 1 value more than once"),
        (lambda d: (d.isel(time=[0, 2, 1]), {}), "time is not sorted"),
        (lambda d: (d.assign(flow=d.flow.astype(str)), {}), "flow holds text, not numbers"),
        (lambda d: (d.assign(snow=d.snow / 0.0), {}), "snow holds .* infinite"),
        (lambda d: (d, {"features": ["elevation"]}), "none along 'time'"),
        (lambda d: (d, {"features": ["flow", "snow"]}), "is the target and a feature too"),
        (lambda d: (d, {"features": ["snow", "snow"]}), "feature snow is given twice"),
        (lambda d: (d, {"masked": "yes"}), "masked='yes' is not known"),
        (lambda d: (d, {"solver": "lasso"}), "solver='lasso' is not known"),
        (lambda d: (d, {"head": "median"}), "head='median' is not known"),
        (lambda d: (d, {"anomalies": "week"}), "anomalies='week' is not known"),
        (lambda d: (d, {"weights": [1.0, 2.0]}), r"weights has shape \(2,\)"),
        (lambda d: (d, {"held_out": "some"}), "held_out='some' is not known"),
        (lambda d: (d.isel(time=slice(1)), {}), "1 "),
        (lambda d: (3.0, {}), "the data is of type float"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_said_in_a_sentence(dataset, change, message):
    data, options = change(dataset)
    kwargs = {"target": "flow", **QUICK, **options}
    if "task" not in options and hasattr(data, "sizes") and "level" in data.sizes:
        kwargs["task"] = "basin"
    with pytest.raises(ValueError, match=message):
        ctfa.labelled.fit(data, **kwargs)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: (t, {"target": "flou"}), "no column 'flou'"),
        (lambda t: (pd.concat([t, t.head(2)]), {}), "2 rows more than once"),
        (lambda t: (t.assign(snow="much"), {}), "snow holds 'much', which is not a number"),
        (lambda t: (t.assign(basin=None), {}), "rows without a basin"),
        (lambda t: (t.head(0), {}), "no rows"),
    ],
)
def test_tables_that_cannot_be_meant_are_refused(dataset, change, message):
    table, options = change(dataset.to_dataframe().reset_index())
    kwargs = {"target": "flow", "features": FEATURES, "sample": "time", "task": "basin"}
    with pytest.raises(ValueError, match=message):
        ctfa.labelled.fit(table, **kwargs | QUICK | options)


def test_tasks_that_are_called_region_keep_their_name(dataset):
    data = dataset.rename(basin="region")
    found = ctfa.labelled.fit(data, target="flow", neighbours="nearest:4", **QUICK)
    assert found.regions.dims == ("region",)
    assert found.regions.name == "group"
    assert found.coef.dims == ("group", "feature")
    assert list(found.region_table().columns[:1]) == ["region"]
    assert found.to_regions(data.flow).dims == ("group", "time")
    assert found.to_tasks(found.to_regions(data.flow)).dims == data.flow.dims


def test_dates_as_people_write_them_are_refused_as_text(dataset):
    table = dataset.to_dataframe().reset_index()
    written = table.assign(time=table.time.dt.strftime("%d/%m/%Y"))
    options = {"target": "flow", "features": FEATURES, "sample": "time", "task": "basin"}
    with pytest.raises(ValueError, match="sorts by letters and not by date"):
        ctfa.labelled.fit(written, **options, **QUICK)
    iso = table.assign(time=table.time.dt.strftime("%Y-%m-%d"))
    assert ctfa.labelled.fit(iso, **options, **QUICK).span[2] == 96


@pytest.mark.more
def test_a_model_without_skill_is_called_so():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(80, 6)), columns=["a", "b", "u", "v", "w", "x"])
    found = ctfa.labelled.fit(frame, target=["u", "v", "w", "x"], features=["a", "b"])
    assert found.held_out.mean_skill("ctfa") < 0.02
    assert "add next to nothing" in str(found)
    assert "add next to nothing" in ctfa.report.collect(found)["headline"]


def with_seasons(n_years):
    """A grid whose months differ by far more than its features explain; few years to learn from."""
    data = on_a_grid(n_samples=12 * n_years)
    month = data.time.dt.month.values
    return data.assign(flow=data.flow + 20.0 * np.cos(month * np.pi / 6.0)[:, None, None])


def climatology_apart(values, keys, n_blocks=5):
    """Mean squared errors of the means of the other blocks, by key, over blocks in turn."""
    squares = np.full(values.shape, np.nan)
    for block in np.array_split(np.arange(len(values)), n_blocks):
        rest = np.setdiff1d(np.arange(len(values)), block)
        for key in np.unique(keys):
            here, there = block[keys[block] == key], rest[keys[rest] == key]
            squares[here] = (values[here] - values[there].mean(axis=0)) ** 2
    return squares.mean(axis=0)


@pytest.mark.more
@pytest.mark.parametrize("anomalies", [None, "month", "season"])
def test_skill_is_against_the_climatology_of_the_training_rows(anomalies):
    data = with_seasons(8)
    options = {"target": "flow", "task": ("lat", "lon"), "aggregate": "mean"}
    found = ctfa.labelled.fit(data, anomalies=anomalies, **options)
    month = data.time.dt.month.values
    keys = {None: month, "month": month, "season": month % 12 // 3}[anomalies]
    series = found.tasks.gather(data.flow.transpose("lat", "lon", "time").values).T
    left = series - np.array([series[keys == key].mean(axis=0) for key in keys])
    if anomalies is None:  # in units of what the model was fitted to
        left = series - series.mean(axis=0)
    errors = climatology_apart(series, keys) / left.var(axis=0)
    np.testing.assert_allclose(found.held_out.climatology, errors)
    measured = found.tasks.gather(found.errors.climatology_error.values)
    np.testing.assert_allclose(measured, errors)
    skill = 1.0 - found.held_out.errors["ctfa"] / errors
    np.testing.assert_allclose(found.tasks.gather(found.errors.skill.values), skill)
    mean = 1.0 - found.held_out.mean("ctfa") / errors.mean()
    named = "the month means" if anomalies is None else f"the {anomalies} means"
    assert f"skill {mean:.2f} against {named} of the training rows" in str(found)
    assert f"kill {mean:.2f} against {named}" in ctfa.report.collect(found)["headline"]
    assert found.errors.attrs["climatology"] == f"{named} of the training rows"
    of = "a cell's variance" if anomalies is None else "the variance of a cell's anomalies"
    assert found.errors.attrs["units"] == of
    assert f"{found.held_out.mean('ctfa'):.3f} of {of}, against" in str(found)


@pytest.mark.more
def test_features_that_explain_a_quarter_of_anomalies_are_not_said_to_explain_nothing():
    rng = np.random.default_rng(3)
    n_rows, n_tasks = 48, 6  # four years: twelve means of three or four rows each
    time = pd.date_range("2001-01-01", periods=n_rows, freq="MS")
    driver = rng.normal(size=n_rows)
    flow = 0.55 * driver[:, None] + rng.normal(size=(n_rows, n_tasks))
    names = [f"gauge_{k}" for k in range(n_tasks)]
    frame = pd.DataFrame(flow, columns=names).assign(time=time, driver=driver)
    options = {"target": names, "features": ["driver"], "sample": "time", "anomalies": "month"}
    found = ctfa.labelled.fit(frame, **options)
    assert found.held_out.mean("ctfa") > 0.98  # of what the months leave of the same rows
    assert found.held_out.mean_skill("ctfa") > 0.1
    for said in (str(found), ctfa.report.collect(found)["headline"]):
        assert "next to nothing" not in said
        assert "R2" not in said


@pytest.mark.more
def test_a_model_that_merges_nothing_is_not_said_to_help_and_hurt_beside_its_own():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(120, 4))
    Y = X @ rng.normal(size=(4, 10)) * 0.4 + rng.normal(size=(120, 10))
    names = [f"y{k}" for k in range(10)]
    frame = pd.DataFrame(np.c_[X, Y], columns=["a", "b", "c", "d", *names])
    options = {"target": names, "features": ["a", "b", "c", "d"]}
    means = ctfa.FeatureAggregator(max_loss=5.0)  # as they are, whatever held-out rows say of them
    averaged = ctfa.labelled.fit(frame, merge_features=means, **options)
    assert averaged.n_regions == 10
    assert "keeps a model of its own, on averaged features" in str(averaged)
    assert "made worse than by a model of their own on all features" in str(averaged)
    plain = ctfa.labelled.fit(frame, merge_features=False, **options)
    assert plain.n_regions == 10
    assert plain.held_out.helped.any() or plain.held_out.hurt.any()
    assert "where it chose again without the held-out rows" in str(plain)
    page = ctfa.report.collect(plain)
    assert "where it chose again without them" in page["headline"]
    assert page["held_out"]["chose_again"]


def test_a_cell_that_is_not_there_is_told_its_nearest():
    found = ctfa.labelled.fit(on_a_grid(), target="flow", task=("lat", "lon"), **QUICK)
    with pytest.raises(KeyError, match="the nearest is 44°N 1°E"):
        found.why((44.2, 1.1))


@pytest.fixture
def pictures():
    pytest.importorskip("matplotlib").use("Agg")
    import matplotlib.pyplot as plt

    from ctfa import plotting

    yield plotting
    plt.close("all")


@pytest.fixture(scope="module")
def fits(fit, dataset):
    """Labelled results of every form."""
    table = dataset.to_dataframe().reset_index()
    long = {"target": "flow", "features": FEATURES, "task": "basin", "cv": 3, "held_out": 2}
    frame = dataset.flow.to_pandas()
    names = list(frame.columns)
    frame = frame.assign(warm=dataset.temperature.mean("basin"), wet=dataset.snow.mean("basin"))
    grid = {"target": "flow", "task": ("lat", "lon"), "neighbours": "rook"}
    return {
        "basins": fit,
        "grid": ctfa.labelled.fit(on_a_grid(), **grid, aggregate="pool", cv=3, held_out=2),
        "long": ctfa.labelled.fit(table, **long, sample="time", aggregate="pool"),
        "polars": ctfa.labelled.fit(pl.from_pandas(table), **long, sample="time", aggregate="pool"),
        "wide": ctfa.labelled.fit(frame, target=names, cv=3, held_out=2),
        "rows": ctfa.labelled.fit(table, **long),
    }


@pytest.mark.more
@pytest.mark.parametrize("form", ["basins", "grid", "long", "polars", "wide", "rows"])
def test_pictures_take_labelled_results(fits, form, pictures):
    for name in pictures.__all__:
        draw = getattr(pictures, name)
        if name == "plot_stability":
            with pytest.raises((TypeError, ValueError), match="stability"):
                draw(fits[form])
        elif name == "plot_groups_map" and form in ("wide", "rows"):
            with pytest.raises(ValueError, match="it is not known where the targets lie"):
                draw(fits[form])
        elif name == "plot_windows":
            with pytest.raises(ValueError, match="no feature of this model is of the past"):
                draw(fits[form])
        else:
            draw(fits[form]).figure.canvas.draw()


def test_pictures_call_features_by_their_names(fit, pictures):
    labels = pictures.plot_coefficients(fit).get_xticklabels()
    assert "snow" in [label.get_text() for label in labels]


@pytest.mark.parametrize("form", ["basins", "grid", "long", "polars"])
def test_a_map_is_coloured_by_labelled_values(fits, form, pictures):
    fit = fits[form]
    gain = fit.errors["gain"]
    ax = pictures.plot_groups_map(fit, values=gain)
    np.testing.assert_array_equal(np.asarray(ax.collections[0].get_array()), fit.held_out.gain)
    if form != "polars":  # which has no labels beside its values
        turned = gain.isel(lat=slice(None, None, -1)) if form == "grid" else gain[::-1]
        again = pictures.plot_groups_map(fit, values=turned)
        np.testing.assert_array_equal(again.collections[0].get_array(), fit.held_out.gain)
    with pytest.raises(ValueError, match=r"values has .*(no dimension|no entry|shape)"):
        pictures.plot_groups_map(fit, values=gain[:3].rename("x") if form == "long" else gain.sum())


def test_a_map_of_a_plain_model_takes_values_of_xarray(fit, pictures):
    ax = pictures.plot_groups_map(fit.estimator, fit.places(), values=fit.errors.gain)
    np.testing.assert_array_equal(np.asarray(ax.collections[0].get_array()), fit.held_out.gain)


def test_values_of_a_series_are_found_by_the_names_of_a_model(world, pictures):
    names = [f"basin {number}" for number in range(24)]
    Y = pd.DataFrame(world.target, columns=names)
    model = MultiInputCTFARegressor(world.layout).fit(world.data, Y)
    values = pd.Series(np.arange(24.0), index=names)
    ax = pictures.plot_groups_map(model, world.polygons, values=values[::-1])
    np.testing.assert_array_equal(ax.collections[0].get_array(), np.arange(24.0))


def test_a_comparison_of_a_fit_shows_its_held_out_errors(fits, pictures):
    fit = fits["grid"]
    ax = pictures.plot_comparison(fit)
    means = {x for line in ax.lines if line.get_marker() == "o" for x in line.get_xdata()}
    assert {fit.held_out.mean(method) for method in fit.held_out.errors} <= means
    assert "held-out error" in ax.get_xlabel()
    with pytest.raises(ValueError, match="metric='nrmse' is for comparisons"):
        pictures.plot_comparison(fit, "nrmse")
    with pytest.raises(TypeError, match=r"give what ctfa_study\.comparison\.compare or"):
        pictures.plot_comparison(fit.estimator)
    quick = ctfa.labelled.fit(on_a_grid(), target="flow", task=("lat", "lon"), **QUICK)
    with pytest.raises(ValueError, match="no rows were held out"):
        pictures.plot_comparison(quick)


def test_the_tree_of_a_region_is_found_by_a_cell(fits, pictures):
    fit = fits["grid"]
    cell = fit.tasks.position((44.0, -1.0))
    title = pictures.plot_merge_tree(fit, group=(44.0, -1.0)).get_title()
    assert title.startswith(f"group {fit.estimator.labels_[cell]}:")


# -- Times and tasks that are missing, or are none -------------------------------------------------


def without_a_label(dataset, dim, place):
    labels = dataset[dim].to_index().to_series().reset_index(drop=True)
    labels[place] = None
    return dataset.assign_coords({dim: labels.to_numpy()})


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("numbers", [False, True])
def test_a_missing_time_is_said_and_not_searched_for(dataset, numbers, chunked):
    if numbers:
        dataset = dataset.assign_coords(time=np.arange(float(dataset.sizes["time"])))
    missing = without_a_label(dataset, "time", 5)
    if chunked:
        pytest.importorskip("dask")
        missing = missing.chunk(time=24)
    with pytest.raises(ValueError, match=r"time is missing \(NaN or NaT\) in 1 of 96 places"):
        ctfa.labelled.fit(missing, target="flow", sample="time", task="basin", **QUICK)


def test_a_feature_may_not_lack_a_time_or_a_basin(dataset):
    feature = without_a_label(dataset, "time", 5).snow
    with pytest.raises(ValueError, match="time is missing"):
        ctfa.labelled.fit(
            dataset, target="flow", features=[feature], sample="time", task="basin", **QUICK
        )
    twice = dataset.assign_coords(basin=np.repeat(dataset.basin.values[:12], 2))
    model = ctfa.labelled.fit(dataset, target="flow", sample="time", task="basin", **QUICK)
    with pytest.raises(ValueError, match="basin has 12 values more than once"):
        model.predict(twice)


@pytest.mark.parametrize("option", [{"anomalies": "month"}, {"detrend": True}], ids=str)
def test_seasons_and_trends_of_a_missing_time_are_not_predicted(dataset, option):
    monthly = dataset.assign_coords(time=pd.date_range("1990", periods=96, freq="MS"))
    model = ctfa.labelled.fit(
        monthly, target="flow", sample="time", task="basin", **QUICK, **option
    )
    with pytest.raises(ValueError, match="time is missing"):
        model.predict(without_a_label(monthly, "time", 5))


@pytest.mark.parametrize("library", [pd, pl])
def test_rows_without_a_time_are_not_predicted_as_the_last(dataset, library):
    table = (
        dataset[["flow", *FEATURES]]
        .to_dataframe()
        .reset_index()[["time", "basin", "flow", *FEATURES]]
    )
    model = ctfa.labelled.fit(table, target="flow", sample="time", task="basin", **QUICK)
    table.loc[7, "time"] = None
    with pytest.raises(ValueError, match="1 row without a time: drop or complete them"):
        model.predict(table if library is pd else pl.from_pandas(table))


@pytest.mark.parametrize("dim", ["time", "basin"])
def test_data_without_times_or_without_basins_are_called_empty(dataset, fit, dim):
    empty = dataset.isel({dim: slice(0)})
    with pytest.raises(ValueError, match=f"flow is empty: {dim} has no values"):
        ctfa.labelled.fit(empty, target="flow", sample="time", task="basin")
    with pytest.raises(ValueError, match=f"is empty: {dim} has no values"):
        ctfa.labelled.fit(
            dataset, target="flow", features=[empty.snow], sample="time", task="basin"
        )
    with pytest.raises(ValueError, match=f"is empty: {dim} has no values"):
        fit.predict(empty)


@pytest.mark.parametrize("form", ["long", "wide", "rows"])
def test_tables_without_rows_are_neither_fitted_nor_predicted(form):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(80, 3)), columns=["a", "b", "x"])
    table["time"], table["place"] = np.tile(np.arange(40), 2), np.repeat(["p", "q"], 40)
    options = {
        "long": {"target": "a", "features": ["x"], "sample": "time", "task": "place"},
        "wide": {"target": ["a", "b"], "features": ["x"], "sample": "time"},
        "rows": {"target": "a", "features": ["x"], "task": "place"},
    }[form]
    table = table[:40] if form == "wide" else table
    model = ctfa.labelled.fit(table, **options, max_loss=1.5, held_out=None)
    with pytest.raises(ValueError, match="the table has no rows"):
        ctfa.labelled.fit(table[:0], **options)
    with pytest.raises(ValueError, match="the table has no rows"):
        model.predict(table[:0])


def test_weights_of_tasks_are_numbers_and_found_by_their_labels(dataset):
    names = [str(name) for name in dataset.basin.values]
    given = np.arange(1.0, len(names) + 1.0)
    kwargs = {"target": "flow", **QUICK}
    expected = ctfa.labelled.fit(dataset, weights=given, **kwargs).weights
    turned = pd.Series(given, index=names)[::-1]
    np.testing.assert_allclose(
        ctfa.labelled.fit(dataset, weights=turned, **kwargs).weights, expected
    )
    with pytest.raises(ValueError, match="weights has no entry for"):
        ctfa.labelled.fit(dataset, weights=turned[:-1], **kwargs)
    days = pd.date_range("2000-01-01", periods=len(names))
    for dates in (
        days,
        pd.Series(days, index=names),
        xr.DataArray(days, {"basin": names}, "basin"),
    ):
        with pytest.raises(ValueError, match="weights contains dates"):
            ctfa.labelled.fit(dataset, weights=dates, **kwargs)


@pytest.mark.more
@pytest.mark.parametrize("form", ["grid", "stacked", "stations"])
def test_a_window_across_greenwich_is_drawn_in_one_piece(form):
    west = on_a_grid(masked=False)
    east = west.assign_coords(lon=(west.lon % 360.0).assign_attrs(units="degrees_east"))
    east = east.sortby("lon")
    fits = []
    for window in (west, east):
        data, task = window, ("lat", "lon")
        if form != "grid":
            data, task = data.stack(cell=task), "cell"
        if form == "stations":
            data = data.reset_index("cell").assign_coords(cell=np.arange(20))
        fits.append(
            ctfa.labelled.fit(data, target="flow", features=["heat", "rain"], task=task, **QUICK)
        )
    apart, turned = (fit.places() for fit in fits)
    assert turned.cell == apart.cell
    assert set(map(tuple, turned.positions)) == set(map(tuple, apart.positions))
    bounds = [fit.region_outlines().total_bounds for fit in fits]
    np.testing.assert_array_equal(*bounds)


@pytest.mark.more
@pytest.mark.parametrize("first", [0.0, -180.0, 0.5])
def test_a_map_of_the_globe_begins_where_its_longitudes_do(first):
    lon = first + np.arange(0.0, 360.0, 10.0)
    data = xr.Dataset(
        {name: (("time", "lon"), np.random.default_rng(k).normal(size=(20, 36)))
         for k, name in enumerate(("flow", "heat"))},
        coords={"lon": lon, "lat": ("lon", np.arange(36.0))},
    )  # fmt: skip
    data = data.isel(lon=np.r_[0:20, 22:36])  # and where a few are absent, as in an ocean
    fit = ctfa.labelled.fit(data, target="flow", features=["heat"], task="lon", **QUICK)
    np.testing.assert_array_equal(fit.places().positions[:, 0], data.lon)


@pytest.mark.parametrize(
    ("anomalies", "freq", "unseen", "named"),
    [
        ("month", "MS", lambda t: t.dt.month > 10, "months .*November, December"),
        ("dayofyear", "10D", lambda t: t.dt.month == 12, r"a month .*\(December\)"),
        ("season", "MS", lambda t: t.dt.month.isin([6, 7, 8]), r"a season .*\(June to August\)"),
        ("hour", "3h", lambda t: t.dt.hour == 15, r"an hour .*\(15:00\)"),
    ],
)
@pytest.mark.parametrize("calendar", ["standard", "noleap"])
def test_rows_in_months_that_fit_never_saw_are_told(anomalies, freq, unseen, named, calendar):
    time = xr.date_range("1990-01-01", periods=240, freq=freq, calendar=calendar)
    rng = np.random.default_rng(0)
    held = {name: (("time", "basin"), rng.normal(size=(240, 3))) for name in ("flow", "rain")}
    data = xr.Dataset(held, coords={"time": time, "basin": list("abc")})
    lacking = unseen(data.time)
    fit = ctfa.labelled.fit(
        data.isel(time=~lacking), target="flow", features=["rain"], anomalies=anomalies, **QUICK
    )
    fit.predict(data.isel(time=~lacking))
    n_lacking = int(lacking.sum())
    with pytest.warns(UserWarning, match=f"{n_lacking} of 240 rows to predict lie in {named}"):
        fit.predict(data)
    with pytest.warns(UserWarning, match="the row lies in a"):
        fit.predict(data.isel(time=np.flatnonzero(lacking)[:1]))


@pytest.mark.more
@pytest.mark.parametrize(
    ("step", "words"),
    [("YS", "rows to predict are 365 days apart and those of fit 31 days"),
     ("D", "rows to predict are 1 day apart and those of fit 31 days"),
     ("6h", "rows to predict are 6 hours apart and those of fit 31 days")],
)  # fmt: skip
@pytest.mark.parametrize("table", [False, True])
def test_a_model_of_months_says_that_years_and_days_are_not_months(dataset, step, words, table):
    fit_options = {"target": "flow", "task": "basin", "sample": "time", **QUICK}
    data = dataset.to_dataframe()[["flow", *FEATURES]].reset_index() if table else dataset
    plain = ctfa.labelled.fit(data, features=FEATURES, **fit_options)
    monthly = ctfa.labelled.fit(data, features=FEATURES, anomalies="month", **fit_options)
    time = pd.date_range("2001-01-01", periods=8, freq=step)
    other = dataset.isel(time=slice(8)).assign_coords(time=time)
    one = other.isel(time=[0])
    if table:
        other, one = (part.to_dataframe().reset_index() for part in (other, one))
    with pytest.warns(UserWarning, match=words):
        monthly.predict(other)
    monthly.predict(one)  # of which nobody can tell
    plain.predict(other)


def test_a_model_from_before_steps_were_kept_predicts_without_a_word(dataset):
    fit = ctfa.labelled.fit(
        dataset.isel(time=dataset.time.dt.month < 7), target="flow", anomalies="month", **QUICK
    )
    old = dataclasses.replace(fit.confounds, seen=(), step=0.0)
    with pytest.warns(UserWarning, match="lie in months"):
        expected = fit.predict(dataset)
    xr.testing.assert_identical(dataclasses.replace(fit, confounds=old).predict(dataset), expected)


def test_dimensions_of_other_names_are_told_by_their_axes_and_else_are_to_be_renamed():
    grid = on_a_grid(masked=False)
    options = {"target": "flow", "features": ["heat", "rain"], "task": ("lat", "lon"), **QUICK}
    fit = ctfa.labelled.fit(grid, **options)
    renamed = grid.rename(lat="latitude", lon="longitude", time="valid_time")
    xr.testing.assert_identical(fit.predict(renamed), fit.predict(grid))
    said = grid.rename(lat="j", lon="i")
    said["j"].attrs["axis"], said["i"].attrs["standard_name"] = "Y", "longitude"
    xr.testing.assert_identical(fit.predict(said), fit.predict(grid))
    others = ctfa.labelled.fit(grid.flow, features=[renamed.heat, said.rain], **QUICK)
    assert "latitude of heat is lat" in others.notes
    np.testing.assert_array_equal(others.regions, fit.regions)
    with pytest.raises(ValueError, match=r"ds.rename\(column='lon'\)"):
        fit.predict(grid.rename(lon="column"))
    with pytest.raises(ValueError, match="heat has dimensions time, row, column, in fit it had"):
        fit.predict(grid.rename(lat="row", lon="column"))
    layers = grid.expand_dims(level=[850, 1000])
    with pytest.raises(ValueError, match=r"choose one \(850, 1000\) with ds.sel\(level=850\)"):
        fit.predict(layers.rename(lat="latitude"))
