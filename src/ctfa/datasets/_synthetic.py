"""Generators with a known truth."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ctfa.core.types import FloatArray


def make_paper_synthetic(
    n_samples: int = 250,
    n_features: int = 100,
    n_targets: int = 10,
    *,
    noise: float = 7.5,
    random_state: Any = None,
) -> tuple[FloatArray, FloatArray]:
    """Return the synthetic setting of the paper's experiments: two groups of similar tasks.

    The first feature is uniform; each next one is 0.7 uniform plus 0.3 of an earlier one chosen at
    random; all are standardised. Each target draws all its coefficients from U[0.5, 1] or, with
    probability one half, from U[-1, -0.5], and adds Gaussian noise. The paper's text says a noise
    of 10; its printed figures are those of 7.5.

    Parameters
    ----------
    n_samples, n_features, n_targets : int
        Sizes.
    noise : float, default=7.5
        Standard deviation of the noise.
    random_state : int, RandomState or None, default=None
        Seed.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
    Y : ndarray of shape (n_samples, n_targets)

    Examples
    --------
    >>> from ctfa.datasets import make_paper_synthetic
    >>> X, Y = make_paper_synthetic(random_state=0)
    >>> X.shape, Y.shape
    ((250, 100), (250, 10))
    """
    rng = check_random_state(random_state)
    X = 0.7 * rng.uniform(size=(n_samples, n_features))
    X[:, 0] /= 0.7
    for column in range(1, n_features):
        X[:, column] += 0.3 * X[:, rng.randint(column)]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    sign = np.where(rng.uniform(size=n_targets) < 0.5, -1.0, 1.0)
    coefficients = rng.uniform(0.5, 1.0, size=(n_features, n_targets)) * sign
    return X, X @ coefficients + noise * rng.normal(size=(n_samples, n_targets))
