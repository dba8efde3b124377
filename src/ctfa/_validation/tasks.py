"""Task ids: which rows belong to whom."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from ctfa._validation.data import Sample, read_sample
from ctfa._validation.sufficiency import FLAT
from ctfa.core.types import AnyArray, BoolArray, FloatArray, IntArray


class Tasks(NamedTuple):
    """Ids in order, and the position of each row's task among them."""

    ids: list[Any]
    of_row: IntArray


def is_column(tasks: Any) -> bool:
    """Whether the tasks are a column of X, by name or by position."""
    return isinstance(tasks, (str, Integral)) and not isinstance(tasks, bool)


def take_column(X: Any, tasks: Any) -> tuple[Any, Any]:
    """Tell the ids apart from the features of one table."""
    labels = getattr(X, "columns", None)
    if labels is not None:
        if tasks in list(labels):
            return X.drop(columns=[tasks]) if hasattr(X, "iloc") else X.drop(tasks), X[tasks]
    elif isinstance(tasks, Integral):
        table = np.asarray(X)
        if table.ndim == 2 and -table.shape[1] <= int(tasks) < table.shape[1]:
            return np.delete(table, int(tasks), axis=1), table[:, int(tasks)]
    raise ValueError(
        f"tasks={tasks!r} is no column of X: pass one id for each row of X (tasks=[{tasks!r}] for "
        "a single row), the name of a column of a data frame, or the position of a column of an "
        "array."
    )


def require_not_one_id(X: Any, tasks: Any, n_features: int) -> None:
    """Refuse the id of a single row, taken for a column: X has then lost one of its features."""
    if is_column(tasks) and X.shape[1] == n_features - 1:
        raise ValueError(
            f"tasks={tasks!r} is taken for a column of X, which leaves {n_features - 1} features "
            f"where fit has seen {n_features}: pass one id for each row, tasks=[{tasks!r}] for a "
            "single row."
        )


def read_task_sample(estimator: Any, X: Any, tasks: Any, sample_weight: Any) -> Sample:
    """Features and weights of a fit; ids that were left among the features are pointed out."""
    try:
        return read_sample(estimator, X, sample_weight)
    except (TypeError, ValueError) as error:
        name = _column_of_ids(X, tasks)
        if name is None:
            raise
        raise ValueError(
            f"column {name!r} of X holds the ids of the tasks, which are not numbers: pass "
            f"tasks={name!r}, or drop it from X."
        ) from error


def _column_of_ids(X: Any, tasks: Any) -> Any:
    """Name of a column of text that holds the ids themselves; None without one."""
    as_list = getattr(tasks, "tolist", None) or getattr(tasks, "to_list", None)
    ids = as_list() if as_list is not None else tasks
    if not hasattr(X, "columns") or not isinstance(ids, list):
        return None
    if not any(isinstance(task, str) for task in ids):
        return None
    return next((name for name in X.columns if X[name].to_list() == ids), None)


def read_ids(tasks: Any, n_rows: int | None, start: int = 0) -> list[Any]:
    """One id for each row, of any hashable kind; of a chunk that starts with a row of all."""
    if tasks is None:
        raise TypeError(
            "PooledCTFARegressor needs to know whose row is whose: pass tasks=, one id for each "
            "row of X, or the name of a column of X that holds them (in a search: "
            "set_fit_request(tasks=True), set_score_request(tasks=True) and so on, with "
            "sklearn.set_config(enable_metadata_routing=True))."
        )
    if isinstance(tasks, bytes) or not isinstance(tasks, Iterable):
        raise TypeError(f"tasks={tasks!r} is not a list of ids: pass one id for each row of X.")
    shape = getattr(tasks, "shape", None)
    if shape is not None and len(shape) == 2 and shape[1] == 1:
        tasks = np.asarray(tasks).reshape(-1)
    elif shape is not None and len(shape) != 1:
        raise ValueError(
            f"tasks has shape {tuple(shape)}: pass one id for each row of X, in one dimension."
        )
    as_list = getattr(tasks, "tolist", None) or getattr(tasks, "to_list", None)
    ids = list(tasks) if as_list is None else as_list()
    if n_rows is not None and len(ids) != n_rows:
        raise ValueError(
            f"tasks has {len(ids)} ids but X has {n_rows} rows: pass one id for each row."
        )
    for row, task in enumerate(ids, start):
        if not isinstance(task, Hashable):
            raise TypeError(
                f"the task of row {row}, {task!r}, cannot be used as an id: pass numbers, strings "
                "or other values that can be compared for equality."
            )
        if _is_missing(task):
            raise ValueError(
                f"the task of row {row} is missing ({task!r}): give every row an id, or drop those "
                "rows."
            )
    return ids


def read_tasks(tasks: Any, n_rows: int, used: BoolArray | None, *, least: int = 2) -> Tasks:
    """Tasks of a fit, of the rows used, in the order of their ids."""
    ids = read_ids(tasks, n_rows)
    if used is not None:
        ids = [task for task, counts in zip(ids, used.tolist(), strict=True) if counts]
    known = order_ids(set(ids), least=least)
    position = {task: number for number, task in enumerate(known)}
    return Tasks(known, np.array([position[task] for task in ids], dtype=np.intp))


def order_ids(ids: Iterable[Any], *, least: int = 2) -> list[Any]:
    """Ids of tasks in order; refused where they are too few to merge."""
    known = _sorted(ids)
    if len(known) < least:
        raise ValueError(
            f"tasks holds a single id ({known[0]!r}), and there is nothing to merge: pass the ids "
            "of two tasks or more, or fit the regressor by itself."
        )
    return known


def as_ids(ids: Sequence[Any]) -> AnyArray:
    """Ids as an array, of objects unless they are all numbers or all strings."""
    kinds = {type(task) for task in ids}
    if len(kinds) == 1 and kinds <= {int, float, str, bool}:
        return np.array(ids)
    # Filled, not converted: ids that are tuples would become a table.
    array = np.empty(len(ids), dtype=object)
    array[:] = list(ids)
    return array


def require_seen(unseen: Sequence[Any], ids: Sequence[Any]) -> None:
    """Refuse tasks that fit has not seen."""
    if not unseen:
        return
    shown = ", ".join(map(repr, unseen[:6])) + (
        f" and {len(unseen) - 6} more" if len(unseen) > 6 else ""
    )
    # The number 1 is not the text '1': those that look the same are shown first.
    looks = set(map(str, unseen))
    known = sorted(ids, key=lambda task: str(task) not in looks)
    such_as = ", ".join(map(repr, known[:3]))
    raise ValueError(
        f"tasks that fit has not seen: {shown} (it has seen {len(ids)}, such as {such_as}). "
        "Use unseen='global' for a model of all tasks together or unseen='nearest' for the group "
        "with the most similar inputs, or fit again with rows of these tasks."
    )


def require_varying_within(within: FloatArray, target: FloatArray) -> None:
    """Refuse a target that does not vary within any task, up to rounding."""
    if np.abs(within).max() <= FLAT * np.abs(target).max():
        raise ValueError(
            "y is constant within every task, so there are no slopes to learn: pass tasks of two "
            "rows or more whose targets vary, or use one model without tasks."
        )


def read_task(task: Any, ids: Sequence[Any]) -> int:
    """Position of a task given by its id."""
    for position, known in enumerate(ids):
        if known == task or str(known) == task:
            return position
    shown = ", ".join(map(repr, ids[:6])) + (", ..." if len(ids) > 6 else "")
    raise ValueError(f"task {task!r} is not one of the {len(ids)} of fit: use one of {shown}.")


def refuse_option(option: str, given: Any, why: str, instead: str) -> None:
    """Refuse an option of Phase I that means nothing for tasks with rows of their own."""
    raise ValueError(f"{option}={given!r} {why} in PooledCTFARegressor: {instead}.")


def read_fold_count(cv: Any, longest: int) -> int:
    """Into how many folds the rows of each task are dealt; some task must have two of them."""
    if isinstance(cv, bool) or int(cv) < 2:
        raise ValueError(f"cv={cv!r} gives no folds: use two or more.")
    if longest < 2:
        raise ValueError(
            "max_loss='auto' needs rows to judge by, and no task has two: give max_loss as a "
            "number (1.5 suits most data)."
        )
    return int(cv)


def require_judged(n_judged: int, cv: Any) -> None:
    """Refuse folds in which no task has rows on both sides."""
    if not n_judged:
        raise ValueError(
            f"cv={cv!r} leaves no task with rows both to train on and to judge by: use folds that "
            "divide the rows of each task, such as an integer, and not ones that leave out whole "
            "tasks; or give max_loss as a number."
        )


def _is_missing(task: Any) -> bool:
    # pandas' NA refuses to be compared.
    if task is None or type(task).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(task, (float, np.floating)) and bool(np.isnan(task))


def _sorted(ids: Iterable[Any]) -> list[Any]:
    """In their own order, where they have one."""
    listed = list(ids)
    try:
        return sorted(listed)
    except TypeError:
        return sorted(listed, key=lambda task: (type(task).__name__, repr(task)))
