"""What `make own-inputs` compares: the same splits, units and missing inputs for all methods."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import RidgeCV

from ctfa_study.comparison import read_problem
from ctfa_study.evidence import own_inputs as study

RNG = np.random.default_rng(0)
POOLED = "one pooled ridge with offsets"


def basins():
    """Three targets with two inputs each, the last of which lacks one."""
    X = RNG.normal(size=(90, 6))
    Y = X[:, [0, 2, 4]] + 0.3 * X[:, [1, 3, 5]] + RNG.normal(size=(90, 3))
    return read_problem((X, Y, np.array([[0, 1], [2, 3], [4, -1]])), "Po basins")


def schools():
    """Scores of four schools, with inputs in common."""
    ids = np.repeat(np.arange(4), [10, 20, 30, 7])
    X = RNG.normal(size=(ids.size, 3))
    return read_problem((X, X[:, 0] + ids + RNG.normal(size=ids.size), ids), "School")


@pytest.mark.parametrize("method", [POOLED, "mean-regularised"])
def test_an_input_that_a_target_lacks_is_one_that_never_varies(method):
    problem = replace(basins(), quick=True)
    assert study.METHODS[method].why_not(problem) is not None
    X = np.column_stack((problem.X, np.full(90, 7.0)))
    constant = replace(problem, X=X, layout=np.array([[0, 1], [2, 3], [4, 6]]))
    for number, split in enumerate(study.splits_of(problem, final=True)):
        one, other = (study.measure(p, method, number, split) for p in (problem, constant))
        assert one.error == pytest.approx(other.error, rel=1e-12)
        assert one.error < 0.9


def test_every_task_leaves_out_its_share_and_final_draws_are_not_those_of_tuning():
    problem = schools()
    tuning, final = (study.splits_of(problem, final=final) for final in (False, True))
    assert len(tuning) == len(final) == 4
    assert len({split.test.tobytes() for split in tuning + final}) == 8
    for split in final:
        assert np.bincount(problem.index[split.test]).tolist() == [3, 6, 9, 3]
        assert np.sort(np.concatenate(split)).tolist() == [*range(67)]


def test_own_rows_err_by_the_mean_over_tasks_in_ranges_of_a_score():
    problem = schools()
    split = study.splits_of(problem, final=True)[0]
    errors = []
    for task in range(4):
        train, test = (rows[problem.index[rows] == task] for rows in split)
        mean, spread = problem.X[split.train].mean(axis=0), problem.X[split.train].std(axis=0)
        level, unit = problem.Y[split.train].mean(), problem.Y[split.train].std()
        X = (problem.X - mean) / spread
        model = RidgeCV(study.RIDGE.alphas).fit(X[train], (problem.Y[train] - level) / unit)
        gap = model.predict(X[test]) * unit + level - problem.Y[test]
        errors.append(np.sqrt(np.mean(gap**2)) / 69.0)
    rival = study.measure(problem, study.RIVAL, 0, split)
    assert rival.error == pytest.approx(np.mean(errors), rel=1e-10)
    lines = list(
        study.table([rival, rival._replace(method=POOLED, error=2 * rival.error)], "School")
    )
    assert [line.split()[-6] for line in lines[1:]] == ["[1.000]", "[2.000]"]
