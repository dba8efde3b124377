"""How many groups each limit gives, and what held-out rows say of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ctfa import _validation as check
from ctfa.core.types import FloatArray
from ctfa.plotting._axes import CHOSEN, INK, axes, bare, make_room
from ctfa.plotting._reading import is_standardised, model_of, require

ERROR, BAND = "#b07d12", "#f3dfb4"
#: Limits beyond so many times break-even are drawn by their logarithm.
WIDE = 8.0
#: Where the horizontal axis may be labelled.
TICKS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0, 300.0, 1e3, 1e4, 1e5)
#: Up to so many limits have a dot each.
DOTTED = 40
#: Held-out errors up to so many ranges of the others are shown; those beyond, at the edge.
REACH = 1.6


class Points(NamedTuple):
    """What is drawn, by increasing limit."""

    max_loss: FloatArray
    n_groups: FloatArray
    error: FloatArray | None
    band: FloatArray | None
    chosen: float | None
    interval: tuple[float, float] | None


def plot_path(path: Any, *, chosen: float | None = None, ax: Any = None) -> Any:
    """Number of groups against ``max_loss``; with held-out errors where limits were tried on folds.

    The limit chosen is a line, and the shaded interval about it holds the limits that give the same
    groups. The band of the errors is one standard error of the difference from the best limit.
    Labels "none" and "all" are the ends: no merge at all, and every one.

    Parameters
    ----------
    path : fitted model or list of PathPoint
        A model fitted with ``max_loss="auto"``: groups (mean over folds) and error of the limits it
        tried. Or what ``target_path`` and ``feature_path`` return: groups alone.
    chosen : float or None, default=None
        The limit to mark; None is that of the model, and for a list none.
    ax : matplotlib Axes, default=None
        Where to draw; None makes a new figure. Errors have a second axis on its right.

    Returns
    -------
    matplotlib Axes
        That of the groups.

    Examples
    --------
    >>> from ctfa import CTFARegressor
    >>> from ctfa.datasets import make_paper_synthetic
    >>> from ctfa.plotting import plot_path
    >>> X, Y = make_paper_synthetic(150, 20, random_state=0)
    >>> ax = plot_path(CTFARegressor().fit(X, Y))  # doctest: +SKIP
    """
    points = _read(path, chosen)
    ax = axes(ax)
    make_room(ax.figure)
    low, high = _ends(points.max_loss)
    place = np.clip(points.max_loss, low, high)
    if high > WIDE:
        ax.set_xscale("symlog", linthresh=2.0, linscale=1.2)
    if points.interval is not None:
        start, end = np.clip(points.interval, low, high)
        ax.axvspan(start, end, color=CHOSEN, alpha=0.12, linewidth=0)
    if points.chosen is not None:
        at = float(np.clip(points.chosen, low, high))
        ax.axvline(at, color=CHOSEN, linewidth=1.4)
    exact = points.error is None
    # Between limits the number is not known where it is a mean over folds.
    style = {"drawstyle": "steps-post"} if exact else {}
    dot = "o" if place.size <= DOTTED else ""
    ax.plot(place, points.n_groups, color=INK, marker=dot, markersize=4, zorder=3, **style)
    if np.nanmax(points.n_groups) > 50.0 * max(1.0, np.nanmin(points.n_groups)):
        ax.set_yscale("log")
        ax.yaxis.set_major_formatter(lambda number, _: f"{number:,.0f}")
    elif np.ptp(points.n_groups) == 0.0:
        ax.set_ylim(0.0, 1.25 * float(points.n_groups[0]))
    else:
        ax.set_ylim(0.0, 1.12 * float(points.n_groups.max()))
    _label_limits(ax, points.max_loss, low, high)
    ax.set_xlabel("max_loss")
    ax.set_ylabel("groups" if exact else "groups (mean over folds)", color=INK)
    ax.set_title(_title(points))
    bare(ax, "top", "right")
    if points.error is not None:
        _draw_errors(ax, place, points, standardised=is_standardised(model_of(path)))
    return ax


def _read(path: Any, chosen: float | None) -> Points:
    if isinstance(path, (list, tuple)):
        if not path or not all(hasattr(point, "partition") for point in path):
            raise TypeError(
                "path is a list that holds no PathPoint: give what target_path returns for one or "
                "more limits, or a fitted model."
            )
        known = sorted(path, key=lambda point: point.max_loss)
        limits = np.array([point.max_loss for point in known], dtype=float)
        groups = np.array([point.n_groups for point in known], dtype=float)
        interval = None
        if chosen is not None:
            before = int(np.searchsorted(limits, chosen, side="right")) - 1
            found = known[max(before, 0)].loss_interval
            interval = found if _holds(found, chosen) else None
        return Points(limits, groups, None, None, chosen, interval)
    path = require(
        path, ("max_loss_", "loss_interval_"), "a fitted model, or a list from target_path"
    )
    curve = check.require_curve(path)
    marked = float(curve.max_loss[curve.chosen]) if chosen is None else chosen
    start, end = path.loss_interval_
    interval = (start, end) if _holds((start, end), marked) else None
    # One standard error and not two: this is to look at; plot_cv_curve is to judge by.
    return Points(
        curve.max_loss, curve.n_groups, curve.error, curve.standard_error, marked, interval
    )


def _holds(interval: tuple[float, float], limit: float) -> bool:
    """Whether a limit gives the groups of an interval, which is without its end unless endless."""
    start, end = interval
    return start <= limit < end or limit == end == np.inf


def _ends(limits: FloatArray) -> tuple[float, float]:
    """Where the two ends are drawn: a step beyond the finite limits."""
    finite = limits[np.isfinite(limits)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    if np.isneginf(limits).any():
        low -= 0.5 if high > WIDE else 0.12 * (high - low or 1.0)
    if np.isposinf(limits).any():
        high = 2.5 * high if high > WIDE else high + 0.12 * (high - low or 1.0)
    return low, high


def _label_limits(ax: Any, limits: FloatArray, low: float, high: float) -> None:
    finite = limits[np.isfinite(limits)]
    if not finite.size:
        finite = np.array([low, high])
    ticks, names = [], []
    if np.isneginf(limits).any():
        ticks, names = [low], ["none"]
    within = np.array([t for t in TICKS if finite.min() <= t <= finite.max()])
    if high > WIDE:
        within = within[(within != 0.5) & (within != 1.5) & (within != 3)]
    if within.size < 2:
        within = np.unique([finite.min(), finite.max()])
    ticks += within.tolist()
    names += [f"{tick:g}" for tick in within]
    if np.isposinf(limits).any():
        ticks.append(high)
        names.append("all")
    ax.set_xticks(ticks, names)
    ax.set_xticks([], minor=True)


def _draw_errors(ax: Any, place: FloatArray, points: Points, *, standardised: bool) -> None:
    """Held-out errors on an axis of their own, on the right."""
    assert points.error is not None
    assert points.band is not None
    right = ax.twinx()
    error, band = points.error, points.band
    right.fill_between(place, error - band, error + band, color=BAND, linewidth=0, alpha=0.7)
    right.plot(place, error, color=ERROR, marker="s", markersize=3.5)
    inner = np.isfinite(points.max_loss)
    low = float((error - band)[inner].min())
    high = float((error + band)[inner].max())
    height = max(high - low, 0.02 * abs(low)) or 1.0
    # No merges and one group may be far worse than all others, and would flatten these.
    shown = (error <= low + REACH * height) & (error >= low - REACH * height)
    low, high = min(low, float(error[shown].min())), max(high, float(error[shown].max()))
    right.set_ylim(low - 0.15 * height, high + 0.25 * height)
    unit = "share of variance" if standardised else "squared units"
    right.set_ylabel(f"held-out error, {unit}", color=ERROR)
    right.tick_params(axis="y", labelcolor=ERROR)
    bare(right, "top", "left")
    # The groups are what the picture is of: their line lies above.
    ax.set_zorder(right.get_zorder() + 1)
    ax.patch.set_visible(False)


def _name(limit: float) -> str:
    return {-np.inf: "none", np.inf: "all"}.get(limit, f"{limit:g}")


def _title(points: Points) -> str:
    what = "Groups" if points.error is None else "Groups and held-out error"
    if points.chosen is None:
        return f"{what} by max_loss"
    shaded = "" if points.interval is None else "; shaded: limits that give the same groups"
    return f"{what} by max_loss\nchosen: {_name(points.chosen)}{shaded}"
