"""Files of earlier schemas load, and answer as they did when they were written."""

import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, Ridge

from ctfa import CTFARegressor, FeatureAggregator, TargetAggregator
from ctfa.datasets import make_paper_synthetic
from ctfa.persistence import load, save
from ctfa.persistence._file import from_stream, to_bytes

FOLDER = Path(__file__).parents[1] / "old_files"
ANSWERS = json.loads((FOLDER / "answers.json").read_text(encoding="utf-8"))


def assert_answers(model, expected):
    """Assert the predictions and reasons that the version which wrote the file gave.

    The head that draws members towards their own models was called "shrink" then.
    """
    rows = np.array(expected["rows"])
    options = {name: np.array(value) for name, value in expected["options"].items()}
    predicted = np.asarray(model.predict(rows, **options))
    np.testing.assert_allclose(predicted, expected["predicted"], rtol=1e-12, atol=1e-12)
    for target, why in expected["why"].items():
        assert str(model.why(int(target))) == why.replace("head='shrink'", "head='levels'")


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


def as_written(model, schema, change):
    """The file of a model with what ``change`` makes of the class and fields of each object."""
    with zipfile.ZipFile(io.BytesIO(to_bytes(model))) as file:
        tree, arrays = json.loads(file.read("model.json")), file.read("arrays.npz")
    tree["schema"] = schema
    nodes = [tree["model"]]
    while nodes:
        node = nodes.pop()
        nodes += node.values() if isinstance(node, dict) else node if isinstance(node, list) else []
        made = node.get("object", {}) if isinstance(node, dict) else {}
        change(made.get("class"), made.get("state", {}))
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        file.writestr("model.json", json.dumps(tree))
        file.writestr("arrays.npz", arrays)
    return stream.getvalue()


def of_the_second_schema(model, solver):
    """The file of a model as it was written when ``solver`` said what judges merges."""

    def change(name, state):
        if name in ("TargetAggregator", "FeatureAggregator"):
            state["solver"] = solver
        if name == "TargetAggregator":
            del state["regressor"]
        if state.get("head") == "levels":
            state["head"] = "shrink"

    return as_written(model, 2, change)


def of_the_third_schema(model):
    """The file of a model as it was written when confounds were called a baseline."""
    now = ("confounds_means_", "confounds_slopes_", "input_confounds")

    def change(name, state):
        for field in now:
            if field in state:
                state[field.replace("confounds", "baseline")] = state.pop(field)

    return as_written(model, 3, change)


def test_confounds_of_the_third_schema_have_the_name_of_now():
    X, Y = make_paper_synthetic(n_samples=120, n_features=8, n_targets=6, random_state=0)
    season = np.sin(np.arange(120.0))[:, None]
    model = CTFARegressor().fit(X, Y, confounds=season)
    old = of_the_third_schema(model)
    with zipfile.ZipFile(io.BytesIO(old)) as file:
        assert "confounds" not in file.read("model.json").decode()
    loaded = from_stream(io.BytesIO(old))
    rows = {"X": X, "confounds": season}
    np.testing.assert_array_equal(loaded.predict(**rows), model.predict(**rows))
    assert str(loaded.why(0)) == str(model.why(0))


@pytest.mark.parametrize("head", ["mean", "levels"])
@pytest.mark.parametrize(("solver", "judge"), [("ols", LinearRegression), ("ridge", Ridge)])
def test_what_judged_merges_and_drew_members_home_has_the_names_of_now(head, solver, judge):
    X, Y = make_paper_synthetic(n_samples=120, n_features=8, n_targets=6, random_state=0)
    phases = TargetAggregator(max_loss=2.0), FeatureAggregator(max_loss=0.5)
    model = CTFARegressor(Ridge(), targets=phases[0], features=phases[1], head=head).fit(X, Y)
    loaded = from_stream(io.BytesIO(of_the_second_schema(model, solver)))
    assert loaded.head == head
    for aggregator in (loaded.targets, loaded.targets_):
        assert type(aggregator.regressor) is judge
    for aggregator in (loaded, loaded.targets, loaded.features, *loaded.features_):
        assert not hasattr(aggregator, "solver")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    for target in range(6):
        assert str(loaded.why(target)) == str(model.why(target))
    loaded.fit(X, Y)


@pytest.mark.parametrize("name", ["default", "confounds", "pieces"])
def test_a_file_of_the_first_schema_without_a_regressor_is_of_least_squares(name):
    model = load(FOLDER / f"{name}.ctfa")
    assert (type(model.regressor), model.head) == (LinearRegression, "mean")
    assert {type(regressor) for regressor in model.regressors_} == {LinearRegression}


@pytest.mark.parametrize("regressor", [None, LinearRegression()])
def test_models_of_now_keep_the_regressor_that_they_were_given(regressor):
    model = CTFARegressor(regressor, head="mean")
    assert repr(from_stream(io.BytesIO(to_bytes(model)))) == repr(model)
