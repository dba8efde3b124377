"""Groups of places on a map, neighbouring groups in different colours; or any number of each."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ctfa import _validation as check
from ctfa.core.partition import Partition
from ctfa.core.types import FloatArray, IntArray
from ctfa.estimators.view import FittedGroups
from ctfa.plotting import _axes as draw
from ctfa.plotting._axes import COLOURS, INK
from ctfa.report import _places as placed

#: Corners nearer than this share of the map are one.
SAME = 1e-9
#: Positions farther than this share of a cell from the grid are no grid.
OFF_GRID = 0.05


def plot_groups_map(
    groups: Any,
    places: Any = None,
    *,
    values: Any = None,
    label: str = "",
    connectivity: Any = None,
    geographic: bool | None = None,
    ax: Any = None,
) -> Any:
    """Draw places in the colour of their group, or of a number, with the borders of groups.

    There are fewer colours than groups: a colour comes again, and not in groups that touch unless
    so many touch each other that eight colours do not suffice.

    Parameters
    ----------
    groups : fitted model, Partition or array of shape (n_targets,)
        Anything with ``labels_``, groups, or the group of each target.
    places : where each target lies, in the order of the targets
        A list of outlines, arrays of shape (n_corners, 2), or an array of positions of shape
        (n_targets, 2), drawn as dots; polygons, multipolygons or points of geopandas; or an object
        with ``positions``, ``outlines`` (the rings of each target, holes among them) and ``cell``
        (width and height, where positions are those of a grid), such as ``ctfa.report.Places``.
        None asks what ``ctfa.labelled.fit`` returned.
    values : array of shape (n_targets,), series or DataArray, default=None
        Colour by these numbers (a gain, a coefficient, trust) instead of by group, with a bar:
        about zero where signs differ. NaN is grey. Of what ``ctfa.labelled.fit`` returned, a series
        by task or a DataArray on the tasks' dimensions, such as ``fit.errors.gain``.
    label : str, default=""
        What the numbers are, written at the bar.
    connectivity : sparse matrix, array or pairs, default=None
        Who touches whom. None: outlines that share a side, geometries that meet; positions that
        share a side of their Delaunay triangulation.
    geographic : bool or None, default=None
        Whether places are longitude and latitude: degrees are then as wide as they are in the
        middle of the map, and a cartopy axis projects them. None asks the places.
    ax : matplotlib Axes, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from ctfa import MultiInputCTFARegressor, TargetAggregator
    >>> from ctfa.datasets import make_basins
    >>> from ctfa.plotting import plot_groups_map
    >>> basins = make_basins(60, n_features=4, n_regions=3, random_state=0)
    >>> neighbours = TargetAggregator(connectivity=basins.connectivity)
    >>> model = MultiInputCTFARegressor(basins.layout, targets=neighbours)
    >>> model = model.fit(basins.data, basins.target)
    >>> ax = plot_groups_map(model, basins.polygons)  # doctest: +SKIP
    >>> ax = plot_groups_map(model, basins.polygons, values=model.trust_)  # doctest: +SKIP
    """
    if places is None and draw.is_labelled(groups):
        places = groups.places()
    partition = _read_groups(draw.model_of(groups))
    where = read_places(places, partition.n_variables)
    numbers = None
    if values is not None:
        numbers = _read_values(values, groups, partition.n_variables)
    outlines = None if where.points is not None else outlines_of(where.rings)
    if geographic is None:
        geographic = where.geographic
    ax = draw.axes(ax, height=6.0)
    if numbers is None:
        known = np.zeros((1, partition.n_variables))  # only their number is looked at
        graph = check.read_graph(connectivity, known, "targets")
        pairs = np.column_stack(graph.nonzero()) if graph is not None else touching(where, outlines)
        colour = colours_of(partition, pairs) % len(COLOURS)
        paint = {"facecolors": np.array(COLOURS)[colour][partition.labels]}
    else:
        scale, norm = draw.colour_scale(numbers)
        paint = {"cmap": scale, "norm": norm, "array": np.ma.masked_invalid(numbers)}
    projected = _projection(ax) if geographic else {}
    drawn = _draw(ax, where, paint, projected, partition.n_variables)
    if outlines is not None:
        borders = outlines.ends[is_border(outlines, partition.labels)]
        draw.lines(ax, borders, colors=INK, linewidths=0.8, **projected)
    ax.autoscale_view()
    if not projected:
        ax.set_aspect(_aspect(where) if geographic else "equal")
    ax.set_xticks([])
    ax.set_yticks([])
    ax.set_title(draw.grouped(partition))
    draw.bare(ax, *ax.spines)
    if numbers is not None:
        bar = ax.figure.colorbar(drawn, ax=ax, shrink=0.75, pad=0.02)
        bar.set_label(label)
    return ax


def _draw(
    ax: Any, where: Where, paint: dict[str, Any], projected: dict[str, Any], n_targets: int
) -> Any:
    """Areas or dots."""
    collections = importlib.import_module("matplotlib.collections")
    if where.points is None:
        drawn = collections.PathCollection(
            areas(where.rings), edgecolors="white", linewidths=0.3, **projected, **paint
        )
        return ax.add_collection(drawn)
    named = {"facecolors": "c", "array": "c"}
    paint = {named.get(name, name): value for name, value in paint.items()}
    dots = ax.scatter(
        *where.points.T, edgecolors=INK, linewidths=0.3, plotnonfinite=True, **paint, **projected
    )
    dots.set_sizes([float(np.clip(12000.0 / n_targets, 6.0, 300.0))])
    return dots


def _projection(ax: Any) -> dict[str, Any]:
    """What a cartopy axis has to be told of longitude and latitude; nothing for others."""
    if not hasattr(ax, "projection"):
        return {}
    return {"transform": importlib.import_module("cartopy.crs").PlateCarree()}


def _aspect(where: Where) -> float:
    """Height of a degree of latitude in degrees of longitude, in the middle of the map."""
    corners = where.points
    if corners is None:
        corners = np.concatenate([ring for own in where.rings for ring in own])
    middle = float((corners[:, 1].min() + corners[:, 1].max()) / 2.0)
    return 1.0 / max(float(np.cos(np.deg2rad(middle))), 0.1)


def _read_values(values: Any, result: Any, n_targets: int) -> FloatArray:
    """Numbers of the targets in their order: by their labels where both have such."""
    index: Any = getattr(values, "index", None)
    if draw.is_labelled(result):
        values = result.tasks_first(values)[0]
    elif index is not None and hasattr(values, "reindex") and hasattr(result, "get_params"):
        names = list(FittedGroups.of(result).names)
        if set(names) <= set(index) and not index.has_duplicates:
            values = values.loc[names]
    numbers = np.asarray(values, dtype=float)
    if numbers.shape != (n_targets,):
        raise ValueError(
            f"values has shape {numbers.shape} and there are {n_targets} targets: give one number "
            "for each target, NaN where there is none."
        )
    return numbers


def _read_groups(groups: Any) -> Partition:
    if isinstance(groups, Partition):
        return groups
    if hasattr(groups, "get_params"):
        check_is_fitted(groups)
        return Partition(groups.labels_)
    labels = np.asarray(groups)
    if labels.ndim != 1 or labels.size == 0:
        raise ValueError(
            f"groups has shape {labels.shape}: give a fitted model, a Partition, or the group of "
            "each target as an array of one dimension."
        )
    return Partition(labels)


def colours_of(partition: Partition, pairs: IntArray) -> IntArray:
    """A number for each group, the least that none of its neighbours has.

    Groups with many neighbours choose first, so that few numbers do: six or so on a map.
    """
    n_groups = partition.n_groups
    between = partition.labels[pairs]
    between = between[between[:, 0] != between[:, 1]]
    neighbours: list[set[int]] = [set() for _ in range(n_groups)]
    for one, other in between.tolist():
        neighbours[one].add(other)
        neighbours[other].add(one)
    colour = np.full(n_groups, -1)
    order = sorted(range(n_groups), key=lambda group: -len(neighbours[group]))
    used = np.zeros(len(COLOURS), dtype=int)
    for group in order:
        taken = {int(colour[other]) for other in neighbours[group]}
        free = [number for number in range(len(COLOURS)) if number not in taken]
        # Of those that are free the one that is rarest so far: all colours are seen.
        if free:
            colour[group] = min(free, key=lambda number: used[number])
            used[colour[group]] += 1
        else:
            colour[group] = min(set(range(len(taken) + 1)) - taken)
    return colour


class Where(NamedTuple):
    """Places as they are drawn."""

    points: FloatArray | None  # (n_targets, 2), where there are no outlines
    rings: list[list[FloatArray]]  # of each target, without the corner that closes them
    geographic: bool
    pairs: IntArray | None = None  # who touches whom, where the places can tell


class Outlines(NamedTuple):
    """Sides of all polygons."""

    ends: FloatArray  # (sides, 2, 2)
    owner: IntArray  # (sides,)
    side: IntArray  # (sides,): the same number where two polygons share it


def read_places(places: Any, n_targets: int) -> Where:
    """Places of any kind: geometries, objects with positions, lists of outlines, pairs."""
    if places is None:
        raise ValueError(
            "it is not known where the targets lie: give places, one outline or one position each."
        )
    if hasattr(places, "geom_type"):  # geopandas, series or frame
        return _of_geometries(places, n_targets)
    is_told = hasattr(places, "positions") and hasattr(places, "outlines")
    known = places if is_told else placed.guessed(places)
    geographic = is_told and bool(getattr(places, "geographic", False))
    if known.outlines is not None:
        _require_number(len(known.outlines), n_targets)
        each = [[np.asarray(ring, dtype=np.float64) for ring in own] for own in known.outlines]
        return Where(None, _checked(each), geographic)
    points = np.asarray(known.positions, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] != 2:
        raise ValueError(f"positions has shape {points.shape}: give two numbers for each target.")
    _require_number(len(points), n_targets)
    placed.require_known(np.isfinite(points).all(axis=1))
    cell = getattr(known, "cell", None)
    if cell is None:
        return Where(points, [], geographic)
    return Where(None, _cells(points, np.asarray(cell, dtype=float)), geographic)


def outlines_of(rings: Sequence[Sequence[FloatArray]]) -> Outlines:
    """Every side of every target's rings, the same one of two targets by one number."""
    joined = placed.Rings.joined(rings)
    corners = joined.corners
    grain = SAME * max(float(np.ptp(corners, axis=0).max()), np.finfo(float).tiny)
    _, point = np.unique(np.rint(corners / grain), axis=0, return_inverse=True)
    ends = np.stack((corners, corners[joined.following]), axis=1)
    side = joined.sides(np.asarray(point).reshape(-1))
    return Outlines(ends, joined.owner[joined.ring], side)


def is_border(outlines: Outlines, labels: IntArray) -> Any:
    """Sides with one group only on one of their hands: of the map, or of two groups."""
    n_sides = int(outlines.side.max()) + 1
    group = labels[outlines.owner]
    low, high = np.full(n_sides, labels.size), np.full(n_sides, -1)
    np.minimum.at(low, outlines.side, group)
    np.maximum.at(high, outlines.side, group)
    alone = np.bincount(outlines.side, minlength=n_sides) == 1
    return ((low != high) | alone)[outlines.side]


def touching(where: Where, outlines: Outlines | None) -> IntArray:
    """Pairs of places that touch."""
    if where.pairs is not None:
        return where.pairs
    if outlines is not None:
        return outlines.owner[np.column_stack(placed.same_sides(outlines.side))]
    assert where.points is not None
    return placed.touching_points(where.points)


def areas(rings: Sequence[Sequence[FloatArray]]) -> list[Any]:
    """One path per target; rings within an odd number of others are holes."""
    path = importlib.import_module("matplotlib.path").Path
    found = []
    for own in rings:
        turned = _turned(path, own) if len(own) > 1 else own
        closed = [path([*ring, ring[0]], closed=True) for ring in turned]
        found.append(path.make_compound_path(*closed))
    return found


def _turned(path: Any, rings: Sequence[FloatArray]) -> list[FloatArray]:
    """placed.Rings so turned that holes run the other way: what runs both ways is not filled."""
    turned = []
    for number, ring in enumerate(rings):
        # A corner of a hole may lie on the ring around it; the middle of a side seldom does.
        inside = ring[:2].mean(axis=0)
        depth = sum(
            bool(path(other).contains_point(inside)) for k, other in enumerate(rings) if k != number
        )
        turned.append(ring if (_area(ring) > 0.0) == (depth % 2 == 0) else ring[::-1])
    return turned


def _area(ring: FloatArray) -> float:
    """Twice the area, above zero where corners run against the clock."""
    x, y = ring.T - ring.mean(axis=0)[:, None]
    return float(x @ np.roll(y, -1) - y @ np.roll(x, -1))


def _of_geometries(places: Any, n_targets: int) -> Where:
    """Polygons, multipolygons or points of geopandas, in the order of their rows."""
    series = places.geometry
    _require_number(len(series), n_targets)
    crs = getattr(series, "crs", None)
    geographic = crs is not None and bool(crs.is_geographic)
    kinds = sorted({str(kind) for kind in series.geom_type})
    if kinds == ["Point"]:
        points = np.column_stack((series.x, series.y)).astype(float)
        return Where(points, [], geographic)
    if not set(kinds) <= {"Polygon", "MultiPolygon"}:
        raise ValueError(
            f"places holds {', '.join(kinds)}: give polygons (or multipolygons) for all targets, "
            "or points for all."
        )
    each = [
        [
            np.asarray(ring.coords, dtype=np.float64)[:, :2]
            for part in getattr(shape, "geoms", [shape])
            for ring in (part.exterior, *part.interiors)
        ]
        for shape in series
    ]
    # Borders of real areas seldom have the same corners on both hands: the geometries know better.
    pairs = np.asarray(series.sindex.query(series, predicate="intersects")).T
    return Where(None, _checked(each), geographic, pairs[pairs[:, 0] < pairs[:, 1]])


def _cells(points: FloatArray, cell: FloatArray) -> list[list[FloatArray]]:
    """The four corners about each position of a grid."""
    first = points.min(axis=0)
    steps = (points - first) / cell
    # On the grid itself: positions in single precision would part cells that touch.
    if np.abs(steps - np.rint(steps)).max() < OFF_GRID:
        steps = np.rint(steps)
    corner = np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]])
    return [[first + (step + corner) * cell] for step in steps]


def _checked(each: list[list[FloatArray]]) -> list[list[FloatArray]]:
    placed.require_known([all(np.isfinite(ring).all() for ring in own) for own in each])
    for number, own in enumerate(each):
        if not own:
            raise ValueError(f"place {number} has no outline: give one ring or more a target.")
        for ring in own:
            placed.require_outline(number, ring)
    # A corner that closes an outline is not one more corner.
    return [
        [r[:-1] if len(r) > 3 and np.array_equal(r[0], r[-1]) else r for r in own] for own in each
    ]


def _require_number(n_places: int, n_targets: int) -> None:
    if n_places != n_targets:
        raise ValueError(
            f"there are {n_places} places and {n_targets} targets: give one outline or one "
            "position for each target, in the order of the targets."
        )
