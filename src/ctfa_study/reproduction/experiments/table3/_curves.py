"""Picture of Table 3: error and number of groups against epsilon, one column per map."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np

from ctfa_study.reproduction._case import HONEST
from ctfa_study.reproduction._claims import load_claims
from ctfa_study.reproduction._results import Results
from ctfa_study.reproduction.experiments.table3 import _methods as methods
from ctfa_study.reproduction.experiments.table3._methods import EPSILONS
from ctfa_study.reproduction.experiments.table3._settings import (
    CRU,
    CRU_SHORT,
    EUROPE,
    PO,
    SETTINGS,
    SMALL_MAP,
)

FILE = "table3.png"
#: Columns of the picture, and what they say above themselves.
TITLES = {
    EUROPE: "29,934 generated basins",
    SMALL_MAP: "1,000 generated basins",
    CRU: "CRU Iberia, 358 months",
    CRU_SHORT: "CRU Iberia, 102 months",
    PO: "Po basins, 1,038 weeks",
}
#: Authors' variant by which pairs it may ask.
CURVES = ((False, "all pairs", "black", "-", "o"), (True, "neighbours", "0.35", "--", "s"))
PLACES = np.arange(len(EPSILONS))


def draw(results: Results, folder: Path) -> list[Path]:
    """Draw a column for each map that was run."""
    found = [name for name in TITLES if name in results.every("setting")]
    if not found:
        return []
    # A figure of its own: none that pyplot knows is touched, and no window is needed.
    figure = importlib.import_module("matplotlib.figure").Figure(
        figsize=(1.0 + 3.1 * len(found), 6.6), layout="constrained"
    )
    axes = figure.subplots(2, len(found), sharex=True, squeeze=False, height_ratios=(2, 1))
    for setting, (above, below) in zip(found, axes.T, strict=True):
        _draw_setting(results, setting, above, below)
    axes[0, 0].set_ylabel(
        "MSE, in units of the training variance\n(bars: of differences to epsilon = 1)"
    )
    axes[1, 0].set_ylabel("groups (models trained)")
    title = "Cross-validated error against the paper's epsilon: where aggregating pays"
    if any(row["quick"] for row in results.rows):
        title = f"Quick run on small parts of the maps. {title}"
    figure.suptitle(title)
    path = folder / FILE
    figure.savefig(path, dpi=110)
    return [path]


def _draw_setting(results: Results, setting: str, above: Any, below: Any) -> None:
    for graph, label, colour, line, marker in CURVES:
        names = [methods.of_epsilon(epsilon, graph=graph) for epsilon in EPSILONS]
        mse = [results.get(HONEST, setting, name, "mse") for name in names]
        groups = [results.get(HONEST, setting, name, "groups") for name in names]
        known = [k for k, one in enumerate(mse) if one is not None]
        if not known:
            continue
        style = {"color": colour, "linestyle": line, "marker": marker, "markersize": 4}
        places = PLACES[known] + (0.12 if graph else 0.0)
        above.errorbar(
            places, [one.mean for one in mse if one],
            [_bar(results, setting, names[k], names[0]) for k in known],
            capsize=2, elinewidth=0.6, label=f"authors' rule, {label}", **style,
        )  # fmt: skip
        below.plot(places, [one.mean for one in groups if one], **style)
    _draw_levels(results, setting, above, below)
    if setting == EUROPE:
        _draw_paper(above, below)
    above.set_title(TITLES[setting], fontsize=10)
    below.set_yscale("log")
    below.set_xticks(PLACES, [f"{epsilon:g}" for epsilon in EPSILONS], rotation=60, fontsize=8)
    below.set_xlabel("epsilon (merges less ... more)")
    lines, labels = above.get_legend_handles_labels()
    below.legend(lines, labels, fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.55))


def _bar(results: Results, setting: str, method: str, first: str) -> float:
    """Standard deviation over folds of the difference to the first.

    That of the errors themselves is of how hard the folds are, which is the same for all.
    """
    own, other = results.paired(HONEST, setting, (method, first), "mse")
    return float((own - other).std(ddof=1)) if own.size > 1 else 0.0


def _draw_levels(results: Results, setting: str, above: Any, below: Any) -> None:
    """What does not depend on epsilon."""
    ridge = results.get(HONEST, setting, methods.SINGLE_RIDGE, "mse")
    if ridge is not None:
        above.axhline(ridge.mean, color="0.55", linestyle=":", linewidth=1.3, label="single ridge")
    for aggregate, line in (("mean", "-."), ("auto", (0, (6, 1)))):
        # On the same footing as the main curve where that was run, else of neighbours.
        asked = (SETTINGS[setting].by_graph, True)
        names = [methods.of_risk(aggregate, graph=graph) for graph in asked]
        name = next((n for n in names if results.get(HONEST, setting, n, "mse")), None)
        if name is None:
            continue
        mse, groups = (results.mean(HONEST, setting, name, q) for q in ("mse", "groups"))
        label = f"our {name} ({groups:,.0f} groups)"
        above.axhline(mse, color="tab:blue", linestyle=line, linewidth=1.5, label=label)
        below.axhline(groups, color="tab:blue", linestyle=line, linewidth=1.5)


def _draw_paper(above: Any, below: Any) -> None:
    """The paper's own curve, of other data."""
    claims = load_claims().of("table3").numbers
    style = {"color": "0.7", "marker": "^", "markersize": 4, "linewidth": 1.0, "zorder": 1}
    for axis, quantity in ((above, "mse"), (below, "groups")):
        printed = {c.method: c.printed for c in claims if c.quantity == quantity}
        values = [printed[methods.of_epsilon(epsilon, graph=False)] for epsilon in EPSILONS]
        axis.plot(PLACES, values, label="quoted: paper, European basins", **style)
