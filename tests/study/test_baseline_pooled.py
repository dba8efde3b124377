"""One model for all tasks, with an offset for each or without."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

from ctfa_study.baselines import PooledOffsetsRegressor, PooledRegressor, SingleTaskRegressor


def shared(seed=0, n=30, d=4, t=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 2.0
    return X, X @ rng.normal(size=(d, t)) + rng.normal(size=(n, t)) - 1.0


def own(seed=0, sizes=(4, 10, 30, 60), spread=2.0, d=3):
    """Common slopes, offsets of a given spread."""
    rng = np.random.default_rng(seed)
    ids = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    X = rng.normal(size=(ids.size, d)) + 1.0
    offsets = spread * rng.normal(size=len(sizes))
    slopes = rng.normal(size=d)
    return X, X @ slopes + offsets[ids] + rng.normal(size=ids.size), ids


def stacked(X, Y):
    return np.tile(X, (Y.shape[1], 1)), Y.T.ravel(), np.repeat(np.arange(Y.shape[1]), len(X))


@pytest.mark.parametrize("regressor", [None, Ridge(3.0), DecisionTreeRegressor(max_depth=2)])
def test_one_model_is_the_regressor_on_all_rows(regressor):
    template = LinearRegression() if regressor is None else regressor
    X, y, ids = own()
    model = PooledRegressor(regressor).fit(X, y, tasks=ids)
    expected = template.fit(X, y).predict(X)
    np.testing.assert_allclose(model.predict(X, tasks=ids), expected)

    X, Y = shared()
    model = PooledRegressor(regressor).fit(X, Y)
    expected = template.fit(*stacked(X, Y)[:2]).predict(X)
    np.testing.assert_allclose(model.predict(X), np.tile(expected[:, None], (1, 3)))


@pytest.mark.parametrize("kind", [PooledRegressor, PooledOffsetsRegressor])
@pytest.mark.parametrize("regressor", [None, Ridge(3.0)])
def test_shared_rows_are_own_rows_that_happen_to_be_equal(kind, regressor):
    X, Y = shared()
    rows, y, ids = stacked(X, Y)
    one = kind(regressor).fit(X, Y).predict(X)
    other = kind(regressor).fit(rows, y, tasks=ids).predict(rows, tasks=ids)
    np.testing.assert_allclose(one.T.ravel(), other)


def test_in_the_balanced_one_way_case_offsets_have_the_closed_form():
    rng = np.random.default_rng(0)
    n, t = 12, 9
    Y = 5.0 + 0.8 * rng.normal(size=t) + rng.normal(size=(n, t))
    within = Y.var(axis=0, ddof=1).mean()
    between = n * Y.mean(axis=0).var(ddof=1)
    assert between > within
    model = PooledOffsetsRegressor().fit(np.ones((n, 1)), Y)
    # The search for the ratio of variances stops at steps of five per cent.
    assert model.ratio_ == pytest.approx((between / within - 1.0) / n, rel=0.05)
    kept = n * model.ratio_ / (1.0 + n * model.ratio_)
    np.testing.assert_allclose(model.kept_, kept)
    assert kept == pytest.approx(1.0 - within / between, rel=0.05)
    np.testing.assert_allclose(model.offsets_, kept * (Y.mean(axis=0) - Y.mean()), atol=1e-10)
    assert model.intercept_ == pytest.approx(Y.mean())


def test_the_linear_model_solves_the_mixed_model_equations():
    X, y, ids = own()
    model = PooledOffsetsRegressor().fit(X, y, tasks=ids)
    table = np.column_stack((np.ones(len(y)), X, ids[:, None] == np.arange(4)))
    penalty = np.r_[np.zeros(4), np.full(4, 1.0 / model.ratio_)]
    solution = np.linalg.solve(table.T @ table + np.diag(penalty), table.T @ y)
    assert model.intercept_ == pytest.approx(solution[0])
    np.testing.assert_allclose(model.coef_, solution[1:4])
    np.testing.assert_allclose(model.offsets_, solution[4:])


def test_a_task_keeps_the_less_of_its_offset_the_fewer_rows_it_has():
    X, y, ids = own()
    kept = PooledOffsetsRegressor().fit(X, y, tasks=ids).kept_
    assert 0.0 < kept[0] < kept[1] < kept[2] < kept[3] < 1.0


def test_tasks_that_do_not_differ_have_no_offsets_and_one_model():
    X, y, ids = own(spread=0.0, sizes=(20, 20, 20, 20))
    residual = y - LinearRegression().fit(X, y).predict(X)
    # Without any difference of the residuals' means their variance is below its expectation.
    y = y - np.array([residual[ids == task].mean() for task in range(4)])[ids]
    model = PooledOffsetsRegressor().fit(X, y, tasks=ids)
    assert model.ratio_ == 0.0
    assert not model.offsets_.any()
    expected = PooledRegressor().fit(X, y, tasks=ids).predict(X, tasks=ids)
    np.testing.assert_allclose(model.predict(X, tasks=ids), expected)


def test_any_regressor_is_fitted_to_the_rows_less_the_offsets():
    X, y, ids = own()
    linear = PooledOffsetsRegressor().fit(X, y, tasks=ids)
    model = PooledOffsetsRegressor(DecisionTreeRegressor(max_depth=2)).fit(X, y, tasks=ids)
    np.testing.assert_array_equal(model.offsets_, linear.offsets_)
    tree = DecisionTreeRegressor(max_depth=2).fit(X, y - linear.offsets_[ids])
    expected = tree.predict(X) + linear.offsets_[ids]
    np.testing.assert_allclose(model.predict(X, tasks=ids), expected)
    assert linear.regressor_ is None


def test_where_tasks_differ_by_an_offset_it_beats_one_model_and_single_tasks():
    errors = []
    models = PooledOffsetsRegressor(), PooledRegressor(), SingleTaskRegressor()
    for seed in range(10):
        rows = own(seed, sizes=(200,) * 6, spread=1.0)
        ahead, target, of_row, X, y, ids = apart(*rows, (8, 8, 12, 12, 16, 16))
        for model in models:
            model.fit(X, y, tasks=ids)
        predicted = [model.predict(ahead, tasks=of_row) for model in models]
        errors.append([np.mean((target - found) ** 2) for found in predicted])
    offsets, pooled, single = np.mean(errors, axis=0)
    assert offsets < 0.8 * pooled
    assert offsets < 0.8 * single


def apart(X, y, ids, sizes):
    """Rows to judge, then the first few of each task to train."""
    train = np.zeros(len(y), dtype=bool)
    for task, size in enumerate(sizes):
        train[np.flatnonzero(ids == task)[:size]] = True
    return X[~train], y[~train], ids[~train], X[train], y[train], ids[train]


@pytest.mark.parametrize("kind", [PooledRegressor, PooledOffsetsRegressor])
def test_what_is_no_regressor_is_refused(kind):
    X, Y = shared()
    with pytest.raises(TypeError, match="is not an estimator"):
        kind(Ridge).fit(X, Y)


CHECKS = parametrize_with_checks([PooledRegressor(), PooledOffsetsRegressor()]).mark
NAMES, CASES = CHECKS.args


@pytest.mark.parametrize(NAMES, list(CASES), **CHECKS.kwargs)
def test_scikit_learns_checks_pass(estimator, check):
    check(estimator)
