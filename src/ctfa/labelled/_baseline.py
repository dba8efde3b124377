"""Seasons and trends that are taken off every series, learned on training rows only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ctfa.core.types import FloatArray
from ctfa.labelled._words import row_labels

#: Calendar parts that have a mean of their own each, and how many there are.
PARTS = {"month": 12, "season": 4, "hour": 24, "dayofyear": 366}
#: Pairs of waves that describe a year day by day: 366 means would be mostly noise.
WAVES = 3


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
            angle = 2.0 * np.pi * (_part(samples, "dayofyear") - 1.0) / 365.25
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
    try:
        if isinstance(samples.dtype, np.dtype):
            dates = samples.dt
        else:  # times with a zone, which only pandas knows
            dates, part = samples.to_index(), {"dayofyear": "day_of_year"}.get(part, part)
        if part == "season":
            return np.asarray(dates.month, dtype=np.float64) % 12 // 3 + 1
        return np.asarray(getattr(dates, part), dtype=np.float64)
    except (AttributeError, TypeError) as error:
        raise ValueError(
            f"anomalies={part!r} need dates along {samples.name!r}, which holds "
            f"{samples.dtype} values: decode the times (xarray.decode_cf, pandas.to_datetime), or "
            "leave anomalies out."
        ) from error


def _numbers(samples: Any) -> FloatArray:
    """Times as numbers: days where they are dates, else as they are; refused where neither."""
    values = np.asarray(row_labels(samples))
    if values.dtype.kind == "M":
        return values.astype("datetime64[s]").astype(np.float64) / 86400.0
    if values.dtype.kind in "iuf":
        return values.astype(np.float64)
    if values.dtype.kind == "O" and values.size and hasattr(values[0], "toordinal"):
        return np.array([_days(value) for value in values])
    raise ValueError(
        f"detrend=True needs numbers or dates along {samples.name!r}, which holds {values.dtype} "
        "values."
    )


def _days(date: Any) -> float:
    """Days of a calendar that need not be ours."""
    return float(date.toordinal() + date.hour / 24.0)
