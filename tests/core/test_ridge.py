"""Ridge regression of many targets: penalties, restrictions and decisions against refits."""

import itertools
import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import linalg, stats
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, RidgeCV
from sklearn.linear_model import Ridge as SklearnRidge

from ctfa import (
    CTFARegressor,
    FeatureAggregator,
    PooledCTFARegressor,
    TargetAggregator,
    testing,
)
from ctfa.core.criteria import cross_validated_risk, feature_risk
from ctfa.core.design import Design
from ctfa.core.gram import DenseGram
from ctfa.core.partition import Partition
from ctfa.core.ridge import PENALTIES, Ridge, restricted_penalty
from ctfa.core.scans import SCANS
from ctfa.core.spaces.base import CrossValidated
from ctfa.core.spaces.features import FeatureSpace
from ctfa.core.spaces.targets import TargetSpace
from ctfa.core.tasks.shared import LinearFit
from problems import JUDGES, RIDGE, make_problem

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


def at_average_leverage(residual, X, penalty, weights):
    """Residuals over one less the mean leverage, that of the intercept included."""
    n = len(weights)
    rows = (X - weights @ X / n) * np.sqrt(weights)[:, None]
    squares = np.linalg.svd(rows, compute_uv=False) ** 2
    # Whole numbers first: hardly a row is spared where a small penalty leaves nothing.
    spared = n - 1 - squares.size + (1.0 / (1.0 + squares / penalty)).sum()
    return residual * np.sqrt(weights) / (spared / n)


def by_the_book(ridge, X, Y, weights):
    """Residuals of refits at the penalties of a ridge, judged at their average leverages."""
    model, length = refit(ridge, X, Y, weights)
    residual = Y - model.predict(X / length)
    each = zip(residual.T, np.broadcast_to(ridge.penalty, Y.shape[1]), strict=True)
    return np.column_stack([at_average_leverage(r, X / length, p, weights) for r, p in each])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("family", ["correlated", "constant", "duplicated"])
@pytest.mark.parametrize("shape", SHAPES)
def test_residuals_are_judged_at_the_average_leverage(shape, family, weighted):
    ridge, problem, centred, weights = ridge_of(shape, weighted, family)
    expected = by_the_book(ridge, problem.X, problem.Y, weights)
    np.testing.assert_allclose(ridge.cross_validated(centred), expected, rtol=1e-6, atol=1e-6)


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


# -- Penalties -------------------------------------------------------------------------------------


def restricted_likelihood(X, columns, penalty, weights=None):
    """Log-likelihood of contrasts that are free of the mean, at the best variance of the noise.

    Columns are independent draws of ``N(mean, s2 (1/W + X X'/penalty))``, for dense matrices.
    """
    n, (_, m) = len(X), columns.shape
    root = np.ones(n) if weights is None else np.sqrt(weights)
    # The intercept is projected out: whatever its value, contrasts do not know it.
    basis = linalg.null_space(root[None])
    contrasts, inputs = basis.T @ (columns * root[:, None]), basis.T @ (X * root[:, None])
    covariance = np.eye(n - 1)
    if np.isfinite(penalty):
        covariance += inputs @ inputs.T / penalty
    factor = linalg.cho_factor(covariance)
    noise = np.trace(contrasts.T @ linalg.cho_solve(factor, contrasts)) / (m * (n - 1))
    log_det = 2.0 * np.log(np.diag(factor[0])).sum()
    return -0.5 * m * ((n - 1) * (np.log(2.0 * np.pi * noise) + 1.0) + log_det)


def likeliest_penalty(X, target, weights=None):
    """The penalty tried that has the greatest restricted likelihood; of equals the largest."""
    likelihood = [restricted_likelihood(X, target[:, None], p, weights) for p in PENALTIES]
    return PENALTIES[np.argmax(np.array(likelihood) >= max(likelihood) - 1e-9)]


def test_the_likelihood_written_out_is_that_of_normal_contrasts():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(9, 3)), rng.normal(size=9)
    contrasts = linalg.helmert(9)
    for penalty in (0.3, 20.0):
        covariance = contrasts @ (np.eye(9) + X @ X.T / penalty) @ contrasts.T
        likelihood = stats.multivariate_normal(cov=covariance).logpdf
        # At the best variance of the noise.
        best = max(
            likelihood(contrasts @ y / s) - 8 * np.log(s) for s in np.linspace(0.1, 3.0, 20_001)
        )
        assert restricted_likelihood(X, y[:, None], penalty) == pytest.approx(best, abs=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("family", ["correlated", "constant", "duplicated", "scales", "offset"])
@pytest.mark.parametrize("shape", SHAPES)
def test_penalties_have_the_greatest_restricted_likelihood(shape, family, weighted):
    for seed in range(3):
        ridge, problem, _, weights = ridge_of(shape, weighted, family, seed)
        used = ridge.length > 0.0
        X = (problem.X - problem.X.mean(axis=0))[:, used] / ridge.length[used]
        for y, penalty in zip(problem.Y.T, ridge.penalty, strict=True):
            tried = [restricted_likelihood(X, y[:, None], p, weights) for p in PENALTIES]
            found = restricted_likelihood(X, y[:, None], penalty, weights)
            # With as many directions as rows the smallest penalties are all alike.
            assert found == pytest.approx(max(tried), abs=1e-6)


@pytest.mark.parametrize("shape", SHAPES)
def test_one_penalty_for_several_columns_has_their_likelihood_together(shape):
    for seed in range(4):
        ridge, problem, centred, _ = ridge_of(shape, weighted=False, seed=seed)
        turned, left = ridge.coordinates(centred)
        columns = slice(1, 4)
        found = restricted_penalty(
            (turned[:, columns] ** 2).sum(axis=1, keepdims=True),
            np.array([(left[:, columns] ** 2).sum()]),
            ridge.values,
            ridge.n_samples,
        )
        X = (problem.X - problem.X.mean(axis=0)) / ridge.length
        together = [restricted_likelihood(X, centred[:, columns], p) for p in PENALTIES]
        np.testing.assert_allclose(found, PENALTIES[np.argmax(together)])


def test_noise_gets_the_largest_penalty_and_an_exact_signal_the_smallest():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    exact = X @ rng.normal(size=(4, 2))
    exact -= exact.mean(axis=0)
    assert np.max(Ridge.of(X, exact).penalty) == PENALTIES[-1]
    noise = rng.normal(size=(60, 40))
    noise -= noise.mean(axis=0)
    penalty = Ridge.of(X, noise).penalty
    assert np.mean(penalty == np.inf) > 0.4  # nothing is left of the inputs
    assert np.median(penalty) > 10.0


def test_one_row_of_high_leverage_decides_where_rows_are_left_out_and_not_by_likelihood():
    rng = np.random.default_rng(0)
    finite = PENALTIES[np.isfinite(PENALTIES)]
    moved = []
    for _ in range(20):
        X = rng.normal(size=(60, 8))
        y = X @ rng.normal(size=8) * 0.5 + rng.normal(size=60)
        far, off = X.copy(), y.copy()
        far[0], off[0] = 30.0 * X[0], 10.0 * rng.normal()
        used = []
        for inputs, target in ((X, y), (far, off)):
            centred = (target - target.mean())[:, None]
            factored = Ridge.factor(inputs)
            by_rows = finite[np.argmin([factored.left_out(centred, p)[0] for p in finite])]
            penalty = np.array([Ridge.of(inputs, centred).penalty[0], by_rows])
            used.append(factored.kept(penalty).sum(axis=0))  # effective number of coefficients
        moved.append(np.abs(used[1] - used[0]))
    by_likelihood, by_rows = np.transpose(moved)
    assert by_likelihood.max() < 2.5
    assert np.median(by_likelihood) < 1.0
    assert np.median(by_rows) > 3.0


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("family", ["correlated", "constant", "duplicated", "scales"])
@pytest.mark.parametrize("shape", SHAPES)
def test_penalties_that_are_given_are_those_of_scikit_learn_in_the_units_given(
    shape, family, weighted
):
    for judge in (SklearnRidge(3.0, solver="svd"), RIDGE, RidgeCV()):
        _, problem, centred, weights = ridge_of(shape, weighted, family)
        X, Y = 7.0 * problem.X + 1.0, problem.Y
        given = judge.alphas if isinstance(judge, RidgeCV) else [judge.alpha]
        ridge = Ridge.of(X, centred, weights if weighted else None, tuple(given))
        if isinstance(judge, RidgeCV):
            fits = [clone(judge).fit(X, y, weights) for y in Y.T]
            np.testing.assert_allclose(ridge.penalty, [one.alpha_ for one in fits])
        # RidgeCV's own coefficients, by the dual, have fewer digits where units differ.
        model = SklearnRidge(ridge.penalty, solver="svd").fit(X, Y, weights)
        scale = 1e-9 * np.abs(model.coef_).max()
        np.testing.assert_allclose(
            ridge.coefficients(centred), model.coef_.T, rtol=1e-6, atol=scale
        )
        predicted = (X - ridge.mean) @ ridge.coefficients(centred) + weights @ Y / len(weights)
        np.testing.assert_allclose(predicted, model.predict(X), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("condition", [1.0, 1e-3, 1e-7])
def test_a_fit_from_least_squares_is_the_one_from_the_inputs(weighted, condition):
    rng = np.random.default_rng(4)
    X, Y, new = (rng.normal(size=shape) for shape in ((40, 6), (40, 3), (5, 6)))
    X[:, 1] = X[:, 0] + condition * X[:, 1]
    X[:, 2] = 1e4 * X[:, 2] + 1e6
    weights = weights_of(40, weighted) if weighted else None
    rest = () if weights is None else (weights,)
    plain = Ridge.factor(X, *rest)
    centred = plain.centre(Y)
    turned = Ridge.of_design(Design.of(X, *rest))

    def gram(columns):
        return columns.T @ columns

    penalties = np.array([0.1, 2.0, np.inf])
    for chosen in (lambda fit: fit.chosen_for(centred), lambda fit: fit.with_penalty(penalties)):
        one, other = chosen(plain), chosen(turned)
        assert_array_equal(one.penalty, other.penalty)
        for verb in (
            lambda fit: new @ fit.coefficients(centred),
            lambda fit: fit.residual(centred),
            lambda fit: fit.cross_validated(centred),
            lambda fit: fit.left_out(centred, 0.5),
            lambda fit: gram(fit.coordinates(centred)[1]),
            lambda fit: gram(fit.with_penalty(np.array([0.5])).augmented().root),
        ):
            np.testing.assert_allclose(verb(other), verb(one), rtol=1e-6, atol=1e-7)


def test_inputs_without_a_triangle_to_trust_are_factored_by_singular_values():
    X = np.random.default_rng(0).normal(size=(20, 3))
    copies = np.column_stack((X, X[:, 0]))
    assert Ridge.of_design(Design.of(copies)) is None
    assert Ridge.of_design(Design.of(X[:3])) is None


def test_rows_are_left_out_as_refits_leave_them_out():
    weights = weights_of(14, weighted=True)
    problem = make_problem("correlated", 3, n_samples=14, n_features=20, n_targets=3)
    X, Y = problem.X, problem.Y
    centred = (Y - weights @ Y / 14) * np.sqrt(weights)[:, None]
    factored = Ridge.factor(X, weights, unit=False)
    for penalty in (0.1, 5.0, 1e3):
        expected = np.zeros(3)
        for row in range(14):
            rest = np.arange(14) != row
            model = SklearnRidge(penalty, solver="svd").fit(X[rest], Y[rest], weights[rest])
            expected += weights[row] * (Y[row] - model.predict(X[[row]])[0]) ** 2
        np.testing.assert_allclose(factored.left_out(centred, penalty), expected, rtol=1e-8)


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


def test_features_are_merged_where_they_outnumber_the_rows_without_a_word():
    problem = make_problem("correlated", 3, n_samples=15, n_features=24)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = FeatureAggregator(min_correlation=-1.0).fit(problem.X, problem.y)
    assert 1 <= model.n_groups_ < 24
    assert np.isfinite(model.history_.loss).all()
    # By the penalty of the greatest restricted likelihood: what the first merge costs, by a refit.
    centred = problem.y - problem.y.mean()
    ridge = Ridge.of(problem.X, centred[:, None])
    space = FeatureSpace.penalised(ridge, centred)
    block, other = int(model.history_.block[0]), np.array([int(model.history_.other[0])])
    expected = feature_risk(space.evidence(block, other))
    np.testing.assert_allclose(model.history_.loss[0], expected[0], rtol=1e-8)


@pytest.mark.parametrize("shape", [(15, 24), (26, 24), (10, 40)])
@pytest.mark.parametrize("regressor", [None, RandomForestRegressor(10, random_state=0)])
def test_the_default_works_for_any_number_of_rows_and_says_nothing(shape, regressor):
    problem = make_problem("correlated", 3, n_samples=shape[0], n_features=shape[1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = CTFARegressor(regressor).fit(problem.X, problem.Y)
    assert np.isfinite(model.predict(problem.X)).all()
    assert str(model.why(0))


@pytest.mark.parametrize("shape", [(15, 24), (26, 24), (10, 40)])
def test_least_squares_that_was_asked_for_says_once_that_ridge_regression_judges(shape):
    problem = make_problem("correlated", 3, n_samples=shape[0], n_features=shape[1])
    for max_loss in (1.5, "auto"):
        asked = TargetAggregator(regressor=LinearRegression(), max_loss=max_loss)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            asked.fit(problem.X, problem.Y)
        assert [str(one.message).partition(":")[0] for one in said] == [
            f"X has {shape[0]} rows to learn from and {shape[1]} features"
        ]
    default = TargetAggregator(max_loss=asked.max_loss_).fit(problem.X, problem.Y)
    assert_array_equal(asked.labels_, default.labels_)


def test_ridge_regression_in_place_of_least_squares_predicts_what_interpolation_does_not():
    scores = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X, new = rng.normal(size=(40, 39)), rng.normal(size=(500, 39))
        slopes = np.zeros((39, 2))
        slopes[:3] = rng.normal(size=(3, 1))
        Y, truth = X @ slopes + rng.normal(size=(40, 2)), new @ slopes
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            default = CTFARegressor(features="passthrough").fit(X, Y)
        with pytest.warns(RuntimeWarning, match="Ridge regression"):  # judges merges, and only that
            exact = CTFARegressor(LinearRegression(), features="passthrough").fit(X, Y)
        assert all(isinstance(one, SklearnRidge) for one in default.regressors_)
        scores.append((default.score(new, truth), exact.score(new, truth)))
    by_ridge, by_interpolation = np.median(scores, axis=0)
    assert by_ridge > 0.2
    assert by_interpolation < 0.0


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
    y, design = problem.y - problem.y.mean(), Design.of(problem.X)
    columns = problem.X - problem.X.mean(axis=0)
    found = []
    for space in (
        FeatureSpace.of(design, y, DenseGram.of((columns,))),
        FeatureSpace.penalised(Ridge.of(problem.X, y[:, None]), y, DenseGram.of((columns,))),
    ):
        scan, limit = SCANS["correlation"], float(np.log(400))
        history = scan(space, feature_risk, max_loss=limit, order=np.arange(8))
        found.append(history.partition(limit))
    assert found[0] == found[1] == FeatureAggregator().fit(problem.X, problem.y).partition_
    assert 1 < found[0].n_groups < 8


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


def penalised_fits(X, Y, judge):
    """Residuals as if left out, and how many coefficients a fit has, by scikit-learn's fits.

    Of each target at its own penalty: that of the greatest restricted likelihood for columns at
    unit length, or what a ``Ridge`` or ``RidgeCV`` takes in the units given.
    """
    n = len(X)
    inputs = X
    if judge is None:
        inputs = (X - X.mean(axis=0)) / np.linalg.norm(X - X.mean(axis=0), axis=0)
    squares = np.linalg.svd(inputs - inputs.mean(axis=0), compute_uv=False) ** 2
    residual, used = np.empty_like(Y), []
    for target, y in enumerate(Y.T):
        if judge is None:
            penalty = likeliest_penalty(inputs, y)
        else:
            fitted = clone(judge).fit(X, y)
            penalty = fitted.alpha_ if isinstance(judge, RidgeCV) else judge.alpha
        left = y - SklearnRidge(np.array([penalty]), solver="svd").fit(inputs, y).predict(inputs)
        residual[:, target] = at_average_leverage(left, inputs, penalty, np.ones(n))
        used.append((squares / (squares + penalty)).sum())
    return residual, np.mean(used)


def brute_force_groups(X, Y, max_loss, judge=None):
    """Best-first with every error taken from refits, again after every merge."""
    n, L = Y.shape
    scaled = (Y - Y.mean(axis=0)) / Y.std(axis=0)
    residual, used = penalised_fits(X, scaled, judge)
    groups = [[i] for i in range(L)]
    while len(groups) > 1:
        about = scaled * n / (n - 1)  # what a constant leaves
        best = (np.inf, 0, 0)
        for one, two in itertools.combinations(range(len(groups)), 2):
            means = [
                part[:, groups[one]].mean(axis=1) - part[:, groups[two]].mean(axis=1)
                for part in (about, residual)
            ]
            total, left = (float(mean @ mean) for mean in means)
            loss = 1.0 + (n - 1) / max(used, 1.0) * (total - left) / left
            best = min(best, (loss, one, two))
        if best[0] > max_loss:
            break
        groups[best[1]] = groups[best[1]] + groups.pop(best[2])
    return Partition.from_groups(groups)


JUDGED_BY = {"default": None, "Ridge": SklearnRidge(3.0), "RidgeCV": RIDGE}


@pytest.mark.parametrize("max_loss", [0.5, 1.5, 4.0])
@pytest.mark.parametrize("judge", JUDGED_BY)
@pytest.mark.parametrize("shape", SHAPES)
def test_decisions_by_ridge_are_those_of_refits_at_every_comparison(shape, judge, max_loss):
    n, D = SHAPES[shape]
    judge = JUDGED_BY[judge]
    if judge is None:
        n = min(n, D + 10)  # with more rows least squares judges
    problem = make_problem("correlated", 5, n_samples=n, n_features=D, n_targets=6)
    X = problem.X * np.logspace(-1.0, 1.0, D)  # penalties that are given know the units
    model = TargetAggregator(regressor=judge, max_loss=max_loss).fit(X, problem.Y)
    assert model.partition_ == brute_force_groups(X, problem.Y, max_loss, judge)


def test_with_many_rows_ridge_makes_the_decisions_of_least_squares():
    for seed in range(3):
        problem = make_problem("gaussian", seed, n_samples=1500, n_features=5, n_targets=8)
        losses = [
            TargetAggregator(regressor=JUDGES[solver], max_loss=np.inf)
            .fit(problem.X, problem.Y)
            .history_.loss
            for solver in ("ols", "ridge")
        ]
        near = losses[0] < 5.0
        np.testing.assert_allclose(losses[1][near], losses[0][near], atol=0.15)
        groups = [
            TargetAggregator(regressor=JUDGES[solver], max_loss=1.5)
            .fit(problem.X, problem.Y)
            .partition_
            for solver in ("ols", "ridge")
        ]
        assert groups[0] == groups[1]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("head", ["mean", "levels"])
def test_flips_under_ridge_do_not_depend_on_how_targets_lie_in_memory(order, head):
    problem = make_problem("gaussian", 6, n_samples=40, n_features=5, n_targets=5)
    Y = np.column_stack((problem.Y, -problem.Y + 0.3))
    targets = TargetAggregator(regressor=RIDGE, flip=True, max_loss=1.5)
    plain = CTFARegressor(targets=targets, features="passthrough", head=head).fit(problem.X, Y)
    assert (plain.signs_ < 0.0).any()
    other = CTFARegressor(targets=targets, features="passthrough", head=head)
    other.fit(problem.X, np.array(Y, order=order))
    np.testing.assert_allclose(other.predict(problem.X), plain.predict(problem.X))
    np.testing.assert_allclose(other.trust_, plain.trust_)


def test_ridge_needs_nothing_of_the_features():
    problem = make_problem("gaussian", 7, n_samples=20, n_features=5, n_targets=4)
    flat = np.ones((20, 2))
    model = TargetAggregator(regressor=RIDGE).fit(flat, problem.Y)
    assert np.isfinite(model.history_.loss).all()
    assert model.n_groups_ == 1  # nothing predicts a difference
