"""The rule of Phase I, posed on any rows: all of a fit's, or those of one fold."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from ctfa._progress import leave_interrupts_to
from ctfa._threads import one_thread
from ctfa._validation import Sample
from ctfa.core import backend, progress
from ctfa.core.criteria import TINY, Criterion
from ctfa.core.cut import GRID, PREFERRED, CutCurve, preferred_limit, without_rounding
from ctfa.core.design import Design, row_scales, weighted_mean
from ctfa.core.ridge import Ridge
from ctfa.core.solvers import GappyFit, LeastSquaresFit, RidgeFit, TargetFit
from ctfa.core.types import BoolArray, FloatArray, IntArray
from ctfa.estimators.anomalies import Anomalies
from ctfa.estimators.merging import TIE, MergeProblem, PathPoint, loss_unit, solve_path

Judged = TypeVar("Judged")


@dataclass(frozen=True, eq=False)
class PosedTargets:
    """Targets in the units they are merged in, fitted one by one and ready to be scanned."""

    problem: MergeProblem
    fit: TargetFit
    offsets: FloatArray
    scales: FloatArray
    intercepts: FloatArray  # of the centred targets, in those units
    seen: BoolArray  # targets with a row to learn from; the others are not judged
    rule: TargetRule
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

    def suited_to(self, sample: Sample, values: FloatArray) -> TargetRule:
        """The same by ridge regression, where least squares cannot be judged on so few rows."""
        plain = self.solver == "ols" and self.criterion.ridge_loss is not None
        if plain and values.shape[1] > 1 and not np.isnan(values).any() and sample.is_short:
            return replace(self, solver="ridge")
        return self

    def factor(self, sample: Sample) -> Design | None:
        """Inputs factored for least squares; a penalised fit is factored with its targets."""
        if self.solver != "ols":
            return None
        return Design.of(sample.inputs, sample.weights, sample.n_samples, sample.is_single)

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
        criterion = self.criterion.by_ridge() if self.solver == "ridge" else self.criterion
        problem = MergeProblem(
            space,
            criterion,
            self.scan,
            np.arange(n_targets),
            graph,
            tolerance=TIE * loss_unit(criterion, space.total_variance),
        )
        seen = np.asarray(~gaps.all(axis=0))
        units = offsets, scales, intercepts
        return PosedTargets(problem, fit, *units, seen, self, self.target_weight)


def choose_cut(
    rule: TargetRule,
    sample: Sample,
    values: FloatArray,
    units: FloatArray,
    graph: Any,
    splits: list[tuple[IntArray, IntArray]],
    designs: list[Design | None],
    n_jobs: int | None,
) -> CutCurve | None:
    """Held-out error of every limit, the groups found anew from the training rows of each fold.

    A baseline is found on these rows alone, too. Asked to stop, the folds finished by then decide;
    None if there are none.
    """
    rows = replace(sample)  # without the factors of all of them, which no fold needs
    folds = [
        (rule, rows, values, units, graph, train, test, design)
        for (train, test), design in zip(splits, designs, strict=True)
    ]
    judged, _ = judge_folds(_judge_fold, folds, n_jobs, values.shape[1])
    if not judged:
        return None
    errors, n_groups = zip(*judged, strict=True)
    preferred = preferred_limit(values.shape[1])
    return CutCurve.of(GRID, np.array(errors), np.mean(n_groups, axis=0), preferred)


def _judge_fold(
    rule: TargetRule,
    sample: Sample,
    values: FloatArray,
    units: FloatArray,
    graph: Any,
    train: IntArray,
    test: IntArray,
    design: Design | None,
) -> tuple[FloatArray, list[int]]:
    """Held-out error of each limit's groups on one fold, and how many they are."""
    with one_thread(sample.inputs.shape, values.shape):
        left = Anomalies.of_rows(sample, values, train)
        posed = rule.pose(design, left.judged, left.judged_values, graph)
        points = solve_path(posed.problem, GRID.tolist())
        judges = None if sample.weights is None else sample.weights[test]
        inputs, targets = left.elsewhere(sample, values, test)
        errors = posed.errors(inputs, targets, judges, units, points)
    return errors, [point.n_groups for point in points]


def judge_folds(
    judge: Callable[..., Judged],
    folds: Sequence[tuple[Any, ...]],
    n_jobs: int | None,
    n_variables: int,
) -> tuple[list[Judged], bool]:
    """Judge folds, given by their arguments, in turn or ``n_jobs`` at once; whether it was stopped.

    Asked to stop, the folds finished by then are all there are. Other processes hear nothing of
    that: where somebody listens, folds go there in rounds, and the search stops after a round.
    """
    on_device = backend.library_of(backend.named()) not in ("auto", "numpy", "numba")
    at_once = 1 if on_device else min(effective_n_jobs(n_jobs), len(folds))
    size = at_once if at_once == 1 or progress.is_reported() else len(folds)
    judged: list[Judged] = []
    for start in range(0, len(folds), size):
        some = folds[start : start + size]
        with progress.searching(_stage(start, len(some), len(folds))) as (search, _):
            if at_once == 1:
                found = [judge(*some[0])]
            else:
                here = judge, backend.named(), os.getpid() if progress.is_reported() else None
                found = Parallel(n_jobs=n_jobs)(delayed(_judge_there)(*here, fold) for fold in some)
                progress.tick(progress.Counts(n_variables, 0, 0))
        if at_once > 1 or not search.stopped:  # a round is whole, a scan that was stopped is not
            judged += found
        if search.stopped and len(judged) < len(folds):
            warn_that_folds_were_stopped(len(judged), len(folds))
            return judged, True
    return judged, False


def _judge_there(
    judge: Callable[..., Judged], name: str, listener: int | None, fold: tuple[Any, ...]
) -> Judged:
    """Judge a fold in a worker, by the same backend; a process that listens answers Ctrl-C."""
    if listener is not None:
        leave_interrupts_to(listener)
    with backend.using(name):
        return judge(*fold)


def _stage(start: int, n_some: int, n_folds: int) -> str:
    """What folds that are judged together are called."""
    if n_some == 1:
        return f"fold {start + 1} of {n_folds}"
    return f"folds {start + 1} to {start + n_some} of {n_folds}"


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
