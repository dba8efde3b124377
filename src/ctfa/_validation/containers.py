"""Frames and series of pandas and polars, taken apart and handed back."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

from ctfa.core.libraries import imported
from ctfa.core.types import AnyArray, FloatArray

#: Up to here float64 has every whole number.
EXACT = 2**53
#: Kinds of dates and durations that a table of objects may hold.
DATES = (date, timedelta, np.datetime64, np.timedelta64)


def hand_back(
    values: FloatArray, labels: Sequence[Any], library: str | None, rows: Any, *, is_vector: bool
) -> Any:
    """Columns in the container the targets came in, with the row index of ``rows``."""
    if library is None:
        return values[:, 0] if is_vector else values
    if is_vector:
        return as_series(library, values[:, 0], labels[0], rows)
    return as_frame(library, values, labels, rows)


def as_frame(library: str | None, values: FloatArray, labels: Sequence[Any], rows: Any) -> Any:
    """A data frame of the named library, with the row index of ``rows``; without one the array."""
    if library is None:
        return values
    module = importlib.import_module(library)
    if library == "polars":
        # Row by row, said aloud: a square array would be read the other way round.
        return module.DataFrame(values, schema=list(labels), orient="row")
    return module.DataFrame(values, columns=labels, index=_index(rows, len(values)))


def as_series(library: str | None, values: FloatArray, label: Any, rows: Any) -> Any:
    """A series of the named library, with the row index of ``rows``; without one the array."""
    if library is None:
        return values
    module = importlib.import_module(library)
    if library == "polars":
        return module.Series(label, values)
    return module.Series(values, name=label, index=_index(rows, len(values)))


def library_of(data: Any) -> str | None:
    """``"pandas"`` or ``"polars"`` for their frames and series, None for anything else."""
    return container_of(data)[0]


def container_of(data: Any) -> tuple[str | None, Any]:
    """Library that can hold the answer, and column labels, of a frame or series."""
    if isinstance(data, (np.ndarray, list, tuple)):
        return None, None
    known = nw.dependencies
    library, labels = None, None
    if known.is_pandas_dataframe(data) or known.is_pandas_series(data):
        library = "pandas"
    elif known.is_polars_dataframe(data) or known.is_polars_series(data):
        library = "polars"
    if library is not None:
        labels = (
            data.columns if hasattr(data, "columns") else [None if data.name == "" else data.name]
        )
    return library, labels


def _index(rows: Any, n_rows: int) -> Any:
    """The index of pandas rows, where there are as many."""
    index: Any = getattr(rows, "index", None)
    return index if hasattr(index, "get_indexer") and len(index) == n_rows else None


def as_pandas(columns: dict[str, Any], what: str) -> Any:
    """A pandas DataFrame."""
    pandas = imported("pandas", f"{what} is a data frame and needs pandas: pip install pandas")
    return pandas.DataFrame(columns)


def holds_dates(data: Any) -> bool:
    """Whether some values are dates or durations, which numpy would read as numbers."""
    kinds = list(data.dtypes) if hasattr(data, "columns") else [getattr(data, "dtype", None)]
    # pandas and numpy say it by a letter, polars by a question.
    if any(
        getattr(kind, "kind", "") in ("m", "M") or getattr(kind, "is_temporal", bool)()
        for kind in kinds
    ):
        return True
    # Lists and tables of objects do not say, and are looked through where they are in memory.
    in_memory = isinstance(data, (np.ndarray, list, tuple)) or container_of(data)[0] == "pandas"
    if not in_memory or all(getattr(kind, "kind", "O") != "O" for kind in kinds):
        return False
    try:
        values = np.asarray(data)
    except (TypeError, ValueError):  # rows of different lengths, which are refused elsewhere
        return False
    # A missing date is what a missing number may look like.
    return values.dtype.kind in "mM" or (
        values.dtype.kind == "O"
        and any(isinstance(value, DATES) and str(value) != "NaT" for value in values.flat)
    )


def first_rounded(data: Any) -> int | None:
    """The first whole number that float64 would round, of data in memory; None without one."""
    for values in _whole_numbers(data):
        far = values[(values > EXACT) | (values < -EXACT)]
        if not far.size:
            continue
        numbers = far.tolist()
        # Python compares a whole number with a floating-point one exactly.
        for number, rounded in zip(numbers, map(float, numbers), strict=True):
            if number != rounded:
                return int(number)
    return None


def _column(frame: Any, position: int) -> Any:
    """A column of pandas or polars by its position: names may come twice."""
    return frame.iloc[:, position] if hasattr(frame, "iloc") else frame.to_series(position)


def _whole_numbers(data: Any) -> Iterator[AnyArray]:
    """Arrays of the whole numbers of 64 bits, or of any size, that a container holds."""
    if container_of(data)[0] is not None:
        kinds = list(data.dtypes) if hasattr(data, "columns") else [data.dtype]
        for position, kind in enumerate(kinds):
            letter = getattr(kind, "kind", "")
            if letter not in ("i", "u", "O") and not getattr(kind, "is_integer", bool)():
                continue
            column = data if not hasattr(data, "columns") else _column(data, position)
            known = nw.from_native(column, series_only=True).drop_nulls().to_numpy()
            yield from [known] if letter != "O" else _whole_numbers(known)
        return
    if not (hasattr(data, "dtype") or isinstance(data, (list, tuple))):
        return
    try:
        values = np.asarray(data)
    except (TypeError, ValueError):  # rows of different lengths, which are refused elsewhere
        return
    if values.dtype.kind in "iu" and values.dtype.itemsize == 8:
        yield values
    elif values.dtype.kind == "O":
        whole = [value for value in values.flat if isinstance(value, (int, np.integer))]
        yield np.array(whole, dtype=object)
