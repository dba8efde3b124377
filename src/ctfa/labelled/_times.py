"""Times of rows: seasons and trends that are taken off, and the past as features."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from ctfa import _reading as check
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
from ctfa.core.lags import Lags, Window, read_lags, read_step
from ctfa.core.libraries import need
from ctfa.core.types import AnyArray, BoolArray, FloatArray, IntArray
from ctfa.estimators.features import FeatureAggregator, usual_limit
from ctfa.estimators.zeros import CLIMATOLOGY, OF_TRAINING, Zeros
from ctfa.labelled._doubts import N_LOOKED_AT, spread_over
from ctfa.labelled._reading import Gathered, Plan, Slot
from ctfa.labelled._words import hint, is_counted, kind, listed, row_labels, several, word
from ctfa.report._complete import BLOCKS, MANY

#: Steps of time by their seconds, the longest first.
STEPS = {"day": 86400, "hour": 3600, "minute": 60, "second": 1}
WEEK = 604800
#: Days of a month on average; days by which one may differ, and months of a calendar do.
MONTH, ONE_DIFFERS, ALL_DIFFER = 30.44, 3.0, 0.5
#: Parts of a step to which labels that are plain numbers are told apart.
FINE = 1_000_000


class TimeStep(NamedTuple):
    """The distance of one row to the next."""

    words: str  # "8 days", "week", "month"; "step" where labels are numbers, or there are none
    length: float  # in seconds, in months, or in the unit of the numbers

    @classmethod
    def of(cls, samples: Any, option: str) -> TimeStep:
        """Read it off the labels of the rows, a coordinate; refuse rows that have none."""
        if samples.size < 3:
            raise ValueError(
                f"{option} needs three rows or more, and {samples.name} has {samples.size}."
            )
        values = _labels(samples)
        if values.dtype.kind in "iuf":
            apart = np.diff(values.astype(np.float64))
            found = cls("step", float(np.median(apart)))
            steps = apart / found.length
            uneven = np.abs(steps - np.rint(steps)) > 1e-6
        elif not _dated(values):
            raise ValueError(
                f"{option} needs dates or numbers along {samples.name!r}, which holds "
                f"{values.dtype} values such as {word(values[0])}: a lag is a distance in time."
            )
        else:
            seconds, months = map(np.diff, clock(values)[:2])
            words, counts = step_in_words(seconds, months)
            uneven = seconds % _usual(seconds) != 0 if words == "irregular" else np.zeros(1, bool)
            steps = months if cls(words, 0.0).by_month else seconds
            found = cls(words, float(steps[np.argmin(counts)] / counts.min()))
        if uneven.any():
            at = int(np.argmax(uneven))
            raise ValueError(
                f"{option} needs rows at equal distance, and those of {samples.name} differ: "
                f"{word(values[at])} is followed by {word(values[at + 1])}. Bring the data to one "
                f"step first (ds.resample({samples.name}=...).mean())."
            )
        return found

    @property
    def by_month(self) -> bool:
        """Whether it is a number of months."""
        return self.words.split()[-1].rstrip("s") in ("month", "year")

    def places(self, wanted: Any, among: Any, lag: int) -> IntArray:
        """Where among the rows of one coordinate those of another were so many steps before.

        -1 where there is no such row: labels are compared, so that gaps in the calendar are gaps.
        """
        first, sides, unit = _labels(wanted)[0], [], round(self.length)
        for samples in (among, wanted):
            values = _labels(samples)
            if self.words == "step":
                if values.dtype.kind not in "iuf":
                    raise ValueError(
                        f"{samples.name} holds {values.dtype} values, in fit it held numbers: lags "
                        "are distances along it."
                    )
                unit = FINE
                sides.append(np.rint(values.astype(np.float64) / self.length * FINE).astype(int))
            elif not _dated(values):
                raise ValueError(
                    f"{samples.name} holds {values.dtype} values, in fit it held dates "
                    f"{self.words}s apart: lags are distances in time."
                )
            else:
                sides.append(clock(values, first)[self.by_month])
        there, asked = sides
        return np.asarray(need("pandas").Index(there).get_indexer(asked - lag * unit), np.intp)


def _labels(samples: Any) -> AnyArray:
    """Labels of rows, periods by their first day; rows are counted where they have none."""
    if samples.name not in samples.coords:
        return np.arange(samples.size)
    index = samples.to_index()
    if hasattr(index, "to_timestamp"):
        return np.asarray(index.to_timestamp().to_numpy())
    return np.asarray(row_labels(samples))


def _dated(values: AnyArray) -> bool:
    return values.dtype.kind == "M" or hasattr(values[0], "isoformat")


def clock(values: AnyArray, start: Any = None) -> tuple[IntArray, IntArray, BoolArray]:
    """Seconds and months of each time, in its own calendar and zone; and whether it is known.

    Of other calendars than numpy's seconds are counted from ``start``, the first time by default.
    """
    if hasattr(values[0], "calendar"):
        start = values[0] if start is None else start
        passed = np.array([round((value - start).total_seconds()) for value in values])
        months = np.array([12 * value.year + value.month for value in values])
        return passed, months, np.ones(values.size, dtype=bool)
    if values.dtype.kind == "O":
        values = np.array([value.isoformat()[:19] for value in values], dtype="datetime64[s]")
    seconds, numbers = (values.astype(f"datetime64[{unit}]").astype(np.int64) for unit in "sM")
    return seconds, numbers, ~np.isnat(values)


def step_in_words(seconds: IntArray, months: IntArray) -> tuple[str, IntArray]:
    """The usual distance of times, in words, and how many of it each distance is."""
    irregular = "irregular", np.ones(seconds.size, dtype=np.intp)
    if seconds.size < 2:
        return "", irregular[1]
    usual = _usual(months)
    around = np.abs(seconds / 86400 - MONTH * months) <= ONE_DIFFERS + ALL_DIFFER * months
    if usual and around.all() and not (months % usual).any():
        years, left = divmod(usual, 12)
        return _times(usual, "month") if left else _times(years, "year"), months // usual
    usual = _usual(seconds)
    if (seconds % usual).any():
        return irregular
    name = next(name for name, length in STEPS.items() if usual % length == 0)
    return "week" if usual == WEEK else _times(usual // STEPS[name], name), seconds // usual


def _usual(distances: IntArray) -> int:
    """The middle one, which is one of them."""
    return int(np.sort(distances)[(distances.size - 1) // 2])


def _times(count: int, name: str) -> str:
    return name if count == 1 else f"{count} {name}s"


# -- Seasons and trends that are taken off every series, learned on training rows only


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
#: Shares of the variance from which a season and a trend are reported. In so few cycles as
#: one over the share, series that only remember their last values would have one by chance.
SEASONAL, TRENDING = 0.05, 0.5
#: Share from which a feature is made of the calendar.
CALENDAR = 0.999
#: Variables that are named with their shares.
MOST_NAMED = 6
#: Days by which earlier versions counted more than we do, at least, where dates had a zone or came
#: from cftime: from the year 1, each calendar by itself, or from -4712.
COUNTED_MORE = 500_000.0
#: Names of rows that are only counted: they do not have an order.
NO_ORDER = ("row", "sample", "index")
#: Rows that are looked at, and blocks of rows that are left out in turn.
N_ROWS, N_BLOCKS = 4000, 40
#: Blocks that are left out to say what has to be beaten.
N_FOLDS = 5


@dataclass(frozen=True)
class Seasons:
    """Which columns every series is first regressed on.

    The columns are known from the rows' times alone; their coefficients are learned by each fit,
    on its own rows.
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
            parts = np.unique(_part(samples, cls(anomalies).parted)).astype(int)
            known = {"seen": tuple(parts.tolist()), "step": step_of(_numbers(samples))}
        if not detrend:
            return cls(anomalies, **known)
        time = _numbers(samples)
        return cls(anomalies, True, float(time.mean()), float(np.ptp(time)) or 1.0, **known)

    def columns(self, samples: Any) -> FloatArray:
        """The columns at these rows, ``(n_rows, n_columns)``; samples is a coordinate."""
        parts: list[FloatArray] = []
        if self.anomalies is not None:
            parts.append(_part(samples, self.anomalies, columns_of))
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
            parts = _part(samples, self.parted)
            unseen = ~np.isin(parts, self.seen)
            if unseen.any():
                known = {"month": MONTHS, "season": SEASONS}.get(self.parted)
                numbers = np.unique(parts[unseen]).astype(int).tolist()
                names = [f"{n}:00" if known is None else known[n - 1] for n in numbers]
                yield check.unseen_seasons(int(unseen.sum()), unseen.size, self.parted, names)
        step = step_of(_numbers(samples))
        if min(step, self.step) > 0.0 and max(step / self.step, self.step / step) > OTHER_STEP:
            yield check.other_step(step, self.step, self.taken_off)

    @property
    def parted(self) -> str:
        """The parts that fit must have rows of; a cycle is not known in months without any."""
        return "month" if self.anomalies == "dayofyear" else str(self.anomalies)

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
        return f"{_joined(each)} (five blocks of rows left out in turn)"


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
        first, *others = self.shares  # the target, where it is among them
        named = {first, *sorted(others, key=lambda name: -self.shares[name])[: MOST_NAMED - 1]}
        said = [f"{100 * s:.0f} % of {name}" for name, s in self.shares.items() if name in named]
        said[0] = said[0].replace(" % of ", " % of the variance of ", 1)
        if len(self.shares) > len(said):
            said.append(f"much of {len(self.shares) - len(said):,} more")
        return f"{subject} explains {_joined(said)}{left} (judged on {blocks} left out)"

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
        return f"errors and gains include the {name} as long as it is in the data"


def _joined(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def untreated(
    series: Mapping[str, FloatArray], samples: Any, *, anomalies: Any, detrend: Any
) -> Iterator[Untreated]:
    """Seasons and trends of variables ``(n_rows, n_series)`` that were not asked to be taken off.

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


def _part(samples: Any, part: str, ask: Callable[[Any, str], FloatArray] = part_of) -> FloatArray:
    """Month, season, hour or day of the year of each row, or what is asked of the dates of rows."""
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


# -- The past of features, and of the target itself, as features; windows of time in Phase II


#: Ridge penalties where features have unit variance, to look at what a regression leaves.
PENALTIES = np.logspace(-1, 5, 13)


def with_past(gathered: Gathered, lags: Any, own_past: Any) -> Gathered:
    """Give every feature its lags, and the target those of its own, as features.

    Rows whose past is not in the data are left out; a past value that is missing is a gap.
    """
    plan, (target, features) = gathered.plan, gathered.before
    back = _by_name(lags, [slot.name for slot in plan.slots])
    sample, option = plan.sample, "own_past" if lags is None else "lags"
    step = TimeStep.of(target[sample], option)
    slots: list[Slot] = []
    for slot in plan.slots:
        slots += _lagged(slot, back[slot.name], step) if slot.name in back else [slot]
    if own_past is not None:
        itself = Slot(plan.target, plan.target_attrs, False)
        slots += _lagged(itself, read_lags(own_past, "own_past", 1), step)
    held = {slot.name: array for slot, array in zip(plan.slots, features, strict=True)}
    held[plan.target] = target
    at = np.array([step.places(target[sample], held[s.read][sample], s.lag) for s in slots])
    rows = np.flatnonzero((at >= 0).all(axis=0))
    longest = max(slot.lag for slot in slots)
    if not rows.size:
        raise ValueError(
            f"no row has its whole past of {several(longest, 'step')} in the "
            f"data ({target.sizes[sample]:,} rows): take shorter lags."
        )
    notes = list(gathered.notes)
    n_lost = target.sizes[sample] - rows.size
    if n_lost:
        count, unit = read_step(step.words)
        far = several(count * longest, unit)
        notes.append(
            f"{several(n_lost, 'row')} whose past of up to {far} is not in the data, left out"
        )
    kept = target.isel({sample: rows})
    found = [_taken(held[s.read], at[k, rows], s, kept, sample) for k, s in enumerate(slots)]
    past = replace(plan, slots=tuple(slots), step=(step.words, step.length))
    return gathered._replace(target=kept, features=found, plan=past, notes=notes, whole=None)


def past_of(given: Mapping[str, Any], plan: Plan) -> list[Any]:
    """The features of a fitted model from series in other data, by name; NaN without their past."""
    assert plan.step is not None
    step, sample = TimeStep(*plan.step), plan.sample
    first = next(slot for slot in plan.slots if slot.read != plan.target)
    rows = given[first.read]
    at = np.array([step.places(rows[sample], given[s.read][sample], s.lag) for s in plan.slots])
    lost = (at < 0).any(axis=0)
    if lost.any():
        far = plan.slots[int(np.argmax([s.lag for s in plan.slots]))]
        back = far.name.removeprefix(f"{far.read}, ")
        whose = f"the past of {several(int(lost.sum()), 'row')} of {lost.size:,} is"
        said = (
            f"{whose} not in the data, which must reach back to {far.read} {back} every row that "
            f"is to be predicted, without gaps in {sample}"
        )
        if lost.all():
            raise ValueError(f"nothing can be predicted: {said}.")
        warnings.warn(f"{said}: their predictions are NaN.", UserWarning, stacklevel=4)
    return [_taken(given[s.read], at[k], s, rows, sample) for k, s in enumerate(plan.slots)]


def windows_in(
    features: Any, plan: Plan, seen: Mapping[str, FloatArray], columns: FloatArray | None
) -> Any:
    """Phase II for lagged features: asked for by them, in a chain, with a limit for series."""
    chain = Lags([slot.name for slot in plan.slots]).chain()
    if isinstance(features, FeatureAggregator):
        given = clone(features)
        return given if given.connectivity is not None else given.set_params(connectivity=chain)
    if not (features is None or features is True):
        return features or "passthrough"
    limit = limit_for_series(plan, seen, columns)
    return FeatureAggregator(connectivity=chain, min_correlation=-1.0, max_loss=limit)


def apart_from_past(splits: Any, gap: int, n_tasks: int) -> Any:
    """Blocks of rows with as many left out beside them as the past reaches back to.

    A row after a block would bring the block's targets into the training rows as inputs.
    """
    if splits == "auto" and n_tasks <= MANY:
        splits = BLOCKS
    is_count = isinstance(splits, int) and not isinstance(splits, bool) and splits > 1
    return check.BlockedKFold(splits, gap=gap) if is_count else splits


def limit_for_series(
    plan: Plan, seen: Mapping[str, FloatArray], columns: FloatArray | None = None
) -> float:
    """Up to which F neighbouring lags are joined, for rows that depend on each other.

    The greater of the Bayesian criterion's ``log n`` and ``2 log D``, which the largest of D
    statistics comes to by chance, times what memory inflates F by: ``1 + 2 sum r_e(k) r_x(k)`` of
    the autocorrelations of what a ridge regression leaves and of its features.
    """
    target = seen[plan.target]
    memories, sizes = [], []
    for task in range(target.shape[1]):
        X = np.column_stack(
            [seen[s.name][:, min(task, seen[s.name].shape[1] - 1)] for s in plan.slots]
        )
        whole = np.isfinite(X).all(axis=1) & np.isfinite(target[:, task])
        if whole.sum() > 10:
            beside = None if columns is None else columns[: len(whole)][whole]
            memories.append(_memory(X[whole], target[whole, task], beside))
            sizes.append(int(whole.sum()))
    if not sizes:
        return usual_limit(len(target))
    memory = max(float(np.mean(memories)), 1.0)
    usual = usual_limit(int(np.median(sizes)))
    return memory * max(usual, 2.0 * float(np.log(len(plan.slots))))


def _memory(X: FloatArray, y: FloatArray, columns: FloatArray | None) -> float:
    """What the memory of rows multiplies the variance of a coefficient by."""
    ones = np.ones((len(y), 1))
    basis = np.linalg.qr(ones if columns is None else np.column_stack([ones, columns]))[0]
    X, y = X - basis @ (basis.T @ X), y - basis @ (basis.T @ y)
    spread = X.std(axis=0)
    X = X[:, spread > 0.0] / spread[spread > 0.0]
    left, values, _ = np.linalg.svd(X, full_matrices=False)
    turned = left.T @ y
    scores = []
    for penalty in PENALTIES:  # generalised cross-validation
        kept = values**2 / (values**2 + penalty)
        gone = y - left @ (kept * turned)
        scores.append(gone @ gone / (len(y) - kept.sum()) ** 2)
    kept = values**2 / (values**2 + PENALTIES[int(np.argmin(scores))])
    n_steps = int(np.sqrt(len(y)))
    fade = 1.0 - np.arange(1, n_steps + 1) / (n_steps + 1.0)
    rest = _remembered((y - left @ (kept * turned))[:, None], n_steps)
    return float(1.0 + 2.0 * fade @ (rest * _remembered(X, n_steps)))


def _remembered(series: FloatArray, n_steps: int) -> FloatArray:
    """Autocorrelations of columns at 1, 2, ... steps, a mean over those that vary."""
    total = (series**2).sum(axis=0)
    known = np.flatnonzero(total > 0.0)
    own, total = series[:, known], total[known]
    if not known.size:
        return np.zeros(n_steps)
    each = [((own[k:] * own[:-k]).sum(axis=0) / total).mean() for k in range(1, n_steps + 1)]
    return np.array(each)


def _by_name(lags: Any, names: Sequence[str]) -> dict[str, list[int]]:
    """Lags by feature; the same for all where no feature is named."""
    if lags is None:
        return {}
    if not isinstance(lags, Mapping):
        return dict.fromkeys(names, read_lags(lags))
    for name in lags:
        if name not in names:
            raise ValueError(
                f"lags names {name!r}{hint(str(name), names)}: the features are {listed(names)}."
            )
    return {str(name): read_lags(own) for name, own in lags.items()}


def _lagged(slot: Slot, lags: Sequence[int], step: TimeStep) -> list[Slot]:
    """One slot per lag, called by how far back it is."""
    count, unit = read_step(step.words)
    named = [(str(Window(slot.name, count * lag, count * lag, unit)), lag) for lag in lags]
    return [Slot(name, slot.attrs, slot.shared, slot.name, lag) for name, lag in named]


def _taken(array: Any, at: Any, slot: Slot, rows: Any, sample: str) -> Any:
    """Values of some rows under the labels of others; NaN where there is no row."""
    bare = array.drop_vars([name for name, c in array.coords.items() if sample in c.dims])
    found = bare.isel({sample: np.maximum(at, 0)})
    if (at < 0).any():
        found = found.where(need("xarray").DataArray(at >= 0, dims=sample))
    if sample in rows.coords:
        found = found.assign_coords({sample: rows[sample]})
    return found.rename(slot.name)
