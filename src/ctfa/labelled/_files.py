"""Read and write labelled data by the suffix of the file, whole or not at all."""

from __future__ import annotations

import csv
import difflib
import gc
import gzip
import importlib.util
import json
import os
import re
import shutil
import struct
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ctfa._kinds import FORMATS, Format, either, format_of, suffixes_for
from ctfa._text import cell, from_cell, put_folder
from ctfa.core.libraries import lacks_memory, need
from ctfa.core.types import AnyArray
from ctfa.labelled._tasks import axis_of
from ctfa.labelled._words import is_cftime, is_counted

#: What is wrong with a file that is not of the kind its name says.
_ANOTHER = "is not a {} file, or only part of one"


class FileError(ValueError):
    """A file that cannot be read or written; one sentence says why, and what to do.

    ``read`` and ``write`` raise it. It is a ``ValueError``.

    Parameters
    ----------
    *args
        The sentence.

    Examples
    --------
    >>> import ctfa
    >>> try:
    ...     ctfa.labelled.read("nowhere.nc")
    ... except ctfa.labelled.FileError as error:
    ...     print(error)
    nowhere.nc does not exist here.
    """


def read(path: str | os.PathLike[str], *, layer: str | None = None, lazy: bool = False) -> Any:
    """Read labelled data by the suffix of its file.

    Parameters
    ----------
    path : str or path
        ``.nc``, ``.nc4``, ``.h5``, ``.hdf5`` (NetCDF), ``.zarr``, ``.zarr.zip``, ``.parquet``,
        ``.feather``, ``.arrow``, ``.csv``, ``.tsv`` (``.gz`` too), ``.gpkg``, ``.geojson``,
        ``.json``, ``.shp``.
    layer : str, optional
        Which layer of a GeoPackage, or which group of a NetCDF or Zarr file.
    lazy : bool, default False
        Whether to give Dask arrays, in pieces. If False, an array is read whole when it is used.

    Returns
    -------
    xarray.Dataset, pandas.DataFrame or geopandas.GeoDataFrame
        A table of text has dates where a whole column reads like 2020-01-31 or
        2020-01-31T12:00:00, and text where numbers have leading zeros. What `write` has written
        comes back with its labels, types, attributes and order; a table of text has the labels of
        its rows as columns.

    Raises
    ------
    FileError
        One sentence: the file is not there, empty, cut short, not what its suffix says, or needs
        a library that is not installed.

    Examples
    --------
    >>> import tempfile, pandas as pd
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(pd.DataFrame({"basin": ["007", "008"], "vhi": [0.5, 0.25]}), f"{folder}/a.csv")
    ...     read(f"{folder}/a.csv").basin.tolist()
    ['007', '008']
    """
    path = Path(path)
    kind = _there(path)
    with _told(path, "read", "read", kind):
        return kind.read(path, layer, lazy)


def write(obj: Any, path: str | os.PathLike[str]) -> None:
    """Write labelled data in the format of the suffix, whole or not at all.

    Parameters
    ----------
    obj : xarray.Dataset, xarray.DataArray, DataFrame of pandas or polars, or GeoDataFrame
        Arrays go to ``.nc`` and ``.zarr``; tables to ``.parquet``, ``.feather``, ``.csv``; maps to
        ``.gpkg``, ``.geojson``, ``.shp`` and ``.parquet``.
    path : str or path
        What is there already is replaced once all is written.

    Returns
    -------
    None

    Raises
    ------
    FileError
        One sentence: what this format cannot hold, or why the place cannot be written to.

    Examples
    --------
    >>> import tempfile, pathlib, pandas as pd
    >>> table = pd.DataFrame({"basin": ["Po", "Ebro"], "flow": [1540.0, 426.0]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(table, pathlib.Path(folder, "flow.csv"))
    ...     print(pathlib.Path(folder, "flow.csv").read_text().splitlines())
    ['basin,flow', 'Po,1540.0', 'Ebro,426.0']
    """
    path = Path(path)
    kind = _kind(path)
    obj = _fitting(obj, path, kind)
    if not path.parent.is_dir():
        raise FileError(f"{path.name} cannot be written: there is no folder {path.parent}.")
    is_own = kind.marks and any((path / mark).exists() for mark in kind.marks)
    # A folder is replaced if it is one of this format, or empty.
    if path.is_dir() and not is_own and (not kind.marks or any(path.iterdir())):
        raise FileError(f"{path.name} is a folder, and would have to go: choose another name.")
    hidden: Any = {"prefix": ".ctfa-", "dir": path.parent}
    with _told(path, "write", "written"), tempfile.TemporaryDirectory(**hidden) as folder:
        kind.write(obj, Path(folder) / path.name)
        _put(Path(folder), path)


@contextmanager
def _told(path: Path, to_do: str, done: str, kind: Format | None = None) -> Iterator[None]:
    """Say in one sentence why a file cannot be written; or read, as one of this kind."""
    name = path.name
    try:
        yield
    except (KeyboardInterrupt, MemoryError):
        raise
    except PermissionError:
        called = name if kind is not None else path
        raise FileError(f"{called} cannot be {done}: you have no permission to.") from None
    except Exception as error:
        said = _reason(error)
        if kind is not None and isinstance(error, LookupError) and said.startswith("has "):
            raise FileError(f"{name} {said}.") from None
        if lacks_memory(error):  # the file is not at fault
            raise MemoryError(
                f"there is not enough memory to {to_do} {name} ({said}): take fewer variables, "
                "tasks or samples, or a machine that has more."
            ) from error
        if kind is None or isinstance(error, ImportError):
            raise FileError(f"{name} cannot be {done}: {said}.") from None
        raise FileError(f"{name} {_ANOTHER.format(kind.name)}: {said}.") from None


def _put(folder: Path, path: Path) -> None:
    """Everything that was written to its place, what is named like the file last."""
    if path.is_dir():
        put_folder(folder / path.name, path)
        return
    for beside in sorted(folder.iterdir()):
        if beside.name != path.name:
            os.replace(beside, path.parent / beside.name)
    os.replace(folder / path.name, path)


def _kind(path: Path) -> Format:
    kind = format_of(path)
    if kind is None:
        suffix = f"the suffix {path.suffix!r}" if path.suffix else "no suffix"
        known = [suffix for one in FORMATS.values() for suffix in one.suffixes]
        raise FileError(
            f"{path.name} has {suffix}, which does not say what it is: known are "
            f"{', '.join(known)}."
        )
    return kind


def _there(path: Path) -> Format:
    """The kind of a file that is there, and not obviously another."""
    if not path.exists():
        raise FileError(_absent(path))
    kind = _kind(path)
    if path.is_dir():
        if kind.marks:
            return kind
        raise FileError(f"{path.name} is a folder: give a file in it.")
    try:
        with path.open("rb") as file:
            begins = file.read(16)
    except OSError as error:
        raise FileError(f"{path.name} cannot be read: {_reason(error)}.") from None
    if not begins:
        raise FileError(f"{path.name} is empty (0 bytes): write or copy it once more.")
    if kind.begins and not begins.startswith(kind.begins):
        raise FileError(f"{path.name} {_ANOTHER.format(kind.name)}: it begins with {begins[:8]!r}.")
    return kind


def _absent(path: Path) -> str:
    folder = path.parent
    if not folder.is_dir():
        return f"{path} does not exist: there is no folder {folder} either."
    names = {entry.name.lower(): entry.name for entry in sorted(folder.iterdir())}
    near = [names[n] for n in difflib.get_close_matches(path.name.lower(), names, 3, 0.6)]
    same = [n for n in names.values() if Path(n).stem == path.stem and n not in near]
    near = [n for n in (*near, *same) if not n.startswith(".")][:3]
    where = "here" if folder == Path() else f"in the folder {folder}"
    advice = f": did you mean {' or '.join(near)}?" if near else f" {where}."
    return f"{path.name} does not exist{advice}"


def _fitting(obj: Any, path: Path, kind: Format) -> Any:
    """The object if this kind of file holds such."""
    if hasattr(obj, "to_pandas") and hasattr(obj, "columns"):  # polars
        obj = obj.to_pandas()
    if hasattr(obj, "dims") and hasattr(obj, "coords"):
        is_a, what = "arrays", type(obj).__name__
    elif hasattr(obj, "active_geometry_name"):
        is_a, what = "maps", "GeoDataFrame"
    elif hasattr(obj, "to_parquet"):
        is_a, what = "tables", type(obj).__name__
    else:
        raise FileError(
            f"{path.name} cannot be written from {type(obj).__name__}: give a Dataset, a DataFrame "
            f"or a GeoDataFrame."
        )
    if is_a not in kind.holds:
        instead = either(suffixes_for(is_a))
        raise FileError(f"{path.name} cannot hold a {what}: write it to {instead} instead.")
    return obj


def _reason(error: BaseException) -> str:
    """The first line of what a library says, as the end of a sentence."""
    said = error.args[0] if isinstance(error, KeyError) and error.args else error
    lines = str(said).strip().splitlines() or [type(error).__name__]
    line = lines[0].split(". ")[0].rstrip(" .:")
    return line if len(line) <= 200 else f"{line[:200]}..."


# -- Datasets in NetCDF and Zarr, and back as they were


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
    if begins == b"CDF\x05":
        raise ValueError("its version is 5, which is not read here; nccopy -k nc4 converts it")
    if begins[:3] == b"CDF" and begins[3] in (1, 2):
        with warnings.catch_warnings():
            try:
                return _opened(path, lazy, engine="scipy", group=group)
            except Exception as error:  # one that is cut short is let go in silence
                warnings.simplefilter("ignore")
                reason = str(error)
            gc.collect()  # what scipy has left open complains when it goes
        raise ValueError(reason)
    need("h5netcdf", "A NetCDF file")
    # A plain HDF5 file names no dimensions: they get names then.
    return _opened(path, lazy, engine="h5netcdf", group=group, phony_dims="access")


def read_zarr(path: Path, group: str | None, lazy: bool) -> Any:
    """A Zarr store in a folder or in a zip file, opened and not read."""
    zarr = need("zarr", "A Zarr store")
    store = str(path) if path.is_dir() else zarr.storage.ZipStore(str(path), mode="r")
    with warnings.catch_warnings():
        # Metadata in one piece are faster to read; without, they are read one by one.
        warnings.filterwarnings("ignore", message=".*consolidated", category=RuntimeWarning)
        return _opened(store, lazy, engine="zarr", group=group)


def _opened(path: Any, lazy: bool, **options: Any) -> Any:
    raw = need("xarray").open_dataset(path, decode_cf=False, chunks=None, **options)
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
        times = _plain(np.asarray(variable.values), str(unit))
        values = times.astype(np.int64)  # of a gap the smallest number, in either
        since = " since 1970-01-01" if kind == "M" else ""
        kept["units"] = f"{unit}{since}"
        if kind == "M":
            kept["calendar"] = "proleptic_gregorian"
        if np.isnat(times).any():
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
    there = times[~np.isnat(times)]
    return next(u for u in _UNITS if (_plain(there, u) == there).all() or u == _UNITS[-1])


def _plain(times: AnyArray, unit: str) -> AnyArray:
    """Dates or durations in a unit of the conventions."""
    return times.astype(f"{times.dtype.kind}8[{_CODES[unit]}]")


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
        return {}  # another program's attribute
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
            if held.get("dtype") == "float16":  # where the numbers still fit into it
                with np.errstate(over="ignore"):
                    half = data[name].astype(np.float16)
                fits = bool(((half == data[name]) | data[name].isnull()).all())
                data[name] = half if fits else data[name]
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
    """How fine dates are to be that are counted in whole numbers; others get nanoseconds."""
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


def _in_chunks(data: Any) -> Any:
    """Variables of numbers in pieces that are read when they are needed.

    Pieces of rows, each of all tasks: that is how a fit goes through them.
    """
    dask: Any = need("dask.array", "Reading in pieces")
    for name, array in data.data_vars.items():
        if array.dtype.kind not in "biufc" or not array.ndim:
            continue
        times = (d for d in array.dims if axis_of(d, array.coords.get(d)) == "T")
        rows = next(times, array.dims[0])
        # As many rows as Dask would take, in whole chunks of the file: a chunk that holds more than
        # that is read more than once, a part each time.
        wanted = ["auto" if dim == rows else -1 for dim in array.dims]
        sizes = dask.core.normalize_chunks(wanted, array.shape, dtype=array.dtype)
        height = int(sizes[array.dims.index(rows)][0])
        step = array.encoding.get("preferred_chunks", {}).get(rows, 1)
        height = int(max(height // step * step or height, 1))
        data[name] = array.chunk(dict.fromkeys(array.dims, -1) | {rows: height})
    return data


# -- Tables and maps in files, and back as they were


#: A date of ISO 8601, with or without a time of day and an offset.
_ISO = re.compile(
    r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:?\d\d)?)?", flags=re.ASCII
)
#: A month of ISO 8601 in the years that data are from: a code such as 1203-04 is not one.
_MONTH = re.compile(r"(1[5-9]|20|21)\d\d-(0[1-9]|1[0-2])", flags=re.ASCII)
#: A number that begins with a zero it does not need: a code.
_CODE = re.compile(r"\s*-?0\d+\s*", flags=re.ASCII)
#: When a map says that it was last changed: the same map again is the same file.
_LAST_CHANGE = "1980-01-01T00:00:00.000Z"


def read_csv(path: Path, *_: Any) -> Any:
    """A table of text: numbers, codes with leading zeros as text, ISO dates as dates.

    A column is one of dates where every value in it that is not missing reads like 2020-01-31,
    with or without a time (2020-01-31T12:00:00Z; offsets that differ become UTC), or every one
    like 2020-01, the first day of that month; text like 01/02/2020 stays text, because either
    number may be the month. Columns are separated by what the first line has most of: a comma, a
    semicolon or a tab; with the last two, decimals may follow a comma. The quote that `write_csv`
    puts before text which looks like a formula is taken off again.
    """
    pandas = need("pandas", "A table")
    how = {"encoding": "utf-8-sig", **_marks(path)}
    # To their last digit: pandas reads numbers so by itself since 3.1.
    is_exact = tuple(map(int, pandas.__version__.split(".")[:2])) >= (3, 1)
    exactly = {} if is_exact else {"float_precision": "round_trip"}
    table = pandas.read_csv(path, low_memory=False, **how, **exactly)
    whole = [column for column in table.columns if _may_be_codes(table[column])]
    if whole:  # read once more as text: as numbers they have lost their zeros
        text = pandas.read_csv(path, usecols=whole, dtype=str, **how)
        for column in whole:
            if text[column].dropna().map(lambda v: bool(_CODE.fullmatch(v))).any():
                table[column] = text[column]
    for column in table.columns:
        if table[column].dtype.kind == "O":
            table[column] = _dates(pandas, _changed(pandas, table[column], from_cell))
    names = [from_cell(name) for name in table.columns]
    if len(set(names)) == len(names):  # of others' files two could become one
        table.columns = names
    return table


def _marks(path: Path) -> dict[str, str]:
    """What separates columns, and what stands before the decimals."""
    if ".tsv" in path.suffixes:
        return {"sep": "\t"}
    opened: Any = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8-sig") as file:
        head, row = file.readline(), file.readline()
    separator = max((",", ";", "\t"), key=head.count)
    comma = separator != "," and re.search(r"\d,\d", row) is not None
    return {"sep": separator, "decimal": "," if comma else "."}


def _may_be_codes(column: Any) -> bool:
    if column.dtype.kind == "f":  # whole numbers with gaps
        there = column.dropna()
        return bool(len(there) and np.isfinite(there).all() and (there == np.rint(there)).all())
    return bool(column.dtype.kind in "iu")


def _dates(pandas: Any, column: Any) -> Any:
    """The column as dates if all of it reads like dates."""
    there = column.dropna()
    if not len(there) or not all(isinstance(v, str) for v in there):
        return column
    if all(map(_MONTH.fullmatch, there)):
        # 2000-01, 2001-02, 2002-03 are winters, or years of a school.
        over = all((int(v[:4]) + 1) % 100 == int(v[5:]) for v in there)
        return column if over else pandas.to_datetime(column, format="%Y-%m")
    if not all(map(_ISO.fullmatch, there)):
        return column
    zones = {_ISO.fullmatch(v)[4] for v in there}  # type: ignore[index]
    if None in zones and len(zones) > 1:
        return column
    try:
        # Of one offset they stay there: midnight is another day, and month, in Greenwich.
        return pandas.to_datetime(column, format="ISO8601", utc=len(zones) > 1)
    except ValueError:  # 2020-13-45 reads like a date and is not one
        return column


def write_csv(table: Any, path: Path) -> None:
    """A table of text; labels of the rows come first, as columns of their own.

    No text in it is a formula to a spreadsheet (`ctfa._text.cell`), and the same table again is
    the same file: packed ones hold no time.
    """
    pandas = need("pandas", "A table")
    index = table.index
    labelled = not (is_counted(index) or (not len(index) and index.names == [None]))
    names = [cell(name) for name in _labels(index)] if labelled else None
    table = _as_cells(pandas, table)
    # Python 3.11 leaves a carriage return unquoted, and readers take it for the end of a row.
    returns = _holds(table, "\r") or any("\r" in name for name in names or ())
    table.to_csv(
        path,
        sep="\t" if ".tsv" in path.suffixes else ",",
        index=labelled,
        index_label=names,
        quoting=csv.QUOTE_NONNUMERIC if returns else csv.QUOTE_MINIMAL,
        compression={"method": "gzip", "mtime": 0} if path.suffix == ".gz" else None,
    )


def _as_cells(pandas: Any, table: Any) -> Any:
    """The table with every text in it, of headings and of labels too, as a cell of a CSV file."""
    made = table.copy(deep=False)
    for number in range(table.shape[1]):  # not by name: two columns may share one
        column = table.iloc[:, number]
        changed = _changed(pandas, column, cell)
        if changed is not column:
            made.isetitem(number, changed)
    made.index, made.columns = _cell_labels(table.index), _cell_labels(table.columns)
    return made


def _changed(pandas: Any, column: Any, change: Callable[[Any], Any]) -> Any:
    """A column with some of its text changed; itself where none is."""
    if column.dtype.kind not in "OU":
        return column
    values = column.to_numpy(dtype=object)
    changed = [change(value) for value in values]
    if all(old is new or old == new for old, new in zip(values, changed, strict=True)):
        return column
    return pandas.Series(changed, index=column.index, name=column.name)


def _cell_labels(labels: Any) -> Any:
    if labels.nlevels > 1:
        changed = labels.set_levels([_cell_labels(level) for level in labels.levels])
        return changed.set_names([cell(name) for name in labels.names])
    return labels.map(cell) if labels.dtype.kind in "OU" else labels


def _holds(table: Any, mark: str) -> bool:
    """Whether a character is somewhere in the text of a table."""
    texts = [column for _, column in table.items() if column.dtype.kind in "OU"]
    labels = [
        axis.get_level_values(i)
        for axis in (table.index, table.columns)
        for i in range(axis.nlevels)
    ]
    return any(isinstance(v, str) and mark in v for values in (*texts, *labels) for v in values)


def _labels(index: Any) -> list[str]:
    if index.nlevels == 1:
        return [str(index.name if index.name is not None else "index")]
    return [str(n if n is not None else f"level_{i}") for i, n in enumerate(index.names)]


def read_parquet(path: Path, *_: Any) -> Any:
    """A table, or a map if the file says where its geometries are."""
    parquet = need("pyarrow.parquet", "A Parquet file")
    if b"geo" in (parquet.read_schema(path).metadata or {}):
        return need("geopandas", "A map").read_parquet(path)
    return need("pandas", "A table").read_parquet(path, engine="pyarrow")


def write_parquet(table: Any, path: Path) -> None:
    """A table or a map."""
    need("pyarrow", "A Parquet file")
    _refuse_calendars(table)
    if hasattr(table, "active_geometry_name"):
        table.to_parquet(path)
    else:
        table.to_parquet(path, engine="pyarrow")


def read_feather(path: Path, *_: Any) -> Any:
    """A table, or a map if the file says where its geometries are."""
    feather = need("pyarrow.feather", "A Feather file")
    held = feather.read_table(path)
    if b"geo" in (held.schema.metadata or {}):
        return need("geopandas", "A map").read_feather(path)
    return held.to_pandas()


def write_feather(table: Any, path: Path) -> None:
    """A table or a map."""
    arrow = need("pyarrow", "A Feather file")
    _refuse_calendars(table)
    if hasattr(table, "active_geometry_name"):
        table.to_feather(path)
    else:  # pandas' own way refuses labels of rows
        need("pyarrow.feather").write_feather(arrow.Table.from_pandas(table), str(path))


def _refuse_calendars(table: Any) -> None:
    """Refuse dates of calendars that these formats do not know."""
    for name, column in table.items():
        calendar = getattr(column.iloc[0], "calendar", None) if len(column) else None
        if calendar is not None:
            raise ValueError(
                f"{name} holds dates of the calendar {calendar}, which this format does not know; "
                "write .nc, .zarr or .csv"
            )


def read_map(path: Path, layer: str | None, *_: Any) -> Any:
    """A map; of several layers one must be named."""
    geopandas = need("geopandas", "A map")
    pyogrio = need("pyogrio", "A map")
    _whole(path)
    layers = [str(name) for name, _ in pyogrio.list_layers(path)]
    if layer is None and len(layers) > 1:
        raise LookupError(f"has {len(layers)} layers ({', '.join(layers)}): say which by layer=")
    if layer is not None and layer not in layers:
        raise LookupError(f"has no layer {layer!r}: it has {', '.join(layers)}")
    found = geopandas.read_file(path, layer=layer, engine="pyogrio")
    if path.suffix.lower() in (".geojson", ".json"):  # whole numbers there have no size
        short = [name for name, dtype in found.dtypes.items() if str(dtype) == "int32"]
        found = found.astype(dict.fromkeys(short, np.int64))
    return found


def _whole(path: Path) -> None:
    """Refuse files shorter than their own heads say: what is left of them would be read."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(100)
    if path.suffix.lower() == ".gpkg" and head[:15] == b"SQLite format 3" and len(head) == 100:
        (page,) = struct.unpack(">H", head[16:18])
        (pages,) = struct.unpack(">I", head[28:32])
        said = (65536 if page == 1 else page) * pages
    elif path.suffix.lower() == ".shp" and len(head) == 100:
        said = 2 * struct.unpack(">I", head[24:28])[0]
    else:
        return
    if size < said:
        raise ValueError(f"it has {size:,} bytes of {said:,}")


def write_map(table: Any, path: Path, driver: str) -> None:
    """A map in one layer, named like the file."""
    pyogrio = need("pyogrio", "A map")
    suffix = path.suffix.lower()
    if suffix == ".shp":
        index = [str(name) for name in table.index.names if name is not None]
        long = [str(c) for c in (*index, *table.columns) if len(str(c).encode()) > 10]
        if long:
            raise ValueError(
                f"a shapefile cuts names to 10 characters, and there is {long[0]!r}; write a .gpkg"
            )
    named = {} if suffix == ".shp" else {"layer": path.stem}
    with _dated(pyogrio):
        table.to_file(path, driver=driver, engine="pyogrio", **named)


@contextmanager
def _dated(pyogrio: Any) -> Iterator[None]:
    """Let GDAL write one fixed time into all maps, unless its option is already set."""
    option = "OGR_CURRENT_DATE"
    if pyogrio.get_gdal_config_option(option) is not None:
        yield
        return
    pyogrio.set_gdal_config_options({option: _LAST_CHANGE})
    try:
        yield
    finally:
        pyogrio.set_gdal_config_options({option: None})
