"""The command line: ``ctfa COMMAND``."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence

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
from ctfa._commands._running import UNREAD

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
    parser = argparse.ArgumentParser(
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
    try:
        code = int(options.run(options))
        sys.stdout.flush()
    except BrokenPipeError:
        # Who read the output has left (ctfa ... | head): nothing more to say, also not at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNREAD
    return code
