"""Everything the command line takes: each command's options, read with errors in words.

Nothing here imports what a command runs, so that help is there at once.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ctfa._kinds import NEIGHBOUR_RULES, common_formats, either, suffixes_for


class Command(NamedTuple):
    """What adds a command's options to a parser, and what help says of it."""

    add_options: Callable[[argparse.ArgumentParser], None]
    about: str
    examples: str | None = None
    usage: str | None = None


# ------------------------------------------------------------------------------ values of options


def _number(read: Any, fits: Callable[[Any], bool], words: str) -> Callable[[str], Any]:
    """What reads a number, and refuses in words any that does not fit."""

    def checked(text: str) -> Any:
        try:
            value = read(text)
        except ValueError:
            value = math.nan
        if not fits(value):
            raise argparse.ArgumentTypeError(f"{text!r} is not {words}")
        return value

    return checked


def _whole(low: int, high: int, bound: str = "") -> Callable[[str], Any]:
    words = f"a whole number from {low} to {bound or high}"
    return _number(int, lambda value: low <= value <= high, words)


def _percentage(text: str) -> float:
    return float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)


#: A seed of a random generator.
seed = _whole(0, 2**32 - 1, "2**32 - 1")
#: How many of something: one or more; or none.
count, zero_or_more = _whole(1, 10**6), _whole(0, 10**9)
#: A number of blocks of rows.
blocks = _whole(2, 1000)
share = _number(float, lambda value: 0.0 < value < 1.0, "a number between 0 and 1")
_limit = _number(float, lambda value: not math.isnan(value), "a number, and not auto")
tolerance = _number(
    _percentage,
    lambda value: 0.0 <= value < math.inf,
    "a share such as 0.01, or a percentage such as 1%",
)
probability = _number(
    _percentage,
    lambda value: 0.0 < value < 1.0,
    "a share above 0 and below 1, such as 90% or 0.9",
)


def names(text: str) -> list[str]:
    """Names with commas between them."""
    found = [name.strip() for name in text.split(",")]
    if not all(found):
        raise argparse.ArgumentTypeError(f"{text!r} has an empty name")
    return found


def choice(text: str) -> list[str]:
    """A name and the value, or values, that are selected by it."""
    name, _, value = text.partition("=")
    if not name.strip() or not value.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not a name and a value, such as level=850")
    return [text]


def pair(text: str) -> list[str]:
    """Two names with a comma between them; of cells of a grid two times two numbers."""
    found = names(text)
    if len(found) % 2:
        raise argparse.ArgumentTypeError(f"{text!r} is not two tasks with a comma between them")
    return found


def neighbours(text: str) -> str | Path:
    """A file, or a rule of neighbours that does not need one."""
    name, _, number = text.partition(":")
    rule = NEIGHBOUR_RULES.get(name)
    if rule is not None and rule.takes_count:
        count(number)
        return text
    if rule is not None and name == text:
        return text
    if not Path(text).suffix and not Path(text).exists():
        raise argparse.ArgumentTypeError(f"{text!r} is neither a file nor one of {_rules()}")
    return Path(text)


def _rules() -> str:
    return ", ".join(rule.written for rule in NEIGHBOUR_RULES.values())


def lags(text: str) -> list[str]:
    """Steps back by feature, ``rain=0:24,temp=0,3``; of all features without a name."""
    found: list[str] = []
    for part in names(text):
        if "=" in part or not found:
            found.append(part)
        else:  # one more of the feature before
            found[-1] += f",{part}"
    for part in found:
        steps_back(part.rpartition("=")[2])
    return found


def steps_back(text: str) -> list[int]:
    """Whole numbers with commas between them; ``0:24`` is all from 0 to 24."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.strip().partition(":")
        if not (first.isdigit() and (last or first).isdigit()) or int(last or first) < int(first):
            raise argparse.ArgumentTypeError(
                f"{part.strip()!r} is not a number of steps back, such as 3, or 0:24 for 0 to 24"
            )
        found += range(int(first), int(last or first) + 1)
    return found


def max_loss(text: str) -> str | float:
    """A limit, or "auto"."""
    return text if text == "auto" else _limit(text)


def held_out(text: str) -> str | int:
    """A number of blocks, "auto" or "none"."""
    return text if text in ("auto", "none") else blocks(text)


# ------------------------------------------------------- options that commands have in common

#: Options that may be repeated, to add to what was given.
SEVERAL = ("--lags", "-t", "-f", "--select")
#: Those of which each is kept by itself.
PAIRS = ("--together", "--apart")
#: What options are called in Python, where that is not what they are called here.
IN_PYTHON = {"--regions": "n_regions", "--from": "run_file", "--no-timing": "timing"}
#: Options as they are written: what reads the value, or lists those there are, the words of help,
#: and what else argparse is told. ``bool`` is a switch with a --no- beside it, True and False are
#: what a switch sets.
Options = dict[str, tuple[Any, ...]]


def taking(own: Options, **under: Options) -> Callable[[argparse.ArgumentParser], None]:
    """What adds options to a parser, its own and others under the headings of help."""

    def add(parser: argparse.ArgumentParser) -> None:
        for heading, options in ({"": own} | under).items():
            group = parser.add_argument_group(heading) if heading else parser
            for written, (value, words, *more) in options.items():
                parts = written.split()
                flags = [part for part in parts if part.startswith("-")] or parts[:1]
                how: dict[str, Any] = {"type": value, "metavar": parts[-1]}
                if value is bool:
                    how = {"action": argparse.BooleanOptionalAction}
                elif isinstance(value, bool):
                    how = {"action": f"store_{value}".lower()}
                elif isinstance(value, list):
                    how = {"choices": value}
                elif flags[0] in SEVERAL:
                    how["action"] = "extend"
                elif flags[0] in PAIRS:
                    how["action"] = "append"
                if flags[0] in IN_PYTHON:
                    how["dest"] = IN_PYTHON[flags[0]]
                group.add_argument(*flags, help=words and _filled_in(words), **how, **dict(*more))

    return add


def _filled_in(words: str) -> str:
    """Help with the formats and ways to be neighbours that are known by now."""
    known = {
        "maps": ", ".join(suffixes_for("maps")),
        "rules": _rules(),
        "data": either(one.name for one in common_formats("arrays", "tables", "maps")),
        "predicted": either(one.suffixes[0] for one in common_formats("arrays", "tables")),
    }
    return words.format_map(known)


#: Options of a fit: what is in the data, what is done to it, how tasks are merged.
FIT_OPTIONS: dict[str, Options] = {
    "what is in the data": {
        "-t --target NAME": (names,
            "the variable to predict; for a table with one column per task, all of them"),
        "-f --features A,B,...": (names,
            "the variables to predict from; may be repeated (default: all others)"),
        "--sample NAME": (str,
            "the dimension or column of the rows (default: time, where there is one)"),
        "--task NAME": (names,
            "the dimension or column of the tasks, such as basin; lat,lon for a grid"),
        "--select NAME=VALUE": (choice,
            "one level, member or span (level=850, time=2000:2010); may be repeated"),
        "--neighbours FILE|WAY": (neighbours,
            "which tasks may share a model: polygons ({maps}), pairs of labels (.csv), or "
            "{rules} (default: all)"),
        "--places FILE": (Path, "polygons for the map, where --neighbours is not that file"),
        "--layer NAME": (str, "the layer of a polygon file with several"),
    },
    "what is done to it first": {
        "--anomalies": (["month", "season", "dayofyear", "hour"],
            "subtract the mean of each month, season, ..."),
        "--detrend": (bool, "subtract a straight line in time"),
        "--standardise": (bool, "compare tasks in units of their own variance (default: yes)"),
        "--lags NAME=0:24,...": (lags,
            "also take features from these earlier time steps, all features if none is named; "
            "finds windows of neighbouring lags (may be repeated)"),
        "--own-past 1,2,...": (steps_back,
            "also take the target of each task from these earlier time steps"),
        "--weights area|NAME": (str,
            "how much a task counts in its region: by area, or by a coordinate or column"),
        "--masked": (["auto", "leave", "error"],
            "tasks without a single value: left out, or an error (default: left out of grids)"),
    },
    "how tasks are merged and fitted": {
        "--max-loss NUMBER|auto": (max_loss,
            "how far a merge may go: 1 is break-even, larger merges more (default: chosen on "
            "held-out rows)"),
        "--regions N": (count,
            "merge to exactly this many regions, and say what that costs on held-out rows"),
        "--tolerance SHARE": (tolerance,
            "the fewest regions with a held-out error at most this share above the best, "
            "such as 1%% or 0.01"),
        "--min-size N": (count, "merge smaller regions further (default: 1)"),
        "--together A,B": (pair,
            "two tasks that must be in one region; may be repeated. Cells: LAT,LON,LAT,LON"),
        "--apart A,B": (pair, "two tasks that must not; may be repeated"),
        "--aggregate": (["auto", "mean", "pool"],
            "a region is predicted from its mean features, or its tasks keep their own and "
            "share coefficients; auto: what does better on held-out rows (default: auto)"),
        "--head": (["levels", "mean"],
            "each task adds its own deviation to its region's model, or that model predicts "
            "alone (default: levels)"),
        "--regressor": (["linear", "ridge"], "a region's own model"),
        "--solver": (["ols", "ridge"],
            "the regressions that merges are judged by; ridge for many features and few rows"),
        "--merge-features": (bool,
            "also merge features of a region (default: only those that all tasks share)"),
        "--cv K": (blocks, "blocks of rows that --max-loss auto is chosen on (default: 10)"),
        "--held-out K|none": (held_out,
            "blocks of rows held out in turn to judge the result (default: 5; 1 for many "
            "tasks)"),
        "--title TITLE": (str, "title of the report"),
    },
}  # fmt: skip
#: Options that every command has.
PRINTED: Options = {
    "--json": (True, "one JSON document, nothing else"),
    "-q --quiet": (True, "no progress and no notes"),
    "--debug": (True, "show where an error happened"),
}
LOUD = {written: option for written, option in PRINTED.items() if "--quiet" not in written}
#: What several commands take.
REQUIRED = {"required": True}
RUN = {"fitted RUN": (Path, "the folder that ctfa fit wrote")}
FORCE = {"--force": (True, "replace the file that is there")}
JOBS = {"--jobs N": (count, "processes (default 1)")}


# ---------------------------------------------------------------------------- command by command

DOCTOR = """\
Read a file and say what is in it, what is wrong with it and what to do about that, how long a fit
will take, and the command that would do it. Nothing is written."""
DOCTOR_EXAMPLES = """\
examples:
  ctfa doctor basins.nc
  ctfa doctor basins.nc -t vhi -f t2m,tp --neighbours basins.gpkg

What you do not give is guessed, and marked as guessed. The exit code is 1 if something stops a fit.
"""


FIT = """\
Find regions of tasks that are predicted better together, fit one model for each, and write maps,
coefficients, the evidence of every merge and a report page into a folder."""
FIT_EXAMPLES = """\
examples:
  ctfa fit basins.nc -t vhi -f t2m,tp --sample time --task basin --neighbours basins.gpkg -o run
  ctfa fit era5.nc -t swvl1 -f t2m,tp --task lat,lon --neighbours queen --anomalies month -o run
  ctfa fit gauges.csv -t flow -f rain,temp --sample date --task gauge --neighbours nearest:6 -o run
  ctfa fit run/run.toml -o again          the same run again, exactly

what is written:
  report.html       the page to look at first        model.ctfa        for ctfa predict, why, path
  regions.nc .csv   the region of each task          regions.gpkg      the same as a map
  coefficients.*    one row per region               merges.csv        the evidence of every merge
  errors.csv        held-out errors of each task     run.toml          every option, to run it again

Not sure what your file holds? ctfa doctor basins.nc
"""


PREDICT = """\
Predict the target from other data, with the models of a run. The data must name the features as
they were named in fit; tasks are matched by label, and may be some of those of fit."""
PREDICT_EXAMPLES = """\
examples:
  ctfa predict run future.nc -o predicted.nc
  ctfa predict run future.nc -o predicted.nc --interval 90%
  ctfa predict run gauges_2025.csv -o predicted.csv      the ending decides the format
"""


REPORT = """\
Write the report page of a run: one HTML file with the map, the errors, the models and the evidence
of every merge. It needs no network and can be sent by mail."""
REPORT_EXAMPLES = """\
examples:
  ctfa report run --open             look at it
  ctfa report run -o drought.html    write it somewhere else
"""


PATH = """\
For every limit that was tried: how many regions it gives, and the error on held-out rows with its
standard error. The limit that was chosen is marked."""
PATH_EXAMPLES = """\
examples:
  ctfa path run
  ctfa path run --csv path.csv
  ctfa path basins.nc -t vhi -f t2m,tp --task basin --neighbours basins.gpkg

The table of a file of data is that of ctfa fit with the same options; nothing is written.
"""


WHY = """\
Say why a task is in its region: the merges that brought it there, what each was predicted to gain,
and the nearest merge that was refused."""
WHY_EXAMPLES = """\
examples:
  ctfa why run 2080012345
  ctfa why run basin_017 basin_018
  ctfa why run 40.25,-3.75               a cell of a grid
  ctfa why run -- -33.5,151.2            after -- where the first number is negative
"""


FIT_ITSELF: Options = {
    "-o --output FOLDER": (Path, "the folder to write: whole or not at all", REQUIRED),
    "--force": (True, "replace the run that is there"),
    "--from run.toml": (Path, "repeat an earlier run"),
    "--changed": (True, "repeat it although a file has changed"),
    **JOBS,
}
#: The commands of the library, by their names.
COMMANDS = {
    "doctor": Command(
        taking(
            {"data FILE": (str, "{data}"),
             "--no-timing": (False, "do not fit a few tasks to time it")},
            **FIT_OPTIONS, **{"what is printed": PRINTED},
        ),
        DOCTOR, DOCTOR_EXAMPLES, "ctfa doctor FILE [options of ctfa fit]",
    ),
    "fit": Command(
        taking(
            {"data FILE": (str, "{data}; or the run.toml of an earlier run", {"nargs": "?"})},
            **FIT_OPTIONS, **{"output and repetition": FIT_ITSELF, "what is printed": PRINTED},
        ),
        FIT, FIT_EXAMPLES,
        "ctfa fit FILE -t NAME [-f A,B,...] [--task NAME] [--neighbours FILE|WAY] [...] -o FOLDER",
    ),
    "predict": Command(
        taking(
            {**RUN,
             "data FILE": (Path, "data with the features"),
             "-o --output FILE": (Path, "where predictions go: {predicted}", REQUIRED),
             "--interval SHARE": (probability,
                "also write intervals that hold this share of the values, such as 90%% or 0.9"),
             **FORCE,
             "--layer NAME": (str, "the layer of a file that has several"),
             "--select NAME=VALUE": (choice,
                "part of the data, such as level=850; what was selected in fit is selected by "
                "itself")},
            **{"what is printed": PRINTED},
        ),
        PREDICT, PREDICT_EXAMPLES,
    ),
    "report": Command(
        taking(
            {**RUN,
             "-o --output FILE": (Path,
                "the page (default: report.html in the folder of the run)"),
             **FORCE,
             "--open": (True, "show it in a browser")},
            **{"what is printed": PRINTED},
        ),
        REPORT, REPORT_EXAMPLES,
    ),
    "path": Command(
        taking(
            {"data RUN|FILE": (str,
                "the folder of a run, or data with the options of ctfa fit"),
             "--csv FILE": (Path, "also write the table there"),
             "--force": (True, "replace that file"),
             **JOBS},
            **FIT_OPTIONS, **{"what is printed": PRINTED},
        ),
        PATH, PATH_EXAMPLES, "ctfa path RUN|FILE [--csv FILE] [options of ctfa fit]",
    ),
    "why": Command(
        taking(
            RUN | {"labels LABEL": (str, "a task, as the data names it", {"nargs": "+"})},
            **{"what is printed": LOUD},
        ),
        WHY, WHY_EXAMPLES,
    ),
    "demo": Command(
        taking({
            "-o --output FOLDER": (Path, None, {"default": Path("demo_output")}),
            "--seed SEED": (seed, "seed of the example (default 0)", {"default": 0}),
        }),
        "Run both phases on generated river gauges and write the result to a folder; then group "
        "the basins of a generated map and write a report page on them.",
    ),
    "datasets": Command(
        taking({
            "name name": (str, "the data set to describe", {"nargs": "?"}),
            "--data-home FOLDER": (Path, "where to look (default: CTFA_DATA)"),
            "--export FILE": (Path,
                "write a set of places with series of their own to a file for ctfa fit (.nc, "
                ".zarr)"),
        }),
        "List the data sets, or describe one: what it is, its licence, its source.",
    ),
}  # fmt: skip
