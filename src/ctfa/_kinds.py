"""Kinds of files and of neighbours: what each is called, its facts, and what does the work.

Words about them (``--help``, errors) and work with them (``ctfa.labelled``) start from here:
a new kind is one object in ``FORMATS`` or ``NEIGHBOUR_RULES``. Nothing heavy is imported before a
file is read or a graph is built.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
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
    """A rule of neighbours that has a name."""

    name: str
    #: First and second end of each edge; of what was given, a count, tasks and their geometry.
    edges: Callable[[Any, Any, Any, Any], Any]
    of: str = ""  # the tasks that have such, in words
    takes_count: bool = False  # whether it is ``(name, count)``, or "name:count"

    @property
    def written(self) -> str:
        """As the command line has it."""
        return f"{self.name}:K" if self.takes_count else self.name


def _late(module: str, function: str, **known: Any) -> Callable[..., Any]:
    """A function of ``ctfa.labelled``, imported when it is called."""

    def call(*given: Any) -> Any:
        found = importlib.import_module(f"ctfa.labelled.{module}")
        return getattr(found, function)(*given, **known)

    return call


def _format(name: str, suffixes: str, holds: str, called: str, *begins: bytes, **facts: Any) -> Any:
    """A format that ``read_csv`` and ``write_csv``, say, of ``labelled/_files.py`` serve.

    The facts that ``Format`` does not know are told to what writes it.
    """
    own = {key: facts.pop(key) for key in list(facts) if key in Format.__dataclass_fields__}
    read, write = _late("_files", f"read_{called}"), _late("_files", f"write_{called}", **facts)
    return Format(name, tuple(suffixes.split()), tuple(holds.split()), read, write, begins, **own)


_GZIP, _OTHER = b"\x1f\x8b", {"is_proposed": False}
_SHP, _BESIDE = b"\x00\x00\x27\x0a", (".shx", ".dbf", ".prj", ".cpg")
_ZARR = (".zgroup", ".zmetadata", "zarr.json")
_HDF = b"\x89HDF\r\n\x1a\n"
FORMATS: dict[str, Format] = {
    one.name: one
    for one in (
        _format("NetCDF", ".nc .nc4 .h5 .hdf5", "arrays", "netcdf", _HDF, b"CDF", is_common=True),
        _format("Zarr", ".zarr .zarr.zip", "arrays", "zarr", b"PK", marks=_ZARR, is_common=True),
        _format("Parquet", ".parquet", "tables maps", "parquet", b"PAR1", is_common=True),
        _format("Feather", ".feather .arrow", "tables maps", "feather", b"ARROW1", b"FEA1"),
        _format("CSV", ".csv", "tables", "csv", is_common=True),
        _format("gzipped CSV", ".csv.gz", "tables", "csv", _GZIP, **_OTHER),
        _format("TSV", ".tsv", "tables", "csv", **_OTHER),
        _format("gzipped TSV", ".tsv.gz", "tables", "csv", _GZIP, **_OTHER),
        _format(
            "GeoPackage", ".gpkg", "maps", "map", b"SQLite format 3", driver="GPKG", is_common=True
        ),
        _format("GeoJSON", ".geojson .json", "maps", "map", driver="GeoJSON"),
        _format("shapefile", ".shp", "maps", "map", _SHP, driver="ESRI Shapefile", beside=_BESIDE),
    )
}
NEIGHBOUR_RULES: dict[str, NeighbourRule] = {
    one.name: one
    for one in (
        NeighbourRule("rook", _late("_places", "grid_edges", corners=False), "grids"),
        NeighbourRule("queen", _late("_places", "grid_edges", corners=True), "grids"),
        NeighbourRule("border", _late("_places", "border_edges", corners=False), "polygons"),
        NeighbourRule("touch", _late("_places", "border_edges", corners=True), "polygons"),
        NeighbourRule("nearest", _late("_places", "nearest_edges"), takes_count=True),
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
