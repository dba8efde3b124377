"""What is written comes back; what cannot be read is told in one sentence."""

import errno
import gzip
import importlib
import os
import sys
import tempfile
import time
from csv import reader
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from command_data import content
from ctfa._text import cell, from_cell
from ctfa.labelled._files import FileError, read, write
from generated import examples

pd = pytest.importorskip("pandas", reason="tables need pandas")
xr = pytest.importorskip("xarray", reason="arrays need xarray")
geopandas = pytest.importorskip("geopandas", reason="maps need geopandas")
pytest.importorskip("h5netcdf", reason="NetCDF needs h5netcdf")
zarr = pytest.importorskip("zarr", reason="Zarr needs zarr")
pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
from shapely.geometry import MultiPolygon, box  # noqa: E402

ARRAYS = ("nc", "h5", "zarr", "zarr.zip")
#: Before, xarray made nanoseconds of every time.
UNITS = ("ns", "us", "ms", "s") if xr.__version__ >= "2025" else ("ns",)
SOME = settings(max_examples=examples(25), suppress_health_check=[HealthCheck.too_slow])

texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=8)
words = st.text("abcäß字- _09", min_size=1, max_size=8).map(lambda s: s.strip() or "x")
attributes = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec="utf-8"), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=5,
)
names = words | st.sampled_from(["units", "long_name", "_FillValue", "scale_factor", "dtype"])


@st.composite
def labels(draw, n):
    """Labels of n tasks, of one type or another, in any order."""
    kind = draw(st.sampled_from(["int8", "int64", "uint32", "f4", "f8", "U", "O", "M8", "bool"]))
    if kind in ("U", "O"):
        found = draw(st.lists(words, min_size=n, max_size=n, unique=True))
        return np.array(found, dtype=kind)
    if kind == "M8":
        unit = draw(st.sampled_from(UNITS))
        moments = st.integers(-(2**40), 2**40) if unit == "s" else st.integers(-(2**60), 2**60)
        found = draw(st.lists(moments, min_size=n, max_size=n, unique=True))
        return np.array(found, dtype="i8").astype(f"M8[{unit}]")
    if kind == "bool":
        return np.arange(n) % 2 == 0
    found = draw(st.lists(st.integers(0, 120), min_size=n, max_size=n, unique=True))
    return np.array(found).astype(kind) / (1 if "i" in kind else np.array(4, dtype=kind))


@st.composite
def datasets(draw):
    n = draw(st.integers(1, 4))
    values = np.arange(3.0 * n).reshape(3, n)
    values[0, 0] = np.nan
    times = np.array(["2000-01-31", "1999-01-01T06:00", "2001-03-01"], dtype="M8[ns]")
    data = xr.Dataset(
        {
            "vhi": (("time", "basin"), values.astype(draw(st.sampled_from(["f4", "f8", "f2"])))),
            "a_count": (("basin", "time"), np.arange(3 * n, dtype="i2").reshape(n, 3)),
            "wet": ("basin", np.arange(n) % 2 == 0),
        },
        coords={"time": times, "basin": draw(labels(n)), "other": ("basin", draw(labels(n)))},
    )
    for variable in (data, *(data[name] for name in ("vhi", "basin", "time", "other"))):
        variable.attrs.update(draw(st.dictionaries(names, attributes, max_size=3)))
    return data


def same_types(one, two):
    for name in one.variables:
        a, b = one[name].dtype, two[name].dtype
        # Text of one length and text of any length are text; so is what pandas 3 makes of it.
        text = a.kind in "UO" and b.kind in "UO"
        assert a == b or text, f"{name} was {a} and is {b}"


@pytest.mark.more
@pytest.mark.parametrize("suffix", ARRAYS)
def test_datasets_come_back_with_labels_types_attributes_and_order(suffix):
    @SOME
    @given(datasets())
    def law(data):
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/data.{suffix}"
            write(data, path)
            with read(path) as opened:
                back = opened.load()
        xr.testing.assert_identical(back, data)
        same_types(data, back)
        assert list(back.data_vars) == list(data.data_vars)
        assert list(back.coords) == list(data.coords)
        assert back.vhi.dims == data.vhi.dims

    law()


@pytest.mark.parametrize("suffix", ARRAYS)
def test_stacked_cells_come_back_stacked(tmp_path, suffix):
    grid = xr.Dataset(
        {"t": (("time", "lat", "lon"), np.arange(12.0).reshape(2, 3, 2))},
        coords={"lat": [2.0, 1.0, 0.0], "lon": np.array([0, 5], dtype="i4"), "time": [0, 1]},
    )
    grid.lat.attrs["units"] = "degrees_north"
    data = grid.stack(cell=("lat", "lon")).isel(cell=[0, 3, 4])
    write(data, tmp_path / f"a.{suffix}")
    with read(tmp_path / f"a.{suffix}") as back:
        xr.testing.assert_identical(back.load(), data)
        assert back.indexes["cell"].nlevels == 2
        assert back.lon.dtype == np.int32


@pytest.mark.parametrize("suffix", ARRAYS)
def test_durations_gaps_in_dates_and_the_reference_system_are_kept(tmp_path, suffix):
    dates = np.array(["2000-01-01T00:00:00.000000001", "NaT"], dtype="M8[ns]")
    wkt = geopandas.GeoSeries(crs="EPSG:4326").crs.to_wkt()
    data = xr.Dataset(
        {
            "since": ("basin", dates),
            "lag": ("basin", np.array([90, 25], dtype="m8[m]").astype(f"m8[{UNITS[-1]}]")),
            "wet_days": ("basin", [3.0, 4.0], {"units": "days"}),
            "area": ("basin", [1.0, 2.0], {"grid_mapping": "spatial_ref", "units": "km2"}),
        },
        coords={"basin": [7, 3], "spatial_ref": ((), np.int64(0), {"crs_wkt": wkt})},
    )
    write(data, tmp_path / f"a.{suffix}")
    with read(tmp_path / f"a.{suffix}") as back:
        xr.testing.assert_identical(back.load(), data)
        same_types(data, back)


def test_dates_are_read_by_others_too(tmp_path):
    data = xr.Dataset(
        {"v": ("time", [1.0, 2.0])}, coords={"time": pd.date_range("2000", periods=2)}
    )
    write(data, tmp_path / "a.nc")
    with xr.open_dataset(tmp_path / "a.nc", engine="h5netcdf") as plain:
        np.testing.assert_array_equal(plain.time, data.time)


def test_packing_of_the_file_that_data_came_from_is_not_used_again(tmp_path):
    data = xr.Dataset({"v": ("x", [0.5, 1.25])})
    packed = {"v": {"dtype": "i2", "scale_factor": 0.01, "_FillValue": -1}}
    data.to_netcdf(tmp_path / "packed.nc", engine="h5netcdf", encoding=packed)
    with read(tmp_path / "packed.nc") as opened:
        np.testing.assert_allclose(opened.v, [0.5, 1.25])
        write(opened / 3, tmp_path / "a.nc")
        third = (opened / 3).load()
    with read(tmp_path / "a.nc") as back:
        xr.testing.assert_identical(back.load(), third)


def test_classic_netcdf_is_read(tmp_path):
    data = xr.Dataset({"v": (("time", "x"), np.arange(6.0).reshape(2, 3))}, coords={"x": [3, 2, 1]})
    data.to_netcdf(tmp_path / "old.nc", engine="scipy", format="NETCDF3_64BIT")
    with read(tmp_path / "old.nc") as back:
        xr.testing.assert_equal(back.load(), data)


@pytest.mark.parametrize("units", ["months since 2000-01-01", "days since the flood"])
def test_times_that_cannot_be_read_are_left_as_numbers_with_a_warning(tmp_path, units):
    data = xr.Dataset({"v": ("time", [1.0, 2.0])}, coords={"time": ("time", [5, 6])})
    data.time.attrs["units"] = units
    data.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    with pytest.warns(UserWarning, match=rf"left as numbers \(time: {units}"):
        opened = read(tmp_path / "a.nc")
    with opened as back:
        assert back.time.values.tolist() == [5, 6]
        assert back.time.attrs["units"] == units


@pytest.mark.parametrize("suffix", ARRAYS)
def test_dates_of_other_calendars_come_back(tmp_path, suffix):
    pytest.importorskip("cftime", reason="other calendars need cftime")
    times = xr.date_range("2000-02-27", periods=4, calendar="360_day", use_cftime=True)
    data = xr.Dataset({"v": ("time", np.arange(4.0))}, coords={"time": times})
    write(data, tmp_path / f"a.{suffix}")
    with read(tmp_path / f"a.{suffix}") as back:
        assert list(back.time.values) == list(times)


def noons(**coords):
    """Two years of months at 12:00, with bounds."""
    times = pd.date_range("2001-01-01 12:00", periods=24, freq="MS")
    bounds = np.stack([times.normalize(), times.normalize() + pd.offsets.MonthBegin()], axis=1)
    data = xr.Dataset(
        {"v": ("time", np.arange(24.0)), "time_bnds": (("time", "edge"), bounds)},
        coords={"time": times, **coords},
    )
    data.time.attrs["bounds"] = "time_bnds"
    return data


CHANGES = {
    "nothing": lambda data: data,
    "its encoding dropped": lambda data: data.drop_encoding(),
    "half a day later": lambda data: data.assign_coords(time=data.time + np.timedelta64(12, "h")),
    "thirty seconds later": lambda data: data.assign_coords(
        time=data.time + np.timedelta64(30, "s")
    ),
    "means of years": lambda data: data.drop_vars("time_bnds").resample(time="YS").mean(),
    "some months": lambda data: data.sel(time=data.time.dt.season == "JJA"),
    "months at hand": lambda data: data.assign(month=data.time.dt.month),
    "years instead of dates": lambda data: (
        data.drop_vars("time_bnds").isel(time=slice(None, None, 12)).assign_coords(
            time=lambda part: part.time.dt.year
        )
    ),
}  # fmt: skip
#: Files as other programs have them: the name, how it is written, and what time is counted in.
THEIRS = [
    ("a.nc", {"engine": "h5netcdf"}, {}),
    ("b.nc", {"engine": "h5netcdf"}, {"units": "days since 2001-01-01", "dtype": "f8"}),
    ("c.nc", {"engine": "h5netcdf", "unlimited_dims": ["time"]}, {"units": "hours since 1900-1-1"}),
    ("d.nc", {"engine": "scipy"}, {"units": "minutes since 2001-01-01 06:00", "dtype": "i4"}),
    ("e.zarr", {"zarr_format": 2}, {"units": "seconds since 1990-01-01", "calendar": "standard"}),
    ("f.zarr", {"zarr_format": 2}, {}),
]


def save(data, path, **how):
    """Write a file as xarray does, without us."""
    (data.to_zarr if path.suffix == ".zarr" else data.to_netcdf)(path, **how)


@pytest.mark.more
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.filterwarnings("ignore:Variable time has datetime type and a bounds variable")
@pytest.mark.filterwarnings("ignore:Times can't be serialized faithfully")
def test_dates_that_xarray_has_changed_are_those_that_it_reads(tmp_path, change):
    for ours, engine in (("ours.nc", "h5netcdf"), ("ours.zarr", "zarr")):
        write(noons(), tmp_path / ours)
        with xr.open_dataset(tmp_path / ours, engine=engine) as opened:
            changed = CHANGES[change](opened.load())
        for name, how, encoding in THEIRS:
            theirs = changed.copy()
            if encoding and theirs.time.dtype.kind == "M":
                theirs.time.encoding = encoding
            path = tmp_path / f"{engine}-{name}"
            save(theirs, path, **how)
            with read(path) as back, read(path, lazy=True) as pieces:
                for one in changed.variables:
                    np.testing.assert_array_equal(back[one], changed[one], err_msg=one)
                    np.testing.assert_array_equal(pieces[one], changed[one], err_msg=one)
                    assert back[one].dtype.kind == changed[one].dtype.kind
                assert "ctfa" not in back.time.attrs


@pytest.mark.parametrize("calendar", ["noleap", "360_day", "julian"])
@pytest.mark.parametrize("suffix", ARRAYS)
def test_noon_in_another_calendar_comes_back_and_outlives_xarray(tmp_path, suffix, calendar):
    pytest.importorskip("cftime", reason="other calendars need cftime")
    data = noons().convert_calendar(calendar, align_on="date", use_cftime=True)
    data["time_bnds"] = xr.concat([data.time, data.time + pd.Timedelta("10D")], "edge").T
    write(data, tmp_path / f"a.{suffix}")
    with read(tmp_path / f"a.{suffix}") as back:
        xr.testing.assert_equal(back.load(), data)
    assert back.time.dt.hour.values.tolist() == [12] * len(data.time)
    save(back.drop_encoding().drop_vars("time_bnds"), tmp_path / "b.nc", engine="h5netcdf")
    with read(tmp_path / "b.nc") as again:
        assert list(again.time.values) == list(data.time.values)


def test_bounds_are_counted_in_the_unit_of_what_they_bound(tmp_path):
    """Other programs read bounds in the unit of their time, whatever they say themselves."""
    write(noons(), tmp_path / "a.nc")
    with xr.open_dataset(tmp_path / "a.nc", engine="h5netcdf", decode_cf=False) as raw:
        assert raw.time.units == "hours since 1970-01-01"
        assert raw.time_bnds.attrs.get("units", raw.time.units) == raw.time.units
        assert raw.time_bnds.values[0].tolist() == [raw.time[0] - 12, raw.time[0] + 31 * 24 - 12]
    with read(tmp_path / "a.nc") as back:
        xr.testing.assert_identical(back.load(), noons())


def test_durations_that_xarray_has_changed_are_those_that_it_reads(tmp_path):
    spans = np.array([36, 48, "NaT"], dtype="m8[h]").astype("m8[ns]")
    write(xr.Dataset({"lag": ("x", spans), "n": ("x", [1, 2, 3])}), tmp_path / "a.nc")
    with xr.open_dataset(tmp_path / "a.nc", engine="h5netcdf", decode_timedelta=True) as opened:
        shifted = (opened.load() + np.timedelta64(90, "s")).drop_encoding()
    shifted["days"] = shifted.lag / np.timedelta64(1, "D")  # numbers, with the attributes of lag
    shifted.lag.encoding = {"dtype": "f8", "units": "days"}
    shifted["days"].attrs = dict(opened.lag.attrs)
    save(shifted[["lag", "days"]], tmp_path / "b.nc", engine="h5netcdf")
    with read(tmp_path / "b.nc") as back:
        np.testing.assert_array_equal(back.lag, shifted.lag)
        np.testing.assert_array_equal(back.days, shifted.days)


def test_dates_among_attributes_are_kept_as_text(tmp_path):
    day = np.datetime64("2001-01-31T12:00", "ns")
    data = xr.Dataset({"v": ("x", [1.0])}, attrs={"start": day, "days": np.array([day, day])})
    write(data, tmp_path / "a.nc")
    with read(tmp_path / "a.nc") as back:
        assert back.attrs["start"].startswith("2001-01-31T12:00:00")
        assert [one[:16] for one in back.attrs["days"]] == ["2001-01-31T12:00"] * 2


def test_what_xarray_has_changed_is_not_put_back(tmp_path):
    """Text that has become numbers, an attribute, wider numbers, cells that are a grid again."""
    grid = xr.Dataset(
        {"t": (("lat", "lon"), np.array([[1.0, 2.0]], dtype="f2"), {"units": ""})},
        coords={"lat": [1.0], "lon": ["10", "20"]},
    )
    write(grid.stack(cell=("lat", "lon")), tmp_path / "a.nc")
    with xr.open_dataset(tmp_path / "a.nc", engine="h5netcdf") as opened:
        changed = opened.load().set_index(cell=("lat", "lon")).unstack("cell")
    marks = {name: opened[name].attrs for name in opened.variables}
    changed = changed.assign_coords(lon=("lon", [10, 20], marks["lon"]))
    changed["t"] = changed.t * 1e6
    changed["t"].attrs = {**marks["t"], "units": "uK"}
    save(changed, tmp_path / "b.nc", engine="h5netcdf")
    with read(tmp_path / "b.nc") as back:
        assert back.t.units == "uK"
        assert back.t.values.tolist() == [[1e6, 2e6]]
        assert back.lon.values.tolist() == [10, 20]


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("consolidated", [True, False])
@pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part")
def test_stores_of_others_are_read(tmp_path, version, consolidated):
    if version == 3 and zarr.__version__ < "3":
        pytest.skip("zarr before 3 does not know the format")
    values = {"v": ("x", np.arange(4)), "w": ("x", [0.0, np.nan, 1, 2])}
    data = xr.Dataset(values, coords={"x": [3, 1, 2, 0]})
    data.to_zarr(tmp_path / "a.zarr", consolidated=consolidated, zarr_format=version)
    with read(tmp_path / "a.zarr") as back:
        xr.testing.assert_identical(back.load(), data)


def test_a_plain_hdf5_file_and_a_group_of_a_file_are_read(tmp_path):
    h5py = pytest.importorskip("h5py", reason="HDF5 needs h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["v"] = np.arange(6.0).reshape(2, 3)
        file["inner/w"] = np.arange(3)
    with read(tmp_path / "a.h5") as back:
        np.testing.assert_array_equal(back.v, np.arange(6.0).reshape(2, 3))
    with read(tmp_path / "a.h5", layer="inner") as back:
        np.testing.assert_array_equal(back.w, [0, 1, 2])


def test_arrays_are_read_when_they_are_used_or_in_pieces(tmp_path):
    pytest.importorskip("dask", reason="pieces need dask")
    data = xr.Dataset({"v": ("x", np.arange(9.0)), "name": ("x", list("abcdefghi"))})
    for path in (tmp_path / "a.nc", tmp_path / "a.zarr"):
        write(data, path)
        with read(path) as opened, read(path, lazy=True) as pieces:
            assert not opened.v.variable._in_memory
            assert opened.v.chunks is None
            assert pieces.v.chunks == ((9,),)
            xr.testing.assert_identical(pieces.compute(), data)


def test_pieces_are_of_whole_rows_and_end_with_chunks_of_the_file(tmp_path):
    dask = pytest.importorskip("dask", reason="pieces need dask")
    values = np.arange(240.0).reshape(4, 30, 2)
    data = xr.Dataset({"v": (("lat", "time", "lon"), values)})
    data.to_zarr(tmp_path / "a.zarr", zarr_format=2, encoding={"v": {"chunks": (2, 4, 1)}})
    for size, heights in ((10 * 64, (8, 8, 8, 6)), (3 * 64, (3,) * 10)):
        with (
            dask.config.set({"array.chunk-size": size}),
            read(tmp_path / "a.zarr", lazy=True) as pieces,
        ):
            assert pieces.v.chunks == ((4,), heights, (2,))
            np.testing.assert_array_equal(pieces.v, values)


def test_a_dataarray_is_written_by_its_name(tmp_path):
    write(xr.DataArray([1, 2], dims="x", name="v"), tmp_path / "a.nc")
    with read(tmp_path / "a.nc") as back:
        np.testing.assert_array_equal(back.v, [1, 2])


@st.composite
def frames(draw):
    n = draw(st.integers(1, 5))
    return pd.DataFrame(
        {
            "basin": draw(st.lists(words, min_size=n, max_size=n)),
            "code": np.array(draw(st.lists(st.integers(-(2**60), 2**60), min_size=n, max_size=n))),
            "value": draw(st.lists(st.floats(allow_infinity=False), min_size=n, max_size=n)),
            "single": np.arange(n, dtype=np.float32),
            "when": pd.date_range("2000-01-01 06:00", periods=n, freq="D"),
            "flag": np.arange(n) % 2 == 0,
        }
    )


@pytest.mark.parametrize("suffix", ["parquet", "feather", "arrow"])
def test_tables_come_back(suffix):
    @SOME
    @given(frames(), st.booleans())
    def law(table, labelled):
        table = table.set_index(["basin", "code"]) if labelled else table
        with tempfile.TemporaryDirectory() as folder:
            write(table, f"{folder}/a.{suffix}")
            pd.testing.assert_frame_equal(read(f"{folder}/a.{suffix}"), table)

    law()


@pytest.mark.parametrize("suffix", ["parquet", "feather"])
def test_pairs_of_variable_and_task_come_back_as_columns(tmp_path, suffix):
    columns = pd.MultiIndex.from_product([["t", "p"], ["a", "b"]], names=["variable", "basin"])
    table = pd.DataFrame(np.arange(8.0).reshape(2, 4), columns=columns)
    write(table, tmp_path / f"a.{suffix}")
    pd.testing.assert_frame_equal(read(tmp_path / f"a.{suffix}"), table)


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "tsv", "tsv.gz"])
def test_tables_of_text_come_back_to_the_last_digit(suffix):
    @SOME
    @given(frames())
    def law(table):
        # Text that is a number is a number in such a file: here none is.
        table["basin"] = "b" + table["basin"]
        table["code"] = table["code"].abs() + 1
        with tempfile.TemporaryDirectory() as folder:
            write(table, f"{folder}/a.{suffix}")
            back = read(f"{folder}/a.{suffix}")
            write(table.set_index("basin"), f"{folder}/b.{suffix}")
            labelled = read(f"{folder}/b.{suffix}")
        exact = {"single": np.float32, "when": table.when.dtype}
        if table["value"].isna().all():
            back["value"] = back["value"].astype(float)
        pd.testing.assert_frame_equal(back.astype(exact), table, check_exact=True)
        assert list(labelled.columns) == list(table.columns)

    law()


FORMULAS = [
    '=HYPERLINK("http://x","y")', "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1",
    "'=1", "''=1", "a;=1", "\uff1d1",
]  # fmt: skip


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "tsv"])
def test_no_text_in_a_table_is_a_formula_and_all_of_it_comes_back(tmp_path, suffix):
    others = [f"a{i}" for i in range(len(FORMULAS))]
    table = pd.DataFrame(
        {
            "basin": FORMULAS,
            "=1+1": pd.Categorical(FORMULAS),
            "-value": -1.5 - np.arange(len(FORMULAS)),
            "'tis": others,
            "mixed": [-1, *others[1:]],
        },
        index=pd.Index(FORMULAS, name="@SUM(A1)"),
    )
    write(table, tmp_path / f"a.{suffix}")
    opened = gzip.open if suffix.endswith("gz") else open
    with opened(tmp_path / f"a.{suffix}", "rt", newline="", encoding="utf-8") as file:
        rows = list(reader(file, delimiter="\t" if suffix == "tsv" else ","))
    number = [column for column, name in enumerate(rows[0]) if name == "'-value"]
    for row in rows:
        assert len(row) == 6
        for column, text in enumerate(row):
            starts = {part[:1] for part in text.split(";")}
            is_number = row is not rows[0] and (column in number or text == "-1")
            assert is_number or not starts & set("=+-@\t\r\n\uff1d"), text
    back = read(tmp_path / f"a.{suffix}")
    assert list(back.columns) == ["@SUM(A1)", *table.columns]
    for name in ("@SUM(A1)", "basin", "=1+1"):
        assert back[name].tolist() == FORMULAS
    np.testing.assert_array_equal(back["-value"], table["-value"])
    assert back["'tis"].tolist() == others


@given(st.text("'=+-@;\t\r\n\uff1d1.ea"))
def test_a_cell_gives_back_its_text(text):
    assert from_cell(cell(text)) == text
    # A second quote for what has one: nothing is taken for the quoted form of something else.
    assert from_cell(cell(cell(text))) == cell(text)


def test_a_heading_of_others_is_not_made_the_same_as_another(tmp_path):
    back = csv(tmp_path, "=x,'=x\n1,2\n")
    assert back.to_dict("list") == {"=x": [1], "'=x": [2]}


@pytest.mark.parametrize("suffix", ["gpkg", "csv.gz", "nc", "geojson", "parquet", "shp"])
def test_the_same_again_is_the_same_file(tmp_path, suffix):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        written(tmp_path / folder / f"same.{suffix}")
        time.sleep(1.1)  # files hold seconds
    assert content(tmp_path / "a") == content(tmp_path / "b")


def test_a_map_is_dated_as_gdal_was_told(tmp_path):
    pyogrio = pytest.importorskip("pyogrio")
    option, told = "OGR_CURRENT_DATE", "2001-02-03T00:00:00.000Z"
    written(tmp_path / "a.gpkg")
    assert pyogrio.get_gdal_config_option(option) is None
    pyogrio.set_gdal_config_options({option: told})
    try:
        written(tmp_path / "b.gpkg")
        assert pyogrio.get_gdal_config_option(option) == told
    finally:
        pyogrio.set_gdal_config_options({option: None})
    assert told.encode() in (tmp_path / "b.gpkg").read_bytes()
    assert told.encode() not in (tmp_path / "a.gpkg").read_bytes()


def csv(tmp_path, text):
    (tmp_path / "a.csv").write_text(text, encoding="utf-8")
    return read(tmp_path / "a.csv")


def test_codes_keep_their_zeros_and_numbers_are_numbers(tmp_path):
    table = csv(tmp_path, "code,gappy,n,x\n007,,1,0.5\n010,08,0,1\n123,7,2,-0.25\n")
    assert table.code.tolist() == ["007", "010", "123"]
    assert table.gappy.tolist()[1:] == ["08", "7"]
    assert table.n.dtype == np.int64
    assert table.x.dtype == np.float64


def test_whole_columns_of_iso_dates_are_dates_and_others_are_text(tmp_path):
    table = csv(
        tmp_path,
        "day,moment,utc,slashes,mixed,none,year\n"
        "2000-01-31,2000-01-31T06:00,2000-01-31T06:00:00Z,01/02/2000,2000-01-01,2000-13-45,2000\n"
        ",2000-01-31 06:00:00.5,2000-01-31T06:00:00+01:00,01/02/2000,soon,2000-01-01,2001\n",
    )
    assert table.day.dtype.kind == "M"
    assert table.day.isna().tolist() == [False, True]
    assert table.moment[1] == pd.Timestamp("2000-01-31 06:00:00.5")
    assert table.utc[1] == pd.Timestamp("2000-01-31 05:00", tz="UTC")
    assert all(isinstance(v, str) for v in [*table.slashes, *table.mixed, *table.none])
    assert table.year.dtype == np.int64


def test_a_column_of_months_is_one_of_dates_and_winters_and_codes_are_text(tmp_path):
    table = pd.DataFrame(
        {
            "month": ["2000-01", "2000-02", "2001-12"],
            "winter": ["2000-01", "2001-02", "2002-03"],
            "code": ["1203-04", "1203-05", "1203-06"],
            "thirteen": ["2000-01", "2000-05", "2000-13"],
        }
    )
    table.to_csv(tmp_path / "t.csv", index=False)
    found = read(tmp_path / "t.csv")
    expected = pd.to_datetime(table["month"], format="%Y-%m")
    assert (found["month"] == expected).all()
    assert all(list(found[name]) == list(table[name]) for name in ("winter", "code", "thirteen"))


def test_times_in_months_are_left_as_numbers_for_what_they_are(tmp_path):
    data = xr.Dataset({"y": ("time", np.arange(3.0))}, coords={"time": np.arange(3)})
    data["time"].attrs["units"] = "months since 2000-01-01"
    data.to_netcdf(tmp_path / "t.nc")
    with pytest.warns(UserWarning, match="months have no fixed length; write the times") as told:
        read(tmp_path / "t.nc")
    assert not any("pip install" in str(warning.message) for warning in told)


def test_dates_of_one_offset_stay_in_its_months(tmp_path):
    table = csv(tmp_path, "t,v\n2000-02-01T00:00:00+01:00,1\n2000-03-01T00:00:00+01:00,2\n")
    assert table.t.dt.month.tolist() == [2, 3]
    write(table, tmp_path / "again.csv")
    pd.testing.assert_frame_equal(read(tmp_path / "again.csv"), table)


def test_a_byte_order_mark_and_semicolons_are_understood(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbfbasin;vhi\na;0.5\n")
    assert read(tmp_path / "a.csv").to_dict("list") == {"basin": ["a"], "vhi": [0.5]}
    assert csv(tmp_path, "basin;vhi\na;0,5\nb;1\n").vhi.tolist() == [0.5, 1.0]


def test_polars_frames_are_written(tmp_path):
    polars = pytest.importorskip("polars", reason="a frame of polars")
    write(polars.DataFrame({"basin": ["a"], "vhi": [0.5]}), tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet").to_dict("list") == {"basin": ["a"], "vhi": [0.5]}


@pytest.mark.parametrize("suffix", ["gpkg", "geojson", "json", "shp", "parquet", "feather"])
@pytest.mark.parametrize("crs", ["EPSG:4326", "EPSG:3035"])
def test_maps_come_back_with_their_reference_system(tmp_path, suffix, crs):
    shapes = [MultiPolygon([box(0, 0, 1, 1), box(2, 0, 3, 1)]), MultiPolygon([box(4, 0, 5, 1)])]
    table = geopandas.GeoDataFrame(
        {"basin": [2080012345, 7], "code": ["007", "ä"], "vhi": [0.1, np.nan]},
        geometry=shapes,
        crs=crs,
    )
    path = tmp_path / f"map.{suffix}"
    write(table, path)
    back = read(path)
    assert isinstance(back, geopandas.GeoDataFrame)
    assert back.crs == table.crs
    assert [str(dtype) for dtype in back.dtypes] == [str(dtype) for dtype in table.dtypes]
    pd.testing.assert_frame_equal(
        pd.DataFrame(back.drop(columns="geometry")), pd.DataFrame(table.drop(columns="geometry"))
    )
    # A shapefile knows no difference between one polygon and several.
    assert back.geometry.geom_equals(table.geometry).all()
    write(table.iloc[::-1], path)
    assert read(path)["basin"].tolist() == [7, 2080012345]
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


def test_one_of_several_layers_must_be_named(tmp_path):
    table = geopandas.GeoDataFrame({"a": [1]}, geometry=[box(0, 0, 1, 1)], crs="EPSG:4326")
    for layer in ("land", "sea"):
        table.to_file(tmp_path / "m.gpkg", layer=layer, driver="GPKG", engine="pyogrio")
    assert "m.gpkg has 2 layers (land, sea)" in refusal(tmp_path / "m.gpkg")
    assert "has no layer 'air'" in refusal(tmp_path / "m.gpkg", layer="air")
    assert len(read(tmp_path / "m.gpkg", layer="sea")) == 1


def one_sentence(refused):
    text = str(refused.value)
    assert "\n" not in text
    assert text[-1] in ".?"
    assert ". " not in text.replace("e.g. ", "")
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__ or refused.value.__context__ is None
    return text


def refusal(path, **options):
    with pytest.raises(FileError) as refused:
        read(path, **options)
    return one_sentence(refused)


def write_refusal(obj, path):
    with pytest.raises(FileError) as refused:
        write(obj, path)
    return one_sentence(refused)


def test_a_file_that_is_not_there_is_told_with_names_that_are_near(tmp_path):
    (tmp_path / "basins.nc").touch()
    (tmp_path / "Vhi.csv").touch()
    assert "basin.nc does not exist: did you mean basins.nc?" in refusal(tmp_path / "basin.nc")
    assert "did you mean Vhi.csv?" in refusal(tmp_path / "vhi.csv")
    assert "did you mean basins.nc?" in refusal(tmp_path / "basins.zarr")
    assert "does not exist in the folder" in refusal(tmp_path / "quite_another.gpkg")
    assert "there is no folder" in refusal(tmp_path / "nowhere" / "a.nc")


def test_folders_empty_files_and_unknown_suffixes_are_told(tmp_path):
    (tmp_path / "folder.nc").mkdir()
    assert "folder.nc is a folder" in refusal(tmp_path / "folder.nc")
    for name in ("a.nc", "a.zarr", "a.parquet", "a.csv", "a.gpkg", "a.geojson", "a.shp"):
        (tmp_path / name).touch()
        assert f"{name} is empty (0 bytes)" in refusal(tmp_path / name)
    (tmp_path / "a.xlsx").write_bytes(b"x")
    assert "suffix '.xlsx'" in refusal(tmp_path / "a.xlsx")
    assert ".nc, .nc4, .h5" in refusal(tmp_path / "a.xlsx")
    (tmp_path / "a").write_bytes(b"x")
    assert "a has no suffix" in refusal(tmp_path / "a")


KNOWN = {
    "nc": "NetCDF",
    "zarr": "Zarr",
    "zarr.zip": "Zarr",
    "parquet": "Parquet",
    "feather": "Feather",
    "csv.gz": "gzipped CSV",
    "gpkg": "GeoPackage",
    "geojson": "GeoJSON",
    "shp": "shapefile",
}


@pytest.mark.parametrize("suffix", KNOWN)
def test_what_is_not_what_its_suffix_says_is_told(tmp_path, suffix):
    (tmp_path / f"a.{suffix}").write_text("basin,vhi\n1,2\n" * 20)
    assert f"a.{suffix} is not a {KNOWN[suffix]} file" in refusal(tmp_path / f"a.{suffix}")


def written(path):
    table = pd.DataFrame({"a": np.arange(2000), "b": np.arange(2000) / 3})
    if path.suffix in (".gpkg", ".geojson", ".shp"):
        shapes = geopandas.points_from_xy(table.a, table.b)
        table = geopandas.GeoDataFrame(table, geometry=shapes, crs="EPSG:4326")
    if path.suffix in (".nc", ".zip"):
        table = table.to_xarray()
    write(table, path)
    return path


@pytest.mark.parametrize("suffix", [s for s in KNOWN if s != "zarr"])
@pytest.mark.parametrize("share", [0.3, 0.6, 0.97])
def test_part_of_a_file_is_told(tmp_path, suffix, share):
    path = written(tmp_path / f"a.{suffix}")
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    assert "or only part of one" in refusal(path)


@pytest.mark.more
@pytest.mark.parametrize("share", [0.05, 0.3, 0.97])
def test_part_of_a_classic_netcdf_file_is_told(tmp_path, share):
    path = tmp_path / "old.nc"
    xr.Dataset({"v": ("x", np.arange(500.0)), "w": ("y", np.arange(100.0))}).to_netcdf(
        path, engine="scipy", format="NETCDF3_CLASSIC"
    )
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    assert "or only part of one" in refusal(path)


def test_a_folder_that_is_no_zarr_store_and_bad_text_are_told(tmp_path):
    (tmp_path / "a.zarr").mkdir()
    assert "a.zarr is not a Zarr file" in refusal(tmp_path / "a.zarr")
    (tmp_path / "a.csv").write_bytes(b"name\n\xff\xfe\xfa\n")
    assert "a.csv is not a CSV file" in refusal(tmp_path / "a.csv")
    (tmp_path / "b.csv").write_text("a,b\n1,2,3\n1,2,3,4,5\n")
    assert "b.csv is not a CSV file" in refusal(tmp_path / "b.csv")
    (tmp_path / "b.json").write_text('{"a": 1}')
    assert "b.json is not a GeoJSON file" in refusal(tmp_path / "b.json")
    with gzip.open(tmp_path / "c.csv.gz", "wt") as file:
        file.write("a,b\n1,2\n")
    assert read(tmp_path / "c.csv.gz").shape == (1, 2)


def test_a_library_that_is_absent_is_told_with_what_brings_it(tmp_path, monkeypatch):
    path = written(tmp_path / "a.nc")
    monkeypatch.setitem(__import__("sys").modules, "h5netcdf", None)
    assert "pip install 'ctfa[io]'" in refusal(path)
    assert "pip install 'ctfa[io]'" in write_refusal(xr.Dataset(), tmp_path / "b.nc")


def test_a_library_that_cannot_be_loaded_is_told_by_its_reason(tmp_path, monkeypatch):
    path = written(tmp_path / "a.gpkg")
    lacking = tmp_path / "lacking"
    lacking.mkdir()
    monkeypatch.syspath_prepend(lacking)

    def spoil(text):
        monkeypatch.delitem(sys.modules, "pyogrio", raising=False)
        (lacking / "pyogrio.py").write_text(text)
        importlib.invalidate_caches()

    spoil("import a_part_of_it")
    assert "pyogrio is installed but cannot be loaded (No module named 'a_part_of_it')" in refusal(
        path
    )
    spoil("raise ImportError('libgdal.so.36: version GLIBC_9 not found')  # another")
    said = refusal(path)
    assert "pip install" not in said
    assert "GLIBC_9 not found" in said
    # The loader's words for a lack of thread-local storage: more memory would not help.
    spoil("raise ImportError('libgomp.so.1: cannot allocate memory in static TLS block')")
    assert "static TLS block" in refusal(path)
    spoil("raise ImportError('libgdal.so.36: failed to map segment from shared object')  # it")
    with pytest.raises(MemoryError, match="not enough memory to load pyogrio"):
        read(path)
    spoil("raise MemoryError")
    with pytest.raises(MemoryError):
        read(path)


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        ValueError("Error tokenizing data. C error: out of memory"),
        OSError("Unable to synchronously read data (memory allocation failed for raw data chunk)"),
    ],
)
def test_a_lack_of_memory_is_no_fault_of_the_file(tmp_path, monkeypatch, error):
    path = written(tmp_path / "a.csv")

    def fail(*_, **__):
        raise error

    monkeypatch.setattr(pd, "read_csv", fail)
    with pytest.raises(MemoryError, match=r"not enough memory to read a\.csv"):
        read(path)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read all")
def test_a_file_without_permission_is_told(tmp_path):
    path = written(tmp_path / "a.nc")
    path.chmod(0)
    assert "ermission" in refusal(path)


def test_what_a_format_cannot_hold_is_told_and_leaves_what_was_there(tmp_path):
    table, data = pd.DataFrame({"a": [1]}), xr.Dataset({"v": ("x", [1.0])})
    shapes = geopandas.GeoDataFrame({"a": [1]}, geometry=[box(0, 0, 1, 1)], crs="EPSG:4326")
    assert "a.nc cannot hold a DataFrame: write it to .parquet" in write_refusal(
        table, tmp_path / "a.nc"
    )
    assert "write it to .nc or .zarr" in write_refusal(data, tmp_path / "a.csv")
    assert "write it to .gpkg" in write_refusal(shapes, tmp_path / "a.csv")
    assert "from list" in write_refusal([1], tmp_path / "a.csv")
    assert "known are" in write_refusal(table, tmp_path / "a.xlsx")
    assert "there is no folder" in write_refusal(table, tmp_path / "b" / "a.csv")
    long = shapes.rename(columns={"a": "a_long_name_of_it"})
    assert "10 characters" in write_refusal(long, tmp_path / "a.shp")
    assert list(tmp_path.iterdir()) == []
    for suffix in ("nc", "zarr"):
        path = tmp_path / f"a.{suffix}"
        write(data, path)
        mixed = xr.Dataset({"v": ("x", np.array(["a", 1], dtype=object))})
        assert "1 among text" in write_refusal(mixed, path)
        with read(path) as back:
            xr.testing.assert_identical(back.load(), data)
        write(data + 1, path)
        with read(path) as back:
            np.testing.assert_array_equal(back.v, [2.0])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.nc", "a.zarr"]


@pytest.mark.parametrize("suffix", ["parquet", "feather"])
def test_a_calendar_that_a_table_cannot_hold_is_told(tmp_path, suffix):
    pytest.importorskip("cftime", reason="other calendars need cftime")
    days = xr.date_range("2001-02-28", periods=3, calendar="360_day", use_cftime=True)
    table = pd.DataFrame({"time": np.array(days), "v": [1.0, 2.0, 3.0]})
    said = write_refusal(table, tmp_path / f"a.{suffix}")
    assert "time holds dates of the calendar 360_day" in said
    assert list(tmp_path.iterdir()) == []
    write(table, tmp_path / "a.csv")
    assert read(tmp_path / "a.csv").time.tolist()[2] == "2001-02-30 00:00:00"


def test_a_folder_of_other_things_is_not_replaced(tmp_path):
    (tmp_path / "a.zarr").mkdir()
    (tmp_path / "a.zarr" / "thesis.tex").write_text("years of work")
    assert "is a folder" in write_refusal(xr.Dataset({"v": ("x", [1.0])}), tmp_path / "a.zarr")
    assert Path(tmp_path / "a.zarr" / "thesis.tex").exists()
