"""The command line: ``ctfa COMMAND``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ctfa import __version__
from ctfa._commands import baselines, datasets, demo, reproduce

#: In the order in which help shows them.
COMMANDS = (demo, datasets, baselines, reproduce)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code."""
    parser = argparse.ArgumentParser(
        prog="ctfa", description="Aggregate related regression targets and their features."
    )
    parser.add_argument("--version", action="version", version=f"ctfa {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for command in COMMANDS:
        command.add_to(commands)
    options = parser.parse_args(arguments)
    return int(options.run(options))
