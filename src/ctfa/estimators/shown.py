"""What a notebook shows of a fitted model: scikit-learn's diagram, and what came out below it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError

from ctfa._text import visible
from ctfa.estimators.view import FittedGroups

#: Groups, and members of each, that are named; names longer than this are cut.
GROUPS, MEMBERS, LONGEST = 5, 6, 40
#: Number of tasks up to which gains are computed where the fit has not done so.
GAINS = 200
#: Colours are those of the notebook, light or dark.
STYLE = (
    "color:inherit;font:13px/1.5 system-ui,sans-serif;margin:.5em 0;display:flex;flex-wrap:wrap;"
    "gap:1em 2em;align-items:flex-start"
)


class Shown:
    """A model that notebooks show with a summary once it is fitted."""

    @property
    def _repr_html_(self) -> Any:
        """As in scikit-learn: present where its ``display`` is a diagram."""
        diagram = super()._repr_html_  # type: ignore[misc]
        return lambda: diagram() + summary_html(self)

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        shown: dict[str, str] = super()._repr_mimebundle_(**options)  # type: ignore[misc]
        if "text/html" in shown:
            shown["text/html"] += summary_html(self)
        return shown


def summary_html(model: Any) -> str:
    """Groups, held-out error and the worst served target, as HTML; nothing before fit."""
    try:
        fitted = FittedGroups.of(model)
    except NotFittedError:
        return ""
    partition, what = fitted.partition, "task" if fitted.own_rows else "target"
    title, n_groups = f"{partition.n_variables:,} {what}", partition.n_groups
    title += "s" if partition.n_variables != 1 else ""
    title += f" \N{RIGHTWARDS ARROW} {n_groups:,} group{'' if n_groups == 1 else 's'}"
    curve, limit = fitted.aggregator.cv_curve_, float(fitted.aggregator.max_loss_)
    said = f"max_loss = {limit:g}"
    if curve is not None:
        said += f", chosen on held-out rows: error {curve.error[curve.chosen]:.3f}"
        if np.isneginf(curve.max_loss[0]) and curve.chosen:
            said += f", {curve.error[0]:.3f} with a model per {what}"
    lines = [said, *_worst(fitted)]
    for group in np.argsort(-partition.sizes, kind="stable")[:GROUPS].tolist():
        members = partition.groups[group]
        if members.size > 1:
            named = ", ".join(_cut(fitted.names[k]) for k in members[:MEMBERS].tolist())
            more = f" and {members.size - MEMBERS:,} more" if members.size > MEMBERS else ""
            lines.append(f"group {group}: {named}{more}")
    return block(title, lines)


def block(title: str, lines: Iterable[str], aside: str = "") -> str:
    """Lines of text under a title, beside a picture; all text is escaped."""
    told = "".join(f"<div>{escape(visible(line))}</div>" for line in lines)
    title = escape(visible(title))
    text = f"<div style='min-width:16em;flex:1 1 24em'><b>{title}</b>{told}</div>"
    return f"<div class='ctfa-summary' style='{STYLE}'>{text}{aside}</div>"


def _worst(fitted: FittedGroups) -> Iterator[str]:
    """The target predicted to gain least, where that is known or quickly computed."""
    if fitted.shares != "mean" and fitted.partition.n_variables > GAINS:
        return
    gain = np.asarray(fitted.evidence.gain.value)
    known = np.isfinite(gain) & (fitted.partition.sizes[fitted.partition.labels] > 1)
    if known.any():
        worst = int(np.argmin(np.where(known, gain, np.inf)))
        n_lose = int((gain[known] < 0.0).sum())
        yield (
            f"worst served: {_cut(fitted.names[worst])}, predicted gain {gain[worst]:+.3f} over a "
            f"model of its own; {n_lose:,} of {int(known.sum()):,} merged predicted to lose"
        )


def _cut(name: str) -> str:
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}\N{HORIZONTAL ELLIPSIS}"
