"""Where tasks lie, as outlines or points, and which of them may merge."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from ctfa._errors import InputError, Option
from ctfa._kinds import NEIGHBOUR_RULES, rules_in_words
from ctfa.core.libraries import need
from ctfa.core.types import AnyArray, FloatArray, IntArray
from ctfa.labelled._labels import key, nearest_of, rows_of_tasks, some, which_tasks
from ctfa.labelled._tasks import (
    LONGITUDES,
    LabelledTasks,
    axis_of,
    find_labels,
    in_one_piece,
    is_longitude,
    longitudes,
)
from ctfa.labelled._units import spelled
from ctfa.labelled._words import is_counted, word
from ctfa.report import Places

#: Metres: of the sphere that has the area of the Earth.
EARTH_RADIUS = 6_371_007.2


@dataclass(frozen=True, eq=False)
class Geometry:
    """One shape per task, in the order of the tasks.

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
        extent = np.ones(len(parts))  # by area where a task has some, else by length, else as one
        for sizes in (shapely.length(parts), shapely.area(parts)):
            extent = np.where(np.bincount(owner, sizes)[owner] > 0, sizes, extent)
        weight = np.cos(np.radians(middle[:, 1])) * extent
        x, y, z = (np.bincount(owner, weight * v, minlength=len(self)) for v in on_sphere(middle).T)
        mean = np.degrees(np.column_stack([np.arctan2(y, x), np.arctan2(z, np.hypot(x, y))]))
        # One part needs no sphere: its centre is kept to the last digit, east of 180 too.
        single = np.bincount(owner, minlength=len(self)) == 1
        mean[single] = shapely.get_coordinates(shapely.centroid(self.shapes[single]))
        return np.asarray(mean)

    @cached_property
    def _rings(self) -> tuple[FloatArray, IntArray, IntArray, NDArray[np.bool_]]:
        """Points of all rings, where each starts, whose it is, and whether it is an outer one."""
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


def is_map(given: Any) -> bool:
    """Whether this is a GeoDataFrame or a GeoSeries; neither is imported to tell."""
    if isinstance(given, type) or not hasattr(given, "index"):
        return False
    return hasattr(given, "active_geometry_name") or hasattr(given, "geom_type")


def match_polygons(frame: Any, tasks: LabelledTasks) -> Geometry:
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
        One shape per task; those that were not valid are repaired, with a warning.

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


def _rows(frame: Any, tasks: LabelledTasks) -> tuple[str, IntArray]:
    """The column of identifiers, and the row of each task."""
    candidates = _candidates(frame, tasks)
    named = tasks.dims[0] if len(tasks.parts) == 1 else ", ".join(tasks.parts)
    matched = {name: rows_of_tasks(which, tasks) for name, which in candidates.items()}
    if named in matched and (matched[named] >= 0).any():
        matched = {named: matched[named]}
    whole = {name: rows for name, rows in matched.items() if (rows >= 0).all()}
    if not whole and is_counted(frame.index) and list(map(key, tasks.labels)) == list(frame.index):
        return "", np.arange(tasks.n_tasks)
    if not whole:
        raise ValueError(_no_polygon(frame, tasks, matched))
    counts = {name: np.bincount(candidates[name][candidates[name] >= 0]) for name in whole}
    single = {name: rows for name, rows in whole.items() if counts[name].max() == 1}
    if not single:
        name = next(iter(whole))
        twice = [key(tasks.labels[number]) for number in np.flatnonzero(counts[name] > 1)]
        raise ValueError(
            f"{len(twice):,} of the {tasks.n_tasks:,} tasks have several rows in column {name!r} "
            f"of the polygons (e.g. {some(twice)}): dissolve them to one each, "
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


def _candidates(frame: Any, tasks: LabelledTasks) -> dict[str, IntArray]:
    """Tasks that each column means that may hold the identifiers, and the index."""
    found: dict[str, IntArray] = {}
    columns = list(getattr(frame, "columns", ()))
    parts = tasks.parts
    sides = _sides_of(columns, tasks)
    if len(parts) > 1 and sides:
        labels = zip(*(frame[side] for side in sides), strict=True)
        found[", ".join(parts)] = which_tasks(labels, tasks)
    for column in columns:
        if str(frame[column].dtype) != "geometry" and len(parts) == 1:
            found[str(column)] = which_tasks(frame[column], tasks)
    if not is_counted(frame.index):
        name = ", ".join(map(str, frame.index.names)) if frame.index.nlevels > 1 else None
        found.setdefault(str(name or frame.index.name or "index"), which_tasks(frame.index, tasks))
    return found


def _sides_of(columns: list[Any], tasks: LabelledTasks) -> list[Any]:
    """Columns that hold the parts of labels: of their names, or lon for longitude; all or none."""
    found: list[Any] = []
    for part in tasks.parts:
        axis = axis_of(part, tasks.coords.variables.get(part))
        same = [c for c in columns if axis and axis_of(c, None) == axis]
        found += [part] if part in columns else same[:1]
    return found if len(found) == len(tasks.parts) else []


def _no_polygon(frame: Any, tasks: LabelledTasks, matched: dict[str, IntArray]) -> str:
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


def _repaired(shapes: Any, tasks: LabelledTasks) -> Any:
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


def places(tasks: LabelledTasks, geometry: Geometry | None) -> Places | None:
    """Where tasks lie: outlines, the cells of a regular grid, or positions; None if unknown."""
    if geometry is not None:
        return Places(geometry.centres(), geometry.rings(), geographic=bool(geometry.is_geographic))
    positions = tasks.positions()
    if positions is None or not np.isfinite(positions).all():
        return None
    if tasks.is_geographic:  # a window across Greenwich may be written 359.5, 0, 0.5
        positions = np.column_stack([in_one_piece(positions[:, 0], OPEN), positions[:, 1]])
    return Places(positions, cell=_cell(tasks, positions), geographic=tasks.is_geographic)


def label_columns(tasks: LabelledTasks) -> dict[str, Any]:
    """Labels of the tasks, a column for each dimension or level."""
    parts = tasks.parts
    if len(parts) == 1:
        return {tasks.dims[0]: tasks.labels}
    return {name: [label[k] for label in tasks.labels] for k, name in enumerate(parts)}


def shapes(tasks: LabelledTasks, geometry: Geometry | None) -> Any:
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


def area_weights(tasks: LabelledTasks, geometry: Geometry | None) -> FloatArray:
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


def _cell(tasks: LabelledTasks, positions: FloatArray) -> tuple[float, float] | None:
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


# -- Which tasks may merge, from whatever form people have it in


#: Columns by which tables of edges name the two ends.
_ENDS = (("focal", "neighbor"), ("source", "target"), ("from", "to"))
#: First and second end of each edge.
Ends: TypeAlias = tuple[IntArray, IntArray] | IntArray
_OTHER_WAYS = (
    "polygons in a GeoDataFrame, a libpysal or networkx graph, pairs of labels, a square matrix, "
    "or a function of the tasks"
)
#: Steps of a regular axis differ by less than this share: single precision and rounded files.
UNEVEN = 0.02
#: A gap of that many steps between cells that are listed is a gap in the map.
GAP = 1.5
#: In steps: cells nearer than this lie side by side.
BESIDE = 1.5
#: Of the diagonal of the map: vertices that near are the same. Files round, and so do projections.
SAME_PLACE = 1e-6
#: Of the size of a typical polygon, where these are tiny on a large map.
SAME_CORNER = 1e-3
#: In those lengths: what is shorter is a corner. Borders part slowly where they meet at a corner.
CORNER = 20
#: In those lengths: an edge that both polygons have, longer than rounding its ends can make it.
EDGE = 3


def read_neighbours(
    neighbours: Any, tasks: LabelledTasks, geometry: Geometry | None = None
) -> sparse.csr_array | None:
    """Read the graph of tasks that may merge directly.

    Parameters
    ----------
    neighbours : None, str, tuple or object
        - None: all tasks may merge.
        - ``"rook"`` or ``"queen"``: cells of a grid (two dimensions, or stacked into one) with a
          common side, or a common corner too. Longitudes that go round the globe close.
        - ``"border"`` or ``"touch"``: polygons of ``geometry`` with a common border, or a common
          point; a GeoDataFrame or GeoSeries is its own ``"border"``, matched by labels.
        - ``("nearest", k)`` or ``"nearest:k"``: each task and the k nearest, in both directions;
          by great circles where positions are degrees.
        - a libpysal Graph or W, a networkx graph, a table of two columns or pairs of labels.
        - a square matrix, sparse or dense, in the order of the tasks (masked ones may be there).
        - a callable that is given the tasks and returns one of these.
    tasks : Tasks
        The tasks, in the order of the graph.
    geometry : Geometry, optional
        Shapes of the tasks, where they are known.

    Returns
    -------
    csr_array of float64, shape (n_tasks, n_tasks), or None
        Symmetric, 1 for neighbours, nothing on the diagonal.

    Raises
    ------
    ValueError
        One sentence: what was given, what is wrong with it, what to do.

    Examples
    --------
    >>> import numpy as np, xarray as xr
    >>> from ctfa.labelled._tasks import Coordinates
    >>> grid = xr.Dataset(coords={"lat": [10.0, 0.0], "lon": [0.0, 90.0, 180.0, 270.0]})
    >>> cells = LabelledTasks(("lat", "lon"), Coordinates.of(grid, ("lat", "lon")), np.arange(8))
    >>> read_neighbours("rook", cells).sum(axis=1)
    array([3., 3., 3., 3., 3., 3., 3., 3.])
    """
    is_graph = any(hasattr(neighbours, name) for name in ("unique_ids", "id_order", "nodes"))
    if callable(neighbours) and not is_graph:
        neighbours = neighbours(tasks)
    if neighbours is None:
        return None
    given = neighbours.partition(":")[::2] if isinstance(neighbours, str) else neighbours
    if isinstance(given, tuple | list) and len(given) == 2 and isinstance(given[0], str):
        rule = NEIGHBOUR_RULES.get(given[0])
        if rule is not None and (rule.takes_count or isinstance(neighbours, str)):
            return _graph(rule.edges(neighbours, given[1], tasks, geometry), tasks.n_tasks)
    if isinstance(neighbours, str):
        raise InputError(Option("neighbours", neighbours), f" is not known: give {_ways()}.")
    if is_map(neighbours):
        outlines = match_polygons(neighbours, tasks)
        return _graph(border_edges(neighbours, None, tasks, outlines, corners=False), tasks.n_tasks)
    ids = getattr(neighbours, "unique_ids", getattr(neighbours, "id_order", None))
    if ids is not None:
        return _by_matrix(neighbours.sparse, tasks, list(ids))
    if hasattr(neighbours, "edges") and hasattr(neighbours, "nodes"):
        nodes, edges = (x() if callable(x) else x for x in (neighbours.nodes, neighbours.edges))
        _rows_of(list(nodes), "nodes", tasks)
        return _by_pairs([edge[:2] for edge in edges], tasks, strict=False)
    read = _by_table if hasattr(neighbours, "columns") else _by_array
    return read(neighbours, tasks)


def islands(graph: sparse.csr_array) -> IntArray:
    """Positions of tasks without a neighbour, which stay alone."""
    return np.flatnonzero(np.diff(sparse.csr_array(graph).indptr) == 0)


def components(graph: sparse.csr_array) -> IntArray:
    """How many tasks each connected part of the graph has, largest first; parts never merge."""
    _, labels = connected_components(graph, directed=False)
    return np.asarray(np.sort(np.bincount(labels))[::-1], dtype=np.intp)


def _graph(edges: Ends, n_tasks: int) -> sparse.csr_array:
    """The graph with these edges: symmetric, each once, none from a task to itself."""
    first, second = edges
    keep = first != second
    # Short integers: what counts components in scipy 1.11 takes no others.
    rows = np.concatenate([first[keep], second[keep]]).astype(np.int32)
    columns = np.concatenate([second[keep], first[keep]]).astype(np.int32)
    found = sparse.coo_array((np.ones(rows.size), (rows, columns)), shape=(n_tasks, n_tasks))
    graph = sparse.csr_array(found)  # adds up what is there twice
    graph.sort_indices()
    graph.data[:] = 1.0
    return graph


def _ways() -> str:
    return f"{rules_in_words()}, {_OTHER_WAYS}"


def _rows_of(known: Sequence[Any], what: str, tasks: LabelledTasks) -> IntArray:
    """Where a graph has each task; refused where it lacks one."""
    rows = rows_of_tasks(which_tasks(known, tasks), tasks)
    missing = np.flatnonzero(rows < 0)
    if missing.size:
        raise ValueError(
            f"{missing.size:,} of the {tasks.n_tasks:,} tasks (e.g. "
            f"{some(tasks.names[i] for i in missing[:4])}) are not among the {len(known):,} {what} "
            f"of the graph ({some(known)}): build it with the labels of {', '.join(tasks.dims)}."
        )
    return rows


def _by_table(table: Any, tasks: LabelledTasks) -> sparse.csr_array:
    """A table of two columns, one edge per row; or a square one with labels on both sides."""
    names = [str(name) for name in table.columns]
    ends = next((ends for ends in _ENDS if set(ends) <= set(names)), ())
    is_square = hasattr(table, "index") and len(table) == len(names)
    if is_square and not ends and [*map(key, table.index)] == [*map(key, table.columns)]:
        labels = list(table.index)
        is_labelled = (rows_of_tasks(which_tasks(labels, tasks), tasks) >= 0).all()
        values = np.asarray(table, dtype=np.float64)
        return _by_matrix(values, tasks, labels if is_labelled else None)
    if ends or len(names) == 2:
        columns = [list(table.columns)[names.index(end)] for end in ends or names]
        return _by_pairs(zip(*(table[c] for c in columns), strict=True), tasks)
    raise ValueError(
        f"a table of neighbours has the columns {some(names, 8)}: give two, the labels of the "
        f"tasks at both ends, or 'source' and 'target' among them."
    )


def _by_array(given: Any, tasks: LabelledTasks) -> sparse.csr_array:
    """A square matrix, or pairs of labels."""
    units = str(getattr(given, "attrs", {}).get("units", ""))
    if str(spelled(units)):
        raise ValueError(
            f"the matrix of neighbours is in {units!r}, but it should say which "
            "tasks are neighbours: give 1 for neighbours and 0 for others, such as matrix < limit."
        )
    if sparse.issparse(given):
        return _by_matrix(given, tasks)
    if isinstance(given, str | bytes) or not hasattr(given, "__iter__"):
        raise ValueError(f"neighbours are given as {type(given).__name__}: give {_ways()}.")
    held = np.asanyarray(given) if hasattr(given, "__array__") else None
    pairs = list(given) if held is None else held
    lengths = {len(pair) if hasattr(pair, "__len__") else 0 for pair in pairs}
    if len(lengths) == 1 and lengths == {len(pairs)} and _is_square(pairs, tasks):
        return _by_matrix(np.asarray(pairs, dtype=np.float64), tasks)
    if not lengths <= {2} or any(isinstance(pair, str) for pair in pairs):
        shape = f"{len(pairs):,} rows" if held is None else f"shape {held.shape}"
        raise ValueError(
            f"neighbours are given as {type(given).__name__} of {shape}, and there are "
            f"{tasks.n_tasks:,} tasks: give pairs of labels, or a square matrix with a row and a "
            f"column for each task."
        )
    return _by_pairs(pairs, tasks)


def _is_square(rows: Any, tasks: LabelledTasks) -> bool:
    """Whether rows are those of a matrix, and not pairs: two of two numbers are both."""
    try:
        values = np.asarray(rows, dtype=np.float64)
    except (TypeError, ValueError):
        return False
    return values.ndim == 2 and (len(values) != 2 or tasks.n_tasks == 2)


def _by_pairs(
    pairs: Iterable[Any], tasks: LabelledTasks, *, strict: bool = True
) -> sparse.csr_array:
    """Edges by the labels of their ends; those of masked tasks are left out.

    A label of no task is an error if ``strict``, else its edges are left out too.
    """
    labels = [label for pair in pairs for label in pair]
    which = which_tasks(labels, tasks)
    unknown = {
        key(label): label for label, number in zip(labels, which, strict=True) if number == -1
    }
    if unknown and strict:
        raise ValueError(
            f"{len(unknown):,} labels in the pairs of neighbours are not tasks (e.g. "
            f"{some(unknown.values())}): give labels of {', '.join(tasks.dims)}, such as "
            f"{some(tasks.labels)}."
        )
    ends = which.reshape(-1, 2)
    return _graph(ends[(ends >= 0).all(axis=1)].T, tasks.n_tasks)


def _by_matrix(
    given: Any, tasks: LabelledTasks, labels: Sequence[Any] | None = None
) -> sparse.csr_array:
    """A square matrix in the order of its labels; without any, of the tasks, masked ones or not."""
    whole, n_tasks = int(np.prod(tasks.shape)), tasks.n_tasks
    rows = None if labels is None else _rows_of(labels, "labels", tasks)
    if rows is not None and labels is not None:
        if given.shape != (len(labels), len(labels)):
            raise ValueError(
                f"the graph has {len(labels):,} labels and a matrix of shape {given.shape}: give "
                f"one whose matrix is square, a row for each label."
            )
    elif given.shape == (n_tasks, n_tasks):
        rows = np.arange(n_tasks)
    elif given.shape == (whole, whole):
        rows = tasks.kept
    else:
        masked = f" ({whole:,} with masked ones)" if tasks.n_masked else ""
        raise ValueError(
            f"the matrix of neighbours has shape {given.shape}, and there are {n_tasks:,} "
            f"tasks{masked}: give a row and a column for each."
        )
    return _symmetric(sparse.csr_array(given)[rows][:, rows])


def _symmetric(matrix: Any) -> sparse.csr_array:
    """Neighbours in one direction at least."""
    entries = sparse.coo_array(matrix)
    values = np.asarray(entries.data, dtype=np.float64)
    if not np.isfinite(values).all() or (values < 0).any():
        raise ValueError(
            "the matrix of neighbours has entries that are NaN, infinite or negative: give 1 for "
            "neighbours and 0 for others."
        )
    there = (values > 0) & (entries.row != entries.col)
    first, second = entries.row[there].astype(np.intp), entries.col[there].astype(np.intp)
    graph = _graph((first, second), entries.shape[0])
    one_way = graph.nnz - len(set(zip(first.tolist(), second.tolist(), strict=True)))
    if one_way:
        warnings.warn(
            f"neighbours are not symmetric: {one_way:,} pairs are there in one direction only and "
            f"were taken as neighbours in both.",
            UserWarning,
            stacklevel=4,
        )
    return graph


# -- Cells of a grid side by side, round the globe where the grid goes round it


#: Where each task lies along an axis, in steps; and round it in so many, 0 if it does not close.
Axis: TypeAlias = tuple[IntArray, int]


def grid_edges(
    given: Any, count: Any, tasks: LabelledTasks, geometry: Geometry | None, *, corners: bool
) -> Ends:
    """Pairs of cells with a common side, or a common corner too.

    A grid has two dimensions, or one whose labels have two levels (stacked cells). Cells without
    data have no neighbours, and nothing is a neighbour across them.
    """
    axes = _axes(tasks)
    if axes is None:
        raise InputError(
            Option("neighbours", given),
            f" needs the cells of a grid, and the tasks lie along {tasks.dims[0]!r} alone: give ",
            Option("task", ("lat", "lon")),
            ", or another kind of neighbours, such as ('nearest', 6) or polygons.",
        )
    # Round an axis that closes, distances are measured the shorter way.
    places, around = zip(*axes, strict=True)
    tree = cKDTree(np.column_stack(places), boxsize=np.array(around, dtype=np.float64))
    norm = np.inf if corners else 1.0
    pairs: IntArray = tree.query_pairs(BESIDE, p=norm, output_type="ndarray")
    return pairs[:, 0], pairs[:, 1]


def _axes(tasks: LabelledTasks) -> list[Axis] | None:
    if tasks.is_grid:
        pairs = zip(tasks.dims, tasks.places, strict=True)
        return [_dense_axis(tasks, dim, place) for dim, place in pairs]
    levels = tasks.coords.levels.get(tasks.dims[0], ())
    kinds = {tasks.coords.variables[name].values.dtype.kind for name in levels}
    if len(levels) != 2 or not kinds <= set("iuf"):
        return None
    # Masked cells too: they say how wide the steps are.
    axes = [_listed_axis(tasks.numbers(name), _is_longitude(tasks, name)) for name in levels]
    return [(place[tasks.kept], around) for place, around in axes]


def _is_longitude(tasks: LabelledTasks, name: str) -> bool:
    by_name = name.lower() in LONGITUDES and tasks.is_angle(name)
    return by_name or is_longitude(name, tasks.attrs(name))


def _dense_axis(tasks: LabelledTasks, dim: str, place: IntArray) -> Axis:
    """Next to each other are neighbours in the order of the coordinate, however wide the steps."""
    coordinate = tasks.coords.variables.get(dim)
    if coordinate is None or coordinate.values.dtype.kind not in "iuf":
        return place, 0
    values = tasks.numbers(dim)
    if not _is_longitude(tasks, dim):
        return _ranks(values)[place], 0
    # A map of Africa may have longitudes 350, 355, 0, 5.
    values = in_one_piece(values)
    steps = np.diff(np.sort(values), append=values.min() + 360)
    closed = values.size > 2 and np.ptp(steps) <= UNEVEN * steps.mean()
    return _ranks(values)[place], values.size if closed else 0


def _ranks(values: FloatArray) -> IntArray:
    return np.argsort(np.argsort(values, kind="stable"))


def _listed_axis(values: AnyArray, goes_round: bool) -> Axis:
    """Steps of cells that are listed one by one: whole rows and columns may be absent."""
    values = in_one_piece(values) if goes_round else values
    unique, place = np.unique(values, return_inverse=True)
    place = place.reshape(-1)
    gaps = np.diff(unique)
    if not gaps.size:
        return place, 0
    # Not the least, which has the rounding of both its ends: over thousands of steps it would tell.
    step = float(gaps[gaps < GAP * gaps.min()].mean())
    steps = np.rint((unique - unique[0]) / step)
    off = np.abs((unique - unique[0]) / step - steps).max()
    if steps[-1] <= 100 * unique.size and off <= 0.25:
        # The whole length has the rounding of its ends once.
        step = (unique[-1] - unique[0]) / steps[-1]
        around = round(360 / step)
        # Closed whenever a turn is a whole number of steps: elsewhere no cell is there to meet.
        closes = goes_round and around > 2 and abs(360 / step - around) <= UNEVEN
        if closes and np.unique(steps % around).size == unique.size:
            return (steps % around).astype(np.intp)[place], around
        return steps.astype(np.intp)[place], 0
    # Uneven steps, as of a Gaussian grid: a place is left free where a gap is wide.
    ahead = np.where(gaps > GAP * np.median(gaps), 2, 1)
    return np.concatenate([[0], np.cumsum(ahead)]).astype(np.intp)[place], 0


# -- Polygons that share a border, or touch; and places that lie nearest


def border_edges(
    given: Any, count: Any, tasks: LabelledTasks, geometry: Geometry | None, *, corners: bool
) -> Ends:
    """Pairs of polygons with a common border of some length; with ``corners`` all that touch.

    Most borders run along the same vertices on both sides, and these are found by sorting edges.
    What is left of the pairs that touch is measured: how much of the outline of one lies in or on
    the other. Polygons that overlap are so neighbours, too.
    """
    if geometry is None:
        raise InputError(
            Option("neighbours", given),
            " needs polygons of the tasks: give a GeoDataFrame with a column "
            f"{tasks.dims[0]!r} as places, or as neighbours itself.",
        )
    _require_outlines(geometry, tasks)
    shapely = need("shapely", "Neighbours of polygons")
    shapes, owner = _turned(shapely, geometry)
    near = _tolerance(shapely, shapes)
    tree = shapely.STRtree(shapes)
    first, second = tree.query(shapes, predicate="dwithin", distance=near)
    once = (first < second) & (owner[first] != owner[second])
    first, second = first[once], second[once]
    if not corners and first.size:
        shared = _shared_edges(shapely, shapes, first, second, near)
        # Both have this edge, however short; what is measured may be a corner, seen from near by.
        keep = shared > EDGE * near
        unsure = np.flatnonzero(~keep)
        measured = _measured(shapely, shapes, first[unsure], second[unsure], near)
        keep[unsure] = measured > CORNER * near
        first, second = first[keep], second[keep]
    return owner[first], owner[second]


def _require_outlines(geometry: Geometry, tasks: LabelledTasks) -> None:
    """Refuse shapes that are not one polygon for each task."""
    if len(geometry) != tasks.n_tasks:
        raise ValueError(
            f"there are {len(geometry):,} polygons and {tasks.n_tasks:,} tasks: give one each."
        )
    flat = np.flatnonzero(geometry.areas() <= 0)
    if flat.size:
        raise InputError(
            f"{flat.size:,} of the {tasks.n_tasks:,} shapes have no area (e.g. that of "
            f"{some(tasks.names[i] for i in flat[:4])}), so they have no borders: give polygons, "
            "or ",
            Option("neighbours", ("nearest", 6)),
            " for points.",
        )


def _turned(shapely: Any, geometry: Geometry) -> tuple[Any, IntArray]:
    """Shapes, those at the western edge of a world map once more at its eastern edge."""
    shapes = geometry.shapes
    owner = np.arange(len(shapes))
    if not geometry.is_geographic:
        return shapes, owner
    bounds = shapely.bounds(shapes)
    west, east = bounds[:, 0].min(), bounds[:, 2].max()
    slack = 360 * SAME_PLACE
    if east - west < 360 - slack:
        return shapes, owner
    edge = np.flatnonzero(bounds[:, 0] <= west + slack)
    again = shapely.transform(shapes[edge], lambda points: points + np.array([360.0, 0.0]))
    return np.concatenate([shapes, again]), np.concatenate([owner, edge])


def _tolerance(shapely: Any, shapes: Any) -> float:
    bounds = shapely.bounds(shapes)
    diagonal = np.hypot(*(bounds[:, 2:].max(axis=0) - bounds[:, :2].min(axis=0)))
    size = np.median(np.hypot(bounds[:, 2] - bounds[:, 0], bounds[:, 3] - bounds[:, 1]))
    return float(max(min(SAME_PLACE * diagonal, SAME_CORNER * size), 1e-9 * diagonal))


def _shared_edges(
    shapely: Any, shapes: Any, first: IntArray, second: IntArray, near: float
) -> FloatArray:
    """Length of the edges that two polygons have between the same two vertices, for each pair."""
    parts, of_shape = shapely.get_parts(shapes, return_index=True)
    rings, of_part = shapely.get_rings(parts, return_index=True)
    points, of_ring = shapely.get_coordinates(rings, return_index=True)
    rounded = np.rint((points - points.min(axis=0)) / near).astype(np.uint64)
    _, corner = np.unique((rounded[:, 0] << np.uint64(32)) | rounded[:, 1], return_inverse=True)
    within = of_ring[1:] == of_ring[:-1]
    ends = np.sort(np.column_stack([corner[:-1], corner[1:]])[within], axis=1)
    _, edge = np.unique(ends[:, 0] * len(points) + ends[:, 1], return_inverse=True)
    length = np.hypot(*(points[1:] - points[:-1])[within].T)
    owner = of_shape[of_part[of_ring[:-1][within]]]
    shape = (int(edge.max(initial=-1)) + 1, len(shapes))
    held = sparse.csr_array((np.ones(edge.size), (edge, owner)), shape=shape)
    held.data[:] = 1.0
    lengths = np.zeros(shape[0])
    lengths[edge] = length
    shared = (held * lengths[:, None]).T @ held
    return np.asarray(sparse.csr_array(shared)[first, second], dtype=np.float64).reshape(-1)


def _measured(
    shapely: Any, shapes: Any, first: IntArray, second: IntArray, near: float
) -> FloatArray:
    """How much of the outline of one polygon lies in or on the other, the longer way."""
    if not first.size:
        return np.zeros(0)
    bounds = shapely.bounds(shapes)
    low = np.maximum(bounds[first, :2], bounds[second, :2]) - 2 * CORNER * near
    high = np.minimum(bounds[first, 2:], bounds[second, 2:]) + 2 * CORNER * near
    # Only where both are: outlines have many vertices, and a common corner needs few of them.
    common = shapely.box(*low.T, *high.T)
    one = shapely.intersection(shapely.boundary(shapes[first]), common)
    two = shapely.intersection(shapely.boundary(shapes[second]), common)
    fat_one = shapely.buffer(shapely.intersection(shapes[first], common), near, quad_segs=2)
    fat_two = shapely.buffer(shapely.intersection(shapes[second], common), near, quad_segs=2)
    return np.asarray(
        np.maximum(
            shapely.length(shapely.intersection(one, fat_two)),
            shapely.length(shapely.intersection(two, fat_one)),
        )
    )


def nearest_edges(given: Any, count: Any, tasks: LabelledTasks, geometry: Geometry | None) -> Ends:
    """Each task with the so many nearest to it: on the globe where positions are degrees."""
    try:
        k = int(count)
        whole = float(count) == k and not isinstance(count, bool)
    except (TypeError, ValueError):
        k, whole = 0, False
    if not whole or not 1 <= k < tasks.n_tasks:
        raise InputError(
            Option("neighbours", given),
            f" does not say how many: give a whole number from 1 to {tasks.n_tasks - 1:,} (one "
            "less than there are tasks), such as ('nearest', 6).",
        )
    positions, geographic = tasks.positions(), tasks.is_geographic
    if positions is None and geometry is not None:
        positions, geographic = geometry.centres(), geometry.is_geographic
    if positions is None:
        tasks.one_plane()  # says where east and north are in units that do not go together
        raise InputError(
            Option("neighbours", given),
            " needs positions, and the tasks have none: add coordinates 'lon' and 'lat' (or 'x' "
            f"and 'y') along {tasks.dims[0]!r}, or give polygons as places.",
        )
    lost = np.flatnonzero(~np.isfinite(positions).all(axis=1))
    if lost.size:
        raise ValueError(
            f"{lost.size:,} of the {tasks.n_tasks:,} tasks have no position (e.g. "
            f"{some(tasks.names[i] for i in lost[:4])}): complete the coordinates, or leave them "
            f"out."
        )
    if geographic:
        # Chords are in the order of great circles, and a tree knows chords.
        positions = on_sphere(positions)
    near = np.asarray(cKDTree(positions).query(positions, k=k + 1)[1], dtype=np.intp)
    own = np.arange(tasks.n_tasks)
    # Itself is among them unless others lie on the same spot; then the last gives way.
    drop = near == own[:, None]
    drop[~drop.any(axis=1), -1] = True
    return np.repeat(own, k), near[~drop]
