"""Find the target and the features in xarray's objects, and make the tables that estimators take.

What cannot be meant is refused. Data in chunks stay in chunks. A chunk of a table holds whole rows.
Those of the data may be cut through rows (places apart) and be of any height: they are joined and
cut to pieces that fit in memory several times over.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from ctfa import _reading as check
from ctfa._errors import InputError, Option
from ctfa._reading.sums import compute, is_dask
from ctfa.core.libraries import need
from ctfa.core.types import BoolArray, FloatArray, IntArray
from ctfa.labelled import _doubts as doubts
from ctfa.labelled._labels import (
    called_alike,
    dated_alike,
    on_tasks,
    require_apart,
    require_once,
    same_rows,
)
from ctfa.labelled._tasks import (
    SAMPLES,
    Coordinates,
    LabelledTasks,
    axis_of,
    is_longitude,
    said_axis,
)
from ctfa.labelled._units import in_units_of_fit, without_quantity
from ctfa.labelled._words import hint, kind, kind_of, listed, several, word

#: A date as text whose order by letters is not that of time: 31/12/1999, Dec 1999, 12.1999.
WRITTEN_DATE = re.compile(
    r"\d{1,2}[/.\- ]\d{1,2}[/.\- ]\d{2,4}.*|\d{1,2}[/.]\d{4}|[A-Za-z]{3,9}[ -]\d{2,4}"
)


class Slot(NamedTuple):
    """One feature: its name, what is said of it, and whether it is the same for every task.

    One of the past is read from a variable of another name, so many steps before.
    """

    name: str
    attrs: dict[str, Any]
    shared: bool
    source: str = ""
    lag: int = 0

    @property
    def read(self) -> str:
        """The variable it is read from."""
        return self.source or self.name

    @property
    def units(self) -> str:
        """Its units; empty where nothing is said of them."""
        return str(self.attrs.get("units", ""))


@dataclass(frozen=True, eq=False)
class Plan:
    """Names, dimensions and attributes, as they were when the model was fitted."""

    target: str
    target_attrs: dict[str, Any]
    dims: tuple[str, ...]  # of the target, in its order
    sample: str
    slots: tuple[Slot, ...]
    feature_dim: str | None = None  # where features came in one array, the dimension they lay on
    #: What was selected along neither rows nor tasks: other data are taken at the same.
    select: tuple[tuple[str, str], ...] = ()
    step: tuple[str, float] | None = None  # of the rows in time, where features are of the past

    @property
    def sources(self) -> tuple[Slot, ...]:
        """What is read from data, once each: features, and the target where its past is one."""
        return tuple({s.read: Slot(s.read, s.attrs, s.shared) for s in self.slots}.values())

    @property
    def told(self) -> list[tuple[int, str]]:
        """Slots that are spoken of, and by which name: one of all lags of a feature."""
        first: dict[str, int] = {}
        for number, slot in enumerate(self.slots):
            if slot.source != self.target:  # whose gaps are reported already
                first.setdefault(slot.read, number)
        return [(number, name) for name, number in first.items()]

    @property
    def task_dims(self) -> tuple[str, ...]:
        """Dimensions of the tasks, in the order of the target's."""
        return tuple(dim for dim in self.dims if dim != self.sample)

    @property
    def is_shared(self) -> bool:
        """Whether every feature is the same for all tasks."""
        return all(slot.shared for slot in self.slots)

    @property
    def target_units(self) -> str:
        """Units of the target; empty where nothing is said of them."""
        return str(self.target_attrs.get("units", ""))

    @property
    def target_words(self) -> str:
        """What the target is, for people."""
        return str(self.target_attrs.get("long_name", self.target))


class Gathered(NamedTuple):
    """The target and the features on the same rows and tasks."""

    target: Any  # DataArray
    features: list[Any]  # DataArrays, one per slot
    plan: Plan
    notes: list[str]
    whole: Any = None  # the features in one array, where they came so and all tasks share them
    before: Any = None  # target and features on the rows that each came with


def gather(data: Any, target: Any, features: Any, sample: Any, task: Any) -> Gathered:
    """Find what is asked for.

    Rows that only one of target and features has are left out, with a note; tasks that the features
    lack are an error.
    """
    notes: list[str] = []
    found = by_conventions(_find_target(data, target), notes)
    found = without_layers(found, sample, task, notes)
    sample_dim, task_dims = _read_dims(found, sample, task)
    require_labels(found, sample_dim, task_dims)
    dims = tuple(str(dim) for dim in found.dims)
    slots, feature_dim, whole = _find_features(data, features, found, sample_dim, task_dims, notes)
    slots = [dated_alike(slot, found, sample_dim, notes) for slot in slots]
    for array in (found, *slots):
        require_some(array)
    slots = [on_tasks(slot, found, task_dims) for slot in slots]
    before = found, slots
    whole = [dated_alike(array, found, sample_dim, []) for array in whole]
    found, every = same_rows(found, [*slots, *whole], sample_dim, notes)
    slots, whole = every[: len(slots)], every[len(slots) :]
    shared = [set(slot.dims) == {sample_dim} for slot in slots]
    read = tuple(Slot(str(s.name), dict(s.attrs), k) for s, k in zip(slots, shared, strict=True))
    plan = Plan(str(found.name), dict(found.attrs), dims, sample_dim, read, feature_dim)
    return Gathered(found, slots, plan, notes, whole[0] if whole else None, before)


def by_conventions(data: Any, notes: list[str]) -> Any:
    """Data with the labels and places that files hold beside them, as the CF conventions have it.

    Rows without labels, dated by a coordinate of another name (XTIME along Time), get these; places
    that are written once for every row (XLAT of WRF) are taken from the first where they stay.
    """
    for dim in data.dims:
        along = [name for name, held in data.coords.items() if held.dims == (dim,) and name != dim]
        dated = [name for name in along if said_axis(data.coords[name]) == "T"]
        if dim not in data.indexes and len(dated) == 1 and data[dated[0]].dtype.kind in "MO":
            data = data.assign_coords({dim: data.coords[dated[0]].variable})
            note = f"{dim} has no labels, and is dated by {dated[0]}"
            notes += [] if note in notes else [note]
    rows = rows_of(data.dims, data.coords)
    for name, held in data.coords.items():
        if rows in held.dims and held.ndim > 1 and axis_of(name, held) in ("X", "Y"):
            ends = held.isel({rows: [0, -1]}).values
            if np.array_equal(ends[0], ends[1], equal_nan=True):
                data = data.assign_coords({name: held.isel({rows: 0}, drop=True).variable})
    return data


def without_layers(data: Any, sample: Any, task: Any, notes: list[str]) -> Any:
    """Data without dimensions of one value that are neither rows nor places, such as a level.

    Where tasks are named, or there are too many dimensions to be the sides of a grid, these are all
    others of one value; else those that are called like heights or members of an ensemble.
    """
    named = {task} if isinstance(task, str) else set(map(str, task or ()))
    arrays = data.data_vars.values() if hasattr(data, "data_vars") else [data]
    widest = max((array.dims for array in arrays), key=len, default=())
    rows = sample or rows_of(data.dims, data.coords)
    places = [dim for dim in widest if dim != rows]
    for dim in [dim for dim, size in data.sizes.items() if size == 1]:
        axis = axis_of(dim, data.coords.get(dim))
        if dim == rows or dim in named or places == [dim] or axis in ("X", "Y"):
            continue
        if named or len(places) > 2 or axis == "Z":
            data = _without(data, dim, notes)
            places = [other for other in places if other != dim]
    return data


def is_layer(dim: Any, data: Any) -> bool:
    """Whether a dimension is a height or an ensemble, by its name or by what is said of it."""
    return axis_of(dim, data.coords.get(dim)) == "Z"


def rows_of(dims: Iterable[Any], coords: Any) -> str | None:
    """The dimension of the rows: what is said to be time, else what is called so."""
    names = list(map(str, dims))
    said = [dim for dim in names if said_axis(coords.get(dim)) == "T"]
    among = said or [dim for dim in names if axis_of(dim, coords.get(dim)) == "T"]
    named = (dim for name in SAMPLES for dim in among if dim.lower() == name)
    return next(named, among[0] if among else None)


def _without(data: Any, dim: Any, notes: list[str]) -> Any:
    """Data without a dimension of one value."""
    value = f" ({word(data.indexes[dim][0])})" if dim in data.indexes else ""
    note = f"{dim} has one value{value}, and is left out"
    if note not in notes:
        notes.append(note)
    return data.squeeze(dim, drop=True)


def gather_features(
    data: Any, plan: Plan, tasks: LabelledTasks
) -> tuple[list[Any], dict[str, IntArray], IntArray]:
    """Find what a fitted model reads in other data, on its tasks and in its units.

    Tasks that the data lack have NaN. And where along each dimension there are data, and which
    tasks these are.
    """
    sources = plan.sources
    names = [slot.name for slot in sources]
    feature_dim, task_dims = plan.feature_dim, plan.task_dims
    if feature_dim is not None and hasattr(data, "data_vars"):
        along = [v for v in data.data_vars.values() if {feature_dim, plan.sample} <= set(v.dims)]
        data = along[0] if len(along) == 1 and names[0] not in data.variables else data
    if _is_array(data) and feature_dim is not None:
        if feature_dim not in data.dims:
            raise ValueError(
                f"the data to predict from has dimensions {listed(data.dims)}: the features of "
                f"fit lay along {feature_dim!r}, and so must these."
            )
        split = {str(part.name): part for part in _split(data, feature_dim)}
        missing = [name for name in names if name not in split]
        if missing:
            raise ValueError(f"{feature_dim} lacks {listed(missing)}, which the model needs.")
        given = [split[name] for name in names]
    else:
        known = getattr(data, "variables", None)
        own = any(slot.source == plan.target for slot in plan.slots)
        if own and known is not None and plan.target not in known:
            raise ValueError(
                f"the model was fitted with own_past: predictions need values of {plan.target} "
                f"from the rows before, and the data has no {plan.target!r}. Give it with what was "
                "observed, NaN in the rows that are to be predicted."
            )
        given = _named(_as_dataset(data), names)
    fitted, dims = tasks.coords, (plan.sample, *task_dims)
    sides = {dim: fitted.index(dim) for dim in task_dims}
    there = {dim: np.ones(len(side), dtype=bool) for dim, side in sides.items()}
    for number, slot in enumerate(sources):
        wanted = dims[:1] if slot.shared else dims
        array = by_conventions(without_quantity(given[number]), [])
        require_some(array)
        array = called_alike(_without_single(array, dims, []), wanted, fitted.coords, [])
        _require_same_names(array, wanted)
        array = _whole_tasks(array, sides, task_dims)
        other = next((dim for dim in array.dims if dim not in wanted), None)
        if other is not None and not slot.shared and set(wanted) <= set(array.dims):
            raise ValueError(
                f"{slot.name} has {array.sizes[other]:,} values along {other!r}, on which it did "
                f"not lie in fit: {choose_one(str(other), array, fitted=True)}."
            )
        if set(array.dims) != set(wanted):
            raise ValueError(
                f"{slot.name} has dimensions {listed(array.dims)}, in fit it had "
                f"{listed(sorted(wanted))}: give it the same."
            )
        require_numbers(array)
        given[number] = on_tasks(array, fitted, task_dims, there)
    places = {dim: np.flatnonzero(there[dim]) for dim in task_dims}
    grid = np.zeros(tasks.shape, dtype=bool)
    grid[np.ix_(*places.values())] = True
    chosen = np.flatnonzero(tasks.gather(grid))
    if not chosen.size:
        raise ValueError(
            f"every {tasks.what} in the data to predict from was without data in fit: there is no "
            "model for any."
        )
    return in_units_of_fit(given, sources), places, chosen


def _require_same_names(array: Any, wanted: Sequence[str]) -> None:
    """Say which dimensions of fit are there under other names, where that can be told."""
    lost = [dim for dim in wanted if dim not in array.dims]
    found: dict[str, str] = {}
    for dim in lost:
        others = [str(other) for other in array.dims if other not in (*wanted, *found)]
        axis = axis_of(dim, None)
        alike = [o for o in others if axis and axis_of(o, array.coords.get(o)) == axis]
        if len(lost) == len(others) == 1 and not is_layer(others[0], array):
            alike = others
        if alike:
            found[alike[0]] = dim
    if not lost or len(found) < len(lost):
        return
    said = " and ".join(f"no dimension {dim}, but {other}" for other, dim in found.items())
    renamed = ", ".join(f"{other}={dim!r}" for other, dim in found.items())
    raise ValueError(
        f"{array.name} has {said}: dimensions are called as in fit, so rename "
        f"{'them' if len(found) > 1 else 'it'} (ds.rename({renamed}))."
    )


def require_numbers(array: Any) -> None:
    """Refuse text, dates and the like."""
    if array.dtype.kind not in "fiub":
        raise ValueError(
            f"{array.name} holds {kind(array.dtype)}, not numbers: leave it out, or turn it into "
            "numbers first."
        )


def require_some(array: Any) -> None:
    """Refuse an array without rows, or without tasks."""
    for dim, size in array.sizes.items():
        if not size:
            raise ValueError(
                f"{array.name} is empty: {dim} has no values. Look how the data were selected, and "
                "whether the file was written whole."
            )


def require_labels(array: Any, sample: str, tasks: Sequence[str]) -> None:
    """Refuse labels that are missing or come twice, and times that run backwards."""
    for dim in (sample, *tasks):
        if dim in array.indexes:
            require_known(array.indexes[dim], dim)
            require_once(array.indexes[dim], dim)
    for dim in tasks:
        if dim in array.indexes:
            require_apart(array.indexes[dim], is_longitude(dim, array.coords[dim].attrs))
    index = array.indexes.get(sample)
    if index is None:
        return
    written = (isinstance(x, str) and WRITTEN_DATE.fullmatch(x.strip()) for x in index[:5])
    if len(index) and all(written):
        raise ValueError(
            f"{sample} holds text such as {index[0]!r}, which sorts by letters and not by date: "
            "turn it into dates first (pandas.to_datetime, with dayfirst=True for day before "
            "month), or write it as year-month-day."
        )
    # Numbers and times, those of other calendars too, have an order; names have none.
    has_order = index.dtype.kind in "fiuMm" or (len(index) > 0 and hasattr(index[0], "toordinal"))
    if has_order and not index.is_monotonic_increasing:
        where = next(k for k in range(len(index) - 1) if index[k + 1] < index[k])
        raise ValueError(
            f"{sample} is not sorted: {word(index[where + 1])} comes after {word(index[where])}. "
            f"Blocks of rows are held out, so order matters: use ds.sortby({sample!r})."
        )


def require_known(index: Any, dim: str) -> None:
    """Refuse rows and tasks without a label."""
    missing = 0 if index.nlevels > 1 else int(index.isna().sum())
    if missing:
        raise ValueError(
            f"{dim} is missing (NaN or NaT) in {missing:,} of {len(index):,} places: complete it, "
            "or leave those out."
        )


def _find_target(data: Any, target: Any) -> Any:
    if _is_array(target):
        found = target
    elif target is None and _is_array(data):
        found = data
    elif isinstance(target, str):
        (found,) = _named(_as_dataset(data), [target])
    else:
        raise ValueError(
            f"target is {kind_of(target)}: give the name of a variable, or a DataArray."
        )
    require_numbers(found)
    found = without_quantity(found)
    return found if found.name is not None else found.rename("target")


def _without_single(array: Any, known: Sequence[str], notes: list[str]) -> Any:
    """A feature without dimensions of one value that its target does not have."""
    for dim in [dim for dim, size in array.sizes.items() if size == 1 and dim not in known]:
        array = _without(array, dim, notes)
    return array


def _find_features(
    data: Any, features: Any, target: Any, sample: str, tasks: Sequence[str], notes: list[str]
) -> tuple[list[Any], str | None, list[Any]]:
    """One DataArray per slot, and the dimension they lay on where they came in one array.

    And that array, where all tasks share them.
    """
    given = [without_quantity(a) for a in _given_features(data, features, target, sample)]
    given = [
        called_alike(by_conventions(array, notes), (sample, *tasks), target.coords, notes)
        for array in given
    ]
    slots: list[Any] = []
    feature_dim = None
    for one in given:
        # One array may have one feature, along a dimension that gives it its name.
        names = one.dims if _is_array(features) else ()
        names = [dim for dim in names if not is_layer(dim, one)]
        array = _without_single(one, (sample, *tasks, *names), notes)
        extra = [dim for dim in array.dims if dim not in (sample, *tasks)]
        if sample not in array.dims:
            raise ValueError(
                f"{array.name} has dimensions {listed(array.dims)} and none along {sample!r}: what "
                "does not change from row to row explains nothing here. Leave it out."
            )
        if len(extra) > 1:
            raise ValueError(
                f"{array.name} has dimensions {listed(array.dims)}: besides {sample} and "
                f"{' and '.join(tasks)} one more may hold features, here are {len(extra)}: "
                f"{choose_one(extra[0], array)}, or stack them first."
            )
        if extra:
            feature_dim = str(extra[0])
            slots += _split(array, feature_dim)
        else:
            slots.append(array if array.name is not None else array.rename(f"feature{len(slots)}"))
    if not slots:
        raise ValueError("there are no features: name one at least.")
    for slot in slots:
        require_numbers(slot)
        require_labels(slot, sample, [dim for dim in tasks if dim in slot.dims])
    names = [str(slot.name) for slot in slots]
    again = next((name for name in names if names.count(name) > 1), None)
    if again is not None:
        if feature_dim and len(given) > 1:
            split = [array for array in given if feature_dim in array.dims]
            raise ValueError(
                f"{listed(array.name for array in split)} have {split[0].sizes[feature_dim]:,} "
                f"values along {feature_dim!r} each: {choose_one(feature_dim, split[0])}."
            )
        raise ValueError(f"feature {again} is given twice: name each once.")
    if any(slot is target for slot in slots) or (features is not None and target.name in names):
        raise ValueError(f"{target.name} is the target and a feature too: leave it out of one.")
    slots = [_whole_tasks(slot, target, tasks) for slot in slots]
    if feature_dim is None or len(given) > 1:
        return slots, None, []
    is_shared = set(given[0].dims) == {sample, feature_dim}
    return slots, feature_dim, given if is_shared else []


def _given_features(data: Any, features: Any, target: Any, sample: str) -> list[Any]:
    if features is None:
        dataset = _as_dataset(data)
        known = {name: by_conventions(array, []) for name, array in dataset.data_vars.items()}
        bounds = {
            held.attrs.get(what, held.encoding.get(what))
            for held in dataset.variables.values()
            for what in ("bounds", "climatology")
        }
        return [
            array
            for name, array in known.items()
            if name != target.name and sample in array.dims and array.dtype.kind in "fiu"
            and name not in bounds
        ]  # fmt: skip
    if hasattr(features, "data_vars"):
        return list(features.data_vars.values())
    several = [features] if isinstance(features, str) or _is_array(features) else features
    given = []
    for one in several:
        given += [one] if _is_array(one) else _named(_as_dataset(data), [one])
    return given


def _whole_tasks(slot: Any, target: Any, tasks: Sequence[str]) -> Any:
    """A feature that varies along one side of a grid alone, on all of it."""
    lacking = {dim: target[dim] for dim in tasks if dim not in slot.dims}
    return slot.expand_dims(lacking) if 0 < len(lacking) < len(tasks) else slot


def _read_dims(target: Any, sample: Any, task: Any) -> tuple[str, tuple[str, ...]]:
    dims = [str(dim) for dim in target.dims]
    tasks = [task] if isinstance(task, str) else None if task is None else list(map(str, task))
    if sample is None:
        left = [dim for dim in dims if dim not in (tasks or ())]
        sample = rows_of(left, target.coords)
        if sample is None and tasks is not None and len(left) == 1:
            sample = left[0]
        if sample is None:
            raise ValueError(
                f"{target.name} has dimensions {listed(dims)}: say which one is the rows "
                "(sample=...)."
            )
    if tasks is None:
        tasks = [dim for dim in dims if dim != sample]
        layers = [dim for dim in tasks if is_layer(dim, target)]
        if layers and layers != tasks:
            dim = layers[0]
            raise ValueError(
                f"{target.name} has {target.sizes[dim]:,} values along {dim!r}: "
                f"{choose_one(dim, target)}, or name the dimensions of the tasks (task=...)."
            )
    for dim, what in [(sample, "sample"), *((dim, "task") for dim in tasks)]:
        if dim not in dims:
            raise ValueError(
                f"{what} is {dim!r}, but {target.name} has dimensions {listed(dims)}"
                f"{hint(str(dim), dims)}."
            )
    extra = [dim for dim in dims if dim not in (sample, *tasks)]
    if extra:
        raise ValueError(
            f"{target.name} has dimensions {listed(dims)}: besides {sample} and "
            f"{' and '.join(tasks)} there is {listed(extra)}: {choose_one(extra[0], target)}, or "
            "name it among the tasks."
        )
    if not tasks:
        raise ValueError(
            f"{target.name} lies along {sample!r} alone, so that there is one task and nothing to "
            "group: give a target with a dimension of places, or several columns of a table."
        )
    if len(tasks) > 2:
        axes = {dim: axis_of(dim, target.coords.get(dim)) for dim in tasks}
        other = next((dim for dim in tasks if axes[dim] not in ("X", "Y")), tasks[0])
        raise ValueError(
            f"the tasks lie along {len(tasks)} dimensions, {listed(tasks)}: give one, or the two "
            f"of a grid. Of the others {choose_one(other, target)}, or stack them first."
        )
    # In the order of the target: labels of a grid are read in that order.
    return str(sample), tuple(dim for dim in dims if dim in tasks)


def choose_one(dim: str, array: Any, *, fitted: bool = False) -> str:
    """What to do about a dimension too many, with the option that does it; of fit unless fitted."""
    index = array.indexes.get(dim, range(array.sizes[dim]))
    first = word(index[0])
    there = listed(index, 4)
    value = repr(first) if isinstance(index[0], str) else first
    how = f"select={{{dim!r}: {value}}}"
    if fitted:
        how = f"ds.sel({dim}={value})" if dim in array.indexes else f"ds.isel({dim}=0)"
    return f"choose one ({there}) with {how}, on the command line with --select {dim}={first}"


def _named(dataset: Any, names: Sequence[str]) -> list[Any]:
    for name in names:
        if name not in dataset.variables:
            near = hint(str(name), list(map(str, dataset.variables)))
            there = listed(map(str, dataset.data_vars)) or "nothing"
            raise ValueError(f"there is no variable {name!r}{near}: the data has {there}.")
    return [dataset[name] for name in names]


def _as_dataset(data: Any) -> Any:
    if hasattr(data, "data_vars"):
        return data
    if _is_array(data):
        return data.to_dataset(name=data.name if data.name is not None else "target")
    raise ValueError(
        f"the data is {kind_of(data)}: give an xarray Dataset or DataArray, or a pandas, polars "
        "or geopandas table."
    )


def _split(array: Any, dim: str) -> list[Any]:
    """One array per label of a dimension, with units where a coordinate of that name gives them."""
    parts = []
    for number in range(array.sizes[dim]):
        part = array.isel({dim: number})
        label = part[dim].item() if dim in array.coords else number
        attrs = dict(array.attrs)
        if "units" in array.coords and array["units"].dims == (dim,):
            attrs["units"] = str(part["units"].item())
        extra = [c for c in part.coords if c not in part.dims and array[c].dims == (dim,)]
        parts.append(part.drop_vars(extra).rename(str(label)).assign_attrs(attrs))
    return parts


def _is_array(thing: Any) -> bool:
    return (
        hasattr(thing, "dims") and hasattr(thing, "to_dataset") and not hasattr(thing, "data_vars")
    )


# -- Labelled arrays into the tables that estimators take: what is there, and what is missing


MASKED = ("auto", "leave", "error")
#: Bytes of a piece of all tables, in double precision.
PIECE = 64 << 20


@dataclass(frozen=True, eq=False)
class Arrays:
    """What an estimator is fitted to: rows by columns, the tasks that have data."""

    plan: Plan
    X: Any  # (n_rows, n_columns): an array, or one of Dask's in chunks of rows
    Y: Any  # (n_rows, n_tasks): the same
    layout: IntArray | None  # (n_tasks, n_slots); None where all features are shared
    tasks: LabelledTasks
    samples: Any  # the coordinate of the rows, a DataArray
    notes: list[str]
    has_gaps: bool  # whether a target, or a feature of a task's own, is missing somewhere
    is_presumed: bool = False  # whether only the first rows have been looked at
    seen: dict[str, FloatArray] = field(default_factory=dict)  # what ``some`` gives of chunks
    confounds: Any = None  # Seasons, where some are taken off

    @property
    def is_lazy(self) -> bool:
        """Whether the numbers are still to be computed."""
        return is_dask(self.X) or is_dask(self.Y)

    @property
    def some(self) -> dict[str, FloatArray]:
        """Target and features of some tasks by name, in the first rows of what is in chunks."""
        return self.seen if self.is_lazy else _some(self.X, self.Y, self.layout, self.plan)

    @property
    def columns(self) -> FloatArray | None:
        """Seasons and trend in each row, which every series is first regressed on."""
        return None if self.confounds is None else self.confounds.columns(self.samples)


@dataclass(frozen=True, eq=False)
class Facts:
    """Counts by column and flags by row, of a target and its features; few numbers beside data."""

    n_rows: int
    missing: IntArray  # values of the target that are not there, by task
    constant: BoolArray  # whether those that are there are two or more, and all the same
    slots: list[IntArray]  # missing values by column of each feature
    flat: list[BoolArray]  # the same of those that never change
    complete: BoolArray  # (n_rows,): rows with every feature
    meet: bool  # whether the target is ever there when its features are

    @classmethod
    def of(cls, Y: Any, slots: Sequence[Any], plan: Plan) -> Facts:
        """Look at all values, once; those in chunks are reduced chunk by chunk, in one pass."""
        gaps = [np.isnan(values) for values in (Y, *slots)]
        complete: Any = np.ones(Y.shape[0], dtype=bool)
        if plan.is_shared:
            complete = ~gaps[1].any(axis=1)
            meet = (complete & ~gaps[0].all(axis=1)).any()
        else:
            meet = (~functools.reduce(np.logical_or, gaps)).any()
        counts = [flags.sum(axis=0) for flags in gaps]
        infinite = [np.isinf(values).sum(axis=0) for values in (Y, *slots)]
        flat = [doubts.never_changes(values) for values in (Y, *slots)]
        complete, meet, *found = in_memory([complete, meet, *counts, *infinite, *flat])
        n = 1 + len(slots)
        parts = found[:n], found[n:-n], found[-n:]
        counted, unbounded, never = (_by_name(part[0], part[1:], plan) for part in parts)
        for name, count in unbounded.items():
            if np.any(count):
                raise ValueError(
                    f"{name} holds {several(int(np.sum(count)), 'infinite value')}: turn them into "
                    "NaN (a missing value) or leave those rows out."
                )
        (missing, *counts), (constant, *flat) = counted.values(), never.values()
        if not meet and not plan.is_shared:  # a feature that a task never has need not be there
            lacking = gaps[0]
            for flags, count in zip(gaps[1:], counts, strict=True):
                lacking = lacking | (flags & (np.asarray(count) < Y.shape[0]))
            (meet,) = in_memory([(~lacking).any()])
        return cls(int(Y.shape[0]), missing, constant, counts, flat, complete, bool(meet))

    @property
    def is_plain(self) -> bool:
        """Whether nothing is missing and every target changes."""
        return not any(flags.any() for flags in (self.constant, self.missing, *self.slots))

    def has_gaps(self, kept: IntArray, plan: Plan) -> bool:
        """Whether anything is missing of these tasks, in rows with all that they share."""
        counts = [self.missing[kept]]
        if not plan.is_shared:
            counts += [
                count if slot.shared else count[kept]
                for count, slot in zip(self.slots, plan.slots, strict=True)
            ]
        return any(bool(count.any()) for count in counts)


def arrange(gathered: Gathered, masked: str, *, closely: bool = False) -> Arrays:
    """Take the numbers out, and tell gaps (some values) from masked tasks (none).

    Data in chunks stay there. Their first rows are looked at; all rows, in one pass, where these
    do not tell which tasks have data, or ``closely`` is asked for.
    """
    plan, target = gathered.plan, gathered.target
    sample, dims = plan.sample, plan.task_dims
    Y, slots = first = tables_of(gathered)
    is_lazy = any(map(is_dask, (Y, *slots)))
    presumed = None
    if is_lazy:
        height = next(table for table in (Y, *slots) if is_dask(table)).chunks[0][0]
        found = compute(*(table[: max(int(height), 2)] for table in (Y, *slots)))
        head, *others = (np.asarray(table, dtype=np.float64) for table in found)
        first = head, others
        began = None if closely else Facts.of(*first, plan)
        if began is not None and began.is_plain:
            # A task that is there throughout the first rows and changes in them is not one
            # without data. Gaps that come later are found when the rows are summed up.
            n_rows = int(Y.shape[0])
            presumed = replace(began, n_rows=n_rows, complete=np.ones(n_rows, dtype=bool))
    facts = Facts.of(Y, slots, plan) if presumed is None else presumed
    every = LabelledTasks(dims, Coordinates.of(target, dims), np.arange(Y.shape[1]))
    kept, notes = _kept_tasks(facts, plan, every, masked)
    tasks = replace(every, kept=kept)
    used = facts.complete
    if not used.all():  # without one of the shared features nothing is known of the others
        worst = plan.slots[int(np.argmax([count.max() for count in facts.slots]))].name
        if not used.any():
            raise ValueError(
                f"no row has every feature: {worst} has most gaps. Leave it out, or fill them."
            )
        lost = several(int((~used).sum()), "row")
        notes.append(f"{lost} lacking a feature (mostly {worst}), left out")
    if not facts.meet:
        _refuse_apart(Y, slots, plan, target.indexes.get(sample, np.arange(facts.n_rows)))
    X, layout = table(slots, plan, tasks)
    where = "" if presumed is None else doubts.in_first(len(first[0]), facts.n_rows)
    notes = [*gathered.notes, *notes, *_in_words(facts, first, plan, every, tasks, where)]
    if sample not in target.coords:  # rows without labels are counted
        target = target.assign_coords({sample: np.arange(target.sizes[sample])})
    samples = target[sample][{sample: used}]
    if not used.all():
        X, Y = X[used], Y[used]
    seen = {}
    if is_lazy:
        rows = used[: len(first[0])]
        seen = _some(table(first[1], plan, tasks)[0][rows], first[0][rows][:, kept], layout, plan)
    has_gaps = facts.has_gaps(kept, plan)
    is_presumed = presumed is not None
    return Arrays(plan, X, Y[:, kept], layout, tasks, samples, notes, has_gaps, is_presumed, seen)


def tables_of(gathered: Gathered) -> tuple[Any, list[Any]]:
    """The target and each feature as tables of rows, in the same chunks; nothing is computed.

    Features that all tasks share are one table.
    """
    plan, target = gathered.plan, gathered.target
    sample, dims = plan.sample, plan.task_dims
    arrays = (target, *gathered.features)
    rows: tuple[int, ...] = ()
    # Not whether anything is Dask's: coordinates may be where the numbers are in memory.
    first = next((array for array in arrays if array.chunks is not None), None)
    if first is not None:
        n_numbers = sum(array.size for array in arrays)
        rows = row_chunks(first.chunksizes[sample], n_numbers // max(target.sizes[sample], 1))
    Y = _table(target, sample, dims, rows)
    if rows and gathered.whole is not None:
        return Y, [_table(gathered.whole, sample, (str(plan.feature_dim),), rows)]
    slots = [
        _table(array, sample, () if slot.shared else dims, rows)
        for array, slot in zip(gathered.features, plan.slots, strict=True)
    ]
    return Y, [_side_by_side(slots)] if plan.is_shared else slots


def _table(array: Any, sample: str, dims: Sequence[str], rows: tuple[int, ...]) -> Any:
    ordered = array.transpose(sample, *dims)
    if ordered.chunks is None:
        check.refuse_rounded(ordered.values, str(array.name))
        return np.asarray(ordered.values, dtype=np.float64).reshape(ordered.sizes[sample], -1)
    data = ordered.data.rechunk({0: rows, **dict.fromkeys(range(1, ordered.ndim), -1)})
    return data.reshape(data.shape[0], int(np.prod(data.shape[1:])))


def row_chunks(sizes: Sequence[int], width: int) -> tuple[int, ...]:
    """Heights of chunks: as they are, neighbours joined and high ones cut to fit a piece."""
    most = max(PIECE // (8 * max(width, 1)), 1)
    found: list[int] = []
    for size in sizes:
        if found and found[-1] + size <= most:
            found[-1] += size
            continue
        n_parts = -(-size // most)
        found += [size // n_parts + (part < size % n_parts) for part in range(n_parts)]
    return tuple(found)


def _side_by_side(tables: Sequence[Any]) -> Any:
    """Columns of several tables in one, whole rows in a chunk."""
    joined: Any = np.concatenate(tables, axis=1)
    return joined.rechunk({1: -1}) if is_dask(joined) else joined


def table(slots: list[Any], plan: Plan, tasks: LabelledTasks) -> tuple[Any, IntArray | None]:
    """Put features side by side: those of the tasks slot by slot; and say whose each column is."""
    if plan.is_shared:
        return _side_by_side(slots), None
    blocks = [
        values if slot.shared else values[:, tasks.kept]
        for values, slot in zip(slots, plan.slots, strict=True)
    ]
    starts = np.cumsum([0, *(block.shape[1] for block in blocks[:-1])])
    layout = np.empty((tasks.n_tasks, len(slots)), dtype=np.intp)
    for number, (slot, start) in enumerate(zip(plan.slots, starts.tolist(), strict=True)):
        layout[:, number] = start + (0 if slot.shared else np.arange(tasks.n_tasks))
    return _side_by_side(blocks), layout


def named_inputs(X: FloatArray, plan: Plan) -> Any:
    """Inputs as the estimator takes them: with their names, where a column is a feature."""
    if not plan.is_shared:
        return X
    return need("pandas").DataFrame(X, columns=[slot.name for slot in plan.slots])


def _some(
    X: FloatArray, Y: FloatArray, layout: IntArray | None, plan: Plan
) -> dict[str, FloatArray]:
    """Target and features by name, ``(rows, tasks or 1)``, of some tasks spread over all."""
    tasks = doubts.spread_over(Y.shape[1], doubts.N_LOOKED_AT)
    found = {plan.target: Y[:, tasks]}
    for number, slot in enumerate(plan.slots):
        columns = [number]
        if layout is not None:
            columns = layout[tasks[:1] if slot.shared else tasks, number].tolist()
        found[slot.name] = X[:, columns]
    return found


def _by_name(target: Any, slots: Sequence[Any], plan: Plan) -> dict[str, Any]:
    """What is known of target and features by name, columns last.

    Features that all tasks share are columns of one table, and become one each.
    """
    parts = [slots[0][..., k : k + 1] for k in range(len(plan.slots))] if plan.is_shared else slots
    names = [slot.name for slot in plan.slots]
    return {plan.target: target, **dict(zip(names, parts, strict=True))}


def told_of(seen: dict[str, Any], plan: Plan) -> dict[str, Any]:
    """Of all lags of a feature the first, under the name of the feature."""
    told = {name: seen[plan.slots[number].name] for number, name in plan.told}
    return {plan.target: seen[plan.target], **told}


def _in_words(
    facts: Facts,
    first: tuple[Any, list[Any]],
    plan: Plan,
    every: LabelledTasks,
    tasks: LabelledTasks,
    where: str,
) -> Iterator[str]:
    """What is missing of the tasks that are kept, and what looks wrong in the rows in memory.

    Facts are of some rows where they say ``where``; the first of the tables are always in memory.
    """
    kept = tasks.kept
    share = float(facts.missing[kept].mean()) / facts.n_rows
    if share:
        yield f"{100 * share:.2g} % of {plan.target} missing"
    for number, name in plan.told:
        if plan.slots[number].shared:
            continue
        own = facts.slots[number][kept]
        absent = own == facts.n_rows
        if absent.any():
            yield f"{several(int(absent.sum()), every.what)} without any {name}"
        share = float(own[~absent].mean()) / facts.n_rows if not absent.all() else 0.0
        if share:
            yield f"{100 * share:.2g} % of {name} missing"
    seen = told_of(_by_name(*first, plan), plan)
    target = seen[plan.target]
    in_memory = doubts.in_first(len(target), facts.n_rows)
    yield from map(str, doubts.doubtful_fills(seen, in_memory))
    if not in_memory:
        changes = (facts.missing < facts.n_rows) & ~facts.constant
        found = doubts.copied_targets(plan.target, target, changes, lambda: every.names, every.what)
        yield from map(str, found)
    for number, name in plan.told:
        flat = facts.flat[number] if plan.slots[number].shared else facts.flat[number][kept]
        found = doubts.flat_feature(name, flat, lambda: tasks.names, tasks.what, where)
        yield from map(str, found)


def in_memory(values: Sequence[Any]) -> list[Any]:
    """Compute what is lazy, all in one pass."""
    if not any(map(is_dask, values)):
        return list(values)
    found = compute(*values)
    return list(found) if len(values) > 1 else [found]


def _kept_tasks(
    facts: Facts, plan: Plan, everything: LabelledTasks, masked: str
) -> tuple[IntArray, list[str]]:
    """Tasks with a target and a feature; the others are masked, or refused."""
    if masked not in MASKED:
        known = ", ".join(MASKED)
        raise InputError(Option("masked", masked), f" is not known: use one of {known}.")
    empty = facts.missing == facts.n_rows
    lacking = np.zeros(empty.size, dtype=bool)
    if not plan.is_shared:
        own = [n for n, slot in zip(facts.slots, plan.slots, strict=True) if not slot.shared]
        lacking = np.all([count == facts.n_rows for count in own], axis=0) & ~empty
    constant, lost = facts.constant & ~empty, empty | lacking
    leave = masked == "leave" or (masked == "auto" and everything.is_grid)
    what, n_lost, n_constant = everything.what, int(lost.sum()), int(constant.sum())
    if (lost | constant).all() and n_lost:
        raise ValueError(
            f"every {what} is without data: {plan.target} or all features are NaN everywhere."
        )

    def first() -> str:
        return listed(
            [everything.names[i] for i in np.flatnonzero(lost if n_lost else constant)], 3
        )

    if n_lost and not leave:
        column = plan.target if empty[int(np.argmax(lost))] else "every feature"
        raise InputError(
            f"{several(n_lost, what)} without a single value: {first()} ({column} is NaN in every "
            "row). Leave them out with ",
            Option("masked", "leave"),
            " (they stay in the results as missing), or drop them.",
        )
    if n_constant and not leave:
        raise InputError(
            f"{plan.target} never changes in {several(n_constant, what)}: {first()}. There is "
            "nothing to predict: leave them out with ",
            Option("masked", "leave"),
            ", or drop them.",
        )
    notes = []
    if n_lost:
        notes.append(f"{several(n_lost, what)} of {empty.size:,} without data, left out")
    if n_constant:
        notes.append(f"{several(n_constant, what)} where {plan.target} never changes, left out")
    return np.flatnonzero(~(lost | constant)), notes


def _refuse_apart(Y: Any, slots: Sequence[Any], plan: Plan, index: Any) -> None:
    """Refuse a target that is never there when its features are, as where periods differ."""
    names = [plan.target, *(slot.name for slot in plan.slots)]
    tables = [slots[0][:, :1], slots[0][:, 1:2]] if plan.is_shared else slots
    seen = [(~np.isnan(values)).any(axis=1) for values in (Y, *tables)[:3]]
    spans: list[str] = []
    for name, flags in zip(names, in_memory(seen), strict=False):
        rows = np.flatnonzero(flags)
        if rows.size:
            spans.append(f"{name} from {word(index[rows[0]])} to {word(index[rows[-1]])}")
    raise ValueError(
        f"{plan.target} and its features have no {plan.sample} in common: {', '.join(spans)}. "
        "Check that they are of the same period."
    )
