"""Partitions for many values of ``max_loss`` from one factorization."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ctfa import _validation as check
from ctfa._feature_aggregator import FeatureAggregator
from ctfa._merging import MergeProblem
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
    check.require_no_limit(options)
    aggregator = TargetAggregator(**options)
    sample = check.read_sample(aggregator, X, sample_weight)
    targets = check.read_targets(Y, sample.n_given, used=sample.used)
    return _path(aggregator._pose(sample, targets), check.read_losses(max_losses))


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
    sample = check.read_sample(aggregator, X, sample_weight)
    target = check.read_vector(y, sample)
    problem = aggregator._pose(aggregator._factor(sample, target), target, "y")
    return _path(problem, check.read_losses(max_losses))


def _path(problem: MergeProblem, max_losses: Sequence[float]) -> list[PathPoint]:
    if not max_losses:
        return []
    if problem.scan == "best-first":
        # Its merges do not depend on max_loss, only where they stop does.
        history = problem.solve(max(max_losses))
        return [_point_of(problem, history, value) for value in max_losses]
    found: dict[float, PathPoint] = {}
    for value in max_losses:
        reach = value + problem.tolerance
        known = next((point for point in found.values() if _holds(point, reach)), None)
        if known is None:
            history = problem.copy().solve(value)
            known = PathPoint(value, history.partition(), history.loss_interval)
        found[value] = known._replace(max_loss=value)
    return [
        point._replace(loss_interval=problem.interval(point.loss_interval, point.max_loss))
        for point in map(found.__getitem__, max_losses)
    ]


def _point_of(problem: MergeProblem, history: MergeHistory, max_loss: float) -> PathPoint:
    """The point of a history whose merges would be the same for a smaller limit."""
    reach = max_loss + problem.tolerance
    interval = problem.interval(history.interval(reach), max_loss)
    return PathPoint(max_loss, history.partition(reach), interval)


def _holds(point: PathPoint, reach: float) -> bool:
    """Whether a limit would have decided every question of this point's scan alike."""
    low, high = point.loss_interval
    return low <= reach < high or reach == high == np.inf
