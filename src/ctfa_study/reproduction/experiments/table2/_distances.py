"""Mean distances between the atoms of every molecule of QM9, computed once and kept."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path

import numpy as np

from ctfa.core.types import AnyArray, FloatArray
from ctfa.datasets import get_data_home
from ctfa.datasets._qm9_features import distances_from_package, package_folder

FILE = Path("qm9", "qm9_distances.npz")

logger = logging.getLogger("ctfa")


def mean_distances(molecule: AnyArray) -> FloatArray:
    """Distances of the molecules with these numbers, from the folder of data or from qm9pack.

    What qm9pack gives is kept in the folder of data, if one can write to it.
    """
    path = get_data_home() / FILE
    if path.is_file():
        with np.load(path) as arrays:
            numbers, distances = arrays["index"], arrays["distance"]
    else:
        numbers, distances = distances_from_package(package_folder())
        _keep(path, numbers, distances)
    if not np.array_equal(numbers, molecule):
        raise ValueError(
            f"{path if path.is_file() else 'qm9pack'} has other molecules than load_qm9(). Remove "
            "the file, or install the version of qm9pack that agrees: pip install 'ctfa[qm9]'."
        )
    return np.asarray(distances, dtype=float)


def _keep(path: Path, numbers: AnyArray, distances: FloatArray) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Beside its place and moved there when it is whole, so that nobody reads half a file.
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".making-") as folder:
            whole = Path(folder, path.name)
            np.savez_compressed(whole, index=numbers, distance=distances)
            whole.replace(path)
    except OSError as error:
        logger.info("Distances of QM9 are not kept, so they will be computed again: %s", error)
