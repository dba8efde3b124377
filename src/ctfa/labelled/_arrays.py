"""Labelled arrays into the tables that estimators take: what is there, and what is missing.

Data in chunks stay there. A chunk of a table holds whole rows. Those of the data may be cut through
rows (places apart) and be of any height: they are joined and cut to pieces that fit in memory
several times over.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ctfa import _validation as check
from ctfa._collections import compute, is_dask
from ctfa._errors import InputError, Option
from ctfa.core.libraries import need
from ctfa.core.types import BoolArray, FloatArray, IntArray
from ctfa.labelled import _doubts as doubts
from ctfa.labelled._gather import Gathered, Plan
from ctfa.labelled._tasks import Coordinates, Tasks
from ctfa.labelled._words import listed, several, word

MASKED = ("auto", "leave", "error")
#: Bytes of a piece of all tables, in double precision.
PIECE = 64 << 20


@dataclass(frozen=True, eq=False)
class Arrays:
    """What an estimator is fitted to: rows by columns, the tasks that have data."""

    X: Any  # (n_rows, n_columns): an array, or one of Dask's in chunks of rows
    Y: Any  # (n_rows, n_tasks): the same
    layout: IntArray | None  # (n_tasks, n_slots); None where all features are shared
    tasks: Tasks
    samples: Any  # the coordinate of the rows, a DataArray
    notes: list[str]
    has_gaps: bool  # whether a target, or a feature of a task's own, is missing somewhere
    is_presumed: bool = False  # whether only the first rows have been looked at
    seen: dict[str, FloatArray] = field(default_factory=dict)  # what ``some`` gives of chunks

    @property
    def is_lazy(self) -> bool:
        """Whether the numbers are still to be computed."""
        return is_dask(self.X) or is_dask(self.Y)

    def some(self, plan: Plan) -> dict[str, FloatArray]:
        """Target and features of some tasks by name, in the first rows of what is in chunks."""
        return self.seen if self.is_lazy else _some(self.X, self.Y, self.layout, plan)


@dataclass(frozen=True, eq=False)
class Facts:
    """Counts by column and flags by row, of a target and its features; few numbers beside data."""

    n_rows: int
    missing: IntArray  # values of the target that are not there, by task
    constant: BoolArray  # whether those that are there are two or more, and all the same
    slots: list[IntArray]  # missing values by column of each feature
    flat: list[BoolArray]  # the same of those that never change
    complete: BoolArray  # (n_rows,): rows with every feature
    meet: bool  # whether the target is ever there when its features are

    @classmethod
    def of(cls, Y: Any, slots: Sequence[Any], plan: Plan) -> Facts:
        """Look at all values, once; those in chunks are reduced chunk by chunk, in one pass."""
        gaps = [np.isnan(values) for values in (Y, *slots)]
        complete: Any = np.ones(Y.shape[0], dtype=bool)
        if plan.is_shared:
            complete = ~gaps[1].any(axis=1)
            meet = (complete & ~gaps[0].all(axis=1)).any()
        else:
            meet = (~functools.reduce(np.logical_or, gaps)).any()
        counts = [flags.sum(axis=0) for flags in gaps]
        infinite = [np.isinf(values).sum(axis=0) for values in (Y, *slots)]
        flat = [doubts.never_changes(values) for values in (Y, *slots)]
        complete, meet, *found = _in_memory([complete, meet, *counts, *infinite, *flat])
        n = 1 + len(slots)
        parts = found[:n], found[n:-n], found[-n:]
        counted, unbounded, never = (_by_name(part[0], part[1:], plan) for part in parts)
        _refuse_infinite(unbounded)
        (missing, *counts), (constant, *flat) = counted.values(), never.values()
        if not meet and not plan.is_shared:  # a feature that a task never has need not be there
            lacking = gaps[0]
            for flags, count in zip(gaps[1:], counts, strict=True):
                lacking = lacking | (flags & (np.asarray(count) < Y.shape[0]))
            (meet,) = _in_memory([(~lacking).any()])
        return cls(int(Y.shape[0]), missing, constant, counts, flat, complete, bool(meet))

    @property
    def is_plain(self) -> bool:
        """Whether nothing is missing and every target changes."""
        return not any(flags.any() for flags in (self.constant, self.missing, *self.slots))

    def has_gaps(self, kept: IntArray, plan: Plan) -> bool:
        """Whether anything is missing of these tasks, in rows with all that they share."""
        counts = [self.missing[kept]]
        if not plan.is_shared:
            counts += [
                count if slot.shared else count[kept]
                for count, slot in zip(self.slots, plan.slots, strict=True)
            ]
        return any(bool(count.any()) for count in counts)


def arrange(gathered: Gathered, masked: str, *, closely: bool = False) -> Arrays:
    """Take the numbers out, and tell gaps (some values) from masked tasks (none).

    Data in chunks stay there. Their first rows are looked at; all rows, in one pass, where these
    do not tell which tasks have data, or ``closely`` is asked for.
    """
    plan, target = gathered.plan, gathered.target
    sample, dims = plan.sample, plan.task_dims
    Y, slots = first = tables_of(gathered)
    is_lazy = any(map(is_dask, (Y, *slots)))
    presumed = None
    if is_lazy:
        first = _first_rows(Y, slots)
        began = None if closely else Facts.of(*first, plan)
        if began is not None and began.is_plain:
            # A task that is there throughout the first rows and changes in them is none without
            # data. Gaps that come later are found by whoever sums the rows up.
            n_rows = int(Y.shape[0])
            presumed = replace(began, n_rows=n_rows, complete=np.ones(n_rows, dtype=bool))
    facts = Facts.of(Y, slots, plan) if presumed is None else presumed
    coords = Coordinates.of(target, dims)
    everything = Tasks(dims, coords, np.arange(Y.shape[1]))
    kept, notes = _kept_tasks(facts, plan, everything, masked)
    tasks = Tasks(dims, coords, kept)
    used, more = _complete_rows(facts, plan)
    index = target.indexes.get(sample, np.arange(facts.n_rows))
    _require_common_rows(facts, Y, slots, plan, index)
    X, layout = table(slots, plan, tasks)
    notes = [*gathered.notes, *notes, *more, *_gaps_in_words(facts, plan, tasks)]
    notes += _doubts(told_of(_by_name(*first, plan), plan), facts, plan, everything)
    where = doubts.in_first(facts.n_rows if presumed is None else len(first[0]), facts.n_rows)
    notes += _flat_in_words(facts, plan, tasks, where)
    if sample not in target.coords:  # rows without labels are counted
        target = target.assign_coords({sample: np.arange(target.sizes[sample])})
    samples = target[sample][{sample: used}]
    if not used.all():
        X, Y = X[used], Y[used]
    Y = Y[:, kept]
    has_gaps = facts.has_gaps(kept, plan)
    seen = {}
    if is_lazy:
        rows = used[: len(first[0])]
        seen = _some(table(first[1], plan, tasks)[0][rows], first[0][rows][:, kept], layout, plan)
    return Arrays(X, Y, layout, tasks, samples, notes, has_gaps, presumed is not None, seen)


def tables_of(gathered: Gathered) -> tuple[Any, list[Any]]:
    """The target and each feature as tables of rows, in the same chunks; nothing is computed.

    Features that all tasks share are one table.
    """
    plan, target = gathered.plan, gathered.target
    sample, dims = plan.sample, plan.task_dims
    arrays = (target, *gathered.features)
    rows: tuple[int, ...] = ()
    # Not whether anything is Dask's: coordinates may be where the numbers are in memory.
    first = next((array for array in arrays if array.chunks is not None), None)
    if first is not None:
        n_numbers = sum(array.size for array in arrays)
        rows = row_chunks(first.chunksizes[sample], n_numbers // max(target.sizes[sample], 1))
    Y = _table(target, sample, dims, rows)
    if rows and gathered.whole is not None:
        return Y, [_table(gathered.whole, sample, (str(plan.feature_dim),), rows)]
    slots = [
        _table(array, sample, () if slot.shared else dims, rows)
        for array, slot in zip(gathered.features, plan.slots, strict=True)
    ]
    return Y, [_side_by_side(slots)] if plan.is_shared else slots


def _table(array: Any, sample: str, dims: Sequence[str], rows: tuple[int, ...]) -> Any:
    ordered = array.transpose(sample, *dims)
    if ordered.chunks is None:
        check.refuse_rounded(ordered.values, str(array.name))
        return np.asarray(ordered.values, dtype=np.float64).reshape(ordered.sizes[sample], -1)
    data = ordered.data.rechunk({0: rows, **dict.fromkeys(range(1, ordered.ndim), -1)})
    return data.reshape(data.shape[0], int(np.prod(data.shape[1:])))


def row_chunks(sizes: Sequence[int], width: int) -> tuple[int, ...]:
    """Heights of chunks: as they are, neighbours joined and high ones cut to fit a piece."""
    most = max(PIECE // (8 * max(width, 1)), 1)
    found: list[int] = []
    for size in sizes:
        if found and found[-1] + size <= most:
            found[-1] += size
            continue
        n_parts = -(-size // most)
        found += [size // n_parts + (part < size % n_parts) for part in range(n_parts)]
    return tuple(found)


def _first_rows(Y: Any, slots: Sequence[Any]) -> tuple[FloatArray, list[FloatArray]]:
    """The first piece of the tables, in memory."""
    height = next(table for table in (Y, *slots) if is_dask(table)).chunks[0][0]
    first = slice(0, max(int(height), 2))
    target, *features = compute(*(table[first] for table in (Y, *slots)))
    return np.asarray(target, dtype=np.float64), [np.asarray(f, dtype=np.float64) for f in features]


def _side_by_side(tables: Sequence[Any]) -> Any:
    """Columns of several tables in one, whole rows in a chunk."""
    joined: Any = np.concatenate(tables, axis=1)
    return joined.rechunk({1: -1}) if is_dask(joined) else joined


def table(slots: list[Any], plan: Plan, tasks: Tasks) -> tuple[Any, IntArray | None]:
    """Put features side by side: those of the tasks slot by slot; and say whose each column is."""
    if plan.is_shared:
        return _side_by_side(slots), None
    blocks = [
        values if slot.shared else values[:, tasks.kept]
        for values, slot in zip(slots, plan.slots, strict=True)
    ]
    starts = np.cumsum([0, *(block.shape[1] for block in blocks[:-1])])
    layout = np.empty((tasks.n_tasks, len(slots)), dtype=np.intp)
    for number, (slot, start) in enumerate(zip(plan.slots, starts.tolist(), strict=True)):
        layout[:, number] = start + (0 if slot.shared else np.arange(tasks.n_tasks))
    return _side_by_side(blocks), layout


def named_inputs(X: FloatArray, plan: Plan) -> Any:
    """Inputs as the estimator takes them: with their names, where a column is a feature."""
    if not plan.is_shared:
        return X
    return need("pandas").DataFrame(X, columns=[slot.name for slot in plan.slots])


def _some(
    X: FloatArray, Y: FloatArray, layout: IntArray | None, plan: Plan
) -> dict[str, FloatArray]:
    """Target and features by name, ``(rows, tasks or 1)``, of some tasks spread over all."""
    tasks = doubts.spread_over(Y.shape[1], doubts.N_LOOKED_AT)
    found = {plan.target: Y[:, tasks]}
    for number, slot in enumerate(plan.slots):
        columns = [number]
        if layout is not None:
            columns = layout[tasks[:1] if slot.shared else tasks, number].tolist()
        found[slot.name] = X[:, columns]
    return found


def _by_name(target: Any, slots: Sequence[Any], plan: Plan) -> dict[str, Any]:
    """What is known of target and features by name, columns last.

    Features that all tasks share are columns of one table, and become one each.
    """
    parts = [slots[0][..., k : k + 1] for k in range(len(plan.slots))] if plan.is_shared else slots
    names = [slot.name for slot in plan.slots]
    return {plan.target: target, **dict(zip(names, parts, strict=True))}


def told_of(seen: dict[str, Any], plan: Plan) -> dict[str, Any]:
    """Of all lags of a feature the first, under the name of the feature."""
    told = {name: seen[plan.slots[number].name] for number, name in plan.told}
    return {plan.target: seen[plan.target], **told}


def _doubts(
    seen: dict[str, FloatArray], facts: Facts, plan: Plan, everything: Tasks
) -> Iterator[str]:
    """What looks wrong in the rows that are in memory, in words."""
    Y = seen[plan.target]
    where = doubts.in_first(len(Y), facts.n_rows)
    yield from map(str, doubts.doubtful_fills(seen, where))
    if not where:
        changes = (facts.missing < facts.n_rows) & ~facts.constant
        found = doubts.copied_targets(
            plan.target, Y, changes, lambda: everything.names, everything.what
        )
        yield from map(str, found)


def _in_memory(values: Sequence[Any]) -> list[Any]:
    """Compute what is lazy, all in one pass."""
    if not any(map(is_dask, values)):
        return list(values)
    found = compute(*values)
    return list(found) if len(values) > 1 else [found]


def _refuse_infinite(counts: dict[str, IntArray]) -> None:
    for name, count in counts.items():
        if np.any(count):
            raise ValueError(
                f"{name} holds {several(int(np.sum(count)), 'infinite value')}: turn them into NaN "
                "(a missing value) or leave those rows out."
            )


def _kept_tasks(
    facts: Facts, plan: Plan, everything: Tasks, masked: str
) -> tuple[IntArray, list[str]]:
    """Tasks with a target and a feature; the others are masked, or refused."""
    if masked not in MASKED:
        known = ", ".join(MASKED)
        raise InputError(Option("masked", masked), f" is not known: use one of {known}.")
    empty = facts.missing == facts.n_rows
    lacking = np.zeros(empty.size, dtype=bool)
    if not plan.is_shared:
        own = [n for n, slot in zip(facts.slots, plan.slots, strict=True) if not slot.shared]
        lacking = np.all([count == facts.n_rows for count in own], axis=0) & ~empty
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
        raise InputError(
            f"{several(lost.size, what)} without a single value: {named} ({column} is NaN in every "
            "row). Leave them out with ",
            Option("masked", "leave"),
            " (they stay in the results as missing), or drop them.",
        )
    if constant.any() and not leave:
        named = listed([everything.names[i] for i in np.flatnonzero(constant).tolist()], 3)
        raise InputError(
            f"{plan.target} never changes in {several(int(constant.sum()), what)}: {named}. There "
            "is nothing to predict: leave them out with ",
            Option("masked", "leave"),
            ", or drop them.",
        )
    notes = []
    if lost.size:
        notes.append(f"{several(lost.size, what)} of {empty.size:,} without data, left out")
    if constant.any():
        count = several(int(constant.sum()), what)
        notes.append(f"{count} where {plan.target} never changes, left out")
    return np.flatnonzero(~(empty | lacking | constant)), notes


def _complete_rows(facts: Facts, plan: Plan) -> tuple[BoolArray, list[str]]:
    """Rows with every shared feature: without one of them nothing is known of the others."""
    used = facts.complete
    if used.all():
        return used, []
    worst = plan.slots[int(np.argmax([count.max() for count in facts.slots]))].name
    if not used.any():
        raise ValueError(
            f"no row has every feature: {worst} has most gaps. Leave it out, or fill them."
        )
    count = int((~used).sum())
    return used, [f"{several(count, 'row')} lacking a feature (mostly {worst}), left out"]


def _require_common_rows(
    facts: Facts, Y: Any, slots: Sequence[Any], plan: Plan, index: Any
) -> None:
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


def _gaps_in_words(facts: Facts, plan: Plan, tasks: Tasks) -> list[str]:
    """How much is missing of the tasks that are kept."""
    notes = []
    share = float(facts.missing[tasks.kept].mean()) / facts.n_rows
    if share:
        notes.append(f"{100 * share:.2g} % of {plan.target} missing")
    for number, name in plan.told:
        if plan.slots[number].shared:
            continue
        own = facts.slots[number][tasks.kept]
        absent = own == facts.n_rows
        if absent.any():
            notes.append(f"{several(int(absent.sum()), tasks.what)} without any {name}")
        share = float(own[~absent].mean()) / facts.n_rows if not absent.all() else 0.0
        if share:
            notes.append(f"{100 * share:.2g} % of {name} missing")
    return notes


def _flat_in_words(facts: Facts, plan: Plan, tasks: Tasks, where: str) -> Iterator[str]:
    """Features that never change, in all tasks that are kept or in some."""
    for number, name in plan.told:
        flat = facts.flat[number]
        own = flat if plan.slots[number].shared else flat[tasks.kept]
        found = doubts.flat_feature(name, own, lambda: tasks.names, tasks.what, where)
        yield from map(str, found)
