"""What every baseline stands on: tasks that share their rows, or have rows of their own."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import check_grad
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import KFold, cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from ctfa.datasets import make_paper_synthetic
from ctfa_study.baselines import (
    ASORegressor,
    MeanRegularizedRegressor,
    SingleTaskRegressor,
    TraceNormRegressor,
)
from ctfa_study.baselines._tasks import TaskData


def shared(seed=0, n=30, d=4, t=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 2.0
    return X, X @ rng.normal(size=(d, t)) + rng.normal(size=(n, t)) - 1.0


def stacked(X, Y):
    """The same rows as rows of each task's own, in another order."""
    n, t = Y.shape
    order = np.random.default_rng(1).permutation(n * t)
    ids = np.repeat([f"task {k}" for k in range(t)], n)
    return np.tile(X, (t, 1))[order], Y.T.ravel()[order], ids[order]


def own_data(X, Y):
    rows, y, ids = stacked(X, Y)
    return TaskData(rows, y, np.unique(ids, return_inverse=True)[1], Y.shape[1])


def test_shared_rows_and_own_rows_have_the_same_moments():
    X, Y = shared()
    one = TaskData(X, Y, None, 3).moments
    other = own_data(X, Y).moments
    W = np.random.default_rng(2).normal(size=(3, 4))
    np.testing.assert_allclose(one.gradient(W), other.gradient(W))
    np.testing.assert_allclose(one.residual_squares(W), other.residual_squares(W))
    np.testing.assert_allclose(one.intercepts(W), other.intercepts(W))
    assert one.dual(W, 0.3) == pytest.approx(other.dual(W, 0.3))
    assert one.curvature == pytest.approx(other.curvature)


@pytest.mark.parametrize("own", [False, True])
def test_the_loss_is_half_the_mean_squared_error_and_has_its_gradient(own):
    X, Y = shared()
    moments = own_data(X, Y).moments if own else TaskData(X, Y, None, 3).moments
    W = np.random.default_rng(2).normal(size=(3, 4))
    left = (Y - Y.mean(axis=0)) - (X - X.mean(axis=0)) @ W.T
    assert moments.loss(W) == pytest.approx(0.5 * np.mean(left**2, axis=0).sum())
    error = check_grad(
        lambda w: moments.loss(w.reshape(3, 4)),
        lambda w: moments.gradient(w.reshape(3, 4)).ravel(),
        W.ravel(),
    )
    assert error < 1e-5


def test_the_dual_function_touches_the_loss_at_least_squares():
    X, Y = shared()
    moments = TaskData(X, Y, None, 3).moments
    best = LinearRegression().fit(X, Y).coef_
    assert moments.dual(best) == pytest.approx(moments.loss(best))
    assert moments.dual(best, 0.9) < moments.loss(best)


def test_a_model_for_each_task_is_the_same_from_shared_and_from_own_rows():
    X, Y = shared()
    rows, y, ids = stacked(X, Y)
    one = SingleTaskRegressor(Ridge()).fit(X, Y).predict(X)
    model = SingleTaskRegressor(Ridge()).fit(rows, y, tasks=ids)
    np.testing.assert_allclose(one, Ridge().fit(X, Y).predict(X))
    for task, name in enumerate(model.tasks_):
        np.testing.assert_allclose(model.predict(X, tasks=[name] * len(X)), one[:, task])


@pytest.mark.parametrize("scale", [1e-8, 1e-6, 1.0, 1e6, 1e8])
def test_no_feature_is_lost_beside_one_of_another_size(scale):
    # Ridge regression from the rows, each column in its own unit, keeps all digits.
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(40, 4)), rng.normal(size=(40, 3))
    X[:, 2], X[:, 3] = X[:, 1], 0.1  # a copy and a constant change nothing
    Y += X[:, :1] + X[:, 1:2]
    given = X * [scale, 1.0, 1.0, 1.0]
    rows = np.vstack([given - given.mean(axis=0), np.sqrt(40 * 0.3) * np.eye(4)])
    aim = np.vstack([Y - Y.mean(axis=0), np.zeros((4, 3))])
    unit = np.linalg.norm(rows, axis=0)
    exact = (np.linalg.lstsq(rows / unit, aim, rcond=None)[0] / unit[:, None]).T
    ridge = MeanRegularizedRegressor(0.3, alpha_mean=np.inf).fit(given, Y)
    np.testing.assert_allclose(ridge.coef_ * [scale, 1, 1, 1], exact * [scale, 1, 1, 1], atol=1e-9)
    models = [MeanRegularizedRegressor(0.0), TraceNormRegressor(0.0)]
    if scale >= 1.0:  # what is a small part of its price is shared by ASO to fewer digits
        models.append(ASORegressor(4))
    for free in models:
        np.testing.assert_allclose(
            free.fit(given, Y).predict(given), LinearRegression().fit(X, Y).predict(X), atol=1e-8
        )
        np.testing.assert_allclose(free.coef_[:, 3], 0.0, atol=1e-12)


@pytest.mark.parametrize("n_rows", [2, 60, 100_000])
def test_a_feature_that_does_not_vary_has_no_coefficient_however_its_mean_is_rounded(n_rows):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(n_rows, 3)), rng.normal(size=(n_rows, 2)) + 5.0
    X[:, 1], X[:, 2] = 0.1, 1e6 + 0.1
    for model in (MeanRegularizedRegressor(0.0), TraceNormRegressor(0.0), ASORegressor(3)):
        np.testing.assert_allclose(model.fit(X, Y).coef_[:, 1:], 0.0, atol=1e-12)


def test_one_task_may_be_given_with_its_id():
    X, Y = make_paper_synthetic(30, 4, 2, random_state=0)
    model = SingleTaskRegressor().fit(X, Y[:, 0], tasks=["only"] * 30)
    expected = SingleTaskRegressor().fit(X, Y[:, 0]).predict(X)
    np.testing.assert_array_equal(model.predict(X, tasks=["only"] * 30), expected)


def test_ids_may_be_a_column_of_a_data_frame():
    rows, y, ids = stacked(*shared())
    frame = pd.DataFrame(rows, columns=list("abcd")).assign(task=ids)
    model = SingleTaskRegressor().fit(frame, y, tasks="task")
    expected = SingleTaskRegressor().fit(rows, y, tasks=ids).predict(rows, tasks=ids)
    np.testing.assert_allclose(model.predict(frame, tasks="task"), expected)
    assert model.feature_names_in_.tolist() == list("abcd")
    np.testing.assert_allclose(model.predict(frame), expected)
    assert model.score(frame, y) == model.score(frame, y, tasks="task") > 0.5
    folds = KFold(3, shuffle=True, random_state=0)
    scores = cross_val_score(SingleTaskRegressor(), frame, y, cv=folds, params={"tasks": "task"})
    assert (scores > 0.3).all()


def test_tasks_that_do_not_fit_are_refused_in_words():
    X, Y = shared()
    rows, y, ids = stacked(X, Y)
    own = SingleTaskRegressor().fit(rows, y, tasks=ids)
    with pytest.raises(ValueError, match="was fitted with tasks: pass the task of each row"):
        own.predict(rows)
    with pytest.raises(ValueError, match="was fitted without tasks: leave tasks out"):
        SingleTaskRegressor().fit(X, Y).predict(X, tasks=["a"] * len(X))
    with pytest.raises(ValueError, match="has not seen: 'nobody'"):
        own.predict(rows[:2], tasks=["nobody", "task 1"])
    with pytest.raises(ValueError, match="y has 3 columns and tasks is given"):
        SingleTaskRegressor().fit(X, Y, tasks=["a"] * len(X))


CHECKS = parametrize_with_checks([SingleTaskRegressor()]).mark
NAMES, CASES = CHECKS.args


@pytest.mark.parametrize(NAMES, list(CASES), **CHECKS.kwargs)
def test_scikit_learns_checks_pass(estimator, check):
    check(estimator)
