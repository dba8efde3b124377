"""The rule of Phase I for tasks with inputs of their own, and its choice on held-out rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from ctfa import _validation as check
from ctfa._threads import one_thread
from ctfa.core.criteria import Criterion
from ctfa.core.cut import GRID, CutCurve, preferred_limit, without_rounding
from ctfa.core.own_fits import TEMPERS, AveragedFit, OwnFit, SharedFit
from ctfa.core.series import Series
from ctfa.core.spaces.gappy_paired import GappyPairedSpace
from ctfa.core.spaces.paired import PairedSpace
from ctfa.core.spaces.penalised_paired import PenalisedPairedSpace
from ctfa.core.spaces.penalised_pooled import PenalisedPooledSpace
from ctfa.core.spaces.pooled import PooledSpace
from ctfa.core.types import FloatArray, IntArray
from ctfa.estimators.merging import TIE, MergeProblem, PathPoint, loss_unit, solve_path
from ctfa.estimators.target_rule import judge_folds

AGGREGATES = ("mean", "pool")
#: Paired standard errors by which averaging must beat shared coefficients to be preferred.
CLEARLY = 2.0


@dataclass(frozen=True, eq=False)
class OwnRule:
    """Checked options of Phase I for tasks with inputs of their own."""

    criterion: Criterion
    scan: str
    scale: str
    solver: str
    penalised: bool  # whether fits that are compared on held-out rows are penalised
    shrinks: bool  # whether tasks move from their group's model towards their own
    graph: Any
    order: Any = "given"  # as it was given: found anew from the rows of each problem
    random_state: Any = None

    @property
    def tempers(self) -> tuple[float, ...]:
        """Shares of the found variance of tasks to choose among."""
        return TEMPERS if self.shrinks else (0.0,)

    def fit(self, series: Series, aggregate: str) -> OwnFit:
        """Fits of tasks, in the units they are merged in, by any groups."""
        kind = AveragedFit if aggregate == "mean" else SharedFit
        return kind(series, penalised=self.penalised)

    def space(self, series: Series, aggregate: str, *, overwrite: bool = False) -> Any:
        """A fresh space of these tasks."""
        if series.counts is not None and (self.solver == "ridge" or not series.is_complete):
            raise ValueError(
                "rows that stand in for others have the moments that least squares on complete "
                "series needs: gather the rows for solver='ridge' and for missing values."
            )
        if aggregate == "pool":
            return self._pooled(series)
        sizes = series.task_weights
        if self.solver != "ridge" and series.is_complete:
            return PairedSpace.of_series(series, sizes=sizes, overwrite=overwrite)
        kind = PenalisedPairedSpace if self.solver == "ridge" else GappyPairedSpace
        every_column = self.solver != "ridge" and self.criterion.counts_columns
        counts = None
        if sizes is not None:
            # Means are over counts of one or more where anybody is observed.
            counts = np.broadcast_to((sizes / sizes.min())[:, None, None], series.values.shape)
        return kind.of_series(
            series, sizes=sizes, counts=counts, every_column=every_column, overwrite=overwrite
        )

    def problem(self, space: Any) -> MergeProblem:
        """The space, ready to be scanned."""
        order = check.read_order(self.order, space, check_random_state(self.random_state))
        criterion = self.criterion.by_ridge() if self.solver == "ridge" else self.criterion
        # Spaces of shared coefficients are asked for risks alone, which have no unit.
        tolerance = TIE * loss_unit(criterion, getattr(space, "total_variance", 1.0))
        return MergeProblem(space, criterion, self.scan, order, self.graph, tolerance=tolerance)

    def _pooled(self, series: Series) -> Any:
        values = np.where(series.has[:, :, None], series.values[:, :-1], 0.0)
        target = series.values[:, -1]
        weights = np.ones(series.n_rows) if series.weights is None else series.weights
        complete = ~(np.isnan(values).any(axis=1) | np.isnan(target)) & (weights > 0.0)
        rows = [task[:, kept].T for task, kept in zip(values, complete, strict=True)]
        targets = [task[kept] for task, kept in zip(target, complete, strict=True)]
        own = None if series.weights is None else [weights[kept] for kept in complete]
        if self.solver == "ridge":
            return PenalisedPooledSpace.of(rows, targets, row_weights=own)
        n_samples = None
        if series.counts is not None:
            n_samples = np.full(series.n_tasks, float(series.n_samples))
        return PooledSpace.of(
            rows, targets, row_weights=own, weights=series.task_weights, n_samples=n_samples
        )


class OwnChoice(NamedTuple):
    """What held-out rows chose."""

    aggregate: str
    max_loss: float
    temper: float
    curve: CutCurve | None
    errors: dict[str, float]  # held-out error of the best of each way of aggregating


def choose(
    rule: OwnRule,
    series: Series,
    splits: Sequence[tuple[IntArray, IntArray]],
    limits: Sequence[float],
    aggregates: Sequence[str],
    n_jobs: int | None,
) -> OwnChoice | None:
    """Compare ways of aggregating, limits and tempers on rows left out.

    Groups are found anew from the training rows of each fold, and so are units. None where the
    search was stopped before a fold was finished.
    """
    spread = _target_spread(series, rule.scale)
    # Rows without a single target judge nothing: they are no evidence that errors are zero.
    observed = np.asarray(~np.isnan(series.values[:, -1]).all(axis=0))
    splits = [(train, test) for train, test in splits if observed[test].any()]
    trials = {aggregate: _Trial() for aggregate in aggregates}
    folds = [(rule, series, spread, train, test, limits, aggregates) for train, test in splits]
    for results in judge_folds(_one_fold, folds, n_jobs, series.n_tasks)[0]:
        for aggregate, (errors, n_groups) in results.items():
            trials[aggregate].errors.append(errors)
            trials[aggregate].n_groups.append(n_groups)
    if not trials[aggregates[0]].errors:
        return None
    chosen = {
        aggregate: trial.choose(rule, aggregate, limits, series.n_tasks)
        for aggregate, trial in trials.items()
    }
    best = aggregates[0]
    if len(aggregates) > 1:
        best = _compared({name: _at(trials[name], chosen[name], limits) for name in aggregates})
    means = {name: float(_at(trials[name], chosen[name], limits).mean()) for name in aggregates}
    return chosen[best]._replace(errors=means)


class _Trial:
    """Held-out errors of one way of aggregating."""

    def __init__(self) -> None:
        self.errors: list[FloatArray] = []  # (limits, tempers) a fold
        self.n_groups: list[list[int]] = []
        self.temper = 0

    def choose(
        self, rule: OwnRule, aggregate: str, limits: Sequence[float], n_tasks: int
    ) -> OwnChoice:
        """Take the limit and the temper of the smallest error, or the limit that is safest.

        Where tasks move towards their own models a merge too many costs little, and the smallest
        error decides; where groups serve their members alone, the rule of ``CutCurve`` does.
        """
        table = np.array(self.errors)
        n_groups, grid = np.mean(self.n_groups, axis=0), np.array(limits, dtype=float)
        n_tempers = table.shape[2]
        flat = CutCurve(
            grid.repeat(n_tempers),
            table.reshape(len(table), -1),
            n_groups.repeat(n_tempers),
            -1,
        )
        limit, self.temper = divmod(flat.best, n_tempers)
        at_temper = table[:, :, self.temper]
        if rule.shrinks:
            curve = CutCurve(grid, at_temper, n_groups, limit)
        else:
            curve = CutCurve.of(grid, at_temper, n_groups, preferred_limit(n_tasks))
        cut = float(grid[curve.chosen])
        return OwnChoice(aggregate, cut, rule.tempers[self.temper], curve, {})


def _at(trial: _Trial, choice: OwnChoice, limits: Sequence[float]) -> FloatArray:
    """Errors over folds at what was chosen."""
    return np.array(trial.errors)[:, list(limits).index(choice.max_loss), trial.temper]


def _compared(errors: dict[str, FloatArray]) -> str:
    """Shared coefficients, unless averaging is better by more than folds scatter."""
    both = zip(errors["pool"], errors["mean"], strict=True)
    saved = -np.diff([without_rounding(np.array(fold)) for fold in both])[:, 0]
    if saved.size == 1:
        return "mean" if saved[0] > 0.0 else "pool"
    error = saved.std(ddof=1) / np.sqrt(saved.size)
    return "mean" if saved.mean() > CLEARLY * error else "pool"


@one_thread()
def _one_fold(
    rule: OwnRule,
    series: Series,
    spread: FloatArray,
    train: IntArray,
    test: IntArray,
    limits: Sequence[float],
    aggregates: Sequence[str],
) -> dict[str, tuple[FloatArray, list[int]]]:
    known, own_units = series.take(train).standardised(rule.scale, overwrite=True)
    known = known.free_rows().compressed()
    other = series.take(test).in_units(own_units, overwrite=True)
    # In units of all rows: a target may be constant over those of one fold.
    relative = own_units.scales[:, -1] / spread
    results = {}
    for aggregate in aggregates:
        problem = rule.problem(rule.space(known, aggregate))
        points = solve_path(problem, list(limits))
        fit = rule.fit(known, aggregate)
        errors = held_out_errors(fit, other, relative, points, rule.tempers)
        results[aggregate] = errors, [point.n_groups for point in points]
    return results


def held_out_errors(
    fit: OwnFit,
    other: Series,
    relative: FloatArray,
    points: Sequence[PathPoint],
    tempers: Sequence[float],
) -> FloatArray:
    """Mean squared error of each point's groups at each temper, ``(points, tempers)``.

    Over the rows where a task's target is observed; where nothing can be predicted its mean is.
    """
    target = other.values[:, -1]
    weights = np.ones(other.n_rows) if other.weights is None else other.weights
    counted = np.where(np.isnan(target), 0.0, weights)
    if other.task_weights is not None:
        counted *= other.task_weights[:, None]
    weight = counted * relative[:, None] ** 2
    total = max(float(counted.sum()), np.finfo(float).tiny)
    level = fit.own.centre[:, -1:]  # not zero where series keep their levels
    found: dict[bytes, list[float]] = {}
    for point in points:
        key = point.partition.labels.tobytes()
        if key not in found:
            found[key] = [
                float((weight * np.nan_to_num(target - served) ** 2).sum()) / total
                for predicted in fit.predict(point.partition, other, tempers)
                for served in [np.where(np.isnan(predicted), level, predicted)]
            ]
    errors = np.array([found[point.partition.labels.tobytes()] for point in points])
    return without_rounding(errors, float((weight * np.nan_to_num(target) ** 2).sum()) / total)


def _target_spread(series: Series, scale: str) -> FloatArray:
    """Units of the targets over all rows."""
    alone = replace(series, values=series.values[:, -1:], has=series.has[:, :0])
    return alone.standardised(scale)[1].scales[:, -1]


#: Limits tried by ``max_loss="auto"``.
LIMITS = tuple(GRID.tolist())
