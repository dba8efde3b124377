"""Tables of pandas, polars and geopandas into labelled arrays, and rows back out of them.

Long: one row for every sample and task. Wide: one row a sample, a column for each target, features
that all share. Pairs: one row a sample, columns named by (variable, task). Rows: one row for every
observation of a task, with rows of its own.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ctfa import _validation as check
from ctfa._collections import is_dask
from ctfa.core.libraries import need
from ctfa.core.types import FloatArray, IntArray
from ctfa.labelled._coordinates import EAST, NORTH
from ctfa.labelled._words import hint, kind_of, listed, several, word

#: More places in a grid than this for each that is there: they are no grid.
SPARSE = 20
#: What tasks and rows of a wide table are called that does not say.
TASK, SAMPLE = "target", "row"


class Table(NamedTuple):
    """A table as labelled arrays."""

    dataset: Any  # xarray Dataset
    target: str
    features: list[str]
    sample: str
    task: tuple[str, ...]
    kind: str  # "long", "wide" or "pairs"
    geometry: Any = None  # GeoSeries by task, where the table had one


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


def require_filled(labels: Any, dim: str) -> None:
    """Refuse rows of a long table that do not say when, or whose they are."""
    count = int(labels.isna().sum())
    if count:
        raise ValueError(f"{several(count, 'row')} without a {dim}: drop or complete them.")


def read_table(data: Any, target: Any, features: Any, sample: Any, task: Any) -> Table:
    """Put a table into labelled arrays, whichever its shape."""
    frame = as_pandas(data)
    require_rows(frame)
    if getattr(frame.columns, "nlevels", 1) > 1:
        return _pairs(frame, target, features, sample, task)
    twice = frame.columns[frame.columns.duplicated()]
    if len(twice):
        raise ValueError(f"column {twice[0]} is there twice: name each once.")
    tasks = names_of(task, ())
    if tasks:
        return _long(frame, target, features, sample, tasks)
    return _wide(frame, target, features, sample)


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


def _long(frame: Any, target: Any, features: Any, sample: Any, tasks: list[str]) -> Table:
    if not isinstance(target, str):
        raise ValueError(
            f"target is {kind_of(target)}: with a task column, name the one column to predict."
        )
    if sample is None:
        raise ValueError(
            f"say which column says when each row was (sample='time'): {' and '.join(tasks)} say "
            "where."
        )
    places = {name for name in frame.columns if _is_place(name)}
    fixed = {target, sample, *tasks, _geometry_name(frame), *places}
    names = names_of(features, numeric_columns(frame, fixed))
    dims = [sample, *tasks]
    indexes, codes = _codes(frame, dims, sort_from=len(tasks) > 1)
    _require_once(frame, dims)
    shape = tuple(len(index) for index in indexes)
    _require_dense(shape, len(frame), dims)
    held = {name: (dims, pivot(column(frame, name), codes, shape)) for name in [target, *names]}
    coords: dict[str, Any] = dict(zip(dims, indexes, strict=True))
    geometry = None
    if len(tasks) == 1:
        coords |= _places_of(frame, tasks[0], codes[1], shape[1])
        geometry = _geometry_of(frame, indexes[1], codes[1])
    dataset = need("xarray").Dataset(held, coords=coords)
    return Table(dataset, target, list(map(str, names)), sample, tuple(tasks), "long", geometry)


def _wide(frame: Any, target: Any, features: Any, sample: Any) -> Table:
    targets = names_of(target, ())
    if not targets:
        raise ValueError("name the columns to predict (target=[...]), or the task column.")
    names = names_of(features, (n for n in frame.columns if n not in targets and n != sample))
    both = [name for name in names if name in targets]
    if both:
        raise ValueError(f"{listed(both)} is a target and a feature too: leave it out of one.")
    index, dim = _rows(frame, sample)
    values = np.column_stack([column(frame, name) for name in targets])
    held: dict[str, Any] = {_free("value", names): ((dim, TASK), values)}
    held |= {str(name): ((dim,), column(frame, name)) for name in names}
    dataset = need("xarray").Dataset(held, coords={dim: index, TASK: targets})
    return Table(dataset, next(iter(held)), list(map(str, names)), dim, (TASK,), "wide")


def _pairs(frame: Any, target: Any, features: Any, sample: Any, task: Any) -> Table:
    if frame.columns.nlevels != 2:
        raise ValueError(
            f"the table's columns have {frame.columns.nlevels} levels: two are read, (variable, "
            "task)."
        )
    variables = list(dict.fromkeys(frame.columns.get_level_values(0)))
    names = names_of(features, (name for name in variables if name != target))
    dim_task = task if isinstance(task, str) else frame.columns.names[1] or TASK
    index, dim = _rows(frame, sample)
    for name in [target, *names]:
        if name not in variables:
            raise ValueError(
                f"there is no variable {name!r}{hint(str(name), list(map(str, variables)))} in the "
                f"first level of the columns: it has {listed(variables)}."
            )
    tasks = list(dict.fromkeys(frame[target].columns))
    held = {}
    for name in [target, *names]:
        part = frame[name]
        lacking = np.full(len(frame), np.nan)
        table = [column(part, label) if label in part.columns else lacking for label in tasks]
        held[str(name)] = ((dim, dim_task), np.column_stack(table))
    dataset = need("xarray").Dataset(held, coords={dim: index, dim_task: tasks})
    return Table(dataset, str(target), list(map(str, names)), dim, (dim_task,), "pairs")


def pivot(values: FloatArray, codes: Sequence[IntArray], shape: tuple[int, ...]) -> FloatArray:
    """Numbers of rows on their dimensions, NaN where there is no row."""
    whole = np.full(shape, np.nan)
    whole[tuple(codes)] = values
    return whole


def _codes(frame: Any, dims: list[str], *, sort_from: bool) -> tuple[list[Any], list[IntArray]]:
    """Labels along each dimension, and where each row lies.

    Samples are sorted: rows of a long table have no order of their own. Tasks come as they first
    appear, the two sides of a grid sorted.
    """
    pandas = need("pandas")
    indexes, codes = [], []
    for number, dim in enumerate(dims):
        require_column(frame, dim)
        require_filled(frame[dim], dim)
        code, labels = pandas.factorize(frame[dim], sort=number == 0 or sort_from)
        indexes.append(pandas.Index(labels))
        codes.append(np.asarray(code, dtype=np.intp))
    return indexes, codes


def _require_once(frame: Any, dims: list[str]) -> None:
    twice = frame[dims].duplicated()
    if twice.any():
        first = frame[dims][twice].iloc[0]
        named = ", ".join(f"{dim} {word(first[dim])}" for dim in dims)
        raise ValueError(
            f"{several(int(twice.sum()), 'row')} more than once, the first {named}: every pair of "
            f"{' and '.join(dims)} must come once. Drop or average the copies."
        )


def _require_dense(shape: tuple[int, ...], n_rows: int, dims: list[str]) -> None:
    if len(dims) > 2 and np.prod(shape[1:]) > SPARSE * max(1, n_rows // shape[0]):
        raise ValueError(
            f"{dims[1]} and {dims[2]} make a grid of {shape[1]:,} by {shape[2]:,}, of which almost "
            "nothing is there: these are scattered places. Give them a column with a name each "
            "(task='station')."
        )


def _rows(frame: Any, sample: Any) -> tuple[Any, str]:
    """Labels of the rows of a wide table, and what they are called."""
    if sample is None:
        named = frame.index.name is not None or type(frame.index).__name__ != "RangeIndex"
        return frame.index, str(frame.index.name or SAMPLE) if named else SAMPLE
    if sample not in frame.columns and frame.index.name == sample:
        return frame.index, str(sample)
    require_column(frame, sample)
    values = frame[sample]
    if getattr(frame.columns, "nlevels", 1) > 1:
        values = values.iloc[:, 0]
    return need("pandas").Index(values.to_numpy()), str(sample)


def _is_place(name: Any) -> bool:
    return str(name).lower() in (*EAST, *NORTH)


def _places_of(frame: Any, task: str, code: IntArray, n_tasks: int) -> dict[str, Any]:
    """Longitude and latitude columns, where every task has one value."""
    found = {}
    for name in frame.columns:
        if not _is_place(name) or name == task:
            continue
        try:
            values = column(frame, name)
        except ValueError:
            continue
        first = np.full(n_tasks, np.nan)
        first[code[::-1]] = values[::-1]
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
    first = np.zeros(len(labels), dtype=np.intp)
    first[code[::-1]] = np.arange(len(code))[::-1]
    geometry = frame[name].iloc[first]
    geometry.index = labels
    return geometry


def _free(name: str, taken: Sequence[str]) -> str:
    while name in taken:
        name += "_"
    return name
