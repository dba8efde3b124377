"""Spectra of meat."""

from __future__ import annotations

from typing import Any

from ctfa.datasets._bunches import Form
from ctfa.datasets._files import DataFile
from ctfa.datasets._record import Record

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
    form = Form(TECATOR, as_frame=as_frame, return_X_y=return_X_y)
    (file,) = TECATOR.find(data_home=data_home, download_if_missing=download_if_missing)
    with file.arrays() as arrays:
        X, Y, wavelength = (arrays[name] for name in ("X", "Y", "wavelength"))
        names = arrays["Y_names"].tolist()
    return form.shared(
        X,
        Y,
        feature_names=[f"absorbance_{length:.0f}nm" for length in wavelength],
        target_names=names,
        wavelength=wavelength,
        filename=str(file.path),
    )
