"""What is to be fitted: the options, the files, run.toml, and the arguments of ``labelled.fit``."""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import inspect
import json
import math
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import RidgeCV

from ctfa import __version__, labelled
from ctfa._commands._options import steps_back
from ctfa._commands._terminal import Steps, path_text
from ctfa._kinds import format_of
from ctfa._text import nearest

NAME = "run.toml"
HEAD = """\
# What ctfa fit did. The same again, into another folder:
#     ctfa fit {name} -o again
# Paths are relative to this file; options on the command line come before those below.
"""
#: Bytes of arrays above which a file is read in pieces.
LARGE = 2 << 30
#: Penalties that a region's ridge regression chooses from.
PENALTIES = np.logspace(-2, 4, 13)
#: Options of a fit that are written to run.toml in words, or are files there.
_IN_WORDS = {"regressor": "linear", "layer": None}
_FILES = ("data", "places", "n_jobs")
#: Options that all say where to stop merging.
_STOPS = ("max_loss", "n_regions", "tolerance")


#: Every option with its default, as in Python; None is left out of run.toml.
DEFAULTS = {
    name: parameter.default
    for name, parameter in inspect.signature(labelled.fit).parameters.items()
    if parameter.kind is parameter.KEYWORD_ONLY and name not in _FILES
} | _IN_WORDS


@dataclass(frozen=True)
class RunFile:
    """A run: its input files with their checksums, and every option of the fit."""

    files: dict[str, Path]  # by what they are to the run: "data", "neighbours"
    options: dict[str, Any]
    sums: dict[str, str] = field(default_factory=dict)
    version: str = __version__

    def changed(self) -> list[str]:
        """One sentence for each input that is gone, or is not what it was."""
        sentences = []
        for role, path in self.files.items():
            if not path.exists():
                sentences.append(f"the {role} file of that run, {path}, is not there any more")
            elif role in self.sums and checksum(path) != self.sums[role]:
                sentences.append(f"{path} has changed since that run (its sha256 is another)")
        return sentences

    def text(self, folder: Path) -> str:
        """The file, as it stands in a folder."""
        tables = {
            "files": {role: _relative(path, folder) for role, path in self.files.items()},
            "sha256": {role: checksum(path) for role, path in self.files.items()},
            "options": {name: value for name, value in self.options.items() if value is not None},
        }
        lines = [HEAD.format(name=NAME), f"ctfa = {_value(self.version)}"]
        for heading, entries in tables.items():
            lines += ["", f"[{heading}]"]
            lines += [f"{name} = {_value(value)}" for name, value in entries.items()]
        return "\n".join(lines) + "\n"


def read_run_file(path: Path, known: Iterable[str]) -> RunFile:
    """Read one; its names are checked, and its paths made absolute."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a run file of ctfa fit: {error}.") from error
    files, options = content.get("files"), content.get("options")
    if not isinstance(files, Mapping) or not isinstance(options, Mapping) or "data" not in files:
        raise ValueError(
            f"{path} is not a run file of ctfa fit: it has no [files] with data, or no [options]."
        )
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise ValueError(f"{path} has an option {unknown[0]!r}{nearest(unknown[0], known)}.")
    here = path.resolve().parent
    placed = {role: Path(os.path.normpath(here / str(file))) for role, file in files.items()}
    sums = {role: str(text) for role, text in content.get("sha256", {}).items()}
    return RunFile(placed, dict(options), sums, str(content.get("ctfa", "")))


def checksum(path: Path) -> str:
    """sha256 of a file with those that belong to it, or of all files in a folder (zarr)."""
    if path.is_dir():
        parts = [p for p in sorted(path.rglob("*")) if p.is_file()]
        named = [(p.relative_to(path).as_posix(), p) for p in parts]
    else:
        kind = format_of(path)
        beside = [path.with_suffix(end) for end in (() if kind is None else kind.beside)]
        named = [(p.suffix, p) for p in (path, *beside) if p.is_file()]
        if len(named) < 2:
            return _bytes_sum(path)
    lines = "".join(f"{_bytes_sum(part)} {name}\n" for name, part in named)
    return hashlib.sha256(lines.encode()).hexdigest()


def _bytes_sum(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _relative(path: Path, folder: Path) -> str:
    """A path from a folder, with slashes on any system; absolute where there is no way."""
    try:
        return Path(os.path.relpath(path, folder)).as_posix()
    except ValueError:  # another drive
        return path.as_posix()


def _value(value: Any) -> str:
    """A value as TOML writes it: as JSON does, but for infinite numbers and one character."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def asked_for(options: argparse.Namespace) -> tuple[RunFile, RunFile | None]:
    """Everything a fit needs: options given come first, then those of a run file, then defaults."""
    before = _run_file(options)
    given: dict[str, Any] = {name: getattr(options, name, None) for name in DEFAULTS}
    files = dict(before.files) if before else {"data": Path(options.data)}
    merged = DEFAULTS | (before.options if before else {})
    way = given["neighbours"]
    if way is not None:
        files.pop("neighbours", None)
        merged["neighbours"] = None
    if isinstance(way, Path):
        files["neighbours"], given["neighbours"] = way, None
    if getattr(options, "places", None) is not None:
        files["places"] = options.places
    new = {name: value for name, value in given.items() if value is not None}
    if not new.keys().isdisjoint(_STOPS):  # one of these takes the place of another
        merged |= {name: DEFAULTS[name] for name in _STOPS}
    return RunFile({role: Path(p).absolute() for role, p in files.items()}, merged | new), before


def _run_file(options: argparse.Namespace) -> RunFile | None:
    data, given = options.data, getattr(options, "run_file", None)
    if data is not None and given is not None:
        raise ValueError("give a data file or --from run.toml, not both.")
    if data is None and given is None:
        raise ValueError("name a data file, such as basins.nc, or --from run.toml.")
    path = Path(data or str(given))
    if data is not None and path.suffix.lower() != ".toml":
        path /= NAME
        if not path.is_file():
            return None
    return read_run_file(path, DEFAULTS)


def read_data(path: Path, steps: Steps, layer: str | None = None) -> Any:
    """Read a file of data or polygons, and say so."""
    steps(f"reading {path_text(path)}")
    return labelled.read(path, layer=layer)


def read_large(
    path: Path, steps: Steps, names: Iterable[str] | None, layer: str | None = None
) -> Any:
    """The same, in pieces where these variables (None: all) are large and Dask is there."""
    data = read_data(path, steps, layer)
    if not hasattr(data, "data_vars") or importlib.util.find_spec("dask") is None:
        return data
    used = [array for name, array in data.data_vars.items() if names is None or name in names]
    if sum(array.nbytes for array in used) <= LARGE:
        return data
    data.close()
    steps(f"reading {path_text(path)} in pieces")
    return labelled.read(path, layer=layer, lazy=True)


def fit_from(asked: RunFile, steps: Steps, *, n_jobs: int | None = None) -> Any:
    """Read the files and fit."""
    target, features = asked.options["target"], asked.options["features"]
    names = None if target is None or features is None else [*target, *features]
    data = read_large(asked.files["data"], steps, names)
    given = arguments(asked, data, steps)
    steps("fitting")
    return labelled.fit(data, **given, n_jobs=n_jobs)


def arguments(asked: RunFile, data: Any, steps: Steps) -> dict[str, Any]:
    """Everything that labelled.fit takes beside the data."""
    given = dict(asked.options)
    layer = given.pop("layer")
    for role in ("neighbours", "places"):
        if role in asked.files:
            given[role] = read_data(asked.files[role], steps, layer)
    given |= {name: one_or_all(given[name]) for name in ("target", "task")}
    given["select"] = selection(asked.options["select"])
    given["lags"] = lags_of(asked.options["lags"])
    given["regressor"] = RidgeCV(PENALTIES) if given["regressor"] == "ridge" else None
    given["held_out"] = None if given["held_out"] == "none" else given["held_out"]
    weights = given["weights"]
    if weights is not None and weights != "area":
        given["weights"] = _weights(data, weights)
    return given


def lags_of(written: Iterable[str] | None) -> Any:
    """Steps back, by feature where they are named."""
    if not written:
        return None
    found: dict[str, list[int]] = {}
    for text in written:
        name, _, steps = text.rpartition("=")
        found[name] = [*found.get(name, []), *steps_back(steps)]
    if "" in found and len(found) > 1:
        raise ValueError("--lags names a feature in one place and none in another: name each.")
    return found.get("", found)


def selection(choices: Iterable[str] | None) -> dict[str, Any] | None:
    """What is selected, by name; several values of one name are all kept."""
    found: dict[str, list[str]] = {}
    for choice in choices or ():
        name, _, value = choice.partition("=")
        found.setdefault(name.strip(), []).append(value.strip())
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


def one_or_all(names: list[str] | None) -> str | list[str] | None:
    """A name by itself where it is the only one; several are columns, or the sides of a grid."""
    return names[0] if names is not None and len(names) == 1 else names


def _weights(data: Any, name: str) -> Any:
    """A coordinate or a column with a weight for each task."""
    known = [str(key) for key in getattr(data, "variables", getattr(data, "columns", ()))]
    if name not in known:
        raise ValueError(
            f"--weights names {name!r}, which is not in the data ({', '.join(known[:12])}): use "
            "area, or one of these."
        )
    return data[name]
