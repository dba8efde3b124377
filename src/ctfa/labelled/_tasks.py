"""The tasks of labelled data: basins, stations or the cells of a grid, and where they lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ctfa._names import visible
from ctfa.core.libraries import need
from ctfa.core.types import AnyArray, FloatArray, IntArray
from ctfa.labelled._coordinates import (
    DEGREES,
    EAST,
    LONGITUDES,
    NORTH,
    Coordinates,
    is_longitude,
    tolerance,
)
from ctfa.labelled._units import Conversion, conversion, spelled
from ctfa.labelled._words import listed, word

#: How units begin that are degrees on the globe, whatever the name is.
ON_GLOBE = ("degrees_e", "degrees_n", "degree_e", "degree_n")
#: Degrees below this are none: what steps leave that were added up.
ZERO = 1e-9


@dataclass(frozen=True, eq=False)
class Tasks:
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
        along = [
            self.coords.index(dim)[place] for dim, place in zip(self.dims, self.places, strict=True)
        ]
        if len(along) == 1:
            return list(along[0])
        return list(zip(*along, strict=True))

    @property
    def index(self) -> Any:
        """The labels as a pandas index, of several levels for a grid."""
        pandas = need("pandas")
        if not self.is_grid:
            return self.coords.index(self.dims[0])[self.kept]
        sides = [self.coords.index(d)[p] for d, p in zip(self.dims, self.places, strict=True)]
        return pandas.MultiIndex.from_arrays(sides, names=self.dims)

    @cached_property
    def names(self) -> list[str]:
        """The same as words, one each."""
        sides = self.index
        sides = [sides.get_level_values(k) for k in range(sides.nlevels)]
        words = [[word(label) for label in side.to_numpy()] for side in sides]
        if len(words) == 1:
            return words[0]
        parts = self.parts
        in_degrees = all(self.units(part) in ("", "degree") for part in parts)
        is_east = [part.lower() in LONGITUDES for part in parts if part.lower() in DEGREES]
        if in_degrees and sorted(is_east) == [False, True] and len(parts) == 2:
            north = is_east.index(False)
            pairs = zip(words[north], words[1 - north], strict=True)
            return [" ".join(map(_degrees, pair, ("NS", "EW"))) for pair in pairs]
        return [
            ", ".join(f"{dim}={part}" for dim, part in zip(parts, label, strict=True))
            for label in zip(*words, strict=True)
        ]

    def position(self, label: Any) -> int:
        """Which task a label means; a task can be given by its name too."""
        known: dict[Any, int] = self._positions
        if isinstance(label, list):
            label = tuple(label)
        if isinstance(label, np.generic):
            label = label.item()
        try:
            if label in known:
                return known[label]
        except TypeError:
            pass  # not a label at all: refused below
        found = self._near(label)
        if found is None and isinstance(label, str):
            found = self._by_name.get(label)
        if found is None:
            raise KeyError(self._unknown(label))
        return found

    def at(self, places: Mapping[str, IntArray]) -> tuple[Tasks, IntArray]:
        """The tasks at some positions along each dimension, and which of all tasks they are."""
        flat = np.arange(int(np.prod(self.shape))).reshape(self.shape)
        flat = flat[np.ix_(*(places[dim] for dim in self.dims))].reshape(-1)
        number = np.full(int(np.prod(self.shape)), -1, dtype=np.intp)
        number[self.kept] = np.arange(self.n_tasks)
        kept = np.flatnonzero(number[flat] >= 0)
        return Tasks(self.dims, self.coords.at(places), kept), number[flat][kept]

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
        east = self._coordinate(EAST)
        return east is not None and self.is_angle(east)

    def is_angle(self, name: str) -> bool:
        """Whether a coordinate holds degrees or radians on the globe, by its units or its name."""
        coordinate = self.coords.variables.get(name)
        said = "" if coordinate is None else str(coordinate.attrs.get("units", ""))
        if said.lower().startswith(ON_GLOBE):
            return True
        return name.lower() in DEGREES and self.units(name) in ("", "degree", "radian")

    def units(self, name: str) -> str:
        """Units of a coordinate in one spelling; empty where nothing is said of them."""
        coordinate = self.coords.variables.get(name)
        return "" if coordinate is None else str(spelled(str(coordinate.attrs.get("units", ""))))

    def numbers(self, name: str) -> FloatArray:
        """Values of a coordinate; radians in degrees."""
        values = np.asarray(self.coords.variables[name].values, dtype=np.float64)
        return np.degrees(values) if self.units(name) == "radian" else values

    def positions(self) -> FloatArray | None:
        """East and north of each task, ``(n_tasks, 2)``, from its coordinates; None without."""
        east, north = self._coordinate(EAST), self._coordinate(NORTH)
        if east is None or north is None:
            return None
        try:
            step = self.one_plane()
        except ValueError:
            return None
        sides = self._along(east), self._along(north)
        return np.column_stack([sides[0], sides[1] if step is None else step(sides[1])])

    def one_plane(self) -> Conversion | None:
        """How north comes to the units of east: kilometres and metres make no plane together."""
        east, north = self._coordinate(EAST), self._coordinate(NORTH)
        if east is None or north is None or self.is_geographic:
            return None
        given, wanted = (self.coords.variables[name].attrs for name in (north, east))
        return conversion(north, given, wanted, f"{east} is")

    def _coordinate(self, names: tuple[str, ...]) -> str | None:
        """The coordinate with one of these names, whatever its case."""
        lower = {name.lower(): name for name in self.coords.variables}
        return next((lower[name] for name in names if name in lower), None)

    def _along(self, name: str) -> FloatArray:
        """A coordinate at every task."""
        places = dict(zip(self.dims, self.places, strict=True))
        dims = self.coords.variables[name].dims
        found = self.numbers(name)[tuple(places[dim] for dim in dims)]
        return np.broadcast_to(found, (self.n_tasks,))  # one value may be that of all tasks

    @cached_property
    def _positions(self) -> dict[Any, int]:
        return {_plain(label): number for number, label in enumerate(self.labels)}

    @cached_property
    def _by_name(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names)}

    def _near(self, label: Any) -> int | None:
        """A task whose numbers are these but for rounding, or for a whole turn east or west."""
        known, wanted = self._places(label)
        if known is None:
            return None
        near = np.ones(self.n_tasks, dtype=bool)
        for name, side, number in zip(self.parts, known.T, wanted, strict=True):
            coordinate = self.coords.variables.get(name)
            turned = coordinate is not None and is_longitude(name, coordinate.attrs)
            # Whole numbers have no rounding: the next one is another task.
            counted = coordinate is None or coordinate.values.dtype.kind in "iu"
            within = 0.0 if counted else tolerance(side, number[None], turned=turned)
            off = np.abs(side - number)
            near &= (off <= within) | (turned & (np.abs(off - 360.0) <= within))
        found = np.flatnonzero(near)
        return int(found[0]) if found.size == 1 else None

    def _places(self, label: Any) -> tuple[FloatArray | None, FloatArray]:
        """Labels as numbers, ``(n_tasks, parts)``, and those that are asked for; None for text."""
        try:
            wanted = np.atleast_1d(np.asarray(label, dtype=np.float64))
            known = np.array(self.labels, dtype=np.float64).reshape(self.n_tasks, -1)
        except (TypeError, ValueError):
            return None, np.zeros(0)
        return (known if wanted.shape == known.shape[1:] else None), wanted

    def _unknown(self, label: Any) -> str:
        some = listed(self.names[:3])
        where = " and ".join(self.parts)
        near = visible(self._nearest(label))
        return (
            f"there is no {self.what} {label!r} among the {self.n_tasks:,} that were fitted "
            f"({some}{', ...' if self.n_tasks > 3 else ''}): give a value of {where}"
            f"{', or one that is not masked' if self.n_masked else ''}"
            f"{f'; the nearest is {near}' if near else ''}."
        )

    def _nearest(self, label: Any) -> str:
        """What the place nearest to two numbers is called; empty for anything else."""
        known, wanted = self._places(label)
        if known is None or wanted.size != 2:
            return ""
        off = np.abs(known - wanted)
        if self.is_geographic:
            off = np.minimum(off, np.abs(360.0 - off))
        return self.names[int(np.argmin((off**2).sum(axis=1)))]


def _degrees(word: str, sides: str) -> str:
    """A number of degrees by its side of the equator or of Greenwich."""
    word = "0" if abs(float(word)) < ZERO else word
    beyond = word.startswith("-")
    return f"{word.removeprefix('-')}°{sides[beyond]}"


def _plain(label: Any) -> Any:
    """A label that compares with what people type."""
    if isinstance(label, tuple):
        return tuple(map(_plain, label))
    return label.item() if isinstance(label, np.generic) else label
