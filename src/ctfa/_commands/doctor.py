"""``ctfa doctor``: what is in a file, what is wrong with it, and how to fit it."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from typing import Any

from ctfa._commands._asked import DEFAULTS, RunFile, asked_for, read_data
from ctfa._commands._contents import Contents, Roles, contents_of, guess_roles, make_dates
from ctfa._commands._examination import Examination, examine
from ctfa._commands._findings import HARMS, NOTE, STOPS, Finding
from ctfa._commands._terminal import (
    guarded,
    path_text,
    print_json,
    print_styled,
    print_table,
    say,
    watched,
)
from ctfa.labelled._gather import without_layers

#: Marks and colours of findings.
MARKS = {STOPS: ("stops", "bold red"), HARMS: ("harms", "yellow"), NOTE: ("note ", "cyan")}
#: Variables of a file that are listed.
MOST_VARIABLES = 40


@guarded
def run(options: argparse.Namespace) -> int:
    """Run it; return the exit code."""
    asked, _ = asked_for(options)
    with watched(options) as steps:
        data = read_data(asked.files["data"], steps)
        contents = contents_of(data)
        left_out: list[str] = []
        if contents.form == "arrays":
            data = without_layers(data, asked.options["sample"], asked.options["task"], left_out)
        known, parts = contents_of(data), _parts_of_dates(contents, asked.options["sample"])
        dates, how = make_dates(data, parts) if parts else (None, "")
        if dates is not None:
            data = data.assign(date=dates)
            known = contents_of(data)
        target = asked.options["target"]
        roles = guess_roles(
            known,
            target=target[0] if target is not None and len(target) == 1 else target,
            features=asked.options["features"] or (),
            sample=asked.options["sample"],
            task=asked.options["task"] or (),
        )
        seen = examine(
            data, known if parts else contents, roles, asked, steps, timing=options.timing
        )
        seen.findings += [Finding(NOTE, note) for note in left_out]
        if dates is not None:
            what = f"{', '.join(parts[:-1])} and {parts[-1]} are dates in several columns"
            seen.findings.append(Finding(STOPS, what, f"make one column of them: {how}"))
        seen.findings.sort(key=lambda finding: list(MARKS).index(finding.severity))
    command = suggestion(asked, roles, seen, shown=options.data)
    if options.json:
        print_json(document(options.data, contents, roles, seen, command))
    else:
        show(path_text(asked.files["data"]), contents, roles, seen, command)
    return 1 if seen.stops else 0


def _parts_of_dates(contents: Contents, sample: str | None) -> list[str]:
    """Columns that are dates together, where there is no column of dates and none is named."""
    parts = contents.date_parts
    dated = any(v.kind == "time" or v.name == "date" for v in contents.variables)
    return [] if dated or sample is not None else parts


def suggestion(asked: RunFile, roles: Roles, seen: Examination, *, shown: str) -> str | None:
    """The command that fits this file; None where it is not known what to fit."""
    has_tasks = roles.task or isinstance(roles.target, list)
    if roles.target is None or not roles.features or not has_tasks:
        return None
    features = [name for name in roles.features if name not in seen.useless]
    words = ["ctfa", "fit", shown, "-t", ",".join(roles.targets), "-f", ",".join(features)]
    way = asked.options["neighbours"] or seen.way
    if "neighbours" in asked.files:
        way = path_text(asked.files["neighbours"])
    said = {"sample": roles.sample, "task": ",".join(roles.task), "neighbours": way}
    said["masked"] = "leave" if seen.masks else None
    for option, value in said.items():
        words += [f"--{option}", value] if value else []
    for found in seen.to_take_off:
        words += found.option_words.split()
    words += _given(asked, {"masked"} if seen.masks else set())
    return shlex.join([*words, "-o", "run"])


def _given(asked: RunFile, said: set[str]) -> Iterator[str]:
    """Options that were given and are not in the command yet."""
    said = said | {"target", "features", "sample", "task", "neighbours"}
    for name, value in asked.options.items():
        if name in said or value == DEFAULTS[name]:
            continue
        option = name.replace("_", "-")
        if isinstance(value, bool):
            yield f"--{option}" if value else f"--no-{option}"
        else:
            yield from (f"--{option}", str(value))
    if "places" in asked.files:
        yield from ("--places", path_text(asked.files["places"]))


def document(
    file: str, contents: Contents, roles: Roles, seen: Examination, command: str | None
) -> dict[str, Any]:
    """Everything, for JSON."""
    return {
        "file": file,
        "contents": contents,
        "period": seen.period,
        "roles": roles,
        "findings": seen.findings,
        "n_samples": seen.n_samples,
        "n_tasks": seen.n_tasks,
        "estimate": seen.estimate,
        "command": command,
        "stops": seen.stops,
    }


def show(
    file: str, contents: Contents, roles: Roles, seen: Examination, command: str | None
) -> None:
    """Print it for people."""
    sizes = ", ".join(f"{size:,} {dim}" for dim, size in contents.sizes.items())
    print_styled(f"{file}: {contents.form} of {sizes}")
    if seen.period is not None:
        say(f"  {roles.sample}: {seen.period.words}")
    rows = [
        [v.name, " x ".join(v.dims), v.kind, v.units or "-", v.words or ""]
        for v in contents.variables[:MOST_VARIABLES]
    ]
    columns = ["variable", "dimensions", "holds", "units", "what it is"]
    print_table(columns, rows, words=columns)
    if len(contents.variables) > MOST_VARIABLES:
        say(f"and {len(contents.variables) - MOST_VARIABLES:,} more")
    say("")
    print_styled("What is what")
    for role, value in (
        ("target", ", ".join(roles.targets)),
        ("features", ", ".join(roles.features)),
        ("sample", roles.sample or ""),
        ("task", ", ".join(roles.task)),
    ):
        guessed = "  (guessed)" if role in roles.guessed else ""
        say(f"  {role:9s} {value or '-'}{guessed}")
    say("")
    print_styled("What was found" if seen.findings else "Nothing wrong was found")
    for number, finding in enumerate(seen.findings):
        mark, style = MARKS[finding.severity]
        print_styled(f"  {mark}  ", style, rest=f"{finding.what}.")
        # The same advice for one thing after another is given once, under the last.
        following = seen.findings[number + 1 : number + 2]
        if finding.do and [f.do for f in following] != [finding.do]:
            say(f"         {finding.do[0].upper()}{finding.do[1:]}.")
    say("")
    if seen.estimate is not None:
        say(f"A fit takes {seen.estimate.words}.")
    if command is not None:
        print_styled("To fit it" if not seen.stops else "To fit it, once what stops it is mended")
        say(f"  {command}")
