"""How targets are fitted to their shared inputs, one fit for all that follows from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Protocol

import numpy as np

from ctfa.core.design import Design
from ctfa.core.gains import Gain
from ctfa.core.gappy_members import GappyMembers
from ctfa.core.gaps import fit_columns, observed_mean
from ctfa.core.history import MergeHistory
from ctfa.core.members import MemberRisk, MergeGain
from ctfa.core.partition import Partition
from ctfa.core.ridge import Ridge
from ctfa.core.spaces.base import MergeSpace
from ctfa.core.spaces.gappy import GappyTargetSpace
from ctfa.core.spaces.readings import CrossValidated, InSample
from ctfa.core.spaces.targets import TargetSpace, gram_of
from ctfa.core.types import FloatArray


class Members(Protocol):
    """What a group's model serves each member with."""

    def flipped(self, signs: FloatArray) -> Members:
        """The same for targets of which some are turned round."""

    def trust(self, partition: Partition) -> FloatArray:
        """Weight on the group's model that minimises each target's predicted risk."""

    def gain_over_single(self, partition: Partition) -> Gain:
        """Risk that each target saves by its group's model instead of its own."""

    def along(self, history: MergeHistory) -> Iterable[MergeGain]:
        """What each merge saves, member by member."""


#: From a partition and the signs of the targets to ``(rows, n_groups)``.
GroupPredictor = Callable[[Partition, FloatArray], FloatArray]


class TargetFit(Protocol):
    """Single-task fits of many targets, centred (and weighted) over the rows of their inputs."""

    def space(self) -> MergeSpace:
        """A fresh space of these targets."""

    def predictor(self, rows: FloatArray) -> GroupPredictor:
        """Predictions of groups' means for other rows, in the units of the centred targets."""

    @property
    def members(self) -> Members:
        """What each target is predicted to lose under the mean of any group."""


class LeastSquaresFit:
    """Ordinary least squares; the risk is the unbiased one for random inputs."""

    def __init__(
        self,
        design: Design,
        centred: FloatArray,
        *,
        flip: bool = False,
        weights: FloatArray | None = None,
    ) -> None:
        self.design, self._flip, self._weights = design, flip, weights
        self._coordinates = design.coordinates(centred)

    def space(self) -> TargetSpace:
        """Inner products of fitted values and of residuals."""
        design = self.design
        reading = InSample(design.n_samples, design.n_inputs, design.rank)
        return _space(self._coordinates, self._weights, reading, flip=self._flip)

    def predictor(self, rows: FloatArray) -> GroupPredictor:
        """By the coefficients of the full fit, the shortest ones where some are not determined."""
        coef = self.design.root.T @ self._coordinates[0]
        return _mean_of_members((rows - self.design.mean) @ coef, self._weights)

    @cached_property
    def members(self) -> MemberRisk:
        """Unbiased for random inputs with an intercept."""
        return MemberRisk.in_sample(self.design, *self._coordinates).weighed(self._weights)


class RidgeFit:
    """Ridge regression; the risk is the squared error of generalised cross-validation."""

    def __init__(
        self,
        ridge: Ridge,
        centred: FloatArray,
        *,
        flip: bool = False,
        weights: FloatArray | None = None,
    ) -> None:
        self.ridge, self._flip, self._weights = ridge, flip, weights
        self._centred = centred
        self._judged = ridge.about_mean(centred), ridge.cross_validated(centred)

    def space(self) -> TargetSpace:
        """Inner products of targets and of residuals as if left out."""
        ridge = self.ridge
        reading = CrossValidated(ridge.n_samples, ridge.n_inputs, ridge.rank)
        return _space(self._judged, self._weights, reading, flip=self._flip)

    def predictor(self, rows: FloatArray) -> GroupPredictor:
        """By the penalised coefficients."""
        predicted = (rows - self.ridge.mean) @ self.ridge.coefficients(self._centred)
        return _mean_of_members(predicted, self._weights)

    @cached_property
    def members(self) -> MemberRisk:
        """Squared error as if each row were left out."""
        return MemberRisk.cross_validated(*self._judged).weighed(self._weights)


class GappyFit:
    """Least squares of targets with missing values (NaN), each group on the rows that it has."""

    def __init__(self, X: FloatArray, values: FloatArray, row_scale: FloatArray | None) -> None:
        self._inputs, self._values, self._row_scale = X, values, row_scale

    def space(self) -> GappyTargetSpace:
        """Two groups are compared on the rows that both have."""
        return GappyTargetSpace.of(self._inputs, self._values, row_scale=self._row_scale)

    def predictor(self, rows: FloatArray) -> GroupPredictor:
        """By a fit of each group's observed mean, once for each group."""
        known: dict[bytes, FloatArray] = {}

        def predict(partition: Partition, signs: FloatArray) -> FloatArray:
            new = [group for group in partition.groups if group.tobytes() not in known]
            if new:
                members = np.concatenate(new)
                labels = np.repeat(np.arange(len(new)), [group.size for group in new])
                means = observed_mean(Partition(labels), self._values[:, members])
                fits = fit_columns(self._inputs, means, self._row_scale)
                predicted = fits.intercept + rows @ fits.coef
                known.update(zip((g.tobytes() for g in new), predicted.T, strict=True))
            return np.column_stack([known[group.tobytes()] for group in partition.groups])

        return predict

    @cached_property
    def members(self) -> GappyMembers:
        """Each target and its group on the target's rows."""
        return GappyMembers(self._inputs, self._values, self._row_scale)


def _space(
    columns: tuple[FloatArray, FloatArray],
    weights: FloatArray | None,
    reading: InSample | CrossValidated,
    *,
    flip: bool,
) -> TargetSpace:
    """Targets that count for so much are means of so many."""
    if weights is None:
        return TargetSpace(gram_of(columns), np.ones(columns[0].shape[1]), reading, flip=flip)
    sums = columns[0] * weights, columns[1] * weights
    return TargetSpace(gram_of(sums), weights.copy(), reading, flip=flip)


def _mean_of_members(predicted: FloatArray, weights: FloatArray | None) -> GroupPredictor:
    """Where fits are linear in the target, a group's model is the mean of its members'."""
    return lambda partition, signs: np.asarray(partition.mean(predicted * signs, weights))
