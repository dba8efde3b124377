"""Groups of places on a map, neighbouring groups in different colours; or any number of each."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ctfa import _reading as check
from ctfa.core.partition import Partition
from ctfa.core.types import FloatArray, IntArray
from ctfa.estimators.view import FittedGroups
from ctfa.plotting import _axes as draw
from ctfa.plotting._axes import COLOURS, INK
from ctfa.report import _places as placed

#: Corners nearer than this share of the map are one.
SAME = 1e-9


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

    There are fewer colours than groups: colours repeat, but not in groups that touch, unless so
    many touch each other that eight colours do not suffice.

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
        about zero if signs differ. NaN is grey. For what ``ctfa.labelled.fit`` returned, a series
        by task or a DataArray on the tasks' dimensions, such as ``fit.errors.gain``.
    label : str, default=""
        What the numbers are, written at the bar.
    connectivity : sparse matrix, array or pairs, default=None
        Which targets touch. None: outlines that share a side, geometries that meet; positions that
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
    where = placed.read_places(places, partition.n_variables)
    rings = placed.rings_of(where)
    numbers = None
    if values is not None:
        numbers = _read_values(values, groups, partition.n_variables)
    outlines = None if where.outlines is None and where.cell is None else outlines_of(rings)
    if geographic is None:  # of plain arrays it is not known
        is_told = hasattr(places, "positions") or hasattr(places, "geom_type")
        geographic = is_told and where.geographic
    ax = draw.axes(ax, height=6.0)
    scale: dict[str, Any] = {}
    if geographic and hasattr(ax, "projection"):  # of cartopy, which has to be told of degrees
        scale["transform"] = importlib.import_module("cartopy.crs").PlateCarree()
    projected = dict(scale)
    if numbers is None:
        pairs = touching(places, where.positions, outlines, connectivity)
        colour = colours_of(partition, pairs) % len(COLOURS)
        shown, how = np.array(COLOURS)[colour][partition.labels], "facecolors"
    else:
        scale["cmap"], scale["norm"] = draw.colour_scale(numbers)
        shown, how = np.ma.masked_invalid(numbers), "array"
    if outlines is None:
        size = float(np.clip(12000.0 / partition.n_variables, 6.0, 300.0))
        drawn = ax.scatter(*where.positions.T, c=shown, s=size, edgecolors=INK, linewidths=0.3,
                           plotnonfinite=True, **scale)  # fmt: skip
    else:
        collection = importlib.import_module("matplotlib.collections").PathCollection
        style = {"edgecolors": "white", "linewidths": 0.3, how: shown}
        drawn = ax.add_collection(collection(areas(rings), **style, **scale))
        borders = outlines[0][is_border(outlines, partition.labels)]
        draw.lines(ax, borders, colors=INK, linewidths=0.8, **projected)
    ax.autoscale_view()
    if not projected:
        north = np.concatenate([ring for own in rings for ring in own])[:, 1]
        # Height of a degree of latitude in degrees of longitude, in the middle of the map.
        middle = np.deg2rad((north.min() + north.max()) / 2.0)
        ax.set_aspect(1.0 / max(float(np.cos(middle)), 0.1) if geographic else "equal")
    ax.set_xticks([])
    ax.set_yticks([])
    ax.set_title(draw.grouped(partition))
    draw.bare(ax, *ax.spines)
    if numbers is not None:
        bar = ax.figure.colorbar(drawn, ax=ax, shrink=0.75, pad=0.02)
        bar.set_label(label)
    return ax


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


#: Sides of all polygons: their ends (sides, 2, 2), whose they are, and a number that is the same
#: where two polygons share a side.
Outlines: TypeAlias = tuple[FloatArray, IntArray, IntArray]


def outlines_of(rings: Sequence[Sequence[FloatArray]]) -> Outlines:
    """Every side of every target's rings."""
    joined = placed.Rings.joined(rings)
    corners = joined.corners
    grain = SAME * max(float(np.ptp(corners, axis=0).max()), np.finfo(float).tiny)
    _, point = np.unique(np.rint(corners / grain), axis=0, return_inverse=True)
    ends = np.stack((corners, corners[joined.following]), axis=1)
    return ends, joined.owner[joined.ring], joined.sides(np.asarray(point).reshape(-1))


def is_border(outlines: Outlines, labels: IntArray) -> Any:
    """Sides that have one group on one side only: of the map, or of two groups."""
    _, owner, side = outlines
    count = np.bincount(side)
    return ~(placed.are_one(side, labels[owner], count.size) & (count > 1))[side]


def touching(
    places: Any, positions: FloatArray, outlines: Outlines | None, connectivity: Any = None
) -> IntArray:
    """Pairs of places that touch."""
    known = np.zeros((1, len(positions)))  # only their number is looked at
    graph = check.read_graph(connectivity, known, "targets")
    if graph is not None:
        return np.column_stack(graph.nonzero())
    if outlines is None:
        return placed.touching_points(positions)
    if hasattr(places, "geom_type"):
        # Borders of real areas seldom have the same corners on both sides: the geometries know.
        series = places.geometry
        pairs = np.asarray(series.sindex.query(series, predicate="intersects")).T
        return pairs[pairs[:, 0] < pairs[:, 1]]
    _, owner, side = outlines
    return owner[np.column_stack(placed.same_sides(side))]


def areas(rings: Sequence[Sequence[FloatArray]]) -> list[Any]:
    """One path per target; rings within an odd number of others are holes."""
    if not all(rings):
        number = next(k for k, own in enumerate(rings) if not own)
        raise ValueError(f"place {number} has no outline: give one ring or more for each target.")
    path = importlib.import_module("matplotlib.path").Path
    found = []
    for own in rings:
        turned = _turned(path, own) if len(own) > 1 else own
        closed = [path([*ring, ring[0]], closed=True) for ring in turned]
        found.append(path.make_compound_path(*closed))
    return found


def _turned(path: Any, rings: Sequence[FloatArray]) -> list[FloatArray]:
    """Rings turned so that holes run the other way: what runs both ways is not filled."""
    turned = []
    for number, ring in enumerate(rings):
        # A corner of a hole may lie on the ring around it; the middle of a side seldom does.
        inside, others = ring[:2].mean(axis=0), [*rings[:number], *rings[number + 1 :]]
        depth = sum(bool(path(other).contains_point(inside)) for other in others)
        x, y = ring.T - ring.mean(axis=0)[:, None]
        runs_back = float(x @ np.roll(y, -1) - y @ np.roll(x, -1)) <= 0.0  # with the clock
        turned.append(ring[::-1] if runs_back == (depth % 2 == 0) else ring)
    return turned
