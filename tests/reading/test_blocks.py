"""Folds of consecutive rows, and folds inside them, are those that rows in memory are given."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import KFold

from ctfa._reading.sums import TEST, TRAIN, Classes, Wanted


def rows_of(classes, purpose, fold, role):
    """Rows that have a role in a fold."""
    of_row = np.searchsorted(classes.starts, np.arange(classes.n_rows), side="right") - 1
    return np.flatnonzero(classes.roles[purpose][fold][of_row] == role)


@given(
    n_rows=st.integers(20, 90),
    n_outer=st.integers(2, 5),
    n_inner=st.integers(2, 5),
    is_last_alone=st.booleans(),
)
def test_folds_inside_folds_are_those_of_the_rows_that_are_left(
    n_rows, n_outer, n_inner, is_last_alone
):
    outer = Wanted("outer", n_outer, is_last_alone=is_last_alone)
    inner = Wanted("inner", n_inner, lowered=True)
    classes = Classes.of([inner, outer, replace(inner, within=outer)], n_rows, None, None)
    splits = list(KFold(n_outer).split(np.arange(n_rows)))
    if is_last_alone:
        splits = splits[-1:]
    assert len(classes.roles["outer"]) == len(splits)
    for fold, (train, test) in enumerate(splits):
        np.testing.assert_array_equal(rows_of(classes, "outer", fold, TRAIN), train)
        np.testing.assert_array_equal(rows_of(classes, "outer", fold, TEST), test)
        purpose = replace(inner, within=outer).inside(fold)
        for number, (learn, judge) in enumerate(KFold(n_inner).split(train)):
            np.testing.assert_array_equal(rows_of(classes, purpose, number, TRAIN), train[learn])
            np.testing.assert_array_equal(rows_of(classes, purpose, number, TEST), train[judge])
            np.testing.assert_array_equal(rows_of(classes, purpose, number, 0), test)
    for number, (learn, judge) in enumerate(KFold(n_inner).split(np.arange(n_rows))):
        np.testing.assert_array_equal(rows_of(classes, "inner", number, TRAIN), learn)
        np.testing.assert_array_equal(rows_of(classes, "inner", number, TEST), judge)


def test_no_more_classes_are_made_than_are_counted():
    outer, inner = Wanted("outer", 5), Wanted("inner", 10)
    wanted = [inner, outer, replace(inner, within=outer)]
    classes = Classes.of(wanted, 1000, None, None)
    assert classes.n_classes <= sum(want.n_parts for want in wanted)


def test_folds_inside_scattered_folds_are_refused():
    outer = Wanted("outer", KFold(3, shuffle=True))
    with pytest.raises(ValueError, match="consecutive rows"):
        Classes.of([outer, Wanted("inner", 3, within=outer)], 60, None, None)
