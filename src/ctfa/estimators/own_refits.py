"""Merges of tasks with rows or inputs of their own, judged by the regressor that serves.

Every task is fitted once without each fold and once without each pair of folds, and its models are
asked about the rows of all tasks: see ``Crosswise`` in ``core/tasks/out_of_fold.py``. Models of
single targets are the same whether a group shares them or averages what they say, so for inputs of
their own one round of fits judges both ways.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ctfa import _reading as check
from ctfa.core.criteria import TARGET_CRITERIA, TINY
from ctfa.core.levels import Tempers
from ctfa.core.members import Gain
from ctfa.core.partition import Partition
from ctfa.core.series import Series
from ctfa.core.tasks.base import PathPoint, Rule, mean_by, mean_of
from ctfa.core.tasks.out_of_fold import Crosswise, OutOfFold
from ctfa.core.tasks.own_inputs import OwnInputs, OwnRows, mean_inputs, mean_series
from ctfa.core.tasks.own_rows import TaskRows
from ctfa.core.types import BoolArray, FloatArray, IntArray
from ctfa.estimators.evidence import MergeEvidence, MergeSummary
from ctfa.estimators.held_out import FoldEvidence
from ctfa.estimators.refits import (
    FEWEST_FOLDS,
    GroupFit,
    Job,
    OnFolds,
    Rows,
    Split,
    Stop,
    ask_groups,
    first_fold,
    fit_and_ask,
    told_of_folds,
    warn_stopped,
)
from ctfa.estimators.search import (
    Choice,
    choose,
    keep_price,
    leave_apart,
    pose,
    settle,
    smallest_error,
)
from ctfa.estimators.targets import EVEN, RATIOS, middle

#: Largest number of predictions that are kept, of every row by the model of every task: half a
#: gigabyte, with those of the folds. 400 tasks of 100 rows.
MOST_TOLD = 2**24


class TaskUnits(NamedTuple):
    """What some rows say of all: what models take, and the targets in units of their own."""

    inputs: FloatArray  # (n, D)
    level: FloatArray  # (n,): of the target, without inputs
    scale: FloatArray  # (T,)


#: Units that rows to learn from give.
Learn = Callable[[IntArray], TaskUnits]


def units_of_rows(rows: TaskRows, train: IntArray) -> TaskUnits:
    """Tasks that share a function differ only in level: targets keep their unit."""
    index, target = rows.index[train], rows.target[train]
    weight = np.ones(train.size) if rows.weights is None else rows.weights[train]
    levels = mean_by(index, target, weight, rows.n_tasks)
    overall = float(weight @ target) / max(float(weight.sum()), TINY)
    levels = np.where(np.bincount(index, weight, rows.n_tasks) > 0.0, levels, overall)
    return TaskUnits(rows.inputs, levels[rows.index], np.ones(rows.n_tasks))


def told_crosswise(
    regressor: Any,
    rows: TaskRows,
    learn: Learn,
    splits: Sequence[Split],
    units: FloatArray,
    n_jobs: int | None,
    *,
    chooses: bool,
    has: BoolArray | None = None,
) -> Crosswise:
    """What models without a row's fold say of it; with those of pairs of folds, if one ``chooses``.

    Rows that no fold holds out are not predicted and are left out here. ``has`` says which inputs
    a task has, (T, D): of others its model knows nothing, and takes them to be at their means.
    """
    check.require_few_told(rows.index.size, rows.n_tasks, MOST_TOLD)
    every, weights, n_tasks = rows.index, rows.weights, rows.n_tasks

    def ask(train: IntArray, test: IntArray) -> tuple[list[Job], Callable[..., Crosswise]]:
        units, index = learn(train), every[test]
        target = (rows.target - units.level) / units.scale[every]
        order = train[np.argsort(every[train], kind="stable")]
        of_task = np.split(order, np.cumsum(np.bincount(every[train], minlength=n_tasks))[:-1])
        inputs = units.inputs[np.concatenate((train, test))]
        of_train = every[train], _taken(weights, train)
        jobs: list[Job] = []
        for task, mine in enumerate(of_task):
            own = learnt(rows, units.inputs, target, mine)
            known_to = inputs if has is None or has[task].all() else inputs * has[task]
            jobs.append((_told_by, (regressor, own, known_to, *of_train, n_tasks)))

        def table(done: Sequence[FloatArray]) -> Crosswise:
            found = np.column_stack(done)
            lost = np.isnan(found).any(axis=0)
            if lost.all():
                # There are enough rows: the error is the regressor's own.
                longest = max(jobs, key=lambda job: job[1][1][1].size)
                _told_by(*longest[1], raises=True)
            found[:, lost] = 0.0
            means, told = found[:n_tasks], found[n_tasks:]
            np.fill_diagonal(means, 0.0)
            told = (told - means[index]) * units.scale[index][:, None]
            # A task counts in means by its rows.
            sizes = np.bincount(every[train], of_train[1], n_tasks).astype(float)
            values, counts = rows.target[test] - units.level[test], np.where(lost, 0.0, sizes)
            judges = _taken(weights, test)
            return Crosswise(values, told, index, counts, judges, place=test, means=means)

        return jobs, table

    rest = every.size, units, check.called(regressor), n_jobs
    whole = told_of_folds(ask, splits, *rest, chooses=chooses)
    n_lost = int((whole.folds[0][1].counts == 0.0).sum())
    check.warn_of_tasks_without_models(n_lost, n_tasks, regressor)
    assert whole.place is not None
    return replace(whole, block=first_fold(splits, every.size)[whole.place])


def learnt(rows: TaskRows, inputs: FloatArray, target: FloatArray, at: IntArray) -> Rows:
    """Some rows, as a regressor learns from them."""
    n_samples = None if rows.counts is None else round(float(rows.counts[at].sum()))
    return inputs[at], target[at], _taken(rows.weights, at), n_samples


def _told_by(
    regressor: Any,
    own: Rows,
    inputs: FloatArray,
    index: IntArray,
    weights: FloatArray | None,
    n_tasks: int,
    *,
    raises: bool = False,
) -> FloatArray:
    """What a model says of the rows of each task to learn from, on average, and of those asked.

    NaN where a task has too few rows for the regressor, such as five neighbours of four.
    """
    told = fit_and_ask(regressor, own, inputs, raises)
    mean = mean_by(index, told[: index.size], weights, n_tasks)
    return np.concatenate((mean, told[index.size :]))


def stacked(told: Crosswise | None, partition: Partition) -> FloatArray:
    """What is added to the targets of tasks about their levels where their rows are stacked.

    Of the target of a task about its level the mean of what inputs explain there is gone. The
    models of its group say what it was, in units of targets; without them it would be taken for a
    level of the task's own, and a group whose tasks lie apart would learn from rows that are
    shifted.
    """
    labels = partition.labels
    if told is None or told.means is None:
        return np.zeros(labels.size)
    sums = partition.sum(told.means * told.counts)[np.arange(labels.size), labels]
    added = mean_of(sums, partition.sum(told.counts[None])[0][labels])
    return np.where(partition.sizes[labels] > 1, added, 0.0)


class OwnTold(NamedTuple):
    """Predictions of held-out rows by models of tasks, and which rows these are."""

    table: Crosswise
    rule: Rule
    rows: TaskRows  # of all tasks; the complete ones of all targets, where inputs are their own
    learn: Learn
    splits: Sequence[Split]  # of these rows
    # Where inputs are their own:
    series: Series | None = None
    date: IntArray | None = None  # (n,): row of the series of each that is stacked
    of_dates: Sequence[Split] = ()  # splits of the rows of the series

    @classmethod
    def of_rows(
        cls,
        rows: TaskRows,
        rule: Rule,
        n_jobs: int | None,
        splits: Sequence[Split],
        *,
        chooses: bool,
    ) -> OwnTold:
        """Fit every task without each fold, and each pair of them if one ``chooses``."""
        unit = 1.0
        if rule.scale == "standard":
            unit = np.sqrt(np.average(rows.within(rows.target) ** 2, weights=rows.weights))
        learn = partial(units_of_rows, rows)
        known = rule.judge, rows, learn, splits, np.full(rows.n_tasks, unit), n_jobs
        return cls(told_crosswise(*known, chooses=chooses), rule, rows, learn, splits)

    @classmethod
    def of_series(
        cls,
        series: Series,
        rule: Rule,
        ways: Sequence[str],
        n_jobs: int | None,
        splits: Sequence[Split],
        *,
        chooses: bool,
    ) -> OwnTold:
        """The same of targets with inputs of their own, for some ways of aggregating."""
        index, date = np.nonzero(OwnRows.of(series).complete)
        weights = None if series.weights is None else series.weights[date]
        rows = TaskRows(*_stacked(series, index, date), weights, index, series.n_tasks)
        units = np.ones(series.n_tasks)
        if rule.scale == "standard":
            spread = OwnInputs(series).spread(rule.scale)
            units = np.where(spread > 0.0, spread, 1.0)
        learn = partial(_units_of_series, series, rows, date, rule.scale)
        of_rows = [_rows_of(date, split, series.n_rows) for split in splits]
        known = rule.judge, rows, learn, of_rows, units, n_jobs
        told = told_crosswise(*known, chooses=chooses, has=series.has)

        def both_ways(one: Crosswise, rows_of: IntArray | None) -> Crosswise:
            """With what averages serve; every input is about its mean: stacks are as they are."""
            averaged = _averaged(series, rows, date, one, rows_of) if "mean" in ways else None
            return replace(one, means=None, averaged=averaged)

        folds = []
        for (seen, asked), (_, test) in zip(told.folds, splits, strict=True):
            own = seen if seen is None else both_ways(_in_own_units(seen, rule.scale), None)
            folds.append((own, both_ways(asked, test)))
        whole = replace(both_ways(told, None), folds=folds)
        return cls(whole, rule, rows, learn, of_rows, series, date, splits)

    def on_folds(
        self, aggregate: str, folds: Sequence[int], points: Sequence[PathPoint], n_jobs: int | None
    ) -> OnFolds:
        """Fit groups that folds have found without them, as they will serve, and ask them.

        A group has one model: what its own says stands for the mean of its members' as well.
        """
        tables = [self.table.folds[fold] for fold in folds]
        if aggregate == "pool":
            told = replace(self.table, folds=tables)
            return ask_groups(
                self.rule.judge, told, partial(self._stacks, told, folds), points, n_jobs
            )
        assert self.table.averaged is not None
        averaged = [(None, one.averaged) for _, one in tables if one.averaged is not None]
        means = replace(self.table.averaged, folds=averaged)
        fits_of = partial(self._means, means, folds)
        return ask_groups(self.rule.judge, means, fits_of, points, n_jobs)

    def _stacks(
        self, told: Crosswise, folds: Sequence[int], fold: int, point: PathPoint
    ) -> Iterator[GroupFit]:
        """Groups that share a function: the rows of all members, as ``stacked`` has them."""
        rows, (train, test) = self.rows, self.splits[folds[fold]]
        units, index = self.learn(train), self.rows.index
        target = (rows.target - units.level) / units.scale[index]
        target += stacked(told.folds[fold][1], point.partition)[index]

        def serve(
            mine: IntArray, theirs: IntArray, tables: Sequence[FloatArray], said: FloatArray
        ) -> None:
            weights, of_row = _taken(rows.weights, mine), index[test[theirs]]
            level = mean_by(index[mine], said[: mine.size], weights, rows.n_tasks)[of_row]
            for table in tables:
                table[theirs] = np.nan_to_num(said[mine.size :] - level) * units.scale[of_row]

        for members in point.partition.groups:
            if members.size > 1:
                mine = train[np.isin(index[train], members)]
                theirs = np.flatnonzero(np.isin(index[test], members))
                own = learnt(rows, units.inputs, target, mine)
                both = units.inputs[np.concatenate((mine, test[theirs]))]
                yield (fit_and_ask, (self.rule.judge, own, both)), partial(serve, mine, theirs)

    def _means(
        self, told: OutOfFold, folds: Sequence[int], fold: int, point: PathPoint
    ) -> Iterator[GroupFit]:
        """Groups that are averaged: the model of the mean target on mean inputs."""
        assert self.series is not None
        (train, test), series = self.of_dates[folds[fold]], self.series
        known, units = series.take(train).standardised(self.rule.scale)
        other = series.take(test).in_units(units)
        grouped = mean_series(known, point.partition)
        inputs = mean_inputs(other, known.has, point.partition).values
        values = told.folds[fold][1].values

        def serve(
            members: IntArray, whole: BoolArray, tables: Sequence[FloatArray], said: FloatArray
        ) -> None:
            scale = units.scales[members, -1]
            level = values[:, members] - (other.values[members, -1] * scale[:, None]).T
            mean = np.full((whole.size, 1), np.nan)
            mean[whole, 0] = said
            served = level + mean * scale
            for table in tables:
                table[:, members] = np.where(np.isnan(served), table[:, members], served)

        for group, members in enumerate(point.partition.groups):
            if members.size > 1:
                slots, mean = grouped.has[group], grouped.values[group]
                learnt_from = np.concatenate((mean[:-1][slots], mean[-1:]))
                kept = ~np.isnan(learnt_from).any(axis=0)
                weights = _taken(known.weights, kept)
                own = learnt_from[:-1, kept].T, learnt_from[-1, kept], weights, None
                asked = inputs[group, :-1][slots].T
                whole = ~np.isnan(asked).any(axis=1)
                job = fit_and_ask, (self.rule.judge, own, asked[whole])
                yield job, partial(serve, members, whole)

    def said(
        self, aggregate: str, folds: Sequence[int], on_folds: OnFolds | None, trust: FloatArray
    ) -> list[tuple[IntArray, FloatArray]]:
        """Final predictions of the held-out rows of each fold, and which rows these are.

        Members' own models, mixed with their groups' by ``trust`` where folds have found groups. Of
        inputs of their own a table of the rows of the series, a column for each target.
        """
        asked = [self.table.folds[fold][1] for fold in folds]
        if aggregate == "mean":
            tests = [self.of_dates[fold][1] for fold in folds]
            own = [one.averaged.told for one in asked if one.averaged is not None]
            told = own if on_folds is None else on_folds.told(trust, 1.0)
            return list(zip(tests, told, strict=True))
        found = []
        for at, (one, fold) in enumerate(zip(asked, folds, strict=True)):
            said, place = one.alone, self.splits[fold][1]
            if on_folds is not None:
                said = said + trust[one.index] * (on_folds.tables[at][2] - said)
            said = self.rows.target[place] - one.values + said
            if self.series is not None and self.date is not None:
                test = self.of_dates[fold][1]
                table = np.full((self.series.n_rows, self.rows.n_tasks), np.nan)
                table[self.date[place], self.rows.index[place]] = said
                place, said = test, table[test]
            found.append((place, said))
        return found


def tell(make: Callable[..., OwnTold], splits: Sequence[Split], *, chooses: bool) -> OwnTold | None:
    """Predictions of held-out rows; None where no models are fitted."""
    if not splits:
        return None
    if chooses and len(splits) < FEWEST_FOLDS:
        check.warn_of_two_folds(len(splits), FEWEST_FOLDS)
        chooses = False
    try:
        return make(splits, chooses=chooses)
    except Stop:
        warn_stopped("every target stays by itself")
        return None


class Refitted(NamedTuple):
    """Groups found by refits, and their errors on held-out rows."""

    aggregate: str
    errors: dict[str, float]  # held-out error of the best of each way of aggregating
    trust: FloatArray  # (T,): weight of each group's model against its members' own
    #: Final predictions of the rows of each fold; None where there are none.
    said: list[tuple[IntArray, FloatArray]] | None
    evidence: MergeEvidence


def find_groups_by_refits(
    model: Any,
    aggregator: Any,
    rule: Rule,
    told: OwnTold | None,
    names: Sequence[str],
    labels: Sequence[str] | None,
    ways: Sequence[str] = ("pool",),
    counts: FloatArray | None = None,
    *,
    complete: bool = True,
) -> Refitted:
    """Merge by predictions of held-out rows, and judge the groups of folds.

    ``labels`` are the names where tasks had any; they count by ``counts`` where groups have means.
    """
    choice = fits = on_folds = said = None
    if told is None:
        check.refuse_unasked(rule.wishes, len(names))
        leave_apart(aggregator, len(names))
    else:
        choice = _choose(told.table, rule, aggregator, ways)
        aggregate = ways[0] if choice is None else choice.aggregate
        fits = told.table.fits(rule, aggregate)
        folds, points = _settle(aggregator, fits, told, rule, choice, labels)
        if aggregator.regressor is None and aggregator.n_groups_ < len(names):
            try:
                on_folds = told.on_folds(aggregate, folds, points, model.n_jobs)
            except Stop:
                warn_stopped("groups serve their members by themselves")
    aggregate = ways[0] if choice is None else choice.aggregate
    partition, trust, share = aggregator.partition_, np.ones(len(names)), 1.0
    if on_folds is not None and model.head == "levels":
        trust, share = on_folds.mixture(partition, counts)
    asks = aggregator.regressor is None and (on_folds is not None or not partition.merged[0].size)
    if told is not None and asks:
        said = told.said(aggregate, folds, on_folds, trust)
    gain, served, merges = Gain(*np.zeros((2, len(names)))), None, []
    is_held_out = on_folds is not None and aggregator.cv_curve_ is not None
    if fits is not None:
        gain = fits.members.gain_over_single(partition)
        for made in fits.members.along(aggregator.history_):
            known = made.total, made.members, made.gain, made.f_statistic, made.f_star
            score = float(made.total.value) if is_held_out else np.nan
            merges.append(MergeSummary.of(*known)._replace(score=score))
    if on_folds is not None:
        gain = _gain_on_folds(on_folds, on_folds.group, partition)
        if model.head == "levels":
            served = _gain_on_folds(on_folds, on_folds.served(trust, share), partition)
    evidence = MergeEvidence.of(
        aggregator, names, merges, gain, served=served, held_out=is_held_out, refitted=True,
        crosswise=aggregate == "pool", gappy=aggregate == "mean" and not complete,
    )  # fmt: skip
    return Refitted(aggregate, {} if choice is None else choice.errors, trust, said, evidence)


def _choose(told: Crosswise, rule: Rule, aggregator: Any, ways: Sequence[str]) -> Choice | None:
    """Choose the limit, where none is given, and the way; None where nothing is to be chosen."""
    limit = check.read_limit(aggregator, TARGET_CRITERIA)
    if not any(told.is_known) or (limit is not None and len(ways) == 1):
        return None
    choice = choose(
        told,
        rule,
        [(number,) for number in range(len(told.folds))],
        smallest_error(middle),
        cv=aggregator.cv,
        limits=RATIOS if limit is None else (limit,),
        aggregates=ways,
        n_jobs=None,
    )
    return choice if limit is None or choice is None else choice._replace(curve=None)


def _settle(
    aggregator: Any,
    fits: Any,
    told: OwnTold,
    rule: Rule,
    choice: Choice | None,
    labels: Sequence[str] | None,
) -> tuple[list[int], Sequence[PathPoint]]:
    """Merge; return the folds that can tell and the groups that these have found."""
    limit = check.read_limit(aggregator, TARGET_CRITERIA)
    chosen = choice if limit is None else None
    if limit is None:
        limit = EVEN if chosen is None else chosen.max_loss
    point = settle(aggregator, pose(rule, fits.space(), fits.variance), limit, labels)
    keep_price(aggregator, rule, choice)
    if chosen is None:
        return [*range(len(told.splits))], [point] * len(told.splits)
    aggregator.cv_curve_ = chosen.curve
    return np.flatnonzero(told.table.is_known).tolist(), chosen.points


def _gain_on_folds(on_folds: OnFolds, served: FloatArray, partition: Partition) -> Gain:
    errors = on_folds.alone[:, None], served[:, None]
    nothing = np.empty((0, partition.n_variables))
    seen = FoldEvidence((None,), on_folds.weight, *errors, nothing, nothing, np.empty(0))
    return seen.gain(Tempers(), partition)


def _stacked(series: Series, index: IntArray, date: IntArray) -> tuple[FloatArray, FloatArray]:
    """Inputs and target of some rows of some targets; slots that these lack are zero."""
    values = series.values[index, :, date]
    inputs = np.where(series.has[index], values[:, :-1], 0.0)
    return inputs, values[:, -1]


def _rows_of(date: IntArray, split: Split, n_rows: int) -> Split:
    """Stacked rows of both sides of a split of the dates."""
    train, test = (np.flatnonzero(np.isin(np.arange(n_rows), side)[date]) for side in split)
    return train, test


def _units_of_series(
    series: Series, rows: TaskRows, date: IntArray, scale: str, train: IntArray
) -> TaskUnits:
    """Every series in its own units, found on the dates of some stacked rows."""
    units = series.take(np.unique(date[train])).standardised(scale, overwrite=True)[1]
    inputs, target = _stacked(series.in_units(units), rows.index, date)
    scales = units.scales[:, -1]
    return TaskUnits(inputs, rows.target - target * scales[rows.index], scales)


def _in_own_units(told: Crosswise, scale: str) -> Crosswise:
    """The same in units of each target that its rows give."""
    if scale != "standard":
        return told
    spread = np.sqrt(mean_by(told.index, told.values**2, told.rows, told.n_tasks))
    return replace(told, units=np.where(spread > 0.0, spread, 1.0))


def _averaged(
    series: Series, rows: TaskRows, date: IntArray, told: Crosswise, asked: IntArray | None
) -> OutOfFold:
    """What models of their own say of targets, a row for each date; NaN where not complete.

    ``asked`` are the dates; None for all that are told of.
    """
    place = told.place
    assert place is not None
    asked = np.unique(date[place]) if asked is None else asked
    position = np.full(series.n_rows, -1)
    position[asked] = np.arange(asked.size)
    at = position[date[place]], told.index
    level = rows.target[place] - told.values
    values, levels, says = np.full((3, asked.size, series.n_tasks), np.nan)
    values[at], levels[at] = rows.target[place], level
    says[at] = level + told.told[np.arange(place.size), told.index]
    weights = None if series.weights is None else series.weights[asked]
    return OutOfFold(values, levels, says, weights, series.task_weights, told.units)


def _taken(values: FloatArray | None, at: IntArray | BoolArray) -> FloatArray | None:
    return None if values is None else values[at]
