"""Tasks that share their rows and inputs: columns of one table of targets.

How they are fitted, one fit for all that follows from it; and what confounds leave of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ctfa.core.confounds import Confounds, Lines, take_off
from ctfa.core.criteria import TINY
from ctfa.core.design import Design, row_scales, weighted_mean
from ctfa.core.levels import Levels
from ctfa.core.members import MemberRisk
from ctfa.core.partition import Partition
from ctfa.core.ridge import Ridge
from ctfa.core.small_fits import fit_columns, observed_mean
from ctfa.core.spaces.base import CrossValidated, InSample
from ctfa.core.spaces.gappy import GappyMembers, GappyTargetSpace
from ctfa.core.spaces.targets import TargetSpace
from ctfa.core.tasks.base import Fold, PathPoint, Rule, squared_errors
from ctfa.core.tasks.out_of_fold import OutOfFold
from ctfa.core.types import BoolArray, FloatArray, IntArray

#: From a partition and the signs of the targets to ``(rows, n_groups)``.
GroupPredictor = Callable[[Partition, FloatArray], FloatArray]


class LinearFit:
    """Fits that are linear in the target, each target by itself and all at once.

    By least squares, whose risk is the unbiased one for random inputs, or by ridge regression,
    whose risk is the squared error of generalised cross-validation. A group's model is the mean of
    its members'. With ``flip`` targets may join with a minus; they count by their ``weights``.
    """

    def __init__(
        self,
        factored: Design | Ridge,
        centred: FloatArray,
        flip: bool = False,
        weights: FloatArray | None = None,
    ) -> None:
        self.factored, self.flip, self.weights = factored, flip, weights
        counts = factored.n_samples, factored.n_inputs
        self.reading: InSample | CrossValidated
        # Columns are what the reading takes inner products of. Of the coefficients of least
        # squares the shortest are taken where some are not determined.
        if isinstance(factored, Design):
            self.reading = InSample(*counts, factored.rank)
            self.columns = factored.coordinates(centred)
            self.coef = factored.root.T @ self.columns[0]
        else:
            self.reading = CrossValidated(
                *counts, float(np.average(factored.ranks, weights=weights))
            )
            self.columns = factored.about_mean(centred), factored.cross_validated(centred)
            self.coef = factored.coefficients(centred)

    def space(self) -> TargetSpace:
        """Targets that count for so much are means of so many."""
        columns, sizes = self.columns, np.ones(self.columns[0].shape[1])
        if self.weights is not None:
            columns = columns[0] * self.weights, columns[1] * self.weights
            sizes = self.weights.copy()
        return TargetSpace(columns, sizes, self.reading, flip=self.flip)

    def predictor(self, rows: FloatArray) -> GroupPredictor:
        """By the mean of the members' coefficients."""
        predicted = (rows - self.factored.mean) @ self.coef
        return lambda partition, signs: partition.mean(predicted * signs, self.weights)

    @cached_property
    def members(self) -> MemberRisk:
        """What serves each target."""
        if isinstance(self.factored, Design):
            return MemberRisk.in_sample(self.factored, *self.columns, self.weights)
        return MemberRisk.cross_validated(*self.columns, self.factored.n_samples, self.weights)


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


@dataclass(frozen=True, eq=False)
class SharedInputs:
    """Rows of a table of inputs and one of targets, as they were given."""

    sample: Any  # inputs with their weights, counts and confounds: ``ctfa._reading.Sample``
    values: FloatArray  # (n, L): targets, NaN where missing
    weights: FloatArray | None = None  # (L,): how much each target counts
    units: FloatArray | None = None  # (L,): of each target over all rows, for held-out errors
    design: Design | None = None  # inputs as merges are judged on them, where they are factored

    @property
    def n_tasks(self) -> int:
        """How many targets there are."""
        return int(self.values.shape[1])

    @cached_property
    def left(self) -> Anomalies:
        """What the confounds of the sample leave of inputs and targets."""
        return Anomalies.of(self.sample, self.values)

    def take(self, rows: IntArray, design: Design | None = None) -> SharedInputs:
        """Some of the rows, as a table of their own."""
        return SharedInputs(
            self.sample.take(rows), self.values[rows], self.weights, self.units, design
        )

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Of inputs and targets."""
        return self.sample.inputs.shape, self.values.shape

    def fold(
        self,
        rule: Rule,
        train: IntArray,
        test: IntArray,
        design: Design | None = None,
        known: SharedInputs | None = None,
    ) -> Fold:
        """Rows to learn from, perhaps factored or even taken already, and the others."""
        sample = self.sample
        weights = None if sample.weights is None else sample.weights[test]
        confounds = None if sample.confounds is None else sample.confounds[test]
        others = replace(sample, inputs=sample.inputs[test], weights=weights, confounds=confounds)
        asked = replace(self, sample=others, values=self.values[test])
        return Fold(self.take(train, design) if known is None else known, asked)

    @cached_property
    def ridge(self) -> Ridge:
        """Inputs as merges are judged on them, without a penalty yet."""
        sample = self.left.judged
        return Ridge.factor(sample.inputs, sample.weights, sample.n_samples)

    def in_units(self, rule: Rule) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Offsets and scales of the targets, intercepts in these, and what is left, weighted."""
        sample, values = self.left.judged, self.left.judged_values
        _, row_scale = row_scales(len(values), sample.weights, sample.n_samples)
        gaps = np.isnan(values)
        if gaps.any():
            mean, spread = observed_moments(values, gaps, row_scale)
            centred = values - mean
        else:
            mean = weighted_mean(values, row_scale)
            centred = values - mean
            if sample.weights is not None:
                centred *= row_scale[:, None]
            spread = np.sqrt(np.einsum("ij,ij->j", centred, centred) / sample.n_samples)
        scales, nothing = np.ones(self.n_tasks), np.zeros(self.n_tasks)
        if rule.scale == "standard":
            # Constant over the rows of a fold, though not over all: nothing to scale, and back in
            # its own units whatever its group says is that constant.
            scales = spread
            centred /= np.where(scales > 0.0, scales, 1.0)
        level = (nothing, mean) if rule.scale == "none" else (mean, nothing)
        return level[0], scales, level[1], centred

    def fits(self, rule: Rule, aggregate: str = "mean") -> TargetFits:
        """Scale the targets and fit each by itself, once for each rule."""
        made: dict[Rule, TargetFits] = vars(self).setdefault("_made", {})
        if rule not in made:
            made[rule] = self.judged_by(None, rule)
        return made[rule]

    def judged_by(self, refits: OutOfFold | None, rule: Rule) -> TargetFits:
        """The same, judged by what models that have not seen a row say of it if there are such."""
        sample, values = self.left.judged, self.left.judged_values
        weights, gaps = sample.weights, np.isnan(values)
        offsets, scales, intercepts, centred = self.in_units(rule)
        fit: LinearFit | GappyFit | OutOfFold
        levels, design = None, self.design
        if refits is not None:
            fit = refits
        elif gaps.any():
            row_scale = row_scales(len(values), weights, sample.n_samples)[1]
            fit = GappyFit(sample.inputs, centred, None if weights is None else row_scale)
        else:
            factored: Design | Ridge
            directions = None
            if rule.solver == "ols":
                factored = sample.design if design is None else design
                # Those of the triangle that least squares judges by, where there is one.
                directions = Ridge.of_design(factored) if rule.levels else None
            elif rule.penalties is None:
                factored = self.ridge.chosen_for(centred)
            else:
                known = weights, rule.penalties, sample.n_samples
                factored = Ridge.of(sample.inputs, centred, *known)
            fit = LinearFit(factored, centred, rule.flip, self.weights)
            if rule.levels:
                levels = Levels(directions or self.ridge, centred, self.weights)
        seen = np.asarray(~gaps.all(axis=0))
        units = offsets, scales, intercepts
        return TargetFits(fit, *units, seen, self.left, rule.guarded, levels)


class Asked(NamedTuple):
    """Rows that judge, in the units of all rows."""

    inputs: FloatArray  # less what confounds say of them
    directions: FloatArray | None  # in those of the inputs, where groups serve by levels
    predict: GroupPredictor | None  # where they do not
    counts: FloatArray | None  # (L,): how much a target counts in its group
    true: FloatArray  # (n, L): about the offsets of the fits, zero where missing
    relative: FloatArray  # (L,): a unit of the fits
    weight: FloatArray  # (n, L): zero where nothing is judged
    square: float  # weighted mean of the values themselves


@dataclass(frozen=True, eq=False)
class TargetFits:
    """Targets in the units they are merged in, each fitted by itself."""

    fit: LinearFit | GappyFit | OutOfFold
    offsets: FloatArray
    scales: FloatArray
    intercepts: FloatArray  # of the centred targets, in those units
    seen: BoolArray  # targets with a row to learn from; the others are not judged
    left: Anomalies
    guarded: bool = False
    levels: Levels | None = None  # where groups serve their members by these
    variance: float | None = None

    def space(self) -> Any:
        """A fresh space of the targets, which refuses what a member loses by if it is guarded."""
        space: Any = self.fit.space()
        if self.guarded and not space.is_guarded:
            space.protect(self.fit.members)
        return space

    def errors(
        self, points: Sequence[PathPoint], other: SharedInputs, tempers: Sequence[Any]
    ) -> FloatArray:
        """Mean squared error of each point's groups on other rows, over all that is observed."""
        asked = self.asked(other)
        total = max(float(asked.weight.sum()), TINY)
        judges = asked.true, asked.weight, total, asked.square
        return squared_errors(points, lambda point: self.served(point, asked, tempers), *judges)

    def asked(self, other: SharedInputs) -> Asked:
        """Other rows, as these targets are judged by them."""
        inputs, values, columns = other.sample.inputs, other.values, other.sample.confounds
        left, levels = self.left, self.levels
        if columns is not None and left.inputs is not None and left.targets is not None:
            inputs, values = inputs - left.inputs.at(columns), values - left.targets.at(columns)
        # In units of all rows: a target that happens to be constant over these has none of its own.
        units: FloatArray = np.ones(values.shape[1]) if other.units is None else other.units
        observed = (values - self.offsets) / units
        judges = np.ones(len(values)) if other.sample.weights is None else other.sample.weights
        weight = np.where(np.isnan(observed) | ~self.seen, 0.0, judges[:, None])
        if other.weights is not None:
            weight *= other.weights
        directions, predict = None, None
        if levels is not None:
            directions = levels.factored.directions(inputs)
        else:
            assert not isinstance(self.fit, OutOfFold)  # which asks its own table
            predict = self.fit.predictor(inputs)
        true, total = np.nan_to_num(observed), max(float(weight.sum()), TINY)
        square = float((weight * np.nan_to_num(values / units) ** 2).sum()) / total
        known = directions, predict, other.weights, true, self.scales / units, weight, square
        return Asked(inputs, *known)

    def served(
        self, point: PathPoint, asked: Asked, tempers: Sequence[Any]
    ) -> Iterator[FloatArray]:
        """What the groups of a point, and at each temper their members, say of other rows."""
        signs = np.ones(asked.relative.size) if point.signs is None else point.signs
        partition, levels = point.partition, self.levels
        level = partition.mean((self.intercepts * signs)[None], asked.counts)[:, partition.labels]
        said: Iterable[FloatArray]
        if levels is not None and asked.directions is not None:
            said = levels.served(levels.parts(partition, signs), asked.directions, tempers)
        elif asked.predict is not None:
            said = [partition.spread(asked.predict(partition, signs))] * len(tempers)
        for served in said:
            yield (served + level) * (signs * asked.relative)


class Anomalies(NamedTuple):
    """What confounds leave of a sample and its targets; both as they are without confounds."""

    sample: Any  # residual inputs in the rows given
    values: FloatArray  # (n, L): residual targets in the rows given, NaN where missing
    judged: Any  # the same as merges are judged, in as many rows as the confounds leave free
    judged_values: FloatArray
    inputs: Lines | None  # what was taken off
    targets: Lines | None
    n_spent: int = 0  # degrees of freedom that the confounds take of every series

    @classmethod
    def of(cls, sample: Any, values: FloatArray) -> Anomalies:
        """Regress inputs and targets on the confounds of the sample.

        With gaps in the targets each is regressed over its own rows, and rows are counted as they
        are: no turn of the rows leaves the gaps of all targets where they were.
        """
        columns = sample.confounds
        if columns is None:
            return cls(sample, values, sample, values, None, None)
        rows = sample.weights, sample.n_samples
        inputs, of_inputs, factored = take_off(sample.inputs, columns, *rows)
        left, of_targets, _ = take_off(values, columns, *rows)
        if not factored.rank:  # it says nothing: nothing changes, to the last digit
            plain = replace(sample, used=None, confounds=None)
            of_inputs = of_inputs._replace(levels=0.0 * of_inputs.levels)
            of_targets = of_targets._replace(levels=0.0 * of_targets.levels)
            return cls(plain, values, plain, values, of_inputs, of_targets)
        single = sample.is_single
        residual = replace(sample, inputs=inputs, used=None, confounds=None, single=single)
        if np.isnan(values).any():
            return cls(residual, left, residual, left, of_inputs, of_targets, factored.rank)
        judged, judged_values = _free(sample, factored, inputs, left)
        return cls(residual, left, judged, judged_values, of_inputs, of_targets, factored.rank)


def _free(
    sample: Any, factored: Confounds, inputs: FloatArray, values: FloatArray
) -> tuple[Any, FloatArray]:
    """Residuals in as many rows as the confounds leave free."""
    inputs, values = factored.free_rows(inputs.T).T, factored.free_rows(values.T).T
    used_up = {"used": None, "confounds": None, "folds": None, "single": sample.is_single}
    if sample.counts is None:
        return replace(sample, inputs=inputs, weights=None, **used_up), values
    # Of rows that stand in for others each stands for fewer, by the share that is spent.
    counts = np.full(inputs.shape[0], (sample.n_samples - factored.rank) / inputs.shape[0])
    root = np.sqrt(counts)[:, None]
    judged = replace(sample, inputs=inputs / root, weights=counts, counts=counts, **used_up)
    return judged, values / root


def observed_moments(
    values: FloatArray, gaps: BoolArray, row_scale: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of each target over the rows where it is observed."""
    weight = np.where(gaps, 0.0, row_scale[:, None] ** 2)
    total = np.maximum(weight.sum(axis=0), np.finfo(np.float64).tiny)
    filled = np.where(gaps, 0.0, values)
    mean = (weight * filled).sum(axis=0) / total
    centred = np.where(gaps, 0.0, values - mean)
    mean = mean + (weight * centred).sum(axis=0) / total
    centred = np.where(gaps, 0.0, values - mean)
    return mean, np.sqrt((weight * centred**2).sum(axis=0) / total)
