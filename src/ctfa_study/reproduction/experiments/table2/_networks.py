"""Networks whose layers all targets of QM9 share, with every weighting of losses of LibMTL.

The paper's are graph networks on the molecules' graphs. These are the same weightings and the same
sharing on the table that all other rows of Table 2 learn from, so that they can be set beside them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from sklearn.base import clone

from ctfa_study.baselines import HardSharingRegressor
from ctfa_study.baselines.weightings import WEIGHTINGS
from ctfa_study.reproduction._case import HONEST, Case, Plan
from ctfa_study.reproduction.experiments.table2._data import TEXT, figures_of, honest_split

NAME, SETTING = "table2", "QM9"
N_SEEDS = 3
#: As many epochs as the paper's, and the learning rate that Adam has by default: nothing is tuned.
NETWORK: dict[str, Any] = {
    "hidden": (128, 128), "epochs": 300, "batch_size": 2_000, "learning_rate": 1e-3,
}  # fmt: skip
QUICK: dict[str, Any] = {**NETWORK, "epochs": 2, "batch_size": 200}


def network_cases(plan: Plan) -> Iterator[Case]:
    """One case per weighting and seed; the split of a seed is that of all other methods."""
    parameters = QUICK if plan.quick else NETWORK
    said = ", ".join(f"{name}={value}" for name, value in parameters.items())
    for seed in range(plan.seeds or (1 if plan.quick else N_SEEDS)):
        for name, weighting in WEIGHTINGS.items():
            yield Case(
                NAME, HONEST, SETTING, f"HPS MLP + {weighting.label}", seed,
                partial(measure, name, seed, plan.quick),
                f"features of {TEXT}; HardSharingRegressor {said}, {weighting}",
                plan.quick, network=True,
            )  # fmt: skip


def measure(weighting: str, seed: int, quick: bool) -> Mapping[str, float | None]:
    """Errors on the split of a seed, and the time to learn and to predict."""
    data = honest_split(seed, quick)
    parameters = QUICK if quick else NETWORK
    model = HardSharingRegressor(weighting=weighting, random_state=seed, **parameters)
    # Torch and its device take seconds to wake up, which is not part of any method.
    clone(model).set_params(epochs=1).fit(data.X_train[:100], data.Y_train[:100])
    start = time.perf_counter()
    predicted = model.fit(data.X_train, data.Y_train).predict(data.X_test)
    seconds = time.perf_counter() - start
    figures: dict[str, float | None] = {**figures_of(data.Y_test, predicted)}
    del figures["scaled mse"]  # the authors' measure, for their protocol alone
    n_tasks = data.Y_train.shape[1]
    return figures | {
        "groups": n_tasks, "features": data.X_train.shape[1], "models": 1,
        "epochs": parameters["epochs"],
        "training loss": float(model.loss_curve_[-1].mean()),
        "seconds": seconds, "minutes": seconds / 60.0,
    }  # fmt: skip
