"""What a scan may ask of a space."""

from __future__ import annotations

from typing import Protocol

from ctfa.core.fit import Evidence
from ctfa.core.types import BoolArray, FloatArray, IntArray


class MergeSpace(Protocol):
    """Variables that can be merged into blocks, and what each merge would do.

    A block is known by the index of one of its members, its slot. Three laws hold, and
    ``ctfa.testing.check_space`` tests them: asking changes nothing; asking about many equals
    asking one by one; merging then asking equals building a new space from the merged means and
    their sizes, then asking.
    """

    n_variables: int
    #: Whether a merge leaves every answer that does not involve the merged block as it was.
    merge_is_local: bool
    #: Whether this is a ``ForeseeingSpace``.
    foresees: bool
    #: Whether this is a ``GuardedSpace``.
    is_guarded: bool

    def evidence(self, block: int | IntArray, others: IntArray) -> Evidence:
        """Fits before and after merging the block with each of the others, or pair by pair."""

    def correlation(self, block: int | IntArray, others: IntArray) -> FloatArray:
        """Signed correlation of the current means; zero where one of them is constant."""

    def merge(self, block: int, other: int) -> None:
        """Merge; the result keeps the slot ``block``. The one verb that changes the space."""

    def expect(self, blocks: IntArray, others: IntArray) -> None:
        """Be told which blocks will be asked about next, against whom. Changes no answer."""

    def retire(self, block: int) -> None:
        """Be told that a block is finished and will not be asked about again."""

    def mean_correlation(self) -> FloatArray:
        """Average correlation of each variable with all of them, before any merge."""


class ForeseeingSpace(MergeSpace, Protocol):
    """A space that can also say what it would answer after merges that are only predicted."""

    def foresee(self, block: int, sequence: IntArray, others: IntArray) -> Evidence:
        """Evidence against the others, row k after the block absorbed the first k of a sequence."""

    def absorb(self, block: int, others: IntArray) -> None:
        """Merge several into one block at once: the same as one after the other."""


class GuardedSpace(MergeSpace, Protocol):
    """A space that refuses some merges whatever they cost."""

    def allows(self, block: int, others: IntArray) -> BoolArray:
        """Whether the block may merge with each of the others."""
