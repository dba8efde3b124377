"""Features and a regressor for each group of targets."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, Ridge

from ctfa import _validation as check
from ctfa._collections import Collection
from ctfa._threads import one_thread
from ctfa.core.design import Design, weighted_mean
from ctfa.core.ridge import Ridge as RidgeFit
from ctfa.core.types import FloatArray
from ctfa.estimators.feature_aggregator import FeatureAggregator


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
    """One regressor per group, on its features; None is the default one."""
    return list(
        Parallel(n_jobs=n_jobs)(
            delayed(fit_observed)(
                regressor,
                reduced(aggregator, sample.inputs),
                mean,
                sample.weights,
                sample.n_samples,
                sample.is_single,
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
            delayed(fit_observed)(regressor, table[:, :-1], table[:, -1], weights)
            for table in tables
        )
    )


def fit_observed(
    regressor: Any,
    inputs: FloatArray,
    column: FloatArray,
    weights: FloatArray | None,
    n_samples: int | None = None,
    single: bool | None = None,
) -> Any:
    """Fit a regressor, as ``fit_regressor`` does, to the rows where a column is observed."""
    rows = ~np.isnan(column)
    if rows.all():
        return fit_regressor(regressor, inputs, column, weights, n_samples, single)
    kept = None if weights is None else weights[rows]
    return fit_regressor(regressor, inputs[rows], column[rows], kept, single=single)


def fit_regressor(
    template: Any,
    inputs: FloatArray,
    target: FloatArray,
    weights: FloatArray | None,
    n_samples: int | None = None,
    single: bool | None = None,
) -> Any:
    """A fresh copy of a regressor, fitted; ``target`` is one column, or several if it is linear.

    None is least squares, or ridge regression where the rows do not carry that; ``n_samples`` is
    how many they stand in for, if others, ``single`` whether they were made of numbers in single
    precision, where that is known. Least squares is solved with columns at unit length,
    whoever asked for it: since version 1.9 scikit-learn drops directions of ``X`` weaker than 1e-6
    of the strongest, in the units given, and of pressures in Pa beside fluxes in kg m-2 s-1 the
    fluxes would get no coefficient.
    """
    if template is None or is_least_squares(template):
        with one_thread(inputs.shape, target.shape):
            return _fit_linear(template, inputs, target, weights, n_samples, single)
    extra = {} if weights is None else {"sample_weight": weights}
    return clone(template).fit(inputs, target, **extra)


def is_least_squares(regressor: Any) -> bool:
    """Whether a regressor is least squares with an intercept, and nothing else is asked of it."""
    if type(regressor) is not LinearRegression:
        return False
    usual = getattr(LinearRegression(), "tol", None)  # before version 1.7 there is none
    same = getattr(regressor, "tol", None) == usual
    return bool(same and regressor.fit_intercept and not regressor.positive)


def _fit_linear(
    template: LinearRegression | None,
    inputs: FloatArray,
    target: FloatArray,
    weights: FloatArray | None,
    n_samples: int | None,
    single: bool | None,
) -> LinearRegression | Ridge:
    """What ``fit`` of scikit-learn's finds, without its checks, which take longer than the fit."""
    design = Design.of(inputs, weights, n_samples, single)
    # Rounding depends on how a column lies in memory, which is another way in a worker.
    columns = np.ascontiguousarray(target.reshape(inputs.shape[0], -1))
    regressor: LinearRegression | Ridge
    if template is None and design.n_samples <= design.rank + check.SPARE:
        penalised = RidgeFit.of(inputs, design.centre(columns), weights)
        coef = penalised.coefficients(design.centre(columns))
        regressor = Ridge(penalised.penalty[0] if target.ndim == 1 else penalised.penalty)
        intercept = weighted_mean(columns, design.row_scale) - design.mean @ coef
    else:
        coef, intercept = design.coefficients(columns)
        options = {} if template is None else template.get_params()
        regressor = LinearRegression(**options)
        regressor.rank_ = design.rank
    regressor.n_features_in_ = inputs.shape[1]
    if target.ndim == 1:
        regressor.coef_, regressor.intercept_ = coef[:, 0].copy(), float(intercept[0])
    else:
        regressor.coef_, regressor.intercept_ = np.ascontiguousarray(coef.T), intercept
    return regressor


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
