"""Tables in which every task has rows of its own: pupils of schools, patients of clinics."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ctfa import _validation as check
from ctfa.estimators.features import FeatureAggregator
from ctfa.estimators.pooled import PooledCTFARegressor
from ctfa.estimators.targets import TargetAggregator
from ctfa.labelled._coordinates import Coordinate, Coordinates
from ctfa.labelled._doubts import (
    doubtful_fills,
    flat_feature,
    never_changes,
    same_variables,
)
from ctfa.labelled._extras import need
from ctfa.labelled._form import DataForm
from ctfa.labelled._neighbours import read_neighbours
from ctfa.labelled._plan import Plan, Slot
from ctfa.labelled._result import LabelledFit, coefficient_notes
from ctfa.labelled._tables import as_pandas, column, library_of, require_rows
from ctfa.labelled._tasks import Tasks
from ctfa.labelled._words import several
from ctfa.report import Given, Material, complete

#: What a row of such a table is called.
ROW = "row"
#: Values of options that ask for nothing.
USUAL = (False, "auto", "ols")


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
    require_rows(frame)
    y = column(frame, target)
    names = _features(frame, target, features, task)
    X = np.column_stack([column(frame, name) for name in names])
    whole = ~(np.isnan(X).any(axis=1) | np.isnan(y) | frame[task].isna().to_numpy())
    notes = []
    if not whole.all():
        count = int((~whole).sum())
        notes.append(f"{several(count, 'row')} lacking a value, left out")
    seen = {target: y[:, None], **dict(zip(names, X.T[:, :, None], strict=True))}
    notes += map(str, doubtful_fills(seen))
    notes += map(str, same_variables(target, seen, merged=bool(options.merge_features)))
    for name in names:
        notes += map(str, flat_feature(name, never_changes(seen[name]), list, task))
    y, ids = y[whole], frame[task].to_numpy()[whole]
    X = need("pandas").DataFrame(X[whole], columns=names)
    labels = np.unique(ids)
    coords = Coordinates({task: Coordinate((task,), labels, {})}, {}, {task: labels.size})
    tasks = Tasks((task,), coords, np.arange(labels.size))
    model = _model(options, read_neighbours(neighbours, tasks))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", check.LOOKS_MISSING, UserWarning)  # noted above
        model.fit(X, y, tasks=ids)
        known = complete(Material(model), Given(X, y, ids, held_out=held_out))
    notes += coefficient_notes(known.coefficients)
    slots = tuple(Slot(name, {}, False) for name in names)
    return LabelledFit(
        estimator=model,
        plan=Plan(target, {}, (ROW, task), ROW, slots),
        tasks=tasks,
        form=DataForm("rows", library_of(data)),
        baseline=None,
        held_out=known.held_out,
        history=known.history,
        coefficients=known.coefficients,
        series=None,
        geometry=None,
        weights=None,
        notes=tuple(notes),
        title=title or f"{target}: {several(labels.size, task)}",
        span=("", "", len(y)),
    )


def refuse_for_rows(**options: Any) -> None:
    """Refuse options that mean nothing where every task has rows of its own."""
    for name, value in options.items():
        plain = value is None or (isinstance(value, str | bool) and value in USUAL)
        if not plain:
            raise ValueError(
                f"{name}={value!r} is for tasks that share their samples: leave it out, or name "
                "the column of the samples (sample='time')."
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
