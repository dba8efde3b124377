"""Both limits chosen by the whole model: against a loop over fixed limits on the same folds."""

import itertools
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.metrics import get_scorer, r2_score
from sklearn.model_selection import GroupKFold, KFold, TimeSeriesSplit
from sklearn.neighbors import KNeighborsRegressor

from ctfa import CTFARegressor, CTFARegressorCV, FeatureAggregator, TargetAggregator
from ctfa.core.levels import Temper
from ctfa.core.ridge import restricted_penalty
from ctfa.estimators import shared
from problems import RIDGE, make_problem

PROBLEM = make_problem("correlated", 1, n_samples=54, n_features=6, n_targets=6)
X, Y = PROBLEM.X, PROBLEM.Y * [1.0, 8.0, 0.3, 1.0, 1.0, 1.0] + 1.0
WEIGHTS = np.random.default_rng(0).uniform(0.3, 2.0, size=54)
LABELS = np.arange(54) // 6
TARGET_LOSSES, FEATURE_LOSSES = [-np.inf, 1.5, 6.0, np.inf], [-np.inf, 4.0]
CHAIN = sparse.diags([1.0, 1.0], offsets=[-1, 1], shape=(6, 6))


def limited(template, default, limit):
    """An aggregator with its limit; "passthrough" as it is."""
    if isinstance(template, str):
        return template
    return (default() if template is None else clone(template)).set_params(max_loss=limit)


def by_hand(model, splits, weights=None):
    """Scores ``(folds, grid)`` of a new fit for every fold and every pair of limits.

    With the penalties of the likelihood: a search has no folds within its folds to temper them.
    """
    with pytest.MonkeyPatch.context() as patch:
        for tempers in ("TEMPERS", "ALONE"):
            patch.setattr(shared, tempers, (Temper(),))
        return _by_hand(model, splits, weights)


def _by_hand(model, splits, weights):
    scorer = get_scorer("r2" if model.scoring is None else model.scoring)
    firsts = [None] if model.targets == "passthrough" else model.target_losses
    seconds = [None] if model.features == "passthrough" else model.feature_losses
    pairs = list(itertools.product(firsts, seconds))
    scores, models = np.empty((len(splits), len(pairs))), []
    for (fold, (train, test)), (at, (one, two)) in itertools.product(
        enumerate(splits), enumerate(pairs)
    ):
        plain = CTFARegressor(
            model.regressor,
            targets=limited(model.targets, TargetAggregator, one),
            features=limited(model.features, FeatureAggregator, two),
            head=model.head,
        ).fit(X[train], Y[train], None if weights is None else weights[train])
        scores[fold, at] = scorer(plain, X[test], Y[test])
        models.append(plain)
    return scores, models


def assert_same(model, splits, weights=None):
    expected, models = by_hand(model, splits, weights)
    results = model.cv_results_
    found = np.array([results[f"split{fold}_test_score"] for fold in range(len(splits))])
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(results["mean_test_score"], expected.mean(axis=0), atol=1e-9)
    np.testing.assert_allclose(results["std_test_score"], expected.std(axis=0), atol=1e-9)
    n_groups = np.reshape([plain.n_groups_ for plain in models], expected.shape)
    np.testing.assert_allclose(results["mean_n_groups"], n_groups.mean(axis=0))
    n_features = [np.mean([f.n_groups_ for f in plain.features_]) for plain in models]
    np.testing.assert_allclose(
        results["mean_n_features"], np.reshape(n_features, expected.shape).mean(axis=0)
    )
    assert model.best_score_ == pytest.approx(expected.mean(axis=0).max())


# -- Scores ----------------------------------------------------------------------------------------


@pytest.mark.more
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"head": "mean"},
        {"regressor": Ridge(2.0)},
        {"regressor": Ridge(2.0), "head": "mean"},
        {"regressor": LinearRegression()},
        {"regressor": KNeighborsRegressor(4)},
        {"regressor": KNeighborsRegressor(4), "head": "mean"},
        {"scoring": "neg_mean_absolute_error"},
        {"scoring": "explained_variance", "head": "mean"},
        {"targets": TargetAggregator(scan="correlation", scale="center", connectivity=CHAIN)},
        {"targets": TargetAggregator(flip=True)},
        {"targets": TargetAggregator(flip=True), "regressor": LinearRegression()},
        {"targets": TargetAggregator(scale="none", guard="member"), "head": "mean"},
        {
            "targets": TargetAggregator(scale="none", guard="member"),
            "regressor": LinearRegression(),
        },
        {
            "targets": TargetAggregator(regressor=RIDGE),
            "features": FeatureAggregator(),
        },
        {"features": FeatureAggregator(scan="grow", min_correlation=-1.0)},
        {"targets": TargetAggregator("mse", scale="none", scan="restart"), "head": "mean"},
        {"features": FeatureAggregator("r2", cv=3)},
        {"targets": "passthrough"},
        {"features": "passthrough"},
        {"features": "passthrough", "head": "mean"},
        {"targets": "passthrough", "features": "passthrough"},
    ],
    ids=str,
)
def test_scores_are_those_of_a_fit_for_every_fold_and_every_pair_of_limits(options):
    grids = {"target_losses": TARGET_LOSSES, "feature_losses": FEATURE_LOSSES}
    if options.get("targets") == "passthrough":
        grids.pop("target_losses")
    if options.get("features") == "passthrough":
        grids.pop("feature_losses")
    model = CTFARegressorCV(cv=3, **grids, **options).fit(X, Y)
    assert_same(model, list(KFold(3).split(X)))


@pytest.mark.parametrize("head", ["mean", "levels"])
@pytest.mark.parametrize("regressor", [None, LinearRegression()])
def test_weights_count_in_fits_and_not_in_scores(regressor, head):
    grids = {"target_losses": TARGET_LOSSES, "feature_losses": FEATURE_LOSSES}
    model = CTFARegressorCV(regressor, cv=3, head=head, **grids).fit(X, Y, WEIGHTS)
    assert_same(model, list(KFold(3).split(X)), WEIGHTS)


def test_scores_of_levels_are_those_of_ridge_models_of_means_and_of_deviations():
    model = CTFARegressorCV(
        cv=3, target_losses=[np.inf], feature_losses=None, features="passthrough"
    ).fit(X, Y)
    for fold, (train, test) in enumerate(KFold(3).split(X)):
        offsets, scales = Y[train].mean(axis=0), Y[train].std(axis=0)
        units = (Y[train] - offsets) / scales
        mean = units.mean(axis=1, keepdims=True)
        apart = units - mean
        about = X[train].mean(axis=0)
        length = np.sqrt(((X[train] - about) ** 2).sum(axis=0))
        known, asked = ((X[rows] - about) / length for rows in (train, test))
        left, values, _ = np.linalg.svd(known, full_matrices=False)
        served = np.zeros((len(test), 1))
        for columns in (mean, apart):
            turned = (left.T @ columns) ** 2
            rest = (columns**2).sum(axis=0) - turned.sum(axis=0)
            penalty = restricted_penalty(
                turned.sum(axis=1, keepdims=True), rest.sum(keepdims=True), values, len(train)
            )
            alpha = min(float(penalty[0]), 1e12)
            served = served + Ridge(alpha, fit_intercept=False).fit(known, columns).predict(
                asked
            ).reshape(len(test), -1)
        expected = r2_score(Y[test], served * scales + offsets)
        assert model.cv_results_[f"split{fold}_test_score"][0] == pytest.approx(expected)


@pytest.mark.more
@pytest.mark.parametrize(
    "cv",
    [GroupKFold(3), TimeSeriesSplit(3), list(KFold(4).split(X))],
    ids=["groups", "series", "lists"],
)
def test_any_folds_serve(cv):
    labels = LABELS if isinstance(cv, GroupKFold) else None
    splits = cv if isinstance(cv, list) else list(cv.split(X, Y, labels))
    model = CTFARegressorCV(cv=cv, target_losses=[0.0, 2.0], feature_losses=[1.0])
    assert_same(model.fit(X, Y, groups=labels), splits)


def test_two_jobs_give_the_scores_of_one():
    options = {"target_losses": TARGET_LOSSES, "feature_losses": FEATURE_LOSSES, "cv": 3}
    one = CTFARegressorCV(**options).fit(X, Y)
    with parallel_config(backend="threading"):
        two = CTFARegressorCV(n_jobs=2, **options).fit(X, Y)
    np.testing.assert_array_equal(
        one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"]
    )


# -- Results and refit -----------------------------------------------------------------------------


@pytest.mark.parametrize("head", ["mean", "levels"])
def test_the_model_is_refitted_with_the_best_limits(head):
    model = CTFARegressorCV(Ridge(), head=head, cv=3).fit(X, Y)
    best = model.best_params_
    plain = CTFARegressor(
        Ridge(),
        targets=TargetAggregator(max_loss=best["targets__max_loss"]),
        features=FeatureAggregator(max_loss=best["features__max_loss"]),
        head=head,
    ).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))
    assert model.partition_ == plain.partition_
    assert model.max_loss_ == best["targets__max_loss"]
    assert model.merges_.equals(plain.merges_)
    assert str(model.why(0)) == str(plain.why(0))


def test_results_have_the_shape_of_a_grid_search():
    model = CTFARegressorCV(cv=4).fit(X, Y)
    results = model.cv_results_
    n_points = 9 * 7
    assert len(results["params"]) == n_points
    for name, column in results.items():
        assert len(column) == n_points, name
    frame = pd.DataFrame(results)
    assert (frame["rank_test_score"].min(), len(frame)) == (1, n_points)
    assert results["params"][model.best_index_] == model.best_params_
    assert results["rank_test_score"][model.best_index_] == 1
    assert results["mean_test_score"].max() == model.best_score_
    for name in ("targets__max_loss", "features__max_loss"):
        np.testing.assert_array_equal(
            results[f"param_{name}"], [point[name] for point in results["params"]]
        )
    assert float(np.log(54)) in results["param_features__max_loss"]


def test_skipped_phases_have_no_parameter():
    first = CTFARegressorCV(features="passthrough", cv=3).fit(X, Y)
    assert set(first.best_params_) == {"targets__max_loss"}
    second = CTFARegressorCV(targets="passthrough", cv=3).fit(X, Y)
    assert set(second.best_params_) == {"features__max_loss"}
    neither = CTFARegressorCV(targets="passthrough", features="passthrough", cv=3).fit(X, Y)
    assert neither.best_params_ == {}


@pytest.mark.more
def test_searches_are_cloned_pickled_compared_and_found_stable():
    model = CTFARegressorCV(cv=3, target_losses=[0.0, 1.5], feature_losses=[2.0])
    model.fit(pd.DataFrame(X), pd.DataFrame(Y))
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(pd.DataFrame(X)), model.predict(pd.DataFrame(X)))
    assert clone(model).get_params()["target_losses"] == [0.0, 1.5]
    assert not hasattr(clone(model), "cv_results_")
    assert model.stability(pd.DataFrame(X), pd.DataFrame(Y), cv=3).shape == (6, 6)
    frame = model.compare(pd.DataFrame(X), pd.DataFrame(Y), cv=3)
    alone = CTFARegressor(targets="passthrough", features="passthrough").fit(X, Y)
    expected = alone.compare(X, Y, cv=3)["error"]
    np.testing.assert_allclose(frame["single_task_error"], expected)


def test_one_target_is_searched_for_its_features():
    model = CTFARegressorCV(cv=3).fit(X, Y[:, 0])
    assert model.predict(X).shape == (54,)
    assert model.trust_.tolist() == [1.0]


@pytest.mark.parametrize("asked", ["the regressor", "what judges", "nobody"])
def test_least_squares_on_folds_too_short_for_it_is_told_once_and_left_to_ridge_regression(asked):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = CTFARegressorCV(
            LinearRegression() if asked == "the regressor" else None,
            cv=TimeSeriesSplit(5),
            targets=TargetAggregator(
                regressor=LinearRegression() if asked == "what judges" else None
            ),
            target_losses=[1.0],
        ).fit(X[:48], Y[:48])
    assert [str(one.message).partition(":")[0] for one in said] == (
        [] if asked == "nobody" else ["X has 8 rows to learn from and 6 features"]
    )
    assert np.isfinite(model.best_score_)


# -- Folds that fail -------------------------------------------------------------------------------


EVENTS = Y.copy()
EVENTS[18:, 2] = 0.1  # something that happened in the first third alone
GRIDS = {"target_losses": TARGET_LOSSES, "feature_losses": FEATURE_LOSSES}


@pytest.mark.more
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"head": "mean"},
        {"regressor": LinearRegression()},
        {"targets": TargetAggregator(scale="center")},
        {"targets": TargetAggregator(scale="none", guard="member"), "head": "mean"},
        {"targets": TargetAggregator(scan="correlation", flip=True)},
        {"targets": TargetAggregator(regressor=RIDGE)},
        {"features": FeatureAggregator("r2", cv=3)},
        {"targets": "passthrough", "target_losses": None},
    ],
    ids=str,
)
def test_a_target_that_is_constant_in_a_fold_is_predicted_as_that_constant(options):
    model = CTFARegressorCV(**{**GRIDS, "cv": 3, "scoring": of_event, **options}).fit(X, EVENTS)
    scale = getattr(options.get("targets"), "scale", "standard")
    found, n_groups = (model.cv_results_[name] for name in ("split0_test_score", "mean_n_groups"))
    assert np.isfinite(found).all()
    # Back in its own units it is that constant in every group; in other units only by itself.
    exact = (n_groups == 6) | (scale == "standard")
    assert exact.any()
    np.testing.assert_allclose(found[exact], -np.mean((EVENTS[:18, 2] - 0.1) ** 2), rtol=1e-9)


def of_event(model, X, Y):
    return -np.mean((model.predict(X)[:, 2] - Y[:, 2]) ** 2)


def test_other_targets_are_scored_as_without_the_one_that_is_constant_in_a_fold():
    options = {"target_losses": [-np.inf], "feature_losses": [2.0], "cv": 3}
    others = [0, 1, 3, 4, 5]

    def of_others(model, X, Y):
        return r2_score(Y[:, others], model.predict(X)[:, others])

    one = CTFARegressorCV(scoring=of_others, **options).fit(X, EVENTS)
    two = CTFARegressorCV(**options).fit(X, EVENTS[:, others])
    np.testing.assert_allclose(one.best_score_, two.best_score_, rtol=1e-9)


@pytest.mark.parametrize("regressor", [None, LinearRegression()])
def test_dask_searches_folds_with_a_constant_target_alike(regressor):
    da = pytest.importorskip("dask.array")
    lazy = da.from_array(X, chunks=(10, 6)), da.from_array(EVENTS, chunks=(10, 6))
    one = CTFARegressorCV(regressor, cv=3, **GRIDS).fit(X, EVENTS)
    two = CTFARegressorCV(regressor, cv=3, **GRIDS).fit(*lazy)
    for name in ("split0_test_score", "mean_test_score", "mean_n_groups"):
        np.testing.assert_allclose(one.cv_results_[name], two.cv_results_[name], rtol=1e-6)
    # What is tempered on folds of its own is so in both.
    np.testing.assert_allclose(two.predict(X), one.predict(X), rtol=1e-6, atol=1e-8)


class Picky(Ridge):
    """A regressor that refuses some tables: of few columns, or of one fold."""

    def fit(self, X, y, sample_weight=None):
        if X.shape[1] <= self.alpha or (self.alpha == 0.5 and X[0, 0] == FIRST):
            raise RuntimeError("no such table")
        return super().fit(X, y, sample_weight)


FIRST = X[18, 0]  # of the training rows of fold 0


def test_limits_that_fail_in_a_fold_come_last_and_the_others_are_chosen_from():
    options = {"cv": 3, "target_losses": [1.5], "feature_losses": [-np.inf, np.inf]}
    model = CTFARegressorCV(Picky(3.0), **options)
    with pytest.warns(
        FitFailedWarning,
        match=r"(?s)3 of 6 fits.*\nfold 2 of cv, .*features__max_loss=inf: RuntimeError: no such",
    ):
        model.fit(X, Y)
    results = model.cv_results_
    assert np.isnan(results["mean_test_score"]).tolist() == [False, True]
    assert np.isnan(results["std_test_score"]).tolist() == [False, True]
    assert results["rank_test_score"].tolist() == [1, 2]
    assert model.best_params_["features__max_loss"] == -np.inf
    assert model.best_score_ == results["mean_test_score"][0]
    alone = CTFARegressorCV(Picky(3.0), **{**options, "feature_losses": [-np.inf]}).fit(X, Y)
    assert model.best_score_ == alone.best_score_
    with pytest.warns(FitFailedWarning, match="-7.0"):
        model.set_params(error_score=-7.0).fit(X, Y)
    assert model.cv_results_["mean_test_score"][1] == -7.0
    with pytest.raises(RuntimeError, match="no such table"):
        model.set_params(error_score="raise").fit(X, Y)


def test_a_search_without_any_mean_says_why():
    with pytest.raises(ValueError, match=r"6 of 6 fits.*fold 0 of cv: RuntimeError: no such"):
        CTFARegressorCV(Picky(9.0), cv=3, target_losses=[1.5], feature_losses=[1.0, 2.0]).fit(X, Y)
    # One fold fails for all limits, so that none has a mean.
    one_fold = CTFARegressorCV(Picky(0.5), cv=3, target_losses=[1.5], feature_losses=[-np.inf])
    with pytest.raises(ValueError, match=r"1 of 3 fits.*fold 0 of cv: RuntimeError: no such"):
        one_fold.fit(X, Y)
    with pytest.warns(FitFailedWarning, match=r"1 of 3 fits.*\nfold 0 of cv, all limits"):
        one_fold.set_params(error_score=-9.0).fit(X, Y)


def test_errors_of_ours_are_named_by_their_fold():
    paper = TargetAggregator("mse", scan="restart", max_loss=0.0)
    model = CTFARegressorCV(
        LinearRegression(),
        cv=TimeSeriesSplit(5),
        targets=paper,
        target_losses=[0.0],
        features="passthrough",
        error_score="raise",
    )
    with pytest.raises(ValueError, match=r"^fold 0 of cv: X has n_samples=8 rows"):
        model.fit(X[:48], Y[:48])


# -- What is refused -------------------------------------------------------------------------------


@pytest.mark.more
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"target_losses": []}, ValueError, "holds no limits"),
        ({"target_losses": "auto"}, ValueError, "holds no limits"),
        ({"target_losses": 1.5}, TypeError, "not a list of numbers"),
        ({"feature_losses": [1.0, np.nan]}, ValueError, "NaN"),
        ({"feature_losses": [None]}, ValueError, "not a number"),
        ({"targets": "passthrough", "target_losses": [1.0]}, ValueError, "leave it out"),
        ({"targets": TargetAggregator("mse")}, ValueError, "goes with criterion='risk'"),
        ({"features": FeatureAggregator("r2")}, ValueError, "goes with criterion='risk'"),
        ({"cv": 1}, ValueError, "cannot split"),
        ({"cv": GroupKFold(3)}, ValueError, "groups"),
        ({"scoring": ["r2", "neg_mean_squared_error"]}, ValueError, "one number per fold"),
        ({"scoring": lambda *_: np.nan}, ValueError, "one number per fold"),
        ({"scoring": "no such"}, ValueError, "no such"),
        ({"error_score": "ignore"}, ValueError, "error_score='ignore' is not known"),
        ({"error_score": None}, ValueError, "use a number, np.nan or 'raise'"),
        ({"head": "median"}, ValueError, "head='median' is not known"),
    ],
)
def test_searches_that_cannot_be_made_say_why(options, error, message):
    with pytest.raises(error, match=message):
        CTFARegressorCV(**options).fit(X, Y)


def test_an_unknown_score_is_one_sentence():
    problem = make_problem("gaussian", 0)
    with pytest.raises(ValueError, match=r"scoring='r3' is not a scikit-learn score: use .*'r2'"):
        CTFARegressorCV(scoring="r3").fit(problem.X, problem.Y)


@pytest.mark.more
@pytest.mark.parametrize("scoring", [None, "neg_mean_squared_error"])
def test_equal_scores_go_to_fewer_groups_and_fewer_features(scoring):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        inputs = rng.normal(size=(60, 3))
        target = inputs @ rng.normal(size=3) + rng.normal(size=60)
        inputs = np.column_stack((inputs, inputs[:, 0]))
        copies = np.column_stack([target] * 6)
        options = {"feature_losses": [-np.inf, 0.0], "scoring": scoring}
        model = CTFARegressorCV(LinearRegression(), **options).fit(inputs, copies)
        assert model.n_groups_ == 1
        assert model.best_params_["features__max_loss"] == 0.0  # the two copies are one feature
        assert model.cv_results_["rank_test_score"][model.best_index_] == 1
        # A penalty tells a feature from two of it, and nothing tells copies of a target apart.
        assert CTFARegressorCV(**options).fit(inputs, copies).n_groups_ == 1
