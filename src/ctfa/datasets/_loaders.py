"""Real data: targets that share their inputs, or have their own inputs or rows."""

from __future__ import annotations

import io
import re
import warnings
from itertools import product
from typing import Any

import numpy as np
from scipy import sparse
from scipy.io.arff import loadarff

from ctfa import _reading as check
from ctfa.core.types import AnyArray, FloatArray
from ctfa.datasets._bunches import Form, numbered, require_numbers
from ctfa.datasets._catalogue import FoundFile


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
        Every loader has it; this set cannot be downloaded.

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
    form = Form("climate_indices", as_frame=as_frame)
    (file,) = form.files(data_home, download_if_missing)
    arrays = file.arrays()
    known = np.concatenate([arrays[f"{name}_month"].astype("M8[M]") for name in INDICES])
    months = np.arange(known.min(), known.max() + 1)
    indices = indices_of(file, months)
    table = np.column_stack(list(indices.values()))
    return form.give("extra features", table, feature_names=list(indices), time=months)


INDICES = ("nao", "nino34")


def indices_of(file: FoundFile, months: AnyArray) -> dict[str, FloatArray]:
    """Each index in these months; NaN where it has no value."""
    arrays, found = file.arrays(), {}
    for name in INDICES:
        own = arrays[f"{name}_month"].astype("M8[M]")
        _, here, there = np.intersect1d(months, own, return_indices=True)
        found[name] = np.full(months.size, np.nan)
        found[name][here] = arrays[name][there]
    return found


#: Degrees between neighbours: those that touch, by a side or a corner, on a grid of half a degree.
NEAR = 0.75


def load_cru_iberia(
    *,
    n_lags: int = 2,
    indices: bool = True,
    return_X_y: bool = False,
    as_frame: bool = False,
    data_home: Any = None,
    download_if_missing: bool = True,
) -> Any:
    """Load monthly rain of 330 cells of Iberia, each with its own weather.

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
        Every loader has it; this set cannot be downloaded.

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
    form = Form("cru_iberia", as_frame=as_frame, return_X_y=return_X_y)
    require_numbers(0, 120, n_lags=n_lags)
    wanted = form.record.files[: 2 if indices else 1]
    file, *more = form.files(data_home, download_if_missing, wanted)
    arrays = file.arrays()
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
    kinds = {"rain": "mm", "temperature": "degC", "year": "1", "nao": "1", "nino34": "1"}
    return form.own_inputs(
        slots,
        rain,
        months,
        slice(n_lags, None),
        target_names=[
            f"rain_{y:g}N_{abs(x):g}{'W' if x < 0.0 else 'E'}"
            for y, x in zip(lat, lon, strict=True)
        ],
        words=("precipitation", "cell"),
        units={"precipitation": "mm"} | {name: kinds[name.split("_")[0]] for name in slots},
        lat=lat,
        lon=lon,
        connectivity=sparse.csr_array(near.astype(np.float64)),
    )


#: Days over which rain is averaged, and what is added to a flow before its logarithm.
LONG, SMALLEST_FLOW = (30, 90), 0.01


def load_french_basins(
    *,
    n_lags: int = 8,
    every: int = 7,
    return_X_y: bool = False,
    as_frame: bool = False,
    data_home: Any = None,
    download_if_missing: bool = True,
) -> Any:
    """Load the streamflow of 19 French catchments, each with its own weather.

    Parameters
    ----------
    n_lags : int, default=8
        Days whose rain is an input, the day itself included.
    every : int, default=7
        Days from one sample to the next.
    return_X_y : bool, default=False
        Return ``(X, Y, layout)`` and no Bunch.
    as_frame : bool, default=False
        Give data frames with the day as index (needs pandas).
    data_home : path, default=None
        The folder of data; None takes the environment variable ``CTFA_DATA``, or ``~/ctfa_data``.
    download_if_missing : bool, default=True
        Every loader has it; this set cannot be downloaded.

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
    form = Form("french_basins", as_frame=as_frame, return_X_y=return_X_y)
    require_numbers(1, max(LONG), n_lags=n_lags)
    require_numbers(1, 365, every=every)
    (file,) = form.files(data_home, download_if_missing)
    arrays = file.arrays()
    rain, warmth, evaporation, flow = (arrays[name].T.astype(np.float64) for name in "PTEQ")
    lon, lat, area = arrays["lonlat_area"].T
    slots = {f"rain_lag_{lag}": lagged(rain, lag) for lag in range(n_lags)}
    slots |= {"temperature": warmth, "evapotranspiration": evaporation}
    slots |= {f"rain_{width}d": running_mean(rain, width) for width in LONG}
    return form.own_inputs(
        slots,
        np.log(flow + SMALLEST_FLOW),
        arrays["day"].astype("M8[D]"),
        slice(max(LONG), None, every),
        target_names=arrays["code"].tolist(),
        river=arrays["river"].tolist(),
        area=area,
        lat=lat,
        lon=lon,
    )


STEPS_A_DAY = 288
START = np.datetime64("2012-03-01T00:00")


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
        Steps from one sample to the next.
    return_X_y : bool, default=False
        Return ``(X, Y, layout)`` and no Bunch.
    as_frame : bool, default=False
        Give data frames with the time as index (needs pandas).
    data_home : path, default=None
        The folder of data; None takes the environment variable ``CTFA_DATA``, or ``~/ctfa_data``.
    download_if_missing : bool, default=True
        Every loader has it; this set cannot be downloaded.

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
    form = Form("traffic", as_frame=as_frame, return_X_y=return_X_y)
    require_numbers(1, STEPS_A_DAY, n_lags=n_lags, ahead=ahead, every=every)
    speeds, roads = form.files(data_home, download_if_missing)
    speed = speeds.arrays()["speed"].astype(np.float64)
    near = roads.arrays()["adj"] > 0.0
    near |= near.T
    np.fill_diagonal(near, val=False)
    slots = {f"speed_lag_{ahead + lag}": lagged(speed, ahead + lag) for lag in range(n_lags)}
    slots |= waves(len(speed), STEPS_A_DAY, "day")
    return form.own_inputs(
        slots,
        speed,
        START + 5 * np.arange(len(speed)),
        slice(ahead + n_lags, None, every),
        target_names=numbered("sensor", speed.shape[1]),
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


WEEKS = (1, 4, 8, 12, 16, 24)
#: Lakes by the basin they belong to. Lugano drains into Maggiore.
LAKES = {"adda": "lagocomo", "oglio": "lagoiseo", "ticino": "maggiore"}
UPPER_LAKES = {"ticino": "lugano"}
#: Inputs of a basin and their columns, by plain name, whichever of the two files they are in.
COLUMNS = {
    "precipitation": "prec{week}w_{basin}",
    "temperature": "temp{week}w_{basin}",
    "snow_depth": "{basin}_snowdepth_{week}w",
    "lake_level": "{lake}_altezza_{week}w",
    "upper_lake_level": "{upper}_altezza_{week}w",
}


def load_po_basins(
    *,
    values: str = "anomalies",
    lakes: bool = True,
    return_X_y: bool = False,
    as_frame: bool = False,
    data_home: Any = None,
    download_if_missing: bool = True,
) -> Any:
    """Load ten sub-basins of the Po, weekly: some targets have inputs that others lack.

    Parameters
    ----------
    values : {"anomalies", "normal"}, default="anomalies"
        Deviations from the mean of each week over all years, or the values themselves.
    lakes : bool, default=True
        Whether levels of lakes are inputs.
    return_X_y : bool, default=False
        Return ``(X, Y, layout)`` and no Bunch.
    as_frame : bool, default=False
        Give data frames with the date as index (needs pandas).
    data_home : path, default=None
        The folder of data; None takes the environment variable ``CTFA_DATA``, or ``~/ctfa_data``.
    download_if_missing : bool, default=True
        Every loader has it; this set cannot be downloaded.

    Returns
    -------
    Bunch
        With ``data`` (1038, n_columns), ``layout`` (10, n_slots), ``inputs`` (1038, 10, n_slots),
        ``target`` (1038, 10), ``slot_names`` ("precipitation_4w", ...), ``feature_names``,
        ``target_names``, ``time``, ``kind`` ("own inputs"), ``filename`` and ``DESCR``.

    Notes
    -----
    Both files leak a little from rows to be predicted to rows to learn from: the anomalies are
    from means over all years, and NDVI seen every 16 days was interpolated to weeks.

    Examples
    --------
    >>> from ctfa import MultiInputCTFARegressor
    >>> from ctfa.datasets import load_po_basins
    >>> X, Y, layout = load_po_basins(return_X_y=True)  # doctest: +SKIP
    >>> model = MultiInputCTFARegressor(layout).fit(X[:700], Y[:700])  # doctest: +SKIP
    """
    form = Form("po_basins", as_frame=as_frame, return_X_y=return_X_y)
    files = dict(zip(("anomalies", "normal"), form.record.files, strict=True))
    check.require(values, files, "values")
    (file,) = form.files(data_home, download_if_missing, [files[values]])
    columns = file.columns()
    table = {_plain(name): entries for name, entries in columns.items()}
    basins = [name.removeprefix("anomalia_") for name in columns if name.startswith("anomalia_")]
    target = "anomalia" if values == "anomalies" else "ndvi"
    return form.own_inputs(
        _slots(table, basins, lakes=lakes),
        np.column_stack([_numbers(table[f"{target}_{basin}"]) for basin in basins]),
        np.array(table["date"], dtype="datetime64[D]"),
        target_names=basins,
    )


def load_po_vhi(
    *,
    statistic: str = "mean",
    distinct: bool = False,
    return_X_y: bool = False,
    as_frame: bool = False,
    data_home: Any = None,
    download_if_missing: bool = True,
) -> Any:
    """Load the health of the vegetation of ten sub-basins of the Po, every eight days.

    The authors' own drought task, with their split and printed scores. It warns about what to
    keep in mind when reading its figures.

    Parameters
    ----------
    statistic : {"mean", "median"}, default="mean"
        Of the vegetation health index over the cultivable pixels of a basin; the authors' is the
        mean.
    distinct : bool, default=False
        Leave out Garda_Mincio, whose target is a copy of that of Emiliani2 from 2010 on.
    return_X_y : bool, default=False
        Return ``(X, Y, layout)`` and no Bunch.
    as_frame : bool, default=False
        Give data frames with the date as index (needs pandas).
    data_home : path, default=None
        The folder of data; None takes the environment variable ``CTFA_DATA``, or ``~/ctfa_data``.
    download_if_missing : bool, default=True
        Every loader has it; this set cannot be downloaded.

    Returns
    -------
    Bunch
        With ``data`` (1033, 20), ``layout`` (10, 2), ``inputs`` (1033, 10, 2), ``target``
        (1033, 10), NaN where nothing was observed (targets before 2001, inputs after 2019),
        ``slot_names`` ("temperature", "precipitation"), ``feature_names``, ``target_names``,
        ``time``, ``split`` (1033 of before, train, val, test, after), ``connectivity``,
        ``authors_scores`` (columns by name, as text), ``kind`` ("own inputs"), ``filename`` and
        ``DESCR``.

    Warns
    -----
    UserWarning
        Of two targets that are the same from 2010 on (unless ``distinct``), a basin that nobody
        predicts, inputs that are rebuilt, and rows that depend on each other.

    Examples
    --------
    >>> import ctfa
    >>> po = ctfa.datasets.load_po_vhi(distinct=True).to_xarray()  # doctest: +SKIP
    >>> known = po.sel(time=slice(None, "2014"))  # doctest: +SKIP
    >>> fit = ctfa.labelled.fit(known, target="vhi", lags=range(25))  # doctest: +SKIP
    """
    form = Form("po_vhi", as_frame=as_frame, return_X_y=return_X_y)
    check.require(statistic, ("mean", "median"), "statistic")
    table, scores = form.files(data_home, download_if_missing)
    held = table.arrays()
    kept = np.flatnonzero((held["basins"] != COPIED) | (not distinct))
    caution = form.record.leak.split(". ", 1)[1] if distinct else form.record.leak
    warnings.warn(f"po_vhi: {caution}", UserWarning, stacklevel=2)
    slots = {
        name: held[name][:, kept].astype(np.float64) for name in ("temperature", "precipitation")
    }
    return form.own_inputs(
        slots,
        held[f"vhi_{statistic}"][:, kept].astype(np.float64),
        held["dates"].astype("datetime64[D]"),
        target_names=held["basins"][kept].tolist(),
        split=held["split"],
        connectivity=sparse.csr_array(held["neighbours"][np.ix_(kept, kept)].astype(np.float64)),
        authors_scores=scores.columns(),
        words=("vhi", "basin"),
    )


#: The basin of ``load_po_vhi`` whose target is that of another from 2010 on.
COPIED = "Garda_Mincio"


def _slots(table: dict[str, list[str]], basins: list[str], *, lakes: bool) -> dict[str, FloatArray]:
    """Every kind of input over every number of weeks, those that the table has for any basin."""
    slots = {}
    nothing = [""] * len(table["date"])
    for kind, week in product(COLUMNS, WEEKS):
        own = [
            COLUMNS[kind].format(week=week, basin=b, lake=LAKES.get(b), upper=UPPER_LAKES.get(b))
            for b in basins
        ]
        if any(name in table for name in own) and (lakes or not kind.endswith("lake_level")):
            entries = [_numbers(table.get(name, nothing)) for name in own]
            slots[f"{kind}_{week}w"] = np.column_stack(entries)
    return slots


def _plain(name: str) -> str:
    """Names without what is spelled now so and then so: of anomalies, of basins and of means."""
    name = name.lower().replace(" ", "_").replace("-", "_")
    if name.startswith("anomalia_"):
        return name
    name = name.replace("garda_mincio", "garda").replace("oglio_iseo", "oglio")
    name = name.replace("_anomalia_", "_").replace("_anomalia", "_")
    return name.replace("snowdepth_mean", "snowdepth").replace("snowdepthmean", "snowdepth")


def _numbers(entries: list[str]) -> FloatArray:
    return np.array([float(entry) if entry else np.nan for entry in entries])


#: The file has no names. These follow the published description of the data; which columns form a
#: block is seen in the data: they are zeros and ones that add up to one.
BLOCKS = {"year": 3, "percent_free_meals": 1, "percent_vr_band_1": 1, "gender": 2, "vr_band": 3,
          "ethnic_group": 11, "school_gender": 3, "school_denomination": 3}  # fmt: skip


def load_school(
    *,
    n_schools: int | None = None,
    return_X_y: bool = False,
    as_frame: bool = False,
    data_home: Any = None,
    download_if_missing: bool = True,
) -> Any:
    """Load exam scores of 139 schools: tasks with pupils of their own.

    Parameters
    ----------
    n_schools : int, default=None
        Only the first schools of the file; the paper takes 27.
    return_X_y : bool, default=False
        Return ``(X, y, tasks)`` and no Bunch.
    as_frame : bool, default=False
        Give a data frame and series (needs pandas).
    data_home : path, default=None
        The folder of data; None takes the environment variable ``CTFA_DATA``, or ``~/ctfa_data``.
    download_if_missing : bool, default=True
        Download what is not there (needs pooch, ``pip install 'ctfa[datasets]'``).

    Returns
    -------
    Bunch
        With ``data`` (15362, 27), ``target`` (15362,), ``tasks`` (15362,), the number of each
        pupil's school from 0, ``feature_names``, ``target_names``, ``kind`` ("own rows"),
        ``filename`` and ``DESCR``.

    Examples
    --------
    >>> from ctfa import PooledCTFARegressor
    >>> from ctfa.datasets import load_school
    >>> X, y, tasks = load_school(n_schools=27, return_X_y=True)  # doctest: +SKIP
    >>> model = PooledCTFARegressor().fit(X, y, tasks=tasks)  # doctest: +SKIP
    """
    form = Form("school", as_frame=as_frame, return_X_y=return_X_y)
    if n_schools is not None:
        require_numbers(1, 139, n_schools=n_schools)
    (file,) = form.files(data_home, download_if_missing)
    cells = file.matlab()
    inputs, scores = (cells[name].ravel()[:n_schools] for name in ("X", "Y"))
    sizes = [len(school) for school in inputs]
    return form.give(
        "own rows",
        np.concatenate(list(inputs))[:, :27].astype(np.float64),
        np.concatenate(list(scores)).ravel().astype(np.float64),
        np.repeat(np.arange(len(sizes)), sizes),
        feature_names=[
            f"{name}_{number}" if size > 1 else name
            for name, size in BLOCKS.items()
            for number in range(1, size + 1)
        ],
        target_names=["score"],
    )


def load_parkinson(
    *,
    return_X_y: bool = False,
    as_frame: bool = False,
    data_home: Any = None,
    download_if_missing: bool = True,
) -> Any:
    """Load symptoms of 42 patients: tasks with their own recordings.

    Parameters
    ----------
    return_X_y : bool, default=False
        Return ``(X, y, tasks)`` and no Bunch.
    as_frame : bool, default=False
        Give a data frame and series (needs pandas).
    data_home : path, default=None
        The folder of data; None takes the environment variable ``CTFA_DATA``, or ``~/ctfa_data``.
    download_if_missing : bool, default=True
        Download what is not there (needs pooch, ``pip install 'ctfa[datasets]'``).

    Returns
    -------
    Bunch
        With ``data`` (5875, 19), ``target`` (5875,), ``tasks`` (5875,), the number of each
        patient, ``feature_names``, ``target_names``, ``kind`` ("own rows"), ``filename`` and
        ``DESCR``.

    Examples
    --------
    >>> from ctfa.datasets import load_parkinson
    >>> X, y, tasks = load_parkinson(return_X_y=True)  # doctest: +SKIP
    """
    form = Form("parkinson", as_frame=as_frame, return_X_y=return_X_y)
    return _load_columns(form, "total_UPDRS", data_home, download_if_missing)


def load_computer(
    *,
    return_X_y: bool = False,
    as_frame: bool = False,
    data_home: Any = None,
    download_if_missing: bool = True,
) -> Any:
    """Load ratings of computers by 190 people: tasks with their own ratings.

    Parameters
    ----------
    return_X_y : bool, default=False
        Return ``(X, y, tasks)`` and no Bunch.
    as_frame : bool, default=False
        Give a data frame and series (needs pandas).
    data_home : path, default=None
        The folder of data; None takes the environment variable ``CTFA_DATA``, or ``~/ctfa_data``.
    download_if_missing : bool, default=True
        Download what is not there (needs pooch, ``pip install 'ctfa[datasets]'``).

    Returns
    -------
    Bunch
        With ``data`` (3800, 13), ``target`` (3800,), ``tasks`` (3800,), the number of each rater,
        ``feature_names``, ``target_names``, ``kind`` ("own rows"), ``filename`` and ``DESCR``.

    Examples
    --------
    >>> from ctfa.datasets import load_computer
    >>> X, y, tasks = load_computer(return_X_y=True)  # doctest: +SKIP
    """
    form = Form("computer", as_frame=as_frame, return_X_y=return_X_y)
    return _load_columns(form, "rating", data_home, download_if_missing)


def _load_columns(form: Form, target: str, data_home: Any, download: bool) -> Any:
    files = form.files(data_home, download)
    columns = files[0].columns()
    tasks = np.array(columns.pop("task"), dtype=np.intp)
    (values,) = files[1].columns().values()
    return form.give(
        "own rows",
        np.array(list(columns.values()), dtype=np.float64).T,
        np.array(values, dtype=np.float64),
        tasks,
        feature_names=list(columns),
        target_names=[target],
    )


def load_sarcos(
    *,
    return_X_y: bool = False,
    as_frame: bool = False,
    data_home: Any = None,
    download_if_missing: bool = True,
) -> Any:
    """Load the torques of a robot arm: 7 targets that share 21 inputs, in time order.

    Parameters
    ----------
    return_X_y : bool, default=False
        Return ``(X, Y)`` and no Bunch.
    as_frame : bool, default=False
        Give data frames (needs pandas).
    data_home : path, default=None
        The folder of data; None takes the environment variable ``CTFA_DATA``, or ``~/ctfa_data``.
    download_if_missing : bool, default=True
        Download what is not there (needs pooch, ``pip install 'ctfa[datasets]'``).

    Returns
    -------
    Bunch
        With ``data`` (4449, 21), ``target`` (4449, 7), ``feature_names``, ``target_names``,
        ``kind`` ("shared"), ``filename`` and ``DESCR``, which says where the data come from, who
        may use them, and what to beware of.

    Examples
    --------
    >>> from ctfa.datasets import load_sarcos
    >>> arm = load_sarcos()  # doctest: +SKIP
    >>> arm.data.shape, arm.target.shape  # doctest: +SKIP
    ((4449, 21), (4449, 7))
    """
    form = Form("sarcos", as_frame=as_frame, return_X_y=return_X_y)
    (file,) = form.files(data_home, download_if_missing)
    table = np.asarray(file.matlab()["sarcos_inv_test"], dtype=np.float64)
    joints = range(1, 8)
    kinds = ("position", "velocity", "acceleration")
    return form.give(
        "shared",
        table[:, :21],
        table[:, 21:],
        feature_names=[f"{kind}_{joint}" for kind in kinds for joint in joints],
        target_names=[f"torque_{joint}" for joint in joints],
        ordered=True,
    )


def load_tecator(
    *,
    return_X_y: bool = False,
    as_frame: bool = False,
    data_home: Any = None,
    download_if_missing: bool = True,
) -> Any:
    """Load spectra of meat: 3 targets that share 100 inputs which are nearly alike.

    Parameters
    ----------
    return_X_y : bool, default=False
        Return ``(X, Y)`` and no Bunch.
    as_frame : bool, default=False
        Give data frames (needs pandas).
    data_home : path, default=None
        The folder of data; None takes the environment variable ``CTFA_DATA``, or ``~/ctfa_data``.
    download_if_missing : bool, default=True
        Every loader has it; this set cannot be downloaded.

    Returns
    -------
    Bunch
        With ``data`` (215, 100), ``target`` (215, 3), ``feature_names``, ``target_names``,
        ``wavelength`` (100,) in nanometres, ``kind`` ("shared"), ``filename`` and ``DESCR``.

    Examples
    --------
    >>> from ctfa.datasets import load_tecator
    >>> meat = load_tecator()  # doctest: +SKIP
    >>> meat.data.shape, meat.target_names  # doctest: +SKIP
    ((215, 100), ['Fat', 'Water', 'Protein'])
    """
    form = Form("tecator", as_frame=as_frame, return_X_y=return_X_y)
    (file,) = form.files(data_home, download_if_missing)
    arrays = file.arrays()
    return form.give(
        "shared",
        arrays["X"],
        arrays["Y"],
        feature_names=[f"absorbance_{length:.0f}nm" for length in arrays["wavelength"]],
        target_names=arrays["Y_names"].tolist(),
        wavelength=arrays["wavelength"],
    )


#: How many targets each benchmark has, which are its last columns, and those in time order.
MULAN = {"andro": 6, "atp1d": 6, "atp7d": 6, "edm": 2, "enb": 2, "jura": 3, "oes10": 16,
         "oes97": 16, "osales": 12, "scpf": 3, "sf1": 3, "sf2": 3, "slump": 3,
         "wq": 14}  # fmt: skip
ORDERED = ("andro", "atp1d", "atp7d")


def load_mulan(
    name: str,
    *,
    missing: str = "keep",
    return_X_y: bool = False,
    as_frame: bool = False,
    data_home: Any = None,
    download_if_missing: bool = True,
) -> Any:
    """Load one of 14 benchmarks in which all targets share their inputs.

    Parameters
    ----------
    name : str
        Which one: andro, atp1d, atp7d, edm, enb, jura, oes10, oes97, osales, scpf, sf1, sf2, slump
        or wq.
    missing : {"keep", "median"}, default="keep"
        What to do with missing entries of features (osales and scpf have them): leave NaN, or fill
        in the median of the feature over all rows. For an honest test error leave them and put
        ``SimpleImputer`` into a pipeline, so that test rows have no say.
    return_X_y : bool, default=False
        Return ``(X, Y)`` and no Bunch.
    as_frame : bool, default=False
        Give data frames (needs pandas).
    data_home : path, default=None
        The folder of data; None takes the environment variable ``CTFA_DATA``, or ``~/ctfa_data``.
    download_if_missing : bool, default=True
        Download what is not there (needs pooch, ``pip install 'ctfa[datasets]'``).

    Returns
    -------
    Bunch
        With ``data``, ``target``, ``feature_names``, ``target_names``, ``kind`` ("shared"),
        ``filename`` and ``DESCR``. A nominal attribute (sf1, sf2) is a column of zeros and ones for
        each of its levels but the first, called ``attribute=level``.

    Examples
    --------
    >>> from ctfa.datasets import load_mulan
    >>> slump = load_mulan("slump")  # doctest: +SKIP
    >>> slump.data.shape, slump.target_names[0]  # doctest: +SKIP
    ((103, 7), 'SLUMP_cm')
    """
    check.require(name, MULAN, "name")
    check.require(missing, ("keep", "median"), "missing")
    form = Form(name, as_frame=as_frame, return_X_y=return_X_y)
    (file,) = form.files(data_home, download_if_missing)
    attributes = read_arff(file.content.decode())
    parts = attributes[: -MULAN[name]], attributes[-MULAN[name] :]
    features, targets = ({k: v for own in part for k, v in own.items()} for part in parts)
    X = np.column_stack(list(features.values()))
    if missing == "median":
        X = np.where(np.isnan(X), np.nanmedian(X, axis=0), X)
    return form.give(
        "shared",
        X,
        np.column_stack(list(targets.values())),
        feature_names=list(features),
        target_names=list(targets),
        ordered=True if name in ORDERED else None,
    )


def read_arff(text: str) -> list[dict[str, FloatArray]]:
    """Columns of numbers by name, attribute by attribute; NaN where missing.

    A nominal attribute is one of zeros and ones for each level but the first.
    """
    # Some quote a name twice.
    table, about = loadarff(io.StringIO(re.sub("[\"']+", "'", text)))
    found = []
    for name in about.names():
        values = table[name]
        _, levels = about[name]
        columns = {name: values}
        if levels is not None:
            columns = {
                f"{name}={level}": np.where(values == b"?", np.nan, values == level.encode())
                for level in levels[1:]
            }
        found.append(columns)
    return found
