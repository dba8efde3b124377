"""Slopes of a task's own, shrunk towards those of its group.

A group's model leaves each member residuals. Ridge regression of these on the member's own centred
inputs moves its slopes from the group's towards its own. Were members' slopes drawn about the
group's, the best penalty of an input would be the noise over the variance with which members differ
in its slope; both are estimated from all members of a group together, by maximum likelihood. Inputs
have each their own variance: members may agree on most of them and differ in one (the trend of a
patient, the price to a rater). A penalty for each member alone, by generalised cross-validation,
was tried and lost more than the shrinkage gains: a task of twenty rows cannot choose.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ctfa.core.design import about_means
from ctfa.core.small_fits import RowMoments
from ctfa.core.types import FloatArray, IntArray


class Corrections(NamedTuple):
    """What members add to the slopes of their groups."""

    coef: FloatArray  # (L, D), in the units of the inputs
    centre: FloatArray  # (L, D): means of the inputs, about which the correction is zero
    trust: FloatArray  # (L,): one less the share of its own directions that a member uses
    variance: FloatArray  # (groups, D): of slopes for unit inputs and noise, zero for noise alone


def correct(
    inputs: Sequence[FloatArray] | FloatArray,
    residuals: Sequence[FloatArray] | FloatArray,
    labels: IntArray,
    *,
    weights: Sequence[FloatArray] | FloatArray | None = None,
    negligible: float = 0.0,
    counts: Sequence[FloatArray] | None = None,
    share: float = 1.0,
) -> Corrections:
    """Shrink each member's slopes towards its group's, by one penalty a group.

    Parameters
    ----------
    inputs : sequence of (n_i, D) arrays, or one array (L, n, D)
        Rows of each member.
    residuals : sequence of (n_i,) arrays, or one array (L, n)
        What the group's model leaves of the member's target; its mean is not looked at.
    labels : (L,)
        Group of each member, from zero.
    weights : sequence of (n_i,) arrays, or one array (L, n), optional
        Of the rows; zero leaves a row out.
    negligible : float
        Residuals that vary by no more than this about their mean are rounding.
    counts : sequence of (n_i,) arrays, optional
        How many rows each stands for.
    share : float
        Of the variance found with which members differ.
    """
    moments, centre = _moments(inputs, residuals, weights, negligible)
    if counts is not None:
        moments = moments._replace(n_rows=np.array([np.round(own.sum()) for own in counts]))
    (found,) = shrink(moments, (share,), labels)
    return Corrections(found.coef, centre, found.trust, found.variance)


class Steps(NamedTuple):
    """What tasks add to coefficients in common, at one share of the variance found."""

    coef: FloatArray  # (L, K)
    trust: FloatArray  # (L,)
    variance: FloatArray  # (groups, K): of all that was found


def shrink(
    moments: RowMoments, tempers: Sequence[float], labels: IntArray | None = None
) -> Iterator[Steps]:
    """Move tasks from what their group has in common towards their own, all drawn about it alike.

    ``moments`` are those of what is left by the coefficients in common; without ``labels`` all
    tasks are one group. The variances with which the tasks of a group differ, one an input, are of
    the greatest likelihood; ``tempers`` are shares of it to be taken, 0 for none.
    """
    n_tasks, n_inputs = moments.moment.shape
    labels = np.zeros(n_tasks, dtype=np.intp) if labels is None else labels
    dof = moments.n_rows - 1.0
    # Standard deviation of each input within tasks, over all of them.
    squares = np.einsum("ljj->j", moments.gram)
    spread = np.sqrt(squares / max(float(dof.sum()), 1.0))
    spread = np.where(spread > 0.0, spread, 1.0)
    gram, moment = moments.gram / (spread[:, None] * spread), moments.moment / spread
    start = 1.0 / _common_penalty(gram, moment, moments.square, dof, labels)
    variance = np.repeat(start[:, None], n_inputs, axis=1)
    still = Steps(np.zeros((n_tasks, n_inputs)), np.ones(n_tasks), variance)
    # Tasks of groups that differ by more than noise; the others keep their group's slopes.
    at = np.flatnonzero(start[labels] > 0.0)
    if not any(tempers) or not at.size:
        yield from (still for _ in tempers)
        return
    numbers, own = np.unique(labels[at], return_inverse=True)
    differ = _Differences(gram[at], moment[at], moments.square[at], dof[at], own)
    variance[numbers] = differ.estimate(variance[numbers])
    directions = np.maximum(np.linalg.matrix_rank(gram[at], hermitian=True), 1)
    for temper in tempers:
        if temper == 0.0:
            yield still
            continue
        coef, trust = still.coef.copy(), still.trust.copy()
        slopes, used = differ.solve(temper * variance[numbers])[::2]
        coef[at], trust[at] = slopes / spread, 1.0 - np.minimum(used / directions, 1.0)
        yield Steps(coef, trust, variance)


class _Differences:
    """Members whose slopes are drawn about their group's, each input with a variance of its own."""

    def __init__(
        self,
        gram: FloatArray,
        moment: FloatArray,
        square: FloatArray,
        dof: FloatArray,
        labels: IntArray,
    ) -> None:
        self.gram, self.moment, self.square, self.dof = gram, moment, square, dof
        self.labels = labels
        self.size = np.bincount(labels).astype(float)[:, None]
        self.varies = np.einsum("ljj->j", gram) > 0.0

    def solve(self, variance: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Slopes of each member, their variance left (in units of noise), directions used."""
        root = np.sqrt(variance)[self.labels]
        identity = np.eye(root.shape[1])
        system = identity + root[:, :, None] * self.gram * root[:, None, :]
        inverse = np.linalg.inv(system)
        slopes = root * np.einsum("lij,lj->li", inverse, root * self.moment)
        diagonal = np.einsum("lii->li", inverse)
        return slopes, root**2 * diagonal, (1.0 - diagonal).sum(axis=1)

    def estimate(self, variance: FloatArray) -> FloatArray:
        """Variances of the greatest likelihood, by expectation and maximisation.

        Held together by a few members' worth of their mean: a group of three cannot tell inputs
        apart.
        """
        n_groups = variance.shape[0]
        rows = np.bincount(self.labels, self.dof, n_groups)
        # Members as long as they have inputs leave no noise: it is bounded from below, as the
        # variance is from above.
        least = NOISE_AT_LEAST * np.bincount(self.labels, self.square, n_groups)
        least /= np.maximum(rows, 1.0)
        for _ in range(ROUNDS):
            slopes, left, _ = self.solve(variance)
            rest = self.square - np.einsum("lj,lj->l", slopes, self.moment)
            noise = np.bincount(self.labels, rest, n_groups) / np.maximum(rows, 1.0)
            noise = np.maximum(noise, np.maximum(least, TINY))[:, None]
            squares = _summed(slopes**2 / noise[self.labels] + left, self.labels, n_groups)
            common = squares[:, self.varies].mean(axis=1, keepdims=True) / self.size
            variance = (squares + HELD_TOGETHER * common) / (self.size + HELD_TOGETHER)
            variance = np.minimum(variance, 1.0 / PENALTIES[0])
        return variance


def _moments(
    inputs: Sequence[FloatArray] | FloatArray,
    residuals: Sequence[FloatArray] | FloatArray,
    weights: Sequence[FloatArray] | FloatArray | None,
    negligible: float,
) -> tuple[RowMoments, FloatArray]:
    """Centred cross-products of each member, and its mean inputs."""
    n_members, n_inputs = len(inputs), inputs[0].shape[1]
    gram = np.empty((n_members, n_inputs, n_inputs))
    moment, centre = np.empty((n_members, n_inputs)), np.empty((n_members, n_inputs))
    square, n_rows = np.empty(n_members), np.empty(n_members)
    for member in range(n_members):
        weight = np.ones(len(residuals[member])) if weights is None else weights[member]
        used = weight > 0.0
        root = np.sqrt(weight[used])
        # Of an input that a member has constant nothing is left: rounding, over a spread of
        # rounding, would pass for an input like any other.
        mean, centred = about_means(inputs[member][used], root)
        rest = about_means(residuals[member][used, None], root)[1][:, 0]
        if np.abs(rest).max() <= negligible:
            rest = np.zeros(rest.size)
        centred, rest = centred * root[:, None], rest * root
        gram[member], moment[member] = centred.T @ centred, centred.T @ rest
        square[member], centre[member] = rest @ rest, mean
        n_rows[member] = root.size
    return RowMoments(gram, moment, square, n_rows, np.ones(n_members)), centre


def _common_penalty(
    gram: FloatArray, moment: FloatArray, square: FloatArray, dof: FloatArray, labels: IntArray
) -> FloatArray:
    """One penalty for all inputs of a group, that of the greatest likelihood; infinity is tried.

    A residual's square along a direction has the variance of the noise times ``1 + value/penalty``.
    """
    n_groups = int(labels.max()) + 1
    values, vectors = np.linalg.eigh(gram)
    values = np.where(values > RANK_CUTOFF * values[:, -1:], values, 0.0)
    known = values > 0.0
    turned = np.einsum("lij,li->lj", vectors, moment)
    # Squares of the residual along each direction of the inputs, and what no direction reaches.
    along = np.where(known, turned**2 / np.where(known, values, 1.0), 0.0)
    beyond = np.maximum(square - along.sum(axis=1), 0.0)
    rows = np.bincount(labels, dof, n_groups)
    deviances = []
    for penalty in PENALTIES:
        inflation = 1.0 + values / penalty
        rest = np.bincount(labels, beyond + (along / inflation).sum(axis=1), n_groups)
        volume = np.bincount(labels, np.log(inflation).sum(axis=1), n_groups)
        deviances.append(rows * np.log(np.maximum(rest, TINY)) + volume)
    table = np.array(deviances)
    best = table.argmin(axis=0)
    # Where noise alone explains as much, noise alone it is.
    noise = table.min(axis=0) >= table[-1] - FLAT
    return np.where(noise, np.inf, PENALTIES[best])


def _summed(terms: FloatArray, labels: IntArray, n_groups: int) -> FloatArray:
    total = np.zeros((n_groups, terms.shape[1]))
    np.add.at(total, labels, terms)
    return total


#: Squared singular values below this share of a member's largest are rounding.
RANK_CUTOFF = 1e-14
#: Penalties tried to begin with, for inputs of unit variance.
PENALTIES = np.append(10.0 ** np.arange(-4.0, 6.01, 0.25), np.inf)
#: Rounds of estimation: variances of inputs in which members agree only creep towards zero.
ROUNDS = 30
#: Members' worth of the mean over inputs in each input's variance.
HELD_TOGETHER = 1.0
#: Noise is at least this share of what the group leaves.
NOISE_AT_LEAST = 1e-8
#: Gain in deviance below which members are taken to differ by noise alone.
FLAT = 1e-6
TINY = float(np.finfo(np.float64).tiny)
