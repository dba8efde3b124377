"""Properties of small molecules, from what their atoms and bonds are on average."""

from __future__ import annotations

import logging
import os
import tempfile
import warnings
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ctfa.core.types import FloatArray
from ctfa.datasets._bunches import Form, require_choice
from ctfa.datasets._files import (
    DataFile,
    Found,
    Record,
    checksum_of_arrays,
    find,
    get_data_home,
    place,
)
from ctfa.datasets._qm9_features import (
    FEATURES,
    TARGETS,
    UNITS,
    Table,
    package_folder,
    table_from_package,
)

_PATH, _ARRAYS = "qm9/qm9_tabular.npz", ("X", "X_names", "Y", "Y_names", "index")
#: What ``load_qm9`` makes from qm9pack. It differs from the file of the record by 3.1e-12 eV in the
#: energies of atomisation, where sums were taken in another order, and in nothing else.
MADE = DataFile(
    _PATH, "31f9554921837c3670817f52aa3a58e8d09d03bd33aefc668147dcacfdcda72c", arrays=_ARRAYS
)

QM9 = Record(
    name="qm9",
    loader="load_qm9()",
    title="QM9: properties of small organic molecules",
    kind="shared",
    shape="130831 samples (molecules), 20 features, 19 targets.",
    about="Molecules of up to nine atoms of C, N, O and F, and hydrogen, in the geometry that "
    "density functional theory (B3LYP/6-31G(2df,p)) gives them. Features, averaged over the atoms: "
    "the element (frac_H to frac_F), the atomic number (mean_Z), whether it is aromatic, its "
    "hybridisation (sp, sp2, sp3), the hydrogens bonded to it (mean_numH) and the position in "
    "angstrom (mean_x to mean_z); averaged over the bonds: their type (bond_single to "
    "bond_aromatic); and the numbers of atoms and bonds. Targets: "
    + ", ".join(f"{name} [{unit}]" for name, unit in zip(TARGETS, UNITS, strict=True))
    + ". They are the dipole moment, the polarisability, the energies of the highest occupied and "
    "the lowest unoccupied orbital and the gap between them, the spatial extent of the electrons, "
    "the zero-point energy, the internal energy at 0 K and at 298.15 K, the enthalpy, the free "
    "energy and the heat capacity at 298.15 K, the four energies less those of the atoms alone "
    "(_atom), and the rotational constants.",
    files=(
        DataFile(
            _PATH,
            "a424cecb43aed2f2f82067b122d0f36eb39a2092cde56194d91855e6a6ee6f12",
            arrays=_ARRAYS,
        ),
    ),
    source="The Python package qm9pack 1.0.3 holds the molecules, and RDKit reads their bonds: "
    "after pip install 'ctfa[qm9]', load_qm9() computes the table in less than a minute and keeps "
    "it. The file holds the arrays X (samples, features), Y (samples, targets), X_names, Y_names "
    "and index (the numbers of the molecules).",
    licence="MIT for qm9pack, which is by the first author of the data. The data were published "
    "with the article at figshare (doi 10.6084/m9.figshare.c.978904); the catalogue "
    "of load-atoms lists them as CC0.",
    redistribution="Allowed by the licence of qm9pack, with its notice.",
    citation="Ramakrishnan, R., Dral, P. O., Rupp, M. and von Lilienfeld, O. A. (2014). Quantum "
    "chemistry structures and properties of 134 kilo molecules. Scientific Data 1, 140022. "
    "doi 10.1038/sdata.2014.22.",
    facts="There are 130,831 molecules: qm9pack leaves out those 3,054 of the 133,885 of the "
    "article whose structure did not hold. They are nearly sorted by size, so the first ones "
    "are no sample: shuffle. The features are not independent: mean_numH equals frac_H; the "
    "fractions of the elements, those of the bond types, and those of the hybridisations with "
    "frac_H, each sum to one; mean_Z follows from the elements. With a constant the 20 features "
    "have rank 16, and the 19 of the paper (18, and mean_Z again) rank 14. Features are kept in "
    "single precision, so this holds up to 1e-7. mean_x to mean_z depend on how a molecule was "
    "placed. U0, U, H and G are nearly one target (they differ by at most 1.6 eV and their "
    "standard deviation is 1086 eV), as are their energies of atomisation (correlations above "
    "0.9997); gap = lumo - homo up to the rounding of 0.0001 hartree. A is 0 for 9 linear "
    "molecules, and 619,868 and 232,664 GHz for two that are nearly linear (the next is 800): "
    "these two make nearly all of its variance.",
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
    form = Form(QM9, as_frame, return_X_y)
    there = place(MADE, get_data_home(data_home)) is not None
    can_compute = download_if_missing and package_folder() is not None
    if source == "package" or (source == "auto" and not there and can_compute):
        table = table_from_package(package_folder())
        path = _keep(table, get_data_home(data_home))
    else:
        file = _read(data_home, download_if_missing=download_if_missing)
        path = file.path
        with file.arrays() as arrays:
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


def _read(data_home: Any, *, download_if_missing: bool) -> Found:
    """The file, as it was handed around or as ``load_qm9`` makes it."""
    (given,) = QM9.files
    options = {"data_home": data_home, "source": QM9.source}
    try:
        return find(given, download_if_missing=download_if_missing, **options)
    except FileNotFoundError:
        raise
    except OSError as error:
        try:
            return find(MADE, **options)
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
    if checksum_of_arrays(arrays, _ARRAYS) != MADE.sha256:
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
        wanted.parent.mkdir(parents=True, exist_ok=True)
        # Beside its place and moved there when it is whole, so that nobody reads half a file.
        with tempfile.TemporaryDirectory(dir=wanted.parent, prefix=".making-") as folder:
            whole = Path(folder, wanted.name)
            np.savez_compressed(whole, **arrays)
            os.replace(whole, wanted)
    except OSError as error:
        logger.info("QM9 is not kept, so it will be computed again: %s", error)
        return None
    return wanted
