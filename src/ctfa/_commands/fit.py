"""``ctfa fit``: a file of data in, a folder of results out."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

from ctfa import __version__
from ctfa._commands._asked import RunFile, asked_for, fit_from
from ctfa._commands._results import OutputFolder, document, write_results
from ctfa._commands._terminal import (
    complain,
    guarded,
    path_text,
    print_json,
    print_styled,
    say,
    watched,
)


@guarded
def run(options: argparse.Namespace) -> int:
    """Run it; return the exit code."""
    folder = OutputFolder(options.output, force=options.force)
    asked, before = asked_for(options)
    if before is not None:
        _same_as_before(before, options)
    with watched(options) as steps:
        fitted = fit_from(asked, steps, n_jobs=options.jobs)
        made = resolved(asked, fitted)
        steps(f"writing {options.output}")
        names = folder.write(lambda draft: write_results(fitted, draft, made, folder.path))
    if options.json:
        print_json(document(fitted) | {"output": str(options.output), "files": names})
    else:
        say(*fitted.summary().split("\n"), "")
        print_styled(f"Written to {path_text(folder.path)}: ", rest=", ".join(names))
    return 0


def resolved(asked: RunFile, fitted: Any) -> RunFile:
    """What was asked for, with what the fit found out by itself."""
    plan, options = fitted.plan, dict(asked.options)
    if options["features"] is None:
        options["features"] = [slot.name for slot in plan.slots]
    if options["task"] is None and fitted.form.kind == "xarray":
        options["task"] = list(plan.task_dims)
    if options["sample"] is None and fitted.form.kind == "xarray":
        options["sample"] = plan.sample
    return dataclasses.replace(asked, options=options)


def _same_as_before(before: RunFile, options: argparse.Namespace) -> None:
    changed = before.changed()
    if changed and not options.changed:
        raise ValueError(
            f"{changed[0]}, so the run would not be the same: bring the file back, or add "
            "--changed to go on with what is there."
        )
    if before.version != __version__ and not options.quiet:
        complain("fit", f"note: that run was made by ctfa {before.version}, this is {__version__}.")
