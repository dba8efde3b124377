"""Penalised least squares of several tasks: the optimum, its certificate, what it is good for."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression, MultiTaskLasso, Ridge
from sklearn.utils.estimator_checks import parametrize_with_checks

from ctfa_study.baselines import (
    DirtyRegressor,
    L21Regressor,
    MeanRegularizedRegressor,
    SingleTaskRegressor,
    TraceNormRegressor,
)
from ctfa_study.baselines._matrix_penalties import DirtyNorm, L21Norm, TraceNorm, onto_sum_ball
from ctfa_study.baselines._proximal import duality_gap, solve
from ctfa_study.baselines._tasks import TaskData
from generated import examples

T, D = 4, 5
PENALISED = [
    TraceNormRegressor(0.2, tol=1e-12),
    L21Regressor(0.2, tol=1e-12),
    DirtyRegressor(0.1, 0.2, tol=1e-12),
]
NORMS = [TraceNorm(0.2), L21Norm(0.2), DirtyNorm(0.1, 0.2)]
OWN = pytest.mark.parametrize("own", [False, True], ids=["shared rows", "own rows"])


def problem(own, seed=0):
    """Rows, targets and ids (None where every row is every task's), tasks of unequal size."""
    rng = np.random.default_rng(seed)
    sizes = np.array([25] * T if not own else [3, 12, 20, 31])
    W = rng.normal(size=(T, D)) * [1.0, 1.0, 0.5, 0.0, 0.0]
    if not own:
        X = rng.normal(size=(25, D)) + 1.0
        return X, X @ W.T + rng.normal(size=(25, T)), None
    ids = rng.permutation(np.repeat(np.arange(T), sizes))
    X = rng.normal(size=(ids.size, D)) + 1.0
    return X, np.einsum("ij,ij->i", X, W[ids]) + rng.normal(size=ids.size), ids


def moments_of(own, seed=0):
    X, Y, ids = problem(own, seed)
    return TaskData(X, Y, ids, T).moments


def objective_in_cvxpy(cp, own, norm):
    """The optimum, with the data and the intercepts written out."""
    X, Y, ids = problem(own)
    S, B, b = cp.Variable((T, D)), cp.Variable((T, D)), cp.Variable(T)
    W = S + B if isinstance(norm, DirtyNorm) else S
    loss = 0
    for t in range(T):
        rows, y = (X, Y[:, t]) if ids is None else (X[ids == t], Y[ids == t])
        loss += cp.sum_squares(y - rows @ W[t] - b[t]) / (2 * len(y))
    if isinstance(norm, TraceNorm):
        penalty = 0.2 * cp.normNuc(S)
    elif isinstance(norm, L21Norm):
        penalty = 0.2 * cp.sum(cp.norm(S, 2, axis=0))
    else:
        penalty = 0.1 * cp.sum(cp.abs(S)) + 0.2 * cp.sum(cp.max(cp.abs(B), axis=0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        value = cp.Problem(cp.Minimize(loss + penalty)).solve(solver="CLARABEL")
    return value, W.value, b.value


@OWN
@pytest.mark.parametrize(("model", "norm"), list(zip(PENALISED, NORMS, strict=True)))
def test_the_optimum_is_that_of_a_generic_convex_solver(model, norm, own):
    cp = pytest.importorskip("cvxpy", reason="the independent solver is cvxpy")
    X, Y, ids = problem(own)
    best, W, b = objective_in_cvxpy(cp, own, norm)
    model.fit(X, Y, tasks=ids)
    assert model.objectives_[-1] == pytest.approx(best, rel=1e-7)
    # Where a task has fewer rows than features only what it fits is unique.
    fitted = X @ W.T + b if ids is None else np.einsum("ij,ij->i", X, W[ids]) + b[ids]
    np.testing.assert_allclose(model.predict(X, tasks=ids), fitted, atol=5e-4)


@OWN
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("max_iter", [1, 3, 30])
def test_the_gap_bounds_what_is_still_to_be_gained(norm, own, max_iter):
    moments = moments_of(own)
    best = solve(moments, norm, tol=1e-14, max_iter=100_000).objectives[-1]
    with pytest.warns(ConvergenceWarning, match=f"stopped after max_iter={max_iter} steps"):
        early = solve(moments, norm, tol=0.0, max_iter=max_iter)
    assert early.n_iter == max_iter
    left = early.objectives[-1] - best
    bound = early.gap * early.objectives[0]
    assert left <= bound + 1e-12
    assert bound == pytest.approx(duality_gap(moments, norm, early.parts))
    far = np.random.default_rng(1).normal(size=early.parts.shape)
    value = moments.loss(far.sum(axis=0)) + norm.value(far)
    assert value - best <= duality_gap(moments, norm, far)


@OWN
@pytest.mark.parametrize("norm", NORMS)
def test_the_objectives_are_those_of_the_steps_and_end_lower(norm, own):
    moments = moments_of(own)
    solution = solve(moments, norm, tol=1e-10, max_iter=10_000)
    value = moments.loss(solution.coef) + norm.value(solution.parts)
    assert solution.objectives[-1] == pytest.approx(value)
    assert solution.objectives[0] == pytest.approx(0.5 * moments.square.sum())
    assert solution.objectives[-1] == pytest.approx(solution.objectives.min())


@pytest.mark.parametrize("alpha", [0.02, 0.3])
def test_with_shared_rows_whole_features_are_chosen_as_by_multi_task_lasso(alpha):
    X, Y, _ = problem(own=False)
    ours = L21Regressor(alpha, tol=1e-14).fit(X, Y)
    theirs = MultiTaskLasso(alpha, tol=1e-14, max_iter=100_000).fit(X, Y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-6)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-6)
    left = Y - theirs.predict(X)
    value = 0.5 * np.mean(left**2, axis=0).sum()
    value += alpha * np.linalg.norm(theirs.coef_, axis=0).sum()
    assert ours.objectives_[-1] == pytest.approx(value, rel=1e-10)


numbers = st.floats(-3, 3, allow_subnormal=False)


@given(arrays(float, (3, 2), elements=numbers), st.floats(0.05, 2.0))
@settings(max_examples=examples(40), deadline=None)
def test_the_prox_of_one_part_beats_every_point_that_a_generic_minimiser_finds(point, step):
    for norm in (TraceNorm(0.7), L21Norm(0.7)):
        check_prox(norm, point[None], step)


@given(arrays(float, (2, 3, 2), elements=numbers), st.floats(0.05, 2.0))
@settings(max_examples=examples(40), deadline=None)
def test_the_prox_of_two_parts_beats_every_point_that_a_generic_minimiser_finds(point, step):
    check_prox(DirtyNorm(0.5, 0.8), point, step)


def check_prox(norm, point, step):
    """The prox is the minimum: a generic search from it and from elsewhere finds nothing lower."""

    def value(flat):
        moved = flat.reshape(point.shape)
        return 0.5 * np.sum((moved - point) ** 2) + step * norm.value(moved)

    ours = norm.prox(point, step)
    best = value(ours.ravel())
    for start in (ours, point):
        options = {"maxiter": 400, "xatol": 1e-10, "fatol": 1e-12}
        found = minimize(value, start.ravel(), method="Nelder-Mead", options=options)
        assert best <= found.fun + 1e-9


@given(arrays(float, (2, 3, 2), elements=numbers), arrays(float, (3, 2), elements=numbers))
def test_no_product_exceeds_the_norm_times_the_dual_norm(parts, gradient):
    for norm in NORMS:
        own = parts[: norm.n_parts]
        product = float(np.vdot(own.sum(axis=0), gradient))
        assert product <= norm.value(own) * norm.dual_norm(gradient) * (1 + 1e-9) + 1e-9


@given(arrays(float, (4, 3), elements=numbers), st.floats(0.0, 5.0))
def test_the_nearest_point_of_the_ball_is_in_it_and_is_the_nearest(columns, radius):
    nearest = onto_sum_ball(columns, radius)
    assert (np.abs(nearest).sum(axis=0) <= radius + 1e-9).all()
    # Optimality: no point of the ball lies further along the way that is left.
    left = columns - nearest
    furthest = radius * np.abs(left).max(axis=0)
    assert (np.einsum("ij,ij->j", left, nearest) >= furthest - 1e-8).all()


@OWN
def test_all_coefficients_are_zero_from_a_largest_penalty_on_and_not_before(own):
    X, Y, ids = problem(own)
    cross = moments_of(own).cross
    largest = {
        TraceNormRegressor: np.linalg.svd(cross)[1][0],
        L21Regressor: np.sqrt((cross**2).sum(axis=0)).max(),
    }
    for kind, alpha in largest.items():
        assert kind(alpha * 1.001).fit(X, Y, tasks=ids).alpha_max_ == pytest.approx(alpha)
        assert not kind(alpha * 1.001).fit(X, Y, tasks=ids).coef_.any()
        assert kind(alpha * 0.99).fit(X, Y, tasks=ids).coef_.any()
    size = np.abs(cross)
    alphas = size.max(), size.sum(axis=0).max()
    assert not DirtyRegressor(1.001 * alphas[0], 1.001 * alphas[1]).fit(X, Y, tasks=ids).coef_.any()
    assert DirtyRegressor(0.99 * alphas[0], 1.001 * alphas[1]).fit(X, Y, tasks=ids).sparse_.any()
    assert DirtyRegressor(1.001 * alphas[0], 0.99 * alphas[1]).fit(X, Y, tasks=ids).shared_.any()


@OWN
@pytest.mark.parametrize(
    "model",
    [
        TraceNormRegressor(0),
        L21Regressor(0),
        DirtyRegressor(0),
        DirtyRegressor(0, 0.3),
        DirtyRegressor(0.3, 0),
    ],
)
def test_without_a_penalty_each_task_has_its_least_squares_of_least_norm(model, own):
    X, Y, ids = problem(own)
    expected = SingleTaskRegressor().fit(X, Y, tasks=ids)
    model.fit(X, Y, tasks=ids)
    for task, one in enumerate(expected.regressors_):
        np.testing.assert_allclose(model.coef_[task], one.coef_, atol=1e-8)
        assert model.intercept_[task] == pytest.approx(one.intercept_)


@OWN
@pytest.mark.parametrize("model", [*PENALISED, MeanRegularizedRegressor(0.3)])
def test_tasks_and_features_may_be_given_in_any_order(model, own):
    X, Y, ids = problem(own)
    features, tasks = np.array([3, 0, 4, 1, 2]), np.array([2, 0, 3, 1])
    before = model.fit(X, Y, tasks=ids).coef_
    if own:
        after = model.fit(X[:, features], Y, tasks=np.argsort(tasks)[ids]).coef_
    else:
        after = model.fit(X[:, features], Y[:, tasks]).coef_
    np.testing.assert_allclose(after, before[np.ix_(tasks, features)], atol=1e-5)


@pytest.mark.parametrize("model", [*PENALISED, MeanRegularizedRegressor(0.3)])
def test_shared_rows_are_own_rows_that_happen_to_be_equal(model):
    X, Y, _ = problem(own=False)
    one = model.fit(X, Y).coef_
    ids = np.repeat(np.arange(T), len(X))
    np.testing.assert_allclose(
        model.fit(np.tile(X, (T, 1)), Y.T.ravel(), tasks=ids).coef_, one, atol=1e-5
    )


def test_the_two_parts_of_a_dirty_model_keep_to_their_limits():
    X, Y, _ = problem(own=False)
    assert not DirtyRegressor(0.1, 0.0999).fit(X, Y).sparse_.any()
    assert not DirtyRegressor(0.1, 0.1001 * T).fit(X, Y).shared_.any()
    both = DirtyRegressor(0.1, 0.2).fit(X, Y)
    assert both.sparse_.any()
    assert both.shared_.any()
    one = DirtyRegressor(0.1).fit(X, Y).coef_
    np.testing.assert_array_equal(DirtyRegressor(0.1, 0.1 * np.sqrt(T)).fit(X, Y).coef_, one)


def dense_mean_regularized(own, alpha, of_mean):
    """All of ``(w_0, v_1, ..., v_T, b_1, ..., b_T)`` by one set of normal equations of the rows."""
    X, Y, ids = problem(own)
    size = D * (T + 1) + T
    gram, right = np.zeros((size, size)), np.zeros(size)
    for t in range(T):
        rows, y = (X, Y[:, t]) if ids is None else (X[ids == t], Y[ids == t])
        table = np.zeros((len(y), size))
        table[:, :D] = table[:, D * (t + 1) : D * (t + 2)] = rows
        table[:, D * (T + 1) + t] = 1.0
        gram += table.T @ table / len(y)
        right += table.T @ y / len(y)
    penalty = np.r_[np.full(D, of_mean), np.full(D * T, alpha), np.zeros(T)]
    solution = np.linalg.solve(gram + np.diag(penalty), right)
    mean, own_parts = solution[:D], solution[D : D * (T + 1)].reshape(T, D)
    return mean, mean + own_parts, solution[D * (T + 1) :]


@OWN
@pytest.mark.parametrize("alpha", [1e-3, 0.7, 40.0])
@pytest.mark.parametrize("of_mean", [0.0, 0.5])
def test_coefficients_about_a_mean_solve_the_normal_equations(own, alpha, of_mean):
    X, Y, ids = problem(own)
    model = MeanRegularizedRegressor(alpha, alpha_mean=of_mean).fit(X, Y, tasks=ids)
    mean, coef, intercepts = dense_mean_regularized(own, alpha, of_mean)
    np.testing.assert_allclose(model.mean_coef_, mean, atol=1e-8)
    np.testing.assert_allclose(model.coef_, coef, atol=1e-8)
    np.testing.assert_allclose(model.intercept_, intercepts, atol=1e-8)


@OWN
def test_coefficients_about_a_mean_have_the_limits_of_one_model_and_of_single_tasks(own):
    X, Y, ids = problem(own)
    moments = moments_of(own)

    def fit(alpha, of_mean=0.0):
        return MeanRegularizedRegressor(alpha, alpha_mean=of_mean).fit(X, Y, tasks=ids)

    equal = fit(np.inf)
    whole = moments.gram.sum(axis=0) * (T / len(moments.gram))
    expected = np.linalg.solve(whole, moments.cross.sum(axis=0))
    np.testing.assert_allclose(equal.coef_, np.tile(expected, (T, 1)))
    np.testing.assert_allclose(fit(1e9).coef_, equal.coef_, atol=1e-6)
    np.testing.assert_allclose(fit(np.inf, 0.3).coef_, fit(1e9, 0.3).coef_, atol=1e-6)

    single = fit(0.0)
    np.testing.assert_allclose(single.coef_, fit(1e-9).coef_, atol=1e-4)
    np.testing.assert_allclose(moments.gradient(single.coef_), 0.0, atol=1e-10)
    np.testing.assert_allclose(single.mean_coef_, fit(1e-9).mean_coef_, atol=1e-4)
    assert not fit(0.0, 0.5).mean_coef_.any()

    alone = fit(0.4, np.inf)
    for t, count in enumerate(moments.n_rows):
        rows, y = (X, Y[:, t]) if ids is None else (X[ids == t], Y[ids == t])
        np.testing.assert_allclose(alone.coef_[t], Ridge(0.4 * count).fit(rows, y).coef_)


def test_one_task_about_its_mean_is_least_squares():
    X, Y, _ = problem(own=False)
    coef = MeanRegularizedRegressor(0.7).fit(X, Y[:, 0]).coef_
    np.testing.assert_allclose(coef[0], LinearRegression().fit(X, Y[:, 0]).coef_)


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        (TraceNormRegressor, {"alpha": -1}, "alpha=-1 must be finite and not negative"),
        (L21Regressor, {"alpha": "big"}, "alpha='big' is not a number"),
        (TraceNormRegressor, {"alpha": np.inf}, "alpha=inf must be finite"),
        (DirtyRegressor, {"alpha_shared": -0.1}, "alpha_shared=-0.1 must be finite"),
        (MeanRegularizedRegressor, {"alpha_mean": -2}, "alpha_mean=-2 must be not negative"),
        (L21Regressor, {"tol": -1.0}, "tol=-1.0 must be finite and not negative"),
        (L21Regressor, {"alpha": 0, "max_iter": 0.5}, "max_iter=0.5 is not a count"),
    ],
)
def test_options_that_make_no_sense_are_refused_in_words(kind, options, words):
    X, Y, _ = problem(own=False)
    with pytest.raises(ValueError, match=words):
        kind(**options).fit(X, Y)


def test_targets_and_features_that_do_not_vary_have_no_coefficients():
    X, Y, _ = problem(own=False)
    for model in (*PENALISED, MeanRegularizedRegressor(0.3)):
        model.fit(np.ones_like(X), Y)
        assert not model.coef_.any()
        np.testing.assert_allclose(model.intercept_, Y.mean(axis=0))
        model.fit(X, np.ones_like(Y))
        np.testing.assert_allclose(model.coef_, 0.0, atol=1e-12)


def low_rank(rng):
    return rng.normal(size=(12, 1)) @ rng.normal(size=(1, 10))


def few_features(rng):
    return rng.normal(size=(12, 10)) * (np.arange(10) < 3)


def dirty(rng):
    shared = np.sign(rng.normal(size=10)) * (np.arange(10) < 3)
    return shared + (rng.random((12, 10)) < 0.06) * rng.normal(size=(12, 10))


def common_mean(rng):
    return rng.normal(size=10) + 0.2 * rng.normal(size=(12, 10))


@pytest.mark.parametrize(
    ("model", "truth"),
    [
        (TraceNormRegressor(1.0), low_rank),
        (L21Regressor(0.5), few_features),
        (DirtyRegressor(0.15, 0.6), dirty),
        (MeanRegularizedRegressor(0.5), common_mean),
    ],
)
def test_on_data_of_its_own_model_it_beats_least_squares_for_each_task(model, truth):
    ours, theirs = [], []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        W = truth(rng)
        ids = np.repeat(np.arange(12), 18)
        X = rng.normal(size=(ids.size, 10))
        y = np.einsum("ij,ij->i", X, W[ids]) + rng.normal(size=ids.size)
        model.fit(X, y, tasks=ids)
        single = SingleTaskRegressor().fit(X, y, tasks=ids)
        # With independent standard inputs this is the risk above the noise.
        for found, coef, level in (
            (ours, model.coef_, model.intercept_),
            (
                theirs,
                np.stack([one.coef_ for one in single.regressors_]),
                np.array([one.intercept_ for one in single.regressors_]),
            ),
        ):
            found.append(np.mean(np.sum((coef - W) ** 2, axis=1) + level**2))
    assert np.mean(ours) < 0.6 * np.mean(theirs)


CHECKS = parametrize_with_checks(
    [TraceNormRegressor(), L21Regressor(), DirtyRegressor(), MeanRegularizedRegressor()]
).mark
NAMES, CASES = CHECKS.args


@pytest.mark.parametrize(NAMES, list(CASES), **CHECKS.kwargs)
def test_scikit_learns_checks_pass(estimator, check):
    check(estimator)
