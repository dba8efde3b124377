"""Feature aggregation by the authors of the paper before it: LinCFA, NonLinCFA, GenLinCFA.

Written from the rules that their published code follows (the repositories PaperLinCFA and
PaperNon_Gen_LinCFA of PaoloBonettiPolimi on GitHub), without its code. Its option to ask neighbours
on a map only, and its variants for aggregates other than the mean, are not here.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ctfa import _reading as check
from ctfa.core.partition import Partition
from ctfa.core.types import BoolArray, FloatArray, IntArray
from ctfa_study.baselines._pairs import N_PARAMETERS, Joins, PairAggregator, Pairs, restart

#: Singular values of two columns below this part of the larger are zero, as in LinearRegression.
RANK = 1e-6


def correlation_threshold(
    noise_variance: ArrayLike, n_samples: int, difference: ArrayLike
) -> FloatArray:
    """Correlation from which on the mean of two features in standard units predicts better.

    With target ``w_1 x_1 + w_2 x_2`` and noise of variance s2, one coefficient less saves
    ``s2 / (n - 1)`` of model variance, and the mean misses ``(w_1 - w_2)^2 (1 - rho) / 2`` of the
    signal: they are equal at ``1 - 2 s2 / ((n - 1) (w_1 - w_2)^2)``.

    Parameters
    ----------
    noise_variance : float or array
        s2.
    n_samples : int
    difference : float or array
        ``w_1 - w_2``.

    Returns
    -------
    ndarray
        The threshold; minus infinity where the coefficients are equal.

    Examples
    --------
    >>> float(correlation_threshold(1.0, 101, 0.5))
    0.92
    """
    apart = np.asarray(difference, dtype=float) ** 2
    missed = np.where(apart > 0.0, (n_samples - 1) * apart / 2.0, 1.0)
    threshold = 1.0 - np.asarray(noise_variance, dtype=float) / missed
    return np.where(apart > 0.0, threshold, -np.inf)


class LinCFA(PairAggregator):
    """Average features whose correlation is large enough, by a bivariate linear analysis.

    Bonetti, Metelli and Restelli (2024), "Interpretable linear dimensionality reduction based on
    bias-variance analysis", Data Mining and Knowledge Discovery 38, as in the authors' published
    code. The mean of a block, a candidate and the target are put into standard units. The candidate
    joins where its correlation with the block reaches `correlation_threshold`, with the
    coefficients and the noise (on ``n - 3`` degrees of freedom) of the regression of the target on
    the two. After each merge all features left are asked once more, in the order given.

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
    The block is put into standard units before it is compared, so that a block of many weighs no
    more than the candidate; what replaces the group is the mean of all members, in the units given:
    standardise features first, as the authors do. A feature that does not vary joins nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from ctfa_study.baselines import LinCFA
    >>> rng = np.random.default_rng(0)
    >>> common = rng.normal(size=(80, 1))
    >>> X = np.hstack([common + 0.1 * rng.normal(size=(80, 3)), rng.normal(size=(80, 1))])
    >>> y = X[:, :3].mean(axis=1) - X[:, 3] + rng.normal(size=80)
    >>> LinCFA().fit(X, y).get_feature_names_out()
    array(['mean(x0, x1, x2)', 'x3'], dtype=object)
    """

    #: Members at which the authors' code closes a group; here it does not.
    LARGEST = np.inf

    def _joins(self, sample: check.Sample, target: FloatArray) -> Joins:
        columns, aim = _standard(sample.inputs), _standard(target[:, None])[:, 0]

        def joins(members: Sequence[int], candidates: IntArray) -> BoolArray:
            pairs = Pairs.of(_block(sample.inputs, members), columns[:, candidates], aim)
            noise = pairs.residual / (aim.size - N_PARAMETERS)
            moving = (pairs.variances > 0.0) & (pairs.block_variance > 0.0)
            threshold = correlation_threshold(noise, aim.size, pairs.difference)
            return np.asarray(moving & (pairs.correlations >= threshold))

        return joins

    def _grown(self, n_features: int, joins: Joins) -> Partition:
        return restart(n_features, joins, self.LARGEST)


class NonLinCFA(LinCFA):
    """Average features where held-out R2 of a linear model loses at most ``epsilon``.

    Bonetti, Metelli and Restelli (2023), "Nonlinear feature aggregation: two algorithms driven by
    theory", arXiv 2306.11143, as in the authors' published code. The mean of a block, a candidate
    and the target are put into standard units. Two linear models are judged by their mean R2 over
    folds: of both, and of their mean, weighted by the number of members. The candidate joins where
    the second is at most ``epsilon`` worse. After each merge all features left are asked once more.

    Parameters
    ----------
    epsilon : float, default=1e-4
        R2 that may be lost: a larger one merges more. The authors try 0.1 down to 1e-7.
    cv : int or splitter, default=5
        Folds; a number of them are of consecutive rows. The authors' ``n_val=-5`` is
        ``cv=TimeSeriesSplit(5)``.

    Attributes
    ----------
    partition_, labels_, n_groups_, n_features_in_, feature_names_in_
        As in ``LinCFA``.

    Notes
    -----
    As in their code, units are of all rows, those of the test folds included; a group is closed at
    1000 members; and where a fold has fewer than two rows, R2 is not defined and nothing is merged.
    ``PairR2Aggregator`` judges by the rows it fits, and takes the R2 that may be lost from the
    noise.

    Examples
    --------
    >>> import numpy as np
    >>> from ctfa_study.baselines import NonLinCFA
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(80, 3))
    >>> y = np.tanh(X[:, 0] + X[:, 1]) + 0.1 * rng.normal(size=80)
    >>> NonLinCFA(0.01).fit(X, y).labels_
    array([0, 0, 1])
    """

    LARGEST = 1000

    def __init__(self, epsilon: float = 1e-4, *, cv: Any = 5) -> None:
        self.epsilon = epsilon
        self.cv = cv

    def _joins(self, sample: check.Sample, target: FloatArray) -> Joins:
        epsilon = check.read_number(self.epsilon, "epsilon")
        columns, aim = _standard(sample.inputs), _standard(target[:, None])[:, 0]
        if isinstance(self.cv, Integral) and aim.size < 2 * int(self.cv):
            return lambda members, candidates: np.zeros(candidates.size, dtype=bool)
        rows = check.read_folds(self.cv, sample, aim)
        folds = [_Fold(columns, aim, train, test) for train, test in rows]

        def joins(members: Sequence[int], candidates: IntArray) -> BoolArray:
            block = _block(sample.inputs, members)
            lost = [fold.lost_r2(block, len(members), candidates) for fold in folds]
            return np.asarray(np.mean(lost, axis=0) <= epsilon)

        return joins


class GenLinCFA(LinCFA):
    """Average features whose covariances with the target are small beside their own variance.

    Bonetti, Metelli and Restelli (2023), "Nonlinear feature aggregation: two algorithms driven by
    theory", arXiv 2306.11143, for generalised linear models, as in the authors' published code. The
    mean of a block x1, a candidate x2 and the target y are put into standard units. The candidate
    joins where ``|cov(x1, y)| + |cov(x2, y)| <= epsilon var(x1 + x2) / 2``. After each merge all
    features left are asked once more.

    Parameters
    ----------
    epsilon : float, default=0.5
        A larger one merges more: for features of correlation r with each other and c with the
        target, those with ``2 c <= epsilon (1 + r)``. The authors try 0.375 to 0.9.

    Attributes
    ----------
    partition_, labels_, n_groups_, n_features_in_, feature_names_in_
        As in ``LinCFA``.

    Notes
    -----
    As in their code, covariances divide by ``n - 1`` and variances by n; a group is closed at 500
    members; nothing but the target's units depends on its family. ``PairDevianceAggregator`` fits
    generalised linear models and compares what they lose.

    Examples
    --------
    >>> import numpy as np
    >>> from ctfa_study.baselines import GenLinCFA
    >>> rng = np.random.default_rng(2)
    >>> common = rng.normal(size=(200, 1))
    >>> X = np.hstack([common + 0.1 * rng.normal(size=(200, 2)), rng.normal(size=(200, 1))])
    >>> y = rng.poisson(np.exp(0.5 * X[:, :2].mean(axis=1) - 0.5 * X[:, 2]))
    >>> GenLinCFA().fit(X, y).get_feature_names_out()
    array(['mean(x0, x1)', 'x2'], dtype=object)
    """

    LARGEST = 500

    def __init__(self, epsilon: float = 0.5) -> None:
        self.epsilon = epsilon

    def _joins(self, sample: check.Sample, target: FloatArray) -> Joins:
        epsilon = check.read_number(self.epsilon, "epsilon")
        columns, aim = _standard(sample.inputs), _standard(target[:, None])[:, 0]

        def joins(members: Sequence[int], candidates: IntArray) -> BoolArray:
            block, others = _block(sample.inputs, members), columns[:, candidates]
            covariances = (abs(aim @ block) + np.abs(aim @ others)) / (aim.size - 1)
            return np.asarray(covariances <= epsilon * np.var(block[:, None] + others, axis=0) / 2)

        return joins


def _standard(columns: FloatArray) -> FloatArray:
    """Columns of mean 0 and variance 1; zero where they do not vary."""
    moving = check.is_varying(columns)
    about = np.where(moving, columns - columns.mean(axis=0), 0.0)
    return np.asarray(about / np.where(moving, about.std(axis=0), 1.0))


def _block(inputs: FloatArray, members: Sequence[int]) -> FloatArray:
    """The mean of a group so far, in standard units."""
    return _standard(inputs[:, members].mean(axis=1, keepdims=True))[:, 0]


class _Fold:
    """Least squares on training rows, with intercepts, judged by R2 on test rows."""

    def __init__(
        self, columns: FloatArray, aim: FloatArray, train: IntArray, test: IntArray
    ) -> None:
        self.train, self.test = train, test
        centre, level = columns[train].mean(axis=0), aim[train].mean()
        self.known, self.asked = columns[train] - centre, columns[test] - centre
        self.aim, self.wanted = aim[train] - level, aim[test] - level
        self.squares = np.einsum("ij,ij->j", self.known, self.known)
        self.moments = self.aim @ self.known
        self.total = float(((self.wanted - self.wanted.mean()) ** 2).sum())

    def lost_r2(self, block: FloatArray, size: int, candidates: IntArray) -> FloatArray:
        """R2 of a block and each candidate, less that of their mean over ``size + 1`` members."""
        first, asked = block[self.train], block[self.test] - block[self.train].mean()
        first = first - first.mean()
        gram = np.empty((candidates.size, 2, 2))
        gram[:, 0, 0] = first @ first
        gram[:, 0, 1] = gram[:, 1, 0] = (first @ self.known)[candidates]
        gram[:, 1, 1] = self.squares[candidates]
        moments = np.stack(np.broadcast_arrays(first @ self.aim, self.moments[candidates]), axis=1)
        # Coefficients of least norm, where a column does not vary in the training rows.
        inverse = np.linalg.pinv(gram, rcond=RANK**2, hermitian=True)
        slopes = np.einsum("kij,kj->ki", inverse, moments)
        # A regression on one column is the same in any units: the sum stands for the mean.
        weights = np.array([size, 1.0])
        length = np.einsum("kij,i,j->k", gram, weights, weights)
        there = length > RANK**2 * (size**2 * gram[:, 0, 0] + gram[:, 1, 1])
        alone = np.where(there, moments @ weights / np.where(there, length, 1.0), 0.0)
        others = self.asked[:, candidates]
        both = self._r2(asked[:, None] * slopes[:, 0] + others * slopes[:, 1])
        return both - self._r2((size * asked[:, None] + others) * alone)

    def _r2(self, predicted: FloatArray) -> FloatArray:
        """R2 of each column; of a target that does not vary 1 where it is met, else 0."""
        missed = ((self.wanted[:, None] - predicted) ** 2).sum(axis=0)
        if self.total == 0.0:
            return np.where(missed == 0.0, 1.0, 0.0)
        return np.asarray(1.0 - missed / self.total)
