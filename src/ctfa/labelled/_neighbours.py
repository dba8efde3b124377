"""Who may merge with whom, from whatever people have that says so."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from ctfa._kinds import NEIGHBOUR_RULES, rules_in_words
from ctfa.core.types import IntArray
from ctfa.labelled._geometry import Geometry, is_map, match_polygons
from ctfa.labelled._grid_neighbours import grid_edges
from ctfa.labelled._matching import every_key, keys, keys_like, positions_of, some, task_keys
from ctfa.labelled._polygon_neighbours import border_edges, nearest_edges
from ctfa.labelled._tasks import Tasks
from ctfa.labelled._units import spelled

#: Columns by which tables of edges name the two ends.
_ENDS = (("focal", "neighbor"), ("source", "target"), ("from", "to"))
_OTHER_WAYS = (
    "polygons in a GeoDataFrame, a libpysal or networkx graph, pairs of labels, a square matrix, "
    "or a function of the tasks"
)


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
    >>> from ctfa.labelled._coordinates import Coordinates
    >>> grid = xr.Dataset(coords={"lat": [10.0, 0.0], "lon": [0.0, 90.0, 180.0, 270.0]})
    >>> cells = Tasks(("lat", "lon"), Coordinates.of(grid, ("lat", "lon")), np.arange(8))
    >>> read_neighbours("rook", cells).sum(axis=1)
    array([3., 3., 3., 3., 3., 3., 3., 3.])
    """
    if callable(neighbours) and not _is_labelled_graph(neighbours):
        neighbours = neighbours(tasks)
    return None if neighbours is None else _read(neighbours, tasks, geometry)


def _is_labelled_graph(given: Any) -> bool:
    return any(hasattr(given, name) for name in ("unique_ids", "id_order", "nodes"))


def _read(neighbours: Any, tasks: Tasks, geometry: Geometry | None) -> sparse.csr_array:
    if isinstance(neighbours, str) or _names_a_rule(neighbours):
        return _by_rule(neighbours, tasks, geometry)
    if is_map(neighbours):
        return _by_border(match_polygons(neighbours, tasks), tasks, corners=False)
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


def _graph(first: IntArray, second: IntArray, n_tasks: int) -> sparse.csr_array:
    """The graph with these edges: symmetric, each once, none from a task to itself."""
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
        raise ValueError(f"neighbours={given!r} is not known: give {_ways()}.")
    graph: sparse.csr_array = NEIGHBOUR_RULES[name].graph(given, count, tasks, geometry)
    return graph


def _ways() -> str:
    return f"{rules_in_words()}, {_OTHER_WAYS}"


def by_grid(
    given: Any, count: Any, tasks: Tasks, geometry: Geometry | None, *, corners: bool
) -> sparse.csr_array:
    """Cells of a grid with a common side, or a common corner too."""
    edges = grid_edges(tasks, corners=corners)
    if edges is None:
        raise ValueError(
            f"neighbours={given!r} needs the cells of a grid, and the tasks lie along "
            f"{tasks.dims[0]!r} alone: give task=('lat', 'lon'), or another kind of neighbours,"
            f" such as ('nearest', 6) or polygons."
        )
    return _graph(*edges, tasks.n_tasks)


def by_outlines(
    given: Any, count: Any, tasks: Tasks, geometry: Geometry | None, *, corners: bool
) -> sparse.csr_array:
    """Polygons with a common border, or a common point."""
    if geometry is None:
        raise ValueError(
            f"neighbours={given!r} needs polygons of the tasks: give a GeoDataFrame with a "
            f"column {tasks.dims[0]!r} as places, or as neighbours itself."
        )
    return _by_border(geometry, tasks, corners=corners)


def _by_border(geometry: Geometry, tasks: Tasks, corners: bool) -> sparse.csr_array:
    if len(geometry) != tasks.n_tasks:
        raise ValueError(
            f"there are {len(geometry):,} polygons and {tasks.n_tasks:,} tasks: give one each."
        )
    flat = np.flatnonzero(geometry.areas() <= 0)
    if flat.size:
        raise ValueError(
            f"{flat.size:,} of the {tasks.n_tasks:,} shapes have no area (e.g. that of "
            f"{some(tasks.names[i] for i in flat[:4])}), so they have no borders: give polygons, "
            f"or neighbours=('nearest', 6) for points."
        )
    return _graph(*border_edges(geometry, corners), tasks.n_tasks)


def by_distance(
    given: Any, count: Any, tasks: Tasks, geometry: Geometry | None
) -> sparse.csr_array:
    """Each task and those nearest to it."""
    try:
        k = int(count)
        whole = float(count) == k and not isinstance(count, bool)
    except (TypeError, ValueError):
        k, whole = 0, False
    if not whole or not 1 <= k < tasks.n_tasks:
        raise ValueError(
            f"neighbours={given!r} does not say how many: give a whole number from 1 to "
            f"{tasks.n_tasks - 1:,} (one less than there are tasks), such as ('nearest', 6)."
        )
    positions, geographic = tasks.positions(), tasks.is_geographic
    if positions is None and geometry is not None:
        positions, geographic = geometry.centres(), geometry.is_geographic
    if positions is None:
        tasks.one_plane()  # says where east and north are in units that do not go together
        raise ValueError(
            f"neighbours={given!r} needs positions, and the tasks have none: add coordinates "
            f"'lon' and 'lat' (or 'x' and 'y') along {tasks.dims[0]!r}, or give polygons as places."
        )
    lost = np.flatnonzero(~np.isfinite(positions).all(axis=1))
    if lost.size:
        raise ValueError(
            f"{lost.size:,} of the {tasks.n_tasks:,} tasks have no position (e.g. "
            f"{some(tasks.names[i] for i in lost[:4])}): complete the coordinates, or leave them "
            f"out."
        )
    return _graph(*nearest_edges(positions, k, geographic), tasks.n_tasks)


def _by_ids(matrix: Any, ids: Sequence[Any], tasks: Tasks) -> sparse.csr_array:
    """A matrix whose rows have labels, in an order of its own and with others among them."""
    rows = positions_of(keys(tasks.labels), keys_like(ids, tasks))
    _all_there(rows, tasks, f"among the {len(ids):,} labels of the graph", ids)
    whole = sparse.csr_array(matrix)
    if whole.shape != (len(ids), len(ids)):
        raise ValueError(
            f"the graph has {len(ids):,} labels and a matrix of shape {whole.shape}: give one "
            f"whose matrix is square, a row for each label."
        )
    return _symmetric(whole[rows][:, rows])


def _all_there(rows: IntArray, tasks: Tasks, where: str, known: Iterable[Any]) -> None:
    missing = np.flatnonzero(rows < 0)
    if missing.size:
        raise ValueError(
            f"{missing.size:,} of the {tasks.n_tasks:,} tasks (e.g. "
            f"{some(tasks.names[i] for i in missing[:4])}) are not {where} "
            f"({some(known)}): build it with the labels of {', '.join(tasks.dims)}."
        )


def _by_graph(graph: Any, tasks: Tasks) -> sparse.csr_array:
    """A networkx graph; nodes that are no tasks are left out."""
    nodes = list(graph.nodes() if callable(graph.nodes) else graph.nodes)
    edges = list(graph.edges() if callable(graph.edges) else graph.edges)
    _all_there(
        positions_of(keys(tasks.labels), keys_like(nodes, tasks)),
        tasks,
        f"among the {len(nodes):,} nodes of the graph",
        nodes,
    )
    known = task_keys(tasks)
    both = keys_like((end for edge in edges for end in edge[:2]), tasks)
    ends = np.array([known.get(k, -1) for k in both], dtype=np.intp).reshape(-1, 2)
    ends = ends[(ends >= 0).all(axis=1)]
    return _graph(ends[:, 0], ends[:, 1], tasks.n_tasks)


def _by_table(table: Any, tasks: Tasks) -> sparse.csr_array:
    """A table of two columns, an edge a row; or a square one with labels on both sides."""
    names = [str(name) for name in table.columns]
    for ends in _ENDS:
        if set(ends) <= set(names):
            columns = [list(table.columns)[names.index(end)] for end in ends]
            return _by_pairs(zip(*(table[c] for c in columns), strict=True), tasks)
    if len(names) == 2 and len(table) != 2:
        return _by_pairs(zip(*(table[c] for c in table.columns), strict=True), tasks)
    if hasattr(table, "index") and keys(table.index) == keys(table.columns):
        values = np.asarray(table, dtype=np.float64)
        if set(task_keys(tasks)) <= set(keys_like(table.index, tasks)):
            return _by_ids(values, list(table.index), tasks)
        return _by_matrix(values, tasks)
    if len(names) == 2:
        return _by_pairs(zip(*(table[c] for c in table.columns), strict=True), tasks)
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
    held = given if isinstance(given, np.ndarray) else None
    if held is None and hasattr(given, "__array__"):
        held = np.asarray(given)
    pairs = list(given) if held is None else held
    lengths = {len(pair) if hasattr(pair, "__len__") else 0 for pair in pairs}
    if len(lengths) == 1 and lengths == {len(pairs)} and _is_square(pairs, tasks):
        return _by_matrix(np.asarray(pairs, dtype=np.float64), tasks)
    if not lengths <= {2} or any(isinstance(pair, str) for pair in pairs):
        shape = getattr(held, "shape", None) or f"{len(pairs):,} rows"
        raise ValueError(
            f"neighbours are given as {type(given).__name__} of {_shape(shape)}, and there are "
            f"{tasks.n_tasks:,} tasks: give pairs of labels, or a square matrix with a row and a "
            f"column for each task."
        )
    return _by_pairs((tuple(pair) for pair in pairs), tasks)


def _shape(shape: Any) -> str:
    return shape if isinstance(shape, str) else f"shape {tuple(shape)}"


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
    ends = [known.get(k, -1) for k in both]
    outside = {k: x for k, x in zip(both, labels, strict=True) if k not in known}
    masked = every_key(tasks) if outside and tasks.n_masked else set()
    unknown = [label for k, label in outside.items() if k not in masked]
    if unknown:
        raise ValueError(
            f"{len(unknown):,} labels in the pairs of neighbours are no tasks (e.g. "
            f"{some(unknown)}): give labels of {', '.join(tasks.dims)}, such as "
            f"{some(tasks.labels)}."
        )
    table = np.array(ends, dtype=np.intp).reshape(-1, 2)
    table = table[(table >= 0).all(axis=1)]
    return _graph(table[:, 0], table[:, 1], tasks.n_tasks)


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
    graph = _graph(first, second, entries.shape[0])
    one_way = graph.nnz - len(set(zip(first.tolist(), second.tolist(), strict=True)))
    if one_way:
        warnings.warn(
            f"neighbours are not symmetric: {one_way:,} pairs are there in one direction only and "
            f"were taken as neighbours in both.",
            UserWarning,
            stacklevel=4,
        )
    return graph
