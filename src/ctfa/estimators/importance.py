"""What each feature is worth to a group's predictions, whatever its regressor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ctfa import _validation as check
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
        raise ValueError(f"n_repeats={n_repeats!r} is not known: give a whole number from 1 on.")
    rng = check_random_state(random_state)
    shuffles = [_shuffled(len(inputs), blocks, rng) for _ in range(n_repeats)]
    base, known = losses(inputs), {}
    table: dict[str, list[Any]] = {"group": [], "feature": [], "importance": [], "error": []}
    for group, members in enumerate(fitted.partition.groups):
        features = fitted.model.features_[group]
        own = fitted.columns(group)
        names = features.get_feature_names_out()
        for name, part in zip(names, features.partition_.groups, strict=True):
            columns = _columns(fitted, own[part])
            if columns.tobytes() not in known:
                known[columns.tobytes()] = [
                    losses(_with(inputs, columns, order)) - base for order in shuffles
                ]
            rises = [np.nanmean(rise[members]) for rise in known[columns.tobytes()]]
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


def _with(inputs: FloatArray, columns: IntArray, order: IntArray) -> FloatArray:
    """Inputs with some columns from other rows, together."""
    changed = inputs.copy()
    changed[:, columns] = inputs[np.ix_(order, columns)]
    return changed


def _shuffled(n_rows: int, blocks: IntArray | None, rng: Any) -> IntArray:
    """Rows in another order, each within its block."""
    if blocks is None:
        return np.asarray(rng.permutation(n_rows))
    order = np.arange(n_rows)
    for block in np.unique(blocks):
        rows = np.flatnonzero(blocks == block)
        order[rows] = rng.permutation(rows)
    return order
