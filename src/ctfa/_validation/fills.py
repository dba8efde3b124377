"""Numbers that stand for missing values and are not declared as such: -9999 and its like."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ctfa.core.types import BoolArray, FloatArray

#: Numbers that files write for a missing value, the defaults of NetCDF and GRIB among them.
FILLS = (
    -9999.0, -999.0, -99999.0, -9999.9, -999.9, -99.9, -32768.0, -32767.0, -2147483648.0, -1e34,
    -1e30, 1e20, 1e30, 1e36, 9.969209968386869e36,
)  # fmt: skip
#: A fill is far out: this many times the usual distance from the middle.
FAR_OUT = 20.0
#: Single precision rounds a fill by less than this share.
ROUNDED = 1e-6
#: Modules whose lines are not the user's.
INSIDE = ("ctfa.", "sklearn.", "joblib.")
#: What the sentence of ``warn_of_fills`` holds.
LOOKS_MISSING = ".*stands for a missing value in many files"


class Fill(NamedTuple):
    """A number that looks like a missing value, and where it is."""

    number: float
    where: BoolArray  # of the shape of the values

    @property
    def times(self) -> int:
        """How often it is there."""
        return int(self.where.sum())


def fills_in(values: FloatArray) -> Iterator[Fill]:
    """Known fills that lie far from all other values; the values themselves are left alone."""
    if not values.size:
        return
    low, high = np.fmin.reduce(values, axis=None), np.fmax.reduce(values, axis=None)
    # Few data reach as far as any of them: nothing is searched there.
    near = [f for f in FILLS if low - abs(f) * ROUNDED <= f <= high + abs(f) * ROUNDED]
    found = [Fill(f, np.isclose(values, f, rtol=ROUNDED, atol=0.0)) for f in near]
    found = [fill for fill in found if fill.where.any()]
    if not found:
        return
    others = ~np.logical_or.reduce([fill.where for fill in found])
    rest = values[np.isfinite(values) & others]
    middle = np.median(rest) if rest.size else 0.0
    usual = (np.median(np.abs(rest - middle)) if rest.size else 0.0) or abs(middle) or 1.0
    yield from (fill for fill in found if abs(fill.number - middle) >= FAR_OUT * usual)


def without_fills(values: FloatArray) -> FloatArray:
    """A copy with NaN for what looks like a missing value, for whoever only looks at data."""
    known = values
    for fill in fills_in(values):
        known = np.where(fill.where, np.nan, known)
    return known


def _level_of_caller() -> int:
    """How far up the first line is that is not ours, seen from whoever asks: X and y come deep."""
    frame, level = inspect.currentframe(), 0
    while frame is not None and frame.f_globals.get("__name__", "").startswith(INSIDE):
        frame, level = frame.f_back, level + 1
    return level


def warn_of_fills(values: FloatArray, what: str, names: Sequence[str] | None) -> None:
    """Say it where such a number comes more than once; nothing is changed.

    Without how often, which would be another sentence for every fold of the same data.
    """
    for fill in fills_in(values):
        if fill.times < 2:
            continue
        column = int(np.argmax(fill.where.any(axis=0)))
        first = str(column) if names is None else repr(str(names[column]))
        warnings.warn(
            f"{what} holds {fill.number:g} again and again, first in column {first} and far from "
            "all other values: it stands for a missing value in many files and is taken for a "
            "number here. Turn it into NaN, or drop those rows.",
            UserWarning,
            stacklevel=_level_of_caller(),
        )
