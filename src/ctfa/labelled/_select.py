"""Parts of data by their labels: one level, some members of an ensemble, a span of years."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ctfa.core.libraries import need
from ctfa.core.types import BoolArray, IntArray
from ctfa.labelled._matching import key
from ctfa.labelled._tasks import SINGLE, find_labels, is_longitude
from ctfa.labelled._words import hint, is_cftime, listed

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
        if name not in lenient or name in _names(data):
            data = (_of_arrays if hasattr(data, "dims") else _of_table)(data, name, wanted)
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
    if name not in _names(data):
        raise _unknown(data, name)
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
    if not dim:
        return data
    if is_one and dim == name:
        return data.isel({dim: int(places[0])}, drop=True)
    return data.isel({dim: places})


def _of_table(data: Any, name: str, wanted: Any) -> Any:
    if getattr(data.columns, "nlevels", 1) > 1 and name not in data.index.names:
        raise ValueError(
            f"select names {name!r}, and the columns of this table are pairs (variable, task): "
            "select among its rows by the name of its index, or select before fit."
        )
    if name not in _names(data):
        raise _unknown(data, name)
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
        places = np.flatnonzero(_among_texts([_text(x) for x in labels], *map(_text, ends)))
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


def _among_texts(texts: list[str], low: str, high: str) -> BoolArray:
    """Which texts come between two, those that begin with the last among them."""
    return np.array([low <= text and (not high or text[: len(high)] <= high) for text in texts])


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
