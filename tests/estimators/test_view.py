"""One view of a fitted model, whoever's data it is."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge

from ctfa import (
    CTFARegressor,
    FeatureAggregator,
    MultiInputCTFARegressor,
    PooledCTFARegressor,
    TargetAggregator,
)
from ctfa.datasets import make_basins, make_paper_synthetic
from ctfa.estimators.view import FittedGroups
from problems import averaged

X, Y = make_paper_synthetic(n_samples=100, n_features=5, n_targets=4, random_state=0)
BASINS = make_basins(n_basins=6, n_samples=80, n_features=3, n_regions=2, random_state=0)
TASKS = np.repeat(["a", "b", "c", "d"], 25)
MODELS = {
    "mean": CTFARegressor().fit(X, Y),
    "mean inputs": averaged(BASINS.layout).fit(BASINS.data, BASINS.target),
    "coefficients": MultiInputCTFARegressor(BASINS.layout, aggregate="pool").fit(
        BASINS.data, BASINS.target
    ),
    "slopes": PooledCTFARegressor().fit(X, Y[:, 0], tasks=TASKS),
}


@pytest.mark.parametrize("shares", MODELS)
def test_a_view_says_what_members_share_and_what_is_known_of_them(shares):
    model = MODELS[shares]
    view = FittedGroups.of(model)
    n_targets = model.partition_.n_variables
    assert view.shares == shares
    assert view.own_rows == (shares == "slopes")
    assert view.own_inputs == (shares in ("mean inputs", "coefficients"))
    assert view.evidence.history is view.history is model.history_
    assert len(view.names) == view.gain.value.size == n_targets
    assert view.means.shape == (model.n_groups_, len(view.features))
    assert not view.is_aggregator


@pytest.mark.parametrize("shares", MODELS)
def test_a_refusal_reads_in_the_view_as_in_why(shares):
    model = MODELS[shares]
    view = FittedGroups.of(model)
    for target, group in enumerate(model.labels_):
        asked = view.names[target] if shares == "slopes" else target
        assert view.refusal(int(group)) == model.why(asked).refusal


def test_a_phase_by_itself_has_groups_and_no_features():
    view = FittedGroups.of(MODELS["mean"].targets_)
    assert view.is_aggregator
    assert view.features == ()
    assert view.means is None
    units, means = view.in_units(Y)
    assert units.shape == Y.shape
    assert means.shape == (100, view.partition.n_groups)


@pytest.mark.parametrize("thing", [Ridge(), FeatureAggregator(), None])
def test_other_things_have_no_view(thing):
    with pytest.raises(TypeError, match=f"not of {type(thing).__name__}"):
        FittedGroups.of(thing)


def test_what_is_not_fitted_has_no_view():
    for model in (CTFARegressor(), TargetAggregator(), PooledCTFARegressor()):
        with pytest.raises(NotFittedError):
            FittedGroups.of(model)
