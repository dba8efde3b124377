"""Phase I of tasks that have rows of their own: rows by task, the rule, and its limit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ctfa import _validation as check
from ctfa._collections import deal_tasks, splits_of
from ctfa._threads import one_thread
from ctfa.core.criteria import TARGET_CRITERIA
from ctfa.core.cut import GRID, CutCurve, without_rounding
from ctfa.core.design import about_means
from ctfa.core.fit import Fit
from ctfa.core.offsets import Offsets, TaskSummary, random_intercepts, summarise
from ctfa.core.partition import Partition
from ctfa.core.scans import SCANS
from ctfa.core.shrinkage import correct
from ctfa.core.spaces import PooledSpace
from ctfa.core.types import BoolArray, FloatArray, IntArray
from ctfa.estimators.merging import TIE, MergeProblem, PathPoint, loss_unit, solve_path
from ctfa.estimators.target_aggregator import TargetAggregator
from ctfa.estimators.target_rule import judge_folds


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
        """Mean inputs of each task, one a row."""
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


def pose(
    aggregator: TargetAggregator, tasks: TaskRows, graph: Any, order: IntArray | None = None
) -> MergeProblem:
    """Phase I of these rows."""
    criterion = check.read_criterion(aggregator.criterion, TARGET_CRITERIA)
    space = tasks.space()
    if order is None:
        rng = check_random_state(aggregator.random_state)
        order = check.read_order(aggregator.order, space, rng)
    tolerance = TIE * loss_unit(criterion, float(np.var(tasks.target)))
    return MergeProblem(space, criterion, aggregator.scan, order, graph, tolerance=tolerance)


def require_meaning(aggregator: TargetAggregator) -> None:
    """Refuse options that mean nothing where rows are not paired."""
    if check.read_criterion(aggregator.criterion, TARGET_CRITERIA).for_means:
        check.refuse_option(
            "criterion",
            aggregator.criterion,
            "averages targets over common rows, which tasks with rows of their own do not have,",
            "use criterion='risk'",
        )
    check.require(aggregator.scan, SCANS, "scan")
    check.require(aggregator.scale, ["standard", "center", "none"], "scale")
    check.require(aggregator.solver, ["ols", "ridge"], "solver")
    check.require_flag(aggregator.flip, "flip")
    if aggregator.scale == "none":
        check.refuse_option(
            "scale",
            "none",
            "would give a group one intercept, and tasks keep an offset of their own",
            "use 'standard' or 'center'",
        )
    if aggregator.flip:
        check.refuse_option("flip", True, "is not available", "turn those targets round yourself")
    if aggregator.guard is not None:
        check.refuse_option(
            "guard", aggregator.guard, "is not available", "use guard=None, and head='shrink'"
        )
    if aggregator.solver != "ols":
        check.refuse_option(
            "solver",
            aggregator.solver,
            "is not available",
            "use solver='ols': tasks without degrees of freedom of their own may merge",
        )


def are_short(tasks: TaskRows, *, chosen: bool) -> bool:
    """Whether tasks leave nothing to judge a merge by, even if all share slopes.

    Says so, and refuses them unless the limit is ``chosen`` here.
    """
    n_rows, n_features = tasks.n_samples, tasks.inputs.shape[1]
    # The rank is worked out where the number of features alone does not settle it.
    if n_rows - n_features - tasks.n_tasks > check.SPARE:
        return False
    rank = int(np.asarray(tasks.pooled().rank)[0])
    if n_rows - rank - tasks.n_tasks > check.SPARE:
        return False
    check.keep_apart(n_rows, n_features, rank, tasks.n_tasks, chosen=chosen)
    return True


def choose_cut(
    aggregator: TargetAggregator,
    sample: check.Sample,
    tasks: TaskRows,
    graph: Any,
    groups: Any,
    n_jobs: int | None,
    *,
    shrink: bool,
) -> CutCurve | None:
    """Held-out error of every limit, the groups found anew from the training rows of each fold.

    By linear models, whatever the regressor: common slopes, shrunken offsets and, for the head that
    has them, slopes of each task's own. Asked to stop, the folds finished by then decide; None if
    there are none.
    """
    splits = read_splits(aggregator.cv, sample, tasks, groups)
    each = [(aggregator, tasks, graph, train, test, shrink) for train, test in splits]
    judged, stopped = judge_folds(_judge_fold, each, n_jobs, tasks.n_tasks)
    folds = [fold for fold in judged if fold is not None]
    if stopped and not folds:
        return None
    check.require_judged(len(folds), aggregator.cv)
    errors, n_groups = zip(*folds, strict=True)
    curve = CutCurve(GRID, np.array(errors), np.mean(n_groups, axis=0), -1)
    return replace(curve, chosen=middle_of_best(curve))


def middle_of_best(curve: CutCurve) -> int:
    """The limit of the smallest error; of ties, the middle of those with the fewest groups.

    Not the one nearest to 1.5 among those about as good, as for targets: with as many inputs as
    tasks of own rows have, the best pairs of many are mostly luck, break-even merges too little,
    and folds see it clearly.
    """
    best = np.flatnonzero(curve.fewest_groups(curve.tied(curve.best)))
    # Neighbours only: the same error further off is a coincidence.
    run = best[: 1 + int(np.argmax(np.append(np.diff(best) > 1, True)))]
    return int(run[(run.size - 1) // 2])


def read_splits(
    cv: Any, sample: check.Sample, tasks: TaskRows, groups: Any
) -> list[tuple[IntArray, IntArray]]:
    """Folds; a number of them divides the rows of each task."""
    if sample.folds is not None:  # rows that stand in for others were summed by fold
        return sample.folds["limit"]
    if groups is not None or not isinstance(cv, Integral):
        return check.read_folds(cv, sample, tasks.target, groups)
    longest = int(np.bincount(tasks.index).max())
    return splits_of(deal_tasks(tasks.index, check.read_fold_count(cv, longest)))


@one_thread()
def _judge_fold(
    aggregator: TargetAggregator,
    tasks: TaskRows,
    graph: Any,
    train: IntArray,
    test: IntArray,
    shrink: bool,  # joblib passes on what it is given
) -> tuple[FloatArray, list[int]] | None:
    """Mean squared error of each limit's groups; None where no task has rows on both sides."""
    counts = [np.bincount(tasks.index[rows], minlength=tasks.n_tasks) for rows in (train, test)]
    kept = counts[0] > 0
    if int(kept.sum()) < 2 or not (kept & (counts[1] > 0)).any():
        return None
    graph = None if graph is None else graph[kept][:, kept]
    known, asked = tasks.take(train, kept), tasks.take(test, kept)
    # Scans whose limit is chosen on folds do not look at the order.
    problem = pose(aggregator, known, graph, order=np.arange(known.n_tasks))
    points = solve_path(problem, GRID.tolist())
    judge = _Judge(known, asked, shrink=shrink)
    square = float(np.average(asked.target**2, weights=asked.weights))
    errors = without_rounding(np.array([judge.error(point) for point in points]), square)
    return errors, [point.n_groups for point in points]


class _Judge:
    """Errors of groups on held-out rows, each group fitted once."""

    def __init__(self, known: TaskRows, asked: TaskRows, *, shrink: bool) -> None:
        self.known, self.asked, self.shrink = known, asked, shrink
        self._summaries = known.summaries()
        self._fits: dict[tuple[int, ...], Offsets] = {}
        self._errors: dict[bytes, float] = {}

    def error(self, point: PathPoint) -> float:
        key = point.partition.labels.tobytes()
        if key not in self._errors:
            self._errors[key] = self._error(point.partition)
        return self._errors[key]

    def _error(self, partition: Partition) -> float:
        level = np.empty(self.known.n_tasks)
        slopes = np.empty((self.known.n_tasks, self.known.inputs.shape[1]))
        for group in partition.groups:
            members = tuple(group.tolist())
            if members not in self._fits:
                self._fits[members] = random_intercepts([self._summaries[i] for i in members])
            fit = self._fits[members]
            level[group], slopes[group] = fit.intercept + fit.values, fit.slopes
        gap = _left(self.asked, level, slopes)
        if self.shrink:
            left = self.known.of_each(_left(self.known, level, slopes))
            own = correct(
                self.known.of_each(self.known.inputs),
                left,
                partition.labels,
                weights=self.known.weights_of_each,
                counts=self.known.counts_of_each,
            )
            about = self.asked.inputs - own.centre[self.asked.index]
            gap = gap - np.einsum("ij,ij->i", about, own.coef[self.asked.index])
        return float(np.average(gap**2, weights=self.asked.weights))


def _left(tasks: TaskRows, level: FloatArray, slopes: FloatArray) -> FloatArray:
    """What linear models of each task leave of its target."""
    predicted = np.einsum("ij,ij->i", tasks.inputs, slopes[tasks.index])
    return np.asarray(tasks.target - level[tasks.index] - predicted)
