"""What other rows say: groups found again on subsamples, errors on rows left out."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.optimize import linear_sum_assignment
from sklearn.base import BaseEstimator, clone
from sklearn.metrics import r2_score

from ctfa import _validation as check
from ctfa.core.baseline import Baseline, take_off
from ctfa.core.partition import Partition
from ctfa.core.tasks.shared import SharedInputs
from ctfa.core.types import FloatArray, IntArray
from ctfa.estimators.targets import TargetAggregator, find_groups

Split = tuple[IntArray, IntArray]

#: Errors that differ by less than this share of a target's variance are the same.
SAME = 1e-3


class Climatology(BaseEstimator):  # type: ignore[misc]
    """What rows say of targets without features: means, or what a baseline says of them."""

    def fit(
        self,
        X: Any,
        y: FloatArray,
        sample_weight: FloatArray | None = None,
        *,
        n_samples: int | None = None,
        baseline: FloatArray | None = None,
        **_: Any,
    ) -> Climatology:
        """Learn the level of each target, with a baseline its seasons and trend."""
        columns = np.empty((len(y), 0)) if baseline is None else baseline
        self.lines_ = take_off(y, columns, sample_weight, n_samples)[1]
        return self

    def __ctfa_fit__(self, sample: check.Sample, targets: check.Targets) -> Climatology:
        """The same from rows that stand in for others."""
        return self.fit(
            sample.inputs,
            targets.values,
            sample.weights,
            n_samples=sample.n_samples,
            baseline=sample.baseline,
        )

    def predict(self, X: Any, *, baseline: FloatArray | None = None) -> FloatArray:
        """Say the same of other rows."""
        return self.lines_.at(np.empty((len(X), 0)) if baseline is None else baseline)


def together(labels: IntArray) -> FloatArray:
    """Share of the partitions, one a row, in which each two variables are in one group."""
    n_partitions, n_variables = labels.shape
    counts = np.zeros((n_variables, n_variables))
    for row in labels:
        counts += row[:, None] == row
    return np.asarray(counts / n_partitions)


def align(partitions: Iterable[Partition], reference: Partition) -> IntArray:
    """Labels of each partition, renumbered to overlap most with those of a reference.

    Groups that correspond to none of the reference's get numbers of their own, from its number of
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


def held_out_errors(
    models: Sequence[Any],
    sample: check.Sample,
    values: FloatArray,
    splits: Sequence[Split],
    groups: Any = None,
    target_weight: FloatArray | None = None,
    n_jobs: int | None = None,
    fit: Callable[[Any, int], Any] | None = None,
) -> list[FloatArray]:
    """Mean squared error of each target on held-out rows, in units of its variance, by model.

    Over the rows where a target is observed and every model predicts it; with a baseline in units
    of the variance of what that leaves. ``fit(model, fold)`` fits to the training rows of a fold,
    where these stand in for others; None fits to the rows themselves.
    """
    if fit is None:
        fixed = {} if target_weight is None else {"target_weight": target_weight}
        fit = partial(_fit_rows, sample, values, splits, groups, fixed)
    wrong = Parallel(n_jobs=n_jobs)(
        delayed(_wrong)(fit, model, fold, sample, values, test)
        for fold, (_, test) in enumerate(splits)
        for model in models
    )
    total, count = np.zeros((len(models), values.shape[1])), np.zeros(values.shape[1])
    for fold, (_, test) in enumerate(splits):
        judge = np.ones(len(test)) if sample.weights is None else sample.weights[test]
        gaps = wrong[fold * len(models) : (fold + 1) * len(models)]
        # Row by row and not fold by fold: one that a target was hardly observed in says little.
        known = np.all([np.isfinite(gap) for gap in gaps], axis=0)
        count += judge @ known
        for model, gap in enumerate(gaps):
            total[model] += judge @ np.where(known, gap, 0.0) ** 2
    return list(total / np.where(count > 0.0, count, np.nan) / _variance(sample, values))


def _fit_rows(
    sample: check.Sample,
    values: FloatArray,
    splits: Sequence[Split],
    groups: Any,
    fixed: dict[str, Any],
    model: Any,
    fold: int,
) -> Any:
    """Fit a model to the training rows of a fold."""
    train, _ = splits[fold]
    weights = None if sample.weights is None else sample.weights[train]
    labels = None if groups is None else groups[train]
    known = {} if sample.baseline is None else {"baseline": sample.baseline[train]}
    return model.fit(sample.inputs[train], values[train], weights, groups=labels, **known, **fixed)


def _wrong(
    fit: Callable[[Any, int], Any],
    model: Any,
    fold: int,
    sample: check.Sample,
    values: FloatArray,
    test: IntArray,
) -> FloatArray:
    """Errors of a model on the held-out rows of one fold."""
    known = {} if sample.baseline is None else {"baseline": sample.baseline[test]}
    with warnings.catch_warnings():
        # Whoever read the data has said it, and would in every fold again.
        warnings.filterwarnings("ignore", check.LOOKS_MISSING, UserWarning)
        fitted = fit(clone(model), fold)
    with warnings.catch_warnings():
        # Where inputs are missing nobody is judged.
        warnings.filterwarnings("ignore", ".* predictions are NaN because", RuntimeWarning)
        predicted = np.asarray(fitted.predict(sample.inputs[test], **known))
    return np.asarray(values[test] - predicted.reshape(test.size, -1))


def _variance(sample: check.Sample, values: FloatArray) -> FloatArray:
    """Variance of each target where it is observed, of what the baseline leaves of it."""
    weights = None if sample.counts is None else sample.weights
    left = values
    if sample.baseline is not None:
        rows = values.T.copy()
        Baseline.of(sample.baseline, weights).take_off(rows)
        left = rows.T
    if weights is None:
        return np.ma.filled(np.ma.masked_invalid(left).var(axis=0), np.nan)
    centred = left - np.average(left, axis=0, weights=weights)
    return np.asarray(np.average(centred**2, axis=0, weights=weights))


def r2_of_each(true: FloatArray, predicted: FloatArray, weights: FloatArray | None) -> FloatArray:
    """R2 of each target on the rows where it is observed; NaN where these are fewer than two."""
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
    fitted: TargetAggregator, sample: check.Sample, targets: check.Targets, rows: IntArray
) -> Partition:
    """Groups that some of the rows give, with the limit that was used."""
    aggregator = clone(fitted).set_params(max_loss=fitted.max_loss_)
    part = targets._replace(values=targets.values[rows])
    find_groups(aggregator, SharedInputs(sample.take(rows), part.values, part.weights), part)
    partition: Partition = aggregator.partition_
    return partition
