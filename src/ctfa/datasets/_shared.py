"""Targets that share their inputs: a robot arm, spectra of meat, the benchmarks of Mulan."""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np
from scipy.io.arff import loadarff

from ctfa.core.types import FloatArray
from ctfa.datasets._bunches import Form, require_choice


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
    return form.shared(
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
        As for every loader; of this set there is nothing to download.

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
    with file.arrays() as arrays:
        X, Y, wavelength = (arrays[name] for name in ("X", "Y", "wavelength"))
        names = arrays["Y_names"].tolist()
    return form.shared(
        X,
        Y,
        feature_names=[f"absorbance_{length:.0f}nm" for length in wavelength],
        target_names=names,
        wavelength=wavelength,
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
    """Load one of 14 benchmarks of which all targets share their inputs.

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
    require_choice("name", name, MULAN)
    require_choice("missing", missing, ("keep", "median"))
    form = Form(name, as_frame=as_frame, return_X_y=return_X_y)
    (file,) = form.files(data_home, download_if_missing)
    attributes = read_arff(file.content.decode())
    n_inputs = len(attributes) - MULAN[name]
    features = {key: v for columns in attributes[:n_inputs] for key, v in columns.items()}
    targets = {key: v for columns in attributes[n_inputs:] for key, v in columns.items()}
    X = np.column_stack(list(features.values()))
    if missing == "median":
        X = np.where(np.isnan(X), np.nanmedian(X, axis=0), X)
    return form.shared(
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
