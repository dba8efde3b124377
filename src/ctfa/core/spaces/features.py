"""Features of one target (Phase II), judged on the rows they were fitted to or on rows held out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from ctfa.core.design import Design, weighted_mean
from ctfa.core.fit import Evidence, Fit
from ctfa.core.gram import DenseGram
from ctfa.core.restrictions import Answer, DeficientRestrictions, Restrictions, Roots
from ctfa.core.ridge import Ridge
from ctfa.core.spaces.base import MergeSpace, correlations
from ctfa.core.types import FloatArray, IntArray, Number

#: Training rows whose Gram matrix (of columns at unit length over all rows) is conditioned better
#: than this are factored by it: its root has 12 digits. All others are factored themselves.
COMFORTABLE_RCOND = 1e-4
#: Squares about the mean below this share of the squares are rounding: the target is constant.
CONSTANT_SHARE = 1e-28
#: Test rows are compressed when they outnumber the inputs this many times.
MANY_ROWS = 3


class Judgement(NamedTuple):
    """By which rows merges are judged, and the model with all features."""

    n_samples: int
    rank: int
    total: float
    residual: float
    #: What a squared held-out error of each fold counts; None in sample.
    share: FloatArray | None = None
    #: Residual sum of squares and degrees of freedom that say what the noise is, in sample.
    noise: tuple[float, float] = (np.nan, np.nan)


class FeatureSpace(MergeSpace):
    """Inputs to merge by their mean, in one or several regressions of a target on all of them.

    A block's column is the sum of its members, so its coefficient is the one they share, and
    averaging two blocks is the restriction ``coef_a = coef_b``: one expression per candidate
    instead of one regression.

    Judged by the rows they were fitted to, a merge raises the residual sum of squares by
    ``(coef_a - coef_b)**2 / variance(a, b)``. Judged by the mean R2 of held-out folds, each fold's
    training rows give such a restricted regression; moving its coefficients moves the held-out
    errors linearly, so the change of every fold's R2 is again one expression per candidate.
    """

    # One restriction moves every coefficient, so every other answer too.
    merge_is_local = False

    def __init__(
        self,
        roots: Sequence[Roots],
        coef: Sequence[FloatArray],
        error: Sequence[FloatArray],
        columns: DenseGram | None,
        judged: Judgement,
    ) -> None:
        is_deficient = any(part.null.shape[1] for part in roots)
        kind = DeficientRestrictions if is_deficient else Restrictions
        self._restrictions: Restrictions | DeficientRestrictions = kind(roots, coef, error)
        self.foresees = kind.foresees
        self.n_variables = self._n_blocks = coef[0].size
        self.n_samples, self._judged, self._residual = judged.n_samples, judged, judged.residual
        self._n_given_up = 0  # coefficients that training rows determined
        self._size = np.ones(self.n_variables)
        self._columns = columns  # inner products of the blocks' columns, where they are wanted

    @classmethod
    def of(
        cls,
        design: Design,
        centred_target: FloatArray,
        columns: DenseGram | None = None,
        noise: tuple[float, float] | None = None,
    ) -> FeatureSpace:
        """Judge by the rows of a factored design; a penalised fit brings its own noise."""
        coordinates, left = design.coordinates(centred_target[:, None])
        # By the root, not by substitution: both round, and the restrictions need the same rounding.
        coef = design.root.T @ coordinates[:, 0]
        total, residual = float(centred_target @ centred_target), float(left[:, 0] @ left[:, 0])
        noise = noise or (residual, float(design.n_samples - design.rank - 1))
        judged = Judgement(design.n_samples, design.rank, total, residual, noise=noise)
        return cls([Roots.of(design)], [coef], [np.empty(0)], columns, judged)

    @classmethod
    def penalised(
        cls, ridge: Ridge, centred_target: FloatArray, columns: DenseGram | None = None
    ) -> FeatureSpace:
        """Build from a ridge regression: a merge is the same restriction on its coefficients."""
        residual = ridge.residual(centred_target[:, None])[:, 0]
        freedom = max(ridge.n_samples - ridge.rank - 1.0, 1.0)
        padded = np.concatenate((centred_target, np.zeros(ridge.n_inputs)))
        return cls.of(ridge.augmented(), padded, columns, (float(residual @ residual), freedom))

    @classmethod
    def on_folds(
        cls, folds: Sequence[FactoredFold], y: FloatArray, columns: DenseGram | None = None
    ) -> FeatureSpace:
        """Judge by the mean R2 of held-out folds.

        A fold whose test rows hold a constant target has an R2 of zero whatever the features, as in
        scikit-learn: it decides nothing.
        """
        coefs, errors, squared, totals = zip(*(fold.fit(y) for fold in folds), strict=True)
        total = np.array(totals)
        share = np.divide(1.0 / len(folds), total, out=np.zeros(len(folds)), where=total > 0)
        residual = float(share @ np.array(squared) + np.mean(total == 0.0))
        rank = min(fold.roots.root.shape[1] for fold in folds)
        judged = Judgement(sum(fold.test.size for fold in folds), rank, 1.0, residual, share)
        return cls([fold.roots for fold in folds], coefs, errors, columns, judged)

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
        gram = self._gram
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
        scale = np.sqrt(self._gram.diagonal[0])
        return np.asarray(self._gram.row_sums(np.where(scale > 0.0, scale, np.inf))[0] / scale.size)

    def start(self) -> tuple[tuple[FloatArray, ...], Judgement] | None:
        """What a compiled scan starts from; None where rank or degrees of freedom are lacking.

        Columns of the roots, what they do to held-out predictions, coefficients and errors.
        """
        fits = self._restrictions.start()
        return None if fits is None or self._judged.noise[1] <= 0.0 else (fits, self._judged)

    @property
    def _gram(self) -> DenseGram:
        if self._columns is None:
            raise ValueError("correlations of features need the Gram matrix of their columns")
        return self._columns

    def _rise(self, answer: Answer) -> FloatArray:
        """What restrictions add to the residual that decides."""
        share, rise = self._judged.share, answer.judged_rise
        if share is None:
            return np.asarray(answer.rise[0])
        return np.asarray((share @ rise.reshape(len(rise), -1)).reshape(rise.shape[1:]))

    def _evidence(
        self, residual: Number, rise: FloatArray, n_absorbed: Number, size: FloatArray
    ) -> Evidence:
        """Put it together for the model as it is after some more merges.

        On folds sums of squares are in units of each fold's total: the mean R2 before and after.
        """
        n, _, total, _, share, (noise, noise_dof) = self._judged
        rank: Number = self._judged.rank
        n_blocks, explained, f_star = self._n_blocks - n_absorbed, total - residual, None
        given_up: Number = 0
        if share is None:
            rank, given_up = rank - self._n_given_up - n_absorbed, 1
            # What the extra coefficient explains, against the noise of the model with all inputs.
            difference = Fit(rise, noise, n, 1, 1, noise_dof, 1.0)
            # One coefficient fewer pays on new rows while Hocking's S_p falls.
            f_star = 2.0 * noise_dof / max(noise_dof - 1, 1)
        else:
            difference = Fit(rise, residual, n, 1, 1, n - rank - 1, 1.0)
        rank_after = rank - given_up
        dof, dof_after = n - rank - 1, n - rank_after - 1
        return Evidence(
            (Fit(explained, residual, n, n_blocks, rank, dof, 1.0),),
            Fit(explained - rise, residual + rise, n, n_blocks, rank_after, dof_after, size),
            difference,
            f_star,
        )


def _running_sums(steps: FloatArray) -> FloatArray:
    """Sums of the first 0, 1, ... steps, one row each."""
    return np.concatenate(([0.0], np.cumsum(steps)))[:, None]


def column_gram(design: Design, X: FloatArray) -> DenseGram:
    """Inner products of the centred columns, constant ones exactly zero."""
    centred = design.centre(X)
    centred[:, ~design.root.any(axis=0)] = 0.0
    return DenseGram.of([centred])


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
        known = train.size, n_inputs, mean, row_scale, used
        return cls(*known, *factors, unit, everything, train)

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
class FactoredFold:
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
    ) -> FactoredFold:
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
    ) -> list[FactoredFold]:
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
