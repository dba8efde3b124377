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


class PairFits(NamedTuple):
    """Each target and its group's series, on the rows that both have; one entry a target."""

    noise: FloatArray  # residual variance of the target
    shared_noise: FloatArray  # residual covariance of the target and its group's series
    explained: FloatArray  # sums of squares of their difference
    residual: FloatArray
    n_samples: IntArray
    rank: IntArray
    dof: IntArray


def observed_mean(partition: Partition, values: FloatArray) -> FloatArray:
    """Average the observed members of each group row by row: ``(n, L) -> (n, n_groups)``.

    NaN where no member is observed.
    """
    observed = ~np.isnan(values)
    share = partition.mean(observed.astype(float))
    filled = partition.mean(np.where(observed, values, 0.0))
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
        design = _design(X, rows, row_scale)
        values = columns[np.ix_(rows, members)]
        fitted, _ = design.coordinates(design.centre(values))
        coef[:, members] = design.root.T @ fitted
        level = weighted_mean(values, design.row_scale)
        intercept[members] = level - design.mean @ coef[:, members]
    return ColumnFits(intercept, coef)


def pair_fits(
    X: FloatArray, values: FloatArray, partition: Partition, row_scale: FloatArray | None = None
) -> PairFits:
    """Compare each target with the observed mean of its group, on the rows that both have.

    A group has every row that its member has, so these are the target's own rows, and targets
    of one pattern share one factorization. Where the rows leave no degrees of freedom the
    residuals, and with them both variances, are zero.
    """
    means = observed_mean(partition, values)
    n_targets = values.shape[1]
    numbers = np.zeros((4, n_targets))
    counts = np.zeros((2, n_targets), dtype=np.intp)
    for rows, members in patterns(~np.isnan(values)):
        counts[0, members] = rows.sum()
        if not rows.any():
            continue
        design = _design(X, rows, row_scale)
        own = values[np.ix_(rows, members)]
        group = means[np.ix_(rows, partition.labels[members])]
        _, left = design.coordinates(design.centre(own))
        # The difference is formed before it is fitted: what the two share would round it away.
        explained, unexplained = design.coordinates(design.centre(group - own))
        numbers[0, members] = np.einsum("ij,ij->j", left, left)
        numbers[1, members] = np.einsum("ij,ij->j", left, left + unexplained)
        numbers[2, members] = np.einsum("ij,ij->j", explained, explained)
        numbers[3, members] = np.einsum("ij,ij->j", unexplained, unexplained)
        counts[1, members] = design.rank
        rounding = ROUNDING * np.einsum("ij,ij->j", own, own)
        numbers[2:, members] *= numbers[2:, members] > rounding
    dof = counts[0] - counts[1] - 1
    numbers[np.ix_([0, 1, 3], dof < 1)] = 0.0
    noise, shared = numbers[:2] / np.maximum(dof, 1)
    return PairFits(noise, shared, numbers[2], numbers[3], counts[0], counts[1], dof)


def _design(X: FloatArray, rows: BoolArray, row_scale: FloatArray | None) -> Design:
    return Design.of(X[rows], None if row_scale is None else row_scale[rows] ** 2)
