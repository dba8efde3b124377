"""Answers of fitted models about collections: lazy for Dask, on their own device for arrays."""

from __future__ import annotations

import functools
import importlib
import inspect
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from ctfa._collections._dask import aligned, as_frame, is_dask, is_frame
from ctfa._collections._devices import is_foreign, like, to_numpy
from ctfa._collections._tables import read_table

Method = TypeVar("Method", bound=Callable[..., Any])


def answers_lazily(method: Method) -> Method:
    """Let a method that answers row by row be asked about rows in chunks, or on a device.

    Of a Dask collection it makes one that is computed when somebody wants it; arrays of another
    library come back as such, on the device where they were.
    """
    what = next(name for name in inspect.signature(method).parameters if name != "self")

    @functools.wraps(method)
    def ask(self: Any, *others: Any, **known: Any) -> Any:
        if not others and what in known:
            others = (known.pop(what),)
        if not others:
            return method(self, **known)  # which says what is missing
        data, others = others[0], others[1:]
        if is_dask(data) or any(map(is_dask, known.values())):
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
    da: Any = importlib.import_module("dask.array")
    known = {name: value for name, value in known.items() if value is not None}
    if others and any(other is not None for other in others):
        names = list(inspect.signature(method).parameters)[1:]
        known |= {
            name: value for name, value in zip(names, others, strict=False) if value is not None
        }
    if is_frame(data) and not known:
        # What is made up has marks of missing values in columns that may hold any.
        trial = _try(method, data._meta_nonempty.ffill(), {})
        if hasattr(trial, "iloc"):
            empty = trial.iloc[:0]
            return data.map_partitions(_of_partition, method, empty, meta=empty)
    columns = getattr(data, "columns", None)
    array = read_table(data, what)
    extra = {name: read_table(value, name) for name, value in known.items()}
    row = as_frame(np.ones((1,) * array.ndim if array.ndim == 1 else (1, array.shape[1])), columns)
    made_up = {name: np.ones((1, *value.shape[1:])) for name, value in extra.items()}
    trial = np.asarray(_try(method, row, made_up))
    (array, *placed), _ = aligned((array, *extra.values()), None, (what, *extra))
    arguments: list[Any] = [array, "i" if array.ndim == 1 else "ij"]
    for number, lazy in enumerate(placed):
        arguments += [lazy, "i" if lazy.ndim == 1 else ("i", f"k{number}")]
    return da.blockwise(
        _of_block,
        "i" if trial.ndim == 1 else "io",
        *arguments,
        method=method,
        columns=columns,
        names=list(extra),
        empty=trial[:0],
        new_axes={} if trial.ndim == 1 else {"o": trial.shape[1]},
        dtype=trial.dtype,
        concatenate=True,
        align_arrays=False,
        meta=np.empty((0,) * trial.ndim, dtype=trial.dtype),
    )


def _of_partition(part: Any, method: Any, empty: Any) -> Any:
    """Answer about a part of a frame; nothing where it is empty, which no model is asked about."""
    return method(part) if len(part) else empty.set_axis(part.index, axis=0)


def _of_block(
    block: Any, *others: Any, method: Any, columns: Any, names: list[str], empty: Any
) -> Any:
    if not block.shape[0]:
        return empty
    known = dict(zip(names, others, strict=True))
    return np.asarray(method(as_frame(np.asarray(to_numpy(block)), columns), **known))


def _try(method: Callable[..., Any], row: Any, known: dict[str, Any]) -> Any:
    """Ask about a made-up row, which says what is wrong with the columns and how answers look."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return method(row, **known)
