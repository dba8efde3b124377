"""Coefficients of groups whose models are linear, feature by feature, with standard errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import LinearRegression

from ctfa import _validation as check
from ctfa._group_models import reduced
from ctfa._multi_input import MultiInputCTFARegressor
from ctfa._pooled import PooledCTFARegressor
from ctfa._regressor import CTFARegressor
from ctfa.core.own_fits import OwnRows, mean_series
from ctfa.core.series import Series
from ctfa.core.types import FloatArray, IntArray
from ctfa.report._fitted import Fitted
from ctfa.report._given import Given
from ctfa.report._material import Coefficients


class GroupRows(NamedTuple):
    """What a group has learned from."""

    inputs: FloatArray  # (rows, features of the group)
    target: FloatArray  # (rows,)
    sample: IntArray  # (rows,): sample that a row is of
    n_levels: int = 1  # means that were taken off: of the group, or of each of its members
    weights: FloatArray | None = None  # how many rows each stands for; None: one each

    @property
    def n_rows(self) -> int:
        """How many there are, or are stood for."""
        return len(self.inputs) if self.weights is None else round(float(self.weights.sum()))


#: Rows of each group.
Rows = Callable[[int], GroupRows]


def coefficients_of(fitted: Fitted, rows: Rows | None = None) -> Coefficients | None:
    """What one unit of each feature does to a group's prediction; None if models are not linear.

    A mean of k features hands each of them a k-th of its coefficient. With the rows of fit, inputs
    that were not scaled are told in units of their spread and least squares has standard errors.
    """
    if fitted.is_aggregator:
        return None
    known = [coef for model in fitted.model.regressors_ if (coef := _coef(model)) is not None]
    if len(known) < len(fitted.model.regressors_):
        return None
    n_groups, n_features = fitted.partition.n_groups, len(fitted.features)
    value = np.full((n_groups, n_features), np.nan)
    error = np.full((n_groups, n_features), np.nan)
    # Of features that all targets share in the spread of each, as targets are: they compare then.
    scaled = isinstance(fitted.model, CTFARegressor) and fitted.aggregator.scale == "standard"
    for group, coef in enumerate(known):
        columns = fitted.columns(group)
        aggregator = fitted.model.features_[group]
        spread = np.ones(columns.size)
        if rows is not None:
            own = rows(group)
            if scaled:
                centred = own.inputs - np.average(own.inputs, axis=0, weights=own.weights)
                spread = np.sqrt(np.average(centred**2, axis=0, weights=own.weights))
            columns_of = reduced(aggregator, own.inputs)
            errors = _standard_errors(fitted.model.regressors_[group], columns_of, own)
            error[group, columns] = aggregator.partition_.share_out(errors) * spread
        value[group, columns] = aggregator.partition_.share_out(coef) * spread
    has_errors = rows is not None and bool(np.isfinite(error).any())
    return Coefficients(
        fitted.features, value, error if has_errors else None, _units(fitted, rows is not None)
    )


def rows_of(fitted: Fitted, given: Given) -> Rows | None:
    """Rows that each group's model was fitted to, from the data of fit."""
    model = fitted.model
    if isinstance(model, PooledCTFARegressor):
        return _rows_of_tasks(fitted, given)
    if isinstance(model, MultiInputCTFARegressor):
        read = model._read_again(given.X, given.Y, None, given.baseline)
        return rows_of_read(fitted, *read)
    if isinstance(model, CTFARegressor):
        return rows_of_read(fitted, *model._read_again(given.X, given.Y, None, given.baseline))
    return None


def rows_of_read(fitted: Fitted, sample: check.Sample, targets: check.Targets) -> Rows:
    """The same of data that have been read; they may stand in for others."""
    model = fitted.model
    if isinstance(model, MultiInputCTFARegressor):
        series = model._series(sample, targets)
        return _rows_of_own(fitted, series.in_units(model._units, overwrite=True))
    inputs = model._residual(sample.inputs, sample.baseline)
    means = model.targets_._mean(targets.values, sample.baseline)
    stands_for = None if sample.counts is None else sample.weights

    def of(group: int) -> GroupRows:
        seen = np.flatnonzero(~np.isnan(means[:, group]))
        weights = None if stands_for is None else stands_for[seen]
        return GroupRows(inputs[seen], means[seen, group], seen, weights=weights)

    return of


def _rows_of_tasks(fitted: Fitted, given: Given) -> Rows:
    """Rows of the tasks of a group, about the means of each."""
    X, y = np.asarray(given.X, dtype=np.float64), np.asarray(given.Y, dtype=np.float64)
    position = np.searchsorted(fitted.model.tasks_, np.asarray(given.tasks))

    def stacked(group: int) -> GroupRows:
        members = fitted.partition.groups[group]
        rows = np.flatnonzero(np.isin(position, members))
        both = np.column_stack([X[rows], y[rows]])
        for member in members.tolist():
            own = position[rows] == member
            both[own] -= both[own].mean(axis=0)
        return GroupRows(both[:, :-1], both[:, -1], rows, members.size)

    return stacked


def _rows_of_own(fitted: Fitted, series: Series) -> Rows:
    """The same where targets have inputs of their own: averaged, or stacked."""
    slots, groups = fitted.model._models.slots, fitted.partition.groups
    stands_for = None if series.counts is None else series.weights
    if fitted.shares == "mean inputs":
        means = mean_series(series, fitted.partition).values

        def averaged(group: int) -> GroupRows:
            inputs, target = means[group, :-1][slots[group]].T, means[group, -1]
            seen = np.flatnonzero(~(np.isnan(inputs).any(axis=1) | np.isnan(target)))
            weights = None if stands_for is None else stands_for[seen]
            return GroupRows(inputs[seen], target[seen], seen, weights=weights)

        return averaged
    own = OwnRows.of(series)

    def stacked(group: int) -> GroupRows:
        members = groups[group]
        inputs = own.inputs[members][:, slots[group]].transpose(0, 2, 1)
        complete = own.complete[members]
        sample = np.nonzero(complete)[1]
        inputs, target = inputs[complete], own.target[members][complete]
        if stands_for is None:
            return GroupRows(inputs, target, sample, members.size)
        root = own.weight[sample]
        weights = stands_for[sample]
        return GroupRows(inputs / root[:, None], target / root, sample, members.size, weights)

    return stacked


def _coef(regressor: Any) -> FloatArray | None:
    coef = getattr(regressor, "coef_", None)
    return None if coef is None else np.asarray(coef, dtype=np.float64).reshape(-1)


def _standard_errors(regressor: Any, inputs: FloatArray, rows: GroupRows) -> FloatArray:
    """Of least squares given the groups; NaN for any other model, or without rows to spare.

    Members of a group that are stacked share what disturbs a sample, so that all rows of one sample
    count as one draw (a sandwich).
    """
    n, k = rows.n_rows, inputs.shape[1]
    unknown = np.full(k, np.nan)
    plain = type(regressor) is LinearRegression and regressor.fit_intercept
    spare = n - k - rows.n_levels
    if not plain or regressor.positive or spare < 1:
        return unknown
    left = rows.target - inputs @ np.asarray(regressor.coef_).reshape(-1)
    left = left - np.average(left, weights=rows.weights)
    centred = inputs - np.average(inputs, axis=0, weights=rows.weights)
    if rows.weights is not None:
        centred, left = centred * np.sqrt(rows.weights)[:, None], left * np.sqrt(rows.weights)
    length = np.sqrt((centred**2).sum(axis=0))
    if not length.all():
        return unknown
    _, singular, turned = np.linalg.svd(centred / length, full_matrices=False)
    if singular[-1] <= singular[0] * n * np.finfo(float).eps:
        return unknown
    root = turned / singular[:, None] / length
    samples, draw = np.unique(rows.sample, return_inverse=True)
    if samples.size == len(inputs):
        return np.asarray(np.sqrt(left @ left / spare * (root**2).sum(axis=0)))
    if samples.size < 2 or rows.weights is not None:  # what rows of a sample share is in no sums
        return unknown
    scores = np.zeros((samples.size, k))
    np.add.at(scores, np.asarray(draw).reshape(-1), centred * left[:, None])
    factor = samples.size / (samples.size - 1.0) * (n - 1.0) / spare
    return np.asarray(np.sqrt(factor * ((scores @ root.T @ root) ** 2).sum(axis=0)))


def _units(fitted: Fitted, with_data: bool) -> str:
    standard = fitted.aggregator.scale == "standard"
    if fitted.shares == "slopes":
        return "units of the target for one unit of the feature"
    target = "standard deviations of the target" if standard else "units of the target"
    known = isinstance(fitted.model, MultiInputCTFARegressor) or with_data
    feature = "standard deviation" if standard and known else "unit"
    return f"{target} for one {feature} of the feature"
