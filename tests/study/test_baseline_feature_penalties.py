"""OSCAR and the clustered lasso: equal coefficients by a penalty on pairs of features."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso, LinearRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from ctfa_study.baselines import ClusteredLassoRegressor, OSCARRegressor, SingleTaskRegressor
from ctfa_study.baselines._feature_penalties import PairsNorm, SortedNorm
from generated import examples

D = 6
KINDS = pytest.mark.parametrize("kind", [ClusteredLassoRegressor, OSCARRegressor])
PENALTIES = pytest.mark.parametrize("penalties", [(0.1, 0.02), (0.0, 0.03), (0.2, 0.0)])


def problem(seed=0, n=25):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D)) + 0.7 * rng.normal(size=(n, 1)) + 1.0
    return X, X @ [1.0, 1.0, -1.0, 0.5, 0.0, 0.0] + rng.normal(size=n) + 3.0


def pairs(coef, kind):
    """Sum over pairs, written out."""
    if kind is OSCARRegressor:
        coef = np.abs(coef)
        return sum(max(coef[j], coef[k]) for j in range(len(coef)) for k in range(j))
    return sum(abs(coef[j] - coef[k]) for j in range(len(coef)) for k in range(j))


def objective(X, y, coef, kind, alpha, of_pairs):
    left = (y - y.mean()) - (X - X.mean(axis=0)) @ coef
    return 0.5 * np.mean(left**2) + alpha * np.abs(coef).sum() + of_pairs * pairs(coef, kind)


@KINDS
@PENALTIES
def test_the_optimum_is_that_of_a_generic_convex_solver(kind, penalties):
    cp = pytest.importorskip("cvxpy", reason="the independent solver is cvxpy")
    X, y = problem()
    alpha, of_pairs = penalties
    b, level = cp.Variable(D), cp.Variable()
    terms = []
    for j in range(D):
        for k in range(j):
            if kind is OSCARRegressor:
                terms.append(cp.maximum(cp.abs(b[j]), cp.abs(b[k])))
            else:
                terms.append(cp.abs(b[j] - b[k]))
    loss = cp.sum_squares(y - X @ b - level) / (2 * len(y))
    whole = loss + alpha * cp.norm1(b) + of_pairs * sum(terms)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        best = cp.Problem(cp.Minimize(whole)).solve(solver="CLARABEL")
    model = kind(alpha, of_pairs).fit(X, y)
    assert objective(X, y, model.coef_[0], kind, alpha, of_pairs) == pytest.approx(best, rel=1e-5)
    np.testing.assert_allclose(model.coef_[0], b.value, atol=3e-3)
    assert model.intercept_[0] == pytest.approx(float(level.value), abs=3e-3)
    assert model.gap_[0] <= model.tol


@KINDS
def test_tasks_are_fitted_one_by_one_from_shared_and_from_own_rows(kind):
    X, y = problem()
    other = problem(1)[1]
    both = kind().fit(X, np.column_stack((y, other)))
    one, two = kind().fit(X, y), kind().fit(X, other)
    np.testing.assert_allclose(both.coef_, np.concatenate((one.coef_, two.coef_)), atol=1e-10)
    np.testing.assert_array_equal(both.groups_, np.concatenate((one.groups_, two.groups_)))
    rows, ids = np.tile(X, (2, 1)), np.repeat(["a", "b"], len(X))
    own = kind().fit(rows, np.r_[y, other], tasks=ids)
    np.testing.assert_allclose(own.coef_, both.coef_, atol=1e-10)


numbers = st.floats(-3, 3, allow_subnormal=False)


@KINDS
@given(
    arrays(float, 4, elements=numbers), st.floats(0, 1), st.floats(0.01, 0.5), st.floats(0.05, 2.0)
)
@settings(max_examples=examples(60), deadline=None)
def test_the_prox_beats_every_point_that_a_generic_minimiser_finds(
    kind, point, alpha, of_pairs, step
):
    if kind is OSCARRegressor:
        norm = SortedNorm(alpha + of_pairs * np.arange(3.0, -1.0, -1.0))
    else:
        norm = PairsNorm(alpha, of_pairs, 4)

    def value(b):
        penalty = alpha * np.abs(b).sum() + of_pairs * pairs(b, kind)
        return 0.5 * np.sum((b - point) ** 2) + step * penalty

    ours = norm.prox(point[None, None], step).ravel()
    options = {"maxiter": 400, "xatol": 1e-10, "fatol": 1e-12}
    for start in (ours, point):
        found = minimize(value, start, method="Nelder-Mead", options=options)
        assert value(ours) <= found.fun + 1e-9


@given(arrays(float, 5, elements=numbers), arrays(float, 5, elements=numbers))
def test_norms_are_those_of_the_pairs_and_bound_every_product(coef, gradient):
    clustered = PairsNorm(0.3, 0.2, 5)
    oscar = SortedNorm(0.3 + 0.2 * np.arange(4.0, -1.0, -1.0))
    for norm, kind in ((clustered, ClusteredLassoRegressor), (oscar, OSCARRegressor)):
        expected = 0.3 * np.abs(coef).sum() + 0.2 * pairs(coef, kind)
        assert norm.value(coef[None, None]) == pytest.approx(expected, abs=1e-12)
        bound = expected * norm.dual_norm(gradient[None])
        assert coef @ gradient <= bound * (1 + 1e-9) + 1e-9


@given(arrays(float, 4, elements=st.floats(-3, 3, allow_subnormal=False)))
@settings(max_examples=examples(40), deadline=None)
def test_the_dual_norm_is_reached(gradient):
    corners = np.stack(np.meshgrid(*[[-1.0, 0.0, 1.0]] * 4), axis=-1).reshape(-1, 4)
    corners = corners[np.abs(corners).any(axis=1)]
    for norm in (PairsNorm(0.3, 0.2, 4), SortedNorm(0.3 + 0.2 * np.arange(3.0, -1.0, -1.0))):
        reached = max(corner @ gradient / norm.value(corner[None, None]) for corner in corners)
        assert norm.dual_norm(gradient[None]) == pytest.approx(reached, abs=1e-9)


@KINDS
@pytest.mark.parametrize("alpha", [0.0, 0.1])
@pytest.mark.parametrize("max_iter", [1, 5, 20])
def test_the_gap_bounds_what_is_still_to_be_gained(kind, alpha, max_iter):
    X, y = problem()
    best = kind(alpha, 0.02, tol=1e-13, max_iter=100_000).fit(X, y).coef_[0]
    with pytest.warns(ConvergenceWarning, match=f"max_iter={max_iter} steps"):
        early = kind(alpha, 0.02, tol=0.0, max_iter=max_iter).fit(X, y)
    left = objective(X, y, early.coef_[0], kind, alpha, 0.02) - objective(
        X, y, best, kind, alpha, 0.02
    )
    assert 0.0 <= left <= early.gap_[0] * 0.5 * y.var() * (1 + 1e-9)


@KINDS
def test_without_pairs_it_is_the_lasso_and_without_anything_least_squares(kind):
    X, y = problem()
    expected = Lasso(0.2, tol=1e-12).fit(X, y).coef_
    np.testing.assert_allclose(kind(0.2, 0.0).fit(X, y).coef_[0], expected, atol=2e-3)
    expected = LinearRegression().fit(X, y)
    model = kind(0, 0).fit(X, y)
    np.testing.assert_allclose(model.coef_[0], expected.coef_)
    assert model.intercept_[0] == pytest.approx(expected.intercept_)


@KINDS
def test_all_coefficients_are_zero_from_a_largest_penalty_on_and_not_before(kind):
    X, y = problem()
    cross = np.abs((X - X.mean(axis=0)).T @ (y - y.mean()) / len(y))
    # Along the sum of k features of either sign OSCAR gains their moments and pays for them.
    count = np.arange(1, D + 1)
    price = count + 0.1 * (D * (D - 1) / 2 - (D - count) * (D - count - 1) / 2)
    if kind is ClusteredLassoRegressor:
        signed = np.sort((X - X.mean(axis=0)).T @ (y - y.mean()) / len(y))
        price = count + 0.1 * count * (D - count)
        top = np.maximum(np.cumsum(signed[::-1]), -np.cumsum(signed))
        largest = np.max(top / price)
    else:
        largest = np.max(np.cumsum(np.sort(cross)[::-1]) / price)
    assert not kind(1.001 * largest, 0.1001 * largest).fit(X, y).coef_.any()
    assert kind(0.99 * largest, 0.099 * largest).fit(X, y).coef_.any()


def test_a_large_penalty_on_differences_makes_all_coefficients_those_of_the_sum():
    X, y = problem()
    model = ClusteredLassoRegressor(0.0, 100.0).fit(X, y)
    slope = LinearRegression().fit(X.sum(axis=1, keepdims=True), y).coef_[0]
    np.testing.assert_allclose(model.coef_[0], slope)
    assert not model.groups_.any()


def test_features_that_add_up_to_a_constant_have_no_common_shift():
    X, y = problem()
    X = X - X.mean(axis=1, keepdims=True)
    model = ClusteredLassoRegressor(0.0, 0.02).fit(X, y)
    assert model.gap_[0] <= 1e-8
    assert model.coef_[0].mean() == pytest.approx(0.0, abs=1e-9)


@KINDS
def test_copies_of_a_feature_have_equal_coefficients_and_one_group(kind):
    X, y = problem()
    X = np.column_stack((X, X[:, 0]))
    model = kind(0.01, 0.02).fit(X, y)
    assert model.coef_[0, 0] == pytest.approx(model.coef_[0, -1], abs=1e-12)
    assert model.groups_[0, 0] == model.groups_[0, -1]
    values = model.coef_[0] if kind is ClusteredLassoRegressor else np.abs(model.coef_[0])
    for j in range(D + 1):
        same = model.groups_[0] == model.groups_[0, j]
        np.testing.assert_array_equal(same, values == values[j])
    assert model.groups_[0, 0] == 0


@KINDS
def test_features_may_be_given_in_any_order(kind):
    X, y = problem()
    order = np.array([3, 0, 5, 1, 4, 2])
    before = kind().fit(X, y).coef_[0]
    np.testing.assert_allclose(kind().fit(X[:, order], y).coef_[0], before[order], atol=2e-3)


def test_oscar_does_not_see_signs_and_the_clustered_lasso_does():
    X, y = problem()
    signs = np.array([1.0, -1.0, 1.0, -1.0, 1.0, 1.0])
    before = OSCARRegressor(0.05, 0.05).fit(X, y).coef_[0]
    np.testing.assert_allclose(
        OSCARRegressor(0.05, 0.05).fit(X * signs, y).coef_[0], signs * before, atol=2e-3
    )
    before = ClusteredLassoRegressor(0.05, 0.05).fit(X, y).coef_[0]
    after = ClusteredLassoRegressor(0.05, 0.05).fit(X * signs, y).coef_[0]
    assert np.abs(after - signs * before).max() > 0.05


@KINDS
def test_features_and_targets_that_do_not_vary_have_no_coefficients(kind):
    X, y = problem()
    assert not kind().fit(X, np.ones_like(y)).coef_.any()
    assert not kind().fit(np.ones_like(X), y).coef_.any()
    some = X * (np.arange(D) > 0)
    assert kind().fit(some, y).coef_[0, 0] == pytest.approx(0.0, abs=0.2)


@KINDS
def test_on_groups_of_like_features_it_beats_least_squares(kind):
    truth = np.repeat([1.0, 0.0, 0.5], 5)
    covariance = 0.36 * np.eye(15) + 0.64 * np.kron(np.eye(3), np.ones((5, 5)))
    ours, theirs = [], []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(30, 15)) @ np.linalg.cholesky(covariance).T
        y = X @ truth + rng.normal(size=30)
        away = kind(0.01, 0.01).fit(X, y).coef_[0] - truth
        ours.append(away @ covariance @ away)
        away = SingleTaskRegressor().fit(X, y).regressors_[0].coef_ - truth
        theirs.append(away @ covariance @ away)
    assert np.mean(ours) < 0.65 * np.mean(theirs)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"alpha": -1}, "alpha=-1 must be finite and not negative"),
        ({"alpha_pairs": "x"}, "alpha_pairs='x' is not a number"),
        ({"max_iter": 0}, "max_iter=0 is not a count"),
    ],
)
@KINDS
def test_options_that_make_no_sense_are_refused_in_words(kind, options, words):
    X, y = problem()
    with pytest.raises(ValueError, match=words):
        kind(**options).fit(X, y)


CHECKS = parametrize_with_checks([ClusteredLassoRegressor(), OSCARRegressor()]).mark
NAMES, CASES = CHECKS.args


@pytest.mark.parametrize(NAMES, list(CASES), **CHECKS.kwargs)
def test_scikit_learns_checks_pass(estimator, check):
    check(estimator)
