"""Parameters chosen on folds, for tasks that share their rows or have their own."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold
from sklearn.utils.estimator_checks import parametrize_with_checks

from ctfa.datasets import make_paper_synthetic
from ctfa_study.baselines import SingleTaskRegressor, TaskSearchCV
from ctfa_study.baselines._tasks import TaskData

GRID = {"regressor__alpha": [1e-3, 1.0, 30.0, 1e5]}


def search(**options):
    return TaskSearchCV(SingleTaskRegressor(Ridge()), GRID, **options)


def own_rows(seed=0, sizes=(30, 12, 25)):
    rng = np.random.default_rng(seed)
    tasks = rng.permutation(np.repeat(np.arange(3), sizes))
    X = rng.normal(size=(tasks.size, 6))
    return X, X @ np.ones(6) + 2.0 * rng.normal(size=tasks.size), tasks


def test_errors_are_those_of_refitting_on_each_fold():
    X, Y = make_paper_synthetic(40, 6, 3, random_state=0)
    model = search(cv=4, shuffle=False).fit(X, Y)
    for params, error in zip(*model.cv_results_.values(), strict=True):
        expected = []
        for a, b in KFold(4).split(X):
            left = Ridge(params["regressor__alpha"]).fit(X[a], Y[a]).predict(X[b]) - Y[b]
            expected.append(np.mean(np.mean(left**2, axis=0) / Y[a].var(axis=0)))
        assert error == pytest.approx(np.mean(expected))
    best = int(np.argmin(model.cv_results_["mean_test_error"]))
    assert model.best_params_ == model.cv_results_["params"][best]
    refitted = Ridge(model.best_params_["regressor__alpha"]).fit(X, Y)
    np.testing.assert_allclose(model.predict(X), refitted.predict(X))


def test_a_fold_takes_some_rows_of_every_task():
    X, y, tasks = own_rows()
    folds = list(search(cv=5)._folds(TaskData(X, y, tasks, 3)))
    np.testing.assert_array_equal(np.sort(np.concatenate(folds)), np.arange(67))
    counts = np.array([np.bincount(tasks[fold], minlength=3) for fold in folds])
    assert (counts.max(axis=0) - counts.min(axis=0) <= 1).all()


def test_own_rows_are_searched_and_predicted():
    X, y, tasks = own_rows()
    names = np.array(["ash", "birch", "cedar"])[tasks]
    model = search().fit(X, y, tasks=names)
    alpha = model.best_params_["regressor__alpha"]
    direct = SingleTaskRegressor(Ridge(alpha)).fit(X, y, tasks=names)
    np.testing.assert_allclose(model.predict(X, tasks=names), direct.predict(X, tasks=names))
    assert 1e-3 < alpha < 1e5


def test_own_rows_are_judged_in_one_unit_and_tasks_count_alike():
    X, y, tasks = own_rows(sizes=(30, 10, 20))
    model = search(cv=5, shuffle=False).fit(X, y, tasks=tasks)
    place = np.array([np.count_nonzero(tasks[:row] == tasks[row]) for row in range(60)])
    fold = place * 5 // np.bincount(tasks)[tasks]
    errors = []
    for number in range(5):
        kept, held = fold != number, fold == number
        one = SingleTaskRegressor(Ridge(30.0)).fit(X[kept], y[kept], tasks=tasks[kept])
        squares = (one.predict(X[held], tasks=tasks[held]) - y[held]) ** 2
        means = [squares[tasks[held] == task].mean() for task in range(3)]
        errors.append(np.mean(means) / y[kept].var())
    assert model.cv_results_["mean_test_error"][2] == pytest.approx(np.mean(errors))


def test_tasks_of_a_row_or_two_do_not_stop_it():
    X, y, tasks = own_rows(sizes=(30, 1, 2))
    model = search(cv=5).fit(X, y, tasks=tasks)
    assert np.isfinite(model.cv_results_["mean_test_error"]).all()


def test_a_fold_that_only_tasks_of_one_row_are_in_is_not_judged():
    X, y, _ = own_rows()
    for seed in range(5):
        model = search(cv=4, random_state=seed).fit(X[:5], y[:5], tasks=["a", "a", "a", "b", "c"])
        assert np.isfinite(model.cv_results_["mean_test_error"]).all()


class Lost(Ridge):
    def predict(self, X):
        return super().predict(X) * np.nan


def test_what_cannot_be_searched_is_refused_in_words():
    X, Y = make_paper_synthetic(40, 6, 3, random_state=0)
    with pytest.raises(ValueError, match="cv=1 folds of 40 rows: use 2 to 40"):
        search(cv=1).fit(X, Y)
    with pytest.raises(ValueError, match="Lost predicted NaN or infinity for every candidate"):
        TaskSearchCV(Lost(), {"alpha": [1.0]}).fit(X, Y)
    with pytest.raises(ValueError, match="no task has two rows in 2 folds"):
        search(cv=2).fit(X[:6], Y[:6, 0], tasks=range(6))


CHECKS = parametrize_with_checks([TaskSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, cv=2)]).mark
NAMES, CASES = CHECKS.args


@pytest.mark.parametrize(NAMES, list(CASES), **CHECKS.kwargs)
def test_scikit_learns_checks_pass(estimator, check):
    check(estimator)
