"""Tasks that have rows of their own and may share coefficients, by ridge regression (Phase I)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from ctfa.core.fit import Evidence, Fit
from ctfa.core.small_fits import (
    Judged,
    about_mean,
    chunks,
    coefficients,
    judge_gram,
    moments_of,
    replace,
)
from ctfa.core.spaces.base import MergeSpace, unit_vectors
from ctfa.core.spaces.pooled import pooled_rows
from ctfa.core.types import FloatArray, IntArray


class PenalisedPooledSpace(MergeSpace):
    """Tasks to merge by pooling their rows, as in ``PooledSpace``, fitted by ridge regression.

    Common slopes, one intercept for each task. Cross-products of ``[X, y]`` about each task's means
    add over tasks, and so do their triangles, stacked: the first answer nearly every question, the
    second where hardly a row is spared or hardly anything is left of the target. Each fit has the
    penalty that generalised cross-validation prefers, so that a task may have fewer rows than
    inputs.

    The value of a group is minus its residual sum of squares as if each of its rows were left out:
    every row counts alike, and tasks by their rows (up to terms of order ``1/n`` what each task
    weighs does not move where pooling breaks even, ``core/pooling.py``). A merge gains ``res_P +
    res_Q - res_PQ``. ``cross_validated_risk`` reads that as what separate slopes explain, against
    the noise they leave: its loss is ``1 - gain/(q s)``, with ``s = (res_P + res_Q)/(n-1)`` and
    ``q = r_P + r_Q - r_PQ`` effective coefficients that a merge frees, at least one. For least
    squares a gain is ``q s (2 - F)`` with Chow's F, up to terms of order ``r/n``, and the loss
    ``F - 1``: that of ``target_risk``, whose ``F_star`` is 2 in the same limit.

    A group with no more rows than intercepts says nothing of slopes and errs without bound alone:
    pooling costs nobody anything, and its loss is zero.
    """

    def __init__(
        self, triangles: FloatArray, n_rows: FloatArray, n_levels: FloatArray, n_inputs: int
    ) -> None:
        self._triangle = triangles  # (groups, rows, inputs then target); owned and changed
        self._gram = triangles.swapaxes(1, 2) @ triangles
        self._n_rows, self._n_levels = n_rows, n_levels
        self.n_variables, self.n_inputs = int(triangles.shape[0]), n_inputs
        everyone = np.arange(self.n_variables)
        self._fitted = self._judge(everyone)
        spare = np.maximum(n_rows - n_levels, 1.0)
        #: Mean variance of the targets as they stand, the scale of losses in target units.
        self.total_variance = float((self._gram[:, -1, -1] / spare).mean())
        # Of the inputs over the rows of all groups.
        inputs = self._gram[:, :-1, :-1].sum(axis=0)
        values, vectors = np.linalg.eigh(inputs)
        self._metric = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
        self._prediction = self._predict(everyone)

    @classmethod
    def of(
        cls,
        inputs: Sequence[FloatArray],
        targets: Sequence[FloatArray],
        *,
        groups: Sequence[Sequence[int]] | None = None,
        row_weights: Sequence[FloatArray] | None = None,
    ) -> PenalisedPooledSpace:
        """Build from each task's rows, ``(samples, inputs)`` and ``(samples,)``.

        ``groups`` of tasks are pooled from the start. ``row_weights`` are analytic: a row's noise
        has a variance that is so many times smaller; rows of weight zero do not count.
        """
        n_inputs = inputs[0].shape[1]
        groups = [[task] for task in range(len(inputs))] if groups is None else groups
        row_weights = [np.ones(len(y)) for y in targets] if row_weights is None else row_weights
        counts = np.array([float(np.count_nonzero(weight)) for weight in row_weights])
        pooled, length = pooled_rows(inputs, targets, groups, row_weights)
        scale = np.where(length > 0.0, length, 1.0)
        scale[-1] = 1.0
        triangles = np.zeros((len(groups), n_inputs + 1, n_inputs + 1))
        for slot, rows in enumerate(pooled):
            triangle = np.asarray(np.linalg.qr(rows / scale, mode="r"))
            triangles[slot, : triangle.shape[0]] = triangle
        n_rows = np.array([counts[list(group)].sum() for group in groups])
        n_levels = np.array([float(len(group)) for group in groups])
        return cls(triangles, n_rows, n_levels, n_inputs)

    def evidence(self, block: int | IntArray, others: IntArray) -> Evidence:
        """Both pooled fits, the one of all rows, and what separate slopes explain."""
        blocks = np.broadcast_to(block, others.shape)
        both = cache(lambda: self._joined(blocks, others))

        def after() -> Fit:
            square = self._gram[blocks, -1, -1] + self._gram[others, -1, -1]
            return self._fit(both(), square, *self._counts(blocks, others))

        return Evidence(
            lambda: (self._fit_of(blocks), self._fit_of(others)),
            after,
            lambda: self._difference(blocks, others, both()),
        )

    def correlation(self, block: int | IntArray, others: IntArray) -> FloatArray:
        """Correlation of what two groups' slopes predict, over the rows of all tasks."""
        mine, theirs = self._prediction[block], self._prediction[others]
        return np.asarray(np.einsum("...j,...j->...", mine, theirs))

    def merge(self, block: int, other: int) -> None:
        """Pool the rows of two groups."""
        stacked = np.concatenate((self._triangle[block], self._triangle[other]))
        self._triangle[block] = np.linalg.qr(stacked, mode="r")
        self._gram[block] = self._triangle[block].T @ self._triangle[block]
        self._n_rows[block] += self._n_rows[other]
        self._n_levels[block] += self._n_levels[other]
        at = np.array([block])
        replace(self._fitted, at, self._judge(at))
        self._prediction[at] = self._predict(at)

    def mean_correlation(self) -> FloatArray:
        """Average correlation of each task's predictions with those of all of them."""
        return np.asarray(self._prediction @ self._prediction.mean(axis=0))

    def _counts(self, blocks: IntArray, others: IntArray) -> tuple[FloatArray, FloatArray]:
        """Rows and intercepts of two groups together."""
        n_rows = self._n_rows[blocks] + self._n_rows[others]
        return n_rows, self._n_levels[blocks] + self._n_levels[others]

    def _joined(self, blocks: IntArray, others: IntArray) -> Judged:
        """Fits of the rows of two groups together."""
        found = Judged(*(np.empty(others.size) for _ in Judged._fields))
        for chunk in chunks(others.size, self._gram[0].size):
            replace(found, chunk, self._judge(blocks[chunk], others[chunk]))
        return found

    def _judge(self, blocks: IntArray, others: IntArray | None = None) -> Judged:
        """Fits of the rows of groups, or of two groups together in pairs."""
        if others is None:
            gram, counts = self._gram[blocks], (self._n_rows[blocks], self._n_levels[blocks])
        else:
            gram, counts = self._gram[blocks] + self._gram[others], self._counts(blocks, others)

        def columns(weak: IntArray) -> FloatArray:
            sides = [self._triangle[side[weak]] for side in (blocks, others) if side is not None]
            return np.concatenate(sides, axis=1).swapaxes(1, 2)

        return judge_gram(gram, *counts, columns)

    def _fit_of(self, blocks: IntArray) -> Fit:
        found = Judged(*(column[blocks] for column in self._fitted))
        square = self._gram[blocks, -1, -1]
        return self._fit(found, square, self._n_rows[blocks], self._n_levels[blocks])

    def _fit(
        self, found: Judged, square: FloatArray, n_rows: FloatArray, n_levels: FloatArray
    ) -> Fit:
        explained = about_mean(square, n_rows, n_levels) - found.residual
        dof = np.maximum(n_rows - n_levels, 1.0)
        return Fit(explained, found.residual, n_rows, self.n_inputs, found.used, dof, n_levels)

    def _difference(self, blocks: IntArray, others: IntArray, both: Judged) -> Fit:
        """What separate slopes explain of rows left out, against the noise that they leave."""
        first, second = (
            Judged(*(column[at] for column in self._fitted)) for at in (blocks, others)
        )
        n_rows, n_levels = self._counts(blocks, others)
        residual = first.residual + second.residual
        explained = both.residual - residual
        freed = np.maximum(first.used + second.used - both.used, 1.0)
        # A unit is gained where a side has no row to spare: nothing else is known.
        alone = self._n_rows <= self._n_levels
        free = alone[blocks] | alone[others]
        residual = np.where(free, np.where(both.residual > 0.0, both.residual, 1.0), residual)
        explained = np.where(free, -residual * freed / (n_rows - 1.0), explained)
        dof = np.maximum(n_rows - n_levels, 1.0)
        return Fit(explained, residual, n_rows, self.n_inputs, freed, dof, n_levels)

    def _predict(self, blocks: IntArray) -> FloatArray:
        """Unit vectors of what groups' slopes predict; zero where they are zero."""
        moments = moments_of(self._gram[blocks], self._n_rows[blocks], self._n_levels[blocks])
        predicted = coefficients(moments, self._fitted.penalty[blocks]) @ self._metric.T
        return unit_vectors(predicted, np.einsum("bk,bk->b", predicted, predicted))
