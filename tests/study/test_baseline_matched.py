"""The paper's groups of tasks that have rows of their own."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.utils.estimator_checks import parametrize_with_checks

from ctfa import multi_input_layout, nonlinctfa
from ctfa.datasets import make_task_groups
from ctfa_study.baselines import MatchedGroupsRegressor, SingleTaskRegressor
from real_data import real


def own_rows(seed=0, **options):
    return make_task_groups(rows="own", random_state=seed, return_X_y=True, **options)


def matched(X, y, tasks):
    """The first row of each task beside the first of the others, and so on."""
    names, counts = np.unique(tasks, return_counts=True)
    inputs = np.full((counts.max(), names.size, X.shape[1]), np.nan)
    targets = np.full(inputs.shape[:2], np.nan)
    for task, (name, count) in enumerate(zip(names, counts, strict=True)):
        inputs[:count, task], targets[:count, task] = X[tasks == name], y[tasks == name]
    return inputs, targets


def test_groups_are_those_of_the_paper_s_variant_on_matched_rows():
    X, y, tasks = own_rows(n_samples=40, n_features=4, n_tasks=8, n_groups=2)
    inputs, targets = matched(X, y, tasks)
    table, layout = multi_input_layout(inputs)
    expected = nonlinctfa(-0.2, layout=layout).fit(table, targets).partition_
    model = MatchedGroupsRegressor(epsilon=-0.2).fit(X, y, tasks=tasks)
    assert model.partition_ == expected
    assert 1 < model.n_groups_ < 8


def test_a_group_is_one_regressor_of_its_rows_stacked():
    X, y, tasks = own_rows(n_samples=40, n_features=4, n_tasks=8, n_groups=2)
    model = MatchedGroupsRegressor(Ridge(3.0), epsilon=-0.2).fit(X, y, tasks=tasks)
    predicted = model.predict(X, tasks=tasks)
    position = {task: k for k, task in enumerate(model.tasks_.tolist())}
    of_row = model.labels_[[position[task] for task in tasks]]
    for group in range(model.n_groups_):
        at = of_row == group
        np.testing.assert_allclose(predicted[at], Ridge(3.0).fit(X[at], y[at]).predict(X[at]))


def test_a_large_epsilon_leaves_every_task_by_itself_and_a_small_one_makes_one_group():
    X, y, tasks = own_rows(n_samples=40, n_features=4, n_tasks=6, n_groups=2)
    alone = MatchedGroupsRegressor(epsilon=1e9).fit(X, y, tasks=tasks)
    single = SingleTaskRegressor().fit(X, y, tasks=tasks)
    np.testing.assert_allclose(alone.predict(X, tasks=tasks), single.predict(X, tasks=tasks))
    together = MatchedGroupsRegressor(epsilon=-1e9).fit(X, y, tasks=tasks)
    assert together.n_groups_ == 1
    one = LinearRegression().fit(X, y)
    np.testing.assert_allclose(together.predict(X, tasks=tasks), one.predict(X))


def test_too_few_rows_are_refused_in_words():
    X, Y = make_task_groups(6, 4, 3, 2, random_state=0, return_X_y=True)
    with pytest.raises(ValueError, match=r"n_samples=6 rows for 4 features.*needs 7 or more"):
        MatchedGroupsRegressor().fit(X, Y)


@pytest.mark.data
def test_27_schools_are_grouped_as_by_the_authors():
    X, y, tasks = real("school", n_schools=27, return_X_y=True)
    # The authors keep a column of ones.
    X = np.column_stack((X, np.ones(len(X))))
    model = MatchedGroupsRegressor().fit(X, y, tasks=tasks)
    assert [group.tolist() for group in model.partition_.groups] == [
        [0, 10, 13, 19, 26],
        [1, 4],
        [2, 7, 8, 9, 11, 15, 17, 20, 22, 24, 25],
        [3],
        [5, 6, 14, 16, 18, 21, 23],
        [12],
    ]


NO_FREEDOM = "11 rows and 10 features leave no degrees of freedom for the noise (n <= D + 2)"
CHECKS = parametrize_with_checks(
    [MatchedGroupsRegressor()],
    expected_failed_checks=lambda estimator: {"check_regressor_multioutput": NO_FREEDOM},
).mark
NAMES, CASES = CHECKS.args


@pytest.mark.parametrize(NAMES, list(CASES), **CHECKS.kwargs)
def test_scikit_learns_checks_pass(estimator, check):
    check(estimator)
