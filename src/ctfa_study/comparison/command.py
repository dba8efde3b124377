"""``ctfa baselines``: methods side by side on one data set or several."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path
from typing import Any

from ctfa._commands import _options as read
from ctfa._commands._terminal import note, say
from ctfa._text import csv_text, write_whole
from ctfa.core.libraries import imported
from ctfa_study.comparison import (
    DATA,
    METHODS,
    METRICS,
    SPLITS,
    Comparison,
    MethodSummary,
    Step,
    compare,
)
from ctfa_study.comparison._data import read_name

EXAMPLES = """examples:
  ctfa baselines --data school --seeds 5
  ctfa baselines --data sarcos --split blocked --gap 50 --methods "single LR,single ridge,CTFA + LR"
  ctfa baselines --list

Finished runs are stored as they end: the same command again goes on where it was stopped.
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what the command takes."""
    parser.add_argument("--data", action="append", metavar="NAME", help="may be repeated")
    parser.add_argument("--methods", metavar="A,B,...", help="names from --list (default: all)")
    parser.add_argument("--seeds", type=read.count, metavar="N", help="splits (default 5)")
    parser.add_argument("--split", choices=SPLITS, help="default: the data set's own")
    parser.add_argument("--test-size", type=read.share, default=0.3, metavar="SHARE")
    parser.add_argument(
        "--gap", type=read.zero_or_more, metavar="ROWS",
        help="rows beside a block that are not used (blocked splits)",
    )  # fmt: skip
    parser.add_argument("--metric", choices=METRICS, default="nrmse")
    parser.add_argument("--reference", metavar="NAME", help="what others are paired with")
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("ctfa_baselines"), metavar="FOLDER",
        help="where runs, tables and plots go (default ctfa_baselines)",
    )  # fmt: skip
    parser.add_argument("--jobs", type=read.count, metavar="N", help="runs at a time (default 1)")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="two splits, few values of each penalty, and without the slow methods",
    )
    parser.add_argument("--rerun", action="store_true", help="also what is stored from before")
    parser.add_argument("--list", action="store_true", help="print methods and data sets, and stop")


COMMAND = read.Command(
    add_options,
    "Compare methods on the same splits: a table and a plot with intervals and a paired test.",
    EXAMPLES,
)


def run(options: argparse.Namespace) -> int:
    """Run it; return the exit code."""
    if options.list or not options.data:
        say(*_known().split("\n"))
        if not options.list:
            note("ctfa baselines: say which data set: --data NAME")
        return 0 if options.list else 2
    failed = 0
    for name in options.data:
        try:
            say(*_compare(read_name(name), options).split("\n"))
        except KeyboardInterrupt:
            note(
                "",
                f"ctfa baselines: stopped. Finished runs are in {options.output}; the same "
                "command goes on from there.",
            )
            return 130
        except OSError as error:
            # A data set that is not here says how to get it; a folder says less.
            told = error.strerror and f"cannot use {options.output}: {error.strerror}"
            failed = _complain(told or error)
        except (ValueError, TypeError, RuntimeError, ImportError) as error:
            failed = _complain(error)
    return failed


def _complain(what: Any) -> int:
    note(f"ctfa baselines: {what}")
    return 1


def _compare(name: str, options: argparse.Namespace) -> str:
    folder = options.output / name
    folder.mkdir(parents=True, exist_ok=True)  # now, not after the first run
    asked = None if options.methods is None else options.methods.split(",")
    methods = None if asked is None else [method.strip() for method in asked if method.strip()]
    tell = _Teller(options.metric)
    result = compare(
        name,
        methods,
        seeds=options.seeds or (2 if options.quick else 5),
        split=options.split,
        test_size=options.test_size,
        gap=options.gap,
        reference=options.reference,
        folder=folder,
        n_jobs=options.jobs,
        quick=options.quick,
        rerun=options.rerun,
        progress=tell,
    )
    written = write(result, folder, options.metric)
    names = ", ".join(path.name for path in written)
    before = f" ({tell.n_stored} of {tell.n_runs} runs were stored before)" * bool(tell.n_stored)
    table = result.table(options.metric)
    return f"{table}\n\nWritten to {folder}: runs.jsonl{before}, {names}\n"


def write(result: Comparison, folder: Path, metric: str) -> list[Path]:
    """Write the table, every figure of every task, and the plot where matplotlib is there."""
    columns = result.columns()
    texts = {
        f"{metric}.txt": result.table(metric) + "\n",
        f"{metric}.csv": csv_text(MethodSummary._fields, result.summary(metric)),
        "tasks.csv": csv_text(columns, zip(*columns.values(), strict=True)),
    }
    for name, text in texts.items():
        write_whole(text.encode(), folder / name)
    written = [folder / name for name in texts]
    try:
        matplotlib = imported("matplotlib", "pip install 'ctfa[plot]'")
    except ImportError as error:
        note(f"no plot: {error}")
        return written
    matplotlib.use("Agg")
    figure = result.plot(metric).figure
    draft = folder / f".{metric}.png"
    figure.savefig(draft, dpi=150)
    importlib.import_module("matplotlib.pyplot").close(figure)
    return [*written, draft.replace(folder / f"{metric}.png")]


class _Teller:
    """Tells of each run as it ends, on standard error, and how long the rest may take."""

    def __init__(self, metric: str) -> None:
        self.metric = metric
        self.n_stored = self.n_runs = 0
        self.seconds: dict[str, float] = {}  # of the last run of each method

    def __call__(self, step: Step) -> None:
        """Print a line."""
        row = step.row
        self.n_runs, self.n_stored = step.total, self.n_stored + step.stored
        what = f"[{step.number}/{step.total}] {row['data']}, seed {row['seed']}, {row['method']}"
        if "error" in row:
            end = f"failed: {row['error']}"
        else:
            figure = Comparison([row], reference=row["method"]).summary(self.metric)[0].mean
            end = f"{self.metric} {figure:.4f}, {row['seconds']:.1f} s"
            end += " (stored before)" if step.stored else self._remaining(step)
        note(f"{what}: {end}")

    def _remaining(self, step: Step) -> str:
        """Once every method has run: the splits that are left take as long as the last."""
        known = step.row["method"] in self.seconds
        self.seconds[step.row["method"]] = step.row["seconds"]
        if not known:
            return ""
        minutes = (step.total - step.number) * sum(self.seconds.values()) / len(self.seconds) / 60
        return f"; about {minutes:.0f} min left" if minutes >= 1.0 else ""


def _known() -> str:
    words = {"shared": "shared rows", "own rows": "own rows", "own inputs": "own inputs"}
    lines = ["methods:"]
    for name, method in METHODS.items():
        kinds = ", ".join(text for kind, text in words.items() if method.knows(kind))
        lines.append(f"  {name:28s} {kinds}{' (slow)' if method.slow else ''}")
    lines.append("data sets:")
    lines += [f"  {name:28s} {entry.split} splits" for name, entry in DATA.items()]
    return "\n".join(lines)
