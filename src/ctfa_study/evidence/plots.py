"""Pictures: the ratio of each method on each case, and told against true gain."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ctfa_study.evidence import tables
from ctfa_study.evidence.methods import DEFAULT, READABLE

#: Okabe and Ito's colours, told apart by all; each with its own marker as well.
STYLES = {
    "single": ("#999999", "s", "least squares"),
    "ridge": ("#999999", "s", "RidgeCV"),
    "curds-whey": ("#56B4E9", "D", "Curds and Whey"),
    "ward": ("#E69F00", "v", "Ward clusters"),
    "paper": ("#D55E00", "X", "the paper's rule"),
    READABLE: ("#009E73", "P", "ours, groups alone"),
    DEFAULT: ("#0072B2", "o", "ours"),
}
#: Beyond this a point is drawn at the border with its value beside it.
BORDERS = {"synthetic": (0.04, 3.0), "adversarial": (0.04, 3.0), "real": (0.6, 1.3)}
#: Ticks of a narrow and of a wide axis.
TICKS = ((0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3), (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3))
INK = "#333333"
#: Gains below this are drawn on a straight scale.
NEAR_ZERO = 0.02
#: Ticks of gains on a wide and on a narrow axis.
GAIN_TICKS = (
    (-1000, -100, -10, -1, -0.2, -0.05, 0, 0.05, 0.2, 1, 10, 100),
    (-0.05, -0.02, -0.01, 0, 0.01, 0.02, 0.05),
)
KINDS = {
    "synthetic": ("#0072B2", "o", "synthetic"),
    "adversarial": ("#CC79A7", "D", "built to break the rule"),
    "paper": ("#009E73", "s", "the paper's data"),
    "real": ("#D55E00", "^", "real sets"),
}


def draw_all(cases: pd.DataFrame, points: pd.DataFrame, folder: Path) -> Iterator[Path]:
    """Draw what there is to draw; nothing where matplotlib is not installed."""
    if importlib.util.find_spec("matplotlib") is None:
        print("no plots: matplotlib is not installed (pip install --group study)")
        return
    import matplotlib as mpl  # noqa: PLC0415

    mpl.use("Agg")
    mpl.rcParams |= {"font.size": 9, "axes.edgecolor": INK, "text.color": INK}
    titles = {
        "synthetic": "Synthetic families: excess risk over single-task least squares",
        "adversarial": "Families built to break the rule: excess risk over least squares",
        "real": "Real sets: test error over single-task RidgeCV",
    }
    for kind, title in titles.items():
        chosen = cases[cases["kind"].isin([kind] + ["paper"] * (kind == "synthetic"))]
        if len(chosen):
            yield ratio_plot(chosen, title, BORDERS[kind], folder / f"ratios_{kind}.png")
    if len(points):
        yield gain_plot(points, folder / "gains.png")


def ratio_plot(cases: pd.DataFrame, title: str, borders: tuple[float, float], path: Path) -> Path:
    """One line per case, one dot per method; left of the line at one is better."""
    import matplotlib.pyplot as plt  # noqa: PLC0415

    wide = tables.by_family(cases)
    references = set(cases["kind"].map(tables.reference))
    shown = [name for name in STYLES if name in wide and name not in references]
    order = DEFAULT if DEFAULT in wide else shown[-1]
    wide = wide[shown].sort_values(order, ascending=False)
    figure, axes = plt.subplots(figsize=(7.5, 1.6 + 0.34 * len(wide)), layout="constrained")
    low, high = borders
    reach = (high / low) ** 0.06
    for name in shown:
        colour, marker, label = STYLES[name]
        values = wide[name].to_numpy()
        # A little apart, so that methods of equal figures are all seen.
        places = np.arange(len(wide)) + 0.09 * (len(shown) / 2 - 0.5 - shown.index(name))
        size = 46 if name in (DEFAULT, READABLE) else 30
        look: dict[str, Any] = {
            "color": colour,
            "marker": marker,
            "s": size,
            "edgecolor": "white",
            "lw": 0.6,
        }
        depth = 4 if name in (DEFAULT, READABLE) else 3
        axes.scatter(np.clip(values, low, high), places, label=label, zorder=depth, **look)
    _beyond(axes, wide, borders)
    axes.axvline(1.0, color=INK, lw=1.0, zorder=2)
    axes.set(xscale="log", xlim=(low / reach, high * reach))
    ticks = [t for t in TICKS[high > 2] if low <= t <= high]
    axes.set_xticks(ticks, [f"{t:g}" for t in ticks])
    axes.minorticks_off()
    axes.set_yticks(np.arange(len(wide)), wide.index)
    axes.set_ylim(-0.7, len(wide) - 0.3)
    axes.grid(axis="both", color="#e6e6e6", lw=0.6, zorder=0)
    axes.set_axisbelow(True)
    axes.tick_params(length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.set_xlabel("ratio (log scale); left of the line is better")
    figure.suptitle(title, x=0.01, ha="left", fontsize=10.5, fontweight="bold")
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return path


def _beyond(axes: Any, wide: pd.DataFrame, borders: tuple[float, float]) -> None:
    """Write the values of points that lie beyond a border beside them, the outermost only."""
    low, high = borders
    for place, (_, row) in enumerate(wide.iterrows()):
        values = row.dropna()
        if (values > high).any():
            name = values.idxmax()
            text = f" {values.max():.2g}"
            axes.annotate(text, (high, place), (5, 0), textcoords="offset points", va="center",
                          fontsize=7.5, color=STYLES[str(name)][0])  # fmt: skip
        if (values < low).any():
            name = values.idxmin()
            text = f"{values.min():.2g} "
            axes.annotate(text, (low, place), (-5, 0), textcoords="offset points", va="center",
                          ha="right", fontsize=7.5, color=STYLES[str(name)][0])  # fmt: skip


def gain_plot(points: pd.DataFrame, path: Path) -> Path:
    """Every problem as a dot, then the means of each family or set side by side."""
    import matplotlib.pyplot as plt  # noqa: PLC0415

    known, real = points[points["kind"] != "real"], points[points["kind"] == "real"]
    panels = [of for of in (known, real) if len(of)]
    widest = max(of["family"].nunique() for of in panels)
    figure, grid = plt.subplots(
        1,
        1 + len(panels),
        figsize=(4.2 + 3.5 * len(panels), max(4.0, 1.4 + 0.24 * widest)),
        width_ratios=[1.25] + [1.0] * len(panels),
        layout="constrained",
    )
    _gain_scatter(grid[0], points)
    for axes, of in zip(grid[1:], panels, strict=True):
        _gain_means(axes, of)
    figure.suptitle(
        "Gain of members of groups, in variances of a target: told and true",
        x=0.01, ha="left", fontsize=10.5, fontweight="bold",
    )  # fmt: skip
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return path


def _gain_scatter(axes: Any, points: pd.DataFrame) -> None:
    """One dot per problem. Near zero a straight scale, beyond it a logarithmic one."""
    axes.set_xscale("symlog", linthresh=NEAR_ZERO)
    axes.set_yscale("symlog", linthresh=NEAR_ZERO)
    axes.axline((0, 0), (1, 1), color=INK, lw=0.9, zorder=1)
    axes.axhline(0, color="#bbbbbb", lw=0.8, zorder=1)
    for kind, (colour, marker, label) in KINDS.items():
        of = points[points["kind"] == kind]
        if len(of):
            look = {"color": colour, "marker": marker, "alpha": 0.55, "lw": 0, "s": 14}
            axes.scatter(of["told"], of["gained"], label=label, zorder=2, **look)
    _gain_axis(axes.xaxis, axes.set_xlim, points["told"])
    _gain_axis(axes.yaxis, axes.set_ylim, points["gained"])
    axes.set(xlabel="told", ylabel="true")
    axes.set_title("every problem; on the line: as told", fontsize=9, loc="left")
    axes.legend(frameon=False, loc="lower right", handletextpad=0.2)
    _bare(axes, "top", "right")


def _gain_axis(axis: Any, set_limits: Any, *values: pd.Series) -> None:
    """Ticks that read as numbers, and limits that hold the values."""
    from matplotlib.ticker import NullLocator  # noqa: PLC0415

    low = min(float(column.min()) for column in values)
    high = max(float(column.max()) for column in values)
    limits = min(1.5 * low, -NEAR_ZERO / 4), max(1.5 * high, NEAR_ZERO)
    narrow = max(-limits[0], limits[1]) < 0.1
    ticks = [t for t in GAIN_TICKS[narrow] if limits[0] <= t <= limits[1]]
    axis.set_ticks(ticks, [f"{t:g}" for t in ticks])
    axis.set_minor_locator(NullLocator())
    set_limits(*limits)


def _gain_means(axes: Any, points: pd.DataFrame) -> None:
    """Mean gain told and true of each family or set, joined by a line."""
    means = points.groupby("family", sort=False)[["told", "gained"]].mean()
    means = means.sort_values("gained")
    places = np.arange(len(means))
    axes.set_xscale("symlog", linthresh=NEAR_ZERO)
    axes.axvline(0, color=INK, lw=1.0, zorder=1)
    axes.hlines(places, means.min(axis=1), means.max(axis=1), color="#bbbbbb", lw=1.5, zorder=2)
    axes.scatter(means["told"], places, s=30, fc="white", ec=INK, label="told", zorder=3)
    axes.scatter(means["gained"], places, s=30, color="#0072B2", label="true", zorder=4)
    axes.set_yticks(places, means.index)
    _gain_axis(axes.xaxis, axes.set_xlim, means["told"], means["gained"])
    overall = points[["told", "gained"]].mean()
    ratio = overall["told"] / overall["gained"]
    title = "real sets" if (points["kind"] == "real").all() else "families"
    axes.set_title(f"{title}: overall ratio {ratio:.2f}", fontsize=9, loc="left")
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.07), ncols=2)
    axes.tick_params(axis="y", length=0)
    _bare(axes, "top", "right", "left")


def _bare(axes: Any, *sides: str) -> None:
    axes.grid(color="#eeeeee", lw=0.6)
    axes.set_axisbelow(True)
    for side in sides:
        axes.spines[side].set_visible(False)
