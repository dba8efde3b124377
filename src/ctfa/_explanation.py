"""Why targets were merged: the evidence of every merge, in numbers and in words."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ctfa.core.gains import Gain
from ctfa.core.history import MergeHistory
from ctfa.core.members import MergeGain
from ctfa.core.partition import Partition
from ctfa.core.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class MergeEvidence:
    """What Phase I knew when it merged, target by target; in variance units of scaled targets."""

    history: MergeHistory
    partition: Partition
    names: Sequence[str]
    merges: list[MergeGain]
    gain: Gain  # of each target's group over its own model
    max_loss: float
    guarded: bool

    def columns(self) -> dict[str, Any]:
        """One list a column, one entry a merge."""
        rows = [self.row(step) for step in range(len(self.merges))]
        return {name: [getattr(row, name) for row in rows] for name in MergeRow._fields}

    def row(self, step: int) -> MergeRow:
        """One merge."""
        merge, loss = self.merges[step], float(self.history.loss[step])
        n_first = self.n_before(step)
        losers = merge.members[merge.gain.value < 0.0]
        f = merge.f_statistic
        return MergeRow(
            step,
            self._named(merge.members[:n_first]),
            self._named(merge.members[n_first:]),
            loss,
            # Judged on rows left out there is no F of its own: the loss is one, from break-even.
            1.0 + loss * (merge.f_star - 1.0) if np.isnan(f) else f,
            merge.f_star,
            float(merge.total.value),
            float(merge.total.standard_error),
            float(merge.gain.value.min()),
            self._named(losers),
        )

    def leader(self, group: int) -> int:
        """The slot by which a final group is known."""
        members = self.partition.groups[group]
        gone = np.isin(members, self.history.other)
        return int(members[~gone][0])

    def n_before(self, step: int) -> int:
        """Members of the block just before a merge; they come first."""
        earlier = np.flatnonzero(self.history.block[:step] == self.history.block[step])
        return int(self.history.size[earlier[-1]]) if earlier.size else 1

    def _named(self, members: IntArray) -> tuple[str, ...]:
        return tuple(self.names[i] for i in np.sort(members))


class MergeRow(NamedTuple):
    """One merge and its evidence; gains in variance units of the scaled targets."""

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
            f"  Predicted gain over a model of its own: {_percent(self.gain, self.gain_error)} of "
            f"its variance{' (it is expected to LOSE)' if self.expected_to_lose else ''}; it "
            f"trusts its group {self.trust:.0%}.",
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
                f"{row.f_statistic:.2f}, break-even {row.f_star:.2f} (loss {row.loss:.2f}, limit "
                f"{self.max_loss:.2f}); predicted gain "
                f"{_percent(row.gain, row.gain_error)} of a variance in all."
            )
            if row.losers:
                lines.append(f"    predicted to lose by it: {_listed(row.losers)}.")
        return lines

    def _refusal_line(self) -> str:
        if not self.refusal.candidate:
            return f"  Nobody was refused: {self.refusal.reason}."
        return (
            f"  Nearest refused: {_mean(self.refusal.candidate)}, loss {self.refusal.loss:.2f} "
            f"above the limit {self.max_loss:.2f}: {self.refusal.reason}."
        )


def explain(
    evidence: MergeEvidence, target: int, trust: FloatArray, together: FloatArray | None
) -> Explanation:
    """Put together what is known of one target."""
    names, group = evidence.names, int(evidence.partition.labels[target])
    members = evidence.partition.groups[group]
    steps = [k for k, merge in enumerate(evidence.merges) if target in merge.members]
    return Explanation(
        names[target],
        tuple(names[i] for i in members),
        tuple(evidence.row(step) for step in steps),
        float(evidence.gain.value[target]),
        float(evidence.gain.standard_error[target]),
        float(trust[target]),
        evidence.max_loss,
        _refusal(evidence, group),
        None if together is None else {names[i]: float(together[target, i]) for i in members},
    )


def co_clustering(evidence: MergeEvidence, together: FloatArray) -> list[float]:
    """Mean share of subsamples in which the two sides of each merge are found together."""
    shares = []
    for step, merge in enumerate(evidence.merges):
        first, second = np.split(merge.members, [evidence.n_before(step)])
        shares.append(float(together[np.ix_(first, second)].mean()))
    return shares


def _refusal(evidence: MergeEvidence, group: int) -> Refusal:
    history = evidence.history
    leader = evidence.leader(group)
    candidate, loss = int(history.refused[leader]), float(history.refused_loss[leader])
    if candidate < 0:
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


def _percent(value: float, error: float) -> str:
    return f"{100 * value:+.1f} ± {100 * error:.1f} %"
