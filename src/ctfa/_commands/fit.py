"""``ctfa fit``: a file of data in, a folder of results out."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import Any

from ctfa import __version__
from ctfa._commands import _reading as read
from ctfa._commands._fit_options import (
    Asked,
    add_common,
    add_data,
    add_method,
    add_treatment,
    asked_for,
)
from ctfa._commands._folder import OutputFolder
from ctfa._commands._inputs import fit_from
from ctfa._commands._results import document, write_results
from ctfa._commands._run_file import RunFile
from ctfa._commands._running import complain, guarded
from ctfa._commands._terminal import path_text, print_json, print_styled, say, watched
from ctfa._kinds import common_formats, either

ABOUT = """\
Find regions of tasks that are predicted better together, fit one model for each, and write maps,
coefficients, the evidence of every merge and a report page into a folder."""
EXAMPLES = """\
examples:
  ctfa fit basins.nc -t vhi -f t2m,tp --sample time --task basin --neighbours basins.gpkg -o run
  ctfa fit era5.nc -t swvl1 -f t2m,tp --task lat,lon --neighbours queen --anomalies month -o run
  ctfa fit gauges.csv -t flow -f rain,temp --sample date --task gauge --neighbours nearest:6 -o run
  ctfa fit run/run.toml -o again          the same run again, exactly

what is written:
  report.html       the page to look at first        model.ctfa        for ctfa predict, why, path
  regions.nc .csv   the region of each task          regions.gpkg      the same as a map
  coefficients.*    one row a region                 merges.csv        the evidence of every merge
  errors.csv        held-out errors of each task     run.toml          every option, to run it again

Not sure what your file holds? ctfa doctor basins.nc
"""


def add_to(commands: Any) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "fit",
        help="find regions in a file of data, and write maps, models and a report",
        usage="ctfa fit FILE -t NAME [-f A,B,...] [--task NAME] [--neighbours FILE|WAY] [...] "
        "-o FOLDER",
        description=ABOUT,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "data", nargs="?", metavar="FILE",
        help=f"{either(one.name for one in common_formats('arrays', 'tables', 'maps'))}; or the "
        "run.toml of an earlier run",
    )  # fmt: skip
    add_data(parser)
    add_treatment(parser)
    add_method(parser)
    group = parser.add_argument_group("where it goes, and again")
    group.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FOLDER",
        help="written whole or not at all",
    )  # fmt: skip
    group.add_argument("--force", action="store_true", help="replace the run that is there")
    group.add_argument(
        "--from", dest="run_file", type=Path, metavar="run.toml", help="repeat an earlier run"
    )
    group.add_argument(
        "--changed", action="store_true",
        help="repeat it although a file is no longer what it was",
    )  # fmt: skip
    group.add_argument("--jobs", type=read.count, metavar="N", help="processes (default 1)")
    add_common(parser)
    parser.set_defaults(run=guarded("fit", run))


def run(options: argparse.Namespace) -> int:
    """Run it; return the exit code."""
    folder = OutputFolder(options.output, force=options.force)
    asked, before = asked_for(options)
    if before is not None:
        _same_as_before(before, options)
    with watched("fit", quiet=options.quiet or options.json) as steps:
        fitted = fit_from(asked, steps, n_jobs=options.jobs)
        made = resolved(asked, fitted)
        steps(f"writing {options.output}")
        names = folder.write(lambda draft: write_results(fitted, draft, made.run, folder.path))
    if options.json:
        print_json(document(fitted) | {"output": str(options.output), "files": names})
    else:
        say(*fitted.summary().split("\n"), "")
        print_styled(f"Written to {path_text(folder.path)}: ", "bold", rest=", ".join(names))
    return 0


def resolved(asked: Asked, fitted: Any) -> Asked:
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
