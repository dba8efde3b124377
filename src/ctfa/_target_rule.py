"""The rule of Phase I, posed on any rows: all of a fit's, or those of one fold."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from ctfa._anomalies import Anomalies
from ctfa._merging import TIE, MergeProblem, PathPoint, loss_unit, solve_path
from ctfa._validation import Sample
from ctfa.core import progress
from ctfa.core.criteria import TINY, Criterion, cross_validated_risk, target_risk
from ctfa.core.cut import GRID, PREFERRED, CutCurve, preferred_limit, without_rounding
from ctfa.core.design import Design, row_scales, weighted_mean
from ctfa.core.ridge import Ridge
from ctfa.core.solvers import GappyFit, LeastSquaresFit, RidgeFit, TargetFit
from ctfa.core.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class PosedTargets:
    """Targets in the units they are merged in, fitted one by one and ready to be scanned."""

    problem: MergeProblem
    fit: TargetFit
    offsets: FloatArray
    scales: FloatArray
    intercepts: FloatArray  # of the centred targets, in those units
    seen: BoolArray  # targets with a row to learn from; the others are not judged
    weights: FloatArray | None = None  # how much each target counts

    def errors(
        self,
        rows: FloatArray,
        values: FloatArray,
        weights: FloatArray | None,
        units: FloatArray,
        points: list[PathPoint],
    ) -> FloatArray:
        """Mean squared error of each point's groups on other rows, over all that is observed."""
        # In units of all rows: a target that happens to be constant over these has none of its own.
        observed, relative = (values - self.offsets) / units, self.scales / units
        judges = np.ones(len(values)) if weights is None else weights
        weight = np.where(np.isnan(observed) | ~self.seen, 0.0, judges[:, None])
        if self.weights is not None:
            weight *= self.weights
        observed = np.where(np.isnan(observed), 0.0, observed)
        total = max(float(weight.sum()), TINY)
        predict = self.fit.predictor(rows)
        found: dict[bytes, float] = {}
        for point in points:
            key = _key(point)
            if key not in found:
                signs = np.ones(values.shape[1]) if point.signs is None else point.signs
                level = point.partition.mean((self.intercepts * signs)[None], self.weights)
                means = predict(point.partition, signs) + level
                gap = observed - point.partition.spread(means) * (signs * relative)
                found[key] = float((weight * gap**2).sum()) / total
        square = float((weight * np.nan_to_num(values / units) ** 2).sum()) / total
        return without_rounding(np.array([found[_key(point)] for point in points]), square)


@dataclass(frozen=True, eq=False)
class TargetRule:
    """Checked options of Phase I."""

    criterion: Criterion
    scan: str
    scale: str
    flip: bool
    guarded: bool
    solver: str
    target_weight: FloatArray | None = None

    def factor(self, sample: Sample) -> Design | None:
        """Inputs factored for least squares; a penalised fit is factored with its targets."""
        if self.solver != "ols":
            return None
        return Design.of(sample.inputs, sample.weights, sample.n_samples)

    def pose(
        self, design: Design | None, sample: Sample, values: FloatArray, graph: Any
    ) -> PosedTargets:
        """Scale the targets and fit each by itself."""
        inputs, weights, n_targets = sample.inputs, sample.weights, values.shape[1]
        _, row_scale = row_scales(values.shape[0], weights, sample.n_samples)
        gaps = np.isnan(values)
        if gaps.any():
            mean, spread = observed_moments(values, gaps, row_scale)
        else:
            mean = weighted_mean(values, row_scale)
        centred = values - mean
        if weights is not None and not gaps.any():
            centred *= row_scale[:, None]
        if not gaps.any():
            spread = np.sqrt(np.einsum("ij,ij->j", centred, centred) / sample.n_samples)
        offsets, scales, intercepts = np.zeros(n_targets), np.ones(n_targets), mean
        if self.scale != "none":
            offsets, intercepts = mean, np.zeros(n_targets)
        if self.scale == "standard":
            # Constant over the rows of a fold, though not over all: nothing to scale, and back in
            # its own units whatever its group says is that constant.
            scales = spread
            centred /= np.where(scales > 0.0, scales, 1.0)
        fit: TargetFit
        if gaps.any():
            fit = GappyFit(inputs, centred, None if weights is None else row_scale)
        elif design is not None:
            fit = LeastSquaresFit(design, centred, flip=self.flip, weights=self.target_weight)
        else:
            ridge = Ridge.of(inputs, centred, weights)
            fit = RidgeFit(ridge, centred, flip=self.flip, weights=self.target_weight)
        space: Any = fit.space()
        if self.guarded:
            space.protect(fit.members)
        criterion = self._criterion()
        problem = MergeProblem(
            space,
            criterion,
            self.scan,
            np.arange(n_targets),
            graph,
            tolerance=TIE * loss_unit(criterion, space.total_variance),
        )
        seen = np.asarray(~gaps.all(axis=0))
        return PosedTargets(problem, fit, offsets, scales, intercepts, seen, self.target_weight)

    def _criterion(self) -> Criterion:
        """Return the risk of the solver; other criteria are those of least squares."""
        ridge = self.solver == "ridge" and self.criterion is target_risk
        return cross_validated_risk if ridge else self.criterion


def choose_cut(
    rule: TargetRule,
    sample: Sample,
    values: FloatArray,
    units: FloatArray,
    graph: Any,
    splits: list[tuple[IntArray, IntArray]],
    designs: list[Design | None],
) -> CutCurve | None:
    """Held-out error of every limit, the groups found anew from the training rows of each fold.

    A baseline is found on these rows alone, too. Asked to stop, the folds finished by then decide;
    None if there are none.
    """
    grid = GRID.tolist()
    errors, n_groups = [], []
    for fold, ((train, test), design) in enumerate(zip(splits, designs, strict=True)):
        left = Anomalies.of_rows(sample, values, train)
        with progress.searching(f"fold {fold + 1} of {len(splits)}") as (search, _):
            posed = rule.pose(design, left.judged, left.judged_values, graph)
            points = solve_path(posed.problem, grid)
        if search.stopped:
            warn_that_folds_were_stopped(fold, len(splits))
            break
        judges = None if sample.weights is None else sample.weights[test]
        inputs, targets = left.elsewhere(sample, values, test)
        errors.append(posed.errors(inputs, targets, judges, units, points))
        n_groups.append([point.n_groups for point in points])
    if not errors:
        return None
    preferred = preferred_limit(values.shape[1])
    return CutCurve.of(GRID, np.array(errors), np.mean(n_groups, axis=0), preferred)


def warn_that_folds_were_stopped(n_finished: int, n_folds: int) -> None:
    """Say what a choice on folds rests on, when it was cut short."""
    chosen = (
        f"the choice is made on the {n_finished} before it"
        if n_finished
        else f"none is finished, and max_loss is {PREFERRED}"
    )
    warnings.warn(
        f"The search was stopped in fold {n_finished + 1} of {n_folds}: {chosen}.",
        progress.SearchStopped,
        stacklevel=2,
    )


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


def _key(point: PathPoint) -> bytes:
    signs = b"" if point.signs is None else point.signs.tobytes()
    return point.partition.labels.tobytes() + signs
