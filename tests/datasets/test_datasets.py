"""Loaders of real data: forms, names and facts; and their words where the data are not there."""

import os
import sys
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ctfa import cli, datasets
from ctfa.datasets._catalogue import MEANING, read_records, records
from ctfa.datasets._loaders import MULAN, read_arff
from ctfa.datasets._qm9 import TARGETS, UNITS

RECORDS = records()
SHARED = {
    "sarcos": datasets.load_sarcos,
    "tecator": datasets.load_tecator,
    **{name: partial(datasets.load_mulan, name) for name in MULAN},
    # Where qm9pack is installed, it would be computed.
    "qm9": partial(datasets.load_qm9, source="file"),
}
OWN_ROWS = {
    "school": datasets.load_school,
    "parkinson": datasets.load_parkinson,
    "computer": datasets.load_computer,
}


def without_warning(**options):
    """The health of the vegetation of the Po; its warning is asked for in a test of its own."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "po_vhi: ", UserWarning)
        return datasets.load_po_vhi(**options)


OWN_INPUTS = {
    "po_basins": datasets.load_po_basins,
    "po_vhi": without_warning,
    "cru_iberia": datasets.load_cru_iberia,
    "french_basins": datasets.load_french_basins,
    "traffic": datasets.load_traffic,
}
LOADERS = SHARED | OWN_ROWS | OWN_INPUTS | {"climate_indices": datasets.load_climate_indices}
#: Samples, targets (or tasks), features (slots); of Mulan as its authors state them, but for
#: nominal attributes.
SHAPES = {
    "sarcos": (4449, 7, 21),
    "tecator": (215, 3, 100),
    "andro": (49, 6, 30),
    "atp1d": (337, 6, 411),
    "atp7d": (296, 6, 411),
    "edm": (154, 2, 16),
    "enb": (768, 2, 8),
    "jura": (359, 3, 15),
    "oes10": (403, 16, 298),
    "oes97": (334, 16, 263),
    "osales": (639, 12, 401),
    "scpf": (1137, 3, 23),
    "sf1": (323, 3, 23),
    "sf2": (1066, 3, 23),
    "slump": (103, 3, 7),
    "wq": (1060, 14, 16),
    "qm9": (130831, 19, 20),
    "school": (15362, 139, 27),
    "parkinson": (5875, 42, 19),
    "computer": (3800, 190, 13),
    "po_basins": (1038, 10, 29),
    "po_vhi": (1033, 10, 2),
    "cru_iberia": (358, 330, 13),
    "french_basins": (1031, 19, 12),
    "traffic": (669, 207, 10),
}


def loaded(name, **options):
    """What a loader gives, where the folder of data has it."""
    if not os.environ.get("CTFA_DATA") or not RECORDS[name].present():
        pytest.skip(f"CTFA_DATA names no folder with the data set {name}")
    return LOADERS[name](download_if_missing=False, **options)


# ----------------------------------------------------------------------- without any file


def test_every_set_has_one_loader_one_kind_and_its_shape():
    assert set(RECORDS) >= set(LOADERS)
    for name in SHAPES:
        kinds = {"shared": SHARED, "own rows": OWN_ROWS, "own inputs": OWN_INPUTS}
        assert name in kinds[RECORDS[name].kind]
        assert RECORDS[name].shape.startswith(f"{SHAPES[name][0]} samples")


TOLD = """
[families.rivers]
loader = "load_{name}()"
kind = "shared"
licence = "None stated."
redistribution = "Not stated."
citation = "Nobody (1999)."
[sets.rhine]
family = "rivers"
title = "Rhine"
shape = "3 samples."
about = '''
Levels of
the {title}.
'''
source = "A bridge."
[[sets.rhine.files]]
path = "rhine/levels.npz"
sha256 = "00"
arrays = ["x", "y"]
"""


def test_a_record_is_read_with_its_family_its_lines_joined_and_its_names_filled_in():
    (rhine,) = read_records(TOLD).values()
    assert (rhine.name, rhine.loader, rhine.kind) == ("rhine", "load_rhine()", "shared")
    assert rhine.about == "Levels of the Rhine."
    assert (rhine.facts, rhine.leak) == ("", "")
    assert rhine.files[0].arrays == ("x", "y")
    assert rhine.files[0].address is None


@pytest.mark.parametrize(
    ("line", "instead", "error", "words"),
    [
        ('title = "Rhine"', "", KeyError, "title"),
        ('shape = "3 samples."', "", TypeError, "missing .* 'shape'"),
        ('shape = "3 samples."', 'shape = "3"\nlicense = "MIT"', TypeError, "'license'"),
        ('sha256 = "00"', "", TypeError, "missing .* 'sha256'"),
        ('sha256 = "00"', 'sha256 = "00"\nmd5 = "1"', TypeError, "'md5'"),
        ('family = "rivers"', 'family = "lakes"', KeyError, "lakes"),
    ],
)
def test_a_field_of_a_record_that_is_unknown_or_missing_is_refused(line, instead, error, words):
    with pytest.raises(error, match=words):
        read_records(TOLD.replace(line, instead))


def test_the_records_have_known_kinds_and_tell_a_file_of_two_sets_alike():
    assert {record.kind for record in RECORDS.values()} == set(MEANING)
    files = {file for record in RECORDS.values() for file in record.files}
    assert len({file.path for file in files}) == len(files)


def test_the_record_of_molecules_names_every_target_with_its_unit():
    named = ", ".join(f"{name} [{unit}]" for name, unit in zip(TARGETS, UNITS, strict=True))
    assert f"Targets: {named}. They are" in RECORDS["qm9"].about


@pytest.mark.parametrize("name", LOADERS)
def test_without_files_every_loader_says_which_where_and_how(name, monkeypatch, tmp_path):
    monkeypatch.setenv("CTFA_DATA", str(tmp_path))
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(FileNotFoundError) as error:
        LOADERS[name]()
    record = RECORDS[name]
    for part in (record.files[0].path, tmp_path, record.source, "data_home=", "CTFA_DATA"):
        assert str(part) in str(error.value)
    assert ("pip install 'ctfa[datasets]'" in str(error.value)) == bool(record.files[0].address)


@pytest.mark.parametrize("name", RECORDS)
def test_a_description_answers_what_a_user_asks(name):
    text = datasets.describe_dataset(name)
    headings = ["What it is", "Shape", "Kind", "Where to get it", "Licence", "Redistribution"]
    for heading in [*headings, "Citation"]:
        assert f"\n{heading}\n{'-' * len(heading)}\n" in text
    assert all(file.path in text for file in RECORDS[name].files)
    assert max(map(len, text.splitlines())) <= 88


def test_files_that_are_made_from_others_say_which_arrays_they_hold():
    for record in RECORDS.values():
        for file in record.files:
            assert (file.address is None) or not file.arrays
            assert all(name in f"{record.source} {RECORDS['climate_indices'].source}"
                       for name in file.arrays)  # fmt: skip
            assert len(file.sha256) == 64


def test_the_page_on_data_has_a_line_for_every_set():
    page = Path(__file__).parents[2] / "docs" / "datasets.md"
    lines = page.read_text(encoding="utf-8").splitlines()
    for record in RECORDS.values():
        (line,) = [line for line in lines if line.startswith(f"| {record.name} |")]
        for part in (f"`{record.loader}`", record.kind, record.shape.rstrip(".")):
            assert f"| {part} |" in line


def test_the_list_says_what_is_present(tmp_path):
    lines = datasets.list_datasets(tmp_path)
    assert [line.name for line in lines] == list(RECORDS)
    assert not any(line.present for line in lines)
    (tmp_path / "school").mkdir()
    (tmp_path / "school" / "school.mat.gz").write_bytes(b"not looked into")
    assert [line.name for line in datasets.list_datasets(tmp_path) if line.present] == ["school"]


def test_the_command_lists_and_describes(tmp_path, capsys):
    (tmp_path / "tecator").mkdir()
    (tmp_path / "tecator" / "tecator.npz").write_bytes(b"not looked into")
    assert cli.main(["datasets", "--data-home", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    here = {line.split()[0]: line for line in printed.splitlines() if line}
    assert "load_tecator()" in here["tecator"]
    assert " yes " in here["tecator"]
    assert " no " in here["school"]
    assert f"1 of {len(RECORDS)} are in {tmp_path}" in printed
    assert cli.main(["datasets", "school"]) == 0
    assert capsys.readouterr().out.strip() == datasets.describe_dataset("school").strip()
    assert cli.main(["datasets", "wine"]) == 1
    assert "give one of sarcos" in capsys.readouterr().err


def test_an_unknown_set_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match="no data set 'wine': give one of sarcos"):
        datasets.describe_dataset("wine")
    with pytest.raises(ValueError, match="name='wine' is not known; use one of 'andro'"):
        datasets.load_mulan("wine")


@pytest.mark.parametrize(
    ("load", "options", "error", "words"),
    [
        (datasets.load_school, {"n_schools": 140}, ValueError, "from 1 to 139"),
        (datasets.load_school, {"n_schools": 2.0}, TypeError, "not a whole number"),
        (datasets.load_cru_iberia, {"n_lags": -1}, ValueError, "from 0 to 120"),
        (datasets.load_traffic, {"ahead": 0}, ValueError, "ahead=0"),
        (datasets.load_traffic, {"every": True}, TypeError, "every=True"),
        (datasets.load_french_basins, {"n_lags": 91}, ValueError, "from 1 to 90"),
        (datasets.load_po_basins, {"values": "raw"}, ValueError, "'anomalies', 'normal'"),
        (partial(datasets.load_mulan, "wq"), {"missing": "drop"}, ValueError, "'keep', 'median'"),
    ],
)
def test_bad_arguments_are_refused_before_a_file_is_looked_for(load, options, error, words):
    with pytest.raises(error, match=words):
        load(**options, data_home="nowhere", download_if_missing=False)


def test_an_arff_file_is_read_with_its_names_levels_and_gaps():
    text = """% a comment
@RELATION small
@attribute "'a b'" NUMERIC
@ATTRIBUTE kind {x, 'y', z}
@attribute y real
@DATA
1.5, x, 2
% another
?, z, ?
3,?,4
"""
    a, kind, y = read_arff(text.replace("'y'", "y"))
    assert [list(a), list(kind), list(y)] == [["a b"], ["kind=y", "kind=z"], ["y"]]
    np.testing.assert_array_equal(a["a b"], [1.5, np.nan, 3.0])
    np.testing.assert_array_equal(y["y"], [2.0, np.nan, 4.0])
    np.testing.assert_array_equal(kind["kind=z"], [0.0, 1.0, np.nan])


# ----------------------------------------------------------------------------- every set


@pytest.mark.more
@pytest.mark.data
@pytest.mark.parametrize("name", SHARED)
def test_targets_that_share_their_inputs(name):
    n_samples, n_targets, n_features = SHAPES[name]
    bunch = loaded(name)
    assert bunch.kind == "shared"
    assert bunch.data.shape == (n_samples, n_features)
    assert bunch.target.shape == (n_samples, n_targets)
    assert len(set(bunch.feature_names)) == n_features
    assert len(set(bunch.target_names)) == n_targets
    assert np.isfinite(bunch.target).all()
    assert datasets.describe_dataset(name) == bunch.DESCR
    assert os.path.exists(bunch.filename)
    X, Y = loaded(name, return_X_y=True, as_frame=True)
    assert (list(X), list(Y)) == (bunch.feature_names, bunch.target_names)
    np.testing.assert_array_equal(X, bunch.data)
    np.testing.assert_array_equal(Y, bunch.target)


@pytest.mark.data
@pytest.mark.parametrize("name", OWN_ROWS)
def test_tasks_with_rows_of_their_own(name):
    n_samples, n_tasks, n_features = SHAPES[name]
    bunch = loaded(name)
    assert bunch.kind == "own rows"
    assert bunch.data.shape == (n_samples, n_features)
    assert bunch.target.shape == bunch.tasks.shape == (n_samples,)
    assert np.unique(bunch.tasks).size == n_tasks
    assert len(set(bunch.feature_names)) == n_features
    assert np.isfinite(bunch.data).all()
    assert np.isfinite(bunch.target).all()
    X, y, tasks = loaded(name, return_X_y=True, as_frame=True)
    assert isinstance(tasks, pd.Series)
    assert [y.name] == bunch.target_names
    assert X.index.equals(tasks.index)
    np.testing.assert_array_equal(tasks, bunch.tasks)


@pytest.mark.more
@pytest.mark.data
@pytest.mark.parametrize("name", OWN_INPUTS)
def test_targets_with_inputs_of_their_own(name):
    bunch = loaded(name)
    assert bunch.kind == "own inputs"
    inputs = bunch.inputs  # built anew at each call where columns are shared or missing
    assert inputs.shape == SHAPES[name]
    assert bunch.target.shape == SHAPES[name][:2]
    assert (
        bunch.layout.shape
        == SHAPES[name][1:]
        == (
            len(bunch.target_names),
            len(bunch.slot_names),
        )
    )
    np.testing.assert_array_equal(np.unique(bunch.layout[bunch.layout >= 0]),
                                  np.arange(bunch.data.shape[1]))  # fmt: skip
    for target, slot in np.ndindex(bunch.layout.shape):
        column = bunch.layout[target, slot]
        if column < 0:
            assert np.isnan(inputs[:, target, slot]).all()
        elif (target + slot) % 7 == 0:
            np.testing.assert_array_equal(bunch.data[:, column], inputs[:, target, slot])
            assert bunch.feature_names[column].endswith(bunch.slot_names[slot])
    X, Y, layout = loaded(name, return_X_y=True, as_frame=True)
    assert list(X) == bunch.feature_names
    assert X.index.name == "time"
    assert X.index.equals(Y.index)
    assert X.index.is_monotonic_increasing
    np.testing.assert_array_equal(layout, bunch.layout)
    np.testing.assert_array_equal(loaded(name, as_frame=True).inputs, inputs)
    if "connectivity" in bunch:
        graph = bunch.connectivity.toarray()
        assert (graph == graph.T).all()
        assert not graph.diagonal().any()
        assert (graph.sum(axis=1) > 0).mean() > 0.95


# --------------------------------------------------------------------------------- facts


@pytest.mark.data
def test_the_paper_s_27_schools_are_the_first_and_have_3073_pupils():
    few, all_schools = loaded("school", n_schools=27), loaded("school")
    assert few.data.shape == (3073, 27)
    np.testing.assert_array_equal(few.data, all_schools.data[:3073])
    assert np.unique(few.tasks).tolist() == list(range(27))
    sizes = np.bincount(all_schools.tasks)
    assert (sizes.min(), sizes.max()) == (22, 251)
    assert (all_schools.target.min(), all_schools.target.max()) == (1.0, 70.0)


@pytest.mark.data
def test_blocks_of_the_features_of_schools_are_zeros_and_ones_that_add_up():
    bunch = loaded("school")
    for block in ("year_", "gender_", "ethnic_group_", "school_gender_", "school_denomination_"):
        columns = [i for i, name in enumerate(bunch.feature_names) if name.startswith(block)]
        np.testing.assert_array_equal(bunch.data[:, columns].sum(axis=1), 1.0)
    table = np.column_stack((bunch.data, np.ones(len(bunch.data))))
    assert np.linalg.matrix_rank(table) == 23


@pytest.mark.data
def test_missing_entries_are_kept_or_filled_with_medians():
    for name, count in (("osales", 10012), ("scpf", 9255)):
        kept, filled = loaded(name).data, loaded(name, missing="median").data
        gaps = np.isnan(kept)
        assert gaps.sum() == count
        np.testing.assert_array_equal(filled[~gaps], kept[~gaps])
        medians = np.broadcast_to(np.nanmedian(kept, axis=0), kept.shape)
        np.testing.assert_array_equal(filled[gaps], medians[gaps])


@pytest.mark.data
def test_po_basins_differ_in_what_they_have():
    bunch = loaded("po_basins")
    has = {
        kind: {bunch.target_names[i] for i in np.flatnonzero((bunch.layout[:, slots] >= 0).any(1))}
        for kind in ("precipitation", "temperature", "snow_depth", "lake_level", "upper_lake")
        for slots in [[k for k, name in enumerate(bunch.slot_names) if name.startswith(kind)]]
    }
    assert len(has["precipitation"]) == len(has["temperature"]) == 10
    lowland = {"emiliani1", "emiliani2", "lambro"}
    assert has["snow_depth"] == set(bunch.target_names) - lowland
    assert has["lake_level"] == {"adda", "oglio", "ticino"}
    assert has["upper_lake"] == {"ticino"}
    assert np.isnan(bunch.data).sum() == 15  # three weeks of five means of snow
    np.testing.assert_array_equal(np.diff(bunch.time), np.timedelta64(7, "D"))


def test_po_basins_name_their_licence_and_what_leaks():
    text = " ".join(datasets.describe_dataset("po_basins").split())
    assert "Apache-2.0" in text
    assert "climateintelligence/Droughts" in text
    for words in (text, " ".join(datasets.load_po_basins.__doc__.split())):
        assert "over all years" in words
        assert "interpolated to weeks" in words


@pytest.mark.data
def test_po_basins_leak_as_they_say():
    anomalies, index = loaded("po_basins").target, loaded("po_basins", values="normal").target
    bends = np.abs(np.diff(index, 2, axis=0))
    assert np.mean(bends < 1e-9) > 0.15  # on straight lines between what was seen
    weeks = np.array([date.isocalendar()[1] for date in loaded("po_basins").time.astype(object)])
    means = [anomalies[weeks == week].mean(axis=0) for week in range(1, 53)]
    first = [anomalies[:520][weeks[:520] == week].mean(axis=0) for week in range(1, 53)]
    assert np.abs(means).mean() < 0.25 * np.abs(first).mean()


@pytest.mark.data
def test_po_basins_have_values_beside_anomalies():
    anomalies, normal = loaded("po_basins"), loaded("po_basins", values="normal")
    assert normal.target_names == anomalies.target_names
    assert 0.0 < normal.target.min() < normal.target.max() < 1.0
    assert np.abs(anomalies.target.mean()) < 0.05
    adda = normal.target_names.index("adda")
    lacking = {normal.slot_names[k] for k in np.flatnonzero(normal.layout[adda] < 0)}
    assert {"precipitation_1w", "temperature_1w"} <= lacking
    assert loaded("po_basins", lakes=False).inputs.shape == (1038, 10, 17)


@pytest.mark.data
def test_po_vhi_warns_of_what_its_figures_hang_on():
    loaded("po_vhi")  # or skip
    with pytest.warns(UserWarning, match="Emiliani2 and Garda_Mincio are the same series"):
        bunch = datasets.load_po_vhi()
    later = bunch.time >= np.datetime64("2010-01-06")
    one, other = (bunch.target_names.index(name) for name in ("Emiliani2", "Garda_Mincio"))
    np.testing.assert_array_equal(bunch.target[later, one], bunch.target[later, other])
    with pytest.warns(UserWarning, match="po_vhi: ") as said:
        nine = datasets.load_po_vhi(distinct=True)
    assert "Garda_Mincio" not in nine.target_names
    assert nine.inputs.shape == (1033, 9, 2)
    for words in ("rebuilt", "Dora", "autocorrelated"):
        assert words in str(said[0].message)
    assert "Garda" not in str(said[0].message)
    assert np.unique(bunch.split, return_counts=True)[1].tolist() == [121, 45, 228, 411, 228]
    assert len(bunch.authors_scores["test"]) == 1405
    assert (loaded("po_vhi", statistic="median").target != bunch.target).any()


@pytest.mark.data
def test_indices_are_joined_to_the_months_of_the_rain():
    iberia = loaded("cru_iberia", as_frame=True, n_lags=1)
    indices = loaded("climate_indices", as_frame=True).data
    assert len(iberia.data) == 359
    for name in ("nao", "nino34"):
        column = iberia.data.columns.get_loc(name)
        assert (iberia.layout[:, iberia.slot_names.index(name)] == column).all()
        np.testing.assert_array_equal(iberia.data[name], indices.loc[iberia.data.index, name])
    assert "nao" not in loaded("cru_iberia", indices=False).slot_names


@pytest.mark.data
def test_lags_of_rain_are_the_rain_of_months_before():
    iberia = loaded("cru_iberia", n_lags=2)
    rain = iberia.inputs[:, :, iberia.slot_names.index("rain_lag_2")]
    np.testing.assert_array_equal(rain[2:], iberia.target[:-2])
    assert iberia.time[0] == np.datetime64("1981-03")
    assert iberia.lat.shape == iberia.lon.shape == (330,)


@pytest.mark.data
def test_climate_indices_have_the_months_that_they_are_known_for():
    frame = loaded("climate_indices", as_frame=True).data
    assert frame.notna().sum().to_dict() == {"nao": 763, "nino34": 1870}
    assert str(frame["nao"].first_valid_index().date()) == "1950-01-01"
    assert str(frame["nino34"].last_valid_index().date()) == "2011-11-01"


@pytest.mark.data
def test_sensors_are_asked_for_a_quarter_of_an_hour_ahead():
    roads = loaded("traffic", every=1, ahead=3, n_lags=2)
    assert roads.slot_names[:2] == ["speed_lag_3", "speed_lag_4"]
    np.testing.assert_array_equal(roads.inputs[3:, :, 0], roads.target[:-3])
    assert roads.time[1] - roads.time[0] == np.timedelta64(5, "m")


@pytest.mark.data
def test_french_rain_is_averaged_up_to_the_day_itself():
    daily = loaded("french_basins", every=1, n_lags=30)
    days = daily.inputs[:, :, :30].mean(axis=2)
    month = daily.inputs[:, :, daily.slot_names.index("rain_30d")]
    np.testing.assert_allclose(month, days, atol=1e-9)
    assert np.isnan(daily.target).any(axis=0).sum() == 9
