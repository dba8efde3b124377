"""Errors with their intervals: of the limits that were tried, of methods on the same splits."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from ctfa import _validation as check
from ctfa.core.cut import CutCurve
from ctfa.plotting._axes import CHOSEN, INK, axes, inches, make_room
from ctfa.plotting._reading import is_labelled, model_of

BAND = "#bee3f2"
SPLITS = "#7fb8d6"
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
    """
    model = model_of(model)
    curve = check.require_curve(model)
    ax = axes(ax)
    make_room(ax.figure)
    # The two extremes, no merge at all and one group, have no place on a scale of limits.
    places = np.arange(curve.max_loss.size)
    error, band = curve.error, 2.0 * curve.standard_error
    ax.fill_between(
        places,
        error - band,
        error + band,
        color=BAND,
        linewidth=0,
        label="\u00b1 2 standard errors of the\ndifference from the best",
    )
    ax.plot(places, error, color=INK, marker="o", markersize=4)
    ax.plot(places[curve.chosen], error[curve.chosen], "o", color=CHOSEN, markersize=10)
    low, high = _view(curve)
    height = (high - low) or 1.0
    ax.annotate(
        f"chosen: {_limit_name(curve.max_loss[curve.chosen])}",
        (places[curve.chosen], error[curve.chosen]),
        xytext=(0, 10),
        textcoords="offset points",
        ha=_towards_the_middle(curve.chosen, places.size),
        color=CHOSEN,
    )
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
    scaled = getattr(model, "targets_", model).scale == "standard"
    gap = " " if inches(ax, "height") > LONG_LABEL else "\n"
    ax.set_ylabel(f"held-out error,{gap}{'share of variance' if scaled else 'squared units'}")
    ax.set_title("Held-out error by max_loss")
    ax.legend(frameon=False, fontsize="small")
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return ax


def plot_comparison(comparison: Any, metric: str | None = None, *, ax: Any = None) -> Any:
    """Each method's figure with its interval about that of the reference, the best on top.

    The bar is the 95 % interval of the paired difference to the reference, drawn from its mean: one
    that crosses the line is not told from the reference by these splits. The small dots are the
    splits. Of a fit the bar is the middle half of its tasks, which says how they differ and not how
    sure the mean is.

    Parameters
    ----------
    comparison : Comparison or LabelledFit
        Of ``ctfa_study.comparison.compare``; or what ``ctfa.labelled.fit`` returned, whose held-out
        errors are drawn beside those of single-task models.
    metric : str, default=None
        One of ``ctfa_study.comparison.METRICS``; None is ``"nrmse"``. A fit has mean squared errors
        in shares of each task's variance, and no other.
    ax : matplotlib Axes, default=None
        Where to draw; None makes a new figure, as high as the methods need.

    Returns
    -------
    matplotlib Axes
    """
    if is_labelled(comparison):
        return _plot_held_out(comparison, metric, ax)
    if not hasattr(comparison, "of_splits"):
        raise TypeError(
            f"{type(comparison).__name__} is not a comparison: give what "
            "ctfa_study.comparison.compare or ctfa.labelled.fit returned."
        )
    metric = "nrmse" if metric is None else metric
    rows = comparison.summary(metric)[::-1]
    ax = axes(ax, height=1.5 + 0.3 * len(rows))
    make_room(ax.figure)
    known = {row.method: row for row in rows}
    centre = known[comparison.reference].mean if comparison.reference in known else None
    for place, row in enumerate(rows):
        splits = comparison.of_splits(metric, row.method)
        ax.plot(splits, np.full(splits.size, place), "o", color=SPLITS, markersize=4, zorder=2)
        own = row.method == comparison.reference
        if centre is not None and not own and np.isfinite(row.low):
            ends = (centre + row.low, centre + row.high)
            ax.plot(ends, (place, place), color=INK, linewidth=1.6, zorder=3)
        ax.plot(row.mean, place, "o", color=CHOSEN if own else INK, markersize=6, zorder=4)
    marks: list[float] = (
        [] if centre is None else [centre + end for row in rows for end in (row.low, row.high)]
    )
    low, high = _span([row.mean for row in rows], marks)
    for place, row in enumerate(rows):
        if not low <= row.mean <= high:
            _write_at_edge(ax, place, row.mean, right=row.mean > high)
        elif centre is not None and row.method != comparison.reference:
            _mark_cut(ax, place, centre + row.low, centre + row.high, (low, high))
    if centre is not None:
        ax.axvline(centre, color=CHOSEN, linewidth=1.0, zorder=1)
    ax.set_xlim(low, high)
    ax.set_yticks(np.arange(len(rows)), [row.method for row in rows])
    ax.set_ylim(-0.6, len(rows) - 0.4)
    ax.set_xlabel(textwrap.fill(comparison.label(metric), WRAPPED), fontsize="small")
    ax.set_title(textwrap.fill(comparison.title, WRAPPED), fontsize="medium", loc="left")
    _explain_marks(ax, reference=comparison.reference if centre is not None else None)
    ax.grid(axis="x", color="#eeeeee", zorder=0)
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    ax.tick_params(axis="y", length=0)
    return ax


def _plot_held_out(fit: Any, metric: str | None, ax: Any) -> Any:
    """Held-out errors of a fit and of models of one task each, the best on top."""
    if metric is not None:
        raise ValueError(
            f"metric={metric!r} is of comparisons: a fit has mean squared errors on held-out rows "
            "alone. Leave metric out."
        )
    held_out = fit._need_held_out()
    methods = sorted(held_out.errors, key=held_out.mean, reverse=True)
    ax = axes(ax, height=1.9 + 0.3 * len(methods))
    make_room(ax.figure)
    mine, alone = list(held_out.errors)[:2]
    for place, method in enumerate(methods):
        middle = np.nanquantile(held_out.errors[method], (0.25, 0.75))
        ax.plot(middle, (place, place), color=SPLITS, linewidth=5.0, zorder=2)
        colour = CHOSEN if method == alone else INK
        ax.plot(held_out.mean(method), place, "o", color=colour, markersize=6, zorder=4)
    ax.axvline(held_out.mean(alone), color=CHOSEN, linewidth=1.0, zorder=1)
    ax.set_yticks(np.arange(len(methods)), [m if m != mine else f"{m}, regions" for m in methods])
    ax.set_ylim(-0.6, len(methods) - 0.4)
    ax.set_xlabel(f"held-out error, share of {fit._variance}", fontsize="small")
    ax.set_title(
        textwrap.fill(f"{fit.title}; {held_out.how}", WRAPPED), fontsize="medium", loc="left"
    )
    marks = [
        ax.plot([], [], "o", color=INK, markersize=6, label="mean")[0],
        ax.plot([], [], color=SPLITS, linewidth=5.0, label="middle half of the tasks")[0],
    ]
    ax.figure.legend(
        handles=marks, loc="outside lower center", ncols=len(marks), frameon=False, fontsize="small"
    )
    ax.grid(axis="x", color="#eeeeee", zorder=0)
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    ax.tick_params(axis="y", length=0)
    return ax


def _explain_marks(ax: Any, *, reference: str | None) -> None:
    """Say what dots, bars and the line are; under the axis, where no point is hidden."""
    marks = [
        ax.plot([], [], "o", color=INK, markersize=6, label="mean")[0],
        ax.plot([], [], "o", color=SPLITS, markersize=4, label="splits")[0],
    ]
    if reference is not None:
        text = f"95 % interval of the difference to {reference}"
        marks.append(ax.plot([], [], color=INK, linewidth=1.6, label=text)[0])
    ax.figure.legend(
        handles=marks, loc="outside lower center", ncols=len(marks), frameon=False, fontsize="small"
    )


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


def _mark_cut(ax: Any, place: int, start: float, end: float, limits: tuple[float, float]) -> None:
    """Arrow heads where an interval leaves the picture."""
    for beyond, edge, head in ((start < limits[0], 0.0, "<"), (end > limits[1], 1.0, ">")):
        if beyond:
            where = ax.get_yaxis_transform()
            ax.plot(edge, place, head, color=INK, markersize=5, transform=where, clip_on=False)


def _write_at_edge(ax: Any, place: int, value: float, *, right: bool) -> None:
    """The value of a point outside the picture, at the side where it lies."""
    ax.annotate(
        f"{value:.3g} \u2192" if right else f"\u2190 {value:.3g}",
        (1.0 if right else 0.0, place),
        xycoords=ax.get_yaxis_transform(),
        ha="right" if right else "left",
        va="center",
        color=INK,
        fontsize="small",
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},
        zorder=5,
    )


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
    ax.annotate(
        f"{value:.3g}",
        (place, edge),
        xytext=(place, start),
        xycoords=ax.get_xaxis_transform(),  # across in places, upwards in shares of the axis
        ha="center",
        va="top" if up else "bottom",
        color=INK,
        fontsize="small",
        # The curve leaves the picture close by.
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},
        arrowprops={"arrowstyle": "->", "color": INK},
    )


def _towards_the_middle(place: int, n_places: int) -> str:
    """Alignment that keeps a text beside an end within the axis."""
    if place < 2:
        return "left"
    return "right" if place >= n_places - 2 else "center"


def _limit_name(limit: float) -> str:
    return {-np.inf: "none", np.inf: "all"}.get(limit, f"{limit:g}")


def _labelled(ax: Any, curve: CutCurve) -> list[int]:
    """Places that are labelled: both ends, the one chosen, and others where there is room."""
    last = curve.max_loss.size - 1
    room = inches(ax, "width") / LABEL_WIDTH
    apart = max(1, int(np.ceil(last / max(room, 1.0))))
    kept = sorted({0, curve.chosen, last})
    for place in range(last):
        if min(abs(place - other) for other in kept) >= apart:
            kept.append(place)
    return sorted(kept)
