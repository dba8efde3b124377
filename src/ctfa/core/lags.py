"""Values of the past as columns: their names, the chain that joins them, windows of time.

A lagged column says in its name of which series it is and how far back: ``rain, 3 weeks before``.
Names alone tell what a window is, so that files, pages and pictures need nothing else.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ctfa.core.types import IntArray

#: A column of the past, by its name.
_NAME = re.compile(r"(?P<series>.+), (?P<back>\d+) (?P<unit>[a-z]+?)s? before", re.DOTALL)


class Window(NamedTuple):
    """Neighbouring lags of one series; one lag where the first is the last."""

    series: str
    first: int  # the shorter way back
    last: int
    unit: str  # in the singular: "week"

    @property
    def words(self) -> str:
        """How far back: ``3-8 weeks before``, ``3 weeks before``."""
        if self.first != self.last:
            return f"{self.first}-{self.last} {self.unit}s before"
        return f"{self.first} {self.unit}{'' if self.first == 1 else 's'} before"

    def __str__(self) -> str:
        """Its name: ``rain, 3-8 weeks before``."""
        return f"{self.series}, {self.words}"

    @classmethod
    def read(cls, name: Any) -> Window | None:
        """What a name says; None where it is not that of a lagged column."""
        found = _NAME.fullmatch(name) if isinstance(name, str) else None
        back = 0 if found is None else int(found["back"])
        return None if found is None else cls(found["series"], back, back, found["unit"])


class Lags:
    """Which of some columns are of the past, by their names."""

    def __init__(self, names: Sequence[Any]) -> None:
        self.of = [Window.read(name) for name in names]
        self._ranks: dict[Window, int] = {}
        for series in {(lag.series, lag.unit) for lag in self.of if lag is not None}:
            own = {lag for lag in self.of if lag is not None and (lag.series, lag.unit) == series}
            self._ranks |= {lag: rank for rank, lag in enumerate(sorted(own))}

    def __bool__(self) -> bool:
        return bool(self._ranks)

    def rank(self, column: int) -> int:
        """Which of the lags of its series a column is, counted from the present; -1 for none."""
        lag = self.of[column]
        return -1 if lag is None else self._ranks[lag]

    def window(self, members: Sequence[int] | IntArray) -> Window | None:
        """The window that columns make together; None where they are not lags without a gap."""
        lags = [self.of[member] for member in members]
        known = sorted(lag for lag in lags if lag is not None)
        if not known or len(known) < len(lags):
            return None
        first, last = known[0], known[-1]
        if (first.series, first.unit) != (last.series, last.unit):
            return None
        ranks = [self._ranks[lag] for lag in known]
        if ranks != list(range(ranks[0], ranks[0] + len(ranks))):
            return None
        return first._replace(last=last.last)

    def chain(self) -> Any:
        """Who may merge with whom: neighbouring lags of one series only."""
        places = {lag: column for column, lag in enumerate(self.of) if lag is not None}
        ordered = sorted(places, key=lambda lag: (lag.series, lag.unit, lag.first))
        pairs = [
            (places[a], places[b])
            for a, b in itertools.pairwise(ordered)
            if (a.series, a.unit) == (b.series, b.unit)
        ]
        edges = np.array(pairs, dtype=np.intp).reshape(-1, 2)
        both = np.concatenate([edges, edges[:, ::-1]])
        shape = (len(self.of), len(self.of))
        return sparse.csr_array((np.ones(len(both)), (both[:, 0], both[:, 1])), shape=shape)


def read_lags(lags: Any, option: str = "lags", least: int = 0) -> list[int]:
    """Whole numbers of steps back, sorted, each once; one number is itself."""
    try:
        given = [lags] if isinstance(lags, int | np.integer) else lags
        found = sorted({_whole(lag) for lag in given})
        if isinstance(lags, str | Mapping) or not found:
            raise ValueError
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{option}={lags!r}: give whole numbers of steps back, such as range({least}, 25)."
        ) from error
    if found[0] < least:
        later = "a value of the future" if found[0] < 0 else "the value that is to be predicted"
        raise ValueError(
            f"{option} has {found[0]}, which is {later}: give {least} or more steps back."
        )
    return found


def _whole(lag: Any) -> int:
    if isinstance(lag, bool) or int(lag) != lag:
        raise ValueError
    return int(lag)


def read_step(step: str) -> tuple[int, str]:
    """How many of which unit a step of time is: ``"8 days"`` is eight of a day."""
    found = re.fullmatch(r"(?:(\d+) )?([a-z]+?)s?", step) if isinstance(step, str) else None
    if found is None or found[1] == "0":
        raise ValueError(
            f"step={step!r}: give a word such as 'week', or a number of them, '8 days'."
        )
    return int(found[1] or 1), found[2]
