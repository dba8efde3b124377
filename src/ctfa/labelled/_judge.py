"""Errors on rows left out: the model, the same for each task by itself, and a plain rival."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import RidgeCV

from ctfa._multi_input import MultiInputCTFARegressor
from ctfa._regressor import CTFARegressor
from ctfa._target_aggregator import TargetAggregator
from ctfa._validation import read_folds, read_sample
from ctfa.core.types import FloatArray, IntArray
from ctfa.report import HeldOut

#: Up to so many tasks five blocks are held out, and a ridge regression of each task is a rival;
#: above it the last block alone, and no rival that is fitted task by task.
MANY = 2000
#: Blocks that are held out in turn.
BLOCKS = 5
#: Penalties the rival chooses from, in units of a standardised feature.
PENALTIES = np.logspace(-2, 4, 13)

Split = tuple[IntArray, IntArray]


def choose_splits(
    held_out: Any, X: FloatArray, Y: FloatArray, what: str
) -> tuple[list[Split], str] | None:
    """Rows to hold out, and how that is said; None where nothing is to be."""
    if held_out is None or held_out is False:
        return None
    n_rows, n_tasks = Y.shape
    if isinstance(held_out, str) and held_out == "auto":
        if n_tasks > MANY:
            rows = np.arange(n_rows)
            start = n_rows - n_rows // BLOCKS
            return [(rows[:start], rows[start:])], f"the last fifth of the {what}"
        held_out = BLOCKS
    elif isinstance(held_out, str):
        raise ValueError(
            f"held_out={held_out!r} is not known: use 'auto', a number of blocks, a splitter or "
            "None."
        )
    # The same reading of folds as everywhere: an integer is so many blocks of rows in order.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sample = read_sample(CTFARegressor(), np.zeros((n_rows, 1)), None)
    splits = read_folds(held_out, sample, Y)
    if isinstance(held_out, int):
        return splits, f"{held_out} blocks of consecutive {what}, each held out once"
    return splits, f"{len(splits)} folds of {type(held_out).__name__}"


def rivals(model: Any, n_tasks: int) -> dict[str, Any]:
    """The model and those it is compared with, not fitted, by name."""
    alone = clone(model)
    ridge = RidgeCV(PENALTIES)
    if isinstance(model, MultiInputCTFARegressor):
        template = model.targets if isinstance(model.targets, TargetAggregator) else None
        solver = "ols" if template is None else template.solver
        apart = TargetAggregator(max_loss=-np.inf, solver=solver)
        if template is not None:
            apart.set_params(scale=template.scale)
        alone.set_params(targets=apart, features=None, aggregate="mean", head="mean")
    else:
        alone.set_params(targets="passthrough", features="passthrough", head="mean")
    found = {"ctfa": model, "single-task": alone}
    if n_tasks <= MANY:
        found["ridge"] = clone(alone).set_params(regressor=ridge)
    return found


def judge(
    models: Mapping[str, Any],
    X: FloatArray,
    Y: FloatArray,
    splits: Sequence[Split],
    how: str,
    baseline: FloatArray | None,
    fixed: Mapping[str, Any],
) -> HeldOut:
    """Mean squared error of each task by each model, in units of the task's variance.

    Every model is fitted anew to the training rows of each fold, with everything it chooses, and
    judged on the rows where the target is observed and every model predicts.
    """
    squares = {name: np.zeros(Y.shape[1]) for name in models}
    count = np.zeros(Y.shape[1])
    for train, test in splits:
        rows = {} if baseline is None else {"baseline": baseline[train]}
        others = {} if baseline is None else {"baseline": baseline[test]}
        wrong = {}
        for name, model in models.items():
            given = fixed if name == "ctfa" else {}
            with warnings.catch_warnings():
                # Where inputs are missing nobody is judged; what a fold is short of was said of fit.
                warnings.simplefilter("ignore")
                fitted = clone(model).fit(X[train], Y[train], **rows, **given)
                wrong[name] = Y[test] - np.asarray(fitted.predict(X[test], **others))
        known = np.all([np.isfinite(gap) for gap in wrong.values()], axis=0)
        count += known.sum(axis=0)
        for name, gap in wrong.items():
            squares[name] += (np.where(known, gap, 0.0) ** 2).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        unit = np.nanvar(_residual(Y, baseline), axis=0) * np.where(count > 0, count, np.nan)
        return HeldOut({name: total / unit for name, total in squares.items()}, how)


def _residual(Y: FloatArray, baseline: FloatArray | None) -> FloatArray:
    """Targets without their baseline, whose variance is the unit of errors."""
    if baseline is None:
        return Y
    columns = np.column_stack([np.ones(len(Y)), baseline])
    left = np.full(Y.shape, np.nan)
    for task, values in enumerate(Y.T):
        rows = ~np.isnan(values)
        fitted = columns[rows] @ np.linalg.lstsq(columns[rows], values[rows], rcond=None)[0]
        left[rows, task] = values[rows] - fitted
    return left
