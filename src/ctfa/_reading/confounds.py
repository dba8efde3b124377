"""Columns of confounds, which are removed from every series first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ctfa._errors import InputError
from ctfa._reading.numbers import first_of, read_numbers
from ctfa.core.types import BoolArray, FloatArray


def read_confounds(confounds: Any, n_samples: int) -> FloatArray | None:
    """Columns of confounds as finite numbers ``(n_samples, p)``; None without any."""
    if confounds is None:
        return None
    columns = read_numbers(
        confounds,
        "confounds",
        "pass seasons as indicators or harmonics, and time as a number",
        dates="such as the year for a trend and an indicator for each month",
        rounded="count time from a later start",
    )
    if columns.ndim == 1:
        columns = columns[:, None]
    if columns.ndim != 2 or columns.shape[0] != n_samples:
        raise InputError(
            f"confounds has shape {np.shape(confounds)} but X has {n_samples} rows: pass an array "
            "(n_samples, n_columns), one row for each row of X."
        )
    if not columns.shape[1]:
        raise InputError("confounds has no columns: leave it out.")
    bad = np.argwhere(~np.isfinite(columns))
    if bad.size:
        row, column = map(int, bad[0])
        raise InputError(
            f"confounds contains NaN or infinity (first at row {row}, column {column}): it must be "
            "known in every row; leave out the rows where it is not."
        )
    return columns


def read_confounds_again(
    confounds: Any, n_samples: int, seen: FloatArray | None
) -> FloatArray | None:
    """Columns for other rows; ``seen`` are the means of those of fit, None if it had none."""
    if seen is None:
        if confounds is not None:
            raise InputError(
                "confounds were given but fit was given none: leave them out, or pass them to fit "
                "too."
            )
        return None
    if confounds is None:
        raise InputError(
            f"fit removed confounds of {seen.size} columns from every series: pass confounds= for "
            "these rows too, the same columns in the same order."
        )
    columns = read_confounds(confounds, n_samples)
    assert columns is not None
    if columns.shape[1] != seen.size:
        raise InputError(
            f"confounds has {columns.shape[1]} columns but fit has seen {seen.size}: pass the same "
            "columns in the same order."
        )
    return columns


def refuse_in_search(name: str, given: Any) -> None:
    """Refuse options that a search over the limits of both phases does not have."""
    if given is not None:
        raise InputError(
            f"CTFARegressorCV takes no {name}: use CTFARegressor, whose max_loss='auto' is chosen "
            "with it."
        )


def require_levels(confounds: Any, scale: str) -> None:
    """Refuse confounds where levels are to be kept."""
    if confounds is not None and scale == "none":
        raise InputError(
            "scale='none' keeps the levels of the targets, and confounds remove them: use "
            "scale='standard' or 'center' with confounds."
        )


def require_in_sample(features: Any) -> None:
    """Refuse folds of Phase II, which would judge by confounds that have seen their test rows."""
    if features is not None and features.cv is not None:
        raise InputError(
            f"features are judged on folds (cv={features.cv!r}), and the confounds of a fit are "
            "found on all its rows: use FeatureAggregator(cv=None) with confounds."
        )


def require_more_than_confounds(left: BoolArray, names: Sequence[str]) -> None:
    """Refuse targets of which the confounds leave nothing but rounding."""
    told = np.flatnonzero(~left)
    if told.size:
        raise InputError(
            f"the confounds alone explain target {first_of(told, names)}: nothing is left to "
            "predict. Leave it out, or use fewer columns in the confounds."
        )


def unseen_seasons(n_unseen: int, n_rows: int, part: str, names: Sequence[str]) -> str:
    """Warn that rows lie in parts of the calendar of which fit had no row."""
    rows = f"{n_unseen:,} of {n_rows:,} rows to predict lie" if n_rows > 1 else "the row lies"
    parts = f"{part}s" if len(names) > 1 else f"a {part}"
    if part == "hour" and len(names) == 1:
        parts = "an hour"
    return (
        f"{rows} in {parts} of which fit has seen no row ({', '.join(names)}): the season there is "
        "not known, and these predictions lack it; leave those rows out, or fit to rows of every "
        f"{part}."
    )


def other_step(step: float, fitted: float, taken_off: str) -> str:
    """Warn that rows are farther apart, or nearer, than those of fit, whose season was removed."""
    return (
        f"rows to predict are {_days(step)} apart and those of fit {_days(fitted)}: {taken_off} of "
        "fit was removed, which means over other spans of time do not have; give data in the "
        "step of fit, or fit to data in this one."
    )


def _days(step: float) -> str:
    if step >= 1.0:
        return "1 day" if step == 1.0 else f"{step:.3g} days"
    hours = 24.0 * step
    return f"{hours:.3g} hours" if hours > 1.0 else f"{60.0 * hours:.3g} minutes"
