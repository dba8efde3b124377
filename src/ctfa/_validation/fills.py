"""Numbers that stand for missing values and are not declared as such: -9999 and its like."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ctfa._validation.numbers import column_name, warn
from ctfa.core.types import BoolArray, FloatArray

#: Numbers that files write for a missing value, the defaults of NetCDF and GRIB among them.
FILLS = (
    -9999.0, -999.0, -99999.0, -9999.9, -999.9, -99.9, -32768.0, -32767.0, -2147483648.0, -1e34,
    -1e30, 1e20, 1e30, 1e36, 9.969209968386869e36,
)  # fmt: skip
#: Numbers of nines and eights (six digits, which is what is printed), and the ends of whole
#: numbers: fills only where they come again and again, and nothing else comes near.
PERHAPS = tuple(sorted({
    *FILLS, 32767.0, 65535.0, 2147483647.0,
    *(sign * float(f"{digit * whole}.{digit * decimals}") for sign in (-1, 1) for digit in "89"
      for decimals in range(3) for whole in range(2, 7 - decimals)),
}))  # fmt: skip
#: No fill is nearer to zero.
SMALLEST_FILL = min(map(abs, PERHAPS))
#: How often, and which share of the values, such a number comes at least.
OFTEN, OFTEN_SHARE = 3, 0.0005
#: It lies beyond the others by so many times their range.
FAR_BEYOND = 2.0
#: A fill is far out: this many times the usual distance from the middle.
FAR_OUT = 20.0
#: Single precision rounds a fill by less than this share.
FILL_ROUNDING = 1e-6
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
    """Numbers that look like missing values; the values themselves are left alone.

    Known fills that lie far from the middle of all others; and numbers of nines or eights that
    come again and again, far beyond all others, or below zero where nothing else is.
    """
    if not values.size:
        return
    low, high = np.fmin.reduce(values, axis=None), np.fmax.reduce(values, axis=None)
    # Few data reach as far as any of them: nothing is searched there.
    if max(abs(low), abs(high)) < SMALLEST_FILL * (1.0 - FILL_ROUNDING):
        return
    near = [f for f in FILLS if low - abs(f) * FILL_ROUNDING <= f <= high + abs(f) * FILL_ROUNDING]
    found = [fill for fill in (_fill(values, f) for f in near) if fill.where.any()]
    if not found and _perhaps(low) is None and _perhaps(high) is None:
        return
    others = np.isfinite(values) & ~_any(found, values)
    rest = values[others]
    middle = np.median(rest) if rest.size else 0.0
    usual = (np.median(np.abs(rest - middle)) if rest.size else 0.0) or abs(middle) or 1.0
    found = [fill for fill in found if abs(fill.number - middle) >= FAR_OUT * usual]
    yield from found
    yield from _beyond(values, np.isfinite(values) & ~_any(found, values))


def _beyond(values: FloatArray, known: BoolArray) -> Iterator[Fill]:
    """Numbers at the ends of the ``known`` values, one after the other, that may be fills."""
    often = max(OFTEN, OFTEN_SHARE * known.sum())
    ends: list[Fill] = []
    while known.any():
        rest = values[known]
        numbers = {_perhaps(rest.min()), _perhaps(rest.max())} - {None}
        new = [fill for fill in (_fill(values, f) for f in numbers if f) if fill.times >= often]
        if not new:
            break
        ends += new
        known = known & ~_any(new, values)
    for end in ends:
        # Its own columns alone: one that holds nothing else is no series with gaps.
        mine = end.where.any(axis=0)
        rest = values[:, mine][known[:, mine]]
        if not rest.size:
            continue
        low, high = rest.min(), rest.max()
        gap = max(low - end.number, end.number - high)
        far = gap >= FAR_BEYOND * (high - low) or end.number < 0.0 <= low
        if far and np.unique(rest).size >= OFTEN:  # not one of two or three values of a code
            yield end


def _perhaps(number: float) -> float | None:
    """The number that may be a fill, as it is written; None for any other."""
    at = int(np.searchsorted(PERHAPS, number))
    near = min(PERHAPS[max(at - 1, 0) : at + 1], key=lambda fill: abs(number - fill))
    return near if abs(number - near) <= abs(near) * FILL_ROUNDING else None


def _fill(values: FloatArray, number: float) -> Fill:
    return Fill(number, np.isclose(values, number, rtol=FILL_ROUNDING, atol=0.0))


def _any(fills: list[Fill], values: FloatArray) -> BoolArray:
    """Where one of them is."""
    nowhere = np.zeros(values.shape, dtype=bool)
    return np.asarray(np.logical_or.reduce([nowhere, *(fill.where for fill in fills)]))


def without_fills(values: FloatArray) -> FloatArray:
    """A copy with NaN for what looks like a missing value, for whoever only looks at data."""
    known = values
    for fill in fills_in(values):
        known = np.where(fill.where, np.nan, known)
    return known


def warn_of_fills(values: FloatArray, what: str, names: Sequence[str] | None) -> None:
    """Say it where such a number comes more than once; nothing is changed.

    Without how often, which would be another sentence for every fold of the same data.
    """
    for fill in fills_in(values):
        if fill.times < 2:
            continue
        column = int(np.argmax(fill.where.any(axis=0)))
        warn(
            f"{what} holds {fill.number:g} again and again, first in column "
            f"{column_name(column, names)} and far from all other values: it stands for a missing "
            "value in many files and is taken for a number here. Turn it into NaN, or drop those "
            "rows.",
            UserWarning,
        )
