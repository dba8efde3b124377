"""``ctfa demo``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ctfa._commands import _reading as read
from ctfa._commands._terminal import note, say
from ctfa._demo import run_demo, write_page


def add_to(commands: Any) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "demo",
        help="both phases on generated examples: what was merged, what it gained, a report page",
        description=(
            "Run both phases on generated river gauges and write the result to a folder; then "
            "group the basins of a generated map and write a report page on them."
        ),
    )
    parser.add_argument("-o", "--output", type=Path, default=Path("demo_output"), metavar="FOLDER")
    parser.add_argument("--seed", type=read.seed, default=0, help="seed of the example (default 0)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run it; return the exit code."""
    try:
        say(*run_demo(options.output, seed=options.seed).split("\n"))
        say("", *write_page(options.output, seed=options.seed).split("\n"))
    except OSError as error:
        note(f"ctfa demo: cannot write to {options.output}: {error.strerror}")
        return 1
    return 0
