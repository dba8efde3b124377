"""``ctfa predict``: a fitted run on other data."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ctfa._commands._asked import read_large
from ctfa._commands._results import load_run, refuse_existing
from ctfa._commands._terminal import guarded, path_text, print_json, print_styled, watched
from ctfa._kinds import common_formats, either, format_of
from ctfa.labelled import write


@guarded
def run(options: argparse.Namespace) -> int:
    """Run it; return the exit code."""
    refuse_existing(options.output, force=options.force)
    with watched(options) as steps:
        fitted = load_run(options.fitted)
        plan = fitted.plan
        names = None if plan.feature_dim is not None else [slot.name for slot in plan.slots]
        data = read_large(options.data, steps, names, options.layer)
        _require_kind(fitted, data, options.data)
        steps("predicting")
        predicted = _for(options.output, fitted, data, fitted.predict(data))
        steps(f"writing {options.output}")
        write(predicted, options.output)
    sizes = dict(predicted.sizes) if hasattr(predicted, "sizes") else {"rows": len(predicted)}
    if options.json:
        print_json({"output": str(options.output), "target": fitted.plan.target, "sizes": sizes})
    else:
        shape = " x ".join(f"{size:,} {dim}" for dim, size in sizes.items())
        print_styled(f"Written: {path_text(options.output)}", rest=f", {shape}")
    return 0


def _require_kind(fitted: Any, data: Any, path: Path) -> None:
    """Refuse a table for a run of arrays, and arrays for a run of a table."""
    arrays, of_arrays = hasattr(data, "dims"), fitted.form.kind == "xarray"
    if of_arrays and not arrays:
        dims = ", ".join(fitted.plan.dims)
        raise ValueError(
            f"{path} is a table, and the run was fitted to arrays ({dims}): give a "
            f"{either(one.name for one in common_formats('arrays'))} file with the features."
        )
    if arrays and not of_arrays:
        raise ValueError(
            f"{path} holds arrays, and the run was fitted to a table: give a "
            f"{either(one.name for one in common_formats('tables'))} file with the same columns."
        )


def _for(path: Path, fitted: Any, data: Any, predicted: Any) -> Any:
    """Predictions in a form that the file holds: a table says whose and when each row is."""
    if hasattr(predicted, "to_dataframe"):
        kind = format_of(path)
        if kind is None or "tables" not in kind.holds:
            return predicted
        # Without coordinates such as elevation, which would stand in every row.
        return predicted.reset_coords(drop=True).to_dataframe().reset_index()
    labels = [name for name in (fitted.plan.sample, *fitted.tasks.dims) if name in data.columns]
    table = data[labels].copy()
    if predicted.ndim == 1:
        return table.assign(**{fitted.plan.target: predicted.to_numpy()})
    return table.assign(**{str(name): predicted[name].to_numpy() for name in predicted.columns})
