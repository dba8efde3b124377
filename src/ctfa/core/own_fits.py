"""Tasks with inputs of their own: how a group serves its members, for any groups, on other rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from ctfa.core.partition import Partition
from ctfa.core.series import Series
from ctfa.core.shrinkage import shrink
from ctfa.core.small_fits import RowMoments, regress
from ctfa.core.types import BoolArray, FloatArray, IntArray

#: Shares of the variance with which tasks were found to differ from their group, that a held-out
#: row may prefer: none (the group alone serves its members), or less than was found, because series
#: that neighbours share make tasks look more different than they are.
TEMPERS = (0.0, 0.1, 0.3, 1.0)


class OwnRows(NamedTuple):
    """Inputs of each task, centred, in the rows where it has them all (and its target)."""

    inputs: FloatArray  # (L, K, n), zero where not complete
    target: FloatArray  # (L, n), likewise
    complete: BoolArray  # (L, n)
    centre: FloatArray  # (L, K + 1): means over those rows
    weight: FloatArray  # (n,): roots of the rows' weights

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
        known -= centre[:, :, None]
        known *= (complete * np.sqrt(weights))[:, None, :]
        known[~has] = 0.0
        return cls(known[:, :-1], known[:, -1], complete, centre, np.sqrt(weights))

    @property
    def n_rows(self) -> FloatArray:
        """Complete rows of each task."""
        return np.asarray(self.complete.sum(axis=1), dtype=float)


class OwnFit(Protocol):
    """Fits of tasks by any groups."""

    def predict(
        self, partition: Partition, rows: Series, tempers: Sequence[float]
    ) -> Iterator[FloatArray]:
        """Predictions ``(L, n)`` of each task's target, one array a temper; NaN where impossible."""


class SharedFit:
    """Groups that share coefficients: their members' rows are stacked, each about its own means."""

    def __init__(self, series: Series, *, penalised: bool) -> None:
        self.own = OwnRows.of(series)
        self.has = series.has
        self.penalised = penalised
        self.moments = RowMoments.of(self.own.inputs, self.own.target, self.own.n_rows)

    def slopes(self, partition: Partition) -> FloatArray:
        """Coefficients of each task's group, ``(L, K)``."""
        summed = self.moments.summed(partition.labels, partition.n_groups)
        return regress(summed, penalised=self.penalised).coef[partition.labels]

    def predict(
        self, partition: Partition, rows: Series, tempers: Sequence[float]
    ) -> Iterator[FloatArray]:
        """By the group's coefficients, moved towards the task's own, on the task's own inputs."""
        coef = self.slopes(partition)
        inputs = _about(rows, self.has, self.own.centre)
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

    def predict(
        self, partition: Partition, rows: Series, tempers: Sequence[float]
    ) -> Iterator[FloatArray]:
        """By the group's mean inputs, then what the task's own inputs say of the rest."""
        grouped = mean_series(self.series, partition)
        own = OwnRows.of(grouped)
        moments = RowMoments.of(own.inputs, own.target, own.n_rows)
        coef = regress(moments, penalised=self.penalised).coef
        test = _about(_inputs_of(rows, self.series, partition), grouped.has, own.centre)
        level = own.centre[:, -1:]
        group = np.einsum("gkn,gk->gn", test, coef)[:] + level
        served = group[partition.labels]
        moving = [temper for temper in tempers if temper > 0.0]
        steps: Iterator[FloatArray] = iter(())
        if moving:
            train = _about(grouped, grouped.has, own.centre)
            fitted = np.einsum("gkn,gk->gn", train, coef) + level
            steps = _moved(self._left_by(fitted[partition.labels]), partition, moving)
            inputs = _about(rows, self.series.has, self.own.centre)
        for temper in tempers:
            yield served if temper == 0.0 else served + np.einsum(
                "lkn,lk->ln", inputs, next(steps)
            )

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


def mean_series(series: Series, partition: Partition) -> Series:
    """Series of the groups: row by row the mean of the members observed there."""
    shape = (partition.n_groups, series.n_slots + 1, series.n_rows)
    values = np.empty(shape)
    for slot in range(shape[1]):
        values[:, slot] = _observed_mean(series.values[:, slot], partition)
    has = np.zeros((partition.n_groups, series.n_slots), dtype=bool)
    np.logical_or.at(has, partition.labels, series.has)
    return Series(values, has, series.weights)


def _observed_mean(values: FloatArray, partition: Partition) -> FloatArray:
    """Mean over the observed members of each group, ``(L, n) -> (groups, n)``; NaN without any."""
    order = np.argsort(partition.labels, kind="stable")
    starts = np.concatenate(([0], np.cumsum(partition.sizes)[:-1])).astype(np.intp)
    sorted_values = values[order]
    gaps = np.isnan(sorted_values)
    if not gaps.any():
        return np.asarray(
            np.add.reduceat(sorted_values, starts, axis=0) / partition.sizes[:, None]
        )
    sums = np.add.reduceat(np.where(gaps, 0.0, sorted_values), starts, axis=0)
    counts = np.add.reduceat(~gaps, starts, axis=0, dtype=float)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(counts > 0.0, sums / counts, np.nan))


def _inputs_of(rows: Series, known: Series, partition: Partition) -> Series:
    """Mean inputs of the groups in other rows, of the slots that their members had in fit."""
    masked = rows.values
    if (rows.has & ~known.has).any():
        masked = np.where(
            np.concatenate((known.has, np.ones((rows.n_tasks, 1), bool)), axis=1)[:, :, None],
            rows.values,
            np.nan,
        )
    return mean_series(Series(masked, rows.has & known.has, rows.weights), partition)


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
