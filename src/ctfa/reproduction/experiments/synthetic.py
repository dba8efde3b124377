"""Section 5.1: ten tasks in two groups, their numbers in the text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score

from ctfa.datasets import make_paper_synthetic
from ctfa.reproduction._case import HONEST, Case, Experiment, Plan

NAME = "synthetic"
N_TRAIN = N_TEST = 250
#: The text says ten; ten-repetition means scatter by 3 %.
N_REPETITIONS, N_QUICK = 100, 5
PROTOCOLS = {
    HONEST: "Training and test halves of 250 rows, the same for every method; the mean over tasks "
    "of the test MSE and R2 of each repetition."
}


def measure(noise: float, seed: int) -> Mapping[str, float | None]:
    """Give an example of what a case measures."""
    X, Y = make_paper_synthetic(N_TRAIN + N_TEST, noise=noise, random_state=seed)
    model = LinearRegression().fit(X[:N_TRAIN], Y[:N_TRAIN])
    predicted = model.predict(X[N_TRAIN:])
    return {"mse": float(np.mean((predicted - Y[N_TRAIN:]) ** 2)),
            "r2": float(r2_score(Y[N_TRAIN:], predicted)), "models": Y.shape[1]}  # fmt: skip


def cases(plan: Plan) -> Iterator[Case]:
    """One case a noise level and repetition."""
    for seed in range(plan.seeds or (N_QUICK if plan.quick else N_REPETITIONS)):
        for noise in (7.5, 10.0):
            yield Case(NAME, HONEST, f"sigma = {noise:g}", "single task", seed,
                       partial(measure, noise, seed), quick=plan.quick)  # fmt: skip


SYNTHETIC = Experiment(NAME, "Synthetic experiment", PROTOCOLS, cases)
