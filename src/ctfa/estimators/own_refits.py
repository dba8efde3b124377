"""Targets with inputs of their own, judged by the regressor that serves: in both ways at once.

Models of single targets are the same whether a group shares them or averages what they say, so one
round of fits judges both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ctfa import _validation as check
from ctfa.core.series import Series
from ctfa.core.tasks.base import PathPoint, Rule
from ctfa.core.tasks.crosswise import BothWays, Crosswise
from ctfa.core.tasks.out_of_fold import OutOfFold
from ctfa.core.tasks.own_inputs import OwnInputs, OwnRows, mean_inputs, mean_series
from ctfa.core.tasks.own_rows import TaskRows
from ctfa.core.types import FloatArray, IntArray
from ctfa.estimators.cross_refits import (
    Units,
    fit_and_ask,
    groups_on_folds,
    told_crosswise,
    told_of_rows,
)
from ctfa.estimators.refits import OnFolds, Split, products_of, run


class OwnTold(NamedTuple):
    """What models of targets said of rows that they had not seen, and of which rows that was."""

    both: BothWays
    rows: TaskRows  # complete rows of all targets, stacked
    date: IntArray  # (n,): row of the series of each
    series: Series
    scale: str
    units: FloatArray  # (L,)
    splits: Sequence[Split]

    @classmethod
    def of(
        cls,
        regressor: Any,
        series: Series,
        rule: Rule,
        splits: Sequence[Split],
        ways: Sequence[str],
        n_jobs: int | None,
        *,
        chooses: bool,
    ) -> OwnTold:
        """Fit every target without each fold, and each pair of them if one ``chooses``."""
        complete = OwnRows.of(series).complete
        index, date = np.nonzero(complete)
        inputs, target = _stacked(series, index, date)
        weights = None if series.weights is None else series.weights[date]
        rows = TaskRows(inputs, target, weights, index, series.n_tasks)
        units = np.ones(series.n_tasks)
        if rule.scale == "standard":
            spread = OwnInputs(series).spread(rule.scale)
            units = np.where(spread > 0.0, spread, 1.0)
        learn = partial(_units_of_series, series, rows, date, rule.scale)
        of_rows = [_rows_of(date, split, series.n_rows) for split in splits]
        known = regressor, rows, learn, of_rows, units, n_jobs
        told = told_crosswise(*known, chooses=chooses, has=series.has)
        tables: dict[str, Crosswise | OutOfFold] = {}
        if "pool" in ways:
            # Every input is about its mean: groups are stacked as they are.
            folds = [
                (_in_own_units(one, rule.scale), replace(asked, means=None))
                for one, asked in told.folds
            ]
            tables["pool"] = replace(told, means=None, folds=folds)
        if "mean" in ways:
            in_table = partial(_table, series, rows, date)
            every = np.unique(date[_places(told)])
            folds_of_means = []
            for (one, asked), (_, test) in zip(told.folds, splits, strict=True):
                seen = None if one is None else in_table(one, np.unique(date[_places(one)]), None)
                folds_of_means.append((seen, in_table(asked, test, units)))
            whole = in_table(told, every, units)
            tables["mean"] = replace(whole, folds=folds_of_means)
        both = BothWays(tables, series.n_tasks)
        return cls(both, rows, date, series, rule.scale, units, splits)

    def on_folds(
        self,
        regressor: Any,
        aggregate: str,
        folds: Sequence[int],
        points: Sequence[PathPoint],
        n_jobs: int | None,
    ) -> OnFolds:
        """Fit groups that folds have found without them, as they will serve, and ask them."""
        splits = [self.splits[fold] for fold in folds]
        table = self.both.tables[aggregate]
        if isinstance(table, OutOfFold):
            table = replace(table, folds=[table.folds[fold] for fold in folds])
            return self._means_on_folds(regressor, table, splits, points, n_jobs)
        table = replace(table, folds=[table.folds[fold] for fold in folds])
        learn = partial(_units_of_series, self.series, self.rows, self.date, self.scale)
        of_rows = [_rows_of(self.date, split, self.series.n_rows) for split in splits]
        return groups_on_folds(regressor, self.rows, learn, table, of_rows, points, n_jobs)

    def _means_on_folds(
        self,
        regressor: Any,
        told: OutOfFold,
        splits: Sequence[Split],
        points: Sequence[PathPoint],
        n_jobs: int | None,
    ) -> OnFolds:
        """Groups that are averaged: the model of the mean target on mean inputs."""
        jobs: list[Any] = []
        found = []
        for fold, ((train, test), point) in enumerate(zip(splits, points, strict=True)):
            known, units = self.series.take(train).standardised(self.scale)
            other = self.series.take(test).in_units(units)
            grouped = mean_series(known, point.partition)
            asked = mean_inputs(other, known.has, point.partition).values
            for group, members in enumerate(point.partition.groups):
                if members.size < 2:
                    continue
                slots = grouped.has[group]
                values = grouped.values[group]
                learnt = np.concatenate((values[:-1][slots], values[-1:]))
                kept = ~np.isnan(learnt).any(axis=0)
                weights = None if known.weights is None else known.weights[kept]
                rows = learnt[:-1, kept].T, learnt[-1, kept], weights, None
                inputs = asked[group, :-1][slots].T
                whole = ~np.isnan(inputs).any(axis=1)
                jobs.append((fit_and_ask, (regressor, rows, inputs[whole])))
                levels = other.values[members, -1] * units.scales[members, -1:]
                found.append((fold, members, whole, levels.T, units.scales[members, -1]))
        done = run(jobs, check.called(regressor), n_jobs)
        by_group = [asked.told.copy() for _, asked in told.folds]
        for (fold, members, whole, about, scale), said in zip(found, done, strict=True):
            level = told.folds[fold][1].values[:, members] - about
            mean = np.full((whole.size, 1), np.nan)
            mean[whole, 0] = said
            served, own = level + mean * scale, by_group[fold][:, members]
            by_group[fold][:, members] = np.where(np.isnan(served), own, served)
        tables = [
            [asked.told, one, one] for (_, asked), one in zip(told.folds, by_group, strict=True)
        ]
        sums = [
            products_of(asked, three) for (_, asked), three in zip(told.folds, tables, strict=True)
        ]
        weight, products = zip(*sums, strict=True)
        return OnFolds(np.array(weight), np.stack(products, axis=2), tables)

    def told(
        self, aggregate: str, folds: Sequence[int], on_folds: OnFolds | None, trust: FloatArray
    ) -> list[tuple[IntArray, FloatArray]]:
        """What serves targets said of the rows of each fold, a column each; and which these are."""
        asked = [self.both.tables[aggregate].folds[fold][1] for fold in folds]
        tests = [self.splits[fold][1] for fold in folds]
        if aggregate == "mean":
            said = [one.told for one in asked]
            said = said if on_folds is None else on_folds.told(trust, 1.0)
            return list(zip(tests, said, strict=True))
        found = []
        for test, (place, one) in zip(
            tests, told_of_rows(self.rows, asked, on_folds, trust), strict=True
        ):
            table = np.full((self.series.n_rows, self.series.n_tasks), np.nan)
            table[self.date[place], self.rows.index[place]] = one
            found.append((test, table[test]))
        return found


def _stacked(series: Series, index: IntArray, date: IntArray) -> tuple[FloatArray, FloatArray]:
    """Inputs and target of some rows of some targets; slots that these lack are zero."""
    values = series.values[index, :, date]
    inputs = np.where(series.has[index], values[:, :-1], 0.0)
    return inputs, values[:, -1]


def _rows_of(date: IntArray, split: Split, n_rows: int) -> Split:
    """Stacked rows of both sides of a split of the dates."""
    sides = []
    for side in split:
        mask = np.zeros(n_rows, dtype=bool)
        mask[side] = True
        sides.append(np.flatnonzero(mask[date]))
    return sides[0], sides[1]


def _units_of_series(
    series: Series, rows: TaskRows, date: IntArray, scale: str, train: IntArray
) -> Units:
    """Every series in its own units, found on the dates of some stacked rows."""
    units = series.take(np.unique(date[train])).standardised(scale, overwrite=True)[1]
    inputs, target = _stacked(series.in_units(units), rows.index, date)
    scales = units.scales[:, -1]
    return Units(inputs, rows.target - target * scales[rows.index], scales)


def _in_own_units(told: Crosswise | None, scale: str) -> Crosswise | None:
    """The same in units of each target that its rows give."""
    if told is None or scale != "standard":
        return told
    count = np.maximum(np.bincount(told.index, told.rows, told.n_tasks), 1e-300)
    rows = np.ones(told.index.size) if told.rows is None else told.rows
    spread = np.sqrt(np.bincount(told.index, rows * told.values**2, told.n_tasks) / count)
    return replace(told, units=np.where(spread > 0.0, spread, 1.0))


def _places(told: Crosswise) -> IntArray:
    assert told.place is not None
    return told.place


def _table(
    series: Series,
    rows: TaskRows,
    date: IntArray,
    told: Crosswise,
    dates: IntArray,
    units: FloatArray | None,
) -> OutOfFold:
    """What models of their own say of targets, a row a date; NaN where they are not complete."""
    position = np.full(series.n_rows, -1)
    position[dates] = np.arange(dates.size)
    place = _places(told)
    at = position[date[place]], told.index
    level = rows.target[place] - told.values
    values, levels, says = np.full((3, dates.size, series.n_tasks), np.nan)
    values[at], levels[at] = rows.target[place], level
    says[at] = level + told.told[np.arange(place.size), told.index]
    weights = None if series.weights is None else series.weights[dates]
    return OutOfFold(values, levels, says, weights, series.task_weights, units)
