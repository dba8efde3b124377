"""QM9, the properties of small molecules: rows of what their atoms and bonds are on average.

The features are those of the nodes, positions and edges that graph networks take from QM9, each
averaged over a molecule, and two counts.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from ctfa import _reading as check
from ctfa._text import write_whole
from ctfa.core.libraries import imported
from ctfa.core.types import AnyArray, FloatArray
from ctfa.datasets._bunches import Form
from ctfa.datasets._catalogue import DataFile, checksum_of_arrays, get_data_home

ELEMENTS, ATOMIC_NUMBERS = ("H", "C", "N", "O", "F"), (1, 6, 7, 8, 9)
HYBRIDISATIONS = ("sp", "sp2", "sp3")
BOND_TYPES = ("single", "double", "triple", "aromatic")

FEATURES = (
    *(f"frac_{element}" for element in ELEMENTS),
    "mean_Z",
    "frac_aromatic",
    *(f"frac_{name}" for name in HYBRIDISATIONS),
    "mean_numH",
    "mean_x",
    "mean_y",
    "mean_z",
    *(f"bond_{name}" for name in BOND_TYPES),
    "n_atoms",
    "n_bonds",
)

#: Electronvolts in a hartree.
HARTREE = 27.211386246
#: Name, unit and scale of a property, and the column of qm9pack that is scaled by it.
PROPERTIES = (
    ("mu", "D", 1.0, "Dipole_debye"),
    ("alpha", "bohr^3", 1.0, "Polarizability_bohr3"),
    ("homo", "eV", HARTREE, "HOMO_au"),
    ("lumo", "eV", HARTREE, "LUMO_au"),
    ("gap", "eV", HARTREE, "HOMO_LUMO_gap_au"),
    ("r2", "bohr^2", 1.0, "R2_bohr2"),
    ("zpve", "eV", HARTREE, "ZPVE_au"),
    ("U0", "eV", HARTREE, "InternalEnergy_0K_au"),
    ("U", "eV", HARTREE, "InternalEnergy_298K_au"),
    ("H", "eV", HARTREE, "Enthalphy_298K_au"),
    ("G", "eV", HARTREE, "GibbsFreeEnergy_298K_au"),
    ("Cv", "cal/(mol K)", 1.0, "Heatcapacity_Cv_cal_mol_K"),
    ("A", "GHz", 1.0, "RotA_GHz"),
    ("B", "GHz", 1.0, "RotB_GHz"),
    ("C", "GHz", 1.0, "RotC_GHz"),
)
#: Energies of single atoms (H, C, N, O, F) in hartree, at the same level of theory.
ATOMS_ALONE: Mapping[str, tuple[float, ...]] = {
    "U0": (-0.500273, -37.846772, -54.583861, -75.064579, -99.718730),
    "U": (-0.498857, -37.845355, -54.582445, -75.063163, -99.717314),
    "H": (-0.497912, -37.844411, -54.581501, -75.062219, -99.716370),
    "G": (-0.510927, -37.861317, -54.598897, -75.079532, -99.733544),
}
_NAMES = [name for name, *_ in PROPERTIES]
#: The rotational constants come last.
TARGETS = (*_NAMES[:12], *(f"{name}_atom" for name in ATOMS_ALONE), *_NAMES[12:])
UNITS = (*(unit for _, unit, *_ in PROPERTIES[:12]), *("eV",) * 4, *("GHz",) * 3)

#: The files of qm9pack that are read, in the order of the molecules.
PARTS = ("qm9_part1.csv", "qm9_part2.csv", "qm9_part3.csv")

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
    folder if one can write to it; ``logging.getLogger("ctfa")`` gets its progress.

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
    check.require(source, ("auto", "file", "package"), "source")
    form, home = Form("qm9", as_frame=as_frame, return_X_y=return_X_y), get_data_home(data_home)
    can_compute = download_if_missing and package_folder() is not None
    path = None
    if source == "package" or (source == "auto" and MADE.place(home) is None and can_compute):
        table = table_from_package(package_folder())
        path = _keep(table, home)
    else:
        table = _read(form, data_home, download_if_missing)
    X, names = table.X.astype(float), list(FEATURES)
    if paper_columns:
        X, names = X[:, [*range(18), names.index("mean_Z")]], [*names[:18], "mean_Z_again"]
    return form.give(
        "shared",
        X,
        table.Y,
        feature_names=names,
        target_names=TARGETS,
        target_units=list(UNITS),
        molecule=table.molecule,
        filename=None if path is None else str(path),
    )


def _read(form: Form, data_home: Any, download_if_missing: bool) -> Table:
    """The file, as it was handed around or as ``load_qm9`` makes it."""
    try:
        (file,) = form.files(data_home, download_if_missing)
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            raise
        try:
            (file,) = form.files(data_home, download_if_missing, [MADE])
        except OSError:
            raise error from None
    arrays = file.arrays()
    return Table(arrays["X"], arrays["Y"], arrays["index"])


def _keep(table: Table, home: Path) -> Path | None:
    """Write the table to its place if it is the one that is known; return the place, or None."""
    arrays: dict[str, Any] = {"X": table.X, "Y": table.Y, "index": table.molecule}
    arrays |= {"X_names": np.array(FEATURES), "Y_names": np.array(TARGETS)}
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
    present, wanted = MADE.place(home), home / MADE.path
    if present is not None:
        return present
    try:
        packed = io.BytesIO()
        np.savez_compressed(packed, **arrays)
        wanted.parent.mkdir(parents=True, exist_ok=True)
        write_whole(packed.getvalue(), wanted)
    except OSError as error:
        logger.info("QM9 is not kept, so it will be computed again: %s", error)
        return None
    return wanted


class Graph(NamedTuple):
    """The atoms of a molecule, hydrogens among them, and its bonds."""

    atomic_numbers: Sequence[int]
    aromatic: Sequence[bool]
    #: "sp", "sp2", "sp3"; anything else is none of them.
    hybridisations: Sequence[str]
    #: Numbers of the two atoms of each bond, and one of ``BOND_TYPES``.
    bonds: Sequence[tuple[int, int, str]]


class Table(NamedTuple):
    """Features (molecules, 20), properties (molecules, 19) and numbers of molecules in QM9."""

    X: AnyArray
    Y: FloatArray
    molecule: AnyArray


def averaged_features(graph: Graph, positions: FloatArray) -> list[float]:
    """The values of ``FEATURES`` for one molecule, from its graph and where its atoms are."""
    numbers, bonds = graph.atomic_numbers, graph.bonds
    n_atoms, n_bonds = len(numbers), len(bonds)
    if np.shape(positions) != (n_atoms, 3):
        raise ValueError(
            f"a molecule of {n_atoms} atoms has positions of shape {np.shape(positions)}; they "
            f"should be three coordinates for each atom, ({n_atoms}, 3)."
        )
    counts = [list(numbers).count(number) for number in ATOMIC_NUMBERS]
    if sum(counts) != n_atoms:
        strange = sorted(set(numbers) - set(ATOMIC_NUMBERS))
        raise ValueError(
            f"atomic number {strange[0]} is not of QM9, whose elements are {', '.join(ELEMENTS)}."
        )
    hybridisations = list(graph.hybridisations)
    types = [kind for *_, kind in bonds]
    # Hydrogens that an atom is bonded to, summed over the atoms.
    hydrogens = sum((numbers[a] == 1) + (numbers[b] == 1) for a, b, _ in bonds)
    return [
        *(count / n_atoms for count in counts),
        sum(numbers) / n_atoms,
        sum(graph.aromatic) / n_atoms,
        *(hybridisations.count(name) / n_atoms for name in HYBRIDISATIONS),
        hydrogens / n_atoms,
        *(np.asarray(positions).sum(axis=0) / n_atoms).tolist(),
        # A lone atom has no bonds, of any type.
        *(types.count(name) / max(n_bonds, 1) for name in BOND_TYPES),
        n_atoms,
        n_bonds,
    ]


def properties(quantities: FloatArray, counts: FloatArray) -> FloatArray:
    """The values of ``TARGETS``, from the columns of ``PROPERTIES`` in the units of qm9pack.

    ``counts`` are the atoms of each element (molecules, 5). An energy of atomisation is the energy
    of the molecule less those of its atoms alone.
    """
    scaled = quantities * np.array([scale for *_, scale, _ in PROPERTIES])
    atomisation = []
    for name, alone in ATOMS_ALONE.items():
        # One element after the other, not a product of matrices, whose last digit depends on the
        # machine: the table is known by its checksum.
        apart = sum(counts[:, element] * energy for element, energy in enumerate(alone))
        atomisation.append((quantities[:, _NAMES.index(name)] - apart) * HARTREE)
    return np.column_stack([scaled[:, :12], *atomisation, scaled[:, 12:]])


def package_folder() -> Path | None:
    """Where qm9pack keeps its data; None if it is not installed.

    It is not imported: that needs pkg_resources, which recent versions of setuptools do not have.
    """
    spec = importlib.util.find_spec("qm9pack")
    places = spec.submodule_search_locations if spec is not None else None
    return Path(places[0]) / "data" if places else None


def table_from_package(folder: Path | None, *, n_molecules: int | None = None) -> Table:
    """Compute the table from the files of qm9pack: half a minute, or only its first molecules."""
    if folder is None:
        raise ImportError(
            "Computing QM9 needs the package qm9pack, which holds the molecules, and RDKit: "
            "pip install 'ctfa[qm9]'."
        )
    graph_of = _graph_reader()
    rows, quantities, molecules = [], [], []
    for number, row in enumerate(islice(molecules_of(folder), n_molecules)):
        if number and number % 10_000 == 0:
            logger.info("QM9: %d molecules of about 131,000 are computed", number)
        try:
            rows.append(averaged_features(graph_of(row["SMILES"]), positions_of(row["XYZ_Ang"])))
        except ValueError as error:
            raise ValueError(f"Molecule {row['Index']} ({row['SMILES']}): {error}") from error
        quantities.append([float(row[column]) for *_, column in PROPERTIES])
        molecules.append(int(row["Index"]))
    X = np.array(rows, dtype=float).reshape(-1, len(FEATURES))
    counts = np.rint(X[:, : len(ELEMENTS)] * X[:, [FEATURES.index("n_atoms")]])
    Y = properties(np.array(quantities).reshape(-1, len(PROPERTIES)), counts)
    return Table(X.astype(np.float32), Y, np.array(molecules, dtype=np.int32))


def molecules_of(folder: Path) -> Iterator[dict[str, str]]:
    """Rows of the files of qm9pack, by column."""
    needed = {"Index", "SMILES", "XYZ_Ang", *(column for *_, column in PROPERTIES)}
    for part in PARTS:
        if not (folder / part).is_file():
            raise FileNotFoundError(
                f"qm9pack should hold {folder / part} and does not. Version 1.0.3 does: "
                f"pip install 'qm9pack==1.0.3'."
            )
        with open(folder / part, newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            missing = sorted(needed - set(reader.fieldnames or ()))
            if missing:
                raise OSError(
                    f"{folder / part} has no column {', '.join(missing)}. Version 1.0.3 of qm9pack "
                    f"has: pip install 'qm9pack==1.0.3'."
                )
            yield from reader


_BRACKETS = str.maketrans("[],", "   ")


def positions_of(text: str) -> FloatArray:
    """Coordinates of the atoms of a molecule, one per row."""
    # Not JSON: some numbers are written "0.".
    numbers = np.array(text.translate(_BRACKETS).split(), dtype=float)
    return numbers.reshape(-1, 3)


def _graph_reader() -> Any:
    """A function from SMILES to ``Graph``; the only place that needs RDKit."""
    chem = imported(
        "rdkit.Chem",
        "Computing QM9 from qm9pack needs RDKit, for the bonds, the aromatic atoms and the "
        "hybridisation: pip install 'ctfa[qm9]' (or pip install rdkit).",
    )
    orbitals = {getattr(chem.HybridizationType, name.upper()): name for name in HYBRIDISATIONS}
    bond_types = {getattr(chem.BondType, name.upper()): name for name in BOND_TYPES}

    def graph_of(smiles: str) -> Graph:
        molecule = chem.MolFromSmiles(smiles)
        if molecule is None:
            raise ValueError("RDKit cannot read it.")
        molecule = chem.AddHs(molecule)
        atoms, bonds = list(molecule.GetAtoms()), molecule.GetBonds()
        return Graph(
            [atom.GetAtomicNum() for atom in atoms],
            [atom.GetIsAromatic() for atom in atoms],
            [orbitals.get(atom.GetHybridization(), "other") for atom in atoms],
            [
                (bond.GetBeginAtomIdx(), bond.GetEndAtomIdx(), bond_types[bond.GetBondType()])
                for bond in bonds
            ],
        )

    return graph_of
