"""What is left when rows are subtracted, and whether they can have been there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from ctfa._validation import chunks
from ctfa.core.moments import CONSTANT_CUTOFF, SQUARED_CUTOFF, Moments, add_up
from ctfa.core.stand_ins import Summary
from ctfa.core.types import FloatArray, IntArray

#: Shares of what was there that may be negative by rounding.
ROUNDING = 1e-9
#: The same, of means: so many units in the last place; and the most of both that is let pass.
EPSILONS = 16 * np.finfo(np.float64).eps
MOST_ROUNDING = 1e-6
#: Shares of the most that squares have been that are rounding alone: the column is constant now.
NOTHING = 64 * np.finfo(np.float64).eps
#: Squares that were so many times those that are left cost digits worth speaking of.
GROWN = 16.0


def require_remainder(before: Summary | None, gone: Summary) -> Summary | None:
    """What is left of some rows without others, None if nothing is; others are refused."""
    if gone.n_samples == 0:
        return before
    if before is None or gone.n_samples > before.n_samples:
        raise ValueError(chunks.NOT_ADDED)
    try:
        after = before - gone
    except ValueError as error:
        raise ValueError(chunks.NOT_ADDED) from error
    if before.rows is None or gone.rows is None:
        _require_possible(before.moments, gone.moments, after.moments)
    return after if after.n_samples else None


def _require_possible(before: Moments, gone: Moments, after: Moments) -> None:
    """Refuse sums of squares that no rows can have."""
    length = np.sqrt(np.maximum(np.diagonal(before.cross), 0.0))
    floor = CONSTANT_CUTOFF * np.sqrt(before.weight) * np.abs(before.mean)
    scale = np.where(length > floor, length, np.inf)
    # Means are rounded, too: of columns far from zero that is more.
    of_means = EPSILONS * np.sqrt(before.weight) * np.abs(before.mean) / scale
    slack = np.minimum(ROUNDING + of_means, MOST_ROUNDING)
    rest = after.cross / np.outer(scale, scale)
    if after.n_samples == 0:
        # Nothing is left, so both must be the same.
        rest = (before.cross - gone.cross) / np.outer(scale, scale)
        shift = np.sqrt(before.weight) * (before.mean - gone.mean)
        same = (np.abs(rest) <= np.maximum(slack[:, None], slack)).all()
        near = (np.abs(shift) <= 1e-6 * np.maximum(length, floor)).all()
        chunks.refuse_unless(same and near, chunks.NOT_ADDED)
        return
    chunks.refuse_unless(after.weight > ROUNDING * before.weight, chunks.NOT_ADDED)
    rest[np.diag_indices_from(rest)] += slack
    try:
        np.linalg.cholesky(rest)
    except np.linalg.LinAlgError as error:
        raise ValueError(chunks.NOT_ADDED) from error


def without_rounding(left: Summary, most: FloatArray, names: Sequence[str]) -> Summary:
    """What is left of sums, without the rounding of columns that are constant by now.

    ``most`` are the centred squares that columns have had at most; where what is left is neither
    rounding nor to be trusted, it is refused.
    """
    if left.rows is not None:
        return left
    squares = np.maximum(np.diagonal(left.moments.cross), 0.0)
    flat = (squares <= NOTHING * most) | (left.n_samples == 1)
    chunks.require_digits_left(np.where(flat, most, squares), most, names)
    cross = np.where(flat[:, None] | flat, 0.0, left.moments.cross)
    return Summary.of_moments(replace(left.moments, cross=cross))


def require_directions(
    parts: Sequence[Summary],
    largest: FloatArray,
    names: Sequence[str],
    together: Sequence[IntArray] | None = None,
) -> None:
    """Refuse what is left of columns that depend on each other, when that is rounding.

    ``largest`` are the most that squares have been: their last digit is the error of every sum.
    Columns may each be known well and what one has beside the others not at all. ``together`` are
    the columns of each fit, where these are not all.
    """
    squares = squares_of(parts)
    varies = squares > 0.0
    grown = np.divide(largest, squares, out=np.zeros_like(largest), where=varies)
    if not (grown > GROWN).any():
        return
    cross = add_up([part.moments for part in parts]).cross
    for columns in [np.arange(largest.size)] if together is None else together:
        own = columns[varies[columns]]
        length = np.sqrt(squares[own])
        values, vectors = np.linalg.eigh(cross[np.ix_(own, own)] / np.outer(length, length))
        lost = grown[own] @ vectors**2
        error = np.finfo(np.float64).eps * lost
        # Below the cutoff a direction is none, and rounding makes none of it.
        cutoff = SQUARED_CUTOFF * own.size
        is_none = (values <= cutoff) & (4.0 * error <= cutoff)
        digits = np.where(is_none | (lost <= GROWN), np.inf, values / error)
        if own.size:
            worst = int(np.argmin(digits))
            mixed = own[np.argsort(-np.abs(vectors[:, worst]))[:2]]
            chunks.require_digits_of_direction(digits[worst], [names[i] for i in mixed])


def of_possible_rank(summary: Summary) -> Summary:
    """Sums of few rows without directions of rounding: of k rows there are k - 1 at most."""
    n_samples, width = summary.n_samples, summary.n_columns
    if summary.rows is not None or n_samples > width:
        return summary
    cross = summary.moments.cross
    length = np.sqrt(np.maximum(np.diagonal(cross), 0.0))
    scale = np.where(length > 0.0, length, np.inf)
    values, vectors = np.linalg.eigh(cross / np.outer(scale, scale))
    values = np.where(np.arange(width) > width - n_samples, np.maximum(values, 0.0), 0.0)
    unit = (vectors * values) @ vectors.T
    return Summary.of_moments(replace(summary.moments, cross=unit * np.outer(length, length)))


def squares_of(parts: Iterable[Summary]) -> FloatArray:
    """Centred squares of every column over all parts; zero where they are rounding."""
    moments = [summary.moments for summary in parts]
    weights, means = np.array([m.weight for m in moments]), np.array([m.mean for m in moments])
    within = np.array([np.maximum(np.diagonal(m.cross), 0.0) for m in moments])
    mean = np.average(means, axis=0, weights=weights)
    squares = within.sum(axis=0) + weights @ (means - mean) ** 2
    floor = CONSTANT_CUTOFF * np.sqrt(weights.sum()) * np.abs(mean)
    return np.where(squares > floor**2, squares, 0.0)
