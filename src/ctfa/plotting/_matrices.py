"""Coefficients of the groups, by feature and by window of time; how often targets are together."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from ctfa.core.lags import Window
from ctfa.core.partition import Partition
from ctfa.core.types import FloatArray, IntArray
from ctfa.estimators.view import FittedGroups
from ctfa.plotting import _axes as draw
from ctfa.plotting._axes import CHOSEN
from ctfa.report._coefficients import coefficients_of

#: Features up to which lines part those that do not share a mean.
PARTED = 150
#: Below the first two targets are as good as never together, above the second always.
RARELY, ALWAYS = 0.05, 0.95
#: Up to so many targets are called by name.
NAMED = 60


#: Share of a row that a band fills; share of the axis below which nothing is written on it.
THICK, ROOM = 0.72, 0.06


def plot_coefficients(model: Any, *, max_groups: int = 40, ax: Any = None) -> Any:
    """Coefficients of the groups' linear models on the raw features, as a map of colours.

    A mean of k features with coefficient c has c / k for each of them: cells of one mean have one
    colour and no line between them. Groups are sorted by size, features so that those that the
    largest groups average are side by side. A feature that a group does not have is grey.

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
    fitted, value, rows = _largest(model, max_groups)
    mean, features = np.asarray(fitted.means)[rows], fitted.features
    columns = side_by_side(mean)
    value, mean = value[np.ix_(rows, columns)], mean[:, columns]
    upright = 0.08 * max(min(len(name), 22) for name in features)
    width = float(np.clip(3.5 + 0.3 * columns.size, 6.5, 11.0))
    height = float(np.clip(1.8 + 0.3 * rows.size, 3.0, 8.0)) + upright
    ax = draw.axes(ax, width=width, height=height)
    scale, norm = draw.colour_scale(value, diverging=True)
    image = ax.imshow(np.ma.masked_invalid(value), cmap=scale, norm=norm, aspect="auto",
                      interpolation="nearest")  # fmt: skip
    if columns.size <= PARTED:
        _part(ax, mean)
    bar = ax.figure.colorbar(image, ax=ax, pad=0.02)
    bar.set_label(f"coefficient\n({_unit(fitted)})", fontsize="small")
    draw.label_places(ax, "x", [features[number] for number in columns])
    draw.label_places(ax, "y", [_group_name(fitted, group) for group in rows], letters=34)
    draw.bare(ax, *ax.spines)
    n_groups, in_order = fitted.partition.n_groups, np.sort(mean, axis=1)
    few = f": the {rows.size} largest" if rows.size < n_groups else ""
    is_mean = (in_order[:, 1:] == in_order[:, :-1]).any()
    said = "\ncells that are not parted: one mean of features" if is_mean else ""
    ax.set_title(f"Coefficients of {draw.count(n_groups, 'group')}{few}{said}")
    return ax


def _largest(model: Any, max_groups: int) -> tuple[FittedGroups, FloatArray, IntArray]:
    """The groups of a model, their coefficients of raw features, and the largest of them."""
    fitted = draw.require_groups(model, "features_", "regressors_")
    if max_groups < 1:
        raise ValueError(f"max_groups={max_groups}: draw one group or more.")
    found = coefficients_of(fitted)
    if found is None:
        regressor = fitted.model.regressors_[0]
        kind = type(getattr(regressor, "best_estimator_", regressor)).__name__
        raise TypeError(
            f"{kind} has no coefficient for each feature: plot_coefficients shows linear "
            "regressors, such as LinearRegression, Ridge or Lasso."
        )
    return fitted, found.value, np.argsort(-fitted.partition.sizes, kind="stable")[:max_groups]


def side_by_side(mean: IntArray) -> IntArray:
    """Features sorted by their mean in the first row, then in the second, and so on.

    Means are numbered by their first member, so features that no group averages stay as they came.
    """
    if all(np.unique(row[row >= 0]).size == np.count_nonzero(row >= 0) for row in mean):
        return np.arange(mean.shape[1])
    merged = [row for row in mean if np.unique(row).size < row.size]
    return np.lexsort(merged[::-1])


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


def plot_windows(model: Any, *, max_groups: int = 12, ax: Any = None) -> Any:
    """Windows of time that linear models are made of: a band each, from its first to its last lag.

    Bands are coloured by the coefficient of the mean over the window, which is written on them.
    There is one row per group, series below each other; the present is on the right.

    Parameters
    ----------
    model : CTFARegressor or MultiInputCTFARegressor, or the result of ``ctfa.labelled.fit``
        Fitted to lagged features (``ctfa.lagged``, ``lags=``), with a linear regressor.
    max_groups : int, default=12
        With more groups than this the largest are drawn, and the title says so.
    ax : matplotlib Axes, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import ctfa
    >>> from ctfa.plotting import plot_windows
    >>> basins = ctfa.datasets.make_basins(5, 150, 2, n_regions=1, random_state=0).to_xarray()
    >>> fit = ctfa.labelled.fit(basins, target="flow", lags=range(6))  # doctest: +SKIP
    >>> ax = plot_windows(fit)  # doctest: +SKIP
    """
    fitted, value, largest = _largest(model, max_groups)
    groups = largest.tolist()
    found = _bands(fitted, value, groups)
    series = list(dict.fromkeys(window.series for _, window, _ in found))
    rows = len(groups) + 1  # of one series, with the line that names it
    height = float(np.clip(1.4 + 0.24 * rows * len(series), 2.6, 16.0))
    ax = draw.axes(ax, width=8.5, height=height)
    step, far, near = _span(fitted, found)
    scale, norm = draw.colour_scale(np.array([coef for *_, coef in found]), diverging=True)
    for row, window, coef in found:
        y, start = series.index(window.series) * rows + row + 1, window.first - step / 2
        width, colour = window.last - window.first + step, scale(norm(coef))
        ax.barh(y, width, left=start, height=THICK, color=colour, edgecolor="white", linewidth=1)
        if width > ROOM * (far - near):  # in ink that is seen on it
            dark = float(np.dot(colour[:3], (0.299, 0.587, 0.114))) < 0.55
            ink = {"color": "white" if dark else "#222222", "fontsize": "x-small"}
            ax.text(start + width / 2, y, f"{coef:+.2f}", ha="center", va="center", **ink)
    ax.set_xlim(far, near)
    ax.set_ylim(len(series) * rows - 0.4, -0.6)
    for number, name in enumerate(series):
        heading = {"fontweight": "bold", "fontsize": "small", "color": draw.INK}
        ax.text(far, number * rows, name, va="center", ha="left", **heading)
    places = [number * rows + row + 1 for number in range(len(series)) for row in range(rows - 1)]
    names = [_group_name(fitted, group) for group in groups]
    ax.set_yticks(places, names * len(series), fontsize="x-small")
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel(f"{found[0][1].unit}s before")
    colours = importlib.import_module("matplotlib.cm").ScalarMappable(norm=norm, cmap=scale)
    bar = ax.figure.colorbar(colours, ax=ax, pad=0.02)
    bar.set_label(f"coefficient of the mean\nover the window\n({_unit(fitted)})", fontsize="small")
    draw.bare(ax, "top", "right", "left")
    n_groups = fitted.partition.n_groups
    few = f": the {len(groups)} largest" if len(groups) < n_groups else ""
    ax.set_title(f"Windows of time of {draw.count(n_groups, 'group')}{few}")
    return ax


def _bands(
    fitted: FittedGroups, value: FloatArray, groups: list[int]
) -> list[tuple[int, Window, float]]:
    """Row, window and coefficient of each band; an error where there is none."""
    found = [
        (row, window, float(value[group, columns].sum()))
        for row, group in enumerate(groups)
        for columns, window in fitted.windows(group)
    ]
    if not found:
        raise ValueError(
            "no feature of this model is of the past: fit with lags=, or to the columns of "
            "ctfa.lagged with their names."
        )
    unit, *others = dict.fromkeys(window.unit for _, window, _ in found)
    if others:
        raise ValueError(f"lags are in {unit}s and in {others[0]}s: draw them in one unit.")
    return found


def _span(
    fitted: FittedGroups, found: list[tuple[int, Window, float]]
) -> tuple[float, float, float]:
    """The distance of lags, and how far back the axis begins and ends."""
    backs = {end for _, window, _ in found for end in (window.first, window.last)}
    for columns, window in fitted.windows(0):
        backs.update(np.linspace(window.first, window.last, len(columns)).astype(int).tolist())
    step = float(np.diff(sorted(backs)).min()) if len(backs) > 1 else 1.0
    return step, max(backs) + step / 2, min(backs) - step / 2


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
    title = f"{draw.count(n_targets, 'target')} in {draw.count(partition.n_groups, 'group')}"
    same = partition.labels[:, None] == partition.labels
    pairs = shares[same & ~np.eye(n_targets, dtype=bool)]
    if pairs.size:
        always = np.mean(pairs >= ALWAYS)
        title += f"\n{always:.0%} of the pairs in groups nearly always together"
    ax.set_title(title)
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
