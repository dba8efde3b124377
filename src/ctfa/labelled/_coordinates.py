"""Coordinates of labelled data as plain arrays, and back exactly as they came."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ctfa.core.libraries import need
from ctfa.core.types import AnyArray, FloatArray, IntArray
from ctfa.labelled._units import spelled

#: Names of degrees on the globe, and those by which coordinates say where something lies, east and
#: north.
LONGITUDES, LATITUDES = ("lon", "longitude", "long"), ("lat", "latitude")
DEGREES = (*LONGITUDES, *LATITUDES)
EAST = (*LONGITUDES, "x", "easting", "rlon")
NORTH = (*LATITUDES, "y", "northing", "rlat")
#: Units by which the CF conventions tell longitudes.
EASTWARD = (
    "degrees_east", "degree_east", "degrees_E", "degree_E", "degreesE", "degreeE",
)  # fmt: skip
#: Labels this share of the smallest step apart are the same, and never those beyond a quarter.
NEAR, MOST = 0.01, 0.25
#: Twice what single precision and back may change of a number, as a share of it.
SINGLE = 2.0**-23
#: A meridian that is there twice, as 0 and 360, is so by this share of a step; of two longitudes,
#: which have no step, by so many degrees: more than single precision makes of it.
TWICE, MERIDIAN = 0.02, 1e-4


class Coordinate(NamedTuple):
    """One coordinate: where it lies, its values, and what is said of it."""

    dims: tuple[str, ...]
    values: AnyArray
    attrs: dict[str, Any]


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Coordinates over some dimensions; an index of several levels by its levels.

    Plain arrays and not xarray's own, so that a fitted result can be written to a file and read
    without running anything.
    """

    variables: dict[str, Coordinate]
    levels: dict[str, tuple[str, ...]]  # by dimension, the levels of an index that has several
    sizes: dict[str, int]

    @classmethod
    def of(cls, labelled: Any, dims: Sequence[str]) -> Coordinates:
        """Take those of an xarray object that lie on these dimensions alone."""
        variables, levels = {}, {}
        for name, coordinate in labelled.coords.items():
            if not set(coordinate.dims) <= set(dims):
                continue
            index = labelled.indexes.get(name)
            if index is not None and index.nlevels > 1 and name in dims:
                levels[str(name)] = tuple(map(str, index.names))
                continue
            values = np.array(coordinate.values)  # a copy: what was given may change later
            variables[str(name)] = Coordinate(
                tuple(map(str, coordinate.dims)), values, dict(coordinate.attrs)
            )
        sizes = {str(dim): int(labelled.sizes[dim]) for dim in dims}
        return cls(variables, levels, sizes)

    def index(self, dim: str) -> Any:
        """Labels along a dimension, a pandas index; counted from 0 where it has none."""
        pandas = need("pandas")
        if dim in self.levels:
            names = self.levels[dim]
            arrays = [self.variables[name].values for name in names]
            return pandas.MultiIndex.from_arrays(arrays, names=names)
        if dim in self.variables:
            return pandas.Index(self.variables[dim].values, name=dim)
        return pandas.RangeIndex(self.sizes[dim], name=dim)

    def at(self, places: Mapping[str, IntArray]) -> Coordinates:
        """Those at some positions along each dimension."""
        variables = {
            name: c._replace(values=c.values[np.ix_(*(places[dim] for dim in c.dims))])
            if c.dims
            else c
            for name, c in self.variables.items()
        }
        return replace(
            self, variables=variables, sizes={dim: int(places[dim].size) for dim in self.sizes}
        )

    def to_xarray(self) -> Any:
        """The same as an object that a DataArray takes for its ``coords``."""
        xarray = need("xarray")
        held: Mapping[str, Any] = {
            name: (c.dims, c.values, dict(c.attrs)) for name, c in self.variables.items()
        }
        built = xarray.Dataset(coords=held)
        for dim, names in self.levels.items():
            built = built.set_index({dim: list(names)})
        return built.coords


def is_longitude(name: Any, attrs: Mapping[str, Any]) -> bool:
    """Whether a coordinate is a longitude in degrees, by its name or by what is said of it."""
    if attrs.get("units") in EASTWARD:
        return True
    named = str(name).lower() in LONGITUDES or attrs.get("standard_name") == "longitude"
    return named and str(spelled(str(attrs.get("units", "")))) in ("", "degree")


def longitudes(names: Iterable[Any], *coordinates: Mapping[Any, Any]) -> set[Any]:
    """Which of these names are longitudes, by what any coordinate of that name says."""
    attrs = [(n, getattr(held.get(n), "attrs", {})) for n in names for held in coordinates]
    return {name for name, said in attrs if is_longitude(name, said)}


def in_one_piece(degrees: FloatArray, least: float = 0.0) -> FloatArray:
    """Longitudes turned by whole circles so that they begin and end at the widest gap.

    A window across Greenwich that is written 359.5, 0, 0.5 becomes -0.5, 0, 0.5. As they are, where
    no other gap is wider than the one they begin at, or than ``least``; and where a meridian is
    there twice, as 0 and 360.
    """
    there = np.unique(degrees)
    if there.size < 2:
        return degrees
    around = np.sort(there % 360.0)
    gaps = np.diff(around, append=around[0] + 360.0)
    twice = MERIDIAN if there.size == 2 else TWICE * float(np.diff(there).min())
    outside = 360.0 - float(there[-1] - there[0])
    widest = int(np.argmax(gaps))
    if gaps.min() <= twice or gaps[widest] <= max((1.0 + NEAR) * outside, least):
        return degrees
    first = around[(widest + 1) % around.size]
    circles = np.where(degrees % 360.0 < first, 1.0, 0.0) - np.floor(degrees / 360.0)
    # About Greenwich or east of it, as the half of the globe has it that the middle lies in.
    circles -= first + (360.0 - gaps[widest]) / 2.0 > 180.0
    return np.asarray(degrees + 360.0 * circles)


def find_labels(wanted: Any, among: Any, eastward: Container[Any] = ()) -> IntArray:
    """Where each wanted label is found among others, pandas indexes; -1 where it is not.

    Numbers need not be equal to the last digit: one that went through single precision, or was
    counted up in other steps, is the nearest within a hundredth of the smallest step. Longitudes,
    whose names are given, are the same after a whole turn. ``among`` has each label once.
    """
    if wanted.nlevels > 1 and wanted.nlevels == among.nlevels:
        return _find_tuples(wanted, among, eastward)
    places = np.asarray(among.get_indexer(wanted), dtype=np.intp)
    lost = np.flatnonzero(places < 0)
    if not lost.size or any(x.nlevels > 1 or x.dtype.kind not in "iuf" for x in (wanted, among)):
        return places
    asked, there = (np.asarray(x, dtype=np.float64) for x in (wanted, among))
    lost, known = lost[np.isfinite(asked[lost])], np.flatnonzero(np.isfinite(there))
    if not lost.size or not known.size:
        return places
    sides = asked[np.isfinite(asked)], there[known]
    turned = wanted.name in eastward or among.name in eastward
    turned = turned and all(bool(((x >= -360.0) & (x <= 540.0)).all()) for x in sides)
    found = _nearest(asked[lost], sides[1], tolerance(*sides, turned=turned), turned)
    places[lost] = np.where(found < 0, -1, known[found])
    return places


def tolerance(*axes: FloatArray, turned: bool = False) -> float:
    """How far apart numbers on these axes may be and still be the same label.

    Nothing for whole numbers: the next one is another label.
    """
    sides = [np.unique(axis % 360.0 if turned else axis) for axis in axes]
    every = np.concatenate(sides)
    if np.array_equal(every, np.rint(every)):
        return 0.0
    gaps = [np.diff(side) for side in sides]
    gaps += [side[:1] + 360.0 - side[-1:] for side in sides if turned and side.size > 1]
    step = float(np.concatenate(gaps).min(initial=np.inf))
    rounding = SINGLE * float(np.abs(every).max())
    near = NEAR * step if np.isfinite(step) else 0.0
    return min(max(near, rounding), MOST * step)


def _nearest(asked: FloatArray, there: FloatArray, within: float, turned: bool) -> IntArray:
    if turned:
        asked, there = asked % 360.0, there % 360.0
    order = np.argsort(there, kind="stable")
    right = np.searchsorted(there[order], asked)
    beside = order[np.column_stack([right - 1, right]) % there.size]
    off = np.abs(there[beside] - asked[:, None])
    off = np.minimum(off, 360.0 - off) if turned else off
    best = np.argmin(off, axis=1)
    rows = np.arange(asked.size)
    return np.where(off[rows, best] <= within, beside[rows, best], -1)


def _find_tuples(wanted: Any, among: Any, eastward: Container[Any]) -> IntArray:
    """The same for labels of several levels, level by level."""
    pandas = need("pandas")
    asked, there = np.zeros(len(wanted), dtype=np.intp), np.zeros(len(among), dtype=np.intp)
    for level, name in enumerate(wanted.names):
        mine, labels = pandas.factorize(wanted.get_level_values(level))
        theirs, known = pandas.factorize(among.get_level_values(level))
        found = find_labels(labels.rename(name), known, eastward)[mine]
        asked = np.where((found < 0) | (asked < 0), -1, asked * len(known) + found)
        there = there * len(known) + theirs
    return np.asarray(pandas.Index(there).get_indexer(asked), dtype=np.intp)
