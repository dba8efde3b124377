"""Everything that is looked at in a file of data: its series, its neighbours, its time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ctfa._commands._contents import Contents, Period, period_of
from ctfa._commands._findings import HARMS, NOTE, STOPS, Finding, look_over
from ctfa._commands._fit_options import Asked
from ctfa._commands._guess import Roles
from ctfa._commands._inputs import arguments
from ctfa._commands._running import in_words
from ctfa._commands._terminal import Steps
from ctfa._commands._timing import Estimate, estimate
from ctfa._commands._values import Values, values_of
from ctfa.comparison._names import nearest
from ctfa.labelled._arrays import arrange
from ctfa.labelled._baseline import Untreated, untreated
from ctfa.labelled._extras import need
from ctfa.labelled._fit import read_labelled, read_outlines
from ctfa.labelled._neighbours import components, islands, read_neighbours

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
    seen.masks = not values.is_grid and _leaves_some(values)
    seen.way = _way(contents, values)
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
    if not targets:
        yield Finding(STOPS, "it is not clear what to predict", "name the target with -t")
    elif not roles.features:
        yield Finding(STOPS, "it is not clear what to predict from", "name features with -f")
    if not roles.task and len(targets) == 1:
        yield Finding(STOPS, "it is not clear what the tasks are", "name them with --task")


def _empty(data: Any) -> str:
    """What has no values at all; nothing for data with some."""
    if hasattr(data, "data_vars"):
        none = [str(dim) for dim, size in data.sizes.items() if not size]
        return f"{none[0]} has no values" if none else ""
    return "" if len(data) else "the table has no rows"


def _leaves_some(values: Values) -> bool:
    empty = np.isnan(values.target).all(axis=0)
    return bool(empty.any() and not empty.all())


def _way(contents: Contents, values: Values) -> str | None:
    """A way to be neighbours that these tasks have."""
    if values.is_grid:
        return "queen"
    names = {c.name.lower() for c in (*contents.coordinates, *contents.variables)}
    placed = {"lat", "lon"} <= names or {"latitude", "longitude"} <= names or {"x", "y"} <= names
    return f"nearest:{min(6, values.n_tasks - 1)}" if placed and values.n_tasks > 2 else None


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
        graph = read_neighbours(way, arrays.tasks, outlines)
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
