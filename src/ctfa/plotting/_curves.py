"""Errors with their intervals: of the limits that were tried, of methods on the same splits."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from ctfa import _reading as check
from ctfa.core.cut import CutCurve
from ctfa.core.types import FloatArray
from ctfa.estimators.zeros import CLIMATOLOGY
from ctfa.plotting import _axes as draw
from ctfa.plotting._axes import CHOSEN, INK

BAND, SPLITS = "#bee3f2", "#7fb8d6"
ERROR, ERROR_BAND = "#b07d12", "#f3dfb4"
#: Height of the picture in ranges of the finite limits: an end point beyond it would flatten them.
REACH = 1.6
#: Width of a label of the horizontal axis, in inches.
LABEL_WIDTH = 0.38
#: Length of the label of the vertical axis in one line, in inches.
LONG_LABEL = 2.7
#: A mean farther from the median than so many median deviations is written at the edge.
FAR = 6.0
#: Characters in a line of a long label.
WRAPPED = 70
#: A mean, in a legend.
DOT = {"marker": "o", "linestyle": "", "markersize": 6}
#: Limits beyond so many times break-even are drawn by their logarithm.
WIDE = 8.0
#: Where the horizontal axis of limits may be labelled.
TICKS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0, 300.0, 1e3, 1e4, 1e5)
#: Up to so many limits have a dot each.
DOTTED = 40


def plot_cv_curve(model: Any, *, ax: Any = None) -> Any:
    """Held-out error of each limit that ``max_loss="auto"`` tried, and the one it chose.

    No merge at all and one group, the two ends, may lie far from the rest: an arrow then says how
    far.

    Parameters
    ----------
    model : TargetAggregator or CTFARegressor
        Fitted with ``max_loss="auto"``.
    ax : matplotlib Axes, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from ctfa import CTFARegressor
    >>> from ctfa.datasets import make_paper_synthetic
    >>> from ctfa.plotting import plot_cv_curve
    >>> X, Y = make_paper_synthetic(n_samples=150, n_features=20, n_targets=6, random_state=0)
    >>> ax = plot_cv_curve(CTFARegressor().fit(X, Y))  # doctest: +SKIP
    """
    model = draw.model_of(model)
    curve = check.require_curve(model)
    ax = draw.axes(ax)
    # The two extremes, no merge at all and one group, have no place on a scale of limits.
    places = np.arange(curve.max_loss.size)
    error, band = curve.error, 2.0 * curve.standard_error
    said = "\u00b1 2 standard errors of the\ndifference from the best"
    ax.fill_between(places, error - band, error + band, color=BAND, linewidth=0, label=said)
    ax.plot(places, error, color=INK, marker="o", markersize=4)
    chosen = (places[curve.chosen], error[curve.chosen])
    ax.plot(*chosen, "o", color=CHOSEN, markersize=10)
    low, high = _view(curve)
    height = (high - low) or 1.0
    name, side = _limit_name(curve.max_loss[curve.chosen]), "center"
    if not 2 <= curve.chosen < places.size - 2:  # within the axis
        side = "left" if curve.chosen < 2 else "right"
    ax.annotate(f"chosen: {name}", chosen, xytext=(0, 10), textcoords="offset points", ha=side,
                color=CHOSEN)  # fmt: skip
    ax.set_ylim(low - 0.08 * height, high + 0.15 * height)
    for place in (0, places.size - 1):
        if not low <= error[place] <= high:
            _point_at(ax, place, float(error[place]), up=error[place] > high)
    kept = _labelled(ax, curve)
    labels = [
        f"{_limit_name(curve.max_loss[place])}\n{curve.n_groups[place]:.3g}" for place in kept
    ]
    ax.set_xticks(kept, labels, fontsize="small")
    ax.set_xlabel("max_loss (and mean number of groups)")
    gap = " " if draw.inches(ax, "height") > LONG_LABEL else "\n"
    ax.set_ylabel(f"held-out error,{gap}{draw.unit_of(model)}")
    ax.set_title("Held-out error by max_loss")
    ax.legend(frameon=False, fontsize="small")
    draw.bare(ax)
    return ax


def _view(curve: CutCurve) -> tuple[float, float]:
    """Lowest and highest error to show: all of the finite limits, the ends if they are near."""
    error, band = curve.error, 2.0 * curve.standard_error
    inner = np.isfinite(curve.max_loss)
    inner[curve.chosen] = True
    low, high = float(error[inner].min()), float(error[inner].max())
    # A flat curve is not blown up to rounding: it has the height of its band, or of a twentieth.
    height = max(high - low, 2.0 * float(np.median(band[inner])), 0.05 * low)
    floor, ceiling = high - REACH * height, low + REACH * height
    shown = inner | ((floor <= error) & (error <= ceiling))
    # Bands may be cut off, points may not.
    return (
        max(floor, float((error - band)[shown].min())),
        min(ceiling, float((error + band)[shown].max())),
    )


def _point_at(ax: Any, place: int, value: float, *, up: bool) -> None:
    """An arrow to a point outside the picture, with its value."""
    edge, start = (1.0, 0.84) if up else (0.0, 0.16)
    draw.note(
        ax,
        f"{value:.3g}",
        (place, edge),
        xytext=(place, start),
        xycoords=ax.get_xaxis_transform(),  # across in places, upwards in shares of the axis
        ha="center",
        va="top" if up else "bottom",
        arrowprops={"arrowstyle": "->", "color": INK},
    )


def _limit_name(limit: float) -> str:
    return {-np.inf: "none", np.inf: "all"}.get(limit, f"{limit:g}")


def _labelled(ax: Any, curve: CutCurve) -> list[int]:
    """Places that are labelled: both ends, the one chosen, and others where there is room."""
    last = curve.max_loss.size - 1
    room = draw.inches(ax, "width") / LABEL_WIDTH
    apart = max(1, int(np.ceil(last / max(room, 1.0))))
    kept = sorted({0, curve.chosen, last})
    for place in range(last):
        if min(abs(place - other) for other in kept) >= apart:
            kept.append(place)
    return sorted(kept)


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
    limits, groups, curve, chosen, interval = _read(path, chosen)
    ax = draw.axes(ax)
    low, high = _ends(limits)
    place = np.clip(limits, low, high)
    if high > WIDE:
        ax.set_xscale("symlog", linthresh=2.0, linscale=1.2)
    what = "Groups" if curve is None else "Groups and held-out error"
    title = f"{what} by max_loss"
    if chosen is not None:
        ax.axvline(float(np.clip(chosen, low, high)), color=CHOSEN, linewidth=1.4)
        title += f"\nchosen: {_limit_name(chosen)}"
        if _holds(interval, chosen):
            start, end = np.clip(interval, low, high)
            ax.axvspan(start, end, color=CHOSEN, alpha=0.12, linewidth=0)
            title += "; shaded: limits that give the same groups"
    # Between limits the number is not known where it is a mean over folds.
    style = {"drawstyle": "steps-post"} if curve is None else {}
    dot = "o" if place.size <= DOTTED else ""
    ax.plot(place, groups, color=INK, marker=dot, markersize=4, zorder=3, **style)
    if np.nanmax(groups) > 50.0 * max(1.0, np.nanmin(groups)):
        ax.set_yscale("log")
        ax.yaxis.set_major_formatter(lambda number, _: f"{number:,.0f}")
    else:
        ax.set_ylim(0.0, (1.12 if np.ptp(groups) else 1.25) * float(groups.max()))
    _label_limits(ax, limits, low, high)
    ax.set_xlabel("max_loss")
    ax.set_ylabel("groups" if curve is None else "groups (mean over folds)", color=INK)
    ax.set_title(title)
    draw.bare(ax, "top", "right")
    if curve is not None:
        _draw_errors(ax, place, curve, draw.unit_of(path))
    return ax


def _read(
    path: Any, chosen: float | None
) -> tuple[FloatArray, FloatArray, CutCurve | None, float | None, tuple[float, float]]:
    """Limits, groups of each, errors where folds were asked, the limit marked and its interval."""
    if isinstance(path, (list, tuple)):
        if not path or not all(hasattr(point, "partition") for point in path):
            raise TypeError(
                "path is a list that holds no PathPoint: give what target_path returns for one or "
                "more limits, or a fitted model."
            )
        known = sorted(path, key=lambda point: point.max_loss)
        limits = np.array([point.max_loss for point in known], dtype=float)
        groups = np.array([point.n_groups for point in known], dtype=float)
        before = 0 if chosen is None else int(np.searchsorted(limits, chosen, side="right")) - 1
        return limits, groups, None, chosen, known[max(before, 0)].loss_interval
    path = draw.require(
        path, ("max_loss_", "loss_interval_"), "a fitted model, or a list from target_path"
    )
    curve = check.require_curve(path)
    marked = float(curve.max_loss[curve.chosen]) if chosen is None else chosen
    return curve.max_loss, curve.n_groups, curve, marked, path.loss_interval_


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
    """Finite limits by their value, the two ends by a word."""
    finite = limits[np.isfinite(limits)]
    if not finite.size:
        finite = np.array([low, high])
    within = np.array([t for t in TICKS if finite.min() <= t <= finite.max()])
    if high > WIDE:
        within = within[(within != 0.5) & (within != 1.5) & (within != 3)]
    if within.size < 2:
        within = np.unique([finite.min(), finite.max()])
    names = {tick: f"{tick:g}" for tick in within.tolist()}
    if np.isneginf(limits).any():
        names[low] = "none"
    if np.isposinf(limits).any():
        names[high] = "all"
    ticks = sorted(names)
    ax.set_xticks(ticks, [names[tick] for tick in ticks])
    ax.set_xticks([], minor=True)


def _draw_errors(ax: Any, place: FloatArray, curve: CutCurve, unit: str) -> None:
    """Held-out errors on an axis of their own, on the right."""
    right = ax.twinx()
    # One standard error and not two: this is to look at; plot_cv_curve is to judge by.
    error, band = curve.error, curve.standard_error
    right.fill_between(place, error - band, error + band, color=ERROR_BAND, linewidth=0, alpha=0.7)
    right.plot(place, error, color=ERROR, marker="s", markersize=3.5)
    inner = np.isfinite(curve.max_loss)
    low = float((error - band)[inner].min())
    high = float((error + band)[inner].max())
    height = max(high - low, 0.02 * abs(low)) or 1.0
    # No merges and one group may be far worse than all others, and would flatten these.
    shown = (error <= low + REACH * height) & (error >= low - REACH * height)
    low, high = min(low, float(error[shown].min())), max(high, float(error[shown].max()))
    right.set_ylim(low - 0.15 * height, high + 0.25 * height)
    right.set_ylabel(f"held-out error, {unit}", color=ERROR)
    right.tick_params(axis="y", labelcolor=ERROR)
    draw.bare(right, "top", "left")
    # The groups are what the picture is of: their line lies above.
    ax.set_zorder(right.get_zorder() + 1)
    ax.patch.set_visible(False)


def plot_comparison(comparison: Any, metric: str | None = None, *, ax: Any = None) -> Any:
    """Each method's figure with its interval about that of the reference, the best on top.

    The bar is the 95 % interval of the paired difference to the reference, drawn from its mean: if
    it crosses the line, these splits do not show a difference. The small dots are the splits. For a
    fit the bar is the middle half of its tasks, which says how they differ and not how certain the
    mean is.

    Parameters
    ----------
    comparison : Comparison or LabelledFit
        Of ``ctfa_study.comparison.compare``; or what ``ctfa.labelled.fit`` returned, whose held-out
        errors are drawn beside those of single-task models, climatology and persistence.
    metric : str, default=None
        One of ``ctfa_study.comparison.METRICS``; None is ``"nrmse"``. A fit has only mean squared
        errors in shares of each task's variance.
    ax : matplotlib Axes, default=None
        Where to draw; None makes a new figure, as high as the methods need.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import ctfa
    >>> from ctfa.plotting import plot_comparison
    >>> basins = ctfa.datasets.make_basins(20, 96, 3, n_regions=2, random_state=0).to_xarray()
    >>> fit = ctfa.labelled.fit(basins, target="flow", sample="time", task="basin")
    >>> ax = plot_comparison(fit)  # doctest: +SKIP
    """
    if draw.is_labelled(comparison):
        return _plot_held_out(comparison, metric, ax)
    if not hasattr(comparison, "of_splits"):
        raise TypeError(
            f"{type(comparison).__name__} is not a comparison: give what "
            "ctfa_study.comparison.compare or ctfa.labelled.fit returned."
        )
    metric = "nrmse" if metric is None else metric
    rows = comparison.summary(metric)[::-1]
    ax = draw.axes(ax, height=1.5 + 0.3 * len(rows))
    centre = next((row.mean for row in rows if row.method == comparison.reference), None)
    ends = {}  # of the intervals, drawn about the reference
    for place, row in enumerate(rows):
        splits = comparison.of_splits(metric, row.method)
        ax.plot(splits, np.full(splits.size, place), "o", color=SPLITS, markersize=4, zorder=2)
        own = row.method == comparison.reference
        if centre is not None and not own and np.isfinite(row.low):
            ends[place] = (centre + row.low, centre + row.high)
            ax.plot(ends[place], (place, place), color=INK, linewidth=1.6, zorder=3)
        ax.plot(row.mean, place, "o", color=CHOSEN if own else INK, markersize=6, zorder=4)
    low, high = _span([row.mean for row in rows], [end for pair in ends.values() for end in pair])
    across = ax.get_yaxis_transform()  # in shares of the axis, upwards in places
    for place, row in enumerate(rows):
        start, end = ends.get(place, (row.mean, row.mean))
        if row.mean < low:
            draw.note(ax, f"\u2190 {row.mean:.3g}", (0.0, place), xycoords=across, ha="left",
                      va="center", zorder=5)  # fmt: skip
        elif row.mean > high:
            draw.note(ax, f"{row.mean:.3g} \u2192", (1.0, place), xycoords=across, ha="right",
                      va="center", zorder=5)  # fmt: skip
        else:  # arrow heads where the interval leaves the picture
            for edge, head in [(0.0, "<")] * (start < low) + [(1.0, ">")] * (end > high):
                ax.plot(edge, place, head, color=INK, markersize=5, transform=across, clip_on=False)
    if centre is not None:
        ax.axvline(centre, color=CHOSEN, linewidth=1.0, zorder=1)
    ax.set_xlim(low, high)
    explained = {"mean": DOT | {"color": INK}, "splits": DOT | {"color": SPLITS, "markersize": 4}}
    if centre is not None:
        text = f"95 % interval of the difference to {comparison.reference}"
        explained[text] = {"color": INK, "linewidth": 1.6}
    label = textwrap.fill(comparison.label(metric), WRAPPED)
    _name_methods(ax, [row.method for row in rows], label, comparison.title, explained)
    return ax


def _plot_held_out(fit: Any, metric: str | None, ax: Any) -> Any:
    """Held-out errors of a fit and of models of one task each, the best on top."""
    if metric is not None:
        raise ValueError(
            f"metric={metric!r} is for comparisons: a fit has only mean squared errors on "
            "held-out rows. Leave metric out."
        )
    held_out = fit.need_held_out()
    shown = (*held_out.errors, CLIMATOLOGY, held_out.hardest)
    errors = {name: found for name, found in held_out.every.items() if name in shown}
    methods = sorted(errors, key=held_out.mean, reverse=True)
    ax = draw.axes(ax, height=1.9 + 0.3 * len(methods))
    mine, alone = list(held_out.errors)[:2]
    for place, method in enumerate(methods):
        middle = np.nanquantile(errors[method], (0.25, 0.75))
        ax.plot(middle, (place, place), color=SPLITS, linewidth=5.0, zorder=2)
        colour = CHOSEN if method == alone else INK
        ax.plot(held_out.mean(method), place, "o", color=colour, markersize=6, zorder=4)
    ax.axvline(held_out.mean(alone), color=CHOSEN, linewidth=1.0, zorder=1)
    named = [m if m != mine else f"{m}, regions" for m in methods]
    label, title = f"held-out error, share of {fit.variance}", f"{fit.title}; {held_out.how}"
    middle_half = {"color": SPLITS, "linewidth": 5.0}
    explained = {"mean": DOT | {"color": INK}, "middle half of the tasks": middle_half}
    _name_methods(ax, named, label, title, explained)
    return ax


def _name_methods(
    ax: Any, names: list[str], label: str, title: str, marks: dict[str, dict[str, Any]]
) -> None:
    """Name methods along the axis; say what marks are below it, where no point is hidden."""
    ax.set_yticks(np.arange(len(names)), names)
    ax.set_ylim(-0.6, len(names) - 0.4)
    ax.set_xlabel(label, fontsize="small")
    ax.set_title(textwrap.fill(title, WRAPPED), fontsize="medium", loc="left")
    handles = [ax.plot([], [], label=text, **style)[0] for text, style in marks.items()]
    ax.figure.legend(
        handles=handles, loc="outside lower center", ncols=len(marks), frameon=False,
        fontsize="small",
    )  # fmt: skip
    ax.grid(axis="x", color="#eeeeee", zorder=0)
    draw.bare(ax, "top", "right", "left")
    ax.tick_params(axis="y", length=0)


def _span(means: Sequence[float], ends: Sequence[float]) -> tuple[float, float]:
    """Limits that hold all means but those far from the rest, which would flatten the others.

    The ends of intervals are held too, as far as a half of the width of the means allows.
    """
    values = np.asarray(means, dtype=float)
    middle = float(np.median(values))
    reach = FAR * max(float(np.median(np.abs(values - middle))), 0.02 * abs(middle))
    near = values[np.abs(values - middle) <= reach]
    low, high = float(near.min()), float(near.max())
    width = (high - low) or abs(high) or 1.0
    held = [end for end in ends if low - 0.5 * width <= end <= high + 0.5 * width]
    return min([low, *held]) - 0.1 * width, max([high, *held]) + 0.1 * width
