"""The rule of Phase I, posed on any rows: all of a fit's, or those of one fold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ctfa._merging import TIE, MergeProblem, PathPoint, loss_unit, solve_path
from ctfa.core.criteria import Criterion, left_out_risk, target_risk
from ctfa.core.cut import GRID, CutCurve
from ctfa.core.design import Design, row_scales, weighted_mean
from ctfa.core.ridge import Ridge
from ctfa.core.solvers import LeastSquaresFit, RidgeFit, TargetFit
from ctfa.core.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class PosedTargets:
    """Targets in the units they are merged in, fitted one by one and ready to be scanned."""

    problem: MergeProblem
    fit: TargetFit
    offsets: FloatArray
    scales: FloatArray
    intercepts: FloatArray  # of the centred targets, in those units

    def errors(
        self, rows: FloatArray, values: FloatArray, units: FloatArray, points: list[PathPoint]
    ) -> FloatArray:
        """Squared error of each point's groups on other rows: ``(points, rows)``, mean of targets.

        A group's prediction is the mean of its members' own, because fits are linear in the target.
        """
        predicted = self.fit.predict(rows) + self.intercepts
        # In units of all rows: a target that happens to be constant over these has none of its own.
        observed, relative = (values - self.offsets) / units, self.scales / units
        found: dict[bytes, FloatArray] = {}
        for point in points:
            key = _key(point)
            if key not in found:
                signs = 1.0 if point.signs is None else point.signs
                means = point.partition.mean(predicted * signs)
                gap = observed - point.partition.spread(means) * (signs * relative)
                found[key] = np.einsum("ij,ij->i", gap, gap) / gap.shape[1]
        return np.stack([found[_key(point)] for point in points])


@dataclass(frozen=True, eq=False)
class TargetRule:
    """Checked options of Phase I."""

    criterion: Criterion
    scan: str
    scale: str
    flip: bool
    guarded: bool
    solver: str

    def factor(self, inputs: FloatArray, weights: FloatArray | None) -> Design | None:
        """Inputs factored for least squares; a penalised fit is factored with its targets."""
        return Design.of(inputs, weights) if self.solver == "ols" else None

    def pose(
        self,
        design: Design | None,
        inputs: FloatArray,
        weights: FloatArray | None,
        values: FloatArray,
        graph: Any,
    ) -> PosedTargets:
        """Scale the targets and fit each by itself."""
        n_targets = values.shape[1]
        _, row_scale = row_scales(values.shape[0], weights)
        mean = weighted_mean(values, row_scale)
        centred = values - mean
        if weights is not None:
            centred *= row_scale[:, None]
        offsets, scales, intercepts = np.zeros(n_targets), np.ones(n_targets), mean
        if self.scale != "none":
            offsets, intercepts = mean, np.zeros(n_targets)
        if self.scale == "standard":
            scales = np.sqrt(np.einsum("ij,ij->j", centred, centred) / values.shape[0])
            # Constant over the rows of a fold, though not over all: nothing to scale, and back in
            # its own units whatever its group says is that constant.
            centred /= np.where(scales > 0.0, scales, 1.0)
        fit: TargetFit
        if design is not None:
            fit = LeastSquaresFit(design, centred)
        else:
            fit = RidgeFit(Ridge.of(inputs, centred, weights), centred)
        space = fit.space(flip=self.flip)
        if self.guarded:
            space.protect(fit.risk)
        criterion = self._criterion()
        problem = MergeProblem(
            space,
            criterion,
            self.scan,
            np.arange(n_targets),
            graph,
            tolerance=TIE * loss_unit(criterion, space.total_variance),
        )
        return PosedTargets(problem, fit, offsets, scales, intercepts)

    def _criterion(self) -> Criterion:
        """Return the risk of the solver; other criteria are those of least squares."""
        ridge = self.solver == "ridge" and self.criterion is target_risk
        return left_out_risk if ridge else self.criterion


def choose_cut(
    rule: TargetRule,
    inputs: FloatArray,
    weights: FloatArray | None,
    values: FloatArray,
    units: FloatArray,
    graph: Any,
    splits: list[tuple[IntArray, IntArray]],
    designs: list[Design | None],
) -> CutCurve:
    """Held-out error of every limit, the groups found anew from the training rows of each fold."""
    grid = GRID.tolist()
    errors, n_groups = [], []
    for (train, test), design in zip(splits, designs, strict=True):
        kept = None if weights is None else weights[train]
        posed = rule.pose(design, inputs[train], kept, values[train], graph)
        points = solve_path(posed.problem, grid)
        judges = None if weights is None else weights[test]
        by_row = posed.errors(inputs[test], values[test], units, points)
        errors.append(np.average(by_row, axis=1, weights=judges))
        n_groups.append([point.n_groups for point in points])
    return CutCurve.of(GRID, np.array(errors), np.mean(n_groups, axis=0))


def _key(point: PathPoint) -> bytes:
    signs = b"" if point.signs is None else point.signs.tobytes()
    return point.partition.labels.tobytes() + signs
