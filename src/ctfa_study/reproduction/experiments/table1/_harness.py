"""The rivals of Table 1 as their authors ran them: all tasks in one table, faults included.

Rows of all tasks stand below each other and are divided at random, ignoring tasks. On SARCOS every
task is given the torque of joint 1. The last task is never trained and is predicted as zero. The
measure is one root mean squared error of all rows over the range of all test targets.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import ShuffleSplit
from sklearn.neural_network import MLPRegressor
from sklearn.svm import SVR
from sklearn.utils import check_random_state

from ctfa.core.types import FloatArray, IntArray
from ctfa_study import baselines as rivals
from ctfa_study.reproduction.experiments.table1._data import SARCOS, TEST, problem

N_SPLITS, SEED = 5, 42
#: For stored results: to be changed with any parameter of the authors' protocol.
RECIPE = (
    "ShuffleSplit 42; SVR gamma .1 epsilon .01, C 1e4 and 10, for NonLinCTFA 1 and 10; MLP of "
    "scikit-learn, 200 passes at most (NonLinCTFA on SARCOS 1000); ASO .225 h 3, cASO .225 .15, "
    "CMTL .5 .1 1.75 2.25; epsilon_1 -0.01 and epsilon_2 0 on SARCOS, epsilon 0 on School"
)
#: Their parameters: of support vectors by data set, and of clusters.
PENALTY = {"SARCOS": 1e4, "School": 1e1}
CLUSTERS = {"SARCOS": 6, "School": 7}


class Stacked(NamedTuple):
    """Rows of all tasks below each other."""

    X: FloatArray
    y: FloatArray
    task: IntArray


@lru_cache(maxsize=2)
def stacked(setting: str) -> Stacked:
    """The table that their rivals learn from; a column of ones is part of School's file."""
    data = problem(setting)
    if setting in SARCOS:
        joints = np.arange(data.n_tasks)
        X, first = np.tile(data.X, (joints.size, 1)), np.tile(data.Y[:, 0], joints.size)
        return Stacked(X, first, np.repeat(joints, data.n_rows))
    assert data.index is not None
    return Stacked(np.column_stack((data.X, np.ones(data.n_rows))), data.Y, data.index)


#: From training rows, rows to predict and a seed to predictions of the latter.
Predictor = Callable[[Stacked, Stacked, int], FloatArray]


def one_by_one(make: Callable[[int], Any]) -> Predictor:
    """A model for each task but the last."""

    def predict(train: Stacked, test: Stacked, seed: int) -> FloatArray:
        predicted = np.zeros(test.y.size)
        for task in np.unique(train.task)[:-1].tolist():
            seen, asked = train.task == task, test.task == task
            if asked.any():
                model = make(seed).fit(train.X[seen], train.y[seen])
                predicted[asked] = model.predict(test.X[asked])
        return predicted

    return predict


def together(model: Any) -> Predictor:
    """One of our estimators for all tasks but the last: theirs have faults of their own."""

    def predict(train: Stacked, test: Stacked, seed: int) -> FloatArray:
        last = train.task.max()
        seen, asked = train.task < last, test.task < last
        fitted = model.fit(train.X[seen], train.y[seen], tasks=train.task[seen])
        predicted = np.zeros(test.y.size)
        predicted[asked] = fitted.predict(test.X[asked], tasks=test.task[asked])
        return predicted

    return predict


def at_random(train: Stacked, test: Stacked, seed: int) -> FloatArray:
    """Whole numbers from 0 to 100, whatever is predicted."""
    return np.asarray(check_random_state(seed).randint(0, 101, test.y.size), dtype=float)


def whole(predictor: Predictor) -> Predictor:
    """Predictions cut to whole numbers."""
    return lambda train, test, seed: np.trunc(predictor(train, test, seed))


def predictors(setting: str, *, quick: bool = False) -> dict[str, Predictor]:
    """Rows of the table by name.

    Their losses have no half: half of their prices are ours.
    """
    data = "SARCOS" if setting in SARCOS else "School"
    most = 20 if quick else 200
    return {
        "random": at_random,
        "single-task LR": one_by_one(lambda _: LinearRegression()),
        "single-task SVR": whole(
            one_by_one(lambda _: SVR(C=PENALTY[data], gamma=0.1, epsilon=0.01))
        ),
        "single-task MLP": one_by_one(lambda seed: MLPRegressor(max_iter=most, random_state=seed)),
        "ASO": together(rivals.ASORegressor(3, alpha=0.225 / 2)),
        "cASO": together(rivals.ConvexASORegressor(3, alpha=0.225 / 2, eta=0.15 / 0.225)),
        "CMTL": together(
            rivals.ClusteredMTLRegressor(
                CLUSTERS[data], alpha=0.5 / 2, mean=0.1, between=1.75, within=2.25
            )
        ),
    }


def measure(setting: str, name: str, number: int, *, quick: bool) -> Mapping[str, float | None]:
    """Error of a rival on one of their five splits."""
    table = stacked(setting)
    splits = ShuffleSplit(N_SPLITS, test_size=TEST, random_state=SEED)
    learn, judge = list(splits.split(table.X))[number]
    train, test = (Stacked(*(part[rows] for part in table)) for rows in (learn, judge))
    start = time.perf_counter()
    predicted = predictors(setting, quick=quick)[name](train, test, number)
    seconds = time.perf_counter() - start
    error = float(np.sqrt(np.mean((predicted - test.y) ** 2)) / np.ptp(test.y))
    n_models = 0 if name == "random" else np.unique(table.task).size - 1
    return {"nrmse": error, "models": n_models, "seconds": seconds}
