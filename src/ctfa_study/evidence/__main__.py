"""python -m ctfa_study.evidence: run what is missing, then write tables and plots."""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path

from ctfa_study.evidence.report import write_report
from ctfa_study.evidence.study import full_plan, open_store, quick_plan, run

#: Where results go, in the folder one is in: ``make evidence`` runs in the project's own.
RESULTS = Path("results", "evidence")


def main() -> None:
    """Run what is missing, then write tables and plots."""
    options = parse()
    start = time.perf_counter()
    make = quick_plan if options.quick else full_plan
    plan, absent = make(seeds=options.seeds, any_version=options.any_version)
    for word in absent:
        print(f"skipped: {word}")
    folder = options.output or RESULTS / ("quick" if options.quick else "")
    store = open_store(folder)
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
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--output", type=Path, help="folder of the results")
    parser.add_argument(
        "--any-version", action="store_true", help="keep stored results of an older library"
    )
    parser.add_argument("--report-only", action="store_true", help="tables and plots, no new runs")
    return parser.parse_args()


if __name__ == "__main__":
    main()
