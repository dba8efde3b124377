"""Results in the form the data came in: xarray's objects, or tables."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ctfa.core.libraries import need
from ctfa.core.types import AnyArray, FloatArray, IntArray
from ctfa.labelled._coordinates import find_labels, longitudes
from ctfa.labelled._tables import (
    as_pandas,
    column,
    is_table,
    pivot,
    read_table,
    require_filled,
    require_rows,
)
from ctfa.labelled._tasks import Tasks
from ctfa.labelled._words import listed, several, word
from ctfa.report import Coefficients


@dataclass(frozen=True)
class DataForm:
    """How the data came: the kind of object, and the library it is of."""

    kind: str  # "xarray", "long", "wide", "pairs" or "rows"
    library: str = "xarray"  # or "pandas", "polars"


def array(
    form: DataForm, tasks: Tasks, values: AnyArray, name: str, attrs: Mapping[str, Any], fill: Any
) -> Any:
    """One value a task, labelled."""
    if form.kind == "xarray":
        coords = tasks.coords.to_xarray()
        return need("xarray").DataArray(
            tasks.spread(values, fill), dims=tasks.dims, coords=coords, name=name, attrs=attrs
        )
    return _by_task(form, tasks, {name: values})[name]


def dataset(
    form: DataForm, tasks: Tasks, columns: Mapping[str, AnyArray], attrs: Mapping[str, Any]
) -> Any:
    """Several values a task, labelled."""
    if form.kind == "xarray":
        held = {n: (tasks.dims, tasks.spread(v, np.nan)) for n, v in columns.items()}
        return need("xarray").Dataset(held, coords=tasks.coords.to_xarray(), attrs=attrs)
    return _by_task(form, tasks, columns)


def coefficients(fit: Any, found: Coefficients, values: FloatArray, name: str) -> Any:
    """Region by feature, labelled."""
    form, region = fit.form, fit.tasks.group
    features = list(found.names)
    if form.kind != "xarray":
        frame = need("pandas").DataFrame(values, columns=features)
        frame.index.name = region
        return _native(form, frame, with_index=True)
    error = "standard error of the " if name == "coef_error" else ""
    coords = {
        region: np.arange(len(values)),
        "feature": features,
        "feature_units": ("feature", [slot.units for slot in fit.plan.slots]),
    }
    attrs = {"long_name": f"{error}coefficient of each region's model", "units": found.units}
    if error:
        given = "given the regions and rows that do not depend on each other: series that remember "
        given += "have larger ones"
        attrs["comment"] = "; ".join(filter(None, (given, found.no_error)))
    return need("xarray").DataArray(
        values, dims=(region, "feature"), coords=coords, name=name, attrs=attrs
    )


def features_in(fit: Any, data: Any) -> tuple[Any, Callable[[Any], Any]]:
    """The features in data of the kind of fit, and how predictions go back into that kind."""
    form, plan, tasks = fit.form, fit.plan, fit.tasks
    if form.kind == "xarray":
        if is_table(data):
            raise ValueError(
                "the model was fitted to xarray data and is given a table: give a Dataset or a "
                "DataArray."
            )
        return data, lambda found: found
    frame = _same_table(data)
    if form.kind == "long":
        return _long_features(fit, frame)
    names = [slot.name for slot in plan.slots]
    first_level = getattr(frame.columns, "levels", [frame.columns])[0]
    sample = plan.sample if plan.sample in frame.columns or plan.sample in first_level else None
    if form.kind == "pairs":
        present = [name for name in names if name in frame.columns.get_level_values(0)]
        first = present[0] if present else names[0]
        read = read_table(frame, first, names, sample, tasks.dims[0])
    else:
        # Any column does for a target: only the features are looked at.
        other = next((n for n in frame.columns if n not in (*names, sample)), None)
        if other is None:
            frame, other = frame.assign(**{"_none_": 0.0}), "_none_"
        read = read_table(frame.assign(**{str(other): 0.0}), [other], names, sample, None)
    renamed = read.dataset.rename({read.sample: plan.sample})

    def hand_back(found: Any) -> Any:
        values = found.transpose(plan.sample, *tasks.dims).values
        columns = found.indexes[tasks.dims[0]]
        table = need("pandas").DataFrame(values, columns=columns, index=frame.index)
        if form.kind == "wide":
            table.columns.name = None
        return _native(form, table)

    return renamed, hand_back


def require_members(fit: Any, given: IntArray) -> None:
    """Refuse some of the tasks where others of their regions are needed to predict them."""
    if getattr(fit.estimator, "aggregate_", "") != "mean" or given.size == fit.tasks.n_tasks:
        return
    labels = fit.estimator.labels_
    absent = np.setdiff1d(np.flatnonzero(np.isin(labels, labels[given])), given)
    if absent.size:
        what, n_cut = fit.tasks.what, np.unique(labels[absent]).size
        raise ValueError(
            f"{several(n_cut, 'region')} asked for {'lack' if n_cut > 1 else 'lacks'} "
            f"{several(absent.size, what)} in the data (the first "
            f"{fit.tasks.names[int(absent[0])]}), and a region is predicted from the mean features "
            f"of all its members. Give every {what} of these regions (NaN where nothing is known), "
            f"or fit with aggregate='pool', which predicts each {what} from its own features."
        )


def _same_table(data: Any) -> Any:
    """A table in pandas, where fit had one too."""
    if not is_table(data):
        raise ValueError("the model was fitted to a table: give a table with the same columns.")
    return as_pandas(data)


def predict_rows(fit: Any, data: Any) -> Any:
    """Predict every row of a table, by the model of its task."""
    frame = _same_table(data)
    (task,) = fit.tasks.dims
    if task not in frame.columns:
        raise ValueError(f"there is no column {task!r}, which says whose each row is.")
    require_rows(frame)
    X = need("pandas").DataFrame({slot.name: column(frame, slot.name) for slot in fit.plan.slots})
    complete = X.notna().all(axis=1).to_numpy()
    predicted = np.full(len(frame), np.nan)
    if complete.any():
        ids = frame[task].to_numpy()[complete]
        predicted[complete] = fit.estimator.predict(X[complete], tasks=ids)
    return _column_back(fit.form, predicted, fit.plan.target, frame)


def _long_features(fit: Any, frame: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Features of a long table on the tasks of fit; those that it lacks are not handed back."""
    xarray, pandas = need("xarray"), need("pandas")
    plan, tasks = fit.plan, fit.tasks
    require_rows(frame)
    for dim in (plan.sample, *tasks.dims):
        if dim not in frame.columns:
            raise ValueError(
                f"there is no column {dim!r}: the table has {listed(map(str, frame.columns))}."
            )
        require_filled(frame[dim], dim)
    code, labels = pandas.factorize(frame[plan.sample], sort=True)
    indexes = [pandas.Index(labels), *(tasks.coords.index(dim) for dim in tasks.dims)]
    codes = [np.asarray(code, dtype=np.intp)]
    for dim, index in zip(tasks.dims, indexes[1:], strict=True):
        given = pandas.Index(frame[dim], name=dim)
        places = find_labels(given, index, longitudes([dim], tasks.coords.variables))
        unknown = frame[dim][places < 0]
        if len(unknown):
            raise ValueError(
                f"{several(unknown.nunique(), dim)} that fit has not seen: "
                f"{listed(unknown.unique(), 3)}."
            )
        codes.append(places)
    dims = [plan.sample, *tasks.dims]
    shape = tuple(map(len, indexes))
    _require_once(frame[dims], np.ravel_multi_index(codes, shape))
    held = {slot.name: (dims, pivot(column(frame, slot.name), codes, shape)) for slot in plan.slots}
    built = xarray.Dataset(held, coords=dict(zip(dims, indexes, strict=True)))

    flat = np.unique(np.ravel_multi_index(codes[1:], tasks.shape))
    require_members(fit, np.flatnonzero(np.isin(tasks.kept, flat)))

    def hand_back(found: Any) -> Any:
        values = found.transpose(*dims).values[tuple(codes)]
        n_missing = int(np.isnan(values).sum())
        if n_missing:
            warnings.warn(
                f"{n_missing:,} of {values.size:,} predictions are NaN because inputs are missing "
                "in those rows, or the task was masked in fit.",
                RuntimeWarning,
                stacklevel=3,
            )
        return _column_back(fit.form, values, plan.target, frame)

    return built, hand_back


def _require_once(labels: Any, cell: IntArray) -> None:
    """Refuse rows of one sample and task; labels may differ by rounding, or by a whole turn."""
    twice = need("pandas").Index(cell).duplicated()
    if twice.any():
        later = int(np.argmax(twice))
        pair = (int(np.argmax(cell == cell[later])), later)
        first, again = (", ".join(map(word, labels.iloc[row])) for row in pair)
        raise ValueError(
            f"{several(int(twice.sum()), 'row')} more than once for the same "
            f"{' and '.join(labels.columns)}: ({again}) after ({first}). Drop or average them."
        )


def _by_task(form: DataForm, tasks: Tasks, columns: Mapping[str, AnyArray]) -> Any:
    """A table by task."""
    pandas = need("pandas")
    index = pandas.Index(tasks.labels, name=tasks.dims[0])
    if len(tasks.dims) > 1:
        index = pandas.MultiIndex.from_tuples(tasks.labels, names=tasks.dims)
    return _native(form, pandas.DataFrame(dict(columns), index=index), with_index=True)


def _column_back(form: DataForm, values: FloatArray, name: str, frame: Any) -> Any:
    if form.library == "polars":
        return need("polars").Series(name, values)
    return need("pandas").Series(values, index=frame.index, name=name)


def _native(form: DataForm, frame: Any, with_index: bool = False) -> Any:
    """A pandas table in the library the data came from, which may have no index."""
    if form.library != "polars":
        return frame
    frame = frame.reset_index() if with_index else frame
    return need("polars").DataFrame({str(n): frame[n].to_numpy() for n in frame.columns})
