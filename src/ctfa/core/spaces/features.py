"""Features of one target, judged on the rows they were fitted to (Phase II)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ctfa.core.design import Design
from ctfa.core.fit import Evidence, Fit
from ctfa.core.gram import DenseGram
from ctfa.core.restrictions import Answer, DeficientRestrictions, Restrictions, Roots
from ctfa.core.ridge import Ridge
from ctfa.core.spaces.base import MergeSpace, correlations
from ctfa.core.types import FloatArray, IntArray, Number


class FeatureStart(NamedTuple):
    """Features before any merge: the fits, one a fold, and the model in which they are judged."""

    root: FloatArray  # (fits, D, rank): columns of B
    response: FloatArray  # (fits, D, m): what they do to held-out predictions
    coef: FloatArray  # (fits, D)
    error: FloatArray  # (fits, m)
    share: FloatArray  # what a squared error of each fit counts
    total: float
    residual: float
    dof: float
    noise: float  # its variance, by the model with all features


class FeatureBlocks(MergeSpace):
    """Inputs to merge by their mean, in one or several regressions of a target on all of them.

    A block's column is the sum of its members, so its coefficient is the one they share, and
    averaging two blocks is the restriction ``coef_a = coef_b``: one expression a candidate instead
    of one regression.
    """

    # One restriction moves every coefficient, so every other answer too.
    merge_is_local = False
    _residual: float  # what decides: a subclass starts it and says what restrictions add

    def __init__(
        self,
        roots: Sequence[Roots],
        coef: Sequence[FloatArray],
        error: Sequence[FloatArray],
        columns: DenseGram | None,
    ) -> None:
        is_deficient = any(part.null.shape[1] for part in roots)
        kind = DeficientRestrictions if is_deficient else Restrictions
        self._restrictions: Restrictions | DeficientRestrictions = kind(roots, coef, error)
        self.foresees = kind.foresees
        self.n_variables = self._n_blocks = coef[0].size
        self._n_given_up = 0  # coefficients that training rows (of the first fold) determined
        self._size = np.ones(self.n_variables)
        self._columns = columns  # inner products of the blocks' columns, where they are wanted

    def evidence(self, block: int | IntArray, others: IntArray) -> Evidence:
        """The current model, the one with the two blocks averaged, and the coefficient given up."""
        rise = self._rise(self._restrictions.ask(block, others))
        return self._evidence(self._residual, rise, 0, self._size[block] + self._size[others])

    def foresee(self, block: int, sequence: IntArray, others: IntArray) -> Evidence:
        """Evidence against the others, row k after the block absorbed the first k of a sequence."""
        answers, steps = self._restrictions.foresee(block, sequence, others)
        residual = self._residual + _running_sums(self._rise(steps))
        n_absorbed = np.arange(sequence.size + 1.0)[:, None]
        sizes = self._size[block] + self._size[others] + _running_sums(self._size[sequence])
        return self._evidence(residual, self._rise(answers), n_absorbed, sizes)

    def correlation(self, block: int | IntArray, others: IntArray) -> FloatArray:
        """Correlation of the blocks' mean columns, over all rows."""
        gram = self._require_columns()
        return correlations(
            gram.products(block, others)[0], gram.diagonal[0, block], gram.diagonal[0, others]
        )

    def absorb(self, block: int, others: IntArray) -> None:
        """Give several blocks one coefficient."""
        answer = self._restrictions.absorb(block, others)
        self._residual += float(self._rise(answer).sum())
        self._n_given_up += int(np.count_nonzero(~answer.absorbed[0]))
        self._size[block] += self._size[others].sum()
        self._n_blocks -= others.size
        if self._columns is not None:
            self._columns.merge(block, others)

    def expect(self, blocks: IntArray, others: IntArray) -> None:
        """Prepare products for the next blocks."""
        self._restrictions.expect(blocks)

    def retire(self, block: int) -> None:
        """Release a finished block's column."""
        self._restrictions.retire(block)

    def mean_correlation(self) -> FloatArray:
        """Average correlation of each input with all of them."""
        gram = self._require_columns()
        scale = np.sqrt(gram.diagonal[0])
        return np.asarray(gram.row_sums(np.where(scale > 0.0, scale, np.inf))[0] / scale.size)

    def _require_columns(self) -> DenseGram:
        if self._columns is None:
            raise ValueError("correlations of features need the Gram matrix of their columns")
        return self._columns

    def _rise(self, answer: Answer) -> FloatArray:
        """What restrictions add to the residual that decides."""
        raise NotImplementedError

    def _evidence(
        self, residual: Number, rise: FloatArray, n_absorbed: Number, size: FloatArray
    ) -> Evidence:
        """Put it together for the model as it is after some more merges."""
        raise NotImplementedError


class FeatureSpace(FeatureBlocks):
    """Inputs to merge, judged by the rows they were fitted to.

    A merge raises the residual sum of squares by ``(coef_a - coef_b)**2 / variance(a, b)``.
    """

    def __init__(
        self,
        design: Design,
        centred_target: FloatArray,
        columns: DenseGram | None = None,
        noise: tuple[float, float] | None = None,
    ) -> None:
        coordinates, left = design.coordinates(centred_target[:, None])
        self.n_samples = design.n_samples
        # By the root, not by substitution: both round, and the restrictions need the same rounding.
        coef = design.root.T @ coordinates[:, 0]
        super().__init__([Roots.of(design)], [coef], [np.empty(0)], columns)
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

    def start(self) -> FeatureStart | None:
        """What a compiled scan starts from; None where rank or degrees of freedom are lacking."""
        fits = self._restrictions.start()
        if fits is None or self._full_dof <= 0.0:
            return None
        dof, noise = self.n_samples - self._rank - 1.0, self._full_residual / self._full_dof
        return FeatureStart(*fits, np.ones(1), self._total, self._residual, dof, noise)

    def _rise(self, answer: Answer) -> FloatArray:
        return np.asarray(answer.rise[0])

    def _evidence(
        self, residual: Number, rise: FloatArray, n_absorbed: Number, size: FloatArray
    ) -> Evidence:
        n, explained = self.n_samples, self._total - residual
        n_blocks, rank = self._n_blocks - n_absorbed, self._rank - self._n_given_up - n_absorbed
        return Evidence(
            before=(Fit(explained, residual, n, n_blocks, rank, n - rank - 1, 1.0),),
            after=Fit(explained - rise, residual + rise, n, n_blocks, rank - 1, n - rank, size),
            # What the extra coefficient explains, against the noise of the model with all inputs.
            difference=Fit(rise, self._full_residual, n, 1, 1, self._full_dof, 1.0),
            # One coefficient fewer pays on new rows while Hocking's S_p falls.
            f_star=2.0 * self._full_dof / max(self._full_dof - 1, 1),
        )


def _running_sums(steps: FloatArray) -> FloatArray:
    """Sums of the first 0, 1, ... steps, one row each."""
    return np.concatenate(([0.0], np.cumsum(steps)))[:, None]


def column_gram(design: Design, X: FloatArray) -> DenseGram:
    """Inner products of the centred columns, constant ones exactly zero."""
    centred = design.centre(X)
    centred[:, ~design.root.any(axis=0)] = 0.0
    return DenseGram.of([centred])
