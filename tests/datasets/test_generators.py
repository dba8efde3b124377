"""Laws of the generators with a known truth."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctfa import PooledCTFARegressor
from ctfa.datasets import make_paper_synthetic, make_task_groups


def residuals(made):
    return made.target - made.intercepts - made.data @ made.coefficients.T


def test_the_paper_s_setting_is_the_one_of_stored_results():
    X, Y = make_paper_synthetic(random_state=0)
    np.testing.assert_allclose(X[0, :2], [0.07182758, 0.71061358], atol=1e-7)
    np.testing.assert_allclose(X[-1, -2:], [1.46172416, -1.53002134], atol=1e-7)
    np.testing.assert_allclose(Y[0, :3], [-9.76388994, 8.97216993, 12.50525196], atol=1e-7)
    np.testing.assert_allclose(Y[-1, -2:], [17.68873629, 10.0941678], atol=1e-7)


def test_correlated_noise_leaves_inputs_and_coefficients_alone():
    plain = make_paper_synthetic(random_state=3, return_X_y=False)
    shared = make_paper_synthetic(random_state=3, return_X_y=False, noise_correlation=0.5)
    np.testing.assert_array_equal(plain.data, shared.data)
    np.testing.assert_array_equal(plain.coefficients, shared.coefficients)
    X, Y = make_paper_synthetic(random_state=3)
    np.testing.assert_array_equal(plain.data, X)
    np.testing.assert_array_equal(plain.target, Y)


@pytest.mark.parametrize("correlation", [0.0, 0.4, 0.9, 1.0])
def test_noise_has_the_spread_and_correlation_asked_for(correlation):
    options = {"noise_correlation": correlation, "random_state": 0}
    paper = make_paper_synthetic(20000, 3, 5, noise=2.0, return_X_y=False, **options)
    groups = make_task_groups(20000, 3, 5, 2, noise=2.0, **options)
    for left in (paper.target - paper.data @ paper.coefficients.T, residuals(groups)):
        np.testing.assert_allclose(left.std(axis=0), 2.0, rtol=0.03)
        others = np.corrcoef(left.T)[np.triu_indices(5, 1)]
        np.testing.assert_allclose(others, correlation, atol=0.03)


def test_labels_of_the_paper_s_targets_are_the_signs_of_their_coefficients():
    made = make_paper_synthetic(50, 6, 40, random_state=1, return_X_y=False)
    assert made.kind == "shared"
    assert made.coefficients.shape == (40, 6)
    assert set(made.labels) == {0, 1}
    sign = np.where(made.labels == 1, 1.0, -1.0)[:, None]
    assert (made.coefficients * sign >= 0.5).all()


@given(
    n_samples=st.integers(2, 20),
    n_features=st.integers(1, 6),
    n_tasks=st.integers(1, 9),
    data=st.data(),
    within=st.floats(0.0, 3.0),
    seed=st.integers(0, 99),
)
def test_without_noise_the_truth_reproduces_the_targets(
    n_samples, n_features, n_tasks, data, within, seed
):
    n_groups = data.draw(st.integers(1, n_tasks))
    options = {"within": within, "noise": 0.0, "random_state": seed}
    shared = make_task_groups(n_samples, n_features, n_tasks, n_groups, **options)
    np.testing.assert_allclose(residuals(shared), 0.0, atol=1e-9)
    own = make_task_groups(n_samples, n_features, n_tasks, n_groups, rows="own", **options)
    predicted = own.intercepts[own.tasks] + (own.data * own.coefficients[own.tasks]).sum(axis=1)
    np.testing.assert_allclose(own.target, predicted, atol=1e-9)
    rows = np.bincount(own.tasks, minlength=n_tasks)
    assert (rows >= n_samples / 2).all()
    assert (rows <= 1.5 * n_samples).all()
    for made in (shared, own):
        sizes = np.bincount(made.labels, minlength=n_groups)
        assert sizes.size == n_groups
        assert sizes.max() - sizes.min() <= 1
        np.testing.assert_allclose(np.linalg.norm(made.group_coefficients, axis=1), 1.0)


def test_members_are_equal_or_wander_by_within():
    equal = make_task_groups(random_state=0, n_tasks=30)
    np.testing.assert_array_equal(equal.coefficients, equal.group_coefficients[equal.labels])
    made = make_task_groups(n_features=200, n_tasks=30, within=0.5, random_state=0)
    off = made.coefficients - made.group_coefficients[made.labels]
    np.testing.assert_allclose(np.linalg.norm(off, axis=1), 0.5, rtol=0.2)


def test_own_rows_are_what_pooled_models_take():
    X, y, tasks = make_task_groups(60, 4, 6, 2, rows="own", random_state=0, return_X_y=True)
    assert np.unique(np.bincount(tasks)).size > 1
    model = PooledCTFARegressor().fit(X, y, tasks=tasks)
    assert model.score(X, y, tasks=tasks) > 0.3


def test_groups_come_as_frames_too():
    X, Y = make_task_groups(as_frame=True, return_X_y=True, random_state=0)
    assert list(Y)[:2] == ["task_01", "task_02"]
    assert X.columns[0] == "feature_01"
    own = make_task_groups(rows="own", as_frame=True, random_state=0)
    assert isinstance(own.tasks, pd.Series)
    assert own.kind == "own rows"


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"n_samples": 1}, ValueError, "n_samples=1: give a whole number, 2 or more"),
        ({"n_features": 0}, ValueError, "n_features=0"),
        ({"n_tasks": 3.0}, TypeError, "n_tasks=3.0 is not a whole number"),
        ({"n_groups": 13}, ValueError, "from 1 to 12"),
        ({"noise": -1.0}, ValueError, "noise=-1.0: give a number, 0.0 or more"),
        ({"noise": float("nan")}, ValueError, "noise=nan"),
        ({"within": "much"}, TypeError, "within='much' is not a number"),
        ({"noise_correlation": 1.5}, ValueError, "from 0.0 to 1.0"),
        ({"rows": "unequal"}, ValueError, "'shared', 'own'"),
        ({"rows": "own", "noise_correlation": 0.5}, ValueError, "do not correspond"),
    ],
)
def test_bad_arguments_of_groups_are_refused(options, error, words):
    with pytest.raises(error, match=words):
        make_task_groups(**options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_samples": 1}, "n_samples=1"),
        ({"n_targets": 0}, "n_targets=0"),
        ({"noise": -1.0}, "noise=-1.0"),
        ({"noise_correlation": -0.1}, "from 0.0 to 1.0"),
    ],
)
def test_bad_arguments_of_the_paper_s_setting_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        make_paper_synthetic(**options)
