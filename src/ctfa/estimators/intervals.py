"""Intervals of fitted models: what they are calibrated on, and checks of requests."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from numbers import Integral
from typing import Any

import numpy as np

from ctfa import _reading as check
from ctfa.core.calibration import NORMAL, Calibration, Errors, calibrated
from ctfa.core.tasks.own_rows import TaskRows
from ctfa.core.types import FloatArray, IntArray
from ctfa.estimators.refits import Split

#: Held-out rows, and predictions of them by a model that was fitted to the others.
Told = tuple[IntArray, FloatArray]

#: Largest number of folds that serve intervals alone.
MOST_BLOCKS = 5
#: Largest number of errors that are looked at one by one, of rows that others stand in for.
MOST_ENTRIES = 200_000
#: Whether intervals will be asked of the models that are fitted now.
_asked: ContextVar[bool] = ContextVar("ctfa_intervals", default=True)
#: What intervals are calibrated on, in words.
HELD_OUT = "held-out blocks of rows"
MOMENTS = "the moments of held-out blocks, as if errors were Gaussian"
IN_SAMPLE = "the moments of the rows of fit, as if errors were Gaussian"


@contextmanager
def without_intervals() -> Iterator[None]:
    """Fit models for their groups or predictions alone: folds for intervals cost as much again."""
    token = _asked.set(False)
    try:
        yield
    finally:
        _asked.reset(token)


def are_asked() -> bool:
    """Whether fits calibrate their intervals."""
    return _asked.get()


def calibrated_on_tables(
    sample: check.Sample,
    values: FloatArray,
    labels: IntArray,
    told: Sequence[Told],
    layout: IntArray | None = None,
) -> Calibration | None:
    """Intervals of targets that share their rows."""
    rows, fold = _rows_and_folds(told)
    predicted = np.concatenate([said for _, said in told])
    weight = None if sample.weights is None else sample.weights[rows]
    errors = _errors_of(values[rows], predicted, fold, weight)
    if sample.counts is not None:
        return calibrated(errors, labels, MOMENTS)
    confounds = None if sample.confounds is None else sample.confounds[rows]
    return calibrated(errors, labels, HELD_OUT, sample.inputs[rows], confounds, layout)


def calibrated_on_rows(
    rows: TaskRows, labels: IntArray, told: Sequence[Told]
) -> Calibration | None:
    """The same of tasks that have rows of their own."""
    at, fold = _rows_and_folds(told)
    predicted = np.concatenate([said for _, said in told])
    weight = None if rows.weights is None else rows.weights[at]
    error, every = rows.target[at] - predicted, np.arange(at.size)
    errors = Errors(error, predicted, rows.index[at], every, fold, weight)
    if rows.counts is not None:
        return calibrated(errors, labels, MOMENTS)
    return calibrated(errors, labels, HELD_OUT, rows.inputs[at])


def _rows_and_folds(told: Sequence[Told]) -> tuple[IntArray, IntArray]:
    """A row that several folds hold out counts once per fold."""
    rows = [one for one, _ in told]
    return np.concatenate(rows), np.repeat(np.arange(len(rows)), [one.size for one in rows])


def _errors_of(
    true: FloatArray, predicted: FloatArray, fold: IntArray, weight: FloatArray | None
) -> Errors:
    """Of tables ``(rows, L)``; folds and weights are of the rows."""
    row, target = (at.ravel() for at in np.indices(true.shape))
    weight = None if weight is None else weight[row]
    error = (true - predicted).ravel()
    return Errors(error, predicted.ravel(), target, row, fold[row], weight)


def some_rows(sample: check.Sample, values: FloatArray) -> tuple[check.Sample, FloatArray]:
    """Rows from first to last, few enough to look at their errors one by one."""
    step = -(-values.size // MOST_ENTRIES)
    rows = np.arange(0, len(values), step)
    return sample.take(rows), values[rows]


def calibrated_by_some(
    moments: Calibration | None,
    some: tuple[check.Sample, FloatArray] | None,
    labels: IntArray,
    ask: Callable[..., FloatArray],
) -> Calibration | None:
    """Errors of rows of fit, made as large as those that moments of held-out rows tell of.

    Where rows are so many that others stand in for them, errors have their form in either.
    """
    if moments is None or some is None:
        return moments
    sample, values = some
    predicted = ask(sample.inputs, sample.confounds)
    size = np.sqrt(np.nanmean((values - predicted) ** 2, axis=0))
    wider = moments.scale / NORMAL / np.where(size > 0.0, size, 1.0)
    told = values - (values - predicted) * wider
    blocks = np.array_split(np.arange(len(values)), MOST_BLOCKS)
    return calibrated_on_tables(sample, values, labels, [(rows, told[rows]) for rows in blocks])


def calibrated_in_sample(
    values: FloatArray, predicted: FloatArray, weights: FloatArray | None, spare: float
) -> Calibration | None:
    """The same without folds, from the degrees of freedom that fits leave.

    Of tables ``(rows, L)``, as if errors were Gaussian.
    """
    wider = values - (values - predicted) / np.sqrt(spare)
    errors = _errors_of(values, wider, np.zeros(len(values), dtype=np.intp), weights)
    return calibrated(errors, np.zeros(values.shape[1], dtype=np.intp), IN_SAMPLE)


def told_on_folds(ask: Callable[..., FloatArray], splits: Sequence[Sequence[Any]]) -> list[Told]:
    """Predictions of each fold's rows; none where too few rows are left to learn from."""
    found = []
    with warnings.catch_warnings():
        # Warnings about these data are given for all rows.
        warnings.simplefilter("ignore")
        for fold in splits:
            try:
                found.append((fold[1], ask(*fold)))
            except (ValueError, np.linalg.LinAlgError):
                continue
    return found


def few_blocks(cv: Any) -> Any:
    """Folds of ``cv``; a number of folds is lowered to what intervals need."""
    return min(cv, MOST_BLOCKS) if isinstance(cv, Integral) else cv


def blocks_of(cv: Any, sample: check.Sample, values: FloatArray, groups: Any) -> Sequence[Split]:
    """Folds for intervals alone; none where there cannot be any."""
    if sample.folds is not None:
        return sample.folds.get("limit", ())
    if sample.counts is not None:
        return ()
    try:
        return check.read_cut_folds(few_blocks(cv), sample, values, groups, needed=False) or ()
    except ValueError:  # of a splitter that nothing else has asked
        return ()


def require_calibration(model: Any, coverage: Any) -> tuple[Calibration, float]:
    """What intervals are made of; refuses a wrong coverage, and models without intervals."""
    coverage, name = check.read_coverage(coverage), type(model).__name__
    found = vars(model).get("calibration_")
    if found is not None:
        return found, coverage
    why = "was fitted by a version without intervals: fit it again, or call"
    if "calibration_" in vars(model):
        why = (
            "holds no predictions of held-out rows, for which its regressor would have had to be "
            "fitted again for each fold: call"
        )
    raise ValueError(f"this {name} {why} calibrate with the data of fit before predict_interval.")


def tell_gaussian(calibration: Calibration) -> None:
    """Warn that intervals are those of Gaussian errors."""
    if calibration.how != HELD_OUT:
        warnings.warn(
            f"intervals are calibrated on {calibration.how}: the rows themselves were not kept, "
            "so heavy tails and changing spreads are not in them; calibrate, with the data of "
            "fit, looks at rows.",
            UserWarning,
            stacklevel=3,
        )
