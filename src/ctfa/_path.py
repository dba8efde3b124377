"""Partitions for many values of ``max_loss`` from one factorization."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

import numpy as np

from ctfa import _validation as check
from ctfa._feature_aggregator import FeatureAggregator
from ctfa._target_aggregator import TargetAggregator
from ctfa.core.history import MergeHistory
from ctfa.core.partition import Partition


class PathPoint(NamedTuple):
    """The groups at one value of ``max_loss``."""

    max_loss: float
    partition: Partition
    loss_interval: tuple[float, float]  # any value from the first up to the second gives the same

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return self.partition.n_groups


def target_path(
    X: Any, Y: Any, max_losses: Iterable[float], *, sample_weight: Any = None, **options: Any
) -> list[PathPoint]:
    """Groups of targets for each ``max_loss``, from one factorization.

    Parameters
    ----------
    X, Y, sample_weight
        As in ``TargetAggregator.fit``.
    max_losses : iterable of float
        Values to answer for, in any order.
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
    aggregator = TargetAggregator(**options)
    return _path(aggregator._pose(X, Y, sample_weight), max_losses, aggregator.scan)


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
    aggregator = FeatureAggregator(**options)
    inputs = check.read_inputs(aggregator, X, reset=True)
    target = check.read_vector(y, inputs.shape[0])
    weights = check.read_weights(sample_weight, inputs.shape[0])
    problem = aggregator._pose(aggregator._factor(inputs, weights), target)
    return _path(problem, max_losses, aggregator.scan)


class _Problem(Protocol):
    def solve(self, max_loss: Any, *, again: bool = ...) -> tuple[MergeHistory, float]:
        """Run one scan."""


def _path(problem: _Problem, max_losses: Iterable[float], scan: str) -> list[PathPoint]:
    values = [check.read_number(value, "max_losses") for value in max_losses]
    if not values:
        return []
    if scan == "best-first":
        # Its merges do not depend on max_loss, only where they stop does.
        history, _ = problem.solve(max(values))
        return [PathPoint(v, history.partition(v), history.interval(v)) for v in values]
    solved: list[PathPoint] = []
    for value in sorted(set(values)):
        known = next((p for p in solved if _holds(p.loss_interval, value)), None)
        if known is None:
            history, _ = problem.solve(value, again=True)
            known = PathPoint(value, history.partition(), history.loss_interval)
        solved.append(known._replace(max_loss=value))
    found = {point.max_loss: point for point in solved}
    return [found[value] for value in values]


def _holds(interval: tuple[float, float], value: float) -> bool:
    return interval[0] <= value < interval[1] or (interval[1] == np.inf and value == np.inf)
