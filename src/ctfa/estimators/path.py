"""Partitions for many values of ``max_loss`` from one factorization."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ctfa import _validation as check
from ctfa.core.tasks.base import PathPoint
from ctfa.core.tasks.own_inputs import AGGREGATES
from ctfa.core.tasks.shared import SharedInputs
from ctfa.estimators.features import (
    FeatureAggregator,
    factor,
    pose_features,
)
from ctfa.estimators.merging import solve_path
from ctfa.estimators.multi_input import MultiInputCTFARegressor, pose_own_inputs
from ctfa.estimators.targets import TargetAggregator, pose_targets


def target_path(
    X: Any,
    Y: Any,
    max_losses: Iterable[float],
    *,
    sample_weight: Any = None,
    baseline: Any = None,
    target_weight: Any = None,
    layout: Any = None,
    aggregate: str = "mean",
    **options: Any,
) -> list[PathPoint]:
    """Groups of targets for each ``max_loss``, from one factorization.

    Parameters
    ----------
    X, Y, sample_weight, baseline, target_weight
        As in ``TargetAggregator.fit``.
    max_losses : iterable of float
        Values to answer for, in any order.
    layout : array of shape (n_targets, n_slots), default=None
        For targets with inputs of their own, as in ``MultiInputCTFARegressor``.
    aggregate : {"mean", "pool"}, default="mean"
        With a layout: average the inputs of a group, or share its coefficients.
    **options
        Parameters of ``TargetAggregator``: criterion, scan, order, connectivity, scale, ...

    Returns
    -------
    list of PathPoint
        One for each value, in the order given.

    Examples
    --------
    >>> from ctfa import target_path
    >>> from ctfa.datasets import make_paper_synthetic
    >>> X, Y = make_paper_synthetic(n_samples=150, n_features=20, n_targets=6, random_state=0)
    >>> [point.n_groups for point in target_path(X, Y, [-1.0, 1.5, float("inf")])]
    [6, 2, 1]
    """
    check.require_no_limit(options)
    aggregator = TargetAggregator(**options, max_loss=np.inf)  # no limit is chosen
    if layout is not None:
        check.require(aggregate, AGGREGATES, "aggregate")
        model = MultiInputCTFARegressor(layout, targets=aggregator, aggregate=aggregate)
        problem = pose_own_inputs(model, X, Y, sample_weight, baseline, target_weight)
        return solve_path(problem, check.read_losses(max_losses))
    sample, targets, _ = aggregator.__ctfa_read__(X, Y, sample_weight, baseline, target_weight)
    tasks = SharedInputs(sample, targets.values, targets.weights)
    problem = pose_targets(aggregator, tasks, targets)[2]
    return solve_path(problem, check.read_losses(max_losses))


def feature_path(
    X: Any, y: Any, max_losses: Iterable[float], *, sample_weight: Any = None, **options: Any
) -> list[PathPoint]:
    """Groups of features for each ``max_loss``, from one factorization.

    Parameters
    ----------
    X, y, sample_weight
        As in ``FeatureAggregator.fit``.
    max_losses : iterable of float
        Values to answer for, in any order.
    **options
        Parameters of ``FeatureAggregator``: criterion, scan, order, connectivity, cv, ...

    Returns
    -------
    list of PathPoint
        One for each value, in the order given.
    """
    check.require_no_limit(options)
    aggregator = FeatureAggregator(**options)
    sample, targets, _ = aggregator.__ctfa_read__(X, y, sample_weight)
    target = targets.values[:, 0]
    problem = pose_features(aggregator, factor(aggregator, sample, target), target, "y")
    return solve_path(problem, check.read_losses(max_losses))
