"""What a report can say of a plain estimator once it has the data of its fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ctfa import _validation as check
from ctfa._held_out import held_out_errors
from ctfa._multi_input import MultiInputCTFARegressor
from ctfa._pooled import PooledCTFARegressor
from ctfa._target_aggregator import TargetAggregator
from ctfa.core.history import MergeHistory
from ctfa.core.types import FloatArray
from ctfa.report._coefficients import coefficients_of, rows_of
from ctfa.report._fitted import Fitted
from ctfa.report._material import GroupSeries, HeldOut, Material

#: Blocks of consecutive rows that are held out in turn.
N_BLOCKS = 5
#: Shares of the members between which the spread of a group is drawn.
SPREAD = (10.0, 90.0)


def complete(material: Material, fitted: Fitted, data: Any) -> Material:
    """Work out what the data tell and nobody has told yet."""
    parts = tuple(data) if isinstance(data, tuple | list) else ()
    needed = 3 if isinstance(fitted.model, PooledCTFARegressor) else 2
    if len(parts) != needed:
        form = "(X, y, tasks)" if needed == 3 else "(X, Y)"
        raise ValueError(
            f"data is {type(data).__name__} of {len(parts)} parts: give {form}, the data of fit."
        )
    if needed == 3:
        history = material.history or _pooled_history(fitted, *parts)
        return replace(material, history=history)
    X, Y = parts
    history = material.history or full_history(fitted, X, Y)
    series = material.series or _series(fitted, X, Y)
    coefficients = material.coefficients or coefficients_of(fitted, rows_of(fitted, X, Y))
    held_out = material.held_out or _held_out(fitted, X, Y)
    return replace(
        material, history=history, series=series, coefficients=coefficients, held_out=held_out
    )


def full_history(fitted: Fitted, X: Any, Y: Any) -> MergeHistory | None:
    """Every merge up to an infinite limit; None where the order of merges depends on the limit."""
    rule = fitted.aggregator
    if rule.scan != "best-first" or isinstance(getattr(fitted.model, "targets", None), str):
        return None
    if isinstance(fitted.model, MultiInputCTFARegressor):
        template = clone(rule)
        model = fitted.model._anew().set_params(
            targets=template, aggregate=fitted.model.aggregate_, head="mean"
        )
        sample, targets = fitted.model._read_again(X, Y, None)
        own: MergeHistory = model._pose(sample.inputs, targets.values, None).solve(np.inf)
        return own
    template = TargetAggregator(**rule.get_params())
    sample = check.read_sample(template, X, None)
    targets = check.read_targets(Y, sample.n_given, used=sample.used, gaps=True)
    return template._pose(sample, targets).problem.solve(np.inf)


def _pooled_history(fitted: Fitted, X: Any, y: Any, tasks: Any) -> MergeHistory | None:
    if isinstance(fitted.model.targets, str) or fitted.aggregator.scan != "best-first":
        return None
    every = TargetAggregator(**{**fitted.aggregator.get_params(), "max_loss": np.inf})
    model = clone(fitted.model).set_params(targets=every, features=None, head="mean")
    history: MergeHistory = model.fit(X, y, tasks).history_
    return history


def _held_out(fitted: Fitted, X: Any, Y: Any) -> HeldOut | None:
    """What ``compare`` does, and ridge regression for each target beside it."""
    model = fitted.model
    if fitted.is_aggregator:
        return None
    sample, targets = model._read_again(X, Y, None)
    splits = check.read_folds(N_BLOCKS, sample, targets.values)
    model._require_observed(sample, targets, splits)
    methods = {
        "ctfa": model._anew(),
        "single-task": model._single_task(),
        "single-task ridge": _ridge(model),
    }
    errors = held_out_errors(list(methods.values()), sample, targets.values, splits)
    return HeldOut(
        dict(zip(methods, errors, strict=True)), f"{N_BLOCKS} blocks of consecutive rows in turn"
    )


def _ridge(model: Any) -> Any:
    """Ridge regression for each target by itself: the rival that is hardest to beat."""
    ridge = RidgeCV(np.logspace(-2, 4, 13))
    single = model._single_task()
    if isinstance(model, MultiInputCTFARegressor):
        return single.set_params(regressor=ridge)
    return single.set_params(regressor=make_pipeline(StandardScaler(), ridge))


def _series(fitted: Fitted, X: Any, Y: Any) -> GroupSeries:
    """Mean and spread of each group in the units in which targets were merged."""
    aggregator = fitted.aggregator
    targets = aggregator._read_again(Y)
    units = aggregator._to_units(targets.values) * aggregator.signs_
    index = getattr(Y, "index", None)
    samples = [str(number) for number in range(len(units))]
    if index is not None and len(index) == len(units):
        samples = [str(label) for label in index]
    mean = aggregator._mean(targets.values)
    low, high = _spread(fitted, units)
    return GroupSeries(samples, mean, low, high)


def _spread(fitted: Fitted, units: FloatArray) -> tuple[FloatArray, FloatArray]:
    n_groups = fitted.partition.n_groups
    bounds = np.full((2, len(units), n_groups), np.nan)
    for group, members in enumerate(fitted.partition.groups):
        own = units[:, members]
        seen = ~np.isnan(own).all(axis=1)
        bounds[:, seen, group] = np.nanpercentile(own[seen], SPREAD, axis=1)
    return bounds[0], bounds[1]
