"""Data in the form they came in: tables into labelled arrays, results back into either.

Tables are those of pandas, polars and geopandas. Long: one row for every sample and task. Wide: one
row per sample, a column for each target, features that all share. Pairs: one row per sample,
columns named by (variable, task). Rows: one row for every observation of a task with its own
rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ctfa import _reading as check
from ctfa._errors import InputError, Option
from ctfa._reading.sums import is_dask
from ctfa.core.libraries import need
from ctfa.core.types import AnyArray, BoolArray, FloatArray, IntArray
from ctfa.labelled._labels import selected
from ctfa.labelled._reading import Gathered, Plan, by_conventions, gather, without_layers
from ctfa.labelled._tasks import EAST, NORTH, Coordinates, LabelledTasks, find_labels, longitudes
from ctfa.labelled._words import hint, kind_of, listed, several, word

#: With more cells than this for each place, places are not taken for a grid.
SPARSE = 20
#: Names of the tasks and rows of a wide table that does not name them.
TASK, SAMPLE = "target", "row"


def is_table(data: Any) -> bool:
    """Whether these are columns with names."""
    if library_of(data) == "polars":  # a lazy frame warns when asked for its columns
        return hasattr(data, "select")
    return hasattr(data, "columns") and not hasattr(data, "data_vars")


def library_of(data: Any) -> str:
    """The library a table comes from."""
    return "polars" if type(data).__module__.startswith("polars") else "pandas"


def as_pandas(data: Any) -> Any:
    """The same columns in pandas, levels of an index of several among them."""
    if is_dask(data):
        raise ValueError(
            "the table is a Dask data frame, whose labels are not known before it is computed: "
            "pass table.compute() where it fits in memory, or fit ctfa.CTFARegressor, which reads "
            "Dask's collections in chunks."
        )
    if library_of(data) == "pandas":
        # Of a table indexed by (time, basin), say, these are columns too; the index stays.
        index, names = data.index, data.columns
        if index.nlevels == 1 or getattr(names, "nlevels", 1) > 1:
            return data
        missing = [name for name in index.names if name is not None and name not in names]
        return data.assign(**{str(name): index.get_level_values(name) for name in missing})
    if hasattr(data, "collect"):  # a lazy frame
        data = data.collect()
    frame = need("pandas").DataFrame({name: data[name].to_numpy() for name in data.columns})
    for name, dtype in data.schema.items():  # in numpy a time has no zone, and is Greenwich's
        zone = getattr(dtype, "time_zone", None)
        if zone is not None:
            frame[name] = frame[name].dt.tz_localize("UTC").dt.tz_convert(zone)
    return frame


def require_rows(frame: Any) -> None:
    """Refuse a table without rows, or with two columns of one name, to learn from or to predict."""
    if not len(frame):
        raise ValueError("the table has no rows: look whether it was written whole.")
    twice = frame.columns[frame.columns.duplicated()]
    if len(twice) and frame.columns.nlevels == 1:
        raise ValueError(f"column {twice[0]} is there twice: name each once.")


def read_table(
    data: Any, target: Any, features: Any, sample: Any, task: Any, select: Any = None
) -> tuple[Gathered, DataForm, Any]:
    """Target and features of a table, its form, and geometry by task where it has some."""
    frame, geometry = selected(as_pandas(data), select), None
    require_rows(frame)
    tasks = names_of(task, ())
    if getattr(frame.columns, "nlevels", 1) > 1:
        kind, gathered = "pairs", _pairs(frame, target, features, sample, task)
    elif tasks:
        kind, (gathered, geometry) = "long", _long(frame, target, features, sample, tasks)
    else:
        kind, gathered = "wide", _wide(frame, target, features, sample)
    return gathered, DataForm(kind, library_of(data)), geometry


def read_rows(
    data: Any, target: str, features: Any, task: str, select: Any = None
) -> tuple[Any, FloatArray, AnyArray, BoolArray]:
    """Features, target and task of each row, of a table in which every task has its own rows.

    And which rows are complete.
    """
    frame = selected(as_pandas(data), select)
    require_rows(frame)
    y = column(frame, target)
    names = list(map(str, names_of(features, numeric_columns(frame, {target, task}))))
    if not names:
        raise ValueError("there are no features: name one at least.")
    require_column(frame, task)
    X = need("pandas").DataFrame({name: column(frame, name) for name in names})
    whole = X.notna().all(axis=1).to_numpy() & ~np.isnan(y) & frame[task].notna().to_numpy()
    return X, y, frame[task].to_numpy(), whole


def names_of(given: Any, default: Iterable[Any]) -> list[Any]:
    """Names of columns, as one or as many; those by default where none are given."""
    return [given] if isinstance(given, str) else list(default if given is None else given)


def numeric_columns(frame: Any, others: Container[Any]) -> Iterator[Any]:
    """Names of the columns of numbers that are not among others."""
    is_numeric = need("pandas").api.types.is_numeric_dtype
    yield from (name for name in frame.columns if name not in others and is_numeric(frame[name]))


def require_column(frame: Any, name: Any) -> None:
    """Refuse a name that no column has."""
    if name not in frame.columns:
        known = list(map(str, frame.columns))
        raise ValueError(
            f"there is no column {name!r}{hint(str(name), known)}: the table has {listed(known)}."
        )


def column(frame: Any, name: Any) -> FloatArray:
    """A column as numbers, NaN where there is none."""
    require_column(frame, name)
    values = frame[name]
    if not need("pandas").api.types.is_numeric_dtype(values.dtype):
        wrong = values[:0]  # the first value that is not a number
        if values.dtype.kind not in "Mm":
            numbers = need("pandas").to_numeric(values.astype(str), errors="coerce")
            wrong = values[numbers.isna() & values.notna()]
        example = repr(wrong.iloc[0]) if len(wrong) else f"{values.dtype} values"
        raise ValueError(
            f"{name} holds {example}, which is not a number: leave {name} out, or turn it into "
            "numbers first (pandas.to_numeric)."
        )
    check.refuse_rounded(values, str(name))
    return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))


def _long(
    frame: Any, target: Any, features: Any, sample: Any, tasks: list[str]
) -> tuple[Gathered, Any]:
    if not isinstance(target, str):
        raise ValueError(
            f"target is {kind_of(target)}: with a task column, name the one column to predict."
        )
    if sample is None:
        raise InputError(
            "say which column says when each row was (",
            Option("sample", "time"),
            f"): {' and '.join(tasks)} say where.",
        )
    places = [name for name in frame.columns if str(name).lower() in (*EAST, *NORTH)]
    shapes = getattr(frame, "_geometry_column_name", None)
    names = names_of(features, numeric_columns(frame, {target, sample, *tasks, shapes, *places}))
    dataset, codes = _pivoted(frame, [target, *names], [sample, *tasks])
    geometry = None
    if len(tasks) == 1:
        (task,), code = tasks, codes[1]
        rows = np.unique(code, return_index=True)[1]  # the first of each task
        if shapes is not None and shapes in frame.columns:
            geometry = frame[shapes].iloc[rows]
            geometry.index = dataset.indexes[task]
        for name in places:
            try:
                values = column(frame, name)
            except ValueError:
                continue
            # A longitude or latitude of which every task has one value.
            if name != task and np.array_equal(values[rows][code], values, equal_nan=True):
                dataset = dataset.assign_coords({str(name): (task, values[rows])})
    return gather(dataset, target, list(map(str, names)), sample, tasks), geometry


def _wide(frame: Any, target: Any, features: Any, sample: Any) -> Gathered:
    targets = names_of(target, ())
    if not targets:
        raise ValueError("name the columns to predict (target=[...]), or the task column.")
    names = names_of(features, (n for n in frame.columns if n not in targets and n != sample))
    both = [name for name in names if name in targets]
    if both:
        raise ValueError(f"{listed(both)} is a target and a feature too: leave it out of one.")
    index, dim = _rows(frame, sample)
    value = "value"
    while value in names:
        value += "_"
    dataset = _side_by_side(frame, [value, *names], (dim, TASK), index, value, targets)
    return gather(dataset, value, list(map(str, names)), dim, TASK)


def _side_by_side(
    frame: Any, names: list[Any], dims: tuple[str, ...], index: Any, value: str, targets: Any
) -> Any:
    """Variables of a wide table: a column each, and the columns of all targets for ``value``."""
    held: dict[str, Any] = {str(n): (dims[:1], column(frame, n)) for n in names if n != value}
    coords = {dims[0]: index}
    if value in names:
        coords[dims[1]] = targets
        held[value] = (dims, np.column_stack([column(frame, name) for name in targets]))
    return need("xarray").Dataset(held, coords=coords)


def _pairs(frame: Any, target: Any, features: Any, sample: Any, task: Any) -> Gathered:
    variables = dict.fromkeys(frame.columns.get_level_values(0))
    names = names_of(features, (name for name in variables if name != target))
    index, dim = _rows(frame, sample)
    dim_task = task if isinstance(task, str) else frame.columns.names[1] or TASK
    dataset = _paired(frame, [target, *names], (dim, dim_task), index)
    return gather(dataset, str(target), list(map(str, names)), dim, dim_task)


def _paired(frame: Any, names: list[Any], dims: tuple[str, str], index: Any) -> Any:
    """Variables of columns that are named by (variable, task), for the tasks of the first."""
    if frame.columns.nlevels != 2:
        raise ValueError(
            f"the table's columns have {frame.columns.nlevels} levels: two are read, (variable, "
            "task)."
        )
    variables = list(dict.fromkeys(frame.columns.get_level_values(0)))
    for name in names:
        if name not in variables:
            raise ValueError(
                f"there is no variable {name!r}{hint(str(name), list(map(str, variables)))} in the "
                f"first level of the columns: it has {listed(variables)}."
            )
    tasks = list(dict.fromkeys(frame[names[0]].columns))
    lacking = np.full(len(frame), np.nan)
    held = {}
    for name in names:
        part = frame[name]
        table = [column(part, label) if label in part.columns else lacking for label in tasks]
        held[str(name)] = (dims, np.column_stack(table))
    return need("xarray").Dataset(held, coords={dims[0]: index, dims[1]: tasks})


def _pivoted(
    frame: Any, names: list[str], dims: list[str], fitted: Coordinates | None = None
) -> tuple[Any, list[IntArray]]:
    """Columns of a long table on their dimensions, NaN where no row is, and where each row lies.

    Samples are sorted: rows of a long table have no order of their own. Tasks are those that were
    fitted, else they come as they first appear, the two sides of a grid sorted.
    """
    pandas = need("pandas")
    indexes: dict[str, Any] = {}
    codes: list[IntArray] = []
    for number, dim in enumerate(dims):
        require_column(frame, dim)
        n_missing = int(frame[dim].isna().sum())
        if n_missing:
            raise ValueError(f"{several(n_missing, 'row')} without a {dim}: drop or complete them.")
        if number and fitted is not None:
            indexes[dim] = fitted.index(dim)
            codes.append(_fitted_labels(frame[dim], dim, fitted))
        else:
            code, labels = pandas.factorize(frame[dim], sort=number == 0 or len(dims) > 2)
            indexes[dim] = pandas.Index(labels)
            codes.append(np.asarray(code, dtype=np.intp))
    shape = tuple(map(len, indexes.values()))
    if fitted is None:
        _require_dense(shape, len(frame), dims)
    _require_once(frame[dims], np.ravel_multi_index(codes, shape))
    held = {}
    for name in names:
        values = np.full(shape, np.nan)
        values[tuple(codes)] = column(frame, name)
        held[name] = (dims, values)
    return need("xarray").Dataset(held, coords=indexes), codes


def _fitted_labels(given: Any, dim: str, fitted: Coordinates) -> IntArray:
    """Where labels of a column lie among those that were fitted."""
    wanted = need("pandas").Index(given, name=dim)
    places = find_labels(wanted, fitted.index(dim), longitudes([dim], fitted.variables))
    unknown = given[places < 0]
    if len(unknown):
        raise ValueError(
            f"{several(unknown.nunique(), dim)} that fit has not seen: "
            f"{listed(unknown.unique(), 3)}."
        )
    return places


def _require_once(labels: Any, cell: IntArray) -> None:
    """Refuse rows of one sample and task; labels may differ by rounding, or by a whole turn."""
    twice = need("pandas").Index(cell).duplicated()
    if twice.any():
        later = int(np.argmax(twice))
        pair = (int(np.argmax(cell == cell[later])), later)
        first, again = (", ".join(map(word, labels.iloc[row])) for row in pair)
        after = f" after ({first})" if first != again else ""
        raise ValueError(
            f"{several(int(twice.sum()), 'row')} more than once for the same "
            f"{' and '.join(labels.columns)}, the first ({again}){after}. Drop or average the "
            "copies."
        )


def _require_dense(shape: tuple[int, ...], n_rows: int, dims: list[str]) -> None:
    if len(dims) > 2 and np.prod(shape[1:]) > SPARSE * max(1, n_rows // shape[0]):
        raise InputError(
            f"{dims[1]} and {dims[2]} make a grid of {shape[1]:,} by {shape[2]:,}, of which almost "
            "nothing is there: these are scattered places. Give them a column with a name each (",
            Option("task", "station"),
            ").",
        )


def _rows(frame: Any, sample: Any) -> tuple[Any, str]:
    """Labels of the rows of a wide table, and what they are called."""
    if sample is None or (sample not in frame.columns and frame.index.name == sample):
        return frame.index, str(frame.index.name or SAMPLE)
    require_column(frame, sample)
    values = frame[sample]
    if getattr(frame.columns, "nlevels", 1) > 1:
        values = values.iloc[:, 0]
    return need("pandas").Index(values.to_numpy()), str(sample)


# -- Results in the form the data came in


@dataclass(frozen=True)
class DataForm:
    """How the data came: the kind of object, and the library it is of."""

    kind: str  # "xarray", "long", "wide", "pairs" or "rows"
    library: str = "xarray"  # or "pandas", "polars"


def dataset(
    form: DataForm, tasks: LabelledTasks, columns: Mapping[str, AnyArray], fill: Any = np.nan
) -> Any:
    """Several values per task, labelled; masked tasks get a fill."""
    if form.kind == "xarray":
        held = {n: (tasks.dims, tasks.spread(v, fill)) for n, v in columns.items()}
        return need("xarray").Dataset(held, coords=tasks.coords.to_xarray())
    pandas = need("pandas")
    return native(form, pandas.DataFrame(dict(columns), index=tasks.index), with_index=True)


def read_again(
    fit: Any, data: Any, names: list[str] | None = None
) -> tuple[Any, Callable[[Any], Any]]:
    """What fit read, the features or what is named, in other data of the kind that fit had.

    And how predictions go back into that kind; of a long table not for tasks that it lacks.
    """
    form, plan, tasks = fit.form, fit.plan, fit.tasks
    if form.kind == "xarray":
        if is_table(data):
            raise ValueError(
                "the model was fitted to xarray data and is given a table: give a Dataset or a "
                "DataArray."
            )
        return as_in_fit(plan, data), lambda found: found
    features = [slot.name for slot in plan.sources]
    names, dims = names or features, (plan.sample, *tasks.dims)
    frame = as_in_fit(plan, _same_table(data))
    require_rows(frame)
    if form.kind == "long":
        built, codes = _pivoted(frame, names, list(dims), tasks.coords)
        flat = np.unique(np.ravel_multi_index(codes[1:], tasks.shape))
        require_members(fit, np.flatnonzero(np.isin(tasks.kept, flat)))
    else:
        known = plan.sample in frame.columns.get_level_values(0)
        index, _ = _rows(frame, plan.sample if known else None)
        if form.kind == "pairs":
            built = _paired(frame, names, dims, index)
        else:
            targets = tasks.coords.index(tasks.dims[0])
            built = _side_by_side(frame, names, dims, index, plan.target, targets)

    def hand_back(found: Any) -> Any:
        values = found.transpose(*dims).values
        if form.kind == "long":
            values = values[tuple(codes)]
            n_missing = int(np.isnan(values).sum())
            if n_missing:
                warnings.warn(
                    f"{n_missing:,} of {values.size:,} predictions are NaN because inputs are "
                    "missing in those rows, or the task was masked in fit.",
                    RuntimeWarning,
                    stacklevel=3,
                )
            return _column_back(form, values, plan.target, frame)
        columns = found.indexes[tasks.dims[0]]
        columns = columns.rename(None) if form.kind == "wide" else columns
        return native(form, need("pandas").DataFrame(values, columns=columns, index=frame.index))

    return built, hand_back


def as_in_fit(plan: Plan, data: Any) -> Any:
    """Data at what was selected in fit, where they have more than that."""
    return selected(data, dict(plan.select), lenient=[name for name, _ in plan.select])


def require_members(fit: Any, given: IntArray) -> None:
    """Refuse some of the tasks where others of their regions are needed to predict them."""
    if getattr(fit.estimator, "aggregate_", "") != "mean" or given.size == fit.tasks.n_tasks:
        return
    labels = fit.estimator.labels_
    absent = np.setdiff1d(np.flatnonzero(np.isin(labels, labels[given])), given)
    if absent.size:
        what, n_cut = fit.tasks.what, np.unique(labels[absent]).size
        raise InputError(
            f"{several(n_cut, 'region')} asked for {'lack' if n_cut > 1 else 'lacks'} "
            f"{several(absent.size, what)} in the data (the first "
            f"{fit.tasks.names[int(absent[0])]}), and a region is predicted from the mean features "
            f"of all its members. Give every {what} of these regions (NaN where nothing is known), "
            "or fit with ",
            Option("aggregate", "pool"),
            f", which predicts each {what} from its own features.",
        )


def _same_table(data: Any) -> Any:
    """A table in pandas, where fit had one too."""
    if not is_table(data):
        raise ValueError("the model was fitted to a table: give a table with the same columns.")
    return as_pandas(data)


def target_in(fit: Any, data: Any) -> Any:
    """The target in data of the kind of fit, on rows and tasks."""
    plan = fit.plan
    found, _ = read_again(fit, data, [plan.target])
    if plan.target not in getattr(found, "variables", ()):
        raise ValueError(f"the data have no {plan.target!r}: give a Dataset with the target.")
    return by_conventions(without_layers(found[plan.target], plan.sample, fit.tasks.dims, []), [])


def rows_in(fit: Any, data: Any) -> tuple[Any, FloatArray, AnyArray]:
    """Features, target and tasks of the complete rows of a table of tasks' own rows."""
    frame = as_in_fit(fit.plan, _same_table(data))
    names = [slot.name for slot in fit.plan.slots]
    X, y, of, whole = read_rows(frame, fit.plan.target, names, fit.tasks.dims[0])
    return X[whole], y[whole], of[whole]


def predict_rows(fit: Any, data: Any, *interval: Any) -> Any:
    """Predict every row of a table, or one end of an interval, by the model of its task."""
    frame = as_in_fit(fit.plan, _same_table(data))
    (task,) = fit.tasks.dims
    if task not in frame.columns:
        raise ValueError(f"there is no column {task!r}, which says whose each row is.")
    require_rows(frame)
    X = need("pandas").DataFrame({slot.name: column(frame, slot.name) for slot in fit.plan.slots})
    complete = X.notna().all(axis=1).to_numpy()
    predicted = np.full(len(frame), np.nan)
    if complete.any():
        ids = frame[task].to_numpy()[complete]
        if interval:
            coverage, end = interval
            told = fit.estimator.predict_interval(X[complete], coverage, tasks=ids)
            predicted[complete] = told[end]
        else:
            predicted[complete] = fit.estimator.predict(X[complete], tasks=ids)
    return _column_back(fit.form, predicted, fit.plan.target, frame)


def _column_back(form: DataForm, values: FloatArray, name: str, frame: Any) -> Any:
    if form.library == "polars":
        return need("polars").Series(name, values)
    return need("pandas").Series(values, index=frame.index, name=name)


def native(form: DataForm, frame: Any, with_index: bool = False) -> Any:
    """A pandas table in the library the data came from, which may have no index."""
    if form.library != "polars":
        return frame
    frame = frame.reset_index() if with_index else frame
    return need("polars").DataFrame({str(n): frame[n].to_numpy() for n in frame.columns})
