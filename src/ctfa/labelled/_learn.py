"""Fit an estimator to tables, in memory or in chunks, and work out what it says of itself."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ctfa import _validation as check
from ctfa._collections import Collection, Wanted, learns_from_sums
from ctfa.core.types import FloatArray
from ctfa.labelled._arrays import Arrays, named_inputs
from ctfa.labelled._baseline import Seasons
from ctfa.labelled._extras import need
from ctfa.labelled._plan import Plan
from ctfa.labelled._words import row_labels, word
from ctfa.report import (
    Given,
    Judging,
    Material,
    complete,
    complete_from_sums,
    fit_stand_ins,
)

#: What to do about rows that cannot be gathered, in the words of labelled data.
LOAD = "fit(X.compute(), y.compute())", "ds.load() before fit"
#: What is left out of what is said of a fit to sums.
SUMMED = "read in chunks, once: no series in the report, no ridge regressions to compare with"


class Task(NamedTuple):
    """What is to be learned beside the numbers."""

    plan: Plan
    baseline: Seasons | None
    weights: FloatArray | None  # of the tasks
    held_out: Any

    def columns(self, arrays: Arrays) -> FloatArray | None:
        """Seasons and trend in the rows of a table."""
        return None if self.baseline is None else self.baseline.columns(arrays.samples)


class Learned(NamedTuple):
    """What came out."""

    arrays: Arrays  # what was fitted, with notes on it
    known: Material  # what the model says of itself


def learn(model: Any, task: Task, arrays: Arrays, look_closely: Callable[[], Arrays]) -> Learned:
    """Fit the model; ``look_closely`` gives the same tables once all their rows were looked at."""
    with warnings.catch_warnings():
        # Noted with the name of the variable, of which an estimator knows the column.
        warnings.filterwarnings("ignore", check.LOOKS_MISSING, UserWarning)
        if not arrays.is_lazy:
            found = _from_rows(model, task, arrays)
        else:
            found = _from_chunks(model, task, arrays, look_closely)
    held_out = found.known.held_out
    if task.baseline is None or held_out is None:
        return found
    named = replace(held_out, reference=task.baseline.reference)
    return found._replace(known=replace(found.known, held_out=named))


def _from_rows(model: Any, task: Task, arrays: Arrays) -> Learned:
    inputs = named_inputs(arrays.X, task.plan)
    given = Given(inputs, _named(arrays), None, task.columns(arrays), task.weights, task.held_out)
    model.fit(given.X, given.Y, **given.options)
    if arrays.layout is not None:
        _name_slots(model, task.plan)
    return Learned(arrays, complete(Material(model), given))


def _from_chunks(
    model: Any, task: Task, arrays: Arrays, look_closely: Callable[[], Arrays]
) -> Learned:
    """Sum all rows up in one pass; gather them where sums are not enough."""
    data = _collection(task, arrays)
    asked = _Asked.of(model, task, arrays)
    if asked.needs_rows is None:
        asked = asked.within_room(data)
    if asked.needs_rows is not None:
        return _from_rows(model, task, _gathered(data, arrays, asked.needs_rows))
    try:
        sums, classes = data.look(asked.folds)
    except ValueError as error:
        raise ValueError(str(error).replace(*LOAD)) from error
    if any(sums.trouble) and arrays.is_presumed:
        return _from_chunks(model, task, look_closely(), look_closely)
    data.refuse(sums)
    together = None if arrays.layout is None else model._together(arrays.layout)
    sample, targets = data.stand_in(sums, classes, together)
    targets = check.read_target_weight(task.weights, targets)
    fit_stand_ins(model, sample, targets, data.input_names, data)
    if arrays.layout is not None:
        _name_slots(model, task.plan)
    known = complete_from_sums(Material(model), sample, targets, asked.judging)
    notes = [*arrays.notes, SUMMED]
    if asked.unjudged:
        notes.append(f"nothing was held out: {asked.unjudged}")
    return Learned(replace(arrays, notes=notes), known)


class _Asked(NamedTuple):
    """What a fit wants of its rows."""

    wanted: list[Wanted]  # folds in which it chooses something
    judging: Judging | None  # folds on which it is judged
    needs_rows: str | None  # what in it sums cannot answer
    unjudged: str = ""  # why it is not judged, though it should

    @classmethod
    def of(cls, model: Any, task: Task, arrays: Arrays) -> _Asked:
        if arrays.has_gaps:
            what = "" if arrays.layout is None else " or features"
            return cls([], None, f"a fit to {task.plan.target}{what} with missing values")
        n_tasks = arrays.tasks.n_tasks
        wanted, needs_rows = model._asks_of(n_tasks)
        if task.held_out is None or task.held_out is False:
            return cls(wanted, None, needs_rows)
        if not learns_from_sums(model._template):
            name = type(model._template).__name__
            return cls(wanted, None, needs_rows, f"{name} learns from rows, which stay in chunks")
        judging = Judging.of(task.held_out, wanted, n_tasks)
        if judging is None:
            return cls(wanted, None, needs_rows, "in chunks it is numbers of blocks that are")
        return cls(wanted, judging, needs_rows)

    @property
    def folds(self) -> list[Wanted]:
        """All of them."""
        return self.wanted if self.judging is None else [*self.wanted, *self.judging.wanted]

    def within_room(self, data: Collection) -> _Asked:
        """What fits in memory: sums of all folds, else the rows, else sums without judging."""
        if data.has_room_for_sums(self.folds):
            return self
        if data.has_room_for(sum(data.widths)):
            return self._replace(needs_rows="a fit to so many tasks and features")
        return self._replace(judging=None, unjudged="sums of so many columns in folds are too many")


def _collection(task: Task, arrays: Arrays) -> Collection:
    """The tables with their names, in chunks."""
    xarray = need("xarray")
    inputs = [slot.name for slot in task.plan.slots]
    coords = {"feature": inputs} if arrays.layout is None else {}
    X = xarray.DataArray(arrays.X, dims=("row", "feature"), coords=coords)
    Y = xarray.DataArray(arrays.Y, dims=("row", "task"), coords={"task": arrays.tasks.names})
    return Collection.of(X, Y, None, task.columns(arrays), gaps=arrays.layout is not None)


def _gathered(data: Collection, arrays: Arrays, why: str) -> Arrays:
    """The same tables in memory; refused where they are too many."""
    try:
        rows = data.gathered(why, "Fill the gaps or use fewer rows")
    except ValueError as error:
        raise ValueError(str(error).replace(*LOAD)) from error
    X, Y = (np.asarray(table, dtype=np.float64) for table in (rows.X, rows.Y))
    return replace(arrays, X=X, Y=Y)


def _named(arrays: Arrays) -> Any:
    """Targets with the names of their tasks, and rows with those of the samples."""
    index = [word(value) for value in row_labels(arrays.samples)]
    return need("pandas").DataFrame(arrays.Y, columns=arrays.tasks.names, index=index)


def _name_slots(model: Any, plan: Plan) -> None:
    """Call features of each task's own by their names in what each group says of them."""
    names = np.array([slot.name for slot in plan.slots], dtype=object)
    for features, slots in zip(model.features_, model._models.slots, strict=True):
        features.feature_names_in_ = names[slots]
