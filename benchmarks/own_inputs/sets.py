"""Real series in which every target has inputs of its own, as arrays ``(rows, targets, slots)``.

Read from the folder named by CTFA_DATA; nothing of it is part of the project.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

#: What the slots of the Po basins are made of, before the name of a basin.
PO_SLOTS = tuple(
    f"{kind}{weeks}w_Anomalia_" for kind in ("Prec", "Temp") for weeks in (1, 4, 8, 12, 16, 24)
)


class OwnInputs(NamedTuple):
    """One set; NaN is missing, and a slot that a target has not is NaN throughout."""

    inputs: np.ndarray  # (n, L, K)
    target: np.ndarray  # (n, L)
    neighbours: Any = None  # (L, L), where there is a map


def path(*parts: str) -> Path:
    """A file of the data folder."""
    folder = os.environ.get("CTFA_DATA")
    found = Path(folder or "", *parts)
    if folder is None or not found.exists():
        raise FileNotFoundError(f"CTFA_DATA names no folder with {'/'.join(parts)} in it")
    return found


def po_basins() -> OwnInputs:
    """Ten sub-basins of the Po, weekly: vegetation from rain and temperature, snow for seven."""
    table = pd.read_csv(path("po_basins", "dataset_feature_anomalie.csv.gz"))
    basins = [
        name.removeprefix("anomalia_") for name in table.columns if name.startswith("anomalia_")
    ]
    columns = {_plain(name): name for name in table.columns}
    snow = sorted({name.split("_Anomalia")[0] for name in table.columns if "SnowDepth" in name})
    weeks = (4, 8, 12, 16, 24)
    inputs = np.full((len(table), len(basins), len(PO_SLOTS) + len(weeks)), np.nan)
    for number, basin in enumerate(basins):
        for slot, prefix in enumerate(PO_SLOTS):
            inputs[:, number, slot] = table[columns[_plain(prefix + basin)]]
        # "Garda-Mincio" is the snow of garda, "Piemonte-nord" that of piemonte_nord.
        own = [
            name for name in snow if _plain(name) == basin or _plain(name).split("_")[0] == basin
        ]
        for slot, week in enumerate(weeks if own else ()):
            name = f"{own[0]}_AnomaliaSnowDepth_Mean_{week}w"
            inputs[:, number, len(PO_SLOTS) + slot] = table[name]
    return OwnInputs(inputs, table[[f"anomalia_{basin}" for basin in basins]].to_numpy(float))


def cru_iberia(n_lags: int = 2) -> OwnInputs:
    """330 cells of Iberia, monthly: rain from temperatures, the months before, and the season."""
    with np.load(path("cru_iberia", "cru_iberia.npz")) as file:
        rain, mean, high, low = (file[k].T.astype(float) for k in ("pr", "tas", "tasmax", "tasmin"))
        place = np.column_stack((file["lat"], file["lon"]))
    slots = [mean, high, low]
    for lag in range(1, n_lags + 1):
        slots += [_lagged(rain, lag), _lagged(mean, lag)]
    slots += _waves(rain.shape, 12)
    step = np.abs(place[:, None] - place).max(axis=2)
    near = (step < 0.75) & (step > 0.0)
    return OwnInputs(np.stack(slots, axis=2)[n_lags:], rain[n_lags:], near)


def traffic(n_lags: int = 6, ahead: int = 3, every: int = 3) -> OwnInputs:
    """207 road sensors: speed in a quarter of an hour from that of the last half hour."""
    with np.load(path("traffic_los", "los_speed.npz"), allow_pickle=True) as file:
        speed = file["speed"].astype(float)
    with np.load(path("traffic_los", "los_adj.npz")) as file:
        near = file["adj"] > 0.0
    np.fill_diagonal(near, val=False)
    slots = [_lagged(speed, ahead + lag) for lag in range(n_lags)] + _waves(speed.shape, 288)
    first = ahead + n_lags
    return OwnInputs(np.stack(slots, axis=2)[first::every], speed[first::every], near | near.T)


def french_basins(n_lags: int = 8, every: int = 7) -> OwnInputs:
    """19 French catchments: log streamflow from rain of the last days and months, T and E."""
    with np.load(path("airgr_basins", "airgr_basins.npz")) as file:
        rain, warmth, evaporation, flow = (file[k].T.astype(float) for k in "PTEQ")
    slots = [_lagged(rain, lag) for lag in range(n_lags)] + [warmth, evaporation]
    slots += [_running_mean(rain, days) for days in (30, 90)]
    flow = np.log(np.where(flow < 0.0, np.nan, flow) + 0.01)
    return OwnInputs(np.stack(slots, axis=2)[90::every], flow[90::every])


SETS: dict[str, Callable[[], OwnInputs]] = {
    "Po basins": po_basins,
    "CRU Iberia": cru_iberia,
    "traffic": traffic,
    "French basins": french_basins,
}


def _plain(name: str) -> str:
    return name.lower().replace(" ", "_").replace("-", "_")


def _lagged(values: np.ndarray, lag: int) -> np.ndarray:
    shifted = np.full(values.shape, np.nan)
    shifted[lag:] = values[: len(values) - lag]
    return shifted


def _running_mean(values: np.ndarray, width: int) -> np.ndarray:
    total = np.cumsum(np.vstack((np.zeros((1, values.shape[1])), values)), axis=0)
    mean = np.full(values.shape, np.nan)
    mean[width - 1 :] = (total[width:] - total[:-width]) / width
    return mean


def _waves(shape: tuple[int, ...], period: int) -> list[np.ndarray]:
    """Two harmonics of a period, the same for all targets."""
    angle = 2.0 * np.pi * np.arange(shape[0]) / period
    waves = [wave(k * angle) for k in (1, 2) for wave in (np.sin, np.cos)]
    return [np.repeat(wave[:, None], shape[1], axis=1) for wave in waves]
