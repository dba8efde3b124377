"""Ridge regression of many targets, each with its own penalty, by restricted likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy import linalg

from ctfa.core.design import EPS, Design, column_lengths, row_scales, singular_values, weighted_mean
from ctfa.core.design import factor as design_factor
from ctfa.core.partition import Partition
from ctfa.core.types import BoolArray, FloatArray

#: Penalties tried, for columns at unit length: from nothing left to least squares in all but name.
#: Descending, so that of two that serve alike the one that leaves less is taken.
PENALTIES = np.append(np.inf, np.logspace(4.0, -8.0, 49))
#: A row closer than this to fitting itself cannot be left out.
SMALLEST_SLACK = 1e-10
#: Deviances that differ by less are the same.
TIED = 1e-6
#: Squares below this have no logarithm.
TINY = 1e-300


class Factors(NamedTuple):
    """Factors of a penalty, and how much what each of them keeps counts; weights sum to one."""

    values: tuple[float, ...] = (1.0,)
    weights: tuple[float, ...] = (1.0,)


AS_IT_IS = Factors()


@dataclass(frozen=True, eq=False)
class Ridge:
    """Inputs, centred (and weighted) at unit length, and a penalty for each target.

    The penalty is the ratio of variances of noise and coefficients that has the greatest restricted
    likelihood: the evidence of all directions together. Errors of rows left out, one by one or at
    their average leverage, would let a single row decide where tails are heavy. The model of a mean
    of targets is taken to be the mean of its members' models, each with the penalty of its own:
    residuals of a mean are then the means of its members', which is all that closed forms need.
    """

    mean: FloatArray
    row_scale: FloatArray
    used: BoolArray
    length: FloatArray  # of each column; its penalty is in this unit
    left: FloatArray  # in the rows, or in the basis of the design that these come from
    values: FloatArray
    right: FloatArray
    n_samples: int  # rows that count, or that these stand in for
    penalty: FloatArray  # (targets,)
    basis: Design | None = None

    @classmethod
    def of(
        cls,
        X: FloatArray,
        centred: FloatArray,
        weights: FloatArray | None = None,
        penalties: Sequence[float] | None = None,
        n_samples: int | None = None,
    ) -> Ridge:
        """Factor, and choose the penalty for targets centred (and weighted) over the rows used.

        Of ``penalties``, which are in the units of the inputs as scikit-learn's are, each target
        takes the one whose rows are predicted best when they are left out, one by one; rows that
        stand in for ``n_samples`` others carry a single one.
        """
        if penalties is None:
            return cls.factor(X, weights, n_samples).chosen_for(centred)
        factored = cls.factor(X, weights, n_samples, unit=False)
        if len(penalties) == 1:
            return factored.with_penalty(np.full(centred.shape[1], float(penalties[0])))
        errors = [factored.left_out(centred, float(penalty)) for penalty in penalties]
        return factored.with_penalty(np.asarray(penalties, dtype=float)[np.argmin(errors, axis=0)])

    @classmethod
    def factor(
        cls,
        X: FloatArray,
        weights: FloatArray | None = None,
        n_samples: int | None = None,
        *,
        unit: bool = True,
    ) -> Ridge:
        """Factor without a penalty yet; ``n_samples`` where the rows stand in for so many.

        ``unit``: whether columns are brought to unit length first.
        """
        used, row_scale = row_scales(X.shape[0], weights, n_samples)
        rows = X if used.all() else X[used]
        mean = weighted_mean(rows, row_scale)
        centred = (rows - mean) * row_scale[:, None]
        length = column_lengths(mean, centred)
        if not unit:
            length = np.where(length > 0.0, 1.0, 0.0)
        columns = np.where(length > 0.0, centred / np.where(length > 0.0, length, 1.0), 0.0)
        left, values, right = singular_values(columns)
        kept = values > max(columns.shape) * EPS * values.max(initial=0.0)
        factors = left[:, kept], values[kept], right[kept]
        count = rows.shape[0] if n_samples is None else n_samples
        return cls(mean, row_scale, used, length, *factors, count, np.empty(0))

    @classmethod
    def of_design(cls, design: Design) -> Ridge | None:
        """The same from inputs that are factored already; None where that was by singular values.

        The singular values of tall inputs are those of a triangle, and their directions in the rows
        need not be formed.
        """
        if design.reflectors is None:
            return None
        # Where a triangle is trusted all directions are more than rounding.
        triangle = np.triu(design.reflectors[0][: design.n_inputs])
        left, values, right = singular_values(triangle)
        known = design.mean, design.row_scale, design.used, design.length
        return cls(*known, left, values, right, design.n_samples, np.empty(0), design)

    def chosen_for(self, centred: FloatArray) -> Ridge:
        """Take for each target the penalty of the greatest restricted likelihood."""
        turned, left = self.coordinates(centred)
        rest = np.einsum("ij,ij->j", left, left)
        return self.with_penalty(restricted_penalty(turned**2, rest, self.values, self.n_samples))

    def left_out(self, centred: FloatArray, penalty: float) -> FloatArray:
        """Squared error of each target when its rows are left out one by one."""
        kept = self.kept(np.array([penalty]))
        residual = centred - self._fitted(kept * self._turned(centred))
        level = self.row_scale**2 / (self.row_scale**2).sum()
        slack = 1.0 - (self._fitted(np.eye(self.values.size)) ** 2 @ kept)[:, 0] - level
        residual /= np.maximum(slack, SMALLEST_SLACK)[:, None]
        return np.asarray(np.einsum("ij,ij->j", residual, residual))

    def with_penalty(self, penalty: FloatArray) -> Ridge:
        """The same with given penalties, one for each target."""
        return replace(self, penalty=penalty)

    @property
    def n_inputs(self) -> int:
        """Columns given."""
        return int(self.length.size)

    @property
    def ranks(self) -> FloatArray:
        """Effective number of coefficients of each target: traces without the intercept."""
        return np.asarray(self.kept(self.penalty).sum(axis=0))

    @property
    def rank(self) -> float:
        """Mean of these."""
        return float(self.ranks.mean())

    def centre(self, columns: FloatArray) -> FloatArray:
        """Centre (and weight) other columns over the same rows."""
        rows = columns if self.used.all() else columns[self.used]
        return np.asarray((rows - weighted_mean(rows, self.row_scale)) * self.row_scale[:, None])

    def coordinates(self, centred: FloatArray) -> tuple[FloatArray, FloatArray]:
        """What the directions of the inputs say of centred columns, and what they leave of them.

        What they leave comes in any coordinates: inner products are those of residuals.
        """
        if self.basis is not None:
            turned, left = self.basis.coordinates(centred)
            return self.left.T @ turned, left
        turned = self.left.T @ centred
        left = centred - self.left @ turned
        correction = self.left.T @ left  # once more: the first sweep leaves rounding of the fit
        return turned + correction, left - self.left @ correction

    def _turned(self, centred: FloatArray) -> FloatArray:
        """The first of these."""
        if self.basis is not None:
            centred = self.basis.coordinates(centred)[0]
        return np.asarray(self.left.T @ centred)

    def _fitted(self, turned: FloatArray) -> FloatArray:
        """Rows of what has these coordinates."""
        columns = self.left @ turned
        return columns if self.basis is None else self.basis.fitted(columns)

    def directions(self, rows: FloatArray) -> FloatArray:
        """Other rows in the directions of the inputs, at the length that these have: ``(n, r)``."""
        unit = (rows - self.mean) / np.where(self.length > 0.0, self.length, np.inf)
        return np.asarray(unit @ (self.right / self.values[:, None]).T)

    def residual(self, centred: FloatArray) -> FloatArray:
        """Residuals in sample."""
        shrunk = self.kept(self.penalty) * self._turned(centred)
        return np.asarray(centred - self._fitted(shrunk))

    def augmented(self) -> Design:
        """The fit of a single target as least squares, pulled towards zero by one row per column.

        The target gets as many zeros at its end.
        """
        # Infinity is a number beside which nothing of the columns is left.
        penalty = min(float(self.penalty[0]), LARGEST_PENALTY)
        unit = self._fitted(self.values[:, None] * self.right)
        columns = np.vstack((unit, np.sqrt(penalty) * np.eye(self.n_inputs)))
        columns[:, self.length == 0.0] = 0.0
        grown = np.sqrt(1.0 + penalty)
        factors = design_factor(np.asfortranarray(columns / grown), self.length * grown)
        known = self.n_samples, self.n_inputs, self.mean, self.row_scale, self.used
        return Design(*known, *factors, self.length * grown)

    def cross_validated(self, centred: FloatArray) -> FloatArray:
        """Residuals as if each row were left out, at the average leverage of its target's fit."""
        leverage = (self.ranks + 1.0) / self.n_samples
        return np.asarray(self.residual(centred) / np.maximum(1.0 - leverage, SMALLEST_SLACK))

    def about_mean(self, centred: FloatArray) -> FloatArray:
        """What a constant leaves of each row, judged in the same way.

        Residuals pay for their intercept too; held against rows about a mean that has seen them,
        merging would look better by ``2/r`` of its loss, however many rows there are.
        """
        return np.asarray(centred * (self.n_samples / (self.n_samples - 1.0)))

    def coefficients(self, centred: FloatArray, factors: Factors = AS_IT_IS) -> FloatArray:
        """Coefficients ``(n_inputs, targets)`` in the units of the inputs."""
        return self.coefficients_of(self.kept(self.penalty, factors) * self._turned(centred))

    def coefficients_of(self, turned: FloatArray) -> FloatArray:
        """Coefficients of what is predicted with these coordinates."""
        unit = self.right.T @ (turned / self.values[:, None])
        return np.asarray(unit / np.where(self.length > 0.0, self.length, np.inf)[:, None])

    def kept(self, penalty: FloatArray, factors: Factors = AS_IT_IS) -> FloatArray:
        """What is kept of each direction, for each penalty: ``(directions, penalties)``."""
        return kept(self.values, penalty, factors)

    def average(self, penalty: FloatArray, factors: Factors) -> FloatArray:
        """The penalties that by themselves keep as much of all directions as the average does."""
        if len(factors.values) == 1:
            return penalty * factors.values[0]
        lowest, highest = np.log10(min(factors.values)), np.log10(max(factors.values))
        steps, found = np.linspace(highest, lowest, 481), penalty.copy()
        for k in np.flatnonzero(penalty < np.inf):
            each = self.kept(penalty[k] * 10.0**steps).sum(axis=0)
            wanted = self.kept(penalty[[k]], factors).sum()
            found[k] *= 10.0 ** np.interp(wanted, each, steps)
        return found


def kept(values: FloatArray, penalty: FloatArray, factors: Factors = AS_IT_IS) -> FloatArray:
    """What penalties keep of directions with singular values, ``(directions, penalties)``."""
    squares, total = values[:, None] ** 2, np.zeros((values.size, penalty.size))
    for factor, weight in zip(*factors, strict=True):
        total += weight * (squares / (squares + factor * penalty))
    return total


#: What stands for an infinite penalty where one has to be computed with.
LARGEST_PENALTY = 1e12


def restricted_penalty(
    explained: FloatArray,
    rest: FloatArray,
    values: FloatArray,
    n_samples: int,
    counts: FloatArray | None = None,
) -> FloatArray:
    """Penalties of the greatest restricted likelihood, one for each column of squares.

    ``explained`` (directions, m) are squared coordinates, or sums of them over columns that are to
    have one penalty; ``rest`` (m,) what lies outside the directions, whose singular values these
    are. With S the values, A the squares and R the rest it is the smallest

        ``(n - 1) log(sum_j A_j / (1 + S_j^2 / penalty) + R) + sum_j log(1 + S_j^2 / penalty)``.

    Infinity is among those tried: then nothing is explained. With ``counts`` of the columns the
    mean of this over all of them is added to that of each: one column says little of its penalty.
    """
    weight = 1.0 / (1.0 + values**2 / PENALTIES[:, None])
    squares = np.maximum(weight @ explained + rest, TINY)
    deviance = (n_samples - 1) * np.log(squares) - np.log(weight).sum(axis=1)[:, None]
    if counts is not None:
        # A column that is constant over these rows knows of no penalty.
        counts = np.where(squares[0] > TINY, counts, 0.0)
        deviance += (deviance @ (counts / max(counts.sum(), TINY)))[:, None]
    # The first, which is the largest, of those between which rounding would choose.
    return np.asarray(PENALTIES[(deviance <= deviance.min(axis=0) + TIED).argmax(axis=0)])


class SoftFeatures(NamedTuple):
    """One target by means of groups of features, and what single features add to these."""

    coef: FloatArray  # (feature groups,): of the means
    apart: FloatArray  # (D,): zero in the mean over each group


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

    def regressed(axes: FloatArray, values: FloatArray, rest: FloatArray, n: int) -> FloatArray:
        """Coefficients of a ridge regression on directions with these singular values."""
        turned = axes.T @ rest
        outside = rest - axes @ turned
        squares = turned[:, None] ** 2, np.array([outside @ outside])
        penalty = restricted_penalty(*squares, values, n)
        return np.asarray(turned * (kept(values, penalty, temper)[:, 0] / values))

    means = partition.mean(inputs)
    length = np.sqrt(np.einsum("ij,ij->j", means, means))
    left, values, right = singular_values(means / np.where(length > 0.0, length, 1.0))
    firm = values > max(means.shape) * EPS * values.max(initial=0.0)
    left, values, right = left[:, firm], values[firm], right[firm]

    apart = np.zeros(partition.n_variables)
    if partition.n_groups < partition.n_variables:
        # Orthonormal columns that sum to zero over every group.
        contrasts = np.zeros((partition.n_variables, partition.n_variables - partition.n_groups))
        blocks = [linalg.helmert(group.size) for group in partition.groups]
        contrasts[np.concatenate(partition.groups)] = linalg.block_diag(*blocks).T
        beyond = inputs @ contrasts
        # Of the features themselves: copies that differ by rounding differ by nothing.
        merged = inputs[:, partition.sizes[partition.labels] > 1]
        scale = float(np.sqrt(np.einsum("ij,ij->j", merged, merged).max()))
        beyond -= left @ (left.T @ beyond)
        if scale > 0.0 and beyond.any():
            axes, spread, back = singular_values(beyond / scale)
            firm = spread > max(beyond.shape) * EPS * spread[0]
            axes, spread, back = axes[:, firm], spread[firm], back[firm]
            rest = target - left @ (left.T @ target)
            slopes = regressed(axes, spread, rest, n_samples - partition.n_groups)
            apart = contrasts @ (back.T @ slopes) / scale
    coef = right.T @ regressed(left, values, target - inputs @ apart, n_samples)
    return SoftFeatures(coef / np.where(length > 0.0, length, np.inf), apart)
