"""Commands on good files: a whole run, the same again, and everything asked of it afterwards."""

import csv
import io
import json
import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest

from command_data import FEATURES, basins, content, geopandas, pd, write_basins, xr
from ctfa import CTFARegressor, MultiInputCTFARegressor, cli, labelled
from ctfa._commands import _results
from ctfa._commands._asked import DEFAULTS

FIT = ["-t", "flow", "-f", "temperature,precipitation,snow", "--sample", "time", "--task", "basin"]
COMMAND = [sys.executable, "-m", "ctfa"]
#: What a run writes, in the order in which it says so.
WRITTEN = [
    "model.ctfa", "regions.nc", "regions.gpkg", "regions.csv", "coefficients.csv",
    "coefficients.nc", "merges.csv", "errors.csv", "errors.nc", "skill.csv",
    "report.html", "run.toml",
]  # fmt: skip


#: Fewer blocks than by default, and a fit without any.
FEWER = ["--cv", "3", "--held-out", "2"]
QUICK = ["--held-out", "none", "--max-loss", "1", "--aggregate", "mean", "-q"]


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A folder with data, polygons and a run of them."""
    folder = tmp_path_factory.mktemp("here")
    write_basins(folder)
    given = [str(folder / "basins.nc"), *FIT, "--neighbours", str(folder / "basins.gpkg")]
    assert cli.main(["fit", *given, *FEWER, "--quiet", "-o", str(folder / "run")]) == 0
    return folder


@pytest.fixture
def run(here):
    return str(here / "run")


@pytest.fixture(scope="module")
def fit(here):
    """The same in Python."""
    return labelled.fit(
        labelled.read(here / "basins.nc"),
        target="flow",
        features=FEATURES,
        sample="time",
        task="basin",
        neighbours=labelled.read(here / "basins.gpkg"),
        cv=3,
        held_out=2,
    )


def printed_json(capsys):
    """Exactly one document on standard output, and nothing else anywhere."""
    printed = capsys.readouterr()
    assert printed.err == ""

    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    return json.loads(printed.out, parse_constant=refuse)


def test_a_run_writes_all_its_files_and_says_so(here, tmp_path, capsys):
    given = [str(here / "basins.nc"), *FIT, "--neighbours", str(here / "basins.gpkg")]
    assert cli.main(["fit", *given, *FEWER, "-o", str(tmp_path / "run")]) == 0
    printed = capsys.readouterr()
    assert re.match(r"24 basins -> \d+ regions", printed.out)
    assert printed.out.rstrip().endswith(", ".join(WRITTEN))
    assert printed.err == ""  # not a terminal: no progress
    assert sorted(WRITTEN) == sorted(os.listdir(tmp_path / "run"))
    assert os.listdir(tmp_path) == ["run"]


@pytest.mark.more
def test_the_files_of_a_run_are_those_of_the_fit_in_python(here, fit):
    run = here / "run"
    regions = labelled.read(run / "regions.nc")["region"]
    np.testing.assert_array_equal(regions.values, fit.regions.values)
    np.testing.assert_array_equal(regions["basin"].values, 1000 + np.arange(24))
    table = pd.read_csv(run / "regions.csv")
    np.testing.assert_array_equal(table["region"], fit.estimator.labels_)
    map_of = geopandas.read_file(run / "regions.gpkg")
    np.testing.assert_array_equal(map_of["region"], fit.estimator.labels_)
    assert set(map_of.geom_type) == {"Polygon"}
    coefficients = pd.read_csv(run / "coefficients.csv")
    np.testing.assert_allclose(coefficients["precipitation"], fit.coef.sel(feature="precipitation"))
    np.testing.assert_allclose(
        coefficients["temperature_error"], fit.coef_error.sel(feature="temperature")
    )
    assert coefficients["n_tasks"].sum() == 24
    errors = pd.read_csv(run / "errors.csv")
    np.testing.assert_allclose(errors["ctfa_error"], fit.held_out.errors["ctfa"])
    merges = pd.read_csv(run / "merges.csv")
    assert len(merges) == 24 - fit.n_regions > 0
    assert merges["group"].astype(str).str.fullmatch(r"\d{4}(; \d{4})*").all()
    assert (run / "report.html").read_text(encoding="utf-8").lstrip().startswith("<")


@pytest.mark.more
def test_the_same_run_again_is_the_same_to_the_byte(here, run, tmp_path):
    # In a process of its own, which orders sets in its own way, and seconds later.
    again = [*COMMAND, "fit", os.path.join(run, "run.toml"), "-q", "-o"]
    for seed in "12":
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        folder = str(here / f"again{seed}")
        subprocess.run([*again, folder], env=environment, check=True, timeout=120)
    assert sorted(content(run)) == sorted(WRITTEN)
    for name, data in content(run).items():  # run.toml too: the way to its inputs is the same
        assert data == (here / "again1" / name).read_bytes(), name
        assert data == (here / "again2" / name).read_bytes(), name
    read = tomllib.loads((here / "run" / "run.toml").read_text(encoding="utf-8"))
    assert read["files"] == {"data": "../basins.nc", "neighbours": "../basins.gpkg"}


def test_a_run_file_holds_every_option(run):
    with open(os.path.join(run, "run.toml"), "rb") as file:
        options = tomllib.load(file)["options"]
    assert options["features"] == FEATURES
    assert options["task"] == ["basin"]
    assert set(options) == {k for k, v in DEFAULTS.items() if v is not None} | {
        "target", "features", "sample", "task",
    }  # fmt: skip


def test_what_was_left_open_is_written_down(here, tmp_path):
    given = [str(here / "basins.nc"), "-t", "flow", *QUICK, "-o", str(tmp_path / "run")]
    assert cli.main(["fit", *given]) == 0
    options = tomllib.loads((tmp_path / "run" / "run.toml").read_text())["options"]
    assert options["features"] == FEATURES
    assert (options["sample"], options["task"]) == ("time", ["basin"])
    # Without held-out rows there is no file of errors; places come from the coordinates.
    names = os.listdir(tmp_path / "run")
    assert "errors.csv" not in names
    points = geopandas.read_file(tmp_path / "run" / "regions.gpkg")
    assert set(points.geom_type) == {"Point"}


def test_options_come_before_those_of_a_run_file(run, tmp_path):
    given = [*QUICK, "--max-loss", "0.5", "--no-standardise"]
    assert cli.main(["fit", "--from", f"{run}/run.toml", *given, "-o", str(tmp_path / "b")]) == 0
    options = tomllib.loads((tmp_path / "b" / "run.toml").read_text())["options"]
    assert (options["max_loss"], options["held_out"]) == (0.5, "none")
    assert options["standardise"] is False
    assert options["features"] == FEATURES


@pytest.mark.more
def test_a_changed_input_is_refused_unless_it_is_meant(here, tmp_path, capsys):
    write_basins(tmp_path)
    data = str(tmp_path / "basins.nc")
    assert cli.main(["fit", data, *FIT, *QUICK, "-o", str(tmp_path / "run")]) == 0
    write_basins(tmp_path, n_samples=50)
    before = content(tmp_path)
    again = ["fit", str(tmp_path / "run" / "run.toml"), "-q", "-o", str(tmp_path / "again")]
    capsys.readouterr()
    assert cli.main(again) == 1
    assert re.match(r"ctfa fit: .*basins\.nc has changed since that run", capsys.readouterr().err)
    assert content(tmp_path) == before
    assert cli.main([*again, "--changed"]) == 0


def test_force_replaces_a_run(here, tmp_path):
    given = [str(here / "basins.nc"), *FIT, *QUICK, "-o", str(tmp_path / "run")]
    assert cli.main(["fit", *given]) == 0
    assert cli.main(["fit", *given, "--max-loss", "2", "--force"]) == 0
    options = tomllib.loads((tmp_path / "run" / "run.toml").read_text())["options"]
    assert options["max_loss"] == 2.0
    assert os.listdir(tmp_path) == ["run"]


@pytest.mark.parametrize("name", ["aggregate", "head"])
def test_help_names_the_defaults_of_the_library(name, capsys):
    with pytest.raises(SystemExit):
        cli.main(["fit", "--help"])
    told = " ".join(capsys.readouterr().out.partition(f"--{name}")[2].split())
    default = DEFAULTS[name]
    if name == "head":  # which the library leaves to the model
        own = MultiInputCTFARegressor(np.zeros((1, 1), dtype=int))
        assert CTFARegressor().head == own.head
        default = own.head
    assert f"(default: {default})" in told.partition(" --")[0]


@pytest.mark.parametrize("where", ["fitting", "writing"])
@pytest.mark.parametrize("there", [False, True])
def test_an_interrupted_run_leaves_what_was_there(
    where, there, here, run, tmp_path, capsys, monkeypatch
):
    def stop(*_, **__):
        raise KeyboardInterrupt

    if there:
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "run.toml").write_text("old")
    before = content(tmp_path)
    if where == "fitting":
        monkeypatch.setattr(labelled, "fit", stop)
    else:
        monkeypatch.setattr(_results, "error_table", stop)
    given = [str(here / "basins.nc"), *FIT, *FEWER, "-o", str(tmp_path / "run"), "--force"]
    assert cli.main(["fit", *given]) == 130
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "ctfa fit: stopped; nothing was written.\n")
    assert content(tmp_path) == before


@pytest.mark.more
def test_fit_in_json(here, tmp_path, capsys):
    given = [str(here / "basins.nc"), *FIT, "--held-out", "2", "--max-loss", "1"]
    assert cli.main(["fit", *given, "--json", "-o", str(tmp_path / "run")]) == 0
    told = printed_json(capsys)
    assert (told["n_tasks"], told["target"], told["max_loss"]) == (24, "flow", 1.0)
    assert set(told["held_out"]["error"]) >= {"ctfa", "single-task"}
    assert told["files"] == sorted(os.listdir(tmp_path / "run"), key=WRITTEN.index)


# ---------------------------------------------------------------- after a run


def test_predictions_are_those_of_python(run, fit, tmp_path, capsys):
    later = basins()[0].isel(time=slice(40, None)).drop_vars("flow")
    later.to_netcdf(tmp_path / "later.nc", engine="h5netcdf")
    out = tmp_path / "predicted.nc"
    assert cli.main(["predict", run, str(tmp_path / "later.nc"), "-o", str(out)]) == 0
    assert "predicted.nc, 20 time x 24 basin" in capsys.readouterr().out
    found = labelled.read(out)["flow"]
    expected = fit.predict(labelled.read(tmp_path / "later.nc"))
    np.testing.assert_array_equal(found.values, expected.values)
    assert found.attrs["units"] == "m3 s-1"


def test_predictions_do_not_replace_a_file_unless_told(here, run, tmp_path, capsys):
    out = tmp_path / "predicted.nc"
    out.write_bytes(b"mine")
    given = ["predict", run, str(here / "basins.nc"), "-o", str(out)]
    assert cli.main(given) == 1
    assert "exists" in capsys.readouterr().err
    assert out.read_bytes() == b"mine"
    assert cli.main([*given, "--force", "--json"]) == 0
    assert printed_json(capsys)["sizes"] == {"time": 60, "basin": 24}
    assert out.read_bytes() != b"mine"


def test_the_ending_decides_the_format_of_predictions(here, run, tmp_path):
    out = tmp_path / "predicted.csv"
    assert cli.main(["predict", run, str(here / "basins.nc"), "-o", str(out)]) == 0
    table = pd.read_csv(out)
    assert list(table.columns) == ["time", "basin", "flow"]
    assert len(table) == 60 * 24


def test_a_report_is_written_again_or_elsewhere(here, run, tmp_path, capsys, monkeypatch):
    page = tmp_path / "page.html"
    assert cli.main(["report", run, "-o", str(page)]) == 0
    assert page.stat().st_size > 0
    assert cli.main(["report", run, "-o", str(page)]) == 1
    capsys.readouterr()
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    before = (here / "run" / "report.html").read_bytes()
    assert cli.main(["report", run, "--open", "--json"]) == 0
    assert printed_json(capsys)["output"].endswith("report.html")
    assert opened == [(here / "run" / "report.html").as_uri()]
    assert (here / "run" / "report.html").read_bytes() == before


def test_why_says_what_python_says(run, fit, capsys):
    assert cli.main(["why", run, "1003", "1004"]) == 0
    assert capsys.readouterr().out == f"{fit.why(1003)}\n\n{fit.why(1004)}\n"
    assert cli.main(["why", run, "1003", "--json"]) == 0
    (told,) = printed_json(capsys)["tasks"]
    assert told["task"] == "1003"
    assert told["words"] == str(fit.why(1003))
    assert "1003" in told["members"]


def grid_file(path):
    data, _ = basins()
    south = -30.25 - 0.5 * np.repeat(np.arange(4), 6)
    east = 10.0 + 0.5 * np.tile(np.arange(6), 4)
    grid = data.drop_vars(["basin", "lon", "lat"]).assign_coords(
        lat=("basin", south), lon=("basin", east)
    )
    grid = grid.set_index(basin=["lat", "lon"]).unstack("basin")
    grid.to_netcdf(path, engine="h5netcdf")
    return grid


def test_a_grid_is_fitted_and_its_cells_are_asked_by_their_place(tmp_path, capsys):
    grid = grid_file(tmp_path / "grid.nc")
    given = ["-t", "flow", "-f", "temperature", "-f", "snow", "--task", "lat,lon", *QUICK]
    out = str(tmp_path / "run")
    assert cli.main(["fit", str(tmp_path / "grid.nc"), *given, "--neighbours", "queen",
                     "--weights", "area", "--anomalies", "month", "-o", out]) == 0  # fmt: skip
    capsys.readouterr()
    assert labelled.read(tmp_path / "run" / "regions.nc")["region"].dims == ("lat", "lon")
    assert set(geopandas.read_file(tmp_path / "run" / "regions.gpkg").geom_type) == {"Polygon"}
    assert cli.main(["why", out, "-30.75,10.5"]) == 0
    assert "30.75°S 10.5°E" in capsys.readouterr().out
    assert cli.main(["why", out, "-30.75"]) == 1
    assert "2 values" in capsys.readouterr().err
    assert grid.sizes == {"time": 60, "lat": 4, "lon": 6}


@pytest.mark.more
def test_places_in_other_numbers_and_a_window_are_predicted(tmp_path, capsys):
    """The model in double precision east and west of Greenwich; the file as reanalyses have it."""
    grid = grid_file(tmp_path / "grid.nc")
    grid = grid.assign_coords(lat=-30.3 + 0.1 * np.arange(4), lon=-0.3 + 0.1 * np.arange(6))
    grid.to_netcdf(tmp_path / "grid.nc", engine="h5netcdf")
    other = grid.expand_dims(level=[1000]).transpose("time", "level", "lat", "lon")
    other = other.assign_coords(lat=grid.lat.astype("f4"), lon=(grid.lon % 360).astype("f4"))
    other.to_netcdf(tmp_path / "other.nc", engine="h5netcdf")
    other.isel(lat=slice(0, 2), lon=[4]).to_netcdf(tmp_path / "window.nc", engine="h5netcdf")
    given = ["-t", "flow", "-f", "temperature", "-f", "snow", "--task", "lat,lon", *QUICK]
    given[given.index("mean")] = "pool"
    out = str(tmp_path / "run")
    assert cli.main(["fit", str(tmp_path / "grid.nc"), *given, "-o", out]) == 0
    found = {}
    for name in ("grid", "other", "window"):
        path = tmp_path / f"{name}_predicted.nc"
        assert cli.main(["predict", out, str(tmp_path / f"{name}.nc"), "-o", str(path)]) == 0
        found[name] = labelled.read(path)["flow"]
    xr.testing.assert_identical(found["other"], found["grid"])
    xr.testing.assert_identical(found["window"], found["grid"].isel(lat=slice(0, 2), lon=[4]))
    capsys.readouterr()
    assert cli.main(["why", out, "--", "-30.2,-0.2"]) == 0
    first = capsys.readouterr().out
    assert cli.main(["why", out, "--", "-30.2,359.8"]) == 0
    assert capsys.readouterr().out == first


def test_a_cut_region_of_means_is_refused_before_anything_is_written(here, run, tmp_path, capsys):
    data = labelled.read(here / "basins.nc")
    out, cut = str(tmp_path / "run"), tmp_path / "cut.nc"
    given = [str(here / "basins.nc"), *FIT, *QUICK, "--max-loss", "inf", "-o", out]
    assert cli.main(["fit", *given]) == 0
    data.isel(basin=slice(0, 5)).to_netcdf(cut, engine="h5netcdf")
    capsys.readouterr()
    assert cli.main(["predict", out, str(cut), "-o", str(tmp_path / "p.nc")]) == 1
    assert "1 region asked for lacks 19 basins in the data" in capsys.readouterr().err
    assert not (tmp_path / "p.nc").exists()


@pytest.mark.more
def test_the_doctor_leaves_out_a_level_of_one_value(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    grid = grid_file(tmp_path / "grid.nc")
    levels = grid.expand_dims(level=[1000]).transpose("time", "level", "lat", "lon")
    levels.to_netcdf(tmp_path / "level.nc", engine="h5netcdf")
    assert cli.main(["doctor", "level.nc", "--json", "--no-timing"]) == 0
    seen = printed_json(capsys)
    assert seen["roles"]["task"] == ["lat", "lon"]
    assert "level has one value (1000), and is left out" in [f["what"] for f in seen["findings"]]
    assert cli.main([*shlex.split(seen["command"])[1:], *QUICK]) == 0
    capsys.readouterr()
    both = xr.concat([levels, levels.assign_coords(level=[850])], "level")
    both.to_netcdf(tmp_path / "levels.nc", engine="h5netcdf")
    assert cli.main(["doctor", "levels.nc", "--json", "--no-timing"]) == 1
    stop = next(f for f in printed_json(capsys)["findings"] if f["severity"] == "stops")
    assert stop["what"] == "flow has several values of level (1000, 850)"
    assert stop["do"] == "choose one of them: --select level=1000"
    assert cli.main(["doctor", "levels.nc", "--select", "level=850", "--json", "--no-timing"]) == 0
    command = shlex.split(printed_json(capsys)["command"])[1:]
    assert command[command.index("--select") + 1] == "level=850"
    assert cli.main([*command[:-1], "chosen", *QUICK]) == 0
    assert 'select = ["level=850"]' in Path("chosen/run.toml").read_text(encoding="utf-8")
    assert cli.main(["fit", "chosen/run.toml", "-o", "again"]) == 0
    assert cli.main(["predict", "again", "levels.nc", "-o", "both.nc"]) == 0
    below = both.sel(level=[850])
    below.to_netcdf("below.nc", engine="h5netcdf")
    assert cli.main(["predict", "again", "below.nc", "-o", "one.nc"]) == 0
    assert labelled.read("both.nc").identical(labelled.read("one.nc"))
    capsys.readouterr()
    levels.to_netcdf("other.nc", engine="h5netcdf")
    assert cli.main(["predict", "again", "other.nc", "-o", "none.nc"]) == 1
    assert "level=850 is selected, and level has 1000" in capsys.readouterr().err


def test_a_run_of_one_kind_of_file_names_the_file_of_the_other(here, run, tmp_path, capsys):
    table = basins()[0].to_dataframe().reset_index()
    table.to_csv(tmp_path / "basins.csv", index=False)
    assert cli.main(["predict", run, str(tmp_path / "basins.csv"), "-o", "p.nc"]) == 1
    said = capsys.readouterr().err
    assert "basins.csv is a table, and the run was fitted to arrays (time, basin)" in said
    assert "give a NetCDF or Zarr file" in said
    out = str(tmp_path / "run")
    assert cli.main(["fit", str(tmp_path / "basins.csv"), *FIT, *QUICK, "-o", out]) == 0
    capsys.readouterr()
    assert cli.main(["predict", out, str(here / "basins.nc"), "-o", "p.csv"]) == 1
    said = capsys.readouterr().err
    assert "basins.nc holds arrays, and the run was fitted to a table: give a CSV" in said


def test_predict_notes_months_that_fit_never_saw_and_another_step(here, tmp_path, capsys):
    data = labelled.read(here / "basins.nc").load()
    seen, years = tmp_path / "seen.nc", tmp_path / "years.nc"
    data.isel(time=data.time.dt.month < 11).to_netcdf(seen, engine="h5netcdf")
    late = pd.date_range("2001-12-01", periods=9, freq="12MS")
    data.isel(time=slice(9)).assign_coords(time=late).to_netcdf(years, engine="h5netcdf")
    out = str(tmp_path / "run")
    assert cli.main(["fit", str(seen), *FIT, *QUICK, "--anomalies", "month", "-o", out]) == 0
    capsys.readouterr()
    assert cli.main(["predict", out, str(seen), "-o", str(tmp_path / "p.nc")]) == 0
    assert "note" not in capsys.readouterr().err
    assert cli.main(["predict", out, str(years), "-o", str(tmp_path / "q.nc")]) == 0
    said = capsys.readouterr().err
    assert "note: 9 of 9 rows to predict lie in a month of which fit has seen no row" in said
    assert "note: rows to predict are 365 days apart and those of fit 31 days" in said


def test_a_table_is_fitted_and_predicted_as_a_table(here, tmp_path, capsys):
    table = basins()[0].to_dataframe().reset_index()
    table.to_csv(tmp_path / "basins.csv", index=False)
    out = str(tmp_path / "run")
    given = [str(tmp_path / "basins.csv"), *FIT, *QUICK, "--neighbours", "nearest:4", "-o", out]
    assert cli.main(["fit", *given]) == 0
    assert "regions.csv" in os.listdir(out)
    predicted = tmp_path / "p.csv"
    assert cli.main(["predict", out, str(tmp_path / "basins.csv"), "-o", str(predicted)]) == 0
    found = pd.read_csv(predicted)
    assert list(found.columns) == ["time", "basin", "flow"]
    np.testing.assert_array_equal(found["basin"], table["basin"])
    assert cli.main(["fit", f"{out}/run.toml", "-q", "-o", str(tmp_path / "again")]) == 0
    first, second = content(out), content(tmp_path / "again")
    assert first["model.ctfa"] == second["model.ctfa"]
    assert first["regions.csv"] == second["regions.csv"]


def test_neighbours_may_be_pairs_in_a_table(here, tmp_path):
    pairs = pd.DataFrame({"source": 1000 + np.arange(23), "target": 1001 + np.arange(23)})
    pairs.to_csv(tmp_path / "pairs.csv", index=False)
    given = ["--max-loss", "inf", "--neighbours", str(tmp_path / "pairs.csv")]
    given += ["-o", str(tmp_path / "run")]
    assert cli.main(["fit", str(here / "basins.nc"), *FIT, *QUICK, *given]) == 0
    regions = labelled.read(tmp_path / "run" / "regions.nc")["region"].values
    assert (regions == regions[0]).all()


def test_path_is_a_table_with_the_chosen_limit(run, fit, tmp_path, capsys):
    assert cli.main(["path", run, "--csv", str(tmp_path / "path.csv")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum("<- chosen" in line for line in lines) == 1
    assert len(pd.read_csv(tmp_path / "path.csv")) == len(fit.path())
    assert cli.main(["path", run, "--json"]) == 0
    told = printed_json(capsys)
    assert told["n_regions"] == fit.n_regions
    assert [row["n_groups"] for row in told["path"]] == list(fit.path()["n_groups"])


def test_path_of_data_is_that_of_a_fit(here, run, capsys):
    given = [str(here / "basins.nc"), *FIT, "--neighbours", str(here / "basins.gpkg")]
    assert cli.main(["path", *given, "--cv", "3", "--json"]) == 0
    told = printed_json(capsys)
    assert cli.main(["path", run, "--json"]) == 0
    assert printed_json(capsys) == told


# ------------------------------------------------------- files changed by xarray on the way


def seasonal():
    """Basins with a season, in months at 12:00."""
    data, _ = basins(n_basins=8, n_samples=72)
    data = data.assign_coords(time=data["time"] + np.timedelta64(12, "h"))
    season = 10 * np.cos(2 * np.pi * data["time"].dt.month / 12)
    return data.assign(flow=data["flow"] + season, temperature=data["temperature"] + 3 * season)


def by_days(data):
    """The same, day by day."""
    days = pd.date_range("2001-01-01 12:00", periods=2190, freq="D")
    daily = data.sel(time=days, method="ffill")
    return daily.assign_coords(time=("time", days, data["time"].attrs))


def of_calendar(calendar):
    def change(data):
        pytest.importorskip("cftime", reason="other calendars need cftime")
        return data.convert_calendar(calendar, align_on="date", use_cftime=True)

    return change


ON_THE_WAY = {
    "encoding dropped": (lambda data: data.drop_encoding(), {}),
    "thirty days later": (
        lambda data: data.assign_coords(time=data.time + np.timedelta64(30, "D")), {}
    ),
    "means of months": (lambda data: by_days(data).resample(time="MS").mean(), {}),
    "floats": (
        lambda data: data.drop_encoding(),
        {"time": {"units": "days since 1990-01-01", "dtype": "f8"}},
    ),
    "noleap": (of_calendar("noleap"), {}),
    "360 days": (of_calendar("360_day"), {}),
}  # fmt: skip


@pytest.mark.more
@pytest.mark.parametrize("way", ON_THE_WAY)
@pytest.mark.parametrize("suffix", ["nc", "zarr"])
def test_a_walk_with_xarray_between_the_steps_is_as_in_memory(tmp_path, capsys, way, suffix):
    change, encoding = ON_THE_WAY[way]
    labelled.write(seasonal(), tmp_path / f"ours.{suffix}")
    engine = {"nc": "h5netcdf", "zarr": "zarr"}[suffix]
    with xr.open_dataset(tmp_path / f"ours.{suffix}", engine=engine) as opened:
        data = change(opened.load())
    theirs = str(tmp_path / f"theirs.{suffix}")
    if suffix == "nc":
        data.to_netcdf(theirs, engine=engine, encoding=encoding)
    else:
        data.to_zarr(theirs, zarr_format=2, encoding=encoding)
    assert cli.main(["doctor", theirs, *FIT, "--no-timing", "--json"]) == 0
    period = printed_json(capsys)["period"]
    assert period["first"] == data.indexes["time"][0].isoformat().removesuffix("T00:00:00")
    assert period["last"] == data.indexes["time"][-1].isoformat().removesuffix("T00:00:00")
    options = {"target": "flow", "features": FEATURES, "anomalies": "month", "held_out": None}
    options |= {"max_loss": 1.0, "aggregate": "mean"}
    for name, given in (("ours", seasonal()), ("theirs", data)):
        run, file = str(tmp_path / name), str(tmp_path / f"{name}.{suffix}")
        assert cli.main(["fit", file, *FIT, *QUICK, "--anomalies", "month", "-o", run]) == 0
        expected = labelled.fit(given, **options).predict(data)
        predicted = tmp_path / f"predicted-{name}.{suffix}"
        assert cli.main(["predict", run, theirs, "-q", "-o", str(predicted)]) == 0
        with xr.open_dataset(predicted, engine=engine) as back:
            assert list(back.indexes["time"]) == list(data.indexes["time"])
            np.testing.assert_allclose(back["flow"].values, expected.values, rtol=1e-9)
        capsys.readouterr()


def reanalysis(n_years=8):
    """Temperature of a grid by wind there and an index, as a centre would publish it."""
    rng = np.random.default_rng(0)
    n_rows, lat, lon = 12 * n_years, 4, 5
    time = pd.date_range("2001-01-01 12:00", periods=n_rows, freq="MS")
    index = rng.normal(size=n_rows)
    wind = rng.normal(size=(n_rows, 1, 1)) + 0.3 * rng.normal(size=(n_rows, lat, lon))
    slope = np.where(np.arange(lon) < 3, 1.0, -1.0)
    heat = slope * wind + 0.5 * index[:, None, None] + rng.normal(size=wind.shape)
    heat += 280.0 - 12.0 * np.cos(2.0 * np.pi * time.month.to_numpy() / 12.0)[:, None, None]
    dims = ("time", "level", "lat", "lon")
    return xr.Dataset(
        {
            "t2m": (dims, heat[:, None], {"units": "K"}),
            "u10": (dims, wind[:, None], {"units": "m s-1"}),
            "nao": ("time", index, {"units": "1"}),
        },
        coords={
            "time": time,
            "level": [2.0],
            "lat": np.float32(35.1) + np.float32(0.1) * np.arange(lat, dtype=np.float32),
            "lon": np.float32(359.8) + np.float32(0.1) * np.arange(lon, dtype=np.float32),
        },
    )


PACKED = {"dtype": "int16", "scale_factor": 2e-3, "add_offset": 270.0, "_FillValue": -32768}


def test_doctor_fit_and_predict_are_true_of_files_that_xarray_changed_between_them(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    encoding = {"t2m": PACKED, "time": {"units": "hours since 1900-01-01", "dtype": "f8"}}
    reanalysis().to_netcdf("era.nc", engine="h5netcdf", encoding=encoding)
    with xr.open_dataset("era.nc", engine="h5netcdf") as opened:
        data = opened.load()

    # What the doctor proposes is run as it is printed.
    assert cli.main(["doctor", "era.nc", "-t", "t2m", "-f", "u10,nao", "--no-timing"]) == 0
    said = capsys.readouterr().out
    heat = data["t2m"].isel(level=0)
    year = heat["time"].dt.year
    left = [
        heat[year == one].groupby("time.month")
        - heat[year != one].groupby("time.month").mean("time")
        for one in np.unique(year)
    ]
    level = [heat[year == one] - heat[year != one].mean("time") for one in np.unique(year)]
    lost, whole = ((xr.concat(part, "time") ** 2).mean("time") for part in (left, level))
    share = float((1.0 - lost / whole).mean())
    assert f"the calendar month explains {100 * share:.0f} % of the variance of t2m" in said
    proposed = shlex.split(said.rstrip().splitlines()[-1])
    assert proposed[:2] == ["ctfa", "fit"]
    assert proposed[proposed.index("--anomalies") + 1] == "month"
    assert cli.main([*proposed[1:], "--aggregate", "pool"]) == 0
    said = capsys.readouterr().out

    # The skill is that against months of the training rows.
    month = heat["time"].dt.month.values
    values = heat.values.reshape(len(month), -1)
    squares = np.empty(values.shape)
    for block in np.array_split(np.arange(len(month)), 5):
        rest = np.setdiff1d(np.arange(len(month)), block)
        means = np.array([values[rest][month[rest] == m].mean(axis=0) for m in range(1, 13)])
        squares[block] = (values[block] - means[month[block] - 1]) ** 2
    anomalies = values - np.array([values[month == m].mean(axis=0) for m in month])
    zero = squares.mean(axis=0) / anomalies.var(axis=0)
    errors = pd.read_csv("run/errors.csv")
    np.testing.assert_allclose(errors["climatology_error"], zero, rtol=1e-9)
    skill = 1.0 - errors["ctfa_error"].mean() / zero.mean()
    assert skill > 0.3
    assert f"skill {skill:.2f} against the month means of the training rows" in said

    # Other units, other longitudes, another order, other dates of the same months, fewer cells.
    future = data.isel(time=slice(24, None)).drop_vars("t2m").drop_encoding()
    future = future.assign(u10=(100.0 * future["u10"]).assign_attrs(units="cm/s"))
    turned = (future["lon"].astype("f8") + 180.0) % 360.0 - 180.0
    future = future.assign_coords(
        time=future["time"] + np.timedelta64(14, "D"), lon=turned, lat=future["lat"].astype("f8")
    )
    future = future.sortby("lat", ascending=False).isel(level=0, lat=slice(1, 4))
    future.to_netcdf("future.nc", engine="h5netcdf")
    assert cli.main(["predict", "run", "future.nc", "-o", "predicted.nc"]) == 0
    printed = capsys.readouterr()
    assert "u10 is converted from 'cm/s' to 'm s-1'" in printed.err
    expected = labelled.load("run/model.ctfa").predict(data.isel(time=slice(24, None)))
    with xr.open_dataset("predicted.nc", engine="h5netcdf") as back:
        assert list(back.indexes["time"]) == list(future.indexes["time"])
        assert back["t2m"].attrs["units"] == "K"
        assert back["t2m"].sizes == {"time": 72, "lat": 3, "lon": 5}
        np.testing.assert_allclose(back["t2m"], expected.isel(lat=slice(0, 3)), rtol=1e-9)


def test_predictions_in_a_table_keep_noon(tmp_path):
    data = seasonal()
    labelled.write(data, tmp_path / "a.nc")
    given = [str(tmp_path / "a.nc"), *FIT, *QUICK, "--anomalies", "month"]
    assert cli.main(["fit", *given, "-o", str(tmp_path / "run")]) == 0
    for name in ("p.csv", "p.parquet"):
        given = [str(tmp_path / "run"), str(tmp_path / "a.nc"), "-q", "-o", str(tmp_path / name)]
        assert cli.main(["predict", *given]) == 0
        table = labelled.read(tmp_path / name)
        assert table.time.unique().tolist() == data.indexes["time"].tolist()


# ------------------------------------------------------------------------------- the doctor


def test_the_doctor_says_what_is_there_and_how_to_fit_it(here, capsys, monkeypatch):
    monkeypatch.chdir(here)
    given = ["doctor", "basins.nc", "--neighbours", "basins.gpkg", *FEWER]
    assert cli.main(given) == 0
    printed = capsys.readouterr().out
    assert "60 time, 24 basin" in printed
    assert "2001-01-01 to 2005-12-01, by month" in printed
    assert "m3 s-1" in printed
    assert "an estimate" in printed
    (command,) = [line.strip() for line in printed.splitlines() if "ctfa fit " in line]
    assert command == (
        "ctfa fit basins.nc -t flow -f temperature,precipitation,snow --sample time --task basin "
        "--neighbours basins.gpkg --cv 3 --held-out 2 -o run"
    )


def test_what_the_doctor_says_can_be_run(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data, _ = basins(gaps=0.1)
    data["flow"][:, 3] = np.nan
    data.to_netcdf("my basins.nc", engine="h5netcdf")
    assert cli.main(["doctor", "my basins.nc", "--json", "--masked", "leave", "--no-timing"]) == 0
    command = printed_json(capsys)["command"]
    words = shlex.split(command)
    assert words[:3] == ["ctfa", "fit", "my basins.nc"]
    assert cli.main([*words[1:], "--held-out", "none", "--max-loss", "1", "-q"]) == 0


def test_the_doctor_proposes_a_list_of_numbers_as_it_was_given(here, capsys):
    given = [str(here / "basins.nc"), "--json", "--no-timing", "--own-past", "1,2"]
    assert cli.main(["doctor", *given, "--together", "1000,1001"]) == 0
    command = json.loads(capsys.readouterr().out)["command"]
    assert "--together 1000,1001 --own-past 1,2" in command


def test_the_doctor_in_json(here, capsys):
    given = [str(here / "basins.nc"), "-t", "flow", "-f", "snow", "--no-timing", "--json"]
    assert cli.main(["doctor", *given]) == 0
    told = printed_json(capsys)
    assert told["roles"]["guessed"] == ["sample", "task"]
    assert (told["n_samples"], told["n_tasks"], told["estimate"]) == (60, 24, None)
    assert told["stops"] is False


def test_the_doctor_finds_islands_and_parts(here, tmp_path, capsys):
    pairs = pd.DataFrame({"source": [1000, 1001, 1010], "target": [1001, 1002, 1011]})
    pairs.to_csv(tmp_path / "pairs.csv", index=False)
    given = ["--neighbours", str(tmp_path / "pairs.csv"), "--no-timing", "--json"]
    assert cli.main(["doctor", str(here / "basins.nc"), *given]) == 0
    found = " ".join(f["what"] for f in printed_json(capsys)["findings"])
    assert "19 of 24 tasks have no neighbour" in found
    assert "2 parts" in found


def test_a_table_in_any_order_is_fitted_and_the_doctor_agrees(tmp_path, capsys):
    data, _ = basins(n_basins=8)
    data["snow"][20:29, 2] = np.nan
    table = data.to_dataframe().reset_index()
    table.to_csv(tmp_path / "a.csv", index=False)
    table.sample(frac=1.0, random_state=0).to_csv(tmp_path / "b.csv", index=False)
    regions = []
    for name in ("a", "b"):
        path, run = str(tmp_path / f"{name}.csv"), str(tmp_path / name)
        assert cli.main(["doctor", path, *FIT, "--no-timing", "--json"]) == 0
        found = printed_json(capsys)
        assert not found["stops"]
        assert any("the longest 9 months (1002)" in f["what"] for f in found["findings"])
        assert cli.main(["fit", path, *FIT, *FEWER, "-q", "-o", run]) == 0
        regions.append(pd.read_csv(os.path.join(run, "errors.csv")).sort_values("basin"))
        capsys.readouterr()
    np.testing.assert_allclose(regions[0]["ctfa_error"], regions[1]["ctfa_error"])


def test_the_doctor_of_a_table(tmp_path, capsys):
    basins()[0].to_dataframe().reset_index().to_csv(tmp_path / "b.csv", index=False)
    assert cli.main(["doctor", str(tmp_path / "b.csv"), "--no-timing", "--json"]) == 0
    told = printed_json(capsys)
    assert told["roles"]["target"] == "flow"
    assert told["roles"]["task"] == ["basin"]
    assert "--neighbours nearest:6" in told["command"]


# ------------------------------------------------------------------------------ in a shell


def basins_table():
    """A long table as pandas has it, and others write it."""
    rng = np.random.default_rng(0)
    time, names = pd.date_range("2000-01-01", periods=60, freq="MS"), ["a", "b", "c", "d"]
    table = pd.DataFrame({"date": np.repeat(time, 4), "basin": np.tile(names, 60)})
    return table.assign(**{name: rng.normal(size=240) for name in ("flow", "rain", "temp")})


def looked_at(data, folder, capsys, *more, index=False):
    """What the doctor says of a table in a file, or of arrays."""
    if hasattr(data, "data_vars"):
        path = folder / "data.nc"
        data.to_netcdf(path)
    else:
        path = folder / "data.csv"
        data.to_csv(path, index=index)
    cli.main(["doctor", str(path), "--no-timing", "--json", *more])
    found = printed_json(capsys)
    return found, {f["what"]: f for f in found["findings"]}


def test_text_among_the_numbers_of_a_feature_is_told_where_it_is_left_out(tmp_path, capsys):
    table = basins_table().astype({"rain": object})
    table.loc[5, "rain"] = "missing"
    found, said = looked_at(table, tmp_path, capsys)
    assert "rain has text among its numbers and was left out of the guess" in said
    assert found["roles"]["features"] == ["temp"]


@pytest.mark.parametrize("shuffled", [False, True])
def test_a_row_number_is_no_feature(tmp_path, capsys, shuffled):
    table = basins_table()
    table = table.sample(frac=1.0, random_state=0) if shuffled else table
    found, said = looked_at(table, tmp_path, capsys, index=True)
    assert found["roles"]["features"] == ["rain", "temp"]
    assert "'Unnamed: 0' looks like a row number and was left out of the guess" in said


def in_parts(table, *parts):
    dates = {part.title(): getattr(table["date"].dt, part) for part in parts}
    return table.drop(columns="date").assign(**dates)


def test_years_and_months_in_columns_are_to_be_made_dates(tmp_path, capsys):
    found, said = looked_at(in_parts(basins_table(), "year", "month"), tmp_path, capsys)
    told = said["Year and Month are dates in several columns"]
    assert told["severity"] == "stops"
    table = pd.read_csv(tmp_path / "data.csv")
    exec(told["do"].partition(": ")[2], {"table": table, "pandas": pd})
    assert (table["date"] == basins_table()["date"]).all()
    assert found["period"]["step"] == "month"
    assert found["roles"]["features"] == ["rain", "temp"]
    assert not any("twice" in what or "never changes" in what for what in said)


def test_a_year_that_is_named_is_not_said_to_hold_copies_to_average(tmp_path, capsys):
    table = in_parts(basins_table(), "year", "month")
    _, said = looked_at(table, tmp_path, capsys, "--sample", "Year")
    [told] = [finding for what, finding in said.items() if "come twice" in what]
    assert "average" not in told["do"]
    assert "make one column of dates of Year, Month" in told["do"]
    assert not any("never changes" in what or "complete rows" in what for what in said)


def test_one_row_a_year_needs_no_month(tmp_path, capsys):
    table = basins_table()
    table = in_parts(table[table["date"].dt.month == 12], "year", "month")
    found, said = looked_at(table, tmp_path, capsys)
    assert found["roles"]["sample"] == "Year"
    assert not any("several columns" in what for what in said)


def test_positions_that_are_no_coordinates_are_told_and_not_proposed(tmp_path, capsys):
    data = basins_table().set_index(["date", "basin"]).to_xarray()
    data["lat"], data["lon"] = ("basin", np.arange(4.0)), ("basin", np.arange(4.0))
    found, said = looked_at(data, tmp_path, capsys)
    assert not found["stops"]
    assert "nearest" not in found["command"]
    [told] = [finding for what, finding in said.items() if "not coordinates" in what]
    assert "ds.set_coords(['lat', 'lon'])" in told["do"]
    (tmp_path / "more").mkdir()
    found, said = looked_at(data.set_coords(["lat", "lon"]), tmp_path / "more", capsys)
    assert "--neighbours nearest:3" in found["command"]


def test_the_targets_of_a_wide_table_are_to_be_named(tmp_path, capsys):
    table = basins_table().pivot(index="date", columns="basin", values="flow").reset_index()
    table.insert(1, "Year", table["date"].dt.year)
    table["rain"] = np.random.default_rng(1).normal(size=60)
    found, said = looked_at(table, tmp_path, capsys)
    assert found["roles"]["target"] is None
    [told] = said.values()
    assert "name them all with -t (-t a,b,c)" in told["do"]
    found, _ = looked_at(table, tmp_path, capsys, "-t", "a,b,c,d")
    assert found["roles"]["features"] == ["rain"]
    assert not found["stops"]


def test_the_command_is_without_guessed_features_that_never_change(tmp_path, capsys):
    table = basins_table().assign(
        elevation=lambda t: t["basin"].map({"a": 1.0, "b": 2.0}).fillna(5.0)
    )
    found, _ = looked_at(table, tmp_path, capsys)
    assert "-f rain,temp " in found["command"]
    found, _ = looked_at(table, tmp_path, capsys, "-f", "rain,elevation")
    assert "-f rain,elevation " in found["command"]


def test_one_task_is_told_in_words_that_are_true_of_one(tmp_path, capsys):
    table = basins_table().query("basin == 'a'")
    looked_at(table, tmp_path, capsys)
    assert cli.main(["doctor", str(tmp_path / "data.csv")]) == 0
    assert "from fits of its one task)" in capsys.readouterr().out
    run = tmp_path / "run"
    fit = ["fit", str(tmp_path / "data.csv"), "-t", "flow", "-f", "rain,temp", "--sample", "date"]
    assert cli.main([*fit, "--task", "basin", "-o", str(run)]) == 0
    printed = capsys.readouterr().out
    assert "as given" not in printed
    assert "not chosen, because there was nothing to choose it by" in printed
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "was given" not in page
    assert "was not chosen: there was nothing to choose it by" in page
    assert "1 basin was grouped" in page


@pytest.mark.parametrize("n_rows", [1, 3, 7])
def test_too_few_rows_to_hold_some_out_are_told_as_such(tmp_path, capsys, n_rows):
    table = basins_table().head(4 * n_rows)
    found, said = looked_at(table, tmp_path, capsys)
    assert found["stops"]
    assert any("too few to hold some of them out" in what for what in said)
    fit = ["fit", str(tmp_path / "data.csv"), "-t", "flow", "-f", "rain", "--sample", "date"]
    assert cli.main([*fit, "--task", "basin", "-o", str(tmp_path / "run")]) != 0
    complaint = capsys.readouterr().err
    assert "cannot split" not in complaint
    assert "sample(s)" not in complaint
    assert "1 row (n_samples=1), and 2 or more" in complaint or "--held-out none" in complaint


@pytest.mark.more
def test_the_command_is_quiet_in_a_pipe_and_ends_with_its_reader(run):
    done = subprocess.run(
        [*COMMAND, "path", run], capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    shell = f"{sys.executable} -m ctfa why {run} $(seq 1000 1023) --json | head -n 1"
    done = subprocess.run(
        ["bash", "-c", shell], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.stdout == "{\n"
    assert done.stderr == ""


def in_a_shell(line, **options):
    """Run a line of bash in which ``ctfa`` is this one."""
    shell = f'ctfa() {{ "{sys.executable}" -m ctfa "$@"; }}; {line}'
    return subprocess.run(
        ["bash", "-c", shell], capture_output=True, text=True, check=False, timeout=300, **options
    )


ANY = {
    "help": "fit --help",
    "datasets": "datasets",
    "baselines": "baselines --list",
    "demo": "demo -o {new}",
    "doctor": "doctor {here}/basins.nc --no-timing",
    "fit": "fit {here}/basins.nc {options} -o {new}",
    "report": "report {here}/run -o {new}.html",
    "why": "why {here}/run 1003 --json",
}


def line_of(command, here, tmp_path):
    options = shlex.join([*FIT, *QUICK[:-1], "--neighbours", "nearest:4"])
    return "ctfa " + ANY[command].format(here=here, new=tmp_path / "new", options=options)


@pytest.mark.more
@pytest.mark.parametrize("command", ["demo", "fit", "report"])
def test_a_command_whose_output_nobody_reads_ends_quietly(command, here, tmp_path):
    # The reader has left before the command begins, so that nothing depends on who is faster.
    line = f"exec 3> >(:); sleep 0.2; {line_of(command, here, tmp_path)} >&3; exit $?"
    done = in_a_shell(line)
    assert (done.returncode, done.stderr) == (141, "")
    if command == "fit":
        assert {"model.ctfa", "run.toml"} <= set(content(tmp_path / "new"))


@pytest.mark.more
@pytest.mark.parametrize("command", ["fit", "why"])
def test_a_command_works_without_standard_streams(command, here, tmp_path):
    line = line_of(command, here, tmp_path)
    done = in_a_shell(f"{line} >&-; exit $?")
    assert (done.returncode, done.stderr) == (0, "")
    if command == "fit":
        without = line.replace(f"{tmp_path}/new", f"{tmp_path}/too")
        assert in_a_shell(f"{without} >&- 2>&- <&-; exit $?").returncode == 0
        assert content(tmp_path / "new") == content(tmp_path / "too")
        assert labelled.load(tmp_path / "too" / "model.ctfa").n_regions > 1


@pytest.mark.more
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
@pytest.mark.parametrize("command", ["demo", "fit", "why"])
def test_output_that_has_no_room_is_told_in_one_sentence(command, here, tmp_path):
    done = in_a_shell(f"{line_of(command, here, tmp_path)} > /dev/full; exit $?")
    assert done.returncode == 1
    assert done.stderr == (
        "ctfa: standard output cannot be written to: [Errno 28] No space left on device.\n"
    )
    if command == "fit":
        assert {"model.ctfa", "run.toml"} <= set(content(tmp_path / "new"))


@pytest.mark.more
def test_notes_that_nobody_can_read_stop_nothing(here, tmp_path):
    gaps, _ = basins()
    gaps["flow"][:5, 3] = np.nan
    gaps.to_netcdf(tmp_path / "gaps.nc", engine="h5netcdf")
    given = shlex.join([str(tmp_path / "gaps.nc"), *FIT, *QUICK[:-1]])
    for number, errors in enumerate(["2>/dev/full", "2>&3"]):
        line = f"exec 3> >(:); sleep 0.2; ctfa fit {given} -o {tmp_path}/{number} {errors}; exit $?"
        assert in_a_shell(line).returncode == 0
        assert "model.ctfa" in content(tmp_path / str(number))
    # An error that cannot be told is still an exit code.
    assert in_a_shell("ctfa why nowhere 1 2>/dev/full; exit $?").returncode == 1


@pytest.mark.more
def test_a_lack_of_memory_is_told_as_such(here, tmp_path):
    spoiled = tmp_path / "pyogrio.py"
    spoiled.write_text("raise ImportError('libgdal.so: failed to map segment from shared object')")
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    line = f"ctfa doctor {here}/basins.nc --neighbours {here}/basins.gpkg --no-timing; exit $?"
    done = in_a_shell(line, env={**os.environ, "PYTHONPATH": paths})
    assert done.returncode == 1
    assert "ctfa doctor: there is not enough memory to load pyogrio (libgdal.so: " in done.stderr
    assert "pip install" not in done.stdout + done.stderr


# ------------------------------------------------------------------- names that others gave

HOSTILE = [
    '=HYPERLINK("http://x","y")', "\x1b[2Jcleared", "\x1b]8;;http://x\x07link\x1b]8;;\x07",
    "[red]x[/red] [/]", "two\nlines", "\rback", "\x9b31mC1", "\u202egnp", "-2+3", "@SUM(A1)",
    "[/bold",
]  # fmt: skip
#: What a terminal may be sent beside text: colours and the ends of lines.
COLOUR = re.compile(r"\x1b\[[\d;]*m|\n")
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e]")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A folder with a file whose names are no names, and a run of it."""
    folder = tmp_path_factory.mktemp("hostile")
    data, _ = basins(gaps=0.02)
    names = [*HOSTILE, *(f"b{i}" for i in range(24 - len(HOSTILE)))]
    data = data.assign_coords(basin=("basin", np.array(names, dtype=object)))
    data = data.rename(snow="=snow[red]")
    data["flow"].attrs["long_name"] = "\x1b[31mflow[/red]"
    data.to_netcdf(folder / "data.nc", engine="h5netcdf")
    given = [str(folder / "data.nc"), *FIT, *FEWER, "--max-loss", "3", "-q"]
    given[given.index("-f") + 1] = "temperature,precipitation,=snow[red]"
    assert cli.main(["fit", *given, "-o", str(folder / "run")]) == 0
    return folder


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.more
@pytest.mark.parametrize("in_colour", [False, True])
def test_names_cannot_steer_a_terminal(hostile, tmp_path, monkeypatch, in_colour):
    if in_colour:
        pytest.importorskip("rich", reason="colours need rich")
    out, err = (Terminal(), Terminal()) if in_colour else (io.StringIO(), io.StringIO())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    run, data = str(hostile / "run"), str(hostile / "data.nc")
    assert cli.main(["doctor", data, "--no-timing", "-t", "flow", "-q"]) == 0
    assert cli.main(["fit", run + "/run.toml", "-q", "-o", str(tmp_path / "\x1b[2Jrun")]) == 0
    assert cli.main(["why", run, "--", *HOSTILE]) == 0
    assert cli.main(["why", run, "\x1b[2Jnobody"]) == 1
    assert cli.main(["path", run, "-q"]) == 0  # a bar steers the terminal itself
    assert cli.main(["predict", run, "\x1b[2Jnowhere.nc", "-q", "-o", str(tmp_path / "a.nc")]) == 1
    assert cli.main(["predict", run, data, "-q", "-o", str(tmp_path / "\x1b[2Ja.nc")]) == 0
    with pytest.raises(SystemExit):
        cli.main(["path", run, "more\x1b[2J"])
    shown = out.getvalue() + err.getvalue()
    left = CONTROL.findall(COLOUR.sub("", shown))
    assert left == []
    for name in ("\\x1b[2Jcleared", "two\\nlines", "\\u202egnp", "[red]x[/red] [/]", "\\x9b31mC1"):
        assert name in shown
    assert "=snow[red]" in shown
    assert ("\x1b[1m" in shown) is in_colour


def test_json_holds_names_as_they_are_and_nothing_for_a_terminal(hostile, capsys):
    assert cli.main(["why", "--json", str(hostile / "run"), "--", *HOSTILE]) == 0
    text = capsys.readouterr().out
    assert CONTROL.findall(text.replace("\n", "")) == []
    assert [task["task"] for task in json.loads(text)["tasks"]] == HOSTILE


def test_what_python_prints_of_names_cannot_steer_a_terminal(hostile):
    fitted = labelled.load(hostile / "run" / "model.ctfa")
    for text in (str(fitted), repr(fitted), *(str(fitted.why(name)) for name in HOSTILE)):
        assert CONTROL.findall(text.replace("\n", "")) == []
    with pytest.raises(KeyError) as refused:
        fitted.why("nobody")
    assert CONTROL.findall(refused.value.args[0]) == []
    worst = int(np.nanargmin(fitted.held_out.gain))
    fitted.tasks.names[worst] = "worst\x1b[2J"  # the one that a summary names
    assert "worst\\x1b[2J" in str(fitted)


@pytest.mark.more
def test_no_table_of_a_run_has_a_formula_and_names_come_back(hostile, tmp_path):
    run = hostile / "run"
    tables = [run / n for n in WRITTEN if n.endswith(".csv")] + [tmp_path / "predicted.csv"]
    args = [str(run), str(hostile / "data.nc"), "-q", "-o", str(tables[-1])]
    assert cli.main(["predict", *args]) == 0
    for table in tables:
        with open(table, newline="", encoding="utf-8") as file:
            cells = {cell for row in csv.reader(file) for cell in row}
        texts = [cell for cell in cells if not re.fullmatch(r"-?[\d.]+(e-?\d+)?|-inf", cell)]
        assert not [text for text in texts if text[:1] in ("=", "+", "-", "@", "\t", "\r")]
        assert any(cell.startswith("-") for cell in cells) or table.stem in ("regions", "skill")
    assert labelled.read(run / "regions.csv")["basin"].tolist()[: len(HOSTILE)] == HOSTILE
    assert labelled.read(run / "errors.csv")["basin"].tolist()[: len(HOSTILE)] == HOSTILE
    assert "=snow[red]" in labelled.read(run / "coefficients.csv").columns
    # A table of ctfa's own is data again: its labels are those of the run.
    data = labelled.read(hostile / "data.nc").to_dataframe().reset_index()
    labelled.write(data, tmp_path / "data.csv")
    args = [str(run), str(tmp_path / "data.csv"), "-q", "-o", str(tmp_path / "again.csv")]
    assert sorted(set(labelled.read(tables[-1])["basin"])) == sorted(set(data["basin"]))
    given = [str(tmp_path / "data.csv"), *FIT, *FEWER, "--max-loss", "3", "-q"]
    given[given.index("-f") + 1] = "temperature,precipitation,=snow[red]"
    assert cli.main(["fit", *given, "-o", str(tmp_path / "run")]) == 0
    assert cli.main(["predict", str(tmp_path / "run"), *args[1:]]) == 0
    of_table = labelled.load(tmp_path / "run" / "model.ctfa")
    assert set(HOSTILE) <= set(of_table.tasks.labels)


def in_a_terminal(command, *, press=None, seconds=120):
    """Run a command in a terminal of its own; return what it showed there and its exit code.

    Standard output is a pipe, so that what is shown is standard error alone. Ctrl-C is pressed
    once something matches ``press``.
    """
    mine, its = pty.openpty()
    process = subprocess.Popen(
        command, stdin=its, stdout=subprocess.PIPE, stderr=its, close_fds=True,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"}, start_new_session=True,
        # Where the tests run in the background they ignore Ctrl-C, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )  # fmt: skip
    os.close(its)
    shown, end = b"", time.monotonic() + seconds
    while time.monotonic() < end:
        if select.select([mine], [], [], 0.1)[0]:
            try:
                part = os.read(mine, 65536)
            except OSError:
                break
            if not part:
                break
            shown += part
        if press is not None and re.search(press, shown):
            process.send_signal(signal.SIGINT)
            press = None
    out = process.stdout.read()
    code = process.wait(timeout=seconds)
    process.stdout.close()
    os.close(mine)
    return shown.decode(), out.decode(), code


@pytest.mark.more
def test_a_terminal_shows_what_is_going_on(here, tmp_path):
    given = [str(here / "basins.nc"), *FIT, *FEWER, "--neighbours", "nearest:4"]
    shown, out, code = in_a_terminal([*COMMAND, "fit", *given, "-o", str(tmp_path / "run")])
    assert code == 0
    assert "ctfa fit: reading" in shown
    assert "groups of 24" in shown  # the bar of a search
    assert "24 basins -> " in out
    assert "\x1b" not in out  # no colours in a pipe


@pytest.mark.more
def test_ctrl_c_ends_with_one_line_and_nothing_written(here, tmp_path):
    write_basins(tmp_path, n_basins=600, n_samples=400)  # a fit of seconds
    before = content(tmp_path)
    given = [str(tmp_path / "basins.nc"), *FIT, "-o", str(tmp_path / "run")]
    shown, out, code = in_a_terminal([*COMMAND, "fit", *given], press=rb"groups of 600")
    assert (code, out) == (130, "")
    assert "ctfa fit: stopped; nothing was written." in shown
    assert "Traceback" not in shown
    assert content(tmp_path) == before


@pytest.mark.parametrize("command", ["fit", "predict", "report", "path", "why", "doctor"])
def test_help_is_a_page_with_an_example(command, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main([command, "--help"])
    page = capsys.readouterr().out
    assert stop.value.code == 0
    assert f"  ctfa {command} " in page.partition("examples:")[2]
    assert "--debug" in page
    assert max(map(len, page.splitlines())) <= 100


def test_xarray_is_what_results_are_read_with(here):
    with xr.open_dataset(here / "run" / "coefficients.nc", engine="h5netcdf") as both:
        assert set(both.data_vars) == {"coef", "coef_error"}
