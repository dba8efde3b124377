"""Tasks with rows of their own: the task of a row, and the fold it is dealt to."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np

from ctfa import _reading as check
from ctfa._reading.sums import _dask
from ctfa._reading.sums.devices import like
from ctfa._reading.sums.folds import Classes, Split
from ctfa._reading.sums.sums import joined
from ctfa.core.types import AnyArray, FloatArray, IntArray
from ctfa.kernels.devices import is_foreign, to_numpy

#: Start of the numbers that reorder the folds in each round.
SEED = np.uint64(0x9E3779B97F4A7C15)

#: Rows of each task so far, the tasks in the order of their first rows.
Arrived = Mapping[Any, int]


def apart(X: Any, tasks: Any) -> tuple[Any, Any]:
    """Features and ids, where these are a column of a table that may be in chunks."""
    if not check.is_column(tasks):
        return X, tasks
    if not _dask.is_dask(X) or hasattr(X, "columns") or not isinstance(tasks, Integral):
        return check.take_column(to_numpy(X), tasks)
    array = _dask.as_array(X, "X")
    others, column = check.take_column(np.arange(array.shape[1])[None], tasks)
    return array[:, others[0]], array[:, int(column[0])]


def is_lazy(*data: Any) -> bool:
    """Whether any of these is Dask's."""
    return any(map(_dask.is_dask, data))


def as_array_of(X: Any, answer: FloatArray) -> Any:
    """An answer as an array of the library of the data that were asked about."""
    return like(answer, X) if is_foreign(X) else answer


def read_ids(ids: Any) -> Any:
    """Ids of rows in chunks, or in memory, as an array of one dimension."""
    if not _dask.is_dask(ids):
        check.refuse_mask(ids, "tasks")
        ids = to_numpy(ids)
        array = ids if isinstance(ids, np.ndarray) else check.as_ids(check.read_ids(ids, None))
    elif _dask.is_frame(ids):
        # Text, categories and dates are the objects that a frame in memory would give.
        plain = getattr(getattr(ids, "dtype", None), "kind", "O") in "biuf"
        array = (ids if plain else ids.astype(object)).to_dask_array()
    else:
        array = (ids.data if hasattr(ids, "coords") else ids).copy()  # xarray; counted as ours
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array


def with_ids(X: Any, ids: Any) -> tuple[Any, Any]:
    """Features and ids as Dask arrays in the same chunks."""
    array = _dask.as_array(X, "X") if _dask.is_dask(X) else np.asarray(X)
    (placed, whose), _ = _dask.aligned((array, read_ids(ids)), None, ("X", "tasks"))
    return placed, whose


def means_of_strangers(X: Any, ids: Any, known: frozenset[Any]) -> Mapping[Any, FloatArray]:
    """Mean inputs of every task that is not known, in one pass over the chunks."""
    array, ids = with_ids(X, ids)
    ask = functools.partial(_strangers_of, known)
    found = _dask.add_chunks(ask, (array, ids), [None] * array.numblocks[0], joined)
    return {task: total[1:] / total[0] for task, total in found.items()}


def _strangers_of(known: frozenset[Any], told: Any, inputs: Any, ids: Any) -> dict[Any, FloatArray]:
    """Number of rows and sums of inputs of each task that is not known."""
    rows = np.asarray(to_numpy(inputs), dtype=np.float64)
    names, code = read_codes(ids, len(rows))
    found = {}
    for number, task in enumerate(names):
        if task not in known:
            at = code == number
            found[task] = np.append(np.count_nonzero(at), rows[at].sum(axis=0))
    return found


def read_codes(ids: Any, n_rows: int, start: int = 0) -> tuple[list[Any], IntArray]:
    """Distinct ids of a chunk, and which of them each row has."""
    check.refuse_mask(ids, "tasks")
    block = np.asarray(to_numpy(ids))
    if not block.size and not n_rows:
        return [], np.empty(0, dtype=np.intp)
    if block.dtype.kind in "biufUS" and block.ndim == 1:
        names, code = np.unique(block, return_inverse=True)
        if block.dtype.kind != "f" or not np.isnan(names).any():
            return names.tolist(), np.asarray(code)
    listed = check.read_ids(block, n_rows, start)
    place: dict[Any, int] = {}
    code = np.array([place.setdefault(task, len(place)) for task in listed], dtype=np.intp)
    return list(place), code


# -- Dealing the rows of each task to folds


def parts_of_tasks(
    told: tuple[int | None, Classes], ids: Any, n_rows: int, weights: Any, arrived: Any
) -> Iterator[tuple[tuple[Any, int], IntArray]]:
    """Rows of a chunk, by their task and by their class or the fold they are dealt to."""
    start, classes = told
    names, code = read_codes(ids, n_rows, start or 0)
    fold = np.full(n_rows, -1, dtype=np.intp)
    if classes.n_dealt:
        names, code = _in_order(names, code, weights)
        before = arrived.item() if isinstance(arrived, np.ndarray) else arrived
        here = code >= 0
        fold[here] = deal_rows(code[here], classes.n_dealt, *_places(names, before or {}))
    else:
        for number, where in classes.parts(n_rows):
            fold[where] = number
    order = np.lexsort((fold, code))
    same = (np.diff(code[order]) == 0) & (np.diff(fold[order]) == 0)
    for rows in np.split(order, np.flatnonzero(~same) + 1):
        if rows.size and fold[rows[0]] >= 0:
            yield (names[code[rows[0]]], int(fold[rows[0]])), rows


def arrivals_of(told: tuple[int | None, Classes], ids: Any, weights: Any) -> Arrived:
    """Rows of each task in a chunk."""
    names, code = _in_order(*read_codes(ids, int(ids.shape[0]), told[0] or 0), weights)
    counts = np.bincount(code[code >= 0], minlength=len(names)).tolist()
    return dict(zip(names, counts, strict=True))


def _in_order(names: list[Any], code: IntArray, weights: Any) -> tuple[list[Any], IntArray]:
    """Ids in the order of their first rows; rows of weight zero do not count and have -1."""
    used = np.ones(code.size, dtype=bool)
    if weights is not None:
        used = np.asarray(to_numpy(weights)).reshape(-1) > 0.0
        code = np.where(used, code, -1)
    present, first = np.unique(code[used], return_index=True)
    present = present[np.argsort(first)]
    place = np.full(len(names) + 1, -1, dtype=np.intp)
    place[present] = np.arange(present.size)
    return [names[task] for task in present], place[code]


def _places(names: Sequence[Any], arrived: Arrived) -> tuple[IntArray, IntArray]:
    """Which task in order of arrival each is, and how many of its rows have come before."""
    known = {task: number for number, task in enumerate(arrived)}
    for task in names:
        known.setdefault(task, len(known))
    places = np.array([known[task] for task in names], dtype=np.intp)
    return places, np.array([arrived.get(task, 0) for task in names], dtype=np.intp)


def deal_rows(task: IntArray, n_folds: int, places: IntArray, starts: IntArray) -> IntArray:
    """Fold of each row of the tasks ``0, 1, ...``: the rows of every task are spread evenly.

    The rows of a task go round the folds in the order in which they come, each time in another
    order of the folds, so that patterns among the rows (weekdays, men and women in turn) do not end
    in one fold. Tasks begin at different folds, by their places among all. A row is dealt once and
    for all, whatever comes after it: so rows in memory, in chunks and in pieces are dealt alike,
    and in any units. ``starts`` are the rows of each task that came before.
    """
    order = np.argsort(task, kind="stable")
    counts = np.bincount(task, minlength=places.size)
    number = np.empty(task.size, dtype=np.intp)
    number[order] = np.arange(task.size) - np.repeat(np.cumsum(counts) - counts, counts)
    number += starts[task]
    rounds, place = np.unique(number // n_folds, return_inverse=True)
    steps = rounds[:, None] * n_folds + np.arange(n_folds)
    turned = np.argsort(_mixed(steps.astype(np.uint64) + SEED), axis=1)
    return np.asarray((turned[place, number % n_folds] + places[task]) % n_folds)


def deal_tasks(task: IntArray, n_folds: int) -> IntArray:
    """Fold of each row, all rows being in memory."""
    _, first, code = np.unique(task, return_index=True, return_inverse=True)
    places = np.argsort(np.argsort(first))
    return deal_rows(code, n_folds, places, np.zeros_like(places))


def _mixed(words: AnyArray) -> AnyArray:
    """Let every bit move all others (the finishing steps of SplitMix64)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(words ^ (words >> np.uint64(31)))


def splits_of(fold: IntArray) -> list[Split]:
    """Rows to learn from and to judge by, of each fold."""
    return [
        (np.flatnonzero(fold != number), np.flatnonzero(fold == number))
        for number in np.unique(fold)
    ]
