"""Merges of tasks with rows or inputs of their own, judged by the regressor that serves.

Every task is fitted once without each fold and once without each pair of folds, and its models are
asked about the rows of all tasks: see ``core/tasks/crosswise.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ctfa import _validation as check
from ctfa.core.criteria import TARGET_CRITERIA, TINY
from ctfa.core.levels import Tempers
from ctfa.core.members import Gain
from ctfa.core.partition import Partition
from ctfa.core.tasks.base import PathPoint, Rule
from ctfa.core.tasks.crosswise import BothWays, Crosswise
from ctfa.core.tasks.own_rows import TaskRows
from ctfa.core.types import BoolArray, FloatArray, IntArray
from ctfa.estimators.evidence import MergeEvidence, MergeSummary
from ctfa.estimators.held_out import HeldOut
from ctfa.estimators.refits import (
    OnFolds,
    Split,
    asked_of,
    first_fold,
    fit_regressor,
    run,
    told_without,
)
from ctfa.estimators.search import Choice, choose, keep_price, pose, settle, smallest_error
from ctfa.estimators.targets import EVEN, RATIOS, middle

#: Numbers that are kept of what models say, of every row by the model of every task: half a
#: gigabyte, with those of the folds. 400 tasks of 100 rows.
MOST_TOLD = 2**24


class Units(NamedTuple):
    """What some rows say of all: what models take, and the targets in units of their own."""

    inputs: FloatArray  # (n, D)
    level: FloatArray  # (n,): of the target, without inputs
    scale: FloatArray  # (T,)


#: Units that rows to learn from give.
Learn = Callable[[IntArray], Units]


def units_of_rows(rows: TaskRows, train: IntArray) -> Units:
    """Tasks that share a function differ in level and in nothing else: targets keep their unit."""
    index, target = rows.index[train], rows.target[train]
    weight = np.ones(train.size) if rows.weights is None else rows.weights[train]
    total = np.bincount(index, weight, rows.n_tasks)
    sums = np.bincount(index, weight * target, rows.n_tasks)
    everybody = float(weight @ target) / max(float(weight.sum()), TINY)
    levels = np.where(total > 0.0, sums / np.where(total > 0.0, total, 1.0), everybody)
    return Units(rows.inputs, levels[rows.index], np.ones(rows.n_tasks))


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

    Rows that no fold leaves out are told of by nobody and left out here. ``has`` says which inputs
    a task has, (T, D): of others its model knows nothing, and takes them to be at their means.
    """
    check.require_few_told(rows.index.size, rows.n_tasks, MOST_TOLD)
    left_out = first_fold(splits, rows.index.size)
    asked, pairs = asked_of(splits, chooses=chooses)
    told = _tell(regressor, rows, learn, asked, n_jobs, has)
    check.warn_of_tasks_without_models(int((told[0].counts == 0.0).sum()), rows.n_tasks, regressor)
    parts = [
        (one, left_out[test] == fold)
        for fold, (one, (_, test)) in enumerate(zip(told, splits, strict=False))
    ]
    folds = []
    for fold in range(len(splits)):
        found = told_without(fold, splits, pairs, asked, rows.index.size)
        some = [(told[at], mine) for at, mine in found]
        known = _together(some) if some else None
        asked_now = replace(told[fold], units=units)
        if known is not None and (known.index.size < 2 or not asked_now.index.size):
            known = None
        folds.append((known, asked_now))
    block = np.concatenate([np.full(mine.sum(), fold) for fold, (_, mine) in enumerate(parts)])
    whole = replace(_together(parts), block=block)
    means = np.mean([one.means for one in told[: len(splits)] if one.means is not None], axis=0)
    return replace(whole, units=units, means=means, folds=folds)


def _together(parts: Sequence[tuple[Crosswise, Any]]) -> Crosswise:
    """Some rows of each table, in one; a task has a model where it has one in all of them."""
    first = parts[0][0]
    known = np.min([one.counts for one, _ in parts], axis=0)
    counts = np.where(known > 0.0, np.mean([one.counts for one, _ in parts], axis=0), 0.0)
    rows = None
    if first.rows is not None:
        rows = np.concatenate([one.rows[at] for one, at in parts if one.rows is not None])
    values, told, index, place = (
        np.concatenate([getattr(one, name)[at] for one, at in parts])
        for name in ("values", "told", "index", "place")
    )
    return Crosswise(values, told, index, counts, rows, place=place)


def _tell(
    regressor: Any,
    rows: TaskRows,
    learn: Learn,
    asked: Sequence[Split],
    n_jobs: int | None,
    has: BoolArray | None,
) -> list[Crosswise]:
    """What the models of each job say of the rows that are asked."""
    jobs, known = [], []
    for train, test in asked:
        units = learn(train)
        target = (rows.target - units.level) / units.scale[rows.index]
        of_task = _by_task(rows.index, train, rows.n_tasks)
        inputs = units.inputs[np.concatenate((train, test))]
        of_train = rows.index[train], _taken(rows.weights, train)
        for task, mine in enumerate(of_task):
            own = learnt(rows, units.inputs, target, mine)
            known_to = inputs if has is None or has[task].all() else inputs * has[task]
            jobs.append((_told_by, (regressor, own, known_to, *of_train, rows.n_tasks)))
        known.append((units, test, [_size(rows, mine) for mine in of_task]))
    done = run(jobs, check.called(regressor), n_jobs)
    tables = []
    for at, (units, test, sizes) in enumerate(known):
        found = np.column_stack(done[at * rows.n_tasks : (at + 1) * rows.n_tasks])
        lost = np.isnan(found).any(axis=0)
        if lost.all():
            # Not for want of rows: the error is the regressor's own.
            function, arguments = max(
                jobs[at * rows.n_tasks : (at + 1) * rows.n_tasks], key=lambda job: job[1][1][1].size
            )
            function(*arguments, raises=True)
        found[:, lost] = 0.0
        means, told = found[: rows.n_tasks], found[rows.n_tasks :]
        np.fill_diagonal(means, 0.0)
        index = rows.index[test]
        told = (told - means[index]) * units.scale[index][:, None]
        values = rows.target[test] - units.level[test]
        counts = np.where(lost, 0.0, sizes)
        judges = _taken(rows.weights, test)
        tables.append(Crosswise(values, told, index, counts, judges, place=test, means=means))
    return tables


#: Inputs, target, weights, and how many rows these stand for.
Rows = tuple[FloatArray, FloatArray, FloatArray | None, int | None]


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
    told = fit_and_ask(regressor, own, inputs, raises=raises)
    weight = np.ones(index.size) if weights is None else weights
    total = np.bincount(index, weight, n_tasks)
    sums = np.bincount(index, weight * told[: index.size], n_tasks)
    mean = np.where(total > 0.0, sums / np.where(total > 0.0, total, 1.0), 0.0)
    return np.concatenate((mean, told[index.size :]))


def fit_and_ask(
    regressor: Any, own: Rows, inputs: FloatArray, *, raises: bool = False
) -> FloatArray:
    """Predictions of a fresh model; NaN where it cannot be fitted to so few rows."""
    try:
        model = fit_regressor(regressor, *own)
        told = np.asarray(model.predict(inputs), dtype=float).reshape(-1)
        check.require_finite_judgement(told, model)
    except ValueError:
        if raises:
            raise
        return np.full(len(inputs), np.nan)
    return told


def groups_on_folds(
    regressor: Any,
    rows: TaskRows,
    learn: Learn,
    told: Crosswise,
    folds: Sequence[Split],
    points: Sequence[PathPoint],
    n_jobs: int | None = None,
) -> OnFolds:
    """Fit groups that folds have found, without these folds; ask them and their members' models.

    Their rows are stacked as ``stacked`` has them. A group has one model, not two: what its own
    says stands for the mean of its members' as well.
    """
    jobs: list[Any] = []
    found = []
    for fold, ((train, test), point) in enumerate(zip(folds, points, strict=True)):
        units, (_, asked) = learn(train), told.folds[fold]
        target = (rows.target - units.level) / units.scale[rows.index]
        target += stacked(asked, point.partition)[rows.index]
        for members in point.partition.groups:
            if members.size > 1:
                mine = train[np.isin(rows.index[train], members)]
                theirs = np.flatnonzero(np.isin(rows.index[test], members))
                both = np.concatenate((mine, test[theirs]))
                own_rows = learnt(rows, units.inputs, target, mine)
                jobs.append((fit_and_ask, (regressor, own_rows, units.inputs[both])))
                found.append((fold, units, mine, theirs))
    done = run(jobs, check.called(regressor), n_jobs)
    alone = Partition.singletons(rows.n_tasks)
    own = [asked.served(alone) for _, asked in told.folds]
    by_group = [one.copy() for one in own]
    for (fold, units, mine, theirs), said in zip(found, done, strict=True):
        asked = told.folds[fold][1]
        level = _mean_of_tasks(rows, mine, said[: mine.size])
        index = asked.index[theirs]
        by_group[fold][theirs] = (
            np.nan_to_num(said[mine.size :] - level[index]) * units.scale[index]
        )
    weights, products, tables = [], [], []
    for (_, asked), one, other in zip(told.folds, own, by_group, strict=True):
        tables.append((one, other, other))
        rest = np.ones(asked.index.size) if asked.rows is None else asked.rows
        errors = np.stack([asked.values - said for said in (one, other, other)])
        table = [
            [np.bincount(asked.index, asked.weight * a * b, rows.n_tasks) for b in errors]
            for a in errors
        ]
        weights.append(np.bincount(asked.index, rest, rows.n_tasks))
        products.append(np.array(table))
    return OnFolds(np.array(weights), np.stack(products, axis=2), tables)


def told_of_rows(
    rows: TaskRows,
    told: Sequence[Crosswise],
    on_folds: OnFolds | None,
    trust: FloatArray,
) -> list[tuple[IntArray, FloatArray]]:
    """What serves tasks said of the rows of each fold, which it had not seen; and which these are.

    Members' own models, mixed with their groups' by ``trust`` where folds have found groups.
    """
    found = []
    for at, asked in enumerate(told):
        assert asked.place is not None
        said = asked.served(Partition.singletons(rows.n_tasks))
        if on_folds is not None:
            group = on_folds.tables[at][2]
            said = said + trust[asked.index] * (group - said)
        found.append((asked.place, rows.target[asked.place] - asked.values + said))
    return found


def choose_by_refits(
    told: Crosswise | BothWays,
    is_known: Sequence[bool],
    rule: Rule,
    aggregator: Any,
    ways: Sequence[str],
    limit: float | None = None,
) -> Choice | None:
    """Choose the limit, where none is given, and the way; None where nothing is to be chosen."""
    if not any(is_known) or (limit is not None and len(ways) == 1):
        return None
    choice = choose(
        told,
        rule,
        [(number,) for number in range(len(is_known))],
        smallest_error(middle),
        cv=aggregator.cv,
        limits=RATIOS if limit is None else (limit,),
        aggregates=ways,
        n_jobs=None,
    )
    return choice if limit is None or choice is None else choice._replace(curve=None)


def settle_by_refits(
    aggregator: Any,
    fits: Any,
    is_known: Sequence[bool],
    rule: Rule,
    choice: Choice | None,
    names: Sequence[str] | None,
) -> tuple[list[int], Sequence[PathPoint]]:
    """Merge; return the folds that can tell and the groups that these have found."""
    limit = check.read_limit(aggregator, TARGET_CRITERIA)
    chosen = limit is None and choice is not None
    if limit is None:
        limit = EVEN if choice is None else choice.max_loss
    point = settle(aggregator, pose(rule, fits.space(), fits.variance), limit, names)
    keep_price(aggregator, rule, choice)
    if not chosen or choice is None:
        return list(range(len(is_known))), [point] * len(is_known)
    aggregator.cv_curve_ = choice.curve
    return [at for at, known in enumerate(is_known) if known], choice.points


def evidence_of_refits(
    aggregator: Any,
    names: Sequence[str],
    told: Any,
    on_folds: OnFolds | None,
    *,
    head: str,
    counts: FloatArray | None = None,
    crosswise: bool = True,
    gappy: bool = False,
) -> MergeEvidence:
    """What is known of every merge, and of what tasks are served with on blocks of rows."""
    partition = aggregator.partition_
    gain, served, merges = Gain(*np.zeros((2, partition.n_variables))), None, []
    is_held_out = on_folds is not None and aggregator.cv_curve_ is not None
    if told is not None:
        gain = told.gain_over_single(partition)
        merges = [
            MergeSummary.of(made.total, made.members, made.gain, made.f_statistic, made.f_star)
            for made in told.along(aggregator.history_)
        ]
        if is_held_out:
            merges = [merge._replace(score=float(merge.total.value)) for merge in merges]
    if on_folds is not None:
        gain = _gain_on_folds(on_folds, on_folds.group, partition)
        if head == "levels":
            mixed = on_folds.served(*on_folds.mixture(partition, counts))
            served = _gain_on_folds(on_folds, mixed, partition)
    return MergeEvidence.of(
        aggregator, names, merges, gain, served=served, held_out=is_held_out,
        refitted=True, crosswise=crosswise, gappy=gappy,
    )  # fmt: skip


def _gain_on_folds(on_folds: OnFolds, served: FloatArray, partition: Partition) -> Gain:
    errors = on_folds.alone[:, None], served[:, None]
    nothing = np.empty((0, partition.n_variables))
    seen = HeldOut((None,), on_folds.weight, *errors, nothing, nothing, np.empty(0))
    return seen.gain(Tempers(), partition)


def stacked(told: Crosswise | None, partition: Partition) -> FloatArray:
    """What is added to the targets of tasks about their levels where their rows are stacked.

    Of the target of a task about its level the mean of what inputs explain there is gone. The
    models of its group say what it was, in units of targets; without them it would be taken for a
    level of the task's own, and a group whose tasks lie apart would learn from rows that are
    shifted.
    """
    if told is None or told.means is None:
        return np.zeros(partition.n_variables)
    sums = partition.sum(told.means * told.counts)[
        np.arange(partition.n_variables), partition.labels
    ]
    counts = partition.sum(told.counts[None])[0][partition.labels]
    added = np.where(counts > 0.0, sums / np.where(counts > 0.0, counts, 1.0), 0.0)
    return np.where(partition.sizes[partition.labels] > 1, added, 0.0)


def _mean_of_tasks(rows: TaskRows, at: IntArray, values: FloatArray) -> FloatArray:
    """Mean over some of the rows of each task; zero for tasks without any."""
    weight = np.ones(at.size) if rows.weights is None else rows.weights[at]
    total = np.bincount(rows.index[at], weight, rows.n_tasks)
    sums = np.bincount(rows.index[at], weight * values, rows.n_tasks)
    return np.where(total > 0.0, sums / np.where(total > 0.0, total, 1.0), 0.0)


def _by_task(index: IntArray, at: IntArray, n_tasks: int) -> list[IntArray]:
    """Some of the rows, task by task."""
    order = np.argsort(index[at], kind="stable")
    ends = np.cumsum(np.bincount(index[at], minlength=n_tasks))
    return np.split(at[order], ends[:-1])


def _size(rows: TaskRows, at: IntArray) -> float:
    """How much a task counts in means by so many rows."""
    return float(at.size if rows.weights is None else rows.weights[at].sum())


def _taken(values: FloatArray | None, at: IntArray) -> FloatArray | None:
    return None if values is None else values[at]
