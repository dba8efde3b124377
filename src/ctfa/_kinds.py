"""Kinds of files and of neighbours: what each is called, what is known of it, who does the work.

Whoever speaks of them (``--help``, errors) and whoever works with them (``ctfa.labelled``) asks
here: a new kind is one object in ``FORMATS`` or ``NEIGHBOUR_RULES``. Nothing heavy is imported
before a file is read or a graph is built.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Format:
    """A format of labelled data."""

    name: str
    suffixes: tuple[str, ...]  # the first is the one that is proposed
    holds: tuple[str, ...]  # of "arrays", "tables" and "maps", what it is for first
    read: Callable[[Path, str | None, bool], Any]  # given a layer and whether in pieces
    write: Callable[[Any, Path], None]
    begins: tuple[bytes, ...] = ()  # one of these, where the format has such
    marks: tuple[str, ...] = ()  # files by one of which a folder is known; none: it is a file
    beside: tuple[str, ...] = ()  # suffixes of files that belong to it
    is_common: bool = False  # whether help and advice name it
    is_proposed: bool = True  # whether it is proposed for what another format cannot hold


@dataclass(frozen=True)
class NeighbourRule:
    """A way to be neighbours that has a name."""

    name: str
    graph: Callable[[Any, Any, Any, Any], Any]  # of what was given, a count, tasks and geometry
    of: str = ""  # the tasks that have such, in words
    takes_count: bool = False  # whether it is ``(name, count)``, or "name:count"

    @property
    def written(self) -> str:
        """As the command line has it."""
        return f"{self.name}:K" if self.takes_count else self.name


def _labelled(function: str, **known: Any) -> Callable[..., Any]:
    """A function of ``ctfa.labelled``, imported when it is called."""
    module, _, name = function.partition(".")

    def call(*given: Any) -> Any:
        return getattr(importlib.import_module(f"ctfa.labelled.{module}"), name)(*given, **known)

    return call


_CSV = Format(
    "CSV",
    (".csv",),
    ("tables",),
    _labelled("_table_files.read_csv"),
    _labelled("_table_files.write_csv"),
    is_common=True,
)
_GZIPPED = replace(
    _CSV,
    name="gzipped CSV",
    suffixes=(".csv.gz",),
    begins=(b"\x1f\x8b",),
    is_common=False,
    is_proposed=False,
)
_MAP = Format(
    "GeoPackage",
    (".gpkg",),
    ("maps",),
    _labelled("_table_files.read_map"),
    _labelled("_table_files.write_map", driver="GPKG"),
    (b"SQLite format 3",),
    is_common=True,
)
FORMATS: dict[str, Format] = {
    one.name: one
    for one in (
        Format(
            "NetCDF",
            (".nc", ".nc4", ".h5", ".hdf5"),
            ("arrays",),
            _labelled("_array_files.read_netcdf"),
            _labelled("_array_files.write_netcdf"),
            (b"\x89HDF\r\n\x1a\n", b"CDF"),
            is_common=True,
        ),
        Format(
            "Zarr",
            (".zarr", ".zarr.zip"),
            ("arrays",),
            _labelled("_array_files.read_zarr"),
            _labelled("_array_files.write_zarr"),
            (b"PK",),
            marks=(".zgroup", ".zmetadata", "zarr.json"),
            is_common=True,
        ),
        Format(
            "Parquet",
            (".parquet",),
            ("tables", "maps"),
            _labelled("_table_files.read_parquet"),
            _labelled("_table_files.write_parquet"),
            (b"PAR1",),
            is_common=True,
        ),
        Format(
            "Feather",
            (".feather", ".arrow"),
            ("tables", "maps"),
            _labelled("_table_files.read_feather"),
            _labelled("_table_files.write_feather"),
            (b"ARROW1", b"FEA1"),
        ),
        _CSV,
        _GZIPPED,
        replace(_CSV, name="TSV", suffixes=(".tsv",), is_common=False, is_proposed=False),
        replace(_GZIPPED, name="gzipped TSV", suffixes=(".tsv.gz",)),
        _MAP,
        replace(
            _MAP,
            name="GeoJSON",
            suffixes=(".geojson", ".json"),
            write=_labelled("_table_files.write_map", driver="GeoJSON"),
            begins=(),
            is_common=False,
        ),
        replace(
            _MAP,
            name="shapefile",
            suffixes=(".shp",),
            write=_labelled("_table_files.write_map", driver="ESRI Shapefile"),
            begins=(b"\x00\x00\x27\x0a",),
            beside=(".shx", ".dbf", ".prj", ".cpg"),
            is_common=False,
        ),
    )
}
NEIGHBOUR_RULES: dict[str, NeighbourRule] = {
    one.name: one
    for one in (
        NeighbourRule("rook", _labelled("_neighbours.by_grid", corners=False), "grids"),
        NeighbourRule("queen", _labelled("_neighbours.by_grid", corners=True), "grids"),
        NeighbourRule("border", _labelled("_neighbours.by_outlines", corners=False), "polygons"),
        NeighbourRule("touch", _labelled("_neighbours.by_outlines", corners=True), "polygons"),
        NeighbourRule("nearest", _labelled("_neighbours.by_distance"), takes_count=True),
    )
}


def format_of(path: Path) -> Format | None:
    """The format that a file's name says; None where it says none."""
    name = path.name.lower()
    known = {suffix: one for one in FORMATS.values() for suffix in one.suffixes}
    found = [suffix for suffix in known if name.endswith(suffix) and name != suffix]
    return known[max(found, key=len)] if found else None


def common_formats(*contents: str) -> list[Format]:
    """Formats for these contents that help and advice name."""
    common = [one for one in FORMATS.values() if one.is_common and one.holds[0] in contents]
    return sorted(common, key=lambda one: (contents.index(one.holds[0]), one.name))


def suffixes_for(content: str) -> list[str]:
    """Suffixes proposed for what is to be written: of formats that are for it, then of others."""
    proposed = [one for one in FORMATS.values() if one.is_proposed and one.holds[0] == content]
    other = [one for one in FORMATS.values() if one.is_common and content in one.holds[1:]]
    return [one.suffixes[0] for one in (*proposed, *other)]


def rules_in_words() -> str:
    """Names of all rules of neighbours, as Python has them."""
    said = []
    for of, rules in groupby(NEIGHBOUR_RULES.values(), key=lambda rule: rule.of):
        names = [f"({r.name!r}, 6)" if r.takes_count else repr(r.name) for r in rules]
        said.append(" or ".join(names) + (f" ({of})" if of else ""))
    return ", ".join(said)


def either(names: Iterable[str]) -> str:
    """Names as words: a, b or c."""
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last
