"""The rule of Phase I, whoever shares what: its options, checked, and the problem it poses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sklearn.base import clone
from sklearn.utils import check_random_state

from ctfa import _validation as check
from ctfa._threads import one_thread
from ctfa.core.criteria import TARGET_CRITERIA, criterion_of
from ctfa.core.partition import Partition
from ctfa.core.scans import SCANS
from ctfa.core.series import Series
from ctfa.core.tasks.base import Rule
from ctfa.core.tasks.own_inputs import TEMPERS, OwnFits
from ctfa.core.types import FloatArray, IntArray
from ctfa.estimators.merging import TIE, MergeProblem, loss_unit
from ctfa.estimators.models import is_least_squares

#: Rows that least squares needs beyond the number of inputs, for a break-even F to exist.
SPARE_ROWS = 3


def pose(
    rule: Rule, space: Any, variance: float | None = None, order: IntArray | None = None
) -> MergeProblem:
    """A space, ready to be scanned; ``variance`` is the unit of its losses, if it has none."""
    if order is None:
        order = check.read_order(rule.order, space, check_random_state(rule.random_state))
    if variance is None:
        # Spaces of shared coefficients are asked for risks alone, which have no unit.
        variance = getattr(space, "total_variance", 1.0)
    # The risk of the solver; other criteria are those of least squares.
    criterion = rule.criterion.by_ridge() if rule.solver == "ridge" else rule.criterion
    tolerance = TIE * loss_unit(criterion, variance)
    return MergeProblem(space, criterion, rule.scan, order, rule.graph, tolerance=tolerance)


def read_rule(aggregator: Any, graph: Any = None, **known: Any) -> Rule:
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
        graph=graph,
        order=aggregator.order,
        random_state=aggregator.random_state,
        **known,
    )


def rule_of_targets(aggregator: Any, targets: check.Targets) -> Rule:
    """The rule for targets that share their inputs."""
    rule = read_rule(aggregator, flip=bool(aggregator.flip), guarded=aggregator.guard is not None)
    check.require_flag(aggregator.flip, "flip")
    if aggregator.guard is not None:
        check.require(aggregator.guard, ["member"], "guard")
        check.require_matrix_size(targets.values.shape[1], "guard='member'")
    if aggregator.solver == "ridge":
        check.require_fact(aggregator.criterion, TARGET_CRITERIA, "ridge_loss", "solver='ridge'")
    if targets.weights is not None:
        check.refuse_for_target_weight(targets, aggregator)
    return replace(rule, graph=check.read_graph(aggregator.connectivity, targets.values, "targets"))


def rule_of_own_inputs(
    aggregator: Any, values: FloatArray, aggregate: str, regressor: Any, *, shrinks: bool
) -> Rule:
    """The rule for targets with inputs of their own, aggregated in this way."""
    rule = read_rule(
        aggregator,
        penalised=aggregator.solver == "ridge" or not is_least_squares(regressor),
        tempers=TEMPERS if shrinks else (0.0,),
    )
    check.refuse_for_own_inputs(aggregator, aggregate, rule.criterion)
    return replace(rule, graph=check.read_graph(aggregator.connectivity, values, "targets"))


def rule_of_own_rows(aggregator: Any, *, shrinks: bool = False) -> Rule:
    """The rule for tasks with rows of their own; refuses what means nothing without pairs of rows.

    Without the graph, which may be a function of the tasks.
    """
    if check.read_criterion(aggregator.criterion, TARGET_CRITERIA).for_means:
        check.refuse_option(
            "criterion",
            aggregator.criterion,
            "averages targets over common rows, which tasks with rows of their own do not have,",
            "use criterion='risk'",
        )
    rule = read_rule(aggregator, tempers=(float(shrinks),))
    check.require_flag(aggregator.flip, "flip")
    if aggregator.scale == "none":
        check.refuse_option(
            "scale",
            "none",
            "would give a group one intercept, and tasks keep an offset of their own",
            "use 'standard' or 'center'",
        )
    missing = "is not available"
    if aggregator.flip:
        check.refuse_option("flip", True, missing, "turn those targets round yourself")
    if aggregator.guard is not None:
        check.refuse_option("guard", aggregator.guard, missing, "use guard=None, and head='shrink'")
    if aggregator.solver != "ols":
        alone = "use solver='ols': tasks without degrees of freedom of their own may merge"
        check.refuse_option("solver", aggregator.solver, missing, alone)
    return rule


def suited_to(template: Any, series: Series, names: Sequence[str]) -> Any:
    """The same by ridge regression, where some target's rows do not carry least squares."""
    criterion = criterion_of(template.criterion, TARGET_CRITERIA)
    plain = template.solver == "ols" and criterion.ridge_loss is not None
    if not plain or series.counts is not None or check.enough_rows(series, SPARE_ROWS):
        return template
    if not check.enough_rows(series, None):
        return template
    check.warn_if_series_are_short(series, names, SPARE_ROWS)
    return clone(template).set_params(solver="ridge")


def fewest_rows(template: Any, series: Series) -> int | None:
    """Rows that a target needs beyond its inputs; None where no least squares is judged."""
    if template is None or template.solver == "ridge":
        return None
    # With gaps the paper's rule is asked only of pairs that have the rows for it.
    all_columns = criterion_of(template.criterion, TARGET_CRITERIA).counts_columns
    return None if all_columns and not series.is_complete else SPARE_ROWS


@one_thread()
def group_rows(
    rule: Rule, series: Series, rows: IntArray, aggregate: str, max_loss: float
) -> Partition:
    """Groups that some of the rows give."""
    scaled = series.take(rows).standardised(rule.scale, overwrite=True)[0].free_rows()
    problem = pose(rule, OwnFits(rule, scaled, aggregate).space(overwrite=True))
    return problem.solve(max_loss).partition()
