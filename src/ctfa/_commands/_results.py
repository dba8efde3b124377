"""The files of a run, and the same in short for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ctfa import labelled
from ctfa._commands._run_file import NAME, RunFile
from ctfa.labelled._extras import need
from ctfa.labelled._maps import label_columns
from ctfa.labelled._words import error_columns

MODEL = "model.ctfa"


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
    labelled.write(merge_table(fitted), draft / "merges.csv")
    if fitted.held_out is not None:
        labelled.write(error_table(fitted), draft / "errors.csv")
    fitted.report(draft / "report.html")
    (draft / NAME).write_text(run.text(folder), encoding="utf-8", newline="\n")


def coefficient_table(fitted: Any) -> Any:
    """One row a region: its size, and of each feature the coefficient and its standard error."""
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
    """One row a merge, with its evidence; names of tasks as text."""
    table = fitted.merges.copy()
    for name in ("group", "joined", "losers"):
        table[name] = ["; ".join(map(str, members)) for members in table[name]]
    return table


def error_table(fitted: Any) -> Any:
    """One row a task: its labels, its region, and its held-out error by each method."""
    columns: dict[str, Any] = label_columns(fitted.tasks)
    columns[fitted.tasks.group] = fitted.estimator.labels_
    columns |= error_columns(fitted.held_out)
    columns["gain"] = fitted.held_out.gain
    return need("pandas").DataFrame(columns)


def document(fitted: Any) -> dict[str, Any]:
    """A fit in short, for JSON."""
    plan = fitted.plan
    held_out = None
    if fitted.held_out is not None:
        means = {name: fitted.held_out.mean(name) for name in fitted.held_out.errors}
        skills = {name: fitted.held_out.mean_skill(name) for name in fitted.held_out.errors}
        held_out = {
            "how": fitted.held_out.how,
            "error": means,
            "skill": skills,
            "reference": fitted.held_out.reference,
        }
    return {
        "target": plan.target,
        "features": [slot.name for slot in plan.slots],
        "n_tasks": fitted.tasks.n_tasks,
        "n_masked": fitted.tasks.n_masked,
        "n_regions": fitted.n_regions,
        "n_samples": fitted.span[2],
        "max_loss": float(fitted.estimator.max_loss_),
        "held_out": held_out,
        "notes": list(fitted.notes),
    }


def load_run(run: Path) -> Any:
    """The fitted model of a run: its folder, or the model file itself."""
    path = run / MODEL if run.is_dir() else run
    if not path.exists():
        if run.is_dir():
            raise ValueError(f"{run} holds no {MODEL}: name a folder that ctfa fit wrote.")
        raise ValueError(f"there is no {run}: name a folder that ctfa fit wrote.")
    try:
        return labelled.load(path)
    except ValueError as error:
        raise ValueError(f"{path} cannot be loaded: {error}") from error
