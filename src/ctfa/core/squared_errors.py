"""Squared errors row by row, their mean, and how far that mean is known."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ctfa.core.gains import Gain
from ctfa.core.types import FloatArray


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
