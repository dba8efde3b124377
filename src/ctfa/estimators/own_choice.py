"""Phase I for targets with inputs of their own: what is given, and what held-out blocks choose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sklearn.base import clone

from ctfa import _validation as check
from ctfa._threads import one_thread
from ctfa.core.criteria import TARGET_CRITERIA, criterion_of
from ctfa.core.cut import PREFERRED
from ctfa.core.partition import Partition
from ctfa.core.scans import SCANS
from ctfa.core.series import Series
from ctfa.core.types import FloatArray, IntArray
from ctfa.estimators.group_models import is_least_squares
from ctfa.estimators.own_rule import LIMITS, OwnChoice, OwnRule, choose
from ctfa.estimators.target_aggregator import TargetAggregator

#: Rows that least squares needs beyond the number of inputs, for a break-even F to exist.
SPARE_ROWS = 3


def read_rule(
    aggregator: TargetAggregator,
    values: FloatArray,
    aggregate: str,
    regressor: Any,
    *,
    shrinks: bool,
) -> OwnRule:
    """Check the options of Phase I."""
    criterion = check.read_criterion(aggregator.criterion, TARGET_CRITERIA)
    check.require(aggregator.scan, SCANS, "scan")
    check.require(aggregator.scale, ["standard", "center", "none"], "scale")
    check.require(aggregator.solver, ["ols", "ridge"], "solver")
    check.refuse_for_own_inputs(aggregator, aggregate, criterion)
    return OwnRule(
        criterion,
        aggregator.scan,
        aggregator.scale,
        aggregator.solver,
        penalised=aggregator.solver == "ridge" or not is_least_squares(regressor),
        shrinks=shrinks,
        graph=check.read_graph(aggregator.connectivity, values, "targets"),
        order=aggregator.order,
        random_state=aggregator.random_state,
    )


def choose_on_folds(
    rule: OwnRule,
    sample: check.Sample,
    series: Series,
    limit: float | None,
    aggregate: str,
    folds: tuple[Any, Any],
    n_jobs: int | None,
) -> OwnChoice:
    """Choose what was not given: the limit, the way of aggregating, the shrinkage.

    ``folds`` are the splitter and the labels of the rows that it may want.
    """
    aggregates = ("pool", "mean") if aggregate == "auto" else (aggregate,)
    given = PREFERRED if limit is None else limit
    fallback = OwnChoice(aggregates[0], given, float(rule.shrinks), None, {})
    chooses = limit is None or len(aggregates) > 1 or rule.shrinks
    if not chooses or series.n_tasks == 1:
        return fallback
    cv, groups = folds
    splits = check.read_cut_folds(cv, sample, series.values[:, -1].T, groups)
    if splits is None:
        return fallback
    fewest = None if rule.solver == "ridge" else SPARE_ROWS
    for fold, (train, _) in enumerate(splits):
        if not check.enough_rows(series.take(train), fewest):
            check.warn_if_own_folds_are_short(fold, _unchosen(limit, aggregates))
            return fallback
    limits = LIMITS if limit is None else (limit,)
    choice = choose(rule, series, splits, limits, aggregates, n_jobs)
    if choice is None:
        return fallback
    return choice if limit is None else choice._replace(curve=None)


def suited_to(template: TargetAggregator, series: Series, names: Sequence[str]) -> TargetAggregator:
    """The same by ridge regression, where some target's rows do not carry least squares."""
    criterion = criterion_of(template.criterion, TARGET_CRITERIA)
    plain = template.solver == "ols" and criterion.ridge_loss is not None
    if not plain or series.counts is not None or check.enough_rows(series, SPARE_ROWS):
        return template
    if not check.enough_rows(series, None):
        return template
    check.warn_if_series_are_short(series, names, SPARE_ROWS)
    return clone(template).set_params(solver="ridge")  # type: ignore[no-any-return]


def fewest_rows(template: TargetAggregator | None, series: Series) -> int | None:
    """Rows that a target needs beyond its inputs; None where no least squares is judged."""
    if template is None or template.solver == "ridge":
        return None
    # With gaps the paper's rule is asked only of pairs that have the rows for it.
    all_columns = criterion_of(template.criterion, TARGET_CRITERIA).counts_columns
    return None if all_columns and not series.is_complete else SPARE_ROWS


@one_thread()
def group_rows(
    rule: OwnRule, series: Series, rows: IntArray, aggregate: str, max_loss: float
) -> Partition:
    """Groups that some of the rows give."""
    scaled = series.take(rows).standardised(rule.scale, overwrite=True)[0].free_rows()
    return rule.problem(rule.space(scaled, aggregate, overwrite=True)).solve(max_loss).partition()


def _unchosen(limit: float | None, aggregates: Sequence[str]) -> dict[str, str]:
    """What folds were to choose, and what is used without them."""
    chosen = {}
    if limit is None:
        chosen["max_loss='auto'"] = f"max_loss={PREFERRED:g}"
    if len(aggregates) > 1:
        chosen["aggregate='auto'"] = f"aggregate={aggregates[0]!r}"
    return chosen or {"the shrinkage of head='shrink'": "all that was found of it"}
