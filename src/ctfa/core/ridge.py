"""Ridge regression of many targets, each with its own penalty, by generalised cross-validation."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ctfa.core.design import (
    EPS,
    Design,
    column_lengths,
    row_scales,
    singular_values,
    weighted_mean,
)
from ctfa.core.design import factor as design_factor
from ctfa.core.types import BoolArray, FloatArray

#: Penalties tried, for columns at unit length: from least squares in all but name to nothing left.
PENALTIES = np.logspace(-6.0, 4.0, 41)
#: A row closer than this to fitting itself cannot be left out.
SMALLEST_SLACK = 1e-10


@dataclass(frozen=True, eq=False)
class Ridge:
    """Inputs, centred (and weighted) at unit length, and penalties that cross-validation prefers.

    The model of a mean of targets is taken to be the mean of its members' models, each with the
    penalty of its own: residuals of a mean are then the means of its members', which is all that
    closed forms need. Residuals are judged as if each row were left out at the average leverage.
    Row by row, those of high leverage would decide alone where tails are heavy.
    """

    mean: FloatArray
    row_scale: FloatArray
    used: BoolArray
    length: FloatArray  # of each column; its penalty is in this unit
    left: FloatArray
    values: FloatArray
    right: FloatArray
    penalty: FloatArray  # (targets,)

    @classmethod
    def of(cls, X: FloatArray, centred: FloatArray, weights: FloatArray | None = None) -> Ridge:
        """Factor, and choose the penalty for targets centred (and weighted) over the rows used."""
        return cls.factor(X, weights).chosen_for(centred)

    @classmethod
    def factor(cls, X: FloatArray, weights: FloatArray | None = None) -> Ridge:
        """Factor without a penalty yet."""
        used, row_scale = row_scales(X.shape[0], weights)
        rows = X if used.all() else X[used]
        mean = weighted_mean(rows, row_scale)
        centred = (rows - mean) * row_scale[:, None]
        length = column_lengths(mean, centred)
        unit = np.where(length > 0.0, centred / np.where(length > 0.0, length, 1.0), 0.0)
        left, values, right = singular_values(unit)
        kept = values > max(unit.shape) * EPS * values.max(initial=0.0)
        factors = left[:, kept], values[kept], right[kept]
        return cls(mean, row_scale, used, length, *factors, np.empty(0))

    def chosen_for(self, centred: FloatArray) -> Ridge:
        """Take for each target the penalty of the smallest generalised cross-validation error."""
        turned = self.left.T @ centred
        errors = np.empty((PENALTIES.size, centred.shape[1]))
        for number, penalty in enumerate(PENALTIES):
            residual = self._judged(centred, turned, np.array([penalty]))
            errors[number] = np.einsum("ij,ij->j", residual, residual)
        return replace(self, penalty=PENALTIES[errors.argmin(axis=0)])

    @property
    def n_samples(self) -> int:
        """Rows that count."""
        return int(self.row_scale.size)

    @property
    def n_inputs(self) -> int:
        """Columns given."""
        return int(self.length.size)

    @property
    def rank(self) -> float:
        """Effective number of coefficients, mean over targets: traces without the intercept."""
        return float(self._shrink(self.penalty).sum() / self.penalty.size)

    def residual(self, centred: FloatArray) -> FloatArray:
        """Residuals in sample."""
        shrunk = self._shrink(self.penalty) * (self.left.T @ centred)
        return np.asarray(centred - self.left @ shrunk)

    def augmented(self) -> Design:
        """The fit of a single target as least squares: a row a column more pulls it towards zero.

        The target gets as many zeros at its end.
        """
        penalty = float(self.penalty[0])
        unit = (self.left * self.values) @ self.right
        columns = np.vstack((unit, np.sqrt(penalty) * np.eye(self.n_inputs)))
        columns[:, self.length == 0.0] = 0.0
        grown = np.sqrt(1.0 + penalty)
        factors = design_factor(np.asfortranarray(columns / grown), self.length * grown)
        return Design(self.n_samples, self.n_inputs, self.mean, self.row_scale, self.used, *factors)

    def cross_validated(self, centred: FloatArray) -> FloatArray:
        """Residuals as if each row were left out, at the average leverage of its target's fit."""
        return self._judged(centred, self.left.T @ centred, self.penalty)

    def about_mean(self, centred: FloatArray) -> FloatArray:
        """What a constant leaves of each row, judged in the same way.

        Residuals pay for their intercept too; held against rows about a mean that has seen them,
        merging would look better by ``2/r`` of its loss, however many rows there are.
        """
        return np.asarray(centred * (self.n_samples / (self.n_samples - 1.0)))

    def coefficients(self, centred: FloatArray) -> FloatArray:
        """Coefficients ``(n_inputs, targets)`` in the units of the inputs."""
        turned = self._shrink(self.penalty) * (self.left.T @ centred)
        unit = self.right.T @ (turned / self.values[:, None])
        return np.asarray(unit / np.where(self.length > 0.0, self.length, np.inf)[:, None])

    def _shrink(self, penalty: FloatArray) -> FloatArray:
        """What is kept of each direction, for each penalty: ``(directions, penalties)``."""
        squares = self.values[:, None] ** 2
        return np.asarray(squares / (squares + penalty))

    def _judged(self, centred: FloatArray, turned: FloatArray, penalty: FloatArray) -> FloatArray:
        shrink = self._shrink(penalty)
        residual = centred - self.left @ (shrink * turned)
        leverage = (shrink.sum(axis=0) + 1.0) / self.n_samples
        return np.asarray(residual / np.maximum(1.0 - leverage, SMALLEST_SLACK))
