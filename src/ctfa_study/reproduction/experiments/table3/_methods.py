"""What is fitted to the maps of Table 3: the authors' variant, our rule, and plain references."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ctfa import MultiInputCTFARegressor, TargetAggregator, nonlinctfa
from ctfa.core.partition import Partition
from ctfa.core.series import Series
from ctfa.core.tasks.own_inputs import AveragedFit
from ctfa.core.types import FloatArray
from ctfa_study.reproduction.experiments.table3._settings import Fold, error_of, known, make_fold

#: The paper's, in the order of its Table 3.
EPSILONS = (1.0, 0.5, 0.1, 0.05, 0.01, 0.0, -0.01, -0.05, -0.1, -1.0)
#: Added to the name of a method that asks neighbours only.
NEIGHBOURS = ", neighbours"
SINGLE, SINGLE_RIDGE, ONE_GROUP, MEAN = "single LR", "single ridge", "one group", "training mean"


def of_epsilon(epsilon: float, *, graph: bool) -> str:
    """Name of the authors' variant."""
    return f"epsilon = {epsilon:g}{NEIGHBOURS if graph else ''}"


def of_risk(aggregate: str, *, graph: bool) -> str:
    """Name of our rule."""
    return f"risk, {aggregate}{NEIGHBOURS if graph else ''}"


def measure_authors(
    setting: str, fold: int, epsilon: float, *, graph: bool, quick: bool
) -> Mapping[str, float | None]:
    """The paper's rule as coded, most correlated pair first."""
    part = make_fold(setting, fold, quick)
    model = nonlinctfa(epsilon, layout=part.layout)
    model.set_params(targets__connectivity=part.connectivity if graph else None)
    return _fitted(model, part)


def measure_risk(
    setting: str, fold: int, aggregate: str, *, graph: bool, quick: bool
) -> Mapping[str, float | None]:
    """Our rule as it comes; the limit is chosen on folds of the rows to learn from."""
    part = make_fold(setting, fold, quick)
    targets = TargetAggregator(connectivity=part.connectivity if graph else None)
    model = MultiInputCTFARegressor(part.layout, targets=targets, aggregate=aggregate, head="mean")
    return _fitted(model, part)


def _fitted(model: Any, part: Fold) -> Mapping[str, float | None]:
    predicted = model.fit(part.X, part.Y).predict(part.X_test)
    groups = model.n_groups_
    return {"mse": error_of(predicted, part), "groups": groups, "models": groups}


def measure_plain(
    setting: str, fold: int, method: str, *, quick: bool
) -> Mapping[str, float | None]:
    """A reference that does not go through the library's estimators."""
    part = make_fold(setting, fold, quick)
    predicted = PLAIN[method](part)
    groups = 1 if method == ONE_GROUP else part.n_tasks
    models = 0 if method == MEAN else groups
    return {"mse": error_of(predicted, part), "groups": groups, "models": models}


def single_tasks(part: Fold) -> FloatArray:
    """Least squares of each task on its own inputs, one after the other."""
    seen = known(part.X, part.Y, part.layout)
    predicted = np.empty(part.Y_test.shape)
    for task, columns in enumerate(part.layout):
        own, rows = columns[columns >= 0], seen[:, task]
        # Columns first: they are few, and the rows of a large map are all of it.
        predicted[:, task] = _least_squares(
            part.X[:, own][rows], part.Y[rows, task], part.X_test[:, own]
        )
    return predicted


def single_ridges(part: Fold) -> FloatArray:
    """Ridge regression of each task, its penalty by generalised cross-validation."""
    series = Series.of(part.X, part.layout, part.Y)
    rows = Series.of(part.X_test, part.layout, np.full(part.Y_test.shape, np.nan))
    alone = Partition.singletons(part.n_tasks)
    (predicted,) = AveragedFit(series, penalised=True).predict(alone, rows, [0.0])
    return np.asarray(predicted.T)


def one_group(part: Fold) -> FloatArray:
    """The mean of all targets on the means of all inputs, kind by kind."""
    inputs = np.column_stack([_mean_of(part.X, slot) for slot in part.layout.T])
    asked = np.column_stack([_mean_of(part.X_test, slot) for slot in part.layout.T])
    found = _least_squares(inputs, np.nanmean(part.Y, axis=1), asked)
    return np.broadcast_to(found[:, None], part.Y_test.shape)


def training_mean(part: Fold) -> FloatArray:
    """Zero, in standard units."""
    return np.zeros(part.Y_test.shape)


PLAIN = {
    SINGLE: single_tasks,
    SINGLE_RIDGE: single_ridges,
    ONE_GROUP: one_group,
    MEAN: training_mean,
}


def _mean_of(X: FloatArray, slot: Any) -> FloatArray:
    """One kind of input, over the tasks that have it."""
    return np.asarray(np.nanmean(X[:, slot[slot >= 0]], axis=1))


def _least_squares(inputs: FloatArray, target: FloatArray, asked: FloatArray) -> FloatArray:
    """With an intercept; the smallest coefficients where inputs repeat each other."""
    centre, level = inputs.mean(axis=0), target.mean()
    coef = np.linalg.lstsq(inputs - centre, target - level, rcond=None)[0]
    return np.asarray((asked - centre) @ coef + level)
