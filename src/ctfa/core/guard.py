"""No member is merged where it is predicted to lose."""

from __future__ import annotations

import numpy as np

from ctfa.core.members import MemberRisk
from ctfa.core.types import BoolArray, FloatArray, IntArray

#: A loss smaller than this, relative to the risks compared, is rounding.
ROUNDING = 1e-12
#: Rounding of a target, relative to what inputs explain of it.
DIGITS = 16.0 * float(np.finfo(np.float64).eps)


class MemberGuard:
    """Gains of every member of two blocks, kept current as blocks merge.

    A member's risk under a block's mean is linear in one table (members by blocks) and one
    quadratic form (blocks by blocks), so the worst gain of a merge needs look-ups only.
    """

    def __init__(self, risk: MemberRisk, *, apart: bool = False) -> None:
        """``apart``: of what tells the targets apart alone, which nothing else depends on."""
        # What tells copies apart is the last digits of the targets themselves.
        self._digit = DIGITS * float(np.sqrt(np.abs((risk.own * risk.model).sum(axis=1)).max()))
        risk = risk.apart() if apart else risk
        self._own = risk.own @ risk.model.T  # a member and the sum of a block
        self._cost = (risk.model * risk.weight) @ risk.model.T  # two sums of blocks
        self._size = np.ones(risk.n_targets)
        self._slot = np.arange(risk.n_targets)  # the block of each member

    def allows(self, block: int, others: IntArray, turn: FloatArray) -> BoolArray:
        """Whether no member of either side loses, the others turned round where told."""
        a, b = self._size[block], self._size[others]
        mine, theirs = self._cost[block, block], self._cost[others, others]
        merged = (mine + 2.0 * turn * self._cost[block, others] + theirs) / (a + b) ** 2
        members = np.flatnonzero(self._slot == block)
        at_home = self._own[members, block][:, None]
        change = (at_home + turn * self._own[np.ix_(members, others)]) / (a + b) - at_home / a
        worst_here = 2.0 * change.min(axis=0) - merged + mine / a**2
        worst_there = 2.0 * self._worst_there(block, others, turn) - merged + theirs / b**2
        risks = mine / a**2 + theirs / b**2
        slack = ROUNDING * risks + self._digit * (2.0 * np.sqrt(np.abs(risks)) + self._digit)
        return np.asarray((worst_here >= -slack) & (worst_there >= -slack))

    def merge(self, block: int, others: IntArray, turn: FloatArray) -> None:
        """Take note that the others went into the block."""
        for other, sign in zip(others.tolist(), turn.tolist(), strict=True):
            members = self._slot == other
            if sign < 0.0:
                self._own[members] *= -1.0
                self._own[:, other] *= -1.0
                self._cost[other] *= -1.0
                self._cost[:, other] *= -1.0
            self._own[:, block] += self._own[:, other]
            self._cost[block] += self._cost[other]
            self._cost[:, block] += self._cost[:, other]
            self._size[block] += self._size[other]
            self._slot[members] = block

    def _worst_there(self, block: int, others: IntArray, turn: FloatArray) -> FloatArray:
        """Smallest change of the linear part among the members of each of the others."""
        position = np.full(self._size.size, -1)
        position[others] = np.arange(others.size)
        asked = position[self._slot]
        members = np.flatnonzero(asked >= 0)
        at = asked[members]
        home, size = self._slot[members], self._size[block] + self._size[others]
        at_home = self._own[members, home]
        change = (at_home + turn[at] * self._own[members, block]) / size[at]
        change -= at_home / self._size[home]
        worst = np.full(others.size, np.inf)
        np.minimum.at(worst, at, change)
        return worst
