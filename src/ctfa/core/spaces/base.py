"""What a scan may ask of a space."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from ctfa.core.fit import Evidence
from ctfa.core.types import BoolArray, FloatArray, IntArray


class MergeSpace(Protocol):
    """Variables that can be merged into blocks, and what each merge would do.

    A block is known by the index of one of its members, its slot. Three laws hold, and
    ``ctfa.testing.check_space`` tests them: asking changes nothing; asking about many equals
    asking one by one; merging then asking equals building a new space from the merged means and
    their sizes, then asking. A space that derives from this one has nothing to prepare ahead and
    nothing to release, unless it says otherwise; it says how one other block is merged, or several.
    """

    n_variables: int
    #: Whether a merge leaves every answer that does not involve the merged block as it was.
    merge_is_local: bool = True
    #: Whether it can also say what it would answer after merges that are only predicted.
    foresees: bool = False
    #: Whether it refuses some merges whatever they cost.
    is_guarded: bool = False

    def evidence(self, block: int | IntArray, others: IntArray) -> Evidence:
        """Fits before and after merging the block with each of the others, or pair by pair."""

    def correlation(self, block: int | IntArray, others: IntArray) -> FloatArray:
        """Signed correlation of the current means; zero where one of them is constant."""

    def merge(self, block: int, other: int) -> None:
        """Merge; the result keeps the slot ``block``. The one verb that changes the space."""
        self.absorb(block, np.array([other]))

    def expect(self, blocks: IntArray, others: IntArray) -> None:
        """Be told which blocks will be asked about next, against whom. Changes no answer."""
        return

    def retire(self, block: int) -> None:
        """Be told that a block is finished and will not be asked about again."""
        return

    def mean_correlation(self) -> FloatArray:
        """Average correlation of each variable with all of them, before any merge."""
        everyone = np.arange(self.n_variables)
        return np.array([self.correlation(k, everyone).mean() for k in range(self.n_variables)])

    def absorb(self, block: int, others: IntArray) -> None:
        """Merge several into one block at once: the same as one after the other."""
        for other in others.tolist():
            self.merge(block, other)

    def foresee(self, block: int, sequence: IntArray, others: IntArray) -> Evidence:
        """Evidence against the others, row k after the block absorbed the first k of a sequence."""
        raise TypeError(f"{type(self).__name__} foresees nothing: ask it after the merges.")

    def allows(self, block: int, others: IntArray) -> BoolArray:
        """Whether the block may merge with each of the others."""
        return np.ones(others.size, dtype=bool)


def correlations(products: FloatArray, first: FloatArray, second: FloatArray) -> FloatArray:
    """Correlation by inner products and squared lengths; zero where one of the two is constant."""
    scale = np.sqrt(first * second)
    return np.where(scale > 0.0, products / np.where(scale > 0.0, scale, 1.0), 0.0)


def unit_vectors(vectors: FloatArray, squares: FloatArray) -> FloatArray:
    """Vectors of these squared lengths at unit length; zero where they are zero."""
    length = np.sqrt(squares)
    return np.asarray(vectors / np.where(length > 0.0, length, np.inf)[..., None])
