"""Merges judged by the regressor that serves, whatever it is: its fits, counted and run.

Every target is fitted once without each fold, and once without each pair of folds: groups that are
judged on a block of rows must not be found by predictions of models that have seen it. Groups that
were found without a block are fitted without it, too: their errors on it say how far members should
trust their group, and what they gain by it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from numbers import Integral
from typing import Any, NamedTuple, TypeVar

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, Ridge

from ctfa import _reading as check
from ctfa._threads import one_thread
from ctfa.core import progress
from ctfa.core.design import Design, row_scales, weighted_mean
from ctfa.core.members import best_weight
from ctfa.core.partition import Partition
from ctfa.core.ridge import AS_IT_IS, Factors
from ctfa.core.ridge import Ridge as RidgeFit
from ctfa.core.tasks.base import PathPoint, Rule
from ctfa.core.tasks.out_of_fold import Crosswise, OutOfFold
from ctfa.core.tasks.shared import SharedInputs, observed_moments
from ctfa.core.types import FloatArray, IntArray

Split = tuple[IntArray, IntArray]
Table = TypeVar("Table", OutOfFold, Crosswise)

#: Folds that a number of them is lowered to: of four each target is fitted ten times.
MOST_FOLDS = 4
#: Shares of groups' own models that are tried, the simplest first.
SHARES = (1.0, 0.75, 0.5, 0.25, 0.0)
#: Errors that differ by less are the same.
SAME_ERROR = 1e-9
#: Fewest folds of which the limit can be chosen: a pair of them must leave rows to learn from.
FEWEST_FOLDS = 3


def fit_regressor(
    template: Any,
    inputs: FloatArray,
    target: FloatArray,
    weights: FloatArray | None,
    n_samples: int | None = None,
    single: bool | None = None,
    temper: Factors | None = None,
) -> Any:
    """A fresh copy of a regressor, fitted to the rows where its target is observed.

    ``target`` is one column, or several without gaps if the regressor is linear.
    None is least squares, or ridge regression where the rows do not carry that or a ``temper`` is
    given, factors of the penalty of the greatest restricted likelihood. ``n_samples`` is
    how many rows they stand in for, ``single`` whether they were made of numbers in single
    precision, where that is known. Least squares is always solved with columns at unit length:
    since version 1.9 scikit-learn drops directions of ``X`` weaker than 1e-6
    of the strongest, in the units given, and with pressures in Pa beside fluxes in kg m-2 s-1
    the fluxes would get no coefficient.
    """
    gaps = np.isnan(target)
    if gaps.any():
        inputs, target, n_samples = inputs[~gaps], target[~gaps], None
        weights = None if weights is None else weights[~gaps]
    if template is not None and not is_least_squares(template):
        extra = {} if weights is None else {"sample_weight": weights}
        return clone(template).fit(inputs, target, **extra)
    # What scikit-learn finds, without its checks, which take longer than the fit.
    with one_thread(inputs.shape, target.shape):
        design = None
        if temper is None:
            design = Design.of(inputs, weights, n_samples, single)
        # Rounding depends on how a column lies in memory, which is another way in a worker.
        columns = np.ascontiguousarray(target.reshape(inputs.shape[0], -1))
        penalised = template is None and (
            design is None or design.n_samples <= design.rank + check.SPARE
        )
        if penalised or design is None:
            factored = RidgeFit.factor(inputs, weights, n_samples)
            centred = factored.centre(columns)
            factored = factored.chosen_for(centred)
            temper = AS_IT_IS if temper is None else temper
            coef = factored.coefficients(centred, temper)
            level = weighted_mean(columns, factored.row_scale) - factored.mean @ coef
            penalty = factored.average(factored.penalty, temper)
            return linear(coef, level, target.ndim == 1, penalty)
        coef, level = design.coefficients(columns)
        options = {} if template is None else template.get_params()
        regressor = linear(coef, level, target.ndim == 1, options=options)
        regressor.rank_ = design.rank
        return regressor


def linear(
    coef: FloatArray,
    level: FloatArray,
    is_single: bool,
    penalty: FloatArray | None = None,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """A fitted linear model of scikit-learn with coefficients ``(D, targets)`` and intercepts.

    With a penalty a ``Ridge``, whose ``alpha`` is for columns at unit length.
    """
    regressor: LinearRegression | Ridge = LinearRegression(**(options or {}))
    if penalty is not None:
        regressor = Ridge(penalty[0] if is_single else penalty)
    regressor.n_features_in_ = coef.shape[0]
    if is_single:
        regressor.coef_, regressor.intercept_ = coef[:, 0].copy(), float(level[0])
    else:
        regressor.coef_, regressor.intercept_ = np.ascontiguousarray(coef.T), level
    return regressor


def is_least_squares(regressor: Any) -> bool:
    """Whether a regressor is least squares with an intercept, and nothing else is asked of it."""
    if type(regressor) is not LinearRegression:
        return False
    usual = getattr(LinearRegression(), "tol", None)  # before version 1.7 there is none
    same = getattr(regressor, "tol", None) == usual
    return bool(same and regressor.fit_intercept and not regressor.positive)


#: A fit that says something.
Job = tuple[Callable[..., FloatArray], tuple[Any, ...]]
#: Inputs, target, weights, and how many rows these stand for.
Rows = tuple[FloatArray, FloatArray, FloatArray | None, int | None]


def fit_and_ask(regressor: Any, own: Rows, inputs: FloatArray, raises: bool = False) -> FloatArray:
    """Predictions of a fresh model; if nothing ``raises``, NaN where it has too few rows."""
    try:
        model = fit_regressor(regressor, *own)
        try:
            told = np.asarray(model.predict(inputs), dtype=float).reshape(-1)
        except ValueError as error:
            check.refuse_judgement(model, str(error), error)
        check.require_finite_judgement(told, model)
    except ValueError:
        if raises:
            raise
        return np.full(len(inputs), np.nan)
    return told


class Learnt(NamedTuple):
    """Rows that models learn from and rows that they are asked about, in the units of the first."""

    inputs: FloatArray
    values: FloatArray  # (n, L): in standard units, NaN where missing
    weights: FloatArray | None
    n_samples: int | None
    scale: FloatArray  # (L,)
    asked: FloatArray  # inputs of the other rows, as models that learned here take them
    levels: FloatArray  # (m, L): what is said of these without inputs

    @classmethod
    def of(cls, tasks: SharedInputs, rule: Rule, train: IntArray, test: IntArray) -> Learnt:
        """Nothing here depends on any other row."""
        left = tasks.take(train).left
        sample, values = left.sample, left.values
        _, row_scale = row_scales(len(values), sample.weights, sample.n_samples)
        level, spread = observed_moments(values, np.isnan(values), row_scale)
        scale = np.ones(level.size)
        if rule.scale == "standard":
            scale = np.where(spread > 0.0, spread, 1.0)
        asked, levels = tasks.sample.inputs[test], np.repeat(level[None], test.size, axis=0)
        if left.inputs is not None and left.targets is not None:
            columns = tasks.sample.confounds[test]
            asked, levels = asked - left.inputs.at(columns), left.targets.at(columns) + level
        known = sample.weights, sample.n_samples
        return cls(sample.inputs, (values - level) / scale, *known, scale, asked, levels)

    def job(self, regressor: Any, target: FloatArray) -> Job:
        """What a model of a target in these units says of other rows."""
        own = self.inputs, target, self.weights, self.n_samples
        return fit_and_ask, (regressor, own, self.asked, True)


def fewer_folds(cv: Any) -> Any:
    """Folds of ``cv``, a number of folds is lowered, because each costs fits for every target."""
    return min(cv, MOST_FOLDS) if isinstance(cv, Integral) else cv


class Stop(Exception):
    """Asked to stop before all fits were done."""


def run(jobs: Sequence[Job], name: str, n_jobs: int | None) -> list[FloatArray]:
    """Do fits one after the other or ``n_jobs`` at once; their number is reported first."""
    stage = f"{len(jobs)} fits of {name}"
    at_once = min(effective_n_jobs(n_jobs), len(jobs))
    size = 1 if at_once <= 1 else 4 * at_once if progress.is_reported() else len(jobs)
    done: list[FloatArray] = []
    with progress.searching(stage):
        for start in range(0, len(jobs), size):
            # A bar that is full at the last of them.
            if not progress.tick(progress.Counts(len(jobs) + 1, start, 0)):
                raise Stop
            some = jobs[start : start + size]
            if at_once <= 1:
                done += [function(*known) for function, known in some]
            else:
                done += Parallel(n_jobs=n_jobs)(delayed(fn)(*known) for fn, known in some)
    return done


def out_of_fold(
    regressor: Any,
    tasks: SharedInputs,
    rule: Rule,
    splits: Sequence[Split],
    units: FloatArray,
    n_jobs: int | None,
    *,
    chooses: bool,
) -> OutOfFold:
    """What models without a row's fold say of it; with those of pairs of folds, if one ``chooses``.

    Rows that no fold holds out are not predicted and are left out here.
    """

    def ask(train: IntArray, test: IntArray) -> tuple[list[Job], Callable[..., OutOfFold]]:
        learnt, values = Learnt.of(tasks, rule, train, test), tasks.values[test]
        weights = None if tasks.sample.weights is None else tasks.sample.weights[test]

        def table(done: Sequence[FloatArray]) -> OutOfFold:
            told = learnt.levels + np.column_stack(done) * learnt.scale
            return OutOfFold(values, learnt.levels, told, weights, tasks.weights, place=test)

        return [learnt.job(regressor, target) for target in learnt.values.T], table

    n_rows, name = len(tasks.values), check.called(regressor)
    return told_of_folds(ask, splits, n_rows, units, name, n_jobs, chooses=chooses)


def told_of_folds(
    ask: Callable[[IntArray, IntArray], tuple[list[Job], Callable[..., Table]]],
    splits: Sequence[Split],
    n_rows: int,
    units: FloatArray,
    name: str,
    n_jobs: int | None,
    *,
    chooses: bool,
) -> Table:
    """What models say of the rows of the folds that they were fitted without.

    ``ask`` gives fits to the rows of the first side of a split, which then say something of those
    of the second, and what makes a table of what they have said. Rows to find the groups of a fold
    on are told of by models that have seen neither: those of pairs of folds, each row once.
    """
    asked: list[Split] = [(train, test) for train, test in splits]
    parts: list[list[tuple[int, IntArray]]] = [[] for _ in splits]
    for a, b in combinations(range(len(splits)), 2) if chooses else ():
        both = np.intersect1d(splits[a][0], splits[b][0])
        if both.size >= 2:
            # Of each of the two, rows that the other learns from.
            of_a = np.intersect1d(splits[a][1], splits[b][0])
            of_b = np.intersect1d(splits[b][1], splits[a][0])
            parts[b].append((len(asked), np.arange(of_a.size)))
            parts[a].append((len(asked), of_a.size + np.arange(of_b.size)))
            asked.append((both, np.concatenate((of_a, of_b))))
    each = [ask(train, test) for train, test in asked]
    done = iter(run([job for jobs, _ in each for job in jobs], name, n_jobs))
    told = [table([next(done) for _ in jobs]) for jobs, table in each]

    folds = []
    for fold, judges in enumerate(told[: len(splits)]):
        known, is_told = [], np.zeros(n_rows, dtype=bool)
        for at, own in parts[fold]:
            rows = asked[at][1][own]
            known.append((told[at], own[~is_told[rows]]))
            is_told[rows] = True
        learnt = type(judges).together(known) if known else None
        if learnt is not None and (len(learnt.values) < 2 or not len(judges.values)):
            learnt = None
        folds.append((learnt, replace(judges, units=units)))
    left_out = first_fold(splits, n_rows)
    whole = [
        (one, left_out[test] == k)
        for k, (one, (_, test)) in enumerate(zip(told, splits, strict=False))
    ]
    return replace(type(told[0]).together(whole), units=units, folds=folds)


def first_fold(splits: Sequence[Split], n_rows: int) -> IntArray:
    """The first fold that leaves each row out; -1 for none."""
    found = np.full(n_rows, -1, dtype=np.intp)
    for fold in reversed(range(len(splits))):
        found[splits[fold][1]] = fold
    return found


class OnFolds(NamedTuple):
    """How members' models, their mean, and the group's own do on rows that none of them saw.

    Nor had the groups, where folds have found them. Sums of products of the errors of each two of
    the three over the rows of each fold, in the units of all rows.
    """

    weight: FloatArray  # (folds, L)
    products: FloatArray  # (3, 3, folds, L)
    #: What each of the three says of the rows of each fold, where that is kept.
    tables: Sequence[Sequence[FloatArray]] = ()

    def told(self, trust: Any, share: float) -> list[FloatArray]:
        """What is served in each fold."""
        parts = 1.0 - trust, trust * (1.0 - share), trust * share
        return [
            np.asarray(sum(part * table for part, table in zip(parts, three, strict=True)))
            for three in self.tables
        ]

    @property
    def alone(self) -> FloatArray:
        """Squared errors of members' own models."""
        return np.asarray(self.products[0, 0])

    @property
    def group(self) -> FloatArray:
        """Squared errors of the groups' own models."""
        return np.asarray(self.products[2, 2])

    def mixture(self, partition: Partition, counts: FloatArray | None) -> tuple[FloatArray, float]:
        """Weight of each group against its members' models, and the share of its own model in it.

        One weight per group: a target by itself cannot tell. The share, which is one for all
        groups, says whether regressors gain by being averaged or by learning from means.
        """
        best = np.inf, np.ones(partition.n_variables), 1.0
        counted = np.ones(partition.n_variables) if counts is None else counts
        for share in SHARES:
            trust = self._trust(share, partition, counts)
            error = float(self.served(trust, share).sum(axis=0) @ counted)
            if error < best[0] * (1.0 - SAME_ERROR):
                best = error, trust, share
        return best[1:]

    def _trust(self, share: float, partition: Partition, counts: FloatArray | None) -> FloatArray:
        """The weight of each group at a share."""
        apart = np.array([-1.0, 1.0 - share, share])  # the group less the member
        slope = -np.einsum("a,abfl->l", apart, self.products[:, :1])
        curve = np.einsum("a,b,abfl->l", apart, apart, self.products)
        return best_weight(slope, curve, partition, counts)

    def served(self, trust: FloatArray, share: float) -> FloatArray:
        """Squared errors of what is served, ``(folds, L)``."""
        parts = np.stack((1.0 - trust, trust * (1.0 - share), trust * share))
        return np.asarray(np.einsum("al,bl,abfl->fl", parts, parts, self.products))


#: A fit, and what puts that which it says into what members and their groups say of a fold.
GroupFit = tuple[Job, Callable[..., None]]


def groups_on_folds(
    regressor: Any,
    tasks: SharedInputs,
    rule: Rule,
    told: OutOfFold,
    folds: Sequence[Split],
    points: Sequence[PathPoint] | PathPoint,
    n_jobs: int | None = None,
) -> OnFolds:
    """Fit the groups that folds found, without these folds; predict with them and members' models.

    Or the same groups in every fold, where these are given.
    """

    def fits_of(fold: int, point: PathPoint) -> Iterator[GroupFit]:
        learnt, asked = Learnt.of(tasks, rule, *folds[fold]), told.folds[fold][1]
        signs = np.ones(tasks.n_tasks) if point.signs is None else point.signs
        for members in point.partition.groups:
            if members.size > 1:
                group = _mean_of_group(members, signs, tasks.weights)
                serve = partial(_serve, asked, rule.scale, members, signs, learnt.scale, group)
                yield learnt.job(regressor, group(learnt.values[:, members])), serve

    points = [points] * len(folds) if isinstance(points, PathPoint) else points
    return ask_groups(regressor, told, fits_of, points, n_jobs)


def ask_groups(
    regressor: Any,
    told: OutOfFold | Crosswise,
    fits_of: Callable[[int, PathPoint], Iterator[GroupFit]],
    points: Sequence[PathPoint],
    n_jobs: int | None,
) -> OnFolds:
    """Fit the groups of each fold, and hold what they say against what their members' models do."""
    asked = [one for _, one in told.folds]
    each = [(fold, *one) for fold, point in enumerate(points) for one in fits_of(fold, point)]
    done = run([job for _, job, _ in each], check.called(regressor), n_jobs)
    tables = [[one.alone, one.alone.copy(), one.alone.copy()] for one in asked]
    for (fold, _, serve), said in zip(each, done, strict=True):
        serve(tables[fold][1:], said)
    sums = [one.products(three) for one, three in zip(asked, tables, strict=True)]
    weights, products = zip(*sums, strict=True)
    return OnFolds(np.array(weights), np.stack(products, axis=2), tables)


def _mean_of_group(
    members: IntArray, signs: FloatArray, weights: FloatArray | None
) -> Callable[[FloatArray], FloatArray]:
    """Mean over the members of a group that are observed in a row; NaN where none is."""
    counts = np.ones(members.size) if weights is None else weights[members]

    def mean(units: FloatArray) -> FloatArray:
        seen = ~np.isnan(units)
        weight = seen * counts
        total, turned = weight.sum(axis=1), np.where(seen, units, 0.0) * signs[members]
        sums = (turned * weight).sum(axis=1)
        return np.where(total > 0.0, sums / np.where(total > 0.0, total, 1.0), np.nan)

    return mean


def _serve(
    asked: OutOfFold,
    scale: str,
    members: IntArray,
    signs: FloatArray,
    scales: FloatArray,
    mean: Callable[[FloatArray], FloatArray],
    tables: Sequence[FloatArray],
    said: FloatArray,
) -> None:
    """What the mean of members' models, and a model of their mean, say of each member."""
    signs, scales = signs[members], scales[members]
    level = asked.level[:, members]
    by_members = mean((asked.told[:, members] - level) / scales)
    if scale == "none":  # in raw units a group has one level
        level = mean(level)[:, None] * signs
    for table, one in zip(tables, (by_members, said), strict=True):
        table[:, members] = level + one[:, None] * signs * scales


def warn_stopped(instead: str) -> None:
    """Warn what happens to a fit whose judging models were not all fitted."""
    warnings.warn(
        f"The search was stopped before the models that judge were all fitted: {instead}.",
        progress.SearchStopped,
        stacklevel=2,
    )
