"""How a fitted model makes its predictions, as blocks with the sizes of that very model."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ctfa.plotting._axes import CHOSEN, INK, axes, inches, make_room
from ctfa.plotting._reading import require

#: Groups that are drawn each by itself, the largest; one more block stands for the others.
SHOWN = 4
#: Left edge and width of each column of blocks, of 100.
COLUMNS = ((0.0, 13.0), (17.0, 23.0), (44.5, 21.5), (69.5, 12.5), (88.0, 12.0))
#: Height of a block and of a step from one to the next, and letters that fit into a line.
BLOCK, STEP, LETTERS = 0.72, 1.0, 30
#: Points of a letter in a picture of so many inches; a narrower one has smaller letters.
POINTS, WIDE = 10.0, 11.0
DATA, MEAN, REGRESSOR = "#e9eef2", "#bee3f2", "#f4d9c6"


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
    ax = axes(ax, width=WIDE, height=1.6 + 0.85 * n_lanes)
    make_room(ax.figure)
    ax.set_xlim(-0.5, 100.5)
    ax.set_ylim(-n_lanes + 0.5, 1.95)
    ax.set_axis_off()
    ax.set_title(flow.title)
    size = POINTS * min(1.0, inches(ax, "width") / WIDE)
    for (left, width), heading in zip(COLUMNS, flow.headings, strict=True):
        ax.text(left + width / 2, 1.62, heading, ha="center", va="bottom", fontsize=size,
                fontweight="bold", color=INK)  # fmt: skip
    middle = -STEP * (n_lanes - 1) / 2
    _block(ax, 0, middle, flow.targets, DATA, size)
    _block(ax, 2, 1.1, flow.inputs, DATA, size)
    _block(ax, 4, middle, flow.predictions, DATA, size)
    rows = [-STEP * place for place in range(n_lanes)]
    for y, lane in zip(rows, flow.lanes, strict=True):
        _lane(ax, y, lane, size)
    _feed(ax, _right(0), middle, rows, COLUMNS[1][0])
    # Inputs go down beside the groups, and into the upper half of each block of features.
    beside = COLUMNS[2][0] - 2.2
    inner = [y + 0.2 for y in rows]
    ax.plot([COLUMNS[2][0], beside, beside], [1.1, 1.1, inner[-1]], color=INK, linewidth=1.0)
    for y in inner:
        _arrow(ax, (beside, y), (COLUMNS[2][0], y))
    _gather(ax, rows, middle)
    return ax


def collect(model: Any, n_rows: str) -> Flow:
    """What there is to be drawn of a fitted model."""
    model = require(model, ("partition_", "features_", "regressors_"))
    if hasattr(model, "layout_"):
        return _own_inputs(model, n_rows)
    return _own_rows(model, n_rows) if hasattr(model, "tasks_") else _shared(model, n_rows)


def _shared(model: Any, n_rows: str) -> Flow:
    n_targets, n_features = model.partition_.n_variables, model.n_features_in_
    signs = ["" if sign > 0 else "\u2212" for sign in model.signs_]
    names = [sign + name for sign, name in zip(signs, model.targets_._names, strict=True)]
    return Flow(
        _title(model, "targets"),
        (
            "Data",
            "Phase I: mean targets",
            "Phase II: mean features",
            "One model each",
            "Spread back",
        ),
        f"Y\n{n_rows} \u00d7 {n_targets:,}",
        f"X: {n_rows} \u00d7 {n_features:,}",
        f"predictions\n{n_rows} \u00d7 {n_targets:,}" + _head(model, "target"),
        _lanes(model, names, "mean of {} targets", "features", "{} features, as they are"),
    )


def _own_inputs(model: Any, n_rows: str) -> Flow:
    n_targets, n_slots = model.layout_.shape
    averaged = model.aggregate_ == "mean"
    return Flow(
        _title(model, "targets"),
        ("Data", "Groups of targets", "Inputs of each group", "One model each", "Spread back"),
        f"Y\n{n_rows} \u00d7 {n_targets:,}",
        f"X: {n_rows} \u00d7 {n_slots} for each of {n_targets:,}",
        f"predictions\n{n_rows} \u00d7 {n_targets:,}" + _head(model, "target"),
        _lanes(
            model,
            model.targets_._names,
            "mean of {} targets" if averaged else "rows of {} targets, stacked",
            "mean inputs" if averaged else "inputs",
            "{} mean inputs" if averaged else "{} inputs, each target's own",
        ),
    )


def _own_rows(model: Any, n_rows: str) -> Flow:
    return Flow(
        _title(model, "tasks"),
        ("Data", "Groups of tasks", "Features of each group", "One model each", "Predictions"),
        f"y: {n_rows} rows\nof {len(model.tasks_):,} tasks",
        f"X: {n_rows} \u00d7 {model.n_features_in_:,}",
        f"{n_rows} predictions\nand an offset\na task" + _head(model, "task"),
        _lanes(
            model, model._names, "rows of {} tasks, stacked", "features", "{} features, as they are"
        ),
    )


def _title(model: Any, what: str) -> str:
    partition = model.partition_
    models = "model" if partition.n_groups == 1 else "models"
    return f"{partition.n_variables:,} {what} predicted by {partition.n_groups:,} {models}"


def _head(model: Any, what: str) -> str:
    return f"\nmixed with each\n{what}'s own" if model.head == "shrink" else ""


def _lanes(
    model: Any, names: Sequence[str], merged: str, features: str, untouched: str
) -> list[Lane]:
    """A lane for each of the largest groups, and one for all others."""
    groups = model.partition_.groups
    order = np.argsort(-model.partition_.sizes, kind="stable")
    # One that is left over takes no more room than words about it.
    n_shown = len(order) if len(order) <= SHOWN + 1 else SHOWN
    lanes = []
    for group in order[:n_shown].tolist():
        members = groups[group]
        first = merged.format(members.size) if members.size > 1 else "by itself"
        listed = _listed([names[member] for member in members.tolist()])
        given, kept = _sizes(model.features_[group])
        left = (
            untouched.format(given) if given == kept else f"{given} {features} \u2192 {kept} means"
        )
        kind = type(model.regressors_[group]).__name__
        lanes.append(Lane(f"{first}\n{listed}", left, kind, f"to {members.size}"))
    rest = order[n_shown:]
    if rest.size:
        members_of = model.partition_.sizes[rest]
        kept_of = np.array([_sizes(model.features_[group])[1] for group in rest.tolist()])
        lanes.append(
            Lane(
                f"{rest.size:,} more groups\nof {_range(members_of)} each",
                f"{_range(kept_of)} columns each",
                f"{rest.size:,} models",
                f"to {members_of.sum():,}",
                is_rest=True,
            )
        )
    return lanes


def _sizes(features: Any) -> tuple[int, int]:
    return features.partition_.n_variables, features.n_groups_


def _listed(names: Sequence[str]) -> str:
    """As many names as a line holds."""
    return textwrap.shorten(", ".join(names[:LETTERS]), LETTERS, placeholder=" \u2026")


def _range(counts: Any) -> str:
    low, high = int(counts.min()), int(counts.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _right(column: int) -> float:
    left, width = COLUMNS[column]
    return left + width


def _lane(ax: Any, y: float, lane: Lane, size: float) -> None:
    texts = (lane.group, lane.features, lane.regressor)
    for column, text, colour in zip((1, 2, 3), texts, (MEAN, MEAN, REGRESSOR), strict=True):
        _block(ax, column, y, text, colour, size, dashed=lane.is_rest)
    _arrow(ax, (_right(1), y - 0.1), (COLUMNS[2][0], y - 0.1))
    _arrow(ax, (_right(2), y), (COLUMNS[3][0], y))
    ax.text(_right(3) + 0.5, y + 0.06, lane.served, ha="left", va="bottom", fontsize=0.9 * size,
            color=CHOSEN)  # fmt: skip


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


def _feed(ax: Any, start: float, y: float, rows: Sequence[float], end: float) -> None:
    """One source into the blocks of every row."""
    turn = (start + end) / 2
    ax.plot([start, turn], [y, y], color=INK, linewidth=1.0)
    ax.plot([turn, turn], [rows[0], rows[-1]], color=INK, linewidth=1.0)
    for row in rows:
        _arrow(ax, (turn, row), (end, row))


def _gather(ax: Any, rows: Sequence[float], y: float) -> None:
    """The blocks of every row into the predictions."""
    start, end = _right(3), COLUMNS[4][0]
    turn = end - 1.8
    for row in rows:
        ax.plot([start, turn], [row, row], color=INK, linewidth=1.0)
    ax.plot([turn, turn], [rows[0], rows[-1]], color=INK, linewidth=1.0)
    _arrow(ax, (turn, y), (end, y))
