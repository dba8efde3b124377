"""Series of tasks with their own inputs: gathered, cut into folds, standardised."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctfa.core.series import Series
from generated import examples


def a_table(seed=0, *, n=30, gaps=0.2):
    rng = np.random.default_rng(seed)
    X, Y = rng.normal(size=(n, 6)), rng.normal(size=(n, 4))
    X[rng.uniform(size=X.shape) < gaps] = np.nan
    Y[rng.uniform(size=Y.shape) < gaps] = np.nan
    layout = np.array([[0, 1, 2], [3, -1, 2], [4, 1, -1], [5, 0, 2]])
    return X, layout, Y


def test_slots_hold_the_columns_that_the_layout_names():
    X, layout, Y = a_table()
    series = Series.of(X, layout, Y)
    assert series.has.tolist() == (layout >= 0).tolist()
    for task in range(4):
        np.testing.assert_array_equal(series.values[task, -1], Y[:, task])
        for slot in range(3):
            column = layout[task, slot]
            expected = np.full(30, np.nan) if column < 0 else X[:, column]
            np.testing.assert_array_equal(series.values[task, slot], expected)
    assert (series.n_tasks, series.n_slots, series.n_rows) == (4, 3, 30)


def test_many_tasks_are_gathered_in_chunks(monkeypatch):
    X, layout, Y = a_table()
    whole = Series.of(X, layout, Y).standardised("standard")[0]
    monkeypatch.setattr("ctfa.core.series.CHUNK", 1)
    pieces = Series.of(X, layout, Y).standardised("standard")[0]
    np.testing.assert_array_equal(pieces.values, whole.values)
    np.testing.assert_array_equal(pieces.has, whole.has)


def test_a_column_without_a_value_is_no_slot():
    X, layout, Y = a_table(gaps=0.0)
    X[:, 2] = np.nan
    X[:10, 1] = np.nan
    series = Series.of(X, layout, Y)
    assert series.has[:, 2].tolist() == [False] * 4
    assert series.has[0, 1]
    assert not series.take(np.arange(10)).has[0, 1]


def test_lacking_slots_do_not_make_it_incomplete_and_a_gap_does():
    X, layout, Y = a_table(gaps=0.0)
    assert Series.of(X, layout, Y).is_complete
    for table, at in ((X, (3, 2)), (Y, (3, 2))):
        table[at] = np.nan
        assert not Series.of(X, layout, Y).is_complete
        table[at] = 0.0


def test_folds_take_rows_and_normalise_their_weights():
    X, layout, Y = a_table()
    weights = np.linspace(0.0, 2.0, 30)
    series = Series.of(X, layout, Y, weights)
    assert series.weights.sum() == pytest.approx(29.0)  # one row does not count
    rows = np.array([0, 5, 7, 20])
    fold = series.take(rows)
    np.testing.assert_array_equal(fold.values, series.values[:, :, rows])
    np.testing.assert_allclose(fold.weights, weights[rows] * 3.0 / weights[rows].sum())
    assert fold.values.flags.c_contiguous


@given(
    seed=st.integers(0, 1000),
    offset=st.sampled_from([0.0, 1.0, -1e8]),
    weighted=st.booleans(),
    gaps=st.sampled_from([0.0, 0.3]),
)
@settings(max_examples=examples(60), deadline=None)
def test_standardised_series_have_mean_zero_and_unit_spread(seed, offset, weighted, gaps):
    X, layout, Y = a_table(seed, gaps=gaps)
    weights = np.random.default_rng(seed).uniform(0.0, 2.0, size=30) if weighted else None
    plain = Series.of(X, layout, Y, weights)
    moved = Series.of(X + offset, layout, Y + offset, weights)
    series, units = moved.standardised("standard")
    expected, _ = plain.standardised("standard")
    np.testing.assert_allclose(series.values, expected.values, atol=3e-16 * (1e2 + abs(offset)))
    w = np.ones(30) if weights is None else weights
    for task in range(4):
        for row in range(4):
            values = series.values[task, row]
            seen = ~np.isnan(values)
            if not seen.any():
                assert units.offsets[task, row] == 0.0
                assert units.scales[task, row] == 1.0
                continue
            mean = np.average(values[seen], weights=w[seen])
            assert abs(mean) < 1e-12
            spread = np.average((values[seen] - mean) ** 2, weights=w[seen])
            assert spread == pytest.approx(1.0, rel=1e-9)
    back = series.values * units.scales[:, :, None] + units.offsets[:, :, None]
    np.testing.assert_allclose(back, moved.values, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("constant", [0.0, 0.1, 1e8 + 0.1])
@pytest.mark.parametrize("scale", ["standard", "center"])
def test_a_constant_series_becomes_zeros_and_keeps_its_constant(constant, scale):
    X, layout, Y = a_table(gaps=0.0)
    X[:, 1] = Y[:, 3] = constant
    X[4, 1] = np.nan
    weights = np.random.default_rng(0).uniform(size=30)
    series, units = Series.of(X, layout, Y, weights).standardised(scale)
    assert np.nanmax(np.abs(series.values[0, 1])) == 0.0
    assert units.scales[3, -1] == units.scales[0, 1] == 1.0
    assert units.offsets[3, -1] == pytest.approx(constant, rel=1e-15)
    assert np.isnan(series.values[0, 1, 4])


def test_other_scales_and_overwriting():
    X, layout, Y = a_table()
    series = Series.of(X, layout, Y)
    same, units = series.standardised("none")
    assert same is series
    assert (units.offsets == 0.0).all()
    assert (units.scales == 1.0).all()
    centred, units = series.standardised("center")
    target = series.values[1, -1] - np.nanmean(series.values[1, -1])
    np.testing.assert_allclose(centred.values[1, -1], target, atol=1e-15)
    assert (units.scales == 1.0).all()
    assert not np.shares_memory(centred.values, series.values)
    changed, _ = series.standardised("center", overwrite=True)
    assert np.shares_memory(changed.values, series.values)
