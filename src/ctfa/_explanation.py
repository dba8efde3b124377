"""Why targets were merged: the evidence of every merge, in numbers and in words."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ctfa.core.gains import Gain
from ctfa.core.history import MergeHistory
from ctfa.core.members import MergeGain
from ctfa.core.partition import Partition
from ctfa.core.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class MergeEvidence:
    """What Phase I knew when it merged, target by target; in squared units of targets as scaled."""

    history: MergeHistory
    partition: Partition
    names: Sequence[str]
    merges: list[MergeSummary]
    gain: Gain  # of each target's group over its own model
    max_loss: float
    guarded: bool
    standardised: bool  # whether a unit of gain is a target's variance

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
        return {name: [getattr(row, name) for row in rows] for name in MergeRow._fields}

    def row(self, step: int) -> MergeRow:
        """One merge."""
        merge, loss = self.merges[step], float(self.history.loss[step])
        first, second = self.sides(step)
        f = merge.f_statistic
        return MergeRow(
            step,
            self._named(first),
            self._named(second),
            loss,
            # Judged on rows left out there is no F of its own: the loss is one, from break-even.
            1.0 + loss * (merge.f_star - 1.0) if np.isnan(f) else f,
            merge.f_star,
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

    def _named(self, members: IntArray) -> tuple[str, ...]:
        return tuple(self.names[i] for i in np.sort(members))


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
    """One merge and its evidence; gains in squared units of the targets as scaled."""

    step: int
    group: tuple[str, ...]
    joined: tuple[str, ...]
    loss: float
    f_statistic: float
    f_star: float
    gain: float  # predicted, of all members together
    gain_error: float
    worst_gain: float  # of the member that gains least
    losers: tuple[str, ...]  # members predicted to lose


class Refusal(NamedTuple):
    """The nearest candidate that a group did not take, and why."""

    candidate: tuple[str, ...]
    loss: float
    reason: str


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why a target is where it is: print it."""

    target: str
    members: tuple[str, ...]
    merges: tuple[MergeRow, ...]
    gain: float  # predicted, over a model of its own
    gain_error: float
    trust: float
    max_loss: float
    refusal: Refusal
    together: dict[str, float] | None  # co-clustering with each member, once computed
    standardised: bool = True  # whether a unit of gain is a target's variance

    @property
    def expected_to_lose(self) -> bool:
        """Whether the target is predicted to be worse off than by itself."""
        return self.gain < 0.0

    def __str__(self) -> str:
        return "\n".join([*self._group_lines(), *self._merge_lines(), self._refusal_line()])

    def _group_lines(self) -> list[str]:
        if len(self.members) == 1:
            return [f"{self.target} stays by itself."]
        others = [name for name in self.members if name != self.target]
        lines = [
            f"{self.target} is predicted from the mean of {len(self.members)} targets, with "
            f"{_listed(others)}.",
            f"  Predicted gain over a model of its own: "
            f"{self._amount(self.gain, self.gain_error, 'its variance')}"
            f"{' (it is expected to LOSE)' if self.expected_to_lose else ''}; it trusts its group "
            f"{self.trust:.0%}.",
        ]
        if self.together is not None:
            weakest = min(others, key=self.together.__getitem__)
            lines.append(
                f"  Found together in {min(self.together[n] for n in others):.0%} of subsamples or "
                f"more (least with {weakest})."
            )
        return lines

    def _merge_lines(self) -> list[str]:
        lines = []
        for row in self.merges:
            lines.append(
                f"  merge {row.step}: {_mean(row.group)} with {_mean(row.joined)}: F = "
                f"{_number(row.f_statistic)}, break-even {_number(row.f_star)} (loss "
                f"{_number(row.loss)}, limit {_number(self.max_loss)}); predicted gain "
                f"{self._amount(row.gain, row.gain_error, 'a variance')} in all."
            )
            if row.losers:
                lines.append(f"    predicted to lose by it: {_listed(row.losers)}.")
        return lines

    def _refusal_line(self) -> str:
        if not self.refusal.candidate:
            return f"  Nobody was refused: {self.refusal.reason}."
        return (
            f"  Nearest refused: {_mean(self.refusal.candidate)}, loss "
            f"{_number(self.refusal.loss)} above the limit {_number(self.max_loss)}: "
            f"{self.refusal.reason}."
        )

    def _amount(self, value: float, error: float, whole: str) -> str:
        if self.standardised:
            return f"{100 * value:+.1f} ± {100 * error:.1f} % of {whole}"
        return f"{value:+.3g} ± {error:.2g} in squared units of the targets"


def explain(
    evidence: MergeEvidence, target: int, trust: FloatArray, together: FloatArray | None
) -> Explanation:
    """Put together what is known of one target."""
    names, group = evidence.names, int(evidence.partition.labels[target])
    members = evidence.partition.groups[group]
    return Explanation(
        names[target],
        tuple(names[i] for i in members),
        tuple(evidence.row(step) for step in evidence.steps_of(target).tolist()),
        float(evidence.gain.value[target]),
        float(evidence.gain.standard_error[target]),
        float(trust[target]),
        evidence.max_loss,
        _refusal(evidence, group),
        None if together is None else {names[i]: float(together[target, i]) for i in members},
        evidence.standardised,
    )


def co_clustering(evidence: MergeEvidence, together: FloatArray) -> list[float]:
    """Mean share of subsamples in which the two sides of each merge are found together."""
    shares = []
    for step in range(len(evidence.merges)):
        first, second = evidence.sides(step)
        shares.append(float(together[np.ix_(first, second)].mean()))
    return shares


def _refusal(evidence: MergeEvidence, group: int) -> Refusal:
    history = evidence.history
    leader = evidence.leader(group)
    candidate, loss = int(history.refused[leader]), float(history.refused_loss[leader])
    if candidate < 0:
        if not evidence.history.n_comparisons:
            return Refusal((), np.inf, "no two targets were compared")
        if evidence.partition.n_groups == 1:
            return Refusal((), np.inf, "every target is in this group")
        if evidence.guarded:
            return Refusal((), np.inf, "every other merge would make a member lose")
        return Refusal((), np.inf, "it has no neighbour left to ask")
    theirs = evidence.partition.groups[int(evidence.partition.labels[candidate])]
    return Refusal(
        tuple(evidence.names[i] for i in theirs),
        loss,
        "the features predict the difference of the two too well to give it up",
    )


def as_pandas(columns: dict[str, Any], what: str) -> Any:
    """A pandas DataFrame."""
    try:
        pandas = importlib.import_module("pandas")
    except ImportError as error:
        raise ImportError(f"{what} is a data frame and needs pandas: pip install pandas") from error
    return pandas.DataFrame(columns)


def _mean(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"mean({_listed(names)})"


def _listed(names: Sequence[str], at_most: int = 6) -> str:
    shown = list(names[:at_most])
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _number(value: float) -> str:
    """Two decimals; scans write an infinite loss as the largest number there is."""
    return f"{value:.2f}" if abs(value) < 1e6 else "inf" if value > 1e300 else f"{value:.2g}"
