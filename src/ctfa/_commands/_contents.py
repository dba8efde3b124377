"""What is in a file, what its variables may be for, and what is wrong with them.

Everything is taken as it is: a search for faults must not stop at the first.
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
#: What holds numbers and is not a series: values among which there is text, and a row count.
MIXED, COUNTED = "numbers and text", "row number"
#: Usual names of targets, in lower case.
TARGETS = (
    "target", "y", "vhi", "ndvi", "evi", "lai", "sif", "gpp", "nee", "yield", "discharge",
    "streamflow", "runoff", "flow", "q", "qobs", "swe", "gwl", "level", "load", "demand",
)  # fmt: skip
#: What tasks are usually called.
TASKS = (
    "basin", "basin_id", "hybas_id", "station", "station_id", "gauge", "gauge_id", "site", "cell",
    "id", "task", "location", "point", "region", "country", "county", "node", "space",
)  # fmt: skip
#: Pairs of names that say where something lies, which is not a feature; in this order, for those
#: who are asked for both.
PLACES = (("lat", "lon"), ("latitude", "longitude"), ("x", "y"), ("easting", "northing"))
#: Columns that say again when a row was, which a column of dates says already.
CALENDAR = ("year", "month", "week", "day", "hour", "quarter", "doy", "dayofyear", "day_of_year")
#: What the types of numpy hold; anything else is text.
HELD = dict.fromkeys("fiu", "number") | dict.fromkeys("Mm", "time") | {"b": "flag"}


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
    def date_parts(self) -> list[str]:
        """Columns of year, month and so on that are dates together; none where they are not."""
        numbers = {v.name.lower(): v.name for v in self.variables if v.kind == "number"}
        parts = [part for part in DATE_PARTS if part in numbers]
        whole = self.form == "table" and DATE_PARTS[: len(parts)] == tuple(parts)
        return [numbers[part] for part in parts] if whole and len(parts) > 1 else []


def contents_of(data: Any) -> Contents:
    """Look into an xarray object or a table."""
    if hasattr(data, "to_dataset") and not hasattr(data, "data_vars"):
        data = data.to_dataset(name=data.name if data.name is not None else "values")
    if not hasattr(data, "data_vars"):
        names = [str(name) for name in data.columns if str(name) != "geometry"]
        kinds = [_kind_of_column(name, data[name].to_numpy()) for name in names]
        columns = [Variable(name, ("row",), kind) for name, kind in zip(names, kinds, strict=True)]
        return Contents("table", {"row": len(data)}, columns)
    sizes = {str(dim): int(size) for dim, size in data.sizes.items()}
    variables, coordinates = (
        [_variable(name, array) for name, array in held.items()]
        for held in (data.data_vars, data.coords)
    )
    axes = [axis_of(name, array) for name, array in data.coords.items()]
    coordinates = [replace(c, axis=axis) for c, axis in zip(coordinates, axes, strict=True)]
    return Contents("arrays", sizes, variables, coordinates)


def make_dates(data: Any, parts: list[str]) -> tuple[Any, str]:
    """One column of dates from its parts, and how pandas does that; None where they are none.

    Nor where the year alone says as much: one row per year needs no month.
    """
    pandas = need("pandas")
    whole, day = data[parts], ""
    if len(parts) <= 2:
        whole, day = whole.assign(day=1), ".assign(day=1)"
    try:
        dates = pandas.to_datetime(whole)
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
    attrs, dims = array.attrs, tuple(map(str, array.dims))
    words = attrs.get("long_name", attrs.get("standard_name", ""))
    return Variable(str(name), dims, _kind(array), str(attrs.get("units", "")), str(words))


def _kind(array: Any) -> str:
    if array.dtype.kind != "O":
        return HELD.get(array.dtype.kind, "text")
    first = np.asarray(array).ravel()[:1]
    # cftime: dates of calendars that numpy does not have; of pandas with a zone; of Python.
    dated = first.size and (hasattr(first[0], "calendar") or isinstance(first[0], date))
    return "time" if dated else "text"


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


def period_of(times: Any) -> tuple[Period | None, IntArray]:
    """The times of rows, None where they are not times; and which step each row is.

    Rows may come in any order; names are counted.
    """
    values = np.asarray(times)
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
    first_missing = _date(labels[left[0]]) if left.size else ""
    n_missing, ends = int((counts - 1).sum()), (_date(labels[0]), _date(labels[-1]))
    places[known] = np.concatenate([[0], np.cumsum(counts)])[place]
    return Period(*ends, labels.size, step, n_missing, first_missing), places


def _date(value: Any) -> str:
    text = value.isoformat() if hasattr(value, "isoformat") else str(np.datetime64(value, "s"))
    return str(text)[:19].removesuffix("T00:00:00")


@dataclass(frozen=True)
class Roles:
    """Which variable is what; ``guessed`` names the roles that were not given."""

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
    axes = {dim: axis_of(dim, None) for dim in contents.sizes}
    axes |= {c.name: c.axis for c in contents.coordinates if c.name in axes}
    along_time = [dim for dim in axes if axes[dim] == "T"]
    named = [dim for name in SAMPLES for dim in along_time if dim.lower() == name]
    sample = given.sample or next(iter((*times, *named, *along_time)), None)
    along = [v for v in contents.variables if v.kind == "number" and sample in v.dims]
    if isinstance(target, str):
        wanted = [v for v in contents.variables if v.name == target]
    else:
        wanted = _likely([v for v in along if len(v.dims) > 1 and v.name not in features])
    if wanted:
        target = wanted[0].name if target is None else target
        layers = {dim for dim in axes if axes[dim] == "Z" and dim not in task}
        places = [dim for dim in wanted[0].dims if dim != sample]
        task = task or [dim for dim in places if dim not in layers] or places
        allowed, first = {sample, *task, *layers}, wanted[0].name
        inside = [v.name for v in along if v.name != first and set(v.dims) <= allowed]
        features = features or inside
    return Roles(target, features, sample, task)


def _roles_in_table(contents: Contents, given: Roles) -> Roles:
    columns = contents.variables
    target, features, sample, task = given.target, given.features, given.sample, given.task
    used = {*given.targets, *features, *task}
    times = {v.name for v in columns if v.kind == "time"}
    if sample is None:
        known = [v.name for name in SAMPLES for v in columns if v.name.lower() == name]
        dated = [v.name for v in columns if v.name in times]
        sample = next((name for name in (*dated, *known) if name not in used), None)
    if not task and not isinstance(target, list):
        free = [v for v in columns if v.name not in {*used, sample} and v.kind != COUNTED]
        called = [v.name for name in TASKS for v in free if v.name.lower() == name]
        task = (called or [v.name for v in free if v.kind == "text"])[:1]
    if target is None and not task:
        return Roles(None, features, sample, task)  # it is not known which columns are targets
    lower = {v.name.lower() for v in columns}
    no_features = {name for pair in PLACES if set(pair) <= lower for name in pair}
    no_features |= set(CALENDAR) if sample in times else set()
    taken = {*used, sample, *task}
    free = [v for v in columns if v.kind == "number" and v.name not in taken]
    free = [v for v in free if v.name.lower() not in no_features]
    if target is None:
        target = next((v.name for v in _likely(free)), None)
    names = [v.name for v in free if v.name != target]
    return Roles(target, features or names, sample, task)


def _likely(candidates: list[Variable]) -> list[Variable]:
    """Those that are usually asked for come first, then in the order of the file."""
    known = {name: place for place, name in enumerate(TARGETS)}
    return sorted(candidates, key=lambda v: known.get(v.name.lower(), len(known)))


@dataclass(frozen=True, eq=False)
class Values:
    """Target and features by row and task; NaN where there is nothing, or not a number."""

    target: FloatArray  # (n_samples, n_tasks)
    features: dict[str, FloatArray]  # (n_samples, n_tasks), or (n_samples, 1) where all share it
    samples: AnyArray  # labels of the rows, in the order in which a fit takes them
    tasks: list[str]
    target_name: str
    is_grid: bool = False
    own_rows: bool = False  # whether each task has rows of its own
    text: dict[str, tuple[int, str]] = field(default_factory=dict)  # values that are not numbers
    n_twice: int = 0  # rows of a table with a pair of sample and task that came before
    twice: str = ""
    task_labels: AnyArray | None = None

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
        return period_of(self.samples)[0]

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
    target, sample = data[roles.target], roles.sample
    dims = [dim for dim in target.dims if dim in roles.task]
    if sample not in target.dims or len(target.dims) != 1 + len(dims):
        other = [d for d in target.dims if d != sample and d not in dims]
        one = f"; {choose_one(other[0], target)}" if other else ""
        raise ValueError(
            f"{roles.target} has dimensions {', '.join(map(str, target.dims))}, and --sample with "
            f"--task names {', '.join([str(sample), *roles.task])}: name each of them once{one}."
        )
    n_samples = target.sizes[sample]

    def flat(array: Any) -> FloatArray:
        if sample not in array.dims:
            raise ValueError(
                f"{array.name} does not change along {sample}: it explains nothing here, leave it "
                "out."
            )
        if set(array.dims) != {sample}:
            array = array.broadcast_like(target) if set(array.dims) < set(target.dims) else array
            array = array.transpose(sample, *dims)
        return _numbers(array.values, str(array.name), text).reshape(n_samples, -1)

    samples = data[sample].values if sample in data.coords else np.arange(n_samples)
    along = [data.indexes[dim] if dim in data.indexes else range(target.sizes[dim]) for dim in dims]
    written = str if len(along) == 1 else _coordinate
    names = [",".join(map(written, label)) for label in itertools.product(*along)]
    features = {name: flat(data[name]) for name in roles.features}
    labels = np.asarray(along[0]) if len(along) == 1 else None
    return Values(
        flat(target), features, samples, names, str(roles.target),
        is_grid=len(dims) == 2, text=text, task_labels=labels,
    )  # fmt: skip


def _of_wide_table(data: Any, roles: Roles) -> Values:
    text: dict[str, tuple[int, str]] = {}
    columns = {
        name: _numbers(data[name].to_numpy(), name, text)
        for name in (*roles.targets, *roles.features)
    }
    target = np.column_stack([columns[name] for name in roles.targets])
    features = {name: columns[name][:, None] for name in roles.features}
    samples = data[roles.sample].to_numpy() if roles.sample else np.arange(len(data))
    return Values(target, features, samples, roles.targets, "target", text=text)


def _of_long_table(data: Any, roles: Roles) -> Values:
    pandas = need("pandas")
    text: dict[str, tuple[int, str]] = {}
    keys, is_one = data[roles.task], len(roles.task) == 1
    keys = keys[roles.task[0]] if is_one else pandas.MultiIndex.from_frame(keys)
    task, tasks = pandas.factorize(keys, sort=True)
    n_twice, twice = 0, ""
    if roles.sample is None:
        row = data.groupby(roles.task).cumcount().to_numpy()
        samples: AnyArray = np.arange(row.max() + 1 if len(row) else 0)
    else:
        # Sorted, as a fit takes them: rows of a long table have no order of their own.
        row, found = pandas.factorize(data[roles.sample], sort=True)
        samples = np.asarray(found)
        labels = data[[roles.sample, *roles.task]]
        again = labels[labels.duplicated()]
        n_twice = len(again)
        if n_twice:
            twice = " of ".join(str(v).removesuffix(" 00:00:00") for v in again.iloc[0])
    there = (row >= 0) & (task >= 0)  # a row without a time or a task belongs to none
    held = {}
    for name in (str(roles.target), *roles.features):
        held[name] = np.full((len(samples), len(tasks)), np.nan)
        values = _numbers(data[name].to_numpy(), name, text)
        held[name][row[there], task[there]] = values[there]
    target = held.pop(str(roles.target))
    return Values(
        target, held, samples, list(map(str, tasks)), str(roles.target),
        is_grid=len(roles.task) == 2, own_rows=roles.sample is None, text=text, n_twice=n_twice,
        twice=twice, task_labels=np.asarray(tasks) if is_one else None,
    )  # fmt: skip


def _numbers(values: AnyArray, name: str, text: dict[str, tuple[int, str]]) -> FloatArray:
    """Values as numbers; what is not one is counted, with the first of its kind."""
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
#: Rows per parameter, below which a fit is mostly noise.
FEW_ROWS = 5


class Finding(NamedTuple):
    """One thing that is wrong, or good to know."""

    severity: str
    what: str
    do: str = ""


Findings = Iterator[Finding]


def look_over(
    contents: Contents, values: Values, masked: str = "auto", seasons: Iterable[Untreated] = ()
) -> list[Finding]:
    """Everything found in the series."""
    leaves = masked == "leave" or (masked == "auto" and values.is_grid)
    changes = ~(values.empty | doubts.never_changes(values.target))
    names = (values.target_name, values.target, changes, lambda: values.tasks, "task")
    return [
        *_values_that_are_none(values),
        *(() if values.own_rows else _time_findings(values, contents.date_parts)),
        *_labels(values),
        *_harms(doubts.doubtful_fills(values.series)),
        *_empty(values, leaves),
        # Of rows that come twice one is left, so that what is counted there is not the file's.
        *(() if values.n_twice else _constant(values)),
        *_harms(doubts.copied_targets(*names)),
        *(Finding(HARMS if s.in_target else NOTE, s.what, s.do) for s in seasons),
        *_undated(values),
        *(() if values.own_rows else _gaps(values)),
        *(() if values.n_twice else _rows(values)),
        *_collinear(values),
        *_units(contents, values),
    ]


def _values_that_are_none(values: Values) -> Findings:
    """Text and infinite values."""
    for name, (count, first) in values.text.items():
        what = f"{name} holds text where numbers should be: {several(count, 'value')}"
        do = f"leave {name} out, or write its missing values as empty cells"
        yield Finding(STOPS, f"{what}, the first {first!r}", do)
    for name, series in values.series.items():
        rows, columns = np.nonzero(np.isinf(series))
        if rows.size:
            task = f" of {values.tasks[columns[0]]}" if series.shape[1] > 1 else ""
            first = f"{word(values.samples[rows[0]])}{task}"
            what = f"{name} has {several(rows.size, 'infinite value')}, the first at {first}"
            yield Finding(STOPS, what, "replace infinite values by missing ones (NaN)")


def _time_findings(values: Values, date_parts: list[str]) -> Findings:
    samples, period = values.samples, values.period
    if values.n_twice:
        what = f"{several(values.n_twice, 'row')} come twice, the first {values.twice}"
        do = "drop or average the copies: every task has one row per time"
        if date_parts:
            do = f"make one column of dates of {', '.join(date_parts)} (pandas.to_datetime) and "
            do += "name it with --sample"
        yield Finding(STOPS, what, do)
    _, first, counts = np.unique(samples.astype(str), return_index=True, return_counts=True)
    again = first[counts > 1]
    if again.size:
        what = f"{several(again.size, 'time')} more than once, the first {word(samples[again[0]])}"
        yield Finding(STOPS, what, "drop or average the copies")
    back = np.flatnonzero(samples[1:] < samples[:-1]) if samples.dtype.kind in "fiuM" else again[:0]
    if back.size:
        later, before = (word(samples[back[0] + step]) for step in (1, 0))
        do = "sort the rows by time: blocks of rows are held out, so their order matters"
        yield Finding(STOPS, f"times are not sorted: {later} comes after {before}", do)
    if period is not None and period.step == "irregular":
        do = "bring the series to one step, such as monthly means"
        yield Finding(HARMS, "the step of time is irregular", do)
    elif period is not None and period.n_missing:
        what = f"{period.steps(period.n_missing)} between the first and the last are not in the "
        what += f"file, the first after {period.first_missing}"
        yield Finding(NOTE, what, "rows that are not there count as missing; nothing need be done")


def _undated(values: Values) -> Findings:
    """Rows without dates: what needs them was not looked for."""
    samples = values.samples
    if values.period is not None or (samples.size and hasattr(samples[0], "year")):
        return
    like = "numbers" if samples.dtype.kind in "iuf" else "text"
    first = f" ({like}, the first {samples[0]!s})" if samples.size and not values.own_rows else ""
    how = "pandas.to_datetime"
    form = FORMS.get(len(str(samples[0]))) if samples.size and samples.dtype.kind in "iu" else None
    if form is not None:
        read = need("pandas").to_datetime(samples.astype(str), format=form, errors="coerce")
        how = f"{how}(numbers, format={form!r})" if read.notna().all() else how
    what = f"the rows have no dates{first}, so seasons and gaps in time were not looked for"
    do = f"if they are times, convert them to dates ({how}) and write the file again"
    yield Finding(NOTE, what, do)


def _labels(values: Values) -> Findings:
    if values.task_labels is None:
        return
    labels, counts = np.unique(values.task_labels.astype(str), return_counts=True)
    again = labels[counts > 1]
    if again.size:
        what = f"{several(again.size, 'task')} come more than once, the first {again[0]}"
        yield Finding(STOPS, what, "give every task its own label")


def _harms(found: Iterable[doubts.Doubt]) -> Findings:
    return (Finding(HARMS, *doubt) for doubt in found)


def _empty(values: Values, leaves: bool) -> Findings:
    nothing, target = values.empty, values.target_name
    for name, series in values.features.items():
        lacking: BoolArray = np.asarray(np.isnan(series).all(axis=0))
        if series.shape[1] > 1:  # a task's own, and none is asked for where it has no target
            lacking &= ~nothing
        if lacking.all():
            yield Finding(STOPS, f"{name} has no value at all", f"leave {name} out")
        elif lacking.any():
            what = f"{name} is missing altogether for {_some(lacking, values)}"
            yield Finding(NOTE, what, "these are fitted without it, apart from the others")
    if nothing.all():
        what = f"{target} has no value at all"
        yield Finding(STOPS, what, "choose another target with -t")
    elif nothing.any() and leaves:
        what = f"{nothing.sum():,} of {values.n_tasks:,} tasks have no {target}: masked"
        yield Finding(NOTE, what, "they are left out of the fit")
    elif nothing.any():
        what = _some(nothing, values, f" have no {target}")
        do = "leave them out with --masked leave, or drop them from the file"
        yield Finding(STOPS, what, do)


def _some(tasks: BoolArray, values: Values, what: str = "") -> str:
    """How many tasks these are, and the first of them."""
    first = values.tasks[int(np.argmax(tasks))]
    return f"{tasks.sum():,} of {tasks.size:,} tasks{what}, the first {first}"


def _constant(values: Values) -> Findings:
    flat = doubts.never_changes(values.target)
    if flat.any():
        first = values.tasks[int(np.argmax(flat))]
        what = f"{values.target_name} never changes in {flat.sum():,} of {flat.size:,} series"
        do = "leave these tasks out: there is nothing to explain"
        yield Finding(STOPS, f"{what}, the first that of {first}", do)
    for name, series in values.features.items():
        flat = doubts.never_changes(series)
        yield from _harms(doubts.flat_feature(name, flat, lambda: values.tasks, "task"))


def _gaps(values: Values) -> Findings:
    period, places = period_of(values.samples)
    for name, series in values.series.items():
        here = ~np.isnan(series).all(axis=0)
        gone = np.isnan(series[:, here])
        if not gone.any():
            continue
        share = float(gone.mean())
        percent = f"{100 * share:.0f}%" if share >= 0.095 else f"{100 * share:.2g}%"
        length, task = _longest(gone, places)
        long = several(length, "row") if period is None else period.steps(length)
        where = f" ({values.tasks[np.flatnonzero(here)[task]]})" if series.shape[1] > 1 else ""
        what = f"{name} has gaps: {percent} of its values, the longest {long}{where}"
        do = "gaps are left out, each pair of tasks compared on the rows both have"
        yield Finding(HARMS if share > 0.5 else NOTE, what, do)


def _rows(values: Values) -> Findings:
    """Complete rows of each task against the number of parameters."""
    n_features = len(values.features)
    counts = complete_rows(values).sum(axis=0)[~values.empty]
    if not counts.size:
        return
    if not counts.any():
        what = f"{values.target_name} and the features have no row in common: where the one has "
        do = "check the periods of target and features"
        yield Finding(STOPS, f"{what}values the others have none", do)
        return
    least = n_features + 3
    few = np.flatnonzero(counts < least)
    if few.size:
        first = values.tasks[int(np.flatnonzero(~values.empty)[few[0]])]
        what = f"{few.size:,} of {counts.size:,} tasks have fewer than {least} complete rows for "
        what += f"{n_features} {plural('feature', n_features)}, the first {first} with "
        do = "take fewer features, or use --solver ridge; these tasks lean on their neighbours"
        yield Finding(HARMS, f"{what}{counts[few[0]]}", do)
    middle = float(np.median(counts))
    if few.size < counts.size and middle < FEW_ROWS * (n_features + 1):
        what = f"there are {middle:.0f} complete rows per task for {n_features + 1} parameters: "
        what += f"{middle - n_features - 1:.0f} degrees of freedom"
        yield Finding(HARMS, what, "try --solver ridge, or fewer features")


def _collinear(values: Values) -> Findings:
    same = list(doubts.same_variables(values.target_name, values.series))
    yield from _harms(same)
    worst = max(_conditions(values), default=0.0) if len(values.features) > 1 and not same else 0.0
    if worst > DOUBTFUL:
        what = f"features are nearly dependent: the condition number is up to {worst:.1g}"
        yield Finding(HARMS, what, "leave features out, or use --solver ridge")


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


def _units(contents: Contents, values: Values) -> Findings:
    bare = [v.name for v in contents.variables if v.name in values.series and not v.units]
    if bare and contents.form == "arrays":
        what = f"{listed(bare, 6)} ha{'s' if len(bare) == 1 else 've'} no units"
        yield Finding(NOTE, what, "set the attribute units, and results carry them")


def complete_rows(values: Values, *, target: bool = True) -> BoolArray:
    """Whether a task has everything in a row; features that it never has are not asked for."""
    complete = np.ones(values.target.shape, dtype=bool)
    if target:
        complete &= np.isfinite(values.target)
    for series in values.features.values():
        complete &= np.isfinite(series) | np.isnan(series).all(axis=0)
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
