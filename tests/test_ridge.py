"""Ridge regression of many targets: cross-validation, restrictions and decisions against refits."""

import itertools
import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.linear_model import Ridge as SklearnRidge

from ctfa import (
    CTFARegressor,
    FeatureAggregator,
    PooledCTFARegressor,
    TargetAggregator,
    testing,
)
from ctfa.core.criteria import cross_validated_risk
from ctfa.core.partition import Partition
from ctfa.core.ridge import PENALTIES, Ridge
from ctfa.core.spaces.base import CrossValidated
from ctfa.core.spaces.features import FeatureSpace
from ctfa.core.spaces.targets import TargetSpace
from ctfa.core.tasks.shared import LinearFit
from problems import make_problem

SHAPES = {"long": (30, 6), "square": (12, 12), "wide": (12, 20)}


def weights_of(n, weighted):
    weights = np.random.default_rng(n).uniform(0.3, 2.0, size=n) if weighted else np.ones(n)
    return weights * n / weights.sum()


def ridge_of(shape, weighted, family="correlated", seed=0):
    """A ridge, its data, the targets centred and weighted, and the weights."""
    n, D = SHAPES[shape]
    problem = make_problem(family, seed, n_samples=n, n_features=D, n_targets=5)
    weights = weights_of(n, weighted)
    centred = (problem.Y - weights @ problem.Y / n) * np.sqrt(weights)[:, None]
    return Ridge.of(problem.X, centred, weights if weighted else None), problem, centred, weights


def refit(ridge, X, Y, weights, rows=slice(None)):
    """scikit-learn's ridge on columns at unit length; a constant column is left out."""
    length = np.where(ridge.length > 0.0, ridge.length, np.inf)
    model = SklearnRidge(alpha=np.broadcast_to(ridge.penalty, Y.shape[1]), solver="svd")
    return model.fit(X[rows] / length, Y[rows], sample_weight=weights[rows]), length


# -- The fit ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("family", ["correlated", "constant", "duplicated", "scales", "offset"])
@pytest.mark.parametrize("shape", SHAPES)
def test_coefficients_and_residuals_are_those_of_scikit_learn(shape, family, weighted):
    ridge, problem, centred, weights = ridge_of(shape, weighted, family)
    model, length = refit(ridge, problem.X, problem.Y, weights)
    coef = ridge.coefficients(centred)
    unit = np.where(np.isfinite(length), length, 1.0)[:, None]
    scale = np.abs(model.coef_).max()
    np.testing.assert_allclose(coef * unit, model.coef_.T, rtol=1e-6, atol=1e-8 * scale)
    assert (coef[np.isinf(length)] == 0.0).all()
    residual = (problem.Y - model.predict(problem.X / length)) * np.sqrt(weights)[:, None]
    np.testing.assert_allclose(ridge.residual(centred), residual, atol=1e-8)
    fit = LinearFit(ridge, centred)
    new = problem.X[:4] * 1.1
    mean = weights @ problem.Y / len(weights)
    singles = Partition.singletons(5)
    np.testing.assert_allclose(
        fit.predictor(new)(singles, np.ones(5)) + mean,
        model.predict(new / length),
        rtol=1e-7,
        atol=1e-7,
    )


def by_the_book(ridge, X, Y, weights):
    """Residuals of refits over one less the mean leverage, that of the intercept included."""
    n = len(weights)
    model, length = refit(ridge, X, Y, weights)
    residual = (Y - model.predict(X / length)) * np.sqrt(weights)[:, None]
    unit = (X - weights @ X / n) * np.sqrt(weights)[:, None] / length
    judged = np.empty_like(residual)
    for target, penalty in enumerate(np.broadcast_to(ridge.penalty, Y.shape[1])):
        hat = unit @ np.linalg.solve(unit.T @ unit + penalty * np.eye(X.shape[1]), unit.T)
        judged[:, target] = residual[:, target] / (1.0 - (np.trace(hat) + 1.0) / n)
    return judged


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("family", ["correlated", "constant", "duplicated"])
@pytest.mark.parametrize("shape", SHAPES)
def test_residuals_are_judged_by_generalised_cross_validation(shape, family, weighted):
    ridge, problem, centred, weights = ridge_of(shape, weighted, family)
    expected = by_the_book(ridge, problem.X, problem.Y, weights)
    np.testing.assert_allclose(ridge.cross_validated(centred), expected, rtol=1e-6, atol=1e-8)


def test_equal_leverages_make_it_leaving_out():
    """A balanced design: every row has the same leverage, and refits without it say the same."""
    X = np.array(list(itertools.product([-1.0, 1.0], repeat=4)))
    Y = np.random.default_rng(0).normal(size=(16, 3)) + X[:, [0]]
    ridge = Ridge.of(X, Y - Y.mean(axis=0))
    found = ridge.cross_validated(Y - Y.mean(axis=0))
    for row in range(16):
        rest = np.arange(16) != row
        model, length = refit(ridge, X, Y, np.ones(16), rest)
        gap = Y[row] - model.predict(X[[row]] / length)[0]
        np.testing.assert_allclose(found[row], gap, rtol=1e-8)


@pytest.mark.parametrize("shape", SHAPES)
def test_no_penalty_tried_leaves_a_smaller_error(shape):
    ridge, _, centred, _ = ridge_of(shape, weighted=True)
    chosen = (ridge.cross_validated(centred) ** 2).sum(axis=0)
    for penalty in PENALTIES:
        other = replace(ridge, penalty=np.full_like(ridge.penalty, penalty))
        errors = (other.cross_validated(centred) ** 2).sum(axis=0)
        assert (chosen <= errors * (1.0 + 1e-12)).all()


def test_noise_gets_the_largest_penalty_and_an_exact_signal_the_smallest():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    exact = X @ rng.normal(size=(4, 2))
    exact -= exact.mean(axis=0)
    assert np.max(Ridge.of(X, exact).penalty) == PENALTIES[0]
    noise = rng.normal(size=(60, 40))
    noise -= noise.mean(axis=0)
    assert np.median(Ridge.of(X, noise).penalty) > 1.0


@pytest.mark.parametrize("family", ["correlated", "constant", "duplicated"])
@pytest.mark.parametrize("shape", SHAPES)
def test_augmented_rows_give_the_same_coefficients(shape, family):
    n, D = SHAPES[shape]
    problem = make_problem(family, 1, n_samples=n, n_features=D)
    centred = (problem.y - problem.y.mean())[:, None]
    ridge = Ridge.of(problem.X, centred)
    design = ridge.augmented()
    padded = np.concatenate((centred, np.zeros((D, 1))))
    coef = design.root.T @ design.coordinates(padded)[0]
    np.testing.assert_allclose(coef, ridge.coefficients(centred), rtol=1e-6, atol=1e-9)


# -- Features --------------------------------------------------------------------------------------


def penalised_objective(ridge, X, y, groups):
    """Smallest penalised sum of squares with one coefficient a group, by a refit."""
    X, y = X - X.mean(axis=0), y - y.mean()
    sums = np.column_stack([X[:, group].sum(axis=1) for group in groups])
    penalty = float(np.ravel(ridge.penalty)[0])
    weights = np.sqrt(penalty * np.array([(ridge.length[group] ** 2).sum() for group in groups]))
    rows = np.vstack((sums, np.diag(weights)))
    target = np.concatenate((y, np.zeros(len(groups))))
    coef = np.linalg.lstsq(rows, target, rcond=None)[0]
    return float(((target - rows @ coef) ** 2).sum())


@pytest.mark.parametrize("shape", SHAPES)
def test_a_merge_of_features_raises_what_a_restricted_refit_raises(shape):
    n, D = SHAPES[shape]
    problem = make_problem("correlated", 2, n_samples=n, n_features=D)
    y = problem.y - problem.y.mean()
    ridge = Ridge.of(problem.X, y[:, None])
    space = FeatureSpace.penalised(ridge, y)
    groups = {i: [i] for i in range(D)}
    for block, other in [(0, 1), (2, 3), (0, 2), (0, 4)]:
        before = penalised_objective(ridge, problem.X, y, list(groups.values()))
        for one, two in itertools.islice(itertools.combinations(groups, 2), 12):
            merged = {**groups, one: groups[one] + groups[two]}
            merged.pop(two)
            after = penalised_objective(ridge, problem.X, y, list(merged.values()))
            rise = np.asarray(space.evidence(one, np.array([two])).difference.explained)
            assert float(rise[0]) == pytest.approx(after - before, rel=1e-6, abs=1e-9)
        space.merge(block, other)
        groups[block] += groups.pop(other)


def test_features_are_merged_where_they_outnumber_the_rows():
    problem = make_problem("correlated", 3, n_samples=15, n_features=24)
    model = FeatureAggregator(solver="ridge").fit(problem.X, problem.y)
    assert 1 <= model.n_groups_ < 24
    assert np.isfinite(model.history_.loss).all()
    with pytest.warns(RuntimeWarning, match="degrees of freedom.*Ridge regression is used"):
        default = FeatureAggregator().fit(problem.X, problem.y)
    assert default.partition_ == model.partition_


@pytest.mark.parametrize("shape", [(15, 24), (26, 24), (10, 40)])
@pytest.mark.parametrize("regressor", [None, RandomForestRegressor(10, random_state=0)])
def test_the_default_works_for_any_number_of_rows_and_says_so_once(shape, regressor):
    problem = make_problem("correlated", 3, n_samples=shape[0], n_features=shape[1])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = CTFARegressor(regressor).fit(problem.X, problem.Y)
    assert [str(one.message).partition(":")[0] for one in said] == [
        f"X has {shape[0]} rows to learn from and {shape[1]} features"
    ]
    asked = CTFARegressor(regressor, targets=TargetAggregator(solver="ridge"),
                          features=FeatureAggregator(solver="ridge"))  # fmt: skip
    assert_array_equal(asked.fit(problem.X, problem.Y).labels_, model.labels_)
    assert np.isfinite(model.predict(problem.X)).all()
    assert str(model.why(0))


def test_ridge_regression_in_place_of_least_squares_predicts_what_interpolation_does_not():
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(40, 39)), rng.normal(size=(500, 39))
    slopes = np.zeros((39, 2))
    slopes[:3] = rng.normal(size=(3, 1))
    Y, truth = X @ slopes + rng.normal(size=(40, 2)), new @ slopes
    with pytest.warns(RuntimeWarning, match="Ridge regression"):
        default = CTFARegressor(features="passthrough").fit(X, Y)
    with pytest.warns(RuntimeWarning, match="Ridge regression"):  # judges merges, and only that
        exact = CTFARegressor(LinearRegression(), features="passthrough").fit(X, Y)
    assert isinstance(default.regressors_[0], SklearnRidge)
    assert default.score(new, truth) > 0.0 > exact.score(new, truth)


def test_pooled_tasks_without_degrees_of_freedom_stay_apart():
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(20, 30)), np.arange(20) % 4
    y = X[:, 0] + tasks + 0.1 * rng.normal(size=20)
    with pytest.warns(RuntimeWarning, match="20 rows and 30 features.*for 4 tasks.*by itself"):
        model = PooledCTFARegressor().fit(X, y, tasks=tasks)
    assert model.n_groups_ == 4
    assert np.isfinite(model.predict(X, tasks=tasks)).all()


def test_weak_penalties_merge_features_as_least_squares_does():
    problem = make_problem("correlated", 4, n_samples=400, n_features=8)
    plain = FeatureAggregator().fit(problem.X, problem.y)
    ridge = FeatureAggregator(solver="ridge").fit(problem.X, problem.y)
    assert plain.partition_ == ridge.partition_


# -- Targets ---------------------------------------------------------------------------------------


def judged_space(problem, groups):
    centred = problem.Y - problem.Y.mean(axis=0)
    ridge = Ridge.of(problem.X, centred)
    parts = ridge.about_mean(centred), ridge.cross_validated(centred)
    sizes = np.array([float(len(group)) for group in groups])
    sums = [np.column_stack([part[:, group].sum(axis=1) for group in groups]) for part in parts]
    reading = CrossValidated(ridge.n_samples, ridge.n_inputs, ridge.rank)
    return TargetSpace(tuple(sums), sizes, reading)


@pytest.mark.parametrize("shape", SHAPES)
def test_judged_spaces_obey_the_laws(shape):
    n, D = SHAPES[shape]
    for seed in range(3):
        problem = make_problem("correlated", seed, n_samples=n, n_features=D, n_targets=7)
        testing.check_space(lambda g, problem=problem: judged_space(problem, g), 7, seed=seed)


def test_the_cross_validated_criterion_vectorizes_and_has_no_unit():
    problem = make_problem("correlated", 0)
    space = judged_space(problem, [[i] for i in range(problem.Y.shape[1])])
    evidence = space.evidence(0, np.arange(1, space.n_variables))
    testing.check_criterion(cross_validated_risk, evidence, degree=0)


@pytest.mark.parametrize("shape", ["long", "wide"])
def test_a_loss_of_one_is_where_merging_lowers_the_cross_validated_error_of_all_members(shape):
    n, D = SHAPES[shape]
    gains, losses = [], []
    for seed in range(6):
        problem = make_problem("correlated", seed, n_samples=n, n_features=D, n_targets=6)
        centred = problem.Y - problem.Y.mean(axis=0)
        ridge = Ridge.of(problem.X, centred)
        target = centred * n / (n - 1)
        alone = target - by_the_book(ridge, problem.X, problem.Y, np.ones(n))
        start = Partition.from_groups([[0, 1], [2], [3], [4, 5]])
        space = judged_space(problem, [[0, 1], [2], [3], [4, 5]])
        for one, two in itertools.combinations(range(4), 2):
            merged = np.where(start.labels == two, one, start.labels)
            error = [
                ((target - part.spread(part.mean(alone))) ** 2).sum()
                for part in (start, Partition(merged))
            ]
            gains.append(error[0] - error[1])
            losses.append(float(cross_validated_risk(space.evidence(one, np.array([two])))[0]))
    gains, losses = np.array(gains), np.array(losses)
    assert ((gains > 0.0) == (losses < 1.0)).all()
    assert (gains > 0.0).any()
    assert (gains < 0.0).any()


@pytest.mark.parametrize("penalty", [0.5, 2.0])
def test_gains_at_a_given_penalty_are_those_on_new_rows(penalty):
    rng = np.random.default_rng(0)
    coef = 0.3 * rng.normal(size=(8, 1)) + 0.12 * rng.normal(size=(8, 2))
    pair = Partition(np.zeros(2, dtype=int))
    gap = []
    for _ in range(800):
        X = rng.normal(size=(30, 8))
        Y = X @ coef + rng.normal(size=(30, 2))
        mean = Y.mean(axis=0)
        ridge = Ridge.of(X, Y - mean)
        ridge = replace(ridge, penalty=np.full_like(ridge.penalty, penalty)[()])
        predicted = LinearFit(ridge, Y - mean).members.gain_over_single(pair).value.sum()
        alone = ridge.coefficients(Y - mean)
        shared = alone.mean(axis=1, keepdims=True)
        # Risk on rows of mean zero and unit covariance; each target keeps its own mean.
        risks = [
            ((model - coef) ** 2).sum() + ((mean - ridge.mean @ model) ** 2).sum()
            for model in (alone, np.tile(shared, (1, 2)))
        ]
        gap.append(predicted - (risks[0] - risks[1]))
    error = np.std(gap) / np.sqrt(len(gap))
    assert error < 0.01
    assert abs(np.mean(gap)) < 4.0 * error


def brute_force_groups(X, Y, max_loss):
    """Best-first with every error taken from refits, again after every merge."""
    n, L = Y.shape
    scaled = (Y - Y.mean(axis=0)) / Y.std(axis=0)
    ridge = Ridge.of(X, scaled)
    groups = [[i] for i in range(L)]
    while len(groups) > 1:
        residual = by_the_book(ridge, X, scaled, np.ones(n))
        about = scaled * n / (n - 1)  # what a constant leaves
        best = (np.inf, 0, 0)
        for one, two in itertools.combinations(range(len(groups)), 2):
            means = [
                part[:, groups[one]].mean(axis=1) - part[:, groups[two]].mean(axis=1)
                for part in (about, residual)
            ]
            total, left = (float(mean @ mean) for mean in means)
            loss = 1.0 + (n - 1) / max(ridge.rank, 1.0) * (total - left) / left
            best = min(best, (loss, one, two))
        if best[0] > max_loss:
            break
        groups[best[1]] = groups[best[1]] + groups.pop(best[2])
    return Partition.from_groups(groups)


@pytest.mark.parametrize("max_loss", [0.5, 1.5, 4.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_decisions_by_ridge_are_those_of_refits_at_every_comparison(shape, max_loss):
    n, D = SHAPES[shape]
    problem = make_problem("correlated", 5, n_samples=n, n_features=D, n_targets=6)
    model = TargetAggregator(solver="ridge", max_loss=max_loss).fit(problem.X, problem.Y)
    assert model.partition_ == brute_force_groups(problem.X, problem.Y, max_loss)


def test_with_many_rows_ridge_makes_the_decisions_of_least_squares():
    for seed in range(3):
        problem = make_problem("gaussian", seed, n_samples=1500, n_features=5, n_targets=8)
        losses = [
            TargetAggregator(solver=solver, max_loss=np.inf).fit(problem.X, problem.Y).history_.loss
            for solver in ("ols", "ridge")
        ]
        near = losses[0] < 5.0
        np.testing.assert_allclose(losses[1][near], losses[0][near], atol=0.15)
        groups = [
            TargetAggregator(solver=solver, max_loss=1.5).fit(problem.X, problem.Y).partition_
            for solver in ("ols", "ridge")
        ]
        assert groups[0] == groups[1]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("head", ["mean", "shrink"])
def test_flips_under_ridge_do_not_depend_on_how_targets_lie_in_memory(order, head):
    problem = make_problem("gaussian", 6, n_samples=40, n_features=5, n_targets=5)
    Y = np.column_stack((problem.Y, -problem.Y + 0.3))
    targets = TargetAggregator(solver="ridge", flip=True, max_loss=1.5)
    plain = CTFARegressor(targets=targets, features="passthrough", head=head).fit(problem.X, Y)
    assert (plain.signs_ < 0.0).any()
    other = CTFARegressor(targets=targets, features="passthrough", head=head)
    other.fit(problem.X, np.array(Y, order=order))
    np.testing.assert_allclose(other.predict(problem.X), plain.predict(problem.X))
    np.testing.assert_allclose(other.trust_, plain.trust_)


def test_ridge_needs_nothing_of_the_features():
    problem = make_problem("gaussian", 7, n_samples=20, n_features=5, n_targets=4)
    flat = np.ones((20, 2))
    model = TargetAggregator(solver="ridge").fit(flat, problem.Y)
    assert np.isfinite(model.history_.loss).all()
    assert model.n_groups_ == 1  # nothing predicts a difference
