"""Groups of places on a map, neighbouring groups in different colours."""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial import Delaunay, QhullError
from sklearn.utils.validation import check_is_fitted

from ctfa import _validation as check
from ctfa.core.partition import Partition
from ctfa.core.types import FloatArray, IntArray
from ctfa.plotting._axes import COLOURS, INK, axes, make_room

#: Corners nearer than this share of the map are one.
SAME = 1e-9


class Outlines(NamedTuple):
    """Sides of all polygons."""

    ends: FloatArray  # (sides, 2, 2)
    owner: IntArray  # (sides,)
    side: IntArray  # (sides,): the same number where two polygons share it


def plot_groups_map(groups: Any, places: Any, *, connectivity: Any = None, ax: Any = None) -> Any:
    """Draw places in the colour of their group, with the borders of groups.

    There are fewer colours than groups: a colour comes again, and not in groups that touch unless
    so many touch each other that eight colours do not suffice.

    Parameters
    ----------
    groups : fitted model, Partition or array of shape (n_targets,)
        Anything with ``labels_``, groups, or the group of each target.
    places : list of arrays of shape (n_corners, 2), or array of shape (n_targets, 2)
        The outline of each target's area; or its position, drawn as a dot.
    connectivity : sparse matrix, array or pairs, default=None
        Who touches whom. None: outlines that share a side; positions that share one of their
        Delaunay triangulation.
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
    """
    partition = _read_groups(groups)
    are_points, where = _read_places(places, partition.n_variables)
    outlines = None if are_points else _outlines(where)
    known = np.zeros((1, partition.n_variables))  # only their number is looked at
    graph = check.read_graph(connectivity, known, "targets")
    pairs = np.column_stack(graph.nonzero()) if graph is not None else _touching(where, outlines)
    colour = np.array(COLOURS)[_colours(partition, pairs) % len(COLOURS)][partition.labels]
    ax = axes(ax, height=6.0)
    make_room(ax.figure)
    if outlines is None:
        dots = ax.scatter(*np.asarray(where).T, c=colour, edgecolors=INK, linewidths=0.3)
        dots.set_sizes([max(6.0, 12000.0 / partition.n_variables)])
    else:
        collections = importlib.import_module("matplotlib.collections")
        areas = collections.PolyCollection(
            where, facecolors=colour, edgecolors="white", linewidths=0.3
        )
        ax.add_collection(areas)
        borders = outlines.ends[_is_border(outlines, partition.labels)]
        ax.add_collection(collections.LineCollection(borders, colors=INK, linewidths=0.8))
        ax.autoscale_view()
    ax.set_aspect("equal")
    ax.set_xticks([])
    ax.set_yticks([])
    ax.set_title(_title(partition))
    for side in ax.spines.values():
        side.set_visible(False)
    return ax


def _title(partition: Partition) -> str:
    n_targets, n_groups = partition.n_variables, partition.n_groups
    if n_targets == n_groups:
        return f"{n_targets:,} targets, each by itself"
    return f"{n_targets:,} targets in {n_groups:,} group{'s' * (n_groups > 1)}"


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


def _read_places(places: Any, n_targets: int) -> tuple[bool, Any]:
    """Whether they are points, and the places as arrays."""
    if hasattr(places, "to_numpy"):  # a data frame, which would be gone through by its columns
        places = places.to_numpy()
    if len(places) != n_targets:
        raise ValueError(
            f"there are {len(places)} places and {n_targets} targets: give one outline or one "
            "position for each target, in the order of the targets."
        )
    each = [np.asarray(place, dtype=np.float64) for place in places]
    lost = [number for number, place in enumerate(each) if not np.isfinite(place).all()]
    if lost:
        raise ValueError(
            f"place {lost[0]} holds NaN or infinity ({len(lost)} such): leave those targets out, "
            "or say where they lie."
        )
    if all(place.shape == (2,) for place in each):
        return True, np.stack(each)
    for number, place in enumerate(each):
        if place.ndim != 2 or place.shape[1] != 2 or len(place) < 3:
            raise ValueError(
                f"place {number} has shape {place.shape}: an outline has three corners or more, "
                "each a pair of numbers; a position is one pair."
            )
    return False, each


def _outlines(polygons: list[FloatArray]) -> Outlines:
    """Every side of every polygon, the same one of two polygons by one number."""
    # A corner that closes an outline is not one more corner.
    opened = [p[:-1] if len(p) > 3 and np.array_equal(p[0], p[-1]) else p for p in polygons]
    sizes = np.array([len(p) for p in opened])
    corners = np.concatenate(opened)
    following = np.concatenate([np.roll(p, -1, axis=0) for p in opened])
    grain = SAME * max(float(np.ptp(corners, axis=0).max()), np.finfo(float).tiny)
    _, number = np.unique(np.rint(corners / grain), axis=0, return_inverse=True)
    number = np.asarray(number).reshape(-1)
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    place = np.arange(len(corners)) - starts
    after = starts + (place + 1) % np.repeat(sizes, sizes)
    sides = np.sort(np.column_stack((number, number[after])), axis=1)
    _, side = np.unique(sides, axis=0, return_inverse=True)
    owner = np.repeat(np.arange(len(opened)), sizes)
    return Outlines(np.stack((corners, following), axis=1), owner, np.asarray(side).reshape(-1))


def _is_border(outlines: Outlines, labels: IntArray) -> Any:
    """Sides with one group only on one of their hands: of the map, or of two groups."""
    n_sides = int(outlines.side.max()) + 1
    group = labels[outlines.owner]
    low, high = np.full(n_sides, labels.size), np.full(n_sides, -1)
    np.minimum.at(low, outlines.side, group)
    np.maximum.at(high, outlines.side, group)
    alone = np.bincount(outlines.side, minlength=n_sides) == 1
    return ((low != high) | alone)[outlines.side]


def _touching(places: Any, outlines: Outlines | None) -> IntArray:
    """Pairs of places that touch."""
    if outlines is not None:
        order = np.argsort(outlines.side, kind="stable")
        same = np.flatnonzero(np.diff(outlines.side[order]) == 0)
        return outlines.owner[np.column_stack((order[same], order[same + 1]))]
    try:
        corners = Delaunay(places).simplices
    except (QhullError, ValueError):  # fewer than three, or all in one line
        line = np.lexsort(places.T[::-1])
        return np.column_stack((line[:-1], line[1:]))
    return np.concatenate((corners[:, :2], corners[:, 1:], corners[:, ::2]))


def _colours(partition: Partition, pairs: IntArray) -> IntArray:
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
        chosen = min(free, key=lambda number: used[number]) if free else _least(taken)
        colour[group] = chosen
        if free:
            used[chosen] += 1
    return colour


def _least(taken: set[int]) -> int:
    return next(number for number in range(len(taken) + 1) if number not in taken)
