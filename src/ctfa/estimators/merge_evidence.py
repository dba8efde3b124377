"""What was known when targets were merged, in numbers: one row per merge."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from ctfa._threads import one_thread
from ctfa.core.criteria import TARGET_CRITERIA, Criterion, criterion_of
from ctfa.core.gains import Gain, gain, replay
from ctfa.core.history import MergeHistory
from ctfa.core.partition import Partition
from ctfa.core.scans import SCANS
from ctfa.core.series import Series
from ctfa.core.spaces.pooled import PooledSpace
from ctfa.core.tasks.base import Rule
from ctfa.core.tasks.own_inputs import OwnFits, fit_own, gain_over_single, gains_along
from ctfa.core.types import FloatArray, IntArray

#: Up to so many targets with inputs of their own it is worked out what every merge does to every
#: member.
MEMBER_BY_MEMBER = 1000


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

    @classmethod
    def of(
        cls,
        aggregator: Any,
        names: Sequence[str],
        merges: list[MergeSummary],
        gain: Gain | None = None,
        *,
        gappy: bool = False,
    ) -> Self:
        """Put together what is known of the merges of Phase I; no gain is one not worked out."""
        history, partition = aggregator.history_, aggregator.partition_
        unknown = np.full(partition.n_variables, np.nan)
        terms = Terms(
            aggregator.criterion,
            aggregator.scan,
            aggregator.max_loss_,
            guarded=aggregator.guard is not None,
            standardised=aggregator.scale == "standard",
            gappy=gappy,
            chosen=aggregator.cv_curve_ is not None,
        )
        return cls(
            history,
            partition,
            names,
            merges,
            Gain(unknown, unknown) if gain is None else gain,
            getattr(aggregator, "signs_", np.ones(partition.n_variables)),
            terms,
        )

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
    def of(
        cls,
        total: Gain,
        members: IntArray,
        gains: FloatArray,
        f_statistic: float = np.nan,
        f_star: float = np.nan,
    ) -> MergeSummary:
        """Reduce what each member gains to what is told of a merge."""
        worst = float(gains.min()) if gains.size else np.nan
        return cls(total, worst, members[gains < 0.0], f_statistic, f_star)


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


class PooledEvidence(NamedTuple):
    """Tasks as they were before any merge, and what gains are measured in."""

    space: PooledSpace
    weight: FloatArray  # of each task in the total risk
    unit: float  # squared; one for units of the target

    def merges(self, history: MergeHistory) -> list[MergeSummary]:
        """Every merge again, with what it was predicted to gain."""
        space = copy.deepcopy(self.space)
        members = [np.array([task]) for task in range(space.n_variables)]
        summaries = []
        for block, other in zip(history.block.tolist(), history.other.tolist(), strict=True):
            evidence = space.evidence(block, np.array([other]))
            total = gain(evidence)
            sides = space.side_gains(block, other)
            each = [
                side * self.weight[members[slot]] / self.unit
                for side, slot in zip(sides, (block, other), strict=True)
            ]
            members[block] = np.concatenate((members[block], members[other]))
            scaled = Gain(total.value[0] / self.unit, total.standard_error[0] / self.unit)
            f = float(np.asarray(evidence.difference.f_statistic)[0])
            f_star = float(np.asarray(evidence.f_star)[0])
            made = MergeSummary.of(scaled, members[block], np.concatenate(each), f, f_star)
            summaries.append(made)
            space.merge(block, other)
        return summaries

    def gains(self, partition: Partition) -> Gain:
        """Predicted gain of every task by its group, worked out one by one; NaN where unknown."""
        groups = partition.groups
        each = [self.gain_of(t, groups[group]) for t, group in enumerate(partition.labels)]
        value, error = np.array(each, dtype=np.float64).T
        return Gain(np.where(np.isfinite(value), value, np.nan), error)

    def gain_of(self, task: int, members: IntArray) -> tuple[float, float]:
        """What a task gains by the others of its group, and the standard error of that merge.

        Infinite where it has no degrees of freedom of its own: alone it cannot be fitted.
        """
        if members.size == 1:
            return 0.0, 0.0
        pair = self.space.one_by_one(members, task)
        if not pair.is_estimable[0]:
            return np.inf, 0.0
        total = gain(pair.evidence(0, np.array([1])))
        value = pair.side_gains(0, 1)[0] * pair.weight[0]
        # The error of the merge is mostly that of its smaller side.
        return float(value / self.unit), float(total.standard_error[0] / self.unit)


@one_thread()
def own_evidence(
    rule: Rule, series: Series, names: Sequence[str], aggregator: Any, aggregate: str
) -> MergeEvidence:
    """Go through the merges again, and see what each target has of its group.

    For targets with inputs of their own; the series in the units in which they were merged.
    """
    # By the fits that merges were judged by, whatever the regressor.
    rule = replace(rule, penalised=rule.solver == "ridge")
    return MergeEvidence.of(
        aggregator,
        names,
        _merges(rule, series, aggregator.history_, aggregate) if len(aggregator.history_) else [],
        gain_over_single(rule, aggregate, series, aggregator.partition_),
        # Members that share coefficients have each its own rows, whatever the others lack.
        gappy=aggregate == "mean" and not series.is_complete,
    )


def _merges(
    rule: Rule, series: Series, history: MergeHistory, aggregate: str
) -> list[MergeSummary]:
    nobody = np.empty(0, dtype=np.intp), np.empty(0)
    each: Iterable[tuple[IntArray, FloatArray]] = [nobody] * len(history)
    if series.n_tasks <= MEMBER_BY_MEMBER:
        each = gains_along(fit_own(rule, series, aggregate), history)
    if rule.solver == "ridge":
        # No F: what a merge gains is what its members do, as cross-validation judges them.
        shares = np.ones(series.n_tasks) if series.task_weights is None else series.task_weights
        return [
            MergeSummary.of(Gain(_sum(gains * shares[who]), np.asarray(np.nan)), who, gains)
            for who, gains in each
        ]
    replayed = replay(OwnFits(rule, series, aggregate).space(), history)
    return [
        MergeSummary.of(
            Gain(replayed.gain[step], replayed.standard_error[step]),
            who,
            gains,
            float(replayed.f_statistic[step]),
            float(replayed.f_star[step]),
        )
        for step, (who, gains) in enumerate(each)
    ]


def _sum(gains: FloatArray) -> FloatArray:
    return np.asarray(gains.sum() if gains.size else np.nan)
