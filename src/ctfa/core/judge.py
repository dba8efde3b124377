"""A criterion applied to a space, with the limits that make a merge acceptable."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np

from ctfa.core import backend, progress
from ctfa.core.criteria import Loss, criterion_of
from ctfa.core.graph import Neighbours, Separation
from ctfa.core.history import Ledger
from ctfa.core.spaces.base import MergeSpace
from ctfa.core.types import BoolArray, FloatArray, IntArray

#: The loss of a merge that no finite limit accepts.
LARGEST = float(np.finfo(np.float64).max)
#: The two blocks of a merge and its loss; NaN where that is not known yet.
Merge: TypeAlias = tuple[int, int, float]
#: Candidates asked about at once: few at first, because the first of them is often accepted.
FIRST_CHUNK, LARGEST_CHUNK = 64, 4096


class Judge:
    """A criterion applied to a space, with the limits that make a merge acceptable."""

    def __init__(
        self,
        space: MergeSpace,
        criterion: Loss,
        limit: float,
        min_correlation: float,
        separation: Separation | None = None,
        neighbours: Neighbours | None = None,
    ) -> None:
        self.space, self.criterion, self.limit = space, criterion_of(criterion), limit
        self.min_correlation = min_correlation
        self.ledger = Ledger(space.n_variables)
        self.width = FIRST_CHUNK
        #: Whether some pairs correlate too little to be asked, and whether any two may be.
        self.has_floor = min_correlation > -1.0
        #: Blocks that may not merge, for other reasons than loss.
        self.separation = separation
        self.asks_everybody = not (space.is_guarded or self.has_floor or separation is not None)
        #: About how many pairs will be asked.
        self.n_pairs = space.n_variables * (space.n_variables - 1) // 2
        if neighbours is not None:
            self.n_pairs = neighbours.n_edges
        #: What answers instead of the space, if anything does.
        self._asked = backend.questions(space, self.criterion, n_pairs=self.n_pairs)
        #: What ranks the pairs of all blocks, if anything does and any two may be asked.
        self.ranked: backend.RankedQuestions | None = None
        if self.asks_everybody and hasattr(self._asked, "rank_by"):
            self.ranked = self._asked

    def accepts(self, losses: FloatArray) -> BoolArray:
        """Whether each loss is within the limit.

        An infinite limit accepts every loss but no pair that may not be asked.
        """
        return np.asarray((losses <= self.limit) & (losses < np.inf))

    def may_meet(self, block: int | IntArray, others: IntArray) -> IntArray:
        """Positions of the others that correlate enough, and whose merge hurts no member."""
        if self.asks_everybody:
            return np.arange(others.size)
        meets = np.ones(others.size, dtype=bool)
        if self.separation is not None:
            meets = self.separation.allows(block, others)
        if self.has_floor:
            meets &= self.space.correlation(block, others) >= self.min_correlation
        if self.space.is_guarded:
            allows = self.space.allows
            if not isinstance(block, np.ndarray):
                return np.flatnonzero(meets & allows(block, others))
            for one in np.unique(block).tolist():
                pairs = block == one
                meets[pairs] &= allows(one, others[pairs])
        return np.flatnonzero(meets)

    def losses(self, block: int | IntArray, others: IntArray) -> FloatArray:
        """Loss of each merge; the largest number for an infinite one, which any limit refuses.

        Infinity itself is kept for pairs that may not be asked, not even by an infinite limit.
        Between questions everything merged is recorded, so this is where a search may stop.
        """
        progress.go_on(self.ledger)
        if self._asked is not None:
            losses = self._asked.losses(block, others)
        else:
            losses = self.criterion.loss(self.space.evidence(block, others))
        return np.asarray(np.minimum(losses, LARGEST), dtype=float)

    def loss(self, block: int, other: int) -> float:
        """Loss of one merge."""
        return float(self.losses(block, np.array([other]))[0])

    def all_losses(self, block: int | IntArray, others: IntArray) -> FloatArray:
        """Loss of each merge, infinite where the pair may not be asked."""
        if self.asks_everybody:
            return self.losses(block, others)
        meets = self.may_meet(block, others)
        if meets.size == others.size:
            return self.losses(block, others)
        losses = np.full(others.size, np.inf)
        if meets.size:
            asked = block[meets] if isinstance(block, np.ndarray) else block
            losses[meets] = self.losses(asked, others[meets])
        return losses

    def merge(
        self,
        block: int,
        other: int,
        loss: float,
        neighbours: Neighbours | None,
        *,
        forget: bool = True,
    ) -> None:
        """Merge in the space, the graph and the ledger, which may ``forget`` refusals."""
        progress.go_on(self.ledger)  # a scan that knew the answer has not asked since the last
        (self._asked or self.space).merge(block, other)
        self.ledger.accept(block, other, loss, forget=forget)
        if neighbours is not None:
            neighbours.merge(block, other)
        if self.separation is not None:
            self.separation.merge(block, other)

    @property
    def left(self) -> BoolArray:
        """Which blocks are still there."""
        if self.separation is None:
            return np.ones(self.space.n_variables, dtype=bool)
        return ~self.separation.gone

    def first_acceptable(
        self, block: int, queue: IntArray, width: int | None = None
    ) -> tuple[float, IntArray] | None:
        """Loss of the first candidate in the queue that is accepted, and its position.

        Behind it the positions of others in sight that would be accepted if they were asked now.
        """
        width = self.width if width is None else width
        for chunk in _chunks(queue.size, width):
            others = queue[chunk]
            meets = self.may_meet(block, others)
            if meets.size < others.size:
                others = others[meets]
            if not others.size:
                continue
            # In one vector, not one by one: the first acceptable candidate is the same, and a
            # refusal costs nothing extra.
            losses = self.losses(block, others)
            accepted = np.flatnonzero(losses <= self.limit)
            if accepted.size:
                hit = int(accepted[0])
                self.ledger.n_comparisons += hit + 1
                self.ledger.refuse(block, others[:hit], losses[:hit])
                return float(losses[hit]), chunk.start + meets[accepted]
            self.ledger.n_comparisons += others.size
            self.ledger.refuse(block, others, losses)
        return None


def _chunks(n_candidates: int, width: int) -> Iterator[slice]:
    start = 0
    while start < n_candidates:
        yield slice(start, min(start + width, n_candidates))
        start += width
        width = min(2 * width, LARGEST_CHUNK)
