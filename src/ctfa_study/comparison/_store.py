"""Finished runs on disk, one line each: what is there is not run again."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Row = dict[str, Any]


class Store:
    """Rows of finished runs, in a file of JSON lines or, without one, in memory.

    A line is written and flushed when its run ends, so that a comparison that is stopped loses only
    what was under way.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.rows: dict[str, Row] = {}
        if path is not None and path.exists():
            self.rows = {row["key"]: row for row in _read(path)}

    def __contains__(self, key: str) -> bool:
        return key in self.rows

    def __getitem__(self, key: str) -> Row:
        return self.rows[key]

    def add(self, row: Row) -> None:
        """Keep a finished run."""
        self.rows[row["key"]] = row
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # A last line that lost its end must not swallow this one.
        start = "" if _ends_a_line(self.path) else "\n"
        with self.path.open("a", encoding="utf-8") as file:
            file.write(start + json.dumps(row, allow_nan=True) + "\n")
            file.flush()
            os.fsync(file.fileno())


def _ends_a_line(path: Path) -> bool:
    if not path.exists() or path.stat().st_size == 0:
        return True
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def key_of(**what: Any) -> str:
    """Name of a run by all that decides its result."""
    return hashlib.sha256(json.dumps(what, sort_keys=True, default=str).encode()).hexdigest()[:24]


def _read(path: Path) -> Iterator[Row]:
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
            if not isinstance(row, dict) or "key" not in row:
                raise ValueError("not a stored run")
        except ValueError as error:
            if number == len(lines) and not line.endswith("}"):
                # A run that was stopped while it wrote: its line is taken away, and run again.
                whole = "".join(f"{kept}\n" for kept in lines[:-1])
                draft = path.with_suffix(".draft")
                draft.write_text(whole, encoding="utf-8")
                draft.replace(path)
                return
            raise ValueError(
                f"line {number} of {path} is not a stored run ({error}): remove the line, or use "
                "another folder."
            ) from error
        yield row
