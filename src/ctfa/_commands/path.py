"""``ctfa path``: how many regions every limit gives, and what that does to the error."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ctfa._commands._asked import asked_for, fit_from
from ctfa._commands._results import MODEL, load_run, refuse_existing
from ctfa._commands._terminal import (
    guarded,
    number,
    path_text,
    print_json,
    print_table,
    say,
    watched,
)
from ctfa.labelled import write

#: Columns of the table, and what they are called there.
COLUMNS = {
    "max_loss": "max_loss",
    "n_groups": "regions",
    "error": "held-out error",
    "standard_error": "+- from best",
}
#: Longest table that is printed whole.
MOST_ROWS = 40


@guarded
def run(options: argparse.Namespace) -> int:
    """Run it; return the exit code."""
    if options.csv is not None:
        refuse_existing(options.csv, force=options.force)
    with watched(options) as steps:
        given = Path(options.data)
        if (given / MODEL).exists() or given.suffix == Path(MODEL).suffix:
            fitted = load_run(given)
        else:
            asked, _ = asked_for(options)
            asked.options["held_out"] = "none"  # the path has errors of its own
            fitted = fit_from(asked, steps, n_jobs=options.jobs)
    table = fitted.path()
    if options.csv is not None:
        write(table, options.csv)
    chosen = float(fitted.estimator.max_loss_)
    rows = table.to_dict("records")
    if options.json:
        print_json({"chosen": chosen, "n_regions": fitted.n_regions, "path": rows})
        return 0
    _print(rows, chosen, fitted)
    if options.csv is not None:
        say(f"Written: {path_text(options.csv)}")
    return 0


def _print(rows: list[dict[str, Any]], chosen: float, fitted: Any) -> None:
    say(
        f"{fitted.tasks.n_tasks:,} tasks ({fitted.tasks.what}); chosen: max_loss = {chosen:g}, "
        f"{fitted.n_regions:,} regions"
    )
    shown = rows
    if len(rows) > MOST_ROWS:
        shown = [rows[round(i * (len(rows) - 1) / (MOST_ROWS - 1))] for i in range(MOST_ROWS)]
    best = min(shown, key=lambda row: _distance(row["max_loss"], chosen), default=None)
    names = [name for name in COLUMNS if rows and name in rows[0]]
    cells = [
        [*(_cell(row[name]) for name in names), "<- chosen" if row is best else ""] for row in shown
    ]
    print_table([*(COLUMNS[name] for name in names), ""], cells, words=[""])
    if len(shown) < len(rows):
        say(f"{len(shown)} of {len(rows):,} rows; --csv writes all.")


def _distance(limit: float, chosen: float) -> float:
    return 0.0 if limit == chosen else abs(limit - chosen)


def _cell(value: Any) -> str:
    return f"{int(value):,}" if float(value).is_integer() else number(float(value))
