"""Tasks with inputs of their own: how a group serves its members, for any groups, on other rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np

from ctfa.core.partition import Partition
from ctfa.core.series import CONSTANT, Series
from ctfa.core.shrinkage import shrink
from ctfa.core.small_fits import RowMoments, Slopes, regress
from ctfa.core.squared_errors import SquaredErrors
from ctfa.core.types import BoolArray, FloatArray, IntArray

#: Shares of the variance with which tasks were found to differ from their group, that a held-out
#: row may prefer: none (the group alone serves its members), or less than was found, because series
#: that neighbours share make tasks look more different than they are.
TEMPERS = (0.0, 0.1, 0.3, 1.0)


#: A fit that passes through every row has nothing left to be judged by; this much is taken.
LEAST_SPARE = 1e-3


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


class OwnFit(Protocol):
    """Fits of tasks by any groups."""

    own: OwnRows

    def take(self, tasks: IntArray) -> OwnFit:
        """The same for some of the tasks."""

    def squares(self, partition: Partition) -> SquaredErrors:
        """Squared errors to expect when groups serve their members alone.

        Row by row those of fit, made larger for what a fit has seen; their mean over the rows of a
        task is its predicted risk. NaN where a task or its group is not complete.
        """

    def predict(
        self, partition: Partition, rows: Series, tempers: Sequence[float]
    ) -> Iterator[FloatArray]:
        """Predictions ``(L, n)`` of the targets, one array a temper; NaN where impossible."""


class SharedFit:
    """Groups that share coefficients: their members' rows are stacked, each about its own means."""

    def __init__(self, series: Series, *, penalised: bool) -> None:
        self.series, self.penalised = series, penalised
        self.own = OwnRows.of(series)
        self.moments = RowMoments.of(self.own.inputs, self.own.target, self.own.n_rows)

    def take(self, tasks: IntArray) -> SharedFit:
        """The same for some of the tasks."""
        return SharedFit(self.series.of_tasks(tasks), penalised=self.penalised)

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
        summed = self.moments.summed(partition.labels, partition.n_groups)
        return regress(summed, penalised=self.penalised)

    def predict(
        self, partition: Partition, rows: Series, tempers: Sequence[float]
    ) -> Iterator[FloatArray]:
        """By the group's coefficients, moved towards the task's own, on the task's own inputs."""
        coef = self._slopes(partition).coef[partition.labels]
        inputs = _about(rows, self.series.has, self.own.centre)
        level = self.own.centre[:, -1:]
        moved = _moved(self.moments.about(coef), partition, tempers)
        for step in moved:
            yield np.einsum("lkn,lk->ln", inputs, coef + step) + level


class AveragedFit:
    """Groups that are averaged: the mean target is fitted to the mean inputs, slot by slot."""

    def __init__(self, series: Series, *, penalised: bool) -> None:
        self.series, self.penalised = series, penalised
        self.own = OwnRows.of(series)
        self.moments = RowMoments.of(self.own.inputs, self.own.target, self.own.n_rows)

    def take(self, tasks: IntArray) -> AveragedFit:
        """The same for some of the tasks."""
        return AveragedFit(self.series.of_tasks(tasks), penalised=self.penalised)

    def squares(self, partition: Partition) -> SquaredErrors:
        """A member errs by its difference from the mean, and by what the fit leaves of the mean.

        On new rows, with ``d = y_i - mean``, ``e`` the residual of the mean and ``r`` coefficients:
        ``d^2/(n-1) + 2 d e/(n-r-1) + e^2 (n-2)/((n-r-1)(n-r-2))``, summed over rows. Unbiased for
        jointly Gaussian data, and summed over members it is the risk by which groups are merged. A
        penalised fit is judged as by generalised cross-validation.
        """
        grouped = mean_series(self.series, partition)
        mean = OwnRows.of(grouped)
        moments = RowMoments.of(mean.inputs, mean.target, mean.n_rows)
        slopes = regress(moments, penalised=self.penalised)
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
        model = self._model(partition)
        served = model(rows, partition)
        if not any(tempers):
            yield from (served for _ in tempers)
            return
        left = self._left_by(model(self.series, partition))
        inputs = _about(rows, self.series.has, self.own.centre)
        for temper, step in zip(tempers, _moved(left, partition, tempers), strict=True):
            moved = np.einsum("lkn,lk->ln", inputs, step) if temper > 0.0 else 0.0
            # Where a task lacks inputs of its own its group still serves it.
            yield served + np.where(np.isnan(moved), 0.0, moved)

    def _model(self, partition: Partition) -> _MeanModel:
        grouped = mean_series(self.series, partition)
        own = OwnRows.of(grouped)
        moments = RowMoments.of(own.inputs, own.target, own.n_rows)
        slopes = regress(moments, penalised=self.penalised)
        return _MeanModel(slopes, own.centre, grouped.has, self.series.has)

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


class _MeanModel(NamedTuple):
    """Fits of mean targets to mean inputs."""

    slopes: Slopes
    centre: FloatArray
    has: BoolArray  # (groups, K)
    member_has: BoolArray  # (L, K)

    def __call__(self, rows: Series, partition: Partition) -> FloatArray:
        """Each task's prediction by its group, ``(L, n)``."""
        inputs = _about(_inputs_of(rows, self.member_has, partition), self.has, self.centre)
        group = np.einsum("gkn,gk->gn", inputs, self.slopes.coef) + self.centre[:, -1:]
        return np.asarray(group[partition.labels])


def mean_series(series: Series, partition: Partition) -> Series:
    """Series of the groups: row by row the mean of the members observed there, by weight."""
    shape = (partition.n_groups, series.n_slots + 1, series.n_rows)
    values = np.empty(shape)
    for slot in range(shape[1]):
        values[:, slot] = _observed_mean(series.values[:, slot], partition, series.task_weights)
    has = np.zeros((partition.n_groups, series.n_slots), dtype=bool)
    np.logical_or.at(has, partition.labels, series.has)
    return Series(values, has, series.weights, counts=series.counts)


def _observed_mean(
    values: FloatArray, partition: Partition, weights: FloatArray | None
) -> FloatArray:
    """Mean over the observed members of each group, ``(L, n) -> (groups, n)``; NaN without any."""
    order = np.argsort(partition.labels, kind="stable")
    starts = np.concatenate(([0], np.cumsum(partition.sizes)[:-1])).astype(np.intp)
    sorted_values = values[order]
    gaps = np.isnan(sorted_values)
    if weights is not None:
        own = weights[order, None]
        sums = np.add.reduceat(np.where(gaps, 0.0, sorted_values * own), starts, axis=0)
        counts = np.add.reduceat(np.where(gaps, 0.0, own), starts, axis=0)
        return np.where(counts > 0.0, sums / np.where(counts > 0.0, counts, 1.0), np.nan)
    if not gaps.any():
        return np.asarray(np.add.reduceat(sorted_values, starts, axis=0) / partition.sizes[:, None])
    sums = np.add.reduceat(np.where(gaps, 0.0, sorted_values), starts, axis=0)
    counts = np.add.reduceat(~gaps, starts, axis=0, dtype=float)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(counts > 0.0, sums / counts, np.nan))


def _inputs_of(rows: Series, has: BoolArray, partition: Partition) -> Series:
    """Mean inputs of the groups in other rows, of the slots that their members had in fit."""
    values = rows.values
    if (rows.has & ~has).any():
        known = np.concatenate((has, np.ones((rows.n_tasks, 1), dtype=bool)), axis=1)
        values = np.where(known[:, :, None], values, np.nan)
    return mean_series(replace(rows, values=values, has=rows.has & has), partition)


def _about(rows: Series, has: BoolArray, centre: FloatArray) -> FloatArray:
    """Inputs about the means of fit; slots that a task lacks are zero, gaps are NaN."""
    inputs = rows.values[:, :-1] - centre[:, :-1, None]
    inputs[~has] = 0.0
    return np.asarray(inputs)


def _moved(
    moments: RowMoments, partition: Partition, tempers: Sequence[float]
) -> Iterator[FloatArray]:
    """What each task adds to its group's coefficients, one array a temper."""
    together: IntArray = np.flatnonzero(partition.sizes[partition.labels] > 1)
    still = np.zeros(moments.moment.shape)
    if not together.size or not any(tempers):
        yield from (still for _ in tempers)
        return
    part = RowMoments(*(column[together] for column in moments))
    for corrections in shrink(part, tempers):
        step = still.copy()
        step[together] = corrections.coef
        yield step
