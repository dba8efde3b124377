"""The folder of a run: it appears whole or not at all, and is read again by other commands."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from ctfa import labelled
from ctfa._commands._asked import NAME, RunFile
from ctfa._commands._terminal import answering
from ctfa._kinds import format_of
from ctfa._text import put_folder
from ctfa.core.libraries import need
from ctfa.labelled._places import label_columns
from ctfa.labelled._words import error_columns

MODEL = "model.ctfa"
#: What `ctfa fit` writes; a folder with anything else in it is never replaced.
FILES = (
    "model.ctfa", "regions.nc", "regions.gpkg", "regions.csv", "coefficients.csv",
    "coefficients.nc", "windows.csv", "merges.csv", "errors.csv", "errors.nc", "skill.csv",
    "report.html", "run.toml",
)  # fmt: skip


def write_results(fitted: Any, draft: Path, run: RunFile, folder: Path) -> None:
    """Write all files of a run to a draft of its folder; run.toml as it stands in the folder."""
    fitted.save(draft / MODEL)
    table = fitted.region_table()
    regions = fitted.regions
    if hasattr(regions, "dims"):
        labelled.write(regions, draft / "regions.nc")
    if hasattr(table, "geometry") and getattr(table, "active_geometry_name", None):
        labelled.write(table, draft / "regions.gpkg")
        table = table.drop(columns=table.active_geometry_name)
    labelled.write(table, draft / "regions.csv")
    if fitted.coefficients is not None:
        labelled.write(coefficient_table(fitted), draft / "coefficients.csv")
        if hasattr(fitted.coef, "dims"):
            both = fitted.coef.to_dataset(name="coef").assign(coef_error=fitted.coef_error)
            labelled.write(both, draft / "coefficients.nc")
    if fitted.plan.step is not None:
        labelled.write(fitted.windows, draft / "windows.csv")
    labelled.write(merge_table(fitted), draft / "merges.csv")
    if fitted.held_out is not None:
        labelled.write(error_table(fitted), draft / "errors.csv")
        labelled.write(skill_table(fitted), draft / "skill.csv")
        if hasattr(fitted.errors, "dims"):
            labelled.write(fitted.errors, draft / "errors.nc")
    fitted.report(draft / "report.html")
    (draft / NAME).write_text(run.text(folder), encoding="utf-8", newline="\n")


def coefficient_table(fitted: Any) -> Any:
    """One row per region: its size, and of each feature the coefficient and its standard error."""
    found = fitted.coefficients
    columns: dict[str, Any] = {
        fitted.tasks.group: np.arange(fitted.n_regions),
        "n_tasks": fitted.estimator.partition_.sizes,
    }
    for number, name in enumerate(found.names):
        columns[name] = found.value[:, number]
        if found.standard_error is not None:
            columns[f"{name}_error"] = found.standard_error[:, number]
    columns["units"] = found.units
    return need("pandas").DataFrame(columns)


def merge_table(fitted: Any) -> Any:
    """One row per merge, with its evidence; names of tasks as text."""
    table = fitted.merges.copy()
    for name in ("group", "joined", "losers"):
        table[name] = ["; ".join(map(str, members)) for members in table[name]]
    return table


def error_table(fitted: Any) -> Any:
    """One row per task: its labels, its region, and its held-out error by each method."""
    own = {fitted.tasks.group: fitted.estimator.labels_}
    errors = error_columns(fitted.held_out) | {"gain": fitted.held_out.gain}
    return need("pandas").DataFrame(label_columns(fitted.tasks) | own | errors)


def skill_table(fitted: Any) -> Any:
    """Errors and skill of all rows, by season, by held-out block and by region, one row each."""
    every = [{"by": by} | row for by, rows in divisions(fitted).items() for row in rows]
    return need("pandas").DataFrame(every)


def divisions(fitted: Any) -> dict[str, list[dict[str, Any]]]:
    """What each division of the held-out rows has in its parts, one row each."""
    return {
        by: [
            {"part": name} | {key: values[k] for key, values in errors.items()}
            for k, name in enumerate(names)
        ]
        for by, names, errors in fitted.each_division()
    }


def document(fitted: Any) -> dict[str, Any]:
    """A fit in short, for JSON."""
    plan, judged = fitted.plan, fitted.held_out
    held_out = None
    if judged is not None:
        first, zeros = next(iter(judged.errors)), {}
        for name, words in judged.zero_words.items():
            skill = judged.mean_skill(first, name)
            zeros[name] = {"words": words, "error": judged.mean(name), "skill": skill}
        each = divisions(fitted)
        held_out = {
            "how": judged.how,
            "error": {name: judged.mean(name) for name in judged.errors},
            "skill": {name: judged.mean_skill(name) for name in judged.errors},
            "reference": judged.reference,
            "zeros": zeros,
            "persistence": judged.zero_words.get("persistence", f"none: {judged.before}"),
            "skill_by": {by: each[by] for by in each if by in ("season", "block")},
        }
    return {
        "target": plan.target,
        "features": [slot.name for slot in plan.slots],
        "n_tasks": fitted.tasks.n_tasks,
        "n_masked": fitted.tasks.n_masked,
        "n_regions": fitted.n_regions,
        "n_samples": fitted.span[2],
        "max_loss": float(fitted.estimator.max_loss_),
        "price": None if fitted.price is None else asdict(fitted.price),
        "held_out": held_out,
        "notes": list(fitted.notes),
    }


def load_run(run: Path) -> Any:
    """The fitted model of a run: its folder, or the model file itself."""
    path = run / MODEL if run.is_dir() else run
    if not path.exists():
        what = f"{run} holds no {MODEL}" if run.is_dir() else f"there is no {run}"
        raise ValueError(f"{what}: name a folder that ctfa fit wrote.")
    try:
        return labelled.load(path)
    except ValueError as error:
        raise ValueError(f"{path} cannot be loaded: {error}") from error


def refuse_existing(path: Path, *, force: bool) -> None:
    """Say in one sentence that a file is there, or that it cannot be made."""
    kind = format_of(path)
    if path.is_dir() and not (kind is not None and kind.marks):
        raise ValueError(f"{path} is a folder: name a file with -o.")
    if path.exists() and not force:
        raise ValueError(f"{path} exists: name another file, or add --force to replace it.")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"{path} cannot be made: there is no folder {path.parent}.")


class OutputFolder:
    """Where results go: looked at before the work, filled aside, and put in place at the end.

    Parameters
    ----------
    path : path
        The folder to make, or to replace.
    force : bool
        Whether to replace a folder that holds an earlier run.
    """

    def __init__(self, path: Path, *, force: bool = False) -> None:
        self.given, self.force = path, force
        self.path = Path(os.path.realpath(path))
        self._refuse()

    def write(self, fill: Callable[[Path], None]) -> list[str]:
        """Fill a folder aside, then put it in place; return the names of its files, as listed."""
        made = [folder for folder in self.path.parents if not folder.exists()]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with tempfile.TemporaryDirectory(prefix=".ctfa-", dir=self.path.parent) as aside:
                draft = Path(aside, f"{self.path.name}.part")
                draft.mkdir()
                fill(draft)
                written = {file.name for file in draft.iterdir()}
                self._refuse()  # what is there now may have come meanwhile
                # Ctrl-C waits for a few renames: by then the work is done, and it stops nothing.
                with answering(lambda *_: None, signal.SIGINT, signal.SIGTERM):
                    put_folder(draft, self.path)
        except BaseException:
            with suppress(OSError):  # another program put something there
                for folder in made:
                    folder.rmdir()
            raise
        return [name for name in FILES if name in written]

    def _refuse(self) -> None:
        """Say in one sentence why results cannot go there."""
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"{self.given} is a file: name a folder with -o.")
        if self.path == Path.cwd():
            raise ValueError("-o is the folder you are in: name a new one, such as -o run.")
        names = {entry.name for entry in self.path.iterdir()} if self.path.is_dir() else set()
        if names and not self.force:
            raise ValueError(
                f"{self.given} exists and is not empty: name another folder, or add --force to "
                "replace it."
            )
        foreign = sorted(names - set(FILES))
        if foreign:
            raise ValueError(
                f"{self.given} also holds {foreign[0]}, which ctfa fit does not write, and is not "
                "replaced: move that away, or name another folder."
            )
        parent = next(p for p in self.path.parents if p.exists())
        if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
            raise ValueError(f"{self.given} cannot be made: {parent} cannot be written to.")
