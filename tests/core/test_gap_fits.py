"""Means of observed members, columns fitted on their own rows, targets against their groups."""

import numpy as np
import pytest

import oracle
import problems
from ctfa.core.design import Design
from ctfa.core.history import Ledger
from ctfa.core.members import MemberRisk
from ctfa.core.partition import Partition
from ctfa.core.small_fits import fit_columns, observed_mean
from ctfa.core.spaces.gappy import GappyMembers
from gap_problems import GAPS, group_series, random_weights, with_gaps


def test_the_observed_mean_is_that_of_the_members_there():
    values = np.array([[1.0, 3.0, np.nan, 5.0], [np.nan, 4.0, np.nan, np.nan]])
    partition = Partition.from_groups([[0, 1, 3], [2]])
    np.testing.assert_allclose(observed_mean(partition, values), [[3.0, np.nan], [4.0, np.nan]])


@pytest.mark.parametrize("kind", GAPS)
@pytest.mark.parametrize("weighted", [False, True])
def test_columns_are_fitted_on_their_own_rows(kind, weighted):
    for seed, family in enumerate(("gaussian", "offset", "duplicated", "one_hot", "tight")):
        X, Y = with_gaps(problems.make_problem(family, seed), kind)
        weights = random_weights(len(X)) if weighted else None
        found = fit_columns(X, Y, None if weights is None else np.sqrt(weights))
        for k in range(Y.shape[1]):
            rows = np.flatnonzero(~np.isnan(Y[:, k]))
            kept = None if weights is None else weights[rows]
            expected = oracle.least_squares(X[rows], Y[rows, k], kept)
            predicted = found.intercept[k] + X[rows] @ found.coef[:, k]
            np.testing.assert_allclose(predicted, expected.predict(X[rows]), rtol=1e-7, atol=1e-7)


def test_a_column_without_rows_is_predicted_by_zero():
    found = fit_columns(np.eye(4), np.full((4, 2), np.nan))
    assert not found.intercept.any()
    assert not found.coef.any()


def complete_members(problem):
    centred = problem.Y - problem.Y.mean(axis=0)
    design = Design.of(problem.X)
    return MemberRisk.in_sample(design, *design.coordinates(centred)), GappyMembers(
        problem.X, centred, None
    )


@pytest.mark.parametrize("family", ["gaussian", "scales", "offset"])
def test_without_gaps_members_are_those_of_complete_targets(family):
    plain, gappy = complete_members(problems.make_problem(family, 1))
    n_targets = len(plain.own)
    partition = Partition(np.arange(n_targets) % 3)
    np.testing.assert_allclose(gappy.trust(partition), plain.trust(partition), atol=1e-9)
    np.testing.assert_allclose(
        gappy.gain_over_single(partition).value,
        plain.gain_over_single(partition).value,
        rtol=1e-7,
        atol=1e-9 * np.abs(plain.gain_over_single(partition).value).max(),
    )
    ledger = Ledger(n_targets)
    for other in range(1, n_targets):
        ledger.accept(0, other, 0.0)
    history = ledger.close()
    for here, there in zip(gappy.along(history), plain.along(history), strict=True):
        ours, theirs = np.argsort(here.members), np.argsort(there.members)
        np.testing.assert_array_equal(here.members[ours], there.members[theirs])
        scale = np.abs(there.gain).max()
        np.testing.assert_allclose(
            here.gain[ours], there.gain[theirs], rtol=1e-6, atol=1e-9 * scale
        )
        np.testing.assert_allclose(here.f_statistic, there.f_statistic, rtol=1e-6)
        np.testing.assert_allclose(here.f_star, there.f_star)
        np.testing.assert_allclose(here.total.standard_error, there.total.standard_error, rtol=1e-6)


@pytest.mark.parametrize("kind", GAPS)
@pytest.mark.parametrize("weighted", [False, True])
def test_each_target_is_compared_with_its_group_on_its_own_rows(kind, weighted):
    for seed, family in enumerate(("gaussian", "scales", "duplicated", "tight")):
        X, Y = with_gaps(problems.make_problem(family, seed), kind)
        weights = random_weights(len(X)) if weighted else None
        partition = Partition(np.random.default_rng(seed).integers(0, 3, size=Y.shape[1]))
        found = GappyMembers(X, Y, None if weights is None else np.sqrt(weights))
        gains = found.gain_over_single(partition).value
        for k, label in enumerate(partition.labels):
            group = group_series(Y, partition.groups[label])
            rows = np.flatnonzero(~np.isnan(Y[:, k]))
            kept = None if weights is None else weights[rows]
            own, mean, gap = (
                oracle.least_squares(X[rows], y[rows], kept)
                for y in (Y[:, k], group, group - Y[:, k])
            )
            n, r = rows.size, own.rank
            if partition.sizes[label] == 1 or n <= r + 3:
                continue
            n_group = int((~np.isnan(group)).sum())
            full = oracle.least_squares(X, np.arange(len(X)), None).rank
            bias = (gap.explained - r * gap.residual / (n - r - 1)) / (n - 1)
            single = r / (n - r - 2) * own.residual / (n - r - 1)
            shared = full / max(n_group - full - 2, 1) * mean.residual / (n - r - 1)
            expected = single - bias - shared
            np.testing.assert_allclose(gains[k], expected, rtol=1e-6, atol=1e-8 * (single + shared))


def test_targets_with_hardly_a_row_give_numbers():
    X, Y = np.random.default_rng(0).normal(size=(9, 3)), np.zeros((9, 4))
    Y[0:, 0] = Y[1:, 1] = Y[2:, 2] = Y[4:, 3] = np.nan
    members = GappyMembers(X, Y, None)
    everyone = Partition(np.zeros(4))
    for part in (members.trust(everyone), *members.gain_over_single(everyone), *fit_columns(X, Y)):
        assert np.isfinite(part).all()
