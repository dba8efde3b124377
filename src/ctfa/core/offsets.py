"""One intercept per task: how far each is to be believed where slopes are common.

Tasks of one group share their slopes and differ by an offset, taken to be drawn about the group's
intercept: ``y = a + x'w + u_i + e`` with ``u`` of variance ``ratio`` times that of ``e``. A task of
few rows then keeps little of its own offset, one of many rows nearly all of it, and slopes of
inputs that do not vary within a task (the kind of a school) are still learned from tasks' means.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import linalg

from ctfa.core.types import FloatArray


class TaskSummary(NamedTuple):
    """A task's rows, as far as any model with common slopes can tell them apart."""

    triangle: FloatArray  # (k, D + 1) of the centred rows, inputs before the target
    mean: FloatArray  # (D + 1,)
    weight: float  # sum of the rows' weights
    n_rows: int


class Offsets(NamedTuple):
    """A group's common slopes and what its tasks add to them."""

    values: FloatArray  # (T,), shrunk towards zero
    kept: FloatArray  # (T,), the share of its own mean residual that each task keeps
    intercept: float
    slopes: FloatArray  # (D,)
    ratio: float  # variance of offsets over that of the noise


def summarise(
    inputs: FloatArray,
    target: FloatArray,
    weights: FloatArray | None = None,
    n_samples: int | None = None,
) -> TaskSummary:
    """Reduce the rows of one task; ``n_samples`` where they stand in for so many."""
    rows = np.column_stack((inputs, target))
    n_rows = rows.shape[0]
    weight = np.ones(n_rows) if weights is None else weights
    mean = weight @ rows / weight.sum()
    mean = mean + weight @ (rows - mean) / weight.sum()
    centred = rows - mean
    # A large level leaves rounding of the mean, which would pass for one more direction.
    centred -= weight @ centred / weight.sum()
    # A column that is constant is constant, whatever rounding its mean has.
    level = np.abs(rows).max(axis=0)
    centred[:, np.abs(centred).max(axis=0) <= CONSTANT * level] = 0.0
    if weights is not None:
        centred *= np.sqrt(weight)[:, None]
    if n_rows > centred.shape[1]:
        centred = np.asarray(np.linalg.qr(centred, mode="r"))
    return TaskSummary(centred, mean, float(weight.sum()), n_samples or n_rows)


def random_intercepts(tasks: Sequence[TaskSummary]) -> Offsets:
    """Fit common slopes and shrunken offsets; their variance by restricted likelihood.

    The likelihood is a function of the ratio of the two variances alone, and for a given ratio the
    slopes are those of the centred rows together with the tasks' means, each weighing
    ``n / (1 + n ratio)``. In coordinates in which all rows together have unit moments these fits
    are well conditioned for any ratio that matters, so all ratios are tried at once. A task by
    itself, or tasks whose means the inputs fit exactly, say nothing of the ratio: it is zero.
    """
    weight = np.array([task.weight for task in tasks])
    means = np.stack([task.mean for task in tasks])
    within = np.concatenate([task.triangle for task in tasks])
    if within.shape[0] > within.shape[1]:
        within = np.asarray(np.linalg.qr(within, mode="r"))
    about = means - means[0]
    about -= weight @ about / weight.sum()
    # Equal means are equal, whatever rounding each has: a constant input is no direction.
    about[:, np.abs(about).max(axis=0) <= CONSTANT * np.abs(means).max(axis=0)] = 0.0
    grand = weight @ means / weight.sum()
    table = np.concatenate((within, np.sqrt(weight)[:, None] * about))
    basis = _basis(table[:, :-1])
    rank = basis.shape[1]
    # The intercept first: the means' own coordinate is one.
    inner = np.column_stack((np.zeros(within.shape[0]), within[:, :-1] @ basis, within[:, -1]))
    outer = np.column_stack((np.ones(len(tasks)), about[:, :-1] @ basis, about[:, -1]))
    inner[:, 0], outer[:, 0] = 0.0, 1.0 / np.sqrt(weight.sum())
    n_rows = sum(task.n_rows for task in tasks)
    within = inner.T @ inner
    ratio = _best_ratio(within, outer, weight, n_rows - rank - 1) if len(tasks) > 1 else 0.0
    coordinates = _profile(within, outer, weight, np.array([ratio]))[0][0]
    slopes = basis @ coordinates[1:]
    level = float(coordinates[0] / np.sqrt(weight.sum()))
    kept = weight * ratio / (1.0 + weight * ratio)
    offset = about[:, -1] - about[:, :-1] @ slopes - level
    intercept = float(grand[-1] - grand[:-1] @ slopes + level)
    return Offsets(kept * offset, kept, intercept, slopes, ratio)


def _profile(
    within: FloatArray, means: FloatArray, weight: FloatArray, ratios: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Coefficients, residual sums of squares and log determinants for each ratio of variances."""
    count = weight / (1.0 + ratios[:, None] * weight)
    weighted = means * count[:, :, None]
    gram = within + np.swapaxes(weighted, 1, 2) @ means
    left, right = gram[:, :-1, :-1], gram[:, :-1, -1:]
    coef = np.asarray(np.linalg.solve(left, right))
    residual = gram[:, -1, -1] - (right * coef).sum(axis=(1, 2))
    return coef[:, :, 0], np.asarray(residual), np.asarray(np.linalg.slogdet(left)[1])


def _best_ratio(within: FloatArray, means: FloatArray, weight: FloatArray, dof: int) -> float:
    """Ratio of the greatest restricted likelihood, zero where the offsets have no variance."""
    total = float((within + (means * weight[:, None]).T @ means)[-1, -1])
    if dof <= 0 or not total > 0.0:
        return 0.0

    def deviance(ratios: FloatArray) -> FloatArray:
        _, residual, determinant = _profile(within, means, weight, ratios)
        residual = np.maximum(residual, ROUNDING * total)  # noise below rounding is rounding
        spread = np.log1p(ratios[:, None] * weight).sum(axis=1)
        return np.asarray(dof * np.log(residual) + spread + determinant)

    unit = weight.size / weight.sum()
    logs = np.arange(-3.0, 9.01, 0.5)
    values = deviance(np.concatenate(([0.0], unit * 10.0**logs)))
    at = int(np.argmin(values))
    if values[at] >= values[0] - FLAT:
        return 0.0
    for step in (0.1, 0.02):
        middle = logs[at - 1] if step == 0.1 else float(logs[at])
        logs = middle + step * np.arange(-5.0, 5.1)
        at = int(np.argmin(deviance(unit * 10.0**logs)))
    return float(unit * 10.0 ** logs[at])


def _basis(rows: FloatArray) -> FloatArray:
    """Columns that turn the inputs into orthonormal coordinates, as many as their rank."""
    if not rows.shape[1]:  # older versions of scipy do not factor what has no columns
        return np.empty((0, 0))
    length = np.sqrt(np.einsum("ij,ij->j", rows, rows))
    unit = np.where(length > 0.0, length, 1.0)
    _, values, right = linalg.svd(rows / unit, full_matrices=False, check_finite=False)
    kept = values > RANK_CUTOFF * values.max(initial=0.0)
    return np.asarray((right[kept] / values[kept, None]).T / unit[:, None])


#: Singular values of unit columns below this share of the largest are rounding.
RANK_CUTOFF = 1e-10
#: A column that varies by less than this share of its level is constant.
CONSTANT = 1e-14
#: Residual squares below this share of the total are rounding.
ROUNDING = 1e-15
#: Gain in deviance below which offsets are taken to have no variance.
FLAT = 1e-6
