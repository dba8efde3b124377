"""``ctfa doctor``: what is in a file, what is wrong with it, and how to fit it."""

from __future__ import annotations

import argparse
import shlex
import time
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse

from ctfa import labelled
from ctfa._commands import _terminal as terminal
from ctfa._commands._asked import (
    DEFAULTS,
    RunFile,
    arguments,
    asked_for,
    one_or_all,
    read_data,
    selection,
)
from ctfa._commands._contents import (
    COUNTED,
    HARMS,
    MIXED,
    NOTE,
    STOPS,
    Contents,
    Finding,
    Period,
    Roles,
    Values,
    contents_of,
    guess_roles,
    look_over,
    make_dates,
    values_of,
)
from ctfa._text import nearest
from ctfa.core.libraries import need
from ctfa.core.types import FloatArray, IntArray
from ctfa.labelled._doubts import never_changes
from ctfa.labelled._fit import read_labelled, read_outlines
from ctfa.labelled._labels import selected
from ctfa.labelled._places import components, islands, read_neighbours
from ctfa.labelled._reading import Arrays, Gathered, arrange, by_conventions, without_layers
from ctfa.labelled._tasks import axis_of
from ctfa.labelled._times import Explained, Seasons, Untreated, explained, untreated
from ctfa.labelled._words import listed, word
from ctfa.report._complete import BLOCKS, MANY

#: Marks and colours of findings.
MARKS = {STOPS: ("stops", "bold red"), HARMS: ("harms", "yellow"), NOTE: ("note ", "cyan")}
#: Variables of a file that are listed.
MOST_VARIABLES = 40
#: Options that a fit of some of the tasks takes as that of all does.
TIMED = (
    "solver", "head", "aggregate", "max_loss", "standardise", "held_out", "cv", "regressor",
    "merge_features", "anomalies", "detrend",
)  # fmt: skip

#: What to make of what explains the target without features.
TO_BEAT = "that is what a fit has to beat: its errors are told beside theirs"

#: Tasks that are timed: few, and some more, to tell what grows from what does not.
FEW, MORE = 20, 60
#: With neighbours a merge is asked of edges, about as many as tasks; without, of all pairs.
ON_A_GRAPH, ALL_PAIRS = 1.0, 2.0


@dataclass(frozen=True)
class Estimate:
    """An estimate, and what it rests on."""

    seconds: float
    n_tasks: int
    n_timed: int

    @property
    def words(self) -> str:
        """In words, no more exact than it is."""
        if self.n_timed >= self.n_tasks:
            them = "its one task" if self.n_tasks == 1 else f"all {self.n_tasks:,} tasks"
        else:
            them = f"{self.n_timed:,} of the {self.n_tasks:,} tasks"
        return f"about {spoken(self.seconds)} on this machine (an estimate, from fits of {them})"


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
    zeros: Explained | None = None  # what explains the target without features
    useless: list[str] = field(default_factory=list)  # guessed features that explain nothing
    layers: list[str] = field(default_factory=list)  # the first level of each dimension of levels

    @property
    def stops(self) -> bool:
        """Whether something stops a fit."""
        return any(finding.severity == STOPS for finding in self.findings)

    @property
    def to_take_off(self) -> list[Untreated]:
        """Seasons and trends that the target has."""
        return [found for found in self.seasons if found.in_target]


@terminal.guarded
def run(options: argparse.Namespace) -> int:
    """Run it; return the exit code."""
    asked, _ = asked_for(options)
    with terminal.watched(options) as steps:
        data = selected(read_data(asked.files["data"], steps), selection(asked.options["select"]))
        contents = contents_of(data)
        left_out: list[str] = []
        if contents.form == "arrays":
            data = by_conventions(data, left_out)
            contents = contents_of(data)
            data = without_layers(data, asked.options["sample"], asked.options["task"], left_out)
        # Where there is no column of dates, and none is named, several may be dates together.
        undated = asked.options["sample"] is None and not contents.has_dates
        known, parts = contents_of(data), contents.date_parts if undated else []
        dates, how = make_dates(data, parts) if parts else (None, "")
        if dates is not None:
            data = data.assign(date=dates)
            known = contents_of(data)
        roles = guess_roles(
            known,
            target=one_or_all(asked.options["target"]),
            features=asked.options["features"] or (),
            sample=asked.options["sample"],
            task=asked.options["task"] or (),
        )
        data, layers = _first_of_layers(data, roles)
        timing = options.timing and not layers
        seen = examine(data, known if parts else contents, roles, asked, steps, timing=timing)
        for name, what in layers.items():
            seen.findings.append(Finding(STOPS, what, f"choose one of them: --select {name}"))
        seen.layers = list(layers)
        seen.findings += [Finding(NOTE, note) for note in left_out]
        if dates is not None:
            what = f"{', '.join(parts[:-1])} and {parts[-1]} are dates in several columns"
            seen.findings.append(Finding(STOPS, what, f"make one column of them: {how}"))
        seen.findings.sort(key=lambda finding: list(MARKS).index(finding.severity))
    command = suggestion(asked, roles, seen, shown=options.data)
    if options.json:
        terminal.print_json(document(options.data, contents, roles, seen, command))
    else:
        show(terminal.path_text(asked.files["data"]), contents, roles, seen, command)
    return 1 if seen.stops else 0


def _first_of_layers(data: Any, roles: Roles) -> tuple[Any, dict[str, str]]:
    """Data at the first of several levels or members that the target has, and what these are."""
    layers: dict[str, str] = {}
    target: Any = data.get(roles.target) if hasattr(data, "data_vars") else None
    for dim in () if target is None else target.dims:
        if dim not in (roles.sample, *roles.task) and axis_of(dim, data.coords.get(dim)) == "Z":
            index = target.indexes.get(dim, range(target.sizes[dim]))
            values = listed(index, 6)
            layers[f"{dim}={word(index[0])}"] = (
                f"{roles.target} has several values of {dim} ({values})"
            )
            data = data.isel({dim: 0}, drop=True)
    return data, layers


def suggestion(asked: RunFile, roles: Roles, seen: Examination, *, shown: str) -> str | None:
    """The command that fits this file; None where it is not known what to fit."""
    has_tasks = roles.task or isinstance(roles.target, list)
    if roles.target is None or not roles.features or not has_tasks:
        return None
    features = [name for name in roles.features if name not in seen.useless]
    words = ["ctfa", "fit", shown, "-t", ",".join(roles.targets), "-f", ",".join(features)]
    way = asked.options["neighbours"] or seen.way
    if "neighbours" in asked.files:
        way = terminal.path_text(asked.files["neighbours"])
    said = {"sample": roles.sample, "task": ",".join(roles.task), "neighbours": way}
    said["masked"] = "leave" if seen.masks else None
    for option, value in said.items():
        words += [f"--{option}", value] if value else []
    for found in seen.to_take_off:
        words += found.option_words.split()
    for layer in seen.layers:
        words += ["--select", layer]
    words += _given(asked, {"masked"} if seen.masks else set())
    return shlex.join([*words, "-o", "run"])


def _given(asked: RunFile, said: set[str]) -> Iterator[str]:
    """Options that were given and are not in the command yet."""
    said = said | {"target", "features", "sample", "task", "neighbours"}
    for name, value in asked.options.items():
        if name in said or value == DEFAULTS[name]:
            continue
        option = name.removeprefix("n_").replace("_", "-")
        if isinstance(value, bool):
            yield f"--{option}" if value else f"--no-{option}"
        elif isinstance(value, list):
            for choice in value:
                one = choice if isinstance(choice, str) else ",".join(map(str, choice))
                yield from (f"--{option}", one)
        else:
            several = isinstance(value, list)
            yield from (f"--{option}", ",".join(map(str, value)) if several else str(value))
    if "places" in asked.files:
        yield from ("--places", terminal.path_text(asked.files["places"]))


def document(
    file: str, contents: Contents, roles: Roles, seen: Examination, command: str | None
) -> dict[str, Any]:
    """Everything, for JSON."""
    return {
        "file": file,
        "contents": contents,
        "period": seen.period,
        "roles": roles,
        "findings": seen.findings,
        "zeros": None if seen.zeros is None else seen.zeros.shares,
        "n_samples": seen.n_samples,
        "n_tasks": seen.n_tasks,
        "estimate": seen.estimate,
        "command": command,
        "stops": seen.stops,
    }


def show(
    file: str, contents: Contents, roles: Roles, seen: Examination, command: str | None
) -> None:
    """Print it for people."""
    sizes = ", ".join(f"{size:,} {dim}" for dim, size in contents.sizes.items())
    terminal.print_styled(f"{file}: {contents.form} of {sizes}")
    if seen.period is not None:
        terminal.say(f"  {roles.sample}: {seen.period.words}")
    rows = [
        [v.name, " x ".join(v.dims), v.kind, v.units or "-", v.words or ""]
        for v in contents.variables[:MOST_VARIABLES]
    ]
    columns = ["variable", "dimensions", "holds", "units", "what it is"]
    terminal.print_table(columns, rows, words=columns)
    if len(contents.variables) > MOST_VARIABLES:
        terminal.say(f"and {len(contents.variables) - MOST_VARIABLES:,} more")
    terminal.say("")
    terminal.print_styled("What is what")
    for role, value in (
        ("target", ", ".join(roles.targets)),
        ("features", ", ".join(roles.features)),
        ("sample", roles.sample or ""),
        ("task", ", ".join(roles.task)),
    ):
        guessed = "  (guessed)" if role in roles.guessed else ""
        terminal.say(f"  {role:9s} {value or '-'}{guessed}")
    terminal.say("")
    terminal.print_styled("What was found" if seen.findings else "Nothing wrong was found")
    for number, finding in enumerate(seen.findings):
        mark, style = MARKS[finding.severity]
        terminal.print_styled(f"  {mark}  ", style, rest=f"{finding.what}.")
        # The same advice for one thing after another is given once, under the last.
        following = seen.findings[number + 1 : number + 2]
        if finding.do and [f.do for f in following] != [finding.do]:
            terminal.say(f"         {finding.do[0].upper()}{finding.do[1:]}.")
    terminal.say("")
    if seen.estimate is not None:
        terminal.say(f"A fit takes {seen.estimate.words}.")
    if command is not None:
        terminal.print_styled(
            "To fit it" if not seen.stops else "To fit it, once what stops it is mended"
        )
        terminal.say(f"  {command}")


def examine(
    data: Any,
    contents: Contents,
    roles: Roles,
    asked: RunFile,
    steps: terminal.Steps,
    *,
    timing: bool,
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
        seen.findings.append(Finding(STOPS, terminal.in_words(error).rstrip(".")))
        return seen
    seen.n_samples, seen.n_tasks = values.n_samples, values.n_tasks
    seen.period = values.period
    steps(f"looking at {values.n_tasks:,} tasks")
    try:
        samples = _samples(values, roles)
        if samples is not None:
            given = {name: asked.options[name] for name in ("anomalies", "detrend")}
            seen.seasons = list(untreated(values.series, samples, **given))
            seen.zeros = explained(values.target, samples, Seasons.of(**given, samples=samples))
    except ValueError as error:  # seasons were asked for, of rows without dates
        seen.findings.append(Finding(STOPS, terminal.in_words(error).rstrip(".")))
    seen.findings += look_over(contents, values, asked.options["masked"], seen.seasons)
    if seen.zeros is not None:
        what = f"without features, {seen.zeros.of(values.target_name)}"
        seen.findings.append(Finding(NOTE, what, TO_BEAT))
    seen.findings += _too_few(values, asked.options["held_out"])
    seen.masks = bool(not values.is_grid and values.empty.any() and not values.empty.all())
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


def _samples(values: Values, roles: Roles) -> Any:
    """The coordinate of the rows, as a fit has it; None where they have none, or are refused."""
    if values.own_rows:
        return None
    # Through an index, which knows times with a zone and those of other calendars.
    name = "row" if roles.sample is None else "time"
    index = need("pandas").Index(values.samples, name=name)
    return None if index.isna().any() else need("xarray").DataArray(index, dims=name, name=name)


def _names(contents: Contents, roles: Roles) -> Iterator[Finding]:
    """Names that are not there, and roles that nobody can guess."""
    if not contents.variables:
        yield Finding(STOPS, "the file holds no variables", "check that it is the right one")
        return
    targets = roles.targets
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
    used = {*roles.targets, *roles.features, *roles.task, roles.sample}
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


def _way(contents: Contents, values: Values) -> str | None:
    """A way to be neighbours that these tasks have."""
    if values.is_grid:
        return "queen" if values.n_tasks > 1 else None
    # Of a file of arrays a fit takes coordinates alone.
    placed = contents.coordinates if contents.form == "arrays" else contents.variables
    has = _pair(c.name for c in placed) is not None
    return f"nearest:{min(6, values.n_tasks - 1)}" if has and values.n_tasks > 2 else None


def _positions(contents: Contents, values: Values, asked: RunFile) -> Iterator[Finding]:
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
    data: Any,
    roles: Roles,
    asked: RunFile,
    seen: Examination,
    steps: terminal.Steps,
    *,
    timing: bool,
) -> None:
    """Go the way a fit goes up to the first merge: what stops it there is told as it tells it."""
    masked = asked.options["masked"]
    try:
        gathered, _, geometry = read_labelled(
            data, roles.target, roles.features, roles.sample, one_or_all(roles.task) or None
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
            seen.findings.insert(0, Finding(STOPS, terminal.in_words(error).rstrip(".")))


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


def spoken(seconds: float) -> str:
    """A time as people say it."""
    if seconds < 10:
        return f"{max(seconds, 1):.0f} s"
    if seconds < 90:
        return f"{round(seconds, -1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def estimate(gathered: Gathered, graph: Any, given: dict[str, Any], masked: str) -> Estimate:
    """Fit a few tasks that lie together, then some more, and go on from there."""
    arrays = arrange(gathered, masked)
    n_tasks = arrays.tasks.n_tasks
    power = ALL_PAIRS if graph is None else ON_A_GRAPH
    sizes = sorted({min(FEW, max(n_tasks // 2, 2), n_tasks), min(MORE, n_tasks)})
    seconds = [_timed(gathered, arrays, graph, given, size) for size in sizes]
    whole = extrapolated(sizes, seconds, n_tasks, power)
    # Each block that is held out is one fit more; rivals without merges cost little beside it.
    return Estimate((1 + _n_blocks(given["held_out"], n_tasks)) * whole, n_tasks, sizes[-1])


def _n_blocks(held_out: Any, n_tasks: int) -> int:
    if held_out == "auto":
        return BLOCKS if n_tasks <= MANY else 1
    return 0 if held_out is None else int(held_out)


def extrapolated(sizes: list[int], seconds: list[float], n_tasks: int, power: float) -> float:
    """Go on by a fixed part and one that grows with a power of the tasks."""
    if len(sizes) == 1:
        return float(seconds[0] * (n_tasks / sizes[0]) ** power)
    few, more = (float(size) ** power for size in sizes)
    rate = max(seconds[1] - seconds[0], 0.0) / (more - few)
    fixed = max(seconds[1] - rate * more, 0.0)
    if rate == 0.0:  # too quick to tell: all of it grows
        rate, fixed = seconds[1] / more, 0.0
    return float(fixed + rate * float(n_tasks) ** power)


def _timed(
    gathered: Gathered, arrays: Arrays, graph: Any, given: dict[str, Any], size: int
) -> float:
    chosen = together(graph, arrays.tasks.n_tasks, size)
    stacked = _stacked(gathered, arrays, chosen)
    own = dict(given) | {"neighbours": None if graph is None else graph[chosen][:, chosen]}
    own["held_out"] = None
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        labelled.fit(stacked, target=gathered.plan.target, sample=gathered.plan.sample, **own)
    return time.perf_counter() - began


def together(graph: Any, n_tasks: int, size: int) -> IntArray:
    """Tasks that lie together, from the middle one on; without a graph any."""
    if graph is None:
        return np.linspace(0, n_tasks - 1, size).astype(np.intp)
    order, _ = sparse.csgraph.breadth_first_order(graph, n_tasks // 2, directed=False)
    rest = np.setdiff1d(np.arange(n_tasks), order)  # of other components, or islands
    return np.sort(np.concatenate([order, rest])[:size]).astype(np.intp)


def _stacked(gathered: Gathered, arrays: Arrays, chosen: IntArray) -> Any:
    """Some of the tasks along one dimension, with everything of theirs but their labels."""
    sample = gathered.plan.sample
    held = {gathered.plan.target: gathered.target.variable}
    held |= {str(slot.name): slot.variable for slot in gathered.features}
    samples = gathered.target.indexes.get(sample)
    every = need("xarray").Dataset(held, {} if samples is None else {sample: samples})
    stacked = every.stack(stacked=arrays.tasks.dims, create_index=False)
    return stacked.isel(stacked=arrays.tasks.kept[chosen]).transpose(sample, ...)
