"""Errors of each task, and the figures made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from ctfa.core.types import FloatArray
from ctfa_study.comparison._problem import Problem

#: What is kept of every task: enough for every metric.
PARTS = ("mse", "n_test", "mean_mse", "test_variance", "train_variance", "train_range")
PerTask = Mapping[str, FloatArray]


def known_mean(figures: FloatArray, axis: int = -1) -> FloatArray:
    """Mean of the figures that are defined; NaN where none is."""
    known = ~np.isnan(figures)
    count = known.sum(axis=axis)
    total = np.where(known, figures, 0.0).sum(axis=axis)
    return np.asarray(np.where(count > 0, total / np.maximum(count, 1), np.nan))


def root_mean_square(figures: FloatArray) -> FloatArray:
    """Root of the mean of squares of the figures that are defined."""
    return np.asarray(np.sqrt(known_mean(figures**2)))


class Metric(NamedTuple):
    """A figure for each task, and how those of a split, (..., n_tasks), make one figure."""

    of_tasks: Callable[[PerTask], FloatArray]
    label: str
    greater_is_better: bool = False
    of_split: Callable[[FloatArray], FloatArray] = known_mean


def _ratio(above: FloatArray, below: FloatArray) -> FloatArray:
    """Quotient; NaN for a task that does not vary, whose error has no unit."""
    out = np.full(above.shape, np.nan)
    return np.asarray(np.divide(above, below, out=out, where=below > 0.0))


METRICS: dict[str, Metric] = {
    "nrmse": Metric(
        lambda t: _ratio(np.sqrt(t["mse"]), t["train_range"]),
        "NRMSE: root mean squared error of a task / range of its training targets, mean over tasks",
    ),
    "nrmse-rms": Metric(
        lambda t: _ratio(np.sqrt(t["mse"]), t["train_range"]),
        "root mean squared error of a task / range of its training targets, root mean square over "
        "tasks",
        of_split=root_mean_square,
    ),
    "nrmse-std": Metric(
        lambda t: _ratio(np.sqrt(t["mse"]), np.sqrt(t["train_variance"])),
        "root mean squared error of a task / standard deviation of its training targets, mean over "
        "tasks",
    ),
    "mse": Metric(lambda t: t["mse"], "MSE: mean squared error in squared units of the targets"),
    "smse": Metric(
        lambda t: _ratio(t["mse"], t["train_variance"]),
        "mean squared error of a task / variance of its training targets, mean over tasks",
    ),
    "arrmse": Metric(
        lambda t: np.sqrt(_ratio(t["mse"], t["mean_mse"])),
        "aRRMSE: root mean squared error of a task / that of its training mean, mean over tasks",
    ),
    "r2": Metric(
        lambda t: 1.0 - _ratio(t["mse"], t["test_variance"]),
        "R2 of a task on the rows left out, mean over tasks",
        greater_is_better=True,
    ),
}


def errors_of_tasks(train: Problem, test: Problem, predicted: FloatArray) -> dict[str, FloatArray]:
    """Everything a metric may ask for; NaN for a task without rows to be judged by."""
    table = np.full((len(PARTS), test.n_tasks), np.nan)
    for task in range(test.n_tasks):
        judged = test.of_task(test.judged, task)
        true = test.of_task(test.Y, task)[judged]
        seen = train.of_task(train.Y, task)
        seen = seen[~np.isnan(seen)]
        table[1, task] = true.size
        if not true.size or not seen.size:
            continue
        error = test.of_task(predicted, task)[judged] - true
        table[:, task] = (
            np.mean(error**2),
            true.size,
            np.mean((true - seen.mean()) ** 2),
            true.var(),
            seen.var(),
            np.ptp(seen),
        )
    return dict(zip(PARTS, table, strict=True))
