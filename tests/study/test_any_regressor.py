"""The study of any regressor: its draws, its rivals, its table."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression

from ctfa_study.evidence import any_regressor as study
from ctfa_study.evidence.problem import stream


@pytest.mark.parametrize("family", study.FAMILIES, ids=lambda family: family.name)
def test_signals_have_variance_one_and_members_of_a_true_group_have_one_signal(family):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, study.N_INPUTS))
    signal, labels = family.draw(rng, X, 6)
    if family.name != "own parts":  # whose two parts are not independent
        np.testing.assert_allclose(signal.var(axis=0), 1.0, rtol=1e-9)
    alike = np.corrcoef(signal.T) > 1.0 - 1e-9
    together = labels[:, None] == labels
    if family.has_groups:
        np.testing.assert_array_equal(alike, together)
    if len(set(labels.tolist())) == 6:
        np.testing.assert_array_equal(alike, np.eye(6, dtype=bool))


@pytest.mark.parametrize("name", study.REGRESSORS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_every_regressor_can_be_fitted(name):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    told = clone(study.REGRESSORS[name]).fit(X, X[:, 0]).predict(X)
    assert np.corrcoef(told, X[:, 0])[0, 1] > 0.5


def test_groups_by_cross_task_errors_are_found_where_they_are_plain():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    Y = np.repeat(X[:, :2], 3, axis=1) * 3.0 + 0.3 * rng.normal(size=(120, 6))
    model = study.CrossErrors(LinearRegression()).fit(X, Y)
    assert model.n_groups_ == 2
    expected = clone(LinearRegression()).fit(X, Y[:, :3].mean(axis=1)).predict(X)
    assert np.corrcoef(model.predict(X)[:, 0], expected)[0, 1] > 0.999


def test_the_table_tells_every_method_beside_one_model_per_target(monkeypatch):
    monkeypatch.setattr(study, "N_TRAIN", 60)
    monkeypatch.setattr(study, "N_TEST", 50)
    monkeypatch.setattr(study, "SIZES", (4,))
    monkeypatch.setattr(study, "FAMILIES", study.FAMILIES[::3])
    rows = [row for family in study.FAMILIES for row in study.measure("ridge", family, 4, 0)]
    found = study.ratios(rows)
    assert {key[3] for key in found} == set(study.METHODS) - {study.SHARED}
    assert all(found[(*key[:3], study.REFERENCE)] == 1.0 for key in found)
    text = "\n".join(study.report(rows))
    for family in study.FAMILIES:
        cells = next(line for line in text.splitlines() if line.startswith(f"| {family.name} |"))
        assert f"{found['ridge', family.name, 4, study.OURS]:.3f}" in cells
    # The same draw is the same row; final seeds have draws of their own.
    again = study.measure("ridge", study.FAMILIES[0], 4, 0)
    assert [row.score for row in again] == [row.score for row in rows[: len(again)]]
    assert stream(1) != 1
