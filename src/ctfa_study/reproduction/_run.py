"""Cases run, stored as they end, and gone on with where they were stopped."""

from __future__ import annotations

import sys
from collections.abc import Callable
from math import isfinite
from pathlib import Path

from ctfa_study.comparison._harness import Row, Step, Store, attempt, go_through, made_with
from ctfa_study.reproduction._case import Case, Experiment, Plan
from ctfa_study.reproduction._results import Results

FILE = "runs.jsonl"


def run(
    experiment: Experiment,
    plan: Plan,
    folder: Path | None,
    *,
    networks: bool = False,
    n_jobs: int | None = None,
    rerun: bool = False,
    progress: Callable[[Step], None] | None = None,
) -> Results:
    """Run what is not stored in ``folder``; networks only where they are asked for."""
    store = Store(None if folder is None else folder / FILE)
    cases = list(experiment.cases(plan))
    wanted = [case for case in cases if networks or not case.network or case.key in store]

    def again(case: Case) -> bool:
        # Of networks that nobody asked for, what is stored is shown, whatever is run again.
        return rerun and (networks or not case.network)

    rows: dict[str, Row] = {}
    for step in go_through(wanted, run_one, store, n_jobs=n_jobs, again=again):
        rows[step.row["key"]] = step.row
        if progress is not None:
            progress(step)
    return Results(rows[case.key] for case in wanted)


def read_stored(experiment: Experiment, plan: Plan, folder: Path) -> Results:
    """What is stored of an experiment's cases; nothing is run."""
    store = Store(folder / FILE)
    cases = list(experiment.cases(plan))
    missing = [case for case in cases if case.key not in store and not case.network]
    return Results((store[case.key] for case in cases if case.key in store), len(missing))


def run_one(case: Case) -> Row:
    """Measure a case; one that fails says why and is not stored."""
    row: Row = {
        "key": case.key, "experiment": case.experiment, "protocol": case.protocol,
        "setting": case.setting, "method": case.method, "seed": case.seed, "quick": case.quick,
        "recipe": case.recipe,
    }  # fmt: skip
    # One thread a case: small matrices gain nothing from more, and two cases at a time would take
    # each other's cores (a quick run was 16 times as long).
    done = attempt(case.measure, n_threads=1)
    if done.error is not None:
        return row | {"error": done.why}
    figures = dict(done.result)
    figures.setdefault("seconds", done.seconds)
    # Stored, a mean over seeds would be NaN for good, and its verdict "differs".
    lost = [name for name, value in figures.items() if value is not None and not isfinite(value)]
    if lost:
        return row | {"error": f"gave NaN or infinity for {', '.join(lost)}"}
    return row | {
        "figures": {k: None if v is None else float(v) for k, v in figures.items()},
        "warnings": sorted({told[:300] for told in done.warnings}),
        "versions": made_with() | (_network_versions() if case.network else {}),
    }


def _network_versions() -> dict[str, str]:
    """Torch and what it runs on; nothing where it was not used after all."""
    torch = sys.modules.get("torch")
    if torch is None:
        return {}
    cuda = torch.cuda.is_available()
    return {"torch": f"{torch.__version__} on {torch.cuda.get_device_name() if cuda else 'CPU'}"}
