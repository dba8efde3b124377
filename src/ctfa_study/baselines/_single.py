"""A model for each task by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.linear_model import LinearRegression

from ctfa import _validation as check
from ctfa.core.types import FloatArray
from ctfa.estimators.models import fit_regressor
from ctfa_study.baselines._tasks import MultiTaskRegressor, TaskData


class SingleTaskRegressor(MultiTaskRegressor):
    """Any regressor, once for each task: what every other method has to beat.

    Parameters
    ----------
    regressor : estimator, default=None
        Any scikit-learn regressor, cloned for each task; None is ``LinearRegression()``, which
        gives the coefficients of least norm where a task has fewer rows than features.
    n_jobs : int or None, default=None
        Tasks worked on at the same time, through joblib.

    Attributes
    ----------
    regressors_ : list of estimators
        One a task.
    tasks_ : ndarray of shape (n_tasks,)
        Ids of the tasks, where they have rows of their own.

    Examples
    --------
    >>> from ctfa_study.baselines import SingleTaskRegressor
    >>> from ctfa.datasets import make_paper_synthetic
    >>> X, Y = make_paper_synthetic(60, 5, 3, random_state=0)
    >>> SingleTaskRegressor().fit(X, Y).predict(X).shape
    (60, 3)
    """

    def __init__(self, regressor: Any = None, *, n_jobs: Any = None) -> None:
        self.regressor = regressor
        self.n_jobs = n_jobs

    def _fit_tasks(self, data: TaskData) -> None:
        template = LinearRegression() if self.regressor is None else self.regressor
        check.require_regressor(template)
        fit = delayed(fit_regressor)
        jobs = (fit(template, rows.inputs, rows.target, None) for rows in data)
        self.regressors_ = list(Parallel(n_jobs=self.n_jobs)(jobs))

    def _predict_tasks(self, inputs: FloatArray) -> FloatArray:
        return np.column_stack([self._predict_one(inputs, t) for t in range(self.n_tasks_)])

    def _predict_one(self, inputs: FloatArray, task: int) -> FloatArray:
        return np.ravel(self.regressors_[task].predict(inputs))
