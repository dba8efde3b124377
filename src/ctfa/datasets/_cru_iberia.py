"""Rain over Iberia, on a grid."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ctfa.datasets._bunches import Form
from ctfa.datasets._checks import require_count
from ctfa.datasets._climate_indices import CLIMATE_INDICES, indices_of
from ctfa.datasets._files import DataFile
from ctfa.datasets._lags import lagged, waves
from ctfa.datasets._record import Record

#: Degrees between neighbours: those that touch, by a side or a corner, on a grid of half a degree.
NEAR = 0.75

CRU_IBERIA = Record(
    name="cru_iberia",
    loader="load_cru_iberia()",
    title="CRU Iberia: monthly rain on a grid",
    kind="own inputs",
    shape="358 samples (months), 330 targets (cells), 13 features each, six of them shared by all.",
    about="Monthly precipitation of the 330 land cells of the Iberian Peninsula, half a degree "
    "wide, from 1981 to 2010 (CRU TS 4.00). The inputs of a cell are its mean, highest and lowest "
    "temperature, its rain and temperature in the months before, two waves of the year, and the "
    "climate indices NAO and Nino3.4 of the month, which all cells share.",
    files=(
        DataFile(
            "cru_iberia/cru_iberia.npz",
            "f453f42c52509326869cdd0d31441621a1337747b767e22e441af98b85eb52ec",
            arrays=("lat", "lon", "month", "pr", "tas", "tasmax", "tasmin"),
        ),
        *CLIMATE_INDICES.files,
    ),
    source="The CRU data sets of the R package drought4R (repository SantanderMetGroup/drought4R "
    "on GitHub), their land cells saved as an npz file with pr, tas, tasmax and tasmin (330 cells, "
    "360 months; float32), lat and lon (330, float32) and month (360 texts such as '1981-01'). For "
    "the indices see load_climate_indices.",
    licence="GPL-3, as the package states.",
    redistribution="Under the terms of the GPL-3; for the data themselves ask the Climatic "
    "Research Unit.",
    citation="Harris, I., Jones, P. D., Osborn, T. J. and Lister, D. H. (2014). Updated "
    "high-resolution grids of monthly climatic observations: the CRU TS3.10 dataset. International "
    "Journal of Climatology 34, 623-642.",
    facts="Rain is the target because the mean temperature is no task: the highest and the lowest "
    "give it with an R2 of 0.999. Temperatures and indices are those of the same month, so this is "
    "an explanation and not a forecast. Cells are interpolated from fewer stations, so neighbours "
    "are alike by construction.",
)


def load_cru_iberia(
    *,
    n_lags: int = 2,
    indices: bool = True,
    return_X_y: bool = False,
    as_frame: bool = False,
    data_home: Any = None,
    download_if_missing: bool = True,
) -> Any:
    """Load monthly rain of 330 cells of Iberia, each with the weather of its own.

    Parameters
    ----------
    n_lags : int, default=2
        Months before whose rain and temperature are inputs.
    indices : bool, default=True
        Whether NAO and Nino3.4 are inputs, too, the same for all cells.
    return_X_y : bool, default=False
        Return ``(X, Y, layout)`` and no Bunch.
    as_frame : bool, default=False
        Give data frames with the month as index (needs pandas).
    data_home : path, default=None
        The folder of data; None takes the environment variable ``CTFA_DATA``, or ``~/ctfa_data``.
    download_if_missing : bool, default=True
        As for every loader; of this set there is nothing to download.

    Returns
    -------
    Bunch
        With ``data`` (360 - n_lags, n_columns), ``layout`` (330, n_slots), ``inputs``
        (360 - n_lags, 330, n_slots), ``target`` (360 - n_lags, 330), ``slot_names``,
        ``feature_names``, ``target_names``, ``connectivity`` (330, 330), a sparse matrix of cells
        that touch, ``lat``, ``lon``, ``time``, ``kind`` ("own inputs"), ``filename`` and ``DESCR``.

    Examples
    --------
    >>> from ctfa.datasets import load_cru_iberia
    >>> iberia = load_cru_iberia()  # doctest: +SKIP
    >>> iberia.inputs.shape, iberia.target.shape  # doctest: +SKIP
    ((358, 330, 13), (358, 330))
    """
    form = Form(CRU_IBERIA, as_frame=as_frame, return_X_y=return_X_y)
    require_count("n_lags", n_lags, least=0, most=120)
    file, *more = CRU_IBERIA.find(
        data_home=data_home,
        download_if_missing=download_if_missing,
        only=CRU_IBERIA.files if indices else CRU_IBERIA.files[:1],
    )
    with file.arrays() as arrays:
        rain, mean, high, low = (
            arrays[name].T.astype(np.float64) for name in ("pr", "tas", "tasmax", "tasmin")
        )
        lat, lon = (arrays[name].astype(np.float64) for name in ("lat", "lon"))
        months = arrays["month"].astype("M8[M]")
    slots = {"temperature": mean, "temperature_high": high, "temperature_low": low}
    for lag in range(1, n_lags + 1):
        slots[f"rain_lag_{lag}"] = lagged(rain, lag)
        slots[f"temperature_lag_{lag}"] = lagged(mean, lag)
    slots |= waves(len(rain), 12, "year")
    for index_file in more:
        slots |= indices_of(index_file, months)
    steps = np.maximum(np.abs(lat[:, None] - lat), np.abs(lon[:, None] - lon))
    near = (steps > 0.0) & (steps < NEAR)
    return form.own_inputs(
        {name: values[n_lags:] for name, values in slots.items()},
        rain[n_lags:],
        target_names=[
            f"rain_{y:g}N_{abs(x):g}{'W' if x < 0.0 else 'E'}"
            for y, x in zip(lat, lon, strict=True)
        ],
        time=months[n_lags:],
        words=("precipitation", "cell"),
        units={"precipitation": "mm"}
        | {name: "mm" for name in slots if name.startswith("rain")}
        | {name: "degC" for name in slots if name.startswith("temperature")}
        | {name: "1" for name in slots if name.startswith(("year", "nao", "nino"))},
        lat=lat,
        lon=lon,
        connectivity=sparse.csr_array(near.astype(np.float64)),
        filename=[str(found.path) for found in (file, *more)] if more else str(file.path),
    )
