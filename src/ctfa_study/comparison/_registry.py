"""The methods by name; adding one is one line here, or an entry of ``METHODS`` at run time.

Every penalty is chosen on folds of the training rows, from grids that suit standard units.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, RidgeCV
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.multioutput import RegressorChain
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

from ctfa.estimators.multi_input import MultiInputCTFARegressor
from ctfa.estimators.parity import nonlinctfa
from ctfa.estimators.pooled import PooledCTFARegressor
from ctfa.estimators.shared import CTFARegressor
from ctfa.estimators.targets import TargetAggregator
from ctfa_study import baselines as rivals
from ctfa_study.comparison._methods import Method
from ctfa_study.comparison._problem import Problem

#: What other methods are paired with.
REFERENCE = "single LR"
SHARED = ("shared",)
#: Penalties on the squared error of standard units, over the number of rows.
ALPHAS = np.logspace(-3, 0.5, 8).tolist()
#: Of leaving a subspace that is itself free of charge.
PRICES = [0.01, *np.logspace(-0.5, 2.5, 7).tolist()]
#: Of what all tasks have in common: nothing, or little.
SMALL = [0.0, 0.1, 1.0, 10.0]
#: The same for norms, whose useful values are nearer to each other.
NORMS = np.logspace(-2.5, 0.75, 14).tolist()
#: For two penalties at once: of each coefficient, and of all its pairs with others together.
FEW, PAIRS = [1e-4, 1e-3, 0.01, 0.03, 0.1], (1e-3, 0.01, 0.03, 0.1, 0.3)
#: Of ridge regression on sums of squares.
RIDGES = [0.0, 1.0, 10.0, 100.0, 1000.0]


def _tuned(estimator: Any, *, cv: int = 5, **grid: Any) -> Callable[[Problem], Any]:
    """Parameters chosen on folds, of consecutive rows where rows near each other stay together.

    A quick comparison tries every third value on three folds. Values may be a function of the
    problem.
    """

    def make(problem: Problem) -> rivals.TaskSearchCV:
        given = {k: values(problem) if callable(values) else values for k, values in grid.items()}
        tried = {k: values[::3] for k, values in given.items()} if problem.quick else given
        folds = 3 if problem.quick else cv
        return rivals.TaskSearchCV(estimator, tried, cv=folds, shuffle=not problem.in_order)

    return make


def _pairs(problem: Problem) -> list[float]:
    """Penalties of a pair: a coefficient is in as many as there are other features."""
    return [total / max(problem.n_inputs - 1, 1) for total in PAIRS]


def _single(regressor: Any, *, cv: int = 3, **grid: Any) -> Callable[[Problem], Any]:
    """A regressor for each task, its parameters chosen for all tasks together."""
    named = {f"regressor__{name}": values for name, values in grid.items()}
    return _tuned(rivals.SingleTaskRegressor(regressor), cv=cv, **named)


def _chosen(regressor: Any, **grid: Any) -> Callable[[Problem], Any]:
    """A regressor of one group, its parameters chosen for it as ``_single`` does for tasks."""

    def make(problem: Problem) -> GridSearchCV:
        shuffle = not problem.in_order
        folds = KFold(3, shuffle=shuffle, random_state=0 if shuffle else None)
        return GridSearchCV(regressor, grid, cv=folds)

    return make


def _always(regressor: Any) -> Callable[[Problem], Any]:
    return lambda _: regressor


def _ours(regressor: Callable[[Problem], Any], *, head: str = "mean") -> dict[str, Any]:
    """Our estimator of each kind; groups of neighbours only, where there is a map."""

    def shared(problem: Problem) -> CTFARegressor:
        of = regressor(problem)
        of = LinearRegression() if of is None else of
        return CTFARegressor(of, features="passthrough", head=head)

    def own_rows(problem: Problem) -> PooledCTFARegressor:
        return PooledCTFARegressor(regressor(problem), head=head)

    def own_inputs(problem: Problem) -> MultiInputCTFARegressor:
        targets = TargetAggregator(connectivity=problem.connectivity)
        return MultiInputCTFARegressor(
            problem.layout, regressor(problem), targets=targets, aggregate="auto", head=head
        )

    return {"shared": shared, "own rows": own_rows, "own inputs": own_inputs}


#: Both ways to give the paper's estimators their targets: their groups depend on the units.
AS_GIVEN, STANDARDISED = "targets as given", "targets standardised"


def _authors(
    name: str, regressor: Callable[[Problem], Any], *, slow: bool = False
) -> dict[str, Method]:
    """The paper's estimators twice: with the units of targets as given, and as all others get them.

    Rows of tasks' own are matched to find groups, as in the paper, and then stacked.
    """

    def of(problem: Problem) -> Any:
        return TransformedTargetRegressor(regressor(problem), transformer=StandardScaler())

    recipes = {
        "shared": lambda problem: nonlinctfa(regressor=of(problem)),
        "own rows": lambda problem: rivals.MatchedGroupsRegressor(of(problem)),
        "own inputs": lambda problem: nonlinctfa(layout=problem.layout, regressor=of(problem)),
    }
    return {
        f"{name} ({AS_GIVEN})": Method(recipes, scale="features", slow=slow),
        f"{name} ({STANDARDISED})": Method(recipes, slow=slow),
    }


def _per_task(*steps: Any) -> Method:
    """A pipeline for each task."""
    return Method(rivals.SingleTaskRegressor(make_pipeline(*steps)), alone=True)


RIDGE = RidgeCV(np.logspace(-2, 4, 25))
FOREST = RandomForestRegressor(100, min_samples_leaf=3)
NETWORK = MLPRegressor(hidden_layer_sizes=(32,), solver="lbfgs", max_iter=500)
OF_NETWORK: dict[str, Any] = {"alpha": [1.0, 10.0]}
OF_SVR: dict[str, Any] = {"C": [0.1, 1.0, 10.0, 100.0]}

METHODS: dict[str, Method] = {
    "random": Method(rivals.RandomRegressor(), alone=True),
    "mean": Method(rivals.RandomRegressor("mean"), alone=True),
    # A model for each task by itself.
    "single LR": Method(rivals.SingleTaskRegressor(), alone=True),
    "single ridge": Method(rivals.SingleTaskRegressor(RIDGE), alone=True),
    "single SVR": Method(_single(SVR(), **OF_SVR), slow=True, alone=True),
    "single MLP": Method(_single(NETWORK, **OF_NETWORK), slow=True, alone=True),
    "single forest": Method(rivals.SingleTaskRegressor(FOREST), slow=True, alone=True),
    # One model for all.
    "pooled LR": Method(rivals.PooledRegressor()),
    "pooled ridge + offsets": Method(rivals.PooledOffsetsRegressor(RIDGE)),
    # A structure that tasks share.
    "ASO": Method(_tuned(rivals.ASORegressor(), alpha=PRICES, n_components=[1, 2, 5])),
    "cASO": Method(
        _tuned(
            rivals.ConvexASORegressor(tol=1e-5),
            alpha=np.logspace(-2.5, 2, 10).tolist(),
            eta=[0.01, 0.1],
            n_components=[1, 2, 5],
        )
    ),
    "CMTL": Method(
        _tuned(
            rivals.ClusteredMTLRegressor(tol=1e-5),
            alpha=np.logspace(-3, 2, 11).tolist(),
            mean=[0.001, 0.01],
            n_clusters=[1, 2, 5],
        )
    ),
    "trace norm": Method(_tuned(rivals.TraceNormRegressor(tol=1e-6), alpha=NORMS)),
    "L21": Method(_tuned(rivals.L21Regressor(tol=1e-6), alpha=NORMS)),
    "dirty": Method(_tuned(rivals.DirtyRegressor(tol=1e-6), alpha=NORMS)),
    "mean-regularised": Method(
        _tuned(rivals.MeanRegularizedRegressor(), alpha=[*ALPHAS, 10.0, 100.0], alpha_mean=SMALL)
    ),
    # Targets on the same rows.
    "curds and whey": Method(_tuned(rivals.CurdsAndWheyRegressor(), alpha=RIDGES), SHARED),
    "reduced rank": Method(rivals.ReducedRankRegressor(alpha=RIDGES), SHARED),
    "Ward groups + ridge": Method(rivals.WardGroupsRegressor(RIDGE), SHARED),
    "regressor chain": Method(RegressorChain(RIDGE, order="random"), SHARED),
    # Features that share a coefficient or a mean: as their authors publish them, and by lost R2.
    "LinCFA + LR": _per_task(rivals.LinCFA(), LinearRegression()),
    "NonLinCFA + LR": Method(
        _single(
            make_pipeline(rivals.NonLinCFA(), LinearRegression()),
            nonlincfa__epsilon=[1e-6, 1e-4, 1e-3, 0.01, 0.1],
        ),
        alone=True,
    ),
    "GenLinCFA + LR": Method(
        _single(
            make_pipeline(rivals.GenLinCFA(), LinearRegression()),
            genlincfa__epsilon=[0.01, 0.03, 0.1, 0.2, 0.4, 0.8],
        ),
        alone=True,
    ),
    "pairs by R2 + LR": _per_task(rivals.PairR2Aggregator(), LinearRegression()),
    "OSCAR": Method(_tuned(rivals.OSCARRegressor(), cv=3, alpha=FEW, alpha_pairs=_pairs)),
    "clustered lasso": Method(
        _tuned(rivals.ClusteredLassoRegressor(tol=1e-5), cv=3, alpha=FEW, alpha_pairs=_pairs)
    ),
    # Ours, and the paper's as its authors run it (epsilon_1 = 0, epsilon_2 = 1e-4).
    "CTFA + LR": Method(_ours(_always(None))),
    "CTFA + ridge": Method(_ours(_always(RIDGE))),
    "CTFA levels + ridge": Method(_ours(_always(RIDGE), head="levels")),
    "CTFA both phases + LR": Method(CTFARegressor(LinearRegression(), head="mean"), SHARED),
    "CTFA as it comes": Method(CTFARegressor(), SHARED),
    "CTFA + SVR": Method(_ours(_chosen(SVR(), **OF_SVR)), slow=True),
    "CTFA + MLP": Method(_ours(_chosen(NETWORK, **OF_NETWORK)), slow=True),
    **_authors("NonLinCTFA + LR", _always(LinearRegression())),
    **_authors("NonLinCTFA + SVR", _chosen(SVR(), **OF_SVR), slow=True),
    **_authors("NonLinCTFA + MLP", _chosen(NETWORK, **OF_NETWORK), slow=True),
}
