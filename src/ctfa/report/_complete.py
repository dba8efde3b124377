"""What a fitted model can say of itself once it has the data of its fit, or rows in their place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from ctfa import _validation as check
from ctfa.core.history import MergeHistory
from ctfa.core.scans import SCANS
from ctfa.core.types import FloatArray
from ctfa.estimators.shared import CTFARegressor
from ctfa.estimators.view import FittedGroups
from ctfa.report._coefficients import coefficients_of, rows_of, rows_of_read
from ctfa.report._held_out import Judging, judged, judged_by_sums
from ctfa.report._material import Given, GroupSeries, Material

#: Shares of the members between which the spread of a group is drawn.
SPREAD = (0.1, 0.9)
#: Numbers of group means over the rows that are worked out at most.
MOST_SERIES = 2_000_000


def complete(material: Material, data: Any) -> Material:
    """Work out what the data tell and nobody has told yet."""
    fitted = FittedGroups.of(material.model)
    given = Given.of(data, own_rows=fitted.own_rows)
    options = {"tasks": given.tasks} if fitted.own_rows else given.options

    def fit(model: Any) -> Any:
        return model.fit(given.X, given.Y, **options)

    coefficients = material.coefficients or coefficients_of(fitted, rows_of(fitted, given))
    return replace(
        material,
        history=material.history or _full_history(fitted, clone(fitted.model), fit),
        series=material.series or _series(fitted, given),
        coefficients=coefficients,
        held_out=material.held_out or judged(fitted, given),
    )


def complete_from_sums(
    material: Material, sample: check.Sample, targets: check.Targets, judging: Judging | None
) -> Material:
    """The same from rows that stand in for the data, where squared errors are all that is asked.

    Series and the ridge regressions that a model is compared with are not, and are left out.
    """
    fitted = FittedGroups.of(material.model)

    def fit(model: Any) -> Any:
        return model.__ctfa_fit__(sample, targets)

    rows = rows_of_read(fitted, sample, targets)
    held_out = None if judging is None else judged_by_sums(fitted, sample, targets, judging)
    return replace(
        material,
        history=material.history or _full_history(fitted, fitted.anew(), fit),
        coefficients=material.coefficients or coefficients_of(fitted, rows),
        held_out=material.held_out or held_out,
    )


def _full_history(
    fitted: FittedGroups, unfitted: Any, fit: Callable[[Any], Any]
) -> MergeHistory | None:
    """Every merge up to an infinite limit; None where the order of merges depends on the limit."""
    model, rule = fitted.model, fitted.aggregator
    is_passed = isinstance(getattr(model, "targets", None), str)
    if not SCANS[rule.scan].nested or is_passed or fitted.partition.n_variables < 2:
        return None
    every = clone(rule).set_params(max_loss=np.inf)
    # One group for each component of the graph: the models of so few cost nothing.
    simple = {"regressor": None, "targets": every, "features": "passthrough", "head": "mean"}
    if fitted.own_inputs:
        simple["aggregate"] = model.aggregate_
    shared = not (fitted.own_inputs or fitted.own_rows)
    whole = CTFARegressor(**simple) if shared else unfitted.set_params(**simple)
    history: MergeHistory = fit(whole).history_
    return history


def _series(fitted: FittedGroups, given: Given) -> GroupSeries | None:
    """Mean and spread of each group in the units in which targets were merged."""
    if fitted.own_rows or len(given.Y) * fitted.partition.n_groups > MOST_SERIES:
        return None
    units, means = FittedGroups.of(fitted.aggregator).in_units(given.Y, given.baseline)
    index = getattr(given.Y, "index", None)
    samples = [str(number) for number in range(len(units))]
    if index is not None and len(index) == len(units):
        samples = [str(label) for label in index]
    low, high = _spread(fitted, units * fitted.aggregator.signs_)
    return GroupSeries(samples, means, low, high)


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
