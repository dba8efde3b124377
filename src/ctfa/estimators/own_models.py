"""A regressor for each group of tasks with inputs of their own, and what each task adds to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone

from ctfa import _validation as check
from ctfa._threads import one_thread
from ctfa.core.own_fits import OwnRows, mean_series
from ctfa.core.partition import Partition
from ctfa.core.series import Series
from ctfa.core.shrinkage import shrink
from ctfa.core.small_fits import RowMoments
from ctfa.core.types import BoolArray, FloatArray, IntArray
from ctfa.estimators.feature_aggregator import FeatureAggregator
from ctfa.estimators.group_models import fit_regressor, is_least_squares, reduced

#: Folds of rows that stand in for others, by what they are for.
Folds = Mapping[str, list[tuple[IntArray, IntArray]]]
#: Tasks whose inputs are copied at once.
TASKS_AT_ONCE = 1000


class GroupRows(NamedTuple):
    """What the regressor of a group learns from."""

    inputs: FloatArray  # (rows, slots of the group)
    target: FloatArray  # (rows,)
    weights: FloatArray | None
    counts: FloatArray | None = None  # rows that each stands for; None for one each


class OwnModels(NamedTuple):
    """Fitted groups; everything in the units in which tasks were merged."""

    aggregate: str
    slots: BoolArray  # (groups, K): slots that a group has
    features: Sequence[FeatureAggregator]  # one a group
    regressors: Sequence[Any]  # one a group
    centre: FloatArray  # (L, K + 1): means of each task's series over its complete rows
    has: BoolArray  # (L, K)

    def predict(self, rows: Series, partition: Partition) -> FloatArray:
        """Each task's prediction by its group, ``(L, n)``; NaN where inputs are missing."""
        predicted = np.empty((rows.n_tasks, rows.n_rows))
        for group, members in enumerate(partition.groups):
            if self.aggregate == "mean":
                inputs = self._mean_inputs(rows, members)
                predicted[members] = self._predict_rows(group, inputs.T)
                continue
            inputs = about(rows, self.has, self.centre[:, :-1], members)
            stacked = inputs.transpose(0, 2, 1).reshape(-1, inputs.shape[1])
            found = self._predict_rows(group, stacked)
            predicted[members] = found.reshape(members.size, -1) + self.centre[members, -1:]
        return predicted

    def table(self, rows: Series, partition: Partition, groups: Sequence[int]) -> FloatArray:
        """Mean inputs of some groups as their regressors see them, each with its mean target."""
        grouped = mean_series(rows, partition).values
        parts = (
            (reduced(self.features[k], grouped[k, :-1][self.slots[k]].T), grouped[k, -1:].T)
            for k in groups
        )
        return np.hstack([column for part in parts for column in part])

    def _mean_inputs(self, rows: Series, members: IntArray) -> FloatArray:
        """Mean over the observed members, slot by slot, ``(K, n)``."""
        inputs = rows.values[members, :-1]
        if members.size == 1:
            return np.asarray(inputs[0])
        gaps = np.isnan(inputs) | ~self.has[members][:, :, None]
        known = np.where(gaps, 0.0, inputs)
        if rows.task_weights is None:
            counts = (~gaps).sum(axis=0)
            return np.where(counts > 0, known.sum(axis=0) / np.maximum(counts, 1), np.nan)
        share = np.where(gaps, 0.0, rows.task_weights[members][:, None, None])
        total = share.sum(axis=0)
        mean = (share * known).sum(axis=0) / np.where(total > 0.0, total, 1.0)
        return np.where(total > 0.0, mean, np.nan)

    def _predict_rows(self, group: int, inputs: FloatArray) -> FloatArray:
        inputs = inputs[:, self.slots[group]]
        complete = ~np.isnan(inputs).any(axis=1)
        predicted = np.full(inputs.shape[0], np.nan)
        if complete.any():
            columns = reduced(self.features[group], inputs[complete])
            predicted[complete] = np.asarray(self.regressors[group].predict(columns)).reshape(-1)
        return predicted


class OwnSteps(NamedTuple):
    """What tasks add to their groups' predictions: a linear function of their own inputs."""

    coef: FloatArray  # (L, K)
    trust: FloatArray  # (L,)
    centre: FloatArray  # (L, K): where the function is zero
    has: BoolArray  # (L, K)

    def add(self, predicted: FloatArray, rows: Series) -> None:
        """Move predictions, in place; where a task lacks inputs of its own its group serves it."""
        tasks = np.flatnonzero(self.coef.any(axis=1))
        for start in range(0, tasks.size, TASKS_AT_ONCE):
            some = tasks[start : start + TASKS_AT_ONCE]
            inputs = about(rows, self.has, self.centre, some)
            moved = np.einsum("lkn,lk->ln", inputs, self.coef[some])
            predicted[some] += np.where(np.isnan(moved), 0.0, moved)


def about(rows: Series, has: BoolArray, centre: FloatArray, tasks: IntArray) -> FloatArray:
    """Inputs of some tasks about their means in fit, ``(tasks, K, n)``; zero without a slot."""
    inputs = rows.values[tasks, :-1] - centre[tasks, :, None]
    inputs[~has[tasks]] = 0.0
    return np.asarray(inputs)


def slot_names(layout: IntArray, names: Any) -> list[str]:
    """Call each slot by what the names of its columns have in common, else by its number."""
    found = []
    for slot, columns in enumerate(layout.T):
        own = [] if names is None else [str(names[column]) for column in columns if column >= 0]
        ends = (_beginning(own), _beginning([name[::-1] for name in own])[::-1])
        common = max(ends, key=len).strip(" _-.:/") if len(set(own)) > 1 else ""
        found.append(common if len(common) > 1 else f"slot{slot}")
    return found if len(set(found)) == len(found) else [f"slot{k}" for k in range(len(found))]


def _beginning(names: list[str]) -> str:
    """What all names begin with."""
    if not names:
        return ""
    first, last = min(names), max(names)  # these two differ first
    length = next((k for k, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), None)
    return first[:length]


def fit_groups(
    series: Series,
    partition: Partition,
    aggregate: str,
    template: Any,
    feature_template: FeatureAggregator | None,
    slot_names: Sequence[str],
    n_jobs: int | None,
    folds: Folds | None = None,
) -> OwnModels:
    """Phase II and the regressor of each group; ``folds`` of rows that stand in for others."""
    # Only what is shared needs every task about its own means.
    own = OwnRows.of(series) if aggregate == "pool" else None
    centre = np.zeros((series.n_tasks, series.n_slots + 1)) if own is None else own.centre
    slots = np.zeros((partition.n_groups, series.n_slots), dtype=bool)
    np.logical_or.at(slots, partition.labels, series.has)
    # Least squares is too short to be worth a worker.
    plain = template is None or is_least_squares(template)
    plain = plain and feature_template is None
    with one_thread() if plain else nullcontext():
        results = Parallel(n_jobs=1 if plain else n_jobs)(
            delayed(_fit_group)(rows, judged, feature_template, template, names, folds)
            for rows, judged, names in zip(
                _rows_of_groups(series, own, partition, slots),
                _judged_rows(series, aggregate, partition, slots, feature_template),
                ([slot_names[k] for k in np.flatnonzero(row).tolist()] for row in slots),
                strict=True,
            )
        )
    features, regressors = zip(*results, strict=True)
    return OwnModels(aggregate, slots, list(features), list(regressors), centre, series.has)


def fit_steps(
    series: Series,
    models: OwnModels,
    partition: Partition,
    temper: float,
) -> OwnSteps:
    """Coefficients of each task's own for what its group's regressor leaves."""
    n_tasks, n_slots = series.has.shape
    coef, trust = np.zeros((n_tasks, n_slots)), np.ones(n_tasks)
    together = np.flatnonzero(partition.sizes[partition.labels] > 1)
    if not together.size or temper == 0.0:
        return OwnSteps(coef, trust, coef, series.has)
    own = OwnRows.of(series)
    fitted = models.predict(series, partition)[together]
    weight = np.where(own.complete[together], own.weight, 0.0)
    known = np.nan_to_num(fitted - own.centre[together, -1:]) * weight
    level = (known * weight).sum(axis=1) / np.maximum((weight**2).sum(axis=1), 1e-300)
    left = own.target[together] - (known - level[:, None] * weight)
    n_rows = own.n_rows[together] - series.n_spent
    with one_thread():
        moments = RowMoments.of(own.inputs[together], left, n_rows)
        (steps,) = shrink(moments, [temper])
    coef[together], trust[together] = steps.coef, steps.trust
    return OwnSteps(coef, trust, own.centre[:, :-1], series.has)


def _rows_of_groups(
    series: Series, own: OwnRows | None, partition: Partition, slots: BoolArray
) -> Iterator[GroupRows]:
    weights = series.weights
    grouped = mean_series(series, partition) if own is None else None
    for group, members in enumerate(partition.groups):
        if own is None:
            assert grouped is not None
            inputs, target = grouped.values[group, :-1][slots[group]].T, grouped.values[group, -1]
            kept = ~(np.isnan(inputs).any(axis=1) | np.isnan(target))
            own_weights = None if weights is None else weights[kept]
            own_counts = None if series.counts is None else series.counts[kept]
            yield GroupRows(inputs[kept], target[kept], own_weights, own_counts)
            continue
        kept = own.complete[members]
        centred = series.values[members] - own.centre[members, :, None]
        centred[:, :-1][~series.has[members]] = 0.0
        rows = centred[:, :-1].transpose(0, 2, 1)[kept][:, slots[group]]
        target = centred[:, -1][kept]
        stacked, counts = (
            None if each is None else np.broadcast_to(each, kept.shape)[kept]
            for each in (weights, series.counts)
        )
        yield GroupRows(rows, target, stacked, counts)


def _judged_rows(
    series: Series, aggregate: str, partition: Partition, slots: BoolArray, template: Any
) -> Iterator[GroupRows | None]:
    """What Phase II is judged on, where it is not the rows of the regressor; None where it is."""
    free = series if template is None else series.free_rows()
    if free is series:
        yield from (None for _ in range(partition.n_groups))
        return
    own = OwnRows.of(free) if aggregate == "pool" else None
    yield from _rows_of_groups(free, own, partition, slots)


def _fit_group(
    rows: GroupRows,
    judged: GroupRows | None,
    template: FeatureAggregator | None,
    regressor: Any,
    slot_names: Sequence[str],
    folds: Folds | None,
) -> tuple[FeatureAggregator, Any]:
    features: FeatureAggregator = FeatureAggregator() if template is None else clone(template)
    extra = {} if rows.weights is None else {"sample_weight": rows.weights}
    if template is None:
        features._fit_identity(len(slot_names)).n_features_in_ = len(slot_names)
    elif rows.counts is not None or folds is not None:
        _fit_on_stand_ins(features, rows if judged is None else judged, folds)
    elif judged is None:
        features.fit(rows.inputs, rows.target, **extra)
    else:
        features.fit(judged.inputs, judged.target)  # their weights are used up
    features.feature_names_in_ = np.array(slot_names, dtype=object)
    columns = reduced(features, rows.inputs)
    n_samples = None if rows.counts is None else int(np.round(rows.counts.sum()))
    return features, fit_regressor(regressor, columns, rows.target, rows.weights, n_samples)


def _fit_on_stand_ins(features: FeatureAggregator, rows: GroupRows, folds: Folds | None) -> None:
    """Phase II on rows that stand in for others; on folds, where these are folds of the rows."""
    if features.solver == "ridge" or (features.cv is not None and folds is None):
        raise ValueError(
            "rows that stand in for others judge features by least squares, and on folds only "
            "where a group has the rows of its mean: gather the rows for solver='ridge', and for "
            "cv where coefficients are shared."
        )
    sample = check.Sample(rows.inputs, rows.weights, None, None, rows.counts, folds)
    features.n_features_in_ = rows.inputs.shape[1]
    features._fit_factored(features._factor(sample, rows.target), rows.target)
