"""Streamflow of French catchments."""

from __future__ import annotations

from typing import Any

import numpy as np

from ctfa.datasets._bunches import Form
from ctfa.datasets._checks import require_count
from ctfa.datasets._files import DataFile
from ctfa.datasets._lags import lagged, running_mean
from ctfa.datasets._record import Record

#: Days over which rain is averaged, and what is added to a flow before its logarithm.
LONG, SMALLEST_FLOW = (30, 90), 0.01

FRENCH_BASINS = Record(
    name="french_basins",
    loader="load_french_basins()",
    title="French catchments: streamflow from the weather",
    kind="own inputs",
    shape="1031 samples (every seventh day), 19 targets (catchments), 12 features each.",
    about="19 French catchments from 1999 to 2018. The target is the logarithm of the streamflow "
    "of a day; the inputs are the rain of that day and of the days before, its means over 30 and "
    "90 days, the temperature and the potential evapotranspiration.",
    files=(
        DataFile(
            "airgr_basins/airgr_basins.npz",
            "d7dbe1220f81f6b03caf91bbb89e1136bffc47059eadba4153336c5df3edada4",
            arrays=("E", "P", "Q", "T", "code", "day", "lonlat_area", "river"),
        ),
    ),
    source="The R package airGRdatasets on CRAN, its catchments saved as an npz file with P, T, E "
    "and Q (19 catchments, 7305 days; float32; NaN where Q is missing), code and river (19 texts), "
    "lonlat_area (19, 3; float64) and day (7305 texts such as '1999-01-01').",
    licence="CC BY 4.0, as the package states.",
    redistribution="Allowed by CC BY 4.0 if the authors are named.",
    citation="Delaigue, O. and others. airGRdatasets: hydro-meteorological catchments datasets for "
    "the 'airGR' packages (R package).",
    facts="A case in which averaging hurts: catchments differ much, and a method that averages "
    "should mostly leave them by themselves. 1212 days of flow are missing, of nine catchments. "
    "Days near each other are alike: split by blocks of time.",
)


def load_french_basins(
    *,
    n_lags: int = 8,
    every: int = 7,
    return_X_y: bool = False,
    as_frame: bool = False,
    data_home: Any = None,
    download_if_missing: bool = True,
) -> Any:
    """Load the streamflow of 19 French catchments, each with the weather of its own.

    Parameters
    ----------
    n_lags : int, default=8
        Days whose rain is an input, the day itself included.
    every : int, default=7
        Take every so manieth day.
    return_X_y : bool, default=False
        Return ``(X, Y, layout)`` and no Bunch.
    as_frame : bool, default=False
        Give data frames with the day as index (needs pandas).
    data_home : path, default=None
        The folder of data; None takes the environment variable ``CTFA_DATA``, or ``~/ctfa_data``.
    download_if_missing : bool, default=True
        As for every loader; of this set there is nothing to download.

    Returns
    -------
    Bunch
        With ``data`` (n_samples, n_columns), ``layout`` (19, n_slots), ``inputs``
        (n_samples, 19, n_slots), ``target`` (n_samples, 19), NaN where no flow is known,
        ``slot_names``, ``feature_names``, ``target_names`` (codes of the gauges), ``river``,
        ``area`` in square kilometres, ``lat``, ``lon``, ``time``, ``kind`` ("own inputs"),
        ``filename`` and ``DESCR``.

    Examples
    --------
    >>> from ctfa.datasets import load_french_basins
    >>> basins = load_french_basins()  # doctest: +SKIP
    >>> basins.inputs.shape, basins.target.shape  # doctest: +SKIP
    ((1031, 19, 12), (1031, 19))
    """
    form = Form(FRENCH_BASINS, as_frame=as_frame, return_X_y=return_X_y)
    require_count("n_lags", n_lags, least=1, most=max(LONG))
    require_count("every", every, least=1, most=365)
    (file,) = FRENCH_BASINS.find(data_home=data_home, download_if_missing=download_if_missing)
    with file.arrays() as arrays:
        rain, warmth, evaporation, flow = (arrays[name].T.astype(np.float64) for name in "PTEQ")
        lon, lat, area = arrays["lonlat_area"].T
        codes, rivers = (arrays[name].tolist() for name in ("code", "river"))
        days = arrays["day"].astype("M8[D]")
    slots = {f"rain_lag_{lag}": lagged(rain, lag) for lag in range(n_lags)}
    slots |= {"temperature": warmth, "evapotranspiration": evaporation}
    slots |= {f"rain_{width}d": running_mean(rain, width) for width in LONG}
    rows = slice(max(LONG), None, every)
    return form.own_inputs(
        {name: values[rows] for name, values in slots.items()},
        np.log(flow[rows] + SMALLEST_FLOW),
        target_names=codes,
        time=days[rows],
        river=rivers,
        area=area,
        lat=lat,
        lon=lon,
        filename=str(file.path),
    )
