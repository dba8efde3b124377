"""Means and fits of series with missing values (NaN), each on the rows that it has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ctfa.core.design import Design, weighted_mean
from ctfa.core.partition import Partition
from ctfa.core.types import BoolArray, FloatArray, IntArray

#: A squared difference smaller than this, relative to what is subtracted, is rounding: copies, and
#: means of copies, differ by nothing.
ROUNDING = 1e-26


class ColumnFits(NamedTuple):
    """Predictions of a column are ``intercept + X @ coef``."""

    intercept: FloatArray  # (m,)
    coef: FloatArray  # (n_inputs, m)


def observed_mean(
    partition: Partition, values: FloatArray, weights: FloatArray | None = None
) -> FloatArray:
    """Average the observed members of each group row by row: ``(n, L) -> (n, n_groups)``.

    By their ``weights`` (L,), if these are given. NaN where no member is observed.
    """
    observed = ~np.isnan(values)
    share = partition.mean(observed.astype(float), weights)
    filled = partition.mean(np.where(observed, values, 0.0), weights)
    return np.where(share > 0.0, filled / np.where(share > 0.0, share, 1.0), np.nan)


def patterns(observed: BoolArray) -> Iterator[tuple[BoolArray, IntArray]]:
    """Rows observed, and the columns that are observed in exactly these, one pattern at a time."""
    packed = np.packbits(observed, axis=0)
    _, first, which = np.unique(packed, axis=1, return_index=True, return_inverse=True)
    which = which.reshape(-1)
    order = np.argsort(which, kind="stable")
    for column, members in zip(
        first, np.split(order, np.cumsum(np.bincount(which))[:-1]), strict=True
    ):
        yield observed[:, column], members


def fit_columns(
    X: FloatArray, columns: FloatArray, row_scale: FloatArray | None = None
) -> ColumnFits:
    """Fit each column by least squares with an intercept on the rows where it is observed.

    The inputs are factored once for each distinct pattern. Coefficients are the shortest ones
    where the rows do not determine them; a column without any row is predicted by zero, which is
    its mean in the units it came in.
    """
    n_columns = columns.shape[1]
    intercept, coef = np.zeros(n_columns), np.zeros((X.shape[1], n_columns))
    for rows, members in patterns(~np.isnan(columns)):
        if not rows.any():
            continue
        design = subset_design(X, rows, row_scale)
        values = columns[np.ix_(rows, members)]
        fitted, _ = design.coordinates(design.centre(values))
        coef[:, members] = design.root.T @ fitted
        level = weighted_mean(values, design.row_scale)
        intercept[members] = level - design.mean @ coef[:, members]
    return ColumnFits(intercept, coef)


def subset_design(X: FloatArray, rows: BoolArray, row_scale: FloatArray | None) -> Design:
    """The inputs on some of the rows."""
    return Design.of(X[rows], None if row_scale is None else row_scale[rows] ** 2)
