"""The command line: ``ctfa demo``, ``ctfa datasets``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ctfa import __version__
from ctfa._demo import run_demo
from ctfa.datasets import describe_dataset
from ctfa.datasets._catalogue import dataset_table


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
    demo.set_defaults(run=_demo)
    data = commands.add_parser(
        "datasets",
        help="real data sets with a loader, and which of them are here; or all about one",
        description="List the data sets, or describe one: what it is, its licence, its source.",
    )
    data.add_argument("name", nargs="?", help="the data set to describe")
    data.add_argument(
        "--data-home", type=Path, metavar="FOLDER", help="where to look (default: CTFA_DATA)"
    )
    data.set_defaults(run=_datasets)
    options = parser.parse_args(arguments)
    return int(options.run(options))


def _demo(options: argparse.Namespace) -> int:
    try:
        print(run_demo(options.output, seed=options.seed))
    except OSError as error:
        print(f"ctfa demo: cannot write to {options.output}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


def _datasets(options: argparse.Namespace) -> int:
    if options.name is None:
        print(dataset_table(options.data_home))
        return 0
    try:
        print(describe_dataset(options.name))
    except ValueError as error:
        print(f"ctfa datasets: {error}", file=sys.stderr)
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
