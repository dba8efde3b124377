"""Rows on disk, one JSON object a line: what is there is not computed again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Row = dict[str, Any]
Key = tuple[str, int, str]


class Store:
    """Rows appended to a file; of rows with the same key the last one counts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: dict[Key, Row] = {}
        if path.exists():
            for line in path.read_text().splitlines():
                self._keep(line)

    def _keep(self, line: str) -> None:
        try:
            row = json.loads(line)
        except json.JSONDecodeError:  # a line cut short by an interruption
            return
        self.rows[key(row)] = row

    def has(self, wanted: Key, protocol: str, version: str | None) -> bool:
        """Whether a good row of this protocol is there; None accepts any version of a method."""
        row = self.rows.get(wanted)
        if row is None or row["status"] != "ok" or row["protocol"] != protocol:
            return False
        return version is None or row["version"] == version

    def append(self, rows: list[Row]) -> None:
        """Write rows at once, so that an interruption costs one problem at most."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            for row in rows:
                file.write(json.dumps(row) + "\n")
                self.rows[key(row)] = row


def key(row: Row) -> Key:
    """What a row answers."""
    return row["case"], row["seed"], row["method"]
