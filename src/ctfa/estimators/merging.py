"""Options of a phase, checked; the problem they pose, its solutions, and what is made of them."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ctfa import _validation as check
from ctfa._threads import one_thread
from ctfa.core.criteria import TARGET_CRITERIA, Criterion, unit_power
from ctfa.core.fit import Evidence
from ctfa.core.graph import Neighbours
from ctfa.core.history import Ledger, MergeHistory
from ctfa.core.partition import Partition
from ctfa.core.scans import SCANS
from ctfa.core.spaces.base import MergeSpace
from ctfa.core.tasks.base import PathPoint, Rule
from ctfa.core.types import IntArray

#: Losses this close to ``max_loss`` (relative to the scale of losses) are ties, and accepted.
TIE = 1e-10


@dataclass(frozen=True, eq=False)
class MergeProblem:
    """A checked problem of either phase, ready to be scanned."""

    space: MergeSpace
    criterion: Criterion
    scan: str
    order: IntArray
    graph: Any  # the neighbour graph, or None
    min_correlation: float = -1.0
    tolerance: float = 0.0

    @one_thread()
    def solve(self, max_loss: float) -> MergeHistory:
        """Run the scan, which uses the space up."""
        return SCANS[self.scan](
            self.space,
            self.criterion,
            max_loss=max_loss,
            order=self.order,
            neighbours=None if self.graph is None else Neighbours(self.graph),
            min_correlation=self.min_correlation,
            tolerance=self.tolerance,
        )

    @property
    def loss_of_copies(self) -> float:
        """Loss of merging two blocks between which there is no difference: the least there is."""
        evidence = self.space.evidence(0, np.array([1]))
        difference = evidence.difference
        none = difference._replace(
            explained=0.0 * difference.explained, residual=0.0 * difference.residual
        )
        same = Evidence(
            lambda: evidence.before, lambda: evidence.after, none, lambda: evidence.f_star
        )
        return float(np.asarray(self.criterion(same)).reshape(-1)[0])

    def point(self, history: MergeHistory, max_loss: float) -> PathPoint:
        """The groups at a limit, by a scan that it would have decided alike up to there.

        Ties are accepted a little above ``max_loss``, so both ends of the interval of limits that
        give the same, from the worst accepted loss to below the refused, lie that much lower.
        Signs are of each variable in its group's mean, the first of a group plus one.
        """
        reach = max_loss + self.tolerance
        partition, (low, high) = history.partition(reach), history.interval(reach)
        # Of the groups found, or of those they were made from: a block is turned round as a whole.
        signs = getattr(self.space, "signs", None)
        if signs is not None:
            first = np.array([group[0] for group in partition.groups])
            signs = np.asarray(signs * signs[first][partition.labels])
        return PathPoint(max_loss, partition, (min(low, max_loss), high - self.tolerance), signs)

    def copy(self) -> MergeProblem:
        """Keep the space as it is for another scan."""
        return replace(self, space=copy.deepcopy(self.space))


def read_rule(aggregator: Any, **known: Any) -> Rule:
    """Check what a TargetAggregator says for any tasks."""
    criterion = check.read_criterion(aggregator.criterion, TARGET_CRITERIA)
    check.require(aggregator.scan, SCANS, "scan")
    check.require(aggregator.scale, ["standard", "center", "none"], "scale")
    check.require(aggregator.solver, ["ols", "ridge"], "solver")
    return Rule(
        criterion,
        aggregator.scan,
        aggregator.scale,
        aggregator.solver,
        order=aggregator.order,
        random_state=aggregator.random_state,
        **known,
    )


def pose(
    rule: Rule,
    space: Any,
    variance: float | None = None,
    order: IntArray | None = None,
    *,
    min_correlation: float = -1.0,
    n_before: int = 2,
) -> MergeProblem:
    """A space, ready to be scanned; ``variance`` is the unit of its losses, if it has none.

    ``n_before`` is the number of fits that a criterion is told of as they stand: those of two
    targets, or the one of all features.
    """
    if order is None:
        order = check.read_order(rule.order, space, check_random_state(rule.random_state))
    if variance is None:
        # Spaces of shared coefficients are asked for risks alone, which have no unit.
        variance = getattr(space, "total_variance", 1.0)
    # The risk of the solver; other criteria are those of least squares.
    criterion = rule.criterion.by_ridge() if rule.solver == "ridge" else rule.criterion
    power = unit_power(criterion, n_before) if criterion.unit is None else criterion.unit
    tolerance = TIE * float(variance**power)
    return MergeProblem(space, criterion, rule.scan, order, rule.graph, min_correlation, tolerance)


def solve_path(problem: MergeProblem, max_losses: Sequence[float]) -> list[PathPoint]:
    """Solve for several limits, with as few scans as decide them all."""
    if max_losses and SCANS[problem.scan].nested:
        # Its merges do not depend on max_loss, only where they stop does.
        history = problem.solve(max(max_losses))
        return [problem.point(history, value) for value in max_losses]
    solved: list[tuple[MergeProblem, MergeHistory]] = []
    points = []
    for value in max_losses:
        reach = value + problem.tolerance
        known = next((one for one in solved if _holds(one[1].loss_interval, reach)), None)
        if known is None:
            posed = problem.copy()
            known = posed, posed.solve(value)
            solved.append(known)
        posed, history = known
        points.append(posed.point(history, value))
    return points


def _holds(losses: tuple[float, float], reach: float) -> bool:
    """Whether a limit would have decided every question of a scan alike."""
    low, high = losses
    return low <= reach < high or reach == high == np.inf


def settle(
    aggregator: Any,
    problem: MergeProblem,
    max_loss: float,
    names: Sequence[str] | None,
    *,
    chosen: bool = False,
) -> PathPoint:
    """Solve, and set the fitted attributes that both aggregators have.

    Where folds have chosen a limit at which nothing merges, copies are one target all the same.
    """
    copies_only = chosen and max_loss == -np.inf and problem.space.n_variables > 1
    limit = problem.loss_of_copies if copies_only else max_loss
    history = replace(problem.solve(limit), names=names)
    point = problem.point(history, limit)
    nothing_found = copies_only and not len(history)
    _keep(aggregator, history, point._replace(max_loss=max_loss) if nothing_found else point)
    return point


def leave_apart(aggregator: Any, n_variables: int) -> None:
    """Set the same where nobody is to merge."""
    history = Ledger(n_variables).close()
    alone = Partition.singletons(n_variables)
    _keep(aggregator, history, PathPoint(-np.inf, alone, history.loss_interval))


def _keep(aggregator: Any, history: MergeHistory, point: PathPoint) -> None:
    aggregator.history_, aggregator.partition_ = history, point.partition
    aggregator.labels_ = point.partition.labels
    aggregator.n_groups_ = point.partition.n_groups
    aggregator.max_loss_, aggregator.loss_interval_ = point.max_loss, point.loss_interval
    aggregator.cv_curve_ = None


def group_names(partition: Partition, names: Sequence[Any]) -> list[str]:
    """Name a group after its members: ``a``, or ``mean(a, b)``."""
    return [
        str(names[group[0]])
        if group.size == 1
        else "mean(" + ", ".join(str(names[member]) for member in group) + ")"
        for group in partition.groups
    ]
