"""Groups found again on subsamples, and errors on held-out rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import product
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone
from sklearn.metrics import r2_score

from ctfa import _reading as check
from ctfa._threads import one_thread
from ctfa.core import progress
from ctfa.core.confounds import Confounds
from ctfa.core.criteria import TINY
from ctfa.core.cut import CutCurve
from ctfa.core.history import MergeHistory
from ctfa.core.levels import Temper, Tempers
from ctfa.core.members import Gain
from ctfa.core.mixed import Corrections, correct
from ctfa.core.partition import Partition
from ctfa.core.ridge import Factors
from ctfa.core.tasks.base import PathPoint, Rule
from ctfa.core.tasks.shared import SharedInputs
from ctfa.core.types import BoolArray, FloatArray, IntArray
from ctfa.estimators.intervals import without_intervals
from ctfa.estimators.refits import OnFolds
from ctfa.estimators.targets import Found, PhaseOne, TargetAggregator
from ctfa.estimators.zeros import Zeros

Split = tuple[IntArray, IntArray]

#: Errors that differ by less than this share of a target's variance are the same.
SAME = 1e-3
#: Share of an error by which two of them may differ by rounding alone.
SAME_ERROR = 1e-9
#: Intervals whose coverage is measured on held-out rows.
COVERAGE = 0.9
#: Largest number of targets for which it is measured: folds of folds cost as much as the groups.
MOST_COVERED = 2000
#: Largest number of blocks of held-out rows that are told apart; more folds are one block.
MOST_BLOCKS = 24

#: Paired standard errors above the least error over which what tempers count falls to 1/e.
FADING = 0.5
#: Shares of the variance with which members with gaps were found to differ.
SHARES = (1.0, 0.25, 0.06, 0.0)


class FoldEvidence(NamedTuple):
    """Errors on folds that neither groups nor models have seen, summed over their rows.

    Whatever tempers are averaged, predictions are sums of those of groups at each temper of theirs
    and of deviations at each of theirs: products of their errors tell the error of any average.
    """

    tempers: Sequence[Any]
    weight: FloatArray  # (folds, L)
    single: FloatArray  # (folds, pairs, L): products of errors, of a model for each target alone
    served: FloatArray  # (folds, pairs, L): the same of groups, and of deviations with a minus
    apart: FloatArray  # (n, L): residuals of models of each target on the held-out rows
    whole: FloatArray  # (n, L): the same rows about the means of the training rows
    rows: FloatArray  # (n,): their weights

    @property
    def chosen(self) -> Tempers:
        """The average of all tempers, weighted by their distance from the best in standard errors.

        Choosing one would rest on a few rows where tails are heavy, and on a few blocks where rows
        are autocorrelated.
        """
        if len(self.tempers) == 1:
            return Tempers()
        means, aparts = _each(self.tempers)
        pairs = np.zeros((len(self.tempers), len(means) + len(aparts)))
        for row, (mean, apart) in zip(pairs, self.tempers, strict=True):
            row[means.index(mean)] = 1.0
            if apart < np.inf:
                row[len(means) + aparts.index(apart)] = 1.0
        totals = self.served.sum(axis=2) / self.weight.sum(axis=1)[:, None]
        errors = totals @ np.array([_of_products(row) for row in pairs]).T
        curve = CutCurve(np.arange(float(len(pairs))), errors, np.zeros(len(pairs)), -1)
        gap = curve.error - curve.error.min()
        scale = FADING * curve.standard_error + SAME_ERROR * curve.error
        share = np.exp(-gap / np.maximum(scale, TINY)) * [one.credit for one in self.tempers]
        counts = share @ pairs / share.sum()
        left = max(1.0 - float(counts[len(means) :].sum()), 0.0)
        return Tempers(
            Factors(tuple(means), tuple(counts[: len(means)].tolist())),
            Factors((*aparts, np.inf), (*counts[len(means) :].tolist(), left)),
        )

    def squares(self, chosen: Tempers) -> tuple[FloatArray, FloatArray]:
        """Squared errors, ``(folds, L)``: of a model for each target, and of what is served."""
        if len(self.tempers) == 1:
            return self.single[:, 0], self.served[:, 0]
        aparts = _each(self.tempers)[1]
        counts = np.array(chosen.mean.weights)
        known = dict(zip(*chosen.apart, strict=True))
        added = np.array([known.get(one, 0.0) for one in aparts])
        alone = np.einsum("p,fpl->fl", _of_products(counts), self.single)
        served = _of_products(np.concatenate((counts, added)))
        return alone, np.einsum("p,fpl->fl", served, self.served)

    @property
    def error(self) -> float:
        """Mean squared error of what is served, at the tempers that were chosen."""
        return float(self.squares(self.chosen)[1].sum() / self.weight.sum())

    def gain(self, chosen: Tempers, partition: Partition) -> Gain:
        """What each target saves against a model of its own, with the scatter over the folds.

        Blocks of rows, not rows, are independent repeats: series are autocorrelated. A target by
        itself saves nothing.
        """
        alone, errors = self.squares(chosen)
        known_rows = self.weight > 0.0
        share = self.weight / np.maximum(self.weight.sum(axis=0), TINY)
        saved = (alone - errors) / np.where(known_rows, self.weight, 1.0)
        value = (share * saved).sum(axis=0)
        n_folds = np.maximum(known_rows.sum(axis=0), 1)
        scatter = (share**2 * (saved - value) ** 2).sum(axis=0)
        spare = np.maximum(n_folds - 1, 1)
        # Folds learn from rows in common, and scatter less than new data would: by as much as
        # Nadeau and Bengio's correction gives back.
        error = np.sqrt(scatter * (n_folds / spare) * (1.0 + n_folds / spare))
        merged = partition.sizes[partition.labels] > 1
        return Gain(np.where(merged, value, 0.0), np.where(merged, error, 0.0))

    def scores(self, history: MergeHistory, signs: FloatArray, counts: FloatArray) -> FloatArray:
        """What every merge saves on held-out rows, over all its members.

        Serving both sides with one model gives up predicting their difference d:
        ``ab/(a+b) (|d - p|^2 - |d|^2)`` per row, p its prediction by models that have not seen the
        row. A score, not an estimate: the pair was chosen on all rows.
        """
        apart, whole = (rows * (signs * counts) for rows in (self.apart, self.whole))
        sizes = counts.astype(float)
        total, found = float(self.rows.sum()), np.empty(len(history))
        steps = zip(history.block.tolist(), history.other.tolist(), strict=True)
        for step, (block, other) in enumerate(steps):
            a, b = sizes[block], sizes[other]
            left, all_of_it = (
                self.rows @ (rows[:, block] / a - rows[:, other] / b) ** 2
                for rows in (apart, whole)
            )
            found[step] = a * b / (a + b) * (left - all_of_it) / total
            for sums in (apart, whole, sizes):
                sums[..., block] += sums[..., other]
        return found


def look_at_folds(
    found: Found, tasks: SharedInputs, tempers: Sequence[Any], n_jobs: int | None
) -> FoldEvidence | None:
    """Errors per target on the folds that chose a limit; None where there are none."""
    if not found.folds or np.isnan(tasks.values).any():
        return None
    asking = replace(tasks, sample=replace(tasks.sample), units=found.units)
    looks = Parallel(n_jobs=n_jobs)(
        delayed(_look)(asking, found.rule, found.temper, tempers, fold, point)
        for fold, point in zip(found.folds, found.points, strict=True)
    )
    weight, single, served, *tables = zip(*looks, strict=True)
    sums = (np.array(each) for each in (weight, single, served))
    return FoldEvidence(tempers, *sums, *(np.concatenate(each) for each in tables))


def _look(
    tasks: SharedInputs,
    rule: Rule,
    temper: Any,
    tempers: Sequence[Any],
    fold: tuple[Any, ...],
    point: PathPoint,
) -> tuple[FloatArray, ...]:
    """Squared errors of one fold, and its rows as models for each target leave them."""
    with one_thread(*tasks.shapes):
        known, rows, _ = tasks.fold(rule, *fold)
        fits = known.fits(rule)
        asked = fits.asked(rows)
        alone = point._replace(partition=Partition.singletons(tasks.n_tasks), signs=None)
        (single,) = fits.served(alone, asked, [temper])
        means, aparts = _each(tempers)
        groups = [Temper(mean, np.inf) for mean in means] if len(tempers) > 1 else tempers
        added = [Temper(means[0], apart) for apart in aparts]
        of_singles = [asked.true - one for one in fits.served(alone, asked, groups)]
        errors = [asked.true - one for one in fits.served(point, asked, [*groups, *added])]
        for at in range(len(groups), len(errors)):
            errors[at] -= errors[0]
        singles, served = (_products(each, asked.weight) for each in (of_singles, errors))
        given = rows.sample.weights
        judge = np.ones(len(single)) if given is None else given
        # About the levels of the training rows: without these, differences of targets are not
        # known.
        about = asked.true - fits.intercepts * asked.relative
        return asked.weight.sum(axis=0), singles, served, asked.true - single, about, judge


def _each(tempers: Sequence[Any]) -> tuple[list[float], list[float]]:
    """Factors of means, and those of deviations that leave something; of one temper none."""
    if len(tempers) == 1:
        return [1.0], []
    means, aparts = (list(dict.fromkeys(each)) for each in zip(*tempers, strict=True))
    return means, [one for one in aparts if one < np.inf]


def _products(errors: Sequence[FloatArray], weight: FloatArray) -> FloatArray:
    """Weighted sums over rows of products, each pair and each with itself: ``(pairs, L)``."""
    found = []
    for at, one in enumerate(errors):
        counted = weight * one
        found += [np.einsum("nl,nl->l", counted, other) for other in errors[at:]]
    return np.array(found)


def _of_products(counts: FloatArray) -> FloatArray:
    """Weights of products of errors in the square of a weighted sum of errors."""
    square = np.outer(counts, counts)
    return np.asarray((2.0 * square - np.diag(counts**2))[np.triu_indices(counts.size)])


def seen_by_refits(
    found: Found, on_folds: OnFolds, served: FloatArray | None = None
) -> FoldEvidence:
    """The same for a regressor that was fitted without each fold.

    Where squared errors of what is ``served`` are not given, those of the groups' own models.
    """
    told = found.told
    assert told is not None
    served = on_folds.group if served is None else served
    errors = on_folds.alone[:, None], served[:, None]
    apart, whole = told.values - told.told, told.values - told.level
    rows = np.ones(len(apart)) if told.rows is None else told.rows
    return FoldEvidence(
        (None,), on_folds.weight, *errors, apart / found.units, whole / found.units, rows
    )


def deviations_of(sample: Any, left: FloatArray, labels: IntArray, share: float) -> Corrections:
    """What members of groups add to what these leave of them, where they are observed."""
    seen = ~np.isnan(left)
    weights = np.ones(len(left)) if sample.weights is None else sample.weights
    return correct(
        [sample.inputs[rows] for rows in seen.T],
        [column[rows] for column, rows in zip(left.T, seen.T, strict=True)],
        labels,
        weights=[weights[rows] for rows in seen.T],
        share=share,
    )


def share_of_deviations(found: Found, tasks: SharedInputs) -> float:
    """Share of the variance of members with gaps that does best on folds; all where none are."""
    errors = np.zeros(len(SHARES))
    for fold, point in zip(found.folds, found.points, strict=True):
        known, rows, _ = tasks.fold(found.rule, *fold)
        fits, sample = known.fits(found.rule), known.left.sample
        asked, own = fits.asked(rows), known.take(np.arange(len(known.values)))
        (mine,) = fits.served(point, fits.asked(own), [found.temper])
        (theirs,) = fits.served(point, asked, [found.temper])
        scales = np.where(fits.scales > 0.0, fits.scales, 1.0)
        left = (known.left.values - fits.offsets - mine) / scales
        gap, weight = asked.true - theirs, asked.weight / scales**2
        for at, share in enumerate(SHARES):
            added = deviations_of(sample, left, point.partition.labels, share)
            moved = np.einsum("nld,ld->nl", asked.inputs[:, None] - added.centre, added.coef)
            errors[at] += float((weight * (gap - moved * scales) ** 2).sum())
    return SHARES[int(np.argmin(errors))]


def together(labels: IntArray) -> FloatArray:
    """Share of the partitions, one per row, in which two variables are in one group."""
    n_partitions, n_variables = labels.shape
    counts = np.zeros((n_variables, n_variables))
    for row in labels:
        counts += row[:, None] == row
    return np.asarray(counts / n_partitions)


def align(partitions: Iterable[Partition], reference: Partition) -> IntArray:
    """Labels of each partition, renumbered to overlap most with those of a reference.

    Groups without a counterpart in the reference get numbers of their own, from its number of
    groups on.
    """
    rows = []
    for partition in partitions:
        shared = np.zeros((partition.n_groups, reference.n_groups))
        np.add.at(shared, (partition.labels, reference.labels), 1.0)
        mine, theirs = linear_sum_assignment(-shared)
        matched = shared[mine, theirs] > 0.0
        number = np.full(partition.n_groups, -1, dtype=np.intp)
        number[mine[matched]] = theirs[matched]
        left = np.flatnonzero(number < 0)
        number[left] = reference.n_groups + np.arange(left.size)
        rows.append(number[partition.labels])
    return np.array(rows)


class BlockErrors(NamedTuple):
    """Squared errors on rows left out, summed by block and season, in units of the variance."""

    squares: Mapping[str, FloatArray]  # by model: (n_blocks, n_seasons, L)
    weight: FloatArray  # (n_blocks, n_seasons, L): of the rows where every model predicts
    #: Of these, rows that lie in the intervals of the first model; None where it had none.
    inside: FloatArray | None = None

    def errors(self, name: str) -> FloatArray:
        """Mean squared error of each target under one model; NaN where it was not judged."""
        count = self.weight.sum(axis=(0, 1))
        total = self.squares[name].sum(axis=(0, 1))
        return np.asarray(total / np.where(count > 0.0, count, np.nan))


#: Work of the model that is judged, over that of one of its rivals.
FIRST_MODEL = 8.0
#: Errors of a model on the rows of a fold, and which of these its intervals hold.
Wrong = tuple[FloatArray, BoolArray | None]


def held_out_errors(
    models: Mapping[str, Any],
    sample: check.Sample,
    values: FloatArray,
    splits: Sequence[Split],
    zeros: Zeros,
    groups: Any = None,
    target_weight: FloatArray | None = None,
    n_jobs: int | None = None,
    fit: Callable[[Any, int], Any] | None = None,
) -> BlockErrors:
    """Squared errors of each target on held-out rows, in units of its variance, by model.

    Over the rows where a target is observed and every model predicts it; with confounds in units
    of the variance of the residuals. The predictions of ``zeros`` are judged beside the models, on
    the same rows. The first model is asked for intervals; rows that stand in for others have none.
    """
    is_covered = sample.counts is None and values.shape[1] <= MOST_COVERED
    asked = refitted(
        models, sample, values, splits, groups, target_weight, n_jobs, fit, is_covered=is_covered
    )
    blocked = len(splits) if len(splits) <= MOST_BLOCKS else 1
    season = np.zeros(len(values), dtype=np.intp) if zeros.season is None else zeros.season
    shape = (blocked, max(len(zeros.seasons), 1), values.shape[1])
    weight, inside = np.zeros(shape), np.zeros(shape)
    squares: dict[str, FloatArray] = {}
    has_intervals = True
    for fold, ((train, test), wrong) in enumerate(zip(splits, asked, strict=True)):
        judge = np.ones(len(test)) if sample.weights is None else sample.weights[test]
        gaps, held = {name: gap for name, (gap, _) in wrong.items()}, next(iter(wrong.values()))[1]
        has_intervals &= held is not None
        if zeros.squares is None:
            said = zeros.predict(values, train, test, sample.weights, sample.confounds)
            gaps |= {name: values[test] - predicted for name, predicted in said.items()}
        # Row by row, not fold by fold: a fold in which a target is hardly observed says little.
        known = np.all([np.isfinite(gap) for gap in gaps.values()], axis=0)
        for part in np.unique(season[test]):
            rows, at = season[test] == part, (min(fold, blocked - 1), part)
            weight[at] += judge[rows] @ known[rows]
            if held is not None:
                inside[at] += judge[rows] @ (known[rows] & held[rows])
            for name, gap in gaps.items():
                total = squares.setdefault(name, np.zeros(shape))
                total[at] += judge[rows] @ np.where(known[rows], gap[rows], 0.0) ** 2
    for name, sums in (zeros.squares or {}).items():
        squares[name] = (sums if len(sums) == blocked else sums.sum(axis=0)[None])[:, None]
    variance = _variance(sample, values)
    with np.errstate(invalid="ignore", divide="ignore"):
        units = {name: total / variance for name, total in squares.items()}
    return BlockErrors(units, weight, inside if has_intervals else None)


def refitted(
    models: Mapping[str, Any],
    sample: check.Sample,
    values: FloatArray,
    splits: Sequence[Split],
    groups: Any = None,
    target_weight: FloatArray | None = None,
    n_jobs: int | None = None,
    fit: Callable[[Any, int], Any] | None = None,
    *,
    is_covered: bool = False,
) -> list[dict[str, Wrong]]:
    """How every model errs on the rows of each fold when it is fitted without them.

    ``fit(model, fold)`` fits to the training rows of a fold, where these stand in for others; None
    fits to the rows themselves. ``is_covered``: whether the first is asked for intervals.
    """

    def rows(at: IntArray, **known: Any) -> tuple[FloatArray, dict[str, Any]]:
        given = sample.confounds
        return sample.inputs[at], known if given is None else known | {"confounds": given[at]}

    def fit_rows(model: Any, fold: int) -> Any:
        train, _ = splits[fold]
        known = {} if target_weight is None else {"target_weight": target_weight}
        inputs, known = rows(train, groups=None if groups is None else groups[train], **known)
        weights = None if sample.weights is None else sample.weights[train]
        return model.fit(inputs, values[train], weights, **known)

    def wrong(fold: int, name: str, share: float) -> Wrong:
        """Errors of a model; its fits are a share of the remaining work."""
        test, has_intervals = splits[fold][1], is_covered and name == first
        with warnings.catch_warnings():
            # Reading the data already warned; every fold would warn again.
            warnings.filterwarnings("ignore", check.LOOKS_MISSING, UserWarning)
            quiet = nullcontext() if has_intervals else without_intervals()
            with progress.part(share, "held-out rows"), quiet:
                fitted = (fit_rows if fit is None else fit)(clone(models[name]), fold)
        true, inside, (inputs, known) = values[test], None, rows(test)
        with warnings.catch_warnings():
            # Where inputs are missing nothing is judged.
            warnings.filterwarnings("ignore", ".* predictions are NaN because", RuntimeWarning)
            predicted = np.asarray(fitted.predict(inputs, **known)).reshape(true.shape)
            if has_intervals and getattr(fitted, "calibration_", None) is not None:
                warnings.simplefilter("ignore", UserWarning)  # of intervals of moments
                ends = fitted.predict_interval(inputs, COVERAGE, **known)
                lower, upper = (np.asarray(end).reshape(true.shape) for end in ends)
                inside = (lower <= true) & (true <= upper)
        return true - predicted, inside

    each, first = list(product(range(len(splits)), models)), next(iter(models))
    # For the progress bar: the first of the models searches for groups, its rivals hardly do.
    work = np.array([FIRST_MODEL if name == first else 1.0 for _, name in each])
    share = work / work[::-1].cumsum()[::-1]
    found = Parallel(n_jobs=n_jobs)(
        delayed(wrong)(*one, part) for one, part in zip(each, share.tolist(), strict=True)
    )
    folds: list[dict[str, Wrong]] = [{} for _ in splits]
    for (fold, name), one in zip(each, found, strict=True):
        folds[fold][name] = one
    return folds


def _variance(sample: check.Sample, values: FloatArray) -> FloatArray:
    """Variance of each target where it is observed, after confounds."""
    weights = None if sample.counts is None else sample.weights
    left = values
    if sample.confounds is not None:
        rows = values.T.copy()
        Confounds.of(sample.confounds, weights).take_off(rows)
        left = rows.T
    if weights is None:
        return np.ma.filled(np.ma.masked_invalid(left).var(axis=0), np.nan)
    centred = left - np.average(left, axis=0, weights=weights)
    return np.asarray(np.average(centred**2, axis=0, weights=weights))


def r2_of_each(true: FloatArray, predicted: FloatArray, weights: FloatArray | None) -> FloatArray:
    """R2 of each target on the rows where it is observed; NaN for fewer than two."""
    if not np.isnan(true).any():
        raw = r2_score(true, predicted, sample_weight=weights, multioutput="raw_values")
        return np.asarray(raw)
    scores = []
    for column, guess in zip(true.T, predicted.T, strict=True):
        rows = ~np.isnan(column)
        judge = None if weights is None else weights[rows]
        seen = np.count_nonzero(rows) >= 2
        score = r2_score(column[rows], guess[rows], sample_weight=judge) if seen else np.nan
        scores.append(score)
    check.require_any_score(scores)
    return np.array(scores)


def group_rows(
    fitted: TargetAggregator,
    sample: check.Sample,
    targets: check.Targets,
    rows: IntArray,
    judge: Any = None,
) -> Partition:
    """Groups of some of the rows, with the limit that was used, by the same ``judge``."""
    aggregator = clone(fitted)
    if fitted.n_groups is None:
        aggregator.set_params(max_loss=fitted.max_loss_, tolerance=None)
    if not (isinstance(fitted.cv, Integral) or hasattr(fitted.cv, "split")):
        aggregator.set_params(cv=TargetAggregator().cv)  # lists of rows are of all of these
    part = targets._replace(values=targets.values[rows])
    tasks = SharedInputs(sample.take(rows), part.values, part.weights)
    PhaseOne(aggregator, tasks, part, judge=judge).find(priced=False)
    partition: Partition = aggregator.partition_
    return partition
