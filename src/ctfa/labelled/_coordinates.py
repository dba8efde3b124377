"""Coordinates of labelled data as plain arrays, and back exactly as they came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ctfa.core.types import AnyArray
from ctfa.labelled._extras import need


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
