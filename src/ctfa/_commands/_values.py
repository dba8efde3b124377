"""The series of a file as plain arrays, taken as they are: who looks for faults must not stop."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ctfa._commands._contents import Period, Roles, period_of
from ctfa.core.libraries import need
from ctfa.core.types import AnyArray, BoolArray, FloatArray


@dataclass(frozen=True, eq=False)
class Values:
    """Target and features by row and task; NaN where there is nothing, or no number."""

    target: FloatArray  # (n_samples, n_tasks)
    features: dict[str, FloatArray]  # (n_samples, n_tasks), or (n_samples, 1) where all share it
    samples: AnyArray  # labels of the rows, in the order in which a fit takes them
    tasks: list[str]
    target_name: str
    is_grid: bool = False
    own_rows: bool = False  # whether each task has rows of its own
    text: dict[str, tuple[int, str]] = field(default_factory=dict)  # values that are no numbers
    n_twice: int = 0  # rows of a table with a pair of sample and task that came before
    twice: str = ""
    task_labels: AnyArray | None = None

    @property
    def n_samples(self) -> int:
        """Rows."""
        return int(self.target.shape[0])

    @property
    def n_tasks(self) -> int:
        """Tasks, with those that have no data."""
        return int(self.target.shape[1])

    @cached_property
    def empty(self) -> BoolArray:
        """Which tasks have no value of the target at all."""
        return np.asarray(np.isnan(self.target).all(axis=0))

    @cached_property
    def period(self) -> Period | None:
        """The times of the rows; None where they have none."""
        return period_of(self.samples)

    @property
    def series(self) -> dict[str, FloatArray]:
        """All of them by name, the target first."""
        return {self.target_name: self.target, **self.features}


def values_of(data: Any, roles: Roles) -> Values:
    """Take the arrays of these roles out of a file; names that are not there are a KeyError."""
    if hasattr(data, "data_vars"):
        return _of_arrays(data, roles)
    if isinstance(roles.target, list) or not roles.task:
        return _of_wide_table(data, roles)
    return _of_long_table(data, roles)


def _of_arrays(data: Any, roles: Roles) -> Values:
    text: dict[str, tuple[int, str]] = {}
    target = data[roles.target]
    dims = [dim for dim in target.dims if dim in roles.task]
    if roles.sample not in target.dims or len(target.dims) != 1 + len(dims):
        there = ", ".join(map(str, target.dims))
        other = [d for d in target.dims if d != roles.sample and d not in dims]
        one = f" (ds.isel({other[0]}=0))" if other else ""
        wanted = ", ".join([str(roles.sample), *roles.task])
        raise ValueError(
            f"{roles.target} has dimensions {there}, and --sample with --task names {wanted}: name "
            f"each of them once, and select one value of any other first{one}."
        )
    n_samples = target.sizes[roles.sample]

    def flat(array: Any) -> FloatArray:
        if roles.sample not in array.dims:
            raise ValueError(
                f"{array.name} does not change along {roles.sample}: it explains nothing here, "
                "leave it out."
            )
        if set(array.dims) == {roles.sample}:
            return _numbers(array.values, str(array.name), text).reshape(n_samples, 1)
        array = array.broadcast_like(target) if set(array.dims) < set(target.dims) else array
        ordered = array.transpose(roles.sample, *dims)
        return _numbers(ordered.values, str(array.name), text).reshape(n_samples, -1)

    samples = data[roles.sample].values if roles.sample in data.coords else np.arange(n_samples)
    along = [data.indexes[dim] if dim in data.indexes else range(target.sizes[dim]) for dim in dims]
    written = str if len(along) == 1 else _coordinate
    names = [",".join(map(written, label)) for label in itertools.product(*along)]
    return Values(
        flat(target),
        {name: flat(data[name]) for name in roles.features},
        samples,
        names,
        str(roles.target),
        is_grid=len(dims) == 2,
        text=text,
        task_labels=np.asarray(along[0]) if len(along) == 1 else None,
    )


def _of_wide_table(data: Any, roles: Roles) -> Values:
    text: dict[str, tuple[int, str]] = {}
    names = roles.targets
    target = np.column_stack([_numbers(data[name].to_numpy(), name, text) for name in names])
    features = {
        name: _numbers(data[name].to_numpy(), name, text)[:, None] for name in roles.features
    }
    samples = data[roles.sample].to_numpy() if roles.sample else np.arange(len(data))
    return Values(target, features, samples, names, "target", text=text)


def _of_long_table(data: Any, roles: Roles) -> Values:
    pandas = need("pandas")
    text: dict[str, tuple[int, str]] = {}
    keys = (
        pandas.MultiIndex.from_frame(data[roles.task])
        if len(roles.task) > 1
        else data[roles.task[0]]
    )
    task, tasks = pandas.factorize(keys, sort=True)
    n_twice, twice = 0, ""
    if roles.sample is None:
        row = data.groupby(roles.task).cumcount().to_numpy()
        samples: AnyArray = np.arange(row.max() + 1 if len(row) else 0)
    else:
        # Sorted, as a fit takes them: rows of a long table have no order of their own.
        row, found = pandas.factorize(data[roles.sample], sort=True)
        samples = np.asarray(found)
        again = data.duplicated([roles.sample, *roles.task]).to_numpy()
        n_twice = int(again.sum())
        if n_twice:
            first = data.loc[again, [roles.sample, *roles.task]].iloc[0]
            twice = " of ".join(str(v).removesuffix(" 00:00:00") for v in first)
    shape = (len(samples), len(tasks))

    def spread(name: str) -> FloatArray:
        whole = np.full(shape, np.nan)
        there = (row >= 0) & (task >= 0)  # a row without a time or a task is nobody's
        whole[row[there], task[there]] = _numbers(data[name].to_numpy(), name, text)[there]
        return whole

    return Values(
        spread(str(roles.target)),
        {name: spread(name) for name in roles.features},
        samples,
        [str(label) for label in tasks],
        str(roles.target),
        is_grid=len(roles.task) == 2,
        own_rows=roles.sample is None,
        text=text,
        n_twice=n_twice,
        twice=twice,
        task_labels=np.asarray(tasks) if len(roles.task) == 1 else None,
    )


def _numbers(values: AnyArray, name: str, text: dict[str, tuple[int, str]]) -> FloatArray:
    """Values as numbers; what is none is counted, with the first of its kind."""
    if values.dtype.kind in "fiub":
        return np.asarray(values, dtype=np.float64)
    if values.dtype.kind in "Mm":
        text[name] = (values.size, str(values.ravel()[0]))
        return np.full(values.shape, np.nan)
    pandas = need("pandas")
    flat = pandas.Series(values.ravel())
    read = pandas.to_numeric(flat, errors="coerce")
    bad = (read.isna() & ~flat.isna()).to_numpy()
    if bad.any():
        text[name] = (int(bad.sum()), str(flat[np.argmax(bad)]))
    return np.asarray(read, dtype=np.float64).reshape(values.shape)


def _coordinate(value: Any) -> str:
    return f"{value:.10g}" if isinstance(value, float | np.floating) else str(value)
