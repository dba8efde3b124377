"""Tasks with rows of their own: pupils of schools, years of a station."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ctfa.core.design import about_means
from ctfa.core.fit import Fit
from ctfa.core.mixed import Drawn, Mixed, Units, estimate, moments_of_rows, solve
from ctfa.core.offsets import Offsets, TaskSummary, random_intercepts, summarise
from ctfa.core.partition import Partition
from ctfa.core.small_fits import RowMoments
from ctfa.core.spaces.pooled import PooledSpace
from ctfa.core.tasks.base import Fold, PathPoint, Rule, squared_errors
from ctfa.core.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class TaskRows:
    """Rows of several tasks, and which belong to whom."""

    inputs: FloatArray  # (n, D)
    target: FloatArray  # (n,)
    weights: FloatArray | None
    index: IntArray  # (n,), task of each row
    n_tasks: int
    counts: FloatArray | None = None  # (n,), rows that each stands for; None for one each

    @cached_property
    def rows(self) -> list[IntArray]:
        """Rows of each task."""
        order = np.argsort(self.index, kind="stable")
        ends = np.cumsum(np.bincount(self.index, minlength=self.n_tasks))
        return np.split(order, ends[:-1])

    @property
    def n_samples(self) -> int:
        """Rows, or how many they stand for."""
        return self.index.size if self.counts is None else round(float(self.counts.sum()))

    @property
    def n_samples_of_each(self) -> FloatArray:
        """The same task by task."""
        return np.round(np.bincount(self.index, self.counts, self.n_tasks))

    @property
    def counts_of_each(self) -> list[FloatArray] | None:
        """What rows stand for, task by task, None where for one each."""
        return None if self.counts is None else self.of_each(self.counts)

    def of_each(self, values: FloatArray) -> list[FloatArray]:
        """An array over rows, task by task."""
        return [values[rows] for rows in self.rows]

    @property
    def weights_of_each(self) -> list[FloatArray] | None:
        """Weights task by task, None where all are equal."""
        return None if self.weights is None else self.of_each(self.weights)

    def take(self, rows: IntArray, kept: BoolArray) -> TaskRows:
        """Some of the rows, of the tasks that are kept."""
        rows = rows[kept[self.index[rows]]]
        number = np.cumsum(kept) - 1
        return TaskRows(
            self.inputs[rows],
            self.target[rows],
            None if self.weights is None else self.weights[rows],
            number[self.index[rows]],
            int(kept.sum()),
            None if self.counts is None else self.counts[rows],
        )

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Nothing: tasks are factored one by one."""
        return ()

    def fold(self, rule: Rule, train: IntArray, test: IntArray) -> Fold | None:
        """Tasks that have rows to learn from; None where none of them has rows on both sides."""
        counts = [np.bincount(self.index[rows], minlength=self.n_tasks) for rows in (train, test)]
        kept = counts[0] > 0
        if int(kept.sum()) < 2 or not (kept & (counts[1] > 0)).any():
            return None
        return Fold(self.take(train, kept), self.take(test, kept), kept)

    def fits(self, rule: Rule, aggregate: str = "pool") -> TaskFits:
        """Ready to be merged, and to be judged on other rows."""
        return TaskFits(self)

    def space(self) -> PooledSpace:
        """The tasks, ready to be merged."""
        return PooledSpace.of(
            self.of_each(self.inputs),
            self.of_each(self.target),
            row_weights=self.weights_of_each,
            n_samples=self.n_samples_of_each,
        )

    def pooled(self) -> Fit:
        """Common slopes of all tasks together."""
        everybody = range(1, self.n_tasks)
        space = PooledSpace.of(
            self.of_each(self.inputs),
            self.of_each(self.target),
            groups=[[0], everybody],
            n_samples=self.n_samples_of_each,
        )
        return space.evidence(0, np.array([1])).after

    def summaries(self, inputs: FloatArray | None = None) -> list[TaskSummary]:
        """Moments of each task; of other inputs where given."""
        inputs = self.inputs if inputs is None else inputs
        return [
            summarise(inputs[rows], self.target[rows], self._weights_at(rows), int(n_samples))
            for rows, n_samples in zip(self.rows, self.n_samples_of_each, strict=True)
        ]

    def mean_inputs(self) -> FloatArray:
        """Mean inputs of each task, one per row."""
        return np.stack(
            [np.average(self.inputs[r], axis=0, weights=self._weights_at(r)) for r in self.rows]
        )

    def within(self, values: FloatArray) -> FloatArray:
        """An array over rows, about the mean of each task; zero where a task has it constant."""
        table = values.reshape(values.shape[0], -1)
        centred = np.empty(table.shape)
        roots = np.ones(len(table)) if self.weights is None else np.sqrt(self.weights)
        for rows in self.rows:
            centred[rows] = about_means(table[rows], roots[rows])[1]
        return centred.reshape(values.shape)

    def _weights_at(self, rows: IntArray) -> FloatArray | None:
        return None if self.weights is None else self.weights[rows]


class MixedRows(NamedTuple):
    """Rows of tasks as the mixed model of their groups needs them."""

    units: Units
    level: float  # of the target over all rows
    moments: RowMoments

    @classmethod
    def of(cls, rows: TaskRows, like: MixedRows | None = None) -> MixedRows:
        """Sums over the rows of each task, in units of all of them or of ``like``."""
        units = Units.of(rows.inputs, rows.weights) if like is None else like.units
        level = float(np.average(rows.target, weights=rows.weights)) if like is None else like.level
        columns, target = units.columns(rows.inputs), rows.target - level
        sums = moments_of_rows(columns, target, rows.rows, rows.weights, rows.n_samples_of_each)
        return cls(units, level, sums)

    def solve(
        self,
        labels: IntArray,
        variance: FloatArray,
        design: FloatArray | None = None,
    ) -> Mixed:
        """What groups have in common and what tasks add, of the centred target."""
        return solve(self.moments, labels, variance, has_levels=True, design=design)

    def estimate(self, labels: IntArray) -> FloatArray:
        """Variances with which tasks differ from their groups."""
        return estimate(self.moments, labels, has_levels=True)

    def added(self, labels: IntArray, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
        """What tasks add to a known model of their groups, of what this leaves; and their trust."""
        drawn = Drawn.of(self.moments, variance, has_levels=True, labels=labels)
        return drawn.alone, drawn.trust


class TaskFits:
    """Linear models of groups of tasks, each group fitted once.

    Common slopes and shrunken offsets; at a temper above zero offsets and slopes of its own,
    shrunk together.
    """

    def __init__(self, known: TaskRows) -> None:
        self.known = known
        self.variance = float(np.var(known.target))
        self._fits: dict[tuple[int, ...], Offsets] = {}

    def space(self) -> PooledSpace:
        """The tasks, ready to be merged."""
        return self.known.space()

    @cached_property
    def _summaries(self) -> list[TaskSummary]:
        return self.known.summaries()

    def errors(
        self, points: Sequence[PathPoint], other: TaskRows, tempers: Sequence[float]
    ) -> FloatArray:
        """Mean squared error of each point's groups on other rows, ``(points, tempers)``."""
        weight = np.ones(other.target.size) if other.weights is None else other.weights
        total = float(weight.sum())

        def serve(point: PathPoint) -> Iterator[FloatArray]:
            for temper in tempers:
                if temper == 0.0:
                    yield _linear(other, *self._models(point))
                else:
                    yield self._served(point.partition, other, temper)

        if any(tempers):
            # The likeness of all tasks, of which that of finer groups is a few rounds away.
            coarsest = min(points, key=lambda point: point.n_groups).partition
            self._variance = estimate(self._mixed.moments, coarsest.labels, has_levels=True)
        square = float((weight * other.target**2).sum()) / total
        return squared_errors(points, serve, other.target, weight, total, square)

    @cached_property
    def _mixed(self) -> MixedRows:
        return MixedRows.of(self.known)

    def _served(self, partition: Partition, other: TaskRows, temper: float) -> FloatArray:
        """By slopes and offsets of each task's own about those of its group."""
        model, labels = self._mixed, partition.labels
        variance = estimate(model.moments, labels, has_levels=True, known=self._variance)
        found = model.solve(labels, temper * variance)
        coef = (found.common[labels] + found.own)[other.index]
        columns = model.units.columns(other.inputs)
        return np.asarray(model.level + np.einsum("ij,ij->i", columns, coef))

    def _models(self, point: PathPoint) -> tuple[FloatArray, FloatArray]:
        """Level and slopes of each task by its group."""
        level = np.empty(self.known.n_tasks)
        slopes = np.empty((self.known.n_tasks, self.known.inputs.shape[1]))
        for group in point.partition.groups:
            members = tuple(group.tolist())
            if members not in self._fits:
                self._fits[members] = random_intercepts([self._summaries[i] for i in members])
            fit = self._fits[members]
            level[group], slopes[group] = fit.intercept + fit.values, fit.slopes
        return level, slopes


def _linear(tasks: TaskRows, level: FloatArray, slopes: FloatArray) -> FloatArray:
    """What linear models of each task say of its rows."""
    predicted = np.einsum("ij,ij->i", tasks.inputs, slopes[tasks.index])
    return np.asarray(level[tasks.index] + predicted)
