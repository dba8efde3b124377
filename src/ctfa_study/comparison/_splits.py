"""Which rows a method learns from and which it is judged by, the same for every method."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from sklearn.model_selection import train_test_split

from ctfa.core.types import IntArray
from ctfa_study.comparison._problem import Problem

#: Fraction of the golden ratio: its multiples fall into the widest gap that earlier ones left.
GOLDEN = 0.6180339887498949
#: Seeds of successive tasks are so far apart: tasks of equal size must not lose the same rows.
TASKS_APART = 10_007


class Split(NamedTuple):
    """Rows to learn from, rows to be judged by."""

    train: IntArray
    test: IntArray


def random_split(problem: Problem, seed: int, test_size: float, gap: int) -> Split:
    """Rows at random; of each task, and others of each, where tasks have rows of their own."""
    return _per_task(problem, lambda n, task: _random(n, seed + TASKS_APART * task, test_size))


def blocked_split(problem: Problem, seed: int, test_size: float, gap: int) -> Split:
    """One block of consecutive rows to be judged by; ``gap`` rows on each side are not used.

    For rows in time order, whose neighbours are copies of each other. The blocks of successive
    seeds are spread over the rows, however many seeds there are.
    """
    return _per_task(problem, lambda n, _: _block(n, seed, test_size, gap))


def grouped_split(problem: Problem, seed: int, test_size: float, gap: int) -> Split:
    """Whole groups to be judged by, drawn at random until they have enough rows."""
    if problem.groups is None:
        raise ValueError(
            f"{problem.name} has no groups to keep together: use split='random' or 'blocked', or "
            "give the data set an array 'groups', one value per row."
        )
    known, of_row = np.unique(problem.groups, return_inverse=True)
    order = np.random.default_rng(seed).permutation(known.size)
    counts = np.bincount(of_row)[order]
    n_test = int(np.searchsorted(np.cumsum(counts), test_size * problem.n_rows)) + 1
    if n_test >= known.size:
        raise ValueError(
            f"{problem.name} has {known.size} groups, too few to leave out {test_size:.0%} of its "
            "rows: use a smaller test_size."
        )
    held = np.isin(of_row, order[:n_test])
    return Split(np.flatnonzero(~held), np.flatnonzero(held))


#: A split by its name: ``(problem, seed, test_size, gap) -> Split``.
SPLITS: dict[str, Callable[[Problem, int, float, int], Split]] = {
    "random": random_split,
    "blocked": blocked_split,
    "grouped": grouped_split,
}


def make_split(problem: Problem, split: str, seed: int, test_size: float, gap: int) -> Split:
    """A split by its name, with something for every task on the training side."""
    if problem.n_rows < 2:
        raise ValueError(
            f"{problem.name} has {problem.n_rows} row, and one to learn from and one to be judged "
            "by are needed: pass more rows."
        )
    made = SPLITS[split](problem, seed, test_size, gap)
    if problem.index is not None:
        seen = np.bincount(problem.index[made.train], minlength=problem.n_tasks)
        if not seen.all():
            task = problem.task_names[int(np.argmin(seen))]
            raise ValueError(
                f"the {split} split of {problem.name} leaves no row of task {task!r} to learn "
                "from: use split='random', or a smaller test_size."
            )
    return made


def _per_task(problem: Problem, divide: Callable[[int, int], Split]) -> Split:
    if problem.index is None:
        return divide(problem.n_rows, 0)
    train, test = [], []
    for task in range(problem.n_tasks):
        rows = np.flatnonzero(problem.index == task)
        part = divide(rows.size, task) if rows.size > 1 else Split(np.arange(1), np.arange(0))
        train.append(rows[part.train])
        test.append(rows[part.test])
    return Split(np.concatenate(train), np.concatenate(test))


def _random(n_rows: int, seed: int, test_size: float) -> Split:
    n_test = min(int(np.ceil(test_size * n_rows)), n_rows - 1)
    train, test = train_test_split(np.arange(n_rows), test_size=n_test, random_state=seed)
    return Split(train, test)


def _block(n_rows: int, seed: int, test_size: float, gap: int) -> Split:
    n_test = min(max(round(test_size * n_rows), 1), n_rows - 1)
    first = round((seed * GOLDEN) % 1.0 * (n_rows - n_test))
    made = block_at(first, n_rows, n_test, gap)
    if not made.train.size:
        raise ValueError(
            f"a gap of {gap} rows on each side of a block of {n_test} leaves none of the "
            f"{n_rows} rows to learn from: use a smaller gap or test_size."
        )
    return made


def block_at(first: int, n_rows: int, n_test: int, gap: int) -> Split:
    """A block of rows to be judged by; ``gap`` rows on each side of it are not used."""
    rows = np.arange(n_rows)
    near = (rows >= first - gap) & (rows < first + n_test + gap)
    return Split(rows[~near], rows[first : first + n_test])
