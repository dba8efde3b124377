"""Targets with inputs or rows of their own, on real data: decisions are those of refits.

The data are not part of the project; the tests run where CTFA_DATA names a folder with them.
"""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components
from sklearn.linear_model import RidgeCV

import oracle_own
from ctfa import (
    MultiInputCTFARegressor,
    PooledCTFARegressor,
    TargetAggregator,
    multi_input_layout,
)
from ctfa.datasets import (
    load_computer,
    load_cru_iberia,
    load_french_basins,
    load_parkinson,
    load_po_basins,
    load_traffic,
)
from problems import averaged

pytestmark = pytest.mark.data

RIDGE = RidgeCV(np.logspace(-3, 4, 20))


class OwnInputs(NamedTuple):
    """One set; NaN is missing, and a slot that a target does not have is NaN throughout."""

    inputs: np.ndarray  # (n, L, K)
    target: np.ndarray  # (n, L)
    neighbours: Any = None  # (L, L), where there is a map


def read(function):
    try:
        return function()
    except FileNotFoundError as error:
        pytest.skip(str(error))


def own_inputs(load, **options):
    bunch = read(partial(load, download_if_missing=False, **options))
    graph = bunch.get("connectivity")
    near = None if graph is None else graph.toarray().astype(bool)
    return OwnInputs(bunch.inputs, bunch.target, near)


def standardised(data, rows):
    """Series (targets, slots + 1, rows) in units of their own spread."""
    values = np.concatenate((data.inputs[rows], data.target[rows][:, :, None]), axis=2)
    with np.errstate(invalid="ignore"):
        values = (values - np.nanmean(values, axis=0)) / np.nanstd(values, axis=0)
    return values.transpose(1, 2, 0)


def same_groups(model, expected):
    return {tuple(group) for group in model.partition_.groups} == {
        tuple(sorted(group)) for group in expected.groups
    }


@pytest.mark.more
@pytest.mark.filterwarnings("ignore:Degrees of freedom:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:Mean of empty slice:RuntimeWarning")
@pytest.mark.parametrize(("scan", "limit"), [("correlation", 1.0), ("grow", 0.5), ("restart", 0.5)])
def test_po_basins_are_decided_as_by_refits(scan, limit):
    data = own_inputs(load_po_basins, lakes=False)
    assert data.inputs.shape == (1038, 10, 17)
    lacking = np.isnan(data.inputs).all(axis=0)
    assert lacking[:, 12:].all(axis=1).sum() == 3  # snow for seven of ten
    assert np.isnan(data.inputs[:, ~lacking]).any()  # and a gap
    rows = slice(0, None, 4)
    X, layout = multi_input_layout(data.inputs[rows])
    targets = TargetAggregator(max_loss=limit, scan=scan)
    model = averaged(layout, targets=targets).fit(X, data.target[rows])
    values = standardised(data, rows)
    expected = oracle_own.series_groups(values, limit, criterion="risk", scan=scan)
    assert same_groups(model, expected)
    assert 1 < model.n_groups_ < 10


def test_iberian_cells_are_decided_as_by_refits():
    data = own_inputs(load_cru_iberia, indices=False)
    part = OwnInputs(data.inputs[:, ::22], data.target[:, ::22])
    X, layout = multi_input_layout(part.inputs)
    for criterion, limit, scale in (("risk", 3.0, "standard"), ("mse", 0.0, "none")):
        targets = TargetAggregator(criterion, max_loss=limit, scan="correlation", scale=scale)
        model = averaged(layout, targets=targets).fit(X, part.target)
        inputs, Y = part.inputs.transpose(1, 0, 2), part.target
        if scale == "standard":
            inputs = (inputs - inputs.mean(axis=1, keepdims=True)) / inputs.std(
                axis=1, keepdims=True
            )
            Y = (Y - Y.mean(axis=0)) / Y.std(axis=0)
        expected = oracle_own.paired_groups(
            inputs, Y, limit, criterion=criterion, scan="correlation"
        )
        assert same_groups(model, expected)


def test_french_catchments_mostly_stay_by_themselves():
    data = own_inputs(load_french_basins)
    X, layout = multi_input_layout(data.inputs)
    targets = TargetAggregator(max_loss=1.5)
    model = averaged(layout, targets=targets).fit(X, data.target)
    assert model.n_groups_ >= 16


@pytest.mark.more
def test_sensors_merge_along_the_roads_only():
    data = own_inputs(load_traffic)
    X, layout = multi_input_layout(data.inputs)
    targets = TargetAggregator(max_loss=1.5, connectivity=data.neighbours)
    for aggregate in ("mean", "pool"):
        model = averaged(layout, targets=targets, aggregate=aggregate)
        model.fit(X[:300], data.target[:300])
        assert model.n_groups_ < 207
        for group in model.partition_.groups:
            near = data.neighbours[np.ix_(group, group)]
            assert connected_components(near, directed=False)[0] == 1


@pytest.mark.more
@pytest.mark.filterwarnings("ignore:1 of 3460 predictions:RuntimeWarning")
@pytest.mark.parametrize(
    "load", [partial(load_po_basins, lakes=False), load_french_basins], ids=["po", "french"]
)
def test_everything_chosen_on_the_past_is_not_worse_than_ridge_alone(load):
    data = own_inputs(load)
    X, layout = multi_input_layout(data.inputs)
    past, future = slice(0, len(X) * 2 // 3), slice(len(X) * 2 // 3, None)
    unit = np.nanvar(data.target[past], axis=0)

    def error(model):
        predicted = model.fit(X[past], data.target[past]).predict(X[future])
        return np.nanmean((predicted - data.target[future]) ** 2 / unit)

    ours = MultiInputCTFARegressor(layout, RIDGE, aggregate="auto", head="levels")
    alone = MultiInputCTFARegressor(layout, RIDGE, targets=TargetAggregator(max_loss=-np.inf))
    assert error(ours) <= 1.0 * error(alone)


@pytest.mark.parametrize(
    ("name", "n_tasks", "n_rows"), [("parkinson", 9, 40), ("computer", 12, 20)]
)
def test_patients_and_raters_are_pooled_as_by_refits(name, n_tasks, n_rows):
    load = {"parkinson": load_parkinson, "computer": load_computer}[name]
    table, target, ids = read(partial(load, return_X_y=True, download_if_missing=False))
    chosen = np.unique(ids)[:n_tasks]
    rows = np.concatenate([np.flatnonzero(ids == task)[:n_rows] for task in chosen])
    # A few columns: many of them measure the same thing.
    X, y, ids = table[rows][:, 2:8], target[rows], ids[rows]
    model = PooledCTFARegressor(targets=TargetAggregator(max_loss=1.0)).fit(X, y, tasks=ids)
    apart = [ids == task for task in chosen]
    expected = oracle_own.pooled_groups(
        [X[at] for at in apart], [y[at] for at in apart], 1.0, scan="best-first"
    )
    assert same_groups(model, expected)
    assert 1 < model.n_groups_ < n_tasks
