"""Tasks to test labelled data with."""

import numpy as np

from ctfa.labelled._tasks import Coordinates, LabelledTasks


def tasks_along(dim, labels, kept=None, **coords):
    """Tasks along one dimension, with coordinates on it."""
    import xarray as xr

    held = {name: (dim, values) for name, values in coords.items()}
    data = xr.Dataset(coords={dim: labels, **held})
    kept = np.arange(len(labels)) if kept is None else np.asarray(kept)
    return LabelledTasks((dim,), Coordinates.of(data, (dim,)), kept)


def cells(rows, columns, masked=(), dims=("lat", "lon")):
    """Cells of a grid; those that are masked by their pair of positions."""
    import xarray as xr

    data = xr.Dataset(coords=dict(zip(dims, (rows, columns), strict=True)))
    there = np.ones((len(rows), len(columns)), dtype=bool)
    for row, column in masked:
        there[row, column] = False
    return LabelledTasks(dims, Coordinates.of(data, dims), np.flatnonzero(there))


def stacked(tasks):
    """The same cells, those that are not masked, along one dimension with two levels."""
    import pandas as pd
    import xarray as xr

    index = pd.MultiIndex.from_tuples(tasks.labels, names=tasks.dims)
    coords = xr.Coordinates.from_pandas_multiindex(index, "cell")
    data = xr.Dataset(coords=coords)
    return LabelledTasks(("cell",), Coordinates.of(data, ("cell",)), np.arange(tasks.n_tasks))
