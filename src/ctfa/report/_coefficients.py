"""Coefficients of groups whose models are linear, feature by feature, with standard errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import LinearRegression, Ridge

from ctfa.core.confounds import Confounds
from ctfa.core.tasks.own_inputs import OwnRows, mean_series
from ctfa.core.tasks.own_rows import TaskRows
from ctfa.core.types import FloatArray, IntArray
from ctfa.estimators.models import reduced
from ctfa.estimators.view import FittedGroups
from ctfa.report._material import Coefficients, Given

#: Why a coefficient has no standard error.
OF_LEAST_SQUARES = ": they are of least squares, and the regressor is {}"
DEPENDENT = ": features that never change or depend on others have none"
NOTHING_KEPT = ": the data support no coefficient other than zero"
SOFT = ": features deviate from their mean by amounts that the data shrink"
TOO_FEW = ": there are too few rows for as many features"
IN_NO_SUMS = (
    ": members share disturbances of a row, which sums of data in chunks do not hold; load the "
    "data first"
)
#: What the worth of a feature is, and rows that are predicted for it at most.
WORTH = "R2 lost on the rows of fit when the feature is shuffled"
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
    if fitted.is_aggregator:
        return None
    regressors, coef = fitted.model.regressors_, []
    for regressor, features in zip(regressors, fitted.model.features_, strict=True):
        known: Any = getattr(getattr(regressor, "best_estimator_", regressor), "coef_", None)
        if known is None or np.size(known) != features.n_groups_:
            return None
        coef.append(np.asarray(known, dtype=np.float64).reshape(-1))
    steps = fitted.group_steps
    value = per_feature(fitted, coef) + steps
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
        found, reason = _standard_errors(regressor, columns, own, ours=ours)
        if np.any(steps) and steps[group].any():
            found, reason = np.full(found.shape, np.nan), SOFT
        errors.append(found)
        reasons += [reason] * bool(reason)
    error = per_feature(fitted, errors) * spread
    said = []
    for reason in dict.fromkeys(reasons):
        count = reasons.count(reason)
        where = "" if count == len(coef) else f" in {count:,} of {len(coef):,} groups"
        said.append(f"no standard errors{where}{reason}")
    return Coefficients(
        fitted.features,
        value * spread,
        error if np.isfinite(error).any() else None,
        _units(fitted, with_data=True),
        "; ".join(said),
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

    A mean of k features hands each a k-th; NaN where a group does not have the feature.
    """
    found = np.full((len(values), len(fitted.features)), np.nan)
    for group, own in enumerate(values):
        means = fitted.model.features_[group].partition_
        found[group, fitted.columns(group)] = means.share_out(own)
    return found


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
    stands_for = None if sample.counts is None else sample.weights
    if fitted.own_inputs:
        stands_for = None if found.counts is None else found.weights
    if fitted.shares == "coefficients":
        return _stacked_rows(fitted, OwnRows.of(found), n_levels, stands_for)
    own_means = mean_series(found, fitted.partition).values if fitted.own_inputs else None

    def averaged(group: int) -> GroupRows:
        if own_means is None:
            inputs, target = found[0], found[1][:, group]
        else:
            inputs, target = own_means[group, fitted.columns(group)].T, own_means[group, -1]
        seen = np.flatnonzero(~(np.isnan(inputs).any(axis=1) | np.isnan(target)))
        weights = None if stands_for is None else stands_for[seen]
        return GroupRows(inputs[seen], target[seen], seen, n_levels, weights)

    return averaged


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


def _stacked_rows(
    fitted: FittedGroups, own: OwnRows, n_levels: int, stands_for: FloatArray | None
) -> Rows:
    """The same of members that share coefficients, with inputs of their own in common rows."""

    def stacked(group: int) -> GroupRows:
        members = fitted.partition.groups[group]
        inputs = own.inputs[members][:, fitted.columns(group)].transpose(0, 2, 1)
        complete = own.complete[members]
        sample = np.nonzero(complete)[1]
        root = own.weight[sample]
        inputs, target = inputs[complete] / root[:, None], own.target[members][complete] / root
        weights = None if stands_for is None else stands_for[sample]
        return GroupRows(inputs, target, sample, members.size * n_levels, weights)

    return stacked


def _standard_errors(
    regressor: Any, inputs: FloatArray, rows: GroupRows, *, ours: bool
) -> tuple[FloatArray, str]:
    """Of least squares, or ``ours``, the ridge regression of groups; and why some are NaN."""
    unknown = np.full(inputs.shape[1], np.nan)
    is_ridge = ours and type(regressor) is Ridge
    is_plain = type(regressor) is LinearRegression and regressor.fit_intercept
    if not is_ridge and (not is_plain or regressor.positive):
        return unknown, OF_LEAST_SQUARES.format(type(regressor).__name__)
    if is_ridge and not np.isfinite(regressor.alpha):
        return unknown, NOTHING_KEPT
    coef = np.asarray(regressor.coef_).reshape(-1)
    weights = np.ones(len(inputs)) if rows.weights is None else rows.weights
    root = np.sqrt(weights)
    left = rows.target - inputs @ coef
    left = (left - np.average(left, weights=weights)) * root
    centred = (inputs - np.average(inputs, axis=0, weights=weights)) * root[:, None]
    length = np.sqrt((centred**2).sum(axis=0))
    # A coefficient of zero to the last digit is of a column without variation, or of its rounding.
    varies = np.flatnonzero((length > 0.0) & ((coef != 0.0) | is_ridge))
    if not varies.size:
        return unknown, DEPENDENT
    length = length[varies]
    unit, errors = centred[:, varies] / length, unknown.copy()
    if is_ridge:
        found = _of_ridge(unit, left, coef[varies] * length, float(regressor.alpha), rows)
    else:
        found, reason = _of_least_squares(unit, left, rows)
        if reason:
            return unknown, reason
    errors[varies] = found / length
    return errors, "" if np.isfinite(errors).all() else DEPENDENT


def _of_least_squares(
    unit: FloatArray, left: FloatArray, rows: GroupRows
) -> tuple[FloatArray, str]:
    """For columns of length one, given the groups; or why there are none.

    Members of a group that are stacked share what disturbs a sample, so that all rows of one sample
    count as one draw (a sandwich).
    """
    nothing = np.empty(0)
    _, singular, turned = np.linalg.svd(unit, full_matrices=False)
    rank = int(np.count_nonzero(singular > singular[0] * rows.n_rows * np.finfo(float).eps))
    spare = rows.n_rows - rank - rows.n_levels
    samples, draw = np.unique(rows.sample, return_inverse=True)
    if spare < 1 or len(unit) < unit.shape[1]:
        return nothing, TOO_FEW
    root = turned[:rank] / singular[:rank, None]
    if samples.size == len(unit):
        found = np.sqrt(left @ left / spare * (root**2).sum(axis=0))
    elif rows.weights is not None:
        return nothing, IN_NO_SUMS
    elif samples.size < 2:
        return nothing, TOO_FEW
    else:
        scores = np.zeros((samples.size, unit.shape[1]))
        np.add.at(scores, np.asarray(draw).reshape(-1), unit * left[:, None])
        factor = samples.size / (samples.size - 1.0) * (rows.n_rows - 1.0) / spare
        found = np.sqrt(factor * ((scores @ root.T @ root) ** 2).sum(axis=0))
    # Where columns depend on each other, the others still have one coefficient each.
    return np.where((turned[rank:] ** 2).sum(axis=0) < LOOSE, found, np.nan), ""


def _of_ridge(
    unit: FloatArray, left: FloatArray, effect: FloatArray, penalty: float, rows: GroupRows
) -> FloatArray:
    """How far coefficients may be from those of the ridge regression that groups are served by.

    Standard deviations given the data, the penalty and the groups, of coefficients drawn about zero
    with the variance that the penalty stands for.
    """
    _, singular, turned = np.linalg.svd(unit, full_matrices=True)
    strength = np.full(len(turned), penalty)
    strength[: singular.size] += singular**2
    noise = (left @ left + penalty * (effect**2).sum()) / max(rows.n_rows - rows.n_levels, 1)
    return np.asarray(np.sqrt(noise * (turned**2 / strength[:, None]).sum(axis=0)))


def _units(fitted: FittedGroups, *, with_data: bool) -> str:
    standard = fitted.aggregator.scale == "standard"
    if fitted.own_rows:
        return "units of the target for one unit of the feature"
    target = "standard deviations of the target" if standard else "units of the target"
    known = fitted.own_inputs or with_data
    feature = "standard deviation" if standard and known else "unit"
    return f"{target} for one {feature} of the feature"
