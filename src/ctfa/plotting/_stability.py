"""How often targets are found together on subsamples, as a matrix."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from ctfa.core.partition import Partition
from ctfa.core.types import FloatArray, IntArray
from ctfa.plotting._axes import CHOSEN, axes, count, is_labelled, label_places, require_groups

#: Below the first two targets are as good as never together, above the second always.
RARELY, ALWAYS = 0.05, 0.95
#: Up to so many targets are called by name.
NAMED = 60


def plot_stability(model: Any, *, ax: Any = None) -> Any:
    """Share of subsamples in which each two targets are in one group.

    Targets are sorted by group, groups that are often found together side by side, and within a
    group likewise. The frames are the groups: a sharp picture has dark frames and nothing outside.

    Parameters
    ----------
    model : CTFARegressor or MultiInputCTFARegressor
        Fitted, after ``model.stability(X, y)``.
    ax : matplotlib Axes, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from ctfa import CTFARegressor
    >>> from ctfa.datasets import make_paper_synthetic
    >>> from ctfa.plotting import plot_stability
    >>> X, Y = make_paper_synthetic(150, 20, random_state=0)
    >>> model = CTFARegressor().fit(X, Y)
    >>> together = model.stability(X, Y, random_state=0)
    >>> ax = plot_stability(model)  # doctest: +SKIP
    """
    give = "a fitted CTFARegressor or MultiInputCTFARegressor"
    called = "fit.estimator" if is_labelled(model) else "model"
    fitted = require_groups(model, "stability", give=give)
    if not hasattr(fitted.model, "stability_"):
        raise ValueError(
            f"{type(fitted.model).__name__} has no stability_ yet: call {called}.stability(X, y) "
            "first, with the data of fit."
        )
    partition, shares = fitted.partition, np.asarray(fitted.model.stability_)
    order = stable_order(partition, shares)
    n_targets, names = order.size, fitted.names
    letters = min(max(map(len, names)), 22) if n_targets <= NAMED else 0
    ax = axes(ax, width=6.6 + 0.085 * letters, height=5.6)
    image = ax.imshow(shares[np.ix_(order, order)], cmap="Blues", vmin=0.0, vmax=1.0,
                      interpolation="nearest" if n_targets <= 500 else "auto")  # fmt: skip
    _frames(ax, partition, order)
    bar = ax.figure.colorbar(image, ax=ax, ticks=[0.0, RARELY, 0.5, ALWAYS, 1.0])
    bar.ax.set_yticklabels(["0", f"{RARELY:g}", "0.5", f"{ALWAYS:g}", "1"])
    bar.ax.hlines([RARELY, ALWAYS], 0.0, 1.0, colors=CHOSEN, linewidths=1.2)
    bar.set_label("share of subsamples together")
    if n_targets <= NAMED:
        label_places(ax, "y", [names[target] for target in order])
    else:
        ax.set_yticks([])
    ax.set_xticks([])
    ax.set_title(_title(partition, shares))
    return ax


def stable_order(partition: Partition, shares: FloatArray) -> IntArray:
    """Targets by group, then by how often they are together; groups likewise."""
    between = partition.mean(partition.mean(shares).T)
    groups = [partition.groups[group] for group in _side_by_side(between)]
    return np.concatenate([each[_side_by_side(shares[np.ix_(each, each)])] for each in groups])


def _side_by_side(shares: FloatArray) -> IntArray:
    """An order in which those that are often together are neighbours."""
    if len(shares) < 3:
        return np.arange(len(shares))
    apart = 1.0 - (shares + shares.T) / 2.0
    np.fill_diagonal(apart, 0.0)
    return np.asarray(leaves_list(linkage(squareform(apart, checks=False), "average")))


def _frames(ax: Any, partition: Partition, order: IntArray) -> None:
    """A square around each group of two or more; the place of others is their own cell."""
    patches = importlib.import_module("matplotlib.patches")
    labels = partition.labels[order]
    starts = np.flatnonzero(np.diff(labels, prepend=-1))
    ends = np.append(starts[1:], labels.size)
    style = {"fill": False, "edgecolor": CHOSEN, "linewidth": 0.6 if labels.size > 500 else 1.6}
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        size = end - start
        if size > 1 or labels.size <= NAMED:
            ax.add_patch(patches.Rectangle((start - 0.5, start - 0.5), size, size, **style))


def _title(partition: Partition, shares: FloatArray) -> str:
    """How many groups, and how many of their pairs are always found together."""
    n_targets = partition.n_variables
    text = f"{count(n_targets, 'target')} in {count(partition.n_groups, 'group')}"
    same = partition.labels[:, None] == partition.labels
    pairs = shares[same & ~np.eye(n_targets, dtype=bool)]
    if not pairs.size:
        return text
    return f"{text}\n{np.mean(pairs >= ALWAYS):.0%} of the pairs in groups nearly always together"
