"""``ctfa fit``, and what is done with the folder that it wrote: predict, report, path, why."""

from __future__ import annotations

import argparse
import dataclasses
import math
import webbrowser
from pathlib import Path
from typing import Any

from ctfa import __version__
from ctfa._commands import _terminal as terminal
from ctfa._commands._asked import RunFile, asked_for, fit_from, read_large, selection
from ctfa._commands._results import (
    MODEL,
    OutputFolder,
    document,
    load_run,
    refuse_existing,
    write_results,
)
from ctfa._kinds import common_formats, either, format_of
from ctfa.labelled import write
from ctfa.labelled._form import as_in_fit
from ctfa.labelled._labels import selected

#: Columns of the table of a path, and what they are called there.
COLUMNS = {
    "max_loss": "max_loss",
    "n_groups": "regions",
    "error": "held-out error",
    "standard_error": "+- from best",
}
#: Longest table that is printed whole.
MOST_ROWS = 40


@terminal.guarded
def run(options: argparse.Namespace) -> int:
    """Run one of them; return the exit code."""
    COMMANDS[options.command](options)
    return 0


def _written(options: argparse.Namespace, path: Path, told: str, **document: Any) -> None:
    """Say which file was written, and what is to be told of it."""
    if options.json:
        terminal.print_json({"output": str(path)} | document)
    else:
        terminal.print_styled(f"Written: {terminal.path_text(path)}", rest=f", {told}")


# -------------------------------------------------------------------------------------------- fit


def _fit(options: argparse.Namespace) -> None:
    folder = OutputFolder(options.output, force=options.force)
    asked, before = asked_for(options)
    if before is not None:
        _same_as_before(before, options)
    with terminal.watched(options) as steps:
        fitted = fit_from(asked, steps, n_jobs=options.jobs)
        made = _resolved(asked, fitted)
        steps(f"writing {options.output}")
        names = folder.write(lambda draft: write_results(fitted, draft, made, folder.path))
    if options.json:
        terminal.print_json(document(fitted) | {"output": str(options.output), "files": names})
    else:
        terminal.say(*fitted.summary().split("\n"), "")
        terminal.print_styled(
            f"Written to {terminal.path_text(folder.path)}: ", rest=", ".join(names)
        )


def _resolved(asked: RunFile, fitted: Any) -> RunFile:
    """What was asked for, with what the fit found out by itself."""
    plan = fitted.plan
    found: dict[str, Any] = {
        "features": [slot.name for slot in plan.sources if slot.name != plan.target]
    }
    if fitted.form.kind == "xarray":
        found |= {"task": list(plan.task_dims), "sample": plan.sample}
    left_open = {name: value for name, value in found.items() if asked.options[name] is None}
    return dataclasses.replace(asked, options=asked.options | left_open)


def _same_as_before(before: RunFile, options: argparse.Namespace) -> None:
    changed = before.changed()
    if changed and not options.changed:
        raise ValueError(
            f"{changed[0]}, so the run would not be the same: bring the file back, or add "
            "--changed to go on with what is there."
        )
    if before.version != __version__ and not options.quiet:
        terminal.complain(
            "fit", f"note: that run was made by ctfa {before.version}, this is {__version__}."
        )


# ---------------------------------------------------------------------------------------- predict


def _predict(options: argparse.Namespace) -> None:
    refuse_existing(options.output, force=options.force)
    with terminal.watched(options) as steps:
        fitted = load_run(options.fitted)
        plan = fitted.plan
        names = None if plan.feature_dim is not None else [slot.name for slot in plan.sources]
        data = read_large(options.data, steps, names, options.layer)
        data = selected(data, selection(options.select))
        _require_kind(fitted, data, options.data)
        data = as_in_fit(plan, data)
        steps("predicting")
        predicted = _for(options.output, fitted, data, fitted.predict(data))
        if options.interval is not None:
            both = fitted.predict_interval(data, options.interval)
            predicted = _beside(predicted, both, fitted.plan.target)
        steps(f"writing {options.output}")
        write(predicted, options.output)
    sizes = dict(predicted.sizes) if hasattr(predicted, "sizes") else {"rows": len(predicted)}
    sizes.pop("bound", None)
    shape = " x ".join(f"{size:,} {dim}" for dim, size in sizes.items())
    _written(options, options.output, shape, target=plan.target, sizes=sizes)


def _beside(predicted: Any, both: Any, target: str) -> Any:
    """Predictions with their intervals: another variable, or two more columns each."""
    if hasattr(predicted, "dims"):
        named = predicted.assign_attrs(ancillary_variables=both.name)
        return named.to_dataset(name=target).assign({both.name: both})
    if hasattr(both, "dims"):  # of arrays, in a file that holds tables
        for end in both["bound"].values.tolist():
            one = both.sel(bound=end).reset_coords(drop=True).to_dataframe()
            predicted[f"{target}_{end}"] = one[both.name].to_numpy()
        return predicted
    return predicted.assign(**{name: both[name].to_numpy() for name in both.columns})


def _require_kind(fitted: Any, data: Any, path: Path) -> None:
    """Refuse a table for a run of arrays, and arrays for a run of a table."""
    arrays, of_arrays = hasattr(data, "dims"), fitted.form.kind == "xarray"
    if arrays == of_arrays:
        return
    is_a, fitted_to, needed = "holds arrays", "a table", ("tables", "the same columns")
    if of_arrays:
        is_a, fitted_to = "is a table", f"arrays ({', '.join(fitted.plan.dims)})"
        needed = "arrays", "the features"
    raise ValueError(
        f"{path} {is_a}, and the run was fitted to {fitted_to}: give a "
        f"{either(one.name for one in common_formats(needed[0]))} file with {needed[1]}."
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


# ----------------------------------------------------------------------------------------- report


def _report(options: argparse.Namespace) -> None:
    page, folder = options.output, options.fitted
    if page is None:
        # The page in the folder is made of what lies beside it: writing it again loses nothing.
        page = (folder if folder.is_dir() else folder.parent) / "report.html"
    else:
        refuse_existing(page, force=options.force)
    with terminal.watched(options) as steps:
        fitted = load_run(options.fitted)
        steps(f"writing {page}")
        fitted.report(page)
    size = page.stat().st_size
    _written(options, page, f"{size / 1e6:.1f} MB", bytes=size)
    if options.open:
        webbrowser.open(page.absolute().as_uri())


# ------------------------------------------------------------------------------------------- path


def _path(options: argparse.Namespace) -> None:
    if options.csv is not None:
        refuse_existing(options.csv, force=options.force)
    with terminal.watched(options) as steps:
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
        terminal.print_json({"chosen": chosen, "n_regions": fitted.n_regions, "path": rows})
        return
    _print_path(rows, chosen, fitted)
    if options.csv is not None:
        terminal.say(f"Written: {terminal.path_text(options.csv)}")


def _print_path(rows: list[dict[str, Any]], chosen: float, fitted: Any) -> None:
    terminal.say(
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
    terminal.print_table([*(COLUMNS[name] for name in names), ""], cells, words=[""])
    if len(shown) < len(rows):
        terminal.say(f"{len(shown)} of {len(rows):,} rows; --csv writes all.")


def _distance(limit: float, chosen: float) -> float:
    return 0.0 if limit == chosen else abs(limit - chosen)


def _cell(value: float) -> str:
    if math.isnan(value):
        return "-"
    return f"{int(value):,}" if float(value).is_integer() else f"{value:.4g}"


# -------------------------------------------------------------------------------------------- why


def _why(options: argparse.Namespace) -> None:
    fitted = load_run(options.fitted)
    tasks, answers = fitted.tasks, []
    for text in options.labels:
        position = tasks.position(_label(text, tasks))
        answers.append((tasks.names[position], fitted.why(tasks.labels[position])))
    if options.json:
        terminal.print_json({"tasks": [_answer(name, answer) for name, answer in answers]})
    else:
        terminal.say(*"\n\n".join(str(answer) for _, answer in answers).split("\n"))


def _label(text: str, tasks: Any) -> Any:
    """A label as the data has it: a number where labels are numbers, a tuple where they are."""
    example = tasks.labels[0]
    if not isinstance(example, tuple):
        return tasks.typed(text)
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != len(example):
        raise ValueError(
            f"{text!r} is not a task here: give {len(example)} values with a comma between "
            f"them, such as {','.join(map(str, example))}."
        )
    return tasks.typed(parts)


def _answer(name: str, answer: Any) -> dict[str, Any]:
    told = {k: v for k, v in vars(answer).items() if not k.startswith("_") and k != "terms"}
    return {"task": name, "words": str(answer)} | told


COMMANDS = {"fit": _fit, "predict": _predict, "report": _report, "path": _path, "why": _why}
