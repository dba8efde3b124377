"""Features averaged two at a time by lost R2 and lost deviance: the true risks cross there."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq, minimize
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, PoissonRegressor
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from ctfa.theory import feature_gain
from ctfa_study.baselines import PairDevianceAggregator, PairR2Aggregator, SingleTaskRegressor
from ctfa_study.baselines._pair_rules import deviances
from ctfa_study.baselines._pairs import Pairs, grow


def correlated(rng, n, rho, scales=(1.0, 1.0)):
    """Two features of a correlation, with the standard deviations given."""
    first = rng.normal(size=n)
    second = rho * first + np.sqrt(1 - rho**2) * rng.normal(size=n)
    return np.column_stack([first, second]) * scales


def blocks(rng, n, sizes, within=0.3):
    """Features in blocks that share a source, and the block of each."""
    labels = np.repeat(np.arange(len(sizes)), sizes)
    return rng.normal(size=(n, len(sizes)))[:, labels] + within * rng.normal(
        size=(n, labels.size)
    ), labels


# Equal coefficients


def test_the_rule_is_an_f_statistic_of_equal_coefficients_at_most_one():
    decided = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        X = correlated(rng, 40, 0.8, scales=(1.0, 1.5))
        y = X @ [1.0, 0.8] + rng.normal(size=40)
        both = LinearRegression().fit(X, y)
        mean = X.mean(axis=1, keepdims=True)
        left = np.sum((y - both.predict(X)) ** 2)
        lost = np.sum((y - LinearRegression().fit(mean, y).predict(mean)) ** 2) - left
        expected = lost / (left / 37) <= 1.0
        decided.append(expected)
        for model in (PairR2Aggregator(), PairDevianceAggregator()):
            assert (model.fit(X, y).n_groups_ == 1) == expected
    assert 10 < sum(decided) < 50


def test_features_with_one_coefficient_meet_two_times_in_three():
    # F with one degree of freedom is at most 1 with probability 0.68.
    met = []
    for seed in range(400):
        rng = np.random.default_rng(seed)
        X = correlated(rng, 60, 0.5)
        met.append(PairR2Aggregator().fit(X, X.sum(axis=1) + rng.normal(size=60)).n_groups_ == 1)
    assert np.mean(met) == pytest.approx(0.68, abs=0.07)


def test_the_pairwise_fit_is_the_regression_on_both():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 4)) + rng.normal(size=(30, 1))
    y = X @ [1.0, 2.0, 0.0, -1.0] + rng.normal(size=30)
    X, y = X - X.mean(axis=0), y - y.mean()
    pairs = Pairs.of(X[:, 0], X[:, 1:], y)
    for k in range(3):
        both = LinearRegression().fit(X[:, [0, k + 1]], y)
        assert pairs.difference[k] == pytest.approx(both.coef_[0] - both.coef_[1])
        assert pairs.residual[k] == pytest.approx(np.sum((y - both.predict(X[:, [0, k + 1]])) ** 2))
        assert pairs.correlations[k] == pytest.approx(np.corrcoef(X[:, 0], X[:, k + 1])[0, 1])


@pytest.mark.parametrize("model", [PairR2Aggregator(), PairDevianceAggregator()])
def test_features_that_differ_by_rounding_are_averaged_and_constants_stay_alone(model):
    rng = np.random.default_rng(0)
    x = rng.normal(size=50)
    X = np.column_stack([x, x + 1e-12 * rng.normal(size=50), np.full(50, 3.0)])
    model = clone(model).fit(X, 2 * x + rng.normal(size=50))
    assert model.labels_.tolist() == [0, 0, 1]


def test_groups_grow_over_the_features_left_in_the_order_given():
    asked = []

    def joins(members, candidates):
        asked.append((tuple(members), tuple(candidates.tolist())))
        return (candidates % 2 == members[0] % 2) & (candidates != 4)

    assert [group.tolist() for group in grow(6, joins).groups] == [[0, 2], [1, 3, 5], [4]]
    assert asked[0] == ((0,), (1, 2, 3, 4, 5))
    assert asked[1] == ((0, 2), (3, 4, 5))  # feature 1 has been asked about this group


def test_the_mean_of_a_group_weighs_its_members_alike():
    rng = np.random.default_rng(3)
    X, _ = blocks(rng, 500, [3, 2], within=0.02)
    y = X @ [1.0, 1.0, 1.0, -2.0, -2.0] + rng.normal(size=500)
    model = PairR2Aggregator().fit(X, y)
    for column, group in zip(model.transform(X).T, model.partition_.groups, strict=True):
        np.testing.assert_allclose(column, X[:, group].mean(axis=1))


# PairR2Aggregator


def test_the_automatic_epsilon_is_equation_seven_with_two_features_and_one():
    rng = np.random.default_rng(0)
    signs = []
    for _ in range(40):
        X = correlated(rng, 50, 0.7)
        y = np.tanh(X @ [1.0, 0.4]) + 0.5 * rng.normal(size=50)
        r2 = [LinearRegression().fit(Z, y).score(Z, y) for Z in (X, X.mean(axis=1)[:, None])]
        left = (1 - r2[0]) * y.var() * 50 / 47
        gain = feature_gain(left, y.var(ddof=1), r2[0], r2[1], 50, 2, 1)
        signs.append(gain >= 0)
        assert (PairR2Aggregator().fit(X, y).n_groups_ == 1) == signs[-1]
        for epsilon in (0.01, 0.1):
            assert (PairR2Aggregator(epsilon).fit(X, y).n_groups_ == 1) == (
                r2[0] - r2[1] <= epsilon
            )
    assert 5 < sum(signs) < 35


def test_features_of_opposite_sign_may_meet():
    rng = np.random.default_rng(0)
    x = rng.normal(size=80)
    X = np.column_stack([x, -2.0 * x + 1e-3 * rng.normal(size=80)])
    y = x + rng.normal(size=80)
    assert PairR2Aggregator().fit(X, y).n_groups_ == 1


def test_any_aggregate_may_be_asked_for():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = np.maximum(X[:, 0], X[:, 2]) + 0.1 * rng.normal(size=200)

    def largest(columns):
        return columns.max(axis=1)

    model = PairR2Aggregator(aggregate=largest).fit(pd.DataFrame(X, columns=list("abc")), y)
    assert model.get_feature_names_out().tolist() == ["largest(a, c)", "b"]
    found = model.transform(pd.DataFrame(X, columns=list("abc")))
    np.testing.assert_allclose(found, np.column_stack([np.maximum(X[:, 0], X[:, 2]), X[:, 1]]))
    mean = PairR2Aggregator(aggregate=lambda columns: columns.mean(axis=1)).fit(X, y)
    assert mean.labels_.tolist() == PairR2Aggregator().fit(X, y).labels_.tolist()


# PairDevianceAggregator


@pytest.mark.parametrize("family", ["poisson", "binomial"])
def test_deviances_are_those_of_a_generic_minimiser(family):
    rng = np.random.default_rng(0)
    designs = rng.normal(size=(3, 60, 2))
    theta = 0.5 + designs[0] @ [0.8, -0.5]
    if family == "poisson":
        y = rng.poisson(np.exp(theta)).astype(float)
    else:
        y = (rng.random(60) < 1 / (1 + np.exp(-theta))).astype(float)
    found = deviances(designs, y, family)
    for design, value in zip(designs, found, strict=True):

        def deviance(coef, design=design):
            line = coef[0] + design @ coef[1:]
            if family == "poisson":
                own = np.where(y > 0, y * np.log(np.where(y > 0, y, 1.0)), 0.0) - y
                return 2 * np.sum(own - (y * line - np.exp(line)))
            return 2 * np.sum(np.logaddexp(0, line) - y * line)

        assert value == pytest.approx(minimize(deviance, np.zeros(3)).fun, rel=1e-6)


def test_two_classes_that_a_line_separates_have_no_deviance():
    x = np.linspace(-1, 1, 20)
    y = (x > 0).astype(float)
    assert deviances(x[None, :, None], y, "binomial")[0] == pytest.approx(0.0, abs=1e-3)


def poisson_risks(rng, n, w, rho, repeats, nodes):
    """Expected deviances of a new row under both fitted models, less that under the truth."""
    fresh, weights = nodes
    true = np.exp(fresh @ w - 0.2)
    risks = np.zeros((repeats, 2))
    for k in range(repeats):
        X = correlated(rng, n, rho)
        y = rng.poisson(np.exp(X @ w - 0.2))
        for column, reduce in enumerate((np.eye(2), np.full((2, 1), 0.5))):
            model = PoissonRegressor(alpha=0.0, solver="newton-cholesky").fit(X @ reduce, y)
            ratio = true / model.predict(fresh @ reduce)
            risks[k, column] = 2 * weights @ (true * np.log(ratio) - true + true / ratio)
    return risks.mean(axis=0)


def quadrature(rho, n_nodes=12):
    """Nodes and weights for the expectation over two correlated normal features."""
    points, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
    first, second = (grid.ravel() for grid in np.meshgrid(points, points))
    nodes = np.column_stack([first, rho * first + np.sqrt(1 - rho**2) * second])
    return nodes, np.outer(weights, weights).ravel() / (2 * np.pi)


def poisson_loss(difference, rho):
    """Deviance of a new row that the best model of the mean has more than the truth."""
    nodes, weights = quadrature(rho)
    true = np.exp(nodes @ [0.4 + difference / 2, 0.4 - difference / 2] - 0.2)
    mean = nodes.mean(axis=1)

    def loss(coef):
        line = coef[0] + coef[1] * mean
        return 2 * weights @ (true * (np.log(true) - line) - true + np.exp(line))

    return minimize(loss, [0.0, 0.5], tol=1e-12).fun


def test_at_one_over_n_of_lost_deviance_the_true_risks_of_counts_are_equal():
    n, rho = 150, 0.6
    rng = np.random.default_rng(0)
    even = brentq(lambda d: poisson_loss(d, rho) - 1 / n, 1e-3, 1.0)
    at, near, far = (
        poisson_risks(rng, n, np.array([0.4 + d / 2, 0.4 - d / 2]), rho, repeats, quadrature(rho))
        for d, repeats in ((even, 250), (0.5 * even, 60), (1.7 * even, 60))
    )
    # Three coefficients against two, and what is missed: 3/n against 2/n + 1/n.
    assert at[0] == pytest.approx(3 / n, rel=0.15)
    assert at[1] == pytest.approx(at[0], rel=0.12)
    assert near[1] < 0.9 * near[0]
    assert far[1] > 1.1 * far[0]


@pytest.mark.parametrize("family", ["poisson", "binomial"])
def test_the_rule_for_counts_and_classes_is_a_likelihood_ratio_of_at_most_one(family):
    met = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        X = correlated(rng, 150, 0.5)
        theta = X.sum(axis=1) * 0.4
        if family == "poisson":
            y = rng.poisson(np.exp(theta))
        else:
            y = rng.random(150) < 1 / (1 + np.exp(-theta))
        met.append(PairDevianceAggregator(family).fit(X, y.astype(float)).n_groups_ == 1)
    # Equal coefficients: the ratio is a squared normal, below 1 with probability 0.68.
    assert np.mean(met) == pytest.approx(0.68, abs=0.09)


# On data of their own model


def held_out(model, seed, kind):
    rng = np.random.default_rng(seed)
    n = 60
    X, labels = blocks(rng, n + 500, [8, 8, 8, 8], within=0.2)
    y = X @ (np.array([1.0, -1.0, 0.5, 0.0])[labels] / 8)
    y = np.tanh(y) if kind == "nonlinear" else y
    noisy = y + rng.normal(size=n + 500)
    return np.mean((model.fit(X[:n], noisy[:n]).predict(X[n:]) - y[n:]) ** 2)


@pytest.mark.parametrize(
    ("rule", "kind"),
    [(PairR2Aggregator(), "nonlinear"), (PairDevianceAggregator(), "linear")],
)
def test_on_correlated_blocks_aggregation_beats_least_squares(rule, kind):
    model = make_pipeline(rule, LinearRegression())
    ours = [held_out(model, seed, kind) for seed in range(20)]
    ols = [held_out(LinearRegression(), seed, kind) for seed in range(20)]
    assert np.mean(ours) < 0.7 * np.mean(ols)


def test_on_counts_aggregation_beats_a_model_of_all_features():
    scores = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X, labels = blocks(rng, 1100, [6, 6], within=0.2)
        y = rng.poisson(np.exp(X @ (np.array([0.6, -0.6])[labels] / 6)))
        single = PoissonRegressor(alpha=0.0, max_iter=1000)
        model = make_pipeline(
            PairDevianceAggregator("poisson"), PoissonRegressor(alpha=0.0, max_iter=1000)
        )
        scores.append([m.fit(X[:100], y[:100]).score(X[100:], y[100:]) for m in (model, single)])
    ours, all_features = np.mean(scores, axis=0)
    assert ours > all_features


# With tasks, in pipelines


def test_each_task_may_have_features_of_its_own_aggregation():
    rng = np.random.default_rng(0)
    X, _ = blocks(rng, 120, [3, 3], within=0.1)
    Y = np.column_stack([X[:, :3].mean(axis=1), X[:, 3:].mean(axis=1) - X[:, 0]])
    Y += 0.5 * rng.normal(size=Y.shape)
    template = make_pipeline(PairR2Aggregator(), LinearRegression())
    shared = SingleTaskRegressor(template).fit(X, Y)
    for task in range(2):
        alone = make_pipeline(PairR2Aggregator(), LinearRegression()).fit(X, Y[:, task])
        np.testing.assert_allclose(shared.predict(X)[:, task], alone.predict(X))
    ids = np.repeat(["a", "b"], 120)
    own = SingleTaskRegressor(template).fit(np.vstack([X, X]), Y.T.ravel(), tasks=ids)
    np.testing.assert_allclose(own.predict(X, tasks=["b"] * 120), shared.predict(X)[:, 1])


def test_names_say_what_was_averaged():
    rng = np.random.default_rng(0)
    x = rng.normal(size=60)
    frame = pd.DataFrame({"jan": x, "feb": x + 1e-3 * rng.normal(size=60), "rain": -(x**2)})
    model = PairR2Aggregator().fit(frame, 2 * x + rng.normal(size=60))
    assert model.get_feature_names_out()[0] == "mean(jan, feb)"
    out = model.set_output(transform="pandas").transform(frame)
    assert out.columns.tolist() == model.get_feature_names_out().tolist()


@pytest.mark.parametrize(
    ("model", "target", "words"),
    [
        (PairR2Aggregator("none"), np.arange(9.0), "epsilon='none' is not a number"),
        (
            PairR2Aggregator(aggregate="max"),
            np.arange(9.0),
            "aggregate='max' is not known; use one of",
        ),
        (
            PairR2Aggregator(aggregate=np.sum),
            np.arange(9.0),
            "it must give one finite number for each",
        ),
        (PairDevianceAggregator("gamma"), np.arange(9.0), "family='gamma' is not known"),
        (
            PairDevianceAggregator("poisson"),
            np.arange(9.0) - 2,
            "y goes from -2 to 6, which are not counts",
        ),
        (PairDevianceAggregator("binomial"), np.arange(9.0), "takes zeros and ones, both of them"),
    ],
)
def test_what_cannot_be_is_refused_in_words(model, target, words):
    X = np.random.default_rng(0).normal(size=(9, 2))
    with pytest.raises(ValueError, match=words):
        model.fit(X, target)


def test_too_few_rows_are_refused_in_words():
    with pytest.raises(ValueError, match="3 rows leave nothing of a regression on two features"):
        PairR2Aggregator().fit([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]], [0.0, 1.0, 2.0])


CHECKS = parametrize_with_checks([PairR2Aggregator(), PairDevianceAggregator()]).mark
NAMES, CASES = CHECKS.args


@pytest.mark.parametrize(NAMES, list(CASES), **CHECKS.kwargs)
def test_scikit_learns_checks_pass(estimator, check):
    check(estimator)
