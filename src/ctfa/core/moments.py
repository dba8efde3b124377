"""Counts, means and centred cross-products: all the method needs, and they add."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ctfa.core.types import FloatArray

#: Eigenvalues of cross-products of unit columns below this (per column) are rounding.
SQUARED_CUTOFF = 1e-14
#: A column whose spread is below this share of its mean is constant.
CONSTANT_CUTOFF = 2e-15


@dataclass(frozen=True, eq=False)
class Moments:
    """Weight, mean and centred cross-products of the columns of ``[X, Y]``.

    ``a + b`` are the moments of the stacked rows. Chunks are merged about their own means
    (Chan, Golub and LeVeque), never as raw sums of products: with an offset of 1e8 raw sums lose
    every digit of the variance, centred ones lose none.
    """

    n_samples: int
    weight: float  # sum of the weights; n_samples when there are none
    mean: FloatArray
    cross: FloatArray

    @classmethod
    def of(cls, rows: FloatArray, weights: FloatArray | None = None) -> Moments:
        """Moments of a chunk of rows; rows of weight zero do not count."""
        if weights is None:
            weights = np.ones(rows.shape[0])
        used = weights > 0.0
        rows, weights = rows[used], weights[used]
        total = float(weights.sum())
        if rows.shape[0] == 0:
            width = rows.shape[1]
            return cls(0, 0.0, np.zeros(width), np.zeros((width, width)))
        mean = weights @ rows / total
        centred = rows - mean
        # One correction of the mean: its own rounding, squared, is the error of the products.
        shift = weights @ centred / total
        centred -= shift
        centred *= np.sqrt(weights)[:, None]
        return cls(int(rows.shape[0]), total, mean + shift, centred.T @ centred)

    def __add__(self, other: Moments) -> Moments:
        if self.mean.shape != other.mean.shape:
            raise ValueError(
                f"moments of {self.mean.size} and {other.mean.size} columns cannot be added"
            )
        weight = self.weight + other.weight
        if weight == 0.0:
            return self
        gap = other.mean - self.mean
        return Moments(
            self.n_samples + other.n_samples,
            weight,
            self.mean + gap * (other.weight / weight),
            self.cross + other.cross + (self.weight * other.weight / weight) * np.outer(gap, gap),
        )

    def normalised(self) -> Moments:
        """Rescale the weights so that they sum to the number of samples."""
        factor = self.n_samples / self.weight
        return Moments(self.n_samples, float(self.n_samples), self.mean, self.cross * factor)

    def compact(self) -> FloatArray:
        """As many rows as columns, already centred, with the same cross-products.

        Whatever is computed from centred data can be computed from these rows instead. Squaring
        has cost half the digits: directions below 1e-7 of the strongest are taken for zero.
        """
        length = np.sqrt(np.diagonal(self.cross))
        # A constant column is zero up to the rounding of its mean.
        varies = length > CONSTANT_CUTOFF * np.sqrt(self.n_samples) * np.abs(self.mean)
        scale = np.where(varies, length, np.inf)
        values, vectors = np.linalg.eigh(self.cross / np.outer(scale, scale))
        values = np.where(values > SQUARED_CUTOFF * values.size, values, 0.0)
        return np.asarray(np.sqrt(values)[:, None] * vectors.T * np.where(varies, length, 0.0))
