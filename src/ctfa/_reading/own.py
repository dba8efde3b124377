"""Tasks with their own data: columns by a layout, rows by ids, and whether these suffice."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from ctfa._errors import InputError, Message, Option
from ctfa._reading.data import FLAT, Sample, may_be_doubtful, read_sample, warn_if_doubtful
from ctfa._reading.numbers import first_of, warn
from ctfa._reading.options import BY_LEAST_SQUARES, BY_RIDGE, called
from ctfa.core.criteria import Criterion
from ctfa.core.design import Design
from ctfa.core.series import NO_COLUMN, Series
from ctfa.core.types import AnyArray, BoolArray, FloatArray, IntArray

#: Tasks whose inputs are looked at together.
TASKS_AT_ONCE = 1000


def read_layout(layout: Any, n_columns: int, n_targets: int, names: Any) -> IntArray:
    """Column of each slot of each target, ``(targets, slots)``, -1 where there is none.

    Columns are given by position, or by name where X has names (None or NaN, too, for a slot
    that a target does not have).
    """
    try:
        table = np.asarray(layout)
    except ValueError as error:
        raise InputError(
            "layout has rows of different lengths: give every target as many slots, with -1 for "
            "one that it does not have."
        ) from error
    if table.ndim != 2 or not table.size:
        kind = f"is of type {type(layout).__name__}" if table.ndim == 0 else ""
        raise InputError(
            f"layout {kind or f'has shape {table.shape}'}: give a table of columns, one row for "
            "each target and one column for each slot (ctfa.multi_input_layout makes one from an "
            "array)."
        )
    if table.shape[0] != n_targets:
        raise InputError(
            f"layout has {table.shape[0]} rows but y has {n_targets} columns: give one row for "
            "each target."
        )
    if table.dtype.kind in "OUS":
        # numpy turns a list of names and numbers into text.
        table = _filled(np.array(layout, dtype=object))
    positions = _named(table, names) if table.dtype.kind == "O" else table
    whole = np.asarray(positions, dtype=float)
    whole = np.where(np.isnan(whole), NO_COLUMN, whole)
    is_whole = np.isfinite(whole) & (whole == np.round(whole))
    if table.dtype.kind == "b" or not is_whole.all():
        raise InputError("layout must hold whole numbers, the positions of columns of X.")
    columns = whole.astype(np.intp)
    if columns.min() < NO_COLUMN or columns.max() >= n_columns:
        wrong = columns.min() if columns.min() < NO_COLUMN else columns.max()
        raise InputError(
            f"layout names column {wrong} but X has {n_columns} columns: use 0 to {n_columns - 1}, "
            "or -1 for a slot that a target does not have."
        )
    empty = np.flatnonzero((columns == NO_COLUMN).all(axis=1))
    if empty.size:
        raise InputError(
            f"layout gives target {int(empty[0])} no column at all: every target needs an input."
        )
    ordered = np.sort(columns, axis=1)
    twice = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    repeated = np.flatnonzero(twice.any(axis=1)).tolist()
    if repeated:
        raise InputError(
            f"layout gives target {repeated[0]} a column twice: a column fills one slot of a "
            "target (it may serve several targets)."
        )
    return columns


def refuse_for_own_inputs(aggregator: Any, aggregate: str, criterion: Criterion) -> None:
    """Refuse options of a TargetAggregator that targets with inputs of their own do not have."""
    if aggregator.flip:
        raise InputError("flip=True is for targets that share their inputs: use flip=False.")
    if aggregator.guard is not None:
        raise InputError(
            f"guard={aggregator.guard!r} is for targets that share their inputs: use guard=None; "
            "merges_ names the members that are predicted to lose."
        )
    if aggregate == "pool" and criterion.for_means:
        raise InputError(
            f"criterion={aggregator.criterion!r} is a rule for means: use ",
            Option("aggregate", "mean"),
            ", or criterion='risk'.",
        )
    if aggregate == "pool" and aggregator.scale == "none":
        raise InputError(
            "scale='none' is the paper's predictor, which averages: use ",
            Option("aggregate", "mean"),
            ", or scale='center' (one intercept for each target).",
        )


def require_series(
    series: Series, names: Sequence[str], *, fewest: int | None, where: str = ""
) -> None:
    """Refuse tasks that cannot be fitted; ``fewest`` rows more than inputs, None for penalised.

    ``where`` names the rows if they are not all: "the training rows of fold 2 of cv".
    """
    inputs = series.has.sum(axis=1)
    none = np.flatnonzero(inputs == 0)
    if none.size:
        raise InputError(
            f"target {names[int(none[0])]!r} has no input with a single value: every target needs "
            "one."
        )
    place = f"in {where} " if where else ""
    unseen = np.flatnonzero(np.isnan(series.values[:, -1]).all(axis=1))
    if unseen.size:
        folds = "use another cv, or " if where else ""
        raise InputError(
            f"{place}target {first_of(unseen, names)} is never observed (all NaN), and there is "
            f"nothing to learn from: {folds}leave it out, of y and of the layout."
        )
    rows, needed = _rows_of(series, fewest)
    short = np.flatnonzero(rows < needed)
    if not short.size:
        return
    task = int(short[0])
    way_out = Message("longer series")
    if fewest is not None:
        # Two rows are what ridge regression needs, too.
        ridge = ("targets=", BY_RIDGE, ", ") if rows[task] > 1 else ()
        way_out = Message(*ridge, "fewer inputs or longer series")
    folds = "another cv, " if where else ""
    count = "1 row" if rows[task] == 1 else f"{rows[task]} rows"
    raise InputError(
        f"{place}target {first_of(short, names)} has {count} in which it and its "
        f"{inputs[task]} inputs are all observed, and {needed[task]} are needed: use {folds}",
        way_out,
        ", or leave it out.",
    )


def warn_if_own_inputs_are_doubtful(series: Series, names: Sequence[str]) -> None:
    """Warn when rounding of some target's inputs could decide, and name the first."""
    if series.counts is not None:  # for sums the warning was given
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
    rows, needed = _rows_of(series, fewest)
    return bool((rows >= needed).all())


def complete_rows(series: Series) -> BoolArray:
    """Rows in which a task has all its inputs and its target, ``(tasks, rows)``."""
    complete = ~np.isnan(series.values[:, -1])
    for slot in range(series.n_slots):
        complete &= ~np.isnan(series.values[:, slot]) | ~series.has[:, slot, None]
    if series.weights is not None:
        complete &= series.weights > 0.0
    return complete


def _rows_of(series: Series, fewest: int | None) -> tuple[IntArray, IntArray]:
    """Complete rows of each task, or how many they stand for, and how many its fit needs.

    These are ``fewest`` more than inputs, None for penalised fits; and what confounds use up,
    with gaps, too, where fits do not count it.
    """
    each = np.ones(series.n_rows) if series.counts is None else series.counts
    rows = np.asarray(np.round(complete_rows(series) @ each), dtype=np.intp)
    needed = np.full(rows.size, 2) if fewest is None else series.has.sum(axis=1) + fewest
    factored = series.factored_confounds
    return rows, needed + (0 if factored is None else factored.rank)


def warn_if_unpredictable(predicted: FloatArray, names: Sequence[str]) -> None:
    """Warn how many predictions could not be made."""
    gaps = np.isnan(predicted)
    if not gaps.any():
        return
    first = int(np.flatnonzero(gaps.any(axis=0))[0])
    warn(
        f"{int(gaps.sum())} of {gaps.size} predictions are NaN because inputs are missing in those "
        f"rows (first for target {names[first]!r})."
    )


def warn_if_series_are_short(series: Series, names: Sequence[str], fewest: int) -> None:
    """Warn that some target has too few rows for least squares, and what is used instead."""
    rows, needed = _rows_of(series, fewest)
    short = np.flatnonzero(rows < needed)
    task, n_inputs = int(short[0]), int(series.has[short[0]].sum())
    warn(
        f"target {first_of(short, names)} has {rows[task]} rows in which it and its {n_inputs} "
        "inputs are all observed: least squares leaves too few degrees of freedom for the noise. "
        "Ridge regression is used in its place, with penalties by generalised cross-validation."
    )


def warn_if_own_folds_are_short(fold: int, chosen: Mapping[Option, Option]) -> None:
    """Warn that nothing can be chosen on folds, and what is used for each option."""
    what = [piece for option in chosen for piece in (" and ", option)][1:]
    used = [piece for option in chosen.values() for piece in (" and ", option)][1:]
    if not chosen:
        what = ["the shrinkage of ", Option("head", "levels")]
        used = ["all that was found of it"]
    warn(
        *what,
        f" cannot be chosen: the training rows of fold {fold} are too few for some target. ",
        *used,
        " is used; give it, or use longer folds, fewer inputs or ",
        BY_RIDGE,
        ".",
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
        raise InputError(
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
            raise InputError(f"layout names column {name!r}, which X does not have.")
        found[place] = position[key]
    return found


class TaskIds(NamedTuple):
    """Ids in order, and the position of each row's task among them."""

    ids: list[Any]
    of_row: IntArray


def is_column(tasks: Any) -> bool:
    """Whether the tasks are a column of X, by name or by position."""
    return isinstance(tasks, (str, Integral)) and not isinstance(tasks, bool)


def take_column(X: Any, tasks: Any) -> tuple[Any, Any]:
    """Separate the ids from the features of one table."""
    labels = getattr(X, "columns", None)
    if labels is not None:
        if tasks in list(labels):
            return X.drop(columns=[tasks]) if hasattr(X, "iloc") else X.drop(tasks), X[tasks]
    elif isinstance(tasks, Integral):
        table = np.asarray(X)
        if table.ndim == 2 and -table.shape[1] <= int(tasks) < table.shape[1]:
            return np.delete(table, int(tasks), axis=1), table[:, int(tasks)]
    raise InputError(
        f"tasks={tasks!r} is not a column of X: pass one id for each row of X (tasks=[{tasks!r}] "
        "for a single row), the name of a column of a data frame, or the position of a column of "
        "an array."
    )


def require_not_one_id(X: Any, tasks: Any, n_features: int) -> None:
    """Refuse the id of a single row, taken for a column: X has then lost one of its features."""
    if is_column(tasks) and X.shape[1] == n_features - 1:
        raise InputError(
            f"tasks={tasks!r} is taken for a column of X, which leaves {n_features - 1} features "
            f"where fit has seen {n_features}: pass one id for each row, tasks=[{tasks!r}] for a "
            "single row."
        )


def read_task_sample(
    estimator: Any, X: Any, tasks: Any, sample_weight: Any, *, gaps: bool = False
) -> Sample:
    """Features and weights of a fit; ids that were left among the features are pointed out."""
    try:
        return read_sample(estimator, X, sample_weight, gaps=gaps)
    except (TypeError, ValueError) as error:
        name = _column_of_ids(X, tasks)
        if name is None:
            raise
        raise InputError(
            f"column {name!r} of X holds the ids of the tasks, which are not numbers: pass "
            f"tasks={name!r}, or drop it from X."
        ) from error


def _column_of_ids(X: Any, tasks: Any) -> Any:
    """Name of a column of text that holds the ids themselves; None without one."""
    as_list = getattr(tasks, "tolist", None) or getattr(tasks, "to_list", None)
    ids = as_list() if as_list is not None else tasks
    if not hasattr(X, "columns") or not isinstance(ids, list):
        return None
    if not any(isinstance(task, str) for task in ids):
        return None
    return next((name for name in X.columns if X[name].to_list() == ids), None)


def read_ids(tasks: Any, n_rows: int | None, start: int = 0) -> list[Any]:
    """One id for each row, of any hashable kind; of a chunk that starts with a row of all."""
    if tasks is None:
        raise TypeError(
            "PooledCTFARegressor needs the task of each row: pass tasks=, one id for each "
            "row of X, or the name of a column of X that holds them (in a search: "
            "set_fit_request(tasks=True), set_score_request(tasks=True) and so on, with "
            "sklearn.set_config(enable_metadata_routing=True))."
        )
    if isinstance(tasks, bytes) or not isinstance(tasks, Iterable):
        raise TypeError(f"tasks={tasks!r} is not a list of ids: pass one id for each row of X.")
    shape = getattr(tasks, "shape", None)
    if shape is not None and len(shape) == 2 and shape[1] == 1:
        tasks = np.asarray(tasks).reshape(-1)
    elif shape is not None and len(shape) != 1:
        raise InputError(
            f"tasks has shape {tuple(shape)}: pass one id for each row of X, in one dimension."
        )
    as_list = getattr(tasks, "tolist", None) or getattr(tasks, "to_list", None)
    ids = list(tasks) if as_list is None else as_list()
    if n_rows is not None and len(ids) != n_rows:
        raise InputError(
            f"tasks has {len(ids)} ids but X has {n_rows} rows: pass one id for each row."
        )
    for row, task in enumerate(ids, start):
        if not isinstance(task, Hashable):
            raise TypeError(
                f"the task of row {row}, {task!r}, cannot be used as an id: pass numbers, strings "
                "or other values that can be compared for equality."
            )
        if _is_missing(task):
            raise InputError(
                f"the task of row {row} is missing ({task!r}): give every row an id, or drop those "
                "rows."
            )
    return ids


def read_tasks(tasks: Any, n_rows: int, used: BoolArray | None, *, least: int = 2) -> TaskIds:
    """Tasks of a fit, of the rows used, in the order of their ids."""
    ids = read_ids(tasks, n_rows)
    if used is not None:
        ids = [task for task, counts in zip(ids, used.tolist(), strict=True) if counts]
    known = order_ids(set(ids), least=least)
    position = {task: number for number, task in enumerate(known)}
    return TaskIds(known, np.array([position[task] for task in ids], dtype=np.intp))


def order_ids(ids: Iterable[Any], *, least: int = 2) -> list[Any]:
    """Ids of tasks in order; refused where they are too few to merge."""
    listed = list(ids)
    try:
        known = sorted(listed)
    except TypeError:  # of several kinds, which have no order of their own
        known = sorted(listed, key=lambda task: (type(task).__name__, repr(task)))
    if len(known) < least:
        raise InputError(
            f"tasks holds a single id ({known[0]!r}), and there is nothing to merge: pass the ids "
            "of two tasks or more, or fit the regressor by itself."
        )
    return known


def as_ids(ids: Sequence[Any]) -> AnyArray:
    """Ids as an array, of objects unless they are all numbers or all strings."""
    kinds = {type(task) for task in ids}
    if len(kinds) == 1 and kinds <= {int, float, str, bool}:
        return np.array(ids)
    # Filled, not converted: ids that are tuples would become a table.
    array = np.empty(len(ids), dtype=object)
    array[:] = list(ids)
    return array


def refuse_intervals_of_strangers(unseen: Sequence[Any]) -> None:
    """Refuse intervals of tasks that fit has not seen."""
    raise InputError(
        f"tasks that fit has not seen have no intervals: {_some(unseen)}. The errors of their "
        "levels are not known; leave them out, or use predict."
    )


def require_seen(unseen: Sequence[Any], ids: Sequence[Any]) -> None:
    """Refuse tasks that fit has not seen."""
    if not unseen:
        return
    # The number 1 is not the text '1': those that look the same are shown first.
    looks = set(map(str, unseen))
    known = sorted(ids, key=lambda task: str(task) not in looks)
    such_as = ", ".join(map(repr, known[:3]))
    raise InputError(
        f"tasks that fit has not seen: {_some(unseen)} (it has seen {len(ids)}, such as "
        f"{such_as}). Use unseen='global' for a model of all tasks together or unseen='nearest' "
        "for the group with the most similar inputs, or fit again with rows of these tasks."
    )


def _some(ids: Sequence[Any]) -> str:
    """The first ids, and how many more there are."""
    more = f" and {len(ids) - 6} more" if len(ids) > 6 else ""
    return ", ".join(map(repr, ids[:6])) + more


def require_varying_within(within: FloatArray, target: FloatArray) -> None:
    """Refuse a target that does not vary within any task, up to rounding."""
    if np.abs(within).max() <= FLAT * np.abs(target).max():
        raise InputError(
            "y is constant within every task, so there are no slopes to learn: pass tasks of two "
            "rows or more whose targets vary, or use one model without tasks."
        )


def warn_if_slopes_are_doubtful(
    inputs: FloatArray, within: FloatArray, weights: FloatArray | None
) -> None:
    """Warn when rounding of inputs could decide; ``within``: they are about the means of tasks."""
    if may_be_doubtful(within[None]).any():
        # At their own level: numbers are as exact as given.
        design = Design.of(within + inputs.mean(axis=0), weights)
        warn_if_doubtful([design], "X within tasks")


def read_task(task: Any, ids: Sequence[Any]) -> int:
    """Position of a task given by its id."""
    for position, known in enumerate(ids):
        if known == task or str(known) == task:
            return position
    raise InputError(f"task {task!r} is not one of the {len(ids)} of fit: use one of {_some(ids)}.")


def refuse_option(option: str, given: Any, why: str, instead: str) -> None:
    """Refuse an option of Phase I that has no meaning for tasks with rows of their own."""
    raise InputError(f"{option}={called(given)} {why} in PooledCTFARegressor: {instead}.")


def read_fold_count(cv: Any, longest: int) -> int:
    """Into how many folds the rows of each task are dealt; some task must have two of them."""
    if isinstance(cv, bool) or int(cv) < 2:
        raise InputError(f"cv={cv!r} gives no folds: use two or more.")
    if longest < 2:
        raise InputError(
            Option("max_loss", "auto"),
            " needs rows to judge by, and no task has two: give max_loss as a number (1.5 suits "
            "most data).",
        )
    return int(cv)


def require_judged(n_judged: int, cv: Any) -> None:
    """Refuse folds in which no task has rows on both sides."""
    if not n_judged:
        raise InputError(
            f"cv={cv!r} leaves no task with rows both to train on and to judge by: use folds that "
            "divide the rows of each task, such as an integer, and not ones that leave out whole "
            "tasks; or give max_loss as a number."
        )


def require_few_told(n_rows: int, n_tasks: int, most: int) -> None:
    """Refuse to keep what the model of every task says of every row, where that is too much."""
    if n_rows * n_tasks > most:
        raise InputError(
            f"{n_tasks} tasks with {n_rows} rows together are too many for a regressor that is "
            f"fitted to judge merges: what the model of each task says of each row would be "
            f"{n_rows * n_tasks} numbers, and {most} are the most that are kept. Judge by ",
            BY_LEAST_SQUARES,
            ", which keeps none of them; the regressor is then fitted once per group.",
        )


def warn_of_tasks_without_models(n_lost: int, n_tasks: int, regressor: Any) -> None:
    """Warn that some tasks have too few rows for a regressor to be fitted to them."""
    if n_lost:
        warn(
            f"{n_lost} of {n_tasks} tasks have too few rows for {called(regressor)} to be fitted "
            "without a fold: they are judged by their level, or by the models of a group that they "
            "join."
        )


def refuse_weights_of_gaps(judge: Any) -> None:
    """Refuse target weights where a refitted regressor judges targets with gaps."""
    raise InputError(
        f"target_weight was given, and {called(judge)} gives all targets with gaps the same "
        "weight: leave the weights out, or judge by ",
        BY_LEAST_SQUARES,
        ".",
    )
