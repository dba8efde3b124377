"""Figures of finished cases, and their means over seeds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from ctfa.core.types import FloatArray
from ctfa_study.comparison._harness import Row

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
    """Rows of one experiment; rows of cases that failed say why in ``error``.

    ``n_missing`` cases of the protocols were not run at all, so that means may be over fewer seeds
    than these say.
    """

    def __init__(self, rows: Iterable[Row], n_missing: int = 0) -> None:
        rows = list(rows)
        self.n_missing = n_missing
        self.rows = [row for row in rows if "error" not in row]
        self.failed = [row for row in rows if "error" in row]
        #: Seeds and values, by place and quantity.
        self._figures: dict[tuple[str, str, str, str], list[tuple[int, float]]] = {}
        for row in self.rows:
            for quantity, value in row["figures"].items():
                if value is not None:
                    place = (row["protocol"], row["setting"], row["method"], quantity)
                    self._figures.setdefault(place, []).append((row["seed"], value))

    def get(self, protocol: str, setting: str, method: str, quantity: str) -> Figure | None:
        """A quantity over seeds; None where it was not measured."""
        found = self._figures.get((protocol, setting, method, quantity))
        return None if found is None else _figure(found)

    def mean(self, protocol: str, setting: str, method: str, quantity: str) -> float:
        """Mean over seeds of a quantity that must be there."""
        figure = self.get(protocol, setting, method, quantity)
        if figure is None:
            raise KeyError(f"no {quantity} of {method!r} in {setting!r}, {protocol}")
        return figure.mean

    def paired(
        self, protocol: str, setting: str, methods: Sequence[str], quantity: str
    ) -> list[FloatArray]:
        """A quantity of several methods, over the seeds that all of them have: one row per pair.

        Two methods that each lack a seed have as many values, and not of the same seeds.
        """
        found = [dict(self._figures.get((protocol, setting, m, quantity), [])) for m in methods]
        seeds = sorted(set.intersection(*map(set, found)))
        return [np.array([values[seed] for seed in seeds], dtype=float) for values in found]

    def why_not(self, protocols: Sequence[str], setting: str, method: str) -> str | None:
        """What a case that failed under one of these protocols said, if one did."""
        for row in self.failed:
            if (row["setting"], row["method"]) == (setting, method) and (
                row["protocol"] in protocols
            ):
                return str(row["error"])
        return None

    def every(self, name: str) -> list[str]:
        """Values of "protocol", "setting" or "method", in the order of the rows."""
        return list(dict.fromkeys(row[name] for row in self.rows))

    def __iter__(self) -> Iterator[tuple[dict[str, str], dict[str, Figure]]]:
        """Go through places, each with its quantities."""
        table: dict[tuple[str, str, str], dict[str, Figure]] = {}
        for (protocol, setting, method, quantity), found in self._figures.items():
            table.setdefault((protocol, setting, method), {})[quantity] = _figure(found)
        for names, figures in table.items():
            yield dict(zip(PLACE, names, strict=True)), figures

    def columns(self) -> dict[str, list[Any]]:
        """Every figure as a table: one row per place and quantity."""
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


def _figure(found: Sequence[tuple[int, float]]) -> Figure:
    return Figure(np.array([value for _, value in found], dtype=float))
