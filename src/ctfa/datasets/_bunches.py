"""The forms in which loaders and generators hand out data: one per kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from ctfa.core.libraries import imported, need
from ctfa.core.types import AnyArray, FloatArray, IntArray
from ctfa.datasets._catalogue import DataFile, FoundFile, find, records
from ctfa.estimators.multi_input import multi_input_layout

NO_PANDAS = "as_frame=True needs pandas: pip install pandas, or leave as_frame out for arrays."


class InputsBunch(Bunch):  # type: ignore[misc]
    """Data of targets with their own inputs: ``data`` is a table, ``inputs`` a cube of it."""

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
        known = self.get("words", ("target", "task"))
        target, task = target or known[0], task or known[1]
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
        task = task or self.get("words", ("target", "task"))[1]
        if self.get("polygons") is not None:
            shapes = [shapely.Polygon(corners) for corners in self.polygons]
        else:
            shapes = list(shapely.points(np.column_stack([self.lon, self.lat])))
        columns = {task: list(self.target_names)}
        return geopandas.GeoDataFrame(columns, geometry=shapes, crs="EPSG:4326")


class Form:
    """Which form of the data the caller of a loader asked for.

    Made before anything is read, so that a missing pandas is told at once. What else a
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
    ) -> list[FoundFile]:
        """Files of the set (or ``only`` some), checked; absent ones are downloaded or explained."""
        how = {"data_home": data_home, "download_if_missing": download_if_missing}
        wanted = self.record.files if only is None else only
        found = [find(file, source=self.record.source, **how) for file in wanted]
        paths = [str(file.path) for file in found]
        self._about = {"filename": paths if len(paths) > 1 else paths[0], **self._about}
        return found

    def give(
        self,
        kind: str,
        X: FloatArray,
        target: AnyArray | None = None,
        tasks: AnyArray | None = None,
        layout: IntArray | None = None,
        *,
        feature_names: Sequence[str],
        time: AnyArray | None = None,
        **more: Any,
    ) -> Any:
        """Data of a kind: ``(X, target, ...)``, the arrays that it has, or a Bunch.

        Targets are a table of ``target_names``, or one series where ``tasks`` say whose rows are.
        """
        data = self._frame(X, feature_names, time)
        names = {name: list(own) for name, own in more.items() if name.endswith("_names")}
        if tasks is not None and self._pandas is not None:
            target = self._pandas.Series(target, name=names["target_names"][0])
            tasks = self._pandas.Series(tasks, name="task")
        elif target is not None:
            target = self._frame(target, names["target_names"], time)
        each = {"target": target, "tasks": tasks, "layout": layout}
        arrays = {name: values for name, values in each.items() if values is not None}
        if self._only_arrays:
            return (data, *arrays.values())
        known = {k: v for k, v in {"time": time, **more, **names}.items() if v is not None}
        about = {"kind": kind, "feature_names": list(feature_names), **known, **self._about}
        return (Bunch if layout is None else InputsBunch)(data=data, **arrays, **about)

    def own_inputs(
        self,
        slots: Mapping[str, FloatArray],
        Y: FloatArray,
        time: AnyArray,
        rows: Any = slice(None),
        *,
        target_names: Sequence[str],
        **more: Any,
    ) -> Any:
        """Some rows of targets with inputs of their own: ``(X, Y, layout)``, or a Bunch.

        A slot is an array (samples, targets), NaN throughout for a target that does not have it,
        or one series that all targets share, which is one column.
        """
        some = {name: values[rows] for name, values in slots.items()}
        X, layout, columns = _table(some, target_names)
        more |= {"slot_names": slots, "feature_names": columns, "target_names": target_names}
        return self.give("own inputs", X, Y[rows], layout=layout, time=time[rows], **more)

    def _frame(self, values: AnyArray, names: Sequence[str], time: Any = None) -> Any:
        if self._pandas is None:
            return values
        index = None
        if time is not None:
            index = self._pandas.DatetimeIndex(time.astype("datetime64[ns]"), name="time")
        return self._pandas.DataFrame(values, columns=list(names), index=index)


def _table(
    slots: Mapping[str, FloatArray], target_names: Sequence[str]
) -> tuple[FloatArray, IntArray, list[str]]:
    """Columns of the first target, of the second, ..., then those that all share; their names."""
    own = [name for name, values in slots.items() if values.ndim == 2]
    shared = [name for name in slots if name not in own]
    table, layout = multi_input_layout(np.stack([slots[name] for name in own], axis=2))
    names = [f"{target_names[i]}__{own[k]}" for i, k in np.argwhere(layout >= 0)]
    last = np.tile(table.shape[1] + np.arange(len(shared)), (len(layout), 1))
    order = [[*own, *shared].index(name) for name in slots]
    columns = np.column_stack([table, *(slots[name] for name in shared)])
    return columns, np.hstack([layout, last])[:, order], [*names, *shared]


def numbered(name: str, count: int) -> list[str]:
    """Names such as ``task_01``, as wide as the last needs."""
    return [f"{name}_{number:0{len(str(count))}d}" for number in range(1, count + 1)]


def require_numbers(
    least: float, most: float | None = None, /, *, whole: bool = True, **given: Any
) -> None:
    """Refuse what is not a number, or not a whole one, in a range; NaN is in none."""
    what, kind = ("whole number", Integral) if whole else ("number", Real)
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, kind):
            raise TypeError(f"{name}={value!r} is not a {what}: give one.")
        if not (float(value) >= least and (most is None or float(value) <= most)):
            limits = f"{least} or more" if most is None else f"from {least} to {most}"
            raise ValueError(f"{name}={value}: give a {what}, {limits}.")
