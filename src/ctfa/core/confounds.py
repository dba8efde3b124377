"""Seasons or a trend, which are removed from every series first.

Each series is regressed on the columns of confounds with an intercept, over the rows given and
where it is observed; the residuals are its anomalies. Columns may depend on each other (all twelve
months beside the intercept, a month that some rows lack). Of all slopes that fit alike those are
taken whose effects, slope times length of the column, are the least: for indicators of months the
slopes then average to zero over the rows, and in a month that was never seen a series has its mean
(and its trend).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import linalg

from ctfa.core.design import EPS, column_lengths, reflected, row_scales, weighted_mean
from ctfa.core.small_fits import patterns
from ctfa.core.types import FloatArray, IntArray

#: Singular values of unit columns below this share of the largest are rounding. Months, harmonics
#: and trends are far from it; a tighter cut would take the rounding of a dependent column for one.
RANK_CUTOFF = 1e-10
#: Residuals that vary by less than this share of the largest value are rounding: the confounds
#: explain such a series completely.
RESIDUE = 1e3 * EPS
#: Eigenvalues below this share of the largest are rounding, as of twelve months that add up to one.
SQUARED_CUTOFF = 1e-10
#: Rows whose products of columns are held at once.
ROWS_AT_ONCE = 4096

#: An orthogonal matrix as LAPACK packs it: vectors of reflections, and their factors.
Reflectors = tuple[FloatArray, FloatArray]


class Lines(NamedTuple):
    """What confounds explain of series: ``level + (columns - centre) @ slopes``."""

    levels: FloatArray  # (m,)
    slopes: FloatArray  # (m, p)
    centre: FloatArray  # (p,): means of the columns over the rows they were found on

    def at(self, columns: FloatArray) -> FloatArray:
        """Values in rows of these columns, ``(n, m)``."""
        return np.asarray(self.levels + (columns - self.centre) @ self.slopes.T)


@dataclass(frozen=True, eq=False)
class Confounds:
    """Columns ``(n, p)`` over some rows, centred (and weighted) and factored once."""

    columns: FloatArray
    weights: FloatArray | None
    centre: FloatArray
    row_scale: FloatArray  # roots of the weights, which sum to the number of rows that count
    basis: FloatArray  # (n, rank): orthonormal, of the centred and weighted columns
    to_slopes: FloatArray  # (p, rank): slopes of what has these coordinates

    @classmethod
    def of(
        cls, columns: FloatArray, weights: FloatArray | None = None, n_samples: int | None = None
    ) -> Confounds:
        """Factor by singular values; ``n_samples`` where rows stand in for so many."""
        used, scale = row_scales(columns.shape[0], weights, n_samples)
        row_scale = np.zeros(columns.shape[0])
        row_scale[used] = scale
        centre = weighted_mean(columns, row_scale)
        centred = (columns - centre) * row_scale[:, None]
        spread = column_lengths(centre, centred)
        varying = np.flatnonzero(spread > 0.0)
        left, values, _ = np.linalg.svd(centred[:, varying] / spread[varying], full_matrices=False)
        rank = int(np.count_nonzero(values > RANK_CUTOFF * values.max(initial=0.0)))
        basis = left[:, :rank]
        to_slopes = np.zeros((columns.shape[1], rank))
        if rank:
            # Rank is decided on columns of unit spread, slopes are shortest by their lengths.
            length = np.sqrt(spread[varying] ** 2 + (row_scale**2).sum() * centre[varying] ** 2)
            u, s, v = np.linalg.svd(centred[:, varying] / length, full_matrices=False)
            inverse = v[:rank].T / s[:rank] @ (u[:, :rank].T @ basis)
            to_slopes[varying] = inverse / length[:, None]
        return cls(columns, weights, centre, row_scale, basis, to_slopes)

    @property
    def rank(self) -> int:
        """Degrees of freedom that a series spends on it, beside the intercept."""
        return int(self.basis.shape[1])

    def take_off(self, rows: FloatArray) -> tuple[Lines, FloatArray]:
        """Leave the residuals of series ``(m, n)`` in place, NaN where missing.

        Returns what was taken off and the standard deviations of what is left: zero, and the
        residuals too, where that is rounding.
        """
        n_series = rows.shape[0]
        levels, slopes = np.zeros(n_series), np.zeros((n_series, self.centre.size))
        spread = np.zeros(n_series)
        observed = ~np.isnan(rows)
        if observed.all():
            levels[:], slopes[:], spread[:] = self._take_off_whole(rows)
            return Lines(levels, slopes, self.centre), spread
        for kept, members in patterns(observed.T):
            if not self.row_scale[kept].any():
                continue
            part = self
            if not kept.all():
                weights = None if self.weights is None else self.weights[kept]
                part = Confounds.of(self.columns[kept], weights)
            some = rows[np.ix_(members, kept)]
            level, slope, spread[members] = part._take_off_whole(some)
            rows[np.ix_(members, kept)] = some
            # Levels are those at one centre, whatever the rows a series was seen in.
            levels[members] = level + slope @ (self.centre - part.centre)
            slopes[members] = slope
        return Lines(levels, slopes, self.centre), spread

    def free_rows(self, residuals: FloatArray) -> FloatArray:
        """Complete residuals ``(..., n)`` in coordinates ``(..., n - rank)`` of their own.

        Residuals have only ``n - rank - 1`` dimensions. In an orthonormal basis of these, embedded
        among the vectors of ``n - rank`` numbers with mean zero, every inner product is what it
        was (weights included), and the number of rows counts the degrees of freedom that are left.
        """
        used = self.row_scale > 0.0
        series = residuals[..., used] * self.row_scale[used]
        shape = (*series.shape[:-1], series.shape[-1] - self.rank)
        if not series.size:
            return np.zeros(shape)
        # By reflections, never formed: a matrix for all rows would be as large as their square.
        away, towards = self._turns
        flat = series.reshape(-1, series.shape[-1])
        free = reflected(*away, flat.T, transposed=True)[self.rank :]
        free[0] = 0.0  # along the level, which residuals have nothing of
        free = reflected(*towards, free, transposed=False)
        return np.ascontiguousarray(free.T).reshape(shape)

    @cached_property
    def _turns(self) -> tuple[Reflectors, Reflectors]:
        """From weighted rows to what the confounds leave, and from there to mean zero."""
        used = self.row_scale > 0.0
        level = self.row_scale[used] / linalg.norm(self.row_scale)
        taken = np.column_stack((self.basis[used], level))
        n_free = taken.shape[0] - self.rank
        away: Reflectors = linalg.qr(taken, mode="raw")[0]  # type: ignore[assignment]
        towards: Reflectors = linalg.qr(np.ones((n_free, 1)), mode="raw")[0]  # type: ignore[assignment]
        return away, towards

    def _take_off_whole(self, rows: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        weight = self.row_scale**2
        total = weight.sum()
        counts = weight > 0.0
        about = (self.columns - self.centre).T
        largest = np.abs(rows[:, counts]).max(axis=1, initial=0.0)
        levels, slopes = np.zeros(rows.shape[0]), np.zeros((rows.shape[0], self.centre.size))
        for _ in range(2):  # twice: the first sweep leaves rounding of what it removed
            step = rows @ weight / total
            rows -= step[:, None]
            levels += step
            found = (rows * self.row_scale) @ self.basis @ self.to_slopes.T
            rows -= found @ about
            slopes += found
        spread = np.sqrt(rows**2 @ weight / total)
        nothing = spread <= RESIDUE * largest
        rows[np.ix_(nothing, counts)] = 0.0
        return levels, slopes, np.where(nothing, 0.0, spread)


def take_off(
    values: FloatArray,
    columns: FloatArray,
    weights: FloatArray | None,
    n_samples: int | None = None,
) -> tuple[FloatArray, Lines, Confounds]:
    """Residuals of the columns of a table ``(n, m)`` on confounds, as a new table."""
    confounds = Confounds.of(columns, weights, n_samples)
    rows = values.T.copy()
    lines, _ = confounds.take_off(rows)
    return rows.T, lines, confounds


def climatology_of(values: FloatArray, columns: FloatArray, weights: FloatArray | None) -> Lines:
    """What columns explain of each series ``(n, m)``, by least squares on the rows it has.

    Where parts of the calendar are never seen, the mean stands for them, as in ``take_off``.
    """
    there = ~np.isnan(values)
    if there.all():
        return take_off(values, columns, weights)[1]
    # Series with gaps of their own, all at once: by inner products, of some thousand at a time.
    parts = [
        _lined(values[:, at : at + 2000], there[:, at : at + 2000], columns, weights)
        for at in range(0, values.shape[1], 2000)
    ]
    levels, slopes = (np.concatenate(each) for each in list(zip(*parts, strict=True))[:2])
    return Lines(levels, slopes, np.zeros(columns.shape[1]))


def _lined(
    values: FloatArray, there: FloatArray, columns: FloatArray, weights: FloatArray | None
) -> Lines:
    n_columns = columns.shape[1]
    weight = there * (np.ones(len(values)) if weights is None else weights)[:, None]
    total = np.maximum(weight.sum(axis=0), np.finfo(float).tiny)
    known = np.where(there, values, 0.0)
    level = (weight * known).sum(axis=0) / total
    left = np.where(there, known - level, 0.0)
    gram = np.zeros((len(total), n_columns**2))
    for at in range(0, len(columns), ROWS_AT_ONCE):
        some = columns[at : at + ROWS_AT_ONCE]
        pairs = (some[:, :, None] * some[:, None, :]).reshape(len(some), n_columns**2)
        gram += weight[at : at + ROWS_AT_ONCE].T @ pairs
    gram = gram.reshape(len(total), n_columns, n_columns)
    centre = (weight.T @ columns) / total[:, None]
    return solved(total, level, centre, gram, (weight * left).T @ columns)


def solved(
    total: FloatArray, level: FloatArray, centre: FloatArray, gram: FloatArray, product: FloatArray
) -> Lines:
    """Least squares from sums: products of columns, and of columns with series about their means.

    One of the first for all series, or one each. Of slopes that fit alike those of the least
    effects, slope times length of the column.
    """
    length = np.sqrt(np.maximum(np.einsum("mpp->mp", gram), 0.0))
    unit = np.divide(1.0, length, out=np.zeros_like(length), where=length > 0.0)
    about = gram - total[:, None, None] * centre[:, :, None] * centre[:, None, :]
    about *= unit[:, :, None] * unit[:, None, :]
    inverse = np.linalg.pinv(about, rcond=SQUARED_CUTOFF, hermitian=True)
    slopes = (inverse @ (product * unit)[:, :, None])[:, :, 0] * unit
    # At columns of zero, whatever the rows that a series was seen in.
    return Lines(level - (slopes * centre).sum(axis=1), slopes, np.zeros(gram.shape[-1]))


def held_out_share(
    values: FloatArray, columns: FloatArray, blocks: IntArray, beside: FloatArray | None = None
) -> FloatArray:
    """Share of the variance of series ``(n, m)`` that columns explain in rows left out.

    Each block of rows is predicted by regressions on all others, with the columns and without;
    ``beside`` are columns that both have. The share of noise is below zero, however many columns
    there are, and so is that of autocorrelated noise, if blocks are longer than its memory. NaN
    where a series does not vary.
    """
    known = np.zeros((len(values), 0)) if beside is None else beside
    less, more = np.zeros((2, values.shape[1]))
    for block in np.unique(blocks):
        rows, rest = blocks == block, blocks != block
        for total, given in ((less, known), (more, np.column_stack([known, columns]))):
            said = climatology_of(values[rest], given[rest], None).at(given[rows])
            total[:] += np.nansum((values[rows] - said) ** 2, axis=0)
    varies = less > EPS * np.nansum(values**2, axis=0)
    return np.where(varies, 1.0 - more / np.where(varies, less, 1.0), np.nan)
