"""Many rows on a device: a fit from arrays that lie there, against their products alone.

    python benchmarks/device_sums.py [--device torch:cuda] [--rows 1e6 1e7]

50 features and 20 targets in four groups, drawn on the host. *floor* is X'X, X'Y and Y'Y on the
device. The fit is ``CTFARegressor().fit(X, Y)`` with ten folds; the first is not timed. Groups and
losses are compared with those of the same rows in numpy, up to 1e6 of them. Seconds are those of
the clock.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ctfa import CTFARegressor
from ctfa.kernels import device_of

N_FEATURES, N_TARGETS, N_GROUPS = 50, 20, 4
COMPARED = 10**6


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return what work returns, and the shortest of three times."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        found = work()
        times.append(time.perf_counter() - start)
    return found, min(times)


def draw(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, N_FEATURES))
    slopes = rng.normal(size=(N_FEATURES, N_GROUPS)) * 0.3
    Y = (X @ slopes)[:, np.arange(N_TARGETS) % N_GROUPS]
    return X, Y + rng.standard_normal(Y.shape)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="torch:cuda")
    parser.add_argument("--rows", type=float, nargs="+", default=[1e6, 1e7])
    given = parser.parse_args()
    device = device_of(given.device)
    print(
        f"{'rows':>10s} {'bring':>8s} {'floor':>8s} {'fit':>8s} {'fit/floor':>9s} {'predict':>8s}"
    )
    for n_rows in map(int, given.rows):
        rows = draw(n_rows)
        (X, Y), bring = timed(lambda rows=rows: tuple(map(device.array, rows)))
        xp = device.xp

        def products(xp: Any = xp, X: Any = X, Y: Any = Y) -> float:
            parts = (xp.matmul(X.T, X), xp.matmul(X.T, Y), xp.matmul(Y.T, Y))
            return sum(float(part[0, 0]) for part in parts)

        products()
        _, floor = timed(products)
        CTFARegressor().fit(X, Y)
        model, fit = timed(lambda X=X, Y=Y: CTFARegressor().fit(X, Y))
        _, predict = timed(lambda X=X, model=model: float(model.predict(X)[0, 0]))
        line = (
            f"{n_rows:10d} {bring:8.3f} {floor:8.4f} {fit:8.3f} {fit / floor:9.1f} {predict:8.3f}"
        )
        print(line, flush=True)
        if n_rows <= COMPARED:
            host, taken = timed(lambda rows=rows: CTFARegressor().fit(*rows))
            same = host.partition_ == model.partition_
            apart = float(np.abs(host.history_.loss - model.history_.loss).max())
            print(f"{'':10s} numpy {taken:.3f} s; same groups: {same}; losses apart: {apart:.1e}")


if __name__ == "__main__":
    main()
