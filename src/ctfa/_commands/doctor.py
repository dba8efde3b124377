"""``ctfa doctor``: what is in a file, what is wrong with it, and how to fit it."""

from __future__ import annotations

import argparse
import shlex
import time
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
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
    PLACES,
    STOPS,
    Contents,
    Finding,
    Findings,
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
from ctfa.core.types import IntArray
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
TO_BEAT = "that is what a fit has to beat: its errors are shown beside theirs"
#: Tasks that are timed: few, and some more, to tell what grows from what does not.
FEW, MORE = 20, 60
#: With neighbours a merge is asked of edges, about as many as tasks; without, of all pairs.
ON_A_GRAPH, ALL_PAIRS = 1.0, 2.0
#: What goes wrong on the way of a fit.
GOES_WRONG = (ValueError, KeyError, TypeError, ImportError, OSError, ArithmeticError)


@dataclass
class Examination:
    """What was found."""

    contents: Contents
    roles: Roles
    values: Values | None = None
    findings: list[Finding] = field(default_factory=list)
    estimate: dict[str, Any] | None = None  # of the seconds that a fit takes, and what it rests on
    way: str | None = None  # of neighbours, where none was given
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

    def stopped_by(self, error: Exception) -> Finding:
        """An error as a finding."""
        return Finding(STOPS, terminal.in_words(error).rstrip("."))


@terminal.guarded
def run(options: argparse.Namespace) -> int:
    """Run it; return the exit code."""
    asked, _ = asked_for(options)
    with terminal.watched(options) as steps:
        data = selected(read_data(asked.files["data"], steps), selection(asked.options["select"]))
        seen = examined(data, asked, steps, timing=options.timing)
    command = suggestion(asked, seen, shown=options.data)
    if options.json:
        terminal.print_json(document(options.data, seen, command))
    else:
        show(terminal.path_text(asked.files["data"]), seen, command)
    return 1 if seen.stops else 0


def examined(data: Any, asked: RunFile, steps: terminal.Steps, *, timing: bool) -> Examination:
    """Everything that is found in data, what stops a fit first."""
    given = {name: asked.options[name] for name in ("features", "sample", "task")}
    contents, left_out = contents_of(data), list[str]()
    if contents.form == "arrays":
        data = by_conventions(data, left_out)
        contents = contents_of(data)
        data = without_layers(data, given["sample"], given["task"], left_out)
    # Where there is no column of dates, and none is named, several may be dates together.
    dated = any(v.kind == "time" or v.name == "date" for v in contents.variables)
    parts = [] if dated or given["sample"] is not None else contents.date_parts
    dates, how = make_dates(data, parts) if parts else (None, "")
    data = data if dates is None else data.assign(date=dates)
    known = contents_of(data)
    roles = guess_roles(
        known,
        target=one_or_all(asked.options["target"]),
        **{name: found for name, found in given.items() if found is not None},
    )
    data, layers = _first_of_layers(data, roles)
    seen = Examination(known if parts else contents, roles, layers=list(layers))
    _examine(seen, data, asked, steps, timing=timing and not layers)
    for name, what in layers.items():
        seen.findings.append(Finding(STOPS, what, f"choose one of them: --select {name}"))
    seen.findings += [Finding(NOTE, note) for note in left_out]
    if dates is not None:
        what = f"{', '.join(parts[:-1])} and {parts[-1]} are dates in several columns"
        seen.findings.append(Finding(STOPS, what, f"make one column of them: {how}"))
    seen.findings.sort(key=lambda finding: list(MARKS).index(finding.severity))
    seen.contents = contents
    return seen


def _first_of_layers(data: Any, roles: Roles) -> tuple[Any, dict[str, str]]:
    """Data at the first of several levels or members that the target has, and what these are."""
    layers: dict[str, str] = {}
    target: Any = data.get(roles.target) if hasattr(data, "data_vars") else None
    for dim in () if target is None else target.dims:
        if dim not in (roles.sample, *roles.task) and axis_of(dim, data.coords.get(dim)) == "Z":
            index = target.indexes.get(dim, range(target.sizes[dim]))
            what = f"{roles.target} has several values of {dim} ({listed(index, 6)})"
            layers[f"{dim}={word(index[0])}"] = what
            data = data.isel({dim: 0}, drop=True)
    return data, layers


def suggestion(asked: RunFile, seen: Examination, *, shown: str) -> str | None:
    """The command that fits this file; None where it is not known what to fit."""
    roles = seen.roles
    has_tasks = roles.task or isinstance(roles.target, list)
    if roles.target is None or not roles.features or not has_tasks:
        return None
    features = [name for name in roles.features if name not in seen.useless]
    words = ["ctfa", "fit", shown, "-t", ",".join(roles.targets), "-f", ",".join(features)]
    files = {name: terminal.path_text(path) for name, path in asked.files.items()}
    way = files.get("neighbours", asked.options["neighbours"] or seen.way)
    said = {"sample": roles.sample, "task": ",".join(roles.task), "neighbours": way}
    said["masked"] = "leave" if seen.masks else None
    for option, value in said.items():
        words += [f"--{option}", value] if value else []
    for found in seen.to_take_off:
        words += found.option_words.split()
    for layer in seen.layers:
        words += ["--select", layer]
    said = {name: value for name, value in said.items() if value or name != "masked"}
    words += _given(asked, {"target", "features", *said})
    words += ["--places", files["places"]] if "places" in files else []
    return shlex.join([*words, "-o", "run"])


def _given(asked: RunFile, said: set[str]) -> Iterator[str]:
    """Options that were given and are not in the command yet."""
    for name, value in asked.options.items():
        if name in said or value == DEFAULTS[name]:
            continue
        option = name.removeprefix("n_").replace("_", "-")
        if isinstance(value, bool):
            yield f"--{option}" if value else f"--no-{option}"
            continue
        # Lists of numbers are one value, others may be given again.
        each = value if isinstance(value, list) and not isinstance(value[0], int) else [value]
        for one in each:
            text = ",".join(map(str, one)) if isinstance(one, list) else str(one)
            yield from (f"--{option}", text)


def document(file: str, seen: Examination, command: str | None) -> dict[str, Any]:
    """Everything, for JSON."""
    values = seen.values
    return {
        "file": file,
        "contents": seen.contents,
        "period": values and values.period,
        "roles": seen.roles,
        "findings": seen.findings,
        "zeros": None if seen.zeros is None else seen.zeros.shares,
        "n_samples": values and len(values.target),
        "n_tasks": values and values.n_tasks,
        "estimate": seen.estimate,
        "command": command,
        "stops": seen.stops,
    }


def show(file: str, seen: Examination, command: str | None) -> None:
    """Print it for people."""
    contents, roles = seen.contents, seen.roles
    sizes = ", ".join(f"{size:,} {dim}" for dim, size in contents.sizes.items())
    terminal.print_styled(f"{file}: {contents.form} of {sizes}")
    if seen.values is not None and seen.values.period is not None:
        terminal.say(f"  {roles.sample}: {seen.values.period.words}")
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
    each = {"target": roles.targets, "features": roles.features, "sample": roles.sample or ""}
    for role, value in (each | {"task": roles.task}).items():
        names = value if isinstance(value, str) else ", ".join(value)
        terminal.say(f"  {role:9s} {names or '-'}{'  (guessed)' if role in roles.guessed else ''}")
    terminal.say("")
    terminal.print_styled("What was found" if seen.findings else "Nothing wrong was found")
    for finding, following in zip(seen.findings, [*seen.findings[1:], None], strict=True):
        mark, style = MARKS[finding.severity]
        terminal.print_styled(f"  {mark}  ", style, rest=f"{finding.what}.")
        # The same advice for one thing after another is given once, under the last.
        if finding.do and (following is None or following.do != finding.do):
            terminal.say(f"         {finding.do[0].upper()}{finding.do[1:]}.")
    terminal.say("")
    if seen.estimate is not None:
        terminal.say(f"A fit takes {estimate_in_words(**seen.estimate)}.")
    if command is not None:
        once = ", once what stops it is fixed" if seen.stops else ""
        terminal.print_styled(f"To fit it{once}")
        terminal.say(f"  {command}")


def _examine(
    seen: Examination, data: Any, asked: RunFile, steps: terminal.Steps, *, timing: bool
) -> None:
    """Look at everything; what cannot be looked at is a finding too."""
    contents, roles, options = seen.contents, seen.roles, asked.options
    sizes = data.sizes if hasattr(data, "data_vars") else {"the table": len(data)}
    empty = [str(name) for name, size in sizes.items() if not size]
    if empty:
        what = f"{empty[0]} has no {'values' if hasattr(data, 'data_vars') else 'rows'}"
        seen.findings.append(Finding(STOPS, what, "look whether the file was written whole"))
        return
    seen.findings += [*_names(contents, roles), *_left_out(contents, roles)]
    if seen.stops:
        return
    try:
        seen.values = values = values_of(data, roles)
    except (ValueError, KeyError, TypeError) as error:
        seen.findings.append(seen.stopped_by(error))
        return
    steps(f"looking at {values.n_tasks:,} tasks")
    try:
        samples = _samples(values, roles)
        if samples is not None:
            given = {name: options[name] for name in ("anomalies", "detrend")}
            seen.seasons = list(untreated(values.series, samples, **given))
            seen.zeros = explained(values.target, samples, Seasons.of(**given, samples=samples))
    except ValueError as error:  # seasons were asked for, of rows without dates
        seen.findings.append(seen.stopped_by(error))
    seen.findings += look_over(contents, values, options["masked"], seen.seasons)
    if seen.zeros is not None:
        what = f"without features, {seen.zeros.of(values.target_name)}"
        seen.findings.append(Finding(NOTE, what, TO_BEAT))
    seen.findings += _too_few(values, options["held_out"])
    seen.masks = bool(not values.is_grid and values.empty.any() and not values.empty.all())
    seen.way = _way(contents, values)
    if options["neighbours"] is None and "neighbours" not in asked.files:
        seen.findings += _positions(contents, values)
    if "features" in roles.guessed:
        # A feature that has one value, or none, in every task says nothing.
        useless = [
            name
            for name, series in values.features.items()
            if (never_changes(series) | np.isnan(series).all(axis=0)).all()
        ]
        seen.useless = useless if len(useless) < len(roles.features) else []
    if not values.own_rows:
        _as_fit_would(seen, data, asked, steps, timing=timing)


def _samples(values: Values, roles: Roles) -> Any:
    """The coordinate of the rows, as a fit has it; None where they have none, or are refused."""
    if values.own_rows:
        return None
    # Through an index, which knows times with a zone and those of other calendars.
    name = "row" if roles.sample is None else "time"
    index = need("pandas").Index(values.samples, name=name)
    return None if index.isna().any() else need("xarray").DataArray(index, dims=name, name=name)


def _names(contents: Contents, roles: Roles) -> Findings:
    """Names that are not there, and roles that cannot be guessed."""
    if not contents.variables:
        yield Finding(STOPS, "the file holds no variables", "check that it is the right one")
        return
    targets, is_table = roles.targets, contents.form == "table"
    names = [variable.name for variable in contents.variables]
    every = [*names, *contents.sizes, *(c.name for c in contents.coordinates)]
    sample = [] if roles.sample is None else [roles.sample]
    asked = {"target": targets, "feature": roles.features, "task": roles.task, "sample": sample}
    for role, wanted in asked.items():
        known = names if role in ("target", "feature") else every
        for name in wanted:
            if name not in known:
                what = f"there is no {role} {name!r} in the file{nearest(name, known)}"
                yield Finding(STOPS, what)
    if not targets and is_table and not roles.task:
        what = "it is not clear what to predict: no column says which task a row belongs to"
        do = (
            "where each target is a column of its own, name them all with -t (-t a,b,c); else name "
        )
        yield Finding(STOPS, what, f"{do}the target with -t and the column of tasks with --task")
    elif not targets:
        yield Finding(STOPS, "it is not clear what to predict", "name the target with -t")
    elif not roles.features:
        yield Finding(STOPS, "it is not clear what to predict from", "name features with -f")
    if not roles.task and len(targets) == 1:
        do = "name them with --task"
        if is_table:
            do = (
                "name their column with --task, or all columns of targets with -t (-t a,b,c) where "
            )
            do += "each is a task"
        yield Finding(STOPS, "it is not clear what the tasks are", do)


def _left_out(contents: Contents, roles: Roles) -> Findings:
    """Columns that could have been guessed, and why they were not."""
    if "features" not in roles.guessed and "target" not in roles.guessed:
        return
    used = {*roles.targets, *roles.features, *roles.task, roles.sample}
    for column in contents.variables:
        name, kind = column.name, column.kind
        if name not in used and kind == MIXED:
            do = f"write its missing values as empty cells, and {name} can be a feature"
            what = f"{name} has text among its numbers and was left out of the guess"
            yield Finding(HARMS, what, do)
        elif name not in used and kind == COUNTED:
            what = f"{name!r} looks like a row number and was left out of the guess"
            yield Finding(NOTE, what, "pandas writes one unless told df.to_csv(..., index=False)")


def _too_few(values: Values, held_out: Any) -> Findings:
    """Rows that are too few to be held out by a fit that is told nothing."""
    least, count = BLOCKS if values.n_tasks > MANY else 2 * BLOCKS, len(values.target)
    if held_out == "auto" and not values.own_rows and count < least:
        what = f"{count} row{' is' if count == 1 else 's are'} too few to hold some of them out: "
        do = "take more rows, or hold none out with --held-out none"
        yield Finding(STOPS, f"{what}{least} or more are needed", do)


def _way(contents: Contents, values: Values) -> str | None:
    """A rule of neighbours that fits these tasks."""
    if values.is_grid:
        return "queen" if values.n_tasks > 1 else None
    # Of a file of arrays a fit takes coordinates alone.
    placed = contents.coordinates if contents.form == "arrays" else contents.variables
    has = _pair(c.name for c in placed) is not None
    return f"nearest:{min(6, values.n_tasks - 1)}" if has and values.n_tasks > 2 else None


def _positions(contents: Contents, values: Values) -> Findings:
    """Positions that are variables of a file of arrays, where a fit does not look for them."""
    pair = _pair(v.name for v in contents.variables if len(v.dims) == 1)
    if pair is not None and contents.form == "arrays" and not values.is_grid:
        what = f"{pair[0]} and {pair[1]} are variables and not coordinates, so the tasks have no "
        do = f"make them coordinates, ds.set_coords({pair}), for --neighbours nearest:6 and maps"
        yield Finding(NOTE, f"{what}positions", do)


def _pair(names: Iterable[str]) -> list[str] | None:
    """Two names of these that say where something lies."""
    known = {name.lower(): name for name in names}
    return next(([known[a], known[b]] for a, b in PLACES[:3] if a in known and b in known), None)


def _as_fit_would(
    seen: Examination, data: Any, asked: RunFile, steps: terminal.Steps, *, timing: bool
) -> None:
    """Go the way a fit goes up to the first merge: what stops it there is told as it tells it."""
    roles, masked = seen.roles, asked.options["masked"]
    features = [name for name in roles.features if name not in seen.useless]
    task = one_or_all(roles.task) or None
    try:
        gathered, _, geometry = read_labelled(data, roles.target, features, roles.sample, task)
        arrays = arrange(gathered, "leave" if seen.masks and masked == "auto" else masked)
        given = arguments(asked, data, steps)
        asked_way, tasks = given["neighbours"], arrays.tasks
        outlines = read_outlines(given.get("places"), asked_way, geometry, tasks)
        try:
            graph = read_neighbours(seen.way if asked_way is None else asked_way, tasks, outlines)
        except ValueError:
            if asked_way is not None:
                raise
            seen.way = graph = None  # it was not asked for: it is not proposed
        seen.findings += _graph_findings(graph, tasks)
        if timing and not seen.stops:
            steps("timing fits of a few tasks")
            options = {name: given[name] for name in TIMED}
            options |= {found.option: found.value for found in seen.to_take_off}
            seen.estimate = estimate(gathered, graph, options)
    except GOES_WRONG as error:
        if not seen.stops:
            seen.findings.insert(0, seen.stopped_by(error))


def _graph_findings(graph: Any, tasks: Any) -> Findings:
    if graph is None:
        if tasks.n_tasks > 2:
            what = "no neighbours are given, so any two tasks may share a model"
            do = "name a file of polygons or a rule with --neighbours for connected regions"
            yield Finding(NOTE, what, do)
        return
    alone = islands(graph)
    if alone.size:
        severity = HARMS if alone.size > tasks.n_tasks / 10 else NOTE
        what = f"{alone.size:,} of {tasks.n_tasks:,} tasks have no neighbour, the first "
        do = "they stay by themselves; add pairs for them, or use nearest:6"
        yield Finding(severity, f"{what}{tasks.names[int(alone[0])]}", do)
    parts = components(graph)
    n_parts = int((parts > 1).sum())
    if n_parts > 1:
        what = f"the neighbours form {n_parts:,} parts with no border between them (the largest of "
        do = "regions never cross from one to another, as for islands and continents"
        yield Finding(NOTE, f"{what}{parts[0]:,} tasks)", do)


def spoken(seconds: float) -> str:
    """A time as people say it."""
    if seconds < 10:
        return f"{max(seconds, 1):.0f} s"
    if seconds < 90:
        return f"{round(seconds, -1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def estimate_in_words(seconds: float, n_tasks: int, n_timed: int) -> str:
    """An estimate, no more exact than it is, and what it rests on."""
    them = f"{n_timed:,} of the {n_tasks:,} tasks"
    if n_timed >= n_tasks:
        them = "its one task" if n_tasks == 1 else f"all {n_tasks:,} tasks"
    return f"about {spoken(seconds)} on this machine (an estimate, from fits of {them})"


def estimate(gathered: Gathered, graph: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Fit a few tasks that lie together, then some more, and go on from there."""
    arrays = arrange(gathered, "leave")
    n_tasks = arrays.tasks.n_tasks
    power = ALL_PAIRS if graph is None else ON_A_GRAPH
    sizes = sorted({min(FEW, max(n_tasks // 2, 2), n_tasks), min(MORE, n_tasks)})
    seconds = [_timed(gathered, arrays, graph, given, size) for size in sizes]
    # Each block that is held out is one fit more; rivals without merges cost little beside it.
    n_blocks = BLOCKS if n_tasks <= MANY else 1
    if given["held_out"] != "auto":
        n_blocks = int(given["held_out"] or 0)
    whole = (1 + n_blocks) * extrapolated(sizes, seconds, n_tasks, power)
    return {"seconds": whole, "n_tasks": n_tasks, "n_timed": sizes[-1]}


def extrapolated(sizes: list[int], seconds: list[float], n_tasks: int, power: float) -> float:
    """Go on by a fixed part and one that grows with a power of the tasks."""
    grown = [float(size) ** power for size in (*sizes, n_tasks)]
    rate = fixed = 0.0
    if len(sizes) > 1:
        rate = max(seconds[1] - seconds[0], 0.0) / (grown[1] - grown[0])
        fixed = max(seconds[1] - rate * grown[1], 0.0)
    if rate == 0.0:  # too quick to tell, or timed once: all of it grows
        rate, fixed = seconds[-1] / grown[-2], 0.0
    return float(fixed + rate * grown[-1])


def _timed(
    gathered: Gathered, arrays: Arrays, graph: Any, given: dict[str, Any], size: int
) -> float:
    """Seconds of a fit of so many tasks, with everything of theirs but their labels."""
    chosen, plan = together(graph, arrays.tasks.n_tasks, size), gathered.plan
    held = {plan.target: gathered.target.variable}
    held |= {str(slot.name): slot.variable for slot in gathered.features}
    samples = gathered.target.indexes.get(plan.sample)
    every = need("xarray").Dataset(held, {} if samples is None else {plan.sample: samples})
    stacked = every.stack(stacked=arrays.tasks.dims, create_index=False)
    stacked = stacked.isel(stacked=arrays.tasks.kept[chosen]).transpose(plan.sample, ...)
    own = {"held_out": None, "neighbours": None if graph is None else graph[chosen][:, chosen]}
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        labelled.fit(stacked, target=plan.target, sample=plan.sample, **(given | own))
    return time.perf_counter() - began


def together(graph: Any, n_tasks: int, size: int) -> IntArray:
    """Tasks that lie together, from the middle one on; without a graph any."""
    if graph is None:
        return np.linspace(0, n_tasks - 1, size).astype(np.intp)
    order, _ = sparse.csgraph.breadth_first_order(graph, n_tasks // 2, directed=False)
    rest = np.setdiff1d(np.arange(n_tasks), order)  # of other components, or islands
    return np.sort(np.concatenate([order, rest])[:size]).astype(np.intp)
