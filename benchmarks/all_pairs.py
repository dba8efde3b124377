"""Tasks with inputs of their own, among all pairs and on any device: the fit as a user calls it.

    python benchmarks/all_pairs.py [n_basins] [--device torch:cuda] [--scan best-first]

Basins of ``make_basins``, 16 inputs and 102 samples, no graph of neighbours. *floor* is one batched
least-squares fit of every basin by itself on that device, by normal equations. Seconds are those of
the clock; drawing the data is not counted. A device is a library of arrays and, after a colon, what
the library calls the device; ``auto`` and ``numpy`` stay on the host, and have no floor there but
one fit after another.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ctfa import MultiInputCTFARegressor, TargetAggregator, progress
from ctfa.core import backend
from ctfa.datasets import make_basins
from ctfa.kernels import device_of

N_SAMPLES, N_INPUTS, MAX_LOSS = 102, 16, 1.0
SCANNED = ("best-first", "correlation")
ON_HOST = ("auto", "numpy", "numba")


def timed(work: Callable[..., Any], *given: Any) -> tuple[Any, float]:
    """Return what work returns, and the seconds that it took."""
    start = time.perf_counter()
    found = work(*given)
    return found, time.perf_counter() - start


def draw(n_basins: int) -> Any:
    """Basins whose targets have one unit."""
    basins = make_basins(n_basins, N_SAMPLES, N_INPUTS, polygons=False, random_state=0)
    basins.target -= basins.target.mean(axis=0)
    basins.target /= basins.target.std(axis=0)
    return basins


def on_device(basins: Any, name: str) -> tuple[float, float, float]:
    """Seconds to bring the data there, to read them once there, and to fit each basin there."""
    device = device_of(name)
    xp = device.xp
    inputs = np.ascontiguousarray(basins.inputs.transpose(1, 0, 2))
    ones = np.ones((*inputs.shape[:2], 1))
    given = np.concatenate((inputs, ones, basins.target.T[:, :, None]), axis=2)

    def fit_each(data: Any) -> float:
        rows, target = data[:, :, :-1], data[:, :, -1:]
        turned = xp.permute_dims(rows, (0, 2, 1))
        found = xp.linalg.solve(xp.matmul(turned, rows), xp.matmul(turned, target))
        return float(xp.sum(found))

    def bring() -> Any:
        data = device.array(given)
        float(data[0, 0, 0])
        return data

    bring()
    data, brought = timed(bring)
    taken = []
    for work in (lambda: float(xp.sum(data)), lambda: fit_each(data)):
        work()
        taken.append(min(timed(work)[1] for _ in range(5)))
    return brought, taken[0], taken[1]


def separate_fits(basins: Any) -> None:
    """Every basin by itself, on the host."""
    inputs = basins.inputs
    design = np.ones((N_SAMPLES, N_INPUTS + 1))
    for basin in range(inputs.shape[1]):
        design[:, 1:] = inputs[:, basin]
        np.linalg.lstsq(design, basins.target[:, basin], rcond=None)


class Stages:
    """Seconds at which the search first merged, and last spoke."""

    def __init__(self) -> None:
        self.first: float | None = None
        self.last = 0.0

    def __call__(self, record: Any) -> None:
        """Take note of a report."""
        if self.first is None and record.n_merges:
            self.first = record.seconds
        self.last = record.seconds


def fit(layout: Any, X: Any, Y: Any, scan: str) -> Any:
    """Fit as a user does, with data where they lie."""
    targets = TargetAggregator(max_loss=MAX_LOSS, scan=scan)
    model = MultiInputCTFARegressor(layout, targets=targets, aggregate="mean", head="mean")
    return model.fit(X, Y)


def search(basins: Any, name: str, scan: str) -> tuple[Any, float, Stages]:
    """Fit on a device, after a small problem that loads what is needed."""
    stages = Stages()
    with backend.using(name):
        small = draw(300)
        fit(small.layout, small.data, small.target, scan)
        given = basins.data, basins.target
        if name not in ON_HOST:
            given = tuple(map(device_of(name).array, given))
        with progress(stages, every=0.01):
            model, whole = timed(fit, basins.layout, *given, scan)
    return model, whole, stages


def show(title: str, seconds: float, floor: float, note: str = "") -> None:
    """Print a row."""
    print(f"{title:44s} {seconds:10.5f} {seconds / floor:10.1f}  {note}", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("n_basins", nargs="?", type=int, default=29_934)
    parser.add_argument("--device", default="torch:cuda")
    parser.add_argument("--scan", choices=SCANNED, action="append")
    options = parser.parse_args()
    basins, drawn = timed(draw, options.n_basins)
    print(f"{options.n_basins} basins on {options.device}, drawn in {drawn:.1f} s")
    print(f"{'':44s} {'seconds':>10s} {'/ floor':>10s}")
    if options.device in ON_HOST:
        _, floor = timed(separate_fits, basins)
        show("separate least squares (floor)", floor, floor)
    else:
        brought, read, floor = on_device(basins, options.device)
        show("bring the data there", brought, floor)
        show("read the data there once", read, floor)
        show("separate least squares there (floor)", floor, floor)
    for scan in options.scan or SCANNED:
        model, whole, stages = search(basins, options.device, scan)
        history, first = model.history_, stages.first or stages.last
        n_first = options.n_basins * (options.n_basins - 1) // 2
        per_question = f"{1e9 * first / n_first:.1f} ns a question of {n_first}"
        show(f"{scan}: until the first merge", first, floor, per_question)
        merging = stages.last - first
        per_merge = f"{1e3 * merging / max(len(history), 1):.3f} ms a merge of {len(history)}"
        show(f"{scan}: merges", merging, floor, per_merge)
        note = f"{model.n_groups_} groups, {history.n_comparisons} questions"
        show(f"{scan}: whole fit", whole, floor, note)


if __name__ == "__main__":
    main()
