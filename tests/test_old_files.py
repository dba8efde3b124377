"""Files of schema 1 load, and answer as they did when they were written."""

import json
from pathlib import Path

import numpy as np
import pytest

from ctfa.persistence import load, save

FOLDER = Path(__file__).parent / "old_files"
ANSWERS = json.loads((FOLDER / "answers.json").read_text(encoding="utf-8"))


def assert_answers(model, expected):
    """Assert the predictions and reasons that the version which wrote the file gave."""
    rows = np.array(expected["rows"])
    options = {name: np.array(value) for name, value in expected["options"].items()}
    predicted = np.asarray(model.predict(rows, **options))
    np.testing.assert_allclose(predicted, expected["predicted"], rtol=1e-12, atol=1e-12)
    assert {target: str(model.why(int(target))) for target in expected["why"]} == expected["why"]


@pytest.mark.parametrize("name", ANSWERS)
def test_a_file_of_the_first_schema_predicts_and_explains_as_it_did(name):
    assert_answers(load(FOLDER / f"{name}.ctfa"), ANSWERS[name])


@pytest.mark.parametrize("name", ANSWERS)
def test_a_model_of_the_first_schema_is_saved_in_the_next(name, tmp_path):
    save(load(FOLDER / f"{name}.ctfa"), tmp_path / "model.ctfa")
    assert_answers(load(tmp_path / "model.ctfa"), ANSWERS[name])


def test_a_model_in_pieces_goes_on_from_a_file_of_the_first_schema():
    model = load(FOLDER / "pieces.ctfa")
    rng = np.random.default_rng(0)
    model.partial_fit(rng.normal(size=(20, 8)), rng.normal(size=(20, 12)))
    assert model.predict(rng.normal(size=(2, 8))).shape == (2, 12)
