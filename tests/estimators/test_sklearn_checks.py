"""scikit-learn's own checks of an estimator, and life among its tools."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge, RidgeCV
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit, cross_val_score
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR
from sklearn.utils.estimator_checks import parametrize_with_checks

from ctfa import (
    CTFARegressor,
    CTFARegressorCV,
    FeatureAggregator,
    TargetAggregator,
    nonlinctfa,
)
from problems import make_problem

# -- Its checks, with a reason for each that cannot hold -------------------------------------------

ANALYTIC = (
    "sample_weight is analytic: a row repeated is one more sample, a row of weight two is not"
)
SETS_CV = "the check sets cv, which the criterion 'risk' refuses"
NO_FREEDOM = "the paper's rule needs more rows than n_features + 2, and the check has 11 for 10"
TRANSFORMS_TARGETS = "transform takes the targets, and the check passes it X"
WEIGHTS = "check_sample_weight_equivalence_on_dense_data"
OF_FEATURES = {WEIGHTS: f"{SETS_CV}; {ANALYTIC}"}
OF_THE_PAPER = {"check_regressor_multioutput": NO_FREEDOM, WEIGHTS: ANALYTIC}
OF_TARGETS = {
    WEIGHTS: ANALYTIC,
    **dict.fromkeys(
        (
            "check_dict_unchanged",
            "check_estimators_nan_inf",
            "check_dtype_object",
            "check_estimators_dtypes",
            "check_estimators_pickle",
            "check_f_contiguous_array_estimator",
            "check_fit2d_predict1d",
            "check_fit_idempotent",
            "check_methods_sample_order_invariance",
            "check_methods_subset_invariance",
            "check_n_features_in_after_fitting",
            "check_transformer_data_not_an_array",
            "check_transformer_general",
        ),
        TRANSFORMS_TARGETS,
    ),
}


def expected_failures(estimator):
    if isinstance(estimator, TargetAggregator):
        return OF_TARGETS
    if isinstance(estimator, FeatureAggregator):
        return OF_FEATURES
    if isinstance(estimator.targets, TargetAggregator):
        return OF_THE_PAPER
    return {WEIGHTS: ANALYTIC}


DEFAULTS = [TargetAggregator(), FeatureAggregator(), CTFARegressor()]
CHECKS = parametrize_with_checks(
    [
        *DEFAULTS,
        CTFARegressor(targets="passthrough"),
        CTFARegressor(features="passthrough"),
        CTFARegressor(targets="passthrough", features="passthrough"),
        CTFARegressor(head="mean"),
        CTFARegressorCV(cv=3),
        CTFARegressorCV(features="passthrough", head="levels", cv=3),
        nonlinctfa(),
    ],
    expected_failed_checks=expected_failures,
).mark
NAMES, CASES = CHECKS.args
PLAIN = {repr(estimator) for estimator in DEFAULTS}


def of_other_configurations(case):
    """One of its cases, for the long run unless it is of an estimator as it comes."""
    given = case.values if hasattr(case, "values") else case
    other = [] if repr(given[0]) in PLAIN else [pytest.mark.more]
    return pytest.param(*given, marks=[*getattr(case, "marks", ()), *other])


@pytest.mark.parametrize(NAMES, [of_other_configurations(case) for case in CASES], **CHECKS.kwargs)
def test_scikit_learns_checks_pass(estimator, check):
    with warnings.catch_warnings():
        # Some of its problems have hardly more rows than features, which is told.
        warnings.filterwarnings("ignore", "X has .* rows to learn from", RuntimeWarning)
        check(estimator)


# -- Its tools -------------------------------------------------------------------------------------

PROBLEM = make_problem("correlated", 0, n_samples=48, n_features=6, n_targets=7)
X, Y, y = PROBLEM.X, PROBLEM.Y, PROBLEM.y
MODELS = {
    "default": CTFARegressor(),
    "parity": nonlinctfa(),
    "search": CTFARegressorCV(target_losses=[0.0, 1.5], feature_losses=[2.0], cv=5, head="levels"),
    "folds": CTFARegressor(Ridge(), features=FeatureAggregator("r2", max_loss=1e-3, cv=4)),
    "passthrough": CTFARegressor(targets="passthrough", features="passthrough"),
}


@pytest.fixture(params=MODELS)
def model(request):
    return clone(MODELS[request.param])


def test_a_copy_from_a_pickle_predicts_the_same(model):
    again = pickle.loads(pickle.dumps(model.fit(X, Y)))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.partition_ == model.partition_
    for part, other in zip(again.features_, model.features_, strict=True):
        np.testing.assert_array_equal(part.transform(X), other.transform(X))


def test_clones_are_unfitted_and_equal(model):
    copy = clone(model.fit(X, Y))
    assert not hasattr(copy, "targets_")
    np.testing.assert_array_equal(copy.fit(X, Y).predict(X), model.predict(X))


@pytest.mark.more
def test_two_jobs_give_the_same_as_one(model):
    expected = clone(model).fit(X, Y)
    parallel = model.set_params(n_jobs=2).fit(X, Y)
    np.testing.assert_array_equal(parallel.predict(X), expected.predict(X))


@pytest.mark.more
def test_a_grid_search_goes_over_nested_parameters():
    model = CTFARegressor(Ridge(), targets=TargetAggregator(), features=FeatureAggregator())
    grid = {
        "targets__max_loss": [-1.0, 1.5],
        "features__max_loss": ["auto", -1.0],
        "regressor__alpha": [0.1, 1e6],
    }
    search = GridSearchCV(model, grid, cv=3).fit(X, Y)
    assert len(search.cv_results_["params"]) == 8
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_params_["regressor__alpha"] == 0.1
    assert search.predict(X).shape == Y.shape


def test_pipelines_hold_both_estimators():
    features = make_pipeline(StandardScaler(), FeatureAggregator(), Ridge()).fit(X, y)
    assert features[:-1].transform(X).shape[1] == features[1].n_groups_ < X.shape[1]
    whole = make_pipeline(StandardScaler(), CTFARegressor(RidgeCV())).fit(X, Y)
    scaled = StandardScaler().fit_transform(X)
    np.testing.assert_allclose(
        whole.predict(X), CTFARegressor(RidgeCV()).fit(scaled, Y).predict(scaled)
    )


@pytest.mark.more
def test_time_series_are_cross_validated(model):
    scores = cross_val_score(model, X, Y, cv=TimeSeriesSplit(3))
    assert scores.shape == (3,)
    assert np.isfinite(scores).all()


@pytest.mark.more
@pytest.mark.parametrize(
    "regressor",
    [
        RandomForestRegressor(5, random_state=0),
        SVR(),
        MLPRegressor(hidden_layer_sizes=(4,), solver="lbfgs", max_iter=3000, random_state=0),
        make_pipeline(StandardScaler(), Ridge()),
    ],
    ids=lambda regressor: type(regressor).__name__,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_any_regressor_serves_each_group(regressor):
    model = CTFARegressor(regressor, head="mean").fit(X, Y)
    assert len(model.regressors_) == model.n_groups_
    means = model.targets_.transform(Y)
    plain = [
        clone(regressor).fit(part.transform(X), mean).predict(part.transform(X))
        for part, mean in zip(model.features_, means.T, strict=True)
    ]
    expected = model.targets_.inverse_transform(np.column_stack(plain))
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-6)


def test_estimators_show_themselves_as_html(model):
    for estimator in (model, TargetAggregator(), FeatureAggregator()):
        assert type(estimator).__name__ in estimator._repr_html_()
    assert "CTFARegressor" in model.fit(X, Y)._repr_html_()
