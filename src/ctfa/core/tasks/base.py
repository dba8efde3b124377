"""What any set of tasks can be asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from ctfa.core.criteria import TINY, Criterion
from ctfa.core.cut import without_rounding
from ctfa.core.graph import NO_WISHES, Wishes
from ctfa.core.history import MergeHistory
from ctfa.core.partition import Partition
from ctfa.core.spaces.base import MergeSpace
from ctfa.core.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Rule:
    """Checked options of Phase I: what a merge costs, which pairs are asked, and by which fits."""

    criterion: Criterion
    scan: str
    scale: str
    #: What judges: least squares, "ridge", or "refits": predictions of models without the row.
    solver: str = "ols"
    #: Penalties of ridge regression in the units of the inputs; None for those of the likelihood.
    penalties: tuple[float, ...] | None = None
    judge: Any = None  # the regressor that judges by refits
    levels: bool = False  # whether groups serve members by levels on held-out rows
    flip: bool = False
    guarded: bool = False
    penalised: bool = False  # whether fits of own inputs, on held-out rows, are penalised
    tempers: tuple[Any, ...] = (0.0,)  # of levels, or shares of what tasks differ by
    graph: Any = None
    order: Any = "given"  # as it was given: found again from the rows of each problem
    random_state: Any = None
    wishes: Wishes = NO_WISHES

    def of(self, kept: IntArray) -> Rule:
        """The same for some of the tasks."""
        graph = None if self.graph is None else self.graph[kept][:, kept]
        return replace(self, graph=graph, wishes=self.wishes.of(kept))


class PathPoint(NamedTuple):
    """The groups at one value of ``max_loss``."""

    max_loss: float
    partition: Partition
    loss_interval: tuple[float, float]  # any value from the first up to the second gives the same
    signs: FloatArray | None = None  # of each target in its group's mean, where flips are allowed

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return self.partition.n_groups


class Fits(Protocol):
    """Every task fitted by itself, in the units that tasks are merged in."""

    @property
    def variance(self) -> float | None:
        """What losses in squared units are measured against; None: as their space says."""

    def space(self) -> MergeSpace:
        """A fresh space of these tasks."""

    def errors(self, points: Sequence[PathPoint], other: Any, tempers: Sequence[Any]) -> FloatArray:
        """Mean squared errors on other rows of the same tasks, ``(points, tempers)``."""


class Fold(NamedTuple):
    """Rows to learn from and rows to be judged by."""

    known: Any  # tasks, in the units that their rows give
    asked: Any  # the same tasks on other rows, as they were given
    kept: BoolArray | None = None  # which of the tasks these are; None for all


class Tasks(Protocol):
    """Rows of several tasks: one target each, with inputs in common or of their own."""

    @property
    def n_tasks(self) -> int:
        """How many there are."""

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Of tables that are factored whole, side by side; nothing where none is."""

    def fold(self, rule: Rule, *fold: Any, **known: Any) -> Fold | None:
        """Divide the rows; None where that leaves nothing to judge."""

    def fits(self, rule: Rule, aggregate: str) -> Fits:
        """Fit each by itself, as groups that serve their members in this way need it."""


def squared_errors(
    points: Sequence[PathPoint],
    serve: Callable[[PathPoint], Iterable[FloatArray]],
    true: FloatArray,
    weight: FloatArray,
    total: float | None = None,
    square: float | None = None,
) -> FloatArray:
    """Mean squared error of what groups serve their members with, ``(points, tempers)``.

    ``serve`` gives predictions of the true values, an array for each temper; they count by their
    weights, which sum to ``total`` in units of the errors. ``square`` is the mean square of the
    values as they were predicted, None for that of the true values: errors that its rounding tells
    apart are equal.
    """
    total = max(float(weight.sum()) if total is None else total, TINY)
    square = float((weight * true**2).sum()) / total if square is None else square
    found: dict[bytes, list[float]] = {}
    keys = []
    for point in points:
        signs = b"" if point.signs is None else point.signs.tobytes()
        keys.append(point.partition.labels.tobytes() + signs)
        if keys[-1] not in found:
            found[keys[-1]] = [
                float((weight * (true - served) ** 2).sum()) / total for served in serve(point)
            ]
    settled = dict(
        zip(found, without_rounding(np.array(list(found.values())), square), strict=True)
    )
    return np.array([settled[key] for key in keys])


def mean_of(sums: FloatArray, count: FloatArray | float) -> FloatArray:
    """Means where some row counts; zero, the level alone, elsewhere."""
    count = np.asarray(count)
    return np.asarray(np.where(count > 0.0, sums / np.where(count > 0.0, count, 1.0), 0.0))


def mean_by(
    index: IntArray, values: FloatArray, weights: FloatArray | None, n_tasks: int
) -> FloatArray:
    """Mean over the rows of each task; zero for tasks without any."""
    weight = np.ones(index.size) if weights is None else weights
    sums: FloatArray = np.bincount(index, weight * values, n_tasks).astype(float)
    return mean_of(sums, np.bincount(index, weight, n_tasks).astype(float))


def sides_of(history: MergeHistory) -> Iterator[tuple[IntArray, IntArray]]:
    """Members of the block and of the other of each merge, in the order in which merges came."""
    members = {slot: np.array([slot]) for slot in range(history.n_variables)}
    for block, other in zip(history.block.tolist(), history.other.tolist(), strict=True):
        first, second = members[block], members.pop(other)
        members[block] = np.concatenate((first, second))
        yield first, second
