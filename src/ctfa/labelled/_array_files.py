"""Datasets in NetCDF and Zarr, and back as they were.

What these formats cannot hold, or would return as something else, is kept as text beside it:
an attribute ``ctfa`` on a variable or on the file holds JSON with

- ``attrs``: attributes that are dicts, lists, None, booleans, or have names the formats keep for
  themselves; others stay what they are, so that every tool sees them;
- ``dtype``: the type of text, of durations, of half precision, and how fine dates are; it counts
  where the stored values still fit it, because attributes outlive what other programs change;
- ``levels`` (on the file): which coordinates were the levels of a stacked dimension;
- ``order`` (on the file): the order of the variables.

Dates are whole numbers of the coarsest unit that loses nothing, in the CF conventions, and are read
by these alone. Packing and chunks of the file that data came from are forgotten: packed to 16 bits,
a result would be rounded.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import shutil
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from ctfa.core.libraries import need
from ctfa.core.types import AnyArray
from ctfa.labelled._tasks import axis_of
from ctfa.labelled._words import is_cftime

_MARK = "ctfa"
#: Names of attributes that the conventions give a meaning to, and xarray therefore takes away.
_TAKEN = ("_FillValue", "missing_value", "scale_factor", "add_offset", "coordinates", "dtype")
_OF_TIME = ("units", "calendar")
_UNITS = ("days", "hours", "minutes", "seconds", "milliseconds", "microseconds", "nanoseconds")
_CODES = dict(zip(_UNITS, ("D", "h", "m", "s", "ms", "us", "ns"), strict=True))
_NOT_A_TIME = np.iinfo(np.int64).min


def read_netcdf(path: Path, group: str | None, lazy: bool) -> Any:
    """A NetCDF file of any version but 5, opened and not read."""
    with path.open("rb") as file:
        begins = file.read(4)
    if begins[:3] == b"CDF" and begins[3] in (1, 2):
        return _classic(path, group, lazy)
    if begins == b"CDF\x05":
        raise ValueError("its version is 5, which is not read here; nccopy -k nc4 converts it")
    need("h5netcdf", "A NetCDF file")
    # A plain HDF5 file names no dimensions: they get names then.
    return _opened(path, lazy, engine="h5netcdf", group=group, phony_dims="access")


def _classic(path: Path, group: str | None, lazy: bool) -> Any:
    """A file of version 3, by scipy; one that is cut short is let go in silence."""
    with warnings.catch_warnings():
        try:
            return _opened(path, lazy, engine="scipy", group=group)
        except Exception as error:
            warnings.simplefilter("ignore")
            reason = str(error)
        gc.collect()  # what scipy has left open complains when it goes
    raise ValueError(reason)


def read_zarr(path: Path, group: str | None, lazy: bool) -> Any:
    """A Zarr store in a folder or in a zip file, opened and not read."""
    zarr = need("zarr", "A Zarr store")
    store = str(path) if path.is_dir() else zarr.storage.ZipStore(str(path), mode="r")
    with warnings.catch_warnings():
        # Metadata in one piece are faster to read; without, they are read one by one.
        warnings.filterwarnings("ignore", message=".*consolidated", category=RuntimeWarning)
        return _opened(store, lazy, engine="zarr", group=group)


def _opened(path: Any, lazy: bool, **options: Any) -> Any:
    xarray = need("xarray")
    raw = xarray.open_dataset(path, decode_cf=False, chunks=None, **options)
    try:
        return _decoded(raw, lazy)
    except BaseException:
        raw.close()
        raise


def write_netcdf(data: Any, path: Path) -> None:
    """Write a NetCDF-4 file."""
    need("h5netcdf", "A NetCDF file")
    _encoded(data, netcdf=True).to_netcdf(path, engine="h5netcdf", format="NETCDF4")


def write_zarr(data: Any, path: Path) -> None:
    """Write a Zarr store of version 2, which every reader knows: a folder, or a zip file."""
    need("zarr", "A Zarr store")
    in_zip = path.suffix == ".zip"
    folder = path.with_suffix(".folder") if in_zip else path
    _encoded(data, netcdf=False).to_zarr(folder, mode="w", zarr_format=2, consolidated=True)
    if in_zip:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
            for file in sorted(p for p in folder.rglob("*") if p.is_file()):
                archive.write(file, file.relative_to(folder).as_posix())
        shutil.rmtree(folder)


def _encoded(data: Any, netcdf: bool) -> Any:
    """A dataset that the format holds, with what it cannot hold as text."""
    xarray = need("xarray")
    if isinstance(data, xarray.DataArray):
        data = data.to_dataset(name=data.name or "value")
    mark: dict[str, Any] = {"order": [str(name) for name in data.variables]}
    levels = {
        str(dim): [str(name) for name in index.names]
        for dim, index in data.indexes.items()
        if index.nlevels > 1 and dim in data.dims
    }
    if levels:
        mark["levels"] = levels
        data = data.reset_index(list(levels))
    maps = {name: v.encoding.get("grid_mapping") for name, v in data.variables.items()}
    data = data.drop_encoding()
    units = _units(data.variables)
    variables = {
        name: _encoded_variable(v, netcdf, units.get(name)) for name, v in data.variables.items()
    }
    for name, grid_mapping in maps.items():
        if grid_mapping is not None and name in variables:
            variables[name].attrs.setdefault("grid_mapping", grid_mapping)
    # Built again: put into the old one, an index would turn what was encoded back.
    built = xarray.Dataset(
        {n: v for n, v in variables.items() if n not in data.coords},
        coords=xarray.Coordinates({n: variables[n] for n in data.coords}, indexes={}),
    )
    kept, aside = _attributes(data.attrs, _TAKEN)
    if aside:
        mark["attrs"] = aside
    built.attrs = {**kept, _MARK: json.dumps(mark)}
    return built


def _encoded_variable(variable: Any, netcdf: bool, unit: str | None) -> Any:
    xarray = need("xarray")
    kind = variable.dtype.kind
    of_cftime = is_cftime(variable)
    mark: dict[str, Any] = {}
    encoding: dict[str, Any] = {}
    taken = (*_TAKEN, *_OF_TIME) if kind in "mM" or of_cftime else _TAKEN
    kept, aside = _attributes(variable.attrs, taken)
    values = variable.data
    if aside:
        mark["attrs"] = aside
    if kind in "mM":
        mark["dtype"] = str(variable.dtype)
        values, gaps = _counted(np.asarray(variable.values), str(unit))
        since = " since 1970-01-01" if kind == "M" else ""
        kept["units"] = f"{unit}{since}"
        if kind == "M":
            kept["calendar"] = "proleptic_gregorian"
        if gaps:
            encoding["_FillValue"] = _NOT_A_TIME
    elif of_cftime:  # xarray counts these, in a unit that is not left to it
        calendar = variable.values.flat[0].calendar
        encoding = {"units": f"{unit} since 1970-01-01", "calendar": calendar, "dtype": "i8"}
    elif kind in "UTO":
        mark["dtype"] = "U" if kind == "U" else "object"
        values = np.asarray(variable.values).astype(object)
        odd = [v for v in values.reshape(-1) if not isinstance(v, str)]
        if odd:
            raise ValueError(f"there is {odd[0]!r} among text; give text throughout, or numbers")
        # NetCDF has text of any length, and Zarr's version 2 text of one length.
        values = values if netcdf else values.astype(str)
    elif kind == "f" and variable.dtype.itemsize == 2 and netcdf:
        mark["dtype"] = "float16"
        values = variable.astype(np.float32).data
    elif kind == "f":
        encoding["_FillValue"] = None  # NaN is NaN; and a coordinate has no gaps to announce
    if mark:
        kept[_MARK] = json.dumps(mark)
    return xarray.Variable(variable.dims, values, kept, encoding)


def _units(variables: Any) -> dict[Any, str]:
    """The coarsest unit that loses nothing of each variable of dates or durations.

    Bounds have the unit of what they bound: other programs read them in that one.
    """
    units = {
        name: _unit(np.asarray(v.values))
        for name, v in variables.items()
        if v.dtype.kind in "mM" or is_cftime(v)
    }
    for name, variable in variables.items():
        bounds = variable.attrs.get("bounds")
        if name in units and isinstance(bounds, str) and bounds in units:
            units[name] = units[bounds] = max(units[name], units[bounds], key=_UNITS.index)
    return units


def _unit(times: AnyArray) -> str:
    if times.dtype.kind == "O":
        parts = ("microsecond", "second", "minute", "hour")
        finest = (f"{p}s" for p in parts if any(getattr(time, p) for time in times.flat))
        return next(finest, "days")
    times = _plain(times)
    there = times[~np.isnat(times)]
    for unit in _UNITS:
        coarse = there.astype(f"{times.dtype.kind}8[{_CODES[unit]}]")
        if (coarse.astype(times.dtype) == there).all():
            break
    return unit


def _counted(times: AnyArray, unit: str) -> tuple[AnyArray, bool]:
    """Dates or durations as whole numbers of a unit, and whether there are gaps."""
    times = _plain(times)
    gaps = np.isnat(times)
    counted = np.full(times.shape, _NOT_A_TIME, dtype=np.int64)
    counted[~gaps] = times[~gaps].astype(f"{times.dtype.kind}8[{_CODES[unit]}]").astype(np.int64)
    return counted, bool(gaps.any())


def _plain(times: AnyArray) -> AnyArray:
    """Times in days where their own unit is none of the conventions'."""
    if np.datetime_data(times.dtype)[0] in ("Y", "M", "W", "generic"):
        return times.astype(f"{times.dtype.kind}8[D]")
    return times


def _attributes(attrs: Any, taken: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Attributes that the formats hold, and those that are kept aside as text."""
    kept: dict[str, Any] = {}
    aside: dict[str, Any] = {}
    for name, value in attrs.items():
        plain = str(name) not in (*taken, _MARK, "")
        number = isinstance(value, float | np.floating | np.integer) or (
            isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
        )
        numbers = isinstance(value, np.ndarray) and value.dtype.kind in "iuf"
        text = isinstance(value, str) and value.isprintable() and value != ""
        if plain and (number or text or (numbers and value.ndim == 1 and value.size > 1)):
            kept[str(name)] = value
        else:
            aside[str(name)] = _as_json(value)
    return kept, aside


def _as_json(value: Any) -> Any:
    """A value that JSON holds; what it cannot hold becomes text."""
    if isinstance(value, np.ndarray | np.generic):  # in whose lists times are numbers
        value = (value.astype(str) if value.dtype.kind in "mM" else value).tolist()
    if isinstance(value, dict):
        return {str(name): _as_json(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(part) for part in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _mark_of(attrs: Any) -> dict[str, Any]:
    """What was kept as text, taken out of the attributes."""
    try:
        mark = json.loads(attrs.get(_MARK, "{}"))
    except (TypeError, ValueError):
        return {}  # someone else's attribute
    if not isinstance(mark, dict):
        return {}
    attrs.pop(_MARK, None)
    return mark


def _decoded(raw: Any, lazy: bool) -> Any:
    """The dataset that was written; of other files, what the conventions make of them."""
    xarray = need("xarray")
    attrs = dict(raw.attrs)
    mark = _mark_of(attrs)
    order = [name for name in mark.get("order", ()) if name in raw.variables]
    marks, variables = {}, {}
    for name in dict.fromkeys([*order, *raw.variables]):
        variable = raw.variables[name].copy(deep=False)
        marks[name] = _mark_of(variable.attrs)
        # The name that xarray has for it since 2025.
        dtype = str(marks[name].get("dtype") or variable.attrs.get("dtype", ""))
        variables[name] = _restored(xarray, variable, dtype)
    data = _by_conventions(xarray, xarray.Dataset(variables, attrs=attrs), marks)
    data.set_close(raw.close)
    for name, held in marks.items():
        if name in data.variables:
            # What the file says now counts: someone may have changed it since.
            data[name].attrs = {**held.get("attrs", {}), **data[name].attrs}
            if held.get("dtype") == "float16":
                data[name] = _in_half(data[name])
    data.attrs = {**mark.get("attrs", {}), **data.attrs}
    for dim, levels in mark.get("levels", {}).items():
        if all(level in data.coords and data[level].dims == (dim,) for level in levels):
            data = data.set_index({dim: levels})
    return _in_chunks(data) if lazy else data


def _by_conventions(xarray: Any, raw: Any, marks: dict[Any, dict[str, Any]]) -> Any:
    """Decoded by the CF conventions; times that cannot be are left as numbers, with a warning."""
    # Numbers of days are numbers: a count of wet days is no duration.
    try:
        times = _finenesses(xarray, raw, marks)
        return xarray.decode_cf(raw, decode_times=times, decode_timedelta=False)
    except (ValueError, OverflowError, ImportError):
        data = xarray.decode_cf(raw, decode_times=False, decode_timedelta=False)
    left = {
        str(name): (v.attrs["units"], v.attrs.get("calendar", "standard"))
        for name, v in data.variables.items()
        if " since " in str(v.attrs.get("units", ""))
    }
    said = "; ".join(f"{name}: {unit}, calendar {form}" for name, (unit, form) in left.items())
    warnings.warn(
        f"times are left as numbers ({said}): {_why_numbers([unit for unit, _ in left.values()])}.",
        UserWarning,
        stacklevel=7,
    )
    return data


def _why_numbers(units: list[str]) -> str:
    """Why times could not be read, and what to do."""
    words = [unit.split(" since ")[0].strip().lower() for unit in units]
    vague = next((word for word in words if word.rstrip("s") in ("month", "year")), None)
    if vague is not None:
        return (
            f"{vague} have no fixed length; write the times in days, or make dates of them "
            "(pandas.date_range)"
        )
    if importlib.util.find_spec("cftime") is None:
        return "the unit cannot be read, or its calendar needs cftime (pip install 'ctfa[io]')"
    return "the unit, or the times in this calendar, cannot be read; write them as dates"


def _finenesses(xarray: Any, raw: Any, marks: dict[Any, dict[str, Any]]) -> Any:
    """How fine dates shall be that are counted in whole numbers; others get nanoseconds."""
    if not hasattr(xarray, "coders"):  # of xarray before 2025, which has nanoseconds alone
        return True
    known = {f"datetime64[{unit}]": unit for unit in ("s", "ms", "us")}
    coders = {
        name: xarray.coders.CFDatetimeCoder(time_unit=known[held["dtype"]])
        for name, held in marks.items()
        if held.get("dtype") in known and raw[name].dtype.kind in "iu"
    }
    return coders or True  # without any, {} would leave bounds as numbers


def _restored(xarray: Any, variable: Any, dtype: str) -> Any:
    """Durations and text as they were, where they still are that; these are read at once."""
    attrs = dict(variable.attrs)
    kind = variable.dtype.kind
    if dtype.startswith("timedelta64") and attrs.get("units") in _CODES and kind in "iuf":
        unit, fill = _CODES[attrs.pop("units")], attrs.pop("_FillValue", np.nan)
        attrs.pop("dtype", None)
        return xarray.Variable(variable.dims, _spans(variable.values, unit, fill, dtype), attrs)
    if dtype in ("U", "object") and kind in "UTOS":
        values = np.asarray(variable.values)
        values = values.astype(str) if dtype == "U" else values.astype(object)
        return xarray.Variable(variable.dims, values, attrs)
    return variable


def _spans(counted: AnyArray, unit: str, fill: Any, dtype: str) -> AnyArray:
    """Durations of this type, or of a finer one where parts of a unit would be lost."""
    gaps = np.isnan(counted) | (counted == fill)
    spans = np.where(gaps, 0, counted)
    if spans.dtype.kind == "f":
        nanoseconds = np.ones(1, dtype=f"m8[{unit}]") / np.timedelta64(1, "ns")
        spans = np.rint(spans * nanoseconds[0])
        unit = "ns"
    spans = spans.astype(np.int64).astype(f"m8[{unit}]")
    told = spans.astype(dtype)
    spans = told if (told == spans).all() else spans
    spans[gaps] = np.timedelta64("NaT")
    return np.asarray(spans)


def _in_half(array: Any) -> Any:
    """Numbers in half precision, where they still fit into it."""
    with np.errstate(over="ignore"):
        half = array.astype(np.float16)
    return half if bool(((half == array) | array.isnull()).all()) else array


def _in_chunks(data: Any) -> Any:
    """Variables of numbers in pieces that are read when they are needed.

    Pieces of rows, each of all tasks: that is how a fit goes through them.
    """
    need("dask.array", "Reading in pieces")
    for name, array in data.data_vars.items():
        if array.dtype.kind in "biufc" and array.ndim:
            times = (d for d in array.dims if axis_of(d, array.coords.get(d)) == "T")
            rows = next(times, array.dims[0])
            data[name] = array.chunk(dict.fromkeys(array.dims, -1) | {rows: _rows(array, rows)})
    return data


def _rows(array: Any, dim: Any) -> int:
    """Rows of each piece: as many as Dask would take, in whole chunks of the file."""
    dask: Any = need("dask.array", "Reading in pieces")
    axis = array.dims.index(dim)
    wanted = ["auto" if one == dim else -1 for one in array.dims]
    height = int(dask.core.normalize_chunks(wanted, array.shape, dtype=array.dtype)[axis][0])
    # A chunk of the file that holds more rows than that is read more than once, a part each time.
    step = array.encoding.get("preferred_chunks", {}).get(dim, 1)
    return int(max(height // step * step or height, 1))
