"""Penalties and sizes chosen on folds of the training rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import ParameterGrid
from sklearn.utils import check_random_state

from ctfa.core.types import FloatArray, IntArray
from ctfa_study.baselines._tasks import MultiTaskRegressor, TaskData


class TaskSearchCV(MultiTaskRegressor):
    """Choose parameters of a multi-task regressor by held-out error, then fit it to all rows.

    What ``GridSearchCV`` is for one table, for tasks that share their rows or have their own: where
    they have their own, a fold takes some rows of every task. The score of a task is its squared
    error over the variance of its training targets, or over that of all training rows where tasks
    have their own; the mean over tasks, and then over folds, decides. A row is not judged in a fold
    that leaves nothing of its task to learn from.

    Parameters
    ----------
    estimator : estimator
        With ``fit(X, Y)`` and ``predict(X)``; for own rows also ``tasks=`` in both.
    param_grid : dict or list of dict
        Parameters and the values to try, as for ``GridSearchCV``.
    cv : int, default=5
        Folds.
    shuffle : bool, default=True
        Deal rows to folds at random; False takes consecutive rows, for rows in time order.
    random_state : int, RandomState or None, default=0
        How rows are dealt.
    n_jobs : int or None, default=None
        Fits at the same time, through joblib.

    Attributes
    ----------
    best_estimator_ : estimator
        Fitted to all rows with the best parameters.
    best_params_, best_score_ : dict, float
        The best parameters and their held-out error.
    cv_results_ : dict
        ``params`` and ``mean_test_error``.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from ctfa_study.baselines import SingleTaskRegressor, TaskSearchCV
    >>> from ctfa.datasets import make_paper_synthetic
    >>> X, Y = make_paper_synthetic(120, 100, 3, random_state=0)
    >>> model = SingleTaskRegressor(Ridge())
    >>> search = TaskSearchCV(model, {"regressor__alpha": [1e-3, 1e2]}).fit(X, Y)
    >>> search.best_params_
    {'regressor__alpha': 100.0}
    """

    def __init__(
        self,
        estimator: Any,
        param_grid: Any,
        *,
        cv: int = 5,
        shuffle: bool = True,
        random_state: Any = 0,
        n_jobs: Any = None,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.cv = cv
        self.shuffle = shuffle
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _fit_tasks(self, data: TaskData) -> None:
        candidates = list(ParameterGrid(self.param_grid))
        folds = list(self._folds(data))
        judge = delayed(_held_out_error)
        jobs = (
            judge(clone(self.estimator).set_params(**params), data, fold)
            for params in candidates
            for fold in folds
        )
        errors = np.array(Parallel(n_jobs=self.n_jobs)(jobs)).reshape(len(candidates), len(folds))
        judged = [number for number, fold in enumerate(folds) if _judged(data, fold).size]
        if not judged:
            raise ValueError(
                f"no task has two rows in {len(folds)} folds, one to learn from and one to be "
                "judged by: pass tasks with more rows, or choose the parameters without a search."
            )
        means = errors[:, judged].mean(axis=1)
        if not np.isfinite(means).any():
            raise ValueError(
                f"{type(self.estimator).__name__} predicted NaN or infinity for every candidate of "
                "param_grid: scale the features or try other values."
            )
        best = int(np.nanargmin(np.where(np.isfinite(means), means, np.nan)))
        self.cv_results_ = {"params": candidates, "mean_test_error": means}
        self.best_params_, self.best_score_ = candidates[best], float(means[best])
        self.best_estimator_ = clone(self.estimator).set_params(**self.best_params_)
        _fit(self.best_estimator_, data)

    def _predict_tasks(self, inputs: FloatArray) -> FloatArray:
        predicted = self.best_estimator_.predict(inputs)
        return np.asarray(predicted).reshape(inputs.shape[0], -1)

    def _predict_rows(self, inputs: FloatArray, index: IntArray) -> FloatArray:
        return np.asarray(self.best_estimator_.predict(inputs, tasks=index))

    def _folds(self, data: TaskData) -> Iterator[IntArray]:
        """Rows left out of each fold in turn."""
        n_rows = data.inputs.shape[0]
        if isinstance(self.cv, bool) or not 2 <= int(self.cv) <= n_rows:
            raise ValueError(f"cv={self.cv!r} folds of {n_rows} rows: use 2 to {n_rows}.")
        rng = check_random_state(self.random_state)
        fold = np.empty(n_rows, dtype=np.intp)
        groups = [np.arange(n_rows)] if data.index is None else data.rows
        for rows in groups:
            turn = rng.permutation(rows.size) if self.shuffle else np.arange(rows.size)
            fold[rows[turn]] = np.arange(rows.size) * self.cv // max(rows.size, 1)
            if rows.size < self.cv:  # few rows: dealt one by one, so that none is always left out
                fold[rows[turn]] = (np.arange(rows.size) + rng.randint(self.cv)) % self.cv
        for number in range(self.cv):
            held = np.flatnonzero(fold == number)
            if held.size:
                yield held


def _fit(model: Any, data: TaskData) -> None:
    if data.index is None:
        model.fit(data.inputs, data.targets)
    else:
        model.fit(data.inputs, data.targets, tasks=data.index)


def _judged(data: TaskData, held: IntArray) -> IntArray:
    """Rows held out that have others of their task to learn from."""
    if data.index is None:
        return held
    left = np.bincount(data.index, minlength=data.n_tasks)
    left -= np.bincount(data.index[held], minlength=data.n_tasks)
    return held[left[data.index[held]] > 0]


def _held_out_error(model: Any, data: TaskData, held: IntArray) -> float:
    """Mean over tasks of the squared error over the variance of the training targets."""
    kept = np.ones(data.inputs.shape[0], dtype=bool)
    kept[held] = False
    held = _judged(data, held)
    if not held.size:
        return np.nan
    index = None if data.index is None else data.index[kept]
    with warnings.catch_warnings():
        # A candidate that has not converged is judged by what it predicts.
        warnings.simplefilter("ignore", ConvergenceWarning)
        _fit(model, TaskData(data.inputs[kept], data.targets[kept], index, data.n_tasks))
    if data.index is None:
        predicted = np.asarray(model.predict(data.inputs[held])).reshape(held.size, -1)
        variance = data.targets[kept].var(axis=0)
        errors = np.mean((predicted - data.targets[held]) ** 2, axis=0)
    else:
        predicted = model.predict(data.inputs[held], tasks=data.index[held])
        squares = (predicted - data.targets[held]) ** 2
        counts = np.bincount(data.index[held], minlength=data.n_tasks)
        errors = np.bincount(data.index[held], squares, minlength=data.n_tasks)[counts > 0]
        errors = errors / counts[counts > 0]
        # One unit for all: a task of few rows has no variance worth dividing by.
        variance = np.full(errors.size, data.targets[kept].var())
    unit = np.where(variance > 0.0, variance, 1.0)
    return float(np.mean(errors / unit))
