"""Theorems 1-2 and their corollaries on plain numbers, asymptotic and finite-sample.

Task i is ``y_i = f_i(x) + eps_i`` (Eq. 1), predicted by least squares of psi, the mean target of
its group, on d zero-mean inputs Phi (Eq. 2): the features, means of them, any basis functions.

noise_variance        var(eps_i); ``_j`` of another task, ``_mean`` of the mean noise of the group
signal_variance       var(f_i)
explained_variance    what Phi explains of psi, ``var(psi) R2``; ``_i`` and ``_j`` of f_i and f_j
explained_covariance  what Phi explains of cov(f_i, psi), ``cov(f_i, psi) - cov(f_i, psi | Phi)``
n_samples, n_inputs   n and d; D when the inputs are all the features
design                "asymptotic": the paper's forms, leading order in 1/n, no intercept;
                      "gaussian": exact for Gaussian inputs and a fitted intercept

Numbers and arrays go in and broadcast. A gain is positive when the merge pays. What Phi leaves
unexplained of the mean signal acts on the variance as noise does: the paper, conditioning on the
inputs, leaves it out; add it to the noise for the exact value.
"""

from __future__ import annotations

from ctfa.theory._decomposition import (
    Change,
    Decomposition,
    decompose_mse,
    mean_correlation,
    mean_correlation_bound,
    mean_noise_variance,
    model_bias,
    model_variance,
    mse_change,
    single_task_bias,
)
from ctfa.theory._gains import (
    break_even_f,
    feature_gain,
    group_gain,
    group_gain_from_f,
    two_task_gain,
)
from ctfa.theory._moments import (
    CoefficientMoments,
    coefficient_moments,
    explained_moments,
    partial_correlations,
    partial_variances,
    r2_from_partial_correlations,
)

__all__ = [
    "Change",
    "CoefficientMoments",
    "Decomposition",
    "break_even_f",
    "coefficient_moments",
    "decompose_mse",
    "explained_moments",
    "feature_gain",
    "group_gain",
    "group_gain_from_f",
    "mean_correlation",
    "mean_correlation_bound",
    "mean_noise_variance",
    "model_bias",
    "model_variance",
    "mse_change",
    "partial_correlations",
    "partial_variances",
    "r2_from_partial_correlations",
    "single_task_bias",
    "two_task_gain",
]
