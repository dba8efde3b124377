"""What every baseline is given: its numbers, and tasks that share rows or have their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from ctfa import _reading as check
from ctfa.core.types import FloatArray, IntArray


def read_positive(value: Any, what: str) -> float:
    """A finite number above zero."""
    number = check.read_number(value, what, " above 0")
    if not 0.0 < number < np.inf:
        raise ValueError(f"{what}={value!r} must be finite and above 0: pass a positive number.")
    return number


def read_at_least_zero(value: Any, what: str, *, infinite: bool = False) -> float:
    """A number that may be zero, and infinite where that means something."""
    number = check.read_number(value, what, ", 0 or more")
    if number < 0.0 or (np.isinf(number) and not infinite):
        limits = "not negative" if infinite else "finite and not negative"
        raise ValueError(f"{what}={value!r} must be {limits}: pass 0 or more.")
    return number


def read_count(value: Any, what: str) -> int:
    """A whole number, 1 or more."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{what}={value!r} is not a count: pass a whole number, 1 or more.")
    return int(value)


def read_count_up_to(value: Any, largest: int, what: str, of: str) -> int:
    """A whole number from 1 to the largest there can be."""
    number = check.read_number(value, what, " or 'cv'")
    if number != int(number) or not 1 <= number <= largest:
        raise ValueError(
            f"{what}={value!r} is not possible with {largest} {of}: pass a whole number from 1 to "
            f"{largest}, or 'cv' to choose it on folds."
        )
    return int(number)


#: Eigenvalues of a correlation matrix below this part of the largest are rounding.
COLLINEAR = 1e-12


class TaskRows(NamedTuple):
    """The rows of one task."""

    inputs: FloatArray  # (n, D)
    target: FloatArray  # (n,)


@dataclass(frozen=True, eq=False)
class TaskData:
    """The rows of all tasks."""

    inputs: FloatArray  # (n, D)
    targets: FloatArray  # (n, T), or (n,) where rows belong to one task each
    index: IntArray | None  # (n,), task of each row; None where every row is every task's
    n_tasks: int

    @property
    def is_shared(self) -> bool:
        """Whether all tasks have the same rows."""
        return self.index is None

    def __iter__(self) -> Iterator[TaskRows]:
        """Rows of each task in turn."""
        for task in range(self.n_tasks):
            if self.index is None:
                yield TaskRows(self.inputs, self.targets[:, task])
            else:
                rows = self.rows[task]
                yield TaskRows(self.inputs[rows], self.targets[rows])

    @cached_property
    def rows(self) -> list[IntArray]:
        """Rows of each task, where they have their own."""
        assert self.index is not None
        order = np.argsort(self.index, kind="stable")
        ends = np.cumsum(np.bincount(self.index, minlength=self.n_tasks))
        return np.split(order, ends[:-1])

    @cached_property
    def moments(self) -> TaskMoments:
        """All that a linear model with a squared loss can know."""
        return TaskMoments.of(self)


@dataclass(frozen=True, eq=False)
class TaskMoments:
    """Second moments of each task about its own means, so that every task has an intercept.

    The loss of coefficients ``W``, one row per task, is the sum over tasks of the squared error
    over twice the number of rows, which is scikit-learn's convention::

        f(W) = sum_t |y_t - X_t w_t|^2 / (2 n_t)
    """

    gram: FloatArray  # (T, D, D), X_t'X_t / n_t; (1, D, D) where all tasks have the same rows
    cross: FloatArray  # (T, D), X_t'y_t / n_t
    square: FloatArray  # (T,), y_t'y_t / n_t
    n_rows: IntArray  # (T,)
    mean_inputs: FloatArray  # (T, D)
    mean_target: FloatArray  # (T,)

    @classmethod
    def of(cls, data: TaskData) -> TaskMoments:
        """Reduce the rows."""
        if data.index is None:
            mean, means = data.inputs.mean(axis=0), data.targets.mean(axis=0)
            X, Y = data.inputs - mean, data.targets - means
            n = X.shape[0]
            return cls(
                (X.T @ X / n)[None],
                Y.T @ X / n,
                np.einsum("ij,ij->j", Y, Y) / n,
                np.full(data.n_tasks, n),
                np.broadcast_to(mean, (data.n_tasks, mean.size)),
                means,
            )
        parts = []
        for rows in data:
            mean, level, n = rows.inputs.mean(axis=0), float(rows.target.mean()), rows.target.size
            X, y = rows.inputs - mean, rows.target - level
            parts.append((X.T @ X / n, X.T @ y / n, float(y @ y) / n, n, mean, level))
        gram, cross, square, n_rows, means, levels = map(np.array, zip(*parts, strict=True))
        return cls(gram, cross, square, n_rows, means, levels)

    @property
    def shape(self) -> tuple[int, int]:
        """Tasks and features."""
        return self.cross.shape

    def loss(self, coef: FloatArray) -> float:
        """``f(W)``."""
        return 0.5 * float(self.residual_squares(coef).sum())

    def gradient(self, coef: FloatArray) -> FloatArray:
        """Gradient of ``f``, (T, D)."""
        return self._apply(coef) - self.cross

    def residual_squares(self, coef: FloatArray) -> FloatArray:
        """``|y_t - X_t w_t|^2 / n_t`` of each task."""
        quadratic = np.einsum("ij,ij->i", coef, self._apply(coef) - 2.0 * self.cross)
        return np.asarray(np.maximum(self.square + quadratic, 0.0))

    def dual(self, coef: FloatArray, scale: float = 1.0) -> float:
        """Value of the dual function without the penalty's part, at the scaled residuals of W.

        With ``theta_t = scale r_t / n_t`` it is ``sum_t theta_t'y_t - n_t |theta_t|^2 / 2``. A
        penalty ``h`` subtracts its conjugate at ``-scale gradient(W)``; the difference between the
        objective and this bound is the duality gap.
        """
        residual = self.residual_squares(coef)
        with_target = self.square - np.einsum("ij,ij->i", coef, self.cross)
        return float(np.sum(scale * with_target - 0.5 * scale**2 * residual))

    @cached_property
    def curvature(self) -> float:
        """Largest eigenvalue of the Hessian of ``f``: the Lipschitz constant of its gradient."""
        return float(np.linalg.eigvalsh(self.gram)[:, -1].max())

    @cached_property
    def spectrum(self) -> tuple[FloatArray, FloatArray]:
        """Eigenvalues (T or 1, D) and eigenvectors, in columns, of each ``gram``, exact zeros.

        Decomposed as it is, ``gram`` would lose a feature beside another that is a million times
        larger, whose square is 1e12 times larger. So it is factored in standard units, in which it
        is also decided what is collinear, and the factor is decomposed in the units given.
        """
        diagonal = np.einsum("tii->ti", self.gram)
        level = np.abs(self.mean_inputs[: self.gram.shape[0]])
        # The mean of a constant is off by rounding, once per row at most.
        rounding = (self.n_rows[: self.gram.shape[0], None] + 10.0) * np.finfo(float).eps
        flat = np.sqrt(diagonal) <= rounding * level
        unit = np.where(flat | (diagonal == 0.0), 1.0, np.sqrt(diagonal))
        moving = np.where(flat, 0.0, 1.0) / unit
        values, vectors = np.linalg.eigh(self.gram * moving[:, :, None] * moving[:, None, :])
        kept = values > COLLINEAR * values[:, -1:]
        factor = unit[:, :, None] * vectors * np.sqrt(np.where(kept, values, 0.0))[:, None, :]
        left, sizes, _ = np.linalg.svd(factor)
        there = np.arange(sizes.shape[1]) < np.count_nonzero(kept, axis=1)[:, None]
        return np.where(there, sizes**2, 0.0), left

    def intercepts(self, coef: FloatArray) -> FloatArray:
        """Intercept of each task."""
        return np.asarray(self.mean_target - np.einsum("ij,ij->i", self.mean_inputs, coef))

    def _apply(self, coef: FloatArray) -> FloatArray:
        if self.gram.shape[0] == 1:
            return np.asarray(coef @ self.gram[0])
        return np.asarray(np.einsum("tij,tj->ti", self.gram, coef))


class MultiTaskRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A regressor of several tasks, whether they share their rows or not.

    ``fit(X, Y)`` takes one column of ``Y`` per task; ``fit(X, y, tasks=ids)`` takes rows that
    belong to one task each. A method implements ``_fit_tasks(data)`` and
    ``_predict_tasks(inputs)``, and ``_predict_one(inputs, task)`` or
    ``_predict_rows(inputs, index)`` if these cost less than predicting all tasks.
    """

    def fit(self, X: Any, y: Any, tasks: Any = None) -> Self:
        """Fit all tasks.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            Features.
        y : array-like of shape (n_samples, n_tasks) or (n_samples,)
            A column for each task; with ``tasks`` one value per row.
        tasks : array-like of shape (n_samples,), str, int or None, default=None
            The task of each row: ids, or the column of ``X`` that holds them. None: every row is a
            row of every task.
        """
        self._column = tasks if check.is_column(tasks) else None
        X, tasks = _apart(X, tasks)
        inputs = check.read_inputs(self, X, reset=True)
        targets = check.read_targets(y, inputs.shape[0], what="y")
        self._is_vector = targets.is_vector
        self.__dict__.pop("tasks_", None)
        if tasks is None:
            data = TaskData(inputs, targets.values, None, targets.values.shape[1])
        else:
            if targets.values.shape[1] != 1:
                raise ValueError(
                    f"y has {targets.values.shape[1]} columns and tasks is given: pass one value "
                    "per row, or leave out tasks where every column is a task."
                )
            # One task alone is fine here; a fold of a search may hold no other.
            known = check.read_tasks(tasks, inputs.shape[0], None, least=1)
            self.tasks_ = check.as_ids(known.ids)
            data = TaskData(inputs, targets.values[:, 0], known.of_row, len(known.ids))
        self.n_tasks_ = data.n_tasks
        self._fit_tasks(data)
        return self

    def predict(self, X: Any, tasks: Any = None) -> FloatArray:
        """Predict all tasks, one column each, or for each row that of its task.

        Where fit was given the column of ``X`` that holds the ids, it is looked for again.
        """
        check_is_fitted(self)
        own = hasattr(self, "tasks_")
        tasks = self._column if tasks is None else tasks
        if own != (tasks is not None):
            raise ValueError(
                f"{type(self).__name__} was fitted {'with' if own else 'without'} tasks: "
                + ("pass the task of each row." if own else "leave tasks out.")
            )
        X, tasks = _apart(X, tasks)
        inputs = check.read_inputs(self, X, reset=False)
        if not own:
            predicted = self._predict_tasks(inputs)
            return predicted[:, 0] if self._is_vector else predicted
        position = {task: number for number, task in enumerate(self.tasks_.tolist())}
        ids = check.read_ids(tasks, inputs.shape[0])
        strangers = [task for task in dict.fromkeys(ids) if task not in position]
        if strangers:
            shown = ", ".join(map(repr, strangers[:6])) + (", ..." if len(strangers) > 6 else "")
            raise ValueError(
                f"tasks that fit has not seen: {shown} (it has seen {len(position)}): fit again "
                "with rows of these tasks, or use PooledCTFARegressor(unseen='nearest')."
            )
        return self._predict_rows(inputs, np.array([position[task] for task in ids], dtype=np.intp))

    def score(self, X: Any, y: Any, tasks: Any = None) -> float:
        """R2: the mean over tasks that share their rows, that of all rows where they do not."""
        predicted = self.predict(X, tasks)
        true = check.read_targets(y, predicted.shape[0], what="y").values
        check.require_rows(true, 2)
        return float(r2_score(true.reshape(predicted.shape), predicted))

    def _fit_tasks(self, data: TaskData) -> None:
        raise NotImplementedError

    def _predict_tasks(self, inputs: FloatArray) -> FloatArray:
        raise NotImplementedError

    def _predict_rows(self, inputs: FloatArray, index: IntArray) -> FloatArray:
        """Predict each row for its own task."""
        predicted = np.empty(inputs.shape[0])
        for task in np.unique(index).tolist():
            at = index == task
            predicted[at] = self._predict_one(inputs[at], task)
        return predicted

    def _predict_one(self, inputs: FloatArray, task: int) -> FloatArray:
        return self._predict_tasks(inputs)[:, task]


class LinearTasks(MultiTaskRegressor):
    """Tasks with coefficients of their own: ``coef_`` (T, D) and ``intercept_`` (T,).

    A method implements ``_fit_tasks``, and calls ``_settle``.
    """

    coef_: FloatArray
    intercept_: FloatArray

    def _settle(self, coef: FloatArray, moments: TaskMoments) -> None:
        self.coef_ = coef
        self.intercept_ = moments.intercepts(coef)

    def _predict_tasks(self, inputs: FloatArray) -> FloatArray:
        return np.asarray(inputs @ self.coef_.T + self.intercept_)

    def _predict_rows(self, inputs: FloatArray, index: IntArray) -> FloatArray:
        slopes = np.einsum("ij,ij->i", inputs, self.coef_[index])
        return np.asarray(slopes + self.intercept_[index])


def _apart(X: Any, tasks: Any) -> tuple[Any, Any]:
    """Features and ids, where these were a column of X."""
    return check.take_column(X, tasks) if check.is_column(tasks) else (X, tasks)
