"""What is in a file: dimensions, variables, units, the period and its step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ctfa.core.types import AnyArray

#: Names that rows go by, in the order of preference.
SAMPLES = ("time", "date", "valid_time", "datetime", "timestamp", "sample", "year", "month", "day")
#: Steps of time by how many days they last.
STEPS = {
    "hour": (1 / 24, 1 / 24),
    "day": (1, 1),
    "week": (7, 7),
    "month": (28, 31),
    "year": (365, 366),
}


@dataclass(frozen=True)
class Variable:
    """One variable of a file, or one column of a table."""

    name: str
    dims: tuple[str, ...]
    kind: str  # "number", "text", "time", "flag"
    units: str = ""
    words: str = ""  # its long name

    @property
    def is_number(self) -> bool:
        """Whether it can be a target or a feature."""
        return self.kind == "number"


@dataclass(frozen=True)
class Contents:
    """What a file holds, as far as it can be said without knowing what it is for."""

    form: str  # "arrays" or "table"
    sizes: dict[str, int]
    variables: list[Variable]
    coordinates: list[Variable] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """Of the variables."""
        return [variable.name for variable in self.variables]

    def document(self) -> dict[str, Any]:
        """The same for JSON."""
        return {
            "form": self.form,
            "sizes": self.sizes,
            "variables": [vars(v) for v in self.variables],
            "coordinates": [vars(v) for v in self.coordinates],
        }


def contents_of(data: Any) -> Contents:
    """Look into an xarray object or a table."""
    if hasattr(data, "to_dataset") and not hasattr(data, "data_vars"):
        data = data.to_dataset(name=data.name if data.name is not None else "values")
    if hasattr(data, "data_vars"):
        return Contents(
            "arrays",
            {str(dim): int(size) for dim, size in data.sizes.items()},
            [_variable(name, array) for name, array in data.data_vars.items()],
            [_variable(name, array) for name, array in data.coords.items()],
        )
    columns = [
        Variable(str(name), ("row",), _kind(data[name].to_numpy()))
        for name in data.columns
        if str(name) != "geometry"
    ]
    return Contents("table", {"row": len(data)}, columns)


def _variable(name: Any, array: Any) -> Variable:
    attrs = array.attrs
    return Variable(
        str(name),
        tuple(map(str, array.dims)),
        _kind(array),
        str(attrs.get("units", "")),
        str(attrs.get("long_name", attrs.get("standard_name", ""))),
    )


def _kind(array: Any) -> str:
    kind = array.dtype.kind
    if kind == "O":
        first = np.asarray(array).ravel()[:1]
        # cftime: dates of calendars that numpy does not have.
        return "time" if first.size and hasattr(first[0], "calendar") else "text"
    return {"f": "number", "i": "number", "u": "number", "b": "flag", "M": "time", "m": "time"}.get(
        kind, "text"
    )


@dataclass(frozen=True)
class Period:
    """Times along the rows: from when to when, and how far apart."""

    first: str
    last: str
    n_times: int
    step: str  # "month", "day", "3 hours", "irregular"
    n_missing: int = 0  # steps left out between the first and the last
    first_missing: str = ""

    @property
    def words(self) -> str:
        """In words."""
        steps = f", by {self.step}" if self.step not in ("", "irregular") else ""
        return f"{self.first} to {self.last}{steps}, {self.n_times:,} in all"


def period_of(times: Any) -> Period | None:
    """Read the times of rows; None where they are not times."""
    values = np.asarray(times)
    if values.size == 0 or _kind(values) != "time" or values.dtype.kind == "m":
        return None
    if values.dtype.kind == "O":
        values = np.array([np.datetime64(str(v.isoformat())[:19]) for v in values])
    values = np.unique(values[~np.isnat(values)].astype("datetime64[s]"))
    if not values.size:
        return None
    first, last = _date(values[0]), _date(values[-1])
    if values.size < 3:
        return Period(first, last, values.size, "")
    return _stepped(values, first, last)


def _stepped(values: AnyArray, first: str, last: str) -> Period:
    days = np.diff(values) / np.timedelta64(1, "s") / 86400.0
    usual = float(np.median(days))
    for name, (low, high) in STEPS.items():
        if low * 0.999 <= usual <= high * 1.001:
            count = _months(values) if name == "month" else np.round(days / ((low + high) / 2))
            left = np.flatnonzero(count > 1)
            even = bool(np.all(count >= 1)) and (name in ("month", "year") or _whole(days, low))
            missing = _date(values[left[0]]) if left.size else ""
            n_missing = int(count[left].sum() - left.size)
            return Period(
                first, last, values.size, name if even else "irregular", n_missing, missing
            )
    times = np.round(days / usual)
    even = _whole(days, usual) and bool(np.all(times >= 1))
    words = f"{usual:g} days" if usual >= 1 else f"{usual * 24:g} hours"
    left = np.flatnonzero(times > 1)
    missing = _date(values[left[0]]) if left.size else ""
    n_missing = int(times[left].sum() - left.size)
    return Period(first, last, values.size, words if even else "irregular", n_missing, missing)


def _months(values: AnyArray) -> AnyArray:
    return np.diff(values.astype("datetime64[M]").astype(np.int64))


def _whole(days: AnyArray, step: float) -> bool:
    """Whether distances are whole steps."""
    return bool(np.all(np.abs(days / step - np.round(days / step)) < 1e-3))


def _date(value: Any) -> str:
    return str(value).removesuffix("T00:00:00")
