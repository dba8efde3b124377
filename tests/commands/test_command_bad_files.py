"""Ten bad files, and some more: one helpful sentence each, and nothing on disk is touched."""

import os

import numpy as np
import pytest

from command_data import basins, content, geopandas, pd, write_basins, xr
from ctfa import cli

FIT = ["-t", "flow", "-f", "temperature,precipitation", "--sample", "time", "--task", "basin"]


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A folder with data, polygons and a run."""
    folder = tmp_path_factory.mktemp("good")
    write_basins(folder)
    quick = ["--held-out", "none", "--max-loss", "1", "--aggregate", "mean", "--quiet"]
    code = cli.main(["fit", str(folder / "basins.nc"), *FIT, *quick, "-o", str(folder / "run")])
    assert code == 0
    return folder


def empty(path, data):
    path.write_bytes(b"")


def truncated(path, data):
    data.to_netcdf(path, engine="h5netcdf")
    path.write_bytes(path.read_bytes()[:3000])


def text_instead(path, data):
    path.write_text("<html>404 not found</html>")


def wrong_dims(path, data):
    data.assign(flow=data["flow"].expand_dims(level=2)).to_netcdf(path, engine="h5netcdf")


def strings(path, data):
    words = np.where(data["temperature"].values > 0, "warm", "cold")
    data.assign(temperature=(data["flow"].dims, words)).to_netcdf(path, engine="h5netcdf")


def duplicate_times(path, data):
    data.isel(time=[0, 0, *range(1, 60)]).to_netcdf(path, engine="h5netcdf")


def unsorted_time(path, data):
    data.isel(time=[1, 0, *range(2, 60)]).to_netcdf(path, engine="h5netcdf")


def unknown_variable(path, data):
    data.rename(flow="flows").to_netcdf(path, engine="h5netcdf")


def all_missing_task(path, data):
    data["flow"][:, 3] = np.nan
    data.to_netcdf(path, engine="h5netcdf")


def all_missing(path, data):
    data["flow"][:] = np.nan
    data.to_netcdf(path, engine="h5netcdf")


def no_overlap(path, data):
    early = data["flow"].where(data["time"] < data["time"][30])
    late = data[["temperature", "precipitation"]].where(data["time"] >= data["time"][30])
    xr.merge([early, late]).to_netcdf(path, engine="h5netcdf")


def infinite(path, data):
    data["precipitation"][4, 2] = np.inf
    data.to_netcdf(path, engine="h5netcdf")


BAD = [
    (empty, "is empty"),
    (truncated, "bad.nc"),
    (text_instead, "bad.nc"),
    (wrong_dims, "level"),
    (strings, "temperature holds text"),
    (duplicate_times, "time has 1 value more than once, the first 2001-01-01"),
    (unsorted_time, "time is not sorted: 2001-01-01 comes after 2001-02-01"),
    (unknown_variable, "no variable 'flow' (did you mean 'flows'?)"),
    (all_missing_task, "1003"),
    (all_missing, "flow"),
    (no_overlap, "in common"),
    (infinite, "precipitation holds 1 infinite value"),
]


def sentence(capsys, name):
    """The one line of standard error, without the name of the command."""
    printed = capsys.readouterr()
    lines = printed.err.strip().splitlines()
    assert printed.out == ""
    assert len(lines) == 1, printed.err
    assert lines[0].startswith(f"ctfa {name}: ")
    assert "Traceback" not in lines[0]
    assert "did not expect" not in lines[0]
    return lines[0].removeprefix(f"ctfa {name}: ")


@pytest.mark.more
@pytest.mark.parametrize(("spoil", "words"), BAD)
def test_a_bad_file_gets_one_sentence_and_nothing_is_touched(spoil, words, good, tmp_path, capsys):
    spoil(tmp_path / "bad.nc", basins()[0])
    before, here = content(good), content(tmp_path)
    bad, run = str(tmp_path / "bad.nc"), str(good / "run")
    assert cli.main(["fit", bad, *FIT, "-o", run, "--force"]) == 1
    said = sentence(capsys, "fit")
    assert words in said
    assert len(said) > 30  # more than the name of an error
    assert cli.main(["fit", bad, *FIT, "-o", str(tmp_path / "deep" / "new")]) == 1
    assert content(good) == before
    assert content(tmp_path) == here


@pytest.mark.more
@pytest.mark.parametrize(("spoil", "words"), BAD)
def test_the_doctor_finds_it_too(spoil, words, tmp_path, capsys):
    spoil(tmp_path / "bad.nc", basins()[0])
    assert cli.main(["doctor", str(tmp_path / "bad.nc"), *FIT, "--no-timing"]) == 1
    printed = capsys.readouterr()
    assert "Traceback" not in printed.err
    assert ("stops" in printed.out) != ("ctfa doctor: " in printed.err)


def test_a_file_that_is_not_there_is_named(good, tmp_path, capsys):
    before = content(good)
    missing = str(tmp_path / "nothing.nc")
    assert cli.main(["fit", missing, *FIT, "-o", str(good / "run"), "--force"]) == 1
    assert "nothing.nc" in sentence(capsys, "fit")
    assert content(good) == before


def test_a_kind_of_file_that_is_not_known_is_named(tmp_path, capsys):
    (tmp_path / "data.docx").write_bytes(b"x")
    assert cli.main(["fit", str(tmp_path / "data.docx"), *FIT, "-o", str(tmp_path / "run")]) == 1
    assert "docx" in sentence(capsys, "fit")


def test_polygons_that_do_not_match_get_one_sentence(good, tmp_path, capsys):
    frame = geopandas.read_file(good / "basins.gpkg")
    frame["basin"] += 5000
    frame.to_file(tmp_path / "others.gpkg")
    before, run = content(good), str(good / "run")
    given = [*FIT, "--neighbours", str(tmp_path / "others.gpkg"), "-o", run, "--force"]
    assert cli.main(["fit", str(good / "basins.nc"), *given]) == 1
    assert "24 of the 24 tasks have no polygon" in sentence(capsys, "fit")
    assert content(good) == before


def test_an_unknown_feature_or_dimension_suggests_the_nearest(good, tmp_path, capsys):
    data, out = str(good / "basins.nc"), ["-o", str(tmp_path / "run")]
    assert cli.main(["fit", data, "-t", "flow", "-f", "temprature", "--task", "basin", *out]) == 1
    assert "did you mean 'temperature'" in sentence(capsys, "fit")
    assert cli.main(["fit", data, "-t", "flow", "--task", "basins", *out]) == 1
    assert "did you mean 'basin'" in sentence(capsys, "fit")


def test_a_folder_that_is_not_empty_is_refused_before_anything_is_read(good, tmp_path, capsys):
    before = content(good)
    assert cli.main(["fit", str(tmp_path / "nothing.nc"), *FIT, "-o", str(good / "run")]) == 1
    assert "is not empty" in sentence(capsys, "fit")
    assert content(good) == before


@pytest.mark.parametrize("spoil", ["tasks", "feature", "empty", "truncated", "strings"])
def test_data_that_a_run_cannot_predict_from_get_one_sentence(spoil, good, tmp_path, capsys):
    path, data = tmp_path / "bad.nc", basins()[0]
    if spoil == "tasks":
        data.assign_coords(basin=data["basin"] + 5000).to_netcdf(path, engine="h5netcdf")
    elif spoil == "feature":
        data.drop_vars("temperature").to_netcdf(path, engine="h5netcdf")
    else:
        {"empty": empty, "truncated": truncated, "strings": strings}[spoil](path, data)
    (tmp_path / "out.nc").write_bytes(b"mine")
    here = content(tmp_path)
    given = [str(good / "run"), str(path), "-o", str(tmp_path / "out.nc"), "--force"]
    assert cli.main(["predict", *given]) == 1
    said = sentence(capsys, "predict")
    wanted = {
        "tasks": "all of the 24",
        "feature": "'temperature'",
        "strings": "temperature holds text",
    }
    assert wanted.get(spoil, "bad.nc") in said
    assert content(tmp_path) == here


@pytest.mark.parametrize("command", ["predict", "report", "why", "path"])
def test_a_run_that_is_none_is_named(command, tmp_path, capsys):
    (tmp_path / "run").mkdir()
    (tmp_path / "data.nc").write_bytes(b"")
    more = {
        "predict": [str(tmp_path / "data.nc"), "-o", str(tmp_path / "out.nc")],
        "why": ["1000"],
    }.get(command, [])
    before = content(tmp_path)
    assert cli.main([command, str(tmp_path / "run"), *more]) == 1
    assert "run" in sentence(capsys, command)
    assert content(tmp_path) == before


@pytest.mark.parametrize("damage", ["truncated", "empty", "text"])
def test_a_model_that_cannot_be_read_gets_one_sentence(damage, good, tmp_path, capsys):
    model = (good / "run" / "model.ctfa").read_bytes()
    held = {"truncated": model[: len(model) // 2], "empty": b"", "text": b"hello"}[damage]
    (tmp_path / "model.ctfa").write_bytes(held)
    assert cli.main(["why", str(tmp_path), "1000"]) == 1
    assert "model.ctfa" in sentence(capsys, "why")


def test_a_label_that_is_no_task_is_told_with_examples(good, capsys):
    assert cli.main(["why", str(good / "run"), "2000"]) == 1
    assert "no basin 2000" in sentence(capsys, "why")
    assert cli.main(["why", str(good / "run"), "north"]) == 1
    assert "1000" in sentence(capsys, "why")


def test_a_table_with_rows_that_come_twice_gets_one_sentence(tmp_path, capsys):
    table = basins()[0].to_dataframe().reset_index()
    pd.concat([table, table.iloc[:1]]).to_csv(tmp_path / "bad.csv", index=False)
    out = str(tmp_path / "run")
    assert cli.main(["fit", str(tmp_path / "bad.csv"), *FIT, "-o", out]) == 1
    assert sentence(capsys, "fit")
    assert not os.path.exists(out)


def test_debug_shows_where(tmp_path, capsys, monkeypatch):
    given = ["fit", str(tmp_path / "no.nc"), *FIT, "-o", str(tmp_path / "run")]
    assert cli.main([*given, "--debug"]) == 1
    assert "Traceback" in capsys.readouterr().err
    monkeypatch.setenv("CTFA_DEBUG", "1")
    assert cli.main(given) == 1
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    "given",
    [
        ["fit"],
        ["fit", "a.nc"],
        ["fit", "a.nc", "-o", "x", "--anomalies", "week"],
        ["fit", "a.nc", "-o", "x", "--max-loss", "much"],
        ["fit", "a.nc", "-o", "x", "--neighbours", "rok"],
        ["predict", "run"],
        ["why", "run"],
        ["nonsense"],
    ],
)
def test_wrong_usage_is_2(given, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(given)
    assert stop.value.code == 2
    assert "error: " in capsys.readouterr().err
