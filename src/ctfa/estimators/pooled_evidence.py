"""Why tasks with rows of their own were pooled: the evidence of every merge."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from ctfa.core.gains import Gain, gain
from ctfa.core.history import MergeHistory
from ctfa.core.partition import Partition
from ctfa.core.spaces import PooledSpace
from ctfa.core.types import FloatArray, IntArray
from ctfa.estimators.explanation import Explanation, explain, listed
from ctfa.estimators.merge_evidence import MergeEvidence, MergeSummary


class PooledEvidence(NamedTuple):
    """Tasks as they were before any merge, and what gains are measured in."""

    space: PooledSpace
    weight: FloatArray  # of each task in the total risk
    unit: float  # squared; one for units of the target

    def merges(self, history: MergeHistory) -> list[MergeSummary]:
        """Every merge again, with what it was predicted to gain."""
        space = copy.deepcopy(self.space)
        members = [[task] for task in range(space.n_variables)]
        summaries = []
        for block, other in zip(history.block.tolist(), history.other.tolist(), strict=True):
            evidence = space.evidence(block, np.array([other]))
            total = gain(evidence)
            sides = space.side_gains(block, other)
            own = {
                task: side * float(self.weight[task]) / self.unit
                for side, slot in zip(sides, (block, other), strict=True)
                for task in members[slot]
            }
            losers = np.array([task for task, value in own.items() if value < 0.0], dtype=np.intp)
            scaled = Gain(total.value[0] / self.unit, total.standard_error[0] / self.unit)
            f = float(np.asarray(evidence.difference.f_statistic)[0])
            f_star = float(np.asarray(evidence.f_star)[0])
            summaries.append(MergeSummary(scaled, min(own.values()), losers, f, f_star))
            space.merge(block, other)
            members[block] += members[other]
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


@dataclass(frozen=True, eq=False)
class PooledExplanation(Explanation):
    """Why a task with rows of its own is where it is: print it.

    ``gain_error`` is of the task and the rest of its group together. It tells a loss from an even
    outcome; beside the gain of the task alone it is not shown.
    """

    made_by: ClassVar[str] = "pool"

    def _group_lines(self) -> list[str]:
        if len(self.members) == 1:
            return [f"{self.target} stays by itself."]
        others = [name for name in self.members if name != self.target]
        if np.isinf(self.gain):
            gained = "  It has too few rows for slopes of its own"
        else:
            amount = self._amount(self.gain, np.nan)
            gained = f"  Predicted gain over slopes of its own: {amount}{self._verdict()}"
        trusts = f"; it trusts its group {100 * self.trust:.0f} %" if self.shrunk else ""
        number = "1 other task" if len(others) == 1 else f"{len(others)} other tasks"
        return [
            f"{self.target} shares its slopes with {number}: {listed(others)}.",
            f"{gained}{trusts}.",
        ]

    def _amount(self, value: float, error: float, whole: str = "") -> str:
        # One unit for all tasks, whoever gains.
        return super()._amount(value, error, "the variance within tasks")


def explain_task(
    evidence: MergeEvidence, pooled: PooledEvidence, task: int, trust: FloatArray, *, shrunk: bool
) -> PooledExplanation:
    """Put together what is known of one task."""
    members = evidence.partition.groups[int(evidence.partition.labels[task])]
    value, error = pooled.gain_of(task, members)
    known = explain(evidence, task, trust, None, shrunk=shrunk)
    reason = IN_WORDS_OF_TASKS.get(known.refusal.reason, known.refusal.reason)
    ours = {
        "gain": value,
        "gain_error": error,
        "refusal": known.refusal._replace(reason=reason),
    }
    return PooledExplanation(**(vars(known) | ours))


#: Reasons for refusals, as they read where tasks were pooled.
IN_WORDS_OF_TASKS = {
    "every target is in this group": "every task is in this group",
    "no two targets were compared": "no two tasks were compared",
    "the features predict the difference of the two too well to give it up": (
        "their slopes differ by more than pooling saves"
    ),
}
