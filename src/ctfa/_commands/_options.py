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


def _number(kind: Any, fits: Callable[[Any], bool], words: str) -> Callable[[str], Any]:
    """What reads a number of a kind, and refuses in words any that does not fit."""

    def read(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if not fits(value):
            raise argparse.ArgumentTypeError(f"{text!r} is not {words}")
        return value

    return read


def _whole(low: int, high: int, bound: str = "") -> Callable[[str], Any]:
    words = f"a whole number from {low} to {bound or high}"
    return _number(int, lambda value: low <= value <= high, words)


#: A seed of a random generator.
seed = _whole(0, 2**32 - 1, "2**32 - 1")
#: How many of something: one or more; or none.
count, zero_or_more = _whole(1, 10**6), _whole(0, 10**9)
#: A number of blocks of rows.
blocks = _whole(2, 1000)
share = _number(float, lambda value: 0.0 < value < 1.0, "a number between 0 and 1")
_limit = _number(float, lambda value: not math.isnan(value), "a number, and not auto")

_tolerance = _number(
    float, lambda value: 0.0 <= value < math.inf, "a share such as 0.01, or a percentage such as 1%"
)


def names(text: str) -> list[str]:
    """Names with commas between them."""
    found = [name.strip() for name in text.split(",")]
    if not all(found):
        raise argparse.ArgumentTypeError(f"{text!r} has an empty name")
    return found


def probability(text: str) -> float:
    """A share between nothing and all, or a percentage."""
    try:
        found = float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
    except ValueError:
        found = math.nan
    if not 0.0 < found < 1.0:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a share above 0 and below 1, such as 90% or 0.9"
        )
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
    """A file, or a way to be a neighbour that needs none."""
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


def tolerance(text: str) -> float:
    """A share, or a percentage."""
    written, percent = text.removesuffix("%"), text.endswith("%")
    value = float(_tolerance(written))
    return value / 100.0 if percent else value


def held_out(text: str) -> str | int:
    """A number of blocks, "auto" or "none"."""
    return text if text in ("auto", "none") else blocks(text)


# ------------------------------------------------------- options that commands have in common


#: Options of a fit that may be given again, to add to what was given.
SEVERAL = ("--lags", "-t", "-f", "--select")
#: Those of which each is kept by itself.
PAIRS = ("--together", "--apart")
#: What options are called in Python, where that is not what they are called here.
IN_PYTHON = {"--regions": "n_regions"}


def _fit_options() -> dict[str, dict[str, tuple[Any, str]]]:
    """Options of a fit under the headings of help, as they are written, and their words.

    What stands between reads the value, or lists those there are; ``bool`` is a switch.
    """
    return {
        "what is in the data": {
            "-t --target NAME": (names,
                "the variable to predict; for a table with one column a task, all of them"),
            "-f --features A,B,...": (names,
                "the variables to predict from; may be given again (default: all others)"),
            "--sample NAME": (str,
                "the dimension or column of the rows (default: time, where there is one)"),
            "--task NAME": (names,
                "the dimension or column of the tasks, such as basin; lat,lon for a grid"),
            "--select NAME=VALUE": (choice,
                "one level, member or span (level=850, time=2000:2010); may be given again"),
            "--neighbours FILE|WAY": (neighbours,
                f"who may share a model: polygons ({', '.join(suffixes_for('maps'))}), pairs of "
                f"labels (.csv), or {_rules()} (default: anybody)"),
            "--places FILE": (Path, "polygons for the map, where --neighbours is not that file"),
            "--layer NAME": (str, "the layer of a polygon file with several"),
        },
        "what is done to it first": {
            "--anomalies": (["month", "season", "dayofyear", "hour"],
                "take off the mean of each month, season, ..."),
            "--detrend": (bool, "take off a straight line in time"),
            "--standardise": (bool, "compare tasks in units of their own variance (default: yes)"),
            "--lags NAME=0:24,...": (lags,
                "also take features from so many steps of time back, all features where none is "
                "named; finds windows of neighbouring lags (may be given again)"),
            "--own-past 1,2,...": (steps_back,
                "also take the target of each task itself from so many steps back"),
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
                "merge to exactly so many regions, and say what that costs on held-out rows"),
            "--tolerance SHARE": (tolerance,
                "the fewest regions that err on held-out rows at most so much more than the best, "
                "such as 1%% or 0.01"),
            "--min-size N": (count, "merge smaller regions on (default: 1)"),
            "--together A,B": (pair,
                "two tasks that must be in one region; may be given again. Cells: LAT,LON,LAT,LON"),
            "--apart A,B": (pair, "two tasks that must not; may be given again"),
            "--aggregate": (["auto", "mean", "pool"],
                "a region is predicted from its mean features, or its tasks keep their own and "
                "share coefficients; auto: what does better on held-out rows (default: auto)"),
            "--head": (["levels", "mean"],
                "a region's tasks add what is their own to its model, or it serves them alone "
                "(default: levels)"),
            "--regressor": (["linear", "ridge"], "a region's own model"),
            "--solver": (["ols", "ridge"],
                "the regressions that merges are judged by; ridge for many features and few rows"),
            "--merge-features": (bool,
                "also merge features of a region (default: only those that all tasks share)"),
            "--cv K": (blocks, "blocks of rows that --max-loss auto is chosen on (default: 10)"),
            "--held-out K|none": (held_out,
                "blocks of rows held out in turn to judge the result (default: 5; 1 for many "
                "tasks)"),
            "--title TITLE": (str, "what the report is headed by"),
        },
    }  # fmt: skip


def _add_fit(parser: argparse.ArgumentParser) -> None:
    """Every option of a fit: what is in the data, what is done to it, how tasks are merged."""
    for heading, options in _fit_options().items():
        group = parser.add_argument_group(heading)
        for written, (value, words) in options.items():
            flags = [part for part in written.split() if part.startswith("-")]
            how: dict[str, Any] = {"type": value, "metavar": written.split()[-1]}
            if value is bool:
                how = {"action": argparse.BooleanOptionalAction}
            elif isinstance(value, list):
                how = {"choices": value}
            elif flags[0] in SEVERAL:
                how["action"] = "extend"
            elif flags[0] in PAIRS:
                how["action"] = "append"
            if flags[0] in IN_PYTHON:
                how["dest"] = IN_PYTHON[flags[0]]
            group.add_argument(*flags, help=words, **how)


def _add_common(parser: argparse.ArgumentParser, *, quiet: bool = True) -> None:
    """Options that every command has."""
    group = parser.add_argument_group("what is printed")
    group.add_argument("--json", action="store_true", help="one JSON document, nothing else")
    if quiet:
        group.add_argument("-q", "--quiet", action="store_true", help="no progress and no notes")
    group.add_argument("--debug", action="store_true", help="where an error happened, for a report")


# ---------------------------------------------------------------------------- command by command

DOCTOR = """\
Read a file and say what is in it, what is wrong with it and what to do about that, how long a fit
will take, and the command that would do it. Nothing is written."""
DOCTOR_EXAMPLES = """\
examples:
  ctfa doctor basins.nc
  ctfa doctor basins.nc -t vhi -f t2m,tp --neighbours basins.gpkg

What is not given is guessed, and said to be. The exit code is 1 where something stops a fit.
"""


def _doctor(parser: argparse.ArgumentParser) -> None:
    common = either(one.name for one in common_formats("arrays", "tables", "maps"))
    parser.add_argument("data", metavar="FILE", help=common)
    _add_fit(parser)
    parser.add_argument(
        "--no-timing", dest="timing", action="store_false", help="do not fit a few tasks to time it"
    )
    _add_common(parser)


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
  coefficients.*    one row per region                 merges.csv        the evidence of every merge
  errors.csv        held-out errors of each task     run.toml          every option, to run it again

Not sure what your file holds? ctfa doctor basins.nc
"""


def _fit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "data", nargs="?", metavar="FILE",
        help=f"{either(one.name for one in common_formats('arrays', 'tables', 'maps'))}; or the "
        "run.toml of an earlier run",
    )  # fmt: skip
    _add_fit(parser)
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
    group.add_argument("--jobs", type=count, metavar="N", help="processes (default 1)")
    _add_common(parser)


PREDICT = """\
Predict the target from other data, with the models of a run. The data must name the features as
they were named in fit; tasks are matched by label, and may be some of those of fit."""
PREDICT_EXAMPLES = """\
examples:
  ctfa predict run future.nc -o predicted.nc
  ctfa predict run future.nc -o predicted.nc --interval 90%
  ctfa predict run gauges_2025.csv -o predicted.csv      the ending decides the format
"""


def _predict(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("fitted", type=Path, metavar="RUN", help="the folder that ctfa fit wrote")
    parser.add_argument("data", type=Path, metavar="FILE", help="data with the features")
    written = common_formats("arrays", "tables")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE",
        help=f"where predictions go: {either(one.suffixes[0] for one in written)}",
    )  # fmt: skip
    parser.add_argument(
        "--interval", type=probability, metavar="SHARE",
        help="also write intervals that hold this share of what comes, such as 90%% or 0.9",
    )  # fmt: skip
    parser.add_argument("--force", action="store_true", help="replace the file that is there")
    parser.add_argument("--layer", metavar="NAME", help="the layer of a file that has several")
    parser.add_argument(
        "--select", type=choice, action="extend", metavar="NAME=VALUE",
        help="part of the data, such as level=850; what was selected in fit is selected by itself",
    )  # fmt: skip
    _add_common(parser)


REPORT = """\
Write the report page of a run: one HTML file with the map, the errors, the models and the evidence
of every merge. It needs no network and can be sent by mail."""
REPORT_EXAMPLES = """\
examples:
  ctfa report run --open             look at it
  ctfa report run -o drought.html    write it somewhere else
"""


def _report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("fitted", type=Path, metavar="RUN", help="the folder that ctfa fit wrote")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE",
        help="the page (default: report.html in the folder of the run)",
    )  # fmt: skip
    parser.add_argument("--force", action="store_true", help="replace the file that is there")
    parser.add_argument("--open", action="store_true", help="show it in a browser")
    _add_common(parser)


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


def _path(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "data", metavar="RUN|FILE", help="the folder of a run, or data with the options of ctfa fit"
    )
    parser.add_argument("--csv", type=Path, metavar="FILE", help="also write the table there")
    parser.add_argument("--force", action="store_true", help="replace that file")
    _add_fit(parser)
    parser.add_argument("--jobs", type=count, metavar="N", help="processes (default 1)")
    _add_common(parser)


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


def _why(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("fitted", type=Path, metavar="RUN", help="the folder that ctfa fit wrote")
    parser.add_argument("labels", nargs="+", metavar="LABEL", help="a task, as the data names it")
    _add_common(parser, quiet=False)


def _demo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", type=Path, default=Path("demo_output"), metavar="FOLDER")
    parser.add_argument("--seed", type=seed, default=0, help="seed of the example (default 0)")


def _datasets(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", help="the data set to describe")
    parser.add_argument(
        "--data-home", type=Path, metavar="FOLDER", help="where to look (default: CTFA_DATA)"
    )
    parser.add_argument(
        "--export",
        type=Path,
        metavar="FILE",
        help="write a set of places with series of their own to a file for ctfa fit (.nc, .zarr)",
    )


#: The commands of the library, by their names.
COMMANDS = {
    "doctor": Command(_doctor, DOCTOR, DOCTOR_EXAMPLES, "ctfa doctor FILE [options of ctfa fit]"),
    "fit": Command(
        _fit, FIT, FIT_EXAMPLES,
        "ctfa fit FILE -t NAME [-f A,B,...] [--task NAME] [--neighbours FILE|WAY] [...] "
        "-o FOLDER",
    ),
    "predict": Command(_predict, PREDICT, PREDICT_EXAMPLES),
    "report": Command(_report, REPORT, REPORT_EXAMPLES),
    "path": Command(
        _path, PATH, PATH_EXAMPLES, "ctfa path RUN|FILE [--csv FILE] [options of ctfa fit]"
    ),
    "why": Command(_why, WHY, WHY_EXAMPLES),
    "demo": Command(
        _demo,
        "Run both phases on generated river gauges and write the result to a folder; then group "
        "the basins of a generated map and write a report page on them.",
    ),
    "datasets": Command(
        _datasets, "List the data sets, or describe one: what it is, its licence, its source."
    ),
}  # fmt: skip
