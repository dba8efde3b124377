"""Coefficients of every region's model, with standard errors."""

from __future__ import annotations

from typing import Any

import numpy as np

from ctfa._group_models import reduced
from ctfa._multi_input import MultiInputCTFARegressor
from ctfa.core.own_fits import OwnRows, mean_series
from ctfa.core.series import Series
from ctfa.core.types import AnyArray, BoolArray, FloatArray
from ctfa.labelled._arrays import Arrays
from ctfa.labelled._plan import Plan
from ctfa.report import Coefficients


def coefficients(
    model: Any, arrays: Arrays, plan: Plan, baseline: FloatArray | None
) -> Coefficients | None:
    """Coefficients in the units the model is fitted in; None where models are not linear.

    A mean of features gives each of its members an equal share of its coefficient. Standard errors
    are those of least squares given the groups, which were found in the same rows: descriptive, and
    too small where rows remember each other. Where rows of a group's members are stacked, members
    of the same row count as one draw. None for regressors that penalise.
    """
    names = [slot.name for slot in plan.slots]
    if not all(_is_linear(regressor) for regressor in model.regressors_):
        return None
    n_groups = model.n_groups_
    value = np.full((n_groups, len(names)), np.nan)
    error = np.full((n_groups, len(names)), np.nan)
    has = _slots(model, n_groups, len(names))
    exact = all(type(r).__name__ == "LinearRegression" for r in model.regressors_)
    rows = _rows(model, arrays, baseline) if exact else None
    for group in range(n_groups):
        features, regressor = model.features_[group], model.regressors_[group]
        share = _shares(features)
        columns = np.flatnonzero(has[group])
        value[group, columns] = share @ np.asarray(regressor.coef_, dtype=np.float64).reshape(-1)
        if rows is not None:
            covariance = rows.covariance(group, features, regressor)
            error[group, columns] = np.sqrt(np.einsum("ij,jk,ik->i", share, covariance, share))
    units = _units(model, plan)
    return Coefficients(names, value, error if exact else None, units)


def _units(model: Any, plan: Plan) -> str:
    standardised = model.targets_.scale == "standard"
    deviations = f"standard deviations of {plan.target}"
    if isinstance(model, MultiInputCTFARegressor) and standardised:
        return f"{deviations} per standard deviation of the feature"
    own = deviations if standardised else plan.target_units or f"units of {plan.target}"
    return f"{own} per unit of the feature"


def _is_linear(regressor: Any) -> bool:
    return hasattr(regressor, "coef_") and np.ndim(regressor.coef_) in (1, 2)


def _slots(model: Any, n_groups: int, n_slots: int) -> BoolArray:
    """Features that each group has."""
    if isinstance(model, MultiInputCTFARegressor):
        return np.asarray(model._models.slots)
    return np.ones((n_groups, n_slots), dtype=bool)


def _shares(features: Any) -> FloatArray:
    """What of each mean's coefficient a feature has, ``(n_features, n_means)``."""
    partition = features.partition_
    share = np.zeros((partition.n_variables, partition.n_groups))
    share[np.arange(partition.n_variables), partition.labels] = (
        1.0 / partition.sizes[partition.labels]
    )
    return share


class _SharedRows:
    """Rows of groups whose features are shared: the mean target on the reduced features."""

    def __init__(self, model: Any, arrays: Arrays, baseline: FloatArray | None) -> None:
        self.inputs = model._residual(arrays.X, baseline)
        self.means = model.targets_._mean(arrays.Y, baseline)

    def covariance(self, group: int, features: Any, regressor: Any) -> FloatArray:
        """Covariance of a group's coefficients."""
        target = self.means[:, group]
        kept = ~np.isnan(target)
        return _plain(reduced(features, self.inputs[kept]), target[kept], regressor)


class _OwnRows:
    """Rows of groups whose members have inputs of their own: averaged, or stacked."""

    def __init__(self, model: Any, arrays: Arrays, baseline: FloatArray | None) -> None:
        assert arrays.layout is not None
        series = Series.of(arrays.X, arrays.layout, arrays.Y, baseline=baseline)
        self.model, self.series = model, series.in_units(model._units, overwrite=True)
        averaged = model.aggregate_ == "mean"
        self.grouped = mean_series(self.series, model.partition_) if averaged else None
        self.own = None if averaged else OwnRows.of(self.series)

    def covariance(self, group: int, features: Any, regressor: Any) -> FloatArray:
        """Covariance of a group's coefficients."""
        slots = self.model._models.slots[group]
        if self.grouped is not None:
            inputs = self.grouped.values[group, :-1][slots].T
            target = self.grouped.values[group, -1]
            kept = ~(np.isnan(inputs).any(axis=1) | np.isnan(target))
            return _plain(reduced(features, inputs[kept]), target[kept], regressor)
        assert self.own is not None
        members = self.model.partition_.groups[group]
        inputs = self.own.inputs[members][:, slots].transpose(0, 2, 1)  # (members, rows, slots)
        complete = self.own.complete[members]
        columns = reduced(features, inputs.reshape(-1, inputs.shape[2]))
        columns = columns.reshape(*inputs.shape[:2], -1) * complete[:, :, None]
        left = np.where(complete, self.own.target[members] - columns @ regressor.coef_, 0.0)
        return _by_row(columns, left, complete)


def _rows(model: Any, arrays: Arrays, baseline: FloatArray | None) -> Any:
    kind = _OwnRows if isinstance(model, MultiInputCTFARegressor) else _SharedRows
    return kind(model, arrays, baseline)


def _plain(columns: FloatArray, target: FloatArray, regressor: Any) -> FloatArray:
    """Least squares' covariance of the coefficients: residual variance by inverse moments."""
    centred = columns - columns.mean(axis=0)
    left = target - np.asarray(regressor.predict(columns)).reshape(-1)
    spare = len(target) - np.linalg.matrix_rank(centred) - 1
    if spare < 1:
        return np.full((columns.shape[1], columns.shape[1]), np.nan)
    # The inverse is the object: its diagonal is what is told.
    inverse = np.linalg.pinv(centred.T @ centred, hermitian=True)
    return np.asarray(inverse * (left @ left) / spare)


def _by_row(columns: FloatArray, left: FloatArray, complete: BoolArray) -> FloatArray:
    """The same for stacked rows, members of one row being one draw (a sandwich)."""
    moments = np.einsum("mnk,mnl->kl", columns, columns)
    scores = np.einsum("mnk,mn->nk", columns, left)
    n_rows, n_stacked = int(complete.any(axis=0).sum()), int(complete.sum())
    spare = n_stacked - columns.shape[2] - complete.shape[0]
    if n_rows < 2 or spare < 1:
        return np.full(moments.shape, np.nan)
    inverse = np.linalg.pinv(moments, hermitian=True)
    factor = n_rows / (n_rows - 1.0) * (n_stacked - 1.0) / spare
    return np.asarray(factor * inverse @ (scores.T @ scores) @ inverse)


def group_series(model: Any, values: AnyArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean of the members of each group over the rows, with their tenth and ninetieth percentile.

    ``values`` are the targets in the units they are merged in.
    """
    n_rows, n_groups = values.shape[0], model.n_groups_
    mean, low, high = (np.full((n_rows, n_groups), np.nan) for _ in range(3))
    for group, members in enumerate(model.partition_.groups):
        own = values[:, members] * model.targets_.signs_[members]
        some = ~np.isnan(own).all(axis=1)
        if not some.any():
            continue
        mean[some, group] = np.nanmean(own[some], axis=1)
        low[some, group], high[some, group] = np.nanpercentile(own[some], [10, 90], axis=1)
    return mean, low, high
