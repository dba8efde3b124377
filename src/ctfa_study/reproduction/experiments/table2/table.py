"""Table 2: QM9."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from ctfa.core.types import BoolArray
from ctfa_study.reproduction._case import AUTHORS, HONEST, SHOWN, Case, Experiment, Finding, Plan
from ctfa_study.reproduction._results import Results
from ctfa_study.reproduction.experiments.table2._data import CODE, TEXT
from ctfa_study.reproduction.experiments.table2._methods import (
    LINEAR,
    NETWORKS,
    Method,
    measure,
    measure_data,
    recipe_of,
)
from ctfa_study.reproduction.experiments.table2._networks import network_cases

SETTING, SETTING_OF_CODE = "QM9", "QM9, features of the authors' code"
#: The authors' graph network with random loss weighting, from their log: plain mean over all tasks,
#: over all but A; and with equal weights.
RLW, RLW_WITHOUT_A, EQUAL = 0.6197, 0.0189, 0.6068
#: What is printed after its plus-minus sign; minutes of its training.
RLW_SPREAD, GRAPH_MINUTES = 0.254, 300.0
#: Where no spread is known: an error at most this many times theirs counts as competitive.
COMPETITIVE = 1.1


def improves(results: Results) -> Finding:
    """Whether both phases lower the mean error, with the linear model and with the network."""
    places = (
        ("as the authors ran it, scaled mse", AUTHORS, SETTING, "scaled mse"),
        (f"{SHOWN[HONEST]}, features of the text", HONEST, SETTING, "mse"),
        (f"{SHOWN[HONEST]}, features of the code", HONEST, SETTING_OF_CODE, "mse"),
    )
    cases: dict[str, bool] = {}
    for name, protocol, setting, quantity in places:
        for model in ("LR", "MLP"):
            methods = (f"single-task {model}", f"Phase I+II + {model}")
            single, both = results.paired(protocol, setting, methods, quantity)
            if single.size:
                told = f"{name} | {model} {both.mean():.4f} against {single.mean():.4f}"
                cases[f"{told}, smaller on {_of(both < single)} splits"] = bool(
                    both.mean() < single.mean()
                )
    if not cases:
        raise KeyError("both phases beside single tasks")
    return Finding(
        cases,
        "The printed 0.469 is Phase I alone in the authors' log (0.4697, single tasks 0.5184); "
        "with both phases the log has 1.7002. Errors scatter much from split to split, because a "
        "few small molecules decide those of A, B and C.",
    )


def _of(won: BoolArray) -> str:
    return f"{int(won.sum())} of {won.size}"


def aggregates(results: Results) -> Finding:
    """Whether fewer targets and fewer features are left."""
    cases: dict[str, bool] = {}
    for protocol in (AUTHORS, HONEST):
        name = "Phase I+II + LR"
        if results.get(protocol, SETTING, name, "groups") is None:
            continue
        groups, features = (
            results.mean(protocol, SETTING, name, quantity) for quantity in ("groups", "features")
        )
        every = results.mean(protocol, SETTING, "single-task LR", "features")
        told = f"{groups:.1f} of 19 targets, {features:.1f} of {every:.0f} inputs"
        cases[f"{SHOWN[protocol]}: {told}"] = groups < 19 and features < every
    if not cases:
        raise KeyError("groups of Phase I+II + LR")
    return Finding(cases, "")


def competitive(results: Results) -> Finding:
    """Whether the network with both phases comes near the graph network, by one measure."""
    name = "Phase I+II + MLP"
    every = results.mean(AUTHORS, SETTING, name, "plain mse")
    without = results.mean(AUTHORS, SETTING, name, "mse without A")
    return Finding(
        {
            f"all tasks: {every:.4f} against {RLW}": every <= RLW + RLW_SPREAD,
            f"all tasks but A: {without:.4f} against {RLW_WITHOUT_A}": without
            <= COMPETITIVE * RLW_WITHOUT_A,
        },
        "Graph networks are not run here: theirs are the plain errors of the authors' log (0.8107 "
        "there for both phases). Table 2 sets errors times scales beside plain ones. That the best "
        "graph network (0.216, quoted) is not outperformed agrees.",
    )


def quick_to_train(results: Results) -> Finding:
    """Whether both phases take less time than the paper's graph network."""
    cases: dict[str, bool] = {}
    for protocol in (AUTHORS, HONEST):
        for model in ("LR", "MLP"):
            figure = results.get(protocol, SETTING, f"Phase I+II + {model}", "minutes")
            if figure is not None:
                told = f"{SHOWN[protocol]}, {model}: {figure.mean:.2g} minutes"
                cases[told] = figure.mean < GRAPH_MINUTES
    if not cases:
        raise KeyError("minutes of Phase I+II")
    return Finding(
        cases,
        f"{'; '.join(cases)}. On another machine; the time of the graph network is the paper's.",
    )


def random_weights_best(results: Results) -> Finding:
    """Whether random loss weighting is the best of those trained, on networks of the table."""
    names = [name for name in results.every("method") if name.startswith("HPS MLP + ")]
    errors = {}
    for name in names:
        figure = results.get(HONEST, SETTING, name, "mse")
        if figure is not None:
            errors[name.removeprefix("HPS MLP + ")] = figure.mean
    if "RLW" not in errors or len(errors) < 2:
        raise KeyError("networks with other weightings (--networks)")
    best = min(errors, key=lambda name: errors[name])
    return Finding(
        {f"{len(errors)} weightings of networks on the table": best == "RLW"},
        f"Graph networks are not run here. On the table {best} has {errors[best]:.4f} and RLW "
        f"{errors['RLW']:.4f}. The authors' log lists thirteen weightings of the graph network, "
        f"with {RLW} for RLW and {EQUAL} for equal weights; it may have been chosen by another "
        "measure.",
        elsewhere=True,
    )


CHECKS: dict[str, Callable[[Results], Finding]] = {
    "qm9_improves": improves,
    "qm9_aggregates": aggregates,
    "qm9_competitive": competitive,
    "qm9_quick_to_train": quick_to_train,
    "qm9_random_weights_best": random_weights_best,
}


NAME = "table2"
#: Splits of the authors' protocol, as it is not known which one was theirs, and of the honest one.
N_AUTHORS, N_HONEST = 10, 3

PROTOCOLS = {
    AUTHORS: "features as the authors' code makes them (every two atoms joined: bonds per pair of "
    "atoms, and the mean distance, which needs qm9pack), targets standardised over all molecules, "
    "10,000 molecules judged, 10,000 not used, 110,831 learnt from; the error of each task times a "
    "scale set by hand (scaled mse). Their split is in a file of LibMTL that is not at hand: "
    "ours are random, ten for linear models and one for networks, with the molecule of the largest "
    "A among those judged, as their errors show.",
    HONEST: "the 19 features that the text describes, 10,000 random molecules judged and all "
    "others learnt from, three seeds, everything standardised by the rows learnt from, plain mean "
    "squared errors. A, a rotational constant with two outliers, is also left out: it alone can "
    "decide the mean.",
}


def cases(plan: Plan) -> Iterator[Case]:
    """What is run: linear models first, they take seconds."""
    n_authors, n_honest = (1, 1) if plan.quick else (N_AUTHORS, N_HONEST)
    n_authors, n_honest = plan.seeds or n_authors, plan.seeds or n_honest
    yield from _data(AUTHORS, n_authors, plan)
    yield from _data(HONEST, n_honest, plan)
    yield from _cases(AUTHORS, SETTING, CODE, LINEAR, n_authors, plan)
    yield from _cases(HONEST, SETTING, TEXT, LINEAR, n_honest, plan)
    yield from _cases(HONEST, SETTING_OF_CODE, CODE, LINEAR, n_honest, plan)
    yield from _cases(HONEST, SETTING, TEXT, NETWORKS, n_honest, plan)
    yield from _cases(HONEST, SETTING_OF_CODE, CODE, NETWORKS, n_honest, plan)
    yield from _cases(AUTHORS, SETTING, CODE, NETWORKS, plan.seeds or 1, plan)
    yield from network_cases(plan)


def _data(protocol: str, n_splits: int, plan: Plan) -> Iterator[Case]:
    yield Case(
        NAME, protocol, SETTING, "data", 0,
        partial(measure_data, protocol, n_splits, plan.quick), f"{n_splits} splits", plan.quick,
    )  # fmt: skip


def _cases(
    protocol: str, setting: str, columns: str, methods: Sequence[Method], n_splits: int, plan: Plan
) -> Iterator[Case]:
    for seed in range(n_splits):
        for method in methods:
            yield Case(
                NAME, protocol, setting, method.name, seed,
                partial(measure, method, protocol, columns, seed, plan.quick),
                recipe_of(method, protocol, columns, quick=plan.quick), plan.quick,
            )  # fmt: skip


TABLE2 = Experiment(NAME, "Table 2: QM9", PROTOCOLS, cases, CHECKS)
