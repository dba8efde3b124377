"""The command line: ``ctfa demo``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ctfa import __version__
from ctfa._demo import run_demo


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code."""
    parser = argparse.ArgumentParser(
        prog="ctfa", description="Aggregate related regression targets and their features."
    )
    parser.add_argument("--version", action="version", version=f"ctfa {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    demo = commands.add_parser(
        "demo",
        help="both phases on a generated example: what was merged, and what it gained",
        description="Run both phases on generated river gauges and write the result to a folder.",
    )
    demo.add_argument("-o", "--output", type=Path, default=Path("demo_output"), metavar="FOLDER")
    demo.add_argument("--seed", type=_seed, default=0, help="seed of the example (default 0)")
    options = parser.parse_args(arguments)
    try:
        print(run_demo(options.output, seed=options.seed))
    except OSError as error:
        print(f"ctfa demo: cannot write to {options.output}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


def _seed(text: str) -> int:
    try:
        seed = int(text)
    except ValueError:
        seed = -1
    if not 0 <= seed < 2**32:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to 2**32 - 1")
    return seed
