"""A map of river basins, each with its own weather: many tasks with their own inputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph
from scipy.spatial import Voronoi
from sklearn.utils import check_random_state

from ctfa.core.types import BoolArray, FloatArray, IntArray
from ctfa.datasets._bunches import InputsBunch, numbered, require_numbers

#: Inputs by name, their units, size and spread from month to month; snow comes last.
SLOTS = (
    ("temperature", "degC", 9.0, 3.0),
    ("precipitation", "mm", 70.0, 30.0),
    ("evaporation", "mm", 45.0, 15.0),
    ("radiation", "W m-2", 140.0, 25.0),
    ("humidity", "%", 75.0, 8.0),
    ("pressure", "hPa", 1013.0, 6.0),
    ("wind_east", "m s-1", 2.0, 1.5),
    ("wind_north", "m s-1", 1.0, 1.5),
    ("cloud_cover", "%", 60.0, 12.0),
    ("dew_point", "degC", 5.0, 3.0),
    ("soil_moisture", "m3 m-3", 0.3, 0.05),
    ("soil_temperature", "degC", 10.0, 3.0),
    ("runoff", "mm", 25.0, 12.0),
    ("sunshine", "h", 150.0, 40.0),
    ("vapour_pressure", "hPa", 10.0, 2.0),
)
SNOW = ("snow", "mm", 40.0, 25.0)
#: Waves that make a smooth field, and its correlation length in units of the map. Longer than a
#: region is wide, as for monthly weather: with a shorter one the mean over a region is not the
#: weather of any basin, and averaging does not pay even within the truth.
N_WAVES, WAVE_LENGTH = 48, 0.5
#: Shares of the variance: of an input that is its own basin's alone and that is the season's, and
#: of the noise that neighbours share. The first is signal that no mean can have.
LOCAL, SEASONAL, SHARED_NOISE = 0.03, 0.3, 0.3
#: Mean length of a gap in months, and the largest share of gaps.
GAP_LENGTH, MOST_GAPS = 3.0, 0.5


def make_basins(
    n_basins: int = 400,
    n_samples: int = 102,
    n_features: int = 16,
    *,
    n_regions: int = 12,
    noise: float = 1.0,
    within: float = 0.0,
    gaps: Any = 0.0,
    missing_slots: float = 0.0,
    polygons: bool = True,
    random_state: Any = None,
) -> InputsBunch:
    """Return monthly series of river basins on a map, each a target with its own inputs.

    The setting of the paper's largest experiment (29,934 basins, 16 inputs, 102 months, whose
    inputs are not public) with a known truth. Inputs are smooth fields with seasons and memory,
    plus a little of each basin's own. Basins of one region respond alike; regions are connected.
    Each basin's target has its own level and unit.

    Parameters
    ----------
    n_basins, n_samples, n_features : int
        Basins (targets), months, and inputs of each basin.
    n_regions : int, default=12
        Regions, each with its own coefficients.
    noise : float, default=1.0
        Standard deviation of what the inputs do not explain, that of what they explain being
        about one. Three tenths of its variance are shared with neighbours.
    within : float, default=0.0
        How far coefficients wander smoothly within a region, in units of their own size.
    gaps : float or pair of floats, default=0.0
        Share of values missing, in blocks of months, of every series; a pair is for inputs and for
        targets.
    missing_slots : float, default=0.0
        Share of basins without the last input, snow: the warmest, in the south and low.
    polygons : bool, default=True
        Whether to give the outlines.
    random_state : int, RandomState or None, default=None
        Seed.

    Returns
    -------
    Bunch
        With

        - ``data`` (n_samples, n_columns), the inputs of the first basin, then of the second, ...;
          ``layout`` (n_basins, n_features), the column of each basin's inputs, -1 for none;
          ``inputs``, the same as (n_samples, n_basins, n_features);
        - ``target`` (n_samples, n_basins);
        - ``target_names``, ``slot_names``, ``units`` by name, and ``kind``, which is "own inputs";
        - ``lon``, ``lat``, ``elevation`` (n_basins,);
        - ``connectivity``, a sparse symmetric matrix: one where two basins share a border, about
          six for each basin, as on any map; ``polygons``, the corners of each basin, or None;
        - ``regions`` (n_basins,), the truth; ``coefficients`` (n_regions, n_features), the response
          to one unit of each input, where ``slot_units`` (n_features,) and ``target_units``
          (n_basins,) are the units.

        ``to_xarray()`` gives the series as a Dataset on (time, basin), ``to_geopandas()`` the
        outlines.

    Examples
    --------
    >>> from ctfa.datasets import make_basins
    >>> basins = make_basins(100, random_state=0)
    >>> basins.data.shape, basins.layout.shape, basins.target.shape
    ((102, 1600), (100, 16), (102, 100))
    >>> basins.slot_names[:2], basins.target_names[0]
    (['temperature', 'precipitation'], 'basin_001')
    """
    shares = tuple(gaps) if isinstance(gaps, tuple | list | np.ndarray) else (gaps, gaps)
    for share in shares:
        require_numbers(0.0, MOST_GAPS, whole=False, gaps=share)
    if len(shares) != 2:
        raise ValueError(
            f"gaps={gaps!r}: give the share of missing values, or a pair of them for inputs and "
            "for targets."
        )
    require_numbers(1, n_basins=n_basins, n_samples=n_samples, n_features=n_features)
    require_numbers(1, n_basins, n_regions=n_regions)
    require_numbers(0.0, whole=False, noise=noise, within=within)
    require_numbers(0.0, 1.0, whole=False, missing_slots=missing_slots)
    if missing_slots and n_features < 2:
        raise ValueError(
            f"missing_slots={missing_slots} with n_features={n_features}: a basin without its only "
            "input has none. Give at least two features."
        )
    # Seeded by scikit-learn's generator as everywhere, drawn from numpy's, which is twice as fast.
    rng = np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
    points, graph, cells = _drawn(n_basins, rng)
    in_box = (points - BOX[:, 0]) / np.ptp(BOX, axis=1)
    regions = _regions(in_box, graph, n_regions, rng)
    waves = _waves(in_box, rng)
    lon, lat = points.T
    height = rng.normal(size=N_WAVES) @ waves
    elevation = 400.0 * np.exp((height - height.mean()) / (float(height.std()) or 1.0))
    exists = np.ones((n_basins, n_features), dtype=bool)
    cold = lat + elevation / 150.0
    exists[np.argsort(-cold)[n_basins - round(missing_slots * n_basins) :], -1] = False
    layout = np.full(exists.shape, -1, dtype=np.intp)
    layout[exists] = np.arange(np.count_nonzero(exists))

    coefficients = rng.normal(size=(n_regions, n_features))
    coefficients /= np.linalg.norm(coefficients, axis=1, keepdims=True)
    response = coefficients[regions]
    if within:
        wander = rng.normal(size=(n_features, N_WAVES)) @ waves / np.sqrt(n_features)
        response = response + within * wander.T

    slots = _slots(n_features)
    data = np.empty((n_samples, np.count_nonzero(exists)))
    target = _noise(n_samples, waves, noise, rng)
    # One input at a time: at full size all of them fill 400 MB, and are never held twice.
    for slot, field in enumerate(_weather(n_samples, n_features, waves, rng)):
        here = exists[:, slot]
        target[:, here] += field[:, here] * response[here, slot]
        *_, size, unit = slots[slot]
        level = size + unit * rng.normal(size=n_basins)
        data[:, layout[here, slot]] = level[here] + unit * field[:, here]
    target_units = np.exp(rng.normal(size=n_basins))
    target *= target_units
    target += 3.0 * target_units * rng.normal(size=n_basins)
    for values, share in zip((data, target), shares, strict=True):
        _cut_gaps(values, share, rng)

    return InputsBunch(
        data=data,
        layout=layout,
        target=target,
        target_names=numbered("basin", n_basins),
        slot_names=[name for name, *_ in slots],
        kind="own inputs",
        words=("flow", "basin"),
        units={name: units for name, units, *_ in slots if units} | {"flow": "m3 s-1"},
        lon=lon,
        lat=lat,
        elevation=elevation,
        connectivity=graph,
        polygons=_polygons(points, cells) if polygons else None,
        regions=regions,
        coefficients=coefficients,
        slot_units=np.array([unit for *_, unit in slots]),
        target_units=target_units,
    )


def _slots(n_features: int) -> list[tuple[str, str, float, float]]:
    """Names, units, sizes and spreads; more than there are names are numbered, without units."""
    known = [*SLOTS[: n_features - 1], SNOW] if n_features > 1 else [SLOTS[0]]
    more = [(f"input_{number}", "", 0.0, 1.0) for number in range(len(known) + 1, n_features + 1)]
    return [*known[:-1], *more, known[-1]]


def _waves(points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Random waves over the map; a random mixture of them is a smooth field of variance one."""
    direction = rng.normal(size=(N_WAVES, 2)) / WAVE_LENGTH
    phase = rng.uniform(0.0, 2.0 * np.pi, size=(N_WAVES, 1))
    return np.asarray(np.sqrt(2.0 / N_WAVES) * np.cos(direction @ points.T + phase))


def _weather(
    n_samples: int, n_features: int, waves: FloatArray, rng: np.random.Generator
) -> Iterator[FloatArray]:
    """Fields (months, basins) of one input after the other, of variance about one."""
    month = 2.0 * np.pi * np.arange(n_samples)[:, None] / 12.0
    for _ in range(n_features):
        memory, phase = rng.uniform(0.2, 0.8), rng.uniform(0.0, 2.0 * np.pi)
        field = _remembering(rng.normal(size=(n_samples, N_WAVES)), memory) @ waves
        field *= np.sqrt(1.0 - LOCAL - SEASONAL)
        # Seasons are stronger in some parts of the map, and a little later.
        strength = 1.0 + 0.3 * np.tanh(rng.normal(size=N_WAVES) @ waves)
        delay = 0.3 * (rng.normal(size=N_WAVES) @ waves)
        field += np.sqrt(2.0 * SEASONAL) * strength * np.cos(month - phase - delay)
        field += np.sqrt(LOCAL) * rng.standard_normal(field.shape)
        yield field


def _noise(n_samples: int, waves: FloatArray, noise: float, rng: np.random.Generator) -> FloatArray:
    """What inputs do not explain: partly the neighbours' too, partly a basin's own."""
    field = rng.normal(size=(n_samples, N_WAVES)) @ waves
    field *= noise * np.sqrt(SHARED_NOISE)
    field += noise * np.sqrt(1.0 - SHARED_NOISE) * rng.standard_normal(field.shape)
    return np.asarray(field)


def _remembering(steps: FloatArray, memory: float) -> FloatArray:
    """Red noise of variance one: each month keeps a part of the last."""
    for month in range(1, len(steps)):
        steps[month] = memory * steps[month - 1] + np.sqrt(1.0 - memory**2) * steps[month]
    return steps


def _cut_gaps(values: FloatArray, share: float, rng: np.random.Generator) -> None:
    """Set blocks of months to NaN, so many of all values on average."""
    if share == 0.0:
        return
    begins = share / (1.0 - share) / GAP_LENGTH
    missing: BoolArray = np.less(rng.random(values.shape[1]), share)
    for month in values:
        month[missing] = np.nan
        chance = rng.random(missing.size)
        missing = np.where(missing, chance >= 1.0 / GAP_LENGTH, chance < begins)


#: The box in degrees, west to east and south to north: about Europe.
BOX = np.array([[-10.0, 30.0], [36.0, 70.0]])
#: How far a point strays from the middle of its square, in squares: never out of it.
STRAY = 0.4
#: Squares from a side within which points are mirrored at it. Cells at a side are far nearer.
MIRRORED = 8.0


def _drawn(n_points: int, rng: np.random.Generator) -> tuple[FloatArray, sparse.csr_array, Voronoi]:
    """Points in the box, which touch, and the cells of all that is nearest to each.

    Points are drawn a little irregularly, and the box is divided among them.
    """
    width, height = np.ptp(BOX, axis=1)
    n_columns = int(np.ceil(np.sqrt(n_points * width / height)))
    n_rows = int(np.ceil(n_points / n_columns))
    square = np.array([width / n_columns, height / n_rows])
    taken = np.sort(rng.permutation(n_columns * n_rows)[:n_points])
    middle = np.column_stack((taken % n_columns, taken // n_columns)) + 0.5
    stray = rng.uniform(-STRAY, STRAY, size=(n_points, 2))
    points = BOX[:, 0] + (middle + stray) * square
    cells = Voronoi(np.concatenate((points, *_mirrored(points, MIRRORED * square))))
    one, other = cells.ridge_points[(cells.ridge_points < n_points).all(axis=1)].T
    half = sparse.csr_array((np.ones(one.size), (one, other)), shape=(n_points, n_points))
    graph = half + half.T
    graph.data[:] = 1.0  # a pair that was listed twice
    return points, graph, cells


def _polygons(points: FloatArray, cells: Voronoi) -> list[FloatArray]:
    """Corners of each cell, counterclockwise."""
    # Mirrored points make the sides of the box sides of cells; what is left is rounding.
    corners = np.clip(cells.vertices, BOX[:, 0], BOX[:, 1])
    outlines = []
    for point, region in zip(points, cells.point_region, strict=False):
        outline = corners[cells.regions[region]]
        around = outline - point
        outlines.append(outline[np.argsort(np.arctan2(around[:, 1], around[:, 0]))])
    return outlines


def _regions(
    points: FloatArray, graph: sparse.csr_array, n_regions: int, rng: np.random.Generator
) -> IntArray:
    """Give each cell to the seed it is nearest to, along paths whose lengths are random.

    A cell on the way to a seed is nearer to it still, so a region is never in pieces.
    """
    seeds = [int(rng.integers(len(points)))]
    far = np.full(len(points), np.inf)
    while len(seeds) < n_regions:
        gap = points - points[seeds[-1]]
        far = np.minimum(far, np.einsum("ij,ij->i", gap, gap))
        seeds.append(int(rng.choice(len(far), p=far / far.sum())))
    edges = sparse.triu(graph).tocoo()
    # Of very different lengths, so that borders wind.
    lengths = rng.exponential(size=edges.nnz) + 0.1
    paths = sparse.csr_array((lengths, (edges.row, edges.col)), shape=graph.shape)
    _, _, source = csgraph.dijkstra(
        paths, directed=False, indices=seeds, min_only=True, return_predecessors=True
    )
    label = np.empty(len(far), dtype=np.intp)
    label[seeds] = np.arange(n_regions)
    return np.asarray(label[source])


def _mirrored(points: FloatArray, reach: FloatArray) -> list[FloatArray]:
    """Points near each side of the box, mirrored at it: their cells then end there."""
    images = []
    for axis in (0, 1):
        for side in BOX[axis]:
            near = points[np.abs(points[:, axis] - side) < reach[axis]].copy()
            near[:, axis] = 2.0 * side - near[:, axis]
            images.append(near)
    return images
