"""Levels: a group's model plus what its members add, against the formulas written out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression, Ridge

from ctfa import BlockedKFold, CTFARegressor, FeatureAggregator, TargetAggregator
from ctfa.core.levels import TEMPERS, Levels, Temper, Tempers
from ctfa.core.partition import Partition
from ctfa.core.ridge import PENALTIES, Factors, soft_features
from ctfa.core.ridge import Ridge as RidgeFit
from ctfa.estimators.models import _drawn
from ctfa.testing import check_units
from generated import examples


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


def deviances_by_hand(X, columns):
    """Deviance of each penalty in the restricted likelihood of columns, by dense determinants.

    Columns are independent draws of N(0, s2 (I + X X'/penalty)) about means of their own; of these
    the contrasts that are free of the mean have the likelihood. Per column, up to a constant.
    """
    n = len(X)
    basis = np.linalg.svd(np.eye(n) - 1.0 / n)[0][:, : n - 1]
    unit = (X - X.mean(axis=0)) / np.linalg.norm(X - X.mean(axis=0), axis=0)
    return dense_deviances(basis.T @ unit, basis.T @ columns)


def dense_deviances(inputs, columns, penalties=PENALTIES):
    """The same of rows that need no centring."""
    n, found = len(inputs), []
    for penalty in penalties:
        covariance = np.eye(n) + inputs @ inputs.T / penalty
        squares = np.trace(columns.T @ np.linalg.solve(covariance, columns))
        found.append(n * np.log(squares) + np.linalg.slogdet(covariance)[1])
    return np.array(found)


def smallest(deviances):
    """The penalty of the smallest deviance; of equal ones the largest."""
    return PENALTIES[deviances <= deviances.min() + 1e-6].max()


def penalties_of_means(X, means, counts):
    """One for each mean: by its own deviance and that of all of them, which count by members."""
    each = [deviances_by_hand(X, mean[:, None]) for mean in means.T]
    return [smallest(own + np.average(each, axis=0, weights=counts)) for own in each]


def ridge_by_hand(X, y, penalty):
    """Coefficients of ridge regression with columns at unit length."""
    if penalty == np.inf:
        return np.zeros(X.shape[1])
    length = np.linalg.norm(X - X.mean(axis=0), axis=0)
    return Ridge(penalty, tol=1e-12, solver="svd").fit(X / length, y).coef_ / length


def averaged_by_hand(X, y, penalty, factors):
    """The same, averaged over multiples of the penalty."""
    each = [ridge_by_hand(X, y, factor * penalty) for factor in factors.values]
    return np.average(each, axis=0, weights=factors.weights)


#: Averages of what the likelihood says, of more and of less; with and without nothing at all.
SEVERAL = Factors((1.0, 16.0, 1 / 8), (0.5, 0.2, 0.3))
AND_NOTHING = Factors((1.0, 4.0, np.inf), (0.3, 0.3, 0.4))


@pytest.mark.parametrize(
    "temper",
    [
        Tempers(),
        Tempers(Factors((4.0,)), Factors((16.0,))),
        Tempers(Factors((16.0,)), Factors((np.inf,))),
        Tempers(SEVERAL, AND_NOTHING),
    ],
)
@pytest.mark.parametrize("sizes", [(4, 4), (1, 5, 2)])
def test_members_are_served_by_two_ridge_regressions(temper, sizes):
    X, Y, _ = problem()
    labels = np.repeat(np.arange(len(sizes)), sizes)
    Z = (Y - Y.mean(axis=0)) / Y.std(axis=0)
    levels, partition = Levels(RidgeFit.factor(X), Z), Partition(labels)
    parts = levels.parts(partition)
    group, own = (
        levels.group_coefficients(parts, temper.mean),
        levels.deviations(parts, temper.apart),
    )
    means = np.column_stack([Z[:, members].mean(axis=1) for members in partition.groups])
    of_means = penalties_of_means(X, means, sizes)
    for k, members in enumerate(partition.groups):
        mean = means[:, k]
        apart = Z[:, members] - mean[:, None]
        np.testing.assert_allclose(parts.mean_penalty[k], of_means[k])
        of_apart = np.inf
        if members.size > 1:
            # One contrast fewer than members: the deviations sum to zero.
            turned = apart @ np.linalg.svd(np.eye(members.size) - 1.0 / members.size)[0][:, :-1]
            of_apart = smallest(deviances_by_hand(X, turned))
        np.testing.assert_allclose(parts.apart_penalty[k], of_apart)
        expected = averaged_by_hand(X, mean, of_means[k], temper.mean)
        np.testing.assert_allclose(group[:, k], expected, rtol=1e-6, atol=1e-9)
        for at, member in enumerate(members):
            added = averaged_by_hand(X, apart[:, at], of_apart, temper.apart)
            np.testing.assert_allclose(own[:, member], added, rtol=1e-6, atol=1e-9)


def test_the_penalty_of_a_mean_is_drawn_towards_that_of_all():
    X, Y, _ = problem(seed=1, n=30, noise=3.0, L=10)
    Z = (Y - Y.mean(axis=0)) / Y.std(axis=0)
    labels = np.repeat(np.arange(4), (1, 4, 1, 4))
    found = Levels(RidgeFit.factor(X), Z).parts(Partition(labels)).mean_penalty
    means = Partition(labels).mean(Z)
    expected = penalties_of_means(X, means, [1, 4, 1, 4])
    np.testing.assert_allclose(found, expected)
    by_themselves = [smallest(deviances_by_hand(X, mean[:, None])) for mean in means.T]
    alike = penalties_of_means(X, means, [1, 1, 1, 1])
    # Without the others, and with others that count alike, it would be another.
    assert not np.array_equal(expected, by_themselves)
    assert not np.array_equal(expected, alike)
    few = [np.ptp(np.log10(np.minimum(one, 1e5))) for one in (expected, by_themselves)]
    assert few[0] < few[1]


def test_averaged_factors_are_the_weighted_average_of_coefficients():
    X, Y, labels = problem(n=40)
    Z = Y - Y.mean(axis=0)
    factored = RidgeFit.factor(X)
    levels = Levels(factored, Z)
    parts = levels.parts(Partition(labels))
    chosen = factored.chosen_for(Z)
    for verb in (
        lambda factors: levels.group_coefficients(parts, factors),
        lambda factors: levels.deviations(parts, factors),
        lambda factors: levels.trust(parts, factors),
        lambda factors: chosen.coefficients(Z, factors),
        lambda factors: factored.kept(np.array([0.1, 3.0, np.inf]), factors),
    ):
        for factors in (SEVERAL, AND_NOTHING):
            each = [verb(Factors((value,))) for value in factors.values]
            assert not np.allclose(each[0], each[1])
            expected = sum(w * one for w, one in zip(factors.weights, each, strict=True))
            np.testing.assert_allclose(verb(factors), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("D", [1, 6])
def test_one_penalty_keeps_as_much_as_the_average(D):
    X, _, _ = problem(D=D)
    X[:, -1] *= 1e-3
    X[:, 0] += X[:, -1]
    factored = RidgeFit.factor(X)
    penalties = np.array([1e-6, 1e-2, 0.7, 30.0, 1e4, np.inf])
    several = Factors((1.0, 4.0, 16.0, 64.0, 1 / 8, 1 / 64), (0.3, 0.1, 0.05, 0.2, 0.15, 0.2))
    for factors in (SEVERAL, several, Factors((1 / 64, 64.0), (0.5, 0.5))):
        found = factored.average(penalties, factors)
        squares = factored.values[:, None] ** 2
        total = sum(
            weight * squares / (squares + value * penalties)
            for value, weight in zip(*factors, strict=True)
        )
        alone = squares / (squares + found)
        np.testing.assert_allclose(alone.sum(axis=0), total.sum(axis=0), rtol=2e-4)
        assert found[-1] == np.inf
        finite = penalties[:-1]
        assert (found[:-1] > finite * min(factors.values)).all()
        assert (found[:-1] < finite * max(factors.values)).all()
    np.testing.assert_array_equal(factored.average(penalties, Factors((4.0,))), 4.0 * penalties)


def test_what_lies_outside_the_inputs_is_told_by_a_triangle_where_rows_are_many(monkeypatch):
    for copies in (False, True):
        X, Y, labels = problem(n=80)
        if copies:
            Y[:, 2] = Y[:, 0]
        Z, partition = Y - Y.mean(axis=0), Partition(labels)
        found = Levels(RidgeFit.factor(X), Z).parts(partition)
        with monkeypatch.context() as patch:
            patch.setattr("ctfa.core.levels.TALL", np.inf)
            expected = Levels(RidgeFit.factor(X), Z).parts(partition)
        np.testing.assert_array_equal(found.mean_penalty, expected.mean_penalty)
        np.testing.assert_array_equal(found.apart_penalty, expected.apart_penalty)
        np.testing.assert_allclose(found.apart, expected.apart)


def test_a_fit_does_not_depend_on_whether_folds_keep_their_rows(monkeypatch):
    X, Y, _ = problem(n=60)
    for model in (CTFARegressor(), CTFARegressor(targets="passthrough")):
        kept = model.fit(X, Y).predict(X)
        with monkeypatch.context() as patch:
            patch.setattr("ctfa.estimators.targets.MOST_KEPT", 0)
            np.testing.assert_array_equal(model.fit(X, Y).predict(X), kept)


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


def counts_by_hand(errors, tempers):
    """How much each temper counts, from its mean errors ``(folds, tempers)``."""
    error = errors.mean(axis=0)
    gaps = errors - errors[:, [error.argmin()]]
    paired = gaps.std(axis=0, ddof=1) / np.sqrt(len(errors))
    counts = np.exp(-(error - error.min()) / (0.5 * paired + 1e-9 * error))
    means = np.array(tempers, dtype=float).reshape(len(tempers), -1)[:, 0]
    counts[means == 1 / 4096] *= 0.05
    return counts / counts.sum()


@pytest.mark.more
@pytest.mark.parametrize("seed", range(3))
def test_targets_by_themselves_are_averages_of_plain_ridge_regressions(seed):
    X, Y, _ = problem(seed, noise=2.0)
    model = CTFARegressor(targets="passthrough", features="passthrough").fit(X, Y)
    assert not model._deviations.own.any()
    tempers = np.unique([temper.mean for temper in TEMPERS])
    errors = np.zeros((10, tempers.size))
    for fold, test in enumerate(np.array_split(np.arange(80), 10)):
        train = np.setdiff1d(np.arange(80), test)
        about, level = X[test] - X[train].mean(axis=0), Y[train].mean(axis=0)
        penalties = penalties_of_means(X[train], Y[train], np.ones(8))
        for k, temper in enumerate(tempers):
            coef = [
                ridge_by_hand(X[train], y, temper * penalty)
                for y, penalty in zip(Y[train].T, penalties, strict=True)
            ]
            wrong = (Y[test] - level - about @ np.transpose(coef)) / Y.std(axis=0)
            errors[fold, k] = (wrong**2).mean()
    counts = counts_by_hand(errors, tempers)
    assert np.sum(counts > 0.01) > 1
    unit = (X - X.mean(axis=0)) / np.linalg.norm(X - X.mean(axis=0), axis=0)
    squares = np.linalg.svd(unit, compute_uv=False) ** 2
    penalties = penalties_of_means(X, Y, np.ones(8))
    for regressor, y, penalty in zip(model.regressors_, Y.T, penalties, strict=True):
        expected = averaged_by_hand(X, y, penalty, Factors(tempers, counts))
        np.testing.assert_allclose(regressor.coef_, expected, rtol=1e-6, atol=1e-9)
        assert regressor.intercept_ == pytest.approx(y.mean() - X.mean(axis=0) @ expected)
        # The one penalty that is told keeps as much.
        kept = squares / (squares + np.outer(tempers, [penalty])[..., None])
        alone = squares / (squares + regressor.alpha)
        assert alone.sum() == pytest.approx(counts @ kept.sum(axis=(1, 2)), rel=2e-4)
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


@settings(max_examples=examples(15), deadline=None)
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


def contrasts_by_hand(labels):
    """Orthonormal columns of which each sums to zero over every group."""
    inside = np.eye(len(labels)) - (labels[:, None] == labels) / np.bincount(labels)[labels]
    left, values, _ = np.linalg.svd(inside)
    return left[:, values > 0.5]


def free_of_means(inputs, labels):
    """An orthonormal basis of rows that neither a constant nor a group's mean can tell."""
    known = np.column_stack((np.ones(len(inputs)), Partition(labels).mean(inputs)))
    left, values, _ = np.linalg.svd(known)
    return left[:, values.size :]


@pytest.mark.parametrize("temper", [Factors((4.0,)), SEVERAL, AND_NOTHING])
@pytest.mark.parametrize("seed", range(3))
def test_soft_features_are_two_ridge_regressions(seed, temper):
    X, Y, _ = problem(seed, n=60)
    labels = np.array([0, 0, 1, 1, 1, 2])
    partition, y = Partition(labels), Y[:, 0] - Y[:, 0].mean()
    inputs = X - X.mean(axis=0)
    # Deviations first, of what free coefficients of the means leave: stationary in all
    # directions with one penalty.
    basis, contrasts = free_of_means(inputs, labels), contrasts_by_hand(labels)
    beyond, rest = basis.T @ inputs @ contrasts, basis.T @ y
    plain = soft_features(inputs, y, partition, 60)
    np.testing.assert_allclose(partition.mean(plain.apart[None]), 0.0, atol=1e-12)
    turned = contrasts.T @ plain.apart
    ratio = beyond.T @ (rest - beyond @ turned) / turned
    penalty = ratio[0]
    np.testing.assert_allclose(ratio, penalty, rtol=1e-6)
    # It is the likeliest of those that lie quarters of a power of ten apart.
    each = penalty * 10.0 ** np.append(np.arange(-32, 33) / 4.0, np.inf)
    deviances = dense_deviances(beyond, rest[:, None], each)
    assert deviances.argmin() == 32
    soft = soft_features(inputs, y, partition, 60, temper)
    expected = contrasts @ np.average(
        [
            Ridge(min(factor * penalty, 1e15), fit_intercept=False).fit(beyond, rest).coef_
            for factor in temper.values
        ],
        axis=0,
        weights=temper.weights,
    )
    np.testing.assert_allclose(soft.apart, expected, rtol=1e-6, atol=1e-12)
    # Then a ridge regression on the means, of what these leave, with a penalty of its own.
    for one, factors in ((plain, Factors()), (soft, temper)):
        means, left = partition.mean(inputs), y - inputs @ one.apart
        of_means = smallest(deviances_by_hand(means, left[:, None]))
        expected = averaged_by_hand(means, left, of_means, factors)
        np.testing.assert_allclose(one.coef, expected, rtol=1e-6, atol=1e-9)


def test_soft_features_become_hard_and_free_at_the_ends_of_the_penalty():
    X, Y, _ = problem(n=60)
    labels = np.array([0, 0, 1, 1, 1, 2])
    partition = Partition(labels)
    inputs, y = X - X.mean(axis=0), Y[:, 0] - Y[:, 0].mean()
    # Nothing that single features could add: likelihood itself gives them one coefficient.
    beyond = free_of_means(inputs, labels) @ free_of_means(inputs, labels).T @ inputs
    alike = y - beyond @ np.linalg.pinv(beyond) @ y
    hard = soft_features(inputs, alike, partition, 60)
    assert not hard.apart.any()
    means = partition.mean(X)
    penalty = smallest(deviances_by_hand(means, alike[:, None]))
    np.testing.assert_allclose(hard.coef, ridge_by_hand(means, alike, penalty), rtol=1e-6)
    expected = LinearRegression().fit(means, alike).coef_
    free = soft_features(inputs, alike, partition, 60, Factors((1e-12,)))
    np.testing.assert_allclose(free.coef, expected, rtol=1e-6)
    free = soft_features(inputs, y, partition, 60, Factors((1e-12,)))
    np.testing.assert_allclose(
        partition.share_out(free.coef) + free.apart, LinearRegression().fit(X, y).coef_, rtol=1e-5
    )
    nothing = soft_features(inputs, y, partition, 60, Factors((np.inf,)))
    assert not nothing.apart.any()
    assert not nothing.coef.any()


@pytest.mark.more
@pytest.mark.parametrize(
    "labels",
    [
        [0, 1, 2, 2, 3, 4],  # the copies by themselves: means that are copies of each other
        [0, 1, 0, 1, 2, 3],  # the same, of two features each
        [0, 0, 1, 1, 2, 3],  # together, beside others that differ
        [0, 0, 0, 1, 2, 3],  # in a group with another
        [0, 0, 1, 2, 3, 4],  # together, and nothing else that could differ
    ],
    ids=str,
)
def test_copies_in_all_but_the_last_digits_do_not_blow_up_soft_features(labels):
    for seed in range(30):
        rng = np.random.default_rng(seed)
        X, new = rng.normal(size=(80, 6)), rng.normal(size=(200, 6))
        if labels[2] == labels[0] != labels[1]:
            X[:, 3] = X[:, 2]
        X[:, 1] = X[:, 0] + 1e-7 * rng.normal(size=80)
        y = X @ rng.normal(size=6) + rng.normal(size=80)
        y -= y.mean()
        new[:, 1] = -new[:, 0]  # rows where the copies are none
        centre = X.mean(axis=0)
        partition = Partition(np.array(labels))
        soft = soft_features(X - centre, y, partition, 80)
        coef = partition.share_out(soft.coef) + soft.apart
        ridge = ridge_by_hand(X, y, smallest(deviances_by_hand(X, y[:, None])))
        told, bound = (np.abs((new - centre) @ one).max() for one in (coef, ridge))
        assert told < 3.0 * bound


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


@pytest.mark.parametrize("n_drawn", [1, 2])
@pytest.mark.parametrize(
    "sizes", [[5.0, 3.0, 1.0, 1.0], [1.0, 9.0], [4.0], [0.3, 2.2, 0.7, 1.1, 0.2], [1.0] * 7]
)
def test_groups_are_drawn_in_proportion_to_their_sizes(sizes, n_drawn):
    sizes = np.array(sizes)
    times = np.zeros((400, sizes.size))
    for turn in range(400):
        drawn = _drawn(sizes, turn, n_drawn)
        assert len({group for group, _ in drawn}) == len(drawn)
        for group, count in drawn:
            times[turn, group] = count
        assert times[turn].sum() == n_drawn
    share = np.cumsum(times, axis=0) / (n_drawn * np.arange(1.0, 401.0)[:, None])
    np.testing.assert_allclose(share[-1], sizes / sizes.sum(), atol=0.01)
    # Wherever turns end, nobody is far from what is due.
    turns = np.arange(1.0, 401.0)[:, None]
    assert (np.abs(share - sizes / sizes.sum()) * turns).max() < 3.0


def test_the_largest_group_is_drawn_first():
    assert [group for group, _ in _drawn(np.array([1.0, 6.0, 1.0]), 0, 1)] == [1]


# -- Rows with memory ------------------------------------------------------------------------------


@pytest.mark.more
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
    assert len(set(TEMPERS)) == len(TEMPERS) == 28
    least = min(temper.mean for temper in TEMPERS)
    assert all(temper.credit == (0.05 if temper.mean == least else 1.0) for temper in TEMPERS)
