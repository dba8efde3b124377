"""Coefficients of every group's model, feature by feature."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ctfa.core.types import FloatArray, IntArray
from ctfa.estimators.view import FittedGroups
from ctfa.plotting._axes import (
    axes,
    bare,
    colour_scale,
    count,
    draw_lines,
    is_standardised,
    label_places,
    listed,
    require_groups,
)
from ctfa.report._coefficients import per_feature

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
    fitted = require_groups(model, "features_", "regressors_")
    if max_groups < 1:
        raise ValueError(f"max_groups={max_groups}: draw one group or more.")
    table = collect(fitted.model)
    rows = np.argsort(-fitted.partition.sizes, kind="stable")[:max_groups]
    columns = side_by_side(table.mean[rows])
    value, mean = table.value[np.ix_(rows, columns)], table.mean[np.ix_(rows, columns)]
    width = float(np.clip(3.5 + 0.3 * columns.size, 6.5, 11.0))
    upright = 0.08 * max(min(len(name), 22) for name in table.features)
    ax = axes(ax, width=width, height=float(np.clip(1.8 + 0.3 * rows.size, 3.0, 8.0)) + upright)
    scale, norm = colour_scale(table.value[rows], diverging=True)
    image = ax.imshow(np.ma.masked_invalid(value), cmap=scale, norm=norm, aspect="auto",
                      interpolation="nearest")  # fmt: skip
    if columns.size <= PARTED:
        _part(ax, mean)
    bar = ax.figure.colorbar(image, ax=ax, pad=0.02)
    bar.set_label(f"coefficient\n({_unit(fitted)})", fontsize="small")
    label_places(ax, "x", [table.features[number] for number in columns])
    label_places(ax, "y", [_group_name(fitted, group) for group in rows], letters=34)
    bare(ax, *ax.spines)
    ax.set_title(_title(fitted.partition.n_groups, rows.size, mean))
    return ax


def collect(model: Any) -> Table:
    """Coefficients of every group, collapsed through means to those of raw features."""
    fitted = FittedGroups.of(model)
    assert fitted.means is not None
    coef = [
        _coef(regressor, features.n_groups_)
        for regressor, features in zip(model.regressors_, model.features_, strict=True)
    ]
    return Table(per_feature(fitted, coef), fitted.means, list(fitted.features))


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


def _part(ax: Any, mean: IntArray) -> None:
    """White lines between groups, and between features that do not share a mean."""
    n_rows, n_columns = mean.shape
    lines = [[(-0.5, row - 0.5), (n_columns - 0.5, row - 0.5)] for row in range(1, n_rows)]
    differ = (np.diff(mean, axis=1) != 0) | (mean[:, 1:] < 0)
    for row, column in zip(*np.nonzero(differ), strict=True):
        lines.append([(column + 0.5, row - 0.5), (column + 0.5, row + 0.5)])
    draw_lines(ax, lines, autolim=False, colors="white", linewidths=1.6 if n_columns <= 60 else 0.7)


def _group_name(fitted: FittedGroups, group: int) -> str:
    names = [fitted.names[member] for member in fitted.partition.groups[group].tolist()]
    return names[0] if len(names) == 1 else f"{listed(names, 24)} ({len(names):,})"


def _unit(fitted: FittedGroups) -> str:
    if fitted.own_rows or not is_standardised(fitted.model):
        return "raw units"
    return f"{'targets' if fitted.shares == 'mean' else 'both'} in units of their spread"


def _title(n_groups: int, n_shown: int, mean: IntArray) -> str:
    text = f"Coefficients of {count(n_groups, 'group')}"
    if n_shown < n_groups:
        text += f": the {n_shown} largest"
    if (np.sort(mean, axis=1)[:, 1:] == np.sort(mean, axis=1)[:, :-1]).any():
        text += "\ncells that are not parted: one mean of features"
    return text
