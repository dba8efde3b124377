"""What a scan may ask of a space, and what two inner products of a target say about its fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

from ctfa.core.fit import Evidence, Fit
from ctfa.core.types import BoolArray, FloatArray, IntArray


class MergeSpace(Protocol):
    """Variables that can be merged into blocks, and what each merge would do.

    A block is known by the index of one of its members, its slot. Three laws hold, and
    ``ctfa.testing.check_space`` tests them: asking changes nothing; asking about many equals
    asking one by one; merging then asking equals building a new space from the merged means and
    their sizes, then asking. By default a derived space prepares nothing ahead and releases
    nothing; it defines ``merge`` or ``absorb``.

    Examples
    --------
    >>> import numpy as np
    >>> from ctfa.core.design import Design
    >>> from ctfa.core.spaces.targets import TargetSpace
    >>> rng = np.random.default_rng(0)
    >>> design, Y = Design.of(rng.normal(size=(50, 3)), None), rng.normal(size=(50, 5))
    >>> space = TargetSpace.of(design, design.centre(Y))
    >>> space.merge(0, 3)
    >>> space.correlation(0, np.array([1, 2, 4])).shape
    (3,)
    """

    n_variables: int
    #: Whether a merge leaves every answer that does not involve the merged block as it was.
    merge_is_local: bool = True
    #: Whether it can also say what it would answer after merges that are only predicted.
    foresees: bool = False
    #: Whether it refuses some merges whatever they cost.
    is_guarded: bool = False
    #: Unit vectors whose inner products are the correlations of blocks, where there are such.
    directions: Callable[[IntArray | slice], FloatArray] | None = None

    def evidence(self, block: int | IntArray, others: IntArray) -> Evidence:
        """Fits before and after merging the block with each of the others, or pair by pair."""

    def correlation(self, block: int | IntArray, others: IntArray) -> FloatArray:
        """Signed correlation of the current means; zero where one of them is constant."""

    def merge(self, block: int, other: int) -> None:
        """Merge; the result keeps the slot ``block``. The one verb that changes the space."""
        self.absorb(block, np.array([other]))

    def expect(self, blocks: IntArray, others: IntArray) -> None:
        """Prepare for coming questions about these blocks and others. Changes no answer."""
        return

    def retire(self, block: int) -> None:
        """Release a block that is finished and will not be asked about again."""
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
        raise TypeError(f"{type(self).__name__} cannot foresee: ask it after the merges.")

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


class InSample(NamedTuple):
    """Least squares: products of fitted values, then of residuals.

    ``fit`` reads a target, or a difference of two, from its two squared lengths; ``total`` gives
    inner products of the centred targets themselves, ``explained`` those of what inputs explain.
    """

    n_samples: int
    n_inputs: int
    rank: int

    def fit(self, squares: FloatArray, size: FloatArray) -> Fit:
        """Explained and residual sums of squares, as they are."""
        dof = self.n_samples - self.rank - 1
        return Fit(squares[0], squares[1], self.n_samples, self.n_inputs, self.rank, dof, size)

    def total(self, products: FloatArray) -> FloatArray:
        """Fitted values and residuals are orthogonal, so their products add up."""
        return np.asarray(products.sum(axis=0))

    def explained(self, products: FloatArray) -> FloatArray:
        """The products of fitted values."""
        return np.asarray(products[0])


class CrossValidated(NamedTuple):
    """A linear smoother judged by cross-validation: products of targets, then of residuals.

    What is explained is what remains of the target when each row is predicted from the others; it
    is negative where the inputs predict worse than the mean does.
    """

    n_samples: int
    n_inputs: int
    rank: float  # trace of the smoother: effective coefficients

    def fit(self, squares: FloatArray, size: FloatArray) -> Fit:
        """Honest explained sum of squares, and that of cross-validated residuals."""
        explained = squares[0] - squares[1]
        dof = self.n_samples - 1
        return Fit(explained, squares[1], self.n_samples, self.n_inputs, self.rank, dof, size)

    def total(self, products: FloatArray) -> FloatArray:
        """The products of targets."""
        return np.asarray(products[0])

    def explained(self, products: FloatArray) -> FloatArray:
        """What such predictions take away from the products of targets."""
        return np.asarray(products[0] - products[1])


#: How a pair of inner products is read.
Reading: TypeAlias = InSample | CrossValidated
