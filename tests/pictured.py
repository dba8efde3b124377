"""Models that pictures are drawn of."""

import numpy as np

from ctfa import (
    CTFARegressor,
    FeatureAggregator,
    MultiInputCTFARegressor,
    PooledCTFARegressor,
    TargetAggregator,
)
from ctfa.datasets import make_basins, make_task_groups


def data(n_targets, n_kinds=3, seed=0, n_features=5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(70, n_features))
    kinds = rng.normal(size=(n_kinds, n_features))
    coef = kinds[rng.integers(0, n_kinds, n_targets)] + 0.1 * rng.normal(
        size=(n_targets, n_features)
    )
    return X, X @ coef.T + 1.5 * rng.normal(size=(70, n_targets))


def fitted(n_targets, max_loss="auto", **options):
    X, Y = data(n_targets)
    targets = TargetAggregator(max_loss=max_loss)
    return CTFARegressor(targets=targets, **options).fit(X, Y)


MODEL = fitted(14)
MODEL.stability(*data(14), cv=5)
WHOLE = fitted(14, np.inf)
MADE = make_task_groups(40, 4, 6, rows="own", random_state=0)
POOLED = PooledCTFARegressor(features=FeatureAggregator()).fit(MADE.data, MADE.target, MADE.tasks)
BASINS = make_basins(20, 60, 4, n_regions=3, missing_slots=0.2, random_state=0)
OWN = MultiInputCTFARegressor(
    BASINS.layout, targets=TargetAggregator(max_loss=4.0), features=FeatureAggregator()
)
OWN.fit(BASINS.data, BASINS.target)


def names_along(axis):
    return [text.get_text() for text in axis.get_ticklabels()]


def rgb(colour):
    from matplotlib.colors import to_rgba

    return to_rgba(colour)
