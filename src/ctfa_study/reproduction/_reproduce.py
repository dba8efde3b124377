"""An experiment run, gone on with where it was stopped, judged against the paper, written down."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

from ctfa._text import csv_text, nearest, write_whole
from ctfa.core.libraries import imported
from ctfa_study.comparison._harness import Row, Step, Store, attempt, go_through, made_with
from ctfa_study.reproduction import compare
from ctfa_study.reproduction._case import Case, Experiment, Plan
from ctfa_study.reproduction._claims import load_claims
from ctfa_study.reproduction._results import Results
from ctfa_study.reproduction._text import in_words, table
from ctfa_study.reproduction.experiments import EXPERIMENTS

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
        # Of networks that were not asked for, what is stored is shown, whatever is run again.
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
    # One thread per case: small matrices gain nothing from more, and two cases at a time would take
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


NO_PICTURES = "pip install 'ctfa[plot]'"


class Reproduction(NamedTuple):
    """Figures of one experiment beside the paper's; prints as a table."""

    experiment: Experiment
    results: Results
    verdicts: list[compare.Verdict]
    statements: list[compare.Judged]

    def __str__(self) -> str:
        return table(self)

    def __repr__(self) -> str:
        told = in_words(self.verdicts)
        return f"<Reproduction of {self.experiment.name!r}: {told}; print() shows the table>"


def reproduce(
    name: str,
    *,
    quick: bool = False,
    seeds: int | None = None,
    networks: bool = False,
    folder: Any = None,
    n_jobs: int | None = None,
    rerun: bool = False,
    progress: Callable[[Step], None] | None = None,
) -> Reproduction:
    """Run one part of the paper and set its numbers beside the printed ones.

    Parameters
    ----------
    name : str
        A name of ``ctfa_study.reproduction.EXPERIMENTS``: "synthetic", "figures", "table1", ...
    quick : bool, default=False
        A few small cases, to see that everything runs; their figures are not those of the paper.
    seeds : int or None, default=None
        Repetitions or splits; None is the number that the protocol states.
    networks : bool, default=False
        Also the rows that train networks with torch (``pip install 'ctfa[torch]'``).
    folder : path or None, default=None
        Where finished cases are stored (``runs.jsonl``); those that are there are not run again.
    n_jobs : int or None, default=None
        Cases at the same time, through joblib.
    rerun : bool, default=False
        Run what is stored again: a stored case is known by what is asked, not by the code.
    progress : callable or None, default=None
        Called with a ``Step`` after each case.

    Returns
    -------
    Reproduction
        Prints as a table; ``results`` has every figure, ``verdicts`` one entry per number.
    """
    experiment = _experiment(name)
    place = None if folder is None else Path(folder)
    results = run(
        experiment, Plan(quick, seeds), place, networks=networks, n_jobs=n_jobs, rerun=rerun,
        progress=progress,
    )  # fmt: skip
    return _judged(experiment, results)


def stored(name: str, folder: Any, *, quick: bool = False) -> Reproduction:
    """Set what is stored beside the paper's numbers; nothing is run."""
    experiment = _experiment(name)
    return _judged(experiment, read_stored(experiment, Plan(quick), Path(folder)))


def _experiment(name: str) -> Experiment:
    if name not in EXPERIMENTS:
        raise ValueError(f"there is no experiment {name!r}{nearest(name, EXPERIMENTS)}.")
    return EXPERIMENTS[name]


def _judged(experiment: Experiment, results: Results) -> Reproduction:
    claims = load_claims().of(experiment.name)
    return Reproduction(
        experiment,
        results,
        compare.judge(claims, results, experiment.choices),
        compare.judge_statements(claims, experiment, results),
    )


def write(made: Reproduction, folder: Path) -> list[Path]:
    """Write the table, the verdicts, every figure, and the pictures where matplotlib is there."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        "table.txt": f"{made}\n",
        "verdicts.csv": _csv(compare.columns(made.verdicts)),
        "figures.csv": _csv(made.results.columns()),
    }
    for name, text in texts.items():
        write_whole(text.encode(), folder / name)
    written = [folder / name for name in texts]
    if made.experiment.draw is None:
        return written
    try:
        imported("matplotlib", NO_PICTURES)
    except ImportError:
        return written
    return [*written, *made.experiment.draw(made.results, folder)]


def _csv(columns: Mapping[str, list[Any]]) -> str:
    return csv_text(columns, zip(*columns.values(), strict=True))
