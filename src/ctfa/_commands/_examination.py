"""Everything that is looked at in a file of data: its series, its neighbours, its time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ctfa._commands._contents import COUNTED, MIXED, Contents, Period, period_of
from ctfa._commands._findings import HARMS, NOTE, STOPS, Finding, look_over
from ctfa._commands._fit_options import Asked
from ctfa._commands._guess import Roles
from ctfa._commands._inputs import arguments
from ctfa._commands._running import in_words
from ctfa._commands._terminal import Steps
from ctfa._commands._timing import Estimate, estimate
from ctfa._commands._values import Values, values_of
from ctfa._names import nearest
from ctfa.core.types import FloatArray
from ctfa.labelled._arrays import arrange
from ctfa.labelled._baseline import Untreated, untreated
from ctfa.labelled._doubts import never_changes
from ctfa.labelled._extras import need
from ctfa.labelled._fit import read_labelled, read_outlines
from ctfa.labelled._neighbours import components, islands, read_neighbours
from ctfa.report._held_out import BLOCKS, MANY

#: Options that a fit of some of the tasks takes as that of all does.
TIMED = (
    "solver", "head", "aggregate", "max_loss", "standardise", "held_out", "cv", "regressor",
    "merge_features", "anomalies", "detrend",
)  # fmt: skip


@dataclass
class Examination:
    """What was found."""

    findings: list[Finding] = field(default_factory=list)
    period: Period | None = None
    n_samples: int | None = None
    n_tasks: int | None = None
    estimate: Estimate | None = None
    way: str | None = None  # to be neighbours, where nobody gave one
    masks: bool = False  # whether tasks without data have to be left out
    seasons: list[Untreated] = field(default_factory=list)  # seasons and trends
    useless: list[str] = field(default_factory=list)  # guessed features that explain nothing

    @property
    def stops(self) -> bool:
        """Whether something stops a fit."""
        return any(finding.severity == STOPS for finding in self.findings)

    @property
    def to_take_off(self) -> list[Untreated]:
        """Seasons and trends that the target has."""
        return [found for found in self.seasons if found.in_target]


def examine(
    data: Any, contents: Contents, roles: Roles, asked: Asked, steps: Steps, *, timing: bool
) -> Examination:
    """Look at everything; what cannot be looked at is a finding too."""
    seen = Examination()
    empty = _empty(data)
    if empty:
        seen.findings.append(Finding(STOPS, empty, "look whether the file was written whole"))
        return seen
    seen.findings += _names(contents, roles)
    seen.findings += _left_out(contents, roles)
    if seen.stops:
        return seen
    try:
        values = values_of(data, roles)
    except (ValueError, KeyError, TypeError) as error:
        seen.findings.append(Finding(STOPS, in_words(error).rstrip(".")))
        return seen
    seen.n_samples, seen.n_tasks = values.n_samples, values.n_tasks
    seen.period = period_of(values.samples)
    steps(f"looking at {values.n_tasks:,} tasks")
    try:
        seen.seasons = _seasons(values, asked.options)
    except ValueError as error:  # seasons were asked for, of rows without dates
        seen.findings.append(Finding(STOPS, in_words(error).rstrip(".")))
    seen.findings += look_over(contents, values, asked.options["masked"], seen.seasons)
    seen.findings += _too_few(values, asked.options["held_out"])
    seen.masks = not values.is_grid and _leaves_some(values)
    seen.way = _way(contents, values)
    seen.findings += _positions(contents, values, asked)
    if "features" in roles.guessed:
        flat = [n for n, series in values.features.items() if _says_nothing(series)]
        if len(flat) < len(roles.features):
            seen.useless = flat
            roles = replace(roles, features=[n for n in roles.features if n not in flat])
    if not values.own_rows:
        _as_fit_would(data, roles, asked, seen, steps, timing=timing)
    return seen


def _seasons(values: Values, options: dict[str, Any]) -> list[Untreated]:
    """Seasons and trends that a fit with these options would leave in."""
    if values.own_rows:
        return []
    # Through an index, which knows times with a zone and those of other calendars.
    index = need("pandas").Index(values.samples, name="time")
    if index.isna().any():
        return []  # a fit is refused
    samples = need("xarray").DataArray(index, dims="time")
    asked = {name: options[name] for name in ("anomalies", "detrend")}
    return list(untreated(values.series, samples, **asked))


def _names(contents: Contents, roles: Roles) -> Iterator[Finding]:
    """Names that are not there, and roles that nobody can guess."""
    if not contents.variables:
        yield Finding(STOPS, "the file holds no variables", "check that it is the right one")
        return
    targets = [roles.target] if isinstance(roles.target, str) else roles.target or []
    every = [*contents.names, *contents.sizes, *(c.name for c in contents.coordinates)]
    asked = {"target": targets, "feature": roles.features, "task": roles.task}
    asked["sample"] = [roles.sample] if roles.sample else []
    for role, names in asked.items():
        known = contents.names if role in ("target", "feature") else every
        for name in names:
            if name not in known:
                yield Finding(
                    STOPS, f"there is no {role} {name!r} in the file{nearest(name, known)}"
                )
    if not targets and contents.form == "table" and not roles.task:
        yield Finding(
            STOPS,
            "it is not clear what to predict: no column says which task a row belongs to",
            "where each target is a column of its own, name them all with -t (-t a,b,c); else name "
            "the target with -t and the column of tasks with --task",
        )
    elif not targets:
        yield Finding(STOPS, "it is not clear what to predict", "name the target with -t")
    elif not roles.features:
        yield Finding(STOPS, "it is not clear what to predict from", "name features with -f")
    if not roles.task and len(targets) == 1:
        by_column = ", or all columns of targets with -t (-t a,b,c) where each is a task"
        yield Finding(
            STOPS,
            "it is not clear what the tasks are",
            f"name their column with --task{by_column}"
            if contents.form == "table"
            else "name them with --task",
        )


def _left_out(contents: Contents, roles: Roles) -> Iterator[Finding]:
    """Columns that could have been guessed, and why they were not."""
    if "features" not in roles.guessed and "target" not in roles.guessed:
        return
    targets = [roles.target] if isinstance(roles.target, str) else roles.target or []
    used = {*targets, *roles.features, *roles.task, roles.sample}
    for column in contents.variables:
        if column.name in used:
            continue
        if column.kind == MIXED:
            yield Finding(
                HARMS,
                f"{column.name} has text among its numbers and was left out of the guess",
                f"write its missing values as empty cells, and {column.name} can be a feature",
            )
        elif column.kind == COUNTED:
            yield Finding(
                NOTE,
                f"{column.name!r} looks like a row number and was left out of the guess",
                "pandas writes one unless told df.to_csv(..., index=False)",
            )


def _empty(data: Any) -> str:
    """What has no values at all; nothing for data with some."""
    if hasattr(data, "data_vars"):
        none = [str(dim) for dim, size in data.sizes.items() if not size]
        return f"{none[0]} has no values" if none else ""
    return "" if len(data) else "the table has no rows"


def _too_few(values: Values, held_out: Any) -> Iterator[Finding]:
    """Rows that are too few to be held out by a fit that is told nothing."""
    least = BLOCKS if values.n_tasks > MANY else 2 * BLOCKS
    if held_out == "auto" and not values.own_rows and values.n_samples < least:
        count = values.n_samples
        yield Finding(
            STOPS,
            f"{count} row{' is' if count == 1 else 's are'} too few to hold some of them out: "
            f"{least} or more are needed",
            "take more rows, or hold none out with --held-out none",
        )


def _leaves_some(values: Values) -> bool:
    empty = np.isnan(values.target).all(axis=0)
    return bool(empty.any() and not empty.all())


def _way(contents: Contents, values: Values) -> str | None:
    """A way to be neighbours that these tasks have."""
    if values.is_grid:
        return "queen" if values.n_tasks > 1 else None
    # Of a file of arrays a fit takes coordinates alone.
    placed = contents.coordinates if contents.form == "arrays" else contents.variables
    has = _pair(c.name for c in placed) is not None
    return f"nearest:{min(6, values.n_tasks - 1)}" if has and values.n_tasks > 2 else None


def _positions(contents: Contents, values: Values, asked: Asked) -> Iterator[Finding]:
    """Positions that are variables of a file of arrays, where a fit does not look for them."""
    variables = [v.name for v in contents.variables if len(v.dims) == 1]
    pair = None if contents.form != "arrays" or values.is_grid else _pair(variables)
    if pair is not None and asked.options["neighbours"] is None and "neighbours" not in asked.files:
        yield Finding(
            NOTE,
            f"{pair[0]} and {pair[1]} are variables and not coordinates, so the tasks have no "
            "positions",
            f"make them coordinates, ds.set_coords({pair}), for --neighbours nearest:6 and maps",
        )


def _pair(names: Iterable[str]) -> list[str] | None:
    """Two names of these that say where something lies."""
    known = {name.lower(): name for name in names}
    pairs = (("lat", "lon"), ("latitude", "longitude"), ("x", "y"))
    return next(([known[a], known[b]] for a, b in pairs if a in known and b in known), None)


def _says_nothing(series: FloatArray) -> bool:
    """Whether a feature has one value, or none, in every task."""
    return bool((never_changes(series) | np.isnan(series).all(axis=0)).all())


def _as_fit_would(
    data: Any, roles: Roles, asked: Asked, seen: Examination, steps: Steps, *, timing: bool
) -> None:
    """Go the way a fit goes up to the first merge: what stops it there is told as it tells it."""
    masked = asked.options["masked"]
    try:
        gathered, _, geometry = read_labelled(
            data, roles.target, roles.features, roles.sample, _task(roles)
        )
        arrays = arrange(gathered, "leave" if seen.masks and masked == "auto" else masked)
        given = arguments(asked, data, steps)
        way = given["neighbours"] if given["neighbours"] is not None else seen.way
        outlines = read_outlines(given.get("places"), given["neighbours"], geometry, arrays.tasks)
        try:
            graph = read_neighbours(way, arrays.tasks, outlines)
        except ValueError:
            if given["neighbours"] is not None:
                raise
            seen.way = graph = None  # nobody asked for it: it is not proposed
        seen.findings += _graph_findings(graph, arrays.tasks)
        if timing and not seen.stops:
            steps("timing fits of a few tasks")
            options = {name: given[name] for name in TIMED}
            options |= {found.option: found.value for found in seen.to_take_off}
            seen.estimate = estimate(gathered, graph, options, "leave")
    except (ValueError, KeyError, TypeError, ImportError, OSError, ArithmeticError) as error:
        if not seen.stops:
            seen.findings.insert(0, Finding(STOPS, in_words(error).rstrip(".")))


def _task(roles: Roles) -> Any:
    return roles.task[0] if len(roles.task) == 1 else tuple(roles.task) or None


def _graph_findings(graph: Any, tasks: Any) -> Iterator[Finding]:
    if graph is None:
        if tasks.n_tasks > 2:
            yield Finding(
                NOTE,
                "no neighbours are given, so any two tasks may share a model",
                "name a file of polygons or a way with --neighbours for regions that hang together",
            )
        return
    alone = islands(graph)
    if alone.size:
        yield Finding(
            HARMS if alone.size > tasks.n_tasks / 10 else NOTE,
            f"{alone.size:,} of {tasks.n_tasks:,} tasks have no neighbour, the first "
            f"{tasks.names[int(alone[0])]}",
            "they stay by themselves; add pairs for them, or use nearest:6",
        )
    parts = components(graph)
    n_parts = int((parts > 1).sum())
    if n_parts > 1:
        yield Finding(
            NOTE,
            f"the neighbours form {n_parts:,} parts with no border between them (the largest of "
            f"{parts[0]:,} tasks)",
            "regions never cross from one to another, as for islands and continents",
        )
