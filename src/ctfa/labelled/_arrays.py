"""Labelled arrays into the tables that estimators take, and back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ctfa import _validation as check
from ctfa._collections import is_dask
from ctfa.core.types import BoolArray, FloatArray, IntArray
from ctfa.labelled._chunks import (
    facts_by_first_rows,
    first_rows,
    in_chunks,
    side_by_side,
    tables_of,
)
from ctfa.labelled._coordinates import Coordinates
from ctfa.labelled._doubts import (
    N_LOOKED_AT,
    copied_targets,
    doubtful_fills,
    in_first,
    spread_over,
)
from ctfa.labelled._extras import need
from ctfa.labelled._facts import (
    Facts,
    complete_rows,
    flat_in_words,
    gaps_in_words,
    kept_tasks,
    require_common_rows,
)
from ctfa.labelled._gather import Gathered
from ctfa.labelled._plan import Plan
from ctfa.labelled._tasks import Tasks


@dataclass(frozen=True, eq=False)
class Arrays:
    """What an estimator is fitted to: rows by columns, the tasks that have data."""

    X: Any  # (n_rows, n_columns): an array, or one of Dask's in chunks of rows
    Y: Any  # (n_rows, n_tasks): the same
    layout: IntArray | None  # (n_tasks, n_slots); None where all features are shared
    tasks: Tasks
    samples: Any  # the coordinate of the rows, a DataArray
    used: BoolArray  # which rows of the data these are
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


def arrange(gathered: Gathered, masked: str, *, closely: bool = False) -> Arrays:
    """Take the numbers out, and tell gaps (some values) from masked tasks (none).

    Data in chunks stay there. Their first rows are looked at; all rows, in one pass, where these
    do not tell which tasks have data, or ``closely`` is asked for.
    """
    plan, target = gathered.plan, gathered.target
    sample, dims = plan.sample, plan.task_dims
    presumed = None
    if in_chunks(gathered):
        Y, slots = tables_of(gathered)
        first = first_rows(Y, slots)
        presumed = None if closely else facts_by_first_rows(Y, slots, plan, first)
    else:
        Y, slots = first = _numbers(gathered)
    facts = Facts.of(Y, slots, plan) if presumed is None else presumed
    coords = Coordinates.of(target, dims)
    everything = Tasks(dims, coords, np.arange(Y.shape[1]))
    kept, notes = kept_tasks(facts, plan, everything, masked)
    tasks = Tasks(dims, coords, kept)
    used, more = complete_rows(facts, plan)
    index = target.indexes.get(sample, np.arange(facts.n_rows))
    require_common_rows(facts, Y, slots, plan, index)
    X, layout = table(slots, plan, tasks)
    notes = [*gathered.notes, *notes, *more, *gaps_in_words(facts, plan, tasks)]
    notes += _doubts(_by_name(*first, plan), facts, plan, everything)
    n_seen = facts.n_rows if presumed is None else len(first[0])
    notes += flat_in_words(facts, plan, tasks, in_first(n_seen, facts.n_rows))
    samples = target[sample] if sample in target.coords else _counted(target, sample)
    samples = samples[{sample: used}]
    if not used.all():
        X, Y = X[used], Y[used]
    Y = Y[:, kept]
    has_gaps = facts.has_gaps(kept, plan)
    seen = {}
    if in_chunks(gathered):
        rows = used[: len(first[0])]
        seen = _some(table(first[1], plan, tasks)[0][rows], first[0][rows][:, kept], layout, plan)
    return Arrays(X, Y, layout, tasks, samples, used, notes, has_gaps, presumed is not None, seen)


def _some(
    X: FloatArray, Y: FloatArray, layout: IntArray | None, plan: Plan
) -> dict[str, FloatArray]:
    """Target and features by name, ``(rows, tasks or 1)``, of some tasks spread over all."""
    tasks = spread_over(Y.shape[1], N_LOOKED_AT)
    found = {plan.target: Y[:, tasks]}
    for number, slot in enumerate(plan.slots):
        columns = [number]
        if layout is not None:
            columns = layout[tasks[:1] if slot.shared else tasks, number].tolist()
        found[slot.name] = X[:, columns]
    return found


def _by_name(Y: FloatArray, slots: list[FloatArray], plan: Plan) -> dict[str, FloatArray]:
    """Target and features by name; those that all tasks share are columns of one table."""
    names = [slot.name for slot in plan.slots]
    tables = list(slots[0].T[:, :, None]) if plan.is_shared else slots
    return {plan.target: Y, **dict(zip(names, tables, strict=True))}


def _doubts(
    seen: dict[str, FloatArray], facts: Facts, plan: Plan, everything: Tasks
) -> Iterator[str]:
    """What looks wrong in the rows that are in memory, in words."""
    Y = seen[plan.target]
    where = in_first(len(Y), facts.n_rows)
    yield from map(str, doubtful_fills(seen, where))
    if not where:
        changes = (facts.observed > 0) & ~facts.constant
        doubts = copied_targets(plan.target, Y, changes, lambda: everything.names, everything.what)
        yield from map(str, doubts)


def table(slots: list[Any], plan: Plan, tasks: Tasks) -> tuple[Any, IntArray | None]:
    """Put features side by side: those of the tasks slot by slot; and say whose each column is."""
    if plan.is_shared:
        return side_by_side(slots), None
    blocks = [
        values if slot.shared else values[:, tasks.kept]
        for values, slot in zip(slots, plan.slots, strict=True)
    ]
    X = side_by_side(blocks)
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


def _numbers(gathered: Gathered) -> tuple[FloatArray, list[FloatArray]]:
    """The target and each feature as tables in memory."""
    plan = gathered.plan
    sample, dims = plan.sample, plan.task_dims

    def numbers(array: Any, along: tuple[str, ...]) -> FloatArray:
        given = array.transpose(sample, *along).values
        check.refuse_rounded(given, str(array.name))
        values = np.asarray(given, dtype=np.float64)
        return values.reshape(array.sizes[sample], -1)

    slots = [
        numbers(array, () if slot.shared else dims)
        for array, slot in zip(gathered.features, plan.slots, strict=True)
    ]
    return numbers(gathered.target, dims), [side_by_side(slots)] if plan.is_shared else slots


def _counted(target: Any, sample: str) -> Any:
    """Rows without labels, counted."""
    numbered = target.assign_coords({sample: np.arange(target.sizes[sample])})
    return numbered[sample]
