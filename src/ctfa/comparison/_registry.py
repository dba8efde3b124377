"""The methods by name; adding one is one line here, or an entry of ``METHODS`` at run time."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, RidgeCV
from sklearn.multioutput import RegressorChain
from sklearn.neural_network import MLPRegressor
from sklearn.svm import SVR

from ctfa import (
    CTFARegressor,
    MultiInputCTFARegressor,
    PooledCTFARegressor,
    TargetAggregator,
    nonlinctfa,
)
from ctfa.baselines import SingleTaskRegressor, TaskSearchCV
from ctfa.comparison._methods import Method
from ctfa.comparison._problem import Problem

#: What other methods are paired with.
REFERENCE = "single LR"


def _ridge() -> RidgeCV:
    return RidgeCV(np.logspace(-2, 4, 25))


def _svr() -> Any:
    return SVR(C=1.0, epsilon=0.1)


def _mlp() -> Any:
    return MLPRegressor(hidden_layer_sizes=(32,), alpha=1.0, max_iter=2000, solver="lbfgs")


def _own_inputs(**options: Any) -> Any:
    """Groups of neighbours, where there is a map."""

    def make(problem: Problem) -> MultiInputCTFARegressor:
        targets = TargetAggregator(connectivity=problem.connectivity)
        return MultiInputCTFARegressor(problem.layout, targets=targets, **options)

    return make


def _ours(regressor: Any = None, **options: Any) -> dict[str, Any]:
    """Our estimator of each kind."""
    return {
        "shared": CTFARegressor(regressor, features="passthrough", **options),
        "own rows": PooledCTFARegressor(regressor, **options),
        "own inputs": _own_inputs(regressor=regressor, aggregate="auto", **options),
    }


METHODS: dict[str, Method] = {
    "single LR": Method(SingleTaskRegressor()),
    "single ridge": Method(SingleTaskRegressor(_ridge())),
    "single SVR": Method(SingleTaskRegressor(_svr())),
    "single MLP": Method(SingleTaskRegressor(_mlp())),
    "single forest": Method(SingleTaskRegressor(RandomForestRegressor(100, min_samples_leaf=3))),
    "regressor chain": Method(RegressorChain(_ridge(), order="random"), ("shared",)),
    "CTFA + LR": Method(_ours()),
    "CTFA + ridge": Method(_ours(_ridge(), head="shrink")),
    "NonLinCTFA + LR": Method(nonlinctfa(regressor=LinearRegression()), ("shared",)),
}
_ = TaskSearchCV
