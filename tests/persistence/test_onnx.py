"""A model with linear regressors is one table of coefficients, also for other programs."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn import linear_model as linear
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import LinearSVR

import ctfa
from ctfa import (
    CTFARegressor,
    CTFARegressorCV,
    FeatureAggregator,
    MultiInputCTFARegressor,
    PooledCTFARegressor,
    TargetAggregator,
    nonlinctfa,
)
from ctfa.datasets import make_basins, make_paper_synthetic
from ctfa.estimators import collapsed
from ctfa.persistence import collapse, load, save, to_onnx
from problems import features_in_fours

X, Y = make_paper_synthetic(n_samples=120, n_features=10, n_targets=6, random_state=0)
X = X + 100.0  # a level that intercepts have to answer for
Y = Y * np.array([1.0, -1.0, 1.0, 1.0, -1.0, 30.0])
BASINS = make_basins(n_basins=12, n_samples=90, n_features=3, n_regions=3, random_state=0)
PARTLY = make_basins(
    n_basins=10, n_samples=90, n_features=3, n_regions=2, missing_slots=0.2, random_state=1
)
TASKS = np.repeat(["a", "b", "c"], 40)

SHARED = {
    "default": CTFARegressor(),
    "means alone": CTFARegressor(head="mean"),
    "averages of features": CTFARegressor(features=FeatureAggregator(max_loss=np.inf)),
    "least squares": CTFARegressor(linear.LinearRegression()),
    "ridge": CTFARegressor(Ridge()),
    "flipped": CTFARegressor(targets=TargetAggregator(flip=True)),
    "unmerged": CTFARegressor(targets="passthrough", features="passthrough"),
    "the paper's": nonlinctfa(epsilon_2=1e-2),
    "chosen": CTFARegressorCV(cv=3),
    "standardised": CTFARegressor(make_pipeline(StandardScaler(), Ridge())),
    "not centred": CTFARegressor(make_pipeline(StandardScaler(with_mean=False), Ridge())),
    "scaled twice": CTFARegressor(make_pipeline(MinMaxScaler(), MaxAbsScaler(), Ridge())),
    "robust": CTFARegressor(make_pipeline("passthrough", RobustScaler(), linear.HuberRegressor())),
    "lasso": CTFARegressor(linear.LassoCV(cv=3)),
    "consensus": CTFARegressor(linear.RANSACRegressor(random_state=0)),
    "support": CTFARegressor(
        make_pipeline(StandardScaler(), LinearSVR(random_state=0, max_iter=100_000))
    ),
    "no intercept": CTFARegressor(linear.LinearRegression(fit_intercept=False)),
}
OWN = {
    "means": MultiInputCTFARegressor(BASINS.layout),
    "shared coefficients": MultiInputCTFARegressor(BASINS.layout, aggregate="pool"),
    "shrunk": MultiInputCTFARegressor(BASINS.layout, head="levels"),
    "shrunk, shared": MultiInputCTFARegressor(BASINS.layout, aggregate="pool", head="levels"),
    "both phases": MultiInputCTFARegressor(BASINS.layout, features=FeatureAggregator()),
    "ridge": MultiInputCTFARegressor(BASINS.layout, Ridge()),
    "unmerged": MultiInputCTFARegressor(BASINS.layout, targets="passthrough"),
    "the paper's": nonlinctfa(layout=BASINS.layout),
}


def assert_linear(model, inputs):
    table = collapse(model)
    expected = np.asarray(model.predict(inputs)).reshape(len(inputs), -1)
    np.testing.assert_allclose(table.predict(inputs), expected, rtol=1e-9, atol=1e-9)
    return table


@pytest.mark.more
@pytest.mark.parametrize("name", SHARED)
def test_a_model_of_shared_inputs_is_a_table(name):
    table = assert_linear(clone(SHARED[name]).fit(X, Y), X)
    assert table.coef.shape == (6, 10)


def test_what_features_and_members_add_to_groups_is_in_the_table():
    inputs, targets = features_in_fours()
    model = CTFARegressor().fit(inputs, targets)
    assert model._deviations.group.any()
    assert model._deviations.own.any()
    table = assert_linear(model, inputs)
    np.testing.assert_allclose(table.coef, model.coef_)
    np.testing.assert_allclose(table.intercept, model.intercept_)


@pytest.mark.more
@pytest.mark.parametrize("name", OWN)
def test_a_model_of_own_inputs_is_a_table(name):
    model = clone(OWN[name]).fit(BASINS.data, BASINS.target)
    table = assert_linear(model, BASINS.data)
    if model.aggregate_ == "pool":  # a target has its own inputs alone
        others = np.setdiff1d(np.arange(BASINS.data.shape[1]), BASINS.layout[0])
        assert not table.coef[0, others].any()


@pytest.mark.parametrize("aggregate", ["mean", "pool"])
@pytest.mark.parametrize("head", ["mean", "levels"])
def test_slots_that_some_targets_lack_are_no_columns(aggregate, head):
    model = MultiInputCTFARegressor(PARTLY.layout, aggregate=aggregate, head=head)
    assert (PARTLY.layout < 0).any()
    assert_linear(model.fit(PARTLY.data, PARTLY.target), PARTLY.data)


def test_a_column_that_serves_many_targets_counts_for_each():
    layout = np.column_stack((np.zeros(12, dtype=int), BASINS.layout[:, 1:]))
    model = MultiInputCTFARegressor(layout).fit(BASINS.data, BASINS.target)
    assert_linear(model, BASINS.data)


@pytest.mark.parametrize("head", ["mean", "levels"])
def test_a_model_of_own_rows_is_a_table_of_tasks(head):
    model = PooledCTFARegressor(head=head, features=FeatureAggregator())
    model.fit(X, Y[:, 0], tasks=TASKS)
    table = collapse(model)
    assert table.target_names == ("a", "b", "c")
    for at, task in enumerate(table.target_names):
        expected = model.predict(X, tasks=[task] * len(X))
        np.testing.assert_allclose(table.predict(X)[:, at], expected, rtol=1e-9, atol=1e-9)


def test_names_are_those_of_the_data():
    inputs = pd.DataFrame(X, columns=[f"temperature {k}" for k in range(10)])
    targets = pd.DataFrame(Y, columns=list("abcdef"))
    table = assert_linear(CTFARegressor().fit(inputs, targets), inputs)
    assert table.feature_names[3] == "temperature 3"
    assert table.target_names == tuple("abcdef")


def test_one_target_is_a_table_of_one_row():
    assert assert_linear(CTFARegressor().fit(X, Y[:, 0]), X).coef.shape == (1, 10)


@pytest.mark.more
@pytest.mark.parametrize(
    ("regressor", "what"),
    [
        (RandomForestRegressor(2), "RandomForestRegressor"),
        (make_pipeline(PolynomialFeatures(2), Ridge()), "PolynomialFeatures"),
        (make_pipeline(MinMaxScaler(clip=True), Ridge()), "MinMaxScaler"),
        (linear.TweedieRegressor(power=0), "TweedieRegressor"),
    ],
)
def test_what_is_not_known_to_be_linear_is_refused(regressor, what):
    model = CTFARegressor(regressor).fit(X, Y)
    with pytest.raises(ValueError, match=rf"regressors_\[0\] has a {what}.*not known to be linear"):
        collapse(model)


class Clipped(Ridge):
    """A linear model in name."""

    def predict(self, X):
        return np.maximum(super().predict(X), 0.0)


def test_the_model_is_asked_whether_it_agrees():
    with pytest.raises(ValueError, match="something else than any table"):
        collapse(CTFARegressor(Clipped()).fit(X, Y))


def test_only_fitted_models_have_a_table():
    with pytest.raises(NotFittedError):
        collapse(CTFARegressor())
    with pytest.raises(TypeError, match="collapse was given a TargetAggregator"):
        collapse(TargetAggregator().fit(X, Y))


def test_a_model_with_confounds_has_no_table():
    model = CTFARegressor().fit(X, Y, confounds=np.arange(120.0)[:, None])
    with pytest.raises(ValueError, match="fitted with confounds"):
        collapse(model)


def test_a_table_that_would_be_too_large_is_refused(monkeypatch):
    monkeypatch.setattr(collapsed, "LARGEST", 59)
    with pytest.raises(ValueError, match=r"6 targets of 10 columns .* 60 coefficients"):
        collapse(CTFARegressor().fit(X, Y))


@pytest.mark.parametrize(
    ("model", "data"),
    [
        (SHARED["default"], (X, Y)),
        (SHARED["default"], features_in_fours()),
        (SHARED["least squares"], (X, Y)),
        (SHARED["flipped"], (X, Y)),
        (OWN["shrunk"], (BASINS.data, BASINS.target)),
        (OWN["shared coefficients"], (BASINS.data, BASINS.target)),
    ],
)
def test_a_runtime_predicts_what_the_model_does(model, data, tmp_path):
    pytest.importorskip("onnx", reason="the export needs onnx")
    runtime = pytest.importorskip("onnxruntime", reason="the check needs onnxruntime")
    inputs, targets = data
    model = clone(model).fit(inputs, targets)
    exported = to_onnx(model, tmp_path / "model.onnx")
    for source in (str(tmp_path / "model.onnx"), exported.SerializeToString()):
        session = runtime.InferenceSession(source, providers=["CPUExecutionProvider"])
        (predicted,) = session.run(["Y"], {"X": inputs})
        assert predicted.dtype == np.float64
        np.testing.assert_allclose(predicted, model.predict(inputs), rtol=1e-9, atol=1e-9)
    meta = session.get_modelmeta().custom_metadata_map
    assert meta["ctfa_version"] == ctfa.__version__
    assert json.loads(meta["feature_names"]) == list(collapse(model).feature_names)
    assert json.loads(meta["target_names"]) == list(model.targets_._names)


def test_an_export_of_a_loaded_model_is_the_same_file(tmp_path):
    pytest.importorskip("onnx", reason="the export needs onnx")
    model = CTFARegressor().fit(X, Y)
    save(model, tmp_path / "model.ctfa")
    to_onnx(model, tmp_path / "one.onnx")
    to_onnx(load(tmp_path / "model.ctfa"), tmp_path / "two.onnx")
    assert (tmp_path / "one.onnx").read_bytes() == (tmp_path / "two.onnx").read_bytes()


def test_without_onnx_the_extra_is_named(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"pip install ctfa\[onnx\]"):
        to_onnx(CTFARegressor().fit(X, Y))
