"""What targets with inputs of their own are told: layouts, series never seen, rows of a fold."""

import numpy as np
import pytest
from sklearn.linear_model import RidgeCV

from ctfa import CTFARegressor, MultiInputCTFARegressor, TargetAggregator, multi_input_layout
from ctfa import _reading as check
from ctfa.core.series import Series
from problems import JUDGES

INPUTS = np.random.default_rng(0).normal(size=(30, 4, 3))
TABLE, LAYOUT = multi_input_layout(INPUTS)
TARGET = INPUTS.sum(axis=2) + np.random.default_rng(1).normal(size=(30, 4))


def unseen(rows=slice(None)):
    target = TARGET.copy()
    target[rows, 2] = np.nan
    return target


def test_three_dimensions_are_laid_out_where_there_is_a_layout():
    with pytest.raises(ValueError, match=r"shape \(30, 4, 3\).*ctfa.multi_input_layout\(X\)"):
        MultiInputCTFARegressor(LAYOUT).fit(INPUTS, TARGET)
    with pytest.raises(ValueError, match="dim 3") as caught:
        CTFARegressor().fit(INPUTS, TARGET)
    assert "layout" not in str(caught.value)


@pytest.mark.parametrize("layout", [RidgeCV(), None])
def test_what_is_no_layout_is_named(layout):
    with pytest.raises(ValueError, match=f"of type {type(layout).__name__}: give a table"):
        MultiInputCTFARegressor(layout).fit(TABLE, TARGET)


def test_infinity_is_no_column():
    with pytest.raises(ValueError, match="whole numbers"):
        MultiInputCTFARegressor(np.where(LAYOUT == 4, np.inf, LAYOUT)).fit(TABLE, TARGET)


@pytest.mark.parametrize("what", ["X", "y"])
def test_infinity_is_no_gap(what):
    X, Y = TABLE.copy(), TARGET.copy()
    {"X": X, "y": Y}[what][5, 1] = -np.inf
    with pytest.raises(ValueError, match=rf"Input {what} contains infinity at row 5.*use NaN"):
        MultiInputCTFARegressor(LAYOUT).fit(X, Y)


@pytest.mark.parametrize("solver", ["ols", "ridge"])
def test_a_target_that_is_never_observed_is_to_be_left_out(solver):
    model = MultiInputCTFARegressor(LAYOUT, targets=TargetAggregator(regressor=JUDGES[solver]))
    with pytest.raises(ValueError, match=r"'y2' is never observed.*leave it out") as caught:
        model.fit(TABLE, unseen())
    assert "ridge" not in str(caught.value).lower()


def test_ridge_is_named_where_it_helps():
    model = MultiInputCTFARegressor(LAYOUT)
    with (
        pytest.warns(RuntimeWarning, match="has 4 rows .*Ridge regression is used"),
        pytest.warns(RuntimeWarning, match="cannot be chosen"),
    ):
        model.fit(TABLE, unseen(slice(4, None)))
    paper = MultiInputCTFARegressor(LAYOUT, targets=TargetAggregator("mse", max_loss=0.0))
    with pytest.raises(ValueError, match=r"has 4 rows .* use targets=.*RidgeCV\(\)"):
        paper.fit(TABLE[:4], TARGET[:4])
    with pytest.raises(ValueError, match=r"has 1 row in .* use fewer inputs or longer series"):
        model.fit(TABLE, unseen(slice(1, None)))


@pytest.mark.parametrize("rows", [slice(4, None), slice(None)])
def test_rows_of_a_fold_are_told_from_all(rows):
    series = Series.of(TABLE, LAYOUT, unseen(rows))
    where = "the training rows of fold 1 of cv"
    names = ["a", "b", "c", "d"]
    with pytest.raises(ValueError, match=rf"^in {where} target 'c' .* use another cv, "):
        check.require_series(series, names, fewest=3, where=where)
