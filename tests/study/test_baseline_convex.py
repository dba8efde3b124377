"""ASO, its convex relaxation and clustered tasks: objectives, laws, and their own models."""

import warnings

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import check_grad, minimize
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression, Ridge, RidgeCV
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from ctfa_study.baselines import (
    ASORegressor,
    ClusteredMTLRegressor,
    ConvexASORegressor,
    SingleTaskRegressor,
)
from ctfa_study.baselines._aso import SharedSubspace
from ctfa_study.baselines._smooth import lower_bound
from ctfa_study.baselines._spectral import MeanAndClusters, TwoPrices, fill
from ctfa_study.baselines._tasks import TaskData
from generated import examples
from real_data import real

TIGHT = 1e-7
NO_CVXPY = "cvxpy is not here to solve the semidefinite programme"
CONVEX = [
    ConvexASORegressor(2, alpha=0.2, eta=0.1, tol=TIGHT),
    ClusteredMTLRegressor(2, alpha=0.3, mean=0.02, between=0.1, tol=TIGHT),
]
ALL = [ASORegressor(1, alpha=0.5), *CONVEX]
PENALTIES = [TwoPrices(0.1, 2.0, 2), MeanAndClusters(0.05, TwoPrices(0.1, 2.0, 1))]


def shared(seed=0, n=40, d=5, t=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 2.0
    return X, X @ rng.normal(size=(d, t)) + rng.normal(size=(n, t)) - 1.0


def own(seed=0, rows=(6, 9, 12, 7), d=5):
    """Rows of their own, and the task of each, in no order."""
    rng = np.random.default_rng(seed)
    ids = rng.permutation(np.repeat(np.arange(len(rows)), rows))
    X = rng.normal(size=(ids.size, d)) + 1.0
    coef = rng.normal(size=(len(rows), d))
    return X, np.einsum("ij,ij->i", X, coef[ids]) + rng.normal(size=ids.size), ids


def moments_of(X, y, ids=None):
    count = y.shape[1] if ids is None else int(ids.max()) + 1
    return TaskData(X, y, ids, count).moments


def fit_to_rounding(model, X, y, ids=None):
    """As good as steps that must lower the objective can get."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return clone(model).set_params(tol=0.0).fit(X, y, tasks=ids)


# The price of directions.


def cost(values, scales):
    return float(np.sum(values**2 / scales))


def filled_slowly(values, ratio, units):
    """Least cost over shares of the units, by a general solver."""
    n = values.size

    def objective(m):
        scales = 1.0 + m * (ratio - 1.0)
        return cost(values, scales), -(values**2) * (ratio - 1.0) / scales**2

    start = np.full(n, min(units / n, 1.0))
    found = minimize(
        objective,
        start,
        jac=True,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * n,
        constraints={
            "type": "ineq",
            "fun": lambda m: units - m.sum(),
            "jac": lambda m: -np.ones(n),
        },
        options={"maxiter": 500, "ftol": 1e-14},
    )
    return objective(np.clip(found.x, 0.0, 1.0))[0]


@settings(deadline=None, max_examples=examples(100))
@given(
    values=st.lists(st.just(0.0) | st.floats(0.01, 10.0), min_size=1, max_size=6),
    ratio=st.floats(1.0, 50.0),
    units=st.integers(0, 6),
)
@example(values=[0.0, 0.0], ratio=3.0, units=1)
@example(values=[2.0], ratio=3.0, units=1)
@example(values=[1.0, 1.0, 1.0], ratio=10.0, units=2)
@example(values=[5.0, 0.0, 0.0], ratio=4.0, units=2)
def test_units_are_spent_as_well_as_a_general_solver_spends_them(values, ratio, units):
    values = np.array(values)
    scales = fill(values, ratio, units)
    assert np.all((scales >= 1.0) & (scales <= ratio))
    assert np.sum(scales - 1.0) <= units * (ratio - 1.0) * (1 + 1e-9) + 1e-12
    slow = filled_slowly(values, ratio, units)
    assert cost(values, scales) <= slow * (1 + 1e-6) + 1e-12


@settings(deadline=None, max_examples=examples(200))
@given(
    exponents=st.lists(st.floats(-200.0, 5.0), min_size=2, max_size=8),
    ratio=st.floats(1.0, 1e8),
    units=st.floats(0.0, 8.0),
)
def test_a_scale_between_its_bounds_is_at_the_level_of_the_water(exponents, ratio, units):
    values = 10.0 ** np.array(exponents)
    scales = fill(values, ratio, units)
    heights = values / scales
    level = heights[(scales > 1.0) & (scales < ratio)]
    if level.size:
        np.testing.assert_allclose(level, level[0], rtol=1e-9)
        assert np.all(heights[scales == 1.0] <= level[0] * (1 + 1e-9))
        assert np.all(heights[scales == ratio] >= level[0] * (1 - 1e-9))
        spent = np.sum(scales - 1.0)
        assert spent == pytest.approx(units * (ratio - 1.0), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("shape", [(4, 5), (6, 3), (2, 4)])
def test_the_penalty_has_its_gradient_and_its_conjugate(penalty, shape):
    rng = np.random.default_rng(0)
    W = rng.normal(size=shape)
    error = check_grad(
        lambda w: penalty.value_and_gradient(w.reshape(shape))[0],
        lambda w: penalty.value_and_gradient(w.reshape(shape))[1].ravel(),
        W.ravel(),
    )
    value, gradient = penalty.value_and_gradient(W)
    assert error < 1e-5
    # Fenchel and Young: equality at the gradient, an inequality elsewhere.
    assert value + penalty.conjugate(gradient) == pytest.approx(np.sum(W * gradient))
    for _ in range(20):
        Z = rng.normal(size=shape)
        assert value + penalty.conjugate(Z) >= np.sum(W * Z)


def test_a_matrix_of_zeros_costs_nothing_and_has_no_slope():
    for penalty in PENALTIES:
        value, gradient = penalty.value_and_gradient(np.zeros((3, 4)))
        assert value == 0.0
        assert not gradient.any()
        assert penalty.conjugate(np.zeros((3, 4))) == 0.0


# The solver.


@pytest.mark.parametrize("model", CONVEX)
@pytest.mark.parametrize("data", [shared(), own()])
def test_the_objective_never_rises_and_the_gap_bounds_what_is_missing(model, data):
    X, y, *ids = data
    ids = ids[0] if ids else None
    best = model.fit(X, y, tasks=ids)
    least, objectives = best.objective_, best.objectives_
    assert np.all(np.diff(objectives) <= 0.0)
    assert objectives.size == best.n_iter_ > 3
    assert objectives[-1] == least
    loss = moments_of(X, y, ids).loss(np.zeros_like(best.coef_))
    assert 0.0 <= best.gap_ <= TIGHT * loss
    for limit in range(1, best.n_iter_):
        with pytest.warns(ConvergenceWarning, match=f"max_iter={limit} came first"):
            early = clone(model).set_params(max_iter=limit).fit(X, y, tasks=ids)
        assert early.n_iter_ == limit
        assert least - best.gap_ - 1e-12 <= early.objective_ <= least + early.gap_ + 1e-12


@pytest.mark.parametrize("penalty", PENALTIES)
def test_no_objective_is_below_the_bound(penalty):
    X, y, ids = own()
    moments = moments_of(X, y, ids)
    rng = np.random.default_rng(1)
    points = [rng.normal(size=moments.shape) for _ in range(10)]
    bounds = [lower_bound(moments, penalty, W) for W in points]
    objectives = [moments.loss(W) + penalty.value_and_gradient(W)[0] for W in points]
    assert max(bounds) <= min(objectives)


def test_steps_that_rounding_stops_are_reported_with_the_gap():
    with pytest.warns(ConvergenceWarning, match="rounding allows no further step"):
        ConvexASORegressor(tol=0.0).fit(*shared())


@pytest.mark.parametrize("model", CONVEX)
def test_a_warm_start_starts_where_the_last_fit_ended(model):
    X, Y = shared()
    warm = clone(model).set_params(warm_start=True).fit(X, Y)
    coef, first = warm.coef_, warm.n_iter_
    assert warm.fit(X, Y).n_iter_ == 1 < first
    np.testing.assert_array_equal(warm.coef_, coef)
    # Another number of tasks: it starts afresh.
    fresh = clone(model).fit(X, Y[:, :2])
    np.testing.assert_array_equal(warm.fit(X, Y[:, :2]).coef_, fresh.coef_)


# The minimum, by a solver of semidefinite programmes.


def centred_loss(cp, W, data):
    X, y, *ids = data
    total = 0.0
    for task in range(W.shape[0]):
        rows = slice(None) if not ids else ids[0] == task
        A = X[rows] - X[rows].mean(axis=0)
        b = y[rows] if ids else y[:, task]
        total += cp.sum_squares(A @ W[task] - (b - b.mean())) / (2 * len(b))
    return total


def solve(cp, objective, constraints):
    problem = cp.Problem(cp.Minimize(objective), constraints)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return problem.solve(solver="CLARABEL")


@pytest.mark.parametrize("data", [shared(), own()])
@pytest.mark.parametrize("n_components", [1, 2, 4])
@pytest.mark.parametrize("eta", [0.02, 1.0])
def test_convex_aso_is_the_minimum_of_the_papers_programme(data, n_components, eta):
    cp = pytest.importorskip("cvxpy", reason=NO_CVXPY)
    t, d, alpha = 4, 5, 0.3
    model = ConvexASORegressor(n_components, alpha=alpha, eta=eta, tol=TIGHT)
    model.fit(data[0], data[1], tasks=data[2] if len(data) == 3 else None)
    W, M = cp.Variable((t, d)), cp.Variable((d, d), symmetric=True)
    Z = cp.Variable((t, t), symmetric=True)
    least = solve(
        cp,
        centred_loss(cp, W, data) + alpha * eta * (1 + eta) * cp.trace(Z),
        [
            cp.bmat([[Z, W], [W.T, eta * np.eye(d) + M]]) >> 0,
            M >> 0,
            np.eye(d) - M >> 0,
            cp.trace(M) == n_components,
        ],
    )
    assert model.objective_ == pytest.approx(least, rel=1e-5)
    np.testing.assert_allclose(model.coef_, W.value, atol=2e-3)
    # M itself, by its definition: the objective with it is the same.
    inverse = np.linalg.inv(eta * np.eye(d) + model.shared_)
    written = np.trace(model.coef_ @ inverse @ model.coef_.T)
    value = TwoPrices(alpha * eta, alpha * (1 + eta), n_components)
    assert alpha * eta * (1 + eta) * written == pytest.approx(
        value.value_and_gradient(model.coef_)[0]
    )
    assert np.trace(model.shared_) <= n_components + 1e-9


@pytest.mark.parametrize("data", [shared(), own()])
@pytest.mark.parametrize("n_clusters", [1, 2, 4])
@pytest.mark.parametrize(("mean", "between"), [(0.02, 0.1), (2.0, 0.5)])
def test_clustered_tasks_are_the_minimum_of_the_papers_programme(data, n_clusters, mean, between):
    cp = pytest.importorskip("cvxpy", reason=NO_CVXPY)
    t, d, alpha, within = 4, 5, 0.3, 0.8
    model = ClusteredMTLRegressor(
        n_clusters, alpha=alpha, mean=mean, between=between, within=within, tol=TIGHT
    )
    model.fit(data[0], data[1], tasks=data[2] if len(data) == 3 else None)
    W, S = cp.Variable((t, d)), cp.Variable((t, t), symmetric=True)
    Z = cp.Variable((d, d), symmetric=True)
    about = np.eye(t) - 1.0 / t
    trace = (t - n_clusters + 1) / within + (n_clusters - 1) / between
    # The paper's set as it stands, with the direction of the mean in S and in its trace.
    least = solve(
        cp,
        centred_loss(cp, W, data)
        + alpha * (mean * cp.sum_squares(cp.sum(W, axis=0)) / t + cp.trace(Z)),
        [
            cp.bmat([[Z, W.T @ about], [about @ W, S]]) >> 0,
            S - np.eye(t) / within >> 0,
            np.eye(t) / between - S >> 0,
            cp.trace(S) == trace,
        ],
    )
    assert model.objective_ == pytest.approx(least, rel=1e-5)
    np.testing.assert_allclose(model.coef_, W.value, atol=2e-3)
    V = model.coef_ - model.coef_.mean(axis=0)
    written = np.trace(V.T @ np.linalg.solve(model.covariance_, V))
    value = TwoPrices(between, within, n_clusters - 1).value_and_gradient(V)[0]
    assert written == pytest.approx(value)
    assert np.trace(model.covariance_) <= trace + 1e-9


def test_known_clusters_cost_no_less_than_the_relaxation_says():
    rng = np.random.default_rng(0)
    labels = np.array([0, 0, 1, 1, 1, 2])
    W = rng.normal(size=(3, 4))[labels] + 0.1 * rng.normal(size=(6, 4))
    mean, between, within = 0.1, 0.3, 2.0
    centre = W.mean(axis=0)
    clusters = np.array([W[labels == c].mean(axis=0) for c in range(3)])[labels]
    known = (
        mean * 6 * centre @ centre
        + between * np.sum((clusters - centre) ** 2)
        + within * np.sum((W - clusters) ** 2)
    )
    relaxed = MeanAndClusters(mean, TwoPrices(between, within, 2)).value_and_gradient(W)[0]
    assert 0.8 * known < relaxed <= known


# The subspace that is shared, without a relaxation.

ALPHA = 0.4


def written_out(data, h, starts):
    """Least objective over u, v and Theta as they stand in the paper, by a general solver."""
    moments = moments_of(*data)
    t, d = moments.shape

    def objective(point):
        own, shared, basis = np.split(point, [t * d, t * d + t * h])
        own, shared, basis = own.reshape(t, d), shared.reshape(t, h), basis.reshape(h, d)
        slope = moments.gradient(own + shared @ basis)
        value = moments.loss(own + shared @ basis) + ALPHA * np.sum(own**2)
        parts = slope + 2 * ALPHA * own, slope @ basis.T, shared.T @ slope
        return value, np.concatenate([part.ravel() for part in parts])

    rng = np.random.default_rng(0)
    return min(
        minimize(
            objective,
            rng.normal(size=t * d + t * h + h * d),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 5000, "maxfun": 50000, "ftol": 1e-14, "gtol": 1e-9},
        ).fun
        for _ in range(starts)
    )


@pytest.mark.parametrize("data", [shared(), own(), own(rows=(3, 2, 4, 3, 5), d=4)])
@pytest.mark.parametrize("h", [1, 2])
def test_aso_is_the_least_that_a_general_solver_finds_from_many_starts(data, h):
    model = ASORegressor(h, alpha=ALPHA, n_init=10, tol=1e-7, random_state=0)
    model.fit(data[0], data[1], tasks=data[2] if len(data) == 3 else None)
    assert model.objective_ == pytest.approx(written_out(data, h, starts=10), rel=1e-6)
    np.testing.assert_allclose(model.shared_ @ model.shared_.T, np.eye(h), atol=1e-10)


@pytest.mark.parametrize("seed", range(4))
def test_a_shared_line_in_a_plane_is_the_best_of_all_angles(seed):
    X, y, ids = own(seed, rows=(4, 3, 5), d=2)
    moments = moments_of(X, y, ids)

    def at(angle):
        """Every task a ridge regression with the price across the line, in the plain way."""
        across = np.array([-np.sin(angle), np.cos(angle)])
        prices = 2 * ALPHA * np.outer(across, across)
        W = np.linalg.solve(moments.gram + prices, moments.cross[..., None])[..., 0]
        return moments.loss(W) + ALPHA * np.sum((W @ across) ** 2)

    least = min(at(angle) for angle in np.linspace(0.0, np.pi, 20001))
    model = ASORegressor(1, alpha=ALPHA, n_init=5, random_state=0).fit(X, y, tasks=ids)
    assert model.objective_ <= least <= model.objective_ * (1 + 1e-6)
    assert at(np.arctan2(*model.shared_[0][::-1])) == pytest.approx(model.objective_)


@pytest.mark.parametrize("data", [shared(n=60, d=8), own(rows=(6, 9, 12, 7, 5), d=6)])
def test_asos_objective_never_rises_and_is_that_of_its_coefficients(data):
    model = ASORegressor(2, alpha=ALPHA, tol=1e-8)
    model.fit(data[0], data[1], tasks=data[2] if len(data) == 3 else None)
    assert np.all(np.diff(model.objectives_) <= 1e-13 * model.objective_)
    assert model.n_iter_ == model.objectives_.size > 12
    assert model.stationarity_ <= 1e-5
    across = model.coef_ @ (np.eye(model.coef_.shape[1]) - model.shared_.T @ model.shared_)
    moments = moments_of(*data)
    written = moments.loss(model.coef_) + ALPHA * np.sum(across**2)
    assert model.objective_ == pytest.approx(written)
    # Stationary in the coefficients too: they are ridge regressions for this subspace.
    slope = moments.gradient(model.coef_) + 2 * ALPHA * across
    np.testing.assert_allclose(slope, 0.0, atol=1e-9)


def test_the_objective_has_its_slope_in_the_subspace():
    problem = SharedSubspace.of(moments_of(*own(d=6)), np.array([0.2, 0.4, 0.3, 1.0]))

    def value(point):
        basis = np.linalg.qr(point.reshape(2, 6).T)[0].T
        return problem.objective(problem.coef(basis), basis)

    def slope(point):
        basis = point.reshape(2, 6)
        return problem.slope(problem.coef(basis), basis).ravel()

    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 2)))[0].T
    assert check_grad(value, slope, basis.ravel()) < 1e-5


def test_more_starts_are_never_worse_and_the_same_seed_is_the_same_model():
    X, y, ids = own(rows=(3, 2, 4, 3, 5), d=4)
    one = ASORegressor(1).fit(X, y, tasks=ids)
    many = ASORegressor(1, n_init=5, random_state=0).fit(X, y, tasks=ids)
    again = ASORegressor(1, n_init=5, random_state=0).fit(X, y, tasks=ids)
    assert many.objective_ <= one.objective_
    np.testing.assert_array_equal(many.coef_, again.coef_)


def test_too_few_steps_are_reported_with_what_they_reached():
    with pytest.warns(ConvergenceWarning, match=r"stationary to .* only.*max_iter=3 came first"):
        model = ASORegressor(1, max_iter=3).fit(*shared())
    assert model.n_iter_ == 3
    assert model.stationarity_ > model.tol


def test_everything_shared_is_least_squares_and_a_high_price_leaves_only_what_is_shared():
    X, Y = shared()
    squares = LinearRegression().fit(X, Y).coef_
    for h in (4, 5, 9):
        np.testing.assert_allclose(ASORegressor(h).fit(X, Y).coef_, squares, atol=1e-4)
    values = np.linalg.svd(ASORegressor(2, alpha=1e6).fit(X, Y).coef_, compute_uv=False)
    assert values[2] < 1e-4 * values[1]


def test_a_high_price_is_reduced_rank_regression():
    X, Y = shared(n=60)
    coef = ASORegressor(2, alpha=1e6, n_init=5, random_state=0).fit(X, Y).coef_
    # The best coefficients of rank two: fitted values projected on their first directions.
    A, B = X - X.mean(axis=0), Y - Y.mean(axis=0)
    full = np.linalg.lstsq(A, B, rcond=None)[0]
    first = np.linalg.svd(A @ full, full_matrices=False)[2][:2]
    np.testing.assert_allclose(coef, (full @ first.T @ first).T, atol=1e-3)


def test_a_price_for_each_task_is_its_own():
    X, Y = shared()
    one = ASORegressor(1, alpha=0.3).fit(X, Y)
    same = ASORegressor(1, alpha=[0.3] * 4).fit(X, Y)
    np.testing.assert_allclose(same.coef_, one.coef_)
    # A task whose own part is free does not care what is shared.
    free = ASORegressor(1, alpha=[0.3, 0.3, 0.3, 1e-12]).fit(X, Y)
    np.testing.assert_allclose(free.coef_[3], LinearRegression().fit(X, Y[:, 3]).coef_, atol=1e-6)
    assert np.abs(free.coef_[0] - LinearRegression().fit(X, Y[:, 0]).coef_).max() > 0.01
    with pytest.raises(ValueError, match="alpha has 2 values for 4 tasks"):
        ASORegressor(alpha=[1.0, 2.0]).fit(X, Y)


@pytest.mark.parametrize("seed", range(5))
def test_asos_objective_never_rises_where_prices_differ(seed):
    rng = np.random.default_rng(seed)
    X, Y = rng.normal(size=(20, 6)), rng.normal(size=(20, 4))
    model = ASORegressor(1, alpha=[1e-3, 0.03, 1.0, 30.0]).fit(X, Y)
    assert np.diff(model.objectives_).max(initial=0.0) <= 1e-12 * model.objectives_[0]


# Limits that have a closed form, and changes of the data with a known effect.


def ridge(X, y, price, ids=None):
    """Minimum of the loss plus ``price |w_t|^2`` for each task."""
    coefs = []
    for task in range(4):
        A, b = (X, y[:, task]) if ids is None else (X[ids == task], y[ids == task])
        coefs.append(Ridge(alpha=2 * price * len(b)).fit(A, b).coef_)
    return np.array(coefs)


@pytest.mark.parametrize("data", [shared(), own()])
def test_all_directions_shared_or_none_dearer_is_ridge_regression(data):
    expected = ridge(data[0], data[1], 0.3, *data[2:])
    for model in (
        ConvexASORegressor(5, alpha=1.5, eta=0.2),
        ConvexASORegressor(1, alpha=0.3e-9, eta=1e9),
        ClusteredMTLRegressor(1, alpha=0.3, mean=1.0, between=1.0),
        ClusteredMTLRegressor(3, alpha=0.3, mean=1.0, between=1.0),
        ClusteredMTLRegressor(4, alpha=3.0, mean=0.1, between=0.1),
    ):
        np.testing.assert_allclose(fit_to_rounding(model, *data).coef_, expected, atol=1e-5)


@pytest.mark.parametrize("data", [shared(), own()])
def test_one_cluster_pulls_all_tasks_to_their_mean(data):
    alpha, mean = 0.4, 0.1
    model = ClusteredMTLRegressor(1, alpha=alpha, mean=mean, between=0.2)
    model = fit_to_rounding(model, *data)
    # Mean-regularised tasks: one linear system for all coefficients.
    moments = moments_of(*data)
    t, d = moments.shape
    onto_mean = np.full((t, t), 1.0 / t)
    prices = alpha * (mean * onto_mean + np.eye(t) - onto_mean)
    system = 2.0 * np.kron(prices, np.eye(d))
    for task in range(t):
        at = slice(task * d, task * d + d)
        system[at, at] += moments.gram[task % moments.gram.shape[0]]
    expected = np.linalg.solve(system, moments.cross.ravel()).reshape(t, d)
    np.testing.assert_allclose(model.coef_, expected, atol=1e-5)
    assert set(model.labels_) == {0}


@pytest.mark.parametrize("model", ALL)
def test_tasks_in_another_order_have_the_same_coefficients(model):
    X, Y = shared()
    coef, order = fit_to_rounding(model, X, Y).coef_, np.array([2, 0, 3, 1])
    other = fit_to_rounding(model, X, Y[:, order]).coef_
    np.testing.assert_allclose(other, coef[order], atol=1e-5)


@pytest.mark.parametrize("model", ALL)
def test_turning_the_features_turns_the_coefficients(model):
    X, Y = shared()
    turn = np.linalg.qr(np.random.default_rng(3).normal(size=(5, 5)))[0]
    coef = fit_to_rounding(model, X, Y).coef_
    np.testing.assert_allclose(fit_to_rounding(model, X @ turn, Y).coef_, coef @ turn, atol=1e-5)


@pytest.mark.parametrize("model", ALL)
def test_shared_rows_given_as_own_rows_have_the_same_coefficients(model):
    X, Y = shared()
    one = fit_to_rounding(model, X, Y)
    n, t = Y.shape
    ids = np.repeat(np.arange(t), n)
    other = fit_to_rounding(model, np.tile(X, (t, 1)), Y.T.ravel(), ids)
    np.testing.assert_allclose(other.coef_, one.coef_, atol=1e-5)
    np.testing.assert_allclose(other.intercept_, one.intercept_, atol=1e-4)


@pytest.mark.parametrize("model", ALL)
def test_targets_in_another_unit_have_coefficients_in_that_unit(model):
    X, Y = shared()
    coef = fit_to_rounding(model, X, Y).coef_
    other = fit_to_rounding(model, X, 1e6 * Y + 5.0).coef_
    np.testing.assert_allclose(other / 1e6, coef, atol=1e-5)


def test_two_far_clusters_are_read_off():
    X, y, ids = own(rows=(30,) * 6, d=4)
    far = np.where(np.arange(6) % 2, 5.0, -5.0)[ids] * X[:, 0]
    model = ClusteredMTLRegressor(2).fit(X, far + 0.1 * y, tasks=ids)
    assert len(set(model.labels_[::2])) == len(set(model.labels_[1::2])) == 1
    assert model.labels_[0] != model.labels_[1]


# Data that are as each method says they are: 20 tasks, 12 features, 15 rows each.


def in_a_plane(rng):
    """Coefficients near a plane of all features."""
    plane = np.linalg.qr(rng.normal(size=(12, 2)))[0].T
    return 2.0 * rng.normal(size=(20, 2)) @ plane + 0.1 * rng.normal(size=(20, 12))


def in_clusters(rng):
    """Coefficients near one of three."""
    return rng.normal(size=(3, 12))[np.arange(20) % 3] + 0.1 * rng.normal(size=(20, 12))


def excess_risks(models, coefficients, seed):
    """Expected squared error on new rows, above the noise, for features that are white."""
    rng = np.random.default_rng(seed)
    true = coefficients(rng)
    ids = np.repeat(np.arange(20), 15)
    X = rng.normal(size=(ids.size, 12))
    y = np.einsum("ij,ij->i", X, true[ids]) + rng.normal(size=ids.size)
    risks = []
    for model in models:
        model.fit(X, y, tasks=ids)
        slopes = np.array([model.predict(np.eye(12), tasks=[task] * 12) for task in range(20)])
        level = np.array([model.predict(np.zeros((1, 12)), tasks=[task]) for task in range(20)])
        risks.append(np.mean(np.sum((slopes - level - true) ** 2, axis=1) + level[:, 0] ** 2))
    return risks


@pytest.mark.parametrize(
    ("model", "coefficients"),
    [
        (ASORegressor(2, alpha=3.0), in_a_plane),
        (ConvexASORegressor(2, alpha=1.0, eta=0.03), in_a_plane),
        (ClusteredMTLRegressor(3, alpha=1.0, mean=0.03, between=0.03), in_clusters),
    ],
)
def test_on_its_own_model_it_halves_the_risk_of_ridge_and_more_that_of_least_squares(
    model, coefficients
):
    # Penalties as stated, once for all seeds; ridge regression chooses its own for each task.
    single = SingleTaskRegressor(LinearRegression())
    tuned = SingleTaskRegressor(RidgeCV(np.logspace(-2, 3, 16)))
    risks = [excess_risks([model, single, tuned], coefficients, seed) for seed in range(5)]
    ours, squares, ridges = np.mean(risks, axis=0)
    assert ours < 0.5 * ridges
    assert ours < 0.2 * squares


def test_clusters_of_tasks_are_found():
    rng = np.random.default_rng(0)
    true = in_clusters(rng)
    ids = np.repeat(np.arange(20), 15)
    X = rng.normal(size=(ids.size, 12))
    y = np.einsum("ij,ij->i", X, true[ids]) + 0.3 * rng.normal(size=ids.size)
    model = ClusteredMTLRegressor(3, alpha=0.1, mean=0.03, between=0.03).fit(X, y, tasks=ids)
    assert adjusted_rand_score(np.arange(20) % 3, model.labels_) == 1.0


@pytest.mark.data
@pytest.mark.parametrize(
    "model",
    [
        ASORegressor(1, alpha=10.0),
        ConvexASORegressor(1, alpha=10.0, eta=0.01),
        ClusteredMTLRegressor(2, alpha=10.0, mean=0.001, between=0.1),
    ],
)
def test_27_schools_are_predicted_better_together_than_one_by_one(model):
    X, y, ids = real("school", n_schools=27, return_X_y=True)
    is_train = np.random.default_rng(0).random(ids.size) < 0.7
    scaler = StandardScaler().fit(X[is_train])
    X, y = scaler.transform(X), (y - y[is_train].mean()) / y[is_train].std()
    errors = []
    for each in (model, SingleTaskRegressor()):
        each.fit(X[is_train], y[is_train], tasks=ids[is_train])
        left = each.predict(X[~is_train], tasks=ids[~is_train]) - y[~is_train]
        errors.append(np.mean(left**2))
    assert errors[0] < 0.95 * errors[1]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (ConvexASORegressor(0), "n_components=0 is not a count"),
        (ConvexASORegressor(alpha=0), "alpha=0 must be finite and above 0"),
        (ConvexASORegressor(eta=-1.0), "eta=-1.0 must be finite and above 0"),
        (ConvexASORegressor(tol=-1.0), "tol=-1.0 must be finite and not negative"),
        (ConvexASORegressor(max_iter=2.5), "max_iter=2.5 is not a count"),
        (ConvexASORegressor(warm_start="yes"), "warm_start='yes' is not known"),
        (ASORegressor(True), "n_components=True is not a count"),
        (ASORegressor(alpha=[1.0, 1.0, 0.0, 1.0]), "alpha=0.0 must be finite and above 0"),
        (ASORegressor(n_init=0), "n_init=0 is not a count"),
        (ClusteredMTLRegressor(1.5), "n_clusters=1.5 is not a count"),
        (ClusteredMTLRegressor(between=2.0), "between=2.0 is above within=1.0"),
        (ClusteredMTLRegressor(mean=np.inf), "mean=inf must be finite"),
    ],
)
def test_numbers_that_make_no_sense_are_refused_in_words(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(*shared())


MODELS = [ASORegressor(), ConvexASORegressor(), ClusteredMTLRegressor()]
CHECKS = parametrize_with_checks(MODELS).mark
NAMES, CASES = CHECKS.args


@pytest.mark.parametrize(NAMES, list(CASES), **CHECKS.kwargs)
def test_scikit_learns_checks_pass(estimator, check):
    check(estimator)
