"""What every picture needs: an axis, room for labels, colours."""

from __future__ import annotations

import importlib
from typing import Any

INK, CHOSEN = "#1b4965", "#c8553d"


def inches(ax: Any, side: str) -> float:
    """The "width" or "height" of an axis."""
    return float(getattr(ax.get_window_extent(), side)) / float(ax.figure.dpi)


def make_room(figure: Any) -> None:
    """Let a figure without a layout make room for labels; a part of a figure has that of all."""
    if figure.get_layout_engine() is None and hasattr(figure, "set_layout_engine"):
        figure.set_layout_engine("constrained")


def axes(ax: Any, *, width: float = 8.0, height: float = 4.5) -> Any:
    """The axis given, or one in a new figure."""
    if ax is not None:
        return ax
    try:
        pyplot = importlib.import_module("matplotlib.pyplot")
    except ImportError as error:
        raise ImportError("ctfa.plotting needs matplotlib: pip install 'ctfa[plot]'") from error
    return pyplot.subplots(figsize=(width, height), layout="constrained")[1]
