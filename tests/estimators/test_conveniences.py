"""What users type first: nested parameters, own criteria, names, scores."""

import inspect

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV

import ctfa
from ctfa import (
    CTFARegressor,
    CTFARegressorCV,
    FeatureAggregator,
    MultiInputCTFARegressor,
    PooledCTFARegressor,
    TargetAggregator,
)
from ctfa.datasets import make_gauges, make_paper_synthetic
from ctfa_study import baselines

ESTIMATORS = [
    kind
    for module in (ctfa, baselines)
    for kind in (getattr(module, name) for name in module.__all__)
    if inspect.isclass(kind) and issubclass(kind, BaseEstimator)
]


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_every_method_calls_its_targets_y(kind):
    methods = [name for name in dir(kind) if callable(getattr(kind, name)) and name[0] != "_"]
    known = {name: list(inspect.signature(getattr(kind, name)).parameters) for name in methods}
    assert "y" in known["fit"]
    # What is transformed is the targets themselves.
    assert [name for name in known if "Y" in known[name] and name != "transform"] == []


@pytest.mark.more
def test_targets_are_taken_by_keyword():
    X, Y = make_paper_synthetic(60, 4, 3, random_state=0)
    layout = np.tile(np.arange(4), (3, 1))
    models = (CTFARegressor(), CTFARegressorCV(cv=3), MultiInputCTFARegressor(layout))
    for model in models:
        model.fit(X=X, y=Y)
        model.score(X=X, y=Y)
        assert len(model.score_per_target(X=X, y=Y)) == len(model.compare(X=X, y=Y)) == 3
        assert model.stability(X=X, y=Y, cv=3).shape == (3, 3)
        assert len(model.reduce(X=X, y=Y)) == model.n_groups_
        np.testing.assert_array_equal(model.predict(X=X), model.predict(X))
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'X'"):
            model.predict()
    for model in (CTFARegressor(), MultiInputCTFARegressor(layout), TargetAggregator()):
        model.partial_fit(X=X, y=Y).partial_fit([{"X": X, "y": Y}])
        assert model.labels_.shape == (3,)
    aggregator = TargetAggregator().fit(X=X, y=Y)
    assert aggregator.inverse_transform(Z=aggregator.transform(Y=Y)).shape == Y.shape
    features = FeatureAggregator().fit(X=X, y=Y[:, 0])
    assert features.inverse_transform(X=features.transform(X=X)).shape == X.shape
    tasks = np.repeat([0, 1, 2], 20)
    pooled = PooledCTFARegressor().partial_fit(X=X, y=Y[:, 0], tasks=tasks)
    assert pooled.fit(X=X, y=Y[:, 0], tasks=tasks).predict(X=X, tasks=tasks).shape == (60,)


@pytest.mark.more
def test_nested_parameters_reach_the_default_aggregators():
    X, Y = make_paper_synthetic(80, 6, 4, noise=2.0, random_state=0)
    model = CTFARegressor().set_params(targets__max_loss=-np.inf, features__max_loss=np.inf)
    assert model.fit(X, Y).n_groups_ == 4
    search = GridSearchCV(CTFARegressor(), {"targets__max_loss": [-np.inf, 1.5]}, cv=3).fit(X, Y)
    assert set(search.best_params_) == {"targets__max_loss"}
    both = {"targets__max_loss": [0.0, 1.5], "features__max_loss": [1.0, 4.0]}
    assert set(GridSearchCV(CTFARegressor(), both, cv=3).fit(X, Y).best_params_) == set(both)


LAYOUT = np.arange(6).reshape(3, 2)


@pytest.mark.parametrize(
    ("model", "held"),
    [
        (CTFARegressor(), {"targets", "features"}),
        (CTFARegressorCV(), {"targets", "features"}),
        (MultiInputCTFARegressor(LAYOUT), {"targets"}),
        (PooledCTFARegressor(), {"targets"}),
        (CTFARegressor(targets="passthrough", features="passthrough"), set()),
        (CTFARegressor(LinearRegression(), features="passthrough"), {"regressor", "targets"}),
        (PooledCTFARegressor(features=FeatureAggregator()), {"targets", "features"}),
    ],
)
def test_parameters_of_defaults_are_listed(model, held):
    shallow, deep = model.get_params(deep=False), model.get_params()
    assert not any("__" in name for name in shallow)
    assert {name.partition("__")[0] for name in deep if "__" in name} == held
    assert all(deep[name] is shallow[name] for name in shallow)
    given = clone(model).set_params(targets=TargetAggregator())
    if "targets" in held:
        assert given.get_params().keys() == deep.keys()
        assert clone(model).set_params(targets__max_loss=1.25).targets.max_loss == 1.25
    again = clone(model).set_params(**clone(model).get_params())
    assert again.get_params().keys() == deep.keys()
    for name in ("regressor", "targets", "features"):
        assert getattr(model, name) is shallow[name]  # asking sets nothing


def test_defaults_listed_are_those_that_are_used():
    X, Y = make_paper_synthetic(80, 6, 4, noise=2.0, random_state=0)
    model = CTFARegressor().fit(X, Y)
    listed = model.get_params()
    fitted = {"targets": model.targets_, "features": model.features_[0]}
    for name, estimator in fitted.items():
        for nested, value in estimator.get_params().items():
            if (name, nested) == ("features", "max_loss"):
                # "auto" with no bar for correlations: folds answer for those of chance.
                assert (listed["features__max_loss"], value) == ("auto", np.log(80))
            else:
                assert listed[f"{name}__{nested}"] == value


def test_nested_parameters_are_set_in_any_order():
    for params in (
        {"targets": None, "targets__max_loss": 1.0},
        {"targets__max_loss": 1.0, "targets": None},
        {"targets__max_loss": 1.0, "targets": TargetAggregator(scale="center")},
    ):
        model = CTFARegressor(targets="passthrough").set_params(**params)
        assert model.targets.max_loss == 1.0
    assert model.targets.scale == "center"


@pytest.mark.parametrize(
    ("model", "name", "what"),
    [
        (CTFARegressor(), "targets__nonsense", "'nonsense' for estimator TargetAggregator"),
        (CTFARegressor(), "nonsense__max_loss", "'nonsense' for estimator CTFARegressor"),
        (CTFARegressor(), "regressor__alpha", "regressor=None has no parameters"),
        (CTFARegressor(targets="passthrough"), "targets__max_loss", "targets='passthrough' has"),
        (CTFARegressor(features="passthrough"), "features__cv", "features='passthrough' has"),
        (MultiInputCTFARegressor(LAYOUT), "features__max_loss", "features=None has no parameters"),
        (PooledCTFARegressor(), "features__max_loss", "features=None has no parameters"),
    ],
)
def test_parameters_that_nobody_has_are_refused(model, name, what):
    before = repr(model)
    with pytest.raises(ValueError, match=f"Invalid parameter.*{what}"):
        model.set_params(**{name: 1})
    assert repr(model) == before


@pytest.mark.parametrize("aggregator", [TargetAggregator, FeatureAggregator])
def test_a_criterion_of_ones_own_may_return_one_number_but_not_nan(aggregator):
    X, Y = make_paper_synthetic(60, 4, 4, random_state=0)
    target = Y if aggregator is TargetAggregator else Y[:, 0]
    options = {} if aggregator is TargetAggregator else {"min_correlation": -1.0}
    assert aggregator(lambda evidence: 0.5, max_loss=1.0, **options).fit(X, target).n_groups_ == 1
    assert aggregator(lambda evidence: 2.0, max_loss=1.0, **options).fit(X, target).n_groups_ == 4
    with pytest.raises(ValueError, match="returned NaN"):
        aggregator(lambda evidence: np.nan, max_loss=1.0, **options).fit(X, target)
    with pytest.raises(ValueError, match="did not return numbers"):
        aggregator(lambda evidence: "x", max_loss=1.0, **options).fit(X, target)


def test_the_history_names_what_was_merged():
    gauges = make_gauges(random_state=0, as_frame=True)
    model = CTFARegressor().fit(gauges.data, gauges.target)
    frame = model.history_.to_frame()
    assert frame["block_name"].str.startswith("gauge_").all()
    assert model.features_[0].history_.to_frame()["other_name"].isin(gauges.data.columns).all()


def test_scores_refuse_targets_in_another_order_and_a_single_row():
    gauges = make_gauges(random_state=0, as_frame=True)
    model = CTFARegressor().fit(gauges.data, gauges.target)
    expected = r2_score(gauges.target, model.predict(gauges.data))
    assert model.score(gauges.data, gauges.target) == pytest.approx(expected)
    with pytest.raises(ValueError, match="target names should match"):
        model.score(gauges.data, gauges.target[gauges.target.columns[::-1]])
    with pytest.raises(ValueError, match="R2 of 1 row"):
        model.score(gauges.data[:1], gauges.target[:1])


@pytest.mark.parametrize("kind", [CTFARegressor, CTFARegressorCV, PooledCTFARegressor])
def test_setting_the_parameters_there_are_changes_nothing(kind):
    model = kind()
    again = kind().set_params(**model.get_params())
    assert again.regressor is None  # more than any regressor of scikit-learn's
    same = model.set_params(targets=again.targets, features=again.features)
    assert repr(again.get_params()) == repr(same.get_params())
