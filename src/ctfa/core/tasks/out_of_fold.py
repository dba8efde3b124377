"""Predictions of held-out rows by any regressor; merging refits nothing.

Targets that share their rows (``OutOfFold``) are served by the mean of their group's predictions.
With ``d`` the difference of two groups' mean targets about their levels and ``p`` that of their
predictions, what a merge saves over all its members is ``ab/(a+b) (|d - p|^2 - |d|^2)``: it pays
while the regressor does not predict the difference better than nothing does.

Tasks that have rows of their own, or inputs, have no row in common in which their targets could be
averaged (``Crosswise``). A group is judged by serving each row of its members with the mean of what
all of their models say of that row: the error of a mean is quadratic in sums over the members.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from ctfa.core.criteria import TINY
from ctfa.core.fit import Evidence, Fit
from ctfa.core.history import MergeHistory
from ctfa.core.members import Gain, MemberRisk, MergeGain
from ctfa.core.partition import Partition
from ctfa.core.small_fits import observed_mean
from ctfa.core.spaces.base import CrossValidated, MergeSpace, correlations
from ctfa.core.spaces.targets import ROUNDING, TargetSpace
from ctfa.core.tasks.base import Fold, PathPoint, Rule, mean_of, sides_of, squared_errors
from ctfa.core.types import FloatArray, IntArray


class Told:
    """Rows of tasks beside what models say of them.

    ``folds`` hold, for each block of rows, the rows that its groups are found on and the rows that
    judge these. Predictions of the first are by models that have seen neither the row nor the
    block: paths and judges would otherwise have rows in common, and pairs that are alike by chance
    would be judged by the rows that make them so.
    """

    values: FloatArray
    told: FloatArray
    place: IntArray | None
    folds: Sequence[tuple[Any, Any]]
    #: Arrays with an entry for each row, where they are given.
    over_rows: ClassVar[tuple[str, ...]] = ("values", "told", "rows", "place")

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Nothing is factored."""
        return ()

    def fold(self, rule: Rule, number: int) -> Fold | None:
        """Both sides of one fold; None where no model could be fitted without it."""
        known, asked = self.folds[number]
        return None if known is None else Fold(known, asked)

    @property
    def is_known(self) -> list[bool]:
        """Of each fold, whether any model could be fitted without it."""
        return [known is not None for known, _ in self.folds]

    @classmethod
    def together(cls, parts: Sequence[tuple[Self, Any]]) -> Self:
        """Some rows of each table, in one, in the order of all rows."""
        first = parts[0][0]
        order = np.argsort(
            np.concatenate([one.place[at] for one, at in parts if one.place is not None]),
            kind="stable",
        )
        joined = {
            name: np.concatenate([getattr(one, name)[at] for one, at in parts])[order]
            for name in cls.over_rows
            if getattr(first, name) is not None
        }
        return replace(first, **joined)  # type: ignore[type-var]

    def along(self, history: MergeHistory) -> Iterator[MergeGain]:
        """What each member of each merge saves in a row compared with just before it."""
        before = self._squares(Partition.singletons(history.n_variables))
        for first, second in sides_of(history):
            members = np.concatenate((first, second))
            at, after = self._squares_of(members)
            gain, error = self._gain_of(members, before[at] - after, at)
            before[at] = after
            total = Gain(np.asarray(gain.sum()), np.asarray(error))
            yield MergeGain(members, first.size, gain, total, np.nan, 2.0)

    def _squares(self, partition: Partition) -> FloatArray:
        """Squared errors of what groups serve their members with, row by row."""
        raise NotImplementedError

    def _squares_of(self, members: IntArray) -> tuple[Any, FloatArray]:
        """The same of the members of one group, and where these are among all."""
        raise NotImplementedError

    def _gain_of(self, members: IntArray, saved: FloatArray, at: Any) -> tuple[FloatArray, float]:
        """What each member saves in a row, of squares saved; the standard error of the sum."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class OutOfFold(Told):
    """Predictions of held-out rows, for targets that share their rows."""

    values: FloatArray  # (n, L): as given, NaN where missing
    level: FloatArray  # (n, L): what the rows that models learned from say without inputs
    told: FloatArray  # (n, L): what the models say
    rows: FloatArray | None = None  # (n,): how much each row counts
    weights: FloatArray | None = None  # (L,): how much each target counts
    units: FloatArray | None = None  # (L,): in which errors of targets are held against each other
    folds: Sequence[tuple[OutOfFold | None, OutOfFold]] = ()
    place: IntArray | None = None  # (n,): which of all rows each is
    rule: Rule | None = None  # by which targets are merged, and in which units; None if not yet
    scales: FloatArray | None = None  # (L,)

    over_rows: ClassVar[tuple[str, ...]] = (*Told.over_rows, "level")
    variance: ClassVar[float | None] = None

    @property
    def n_tasks(self) -> int:
        """How many targets there are."""
        return int(self.values.shape[1])

    @property
    def root(self) -> FloatArray:
        """Roots of the weights of the rows, which sum to their number."""
        if self.rows is None:
            return np.ones(len(self.values))
        return np.sqrt(self.rows * (len(self.rows) / max(float(self.rows.sum()), TINY)))

    def fits(self, rule: Rule, aggregate: str = "mean") -> OutOfFold:
        """The same, to be merged in the units of ``scale`` over these rows."""
        scales = np.ones(self.n_tasks)
        if rule.scale == "standard":
            seen = ~np.isnan(self.values)
            weight = np.where(seen, (self.root**2)[:, None], 0.0)
            total = np.maximum(weight.sum(axis=0), TINY)
            known = np.where(seen, self.values - self.level, 0.0)
            centred = np.where(seen, known - (weight * known).sum(axis=0) / total, 0.0)
            spread = np.sqrt((weight * centred**2).sum(axis=0) / total)
            scales = np.where(spread > 0.0, spread, 1.0)
        return replace(self, rule=rule, scales=scales)

    @cached_property
    def columns(self) -> tuple[FloatArray, FloatArray]:
        """Targets about their levels, and what predictions leave of them; weighted, scaled."""
        assert self.scales is not None
        root = self.root[:, None] / self.scales
        return (self.values - self.level) * root, (self.values - self.told) * root

    @property
    def _has_gaps(self) -> bool:
        return bool(np.isnan(self.values).any())

    def space(self) -> Any:
        """A fresh space of the targets, which refuses what a member loses by if it is guarded."""
        assert self.rule is not None
        n_samples, weights = len(self.values), self.weights
        if self._has_gaps:
            return GappyOutOfFoldSpace(*self.columns)
        # As many coefficients as there are rows but one: then losses are ratios of squares.
        reading = CrossValidated(n_samples, 0, float(max(n_samples - 1, 1)))
        columns, sizes = self.columns, np.ones(self.n_tasks)
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
            return self
        return MemberRisk.cross_validated(*self.columns, len(self.values), self.weights)

    def errors(
        self, points: Sequence[PathPoint], other: OutOfFold | Crosswise, tempers: Sequence[Any]
    ) -> FloatArray:
        """Mean squared error of each point's groups on other rows, over all that is observed."""
        if isinstance(other, Crosswise):
            assert other.averaged is not None
            other = other.averaged
        assert self.rule is not None
        assert self.scales is not None
        asked, scales = other, self.scales
        units: FloatArray = np.ones(asked.n_tasks) if asked.units is None else asked.units
        judges = np.ones(len(asked.values)) if asked.rows is None else asked.rows
        weight = np.where(np.isnan(asked.values), 0.0, judges[:, None])
        if asked.weights is not None:
            weight = weight * asked.weights
        # In raw units a group has one level, that of its mean.
        level = np.zeros_like(asked.level) if self.rule.scale == "none" else asked.level
        told = (asked.told - level) / scales
        gappy = bool(np.isnan(told).any())

        def serve(point: PathPoint) -> Iterator[FloatArray]:
            signs = np.ones(asked.n_tasks) if point.signs is None else point.signs
            # With inputs of their own some members are not told of in a row.
            mean = observed_mean if gappy else Partition.mean
            means = mean(point.partition, told * signs, asked.weights)
            served = (means[:, point.partition.labels] * signs * scales + level) / units
            yield from [np.nan_to_num(served) if gappy else served] * len(tempers)

        return squared_errors(points, serve, np.nan_to_num(asked.values) / units, weight)

    @property
    def alone(self) -> FloatArray:
        """What serves targets by themselves."""
        return self.told

    def products(self, told: Sequence[FloatArray]) -> tuple[FloatArray, FloatArray]:
        """Weights of targets, and products of the errors of each two predictions of the rows."""
        seen = ~np.isnan(self.values)
        weight = np.where(seen, 1.0 if self.rows is None else self.rows[:, None], 0.0)
        units = np.ones(self.n_tasks) if self.units is None else self.units
        errors = np.stack([np.where(seen, self.values - one, 0.0) / units for one in told])
        return weight.sum(axis=0), np.einsum("nl,anl,bnl->abl", weight, errors, errors)

    def _squares(self, partition: Partition) -> FloatArray:
        return _squares_of_means(*self.columns, partition)

    def _squares_of(self, members: IntArray) -> tuple[Any, FloatArray]:
        whole, left = (columns[:, members] for columns in self.columns)
        together = Partition(np.zeros(members.size, dtype=np.intp))
        return (slice(None), members), _squares_of_means(whole, left, together)

    def _gain_of(self, members: IntArray, saved: FloatArray, at: Any) -> tuple[FloatArray, float]:
        count = np.maximum((~np.isnan(self.columns[1][at])).sum(axis=0), 1)
        known = saved[~np.isnan(saved)]
        error = float(np.sqrt(known.var() * known.size)) / len(saved) if known.size else np.nan
        return np.nansum(saved, axis=0) / count, error

    def gain_over_single(self, partition: Partition) -> Gain:
        """What each target saves by its group's mean prediction, and its error over the rows."""
        saved = self.columns[1] ** 2 - self._squares(partition)
        count = np.maximum((~np.isnan(saved)).sum(axis=0), 1)
        value = np.nansum(saved, axis=0) / count
        spread = np.nansum((saved - value) ** 2, axis=0) / np.maximum(count - 1, 1)
        merged = partition.sizes[partition.labels] > 1
        return Gain(np.where(merged, value, 0.0), np.where(merged, np.sqrt(spread / count), 0.0))

    def trust(self, partition: Partition) -> FloatArray:
        """All, as far as this knows."""
        return np.ones(partition.n_variables)


def _squares_of_means(whole: FloatArray, left: FloatArray, partition: Partition) -> FloatArray:
    """Squared errors of each target under its group's mean prediction; NaN where missing."""
    told = whole - left
    seen = ~np.isnan(told)
    count = partition.sum(seen.astype(float))
    mean = mean_of(partition.sum(np.where(seen, told, 0.0)), count)
    return np.asarray((whole - mean[:, partition.labels]) ** 2)


@dataclass(frozen=True, eq=False)
class Crosswise(Told):
    """Predictions of held-out rows by the models of all tasks.

    Where tasks have inputs of their own ``averaged`` is the same as groups serve their members that
    are averaged: models of single tasks are the same, so one round of fits judges both ways.
    """

    values: FloatArray  # (n,): targets about what is said of the row without inputs
    told: FloatArray  # (n, T): what the model of each task says, about the same
    index: IntArray  # (n,): task of each row
    counts: FloatArray  # (T,): how much each task's model counts in a mean; zero where it has none
    rows: FloatArray | None = None  # (n,): how much each row counts
    block: IntArray | None = None  # (n,): the fold that leaves each row out; None for one
    place: IntArray | None = None  # (n,): which of all rows each is
    units: FloatArray | None = None  # (T,): in which errors of tasks are held against each other
    means: FloatArray | None = None  # (T, T): what each model says of a task's rows to learn from
    folds: Sequence[tuple[Crosswise | None, Crosswise]] = ()
    averaged: OutOfFold | None = None

    over_rows: ClassVar[tuple[str, ...]] = (*Told.over_rows, "index")
    variance: ClassVar[float | None] = 1.0  # losses are ratios

    @classmethod
    def together(cls, parts: Sequence[tuple[Self, Any]]) -> Self:
        """Some rows of each table; a task has a model where it has one in all of them."""
        counts = np.array([one.counts for one, _ in parts])
        means = [one.means for one, _ in parts if one.means is not None]
        return replace(
            super().together(parts),
            counts=np.where(counts.min(axis=0) > 0.0, counts.mean(axis=0), 0.0),
            means=np.mean(means, axis=0) if means else None,
        )

    @property
    def n_tasks(self) -> int:
        """How many tasks there are."""
        return int(self.counts.size)

    @property
    def weight(self) -> FloatArray:
        """How much the squared error of each row counts."""
        weight = np.ones(self.index.size) if self.rows is None else self.rows
        return weight if self.units is None else weight / self.units[self.index] ** 2

    def fits(self, rule: Rule, aggregate: str = "pool") -> Any:
        """Ready to be merged, and to be judged on other rows."""
        return self if aggregate == "pool" or self.averaged is None else self.averaged.fits(rule)

    @property
    def members(self) -> Crosswise:
        """What serves each task: the mean of its group's models."""
        return self

    def space(self) -> CrosswiseSpace:
        """A fresh space of the tasks."""
        return CrosswiseSpace(self.values, self.told, self.index, self.counts, self.weight)

    def served(self, partition: Partition) -> FloatArray:
        """What each row is served with by its group."""
        sums = partition.sum(self.told * self.counts)
        counts = partition.sum(self.counts[None])[0]
        of_row = partition.labels[self.index]
        return mean_of(sums[np.arange(of_row.size), of_row], counts[of_row])

    @property
    def alone(self) -> FloatArray:
        """What serves tasks by themselves."""
        return self.served(Partition.singletons(self.n_tasks))

    def errors(
        self, points: Sequence[PathPoint], other: Crosswise, tempers: Sequence[Any]
    ) -> FloatArray:
        """Mean squared error of each point's groups on other rows."""

        def serve(point: PathPoint) -> Iterator[FloatArray]:
            yield from [other.served(point.partition)] * len(tempers)

        total = float(other.values.size if other.rows is None else other.rows.sum())
        return squared_errors(points, serve, other.values, other.weight, total)

    def products(self, told: Sequence[FloatArray]) -> tuple[FloatArray, FloatArray]:
        """Weights of tasks, and products of the errors of each two predictions of the rows."""
        errors = [self.values - one for one in told]
        table = [
            [np.bincount(self.index, self.weight * a * b, self.n_tasks) for b in errors]
            for a in errors
        ]
        return np.bincount(self.index, self.rows, self.n_tasks).astype(float), np.array(table)

    def gain_over_single(self, partition: Partition) -> Gain:
        """What each task saves in a row by the mean of its group's models."""
        saved = self._squares(Partition.singletons(self.n_tasks)) - self._squares(partition)
        value, apart = self._saved(saved, np.arange(saved.size))
        return Gain(value, np.sqrt((apart**2).sum(axis=0)))

    def _squares(self, partition: Partition) -> FloatArray:
        return self._in_units((self.values - self.served(partition)) ** 2, slice(None))

    def _squares_of(self, members: IntArray) -> tuple[Any, FloatArray]:
        at = np.flatnonzero(np.isin(self.index, members))
        counts = self.counts[members]
        told = mean_of(self.told[np.ix_(at, members)] @ counts, counts.sum())
        return at, self._in_units((self.values[at] - told) ** 2, at)

    def _gain_of(self, members: IntArray, saved: FloatArray, at: Any) -> tuple[FloatArray, float]:
        value, apart = self._saved(saved, at)
        return value[members], float(np.sqrt((apart[:, members].sum(axis=1) ** 2).sum()))

    def _in_units(self, squares: FloatArray, at: IntArray | slice) -> FloatArray:
        return squares if self.units is None else squares / self.units[self.index[at]] ** 2

    def _saved(self, saved: FloatArray, at: IntArray) -> tuple[FloatArray, FloatArray]:
        """Mean over some rows of each task; and what each block of rows adds to its error.

        Models are the same for all rows of a block, which are therefore no independent witnesses;
        folds learn from rows in common (Nadeau and Bengio).
        """
        rows = np.ones(at.size) if self.rows is None else self.rows[at]
        block = np.zeros(at.size, dtype=np.intp) if self.block is None else self.block[at]
        n_blocks = 1 if self.block is None else int(self.block.max()) + 1
        weight, sums = np.zeros((2, n_blocks, self.n_tasks))
        np.add.at(weight, (block, self.index[at]), rows)
        np.add.at(sums, (block, self.index[at]), rows * saved)
        total = np.maximum(weight.sum(axis=0), TINY)
        value = sums.sum(axis=0) / total
        widened = n_blocks / max(n_blocks - 1, 1)
        widened = np.sqrt(widened * (1.0 + widened))
        return value, (sums - weight * value) / total * widened


Squares = tuple[FloatArray, FloatArray]  # explained, and residual


def _evidence(
    n: int, size: FloatArray, sides: tuple[Squares, Squares], after: Squares, apart: Squares
) -> Evidence:
    """Evidence of what is left of both sides, of both together, and of what tells them apart.

    As many coefficients as there are rows but one: then losses are ratios of squares.
    """

    def fit(explained: FloatArray, residual: FloatArray) -> Fit:
        return Fit(explained, residual, n, 0, float(max(n - 1, 1)), n - 1, size)

    return Evidence(
        lambda: (fit(*sides[0]), fit(*sides[1])),
        lambda: fit(*after),
        lambda: fit(*apart),
        stake=np.full(apart[1].shape, 1.0 / n),
    )


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
        mean = mean_of(told, count)
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
        gap = mean_of(mine[1], mine[0]) - mean_of(theirs[1], theirs[0])
        total = (share * gap**2).sum(axis=-1)
        left = np.maximum(total + gain, np.where(total > 0.0, ROUNDING * total, 0.0))
        size, side = self._size[at] + self._size[others], (total, left)
        return _evidence(self.n_samples, size, (side, side), side, (total - left, left))

    def correlation(self, block: int | IntArray, others: IntArray) -> FloatArray:
        """Of the means, on the rows that both have."""
        at = block if isinstance(block, np.ndarray) else np.array([block])
        both = (self._count[at] > 0.0) & (self._count[others] > 0.0)
        first = np.where(both, mean_of(self._whole[at], self._count[at]), 0.0)
        second = np.where(both, mean_of(self._whole[others], self._count[others]), 0.0)
        products = (first * second).sum(axis=-1)
        return correlations(products, (first**2).sum(axis=-1), (second**2).sum(axis=-1))

    def merge(self, block: int, other: int) -> None:
        """Add what both have."""
        for sums in (self._count, self._whole, self._told, self._size):
            sums[block] += sums[other]

    @property
    def total_variance(self) -> float:
        """Mean variance of the targets as they stand."""
        mean = mean_of(self._whole, self._count)
        return float((mean**2).sum() / max((self._count > 0.0).sum(), 1))


class CrosswiseSpace(MergeSpace):
    """Merges judged by how well the models of all members predict the rows of each of them.

    Kept for every block: the sum over its members of what their models say of every row of every
    task. What a merge costs is a ratio of squared errors, those of both sides under one mean over
    those under their own.
    """

    def __init__(
        self,
        values: FloatArray,
        told: FloatArray,
        index: IntArray,
        counts: FloatArray,
        weight: FloatArray,
        sizes: FloatArray | None = None,
    ) -> None:
        """Targets ``(n,)`` of the blocks' rows, and what each block says of all of them."""
        self._sums, self._count = (told * counts).T.copy(), counts.astype(float)
        self._values, self._weight, self._block = values, weight, index.copy()
        self._size = np.ones(counts.size) if sizes is None else sizes.copy()
        self.n_variables, self.n_samples = counts.size, values.size
        own = mean_of(self._sums[index, np.arange(values.size)], self._count[index])
        squares = weight * (values - own) ** 2
        self._error = np.asarray(np.bincount(index, squares, counts.size), dtype=float)
        self.signs = None

    def evidence(self, block: int | IntArray, others: IntArray) -> Evidence:
        """Errors of both sides by their own models, and what one mean for both adds to them."""
        if isinstance(block, np.ndarray):
            together = np.empty(others.size)
            for one in np.unique(block):
                at = block == one
                together[at] = self._together(int(one), others[at])
        else:
            together = self._together(block, others)
        size = self._size[block] + self._size[others]
        mine, theirs = self._error[block] + np.zeros(others.size), self._error[others]
        # Where both sides are told without error, whatever one mean adds is too much.
        apart = np.maximum(mine + theirs, ROUNDING * together)
        nothing = 0.0 * mine
        sides = (nothing, mine), (nothing, theirs)
        known = self.n_samples, size, sides, (nothing, together), (together - apart, apart)
        return _evidence(*known)

    def _together(self, block: int, others: IntArray) -> FloatArray:
        """Squared errors of the rows of both sides under the mean of all their models."""
        others, inverse = np.unique(others, return_inverse=True)
        count = self._count[block] + self._count[others]
        mine = np.flatnonzero(self._block == block)
        told = mean_of(self._sums[block, mine] + self._sums[np.ix_(others, mine)], count[:, None])
        found = (self._values[mine] - told) ** 2 @ self._weight[mine]
        position = np.full(self._count.size, -1)
        position[others] = np.arange(others.size)
        at = position[self._block]
        theirs = np.flatnonzero(at >= 0)
        at = at[theirs]
        sums = self._sums[block, theirs] + self._sums[self._block[theirs], theirs]
        squares = self._weight[theirs] * (self._values[theirs] - mean_of(sums, count[at])) ** 2
        return np.asarray(found + np.bincount(at, squares, others.size))[inverse]

    def correlation(self, block: int | IntArray, others: IntArray) -> FloatArray:
        """Correlation of what two groups' models say, over the rows of all tasks."""
        mine, theirs = self._sums[block], self._sums[others]
        products = np.einsum("...j,...j->...", mine, theirs)
        squares = (np.einsum("...j,...j->...", one, one) for one in (mine, theirs))
        return correlations(products, *squares)

    def merge(self, block: int, other: int) -> None:
        """Add what the models of both say."""
        self._error[block] = self._together(block, np.array([other]))[0]
        for sums in (self._sums, self._count, self._size):
            sums[block] += sums[other]
        self._block[self._block == other] = block
