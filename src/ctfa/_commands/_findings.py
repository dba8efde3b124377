"""What is wrong with data, how much that matters, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from ctfa._commands._contents import Contents, Values, placed
from ctfa.core.libraries import need
from ctfa.core.types import BoolArray, IntArray
from ctfa.labelled._baseline import Untreated
from ctfa.labelled._doubts import (
    N_LOOKED_AT,
    Doubt,
    copied_targets,
    doubtful_fills,
    flat_feature,
    never_changes,
    same_variables,
    spread_over,
)
from ctfa.labelled._words import listed, several, word
from ctfa.report._words import plural

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
    changes = ~(values.empty | never_changes(values.target))
    return [
        *_text(values),
        *_infinite(values),
        *_times(values, contents.date_parts),
        *_labels(values),
        *_harms(doubtful_fills(values.series)),
        *_empty(values, leaves),
        # Of rows that come twice one is left, so that what is counted there is not the file's.
        *(() if values.n_twice else _constant(values)),
        *_harms(
            copied_targets(values.target_name, values.target, changes, lambda: values.tasks, "task")
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


def _times(values: Values, date_parts: list[str]) -> Iterator[Finding]:
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


def _harms(doubts: Iterable[Doubt]) -> Iterator[Finding]:
    return (Finding(HARMS, *doubt) for doubt in doubts)


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
    flat = never_changes(values.target)
    if flat.any():
        first = values.tasks[int(np.argmax(flat))]
        yield Finding(
            STOPS,
            f"{values.target_name} never changes in {flat.sum():,} of {flat.size:,} series, the "
            f"first that of {first}",
            "leave these tasks out: there is nothing to explain",
        )
    for name, series in values.features.items():
        yield from _harms(flat_feature(name, never_changes(series), lambda: values.tasks, "task"))


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
            f"there are {middle:.0f} complete rows a task for {n_features + 1} parameters: "
            f"{middle - n_features - 1:.0f} degrees of freedom",
            "try --solver ridge, or fewer features",
        )


def _collinear(values: Values) -> Iterator[Finding]:
    same = list(same_variables(values.target_name, values.series))
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
    for task in spread_over(values.n_tasks, N_LOOKED_AT).tolist():
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
