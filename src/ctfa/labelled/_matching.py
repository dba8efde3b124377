"""Labels that mean the same, whatever a file has made of them; data put in their order."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from ctfa.core.libraries import need
from ctfa.core.types import FloatArray, IntArray
from ctfa.labelled._tasks import (
    NEAR,
    SINGLE,
    Coordinates,
    Tasks,
    axis_of,
    find_labels,
    is_longitude,
    longitudes,
)
from ctfa.labelled._units import on_units_of
from ctfa.labelled._words import listed, word

#: A whole number as text. One with leading zeros is a code and another label without them.
_WHOLE = re.compile(r"-?(0|[1-9]\d*)(\.0+)?")

#: How missing values of all libraries write themselves.
_MISSING = ("nan", "NaT", "<NA>")


def key(label: Any) -> Hashable:
    """What a label is compared by: 12, "12", "12.0" and 12.0 are the same, "012" is another.

    Identifiers change their type on the way through files: a column with a gap comes back as
    floats, one from a shapefile as text. None for a missing label.
    """
    if isinstance(label, tuple | list):
        return tuple(map(key, label))
    if isinstance(label, np.generic):
        label = label.item()
    if isinstance(label, str):
        text = label.strip()
        return int(text.partition(".")[0]) if _WHOLE.fullmatch(text) else text
    if label is None or str(label) in _MISSING:
        return None
    if isinstance(label, float):
        # Six digits after the point hold a degree to a decimetre.
        whole = math.isfinite(label) and label == int(label)
        return int(label) if whole else f"{label:.6f}"
    if isinstance(label, bool | int):
        return int(label)
    return str(label)


def keys(labels: Iterable[Any]) -> list[Hashable]:
    """The same for many."""
    return [key(label) for label in labels]


def keys_like(labels: Iterable[Any], tasks: Tasks) -> list[Hashable]:
    """Keys of labels that should be of these tasks, whatever a file has made of their numbers.

    Coordinates that differ from those of the tasks by rounding, or by a whole turn, are theirs.
    """
    labels, parts = list(labels), tasks.parts
    if len(parts) > 1 and not all(isinstance(x, tuple | list) for x in labels):
        return keys(labels)
    columns = [labels] if len(parts) == 1 else list(map(list, zip(*labels, strict=True)))
    if len(columns) != len(parts):
        return keys(labels)
    columns = [_as_coordinate(c, p, tasks) for c, p in zip(columns, parts, strict=True)]
    return keys(columns[0] if len(parts) == 1 else zip(*columns, strict=True))


def _as_coordinate(labels: list[Any], name: str, tasks: Tasks) -> list[Any]:
    """Numbers as a coordinate of the tasks has them; others, and what is no coordinate, as is."""
    coordinate = tasks.coords.variables.get(name)
    index = need("pandas").Index(labels)
    kinds = "" if coordinate is None else coordinate.values.dtype.kind + index.dtype.kind
    if coordinate is None or "f" not in kinds or not set(kinds) <= set("iuf"):
        return labels
    among = need("pandas").Index(np.unique(coordinate.values), name=name)
    found = find_labels(index, among, longitudes([name], tasks.coords.variables))
    return [labels[k] if at < 0 else among[at] for k, at in enumerate(found.tolist())]


def task_keys(tasks: Tasks) -> dict[Hashable, int]:
    """Number of each task by its key."""
    return {k: number for number, k in enumerate(keys(tasks.labels))}


def every_key(tasks: Tasks) -> set[Hashable]:
    """Keys of all tasks, masked ones too."""
    along = [keys(tasks.coords.index(dim)) for dim in tasks.dims]
    if len(along) == 1:
        return set(along[0])
    return {(first, second) for first in along[0] for second in along[1]}


def positions_of(wanted: Sequence[Hashable], among: Iterable[Hashable]) -> IntArray:
    """Where each wanted key is first found among others; -1 where it is not."""
    found: dict[Hashable, int] = {}
    for number, k in enumerate(among):
        found.setdefault(k, number)
    return np.array([found.get(k, -1) for k in wanted], dtype=np.intp)


def some(labels: Iterable[Any], how_many: int = 3) -> str:
    """The first few of many labels, for a sentence."""
    words = [str(x.item() if isinstance(x, np.generic) else x) for x in labels]
    return ", ".join(words[:how_many]) + (", ..." if len(words) > how_many else "")


def tasks_first(values: Any, tasks: Any, what: str) -> tuple[FloatArray, tuple[str, ...] | None]:
    """Numbers with tasks along the first axis, found by their labels, and the other dimensions.

    None where these have no names, as those of a plain array.
    """
    if not hasattr(values, "dims"):
        return np.asarray(in_order(values, tasks, what), dtype=np.float64), None
    values = called_alike(values, tasks.dims, tasks.coords.variables, [])
    missing = [dim for dim in tasks.dims if dim not in values.dims]
    if missing and len(missing) < len(tasks.dims):  # cosines of latitude, say, are of all cells
        values = values.expand_dims({dim: tasks.coords.index(dim) for dim in missing})
    elif missing:
        raise ValueError(f"{what} has no dimension {missing[0]!r}, on which the tasks lie.")
    others = tuple(dim for dim in values.dims if dim not in tasks.dims)
    ordered = on_tasks(values.rename(values.name or what), tasks.coords, tasks.dims)
    array = np.asarray(ordered.transpose(*tasks.dims, *others).values, dtype=np.float64)
    return tasks.gather(array), others


def in_order(values: Any, tasks: Any, what: str) -> Any:
    """Values of tasks in their order: by their labels, where these are given as in a series."""
    index: Any = getattr(values, "index", None)
    if not hasattr(values, "reindex") or type(index).__name__ == "RangeIndex":
        return values
    require_once(index, f"the index of {what}")
    wanted = tasks.index
    if index.nlevels == wanted.nlevels > 1 and set(index.names) == set(wanted.names):
        index = index.reorder_levels(wanted.names)
    places = find_labels(wanted, index, longitudes(wanted.names, tasks.coords.variables))
    lacking = np.flatnonzero(places < 0)
    if lacking.size:
        raise ValueError(
            f"{what} has no entry for {tasks.labels[lacking[0]]!r} (and {lacking.size - 1} more): "
            f"label each by its task, or pass an array in the order of the tasks."
        )
    return values.iloc[places]


def same_rows(
    target: Any, slots: list[Any], sample: str, notes: list[str]
) -> tuple[Any, list[Any]]:
    """The rows that all have."""
    xarray = need("xarray")
    arrays = [target, *slots]
    if any(sample not in array.indexes for array in arrays):
        lengths = {array.sizes[sample] for array in arrays}
        if len(lengths) > 1:
            raise ValueError(
                f"target and features have {listed(sorted(lengths))} rows along {sample!r}, which "
                "has no labels to match them by."
            )
        return target, slots
    if all(array.indexes[sample].equals(target.indexes[sample]) for array in slots):
        return target, slots
    others = [dim for array in arrays for dim in array.dims if dim != sample]
    aligned = xarray.align(*arrays, join="inner", exclude=set(others))
    n_common, n_rows = aligned[0].sizes[sample], target.sizes[sample]
    if not n_common:
        spans = "; ".join(
            f"{array.name} from {word(array.indexes[sample][0])} to "
            f"{word(array.indexes[sample][-1])}"
            for array in (target, slots[0])
        )
        raise ValueError(f"target and features have no {sample} in common: {spans}.")
    if n_common < n_rows:
        notes.append(f"{n_rows - n_common:,} of {n_rows:,} rows have no features and are left out")
    return aligned[0], list(aligned[1:])


#: What two series have one row of each, where they stamp it by other dates.
SPANS = {"year": ("year",), "month": ("year", "month"), "day": ("year", "month", "day")}


def dated_alike(slot: Any, target: Any, sample: str, notes: list[str]) -> Any:
    """A feature with the dates of the target, where both have one row per year, month or day.

    One product stamps a month by its first day, another by its middle.
    """
    mine, theirs = target.indexes.get(sample), slot.indexes.get(sample)
    if mine is None or theirs is None or theirs.equals(mine):
        return slot
    if not all(hasattr(index, "month") and len(index) > 1 for index in (mine, theirs)):
        return slot
    pandas = need("pandas")
    n_same = int(theirs.isin(mine).sum())
    for span, parts in SPANS.items():
        dates = [list(zip(*(getattr(i, p) for p in parts), strict=True)) for i in (mine, theirs)]
        asked, there = map(pandas.MultiIndex.from_tuples, dates)
        if asked.has_duplicates or there.has_duplicates:
            continue
        places = asked.get_indexer(there)
        found = places >= 0
        if found.sum() <= n_same:
            return slot
        notes.append(f"rows of {slot.name} have other dates, and are matched by {span}")
        slot = slot if found.all() else slot.isel({sample: found})
        return slot.assign_coords({sample: mine[places[found]]})
    return slot


def called_alike(array: Any, dims: Sequence[str], coords: Any, notes: list[str]) -> Any:
    """An array whose dimensions are called as those of the target, where their axes tell them.

    Labels tell that places are the same, so that a side without labels keeps its name.
    """
    lost = [dim for dim in dims if dim not in array.dims]
    others = [str(dim) for dim in array.dims if dim not in dims and dim in array.indexes]
    found: dict[str, str] = {}
    for axis in ("T", "X", "Y"):
        mine = [dim for dim in lost if axis_of(dim, coords.get(dim)) == axis]
        theirs = [dim for dim in others if axis_of(dim, array.coords[dim]) == axis]
        told = axis == "T" or mine[:1] == [dim for dim in mine if dim in coords]
        if len(mine) == len(theirs) == 1 and told and mine[0] not in array.coords:
            found[theirs[0]] = mine[0]
    notes += [
        note
        for note in (f"{theirs} of {array.name} is {mine}" for theirs, mine in found.items())
        if note not in notes
    ]
    return array.rename(found) if found else array


def require_once(index: Any, dim: str) -> None:
    """Refuse labels that come twice."""
    twice = index[index.duplicated()]
    if len(twice):
        raise ValueError(
            f"{dim} has {len(twice):,} value{'s' * (len(twice) > 1)} more than once, the first "
            f"{word(twice[0])}: every {dim} must come once. Drop or average the copies "
            f"(ds.groupby({dim!r}).mean(), or drop_duplicates({dim!r}))."
        )


def require_apart(index: Any, is_longitude: bool) -> None:
    """Refuse the same places twice, as files that were joined by unequal numbers leave them."""
    if index.nlevels > 1 or index.dtype.kind != "f" or len(index) < 3:
        return
    values = np.sort(np.asarray(index, dtype=np.float64))
    if not is_longitude and np.array_equal(values, np.rint(values)):
        return  # whole numbers are not rounded: identifiers
    gaps = np.diff(values)
    same = gaps <= SINGLE * np.abs(values[1:])
    pair: Any = None
    if same.any() and gaps.max() > gaps[same].max() / NEAR:
        first = int(np.argmax(same))
        pair = values[first : first + 2]
    elif is_longitude and (np.abs(values) <= 540.0).all():
        turned = np.sort(values % 360.0)
        again = turned[1:][np.diff(turned) <= SINGLE * 360.0]
        if again.size > 1:  # both ends of a map of the globe may be there
            off = np.abs((values - again[-1] + 180.0) % 360.0 - 180.0)
            pair = values[np.argsort(off, kind="stable")[:2]]
    if pair is not None:
        name = index.name
        raise ValueError(
            f"{name} holds {word(pair[0])} and {word(pair[1])}, which are the same place: files "
            f"were joined whose {name} differ by rounding or by a whole turn. Give one the {name} "
            f"of the other before joining them (b.assign_coords({name}=a.{name})), or give fit the "
            "arrays one by one."
        )


def on_tasks(slot: Any, target: Any, tasks: Sequence[str], *, some: bool = False) -> Any:
    """A feature on the tasks of the target, in their order; NaN for others, where ``some`` do."""
    for dim in tasks:
        if dim not in slot.dims:
            continue
        slot = on_units_of(slot, target, dim)
        mine = target.indexes.get(dim)
        places = places_along(slot, target, dim)
        if places is None:
            _require_same_places(slot, target, dim)
            continue
        missing = mine[places < 0]
        if len(missing) and not some:
            theirs = slot.indexes[dim]
            near = nearest_of(missing[0], theirs, _is_east(slot, dim))
            raise ValueError(
                f"{slot.name} lacks {len(missing):,} of {len(mine):,} values of {dim}, the first "
                f"{word(missing[0])} ({near}): the two must name the same."
            )
        # Labels of its own may differ by rounding, and would not be joined with those of others.
        own = [name for name, coord in slot.coords.items() if dim in coord.dims]
        slot = slot.isel({dim: places}).drop_vars(own)
        if len(missing):
            slot = slot.where(need("xarray").DataArray(places >= 0, dims=dim))
    return slot


def _is_east(slot: Any, dim: str) -> bool:
    return is_longitude(dim, slot.coords[dim].attrs)


def nearest_of(label: Any, index: Any, turned: bool = False) -> str:
    """What comes next to a number that is not there, which tells another grid from a typo."""
    if index.nlevels > 1 or index.dtype.kind != "f" or isinstance(label, str):
        return f"it has {word(index[0])}, ..."
    off = np.abs(np.asarray(index, dtype=np.float64) - float(label))
    off = np.minimum(off % 360.0, -off % 360.0) if turned else off
    near = index[int(np.nanargmin(off))]
    return f"the nearest it has is {word(near)}: more than rounding apart, so another grid"


def _require_same_places(slot: Any, target: Any, dim: str) -> None:
    """Refuse tasks without labels, matched by position, that lie somewhere else.

    Such are the cells of a curvilinear grid, whose longitudes and latitudes have two dimensions.
    """
    if dim in slot.indexes and dim in target.indexes:
        return
    for name, mine in target.coords.items():
        theirs = slot.coords.get(name)
        if name == dim or dim not in mine.dims or theirs is None or theirs.dims != mine.dims:
            continue
        if axis_of(name, mine) not in ("X", "Y"):
            continue
        one, other = (np.asarray(held.values, dtype=np.float64) for held in (mine, theirs))
        if one.shape != other.shape:
            continue
        turned = is_longitude(name, mine.attrs)
        apart = np.abs(one - other)
        apart = np.minimum(apart, np.abs(apart - 360.0)) if turned else apart
        steps = [np.abs(np.diff(one, axis=axis)) for axis in range(one.ndim)]
        near = NEAR * max(float(np.nanmax(s, initial=0.0)) for s in steps)
        if not np.nanmax(apart, initial=0.0) <= max(near, SINGLE * float(np.nanmax(np.abs(one)))):
            raise ValueError(
                f"{slot.name} lies elsewhere: {name} differs by up to {np.nanmax(apart):.4g} from "
                f"that of {getattr(target, 'name', None) or 'fit'} at the same place along "
                f"{dim!r}, which has no labels to match by. Bring both to one grid, in one order."
            )


def known_places(
    slots: Sequence[Any], target: Coordinates, tasks: Sequence[str]
) -> dict[str, IntArray]:
    """Positions along each dimension of the tasks that every feature has; none is an error.

    Where a feature has other tasks too it is of another place in part, which is said.
    """
    there = {dim: np.ones(size, dtype=bool) for dim, size in target.sizes.items()}
    for slot in slots:
        for dim in tasks:
            places = places_along(slot, target, dim)
            if places is None:
                continue
            found = places >= 0
            n_others = slot.sizes[dim] - int(found.sum())
            if not found.any():
                first = target.indexes[dim][0]
                near = nearest_of(first, slot.indexes[dim], _is_east(slot, dim))
                raise ValueError(
                    f"{slot.name} lacks all of the {found.size:,} values of {dim} that were fitted "
                    f"({word(first)}, ...; {near}): the two must name the same."
                )
            if n_others and not found.all() and slot is slots[0]:
                warnings.warn(
                    f"{slot.name} has {found.sum():,} of the {found.size:,} values of {dim} that "
                    f"were fitted, and {n_others:,} others, for which there is no model: predicted "
                    f"are the {found.sum():,}.",
                    UserWarning,
                    stacklevel=5,
                )
            there[dim] &= found
            if not there[dim].any():
                raise ValueError(
                    f"no {dim} is in all features: {slot.name} has none of those that the features "
                    f"before it have (it has {word(slot.indexes[dim][0])}, ...). Give all features "
                    "of the same places."
                )
    return {dim: np.flatnonzero(flags) for dim, flags in there.items()}


def places_along(slot: Any, target: Any, dim: str) -> IntArray | None:
    """Where a feature has each label of the target, -1 where not; None where they are the same."""
    theirs, mine = slot.indexes.get(dim), target.indexes.get(dim)
    if theirs is None or mine is None:
        if slot.sizes[dim] != target.sizes[dim]:
            raise ValueError(
                f"{slot.name} has {slot.sizes[dim]:,} values along {dim!r} and "
                f"{target.sizes[dim]:,} are needed."
            )
        return None
    if theirs.equals(mine):
        return None
    require_once(theirs, dim)
    return find_labels(mine, theirs, longitudes(mine.names, slot.coords, target.coords))
