"""What merges are predicted to gain, and how sure that is; squared errors row by row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ctfa.core.fit import Evidence
from ctfa.core.history import MergeHistory
from ctfa.core.spaces.base import MergeSpace
from ctfa.core.types import FloatArray, IntArray, Number


class Gain(NamedTuple):
    """Predicted fall of the total risk of all members, in squared units of the target."""

    value: FloatArray
    standard_error: FloatArray


def gain(evidence: Evidence, m: float = 1.0) -> Gain:
    """Return how much a merge lowers the total prediction error of all members.

    ``stake * (r s F_star - explained)``, with ``explained``, ``s`` and ``r`` of the difference that
    a merge gives up, ``F_star = 1 + m (f_star - 1)``, and the stake of the merge:

    - targets: ``ab/(a+b)/(n-1)``, so that the gain is ``ab/(a+b) r s (F_star - F)/(n-1)``, the sum
      over ``a + b`` members of the fall of their mean squared error on new rows;
    - features: ``(n-2)/(dof (dof+1))``, the fall of Hocking's S_p: that of the one target's error;
    - pooled rows: given by the space, the sum over tasks (by their weights).

    At ``m = 1`` unbiased for Gaussian inputs (up to the factor ``1 + 1/n`` of targets and features,
    the mean's own error); pairs that were chosen for their gain have less. The standard error is
    that over the noise, Gaussian, for the inputs at hand:
    ``stake s sqrt(2 (r + 2 ncp + r^2 F_star^2/dof))``, ``ncp = max(explained/s - r, 0)``, up to a
    fifth too large where there is no difference at all. With inputs of their own it is taken as if
    they were shared.
    """
    difference = evidence.difference
    rank, dof = np.asarray(difference.rank, dtype=float), difference.dof
    noise = np.maximum(difference.residual, 0.0) / dof
    # Groups without a slope in common have an infinite F_star and nothing to gain.
    f_star = np.where(rank > 0.0, 1.0 + m * (evidence.f_star - 1.0), 1.0)
    stake = _stake(evidence)
    value = stake * (rank * noise * f_star - difference.explained)
    signal = np.maximum(difference.explained - rank * noise, 0.0)
    variance = noise * (rank * noise + 2.0 * signal) + (rank * f_star * noise) ** 2 / dof
    return Gain(np.asarray(value), np.asarray(stake * np.sqrt(2.0 * variance)))


def _stake(evidence: Evidence) -> Number:
    """Risk per unit of the difference's sum of squares."""
    if evidence.stake is not None:
        return evidence.stake
    if len(evidence.before) == 1:
        dof = evidence.difference.dof
        return (evidence.difference.n_samples - 2.0) / (dof * (dof + 1.0))
    a, b = (fit.size for fit in evidence.before)
    return a * b / (a + b) / (evidence.difference.n_samples - 1.0)


class SquaredErrors(NamedTuple):
    """A quadratic form, one a task, of what fits leave in each row.

    Rows that stand in for others have the second moments of these and so the mean of any such form,
    but not how it scatters: that is taken from the second moments, as if rows were Gaussian.
    """

    left: FloatArray  # (m, L, n), times the roots of the rows' weights; NaN where not known
    form: FloatArray  # (m, m, L), symmetric in m
    counts: FloatArray | None  # (n,): rows that each stands for; None for one each

    @classmethod
    def of(cls, left: FloatArray, counts: FloatArray | None) -> SquaredErrors:
        """Plain squares of ``(L, n)``."""
        return cls(left[None], np.ones((1, 1, left.shape[0])), counts)

    def each(self) -> FloatArray:
        """Row by row, ``(L, n)``."""
        parts = range(len(self.left))
        terms = (
            self.form[i, j][:, None] * (self.left[i] * self.left[j]) for i in parts for j in parts
        )
        return np.asarray(sum(terms))

    def mean(self) -> FloatArray:
        """Over the rows where they are known."""
        each = self.each()
        count = self._known(each)
        total = np.nansum(each, axis=1)
        return np.where(count > 0.0, total / np.where(count > 0.0, count, 1.0), np.nan)

    def less(self, other: SquaredErrors) -> Gain:
        """Mean of the difference from the squares of another fit of the same rows."""
        own, more = len(self.left), len(other.left)
        form = np.zeros((own + more, own + more, self.form.shape[2]))
        form[:own, :own], form[own:, own:] = self.form, -other.form
        saved = SquaredErrors(np.concatenate((self.left, other.left)), form, self.counts)
        return saved._mean_and_error()

    def _mean_and_error(self) -> Gain:
        each = self.each()
        count = np.maximum(self._known(each), 1.0)
        value = np.nansum(each, axis=1) / count
        if self.counts is None:
            spread = np.where(np.isnan(each), 0.0, each - value[:, None])
            variance = (spread**2).sum(axis=1) / np.maximum(count - 1.0, 1.0)
        else:
            known = np.nan_to_num(self.left)
            moments = np.einsum("iln,jln->lij", known, known) / count[:, None, None]
            product = np.moveaxis(self.form, 2, 0) @ moments
            variance = 2.0 * np.einsum("lij,lji->l", product, product)
        return Gain(np.asarray(value), np.sqrt(np.maximum(variance, 0.0) / count))

    def _known(self, each: FloatArray) -> FloatArray:
        known = ~np.isnan(each)
        return np.asarray(known.sum(axis=1) if self.counts is None else known @ self.counts, float)


class Replayed(NamedTuple):
    """The evidence of each merge."""

    f_statistic: FloatArray
    f_star: FloatArray
    gain: FloatArray
    standard_error: FloatArray


def replay(space: MergeSpace, history: MergeHistory) -> Replayed:
    """Merge again, and write down the evidence just before each merge; the space is used up.

    Merges that do not wait for each other are asked about together.
    """
    found = Replayed(*np.full((4, len(history)), np.nan))
    for steps in levels(history):
        blocks, others = history.block[steps], history.other[steps]
        evidence = space.evidence(blocks, others)
        predicted = gain(evidence)
        found.f_statistic[steps] = evidence.difference.f_statistic
        found.f_star[steps] = evidence.f_star
        found.gain[steps] = predicted.value
        found.standard_error[steps] = predicted.standard_error
        for block, other in zip(blocks.tolist(), others.tolist(), strict=True):
            space.merge(block, other)
    return found


def levels(history: MergeHistory) -> list[IntArray]:
    """Merges by how many must come before them: none of a level waits for another of it."""
    height = np.zeros(history.n_variables, dtype=np.intp)
    level = np.empty(len(history), dtype=np.intp)
    for step, (block, other) in enumerate(
        zip(history.block.tolist(), history.other.tolist(), strict=True)
    ):
        level[step] = max(height[block], height[other])
        height[block] = level[step] + 1
    order = np.argsort(level, kind="stable")
    counts = np.bincount(level) if level.size else np.empty(0, dtype=np.intp)
    return [part for part in np.split(order, np.cumsum(counts)[:-1]) if part.size]
