"""Figures 1 to 4: the scheme of the method, its groups on a map, and sweeps of its parameters."""

from __future__ import annotations

from collections.abc import Iterator

from ctfa_study.reproduction._case import HONEST, Case, Experiment, Plan
from ctfa_study.reproduction.experiments.generated import _repetition as generated
from ctfa_study.reproduction.experiments.generated._drawing import draw
from ctfa_study.reproduction.experiments.generated._findings import CHECKS
from ctfa_study.reproduction.experiments.generated._repetition import points

NAME = "figures"
N_REPETITIONS, N_QUICK = 20, 1
PROTOCOLS = {
    HONEST: generated.PROTOCOL.format(repetitions=f"{N_REPETITIONS} repetitions (the paper: 10)")
    + " One parameter at a time is another than in Section 5.1 (n = 250 rows for training, D = 100 "
    "inputs, L = 10 tasks, noise 7.5, epsilon_1 = 0, epsilon_2 = 0.0001: the base, which all "
    "sweeps share); 250 test rows always."
}


def cases(plan: Plan) -> Iterator[Case]:
    """Every method at every point, repetition by repetition."""
    for seed in range(plan.seeds or (N_QUICK if plan.quick else N_REPETITIONS)):
        for point in points():
            for method in point.methods:
                yield generated.make_case(
                    NAME, point.name, point.setting, method, seed, quick=plan.quick
                )


FIGURES = Experiment(NAME, "Figures 1 to 4", PROTOCOLS, cases, CHECKS, draw)
