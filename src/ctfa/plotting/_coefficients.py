"""Coefficients of every group's model, feature by feature."""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

import numpy as np

from ctfa.core.partition import Partition
from ctfa.core.types import FloatArray, IntArray
from ctfa.plotting._axes import axes, colour_scale, count, label_places, listed, make_room
from ctfa.plotting._reading import is_standardised, names_of, require

#: Features up to which lines part those that do not share a mean.
PARTED = 150


class Table(NamedTuple):
    """Coefficients of raw features, and which of them enter as one mean."""

    value: FloatArray  # (groups, features); NaN where a group has no such feature
    mean: IntArray  # (groups, features): the number of its mean; -1 without the feature
    features: list[str]


def plot_coefficients(model: Any, *, max_groups: int = 40, ax: Any = None) -> Any:
    """Coefficients of the groups' linear models on the raw features, as a map of colours.

    A mean of k features with coefficient c has c / k for each of them: cells of one mean have one
    colour and no line between them. Groups are sorted by size, features so that those that the
    largest groups average are side by side. A feature that a group has not is grey.

    Parameters
    ----------
    model : CTFARegressor, MultiInputCTFARegressor or PooledCTFARegressor
        Fitted, with a linear regressor: one with ``coef_``, also inside a search over parameters.
        Coefficients are for targets in the units of ``scale`` (for pooled tasks in their own) and
        features as they came; for targets with inputs of their own these have the units of
        ``scale`` too, and are called slots.
    max_groups : int, default=40
        With more groups than this the largest are drawn, and the title says so.
    ax : matplotlib Axes, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from ctfa import CTFARegressor
    >>> from ctfa.datasets import make_paper_synthetic
    >>> from ctfa.plotting import plot_coefficients
    >>> X, Y = make_paper_synthetic(150, 20, random_state=0)
    >>> ax = plot_coefficients(CTFARegressor().fit(X, Y))  # doctest: +SKIP
    """
    model = require(model, ("partition_", "features_", "regressors_"))
    if max_groups < 1:
        raise ValueError(f"max_groups={max_groups}: draw one group or more.")
    table = collect(model)
    partition = model.partition_
    rows = np.argsort(-partition.sizes, kind="stable")[:max_groups]
    columns = side_by_side(table.mean[rows])
    value, mean = table.value[np.ix_(rows, columns)], table.mean[np.ix_(rows, columns)]
    width = float(np.clip(3.5 + 0.3 * columns.size, 6.5, 11.0))
    upright = 0.08 * max(min(len(name), 22) for name in table.features)
    ax = axes(ax, width=width, height=float(np.clip(1.8 + 0.3 * rows.size, 3.0, 8.0)) + upright)
    make_room(ax.figure)
    scale, norm = colour_scale(table.value[rows], diverging=True)
    image = ax.imshow(np.ma.masked_invalid(value), cmap=scale, norm=norm, aspect="auto",
                      interpolation="nearest")  # fmt: skip
    if columns.size <= PARTED:
        _part(ax, mean)
    bar = ax.figure.colorbar(image, ax=ax, pad=0.02)
    bar.set_label(_unit(model), fontsize="small")
    label_places(ax, "x", [table.features[number] for number in columns])
    label_places(ax, "y", [_group_name(model, group) for group in rows], letters=34)
    for side in ax.spines.values():
        side.set_visible(False)
    ax.set_title(_title(partition, rows.size, mean))
    return ax


def collect(model: Any) -> Table:
    """Coefficients of every group, collapsed through means to those of raw features."""
    slots = model._models.slots if hasattr(model, "layout_") else None
    names = _feature_names(model)
    value = np.full((model.n_groups_, len(names)), np.nan)
    mean = np.full(value.shape, -1, dtype=np.intp)
    for group, (features, regressor) in enumerate(
        zip(model.features_, model.regressors_, strict=True)
    ):
        means: Partition = features.partition_
        at = np.arange(len(names)) if slots is None else np.flatnonzero(slots[group])
        value[group, at] = means.share_out(_coef(regressor, means.n_groups))
        mean[group, at] = means.labels
    return Table(value, mean, names)


def side_by_side(mean: IntArray) -> IntArray:
    """Features sorted by their mean in the first row, then in the second, and so on.

    Means are numbered by their first member, so features that nobody averages stay as they came.
    """
    if all(np.unique(row[row >= 0]).size == np.count_nonzero(row >= 0) for row in mean):
        return np.arange(mean.shape[1])
    merged = [row for row in mean if np.unique(row).size < row.size]
    return np.lexsort(merged[::-1])


def _coef(regressor: Any, n_columns: int) -> FloatArray:
    found = getattr(regressor, "best_estimator_", regressor)
    coef = getattr(found, "coef_", None)
    if coef is None or np.size(coef) != n_columns:
        raise TypeError(
            f"{type(found).__name__} has no coefficient for each feature: plot_coefficients shows "
            "linear regressors, such as LinearRegression, Ridge or Lasso."
        )
    coef = coef.toarray() if hasattr(coef, "toarray") else coef
    return np.asarray(coef, dtype=float).reshape(-1)


def _feature_names(model: Any) -> list[str]:
    if hasattr(model, "layout_"):
        found = [""] * model.layout_.shape[1]
        for slots, features in zip(model._models.slots, model.features_, strict=True):
            own = features.feature_names_in_
            for slot, name in zip(np.flatnonzero(slots).tolist(), own, strict=True):
                found[slot] = str(name)
        return found
    plain = [f"x{number}" for number in range(model.n_features_in_)]
    return [str(name) for name in getattr(model, "feature_names_in_", plain)]


def _part(ax: Any, mean: IntArray) -> None:
    """White lines between groups, and between features that do not share a mean."""
    collections = importlib.import_module("matplotlib.collections")
    n_rows, n_columns = mean.shape
    lines = [[(-0.5, row - 0.5), (n_columns - 0.5, row - 0.5)] for row in range(1, n_rows)]
    differ = (np.diff(mean, axis=1) != 0) | (mean[:, 1:] < 0)
    for row, column in zip(*np.nonzero(differ), strict=True):
        lines.append([(column + 0.5, row - 0.5), (column + 0.5, row + 0.5)])
    ax.add_collection(
        collections.LineCollection(
            lines, colors="white", linewidths=1.6 if n_columns <= 60 else 0.7
        ),
        autolim=False,
    )


def _group_name(model: Any, group: int) -> str:
    members = model.partition_.groups[group]
    names = names_of(model)
    if members.size == 1:
        return names[int(members[0])]
    return f"{listed([names[member] for member in members.tolist()], 24)} ({members.size:,})"


def _unit(model: Any) -> str:
    if hasattr(model, "layout_"):
        scaled = "both in units of their spread" if is_standardised(model) else "raw units"
        return f"coefficient\n({scaled})"
    if hasattr(model, "tasks_") or not is_standardised(model):
        return "coefficient\n(raw units)"
    return "coefficient\n(targets in units of their spread)"


def _title(partition: Partition, n_shown: int, mean: IntArray) -> str:
    n_groups = partition.n_groups
    text = f"Coefficients of {count(n_groups, 'group')}"
    if n_shown < n_groups:
        text += f": the {n_shown} largest"
    if (np.sort(mean, axis=1)[:, 1:] == np.sort(mean, axis=1)[:, :-1]).any():
        text += "\ncells that are not parted: one mean of features"
    return text
