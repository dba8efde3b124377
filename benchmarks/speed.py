"""How fast: ratios within one process, against refitting and against one least-squares fit.

    python benchmarks/speed.py [small|large|all]

*naive* is the number of comparisons the scan makes times three fits of scikit-learn's
LinearRegression, the median of 200, as the authors' code refits at each comparison. *floor* is one
least-squares fit of the same data. Times are the best of several; ratios are what to look at. Each
is given for numpy, and for the compiled scan where there is one that pays.
"""

import resource
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
from sklearn.linear_model import LinearRegression
from threadpoolctl import threadpool_limits

from ctfa import CTFARegressor, FeatureAggregator, TargetAggregator
from ctfa.core import backend
from ctfa.datasets import make_paper_synthetic

HEADER = f"{'':66s} {'':5s} {'seconds':>9s} {'naive /':>9s} {'/ floor':>8s} {'groups':>7s}"


def seconds(work: Callable[[], object], repeat: int) -> float:
    """Return the shortest of several runs."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def refit(X: np.ndarray, y: np.ndarray, repeat: int = 200) -> float:
    """Return the median time of one fit, as the authors make at each comparison."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        LinearRegression().fit(X, y)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def show(
    title: str, fit: Callable[[], object], X: np.ndarray, Y: np.ndarray, repeat: int, refits: int
) -> None:
    """Print a row for numpy, and one for the compiled scan if there is one."""
    model = fit()
    naive = model.history_.n_comparisons * 3 * refit(X, Y if Y.ndim == 1 else Y[:, 0], refits)
    floor = seconds(lambda: LinearRegression().fit(X, Y), max(repeat, 3))
    for name in ("numpy", "numba") if is_compiled(fit) else ("numpy",):
        with backend.using(name):
            taken = seconds(fit, repeat)
        print(
            f"{title:66s} {name:5s} {taken:9.4f} {naive / taken:9.0f} {taken / floor:8.2f}"
            f" {model.n_groups_:7d}",
            flush=True,
        )


def is_compiled(fit: Callable[[], object]) -> bool:
    """Whether a fit uses a compiled scan, when it is left to choose."""
    numba, used = backend.BACKENDS["numba"], []

    def grow(*args: object, **options: object) -> object:
        history = numba.grow(*args, **options)
        used.append(history is not None)
        return history

    backend.BACKENDS["numba"] = numba._replace(grow=grow)
    try:
        fit()
    finally:
        backend.BACKENDS["numba"] = numba
    return any(used)


def paper_rule() -> TargetAggregator:
    """Phase I as the authors run it."""
    return TargetAggregator("mse", max_loss=0.0, scan="restart", scale="none")


def fold_rule() -> FeatureAggregator:
    """Phase II as the authors run it."""
    return FeatureAggregator("r2", max_loss=1e-4, scan="restart", min_correlation=-1.0, cv=5)


def small() -> None:
    """The paper's sizes."""
    for n_targets in (100, 1000):
        X, Y = make_paper_synthetic(250, 100, n_targets, random_state=0)
        title = f"Phase I, mse, restart, n=250 D=100 L={n_targets}"
        show(title, lambda X=X, Y=Y: paper_rule().fit(X, Y), X, Y, 20, 200)
        title = f"Phase I, risk, best-first, n=250 D=100 L={n_targets}"
        fixed, chosen = TargetAggregator(max_loss=1.5), TargetAggregator()
        show(title, lambda X=X, Y=Y, model=fixed: model.fit(X, Y), X, Y, 5, 200)
        once, auto = (seconds(lambda m=m, X=X, Y=Y: m.fit(X, Y), 3) for m in (fixed, chosen))
        print(f"    max_loss='auto' takes {auto:.3f} s, {auto / once:.1f} times as long")
    for n_samples, n_features, repeat, refits in ((1000, 100, 10, 200), (5000, 1000, 2, 5)):
        X, Y = make_paper_synthetic(n_samples, n_features, 1, random_state=0)
        y = Y[:, 0]
        title = f"Phase II, r2 on 5 folds, restart, n={n_samples} D={n_features}"
        show(title, lambda X=X, y=y: fold_rule().fit(X, y), X, y, repeat, refits)
        title = f"Phase II, risk, correlation, n={n_samples} D={n_features}"
        show(title, lambda X=X, y=y: FeatureAggregator().fit(X, y), X, y, repeat, refits)


def threads() -> None:
    """The default fit with one BLAS thread and with all there are, taken in turn."""
    X, Y = make_paper_synthetic(250, 100, 300, random_state=0)
    one, all_there_are = [], []
    for _ in range(5):
        with threadpool_limits(1):
            one.append(seconds(lambda: CTFARegressor().fit(X, Y), 1))
        all_there_are.append(seconds(lambda: CTFARegressor().fit(X, Y), 1))
    print(
        f"The default fit, n=250 D=100 L=300: {min(one):.3f} s with one BLAS thread, "
        f"{min(all_there_are) / min(one):.2f} times as long with all",
        flush=True,
    )


def large() -> None:
    """Many targets, and the memory they take."""
    rng = np.random.default_rng(0)
    for n_samples, n_features, n_targets, scan in (
        (250, 20, 5000, "restart"),
        (250, 20, 5000, "best-first"),
        (102, 16, 30000, "grow"),
    ):
        X = rng.normal(size=(n_samples, n_features))
        groups = rng.normal(size=(n_features, n_targets // 100))
        for truth, noise in (("groups of 100", 3.0), ("no groups", 0.3)):
            own = rng.normal(size=(n_features, n_targets))
            effect = np.repeat(groups, 100, axis=1) if truth == "groups of 100" else own
            Y = X @ effect + noise * rng.normal(size=(n_samples, n_targets))
            model = TargetAggregator("risk", max_loss=1.0, scan=scan)
            title = f"Phase I, risk, {scan}, n={n_samples} D={n_features} L={n_targets}, {truth}"
            show(title, lambda model=model, X=X, Y=Y: model.fit(X, Y), X, Y, 1, 50)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
            print(f"    peak memory of the process so far: {peak:.2f} GiB")


def main(which: str = "all") -> None:
    """Print the table."""
    if which in ("small", "all"):
        threads()
    with threadpool_limits(1):
        print(HEADER)
        if which in ("small", "all"):
            small()
        if which in ("large", "all"):
            large()


if __name__ == "__main__":
    main(*sys.argv[1:])
