"""Features and a regressor for each group of targets."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone

from ctfa import _validation as check
from ctfa._feature_aggregator import FeatureAggregator
from ctfa.core.types import FloatArray


def keep_features(n_features: int, n_groups: int) -> list[FeatureAggregator]:
    """Skip Phase II: fitted aggregators that leave every feature by itself."""
    identity = FeatureAggregator()._fit_identity(n_features)
    return [copy.copy(identity) for _ in range(n_groups)]


def fit_features(
    template: FeatureAggregator,
    sample: check.Sample,
    means: FloatArray,
    names: Sequence[str],
    n_jobs: int | None,
) -> list[FeatureAggregator]:
    """Phase II for the mean of each group, the inputs factored once for all."""
    if np.isnan(means).any():
        return [
            _fit_own_rows(template, sample, mean, name)
            for mean, name in zip(means.T, names, strict=True)
        ]
    factored = template._factor(sample, means[:, 0])
    return list(
        Parallel(n_jobs=n_jobs)(
            delayed(_named(template, sample)._fit_factored)(factored, mean, name)
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


def fit_observed(
    regressor: Any, inputs: FloatArray, column: FloatArray, weights: FloatArray | None
) -> Any:
    """Fit a regressor to the rows where a column is observed."""
    rows = ~np.isnan(column)
    if rows.all():
        extra = {} if weights is None else {"sample_weight": weights}
        return regressor.fit(inputs, column, **extra)
    extra = {} if weights is None else {"sample_weight": weights[rows]}
    return regressor.fit(inputs[rows], column[rows], **extra)


def reduced(features: FeatureAggregator, inputs: FloatArray) -> FloatArray:
    """The means of one group's features; the features themselves where none were merged."""
    partition = features.partition_
    return inputs if partition.n_groups == partition.n_variables else partition.mean(inputs)


def _named(template: FeatureAggregator, sample: check.Sample) -> FeatureAggregator:
    aggregator: FeatureAggregator = clone(template)
    aggregator.n_features_in_ = sample.inputs.shape[1]
    return aggregator


def _fit_own_rows(
    template: FeatureAggregator, sample: check.Sample, mean: FloatArray, name: str
) -> FeatureAggregator:
    """Phase II of a group on the rows where any of its members is observed."""
    rows = np.flatnonzero(~np.isnan(mean))
    own = sample.take(rows)
    return _named(template, own)._fit_factored(template._factor(own, mean[rows]), mean[rows], name)
