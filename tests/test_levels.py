"""Levels: a group's model plus what its members add, against the formulas written out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression, Ridge

from ctfa import BlockedKFold, CTFARegressor, FeatureAggregator, TargetAggregator
from ctfa.core.levels import TEMPERS, Levels, Temper, soft_features
from ctfa.core.partition import Partition
from ctfa.core.ridge import PENALTIES
from ctfa.core.ridge import Ridge as RidgeFit
from ctfa.testing import check_units


def problem(seed=0, n=80, D=6, L=8, K=2, noise=1.0, memory=0.0):
    """Groups of targets, each about a map of its group."""
    rng = np.random.default_rng(seed)
    X, E = rng.normal(size=(n, D)), rng.normal(size=(n, L))
    for rows in (X, E):
        for at in range(1, n):
            rows[at] = memory * rows[at - 1] + np.sqrt(1.0 - memory**2) * rows[at]
    labels = np.arange(L) % K
    coef = rng.normal(size=(D, K))[:, labels] + 0.3 * rng.normal(size=(D, L))
    return X, X @ coef + noise * E, labels


def penalty_by_hand(X, columns):
    """The penalty of the greatest restricted likelihood, by dense determinants.

    Columns are independent draws of N(0, s2 (I + X X'/penalty)) about means of their own; of these
    the contrasts that are free of the mean have the likelihood.
    """
    n = len(X)
    basis = np.linalg.svd(np.eye(n) - 1.0 / n)[0][:, : n - 1]
    unit = (X - X.mean(axis=0)) / np.linalg.norm(X - X.mean(axis=0), axis=0)
    contrasts, inputs = basis.T @ columns, basis.T @ unit
    best, chosen = np.inf, None
    for penalty in PENALTIES:
        covariance = np.eye(n - 1) + inputs @ inputs.T / penalty
        squares = np.trace(contrasts.T @ np.linalg.solve(covariance, contrasts))
        n_free = contrasts.shape[1]
        deviance = n_free * ((n - 1) * np.log(squares) + np.linalg.slogdet(covariance)[1])
        if deviance < best - 1e-9:
            best, chosen = deviance, penalty
    return chosen


def ridge_by_hand(X, y, penalty):
    """Coefficients of ridge regression with columns at unit length."""
    if penalty == np.inf:
        return np.zeros(X.shape[1])
    length = np.linalg.norm(X - X.mean(axis=0), axis=0)
    return Ridge(penalty, tol=1e-12, solver="svd").fit(X / length, y).coef_ / length


@pytest.mark.parametrize("temper", [Temper(), Temper(4.0, 16.0), Temper(16.0, np.inf)])
def test_members_are_served_by_two_ridge_regressions(temper):
    X, Y, labels = problem()
    Z = (Y - Y.mean(axis=0)) / Y.std(axis=0)
    levels, partition = Levels(RidgeFit.factor(X), Z), Partition(labels)
    parts = levels.parts(partition)
    group, own = (
        levels.group_coefficients(parts, temper.mean),
        levels.deviations(parts, temper.apart),
    )
    for k, members in enumerate(partition.groups):
        mean = Z[:, members].mean(axis=1)
        apart = Z[:, members] - mean[:, None]
        # One contrast fewer than members: the deviations sum to zero.
        turned = apart @ np.linalg.svd(np.eye(members.size) - 1.0 / members.size)[0][:, :-1]
        of_mean, of_apart = penalty_by_hand(X, mean[:, None]), penalty_by_hand(X, turned)
        np.testing.assert_allclose(parts.mean_penalty[k], of_mean)
        np.testing.assert_allclose(parts.apart_penalty[k], of_apart)
        expected = ridge_by_hand(X, mean, temper.mean * of_mean)
        np.testing.assert_allclose(group[:, k], expected, rtol=1e-6, atol=1e-9)
        for at, member in enumerate(members):
            added = ridge_by_hand(X, apart[:, at], temper.apart * of_apart)
            np.testing.assert_allclose(own[:, member], added, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("n", [7, 12, 60])
def test_any_number_of_rows_and_features_is_served(n):
    X, Y, _ = problem(n=n, D=12)
    model = CTFARegressor().fit(X, Y)
    assert np.isfinite(model.predict(X)).all()
    assert model.coef_.shape == (8, 12)


def test_the_answers_are_those_of_the_parts():
    X, Y, _ = problem()
    model = CTFARegressor().fit(X, Y)
    np.testing.assert_allclose(X @ model.coef_.T + model.intercept_, model.predict(X))
    scales, labels = model.targets_.scales_[:, None], model.labels_
    readable = model.group_coef_[labels] * scales * model.signs_[:, None]
    about = X - X.mean(axis=0)
    np.testing.assert_allclose(
        Y.mean(axis=0) + about @ model.coef_.T, model.predict(X), rtol=1e-9, atol=1e-9
    )
    alone = CTFARegressor(head="mean").fit(X, Y)
    np.testing.assert_array_equal(alone.labels_, labels)
    if model._deviations.own.any():
        assert not np.allclose(readable, model.coef_)
    np.testing.assert_allclose(
        alone.coef_, alone.group_coef_[labels] * scales, rtol=1e-9, atol=1e-12
    )


def test_deviations_of_a_group_sum_to_zero():
    X, Y, _ = problem(seed=3)
    model = CTFARegressor(features="passthrough").fit(X, Y)
    sums = model.partition_.sum(model._deviations.own.T)
    np.testing.assert_allclose(sums, 0.0, atol=1e-12)


def test_targets_by_themselves_are_plain_ridge_regressions():
    X, Y, _ = problem()
    model = CTFARegressor(targets="passthrough", features="passthrough").fit(X, Y)
    assert not model._deviations.own.any()
    for regressor, y in zip(model.regressors_, Y.T, strict=True):
        ratio = regressor.alpha / penalty_by_hand(X, y[:, None])
        assert any(np.isclose(ratio, temper.mean) for temper in TEMPERS) or np.isnan(ratio)
        expected = ridge_by_hand(X, y, regressor.alpha)
        np.testing.assert_allclose(regressor.coef_, expected, rtol=1e-6, atol=1e-9)
    assert (model.trust_ == 1.0).all()


def test_copies_of_a_target_are_served_alike_and_add_nothing():
    X, Y, _ = problem()
    doubled = np.hstack([Y, Y[:, :1], Y[:, :1]])
    model = CTFARegressor().fit(X, doubled)
    predicted = model.predict(X)
    np.testing.assert_allclose(predicted[:, 0], predicted[:, -1], rtol=1e-9)
    assert model.labels_[0] == model.labels_[-1] == model.labels_[-2]


def test_trust_is_one_number_for_a_group_and_what_deviations_do_not_keep():
    X, Y, _ = problem(n=300)
    model = CTFARegressor().fit(X, Y)
    for members in model.partition_.groups:
        assert np.unique(model.trust_[members]).size == 1
    alone = model.partition_.sizes[model.labels_] == 1
    assert (model.trust_[alone] == 1.0).all()
    assert ((model.trust_ >= 0.0) & (model.trust_ <= 1.0)).all()


def test_weights_of_rows_are_rows_repeated_as_far_as_coefficients_go():
    X, Y, labels = problem(n=40)
    counts = np.random.default_rng(1).integers(1, 4, size=40)
    Z = Y - np.average(Y, axis=0, weights=counts)
    root = np.sqrt(counts / counts.mean())
    weighed = Levels(RidgeFit.factor(X, counts.astype(float)), Z * root[:, None])
    again = np.repeat(np.arange(40), counts)
    repeated = Levels(RidgeFit.factor(X[again]), Z[again] / np.sqrt(counts.mean()))
    parts = [levels.parts(Partition(labels)) for levels in (weighed, repeated)]
    # The same data, but as much evidence as there are rows: with one penalty one answer.
    same = parts[1]._replace(
        mean_penalty=parts[0].mean_penalty, apart_penalty=parts[0].apart_penalty
    )
    np.testing.assert_allclose(
        weighed.group_coefficients(parts[0]),
        repeated.group_coefficients(same) * np.sqrt(counts.mean()),
        rtol=1e-8,
    )


def test_a_target_that_counts_twice_is_given_twice_in_its_groups_mean():
    X, Y, labels = problem(L=6)
    weights = np.array([2.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    Z = Y - Y.mean(axis=0)
    weighed = Levels(RidgeFit.factor(X), Z, weights)
    twice = Levels(RidgeFit.factor(X), np.hstack([Z, Z[:, :1]]))
    one = weighed.parts(Partition(labels))
    two = twice.parts(Partition(np.append(labels, labels[0])))
    np.testing.assert_allclose(one.mean, two.mean)
    np.testing.assert_array_equal(one.mean_penalty, two.mean_penalty)
    np.testing.assert_array_equal(one.apart_penalty, two.apart_penalty)
    np.testing.assert_allclose(one.apart, two.apart[:, :-1])


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6))
def test_units_and_origins_do_not_matter(seed):
    X, Y, _ = problem(seed)
    rng = np.random.default_rng(seed)
    scale, shift = 10.0 ** rng.uniform(-5, 5, size=X.shape[1]), rng.normal(size=X.shape[1])
    model = CTFARegressor(features="passthrough")
    one = model.fit(X, Y).predict(X)
    two = model.fit((X + shift) * scale, Y).predict((X + shift) * scale)
    np.testing.assert_allclose(one, two, rtol=1e-6, atol=1e-6)


def test_the_law_of_units_holds_for_the_default():
    check_units(CTFARegressor(features="passthrough"), *problem()[:2])


@pytest.mark.parametrize("seed", range(4))
def test_negated_targets_join_turned_round_and_are_served_alike(seed):
    X, Y, _ = problem(seed)
    signs = np.where(np.arange(8) % 3 == 0, -1.0, 1.0)
    targets = TargetAggregator(flip=True, max_loss=1.5)
    one = CTFARegressor(targets=targets, features="passthrough").fit(X, Y)
    two = CTFARegressor(targets=targets, features="passthrough").fit(X, Y * signs)
    np.testing.assert_allclose(one.predict(X) * signs, two.predict(X), rtol=1e-7, atol=1e-9)


# -- Soft groups of features -----------------------------------------------------------------------


def test_soft_features_are_a_regression_with_one_free_coefficient_for_each_group():
    X, Y, _ = problem(n=60)
    partition, y = Partition(np.array([0, 0, 1, 1, 1, 2])), Y[:, 0] - Y[:, 0].mean()
    inputs = X - X.mean(axis=0)
    soft = soft_features(inputs, y, partition, 60, 1.0)
    np.testing.assert_allclose(partition.mean(soft.apart[None]), 0.0, atol=1e-12)
    # The normal equations: coefficients are stationary in the common ones, and the contrasts in
    # all directions share one penalty.
    coef = partition.share_out(soft.coef) + soft.apart
    pull = inputs.T @ (y - inputs @ coef)
    np.testing.assert_allclose(partition.sum(pull[None]), 0.0, atol=1e-8)
    ratio = pull[soft.apart != 0.0] / soft.apart[soft.apart != 0.0]
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-6)


def test_soft_features_become_hard_and_free_at_the_ends_of_the_penalty():
    X, Y, _ = problem(n=60)
    partition = Partition(np.array([0, 0, 1, 1, 1, 2]))
    inputs, y = X - X.mean(axis=0), Y[:, 0] - Y[:, 0].mean()
    hard = soft_features(inputs, y, partition, 60, np.inf)
    assert hard.is_hard
    means = LinearRegression().fit(partition.mean(X), y)
    np.testing.assert_allclose(hard.coef, means.coef_)
    free = soft_features(inputs, y, partition, 60, 1e-12)
    np.testing.assert_allclose(
        partition.share_out(free.coef) + free.apart, LinearRegression().fit(X, y).coef_, rtol=1e-5
    )


def windows(seed, alike, n=150):
    """Features in blocks of four that correlate, with one coefficient in a block or any."""
    rng = np.random.default_rng(seed)
    common = np.repeat(rng.normal(size=(n, 4)), 4, axis=1)
    X = np.sqrt(0.7) * common + np.sqrt(0.3) * rng.normal(size=(n, 16))
    coef = np.repeat(rng.normal(size=4), 4)
    if not alike:
        coef = coef * np.where(np.arange(16) % 2, -1.0, 1.0)
    signal = X @ coef
    return X, signal[:, None] / signal.std() + rng.normal(size=(n, 6))


def test_groups_of_features_serve_where_they_are_true_and_not_where_chance_made_them():
    found = [CTFARegressor().fit(*windows(seed, alike=True, n=300)) for seed in range(4)]
    assert all(model.features_[0].n_groups_ < 8 for model in found)
    rng = np.random.default_rng(5)
    X = rng.normal(size=(80, 12))
    Y = X @ rng.normal(size=(12, 6)) + rng.normal(size=(80, 6))
    apart = CTFARegressor().fit(X, Y)
    assert all(features.n_groups_ == 12 for features in apart.features_)


def test_an_aggregator_that_is_passed_is_obeyed():
    X, Y = windows(0, alike=False)
    forced = FeatureAggregator(max_loss=np.inf, min_correlation=0.3)
    model = CTFARegressor(features=forced).fit(X, Y)
    assert all(features.n_groups_ < 16 for features in model.features_)


def test_features_with_nothing_in_common_are_not_taken_for_kin():
    merged = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(100, 15))
        aggregator = FeatureAggregator().fit(X, rng.normal(size=100))
        merged.append(15 - aggregator.n_groups_)
    assert np.mean(merged) < 0.2


# -- Rows with memory ------------------------------------------------------------------------------


def test_groups_are_found_in_rows_that_remember():
    errors = []
    for seed in range(4):
        X, Y, _ = problem(seed, n=400, D=8, L=12, K=3, noise=2.0, memory=0.9)
        model = CTFARegressor().fit(X, Y)
        errors.append(model.n_groups_)
    assert np.mean(errors) < 8


def test_blocks_leave_a_gap_on_both_sides():
    folds = list(BlockedKFold(4, gap=3).split(np.zeros((40, 1))))
    assert np.concatenate([test for _, test in folds]).tolist() == list(range(40))
    for train, test in folds:
        assert np.abs(train[:, None] - test).min() == 4
    with pytest.raises(ValueError, match="gap=-1: pass a whole number of 0 or more"):
        next(BlockedKFold(4, gap=-1).split(np.zeros((40, 1))))
    with pytest.raises(ValueError, match="n_splits=50 blocks cannot be cut from 40 rows"):
        next(BlockedKFold(50).split(np.zeros((40, 1))))
    X, Y, _ = problem()
    model = CTFARegressor(targets=TargetAggregator(cv=BlockedKFold(5, gap=2))).fit(X, Y)
    assert model.cv_curve_.fold_errors.shape[0] == 5


def test_every_temper_is_tried_once_and_the_likelihoods_own_is_the_first():
    assert TEMPERS[0] == Temper(1.0, 1.0)
    assert len(set(TEMPERS)) == len(TEMPERS) == 24
