"""From files and options to the arguments of ``ctfa.labelled.fit``."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import RidgeCV

from ctfa import labelled
from ctfa._commands._fit_options import Asked
from ctfa._commands._terminal import Steps, path_text

#: Bytes of arrays above which a file is read in pieces.
LARGE = 2 << 30
#: Penalties that a region's ridge regression chooses from.
PENALTIES = np.logspace(-2, 4, 13)


def read_data(path: Path, steps: Steps | None = None, layer: str | None = None) -> Any:
    """Read a file of data or polygons, and say so."""
    if steps is not None:
        steps(f"reading {path_text(path)}")
    return labelled.read(path, layer=layer)


def read_large(
    path: Path, steps: Steps, names: Iterable[str] | None, layer: str | None = None
) -> Any:
    """The same, in pieces where these variables (None: all) are large and Dask is there."""
    data = read_data(path, steps, layer)
    if not hasattr(data, "data_vars") or importlib.util.find_spec("dask") is None:
        return data
    used = [array for name, array in data.data_vars.items() if names is None or name in names]
    if sum(array.nbytes for array in used) <= LARGE:
        return data
    data.close()
    steps(f"reading {path_text(path)} in pieces")
    return labelled.read(path, layer=layer, lazy=True)


def fit_from(asked: Asked, steps: Steps, *, n_jobs: int | None = None) -> Any:
    """Read the files and fit."""
    target, features = asked.options["target"], asked.options["features"]
    names = None if target is None or features is None else [*target, *features]
    data = read_large(asked.files["data"], steps, names)
    given = arguments(asked, data, steps)
    steps("fitting")
    return labelled.fit(data, **given, n_jobs=n_jobs)


def arguments(asked: Asked, data: Any, steps: Steps | None = None) -> dict[str, Any]:
    """Everything that labelled.fit takes beside the data."""
    given = dict(asked.options)
    layer = given.pop("layer")
    for role in ("neighbours", "places"):
        if role in asked.files:
            given[role] = read_data(asked.files[role], steps, layer)
    target, task = given["target"], given["task"]
    given["target"] = target[0] if target is not None and len(target) == 1 else target
    given["task"] = task[0] if task is not None and len(task) == 1 else task and tuple(task)
    given["regressor"] = RidgeCV(PENALTIES) if given["regressor"] == "ridge" else None
    given["held_out"] = None if given["held_out"] == "none" else given["held_out"]
    weights = given["weights"]
    if weights is not None and weights != "area":
        given["weights"] = _weights(data, weights)
    return given


def _weights(data: Any, name: str) -> Any:
    """A coordinate or a column with a weight for each task."""
    known = [str(key) for key in getattr(data, "variables", getattr(data, "columns", ()))]
    if name not in known:
        raise ValueError(
            f"--weights names {name!r}, which is not in the data ({', '.join(known[:12])}): use "
            "area, or one of these."
        )
    return data[name]
