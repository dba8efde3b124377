"""Tasks about what their group has in common: one mixed model, from moments.

A task's rows are ``y = A beta + A b + e``: coefficients ``beta`` of its group, and ``b`` of its
own, drawn about zero with a variance for each column of ``A``. Columns are inputs in units common
to all tasks and, where tasks may differ in their levels, an intercept; so intercepts and slopes are
shrunk together. ``beta`` is found by generalised least squares and the variances by expectation and
maximisation of the restricted likelihood, which knows that ``beta`` was estimated: a group of two
shows half of the variance with which its members differ.

All of it depends on the rows through sums of squares and products alone, task by task, so that
chunks, pieces and rows in memory give the same. A variance of zero is pooling; one without bound is
a fit for each task. Variances are common to all groups: a group of three cannot tell inputs apart.
A full covariance of the coefficients was tried and is worse on two sets of three.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from ctfa.core.design import about_means
from ctfa.core.small_fits import RowMoments, chunks, firm_coefficients, summed
from ctfa.core.types import BoolArray, FloatArray, IntArray

#: Largest number of tasks from which variances are learned: more say nothing new.
LEARNED_FROM = 2000
#: Rounds of estimation from nowhere, and from variances of similar groups.
ROUNDS, MORE_ROUNDS = 60, 8
#: Variances to begin with, over that of the noise: of intercepts, and of slopes for unit inputs.
FIRST_LEVEL, FIRST_SLOPE = 0.1, 0.02
#: Tasks' worth of the mean over slopes in the variance of each.
HELD_TOGETHER = 1.0
#: Variances are at most so many times that of the noise, and noise at least this share of the mean
#: square: tasks as short as they have inputs leave no noise.
LARGEST, NOISE_AT_LEAST = 1e6, 1e-12
#: Changes of a round below this share of the largest variance end the rounds: where the data say
#: much they are few, and small variances hardly change any task.
SETTLED = 1e-4
#: Gain in deviance below which tasks are taken to differ in no slope.
FLAT = 1e-6
#: Eigenvalues of unit columns below this are rounding.
RANK_CUTOFF = 1e-10
TINY = float(np.finfo(np.float64).tiny)


class CommonUnits(NamedTuple):
    """Coordinates in which an input has its origin and its spread over the rows of all tasks.

    In these, variances of coefficients mean the same whatever ``X`` was measured in and from.
    """

    mean: FloatArray  # (D,)
    scale: FloatArray  # (D,)

    @classmethod
    def of(cls, rows: FloatArray, weights: FloatArray | None = None) -> CommonUnits:
        """Units of a table's columns; constant ones have no spread and keep the unit they have."""
        root = np.ones(len(rows)) if weights is None else np.sqrt(weights)
        mean, centred = about_means(rows, root)
        square = np.einsum("ij,ij->j", centred * root[:, None], centred * root[:, None])
        scale = np.sqrt(square / (root @ root))
        return cls(mean, np.where(scale > 0.0, scale, 1.0))

    def columns(self, rows: FloatArray) -> FloatArray:
        """The intercept, then the inputs."""
        about = (rows - self.mean) / self.scale
        # A column that is constant is the intercept's, whatever rounding its mean has.
        flat = np.abs(rows - self.mean).max(axis=0, initial=0.0) <= CONSTANT * np.abs(self.mean)
        about[:, flat] = 0.0
        return np.column_stack((np.ones(len(rows)), about))


#: A column that varies by less than this share of its level is constant.
CONSTANT = 1e-13


class Mixed(NamedTuple):
    """What groups have in common and what their tasks add; ``own`` is zero for tasks alone."""

    common: FloatArray  # (groups, K)
    own: FloatArray  # (T, K)
    trust: FloatArray  # (T,): one less the share of its own directions that a task uses


def moments_of_rows(
    columns: FloatArray,
    target: FloatArray,
    rows: Sequence[IntArray],
    weights: FloatArray | None,
    n_rows: FloatArray,
) -> RowMoments:
    """Sums over the rows of each task; levels are a column, so none is spent."""
    count, width = len(rows), columns.shape[1]
    gram, moment, square = np.empty((count, width, width)), np.empty((count, width)), []
    for task, at in enumerate(rows):
        table, left = columns[at], target[at]
        if weights is not None:
            root = np.sqrt(weights[at])
            table, left = table * root[:, None], left * root
        gram[task], moment[task] = table.T @ table, left @ table
        square.append(left @ left)
    return RowMoments(gram, moment, np.array(square), n_rows, np.zeros(count))


def estimate(
    moments: RowMoments, labels: IntArray | None, *, known: FloatArray | None = None
) -> FloatArray:
    """Variance of each column's coefficient over that of the noise, of groups as they are.

    Without ``labels`` nothing is in common: moments are those of what a known model leaves. With
    ``known`` variances of similar groups a few rounds go on from these.
    """
    at = _some_tasks(moments, labels)
    width = moments.moment.shape[1]
    if not at.size:
        return np.zeros(width) if known is None else known
    tasks = RowMoments(*(column[at] for column in moments))
    groups = None if labels is None else np.unique(labels[at], return_inverse=True)[1]
    varies = np.einsum("tjj->j", tasks.gram) > 0.0
    slopes = varies.copy()
    slopes[: _n_levels(moments)] = False
    rounds = partial(_rounds, tasks, groups, slopes, varies)
    if known is not None:
        return rounds(known, MORE_ROUNDS)
    first = np.where(slopes, FIRST_SLOPE, 0.0)
    first[: _n_levels(moments)] = FIRST_LEVEL
    found = rounds(first, ROUNDS)
    none = rounds(np.where(slopes, 0.0, first), ROUNDS)
    # Where noise alone explains as much, noise alone it is.
    better = _deviance(tasks, groups, none) - _deviance(tasks, groups, found) > FLAT
    return found if better else none


def _n_levels(moments: RowMoments) -> int:
    """Columns that are intercepts: the first, where none was taken off the rows."""
    return int(not moments.n_levels.any())


@dataclass(frozen=True, eq=False)
class Drawn:
    """Tasks whose coefficients are drawn with given variances, whatever they are drawn about.

    For one share of the variances all groupings of the tasks are answered from these.
    """

    moments: RowMoments
    prior: FloatArray  # (T, K, K): covariance that coefficients keep, over the noise
    used: FloatArray  # (T,): directions of its own that a task uses, levels not counted

    @classmethod
    def of(
        cls, moments: RowMoments, variance: FloatArray, *, labels: IntArray | None = None
    ) -> Drawn:
        """Solve task by task; with ``labels`` a task alone keeps the coefficients of its group.

        It has no other to be drawn about.
        """
        prior, used = np.empty_like(moments.gram), np.empty_like(moments.square)
        for chunk in chunks(len(prior), CHUNK_FACTOR * variance.size**2):
            inverse, root = _inverse(moments.gram[chunk], variance)
            prior[chunk] = root[:, None] * inverse * root
            spent = 1.0 - np.einsum("tii->ti", inverse)[:, _n_levels(moments) :]
            used[chunk] = spent.sum(axis=1)
        if labels is not None:
            single = np.bincount(labels)[labels] < 2
            prior[single], used[single] = 0.0, 0.0
        return cls(moments, prior, used)

    @cached_property
    def kept(self) -> FloatArray:
        """Share of coefficients drawn about that a task keeps, ``(T, K, K)``."""
        found = -self.prior @ self.moments.gram
        at = np.arange(found.shape[1])
        found[:, at, at] += 1.0
        return found

    @cached_property
    def alone(self) -> FloatArray:
        """Coefficients of tasks drawn about zero, ``(T, K)``."""
        return self.own_of(self.moments.moment)

    @cached_property
    def _says(self) -> tuple[FloatArray, FloatArray]:
        """What tasks say of coefficients in common: how much, and that times what."""
        gram = self.moments.gram @ self.kept
        return gram, np.einsum("tji,tj->ti", self.kept, self.moments.moment)

    def common(
        self,
        labels: IntArray,
        design: FloatArray | None = None,
        some: IntArray | slice = slice(None),
    ) -> FloatArray:
        """Coefficients of groups ``(groups, K)`` of some tasks by generalised least squares.

        ``design`` (K, columns): groups may have in common only what it spans.
        """
        gram, moment = (summed(part[some], labels) for part in self._says)
        if design is None:
            return _coefficients(gram, moment)
        return np.asarray(_coefficients(design.T @ gram @ design, moment @ design) @ design.T)

    def about(self, coef: FloatArray, some: IntArray | slice = slice(None)) -> FloatArray:
        """Coefficients of some tasks drawn about those given, ``(T, K)``."""
        kept = np.einsum("tij,tj->ti", self.kept[some], coef)
        return np.asarray(self.alone[some] + kept)

    def own_of(self, moment: FloatArray) -> FloatArray:
        """Coefficients drawn about zero, of targets with other products with the inputs."""
        return np.asarray(np.einsum("tij,tj->ti", self.prior, moment))

    @property
    def trust(self) -> FloatArray:
        """One less the share of its own directions that a task uses."""
        first = _n_levels(self.moments)
        slopes = self.moments.gram[:, first:, first:]
        directions = np.maximum(np.linalg.matrix_rank(slopes, hermitian=True), 1)
        return np.asarray(1.0 - np.clip(self.used / directions, 0.0, 1.0))


def solve(
    moments: RowMoments, labels: IntArray, variance: FloatArray, *, design: FloatArray | None = None
) -> Mixed:
    """Coefficients in common and of tasks' own at given variances."""
    drawn = Drawn.of(moments, variance, labels=labels)
    common = drawn.common(labels, design)
    own = drawn.about(common[labels]) - common[labels]
    return Mixed(common, own, drawn.trust)


class Corrections(NamedTuple):
    """What members add to the slopes of known models of their groups."""

    coef: FloatArray  # (L, D), in the units of the inputs
    centre: FloatArray  # (L, D): means of the inputs, about which the correction is zero
    trust: FloatArray  # (L,): one less the share of its own directions that a member uses
    variance: FloatArray  # (D,): of slopes for unit inputs, over the noise


def correct(
    inputs: Sequence[FloatArray],
    residuals: Sequence[FloatArray],
    labels: IntArray,
    *,
    weights: Sequence[FloatArray] | None = None,
    share: float = 1.0,
) -> Corrections:
    """Slopes of members about a known model of their group, from what this leaves of them.

    ``inputs`` ``(n_i, D)`` and ``residuals`` ``(n_i,)`` are rows of each member, each about its own
    means; ``share`` of the variance with which members are found to differ is taken.
    """
    sums, centre = [], np.empty((len(inputs), inputs[0].shape[1]))
    for member, (rows, left) in enumerate(zip(inputs, residuals, strict=True)):
        weight = np.ones(len(left)) if weights is None else weights[member]
        used = weight > 0.0
        root = np.sqrt(weight[used])
        # Of an input that a member has constant nothing is left: rounding, over a spread of
        # rounding, would pass for an input like any other.
        centre[member], centred = about_means(rows[used], root)
        rest = about_means(left[used, None], root)[1][:, 0] * root
        centred = centred * root[:, None]
        sums.append((centred.T @ centred, rest @ centred, rest @ rest, float(root.size), 1.0))
    moments = RowMoments(*(np.array(part) for part in zip(*sums, strict=True)))
    scaled, unit = in_unit_inputs(moments)
    together = np.bincount(labels)[labels] > 1
    some = RowMoments(*(part[together] for part in scaled))
    variance = estimate(some, None) if together.any() else np.zeros(unit.size)
    drawn = Drawn.of(scaled, share * variance, labels=labels)
    return Corrections(drawn.alone / unit, centre, drawn.trust, variance)


def in_unit_inputs(moments: RowMoments) -> tuple[RowMoments, FloatArray]:
    """The same in units of each input's spread within tasks, over all of them; and these units."""
    dof = max(float((moments.n_rows - moments.n_levels).sum()), 1.0)
    unit = np.sqrt(np.einsum("tjj->j", moments.gram) / dof)
    unit = np.where(unit > 0.0, unit, 1.0)
    gram, moment = moments.gram / (unit[:, None] * unit), moments.moment / unit
    return moments._replace(gram=gram, moment=moment), unit


#: Numbers that a chunk of tasks may take, over those of its Gram matrices.
CHUNK_FACTOR = 2


def _deviance(tasks: RowMoments, groups: IntArray | None, variance: FloatArray) -> float:
    """Minus twice the restricted log-likelihood, up to a constant."""
    root = np.sqrt(variance)
    system = root[:, None] * tasks.gram * root + np.eye(root.size)
    noise, dof, size = _expect(tasks, groups, variance)[1:]
    return float(dof * np.log(noise) + np.linalg.slogdet(system)[1].sum() + size)


def _expect(
    tasks: RowMoments, groups: IntArray | None, variance: FloatArray
) -> tuple[FloatArray, float, float, float]:
    """Expected squares ``(T, K)`` of the coefficients of tasks, over the noise.

    And the noise, its degrees of freedom, and the size of what groups of two and more estimate.
    """
    gram, moment, total = tasks.gram, tasks.moment, float(tasks.square.sum())
    n_rows = float((tasks.n_rows - tasks.n_levels).sum())
    inverse, root = _inverse(gram, variance)
    prior = root[:, None] * inverse * root  # posterior covariance over the noise
    taken = prior @ gram
    drawn = np.einsum("tij,tj->ti", prior, moment)
    residual = total - float(np.einsum("tj,tj->", drawn, moment))
    squares = np.einsum("tii->ti", prior).copy()
    dof, size = n_rows, 0.0
    if groups is not None:
        reduced = summed(moment - np.einsum("tij,tj->ti", gram, drawn), groups)
        together = len(reduced) == 1  # one product of long tables
        width = gram.shape[1]
        if together:
            spent = gram.reshape(-1, width).T @ taken.reshape(-1, width)
            left = (gram.sum(axis=0) - spent)[None]
        else:
            left = summed(gram - gram @ taken, groups)
        common, spread, size, rank = _least_squares(left, reduced)
        residual -= float(np.einsum("gj,gj->", common, reduced))
        drawn = drawn - np.einsum("tij,tj->ti", taken, common[groups])
        # What is in common was estimated, and what is drawn about it errs with it.
        if together:
            turned = (taken.reshape(-1, width) @ spread[0]).reshape(taken.shape)
        else:
            turned = taken @ spread[groups]
        squares += np.einsum("tij,tij->ti", turned, turned)
        dof -= rank
    dof = max(dof, 1.0)
    noise = max(residual / dof, NOISE_AT_LEAST * total / max(n_rows, 1.0), TINY)
    squares += drawn**2 / noise
    return squares, noise, dof, size


def _rounds(
    tasks: RowMoments,
    groups: IntArray | None,
    slopes: BoolArray,
    varies: BoolArray,
    variance: FloatArray,
    rounds: int,
) -> FloatArray:
    """Expectation and maximisation; variances of zero stay zero."""
    moves = variance > 0.0
    if not moves.any():
        return variance
    for _ in range(rounds):
        before, total = variance, _expect(tasks, groups, variance)[0]
        n_tasks = len(total)
        sums = total.sum(axis=0)
        held = slopes & moves
        if held.any():
            mean = sums[held].mean() / n_tasks
            sums[held] = (sums[held] + HELD_TOGETHER * mean) * (n_tasks / (n_tasks + HELD_TOGETHER))
        variance = np.where(moves & varies, np.minimum(sums / n_tasks, LARGEST), 0.0)
        if np.abs(variance - before).max() <= SETTLED * variance.max():
            break
    return variance


def _inverse(gram: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The inverse of ``1 + sqrt(v) gram sqrt(v)``, and the roots."""
    root = np.sqrt(variance)
    system = root[:, None] * gram * root
    at = np.arange(root.size)
    system[:, at, at] += 1.0
    return np.asarray(np.linalg.inv(system)), root


def _coefficients(gram: FloatArray, moment: FloatArray) -> FloatArray:
    """Least squares from Gram matrices, by Cholesky factors where all are firm."""
    found = firm_coefficients(gram, moment)
    return _least_squares(gram, moment)[0] if found is None else found


def _least_squares(
    gram: FloatArray, moment: FloatArray
) -> tuple[FloatArray, FloatArray, float, float]:
    """Coefficients, shortest in unit columns where not determined; a root of their covariance.

    And the log determinant of the Gram matrices along what is determined, and how much that is.
    """
    length = np.sqrt(np.maximum(np.einsum("gjj->gj", gram), 0.0))
    unit = np.where(length > 0.0, length, 1.0)
    values, vectors = np.linalg.eigh(gram / (unit[:, :, None] * unit[:, None, :]))
    firm = values > RANK_CUTOFF * np.maximum(values[:, -1:], TINY)
    known = np.where(firm, values, 1.0)
    spread = np.where(firm[:, None, :], vectors / np.sqrt(known)[:, None, :], 0.0)
    spread /= unit[:, :, None]
    coef = np.einsum("gij,gkj,gk->gi", spread, spread, moment, optimize=True)
    return coef, spread, float(np.log(known).sum()), float(firm.sum())


def _some_tasks(moments: RowMoments, labels: IntArray | None) -> IntArray:
    """Tasks that are not alone, of whole groups as far as possible, evenly among all."""
    if labels is None:
        return _evenly(np.arange(len(moments.square)))
    sizes = np.bincount(labels)
    at = np.flatnonzero(sizes[labels] > 1)
    if at.size <= LEARNED_FROM:
        return at
    numbers = np.flatnonzero(sizes > 1)
    chosen = numbers[:: -(-at.size // LEARNED_FROM)]
    found = [_evenly(np.flatnonzero(labels == group)) for group in chosen]
    return _evenly(np.sort(np.concatenate(found)))


def _evenly(tasks: IntArray) -> IntArray:
    return tasks[:: max(1, -(-tasks.size // LEARNED_FROM))]
