"""Groups of places on a map, neighbouring groups in different colours; or any number of each."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ctfa import _validation as check
from ctfa.core.partition import Partition
from ctfa.core.types import FloatArray, IntArray
from ctfa.plotting._axes import COLOURS, INK, axes, colour_scale, make_room
from ctfa.plotting._places import Where, areas, is_border, outlines_of, read_places, touching
from ctfa.plotting._reading import is_labelled, model_of, values_of


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
    if places is None and is_labelled(groups):
        places = groups.places()
    partition = _read_groups(model_of(groups))
    where = read_places(places, partition.n_variables)
    numbers = None
    if values is not None:
        numbers = _read_values(values_of(values, groups), partition.n_variables)
    outlines = None if where.points is not None else outlines_of(where.rings)
    if geographic is None:
        geographic = where.geographic
    ax = axes(ax, height=6.0)
    make_room(ax.figure)
    if numbers is None:
        known = np.zeros((1, partition.n_variables))  # only their number is looked at
        graph = check.read_graph(connectivity, known, "targets")
        pairs = np.column_stack(graph.nonzero()) if graph is not None else touching(where, outlines)
        paint = {"facecolors": _paint(partition, pairs)}
    else:
        scale, norm = colour_scale(numbers)
        paint = {"cmap": scale, "norm": norm, "array": np.ma.masked_invalid(numbers)}
    projected = _projection(ax) if geographic else {}
    drawn = _draw(ax, where, paint, projected, partition.n_variables)
    if outlines is not None:
        collections = importlib.import_module("matplotlib.collections")
        borders = outlines.ends[is_border(outlines, partition.labels)]
        ax.add_collection(
            collections.LineCollection(borders, colors=INK, linewidths=0.8, **projected)
        )
    ax.autoscale_view()
    if not projected:
        ax.set_aspect(_aspect(where) if geographic else "equal")
    ax.set_xticks([])
    ax.set_yticks([])
    ax.set_title(_title(partition))
    for side in ax.spines.values():
        side.set_visible(False)
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
    plain = {"c": paint["facecolors"]} if "facecolors" in paint else {"c": paint.pop("array")}
    paint.pop("facecolors", None)
    dots = ax.scatter(
        *where.points.T, edgecolors=INK, linewidths=0.3, plotnonfinite=True, **plain, **paint,
        **projected,
    )  # fmt: skip
    dots.set_sizes([float(np.clip(12000.0 / n_targets, 6.0, 300.0))])
    return dots


def _paint(partition: Partition, pairs: IntArray) -> Any:
    """The colour of each target's group."""
    return np.array(COLOURS)[_colours(partition, pairs) % len(COLOURS)][partition.labels]


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


def _read_values(values: Any, n_targets: int) -> FloatArray:
    numbers = np.asarray(values, dtype=float)
    if numbers.shape != (n_targets,):
        raise ValueError(
            f"values has shape {numbers.shape} and there are {n_targets} targets: give one number "
            "for each target, NaN where there is none."
        )
    return numbers


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
