"""One repetition of the paper's generated experiment: tasks in two groups, by one method."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import LinearRegression, RidgeCV
from sklearn.metrics import r2_score

from ctfa import CTFARegressor, FeatureAggregator, TargetAggregator, nonlinctfa
from ctfa.core.types import FloatArray
from ctfa.datasets import make_paper_synthetic
from ctfa_study.reproduction._case import HONEST, Case

#: Test rows, however many there are for training.
N_TEST = 250
#: Penalties that ridge regression chooses from.
PENALTIES = np.logspace(-2.0, 5.0, 15)
PROTOCOL = (
    "the authors' own experiment, which has no leak: new data each repetition, test rows that no "
    "method sees, the same for all; R2 and MSE of each task, then their mean; changes against the "
    "single task in per cent of each task, then their mean. {repetitions}."
)


class Setting(NamedTuple):
    """Sizes of the data and parameters of the paper's rule; the defaults are the paper's."""

    n: int = 250
    D: int = 100
    L: int = 10
    sigma: float = 7.5
    epsilon_1: float = 0.0
    epsilon_2: float = 1e-4
    noise_correlation: float = 0.0

    def data(self, seed: int) -> Any:
        """Training rows, then test rows, with the truth."""
        return make_paper_synthetic(
            self.n + N_TEST,
            self.D,
            self.L,
            noise=self.sigma,
            noise_correlation=self.noise_correlation,
            return_X_y=False,
            random_state=seed,
        )


def _single(setting: Setting) -> Any:
    return LinearRegression()


def _paper(setting: Setting) -> Any:
    return nonlinctfa(setting.epsilon_1, setting.epsilon_2)


def _paper_first_phase(setting: Setting) -> Any:
    return _paper(setting).set_params(features="passthrough")


def _risk(setting: Setting) -> Any:
    return CTFARegressor()


def _risk_first_phase(setting: Setting) -> Any:
    return CTFARegressor(features="passthrough")


def _single_ridge(setting: Setting) -> Any:
    return RidgeCV(PENALTIES, alpha_per_target=True)


def _risk_ridge(setting: Setting) -> Any:
    return CTFARegressor(
        RidgeCV(PENALTIES),
        targets=TargetAggregator(solver="ridge"),
        features=FeatureAggregator(solver="ridge"),
    )


SINGLE, PHASE_1, BOTH = "single task", "Phase I", "Phase I+II"
RISK_1, RISK_BOTH = "Phase I, risk rule", "Phase I+II, risk rule"
SINGLE_RIDGE, RISK_RIDGE = "single task, ridge", "Phase I+II, risk rule, ridge"
PAPER, RISK, RIDGE = (SINGLE, PHASE_1, BOTH), (RISK_1, RISK_BOTH), (SINGLE_RIDGE, RISK_RIDGE)
METHODS: dict[str, Callable[[Setting], Any]] = {
    SINGLE: _single,
    PHASE_1: _paper_first_phase,
    BOTH: _paper,
    RISK_1: _risk_first_phase,
    RISK_BOTH: _risk,
    SINGLE_RIDGE: _single_ridge,
    RISK_RIDGE: _risk_ridge,
}


def measure(setting: Setting, method: str, seed: int) -> Mapping[str, float | None]:
    """Test errors of one method on one repetition, and what is left of tasks and features."""
    _compile()
    made = setting.data(seed)
    train, test = slice(setting.n), slice(setting.n, None)
    X, Y, true = made.data, made.target, made.target[test]
    alone = LinearRegression().fit(X[train], Y[train]).predict(X[test])
    start = time.perf_counter()
    model = METHODS[method](setting).fit(X[train], Y[train])
    predicted = np.asarray(model.predict(X[test]))
    seconds = time.perf_counter() - start
    groups = getattr(model, "n_groups_", setting.L)
    # Of each task, as the authors count: a large group counts as often as it has tasks.
    kept = np.full(setting.L, setting.D)
    if hasattr(model, "features_"):
        kept = np.array([features.n_groups_ for features in model.features_])[model.labels_]
    r2, r2_alone = _r2(true, predicted), _r2(true, alone)
    mse, mse_alone = _mse(true, predicted), _mse(true, alone)
    return {
        "mse": float(mse.mean()),
        "r2": float(r2.mean()),
        "mse decrease %": float(np.mean(-100.0 * (mse - mse_alone) / mse_alone)),
        # By R2 of a task: where that is about zero, this is about anything.
        "r2 increase %": float(np.mean(100.0 * (r2 - r2_alone) / r2_alone)),
        "groups": groups,
        "features": float(np.mean(kept)),
        "models": groups,
        "seconds": seconds,
    }


def measure_data(setting: Setting, seed: int) -> Mapping[str, float | None]:
    """Sizes of the data as made, and the noise in them."""
    made = setting.data(seed)
    noise = made.target - made.data @ made.coefficients.T
    return {
        "rows": made.data.shape[0] - N_TEST,
        "test rows": N_TEST,
        "inputs": made.data.shape[1],
        "tasks": made.target.shape[1],
        "noise": float(noise.std()),
    }


def make_case(
    experiment: str, name: str, setting: Setting, method: str, seed: int, *, quick: bool
) -> Case:
    """One method on one repetition of a setting; "data" measures the data themselves."""
    # Methods are known by their names: how an estimator prints depends on versions.
    recipe = ", ".join(f"{field} = {value:g}" for field, value in setting._asdict().items())
    recipe += f", {N_TEST} test rows"
    work = partial(measure, setting, method, seed)
    if method == "data":
        work = partial(measure_data, setting, seed)
    return Case(experiment, HONEST, name, method, seed, work, recipe=recipe, quick=quick)


@cache
def _compile() -> None:
    """Compile what large problems are compiled for, once a process, so that no case is timed so."""
    nonlinctfa().fit(*make_paper_synthetic(150, 60, 60, random_state=0))


def _mse(true: FloatArray, predicted: FloatArray) -> FloatArray:
    return np.asarray(np.mean((predicted - true) ** 2, axis=0))


def _r2(true: FloatArray, predicted: FloatArray) -> FloatArray:
    return np.asarray(r2_score(true, predicted, multioutput="raw_values"))
