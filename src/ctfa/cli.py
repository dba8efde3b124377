"""The command line: ``ctfa COMMAND``."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from ctfa import __version__
from ctfa._commands import (
    baselines,
    datasets,
    demo,
    doctor,
    fit,
    path,
    predict,
    report,
    reproduce,
    why,
)
from ctfa._commands._running import PROBLEM, UNREAD
from ctfa._commands._terminal import OutputLost, flush, lead_nowhere, note, open_streams, say
from ctfa._names import visible

#: In the order in which help shows them.
COMMANDS = (doctor, fit, predict, report, path, why, demo, datasets, baselines, reproduce)
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
                code = _run(arguments)
            except SystemExit:  # help, or wrong usage
                flush()
                raise
            flush()
        except OutputLost as lost:
            lead_nowhere(sys.stdout)
            if lost.unread:  # ctfa ... | head: nothing more to say
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


def _run(arguments: Sequence[str] | None) -> int:
    parser = _Parser(
        prog="ctfa",
        description="Aggregate related regression targets and their features.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"ctfa {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for command in COMMANDS:
        command.add_to(commands)
    given = sys.argv[1:] if arguments is None else arguments
    # argparse takes what has a space in it for a value, whatever it begins with.
    options = parser.parse_args([f" {a}" if NEGATIVE.fullmatch(a) else a for a in given])
    return int(options.run(options))
