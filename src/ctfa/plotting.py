"""Pictures of fitted models. Each draws on a given axis, returns it, and changes nothing else."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from ctfa import _validation as check

INK, BAND, CHOSEN = "#1b4965", "#bee3f2", "#c8553d"


def plot_cv_curve(model: Any, *, ax: Any = None) -> Any:
    """Held-out error of each limit that ``max_loss="auto"`` tried, and the one it chose.

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
    curve = check.require_curve(model)
    ax = _axes(ax)
    # The two extremes, no merge at all and one group, have no place on a scale of limits.
    places = np.arange(curve.max_loss.size)
    error, band = curve.error, 2.0 * curve.standard_error
    ax.fill_between(places, error - band, error + band, color=BAND, linewidth=0)
    ax.plot(places, error, color=INK, marker="o", markersize=4)
    ax.plot(places[curve.chosen], error[curve.chosen], "o", color=CHOSEN, markersize=10)
    ax.annotate(
        f"chosen: {curve.max_loss[curve.chosen]:g}",
        (places[curve.chosen], error[curve.chosen]),
        xytext=(0, 12),
        textcoords="offset points",
        ha="center",
        color=CHOSEN,
    )
    names = {-np.inf: "none", np.inf: "all"}
    labels = [
        f"{names.get(limit, f'{limit:g}')}\n{groups:.3g}"
        for limit, groups in zip(curve.max_loss, curve.n_groups, strict=True)
    ]
    ax.set_xticks(places, labels, fontsize="small")
    ax.set_xlabel("max_loss (and mean number of groups)")
    ax.set_ylabel("held-out error, share of variance")
    ax.set_title("Held-out error; band: two standard errors of the difference from the best")
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return ax


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    try:
        pyplot = importlib.import_module("matplotlib.pyplot")
    except ImportError as error:
        raise ImportError("ctfa.plotting needs matplotlib: pip install 'ctfa[plot]'") from error
    return pyplot.subplots(figsize=(8.0, 4.5), layout="constrained")[1]
