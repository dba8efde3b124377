"""What features are worth to groups, and coefficients, through every estimator."""

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import r2_score
from sklearn.tree import DecisionTreeRegressor

import ctfa
from ctfa import (
    CTFARegressor,
    CTFARegressorCV,
    FeatureAggregator,
    MultiInputCTFARegressor,
    PooledCTFARegressor,
    TargetAggregator,
    multi_input_layout,
)
from ctfa.persistence import load, save
from ctfa.report import collect

pd = pytest.importorskip("pandas")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 4))
X[:, 1] = X[:, 0] + 0.05 * RNG.normal(size=90)
COEF = np.repeat([[1.0, 1.0, 0.0, 0.5], [0.0, 0.0, 2.0, 0.0]], 3, axis=0)
Y = X @ COEF.T + 0.3 * RNG.normal(size=(90, 6)) + np.arange(6.0)
OWN, LAYOUT = multi_input_layout(RNG.normal(size=(90, 6, 3)))
Y_OWN = np.stack([OWN[:, row] @ [1.0, -1.0, 0.0] for row in LAYOUT], axis=1)
Y_OWN += 0.3 * RNG.normal(size=Y_OWN.shape)
TASKS = np.array(["a", "b", "c"])[np.arange(90) % 3]
TREE = DecisionTreeRegressor(max_depth=3, random_state=0)
TARGETS = {"shared": (Y,), "own inputs": (Y_OWN,), "own rows": (Y[:, 0], TASKS)}
LIMIT = TargetAggregator(max_loss=1.0)


def fitted(kind, **options):
    if kind == "own rows":
        return PooledCTFARegressor(targets=LIMIT, **options).fit(X, Y[:, 0], tasks=TASKS)
    if kind == "own inputs":
        return MultiInputCTFARegressor(LAYOUT, targets=LIMIT, **options).fit(OWN, Y_OWN)
    if kind == "searched":
        return CTFARegressorCV(target_losses=[1.0], feature_losses=[0.5], cv=2, **options).fit(X, Y)
    return CTFARegressor(targets=LIMIT, **options).fit(X, Y)


@pytest.mark.parametrize("kind", ["shared", "searched", "own inputs", "own rows"])
def test_coefficients_are_what_predictions_are_made_of(kind, tmp_path):
    model = fitted(kind)
    if kind == "own rows":
        predicted, of_row = model.predict(X, TASKS), np.searchsorted(model.tasks_, TASKS)
        told = np.einsum("ij,ij->i", X, model.coef_[of_row]) + model.intercept_[of_row]
    else:
        inputs = OWN if kind == "own inputs" else X
        predicted, told = model.predict(inputs), inputs @ model.coef_.T + model.intercept_
    np.testing.assert_allclose(told, predicted, atol=1e-9)
    assert model.group_coef_.shape == (model.n_groups_, 3 if kind == "own inputs" else 4)
    save(model, tmp_path / "model.ctfa")
    np.testing.assert_array_equal(load(tmp_path / "model.ctfa").coef_, model.coef_)


@pytest.mark.parametrize("kind", ["shared", "own inputs", "own rows"])
def test_a_forest_has_no_coefficients_and_says_what_it_has(kind):
    alone = {"targets": "passthrough", "head": "mean", "regressor": TREE}
    model = fitted(kind).set_params(**alone)
    model.fit(OWN if kind == "own inputs" else X, *TARGETS[kind])
    for name in ("coef_", "intercept_", "group_coef_"):
        said = f"no {name}, because .*DecisionTreeRegressor, .*: importance\\(X, y\\) says"
        with pytest.raises(AttributeError, match=said):
            getattr(model, name)


@pytest.mark.parametrize("kind", ["shared", "own inputs", "own rows"])
def test_importance_is_the_r2_that_targets_lose_where_rows_are_shuffled(kind):
    model = fitted(kind)
    inputs = (OWN if kind == "own inputs" else X)[:60]
    target = TARGETS[kind][0][:60]
    known = (TASKS[:60],) if kind == "own rows" else ()
    rng = np.random.RandomState(3)
    orders = []
    for _ in range(2):
        order = np.arange(60)
        for task in ["a", "b", "c"] if known else [None]:
            rows = np.flatnonzero(TASKS[:60] == task) if known else order.copy()
            order[rows] = rng.permutation(rows)
        orders.append(order)

    def scores(inputs):
        predicted = model.predict(inputs, *known)
        if not known:
            return r2_score(target, predicted, multioutput="raw_values")
        parts = [TASKS[:60] == task for task in "abc"]
        return np.array([r2_score(target[at], predicted[at]) for at in parts])

    expected = []
    for group in range(model.n_groups_):
        for feature in range(3 if kind == "own inputs" else 4):
            columns = LAYOUT[:, feature] if kind == "own inputs" else [feature]
            lost = []
            for order in orders:
                shuffled = inputs.copy()
                shuffled[:, columns] = inputs[order][:, columns]
                lost.append((scores(inputs) - scores(shuffled))[model.labels_ == group].mean())
            expected.append((group, np.mean(lost), np.std(lost)))
    found = model.importance(inputs, target, *known, n_repeats=2, random_state=3)
    np.testing.assert_allclose(found[["group", "importance", "error"]], expected, atol=1e-12)


def test_means_of_features_are_shuffled_and_named_as_one():
    features = FeatureAggregator(max_loss=np.inf, min_correlation=0.9)
    model = fitted("shared", features=features, head="mean")
    found = model.importance(X, Y, random_state=0)
    assert list(found["feature"]) == ["mean(x0, x1)", "x2", "x3"] * 2
    worth = found.pivot(index="group", columns="feature", values="importance")
    assert worth.loc[0].idxmax() == "mean(x0, x1)"
    assert worth.loc[0, "mean(x0, x1)"] > 1.0  # shuffled, it does harm
    assert worth.loc[1].idxmax() == "x2"
    assert abs(worth.loc[1, "mean(x0, x1)"]) < 0.05
    with pytest.raises(ValueError, match="n_repeats=0 is not known: give a whole number"):
        model.importance(X, Y, n_repeats=0)


@pytest.mark.more
@pytest.mark.parametrize("form", ["xarray", "long", "wide", "rows"])
def test_importance_of_labelled_data_is_that_of_its_estimator(form):
    xr = pytest.importorskip("xarray")
    time = pd.date_range("2000-01-01", periods=90, freq="MS")
    data = xr.Dataset(
        {"flow": (("time", "basin"), Y_OWN), "snow": (("time", "basin"), OWN[:, LAYOUT[:, 0]])},
        coords={"time": time, "basin": list("abcdef")},
    )
    long = data.to_dataframe().reset_index()
    options = {"target": "flow", "task": "basin", "held_out": None, "max_loss": 1.0}
    given = {"xarray": data, "long": long, "rows": long.drop(columns="time")}.get(form)
    options |= {"sample": "time"} if form == "long" else {}
    if form == "wide":
        given = data.flow.to_pandas().reset_index(drop=True).assign(snow=X[:, 0], rain=X[:, 1])
        options = {"target": list("abcdef"), "held_out": None, "max_loss": 1.0}
    fit = ctfa.labelled.fit(given, **options)
    found = fit.importance(given, random_state=0)
    inputs = (given[["snow", "rain"]], given[list("abcdef")]) if form == "wide" else ()
    if form == "rows":
        inputs = given[["snow"]], given["flow"], given["basin"]
    inputs = inputs or (OWN[:, LAYOUT[:, 0]], Y_OWN)
    expected = fit.estimator.importance(*inputs, random_state=0)
    np.testing.assert_allclose(found["importance"], expected["importance"], rtol=1e-9, atol=1e-12)
    assert list(found.columns) == ["region", "feature", "importance", "error"]
    assert set(found["feature"]) == ({"snow", "rain"} if form == "wide" else {"snow"})


def test_the_page_tells_importance_where_models_have_no_coefficients(tmp_path):
    time = pd.date_range("2000-01-01", periods=90, freq="MS", name="time")
    table = pd.DataFrame(Y, columns=list("abcdef"), index=time).assign(snow=X[:, 0], rain=X[:, 2])
    options = {"target": list("abcdef"), "held_out": None, "cv": 3, "solver": "ols"}
    fit = ctfa.labelled.fit(table, regressor=KernelRidge(kernel="rbf"), max_loss=1.0, **options)
    fit.save(tmp_path / "fit.ctfa")
    page = collect(ctfa.labelled.load(tmp_path / "fit.ctfa").report_material())["features"]
    found = fit.importance(table, n_repeats=3, random_state=0)
    assert page["what"] == "importance"
    np.testing.assert_allclose(np.ravel(page["value"]), found["importance"], rtol=1e-12)
    np.testing.assert_allclose(np.ravel(page["standard_error"]), found["error"], rtol=1e-12)
    linear = ctfa.labelled.fit(table, max_loss=1.0, **options)
    assert collect(linear.report_material())["features"]["what"] == "coefficient"
    assert linear.worth is None
