"""A model for each group of tasks with rows of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ctfa import _validation as check
from ctfa._threads import one_thread
from ctfa.core.design import about_means
from ctfa.core.offsets import Offsets, random_intercepts
from ctfa.core.types import FloatArray, IntArray
from ctfa.estimators.feature_aggregator import FeatureAggregator
from ctfa.estimators.group_models import fit_regressor, reduced
from ctfa.estimators.pooled_rule import TaskRows


class GroupFit(NamedTuple):
    """A fitted group of tasks."""

    features: FeatureAggregator
    offsets: Offsets
    regressor: Any


def fit_group(
    rows: TaskRows, features: FeatureAggregator, regressor: Any, *, aggregate: bool
) -> GroupFit:
    """Fit one group: its features, its tasks' offsets, and what is left to a regressor."""
    if aggregate:
        if rows.counts is not None and (features.cv is not None or features.solver == "ridge"):
            raise ValueError(
                "rows that stand in for others judge features by least squares, and on no folds: "
                "gather the rows for cv and for solver='ridge'."
            )
        sample = check.Sample(rows.within(rows.inputs), rows.weights, None, counts=rows.counts)
        target = rows.within(rows.target)
        features._fit_factored(features._factor(sample, target), target, "y within tasks")
    inputs = reduced(features, rows.inputs)
    with one_thread():
        offsets = random_intercepts(rows.summaries(inputs))
    left = rows.target - offsets.values[rows.index]
    model = fit_regressor(regressor, inputs, left, rows.weights, rows.n_samples)
    return GroupFit(features, offsets, model)


class Nearest(NamedTuple):
    """Where the inputs of each group lie."""

    means: FloatArray  # (groups, D)
    spread: FloatArray  # (D,)

    @classmethod
    def of(cls, rows: TaskRows, labels: IntArray) -> Nearest:
        """Means of each group's rows; spread within tasks, of all rows where there is none."""
        weights = np.ones(rows.index.size) if rows.weights is None else rows.weights
        of_row = labels[rows.index]
        means = np.stack(
            [
                np.average(rows.inputs[of_row == g], axis=0, weights=weights[of_row == g])
                for g in range(int(labels.max()) + 1)
            ]
        )
        spread = np.sqrt(np.average(rows.within(rows.inputs) ** 2, axis=0, weights=weights))
        about = about_means(rows.inputs, np.sqrt(weights))[1]
        whole = np.sqrt(np.average(about**2, axis=0, weights=weights))
        spread = np.where(spread > 1e-9 * whole, spread, whole)
        return cls(means, np.where(spread > 0.0, spread, 1.0))

    def groups_of(
        self, inputs: FloatArray, ids: Sequence[Any], strangers: Sequence[Any]
    ) -> dict[Any, int]:
        """Group nearest to the mean of each stranger's rows."""
        number = {task: k for k, task in enumerate(strangers)}
        others = np.array([number.get(task, -1) for task in ids])
        return {task: self.group_of(inputs[others == k].mean(axis=0)) for task, k in number.items()}

    def group_of(self, mean: FloatArray) -> int:
        """Group nearest to the mean inputs of a task."""
        gap = (mean - self.means) / self.spread
        return int(np.argmin((gap**2).sum(axis=1)))
