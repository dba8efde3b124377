"""Errors on rows left out: the model, the same for each target by itself, and a plain rival."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ctfa import _validation as check
from ctfa.core.types import FloatArray, IntArray
from ctfa.estimators.held_out import Climatology, Split, held_out_errors
from ctfa.estimators.pooled import PooledCTFARegressor
from ctfa.estimators.view import FittedGroups
from ctfa.report._given import Given
from ctfa.report._material import HeldOut

#: Up to so many targets five blocks are held out, and a ridge regression of each target is a rival;
#: above it the last block alone, and no rival that is fitted target by target.
MANY = 2000
#: Blocks that are held out in turn.
BLOCKS = 5
#: Penalties that the rival chooses from, in units of a standardised feature.
PENALTIES = np.logspace(-2, 4, 13)
#: What the model and those it is compared with are called.
MODEL, ALONE, RIDGE = "ctfa", "single-task", "single-task ridge"
#: What predicts without features.
ZERO = "climatology"


def judged(fitted: FittedGroups, given: Given) -> HeldOut | None:
    """Mean squared error of each target by each method, in units of the target's variance.

    Every model is fitted anew to the training rows of each fold, with everything it chooses. None
    where nothing is to be held out, or where, with a warning, folds leave a target too few rows.
    """
    if fitted.is_aggregator or given.held_out is None or given.held_out is False:
        return None
    if isinstance(fitted.model, PooledCTFARegressor):
        return _judged_rows(fitted.model, given)
    model = fitted.model
    sample, targets = model._read_again(given.X, given.Y, None, given.baseline)
    splits, how = choose_splits(given.held_out, sample, targets.values)
    try:
        model._require_observed(sample, targets, splits)
    except ValueError as error:
        warnings.warn(f"Nothing was held out: {error}", UserWarning, stacklevel=2)
        return None
    methods = _methods(model._anew(), model._single_task(), targets.values.shape[1])
    *errors, zero = held_out_errors(
        [*methods.values(), Climatology()],
        sample,
        targets.values,
        splits,
        target_weight=targets.weights,
        n_jobs=model.n_jobs,
    )
    named = dict(zip(methods, errors, strict=True))
    return HeldOut(named, how, targets.weights, zero, reference_of(given.baseline))


def reference_of(baseline: FloatArray | None) -> str:
    """What training rows say without features, in words."""
    whole = "the mean of the training rows"
    return whole if baseline is None else f"{whole} and what their baseline says"


def choose_splits(
    held_out: Any, sample: check.Sample, values: FloatArray
) -> tuple[list[Split], str]:
    """Rows to hold out, and how that is said."""
    n_rows, n_targets = values.shape
    if isinstance(held_out, str):
        if held_out != "auto":
            raise ValueError(
                f"held_out={held_out!r} is not known: use 'auto', a number of blocks, a splitter "
                "or None."
            )
        least = BLOCKS if n_targets > MANY else 2 * BLOCKS
        if n_rows < least and sample.folds is None:  # else these rows stand in for others
            raise ValueError(
                f"there are {n_rows} rows, too few to hold some of them out and judge the fit by "
                f"them: {least} or more are needed, or none held out (held_out=None)."
            )
        if n_targets > MANY:
            rows = np.arange(n_rows)
            start = n_rows - n_rows // BLOCKS
            return [(rows[:start], rows[start:])], "the last fifth of the rows"
        held_out = BLOCKS
    try:
        splits = check.read_folds(held_out, sample, values)
    except ValueError as error:
        raise ValueError(str(error).replace("cv=", "held_out=", 1)) from error
    if isinstance(held_out, int):
        return splits, f"{held_out} blocks of consecutive rows, each held out once"
    return splits, f"{len(splits)} folds of {type(held_out).__name__}"


def _methods(model: Any, alone: Any, n_targets: int) -> dict[str, Any]:
    """The model and its rivals, not fitted, by name."""
    found = {MODEL: model, ALONE: alone}
    if n_targets <= MANY:
        ridge = make_pipeline(StandardScaler(), RidgeCV(PENALTIES))
        found[RIDGE] = clone(alone).set_params(regressor=ridge)
    return found


def _judged_rows(model: PooledCTFARegressor, given: Given) -> HeldOut:
    """The same for tasks with rows of their own: some rows of every task are held out."""
    X, y = np.asarray(given.X, dtype=np.float64), np.asarray(given.Y, dtype=np.float64)
    ids = np.asarray(given.tasks)
    labels, position = np.unique(ids, return_inverse=True)
    position = np.asarray(position).reshape(-1)
    splitter, how = given.held_out, f"folds of {type(given.held_out).__name__}"
    if isinstance(splitter, str | int):
        n_folds = BLOCKS if isinstance(splitter, str) else splitter
        enough = int(np.bincount(position).min()) >= n_folds
        kind = StratifiedKFold if enough else KFold
        splitter = kind(n_folds, shuffle=True, random_state=0)
        how = f"{n_folds} folds of the rows of every task, dealt at random"
    alone = clone(model).set_params(targets="passthrough", features="passthrough", head="mean")
    methods = _methods(clone(model), alone, labels.size)
    squares = {name: np.full(y.size, np.nan) for name in (*methods, ZERO)}
    for train, test in splitter.split(X, position):
        seen = test[np.isin(position[test], position[train])]
        count = np.bincount(position[train], minlength=labels.size)
        mean = np.bincount(position[train], y[train], labels.size) / np.maximum(count, 1)
        squares[ZERO][seen] = (y[seen] - mean[position[seen]]) ** 2
        for name, method in methods.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of short folds: what was said of fit is enough
                fitted = clone(method).fit(X[train], y[train], tasks=ids[train])
            squares[name][seen] = (y[seen] - fitted.predict(X[seen], tasks=ids[seen])) ** 2
    errors = {name: _by_task(found, y, position) for name, found in squares.items()}
    zero = errors.pop(ZERO)
    return HeldOut(errors, how, None, zero, "the mean of the training rows of each task")


def _by_task(squares: FloatArray, y: FloatArray, position: IntArray) -> FloatArray:
    """Mean over the rows of each task, in units of the variance of its target."""
    n_tasks = int(position.max()) + 1
    known = np.isfinite(squares)
    total = np.bincount(position[known], squares[known], n_tasks)
    count = np.bincount(position[known], minlength=n_tasks)
    n_rows = np.bincount(position, minlength=n_tasks)
    mean = np.bincount(position, y, n_tasks) / n_rows
    variance = np.bincount(position, (y - mean[position]) ** 2, n_tasks) / n_rows
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(total / count / variance)
