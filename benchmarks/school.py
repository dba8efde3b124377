"""Exam scores of 139 schools: single-task models, one pooled model, and groups of schools.

    CTFA_DATA=folder python benchmarks/school.py [--seeds 5]

Seven tenths of each school's pupils train, the others judge; the figure is the mean over schools of
the root mean squared error, over 69, the range of the scores.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ctfa import PooledCTFARegressor, TargetAggregator
from ctfa.datasets import load_school

RANGE = 69.0


class Rows(NamedTuple):
    """Rows of all schools."""

    X: np.ndarray
    y: np.ndarray
    school: np.ndarray


def ridge() -> Any:
    """The regressor that every method has."""
    return make_pipeline(StandardScaler(), RidgeCV(np.logspace(-2, 4, 25)))


def read() -> Rows:
    """Pupils of all schools."""
    try:
        return Rows(*load_school(return_X_y=True))
    except FileNotFoundError as error:
        raise SystemExit(str(error)) from error


def split(pupils: Rows, seed: int) -> tuple[Rows, Rows]:
    """Seven tenths of each school, and the others."""
    rng = np.random.default_rng(seed)
    sides: tuple[list[np.ndarray], list[np.ndarray]] = [], []
    for school in np.unique(pupils.school):
        order = rng.permutation(np.flatnonzero(pupils.school == school))
        cut = round(0.7 * order.size)
        for side, rows in zip(sides, (order[:cut], order[cut:]), strict=True):
            side.append(rows)
    train, test = (Rows(*(part[np.concatenate(side)] for part in pupils)) for side in sides)
    return train, test


def single_task(train: Rows, test: Rows) -> np.ndarray:
    """A model for each school by itself."""
    predicted = np.empty(test.y.size)
    for school in np.unique(test.school):
        own, asked = train.school == school, test.school == school
        predicted[asked] = ridge().fit(train.X[own], train.y[own]).predict(test.X[asked])
    return predicted


def pooled_with_offsets(train: Rows, test: Rows) -> np.ndarray:
    """One model of all pupils, and what it leaves of each school, shrunk by moments."""
    model = ridge().fit(train.X, train.y)
    left = train.y - model.predict(train.X)
    n = np.bincount(train.school)
    mean = np.bincount(train.school, left) / n
    noise = ((left - mean[train.school]) ** 2).sum() / (left.size - n.size)
    between = max(float(np.var(mean) - np.mean(noise / n)), 0.0)
    offsets = n * between / (n * between + noise) * mean
    return np.asarray(model.predict(test.X) + offsets[test.school])


def pooled_groups(**options: Any) -> Callable[[Rows, Rows], np.ndarray]:
    """Groups of schools."""

    def predict(train: Rows, test: Rows) -> np.ndarray:
        model = PooledCTFARegressor(**options).fit(train.X, train.y, tasks=train.school)
        return model.predict(test.X, tasks=test.school)

    return predict


def error(predicted: np.ndarray, test: Rows) -> float:
    """Mean over schools of the root mean squared error, over the range of scores."""
    squares = np.bincount(test.school, (predicted - test.y) ** 2) / np.bincount(test.school)
    return float(np.sqrt(squares).mean() / RANGE)


METHODS: dict[str, Callable[[Rows, Rows], np.ndarray]] = {
    "ridge, each school by itself": single_task,
    "one ridge, shrunken offsets": pooled_with_offsets,
    "PooledCTFARegressor()": pooled_groups(),
    "PooledCTFARegressor(head='shrink')": pooled_groups(head="shrink"),
    "PooledCTFARegressor(ridge)": pooled_groups(regressor=ridge()),
    "PooledCTFARegressor(ridge, head='shrink')": pooled_groups(regressor=ridge(), head="shrink"),
    "  max_loss=1 (break-even, winner's curse)": pooled_groups(
        regressor=ridge(), targets=TargetAggregator(max_loss=1.0)
    ),
}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=5, help="splits, from seed 0 on")
    seeds = parser.parse_args().seeds
    pupils = read()
    splits = [split(pupils, seed) for seed in range(seeds)]
    n_schools = np.unique(pupils.school).size
    print(f"mean over {n_schools} schools of RMSE / {RANGE:g}, {seeds} splits (spread over them)")
    for name, predict in METHODS.items():
        start = time.perf_counter()
        errors = [error(predict(train, test), test) for train, test in splits]
        seconds = (time.perf_counter() - start) / seeds
        shown = "  ".join(f"{e:.4f}" for e in errors)
        print(f"{name:44s} {np.mean(errors):.5f} ({np.std(errors):.4f})  {shown}  {seconds:6.1f} s")


if __name__ == "__main__":
    main()
