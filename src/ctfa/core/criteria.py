"""What a merge costs. A criterion returns a loss; a merge is made when ``loss <= max_loss``.

Criteria see fits, never data, and answer for one candidate or for many at once. Everything else
about a criterion stands beside its loss in a ``Criterion``: a new one is one such object in
``TARGET_CRITERIA`` or ``FEATURE_CRITERIA``, and words, pages, files, errors and ties follow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from ctfa.core.fit import Evidence, Fit
from ctfa.core.types import Number

Loss: TypeAlias = Callable[[Evidence], Number]


@dataclass(frozen=True)
class Criterion:
    """A loss and what is known of it; the defaults hold for a user's own."""

    name: str | None  # its public name; None for a user's own
    loss: Loss
    words: str = ""  # what "a merge costs", in the methods of a report
    unit: float | None = None  # power of the target's variance that losses have; None: ask
    break_even: float | None = None  # loss at which a merge neither pays nor costs
    limit_words: str = ""  # what ``max_loss`` counts, beside the slider of a page
    usual_loss: float | None = None  # up to it the slider has even steps; None: that of half of all
    weighs_bias: bool = False  # is the bias paid for each unit of variance saved, as F says it
    has_auto: bool = False  # whether ``max_loss="auto"`` is defined
    takes_gaps: bool = False  # whether targets that share inputs may have missing values
    for_means: bool = False  # a rule for mean targets, which not all groups have
    counts_columns: bool = False  # counts degrees of freedom by the columns given, not by the rank
    on_folds: bool = True  # whether features may be judged by it on held-out rows
    ridge_loss: Loss | None = None  # the same for penalised fits, where there is such
    kernel: str | None = None  # what the compiled code calls it, where it knows it

    def __call__(self, evidence: Evidence) -> Number:
        """Loss of each merge."""
        return self.loss(evidence)

    def by_ridge(self) -> Criterion:
        """The same for penalised fits; other criteria are those of least squares."""
        if self.ridge_loss is None:
            return self
        return replace(self, loss=self.ridge_loss, kernel=None)


def criterion_of(option: Any, *registries: Mapping[str, Criterion | Loss]) -> Criterion:
    """A criterion by its name, by its loss or by itself; what is not known is a user's own.

    A registry may hold a bare loss: then only its name is known.
    """
    if isinstance(option, Criterion):
        return option
    for registry in registries or (TARGET_CRITERIA, FEATURE_CRITERIA):
        for name, one in registry.items():
            found = one if isinstance(one, Criterion) else Criterion(name, one)
            if option is found.loss or (isinstance(option, str) and option == name):
                return found
    return Criterion(None, option)


def mse(evidence: Evidence) -> Number:
    """Return the loss of merging two targets as the paper's code computes it (Algorithm 1).

    ``V_A - min(V_P, V_j) + (W_P + W_j)/2 - W_A`` with the variance ``V = s2 D/(n-1)`` of Theorem 1
    and ``W = R2 (var(y) - s2)``, where R2 enters twice: once as itself and once inside the variance
    of the signal. Degrees of freedom are counted by all columns given. Kept for parity; it is
    derived for one target and one target and is reused for groups of any size.
    """
    after = evidence.after
    first, second, merged = (_signal(fit, fit.n_inputs) for fit in (*evidence.before, after))
    return _two_task_loss(evidence, after.n_inputs, first, second, merged)


def corollary(evidence: Evidence) -> Number:
    """Return the loss of merging two targets by Eq. 6 read literally.

    The mean target counts with its explained variance ``var(psi) R2``, the two targets with
    ``var(f) R2``, where ``var(f) = var(y) - s2``; the smaller of the two gains decides.
    """
    after = evidence.after
    first, second = (_signal(fit, fit.n_samples - 1 - fit.dof) for fit in evidence.before)
    merged = after.explained / (after.n_samples - 1)
    return _two_task_loss(evidence, after.rank, first, second, merged)


def target_risk(evidence: Evidence) -> Number:
    """Return ``(F - 1)/(F_star - 1)``, F the regression F of the difference of the two means.

    The change of the total risk of all members is
    ``ab/(a+b) r s(d) (F_star - F(d)) / (n-1)`` with ``F_star = 1 + m (n-1)/(n-r-2)``, exact for
    groups of any size, so merging pays while this loss is at most ``m``; ``m = 1`` breaks even.
    """
    return (evidence.difference.f_statistic - 1.0) / (evidence.f_star - 1.0)


def cross_validated_risk(evidence: Evidence) -> Number:
    """Return the loss of ``target_risk`` for penalised fits, judged by cross-validation.

    ``1 + (n-1)/r (total - residual)/residual`` of the difference of the two means, with ``r`` the
    effective number of coefficients, at least one. Merging pays exactly while the inputs predict
    the difference no better than its mean does, which is at 1; the unit is the variance that ``r``
    coefficients cost, as in ``target_risk``, and for least squares the two agree up to terms of
    order ``r/n``.
    """
    difference = evidence.difference
    per_unit = (difference.n_samples - 1) / np.maximum(difference.rank, 1.0)
    known = difference.residual > 0.0
    ratio = difference.explained / np.where(known, difference.residual, 1.0)
    # Two copies of one series: nothing is left to predict, the least that can be.
    return 1.0 + per_unit * np.where(known, ratio, -1.0)


def r2(evidence: Evidence) -> Number:
    """Return the R2 lost by averaging two features (Algorithm 1), in sample or over folds."""
    (before,) = evidence.before
    return evidence.difference.explained / before.total


def feature_mse(evidence: Evidence) -> Number:
    """Return ``var(f) (R2_D - R2_d) - s2/(n-1)``: Eq. 7 for one pair of features.

    Zero is break-even; it says ``F <= 1 / adjusted R2`` for the current model.
    """
    (before,) = evidence.before
    n_less_one = before.n_samples - 1
    signal = before.total / n_less_one - before.noise_variance
    return signal * r2(evidence) - before.noise_variance / n_less_one


def feature_risk(evidence: Evidence) -> Number:
    """Return the F statistic of the restriction that two features share a coefficient.

    Against the noise of the model with all features apart. ``log n`` is the cut of the Bayesian
    information criterion, 2 that of Mallows' Cp, 1 that of the adjusted R2.
    """
    return evidence.difference.f_statistic


def _two_task_loss(
    evidence: Evidence, inputs: Number, first: Number, second: Number, after: Number
) -> Number:
    """Variance and bias of Eq. 6 for the task that gains least, of the signals of all three."""
    (one, other), merged = evidence.before, evidence.after
    n_less_one, least_noise = merged.n_samples - 1, np.minimum(one.residual, other.residual)
    rise = (merged.residual - least_noise) / (n_less_one - inputs) * (inputs / n_less_one)
    return rise + 0.5 * (first + second) - after


def _signal(fit: Fit, inputs: Number) -> Number:
    """``R2 (var - s2)``, the noise variance with degrees of freedom for so many inputs."""
    total, n_less_one = fit.total, fit.n_samples - 1
    share = fit.explained / np.maximum(total, TINY)  # a constant target explains nothing
    return share * (total / n_less_one - fit.residual / (n_less_one - inputs))


#: Keeps the R2 of a constant target at zero instead of zero over zero.
TINY = float(np.finfo(np.float64).tiny)

TARGET_CRITERIA: dict[str, Criterion] = {
    "risk": Criterion(
        "risk",
        target_risk,
        "the change of the total prediction risk (criterion 'risk': the bias paid for each unit of "
        "variance saved; 1 breaks even)",
        unit=0.0,
        break_even=1.0,
        limit_words="bias paid for each unit of variance saved, 1 breaks even",
        usual_loss=0.5,
        weighs_bias=True,
        has_auto=True,
        takes_gaps=True,
        ridge_loss=cross_validated_risk,
        kernel="target_risk",
    ),
    "mse": Criterion(
        "mse",
        mse,
        "the paper's inequality as its code computes it (criterion 'mse')",
        unit=1.0,
        break_even=0.0,
        for_means=True,
        counts_columns=True,
        kernel="mse",
    ),
    "corollary": Criterion(
        "corollary",
        corollary,
        "Corollary 2 of the paper (criterion 'corollary')",
        unit=1.0,
        break_even=0.0,
        for_means=True,
        kernel="corollary",
    ),
}
FEATURE_CRITERIA: dict[str, Criterion] = {
    "risk": Criterion(
        "risk",
        feature_risk,
        unit=0.0,
        has_auto=True,
        on_folds=False,
        ridge_loss=feature_risk,
        kernel="feature_risk",
    ),
    "r2": Criterion("r2", r2, unit=0.0, kernel="r2"),
    "feature-mse": Criterion(
        "feature-mse", feature_mse, unit=1.0, break_even=0.0, on_folds=False, kernel="feature_mse"
    ),
}
