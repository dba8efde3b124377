"""What is there and what is missing: tasks without data, rows without features, gaps."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ctfa._collections import compute, is_dask
from ctfa.core.types import BoolArray, IntArray
from ctfa.labelled._doubts import flat_feature, never_changes
from ctfa.labelled._plan import Plan
from ctfa.labelled._tasks import Tasks
from ctfa.labelled._words import listed, several, word

MASKED = ("auto", "leave", "error")


@dataclass(frozen=True, eq=False)
class Facts:
    """Counts by column and flags by row, of a target and its features; few numbers beside data."""

    n_rows: int
    observed: IntArray  # values of the target that are there, by task
    constant: BoolArray  # whether they are two or more, and all the same
    slots: list[IntArray]  # values by column of each feature; of all together where shared
    flat: list[BoolArray]  # the same of those that never change
    complete: BoolArray  # (n_rows,): rows with every feature
    meet: bool  # whether the target is ever there when its features are

    @classmethod
    def of(cls, Y: Any, slots: Sequence[Any], plan: Plan) -> Facts:
        """Look at all values, once; those in chunks are reduced chunk by chunk, in one pass."""
        there = ~np.isnan(Y)
        known = [~np.isnan(values) for values in slots]
        infinite = [np.isinf(values).sum(axis=0) for values in (Y, *slots)]
        complete: Any = True
        if plan.is_shared:
            complete = known[0].all(axis=1)
            meet = (complete & there.any(axis=1)).any()
        else:
            meet = functools.reduce(np.logical_and, known, there).any()
        counts = [flags.sum(axis=0) for flags in (there, *known)]
        flat = [never_changes(values) for values in (Y, *slots)]
        found = _in_memory([complete, meet, *counts, *infinite, *flat])
        complete, meet, n = found[0], found[1], 1 + len(slots)
        counts, infinite, flat = found[2 : 2 + n], found[2 + n : 2 + 2 * n], found[2 + 2 * n :]
        _refuse_infinite(infinite, plan)
        if not plan.is_shared:
            complete = np.ones(Y.shape[0], dtype=bool)
            meet = meet or _meet_anywhere(there, known, counts[1:])
        return cls(
            int(Y.shape[0]),
            np.asarray(counts[0]),
            np.asarray(flat[0]),
            [np.asarray(count) for count in counts[1:]],
            [np.asarray(flags) for flags in flat[1:]],
            np.asarray(complete),
            bool(meet),
        )

    @classmethod
    def presumed(cls, Y: Any, slots: Sequence[Any], flat: list[BoolArray]) -> Facts:
        """Of data without a gap, and what never changes in their first rows."""
        n_rows = int(Y.shape[0])
        return cls(
            n_rows,
            np.full(Y.shape[1], n_rows),
            np.zeros(Y.shape[1], dtype=bool),
            [np.full(values.shape[1], n_rows) for values in slots],
            flat,
            np.ones(n_rows, dtype=bool),
            True,
        )

    @property
    def is_plain(self) -> bool:
        """Whether nothing is missing and every target changes."""
        counts = [self.observed, *self.slots]
        return not self.constant.any() and all((count == self.n_rows).all() for count in counts)

    def has_gaps(self, kept: IntArray, plan: Plan) -> bool:
        """Whether anything is missing of these tasks, in rows with all that they share."""
        counts = [self.observed[kept]]
        if not plan.is_shared:
            counts += [
                count if slot.shared else count[kept]
                for count, slot in zip(self.slots, plan.slots, strict=True)
            ]
        return any(bool((count < self.n_rows).any()) for count in counts)


def _in_memory(values: Sequence[Any]) -> list[Any]:
    """Compute what is lazy, all in one pass."""
    if not any(map(is_dask, values)):
        return list(values)
    found = compute(*values)
    return list(found) if len(values) > 1 else [found]


def _meet_anywhere(there: Any, known: Sequence[Any], counts: Sequence[IntArray]) -> bool:
    """Whether some task has its target and every feature that it ever has in one row."""
    together = there
    for flags, count in zip(known, counts, strict=True):
        together = together & (flags | (np.asarray(count) == 0))
    return bool(_in_memory([together.any()])[0])


def _refuse_infinite(counts: Sequence[Any], plan: Plan) -> None:
    names = [plan.target, *(slot.name for slot in plan.slots)]
    target, *slots = counts
    for name, count in zip(names, [target, *(slots[0] if plan.is_shared else slots)], strict=True):
        if np.any(count):
            raise ValueError(
                f"{name} holds {several(int(np.sum(count)), 'infinite value')}: turn them into NaN "
                "(a missing value) or leave those rows out."
            )


def kept_tasks(
    facts: Facts, plan: Plan, everything: Tasks, masked: str
) -> tuple[IntArray, list[str]]:
    """Tasks with a target and a feature; the others are masked, or refused."""
    if masked not in MASKED:
        raise ValueError(f"masked={masked!r} is not known: use one of {', '.join(MASKED)}.")
    empty = facts.observed == 0
    lacking = np.zeros(empty.size, dtype=bool)
    if not plan.is_shared:
        own = [n for n, slot in zip(facts.slots, plan.slots, strict=True) if not slot.shared]
        lacking = np.all([count == 0 for count in own], axis=0) & ~empty
    constant = facts.constant & ~empty
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
        notes.append(f"{several(lost.size, what)} of {empty.size:,} without data, left out")
    if constant.any():
        count = several(int(constant.sum()), what)
        notes.append(f"{count} where {plan.target} never changes, left out")
    return np.flatnonzero(~(empty | lacking | constant)), notes


def complete_rows(facts: Facts, plan: Plan) -> tuple[BoolArray, list[str]]:
    """Rows with every shared feature: without one of them nothing is known of the others."""
    used = facts.complete
    if used.all():
        return used, []
    worst = plan.slots[int(np.argmin(facts.slots[0]))].name
    if not used.any():
        raise ValueError(
            f"no row has every feature: {worst} has most gaps. Leave it out, or fill them."
        )
    count = int((~used).sum())
    return used, [f"{several(count, 'row')} lacking a feature (mostly {worst}), left out"]


def require_common_rows(facts: Facts, Y: Any, slots: Sequence[Any], plan: Plan, index: Any) -> None:
    """Refuse a target that is never there when its features are, as where periods differ."""
    if facts.meet:
        return
    names = [plan.target, *(slot.name for slot in plan.slots)]
    tables = [slots[0][:, :1], slots[0][:, 1:2]] if plan.is_shared else slots
    seen = [(~np.isnan(values)).any(axis=1) for values in (Y, *tables)[:3]]
    spans: list[str] = []
    for name, flags in zip(names, _in_memory(seen), strict=False):
        rows = np.flatnonzero(flags)
        if rows.size:
            spans.append(f"{name} from {word(index[rows[0]])} to {word(index[rows[-1]])}")
    raise ValueError(
        f"{plan.target} and its features have no {plan.sample} in common: {', '.join(spans)}. "
        "Check that they are of the same period."
    )


def gaps_in_words(facts: Facts, plan: Plan, tasks: Tasks) -> list[str]:
    """How much is missing of the tasks that are kept."""
    notes = []
    share = 1.0 - float(facts.observed[tasks.kept].mean()) / facts.n_rows
    if share:
        notes.append(f"{100 * share:.2g} % of {plan.target} missing")
    for count, slot in zip(facts.slots, () if plan.is_shared else plan.slots, strict=False):
        if slot.shared:
            continue
        own = count[tasks.kept]
        absent = own == 0
        if absent.any():
            notes.append(f"{several(int(absent.sum()), tasks.what)} without any {slot.name}")
        share = 1.0 - float(own[~absent].mean()) / facts.n_rows if not absent.all() else 0.0
        if share:
            notes.append(f"{100 * share:.2g} % of {slot.name} missing")
    return notes


def flat_in_words(facts: Facts, plan: Plan, tasks: Tasks, where: str) -> Iterator[str]:
    """Features that never change, in all tasks that are kept or in some."""
    columns = facts.flat[0][:, None] if plan.is_shared else facts.flat
    for flat, slot in zip(columns, plan.slots, strict=True):
        own = flat if slot.shared else flat[tasks.kept]
        doubts = flat_feature(slot.name, own, lambda: tasks.names, tasks.what, where)
        yield from map(str, doubts)
