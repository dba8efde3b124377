"""Seasons and trends that are taken off every series, learned on training rows only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ctfa import _validation as check
from ctfa._calendar import (
    HOURLY,
    MONTHLY,
    OTHER_STEP,
    PARTS,
    WAVES,
    YEAR,
    columns_of,
    days_of,
    index_of,
    part_of,
    step_of,
)
from ctfa._errors import InputError, Option
from ctfa.core.confounds import held_out_share
from ctfa.core.types import FloatArray, IntArray
from ctfa.estimators.zeros import CLIMATOLOGY, OF_TRAINING, Zeros
from ctfa.labelled._doubts import N_LOOKED_AT, spread_over
from ctfa.labelled._words import is_counted, kind, row_labels, word

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
#: What rows are called that are counted and nothing else: nobody has put them in order.
NO_ORDER = ("row", "sample", "index")
#: Rows that are looked at, and blocks of rows that are left out in turn.
N_ROWS, N_BLOCKS = 4000, 40
#: Blocks that are left out to say what has to be beaten.
N_FOLDS = 5


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
            raise InputError(
                Option("anomalies", anomalies),
                f" is not known: use one of {', '.join(PARTS)}, or None.",
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
        if self.anomalies is not None:
            parts.append(_of_dates(columns_of, samples, self.anomalies))
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
        return f"the {' and '.join(what)} {OF_TRAINING}"


def zeros_of(samples: Any, confounds: Seasons | None) -> Zeros:
    """What predicts these rows without features: by the season taken off, else by the calendar."""
    index = index_of(samples)
    if samples.name in NO_ORDER and is_counted(index.rename(None)):
        found = Zeros()
    else:
        found = Zeros.of(index, [word(value) for value in row_labels(samples)])
    if confounds is None:
        return found
    if confounds.anomalies is not None or found.columns is None:
        return found._replace(columns=None, climatology=confounds.reference)
    trend = confounds.columns(samples)
    words = found.climatology.removesuffix(OF_TRAINING) + f"and linear trend {OF_TRAINING}"
    columns = np.concatenate([found.columns, trend], axis=1)
    return found._replace(columns=columns, climatology=words)


class Explained(NamedTuple):
    """What explains a target without features, by name: in words, and the share of its variance."""

    words: dict[str, str]
    shares: dict[str, float]

    def of(self, target: str) -> str:
        """What they explain of a target, by name."""
        some = [name for name in self.words if self.shares[name] > 0.0]
        each = [f"{100 * self.shares[name]:.0f} % by {self.words[name]}" for name in some]
        none = [words for name, words in self.words.items() if name not in some]
        each += [f"nothing by {' or '.join(none)}"] if none else []
        share, by, words = each[0].partition(" by ")
        each[0] = f"{share} of the variance of {target} is explained{by}{words}"
        listed = each[0] if len(each) == 1 else f"{', '.join(each[:-1])} and {each[-1]}"
        return f"{listed} (five blocks of rows left out in turn)"


def explained(target: FloatArray, samples: Any, confounds: Seasons | None) -> Explained | None:
    """What climatology and persistence explain of some series, in five blocks as each is left out.

    None where rows have no order, and no part of a calendar.
    """
    some = check.without_fills(target[:, spread_over(target.shape[1], N_LOOKED_AT)])
    zeros = zeros_of(samples, confounds)
    if zeros.before is None or len(some) < 2 * N_FOLDS or not np.isfinite(some).any():
        return None
    columns = None if confounds is None else confounds.columns(samples)
    rows = np.arange(len(some))
    said: dict[str, FloatArray] = {}
    for block in np.array_split(rows, N_FOLDS):
        rest = np.setdiff1d(rows, block)
        for name, found in zeros.predict(some, rest, block, None, columns).items():
            said.setdefault(name, np.full(some.shape, np.nan))[block] = found
    whole = np.nanvar(some, axis=0)
    varies = whole > 0.0
    shares = {
        name: float(
            np.mean(1.0 - np.nanmean((some - found)[:, varies] ** 2, axis=0) / whole[varies])
        )
        for name, found in said.items()
        if varies.any()
    }
    words = {name: zeros.words[name] for name in shares if name != CLIMATOLOGY or len(shares) > 2}
    return Explained(words, shares) if words else None


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
    if step < HOURLY:
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
    return step_of(_numbers(samples))


def _part(samples: Any, part: str) -> FloatArray:
    """Month, season, hour or day of the year of each row."""
    return _of_dates(part_of, samples, part)


def _of_dates(ask: Callable[[Any, str], FloatArray], samples: Any, part: str) -> FloatArray:
    """What is asked of the dates of rows; refused where rows have none."""
    try:
        return ask(index_of(samples), part)
    except (AttributeError, TypeError) as error:
        raise InputError(
            Option("anomalies", part),
            f" need dates along {samples.name!r}, which holds {kind(samples.dtype)}: decode the "
            "times (xarray.decode_cf, pandas.to_datetime), or leave anomalies out.",
        ) from error


def _numbers(samples: Any) -> FloatArray:
    """Times as numbers: days since 1970 where they are dates, else as they are."""
    try:
        return days_of(index_of(samples))
    except TypeError as error:
        raise ValueError(
            f"detrend=True needs numbers or dates along {samples.name!r}, which holds "
            f"{samples.dtype} values."
        ) from error
