"""What each target gains by its group, the worst first."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ctfa.core.types import FloatArray
from ctfa.estimators.held_out import SAME
from ctfa.plotting import _axes as draw
from ctfa.plotting._axes import CHOSEN, INK, REGRESSORS

GIVE = f"{REGRESSORS}, or the frame that its compare(X, y) returns"
#: What the frame of compare has.
COLUMNS = ("target", "gain", "predicted_gain", "single_task_error")
#: Up to so many targets are called by name.
NAMED = 60
PREDICTED, EVEN = "#56b4e9", "#9aa5ad"


class Gains(NamedTuple):
    """What is drawn of each target."""

    names: list[str]
    value: FloatArray
    error: FloatArray | None
    predicted: FloatArray | None
    unit: str


def plot_gains(model: Any, *, ax: Any = None) -> Any:
    """Gain of each target over a model of its own, sorted, the worst on the left.

    Targets made worse are in the colour of warnings and counted in the title. Of a model these are
    predicted gains with one standard error, and the title says so: held-out rows may find others.
    Of a comparison, and of labelled data with errors on held-out rows, they are the gains found
    there, with the predicted ones beside them.

    Parameters
    ----------
    model : fitted regressor with groups, LabelledFit or DataFrame
        A frame is what ``model.compare(X, y)`` returns.
    ax : matplotlib Axes, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from ctfa import CTFARegressor
    >>> from ctfa.datasets import make_paper_synthetic
    >>> from ctfa.plotting import plot_gains
    >>> X, Y = make_paper_synthetic(150, 20, random_state=0)
    >>> model = CTFARegressor().fit(X, Y)
    >>> ax = plot_gains(model)  # doctest: +SKIP
    >>> ax = plot_gains(model.compare(X, Y))  # doctest: +SKIP
    """
    gains = _gains(model)
    known = np.isfinite(gains.value)
    order = np.argsort(np.where(known, gains.value, np.inf), kind="stable")[: known.sum()]
    ax = draw.axes(ax, width=float(np.clip(2.0 + 0.2 * order.size, 6.0, 10.0)))
    ax.set_title(_title(gains, known))
    ax.axhline(0.0, color=INK, linewidth=0.8)
    draw.bare(ax, "top", "right", "bottom")
    if not order.size:
        draw.say(ax, "no gain is known")
        return ax
    value, place = gains.value[order], np.arange(order.size)
    colour = np.where(value < 0.0, CHOSEN, np.where(value > 0.0, INK, EVEN))
    few = order.size <= NAMED
    if gains.predicted is None:
        if gains.error is not None:
            error = gains.error[order]
            ax.vlines(place, value - error, value + error, colors=colour, alpha=0.35,
                      linewidths=2.0 if few else 0.6)  # fmt: skip
        ax.scatter(place, value, s=26.0 if few else 5.0, c=colour, linewidths=0, zorder=3)
    else:
        predicted = gains.predicted[order]
        ax.bar(place, value, color=colour, width=0.72 if few else 1.0)
        ax.plot([], [], color=INK, linewidth=6.0, label="on held-out rows")
        ax.plot(place, predicted, "_" if few else ".", color=PREDICTED, alpha=1.0 if few else 0.6,
                markersize=9 if few else 3, markeredgewidth=2.2 if few else 0.5, zorder=3,
                label="predicted")  # fmt: skip
        ax.legend(frameon=False, fontsize="small", loc="upper left")
    ax.set_xlim(-0.8, order.size - 0.2)
    if few:
        draw.label_places(ax, "x", [gains.names[number] for number in order])
    else:
        ax.set_xticks([])
        ax.set_xlabel(f"{order.size:,} targets, the worst first")
    ax.set_ylabel(f"gain over a model of its own,\n{gains.unit}")
    return ax


def _gains(model: Any) -> Gains:
    if hasattr(model, "columns") and not hasattr(model, "fit"):
        return _of_frame(model)
    predicted = _of_model(model)
    held_out = getattr(model, "held_out", None) if draw.is_labelled(model) else None
    if held_out is None:
        return predicted
    # Both in units of a variance, or the predicted ones are not shown.
    beside = np.where(draw.is_standardised(model), predicted.value, np.nan)
    return Gains(predicted.names, held_out.gain, None, beside, "share of variance")


def _of_frame(frame: Any) -> Gains:
    missing = [name for name in COLUMNS if name not in frame.columns]
    if missing:
        raise TypeError(f"the frame has no column {missing[0]!r}: give {GIVE}.")
    return Gains(
        [str(name) for name in frame["target"]],
        np.asarray(frame["gain"], dtype=float),
        None,
        np.asarray(frame["predicted_gain"], dtype=float),
        "share of variance",
    )


def _of_model(model: Any) -> Gains:
    fitted = draw.require_groups(model, "regressors_", give=GIVE)
    gain = fitted.evidence.gain if fitted.gains_of is None else fitted.gains_of()
    within = "share of the variance within tasks"
    unit = draw.unit_of(model, within if fitted.own_rows else "share of variance")
    error = np.nan_to_num(np.asarray(gain.standard_error))
    value = np.asarray(gain.value, dtype=float)
    return Gains(list(fitted.names), value, error, None, f"predicted, {unit}")


def _title(gains: Gains, known: Any) -> str:
    value = gains.value[known]
    same = 0.0 if gains.predicted is None else SAME
    helped, hurt = int(np.count_nonzero(value > same)), int(np.count_nonzero(value < -same))
    even = value.size - helped - hurt
    if gains.predicted is None:
        text = f"predicted: {helped:,} gain, {hurt:,} lose"
    else:
        text = f"on held-out rows: {helped:,} helped, {hurt:,} hurt"
    text += f", {even:,} unchanged" if even else ""
    unknown = gains.value.size - value.size
    return text + (f" ({unknown:,} without a model of their own to compare)" if unknown else "")
