"""The search for groups: options checked, a problem posed and solved, its limit chosen on folds."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.utils import check_random_state

from ctfa import _reading as check
from ctfa._progress import leave_interrupts_to
from ctfa._threads import one_thread
from ctfa.core import backend, progress
from ctfa.core.criteria import TARGET_CRITERIA, Criterion, Loss
from ctfa.core.cut import GRID, PREFERRED, CutCurve, Price, further, without_rounding
from ctfa.core.fit import Evidence, Fit
from ctfa.core.graph import NO_WISHES, Neighbours, Separation, Wishes
from ctfa.core.history import Ledger, MergeHistory
from ctfa.core.judge import Merge
from ctfa.core.lags import Lags
from ctfa.core.partition import Partition
from ctfa.core.scans import SCANS, Scan, best_first, stay
from ctfa.core.spaces.base import MergeSpace
from ctfa.core.tasks.base import PathPoint, Rule, Tasks
from ctfa.core.types import FloatArray, IntArray

Judged = TypeVar("Judged")
#: What held-out errors ``(folds, limits, tempers)``, the limits and their mean numbers of groups
#: choose: the curve of the limits, and the number of the temper.
Preference = Callable[[FloatArray, FloatArray, FloatArray], tuple[CutCurve, int]]

#: Losses this close to ``max_loss`` (relative to the scale of losses) are ties, and accepted.
TIE = 1e-10
#: Limits tried by ``max_loss="auto"``.
LIMITS = tuple(GRID.tolist())
#: Paired standard errors by which averaging must beat shared coefficients to be preferred.
CLEARLY = 2.0
#: Work of the search for groups of all rows for a progress bar, in folds; and of the search that
#: finds how far their path goes, as a share of all.
FINAL_SCAN, AS_A_FOLD = 1, 0.1
#: First folds, far apart, that end the comparison if averaging is worse on all of them.
AGAINST = 3


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
    wishes: Wishes = NO_WISHES

    @one_thread()
    def solve(
        self,
        max_loss: float,
        scan: Scan | None = None,
        begin: Sequence[Merge] | None = None,
        n_joined: int = 0,
        least: int = 1,
        *,
        both: bool = False,
    ) -> MergeHistory:
        """Run a scan, which uses the space up, among pairs of which one, or both, are smaller.

        It starts after some merges: those wished together, where no others are given.
        """
        separation, apart = None, self.wishes.apart
        if begin is None:
            begin = [(block, other, np.nan) for block, other in self.wishes.joins]
            n_joined = len(begin)
        if apart or begin or least > 1 or scan is stay:
            most = self.wishes.n_groups
            separation = Separation(self.space.n_variables, apart, least, both=both, most=most)
        return (SCANS[self.scan] if scan is None else scan)(
            self.space,
            self.criterion,
            max_loss=max_loss,
            order=self.order,
            neighbours=None if self.graph is None else Neighbours(self.graph),
            min_correlation=self.min_correlation,
            tolerance=self.tolerance,
            separation=separation,
            begin=begin,
            n_joined=n_joined,
        )

    def wished(self, max_loss: float) -> tuple[MergeHistory, PathPoint]:
        """Merges and groups as they were wished, and as far as that can be; keeps the space."""
        limit = max_loss if self.wishes.n_groups is None else np.inf
        posed = self.copy()
        return self.cut(posed, posed.solve(limit), max_loss)

    def cut(
        self, posed: MergeProblem, path: MergeHistory, max_loss: float
    ) -> tuple[MergeHistory, PathPoint]:
        """The same of a path that is known, to a limit or to its end, and the problem it used up.

        Small groups are joined on after the limit; of a number of groups, after the first of the
        path from which so many are left when that is done. Ties are accepted a little above
        ``max_loss``, so both ends of the interval of limits that give the same, from the worst
        accepted loss to below the refused, lie that much lower.
        """
        least, n_groups = self.wishes.min_size, self.wishes.n_groups
        if n_groups is None:
            reach = max_loss + self.tolerance
            stop, (low, high) = path.stop(reach), path.interval(reach)
            if least > 1 and int(path.after(stop).sizes.min()) < least:
                posed, path = self._mended(path, stop)
                stop = len(path)
            interval = min(low, max_loss), high - self.tolerance
            return path, posed.point(path.after(stop), max_loss, interval)
        n_merges = path.n_variables - n_groups
        first, last = path.joined, max(path.joined, min(n_merges, len(path)))
        if int(path.after(last).sizes.min()) < least:
            while first < last:  # the latest cut that leaves enough groups when it is mended
                middle = (first + last + 1) // 2
                short = len(self._mended(path, middle)[1]) > n_merges
                first, last = (first, middle - 1) if short else (middle, last)
            mended = self._mended(path, first)[1]
            posed = self.copy()
            path = posed.solve(np.inf, begin=mended.merges(), n_joined=mended.joined)
        stop = max(path.joined, min(n_merges, len(path)))
        worst = float(path.loss[path.joined : stop].max(initial=-np.inf))
        next_one = float(path.loss[stop]) if stop < len(path) else np.inf
        nested = SCANS[self.scan].nested and least == 1
        interval = worst, max(worst, next_one - self.tolerance) if nested else worst
        return path, posed.point(path.after(stop), worst, interval)

    def _mended(self, path: MergeHistory, stop: int) -> tuple[MergeProblem, MergeHistory]:
        """The first merges of a path, then small groups joined on, smallest loss first.

        Of a number of groups small ones with each other first: that leaves more of them.
        """
        known, least = path.merges(stop), self.wishes.min_size
        if self.wishes.n_groups is not None:
            found = self.copy().solve(np.inf, best_first, known, path.joined, least, both=True)
            known = found.merges()
        posed = self.copy()
        return posed, posed.solve(np.inf, best_first, known, path.joined, least)

    def replayed(self, path: MergeHistory, n_groups: int) -> MergeHistory:
        """A path up to a number of groups, with what these refuse; uses the space up."""
        history = self.solve(-np.inf, stay, path.merges(path.n_variables - n_groups), path.joined)
        return replace(history, n_comparisons=path.n_comparisons, complete=path.complete)

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

    def point(
        self, partition: Partition, max_loss: float, interval: tuple[float, float]
    ) -> PathPoint:
        """Groups with the signs of each variable in its group's mean, the first plus one."""
        # Of the groups found, or of those they were made from: a block is flipped as a whole.
        signs = getattr(self.space, "signs", None)
        if signs is not None:
            first = np.array([group[0] for group in partition.groups])
            signs = np.asarray(signs * signs[first][partition.labels])
        return PathPoint(max_loss, partition, interval, signs)

    def copy(self) -> MergeProblem:
        """Keep the space as it is for another scan."""
        return replace(self, space=copy.deepcopy(self.space))


def read_rule(aggregator: Any, judge: Any = None, *, refits: bool = False, **known: Any) -> Rule:
    """Check what a TargetAggregator says for any tasks; ``judge`` is the regressor that judges.

    ``refits``: whether one that has no closed form may do so.
    """
    criterion = check.read_criterion(aggregator.criterion, TARGET_CRITERIA)
    check.require(aggregator.scan, SCANS, "scan")
    check.require(aggregator.scale, ["standard", "center", "none"], "scale")
    solver, penalties = "refits", None
    if judge is not None:
        check.require_regressor(judge)
    if not refits or check.judges(judge):
        penalties = check.read_judge(judge)
        solver = "ols" if penalties is None else "ridge"
    if solver != "ols":
        what = f"regressor={check.called(judge)}"
        check.require_fact(aggregator.criterion, TARGET_CRITERIA, "ridge_loss", what)
    return Rule(
        criterion,
        aggregator.scan,
        aggregator.scale,
        solver,
        penalties,
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
    criterion = rule.criterion if rule.solver == "ols" else rule.criterion.by_ridge()
    power = unit_power(criterion, n_before) if criterion.unit is None else criterion.unit
    tolerance = TIE * float(variance**power)
    known = space, criterion, rule.scan, order, rule.graph, min_correlation, tolerance
    return MergeProblem(*known, rule.wishes)


def unit_power(criterion: Loss, n_before: int = 2) -> float:
    """Power of the target's variance that the losses of a criterion have: 1 for squared units.

    Found by asking about made-up fits and about the same with four times the squares, so that a
    criterion need not declare it. Zero (losses without units) where that does not say.
    """
    squares = ((3.0, 2.0), (4.0, 3.0), (3.25, 1.5), (0.25, 0.5))

    def loss(factor: float) -> float:
        fits = [
            Fit(np.array([explained * factor]), np.array([residual * factor]), 20, 3, 3, 16, 1)
            for explained, residual in squares
        ]
        evidence = Evidence(tuple(fits[:n_before]), fits[2], fits[3], 2.0, 1.0)
        return float(np.reshape(criterion(evidence), -1)[0])

    try:
        with np.errstate(all="ignore"):
            power = np.log(loss(4.0) / loss(1.0)) / np.log(4.0)
    except Exception:  # a user's function may need more than this
        return 0.0
    return float(power) if np.isfinite(power) else 0.0


def solve_path(problem: MergeProblem, max_losses: Sequence[float]) -> list[PathPoint]:
    """Solve for several limits, with as few scans as decide them all.

    Of what is wished but a number of groups, which has no limit.
    """
    fresh = problem.copy() if problem.wishes.min_size > 1 else problem
    if max_losses and SCANS[problem.scan].nested:
        # Its merges do not depend on max_loss, only where they stop does.
        history = problem.solve(max(max_losses))
        return [fresh.cut(problem, history, value)[1] for value in max_losses]
    solved: list[tuple[MergeProblem, MergeHistory]] = []
    points = []
    for value in max_losses:
        reach = value + problem.tolerance
        # A scan that would have made the same decisions.
        known = next((one for one in solved if _holds(one[1].loss_interval, reach)), None)
        if known is None:
            posed = problem.copy()
            known = posed, posed.solve(value)
            solved.append(known)
        points.append(fresh.cut(*known, value)[1])
    return points


def solve_wishes(
    problem: MergeProblem, max_losses: Sequence[float]
) -> tuple[list[PathPoint], list[PathPoint]]:
    """The path without wishes, and as they were wished: another one, or a cut of the first."""
    wishes = problem.wishes
    free, n_groups = replace(problem, wishes=NO_WISHES), wishes.n_groups
    if n_groups is None:
        if not wishes.shape_groups:
            return solve_path(free, max_losses), []
        return solve_path(free.copy(), max_losses), solve_path(problem, max_losses)
    if wishes.shape_groups or not SCANS[problem.scan].nested:
        return solve_path(free.copy(), max_losses), [problem.wished(np.inf)[1]]
    path = free.solve(np.inf)
    points = [free.cut(free, path, value)[1] for value in max_losses]
    return points, [problem.cut(free, path, np.inf)[1]]


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

    Where folds chose a limit at which nothing merges, copies are still one target.
    """
    wishes = problem.wishes
    copies_only = chosen and max_loss == -np.inf and problem.space.n_variables > 1
    limit = problem.loss_of_copies if copies_only else max_loss
    if wishes.shape_groups or wishes.n_groups is not None:
        path, point = problem.wished(limit)
        if path.complete:
            check.require_wished(aggregator, wishes, point.partition, problem.graph, names)
        history = problem.replayed(path, point.n_groups)
    else:
        history = problem.solve(limit)
        _, point = problem.cut(problem, history, limit)
    history = replace(history, names=names)
    nothing_found = copies_only and len(history) == history.joined
    _keep(aggregator, history, point._replace(max_loss=max_loss) if nothing_found else point)
    return point


def keep_price(aggregator: Any, rule: Rule, choice: Choice | None) -> None:
    """Set what wishes cost, or that this is not known."""
    if rule.wishes:
        price = Price(0) if choice is None or choice.price is None else choice.price
        aggregator.price_ = replace(price, n_groups=aggregator.n_groups_)


def leave_apart(aggregator: Any, n_variables: int) -> None:
    """Set the same where nothing is to merge."""
    history = Ledger(n_variables).close()
    alone = Partition.singletons(n_variables)
    _keep(aggregator, history, PathPoint(-np.inf, alone, history.loss_interval))


def _keep(aggregator: Any, history: MergeHistory, point: PathPoint) -> None:
    aggregator.history_, aggregator.partition_ = history, point.partition
    aggregator.labels_ = point.partition.labels
    aggregator.n_groups_ = point.partition.n_groups
    aggregator.max_loss_, aggregator.loss_interval_ = point.max_loss, point.loss_interval
    aggregator.cv_curve_ = aggregator.price_ = None


def group_names(partition: Partition, names: Sequence[Any]) -> list[str]:
    """Name a group after its members: ``a``, ``mean(a, b)``, or ``mean(rain, 3-8 weeks before)``.

    The last where they are neighbouring lags of one series.
    """
    lags = Lags(names)

    def named(group: IntArray) -> str:
        window = lags.window(group) if lags and group.size > 1 else None
        members = [str(names[member]) for member in group]
        found = ", ".join(members) if window is None else str(window)
        return found if group.size == 1 else f"mean({found})"

    return [named(group) for group in partition.groups]


class Choice(NamedTuple):
    """What held-out rows chose."""

    aggregate: str
    max_loss: float
    temper: Any  # one of the rule's
    curve: CutCurve | None
    errors: dict[str, float]  # held-out error of the best of each way of aggregating
    points: Sequence[PathPoint] = ()  # groups that the training rows of each fold give
    price: Price | None = None  # of what was wished, and not chosen
    free_points: Sequence[PathPoint] = ()  # the groups of the folds without wishes


def smallest_error(prefer: Callable[[CutCurve], CutCurve]) -> Preference:
    """The temper of the smallest error of all, and of its limits the one preferred.

    ``prefer`` goes from a curve with its smallest error chosen to one with the limit to be used.
    """

    def choose_both(
        table: FloatArray, grid: FloatArray, n_groups: FloatArray
    ) -> tuple[CutCurve, int]:
        n_tempers = table.shape[2]
        all_errors = table.reshape(len(table), -1)
        flat = CutCurve(grid.repeat(n_tempers), all_errors, n_groups.repeat(n_tempers), -1)
        best_limit, temper = divmod(flat.best, n_tempers)
        return prefer(CutCurve(grid, table[:, :, temper], n_groups, best_limit)), temper

    return choose_both


def fewest_groups(curve: CutCurve) -> CutCurve:
    """The fewest groups within one standard error of the best."""
    return CutCurve.of(curve.max_loss, curve.fold_errors, curve.n_groups)


def fewest_readable(
    table: FloatArray,
    grid: FloatArray,
    n_groups: FloatArray,
    tolerance: float | None = None,
    alone: Sequence[int] | None = None,
) -> tuple[CutCurve, int]:
    """The fewest groups whose own models err little more than the best; of these the best temper.

    Within one standard error where no tolerance is given. ``alone`` are the tempers of groups that
    serve their members with their own models; None for all.
    """
    mean = table.mean(axis=0)
    own = np.arange(table.shape[2]) if alone is None else np.asarray(alone)
    mildest = own[mean[:, own].argmin(axis=1)]
    curve = CutCurve.of(grid, table[:, np.arange(grid.size), mildest], n_groups, tolerance)
    return curve, int(mean[curve.chosen].argmin())


def choose(
    tasks: Tasks,
    rule: Rule,
    folds: Sequence[tuple[Any, ...]],
    prefer: Preference,
    *,
    cv: Any,
    n_jobs: int | None,
    limits: Sequence[float] | None = None,
    aggregates: Sequence[str] = ("mean",),
) -> Choice | None:
    """Compare limits, tempers and ways of aggregating on rows left out.

    Groups are found again from the training rows of each fold, and so are units and what confounds
    says. ``folds`` are arguments of ``tasks.fold``; ``limits`` that are not given are those of
    ``max_loss="auto"``. Asked to stop, the folds finished by then decide; None if there are none.
    """
    is_auto = limits is None
    limits = LIMITS if limits is None else limits
    otherwise = f"max_loss is {PREFERRED}" if is_auto else "nothing is chosen on them"
    if len(limits) > 1:
        further_on = _as_far_as_the_path_goes(tasks, rule, limits, folds, aggregates[0])
        if further_on is None:
            warn_that_folds_were_stopped(0, len(folds), otherwise)
            return None
        limits = further_on

    def judge(at: Sequence[int], ways: Sequence[str], n_before: int = 0) -> tuple[list[Any], bool]:
        each = [(tasks, rule, folds[k], limits, ways, is_auto) for k in at]
        known = tasks.n_tasks, otherwise, n_before, len(folds)
        return judge_folds(_judge_fold, each, n_jobs, *known)

    step = -(-len(folds) // AGAINST) if len(aggregates) > 1 else 1
    order = [k for start in range(step) for k in range(start, len(folds), step)]
    is_compared = len(aggregates) > 1 and len(folds) >= 2 * AGAINST
    judged, stopped = judge(order[:AGAINST] if is_compared else order, aggregates)
    if is_compared and not stopped:
        both = [fold for fold in judged if fold is not None]
        # Averaging errs more than shared coefficients on all of the first folds.
        worse = [fold["mean"][0].min() > fold["pool"][0].min() for fold in both]
        ways = [aggregates[0]] if sum(worse) == AGAINST else aggregates
        more, stopped = judge(order[AGAINST:], ways, AGAINST)
        judged += more
    judged = [fold for _, fold in sorted(zip(order, judged, strict=False), key=lambda one: one[0])]
    found = [fold for fold in judged if fold is not None]
    if not found:
        if not stopped:
            check.require_judged(0, cv)
        return None
    grid = np.array(limits, dtype=float)
    chosen, at_best = {}, {}
    for aggregate in aggregates:
        asked = [fold for fold in found if aggregate in fold]
        errors, paths = zip(*(fold[aggregate] for fold in asked), strict=True)
        known = aggregate, np.array(errors), paths, grid, rule, prefer
        chosen[aggregate], at_best[aggregate] = _chosen(*known)
    means = {name: float(errors.mean()) for name, errors in at_best.items()}
    if len(aggregates) == 1:
        best = aggregates[0]
    elif all(len(fold) > 1 for fold in found):
        best = _compared(at_best)
    else:
        best, other = aggregates
        whole = np.array([len(fold) > 1 for fold in found])
        # Folds with both ways tell by how much one is worse; the others judge the better one.
        means[other] = means[best] + float((at_best[other] - at_best[best][whole]).mean())
    return chosen[best]._replace(errors=means)


def _chosen(
    aggregate: str,
    table: FloatArray,
    paths: Sequence[Sequence[PathPoint]],
    grid: FloatArray,
    rule: Rule,
    prefer: Preference,
) -> tuple[Choice, FloatArray]:
    """What folds choose of one way of aggregating, and its errors, one per fold.

    A table of errors is by fold, limit and temper. Its limits are those of the free path, and then
    of what was wished if that is another path: the same again, or one cut.
    """
    wishes, n_free = rule.wishes, grid.size
    n_groups = np.mean([[point.n_groups for point in path] for path in paths], axis=0)
    free, free_temper = prefer(table[:, :n_free], grid, n_groups[:n_free])
    curve, temper, at, price = free, free_temper, free.chosen, None
    if wishes.n_groups is not None and n_free == 1:
        at = n_free  # and nothing to compare it with
    elif wishes:
        first = 0 if table.shape[1] == n_free else n_free
        alone = [k for k, one in enumerate(rule.tempers) if _is_alone(one)] or [0]
        if wishes.tolerance is not None:
            prefer = partial(fewest_readable, tolerance=wishes.tolerance, alone=alone)
        limits = grid if wishes.n_groups is None else np.array([np.inf])
        curve, temper = prefer(table[:, first:], limits, n_groups[first:])
        at = first + curve.chosen
        both = (at, temper), (free.chosen, free_temper)
        own = [table[:, limit, alone] for limit, _ in both]
        own = [errors[:, errors.mean(axis=0).argmin()] for errors in own]
        gap, n_folds = own[0] - own[1], len(table)
        error = float(gap.std(ddof=1) / np.sqrt(n_folds)) if n_folds > 1 else 0.0
        price = Price(
            round(float(n_groups[at])),
            float(own[0].mean()),
            float(own[1].mean()),
            error,
            float(n_groups[free.chosen]),
            float(grid[free.chosen]),
        )
        if len(alone) < table.shape[2]:
            whole, free_whole = (float(table[:, limit, one].mean()) for limit, one in both)
            price = replace(price, whole_error=whole, free_whole_error=free_whole)
    limit, at_best = float(curve.max_loss[curve.chosen]), curve.fold_errors[:, curve.chosen]
    points, free_points = ([path[k] for path in paths] for k in (at, free.chosen))
    known = rule.tempers[temper], curve if wishes.n_groups is None else None
    return Choice(aggregate, limit, *known, {}, points, price, free_points), at_best


def _judge_fold(
    tasks: Tasks,
    rule: Rule,
    fold: tuple[Any, ...],
    limits: Sequence[float],
    aggregates: Sequence[str],
    is_auto: bool,  # joblib passes on what it is given
) -> dict[str, tuple[FloatArray, list[PathPoint]]] | None:
    """Held-out errors of each limit's groups, ``(limits, tempers)``, and these groups."""
    with one_thread(*tasks.shapes):
        divided = tasks.fold(rule, *fold)
        if divided is None:
            return None
        known, asked, kept = divided
        if kept is not None:
            rule = rule.of(np.flatnonzero(kept))
        # Scans whose limit is chosen on folds do not use the order.
        order = np.arange(known.n_tasks) if is_auto else None
        results = {}
        for aggregate in aggregates:
            fits = known.fits(rule, aggregate)
            if max(limits) == -np.inf and not rule.wishes:  # no question is asked
                alone = Partition.singletons(known.n_tasks)
                points = [PathPoint(-np.inf, alone, (-np.inf, -np.inf)) for _ in limits]
            else:
                problem = pose(rule, fits.space(), fits.variance, order)
                free, wished = solve_wishes(problem, limits)
                points = free + wished
            errors = fits.errors(points, asked, rule.tempers)
            results[aggregate] = errors, points
    return results


def _as_far_as_the_path_goes(
    tasks: Tasks, rule: Rule, limits: Sequence[float], folds: Sequence[Any], aggregate: str
) -> Sequence[float] | None:
    """Limits, and those beyond the last finite one among which groups would go on merging.

    They are told by the path of the first fold, whose rows are in the units that merges are judged
    in and less confounds. None if the search was stopped.
    """
    with one_thread(*tasks.shapes), progress.part(AS_A_FOLD), progress.searching("path"):
        divided = tasks.fold(replace(rule, wishes=NO_WISHES), *folds[0])
        if divided is None:
            return limits
        known, _, kept = divided
        free = replace(rule if kept is None else rule.of(np.flatnonzero(kept)), wishes=NO_WISHES)
        fits, order = known.fits(free, aggregate), np.arange(known.n_tasks)
        path = pose(free, fits.space(), fits.variance, order).solve(np.inf)
    found: list[float] = further(np.array(limits, dtype=float), path.loss).tolist()
    return found if path.complete else None


def _is_alone(temper: Any) -> bool:
    """Whether groups serve their members with their own models at a temper."""
    return bool(temper == 0.0 or getattr(temper, "apart", 0.0) == np.inf)


def _compared(errors: dict[str, FloatArray]) -> str:
    """Shared coefficients, unless averaging is better by more than folds scatter."""
    both = zip(errors["pool"], errors["mean"], strict=True)
    saved = -np.diff([without_rounding(np.array(fold)) for fold in both])[:, 0]
    if saved.size == 1:
        return "mean" if saved[0] > 0.0 else "pool"
    error = saved.std(ddof=1) / np.sqrt(saved.size)
    return "mean" if saved.mean() > CLEARLY * error else "pool"


def judge_folds(
    judge: Callable[..., Judged],
    folds: Sequence[tuple[Any, ...]],
    n_jobs: int | None,
    n_variables: int,
    otherwise: str = f"max_loss is {PREFERRED}",
    n_before: int = 0,
    n_folds: int | None = None,
) -> tuple[list[Judged], bool]:
    """Judge folds, given by their arguments, in turn or ``n_jobs`` at once; whether it was stopped.

    They follow upon ``n_before`` others of ``n_folds`` in all.

    Asked to stop, the folds finished by then are all there are; ``otherwise`` is what happens
    without any. Other processes do not hear of it: where progress is reported, folds are sent to
    them in rounds, and the search stops after a round.
    """
    on_device = backend.library_of(backend.named()) not in ("auto", "numpy", "numba")
    at_once = 1 if on_device else min(effective_n_jobs(n_jobs), len(folds))
    size = at_once if at_once == 1 or progress.is_reported() else len(folds)
    judged: list[Judged] = []
    for start in range(0, len(folds), size):
        some = folds[start : start + size]
        at, n_all = n_before + start, n_folds or len(folds)
        stage = f"fold {at + 1} of {n_all}"
        if len(some) > 1:
            stage = f"folds {at + 1} to {at + len(some)} of {n_all}"
        share = len(some) / (n_all - at + FINAL_SCAN)
        with progress.part(share), progress.searching(stage) as (search, _):
            if at_once == 1:
                found = [judge(*some[0])]
            else:
                here = judge, backend.named(), os.getpid() if progress.is_reported() else None
                found = Parallel(n_jobs=n_jobs)(delayed(_judge_there)(*here, fold) for fold in some)
                progress.tick(progress.Counts(n_variables, 0, 0))
        if at_once > 1 or not search.stopped:  # a round is whole, a scan that was stopped is not
            judged += found
        if search.stopped and len(judged) < len(folds):
            warn_that_folds_were_stopped(n_before + len(judged), n_all, otherwise)
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


def warn_that_folds_were_stopped(n_finished: int, n_folds: int, otherwise: str) -> None:
    """Warn on which folds a choice rests that was cut short."""
    chosen = (
        f"the choice is made on the {n_finished} before it"
        if n_finished
        else f"none is finished, and {otherwise}"
    )
    warnings.warn(
        f"The search was stopped in fold {n_finished + 1} of {n_folds}: {chosen}.",
        progress.SearchStopped,
        stacklevel=2,
    )
