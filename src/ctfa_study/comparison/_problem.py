"""A data set as all methods see it, and the parts of it that they learn from and are judged by."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ctfa import _reading as check
from ctfa.core.types import AnyArray, BoolArray, FloatArray, IntArray

#: How tasks may have their data: one X for all; rows of their own; inputs of their own.
KINDS = ("shared", "own rows", "own inputs")


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows of several tasks.

    Attributes
    ----------
    name : str
        What tables and files call it.
    kind : {"shared", "own rows", "own inputs"}
        Every row is a row of every task, with the same inputs; a row belongs to one task; every
        task has columns of its own.
    X : ndarray of shape (n_rows, n_columns)
        Inputs.
    Y : ndarray of shape (n_rows, n_tasks), or (n_rows,) for own rows
        Targets.
    task_names : list of str
        One per task.
    index : ndarray of shape (n_rows,) or None
        Task of each row, for own rows.
    layout : ndarray of shape (n_tasks, n_slots) or None
        Column of each task's inputs, -1 for none, for own inputs.
    groups : ndarray of shape (n_rows,) or None
        Rows that must stay together in grouped splits.
    connectivity : array, sparse matrix or None
        Which tasks are neighbours.
    in_order : bool
        Whether rows are divided into blocks: folds of the training rows should be, too.
    quick : bool
        Whether parameters are to be chosen from few values.
    """

    name: str
    kind: str
    X: FloatArray
    Y: FloatArray
    task_names: list[str]
    index: IntArray | None = None
    layout: IntArray | None = None
    groups: AnyArray | None = None
    connectivity: Any = None
    in_order: bool = False
    quick: bool = False

    @property
    def n_rows(self) -> int:
        """Rows of all tasks."""
        return int(self.X.shape[0])

    @property
    def n_tasks(self) -> int:
        """Tasks."""
        return len(self.task_names)

    @property
    def n_inputs(self) -> int:
        """Inputs of a task."""
        return int(self.X.shape[1] if self.layout is None else self.layout.shape[1])

    @cached_property
    def digest(self) -> str:
        """Fingerprint of the data, so that stored results are never taken for those of others."""
        state = hashlib.sha256(self.kind.encode())
        # Groups by which rows they hold, not by their names: that is what decides a split.
        groups = None if self.groups is None else np.unique(self.groups, return_inverse=True)[1]
        for part in (self.X, self.Y, self.index, self.layout, groups):
            # The shape too: the same numbers may be more inputs and fewer targets.
            state.update(repr(None if part is None else (part.shape, part.dtype.str)).encode())
            if part is not None:
                state.update(np.ascontiguousarray(part).tobytes())
        return state.hexdigest()[:16]

    def take(self, rows: IntArray) -> Problem:
        """Some of the rows."""
        index = None if self.index is None else self.index[rows]
        groups = None if self.groups is None else self.groups[rows]
        return replace(self, X=self.X[rows], Y=self.Y[rows], index=index, groups=groups)

    def median_inputs(self) -> FloatArray:
        """Median of what is known of each column, zero where nothing is."""
        known = ~np.isnan(self.X).all(axis=0)
        median = np.zeros(self.X.shape[1])
        median[known] = np.nanmedian(self.X[:, known], axis=0)
        return median

    def of_task(self, values: Any, task: int) -> Any:
        """What belongs to one task of an array like Y."""
        return values[:, task] if self.index is None else values[self.index == task]

    @cached_property
    def judged(self) -> BoolArray:
        """Which targets, in the shape of Y, a method is judged by: those anyone could predict."""
        known = ~np.isnan(self.Y)
        if self.layout is not None:
            missing = np.isnan(self.X)
            for task, columns in enumerate(self.layout):
                known[:, task] &= ~missing[:, columns[columns >= 0]].any(axis=1)
        return known

    def of_one(self, task: int) -> Problem:
        """One task with inputs of its own, where nothing is missing, as own rows."""
        assert self.layout is not None
        rows, columns = self.judged[:, task], self.layout[task]
        X = self.X[rows][:, columns[columns >= 0]]
        return replace(
            self, kind="own rows", X=X, Y=self.Y[rows, task], task_names=[self.task_names[task]],
            index=np.zeros(len(X), dtype=np.intp), layout=None, groups=None,
        )  # fmt: skip

    @property
    def may_be_stacked(self) -> bool:
        """Whether tasks with inputs of their own all have the same ones."""
        return self.layout is not None and bool((self.layout >= 0).all())

    def stacked(self) -> tuple[Problem, tuple[IntArray, IntArray]]:
        """Tasks with inputs of their own as tasks with rows of their own, where nothing is missing.

        Also where each row came from: its row here, and its task.
        """
        assert self.layout is not None
        row, task = np.nonzero(self.judged)
        columns = self.layout[task]
        own = replace(
            self, kind="own rows", X=self.X[row[:, None], columns], Y=self.Y[row, task],
            index=task.astype(np.intp), layout=None, groups=None,
        )  # fmt: skip
        return own, (row, task)


def read_problem(data: Any, name: str | None = None) -> Problem:
    """A problem from a Bunch of ``ctfa.datasets``, or from a tuple.

    ``(X, Y)`` is shared inputs; ``(X, y, tasks)``, with a vector y, own rows (``tasks`` may be the
    column of X that holds the ids); ``(X, Y, layout)``, with one column of Y per task, own inputs.
    """
    if isinstance(data, Problem):
        return data if name is None else replace(data, name=name)
    if isinstance(data, tuple):
        data = _as_mapping(data)
    if not hasattr(data, "get") or "data" not in data or "target" not in data:
        raise TypeError(
            f"{type(data).__name__} is not a data set: pass a Bunch of ctfa.datasets (with data "
            "and target), (X, Y), (X, y, tasks) or (X, Y, layout)."
        )
    kind = data.get("kind") or _kind(data)
    if kind not in KINDS:
        raise ValueError(f"kind={kind!r} is not one of {', '.join(map(repr, KINDS))}.")
    inputs, tasks = data["data"], data.get("tasks")
    if kind == "own rows" and check.is_column(tasks):
        inputs, tasks = check.take_column(inputs, tasks)
    X = _numbers(inputs, "data", gaps=kind != "own rows")
    targets = check.read_targets(data["target"], X.shape[0], what="target", gaps=kind != "own rows")
    name = name or str(data.get("name") or "data")
    groups = data.get("groups")
    groups = None if groups is None else np.asarray(groups)
    if kind == "own rows":
        known = check.read_tasks(tasks, X.shape[0], None, least=1)
        return Problem(
            name, kind, X, targets.values[:, 0], list(map(str, known.ids)), known.of_row,
            groups=groups,
        )  # fmt: skip
    names: Sequence[str] = data.get("target_names") or targets.names
    layout = np.asarray(data["layout"], dtype=np.intp) if kind == "own inputs" else None
    return Problem(
        name, kind, X, targets.values, list(map(str, names)), layout=layout, groups=groups,
        connectivity=data.get("connectivity"),
    )  # fmt: skip


def _kind(data: Any) -> str:
    if data.get("layout") is not None:
        return "own inputs"
    return "shared" if data.get("tasks") is None else "own rows"


def _as_mapping(parts: tuple[Any, ...]) -> dict[str, Any]:
    if len(parts) == 2:
        return {"data": parts[0], "target": parts[1]}
    if len(parts) == 3:
        own_rows = np.ndim(parts[1]) == 1
        return {"data": parts[0], "target": parts[1], "tasks" if own_rows else "layout": parts[2]}
    raise TypeError(
        f"a tuple of {len(parts)} is not a data set: pass (X, Y), (X, y, tasks) or (X, Y, layout)."
    )


def _numbers(X: Any, what: str, *, gaps: bool) -> FloatArray:
    try:
        table = np.asarray(X, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{what} holds something that is not a number ({error}): encode or drop such columns."
        ) from error
    if table.ndim != 2:
        raise ValueError(f"{what} has shape {table.shape}: pass one row per sample.")
    bad = np.isinf(table) if gaps else ~np.isfinite(table)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise ValueError(
            f"{what} holds {table[row, column]} at row {row}, column {column}: fill the gaps, or "
            "drop those rows or columns first."
        )
    return table
