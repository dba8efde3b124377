"""The tasks of labelled data: basins, stations or the cells of a grid, and where they lie."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ctfa._names import visible
from ctfa.core.types import AnyArray, FloatArray, IntArray
from ctfa.labelled._coordinates import Coordinates
from ctfa.labelled._words import listed, word

#: Names by which coordinates say where something lies, east and north.
EAST = ("lon", "longitude", "long", "x", "easting", "rlon")
NORTH = ("lat", "latitude", "y", "northing", "rlat")
#: Those of them that are degrees on the globe.
DEGREES = ("lon", "longitude", "long", "lat", "latitude")
#: Numbers nearer than this share of themselves are the same label.
SAME = 1e-6


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

    @cached_property
    def names(self) -> list[str]:
        """The same as words, one each."""
        parts = self.coords.levels.get(self.dims[0], self.dims)
        if len(parts) == 1:
            return [word(label) for label in self.labels]
        kinds = [_side(part) for part in parts]
        if sorted(kinds) == ["east", "north"]:
            north = kinds.index("north")
            return [f"{_north(label[north])} {_east(label[1 - north])}" for label in self.labels]
        return [
            ", ".join(f"{dim}={word(part)}" for dim, part in zip(parts, label, strict=True))
            for label in self.labels
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
        return east is not None and east.lower() in DEGREES

    def positions(self) -> FloatArray | None:
        """East and north of each task, ``(n_tasks, 2)``, from its coordinates; None without."""
        east, north = self._coordinate(EAST), self._coordinate(NORTH)
        if east is None or north is None:
            return None
        return np.column_stack([self._along(east), self._along(north)]).astype(np.float64)

    def _coordinate(self, names: tuple[str, ...]) -> str | None:
        """The coordinate with one of these names, whatever its case."""
        lower = {name.lower(): name for name in self.coords.variables}
        return next((lower[name] for name in names if name in lower), None)

    def _along(self, name: str) -> AnyArray:
        """A coordinate at every task."""
        dims, values, _ = self.coords.variables[name]
        places = dict(zip(self.dims, self.places, strict=True))
        return np.asarray(values[tuple(places[dim] for dim in dims)])

    @cached_property
    def _positions(self) -> dict[Any, int]:
        return {_plain(label): number for number, label in enumerate(self.labels)}

    @cached_property
    def _by_name(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names)}

    def _near(self, label: Any) -> int | None:
        """A task whose numbers are these but for rounding."""
        if np.asarray(self.labels[:1]).dtype.kind in "iu":
            return None  # whole numbers have no rounding: the next one is another task
        try:
            wanted = np.atleast_1d(np.asarray(label, dtype=np.float64))
            known = np.array(self.labels, dtype=np.float64).reshape(self.n_tasks, -1)
        except (TypeError, ValueError):
            return None
        if wanted.shape != known.shape[1:]:
            return None
        off = np.abs(known - wanted).max(axis=1)
        best = int(np.argmin(off))
        near = off[best] <= SAME * max(1.0, float(np.abs(wanted).max()))
        return best if near else None

    def _unknown(self, label: Any) -> str:
        some = listed(self.names[:3])
        where = " and ".join(self.coords.levels.get(self.dims[0], self.dims))
        near = visible(self._nearest(label))
        return (
            f"there is no {self.what} {label!r} among the {self.n_tasks:,} that were fitted "
            f"({some}{', ...' if self.n_tasks > 3 else ''}): give a value of {where}"
            f"{', or one that is not masked' if self.n_masked else ''}"
            f"{f'; the nearest is {near}' if near else ''}."
        )

    def _nearest(self, label: Any) -> str:
        """What the place nearest to two numbers is called; empty for anything else."""
        try:
            wanted = np.asarray(label, dtype=np.float64)
            known = np.array(self.labels, dtype=np.float64)
        except (TypeError, ValueError):
            return ""
        if known.ndim != 2 or wanted.shape != known.shape[1:]:
            return ""
        return self.names[int(np.argmin(((known - wanted) ** 2).sum(axis=1)))]


def _side(name: str) -> str:
    """Which coordinate of the globe a name means."""
    if name.lower() not in DEGREES:
        return ""
    return "east" if name.lower() in EAST else "north"


def _north(latitude: Any) -> str:
    return f"{abs(float(latitude)):.10g}°{'S' if latitude < 0 else 'N'}"


def _east(longitude: Any) -> str:
    return f"{abs(float(longitude)):.10g}°{'W' if longitude < 0 else 'E'}"


def _plain(label: Any) -> Any:
    """A label that compares with what people type."""
    if isinstance(label, tuple):
        return tuple(map(_plain, label))
    return label.item() if isinstance(label, np.generic) else label
