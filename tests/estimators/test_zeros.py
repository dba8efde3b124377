"""Climatology and persistence: what predicts without features, and what is saved of its error."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import KFold

import ctfa
from ctfa import CTFARegressor, PooledCTFARegressor, TargetAggregator, cli
from ctfa._calendar import cycles_of, index_of, rows_before
from ctfa.estimators.zeros import ZEROS, Summing, Zeros
from ctfa.report import Given, Material, collect, complete

xr = pytest.importorskip("xarray")

OPTIONS = {
    "target": "t2m", "features": ["rain"], "sample": "time", "task": ("lat", "lon"),
    "aggregate": "pool", "max_loss": 1.5, "cv": 2, "head": "mean",
}  # fmt: skip


def monthly(n=96, calendar="standard", gaps=0.1, seed=0):
    """Three by three cells with a season, a memory and gaps."""
    rng = np.random.default_rng(seed)
    time = xr.date_range("1990-01-01", periods=n, freq="MS", calendar=calendar, use_cftime=True)
    if calendar == "standard":
        time = pd.date_range("1990-01-01", periods=n, freq="MS")
    memory = rng.normal(size=(n, 3, 3))
    for row in range(1, n):
        memory[row] += 0.7 * memory[row - 1]
    rain = rng.normal(size=(n, 1, 1)) + rng.normal(size=(n, 3, 3))
    season = 4.0 * np.cos(np.arange(n) * np.pi / 6.0)[:, None, None]
    values = 15.0 + season + memory + rain
    values[rng.uniform(size=values.shape) < gaps] = np.nan
    dims = ("time", "lat", "lon")
    coords = {"time": time, "lat": [50.0, 49.0, 48.0], "lon": [1.0, 2.0, 3.0]}
    return xr.Dataset({"t2m": (dims, values), "rain": (dims, rain)}, coords=coords)


def apart(t2m, n_blocks=5):
    """The predictions of all three by xarray alone, block by block."""
    parts = {name: [] for name in ZEROS}
    before = t2m.shift(time=1)
    for block in np.array_split(np.arange(t2m.sizes["time"]), n_blocks):
        rest = t2m.drop_isel(time=block)
        means = rest.groupby("time.month").mean("time")
        level = means.sel(month=t2m["time.month"]).drop_vars("month")
        anomaly = (t2m - level).shift(time=1)
        forms = (level, before.fillna(level), level + anomaly.fillna(0.0))
        for name, said in zip(ZEROS, forms, strict=True):
            parts[name].append(said.isel(time=block))
    return {name: xr.concat(found, "time") for name, found in parts.items()}


@pytest.mark.more
@pytest.mark.parametrize("calendar", ["standard", "360_day"])
def test_errors_of_all_three_are_those_of_groupby_and_shift(calendar):
    data = monthly(calendar=calendar)
    fit = ctfa.labelled.fit(data, **OPTIONS)
    known = fit.predict(data).notnull() & data.t2m.notnull()
    for name, said in apart(data.t2m).items():
        squares = ((data.t2m - said) ** 2).where(known)
        error = squares.mean("time") / data.t2m.var("time")
        column = f"{name.replace(' ', '_')}_error"
        xr.testing.assert_allclose(fit.errors[column].drop_attrs(), error, rtol=1e-12)
        over = "" if name == "climatology" else f"_over_{name.replace(' ', '_')}"
        skill = 1.0 - fit.errors.ctfa_error / error
        xr.testing.assert_allclose(fit.errors[f"skill{over}"], skill, rtol=1e-9)
        # In parts: squares of the rows of a season over their number, then means over the cells.
        by_season = (squares.groupby("time.season").mean() / data.t2m.var("time")).mean(
            ("lat", "lon")
        )
        found = fit.skill("season")[column]
        np.testing.assert_allclose(found, by_season.sel(season=found.season), rtol=1e-10)
    assert fit.errors.attrs["persistence"] == "the value of the month before"
    assert fit.errors.attrs["climatology"] == "the month means of the training rows"
    # The headline speaks of the form of persistence that is harder to beat.
    hard = fit.held_out.mean_skill("ctfa", "anomaly persistence")
    assert f"{hard:.2f} against persistence (the anomaly of the month before)" in str(fit)
    page = collect(fit)
    assert f"{hard:.2f} against persistence" in page["headline"]
    assert list(page["targets"]["skills"]) == ["skill", "skill over persistence"]
    season, block, region = page["held_out"]["divisions"]
    assert (season["by"], len(block["names"]), region["by"]) == ("season", 5, "region")
    np.testing.assert_allclose(season["skills"][0], fit.skill("season").skill)
    np.testing.assert_allclose(
        block["skills"][1], fit.skill("block").skill_over_anomaly_persistence
    )


def test_parts_add_up_to_the_whole_and_come_back_from_a_file(tmp_path):
    data = monthly()
    fit = ctfa.labelled.fit(data, **OPTIONS | {"max_loss": 0.5}, weights="area")
    whole = fit.skill([])
    assert whole.ctfa_error == pytest.approx(fit.held_out.mean("ctfa"))
    each, weights = fit.skill("task"), fit.weights.reshape(3, 3)
    for region in range(fit.n_regions):
        own = (fit.regions == region).values
        expected = np.average(each.persistence_error.values[own], weights=weights[own])
        assert fit.skill("region").persistence_error.values[region] == pytest.approx(expected)
    fit.save(tmp_path / "fit.ctfa")
    again = ctfa.labelled.load(tmp_path / "fit.ctfa")
    both = ["season", "block", "region"]
    xr.testing.assert_identical(again.skill(both), fit.skill(both))
    assert fit.skill(both).skill.dims == ("block", "season", "region")
    assert fit.skill("block").block.values[0] == "1990-01-01 to 1991-08-01"
    assert fit.skill(["season", "task"]).skill.dims == ("season", "lat", "lon")
    with pytest.raises(ValueError, match="by='month'"):
        fit.skill("month")


@pytest.mark.parametrize("seed", range(3))
def test_climatology_learns_from_training_rows_alone(seed):
    rng = np.random.default_rng(seed)
    times = pd.date_range("2001-01-01", periods=800, freq="D")
    zeros, y = Zeros.of(times), rng.normal(size=(800, 4))
    y[rng.uniform(size=y.shape) < 0.2 * seed] = np.nan
    block = np.arange(300, 460)
    train = np.setdiff1d(np.arange(800), block)
    before = zeros.predict(y, train, block, None, None)
    # A smooth cycle of three waves, by least squares on the rows that a series has.
    angle = 2.0 * np.pi * (times.day_of_year.to_numpy() - 1.0) / 365.25
    waves = [one(k * angle) for k in (1, 2, 3) for one in (np.cos, np.sin)]
    table = np.column_stack([np.ones(800), *waves])
    for column, said in zip(y.T, before["climatology"].T, strict=True):
        rows = train[np.isfinite(column[train])]
        coef = np.linalg.lstsq(table[rows], column[rows], rcond=None)[0]
        np.testing.assert_allclose(said, table[block] @ coef, atol=1e-12)
    y[block] += 100.0
    after = zeros.predict(y, train, block, None, None)
    np.testing.assert_array_equal(after["climatology"], before["climatology"])
    # The first row of the block knows the last one before it, which was trained on.
    np.testing.assert_array_equal(after["persistence"][0], before["persistence"][0])


def test_a_row_is_before_another_by_time_and_not_by_place():
    days = np.array([3.0, 1.0, 2.0, 7.0, 6.0])
    assert rows_before(days).tolist() == [2, -1, 1, 4, -1]  # from 3 to 6 is more than a step
    assert rows_before(np.array([1.0, 1.0, 2.0])) is None
    assert rows_before(np.array([1.0, np.nan, 2.0])) is None
    weekly = pd.date_range("2000-01-01", periods=300, freq="7D")
    assert cycles_of(index_of(weekly)) == ["dayofyear"]
    assert cycles_of(index_of(weekly[:60])) == []  # one year has no mean of its days
    assert cycles_of(index_of(pd.date_range("2000-01-01", periods=90, freq="h"))) == ["hour"]
    assert cycles_of(index_of(np.arange(300))) == []


@pytest.mark.more
def test_compare_takes_times_whatever_the_order_of_rows():
    data = monthly(gaps=0.0)
    y = data.t2m.values.reshape(96, -1)
    X = data.rain.mean(("lat", "lon")).values[:, None] + np.zeros((96, 2)) + [[0.0, 1.0]]
    X[:, 1] = np.random.default_rng(0).normal(size=96)
    times = data.time.values
    quick = CTFARegressor(
        targets=TargetAggregator(max_loss=1.5), features="passthrough", head="mean"
    )
    model = clone(quick).fit(X, y)
    plain = model.compare(X, y)
    assert "persistence_error" not in plain
    assert plain.attrs["persistence"] == "none: rows without times have no order"
    assert plain.attrs["climatology"] == "the mean of the training rows"
    rest = [np.delete(y, block, axis=0).mean(axis=0) for block in np.array_split(range(96), 5)]
    squares = [(b - m) ** 2 for b, m in zip(np.array_split(y, 5), rest, strict=True)]
    mean = np.concatenate(squares).mean(axis=0) / y.var(axis=0)
    np.testing.assert_allclose(plain["climatology_error"], mean, rtol=1e-12)

    told = model.compare(X, y, times=times)
    for name, said in apart(data.t2m).items():
        error = ((data.t2m - said) ** 2).mean("time") / data.t2m.var("time")
        found = told[f"{name.replace(' ', '_')}_error"]
        np.testing.assert_allclose(found, error.values.ravel(), rtol=1e-11)
    np.testing.assert_allclose(told["skill"], 1.0 - told["error"] / told["climatology_error"])
    # Dates that a table has for an index do as well.
    frame = pd.DataFrame(y, index=pd.DatetimeIndex(times))
    indexed = clone(quick).fit(X, frame).compare(X, frame)
    np.testing.assert_allclose(indexed["persistence_error"], told["persistence_error"], rtol=1e-12)
    array = xr.DataArray(y, dims=("time", "cell"), coords={"time": times})
    labelled = clone(quick).fit(X, array).compare(X, array)
    np.testing.assert_allclose(labelled["skill"], told["skill"], rtol=1e-9)
    assert "persistence" in collect(model, data=(X, frame))["headline"]
    # Shuffled rows, in folds of the same rows.
    order = np.random.default_rng(1).permutation(96)
    place = np.argsort(order)
    blocks = [(np.setdiff1d(range(96), b), b) for b in np.array_split(range(96), 5)]
    folds = [(place[train], place[test]) for train, test in blocks]
    shuffled = model.compare(X[order], y[order], times=times[order], cv=folds)
    for name in ("persistence_error", "anomaly_persistence_error", "climatology_error"):
        np.testing.assert_allclose(shuffled[name], told[name], rtol=1e-10)
    with pytest.raises(ValueError, match="times holds neither dates nor numbers"):
        model.compare(X, y, times=["a"] * 96)
    with pytest.raises(ValueError, match="X has 96 rows and times has 4"):
        model.compare(X, y, times=times[:4])


def test_where_rows_have_no_order_it_is_said_and_there_is_no_nan():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(60, 3)), columns=["a", "u", "v"])
    fit = ctfa.labelled.fit(table, target=["u", "v"], features=["a"], max_loss=1.5)
    assert "persistence_error" not in fit.errors
    assert fit.errors.attrs["persistence"] == "none: rows without times have no order"
    assert "no persistence: rows without times have no order" in str(fit)
    with pytest.raises(ValueError, match="by='season' needs rows in memory with dates"):
        fit.skill("season")
    tasks = np.repeat(["a", "b"], 30)
    x = rng.normal(size=(60, 1))
    rule = TargetAggregator(max_loss=1.5)
    model = PooledCTFARegressor(targets=rule, head="mean").fit(x, x[:, 0], tasks=tasks)
    folds = KFold(3, shuffle=True, random_state=0)
    found = complete(Material(model), Given(x, x[:, 0], tasks, held_out=folds)).held_out
    assert list(found.zeros) == ["climatology"]
    assert found.before == "rows of each task's own have no order in time"


@pytest.mark.parametrize("cuts", [[96], [1, 40, 55], [10] * 9 + [6]])
def test_sums_of_chunks_give_the_same_errors(cuts):
    rng = np.random.default_rng(0)
    y, block = 280.0 + rng.normal(size=(96, 3)), np.repeat([0, 1, -1, 2], 24)
    times = data = pd.date_range("1990-01-01", periods=97, freq="MS").delete(50)
    zeros = Zeros.of(data)
    ask = Summing.of(zeros, None, block)
    ends = np.cumsum(cuts)
    parts = [
        ask(int(end - size), y[end - size : end]) for end, size in zip(ends, cuts, strict=True)
    ]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    found = ask.errors(total, zeros)
    for number in range(3):
        test = np.flatnonzero(block == number)
        said = zeros.predict(y, np.flatnonzero(block != number), test, None, None)
        for name, predicted in said.items():
            expected = ((y[test] - predicted) ** 2).sum(axis=0)
            np.testing.assert_allclose(found.squares[name][number], expected, rtol=1e-9)
    assert found.blocks[0] == f"{times[0]} to {times[23]}"


def test_chunks_tell_as_memory_does():
    data = monthly(gaps=0.0)
    one = ctfa.labelled.fit(data, **OPTIONS)
    two = ctfa.labelled.fit(data.chunk(time=37), **OPTIONS)
    xr.testing.assert_allclose(
        two.skill("block"), one.skill("block").drop_vars(["single_task_ridge_error", "coverage_90"])
    )
    assert two.errors.attrs["persistence"] == one.errors.attrs["persistence"]


@pytest.mark.more
def test_the_commands_say_it_before_and_after(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = monthly(120, gaps=0.02)
    data.to_netcdf("t2m.nc")
    assert cli.main(["doctor", "t2m.nc", "-t", "t2m", "--no-timing", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    said = next(f["what"] for f in told["findings"] if "without features" in f["what"])
    flat = data.t2m.stack(cell=("lat", "lon"))
    for name, predicted in apart(data.t2m).items():
        error = ((data.t2m - predicted) ** 2).mean("time").values.ravel() / flat.var("time").values
        assert told["zeros"][name] == pytest.approx(float(np.mean(1.0 - error)), abs=1e-9)
        assert f"{100 * told['zeros'][name]:.0f} %" in said
    assert "by the value of the month before" in said
    words = ["fit", "t2m.nc", "-t", "t2m", "-f", "rain", "--task", "lat,lon", "--sample", "time"]
    words += ["--anomalies", "month", "--max-loss", "1.5", "--aggregate", "pool", "--cv", "2"]
    words += ["--head", "mean", "-o", "run"]
    assert cli.main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["held_out"]
    table = pd.read_csv("run/skill.csv")
    assert table["by"].unique().tolist() == ["all", "season", "block", "region"]
    first = table.iloc[0]
    for name, found in told["zeros"].items():
        assert first[f"{name.replace(' ', '_')}_error"] == pytest.approx(found["error"])
    assert [part["part"] for part in told["skill_by"]["season"]] == ["DJF", "MAM", "JJA", "SON"]
    with xr.open_dataset("run/errors.nc") as errors:
        assert errors.skill_over_persistence.dims == ("lat", "lon")
        assert errors.attrs["anomaly_persistence"] == "the anomaly of the month before"


def test_a_model_that_is_no_better_is_told_so_by_region():
    data = monthly(gaps=0.0)
    slow = np.cumsum(np.random.default_rng(5).normal(size=(96, 3, 3)), axis=0)
    data["t2m"] = data.t2m + slow * [0.0, 0.5, 8.0]  # persistence is hard to beat in the east
    fit = ctfa.labelled.fit(data, **OPTIONS | {"max_loss": -np.inf}, anomalies="month")
    each = fit.skill("region")
    over = each[f"skill_over_{fit.held_out.hardest.replace(' ', '_')}"]
    lost = int((over <= 0.0).sum())
    assert 0 < lost < 9
    said = str(fit).replace(" or climatology", "")
    assert f"no better than persistence in {lost} of 9 regions" in said
    assert "o better than persistence" in collect(fit)["headline"]


def test_gaps_and_weights_of_tasks_go_together():
    fit = ctfa.labelled.fit(monthly(), **OPTIONS, weights="area")
    assert np.isfinite(fit.errors.single_task_ridge_error).all()
