"""Coefficients, partial correlations and R2 from covariances (the paper's two lemmas)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ctfa.theory._inputs import (
    Design,
    FloatArray,
    Numbers,
    cross_covariance_of,
    inverse_root,
    number,
    precision_of,
    sample,
)


class CoefficientMoments(NamedTuple):
    """Mean (d,) and covariance (d, d) of least-squares coefficients."""

    mean: FloatArray
    covariance: FloatArray


def coefficient_moments(
    input_covariance: ArrayLike,
    signal_covariance: ArrayLike,
    noise_variance: ArrayLike,
    n_samples: ArrayLike,
    *,
    design: Design = "asymptotic",
) -> CoefficientMoments:
    """Mean ``P c`` and covariance ``s2 P/(n-1)`` of the coefficients, P the precision (Lemma 1).

    ``signal_covariance`` is c = cov(Phi, f_i). With ``design="gaussian"`` n-d-2 replaces n-1.

    Examples
    --------
    >>> moments = coefficient_moments([[1.0, 0.0], [0.0, 2.0]], [3.0, 4.0], 1.0, n_samples=11)
    >>> print(moments.mean, moments.covariance.diagonal())
    [3. 2.] [0.1  0.05]
    """
    precision = precision_of(input_covariance)
    _, _, freedom = sample(n_samples, len(precision), design)
    scale = number("noise_variance", noise_variance) / freedom
    mean = precision @ cross_covariance_of(signal_covariance, len(precision))
    return CoefficientMoments(mean, np.multiply.outer(scale, precision))


def partial_variances(covariance: ArrayLike) -> FloatArray:
    """Variance of each variable given all others, ``1 / P_kk`` with P the precision (Lemma 1).

    Examples
    --------
    >>> print(partial_variances([[1.0, 0.5], [0.5, 1.0]]))
    [0.75 0.75]
    """
    return 1 / np.diag(precision_of(covariance))


def partial_correlations(covariance: ArrayLike) -> FloatArray:
    """Correlation of each pair given all others, ``-P_hk / sqrt(P_hh P_kk)``, 1 on the diagonal.

    The minus is Lemma 1's; the inverse covariance in the proof of Lemma 2 is printed without it.

    Examples
    --------
    >>> print(partial_correlations([[1.0, 0.5], [0.5, 1.0]]).round(3))
    [[1.  0.5]
     [0.5 1. ]]
    """
    precision = precision_of(covariance)
    root: FloatArray = np.sqrt(np.diag(precision))
    correlations = -precision / (root[:, None] * root)
    np.fill_diagonal(correlations, 1)
    return correlations


def r2_from_partial_correlations(
    input_covariance: ArrayLike, target_covariance: ArrayLike, target_variance: ArrayLike
) -> Numbers:
    """R2 of a target on the inputs, ``c' S**-1 c / var(y)``, as Lemma 2 sums it.

    ``sum_k {c_k**2/v_k - c_k sum_{h!=k} rho_hk c_h / sqrt(v_h v_k)} / var(y)`` with c = cov(x, y),
    v the partial variances and rho the partial correlations of the inputs.

    Examples
    --------
    >>> round(float(r2_from_partial_correlations([[1.0, 0.5], [0.5, 1.0]], [0.6, 0.6], 1.0)), 3)
    0.48
    """
    variances = partial_variances(input_covariance)
    scaled = cross_covariance_of(target_covariance, len(variances)) / np.sqrt(variances)
    others = partial_correlations(input_covariance) - np.eye(len(variances))
    total = number("target_variance", target_variance, np.finfo(np.float64).tiny)
    return np.sum(scaled**2 - scaled * (others @ scaled)) / total


def explained_moments(basis_covariance: ArrayLike, cross_covariance: ArrayLike) -> FloatArray:
    """Variances and covariances that the inputs explain linearly, ``C' S**+ C`` (Theorem 2).

    S is cov(Phi) for any zero-mean basis functions, collinear ones included, and the columns of C
    (d, m) are cov(Phi, g) for m functions or targets g. Entry (g, h) of the (m, m) result is
    ``cov(g, h) - cov(g, h | Phi)``, on the diagonal ``var(g) R2``; one column (d,) gives a number.

    Examples
    --------
    >>> print(explained_moments([[2.0, 0.0], [0.0, 1.0]], [[2.0, 1.0], [1.0, 1.0]]))
    [[3.  2. ]
     [2.  1.5]]
    """
    root = inverse_root(basis_covariance)
    scores = root.T @ cross_covariance_of(cross_covariance, len(root))
    return scores.T @ scores
