"""A group's model, and what its members add to it.

A target is served by the ridge regression of its group's mean plus the ridge regression of what it
deviates from that mean. Were members' coefficients drawn about the group's, and the group's about
zero, the penalties would be ratios of variances; both are those of the greatest restricted
likelihood, one for the mean and one for all deviations of a group. A group whose members agree then
serves them with its mean alone, and targets by themselves are plain ridge regressions. Noise that
members have in common cancels in the deviations. A weight for each member would be noise: one
target cannot tell how far to trust its group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from ctfa.core.design import EPS, singular_values
from ctfa.core.partition import Partition
from ctfa.core.ridge import AS_IT_IS, Factors, Ridge, kept, restricted_penalty
from ctfa.core.types import FloatArray, IntArray


class Temper(NamedTuple):
    """Factors of the two penalties, for what the likelihood gets wrong.

    Rows that depend on each other or have heavy tails look like more evidence than they are.
    """

    mean: float = 1.0  # of groups' means
    apart: float = 1.0  # of members' deviations; infinity leaves the group's model alone

    @property
    def credit(self) -> float:
        """How much it counts before folds are asked."""
        return UNLIKELY if self.mean <= LEAST else 1.0


#: Of means, all but least squares: for inputs that are nearly collinear, where what they differ by
#: matters. Folds have to speak for it clearly: where they say little it would do harm.
LEAST, UNLIKELY = 1 / 4096, 0.05


#: Factors that leave nothing.
NOTHING = Factors((np.inf,))


class Tempers(NamedTuple):
    """Several of them, averaged: predictions of groups and of deviations each by their own."""

    mean: Factors = AS_IT_IS
    apart: Factors = AS_IT_IS


#: Those that are tried on folds; the first is what the likelihood says.
TEMPERS = tuple(
    map(
        Temper._make,
        product((1.0, 4.0, 16.0, 64.0, 1 / 8, 1 / 64, LEAST), (1.0, 4.0, 16.0, np.inf)),
    )
)


#: Rows for each target from which on a triangle takes the place of what inputs leave of targets.
TALL = 4
#: Squared deviations that are a smaller share of a member's squares are rounding: those of copies.
ROUNDING = 1e-26


class Parts(NamedTuple):
    """Groups' means and members' deviations in the directions of the inputs, with penalties."""

    labels: IntArray  # (L,): group of each member
    mean: FloatArray  # (r, groups)
    mean_penalty: FloatArray  # (groups,)
    apart: FloatArray  # (r, L)
    apart_penalty: FloatArray  # (groups,): infinite for a target by itself


class Levels:
    """Targets in the directions of their inputs, from which the models of any groups follow."""

    def __init__(
        self, factored: Ridge, centred: FloatArray, weights: FloatArray | None = None
    ) -> None:
        """Turn targets that are centred (and weighted) over the rows used; they count by weight."""
        self.factored, self.weights = factored, weights
        self._turned, self._left = factored.coordinates(centred)
        if len(self._left) > TALL * self._left.shape[1]:
            # Nothing but lengths of combinations is asked of what lies outside the inputs.
            self._left = np.asarray(np.linalg.qr(self._left, mode="r"))

    def parts(self, partition: Partition, signs: FloatArray | None = None) -> Parts:
        """Means and deviations of groups, members turned round by their signs, with penalties."""
        turned, left = self._turned, self._left
        if signs is not None:
            turned, left = turned * signs, left * signs
        labels, weights = partition.labels, self.weights
        mean, mean_left = partition.mean(turned, weights), partition.mean(left, weights)
        counts = np.ones(partition.n_variables) if weights is None else weights
        (counts,) = partition.sum(counts[None])
        penalty = self._penalty(mean**2, _squares(mean_left), counts)
        # Differences, and then their squares: members of a group hardly differ.
        whole = _squares(turned) + _squares(left)
        apart, left = turned - mean[:, labels], left - mean_left[:, labels]
        alike = _squares(apart) + _squares(left) <= ROUNDING * whole
        apart[:, alike], left[:, alike] = 0.0, 0.0
        apart_penalty = np.full(partition.n_groups, np.inf)
        if partition.n_groups < partition.n_variables:
            rest = partition.sum(_squares(left)[None], weights)[0]
            squares = partition.sum(apart**2, weights), rest
            found = self._penalty(*squares)
            apart_penalty = np.where(partition.sizes > 1, found, np.inf)
        return Parts(labels, mean, penalty, apart, apart_penalty)

    def group_coefficients(self, parts: Parts, temper: Factors = AS_IT_IS) -> FloatArray:
        """Coefficients ``(D, groups)`` of the groups' models, in the units of the inputs."""
        return self.factored.coefficients_of(self._mean(parts, temper))

    def deviations(self, parts: Parts, temper: Factors = AS_IT_IS) -> FloatArray:
        """Coefficients ``(D, L)`` that members add to those of their groups."""
        return self.factored.coefficients_of(self._apart(parts, temper))

    def served(
        self, parts: Parts, directions: FloatArray, tempers: Sequence[Temper]
    ) -> Iterator[FloatArray]:
        """Predictions ``(n, L)`` for each temper, of rows in the directions of the inputs."""
        means = {
            k: (directions @ self._mean(parts, Factors((k,))))[:, parts.labels]
            for k in dict.fromkeys(k for k, _ in tempers)
        }
        nothing = (parts.apart_penalty == np.inf).all()
        apart = {
            k: directions @ self._apart(parts, Factors((k,)))
            for k in dict.fromkeys(k for _, k in tempers)
            if k < np.inf and not nothing
        }
        for mean, k in tempers:
            yield means[mean] + apart[k] if k in apart else means[mean]

    def trust(self, parts: Parts, temper: Factors = AS_IT_IS) -> FloatArray:
        """How far each member relies on its group: what is not kept of its deviations."""
        kept = self.factored.kept(parts.apart_penalty, temper)
        return np.asarray(1.0 - kept.sum(axis=0) / max(len(kept), 1))[parts.labels]

    def _penalty(
        self, explained: FloatArray, rest: FloatArray, counts: FloatArray | None = None
    ) -> FloatArray:
        known = self.factored.values, self.factored.n_samples
        return restricted_penalty(explained, rest, *known, counts)

    def _mean(self, parts: Parts, temper: Factors) -> FloatArray:
        return parts.mean * self.factored.kept(parts.mean_penalty, temper)

    def _apart(self, parts: Parts, temper: Factors) -> FloatArray:
        return parts.apart * self.factored.kept(parts.apart_penalty, temper)[:, parts.labels]


def _squares(columns: FloatArray) -> FloatArray:
    """Sum of squares of each column."""
    return np.asarray(np.einsum("ij,ij->j", columns, columns))


class SoftFeatures(NamedTuple):
    """One target by means of groups of features, and what single features add to these."""

    coef: FloatArray  # (feature groups,): of the means
    apart: FloatArray  # (D,): zero in the mean over each group

    @property
    def is_hard(self) -> bool:
        """Whether features of a group have one coefficient."""
        return not self.apart.any()


def soft_features(
    inputs: FloatArray,
    target: FloatArray,
    partition: Partition,
    n_samples: int,
    temper: Factors = AS_IT_IS,
) -> SoftFeatures:
    """Coefficients of features drawn about the one that their group has in common.

    Of centred (and weighted) inputs. How far features of a group may part from theirs is one
    penalty for all, of the greatest restricted likelihood where common coefficients are free; these
    are then those of a ridge regression of the rest on the groups' means, which may be copies of
    each other as features may. Infinite penalties average the features of each group.
    """
    means = partition.mean(inputs)
    length = np.sqrt(np.einsum("ij,ij->j", means, means))
    left, values, right = singular_values(means / np.where(length > 0.0, length, 1.0))
    firm = values > max(means.shape) * EPS * values.max(initial=0.0)
    left, values, right = left[:, firm], values[firm], right[firm]

    contrasts = _contrasts(partition)
    apart = np.zeros(partition.n_variables)
    if contrasts.shape[1]:
        beyond = inputs @ contrasts
        # Of the features themselves: copies that differ by rounding differ by nothing.
        merged = partition.sizes[partition.labels] > 1
        scale = float(np.sqrt(_squares(inputs[:, merged]).max()))
        beyond -= left @ (left.T @ beyond)
        rest = target - left @ (left.T @ target)
        if scale > 0.0 and beyond.any():
            axes, spread, back = singular_values(beyond / scale)
            firm = spread > max(beyond.shape) * EPS * spread[0]
            axes, spread, back = axes[:, firm], spread[firm], back[firm]
            turned = axes.T @ rest
            outside = rest - axes @ turned
            penalty = restricted_penalty(
                turned[:, None] ** 2,
                np.array([outside @ outside]),
                spread,
                n_samples - partition.n_groups,
            )
            shrunk = kept(spread, penalty, temper)[:, 0] / spread
            apart = contrasts @ (back.T @ (turned * shrunk)) / scale
    rest = target - inputs @ apart
    turned = left.T @ rest
    outside = rest - left @ turned
    penalty = restricted_penalty(
        turned[:, None] ** 2, np.array([outside @ outside]), values, n_samples
    )
    shrunk = kept(values, penalty, temper)[:, 0] / values
    coef = right.T @ (turned * shrunk) / np.where(length > 0.0, length, np.inf)
    return SoftFeatures(coef, apart)


def _contrasts(partition: Partition) -> FloatArray:
    """Orthonormal columns that sum to zero over every group, ``(n_variables, n_variables - n)``."""
    columns = []
    for group in partition.groups:
        for size in range(1, group.size):
            column = np.zeros(partition.n_variables)
            column[group[:size]], column[group[size]] = 1.0, -float(size)
            columns.append(column / np.sqrt(size * (size + 1.0)))
    return np.array(columns).T if columns else np.empty((partition.n_variables, 0))
