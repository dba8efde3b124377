"""Checks of what the theory is given, in one place: numbers, samples, covariances."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray: TypeAlias = NDArray[np.float64]
Numbers: TypeAlias = float | FloatArray
Design: TypeAlias = Literal["asymptotic", "gaussian"]

RANK_TOLERANCE = 1e-12  # eigenvalues of a correlation matrix below this share of the largest are 0
ROUNDING = 1e-9  # how far a correlation or an R2 may pass its bound and still be put back on it


def number(name: str, value: ArrayLike, low: float = 0, high: float = np.inf) -> FloatArray:
    """Give a float64 array, finite and in [low, high]; a rounding error beyond 1 is put back."""
    number = np.asarray(value, dtype=np.float64)
    slack = ROUNDING if np.isfinite(high) else 0
    bad = ~(np.isfinite(number) & (number >= low - slack) & (number <= high + slack))
    if np.any(bad):
        raise ValueError(
            f"{name} is {number[bad][0]:g}: it must be a finite number between {low:g} and "
            f"{high:g}. Check its units and the order of the arguments."
        )
    return np.clip(number, low, high)


def sample(
    n_samples: ArrayLike, n_inputs: ArrayLike, design: Design
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Give n, d and what divides the precision in Lemma 1: n-1, or n-d-2 for Gaussian inputs."""
    if design not in get_args(Design):
        raise ValueError(f"design is {design!r}, which is unknown: use one of {get_args(Design)}.")
    n, d = number("n_samples", n_samples), number("n_inputs", n_inputs)
    needed = 1 + (d + 1) * (design == "gaussian")
    if np.any(n <= needed):
        raise ValueError(
            f"n_samples is {n} for {d} inputs: the {design} form needs more than "
            f"{needed} samples. Use more samples or fewer inputs."
        )
    return n, d, n - needed


def covariance_matrix(value: ArrayLike) -> FloatArray:
    """Give a covariance as a matrix, square, finite, symmetric and positive semidefinite."""
    matrix = np.asarray(value, dtype=np.float64)
    square = matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1] and np.isfinite(matrix).all()
    slack = ROUNDING * np.max(np.abs(matrix), initial=0)
    if (
        not square
        or np.any(np.abs(matrix - matrix.T) > slack)
        or np.any(np.linalg.eigvalsh(matrix) < -slack)
    ):
        raise ValueError(
            f"An array of shape {matrix.shape} was given as a covariance, which must be square, "
            f"finite, symmetric and positive semidefinite. Use e.g. numpy.cov(..., rowvar=False)."
        )
    return matrix


def cross_covariance_of(value: ArrayLike, n_inputs: int) -> FloatArray:
    """Give covariances with the inputs, one row an input."""
    cross = np.asarray(value, dtype=np.float64)
    if cross.shape[:1] != (n_inputs,) or not np.isfinite(cross).all():
        raise ValueError(
            f"The covariance with the inputs has shape {cross.shape}: it must be finite, with one "
            f"row for each of the {n_inputs} inputs. Transpose or complete it."
        )
    return cross


def member_covariance(noise_covariance: ArrayLike, members: ArrayLike | None = None) -> FloatArray:
    """Give the part of a covariance that belongs to the members (default: all)."""
    covariance = covariance_matrix(noise_covariance)
    tasks = np.arange(len(covariance))
    asked = slice(None) if members is None else np.atleast_1d(members)
    try:
        chosen = tasks[asked]
    except IndexError as error:
        raise ValueError(
            f"members is {asked}, which does not fit {len(tasks)} tasks ({error}). Give their "
            f"indices from 0, or a mask with one entry per task."
        ) from None
    if chosen.size == 0 or np.unique(chosen).size < chosen.size:
        raise ValueError(f"members is {asked}: name at least one task, and each only once.")
    return covariance[np.ix_(chosen, chosen)]


def inverse_root(covariance: ArrayLike) -> FloatArray:
    """Give B (d, rank) with ``B B'`` a generalised inverse of the covariance.

    Taken from the correlation matrix, so that the units of the inputs do not decide the rank.
    """
    matrix = covariance_matrix(covariance)
    deviation = np.sqrt(np.diag(matrix).clip(0))
    deviation[deviation == 0] = 1
    values, vectors = np.linalg.eigh(matrix / (deviation[:, None] * deviation))
    kept = values > RANK_TOLERANCE * np.max(values, initial=0)
    root: FloatArray = vectors[:, kept] / np.sqrt(values[kept]) / deviation[:, None]
    return root


def precision_of(covariance: ArrayLike) -> FloatArray:
    """Give the inverse covariance, here the object itself and not a way to solve."""
    root = inverse_root(covariance)
    if root.shape[1] < root.shape[0]:
        raise ValueError(
            f"The covariance of {root.shape[0]} inputs has rank {root.shape[1]}: an input that the "
            f"others determine has no partial variance or coefficient of its own. Drop such "
            f"inputs, or use explained_moments, which allows them."
        )
    return root @ root.T
