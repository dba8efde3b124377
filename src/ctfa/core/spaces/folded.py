"""Features of one target, judged on rows held out (Phase II as the authors run it)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from ctfa.core.design import Design, weighted_mean
from ctfa.core.fit import Evidence, Fit
from ctfa.core.gram import DenseGram
from ctfa.core.restrictions import Answer, Roots
from ctfa.core.spaces.features import FeatureBlocks, FeatureStart
from ctfa.core.types import FloatArray, IntArray, Number

#: Training rows whose Gram matrix (of columns at unit length over all rows) is conditioned better
#: than this are factored by it: its root has 12 digits. All others are factored themselves.
COMFORTABLE_RCOND = 1e-4
#: Squares about the mean below this share of the squares are rounding: the target is constant.
CONSTANT_SHARE = 1e-28
#: Test rows are compressed when they outnumber the inputs this many times.
MANY_ROWS = 3


class AllRows:
    """The inputs of all folds, centred, weighted and at unit length, with their Gram matrix."""

    def __init__(self, X: FloatArray, weights: FloatArray | None) -> None:
        self.row_scale = np.ones(X.shape[0]) if weights is None else np.sqrt(weights)
        self.mean = weighted_mean(X, self.row_scale)
        self.rows = X - self.mean
        self.rows *= self.row_scale[:, None]
        self.length = np.sqrt(np.einsum("ij,ij->j", self.rows, self.rows))
        self.is_constant = bool((self.length <= 1e-10 * np.abs(X).max(axis=0, initial=0.0)).any())
        if not self.is_constant:
            self.rows /= self.length
            self.sums = self.row_scale @ self.rows
            self.gram = self.rows.T @ self.rows


@dataclass(frozen=True, eq=False)
class TrainingDesign(Design):
    """Some of all rows, factored by their Gram matrix, ``G = G_all - G_left - n mean mean'``."""

    everything: AllRows
    rows: IntArray  # those with positive weight

    @classmethod
    def downdated(
        cls, everything: AllRows, train: IntArray, left: IntArray
    ) -> TrainingDesign | None:
        """Subtract the rows left out; nothing where that leaves too few digits."""
        n_inputs = everything.rows.shape[1]
        used = everything.row_scale[train] > 0.0
        train = train[used]
        if everything.is_constant or train.size <= n_inputs:
            return None
        row_scale = everything.row_scale[train]
        weight = float(row_scale @ row_scale)
        row_scale = row_scale * np.sqrt(train.size / weight)
        rows = everything.rows[left]
        sums = everything.sums - everything.row_scale[left] @ rows
        gram = everything.gram - rows.T @ rows - np.outer(sums, sums / weight)
        triangle, failed = lapack.dpotrf(gram)
        rcond = 0.0 if failed else float(lapack.dpocon(triangle, np.abs(gram).sum(axis=0).max())[0])
        if rcond < COMFORTABLE_RCOND:
            return None
        unit = everything.length * np.sqrt(train.size / weight)
        root = np.divide(lapack.dtrtri(triangle)[0].T, unit, order="C")
        factors = None, None, root, np.empty((0, n_inputs)), float(np.sqrt(rcond))
        mean = everything.mean + sums / weight * everything.length
        return cls(train.size, n_inputs, mean, row_scale, used, *factors, everything, train)

    def coordinates(self, centred: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Coordinates of the fit, ``root X'y``, and what it leaves of each row."""
        rows, scale = self.everything.rows, self.everything.row_scale[self.rows]
        unit = self.everything.length * (self.row_scale[0] / scale[0])
        spread = np.zeros((rows.shape[0], centred.shape[1]))  # cheaper than selecting rows
        spread[self.rows] = centred
        fitted = self.root @ (unit[:, None] * (rows.T @ spread))
        predicted = (rows @ (unit[:, None] * (self.root.T @ fitted)))[self.rows]
        scale = self.row_scale
        return fitted, centred - predicted + np.outer(scale, scale @ predicted / (scale @ scale))


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
        cls,
        X: FloatArray,
        train: IntArray,
        test: IntArray,
        weights: FloatArray | None = None,
        design: Design | None = None,
    ) -> Fold:
        """Factor the training rows, unless they are, and see what their fits do to test rows."""
        if design is None:
            design = Design.of(X[train], None if weights is None else weights[train])
        if weights is not None:
            test = test[weights[test] > 0.0]
        row_scale = np.ones(test.size) if weights is None else np.sqrt(weights[test])
        judged = (X[test] - design.mean) * row_scale[:, None]
        rotation, compressed = None, judged
        if judged.shape[0] > MANY_ROWS * judged.shape[1]:
            # As many as there are inputs: inner products of what they judge stay.
            rotation, compressed = np.linalg.qr(judged)
        roots = Roots.of(design, compressed)
        return cls(design, train, test, row_scale, judged, rotation, roots)

    @classmethod
    def each(
        cls,
        X: FloatArray,
        splits: Iterable[tuple[IntArray, IntArray]],
        weights: FloatArray | None = None,
    ) -> list[Fold]:
        """Factor several splits of the same rows, sharing one pass over them where that is safe."""
        everything = AllRows(X, weights)
        folds = []
        for train, test in splits:
            times = np.bincount(train, minlength=X.shape[0])
            design = None
            if times.max() == 1:  # a row that is there twice cannot be left out of the total
                left = np.flatnonzero(times == 0)
                design = TrainingDesign.downdated(everything, train, left)
            folds.append(cls.of(X, train, test, weights, design))
        return folds

    def fit(self, y: FloatArray) -> tuple[FloatArray, FloatArray, float, float]:
        """Coefficients, (compressed) test errors, their sum of squares and the test total."""
        train, test = y[self.train], y[self.test]
        coordinates, _ = self.design.coordinates(self.design.centre(train[:, None]))
        coef = self.design.root.T @ coordinates[:, 0]
        mean = weighted_mean(train[self.design.used][:, None], self.design.row_scale)[0]
        error = (test - mean) * self.row_scale - self.judged @ coef
        about_mean = (test - weighted_mean(test[:, None], self.row_scale)[0]) * self.row_scale
        squared, total = float(error @ error), float(about_mean @ about_mean)
        if total <= CONSTANT_SHARE * float((test * self.row_scale) @ (test * self.row_scale)):
            total = 0.0
        if self.rotation is not None:
            error = self.rotation.T @ error
        return coef, error, squared, total


class FoldedFeatureSpace(FeatureBlocks):
    """Inputs to merge by their mean, judged by the mean R2 of held-out folds.

    Each fold's training rows give a restricted regression as in ``FeatureSpace``; moving its
    coefficients moves the held-out errors linearly, so the change of every fold's R2 is again one
    expression a candidate.
    """

    def __init__(
        self, folds: Sequence[Fold], y: FloatArray, columns: DenseGram | None = None
    ) -> None:
        coefs, errors, squared, totals = zip(*(fold.fit(y) for fold in folds), strict=True)
        super().__init__([fold.roots for fold in folds], coefs, errors, columns)
        self.n_samples = sum(fold.test.size for fold in folds)
        # What a squared error counts in the mean R2. A fold whose test rows hold a constant target
        # has an R2 of zero whatever the features, as in scikit-learn: it decides nothing.
        total = np.array(totals)
        self._share = np.divide(1.0 / len(folds), total, out=np.zeros(len(folds)), where=total > 0)
        self._residual = float(self._share @ np.array(squared) + np.mean(total == 0.0))
        self._rank = min(fold.roots.root.shape[1] for fold in folds)

    def start(self) -> FeatureStart | None:
        """What a compiled scan starts from; None where a fit has less than full rank."""
        fits = self._restrictions.start()
        if fits is None:
            return None
        # The R2 of held-out rows knows no degrees of freedom.
        return FeatureStart(*fits, self._share, 1.0, self._residual, np.nan, np.nan)

    def _rise(self, answer: Answer) -> FloatArray:
        rise = answer.judged_rise
        return np.asarray((self._share @ rise.reshape(len(rise), -1)).reshape(rise.shape[1:]))

    def _evidence(
        self, residual: Number, rise: FloatArray, n_absorbed: Number, size: FloatArray
    ) -> Evidence:
        """Mean R2 before and after: sums of squares in units of each fold's total."""
        n, rank, dof = self.n_samples, self._rank, self.n_samples - self._rank - 1
        n_blocks = self._n_blocks - n_absorbed
        return Evidence(
            before=(Fit(1.0 - residual, residual, n, n_blocks, rank, dof, 1.0),),
            after=Fit(1.0 - residual - rise, residual + rise, n, n_blocks, rank, dof, size),
            difference=Fit(rise, residual, n, 1, 1, dof, 1.0),
        )
