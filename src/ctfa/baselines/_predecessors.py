"""Feature aggregation by the authors of the paper before it: LinCFA, NonLinCFA, GenLinCFA.

Of the two papers (arXiv 2303.14734 and 2306.11143) the abstracts were at hand and the paper's own
account of them (its Corollary 2, with two features and one), not their theorems. What follows is
derived from the bias-variance analysis that these state; each class says what it derives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ctfa import _validation as check
from ctfa.baselines._deviance import FAMILIES, deviances
from ctfa.baselines._pairs import (
    N_PARAMETERS,
    Joins,
    PairAggregator,
    Pairs,
    centred,
    pair_joins,
)
from ctfa.core.types import BoolArray, FloatArray, IntArray


def correlation_threshold(
    noise_variance: ArrayLike,
    n_samples: int,
    difference: ArrayLike,
    scale_1: ArrayLike = 1.0,
    scale_2: ArrayLike = 1.0,
) -> FloatArray:
    """Correlation from which on the mean of two features predicts better than both.

    With target ``w_1 x_1 + w_2 x_2`` and noise of variance s2, one coefficient less saves
    ``s2 / (n - 1)`` of model variance, and the mean misses
    ``(w_1 - w_2)^2 S_1^2 S_2^2 (1 - rho^2) / var(x_1 + x_2)`` of the signal, S the standard
    deviations. The two are equal at a root of a quadratic in rho; for equal S it is
    ``1 - 2 s2 / ((n - 1) S^2 (w_1 - w_2)^2)``.

    Parameters
    ----------
    noise_variance : float or array
        s2.
    n_samples : int
    difference : float or array
        ``w_1 - w_2``.
    scale_1, scale_2 : float or array, default=1.0
        Standard deviations of the two features.

    Returns
    -------
    ndarray
        The threshold; -1 where any correlation will do.

    Examples
    --------
    >>> float(correlation_threshold(1.0, 101, 0.5))
    0.92
    """
    saved = np.asarray(noise_variance, dtype=float) / (n_samples - 1)
    first, second = np.asarray(scale_1, dtype=float), np.asarray(scale_2, dtype=float)
    # signal rho^2 + 2 half rho + rest >= 0, where half and rest come from the variance of the sum.
    signal = (np.asarray(difference, dtype=float) * first * second) ** 2
    half = saved * first * second
    rest = saved * (first**2 + second**2) - signal
    under = half**2 - signal * rest
    crosses = (under >= 0.0) & (signal > 0.0)
    root = (np.sqrt(np.where(crosses, under, 0.0)) - half) / np.where(crosses, signal, 1.0)
    return np.where(crosses, np.maximum(root, -1.0), -1.0)


class LinCFA(PairAggregator):
    """Average features whose correlation is large enough, by a bivariate linear analysis.

    Bonetti, Metelli and Restelli (2024), "Interpretable linear dimensionality reduction based on
    bias-variance analysis", Data Mining and Knowledge Discovery 38. A block of features and a
    candidate, in the order given, are averaged where their correlation reaches the threshold at
    which the mean predicts as well as the two: `correlation_threshold`, with the coefficients and
    the noise (on ``n - 3`` degrees of freedom) of the regression of the target on these two.

    Attributes
    ----------
    partition_ : Partition
        The groups.
    labels_ : ndarray of shape (n_features,)
        Group of each feature.
    n_groups_ : int
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    Derived, and not read in the original: the threshold for features of different variances, the
    estimates in place of what is not known, and that a candidate is compared with the mean of all
    members, weighted as it will be. With estimates, the rule is that the F statistic of equal
    coefficients is at most 1, and two features that deserve one coefficient stay apart about one
    time in three. Other features count as noise here, which they are only where they do not
    correlate with the two; ``FeatureAggregator`` looks at all of them.

    Examples
    --------
    >>> import numpy as np
    >>> from ctfa.baselines import LinCFA
    >>> rng = np.random.default_rng(0)
    >>> common = rng.normal(size=(80, 1))
    >>> X = np.hstack([common + 0.1 * rng.normal(size=(80, 3)), rng.normal(size=(80, 1))])
    >>> y = X[:, :3].mean(axis=1) - X[:, 3] + rng.normal(size=80)
    >>> LinCFA().fit(X, y).get_feature_names_out()
    array(['mean(x0, x1, x2)', 'x3'], dtype=object)
    """

    def _joins(self, inputs: FloatArray, target: FloatArray) -> Joins:
        n_samples = target.size

        def decide(pairs: Pairs) -> BoolArray:
            threshold = correlation_threshold(
                pairs.residual / (n_samples - N_PARAMETERS),
                n_samples,
                pairs.difference,
                np.sqrt(pairs.block_variance),
                np.sqrt(pairs.variances),
            )
            return np.asarray(pairs.correlations >= threshold)

        return pair_joins(inputs, target, decide)


class NonLinCFA(PairAggregator):
    """Aggregate features where a linear model loses less R2 than one coefficient costs.

    Bonetti, Metelli and Restelli (2023), "Nonlinear feature aggregation: two algorithms driven by
    theory", arXiv 2306.11143. The target is any function of the features and noise of variance s2.
    A linear model of two features against one of their aggregate: the aggregate saves
    ``s2 / (n - 1)`` of model variance, and costs the variance of the target times the R2 that is
    lost, which is Eq. 7 of the paper with two features and one.

    Parameters
    ----------
    epsilon : float or "auto", default="auto"
        R2 that may be lost. ``"auto"``: ``s2 / ((n - 1) var(y))``, with the residual variance of
        the two features, on ``n - 3`` degrees of freedom, for s2.
    aggregate : "mean" or callable, default="mean"
        What a group is replaced by; a callable takes the columns of its members, (n, k), and gives
        one, (n,). To aggregate transformed features, put a ``FunctionTransformer`` in front.

    Attributes
    ----------
    partition_, labels_, n_groups_, n_features_in_, feature_names_in_
        As in ``LinCFA``.

    Notes
    -----
    Derived, and not read in the original: the estimates. What two features leave holds the
    signal of the others and what is not linear, besides the noise; it is what the coefficients of
    these two vary by. With means this is LinCFA, except that features of opposite sign may meet.

    Examples
    --------
    >>> import numpy as np
    >>> from ctfa.baselines import NonLinCFA
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(80, 3))
    >>> y = np.maximum(X[:, 0], X[:, 1]) + 0.1 * rng.normal(size=80)
    >>> NonLinCFA(aggregate=lambda columns: columns.max(axis=1)).fit(X, y).labels_
    array([0, 0, 1])
    """

    def __init__(
        self,
        epsilon: float | str = "auto",
        *,
        aggregate: str | Callable[[FloatArray], FloatArray] = "mean",
    ) -> None:
        self.epsilon = epsilon
        self.aggregate = aggregate

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Names such as ``mean(a, b)``; with a callable its name, or ``aggregate(a, b)``."""
        names = super().get_feature_names_out(input_features)
        if not callable(self.aggregate):
            return names
        word = getattr(self.aggregate, "__name__", "aggregate").replace("<lambda>", "aggregate")
        grouped = self.partition_.sizes > 1
        changed = [
            word + name.removeprefix("mean") if many else name
            for name, many in zip(names, grouped.tolist(), strict=True)
        ]
        return np.array(changed, dtype=object)

    def _joins(self, inputs: FloatArray, target: FloatArray) -> Joins:
        n_samples = target.size
        automatic = isinstance(self.epsilon, str) and self.epsilon == "auto"
        epsilon = 0.0 if automatic else check.read_number(self.epsilon, "epsilon", " or 'auto'")
        total = float(np.sum(centred(inputs, target)[1] ** 2))

        def allowed(residual: FloatArray) -> FloatArray:
            if automatic:
                return residual / (n_samples - N_PARAMETERS)
            return np.full_like(residual, epsilon * total)

        if not callable(self.aggregate):
            check.require(self.aggregate, ["mean"], "aggregate")
            return pair_joins(
                inputs, target, lambda pairs: np.asarray(pairs.lost <= allowed(pairs.residual))
            )
        return self._general_joins(inputs, target, allowed)

    def _general_joins(
        self, inputs: FloatArray, target: FloatArray, allowed: Callable[[FloatArray], FloatArray]
    ) -> Joins:
        """The same where the aggregate is not in the span of the two."""

        def joins(members: Sequence[int], candidates: IntArray) -> BoolArray:
            block = self._column(inputs[:, members])
            answers = np.zeros(candidates.size, dtype=bool)
            for place, candidate in enumerate(candidates.tolist()):
                both, aim = centred(np.column_stack([block, inputs[:, candidate]]), target)
                apart = Pairs.of(both[:, 0], both[:, 1:], aim).residual
                one = self._column(inputs[:, [*members, candidate]])
                together = Pairs.of(*_alone(one, target)).residual
                answers[place] = (together - apart <= allowed(apart))[0]
            return answers

        return joins

    def _column(self, columns: FloatArray) -> FloatArray:
        if not callable(self.aggregate) or columns.shape[1] == 1:
            return np.asarray(columns.mean(axis=1))
        column = np.asarray(self.aggregate(columns), dtype=float)
        if column.shape != columns.shape[:1] or not np.isfinite(column).all():
            raise ValueError(
                f"aggregate gave an array of shape {column.shape} for columns of shape "
                f"{columns.shape}: it must give one finite number for each row."
            )
        return column

    def _aggregated(self, inputs: FloatArray) -> FloatArray:
        if not callable(self.aggregate):
            return super()._aggregated(inputs)
        return np.column_stack([self._column(inputs[:, group]) for group in self.partition_.groups])


class GenLinCFA(PairAggregator):
    """Average features where a generalised linear model loses less deviance than it saves.

    Bonetti, Metelli and Restelli (2023), "Nonlinear feature aggregation: two algorithms driven by
    theory", arXiv 2306.11143, for targets of an exponential family with its canonical link. A
    model of two features against one of their mean, both with an intercept and fitted by maximum
    likelihood: the features are averaged where that raises the deviance by the dispersion or less.

    Parameters
    ----------
    family : {"gaussian", "poisson", "binomial"}, default="gaussian"
        Distribution of the target: numbers; counts or other numbers from 0 up; zeros and ones. The
        dispersion is 1, for "gaussian" the residual variance on ``n - 3`` degrees of freedom.

    Attributes
    ----------
    partition_, labels_, n_groups_, n_features_in_, feature_names_in_
        As in ``LinCFA``.

    Notes
    -----
    Derived, and not read in the original: by the expansion of the likelihood about its best
    coefficients, each coefficient estimated from n rows adds dispersion / n to the expected
    deviance of a new row, so that the mean of two features breaks even where the best model of it
    has this much more deviance a row than the best of both. Counts more dispersed than Poisson's
    have a larger price, and too few features are averaged. "gaussian" is ``NonLinCFA()``.

    Examples
    --------
    >>> import numpy as np
    >>> from ctfa.baselines import GenLinCFA
    >>> rng = np.random.default_rng(2)
    >>> common = rng.normal(size=(200, 1))
    >>> X = np.hstack([common + 0.1 * rng.normal(size=(200, 2)), rng.normal(size=(200, 1))])
    >>> y = rng.poisson(np.exp(0.5 * X[:, :2].mean(axis=1) - 0.5 * X[:, 2]))
    >>> GenLinCFA("poisson").fit(X, y).get_feature_names_out()
    array(['mean(x0, x1)', 'x2'], dtype=object)
    """

    def __init__(self, family: str = "gaussian") -> None:
        self.family = family

    def __sklearn_tags__(self) -> Any:
        """Say what targets a family takes."""
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = self.family == "poisson"
        return tags

    def _joins(self, inputs: FloatArray, target: FloatArray) -> Joins:
        check.require(self.family, ["gaussian", *FAMILIES], "family")
        _require_family(target, self.family)

        def decide(pairs: Pairs) -> BoolArray:
            if self.family == "gaussian":
                return np.asarray(pairs.lost <= pairs.residual / (target.size - N_PARAMETERS))
            both = np.stack([pairs.along.T, pairs.beside.T], axis=2)
            one = deviances(both[:, :, :1], target, self.family)
            return np.asarray(one - deviances(both, target, self.family) <= 1.0)

        return pair_joins(inputs, target, decide)


def _alone(column: FloatArray, target: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """One feature beside a column of zeros, for a regression on it alone."""
    columns, aim = centred(np.column_stack([column, np.zeros_like(column)]), target)
    return columns[:, 0], columns[:, 1:], aim


def _require_family(target: FloatArray, family: str) -> None:
    if family == "poisson" and (target.min() < 0.0 or target.max() <= 0.0):
        raise ValueError(
            f"y goes from {target.min():g} to {target.max():g}, which are no counts: family="
            "'poisson' takes numbers from 0 up, not all of them 0."
        )
    if family == "binomial" and not np.array_equal(np.unique(target), [0.0, 1.0]):
        raise ValueError(
            f"y holds {np.unique(target)[:4]}: family='binomial' takes zeros and ones, both of "
            "them."
        )
