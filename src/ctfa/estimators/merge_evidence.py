"""What was known when targets were merged, in numbers: one row a merge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ctfa.core.criteria import TARGET_CRITERIA, Criterion, criterion_of
from ctfa.core.gains import Gain
from ctfa.core.history import MergeHistory
from ctfa.core.members import MergeGain
from ctfa.core.partition import Partition
from ctfa.core.scans import SCANS
from ctfa.core.types import FloatArray, IntArray


class Terms(NamedTuple):
    """The terms on which targets were merged, as far as words depend on them."""

    criterion: Any
    scan: str
    max_loss: float
    guarded: bool
    standardised: bool  # whether a unit of gain is a target's variance
    gappy: bool  # whether targets have missing values
    chosen: bool = False  # whether the limit was chosen on held-out rows

    @property
    def facts(self) -> Criterion:
        """What is known of the criterion."""
        return criterion_of(self.criterion, TARGET_CRITERIA)

    @property
    def asks_once(self) -> bool:
        """Whether refusals are of the time of asking and not of the final groups."""
        return SCANS[self.scan].asks_once


@dataclass(frozen=True, eq=False)
class MergeEvidence:
    """What Phase I knew when it merged, target by target; in squared units of targets as scaled."""

    history: MergeHistory
    partition: Partition
    names: Sequence[str]
    merges: list[MergeSummary]
    gain: Gain  # of each target's group over its own model
    signs: FloatArray  # of each target in its group's mean
    terms: Terms

    @cached_property
    def order(self) -> IntArray:
        """Targets in an order in which both sides of each merge are side by side."""
        return self.history.leaf_order()

    @cached_property
    def bounds(self) -> IntArray:
        """Where in that order each merge has its first side, its second side and its end."""
        start = np.argsort(self.order)
        first, second = start[self.history.block], start[self.history.other]
        return np.stack((first, second, first + self.history.size), axis=1)

    def sides(self, step: int) -> tuple[IntArray, IntArray]:
        """Members of the block and those of the other, just before a merge."""
        first, second, end = self.bounds[step].tolist()
        return self.order[first:second], self.order[second:end]

    def steps_of(self, target: int) -> IntArray:
        """Merges that a target took part in."""
        position = int(np.flatnonzero(self.order == target)[0])
        first, end = self.bounds[:, 0], self.bounds[:, 2]
        return np.flatnonzero((first <= position) & (position < end))

    def columns(self) -> dict[str, Any]:
        """One list a column, one entry a merge."""
        rows = [self.row(step) for step in range(len(self.merges))]
        names = (*MergeRow._fields, "variance_saved", "bias_paid")
        return {name: [getattr(row, name) for row in rows] for name in names}

    def row(self, step: int) -> MergeRow:
        """One merge."""
        merge, loss = self.merges[step], float(self.history.loss[step])
        first, second = self.sides(step)
        # A penalised fit has no F, and so none that breaks even.
        no_f = bool(np.isnan(merge.f_statistic))
        return MergeRow(
            step,
            self._named(first),
            self._named(second),
            loss,
            merge.f_statistic,
            np.nan if no_f else merge.f_star,
            float(merge.total.value),
            float(merge.total.standard_error),
            merge.worst,
            self._named(merge.losers),
        )

    def leader(self, group: int) -> int:
        """The slot by which a final group is known."""
        members = self.partition.groups[group]
        gone = np.isin(members, self.history.other)
        return int(members[~gone][0])

    def signed(self, target: int) -> str:
        """Name of a target as it enters its group's mean: with a minus if it is turned round."""
        return f"-{self.names[target]}" if self.signs[target] < 0.0 else self.names[target]

    def _named(self, members: IntArray) -> tuple[str, ...]:
        return tuple(self.signed(i) for i in np.sort(members).tolist())


class MergeSummary(NamedTuple):
    """What one merge saves, without an entry for each member."""

    total: Gain
    worst: float  # gain of the member that gains least
    losers: IntArray
    f_statistic: float
    f_star: float

    @classmethod
    def of(cls, merge: MergeGain) -> MergeSummary:
        """Reduce a merge to what is told of it."""
        losers = merge.members[merge.gain < 0.0]
        return cls(merge.total, float(merge.gain.min()), losers, merge.f_statistic, merge.f_star)


class MergeRow(NamedTuple):
    """One merge and its evidence; gains in squared units of the targets as scaled.

    Targets that are turned round in their group's mean have a minus before their name.
    """

    step: int
    group: tuple[str, ...]
    joined: tuple[str, ...]
    loss: float
    f_statistic: float  # NaN for a penalised fit, which has none
    f_star: float
    gain: float  # predicted, of all members together
    gain_error: float
    worst_gain: float  # of the member that gains least
    losers: tuple[str, ...]  # members predicted to lose

    @property
    def variance_saved(self) -> float:
        """What the merge saves for having one model fewer to estimate, over all its members."""
        return (self.f_star - 1.0) * self._unit

    @property
    def bias_paid(self) -> float:
        """What the merge costs because its two sides differ; below zero by chance.

        The gain is the variance saved less this. By the risk rule the loss of a merge is the bias
        paid for each unit of variance saved.
        """
        return (self.f_statistic - 1.0) * self._unit

    @property
    def _unit(self) -> float:
        # The gain is so many times F_star - F; one that breaks even exactly does not tell.
        apart = self.f_star - self.f_statistic
        return self.gain / apart if apart else float("nan")


def co_clustering(evidence: MergeEvidence, together: FloatArray) -> list[float]:
    """Mean share of subsamples in which the two sides of each merge are found together."""
    shares = []
    for step in range(len(evidence.merges)):
        first, second = evidence.sides(step)
        shares.append(float(together[np.ix_(first, second)].mean()))
    return shares
