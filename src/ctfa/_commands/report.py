"""``ctfa report``: the page of a run, written again or elsewhere."""

from __future__ import annotations

import argparse
import webbrowser

from ctfa._commands._results import load_run, refuse_existing
from ctfa._commands._terminal import guarded, path_text, print_json, print_styled, watched


@guarded
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
    with watched(options) as steps:
        fitted = load_run(options.fitted)
        steps(f"writing {page}")
        fitted.report(page)
    size = page.stat().st_size
    if options.json:
        print_json({"output": str(page), "bytes": size})
    else:
        print_styled(f"Written: {path_text(page)}", rest=f", {size / 1e6:.1f} MB")
    if options.open:
        webbrowser.open(page.absolute().as_uri())
    return 0
