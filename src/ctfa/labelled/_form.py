"""Data in the form they came in: tables into labelled arrays, results back into either.

Tables are those of pandas, polars and geopandas. Long: one row for every sample and task. Wide: one
row a sample, a column for each target, features that all share. Pairs: one row a sample, columns
named by (variable, task). Rows: one row for every observation of a task, with rows of its own.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ctfa import _validation as check
from ctfa._collections import is_dask
from ctfa._errors import InputError, Option
from ctfa.core.libraries import need
from ctfa.core.types import AnyArray, FloatArray, IntArray
from ctfa.estimators.zeros import beside_zeros
from ctfa.labelled._gather import Gathered, Plan, by_conventions, gather, without_layers
from ctfa.labelled._select import selected
from ctfa.labelled._tasks import EAST, NORTH, Coordinates, Tasks, find_labels, longitudes
from ctfa.labelled._words import hint, kind_of, listed, named_errors, several, word
from ctfa.report import Coefficients

#: More places in a grid than this for each that is there: they are no grid.
SPARSE = 20
#: What tasks and rows of a wide table are called that does not say.
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
        return _with_levels(data)
    if hasattr(data, "collect"):  # a lazy frame
        data = data.collect()
    frame = need("pandas").DataFrame({name: data[name].to_numpy() for name in data.columns})
    for name, dtype in data.schema.items():  # in numpy a time has no zone, and is Greenwich's
        zone = getattr(dtype, "time_zone", None)
        if zone is not None:
            frame[name] = frame[name].dt.tz_localize("UTC").dt.tz_convert(zone)
    return frame


def _with_levels(frame: Any) -> Any:
    """A table indexed by (time, basin), say, with these as columns too; the index stays."""
    index = frame.index
    if index.nlevels == 1 or getattr(frame.columns, "nlevels", 1) > 1:
        return frame
    missing = [name for name in index.names if name is not None and name not in frame.columns]
    return frame.assign(**{str(name): index.get_level_values(name) for name in missing})


def require_rows(frame: Any) -> None:
    """Refuse a table without rows, to learn from or to predict."""
    if not len(frame):
        raise ValueError("the table has no rows: look whether it was written whole.")


def read_table(
    data: Any, target: Any, features: Any, sample: Any, task: Any, select: Any = None
) -> tuple[Gathered, DataForm, Any]:
    """Target and features of a table, its form, and geometry by task where it has some."""
    frame = selected(as_pandas(data), select)
    require_rows(frame)
    library = library_of(data)
    if getattr(frame.columns, "nlevels", 1) > 1:
        return _pairs(frame, target, features, sample, task), DataForm("pairs", library), None
    _require_columns_once(frame)
    tasks = names_of(task, ())
    if not tasks:
        return _wide(frame, target, features, sample), DataForm("wide", library), None
    gathered, geometry = _long(frame, target, features, sample, tasks)
    return gathered, DataForm("long", library), geometry


def read_rows(
    data: Any, target: str, features: Any, task: str, select: Any = None
) -> tuple[Any, FloatArray, Any]:
    """Features, target and tasks of a table in which every task has rows of its own."""
    frame = selected(as_pandas(data), select)
    require_rows(frame)
    y = column(frame, target)
    names = list(map(str, names_of(features, numeric_columns(frame, {target, task}))))
    if not names:
        raise ValueError("there are no features: name one at least.")
    require_column(frame, task)
    X = np.column_stack([column(frame, name) for name in names])
    return need("pandas").DataFrame(X, columns=names), y, frame[task]


def _require_columns_once(frame: Any) -> None:
    twice = frame.columns[frame.columns.duplicated()]
    if len(twice):
        raise ValueError(f"column {twice[0]} is there twice: name each once.")


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
        raise ValueError(
            f"{name} holds {_example(values)}, which is no number: leave {name} out, or turn it "
            "into numbers first (pandas.to_numeric)."
        )
    check.refuse_rounded(values, str(name))
    return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))


def _example(values: Any) -> str:
    """The first value of a column that is no number."""
    if values.dtype.kind in "Mm":
        return f"{values.dtype} values"
    numbers = need("pandas").to_numeric(values.astype(str), errors="coerce")
    wrong = values[numbers.isna() & values.notna()]
    return repr(wrong.iloc[0]) if len(wrong) else f"{values.dtype} values"


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
    places = {name for name in frame.columns if _is_place(name)}
    fixed = {target, sample, *tasks, _geometry_name(frame), *places}
    names = names_of(features, numeric_columns(frame, fixed))
    dataset, codes = _pivoted(frame, [target, *names], [sample, *tasks])
    geometry = None
    if len(tasks) == 1:
        (task,) = tasks
        geometry = _geometry_of(frame, dataset.indexes[task], codes[1])
        dataset = dataset.assign_coords(_places_of(frame, task, codes[1]))
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
    values = np.column_stack([column(frame, name) for name in targets])
    value = _free("value", names)
    held: dict[str, Any] = {value: ((dim, TASK), values)}
    held |= {str(name): ((dim,), column(frame, name)) for name in names}
    dataset = need("xarray").Dataset(held, coords={dim: index, TASK: targets})
    return gather(dataset, value, list(map(str, names)), dim, TASK)


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


def _is_place(name: Any) -> bool:
    return str(name).lower() in (*EAST, *NORTH)


def _places_of(frame: Any, task: str, code: IntArray) -> dict[str, Any]:
    """Longitude and latitude columns, where every task has one value."""
    found = {}
    for name in frame.columns:
        if not _is_place(name) or name == task:
            continue
        try:
            values = column(frame, name)
        except ValueError:
            continue
        first = values[np.unique(code, return_index=True)[1]]
        if np.array_equal(first[code], values, equal_nan=True):
            found[str(name)] = (task, first)
    return found


def _geometry_name(frame: Any) -> Any:
    return getattr(frame, "_geometry_column_name", None)


def _geometry_of(frame: Any, labels: Any, code: IntArray) -> Any:
    """Geometry by task, where the table has a column of it."""
    name = _geometry_name(frame)
    if name is None or name not in frame.columns:
        return None
    geometry = frame[name].iloc[np.unique(code, return_index=True)[1]]
    geometry.index = labels
    return geometry


def _free(name: str, taken: Sequence[str]) -> str:
    while name in taken:
        name += "_"
    return name


# -- Results in the form the data came in


@dataclass(frozen=True)
class DataForm:
    """How the data came: the kind of object, and the library it is of."""

    kind: str  # "xarray", "long", "wide", "pairs" or "rows"
    library: str = "xarray"  # or "pandas", "polars"


def dataset(
    form: DataForm, tasks: Tasks, columns: Mapping[str, AnyArray], fill: Any = np.nan
) -> Any:
    """Several values per task, labelled; masked tasks get a fill."""
    if form.kind == "xarray":
        held = {n: (tasks.dims, tasks.spread(v, fill)) for n, v in columns.items()}
        return need("xarray").Dataset(held, coords=tasks.coords.to_xarray())
    pandas = need("pandas")
    index = pandas.Index(tasks.labels, name=tasks.dims[0])
    if len(tasks.dims) > 1:
        index = pandas.MultiIndex.from_tuples(tasks.labels, names=tasks.dims)
    return _native(form, pandas.DataFrame(dict(columns), index=index), with_index=True)


#: What errors may be divided by, in the order of their axes; and what tells rows apart.
DIVISIONS = ("block", "season", "region", "task")
TOLD_BY = {
    "block": "rows in memory that are a series, and two to 24 folds",
    "season": "rows in memory with dates less than half a year apart",
}


def divided(fit: Any, by: Sequence[str]) -> Any:
    """Held-out errors and skill in parts: a Dataset, or a frame with a row for each part."""
    group, labels = fit.tasks.group, _parts(fit)
    for part in by:
        check.require(part, list(DIVISIONS), "by")
        if part not in labels:
            raise ValueError(f"by={part!r} needs {TOLD_BY[part]}: leave it out.")
    if len({*by}) < len(by) or {"region", "task"} <= {*by}:
        raise ValueError(f"by={list(by)}: name each once, and one of 'region' and 'task'.")
    columns = _skills(fit, by)
    order = [part for part in DIVISIONS if part in by]
    dims = [group if part == "region" else part for part in order]
    if fit.form.kind != "xarray":
        pandas = need("pandas")
        flat = pandas.DataFrame({name: np.ravel(values) for name, values in columns.items()})
        if order:
            names = [fit.tasks.dims[0] if dim == "task" else dim for dim in dims]
            each = [labels[part] for part in order]
            flat.index = pandas.MultiIndex.from_product(each, names=names)
        if len(order) == 1:
            flat.index = flat.index.get_level_values(0)
        return _native(fit.form, flat, with_index=bool(order))
    coords = {dim: np.asarray(labels[part]) for dim, part in zip(dims, order, strict=True)}
    held = {name: (dims, values) for name, values in columns.items()}
    if "task" in by:
        *dims, _ = dims
        coords.pop("task")
        coords |= dict(fit.tasks.coords.to_xarray())
        held = {
            name: ([*fit.tasks.dims, *dims], fit.tasks.spread(np.moveaxis(values, -1, 0), np.nan))
            for name, values in columns.items()
        }
    found = need("xarray").Dataset(held, coords=coords, attrs=fit.error_attrs())
    return found.transpose(*dims, ...)


def _parts(fit: Any) -> dict[str, Any]:
    """What held-out errors can be divided by, and what its parts are called."""
    labels: dict[str, Any] = {"region": range(fit.n_regions), "task": fit.tasks.names}
    parts = fit.need_held_out().parts
    found = {} if parts is None else {"season": parts.seasons, "block": parts.blocks}
    return {name: known for name, known in found.items() if len(known)} | labels


def _skills(fit: Any, by: Sequence[str]) -> dict[str, FloatArray]:
    held_out = fit.need_held_out()
    errors = held_out.divided(by, fit.estimator.labels_)
    mine, *_ = errors.values()
    found = named_errors(errors) | beside_zeros(
        mine, {name: errors[name] for name in held_out.zeros}
    )
    covered = held_out.covered(by, fit.estimator.labels_)
    return found if covered is None else found | {"coverage_90": covered}


def each_division(fit: Any) -> Iterator[tuple[str, list[str], dict[str, FloatArray]]]:
    """Errors and skill of all rows, by season, by block and by region: what, parts and columns."""
    for by, names in {"all": ["all"], **_parts(fit)}.items():
        if by != "task":
            columns = _skills(fit, [by] if by != "all" else [])
            yield by, list(map(str, names)), {n: np.atleast_1d(v) for n, v in columns.items()}


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
        return as_in_fit(plan, data), lambda found: found
    frame = as_in_fit(plan, _same_table(data))
    if form.kind == "long":
        return _long_features(fit, frame)
    require_rows(frame)
    first_level = frame.columns.get_level_values(0)
    index, _ = _rows(frame, plan.sample if plan.sample in first_level else None)
    names = [slot.name for slot in plan.sources]
    if form.kind == "pairs":
        dataset = _paired(frame, names, (plan.sample, tasks.dims[0]), index)
    else:
        _require_columns_once(frame)
        held: dict[str, Any] = {
            name: (plan.sample, column(frame, name)) for name in names if name != plan.target
        }
        coords = {plan.sample: index}
        if plan.target in names:  # its own past
            coords |= {dim: tasks.coords.index(dim) for dim in tasks.dims}
            own = [column(frame, name) for name in coords[tasks.dims[0]]]
            held[plan.target] = ((plan.sample, *tasks.dims), np.column_stack(own))
        dataset = need("xarray").Dataset(held, coords=coords)

    def hand_back(found: Any) -> Any:
        values = found.transpose(plan.sample, *tasks.dims).values
        columns = found.indexes[tasks.dims[0]]
        table = need("pandas").DataFrame(values, columns=columns, index=frame.index)
        if form.kind == "wide":
            table.columns.name = None
        return _native(form, table)

    return dataset, hand_back


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
    plan, tasks = fit.plan, fit.tasks
    if fit.form.kind == "xarray":
        data = features_in(fit, data)[0]
        if plan.target not in getattr(data, "variables", ()):
            raise ValueError(f"the data have no {plan.target!r}: give a Dataset with the target.")
        return by_conventions(without_layers(data[plan.target], plan.sample, tasks.dims, []), [])
    frame = as_in_fit(plan, _same_table(data))
    dims = (plan.sample, *tasks.dims)
    if fit.form.kind == "long":
        return _pivoted(frame, [plan.target], list(dims), tasks.coords)[0][plan.target]
    known = plan.sample if plan.sample in frame.columns.get_level_values(0) else None
    index = _rows(frame, known)[0]
    if fit.form.kind == "pairs":
        return _paired(frame, [plan.target], dims, index)[plan.target]
    values = np.column_stack([column(frame, name) for name in tasks.labels])
    coords = {plan.sample: index, tasks.dims[0]: tasks.labels}
    return need("xarray").DataArray(values, dims=dims, coords=coords, name=plan.target)


def rows_in(fit: Any, data: Any) -> tuple[Any, FloatArray, Any]:
    """Features, target and tasks of the complete rows of a table of tasks' own rows."""
    frame = as_in_fit(fit.plan, _same_table(data))
    names = [slot.name for slot in fit.plan.slots]
    X, y, of = read_rows(frame, fit.plan.target, names, fit.tasks.dims[0])
    whole = ~(X.isna().any(axis=1).to_numpy() | np.isnan(y) | of.isna().to_numpy())
    return X[whole], y[whole], of.to_numpy()[whole]


#: Ends of an interval, as a dimension and as endings of columns.
ENDS = ("lower", "upper")


def bounds(fit: Any, lower: Any, upper: Any, coverage: float) -> Any:
    """Both ends of intervals in one: along ``bound``, or in columns beside each other."""
    form, name = fit.form, fit.plan.target
    if form.kind == "xarray":
        xarray = need("xarray")
        ends = xarray.Variable("bound", np.array(ENDS, dtype=object))
        both = xarray.concat([lower, upper], dim="bound").assign_coords(bound=ends)
        words = fit.plan.target_words or name
        told = {
            "long_name": f"{100.0 * coverage:g} % prediction interval of {words}",
            "coverage": coverage,
        }
        return both.transpose(*lower.dims, "bound").rename(f"{name}_interval").assign_attrs(told)
    if hasattr(lower, "columns"):
        columns = {
            f"{column}_{end}": table[column]
            for column in lower.columns
            for end, table in zip(ENDS, (lower, upper), strict=True)
        }
    else:
        columns = {f"{name}_{end}": one for end, one in zip(ENDS, (lower, upper), strict=True)}
    library = need("polars" if form.library == "polars" else "pandas")
    return library.DataFrame(columns)


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


def _long_features(fit: Any, frame: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Features of a long table on the tasks of fit; those that it lacks are not handed back."""
    plan, tasks = fit.plan, fit.tasks
    require_rows(frame)
    dims = [plan.sample, *tasks.dims]
    built, codes = _pivoted(frame, [slot.name for slot in plan.sources], dims, tasks.coords)
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
