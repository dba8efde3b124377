"""The past of series as columns for Phase II, which finds windows of time in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ctfa.core.lags import Lags, Window, read_lags, read_step


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
        Series in rows that follow each other at equal distance: a lag is a number of rows. Where
        the calendar has gaps, use ``ctfa.labelled.fit(lags=...)``, or fill in rows of NaN.
    lags : iterable of int, or dict
        Steps back, such as ``range(0, 25)``, for every series; or for some by name or position:
        the others stay as they are, and merge with no other column.
    step : str, default="step"
        What one row is in time, for the names: ``"week"``, ``"month"``, ``"8 days"``.
    names : list of str, default=None
        Of the series. None takes those of a data frame, else x0, x1, ...

    Returns
    -------
    columns : array or data frame
        ``X`` with the series last: all lags of the first, then of the second. NaN in the first
        rows, whose past is not there: leave out as many as the longest lag before a fit, or hand
        them to ``MultiInputCTFARegressor``, which takes gaps.
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
