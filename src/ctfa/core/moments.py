"""Counts, means and centred cross-products: they add, and a few rows can stand in for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ctfa.core.types import BoolArray, FloatArray, IntArray

#: Eigenvalues of cross-products of unit columns below this (per column) are rounding.
SQUARED_CUTOFF = 1e-14
#: Below this one the digits that squaring left may decide a merge; callers warn.
DOUBTFUL_SQUARE = 1e-10
#: A column whose spread is below this share of its mean is constant.
CONSTANT_CUTOFF = 2e-15
#: Numbers handled at once: two megabytes, which stay in the cache from the mean to the products.
CACHED_NUMBERS = 1 << 18
#: Rows of a piece, at least, for each of its columns.
TALLER = 4


@dataclass(frozen=True, eq=False)
class Moments:
    """Weight, mean and centred cross-products of the columns of ``[X, Y]``.

    ``a + b`` are the moments of the stacked rows. Chunks are merged about their own means (Chan,
    Golub and LeVeque), never as raw sums of products: with an offset of 1e8 raw sums lose every
    digit of the variance, centred ones lose none.
    """

    n_samples: int
    weight: float  # sum of the weights; n_samples when there are none
    mean: FloatArray
    cross: FloatArray

    @classmethod
    def none(cls, width: int) -> Moments:
        """Moments of no rows."""
        return cls(0, 0.0, np.zeros(width), np.zeros((width, width)))

    @classmethod
    def of(cls, rows: FloatArray, weights: FloatArray | None = None) -> Moments:
        """Moments of a chunk of rows; rows of weight zero do not count."""
        if weights is not None and not (weights > 0.0).all():
            used = weights > 0.0
            rows, weights = rows[used], weights[used]
        width = max(rows.shape[1], 1)
        # Wide rows in pieces taller than wide: else adding would cost more than multiplying.
        height = max(CACHED_NUMBERS // width, TALLER * width)
        starts = range(0, rows.shape[0], height)
        return add_up(
            (cls._of_piece(rows[start : start + height], weights, start) for start in starts),
            cls.none(rows.shape[1]),
        )

    @classmethod
    def _of_piece(cls, rows: FloatArray, weights: FloatArray | None, start: int) -> Moments:
        n_rows = rows.shape[0]
        each = np.ones(n_rows) if weights is None else weights[start : start + n_rows]
        total = float(each.sum())
        mean = each @ rows / total
        centred = rows - mean
        # One correction of the mean: its own rounding, squared, is the error of the products.
        shift = each @ centred / total
        centred -= shift
        if weights is not None:
            centred *= np.sqrt(each)[:, None]
        return cls(n_rows, total, mean + shift, centred.T @ centred)

    def __add__(self, other: Moments) -> Moments:
        if self.mean.shape != other.mean.shape:
            raise ValueError(
                f"moments of {self.mean.size} and {other.mean.size} columns cannot be added: take "
                "both over the same columns."
            )
        if other.n_samples == 0 or self.n_samples == 0:
            return other if self.n_samples == 0 else self
        weight = self.weight + other.weight
        gap = other.mean - self.mean
        return Moments(
            self.n_samples + other.n_samples,
            weight,
            self.mean + gap * (other.weight / weight),
            self.cross + other.cross + (self.weight * other.weight / weight) * np.outer(gap, gap),
        )

    def compact(self) -> FloatArray:
        """As many rows as columns, already centred, with the same cross-products.

        Whatever is computed from centred data can be computed from these rows instead. Squaring
        has cost half the digits: directions below 1e-7 of the strongest are taken for zero.
        """
        length, varies, values, vectors = self._directions()
        values = np.where(values > SQUARED_CUTOFF * values.size, values, 0.0)
        return np.asarray(np.sqrt(values)[:, None] * vectors.T * np.where(varies, length, 0.0))

    def weakest(self, columns: IntArray) -> float:
        """Smallest eigenvalue of the cross-products of some columns, at unit length.

        Rounding, to which it may be lost, is of the order of 1e-16.
        """
        _, varies, values, _ = Moments(
            self.n_samples, self.weight, self.mean[columns], self.cross[np.ix_(columns, columns)]
        )._directions()
        constant = int(np.count_nonzero(~varies))
        return float(np.sort(values)[constant]) if constant < values.size else 1.0

    def _directions(self) -> tuple[FloatArray, BoolArray, FloatArray, FloatArray]:
        length = np.sqrt(np.maximum(np.diagonal(self.cross), 0.0))
        # A constant column is zero up to the rounding of its mean.
        varies = length > CONSTANT_CUTOFF * np.sqrt(self.weight) * np.abs(self.mean)
        scale = np.where(varies, length, np.inf)
        values, vectors = np.linalg.eigh(self.cross / np.outer(scale, scale))
        return length, varies, values, vectors


def add_up(parts: Iterable[Moments], nothing: Moments | None = None) -> Moments:
    """Add neighbours, then their sums: rounding grows with the logarithm of their number.

    So does memory: of parts that come one by one, those that could be added have been.
    """
    waiting: list[tuple[int, Moments]] = []  # sums of so many parts, powers of two that fall
    for part in parts:
        count, total = 1, part
        while waiting and waiting[-1][0] == count:
            total = waiting.pop()[1] + total
            count *= 2
        waiting.append((count, total))
    found = nothing
    for _, total in reversed(waiting):
        found = total if found is None or found.n_samples == 0 else total + found
    if found is None:
        raise ValueError("no moments were given to be added: give one or more.")
    return found


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
