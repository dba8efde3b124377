"""Molecules as rows: features by hand, the table from the package, from a file, from neither."""

import csv
import logging
import os
import sys
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctfa.datasets import _qm9, list_datasets, load_qm9
from ctfa.datasets._catalogue import DataFile, checksum_of_arrays
from ctfa.datasets._qm9 import (
    ATOMS_ALONE,
    BOND_TYPES,
    FEATURES,
    HARTREE,
    HYBRIDISATIONS,
    PARTS,
    PROPERTIES,
    TARGETS,
    UNITS,
    Graph,
    averaged_features,
    properties,
    table_from_package,
)


def star(centre, hybridisation, n_hydrogens):
    """An atom and its hydrogens."""
    n_atoms = 1 + n_hydrogens
    return Graph(
        [centre, *[1] * n_hydrogens],
        [False] * n_atoms,
        [hybridisation, *["other"] * n_hydrogens],
        [(0, hydrogen, "single") for hydrogen in range(1, n_atoms)],
    )


METHANE, WATER = star(6, "sp3", 4), star(8, "sp3", 2)
BENZENE = Graph(
    [6] * 6 + [1] * 6,
    [True] * 6 + [False] * 6,
    ["sp2"] * 6 + ["other"] * 6,
    [(atom, (atom + 1) % 6, "aromatic") for atom in range(6)]
    + [(atom, atom + 6, "single") for atom in range(6)],
)
HYDROGEN_CYANIDE = Graph(
    [6, 7, 1], [False] * 3, ["sp", "sp", "other"], [(0, 1, "triple"), (0, 2, "single")]
)
FORMALDEHYDE = Graph(
    [6, 8, 1, 1],
    [False] * 4,
    ["sp2", "sp2", "other", "other"],
    [(0, 1, "double"), (0, 2, "single"), (0, 3, "single")],
)
GRAPHS = {
    "C": METHANE,
    "O": WATER,
    "C1=CC=CC=C1": BENZENE,
    "C#N": HYDROGEN_CYANIDE,
    "C=O": FORMALDEHYDE,
}


def features_of(graph, positions=None):
    if positions is None:
        positions = np.zeros((len(graph.atomic_numbers), 3))
    return dict(zip(FEATURES, averaged_features(graph, positions), strict=True))


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        (
            METHANE,
            {"frac_H": 4 / 5, "frac_C": 1 / 5, "mean_Z": 10 / 5, "frac_sp3": 1 / 5}
            | {"mean_numH": 4 / 5, "bond_single": 1, "n_atoms": 5, "n_bonds": 4},
        ),
        (
            WATER,
            {"frac_H": 2 / 3, "frac_O": 1 / 3, "mean_Z": 10 / 3, "frac_sp3": 1 / 3}
            | {"mean_numH": 2 / 3, "bond_single": 1, "n_atoms": 3, "n_bonds": 2},
        ),
        (
            BENZENE,
            {"frac_H": 1 / 2, "frac_C": 1 / 2, "mean_Z": 42 / 12, "frac_aromatic": 1 / 2}
            | {"frac_sp2": 1 / 2, "mean_numH": 1 / 2, "bond_single": 1 / 2}
            | {"bond_aromatic": 1 / 2, "n_atoms": 12, "n_bonds": 12},
        ),
        (
            HYDROGEN_CYANIDE,
            {"frac_H": 1 / 3, "frac_C": 1 / 3, "frac_N": 1 / 3, "mean_Z": 14 / 3}
            | {"frac_sp": 2 / 3, "mean_numH": 1 / 3, "bond_single": 1 / 2, "bond_triple": 1 / 2}
            | {"n_atoms": 3, "n_bonds": 2},
        ),
        (
            FORMALDEHYDE,
            {"frac_H": 1 / 2, "frac_C": 1 / 4, "frac_O": 1 / 4, "mean_Z": 16 / 4}
            | {"frac_sp2": 1 / 2, "mean_numH": 1 / 2, "bond_single": 2 / 3, "bond_double": 1 / 3}
            | {"n_atoms": 4, "n_bonds": 3},
        ),
    ],
)
def test_features_are_those_counted_by_hand(graph, expected):
    assert features_of(graph) == pytest.approx(dict.fromkeys(FEATURES, 0) | expected)


def test_a_position_is_the_mean_of_those_of_the_atoms():
    found = features_of(WATER, np.array([[0.0, 3.0, -6.0], [1.0, 0.0, 0.0], [2.0, 0.0, 0.0]]))
    assert (found["mean_x"], found["mean_y"], found["mean_z"]) == (1, 1, -2)


def test_an_atom_without_bonds_has_no_types_of_bond():
    found = features_of(star(9, "other", 0))
    assert found["frac_F"] == 1
    assert found["n_bonds"] == 0
    assert [found[f"bond_{name}"] for name in BOND_TYPES] == [0, 0, 0, 0]


@given(st.sampled_from(list(GRAPHS.values())), st.integers(0, 2**32))
def test_features_do_not_depend_on_how_atoms_are_numbered(graph, seed):
    random = Random(seed)
    n_atoms = len(graph.atomic_numbers)
    order = random.sample(range(n_atoms), n_atoms)
    positions = np.array([[random.gauss(0, 1) for _ in range(3)] for _ in range(n_atoms)])
    bonds = [(order.index(b), order.index(a), kind) for a, b, kind in graph.bonds]
    renumbered = Graph(
        *([values[atom] for atom in order] for values in graph[:3]),
        random.sample(bonds, len(bonds)),
    )
    np.testing.assert_allclose(
        averaged_features(renumbered, positions[order]),
        averaged_features(graph, positions),
        atol=1e-14,
    )


def test_atoms_and_positions_must_agree():
    with pytest.raises(ValueError, match=r"3 atoms has positions of shape \(2, 3\).*\(3, 3\)"):
        averaged_features(WATER, np.zeros((2, 3)))


def test_an_element_that_qm9_has_not_is_refused():
    with pytest.raises(ValueError, match=r"atomic number 16 is not of QM9.*H, C, N, O, F"):
        averaged_features(star(16, "sp3", 2), np.zeros((3, 3)))


def test_energies_of_atomisation_are_zero_where_atoms_do_not_bind():
    counts = np.array([[4.0, 1, 0, 0, 0], [2, 1, 1, 1, 1], [0, 0, 0, 0, 2]])
    names = [name for name, *_ in PROPERTIES]
    quantities = np.ones((3, len(PROPERTIES)))
    for name, alone in ATOMS_ALONE.items():
        quantities[:, names.index(name)] = counts @ alone
    Y = properties(quantities, counts)
    atomisation = [TARGETS.index(f"{name}_atom") for name in ATOMS_ALONE]
    np.testing.assert_allclose(Y[:, atomisation], 0, atol=1e-11)


def test_properties_are_scaled_to_their_units_and_named_in_order():
    names = [name for name, *_ in PROPERTIES]
    quantities = np.arange(1.0, 1 + len(PROPERTIES))[None, :]
    Y = dict(zip(TARGETS, properties(quantities, np.zeros((1, 5)))[0], strict=True))
    units = dict(zip(TARGETS, UNITS, strict=True))
    for number, name in enumerate(names, start=1):
        assert Y[name] == pytest.approx(number * (HARTREE if units[name] == "eV" else 1)), name
    for name in ATOMS_ALONE:
        assert units[f"{name}_atom"] == "eV"
        assert Y[f"{name}_atom"] == pytest.approx(Y[name])


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Five molecules in the files of a qm9pack, and no need of RDKit to read them."""
    folder = tmp_path / "qm9pack" / "data"
    folder.mkdir(parents=True)
    columns = ["Index", "SMILES", "XYZ_Ang", *(column for *_, column in PROPERTIES)]
    molecules = iter(enumerate(GRAPHS.items(), start=1))
    for part, n_rows in zip(PARTS, (2, 1, 2), strict=True):
        with open(folder / part, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            for _ in range(n_rows):
                number, (smiles, graph) = next(molecules)
                atoms = ",".join(["[0.,-1.5E-1,2.25]"] * len(graph.atomic_numbers))
                writer.writerow([number, smiles, f"[{atoms}]", *[f"{number}."] * len(PROPERTIES)])
    monkeypatch.setattr(_qm9, "_graph_reader", lambda: GRAPHS.__getitem__)
    monkeypatch.setattr(_qm9, "package_folder", lambda: folder)
    return folder


@pytest.fixture
def known(package, monkeypatch):
    """The table of these molecules is the one that the loader knows."""
    table = table_from_package(package)
    arrays = {"X": table.X, "Y": table.Y, "index": table.molecule} | {
        "X_names": np.array(FEATURES),
        "Y_names": np.array(TARGETS),
    }
    checksum = checksum_of_arrays(arrays, list(arrays))
    monkeypatch.setattr(_qm9, "MADE", DataFile(_qm9.MADE.path, checksum, arrays=_qm9.MADE.arrays))
    return table


def without_package(monkeypatch):
    monkeypatch.setattr(_qm9, "package_folder", lambda: None)


def files_below(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_the_table_has_the_molecules_of_all_files_in_order(package):
    table = table_from_package(package)
    np.testing.assert_array_equal(table.molecule, [1, 2, 3, 4, 5])
    expected = [averaged_features(graph, np.zeros((len(graph[0]), 3))) for graph in GRAPHS.values()]
    expected = np.array(expected)
    expected[:, 11:14] = [0, -0.15, 2.25]
    np.testing.assert_array_equal(table.X, expected.astype(np.float32))
    np.testing.assert_array_equal(table.Y[:, TARGETS.index("C")], [1, 2, 3, 4, 5])
    # Methane, at one hartree: less one carbon and four hydrogens.
    expected = (1 + 37.846772 + 4 * 0.500273) * HARTREE
    assert table.Y[0, TARGETS.index("U0_atom")] == pytest.approx(expected, abs=1e-10)


def test_first_molecules_are_the_beginning_of_the_table(package):
    part, whole = table_from_package(package, n_molecules=3), table_from_package(package)
    for some, everything in zip(part, whole, strict=True):
        np.testing.assert_array_equal(some, everything[:3])


def test_a_molecule_that_cannot_be_read_is_named(package, monkeypatch):
    def reader():
        def graph_of(smiles):
            raise ValueError("RDKit cannot read it.")

        return graph_of

    monkeypatch.setattr(_qm9, "_graph_reader", reader)
    with pytest.raises(ValueError, match=r"Molecule 1 \(C\): RDKit cannot read it"):
        table_from_package(package)


def test_a_package_without_a_file_is_refused(package):
    (package / PARTS[1]).unlink()
    with pytest.raises(OSError, match=r"should hold .*qm9_part2.csv and does not.*1\.0\.3"):
        table_from_package(package)


def test_a_package_without_a_column_is_refused(package):
    path = package / PARTS[0]
    path.write_text(path.read_text().replace("ZPVE_au", "ZPE"))
    with pytest.raises(OSError, match="has no column ZPVE_au"):
        table_from_package(package)


def test_without_rdkit_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "rdkit", None)
    monkeypatch.setitem(sys.modules, "rdkit.Chem", None)
    with pytest.raises(ImportError, match=r"needs RDKit.*pip install 'ctfa\[qm9\]'"):
        table_from_package(tmp_path)


def test_what_is_computed_is_kept_and_read_the_next_time(tmp_path, known, monkeypatch):
    home = tmp_path / "home"
    first = load_qm9(data_home=home)
    assert files_below(home) == ["qm9/qm9_tabular.npz"]
    without_package(monkeypatch)
    for options in ({}, {"source": "file"}, {"download_if_missing": False}):
        again = load_qm9(data_home=home, **options)
        np.testing.assert_array_equal(again.data, first.data)
        np.testing.assert_array_equal(again.target, first.target)
        np.testing.assert_array_equal(again.molecule, first.molecule)
        assert again.filename == first.filename == str(home / "qm9" / "qm9_tabular.npz")


def test_the_bunch_says_what_its_columns_are(tmp_path, known):
    bunch = load_qm9(data_home=tmp_path)
    assert bunch.kind == "shared"
    assert bunch.data.dtype == bunch.target.dtype == float
    assert bunch.data.shape == (5, 20) == (5, len(bunch.feature_names))
    assert bunch.target.shape == (5, 19) == (5, len(bunch.target_names))
    assert len(bunch.target_units) == 19
    for word in ("Ramakrishnan", "130,831", "rank 14", "MIT", "gap [eV]", "Cv [cal/(mol K)]"):
        assert word in " ".join(bunch.DESCR.split())


def test_the_columns_of_the_paper_have_the_atomic_number_twice(tmp_path, known):
    X, Y = load_qm9(data_home=tmp_path, return_X_y=True)
    paper = load_qm9(data_home=tmp_path, paper_columns=True)
    np.testing.assert_array_equal(paper.data, X[:, [*range(18), 5]])
    np.testing.assert_array_equal(paper.target, Y)
    assert paper.feature_names == [*FEATURES[:18], "mean_Z_again"]


def test_frames_have_the_names(tmp_path, known):
    pytest.importorskip("pandas")
    X, Y = load_qm9(data_home=tmp_path, as_frame=True, return_X_y=True)
    assert list(X.columns) == list(FEATURES)
    assert list(Y.columns) == list(TARGETS)


def test_the_package_is_asked_even_if_the_file_is_there(tmp_path, known):
    (tmp_path / "qm9").mkdir()
    (tmp_path / "qm9" / "qm9_tabular.npz").write_bytes(b"not mine to write over")
    assert load_qm9(data_home=tmp_path, source="package").data.shape == (5, 20)
    assert (tmp_path / "qm9" / "qm9_tabular.npz").read_bytes() == b"not mine to write over"


def test_a_folder_that_cannot_be_written_to_is_no_obstacle(tmp_path, known, caplog):
    (tmp_path / "home").write_text("a file, so nothing can be below it")
    with caplog.at_level(logging.INFO, logger="ctfa"):
        bunch = load_qm9(data_home=tmp_path / "home")
    assert bunch.data.shape == (5, 20)
    assert "filename" not in bunch
    assert "computed again" in caplog.text


def test_half_a_file_leaves_nothing_behind(tmp_path, known, monkeypatch):
    def full(file, **arrays):
        file.write(b"PK")
        raise OSError("No space left on device")

    monkeypatch.setattr(np, "savez_compressed", full)
    assert load_qm9(data_home=tmp_path / "home").data.shape == (5, 20)
    assert files_below(tmp_path / "home") == []


def test_a_table_that_is_not_the_known_one_is_given_but_not_kept(tmp_path, package):
    with pytest.warns(UserWarning, match=r"not the one that is known.*1\.0\.3.*2026\.3\.5"):
        bunch = load_qm9(data_home=tmp_path / "home")
    assert bunch.data.shape == (5, 20)
    assert files_below(tmp_path / "home") == []


@pytest.mark.parametrize("options", [{"download_if_missing": False}, {"source": "file"}])
def test_nothing_is_computed_that_was_not_to_be(tmp_path, known, options):
    with pytest.raises(FileNotFoundError, match=r"qm9_tabular.npz is not in.*qm9pack"):
        load_qm9(data_home=tmp_path / "home", **options)
    assert files_below(tmp_path / "home") == []


def test_without_file_and_package_both_ways_are_told(tmp_path, monkeypatch):
    without_package(monkeypatch)
    with pytest.raises(FileNotFoundError, match=r"pip install 'ctfa\[qm9\]'.*data_home="):
        load_qm9(data_home=tmp_path)
    with pytest.raises(ImportError, match=r"needs the package qm9pack.*'ctfa\[qm9\]'"):
        load_qm9(data_home=tmp_path, source="package")


def test_another_file_under_that_name_is_refused(tmp_path, known):
    load_qm9(data_home=tmp_path)
    path = tmp_path / "qm9" / "qm9_tabular.npz"
    with np.load(path) as file:
        arrays = dict(file)
    np.savez(path, **arrays | {"Y": arrays["Y"] + 1})
    with pytest.raises(OSError, match="is not the file that this loader knows"):
        load_qm9(data_home=tmp_path)


def test_an_unknown_source_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"source='web' is not known.*'auto', 'file', 'package'"):
        load_qm9(data_home=tmp_path, source="web")


def test_the_set_is_listed_and_present_once_it_is_kept(tmp_path, known):
    def line():
        return next(line for line in list_datasets(tmp_path) if line.name == "qm9")

    assert line().loader == "load_qm9()"
    assert not line().present
    load_qm9(data_home=tmp_path)
    assert line().present


def real_qm9(**options):
    """The table, where CTFA_DATA names a folder that holds it."""
    if "CTFA_DATA" not in os.environ:
        pytest.skip("CTFA_DATA names no folder")
    try:
        return load_qm9(source="file", **options)
    except FileNotFoundError:
        pytest.skip("CTFA_DATA does not hold qm9/qm9_tabular.npz")


def rank_with_constant(X):
    table = np.column_stack([X, np.ones(len(X))])
    table /= np.linalg.norm(table, axis=0)
    values = np.linalg.eigvalsh(table.T @ table)
    # Squares of singular values: those of single precision are 1e-14 and less, the others 1e-6.
    return int((values > 1e-10 * values[-1]).sum())


@pytest.mark.data
def test_the_table_is_what_its_description_says():
    bunch = real_qm9()
    X = dict(zip(bunch.feature_names, bunch.data.T, strict=True))
    Y = dict(zip(bunch.target_names, bunch.target.T, strict=True))
    assert bunch.data.shape == (130_831, 20)
    assert bunch.target.shape == (130_831, 19)
    assert bunch.molecule[[0, -1]].tolist() == [1, 133_885]
    np.testing.assert_array_equal(X["mean_numH"], X["frac_H"])
    for names in (FEATURES[:5], ("frac_H", *(f"frac_{name}" for name in HYBRIDISATIONS))):
        np.testing.assert_allclose(sum(X[name] for name in names), 1, atol=1e-6)
    np.testing.assert_allclose(sum(X[f"bond_{name}"] for name in BOND_TYPES), 1, atol=1e-6)
    assert np.abs(Y["gap"] - (Y["lumo"] - Y["homo"])).max() < 1.01e-4 * HARTREE
    energies = np.array([Y[name] for name in ATOMS_ALONE])
    assert np.ptp(energies, axis=0).max() < 1.6
    assert energies.std(axis=1) == pytest.approx([1086] * 4, abs=1)
    assert np.corrcoef([Y[f"{name}_atom"] for name in ATOMS_ALONE]).min() > 0.9997
    assert (Y["A"] == 0).sum() == 9
    assert np.sort(Y["A"])[-3:] == pytest.approx([800, 232_664, 619_868], abs=1)
    assert rank_with_constant(bunch.data) == 16
    assert rank_with_constant(bunch.data[:, [*range(18), FEATURES.index("mean_Z")]]) == 14


def test_rdkit_sees_the_molecules_as_we_do():
    pytest.importorskip("rdkit")
    graph_of = _qm9._graph_reader()
    for smiles, graph in GRAPHS.items():
        assert features_of(graph_of(smiles)) == pytest.approx(features_of(graph)), smiles


def test_rdkit_refuses_what_is_no_molecule():
    rdkit = pytest.importorskip("rdkit")
    rdkit.RDLogger.DisableLog("rdApp.error")
    with pytest.raises(ValueError, match="RDKit cannot read it"):
        _qm9._graph_reader()("C(C")


@pytest.mark.data
def test_the_package_gives_the_table_of_the_file():
    pytest.importorskip("rdkit")
    folder = _qm9.package_folder()
    if folder is None:
        pytest.skip("qm9pack is not installed")
    bunch = real_qm9()
    n_molecules = 3000
    table = table_from_package(folder, n_molecules=n_molecules)
    np.testing.assert_array_equal(table.molecule, bunch.molecule[:n_molecules])
    np.testing.assert_array_equal(table.X.astype(float), bunch.data[:n_molecules])
    np.testing.assert_allclose(table.Y, bunch.target[:n_molecules], rtol=0, atol=1e-10)
