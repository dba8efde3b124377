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

Arguments are numbers or arrays, which broadcast. A gain is positive when the merge pays. What Phi
leaves unexplained of the mean signal acts on the variance as noise does: the paper, conditioning on
the inputs, leaves it out; add it to the noise for the exact value.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias, get_args, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray: TypeAlias = NDArray[np.float64]
Numbers: TypeAlias = float | FloatArray
Design: TypeAlias = Literal["asymptotic", "gaussian"]

RANK_TOLERANCE = 1e-12  # eigenvalues of a correlation matrix below this share of the largest are 0
ROUNDING = 1e-9  # how far a correlation or an R2 may pass its bound and still be put back on it

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


# -------------------------------------- a task predicted by the mean of its group: Theorems 1 and 2


class Decomposition(NamedTuple):
    """The three parts of the mean squared error of a task, ``mse = variance + bias + noise``.

    Parameters
    ----------
    variance : float or ndarray
        Of the model (Theorem 1).
    bias : float or ndarray
        Of the model (Theorem 2).
    noise : float or ndarray
        Of the target; no model removes it.

    Examples
    --------
    >>> Decomposition(variance=0.25, bias=0.5, noise=2.0).mse
    2.75
    """

    variance: Numbers
    bias: Numbers
    noise: Numbers

    @property
    def mse(self) -> Numbers:
        """Sum of the three parts."""
        return self.variance + self.bias + self.noise


class Change(NamedTuple):
    """What an aggregation does to a task, ``gain = variance_decrease - bias_increase``.

    Parameters
    ----------
    variance_decrease : float or ndarray
        Variance of the model before less that after.
    bias_increase : float or ndarray
        Bias of the model after less that before.

    Examples
    --------
    >>> Change(variance_decrease=0.5, bias_increase=0.125).gain
    0.375
    """

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
    """Variance of the model, ``s2 d/(n-1)`` (Theorem 1), s2 that of the mean noise of the group.

    With ``design="gaussian"`` it is ``s2 ((1 + 1/n) d/(n-d-2) + 1/n)``. The asymptotic form is
    59 % of it at n = 250, d = 100.

    Parameters
    ----------
    noise_variance : array_like
        Variance of the mean noise of the group, in squared units of the target.
    n_samples : array_like
        Number of rows n.
    n_inputs : array_like
        Number of inputs d of the model.
    design : {"asymptotic", "gaussian"}, default="asymptotic"
        The paper's leading order in 1/n, or the exact form for Gaussian inputs and an intercept.

    Returns
    -------
    float or ndarray
        In squared units of the target.

    Examples
    --------
    >>> float(model_variance(2.0, n_samples=101, n_inputs=10))
    0.2
    """
    noise = _number("noise_variance", noise_variance)
    n, d, freedom = _sample(n_samples, n_inputs, design)
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
    noise_covariance : array_like of shape (L, L)
        First form: covariance of the noises of all L tasks.
    members : array_like of indices, or mask of shape (L,), default=None
        First form: the tasks of the group; None is all of them.
    noise_variance, size, mean_correlation : array_like
        Second form: the one variance of the noises, their number K and their mean correlation.

    Returns
    -------
    float or ndarray
        In squared units of the target; a float in the first form.

    Examples
    --------
    >>> mean_noise_variance([[2.0, 1.0], [1.0, 4.0]], members=[0, 1])
    2.0
    >>> float(mean_noise_variance(2.0, size=4, mean_correlation=0.5))
    1.25
    """
    if len(args) + len(kwargs) < 3 and kwargs.keys() <= {"noise_covariance", "members"}:
        return max(float(np.mean(_member_covariance(*args, **kwargs))), 0.0)
    return _equal_mean_noise_variance(*args, **kwargs)


def _equal_mean_noise_variance(
    noise_variance: ArrayLike, size: ArrayLike, mean_correlation: ArrayLike
) -> Numbers:
    noise = _number("noise_variance", noise_variance)
    k = _number("size", size, 1)
    rho = _number("mean_correlation", mean_correlation, -1, 1)
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

    Parameters
    ----------
    noise_covariance : array_like of shape (L, L)
        Covariance of the noises of all L tasks.
    members : array_like of indices, or mask of shape (L,), default=None
        The tasks of the group, two or more; None is all of them.

    Returns
    -------
    float
        From ``1/(1-K)`` to 1, for K members.

    Examples
    --------
    >>> mean_correlation([[4.0, 1.0], [1.0, 1.0]])
    0.5
    """
    covariance = _member_covariance(noise_covariance, members)
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

    Parameters
    ----------
    size : array_like
        Number of noises K, at least 2.

    Returns
    -------
    float or ndarray
        Negative; close to 0 for large groups.

    Examples
    --------
    >>> float(mean_correlation_bound(3))
    -0.5
    """
    return 1 / (1 - _number("size", size, 2))


def model_bias(
    signal_variance: ArrayLike, explained_variance: ArrayLike, explained_covariance: ArrayLike
) -> Numbers:
    """Bias of the model of psi for task i, Theorem 2 (Eq. 4; `explained_moments` for any Phi).

    ``var(f_i) + var(psi) R2 - 2 (cov(f_i, psi) - cov(f_i, psi | Phi))``, which is the paper's
    ``var(f_i) - var(psi) R2 + 2 (cov(psi, f_i - psi | Phi) - cov(psi, f_i - psi))``.

    Parameters
    ----------
    signal_variance : array_like
        ``var(f_i)``, in squared units of the target.
    explained_variance : array_like
        What the inputs explain of the mean target, ``var(psi) R2``.
    explained_covariance : array_like
        What the inputs explain of ``cov(f_i, psi)``.

    Returns
    -------
    float or ndarray
        In squared units of the target.

    Examples
    --------
    >>> float(model_bias(2.0, explained_variance=1.0, explained_covariance=1.25))
    0.5
    """
    signal = _number("signal_variance", signal_variance)
    explained = _number("explained_variance", explained_variance)
    shared = _number("explained_covariance", explained_covariance, -np.inf)
    return signal + explained - 2 * shared


def single_task_bias(signal_variance: ArrayLike, r2: ArrayLike) -> Numbers:
    """Bias of the model of one task, ``var(f_i) (1 - R2)`` (Corollary 1, Eq. 5).

    R2 is that of the signal f_i. The R2 of y_i is smaller by the share of the noise, and the bias
    would look larger than it is.

    Parameters
    ----------
    signal_variance : array_like
        ``var(f_i)``, in squared units of the target.
    r2 : array_like
        Share of it that the inputs explain, from 0 to 1.

    Returns
    -------
    float or ndarray
        In squared units of the target.

    Examples
    --------
    >>> float(single_task_bias(4.0, r2=0.75))
    1.0
    """
    signal = _number("signal_variance", signal_variance)
    return signal * (1 - _number("r2", r2, 0, 1))


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

    For a single task ``noise_variance_mean = noise_variance`` and both explained moments are equal.

    Parameters
    ----------
    noise_variance : array_like
        ``var(eps_i)``, the noise of task i.
    noise_variance_mean : array_like
        Variance of the mean noise of its group.
    n_samples : array_like
        Number of rows n.
    n_inputs : array_like
        Number of inputs d of the model.
    signal_variance, explained_variance, explained_covariance : array_like
        As in `model_bias`.
    design : {"asymptotic", "gaussian"}, default="asymptotic"
        The paper's leading order in 1/n, or the exact form for Gaussian inputs and an intercept.

    Returns
    -------
    Decomposition
        ``variance``, ``bias``, ``noise`` and their sum ``mse``, in squared units of the target.

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
    return Decomposition(variance, bias, _number("noise_variance", noise_variance))


def mse_change(before: Decomposition, after: Decomposition) -> Change:
    """Decrease of variance and increase of bias from one model of a task to another (Appendix C).

    From single to multi task they are ``(s2_i - s2_mean) D/(n-1)`` and what the inputs explain of
    f_i - psi, ``var(f_i) R2_i + var(psi) R2 - 2 explained_covariance``; from all to aggregated
    features ``s2 (D-d)/(n-1)`` and ``var(f_i) (R2_D - R2_d)``.

    Parameters
    ----------
    before, after : Decomposition
        The errors of one task under two models, as `decompose_mse` gives them.

    Returns
    -------
    Change
        ``variance_decrease``, ``bias_increase`` and their difference ``gain``.

    Examples
    --------
    >>> change = mse_change(Decomposition(0.2, 0.5, 2.0), Decomposition(0.1, 0.53, 2.0))
    >>> round(change.gain, 3)
    0.07
    """
    return Change(before.variance - after.variance, after.bias - before.bias)


# --------------------------------------------------------------- when a merge pays: the corollaries


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

    Parameters
    ----------
    noise_variance_i, noise_variance_j : array_like
        ``var(eps_i)`` and ``var(eps_j)``.
    noise_variance_mean : array_like
        Variance of the mean of both noises.
    n_samples : array_like
        Number of rows n.
    n_inputs : array_like
        Number of inputs d of the model.
    explained_variance_i, explained_variance_j : array_like
        What the inputs explain of each task, ``var(f_i) R2_i`` and ``var(f_j) R2_j``.
    explained_variance_mean : array_like
        What they explain of the mean, ``var(psi) R2``.
    design : {"asymptotic", "gaussian"}, default="asymptotic"
        The paper's leading order in 1/n, or the exact form for Gaussian inputs and an intercept.

    Returns
    -------
    gain_i, gain_j : float or ndarray
        Decrease of the MSE of each task; positive where the merge pays.

    Examples
    --------
    >>> gains = two_task_gain(2.0, 4.0, 1.5, 101, 10, 1.0, 1.0, 0.98)
    >>> [round(float(gain), 3) for gain in gains]
    [0.03, 0.23]
    """
    explained_i = _number("explained_variance_i", explained_variance_i)
    explained_j = _number("explained_variance_j", explained_variance_j)
    explained_mean = _number("explained_variance_mean", explained_variance_mean)
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

    Parameters
    ----------
    size_a, size_b : array_like
        Number of members of each group.
    difference_noise_variance : array_like
        Noise variance of delta.
    difference_explained_variance : array_like
        What the inputs explain of delta.
    n_samples : array_like
        Number of rows n.
    n_inputs : array_like
        Number of inputs d of the model.
    design : {"asymptotic", "gaussian"}, default="asymptotic"
        The paper's leading order in 1/n, or the exact form for Gaussian inputs and an intercept.

    Returns
    -------
    float or ndarray
        Decrease of the MSE, summed over all members; positive where the merge pays.

    Examples
    --------
    >>> round(float(group_gain(3, 1, 2.0, 0.12, n_samples=101, n_inputs=10)), 3)
    0.06
    """
    explained = _number("difference_explained_variance", difference_explained_variance)
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

    Parameters
    ----------
    size_a, size_b : array_like
        Number of members of each group.
    residual_variance : array_like
        s, the residual variance of the regression of delta.
    f_statistic : array_like
        F of this regression.
    n_samples : array_like
        Number of rows n.
    n_inputs : array_like
        Number of inputs d of the model.
    margin : array_like, default=1.0
        As in `break_even_f`.

    Returns
    -------
    float or ndarray
        Decrease of the MSE, summed over all members; positive where the merge pays.

    Examples
    --------
    >>> float(group_gain_from_f(1, 1, 2.0, f_statistic=1.5, n_samples=22, n_inputs=6))
    0.2857142857142857
    """
    slack = break_even_f(n_samples, n_inputs, margin) - _number("f_statistic", f_statistic)
    unit = model_variance(residual_variance, n_samples, n_inputs)
    return _merge_weight(size_a, size_b) * unit * slack


def break_even_f(n_samples: ArrayLike, n_inputs: ArrayLike, margin: ArrayLike = 1.0) -> Numbers:
    """F of the difference at which a merge breaks even, ``F_star = 1 + margin (n-1)/(n-D-2)``.

    Parameters
    ----------
    n_samples : array_like
        Number of rows n.
    n_inputs : array_like
        Number of inputs d of the model.
    margin : array_like, default=1.0
        Factor of the second term; a smaller one merges less.

    Returns
    -------
    float or ndarray
        A merge pays where F is smaller.

    Examples
    --------
    >>> float(break_even_f(n_samples=22, n_inputs=6))
    2.5
    """
    n, _, freedom = _sample(n_samples, n_inputs, "gaussian")
    return 1 + _number("margin", margin, -np.inf) * (n - 1) / freedom


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

    Both R2 are those of f_i, as in `single_task_bias`.

    Parameters
    ----------
    noise_variance : array_like
        Variance of the noise of the target, or of the mean noise of its group.
    signal_variance : array_like
        ``var(f_i)``.
    r2_full, r2_reduced : array_like
        Share of it that all features and the aggregated features explain, from 0 to 1.
    n_samples : array_like
        Number of rows n.
    n_full, n_reduced : array_like
        Number of features before, D, and after, d.
    design : {"asymptotic", "gaussian"}, default="asymptotic"
        The paper's leading order in 1/n, or the exact form for Gaussian inputs and an intercept.

    Returns
    -------
    float or ndarray
        Decrease of the MSE; positive where the aggregation pays.

    Examples
    --------
    >>> round(float(feature_gain(2.0, 1.0, 0.9, 0.85, n_samples=101, n_full=10, n_reduced=4)), 3)
    0.07
    """
    before, after = _number("n_full", n_full), _number("n_reduced", n_reduced)
    if np.any(after > before):
        raise ValueError(
            f"n_reduced is {after} and n_full {before}: aggregating cannot leave more features "
            f"than there were. Give the number before as n_full, the number after as n_reduced."
        )
    variance_full = model_variance(noise_variance, n_samples, before, design=design)
    variance_reduced = model_variance(noise_variance, n_samples, after, design=design)
    bias_full = single_task_bias(signal_variance, r2_full)
    bias_reduced = single_task_bias(signal_variance, r2_reduced)
    return variance_full - variance_reduced - (bias_reduced - bias_full)


def _merge_weight(size_a: ArrayLike, size_b: ArrayLike) -> FloatArray:
    a, b = _number("size_a", size_a, 1), _number("size_b", size_b, 1)
    return a * b / (a + b)


# ---------------------------------------- coefficients, partial correlations and R2: the two lemmas


class CoefficientMoments(NamedTuple):
    """Mean (d,) and covariance (d, d) of least-squares coefficients.

    Parameters
    ----------
    mean : ndarray of shape (d,)
        Expected coefficients.
    covariance : ndarray of shape (d, d)
        Of the coefficients, over training sets.

    Examples
    --------
    >>> import numpy as np
    >>> CoefficientMoments(np.array([3.0, 2.0]), 0.1 * np.eye(2)).covariance.shape
    (2, 2)
    """

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

    Parameters
    ----------
    input_covariance : array_like of shape (d, d)
        Covariance of the inputs, of full rank.
    signal_covariance : array_like of shape (d,)
        Covariance of the inputs with the signal.
    noise_variance : array_like
        s2, the variance of the noise.
    n_samples : array_like
        Number of rows n.
    design : {"asymptotic", "gaussian"}, default="asymptotic"
        The paper's leading order in 1/n, or the exact form for Gaussian inputs and an intercept.

    Returns
    -------
    CoefficientMoments
        ``mean`` of shape (d,) and ``covariance`` of shape (d, d).

    Examples
    --------
    >>> moments = coefficient_moments([[1.0, 0.0], [0.0, 2.0]], [3.0, 4.0], 1.0, n_samples=11)
    >>> print(moments.mean, moments.covariance.diagonal())
    [3. 2.] [0.1  0.05]
    """
    precision = _precision_of(input_covariance)
    _, _, freedom = _sample(n_samples, len(precision), design)
    scale = _number("noise_variance", noise_variance) / freedom
    mean = precision @ _cross_covariance_of(signal_covariance, len(precision))
    return CoefficientMoments(mean, np.multiply.outer(scale, precision))


def partial_variances(covariance: ArrayLike) -> FloatArray:
    """Variance of each variable given all others, ``1 / P_kk`` with P the precision (Lemma 1).

    Parameters
    ----------
    covariance : array_like of shape (d, d)
        Covariance of the variables, of full rank.

    Returns
    -------
    ndarray of shape (d,)
        In squared units of each variable.

    Examples
    --------
    >>> print(partial_variances([[1.0, 0.5], [0.5, 1.0]]))
    [0.75 0.75]
    """
    return 1 / np.diag(_precision_of(covariance))


def partial_correlations(covariance: ArrayLike) -> FloatArray:
    """Correlation of each pair given all others, ``-P_hk / sqrt(P_hh P_kk)``, 1 on the diagonal.

    The minus is Lemma 1's; the inverse covariance in the proof of Lemma 2 is printed without it.

    Parameters
    ----------
    covariance : array_like of shape (d, d)
        Covariance of the variables, of full rank.

    Returns
    -------
    ndarray of shape (d, d)
        From -1 to 1.

    Examples
    --------
    >>> print(partial_correlations([[1.0, 0.5], [0.5, 1.0]]).round(3))
    [[1.  0.5]
     [0.5 1. ]]
    """
    precision = _precision_of(covariance)
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

    Parameters
    ----------
    input_covariance : array_like of shape (d, d)
        Covariance of the inputs, of full rank.
    target_covariance : array_like of shape (d,)
        Covariance of the inputs with the target.
    target_variance : array_like
        Variance of the target.

    Returns
    -------
    float or ndarray
        Share of the variance that the inputs explain.

    Examples
    --------
    >>> round(float(r2_from_partial_correlations([[1.0, 0.5], [0.5, 1.0]], [0.6, 0.6], 1.0)), 3)
    0.48
    """
    variances = partial_variances(input_covariance)
    scaled = _cross_covariance_of(target_covariance, len(variances)) / np.sqrt(variances)
    others = partial_correlations(input_covariance) - np.eye(len(variances))
    total = _number("target_variance", target_variance, np.finfo(np.float64).tiny)
    return np.sum(scaled**2 - scaled * (others @ scaled)) / total


def explained_moments(basis_covariance: ArrayLike, cross_covariance: ArrayLike) -> FloatArray:
    """Variances and covariances that the inputs explain linearly, ``C' S**+ C`` (Theorem 2).

    S is cov(Phi) for any zero-mean basis functions, collinear ones included, and the columns of C
    (d, m) are cov(Phi, g) for m functions or targets g. Entry (g, h) of the (m, m) result is
    ``cov(g, h) - cov(g, h | Phi)``, on the diagonal ``var(g) R2``; one column (d,) gives a number.

    Parameters
    ----------
    basis_covariance : array_like of shape (d, d)
        S; it may be singular.
    cross_covariance : array_like of shape (d, m) or (d,)
        C, one column per function.

    Returns
    -------
    ndarray of shape (m, m), or a number
        In the units of products of two of the functions.

    Examples
    --------
    >>> print(explained_moments([[2.0, 0.0], [0.0, 1.0]], [[2.0, 1.0], [1.0, 1.0]]))
    [[3.  2. ]
     [2.  1.5]]
    """
    root = _inverse_root(basis_covariance)
    scores = root.T @ _cross_covariance_of(cross_covariance, len(root))
    return scores.T @ scores


# ------------------------------------------ what the theory is given: numbers, samples, covariances


def _number(name: str, value: ArrayLike, low: float = 0, high: float = np.inf) -> FloatArray:
    """Return a float64 array, finite and in [low, high]; rounding errors are clipped."""
    numbers = np.asarray(value, dtype=np.float64)
    slack = ROUNDING if np.isfinite(high) else 0
    bad = ~(np.isfinite(numbers) & (numbers >= low - slack) & (numbers <= high + slack))
    if np.any(bad):
        raise ValueError(
            f"{name} is {numbers[bad][0]:g}: it must be a finite number between {low:g} and "
            f"{high:g}. Check its units and the order of the arguments."
        )
    return np.clip(numbers, low, high)


def _sample(
    n_samples: ArrayLike, n_inputs: ArrayLike, design: Design
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return n, d and the divisor of Lemma 1's precision: n-1, or n-d-2 for Gaussian inputs."""
    if design not in get_args(Design):
        raise ValueError(f"design is {design!r}, which is unknown: use one of {get_args(Design)}.")
    n, d = _number("n_samples", n_samples), _number("n_inputs", n_inputs)
    needed = 1 + (d + 1) * (design == "gaussian")
    if np.any(n <= needed):
        raise ValueError(
            f"n_samples is {n} for {d} inputs: the {design} form needs more than "
            f"{needed} samples. Use more samples or fewer inputs."
        )
    return n, d, n - needed


def _covariance_matrix(value: ArrayLike) -> FloatArray:
    """Return a covariance as a matrix, square, finite, symmetric and positive semidefinite."""
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


def _cross_covariance_of(value: ArrayLike, n_inputs: int) -> FloatArray:
    """Return covariances with the inputs, one row per input."""
    cross = np.asarray(value, dtype=np.float64)
    if cross.shape[:1] != (n_inputs,) or not np.isfinite(cross).all():
        raise ValueError(
            f"The covariance with the inputs has shape {cross.shape}: it must be finite, with one "
            f"row for each of the {n_inputs} inputs. Transpose or complete it."
        )
    return cross


def _member_covariance(noise_covariance: ArrayLike, members: ArrayLike | None = None) -> FloatArray:
    """Return the part of a covariance that belongs to the members (default: all)."""
    covariance = _covariance_matrix(noise_covariance)
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


def _inverse_root(covariance: ArrayLike) -> FloatArray:
    """Return B (d, rank) with ``B B'`` a generalised inverse of the covariance.

    Taken from the correlation matrix, so that the units of the inputs do not decide the rank.
    """
    matrix = _covariance_matrix(covariance)
    deviation = np.sqrt(np.diag(matrix).clip(0))
    deviation[deviation == 0] = 1
    values, vectors = np.linalg.eigh(matrix / (deviation[:, None] * deviation))
    kept = values > RANK_TOLERANCE * np.max(values, initial=0)
    root: FloatArray = vectors[:, kept] / np.sqrt(values[kept]) / deviation[:, None]
    return root


def _precision_of(covariance: ArrayLike) -> FloatArray:
    """Return the inverse covariance: here it is wanted itself, not to solve with."""
    root = _inverse_root(covariance)
    if root.shape[1] < root.shape[0]:
        raise ValueError(
            f"The covariance of {root.shape[0]} inputs has rank {root.shape[1]}: an input that the "
            f"others determine has no partial variance or coefficient of its own. Drop such "
            f"inputs, or use explained_moments, which allows them."
        )
    return root @ root.T
