"""The methods of a comparison by name; adding one is one line."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from ctfa.baselines._tasks import MultiTaskRegressor
from ctfa.comparison._problem import KINDS, Problem
from ctfa.core.types import FloatArray

#: An estimator to clone, or a function of the training problem that makes one.
Recipe = Any


@dataclass(frozen=True, eq=False)
class Method:
    """How to learn, for each kind of problem that the method can serve.

    ``recipe`` is an estimator, a function of the training ``Problem`` that gives one, or a mapping
    from kinds to either. Without a mapping it serves ``kinds``. Tasks with inputs of their own are
    stacked for a method that knows own rows only, where all tasks have the same inputs.
    """

    recipe: Recipe
    kinds: tuple[str, ...] = ("shared", "own rows")
    scale: str = "both"  # what is put into standard units: "both", "features" or "none"
    slow: bool = False  # left out of quick comparisons

    def knows(self, kind: str) -> bool:
        """Whether there is a recipe for such problems as they are."""
        return kind in self._recipes

    def serves(self, problem: Problem) -> bool:
        """Whether the method can be asked for a problem, stacked if need be."""
        return self.knows(problem.kind) or (problem.may_be_stacked and self.knows("own rows"))

    @property
    def _recipes(self) -> Mapping[str, Recipe]:
        if isinstance(self.recipe, Mapping):
            return self.recipe
        return dict.fromkeys(self.kinds, self.recipe)

    def make(self, problem: Problem, seed: int = 0) -> Any:
        """An unfitted estimator for this problem; chance, where it has any, by the seed."""
        recipe = self._recipes[problem.kind]
        # A class is callable too, and so are some estimators: what has fit is an estimator.
        is_function = callable(recipe) and not hasattr(recipe, "fit")
        estimator = recipe(problem) if is_function else clone(recipe)
        seeds = [n for n in estimator.get_params() if n.rpartition("__")[2] == "random_state"]
        return estimator.set_params(**dict.fromkeys(seeds, seed))

    def predict(self, train: Problem, test: Problem, seed: int = 0) -> tuple[FloatArray, Any]:
        """Learn from one part and predict the other, in the shape of its Y; the fitted model."""
        if not self.knows(train.kind):
            own_train, _ = train.stacked()
            own_test, places = test.stacked()
            stacked, model = self.predict(own_train, own_test, seed)
            predicted = np.full(test.Y.shape, np.nan)
            predicted[places] = stacked
            return predicted, model
        units = _Units(train, self.scale)
        model = self.make(train, seed)
        X, Y = units.inputs(train), units.targets(train)
        if train.kind == "own rows":
            model.fit(X, Y, tasks=train.index)
            predicted = model.predict(units.inputs(test), tasks=test.index)
        else:
            model.fit(X, Y)
            predicted = model.predict(units.inputs(test))
        return units.back(np.asarray(predicted, dtype=float).reshape(test.Y.shape)), model


class _Units:
    """Standard units of the training rows: of each column, and of each target.

    One unit and one level for all where tasks have rows of their own: they measure the same thing.
    A column that does not vary is left as it is. Missing inputs of shared rows become the training
    median; those of a task's own stay missing.
    """

    def __init__(self, train: Problem, scale: str) -> None:
        # Also where no row to learn from has a gap: one to be judged by may have.
        self.fill = train.median_inputs() if train.kind == "shared" else None
        self.centre, self.spread = _moments(train.X)
        self.level, self.unit = _moments(train.Y.reshape(train.n_rows, -1))
        if scale == "none":
            self.centre, self.spread = np.zeros(train.X.shape[1]), np.ones(train.X.shape[1])
        if scale != "both":
            self.level, self.unit = np.zeros(self.level.size), np.ones(self.level.size)
        if train.Y.ndim == 1:
            self.level, self.unit = self.level[0], self.unit[0]

    def inputs(self, problem: Problem) -> FloatArray:
        X = problem.X if self.fill is None else np.where(np.isnan(problem.X), self.fill, problem.X)
        return np.asarray((X - self.centre) / self.spread)

    def targets(self, problem: Problem) -> FloatArray:
        return np.asarray((problem.Y - self.level) / self.unit)

    def back(self, predicted: FloatArray) -> FloatArray:
        return np.asarray(predicted * self.unit + self.level)


def _moments(columns: FloatArray) -> tuple[Any, Any]:
    """Mean and standard deviation of what is known of each column."""
    known = ~np.isnan(columns)
    n = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, columns, 0.0).sum(axis=0) / n
    about = np.where(known, columns - mean, 0.0)
    spread = np.sqrt((about**2).sum(axis=0) / n)
    flat = spread <= 1e-10 * np.maximum(np.abs(mean), 1e-300)
    return mean, np.where(flat, 1.0, spread)


def as_method(value: Any, name: str) -> Method:
    """A method from what a user gives: an estimator, a function, a mapping or a method."""
    if isinstance(value, Method):
        return value
    by_kind = value if isinstance(value, Mapping) else {"": value}
    for kind, recipe in by_kind.items():
        if kind and kind not in KINDS:
            raise ValueError(
                f"method {name!r} is given for {kind!r}: kinds are {', '.join(map(repr, KINDS))}."
            )
        if isinstance(recipe, type):
            raise TypeError(
                f"method {name!r} is the class {recipe.__name__}: give an instance, "
                f"{recipe.__name__}()."
            )
        if not hasattr(recipe, "fit") and not callable(recipe):
            raise TypeError(
                f"method {name!r} is {recipe!r}: give an estimator with fit and predict, or a "
                "function of the training problem that makes one."
            )
    return Method(value, _kinds_of(value) if hasattr(value, "fit") else KINDS)


def _kinds_of(estimator: Any) -> tuple[str, ...]:
    """Which problems an estimator can be given, by its parameters and those of its fit."""
    if isinstance(estimator, MultiTaskRegressor):
        return ("shared", "own rows")
    if "layout" in estimator.get_params(deep=False):
        return ("own inputs",)
    takes_tasks = "tasks" in inspect.signature(type(estimator).fit).parameters
    return ("own rows",) if takes_tasks else ("shared",)
