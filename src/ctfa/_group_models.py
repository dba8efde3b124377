"""Features and a regressor for each group of targets."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone

from ctfa import _validation as check
from ctfa._collections import Collection
from ctfa._feature_aggregator import FeatureAggregator
from ctfa._threads import one_thread_for
from ctfa.core.types import FloatArray


def keep_features(model: Any, n_groups: int) -> list[FeatureAggregator]:
    """Skip Phase II: fitted aggregators that leave every feature by itself."""
    identity = FeatureAggregator()._fit_identity(model.n_features_in_)
    check.copy_input_names(model, identity)
    return [copy.copy(identity) for _ in range(n_groups)]


def fit_features(
    model: Any,
    template: FeatureAggregator,
    sample: check.Sample,
    means: FloatArray,
    names: Sequence[str],
    n_jobs: int | None,
) -> list[FeatureAggregator]:
    """Phase II for the mean of each group, the inputs factored once for all.

    Features are called as in the model that has read them.
    """
    if np.isnan(means).any():
        return [
            _fit_own_rows(_named(model, template), sample, mean, name)
            for mean, name in zip(means.T, names, strict=True)
        ]
    factored = template._factor(sample, means[:, 0])
    return list(
        Parallel(n_jobs=n_jobs)(
            delayed(_named(model, template)._fit_factored)(factored, mean, name)
            for mean, name in zip(means.T, names, strict=True)
        )
    )


def fit_regressors(
    regressor: Any,
    features: Sequence[FeatureAggregator],
    sample: check.Sample,
    means: FloatArray,
    n_jobs: int | None,
) -> list[Any]:
    """One regressor a group, on its features."""
    return list(
        Parallel(n_jobs=n_jobs)(
            delayed(fit_observed)(
                clone(regressor), reduced(aggregator, sample.inputs), mean, sample.weights
            )
            for aggregator, mean in zip(features, means.T, strict=True)
        )
    )


def fit_to_rows(
    regressor: Any,
    features: Sequence[FeatureAggregator],
    data: Collection,
    rows_of: Callable[..., FloatArray],
    n_jobs: int | None,
) -> list[Any]:
    """One regressor a group that learns from rows, which its features make few enough to gather.

    All groups in one pass over the data where that fits, a pass a group otherwise.
    """
    name = f"regressor={type(regressor).__name__}()"
    instead = "Use LinearRegression, Ridge, Lasso or ElasticNet, which learn from sums"
    ends = np.cumsum([aggregator.n_groups_ + 1 for aggregator in features])
    weights = data.weights_in_memory()
    used = slice(None) if weights is None else weights > 0.0
    weights = None if weights is None else check.normalised(weights[used])

    def gathered(groups: list[int], width: int) -> FloatArray:
        return data.rows_of(partial(rows_of, groups), width, name, instead)[used]

    if data.has_room_for(int(ends[-1])):
        everything = gathered(list(range(len(features))), int(ends[-1]))
        tables: Iterable[FloatArray] = np.split(everything, ends[:-1], axis=1)
    else:
        tables = (gathered([k], a.n_groups_ + 1) for k, a in enumerate(features))
    return list(
        Parallel(n_jobs=n_jobs)(
            delayed(fit_observed)(clone(regressor), table[:, :-1], table[:, -1], weights)
            for table in tables
        )
    )


def fit_observed(
    regressor: Any, inputs: FloatArray, column: FloatArray, weights: FloatArray | None
) -> Any:
    """Fit a regressor to the rows where a column is observed."""
    rows = ~np.isnan(column)
    with one_thread_for(regressor, inputs.shape):
        if rows.all():
            extra = {} if weights is None else {"sample_weight": weights}
            return regressor.fit(inputs, column, **extra)
        extra = {} if weights is None else {"sample_weight": weights[rows]}
        return regressor.fit(inputs[rows], column[rows], **extra)


def reduced(features: FeatureAggregator, inputs: FloatArray) -> FloatArray:
    """The means of one group's features; the features themselves where none were merged."""
    partition = features.partition_
    return inputs if partition.n_groups == partition.n_variables else partition.mean(inputs)


def _named(model: Any, template: FeatureAggregator) -> FeatureAggregator:
    aggregator: FeatureAggregator = clone(template)
    check.copy_input_names(model, aggregator)
    return aggregator


def _fit_own_rows(
    aggregator: FeatureAggregator, sample: check.Sample, mean: FloatArray, name: str
) -> FeatureAggregator:
    """Phase II of a group on the rows where any of its members is observed."""
    rows = np.flatnonzero(~np.isnan(mean))
    own = sample.take(rows)
    return aggregator._fit_factored(aggregator._factor(own, mean[rows]), mean[rows], name)
