"""Table 1 on rows that were not looked at, by one measure for every method."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import LinearRegression, MultiTaskLassoCV
from sklearn.model_selection import KFold
from sklearn.neural_network import MLPRegressor
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

from ctfa import CTFARegressor, PooledCTFARegressor, nonlinctfa
from ctfa_study import baselines as rivals
from ctfa_study.comparison import METHODS as KNOWN
from ctfa_study.comparison import METRICS, Method, Problem
from ctfa_study.comparison._metrics import errors_of_tasks
from ctfa_study.reproduction.experiments.table1._data import SARCOS, is_blocked, problem, split
from ctfa_study.reproduction.experiments.table1._matched_means import MatchedRowsRegressor

#: The authors' limits on SARCOS, in standard units of the targets.
EPSILON_1, EPSILON_2 = -0.01, 0.0
#: For stored results: to be changed with any parameter or grid below.
RECIPE = (
    "SARCOS: epsilon_1 -0.01, epsilon_2 0, SVR C 10, MLP 32 alpha 1; School: epsilon 0, SVR C 1, "
    "MLP 32 alpha 10; ASO 3 x 3, cASO 5 x 3 and CMTL 5 x 3 values, 3 folds"
)
SHARED, OWN = ("shared",), ("own rows",)
Regressor = Callable[[Problem], Any]


def _svr(data: Problem) -> Any:
    """Support vectors; schools have few rows and noisy scores, so their penalty is ten times."""
    return SVR(C=10.0 if data.kind == "shared" else 1.0)


def _mlp(data: Problem) -> Any:
    """A network of 32 units; its penalty as with support vectors."""
    return MLPRegressor(
        hidden_layer_sizes=(32,),
        solver="lbfgs",
        alpha=1.0 if data.kind == "shared" else 10.0,
        max_iter=20 if data.quick else 500,
    )


def _lr(_: Problem) -> Any:
    return LinearRegression()


def _tuned(estimator: Any, **grid: list[Any]) -> Callable[[Problem], Any]:
    """Parameters chosen on three folds for all tasks together."""

    def make(data: Problem) -> rivals.TaskSearchCV:
        tried = {name: values[::2] if data.quick else values for name, values in grid.items()}
        return rivals.TaskSearchCV(estimator, tried, cv=3, shuffle=not data.in_order)

    return make


def _single(regressor: Regressor) -> Method:
    """A model for each task."""
    return Method(lambda data: rivals.SingleTaskRegressor(regressor(data)))


def _paper(regressor: Regressor, **options: Any) -> Method:
    """The paper's two phases on shared inputs, in standard units of the training rows."""
    return Method(
        lambda data: nonlinctfa(EPSILON_1, EPSILON_2, regressor=regressor(data), **options), SHARED
    )


def _paper_phase_1(regressor: Regressor) -> Method:
    def make(data: Problem) -> Any:
        model = nonlinctfa(EPSILON_1, regressor=regressor(data))
        return model.set_params(features="passthrough")

    return Method(make, SHARED)


def _matched(regressor: Regressor, rows: str) -> Method:
    """The paper's groups of schools: its limit is zero, in whatever units."""

    def make(data: Problem) -> Any:
        of = TransformedTargetRegressor(regressor(data), transformer=StandardScaler())
        return MatchedRowsRegressor(of, rows=rows)

    return Method(make, OWN, scale="features")


def _ours(regressor: Regressor) -> Method:
    """The risk rule, with all features."""
    recipes = {
        "shared": lambda data: CTFARegressor(regressor(data), features="passthrough", head="mean"),
        "own rows": lambda data: PooledCTFARegressor(regressor(data)),
    }
    return Method(recipes)


REGRESSORS: dict[str, Regressor] = {"LR": _lr, "SVR": _svr, "MLP": _mlp}
_BOTH: dict[str, Method] = {
    "random": KNOWN["random"],
    "task mean": KNOWN["mean"],
    **{f"single-task {name}": _single(of) for name, of in REGRESSORS.items()},
    "single-task ridge": KNOWN["single ridge"],
    "ASO": Method(_tuned(rivals.ASORegressor(), alpha=[0.01, 1.0, 30.0], n_components=[1, 2, 5])),
    "cASO": Method(
        _tuned(
            rivals.ConvexASORegressor(tol=1e-5),
            alpha=[0.003, 0.03, 0.3, 3.0, 30.0], eta=[0.1], n_components=[1, 2, 5],
        )
    ),
    "CMTL": Method(
        _tuned(
            rivals.ClusteredMTLRegressor(tol=1e-5),
            alpha=[0.003, 0.03, 0.3, 3.0, 30.0], mean=[0.001], n_clusters=[1, 2, 5],
        )
    ),
}  # fmt: skip
_SHARED: dict[str, Method] = {
    "multi-task lasso": Method(MultiTaskLassoCV(), SHARED),
    **{f"NonLinCTFA + {name}": _paper(of) for name, of in REGRESSORS.items()},
    **{f"NonLinCTFA Phase I + {name}": _paper_phase_1(of) for name, of in REGRESSORS.items()},
    "NonLinCTFA, shuffled folds + LR": _paper(_lr, cv=KFold(5, shuffle=True, random_state=0)),
    "CTFA both phases + LR": KNOWN["CTFA both phases + LR"],
}
_OWN: dict[str, Method] = {
    **{f"NonLinCTFA + {name}": _matched(of, "averaged") for name, of in REGRESSORS.items()},
    "NonLinCTFA, matched by score + LR": _matched(_lr, "averaged by score"),
    **{f"NonLinCTFA, stacked + {name}": _matched(of, "stacked") for name, of in REGRESSORS.items()},
    "pooled LR": KNOWN["pooled LR"],
    "pooled ridge + offsets": KNOWN["pooled ridge + offsets"],
}
_RISK = {f"CTFA + {name}": _ours(of) for name, of in REGRESSORS.items()}


def methods(setting: str) -> dict[str, Method]:
    """Methods of a setting, in the order of the paper's table."""
    return _BOTH | (_SHARED if setting in SARCOS else _OWN) | _RISK


def is_slow(method: str) -> bool:
    """Whether a method takes more than a few seconds on the larger settings."""
    return method.endswith(("SVR", "MLP")) or method in ("ASO", "cASO", "CMTL")


def measure(setting: str, name: str, seed: int, *, quick: bool) -> Mapping[str, float | None]:
    """Learn from one part of the rows and be judged by the other."""
    data = replace(problem(setting), in_order=is_blocked(setting), quick=quick)
    made = split(setting, seed)
    train, test = data.take(made.train), data.take(made.test)
    start = time.perf_counter()
    predicted, model = methods(setting)[name].predict(train, test, seed)
    seconds = time.perf_counter() - start + getattr(model, "saved_", 0.0)
    errors = errors_of_tasks(train, test, predicted)
    figures = {
        key: float(METRICS[key].of_split(METRICS[key].of_tasks(errors)))
        for key in ("nrmse", "nrmse-rms", "r2")
    }
    return figures | {"seconds": seconds, **sizes(model, data)}


def sizes(model: Any, data: Problem) -> dict[str, float | None]:
    """Groups, inputs of a group and regressors trained."""
    if isinstance(model, rivals.RandomRegressor):
        return {"groups": None, "features": None, "models": 0}
    pooled = isinstance(model, rivals.PooledRegressor | rivals.PooledOffsetsRegressor)
    groups = getattr(model, "n_groups_", None)
    phase_2 = [len(set(one.labels_)) for one in getattr(model, "features_", []) or []
               if hasattr(one, "labels_")]  # fmt: skip
    return {
        "groups": groups,
        "features": float(np.mean(phase_2)) if phase_2 else data.n_inputs,
        "models": 1 if pooled else data.n_tasks if groups is None else groups,
    }
