"""The paper's way with tasks that have rows of their own: groups from rows that happen to meet."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression

from ctfa import _reading as check
from ctfa.core.types import FloatArray
from ctfa.estimators.multi_input import multi_input_layout
from ctfa.estimators.parity import nonlinctfa
from ctfa.estimators.refits import fit_regressor
from ctfa_study.baselines._tasks import MultiTaskRegressor, TaskData


class MatchedGroupsRegressor(MultiTaskRegressor):
    """Groups of tasks by the paper's variant on matched rows, then one regressor per group.

    The paper compares tasks of unequal rows (pupils of schools) by matching them: the first row of
    one with the first of another, and so on, where both have one. Averages of unrelated rows say
    little, and predicting from them is worse than predicting the mean; so its groups are kept, and
    the rows of a group are stacked. ``PooledCTFARegressor`` compares tasks without matching.

    Parameters
    ----------
    regressor : estimator, default=None
        Any scikit-learn regressor, cloned for each group; None is ``LinearRegression()``.
    epsilon : float, default=0.0
        The paper's epsilon_1, in squared units of the target: a larger one merges less.

    Attributes
    ----------
    partition_ : Partition
        The groups.
    labels_ : ndarray of shape (n_tasks,)
        Group of each task.
    n_groups_ : int
        Number of groups.
    regressors_ : list of estimators
        One per group.
    tasks_ : ndarray of shape (n_tasks,)
        Ids of the tasks, where they have rows of their own.

    Notes
    -----
    With shared rows all rows meet, and this is Phase I of ``nonlinctfa`` in its variant for tasks
    with inputs of their own.

    Examples
    --------
    >>> from ctfa_study.baselines import MatchedGroupsRegressor
    >>> from ctfa.datasets import make_task_groups
    >>> X, y, tasks = make_task_groups(rows="own", random_state=0, return_X_y=True)
    >>> MatchedGroupsRegressor().fit(X, y, tasks=tasks).predict(X[:3], tasks=tasks[:3]).shape
    (3,)
    """

    def __init__(self, regressor: Any = None, *, epsilon: float = 0.0) -> None:
        self.regressor = regressor
        self.epsilon = epsilon

    def _fit_tasks(self, data: TaskData) -> None:
        template = LinearRegression() if self.regressor is None else self.regressor
        check.require_regressor(template)
        tasks = list(data)
        counts = {rows.target.size for rows in tasks}
        longest, n_features = max(counts), data.inputs.shape[1]
        # Where rows are unequal, only pairs of tasks that have enough of them are compared.
        if len(counts) == 1 and longest < n_features + 3:
            raise ValueError(
                f"every task has n_samples={longest} rows for {n_features} features, and least "
                f"squares needs {n_features + 3} or more to compare tasks: pass more rows or fewer "
                "features, or use PooledCTFARegressor, which compares all rows together."
            )
        inputs = np.full((longest, data.n_tasks, n_features), np.nan)
        targets = np.full((longest, data.n_tasks), np.nan)
        for task, rows in enumerate(tasks):
            inputs[: rows.target.size, task] = rows.inputs
            targets[: rows.target.size, task] = rows.target
        X, layout = multi_input_layout(inputs)
        authors = nonlinctfa(check.read_number(self.epsilon, "epsilon"), layout=layout)
        self.partition_ = authors.fit(X, targets).partition_
        self.labels_, self.n_groups_ = self.partition_.labels, self.partition_.n_groups
        self.regressors_ = [
            fit_regressor(
                template,
                np.vstack([tasks[task].inputs for task in group.tolist()]),
                np.concatenate([tasks[task].target for task in group.tolist()]),
                None,
            )
            for group in self.partition_.groups
        ]

    def _predict_tasks(self, inputs: FloatArray) -> FloatArray:
        means = [np.ravel(model.predict(inputs)) for model in self.regressors_]
        return np.asarray(np.column_stack(means)[:, self.labels_])

    def _predict_one(self, inputs: FloatArray, task: int) -> FloatArray:
        return np.ravel(self.regressors_[self.labels_[task]].predict(inputs))
