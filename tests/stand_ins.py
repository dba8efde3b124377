"""Rows that stand in for others, as estimators are given them: for tests."""

from __future__ import annotations

import numpy as np
from sklearn.model_selection import KFold

from ctfa import _reading as check
from ctfa.core.moments import Summary, stacked


def summed(table, classes, weights=None):
    """Stand-ins of each class of rows, their classes, counts and weights of sum n."""
    numbers = np.unique(classes)
    parts = [
        Summary.of(table[at], None if weights is None else weights[at]).stand_ins()
        for at in (classes == number for number in numbers)
    ]
    rows, counts, sums = stacked(parts)
    of_row = np.repeat(numbers, [len(part.rows) for part in parts])
    return rows, of_row, counts, sums * (counts.sum() / sums.sum())


def folds_of(classes):
    """One fold for each class, as ``KFold`` would divide the rows themselves."""
    return [
        (np.flatnonzero(classes != number), np.flatnonzero(classes == number))
        for number in np.unique(classes)
    ]


def blocks(n_rows, n_folds):
    """Fold of each row, of consecutive ones."""
    fold = np.empty(n_rows, dtype=int)
    for number, (_, test) in enumerate(KFold(n_folds).split(np.zeros(n_rows))):
        fold[test] = number
    return fold


def stand_ins(X, Y, *, n_folds=10, sample_weight=None, confounds=None, target_weight=None):
    """A sample and targets of rows that stand in for those given."""
    extra = np.empty((len(X), 0)) if confounds is None else confounds
    table = np.hstack([X, Y, extra])
    rows, of_row, counts, weights = summed(table, blocks(len(X), n_folds), sample_weight)
    n_inputs, n_targets = X.shape[1], Y.shape[1]
    own, values, columns = np.split(rows, [n_inputs, n_inputs + n_targets], axis=1)
    folds = folds_of(of_row)
    sample = check.Sample(
        own,
        weights,
        None,
        None if confounds is None else columns,
        counts,
        {"limit": folds, "features": folds},
    )
    names = check.read_targets(Y[:2], 2)
    targets = check.read_target_weight(target_weight, names)
    return sample, targets._replace(values=values)


def task_stand_ins(X, y, index, fold, sample_weight=None):
    """The same for tasks with rows of their own: a sample, its target and the task of each row."""
    n_folds = int(fold.max()) + 1
    table = np.column_stack((X, y))
    rows, of_row, counts, weights = summed(table, index * n_folds + fold, sample_weight)
    task, own = of_row // n_folds, of_row % n_folds
    folds = {"limit": folds_of(own)}
    sample = check.Sample(rows[:, :-1], weights, None, counts=counts, folds=folds)
    return sample, rows[:, -1], task
