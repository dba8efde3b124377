"""NonLinCTFA on SARCOS as its authors ran it: one split by time, test rows part of the units."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression
from sklearn.neural_network import MLPRegressor
from sklearn.svm import SVR

from ctfa import CTFARegressor, nonlinctfa
from ctfa.core.types import FloatArray
from ctfa_study.baselines import SingleTaskRegressor
from ctfa_study.reproduction.experiments.table1._data import TRAIN, problem
from ctfa_study.reproduction.experiments.table1._honest import EPSILON_1, EPSILON_2, sizes


@lru_cache(maxsize=2)
def standard(setting: str) -> tuple[FloatArray, FloatArray]:
    """Inputs and targets in standard units of all rows, those to be judged by among them."""
    data = problem(setting)
    X, Y = ((part - part.mean(axis=0)) / part.std(axis=0, ddof=1) for part in (data.X, data.Y))
    return X, Y


def regressors(seed: int, *, quick: bool = False) -> dict[str, Any]:
    """Theirs; how long their networks were trained is not told."""
    return {
        "LR": LinearRegression(),
        "SVR": SVR(gamma=0.1, epsilon=0.01),
        "MLP": MLPRegressor(max_iter=20 if quick else 1000, random_state=seed),
    }


#: What is made of a regressor, by the beginning of a method's name.
WAYS: dict[str, Callable[[Any], Any]] = {
    "single-task, same measure": SingleTaskRegressor,
    "NonLinCTFA": lambda one: nonlinctfa(EPSILON_1, EPSILON_2, regressor=one),
    "NonLinCTFA Phase I": lambda one: nonlinctfa(EPSILON_1, regressor=one).set_params(
        features="passthrough"
    ),
    "CTFA": lambda one: CTFARegressor(one, features="passthrough", head="mean"),
}
METHODS = tuple(f"{way} + {name}" for way in WAYS for name in ("LR", "SVR", "MLP"))


def measure(setting: str, method: str, seed: int, *, quick: bool) -> Mapping[str, float | None]:
    """Mean over tasks of the error over the range of all targets together, last 30 % of rows.

    Targets are in standard units, so the largest range among them serves for all.
    """
    way, _, name = method.rpartition(" + ")
    X, Y = standard(setting)
    n_train = int(TRAIN * len(X))
    model = WAYS[way](regressors(seed, quick=quick)[name])
    start = time.perf_counter()
    predicted = model.fit(X[:n_train], Y[:n_train]).predict(X[n_train:])
    seconds = time.perf_counter() - start
    errors = np.sqrt(np.mean((predicted - Y[n_train:]) ** 2, axis=0)) / np.ptp(Y[:n_train])
    return {
        "nrmse": float(errors.mean()),
        "seconds": seconds,
        **sizes(model, problem(setting)),
    }
