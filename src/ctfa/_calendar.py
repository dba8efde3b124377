"""Times of rows: their parts of the calendar, and how far they are apart."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np

from ctfa.core.libraries import need
from ctfa.core.types import FloatArray, IntArray

#: Calendar parts that have a mean of their own each, and how many there are.
PARTS = {"month": 12, "season": 4, "hour": 24, "dayofyear": 366}
#: Pairs of waves that describe a year day by day: 366 means would be mostly noise.
WAVES = 3
#: Days of a year, and of one of a calendar that has no leap years, or nothing else.
YEAR, YEARS = 365.25, {"360_day": 360.0, "noleap": 365.0, "all_leap": 366.0}
#: Days from which on a step is one of months; below one day there are hours.
MONTHLY, HOURLY = 20.0, 0.9
#: Steps that differ by this factor are not the same.
OTHER_STEP = 1.5


def index_of(times: Any) -> Any:
    """Labels of rows as an index of pandas; dates where they are dates or periods in any form."""
    pandas = need("pandas")
    if isinstance(times, np.ndarray) and times.size and hasattr(times.flat[0], "calendar"):
        # Of cftime, of whose parts the index of xarray knows.
        times = need("xarray").DataArray(times, dims="time")
    index = times.to_index() if hasattr(times, "to_index") else times
    index = index if isinstance(index, pandas.Index) else pandas.Index(index)
    if hasattr(index, "to_timestamp"):
        return index.to_timestamp()
    if len(index) and isinstance(index[0], date):
        return pandas.DatetimeIndex(index.astype(object))
    return index


def part_of(index: Any, part: str) -> FloatArray:
    """Year, month, season, hour or day of the year of each row; an AttributeError without dates."""
    if part == "season":
        return np.asarray(index.month, dtype=np.float64) % 12 // 3 + 1
    if part == "dayofyear" and hasattr(index, "day_of_year"):  # pandas' own name
        part = "day_of_year"
    return np.asarray(getattr(index, part), dtype=np.float64)


def is_dated(index: Any) -> bool:
    """Whether labels are dates, of any calendar."""
    return hasattr(index, "month")


def days_of(index: Any) -> FloatArray:
    """Times as numbers: days since 1970 where they are dates, else as they are."""
    if index.dtype.kind in "iuf":
        return np.asarray(index, dtype=np.float64)
    if hasattr(index, "calendar"):
        values = index.to_numpy()
        start = {"year": 1970, "month": 1, "day": 1, "hour": 0, "minute": 0, "second": 0}
        origin = values[0].replace(microsecond=0, **start)
        days = np.array([(value - origin).total_seconds() / 86400.0 for value in values])
        return days * (YEAR / year_of(index))  # a model of one calendar is asked in another
    if not hasattr(index, "tz_localize"):
        raise TypeError(f"{index.dtype} values are neither numbers nor dates")
    values = index.tz_localize(None).to_numpy()
    return np.asarray(values.astype("datetime64[s]").astype(np.float64) / 86400.0)


def year_of(index: Any) -> float:
    """Days of a year of their calendar."""
    return YEARS.get(getattr(index, "calendar", ""), YEAR)


def step_of(days: FloatArray) -> float:
    """From one time to the next, the median; zero where there is one."""
    apart = np.unique(days[np.isfinite(days)])
    return float(np.median(np.diff(apart))) if apart.size > 1 else 0.0


def columns_of(index: Any, part: str) -> FloatArray:
    """Indicators of a calendar's parts, ``(n, parts)``; of the day of the year waves."""
    number = part_of(index, part)
    if part == "dayofyear":
        angle = 2.0 * np.pi * (number - 1.0) / year_of(index)
        waves = np.arange(1.0, WAVES + 1.0) * angle[:, None]
        # Pair by pair: cosine and sine of a wave, then of the next.
        pairs = np.stack((np.cos(waves), np.sin(waves)), axis=2)
        return np.asarray(pairs.reshape(len(number), 2 * WAVES))
    first = 0 if part == "hour" else 1
    return np.asarray((number[:, None] == first + np.arange(PARTS[part])) * 1.0)


def cycles_of(index: Any) -> list[str]:
    """Parts of the calendar whose means rows of these times can have: of two cycles at least."""
    days = days_of(index)
    step = step_of(days)
    if not is_dated(index) or step == 0.0 or not np.isfinite(days).all():
        return []
    span, found = float(np.ptp(days)) + step, []
    if span >= 2.0 * YEAR - step and step < 0.4 * YEAR:
        found.append("month" if step >= MONTHLY else "dayofyear")
    if step < HOURLY and span >= 2.0 - step:
        found.append("hour")
    return found


def rows_before(days: FloatArray) -> IntArray | None:
    """The row one step before each, -1 where there is none; None where times come twice.

    A row that is more than one and a half steps back is not the one before.
    """
    order = np.argsort(days, kind="stable")
    apart = np.diff(days[order])
    if not np.isfinite(days).all() or days.size < 2 or not (apart > 0.0).all():
        return None
    near = apart <= OTHER_STEP * np.median(apart)
    before = np.full(days.size, -1, dtype=np.intp)
    before[order[1:]] = np.where(near, order[:-1], -1)
    return before


def step_words(index: Any) -> str:
    """One step of time, for people: "month", "8 days"; "row" where rows have no dates."""
    step = step_of(days_of(index))
    if not is_dated(index) or step == 0.0:
        return "row"
    for name, days in (("year", YEAR), ("season", 91.3), ("month", 30.4), ("week", 7.0)):
        if abs(step / days - 1.0) < 0.1:
            return name
    for name, days in (("day", 1.0), ("hour", 1.0 / 24.0), ("minute", 1.0 / 1440.0)):
        if step >= 0.99 * days:
            count = round(step / days)
            return name if count == 1 else f"{count} {name}s"
    return "row"
