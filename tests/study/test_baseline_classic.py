"""Classical rivals: random predictions, Curds and Whey, reduced rank, groups by Ward."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, Ridge, RidgeCV
from sklearn.multioutput import RegressorChain
from sklearn.utils.estimator_checks import parametrize_with_checks

from ctfa_study.baselines import (
    CurdsAndWheyRegressor,
    GroupMeansRegressor,
    RandomRegressor,
    ReducedRankRegressor,
    WardGroupsRegressor,
)
from ctfa_study.baselines._shared import cross_validated_shrinkage
from generated import examples


def draw(seed, n=60, d=8, t=5, rank=None, noise=1.0):
    """Features, targets and coefficients (D, T), of full rank unless one is given."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 1.0
    if rank is None:
        B = rng.normal(size=(d, t))
    else:
        B = rng.normal(size=(d, rank)) @ rng.normal(size=(rank, t))
    return X, X @ B + noise * rng.normal(size=(n, t)) - 2.0, B


def risk(model, seed, **options):
    """Squared distance of the coefficients from the true ones: the risk of independent inputs."""
    X, Y, B = draw(seed, **options)
    fitted = model.fit(X, Y)
    if hasattr(fitted, "coef_"):
        return np.sum((fitted.coef_.T - B) ** 2)
    rows = np.random.default_rng(seed + 10_000).normal(size=(200, X.shape[1])) + 1.0
    return np.mean((fitted.predict(rows) - (rows @ B - 2.0)) ** 2)


# Random predictions


def test_a_random_draw_has_twice_the_variance_for_its_error():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(4000, 2)), rng.normal(size=(4000, 3)) * [1.0, 2.0, 0.5] + 7.0
    train, test = slice(0, 2000), slice(2000, None)
    drawn = RandomRegressor(random_state=0).fit(X[train], Y[train]).predict(X[test])
    mean = RandomRegressor("mean").fit(X[train], Y[train]).predict(X[test])
    variance = Y.var(axis=0)
    np.testing.assert_allclose(np.mean((drawn - Y[test]) ** 2, axis=0), 2 * variance, rtol=0.1)
    np.testing.assert_allclose(np.mean((mean - Y[test]) ** 2, axis=0), variance, rtol=0.1)


def test_draws_are_training_values_of_the_task_and_uniform_over_them():
    rng = np.random.default_rng(0)
    y = np.concatenate([np.arange(5.0), 100.0 + np.arange(3.0)])
    ids = np.array(["a"] * 5 + ["b"] * 3)
    model = RandomRegressor(random_state=1).fit(rng.normal(size=(8, 2)), y, tasks=ids)
    rows = rng.normal(size=(6000, 2))
    for task, values in (("a", y[:5]), ("b", y[5:])):
        drawn = model.predict(rows, tasks=[task] * 6000)
        counts = np.array([np.sum(drawn == value) for value in values])
        assert counts.sum() == 6000
        # Standard deviation of a count is below sqrt(6000 / 4).
        assert np.abs(counts - 6000 / values.size).max() < 5 * np.sqrt(6000 / 4)


def test_draws_of_different_tasks_and_of_different_seeds_are_not_related():
    X = np.random.default_rng(0).normal(size=(3000, 1))
    Y = np.column_stack([X[:, 0], X[:, 0]])
    one = RandomRegressor(random_state=0).fit(X, Y).predict(X)
    other = RandomRegressor(random_state=1).fit(X, Y).predict(X)
    related = np.corrcoef(np.column_stack([X, one, other]), rowvar=False)
    assert np.abs(related - np.eye(5)).max() < 5 / np.sqrt(3000)


def test_the_same_seed_gives_the_same_draws_and_repeated_questions_the_same_answers():
    X, Y, _ = draw(0)
    model = RandomRegressor(random_state=3).fit(X, Y)
    first = model.predict(X)
    np.testing.assert_array_equal(first, model.predict(X))
    np.testing.assert_array_equal(first, RandomRegressor(random_state=3).fit(X, Y).predict(X))
    np.testing.assert_array_equal(first[::-1][:7], model.predict(X[::-1][:7]))


# Curds and Whey


@given(c=st.floats(0.0, 1.0), r=st.floats(0.0, 0.9))
def test_the_shrinkage_is_the_published_formula(c, r):
    below = (1 - r) ** 2 * c**2 + r**2 * (1 - c**2)
    if below < 1e-6:
        return
    expected = max((1 - r) * (c**2 - r) / below, 0.0)
    given_by = cross_validated_shrinkage(1.0, c**2, c**2, r)
    assert given_by == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_the_shrinkage_is_the_best_multiple_of_predictions_of_rows_left_out():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 4)), rng.normal(size=30)
    hat = X @ np.linalg.solve(X.T @ X + 2.0 * np.eye(4), X.T)
    fitted, r = hat @ y, np.trace(hat) / 30
    left_out = (fitted - r * y) / (1 - r)
    expected = max(left_out @ y / (left_out @ left_out), 0.0)
    found = cross_validated_shrinkage(y @ y, y @ fitted, fitted @ fitted, r)
    assert found == pytest.approx(expected)


def test_predictions_are_least_squares_times_the_matrix_of_the_paper():
    X, Y, _ = draw(0, n=50, d=4, t=3)
    x, y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    ols = np.linalg.lstsq(x, y, rcond=None)[0]
    # Q = (Y'Y)^-1 Y'X (X'X)^-1 X'Y has eigenvalues c^2; its right eigenvectors are coordinates.
    c2, turn = np.linalg.eig(np.linalg.solve(y.T @ y, y.T @ x @ ols))
    r = 4 / 50
    d = np.maximum((1 - r) * (c2 - r) / ((1 - r) ** 2 * c2 + r**2 * (1 - c2)), 0.0)
    expected = x @ ols @ (turn * d) @ np.linalg.inv(turn) + Y.mean(axis=0)
    model = CurdsAndWheyRegressor().fit(X, Y)
    np.testing.assert_allclose(model.predict(X), expected)
    np.testing.assert_allclose(np.sort(model.shrinkage_), np.sort(d))
    np.testing.assert_allclose(x @ ols @ model.mixing_ + Y.mean(axis=0), expected)


def test_curds_and_whey_is_least_squares_where_rows_abound():
    X, Y, _ = draw(0, n=100_000, d=3, t=4)
    model = CurdsAndWheyRegressor().fit(X, Y)
    np.testing.assert_allclose(model.coef_, LinearRegression().fit(X, Y).coef_, atol=1e-3)
    np.testing.assert_allclose(model.shrinkage_, 1.0, atol=1e-3)


def test_curds_and_whey_shrinks_noise_and_leaves_strong_signals():
    rng = np.random.default_rng(0)
    X, noise = rng.normal(size=(200, 5)), rng.normal(size=(200, 3))
    assert np.abs(CurdsAndWheyRegressor().fit(X, noise).mixing_).max() < 0.7
    signal = X[:, :3] + 0.01 * noise
    np.testing.assert_allclose(CurdsAndWheyRegressor().fit(X, signal).mixing_, np.eye(3), atol=1e-3)


@settings(max_examples=examples(20), deadline=None)
@given(seed=st.integers(0, 1000), alpha=st.sampled_from([0.0, 3.0]))
def test_any_linear_map_of_the_targets_maps_the_predictions(seed, alpha):
    X, Y, _ = draw(seed, n=60, d=4, t=6)
    A = np.random.default_rng(seed).normal(size=(6, 6)) + 3.0 * np.eye(6)
    A *= np.array([1e-6, 1.0, 1.0, 1.0, 1.0, 1e6])
    b = np.arange(6.0)
    one = CurdsAndWheyRegressor(alpha).fit(X, Y).predict(X) @ A + b
    other = CurdsAndWheyRegressor(alpha).fit(X, Y @ A + b).predict(X)
    np.testing.assert_allclose(other / A.std(axis=0), one / A.std(axis=0), rtol=1e-5, atol=1e-5)


def test_a_copy_of_a_target_and_a_constant_one_change_nothing():
    X, Y, _ = draw(0)
    wide = np.column_stack([Y, Y[:, 0], np.full(len(Y), 4.0)])
    model = CurdsAndWheyRegressor(coordinates="canonical")
    expected = model.fit(X, Y).predict(X)
    found = model.fit(X, wide).predict(X)
    np.testing.assert_allclose(found[:, :5], expected)
    np.testing.assert_allclose(found[:, 5], expected[:, 0])
    np.testing.assert_allclose(found[:, 6], 4.0)


def test_ridge_inside_is_ridge_where_nothing_is_shrunk():
    X, Y, _ = draw(0, noise=1e-6)
    model = CurdsAndWheyRegressor(alpha=1e-9).fit(X, Y)
    np.testing.assert_allclose(model.predict(X), Ridge(1e-9).fit(X, Y).predict(X), rtol=1e-6)
    x, y = X - X.mean(axis=0), draw(1)[1]
    y = y - y.mean(axis=0)
    ridge = np.linalg.solve(x.T @ x + 50.0 * np.eye(8), x.T @ y)
    shrunk = CurdsAndWheyRegressor(alpha=50.0).fit(X, y)
    np.testing.assert_allclose(shrunk.coef_, (ridge @ shrunk.mixing_).T)


@pytest.mark.parametrize("coordinates", ["canonical", "principal"])
def test_curds_and_whey_beats_least_squares_on_related_targets(coordinates):
    options = {"n": 40, "d": 10, "t": 6, "rank": 1, "noise": 3.0}
    model = CurdsAndWheyRegressor(coordinates=coordinates)
    ours = [risk(model, seed, **options) for seed in range(40)]
    ols = [risk(LinearRegression(), seed, **options) for seed in range(40)]
    assert np.mean(ours) < 0.7 * np.mean(ols)


def test_the_shrinkage_is_on_average_near_that_of_known_moments():
    # The best d of known moments is c^2 / (c^2 + r (1 - c^2)), c the population's correlation.
    n, d = 400, 40
    B = np.zeros((d, 4))
    np.fill_diagonal(B, [2.0, 1.0, 0.5, 0.25])
    c2 = np.diag(B[:4]) ** 2 / (np.diag(B[:4]) ** 2 + 1.0)
    found = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, d))
        found.append(CurdsAndWheyRegressor().fit(X, X @ B + rng.normal(size=(n, 4))).shrinkage_)
    expected = c2 / (c2 + d / n * (1 - c2))
    np.testing.assert_allclose(np.mean(found, axis=0)[:3], expected[:3], atol=0.06)


# Reduced rank


@pytest.mark.parametrize("alpha", [0.0, 5.0])
def test_full_rank_is_ridge_regression(alpha):
    X, Y, _ = draw(0)
    model = ReducedRankRegressor(5, alpha=alpha).fit(X, Y)
    reference = Ridge(alpha).fit(X, Y) if alpha else LinearRegression().fit(X, Y)
    np.testing.assert_allclose(model.coef_, reference.coef_)
    np.testing.assert_allclose(model.intercept_, reference.intercept_)


def alternating(X, Y, rank, alpha, rng):
    """Least value of the objective found by improving B = P Q', one factor at a time."""
    x, y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    gram, cross = x.T @ x + alpha * np.eye(x.shape[1]), x.T @ y
    Q = np.linalg.qr(rng.normal(size=(y.shape[1], rank)))[0]
    for _ in range(500):
        P = np.linalg.solve(gram, cross @ Q)
        # Q: least squares of gram^(1/2) P Q' against gram^(-1/2) cross.
        Q = np.linalg.qr(np.linalg.solve(P.T @ gram @ P, P.T @ cross).T)[0]
    B = np.linalg.solve(gram, cross @ Q) @ Q.T
    return np.sum((y - x @ B) ** 2) + alpha * np.sum(B**2)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("alpha", [0.0, 20.0])
def test_no_search_from_many_starts_finds_a_better_fit_of_that_rank(rank, alpha):
    X, Y, _ = draw(3, n=40, d=6, t=5, noise=3.0)
    model = ReducedRankRegressor(rank, alpha=alpha).fit(X, Y)
    assert np.linalg.matrix_rank(model.coef_) == rank
    value = np.sum((Y - model.predict(X)) ** 2) + alpha * np.sum(model.coef_**2)
    rng = np.random.default_rng(0)
    best = min(alternating(X, Y, rank, alpha, rng) for _ in range(20))
    assert value == pytest.approx(best, rel=1e-8)


def test_folds_find_the_rank_and_their_errors_are_those_of_refits():
    X, Y, _ = draw(0, n=200, d=6, t=8, rank=2)
    model = ReducedRankRegressor(alpha=[0.0, 1.0]).fit(X, Y)
    assert model.rank_ == 2
    assert model.errors_.shape == (2, 7)
    for rank in (1, 4):
        errors = []
        for test in np.split(np.arange(200), 5):
            train = np.setdiff1d(np.arange(200), test)
            fitted = ReducedRankRegressor(rank, alpha=1.0).fit(X[train], Y[train])
            errors.append(np.mean((fitted.predict(X[test]) - Y[test]) ** 2))
        assert model.errors_[1, rank] == pytest.approx(np.mean(errors))


def test_folds_leave_targets_that_are_noise_at_their_means():
    rng = np.random.default_rng(1)
    X, Y = rng.normal(size=(60, 20)), rng.normal(size=(60, 4))
    model = ReducedRankRegressor().fit(X, Y)
    assert model.rank_ == 0
    np.testing.assert_allclose(model.predict(X), np.tile(Y.mean(axis=0), (60, 1)))


def test_reduced_rank_beats_least_squares_on_coefficients_of_low_rank():
    options = {"n": 40, "d": 10, "t": 8, "rank": 1, "noise": 3.0}
    ours = [risk(ReducedRankRegressor(), seed, **options) for seed in range(40)]
    ols = [risk(LinearRegression(), seed, **options) for seed in range(40)]
    assert np.mean(ours) < 0.6 * np.mean(ols)


# Groups


def test_groups_of_one_are_a_model_for_each_target():
    X, Y, _ = draw(0)
    expected = LinearRegression().fit(X, Y).predict(X)
    np.testing.assert_allclose(GroupMeansRegressor(range(5)).fit(X, Y).predict(X), expected)
    np.testing.assert_allclose(WardGroupsRegressor(n_groups=5).fit(X, Y).predict(X), expected)


def test_a_group_predicts_its_mean_in_the_units_of_each_member():
    X, Y, _ = draw(0, t=3)
    Z = (Y - Y.mean(axis=0)) / Y.std(axis=0)
    model = GroupMeansRegressor(["a", "b", "a"], Ridge(2.0)).fit(X, Y)
    mean = Ridge(2.0).fit(X, Z[:, [0, 2]].mean(axis=1)).predict(X)
    predicted = model.predict(X)
    np.testing.assert_allclose(predicted[:, 0], mean * Y[:, 0].std() + Y[:, 0].mean())
    np.testing.assert_allclose(predicted[:, 2], mean * Y[:, 2].std() + Y[:, 2].mean())
    assert model.labels_.tolist() == [0, 1, 0]


def grouped(seed, n=50, d=12):
    """Twelve targets of three groups with common coefficients."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    labels = np.repeat([0, 1, 2], 4)
    B = rng.normal(size=(d, 3))[:, labels]
    return X, X @ B + 2.0 * rng.normal(size=(n, 12)), B, labels


def test_ward_finds_groups_and_its_means_beat_single_targets():
    risks = {"ward": [], "given": [], "single": []}
    for seed in range(20):
        X, Y, B, labels = grouped(seed)
        rows = np.random.default_rng(seed + 999).normal(size=(200, 12))
        models = {
            "ward": WardGroupsRegressor(),
            "given": GroupMeansRegressor(labels),
            "single": LinearRegression(),
        }
        for name, model in models.items():
            risks[name].append(np.mean((model.fit(X, Y).predict(rows) - rows @ B) ** 2))
        found = WardGroupsRegressor(n_groups=3).fit(X, Y).labels_
        assert found.tolist() == labels.tolist()
    assert np.mean(risks["given"]) < 0.5 * np.mean(risks["single"])
    assert np.mean(risks["ward"]) < 0.8 * np.mean(risks["single"])


@pytest.mark.parametrize("level", [0.0, 0.1, 1.0 / 3.0, 1e9 + 0.1])
def test_a_target_that_does_not_vary_shifts_no_other_whatever_its_level(level):
    # The mean of sixty times 0.1 is not 0.1, and its standard deviation not zero.
    X, Y, _ = draw(0, t=3)
    Y[:, 1] = 0.0
    models = [GroupMeansRegressor(), WardGroupsRegressor(n_groups=2), CurdsAndWheyRegressor()]
    expected = [clone(model).fit(X, Y).predict(X) for model in models]
    Y[:, 1] = level
    for model, before in zip(models, expected, strict=True):
        predicted = model.fit(X, Y).predict(X)
        np.testing.assert_allclose(predicted[:, [0, 2]], before[:, [0, 2]], atol=1e-9)
        np.testing.assert_allclose(predicted[:, 1], level)


def test_units_of_targets_do_not_change_their_groups():
    X, Y, _, labels = grouped(0)
    units = 10.0 ** np.arange(-6, 6)
    found = WardGroupsRegressor(n_groups=3).fit(X, Y * units + units).labels_
    assert found.tolist() == labels.tolist()


def test_ward_stands_events_that_all_lie_in_one_fold():
    X, Y, _, _ = grouped(0)
    Y[:, 3] = 0.0
    Y[2, 3] = 1.0
    assert np.isfinite(WardGroupsRegressor().fit(X, Y).predict(X)).all()


@pytest.mark.parametrize(
    "model", [CurdsAndWheyRegressor(), CurdsAndWheyRegressor(1.0), ReducedRankRegressor()]
)
def test_features_that_do_not_vary_leave_the_means(model):
    _, Y, _ = draw(0)
    predicted = model.fit(np.full((60, 2), 3.0), Y).predict([[1.0, 2.0]])
    np.testing.assert_allclose(predicted, [Y.mean(axis=0)])


@pytest.mark.parametrize("model", [CurdsAndWheyRegressor(), ReducedRankRegressor()])
def test_more_features_than_rows_are_no_obstacle(model):
    X, Y, _ = draw(0, n=20, d=40)
    assert np.isfinite(model.fit(X, Y).predict(X)).all()


# Chains, which scikit-learn has


@pytest.mark.parametrize("link", [LinearRegression(), Ridge(10.0)])
def test_a_chain_of_linear_models_with_one_penalty_is_a_model_for_each_target(link):
    # A link sees true earlier targets and is asked with predicted ones. Its own slopes are those
    # of its target less what it takes from the earlier ones, and prediction adds just that again.
    X, Y, _ = draw(0)
    chain = RegressorChain(link, order=[3, 1, 0, 4, 2]).fit(X, Y)
    np.testing.assert_allclose(chain.predict(X), clone(link).fit(X, Y).predict(X))


def test_a_chain_whose_links_differ_in_their_penalty_is_something_else():
    X, Y, _ = draw(1, n=40, d=15, noise=np.array([0.4, 4.0, 12.0, 0.8, 4.0]))
    chain = RegressorChain(RidgeCV([0.1, 100.0])).fit(X, Y)
    each = [RidgeCV([0.1, 100.0]).fit(X, y) for y in Y.T]
    assert [link.alpha_ for link in chain.estimators_] == [model.alpha_ for model in each]
    alone = np.column_stack([model.predict(X) for model in each])
    assert np.abs(chain.predict(X) - alone).max() > 1.0


# Bad input


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (RandomRegressor("median"), "strategy='median' is not known; use one of 'draw', 'mean'"),
        (CurdsAndWheyRegressor(-1.0), "alpha=-1.0 must be finite and not negative: pass 0 or more"),
        (CurdsAndWheyRegressor(coordinates="pca"), "coordinates='pca' is not known"),
        (ReducedRankRegressor(6), "rank=6 is not possible with 5 features or targets"),
        (ReducedRankRegressor(0), "pass a whole number from 1 to 5, or 'cv'"),
        (ReducedRankRegressor(alpha=[]), "alpha holds no penalties"),
        (ReducedRankRegressor(n_folds=1), "n_folds=1 is not a number of folds"),
        (GroupMeansRegressor([0, 1]), r"labels has shape \(2,\) and there are 5 targets"),
        (WardGroupsRegressor(n_groups=2.5), "n_groups=2.5 is not possible with 5 targets"),
        (WardGroupsRegressor(n_groups="auto"), "n_groups='auto' is not a number"),
    ],
)
def test_what_cannot_be_is_refused_in_words(model, words):
    X, Y, _ = draw(0)
    with pytest.raises(ValueError, match=words):
        model.fit(X, Y)


CHECKS = parametrize_with_checks(
    [
        RandomRegressor(),
        RandomRegressor("mean"),
        CurdsAndWheyRegressor(),
        ReducedRankRegressor(),
        GroupMeansRegressor(),
        WardGroupsRegressor(),
    ]
).mark
NAMES, CASES = CHECKS.args


@pytest.mark.parametrize(NAMES, list(CASES), **CHECKS.kwargs)
def test_scikit_learns_checks_pass(estimator, check):
    check(estimator)
