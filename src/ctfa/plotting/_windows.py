"""Windows of time in the models of groups: a band for each."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from ctfa.core.lags import Window
from ctfa.estimators.view import FittedGroups
from ctfa.plotting import _axes as draw
from ctfa.plotting._matrices import _group_name, _unit, collect

#: Share of a row that a band fills; share of the axis below which nothing is written on it.
THICK, ROOM = 0.72, 0.06


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
    fitted = draw.require_groups(model, "features_", "regressors_")
    if max_groups < 1:
        raise ValueError(f"max_groups={max_groups}: draw one group or more.")
    groups = np.argsort(-fitted.partition.sizes, kind="stable")[:max_groups].tolist()
    found = _bands(fitted, groups)
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


def _bands(fitted: FittedGroups, groups: list[int]) -> list[tuple[int, Window, float]]:
    """Row, window and coefficient of each band; an error where there is none."""
    value = collect(fitted.model).value
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
