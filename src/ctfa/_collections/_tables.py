"""Tables of a fit as they must be, before a row of them is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ctfa import _validation as check
from ctfa._collections import _dask
from ctfa._collections._devices import is_foreign, to_numpy


def as_table(data: Any, what: str) -> Any:
    """An array of numbers, where it lies; None stays None."""
    if data is None:
        return None
    if is_foreign(data):
        check.refuse_kind(data.dtype, what)
        if "int64" in str(data.dtype):
            check.refuse_rounded(to_numpy(data), what)
        table = data
    else:
        check.require_plain_numbers(data, what)
        check.refuse_mask(data, what)
        check.refuse_kind(getattr(data, "dtype", None), what)
        table = check.read_numbers(data, what)
    if table.ndim not in (1, 2):
        raise ValueError(
            f"expected a table of rows and columns, got an array of shape {tuple(table.shape)} as "
            f"{what}: reshape it to two dimensions."
        )
    return table


def read_table(data: Any, what: str) -> Any:
    """A table in chunks, or where it lies; None stays None."""
    return _dask.as_array(data, what) if _dask.is_dask(data) else as_table(data, what)


def read_lazy_weights(sample_weight: Any) -> Any:
    """Weights that go with rows in chunks; None where all are equal."""
    if sample_weight is None:
        return None
    if _dask.is_dask(sample_weight):
        weights = _dask.as_array(sample_weight, "sample_weight")
    else:
        weights = np.asarray(check.read_weights(to_numpy(sample_weight), None))
        if weights.ndim == 0:
            return None
    check.require_one_weight_each(weights.shape)
    return weights


def require_tables(tables: Sequence[Any], names: Sequence[str], labels: Sequence[Any]) -> None:
    """Refuse tables of a fit by their shapes and the labels of their columns."""
    baseline, inputs, targets = tables
    check.require_two_dimensions(inputs, names[1])
    for table, name in ((inputs, names[1]), (targets, names[2]), (baseline, names[0])):
        if table is not None and table.ndim == 2:
            check.require_some_columns(int(table.shape[1]), name)
    for own, name in zip(labels, names, strict=True):
        check.require_unique_labels(own, name)
