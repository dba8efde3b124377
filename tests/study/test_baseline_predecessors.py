"""LinCFA, NonLinCFA and GenLinCFA: the decisions of the authors' published rules, one by one."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold, TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from ctfa_study.baselines import GenLinCFA, LinCFA, NonLinCFA
from ctfa_study.baselines._pairs import restart
from ctfa_study.baselines._predecessors import correlation_threshold

# The published rules, slowly and in plain steps: one pair at a time, every model fitted.


def standard(column):
    about = column - np.mean(column)
    spread = np.sqrt(np.mean(about**2))
    return about / spread if spread > 1e-12 else about


def joins_by_correlation(x1, x2, y, size):
    both = LinearRegression().fit(np.column_stack([x1, x2]), y)
    residual = y - both.predict(np.column_stack([x1, x2]))
    noise = residual @ residual / (y.size - 3)
    bound = 1 - 2 * noise / ((y.size - 1) * (both.coef_[0] - both.coef_[1]) ** 2)
    return np.corrcoef(x1, x2)[0, 1] >= bound


def mean_r2(columns, y, folds):
    scores = []
    for train, test in folds.split(columns):
        model = LinearRegression().fit(columns[train], y[train])
        scores.append(model.score(columns[test], y[test]))
    return np.mean(scores)


def joins_by_held_out_r2(epsilon, folds):
    def joins(x1, x2, y, size):
        mean = standard((size * x1 + x2) / (size + 1))[:, None]
        pair = np.column_stack([x1, x2])
        return mean_r2(pair, y, folds) - mean_r2(mean, y, folds) <= epsilon

    return joins


def joins_by_covariances(epsilon):
    def joins(x1, x2, y, size):
        covariances = abs(np.cov(x1, y)[0, 1]) + abs(np.cov(x2, y)[0, 1])
        return covariances <= epsilon * np.mean((x1 + x2) ** 2) / 2

    return joins


def published(X, y, joins, largest):
    """Take the first feature left; ask all others in turn; after a merge begin asking again."""
    groups, left = [], list(range(X.shape[1]))
    while left:
        group = [left.pop(0)]
        while len(group) < largest:
            x1 = standard(X[:, group].mean(axis=1))
            found = [
                f for f in left if joins(x1, standard(X[:, f]), standard(y), len(group))
            ]  # all asked, the first taken
            if not found:
                break
            group.append(found[0])
            left.remove(found[0])
        groups.append(sorted(group))
    return groups


def drawn(seed):
    """Blocks of features in any units, with signs, and a target that is linear or not."""
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(25, 120)), int(rng.integers(2, 9))
    labels = rng.integers(0, 3, p)
    X = rng.normal(size=(n, 3))[:, labels] * rng.choice([1.0, 1.0, -1.0], p)
    X += rng.uniform(0.05, 1.5) * rng.normal(size=(n, p))
    y = X @ (rng.normal(size=3)[labels] / p)
    y = (y, np.tanh(y), y**2)[seed % 3] + rng.uniform(0.1, 1.5) * rng.normal(size=n)
    return X * 10 ** rng.uniform(-2, 2, p) + 5.0, y, rng


def groups_of(model):
    return [sorted(group.tolist()) for group in model.partition_.groups]


@pytest.mark.parametrize("seed", range(12))
def test_the_decisions_are_those_of_the_published_rules(seed):
    X, y, rng = drawn(seed)
    loss, share = 10 ** rng.uniform(-5, -1), rng.uniform(0.1, 1.2)
    cases = [
        (LinCFA(), joins_by_correlation),
        (NonLinCFA(loss), joins_by_held_out_r2(loss, KFold(5))),
        (
            NonLinCFA(loss, cv=TimeSeriesSplit(3)),
            joins_by_held_out_r2(loss, TimeSeriesSplit(3)),
        ),
        (GenLinCFA(share), joins_by_covariances(share)),
    ]
    for model, joins in cases:
        assert groups_of(model.fit(X, y)) == published(X, y, joins, model.LARGEST)


def test_the_rules_decide_both_ways_in_what_is_drawn():
    found = {name: set() for name in ("LinCFA", "NonLinCFA", "GenLinCFA")}
    for seed in range(12):
        X, y, _ = drawn(seed)
        for model in (LinCFA(), NonLinCFA(1e-3), GenLinCFA(0.5)):
            found[type(model).__name__].add(model.fit(X, y).n_groups_ / X.shape[1])
    assert all(len(shares) > 4 for shares in found.values())


def test_rare_columns_that_a_fold_does_not_have_are_decided_as_by_refits():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 4))
    X[:, 1] = np.arange(60) == 7  # constant in four of five folds' training rows, or in a test
    X[:, 2] = np.arange(60) < 12  # constant in the training rows of the first fold
    y = X[:, 0] + 3.0 * X[:, 2] + rng.normal(size=60)
    for epsilon in (1e-3, 0.05):
        expected = published(X, y, joins_by_held_out_r2(epsilon, KFold(5)), 1000)
        assert groups_of(NonLinCFA(epsilon).fit(X, y)) == expected


def test_after_a_merge_features_that_refused_are_asked_again():
    asked = []

    def joins(members, candidates):
        asked.append((tuple(members), tuple(candidates.tolist())))
        return (candidates == 2) | ((candidates == 1) & (len(members) == 2))

    assert [group.tolist() for group in restart(4, joins, np.inf).groups] == [[0, 1, 2], [3]]
    assert asked == [((0,), (1, 2, 3)), ((0, 2), (1, 3)), ((0, 2, 1), (3,))]


def test_a_group_is_closed_at_the_authors_number_of_members():
    def joins(members, candidates):
        return np.ones(candidates.size, dtype=bool)

    assert restart(7, joins, 3).sizes.tolist() == [3, 3, 1]
    assert (GenLinCFA.LARGEST, NonLinCFA.LARGEST) == (500, 1000)


# The threshold of LinCFA


def correlated(rng, n, rho):
    """Two features of a correlation, in standard units."""
    first = rng.normal(size=n)
    return np.column_stack([first, rho * first + np.sqrt(1 - rho**2) * rng.normal(size=n)])


@given(noise=st.floats(0.1, 5.0), difference=st.floats(0.1, 3.0), rho=st.floats(-0.99, 0.99))
def test_above_the_threshold_the_mean_misses_less_than_a_coefficient_costs(noise, difference, rho):
    cov, w = np.array([[1.0, rho], [rho, 1.0]]), np.array([difference, 0.0])
    missed = w @ cov @ w - (np.ones(2) @ cov @ w) ** 2 / cov.sum()
    gain = noise / 49 - missed
    above = rho - float(correlation_threshold(noise, 50, difference))
    assert gain == pytest.approx(above * difference**2 / 2, abs=1e-9)


def exact_risks(rng, n, rho, w, noise, repeats):
    """Expected squared errors of both models, less the noise: exact in the noise, given the rows.

    A new row is independent; with mean inputs known to be zero the intercept is left out, as in
    the analysis.
    """
    cov = np.array([[1.0, rho], [rho, 1.0]])
    two, one = [], []
    for _ in range(repeats):
        X = correlated(rng, n, rho)
        two.append(noise * np.trace(cov @ np.linalg.inv(X.T @ X)))
        z = X.mean(axis=1)
        half = np.full(2, 0.5)
        hat = (z @ X / (z @ z)) @ w  # expected coefficient of the mean, given the rows
        off = w - half * hat
        one.append(off @ cov @ off + noise * (half @ cov @ half) / (z @ z))
    return np.mean(two), np.mean(one)


@pytest.mark.parametrize(("n", "difference"), [(100, 0.5), (400, 0.4)])
def test_at_the_threshold_the_true_risks_of_both_models_are_equal(n, difference):
    rng = np.random.default_rng(0)
    w = np.array([1.0 + difference, 1.0])
    rho = float(correlation_threshold(1.0, n, difference))
    two, one = exact_risks(rng, n, rho, w, 1.0, 1500)
    assert one == pytest.approx(two, rel=0.05)
    # Half the distance from 1: the mean is better; twice: both features are.
    two, one = exact_risks(rng, n, 1 - 0.5 * (1 - rho), w, 1.0, 500)
    assert one < 0.9 * two
    two, one = exact_risks(rng, n, 1 - 2.0 * (1 - rho), w, 1.0, 500)
    assert one > 1.1 * two


def test_copies_in_other_units_are_averaged():
    rng = np.random.default_rng(0)
    x = rng.normal(size=50)
    X = np.column_stack([x, 100.0 * x + 7.0, rng.normal(size=50)])
    y = x - X[:, 2] + 0.1 * rng.normal(size=50)
    for model in (LinCFA(), NonLinCFA(), GenLinCFA(0.8)):
        assert model.fit(X, y).labels_.tolist() == [0, 0, 1]


def test_where_a_fold_has_one_row_nothing_is_merged():
    rng = np.random.default_rng(0)
    x = rng.normal(size=9)
    X = np.column_stack([x, x])
    assert NonLinCFA(0.5).fit(X, x).n_groups_ == 2
    assert NonLinCFA(0.5, cv=4).fit(X, x).n_groups_ == 1


def test_units_and_origins_of_features_and_target_decide_nothing():
    X, y, _ = drawn(4)
    units, origins = 10.0 ** np.arange(X.shape[1]), np.arange(X.shape[1]) - 2.0
    for model in (LinCFA(), NonLinCFA(1e-3), GenLinCFA(0.5)):
        alone = [model.fit(X[:, [0, k]], y).n_groups_ for k in range(1, X.shape[1])]
        moved = X * units + origins
        again = [model.fit(moved[:, [0, k]], 8 * y - 3).n_groups_ for k in range(1, X.shape[1])]
        assert alone == again


def test_they_stand_in_pipelines_and_say_what_was_averaged():
    rng = np.random.default_rng(0)
    x = rng.normal(size=60)
    frame = pd.DataFrame({"jan": x, "feb": x + 1e-3 * rng.normal(size=60), "rain": -(x**2)})
    y = 2 * x + rng.normal(size=60)
    for model in (LinCFA(), NonLinCFA(), GenLinCFA(1.0)):
        assert model.fit(frame, y).get_feature_names_out()[0] == "mean(jan, feb)"
        assert make_pipeline(model, LinearRegression()).fit(frame, y).predict(frame).shape == (60,)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (NonLinCFA("auto"), "epsilon='auto' is not a number"),
        (GenLinCFA("poisson"), "epsilon='poisson' is not a number"),
        (NonLinCFA(cv=1), "cv=1 cannot split 20 rows"),
        (NonLinCFA(cv=KFold(15)), "two of each or more are needed. Use fewer folds"),
    ],
)
def test_what_cannot_be_is_refused_in_words(model, words):
    X = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.raises(ValueError, match=words):
        model.fit(X, np.arange(20.0))


CHECKS = parametrize_with_checks([LinCFA(), NonLinCFA(), GenLinCFA()]).mark
NAMES, CASES = CHECKS.args


@pytest.mark.parametrize(NAMES, list(CASES), **CHECKS.kwargs)
def test_scikit_learns_checks_pass(estimator, check):
    check(estimator)
