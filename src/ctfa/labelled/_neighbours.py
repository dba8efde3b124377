"""Who may merge with whom, from whatever people have that says so."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from ctfa._errors import InputError, Option
from ctfa._kinds import NEIGHBOUR_RULES, rules_in_words
from ctfa.core.libraries import need
from ctfa.core.types import AnyArray, FloatArray, IntArray
from ctfa.labelled._geometry import Geometry, is_map, match_polygons, on_sphere
from ctfa.labelled._matching import every_key, keys, keys_like, positions_of, some, task_keys
from ctfa.labelled._tasks import LONGITUDES, Tasks, in_one_piece, is_longitude
from ctfa.labelled._units import spelled

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
    neighbours: Any, tasks: Tasks, geometry: Geometry | None = None
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
    >>> cells = Tasks(("lat", "lon"), Coordinates.of(grid, ("lat", "lon")), np.arange(8))
    >>> read_neighbours("rook", cells).sum(axis=1)
    array([3., 3., 3., 3., 3., 3., 3., 3.])
    """
    is_graph = any(hasattr(neighbours, name) for name in ("unique_ids", "id_order", "nodes"))
    if callable(neighbours) and not is_graph:
        neighbours = neighbours(tasks)
    return None if neighbours is None else _read(neighbours, tasks, geometry)


def _read(neighbours: Any, tasks: Tasks, geometry: Geometry | None) -> sparse.csr_array:
    if isinstance(neighbours, str) or _names_a_rule(neighbours):
        return _by_rule(neighbours, tasks, geometry)
    if is_map(neighbours):
        outlines = match_polygons(neighbours, tasks)
        return _graph(border_edges(neighbours, None, tasks, outlines, corners=False), tasks.n_tasks)
    ids = getattr(neighbours, "unique_ids", getattr(neighbours, "id_order", None))
    if ids is not None:
        return _by_ids(neighbours.sparse, list(ids), tasks)
    if hasattr(neighbours, "edges") and hasattr(neighbours, "nodes"):
        return _by_graph(neighbours, tasks)
    if hasattr(neighbours, "columns"):
        return _by_table(neighbours, tasks)
    return _by_array(neighbours, tasks)


def islands(graph: sparse.csr_array) -> IntArray:
    """Positions of tasks that have no neighbour, and so stay alone."""
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


def _names_a_rule(neighbours: Any) -> bool:
    """Whether this is the name of a rule and a count."""
    pair = isinstance(neighbours, tuple | list) and len(neighbours) == 2
    rule = NEIGHBOUR_RULES.get(neighbours[0]) if pair and isinstance(neighbours[0], str) else None
    return rule is not None and rule.takes_count


def _by_rule(given: Any, tasks: Tasks, geometry: Geometry | None) -> sparse.csr_array:
    name, _, count = given.partition(":") if isinstance(given, str) else (given[0], "", given[1])
    if name not in NEIGHBOUR_RULES:
        raise InputError(Option("neighbours", given), f" is not known: give {_ways()}.")
    return _graph(NEIGHBOUR_RULES[name].edges(given, count, tasks, geometry), tasks.n_tasks)


def _ways() -> str:
    return f"{rules_in_words()}, {_OTHER_WAYS}"


def _by_ids(matrix: Any, ids: Sequence[Any], tasks: Tasks) -> sparse.csr_array:
    """A matrix whose rows have labels, in an order of its own and with others among them."""
    rows = _all_of(tasks, ids, "labels")
    whole = sparse.csr_array(matrix)
    if whole.shape != (len(ids), len(ids)):
        raise ValueError(
            f"the graph has {len(ids):,} labels and a matrix of shape {whole.shape}: give one "
            f"whose matrix is square, a row for each label."
        )
    return _symmetric(whole[rows][:, rows])


def _all_of(tasks: Tasks, known: Sequence[Any], what: str) -> IntArray:
    """Where a graph has each task; refused where it lacks one."""
    rows = positions_of(keys(tasks.labels), keys_like(known, tasks))
    missing = np.flatnonzero(rows < 0)
    if missing.size:
        raise ValueError(
            f"{missing.size:,} of the {tasks.n_tasks:,} tasks (e.g. "
            f"{some(tasks.names[i] for i in missing[:4])}) are not among the {len(known):,} {what} "
            f"of the graph ({some(known)}): build it with the labels of {', '.join(tasks.dims)}."
        )
    return rows


def _by_graph(graph: Any, tasks: Tasks) -> sparse.csr_array:
    """A networkx graph; nodes that are no tasks are left out."""
    nodes = list(graph.nodes() if callable(graph.nodes) else graph.nodes)
    edges = list(graph.edges() if callable(graph.edges) else graph.edges)
    _all_of(tasks, nodes, "nodes")
    return _between(keys_like((end for edge in edges for end in edge[:2]), tasks), tasks)


def _by_table(table: Any, tasks: Tasks) -> sparse.csr_array:
    """A table of two columns, an edge a row; or a square one with labels on both sides."""
    names = [str(name) for name in table.columns]
    ends = next((ends for ends in _ENDS if set(ends) <= set(names)), ())
    is_square = hasattr(table, "index") and len(table) == len(names)
    if is_square and not ends and keys(table.index) == keys(table.columns):
        values = np.asarray(table, dtype=np.float64)
        if set(task_keys(tasks)) <= set(keys_like(table.index, tasks)):
            return _by_ids(values, list(table.index), tasks)
        return _by_matrix(values, tasks)
    if ends or len(names) == 2:
        columns = [list(table.columns)[names.index(end)] for end in ends or names]
        return _by_pairs(zip(*(table[c] for c in columns), strict=True), tasks)
    raise ValueError(
        f"a table of neighbours has the columns {some(names, 8)}: give two, the labels of the "
        f"tasks at both ends, or 'source' and 'target' among them."
    )


def _by_array(given: Any, tasks: Tasks) -> sparse.csr_array:
    """A square matrix, or pairs of labels."""
    units = str(getattr(given, "attrs", {}).get("units", ""))
    if str(spelled(units)):
        raise ValueError(
            f"the matrix of neighbours is in {units!r}, but it should say who lies beside whom: "
            "give 1 for neighbours and 0 for others, such as matrix < limit."
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
    return _by_pairs((tuple(pair) for pair in pairs), tasks)


def _is_square(rows: Any, tasks: Tasks) -> bool:
    """Whether rows are those of a matrix, and not pairs: two of two numbers are both."""
    try:
        values = np.asarray(rows, dtype=np.float64)
    except (TypeError, ValueError):
        return False
    return values.ndim == 2 and (len(values) != 2 or tasks.n_tasks == 2)


def _by_pairs(pairs: Iterable[tuple[Any, Any]], tasks: Tasks) -> sparse.csr_array:
    """Edges by the labels of their ends; those of masked tasks are left out."""
    known = task_keys(tasks)
    labels = [label for pair in pairs for label in pair]
    both = keys_like(labels, tasks)
    outside = {k: x for k, x in zip(both, labels, strict=True) if k not in known}
    masked = every_key(tasks) if outside and tasks.n_masked else set()
    unknown = [label for k, label in outside.items() if k not in masked]
    if unknown:
        raise ValueError(
            f"{len(unknown):,} labels in the pairs of neighbours are no tasks (e.g. "
            f"{some(unknown)}): give labels of {', '.join(tasks.dims)}, such as "
            f"{some(tasks.labels)}."
        )
    return _between(both, tasks)


def _between(both: Iterable[Any], tasks: Tasks) -> sparse.csr_array:
    """The graph of edges by the keys of their two ends; those of no task are left out."""
    known = task_keys(tasks)
    ends = np.array([known.get(k, -1) for k in both], dtype=np.intp).reshape(-1, 2)
    return _graph(ends[(ends >= 0).all(axis=1)].T, tasks.n_tasks)


def _by_matrix(given: Any, tasks: Tasks) -> sparse.csr_array:
    """A square matrix in the order of the tasks, masked ones among them or not."""
    whole = int(np.prod(tasks.shape))
    if given.shape == (tasks.n_tasks, tasks.n_tasks):
        return _symmetric(sparse.csr_array(given))
    if given.shape == (whole, whole):
        return _symmetric(sparse.csr_array(given)[tasks.kept][:, tasks.kept])
    masked = f" ({whole:,} with masked ones)" if tasks.n_masked else ""
    raise ValueError(
        f"the matrix of neighbours has shape {given.shape}, and there are {tasks.n_tasks:,} "
        f"tasks{masked}: give a row and a column for each."
    )


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


class _Axis(NamedTuple):
    """Where each task lies along an axis, in steps; round it in so many, if it closes."""

    place: IntArray
    around: int = 0


def grid_edges(
    given: Any, count: Any, tasks: Tasks, geometry: Geometry | None, *, corners: bool
) -> Ends:
    """Pairs of cells with a common side, or a common corner too.

    A grid has two dimensions, or one whose labels have two levels (stacked cells). Cells without
    data are nobody's neighbours, and nothing is a neighbour across them.
    """
    axes = _axes(tasks)
    if axes is None:
        raise InputError(
            Option("neighbours", given),
            f" needs the cells of a grid, and the tasks lie along {tasks.dims[0]!r} alone: give ",
            Option("task", ("lat", "lon")),
            ", or another kind of neighbours, such as ('nearest', 6) or polygons.",
        )
    rows, columns = axes
    # Round an axis that closes, distances are measured the shorter way.
    around = np.array([rows.around, columns.around], dtype=np.float64)
    tree = cKDTree(np.column_stack([rows.place, columns.place]), boxsize=around)
    norm = np.inf if corners else 1.0
    pairs: IntArray = tree.query_pairs(BESIDE, p=norm, output_type="ndarray")
    return pairs[:, 0], pairs[:, 1]


def _axes(tasks: Tasks) -> tuple[_Axis, _Axis] | None:
    if tasks.is_grid:
        first, second = (
            _dense_axis(tasks, dim, place)
            for dim, place in zip(tasks.dims, tasks.places, strict=True)
        )
        return first, second
    levels = tasks.coords.levels.get(tasks.dims[0], ())
    if len(levels) != 2:
        return None
    axes = []
    for name in levels:
        values = tasks.coords.variables[name].values
        if values.dtype.kind not in "iuf":
            return None
        # Masked cells too: they say how wide the steps are.
        axis = _listed_axis(tasks.numbers(name), _is_longitude(tasks, name))
        axes.append(_Axis(axis.place[tasks.kept], axis.around))
    return axes[0], axes[1]


def _is_longitude(tasks: Tasks, name: str) -> bool:
    by_name = name.lower() in LONGITUDES and tasks.is_angle(name)
    return by_name or is_longitude(name, tasks.attrs(name))


def _dense_axis(tasks: Tasks, dim: str, place: IntArray) -> _Axis:
    """Next to each other are neighbours in the order of the coordinate, however wide the steps."""
    coordinate = tasks.coords.variables.get(dim)
    if coordinate is None or coordinate.values.dtype.kind not in "iuf":
        return _Axis(place)
    values = tasks.numbers(dim)
    if not _is_longitude(tasks, dim):
        return _Axis(_ranks(values)[place])
    # A map of Africa may have longitudes 350, 355, 0, 5.
    values = in_one_piece(values)
    steps = np.diff(np.sort(values), append=values.min() + 360)
    closed = values.size > 2 and np.ptp(steps) <= UNEVEN * steps.mean()
    return _Axis(_ranks(values)[place], values.size if closed else 0)


def _ranks(values: FloatArray) -> IntArray:
    return np.argsort(np.argsort(values, kind="stable"))


def _listed_axis(values: AnyArray, goes_round: bool) -> _Axis:
    """Steps of cells that are listed one by one: whole rows and columns may be absent."""
    values = in_one_piece(values) if goes_round else values
    unique, place = np.unique(values, return_inverse=True)
    place = place.reshape(-1)
    gaps = np.diff(unique)
    if not gaps.size:
        return _Axis(place)
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
            return _Axis((steps % around).astype(np.intp)[place], around)
        return _Axis(steps.astype(np.intp)[place])
    # Uneven steps, as of a Gaussian grid: a place is left free where a gap is wide.
    ahead = np.where(gaps > GAP * np.median(gaps), 2, 1)
    return _Axis(np.concatenate([[0], np.cumsum(ahead)]).astype(np.intp)[place])


# -- Polygons that share a border, or touch; and places that lie nearest


def border_edges(
    given: Any, count: Any, tasks: Tasks, geometry: Geometry | None, *, corners: bool
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


def _require_outlines(geometry: Geometry, tasks: Tasks) -> None:
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


def nearest_edges(given: Any, count: Any, tasks: Tasks, geometry: Geometry | None) -> Ends:
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
