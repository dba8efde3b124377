"""Cells of a grid that lie side by side, round the globe where the grid goes round it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ctfa.core.types import AnyArray, FloatArray, IntArray
from ctfa.labelled._coordinates import LONGITUDES, in_one_piece, is_longitude
from ctfa.labelled._tasks import Tasks

#: Steps of a regular axis differ by less than this share: single precision and rounded files.
UNEVEN = 0.02
#: A gap of that many steps between cells that are listed is a gap in the map.
GAP = 1.5

#: To the right and below; for corners the two diagonals below as well.
_ROOK = ((0, 1), (1, 0))
_QUEEN = (*_ROOK, (1, 1), (1, -1))


class _Axis(NamedTuple):
    """Where each task lies along an axis, in steps; round it in so many, if it closes."""

    place: IntArray
    around: int | None


def grid_edges(tasks: Tasks, corners: bool) -> tuple[IntArray, IntArray] | None:
    """Pairs of cells with a common side, or a common corner too; None if this is no grid.

    A grid has two dimensions, or one whose labels have two levels (stacked cells). Cells without
    data are nobody's neighbours, and nothing is a neighbour across them.
    """
    axes = _axes(tasks)
    if axes is None:
        return None
    rows, columns = axes
    number = _numbering(rows, columns)
    own = number(rows.place, columns.place)
    order = np.argsort(own, kind="stable")
    known = own[order]
    first, second = [], []
    for down, right in _QUEEN if corners else _ROOK:
        other = number(rows.place + down, columns.place + right)
        at = np.minimum(np.searchsorted(known, other), known.size - 1)
        found = (known[at] == other) & (other >= 0)
        first.append(np.flatnonzero(found))
        second.append(order[at[found]])
    return np.concatenate(first), np.concatenate(second)


def _numbering(rows: _Axis, columns: _Axis):  # type: ignore[no-untyped-def]
    """One number for a place on two axes; negative outside."""
    height = rows.around or int(rows.place.max(initial=0)) + 1
    width = columns.around or int(columns.place.max(initial=0)) + 1

    def number(row: IntArray, column: IntArray) -> IntArray:
        row = row % height if rows.around else row
        column = column % width if columns.around else column
        inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
        return np.where(inside, row * width + column, -1)

    return number


def _axes(tasks: Tasks) -> tuple[_Axis, _Axis] | None:
    if tasks.is_grid:
        first, second = (
            _dense_axis(tasks, dim, place)
            for dim, place in zip(tasks.dims, tasks.places, strict=True)
        )
        return first, second
    levels = tasks.coords.levels.get(tasks.dims[0], ())
    if len(levels) != 2:
        return None
    axes = []
    for name in levels:
        values = tasks.coords.variables[name].values
        if values.dtype.kind not in "iuf":
            return None
        # Masked cells too: they say how wide the steps are.
        axis = _listed_axis(tasks.numbers(name), _is_longitude(tasks, name))
        axes.append(_Axis(axis.place[tasks.kept], axis.around))
    return axes[0], axes[1]


def _is_longitude(tasks: Tasks, name: str) -> bool:
    coordinate = tasks.coords.variables.get(name)
    attrs = {} if coordinate is None else coordinate.attrs
    return is_longitude(name, attrs) or (name.lower() in LONGITUDES and tasks.is_angle(name))


def _dense_axis(tasks: Tasks, dim: str, place: IntArray) -> _Axis:
    """Next to each other are neighbours in the order of the coordinate, however wide the steps."""
    coordinate = tasks.coords.variables.get(dim)
    if coordinate is None or coordinate.values.dtype.kind not in "iuf":
        return _Axis(place, None)
    values = tasks.numbers(dim)
    if not _is_longitude(tasks, dim):
        return _Axis(_ranks(values)[place], None)
    # A map of Africa may have longitudes 350, 355, 0, 5.
    values = in_one_piece(values)
    steps = np.diff(np.sort(values), append=values.min() + 360)
    closed = values.size > 2 and np.ptp(steps) <= UNEVEN * steps.mean()
    return _Axis(_ranks(values)[place], values.size if closed else None)


def _ranks(values: FloatArray) -> IntArray:
    ranks = np.empty(values.size, dtype=np.intp)
    ranks[np.argsort(values, kind="stable")] = np.arange(values.size)
    return ranks


def _listed_axis(values: AnyArray, goes_round: bool) -> _Axis:
    """Steps of cells that are listed one by one: whole rows and columns may be absent."""
    values = in_one_piece(values) if goes_round else values
    unique, place = np.unique(values, return_inverse=True)
    place = place.reshape(-1)
    gaps = np.diff(unique)
    if not gaps.size:
        return _Axis(place, None)
    # Not the least, which has the rounding of both its ends: over thousands of steps it would tell.
    step = float(gaps[gaps < GAP * gaps.min()].mean())
    steps = np.rint((unique - unique[0]) / step)
    off = np.abs((unique - unique[0]) / step - steps).max()
    if steps[-1] <= 100 * unique.size and off <= 0.25:
        # The whole length has the rounding of its ends once.
        step = (unique[-1] - unique[0]) / steps[-1]
        around = round(360 / step)
        # Closed whenever a turn is a whole number of steps: elsewhere no cell is there to meet.
        closes = goes_round and around > 2 and abs(360 / step - around) <= UNEVEN
        if closes and np.unique(steps % around).size == unique.size:
            return _Axis(steps.astype(np.intp)[place], around)
        return _Axis(steps.astype(np.intp)[place], None)
    # Uneven steps, as of a Gaussian grid: a place is left free where a gap is wide.
    ahead = np.where(gaps > GAP * np.median(gaps), 2, 1)
    return _Axis(np.concatenate([[0], np.cumsum(ahead)]).astype(np.intp)[place], None)
