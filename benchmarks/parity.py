"""The paper's synthetic experiment: MSE of single-task regression, Phase I and both phases.

    python benchmarks/parity.py [repetitions]

Half of each data set is for training, half for testing; the same halves for every method.
"""

import sys
from collections.abc import Callable

import numpy as np
from sklearn.linear_model import LinearRegression

from ctfa import CTFARegressor, nonlinctfa
from ctfa.datasets import make_paper_synthetic

METHODS: dict[str, Callable[[], object]] = {
    "single": LinearRegression,
    "I": lambda: nonlinctfa().set_params(features="passthrough"),
    "I+II": nonlinctfa,
    "I risk": lambda: CTFARegressor(features="passthrough"),
    "I+II risk": CTFARegressor,
}


def run(noise: float, repetitions: int) -> dict[str, np.ndarray]:
    """Test MSE of each method and the number of groups, one entry a repetition."""
    rows: dict[str, list[float]] = {name: [] for name in (*METHODS, "groups", "features")}
    for seed in range(repetitions):
        X, Y = make_paper_synthetic(500, noise=noise, random_state=seed)
        for name, make in METHODS.items():
            model = make().fit(X[:250], Y[:250])
            rows[name].append(float(np.mean((model.predict(X[250:]) - Y[250:]) ** 2)))
            if name == "I+II":
                rows["groups"].append(model.n_groups_)
                rows["features"].append(np.mean([f.n_groups_ for f in model.features_]))
    return {name: np.array(values) for name, values in rows.items()}


def main(repetitions: int = 100) -> None:
    """Print the table."""
    print(f"{repetitions} repetitions, n = 250 + 250, D = 100, L = 10; mean +- standard error")
    for noise in (7.5, 10.0):
        rows = run(noise, repetitions)
        single = rows["single"].mean()
        print(f"\nsigma = {noise}")
        for name, values in rows.items():
            error = values.std(ddof=1) / np.sqrt(values.size)
            ratio = f"   / single {values.mean() / single:.3f}" if name in METHODS else ""
            print(f"  {name:10s} {values.mean():8.3f} +- {error:.3f}{ratio}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
