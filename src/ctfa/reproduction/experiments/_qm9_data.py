"""Molecules of QM9 to learn from and to be judged by, in two ways, and what is said of errors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ctfa.core.types import FloatArray, IntArray
from ctfa.datasets import load_qm9

N_TEST = 10_000
#: Rows that the authors' split sets aside for validation and does not use.
N_UNUSED = 10_000
#: Rows of a quick run: to learn from, and to be judged by.
QUICK = (2_000, 1_000)
#: The rotational constant A: two molecules that are nearly linear make nearly all of its variance.
OUTLYING = "A"
#: Targets as the authors list them: rotational constants first.
FIRST = ("A", "B", "C")
#: What the authors multiply the error of each task by, tasks in their order.
SCALES = (
    0.1, 10, 10, 1, 10, 1, 1, 1, 10, 100, 100, 100, 100, 100, 10, 100, 100, 100, 100,
)  # fmt: skip


class Molecules(NamedTuple):
    """What is learnt from and what is judged, features and targets in standard units."""

    X_train: FloatArray
    Y_train: FloatArray
    X_test: FloatArray
    Y_test: FloatArray


@lru_cache(maxsize=1)
def molecules() -> tuple[FloatArray, FloatArray, tuple[str, ...]]:
    """The paper's 19 features and the targets of all molecules, and the names of the targets."""
    table = load_qm9(paper_columns=True)
    return table.data, table.target, tuple(table.target_names)


def target_names() -> tuple[str, ...]:
    """Names of the targets, in the order of their columns."""
    return molecules()[2]


def authors_order() -> IntArray:
    """Columns of the targets in the order in which the authors go through them."""
    names = target_names()
    return np.array([names.index(n) for n in (*FIRST, *(n for n in names if n not in FIRST))])


@lru_cache(maxsize=1)
def honest_split(seed: int, quick: bool = False) -> Molecules:
    """10,000 molecules at random to be judged by, all others to learn from.

    Features and targets are in standard units of the rows to learn from: nothing else is known
    of the rows to be judged by.
    """
    X, Y, _ = molecules()
    n_train = QUICK[0] if quick else X.shape[0] - N_TEST
    train, test = _rows(X.shape[0], n_train, QUICK[1] if quick else N_TEST, seed)
    (X_train, X_test), (Y_train, Y_test) = (
        _standard(X[train], X[test]),
        _standard(Y[train], Y[test]),
    )
    return Molecules(X_train, Y_train, X_test, Y_test)


@lru_cache(maxsize=1)
def authors_split(seed: int, quick: bool = False) -> Molecules:
    """The authors' way: targets in standard units of all molecules, those judged among them.

    10,000 molecules are judged, 10,000 are set aside and not used, the rest is learnt from. Which
    molecules, a file of LibMTL says; here they are drawn at random.
    """
    X, Y, _ = molecules()
    n_train = QUICK[0] if quick else X.shape[0] - N_TEST - N_UNUSED
    train, test = _rows(X.shape[0], n_train, QUICK[1] if quick else N_TEST, seed)
    (every,) = _standard(Y)
    X_train, X_test = _standard(X[train], X[test])
    return Molecules(X_train, every[train], X_test, every[test])


def figures_of(true: FloatArray, predicted: FloatArray) -> dict[str, float]:
    """Errors of all tasks in one figure each; targets in standard units.

    ``mse``: mean over tasks of the mean squared error; ``mse without A``: over all tasks but that
    one; ``r2``: mean over tasks of the R2 of the rows judged; ``scaled mse``: mean over tasks of
    the mean squared error times the authors' scale of that task.
    """
    errors = np.mean((np.asarray(predicted) - true) ** 2, axis=0)
    names = target_names()
    scales = np.empty(len(names))
    scales[authors_order()] = SCALES
    return {
        "mse": float(errors.mean()),
        "mse without A": float(np.delete(errors, names.index(OUTLYING)).mean()),
        "r2": float(np.mean(1.0 - errors / true.var(axis=0))),
        "scaled mse": float(np.mean(errors * scales)),
    }


def _rows(n_rows: int, n_train: int, n_test: int, seed: int) -> tuple[IntArray, IntArray]:
    """Rows to learn from and rows to be judged by, drawn at random and in random order.

    The table is nearly sorted by the size of the molecules and Phase II takes contiguous folds.
    """
    drawn = np.random.default_rng(seed).permutation(n_rows)
    return drawn[n_test : n_test + n_train], drawn[:n_test]


def _standard(train: FloatArray, *others: FloatArray) -> Sequence[FloatArray]:
    """Arrays in standard units of the first, without the columns that are constant there."""
    deviation = train.std(axis=0)
    # The mean of a constant column is not always that constant to the last digit.
    varies = deviation > 1e-12 * np.abs(train).max(axis=0)
    mean = train.mean(axis=0)[varies]
    return [(rows[:, varies] - mean) / deviation[varies] for rows in (train, *others)]
