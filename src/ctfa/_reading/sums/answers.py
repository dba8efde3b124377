"""Answers of fitted models about collections: lazy for Dask, on their own device for arrays.

And how good they are: R2 of predictions, chunk by chunk.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from ctfa import _reading as check
from ctfa._errors import InputError
from ctfa._reading.sums import _dask
from ctfa._reading.sums.collection import Collection, read_table
from ctfa._reading.sums.devices import like
from ctfa._reading.sums.sums import as_column, first_of
from ctfa._reading.sums.tasks import with_ids
from ctfa.core.types import FloatArray
from ctfa.kernels.devices import is_foreign, to_numpy

Method = TypeVar("Method", bound=Callable[..., Any])


def answers_lazily(method: Method) -> Method:
    """Let a method that works row by row take rows in chunks, or on a device.

    A Dask collection gives a lazy one; arrays of another library give such arrays, on the same
    device.
    """
    what = next(name for name in inspect.signature(method).parameters if name != "self")

    @functools.wraps(method)
    def ask(self: Any, *others: Any, **known: Any) -> Any:
        if not others and what in known:
            others = (known.pop(what),)
        if not others:
            return method(self, **known)  # which says what is missing
        data, others = others[0], others[1:]
        if _dask.is_dask(data) or any(map(_dask.is_dask, known.values())):
            return _lazily(functools.partial(method, self), data, others, known, what)
        if is_foreign(data):
            known = {name: to_numpy(value) for name, value in known.items()}
            answer = method(self, to_numpy(data), *map(to_numpy, others), **known)
            return like(np.asarray(answer), data)
        return method(self, data, *others, **known)

    return ask  # type: ignore[return-value]


def _lazily(
    method: Callable[..., Any],
    data: Any,
    others: tuple[Any, ...],
    known: dict[str, Any],
    what: str,
) -> Any:
    names = list(inspect.signature(method).parameters)[1:]
    given = known | dict(zip(names, others, strict=False))
    known = {name: value for name, value in given.items() if value is not None}
    if _dask.is_frame(data) and not known:
        # What is made up has marks of missing values in columns that may hold any.
        utils = importlib.import_module("dask.dataframe.utils")
        trial = _try(method, utils.meta_nonempty(utils.make_meta(data)).ffill(), {})
        if hasattr(trial, "iloc"):
            empty = trial.iloc[:0]
            return data.map_partitions(_of_partition, method, empty, meta=empty)
    columns = getattr(data, "columns", None)
    array = read_table(data, what)
    extra = {name: read_table(value, name) for name, value in known.items()}
    row = _frame(np.ones((1, *array.shape[1:])), columns)
    made_up = {name: np.ones((1, *value.shape[1:])) for name, value in extra.items()}
    trial = np.asarray(_try(method, row, made_up))
    tables, _ = _dask.aligned((array, *extra.values()), None, (what, *extra))
    ask = functools.partial(_of_block, method, columns, list(extra))
    return _dask.of_chunks(ask, tables, trial[:0])


def predict_tasks(
    predict: Callable[..., FloatArray], read: Callable[[Any], Any], X: Any, ids: Any
) -> Any:
    """Lazy predictions ``(n,)`` of rows in chunks.

    ``predict`` is asked about a chunk of features and the ids of its rows; ``read`` about a row
    that is made up, to say at once what is wrong with the columns.
    """
    columns = getattr(X, "columns", None)
    tables = with_ids(X, ids)
    read(_frame(np.ones((1, int(tables[0].shape[1]))), columns))
    ask = functools.partial(_of_block, predict, columns, ["tasks"])
    return _dask.of_chunks(ask, tables, np.empty(0))


def _of_partition(part: Any, method: Any, empty: Any) -> Any:
    """Predict a part of a frame; empty parts are not given to the model."""
    return method(part) if len(part) else empty.set_axis(part.index, axis=0)


def _of_block(method: Any, columns: Any, names: list[str], block: Any, *others: Any) -> Any:
    known = dict(zip(names, others, strict=True))
    return np.asarray(method(_frame(np.asarray(to_numpy(block)), columns), **known))


def _frame(block: FloatArray, columns: Any) -> Any:
    """A chunk with the names of its columns, which a model may have learned, where it has any."""
    return check.as_frame(None if columns is None else "pandas", block, columns, None)


def _try(method: Callable[..., Any], row: Any, known: dict[str, Any]) -> Any:
    """Predict a made-up row, to find what is wrong with the columns and how answers look."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return method(row, **known)


@dataclass(frozen=True, eq=False)
class R2Sums:
    """Squared errors of targets, and their squares about the mean; ``a + b`` has both."""

    count: FloatArray  # rows where it is observed and predicted
    weight: FloatArray
    mean: FloatArray
    spread: FloatArray
    squared: FloatArray
    n_rows: int  # rows given
    has_weight: bool  # whether one of them counts

    @classmethod
    def of(cls, true: FloatArray, predicted: FloatArray, weights: Any) -> R2Sums:
        """Judge a chunk of rows."""
        each = np.ones(len(true))
        if weights is not None:
            each = np.asarray(to_numpy(weights), dtype=np.float64)
            check.require_weights(each)
        known = ~(np.isnan(true) | np.isnan(predicted))
        weight = np.where(known, each[:, None], 0.0)
        total = weight.sum(axis=0)
        seen = np.where(total > 0.0, total, 1.0)
        true = np.where(known, true, 0.0)
        mean = (weight * true).sum(axis=0) / seen
        gap = np.where(known, true - predicted, 0.0)
        spread = (weight * (true - mean) ** 2).sum(axis=0)
        squared = (weight * gap**2).sum(axis=0)
        count = np.count_nonzero(weight, axis=0).astype(float)
        has_weight = bool((each > 0.0).any())
        return cls(count, total, mean, spread, squared, len(true), has_weight)

    def __add__(self, other: R2Sums) -> R2Sums:
        weight = self.weight + other.weight
        share = other.weight / np.where(weight > 0.0, weight, 1.0)
        gap = other.mean - self.mean
        return R2Sums(
            self.count + other.count,
            weight,
            self.mean + gap * share,
            self.spread + other.spread + self.weight * share * gap**2,
            self.squared + other.squared,
            self.n_rows + other.n_rows,
            self.has_weight or other.has_weight,
        )

    @property
    def r2(self) -> FloatArray:
        """R2 of each target, as scikit-learn has it; NaN where fewer than two rows are judged."""
        varies = self.spread > 0.0
        r2 = 1.0 - self.squared / np.where(varies, self.spread, 1.0)
        r2 = np.where(varies, r2, np.where(self.squared == 0.0, 1.0, 0.0))
        return np.where(self.count >= 2.0, r2, np.nan)


def r2_of_collection(
    predict: Callable[..., Any],
    X: Any,
    Y: Any,
    sample_weight: Any = None,
    confounds: Any = None,
    ids: Any = None,
    *,
    require_same: Callable[[check.Targets], None] = lambda targets: None,
) -> FloatArray:
    """R2 of each target, in one pass over the chunks; ``require_same`` refuses other targets.

    ``predict`` is asked about rows of a chunk, and their confounds or the ids of their tasks.
    """
    data = Collection.of(X, Y, sample_weight, confounds, ids)
    targets = data.targets_like
    require_same(targets)
    beside: tuple[str, Any] = ("confounds", data.tables[0])
    if ids is not None:
        beside = ("tasks", data.ids)
    columns, names = getattr(X, "columns", None), targets.names if ids is None else None
    judge = functools.partial(_judge, predict, beside[0], columns, names)
    tables = (*data.tables[1:], beside[1], data.weights)
    if data.is_lazy:
        found: R2Sums = _dask.add_chunks(judge, tables, _dask.starts_of(data.tables[1]))
    else:
        found = judge(0, *tables)
    check.require_rows(np.empty((found.n_rows, 0)), 2)
    if not found.has_weight:
        raise InputError(
            "sample_weight is zero for every row, so nothing is left to judge: give the rows that "
            "count a positive weight."
        )
    return found.r2


def _judge(
    predict: Callable[..., Any],
    what: str,
    columns: Any,
    names: Any,
    start: int | None,
    inputs: Any,
    targets: Any,
    beside: Any,
    weights: Any,
) -> R2Sums:
    rows = np.asarray(to_numpy(inputs))
    true = np.asarray(as_column(np.asarray(to_numpy(targets), dtype=np.float64)))
    # Infinity is refused, and NaN where tasks have rows of their own.
    gaps = what != "tasks"
    trouble = first_of(np.isinf(true) if gaps else ~np.isfinite(true), true, start)
    if trouble is not None:
        check.refuse_number(*trouble, "y", names, gaps=gaps)
    predicted = np.empty(true.shape)
    if len(rows):  # a chunk may be empty, and models do not predict empty tables
        known = {} if beside is None else {what: np.asarray(to_numpy(beside))}
        answer = np.asarray(predict(_frame(rows, columns), **known))
        predicted[:] = answer.reshape(true.shape)
    return R2Sums.of(true, predicted, weights)
