"""Variance, bias and noise of a task predicted by the mean of its group (Theorems 1 and 2)."""

from __future__ import annotations

from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike

from ctfa.theory._inputs import ROUNDING, Design, Numbers, member_covariance, number, sample


class Decomposition(NamedTuple):
    """The three parts of the mean squared error of a task, ``mse = variance + bias + noise``."""

    variance: Numbers
    bias: Numbers
    noise: Numbers

    @property
    def mse(self) -> Numbers:
        """Sum of the three parts."""
        return self.variance + self.bias + self.noise


class Change(NamedTuple):
    """What an aggregation does to a task, ``gain = variance_decrease - bias_increase``."""

    variance_decrease: Numbers
    bias_increase: Numbers

    @property
    def gain(self) -> Numbers:
        """Decrease of the mean squared error."""
        return self.variance_decrease - self.bias_increase


def model_variance(
    noise_variance: ArrayLike,
    n_samples: ArrayLike,
    n_inputs: ArrayLike,
    *,
    design: Design = "asymptotic",
) -> Numbers:
    """Variance of the model, ``s2 d/(n-1)`` (Theorem 1); s2 is that of the mean noise in a group.

    With ``design="gaussian"`` it is ``s2 ((1 + 1/n) d/(n-d-2) + 1/n)``. The asymptotic form is
    59 % of it at n = 250, d = 100.

    Examples
    --------
    >>> float(model_variance(2.0, n_samples=101, n_inputs=10))
    0.2
    """
    noise = number("noise_variance", noise_variance)
    n, d, freedom = sample(n_samples, n_inputs, design)
    if design == "gaussian":
        return noise * ((1 + 1 / n) * d / freedom + 1 / n)
    return noise * d / freedom


@overload
def mean_noise_variance(noise_covariance: ArrayLike, members: ArrayLike | None = None) -> float: ...
@overload
def mean_noise_variance(
    noise_variance: ArrayLike, size: ArrayLike, mean_correlation: ArrayLike
) -> Numbers: ...
def mean_noise_variance(*args: Any, **kwargs: Any) -> Numbers:
    """Variance of the mean of K noises, ``1' C 1 / K**2`` (Theorem 1).

    For noises of one variance, ``s2/K (1 + (K-1) rho)`` with rho their mean correlation.

    Parameters
    ----------
    noise_covariance, members : (L, L) array_like; indices or mask, all tasks by default
        The first form.
    noise_variance, size, mean_correlation : array_like
        The second form, for noises of one variance.

    Examples
    --------
    >>> mean_noise_variance([[2.0, 1.0], [1.0, 4.0]], members=[0, 1])
    2.0
    >>> float(mean_noise_variance(2.0, size=4, mean_correlation=0.5))
    1.25
    """
    if len(args) + len(kwargs) < 3 and kwargs.keys() <= {"noise_covariance", "members"}:
        return max(float(np.mean(member_covariance(*args, **kwargs))), 0.0)
    return _equal_mean_noise_variance(*args, **kwargs)


def _equal_mean_noise_variance(
    noise_variance: ArrayLike, size: ArrayLike, mean_correlation: ArrayLike
) -> Numbers:
    noise = number("noise_variance", noise_variance)
    k = number("size", size, 1)
    rho = number("mean_correlation", mean_correlation, -1, 1)
    spread = 1 + (k - 1) * rho
    if np.any(spread < -ROUNDING):
        raise ValueError(
            f"mean_correlation is {rho}, below 1/(1-K) for size K = {k}: the mean "
            f"noise would have a negative variance. Use at least mean_correlation_bound(size)."
        )
    return noise / k * np.maximum(spread, 0)


def mean_correlation(noise_covariance: ArrayLike, members: ArrayLike | None = None) -> float:
    """Average correlation of the members' noises, ``2/(K(K-1)) sum_{h<k} rho_hk`` (Appendix C).

    Each pair counts once: the paper's normalisation with a sum over h != k would count it twice.

    Examples
    --------
    >>> mean_correlation([[4.0, 1.0], [1.0, 1.0]])
    0.5
    """
    covariance = member_covariance(noise_covariance, members)
    deviation = np.sqrt(np.diag(covariance).clip(0))
    if len(deviation) < 2 or np.any(deviation == 0):
        raise ValueError(
            f"The noises have standard deviations {deviation}, which leaves a correlation "
            f"undefined: name at least two members, each with noise."
        )
    correlation = covariance / (deviation[:, None] * deviation)
    return float(np.mean(correlation[np.triu_indices(len(deviation), k=1)]))


def mean_correlation_bound(size: ArrayLike) -> Numbers:
    """Least average correlation K noises can have, ``1/(1-K)`` (remarks on Theorem 1).

    Examples
    --------
    >>> float(mean_correlation_bound(3))
    -0.5
    """
    return 1 / (1 - number("size", size, 2))


def model_bias(
    signal_variance: ArrayLike, explained_variance: ArrayLike, explained_covariance: ArrayLike
) -> Numbers:
    """Bias of the model of psi for task i, Theorem 2 (Eq. 4; `explained_moments` for any Phi).

    ``var(f_i) + var(psi) R2 - 2 (cov(f_i, psi) - cov(f_i, psi | Phi))``, which is the paper's
    ``var(f_i) - var(psi) R2 + 2 (cov(psi, f_i - psi | Phi) - cov(psi, f_i - psi))``.

    Examples
    --------
    >>> float(model_bias(2.0, explained_variance=1.0, explained_covariance=1.25))
    0.5
    """
    signal = number("signal_variance", signal_variance)
    explained = number("explained_variance", explained_variance)
    shared = number("explained_covariance", explained_covariance, -np.inf)
    return signal + explained - 2 * shared


def single_task_bias(signal_variance: ArrayLike, r2: ArrayLike) -> Numbers:
    """Bias of the model of one task, ``var(f_i) (1 - R2)`` (Corollary 1, Eq. 5).

    R2 must be against the signal f_i: against y_i it is smaller by the share of the noise, and
    the bias would look larger than it is.

    Examples
    --------
    >>> float(single_task_bias(4.0, r2=0.75))
    1.0
    """
    signal = number("signal_variance", signal_variance)
    return signal * (1 - number("r2", r2, 0, 1))


def decompose_mse(
    *,
    noise_variance: ArrayLike,
    noise_variance_mean: ArrayLike,
    n_samples: ArrayLike,
    n_inputs: ArrayLike,
    signal_variance: ArrayLike,
    explained_variance: ArrayLike,
    explained_covariance: ArrayLike,
    design: Design = "asymptotic",
) -> Decomposition:
    """Variance (Theorem 1), bias (Theorem 2) and noise of task i, whose sum is its MSE (Eq. 8).

    A single task has ``noise_variance_mean = noise_variance`` and two equal explained moments.

    Examples
    --------
    >>> parts = decompose_mse(
    ...     noise_variance=2.0, noise_variance_mean=1.0, n_samples=101, n_inputs=10,
    ...     signal_variance=2.0, explained_variance=1.0, explained_covariance=1.25)
    >>> [round(float(part), 3) for part in (*parts, parts.mse)]
    [0.1, 0.5, 2.0, 2.6]
    """
    variance = model_variance(noise_variance_mean, n_samples, n_inputs, design=design)
    bias = model_bias(signal_variance, explained_variance, explained_covariance)
    return Decomposition(variance, bias, number("noise_variance", noise_variance))


def mse_change(before: Decomposition, after: Decomposition) -> Change:
    """Decrease of variance and increase of bias from one model of a task to another (Appendix C).

    From single to multi task they are ``(s2_i - s2_mean) D/(n-1)`` and what the inputs explain of
    f_i - psi, ``var(f_i) R2_i + var(psi) R2 - 2 explained_covariance``; from all to aggregated
    features ``s2 (D-d)/(n-1)`` and ``var(f_i) (R2_D - R2_d)``.

    Examples
    --------
    >>> change = mse_change(Decomposition(0.2, 0.5, 2.0), Decomposition(0.1, 0.53, 2.0))
    >>> round(change.gain, 3)
    0.07
    """
    return Change(before.variance - after.variance, after.bias - before.bias)
