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
    """The columns that are values of the past, by their names."""

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
        """The graph of columns that may merge: neighbouring lags of one series only."""
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


class Lagged(NamedTuple):
    """What ``lagged`` gives."""

    columns: Any  # (n_samples, ..., n_columns), NaN where the past is before the first row
    names: list[str]
    connectivity: Any  # sparse, (n_columns, n_columns)


def lagged(X: Any, lags: Any, *, step: str = "step", names: Sequence[str] | None = None) -> Lagged:
    """Columns of the past, and the chain in which only neighbouring lags of one series may merge.

    With ``FeatureAggregator(connectivity=..., min_correlation=-1)`` Phase II finds windows of time,
    such as ``mean(rain, 3-8 weeks before)``.

    Parameters
    ----------
    X : array or data frame of shape (n_samples, n_series), or array (n_samples, n_tasks, n_series)
        Series in consecutive rows at equal distance: a lag is a number of rows. Where the
        calendar has gaps, use ``ctfa.labelled.fit(lags=...)``, or fill in rows of NaN.
    lags : iterable of int, or dict
        Steps back, for example ``range(0, 25)``, for every series; or a dict for some, by name or
        position: the others stay as they are, and merge with no other column.
    step : str, default="step"
        Time from row to row, for the names: ``"week"``, ``"month"``, ``"8 days"``.
    names : list of str, default=None
        Of the series. None takes those of a data frame, else x0, x1, ...

    Returns
    -------
    columns : array or data frame
        ``X`` with the series last: all lags of the first, then of the second. NaN in the first
        rows, whose past is missing: leave out as many rows as the longest lag before a fit, or pass
        them to ``MultiInputCTFARegressor``, which accepts gaps.
    names : list of str
        ``"rain, 3 weeks before"``.
    connectivity : sparse matrix
        The chain, for ``FeatureAggregator(connectivity=...)``.

    Examples
    --------
    >>> import numpy as np
    >>> from ctfa import FeatureAggregator, lagged
    >>> rng = np.random.default_rng(0)
    >>> rain = rng.normal(size=(400, 1))
    >>> past = lagged(rain, range(10), step="week", names=["rain"])
    >>> X = past.columns[9:]
    >>> y = X[:, 3:9].sum(axis=1) + rng.normal(size=391)
    >>> import pandas as pd
    >>> windows = FeatureAggregator(connectivity=past.connectivity, min_correlation=-1)
    >>> windows.fit(pd.DataFrame(X, columns=past.names), y).get_feature_names_out().tolist()
    ['mean(rain, 0-2 weeks before)', 'mean(rain, 3-8 weeks before)', 'rain, 9 weeks before']
    """
    values = np.asarray(X, dtype=np.float64)
    if values.ndim not in (2, 3):
        raise ValueError(
            f"X has shape {values.shape}: give (n_samples, n_series), or (n_samples, n_tasks, "
            "n_series)."
        )
    called = _names(X, names, values.shape[-1])
    back = _by_series(lags, called)
    count, unit = read_step(step)
    columns, found = [], []
    for number, series in enumerate(called):
        for lag in back.get(number, [None]):
            column, name = values[..., number], series
            if lag is not None:
                past = np.full(column.shape, np.nan)
                past[lag:] = column[: max(len(column) - lag, 0)]
                column, name = past, str(Window(series, count * lag, count * lag, unit))
            columns.append(column)
            found.append(name)
    stacked: Any = np.stack(columns, axis=-1)
    if hasattr(X, "iloc"):
        stacked = type(X)(stacked, index=X.index, columns=found)
    return Lagged(stacked, found, Lags(found).chain())


def _names(X: Any, names: Any, count: int) -> list[str]:
    given = getattr(X, "columns", None) if names is None else names
    found = [f"x{k}" for k in range(count)] if given is None else list(map(str, given))
    if len(found) != count or len(set(found)) != count:
        raise ValueError(
            f"names has {len(set(found)):,} different names for {count:,} series: give one each."
        )
    return found


def _by_series(lags: Any, names: list[str]) -> dict[int, list[int]]:
    """Lags by position of the series."""
    if not isinstance(lags, Mapping):
        return dict.fromkeys(range(len(names)), read_lags(lags))
    found = {}
    for series, own in lags.items():
        places = [k for k, name in enumerate(names) if series in (name, k)]
        if not places:
            known = ", ".join(names[:8]) + ", ..." * (len(names) > 8)
            raise ValueError(f"lags names {series!r}, and the series here are {known}.")
        found[places[0]] = read_lags(own)
    return found
