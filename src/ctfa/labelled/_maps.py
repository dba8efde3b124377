"""Regions as places: tables with outlines, and what a map is drawn from."""

from __future__ import annotations

from typing import Any

import numpy as np

from ctfa.core.libraries import need
from ctfa.core.types import FloatArray
from ctfa.estimators.view import FittedGroups
from ctfa.labelled._coordinates import in_one_piece
from ctfa.labelled._geometry import Geometry
from ctfa.labelled._tasks import Tasks
from ctfa.labelled._words import error_columns
from ctfa.report import Places

#: Steps of a regular grid differ by no more than this share.
REGULAR = 1e-3
#: A map that leaves out so many degrees of longitude, a twelfth of the globe, ends there.
OPEN = 30.0


def places(tasks: Tasks, geometry: Geometry | None) -> Places | None:
    """Where tasks lie: outlines, the cells of a regular grid, or positions; None if unknown."""
    if geometry is not None:
        return Places(geometry.centres(), geometry.rings(), geographic=bool(geometry.is_geographic))
    positions = tasks.positions()
    if positions is None or not np.isfinite(positions).all():
        return None
    if tasks.is_geographic:  # a window across Greenwich may be written 359.5, 0, 0.5
        positions = np.column_stack([in_one_piece(positions[:, 0], OPEN), positions[:, 1]])
    return Places(positions, cell=_cell(tasks, positions), geographic=tasks.is_geographic)


def region_table(fit: Any) -> Any:
    """One row a task, with its outline or its position where that is known."""
    pandas = need("pandas")
    tasks, model = fit.tasks, fit.estimator
    columns = label_columns(tasks)
    positions = tasks.positions()
    if positions is not None and len(columns) == 1:
        columns |= {"east": positions[:, 0], "north": positions[:, 1]}
    columns[tasks.group] = model.labels_
    columns["predicted_gain"] = FittedGroups.of(model).evidence.gain.value
    columns["trust"] = model.trust_
    if fit.held_out is not None:
        columns |= error_columns(fit.held_out)
        columns["held_out_gain"] = fit.held_out.gain
    frame = pandas.DataFrame(columns)
    geometry = shapes(fit)
    if geometry is None:
        return frame
    geopandas = need("geopandas")
    return geopandas.GeoDataFrame(frame, geometry=geometry.reset_index(drop=True))


def label_columns(tasks: Tasks) -> dict[str, Any]:
    """Labels of the tasks, a column for each dimension or level."""
    parts = tasks.parts
    if len(parts) == 1:
        return {tasks.dims[0]: tasks.labels}
    return {name: [label[k] for label in tasks.labels] for k, name in enumerate(parts)}


def region_outlines(fit: Any) -> Any:
    """One row a region: its outline, how many tasks it has, and its coefficients."""
    geometry = shapes(fit)
    if geometry is None:
        raise ValueError(
            "it is not known where the tasks lie: fit with neighbours= or places= polygons, or "
            "with coordinates such as lon and lat."
        )
    geopandas = need("geopandas")
    frame = geopandas.GeoDataFrame(
        {fit.tasks.group: fit.estimator.labels_}, geometry=geometry.reset_index(drop=True)
    )
    joined = frame.dissolve(fit.tasks.group).reset_index()
    joined["n_tasks"] = fit.estimator.partition_.sizes
    if fit.coefficients is not None:
        for name, values in zip(fit.coefficients.names, fit.coefficients.value.T, strict=True):
            joined[f"coef_{name}"] = values
    return joined


def shapes(fit: Any) -> Any:
    """A GeoSeries of the tasks: outlines, cells or points; None where nothing is known."""
    if fit.geometry is not None:
        return fit.geometry.to_geoseries()
    where = places(fit.tasks, None)
    if where is None:
        return None
    geopandas, shapely = need("geopandas"), need("shapely")
    crs = "EPSG:4326" if where.geographic else None
    if where.cell is None:
        return geopandas.GeoSeries(shapely.points(where.positions), crs=crs)
    half = np.array(where.cell) / 2.0
    low, high = where.positions - half, where.positions + half
    return geopandas.GeoSeries(shapely.box(*low.T, *high.T), crs=crs)


def area_weights(tasks: Tasks, geometry: Geometry | None) -> FloatArray:
    """Areas of the tasks: of their outlines, or of cells that shrink towards the poles."""
    if geometry is not None:
        return np.asarray(geometry.areas())
    positions = tasks.positions()
    if positions is None or not tasks.is_geographic:
        raise ValueError(
            "weights='area' needs outlines, or coordinates of latitude and longitude: give "
            "polygons, or the weights themselves."
        )
    return np.asarray(np.cos(np.radians(positions[:, 1])))


def _cell(tasks: Tasks, positions: FloatArray) -> tuple[float, float] | None:
    """Width and height of a cell, where positions are those of a regular grid."""
    if not (tasks.is_grid or tasks.dims[0] in tasks.coords.levels):
        return None
    sides = []
    for side in positions.T:
        steps = np.diff(np.unique(side))
        if not steps.size:
            return None
        step = float(steps.min())
        if np.abs(steps / step - np.round(steps / step)).max() > REGULAR * max(1, steps.size):
            return None
        sides.append(step)
    return sides[0], sides[1]
