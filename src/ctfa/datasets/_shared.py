"""Targets that share their inputs: torques of a robot arm, and spectra of meat."""

from __future__ import annotations

from typing import Any

import numpy as np

from ctfa.datasets._bunches import Form
from ctfa.datasets._files import DataFile, Record

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
    form = Form(SARCOS, as_frame, return_X_y)
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


TECATOR = Record(
    name="tecator",
    loader="load_tecator()",
    title="Tecator: what meat consists of, by its spectrum",
    kind="shared",
    shape="215 samples, 100 features, 3 targets.",
    about="Near-infrared absorbance of chopped meat at 100 wavelengths from 850 to 1050 nm, and "
    "its contents of fat, water and protein in percent.",
    files=(
        DataFile(
            "tecator/tecator.npz",
            "0b830c962f693368627f8bdb89768bd877078dee934b498b9339dc6a98c7e846",
            arrays=("X", "Y", "Y_names", "wavelength"),
        ),
    ),
    source="The data set tecator of the R package fda.usc on CRAN, saved as an npz file with X "
    "(215, 100; float64), wavelength (100, float64), Y (215, 3; float64) and Y_names (Fat, Water, "
    "Protein).",
    licence="GPL-2, as the package states.",
    redistribution="Under the terms of the GPL-2.",
    citation="Borggaard, C. and Thodberg, H. H. (1992). Optimal minimal neural interpretation of "
    "spectra. Analytical Chemistry 64, 545-551. The package: Febrero-Bande, M. and Oviedo de la "
    "Fuente, M. (2012). Statistical computing in functional data analysis: the R package fda.usc. "
    "Journal of Statistical Software 51(4).",
    facts="Neighbouring wavelengths are almost equal, which is what merging features is for and "
    "what least squares without it suffers from. Fat, water and protein nearly add up to a "
    "constant.",
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
    form = Form(TECATOR, as_frame, return_X_y)
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
