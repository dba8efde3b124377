"""An experiment run, judged against the paper and written down."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ctfa._names import csv_text, nearest
from ctfa._whole_file import write_whole
from ctfa.core.libraries import imported
from ctfa_study.comparison import Step
from ctfa_study.reproduction import compare
from ctfa_study.reproduction._case import Experiment, Plan
from ctfa_study.reproduction._claims import load_claims
from ctfa_study.reproduction._results import Results
from ctfa_study.reproduction._run import FILE, read_stored, run
from ctfa_study.reproduction._text import in_words, table
from ctfa_study.reproduction.experiments import EXPERIMENTS

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
        Prints as a table; ``results`` has every figure, ``verdicts`` one entry a number.
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


__all__ = ["FILE", "Reproduction", "reproduce", "stored", "write"]
