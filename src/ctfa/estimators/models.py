"""Features and a regressor for each group, and how they predict its members."""

from __future__ import annotations

import copy
import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.linear_model import LinearRegression

from ctfa import _reading as check
from ctfa._reading.sums import Collection
from ctfa._threads import one_thread
from ctfa.core.design import about_means, row_scales, weighted_mean
from ctfa.core.levels import Tempers
from ctfa.core.partition import Partition
from ctfa.core.ridge import Factors, SoftFeatures, soft_features
from ctfa.core.series import Series
from ctfa.core.tasks.own_inputs import OwnRows, about, mean_inputs, mean_series
from ctfa.core.tasks.own_rows import TaskRows
from ctfa.core.tasks.shared import SharedInputs
from ctfa.core.types import BoolArray, FloatArray, IntArray
from ctfa.estimators.features import FeatureAggregator, factor, merge_features
from ctfa.estimators.refits import fit_regressor, is_least_squares
from ctfa.estimators.search import leave_apart
from ctfa.estimators.targets import Found

HEADS = ("levels", "mean")
#: Folds of rows that stand in for others, by what they are for.
Folds = Mapping[str, list[tuple[IntArray, IntArray]]]
#: What the regressor of a group learns from: inputs, those of its slots, and the target.
GroupRows = tuple[check.Sample, FloatArray]
#: Folds, and groups of targets in each, that decide whether groups of features pay.
FOLDS_FOR_FEATURES, GROUPS_FOR_FEATURES = 10, 2
#: The golden section.
GOLDEN = 0.6180339887498949
#: Features above which one group of targets in each fold is asked: a soft regression of so many
#: costs as much as all that led to it.
WIDE = 150
#: Standard errors by which groups of features must be better than all of them; and at which folds,
#: of which so many are asked at least, agree.
PREFERRED_BY, CLEAR, FEWEST_FOLDS = 1.0, 2.0, 5
#: First folds that decide alone if all of them reject groups of features.
AGAINST = 3
#: Tasks whose inputs are copied at once.
TASKS_AT_ONCE = 1000


def keep_features(model: Any, n_groups: int) -> list[FeatureAggregator]:
    """Skip Phase II: fitted aggregators that leave every feature by itself."""
    identity = FeatureAggregator()
    leave_apart(identity, model.n_features_in_)
    check.copy_input_names(model, identity)
    return [copy.copy(identity) for _ in range(n_groups)]


def fit_features(
    model: Any,
    template: FeatureAggregator,
    sample: check.Sample,
    means: FloatArray,
    names: Sequence[str],
    n_jobs: int | None,
) -> list[FeatureAggregator]:
    """Phase II for the mean of each group, the inputs factored once for all.

    A mean with gaps is judged on the rows where any member is observed. Features have the names
    they have in the model.
    """
    template = clone(template)
    check.copy_input_names(model, template)
    if not np.isnan(means).any():
        factored = factor(template, sample, means[:, 0])
        each = zip([factored] * means.shape[1], means.T, names, strict=True)
        run = Parallel(n_jobs=n_jobs)
        return list(run(delayed(merge_features)(copy.deepcopy(template), *one) for one in each))
    found = []
    for mean, name in zip(means.T, names, strict=True):
        rows = np.flatnonzero(~np.isnan(mean))
        factored = factor(template, sample.take(rows), mean[rows])
        found.append(merge_features(copy.deepcopy(template), factored, mean[rows], name))
    return found


def features_pay(
    found: Found,
    tasks: SharedInputs,
    template: FeatureAggregator,
    temper: Tempers,
    head: str,
    regressor: Any = None,
) -> bool:
    """Whether held-out rows prefer groups of features to all of them, by a standard error.

    One answer for all groups of targets, from some of each fold, their features grouped by its
    training rows: one group's few errors would tell chance from kinship badly. A ``regressor``
    that is given is asked itself.
    """
    if not found.folds:
        return False
    saved: list[float] = []
    rule = found.rule
    step = -(-len(found.folds) // FOLDS_FOR_FEATURES)
    folds = list(zip(found.folds, found.points, strict=True))[::step]
    n_asked = 1 if tasks.sample.inputs.shape[1] > WIDE else GROUPS_FOR_FEATURES
    # Folds far apart first: what a few of them agree on is clear.
    for turn, (fold, point) in enumerate([*folds[::3], *folds[1::3], *folds[2::3]]):
        if len(saved) >= FEWEST_FOLDS and abs(np.mean(saved)) > CLEAR * _scatter(saved):
            break
        if len(saved) == AGAINST and max(saved) < 0.0:  # rejecting needs less evidence
            return False
        known, rows, _ = tasks.fold(rule, *fold)
        fits, judged = known.fits(rule), known.left.judged
        if known.design is not None:
            judged = judged.factored(known.design)
        asked, levels, partition = fits.asked(rows), fits.levels, point.partition
        signs = np.ones(tasks.n_tasks) if point.signs is None else point.signs
        counts = np.ones(tasks.n_tasks) if tasks.weights is None else tasks.weights
        sizes = partition.sum(counts[None])[0]
        scales = np.where(fits.scales > 0.0, fits.scales, 1.0)
        means = partition.mean(known.left.judged_values / scales * signs, tasks.weights)
        if regressor is None:
            assert levels is not None
            ridge = levels.group_coefficients(levels.parts(partition, signs), temper.mean)
            inputs = asked.inputs - levels.factored.mean
        level = (asked.true - fits.intercepts * scales) / scales
        true, factored = partition.mean(level * signs, tasks.weights), None
        judges = np.ones(len(true)) if rows.sample.weights is None else rows.sample.weights
        saved.append(0.0)
        for group, times in _drawn(sizes, turn, n_asked):
            mean = means[:, group]
            if not np.ptp(mean) > 0.0:
                continue
            if factored is None:
                with warnings.catch_warnings():
                    # Warnings about these inputs are given for all rows.
                    warnings.filterwarnings("ignore", check.DOUBTFUL, RuntimeWarning)
                    factored = factor(template, judged, mean)
            found_features = merge_features(clone(template), factored, mean).partition_
            if found_features.n_groups == found_features.n_variables:
                continue
            if regressor is None:
                coef = _all_features(judged, mean, found_features, temper.mean, head)
                both = inputs @ np.stack((coef, ridge[:, group])).T
            else:
                both = _told_by(regressor, judged, mean, found_features, asked.inputs)
            wrong, less = (true[:, [group]] - both).T ** 2
            saved[-1] += times * float(judges @ (less - wrong))
    # By more than rounding: a single fold with groups of features saves one error to the digit.
    return bool(np.mean(saved) > (PREFERRED_BY + 1e-9) * _scatter(saved))


def _drawn(sizes: FloatArray, turn: int, n_drawn: int) -> list[tuple[int, int]]:
    """Groups for a turn, and how often each is drawn: all turns together draw them by their sizes.

    Steps of the golden section cover all members evenly, wherever turns end.
    """
    order = np.argsort(-np.round(sizes / sizes.max(), 9), kind="stable")
    ends = np.cumsum(sizes[order]) / sizes.sum()
    at = ((0.5 + turn * GOLDEN) % 1.0 + np.arange(n_drawn)) / n_drawn
    drawn = order[np.minimum(np.searchsorted(ends, at - 1e-9), sizes.size - 1)]
    return [(int(g), int(n)) for g, n in zip(*np.unique(drawn, return_counts=True), strict=True)]


def _scatter(values: Sequence[float]) -> float:
    """Standard error of a mean; zero for a single value."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def _told_by(
    regressor: Any, sample: check.Sample, mean: FloatArray, features: Partition, rows: FloatArray
) -> FloatArray:
    """Predictions of a group's mean in other rows: by groups of features, and by all features."""
    _, row_scale = row_scales(len(mean), sample.weights, sample.n_samples)
    target, rest = mean - weighted_mean(mean[:, None], row_scale)[0], sample.weights
    told = [
        fit_regressor(regressor, inputs, target, rest, sample.n_samples).predict(asked)
        for inputs, asked in (
            (features.mean(sample.inputs), features.mean(rows)),
            (sample.inputs, rows),
        )
    ]
    return np.column_stack(told)


def _all_features(
    sample: check.Sample, mean: FloatArray, features: Partition, temper: Factors, head: str
) -> FloatArray:
    """Coefficients of all features by groups of them."""
    if head == "mean":
        inputs = features.mean(sample.inputs)
        rest = sample.weights, sample.n_samples
        model = fit_regressor(None, inputs, mean, *rest, temper=temper)
        return features.share_out(model.coef_)
    soft = soft_group(sample, mean, features, temper)
    return features.share_out(soft.coef) + soft.apart


def soft_group(
    sample: check.Sample, mean: FloatArray, features: Partition, temper: Factors
) -> SoftFeatures:
    """A group's mean by means of groups of features, and what these have of their own."""
    _, row_scale = row_scales(len(mean), sample.weights, sample.n_samples)
    inputs, target = (
        (rows - weighted_mean(rows, row_scale)) * row_scale[:, None]
        for rows in (sample.inputs, mean[:, None])
    )
    return soft_features(inputs, target[:, 0], features, sample.n_samples, temper)


def fit_to_rows(
    regressor: Any,
    features: Sequence[FeatureAggregator],
    data: Collection,
    rows_of: Callable[..., FloatArray],
    n_jobs: int | None,
) -> list[Any]:
    """One regressor per group that learns from rows, gathered as means of its features.

    All groups in one pass over the data if they fit in memory, otherwise a pass per group.
    """
    name = f"regressor={type(regressor).__name__}()"
    instead = "Use LinearRegression, Ridge, Lasso or ElasticNet, which learn from sums"
    ends = np.cumsum([aggregator.n_groups_ + 1 for aggregator in features])
    weights = data.weights_in_memory()
    used = slice(None) if weights is None else weights > 0.0
    weights = None if weights is None else check.normalised(weights[used])

    def gathered(groups: list[int], width: int) -> FloatArray:
        return data.rows_of(partial(rows_of, groups), width, name, instead)[used]

    if data.has_room_for(int(ends[-1])):
        everything = gathered(list(range(len(features))), int(ends[-1]))
        tables: Iterable[FloatArray] = np.split(everything, ends[:-1], axis=1)
    else:
        tables = (gathered([k], a.n_groups_ + 1) for k, a in enumerate(features))
    return list(
        Parallel(n_jobs=n_jobs)(
            delayed(fit_regressor)(regressor, table[:, :-1], table[:, -1], weights)
            for table in tables
        )
    )


def reduced(features: FeatureAggregator, inputs: FloatArray) -> FloatArray:
    """The means of one group's features; the features themselves where none were merged."""
    partition = features.partition_
    return inputs if partition.n_groups == partition.n_variables else partition.mean(inputs)


class Deviations(NamedTuple):
    """Deviations added to groups' models: linear functions of the features about their means."""

    group: FloatArray  # (groups, D): of features from their mean's coefficient
    own: FloatArray  # (L, D): deviations of members
    level: FloatArray  # (L,)
    centre: FloatArray  # (D,): where all of them are at their levels

    def add(self, means: FloatArray, partition: Partition, inputs: FloatArray) -> FloatArray:
        """Predictions of the members, of their groups' ``(n, groups)``."""
        about = inputs - self.centre
        if self.group.any():
            means = means + about @ self.group.T
        served = partition.spread(means)
        return np.asarray(served + about @ self.own.T + self.level) if self.own.any() else served


class SingleModels(NamedTuple):
    """Models of single targets, for those that do not trust their group's model entirely."""

    targets: IntArray
    models: Sequence[Any]  # one per target, or a single one for all of them
    #: Weight of the group's own model in the prediction of the group; the mean of its members'
    #: models has the rest.
    share: float = 1.0

    def mix(
        self,
        predicted: FloatArray,
        trust: FloatArray,
        inputs: FloatArray,
        mean: Callable[[FloatArray], FloatArray] | None = None,
    ) -> FloatArray:
        """``trust * group + (1 - trust) * own``, in the units the models were fitted in.

        ``mean`` turns predictions of every target into the mean of each one's group.
        """
        if not self.targets.size:
            return predicted
        own = np.column_stack(
            [
                np.asarray(model.predict(inputs)).reshape(inputs.shape[0], -1)
                for model in self.models
            ]
        )
        share = trust[self.targets]
        mixed = predicted.copy()
        if self.share < 1.0 and mean is not None:
            every = predicted.copy()
            every[:, self.targets] = own
            mixed = self.share * predicted + (1.0 - self.share) * mean(every)
        mixed[:, self.targets] = share * mixed[:, self.targets] + (1.0 - share) * own
        return mixed


def fit_singles(
    regressor: Any,
    sample: check.Sample,
    values: FloatArray,
    trust: FloatArray,
    n_jobs: int | None,
    share: float = 1.0,
    merged: BoolArray | None = None,
) -> SingleModels:
    """Fit a model of its own for each target whose trust is below one.

    Also for every ``merged`` target where these models have a share in their group's prediction.
    """
    rest = sample.weights, sample.n_samples, sample.is_single
    wanted = trust < 1.0
    targets = np.flatnonzero(wanted if share == 1.0 or merged is None else wanted | merged)
    own = values[:, targets]
    linear = regressor is None or is_least_squares(regressor)
    if targets.size and linear and not np.isnan(own).any():
        # Least squares fits each column by itself, so all at once is the same and much faster.
        models = [fit_regressor(regressor, sample.inputs, own, *rest)]
        return SingleModels(targets, models, share)
    models = Parallel(n_jobs=n_jobs)(
        delayed(fit_regressor)(regressor, sample.inputs, column, *rest) for column in own.T
    )
    return SingleModels(targets, list(models), share)


def mean_of_groups(
    known: tuple[Partition, FloatArray | None, FloatArray | None], units: FloatArray
) -> FloatArray:
    """The mean of each target's group, with its sign, from a partition, signs and weights."""
    partition, signs, weights = known
    turned = units if signs is None else units * signs
    means = partition.spread(partition.mean(turned, weights))
    return np.asarray(means if signs is None else means * signs)


class OwnModels(NamedTuple):
    """Fitted groups; everything in the units in which tasks were merged."""

    aggregate: str
    slots: BoolArray  # (groups, K): slots that a group has
    features: Sequence[FeatureAggregator]  # one per group
    regressors: Sequence[Any]  # one per group
    centre: FloatArray  # (L, K + 1): means of each task's series over its complete rows
    has: BoolArray  # (L, K)

    def predict(self, rows: Series, partition: Partition) -> FloatArray:
        """Each task's prediction by its group, ``(L, n)``; NaN where inputs are missing."""
        predicted = np.empty((rows.n_tasks, rows.n_rows))
        averaged = self.aggregate == "mean"
        means = mean_inputs(rows, self.has, partition).values if averaged else None
        for group, members in enumerate(partition.groups):
            if means is not None:
                predicted[members] = self._predict_rows(group, means[group, :-1].T)
                continue
            inputs = about(rows, self.has, self.centre, members)
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

    def _predict_rows(self, group: int, inputs: FloatArray) -> FloatArray:
        inputs = inputs[:, self.slots[group]]
        complete = ~np.isnan(inputs).any(axis=1)
        predicted = np.full(inputs.shape[0], np.nan)
        if complete.any():
            regressor = self.regressors[group]
            columns = reduced(self.features[group], inputs[complete])
            if type(regressor) is LinearRegression:  # of thousands, checks cost the most
                found = columns @ regressor.coef_.T + regressor.intercept_
            else:
                found = regressor.predict(columns)
            predicted[complete] = np.asarray(found).reshape(-1)
        return predicted


class OwnSteps(NamedTuple):
    """What tasks add to their groups' predictions: a linear function of their own inputs."""

    coef: FloatArray  # (L, K)
    trust: FloatArray  # (L,)
    centre: FloatArray  # (L, K): where the function is zero
    has: BoolArray  # (L, K)

    def add(self, predicted: FloatArray, rows: Series) -> None:
        """Move predictions, in place; where inputs of a task are missing its group's stays."""
        tasks = np.flatnonzero(self.coef.any(axis=1))
        for start in range(0, tasks.size, TASKS_AT_ONCE):
            some = tasks[start : start + TASKS_AT_ONCE]
            inputs = about(rows, self.has, self.centre, some)
            moved = np.einsum("lkn,lk->ln", inputs, self.coef[some])
            predicted[some] += np.where(np.isnan(moved), 0.0, moved)


def slot_names(layout: IntArray, names: Any) -> list[str]:
    """Name each slot by what the names of its columns have in common, else by its number."""
    found = []
    for slot, columns in enumerate(layout.T):
        own = [] if names is None else [str(names[column]) for column in columns if column >= 0]
        ends = _beginning(own), _beginning([name[::-1] for name in own])[::-1]
        common = max(ends, key=len).strip(" _-.:/") if len(set(own)) > 1 else ""
        found.append(common if len(common) > 1 else f"slot{slot}")
    return found if len(set(found)) == len(found) else [f"slot{k}" for k in range(len(found))]


def _beginning(names: list[str]) -> str:
    """The common beginning of all names."""
    same = itertools.takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    return "".join(letters[0] for letters in same)


def fit_groups(
    series: Series,
    partition: Partition,
    aggregate: str,
    template: Any,
    feature_template: FeatureAggregator | None,
    slot_names: Sequence[str],
    n_jobs: int | None,
    folds: Folds | None = None,
    added: FloatArray | None = None,
) -> OwnModels:
    """Phase II and the regressor of each group; ``folds`` of rows that stand in for others.

    What is ``added`` (L, K) to shared coefficients of tasks is subtracted from their targets.
    """
    # Only shared coefficients need every task about its own means.
    own = OwnRows.of(series) if aggregate == "pool" else None
    centre = np.zeros((series.n_tasks, series.n_slots + 1)) if own is None else own.centre
    slots = np.array([series.has[members].any(axis=0) for members in partition.groups])
    judged: Iterable[GroupRows | None] = [None] * partition.n_groups
    free = series if feature_template is None else series.free_rows()
    if free is not series:  # Phase II is judged on other rows than the regressor's
        of_free = OwnRows.of(free) if aggregate == "pool" else None
        judged = _rows_of_groups(free, of_free, partition, slots)
    # Least squares takes too little time to be worth a worker.
    plain = feature_template is None and (template is None or is_least_squares(template))
    with one_thread() if plain else nullcontext():
        results = Parallel(n_jobs=1 if plain else n_jobs)(
            delayed(_fit_group)(rows, others, phase, template, names, folds)
            for rows, others, phase, names in zip(
                _rows_of_groups(series, own, partition, slots, added),
                judged,
                (_on_slots(feature_template, row) for row in slots),
                ([slot_names[k] for k in np.flatnonzero(row).tolist()] for row in slots),
                strict=True,
            )
        )
    features, regressors = zip(*results, strict=True)
    return OwnModels(aggregate, slots, list(features), list(regressors), centre, series.has)


def _on_slots(template: FeatureAggregator | None, has: BoolArray) -> FeatureAggregator | None:
    """Phase II for a group that lacks some slots: the graph restricted to the slots it has."""
    graph = None if template is None else template.connectivity
    if template is None or graph is None or callable(graph) or has.all():
        return template
    graph = check.read_graph(graph, np.empty((0, has.size)), "features")
    found: FeatureAggregator = clone(template).set_params(connectivity=graph[has][:, has])
    return found


def _rows_of_groups(
    series: Series,
    own: OwnRows | None,
    partition: Partition,
    slots: BoolArray,
    added: FloatArray | None = None,
) -> Iterator[GroupRows]:
    """What the regressor of each group learns from."""
    weights = series.weights
    grouped = mean_series(series, partition) if own is None else None
    for group, members in enumerate(partition.groups):
        if own is None:
            assert grouped is not None
            inputs, target = grouped.values[group, :-1][slots[group]].T, grouped.values[group, -1]
            kept = ~(np.isnan(inputs).any(axis=1) | np.isnan(target))
            own_weights = None if weights is None else weights[kept]
            own_counts = None if series.counts is None else series.counts[kept]
            yield check.Sample(inputs[kept], own_weights, None, counts=own_counts), target[kept]
            continue
        kept = own.complete[members]
        centred = series.values[members] - own.centre[members, :, None]
        centred[:, :-1][~series.has[members]] = 0.0
        rows = centred[:, :-1].transpose(0, 2, 1)[kept][:, slots[group]]
        if added is not None:
            known = np.where(kept[:, None], centred[:, :-1], 0.0)
            centred[:, -1] -= np.einsum("lkn,lk->ln", known, added[members])
        target = centred[:, -1][kept]
        stacked, counts = (
            None if each is None else np.broadcast_to(each, kept.shape)[kept]
            for each in (weights, series.counts)
        )
        yield check.Sample(rows, stacked, None, counts=counts), target


def _fit_group(
    rows: GroupRows,
    judged: GroupRows | None,
    template: FeatureAggregator | None,
    regressor: Any,
    slot_names: Sequence[str],
    folds: Folds | None,
) -> tuple[FeatureAggregator, Any]:
    features: FeatureAggregator = FeatureAggregator() if template is None else clone(template)
    sample, target = rows
    if template is None:
        leave_apart(features, len(slot_names))
        features.n_features_in_ = len(slot_names)
    elif sample.counts is not None or folds is not None:
        sample_judged, target_judged = rows if judged is None else judged
        features.n_features_in_ = len(slot_names)
        instead = (
            "folds only where a group has the rows of its mean: gather the rows for cv where "
            "coefficients are shared"
        )
        _merge_on(features, replace(sample_judged, folds=folds), target_judged, "y", instead)
    elif judged is None:
        features.fit(sample.inputs, target, sample.weights)
    else:
        features.fit(judged[0].inputs, judged[1])  # their weights are already applied
    features.feature_names_in_ = np.array(slot_names, dtype=object)
    columns = reduced(features, sample.inputs)
    return features, fit_regressor(regressor, columns, target, sample.weights, sample.n_samples)


def within_a_fold(features: FeatureAggregator | None, folds: Folds | None) -> Any:
    """The same for some of the rows; folds given as lists of all rows are dropped."""
    if features is None or features.cv is None:
        return features
    divides = folds is None and (isinstance(features.cv, Integral) or hasattr(features.cv, "split"))
    return features if divides else clone(features).set_params(cv=None)


def _merge_on(
    features: FeatureAggregator, sample: check.Sample, target: FloatArray, name: str, instead: str
) -> FeatureAggregator:
    """Phase II on rows that may stand in for others; on folds, where these are folds of them."""
    if sample.counts is not None and features.cv is not None and sample.folds is None:
        raise ValueError(f"rows that stand in for others judge features on {instead}.")
    return merge_features(features, factor(features, sample, target), target, name)


def merge_features_within(rows: TaskRows, features: FeatureAggregator) -> FeatureAggregator:
    """Phase II of a group, on rows about the means of their tasks."""
    sample = check.Sample(rows.within(rows.inputs), rows.weights, None, counts=rows.counts)
    instead = "no folds: gather the rows for cv"
    return _merge_on(features, sample, rows.within(rows.target), "y within tasks", instead)


class TaskLevels(NamedTuple):
    """Levels added to regressors that learn from targets about the levels of their tasks."""

    group: FloatArray  # (groups,): of each group; last that of all tasks, where it is used
    own: FloatArray  # (T,): to a task's own


class Nearest(NamedTuple):
    """Where the inputs of each group lie."""

    means: FloatArray  # (groups, D)
    spread: FloatArray  # (D,)

    @classmethod
    def of(cls, rows: TaskRows, labels: IntArray) -> Nearest:
        """Means of each group's rows; spread within tasks, of all rows where there is none."""
        weights = np.ones(rows.index.size) if rows.weights is None else rows.weights
        of_row = labels[rows.index]
        means = np.stack(
            [
                np.average(rows.inputs[of_row == g], axis=0, weights=weights[of_row == g])
                for g in range(int(labels.max()) + 1)
            ]
        )
        spread = np.sqrt(np.average(rows.within(rows.inputs) ** 2, axis=0, weights=weights))
        about = about_means(rows.inputs, np.sqrt(weights))[1]
        whole = np.sqrt(np.average(about**2, axis=0, weights=weights))
        spread = np.where(spread > 1e-9 * whole, spread, whole)
        return cls(means, np.where(spread > 0.0, spread, 1.0))

    def groups_of(
        self, inputs: FloatArray, ids: Sequence[Any], strangers: Sequence[Any]
    ) -> dict[Any, int]:
        """Group nearest to the mean inputs of each unseen task."""
        number = {task: k for k, task in enumerate(strangers)}
        others = np.array([number.get(task, -1) for task in ids])
        return {task: self.group_of(inputs[others == k].mean(axis=0)) for task, k in number.items()}

    def group_of(self, mean: FloatArray) -> int:
        """Group nearest to the mean inputs of a task."""
        gap = (mean - self.means) / self.spread
        return int(np.argmin((gap**2).sum(axis=1)))
