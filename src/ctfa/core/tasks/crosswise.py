"""What the model of each task says of the rows of every task, whatever the regressor.

Tasks that have rows of their own, or inputs, have no row in common in which their targets could be
averaged. A group is judged by serving each row of its members with the mean of what all of their
models say of that row: the error of a mean is quadratic in sums over the members, so merging refits
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ctfa.core.criteria import TINY
from ctfa.core.fit import Evidence, Fit
from ctfa.core.history import MergeHistory
from ctfa.core.members import Gain, MergeGain
from ctfa.core.partition import Partition
from ctfa.core.spaces.base import MergeSpace, correlations
from ctfa.core.spaces.targets import ROUNDING
from ctfa.core.tasks.base import Fold, PathPoint, Rule, squared_errors
from ctfa.core.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Crosswise:
    """What models that have not seen a row say of it, for the models of all tasks.

    ``folds`` hold, for each block of rows, the rows that its groups are found on and the rows that
    judge these, as ``OutOfFold`` does.
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
    variance: float = 1.0  # losses are ratios

    @property
    def n_tasks(self) -> int:
        """How many tasks there are."""
        return int(self.counts.size)

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Nothing is factored."""
        return ()

    @property
    def weight(self) -> FloatArray:
        """How much the squared error of each row counts."""
        weight = np.ones(self.index.size) if self.rows is None else self.rows
        return weight if self.units is None else weight / self.units[self.index] ** 2

    def fold(self, rule: Rule, number: int) -> Fold | None:
        """Both sides of one fold; None where nobody could be fitted without it."""
        known, asked = self.folds[number]
        return None if known is None else Fold(known, asked)

    def fits(self, rule: Rule, aggregate: str = "pool") -> Crosswise:
        """Ready to be merged, and to be judged on other rows."""
        return self

    def space(self) -> CrosswiseSpace:
        """A fresh space of the tasks."""
        return CrosswiseSpace(self.values, self.told, self.index, self.counts, self.weight)

    def served(self, partition: Partition) -> FloatArray:
        """What each row is served with by its group."""
        sums = partition.sum(self.told * self.counts)
        counts = partition.sum(self.counts[None])[0]
        of_row = partition.labels[self.index]
        return _mean(sums[np.arange(of_row.size), of_row], counts[of_row])

    def errors(
        self, points: Sequence[PathPoint], other: Crosswise, tempers: Sequence[Any]
    ) -> FloatArray:
        """Mean squared error of each point's groups on other rows."""
        weight = other.weight

        def serve(point: PathPoint) -> Iterator[FloatArray]:
            yield from [other.served(point.partition)] * len(tempers)

        rows = np.ones(weight.size) if other.rows is None else other.rows
        total = max(float(rows.sum()), TINY)
        square = float((weight * other.values**2).sum()) / total
        return squared_errors(points, serve, other.values, weight, total, square)

    def along(self, history: MergeHistory) -> Iterator[MergeGain]:
        """What each task of each merge saves in a row compared with just before it."""
        sums, counts = (self.told * self.counts).T.copy(), self.counts.copy()
        groups = {k: np.array([k]) for k in range(self.n_tasks)}
        before = self._squares(Partition.singletons(self.n_tasks))
        for block, other in zip(history.block.tolist(), history.other.tolist(), strict=True):
            first, members = groups[block], np.concatenate((groups[block], groups.pop(other)))
            groups[block] = members
            sums[block] += sums[other]
            counts[block] += counts[other]
            at = np.flatnonzero(np.isin(self.index, members))
            told = _mean(sums[block, at], counts[block])
            after = self._in_units((self.values[at] - told) ** 2, at)
            value, apart = self._saved(before[at] - after, at)
            before[at] = after
            error = np.sqrt((apart[:, members].sum(axis=1) ** 2).sum())
            total = Gain(np.asarray(value[members].sum()), np.asarray(error))
            yield MergeGain(members, first.size, value[members], total, np.nan, 2.0)

    def gain_over_single(self, partition: Partition) -> Gain:
        """What each task saves in a row by the mean of its group's models."""
        saved = self._squares(Partition.singletons(self.n_tasks)) - self._squares(partition)
        value, apart = self._saved(saved, np.arange(saved.size))
        return Gain(value, np.sqrt((apart**2).sum(axis=0)))

    def _squares(self, partition: Partition) -> FloatArray:
        left = (self.values - self.served(partition)) ** 2
        return self._in_units(left, slice(None))

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


@dataclass(frozen=True, eq=False)
class BothWays:
    """Tasks with inputs of their own: one table a way of aggregating, of the same models."""

    tables: Mapping[
        str, Any
    ]  # of Crosswise where functions are shared, of OutOfFold where means are
    n_tasks: int

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Nothing is factored."""
        return ()

    @property
    def folds(self) -> list[bool]:
        """Of each fold, whether anybody could be fitted without it."""
        each = [[known is not None for known, _ in one.folds] for one in self.tables.values()]
        return [all(known) for known in zip(*each, strict=True)]

    def fold(self, rule: Rule, number: int) -> Fold | None:
        """Both sides of one fold; None where nobody could be fitted without it."""
        if not self.folds[number]:
            return None
        known, asked = (
            BothWays(
                {way: one.folds[number][side] for way, one in self.tables.items()}, self.n_tasks
            )
            for side in (0, 1)
        )
        return Fold(known, asked)

    def fits(self, rule: Rule, aggregate: str) -> OneWay:
        """Ready to be merged in one way."""
        return OneWay(self.tables[aggregate].fits(rule, aggregate), aggregate)


class OneWay(NamedTuple):
    """Fits of one way of aggregating."""

    fit: Any
    aggregate: str

    @property
    def variance(self) -> float | None:
        """As the way says."""
        found: float | None = self.fit.variance
        return found

    @property
    def evidence(self) -> Any:
        """What gains are asked of."""
        return self.fit if isinstance(self.fit, Crosswise) else self.fit.members

    def space(self) -> MergeSpace:
        """A fresh space of these tasks."""
        space: MergeSpace = self.fit.space()
        return space

    def errors(
        self, points: Sequence[PathPoint], other: BothWays, tempers: Sequence[Any]
    ) -> FloatArray:
        """Mean squared errors on other rows of the same tasks."""
        return np.asarray(self.fit.errors(points, other.tables[self.aggregate], tempers))


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
        own = _mean(self._sums[index, np.arange(values.size)], self._count[index])
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
        n, rank = self.n_samples, float(max(self.n_samples - 1, 1))

        def fit(explained: FloatArray, residual: FloatArray) -> Fit:
            return Fit(explained, residual, n, 0, rank, n - 1, size)

        # Where both sides are told without error, whatever one mean adds is too much.
        apart = np.maximum(mine + theirs, ROUNDING * together)
        return Evidence(
            lambda: (fit(0.0 * mine, mine), fit(0.0 * mine, theirs)),
            lambda: fit(0.0 * mine, together),
            lambda: fit(together - apart, apart),
            stake=np.full(apart.shape, 1.0 / n),
        )

    def _together(self, block: int, others: IntArray) -> FloatArray:
        """Squared errors of the rows of both sides under the mean of all their models."""
        others, inverse = np.unique(others, return_inverse=True)
        count = self._count[block] + self._count[others]
        mine = np.flatnonzero(self._block == block)
        told = _mean(self._sums[block, mine] + self._sums[np.ix_(others, mine)], count[:, None])
        found = (self._values[mine] - told) ** 2 @ self._weight[mine]
        position = np.full(self._count.size, -1)
        position[others] = np.arange(others.size)
        at = position[self._block]
        theirs = np.flatnonzero(at >= 0)
        at = at[theirs]
        sums = self._sums[block, theirs] + self._sums[self._block[theirs], theirs]
        squares = self._weight[theirs] * (self._values[theirs] - _mean(sums, count[at])) ** 2
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


def _mean(sums: FloatArray, count: FloatArray | float) -> FloatArray:
    """Means where anybody counts; zero, the level alone, elsewhere."""
    count = np.asarray(count)
    return np.asarray(np.where(count > 0.0, sums / np.where(count > 0.0, count, 1.0), 0.0))
