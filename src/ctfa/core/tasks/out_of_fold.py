"""Targets beside what a regressor says of rows that it has not seen, whatever the regressor.

A group is served by the mean of its members' predictions. With ``d`` the difference of two groups'
mean targets about their levels and ``p`` that of their predictions, what a merge saves over all its
members is ``ab/(a+b) (|d - p|^2 - |d|^2)``: it pays while the regressor does not predict the
difference better than nothing does. Merging refits nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ctfa.core.criteria import TINY
from ctfa.core.fit import Evidence, Fit
from ctfa.core.history import MergeHistory
from ctfa.core.members import Gain, MemberRisk, MergeGain
from ctfa.core.partition import Partition
from ctfa.core.small_fits import observed_mean
from ctfa.core.spaces.base import CrossValidated, MergeSpace, correlations
from ctfa.core.spaces.targets import ROUNDING, TargetSpace
from ctfa.core.tasks.base import Fold, PathPoint, Rule, squared_errors
from ctfa.core.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """What models that have not seen a row say of it, for every target.

    ``folds`` hold, for each block of rows, the rows that its groups are found on and the rows that
    judge these. Predictions of the first are by models that have seen neither the row nor the
    block: paths and judges would otherwise have rows in common, and pairs that are alike by chance
    would be judged by the rows that make them so.
    """

    values: FloatArray  # (n, L): as given, NaN where missing
    level: FloatArray  # (n, L): what the rows that models learned from say without inputs
    told: FloatArray  # (n, L): what the models say
    rows: FloatArray | None = None  # (n,): how much each row counts
    weights: FloatArray | None = None  # (L,): how much each target counts
    units: FloatArray | None = None  # (L,): in which errors of targets are held against each other
    folds: Sequence[tuple[OutOfFold | None, OutOfFold]] = ()

    @property
    def n_tasks(self) -> int:
        """How many targets there are."""
        return int(self.values.shape[1])

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Nothing is factored."""
        return ()

    @property
    def root(self) -> FloatArray:
        """Roots of the weights of the rows, which sum to their number."""
        if self.rows is None:
            return np.ones(len(self.values))
        return np.sqrt(self.rows * (len(self.rows) / max(float(self.rows.sum()), TINY)))

    def fold(self, rule: Rule, number: int) -> Fold | None:
        """Both sides of one fold; None where nobody could be fitted without it."""
        known, asked = self.folds[number]
        return None if known is None else Fold(known, asked)

    def fits(self, rule: Rule, aggregate: str = "mean") -> OutOfFoldFits:
        """Targets in the units of ``scale``, over these rows."""
        scales = np.ones(self.n_tasks)
        if rule.scale == "standard":
            seen = ~np.isnan(self.values)
            weight = np.where(seen, (self.root**2)[:, None], 0.0)
            total = np.maximum(weight.sum(axis=0), TINY)
            known = np.where(seen, self.values - self.level, 0.0)
            centred = np.where(seen, known - (weight * known).sum(axis=0) / total, 0.0)
            spread = np.sqrt((weight * centred**2).sum(axis=0) / total)
            scales = np.where(spread > 0.0, spread, 1.0)
        return OutOfFoldFits(rule, self, scales)


@dataclass(frozen=True, eq=False)
class OutOfFoldFits:
    """The same in the units that targets are merged in."""

    rule: Rule
    tasks: OutOfFold
    scales: FloatArray
    variance: float | None = None

    @cached_property
    def columns(self) -> tuple[FloatArray, FloatArray]:
        """Targets about their levels, and what predictions leave of them; weighted, scaled."""
        tasks, root = self.tasks, self.tasks.root[:, None] / self.scales
        return (tasks.values - tasks.level) * root, (tasks.values - tasks.told) * root

    @property
    def _has_gaps(self) -> bool:
        return bool(np.isnan(self.tasks.values).any())

    @property
    def fit(self) -> OutOfFoldFits:
        """What the evidence is asked of."""
        return self

    def space(self) -> Any:
        """A fresh space of the targets, which refuses what a member loses by if it is guarded."""
        n_samples, weights = len(self.tasks.values), self.tasks.weights
        if self._has_gaps:
            return GappyOutOfFoldSpace(*self.columns)
        # As many coefficients as there are rows but one: then losses are ratios of squares.
        reading = CrossValidated(n_samples, 0, float(max(n_samples - 1, 1)))
        columns, sizes = self.columns, np.ones(self.tasks.n_tasks)
        if weights is not None:
            columns, sizes = (columns[0] * weights, columns[1] * weights), weights.copy()
        space = TargetSpace(columns, sizes, reading, flip=self.rule.flip)
        if self.rule.guarded:
            space.protect(self.members)
        return space

    @cached_property
    def members(self) -> Any:
        """What serves each target: the mean of its group's predictions."""
        if self._has_gaps:
            return GappyMembers(*self.columns)
        return MemberRisk.cross_validated(*self.columns, len(self.tasks.values), self.tasks.weights)

    def errors(
        self, points: Sequence[PathPoint], other: OutOfFold, tempers: Sequence[Any]
    ) -> FloatArray:
        """Mean squared error of each point's groups on other rows, over all that is observed."""
        units: FloatArray = np.ones(other.n_tasks) if other.units is None else other.units
        judges = np.ones(len(other.values)) if other.rows is None else other.rows
        weight = np.where(np.isnan(other.values), 0.0, judges[:, None])
        if other.weights is not None:
            weight = weight * other.weights
        # In raw units a group has one level, that of its mean.
        level = np.zeros_like(other.level) if self.rule.scale == "none" else other.level
        told = (other.told - level) / self.scales
        gappy = bool(np.isnan(told).any())

        def serve(point: PathPoint) -> Iterator[FloatArray]:
            signs = np.ones(other.n_tasks) if point.signs is None else point.signs
            # With inputs of their own some members are not told of in a row.
            mean = observed_mean if gappy else Partition.mean
            means = mean(point.partition, told * signs, other.weights)
            served = (means[:, point.partition.labels] * signs * self.scales + level) / units
            yield from [np.nan_to_num(served) if gappy else served] * len(tempers)

        true = np.nan_to_num(other.values) / units
        total = max(float(weight.sum()), TINY)
        square = float((weight * true**2).sum()) / total
        return squared_errors(points, serve, true, weight, total, square)


class GappyOutOfFoldSpace(MergeSpace):
    """The same question where targets have missing values: a mask on rows.

    Kept for every block and row: how many of its members are observed there, and the sums of their
    targets and of their predictions. What a merge saves is counted over the rows that both have.
    """

    def __init__(self, whole: FloatArray, left: FloatArray) -> None:
        """Targets about their levels and what predictions leave, NaN where not observed."""
        seen = ~np.isnan(whole)
        self._count = seen.T.astype(float)
        self._whole = np.where(seen, whole, 0.0).T.copy()
        self._told = np.where(seen, whole - left, 0.0).T.copy()
        self._size = np.ones(len(self._count))
        self.n_variables, self.n_samples = len(self._count), whole.shape[0]
        self.signs = None

    def _cost(self, count: FloatArray, whole: FloatArray, told: FloatArray) -> FloatArray:
        """Squared errors of all members under the mean of the predictions, less their squares."""
        mean = _mean(told, count)
        return np.asarray((count * mean**2 - 2.0 * whole * mean).sum(axis=-1))

    def evidence(self, block: int | IntArray, others: IntArray) -> Evidence:
        """What tells the two apart, on the rows that both have."""
        at = block if isinstance(block, np.ndarray) else np.array([block])
        mine = self._count[at], self._whole[at], self._told[at]
        theirs = self._count[others], self._whole[others], self._told[others]
        # The gain is that of all rows; a row of one side alone is told by one side alone.
        merged = tuple(a + b for a, b in zip(mine, theirs, strict=True))
        gain = self._cost(*mine) + self._cost(*theirs) - self._cost(*merged)
        share = mine[0] * theirs[0] / np.maximum(merged[0], 1.0)
        gap = _mean(mine[1], mine[0]) - _mean(theirs[1], theirs[0])
        total = (share * gap**2).sum(axis=-1)
        size = self._size[at] + self._size[others]
        n = self.n_samples

        def fit(explained: FloatArray, residual: FloatArray) -> Fit:
            return Fit(explained, residual, n, 0, float(max(n - 1, 1)), n - 1, size)

        left = np.maximum(total + gain, np.where(total > 0.0, ROUNDING * total, 0.0))
        return Evidence(
            lambda: (fit(total, left), fit(total, left)),
            lambda: fit(total, left),
            lambda: fit(total - left, left),
            stake=np.full(total.shape, 1.0 / n),
        )

    def correlation(self, block: int | IntArray, others: IntArray) -> FloatArray:
        """Of the means, on the rows that both have."""
        at = block if isinstance(block, np.ndarray) else np.array([block])
        both = (self._count[at] > 0.0) & (self._count[others] > 0.0)
        first = np.where(both, _mean(self._whole[at], self._count[at]), 0.0)
        second = np.where(both, _mean(self._whole[others], self._count[others]), 0.0)
        products = (first * second).sum(axis=-1)
        return correlations(products, (first**2).sum(axis=-1), (second**2).sum(axis=-1))

    def merge(self, block: int, other: int) -> None:
        """Add what both have."""
        for sums in (self._count, self._whole, self._told, self._size):
            sums[block] += sums[other]

    @property
    def total_variance(self) -> float:
        """Mean variance of the targets as they stand."""
        mean = _mean(self._whole, self._count)
        return float((mean**2).sum() / max((self._count > 0.0).sum(), 1))


class GappyMembers:
    """What every member is served with, on the rows where it is observed."""

    def __init__(self, whole: FloatArray, left: FloatArray) -> None:
        self._whole, self._left = whole, left

    def _errors(self, partition: Partition) -> FloatArray:
        """Squared errors of each target under its group's mean prediction; NaN where missing."""
        told = self._whole - self._left
        seen = ~np.isnan(told)
        count = partition.sum(seen.astype(float))
        mean = _mean(partition.sum(np.where(seen, told, 0.0)), count)
        return np.asarray((self._whole - mean[:, partition.labels]) ** 2)

    def gain_over_single(self, partition: Partition) -> Gain:
        """What each target saves by its group's mean prediction, and its error over the rows."""
        saved = self._left**2 - self._errors(partition)
        count = np.maximum((~np.isnan(saved)).sum(axis=0), 1)
        value = np.nansum(saved, axis=0) / count
        spread = np.nansum((saved - value) ** 2, axis=0) / np.maximum(count - 1, 1)
        merged = partition.sizes[partition.labels] > 1
        return Gain(np.where(merged, value, 0.0), np.where(merged, np.sqrt(spread / count), 0.0))

    def trust(self, partition: Partition) -> FloatArray:
        """All, as far as this knows."""
        return np.ones(partition.n_variables)

    def along(self, history: MergeHistory) -> Iterator[MergeGain]:
        """What each member of each merge saves compared with just before it."""
        groups = {k: np.array([k]) for k in range(history.n_variables)}
        before = self._left**2
        count = np.maximum((~np.isnan(before)).sum(axis=0), 1)
        for block, other in zip(history.block.tolist(), history.other.tolist(), strict=True):
            first, members = groups[block], np.concatenate((groups[block], groups.pop(other)))
            groups[block] = members
            part = GappyMembers(self._whole[:, members], self._left[:, members])
            after = part._errors(Partition(np.zeros(members.size, dtype=np.intp)))
            saved = before[:, members] - after
            gain = np.nansum(saved, axis=0) / count[members]
            known = saved[~np.isnan(saved)]
            error = float(np.sqrt(known.var() * known.size)) / len(saved) if known.size else np.nan
            before = before.copy()
            before[:, members] = after
            total = Gain(np.asarray(gain.sum()), np.asarray(error))
            yield MergeGain(members, first.size, gain, total, np.nan, 2.0)


def _mean(sums: FloatArray, count: FloatArray) -> FloatArray:
    """Means where anybody is observed, zero elsewhere."""
    return np.asarray(sums / np.where(count > 0.0, count, 1.0))
