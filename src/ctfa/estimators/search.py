"""One search for what held-out rows choose: a limit, a way of aggregating, a temper."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from ctfa import _validation as check
from ctfa._progress import leave_interrupts_to
from ctfa._threads import one_thread
from ctfa.core import backend, progress
from ctfa.core.cut import GRID, PREFERRED, CutCurve, without_rounding
from ctfa.core.tasks.base import Rule, Tasks
from ctfa.core.types import FloatArray
from ctfa.estimators.merging import pose, solve_path

Judged = TypeVar("Judged")
#: From a curve with its smallest error chosen to the curve with the limit to be used.
Preference = Callable[[CutCurve], CutCurve]

#: Limits tried by ``max_loss="auto"``.
LIMITS = tuple(GRID.tolist())
#: Paired standard errors by which averaging must beat shared coefficients to be preferred.
CLEARLY = 2.0


class Choice(NamedTuple):
    """What held-out rows chose."""

    aggregate: str
    max_loss: float
    temper: float
    curve: CutCurve | None
    errors: dict[str, float]  # held-out error of the best of each way of aggregating


def nearest_to_theory(n_tasks: int) -> Preference:
    """Of the limits about as good as the best, the one nearest to ``1.5 - 1/L``.

    With two targets one question is asked, nothing is searched, and break-even is what it says.
    """
    preferred = PREFERRED - 1.0 / n_tasks
    return lambda curve: CutCurve.of(curve.max_loss, curve.fold_errors, curve.n_groups, preferred)


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

    Groups are found again from the training rows of each fold, and so are units and what a baseline
    says. ``folds`` are arguments of ``tasks.fold``; ``limits`` that are not given are those of
    ``max_loss="auto"``. Asked to stop, the folds finished by then decide; None if there are none.
    """
    is_auto = limits is None
    limits = LIMITS if limits is None else limits
    each = [(tasks, rule, fold, limits, aggregates, is_auto) for fold in folds]
    judged, stopped = judge_folds(_judge_fold, each, n_jobs, tasks.n_tasks)
    found = [fold for fold in judged if fold is not None]
    if not found:
        if not stopped:
            check.require_judged(0, cv)
        return None
    grid, n_tempers = np.array(limits, dtype=float), len(rule.tempers)
    chosen, at_best = {}, {}
    for aggregate in aggregates:
        errors, counts = zip(*(fold[aggregate] for fold in found), strict=True)
        table, n_groups = np.array(errors), np.mean(counts, axis=0)  # table: fold, limit, temper
        # The temper of the smallest error, and the limit that is preferred there.
        all_errors = table.reshape(len(table), -1)
        flat = CutCurve(grid.repeat(n_tempers), all_errors, n_groups.repeat(n_tempers), -1)
        best_limit, temper = divmod(flat.best, n_tempers)
        curve = prefer(CutCurve(grid, table[:, :, temper], n_groups, best_limit))
        limit, at_best[aggregate] = curve.max_loss[curve.chosen], curve.fold_errors[:, curve.chosen]
        chosen[aggregate] = Choice(aggregate, float(limit), rule.tempers[temper], curve, {})
    best = aggregates[0] if len(aggregates) == 1 else _compared(at_best)
    means = {name: float(errors.mean()) for name, errors in at_best.items()}
    return chosen[best]._replace(errors=means)


def _judge_fold(
    tasks: Tasks,
    rule: Rule,
    fold: tuple[Any, ...],
    limits: Sequence[float],
    aggregates: Sequence[str],
    is_auto: bool,  # joblib passes on what it is given
) -> dict[str, tuple[FloatArray, list[int]]] | None:
    """Held-out errors of each limit's groups, ``(limits, tempers)``, and how many they are."""
    with one_thread(*tasks.shapes):
        divided = tasks.fold(rule, *fold)
        if divided is None:
            return None
        known, asked, kept = divided
        if kept is not None and rule.graph is not None:
            rule = replace(rule, graph=rule.graph[kept][:, kept])
        # Scans whose limit is chosen on folds do not look at the order.
        order = np.arange(known.n_tasks) if is_auto else None
        results = {}
        for aggregate in aggregates:
            fits = known.fits(rule, aggregate)
            points = solve_path(pose(rule, fits.space(), fits.variance, order), limits)
            errors = fits.errors(points, asked, rule.tempers)
            results[aggregate] = errors, [point.partition.n_groups for point in points]
    return results


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
        stage = f"fold {start + 1} of {len(folds)}"
        if len(some) > 1:
            stage = f"folds {start + 1} to {start + len(some)} of {len(folds)}"
        with progress.searching(stage) as (search, _):
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
