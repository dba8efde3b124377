"""What the documents show can be run."""

import csv
import importlib
import inspect
import re
from pathlib import Path

import numpy as np
import pytest

from ctfa_study.comparison import METHODS
from problems import make_problem

ROOT = Path(__file__).parents[2]
#: Modules whose public names are documented in full.
DOCUMENTED = (
    "ctfa",
    "ctfa.datasets",
    "ctfa.labelled",
    "ctfa.persistence",
    "ctfa.pieces",
    "ctfa.plotting",
    "ctfa.report",
    "ctfa.testing",
    "ctfa.theory",
)
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


def public_names(module):
    """Classes and functions that a module offers, its own or those of another part of ctfa."""
    home = importlib.import_module(module)
    for name in getattr(home, "__all__", None) or vars(home):
        thing = getattr(home, name)
        ours = str(getattr(thing, "__module__", "")).startswith("ctfa")
        if (
            ours
            and not name.startswith("_")
            and (inspect.isclass(thing) or inspect.isroutine(thing))
        ):
            yield name, thing


def lacking(thing, *, example):
    """Sections that the docstring of a public class or function does not have."""
    text = inspect.getdoc(thing) or ""
    wanted = {"Examples"} if example else set()
    if inspect.isroutine(thing):
        signature = inspect.signature(thing)
        if set(signature.parameters) - {"self"}:
            wanted.add("Parameters")
        if signature.return_annotation not in (None, "None"):
            wanted.add("Returns")
    had = set(re.findall(r"^(\w+)\n-{3,}$", text, flags=re.M))
    return wanted - (had | {"Returns"} if "Yields" in had else had)


@pytest.mark.parametrize("module", DOCUMENTED)
def test_public_names_say_what_they_take_and_give_and_show_an_example(module):
    wrong = {}
    for name, thing in public_names(module):
        wrong[name] = lacking(thing, example=True)
        if not hasattr(thing, "get_params") and name != "BlockedKFold":
            continue
        for method, function in inspect.getmembers(thing, inspect.isfunction):
            if not method.startswith("_") and function.__module__.startswith("ctfa"):
                wrong[f"{name}.{method}"] = lacking(function, example=False)
    assert not {name: sections for name, sections in wrong.items() if sections}
