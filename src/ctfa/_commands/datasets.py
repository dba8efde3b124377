"""``ctfa datasets``: which data sets there are, and all about one."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from ctfa.datasets import describe_dataset
from ctfa.datasets._catalogue import dataset_table


def add_to(commands: Any) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "datasets",
        help="real data sets with a loader, and which of them are here; or all about one",
        description="List the data sets, or describe one: what it is, its licence, its source.",
    )
    parser.add_argument("name", nargs="?", help="the data set to describe")
    parser.add_argument(
        "--data-home", type=Path, metavar="FOLDER", help="where to look (default: CTFA_DATA)"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run it; return the exit code."""
    if options.name is None:
        print(dataset_table(options.data_home))
        return 0
    try:
        print(describe_dataset(options.name))
    except ValueError as error:
        print(f"ctfa datasets: {error}", file=sys.stderr)
        return 1
    return 0
