"""Layouts: which columns of X belong to which target, and whether that is enough to go by."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np

from ctfa._validation.options import either
from ctfa._validation.sufficiency import may_be_doubtful, warn_if_doubtful
from ctfa.core.criteria import TARGET_CRITERIA, Criterion
from ctfa.core.design import Design
from ctfa.core.series import NO_COLUMN, Series
from ctfa.core.types import BoolArray, FloatArray, IntArray

#: Tasks whose inputs are looked at together.
TASKS_AT_ONCE = 1000


def read_layout(layout: Any, n_columns: int, n_targets: int, names: Any) -> IntArray:
    """Column of each slot of each target, ``(targets, slots)``, -1 where there is none.

    Columns are given by position, or by name where X has names (None or NaN, too, for a slot that a
    target has not).
    """
    try:
        table = np.asarray(layout)
    except ValueError as error:
        raise ValueError(
            "layout has rows of different lengths: give every target as many slots, with -1 for "
            "one that it does not have."
        ) from error
    if table.ndim == 0:
        raise ValueError(
            f"layout is of type {type(layout).__name__}: give a table of columns, one row for each "
            "target and one column for each slot (ctfa.multi_input_layout makes one from an array)."
        )
    if table.ndim != 2 or not table.size:
        raise ValueError(
            f"layout has shape {table.shape}: give a table of columns, one row for each target and "
            "one column for each slot (ctfa.multi_input_layout makes one from an array)."
        )
    if table.shape[0] != n_targets:
        raise ValueError(
            f"layout has {table.shape[0]} rows but y has {n_targets} columns: give one row for "
            "each target."
        )
    if table.dtype.kind in "OUS":
        # From a list of names and numbers numpy makes text of all.
        table = _filled(np.array(layout, dtype=object))
    positions = _named(table, names) if table.dtype.kind == "O" else table
    whole = np.asarray(positions, dtype=float)
    whole = np.where(np.isnan(whole), NO_COLUMN, whole)
    is_whole = np.isfinite(whole) & (whole == np.round(whole))
    if table.dtype.kind == "b" or not is_whole.all():
        raise ValueError("layout must hold whole numbers, the positions of columns of X.")
    columns = whole.astype(np.intp)
    if columns.min() < NO_COLUMN or columns.max() >= n_columns:
        wrong = columns.min() if columns.min() < NO_COLUMN else columns.max()
        raise ValueError(
            f"layout names column {wrong} but X has {n_columns} columns: use 0 to {n_columns - 1}, "
            "or -1 for a slot that a target does not have."
        )
    empty = np.flatnonzero((columns == NO_COLUMN).all(axis=1))
    if empty.size:
        raise ValueError(
            f"layout gives target {int(empty[0])} no column at all: every target needs an input."
        )
    ordered = np.sort(columns, axis=1)
    twice = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    repeated = np.flatnonzero(twice.any(axis=1)).tolist()
    if repeated:
        raise ValueError(
            f"layout gives target {repeated[0]} a column twice: a column fills one slot of a "
            "target (it may serve several targets)."
        )
    return columns


def refuse_for_own_inputs(aggregator: Any, aggregate: str, criterion: Criterion) -> None:
    """Refuse options of a TargetAggregator that targets with inputs of their own do not have."""
    if aggregator.flip:
        raise ValueError("flip=True is for targets that share their inputs: use flip=False.")
    if aggregator.guard is not None:
        raise ValueError(
            f"guard={aggregator.guard!r} is for targets that share their inputs: use guard=None; "
            "merges_ names the members that are predicted to lose."
        )
    if aggregate != "mean" and criterion.for_means:
        raise ValueError(
            f"criterion={aggregator.criterion!r} is a rule for means: use aggregate='mean', or "
            "criterion='risk'."
        )
    if aggregate != "mean" and aggregator.scale == "none":
        raise ValueError(
            "scale='none' is the paper's predictor, which averages: use aggregate='mean', or "
            "scale='center' (one intercept for each target)."
        )
    if aggregator.solver == "ridge" and criterion.ridge_loss is None:
        raise ValueError(
            f"solver='ridge' goes with criterion={either(TARGET_CRITERIA, 'ridge_loss')} and not "
            f"with {aggregator.criterion!r}."
        )


def require_series(
    series: Series, names: Sequence[str], *, fewest: int | None, where: str = ""
) -> None:
    """Refuse tasks that cannot be fitted; ``fewest`` rows more than inputs, None for penalised.

    ``where`` names the rows if they are not all: "the training rows of fold 2 of cv".
    """
    rows = _count(series)
    inputs = series.has.sum(axis=1)
    _require_inputs(inputs, names)
    _require_any_value(series, names, where)
    spent = _spent_on_baseline(series)
    needed = np.full(rows.size, 2 + spent) if fewest is None else inputs + fewest + spent
    short = np.flatnonzero(rows < needed)
    if not short.size:
        return
    task = int(short[0])
    others = "" if short.size == 1 else f" (and {short.size - 1} more)"
    way_out = "longer series"
    if fewest is not None:
        # Two rows are what ridge regression needs, too.
        ridge = "targets=TargetAggregator(solver='ridge'), " if rows[task] > 1 else ""
        way_out = f"{ridge}fewer inputs or longer series"
    folds = "another cv, " if where else ""
    count = "1 row" if rows[task] == 1 else f"{rows[task]} rows"
    raise ValueError(
        f"{_in(where)}target {names[task]!r}{others} has {count} in which it and its "
        f"{inputs[task]} inputs are all observed, and {needed[task]} are needed: use {folds}"
        f"{way_out}, or leave it out."
    )


def warn_if_own_inputs_are_doubtful(series: Series, names: Sequence[str]) -> None:
    """Say when rounding of some target's inputs could decide, and name the first."""
    if series.counts is not None:  # of sums it has been said
        return
    for start in range(0, series.n_tasks, TASKS_AT_ONCE):
        part = series.values[start : start + TASKS_AT_ONCE, :-1]
        gaps = np.isnan(part) | ~series.has[start : start + TASKS_AT_ONCE, :, None]
        known = np.where(gaps, 0.0, part)
        seen = np.maximum((~gaps).sum(axis=2, keepdims=True), 1)
        known -= np.where(gaps, 0.0, known.sum(axis=2, keepdims=True) / seen)
        for task in np.flatnonzero(may_be_doubtful(known.swapaxes(1, 2))).tolist():
            rows = part[task][series.has[start + task]].T
            design = Design.of(rows[~np.isnan(rows).any(axis=1)])
            if design.is_doubtful:
                warn_if_doubtful([design], f"the inputs of target {names[start + task]!r}: X")
                return


def enough_rows(series: Series, fewest: int | None) -> bool:
    """Whether every task has as many complete rows as its fit needs."""
    rows = _count(series)
    needed = 2 if fewest is None else series.has.sum(axis=1) + fewest
    return bool((rows >= needed + _spent_on_baseline(series)).all())


def _spent_on_baseline(series: Series) -> int:
    """Rows that a baseline uses up: with gaps, too, where fits do not count them."""
    factored = series.factored_baseline
    return 0 if factored is None else factored.rank


def complete_rows(series: Series) -> BoolArray:
    """Rows in which a task has all its inputs and its target, ``(tasks, rows)``."""
    complete = ~np.isnan(series.values[:, -1])
    for slot in range(series.n_slots):
        complete &= ~np.isnan(series.values[:, slot]) | ~series.has[:, slot, None]
    if series.weights is not None:
        complete &= series.weights > 0.0
    return complete


def _count(series: Series) -> IntArray:
    """Complete rows of each task, or how many they stand for."""
    complete = complete_rows(series)
    each = np.ones(series.n_rows) if series.counts is None else series.counts
    return np.asarray(np.round(complete @ each), dtype=np.intp)


def warn_if_unpredictable(predicted: FloatArray, names: Sequence[str]) -> None:
    """Say how many predictions could not be made."""
    gaps = np.isnan(predicted)
    if not gaps.any():
        return
    first = int(np.flatnonzero(gaps.any(axis=0))[0])
    warnings.warn(
        f"{int(gaps.sum())} of {gaps.size} predictions are NaN because inputs are missing in those "
        f"rows (first for target {names[first]!r}).",
        RuntimeWarning,
        stacklevel=3,
    )


def warn_if_series_are_short(series: Series, names: Sequence[str], fewest: int) -> None:
    """Say that some target has too few rows for least squares, and what is used in its place."""
    rows, inputs = _count(series), series.has.sum(axis=1)
    short = np.flatnonzero(rows < inputs + fewest + _spent_on_baseline(series))
    task, more = int(short[0]), "" if short.size == 1 else f" (and {short.size - 1} more)"
    warnings.warn(
        f"target {names[task]!r}{more} has {rows[task]} rows in which it and its {inputs[task]} "
        "inputs are all observed: least squares leaves too few degrees of freedom for the noise. "
        "Ridge regression is used in its place, with penalties by generalised cross-validation.",
        RuntimeWarning,
        stacklevel=4,
    )


def warn_if_own_folds_are_short(fold: int, chosen: dict[str, str]) -> None:
    """Say that nothing can be chosen on folds, and what is used: option by option, in words."""
    warnings.warn(
        f"{' and '.join(chosen)} cannot be chosen: the training rows of fold {fold} are too few "
        f"for some target. {' and '.join(chosen.values())} is used; give it, or use longer folds, "
        "fewer inputs or solver='ridge'.",
        RuntimeWarning,
        stacklevel=4,
    )


def _filled(table: Any) -> Any:
    """Objects with -1 for what is missing; numbers, where that leaves nothing else."""
    filled = table.copy()
    for place, entry in np.ndenumerate(table):
        if _is_missing(entry):
            filled[place] = NO_COLUMN
    numbers = all(isinstance(entry, Real) and not isinstance(entry, bool) for entry in filled.flat)
    return filled.astype(float) if numbers else filled


def _is_missing(entry: Any) -> bool:
    # pandas' NA refuses to be compared.
    if entry is None or type(entry).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(entry, (float, np.floating)) and bool(np.isnan(entry))


def _named(table: Any, names: Any) -> Any:
    """Positions of columns given by name."""
    if names is None:
        raise ValueError(
            "layout holds names but X has none: pass X as a data frame whose columns are all named "
            "by text, or positions of columns."
        )
    position: dict[Any, int] = {name: number for number, name in enumerate(names)}
    found = np.full(table.shape, NO_COLUMN)
    for place, name in np.ndenumerate(table):
        if name == NO_COLUMN or (name == str(NO_COLUMN) and name not in position):
            continue
        key = name if name in position else str(name)
        if key not in position:
            raise ValueError(f"layout names column {name!r}, which X does not have.")
        found[place] = position[key]
    return found


def _in(where: str) -> str:
    return f"in {where} " if where else ""


def _require_any_value(series: Series, names: Sequence[str], where: str) -> None:
    unseen = np.flatnonzero(np.isnan(series.values[:, -1]).all(axis=1))
    if unseen.size:
        more = f" (and {unseen.size - 1} more)" if unseen.size > 1 else ""
        folds = "use another cv, or " if where else ""
        raise ValueError(
            f"{_in(where)}target {names[int(unseen[0])]!r}{more} is never observed (all NaN), and "
            f"there is nothing to learn from: {folds}leave it out, of y and of the layout."
        )


def _require_inputs(inputs: IntArray, names: Sequence[str]) -> None:
    none = np.flatnonzero(inputs == 0)
    if none.size:
        raise ValueError(
            f"target {names[int(none[0])]!r} has no input with a single value: every target needs "
            "one."
        )
