"""Folds: any splitter, counted among the rows used."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.model_selection import GroupKFold, PredefinedSplit, check_cv

from ctfa._validation.data import Sample
from ctfa.core.types import FloatArray, IntArray


def require_foldable(criterion: Any, cv: Any) -> None:
    """Refuse folds for a criterion that needs none."""
    if cv is not None and isinstance(criterion, str) and criterion != "r2":
        raise ValueError(
            f"cv={cv!r} was given but criterion={criterion!r} is judged in sample: use cv=None, or "
            "criterion='r2'."
        )


def read_folds(
    cv: Any, sample: Sample, y: FloatArray, groups: Any = None, *, purpose: str = ""
) -> list[tuple[IntArray, IntArray]]:
    """Training and test rows of each fold, counted among the rows used.

    Rows that stand in for others come with the folds for each purpose.
    """
    if sample.folds is not None:
        return sample.folds[purpose]
    labels = read_labels(groups, sample)
    if labels is not None and isinstance(cv, Integral):
        cv = GroupKFold(int(cv))
    try:
        splits = [
            (np.asarray(train), np.asarray(test))
            for train, test in check_cv(cv, y, classifier=False).split(sample.inputs, y, labels)
        ]
    except (TypeError, ValueError) as error:
        hint = ""
        if labels is None and "groups" in str(error):
            hint = " Pass groups= to fit (through a search: params={'groups': ...})."
        raise ValueError(
            f"cv={cv!r} cannot split {sample.n_samples} rows: {error}{hint}"
        ) from error
    if _names_rows(cv):
        splits = [(_rows_used(train, sample), _rows_used(test, sample)) for train, test in splits]
    if not splits:
        raise ValueError(f"cv={cv!r} gives no folds: use two or more.")
    for number, (train, test) in enumerate(splits):
        if train.size < 2 or test.size < 2:
            raise ValueError(
                f"fold {number} of cv={cv!r} has {train.size} training and {test.size} test rows; "
                "two of each or more are needed. Use fewer folds."
            )
    return splits


def read_labels(groups: Any, sample: Sample) -> Any:
    """Labels of the rows used, for splitters that keep rows of one label together; None without."""
    if groups is None:
        return None
    groups = np.asarray(groups)
    if groups.shape != (sample.n_given,):
        raise ValueError(
            f"groups has shape {groups.shape} but X has {sample.n_given} rows: pass one label for "
            "each row."
        )
    return groups if sample.used is None else groups[sample.used]


def read_cut_folds(
    cv: Any, sample: Sample, values: FloatArray, groups: Any
) -> list[tuple[IntArray, IntArray]]:
    """Folds to choose ``max_loss`` on; a number of them is lowered until each holds two rows."""
    if isinstance(cv, Integral):
        cv = min(int(cv), max(2, sample.n_samples // 2))
    return read_folds(cv, sample, values, groups, purpose="limit")


def warn_if_any_is_short(sample: Sample, splits: Sequence[tuple[IntArray, IntArray]]) -> None:
    """Say once, of all rows or of the shortest fold, that least squares cannot be judged there."""
    if not sample.is_short:
        sample.take(min((train for train, _ in splits), key=len)).warn_if_short()


def warn_if_folds_are_short(
    sizes: Sequence[tuple[int, int]], full_rank: int, fallback: float
) -> bool:
    """Whether the training rows of some fold leave no degrees of freedom; sizes: rows and rank."""
    for number, (n_rows, rank) in enumerate(sizes):
        if n_rows <= rank + 2:
            warnings.warn(
                f"max_loss='auto' cannot be chosen: fold {number} has {n_rows} training rows and "
                f"least squares on these features needs {full_rank + 3}. max_loss={fallback:g} is "
                "used, which suits most data; give it, or use longer folds or fewer features.",
                RuntimeWarning,
                stacklevel=5,
            )
            return True
    return False


def _names_rows(cv: Any) -> bool:
    """Whether folds are lists of rows: they count the rows given, a splitter divides those used."""
    is_splitter = isinstance(cv, Integral) or hasattr(cv, "split")
    return isinstance(cv, PredefinedSplit) or not is_splitter


def _rows_used(rows: Any, sample: Sample) -> IntArray:
    """Positions of the rows given among the rows used."""
    rows = np.flatnonzero(rows) if np.asarray(rows).dtype == bool else np.asarray(rows, np.intp)
    if rows.size and not -sample.n_given <= rows.min() <= rows.max() < sample.n_given:
        raise ValueError(
            f"cv names row {rows.max()} but X has {sample.n_given} rows: make the folds for these "
            "rows."
        )
    if sample.used is None:
        return np.asarray(rows)
    position = np.cumsum(sample.used) - 1
    return np.asarray(position[rows[sample.used[rows]]])
