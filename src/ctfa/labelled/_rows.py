"""Tables in which every task has rows of its own: pupils of schools, patients of clinics."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ctfa._feature_aggregator import FeatureAggregator
from ctfa._pooled import PooledCTFARegressor
from ctfa._target_aggregator import TargetAggregator
from ctfa.core.types import AnyArray, FloatArray, IntArray
from ctfa.labelled._coordinates import Coordinate, Coordinates
from ctfa.labelled._extras import need
from ctfa.labelled._form import Form
from ctfa.labelled._judge import BLOCKS, PENALTIES
from ctfa.labelled._neighbours import read_neighbours
from ctfa.labelled._plan import Plan, Slot
from ctfa.labelled._result import LabelledFit
from ctfa.labelled._tables import as_pandas, column, library_of
from ctfa.labelled._tasks import Tasks
from ctfa.labelled._words import several
from ctfa.report import Coefficients, HeldOut

#: What a row of such a table is called.
ROW = "row"


def fit_rows(
    data: Any,
    target: str,
    features: Any,
    task: str,
    neighbours: Any,
    options: Any,
    held_out: Any,
    title: str | None,
) -> LabelledFit:
    """Group tasks that have rows of their own."""
    frame = as_pandas(data)
    y = column(frame, target)
    names = _features(frame, target, features, task)
    X = np.column_stack([column(frame, name) for name in names])
    complete = ~(np.isnan(X).any(axis=1) | np.isnan(y) | frame[task].isna().to_numpy())
    notes = []
    if not complete.all():
        count = int((~complete).sum())
        notes.append(f"{several(count, 'row')} lacking a value, left out")
    X, y, ids = X[complete], y[complete], frame[task].to_numpy()[complete]
    labels = np.unique(ids)
    coords = Coordinates({task: Coordinate((task,), labels, {})}, {}, {task: labels.size})
    tasks = Tasks((task,), coords, np.arange(labels.size))
    model = _model(options, read_neighbours(neighbours, tasks)).fit(X, y, tasks=ids)
    value = (
        np.array([_spread(f, r) for f, r in zip(model.features_, model.regressors_, strict=True)])
        if all(hasattr(r, "coef_") for r in model.regressors_)
        else None
    )
    found = None
    if value is not None:
        errors = _standard_errors(model, X, y, ids)
        found = Coefficients(names, value, errors, f"units of {target} per unit of the feature")
    for aggregator in model.features_:
        aggregator.feature_names_in_ = np.array(names, dtype=object)
    return LabelledFit(
        model,
        Plan(target, {}, (ROW, task), ROW, tuple(Slot(name, {}, False) for name in names)),
        tasks,
        Form("rows", library_of(data)),
        None,
        _judge(_model(options, read_neighbours(neighbours, tasks)), X, y, ids, labels, held_out),
        None,
        found,
        None,
        None,
        None,
        tuple(notes),
        title or f"{target}: {several(labels.size, task)}",
        ("", "", len(y)),
    )


def _features(frame: Any, target: str, features: Any, task: str) -> list[str]:
    if features is None:
        numeric = need("pandas").api.types.is_numeric_dtype
        features = [n for n in frame.columns if n not in (target, task) and numeric(frame[n])]
    names = [features] if isinstance(features, str) else list(features)
    if not names:
        raise ValueError("there are no features: name one at least.")
    if task not in frame.columns:
        column(frame, task)  # says what there is
    return list(map(str, names))


def _model(options: Any, graph: Any) -> PooledCTFARegressor:
    targets = TargetAggregator(
        max_loss=options.max_loss,
        connectivity=graph,
        scale="standard" if options.standardise else "center",
        cv=options.cv,
    )
    merge = options.merge_features
    features: Any = FeatureAggregator() if merge is True else merge or "passthrough"
    return PooledCTFARegressor(
        options.regressor,
        targets=targets,
        features=features,
        head=options.head,
        n_jobs=options.n_jobs,
    )


def _spread(features: Any, regressor: Any) -> FloatArray:
    partition = features.partition_
    coef = np.asarray(regressor.coef_, dtype=np.float64).reshape(-1)
    return np.asarray((coef / partition.sizes)[partition.labels])


def _standard_errors(
    model: PooledCTFARegressor, X: FloatArray, y: FloatArray, ids: AnyArray
) -> FloatArray | None:
    """Of least squares about the tasks' means, given the groups; None for other regressors."""
    if any(type(r).__name__ != "LinearRegression" for r in model.regressors_):
        return None
    position = np.searchsorted(model.tasks_, ids)
    errors = np.full((model.n_groups_, X.shape[1]), np.nan)
    for group, members in enumerate(model.partition_.groups):
        rows = np.flatnonzero(np.isin(position, members))
        columns = model.features_[group].partition_.mean(X[rows])
        both = np.column_stack([columns, y[rows]])
        for member in members.tolist():
            own = position[rows] == member
            both[own] -= both[own].mean(axis=0)
        inputs, target = both[:, :-1], both[:, -1]
        coef, _, rank, _ = np.linalg.lstsq(inputs, target, rcond=None)
        spare = rows.size - members.size - rank
        if spare < 1:
            continue
        left = target - inputs @ coef
        variance = (
            np.diag(np.linalg.pinv(inputs.T @ inputs, hermitian=True)) * (left @ left) / spare
        )
        partition = model.features_[group].partition_
        errors[group] = (np.sqrt(variance) / partition.sizes)[partition.labels]
    return errors


def _judge(
    model: PooledCTFARegressor,
    X: FloatArray,
    y: FloatArray,
    ids: AnyArray,
    labels: AnyArray,
    held_out: Any,
) -> HeldOut | None:
    """Errors on rows of every task held out, against a model for each task by itself."""
    if held_out is None or held_out is False:
        return None
    position = np.searchsorted(labels, ids)
    splitter = held_out
    how = f"folds of {type(held_out).__name__}"
    if held_out == "auto" or isinstance(held_out, int):
        n_folds = BLOCKS if held_out == "auto" else held_out
        enough = np.bincount(position).min() >= n_folds
        kind = StratifiedKFold if enough else KFold
        splitter = kind(n_folds, shuffle=True, random_state=0)
        how = f"{n_folds} folds of the rows of every task, dealt at random"
    alone = clone(model).set_params(targets="passthrough", features="passthrough", head="mean")
    ridge = make_pipeline(StandardScaler(), RidgeCV(PENALTIES))
    models = {
        "ctfa": model,
        "single-task": alone,
        "ridge": clone(alone).set_params(regressor=ridge),
    }
    errors = {name: np.full(y.size, np.nan) for name in models}
    for train, test in splitter.split(X, position):
        seen = test[np.isin(position[test], position[train])]
        for name, one in models.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fitted = clone(one).fit(X[train], y[train], tasks=ids[train])
            errors[name][seen] = (y[seen] - fitted.predict(X[seen], tasks=ids[seen])) ** 2
    return HeldOut(
        {name: _by_task(found, y, position, labels.size) for name, found in errors.items()}, how
    )


def _by_task(squares: FloatArray, y: FloatArray, position: IntArray, n_tasks: int) -> FloatArray:
    """Mean over the rows of each task, in units of the variance of its target."""
    known = np.isfinite(squares)
    total = np.bincount(position[known], squares[known], n_tasks)
    count = np.bincount(position[known], minlength=n_tasks)
    mean = np.bincount(position, y, n_tasks) / np.bincount(position, minlength=n_tasks)
    spread = np.bincount(position, (y - mean[position]) ** 2, n_tasks)
    variance = spread / np.bincount(position, minlength=n_tasks)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(total / count / variance)
