"""The tasks of labelled data and their coordinates: what each is called, and where it lies."""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ctfa._text import visible
from ctfa.core.libraries import need
from ctfa.core.types import AnyArray, FloatArray, IntArray
from ctfa.labelled._units import Conversion, conversion, spelled
from ctfa.labelled._words import is_cftime, listed, word

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
NORTHWARD = tuple(unit.replace("east", "north").replace("E", "N") for unit in EASTWARD)
#: Names that rows go by when nothing is said, in the order of preference.
SAMPLES = ("time", "date", "valid_time", "datetime", "timestamp", "sample", "year", "month", "day")
#: Dimensions along which a field comes once for each height, or for each member of an ensemble.
LAYERS = (
    "level", "lev", "plev", "pressure", "pressure_level", "isobaricinhpa", "height", "altitude",
    "heightaboveground", "depth", "layer", "surface", "number", "member", "ensemble", "ens",
    "realization", "expver", "band",
)  # fmt: skip
#: Axes by the standard names of the CF conventions.
STANDARD = {
    "time": "T", "longitude": "X", "projection_x_coordinate": "X", "grid_longitude": "X",
    "latitude": "Y", "projection_y_coordinate": "Y", "grid_latitude": "Y", "realization": "Z",
    "air_pressure": "Z", "height": "Z", "altitude": "Z", "depth": "Z",
}  # fmt: skip
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

    @property
    def dtype(self) -> Any:
        """Under xarray's name, as ``ndim``: either kind is asked for its axis."""
        return self.values.dtype

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self.values.ndim


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

    @property
    def coords(self) -> dict[str, Coordinate]:
        """The same under xarray's name: data are put in the order of either."""
        return self.variables

    @cached_property
    def indexes(self) -> dict[str, Any]:
        """Labels along each dimension that has some."""
        named = (dim for dim in self.sizes if dim in self.variables or dim in self.levels)
        return {dim: self.index(dim) for dim in named}

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


def axis_of(name: Any, coordinate: Any) -> str:
    """What a dimension or coordinate is: T rows, X or Y a side of a map, Z a layer, or nothing.

    By what a file says of it by the CF conventions, and by dates; where these are silent by its
    name. A layer is a height, or a member of an ensemble.
    """
    said = said_axis(coordinate)
    lower = str(name).lower()
    known = {"T": SAMPLES, "X": EAST, "Y": NORTH, "Z": LAYERS}
    return said or next((axis for axis, names in known.items() if lower in names), "")


def said_axis(coordinate: Any) -> str:
    """The same without a guess by the name; nothing for a coordinate that is None."""
    if coordinate is None:
        return ""
    attrs, units = coordinate.attrs, str(coordinate.attrs.get("units", ""))
    axis = str(attrs.get("axis", "")).upper()
    if axis in ("T", "X", "Y", "Z"):
        return axis
    if attrs.get("standard_name") in STANDARD:
        return STANDARD[str(attrs["standard_name"])]
    if units in (*EASTWARD, *NORTHWARD):
        return "X" if units in EASTWARD else "Y"
    if "positive" in attrs:
        return "Z"
    is_dated = coordinate.dtype.kind == "M" or " since " in units or is_cftime(coordinate)
    return "T" if is_dated and coordinate.ndim else ""


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


#: How units begin that are degrees on the globe, whatever the name is.
ON_GLOBE = ("degrees_e", "degrees_n", "degree_e", "degree_n")
#: Degrees below this are zero: rounding of steps that were added up.
ZERO = 1e-9


@dataclass(frozen=True, eq=False)
class LabelledTasks:
    """Tasks along one dimension, or along those of a grid; those without data are masked.

    ``kept`` are the positions of the others in the grid, counted row by row: the targets of the
    model, in its order.
    """

    dims: tuple[str, ...]
    coords: Coordinates
    kept: IntArray

    @property
    def shape(self) -> tuple[int, ...]:
        """Tasks along each dimension, masked ones too."""
        return tuple(self.coords.sizes[dim] for dim in self.dims)

    @property
    def n_tasks(self) -> int:
        """Tasks that are not masked."""
        return int(self.kept.size)

    @property
    def n_masked(self) -> int:
        """Tasks without data."""
        return int(np.prod(self.shape)) - self.n_tasks

    @property
    def is_grid(self) -> bool:
        """Whether tasks are cells of a grid."""
        return len(self.dims) == 2

    @property
    def what(self) -> str:
        """What one task is called."""
        return "cell" if self.is_grid else self.dims[0]

    @property
    def group(self) -> str:
        """What a group of tasks is called in what comes back: no task may be called so too."""
        taken = {*self.dims, *self.coords.variables}
        return next(name for name in ("region", "group", "ctfa_group") if name not in taken)

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of what a label consists of: the dimensions, or the levels of a stacked one."""
        return self.coords.levels.get(self.dims[0], self.dims)

    @cached_property
    def places(self) -> tuple[IntArray, ...]:
        """Position of each task along each dimension."""
        return tuple(np.asarray(p, dtype=np.intp) for p in np.unravel_index(self.kept, self.shape))

    @cached_property
    def labels(self) -> list[Any]:
        """What each task is called in the data: a value, or a tuple of values for a grid."""
        return list(self.index)

    @cached_property
    def index(self) -> Any:
        """The labels as a pandas index, of several levels for a grid."""
        sides = [self.coords.index(d)[p] for d, p in zip(self.dims, self.places, strict=True)]
        if len(sides) == 1:
            return sides[0]
        return need("pandas").MultiIndex.from_arrays(sides, names=self.dims)

    @cached_property
    def names(self) -> list[str]:
        """The same as words, one each."""
        index = self.index
        sides = [index.get_level_values(k).to_numpy() for k in range(index.nlevels)]
        words = [list(map(word, side)) for side in sides]
        if len(words) == 1:
            return words[0]
        parts = self.parts
        in_degrees = all(self.is_angle(p) and self.units(p) in ("", "degree") for p in parts)
        sides = [axis_of(part, self.coords.variables.get(part)) for part in parts]
        if in_degrees and sorted(sides) == ["X", "Y"]:
            north = sides.index("Y")
            pairs = zip(words[north], words[1 - north], strict=True)
            return [" ".join(map(_degrees, pair, ("NS", "EW"))) for pair in pairs]
        return [
            ", ".join(f"{dim}={part}" for dim, part in zip(parts, label, strict=True))
            for label in zip(*words, strict=True)
        ]

    def position(self, label: Any) -> int:
        """Which task a label means; a task can be given by its name too.

        Numbers may differ by rounding, or by a whole turn east or west.
        """
        label = _plain(tuple(label) if isinstance(label, list) else label)
        found = self._positions.get(label) if isinstance(label, Hashable) else None
        if found is None and isinstance(label, str) and label in self.names:
            return self.names.index(label)
        if found is None and len(self._numbers(label)):
            index = self.index
            given = label if index.nlevels > 1 else (label,)
            wanted = need("pandas").MultiIndex.from_tuples([given], names=index.names)
            wanted = wanted if index.nlevels > 1 else wanted.get_level_values(0)
            east = longitudes(self.parts, self.coords.variables)
            place = int(find_labels(wanted, index, east)[0])
            found = place if place >= 0 else None
        if found is None:
            raise KeyError(self._unknown(label))
        return found

    def typed(self, label: Any) -> Any:
        """A label that was written as text, as the data have it: a number where labels are."""
        example = self.labels[0]
        if isinstance(example, tuple) and isinstance(label, tuple | list):
            return tuple(map(_typed, label, example))
        return _typed(label, example)

    def spread(self, values: AnyArray, fill: Any) -> AnyArray:
        """Values of the tasks, first axis, on the dimensions they came from; masked get a fill."""
        values = np.asarray(values)
        whole = np.full((int(np.prod(self.shape)), *values.shape[1:]), fill, dtype=values.dtype)
        whole[self.kept] = values
        return whole.reshape(*self.shape, *values.shape[1:])

    def gather(self, values: AnyArray) -> AnyArray:
        """The inverse of spread: the tasks of an array whose first axes are their dimensions."""
        values = np.asarray(values)
        flat = values.reshape(int(np.prod(self.shape)), *values.shape[len(self.shape) :])
        return np.asarray(flat[self.kept])

    @property
    def is_geographic(self) -> bool:
        """Whether positions are degrees of longitude and latitude."""
        return self.sides is not None and self.is_angle(self.sides[0])

    def is_angle(self, name: str) -> bool:
        """Whether a coordinate holds degrees or radians on the globe, by its units or its name."""
        said = self.attrs(name)
        if str(said.get("units", "")).lower().startswith(ON_GLOBE):
            return True
        named = said.get("standard_name", name.lower()) in DEGREES or name.lower() in DEGREES
        return named and self.units(name) in ("", "degree", "radian")

    def units(self, name: str) -> str:
        """Units of a coordinate in one spelling; empty where nothing is said of them."""
        return str(spelled(str(self.attrs(name).get("units", ""))))

    def attrs(self, name: str) -> dict[str, Any]:
        """What is said of a coordinate; nothing where there is none of that name."""
        coordinate = self.coords.variables.get(name)
        return {} if coordinate is None else coordinate.attrs

    def numbers(self, name: str) -> FloatArray:
        """Values of a coordinate; radians in degrees."""
        values = np.asarray(self.coords.variables[name].values, dtype=np.float64)
        return np.degrees(values) if self.units(name) == "radian" else values

    def positions(self) -> FloatArray | None:
        """East and north of each task, ``(n_tasks, 2)``, from its coordinates; None without."""
        if self.sides is None:
            return None
        east, north = self.sides
        try:
            step = self.one_plane()
        except ValueError:
            return None
        sides = self._along(east), self._along(north)
        return np.column_stack([sides[0], sides[1] if step is None else step(sides[1])])

    def one_plane(self) -> Conversion | None:
        """How north comes to the units of east: kilometres and metres make no plane together."""
        if self.sides is None or self.is_geographic:
            return None
        east, north = self.sides
        given, wanted = (self.coords.variables[name].attrs for name in (north, east))
        return conversion(north, given, wanted, f"{east} is")

    @cached_property
    def sides(self) -> tuple[str, str] | None:
        """Coordinates that say how far east and north: degrees on the globe before a plane."""
        names = self.coords.variables
        sides: list[list[str]] = []
        for axis, usual in (("X", EAST), ("Y", NORTH)):
            found = [n for n, c in names.items() if axis_of(n, c) == axis and c.dtype.kind in "iuf"]
            first = [n for one in usual for n in found if n.lower() == one]
            sides.append(list(dict.fromkeys([*first, *found])))
        pairs = [(east, north) for east in sides[0] for north in sides[1]]
        return next(iter(sorted(pairs, key=lambda p: -sum(map(self.is_angle, p)))), None)

    def _along(self, name: str) -> FloatArray:
        """A coordinate at every task."""
        places = dict(zip(self.dims, self.places, strict=True))
        dims = self.coords.variables[name].dims
        found = self.numbers(name)[tuple(places[dim] for dim in dims)]
        return np.broadcast_to(found, (self.n_tasks,))  # one value may be that of all tasks

    @cached_property
    def _positions(self) -> dict[Any, int]:
        return {_plain(label): number for number, label in enumerate(self.labels)}

    def _numbers(self, label: Any) -> FloatArray:
        """Labels as numbers, ``(n_tasks, parts)``; empty where this one is not like them."""
        try:
            known = np.array(self.labels, dtype=np.float64).reshape(self.n_tasks, -1)
            shape = np.atleast_1d(np.asarray(label, dtype=np.float64)).shape
        except (TypeError, ValueError):
            return np.zeros((0, 1))
        return known if shape == known.shape[1:] else np.zeros((0, 1))

    def _unknown(self, label: Any) -> str:
        some = listed(self.names[:3])
        where = " and ".join(self.parts)
        near, known = "", self._numbers(label)
        if known.shape[1] == 2:  # the place nearest to two numbers
            off = np.abs(known - np.asarray(label, dtype=np.float64))
            off = np.minimum(off, np.abs(360.0 - off)) if self.is_geographic else off
            near = visible(self.names[int(np.argmin((off**2).sum(axis=1)))])
        return (
            f"there is no {self.what} {label!r} among the {self.n_tasks:,} that were fitted "
            f"({some}{', ...' if self.n_tasks > 3 else ''}): give a value of {where}"
            f"{', or one that is not masked' if self.n_masked else ''}"
            f"{f'; the nearest is {near}' if near else ''}."
        )


def _degrees(word: str, sides: str) -> str:
    """A number of degrees by its side of the equator or of Greenwich."""
    word = "0" if abs(float(word)) < ZERO else word
    beyond = word.startswith("-")
    return f"{word.removeprefix('-')}°{sides[beyond]}"


def _typed(label: Any, like: Any) -> Any:
    kind = type(like.item() if hasattr(like, "item") else like)
    if not isinstance(label, str) or kind not in (int, float):
        return label
    try:
        return kind(label)
    except ValueError:
        return label  # refused by who knows the labels, in a sentence


def _plain(label: Any) -> Any:
    """A label that compares with what people type."""
    if isinstance(label, tuple):
        return tuple(map(_plain, label))
    return label.item() if isinstance(label, np.generic) else label
