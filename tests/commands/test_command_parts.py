"""What the commands are made of: the folder, the run file, the parser, what a doctor finds."""

import argparse
import errno
import math
import os
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from command_data import content, pd, xr
from ctfa._commands import _options
from ctfa._commands._asked import RunFile, checksum, read_run_file
from ctfa._commands._contents import (
    HARMS,
    NOTE,
    STOPS,
    contents_of,
    guess_roles,
    look_over,
    period_of,
    values_of,
)
from ctfa._commands._results import FILES, OutputFolder
from ctfa._commands._terminal import in_words, plain, table_text
from ctfa._commands.doctor import extrapolated, spoken, together
from ctfa.labelled._tasks import Coordinates, LabelledTasks

# ------------------------------------------------------------------------------- the folder


def test_a_folder_appears_whole(tmp_path):
    target = tmp_path / "new" / "run"
    names = OutputFolder(target).write(lambda d: (d / "run.toml").write_text("x"))
    assert names == ["run.toml"]
    assert content(tmp_path) == {"new": None, "new/run": None, "new/run/run.toml": b"x"}


@pytest.mark.parametrize("stop", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_folder_that_fails_halfway_leaves_nothing(tmp_path, stop):
    def fill(draft):
        (draft / "run.toml").write_text("half")
        raise stop

    with pytest.raises(stop):
        OutputFolder(tmp_path / "new" / "run").write(fill)
    assert content(tmp_path) == {}


@pytest.mark.parametrize("stop", [ValueError, KeyboardInterrupt])
def test_a_failed_replacement_leaves_the_old_folder(tmp_path, stop):
    run = tmp_path / "run"
    OutputFolder(run).write(lambda d: (d / "run.toml").write_text("old"))
    before = content(tmp_path)

    def fill(draft):
        (draft / "run.toml").write_text("half")
        raise stop

    with pytest.raises(stop):
        OutputFolder(run, force=True).write(fill)
    assert content(tmp_path) == before


def test_a_replacement_that_cannot_be_renamed_puts_the_old_folder_back(tmp_path, monkeypatch):
    run = tmp_path / "run"
    OutputFolder(run).write(lambda d: (d / "run.toml").write_text("old"))
    before, rename = content(tmp_path), Path.rename

    def refuse(self, target):
        if self.name.endswith(".part"):
            raise OSError("no")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(OSError, match="no"):
        OutputFolder(run, force=True).write(lambda d: (d / "run.toml").write_text("new"))
    assert content(tmp_path) == before


def test_force_replaces_a_run_with_all_its_files(tmp_path):
    run = tmp_path / "run"
    OutputFolder(run).write(lambda d: [(d / name).write_text("old") for name in FILES])
    OutputFolder(run, force=True).write(lambda d: (d / "run.toml").write_text("new"))
    assert content(tmp_path) == {"run": None, "run/run.toml": b"new"}


def test_force_never_replaces_what_others_put_there(tmp_path):
    run = tmp_path / "run"
    OutputFolder(run).write(lambda d: (d / "run.toml").write_text("old"))
    (run / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"also holds notes\.txt"):
        OutputFolder(run, force=True)


def test_an_empty_folder_is_filled_and_a_full_one_or_a_file_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    OutputFolder(tmp_path / "empty").write(lambda d: (d / "run.toml").write_text("x"))
    with pytest.raises(ValueError, match=r"is not empty.*--force"):
        OutputFolder(tmp_path / "empty")
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match="is a file"):
        OutputFolder(tmp_path / "file", force=True)


def test_the_folder_one_is_in_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="the folder you are in"):
        OutputFolder(Path("."))


# ----------------------------------------------------------------------------- the run file


def test_a_run_file_reads_back_what_was_written(tmp_path):
    data = tmp_path / "in" / 'odd "name" ü\\.nc'
    data.parent.mkdir()
    data.write_bytes(b"123")
    options = {
        "target": ["vhi"],
        "features": ["t 2m", 'a"b', "tab\there", "del\x7f", "ü𝄞"],
        "max_loss": math.inf,
        "detrend": False,
        "cv": 10,
        "title": None,
    }
    run = tmp_path / "out" / "run"
    run.mkdir(parents=True)
    (run / "run.toml").write_text(RunFile({"data": data}, options).text(run), encoding="utf-8")
    found = read_run_file(run / "run.toml", options)
    assert found.files == {"data": data}
    assert found.options == {k: v for k, v in options.items() if v is not None}
    assert found.changed() == []
    # Relative: a folder that is moved as a whole still finds its files.
    moved = tmp_path / "moved"
    moved.mkdir()
    for name in ("in", "out"):
        (tmp_path / name).rename(moved / name)
    assert read_run_file(moved / "out" / "run" / "run.toml", options).changed() == []


def test_a_changed_or_missing_input_is_told(tmp_path):
    data = tmp_path / "data.nc"
    data.write_bytes(b"1")
    (tmp_path / "run.toml").write_text(RunFile({"data": data}, {}).text(tmp_path))
    data.write_bytes(b"2")
    assert "has changed since" in read_run_file(tmp_path / "run.toml", ()).changed()[0]
    data.unlink()
    assert "is not there any more" in read_run_file(tmp_path / "run.toml", ()).changed()[0]


def test_the_checksum_of_a_shapefile_or_a_folder_covers_all_of_it(tmp_path):
    for name in ("a.shp", "a.dbf"):
        (tmp_path / name).write_bytes(b"1")
    store = tmp_path / "b.zarr"
    (store / "x").mkdir(parents=True)
    (store / "x" / "0").write_bytes(b"1")
    before = [checksum(tmp_path / "a.shp"), checksum(store)]
    (tmp_path / "a.dbf").write_bytes(b"2")
    (store / "x" / "0").write_bytes(b"2")
    after = [checksum(tmp_path / "a.shp"), checksum(store)]
    assert before[0] != after[0]
    assert before[1] != after[1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("this is = = not toml", "not a run file"),
        ("a = 1", "no \\[files\\]"),
        ('[files]\ndata = "x.nc"\n[options]\nmaxloss = 1\n', "did you mean 'max_loss'"),
    ],
)
def test_a_run_file_that_is_none_is_refused(tmp_path, text, words):
    (tmp_path / "run.toml").write_text(text)
    with pytest.raises(ValueError, match=words):
        read_run_file(tmp_path / "run.toml", ["max_loss", "title"])


def test_a_run_file_is_toml_with_every_option_it_was_given(tmp_path):
    data = tmp_path / "d.nc"
    data.write_bytes(b"")
    text = RunFile({"data": data}, {"cv": 10, "target": ["a"]}).text(tmp_path)
    assert tomllib.loads(text)["options"] == {"cv": 10, "target": ["a"]}


# ------------------------------------------------------------------------------- the parser


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (_options.names, "a, b", ["a", "b"]),
        (_options.neighbours, "queen", "queen"),
        (_options.neighbours, "nearest:6", "nearest:6"),
        (_options.neighbours, "b.gpkg", Path("b.gpkg")),
        (_options.max_loss, "auto", "auto"),
        (_options.max_loss, "inf", math.inf),
        (_options.held_out, "none", "none"),
        (_options.held_out, "5", 5),
    ],
)
def test_options_are_read(read, text, value):
    assert read(text) == value


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (_options.names, "a,,b"),
        (_options.neighbours, "rok"),
        (_options.neighbours, "nearest:few"),
        (_options.max_loss, "much"),
        (_options.max_loss, "nan"),
        (_options.held_out, "1"),
        (_options.blocks, "x"),
    ],
)
def test_options_that_mean_nothing_are_refused(read, text):
    with pytest.raises(argparse.ArgumentTypeError, match=text.partition(":")[2] or text):
        read(text)


def test_json_has_no_numbers_that_json_has_not():
    given = {
        "nan": np.nan, "inf": np.inf, "array": np.array([1.5, np.nan]), "int": np.int64(3),
        "time": np.datetime64("2001-02-03"), "path": Path("a"), "tuple": (1, True, None),
        "stamp": pd.Timestamp("2001-02-03"),
    }  # fmt: skip
    assert plain(given) == {
        "nan": None, "inf": "inf", "array": [1.5, None], "int": 3, "time": "2001-02-03",
        "path": "a", "tuple": [1, True, None], "stamp": "2001-02-03T00:00:00",
    }  # fmt: skip


def test_a_table_lines_up():
    text = table_text(["name", "n"], [["a", "1"], ["bcdef", "1,000"]], words=["name"])
    assert text.splitlines() == ["name       n", "a          1", "bcdef  1,000"]


# ------------------------------------------------------------------------------- the doctor


def dataset(n_samples=60, n_tasks=8, **changes):
    """Healthy data; changes replace variables, coordinates or attributes."""
    rng = np.random.default_rng(0)
    time = pd.date_range("2000-01-01", periods=n_samples, freq="MS").to_numpy()
    shape = (n_samples, n_tasks)
    held = {name: rng.normal(size=shape) for name in ("vhi", "t2m", "tp")} | changes
    time = held.pop("time", time)
    dims = ("time", "basin")
    built = xr.Dataset(
        {name: (dims[: np.ndim(v)], v, {"units": "1"}) for name, v in held.items()},
        coords={"time": time, "basin": [f"b{i}" for i in range(n_tasks)]},
    )
    return built


def findings(data, **roles):
    contents = contents_of(data)
    return look_over(contents, values_of(data, guess_roles(contents, **roles)))


def test_healthy_data_have_no_findings():
    assert findings(dataset()) == []


def spoiled(name, value, where=(slice(None), 0)):
    data = dataset()
    array = data[name].values.copy()
    array[where] = value
    return data.assign({name: (("time", "basin"), array, {"units": "1"})})


TIMES = pd.date_range("2000-01-01", periods=60, freq="MS").to_numpy()


@pytest.mark.parametrize(
    ("data", "severity", "words"),
    [
        (lambda: spoiled("t2m", np.inf, (3, 2)), STOPS, "1 infinite value.*2000-04-01 of b2"),
        (lambda: spoiled("tp", -9999.0, (slice(5), 1)), HARMS, "tp has -9999 5 times"),
        (lambda: spoiled("vhi", 1e20, (0, 0)), HARMS, "1e\\+20"),
        (lambda: spoiled("vhi", np.nan), STOPS, "1 of 8 tasks have no vhi, the first b0"),
        (lambda: spoiled("tp", np.nan), NOTE, "tp is missing altogether for 1 of 8"),
        (lambda: spoiled("vhi", 3.0), STOPS, "vhi never changes in 1 of 8"),
        (lambda: spoiled("tp", 3.0), HARMS, "tp never changes in 1 of 8"),
        (lambda: spoiled("tp", np.nan, (slice(10, 17), 3)), NOTE, r"1\.5% .* 7 months \(b3\)"),
        (lambda: spoiled("tp", np.nan, (slice(40), slice(None))), HARMS, "67% of its values"),
        (lambda: dataset(time=np.r_[TIMES[:1], TIMES[:-1]]), STOPS, "1 time more than once"),
        (lambda: dataset(time=TIMES[::-1]), STOPS, "2004-11-01 comes after 2004-12-01"),
        (lambda: dataset(time=np.r_[TIMES[:-1], TIMES[-1:] + np.timedelta64(90, "D")]),
         NOTE, "3 months between .* not in the file, the first after 2004-11-01"),
        (lambda: dataset(time=TIMES + np.timedelta64(1, "D") * (np.arange(60) % 3 * 13)),
         HARMS, "irregular"),
        (lambda: dataset().assign(copy=lambda d: 2 * d["t2m"] + 1), HARMS, "t2m and copy are"),
        (lambda: dataset(n_samples=4), HARMS, "8 of 8 tasks have fewer than 5 complete rows"),
        (lambda: dataset(n_samples=12), HARMS, "9 degrees of freedom"),
        (lambda: dataset(t2m=np.full((60, 8), "warm")), STOPS, "text.*480 values.*'warm'"),
    ],
)  # fmt: skip
def test_each_fault_is_found(data, severity, words):
    found = findings(data(), target="vhi", features=[
        str(name) for name in data().data_vars if name != "vhi"
    ])  # fmt: skip
    mine = [finding for finding in found if re.search(words, finding.what)]
    assert [finding.severity for finding in mine] == [severity], found
    assert mine[0].do


def undated(times):
    """The same rows, whose times are no dates; none at all for None."""
    return dataset().drop_vars("time") if times is None else dataset(time=times)


@pytest.mark.parametrize(
    ("times", "how"),
    [
        (np.array([100 * (2000 + m // 12) + 1 + m % 12 for m in range(60)]), "format='%Y%m'"),
        (2000 + np.arange(60) / 12, "pandas.to_datetime"),
        (np.array([f"2000-{m}" for m in range(60)]), "pandas.to_datetime"),
        (None, "pandas.to_datetime"),
    ],
)
def test_rows_without_dates_are_told_because_no_season_is_looked_for(times, how):
    [note] = findings(undated(times))
    assert note.severity == NOTE
    assert "no dates" in note.what
    assert "seasons and gaps in time were not looked for" in note.what
    assert how in note.do


def test_a_time_that_comes_twice_is_said_as_a_date():
    [what] = [f.what for f in findings(dataset(time=np.r_[TIMES[:1], TIMES[:-1]]))]
    assert what == "1 time more than once, the first 2000-01-01"


def test_target_and_features_without_a_common_row_stop():
    data = spoiled("vhi", np.nan, (slice(30), slice(None)))
    late = np.where(np.arange(60)[:, None] < 30, data["tp"].values, np.nan)
    found = findings(data.assign(tp=(("time", "basin"), late)))
    assert any(f.severity == STOPS and "no row in common" in f.what for f in found)


def test_dependent_features_that_are_no_pair_are_found():
    data = dataset().assign(sum=lambda d: d["t2m"] + d["tp"])
    assert any("condition number" in f.what for f in findings(data))


def test_units_that_are_missing_are_noted():
    data = dataset()
    del data["tp"].attrs["units"]
    assert [(f.severity, f.what) for f in findings(data)] == [(NOTE, "tp has no units")]


def test_masked_cells_of_a_grid_are_no_fault():
    data = spoiled("vhi", np.nan).drop_vars("basin")
    grid = data.assign_coords(
        lat=("basin", np.repeat([1.0, 2.0], 4)), lon=("basin", [0, 1, 2, 3] * 2)
    )
    grid = grid.set_index(basin=["lat", "lon"]).unstack("basin")
    found = findings(grid)
    assert [f.severity for f in found] == [NOTE]
    assert "1 of 8 tasks have no vhi: masked" in found[0].what


def test_what_stops_comes_first():
    data = spoiled("tp", np.nan, (slice(10), 3))
    data["vhi"][0, 0] = np.inf
    assert [f.severity for f in findings(data)] == [STOPS, NOTE]


def test_roles_are_guessed_from_arrays():
    roles = guess_roles(contents_of(dataset()[["tp", "vhi", "t2m"]]))
    assert (roles.target, roles.features) == ("vhi", ["tp", "t2m"])
    assert (roles.sample, roles.task) == ("time", ["basin"])
    assert roles.guessed == ("target", "features", "sample", "task")
    roles = guess_roles(contents_of(dataset()), target="tp", features=["t2m"])
    assert (roles.target, roles.features, roles.guessed) == ("tp", ["t2m"], ("sample", "task"))


def long_table():
    table = dataset().to_dataframe().reset_index()
    return table.assign(lon=1.0, lat=2.0)


def test_roles_are_guessed_from_a_long_table():
    roles = guess_roles(contents_of(long_table()))
    assert (roles.target, roles.features) == ("vhi", ["t2m", "tp"])
    assert (roles.sample, roles.task) == ("time", ["basin"])


def test_a_long_table_gives_the_same_values_as_arrays():
    table = long_table().sample(frac=1.0, random_state=0).sort_values("time", kind="stable")
    roles = guess_roles(contents_of(table))
    values = values_of(table, roles)
    np.testing.assert_array_equal(values.target, dataset()["vhi"].values)
    np.testing.assert_array_equal(values.features["tp"], dataset()["tp"].values)


def test_rows_that_come_twice_in_a_table_stop():
    table = long_table()
    twice = pd.concat([table, table.iloc[:2]])
    found = findings(twice)
    assert any("2 rows come twice, the first 2000-01-01 of b0" in f.what for f in found)


def test_rows_of_a_table_in_any_order_are_no_fault():
    """A fit sorts them; a gap is as long as it is in time."""
    data = spoiled("tp", np.nan, (slice(10, 17), 3))
    table = data.to_dataframe().reset_index()
    found = findings(table)
    assert [f.severity for f in found] == [NOTE]
    assert "the longest 7 months (b3)" in found[0].what
    assert findings(table.sample(frac=1.0, random_state=0)) == found


def test_rows_of_a_table_without_a_time_are_put_nowhere():
    table = long_table()
    table.loc[[3, 11], "time"] = pd.NaT
    values = values_of(table, guess_roles(contents_of(table)))
    expected = dataset()["vhi"].values.copy()
    expected[[0, 1], 3] = np.nan
    np.testing.assert_array_equal(values.target, expected)


def of_calendar(calendar, freq, periods=60):
    pytest.importorskip("cftime", reason="other calendars need cftime")
    return xr.date_range(
        "2001-01-01 12:00", periods=periods, freq=freq, calendar=calendar, use_cftime=True
    ).to_numpy()


@pytest.mark.parametrize("times", [
    lambda: TIMES,
    lambda: pd.date_range("2001-01-31", periods=60, freq="ME").to_numpy(),
    lambda: pd.date_range("2001-01-15 12:00", periods=120, freq="SME").to_numpy()[::2],
    lambda: pd.date_range("2001-01-01", periods=60, freq="MS", tz="Europe/Madrid").to_numpy(),
    lambda: np.array([time.astype("M8[D]").item() for time in TIMES], dtype=object),
    lambda: of_calendar("noleap", "MS"),
    lambda: of_calendar("360_day", "ME"),
])  # fmt: skip
@pytest.mark.parametrize("order", ["sorted", "shuffled", "some twice"])
def test_the_longest_gap_is_right_in_any_order_and_calendar(times, order):
    """Nine months: six rows without a value, and three that are not in the file."""
    months = times()
    rows = np.delete(np.arange(months.size), [20, 21, 22])
    data = dataset(months.size).assign_coords(time=months).isel(time=rows)
    gone = data["tp"].copy()
    gone[{"time": [17, 18, 19, 20, 21, 22], "basin": 5}] = np.nan
    gone[{"time": [40, 41, 42, 43, 44, 45, 46, 47], "basin": 2}] = np.nan
    data = data.assign(tp=gone)
    if order == "shuffled":
        data = data.isel(time=np.random.default_rng(0).permutation(data.sizes["time"]))
    if order == "some twice":
        data = data.isel(time=[*range(19), *range(17, data.sizes["time"])])
    (gaps,) = [f.what for f in findings(data) if "tp has gaps" in f.what]
    assert "the longest 9 months (b5)" in gaps
    (absent,) = [f.what for f in findings(data) if "not in the file" in f.what]
    assert absent.startswith("3 months between")


def test_text_among_the_numbers_of_a_table_is_counted():
    table = long_table()
    table["tp"] = table["tp"].astype(object)
    table.loc[[3, 7], "tp"] = "n/a"
    found = findings(table, features=["t2m", "tp"])
    assert any(
        "tp holds text" in f.what and "2 values" in f.what and "'n/a'" in f.what for f in found
    )


STEPS = {
    "MS": "month", "ME": "month", "D": "day", "YS": "year", "6h": "6 hours", "W": "week",
    "QS": "3 months", "10YS": "10 years", "15D": "15 days", "30D": "30 days", "min": "minute",
    "5s": "5 seconds",
}  # fmt: skip


@pytest.mark.parametrize("freq", STEPS)
def test_the_step_of_time_is_read(freq):
    times = pd.date_range("1901-01-01", periods=30, freq=freq).to_numpy()
    period = period_of(times)[0]
    assert (period.step, period.n_missing, period.n_times) == (STEPS[freq], 0, 30)
    gappy = period_of(np.delete(times[::-1], [3, 4, 20]))[0]
    assert (gappy.step, gappy.n_missing, gappy.n_times) == (STEPS[freq], 3, 27)
    assert np.datetime64(gappy.first_missing) == times[8]


@pytest.mark.parametrize("calendar", ["noleap", "360_day", "julian"])
@pytest.mark.parametrize(("freq", "step"), [("D", "day"), ("MS", "month"), ("YS", "year")])
def test_the_step_of_time_is_read_in_its_own_calendar(calendar, freq, step):
    """29 February is missing in none of them, 30 February is a day of one."""
    period = period_of(of_calendar(calendar, freq, 1500 if freq == "D" else 30))[0]
    assert (period.step, period.n_missing) == (step, 0)


def test_numbers_have_no_period():
    assert period_of(np.arange(10))[0] is None


def test_the_process_may_write_where_it_says(tmp_path):
    if os.geteuid() == 0:
        pytest.skip("nothing is forbidden to this user")
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(ValueError, match="cannot be written to"):
            OutputFolder(tmp_path / "run")
    finally:
        tmp_path.chmod(0o700)


def test_an_identifier_that_is_nearly_right_is_no_task():
    ids = xr.Dataset(coords={"basin": [2080012340, 2080012350]})
    tasks = LabelledTasks(("basin",), Coordinates.of(ids, ("basin",)), np.arange(2))
    assert tasks.position(2080012350) == 1
    with pytest.raises(KeyError, match="no basin 2080012351"):
        tasks.position(2080012351)


def test_an_estimate_goes_on_by_the_power_it_is_told():
    assert extrapolated([20, 60], [1.2, 1.6], 600, 1.0) == pytest.approx(1.0 + 0.01 * 600)
    assert extrapolated([20, 60], [1.04, 1.36], 600, 2.0) == pytest.approx(1.0 + 0.0001 * 600**2)
    assert extrapolated([60], [3.0], 600, 1.0) == pytest.approx(30.0)
    # A few tasks that took longer than more of them tell nothing, and the estimate stays positive.
    assert extrapolated([20, 60], [2.0, 1.0], 600, 1.0) == pytest.approx(10.0)


def test_tasks_that_are_timed_lie_together():
    ring = sparse.csr_array(np.roll(np.eye(30), 1, axis=1) + np.roll(np.eye(30), -1, axis=1))
    chosen = together(ring, 30, 7)
    assert list(chosen) == list(range(12, 19))
    assert together(None, 30, 7).size == 7
    assert together(sparse.csr_array((30, 30)), 30, 7).size == 7


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.2, "1 s"), (42.0, "40 s"), (600.0, "10 min"), (9000.0, "2.5 h")]
)
def test_a_time_is_said_no_more_exactly_than_it_is_known(seconds, words):
    assert spoken(seconds) == words


def test_an_error_that_nobody_wrote_for_people_says_where_to_look():
    assert in_words(ZeroDivisionError("x")).endswith("--debug shows where.")
    assert in_words(KeyError("there is no such basin.")) == "there is no such basin."
    assert in_words(FileNotFoundError(2, "No such file", "a.nc")) == "a.nc: No such file"
    assert "memory" in in_words(MemoryError())


def test_a_lack_of_memory_is_told_with_what_was_asked_for():
    with pytest.raises(MemoryError) as refused:
        np.empty((2**40, 2**10))
    said = in_words(refused.value)
    assert re.match(r"there is not enough memory for this \(Unable to allocate .* for an", said)
    assert said.endswith("; take fewer tasks or fewer samples.")
    assert in_words(OSError(errno.ENOMEM, "Cannot allocate memory")).startswith("there is not")
    told = MemoryError("there is not enough memory to load x (y): close other programs.")
    assert in_words(told) == str(told)
