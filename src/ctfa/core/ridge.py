"""Ridge regression of many targets with one penalty, judged by leaving each row out."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg

from ctfa.core.design import EPS, Design, column_lengths, row_scales, weighted_mean
from ctfa.core.design import factor as design_factor
from ctfa.core.types import BoolArray, FloatArray

#: Penalties tried, for columns at unit length: from least squares in all but name to nothing left.
PENALTIES = np.logspace(-6.0, 4.0, 41)
#: A row closer than this to fitting itself cannot be left out.
SMALLEST_SLACK = 1e-10


@dataclass(frozen=True, eq=False)
class Ridge:
    """Inputs, centred (and weighted) at unit length, and the penalty that left-out rows prefer.

    One penalty for all targets keeps fitted values and left-out residuals linear in the target:
    those of a mean are the means of its members', which is all that closed forms need.
    """

    mean: FloatArray
    row_scale: FloatArray
    used: BoolArray
    length: FloatArray  # of each column; its penalty is in this unit
    left: FloatArray
    values: FloatArray
    right: FloatArray
    penalty: float

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
        left, values, right = linalg.svd(unit, full_matrices=False)
        kept = values > max(unit.shape) * EPS * values.max(initial=0.0)
        factors = left[:, kept], values[kept], right[kept]
        return cls(mean, row_scale, used, length, *factors, np.inf)

    def chosen_for(self, centred: FloatArray) -> Ridge:
        """Take the penalty with the smallest sum of left-out squares."""
        turned = self.left.T @ centred
        errors = [float((self._left_out(centred, turned, p) ** 2).sum()) for p in PENALTIES]
        return replace(self, penalty=float(PENALTIES[int(np.argmin(errors))]))

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
        """Effective number of coefficients: the trace of the smoother, without the intercept."""
        return float(self._shrink(self.penalty).sum())

    def residual(self, centred: FloatArray) -> FloatArray:
        """Residuals in sample."""
        shrunk = self._shrink(self.penalty)[:, None] * (self.left.T @ centred)
        return np.asarray(centred - self.left @ shrunk)

    def augmented(self) -> Design:
        """The same fit as least squares: a row a column more, which pulls it towards zero.

        Targets get as many zeros at their end.
        """
        weight = np.sqrt(self.penalty)
        unit = (self.left * self.values) @ self.right
        columns = np.vstack((unit, weight * np.eye(self.n_inputs)))
        columns[:, self.length == 0.0] = 0.0
        grown = np.sqrt(1.0 + self.penalty)
        factors = design_factor(np.asfortranarray(columns / grown), self.length * grown)
        return Design(self.n_samples, self.n_inputs, self.mean, self.row_scale, self.used, factors)

    def left_out(self, centred: FloatArray) -> FloatArray:
        """Residual of each row when it is predicted from all the others."""
        return self._left_out(centred, self.left.T @ centred, self.penalty)

    def about_others(self, centred: FloatArray) -> FloatArray:
        """Each row about the mean of all the others: what a constant leaves of it, left out.

        Left-out residuals pay for their intercept too; held against rows about a mean that has seen
        them, merging would look better by ``2/r`` of its loss, however many rows there are.
        """
        slack = np.maximum(1.0 - self.row_scale**2 / self.n_samples, SMALLEST_SLACK)
        return np.asarray(centred / slack[:, None])

    def coefficients(self, centred: FloatArray) -> FloatArray:
        """Coefficients ``(n_inputs, targets)`` in the units of the inputs."""
        turned = self._shrink(self.penalty)[:, None] * (self.left.T @ centred)
        unit = self.right.T @ (turned / self.values[:, None])
        return np.asarray(unit / np.where(self.length > 0.0, self.length, np.inf)[:, None])

    def _shrink(self, penalty: float) -> FloatArray:
        squares = self.values**2
        return np.asarray(squares / (squares + penalty))

    def _left_out(self, centred: FloatArray, turned: FloatArray, penalty: float) -> FloatArray:
        shrink = self._shrink(penalty)
        residual = centred - self.left @ (shrink[:, None] * turned)
        leverage = self.left**2 @ shrink + self.row_scale**2 / self.n_samples
        slack = np.maximum(1.0 - leverage, SMALLEST_SLACK)
        return np.asarray(residual / slack[:, None])
