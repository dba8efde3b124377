"""Words for labels, names and kinds of things."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ctfa._errors import Option
from ctfa._reading import BY_LEAST_SQUARES, BY_RIDGE
from ctfa._reading.sums import GATHERED
from ctfa._text import visible
from ctfa.core.types import FloatArray
from ctfa.report import HeldOut
from ctfa.report._words import plural

KINDS = {"M": "dates", "m": "spans of time", "U": "text", "T": "text", "S": "text", "O": "text"}

#: What options and groups of targets are called here, in errors that are written for both.
CALLED: dict[str, str | Option] = {
    "n_groups": "n_regions",
    "connectivity leaves": "neighbours leave",
    "targets": "tasks",
    "groups": "regions",
    "a group": "a region",
    BY_LEAST_SQUARES: Option("solver", "ols"),
    BY_RIDGE: Option("solver", "ridge"),
    GATHERED: "ds.load() before fit",
}


def word(label: Any) -> str:
    """A label for people: numbers without a tail of digits, dates without a time of zero."""
    if isinstance(label, np.float32 | np.float16):
        label = float(str(label))  # as short as its precision allows: 35.1 and not 35.09999847
    if isinstance(label, float | np.floating):
        return f"{label:.10g}"
    if isinstance(label, np.datetime64):
        return str(label).split(".", maxsplit=1)[0].removesuffix("T00:00:00")
    return str(label).removesuffix(" 00:00:00")


def row_labels(samples: Any) -> Any:
    """Labels of a coordinate, one by one; times with a zone as objects, numpy having none."""
    is_plain = isinstance(samples.dtype, np.dtype)
    return samples.values if is_plain else samples.to_index().to_numpy()


def is_cftime(times: Any) -> bool:
    """Whether these are dates of a calendar that numpy need not have."""
    is_object = times.dtype.kind == "O" and times.values.size > 0
    return is_object and hasattr(np.asarray(times.values).flat[0], "calendar")


def is_counted(index: Any) -> bool:
    """Whether labels say nothing: they have no name, and are 0, 1, 2, ..."""
    plain = index.nlevels == 1 and index.name is None and index.dtype.kind in "iu"
    return bool(plain and np.array_equal(index.to_numpy(), np.arange(len(index))))


def listed(things: Iterable[Any], at_most: int = 8) -> str:
    """The first of some things, and how many more there are."""
    words = [visible(word(thing)) for thing in things]
    more = f" and {len(words) - at_most:,} more" if len(words) > at_most else ""
    return ", ".join(words[:at_most]) + more


def hint(name: str, known: Sequence[str]) -> str:
    """What may have been meant."""
    close = difflib.get_close_matches(name, known, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def kind(dtype: Any) -> str:
    """What values of a type are, for people."""
    return KINDS.get(dtype.kind, f"values of type {dtype}")


def kind_of(thing: Any) -> str:
    """What was given, for people."""
    return "nothing" if thing is None else f"of type {type(thing).__name__}"


def error_columns(held_out: HeldOut) -> dict[str, FloatArray]:
    """Held-out errors, and skill, by names that columns and variables can have."""
    return named_errors(held_out.every) | held_out.skills


def named_errors(errors: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """Errors by method, by names that columns and variables can have."""
    return {
        f"{method.replace('-', '_').replace(' ', '_')}_error": found
        for method, found in errors.items()
    }


def several(count: int, what: str) -> str:
    """A count with its noun, in the plural where it is not one."""
    return f"{count:,} {plural(what, count)}"
