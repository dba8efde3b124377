"""What a fit of labelled data came to, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ctfa._names import visible
from ctfa.core.cut import PREFERRED
from ctfa.estimators.view import FittedGroups
from ctfa.labelled._words import several
from ctfa.report._words import skill_words

#: Errors closer than this share are no difference worth words.
EVEN = 0.005


def summarise(fit: Any) -> str:
    """A headline, the errors, who is helped and hurt, how the limit was found, and notes."""
    return "\n".join(map(visible, _lines(fit)))


def _lines(fit: Any) -> Iterator[str]:
    tasks, model = fit.tasks, fit.estimator
    first, last, n_samples = fit.span
    yield (
        f"{several(tasks.n_tasks, tasks.what)} -> {several(fit.n_regions, tasks.group)}"
        f"{f', {tasks.n_masked:,} masked' if tasks.n_masked else ''}"
    )
    span = f"{first} to {last}" if first else ""
    yield (
        f"  {fit.plan.target} from {several(len(fit.plan.slots), 'feature')} "
        f"({', '.join(slot.name for slot in fit.plan.slots[:6])}"
        f"{', ...' if len(fit.plan.slots) > 6 else ''}); {several(n_samples, 'sample')}"
        f"{f', {span}' if span else ''}"
    )
    if fit.held_out is not None:
        yield from _errors(fit)
    chosen = "chosen on held-out rows"
    if model.cv_curve_ is None:
        asked = FittedGroups.of(model).aggregator.max_loss == "auto"
        chosen = "not chosen, for there was nothing to choose it by" if asked else "as given"
    yield f"  limit max_loss = {model.max_loss_:g}, {chosen}; {_served(fit)}"
    yield from (f"  note: {note}" for note in fit.notes)


def _errors(fit: Any) -> Iterator[str]:
    errors = fit.held_out.errors
    mine = fit.held_out.mean("ctfa")
    against = []
    for name in errors:
        if name != "ctfa":
            theirs = fit.held_out.mean(name)
            against.append(f"{theirs:.3f} {_rival(name)} ({_compared(mine, theirs)})")
    yield f"  held-out error {mine:.3f} of {fit.variance}, against {' and '.join(against)}"
    yield from (f"  {said}" for said in skill_words(fit.held_out))
    gain = fit.held_out.gain
    helped, hurt = int(fit.held_out.helped.sum()), int(fit.held_out.hurt.sum())
    fitted = FittedGroups.of(fit.estimator)
    own = f"a model of their own{' on all features' if fitted.averages else ''}"
    line = f"  {helped:,} helped, {hurt:,} made worse than by {own}"
    if fitted.is_single_task:  # others than in the folds, on which it is judged
        line = (
            f"  where it chose again without the held-out rows, {helped:,} helped, {hurt:,} made "
            f"worse than by {own}"
        )
    if hurt:
        worst = int(np.nanargmin(gain))
        line += f" (most: {fit.tasks.names[worst]}, {gain[worst]:+.3f})"
    yield f"{line}; {fit.held_out.how}"


def _compared(mine: float, theirs: float) -> str:
    change = mine / theirs - 1.0 if theirs else np.nan
    if abs(change) < EVEN:
        return "even"
    return f"{100 * abs(change):.0f} % {'better' if change < 0 else 'worse'}"


def _rival(name: str) -> str:
    return "by single-task models" if name == "single-task" else f"by {name}"


def _served(fit: Any) -> str:
    if fit.n_regions == fit.tasks.n_tasks:
        on = ", on averaged features" if FittedGroups.of(fit.estimator).averages else ""
        return f"every {fit.tasks.what} keeps a model of its own{on}{_at_what_price(fit)}"
    aggregate = getattr(fit.estimator, "aggregate_", None)
    if aggregate == "pool":
        return f"members of a region share coefficients and keep their own {_inputs(fit)}"
    if aggregate == "mean":
        return f"a region is predicted by its mean {_inputs(fit)}"
    return "one model per region"


def _at_what_price(fit: Any) -> str:
    """What merging at the usual limit would have come to, where folds preferred none."""
    curve = fit.estimator.cv_curve_
    if curve is None or np.isfinite(fit.estimator.max_loss_):
        return ""
    at = int(np.argmin(np.abs(curve.max_loss - PREFERRED)))
    cost = curve.error[at] / curve.error[curve.chosen] - 1.0
    return (
        f" (max_loss = {curve.max_loss[at]:g}: about {curve.n_groups[at]:.0f} {fit.tasks.group}s, "
        f"held-out error {100 * cost:+.2g} %)"
    )


def _inputs(fit: Any) -> str:
    return "features" if len(fit.plan.slots) > 1 else "feature"
