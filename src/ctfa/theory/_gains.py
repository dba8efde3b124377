"""When a merge pays: the corollaries for two tasks, for groups of any size, and for features."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ctfa.theory._decomposition import model_variance, single_task_bias
from ctfa.theory._inputs import Design, FloatArray, Numbers, number, sample


def two_task_gain(
    noise_variance_i: ArrayLike,
    noise_variance_j: ArrayLike,
    noise_variance_mean: ArrayLike,
    n_samples: ArrayLike,
    n_inputs: ArrayLike,
    explained_variance_i: ArrayLike,
    explained_variance_j: ArrayLike,
    explained_variance_mean: ArrayLike,
    *,
    design: Design = "asymptotic",
) -> tuple[Numbers, Numbers]:
    """Gains of tasks i and j from one model of their mean (Eq. 6: merge if neither is negative).

    ``(s2_i - s2_mean) D/(n-1) + var(psi) R2 - (var(f_i) R2_i + var(f_j) R2_j) / 2``, and with s2_j.

    Examples
    --------
    >>> gains = two_task_gain(2.0, 4.0, 1.5, 101, 10, 1.0, 1.0, 0.98)
    >>> [round(float(gain), 3) for gain in gains]
    [0.03, 0.23]
    """
    explained_i = number("explained_variance_i", explained_variance_i)
    explained_j = number("explained_variance_j", explained_variance_j)
    explained_mean = number("explained_variance_mean", explained_variance_mean)
    merged = model_variance(noise_variance_mean, n_samples, n_inputs, design=design)
    cost = merged + (explained_i + explained_j) / 2 - explained_mean
    single_i = model_variance(noise_variance_i, n_samples, n_inputs, design=design)
    single_j = model_variance(noise_variance_j, n_samples, n_inputs, design=design)
    return single_i - cost, single_j - cost


def group_gain(
    size_a: ArrayLike,
    size_b: ArrayLike,
    difference_noise_variance: ArrayLike,
    difference_explained_variance: ArrayLike,
    n_samples: ArrayLike,
    n_inputs: ArrayLike,
    *,
    design: Design = "asymptotic",
) -> Numbers:
    """Gain summed over all members of two groups that merge, exact for any sizes a and b.

    ``ab/(a+b) (model variance of delta - explained variance of delta)``, delta the difference of
    the two mean targets: Theorems 1 and 2 summed over members, by
    ``a x_P**2 + b x_Q**2 - (a+b) xbar**2 = ab/(a+b) (x_P - x_Q)**2``. At 1 + 1 the two gains of
    Eq. 6 add up to it. A member may still lose. The gaussian design has an intercept per group.

    Examples
    --------
    >>> round(float(group_gain(3, 1, 2.0, 0.12, n_samples=101, n_inputs=10)), 3)
    0.06
    """
    explained = number("difference_explained_variance", difference_explained_variance)
    credit = model_variance(difference_noise_variance, n_samples, n_inputs, design=design)
    return _merge_weight(size_a, size_b) * (credit - explained)


def group_gain_from_f(
    size_a: ArrayLike,
    size_b: ArrayLike,
    residual_variance: ArrayLike,
    f_statistic: ArrayLike,
    n_samples: ArrayLike,
    n_inputs: ArrayLike,
    *,
    margin: ArrayLike = 1.0,
) -> Numbers:
    """`group_gain` estimated from data, ``ab/(a+b) D/(n-1) s (F_star - F)``.

    F and s (on n-D-1 degrees of freedom) are those of the regression of delta with an intercept.
    At margin 1 and for Gaussian inputs its mean, times 1 + 1/n, is the gain of merging when every
    target keeps its own offset.

    Examples
    --------
    >>> float(group_gain_from_f(1, 1, 2.0, f_statistic=1.5, n_samples=22, n_inputs=6))
    0.2857142857142857
    """
    slack = break_even_f(n_samples, n_inputs, margin) - number("f_statistic", f_statistic)
    unit = model_variance(residual_variance, n_samples, n_inputs)
    return _merge_weight(size_a, size_b) * unit * slack


def break_even_f(n_samples: ArrayLike, n_inputs: ArrayLike, margin: ArrayLike = 1.0) -> Numbers:
    """F of the difference at which a merge breaks even, ``F_star = 1 + margin (n-1)/(n-D-2)``.

    Examples
    --------
    >>> float(break_even_f(n_samples=22, n_inputs=6))
    2.5
    """
    n, _, freedom = sample(n_samples, n_inputs, "gaussian")
    return 1 + number("margin", margin, -np.inf) * (n - 1) / freedom


def feature_gain(
    noise_variance: ArrayLike,
    signal_variance: ArrayLike,
    r2_full: ArrayLike,
    r2_reduced: ArrayLike,
    n_samples: ArrayLike,
    n_full: ArrayLike,
    n_reduced: ArrayLike,
    *,
    design: Design = "asymptotic",
) -> Numbers:
    """Gain from aggregating D features into d, ``s2 (D-d)/(n-1) - var(f_i) (R2_D - R2_d)`` (Eq. 7).

    Both R2 are against f_i, as in `single_task_bias`.

    Examples
    --------
    >>> round(float(feature_gain(2.0, 1.0, 0.9, 0.85, n_samples=101, n_full=10, n_reduced=4)), 3)
    0.07
    """
    before, after = number("n_full", n_full), number("n_reduced", n_reduced)
    if np.any(after > before):
        raise ValueError(
            f"n_reduced is {after} and n_full {before}: aggregating leaves no more features than "
            f"there were. Give the number before as n_full, the number after as n_reduced."
        )
    variance_full = model_variance(noise_variance, n_samples, before, design=design)
    variance_reduced = model_variance(noise_variance, n_samples, after, design=design)
    bias_full = single_task_bias(signal_variance, r2_full)
    bias_reduced = single_task_bias(signal_variance, r2_reduced)
    return variance_full - variance_reduced - (bias_reduced - bias_full)


def _merge_weight(size_a: ArrayLike, size_b: ArrayLike) -> FloatArray:
    a, b = number("size_a", size_a, 1), number("size_b", size_b, 1)
    return a * b / (a + b)
