"""Seasons and trends that are taken off every series, learned on training rows only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, NamedTuple

import numpy as np

from ctfa import _validation as check
from ctfa.core.confounds import held_out_share
from ctfa.core.libraries import need
from ctfa.core.types import FloatArray, IntArray
from ctfa.labelled._doubts import N_LOOKED_AT, spread_over
from ctfa.labelled._words import is_cftime, row_labels

#: Calendar parts that have a mean of their own each, and how many there are.
PARTS = {"month": 12, "season": 4, "hour": 24, "dayofyear": 366}
#: Pairs of waves that describe a year day by day: 366 means would be mostly noise.
WAVES = 3
#: Days of a year, and of one of a calendar that has no leap years, or nothing else.
YEAR, YEARS = 365.25, {"360_day": 360.0, "noleap": 365.0, "all_leap": 366.0}
#: What each of them is called where it explains something.
SAID = {
    "month": "calendar month", "dayofyear": "day of the year", "hour": "hour of the day",
}  # fmt: skip
#: Parts of a calendar by their numbers.
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
SEASONS = ("December to February", "March to May", "June to August", "September to November")
#: Steps that differ by this factor are not the same.
OTHER_STEP = 1.5
#: Days from which on a step is one of months; below one day there are hours.
MONTHLY = 20.0
#: Shares of the variance from which a season and a trend are worth a word. In so few cycles as
#: one over the share, series that only remember their last values would have one by chance.
SEASONAL, TRENDING = 0.05, 0.5
#: Share from which a feature is made of the calendar.
CALENDAR = 0.999
#: Variables that are named with their shares.
MOST_NAMED = 6
#: Days by which earlier versions counted more than we do, at least, where dates had a zone or came
#: from cftime: from the year 1, each calendar by itself, or from -4712.
COUNTED_MORE = 500_000.0
#: Rows that are looked at, and blocks of rows that are left out in turn.
N_ROWS, N_BLOCKS = 4000, 40


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
    seen: tuple[int, ...] = ()  # the calendar's parts that fit had rows of; empty where unknown
    step: float = 0.0  # days from one row of fit to the next, the median; zero where unknown

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
        known: dict[str, Any] = {}
        if anomalies is not None:
            _part(samples, anomalies)  # says what is wrong with the times
            parts = np.unique(_part(samples, _parted(anomalies)))
            known = {"seen": tuple(int(part) for part in parts), "step": _step(samples)}
        if not detrend:
            return cls(anomalies, **known)
        time = _numbers(samples)
        return cls(anomalies, True, float(time.mean()), float(np.ptp(time)) or 1.0, **known)

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
            time = _numbers(samples)
            self._require_same_count(samples, time)
            parts.append(((time - self.origin) / self.unit)[:, None])
        return np.concatenate(parts, axis=1)

    def doubts(self, samples: Any) -> Iterator[str]:
        """Why seasons of fit need not be those of these rows, a sentence each."""
        if self.anomalies is None:
            return
        if self.seen:
            name = _parted(self.anomalies)
            parts = _part(samples, name)
            unseen = ~np.isin(parts, self.seen)
            if unseen.any():
                yield check.unseen_seasons(
                    int(unseen.sum()), unseen.size, name, _called(name, np.unique(parts[unseen]))
                )
        step = _step(samples)
        if min(step, self.step) > 0.0:
            apart = max(step, self.step) / min(step, self.step)
            if apart > OTHER_STEP:
                yield check.other_step(step, self.step, self.taken_off)

    def _require_same_count(self, samples: Any, time: FloatArray) -> None:
        """Refuse a trend of a file whose days were counted from another day.

        Not converted: from which one is not in the file, and calendars had their own.
        """
        is_date = np.asarray(row_labels(samples)).dtype.kind not in "iuf"
        if is_date and time.size and np.nanmax(time) < self.origin - COUNTED_MORE:
            raise ValueError(
                f"the trend of this model is about a day {self.origin - np.nanmax(time):,.0f} days "
                f"after the last {samples.name} in the data: it was fitted by an earlier version, "
                "which counted days of a zone or of another calendar from another start. Fit it "
                "again."
            )

    def words(self, sample: str) -> str:
        """What is done, for people."""
        what = [] if self.anomalies is None else [self.taken_off]
        if self.detrend:
            what.append(f"a linear trend in {sample}")
        return f"taken off every series, learned on training rows only: {' and '.join(what)}"

    @property
    def taken_off(self) -> str:
        """The season that is taken off, for people."""
        is_cycle = self.anomalies == "dayofyear"
        return (
            f"a yearly cycle of {WAVES} waves" if is_cycle else f"the mean of each {self.anomalies}"
        )

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


class Untreated(NamedTuple):
    """A season or a trend that is in the data, and how much of each variable it explains."""

    option: str  # of fit
    value: Any
    shares: dict[str, float]
    target: str
    beside: bool = False  # whether it is a share of what the season leaves

    @property
    def in_target(self) -> bool:
        """Whether the target has it, and not features alone."""
        return self.target in self.shares

    @property
    def what(self) -> str:
        """What was seen, in words."""
        subject, blocks = "a straight line in time", "blocks of rows"
        if self.option == "anomalies":
            subject, blocks = f"the {SAID[self.value]}", "days" if self.value == "hour" else "years"
        left = " that the season leaves" if self.beside else ""
        return f"{subject} explains {self._named()}{left} (judged on {blocks} left out)"

    @property
    def do(self) -> str:
        """What to do about it, on the command line; features alone may keep what they have."""
        if not self.in_target:
            return f"nothing need be done: {self.target} has none to speak of"
        return f"take it off with {self.option_words}: {self._consequence}"

    @property
    def option_words(self) -> str:
        """The option that takes it off, on the command line."""
        return "--detrend" if self.option == "detrend" else f"--anomalies {self.value}"

    def __str__(self) -> str:
        given = f"{self.option}={self.value!r} ({self.option_words})"
        return f"{self.what}: {self._consequence}; take it off with {given}"

    @property
    def _consequence(self) -> str:
        name = "trend" if self.option == "detrend" else "season"
        return f"errors and gains speak of the {name} as long as it is in the data"

    def _named(self) -> str:
        first, *others = self.shares  # the target, where it is among them
        named = {first, *sorted(others, key=lambda name: -self.shares[name])[: MOST_NAMED - 1]}
        said = [f"{100 * s:.0f} % of {name}" for name, s in self.shares.items() if name in named]
        said[0] = said[0].replace(" % of ", " % of the variance of ", 1)
        if len(self.shares) > len(said):
            said.append(f"much of {len(self.shares) - len(said):,} more")
        return said[0] if len(said) == 1 else f"{', '.join(said[:-1])} and {said[-1]}"


def untreated(
    series: Mapping[str, FloatArray], samples: Any, *, anomalies: Any, detrend: Any
) -> Iterator[Untreated]:
    """Seasons and trends of variables ``(n_rows, n_series)`` that nobody has asked to take off.

    The first variable is the target. Judged in years (or days, or blocks) that their means were not
    taken from, so that noise has none, however few years there are.
    """
    # Some series of each, spread over all, without what looks like a missing value.
    some = {
        name: check.without_fills(values[:, spread_over(values.shape[1], N_LOOKED_AT)])
        for name, values in series.items()
    }
    cycles = _cycles(some, samples) if anomalies is None else ()
    found = max(cycles, key=lambda cycle: max(cycle.shares.values()), default=None)
    if found is not None:
        yield found
    part = anomalies if found is None else found.value
    columns = None if part is None else Seasons(part).columns(samples)
    if not detrend:
        yield from _trend(some, samples, columns)


def _cycles(series: Mapping[str, FloatArray], samples: Any) -> Iterator[Untreated]:
    """Cycles that rows of these times can have, and that the series do have."""
    try:
        year, days = _part(samples, "year"), _numbers(samples)
    except ValueError:  # rows without dates have no season
        return
    known = np.flatnonzero(np.isfinite(year) & np.isfinite(days))
    days, year = days[known], year[known]
    if days.size < 3:
        return
    step = float(np.median(np.diff(np.unique(days)))) if np.ptp(days) > 0.0 else YEAR
    cycles = {"month" if step >= MONTHLY else "dayofyear": (year, YEAR)}
    if step < 0.9:
        cycles["hour"] = (np.floor(days), 1.0)
    target = next(iter(series))
    for part, (number, length) in cycles.items():
        n_cycles = float(np.ptp(days) + step) / length
        if n_cycles < 2.0 - step / length or days.size < 1.5 * n_cycles:
            continue
        # Some rows of all years, or all rows of some days: neither leaves out a part of a cycle.
        thin = slice(None, None, -(-days.size // N_ROWS)) if length > 1.0 else slice(N_ROWS)
        rows = known[thin]
        columns = Seasons(part).columns(samples[rows])
        _, place = np.unique(number[thin], return_inverse=True)
        n_blocks = int(place.max()) + 1  # years or days; consecutive ones together where many
        blocks = place.reshape(-1) * min(n_blocks, N_BLOCKS) // n_blocks
        least = max(SEASONAL, 1.0 / n_cycles)
        shares = _shares(series, rows, columns, blocks)
        # A feature that is nothing but the calendar, such as a wave of the year, has no cycle.
        shares = {
            name: share
            for name, share in shares.items()
            if share >= least and (share < CALENDAR or name == target)
        }
        if shares:
            yield Untreated("anomalies", part, shares, target)


def _trend(
    series: Mapping[str, FloatArray], samples: Any, columns: FloatArray | None
) -> Iterator[Untreated]:
    """A straight line, of what the columns of a season leave."""
    try:
        time = _numbers(samples)
    except ValueError:
        return
    rows = np.flatnonzero(np.isfinite(time))[:: -(-time.size // N_ROWS)]
    if rows.size < 10 or not np.ptp(time[rows]):
        return
    line = ((time[rows] - time[rows].mean()) / np.ptp(time[rows]))[:, None]
    blocks = np.arange(rows.size) * 10 // rows.size
    beside = None if columns is None else columns[rows]
    found = _shares(series, rows, line, blocks, beside)
    shares = {name: share for name, share in found.items() if share >= TRENDING}
    if shares:
        yield Untreated("detrend", True, shares, next(iter(series)), columns is not None)


def _shares(
    series: Mapping[str, FloatArray],
    rows: IntArray,
    columns: FloatArray,
    blocks: IntArray,
    beside: FloatArray | None = None,
) -> dict[str, float]:
    """What columns explain of each variable, a mean over its series; nothing where nothing is."""
    found = {}
    for name, values in series.items():
        shares = held_out_share(values[rows], columns, blocks, beside)
        known = shares[np.isfinite(shares)]
        found[name] = float(np.maximum(known, 0.0).mean()) if known.size else 0.0
    return found


def _parted(anomalies: str) -> str:
    """The parts that fit must have rows of; a cycle is not known in months without any."""
    return "month" if anomalies == "dayofyear" else anomalies


def _called(name: str, parts: FloatArray) -> list[str]:
    """Parts of the calendar by their names."""
    known = {"month": MONTHS, "season": SEASONS}.get(name)
    return [f"{part:.0f}:00" if known is None else known[int(part) - 1] for part in parts]


def _step(samples: Any) -> float:
    """Days from one row to the next, the median; zero where there is one row."""
    days = np.unique(_numbers(samples))
    return float(np.median(np.diff(days))) if days.size > 1 else 0.0


def _part(samples: Any, part: str) -> FloatArray:
    """Month, season, hour or day of the year of each row."""
    try:
        dates = _index(samples)
        if part == "season":
            return np.asarray(dates.month, dtype=np.float64) % 12 // 3 + 1
        by_pandas = part == "dayofyear" and not is_cftime(samples)
        return np.asarray(getattr(dates, "day_of_year" if by_pandas else part), dtype=np.float64)
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
    if is_cftime(samples):
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


def _year(samples: Any) -> float:
    """Days of a year of their calendar."""
    return YEARS.get(samples.dt.calendar, YEAR) if is_cftime(samples) else YEAR


def _index(samples: Any) -> Any:
    """Labels of pandas; dates where they are dates or periods in another form."""
    index = samples.to_index()
    if hasattr(index, "to_timestamp"):
        return index.to_timestamp()
    if len(index) and isinstance(index[0], date):
        return need("pandas").DatetimeIndex(index.astype(object))
    return index
