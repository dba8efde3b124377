"""SARCOS and School as Table 1 needs them, and the rows of each split."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from sklearn.utils import check_random_state

from ctfa.datasets import load_sarcos, load_school
from ctfa_study.comparison import Problem, Split, read_problem
from ctfa_study.comparison._splits import make_split

SARCOS_1000, SARCOS_4449 = "SARCOS 1000", "SARCOS 4449"
SARCOS_BLOCKS = "SARCOS 4449, blocks"
SCHOOL_27, SCHOOL_139 = "School 27", "School 139"
SARCOS = {SARCOS_1000: 1000, SARCOS_4449: 4449, SARCOS_BLOCKS: 4449}
SCHOOL = {SCHOOL_27: 27, SCHOOL_139: 139}
#: Rows on each side of a block that are not used: five seconds of the robot's motion.
GAP = 50
TRAIN, TEST = 0.7, 0.3  # 1 - 0.7 is a little more than 0.3, and may hold out a row more


@lru_cache(maxsize=4)
def problem(setting: str) -> Problem:
    """The rows of a setting."""
    if setting in SCHOOL:
        return read_problem(load_school(n_schools=SCHOOL[setting]), setting)
    X, Y = load_sarcos(return_X_y=True)
    n_rows = SARCOS[setting]
    return read_problem((X[:n_rows], Y[:n_rows]), setting)


def is_blocked(setting: str) -> bool:
    """Whether rows near each other stay together."""
    return setting == SARCOS_BLOCKS


def split(setting: str, seed: int) -> Split:
    """Rows to learn from and to be judged by, both in the order of the file.

    The rows at random are those of the reruns that found out about the paper's numbers: the first
    70 % of a permutation by numpy's older generator, seeds from 0 on; one after the other for the
    schools. Their order is that of the file because contiguous folds are blocks of time then, as
    they are for the authors; rows left in the order of the draw would make them folds at random.
    """
    data = problem(setting)
    if is_blocked(setting):
        return make_split(data, "blocked", seed, TEST, GAP)
    draws = check_random_state(seed)
    held = np.ones(data.n_rows, dtype=bool)
    if data.index is None:
        held[draws.permutation(data.n_rows)[: int(TRAIN * data.n_rows)]] = False
    for task in range(0 if data.index is None else data.n_tasks):
        rows = np.flatnonzero(data.index == task)
        held[rows[draws.permutation(rows.size)[: round(TRAIN * rows.size)]]] = False
    return Split(np.flatnonzero(~held), np.flatnonzero(held))
