"""How a fitted model makes its predictions, as blocks with the sizes of that very model."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ctfa.estimators.view import FittedGroups
from ctfa.plotting import _axes as draw
from ctfa.plotting._axes import CHOSEN, INK

#: Groups that are drawn each by itself, the largest; one more block stands for the others.
SHOWN = 4
#: Left edge and width of each column of blocks, of 100.
COLUMNS = ((0.0, 13.0), (17.0, 23.0), (44.5, 21.5), (69.5, 12.5), (88.0, 12.0))
#: Height of a block and of a step from one to the next, and letters that fit into a line.
BLOCK, STEP, LETTERS = 0.72, 1.0, 30
#: Points of a letter in a picture of so many inches; a narrower one has smaller letters.
POINTS, WIDE = 10.0, 11.0
DATA, MEAN, REGRESSOR = "#e9eef2", "#bee3f2", "#f4d9c6"
#: What columns of blocks are called, by what a group shares.
HEADINGS = {
    "mean": (
        "Data", "Phase I: mean targets", "Phase II: mean features", "One model each", "Spread back"
    ),
    "mean inputs": (
        "Data", "Groups of targets", "Inputs of each group", "One model each", "Spread back"
    ),
    "slopes": (
        "Data", "Groups of tasks", "Features of each group", "One model each", "Predictions"
    ),
}  # fmt: skip
#: How its members, its features and features that were not averaged are called.
LANES = {
    "mean": ("mean of {} targets", "features", "{} features, as they are"),
    "mean inputs": ("mean of {} targets", "mean inputs", "{} mean inputs"),
    "coefficients": ("rows of {} targets, stacked", "inputs", "{} inputs, each target's own"),
    "slopes": ("rows of {} tasks, stacked", "features", "{} features, as they are"),
}


class Lane(NamedTuple):
    """One group's way from its targets to their predictions."""

    group: str
    features: str
    regressor: str
    served: str
    is_rest: bool = False


class Flow(NamedTuple):
    """All that the picture says."""

    title: str
    headings: tuple[str, str, str, str, str]
    targets: str
    inputs: str
    predictions: str
    lanes: list[Lane]


def plot_data_flow(model: Any, *, n_samples: int | None = None, ax: Any = None) -> Any:
    """Blocks of a fitted model: its targets, their groups, the features and regressor of each.

    Sizes and groups are those of the model. The largest groups are drawn, the others are one block.

    Parameters
    ----------
    model : CTFARegressor, MultiInputCTFARegressor or PooledCTFARegressor
        Fitted.
    n_samples : int or None, default=None
        Rows it was fitted to, which it does not keep; None writes "n".
    ax : matplotlib Axes, default=None
        Where to draw; None makes a new figure, as high as the groups need.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from ctfa import CTFARegressor
    >>> from ctfa.datasets import make_paper_synthetic
    >>> from ctfa.plotting import plot_data_flow
    >>> X, Y = make_paper_synthetic(150, 20, random_state=0)
    >>> model = CTFARegressor().fit(X, Y)
    >>> ax = plot_data_flow(model, n_samples=150)  # doctest: +SKIP
    """
    flow = collect(model, "n" if n_samples is None else f"{n_samples:,}")
    n_lanes = len(flow.lanes)
    ax = draw.axes(ax, width=WIDE, height=1.6 + 0.85 * n_lanes)
    ax.set_xlim(-0.5, 100.5)
    ax.set_ylim(-n_lanes + 0.5, 1.95)
    ax.set_axis_off()
    ax.set_title(flow.title)
    size = POINTS * min(1.0, draw.inches(ax, "width") / WIDE)
    for (left, width), heading in zip(COLUMNS, flow.headings, strict=True):
        ax.text(left + width / 2, 1.62, heading, ha="center", va="bottom", fontsize=size,
                fontweight="bold", color=INK)  # fmt: skip
    middle = -STEP * (n_lanes - 1) / 2
    _block(ax, 0, middle, flow.targets, DATA, size)
    _block(ax, 2, 1.1, flow.inputs, DATA, size)
    _block(ax, 4, middle, flow.predictions, DATA, size)
    rows = [-STEP * place for place in range(n_lanes)]
    rights = [left + width for left, width in COLUMNS]
    for y, lane in zip(rows, flow.lanes, strict=True):
        texts = (lane.group, lane.features, lane.regressor)
        for column, text, colour in zip((1, 2, 3), texts, (MEAN, MEAN, REGRESSOR), strict=True):
            _block(ax, column, y, text, colour, size, dashed=lane.is_rest)
        _arrow(ax, (rights[1], y - 0.1), (COLUMNS[2][0], y - 0.1))
        _arrow(ax, (rights[2], y), (COLUMNS[3][0], y))
        ax.text(rights[3] + 0.5, y + 0.06, lane.served, ha="left", va="bottom",
                fontsize=0.9 * size, color=CHOSEN)  # fmt: skip
    groups, predictions = COLUMNS[1][0], COLUMNS[4][0]
    _wire(ax, [middle], rights[0], (rights[0] + groups) / 2, rows, groups)
    _wire(ax, rows, rights[3], predictions - 1.8, [middle], predictions)
    # Inputs go down beside the groups, and into the upper half of each block of features.
    beside = COLUMNS[2][0] - 2.2
    inner = [y + 0.2 for y in rows]
    ax.plot([COLUMNS[2][0], beside, beside], [1.1, 1.1, inner[-1]], color=INK, linewidth=1.0)
    for y in inner:
        _arrow(ax, (beside, y), (COLUMNS[2][0], y))
    return ax


def collect(model: Any, n_rows: str) -> Flow:
    """What there is to be drawn of a fitted model."""
    fitted = draw.require_groups(model, "features_", "regressors_")
    n_targets, n_groups = fitted.partition.n_variables, fitted.partition.n_groups
    n_features = f"{len(fitted.features):,}"
    noun = "task" if fitted.own_rows else "target"
    targets, inputs = f"Y\n{n_rows} \u00d7 {n_targets:,}", f"X: {n_rows} \u00d7 {n_features}"
    predictions = f"predictions\n{n_rows} \u00d7 {n_targets:,}"
    if fitted.own_rows:
        targets = f"y: {n_rows} rows\nof {n_targets:,} tasks"
        predictions = f"{n_rows} predictions\nand an offset\nper task"
    elif fitted.own_inputs:
        inputs = f"X: {n_rows} \u00d7 {len(fitted.features)} for each of {n_targets:,}"
    if fitted.model.head == "levels":
        predictions += f"\nmixed with each\n{noun}'s own"
    models = "model" if n_groups == 1 else "models"
    return Flow(
        f"{n_targets:,} {noun}s predicted by {n_groups:,} {models}",
        HEADINGS.get(fitted.shares, HEADINGS["mean inputs"]),
        targets,
        inputs,
        predictions,
        _lanes(fitted),
    )


def _lanes(fitted: FittedGroups) -> list[Lane]:
    """A lane for each of the largest groups, and one for all others."""
    merged, averaged, untouched = LANES[fitted.shares]
    sizes = fitted.partition.sizes
    order = np.argsort(-sizes, kind="stable")
    # One that is left over takes no more room than words about it.
    n_shown = len(order) if len(order) <= SHOWN + 1 else SHOWN
    names = list(fitted.names)
    if fitted.shares == "mean":  # the only ones that can be turned round
        signs = ["" if sign > 0 else "\u2212" for sign in fitted.aggregator.signs_]
        names = [sign + name for sign, name in zip(signs, names, strict=True)]
    given = np.array([features.partition_.n_variables for features in fitted.model.features_])
    kept = np.array([features.n_groups_ for features in fitted.model.features_])
    lanes = []
    for group in order[:n_shown].tolist():
        members = fitted.partition.groups[group].tolist()
        first = merged.format(len(members)) if len(members) > 1 else "by itself"
        listed = ", ".join(names[member] for member in members[:LETTERS])
        listed = textwrap.shorten(listed, LETTERS, placeholder=" \u2026")
        left = untouched.format(given[group])
        if given[group] != kept[group]:
            left = f"{given[group]} {averaged} \u2192 {kept[group]} means"
        kind = type(fitted.model.regressors_[group]).__name__
        lanes.append(Lane(f"{first}\n{listed}", left, kind, f"to {len(members)}"))
    rest = order[n_shown:]
    if rest.size:
        lanes.append(
            Lane(
                f"{rest.size:,} more groups\nof {_range(sizes[rest])} each",
                f"{_range(kept[rest])} columns each",
                f"{rest.size:,} models",
                f"to {sizes[rest].sum():,}",
                is_rest=True,
            )
        )
    return lanes


def _range(counts: Any) -> str:
    low, high = int(counts.min()), int(counts.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _block(
    ax: Any, column: int, y: float, text: str, colour: str, size: float, *, dashed: bool = False
) -> None:
    left, width = COLUMNS[column]
    n_lines = text.count("\n") + 1
    height = BLOCK if n_lines < 3 else BLOCK * n_lines / 2.4
    style = "--" if dashed else "-"
    ax.fill(
        [left, left + width, left + width, left],
        [y - height / 2, y - height / 2, y + height / 2, y + height / 2],
        facecolor=colour, edgecolor=INK, linewidth=1.0, linestyle=style, zorder=2,
    )  # fmt: skip
    fits = min(1.0, 1.45 * width / max(len(line) for line in text.split("\n")))
    ax.text(left + width / 2, y, text, ha="center", va="center", fontsize=fits * size, zorder=3)


def _arrow(ax: Any, start: tuple[float, float], end: tuple[float, float]) -> None:
    ax.annotate(
        "",
        end,
        xytext=start,
        zorder=2,
        arrowprops={"arrowstyle": "-|>", "color": INK, "shrinkA": 0, "shrinkB": 0},
    )


def _wire(
    ax: Any, sources: Sequence[float], start: float, turn: float, ends: Sequence[float], end: float
) -> None:
    """Lines from the heights of some blocks to one upright line, and arrows on from there."""
    for y in sources:
        ax.plot([start, turn], [y, y], color=INK, linewidth=1.0)
    heights = (*sources, *ends)
    ax.plot([turn, turn], [max(heights), min(heights)], color=INK, linewidth=1.0)
    for y in ends:
        _arrow(ax, (turn, y), (end, y))
