"""``ctfa report``: the page of a run, written again or elsewhere."""

from __future__ import annotations

import argparse
import webbrowser
from pathlib import Path
from typing import Any

from ctfa._commands._fit_options import add_common
from ctfa._commands._results import load_run
from ctfa._commands._running import guarded
from ctfa._commands._terminal import path_text, print_json, print_styled, watched
from ctfa._commands.predict import refuse_existing

ABOUT = """\
Write the report page of a run: one HTML file with the map, the errors, the models and the evidence
of every merge. It needs no network and can be sent by mail."""
EXAMPLES = """\
examples:
  ctfa report run --open             look at it
  ctfa report run -o drought.html    write it somewhere else
"""


def add_to(commands: Any) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "report",
        help="write the report page of a run, or open it in a browser",
        description=ABOUT,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("fitted", type=Path, metavar="RUN", help="the folder that ctfa fit wrote")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE",
        help="the page (default: report.html in the folder of the run)",
    )  # fmt: skip
    parser.add_argument("--force", action="store_true", help="replace the file that is there")
    parser.add_argument("--open", action="store_true", help="show it in a browser")
    add_common(parser)
    parser.set_defaults(run=guarded("report", run))


def run(options: argparse.Namespace) -> int:
    """Run it; return the exit code."""
    page = options.output
    if page is None:
        # The page in the folder is made of what lies beside it: writing it again loses nothing.
        page = (
            options.fitted if options.fitted.is_dir() else options.fitted.parent
        ) / "report.html"
    else:
        refuse_existing(page, force=options.force)
    with watched("report", quiet=options.quiet or options.json) as steps:
        fitted = load_run(options.fitted)
        steps(f"writing {page}")
        fitted.report(page)
    size = page.stat().st_size
    if options.json:
        print_json({"output": str(page), "bytes": size})
    else:
        print_styled(f"Written: {path_text(page)}", "bold", rest=f", {size / 1e6:.1f} MB")
    if options.open:
        webbrowser.open(page.absolute().as_uri())
    return 0
