"""Two pictures: the ratio of each method on each case, and promised against realised gain."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from evidence import tables

#: Okabe and Ito's colours, told apart by all; each with its own marker as well.
STYLES = {
    "ridge": ("#999999", "s", "RidgeCV"),
    "curds-whey": ("#56B4E9", "D", "Curds and Whey"),
    "ward": ("#E69F00", "v", "Ward clusters"),
    "paper": ("#D55E00", "X", "the paper's rule"),
    "ours": ("#0072B2", "o", "ours, mean head"),
    "ours shrink": ("#009E73", "P", "ours, shrink head"),
}
#: Beyond this a point is drawn at the border with its value beside it.
BORDERS = {"synthetic": (0.1, 3.0), "real": (0.8, 1.25)}
#: Ticks of a narrow and of a wide axis.
TICKS = ((0.8, 0.9, 1, 1.1, 1.25), (0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3))
INK = "#333333"


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
        "real": "Real sets: test error over single-task least squares",
    }
    for kind, title in titles.items():
        chosen = cases[cases["kind"].isin([kind] + ["paper"] * (kind == "synthetic"))]
        if len(chosen):
            yield ratio_plot(chosen, title, BORDERS[kind], folder / f"ratios_{kind}.png")
    if len(points):
        yield gain_plot(points, folder / "gains.png")


def ratio_plot(cases: pd.DataFrame, title: str, borders: tuple[float, float], path: Path) -> Path:
    """One line a case, one dot a method; left of the line at one is better."""
    import matplotlib.pyplot as plt  # noqa: PLC0415

    wide = tables.by_family(cases)
    shown = [name for name in STYLES if name in wide]
    order = "ours" if "ours" in wide else shown[-1]
    wide = wide[shown].sort_values(order, ascending=False)
    figure, axes = plt.subplots(figsize=(7.5, 1.6 + 0.27 * len(wide)), layout="constrained")
    low, high = borders
    reach = (high / low) ** 0.06
    for name in shown:
        colour, marker, label = STYLES[name]
        values = wide[name].to_numpy()
        places = np.arange(len(wide))
        size = 46 if name.startswith("ours") else 30
        look = {"color": colour, "marker": marker, "s": size, "edgecolor": "white", "lw": 0.6}
        depth = 4 if name.startswith("ours") else 3
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
    """Promised against realised, a dot a problem; families named at their means."""
    import matplotlib.pyplot as plt  # noqa: PLC0415

    panels = [
        ("synthetic and the paper's data", points[points["kind"] != "real"]),
        ("real sets", points[points["kind"] == "real"]),
    ]
    panels = [(title, of) for title, of in panels if len(of)]
    figure, grid = plt.subplots(
        1, len(panels), figsize=(4.6 * len(panels), 4.7), layout="constrained", squeeze=False
    )
    for axes, (title, of) in zip(grid[0], panels, strict=True):
        _gain_panel(axes, of, title)
    figure.suptitle(
        "Gain of the accepted merges, in variances of a target",
        x=0.01, ha="left", fontsize=10.5, fontweight="bold",
    )  # fmt: skip
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return path


def _gain_panel(axes: Any, points: pd.DataFrame, title: str) -> None:
    means = points.groupby("family", sort=False)[["promised", "realised"]].mean()
    # Near zero a straight scale, beyond it a logarithmic one: families differ a hundredfold.
    threshold = 0.02
    axes.set_xscale("symlog", linthresh=threshold)
    axes.set_yscale("symlog", linthresh=threshold)
    axes.axline((0, 0), (1, 1), color=INK, lw=0.9, zorder=1)
    axes.scatter(points["promised"], points["realised"], s=7, color="#bbbbbb", lw=0, zorder=2)
    axes.scatter(means["promised"], means["realised"], s=28, color="#0072B2", ec="white", lw=0.6,
                 zorder=3)  # fmt: skip
    _name_points(axes, means)
    overall = points[["promised", "realised"]].mean()
    ratio = overall["promised"] / overall["realised"]
    axes.set_title(f"{title}: promised / realised {ratio:.2f}", fontsize=9, loc="left")
    axes.set(xlabel="promised", ylabel="realised")
    axes.grid(color="#eeeeee", lw=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _name_points(axes: Any, means: pd.DataFrame) -> None:
    """Names beside the means, moved up or down until they do not touch."""
    axes.figure.canvas.draw()
    taken: list[tuple[float, float]] = []
    for name, mean in means.sort_values("realised", ascending=False).iterrows():
        x, y = axes.transData.transform((mean["promised"], mean["realised"]))
        shift = 0.0
        while any(abs(x - a) < 150 and abs(y + shift - b) < 17 for a, b in taken):
            shift -= 6.0
        taken.append((x, y + shift))
        scale = 72.0 / axes.figure.dpi
        axes.annotate(
            str(name), (mean["promised"], mean["realised"]), (6, shift * scale - 2.5),
            textcoords="offset points", fontsize=7.5, color="#0072B2", zorder=4,
        )  # fmt: skip
