"""Inputs of many tasks in one table."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctfa import multi_input_layout


@given(st.integers(1, 6), st.integers(1, 5), st.integers(1, 4), st.integers(0, 2**16))
def test_every_input_comes_back_from_its_column(n_samples, n_tasks, n_slots, seed):
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(n_samples, n_tasks, n_slots))
    missing = rng.uniform(size=(n_tasks, n_slots)) < 0.4
    missing[:, 0] = False
    inputs[:, missing] = np.nan
    X, layout = multi_input_layout(inputs)
    assert X.shape == (n_samples, np.count_nonzero(~missing))
    np.testing.assert_array_equal(layout < 0, missing)
    # Task by task, each in the order of its slots.
    np.testing.assert_array_equal(layout[layout >= 0], np.arange(X.shape[1]))
    back = np.where(layout >= 0, X[:, layout], np.nan)
    np.testing.assert_array_equal(back, inputs)


def test_a_gap_is_not_a_missing_slot():
    inputs = np.ones((3, 2, 1))
    inputs[0, 1, 0] = np.nan
    X, layout = multi_input_layout(inputs)
    assert layout.tolist() == [[0], [1]]
    assert np.isnan(X).sum() == 1


@pytest.mark.parametrize(
    ("inputs", "text"),
    [
        (np.ones((3, 2)), r"shape \(3, 2\): give inputs of shape"),
        (np.ones((3, 0, 2)), r"shape \(3, 0, 2\): there is nothing"),
        (np.full((2, 1, 1), "rain"), "not all numbers"),
        (np.stack([np.ones((3, 2)), np.full((3, 2), np.nan)], axis=1), "Task 1 of X3d is NaN"),
    ],
)
def test_other_shapes_are_refused_with_a_reason(inputs, text):
    with pytest.raises(ValueError, match=text):
        multi_input_layout(inputs)


@given(st.integers(1, 5), st.integers(1, 4), st.integers(0, 2**16))
def test_a_later_period_has_the_columns_of_the_first(n_tasks, n_slots, seed):
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(9, n_tasks, n_slots))
    inputs[:, rng.uniform(size=(n_tasks, n_slots)) < 0.3] = np.nan
    inputs[:, :, 0] = rng.normal(size=(9, n_tasks))
    whole, layout = multi_input_layout(inputs)
    # Later nothing is seen of some slots, and even of all slots of a task.
    inputs[6:, rng.uniform(size=(n_tasks, n_slots)) < 0.3] = np.nan
    later, same = multi_input_layout(inputs[6:], layout)
    np.testing.assert_array_equal(same, layout)
    assert later.shape == (3, whole.shape[1])
    back = np.where(layout >= 0, later[:, layout], np.nan)
    np.testing.assert_array_equal(back, inputs[6:])


def test_a_layout_of_something_else_is_refused():
    inputs = np.ones((3, 2, 2))
    inputs[:, 1, 1] = np.nan
    _, layout = multi_input_layout(inputs)
    with pytest.raises(ValueError, match=r"shape \(2, 2\) but X3d has 3 tasks and 2 slots"):
        multi_input_layout(np.ones((3, 3, 2)), layout)
    with pytest.raises(ValueError, match="values for slot 1 of task 1, which has no column"):
        multi_input_layout(np.ones((3, 2, 2)), layout)
    for wrong in (layout + 2, layout * 1.0, np.maximum(layout, 0), np.full((2, 2), -3)):
        with pytest.raises(ValueError, match="one that multi_input_layout has returned"):
            multi_input_layout(inputs, wrong)
