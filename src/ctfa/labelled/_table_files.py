"""Tables and maps in files, and back as they were."""

from __future__ import annotations

import csv
import gzip
import re
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ctfa._text import cell, from_cell
from ctfa.core.libraries import need
from ctfa.labelled._words import is_counted

#: A date of ISO 8601, with or without a time of day and an offset.
_ISO = re.compile(
    r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:?\d\d)?)?", flags=re.ASCII
)
#: A month of ISO 8601 in the years that data are from: a code such as 1203-04 is none.
_MONTH = re.compile(r"(1[5-9]|20|21)\d\d-(0[1-9]|1[0-2])", flags=re.ASCII)
#: A number that begins with a zero it does not need: a code.
_CODE = re.compile(r"\s*-?0\d+\s*", flags=re.ASCII)
#: When a map says that it was last changed: the same map again is the same file.
_LAST_CHANGE = "1980-01-01T00:00:00.000Z"


def read_csv(path: Path, *_: Any) -> Any:
    """A table of text: numbers, codes with leading zeros as text, ISO dates as dates.

    A column is one of dates where every value in it that is not missing reads like 2020-01-31,
    with or without a time (2020-01-31T12:00:00Z; offsets that differ become UTC), or every one
    like 2020-01, the first day of that month; text like 01/02/2020 stays text, because nobody knows
    which is the month. Columns are separated by what the first line has most of: a comma, a
    semicolon or a tab; with the last two, decimals may follow a comma. The quote that `write_csv`
    puts before text which looks like a formula is taken off again.
    """
    pandas = need("pandas", "A table")
    how = {"encoding": "utf-8-sig", **_marks(path)}
    table = pandas.read_csv(path, low_memory=False, **how, **_exactly(pandas))
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


def _exactly(pandas: Any) -> dict[str, str]:
    """How numbers are read to their last digit: pandas does so by itself since 3.1."""
    version = tuple(map(int, pandas.__version__.split(".")[:2]))
    return {"float_precision": "round_trip"} if version < (3, 1) else {}


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
    except ValueError:  # 2020-13-45 reads like a date and is none
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
    """Let GDAL write down one time for all maps, unless somebody has told it which."""
    option = "OGR_CURRENT_DATE"
    if pyogrio.get_gdal_config_option(option) is not None:
        yield
        return
    pyogrio.set_gdal_config_options({option: _LAST_CHANGE})
    try:
        yield
    finally:
        pyogrio.set_gdal_config_options({option: None})
