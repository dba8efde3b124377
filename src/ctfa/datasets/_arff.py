"""The part of the ARFF format that data sets with several targets use."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from ctfa.core.types import FloatArray

#: A name, quoted in either way or not, and what follows it. Some quote it twice.
ATTRIBUTE = re.compile(r"""@attribute\s+("[^"]*"|'[^']*'|\S+)\s+(.*)""", re.IGNORECASE)
MISSING = "?"


class Column(NamedTuple):
    """One attribute: its name, its levels if it is nominal, and its entries as text."""

    name: str
    levels: tuple[str, ...]
    entries: tuple[str, ...]

    def numbers(self) -> dict[str, FloatArray]:
        """Columns of numbers by name, NaN where missing.

        A nominal attribute is one of zeros and ones for each level but the first.
        """
        absent = np.array([entry == MISSING for entry in self.entries])
        if not self.levels:
            values = [entry if entry != MISSING else "nan" for entry in self.entries]
            return {self.name: np.array(values, dtype=np.float64)}
        return {
            f"{self.name}={level}": np.where(
                absent, np.nan, np.array([float(entry == level) for entry in self.entries])
            )
            for level in self.levels[1:]
        }


def read_arff(text: str) -> list[Column]:
    """Read attributes, numeric and nominal, and their entries."""
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith("%")]
    start = next(number for number, line in enumerate(lines) if line.lower() == "@data")
    matches = [ATTRIBUTE.match(line) for line in lines[:start]]
    attributes = [match.groups() for match in matches if match]
    rows = [[entry.strip() for entry in line.split(",")] for line in lines[start + 1 :]]
    return [
        Column(name.strip("\"'"), _levels(kind), entries)
        for (name, kind), entries in zip(attributes, zip(*rows, strict=True), strict=True)
    ]


def _levels(kind: str) -> tuple[str, ...]:
    if not kind.startswith("{"):
        return ()
    return tuple(level.strip() for level in kind.strip("{} ").split(","))
