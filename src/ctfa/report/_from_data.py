"""What a fitted model can say of itself once it has the data of its fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from ctfa.core.history import MergeHistory
from ctfa.core.types import FloatArray
from ctfa.estimators.multi_input import MultiInputCTFARegressor
from ctfa.estimators.pooled import PooledCTFARegressor
from ctfa.estimators.shared import CTFARegressor
from ctfa.estimators.targets import read_again, units_of
from ctfa.estimators.view import FittedGroups
from ctfa.report._coefficients import coefficients_of, rows_of
from ctfa.report._given import Given
from ctfa.report._held_out import judged
from ctfa.report._material import GroupSeries, Material

#: Shares of the members between which the spread of a group is drawn.
SPREAD = (0.1, 0.9)
#: Numbers of group means over the rows that are worked out at most.
MOST_SERIES = 2_000_000


def complete(material: Material, data: Any) -> Material:
    """Work out what the data tell and nobody has told yet."""
    fitted = FittedGroups(material.model)
    given = Given.of(data, fitted.model)
    coefficients = material.coefficients or coefficients_of(fitted, rows_of(fitted, given))
    return replace(
        material,
        history=material.history or full_history(fitted, given),
        series=material.series or _series(fitted, given),
        coefficients=coefficients,
        held_out=material.held_out or judged(fitted, given),
    )


def full_history(fitted: FittedGroups, given: Given) -> MergeHistory | None:
    """Every merge up to an infinite limit; None where the order of merges depends on the limit."""
    model, rule = fitted.model, fitted.aggregator
    is_passed = isinstance(getattr(model, "targets", None), str)
    if rule.scan != "best-first" or is_passed or fitted.partition.n_variables < 2:
        return None
    every = clone(rule).set_params(max_loss=np.inf)
    # One group for each component of the graph: the models of so few cost nothing.
    simple = {"regressor": None, "targets": every, "features": "passthrough", "head": "mean"}
    if isinstance(model, PooledCTFARegressor):
        whole = clone(model).set_params(**simple).fit(given.X, given.Y, tasks=given.tasks)
    elif isinstance(model, MultiInputCTFARegressor):
        whole = clone(model).set_params(**simple, aggregate=model.aggregate_)
        whole.fit(given.X, given.Y, **given.options)
    else:
        whole = CTFARegressor(**simple).fit(given.X, given.Y, **given.options)
    history: MergeHistory = whole.history_
    return history


def _series(fitted: FittedGroups, given: Given) -> GroupSeries | None:
    """Mean and spread of each group in the units in which targets were merged."""
    n_groups = fitted.partition.n_groups
    if isinstance(fitted.model, PooledCTFARegressor) or len(given.Y) * n_groups > MOST_SERIES:
        return None
    aggregator = fitted.aggregator
    values = read_again(aggregator, given.Y).values
    units = units_of(aggregator).of(values, given.baseline)
    index = getattr(given.Y, "index", None)
    samples = [str(number) for number in range(len(units))]
    if index is not None and len(index) == len(units):
        samples = [str(label) for label in index]
    low, high = _spread(fitted, units * aggregator.signs_)
    return GroupSeries(samples, units_of(aggregator).mean(values, given.baseline), low, high)


def _spread(fitted: FittedGroups, units: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Quantiles of the observed members of each group, row by row."""
    bounds = np.full((2, len(units), fitted.partition.n_groups), np.nan)
    for group, members in enumerate(fitted.partition.groups):
        # Sorted, NaN last: a quantile is between two of the first, however many are observed.
        own = np.sort(units[:, members], axis=1)
        count = np.count_nonzero(~np.isnan(own), axis=1)
        rows = np.flatnonzero(count)
        for bound, share in enumerate(SPREAD):
            place = share * (count[rows] - 1)
            below = np.floor(place).astype(np.intp)
            above = np.minimum(below + 1, count[rows] - 1)
            step = place - below
            bounds[bound, rows, group] = (1.0 - step) * own[rows, below] + step * own[rows, above]
    return bounds[0], bounds[1]
