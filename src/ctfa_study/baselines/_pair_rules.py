"""Features averaged two at a time, by rules of our own: lost R2, lost deviance.

They follow from the bias-variance analysis of LinCFA, NonLinCFA and GenLinCFA and are not those
methods, which are in ``_predecessors.py`` as their authors run them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, xlogy

from ctfa import _reading as check
from ctfa.core.types import BoolArray, FloatArray, IntArray
from ctfa_study.baselines._pairs import (
    N_PARAMETERS,
    Joins,
    PairAggregator,
    Pairs,
    centred,
    pair_joins,
)

#: Steps of Newton's method, and halvings of a step that leads uphill.
MAX_STEPS, MAX_HALVINGS = 60, 40
#: Decrease of a deviance, relative to its size, at which a fit has settled.
SETTLED = 1e-12
#: Added to unit curvatures, so that columns of zeros do no harm.
RIDGE = 1e-9


class Family(NamedTuple):
    """An exponential family: ``log p(y) = y theta - b(theta)`` up to a function of y."""

    cumulant: Callable[[FloatArray], FloatArray]  # b
    mean: Callable[[FloatArray], FloatArray]  # b'
    variance: Callable[[FloatArray], FloatArray]  # b'' as a function of the mean
    link: Callable[[float], float]  # theta of a mean
    best: Callable[[FloatArray], FloatArray]  # the log-likelihood of each y fitted by itself


FAMILIES = {
    "poisson": Family(
        np.exp,
        np.exp,
        lambda mean: mean,
        lambda mean: float(np.log(mean)),
        lambda y: np.asarray(xlogy(y, y) - y),
    ),
    "binomial": Family(
        lambda theta: np.logaddexp(0.0, theta),
        expit,
        lambda mean: mean * (1.0 - mean),
        lambda mean: float(np.log(mean / (1.0 - mean))),
        np.zeros_like,
    ),
}


def deviances(designs: FloatArray, target: FloatArray, family: str) -> FloatArray:
    """Least deviance of each model with an intercept and the columns of its design.

    Parameters
    ----------
    designs : ndarray of shape (m, n, p)
        Columns of each model, without the intercept.
    target : ndarray of shape (n,)
    family : {"poisson", "binomial"}

    Examples
    --------
    >>> import numpy as np
    >>> y = np.array([1.0, 2.0, 3.0, 6.0])
    >>> bool(np.isclose(deviances(np.zeros((1, 4, 1)), y, "poisson")[0], 4.4987, atol=1e-4))
    True
    """
    kind = FAMILIES[family]
    m, n, p = designs.shape
    scale = np.sqrt(np.mean(designs**2, axis=1, keepdims=True))
    X = np.concatenate([np.ones((m, n, 1)), designs / np.where(scale > 0.0, scale, 1.0)], axis=2)
    coef = np.zeros((m, p + 1))
    coef[:, 0] = kind.link(float(target.mean()))
    best = float(np.sum(kind.best(target)))

    def value(coef: FloatArray) -> FloatArray:
        theta = np.einsum("mnp,mp->mn", X, coef)
        with np.errstate(over="ignore"):
            return np.asarray(2.0 * (best - np.sum(target * theta - kind.cumulant(theta), axis=1)))

    now = value(coef)
    for _ in range(MAX_STEPS):
        mean = kind.mean(np.einsum("mnp,mp->mn", X, coef))
        slope = np.einsum("mnp,mn->mp", X, target - mean)
        bend = np.einsum("mnp,mn,mnq->mpq", X, kind.variance(mean), X)
        bend += RIDGE * n * np.eye(p + 1)
        step = np.linalg.solve(bend, slope[:, :, None])[:, :, 0]
        new = value(coef + step)
        for _ in range(MAX_HALVINGS):
            uphill = ~(new <= now)
            if not uphill.any():
                break
            step[uphill] *= 0.5
            new = value(coef + step)
        step[~(new <= now)] = 0.0
        coef = coef + step
        gained, now = now - value(coef), value(coef)
        if np.all(gained <= SETTLED * (1.0 + np.abs(now))):
            break
    return now


class PairR2Aggregator(PairAggregator):
    """Aggregate features where a linear model loses less R2 than one coefficient costs.

    A rule of our own beside ``NonLinCFA``. The target is any function of the features and noise of
    variance s2. A linear model of two features against one of their aggregate: the aggregate saves
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
    partition_ : Partition
        The groups.
    labels_ : ndarray of shape (n_features,)
        Group of each feature.
    n_groups_ : int
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    What two features leave holds the signal of the others and what is not linear, besides the
    noise; it is what the coefficients of these two vary by. With means and ``"auto"``, features
    meet where the F statistic of equal coefficients is at most 1: two that deserve one coefficient
    stay apart about one time in three. Other features count as noise, which they are only where
    they do not correlate with the two; ``FeatureAggregator`` looks at all of them.

    Examples
    --------
    >>> import numpy as np
    >>> from ctfa_study.baselines import PairR2Aggregator
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(80, 3))
    >>> y = np.maximum(X[:, 0], X[:, 1]) + 0.1 * rng.normal(size=80)
    >>> PairR2Aggregator(aggregate=lambda columns: columns.max(axis=1)).fit(X, y).labels_
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

    def _joins(self, sample: check.Sample, target: FloatArray) -> Joins:
        inputs, n_samples = sample.inputs, target.size
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


class PairDevianceAggregator(PairAggregator):
    """Average features where a generalised linear model loses less deviance than it saves.

    A rule of our own beside ``GenLinCFA``, for targets of an exponential family with its canonical
    link. A model of two features against one of their mean, both with an intercept and fitted by
    maximum likelihood: the features are averaged where that raises the deviance by the dispersion
    or less.

    Parameters
    ----------
    family : {"gaussian", "poisson", "binomial"}, default="gaussian"
        Distribution of the target: numbers; counts or other numbers from 0 up; zeros and ones. The
        dispersion is 1, for "gaussian" the residual variance on ``n - 3`` degrees of freedom.

    Attributes
    ----------
    partition_, labels_, n_groups_, n_features_in_, feature_names_in_
        As in ``PairR2Aggregator``.

    Notes
    -----
    By the expansion of the likelihood about its best
    coefficients, each coefficient estimated from n rows adds dispersion / n to the expected
    deviance of a new row, so that the mean of two features breaks even where the best model of it
    has this much more deviance per row than the best of both. Counts more dispersed than Poisson's
    have a larger price, and too few features are averaged. "gaussian" is ``PairR2Aggregator()``.

    Examples
    --------
    >>> import numpy as np
    >>> from ctfa_study.baselines import PairDevianceAggregator
    >>> rng = np.random.default_rng(2)
    >>> common = rng.normal(size=(200, 1))
    >>> X = np.hstack([common + 0.1 * rng.normal(size=(200, 2)), rng.normal(size=(200, 1))])
    >>> y = rng.poisson(np.exp(0.5 * X[:, :2].mean(axis=1) - 0.5 * X[:, 2]))
    >>> PairDevianceAggregator("poisson").fit(X, y).get_feature_names_out()
    array(['mean(x0, x1)', 'x2'], dtype=object)
    """

    def __init__(self, family: str = "gaussian") -> None:
        self.family = family

    def __sklearn_tags__(self) -> Any:
        """Say what targets a family takes."""
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = self.family == "poisson"
        return tags

    def _joins(self, sample: check.Sample, target: FloatArray) -> Joins:
        check.require(self.family, ["gaussian", *FAMILIES], "family")
        _require_family(target, self.family)

        def decide(pairs: Pairs) -> BoolArray:
            if self.family == "gaussian":
                return np.asarray(pairs.lost <= pairs.residual / (target.size - N_PARAMETERS))
            both = np.stack([pairs.along.T, pairs.beside.T], axis=2)
            one = deviances(both[:, :, :1], target, self.family)
            return np.asarray(one - deviances(both, target, self.family) <= 1.0)

        return pair_joins(sample.inputs, target, decide)


def _alone(column: FloatArray, target: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """One feature beside a column of zeros, for a regression on it alone."""
    columns, aim = centred(np.column_stack([column, np.zeros_like(column)]), target)
    return columns[:, 0], columns[:, 1:], aim


def _require_family(target: FloatArray, family: str) -> None:
    if family == "poisson" and (target.min() < 0.0 or target.max() <= 0.0):
        raise ValueError(
            f"y goes from {target.min():g} to {target.max():g}, which are not counts: family="
            "'poisson' takes numbers from 0 up, not all of them 0."
        )
    if family == "binomial" and not np.array_equal(np.unique(target), [0.0, 1.0]):
        raise ValueError(
            f"y holds {np.unique(target)[:4]}: family='binomial' takes zeros and ones, both of "
            "them."
        )
