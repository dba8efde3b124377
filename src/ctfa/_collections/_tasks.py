"""Tasks with rows of their own, in chunks: rows summed up by task and fold, and lazy answers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np

from ctfa import _validation as check
from ctfa._collections import _dask
from ctfa._collections._answers import r2_of_chunks
from ctfa._collections._collection import (
    Collection,
    Rows,
    require_room_for_sums,
    require_some_rows,
    stand_ins_of,
)
from ctfa._collections._devices import is_foreign, like, to_numpy
from ctfa._collections._folds import Classes, Split, Wanted
from ctfa._collections._summing import Digits, Sums, as_column, joined, sum_up
from ctfa.core.moments import Moments, Summary, add_up
from ctfa.core.types import AnyArray, FloatArray, IntArray

#: Where the numbers begin by which folds are put in another order each time.
SEED = np.uint64(0x9E3779B97F4A7C15)


#: Rows that stand in for those of tasks, their target, and whose they are.
TaskSample = tuple[check.Sample, FloatArray, check.Tasks]
#: Rows of each task that have come, the tasks in the order in which they came first.
Arrived = Mapping[Any, int]


@dataclass(frozen=True, eq=False)
class TaskCollection:
    """Tables of a fit in chunks of the same rows, and the task of every row."""

    data: Collection
    ids: Any  # Dask array, in the chunks of the inputs

    @classmethod
    def of(cls, X: Any, y: Any, ids: Any, sample_weight: Any = None) -> TaskCollection:
        """Put tables and ids in the same chunks."""
        data = Collection.of(X, y, sample_weight)
        check.require_one_target(data.widths[2])
        return cls(data, _with_ids(data.tables[1], ids)[1])

    def read(self, estimator: Any, wanted: Sequence[Wanted], groups: Any) -> TaskSample:
        """Rows that stand in for those of each task in each fold that is wanted.

        A number of folds deals the rows of each task in their order, whatever their chunks
        (``deal_rows``).
        """
        n_dealt = 0
        if wanted and isinstance(wanted[0].cv, Integral) and groups is None:
            cv = wanted[0].cv
            n_dealt, wanted = check.read_fold_count(cv, int(cv)), ()
        classes = self.data.classes(wanted, groups)
        sums = self.sums(n_dealt, classes=classes)
        require_some_rows(sums.n_samples)
        check.tell_input_names(estimator, self.data.widths[1], self.data.input_names)
        weighed = self.data.weights is not None
        return stand_in_tasks(sums.classes, classes, n_dealt, weighed=weighed)

    def gathered(self, why: str) -> tuple[Rows, Any]:
        """All rows in memory, and their ids."""
        instead = "Use LinearRegression, Ridge, Lasso or ElasticNet and no folds for features"
        rows = self.data.gathered(why, instead)
        return rows, _dask.compute(self.ids)

    def sums(
        self,
        n_dealt: int,
        arrived: Arrived | None = None,
        *,
        classes: Classes | None = None,
    ) -> Sums:
        """Sum up all rows by task and class, or the fold dealt to; refuse numbers that are none.

        ``n_dealt`` is 0 for no folds, and ``arrived`` are rows that came before. Where there are
        folds, the tasks of the sums are in the order in which they came.
        """
        data, before = self.data, arrived or {}
        classes = data.classes() if classes is None else classes
        came: Any = before if n_dealt else None
        if data.is_lazy and n_dealt:
            told = _dask.classes_of_chunks(data.tables[1], classes)
            came = _dask.in_turn(_arrivals_of, (self.ids, data.weights), told, before, joined)
        ask = functools.partial(_sum_chunk, n_dealt)
        sums = data.added(ask, (self.ids, *data.tables[1:], data.weights, came), classes)
        # Without classes of which no row counts.
        counted = {key: part for key, part in sums.classes.items() if part.n_samples}
        sums = replace(sums, classes=counted)
        trouble = sums.trouble[2]
        if trouble is not None:
            check.refuse_number(*trouble, "y", None)
        data.refuse(sums)
        n_summed = sum(part.sums is not None for part in sums.classes.values())
        require_room_for_sums(sum(data.widths), n_summed)
        return sums


def stand_in_tasks(
    parts: Mapping[Any, Summary], classes: Classes, n_dealt: int, *, weighed: bool
) -> TaskSample:
    """Rows that stand in for those summed up by task and fold; warns if digits are few."""
    known = check.order_ids({task for task, _ in parts})
    _warn_if_doubtful(parts)
    position = {task: number for number, task in enumerate(known)}
    keys = sorted(parts, key=lambda key: (position[key[0]], key[1]))
    n_inputs = parts[keys[0]].n_columns - 1
    sample, target, of_row = stand_ins_of(
        [parts[key] for key in keys], (0, n_inputs, 1), weighed=weighed
    )
    task = np.array([position[key[0]] for key in keys], dtype=np.intp)[of_row]
    own = np.array([key[1] for key in keys], dtype=np.intp)[of_row]
    folds = classes.folds(own)
    if n_dealt:
        check.read_fold_count(n_dealt, int(np.bincount(task, sample.counts).max()))
        folds = {"limit": splits_of(own)}
    return replace(sample, folds=folds), target[:, 0], check.Tasks(known, task)


def _warn_if_doubtful(parts: Mapping[Any, Summary]) -> None:
    """Say when sums have lost digits of what inputs do within tasks."""
    tasks: dict[Any, Moments] = {}
    for (task, _), part in parts.items():
        tasks = joined(tasks, {task: part.moments})
    whole = add_up(list(tasks.values()))
    n_inputs = whole.mean.size - 1
    within = sum(task.cross for task in tasks.values())
    if whole.n_samples > n_inputs + 1 + len(tasks):
        moments = Moments(whole.n_samples, whole.weight, whole.mean, np.asarray(within))
        Digits(moments.weakest(np.arange(n_inputs)), 1.0, 0.0).warn_if_doubtful()


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


def predict_tasks(
    predict: Callable[..., FloatArray], read: Callable[[Any], Any], X: Any, ids: Any
) -> Any:
    """Predictions ``(n,)`` of rows in chunks, computed when somebody wants them.

    ``predict`` is asked about a chunk of features and the ids of its rows; ``read`` about a row
    that is made up, to say at once what is wrong with the columns.
    """
    array, ids, columns = _aligned(X, ids)
    read(_dask.as_frame(np.ones((1, int(array.shape[1]))), columns))
    ask = functools.partial(_predict_chunk, predict, columns)
    return _dask.of_chunks(ask, (array, ids), np.empty(0))


def r2_of_tasks(
    predict: Callable[..., FloatArray], X: Any, y: Any, ids: Any, sample_weight: Any
) -> float:
    """R2 over all rows, in one pass over the chunks."""
    tasks = TaskCollection.of(X, y, ids, sample_weight)
    columns = tasks.data.input_names
    beside = "tasks", tasks.ids
    return float(r2_of_chunks(predict, tasks.data, beside, columns, None, gaps=False)[0])


def means_of_strangers(X: Any, ids: Any, known: frozenset[Any]) -> Mapping[Any, FloatArray]:
    """Mean inputs of every task that is not known, in one pass over the chunks."""
    array, ids, _ = _aligned(X, ids)
    ask = functools.partial(_strangers_of, known)
    found = _dask.add_chunks(ask, (array, ids), [None] * array.numblocks[0], joined)
    return {task: total[1:] / total[0] for task, total in found.items()}


def _sum_chunk(
    n_dealt: int,
    told: tuple[int | None, Classes],
    ids: Any,
    inputs: Any,
    target: Any,
    weights: Any,
    arrived: Any,
) -> Sums:
    start, classes = told
    inputs = np.asarray(to_numpy(inputs), dtype=np.float64)
    target = as_column(np.asarray(to_numpy(target), dtype=np.float64))
    names, code = read_codes(ids, len(inputs), start or 0)
    fold = np.full(len(inputs), -1, dtype=np.intp)
    if n_dealt:
        names, code = _in_order(names, code, weights)
        before = arrived.item() if isinstance(arrived, np.ndarray) else arrived
        here = code >= 0
        fold[here] = deal_rows(code[here], n_dealt, *_places(names, before))
    else:
        for number, where in classes.parts(len(inputs)):
            fold[where] = number
    parts = [
        ((names[task], number), rows) for task, number, rows in _grouped(code, fold) if number >= 0
    ]
    width = inputs.shape[1] + 1
    n_summed = sum(rows.size > width + 1 for _, rows in parts)
    require_room_for_sums(width, n_summed)
    return sum_up((None, inputs, target), weights, start, parts)


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


def _arrivals_of(told: tuple[int | None, Classes], ids: Any, weights: Any) -> Arrived:
    """Rows of each task in a chunk."""
    names, code = _in_order(*read_codes(ids, int(ids.shape[0]), told[0] or 0), weights)
    counts = np.bincount(code[code >= 0], minlength=len(names)).tolist()
    return dict(zip(names, counts, strict=True))


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


def deal_rows(task: IntArray, n_folds: int, places: IntArray, starts: IntArray) -> IntArray:
    """Fold of each row of the tasks ``0, 1, ...``: of every task as many rows in each as can be.

    The rows of a task go round the folds in the order in which they come, each time in another
    order of the folds, lest what returns among the rows (weekdays, men and women in turn) be one
    fold. Tasks begin at different folds, by their places among all. A row is dealt once and for
    all, whatever comes after it: so rows in memory, in chunks and in pieces are dealt alike, and
    in any units. ``starts`` are the rows of each task that came before.
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
    """Fold of each row in memory, all of which are here."""
    _, first, code = np.unique(task, return_index=True, return_inverse=True)
    places = np.argsort(np.argsort(first))
    return deal_rows(code, n_folds, places, np.zeros_like(places))


def _mixed(words: AnyArray) -> AnyArray:
    """Let every bit move all others (the finishing steps of SplitMix64)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(words ^ (words >> np.uint64(31)))


def _grouped(code: IntArray, fold: IntArray) -> Iterator[tuple[int, int, IntArray]]:
    """Rows of each task in each fold."""
    order = np.lexsort((fold, code))
    if not order.size:
        return
    same = (np.diff(code[order]) == 0) & (np.diff(fold[order]) == 0)
    for rows in np.split(order, np.flatnonzero(~same) + 1):
        yield int(code[rows[0]]), int(fold[rows[0]]), rows


def splits_of(fold: IntArray) -> list[Split]:
    """Rows to learn from and to judge by, of each fold."""
    return [
        (np.flatnonzero(fold != number), np.flatnonzero(fold == number))
        for number in np.unique(fold)
    ]


def _aligned(X: Any, ids: Any) -> tuple[Any, Any, Any]:
    """Features and ids as Dask arrays in the same chunks, and the names of the features."""
    columns = X.columns if hasattr(X, "columns") else None
    array = _dask.as_array(X, "X") if _dask.is_dask(X) else np.asarray(X)
    return *_with_ids(array, ids), columns


def _with_ids(inputs: Any, ids: Any) -> tuple[Any, Any]:
    """Inputs, and the ids of their rows, as Dask arrays in the same chunks."""
    (placed, whose), _ = _dask.aligned((inputs, _as_ids(ids)), None, ("X", "tasks"))
    return placed, whose


def _as_ids(ids: Any) -> Any:
    if not _dask.is_dask(ids):
        check.refuse_mask(ids, "tasks")
        ids = to_numpy(ids)
        array = ids if isinstance(ids, np.ndarray) else check.as_ids(check.read_ids(ids, None))
        return array.reshape(-1) if array.ndim == 2 and array.shape[1] == 1 else array
    if _dask.is_frame(ids):
        # Text, categories and dates are the objects that a frame in memory would give.
        plain = getattr(getattr(ids, "dtype", None), "kind", "O") in "biuf"
        array = (ids if plain else ids.astype(object)).to_dask_array()
    else:
        array = (ids.data if hasattr(ids, "coords") else ids).copy()  # xarray; counted as ours
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array


def _predict_chunk(predict: Any, columns: Any, inputs: Any, ids: Any) -> FloatArray:
    rows = _dask.as_frame(np.asarray(to_numpy(inputs)), columns)
    return np.asarray(predict(rows, np.asarray(to_numpy(ids))))


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
