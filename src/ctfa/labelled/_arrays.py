"""Labelled arrays into the tables that estimators take, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ctfa.core.types import BoolArray, FloatArray, IntArray
from ctfa.labelled._coordinates import Coordinates
from ctfa.labelled._extras import need
from ctfa.labelled._gather import Gathered
from ctfa.labelled._plan import Plan
from ctfa.labelled._tasks import Tasks
from ctfa.labelled._words import listed, several, word

MASKED = ("auto", "leave", "error")


@dataclass(frozen=True, eq=False)
class Arrays:
    """What an estimator is fitted to: rows by columns, the tasks that have data."""

    X: FloatArray  # (n_rows, n_columns)
    Y: FloatArray  # (n_rows, n_tasks)
    layout: IntArray | None  # (n_tasks, n_slots); None where all features are shared
    tasks: Tasks
    samples: Any  # the coordinate of the rows, a DataArray
    used: BoolArray  # which rows of the data these are
    notes: list[str]


def arrange(gathered: Gathered, masked: str) -> Arrays:
    """Take the numbers out, and tell gaps (some values) from masked tasks (none)."""
    if masked not in MASKED:
        raise ValueError(f"masked={masked!r} is not known: use one of {', '.join(MASKED)}.")
    plan, target = gathered.plan, gathered.target
    sample, dims = plan.sample, plan.task_dims
    n_rows = target.sizes[sample]
    Y = _numbers(target.transpose(sample, *dims)).reshape(n_rows, -1)
    slots = [
        _numbers(slot.transpose(sample, *(() if own.shared else dims))).reshape(n_rows, -1)
        for slot, own in zip(gathered.features, plan.slots, strict=True)
    ]
    coords = Coordinates.of(target, dims)
    kept, notes = _kept(Y, slots, plan, Tasks(dims, coords, np.arange(Y.shape[1])), masked)
    tasks = Tasks(dims, coords, kept)
    used = np.ones(n_rows, dtype=bool)
    if plan.is_shared:
        used, more = _complete_rows(slots, plan)
        notes += more
    _require_common_rows(Y, slots, gathered)
    X, layout = table(slots, plan, tasks)
    notes = [*gathered.notes, *notes, *_gaps(Y[:, kept], slots, plan, tasks)]
    samples = target[sample] if sample in target.coords else _counted(target, sample)
    return Arrays(
        X[used], Y[np.ix_(used, kept)], layout, tasks, samples[{sample: used}], used, notes
    )


def table(slots: list[FloatArray], plan: Plan, tasks: Tasks) -> tuple[FloatArray, IntArray | None]:
    """Put features side by side: those of the tasks slot by slot; and say whose each column is."""
    blocks = [
        values if slot.shared else values[:, tasks.kept]
        for values, slot in zip(slots, plan.slots, strict=True)
    ]
    X = np.concatenate(blocks, axis=1)
    if plan.is_shared:
        return X, None
    starts = np.cumsum([0, *(block.shape[1] for block in blocks[:-1])])
    layout = np.empty((tasks.n_tasks, len(slots)), dtype=np.intp)
    for number, (slot, start) in enumerate(zip(plan.slots, starts.tolist(), strict=True)):
        layout[:, number] = start + (0 if slot.shared else np.arange(tasks.n_tasks))
    return X, layout


def named_inputs(X: FloatArray, plan: Plan) -> Any:
    """Inputs as the estimator takes them: with their names, where a column is a feature."""
    if not plan.is_shared:
        return X
    return need("pandas").DataFrame(X, columns=[slot.name for slot in plan.slots])


def _numbers(array: Any) -> FloatArray:
    values = np.asarray(array.values, dtype=np.float64)
    if np.isinf(values).any():
        count = int(np.isinf(values).sum())
        raise ValueError(
            f"{array.name} holds {several(count, 'infinite value')}: turn them into NaN "
            "(a missing value) or leave those rows out."
        )
    return values


def _kept(
    Y: FloatArray, slots: list[FloatArray], plan: Plan, everything: Tasks, masked: str
) -> tuple[IntArray, list[str]]:
    """Tasks with a target and a feature; the others are masked, or refused."""
    empty = np.asarray(np.isnan(Y).all(axis=0))
    lacking = np.zeros(Y.shape[1], dtype=bool)
    if not plan.is_shared:
        own = [v for v, slot in zip(slots, plan.slots, strict=True) if not slot.shared]
        lacking = np.all([np.isnan(values).all(axis=0) for values in own], axis=0) & ~empty
    constant = _never_changes(Y) & ~empty
    lost = np.flatnonzero(empty | lacking)
    leave = masked == "leave" or (masked == "auto" and everything.is_grid)
    what = everything.what
    if (empty | lacking | constant).all() and lost.size:
        raise ValueError(
            f"every {what} is without data: {plan.target} or all features are NaN everywhere."
        )
    if lost.size and not leave:
        named = listed([everything.names[i] for i in lost.tolist()], 3)
        column = plan.target if empty[lost[0]] else "every feature"
        raise ValueError(
            f"{several(lost.size, what)} without a single value: {named} ({column} is NaN in every "
            "row). Leave them out with masked='leave' (they stay in the results as missing), or "
            "drop them."
        )
    if constant.any() and not leave:
        named = listed([everything.names[i] for i in np.flatnonzero(constant).tolist()], 3)
        raise ValueError(
            f"{plan.target} never changes in {several(int(constant.sum()), what)}: {named}. There "
            "is nothing to predict: leave them out with masked='leave', or drop them."
        )
    notes = []
    if lost.size:
        notes.append(f"{several(lost.size, what)} of {Y.shape[1]:,} without data, left out")
    if constant.any():
        count = several(int(constant.sum()), what)
        notes.append(f"{count} where {plan.target} never changes, left out")
    return np.flatnonzero(~(empty | lacking | constant)), notes


def _never_changes(Y: FloatArray) -> BoolArray:
    """Series of two observed values or more that are all the same."""
    low = np.where(np.isnan(Y), np.inf, Y).min(axis=0)
    high = np.where(np.isnan(Y), -np.inf, Y).max(axis=0)
    return np.asarray((low == high) & ((~np.isnan(Y)).sum(axis=0) > 1))


def _complete_rows(slots: list[FloatArray], plan: Plan) -> tuple[BoolArray, list[str]]:
    """Rows with every shared feature: without one of them nothing is known of the others."""
    gaps = np.isnan(np.concatenate(slots, axis=1))
    used = np.asarray(~gaps.any(axis=1))
    if used.all():
        return used, []
    worst = plan.slots[int(gaps.sum(axis=0).argmax())].name
    if not used.any():
        raise ValueError(
            f"no row has every feature: {worst} has most gaps. Leave it out, or fill them."
        )
    count = int((~used).sum())
    return used, [f"{several(count, 'row')} lacking a feature (mostly {worst}), left out"]


def _require_common_rows(Y: FloatArray, slots: list[FloatArray], gathered: Gathered) -> None:
    """Refuse a target that is never there when its features are, as where periods differ."""
    together = ~np.isnan(Y)
    for values in slots:
        together &= ~np.isnan(values) | np.isnan(values).all(axis=0)
    if together.any():
        return
    plan = gathered.plan
    index = gathered.target.indexes.get(plan.sample, np.arange(len(Y)))
    spans: list[str] = []
    for name, values in [(plan.target, Y), *zip((s.name for s in plan.slots), slots, strict=True)]:
        rows = np.flatnonzero(~np.isnan(values).all(axis=1))
        if rows.size and len(spans) < 3:
            spans.append(f"{name} from {word(index[rows[0]])} to {word(index[rows[-1]])}")
    raise ValueError(
        f"{plan.target} and its features have no {plan.sample} in common: {', '.join(spans)}. "
        "Check that they are of the same period."
    )


def _gaps(Y: FloatArray, slots: list[FloatArray], plan: Plan, tasks: Tasks) -> list[str]:
    notes = []
    share = float(np.isnan(Y).mean())
    if share:
        notes.append(f"{100 * share:.2g} % of {plan.target} missing")
    for values, slot in zip(slots, plan.slots, strict=True):
        if slot.shared:
            continue
        gaps = np.isnan(values[:, tasks.kept])
        absent = gaps.all(axis=0)
        if absent.any():
            notes.append(f"{several(int(absent.sum()), tasks.what)} without any {slot.name}")
        share = float(gaps[:, ~absent].mean()) if not absent.all() else 0.0
        if share:
            notes.append(f"{100 * share:.2g} % of {slot.name} missing")
    return notes


def _counted(target: Any, sample: str) -> Any:
    """Rows without labels, counted."""
    numbered = target.assign_coords({sample: np.arange(target.sizes[sample])})
    return numbered[sample]
