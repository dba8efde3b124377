"""Means of observed members, columns fitted on their own rows, targets against their groups."""

import numpy as np
import pytest

import oracle
import problems
from ctfa.core.gaps import fit_columns, observed_mean, pair_fits
from ctfa.core.partition import Partition
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


@pytest.mark.parametrize("kind", GAPS)
@pytest.mark.parametrize("weighted", [False, True])
def test_each_target_is_compared_with_its_group_on_its_own_rows(kind, weighted):
    for seed, family in enumerate(("gaussian", "scales", "duplicated", "one_hot", "tight")):
        X, Y = with_gaps(problems.make_problem(family, seed), kind)
        weights = random_weights(len(X)) if weighted else None
        partition = Partition(np.random.default_rng(seed).integers(0, 3, size=Y.shape[1]))
        found = pair_fits(X, Y, partition, None if weights is None else np.sqrt(weights))
        for k, label in enumerate(partition.labels):
            group = group_series(Y, partition.groups[label])
            rows = np.flatnonzero(~np.isnan(Y[:, k]))
            kept = None if weights is None else weights[rows]
            assert not np.isnan(group[rows]).any()
            own, mean, both, gap = (
                oracle.least_squares(X[rows], y[rows], kept)
                for y in (Y[:, k], group, group + Y[:, k], group - Y[:, k])
            )
            assert found.n_samples[k] == rows.size
            assert found.rank[k] == own.rank
            assert found.dof[k] == rows.size - own.rank - 1
            dof = max(int(found.dof[k]), 1)
            shared = (both.residual - own.residual - mean.residual) / 2
            numbers = (found.noise, found.shared_noise, found.explained, found.residual)
            expected = (own.residual / dof, shared / dof, gap.explained, gap.residual)
            for number, value in zip(numbers, expected, strict=True):
                np.testing.assert_allclose(number[k], value, rtol=1e-6, atol=1e-9)


def test_a_group_of_one_or_of_copies_differs_by_nothing():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(30, 3)), rng.normal(size=(30, 5))
    Y[rng.uniform(size=Y.shape) < 0.2] = np.nan
    Y[:, [2, 3]] = Y[:, [1]]
    found = pair_fits(X, Y, Partition.from_groups([[0], [1, 2, 3], [4]]))
    assert not found.explained.any()
    assert not found.residual.any()
    np.testing.assert_allclose(found.noise, found.shared_noise)


def test_targets_with_hardly_a_row_give_numbers():
    X, Y = np.random.default_rng(0).normal(size=(9, 3)), np.zeros((9, 4))
    Y[0:, 0] = Y[1:, 1] = Y[2:, 2] = Y[4:, 3] = np.nan
    for part in (*pair_fits(X, Y, Partition(np.zeros(4))), *fit_columns(X, Y)):
        assert np.isfinite(part).all()
