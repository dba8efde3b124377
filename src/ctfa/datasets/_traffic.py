"""Speeds on the motorways of Los Angeles."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ctfa.datasets._bunches import Form
from ctfa.datasets._checks import require_count
from ctfa.datasets._files import DataFile
from ctfa.datasets._lags import lagged, waves
from ctfa.datasets._record import Record

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
    form = Form(TRAFFIC, as_frame=as_frame, return_X_y=return_X_y)
    require_count("n_lags", n_lags, least=1, most=STEPS_A_DAY)
    require_count("ahead", ahead, least=1, most=STEPS_A_DAY)
    require_count("every", every, least=1, most=STEPS_A_DAY)
    files = TRAFFIC.find(data_home=data_home, download_if_missing=download_if_missing)
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
        filename=[str(file.path) for file in files],
    )
