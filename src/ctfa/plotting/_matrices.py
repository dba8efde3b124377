"""Matrices of colours: coefficients of the groups, and how often targets are found together."""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

import numpy as np
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from ctfa.core.partition import Partition
from ctfa.core.types import FloatArray, IntArray
from ctfa.estimators.view import FittedGroups
from ctfa.plotting import _axes as draw
from ctfa.plotting._axes import CHOSEN
from ctfa.report._coefficients import per_feature

#: Features up to which lines part those that do not share a mean.
PARTED = 150
#: Below the first two targets are as good as never together, above the second always.
RARELY, ALWAYS = 0.05, 0.95
#: Up to so many targets are called by name.
NAMED = 60


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
    fitted = draw.require_groups(model, "features_", "regressors_")
    if max_groups < 1:
        raise ValueError(f"max_groups={max_groups}: draw one group or more.")
    table = collect(fitted.model)
    rows = np.argsort(-fitted.partition.sizes, kind="stable")[:max_groups]
    columns = side_by_side(table.mean[rows])
    value, mean = table.value[np.ix_(rows, columns)], table.mean[np.ix_(rows, columns)]
    upright = 0.08 * max(min(len(name), 22) for name in table.features)
    width = float(np.clip(3.5 + 0.3 * columns.size, 6.5, 11.0))
    height = float(np.clip(1.8 + 0.3 * rows.size, 3.0, 8.0)) + upright
    ax = draw.axes(ax, width=width, height=height)
    scale, norm = draw.colour_scale(table.value[rows], diverging=True)
    image = ax.imshow(np.ma.masked_invalid(value), cmap=scale, norm=norm, aspect="auto",
                      interpolation="nearest")  # fmt: skip
    if columns.size <= PARTED:
        _part(ax, mean)
    bar = ax.figure.colorbar(image, ax=ax, pad=0.02)
    bar.set_label(f"coefficient\n({_unit(fitted)})", fontsize="small")
    draw.label_places(ax, "x", [table.features[number] for number in columns])
    draw.label_places(ax, "y", [_group_name(fitted, group) for group in rows], letters=34)
    draw.bare(ax, *ax.spines)
    ax.set_title(_title_of_coefficients(fitted.partition.n_groups, mean))
    return ax


def collect(model: Any) -> Table:
    """Coefficients of every group, collapsed through means to those of raw features."""
    fitted = FittedGroups.of(model)
    assert fitted.means is not None
    coef = [
        _coef(regressor, features.n_groups_)
        for regressor, features in zip(model.regressors_, model.features_, strict=True)
    ]
    value = per_feature(fitted, coef) + fitted.group_steps
    return Table(value, fitted.means, list(fitted.features))


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
    draw.lines(ax, lines, autolim=False, colors="white", linewidths=1.6 if n_columns <= 60 else 0.7)


def _group_name(fitted: FittedGroups, group: int) -> str:
    names = [fitted.names[member] for member in fitted.partition.groups[group].tolist()]
    return names[0] if len(names) == 1 else f"{draw.listed(names, 24)} ({len(names):,})"


def _unit(fitted: FittedGroups) -> str:
    if fitted.own_rows or not draw.is_standardised(fitted.model):
        return "raw units"
    return f"{'targets' if fitted.shares == 'mean' else 'both'} in units of their spread"


def _title_of_coefficients(n_groups: int, mean: IntArray) -> str:
    text = f"Coefficients of {draw.count(n_groups, 'group')}"
    if len(mean) < n_groups:
        text += f": the {len(mean)} largest"
    if (np.sort(mean, axis=1)[:, 1:] == np.sort(mean, axis=1)[:, :-1]).any():
        text += "\ncells that are not parted: one mean of features"
    return text


def plot_stability(model: Any, *, ax: Any = None) -> Any:
    """Share of subsamples in which each two targets are in one group.

    Targets are sorted by group, groups that are often found together side by side, and within a
    group likewise. The frames are the groups: a sharp picture has dark frames and nothing outside.

    Parameters
    ----------
    model : CTFARegressor or MultiInputCTFARegressor
        Fitted, after ``model.stability(X, y)``.
    ax : matplotlib Axes, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from ctfa import CTFARegressor
    >>> from ctfa.datasets import make_paper_synthetic
    >>> from ctfa.plotting import plot_stability
    >>> X, Y = make_paper_synthetic(150, 20, random_state=0)
    >>> model = CTFARegressor().fit(X, Y)
    >>> together = model.stability(X, Y, random_state=0)
    >>> ax = plot_stability(model)  # doctest: +SKIP
    """
    give = "a fitted CTFARegressor or MultiInputCTFARegressor"
    called = "fit.estimator" if draw.is_labelled(model) else "model"
    fitted = draw.require_groups(model, "stability", give=give)
    if not hasattr(fitted.model, "stability_"):
        raise ValueError(
            f"{type(fitted.model).__name__} has no stability_ yet: call {called}.stability(X, y) "
            "first, with the data of fit."
        )
    partition, shares = fitted.partition, np.asarray(fitted.model.stability_)
    order = stable_order(partition, shares)
    n_targets, names = order.size, fitted.names
    letters = min(max(map(len, names)), 22) if n_targets <= NAMED else 0
    ax = draw.axes(ax, width=6.6 + 0.085 * letters, height=5.6)
    image = ax.imshow(shares[np.ix_(order, order)], cmap="Blues", vmin=0.0, vmax=1.0,
                      interpolation="nearest" if n_targets <= 500 else "auto")  # fmt: skip
    _frames(ax, partition, order)
    bar = ax.figure.colorbar(image, ax=ax, ticks=[0.0, RARELY, 0.5, ALWAYS, 1.0])
    bar.ax.set_yticklabels(["0", f"{RARELY:g}", "0.5", f"{ALWAYS:g}", "1"])
    bar.ax.hlines([RARELY, ALWAYS], 0.0, 1.0, colors=CHOSEN, linewidths=1.2)
    bar.set_label("share of subsamples together")
    if n_targets <= NAMED:
        draw.label_places(ax, "y", [names[target] for target in order])
    else:
        ax.set_yticks([])
    ax.set_xticks([])
    ax.set_title(_title_of_shares(partition, shares))
    return ax


def stable_order(partition: Partition, shares: FloatArray) -> IntArray:
    """Targets by group, then by how often they are together; groups likewise."""
    between = partition.mean(partition.mean(shares).T)
    groups = [partition.groups[group] for group in _often_together(between)]
    return np.concatenate([each[_often_together(shares[np.ix_(each, each)])] for each in groups])


def _often_together(shares: FloatArray) -> IntArray:
    """An order in which those that are often together are neighbours."""
    if len(shares) < 3:
        return np.arange(len(shares))
    apart = 1.0 - (shares + shares.T) / 2.0
    np.fill_diagonal(apart, 0.0)
    return np.asarray(leaves_list(linkage(squareform(apart, checks=False), "average")))


def _frames(ax: Any, partition: Partition, order: IntArray) -> None:
    """A square around each group of two or more; the place of others is their own cell."""
    patches = importlib.import_module("matplotlib.patches")
    labels = partition.labels[order]
    starts = np.flatnonzero(np.diff(labels, prepend=-1))
    ends = np.append(starts[1:], labels.size)
    style = {"fill": False, "edgecolor": CHOSEN, "linewidth": 0.6 if labels.size > 500 else 1.6}
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        size = end - start
        if size > 1 or labels.size <= NAMED:
            ax.add_patch(patches.Rectangle((start - 0.5, start - 0.5), size, size, **style))


def _title_of_shares(partition: Partition, shares: FloatArray) -> str:
    """How many groups, and how many of their pairs are always found together."""
    n_targets = partition.n_variables
    text = f"{draw.count(n_targets, 'target')} in {draw.count(partition.n_groups, 'group')}"
    same = partition.labels[:, None] == partition.labels
    pairs = shares[same & ~np.eye(n_targets, dtype=bool)]
    if not pairs.size:
        return text
    return f"{text}\n{np.mean(pairs >= ALWAYS):.0%} of the pairs in groups nearly always together"
