"""Errors on rows left out: the model, the same for each task by itself, and a plain rival."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

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


def choose_splits(held_out: Any, Y: FloatArray) -> tuple[list[Split], str] | None:
    """Rows to hold out, and how that is said; None where nothing is to be."""
    if held_out is None or held_out is False:
        return None
    n_rows, n_tasks = Y.shape
    if isinstance(held_out, str) and held_out == "auto":
        if n_tasks > MANY:
            rows = np.arange(n_rows)
            start = n_rows - n_rows // BLOCKS
            return [(rows[:start], rows[start:])], "the last fifth of the samples"
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
        return splits, f"{held_out} blocks of consecutive samples, each held out once"
    return splits, f"{len(splits)} folds of {type(held_out).__name__}"


def rivals(model: Any, n_tasks: int) -> dict[str, Any]:
    """The model and those it is compared with, not fitted, by name."""
    alone = clone(model)
    ridge = make_pipeline(StandardScaler(), RidgeCV(PENALTIES))
    if isinstance(model, MultiInputCTFARegressor):
        template = model.targets if isinstance(model.targets, TargetAggregator) else None
        solver = "ols" if template is None else template.solver
        # Nobody is anybody's neighbour: without a graph every pair would be asked, and refused.
        nobody = sparse.csr_array((n_tasks, n_tasks))
        apart = TargetAggregator(max_loss=-np.inf, solver=solver, connectivity=nobody)
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
    n_jobs: int | None,
) -> HeldOut:
    """Mean squared error of each task by each model, in units of the task's variance.

    Every model is fitted anew to the training rows of each fold, with everything it chooses, and
    judged on the rows where the target is observed and every model predicts.
    """
    wrong = Parallel(n_jobs=n_jobs)(
        delayed(_errors)(model, X, Y, split, baseline, fixed if name == "ctfa" else {})
        for split in splits
        for name, model in models.items()
    )
    squares = {name: np.zeros(Y.shape[1]) for name in models}
    count = np.zeros(Y.shape[1])
    for start in range(0, len(wrong), len(models)):
        gaps = wrong[start : start + len(models)]
        known = np.all([np.isfinite(gap) for gap in gaps], axis=0)
        count += known.sum(axis=0)
        for name, gap in zip(models, gaps, strict=True):
            squares[name] += (np.where(known, gap, 0.0) ** 2).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        unit = np.nanvar(without_baseline(Y, baseline), axis=0)
        unit = unit * np.where(count > 0, count, np.nan)
        return HeldOut({name: total / unit for name, total in squares.items()}, how)


def _errors(
    model: Any,
    X: FloatArray,
    Y: FloatArray,
    split: Split,
    baseline: FloatArray | None,
    fixed: Mapping[str, Any],
) -> FloatArray:
    """Errors of a model on the held-out rows of one fold."""
    train, test = split
    rows = {} if baseline is None else {"baseline": baseline[train]}
    others = {} if baseline is None else {"baseline": baseline[test]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where inputs are missing nobody is judged
        fitted = clone(model).fit(X[train], Y[train], **rows, **fixed)
        return np.asarray(Y[test] - np.asarray(fitted.predict(X[test], **others)))


def without_baseline(Y: FloatArray, baseline: FloatArray | None) -> FloatArray:
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
