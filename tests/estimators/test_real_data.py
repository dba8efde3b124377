"""Decisions on real data: nearly equal features, redundant columns, targets almost the same.

The data sets are not part of the project; the tests run where CTFA_DATA names a folder with them.
"""

import numpy as np
import pytest

import oracle
from ctfa import CTFARegressor, FeatureAggregator, TargetAggregator, nonlinctfa
from real_data import real

pytestmark = pytest.mark.data


def sarcos(n_samples):
    X, Y = real("sarcos", return_X_y=True)
    rows = slice(None, None, len(X) // n_samples)
    return X[rows][:n_samples], Y[rows][:n_samples]


def qm9(n_samples):
    X, Y = real("qm9", return_X_y=True)
    rows = slice(None, None, len(X) // n_samples)
    return X[rows][:n_samples], Y[rows][:n_samples]


def tecator():
    X, Y = real("tecator", return_X_y=True)
    return X, Y[:, 0]


@pytest.mark.parametrize("scan", ["grow", "restart", "best-first", "correlation"])
@pytest.mark.parametrize("criterion", ["mse", "risk"])
def test_sarcos_is_decided_as_by_refitting(criterion, scan):
    X, Y = sarcos(300)
    max_loss = {"mse": 0.0, "risk": 1.5}[criterion]
    scale = "standard" if criterion == "risk" else "none"
    found = TargetAggregator(criterion, max_loss=max_loss, scan=scan, scale=scale).fit(X, Y)
    values = (Y - Y.mean(axis=0)) / (Y.std(axis=0) if scale == "standard" else 1.0)
    expected = oracle.phase_one(X, values, max_loss, criterion=criterion, scan=scan)
    assert expected.margin(max_loss) > 1e-8
    assert found.labels_.tolist() == list(expected.labels)


@pytest.mark.more
def test_the_paper_s_algorithm_on_sarcos_is_that_of_the_oracle():
    X, Y = sarcos(300)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    found = nonlinctfa().fit(X, Y)
    expected = oracle.authors(X, Y)
    groups = [group.tolist() for group in found.partition_.groups]
    assert groups == [list(group) for group in expected.target_groups]
    for aggregator, features in zip(found.features_, expected.feature_groups, strict=True):
        assert [g.tolist() for g in aggregator.partition_.groups] == [list(g) for g in features]
    np.testing.assert_allclose(found.predict(X), expected.predict(X), rtol=1e-6, atol=1e-6)


@pytest.mark.more
def test_qm9_has_redundant_columns_and_targets_that_are_almost_one():
    X, Y = qm9(1500)
    model = TargetAggregator().fit(X, Y)
    values = (Y - Y.mean(axis=0)) / Y.std(axis=0)
    expected = oracle.phase_one(X, values, 1.5, criterion="risk", scan="best-first")
    assert expected.margin(1.5) > 1e-6
    assert model.labels_.tolist() == list(expected.labels)
    predictions = CTFARegressor().fit(X, Y).predict(X)
    assert np.isfinite(predictions).all()


@pytest.mark.parametrize("cv", [None, 5])
def test_neighbouring_channels_of_spectra_are_merged_as_by_refitting(cv):
    spectra, fat = tecator()
    X = spectra[:, ::8]
    folds = None if cv is None else oracle.contiguous_folds(len(fat), cv)
    found = FeatureAggregator("r2", max_loss=1e-4, scan="restart", min_correlation=-1.0, cv=cv).fit(
        X, fat
    )
    expected = oracle.phase_two(X, fat, 1e-4, criterion="r2", scan="restart", folds=folds)
    assert expected.margin(1e-4) > 1e-9
    assert found.labels_.tolist() == list(expected.labels)
