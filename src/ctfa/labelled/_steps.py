"""How far apart rows are in time, and where each row lies on that clock."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ctfa.core.libraries import need
from ctfa.core.types import AnyArray, BoolArray, IntArray
from ctfa.labelled._words import row_labels, word

#: Steps of time by their seconds, the longest first.
STEPS = {"day": 86400, "hour": 3600, "minute": 60, "second": 1}
WEEK = 604800
#: Days of a month on average; days by which one may differ, and months of a calendar do.
MONTH, ONE_DIFFERS, ALL_DIFFER = 30.44, 3.0, 0.5
#: Parts of a step to which labels that are plain numbers are told apart.
FINE = 1_000_000


class TimeStep(NamedTuple):
    """The distance of one row to the next."""

    words: str  # "8 days", "week", "month"; "step" where labels are numbers, or there are none
    length: float  # in seconds, in months, or in the unit of the numbers

    @classmethod
    def of(cls, samples: Any, option: str) -> TimeStep:
        """Read it off the labels of the rows, a coordinate; refuse rows that have none."""
        if samples.size < 3:
            raise ValueError(
                f"{option} needs three rows or more, and {samples.name} has {samples.size}."
            )
        values = _labels(samples)
        if values.dtype.kind in "iuf":
            apart = np.diff(values.astype(np.float64))
            length = float(np.median(apart))
            off = np.abs(apart / length - np.rint(apart / length))
            if (off > 1e-6).any():
                raise _uneven(samples, values, int(np.argmax(off)), option)
            return cls("step", length)
        if values.dtype.kind != "M" and not _dated(values):
            raise ValueError(
                f"{option} needs dates or numbers along {samples.name!r}, which holds "
                f"{values.dtype} values such as {word(values[0])}: a lag is a distance in time."
            )
        seconds, months, _ = clock(values)
        words, counts = step_in_words(np.diff(seconds), np.diff(months))
        if words == "irregular":
            usual = _usual(np.diff(seconds))
            raise _uneven(samples, values, int(np.argmax(np.diff(seconds) % usual != 0)), option)
        by_month = words.split()[-1].rstrip("s") in ("month", "year")
        steps = np.diff(months if by_month else seconds)
        return cls(words, float(steps[np.argmin(counts)] / counts.min()))

    def places(self, wanted: Any, among: Any, lag: int) -> IntArray:
        """Where among the rows of one coordinate those of another were so many steps before.

        -1 where there is no such row: labels are compared, so that gaps in the calendar are gaps.
        """
        first = _labels(wanted)[0]
        there, asked = (self._clock(samples, first) for samples in (among, wanted))
        unit = FINE if self.words == "step" else round(self.length)
        return np.asarray(
            need("pandas").Index(there).get_indexer(asked - lag * unit), dtype=np.intp
        )

    def _clock(self, samples: Any, start: Any) -> IntArray:
        values = _labels(samples)
        if self.words == "step":
            if values.dtype.kind not in "iuf":
                raise ValueError(
                    f"{samples.name} holds {values.dtype} values, in fit it held numbers: lags are "
                    "distances along it."
                )
            parts = values.astype(np.float64) / self.length
            return np.rint(parts * FINE).astype(np.int64)
        if values.dtype.kind != "M" and not _dated(values):
            raise ValueError(
                f"{samples.name} holds {values.dtype} values, in fit it held dates {self.words}s "
                "apart: lags are distances in time."
            )
        seconds, months, _ = clock(values, start)
        return months if self.words.split()[-1].rstrip("s") in ("month", "year") else seconds


def _labels(samples: Any) -> AnyArray:
    """Labels of rows, periods by their first day; rows are counted where they have none."""
    if samples.name not in samples.coords:
        return np.arange(samples.size)
    index = samples.to_index()
    if hasattr(index, "to_timestamp"):
        return np.asarray(index.to_timestamp().to_numpy())
    return np.asarray(row_labels(samples))


def _dated(values: AnyArray) -> bool:
    return values.dtype.kind == "O" and hasattr(values[0], "isoformat")


def _uneven(samples: Any, values: AnyArray, at: int, option: str) -> ValueError:
    return ValueError(
        f"{option} needs rows at equal distance, and those of {samples.name} differ: "
        f"{word(values[at])} is followed by {word(values[at + 1])}. Bring the data to one step "
        f"first (ds.resample({samples.name}=...).mean())."
    )


def clock(values: AnyArray, start: Any = None) -> tuple[IntArray, IntArray, BoolArray]:
    """Seconds and months of each time, in its own calendar and zone; and whether it is known.

    Of other calendars than numpy's seconds are counted from ``start``, the first time by default.
    """
    if hasattr(values[0], "calendar"):
        start = values[0] if start is None else start
        passed = np.array([round((value - start).total_seconds()) for value in values])
        months = np.array([12 * value.year + value.month for value in values])
        return passed, months, np.ones(values.size, dtype=bool)
    if values.dtype.kind == "O":
        values = np.array([value.isoformat()[:19] for value in values], dtype="datetime64[s]")
    seconds, numbers = (values.astype(f"datetime64[{unit}]").astype(np.int64) for unit in "sM")
    return seconds, numbers, ~np.isnat(values)


def step_in_words(seconds: IntArray, months: IntArray) -> tuple[str, IntArray]:
    """The usual distance of times, in words, and how many of it each distance is."""
    irregular = "irregular", np.ones(seconds.size, dtype=np.intp)
    if seconds.size < 2:
        return "", irregular[1]
    usual = _usual(months)
    around = np.abs(seconds / 86400 - MONTH * months) <= ONE_DIFFERS + ALL_DIFFER * months
    if usual and around.all() and not (months % usual).any():
        years, left = divmod(usual, 12)
        return _times(usual, "month") if left else _times(years, "year"), months // usual
    usual = _usual(seconds)
    if (seconds % usual).any():
        return irregular
    name = next(name for name, length in STEPS.items() if usual % length == 0)
    return "week" if usual == WEEK else _times(usual // STEPS[name], name), seconds // usual


def _usual(distances: IntArray) -> int:
    """The middle one, which is one of them."""
    return int(np.sort(distances)[(distances.size - 1) // 2])


def _times(count: int, name: str) -> str:
    return name if count == 1 else f"{count} {name}s"
