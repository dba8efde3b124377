"""Real series in which every target has inputs of its own, as arrays ``(rows, targets, slots)``.

Read from the folder named by CTFA_DATA; nothing of it is part of the project.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ctfa.datasets import load_cru_iberia, load_french_basins, load_po_basins, load_traffic
from ctfa.datasets._po_basins import LEAK


class OwnInputs(NamedTuple):
    """One set; NaN is missing, and a slot that a target has not is NaN throughout."""

    inputs: np.ndarray  # (n, L, K)
    target: np.ndarray  # (n, L)
    neighbours: Any = None  # (L, L), where there is a map


def po_basins() -> OwnInputs:
    """Ten sub-basins of the Po, weekly: vegetation from rain and temperature, snow for seven."""
    return _of(load_po_basins(lakes=False))


def cru_iberia() -> OwnInputs:
    """330 cells of Iberia, monthly: rain from temperatures, the months before, and the season."""
    return _of(load_cru_iberia(indices=False))


def traffic() -> OwnInputs:
    """207 road sensors: speed in a quarter of an hour from that of the last half hour."""
    return _of(load_traffic())


def french_basins() -> OwnInputs:
    """19 French catchments: log streamflow from rain of the last days and months, T and E."""
    return _of(load_french_basins())


#: What figures on a set should be read with.
CAUTIONS = {"Po basins": LEAK}

SETS: dict[str, Callable[[], OwnInputs]] = {
    "Po basins": po_basins,
    "CRU Iberia": cru_iberia,
    "traffic": traffic,
    "French basins": french_basins,
}


def _of(bunch: Any) -> OwnInputs:
    graph = bunch.get("connectivity")
    return OwnInputs(
        bunch.inputs, bunch.target, None if graph is None else graph.toarray().astype(bool)
    )
