"""Small products of matrices that are stacked, one a fit."""

from __future__ import annotations

import numpy as np

from ctfa.core.types import FloatArray


def stack_padded(parts: list[FloatArray]) -> FloatArray:
    """Stack arrays of unequal widths, padded with zeros, which no product notices."""
    width = max(part.shape[1] for part in parts)
    stacked = np.zeros((len(parts), parts[0].shape[0], width))
    for target, part in zip(stacked, parts, strict=True):
        target[:, : part.shape[1]] = part
    return stacked


def orthonormal(vectors: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Orthonormal rows and the triangle ``L`` with ``vectors = L @ rows``."""
    if vectors.shape[1] == 1:
        length = np.sqrt(square(vectors))[..., None]
        return vectors / length, length
    columns, triangle = np.linalg.qr(turned(vectors))
    return turned(columns), turned(triangle)


def turned(matrices: FloatArray) -> FloatArray:
    """Transpose each of them."""
    return matrices.transpose(0, 2, 1)


def square(vectors: FloatArray) -> FloatArray:
    """Squared length of each row."""
    return np.asarray(np.einsum("fcm,fcm->fc", vectors, vectors))


def dot(vectors: FloatArray, other: FloatArray) -> FloatArray:
    """Product of each row with one vector a fit."""
    return np.asarray((vectors @ other[..., None])[..., 0])
