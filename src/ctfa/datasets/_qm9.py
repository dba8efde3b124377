"""Properties of small molecules, from what their atoms and bonds are on average."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ctfa.core.types import FloatArray
from ctfa.datasets._bunches import Form, require_choice
from ctfa.datasets._files import (
    DataFile,
    Found,
    checksum_of_arrays,
    get_data_home,
    place,
    written_whole,
)
from ctfa.datasets._qm9_features import (
    FEATURES,
    TARGETS,
    UNITS,
    Table,
    package_folder,
    table_from_package,
)

#: What ``load_qm9`` makes from qm9pack. It differs from the file of the record by 3.1e-12 eV in the
#: energies of atomisation, where sums were taken in another order, and in nothing else.
MADE = DataFile(
    "qm9/qm9_tabular.npz",
    "31f9554921837c3670817f52aa3a58e8d09d03bd33aefc668147dcacfdcda72c",
    arrays=("X", "X_names", "Y", "Y_names", "index"),
)

logger = logging.getLogger("ctfa")


def load_qm9(
    *,
    source: Literal["auto", "file", "package"] = "auto",
    paper_columns: bool = False,
    return_X_y: bool = False,
    as_frame: bool = False,
    data_home: Any = None,
    download_if_missing: bool = True,
) -> Any:
    """Load the properties of 130,831 small molecules: 19 targets that share 20 inputs.

    The table is read from the folder of data. Where it is not there, it is computed from the
    package qm9pack by RDKit (``pip install 'ctfa[qm9]'``), in less than a minute, and kept in that
    folder if one can write to it; ``logging.getLogger("ctfa")`` hears how far it is.

    Parameters
    ----------
    source : {"auto", "file", "package"}, default="auto"
        Where the table comes from: "file" only reads it, "package" computes it even if the file is
        there, "auto" computes it if the file is not there.
    paper_columns : bool, default=False
        Give the 19 features of the paper: the first 18, without the numbers of atoms and bonds,
        and ``mean_Z`` a second time.
    return_X_y : bool, default=False
        Return ``(X, Y)`` and no Bunch.
    as_frame : bool, default=False
        Give data frames (needs pandas).
    data_home : path, default=None
        The folder of data; None takes the environment variable ``CTFA_DATA``, or ``~/ctfa_data``.
    download_if_missing : bool, default=True
        If False, ``source="auto"`` computes nothing. There is no file to download.

    Returns
    -------
    Bunch
        With ``data`` (130831, 20), ``target`` (130831, 19), ``feature_names``, ``target_names``,
        ``target_units``, ``molecule`` (its number among the 133,885 of the article), ``kind``
        ("shared"), ``filename`` if there is a file, and ``DESCR``, which says where the data come
        from, who may use them, and what to beware of.

    Examples
    --------
    >>> from ctfa.datasets import load_qm9
    >>> molecules = load_qm9()  # doctest: +SKIP
    >>> molecules.data.shape, molecules.target.shape  # doctest: +SKIP
    ((130831, 20), (130831, 19))
    """
    require_choice("source", source, ("auto", "file", "package"))
    form = Form("qm9", as_frame=as_frame, return_X_y=return_X_y)
    there = place(MADE, get_data_home(data_home)) is not None
    can_compute = download_if_missing and package_folder() is not None
    if source == "package" or (source == "auto" and not there and can_compute):
        table = table_from_package(package_folder())
        path = _keep(table, get_data_home(data_home))
    else:
        path = None
        with _read(form, data_home, download_if_missing).arrays() as arrays:
            table = Table(arrays["X"], arrays["Y"], arrays["index"])
    X: FloatArray = table.X.astype(float)
    names = list(FEATURES)
    if paper_columns:
        again = names.index("mean_Z")
        X = np.column_stack([X[:, :18], X[:, again]])
        names = [*names[:18], "mean_Z_again"]
    return form.shared(
        X,
        table.Y,
        feature_names=names,
        target_names=TARGETS,
        target_units=list(UNITS),
        molecule=table.molecule,
        filename=None if path is None else str(path),
    )


def _read(form: Form, data_home: Any, download_if_missing: bool) -> Found:
    """The file, as it was handed around or as ``load_qm9`` makes it."""
    try:
        (given,) = form.files(data_home, download_if_missing)
        return given
    except FileNotFoundError:
        raise
    except OSError as error:
        try:
            (made,) = form.files(data_home, download_if_missing, [MADE])
            return made
        except OSError:
            raise error from None


def _keep(table: Table, home: Path) -> Path | None:
    """Write the table to its place if it is the one that is known; return the place, or None."""
    arrays: dict[str, Any] = {
        "X": table.X,
        "X_names": np.array(FEATURES),
        "Y": table.Y,
        "Y_names": np.array(TARGETS),
        "index": table.molecule,
    }
    if checksum_of_arrays(arrays, MADE.arrays) != MADE.sha256:
        warnings.warn(
            "The table computed from qm9pack is not the one that is known, so it is not kept. It "
            "can be used, but results will differ a little from those of others. Either qm9pack "
            "is not version 1.0.3, or this RDKit takes other atoms for aromatic: versions before "
            "2026.3.5 do, in twelve molecules. pip install 'ctfa[qm9]' brings those that agree.",
            UserWarning,
            stacklevel=3,
        )
        return None
    present = place(MADE, home)
    if present is not None:
        return present
    wanted = home / MADE.path
    try:
        with written_whole(wanted) as path:
            np.savez_compressed(path, **arrays)
    except OSError as error:
        logger.info("QM9 is not kept, so it will be computed again: %s", error)
        return None
    return wanted
