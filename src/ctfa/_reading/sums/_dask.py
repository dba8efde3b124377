"""Dask's arrays and frames: chunks of rows summed up where they are, and lazy answers.

Chunks are refused before they count, and errors of the data are told from those of a chunk.
"""

from __future__ import annotations

import functools
import importlib
import operator
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ctfa import _reading as check
from ctfa._errors import InputError
from ctfa._reading.sums.folds import Classes
from ctfa.core.types import AnyArray
from ctfa.kernels.devices import is_foreign, to_numpy

#: Sums that are added by one task.
SPLIT_EVERY = 8


@contextmanager
def reading() -> Iterator[None]:
    """Let refusals of data through; one clear error for whatever else fails in a chunk."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise RuntimeError(
            f"the data could not be read in chunks ({type(error).__name__}: {error}). Nothing was "
            "fitted: mend the chunk or the cluster it was computed on, and fit again."
        ) from error


def is_dask(data: Any) -> bool:
    """Whether something is a collection of Dask, or holds one (xarray)."""
    dask = sys.modules.get("dask")
    return dask is not None and bool(dask.is_dask_collection(data))


def is_frame(data: Any) -> bool:
    """Whether a collection has named columns, or is one of them."""
    return is_dask(data) and hasattr(data, "to_dask_array")


def as_array(data: Any, what: str) -> Any:
    """A Dask array of a collection, all columns of a row in one chunk; rows may be uncounted.

    It is a new one, so that its rows can be counted without changing what was given.
    """
    if is_frame(data):
        kinds = list(data.dtypes.items()) if data.ndim == 2 else [(data.name, data.dtype)]
        for name, kind in kinds:
            if getattr(kind, "kind", "O") not in "biuf":
                raise InputError(
                    f"column {name!r} of {what} holds {kind}, which is not numbers: encode it or "
                    "leave it out."
                )
        if not all(isinstance(kind, np.dtype) for _, kind in kinds):
            data = data.astype("float64")  # marks of missing values become NaN
        array = data.to_dask_array()
    elif hasattr(data, "coords") and hasattr(data, "data"):  # xarray
        array = data.data
    else:
        array = data
    if getattr(array, "ndim", None) not in (1, 2):
        raise InputError(
            f"{what} is a {type(data).__name__} that is not a table: pass an array of rows and "
            "columns, or use ctfa.labelled.fit for data with more dimensions."
        )
    array = _guarded(array, what)
    return array if array.ndim == 1 or array.numblocks[1] == 1 else array.rechunk({1: -1})


def _guarded(array: Any, what: str) -> Any:
    """A Dask array of ours whose chunks are plain numbers, or are refused when they are read.

    Arrays of a wrong type are refused at once, chunks of a wrong type when they are read.
    """
    check.refuse_kind(array.dtype, what)
    meta = importlib.import_module("dask.array.utils").meta_from_array(array)
    if isinstance(meta, np.ndarray):  # a mask is refused, not passed on
        meta = np.empty((0,) * array.ndim)
    read = functools.partial(refusing, read_block)
    return array.map_blocks(read, what, dtype=np.float64, meta=meta)


def read_block(data: Any, what: str) -> Any:
    """A table of numbers where it lies; masks, dates, complex numbers and text are refused."""
    if not is_foreign(data):
        return check.read_numbers(data, what)
    check.refuse_kind(data.dtype, what)
    if "int64" in str(data.dtype):
        check.refuse_rounded(to_numpy(data), what)
    return data


def count_rows(array: Any) -> Any:
    """The same array, one of ours, that from now on knows the number of rows of every chunk."""
    if not is_counted(array):
        with reading():
            array.compute_chunk_sizes()
    return array


def is_counted(array: Any) -> bool:
    """Whether the number of rows of every chunk is known."""
    return not any(np.isnan(size) for size in array.chunks[0])


def starts_of(array: Any) -> list[int | None]:
    """First row of every chunk; None for each where they are not counted."""
    if not is_counted(array):
        return [None] * array.numblocks[0]
    ends: list[int | None] = np.cumsum(array.chunks[0]).tolist()
    return [0, *ends[:-1]]


def aligned(tables: Sequence[Any], weights: Any, names: Sequence[str]) -> tuple[list[Any], Any]:
    """The same tables as Dask arrays in the same chunks of rows; None stays None."""
    da = importlib.import_module("dask.array")
    dasked = [table for table in (*tables, weights) if is_dask(table)]
    others = [table for table in (*tables, weights) if table is not None and not is_dask(table)]
    if others or len({(array.numblocks[0], is_counted(array)) for array in dasked}) > 1:
        dasked = [count_rows(array) for array in dasked]
    first = dasked[0]
    heights = first.chunks[0]
    named = list(zip((*tables, weights), (*names, "sample_weight"), strict=True))
    known = [
        (int(table.shape[0]), name)
        for table, name in named
        if table is not None and (not is_dask(table) or is_counted(table))
    ]
    # Others are compared with the inputs, where these are counted.
    known.sort(key=lambda one: one[1] != "X")
    for n_rows, name in known[1:]:
        check.require_same_rows(n_rows, known[0][0], name, first=known[0][1])

    def place(table: Any) -> Any:
        if table is None:
            return None
        if not is_dask(table):
            chunks = (heights, *np.shape(table)[1:])
            return da.from_array(np.asarray(table), chunks=chunks, name=False)
        same = not is_counted(table) or table.chunks[0] == heights
        return table if same else table.rechunk({0: heights})

    return [place(table) for table in tables], place(weights)


def classes_of_chunks(array: Any, classes: Classes) -> list[tuple[int | None, Classes]]:
    """First row of every chunk and the classes of its rows; None where they are not counted."""
    return [
        (start, classes if start is None else classes.of_rows(start, int(size)))
        for start, size in zip(starts_of(array), array.chunks[0], strict=True)
    ]


def add_chunks(
    function: Callable[..., Any],
    tables: Sequence[Any],
    told: Sequence[Any],
    add: Callable[[Any, Any], Any] = operator.add,
) -> Any:
    """Sum of a function's results for every chunk, anything that can be added, in a tree.

    It is called with what is known of the chunk and the chunk's part of each table, None where
    there is no such table.
    """
    da = importlib.import_module("dask.array")
    added = functools.partial(_added, add)
    total = da.reduction(
        _answers(function, tables, told),
        chunk=_as_it_is,
        combine=added,
        aggregate=added,
        axis=0,
        keepdims=False,
        concatenate=False,
        dtype=object,
        meta=np.empty((), dtype=object),
        split_every=SPLIT_EVERY,
    )
    return _unboxed(compute(total))


def in_turn(
    function: Callable[..., Any],
    tables: Sequence[Any],
    told: Sequence[Any],
    before: Any,
    after: Callable[[Any, Any], Any],
) -> Any:
    """What came before each chunk, one box per chunk, for functions that need it.

    ``after(before, answer)`` is what came before the next one, ``answer`` being what a function
    makes of a chunk as in ``add_chunks``. All is one graph: a chunk waits for those before it to
    be counted, and is not read again.
    """
    da, dask = importlib.import_module("dask.array"), importlib.import_module("dask")
    unboxed, boxed = (dask.delayed(one, pure=False) for one in (_unboxed, _boxed))
    follow = dask.delayed(after, pure=False)
    now = dask.delayed(before, pure=False, traverse=False)
    boxes = []
    for answer in _answers(function, tables, told).to_delayed(optimize_graph=False):
        boxes.append(da.from_delayed(boxed(now), (1,), meta=np.empty(0, dtype=object)))
        now = follow(now, unboxed(answer))
    return da.concatenate(boxes)


def _answers(function: Callable[..., Any], tables: Sequence[Any], told: Sequence[Any]) -> Any:
    """The result of a function for every chunk, one box each."""
    da = importlib.import_module("dask.array")
    each = np.empty(len(told), dtype=object)
    each[:] = told
    # A name of its own each time: a scheduler may still remember that a task of this name died
    # beside a worker, and would refuse the next fit because of it.
    boxes = (da.from_array(each, chunks=1, name=False), *tables)
    ask = functools.partial(_boxed_answer, function)
    return of_chunks(ask, boxes, np.empty(0, dtype=object))


def _boxed_answer(function: Callable[..., Any], told: Any, *tables: Any) -> Any:
    return _boxed(refusing(function, told[0], *tables))


def refusing(function: Callable[..., Any], *tables: Any) -> Any:
    """The result of a function for a chunk; what it refuses is an error of the data."""
    try:
        return function(*tables)
    except InputError:
        raise
    except ValueError as error:
        raise InputError(str(error)) from error


def _boxed(answer: Any) -> Any:
    box = np.empty(1, dtype=object)
    box[0] = answer
    return box


def _unboxed(box: Any) -> Any:
    while isinstance(box, np.ndarray):
        box = box.item()
    return box


def _as_it_is(block: Any, axis: Any, keepdims: Any) -> Any:
    return block


def _added(add: Callable[[Any, Any], Any], parts: Any, axis: Any, keepdims: Any) -> Any:
    """Add neighbours, then their sums: rounding grows with the logarithm of their number."""
    flat = [_unboxed(part) for part in (parts if isinstance(parts, list) else [parts])]
    while len(flat) > 1:
        pairs = list(map(add, flat[::2], flat[1::2]))
        flat = pairs + flat[len(flat) - len(flat) % 2 :]
    return _boxed(flat[0])


def compute(*lazy: Any) -> Any:
    """Compute by whatever scheduler is active, in one pass; one clear error where that fails.

    What is not lazy stays as it is.
    """
    dask = importlib.import_module("dask")
    with reading(), warnings.catch_warnings():
        # Frames together with arrays are rows that belong together, and read once.
        warnings.filterwarnings("ignore", "Computing mixed collections", UserWarning)
        found = dask.compute(*lazy, traverse=False)
    return found[0] if len(found) == 1 else found


def of_chunks(function: Callable[..., Any], tables: Sequence[Any], none: AnyArray) -> Any:
    """The lazy result of a function for every chunk of rows.

    It is called with the chunk's part of each table, None where there is no such table. ``none`` is
    its answer where there are no rows, about which it is not asked.
    """
    da = importlib.import_module("dask.array")
    arguments: list[Any] = []
    for number, table in enumerate(tables):
        if table is not None:
            arguments += [table, "i" if table.ndim == 1 else ("i", f"k{number}")]
    return da.blockwise(
        _of_chunk,
        "i" if none.ndim == 1 else "io",
        *arguments,
        function=function,
        given=[table is not None for table in tables],
        none=none,
        new_axes={} if none.ndim == 1 else {"o": none.shape[1]},
        dtype=none.dtype,
        align_arrays=False,
        concatenate=True,
        meta=np.empty((0,) * none.ndim, dtype=none.dtype),
    )


def _of_chunk(
    *blocks: Any, function: Callable[..., Any], given: Sequence[bool], none: AnyArray
) -> Any:
    if not blocks[0].shape[0]:
        return none
    left = iter(blocks)
    return function(*(next(left) if there else None for there in given))
