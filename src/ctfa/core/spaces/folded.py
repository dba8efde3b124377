"""Features of one target, judged on rows held out (Phase II as the authors run it)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from ctfa.core.design import Design, weighted_mean
from ctfa.core.fit import Evidence, Fit
from ctfa.core.gram import DenseGram
from ctfa.core.restrictions import Restrictions, Roots
from ctfa.core.spaces.features import BlockColumns
from ctfa.core.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Fold:
    """One split of the rows, factored; serves any number of targets."""

    design: Design
    train: IntArray
    test: IntArray
    row_scale: FloatArray  # square roots of the test rows' weights
    judged: FloatArray  # test inputs about the training mean
    rotation: FloatArray | None  # what compressed the test rows to as many as there are inputs
    roots: Roots

    @classmethod
    def of(
        cls, X: FloatArray, train: IntArray, test: IntArray, weights: FloatArray | None = None
    ) -> Fold:
        """Factor the training rows and see what their coefficients do to the test rows."""
        design = Design.of(X[train], None if weights is None else weights[train])
        if weights is not None:
            test = test[weights[test] > 0.0]
        row_scale = np.ones(test.size) if weights is None else np.sqrt(weights[test])
        judged = (X[test] - design.mean) * row_scale[:, None]
        rotation = None
        compressed = judged
        if judged.shape[0] > judged.shape[1]:
            # Only inner products of test rows matter: a rotation keeps them, with fewer rows.
            rotation, compressed = linalg.qr(judged, mode="economic")
        return cls(design, train, test, row_scale, judged, rotation, Roots.of(design, compressed))

    def fit(self, y: FloatArray) -> tuple[FloatArray, FloatArray, float, float]:
        """Coefficients, (compressed) test errors, their sum of squares and the test total."""
        train, test = y[self.train], y[self.test]
        centred = self.design.centre(train[:, None])
        coordinates, _ = self.design.coordinates(centred)
        coef = self.design.root.T @ coordinates[:, 0]
        mean = weighted_mean(train[self.design.used][:, None], self.design.row_scale)[0]
        error = (test - mean) * self.row_scale - self.judged @ coef
        about_mean = (test - weighted_mean(test[:, None], self.row_scale)[0]) * self.row_scale
        squared = float(error @ error)
        if self.rotation is not None:
            error = self.rotation.T @ error
        return coef, error, squared, float(about_mean @ about_mean)


class FoldedFeatureSpace:
    """Inputs to merge by their mean, judged by the mean R2 of held-out folds.

    Each fold's training rows give a restricted regression as in ``FeatureSpace``; moving its
    coefficients moves the held-out errors linearly, so the change of every fold's R2 is again one
    expression a candidate.
    """

    merge_is_local = False
    foresees = False

    def __init__(
        self, folds: Sequence[Fold], y: FloatArray, columns: DenseGram | None = None
    ) -> None:
        coefs, errors, squared, totals = zip(*(fold.fit(y) for fold in folds), strict=True)
        self.n_variables = folds[0].design.n_inputs
        self.n_samples = sum(fold.test.size for fold in folds)
        self._restrictions = Restrictions([fold.roots for fold in folds], coefs, errors)
        self._columns = BlockColumns(self.n_variables, columns)
        self._share = 1.0 / (len(folds) * np.array(totals))  # of a squared error in the mean R2
        self._residual = float(self._share @ np.array(squared))
        self._rank = min(fold.design.rank for fold in folds)

    def evidence(self, block: int | IntArray, others: IntArray) -> Evidence:
        """Mean R2 before and after: sums of squares in units of each fold's total."""
        rise = self._share @ self._restrictions.ask(block, others).judged_rise
        residual = self._residual
        size = self._columns.sizes(block, others)
        return Evidence(
            before=(self._fit(1.0 - residual, residual, 1.0),),
            after=self._fit(1.0 - residual - rise, residual + rise, size),
            difference=self._fit(rise, residual, 1.0)._replace(n_inputs=1, rank=1),
        )

    def correlation(self, block: int | IntArray, others: IntArray) -> FloatArray:
        """Correlation of the blocks' mean columns, over all rows."""
        return self._columns.correlation(block, others)

    def merge(self, block: int, other: int) -> None:
        """Give two blocks one coefficient in every fold."""
        rises = self._restrictions.ask(block, np.array([other])).judged_rise[:, 0]
        self._residual += float(self._share @ rises)
        self._restrictions.merge(block, other)
        self._columns.merge(block, other)

    def expect(self, blocks: IntArray, others: IntArray) -> None:
        """Prepare products for the next blocks."""
        self._restrictions.expect(blocks)

    def retire(self, block: int) -> None:
        """Release a finished block's column."""
        self._restrictions.retire(block)

    def mean_correlation(self) -> FloatArray:
        """Average correlation of each input with all of them."""
        return self._columns.mean_correlation()

    def _fit(
        self, explained: float | FloatArray, residual: float | FloatArray, size: float | FloatArray
    ) -> Fit:
        dof = self.n_samples - self._rank - 1
        n_blocks = self._columns.n_blocks
        return Fit(explained, residual, self.n_samples, n_blocks, self._rank, dof, size)
