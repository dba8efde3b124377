"""What each merge saved and what it paid."""

from __future__ import annotations

from typing import Any

import numpy as np

from ctfa.core.types import FloatArray
from ctfa.plotting._axes import CHOSEN, FAINT, INK, axes, bare, count, make_room, say
from ctfa.plotting._reading import is_standardised, require

#: Standard errors are drawn for up to so many merges; more would be a grey wall.
WITH_ERRORS = 300
#: Amounts that differ by more than this factor are drawn by their logarithm.
WIDE = 30.0


def plot_merges(model: Any, *, ax: Any = None) -> Any:
    """Variance saved against bias paid, one dot a merge.

    A merge saves variance, having one model fewer to estimate, and pays bias, because its two sides
    differ. Above the diagonal it is predicted to gain; the faint bars are the standard errors of
    that gain. By the risk rule the loss of a merge is what it pays for each unit it saves, so the
    limit is a line too, and merges lie above it as far as they were judged by the same figures.

    Parameters
    ----------
    model : CTFARegressor, MultiInputCTFARegressor or PooledCTFARegressor
        Fitted.
    ax : matplotlib Axes, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from ctfa import CTFARegressor
    >>> from ctfa.datasets import make_paper_synthetic
    >>> from ctfa.plotting import plot_merges
    >>> X, Y = make_paper_synthetic(150, 20, random_state=0)
    >>> ax = plot_merges(CTFARegressor().fit(X, Y))  # doctest: +SKIP
    """
    model = require(model, ("partition_", "regressors_", "_evidence"))
    columns = model._evidence.columns()
    saved = np.asarray(columns["variance_saved"], dtype=float)
    paid = np.asarray(columns["bias_paid"], dtype=float)
    known = np.isfinite(saved) & np.isfinite(paid)
    if saved.size and not known.any():
        raise ValueError(
            "the merges of this model have no variance saved and no bias paid: they were judged by "
            "penalised fits, which have no F. Fit with TargetAggregator(solver='ols')."
        )
    ax = axes(ax, width=6.5, height=5.0)
    make_room(ax.figure)
    ax.set_title(_title(model, np.asarray(columns["gain"], dtype=float), known))
    bare(ax)
    if not saved.size:
        ax.set_axis_off()
        say(ax, "no merges")
        return ax
    error = np.asarray(columns["gain_error"], dtype=float)[known]
    losers = np.array([len(who) > 0 for who in columns["losers"]])[known]
    saved, paid = saved[known], paid[known]
    span = _scales(ax, paid, saved)
    if saved.size <= WITH_ERRORS:
        # The gain is one less the other, and nearly all that is not known of it is the bias.
        ax.errorbar(paid, saved, xerr=np.nan_to_num(error), fmt="none", ecolor=FAINT, alpha=0.45,
                    elinewidth=0.9, zorder=1)  # fmt: skip
    _lines(ax, span, model)
    size = 26.0 if saved.size <= 200 else 9.0
    ax.scatter(paid[~losers], saved[~losers], s=size, color=INK, linewidths=0, alpha=0.85, zorder=3,
               label="merge")  # fmt: skip
    if losers.any():
        ax.scatter(paid[losers], saved[losers], s=1.5 * size, marker="D", facecolors="none",
                   edgecolors=CHOSEN, linewidths=1.1, zorder=4,
                   label="merge that a member is predicted to lose by")  # fmt: skip
    unit = "share of a variance" if is_standardised(model) else "squared units"
    ax.set_xlabel(f"bias paid ({unit})")
    ax.set_ylabel(f"variance saved ({unit})")
    ax.legend(frameon=False, fontsize="small", loc="best")
    return ax


def _title(model: Any, gain: FloatArray, known: Any) -> str:
    n_merges = gain.size
    if not n_merges:
        return f"{count(model.partition_.n_variables, 'target')}, no merges"
    pays = int(np.count_nonzero(gain[known] > 0.0))
    rest = int(np.count_nonzero(known)) - pays
    text = f"{count(n_merges, 'merge')}: {pays:,} predicted to gain, {rest:,} to lose"
    unknown = n_merges - pays - rest
    return text + (f", {unknown:,} not worked out" if unknown else "")


def _scales(ax: Any, paid: FloatArray, saved: FloatArray) -> tuple[float, float]:
    """Set both scales alike; the lowest and the highest bias that lines are drawn for."""
    low, high = float(min(paid.min(), 0.0)), float(max(paid.max(), saved.max()))
    least = float(saved[saved > 0.0].min()) if (saved > 0.0).any() else 0.0
    if least > 0.0 and high > WIDE * least:
        # Bias below zero, by chance, has no logarithm: linear about zero.
        for scale in (ax.set_xscale, ax.set_yscale):
            scale("symlog", linthresh=least)
        ax.set_xlim(1.6 * low - 0.2 * least, 1.6 * high)
        ax.set_ylim(min(0.0, float(saved.min())), 1.6 * float(saved.max()))
        return 1.6 * low - 0.2 * least, 1.6 * high
    wide, tall = high - low, float(saved.max()) or 1.0
    right = max(float(paid.max()), 0.0) + 0.12 * wide
    ax.set_xlim(low - 0.08 * wide, max(right, 0.3 * tall))
    ax.set_ylim(min(0.0, float(saved.min())), 1.15 * tall)
    return low - 0.08 * wide, max(high, right)


def _lines(ax: Any, span: tuple[float, float], model: Any) -> None:
    """Break-even, and the limit where that is a line too."""
    bias = np.concatenate(([0.0], np.geomspace(1e-6 * span[1] or 1e-6, 2.0 * span[1] or 1.0, 200)))
    ax.plot(bias, bias, color=INK, linewidth=1.0, label="break-even", zorder=2)
    limit = float(model.max_loss_)
    facts = model._evidence.terms.facts
    if facts.weighs_bias and np.isfinite(limit) and limit > 0.0 and limit != 1.0:
        ax.plot(bias, bias / limit, color=CHOSEN, linewidth=1.2, linestyle="--", zorder=2,
                label=f"limit {limit:g}")  # fmt: skip
