"""The forms in which loaders and generators hand out data: one a kind."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from ctfa.core.libraries import imported, need
from ctfa.core.types import AnyArray, FloatArray, IntArray
from ctfa.datasets._catalogue import records
from ctfa.datasets._files import DataFile, Found, find
from ctfa.estimators.multi_input import multi_input_layout

NO_PANDAS = "as_frame=True needs pandas: pip install pandas, or leave as_frame away for arrays."

#: What columns of a Bunch are called by.
NAMES = ("feature_names", "slot_names", "target_names")


class InputsBunch(Bunch):  # type: ignore[misc]
    """Data of targets with inputs of their own: ``data`` is a table, ``inputs`` a cube of it."""

    @property
    def inputs(self) -> FloatArray:
        """Inputs as (samples, targets, slots): a view of ``data`` if it has just these columns."""
        layout: IntArray = self.layout
        table = np.asarray(self.data)
        if np.array_equal(layout.ravel(), np.arange(table.shape[1])):
            return table.reshape(len(table), *layout.shape)
        cube = np.full((len(table), *layout.shape), np.nan)
        cube[:, layout >= 0] = table[:, layout[layout >= 0]]
        return cube

    def to_xarray(self, *, target: str | None = None, task: str | None = None) -> Any:
        """The same as an xarray Dataset on (time, task): the target and each input a variable.

        An input that all targets share lies along time alone. Longitude, latitude and elevation are
        coordinates of the tasks, where they are known. ``ctfa.labelled.fit`` takes it.
        """
        xarray = need("xarray", "to_xarray")
        target, task = self._words(target, task)
        layout, cube = np.asarray(self.layout), self.inputs
        held: dict[str, Any] = {target: (("time", task), np.asarray(self.target))}
        for slot, name in enumerate(self.slot_names):
            columns = layout[:, slot]
            if len(columns) > 1 and (columns == columns[0]).all():
                held[name] = (("time",), cube[:, 0, slot])
            else:
                held[name] = (("time", task), cube[:, :, slot])
        months = np.datetime64("2000-01") + np.arange(len(cube))
        times = self.get("time")
        times = np.asarray(months if times is None else times).astype("datetime64[ns]")
        coords: dict[str, Any] = {"time": times, task: list(self.target_names)}
        for name, units in (("lon", "degrees_east"), ("lat", "degrees_north"), ("elevation", "m")):
            if name in self:
                coords[name] = (task, np.asarray(self[name]), {"units": units})
        dataset = xarray.Dataset(held, coords=coords)
        for name, units in self.get("units", {}).items():
            dataset[name].attrs["units"] = units
        return dataset

    def to_geopandas(self, *, task: str | None = None) -> Any:
        """Outlines of the targets, or their positions, as a GeoDataFrame; needs geopandas."""
        geopandas = need("geopandas", "to_geopandas")
        shapely = need("shapely", "to_geopandas")
        _, task = self._words(None, task)
        if self.get("polygons") is not None:
            shapes = [shapely.Polygon(corners) for corners in self.polygons]
        else:
            shapes = list(shapely.points(np.column_stack([self.lon, self.lat])))
        columns = {task: list(self.target_names)}
        return geopandas.GeoDataFrame(columns, geometry=shapes, crs="EPSG:4326")

    def _words(self, target: str | None, task: str | None) -> tuple[str, str]:
        """What a target is, and what it is of."""
        own = self.get("words", ("target", "task"))
        return target or own[0], task or own[1]


class Form:
    """Which form of the data the caller of a loader asked for.

    Made before anything is read: to load for a minute and then lack pandas is no fun. What else a
    Bunch is to have (``feature_names``, ``lat``, ...) is given by name; what is None is left out.
    """

    def __init__(
        self, name: str | None = None, *, as_frame: bool = False, return_X_y: bool = False
    ) -> None:
        self._pandas = imported("pandas", NO_PANDAS) if as_frame else None
        self._only_arrays = return_X_y
        self._about: dict[str, Any] = {}
        if name is not None:
            self.record = records()[name]
            self._about["DESCR"] = self.record.description

    def files(
        self, data_home: Any, download_if_missing: bool, only: Sequence[DataFile] | None = None
    ) -> list[Found]:
        """Files of the set (or ``only`` some), checked; absent ones are downloaded or explained."""
        found = [
            find(
                file,
                data_home=data_home,
                download_if_missing=download_if_missing,
                source=self.record.source,
            )
            for file in (self.record.files if only is None else only)
        ]
        paths = [str(file.path) for file in found]
        self._about = {"filename": paths if len(paths) > 1 else paths[0], **self._about}
        return found

    def shared(self, X: FloatArray, Y: FloatArray, **more: Any) -> Any:
        """All targets on the same inputs: ``(X, Y)``, or a Bunch."""
        data = self._frame(X, more["feature_names"])
        return self._given("shared", data, target=self._frame(Y, more["target_names"]), **more)

    def own_rows(self, X: FloatArray, y: FloatArray, tasks: AnyArray, **more: Any) -> Any:
        """Tasks with rows of their own: ``(X, y, tasks)``, or a Bunch."""
        data = self._frame(X, more["feature_names"])
        target, whose = self._series(y, more["target_names"][0]), self._series(tasks, "task")
        return self._given("own rows", data, target=target, tasks=whose, **more)

    def own_inputs(
        self, slots: Mapping[str, FloatArray], Y: FloatArray, time: AnyArray | None, **more: Any
    ) -> Any:
        """Targets with inputs of their own: ``(X, Y, layout)``, or a Bunch with ``inputs``.

        A slot is an array (samples, targets), NaN throughout for a target that has it not, or one
        series that all targets share, which is one column.
        """
        X, layout = _table(slots)
        columns = _column_names(layout, list(slots), more["target_names"])
        data, target = self._frame(X, columns, time), self._frame(Y, more["target_names"], time)
        names = {"feature_names": columns, "slot_names": slots}
        return self._given(
            "own inputs", data, target=target, layout=layout, time=time, **names, **more
        )

    def series(self, X: FloatArray, *, feature_names: Sequence[str], time: AnyArray) -> Any:
        """Series to join to others by date: a Bunch without a target."""
        data = self._frame(X, feature_names, time)
        return self._given("extra features", data, feature_names=feature_names, time=time)

    def _given(self, kind: str, data: Any, **more: Any) -> Any:
        arrays = {name: more.pop(name) for name in ("target", "tasks", "layout") if name in more}
        if self._only_arrays:
            return (data, *arrays.values())
        names = {name: list(more.pop(name)) for name in NAMES if name in more}
        known = {name: value for name, value in more.items() if value is not None}
        bunch = InputsBunch if kind == "own inputs" else Bunch
        return bunch(data=data, **arrays, **names, kind=kind, **known, **self._about)

    def _frame(self, values: FloatArray, names: Sequence[str], time: Any = None) -> Any:
        if self._pandas is None:
            return values
        index = None
        if time is not None:
            index = self._pandas.DatetimeIndex(time.astype("datetime64[ns]"), name="time")
        return self._pandas.DataFrame(values, columns=list(names), index=index)

    def _series(self, values: AnyArray, name: str) -> Any:
        return values if self._pandas is None else self._pandas.Series(values, name=name)


def _table(slots: Mapping[str, FloatArray]) -> tuple[FloatArray, IntArray]:
    """Columns of the first target, of the second, ..., then those that all share."""
    own = [number for number, values in enumerate(slots.values()) if values.ndim == 2]
    series = list(slots.values())
    table, own_layout = multi_input_layout(np.stack([series[number] for number in own], axis=2))
    layout = np.full((len(own_layout), len(series)), -1, dtype=np.intp)
    layout[:, own] = own_layout
    shared = [number for number in range(len(series)) if number not in own]
    layout[:, shared] = table.shape[1] + np.arange(len(shared))
    return np.column_stack([table, *(series[number] for number in shared)]), layout


def _column_names(
    layout: IntArray, slot_names: Sequence[str], target_names: Sequence[str]
) -> list[str]:
    """Names of columns; one that many targets share is called after its slot alone."""
    users = np.bincount(layout[layout >= 0])
    names = [""] * users.size
    for target, slot in zip(*np.nonzero(layout >= 0), strict=True):
        column, name = layout[target, slot], slot_names[slot]
        names[column] = name if users[column] > 1 else f"{target_names[target]}__{name}"
    return names


def numbered(name: str, count: int) -> list[str]:
    """Names such as ``task_01``, as wide as the last needs."""
    return [f"{name}_{number:0{len(str(count))}d}" for number in range(1, count + 1)]


def require_count(name: str, value: Any, *, least: int, most: int | None = None) -> None:
    """Refuse what is not a whole number in a range."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name}={value!r} is not a whole number: give how many.")
    value = int(value)
    if value < least or (most is not None and value > most):
        limits = f"at least {least}" if most is None else f"from {least} to {most}"
        raise ValueError(f"{name}={value}: give a whole number, {limits}.")


def require_number(name: str, value: Any, *, least: float, most: float | None = None) -> None:
    """Refuse what is not a number in a range; NaN is in none."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name}={value!r} is not a number.")
    value = float(value)
    if not (value >= least and (most is None or value <= most)):
        limits = f"{least} or more" if most is None else f"from {least} to {most}"
        raise ValueError(f"{name}={value}: give a number, {limits}.")


def require_choice(name: str, value: Any, choices: Collection[str]) -> None:
    """Refuse what is not one of some words."""
    if value not in choices:
        words = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"{name}={value!r} is unknown: give one of {words}.")
