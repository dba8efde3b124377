"""How a method learns from a problem of any kind, in standard units."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from ctfa.core.types import FloatArray
from ctfa_study.baselines._tasks import MultiTaskRegressor
from ctfa_study.comparison._problem import KINDS, Problem

#: An estimator to clone, or a function of the training problem that makes one.
Recipe = Any


@dataclass(frozen=True, eq=False)
class Method:
    """How to learn, for each kind of problem that the method can serve.

    ``recipe`` is an estimator, a function of the training ``Problem`` that gives one, or a mapping
    from kinds to either. Without a mapping it serves ``kinds``. Tasks with inputs of their own are
    stacked for a method that knows own rows only; where some have fewer inputs than others, only a
    method that serves each task ``alone`` can be asked.
    """

    recipe: Recipe
    kinds: tuple[str, ...] = ("shared", "own rows")
    scale: str = "both"  # what is put into standard units: "both", "features" or "none"
    slow: bool = False  # left out of quick comparisons
    alone: bool = False  # no task learns from another: each may be served by itself

    def knows(self, kind: str) -> bool:
        """Whether there is a recipe for such problems as they are."""
        return kind in self._recipes

    def serves(self, problem: Problem) -> bool:
        """Whether the method can be asked for a problem, stacked or task by task if need be."""
        return self.why_not(problem) is None

    def why_not(self, problem: Problem) -> str | None:
        """Why the method cannot be asked for a problem; None where it can."""
        if self.knows(problem.kind):
            return None
        if problem.kind != "own inputs":
            return {
                "shared": "is made for tasks that have data of their own",
                "own rows": "needs the same rows for all tasks",
            }[problem.kind]
        if self.knows("own rows"):
            fits = problem.may_be_stacked or self.alone
            return None if fits else "needs the same inputs for every task, and some have fewer"
        return "cannot have inputs of each task's own"

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
        params = estimator.get_params()
        # None stands for a default, which leaves nothing to chance.
        seeds = [
            name
            for name in params
            if name.rpartition("__")[2] == "random_state"
            and params.get(name.rpartition("__")[0], estimator) is not None
        ]
        return estimator.set_params(**dict.fromkeys(seeds, seed))

    def predict(self, train: Problem, test: Problem, seed: int = 0) -> tuple[FloatArray, Any]:
        """Learn from one part and predict the other, in the shape of its Y; the fitted model."""
        units = _Units(train, self.scale)
        predicted, model = self._predict(units.of(train), units.of(test), seed)
        return units.back(predicted), model

    def _predict(self, train: Problem, test: Problem, seed: int) -> tuple[FloatArray, Any]:
        if not self.knows(train.kind):
            return (self._stacked if train.may_be_stacked else self._one_by_one)(train, test, seed)
        model = self.make(train, seed)
        if train.kind == "own rows":
            model.fit(train.X, train.Y, tasks=train.index)
            predicted = model.predict(test.X, tasks=test.index)
        else:
            model.fit(train.X, train.Y)
            predicted = model.predict(test.X)
        answer = np.asarray(predicted, dtype=float)
        if answer.size != test.Y.size:
            raise ValueError(
                f"{type(model).__name__} predicted an array of shape {answer.shape} where "
                f"{test.Y.shape} was asked for"
            )
        return answer.reshape(test.Y.shape), model

    def _stacked(self, train: Problem, test: Problem, seed: int) -> tuple[FloatArray, Any]:
        """Tasks with inputs of their own as tasks with rows of their own."""
        rows, _ = train.stacked()
        asked, places = test.stacked()
        predicted = np.full(test.Y.shape, np.nan)
        predicted[places], model = self._predict(rows, asked, seed)
        return predicted, model

    def _one_by_one(self, train: Problem, test: Problem, seed: int) -> tuple[FloatArray, Any]:
        """Each task by itself, with the inputs that it has; the model of the last one."""
        predicted, model = np.full(test.Y.shape, np.nan), None
        for task in range(train.n_tasks):
            asked = test.of_one(task)
            if asked.n_rows:
                answer, model = self._predict(train.of_one(task), asked, seed)
                predicted[test.judged[:, task], task] = answer
        return predicted, model


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

    def of(self, problem: Problem) -> Problem:
        """The same rows in these units."""
        X = problem.X if self.fill is None else np.where(np.isnan(problem.X), self.fill, problem.X)
        X = np.asarray((X - self.centre) / self.spread)
        return replace(problem, X=X, Y=np.asarray((problem.Y - self.level) / self.unit))

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
