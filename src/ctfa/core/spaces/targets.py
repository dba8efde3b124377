"""Targets that share their inputs (Phase I)."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from ctfa.core.design import Design
from ctfa.core.fit import Evidence, Fit
from ctfa.core.gram import DenseGram, FactoredGram, Gram
from ctfa.core.moments import Moments
from ctfa.core.types import FloatArray, IntArray, Number

#: Inner products of two block sums: of each with itself, and of both.
Sums: TypeAlias = tuple[Number, FloatArray, FloatArray]
#: More targets than this and the two matrices of inner products are not held in memory.
DENSE_LIMIT = 5_000


class TargetSpace:
    """Targets to merge by their mean, all regressed on the same inputs.

    Fitted values and residuals are linear in the target, so those of a mean are the means of its
    members'. Inner products of fitted values and of residuals answer every question: no regression
    is run again, and a candidate costs a handful of arithmetic operations whatever its size.
    """

    merge_is_local = True
    foresees = True

    def __init__(
        self,
        explained: Gram,
        residual: Gram,
        *,
        n_samples: int,
        n_inputs: int,
        rank: int,
        sizes: IntArray | None = None,
    ) -> None:
        self.n_variables = int(explained.diagonal.size)
        self.n_samples, self.n_inputs, self.rank = n_samples, n_inputs, rank
        self._explained, self._residual = explained, residual
        self._size = np.ones(self.n_variables) if sizes is None else np.asarray(sizes, dtype=float)
        if sizes is not None:
            # A mean of k members enters as their sum, as if it had been merged here.
            for gram in (explained, residual):
                _rescale(gram, self._size)

    @classmethod
    def of(
        cls,
        design: Design,
        centred: FloatArray,
        *,
        sizes: IntArray | None = None,
        dense: bool | None = None,
    ) -> TargetSpace:
        """Build from a factored design and targets centred over its rows."""
        if dense is None:
            dense = centred.shape[1] <= DENSE_LIMIT
        fitted, left = design.coordinates(centred)
        explained: Gram
        residual: Gram
        if dense:
            explained, residual = DenseGram(fitted.T @ fitted), DenseGram(left.T @ left)
        else:
            explained = FactoredGram(np.ascontiguousarray(fitted.T))
            residual = FactoredGram(np.ascontiguousarray(left.T))
        return cls(
            explained,
            residual,
            n_samples=design.n_samples,
            n_inputs=design.n_inputs,
            rank=design.rank,
            sizes=sizes,
        )

    @classmethod
    def from_moments(cls, moments: Moments, n_inputs: int) -> TargetSpace:
        """Build from the moments of ``[X, Y]``, for rows too many to hold."""
        design = Design.from_moments(moments, n_inputs)
        return cls.of(design, moments.compact()[:, n_inputs:])

    def evidence(self, block: int | IntArray, others: IntArray) -> Evidence:
        """Fits of both means, of the mean of all members, and of the two means' difference."""
        return self._judge(
            self._size[block],
            self._size[others],
            self._sums(self._explained, block, others),
            self._sums(self._residual, block, others),
        )

    def foresee(self, block: int, sequence: IntArray, others: IntArray) -> Evidence:
        """Evidence against the others, row k after the block absorbed the first k of a sequence."""
        sizes = np.cumsum(self._size[np.concatenate(([block], sequence))])[:, None]
        explained, explained_products = self._explained.foresee(block, sequence, others)
        residual, residual_products = self._residual.foresee(block, sequence, others)
        return self._judge(
            sizes,
            self._size[others],
            (explained, self._explained.diagonal[others], explained_products),
            (residual, self._residual.diagonal[others], residual_products),
        )

    def _judge(self, a: Number, b: FloatArray, explained: Sums, residual: Sums) -> Evidence:
        a_squared, b_squared, ab_squared = a * a, b * b, (a + b) ** 2
        first_explained, second_explained, explained_product = explained
        first_residual, second_residual, residual_product = residual
        return Evidence(
            (
                self._fit(first_explained / a_squared, first_residual / a_squared, a),
                self._fit(second_explained / b_squared, second_residual / b_squared, b),
            ),
            self._fit(
                (first_explained + second_explained + 2.0 * explained_product) / ab_squared,
                (first_residual + second_residual + 2.0 * residual_product) / ab_squared,
                a + b,
            ),
            lambda: self._fit(_difference(*explained, a, b), _difference(*residual, a, b), a + b),
        )

    def correlation(self, block: int | IntArray, others: IntArray) -> FloatArray:
        """Correlation of the mean targets."""
        product = self._explained.products(block, others) + self._residual.products(block, others)
        return _correlation(product, self._length[block], self._length[others])

    def merge(self, block: int, other: int) -> None:
        """Average two blocks, each member with the same weight."""
        self.absorb(block, np.array([other]))

    def absorb(self, block: int, others: IntArray) -> None:
        """Merge several into one block at once."""
        self._explained.merge(block, others)
        self._residual.merge(block, others)
        self._size[block] += self._size[others].sum()

    def expect(self, blocks: IntArray, others: IntArray) -> None:
        """Prepare inner products ahead, where they are not all held."""
        self._explained.expect(blocks, others)
        self._residual.expect(blocks, others)

    def retire(self, block: int) -> None:
        """Nothing to release: a block is two entries."""

    def mean_correlation(self) -> FloatArray:
        """Average correlation of each target with all of them."""
        scale = np.sqrt(self._length)
        safe = np.where(scale > 0.0, scale, np.inf)
        sums = self._explained.row_sums(safe) + self._residual.row_sums(safe)
        return np.asarray(sums / self.n_variables)

    @property
    def total_variance(self) -> float:
        """Mean variance of the targets as they stand, the scale of losses in target units."""
        return float(np.mean(self._length / self._size**2)) / (self.n_samples - 1)

    @property
    def _length(self) -> FloatArray:
        return np.asarray(self._explained.diagonal + self._residual.diagonal)

    @staticmethod
    def _sums(gram: Gram, block: int | IntArray, others: IntArray) -> Sums:
        return gram.diagonal[block], gram.diagonal[others], gram.products(block, others)

    def _fit(self, explained: Number, residual: Number, size: Number) -> Fit:
        dof = self.n_samples - self.rank - 1
        return Fit(explained, residual, self.n_samples, self.n_inputs, self.rank, dof, size)


def _difference(first: Number, second: Number, product: Number, a: Number, b: Number) -> Number:
    """Length of the difference of two means; exactly zero when they agree to rounding."""
    mean_first, mean_second = first / a**2, second / b**2
    length = mean_first + mean_second - 2.0 * product / (a * b)
    return np.where(length > ROUNDING * (mean_first + mean_second), length, 0.0)


#: A difference smaller than this, relative to what is subtracted, is rounding and not a signal.
ROUNDING = 1e-13


def _correlation(product: FloatArray, first: Number, second: FloatArray) -> FloatArray:
    scale = np.sqrt(first * second)
    return np.where(scale > 0.0, product / np.where(scale > 0.0, scale, 1.0), 0.0)


def _rescale(gram: Gram, sizes: FloatArray) -> None:
    if isinstance(gram, DenseGram):
        gram.matrix *= np.outer(sizes, sizes)
    elif isinstance(gram, FactoredGram):
        gram.vectors *= sizes[:, None]
    gram.diagonal *= sizes**2
