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
from ctfa.core.ridge import Ridge, restricted_penalty
from ctfa.core.types import FloatArray, IntArray


class Temper(NamedTuple):
    """Factors of the two penalties, for what the likelihood gets wrong.

    Rows that depend on each other or have heavy tails look like more evidence than they are.
    """

    mean: float = 1.0  # of groups' means
    apart: float = 1.0  # of members' deviations; infinity leaves the group's model alone


#: Those that are tried on folds; the first is what the likelihood says.
TEMPERS = tuple(
    map(Temper._make, product((1.0, 4.0, 16.0, 64.0, 1 / 8, 1 / 64), (1.0, 4.0, 16.0, np.inf)))
)


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

    def parts(self, partition: Partition, signs: FloatArray | None = None) -> Parts:
        """Means and deviations of groups, members turned round by their signs, with penalties."""
        turned, left = self._turned, self._left
        if signs is not None:
            turned, left = turned * signs, left * signs
        labels, weights = partition.labels, self.weights
        mean, mean_left = partition.mean(turned, weights), partition.mean(left, weights)
        penalty = self._penalty(mean**2, _squares(mean_left))
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

    def group_coefficients(self, parts: Parts, temper: float = 1.0) -> FloatArray:
        """Coefficients ``(D, groups)`` of the groups' models, in the units of the inputs."""
        return self.factored.coefficients_of(self._mean(parts, temper))

    def deviations(self, parts: Parts, temper: float = 1.0) -> FloatArray:
        """Coefficients ``(D, L)`` that members add to those of their groups."""
        return self.factored.coefficients_of(self._apart(parts, temper))

    def served(
        self, parts: Parts, directions: FloatArray, tempers: Sequence[Temper]
    ) -> Iterator[FloatArray]:
        """Predictions ``(n, L)`` for each temper, of rows in the directions of the inputs."""
        means = {k: (directions @ self._mean(parts, k))[:, parts.labels] for k, _ in tempers}
        nothing = (parts.apart_penalty == np.inf).all()
        apart = {
            k: directions @ self._apart(parts, k) for _, k in tempers if k < np.inf and not nothing
        }
        for mean, k in tempers:
            yield means[mean] + apart[k] if k in apart else means[mean]

    def trust(self, parts: Parts, temper: float = 1.0) -> FloatArray:
        """How far each member relies on its group: what is not kept of its deviations."""
        kept = self.factored.kept(temper * parts.apart_penalty)
        return np.asarray(1.0 - kept.sum(axis=0) / max(len(kept), 1))[parts.labels]

    def _penalty(self, explained: FloatArray, rest: FloatArray) -> FloatArray:
        return restricted_penalty(explained, rest, self.factored.values, self.factored.n_samples)

    def _mean(self, parts: Parts, temper: float) -> FloatArray:
        return parts.mean * self.factored.kept(temper * parts.mean_penalty)

    def _apart(self, parts: Parts, temper: float) -> FloatArray:
        return parts.apart * self.factored.kept(temper * parts.apart_penalty)[:, parts.labels]


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
    inputs: FloatArray, target: FloatArray, partition: Partition, n_samples: int, temper: float
) -> SoftFeatures:
    """Coefficients of features drawn about the one that their group has in common.

    Of centred (and weighted) inputs. The common coefficients are free; how far features of a group
    may part from theirs is one penalty for all, of the greatest restricted likelihood. An infinite
    one averages the features of each group, zero is least squares.
    """
    means = partition.mean(inputs)
    length = np.sqrt(np.einsum("ij,ij->j", means, means))
    left, values, right = singular_values(means / np.where(length > 0.0, length, 1.0))
    firm = values > max(means.shape) * EPS * values.max(initial=0.0)
    left, values, right = left[:, firm], values[firm], right[firm]

    def regressed(columns: FloatArray) -> FloatArray:
        """Coefficients of the means that columns leave least to."""
        unit = right.T @ ((left.T @ columns) / values[:, None])
        return np.asarray(unit / np.where(length > 0.0, length, np.inf)[:, None])

    contrasts = _contrasts(partition)
    apart = np.zeros(partition.n_variables)
    if contrasts.shape[1]:
        beyond = inputs @ contrasts
        beyond -= left @ (left.T @ beyond)
        rest = target - left @ (left.T @ target)
        scale = float(np.sqrt(np.einsum("ij,ij->j", beyond, beyond).max()))
        if scale > 0.0:
            axes, spread, back = singular_values(beyond / scale)
            kept = spread > max(beyond.shape) * EPS * spread[0]
            axes, spread, back = axes[:, kept], spread[kept], back[kept]
            turned = axes.T @ rest
            outside = rest - axes @ turned
            penalty = restricted_penalty(
                turned[:, None] ** 2,
                np.array([outside @ outside]),
                spread,
                n_samples - partition.n_groups,
            )
            shrunk = spread / (spread**2 + temper * penalty)
            apart = contrasts @ (back.T @ (turned * shrunk)) / scale
    coef = regressed((target - inputs @ apart)[:, None])[:, 0]
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
