"""Every bad input gets one sentence: what was given, what is wrong, what to do."""

import datetime
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, Ridge, RidgeCV
from sklearn.model_selection import GroupKFold, PredefinedSplit
from sklearn.neighbors import KNeighborsRegressor

from ctfa import (
    CTFARegressor,
    CTFARegressorCV,
    FeatureAggregator,
    MultiInputCTFARegressor,
    PooledCTFARegressor,
    TargetAggregator,
    feature_path,
    nonlinctfa,
    target_path,
)

rng = np.random.default_rng(0)
X = rng.normal(size=(40, 5))
Y = X[:, :3] + rng.normal(size=(40, 3))


def changed(values, row, column, value):
    values = values.copy()
    values[row, column] = value
    return values


def fit_target(X=X, Y=Y, weight=None, **options):
    return TargetAggregator(**options).fit(X, Y, sample_weight=weight)


def fit_feature(X=X, Y=Y, weight=None, **options):
    y = Y[:, 0] if getattr(Y, "ndim", 0) == 2 else Y
    return FeatureAggregator(**options).fit(X, y, sample_weight=weight)


def fit_both(X=X, Y=Y, weight=None, **options):
    return CTFARegressor(**options).fit(X, Y, sample_weight=weight)


FITS = [fit_target, fit_feature, fit_both]
LEAST_SQUARES = {"regressor": LinearRegression()}


def refused(error, *words):
    """Expect an error whose text holds all of these words and is a sentence."""
    return pytest.raises(error, match="(?s)" + "".join(f"(?=.*(?:{word}))" for word in words))


# -- Data ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize(("value", "kind"), [(np.nan, "NaN"), (np.inf, "infinity")])
def test_gaps_are_located(fit, value, kind):
    with refused(ValueError, "Input X contains NaN or infinity", kind, "row 3, column 2", "fill"):
        fit(X=changed(X, 3, 2, value))
    if kind == "NaN" and fit is not fit_feature:
        return  # a missing value, which targets may have
    # Targets of Phase I may have gaps, and what is missing is said by NaN.
    way_out = "drop" if fit is fit_feature else "use NaN for missing values"
    with refused(ValueError, "Input [Yy] contains", kind, "row 7", way_out):
        fit(Y=changed(Y, 7, 0, value))


def test_a_gap_in_a_frame_is_located_by_name():
    frame = pd.DataFrame(changed(X, 3, 2, np.nan), columns=list("abcde"))
    with refused(ValueError, "row 3, column 'c'"):
        fit_both(X=frame)


@pytest.mark.parametrize("fit", FITS)
def test_numbers_too_large_to_square_are_refused(fit):
    with refused(ValueError, "Input X contains 1e\\+200", "row 1, column 4", "units"):
        fit(X=changed(X, 1, 4, 1e200))
    with refused(ValueError, "Input [Yy] contains -1e\\+200", "units"):
        fit(Y=changed(Y, 1, 0, -1e200))


@pytest.mark.parametrize("fit", FITS)
def test_text_is_refused(fit):
    text = X.astype(object)
    text[2, 1] = "dry"
    with refused(ValueError, "X cannot be used", "'dry'", "encode or drop"):
        fit(X=text)
    text = Y.astype(object)
    text[2, 0] = "dry"
    with refused(ValueError, "[yY] cannot be used", "'dry'", "encode or drop"):
        fit(Y=text)


@pytest.mark.parametrize("fit", FITS)
def test_one_row_and_no_rows_and_no_columns_are_refused(fit):
    with refused(ValueError, "1 row \\(n_samples=1\\), and 2 or more are needed", "pass more rows"):
        fit(X=X[:1], Y=Y[:1])
    with refused(ValueError, "0 rows", "pass more rows"):
        fit(X=X[:0], Y=Y[:0])
    with refused(ValueError, "0 feature", "at least one column"):
        fit(X=X[:, :0])
    with refused(ValueError, "1D array", "[Rr]eshape"):
        fit(X=X[:, 0])


def test_no_targets_are_refused():
    for fit in (fit_target, fit_both):
        with refused(ValueError, "0 feature", "y cannot be used", "at least one column"):
            fit(Y=Y[:, :0])
    with refused(ValueError, "y has 3 columns", "pass one target", "CTFARegressor"):
        FeatureAggregator().fit(X, Y)
    with refused(ValueError, "dim 3"):
        fit_target(Y=np.zeros((40, 3, 2)))


@pytest.mark.parametrize("fit", FITS)
def test_targets_are_required(fit):
    with refused(ValueError, "requires y to be passed", "None"):
        fit(Y=None)


@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize("n", [4, 5, 6, 7, 8])
def test_too_few_rows_for_least_squares_are_left_to_ridge_regression_without_a_word(fit, n):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = fit(X=X[:n], Y=Y[:n])
    if fit is fit_both:
        assert np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize("fit", [fit_target, fit_both])
@pytest.mark.parametrize("n", [4, 5, 6, 7])
def test_least_squares_that_was_asked_for_is_told_once_where_ridge_regression_judges(fit, n):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        fit(X=X[:n], Y=Y[:n], **LEAST_SQUARES)
    (warning,) = said
    assert f"X has {n} rows to learn from and 5 features" in str(warning.message)
    assert "Ridge regression is used in its place" in str(warning.message)


def test_the_rule_of_the_paper_refuses_too_few_rows():
    with refused(ValueError, "n_samples=7 rows and 5 features", "8 rows or more", "='risk'"):
        fit_target(X=X[:7], Y=Y[:7], criterion="mse", max_loss=0.0)


@pytest.mark.parametrize("fit", FITS)
def test_eight_rows_are_enough_for_five_features(fit):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "max_loss='auto' cannot be chosen")
        fit(X=X[:8], Y=Y[:8])


def test_folds_too_short_for_least_squares_choose_the_limit_by_ridge_regression():
    with pytest.warns(RuntimeWarning, match="X has 6 rows to learn from.*Ridge regression is used"):
        asked = fit_target(X=X[:8], Y=Y[:8], **LEAST_SQUARES)
    assert asked.cv_curve_ is not None


def test_folds_too_short_for_targets_with_gaps_say_so_and_fall_back():
    gappy = changed(Y[:9], 0, 0, np.nan)
    message = "fold 0 has 6 training rows.*needs 8.*1.5 is used"
    with pytest.warns(RuntimeWarning, match=message):
        model = fit_target(X=X[:9], Y=gappy, cv=PredefinedSplit([0, 0, 0, 1, 1, 1, 2, 2, 2]))
    assert model.max_loss_ == 1.5
    assert model.cv_curve_ is None


@pytest.mark.parametrize(
    ("n", "options"),
    [
        (3, {"max_loss": 1.5}),
        (8, {"criterion": "mse", "max_loss": 0.0}),
        (40, {"max_loss": 1.5}),
    ],
)
@pytest.mark.parametrize("gaps", [False, True])
def test_folds_that_choose_no_limit_are_no_reason_for_a_word(n, options, gaps):
    if gaps and n < 40:
        return  # least squares of targets with gaps wants rows
    targets = TargetAggregator(**options)
    values = np.where(np.arange(40)[:, None] < 8 * gaps, np.nan, Y)[:n]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = fit_both(X=X[:n], Y=values, targets=targets, features="passthrough")
        fit_both(X=X[:n], Y=values[:, 0], features="passthrough")
    assert model.max_loss_ == options["max_loss"]


def test_redundant_features_count_for_the_paper_and_not_for_the_risk():
    doubled = np.hstack([X, X])[:12]
    assert fit_target(X=doubled, Y=Y[:12], max_loss=1.5).n_groups_ >= 1
    with refused(ValueError, "n_samples=12 rows and 10 features", "redundant", "criterion='risk'"):
        fit_target(X=doubled, Y=Y[:12], criterion="mse", max_loss=0.0)


@pytest.mark.parametrize("fit", [fit_target, fit_both])
def test_rows_of_weight_zero_do_not_count_as_rows(fit):
    with pytest.warns(RuntimeWarning, match="X has 7 rows to learn from"):
        fit(weight=np.arange(40) < 7, **LEAST_SQUARES)


@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize("value", [0.0, 0.1, 1e9])
def test_constant_targets_are_refused(fit, value):
    constant = Y.copy()
    constant[:, 0] = value
    with refused(ValueError, "target 'y0?' is constant", "Leave it out"):
        fit(Y=constant)
    constant[30:] = Y[30:]
    with refused(ValueError, "is constant over the rows used"):
        fit(Y=constant, weight=np.arange(40) < 30)


def test_several_constant_targets_are_counted():
    with refused(ValueError, "target 'north' \\(and 1 more\\) is constant"):
        fit_target(Y=pd.DataFrame({"west": Y[:, 0], "north": 1.0, "south": 2.0}))


def test_a_mean_that_is_constant_is_named():
    opposite = np.column_stack([Y[:, 0], -Y[:, 0]])
    together = TargetAggregator(max_loss=np.inf)
    with refused(ValueError, "target 'mean\\(y0, y1\\)' is constant"):
        fit_both(Y=opposite, targets=together, features=FeatureAggregator())
    # Nothing in it speaks for groups of features, and none are looked for unless they are asked
    # for: the group tells nothing, and its members what they deviate by.
    model = fit_both(Y=opposite, targets=together)
    assert model.n_groups_ == 1
    assert model.features_[0].n_groups_ == 5
    np.testing.assert_allclose(model.group_coef_, 0.0, atol=1e-12)
    one, other = model.predict(X).T
    np.testing.assert_allclose(one, -other, atol=1e-9)
    assert np.corrcoef(one, Y[:, 0])[0, 1] > 0.5


@pytest.mark.parametrize("fit", FITS)
def test_mismatched_lengths_are_refused(fit):
    with refused(ValueError, "X has 40 rows and [yY] has 39", "same samples"):
        fit(Y=Y[:39])
    with refused(ValueError, "sample_weight has shape \\(39,\\)", "40 rows", "one weight"):
        fit(weight=np.ones(39))


@pytest.mark.parametrize("fit", FITS)
def test_bad_weights_are_refused(fit):
    for weight, words in [
        (-np.ones(40), ("negative", "smallest -1", "use 0")),
        (np.zeros(40), ("zero for every row", "positive weight")),
        (np.full(40, np.nan), ("NaN or infinity", "use 0")),
        (np.full(40, np.inf), ("NaN or infinity", "use 0")),
        (["heavy"] * 40, ("cannot be used", "heavy", "each row")),
        (np.ones((40, 2)), ("shape \\(40, 2\\)", "one weight")),
    ]:
        with refused(ValueError, "sample_weight", *words):
            fit(weight=weight)


def test_weights_are_refused_for_a_regressor_that_ignores_them():
    with refused(ValueError, "sample_weight", "KNeighborsRegressor.fit does not take it"):
        fit_both(regressor=KNeighborsRegressor(), weight=np.arange(40) + 1)


# -- Options ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("fit", [fit_target, fit_feature])
@pytest.mark.parametrize("value", ["biggest", None, 3])
def test_unknown_criteria_and_scans_are_refused(fit, value):
    with refused(ValueError, f"criterion={value!r} is not known", "'risk'", "callable"):
        fit(criterion=value)
    with refused(ValueError, f"scan={value!r} is not known", "'best-first', .*'restart'"):
        fit(scan=value)


def test_criteria_belong_to_a_phase():
    with refused(ValueError, "criterion='r2'", "'risk', 'mse', 'corollary'"):
        fit_target(criterion="r2")
    with refused(ValueError, "criterion='mse'", "'risk', 'r2', 'feature-mse'"):
        fit_feature(criterion="mse")


@pytest.mark.parametrize(
    "order", ["alphabetical", None, [0, 1], [0, 0, 1, 2, 3], list("abcde"), [[0, 1, 2, 3, 4]], 3]
)
def test_an_order_is_a_permutation(order):
    for fit, last in ((fit_target, 2), (fit_feature, 4)):
        with refused(ValueError, "order=", "'given', 'random', 'correlation'", f"0 to {last} once"):
            fit(order=order)


def test_unknown_names_are_refused():
    with refused(ValueError, "scale='unit'", "'standard', 'center', 'none'"):
        fit_target(scale="unit")
    with refused(ValueError, "algorithm='best'", "'authors', 'printed'"):
        nonlinctfa(algorithm="best")
    with refused(ValueError, "targets='skip'", "TargetAggregator", "'passthrough'"):
        fit_both(targets="skip")
    with refused(ValueError, "features='skip'", "FeatureAggregator", "'passthrough'"):
        fit_both(features="skip")
    with refused(TypeError, "targets=FeatureAggregator\\(\\)", "use a TargetAggregator"):
        fit_both(targets=FeatureAggregator())
    with refused(TypeError, "regress", "get_params|estimator"):
        fit_both(regressor="regress")


@pytest.mark.parametrize("value", ["much", None, np.nan, True, [1.0]])
def test_a_limit_is_a_number(value):
    for use in (
        lambda: fit_target(max_loss=value),
        lambda: fit_feature(max_loss=value),
        lambda: target_path(X, Y, [value]),
        lambda: nonlinctfa(value),
        lambda: nonlinctfa(0.0, value),
    ):
        with refused(ValueError, "max_loss|epsilon", "NaN|is not a number", "pass a number"):
            use()


def test_a_path_needs_several_limits():
    for path, target in ((target_path, Y), (feature_path, Y[:, 0])):
        for value in (1.0, "auto", None):
            with refused(TypeError, "max_losses=", "not a list of numbers"):
                path(X, target, value)


def test_auto_is_refused_where_it_is_not_available():
    for criterion in ("mse", "corollary"):
        with refused(ValueError, "'auto' goes with criterion='risk'", criterion, "number"):
            fit_target(criterion=criterion)
    for scan in ("grow", "restart"):
        with refused(ValueError, "'auto' goes with scan='best-first'", scan, "number"):
            fit_target(scan=scan)
    for criterion in ("r2", "feature-mse"):
        with refused(ValueError, "'auto' goes with criterion='risk'", criterion, "number"):
            fit_feature(criterion=criterion)


@pytest.mark.parametrize("value", ["high", None, np.nan, 1.5, -2])
def test_min_correlation_is_a_correlation(value):
    with refused(ValueError, "min_correlation", "number from -1 to 1"):
        fit_feature(min_correlation=value)


@pytest.mark.parametrize(
    ("cv", "words"),
    [
        (50, ("n_splits=50", "n_samples=40")),
        (40, ("fold 0", "1 test rows", "fewer folds")),
        (1, ("cannot split 40 rows",)),
        ("many", ("cannot split", "many")),
        (GroupKFold(3), ("cannot split", "groups")),
        ([], ("no folds", "two or more")),
        ([([0, 1, 2, 3], [4])], ("fold 0", "1 test rows")),
        ([([0, 1, 2, 3], [4, 99])], ("row 99", "40 rows")),
        (PredefinedSplit([0, 0, 1, 1] * 25), ("row 99", "40 rows")),
    ],
)
def test_folds_that_cannot_judge_are_refused(cv, words):
    with refused(ValueError, "cv", *words):
        fit_feature(criterion="r2", max_loss=1e-4, cv=cv)


def test_folds_are_refused_for_a_criterion_in_sample():
    for criterion in ("risk", "feature-mse"):
        with refused(ValueError, "cv=5", f"criterion='{criterion}' is judged in sample", "cv=None"):
            fit_feature(criterion=criterion, max_loss=1.0, cv=5)


def test_folds_in_which_the_target_never_varies_are_refused():
    y = np.repeat([1.0, 2.0, 3.0, 4.0], 10)
    with refused(ValueError, "constant over the test rows of every fold", "Shuffle"):
        fit_feature(Y=y, criterion="r2", max_loss=1e-4, cv=4)


def test_unknown_options_of_the_phases_are_refused():
    for option in ({"guard": "group"}, {"flip": "yes"}):
        with refused(ValueError, f"{next(iter(option))}=", "use"):
            fit_target(**option)
    for head in ("median", "shrink"):
        for kind in (
            CTFARegressor(head=head),
            CTFARegressorCV(head=head),
            MultiInputCTFARegressor([[0, 1], [1, 2], [3, 4]], head=head),
        ):
            with refused(ValueError, f"head='{head}' is not known; use one of 'levels', 'mean'"):
                kind.fit(X, Y)
    for aggregator in (TargetAggregator, FeatureAggregator):
        with refused(TypeError, "unexpected keyword argument 'solver'"):
            aggregator(solver="ridge")


@pytest.mark.parametrize("regressor", ["ridge", Ridge, object()])
def test_what_judges_merges_is_a_regressor(regressor):
    with refused(TypeError, "regressor=", "not an estimator", "RidgeCV\\(\\)"):
        fit_target(regressor=regressor)
    with refused(TypeError, "regressor=", "not an estimator"):
        fit_both(targets=TargetAggregator(regressor=regressor))


def test_tasks_of_their_own_are_judged_by_regressors_that_can_be_fitted():
    words = "is not an estimator"
    targets = TargetAggregator(regressor=RandomForestRegressor)
    with refused(TypeError, "regressor=", words):
        MultiInputCTFARegressor([[0, 1], [1, 2], [3, 4]], targets=targets).fit(X, Y)
    with refused(TypeError, "regressor=", words):
        PooledCTFARegressor(targets=targets).fit(X, Y[:, 0], tasks=np.arange(len(X)) % 3)


def test_tasks_with_rows_of_their_own_are_not_judged_by_ridge():
    targets = TargetAggregator(regressor=Ridge())
    with refused(ValueError, "regressor=", "is not available in PooledCTFARegressor"):
        PooledCTFARegressor(targets=targets).fit(X, Y[:, 0], tasks=np.arange(len(X)) % 3)


def test_what_serves_groups_need_not_judge_merges():
    targets = TargetAggregator(max_loss=1.5, regressor=LinearRegression())
    expected = fit_target(max_loss=1.5)
    for regressor in (RandomForestRegressor(3), Ridge(fit_intercept=False), RidgeCV(cv=3)):
        model = fit_both(regressor=regressor, targets=targets)
        np.testing.assert_array_equal(model.history_.loss, expected.history_.loss)


@pytest.mark.parametrize(
    "regressor",
    [Ridge(-1.0), Ridge("much"), Ridge(np.nan), RidgeCV([]), RidgeCV([1.0, -2.0]), RidgeCV(None)],
    ids=str,
)
def test_penalties_of_what_judges_are_numbers(regressor):
    with refused(ValueError, "alphas?=", "judges merges", "finite numbers of zero or more"):
        fit_target(regressor=regressor)


def test_ridge_regression_is_refused_for_a_criterion_that_it_cannot_judge():
    for regressor, name in ((Ridge(), "Ridge\\(\\)"), (RidgeCV([1.0]), "RidgeCV\\(")):
        for criterion in ("mse", "corollary"):
            words = (f"regressor={name}.* goes with criterion='risk'", f"not with '{criterion}'")
            with refused(ValueError, *words):
                fit_target(regressor=regressor, criterion=criterion, max_loss=0.0)
            # A criterion of least squares is judged by it, whoever serves.
            targets = TargetAggregator(criterion, max_loss=0.0)
            expected = fit_both(regressor=LinearRegression(), targets=targets).history_
            for judge in (None, LinearRegression()):
                model = fit_both(regressor=regressor, targets=targets.set_params(regressor=judge))
                np.testing.assert_array_equal(model.history_.loss, expected.loss)


def test_levels_are_refused_for_means_of_targets_in_raw_units():
    raw = TargetAggregator(max_loss=1.5, scale="none")
    for kind in (CTFARegressor, CTFARegressorCV):
        with refused(ValueError, "head='levels'", "scale='none'", "'standard' or 'center'", "mean"):
            kind(targets=raw).fit(X, Y)
        for options in ({"head": "mean"}, {"regressor": LinearRegression()}):
            assert kind(targets=raw, features="passthrough", **options).fit(X, Y).n_groups_ <= 3
    with refused(ValueError, "head='levels'", "scale='none'"):
        CTFARegressor(targets=raw).partial_fit(X, Y)


# -- Graphs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("graph", "words"),
    [
        (np.ones((3, 2)), ("shape \\(3, 2\\)", "not square")),
        (np.ones(3), ("shape", "not square")),
        (sparse.eye(9, format="csr"), ("9 x 9", "there are [35]")),
        ("neighbours", ("type str", "sparse or dense matrix")),
        (lambda variables: "neighbours", ("type str", "callable")),
        ([], ("is empty", "pairs of positions", "None")),
        (np.empty((0, 2), dtype=int), ("is empty",)),
        ([(0, 1, 1.0), (1, 2, 0.5)], ("shape \\(2, 3\\)", "pairs of positions")),
        ([("x0", "x1"), ("x1", "x2")], ("type list", "pairs of positions")),
    ],
)
def test_a_graph_is_a_square_matrix_of_the_right_size(graph, words):
    for fit in (fit_target, fit_feature):
        with refused(ValueError, "connectivity", *words):
            fit(connectivity=graph)


@pytest.mark.parametrize(("fit", "size"), [(fit_target, 3), (fit_feature, 5)])
def test_a_graph_is_symmetric_and_finite(fit, size):
    with refused(ValueError, "connectivity is not symmetric", "graph.maximum\\(graph.T\\)"):
        fit(connectivity=np.triu(np.ones((size, size))))
    with refused(ValueError, "connectivity contains NaN", "use 0"):
        fit(connectivity=np.full((size, size), np.nan))


# -- After fit -------------------------------------------------------------------------------------


def test_nothing_can_be_asked_before_fit():
    for use in (
        lambda: TargetAggregator().transform(Y),
        lambda: TargetAggregator().inverse_transform(Y),
        lambda: TargetAggregator().get_group_names_out(),
        lambda: FeatureAggregator().transform(X),
        lambda: FeatureAggregator().inverse_transform(X),
        lambda: FeatureAggregator().get_feature_names_out(),
        lambda: CTFARegressor().predict(X),
        lambda: CTFARegressor().reduce(X, Y),
        lambda: CTFARegressor().score_per_target(X, Y),
    ):
        with refused(NotFittedError, "not fitted yet"):
            use()


def test_other_numbers_of_columns_are_refused():
    model, features = fit_both(), fit_feature()
    for use in (model.predict, features.transform, lambda X: model.reduce(X, Y)):
        with refused(ValueError, "X has 4 features", "expecting 5 features"):
            use(X[:, :4])
    with refused(ValueError, "Y has 2 columns", "seen 3 targets"):
        model.targets_.transform(Y[:, :2])
    with refused(ValueError, "y has 2 columns", "seen 3 targets"):
        model.reduce(X, Y[:, :2])
    with refused(ValueError, "Z has 9 columns", f"seen {model.n_groups_} groups"):
        model.targets_.inverse_transform(np.ones((4, 9)))
    with refused(ValueError, "X has 9 columns", f"seen {features.n_groups_} groups"):
        features.inverse_transform(np.ones((4, 9)))
    with refused(ValueError, "X has 40 rows and y has 9"):
        model.score_per_target(X, Y[:9])


def test_gaps_are_refused_after_fit():
    model, features = fit_both(), fit_feature()
    for use in (model.predict, features.transform):
        with refused(ValueError, "Input X contains NaN"):
            use(changed(X, 0, 0, np.nan))
    with refused(ValueError, "Input Y contains infinity at row 0", "use NaN"):
        model.targets_.transform(changed(Y, 0, 0, np.inf))


def test_a_regressor_that_predicts_nan_is_named():
    class Broken(KNeighborsRegressor):
        def predict(self, X):
            return np.full(len(X), np.nan)

    cheap = TargetAggregator(regressor=LinearRegression())
    with refused(ValueError, "Broken of group 0 predicted NaN"):
        fit_both(regressor=Broken(), targets=cheap).predict(X)
    with refused(ValueError, "Broken cannot judge", "predicted NaN", "TargetAggregator"):
        fit_both(regressor=Broken())


def test_stability_says_how_to_get_it():
    model = fit_both()
    with refused(AttributeError, "stability_ is computed on request", r"stability\(X, y\)"):
        model.stability_  # noqa: B018


def test_dates_are_not_taken_for_numbers():
    days = np.arange("2000-01-01", "2000-02-10", dtype="datetime64[D]")
    X, Y = np.random.default_rng(0).normal(size=(2, days.size, 3))
    frame = pd.DataFrame(X, columns=list("abc"))
    for bad in (days[:, None], frame.assign(day=days), pl.DataFrame({"a": X[:, 0], "day": days})):
        with pytest.raises(ValueError, match="X contains dates"):
            CTFARegressor().fit(bad, Y)
    with pytest.raises(ValueError, match="y contains dates"):
        CTFARegressor().fit(X, frame.assign(day=days))


def test_an_aggregator_is_no_regressor():
    with refused(TypeError, "TargetAggregator.* cannot predict", "as targets="):
        CTFARegressor(TargetAggregator()).fit(X, Y)


def test_groups_make_folds_of_groups():
    labels = np.repeat(np.arange(8), 5)
    model = fit_target()
    grouped = TargetAggregator(cv=4).fit(X, Y, groups=labels)
    spelled = TargetAggregator(cv=GroupKFold(4)).fit(X, Y, groups=labels)
    np.testing.assert_array_equal(grouped.cv_curve_.fold_errors, spelled.cv_curve_.fold_errors)
    assert model.cv_curve_.fold_errors.shape[0] == 10
    with refused(ValueError, "groups", "Pass groups= to fit"):
        TargetAggregator(cv=GroupKFold(4)).fit(X, Y)


# -- Dates and weights that are no numbers to compute with -----------------------------------------

DAYS = np.datetime64("2000-01-01") + np.arange(40)
HOURS = np.arange(40).astype("timedelta64[h]")
DATES = {
    "numpy": DAYS,
    "durations": HOURS,
    "objects": DAYS.astype(object),
    "duration objects": np.array(list(HOURS), dtype=object),
    "list": list(HOURS),
    "pandas": pd.Series(DAYS),
    "pandas zone": pd.Series(pd.date_range("2000", periods=40, tz="UTC")),
    "pandas objects": pd.Series(list(DAYS.astype(object)), dtype=object),
    "polars": pl.Series([datetime.date(2000, 1, 1)] * 20 + [datetime.date(2001, 1, 1)] * 20),
    "polars duration": pl.Series([datetime.timedelta(hours=hour) for hour in range(40)]),
}
IDS = np.repeat(np.arange(4), 10)
LAYOUT = [[0, 1], [2, 3], [3, 4]]
TAKES_DATES = {
    "FeatureAggregator y": lambda dates: FeatureAggregator().fit(X, dates),
    "feature_path y": lambda dates: feature_path(X, dates, [1.0]),
    "FeatureAggregator.partial_fit y": lambda dates: FeatureAggregator().partial_fit(X, dates),
    "PooledCTFARegressor y": lambda dates: PooledCTFARegressor().fit(X, dates, tasks=IDS),
    "PooledCTFARegressor.partial_fit y": lambda dates: PooledCTFARegressor().partial_fit(
        X, dates, tasks=IDS
    ),
    "CTFARegressor Y": lambda dates: CTFARegressor().fit(X, dates),
    "sample_weight": lambda dates: fit_both(weight=dates),
    "sample_weight of features": lambda dates: fit_feature(weight=dates),
    "sample_weight of own inputs": lambda dates: MultiInputCTFARegressor(LAYOUT).fit(X, Y, dates),
    "sample_weight of a score": lambda dates: fit_both().score(X, Y, dates),
    "target_weight": lambda dates: CTFARegressor().fit(X, Y, target_weight=dates[1:4]),
    "confounds": lambda dates: CTFARegressor().fit(X, Y, confounds=dates),
}


@pytest.mark.parametrize("kind", DATES)
@pytest.mark.parametrize("door", TAKES_DATES)
def test_dates_are_not_taken_for_the_numbers_that_encode_them(door, kind):
    with refused(ValueError, "contains dates or durations", "turn them into numbers"):
        TAKES_DATES[door](DATES[kind])


@pytest.mark.parametrize("pair", [(1e-300, 1e300), (5e-324, 1.0), (1.0, 1e200), (1e307, 1.7e308)])
@pytest.mark.parametrize("n_large", [1, 20])
def test_weights_that_overflow_or_vanish_are_refused(pair, n_large):
    weights = np.full(40, pair[0])
    weights[:n_large] = pair[1]
    words = "to compute with", "only their ratios count"
    for fit in FITS:
        with refused(ValueError, "sample_weight contains", *words):
            fit(weight=weights)
    with refused(ValueError, "sample_weight contains", *words):
        PooledCTFARegressor().fit(X, Y[:, 0], tasks=IDS, sample_weight=weights)
    with refused(ValueError, "sample_weight contains", *words):
        MultiInputCTFARegressor(LAYOUT).fit(X, Y, weights)
    with refused(ValueError, "sample_weight contains", *words):
        CTFARegressor().partial_fit(X, Y, weights)
    with refused(ValueError, "sample_weight contains", *words):
        fit_both().score(X, Y, weights)
    with refused(ValueError, "target_weight contains", *words):
        CTFARegressor().fit(X, Y, target_weight=[*pair, 1.0])


def test_weights_of_every_moderate_size_are_taken():
    weights = np.where(np.arange(40) % 4 == 0, 1e-70, 1e70)
    weights[1::4] = 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for fit in FITS:
            fit(weight=weights)


# -- Whole numbers that float64 has not ------------------------------------------------------------

LARGE = 2**60 + np.arange(200).reshape(40, 5) ** 2


def as_dask(table):
    return pytest.importorskip("dask.array").from_array(table, chunks=(10, 5))


WAYS = {
    "array": np.asarray,
    "unsigned": lambda table: table.astype(np.uint64),
    "objects": lambda table: table.astype(object),
    "list": lambda table: table.tolist(),
    "pandas": lambda table: pd.DataFrame(table).add_prefix("x"),
    "nullable": lambda table: pd.DataFrame(table).add_prefix("x").astype("Int64"),
    "polars": pl.DataFrame,
    "dask": as_dask,
}


@pytest.mark.parametrize("way", WAYS)
def test_whole_numbers_that_would_be_rounded_are_refused(way):
    # Rounded, the first sixteen are all the same.
    with refused(ValueError, "the whole number 1152921504606", "beyond 2", "subtract"):
        CTFARegressor().fit(WAYS[way](LARGE), WAYS[way](LARGE) if way == "dask" else Y)
    with refused(ValueError, "the whole number 1152921504606", "beyond 2", "subtract"):
        TargetAggregator().fit(WAYS[way](X) if way == "dask" else X, WAYS[way](LARGE))
    with refused(ValueError, "the whole number 1152921504606", "beyond 2"):
        CTFARegressor().partial_fit(X, LARGE)


@pytest.mark.parametrize("way", WAYS)
def test_whole_numbers_that_float64_has_are_taken(way):
    exact = (LARGE - 2**60) * 2**40
    inputs = WAYS[way](X.round(3)) if way == "dask" else X
    assert TargetAggregator(max_loss=1.0).fit(inputs, WAYS[way](exact)).n_groups_ <= 5


def test_a_trend_in_nanoseconds_is_refused_where_it_would_be_rounded():
    with refused(ValueError, "confounds contains the whole number", "later start"):
        CTFARegressor().fit(X, Y, confounds=LARGE[:, :1] + 1)


# -- Missing features that only the regressor takes ------------------------------------------------


def test_missing_features_reach_a_regressor_that_takes_them_where_nothing_is_merged():
    gaps = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
    boosted = HistGradientBoostingRegressor(max_iter=5, min_samples_leaf=5)
    apart = {"targets": "passthrough", "features": "passthrough", "head": "mean"}
    model = CTFARegressor(boosted, **apart).fit(gaps, Y)
    expected = np.column_stack([clone(boosted).fit(gaps, y).predict(gaps) for y in Y.T])
    np.testing.assert_array_equal(model.predict(gaps), expected)
    merged = CTFARegressor(boosted, features="passthrough", head="mean").fit(X, Y)
    assert np.isfinite(merged.predict(gaps)).all()
    for options in ({}, *({**apart, name: None} for name in ("targets", "features"))):
        assert np.isfinite(CTFARegressor(boosted, **options).fit(gaps, Y).predict(gaps)).all()
    cheap = TargetAggregator(regressor=LinearRegression())
    for options in ({"targets": cheap}, {"features": FeatureAggregator()}):
        with refused(ValueError, "contains NaN", "the regressor accepts missing", "'passthrough'"):
            CTFARegressor(boosted, **options).fit(gaps, Y)
    with refused(ValueError, "contains NaN", "fill the gaps or drop"):
        CTFARegressor(**apart).fit(gaps, Y)


@pytest.mark.parametrize("n", [2, 3])
def test_rows_that_make_no_folds_are_told_and_the_usual_limit_used(n):
    with pytest.warns(RuntimeWarning, match=f"cannot be chosen on {n} rows.*usual limit"):
        model = fit_target(X=X[:n], Y=Y[:n])
    assert model.max_loss_ == 1.5
