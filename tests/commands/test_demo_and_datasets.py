"""Generators, the demo and its command."""

import csv
import json
import subprocess
import sys

import numpy as np
import pytest

from ctfa import cli
from ctfa.datasets import make_gauges, make_paper_synthetic
from ctfa.labelled import read
from real_data import real


def test_the_synthetic_setting_is_the_paper_s():
    X, Y = make_paper_synthetic(4000, 6, 200, noise=2.0, random_state=0)
    np.testing.assert_allclose(X.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(X.std(axis=0), 1.0)
    coefficients, residual = np.linalg.lstsq(X, Y, rcond=None)[:2]
    positive = coefficients.mean(axis=0) > 0
    assert 70 < positive.sum() < 130
    assert np.abs(coefficients).min() > 0.35
    assert np.abs(coefficients).max() < 1.15
    assert ((coefficients > 0) == positive).all()
    assert np.sqrt(residual.mean() / 4000) == pytest.approx(2.0, rel=0.02)
    # 0.3 of an earlier column in 0.7 of noise of its own: the second column has but one to choose.
    assert np.corrcoef(X[:, 0], X[:, 1])[0, 1] == pytest.approx(0.3 / np.hypot(0.3, 0.7), abs=0.05)


@pytest.mark.parametrize("make", [make_gauges, make_paper_synthetic])
def test_generators_repeat_with_a_seed_and_differ_without(make):
    def numbers(seed):
        made = make(random_state=seed)
        return made.target if hasattr(made, "target") else made[1]

    assert (numbers(1) == numbers(1)).all()
    assert (numbers(1) != numbers(2)).any()


def test_the_demo_mixes_no_regions_and_writes_its_result(tmp_path, capsys):
    folder = tmp_path / "new" / "result"
    assert cli.main(["demo", "-o", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert "Phase I: 12 gauges -> " in printed
    assert "mean(rain_sep, rain_oct, rain_nov)" in printed
    assert "160 basins on a map" in printed
    assert "River flow of 160 basins" in (folder / "report.html").read_text()
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["mse_grouped"] < summary["mse_single_task"]
    with (folder / "targets.csv").open() as file:
        rows = list(csv.DictReader(file))
    region = make_gauges(random_state=0).region
    groups = {row["group"] for row in rows}
    assert 3 <= len(groups) <= 6
    assert len({(row["group"], name) for row, name in zip(rows, region, strict=True)}) == len(
        groups
    )
    assert np.mean([float(row["mse_grouped"]) for row in rows]) == pytest.approx(
        summary["mse_grouped"]
    )
    assert sorted(path.name for path in folder.iterdir()) == [
        "basins.gpkg",
        "basins.nc",
        "features.csv",
        "merges.csv",
        "report.html",
        "summary.json",
        "targets.csv",
    ]
    assert [path.name for path in folder.parent.iterdir()] == ["result"], "a draft was left behind"


def test_a_folder_that_cannot_be_written_is_one_sentence_and_exit_code_1(tmp_path, capsys):
    (tmp_path / "file").write_text("in the way")
    assert cli.main(["demo", "-o", str(tmp_path / "file")]) == 1
    assert "cannot write to" in capsys.readouterr().err
    assert (tmp_path / "file").read_text() == "in the way"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.data
def test_sets_of_places_are_written_to_files_for_a_fit(tmp_path, capsys):
    real("cru_iberia")
    assert cli.main(["datasets", "cru_iberia", "--export", str(tmp_path / "iberia.nc")]) == 0
    assert "lat 16, lon 26" in capsys.readouterr().out
    iberia = read(tmp_path / "iberia.nc")
    assert iberia.precipitation.dims == ("time", "lat", "lon")
    assert cli.main(["datasets", "sarcos", "--export", str(tmp_path / "sarcos.nc")]) == 1
    assert "does not have places with their own series" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["demo", "--seed", "x"], ["nothing"]])
def test_a_wrong_command_explains_itself(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)
    assert stop.value.code == 2
    assert "usage: ctfa" in capsys.readouterr().err


def test_the_module_runs_as_a_program():
    done = subprocess.run(
        [sys.executable, "-m", "ctfa", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("ctfa 0.")
