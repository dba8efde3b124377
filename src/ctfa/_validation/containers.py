"""Frames and series of pandas and polars, taken apart and handed back."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

from ctfa.core.libraries import imported
from ctfa.core.types import FloatArray


def hand_back(
    values: FloatArray, labels: Sequence[Any], library: str | None, rows: Any, *, is_vector: bool
) -> Any:
    """Columns in the container the targets came in, with the row index of ``rows``."""
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
