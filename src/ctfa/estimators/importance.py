"""Importance of each feature to a group's predictions, whatever its regressor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ctfa import _reading as check
from ctfa.core.types import FloatArray, IntArray
from ctfa.estimators.view import FittedGroups


def importance(
    fitted: FittedGroups,
    inputs: FloatArray,
    losses: Callable[[FloatArray], FloatArray],
    n_repeats: int,
    random_state: Any,
    blocks: IntArray | None = None,
) -> Any:
    """By how much the errors of each group rise where a feature's rows are shuffled; a data frame.

    ``losses`` gives the error of every target, as a share of its variance, from inputs in which one
    feature, or the members of one mean of features, belong to other rows: within ``blocks`` where
    there are any.
    """
    if not isinstance(n_repeats, int | np.integer) or n_repeats < 1:
        raise ValueError(f"n_repeats={n_repeats!r} is not known: give a whole number, 1 or more.")
    rng = check_random_state(random_state)
    blocks = np.zeros(len(inputs), dtype=np.intp) if blocks is None else blocks
    rows = [np.flatnonzero(blocks == block) for block in np.unique(blocks)]
    shuffles = [[rng.permutation(own) for own in rows] for _ in range(n_repeats)]

    def rise(columns: IntArray, shuffled: list[IntArray]) -> FloatArray:
        changed = inputs.copy()
        for own, order in zip(rows, shuffled, strict=True):
            changed[np.ix_(own, columns)] = inputs[np.ix_(order, columns)]
        return losses(changed) - base

    base, known = losses(inputs), {}
    table: dict[str, list[Any]] = {"group": [], "feature": [], "importance": [], "error": []}
    for group, members in enumerate(fitted.partition.groups):
        features = fitted.model.features_[group]
        own = fitted.columns(group)
        names = features.get_feature_names_out()
        for name, part in zip(names, features.partition_.groups, strict=True):
            columns = _columns(fitted, own[part])
            if columns.tobytes() not in known:
                known[columns.tobytes()] = [rise(columns, shuffled) for shuffled in shuffles]
            rises = [np.nanmean(one[members]) for one in known[columns.tobytes()]]
            row = (group, str(name), float(np.mean(rises)), float(np.std(rises)))
            for column, value in zip(table.values(), row, strict=True):
                column.append(value)
    return check.as_pandas(table, "importance")


def _columns(fitted: FittedGroups, features: IntArray) -> IntArray:
    """Columns of the inputs that hold these features, every target's own among them."""
    if not fitted.own_inputs:
        return np.sort(features)
    columns = np.unique(fitted.model.layout_[:, features])
    return np.asarray(columns[columns >= 0])
