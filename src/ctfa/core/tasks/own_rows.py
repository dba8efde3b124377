"""Tasks with rows of their own: pupils of schools, years of a station."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np

from ctfa.core.design import about_means
from ctfa.core.mixed import CommonUnits, estimate, moments_of_rows, solve
from ctfa.core.offsets import Offsets, TaskSummary, random_intercepts, summarise
from ctfa.core.partition import Partition
from ctfa.core.small_fits import RowMoments
from ctfa.core.spaces.pooled import PooledSpace
from ctfa.core.tasks.base import Fold, PathPoint, Rule, squared_errors
from ctfa.core.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class TaskRows:
    """Rows of several tasks, and the task of each."""

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
    def n_inputs(self) -> int:
        """Columns of the inputs."""
        return int(self.inputs.shape[1])

    @property
    def n_samples(self) -> int:
        """Rows, or how many they stand for."""
        return self.index.size if self.counts is None else round(float(self.counts.sum()))

    @property
    def n_samples_of_each(self) -> FloatArray:
        """The same task by task."""
        return np.round(np.bincount(self.index, self.counts, self.n_tasks))

    def of_each(self, values: FloatArray) -> list[FloatArray]:
        """An array over rows, task by task."""
        return [values[rows] for rows in self.rows]

    def of_tasks(self, who: IntArray) -> TaskRows:
        """The rows of some of the tasks."""
        return self.take(np.arange(self.index.size), np.isin(np.arange(self.n_tasks), who))

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

    def fits(self, rule: Rule, aggregate: str = "pool") -> TaskRows:
        """Ready to be merged, and to be judged on other rows."""
        return self

    @property
    def variance(self) -> float:
        """What losses in squared units are measured against."""
        return float(np.var(self.target))

    def space(self, groups: Sequence[Sequence[int]] | None = None) -> PooledSpace:
        """The tasks, ready to be merged; ``groups`` of them are pooled from the start."""
        return PooledSpace.of(
            self.of_each(self.inputs),
            self.of_each(self.target),
            groups=groups,
            row_weights=None if groups or self.weights is None else self.of_each(self.weights),
            n_samples=self.n_samples_of_each,
        )

    def errors(
        self, points: Sequence[PathPoint], other: TaskRows, tempers: Sequence[float]
    ) -> FloatArray:
        """Mean squared error of each point's groups on other rows, ``(points, tempers)``.

        Common slopes and shrunken offsets, each group fitted once; at a temper above zero offsets
        and slopes of a task's own about those of its group, shrunk together.
        """
        weight = np.ones(other.target.size) if other.weights is None else other.weights
        summaries = self.summaries() if 0.0 in tempers else []
        mixed = variance = None
        if any(tempers):
            # The likeness of all tasks, of which that of finer groups is a few rounds away.
            mixed = MixedRows.of(self)
            coarsest = min(points, key=lambda point: point.n_groups).partition
            variance = estimate(mixed.moments, coarsest.labels)

        @cache
        def common(*members: int) -> Offsets:
            return random_intercepts([summaries[task] for task in members])

        def serve(point: PathPoint) -> Iterator[FloatArray]:
            for temper in tempers:
                if mixed is not None and temper != 0.0:
                    labels = point.partition.labels
                    similar = estimate(mixed.moments, labels, known=variance)
                    found = solve(mixed.moments, labels, temper * similar)
                    coef, columns = found.common[labels] + found.own, mixed.units.columns
                    told = np.einsum("ij,ij->i", columns(other.inputs), coef[other.index])
                    yield mixed.level + told
                    continue
                level, slopes = np.empty(self.n_tasks), np.empty((self.n_tasks, other.n_inputs))
                for group in point.partition.groups:
                    fit = common(*group.tolist())
                    level[group], slopes[group] = fit.intercept + fit.values, fit.slopes
                told = np.einsum("ij,ij->i", other.inputs, slopes[other.index])
                yield level[other.index] + told

        return squared_errors(points, serve, other.target, weight)

    def summaries(self) -> list[TaskSummary]:
        """Moments of each task."""
        return [
            summarise(self.inputs[rows], self.target[rows], self._weights_at(rows), int(n_samples))
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

    units: CommonUnits
    level: float  # of the target over all rows
    moments: RowMoments

    @classmethod
    def of(cls, rows: TaskRows, like: MixedRows | None = None) -> MixedRows:
        """Sums over the rows of each task, in units of all of them or of ``like``."""
        units = CommonUnits.of(rows.inputs, rows.weights) if like is None else like.units
        level = float(np.average(rows.target, weights=rows.weights)) if like is None else like.level
        columns, target = units.columns(rows.inputs), rows.target - level
        sums = moments_of_rows(columns, target, rows.rows, rows.weights, rows.n_samples_of_each)
        return cls(units, level, sums)

    def added_in_group(
        self, rows: TaskRows, variance: FloatArray, features: Partition
    ) -> FloatArray:
        """What tasks of one group add, row by row, to a model of means of features."""
        own, design = MixedRows.of(rows, self), None
        if features.n_groups < features.n_variables:
            # Means of groups of features, and the intercept, in columns of unit inputs.
            means = features.mean(np.diag(self.units.scale))
            design = np.zeros((1 + len(means), 1 + means.shape[1]))
            design[0, 0], design[1:, 1:] = 1.0, means
        labels = np.zeros(rows.n_tasks, dtype=np.intp)
        added = solve(own.moments, labels, variance, design=design).own
        columns = self.units.columns(rows.inputs)
        return np.asarray(np.einsum("ij,ij->i", columns, added[rows.index]))
