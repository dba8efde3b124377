"""A robot arm: positions, velocities and accelerations of its joints, and their torques."""

from __future__ import annotations

from typing import Any

import numpy as np

from ctfa.datasets._bunches import Form
from ctfa.datasets._files import DataFile
from ctfa.datasets._record import Record

SARCOS = Record(
    name="sarcos",
    loader="load_sarcos()",
    title="SARCOS: inverse dynamics of a robot arm",
    kind="shared",
    shape="4449 samples, 21 features, 7 targets.",
    about="A robot arm of seven joints follows trajectories. The features are the positions, "
    "velocities and accelerations of the joints, the targets their torques. This is the file known "
    "as the test set, in time order.",
    files=(
        DataFile(
            "sarcos/sarcos_inv_test.mat",
            "161a59b5c3b4f4b404584323f181607b2acbe620eb134dc720760dc3f38f5cec",
            "http://www.gaussianprocess.org/gpml/data/sarcos_inv_test.mat",
        ),
    ),
    source="sarcos_inv_test.mat of the page on data of the book Gaussian Processes for Machine "
    "Learning, http://www.gaussianprocess.org/gpml/data/.",
    licence="None stated on that page; MIT in the repository Kaixhin/SARCOS, which holds a copy.",
    redistribution="Not stated by its owners: get your own copy.",
    citation="Vijayakumar, S. and Schaal, S. (2000). Locally weighted projection regression: an "
    "O(n) algorithm for incremental real time learning in high dimensional space. ICML 2000, "
    "288-293. Published with Rasmussen, C. E. and Williams, C. K. I. (2006). Gaussian Processes "
    "for Machine Learning. MIT Press.",
    facts="Neighbouring rows are nearly alike, so a split at random leaks: use blocks of time. "
    "4446 of the 4449 rows are every tenth row of the training file, so the two must not be "
    "joined, and a model trained on that file has seen this one.",
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
    form = Form(SARCOS, as_frame=as_frame, return_X_y=return_X_y)
    (file,) = SARCOS.find(data_home=data_home, download_if_missing=download_if_missing)
    table = np.asarray(file.matlab()["sarcos_inv_test"], dtype=np.float64)
    joints = range(1, 8)
    kinds = ("position", "velocity", "acceleration")
    return form.shared(
        table[:, :21],
        table[:, 21:],
        feature_names=[f"{kind}_{joint}" for kind in kinds for joint in joints],
        target_names=[f"torque_{joint}" for joint in joints],
        ordered=True,
        filename=str(file.path),
    )
