"""What the paper says of QM9 in words, asked of our figures."""

from __future__ import annotations

from collections.abc import Callable

from ctfa.reproduction._case import AUTHORS, HONEST, Finding
from ctfa.reproduction._results import Results

SETTING, SETTING_OF_CODE = "QM9", "QM9, features of the authors' code"
#: The authors' graph network with random loss weighting, from their log: plain mean over all tasks,
#: over all but A; and with equal weights.
RLW, RLW_WITHOUT_A, EQUAL = 0.6197, 0.0189, 0.6068
#: What counts as competitive: an error at most this many times theirs.
COMPETITIVE = 1.1
#: The error that splits decide least.
STEADY = "mse without A, B, C"


def improves(results: Results) -> Finding:
    """Whether both phases lower the honest error, with the linear model and with the network."""
    told, better = [], []
    for model in ("LR", "MLP"):
        single = results.mean(HONEST, SETTING, f"single-task {model}", "mse")
        for phases in ("Phase I", "Phase I+II"):
            ours = results.mean(HONEST, SETTING, f"{phases} + {model}", "mse")
            if phases == "Phase I+II":
                better.append(ours < single)
            steady = [
                results.mean(HONEST, SETTING, name, STEADY)
                for name in (f"single-task {model}", f"{phases} + {model}")
            ]
            told.append(
                f"{model}, {phases}: mse {single:.4f} -> {ours:.4f}, without A, B and C "
                f"{steady[0]:.4f} -> {steady[1]:.4f}"
            )
    for phases in ("Phase I", "Phase I+II"):
        ours = results.mean(HONEST, SETTING, f"risk rule, {phases} + LR", "mse")
        told.append(f"the risk rule, {phases} with LR: mse {ours:.4f}")
    for model in ("LR", "MLP"):
        figures = [
            results.get(HONEST, SETTING_OF_CODE, name, "mse")
            for name in (f"single-task {model}", f"Phase I+II + {model}")
        ]
        known = [f"{figure.mean:.4f}" for figure in figures if figure is not None]
        if len(known) == len(figures):
            told.append(f"with the features of the authors' code, {model}: {' -> '.join(known)}")
    return Finding(all(better), f"honest figures. {'; '.join(told)}.{_splits_won(results)}")


def _splits_won(results: Results) -> str:
    """On how many of the authors' splits both phases have the smaller error, in their measure."""
    names = ("single-task LR", "Phase I+II + LR")
    single, both = results.paired(AUTHORS, SETTING, names, "scaled mse")
    if not single.size:
        return ""
    won = int((both < single).sum())
    return (
        f" As the authors ran it and in their measure, both phases with LR have the smaller error "
        f"on {won} of {both.size} splits."
    )


def aggregates(results: Results) -> Finding:
    """Whether fewer targets and fewer features are left."""
    told, fewer = [], []
    for protocol in (AUTHORS, HONEST):
        name = "Phase I+II + LR"
        if results.get(protocol, SETTING, name, "groups") is None:
            continue
        groups, features = (
            results.mean(protocol, SETTING, name, quantity) for quantity in ("groups", "features")
        )
        every = results.mean(protocol, SETTING, "single-task LR", "features")
        fewer.append(groups < 19 and features < every)
        told.append(f"{protocol}: {groups:.1f} of 19 targets, {features:.1f} of {every:.0f} inputs")
    if not told:
        raise KeyError("groups of Phase I+II + LR")
    risk = results.mean(HONEST, SETTING, "risk rule, Phase I+II + LR", "groups")
    return Finding(all(fewer), "; ".join(told) + f"; the risk rule keeps {risk:.1f} targets.")


def competitive(results: Results) -> Finding:
    """Whether the network with both phases comes near the graph network, by one measure."""
    name = "Phase I+II + MLP"
    every = results.mean(AUTHORS, SETTING, name, "plain mse")
    without = results.mean(AUTHORS, SETTING, name, "mse without A")
    holds = every <= COMPETITIVE * RLW and without <= COMPETITIVE * RLW_WITHOUT_A
    return Finding(
        holds,
        f"the paper sets its errors times scales beside plain errors of the graph network. Plain "
        f"errors of both, from the authors' log: {RLW} for the graph network with RLW and 0.8107 "
        f"for theirs with both phases; ours {every:.4f}. Without A: {RLW_WITHOUT_A} for the graph "
        f"network, ours {without:.4f}.",
    )


def quick_to_train(results: Results) -> Finding:
    """Whether both phases take minutes where a graph network takes hours."""
    minutes = results.mean(HONEST, SETTING, "Phase I+II + LR", "minutes")
    told = f"both phases with LR: {60 * minutes:.1f} seconds"
    figure = results.get(HONEST, SETTING, "Phase I+II + MLP", "minutes")
    if figure is not None:
        minutes = max(minutes, figure.mean)
        told += f", with the MLP {figure.mean:.1f} minutes"
    return Finding(minutes < 300.0, f"{told}; the paper says 300 minutes for its graph network.")


def random_weights_best(results: Results) -> Finding:
    """Whether random loss weighting is the best of those trained."""
    names = [name for name in results.every("method") if name.startswith("HPS MLP + ")]
    errors = {}
    for name in names:
        figure = results.get(HONEST, SETTING, name, "mse")
        if figure is not None:
            errors[name.removeprefix("HPS MLP + ")] = figure.mean
    if "RLW" not in errors or len(errors) < 2:
        raise KeyError(
            "networks with other weightings (--networks). In the authors' own list of thirteen, "
            f"equal weights have {EQUAL} and RLW {RLW}"
        )
    best = min(errors, key=lambda name: errors[name])
    return Finding(
        best == "RLW",
        f"networks on the table: {best} {errors[best]:.4f}, RLW {errors['RLW']:.4f} of "
        f"{len(errors)}. In the authors' own list, equal weights have {EQUAL} and RLW {RLW}.",
    )


CHECKS: dict[str, Callable[[Results], Finding]] = {
    "qm9_improves": improves,
    "qm9_aggregates": aggregates,
    "qm9_competitive": competitive,
    "qm9_quick_to_train": quick_to_train,
    "qm9_random_weights_best": random_weights_best,
}
