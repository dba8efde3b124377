"""Where tasks lie: polygons or points as plain arrays, which belongs to which task, and maps."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ctfa._errors import InputError, Option
from ctfa.core.libraries import need
from ctfa.core.types import FloatArray, IntArray
from ctfa.labelled._matching import keys, keys_like, nearest_of, positions_of, some
from ctfa.labelled._tasks import Tasks, axis_of, find_labels, in_one_piece, longitudes
from ctfa.labelled._words import is_counted, word
from ctfa.report import Places

#: Metres: of the sphere that has the area of the Earth.
EARTH_RADIUS = 6_371_007.2


@dataclass(frozen=True, eq=False)
class Geometry:
    """One shape a task, in the order of the tasks.

    Well-known binary, end to end in one array, so that a fitted result can be written to a file
    and read without running anything.

    Parameters
    ----------
    wkb : array of uint8
        The shapes, one after the other.
    offsets : array of int64, shape (n_tasks + 1,)
        Where each begins, and where the last one ends.
    crs : str or None
        Coordinate reference system as well-known text. Without one the plane is meant, whatever
        the numbers look like.
    column : str or None
        What the identifiers were called in the map that the shapes came from.
    """

    wkb: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    crs: str | None = None
    column: str | None = None

    @classmethod
    def of(cls, geoseries: Any, column: str | None = None) -> Geometry:
        """Take the shapes of a GeoSeries; the name of its index stands for the identifiers."""
        shapes = need("shapely", "A map")
        parts = shapes.to_wkb(np.asarray(geoseries.array), byte_order=1)
        lengths = np.array([len(part) for part in parts], dtype=np.int64)
        name = geoseries.index.name if column is None else column
        crs = geoseries.crs
        return cls(
            wkb=np.frombuffer(b"".join(parts), dtype=np.uint8).copy(),
            offsets=np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]),
            crs=None if crs is None else crs.to_wkt(),
            column=str(name) if name not in (None, "") else None,
        )

    def __len__(self) -> int:
        return self.offsets.size - 1

    @cached_property
    def shapes(self) -> NDArray[np.object_]:
        """The same as an array of shapely's shapes."""
        whole = self.wkb.tobytes()
        parts = [whole[a:b] for a, b in zip(self.offsets[:-1], self.offsets[1:], strict=True)]
        return np.asarray(
            need("shapely", "A map").from_wkb(np.array(parts, dtype=object)), dtype=object
        )

    def to_geoseries(self, index: Any = None) -> Any:
        """The same as a GeoSeries."""
        series = need("geopandas", "A map").GeoSeries(self.shapes, index=index, crs=self.crs)
        if index is None:
            series.index.name = self.column
        return series

    @cached_property
    def is_geographic(self) -> bool:
        """Whether positions are degrees of longitude and latitude."""
        return self.crs is not None and bool(need("pyproj", "A map").CRS(self.crs).is_geographic)

    def rings(self) -> list[list[FloatArray]]:
        """Closed rings of each task, ``(k, 2)`` each: outer ones and holes of all its polygons."""
        found: list[list[FloatArray]] = [[] for _ in range(len(self))]
        points, starts, owners, _ = self._rings
        for owner, start, end in zip(owners, starts, starts[1:], strict=False):
            found[owner].append(points[start:end])
        return found

    def areas(self) -> FloatArray:
        """Area of each task: square metres on the sphere where it is in degrees, else planar.

        In degrees an edge is a straight line on the plate of longitude and latitude, as maps and
        the cells of grids have it; along one, ``sin(latitude)`` integrates exactly.
        """
        points, starts, owners, is_outer = self._rings
        if not self.is_geographic or not owners.size:
            return np.asarray(need("shapely", "A map").area(self.shapes))
        east, north = np.radians(points).T
        half = np.diff(north) / 2
        pieces = np.diff(east) * np.sin(north[:-1] + half) * np.sinc(half / np.pi)
        pieces[starts[1:-1] - 1] = 0  # no edge leads from one ring to the next
        sums = np.add.reduceat(np.append(pieces, 0.0), starts[:-1])
        # A hole counts against the area around it.
        inside = EARTH_RADIUS**2 * np.abs(sums) * np.where(is_outer, 1.0, -1.0)
        return np.bincount(owners, inside, minlength=len(self)).astype(np.float64)

    def centres(self) -> FloatArray:
        """Centre of each task, ``(n_tasks, 2)``, east and north.

        In degrees, parts on both sides of the date line are averaged on the sphere: their mean
        longitude would lie on the other side of the Earth.
        """
        shapely = need("shapely", "A map")
        if not self.is_geographic:
            return np.asarray(shapely.get_coordinates(shapely.centroid(self.shapes)))
        parts, owner = shapely.get_parts(self.shapes, return_index=True)
        middle = shapely.get_coordinates(shapely.centroid(parts))
        extent = _extent(shapely, parts, owner, len(self))
        weight = np.cos(np.radians(middle[:, 1])) * extent
        x, y, z = (np.bincount(owner, weight * v, minlength=len(self)) for v in on_sphere(middle).T)
        mean = np.degrees(np.column_stack([np.arctan2(y, x), np.arctan2(z, np.hypot(x, y))]))
        # One part needs no sphere: its centre is kept to the last digit, east of 180 too.
        single = np.bincount(owner, minlength=len(self)) == 1
        mean[single] = shapely.get_coordinates(shapely.centroid(self.shapes[single]))
        return np.asarray(mean)

    @cached_property
    def _rings(self) -> tuple[FloatArray, IntArray, IntArray, NDArray[np.bool_]]:
        """Points of all rings, where each ring starts, whose it is, and whether it is no hole."""
        shapely = need("shapely", "A map")
        parts, of_task = shapely.get_parts(self.shapes, return_index=True)
        polygonal = shapely.get_type_id(parts) == _POLYGON
        parts, of_task = parts[polygonal], of_task[polygonal]
        rings, of_part = shapely.get_rings(parts, return_index=True)
        points, of_ring = shapely.get_coordinates(rings, return_index=True)
        starts = np.searchsorted(of_ring, np.arange(len(rings) + 1))
        first = np.ones(len(rings), dtype=bool)  # of each polygon, the outer ring comes first
        first[1:] = of_part[1:] != of_part[:-1]
        return points, starts, of_task[of_part], first


_POLYGON = 3  # shapely's number for the type


def on_sphere(degrees: FloatArray) -> FloatArray:
    """Vectors of length one to places by longitude and latitude, ``(n_places, 3)``."""
    east, north = np.radians(degrees).T
    across = np.cos(north)
    return np.column_stack([across * np.cos(east), across * np.sin(east), np.sin(north)])


def _extent(shapely: Any, parts: Any, owner: IntArray, n_tasks: int) -> FloatArray:
    """How much a part counts in the centre of its task: by area, else by length, else as one."""
    area, length = shapely.area(parts), shapely.length(parts)
    has_area = np.bincount(owner, area, minlength=n_tasks)[owner] > 0
    has_length = np.bincount(owner, length, minlength=n_tasks)[owner] > 0
    return np.asarray(np.where(has_area, area, np.where(has_length, length, 1.0)))


def is_map(given: Any) -> bool:
    """Whether this is a GeoDataFrame or a GeoSeries; neither is imported to tell."""
    if isinstance(given, type) or not hasattr(given, "index"):
        return False
    return hasattr(given, "active_geometry_name") or hasattr(given, "geom_type")


def match_polygons(frame: Any, tasks: Tasks) -> Geometry:
    """Shapes of a GeoDataFrame or GeoSeries in the order of the tasks.

    Identifiers are found in the column named like the dimension of the tasks, else in any other
    column or the index that has all of them; rows are taken in their order only where the tasks
    themselves are called 0, 1, 2, ... and there are as many rows.

    Parameters
    ----------
    frame : GeoDataFrame or GeoSeries
        One row per task, in any order; rows of others are left out. Points do as well as polygons
        for what needs only a place.
    tasks : Tasks
        The tasks that were fitted.

    Returns
    -------
    Geometry
        One shape a task; those that were not valid are repaired, with a warning.

    Raises
    ------
    ValueError
        Where a task has no shape, several, or an empty one, or two columns disagree.
    """
    if not is_map(frame):
        raise ValueError(
            f"polygons are given as {type(frame).__name__}: give a GeoDataFrame or a GeoSeries."
        )
    if hasattr(frame, "columns") and frame.active_geometry_name is None:
        raise ValueError(
            "the GeoDataFrame has no column of geometries: say which with set_geometry."
        )
    column, rows = _rows(frame, tasks)
    chosen = frame.geometry.iloc[rows]
    return Geometry.of(_repaired(chosen, tasks), column=column)


def _rows(frame: Any, tasks: Tasks) -> tuple[str, IntArray]:
    """The column of identifiers, and the row of each task."""
    wanted = keys(tasks.labels)
    candidates = _candidates(frame, tasks)
    named = tasks.dims[0] if len(tasks.parts) == 1 else ", ".join(tasks.parts)
    matched = {name: positions_of(wanted, held) for name, held in candidates.items()}
    if named in matched and (matched[named] >= 0).any():
        matched = {named: matched[named]}
    whole = {name: rows for name, rows in matched.items() if (rows >= 0).all()}
    in_order = list(range(len(frame)))
    if not whole and wanted == in_order and is_counted(frame.index):
        return "", np.arange(len(wanted))
    if not whole:
        raise ValueError(_no_polygon(frame, tasks, matched))
    single = {name: rows for name, rows in whole.items() if not _repeated(wanted, candidates[name])}
    if not single:
        name = next(iter(whole))
        twice = _repeated(wanted, candidates[name])
        raise ValueError(
            f"{len(twice):,} of the {len(wanted):,} tasks have several rows in column {name!r} of "
            f"the polygons (e.g. {some(twice)}): dissolve them to one each, "
            f"frame.dissolve({name!r})."
        )
    name, rows = next(iter(single.items()))
    other = next((n for n, r in single.items() if not np.array_equal(r, rows)), None)
    if other is not None:
        raise ValueError(
            f"columns {name!r} and {other!r} of the polygons both hold all labels of the tasks, in "
            f"different order: rename the right one to {named!r}."
        )
    return name, rows


def _candidates(frame: Any, tasks: Tasks) -> dict[str, list[Hashable]]:
    """Keys in each column that may hold the identifiers, and in the index."""
    found: dict[str, list[Hashable]] = {}
    columns = list(getattr(frame, "columns", ()))
    parts = tasks.parts
    sides = _sides_of(columns, tasks)
    if len(parts) > 1 and sides:
        labels = zip(*(frame[side] for side in sides), strict=True)
        found[", ".join(parts)] = keys_like(labels, tasks)
    for column in columns:
        if str(frame[column].dtype) != "geometry" and len(parts) == 1:
            found[str(column)] = keys_like(frame[column], tasks)
    if not is_counted(frame.index):
        name = ", ".join(map(str, frame.index.names)) if frame.index.nlevels > 1 else None
        found.setdefault(str(name or frame.index.name or "index"), keys_like(frame.index, tasks))
    return found


def _sides_of(columns: list[Any], tasks: Tasks) -> list[Any]:
    """Columns that hold the parts of labels: of their names, or lon for longitude; all or none."""
    found: list[Any] = []
    for part in tasks.parts:
        axis = axis_of(part, tasks.coords.variables.get(part))
        same = [c for c in columns if axis and axis_of(c, None) == axis]
        found += [part] if part in columns else same[:1]
    return found if len(found) == len(tasks.parts) else []


def _repeated(wanted: Sequence[Hashable], held: Sequence[Hashable]) -> list[Hashable]:
    """Wanted keys that are held more than once."""
    counts = Counter(held)
    return [k for k in wanted if counts[k] > 1]


def _no_polygon(frame: Any, tasks: Tasks, matched: dict[str, IntArray]) -> str:
    what = "shape" if tasks.is_grid else "polygon"
    columns = [str(column) for column in getattr(frame, "columns", ()) if column != "geometry"]
    there = f"its columns are {some(columns, 8)}" if columns else "it has no column of identifiers"
    advice = f"give one that holds the labels of {', '.join(tasks.parts)} the same name"
    if not matched:
        return (
            f"no {what} can be told for {tasks.n_tasks:,} tasks (e.g. "
            f"{some(tasks.names)}) from {len(frame):,} rows, because {there}: {advice}."
        )
    best = max(matched, key=lambda name: int((matched[name] >= 0).sum()))
    missing = np.flatnonzero(matched[best] < 0)
    where = f" in {best!r}" if missing.size < tasks.n_tasks else ""
    sides = _sides_of(list(getattr(frame, "columns", ())), tasks)
    east = longitudes(tasks.parts, tasks.coords.variables)
    if len(tasks.parts) > 1 and sides and missing.size == tasks.n_tasks:
        first = tasks.labels[int(missing[0])]
        for part, side, value in zip(tasks.parts, sides, first, strict=True):
            index = need("pandas").Index(frame[side].unique(), name=part)
            asked = need("pandas").Index([value], name=part)
            if find_labels(asked, index, east)[0] < 0:
                near = nearest_of(value, index, part in east)
                return (
                    f"no {what} lies at {part}={word(value)} ({near}): the two must name the same."
                )
    return (
        f"{missing.size:,} of the {tasks.n_tasks:,} tasks have no {what}{where} among "
        f"{len(frame):,} rows (e.g. {some(tasks.names[i] for i in missing[:4])}); {there}: "
        f"{advice}, or leave those tasks out."
    )


def _repaired(shapes: Any, tasks: Tasks) -> Any:
    """Shapes that are all there and valid."""
    shapely = need("shapely", "A map")
    values = np.asarray(shapes.array, dtype=object)
    absent = np.flatnonzero(shapely.is_missing(values) | shapely.is_empty(values))
    if absent.size:
        raise ValueError(
            f"{absent.size:,} of the {tasks.n_tasks:,} tasks have a missing or empty geometry (e.g."
            f" {some(tasks.names[i] for i in absent[:4])}): leave them out or complete the map."
        )
    broken = np.flatnonzero(~shapely.is_valid(values))
    if not broken.size:
        return shapes
    values = values.copy()
    values[broken] = [_polygonal(shapely, shape) for shape in shapely.make_valid(values[broken])]
    lost = broken[shapely.is_empty(values[broken])]
    if lost.size:
        raise ValueError(
            f"{lost.size:,} geometries enclose nothing (e.g. {some(tasks.names[i] for i in lost)}):"
            f" leave these tasks out or complete the map."
        )
    warnings.warn(
        f"{broken.size:,} of the {tasks.n_tasks:,} polygons were not valid (e.g. "
        f"{some(tasks.names[i] for i in broken[:4])}) and were repaired by make_valid.",
        UserWarning,
        stacklevel=4,
    )
    return need("geopandas").GeoSeries(values, index=shapes.index, crs=shapes.crs)


def _polygonal(shapely: Any, shape: Any) -> Any:
    """What has an area of a repaired shape: repairing leaves lines where edges ran both ways."""
    parts = shapely.get_parts(shape)
    if shape.geom_type == "GeometryCollection":  # it may hold collections of several polygons
        parts = shapely.get_parts(parts)
    parts = parts[shapely.get_type_id(parts) == _POLYGON]
    return parts[0] if len(parts) == 1 else shapely.multipolygons(parts)


# -- What a map is drawn from


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


def label_columns(tasks: Tasks) -> dict[str, Any]:
    """Labels of the tasks, a column for each dimension or level."""
    parts = tasks.parts
    if len(parts) == 1:
        return {tasks.dims[0]: tasks.labels}
    return {name: [label[k] for label in tasks.labels] for k, name in enumerate(parts)}


def shapes(tasks: Tasks, geometry: Geometry | None) -> Any:
    """A GeoSeries of the tasks: outlines, cells or points; None where nothing is known."""
    if geometry is not None:
        return geometry.to_geoseries()
    where = places(tasks, None)
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
        raise InputError(
            Option("weights", "area"),
            " needs outlines, or coordinates of latitude and longitude: give polygons, or the "
            "weights themselves.",
        )
    return np.asarray(np.cos(np.radians(positions[:, 1])))


def _cell(tasks: Tasks, positions: FloatArray) -> tuple[float, float] | None:
    """Width and height of a cell, where positions are those of a regular grid."""
    # Of a curvilinear grid the sides are not longitudes and latitudes.
    if len(tasks.parts) != 2 or set(tasks.sides or ()) != set(tasks.parts):
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
