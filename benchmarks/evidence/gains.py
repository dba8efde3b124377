"""What the accepted merges promised."""

from __future__ import annotations

from typing import Any

import numpy as np


def predicted_gain(model: Any, X: np.ndarray, Y: np.ndarray) -> float:
    """Sum over merges of the predicted gain, in variances of scaled targets, over all members.

    The library's own figures (``merges_``) where it has them, and the same from its history.
    """
    merges = getattr(model, "merges_", None)
    if merges is not None:
        return float(np.sum(merges["gain"]))
    return replayed_gain(model.history_, X, Y)


def replayed_gain(history: Any, X: np.ndarray, Y: np.ndarray) -> float:
    """The gain ``ab/(a+b) r/(n-1) s(d) (F_star - F(d))`` of every merge of a history.

    ``d`` is the difference of the two means of standardised targets, ``s`` its residual variance
    and F its regression F on the inputs, of rank r; ``F_star = 1 + (n-1)/(n-r-2)`` breaks even.
    """
    n_samples = len(X)
    centred = X - X.mean(axis=0)
    axes, spread, _ = np.linalg.svd(centred, full_matrices=False)
    axes = axes[:, spread > spread[0] * 1e-10]
    rank = axes.shape[1]
    sums = (Y - Y.mean(axis=0)) / Y.std(axis=0)
    sizes = np.ones(sums.shape[1])
    f_star = 1.0 + (n_samples - 1) / (n_samples - rank - 2)
    total = 0.0
    for block, other in zip(history.block, history.other, strict=True):
        difference = sums[:, block] / sizes[block] - sums[:, other] / sizes[other]
        explained = float(np.sum((axes.T @ difference) ** 2))
        residual = float(difference @ difference) - explained
        noise = residual / (n_samples - rank - 1)
        weight = sizes[block] * sizes[other] / (sizes[block] + sizes[other])
        total += weight / (n_samples - 1) * (rank * noise * f_star - explained)
        sums[:, block] += sums[:, other]
        sizes[block] += sizes[other]
    return total
