"""One repetition of Section 5.1, and the sweeps of Figures 3 and 4 about the paper's setting."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
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
    return CTFARegressor(LinearRegression(), head="mean")


def _risk_first_phase(setting: Setting) -> Any:
    return CTFARegressor(LinearRegression(), head="mean", features="passthrough")


def _single_ridge(setting: Setting) -> Any:
    return RidgeCV(PENALTIES, alpha_per_target=True)


def _risk_ridge(setting: Setting) -> Any:
    return CTFARegressor(
        RidgeCV(PENALTIES),
        targets=TargetAggregator(regressor=RidgeCV(PENALTIES)),
        features=FeatureAggregator(),
        head="mean",
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
    """Compile for large problems, once per process, so that no case times the compiling."""
    nonlinctfa().fit(*make_paper_synthetic(150, 60, 60, random_state=0))


def _mse(true: FloatArray, predicted: FloatArray) -> FloatArray:
    return np.asarray(np.mean((predicted - true) ** 2, axis=0))


def _r2(true: FloatArray, predicted: FloatArray) -> FloatArray:
    return np.asarray(r2_score(true, predicted, multioutput="raw_values"))


#: The point that all sweeps have in common is run once.
BASE = "base"


class Sweep(NamedTuple):
    """One parameter and the values it takes besides the paper's."""

    parameter: str
    name: str  # on an axis, and in the names of settings
    values: tuple[float, ...]
    methods: tuple[str, ...] = (*PAPER, *RISK)
    scale: str = "linear"  # of the axis; "even" for values that no scale would show

    def setting(self, value: float) -> Setting:
        """The setting with this value, all else as in the base."""
        whole: Any = int(value) if self.parameter in ("n", "D", "L") else value
        return Setting()._replace(**{self.parameter: whole})

    def name_of(self, value: float) -> str:
        """Name of the setting with this value; that of all sweeps has a name of its own."""
        return BASE if value == getattr(Setting(), self.parameter) else f"{self.name} = {value:g}"

    def points(self) -> list[float]:
        """All values, in order."""
        return sorted({*self.values, float(getattr(Setting(), self.parameter))})


#: Values of the authors' log, and of their tables of the figures where these have others (n = 1500,
#: epsilon_1 = -0.5 and 0.5, epsilon_2 = 0.1). Besides: epsilon_1 from -100 to 100, because it is in
#: squared units of a target, whose variance is 190; epsilon_2 = -1, which merges no features.
SWEEPS = (
    Sweep("n", "n", (150, 200, 300, 400, 500, 750, 1000, 1500, 10000), scale="log"),
    Sweep("D", "D", (10, 25, 50, 75, 150)),
    Sweep("L", "L", (2, 5, 20, 50, 100), scale="log"),
    Sweep("sigma", "sigma", (1.0, 2.5, 5.0, 10.0, 15.0, 30.0), scale="log"),
    # The risk rule has no epsilon: its point is the base.
    Sweep(
        "epsilon_1", "epsilon_1",
        (-100.0, -10.0, -1.0, -0.5, -0.1, -0.01, 0.01, 0.1, 0.5, 1.0, 2.0, 10.0, 20.0, 100.0),
        PAPER, "even",
    ),
    Sweep("epsilon_2", "epsilon_2", (-1.0, 0.0, 1e-6, 1e-5, 1e-3, 1e-2, 0.1), PAPER, "even"),
    # Announced in the authors' log, never run.
    Sweep("noise_correlation", "noise correlation", (0.1, 0.3, 0.5, 0.7, 0.9)),
)  # fmt: skip
BY_NAME = {sweep.parameter: sweep for sweep in SWEEPS}
#: More features than rows: least squares has no noise left to judge by, so single tasks and ridge.
WIDE = "D = 300"
#: Settings where the ridge is tried as well, to see what it does before it is needed.
WITH_RIDGE = (BASE, "D = 150", WIDE)


class Point(NamedTuple):
    """A setting to be run, and by what."""

    name: str
    setting: Setting
    methods: tuple[str, ...]


def points() -> Iterator[Point]:
    """Every setting once, the base first."""
    yield Point(BASE, Setting(), (*PAPER, *RISK, *RIDGE))
    for sweep in SWEEPS:
        for value in sweep.values:
            name = sweep.name_of(value)
            more = RIDGE if name in WITH_RIDGE else ()
            yield Point(name, sweep.setting(value), (*sweep.methods, *more))
    yield Point(WIDE, Setting(D=300), (PAPER[0], *RIDGE))
