"""Read and write labelled data by the suffix of the file, whole or not at all."""

from __future__ import annotations

import difflib
import os
import tempfile
from pathlib import Path
from typing import Any

from ctfa._kinds import FORMATS, Format, either, format_of, suffixes_for
from ctfa._text import put_folder
from ctfa.core.libraries import lacks_memory


class FileError(ValueError):
    """A file that cannot be read or written; one sentence says why, and what to do."""


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
        Whether arrays are dask's, in pieces. Without, they are read when they are used, and whole.

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
    name = path.name
    try:
        return kind.read(path, layer, lazy)
    except (KeyboardInterrupt, MemoryError):
        raise
    except ImportError as error:
        raise FileError(f"{name} cannot be read: {_reason(error)}.") from None
    except PermissionError:
        raise FileError(f"{name} cannot be read: you have no permission to.") from None
    except LookupError as error:
        if error.args and str(error.args[0]).startswith("has "):
            raise FileError(f"{name} {_reason(error)}.") from None
        raise FileError(_no_such(name, kind, error)) from None
    except Exception as error:
        if lacks_memory(error):  # no fault of the file
            raise _no_memory(f"read {name}", error) from error
        raise FileError(_no_such(name, kind, error)) from None


def write(obj: Any, path: str | os.PathLike[str]) -> None:
    """Write labelled data in the format of the suffix, whole or not at all.

    Parameters
    ----------
    obj : xarray.Dataset, xarray.DataArray, DataFrame of pandas or polars, or GeoDataFrame
        Arrays go to ``.nc`` and ``.zarr``; tables to ``.parquet``, ``.feather``, ``.csv``; maps to
        ``.gpkg``, ``.geojson``, ``.shp`` and ``.parquet``.
    path : str or path
        What is there already is replaced once all is written.

    Raises
    ------
    FileError
        One sentence: what this format cannot hold, or why the place cannot be written to.
    """
    path = Path(path)
    kind = _kind(path)
    obj = _fitting(obj, path, kind)
    if not path.parent.is_dir():
        raise FileError(f"{path.name} cannot be written: there is no folder {path.parent}.")
    if path.is_dir() and not _may_be_replaced(path, kind):
        raise FileError(f"{path.name} is a folder, and would have to go: choose another name.")
    try:
        with tempfile.TemporaryDirectory(prefix=".ctfa-", dir=path.parent) as folder:
            kind.write(obj, Path(folder) / path.name)
            _put(Path(folder), path)
    except (KeyboardInterrupt, MemoryError):
        raise
    except PermissionError:
        raise FileError(f"{path} cannot be written: you have no permission to.") from None
    except Exception as error:
        if lacks_memory(error):
            raise _no_memory(f"write {path.name}", error) from error
        raise FileError(f"{path.name} cannot be written: {_reason(error)}.") from None


def _put(folder: Path, path: Path) -> None:
    """Everything that was written to its place, what is named like the file last."""
    if path.is_dir():
        put_folder(folder / path.name, path)
        return
    for beside in sorted(folder.iterdir()):
        if beside.name != path.name:
            os.replace(beside, path.parent / beside.name)
    os.replace(folder / path.name, path)


def _may_be_replaced(folder: Path, kind: Format) -> bool:
    """Whether a folder is one of this format, or empty."""
    marked = any((folder / mark).exists() for mark in kind.marks)
    return bool(kind.marks) and (marked or not any(folder.iterdir()))


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
        raise FileError(
            f"{path.name} is no {kind.name} file, or only part of one: it begins with "
            f"{begins[:8]!r}."
        )
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


def _no_such(name: str, kind: Format, error: Exception) -> str:
    return f"{name} is no {kind.name} file, or only part of one: {_reason(error)}."


def _no_memory(to_do: str, error: Exception) -> MemoryError:
    return MemoryError(
        f"there is not enough memory to {to_do} ({_reason(error)}): take fewer variables, tasks or "
        "samples, or a machine that has more."
    )


def _reason(error: BaseException) -> str:
    """The first line of what a library says, as the end of a sentence."""
    said = error.args[0] if isinstance(error, KeyError) and error.args else error
    lines = str(said).strip().splitlines() or [type(error).__name__]
    line = lines[0].split(". ")[0].rstrip(" .:")
    return line if len(line) <= 200 else f"{line[:200]}..."
