"""PAPER.md names functions and tests that exist."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "PAPER.md").read_text()
NAMES = sorted(set(re.findall(r"`(ctfa(?:\.\w+)+)`", TEXT)))
TESTS = sorted(set(re.findall(r"`(test_\w+\.py)::(test_\w+)`", TEXT)))


@pytest.mark.parametrize("name", NAMES)
def test_every_function_named_in_the_paper_table_exists(name):
    parts = name.split(".")
    for split in range(len(parts), 0, -1):
        try:
            thing = importlib.import_module(".".join(parts[:split]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[split:]:
            thing = getattr(thing, attribute)
        return
    pytest.fail(f"{name} does not exist")


@pytest.mark.parametrize(("file", "test"), TESTS)
def test_every_test_named_in_the_paper_table_exists(file, test):
    (path,) = (ROOT / "tests").rglob(file)
    assert re.search(rf"^def {test}\(", path.read_text(), re.MULTILINE)


def test_the_table_covers_the_equations_of_the_main_text():
    for label in ("Eq. 1-2", "Eq. 3", "Eq. 4", "Eq. 5", "Eq. 6", "Eq. 7", "Algorithm 2"):
        assert label in TEXT
    assert len(NAMES) >= 20
    assert len(TESTS) >= 12
