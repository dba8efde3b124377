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

from ctfa.core.partition import Partition
from ctfa.core.ridge import AS_IT_IS, Factors, Ridge, restricted_penalty
from ctfa.core.types import FloatArray, IntArray

#: Of means, all but least squares: for inputs that are nearly collinear, where what they differ by
#: matters. Folds have to show clearly that it helps: where they say little it would do harm.
LEAST, UNLIKELY = 1 / 4096, 0.05


class Temper(NamedTuple):
    """Factors of the two penalties, for what the likelihood gets wrong.

    Rows that depend on each other or have heavy tails look like more evidence than they are.
    """

    mean: float = 1.0  # of groups' means
    apart: float = 1.0  # of members' deviations; infinity leaves the group's model alone

    @property
    def credit(self) -> float:
        """Its weight before folds are used."""
        return UNLIKELY if self.mean <= LEAST else 1.0


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


class LevelParts(NamedTuple):
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

    def parts(self, partition: Partition, signs: FloatArray | None = None) -> LevelParts:
        """Means and deviations of groups, members turned round by their signs, with penalties."""
        turned, left = self._turned, self._left
        if signs is not None:
            turned, left = turned * signs, left * signs
        labels, weights = partition.labels, self.weights
        known = self.factored.values, self.factored.n_samples
        mean, mean_left = partition.mean(turned, weights), partition.mean(left, weights)
        counts = np.ones(partition.n_variables) if weights is None else weights
        (counts,) = partition.sum(counts[None])
        penalty = restricted_penalty(mean**2, _squares(mean_left), *known, counts)
        # Differences, and then their squares: members of a group hardly differ.
        whole = _squares(turned) + _squares(left)
        apart, left = turned - mean[:, labels], left - mean_left[:, labels]
        alike = _squares(apart) + _squares(left) <= ROUNDING * whole
        apart[:, alike], left[:, alike] = 0.0, 0.0
        apart_penalty = np.full(partition.n_groups, np.inf)
        if partition.n_groups < partition.n_variables:
            rest = partition.sum(_squares(left)[None], weights)[0]
            found = restricted_penalty(partition.sum(apart**2, weights), rest, *known)
            apart_penalty = np.where(partition.sizes > 1, found, np.inf)
        return LevelParts(labels, mean, penalty, apart, apart_penalty)

    def group_coefficients(self, parts: LevelParts, temper: Factors = AS_IT_IS) -> FloatArray:
        """Coefficients ``(D, groups)`` of the groups' models, in the units of the inputs."""
        return self.factored.coefficients_of(self._mean(parts, temper))

    def deviations(self, parts: LevelParts, temper: Factors = AS_IT_IS) -> FloatArray:
        """Coefficients ``(D, L)`` that members add to those of their groups."""
        return self.factored.coefficients_of(self._apart(parts, temper))

    def served(
        self, parts: LevelParts, directions: FloatArray, tempers: Sequence[Temper]
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

    def trust(self, parts: LevelParts, temper: Factors = AS_IT_IS) -> FloatArray:
        """How far each member relies on its group: what is not kept of its deviations."""
        kept = self.factored.kept(parts.apart_penalty, temper)
        return np.asarray(1.0 - kept.sum(axis=0) / max(len(kept), 1))[parts.labels]

    def _mean(self, parts: LevelParts, temper: Factors) -> FloatArray:
        return parts.mean * self.factored.kept(parts.mean_penalty, temper)

    def _apart(self, parts: LevelParts, temper: Factors) -> FloatArray:
        return parts.apart * self.factored.kept(parts.apart_penalty, temper)[:, parts.labels]


def _squares(columns: FloatArray) -> FloatArray:
    """Sum of squares of each column."""
    return np.asarray(np.einsum("ij,ij->j", columns, columns))
