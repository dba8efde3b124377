"""Coefficients of groups whose models are linear, feature by feature, with standard errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import LinearRegression, Ridge

from ctfa.core.confounds import Confounds
from ctfa.core.series import Series
from ctfa.core.tasks.own_inputs import OwnRows, mean_series
from ctfa.core.tasks.own_rows import TaskRows
from ctfa.core.types import FloatArray, IntArray
from ctfa.estimators.models import reduced
from ctfa.estimators.view import FittedGroups
from ctfa.report._material import Coefficients, Given

#: Why a coefficient has no standard error.
OF_LEAST_SQUARES = ": they are of least squares, and the regressor is {}"
DEPENDENT = ": features that never change or depend on others have none"
NOTHING_KEPT = ": the data speak for no coefficient other than zero"
SOFT = ": features part from the mean that they are in by what the data shrink"
TOO_FEW = ": there are too few rows for as many features"
IN_NO_SUMS = (
    ": members share what disturbs a row, which the sums of data in chunks do not hold; load the "
    "data first"
)
#: What the worth of a feature is, and rows that are predicted for it at most.
WORTH = "R2 lost on the rows of fit where the feature's rows are shuffled"
MOST_PREDICTED = 300_000
#: Times that each feature is shuffled for a page.
SHUFFLES = 3
#: Share of a column in directions without variation below which it is none of theirs.
LOOSE = 1e-12


class GroupRows(NamedTuple):
    """What a group has learned from."""

    inputs: FloatArray  # (rows, features of the group)
    target: FloatArray  # (rows,)
    sample: IntArray  # (rows,): sample that a row is of
    n_levels: int = 1  # means and seasons taken off: of the group, or of each of its members
    weights: FloatArray | None = None  # how many rows each stands for; None: one each

    @property
    def n_rows(self) -> int:
        """How many there are, or are stood for."""
        return len(self.inputs) if self.weights is None else round(float(self.weights.sum()))


#: Rows of each group.
Rows = Callable[[int], GroupRows]


def coefficients_of(fitted: FittedGroups, rows: Rows | None = None) -> Coefficients | None:
    """What one unit of each feature does to a group's prediction; None if models are not linear.

    A mean of k features hands each of them a k-th of its coefficient. With the rows of fit, inputs
    that were not scaled are told in units of their spread and least squares has standard errors.
    """
    regressors = () if fitted.is_aggregator else fitted.model.regressors_
    coef = [getattr(regressor, "coef_", None) for regressor in regressors]
    if not coef or any(own is None for own in coef):
        return None
    value = per_feature(fitted, [np.asarray(own, dtype=np.float64).reshape(-1) for own in coef])
    steps = fitted.group_steps
    value = value + steps
    if rows is None:
        return Coefficients(fitted.features, value, None, _units(fitted, with_data=False))
    reasons: list[str] = []
    errors = []
    spread = np.ones(value.shape)
    for group, regressor in enumerate(regressors):
        own = rows(group)
        # Of features that all targets share in the spread of each, as targets are: they compare.
        if fitted.shares == "mean" and fitted.aggregator.scale == "standard":
            centred = own.inputs - np.average(own.inputs, axis=0, weights=own.weights)
            spread[group] = np.sqrt(np.average(centred**2, axis=0, weights=own.weights))
        columns = reduced(fitted.model.features_[group], own.inputs)
        ours = fitted.shares == "mean" and fitted.model.regressor is None
        judge = _of_ridge if ours and type(regressor) is Ridge else _standard_errors
        found, reason = judge(regressor, columns, own)
        if np.any(steps) and steps[group].any():
            found, reason = np.full(found.shape, np.nan), SOFT
        errors.append(found)
        reasons += [reason] * bool(reason)
    error = per_feature(fitted, errors) * spread
    return Coefficients(
        fitted.features,
        value * spread,
        error if np.isfinite(error).any() else None,
        _units(fitted, with_data=True),
        _in_words(reasons, len(coef)),
    )


def worth_of(fitted: FittedGroups, given: Given) -> Coefficients | None:
    """What each feature is worth to each group whose model is not linear; None where it is costly.

    A mean of k features hands each of them a k-th.
    """
    if fitted.is_aggregator or given.stands_in:
        return None
    n_models = fitted.partition.n_groups + fitted.partition.n_variables
    asked = SHUFFLES * len(fitted.features) + 1
    if len(given.X) * n_models * asked > MOST_PREDICTED:
        return None
    options = {name: part for name, part in given.options.items() if name != "target_weight"}
    found = fitted.model.importance(given.X, given.Y, **options, n_repeats=SHUFFLES, random_state=0)
    parts = [found[found["group"] == group] for group in range(fitted.partition.n_groups)]
    value, error = (
        per_feature(fitted, [part[name].to_numpy() for part in parts])
        for name in ("importance", "error")
    )
    return Coefficients(fitted.features, value, error, WORTH)


def per_feature(fitted: FittedGroups, values: Sequence[FloatArray]) -> FloatArray:
    """Numbers of the means of each group as those of raw features, ``(groups, features)``.

    A mean of k features hands each a k-th; NaN where a group has no such feature.
    """
    found = np.full((len(values), len(fitted.features)), np.nan)
    for group, own in enumerate(values):
        means = fitted.model.features_[group].partition_
        found[group, fitted.columns(group)] = means.share_out(own)
    return found


def _in_words(reasons: list[str], n_groups: int) -> str:
    """Why standard errors are missing, and in how many groups for each reason."""
    said = []
    for reason in dict.fromkeys(reasons):
        count = reasons.count(reason)
        where = "" if count == n_groups else f" in {count:,} of {n_groups:,} groups"
        said.append(f"no standard errors{where}{reason}")
    return "; ".join(said)


def rows_of(fitted: FittedGroups, given: Given) -> Rows | None:
    """Rows that each group's model was fitted to, from the data of fit or what stands in for it."""
    if fitted.own_rows:
        return _rows_of_tasks(fitted, given)
    if fitted.is_aggregator:
        return None
    sample, targets = given.read(fitted)
    n_levels = 1
    if sample.confounds is not None:  # which takes degrees of freedom of every series
        n_levels += Confounds.of(sample.confounds, sample.weights, sample.n_samples).rank
    found = fitted.learned_from(sample, targets)
    if fitted.own_inputs:
        return _rows_of_own(fitted, found, n_levels)
    inputs, means = found
    stands_for = None if sample.counts is None else sample.weights
    return lambda group: _averaged(inputs, means[:, group], n_levels, stands_for)


def _averaged(
    inputs: FloatArray, target: FloatArray, n_levels: int, stands_for: FloatArray | None
) -> GroupRows:
    """The rows of a group's means in which these are known."""
    seen = np.flatnonzero(~(np.isnan(inputs).any(axis=1) | np.isnan(target)))
    weights = None if stands_for is None else stands_for[seen]
    return GroupRows(inputs[seen], target[seen], seen, n_levels, weights)


def _rows_of_tasks(fitted: FittedGroups, given: Given) -> Rows:
    """Rows of the tasks of a group, about the means of each."""
    X, y = np.asarray(given.X, dtype=np.float64), np.asarray(given.Y, dtype=np.float64)
    position = np.searchsorted(fitted.model.tasks_, np.asarray(given.tasks))
    tasks = TaskRows(X, y, None, position, fitted.partition.n_variables)
    inputs, target = tasks.within(X), tasks.within(y)

    def stacked(group: int) -> GroupRows:
        members = fitted.partition.groups[group]
        rows = np.flatnonzero(np.isin(position, members))
        return GroupRows(inputs[rows], target[rows], rows, members.size)

    return stacked


def _rows_of_own(fitted: FittedGroups, series: Series, n_levels: int) -> Rows:
    """The same where targets have inputs of their own: averaged, or stacked."""
    stands_for = None if series.counts is None else series.weights
    if fitted.shares == "mean inputs":
        means = mean_series(series, fitted.partition).values
        return lambda group: _averaged(
            means[group, fitted.columns(group)].T, means[group, -1], n_levels, stands_for
        )
    own = OwnRows.of(series)

    def stacked(group: int) -> GroupRows:
        members = fitted.partition.groups[group]
        inputs = own.inputs[members][:, fitted.columns(group)].transpose(0, 2, 1)
        complete = own.complete[members]
        sample = np.nonzero(complete)[1]
        inputs, target = inputs[complete], own.target[members][complete]
        root = own.weight[sample]
        weights = None if stands_for is None else stands_for[sample]
        levels = members.size * n_levels
        return GroupRows(inputs / root[:, None], target / root, sample, levels, weights)

    return stacked


def _standard_errors(regressor: Any, inputs: FloatArray, rows: GroupRows) -> tuple[FloatArray, str]:
    """Of least squares given the groups, and why some are NaN; nothing where none is.

    Members of a group that are stacked share what disturbs a sample, so that all rows of one sample
    count as one draw (a sandwich).
    """
    unknown = np.full(inputs.shape[1], np.nan)
    plain = type(regressor) is LinearRegression and regressor.fit_intercept
    if not plain or regressor.positive:
        return unknown, OF_LEAST_SQUARES.format(type(regressor).__name__)
    coef = np.asarray(regressor.coef_).reshape(-1)
    left = rows.target - inputs @ coef
    left = left - np.average(left, weights=rows.weights)
    centred = inputs - np.average(inputs, axis=0, weights=rows.weights)
    if rows.weights is not None:
        centred, left = centred * np.sqrt(rows.weights)[:, None], left * np.sqrt(rows.weights)
    length = np.sqrt((centred**2).sum(axis=0))
    # A coefficient of zero to the last digit is of a column without variation, or of its rounding.
    varies = np.flatnonzero((length > 0.0) & (coef != 0.0))
    if not varies.size:
        return unknown, DEPENDENT
    unit = centred[:, varies] / length[varies]
    _, singular, turned = np.linalg.svd(unit, full_matrices=False)
    rank = int(np.count_nonzero(singular > singular[0] * rows.n_rows * np.finfo(float).eps))
    # Where columns depend on each other, the others still have one coefficient each.
    told = ((turned[rank:] if rank < len(turned) else turned[:0]) ** 2).sum(axis=0) < LOOSE
    spare = rows.n_rows - rank - rows.n_levels
    if spare < 1 or len(unit) < varies.size:
        return unknown, TOO_FEW
    root = turned[:rank] / singular[:rank, None] / length[varies]
    samples, draw = np.unique(rows.sample, return_inverse=True)
    if samples.size == len(inputs):
        found = np.sqrt(left @ left / spare * (root**2).sum(axis=0))
    elif rows.weights is not None:
        return unknown, IN_NO_SUMS
    elif samples.size < 2:
        return unknown, TOO_FEW
    else:
        scores = np.zeros((samples.size, varies.size))
        np.add.at(scores, np.asarray(draw).reshape(-1), centred[:, varies] * left[:, None])
        factor = samples.size / (samples.size - 1.0) * (rows.n_rows - 1.0) / spare
        found = np.sqrt(factor * ((scores @ root.T @ root) ** 2).sum(axis=0))
    errors = unknown.copy()
    errors[varies] = np.where(told, found, np.nan)
    return errors, "" if np.isfinite(errors).all() else DEPENDENT


def _of_ridge(regressor: Any, inputs: FloatArray, rows: GroupRows) -> tuple[FloatArray, str]:
    """Of the ridge regression that groups are served by: how far coefficients may be from theirs.

    Standard deviations given the data, the penalty and the groups, of coefficients drawn about zero
    with the variance that the penalty stands for.
    """
    unknown, penalty = np.full(inputs.shape[1], np.nan), float(regressor.alpha)
    if not np.isfinite(penalty):
        return unknown, NOTHING_KEPT
    coef = np.asarray(regressor.coef_).reshape(-1)
    weights = np.ones(len(inputs)) if rows.weights is None else rows.weights
    root = np.sqrt(weights)
    centred = (inputs - np.average(inputs, axis=0, weights=weights)) * root[:, None]
    left = rows.target - inputs @ coef
    left = (left - np.average(left, weights=weights)) * root
    length = np.sqrt((centred**2).sum(axis=0))
    varies = np.flatnonzero(length > 0.0)
    unit = centred[:, varies] / length[varies]
    _, singular, turned = np.linalg.svd(unit, full_matrices=True)
    strength = np.full(varies.size, penalty)
    strength[: singular.size] += singular**2
    noise = left @ left + penalty * ((coef * length) ** 2).sum()
    noise /= max(rows.n_rows - rows.n_levels, 1)
    errors = unknown.copy()
    errors[varies] = np.sqrt(noise * (turned**2 / strength[:, None]).sum(axis=0)) / length[varies]
    return errors, "" if varies.size == inputs.shape[1] else DEPENDENT


def _units(fitted: FittedGroups, *, with_data: bool) -> str:
    standard = fitted.aggregator.scale == "standard"
    if fitted.own_rows:
        return "units of the target for one unit of the feature"
    target = "standard deviations of the target" if standard else "units of the target"
    known = fitted.own_inputs or with_data
    feature = "standard deviation" if standard and known else "unit"
    return f"{target} for one {feature} of the feature"
