"""One model for all tasks, with an offset for each or without."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression

from ctfa import _validation as check
from ctfa.core.offsets import random_intercepts, summarise
from ctfa.core.types import FloatArray, IntArray
from ctfa.estimators.models import fit_regressor
from ctfa_study.baselines._tasks import MultiTaskRegressor, TaskData


class PooledRegressor(MultiTaskRegressor):
    """One model of the rows of all tasks, as if they were one task.

    Parameters
    ----------
    regressor : estimator, default=None
        Any scikit-learn regressor; None is ``LinearRegression()``. Where tasks share their rows it
        sees each row once for each task.

    Attributes
    ----------
    regressor_ : estimator
        The one fitted.
    tasks_ : ndarray of shape (n_tasks,)
        Ids of the tasks, where they have rows of their own.

    Examples
    --------
    >>> from ctfa_study.baselines import PooledRegressor
    >>> from ctfa.datasets import make_paper_synthetic
    >>> X, Y = make_paper_synthetic(60, 5, 3, random_state=0)
    >>> predicted = PooledRegressor().fit(X, Y).predict(X)
    >>> bool((predicted[:, 0] == predicted[:, 2]).all())
    True
    """

    def __init__(self, regressor: Any = None) -> None:
        self.regressor = regressor

    def _fit_tasks(self, data: TaskData) -> None:
        template = _template(self.regressor)
        if self.regressor is None and data.index is None:
            # The mean of the targets has the least squares of all their rows, without the copies.
            inputs, target = data.inputs, data.targets.mean(axis=1)
        else:
            inputs, target, _ = _stacked(data)
        self.regressor_ = fit_regressor(template, inputs, target, None)

    def _predict_tasks(self, inputs: FloatArray) -> FloatArray:
        predicted = np.ravel(self.regressor_.predict(inputs))
        return np.tile(predicted[:, None], (1, self.n_tasks_))

    def _predict_rows(self, inputs: FloatArray, index: IntArray) -> FloatArray:
        return np.ravel(self.regressor_.predict(inputs))


class PooledOffsetsRegressor(MultiTaskRegressor):
    """One model of the rows of all tasks, and an offset for each task.

    Offsets are taken to be drawn about zero, with a variance that all tasks estimate together by
    restricted likelihood: a task keeps the less of its own mean residual the fewer rows it has.

    Parameters
    ----------
    regressor : estimator, default=None
        Any scikit-learn regressor, fitted to the rows less the offsets of the linear model; None
        is that linear model itself. Where tasks share their rows it sees each row once for each
        task.

    Attributes
    ----------
    offsets_ : ndarray of shape (n_tasks,)
        What each task adds to the common model.
    kept_ : ndarray of shape (n_tasks,)
        Share of its own mean residual that each task keeps.
    ratio_ : float
        Variance of the offsets over that of the noise.
    regressor_ : estimator or None
        The one fitted.
    coef_ : ndarray of shape (n_features,)
        Common slopes of the linear model.
    intercept_ : float
        Common intercept of the linear model.
    tasks_ : ndarray of shape (n_tasks,)
        Ids of the tasks, where they have rows of their own.

    References
    ----------
    Laird and Ware, "Random-effects models for longitudinal data", Biometrics 38 (1982).

    Examples
    --------
    >>> from ctfa_study.baselines import PooledOffsetsRegressor
    >>> from ctfa.datasets import make_paper_synthetic
    >>> X, Y = make_paper_synthetic(60, 5, 3, random_state=0)
    >>> model = PooledOffsetsRegressor().fit(X, Y + [0, 100, 200])
    >>> model.offsets_.round(-1).astype(int).tolist()
    [-100, 0, 100]
    """

    def __init__(self, regressor: Any = None) -> None:
        self.regressor = regressor

    def _fit_tasks(self, data: TaskData) -> None:
        template = _template(self.regressor)
        found = random_intercepts([summarise(rows.inputs, rows.target) for rows in data])
        self.offsets_, self.kept_, self.ratio_ = found.values, found.kept, found.ratio
        self.coef_, self.intercept_ = found.slopes, found.intercept
        self.regressor_ = None
        if self.regressor is not None:
            inputs, target, index = _stacked(data)
            left = target - self.offsets_[index]
            self.regressor_ = fit_regressor(template, inputs, left, None)

    def _common(self, inputs: FloatArray) -> FloatArray:
        if self.regressor_ is None:
            return np.asarray(inputs @ self.coef_ + self.intercept_)
        return np.ravel(self.regressor_.predict(inputs))

    def _predict_tasks(self, inputs: FloatArray) -> FloatArray:
        return np.asarray(self._common(inputs)[:, None] + self.offsets_)

    def _predict_rows(self, inputs: FloatArray, index: IntArray) -> FloatArray:
        return np.asarray(self._common(inputs) + self.offsets_[index])


def _template(regressor: Any) -> Any:
    template = LinearRegression() if regressor is None else regressor
    check.require_regressor(template)
    return template


def _stacked(data: TaskData) -> tuple[FloatArray, FloatArray, IntArray]:
    """Rows, targets and tasks, each row once for each task that it belongs to."""
    if data.index is not None:
        return data.inputs, data.targets, data.index
    n_rows = data.inputs.shape[0]
    inputs = np.tile(data.inputs, (data.n_tasks, 1))
    return inputs, data.targets.T.ravel(), np.repeat(np.arange(data.n_tasks), n_rows)
