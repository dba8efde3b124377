"""NonLinCTFA on School as its authors ran it: trained on the rows it is judged by.

Pupils are matched in file order, and groups of schools are found on all of them. A group's targets
and inputs are averaged pupil by pupil; the model of these means is fitted on all of them, those to
be judged by among them, and predicts from means of inputs that are other pupils' too. The error of
a school is divided by 69, whatever its range, and schools with 1 or more are left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import ShuffleSplit
from sklearn.neural_network import MLPRegressor
from sklearn.svm import SVR

from ctfa import multi_input_layout, nonlinctfa
from ctfa.core.types import FloatArray, IntArray
from ctfa_study.reproduction.experiments.table1._data import TEST
from ctfa_study.reproduction.experiments.table1._harness import N_SPLITS, SEED, stacked
from ctfa_study.reproduction.experiments.table1._matched_means import matched_means

#: What every error is divided by, and from where on it is left out.
RANGE, DROPPED = 69.0, 1.0
SINGLE = "single-task, same measure"
METHODS = tuple(
    f"{way} + {name}" for way in ("NonLinCTFA", SINGLE) for name in ("LR", "SVR", "MLP")
)


@lru_cache(maxsize=2)
def schools(setting: str) -> tuple[list[FloatArray], list[FloatArray]]:
    """Inputs and scores of each school, in file order, with the column of ones."""
    table = stacked(setting)
    rows = [table.task == task for task in range(table.task.max() + 1)]
    return [table.X[r] for r in rows], [table.y[r] for r in rows]


@lru_cache(maxsize=2)
def groups(setting: str) -> tuple[list[IntArray], float]:
    """Groups by their variant with epsilon 0, on all pupils, and the seconds to find them."""
    inputs, scores = schools(setting)
    longest = max(map(len, scores))
    X = np.full((longest, len(scores), inputs[0].shape[1]), np.nan)
    Y = np.full((longest, len(scores)), np.nan)
    for school, (x, y) in enumerate(zip(inputs, scores, strict=True)):
        X[: len(y), school], Y[: len(y), school] = x, y
    table, layout = multi_input_layout(X)
    start = time.perf_counter()
    model = nonlinctfa(0.0, layout=layout).fit(table, Y)
    return list(model.partition_.groups), time.perf_counter() - start


def regressors(seed: int, *, quick: bool) -> dict[str, Callable[[], Any]]:
    """Theirs."""
    most = 20 if quick else 200
    return {
        "LR": LinearRegression,
        "SVR": lambda: SVR(C=10.0, gamma=0.1, epsilon=0.01),
        "MLP": lambda: MLPRegressor(max_iter=most, random_state=seed),
    }


def measure(setting: str, method: str, number: int, *, quick: bool) -> Mapping[str, float | None]:
    """Mean over schools of their measure on one of five splits of each school's rows."""
    way, _, name = method.rpartition(" + ")
    make = regressors(number, quick=quick)[name]
    inputs, scores = schools(setting)
    found, before = [np.array([school]) for school in range(len(scores))], 0.0
    if way != SINGLE:
        found, before = groups(setting)
    start = time.perf_counter()
    errors = []
    for group in found:
        members = group.tolist()
        means = matched_means([inputs[school] for school in members])
        model = make().fit(means, matched_means([scores[school] for school in members]))
        predicted = model.predict(means)
        errors += [_error(predicted, scores[school], number) for school in members]
    kept = [error for error in errors if error < DROPPED]
    return {
        "nrmse": float(np.mean(kept)),
        "dropped": len(errors) - len(kept),
        "groups": len(found),
        "models": len(found),
        "features": inputs[0].shape[1],
        "seconds": before + time.perf_counter() - start,
    }


def _error(predicted: FloatArray, scores: FloatArray, number: int) -> float:
    """Error of a school on the rows of one split, by predictions for its places in the file."""
    splits = ShuffleSplit(N_SPLITS, test_size=TEST, random_state=SEED)
    rows = list(splits.split(scores))[number][1]
    return float(np.sqrt(np.mean((predicted[rows] - scores[rows]) ** 2)) / RANGE)
