"""What is in a file, what its variables are for where nobody says it, and what is wrong with them.

All is taken as it is: who looks for faults must not stop at the first.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ctfa.core.libraries import need
from ctfa.core.types import AnyArray, BoolArray, FloatArray, IntArray
from ctfa.labelled import _doubts as doubts
from ctfa.labelled._reading import choose_one
from ctfa.labelled._tasks import SAMPLES, axis_of
from ctfa.labelled._times import Untreated, clock, step_in_words
from ctfa.labelled._words import listed, several, word
from ctfa.report._words import plural

#: Columns that make a date together, in this order.
DATE_PARTS = ("year", "month", "day", "hour")
#: What holds numbers and is no series: values among which there is text, and a count of the rows.
MIXED, COUNTED = "numbers and text", "row number"
#: What is usually asked for, in lower case.
TARGETS = (
    "target", "y", "vhi", "ndvi", "evi", "lai", "sif", "gpp", "nee", "yield", "discharge",
    "streamflow", "runoff", "flow", "q", "qobs", "swe", "gwl", "level", "load", "demand",
)  # fmt: skip
#: What tasks are usually called.
TASKS = (
    "basin", "basin_id", "hybas_id", "station", "station_id", "gauge", "gauge_id", "site", "cell",
    "id", "task", "location", "point", "region", "country", "county", "node", "space",
)  # fmt: skip
#: Pairs of names that say where a row of a table lies, which is no feature.
PLACES = (("lat", "lon"), ("latitude", "longitude"), ("y", "x"), ("northing", "easting"))
#: Columns that say again when a row was, which a column of dates says already.
CALENDAR = ("year", "month", "week", "day", "hour", "quarter", "doy", "dayofyear", "day_of_year")


@dataclass(frozen=True)
class Variable:
    """One variable of a file, or one column of a table."""

    name: str
    dims: tuple[str, ...]
    kind: str  # "number", "text", "time", "flag"; in tables also MIXED and COUNTED
    units: str = ""
    words: str = ""  # its long name
    axis: str = ""  # of a coordinate: T, X, Y or Z


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

    @property
    def date_parts(self) -> list[str]:
        """Columns of year, month and so on that are dates together; none where they are not."""
        numbers = {v.name.lower(): v.name for v in self.variables if v.kind == "number"}
        parts = [part for part in DATE_PARTS if part in numbers]
        whole = self.form == "table" and DATE_PARTS[: len(parts)] == tuple(parts)
        return [numbers[part] for part in parts] if whole and len(parts) > 1 else []

    @property
    def has_dates(self) -> bool:
        """Whether a variable is of dates, or called so."""
        return any(v.kind == "time" or v.name == "date" for v in self.variables)


def contents_of(data: Any) -> Contents:
    """Look into an xarray object or a table."""
    if hasattr(data, "to_dataset") and not hasattr(data, "data_vars"):
        data = data.to_dataset(name=data.name if data.name is not None else "values")
    if hasattr(data, "data_vars"):
        return Contents(
            "arrays",
            {str(dim): int(size) for dim, size in data.sizes.items()},
            [_variable(name, array) for name, array in data.data_vars.items()],
            [
                replace(_variable(name, array), axis=axis_of(name, array))
                for name, array in data.coords.items()
            ],
        )
    columns = [
        Variable(str(name), ("row",), _kind_of_column(str(name), data[name].to_numpy()))
        for name in data.columns
        if str(name) != "geometry"
    ]
    return Contents("table", {"row": len(data)}, columns)


def make_dates(data: Any, parts: list[str]) -> tuple[Any, str]:
    """One column of dates from its parts, and how pandas does that; None where they are none.

    Nor where the year alone says as much: one row a year needs no month.
    """
    pandas = need("pandas")
    day = "" if len(parts) > 2 else ".assign(day=1)"
    try:
        dates = pandas.to_datetime(data[parts] if not day else data[parts].assign(day=1))
    except (ValueError, TypeError):
        dates = None
    if dates is not None and dates.nunique() == data[parts[0]].nunique():
        dates = None
    return dates, f'table["date"] = pandas.to_datetime(table[{parts}]{day})'


def _kind_of_column(name: str, values: AnyArray) -> str:
    kind = _kind(values)
    if kind == "text":
        pandas = need("pandas")
        there = pandas.Series(values.ravel(), dtype=object).dropna()
        share = pandas.to_numeric(there, errors="coerce").notna().mean() if len(there) else 0.0
        return MIXED if 0.5 <= share < 1.0 else kind
    if values.dtype.kind in "iu" and values.ndim == 1 and values.size > 2:
        nameless = name == "" or name.startswith("Unnamed: ")
        counted = values[0] in (0, 1) and (np.diff(values) == 1).all()
        if counted or (nameless and np.unique(values).size == values.size):
            return COUNTED
    return kind


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
        # cftime: dates of calendars that numpy does not have; of pandas with a zone; of Python.
        dated = first.size and (hasattr(first[0], "calendar") or isinstance(first[0], date))
        return "time" if dated else "text"
    return {"f": "number", "i": "number", "u": "number", "b": "flag", "M": "time", "m": "time"}.get(
        kind, "text"
    )


@dataclass(frozen=True)
class Period:
    """Times along the rows: from when to when, and how far apart."""

    first: str
    last: str
    n_times: int
    step: str  # "month", "day", "3 hours", "irregular", or "" for fewer than three times
    n_missing: int = 0  # steps left out between the first and the last
    first_missing: str = ""

    @property
    def words(self) -> str:
        """In words."""
        steps = f", by {self.step}" if self.step not in ("", "irregular") else ""
        return f"{self.first} to {self.last}{steps}, {self.n_times:,} in all"

    def steps(self, count: int) -> str:
        """So many steps, in words."""
        if self.step in ("", "irregular"):
            return several(count, "row")
        if self.step[0].isdigit():
            return f"{several(count, 'step')} of {self.step}"
        return several(count, self.step)


def period_of(times: Any) -> Period | None:
    """The times of rows; None where they are not times."""
    return placed(np.asarray(times))[0]


def placed(values: AnyArray) -> tuple[Period | None, IntArray]:
    """The period, and which step of time each row is, in whatever order; names are counted."""
    places = np.arange(values.size)
    if values.dtype.kind in "fiu":
        places = np.unique(values, return_inverse=True)[1]
    if values.size == 0 or _kind(values) != "time" or values.dtype.kind == "m":
        return None, places
    seconds, months, known = clock(values)
    if not known.any():
        return None, places
    once, at, place = np.unique(seconds[known], return_index=True, return_inverse=True)
    labels, months = values[known][at], months[known][at]
    step, counts = step_in_words(np.diff(once), np.diff(months))
    left = np.flatnonzero(counts > 1)
    period = Period(
        _date(labels[0]),
        _date(labels[-1]),
        labels.size,
        step,
        int((counts - 1).sum()),
        _date(labels[left[0]]) if left.size else "",
    )
    places[known] = np.concatenate([[0], np.cumsum(counts)])[place]
    return period, places


def _date(value: Any) -> str:
    text = value.isoformat() if hasattr(value, "isoformat") else str(np.datetime64(value, "s"))
    return str(text)[:19].removesuffix("T00:00:00")


@dataclass(frozen=True)
class Roles:
    """Which variable is what; ``guessed`` names the roles that nobody gave."""

    target: str | list[str] | None
    features: list[str]
    sample: str | None
    task: list[str]
    guessed: tuple[str, ...] = ()

    @property
    def targets(self) -> list[str]:
        """All of them; none where it is not known what to predict."""
        return [self.target] if isinstance(self.target, str) else self.target or []


def guess_roles(
    contents: Contents,
    *,
    target: str | list[str] | None = None,
    features: Sequence[str] = (),
    sample: str | None = None,
    task: Sequence[str] = (),
) -> Roles:
    """Fill in what was not given; a role that cannot be guessed stays empty."""
    given = Roles(target, list(features), sample, list(task))
    roles = (_roles_in_table if contents.form == "table" else _roles_in_arrays)(contents, given)
    names = ("target", "features", "sample", "task")
    guessed = tuple(n for n in names if not getattr(given, n) and getattr(roles, n))
    return replace(roles, guessed=guessed)


def _roles_in_arrays(contents: Contents, given: Roles) -> Roles:
    target, features, task = given.target, given.features, given.task
    times = [c.name for c in contents.coordinates if c.kind == "time" and c.dims == (c.name,)]
    dims = list(contents.sizes)
    axes = {dim: axis_of(dim, None) for dim in dims}
    axes |= {c.name: c.axis for c in contents.coordinates if c.name in axes}
    named = [dim for name in SAMPLES for dim in dims if dim.lower() == name]
    named = [dim for dim in (*named, *dims) if axes[dim] == "T"]
    sample = given.sample or next(iter(times or named), None)
    along = [v for v in contents.variables if v.kind == "number" and sample in v.dims]
    if isinstance(target, str):
        wanted = [v for v in contents.variables if v.name == target]
    else:
        candidates = [v for v in along if len(v.dims) > 1 and v.name not in features]
        wanted = _likely(candidates)
    found = wanted[0] if wanted else None
    layers = {dim for dim in dims if axes[dim] == "Z" and dim not in task}
    if not task and found is not None:
        places = [dim for dim in found.dims if dim != sample]
        task = [dim for dim in places if dim not in layers] or places
    if not features and found is not None:
        allowed = {sample, *task, *layers}
        features = [v.name for v in along if v.name != found.name and set(v.dims) <= allowed]
    name = target if target is not None else found.name if found else None
    return Roles(name, features, sample, task)


def _roles_in_table(contents: Contents, given: Roles) -> Roles:
    columns = contents.variables
    target, features, sample, task = given.target, given.features, given.sample, given.task
    used = {*given.targets, *features, *task}
    if sample is None:
        times = [v.name for v in columns if v.kind == "time" and v.name not in used]
        known = [v.name for name in SAMPLES for v in columns if v.name.lower() == name]
        sample = next(iter(times or [name for name in known if name not in used]), None)
    if not task and not isinstance(target, list):
        free = [v for v in columns if v.name not in {*used, sample} and v.kind != COUNTED]
        named = [v.name for name in TASKS for v in free if v.name.lower() == name]
        words = [v.name for v in free if v.kind == "text"]
        task = (named or words)[:1]
    lower = {v.name.lower() for v in columns}
    where = {name for pair in PLACES if set(pair) <= lower for name in pair}
    if any(v.kind == "time" and v.name == sample for v in columns):
        where |= set(CALENDAR)
    taken = {*used, sample, *task}
    free = [
        v
        for v in columns
        if v.kind == "number" and v.name not in taken and v.name.lower() not in where
    ]
    if target is None and not task:
        return Roles(None, features, sample, task)  # nobody knows which columns are targets
    if target is None:
        likely = _likely(free)
        target = likely[0].name if likely else None
    names = [v.name for v in free if v.name != target]
    return Roles(target, features or names, sample, task)


def _likely(candidates: list[Variable]) -> list[Variable]:
    """Those that are usually asked for come first, then in the order of the file."""
    known = {name: place for place, name in enumerate(TARGETS)}
    return sorted(candidates, key=lambda v: known.get(v.name.lower(), len(known)))


@dataclass(frozen=True, eq=False)
class Values:
    """Target and features by row and task; NaN where there is nothing, or no number."""

    target: FloatArray  # (n_samples, n_tasks)
    features: dict[str, FloatArray]  # (n_samples, n_tasks), or (n_samples, 1) where all share it
    samples: AnyArray  # labels of the rows, in the order in which a fit takes them
    tasks: list[str]
    target_name: str
    is_grid: bool = False
    own_rows: bool = False  # whether each task has rows of its own
    text: dict[str, tuple[int, str]] = field(default_factory=dict)  # values that are no numbers
    n_twice: int = 0  # rows of a table with a pair of sample and task that came before
    twice: str = ""
    task_labels: AnyArray | None = None

    @property
    def n_samples(self) -> int:
        """Rows."""
        return int(self.target.shape[0])

    @property
    def n_tasks(self) -> int:
        """Tasks, with those that have no data."""
        return int(self.target.shape[1])

    @cached_property
    def empty(self) -> BoolArray:
        """Which tasks have no value of the target at all."""
        return np.asarray(np.isnan(self.target).all(axis=0))

    @cached_property
    def period(self) -> Period | None:
        """The times of the rows; None where they have none."""
        return period_of(self.samples)

    @property
    def series(self) -> dict[str, FloatArray]:
        """All of them by name, the target first."""
        return {self.target_name: self.target, **self.features}


def values_of(data: Any, roles: Roles) -> Values:
    """Take the arrays of these roles out of a file; names that are not there are a KeyError."""
    if hasattr(data, "data_vars"):
        return _of_arrays(data, roles)
    if isinstance(roles.target, list) or not roles.task:
        return _of_wide_table(data, roles)
    return _of_long_table(data, roles)


def _of_arrays(data: Any, roles: Roles) -> Values:
    text: dict[str, tuple[int, str]] = {}
    target = data[roles.target]
    dims = [dim for dim in target.dims if dim in roles.task]
    if roles.sample not in target.dims or len(target.dims) != 1 + len(dims):
        there = ", ".join(map(str, target.dims))
        other = [d for d in target.dims if d != roles.sample and d not in dims]
        one = f"; {choose_one(other[0], target)}" if other else ""
        wanted = ", ".join([str(roles.sample), *roles.task])
        raise ValueError(
            f"{roles.target} has dimensions {there}, and --sample with --task names {wanted}: name "
            f"each of them once{one}."
        )
    n_samples = target.sizes[roles.sample]

    def flat(array: Any) -> FloatArray:
        if roles.sample not in array.dims:
            raise ValueError(
                f"{array.name} does not change along {roles.sample}: it explains nothing here, "
                "leave it out."
            )
        if set(array.dims) == {roles.sample}:
            return _numbers(array.values, str(array.name), text).reshape(n_samples, 1)
        array = array.broadcast_like(target) if set(array.dims) < set(target.dims) else array
        ordered = array.transpose(roles.sample, *dims)
        return _numbers(ordered.values, str(array.name), text).reshape(n_samples, -1)

    samples = data[roles.sample].values if roles.sample in data.coords else np.arange(n_samples)
    along = [data.indexes[dim] if dim in data.indexes else range(target.sizes[dim]) for dim in dims]
    written = str if len(along) == 1 else _coordinate
    names = [",".join(map(written, label)) for label in itertools.product(*along)]
    return Values(
        flat(target),
        {name: flat(data[name]) for name in roles.features},
        samples,
        names,
        str(roles.target),
        is_grid=len(dims) == 2,
        text=text,
        task_labels=np.asarray(along[0]) if len(along) == 1 else None,
    )


def _of_wide_table(data: Any, roles: Roles) -> Values:
    text: dict[str, tuple[int, str]] = {}
    names = roles.targets
    target = np.column_stack([_numbers(data[name].to_numpy(), name, text) for name in names])
    features = {
        name: _numbers(data[name].to_numpy(), name, text)[:, None] for name in roles.features
    }
    samples = data[roles.sample].to_numpy() if roles.sample else np.arange(len(data))
    return Values(target, features, samples, names, "target", text=text)


def _of_long_table(data: Any, roles: Roles) -> Values:
    pandas = need("pandas")
    text: dict[str, tuple[int, str]] = {}
    keys = (
        pandas.MultiIndex.from_frame(data[roles.task])
        if len(roles.task) > 1
        else data[roles.task[0]]
    )
    task, tasks = pandas.factorize(keys, sort=True)
    n_twice, twice = 0, ""
    if roles.sample is None:
        row = data.groupby(roles.task).cumcount().to_numpy()
        samples: AnyArray = np.arange(row.max() + 1 if len(row) else 0)
    else:
        # Sorted, as a fit takes them: rows of a long table have no order of their own.
        row, found = pandas.factorize(data[roles.sample], sort=True)
        samples = np.asarray(found)
        again = data.duplicated([roles.sample, *roles.task]).to_numpy()
        n_twice = int(again.sum())
        if n_twice:
            first = data.loc[again, [roles.sample, *roles.task]].iloc[0]
            twice = " of ".join(str(v).removesuffix(" 00:00:00") for v in first)
    shape = (len(samples), len(tasks))

    def spread(name: str) -> FloatArray:
        whole = np.full(shape, np.nan)
        there = (row >= 0) & (task >= 0)  # a row without a time or a task is nobody's
        whole[row[there], task[there]] = _numbers(data[name].to_numpy(), name, text)[there]
        return whole

    return Values(
        spread(str(roles.target)),
        {name: spread(name) for name in roles.features},
        samples,
        [str(label) for label in tasks],
        str(roles.target),
        is_grid=len(roles.task) == 2,
        own_rows=roles.sample is None,
        text=text,
        n_twice=n_twice,
        twice=twice,
        task_labels=np.asarray(tasks) if len(roles.task) == 1 else None,
    )


def _numbers(values: AnyArray, name: str, text: dict[str, tuple[int, str]]) -> FloatArray:
    """Values as numbers; what is none is counted, with the first of its kind."""
    if values.dtype.kind in "fiub":
        return np.asarray(values, dtype=np.float64)
    if values.dtype.kind in "Mm":
        text[name] = (values.size, str(values.ravel()[0]))
        return np.full(values.shape, np.nan)
    pandas = need("pandas")
    flat = pandas.Series(values.ravel())
    read = pandas.to_numeric(flat, errors="coerce")
    bad = (read.isna() & ~flat.isna()).to_numpy()
    if bad.any():
        text[name] = (int(bad.sum()), str(flat[np.argmax(bad)]))
    return np.asarray(read, dtype=np.float64).reshape(values.shape)


def _coordinate(value: Any) -> str:
    return f"{value:.10g}" if isinstance(value, float | np.floating) else str(value)


#: How much a finding matters: the fit is refused; it runs and is worse; good to know.
STOPS, HARMS, NOTE = "stops", "harms", "note"
#: The condition number that doubts a design.
DOUBTFUL = 1e6
#: Dates written as whole numbers, by their digits: 200001 and 20000131.
FORMS = {6: "%Y%m", 8: "%Y%m%d"}
#: Rows a parameter, below which a fit is mostly noise.
FEW_ROWS = 5


class Finding(NamedTuple):
    """One thing that is wrong, or good to know."""

    severity: str
    what: str
    do: str = ""


def look_over(
    contents: Contents, values: Values, masked: str = "auto", seasons: Iterable[Untreated] = ()
) -> list[Finding]:
    """Everything found in the series."""
    leaves = masked == "leave" or (masked == "auto" and values.is_grid)
    changes = ~(values.empty | doubts.never_changes(values.target))
    return [
        *_text(values),
        *_infinite(values),
        *_time_findings(values, contents.date_parts),
        *_labels(values),
        *_harms(doubts.doubtful_fills(values.series)),
        *_empty(values, leaves),
        # Of rows that come twice one is left, so that what is counted there is not the file's.
        *(() if values.n_twice else _constant(values)),
        *_harms(
            doubts.copied_targets(
                values.target_name, values.target, changes, lambda: values.tasks, "task"
            )
        ),
        *_seasons(seasons),
        *_undated(values),
        *_gaps(values),
        *(() if values.n_twice else _rows(values)),
        *_collinear(values),
        *_units(contents, values),
    ]


def _text(values: Values) -> Iterator[Finding]:
    for name, (count, first) in values.text.items():
        yield Finding(
            STOPS,
            f"{name} holds text where numbers should be: {several(count, 'value')}, the first "
            f"{first!r}",
            f"leave {name} out, or write its missing values as empty cells",
        )


def _infinite(values: Values) -> Iterator[Finding]:
    for name, series in values.series.items():
        rows, columns = np.nonzero(np.isinf(series))
        if rows.size:
            task = f" of {values.tasks[columns[0]]}" if series.shape[1] > 1 else ""
            yield Finding(
                STOPS,
                f"{name} has {several(rows.size, 'infinite value')}, the first at "
                f"{word(values.samples[rows[0]])}{task}",
                "replace infinite values by missing ones (NaN)",
            )


def _time_findings(values: Values, date_parts: list[str]) -> Iterator[Finding]:
    if values.own_rows:
        return
    samples = values.samples
    if values.n_twice:
        yield Finding(
            STOPS,
            f"{several(values.n_twice, 'row')} come twice, the first {values.twice}",
            "drop or average the copies: every task has one row a time"
            if not date_parts
            else f"make one column of dates of {', '.join(date_parts)} (pandas.to_datetime) and "
            "name it with --sample",
        )
    _, first, counts = np.unique(samples.astype(str), return_index=True, return_counts=True)
    again = first[counts > 1]
    if again.size:
        yield Finding(
            STOPS,
            f"{several(again.size, 'time')} more than once, the first {word(samples[again[0]])}",
            "drop or average the copies",
        )
    ordered = samples.dtype.kind in "fiuM"
    if ordered and samples.size > 1:
        back = np.flatnonzero(samples[1:] < samples[:-1])
        if back.size:
            yield Finding(
                STOPS,
                f"times are not sorted: {word(samples[back[0] + 1])} comes after "
                f"{word(samples[back[0]])}",
                "sort the rows by time: blocks of rows are held out, so their order matters",
            )
    period = values.period
    if period is not None and period.step == "irregular":
        yield Finding(
            HARMS,
            "the step of time is irregular",
            "bring the series to one step, such as monthly means",
        )
    elif period is not None and period.n_missing:
        yield Finding(
            NOTE,
            f"{period.steps(period.n_missing)} between the first and the last are not in the file, "
            f"the first after {period.first_missing}",
            "rows that are not there count as missing; nothing need be done",
        )


def _undated(values: Values) -> Iterator[Finding]:
    """Rows without dates: what needs them was not looked for."""
    samples = values.samples
    if values.period is not None or (samples.size and hasattr(samples[0], "year")):
        return
    is_number = samples.dtype.kind in "iuf"
    like = "numbers" if is_number else "text"
    first = f" ({like}, the first {samples[0]!s})" if samples.size and not values.own_rows else ""
    how = "pandas.to_datetime"
    form = FORMS.get(len(str(samples[0]))) if samples.size and samples.dtype.kind in "iu" else None
    if form is not None:
        read = need("pandas").to_datetime(samples.astype(str), format=form, errors="coerce")
        if read.notna().all():
            how = f"pandas.to_datetime(numbers, format={form!r})"
    yield Finding(
        NOTE,
        f"the rows have no dates{first}, so seasons and gaps in time were not looked for",
        f"where they are times, make dates of them ({how}) and write the file again",
    )


def _labels(values: Values) -> Iterator[Finding]:
    if values.task_labels is None:
        return
    labels, counts = np.unique(values.task_labels.astype(str), return_counts=True)
    again = labels[counts > 1]
    if again.size:
        yield Finding(
            STOPS,
            f"{several(again.size, 'task')} come more than once, the first {again[0]}",
            "give every task a label of its own",
        )


def _harms(found: Iterable[doubts.Doubt]) -> Iterator[Finding]:
    return (Finding(HARMS, *doubt) for doubt in found)


def _seasons(seasons: Iterable[Untreated]) -> Iterator[Finding]:
    return (Finding(HARMS if s.in_target else NOTE, s.what, s.do) for s in seasons)


def _empty(values: Values, leaves: bool) -> Iterator[Finding]:
    nothing = values.empty
    for name, series in values.features.items():
        lacking = np.isnan(series).all(axis=0)
        if series.shape[1] > 1:  # a task's own, and none is asked for where it has no target
            lacking &= ~nothing
        if lacking.all():
            yield Finding(STOPS, f"{name} has no value at all", f"leave {name} out")
        elif lacking.any():
            yield Finding(
                NOTE,
                f"{name} is missing altogether for {lacking.sum():,} of {values.n_tasks:,} "
                f"tasks, the first {values.tasks[int(np.argmax(lacking))]}",
                "these are fitted without it, apart from the others",
            )
    if nothing.all():
        yield Finding(
            STOPS, f"{values.target_name} has no value at all", "choose another target with -t"
        )
    elif nothing.any():
        first = values.tasks[int(np.argmax(nothing))]
        what = f"{nothing.sum():,} of {values.n_tasks:,} tasks have no {values.target_name}"
        if leaves:
            yield Finding(NOTE, f"{what}: masked", "they are left out of the fit")
        else:
            yield Finding(
                STOPS, f"{what}, the first {first}",
                "leave them out with --masked leave, or drop them from the file",
            )  # fmt: skip


def _constant(values: Values) -> Iterator[Finding]:
    flat = doubts.never_changes(values.target)
    if flat.any():
        first = values.tasks[int(np.argmax(flat))]
        yield Finding(
            STOPS,
            f"{values.target_name} never changes in {flat.sum():,} of {flat.size:,} series, the "
            f"first that of {first}",
            "leave these tasks out: there is nothing to explain",
        )
    for name, series in values.features.items():
        yield from _harms(
            doubts.flat_feature(name, doubts.never_changes(series), lambda: values.tasks, "task")
        )


def _gaps(values: Values) -> Iterator[Finding]:
    if values.own_rows:
        return
    period, places = placed(values.samples)
    for name, series in values.series.items():
        here = ~np.isnan(series).all(axis=0)
        gone = np.isnan(series[:, here])
        if not gone.any():
            continue
        share = float(gone.mean())
        percent = f"{100 * share:.0f}%" if share >= 0.095 else f"{100 * share:.2g}%"
        length, task = _longest(gone, places)
        long = several(length, "row") if period is None else period.steps(length)
        whose = np.flatnonzero(here)[task]
        where = f" ({values.tasks[whose]})" if series.shape[1] > 1 else ""
        yield Finding(
            HARMS if share > 0.5 else NOTE,
            f"{name} has gaps: {percent} of its values, the longest {long}{where}",
            "gaps are left out, each pair of tasks compared on the rows both have",
        )


def _rows(values: Values) -> Iterator[Finding]:
    """Complete rows of each task against the number of parameters."""
    n_features = len(values.features)
    complete = complete_rows(values)
    has_target = ~values.empty
    counts = complete.sum(axis=0)[has_target]
    if not counts.size:
        return
    least = n_features + 3
    if not counts.any():
        yield Finding(
            STOPS,
            f"{values.target_name} and the features have no row in common: where the one has "
            "values the others have none",
            "check the periods of target and features",
        )
        return
    few = np.flatnonzero(counts < least)
    first = values.tasks[int(np.flatnonzero(has_target)[few[0]])] if few.size else ""
    if few.size:
        yield Finding(
            HARMS,
            f"{few.size:,} of {counts.size:,} tasks have fewer than {least} complete rows for "
            f"{n_features} {plural('feature', n_features)}, the first {first} with "
            f"{counts[few[0]]}",
            "take fewer features, or use --solver ridge; these tasks lean on their neighbours",
        )
    middle = float(np.median(counts))
    if few.size < counts.size and middle < FEW_ROWS * (n_features + 1):
        yield Finding(
            HARMS,
            f"there are {middle:.0f} complete rows per task for {n_features + 1} parameters: "
            f"{middle - n_features - 1:.0f} degrees of freedom",
            "try --solver ridge, or fewer features",
        )


def _collinear(values: Values) -> Iterator[Finding]:
    same = list(doubts.same_variables(values.target_name, values.series))
    yield from _harms(same)
    worst = max(_conditions(values), default=0.0) if len(values.features) > 1 and not same else 0.0
    if worst > DOUBTFUL:
        yield Finding(
            HARMS,
            f"features are nearly dependent: the condition number is up to {worst:.1g}",
            "leave features out, or use --solver ridge",
        )


def _conditions(values: Values) -> Iterator[float]:
    """Condition numbers of the features of some tasks."""
    columns = list(values.features.values())
    complete = complete_rows(values, target=False)
    for task in doubts.spread_over(values.n_tasks, doubts.N_LOOKED_AT).tolist():
        rows = complete[:, task]
        if rows.sum() <= len(columns):
            continue
        part = np.column_stack([c[rows, task if c.shape[1] > 1 else 0] for c in columns])
        spread = part.std(axis=0)
        if not np.isfinite(part).all() or (spread <= 1e-12 * np.abs(part).max(axis=0)).any():
            continue  # reported elsewhere
        sizes = np.linalg.svd((part - part.mean(axis=0)) / spread, compute_uv=False)
        yield float((sizes[0] / max(sizes[-1], np.finfo(float).tiny)) ** 2)


def _units(contents: Contents, values: Values) -> Iterator[Finding]:
    if contents.form != "arrays":
        return
    bare = [v.name for v in contents.variables if v.name in values.series and not v.units]
    if bare:
        yield Finding(
            NOTE,
            f"{listed(bare, 6)} ha{'s' if len(bare) == 1 else 've'} no units",
            "set the attribute units, and results carry them",
        )


def complete_rows(values: Values, *, target: bool = True) -> BoolArray:
    """Whether a task has everything in a row; features that it never has are not asked for."""
    complete = np.ones(values.target.shape, dtype=bool)
    if target:
        complete &= np.isfinite(values.target)
    for series in values.features.values():
        never = np.isnan(series).all(axis=0)
        complete &= np.isfinite(series) | never
    return complete


def _longest(gone: BoolArray, places: IntArray) -> tuple[int, int]:
    """The longest gap in steps, those that have no row in it too, and in which column."""
    order = np.argsort(places, kind="stable")
    seen = np.full(gone.shape[1], places[order[0]] - 1)  # where the last value was
    longest, missing = np.zeros(seen.size, dtype=np.intp), np.zeros(seen.size, dtype=bool)
    for row in order:
        ends = missing & ~gone[row]
        longest = np.where(ends, np.maximum(longest, places[row] - seen - 1), longest)
        seen = np.where(gone[row], seen, places[row])
        missing = (missing | gone[row]) & (seen < places[row])
    longest = np.where(missing, np.maximum(longest, places[order[-1]] - seen), longest)
    return int(longest.max()), int(np.argmax(longest))
