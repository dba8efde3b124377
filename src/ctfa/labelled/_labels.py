"""Labels that mean the same, whatever a file has made of them; data in their order, and parts."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from ctfa.core.libraries import need
from ctfa.core.types import BoolArray, FloatArray, IntArray
from ctfa.labelled._tasks import (
    NEAR,
    SINGLE,
    LabelledTasks,
    axis_of,
    find_labels,
    is_longitude,
    longitudes,
)
from ctfa.labelled._units import on_units_of
from ctfa.labelled._words import hint, is_cftime, listed, word

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


def which_tasks(labels: Iterable[Any], tasks: LabelledTasks) -> IntArray:
    """Number of the task that each label means; -1 for those of none, -2 for those of a masked one.

    Coordinates that differ from those of the tasks by rounding, or by a whole turn, are theirs.
    """
    labels, parts = list(labels), tasks.parts
    if len(parts) == 1:
        labels = _as_coordinate(labels, parts[0], tasks)
    elif labels and all(isinstance(x, tuple | list) and len(x) == len(parts) for x in labels):
        sides = [_as_coordinate([x[k] for x in labels], p, tasks) for k, p in enumerate(parts)]
        labels = list(zip(*sides, strict=True))
    known = _numbers_by_key(tasks)
    return np.array([known.get(key(label), -1) for label in labels], dtype=np.intp)


@lru_cache(maxsize=1)  # every column of a map is looked through for the same tasks
def _numbers_by_key(tasks: LabelledTasks) -> dict[Hashable, int]:
    along = [list(map(key, tasks.coords.index(dim))) for dim in tasks.dims]
    numbers = np.full(int(np.prod(tasks.shape)), -2)
    numbers[tasks.kept] = np.arange(tasks.n_tasks)
    every: Iterable[Any] = along[0] if len(along) == 1 else product(*along)
    return dict(zip(every, numbers.tolist(), strict=True))


def rows_of_tasks(which: IntArray, tasks: LabelledTasks) -> IntArray:
    """Where each task is first found among labels, by ``which_tasks``; -1 where it is not."""
    rows = np.full(tasks.n_tasks, -1)
    found = np.flatnonzero(which >= 0)[::-1]
    rows[which[found]] = found
    return rows


def _as_coordinate(labels: list[Any], name: str, tasks: LabelledTasks) -> list[Any]:
    """Numbers as a coordinate of the tasks has them; anything else as it is."""
    coordinate = tasks.coords.variables.get(name)
    index = need("pandas").Index(labels)
    kinds = "" if coordinate is None else coordinate.values.dtype.kind + index.dtype.kind
    if coordinate is None or "f" not in kinds or not set(kinds) <= set("iuf"):
        return labels
    among = need("pandas").Index(np.unique(coordinate.values), name=name)
    found = find_labels(index, among, longitudes([name], tasks.coords.variables))
    return [labels[k] if at < 0 else among[at] for k, at in enumerate(found.tolist())]


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


def on_tasks(
    slot: Any, target: Any, tasks: Sequence[str], there: dict[str, BoolArray] | None = None
) -> Any:
    """A feature on the tasks of the target, in their order.

    Tasks that it lacks are an error; but not where ``there`` tells which labels the features before
    it have: it has NaN at others, and the labels that it lacks are taken out of ``there``.
    """
    for dim in tasks:
        slot = on_units_of(slot, target, dim) if dim in slot.dims else slot
        places = places_along(slot, target, dim)
        if places is None:
            continue
        found, mine = places >= 0, target.indexes[dim]
        if there is not None:
            _require_known(slot, dim, mine, found, there)
        elif not found.all():
            missing = mine[~found]
            near = nearest_of(
                missing[0], slot.indexes[dim], is_longitude(dim, slot.coords[dim].attrs)
            )
            raise ValueError(
                f"{slot.name} lacks {len(missing):,} of {len(mine):,} values of {dim}, the first "
                f"{word(missing[0])} ({near}): the two must name the same."
            )
        # Labels of its own may differ by rounding, and would not be joined with those of others.
        own = [name for name, coord in slot.coords.items() if dim in coord.dims]
        slot = slot.isel({dim: places}).drop_vars(own)
        if not found.all():
            slot = slot.where(need("xarray").DataArray(found, dims=dim))
    return slot


def _require_known(
    slot: Any, dim: str, mine: Any, found: BoolArray, there: dict[str, BoolArray]
) -> None:
    """Refuse a feature that has none of the labels of fit; say where it has others beside some."""
    n_others = slot.sizes[dim] - int(found.sum())
    if not found.any():
        near = nearest_of(mine[0], slot.indexes[dim], is_longitude(dim, slot.coords[dim].attrs))
        raise ValueError(
            f"{slot.name} lacks all of the {found.size:,} values of {dim} that were fitted "
            f"({word(mine[0])}, ...; {near}): the two must name the same."
        )
    if n_others and not found.all() and there[dim].all():
        warnings.warn(
            f"{slot.name} has {found.sum():,} of the {found.size:,} values of {dim} that were "
            f"fitted, and {n_others:,} others, for which there is no model: predicted are the "
            f"{found.sum():,}.",
            UserWarning,
            stacklevel=5,
        )
    there[dim] &= found
    if not there[dim].any():
        raise ValueError(
            f"no {dim} is in all features: {slot.name} has none of those that the features before "
            f"it have (it has {word(slot.indexes[dim][0])}, ...). Give all features of the same "
            "places."
        )


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


def places_along(slot: Any, target: Any, dim: str) -> IntArray | None:
    """Where a feature has each label of the target, -1 where not; None where they are the same."""
    theirs, mine = slot.indexes.get(dim), target.indexes.get(dim)
    if dim not in slot.dims:
        return None
    if theirs is None or mine is None:
        if slot.sizes[dim] != target.sizes[dim]:
            raise ValueError(
                f"{slot.name} has {slot.sizes[dim]:,} values along {dim!r} and "
                f"{target.sizes[dim]:,} are needed."
            )
        _require_same_places(slot, target, dim)
        return None
    if theirs.equals(mine):
        return None
    require_once(theirs, dim)
    return find_labels(mine, theirs, longitudes(mine.names, slot.coords, target.coords))


# -- Parts of data by their labels: one level, some members of an ensemble, a span of years


#: What stands between the ends of a range; a time of day has two digits after its colon.
_ENDS = re.compile(r":(?=\d{4}|-|$)")


def read_select(select: Any) -> dict[str, Any]:
    """What is asked for by name; refused where it is not that."""
    if select is None:
        return {}
    if not isinstance(select, Mapping) or not all(isinstance(name, str) for name in select):
        raise ValueError(
            f"select={select!r} does not say of what: give values by name, such as "
            "select={'level': 850, 'time': slice('2000', '2010')}."
        )
    return dict(select)


def selected(data: Any, select: Any, *, lenient: Sequence[str] = ()) -> Any:
    """Data at the labels asked for; a dimension of which one is chosen goes.

    Numbers are the nearest but for rounding, dates all that begin so, ranges include both ends.
    Names in ``lenient`` need not be there.
    """
    if not hasattr(data, "dims") and not hasattr(data, "columns"):
        return data  # a name of what lies in other data
    for name, wanted in read_select(select).items():
        if name in _names(data):
            data = (_of_arrays if hasattr(data, "dims") else _of_table)(data, name, wanted)
        elif name not in lenient:
            raise _unknown(data, name)
    return data


def lie_along(select: Any, among: Sequence[Any]) -> dict[str, tuple[str, ...]]:
    """Dimensions of each name that is selected by; one that none of the data has is an error."""
    found: dict[str, tuple[str, ...]] = {}
    for name in read_select(select):
        held = next((data for data in among if name in _names(data)), None)
        if held is None:
            raise _unknown(among[0], name)
        is_array = hasattr(held, "dims") and name in held.coords
        found[name] = tuple(map(str, held.coords[name].dims)) if is_array else (name,)
    return found


def to_repeat(
    select: Any, lying: Mapping[str, tuple[str, ...]], known: Sequence[str]
) -> tuple[tuple[str, str], ...]:
    """What was selected along other dimensions than those known, rows and tasks, as text."""
    others = {name: not dims or not set(dims) <= set(known) for name, dims in lying.items()}
    return tuple((name, _shown(x)) for name, x in read_select(select).items() if others[name])


def _names(data: Any) -> list[str]:
    if hasattr(data, "dims"):
        return list(map(str, dict.fromkeys([*data.dims, *data.coords])))
    return [str(name) for name in (*data.columns, *data.index.names) if name is not None]


def _unknown(data: Any, name: str) -> ValueError:
    known = _names(data)
    what = "dimension or coordinate" if hasattr(data, "dims") else "column"
    return ValueError(
        f"select names {name!r}{hint(name, known)}, which is not a {what} of the data: it has "
        f"{listed(known)}."
    )


def _of_arrays(data: Any, name: str, wanted: Any) -> Any:
    coordinate = data.coords.get(name)
    if coordinate is not None and coordinate.ndim > 1:
        raise ValueError(
            f"select names {name!r}, which lies along {listed(coordinate.dims)}: choose along a "
            "dimension, or a coordinate of one."
        )
    pandas = need("pandas")
    if coordinate is None:
        labels, dim = pandas.RangeIndex(data.sizes[name]), str(name)
    else:
        labels = pandas.Index(np.atleast_1d(coordinate.values))
        dim = str(coordinate.dims[0]) if coordinate.ndim else ""
    east = is_longitude(name, {} if coordinate is None else coordinate.attrs)
    places, is_one = _places(labels, wanted, name, east)
    if is_one and dim == name:
        return data.isel({dim: int(places[0])}, drop=True)
    return data.isel({dim: places}) if dim else data


def _of_table(data: Any, name: str, wanted: Any) -> Any:
    in_column = name in data.columns
    labels = data[name] if in_column else data.index.get_level_values(name)
    once, code = need("pandas").factorize(labels)[::-1]
    places, is_one = _places(need("pandas").Index(once), wanted, name, is_longitude(name, {}))
    kept = data[np.isin(code, places)]
    return kept.drop(columns=name) if is_one and in_column else kept


def _places(labels: Any, wanted: Any, name: str, east: bool) -> tuple[IntArray, bool]:
    """Where the labels asked for are, and whether it is one label."""
    several = isinstance(wanted, list | tuple | np.ndarray)
    if isinstance(wanted, str) and not (labels == wanted).any():
        several = "," in wanted
        wanted = wanted.split(",") if several else wanted
    parts = [_part(labels, one, name, east) for one in (wanted if several else [wanted])]
    places = np.unique(np.concatenate([places for places, _ in parts]))
    if not several and east:
        places = parts[0][0]  # a range across Greenwich goes on from west to east
    return places, parts[0][1] and not several


def _part(labels: Any, wanted: Any, name: str, east: bool) -> tuple[IntArray, bool]:
    ends = [wanted.start, wanted.stop] if isinstance(wanted, slice) else None
    numbers = labels.dtype.kind in "iuf"
    between = re.compile(":") if numbers else _ENDS
    exact = isinstance(wanted, str) and not numbers and (labels == wanted).any()
    if isinstance(wanted, str) and not exact and between.search(wanted):
        ends = [end or None for end in between.split(wanted, maxsplit=1)]
    dated = labels.dtype.kind == "M" or is_cftime(labels)
    if dated or (ends is not None and not numbers):
        ends = [wanted, wanted] if ends is None else ends
        low, high = map(_text, ends)  # those that begin with the last are among them
        texts = map(_text, labels)
        there = [low <= text and (not high or text[: len(high)] <= high) for text in texts]
        places = np.flatnonzero(there)
    elif ends is not None:
        places = _between(np.asarray(labels, dtype=np.float64), *ends, name=name, east=east)
    else:
        places = _found(labels, wanted, name, east)
    if not places.size:
        raise ValueError(
            f"{name}={_shown(wanted)} is selected, and {name} has {listed(labels, 6)}: choose "
            "among these."
        )
    return places, ends is None


def _found(labels: Any, wanted: Any, name: str, east: bool) -> IntArray:
    """Where a label is; a number need not be equal to the last digit."""
    pandas = need("pandas")
    if labels.dtype.kind in "iuf":
        asked = pandas.Index([_number(wanted, name)], name=name)
        once = labels.unique()
        place = int(find_labels(asked, once, {name} if east else ())[0])
        return np.flatnonzero(labels == once[place]) if place >= 0 else np.zeros(0, dtype=np.intp)
    return np.flatnonzero([key(label) == key(wanted) for label in labels])


def _between(values: Any, low: Any, high: Any, *, name: str, east: bool) -> IntArray:
    """Where numbers lie between two, in either order of the coordinate; eastward of longitudes."""
    low = -np.inf if low is None else _number(low, name)
    high = np.inf if high is None else _number(high, name)
    within = SINGLE * float(np.nanmax(np.abs(values), initial=1.0))
    if east and np.isfinite(high - low) and 0.0 <= high - low < 360.0:
        beyond = (values - low + within) % 360.0
        places = np.flatnonzero(beyond <= high - low + 2.0 * within)
        return places[np.argsort(beyond[places], kind="stable")]
    return np.flatnonzero((values >= low - within) & (values <= high + within))


def _text(label: Any) -> str:
    """Dates as they are written: 2000-01-31T12:00:00; nothing for an end that is open."""
    if label is None:
        return ""
    if isinstance(label, np.datetime64):
        return str(label.astype("datetime64[s]"))
    return label.isoformat() if hasattr(label, "isoformat") else str(label).replace(" ", "T")


def _number(value: Any, name: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name}={_shown(value)} is selected, and {name} holds numbers: give one of them."
        ) from None


def _shown(wanted: Any) -> str:
    if isinstance(wanted, slice):
        ends = ("" if end is None else _text(end) for end in (wanted.start, wanted.stop))
        return ":".join(ends)
    if isinstance(wanted, list | tuple | np.ndarray):
        return ",".join(map(_shown, wanted))
    return _text(wanted)
