"""Tasks with inputs of their own: fitted by themselves, merged, and served by any groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple, Self

import numpy as np

from ctfa.core.history import MergeHistory
from ctfa.core.members import Gain, SquaredErrors
from ctfa.core.mixed import Drawn, estimate, in_unit_inputs
from ctfa.core.partition import Partition
from ctfa.core.series import CONSTANT, Series
from ctfa.core.small_fits import RowMoments, Slopes, chunks, regress, summed
from ctfa.core.spaces.paired import LeastSquares, PairedSpace, Penalised
from ctfa.core.spaces.pooled import PooledSpace
from ctfa.core.tasks.base import Fold, PathPoint, Rule, sides_of, squared_errors
from ctfa.core.types import BoolArray, FloatArray, IntArray

#: Shares of the variance with which tasks were found to differ from their group, that a held-out
#: row may prefer: none (the group alone serves its members), or less than was found, because series
#: that neighbours share make tasks look more different than they are.
TEMPERS = (0.0, 0.03, 0.1, 0.3, 1.0)
#: How a group may serve its members: by its mean inputs, or by coefficients in common.
AGGREGATES = ("mean", "pool")
#: Tasks whose fits are worked out together.
TASKS_AT_ONCE = 1000
#: A fit that passes through every row has nothing left to be judged by; this much is taken.
LEAST_SPARE = 1e-3


class OwnInputs(NamedTuple):
    """Series of every task, as they were given or in the units that tasks are merged in."""

    series: Series
    #: (L,): the unit of each target over all rows; of rows left out, their own in terms of it.
    unit: FloatArray | None = None

    @property
    def n_tasks(self) -> int:
        """How many tasks there are."""
        return self.series.n_tasks

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Nothing: tasks are factored one by one."""
        return ()

    def fold(self, rule: Rule, train: IntArray, test: IntArray) -> Fold:
        """Both sides in units, and less confounds, that the rows to learn from give."""
        known, units = self.series.take(train).standardised(rule.scale, overwrite=True)
        other = self.series.take(test).in_units(units, overwrite=True)
        # In units of all rows: a target may be constant over those of one fold.
        unit = units.scales[:, -1] if self.unit is None else units.scales[:, -1] / self.unit
        return Fold(OwnInputs(known.free_rows().compressed()), OwnInputs(other, unit))

    def fits(self, rule: Rule, aggregate: str) -> OwnFits:
        """Ready to be merged, and to serve other rows."""
        return fit_own(rule, self.series, aggregate)

    def spread(self, scale: str) -> FloatArray:
        """Units of the targets over all rows."""
        series = self.series
        alone = replace(series, values=series.values[:, -1:], has=series.has[:, :0])
        return alone.standardised(scale)[1].scales[:, -1]


class OwnRows(NamedTuple):
    """Inputs of each task, centred, in the rows where it has them all (and its target)."""

    inputs: FloatArray  # (L, K, n), zero where not complete
    target: FloatArray  # (L, n), likewise
    complete: BoolArray  # (L, n)
    centre: FloatArray  # (L, K + 1): means over those rows
    weight: FloatArray  # (n,): roots of the rows' weights
    counts: FloatArray | None  # (n,): rows that each stands for; None for one each

    @classmethod
    def of(cls, series: Series) -> OwnRows:
        """Centre what a task brings, over the rows where it is complete."""
        values = series.values
        has = np.concatenate((series.has, np.ones((series.n_tasks, 1), dtype=bool)), axis=1)
        weights = np.ones(series.n_rows) if series.weights is None else series.weights
        complete = ~(np.isnan(values) & has[:, :, None]).any(axis=1) & (weights > 0.0)
        weight = np.where(complete, weights, 0.0)
        total = np.maximum(weight.sum(axis=1), np.finfo(np.float64).tiny)
        known = np.where(complete[:, None, :] & has[:, :, None], values, 0.0)
        centre = np.einsum("lkn,ln->lk", known, weight) / total[:, None]
        first = np.take_along_axis(known, complete.argmax(axis=1)[:, None, None], axis=2)[:, :, 0]
        known -= centre[:, :, None]
        known *= (complete * np.sqrt(weights))[:, None, :]
        # What is constant where a task is complete is zero there, and not the rounding of its mean.
        spread = np.sqrt(np.einsum("lkn,lkn->lk", known, known) / total[:, None])
        flat = ~has | (spread <= CONSTANT * np.abs(centre))
        known[flat] = 0.0
        centre = np.where(flat & has, first, centre)
        root = np.sqrt(weights)
        return cls(known[:, :-1], known[:, -1], complete, centre, root, series.counts)

    @property
    def n_rows(self) -> FloatArray:
        """Complete rows of each task, or how many they stand for."""
        if self.counts is not None:
            return np.asarray(np.round(self.complete @ self.counts))
        return np.asarray(self.complete.sum(axis=1), dtype=float)


class OwnFits:
    """Fits of tasks, in the units they are merged in, by any groups.

    Kinds of these differ in how a group serves its members. ``squares`` are squared errors to
    expect when groups serve their members alone: row by row those of fit, made larger for what a
    fit has seen, NaN where a task or its group is not complete; their mean over the rows of a task
    is its predicted risk. ``predict`` gives predictions ``(L, n)`` of the targets, one array for
    each temper; NaN where impossible.
    """

    variance: None = None  # losses are measured as the space says
    squares: Callable[[Partition], SquaredErrors]
    predict: Callable[[Partition, Series, Sequence[float]], Iterator[FloatArray]]
    #: With which tasks differ from what all of them have in common, over the noise, by input.
    differences: Any
    _space: Callable[[bool], Any]

    def __init__(self, series: Series, *, penalised: bool, rule: Rule | None = None) -> None:
        self.series, self.penalised, self.rule = series, penalised, rule
        self._drawn: dict[float, Drawn] = {}

    @cached_property
    def own(self) -> OwnRows:
        """Complete rows of each task."""
        return OwnRows.of(self.series)

    @cached_property
    def moments(self) -> RowMoments:
        """Their sums of squares and products."""
        return RowMoments.of(self.own.inputs, self.own.target, self.own.n_rows)

    def space(self, *, overwrite: bool = False) -> Any:
        """A fresh space of the tasks."""
        assert self.rule is not None
        by_rows = self.rule.solver == "ridge" or not self.series.is_complete
        if self.series.counts is not None and by_rows:
            raise ValueError(
                "rows that stand in for others have the moments that least squares on complete "
                "series needs: gather the rows for ridge regression and for missing values."
            )
        return self._space(overwrite)

    def errors(
        self, points: Sequence[PathPoint], other: OwnInputs, tempers: Sequence[float]
    ) -> FloatArray:
        """Mean squared error of each point's groups at each temper, ``(points, tempers)``.

        Over the rows where a task's target is observed; where nothing can be predicted its mean is.
        """
        rows = other.series
        target = rows.values[:, -1]
        weights = np.ones(rows.n_rows) if rows.weights is None else rows.weights
        counted = np.where(np.isnan(target), 0.0, weights)
        if rows.task_weights is not None:
            counted *= rows.task_weights[:, None]
        weight = counted if other.unit is None else counted * other.unit[:, None] ** 2
        level = self.own.centre[:, -1:]  # not zero where series keep their levels

        def serve(point: PathPoint) -> Iterator[FloatArray]:
            for predicted in self.predict(point.partition, rows, tempers):
                yield np.where(np.isnan(predicted), level, predicted)

        true = np.nan_to_num(target)
        return squared_errors(points, serve, true, weight, float(counted.sum()))

    def drawn(self, temper: float) -> Drawn:
        """Tasks at a share of the variances with which all of them differ, in unit inputs.

        Variances are learned once, of all tasks together, for any groups and tempers: these are
        shares of them.
        """
        if temper not in self._drawn:
            self._drawn[temper] = Drawn.of(self._unit[0], temper * self.differences)
        return self._drawn[temper]

    @cached_property
    def _unit(self) -> tuple[RowMoments, FloatArray]:
        n_rows = self.moments.n_rows - self.series.n_spent
        return in_unit_inputs(self.moments._replace(n_rows=n_rows))

    def steps(
        self, partition: Partition, fitted: FloatArray, temper: float
    ) -> tuple[FloatArray, FloatArray]:
        """Coefficients ``(L, K)`` of what models of groups ``(L, n)`` leave; trust in these."""
        unit, drawn = self._unit[1], self.drawn(temper)
        coef = drawn.own_of(self._left_by(fitted).moment / unit) / unit
        alone = partition.sizes[partition.labels] == 1
        return np.where(alone[:, None], 0.0, coef), np.where(alone, 1.0, drawn.trust)

    def _left_by(self, fitted: FloatArray) -> RowMoments:
        """Moments of what the groups leave, about its mean over the rows of each task."""
        weight = self.own.complete * self.own.weight
        known = np.where(np.isnan(fitted), 0.0, fitted) * weight
        level = (known * weight).sum(axis=1) / np.maximum((weight**2).sum(axis=1), 1.0)
        left = self.own.target - (known - level[:, None] * weight)
        return self.moments._replace(
            moment=np.einsum("lkn,ln->lk", self.own.inputs, left),
            square=np.einsum("ln,ln->l", left, left),
        )

    def added(self, partition: Partition, temper: float) -> FloatArray | None:
        """What tasks add to coefficients that their group's rows have in common, ``(L, K)``."""
        return None

    def take(self, tasks: IntArray) -> Self:
        """The same for some of the tasks."""
        return type(self)(self.series.of_tasks(tasks), penalised=self.penalised, rule=self.rule)


class SharedFit(OwnFits):
    """Groups that share coefficients: their members' rows are stacked, each about its own means."""

    def _space(self, overwrite: bool) -> Any:
        assert self.rule is not None
        series, own = self.series, self.own
        if self.rule.solver != "ridge":
            tables = np.concatenate((own.inputs, own.target[:, None]), axis=1).swapaxes(1, 2)
            totals = own.complete @ own.weight**2
            return PooledSpace.of_centred(tables, own.n_rows, totals, series.task_weights)
        rows, targets, kept_rows = [], [], []
        for values, has, complete in zip(series.values, series.has, own.complete, strict=True):
            # Views where a task has everything: copies of all would be many times the data.
            inputs = values[:-1] if has.all() else np.where(has[:, None], values[:-1], 0.0)
            kept = slice(None) if complete.all() else complete
            rows.append(inputs[:, kept].T)
            targets.append(values[-1, kept])
            kept_rows.append(kept)
        weights = None if series.weights is None else [series.weights[kept] for kept in kept_rows]
        return PooledSpace.of(rows, targets, row_weights=weights, penalised=True)

    def squares(self, partition: Partition) -> SquaredErrors:
        """As generalised cross-validation has them, over ``(1 - leverage/n)^2``.

        A member's share of what the group's fit spends is its share of the group's rows.
        """
        slopes = self._slopes(partition)
        own, rows = self.own, self.moments.n_rows
        fitted = np.einsum("lkn,lk->ln", own.inputs, slopes.coef[partition.labels])
        whole = np.bincount(partition.labels, rows)[partition.labels]
        leverage = slopes.used[partition.labels] * rows / whole + 1.0
        spare = np.maximum(1.0 - leverage / np.maximum(rows, 1.0), LEAST_SPARE)
        left = np.where(own.complete, own.target - fitted, np.nan)
        return SquaredErrors.of(left / spare[:, None], own.counts)

    def _slopes(self, partition: Partition) -> Slopes:
        """Of groups; those of tasks alone are the same in every partition."""
        first = np.unique(partition.labels, return_index=True)[1]
        found = Slopes(*(part[first] for part in self._alone))
        groups, some, labels = partition.merged
        if groups.size:
            moments = RowMoments(*(part[some] for part in self.moments))
            summed = moments.summed(labels)
            for part, own in zip(found, regress(summed, penalised=self.penalised), strict=True):
                part[groups] = own
        return found

    @cached_property
    def _alone(self) -> Slopes:
        return regress(self.moments, penalised=self.penalised)

    def predict(
        self, partition: Partition, rows: Series, tempers: Sequence[float]
    ) -> Iterator[FloatArray]:
        """By the group's coefficients, moved towards the task's own, on the task's own inputs."""
        inputs = about(rows, self.series.has, self.own.centre)
        level = self.own.centre[:, -1:]
        alone = self._slopes(partition).coef[partition.labels]
        for temper in tempers:
            coef = self._coefficients(partition, alone, temper)
            yield np.einsum("lkn,lk->ln", inputs, coef) + level

    @cached_property
    def differences(self) -> FloatArray:
        """About coefficients in common of all tasks."""
        all_together = np.zeros(self.series.n_tasks, dtype=np.intp)
        return estimate(self._unit[0], all_together)

    def added(self, partition: Partition, temper: float) -> FloatArray:
        """From variances of all tasks, about generalised least squares of the group."""
        groups, some, labels = partition.merged
        added = np.zeros(self.moments.moment.shape)
        if temper == 0.0 or not groups.size:
            return added
        drawn = self.drawn(temper)
        common = drawn.common(labels, some=some)[labels]
        added[some] = (drawn.about(common, some) - common) / self._unit[1]
        return added

    def _coefficients(self, partition: Partition, alone: FloatArray, temper: float) -> FloatArray:
        """Coefficients of tasks; ``alone`` are those of their groups when members add nothing."""
        groups, some, labels = partition.merged
        if temper == 0.0 or not groups.size:
            return alone
        drawn, unit = self.drawn(temper), self._unit[1]
        if self.penalised:
            left = self.moments.about(self.added(partition, temper))
            summed = RowMoments(*(part[some] for part in left)).summed(labels)
            common = regress(summed, penalised=True).coef * unit
        else:
            common = drawn.common(labels, some=some)
        coef = alone.copy()
        coef[some] = drawn.about(common[labels], some) / unit
        return coef


class AveragedFit(OwnFits):
    """Groups that are averaged: the mean target is fitted to the mean inputs, slot by slot."""

    def _space(self, overwrite: bool) -> Any:
        assert self.rule is not None
        series, counts = self.series, None
        sizes = series.task_weights
        if sizes is not None and not series.is_complete:
            # Means are over counts of one or more where any member is observed.
            counts = np.broadcast_to((sizes / sizes.min())[:, None, None], series.values.shape)
        ridge = self.rule.solver == "ridge"
        reading = Penalised() if ridge else LeastSquares(self.rule.criterion.counts_columns)
        return PairedSpace.of_series(
            series, reading, sizes=sizes, counts=counts, overwrite=overwrite
        )

    def squares(self, partition: Partition) -> SquaredErrors:
        """A member errs by its difference from the mean, and by what the fit leaves of the mean.

        On new rows, with ``d = y_i - mean``, ``e`` the residual of the mean and ``r`` coefficients:
        ``d^2/(n-1) + 2 d e/(n-r-1) + e^2 (n-2)/((n-r-1)(n-r-2))``, summed over rows. Unbiased for
        jointly Gaussian data, and summed over members it is the risk by which groups are merged. A
        penalised fit is judged as by generalised cross-validation.
        """
        grouped, mean, slopes = self._fit_means(partition)
        residual = mean.target - np.einsum("gkn,gk->gn", mean.inputs, slopes.coef)
        apart = self.series.values[:, -1] - grouped.values[partition.labels, -1]
        apart *= mean.weight
        known = self.own.complete & mean.complete[partition.labels]
        left = np.where(known, residual[partition.labels], np.nan)
        n_rows, used = np.maximum(mean.n_rows, 2.0)[partition.labels], slopes.used[partition.labels]
        if self.penalised:
            spare = np.maximum(1.0 - (used + 1.0) / n_rows, LEAST_SPARE)
            apart *= (n_rows / (n_rows - 1.0))[:, None]
            return SquaredErrors.of(apart + left / spare[:, None], self.own.counts)
        dof = np.maximum(n_rows - used - 1.0, LEAST_SPARE)
        more = (n_rows - 2.0) / np.maximum(dof - 1.0, LEAST_SPARE)
        form = np.array(
            ((n_rows / (n_rows - 1.0), n_rows / dof), (n_rows / dof, n_rows * more / dof))
        )
        return SquaredErrors(np.stack((apart, left)), form, self.own.counts)

    def predict(
        self, partition: Partition, rows: Series, tempers: Sequence[float]
    ) -> Iterator[FloatArray]:
        """By the group's mean inputs, then what the task's own inputs say of the rest."""
        model = self._fit_means(partition)
        served = self._serve(rows, partition, *model)
        if not any(tempers):
            yield from (served for _ in tempers)
            return
        left = self._left_by(self._serve(self.series, partition, *model))
        inputs = about(rows, self.series.has, self.own.centre)
        together = (partition.sizes[partition.labels] > 1)[:, None]
        unit = self._unit[1]
        for temper in tempers:
            if temper == 0.0:
                yield served
                continue
            step = self.drawn(temper).own_of(left.moment / unit) / unit * together
            moved = np.einsum("lkn,lk->ln", inputs, step)
            # Where a task lacks inputs of its own its group still serves it.
            yield served + np.where(np.isnan(moved), 0.0, moved)

    @cached_property
    def differences(self) -> FloatArray:
        """About the mean of all tasks."""
        all_together = Partition(np.zeros(self.series.n_tasks, dtype=np.intp))
        model = self._fit_means(all_together)
        left = self._left_by(self._serve(self.series, all_together, *model))
        unit = self._unit[1]
        return estimate(self._unit[0]._replace(moment=left.moment / unit, square=left.square), None)

    def _fit_means(self, partition: Partition) -> tuple[Series, OwnRows, Slopes]:
        """Fits of mean targets to mean inputs."""
        grouped = mean_series(self.series, partition)
        mean = OwnRows.of(grouped)
        moments = RowMoments.of(mean.inputs, mean.target, mean.n_rows)
        return grouped, mean, regress(moments, penalised=self.penalised)

    def _serve(
        self, rows: Series, partition: Partition, grouped: Series, mean: OwnRows, slopes: Slopes
    ) -> FloatArray:
        """Each task's prediction by its group, ``(L, n)``."""
        inputs = about(mean_inputs(rows, self.series.has, partition), grouped.has, mean.centre)
        served = np.einsum("gkn,gk->gn", inputs, slopes.coef) + mean.centre[:, -1:]
        return np.asarray(served[partition.labels])


def fit_own(rule: Rule | None, series: Series, aggregate: str) -> OwnFits:
    """Fits of tasks, in the units they are merged in, by any groups; without a rule to serve."""
    kind = AveragedFit if aggregate == "mean" else SharedFit
    return kind(series, penalised=rule is not None and rule.penalised, rule=rule)


def mean_series(series: Series, partition: Partition) -> Series:
    """Series of the groups: row by row the mean of the members observed there, by weight.

    NaN where none of them is.
    """
    values = np.empty((partition.n_groups, series.n_slots + 1, series.n_rows))
    order = np.argsort(partition.labels, kind="stable")
    labels, sizes = partition.labels[order], partition.sizes[:, None, None]
    own = np.ones(order.size) if series.task_weights is None else series.task_weights[order]
    for slots in chunks(values.shape[1], series.n_tasks * series.n_rows):
        part = series.values[order, slots]
        gaps = np.isnan(part)
        if series.task_weights is None and not gaps.any():
            values[:, slots] = summed(part, labels) / sizes
            continue
        sums = summed(np.where(gaps, 0.0, part * own[:, None, None]), labels)
        counts = summed(np.where(gaps, 0.0, own[:, None, None]), labels)
        mean = sums / np.where(counts > 0.0, counts, 1.0)
        values[:, slots] = np.where(counts > 0.0, mean, np.nan)
    has = np.zeros((partition.n_groups, series.n_slots), dtype=bool)
    np.logical_or.at(has, partition.labels, series.has)
    return Series(values, has, series.weights, counts=series.counts)


def mean_inputs(rows: Series, has: BoolArray, partition: Partition) -> Series:
    """Mean inputs of the groups in other rows, of the slots that their members had in fit."""
    values = rows.values
    if (rows.has & ~has).any():
        known = np.concatenate((has, np.ones((rows.n_tasks, 1), dtype=bool)), axis=1)
        values = np.where(known[:, :, None], values, np.nan)
    return mean_series(replace(rows, values=values, has=rows.has & has), partition)


def about(
    rows: Series, has: BoolArray, centre: FloatArray, tasks: IntArray | slice = slice(None)
) -> FloatArray:
    """Inputs of some tasks about their means in fit, ``(tasks, K, n)``; gaps are NaN.

    Slots that a task lacks are zero; ``centre`` may hold the means of the targets as well.
    """
    inputs = rows.values[tasks, :-1] - centre[tasks, : has.shape[1], None]
    inputs[~has[tasks]] = 0.0
    return np.asarray(inputs)


def gain_over_single(rule: Rule, aggregate: str, series: Series, partition: Partition) -> Gain:
    """Risk that each task saves by its group's model instead of its own.

    Standard errors are those of a mean over rows of the difference of squared errors, as if rows
    were independent; of rows that stand in for others, as if errors were Gaussian, too. Some groups
    at a time: what fits need is many times the data.
    """
    value, error = np.zeros((2, series.n_tasks))
    merged = [group for group in partition.groups if group.size > 1]
    before = np.cumsum([0, *(group.size for group in merged)]).tolist()
    at_once = groupby(zip(before, merged, strict=False), lambda one: one[0] // TASKS_AT_ONCE)
    for groups in ([group for _, group in batch] for _, batch in at_once):
        tasks = np.concatenate(groups)
        part = fit_own(rule, series.of_tasks(tasks), aggregate)
        labels = np.repeat(np.arange(len(groups)), [group.size for group in groups])
        alone = part.squares(Partition.singletons(tasks.size))
        value[tasks], error[tasks] = alone.less(part.squares(Partition(labels)))
    return Gain(value, error)


def gains_along(fit: OwnFits, history: MergeHistory) -> Iterator[tuple[IntArray, FloatArray]]:
    """Members of each merge, and what each of them gains by it."""
    risk = fit.squares(Partition.singletons(history.n_variables)).mean()
    for sides in sides_of(history):
        both = np.concatenate(sides)
        together = Partition(np.zeros(both.size, dtype=np.intp))
        after = fit.take(both).squares(together).mean()
        yield both, risk[both] - after
        risk[both] = after
