"""What looks wrong in data that can be fitted: seasons, fills, copies; by doctor and by fit."""

import json
import re
import shlex
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

import ctfa
from ctfa import cli, labelled
from ctfa._reading import fills_in
from ctfa.core.confounds import held_out_share
from ctfa.labelled._reading import arrange, gather
from ctfa.labelled._tasks import LabelledTasks
from real_data import real

xr = pytest.importorskip("xarray")
pytest.importorskip("geopandas")
pytest.importorskip("h5netcdf")

QUICK = {"held_out": None, "max_loss": 1.5, "aggregate": "mean"}


def stations(time, *, season=3.0, trend=0.0, n=6, memory=0.5, seed=0):
    """Temperature from sunshine and rain at some stations; the first two with a season."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(3, len(time), n)) + rng.normal(size=(3, len(time), 1))
    for row in range(1, len(time)):
        noise[:, row] += memory * noise[:, row - 1]
    sun, rain, rest = noise
    dates = xr.DataArray(time, dims="time")
    wave = np.zeros(len(time))
    if np.issubdtype(dates.dtype, np.datetime64) or dates.dtype == object:
        wave = np.cos(2 * np.pi * (dates.dt.dayofyear.values - 200) / 365.25)
    cycle = season * wave[:, None] + trend * np.linspace(0, 1, len(time))[:, None]
    tas = 0.5 * sun + rest + 2.0 * cycle
    dims = ("time", "station")
    return xr.Dataset(
        {
            "tas": (dims, tas, {"units": "degC"}),
            "sun": (dims, sun + cycle, {"units": "h"}),
            "rain": (dims, rain, {"units": "mm"}),
        },
        coords={"time": time, "station": [f"s{i}" for i in range(n)]},
    )


def months(n=120, start="2000-01-01"):
    return pd.date_range(start, periods=n, freq="MS")


def doctor(path, capsys, *more):
    cli.main(["doctor", str(path), "-t", "tas", "--no-timing", "--json", *more])
    return json.loads(capsys.readouterr().out)


def said(found):
    return " | ".join(finding["what"] for finding in found["findings"])


def climatology_share(array):
    """By hand: each year predicted by the months of the others, against the mean of the others."""
    clim = plain = 0.0
    year = array.time.dt.year
    for one in np.unique(year):
        own, others = array.sel(time=year == one), array.sel(time=year != one)
        means = others.groupby("time.month").mean()
        clim = clim + ((own.groupby("time.month") - means) ** 2).sum("time")
        plain = plain + ((own - others.mean("time")) ** 2).sum("time")
    return float((1.0 - clim / plain).mean())


# ---------------------------------------------------------------------------- seasons, trends


def as_it_is(data, folder):
    data.to_netcdf(folder / "d.nc", engine="h5netcdf")
    return folder / "d.nc"


def packed(data, folder):
    """As archives pack them: int16 with a scale, gaps by a declared fill, hours since 1900."""
    data = data.where(np.random.default_rng(1).random(data.tas.shape) > 0.1)
    how = {"dtype": "int16", "scale_factor": 0.01, "add_offset": 3.0, "_FillValue": -32768}
    encoding = dict.fromkeys(data.data_vars, how)
    encoding["time"] = {"units": "hours since 1900-01-01", "dtype": "int32"}
    data.to_netcdf(folder / "d.nc", engine="h5netcdf", encoding=encoding)
    return folder / "d.nc"


def another_calendar(data, folder):
    times = xr.date_range("2000-01-01", periods=120, freq="MS", calendar="noleap", use_cftime=True)
    return as_it_is(data.assign_coords(time=times), folder)


def long_csv(data, folder):
    data.to_dataframe().reset_index().to_csv(folder / "d.csv", index=False)
    return folder / "d.csv"


def long_parquet(data, folder):
    data.to_dataframe().reset_index().to_parquet(folder / "d.parquet")
    return folder / "d.parquet"


@pytest.mark.more
@pytest.mark.parametrize(
    "write", [as_it_is, packed, another_calendar, long_csv, long_parquet], ids=lambda w: w.__name__
)
def test_the_doctor_sees_a_season_and_proposes_to_take_it_off(write, tmp_path, capsys):
    data = stations(months())
    found = doctor(write(data, tmp_path), capsys)
    (words,) = re.findall(r"calendar month explains (.*) \(judged on years left out\)", said(found))
    shares = dict(
        re.findall(r"(\d+) % of (?:the variance of )?(\w+)", words)[i][::-1] for i in (0, 1)
    )
    assert list(shares) == ["tas", "sun"]
    near = 2.5 if write is packed else 0.6  # gaps leave other rows
    for name, share in shares.items():
        assert abs(float(share) - 100 * climatology_share(data[name])) < near
    assert "--anomalies month" in found["command"]
    assert {f["severity"] for f in found["findings"] if "calendar" in f["what"]} == {"harms"}


def test_the_doctor_sees_the_season_of_a_wide_table(tmp_path, capsys):
    data = stations(months())
    frame = data["tas"].to_pandas().assign(sun=data["sun"].mean("station").values).reset_index()
    frame.to_csv(tmp_path / "w.csv", index=False)
    names = ",".join(map(str, data.station.values))
    assert (
        cli.main(
            ["doctor", str(tmp_path / "w.csv"), "-t", names, "-f", "sun", "--no-timing", "--json"]
        )
        == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert "calendar month explains" in said(found)
    assert "--anomalies month" in found["command"]


@pytest.mark.parametrize(
    "data",
    [
        lambda: stations(months(), season=0.0),
        lambda: stations(months(24), season=0.0, memory=0.9),
        lambda: stations(months(36), season=0.0, memory=0.9),
        lambda: stations(months(12)),  # one year tells nothing
        lambda: stations(pd.date_range("1950-01-01", periods=60, freq="YS")),
        lambda: stations(np.arange(120)),
        lambda: stations(pd.date_range("2000-01-01", periods=900, freq="D"), season=0.0),
    ],
    ids=["noise", "two years", "three years", "one year", "annual", "no dates", "daily noise"],
)
def test_what_has_no_season_is_not_told_of_one(data, tmp_path, capsys):
    found = doctor(as_it_is(data(), tmp_path), capsys)
    assert "explains" not in said(found)
    assert "--anomalies" not in found["command"]
    assert "--detrend" not in found["command"]


def test_anomalies_have_no_season_any_more(tmp_path, capsys):
    data = stations(months())
    data = data.groupby("time.month") - data.groupby("time.month").mean()
    assert "explains" not in said(doctor(as_it_is(data, tmp_path), capsys))


@pytest.mark.parametrize("memory", [0.0, 0.7, 0.95])
@pytest.mark.parametrize("years", [2, 3, 6])
def test_noise_that_remembers_is_seldom_called_a_season(years, memory):
    """A hundred draws at once; one of a hundred may pass."""
    rng = np.random.default_rng(years)
    noise = rng.normal(size=(12 * years + 200, 100))
    for row in range(1, len(noise)):
        noise[row] += memory * noise[row - 1]
    month = np.arange(12 * years) % 12
    share = held_out_share(noise[200:], np.eye(12)[month], np.arange(12 * years) // 12)
    assert (share > 1.0 / years).sum() <= 2


@pytest.mark.parametrize("gaps", [False, True])
def test_the_share_is_that_of_regressions_without_each_block(gaps):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(60, 4)) + np.linspace(0, 3, 60)[:, None]
    columns = np.column_stack([np.eye(12)[np.arange(60) % 12], np.linspace(0, 1, 60)])
    if gaps:
        values[rng.random(values.shape) < 0.2] = np.nan
    blocks = np.arange(60) // 12
    beside = columns[:, :12]
    found = held_out_share(values, columns[:, 12:], blocks, beside)
    for column, share in zip(values.T, found, strict=True):
        squares = []
        for table in (beside, columns):
            left = 0.0
            for block in range(5):
                seen = ~np.isnan(column)
                train, test = seen & (blocks != block), seen & (blocks == block)
                model = LinearRegression().fit(table[train], column[train])
                left += ((column[test] - model.predict(table[test])) ** 2).sum()
            squares.append(left)
        np.testing.assert_allclose(share, 1.0 - squares[1] / squares[0], rtol=1e-5)


@pytest.mark.more
@pytest.mark.parametrize(
    ("freq", "n", "option", "words"),
    [("D", 1500, "dayofyear", "day of the year"), ("W", 300, "dayofyear", "day of the year")],
)
def test_days_and_weeks_have_a_season_by_the_day_of_the_year(
    freq, n, option, words, tmp_path, capsys
):
    found = doctor(
        as_it_is(stations(pd.date_range("2000-01-01", periods=n, freq=freq)), tmp_path), capsys
    )
    assert f"the {words} explains" in said(found)
    assert f"--anomalies {option}" in found["command"]


def test_hours_have_a_cycle_of_the_day(tmp_path, capsys):
    time = pd.date_range("2000-06-01", periods=480, freq="3h")
    data = stations(time, season=0.0)
    wave = np.cos(2 * np.pi * time.hour.to_numpy() / 24)[:, None]
    found = doctor(as_it_is(data.assign(tas=data.tas + 3 * wave), tmp_path), capsys)
    assert "the hour of the day explains" in said(found)
    assert "(judged on days left out)" in said(found)
    assert "--anomalies hour" in found["command"]


def test_a_strong_trend_is_told_with_its_option(tmp_path, capsys):
    found = doctor(as_it_is(stations(months(), season=0.0, trend=20.0), tmp_path), capsys)
    assert "a straight line in time explains" in said(found)
    assert "--detrend" in shlex.split(found["command"])
    both = doctor(as_it_is(stations(months(), trend=20.0), tmp_path), capsys)
    assert "that the season leaves" in said(both)
    assert "--anomalies month --detrend" in both["command"]


def test_seasons_of_rows_without_dates_stop_a_fit(tmp_path, capsys):
    data = stations(np.arange(120))
    found = doctor(as_it_is(data, tmp_path), capsys, "--anomalies", "month")
    (finding,) = [f for f in found["findings"] if f["severity"] == "stops"]
    assert "--anomalies month need dates along 'time'" in finding["what"]


def test_what_was_asked_for_is_in_the_command_and_no_finding(tmp_path, capsys):
    path = as_it_is(stations(months(), trend=20.0), tmp_path)
    given = ["--anomalies", "month", "--detrend", "--no-standardise", "--head", "levels"]
    found = doctor(path, capsys, *given)
    assert "explains" not in said(found)
    words = shlex.split(found["command"])
    assert [word for word in given if word not in words] == []
    assert words.count("--anomalies") == 1
    assert cli.main([*words[1:-1], str(tmp_path / "run"), "--held-out", "none", "-q"]) == 0


def test_a_season_of_features_alone_is_a_note_and_changes_no_command(tmp_path, capsys):
    """Means of months cost more than they give where the target has no season."""
    data = stations(months())
    data["tas"] = stations(months(), season=0.0)["tas"]
    found = doctor(as_it_is(data, tmp_path), capsys)
    (finding,) = [f for f in found["findings"] if "calendar month" in f["what"]]
    assert finding["severity"] == "note"
    assert "of sun" in finding["what"]
    assert "--anomalies" not in found["command"]
    assert not any("explains" in note for note in labelled.fit(data, target="tas", **QUICK).notes)


def test_a_wave_of_the_year_is_a_feature_and_no_season(tmp_path, capsys):
    data = stations(months(), season=0.0)
    wave = np.sin(2 * np.pi * data.time.dt.month / 12)
    assert "explains" not in said(doctor(as_it_is(data.assign(wave=wave), tmp_path), capsys))


def test_a_fill_does_not_hide_a_season(tmp_path, capsys):
    data = stations(months())
    data["tas"][5:9, 2] = -9999.0
    found = doctor(as_it_is(data, tmp_path), capsys)
    assert "tas has -9999 4 times" in said(found)
    assert "--anomalies month" in found["command"]


def chunked(data):
    pytest.importorskip("dask")
    return data.chunk(time=30)


@pytest.mark.more
@pytest.mark.parametrize("form", [lambda d: d, chunked], ids=["memory", "chunks"])
def test_fit_says_what_the_doctor_says_of_seasons(form):
    data = form(stations(months()))
    raw = labelled.fit(data, target="tas", **QUICK)
    (note,) = [note for note in raw.notes if "calendar month" in note]
    assert "of the variance of tas" in note
    assert "anomalies='month' (--anomalies month)" in note
    assert note in raw.summary()
    left = labelled.fit(data, target="tas", anomalies="month", **QUICK)
    assert not [note for note in left.notes if "explains" in note]
    detrended = labelled.fit(data, target="tas", detrend=True, **QUICK)
    assert [note for note in detrended.notes if "calendar month" in note]


@pytest.mark.more
def test_the_season_of_iberia_is_that_of_its_climatology():
    iberia = real("cru_iberia", n_lags=0, indices=False)
    time = pd.to_datetime(iberia.time.astype("datetime64[ns]"))
    tas = iberia.inputs[:, ::5, iberia.slot_names.index("temperature")]
    data = xr.Dataset(
        {"pr": (("time", "cell"), iberia.target[:, ::5]), "tas": (("time", "cell"), tas)},
        coords={"time": time, "cell": np.arange(tas.shape[1])},
    )
    fit = labelled.fit(data, target="tas", **QUICK)
    (note,) = [note for note in fit.notes if "calendar month" in note]
    shares = [round(100 * climatology_share(data[name])) for name in ("tas", "pr")]
    assert f"explains {shares[0]} % of the variance of tas and {shares[1]} % of pr" in note


# -------------------------------------------------------------------- fills, copies, constants


def healthy():
    return stations(months(60), season=0.0)


def spoiled(name, value, where):
    data = healthy()
    data[name][where] = value
    return data


def as_table(data):
    return data.to_dataframe().reset_index()


@pytest.mark.more
@pytest.mark.parametrize(
    "form", [lambda d: d, as_table, chunked], ids=["arrays", "table", "chunks"]
)
@pytest.mark.parametrize(
    ("data", "words"),
    [
        (lambda: spoiled("tas", -9999.0, (slice(3, 8), 1)), "tas has -9999 5 times"),
        (lambda: spoiled("rain", 1e20, (slice(3, 8), 1)), r"rain has 1e\+20 5 times"),
        (lambda: spoiled("rain", 3.0, (slice(None), 1)), "rain never changes in 1 of 6 stations"),
        (lambda: spoiled("rain", 3.0, slice(None)), "rain never changes: leave rain out"),
        (lambda: healthy().assign(copy=lambda d: d.rain * 2 + 273.15),
         "rain and copy are nearly the same"),
        (lambda: healthy().assign(copy=lambda d: d.tas + 273.15), "copy is nearly tas itself"),
        (lambda: spoiled("tas", healthy()["tas"][:, 0].values, (slice(None), 3)),
         "tas of 1 station is an exact copy of that of another .the first: s3, of s0"),
    ],
)  # fmt: skip
def test_fit_says_what_the_doctor_knows(data, words, form, tmp_path, capsys):
    given = data()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*(condition number|depend on)", RuntimeWarning)
        fit = labelled.fit(form(given), target="tas", sample="time", task="station", **QUICK)
    assert len([note for note in fit.notes if re.match(words, note)]) == 1, fit.notes
    found = doctor(as_it_is(given, tmp_path), capsys)
    assert re.search(words.partition(":")[0].replace("stations", "(tasks|stations)")
                     .replace("station ", "task "), said(found))  # fmt: skip


def test_features_that_all_share_are_looked_at_one_by_one():
    data = healthy()
    shared = data.assign(sun=data.sun.mean("station"), rain=data.rain.mean("station"))
    flat = shared.assign(flat=shared.sun * 0.0 + 2.0, again=shared.sun + 1.0)
    flat["rain"][4:7] = -999.0
    fit = labelled.fit(flat, target="tas", **QUICK)
    notes = " | ".join(fit.notes)
    assert "flat never changes" in notes
    assert "rain has -999 3 times" in notes
    assert "sun and again are copies (|r| = 1)" in notes


def test_rows_of_their_own_are_looked_at_too():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(200, 3)), columns=["score", "age", "size"])
    frame["school"] = np.repeat(np.arange(5), 40)
    frame["age2"] = 2.0 * frame["age"]
    frame["same"] = 7.0
    frame.loc[3:8, "size"] = -9999.0
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*(condition|depend)", RuntimeWarning)
        fit = labelled.fit(frame, target="score", task="school", held_out=None)
    notes = " | ".join(fit.notes)
    assert "size has -9999 6 times" in notes
    assert "age and age2 are nearly the same" in notes
    assert "same never changes" in notes


def test_healthy_data_have_no_such_notes():
    assert labelled.fit(healthy(), target="tas", **QUICK).notes == ()


def test_names_of_all_tasks_are_made_only_where_one_is_said(monkeypatch):
    data = healthy()
    cells = data.assign_coords(station=np.arange(6)).expand_dims(row=3).copy(deep=True)
    cells["tas"][1] = np.nan
    gathered = gather(cells, "tas", None, "time", ("row", "station"))

    def made(_):
        raise AssertionError("names were made")

    monkeypatch.setattr(LabelledTasks, "names", property(made))
    with pytest.raises(AssertionError, match="names were made"):  # rows are copies
        arrange(gathered, "auto")
    cells["tas"][2] += np.random.default_rng(0).normal(size=cells["tas"][2].shape)
    gathered = gather(cells, "tas", None, "time", ("row", "station"))
    assert arrange(gathered, "auto").tasks.n_tasks == 12


def test_a_fill_is_said_and_not_taken_out():
    data = spoiled("rain", -9999.0, (slice(3, 8), 1))
    fit = labelled.fit(data, target="tas", **QUICK)
    masked = labelled.fit(data.where(data.rain != -9999.0), target="tas", **QUICK)
    assert not any("-9999" in note for note in masked.notes)
    assert not np.array_equal(fit.coef.values, masked.coef.values)


@pytest.mark.parametrize("numbers", [[-9999.0], [1e20], [9.969209968386869e36], [-9999.0, -999.0]])
def test_fills_are_found_far_from_the_rest(numbers):
    values = np.random.default_rng(0).normal(10.0, 3.0, size=(50, 4))
    values[::7, 1] = np.resize(numbers, 8)
    values[1, 1] = np.nan
    assert sorted(fill.number for fill in fills_in(values)) == sorted(numbers)
    single = values.astype(np.float32).astype(np.float64)
    assert sorted(fill.number for fill in fills_in(single)) == sorted(numbers)


@pytest.mark.parametrize(
    "number", [9999.0, 999.0, -99.0, -888.0, 99.99, 99.9, -9999.99, 8888.0, 32767.0]
)
def test_numbers_of_nines_that_come_again_beyond_all_others_are_fills(number):
    values = np.random.default_rng(0).normal(10.0, 3.0, size=(60, 4))
    values[::20, 1] = number
    for given in (values, values.astype(np.float32).astype(np.float64)):
        [fill] = fills_in(given)
        assert (fill.number, fill.times) == (number, 3)
    values[20:, 1] = 10.0  # once is no habit
    assert list(fills_in(values)) == []


def test_a_number_below_zero_among_amounts_is_a_fill():
    rain = np.random.default_rng(0).gamma(1.0, 90.0, size=(120, 4))
    rain[::30, 2] = -99.0
    assert [fill.number for fill in fills_in(rain)] == [-99.0]


def test_two_fills_do_not_hide_each_other():
    values = np.random.default_rng(0).normal(size=(60, 4))
    values[::20, 1], values[1::20, 2], values[2::20, 2] = 999.0, -99.0, 888.0
    assert sorted(fill.number for fill in fills_in(values)) == [-99.0, 888.0, 999.0]


def innocent():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(240, 8))
    yield "pressure", np.round(1000 + 8 * z)
    yield "pressure up to 999", np.minimum(np.round(990 + 8 * z), 999)
    yield "tenths of a degree", np.clip(np.round(60 * z), -99, 99)
    yield "humidity", np.where(z > 1, 99.0, 50 + 20 * z)
    yield "rain", np.maximum(np.exp(z) * 30 - 25, 0.0)
    yield "ratings", rng.integers(1, 6, size=(240, 8)).astype(float)
    yield "two values", np.where(z > 1, 99.0, 0.0)
    yield "a constant column", np.column_stack([z, np.full(240, 999.0)])
    yield "large", np.where(z > 2.9, 9999.0, np.round(6000 * z))


@pytest.mark.parametrize(("name", "values"), list(innocent()))
def test_nines_among_numbers_like_them_are_no_fills(name, values):
    assert list(fills_in(values)) == [], name


def test_numbers_of_the_size_of_the_data_are_no_fills():
    depth = np.linspace(-11000.0, 0.0, 300).reshape(100, 3)
    depth[::5] = -9999.0
    assert list(fills_in(depth)) == []


@pytest.mark.more
def test_fills_are_said_once_and_of_the_line_that_gave_them():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(100, 4)), rng.normal(size=(100, 3))
    X[3:60:8, 2] = Y[7:70:8, 1] = -9999.0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = ctfa.CTFARegressor(targets=ctfa.TargetAggregator(max_loss=1.5)).fit(X, Y)
        fitted = [w for w in caught if "missing value" in str(w.message)]
        model.compare(X, Y)
    every = [w for w in caught if "missing value" in str(w.message)]
    assert [str(w.message)[:7] for w in every] == ["X holds", "y holds"] * 2
    assert len(fitted) == 2
    assert {w.filename for w in every} == {__file__}


def test_arrays_with_fills_are_fitted_with_a_warning_and_others_without():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(60, 4)), rng.normal(size=(60, 3))
    X[:, 3], Y[:, 2] = X[:, 2], Y[:, 1]  # copies are harmless: nothing is said
    ctfa.CTFARegressor().fit(X, Y)
    Y[5:9, 1] = -9999.0
    with pytest.warns(UserWarning, match="y holds -9999 again and again, first in column 'y1'"):
        ctfa.CTFARegressor().fit(X, Y)
    X[3:6, 2] = 1e20
    with pytest.warns(UserWarning, match=r"X holds 1e\+20 again and again, first in column 2"):
        ctfa.CTFARegressor().fit(X, np.nan_to_num(Y[:, :1]))
