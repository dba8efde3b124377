"""Seasons and trends that are taken off every series, learned on training rows only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np

from ctfa.core.types import FloatArray
from ctfa.labelled._extras import need
from ctfa.labelled._words import row_labels

#: Calendar parts that have a mean of their own each, and how many there are.
PARTS = {"month": 12, "season": 4, "hour": 24, "dayofyear": 366}
#: Pairs of waves that describe a year day by day: 366 means would be mostly noise.
WAVES = 3
#: Days of a year, and of one of a calendar that has no leap years, or nothing else.
YEAR, YEARS = 365.25, {"360_day": 360.0, "noleap": 365.0, "all_leap": 366.0}


@dataclass(frozen=True)
class Seasons:
    """Which columns every series is first regressed on.

    The columns are known from the rows' times alone; their coefficients are found by whoever fits,
    on the rows it fits to.
    """

    anomalies: str | None = None
    detrend: bool = False
    origin: float = 0.0  # of the trend, in its own unit
    unit: float = 1.0

    @classmethod
    def of(cls, anomalies: Any, detrend: Any, samples: Any) -> Seasons | None:
        """Read what is asked for; None where nothing is."""
        if anomalies is not None and anomalies not in PARTS:
            raise ValueError(
                f"anomalies={anomalies!r} is not known: use one of {', '.join(PARTS)}, or None."
            )
        if not isinstance(detrend, bool):
            raise ValueError(f"detrend={detrend!r}: use True or False.")
        if anomalies is None and not detrend:
            return None
        if anomalies is not None:
            _part(samples, anomalies)  # says what is wrong with the times
        if not detrend:
            return cls(anomalies)
        time = _numbers(samples)
        return cls(anomalies, True, float(time.mean()), float(np.ptp(time)) or 1.0)

    def columns(self, samples: Any) -> FloatArray:
        """The columns at these rows, ``(n_rows, n_columns)``; samples is a coordinate."""
        parts: list[FloatArray] = []
        if self.anomalies == "dayofyear":
            angle = 2.0 * np.pi * (_part(samples, "dayofyear") - 1.0) / _year(samples)
            for wave in range(1, WAVES + 1):
                parts += [np.cos(wave * angle)[:, None], np.sin(wave * angle)[:, None]]
        elif self.anomalies is not None:
            number = _part(samples, self.anomalies)
            first = 0 if self.anomalies == "hour" else 1
            parts.append((number[:, None] == first + np.arange(PARTS[self.anomalies])) * 1.0)
        if self.detrend:
            parts.append(((_numbers(samples) - self.origin) / self.unit)[:, None])
        return np.concatenate(parts, axis=1)

    def words(self, sample: str) -> str:
        """What is done, for people."""
        what = []
        if self.anomalies == "dayofyear":
            what.append(f"a yearly cycle of {WAVES} waves")
        elif self.anomalies is not None:
            what.append(f"the mean of each {self.anomalies}")
        if self.detrend:
            what.append(f"a linear trend in {sample}")
        return f"taken off every series, learned on training rows only: {' and '.join(what)}"

    @property
    def reference(self) -> str:
        """What it predicts by itself, for people."""
        what = []
        if self.anomalies is not None:
            is_cycle = self.anomalies == "dayofyear"
            what.append("yearly cycle" if is_cycle else f"{self.anomalies} means")
        if self.detrend:
            what.append("linear trend")
        return f"the {' and '.join(what)} of the training rows"


def _part(samples: Any, part: str) -> FloatArray:
    """Month, season, hour or day of the year of each row."""
    name = part
    try:
        plain = isinstance(samples.dtype, np.dtype) and samples.dtype.kind == "M"
        if plain or _of_cftime(samples):
            dates = samples.dt
        else:  # of pandas and of Python, with or without a zone
            dates, name = _index(samples), {"dayofyear": "day_of_year"}.get(part, part)
        if part == "season":
            return np.asarray(dates.month, dtype=np.float64) % 12 // 3 + 1
        return np.asarray(getattr(dates, name), dtype=np.float64)
    except (AttributeError, TypeError) as error:
        raise ValueError(
            f"anomalies={part!r} need dates along {samples.name!r}, which holds "
            f"{samples.dtype} values: decode the times (xarray.decode_cf, pandas.to_datetime), or "
            "leave anomalies out."
        ) from error


def _numbers(samples: Any) -> FloatArray:
    """Times as numbers: days since 1970 where they are dates, else as they are."""
    values = np.asarray(row_labels(samples))
    if values.dtype.kind in "iuf":
        return values.astype(np.float64)
    if _of_cftime(samples):
        start = {"year": 1970, "month": 1, "day": 1, "hour": 0, "minute": 0, "second": 0}
        origin = values[0].replace(microsecond=0, **start)
        days = np.array([(value - origin).total_seconds() / 86400.0 for value in values])
        return days * (YEAR / _year(samples))  # a model of one calendar is asked in another
    if values.dtype.kind != "M":
        index = _index(samples)
        if not hasattr(index, "tz_localize"):
            raise ValueError(
                f"detrend=True needs numbers or dates along {samples.name!r}, which holds "
                f"{values.dtype} values."
            )
        values = index.tz_localize(None).to_numpy()
    return values.astype("datetime64[s]").astype(np.float64) / 86400.0


def _of_cftime(samples: Any) -> bool:
    """Whether these are dates of a calendar that numpy need not have."""
    is_object = samples.dtype.kind == "O" and samples.size > 0
    return is_object and hasattr(row_labels(samples)[0], "calendar")


def _year(samples: Any) -> float:
    """Days of a year of their calendar."""
    return YEARS.get(samples.dt.calendar, YEAR) if _of_cftime(samples) else YEAR


def _index(samples: Any) -> Any:
    """Labels of pandas; dates where they are dates or periods in another form."""
    index = samples.to_index()
    if hasattr(index, "to_timestamp"):
        return index.to_timestamp()
    if len(index) and isinstance(index[0], date):
        return need("pandas").DatetimeIndex(index.astype(object))
    return index
