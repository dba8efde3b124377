"""Table 3: basins. The paper's map cannot be had; the experiment is rebuilt on maps that can.

For each map the cross-validated error and the number of groups against the paper's ten epsilons,
beside our rule, single tasks and one group of all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from ctfa.core.types import FloatArray
from ctfa_study.reproduction._case import AUTHORS, HONEST, Case, Experiment, Finding, Plan
from ctfa_study.reproduction._results import Results
from ctfa_study.reproduction.experiments.table3 import _methods as methods
from ctfa_study.reproduction.experiments.table3._curves import TITLES, draw
from ctfa_study.reproduction.experiments.table3._methods import EPSILONS
from ctfa_study.reproduction.experiments.table3._settings import (
    CRU,
    CRU_SHORT,
    EUROPE,
    PO,
    SETTINGS,
    SMALL_MAP,
)

NAME = "table3"
Measure = Callable[[], Mapping[str, float | None]]
PROTOCOLS = {
    AUTHORS: "cannot be run; see the end of this page.",
    HONEST: "the authors' variant (mean targets on mean inputs, most correlated pair first) on "
    "maps that exist and on a generated one of the paper's size, least squares for each group. "
    "Folds are blocks of consecutive rows (5, of generated maps 3), with a gap on each side where "
    "inputs hold the past (2 months; 24 weeks for the Po). Inputs and targets are standardised "
    "by the rows to learn from, since epsilon is in squared units of the targets; so an MSE of 1 "
    "is about that of the training mean. Spreads are over folds. At 29,934 basins only neighbours "
    "on the map are asked; the map of 1,000 basins shows what that changes. The anomalies of the "
    "Po are those of its source, from means over all years, and its index, seen every 16 days, was "
    "interpolated to weeks: both leak a little from the rows to be judged by.",
}
#: Ways of our rule: of all pairs and of neighbours, by setting. All pairs only where it is cheap.
RISKS: dict[str, tuple[tuple[str, bool], ...]] = {
    EUROPE: (("mean", True),),
    SMALL_MAP: (("mean", True), ("pool", True), ("auto", True)),
    CRU: (("mean", False), ("mean", True), ("pool", True), ("auto", True)),
    CRU_SHORT: (("mean", False), ("mean", True), ("pool", True), ("auto", True)),
    PO: (("mean", False), ("pool", False), ("auto", False)),
}
#: Which pairs the authors' variant may ask: all (False), neighbours (True).
PAIRS: dict[str, tuple[bool, ...]] = {
    EUROPE: (True,),
    SMALL_MAP: (True, False),
    CRU: (False, True),
    CRU_SHORT: (False, True),
    PO: (False,),
}
#: An error this much larger, relatively, is not a rise.
FLAT = 0.01
#: "Far fewer" models than tasks are at most this share of them.
FAR = 0.5
#: Maps that statements are asked of.
MAPS = (CRU, CRU_SHORT, PO, EUROPE)


def cases(plan: Plan) -> Iterator[Case]:
    """Every method on every fold of every map; ``seeds`` is how many of the folds are run."""
    for setting, known in SETTINGS.items():
        n_folds = min(known.n_folds, plan.seeds or (1 if plan.quick else known.n_folds))
        for fold in range(n_folds):
            recipe = f"{known.recipe}; fold {fold + 1} of {known.n_folds}, gap {known.gap}"
            for method, measure in _methods(setting, fold, quick=plan.quick):
                yield Case(NAME, HONEST, setting, method, fold, measure, recipe, plan.quick)


def _methods(setting: str, fold: int, *, quick: bool) -> Iterator[tuple[str, Measure]]:
    for aggregate, graph in RISKS[setting]:
        yield (
            methods.of_risk(aggregate, graph=graph),
            partial(methods.measure_risk, setting, fold, aggregate, graph=graph, quick=quick),
        )
    for graph in PAIRS[setting]:
        for epsilon in EPSILONS:
            yield (
                methods.of_epsilon(epsilon, graph=graph),
                partial(methods.measure_authors, setting, fold, epsilon, graph=graph, quick=quick),
            )
    for method in methods.PLAIN:
        yield method, partial(methods.measure_plain, setting, fold, method, quick=quick)


def curve_of(results: Results, setting: str, *, quantity: str = "mse") -> list[float]:
    """A quantity at each epsilon, of the main curve of a setting."""
    return [results.mean(HONEST, setting, m, quantity) for m in main_curve(setting)]


def main_curve(setting: str) -> list[str]:
    """The authors' variant at each epsilon: all pairs, or neighbours where those are too many."""
    return [methods.of_epsilon(e, graph=SETTINGS[setting].by_graph) for e in EPSILONS]


def has_u_shape(results: Results, setting: str) -> Finding:
    """Whether the error falls, then rises, with its least value at neither end."""
    mse, groups = (np.array(curve_of(results, setting, quantity=q)) for q in ("mse", "groups"))
    least = int(np.argmin(mse))
    falls = np.all(np.diff(mse[: least + 1]) <= FLAT * mse[least])
    rises = np.all(np.diff(mse[least:]) >= -FLAT * mse[least])
    inside = mse[least] < (1.0 - FLAT) * min(mse[0], mse[-1])
    return Finding(
        {setting: bool(falls and rises and inside)},
        f"MSE {mse[0]:.3f} at epsilon = 1, least {mse[least]:.3f} at {EPSILONS[least]:g} "
        f"({groups[least]:,.0f} groups), {mse[-1]:.3f} at -1",
    )


def is_single_task(results: Results, setting: str) -> Finding:
    """Whether epsilon = 1 is least squares for each task."""
    return _agree(results, setting, main_curve(setting)[0], methods.SINGLE)


def is_one_group(results: Results, setting: str) -> Finding:
    """Whether epsilon = -1 is one regression of the mean target on the mean inputs."""
    return _agree(results, setting, main_curve(setting)[-1], methods.ONE_GROUP)


def _agree(results: Results, setting: str, method: str, plain: str) -> Finding:
    ours, other = (results.mean(HONEST, setting, m, "mse") for m in (method, plain))
    groups, meant = (results.mean(HONEST, setting, m, "groups") for m in (method, plain))
    same = groups == meant and bool(np.isclose(ours, other, rtol=1e-6))
    return Finding({setting: same}, f"MSE {ours:.3f} and {other:.3f}")


def has_fewer_models(results: Results, setting: str) -> Finding:
    """Whether the best epsilon has far fewer models than tasks, and a smaller error in each fold.

    The best is chosen on the folds that judge it, as in the paper: a little flattered.
    """
    single, *curve = _folds(results, setting, [methods.SINGLE, *main_curve(setting)])
    errors = np.array(curve)
    best = int(np.argmin(errors.mean(axis=1)))
    gain = np.round(100.0 * (1.0 - errors[best] / single), 1) + 0.0  # no minus before a zero
    models = curve_of(results, setting, quantity="models")[best]
    n_tasks = results.mean(HONEST, setting, methods.SINGLE, "models")
    clear = bool(models <= FAR * n_tasks and gain.min() > 0.0 and gain.mean() > 100.0 * FLAT)
    return Finding(
        {setting: clear},
        f"{models:,.0f} models for {n_tasks:,.0f} tasks at epsilon = {EPSILONS[best]:g}, MSE "
        f"{errors[best].mean():.3f} against {single.mean():.3f}, {gain.mean():.1f} % less (folds "
        f"{gain.min():.1f} to {gain.max():.1f} %)",
    )


def on_maps(results: Results, shape: Callable[[Results, str], Finding], said: str = "") -> Finding:
    """A statement asked of every map that was run; none of them is the paper's."""
    found: dict[str, Finding] = {}
    for setting in MAPS:
        try:
            found[setting] = shape(results, setting)
        except KeyError:
            continue
    if not found:
        raise KeyError("any map")
    cases = {f"{TITLES[name]}: {one.shown}": one.holds for name, one in found.items()}
    return Finding(cases, said, elsewhere=True)


def _folds(results: Results, setting: str, names: Sequence[str]) -> list[FloatArray]:
    """Errors of each fold, of methods that were all run on the same ones."""
    errors = results.paired(HONEST, setting, names, "mse")
    # A mean over the folds that are left would not be the one of the table.
    whole = [results.get(HONEST, setting, name, "mse") for name in names]
    if any(one is None or one.values.size != errors[0].size for one in whole):
        raise KeyError(f"the same folds of every epsilon in {setting!r}")
    return errors


OF_GENERATED = (
    "Noise and regions of the generated map were set so that single tasks and one group err about "
    "as in the paper (1.058, 0.746 at -0.01 with 844 groups, 1.132)."
)
CHECKS = {
    "u_shape": partial(on_maps, shape=has_u_shape, said=OF_GENERATED),
    "fewer_models": partial(on_maps, shape=has_fewer_models),
    "single_task": partial(on_maps, shape=is_single_task),
    "one_group": partial(on_maps, shape=is_one_group),
}

TABLE3 = Experiment(
    NAME,
    "Table 3: basins",
    PROTOCOLS,
    cases,
    checks=CHECKS,
    draw=draw,
)
