"""Figures of finished cases, and their means over seeds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from ctfa.comparison._store import Row
from ctfa.core.types import FloatArray

#: What a figure is of, besides its seed.
PLACE = ("protocol", "setting", "method")


class Figure(NamedTuple):
    """A quantity over seeds."""

    values: FloatArray

    @property
    def mean(self) -> float:
        """Mean over seeds."""
        return float(self.values.mean())

    @property
    def spread(self) -> float | None:
        """Standard deviation over seeds; None where there is one."""
        return float(self.values.std(ddof=1)) if self.values.size > 1 else None

    @property
    def half_width(self) -> float | None:
        """Half of the 95 % interval of the mean, by Student's t."""
        if self.spread is None:
            return None
        n = self.values.size
        return float(stats.t.ppf(0.975, n - 1) * self.spread / np.sqrt(n))


class Results:
    """Rows of one experiment; rows of cases that failed say why in ``error``."""

    def __init__(self, rows: Iterable[Row]) -> None:
        rows = list(rows)
        self.rows = [row for row in rows if "error" not in row]
        self.failed = [row for row in rows if "error" in row]
        self._figures: dict[tuple[str, str, str, str], list[float]] = {}
        for row in self.rows:
            for quantity, value in row["figures"].items():
                if value is not None:
                    place = (row["protocol"], row["setting"], row["method"], quantity)
                    self._figures.setdefault(place, []).append(value)

    def get(self, protocol: str, setting: str, method: str, quantity: str) -> Figure | None:
        """A quantity over seeds; None where it was not measured."""
        values = self._figures.get((protocol, setting, method, quantity))
        return None if values is None else Figure(np.array(values, dtype=float))

    def mean(self, protocol: str, setting: str, method: str, quantity: str) -> float:
        """Mean over seeds of a quantity that must be there."""
        figure = self.get(protocol, setting, method, quantity)
        if figure is None:
            raise KeyError(f"no {quantity} of {method!r} in {setting!r}, {protocol}")
        return figure.mean

    def why_not(self, setting: str, method: str) -> str | None:
        """What a case that failed said, if one did."""
        said = [r["error"] for r in self.failed if (r["setting"], r["method"]) == (setting, method)]
        return said[0] if said else None

    def every(self, name: str) -> list[str]:
        """Values of "protocol", "setting" or "method", in the order of the rows."""
        return list(dict.fromkeys(row[name] for row in self.rows))

    def __iter__(self) -> Iterator[tuple[dict[str, str], dict[str, Figure]]]:
        """Go through places, each with its quantities."""
        table: dict[tuple[str, str, str], dict[str, Figure]] = {}
        for (*place, quantity), values in self._figures.items():
            figures = table.setdefault((place[0], place[1], place[2]), {})
            figures[quantity] = Figure(np.array(values, dtype=float))
        for names, figures in table.items():
            yield dict(zip(PLACE, names, strict=True)), figures

    def columns(self) -> dict[str, list[Any]]:
        """Every figure as a table: one row a place and quantity."""
        table: dict[str, list[Any]] = {
            name: [] for name in (*PLACE, "quantity", "mean", "std", "low", "high", "n")
        }
        for place, figures in self:
            for quantity, figure in figures.items():
                half = figure.half_width
                ends = (None, None) if half is None else (figure.mean - half, figure.mean + half)
                row = (*place.values(), quantity, figure.mean, figure.spread, *ends,
                       figure.values.size)  # fmt: skip
                for column, value in zip(table.values(), row, strict=True):
                    column.append(value)
        return table
