"""``ctfa reproduce``: the paper's numbers, ours, and why they differ."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from ctfa._commands import _options as read
from ctfa._commands._terminal import note, say
from ctfa.core.libraries import imported
from ctfa_study.reproduction import EXPERIMENTS, Reproduction, Step, reproduce, write_page
from ctfa_study.reproduction._reproduce import FILE, NO_PICTURES, write

EXAMPLES = """examples:
  ctfa reproduce table1 --seeds 5
  ctfa reproduce all --quick
  ctfa reproduce table2 --networks
  ctfa reproduce page --page docs/reproduction.md

Finished cases are stored as they end: the same command again goes on where it was stopped.
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what the command takes."""
    parser.add_argument(
        "what", choices=[*EXPERIMENTS, "all", "page"], metavar="what",
        help=f"which part of the paper: {', '.join(EXPERIMENTS)} or all; page: no run, only the "
        "page of what is stored",
    )  # fmt: skip
    parser.add_argument("--seeds", type=read.count, metavar="N", help="repetitions or splits")
    parser.add_argument("--quick", action="store_true", help="a few small cases, to see it run")
    parser.add_argument("--networks", action="store_true", help="also rows that need torch")
    parser.add_argument("--jobs", type=read.count, metavar="N", help="cases at a time (default 1)")
    parser.add_argument("--rerun", action="store_true", help="also what is stored from before")
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("ctfa_reproduction"), metavar="FOLDER",
        help="where cases, tables and pictures go (default ctfa_reproduction)",
    )  # fmt: skip
    parser.add_argument(
        "--page", type=Path, metavar="FILE",
        help="also write the page of all that is stored (default of page: page.md in FOLDER)",
    )  # fmt: skip


COMMAND = read.Command(
    add_options,
    "Run the paper's experiments: its number, ours, the difference and a verdict.",
    EXAMPLES,
)


def run(options: argparse.Namespace) -> int:
    """Run it; return the exit code."""
    if options.what == "page" and not options.output.is_dir():
        return _complain(
            f"there is no folder {options.output} to write a page of: name that of your results "
            "by -o, or run ctfa reproduce all first"
        )
    names = {"all": list(EXPERIMENTS), "page": []}.get(options.what, [options.what])
    n_measured = 0
    try:
        for name in names:
            made, told = _reproduce(name, options)
            n_measured += len(made.results.rows)
            say(*told.split("\n"))
        if options.page or options.what == "page":
            page = write_page(options.output, options.page or options.output / "page.md")
            say(f"Written: {page}")
    except KeyboardInterrupt:
        note(
            "",
            f"ctfa reproduce: stopped. Finished cases are in {options.output}; the same command "
            "goes on from there.",
        )
        return 130
    except OSError as error:
        return _complain(f"cannot use {error.filename or options.output}: {error.strerror}")
    except ValueError as error:
        return _complain(error)
    if names and not n_measured:
        return _complain("nothing could be run; the reasons are above")
    return 0


def _complain(what: Any) -> int:
    note(f"ctfa reproduce: {what}")
    return 1


def _reproduce(name: str, options: argparse.Namespace) -> tuple[Reproduction, str]:
    # Apart: small cases must not take the place of the tables of a full run.
    folder = options.output / "quick" / name if options.quick else options.output / name
    folder.mkdir(parents=True, exist_ok=True)  # now, not after the first case
    tell = Teller()
    made = reproduce(
        name, quick=options.quick, seeds=options.seeds, networks=options.networks,
        folder=folder, n_jobs=options.jobs, rerun=options.rerun, progress=tell,
    )  # fmt: skip
    written = write(made, folder)
    if made.experiment.draw is not None and not any(path.suffix == ".png" for path in written):
        try:
            imported("matplotlib", NO_PICTURES)
        except ImportError as error:
            note(f"no pictures: {error}")
    names = ", ".join(path.name for path in written)
    before = f" ({tell.n_stored} of {tell.n_cases} cases were stored before)"
    place = f"Written to {folder}: {FILE}{before * bool(tell.n_stored)}, {names}"
    return made, f"{made}\n\n{place}\n"


class Teller:
    """Tells of each case as it ends, on standard error, and how long the rest may take."""

    def __init__(self) -> None:
        self.n_stored = self.n_cases = self.n_run = 0
        self.start = time.perf_counter()
        self.errors: set[str] = set()

    def __call__(self, step: Step) -> None:
        """Print a line; of those that were stored before, one for all."""
        row = step.row
        self.n_cases = step.total
        if step.stored:
            self.n_stored += 1
            return
        self.n_run += 1
        where = f"{row['experiment']}, {row['setting']}, {row['method']}, seed {row['seed']}"
        if "error" in row:
            # A data set that is not here stops many cases, and says how to get it once.
            if row["error"] in self.errors:
                return
            self.errors.add(row["error"])
            end = f"failed: {row['error']}"
        else:
            # By the clock: several cases may run at a time, and their seconds leave out loading.
            passed = time.perf_counter() - self.start
            minutes = (step.total - step.number) * passed / self.n_run / 60
            end = f"{row['figures']['seconds']:.1f} s" + (
                f"; about {minutes:.0f} min left" if minutes >= 1 else ""
            )
        note(f"[{step.number}/{step.total}] {where}: {end}")
