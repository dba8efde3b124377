"""What others have to beat: no look at the features, a model for each task, one for all."""

from __future__ import annotations

from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.linear_model import LinearRegression
from sklearn.utils import check_random_state

from ctfa import _reading as check
from ctfa.core.offsets import random_intercepts, summarise
from ctfa.core.types import FloatArray, IntArray
from ctfa.estimators.refits import fit_regressor
from ctfa_study.baselines._tasks import MultiTaskRegressor, TaskData

Bits = NDArray[np.uint64]


class RandomRegressor(MultiTaskRegressor):
    """Predict a training value of the task drawn at random, or its mean.

    A draw is independent of what it predicts, so that its squared error is twice the variance of
    the task on average; the mean has half of that, and is the trivial baseline to beat.

    Parameters
    ----------
    strategy : {"draw", "mean"}, default="draw"
        A random training value of the task, or the mean of its training values.
    random_state : int, RandomState or None, default=None
        Seed of the draws.

    Attributes
    ----------
    values_ : list of ndarray
        Training values of each task.
    tasks_ : ndarray of shape (n_tasks,)
        Ids of the tasks, where they have rows of their own.

    Notes
    -----
    A draw is decided by the seed, the task and the numbers in the row: a fitted model answers the
    same row in the same way, wherever it stands and however often it is asked. Two equal rows get
    equal draws.

    What Table 1 of the paper calls random prediction is not described there. It is not such a draw:
    its error on the School data is 0.64 of the range of scores, and that of draws 0.24.

    Examples
    --------
    >>> from ctfa_study.baselines import RandomRegressor
    >>> X, Y = [[0.0], [1.0], [2.0]], [[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]]
    >>> RandomRegressor("mean").fit(X, Y).predict([[5.0]])
    array([[ 2., 20.]])
    >>> bool(RandomRegressor(random_state=0).fit(X, Y).predict([[5.0]])[0, 0] in (1.0, 2.0, 3.0))
    True
    """

    def __init__(self, strategy: str = "draw", *, random_state: Any = None) -> None:
        self.strategy = strategy
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        """Say that the score is none to expect anything of."""
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags

    def _fit_tasks(self, data: TaskData) -> None:
        check.require(self.strategy, ["draw", "mean"], "strategy")
        self._seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        self.values_ = [rows.target.copy() for rows in data]

    def _predict_tasks(self, inputs: FloatArray) -> FloatArray:
        bits = _row_bits(inputs, self._seed)
        return np.column_stack([self._predict_task(bits, task) for task in range(self.n_tasks_)])

    def _predict_rows(self, inputs: FloatArray, index: IntArray) -> FloatArray:
        bits = _row_bits(inputs, self._seed)
        predicted = np.empty(inputs.shape[0])
        for task in np.unique(index).tolist():
            at = index == task
            predicted[at] = self._predict_task(bits[at], task)
        return predicted

    def _predict_task(self, bits: Bits, task: int) -> FloatArray:
        values = self.values_[task]
        if self.strategy == "mean":
            return np.full(bits.size, values.mean())
        numbers = _mixed(bits ^ _mixed(np.full_like(bits, task)))
        return np.asarray(values[(numbers % np.uint64(values.size)).astype(np.intp)])


def _row_bits(inputs: FloatArray, seed: int) -> Bits:
    """Sixty-four random-looking bits for each row, from its numbers and a seed."""
    # Zero is added so that -0.0 and 0.0, which are equal, are equal in their bits too.
    columns = np.ascontiguousarray(inputs.T + 0.0).view(np.uint64)
    state = _mixed(np.full(inputs.shape[0], seed, dtype=np.uint64))
    for column in columns:
        state = _mixed(state ^ _mixed(column))
    return state


def _mixed(bits: Bits) -> Bits:
    """Every bit of the result depends on every bit given: the finaliser of SplitMix64."""
    bits = bits + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(bits ^ (bits >> np.uint64(31)))


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
        One per task.
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
