"""Series of many places, each with inputs of its own: rain, streamflow, speeds of cars."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ctfa.core.types import AnyArray, FloatArray
from ctfa.datasets._bunches import Form, require_count
from ctfa.datasets._files import DataFile, Found, Record

CLIMATE_INDICES = Record(
    name="climate_indices",
    loader="load_climate_indices()",
    title="NAO and Nino3.4: monthly climate indices",
    kind="extra features",
    shape="1891 samples (months), 2 features.",
    about="The North Atlantic Oscillation from January 1950 to July 2013, and the anomaly of the "
    "sea surface temperature in the region Nino3.4 of the Pacific from January 1856 to December "
    "2011.",
    files=(
        DataFile(
            "climate_indices/climate_indices.npz",
            "5fc2a64f44508ef3409c0a651e2b181b8a40984da2722d89991d7483478e943c",
            arrays=("nao", "nao_month", "nino34", "nino34_month"),
        ),
    ),
    source="The data sets NAO and NINO3.4 of the R package esd (repository metno/esd on GitHub), "
    "saved as an npz file with nao (763, float32) and nino34 (1872, float32), NaN where missing, "
    "and nao_month and nino34_month, texts such as '1950-01'.",
    licence="GPL, as the package states.",
    redistribution="Under the terms of the GPL.",
    citation="Benestad, R. E., Mezghani, A. and Parding, K. M. esd: climate analysis and empirical-"
    "statistical downscaling (R package), Norwegian Meteorological Institute.",
    facts="The first and the last month of Nino3.4 are missing. An index of the same month is not "
    "known in time for a forecast.",
)


def load_climate_indices(
    *, as_frame: bool = False, data_home: Any = None, download_if_missing: bool = True
) -> Any:
    """Load two monthly climate indices, NAO and Nino3.4, to join to other series by month.

    Parameters
    ----------
    as_frame : bool, default=False
        Give a data frame with the month as index (needs pandas).
    data_home : path, default=None
        The folder of data; None takes the environment variable ``CTFA_DATA``, or ``~/ctfa_data``.
    download_if_missing : bool, default=True
        As for every loader; of this set there is nothing to download.

    Returns
    -------
    Bunch
        With ``data`` (1891, 2), NaN where an index has no value, ``time`` (months),
        ``feature_names``, ``kind`` ("extra features"), ``filename`` and ``DESCR``.

    Examples
    --------
    >>> from ctfa.datasets import load_climate_indices
    >>> indices = load_climate_indices(as_frame=True).data  # doctest: +SKIP
    >>> indices.loc["1998-01"]  # doctest: +SKIP
    """
    form = Form(CLIMATE_INDICES, as_frame)
    (file,) = form.files(data_home, download_if_missing)
    with file.arrays() as arrays:
        known = [arrays[name].astype("M8[M]") for name in ("nao_month", "nino34_month")]
    every_month = np.concatenate(known)
    months = np.arange(every_month.min(), every_month.max() + 1)
    indices = indices_of(file, months)
    return form.series(
        np.column_stack(list(indices.values())),
        feature_names=list(indices),
        time=months,
    )


def indices_of(file: Found, months: AnyArray) -> dict[str, FloatArray]:
    """Each index in these months; NaN where it has no value."""
    with file.arrays() as arrays:
        return {
            name: _joined(
                arrays[name].astype(np.float64), arrays[f"{name}_month"].astype("M8[M]"), months
            )
            for name in ("nao", "nino34")
        }


def _joined(values: FloatArray, own: AnyArray, months: AnyArray) -> FloatArray:
    joined = np.full(months.size, np.nan)
    _, here, there = np.intersect1d(months, own, return_indices=True)
    joined[here] = values[there]
    return joined


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
    form = Form(CRU_IBERIA, as_frame, return_X_y)
    require_count("n_lags", n_lags, least=0, most=120)
    wanted = CRU_IBERIA.files if indices else CRU_IBERIA.files[:1]
    file, *more = form.files(data_home, download_if_missing, wanted)
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
    )


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
    form = Form(FRENCH_BASINS, as_frame, return_X_y)
    require_count("n_lags", n_lags, least=1, most=max(LONG))
    require_count("every", every, least=1, most=365)
    (file,) = form.files(data_home, download_if_missing)
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
    )


STEPS_A_DAY = 288
START = np.datetime64("2012-03-01T00:00")

TRAFFIC = Record(
    name="traffic",
    loader="load_traffic()",
    title="Los-loop: speeds at sensors of motorways",
    kind="own inputs",
    shape="669 samples (every quarter of an hour), 207 targets (sensors), 10 features each, four "
    "of them shared by all.",
    about="One week, the first of March 2012, of mean speeds in miles an hour over five minutes at "
    "207 loop detectors in Los Angeles County. The target is the speed a quarter of an hour ahead; "
    "the inputs are the sensor's own speeds in the last half hour and two waves of the day.",
    files=(
        DataFile(
            "traffic_los/los_speed.npz",
            "160a953d16445b2063c3bdb13ff97a186b8b62c0b9c2e9a9b5d477c633642e96",
            arrays=("speed",),
        ),
        DataFile(
            "traffic_los/los_adj.npz",
            "1ba9a8e8269ef7b54321f15f32bfdb3df90c4897b9daed00cd383107ee316f00",
            arrays=("adj",),
        ),
    ),
    source="los_speed.csv and los_adj.csv of the repository lehaifeng/T-GCN on GitHub (folder "
    "data), saved as npz files: speed (2016 steps, 207 sensors; float32) and adj (207, 207; "
    "float32).",
    licence="None stated.",
    redistribution="Not stated: get your own copy.",
    citation="Zhao, L. and others (2020). T-GCN: a temporal graph convolutional network for "
    "traffic prediction. IEEE Transactions on Intelligent Transportation Systems 21, 3848-3858.",
    facts="The publishers have filled missing speeds by interpolation. Sensors are numbered in the "
    "order of the file. One week has two days of a weekend: a model of one part of it is not one "
    "of the other.",
)


def load_traffic(
    *,
    n_lags: int = 6,
    ahead: int = 3,
    every: int = 3,
    return_X_y: bool = False,
    as_frame: bool = False,
    data_home: Any = None,
    download_if_missing: bool = True,
) -> Any:
    """Load speeds at 207 sensors of motorways, each with its own past.

    Parameters
    ----------
    n_lags : int, default=6
        Past speeds that are inputs, five minutes apart.
    ahead : int, default=3
        Steps of five minutes from the last input to the target.
    every : int, default=3
        Take every so manieth step.
    return_X_y : bool, default=False
        Return ``(X, Y, layout)`` and no Bunch.
    as_frame : bool, default=False
        Give data frames with the time as index (needs pandas).
    data_home : path, default=None
        The folder of data; None takes the environment variable ``CTFA_DATA``, or ``~/ctfa_data``.
    download_if_missing : bool, default=True
        As for every loader; of this set there is nothing to download.

    Returns
    -------
    Bunch
        With ``data`` (n_samples, n_columns), ``layout`` (207, n_slots), ``inputs``
        (n_samples, 207, n_slots), ``target`` (n_samples, 207), ``slot_names``, ``feature_names``,
        ``target_names``, ``connectivity`` (207, 207), a sparse matrix of sensors that are near
        each other on the road, ``time``, ``kind`` ("own inputs"), ``filename`` and ``DESCR``.

    Examples
    --------
    >>> from ctfa.datasets import load_traffic
    >>> roads = load_traffic()  # doctest: +SKIP
    >>> roads.inputs.shape, roads.target.shape  # doctest: +SKIP
    ((669, 207, 10), (669, 207))
    """
    form = Form(TRAFFIC, as_frame, return_X_y)
    require_count("n_lags", n_lags, least=1, most=STEPS_A_DAY)
    require_count("ahead", ahead, least=1, most=STEPS_A_DAY)
    require_count("every", every, least=1, most=STEPS_A_DAY)
    files = form.files(data_home, download_if_missing)
    with files[0].arrays() as arrays:
        speed = arrays["speed"].astype(np.float64)
    with files[1].arrays() as arrays:
        near = arrays["adj"] > 0.0
    near |= near.T
    np.fill_diagonal(near, val=False)
    slots = {f"speed_lag_{ahead + lag}": lagged(speed, ahead + lag) for lag in range(n_lags)}
    slots |= waves(len(speed), STEPS_A_DAY, "day")
    rows = slice(ahead + n_lags, None, every)
    return form.own_inputs(
        {name: values[rows] for name, values in slots.items()},
        speed[rows],
        target_names=[f"sensor_{number:03d}" for number in range(1, 208)],
        time=(START + 5 * np.arange(len(speed)))[rows],
        connectivity=sparse.csr_array(near.astype(np.float64)),
    )


def lagged(values: FloatArray, lag: int) -> FloatArray:
    """Values of so many samples ago; NaN before the first."""
    shifted = np.full(values.shape, np.nan)
    shifted[lag:] = values[: len(values) - lag]
    return shifted


def running_mean(values: FloatArray, width: int) -> FloatArray:
    """Mean of the last ``width`` samples, the present one included; NaN where there are fewer."""
    total = np.cumsum(np.vstack((np.zeros((1, values.shape[1])), values)), axis=0)
    mean = np.full(values.shape, np.nan)
    mean[width - 1 :] = (total[width:] - total[:-width]) / width
    return mean


def waves(n_samples: int, period: int, name: str) -> dict[str, FloatArray]:
    """Two harmonics of a period, by name: one series each, the same for all targets."""
    angle = 2.0 * np.pi * np.arange(n_samples) / period
    return {
        f"{name}_{kind}_{harmonic}": np.asarray(wave(harmonic * angle))
        for harmonic in (1, 2)
        for kind, wave in (("sin", np.sin), ("cos", np.cos))
    }
