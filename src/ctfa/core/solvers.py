"""How targets are fitted to their shared inputs, one fit for all that follows from it."""

from __future__ import annotations

from functools import cached_property
from typing import Protocol

import numpy as np

from ctfa.core.design import Design
from ctfa.core.members import MemberRisk
from ctfa.core.ridge import Ridge
from ctfa.core.spaces.readings import InSample, LeftOut
from ctfa.core.spaces.targets import TargetSpace, gram_of
from ctfa.core.types import FloatArray


class TargetFit(Protocol):
    """Single-task fits of many targets, centred (and weighted) over the rows of their inputs."""

    def space(self, *, flip: bool = False) -> TargetSpace:
        """A fresh space of these targets."""

    def predict(self, rows: FloatArray) -> FloatArray:
        """Predictions ``(rows, targets)`` for other rows, in the units of the centred targets."""

    @property
    def risk(self) -> MemberRisk:
        """What each target is predicted to lose under any mean of them."""


class LeastSquaresFit:
    """Ordinary least squares; the risk is the unbiased one for random inputs."""

    def __init__(self, design: Design, centred: FloatArray) -> None:
        self.design = design
        self._coordinates = design.coordinates(centred)

    def space(self, *, flip: bool = False) -> TargetSpace:
        """Inner products of fitted values and of residuals."""
        design = self.design
        reading = InSample(design.n_samples, design.n_inputs, design.rank)
        gram = gram_of(self._coordinates)
        return TargetSpace(gram, np.ones(gram.diagonal.shape[1]), reading, flip=flip)

    def predict(self, rows: FloatArray) -> FloatArray:
        """By the coefficients of the full fit, the shortest ones where some are not determined."""
        coef = self.design.root.T @ self._coordinates[0]
        return np.asarray((rows - self.design.mean) @ coef)

    @cached_property
    def risk(self) -> MemberRisk:
        """Unbiased for random inputs with an intercept."""
        return MemberRisk.in_sample(self.design, *self._coordinates)


class RidgeFit:
    """Ridge regression with one penalty for all; the risk is the left-out squared error."""

    def __init__(self, ridge: Ridge, centred: FloatArray) -> None:
        self.ridge = ridge
        self._centred = centred
        self._left_out = ridge.about_others(centred), ridge.left_out(centred)

    def space(self, *, flip: bool = False) -> TargetSpace:
        """Inner products of targets and of left-out residuals."""
        ridge = self.ridge
        reading = LeftOut(ridge.n_samples, ridge.n_inputs, ridge.rank)
        gram = gram_of(self._left_out)
        return TargetSpace(gram, np.ones(self._centred.shape[1]), reading, flip=flip)

    def predict(self, rows: FloatArray) -> FloatArray:
        """By the penalised coefficients."""
        return np.asarray((rows - self.ridge.mean) @ self.ridge.coefficients(self._centred))

    @cached_property
    def risk(self) -> MemberRisk:
        """Squared error of each row predicted from the others."""
        return MemberRisk.left_out(*self._left_out)
