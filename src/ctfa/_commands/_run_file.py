"""run.toml: what a run was made from, and every option, so that it can be made again."""

from __future__ import annotations

import hashlib
import json
import math
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ctfa import __version__
from ctfa._kinds import format_of
from ctfa._names import nearest

NAME = "run.toml"
HEAD = """\
# What ctfa fit did. The same again, into another folder:
#     ctfa fit {name} -o again
# Paths are relative to this file; options on the command line come before those below.
"""


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
        lines = [HEAD.format(name=NAME), f"ctfa = {_value(self.version)}", "", "[files]"]
        for role, path in self.files.items():
            lines.append(f"{role} = {_value(_relative(path, folder))}")
        lines += ["", "[sha256]"]
        lines += [f"{role} = {_value(checksum(path))}" for role, path in self.files.items()]
        lines += ["", "[options]"]
        lines += [
            f"{name} = {_value(value)}" for name, value in self.options.items() if value is not None
        ]
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
        return _sum_of_named(named)
    kind = format_of(path)
    beside = [path.with_suffix(end) for end in (() if kind is None else kind.beside)]
    beside = [p for p in beside if p.is_file()]
    if beside:
        return _sum_of_named([(p.suffix, p) for p in (path, *beside)])
    return _bytes_sum(path)


def _sum_of_named(files: Iterable[tuple[str, Path]]) -> str:
    lines = "".join(f"{_bytes_sum(path)} {name}\n" for name, path in files)
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
    """A value as TOML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else f"{value}"
    if isinstance(value, str):
        # JSON's strings are TOML's, but for one control character.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    raise TypeError(f"{value!r} cannot be written to a run file.")
