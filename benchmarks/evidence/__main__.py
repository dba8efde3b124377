"""python -m evidence (from benchmarks/), or python benchmarks/evidence."""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial
from pathlib import Path

if not __package__:  # run as a folder: let the package be found under its name
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    sys.path.remove(str(Path(__file__).resolve().parent))

from evidence.report import write_report
from evidence.store import Store
from evidence.study import full_plan, quick_plan, results_folder, run


def main() -> None:
    """Run what is missing, then write tables and plots."""
    options = parse()
    start = time.perf_counter()
    make = quick_plan if options.quick else full_plan
    plan, absent = make(
        seeds=options.seeds, limit=options.max_loss, any_version=options.any_version
    )
    for word in absent:
        print(f"skipped: {word}")
    folder = options.output or results_folder() / ("quick" if options.quick else "")
    store = Store(folder / "rows.jsonl")
    if not options.report_only:
        run(plan, store, n_jobs=options.jobs, say=partial(print, flush=True))
    seeds = "final" if plan.seeds == "all" else plan.seeds
    for path in write_report(plan.results(store), folder, seeds=seeds, absent=absent):
        print(f"wrote {path}")
    print(f"{(time.perf_counter() - start) / 60:.1f} minutes")


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="evidence", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="few families and methods, tuning seeds"
    )
    parser.add_argument("--seeds", choices=["all", "tuning", "final"], default="all")
    parser.add_argument("--max-loss", type=_limit, default="auto", help="limit of ours: auto or m")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--output", type=Path, help="folder of the results")
    parser.add_argument(
        "--any-version", action="store_true", help="keep stored results of an older library"
    )
    parser.add_argument("--report-only", action="store_true", help="tables and plots, no new runs")
    return parser.parse_args()


def _limit(text: str) -> str | float:
    return text if text == "auto" else float(text)


if __name__ == "__main__":
    main()
