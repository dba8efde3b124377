"""The options of a fit: how they are asked for, and what they are in the end."""

from __future__ import annotations

import argparse
import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctfa import labelled
from ctfa._commands import _reading as read
from ctfa._commands._run_file import NAME, RunFile, read_run_file
from ctfa._kinds import NEIGHBOUR_RULES, suffixes_for

#: Options of a fit that are written to run.toml in words, or are files there.
_IN_WORDS = {"regressor": "linear", "layer": None}
_FILES = ("data", "places", "n_jobs")


def _defaults() -> dict[str, Any]:
    """Every option with its default, as in Python; None is left out of run.toml."""
    parameters = inspect.signature(labelled.fit).parameters.values()
    options = [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.name not in _FILES]
    found = {p.name: p.default for p in options}
    return found | _IN_WORDS


DEFAULTS = _defaults()


@dataclass(frozen=True)
class Asked:
    """What is to be fitted: the files, and every option."""

    files: dict[str, Path]
    options: dict[str, Any]

    @property
    def run(self) -> RunFile:
        """The same, to be written down."""
        return RunFile(self.files, self.options)


def add_data(parser: argparse.ArgumentParser) -> None:
    """Options that say what is in the data."""
    group = parser.add_argument_group("what is in the data")
    group.add_argument(
        "-t", "--target", action="append", type=read.names, metavar="NAME",
        help="the variable to predict; for a table with one column a task, all of them",
    )  # fmt: skip
    group.add_argument(
        "-f", "--features", action="append", type=read.names, metavar="A,B,...",
        help="the variables to predict from; may be given again (default: all others)",
    )  # fmt: skip
    group.add_argument(
        "--sample", metavar="NAME",
        help="the dimension or column of the rows (default: time, where there is one)",
    )  # fmt: skip
    group.add_argument(
        "--task", type=read.names, metavar="NAME",
        help="the dimension or column of the tasks, such as basin; lat,lon for a grid",
    )  # fmt: skip
    group.add_argument(
        "--neighbours", type=read.neighbours, metavar="FILE|WAY",
        help=f"who may share a model: polygons ({', '.join(suffixes_for('maps'))}), pairs of "
        f"labels (.csv), or {', '.join(rule.written for rule in NEIGHBOUR_RULES.values())} "
        "(default: anybody)",
    )  # fmt: skip
    group.add_argument(
        "--places", type=Path, metavar="FILE",
        help="polygons for the map, where --neighbours is not that file",
    )  # fmt: skip
    group.add_argument("--layer", metavar="NAME", help="the layer of a polygon file with several")


def add_treatment(parser: argparse.ArgumentParser) -> None:
    """Options that say what is done to the data before anything is fitted."""
    group = parser.add_argument_group("what is done to it first")
    group.add_argument(
        "--anomalies", choices=["month", "season", "dayofyear", "hour"],
        help="take off the mean of each month, season, ...",
    )  # fmt: skip
    _switch(group, "--detrend", "take off a straight line in time")
    _switch(group, "--standardise", "compare tasks in units of their own variance (default: yes)")
    group.add_argument(
        "--weights", metavar="area|NAME",
        help="how much a task counts in its region: by area, or by a coordinate or column",
    )  # fmt: skip
    group.add_argument(
        "--masked", choices=["auto", "leave", "error"],
        help="tasks without a single value: left out, or an error (default: left out of grids)",
    )  # fmt: skip


def add_method(parser: argparse.ArgumentParser) -> None:
    """Options that say how tasks are merged and regions fitted."""
    group = parser.add_argument_group("how tasks are merged and fitted")
    group.add_argument(
        "--max-loss", type=read.max_loss, metavar="NUMBER|auto",
        help="how far a merge may go: 1 is break-even, larger merges more (default: chosen on "
        "held-out rows)",
    )  # fmt: skip
    group.add_argument(
        "--aggregate", choices=["auto", "mean", "pool"],
        help="a region is predicted from its mean features, or its tasks keep their own and share "
        f"coefficients; auto: what does better on held-out rows (default: {DEFAULTS['aggregate']})",
    )  # fmt: skip
    group.add_argument(
        "--head", choices=["mean", "shrink"],
        help="a task is served by its region alone, or mixed with its own model "
        f"(default: {DEFAULTS['head']})",
    )  # fmt: skip
    group.add_argument("--regressor", choices=["linear", "ridge"], help="a region's own model")
    group.add_argument(
        "--solver", choices=["ols", "ridge"],
        help="the regressions that merges are judged by; ridge for many features and few rows",
    )  # fmt: skip
    _switch(
        group, "--merge-features",
        "also merge features of a region (default: only those that all tasks share)",
    )  # fmt: skip
    group.add_argument(
        "--cv", type=read.blocks, metavar="K",
        help="blocks of rows that --max-loss auto is chosen on (default: 10)",
    )  # fmt: skip
    group.add_argument(
        "--held-out", type=read.held_out, metavar="K|none",
        help="blocks of rows held out in turn to judge the result (default: 5; 1 for many tasks)",
    )  # fmt: skip
    group.add_argument("--title", help="what the report is headed by")


def add_common(parser: argparse.ArgumentParser, *, quiet: bool = True, json: bool = True) -> None:
    """Options that every command has."""
    group = parser.add_argument_group("what is printed")
    if json:
        group.add_argument("--json", action="store_true", help="one JSON document, nothing else")
    if quiet:
        group.add_argument("-q", "--quiet", action="store_true", help="no progress and no notes")
    group.add_argument("--debug", action="store_true", help="where an error happened, for a report")


def _switch(group: Any, name: str, words: str) -> None:
    group.add_argument(name, action=argparse.BooleanOptionalAction, default=None, help=words)


def asked_for(options: argparse.Namespace) -> tuple[Asked, RunFile | None]:
    """Everything a fit needs: options given come first, then those of a run file, then defaults."""
    before = _run_file(options)
    given: dict[str, Any] = {name: getattr(options, name, None) for name in DEFAULTS}
    for name in ("target", "features"):
        if given[name] is not None:
            given[name] = [one for several in given[name] for one in several]
    files = dict(before.files) if before else {"data": Path(options.data)}
    merged = DEFAULTS | (before.options if before else {})
    way = given.pop("neighbours")
    if way is not None:
        files.pop("neighbours", None)
        merged["neighbours"] = None if isinstance(way, Path) else way
        if isinstance(way, Path):
            files["neighbours"] = way
    if getattr(options, "places", None) is not None:
        files["places"] = options.places
    merged |= {name: value for name, value in given.items() if value is not None}
    return Asked({role: Path(p).absolute() for role, p in files.items()}, merged), before


def _run_file(options: argparse.Namespace) -> RunFile | None:
    given = getattr(options, "run_file", None)
    data = None if options.data is None else Path(options.data)
    if given is None and data is not None:
        if data.suffix.lower() == ".toml":
            given = data
        elif (data / NAME).is_file():
            given = data / NAME
    elif given is not None and data is not None:
        raise ValueError("give a data file or --from run.toml, not both.")
    if given is None:
        if data is None:
            raise ValueError("name a data file, such as basins.nc, or --from run.toml.")
        return None
    return read_run_file(Path(given), DEFAULTS)
