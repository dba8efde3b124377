"""What every picture needs: a fitted model, an axis, room for labels, colours."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ctfa.core.libraries import imported
from ctfa.core.partition import Partition
from ctfa.core.types import FloatArray
from ctfa.estimators.view import FittedGroups

#: What most pictures are of.
REGRESSORS = "a fitted CTFARegressor, MultiInputCTFARegressor or PooledCTFARegressor"

INK, CHOSEN, FAINT = "#1b4965", "#c8553d", "#9aa5ad"
#: Told apart by people who see few colours, and most of them by their greys.
COLOURS = (
    "#56b4e9", "#e69f00", "#f0e442", "#009e73", "#cc79a7", "#0072b2", "#d55e00", "#bbbbbb",
)  # fmt: skip
#: Of these, those that are seen as thin lines on white; grey is for targets that are alone.
LINE_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")
#: Scales of one hue order, and of two about zero, that people who see few colours can read.
SEQUENTIAL, DIVERGING, NOTHING = "cividis", "RdBu_r", "#c4c4c4"


def is_labelled(result: Any) -> bool:
    """Whether this is what ``ctfa.labelled.fit`` returns."""
    return hasattr(result, "report_material")


def model_of(result: Any) -> Any:
    """The estimator of what ``ctfa.labelled.fit`` returns; anything else as it is."""
    return result.estimator if is_labelled(result) else result


def require(model: Any, needed: Sequence[str], give: str = REGRESSORS) -> Any:
    """A fitted model with the attributes that a picture shows; else a sentence on what to give."""
    model = model_of(model)
    if isinstance(model, type):
        raise TypeError(f"{model.__name__} is a class: give {give}.")
    if hasattr(model, "fit"):  # anything else is named below
        check_is_fitted(model)
    missing = [name for name in needed if not hasattr(model, name)]
    if missing:
        raise TypeError(f"{type(model).__name__} has no {missing[0]}: give {give}.")
    return model


def require_groups(model: Any, *needed: str, give: str = REGRESSORS) -> FittedGroups:
    """The groups of a fitted regressor; else a sentence on what to give."""
    return FittedGroups.of(require(model, ("partition_", *needed), give))


def unit_of(model: Any, whole: str = "share of variance") -> str:
    """What errors and gains of a fitted model are measured in."""
    return whole if is_standardised(model) else "squared units"


def is_standardised(model: Any) -> bool:
    """Whether a unit of gain is a target's variance."""
    model = model_of(model)
    return bool(getattr(model, "targets_", model).scale == "standard")


def inches(ax: Any, side: str) -> float:
    """The "width" or "height" of an axis."""
    return float(getattr(ax.get_window_extent(), side)) / float(ax.figure.dpi)


def axes(ax: Any, *, width: float = 8.0, height: float = 4.5) -> Any:
    """The axis given, its figure with room for labels, or one in a new figure."""
    if ax is not None:
        figure = ax.figure
        # A part of a figure has the layout of all.
        if figure.get_layout_engine() is None and hasattr(figure, "set_layout_engine"):
            figure.set_layout_engine("constrained")
        return ax
    absent = "ctfa.plotting needs matplotlib: pip install 'ctfa[plot]'"
    pyplot = imported("matplotlib.pyplot", absent)
    return pyplot.subplots(figsize=(width, height), layout="constrained")[1]


def bare(ax: Any, *sides: str) -> None:
    """Take off lines around an axis."""
    for side in sides or ("top", "right"):
        ax.spines[side].set_visible(False)


def lines(ax: Any, each: Any, *, autolim: bool = True, **style: Any) -> None:
    """Draw many lines at once."""
    collections = importlib.import_module("matplotlib.collections")
    ax.add_collection(collections.LineCollection(each, **style), autolim=autolim)


def say(ax: Any, text: str) -> None:
    """Write where a picture would be, when there is nothing to draw."""
    ax.text(0.5, 0.5, text, transform=ax.transAxes, ha="center", va="center", color=INK)


def note(
    ax: Any, text: str, where: Any, *, colour: str = INK, pad: float = 1.0, **how: Any
) -> None:
    """Write at a place, on white: lines may run close by."""
    white = {"facecolor": "white", "edgecolor": "none", "pad": pad}
    ax.annotate(text, where, color=colour, fontsize="small", bbox=white, **how)


def colour_scale(values: FloatArray, *, diverging: bool | None = None) -> tuple[Any, Any]:
    """Colours and the norm for numbers: about zero where signs differ, else from low to high."""
    colours = importlib.import_module("matplotlib.colors")
    found = importlib.import_module("matplotlib").colormaps
    known = values[np.isfinite(values)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    if diverging is None:
        diverging = low < 0.0 < high
    name = DIVERGING if diverging else SEQUENTIAL
    if diverging:
        # As far to both sides: equal colours are equal amounts.
        high = max(-low, high) or 1.0
        low = -high
    elif low == high:
        low, high = low - 0.5, high + 0.5
    return found[name].with_extremes(bad=NOTHING), colours.Normalize(low, high)


def shortened(name: str, letters: int = 22) -> str:
    """A name of at most so many letters, its end kept: names of one kind differ there."""
    if len(name) <= letters:
        return name
    tail = max(4, letters // 3)
    return f"{name[: letters - tail - 1].rstrip()}\u2026{name[-tail:].lstrip()}"


def listed(names: Sequence[str], letters: int = 30) -> str:
    """As many names as a line holds, and one at least."""
    text = shortened(names[0], letters - 2)
    for number, name in enumerate(names[1:], start=2):
        longer = f"{text}, {name}"
        if len(longer) > letters - (2 if number < len(names) else 0):
            return f"{text} \u2026"
        text = longer
    return text


def count(number: int, noun: str) -> str:
    """A number with its noun, one or many."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def grouped(partition: Partition, noun: str = "target") -> str:
    """How many there are, and in how many groups."""
    n_variables, n_groups = partition.n_variables, partition.n_groups
    if n_groups < n_variables:
        return f"{count(n_variables, noun)} in {count(n_groups, 'group')}"
    return count(n_variables, noun) + (", each by itself" if n_variables > 1 else "")


def label_places(ax: Any, side: str, labels: Sequence[str], *, letters: int = 22) -> None:
    """Labels along an axis: every one where there is room, else one in so many.

    ``side`` is "x", where long labels stand upright, or "y".
    """
    places = np.arange(len(labels))
    room = inches(ax, "width" if side == "x" else "height")
    texts = [shortened(str(label), letters) for label in labels]
    apart = room / max(len(texts), 1)
    # Inches of a letter of the small font: across 0.085, in height 0.135.
    upright = side == "x" and max(map(len, texts), default=0) * 0.085 > apart
    needed = 0.135 if side == "y" or upright else 0.0
    step = max(1, int(np.ceil(needed / apart))) if apart > 0.0 else 1
    setter = ax.set_xticks if side == "x" else ax.set_yticks
    setter(places[::step], texts[::step], fontsize="small")
    if upright:
        ax.tick_params(axis="x", labelrotation=90)
    ax.tick_params(axis=side, length=0 if step == 1 else 2)
