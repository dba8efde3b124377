"""What the documents show can be run."""

import csv
import re
from pathlib import Path

import numpy as np
import pytest

from ctfa_study.comparison import METHODS
from problems import make_problem

ROOT = Path(__file__).parents[2]
PROBLEM = make_problem("correlated", 0, n_samples=48, n_features=6, n_targets=7)


def blocks(name):
    """Python in a document, as one programme."""
    text = (ROOT / name).read_text(encoding="utf-8")
    return "\n".join(re.findall(r"^```python\n(.*?)^```", text, flags=re.M | re.S))


# Basins with gaps are predicted where their inputs are there, and the others are counted.
@pytest.mark.filterwarnings("ignore:.*predictions are NaN because inputs are missing")
@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        pytest.param("docs/guide.md", marks=pytest.mark.more),
        pytest.param("docs/baselines.md", marks=pytest.mark.more),
        pytest.param("docs/plots.md", marks=pytest.mark.more),
        pytest.param("docs/labelled.md", marks=pytest.mark.more),
        pytest.param("docs/streaming.md", marks=pytest.mark.more),
        pytest.param("docs/scaling.md", marks=pytest.mark.more),
    ],
)
def test_the_examples_run(name, capsys, monkeypatch, tmp_path):
    pytest.importorskip("pandas", reason="some examples show data frames")
    monkeypatch.chdir(tmp_path)  # some write files
    if name == "docs/scaling.md":
        pytest.importorskip("dask.array", reason="the example has data in chunks")
    if name == "docs/streaming.md":
        pytest.importorskip("pyarrow", reason="the example writes Parquet")
    if name in ("docs/baselines.md", "docs/labelled.md", "docs/plots.md"):
        pytest.importorskip("matplotlib", reason="the example draws")
        monkeypatch.setenv("MPLBACKEND", "Agg")
    # What a reader has of their own.
    given = {"X": PROBLEM.X, "Y": PROBLEM.Y, "neighbours": np.ones((7, 7)) - np.eye(7)}
    exec(compile(blocks(name), name, "exec"), given)
    assert capsys.readouterr().out


def test_every_command_that_the_documents_name_is_there():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.M))
    for document in ("README.md", "CHANGELOG.md", "PAPER.md", *map(str, ROOT.glob("docs/*.md"))):
        text = (ROOT / document).read_text(encoding="utf-8")
        assert set(re.findall(r"`make ([a-z-]+)", text)) <= targets, document


def test_the_table_of_rivals_is_that_of_the_stored_results():
    text = (ROOT / "docs" / "baselines.md").read_text(encoding="utf-8")
    lines = text[text.index("| method | School, 139 |") :].partition("\n\n")[0].splitlines()
    stored = []
    for folder in ("school", "school-27", "random/sarcos", "sarcos"):
        path = ROOT / "results" / "baselines" / folder / "nrmse.csv"
        with path.open(encoding="utf-8", newline="") as file:
            stored.append({row["method"]: float(row["mean"]) for row in csv.DictReader(file)})
    assert set().union(*stored) <= set(METHODS)
    for line in lines[2:]:
        name, *cells = (cell.strip(" `*") for cell in line.strip("|").split("|"))
        figures = [f"{table[name]:.4f}" if name in table else "not run" for table in stored]
        assert cells == figures, name
