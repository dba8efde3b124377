"""Features of one target, judged on the rows they were fitted to (Phase II)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ctfa.core.deficient import restrictions
from ctfa.core.design import Design
from ctfa.core.fit import Evidence, Fit
from ctfa.core.gram import DenseGram, correlation, mean_correlation
from ctfa.core.restrictions import Roots, Start
from ctfa.core.ridge import Ridge
from ctfa.core.types import FloatArray, IntArray, Number


class FeatureStart(NamedTuple):
    """Features before any merge: the fits, and the model in which they are judged."""

    fits: Start
    share: FloatArray  # what a squared error of each fit counts
    total: float
    residual: float
    dof: float
    noise: float  # its variance, by the model with all features


class FeatureSpace:
    """Inputs to merge by their mean, in the regression of one target on all of them.

    A block's column is the sum of its members, so its coefficient is the one they share, and
    averaging two blocks is the restriction ``coef_a = coef_b``. It raises the residual sum of
    squares by ``(coef_a - coef_b)**2 / variance(a, b)``: one expression a candidate instead of one
    regression.
    """

    # One restriction moves every coefficient, so every other answer too.
    merge_is_local = False
    is_guarded = False

    def __init__(
        self,
        design: Design,
        centred_target: FloatArray,
        columns: DenseGram | None = None,
        noise: tuple[float, float] | None = None,
    ) -> None:
        coordinates, left = design.coordinates(centred_target[:, None])
        self.n_variables = design.n_inputs
        self.n_samples = design.n_samples
        # By the root, not by substitution: both round, and the restrictions need the same rounding.
        coef = design.root.T @ coordinates[:, 0]
        self._restrictions = restrictions([Roots.of(design)], [coef], [np.empty(0)])
        self.foresees = self._restrictions.foresees
        self._columns = BlockColumns(design.n_inputs, columns)
        self._total = float(centred_target @ centred_target)
        self._residual = float(left[:, 0] @ left[:, 0])
        self._rank = design.rank
        # A penalised fit brings its own residual sum and the degrees of freedom it leaves.
        own_noise = self._residual, float(design.n_samples - design.rank - 1)
        self._full_residual, self._full_dof = own_noise if noise is None else noise

    @classmethod
    def penalised(
        cls, ridge: Ridge, centred_target: FloatArray, columns: DenseGram | None = None
    ) -> FeatureSpace:
        """Build from a ridge regression: a merge is the same restriction on its coefficients."""
        residual = ridge.residual(centred_target[:, None])[:, 0]
        freedom = max(ridge.n_samples - ridge.rank - 1.0, 1.0)
        padded = np.concatenate((centred_target, np.zeros(ridge.n_inputs)))
        return cls(ridge.augmented(), padded, columns, (float(residual @ residual), freedom))

    def evidence(self, block: int | IntArray, others: IntArray) -> Evidence:
        """The current model, the one with the two blocks averaged, and the coefficient given up."""
        rise = self._restrictions.ask(block, others).rise[0]
        return self._evidence(self._residual, rise, 0, self._columns.sizes(block, others))

    def foresee(self, block: int, sequence: IntArray, others: IntArray) -> Evidence:
        """Evidence against the others, row k after the block absorbed the first k of a sequence."""
        answers, steps = self._restrictions.foresee(block, sequence, others)
        residual = self._residual + running_sums(steps.rise[0])
        n_absorbed = np.arange(sequence.size + 1.0)[:, None]
        sizes = self._columns.sizes_along(block, sequence, others)
        return self._evidence(residual, answers.rise[0], n_absorbed, sizes)

    def start(self) -> FeatureStart | None:
        """What a compiled scan starts from; None where rank or degrees of freedom are lacking."""
        fits = self._restrictions.start()
        if fits is None or self._full_dof <= 0.0:
            return None
        dof, noise = self.n_samples - self._rank - 1.0, self._full_residual / self._full_dof
        return FeatureStart(fits, np.ones(1), self._total, self._residual, dof, noise)

    def correlation(self, block: int | IntArray, others: IntArray) -> FloatArray:
        """Correlation of the blocks' mean columns."""
        return self._columns.correlation(block, others)

    def merge(self, block: int, other: int) -> None:
        """Give two blocks one coefficient."""
        self.absorb(block, np.array([other]))

    def absorb(self, block: int, others: IntArray) -> None:
        """Give several blocks one coefficient."""
        answer = self._restrictions.absorb(block, others)
        self._residual += float(answer.rise.sum())
        self._rank -= int(np.count_nonzero(~answer.absorbed))
        self._columns.absorb(block, others)

    def expect(self, blocks: IntArray, others: IntArray) -> None:
        """Prepare products for the next blocks."""
        self._restrictions.expect(blocks)

    def retire(self, block: int) -> None:
        """Release a finished block's column."""
        self._restrictions.retire(block)

    def mean_correlation(self) -> FloatArray:
        """Average correlation of each input with all of them."""
        return self._columns.mean_correlation()

    def _evidence(
        self, residual: Number, rise: FloatArray, n_absorbed: Number, size: FloatArray
    ) -> Evidence:
        """Put it together for the model as it is after some more merges."""
        n, explained = self.n_samples, self._total - residual
        n_blocks, rank = self._columns.n_blocks - n_absorbed, self._rank - n_absorbed
        return Evidence(
            before=(Fit(explained, residual, n, n_blocks, rank, n - rank - 1, 1.0),),
            after=Fit(explained - rise, residual + rise, n, n_blocks, rank - 1, n - rank, size),
            # What the extra coefficient explains, against the noise of the model with all inputs.
            difference=Fit(rise, self._full_residual, n, 1, 1, self._full_dof, 1.0),
            # One coefficient fewer pays on new rows while Hocking's S_p falls.
            f_star=2.0 * self._full_dof / max(self._full_dof - 1, 1),
        )


class BlockColumns:
    """Sizes of feature blocks and, where they are wanted, correlations of their means."""

    def __init__(self, n_variables: int, gram: DenseGram | None) -> None:
        self.n_blocks = n_variables
        self._size = np.ones(n_variables)
        self._gram = gram

    def sizes(self, block: int | IntArray, others: IntArray) -> FloatArray:
        """Members after the merge."""
        return np.asarray(self._size[block] + self._size[others])

    def sizes_along(self, block: int, sequence: IntArray, others: IntArray) -> FloatArray:
        """Members after the merge, row k when the block has absorbed the first k of a sequence."""
        start = self._size[block] + self._size[others]
        return np.asarray(start + running_sums(self._size[sequence]))

    def absorb(self, block: int, others: IntArray) -> None:
        """Sum columns."""
        self._size[block] += self._size[others].sum()
        self.n_blocks -= others.size
        if self._gram is not None:
            self._gram.merge(block, others)

    def correlation(self, block: int | IntArray, others: IntArray) -> FloatArray:
        """Correlation of the blocks' means."""
        return correlation(self._require(), block, others)

    def mean_correlation(self) -> FloatArray:
        """Average over all columns."""
        return mean_correlation(self._require())

    def _require(self) -> DenseGram:
        if self._gram is None:
            raise ValueError("correlations of features need the Gram matrix of their columns")
        return self._gram


def running_sums(steps: FloatArray) -> FloatArray:
    """Sums of the first 0, 1, ... steps, one row each."""
    return np.concatenate(([0.0], np.cumsum(steps)))[:, None]


def column_gram(design: Design, X: FloatArray) -> DenseGram:
    """Inner products of the centred columns, constant ones exactly zero."""
    centred = design.centre(X)
    centred[:, ~design.root.any(axis=0)] = 0.0
    return DenseGram.of([centred])
