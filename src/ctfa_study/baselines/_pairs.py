"""Aggregating features two at a time, where nothing but the two and the target is looked at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ctfa import _reading as check
from ctfa.core.partition import Partition
from ctfa.core.types import BoolArray, FloatArray, IntArray
from ctfa.estimators.search import group_names

#: Share of the squared lengths of two features below which what is left of them is rounding.
ROUNDING = 1e-14
#: Parameters of a regression on two features: the slopes and the intercept.
N_PARAMETERS = 3

#: Which candidates join a block: from its members and the candidates.
Joins = Callable[[Sequence[int], IntArray], BoolArray]


@dataclass(frozen=True, eq=False)
class Pairs:
    """A regression on the sum of a block and one candidate, for many candidates at once.

    Both are written by their sum ``u`` and what their difference adds to it, ``e``: the target is
    ``a u + b e`` and a residual, and the mean of all members is ``u`` over their number. Where two
    features nearly agree, coefficients of their own would be lost in rounding, and b is not.
    """

    along: FloatArray  # (n, m), u, centred
    beside: FloatArray  # (n, m), e: the difference of the two less its projection on u
    block_variance: float  # of the sum of the block
    variances: FloatArray  # (m,), of the candidates
    correlations: FloatArray  # (m,), between the sum of the block and each candidate
    difference: FloatArray  # (m,), coefficient of the block's sum less that of the candidate
    lost: FloatArray  # (m,), squares explained by both and not by their sum
    residual: FloatArray  # (m,), squares that both leave

    @classmethod
    def of(cls, block: FloatArray, columns: FloatArray, target: FloatArray) -> Pairs:
        """Fit the target on a block's sum (n,) and each column (n, m); all are centred."""
        along, apart = block[:, None] + columns, block[:, None] - columns
        squares = block @ block + np.einsum("ij,ij->j", columns, columns)
        length = np.einsum("ij,ij->j", along, along)
        here = length > ROUNDING * squares
        length = np.where(here, length, 1.0)
        along = np.where(here, along, 0.0)
        beside = apart - along * (np.einsum("ij,ij->j", along, apart) / length)
        across = np.einsum("ij,ij->j", beside, beside)
        there = across > ROUNDING * squares
        across = np.where(there, across, 1.0)
        beside = np.where(there, beside, 0.0)
        slope = target @ beside / across
        left = target[:, None] - along * (target @ along / length) - beside * slope
        own = np.einsum("ij,ij->j", columns, columns)
        size = np.sqrt(block @ block * own)
        freedom = target.size - 1
        return cls(
            along,
            beside,
            float(block @ block) / freedom,
            own / freedom,
            np.where(size > 0.0, block @ columns / np.where(size > 0.0, size, 1.0), 0.0),
            2.0 * slope,
            slope**2 * across,
            np.einsum("ij,ij->j", left, left),
        )


def grow(n_features: int, joins: Joins) -> Partition:
    """Groups by the loop of Algorithm 2: grow one over the features left, then begin the next."""
    groups = []
    waiting = np.arange(n_features)
    while waiting.size:
        members, queue, refused = [int(waiting[0])], waiting[1:], []
        while queue.size:
            accepted = np.flatnonzero(joins(members, queue))
            if not accepted.size:
                refused.append(queue)
                break
            # Those before the first were asked about this block, and are not asked again.
            first = int(accepted[0])
            refused.append(queue[:first])
            members.append(int(queue[first]))
            queue = queue[first + 1 :]
        groups.append(members)
        waiting = np.concatenate(refused) if refused else np.empty(0, dtype=np.intp)
    return Partition.from_groups(groups)


def restart(n_features: int, joins: Joins, largest: float) -> Partition:
    """Groups by the loop of the authors' code: after each merge ask all features left once more.

    A feature that one member refused may join two. A group of ``largest`` members is closed.
    """
    groups = []
    waiting = list(range(n_features))
    while waiting:
        members = [waiting.pop(0)]
        while waiting and len(members) < largest:
            accepted = np.flatnonzero(joins(members, np.array(waiting)))
            if not accepted.size:
                break
            members.append(waiting.pop(int(accepted[0])))
        groups.append(members)
    return Partition.from_groups(groups)


class PairAggregator(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Replace groups of features by their means; a method implements ``_joins``."""

    def __sklearn_tags__(self) -> Any:
        """Say that a target is needed."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Find the groups.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            Features, averaged in the units they come in.
        y : array-like of shape (n_samples,)
            The target.
        """
        sample = check.read_sample(self, X, None)
        target = check.read_vector(y, sample)
        if sample.n_samples <= N_PARAMETERS:
            raise ValueError(
                f"{sample.n_samples} rows leave nothing of a regression on two features to "
                f"estimate its noise from: pass more than {N_PARAMETERS}."
            )
        self.partition_ = self._grown(sample.inputs.shape[1], self._joins(sample, target))
        self.labels_ = self.partition_.labels
        self.n_groups_ = self.partition_.n_groups
        return self

    def transform(self, X: Any) -> FloatArray:
        """Mean of each group of columns: ``(n, D) -> (n, n_groups)``."""
        check_is_fitted(self)
        return self._aggregated(check.read_inputs(self, X, reset=False))

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Names such as ``mean(a, b)``; a feature by itself keeps its own."""
        check_is_fitted(self)
        names = check.read_feature_names(self, input_features)
        return np.array(group_names(self.partition_, names), dtype=object)

    def _joins(self, sample: check.Sample, target: FloatArray) -> Joins:
        raise NotImplementedError

    def _grown(self, n_features: int, joins: Joins) -> Partition:
        return grow(n_features, joins)

    def _aggregated(self, inputs: FloatArray) -> FloatArray:
        return np.asarray(self.partition_.mean(inputs))


def centred(inputs: FloatArray, target: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Both about their means; what is constant up to rounding is zero."""
    moving = check.is_varying(inputs)
    columns = np.where(moving, inputs - inputs.mean(axis=0), 0.0)
    if not check.is_varying(target[:, None])[0]:
        return columns, np.zeros_like(target)
    return columns, target - target.mean()


def pair_joins(
    inputs: FloatArray, target: FloatArray, decide: Callable[[Pairs], BoolArray]
) -> Joins:
    """Ask about the sum of a block and each candidate; what does not vary joins nothing.

    A mean with a constant costs nothing in these rows and is not to be trusted in others: the
    constant may be a category that they do not have.
    """
    columns, aim = centred(inputs, target)

    def joins(members: Sequence[int], candidates: IntArray) -> BoolArray:
        pairs = Pairs.of(columns[:, members].sum(axis=1), columns[:, candidates], aim)
        moving = (pairs.variances > 0.0) & (pairs.block_variance > 0.0)
        return np.asarray(moving & decide(pairs))

    return joins
