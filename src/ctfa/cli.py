"""The command line: ``ctfa COMMAND``. A command imports what it runs, and only when it is run."""

from __future__ import annotations

import argparse
import importlib
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from ctfa import __version__
from ctfa._commands import _options
from ctfa._commands._terminal import (
    PROBLEM,
    UNREAD,
    OutputLost,
    flush,
    lead_nowhere,
    note,
    open_streams,
    say,
)
from ctfa._text import visible

#: Every command with its line of help, in the order in which help shows them.
COMMANDS = {
    "doctor": "what is in a file, what is wrong with it, and how to fit it",
    "fit": "find regions in a file of data, and write maps, models and a report",
    "predict": "predict from other data with the models of a run",
    "report": "write the report page of a run, or open it in a browser",
    "path": "regions and held-out error for every limit",
    "why": "why a task is in its region, and what was refused",
    "demo": "both phases on generated examples: what was merged, what it gained, a report page",
    "datasets": "real data sets with a loader, and which of them are here; or all about one",
    "baselines": "methods side by side on the same splits of a data set",
    "reproduce": "the paper's numbers, ours, and why they differ",
}
#: Where they are run, if not in a module of their name; the study also describes its own there.
STUDY = {
    "baselines": "ctfa_study.comparison.command",
    "reproduce": "ctfa_study.reproduction.command",
}
RUNS = dict.fromkeys(("fit", "predict", "report", "path", "why"), "ctfa._commands.runs")
EPILOG = """\
start here:
  ctfa doctor basins.nc          what is in the file, and the command that fits it
  ctfa demo                      the method on a generated example
  ctfa COMMAND --help            options and examples of one command
"""
#: A label of a grid's cell, such as -33.5,151.2: no option begins with a number.
NEGATIVE = re.compile(r"-[\d.][^=]*,.*")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code."""
    with open_streams():
        try:
            try:
                code = _run(sys.argv[1:] if arguments is None else arguments)
            except SystemExit:  # help, or wrong usage
                flush()
                raise
            flush()
        except OutputLost as lost:
            lead_nowhere(sys.stdout)
            if isinstance(lost.__cause__, BrokenPipeError):  # ctfa ... | head: nothing more to say
                return UNREAD
            note(f"ctfa: standard output cannot be written to: {lost}.")
            return PROBLEM
    return code


class _Parser(argparse.ArgumentParser):
    """One that speaks as the commands do: argparse itself hides what happens to its output."""

    def print_help(self, file: Any = None) -> None:
        if file is None:
            say(*self.format_help().removesuffix("\n").split("\n"))
        else:
            super().print_help(file)

    def error(self, message: str) -> NoReturn:
        super().error(visible(message))


def _run(given: Sequence[str]) -> int:
    parser = _Parser(
        prog="ctfa",
        description="Aggregate related regression targets and their features.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"ctfa {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    # Options before the command take no values: the first other word names it.
    asked = next((word for word in given if not word.startswith("-")), None)
    for name, words in COMMANDS.items():
        if name != asked:
            commands.add_parser(name, help=words)
            continue
        if name in STUDY:  # its choices are the names of the study's methods, splits, experiments
            command = importlib.import_module(STUDY[name]).COMMAND
        else:
            command = _options.COMMANDS[name]
        plain, raw = argparse.HelpFormatter, argparse.RawDescriptionHelpFormatter
        described = commands.add_parser(
            name, help=words, usage=command.usage, description=command.about,
            epilog=command.examples, formatter_class=raw if command.examples else plain,
        )  # fmt: skip
        command.add_options(described)
    # argparse takes what has a space in it for a value, whatever it begins with.
    options = parser.parse_args([f" {a}" if NEGATIVE.fullmatch(a) else a for a in given])
    module = (STUDY | RUNS).get(options.command, f"ctfa._commands.{options.command}")
    return int(importlib.import_module(module).run(options))
