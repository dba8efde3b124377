"""A few rows that stand in for any number of them: the same count, means and cross-products.

Least squares sees nothing else of its rows, whatever it is asked. So data that do not fit in memory
are read once, summed, and replaced by as many rows as they have columns and one more, each of them
counted and weighed for many; what is written for rows works on, and makes the same decisions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ctfa.core.moments import Moments
from ctfa.core.types import FloatArray


class StandIns(NamedTuple):
    """Rows, how many each stands for, and what these weigh."""

    rows: FloatArray  # (m, p)
    counts: FloatArray  # (m,)
    weights: FloatArray  # (m,)

    @classmethod
    def of(cls, moments: Moments) -> StandIns:
        """Rows of one weight with the given moments, one more than there are columns."""
        compact = moments.compact()
        n_rows = compact.shape[0] + 1
        # A reflection that takes the first axis to the diagonal of all takes what has no first
        # coordinate to what has no mean.
        rows = np.vstack((np.zeros(compact.shape[1]), compact))
        mirror = np.full(n_rows, -1.0 / np.sqrt(n_rows))
        mirror[0] += 1.0
        rows -= np.outer(mirror, (2.0 / (mirror @ mirror)) * (mirror @ rows))
        rows *= np.sqrt(n_rows / moments.weight)
        rows += moments.mean
        each = np.ones(n_rows) / n_rows
        return cls(rows, moments.n_samples * each, moments.weight * each)


@dataclass(frozen=True, eq=False)
class Summary:
    """All that least squares needs of some rows: themselves, while they are few, or their moments.

    ``a + b`` is the summary of both. Few are no more than would stand in for them.
    """

    n_samples: int
    n_columns: int
    rows: FloatArray | None
    weights: FloatArray | None  # of the rows; None where all weigh one
    sums: Moments | None

    @classmethod
    def of(cls, rows: FloatArray, weights: FloatArray | None = None) -> Summary:
        """Sum up rows; those of weight zero do not count."""
        if weights is not None and not (weights > 0.0).all():
            rows, weights = rows[weights > 0.0], weights[weights > 0.0]
        if rows.shape[0] <= rows.shape[1] + 1:
            own = None if weights is None else weights.copy()
            return cls(rows.shape[0], rows.shape[1], rows.copy(), own, None)
        return cls.of_moments(Moments.of(rows, weights))

    @classmethod
    def of_moments(cls, sums: Moments) -> Summary:
        """Of rows that are gone."""
        return cls(sums.n_samples, sums.mean.size, None, None, sums)

    @property
    def moments(self) -> Moments:
        """Weight, means and cross-products."""
        if self.sums is not None:
            return self.sums
        assert self.rows is not None
        return Moments.of(self.rows, self.weights)

    def __add__(self, other: Summary) -> Summary:
        if self.rows is None or other.rows is None:
            return Summary.of_moments(self.moments + other.moments)
        weights = None
        if self.weights is not None or other.weights is not None:
            weights = np.concatenate((self._each(), other._each()))
        return Summary.of(np.concatenate((self.rows, other.rows)), weights)

    def stand_ins(self) -> StandIns:
        """Rows to work with."""
        if self.rows is None:
            return StandIns.of(self.moments)
        return StandIns(self.rows, np.ones(self.n_samples), self._each())

    def _each(self) -> FloatArray:
        return np.ones(self.n_samples) if self.weights is None else self.weights


def stacked(parts: Sequence[StandIns]) -> StandIns:
    """All of them, one after another."""
    return StandIns(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
