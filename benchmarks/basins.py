"""Tasks with inputs of their own: the whole fit against as many separate least-squares fits.

    python benchmarks/basins.py [n_basins] [--all-pairs] [--paths] [--more] [--quick]

Basins of ``make_basins``, 16 inputs and 102 samples, about six neighbours each. *floor* is one
``numpy.linalg.lstsq`` for each basin. Seconds are those of the processor, one thread, so that
ratios do not feel what else the machine does. A fit is that of ``MultiInputCTFARegressor`` in a
process of its own, whose peak memory is printed with that of drawing the data: input checks, the
search on the graph, and the models of the groups. ``--paths`` adds searches at many values of
``max_loss``, ``--all-pairs`` the search among all pairs of all basins, strongest first, ``--more``
whole fits without the compiler, with missing values and with the limit chosen on ten folds: each
takes minutes.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from ctfa import MultiInputCTFARegressor, TargetAggregator
from ctfa.core import backend
from ctfa.core.criteria import target_risk
from ctfa.core.graph import Neighbours
from ctfa.core.history import MergeHistory
from ctfa.core.scans import SCANS
from ctfa.core.series import Series
from ctfa.core.spaces.paired import PairedSpace
from ctfa.datasets import make_basins

N_SAMPLES, N_INPUTS, MAX_LOSS, TIE = 102, 16, 1.0, 1e-10
SIZES = (2_000, 5_000, 10_000)
PATH = np.linspace(0.1, 2.0, 20)
SCANNED = ("best-first", "correlation")


def timed(work: Callable[..., Any], *given: Any) -> tuple[Any, float]:
    """Return what work returns, and the seconds that it took."""
    start = time.process_time()
    found = work(*given)
    return found, time.process_time() - start


def draw(n_basins: int, gaps: float = 0.0) -> Any:
    """Basins whose targets have one unit."""
    basins = make_basins(n_basins, N_SAMPLES, N_INPUTS, gaps=gaps, polygons=False, random_state=0)
    basins.target -= np.nanmean(basins.target, axis=0)
    basins.target /= np.nanstd(basins.target, axis=0)
    return basins


def separate_fits(basins: Any) -> None:
    """Every basin by itself."""
    inputs = basins.inputs
    design = np.ones((N_SAMPLES, N_INPUTS + 1))
    for basin in range(inputs.shape[1]):
        design[:, 1:] = inputs[:, basin]
        np.linalg.lstsq(design, basins.target[:, basin], rcond=None)


def space_of(basins: Any) -> PairedSpace:
    """What a search asks."""
    series = Series.of(basins.data, basins.layout, basins.target)
    return PairedSpace.of_series(series, overwrite=True)


def search(space: PairedSpace, scan: str, graph: Any, max_loss: float = MAX_LOSS) -> MergeHistory:
    """One scan, which uses the space up."""
    return SCANS[scan](
        space,
        target_risk,
        max_loss=max_loss,
        order=np.arange(space.n_variables),
        neighbours=None if graph is None else Neighbours(graph),
        tolerance=TIE,
    )


def show(title: str, seconds: float, floor: float, note: str = "") -> None:
    """Print a row."""
    print(f"{title:52s} {seconds:9.2f} {seconds / floor:8.2f}  {note}", flush=True)


def note_of(history: MergeHistory) -> str:
    """Say what a search did."""
    groups = history.n_variables - len(history)
    return f"{groups} groups, {history.n_comparisons} questions"


def fit(basins: Any, scan: str, max_loss: Any = MAX_LOSS) -> MergeHistory:
    """Fit as a user does; the paper's variant where the limit is given, the default on folds."""
    targets = TargetAggregator(max_loss=max_loss, scan=scan, connectivity=basins.connectivity)
    given = {} if max_loss == "auto" else {"aggregate": "mean", "head": "mean"}
    model = MultiInputCTFARegressor(basins.layout, targets=targets, **given)
    return model.fit(basins.data, basins.target).history_


#: Ways to fit: the scan, who compiles it, the share of missing values and the limit.
WAYS: dict[str, tuple[str, str, float, Any]] = {
    "best-first": ("best-first", "auto", 0.0, MAX_LOSS),
    "correlation": ("correlation", "auto", 0.0, MAX_LOSS),
    "best-first, numpy": ("best-first", "numpy", 0.0, MAX_LOSS),
    "correlation, numpy": ("correlation", "numpy", 0.0, MAX_LOSS),
    "best-first, 2 % missing": ("best-first", "auto", 0.02, MAX_LOSS),
    "best-first, auto": ("best-first", "auto", 0.0, "auto"),
}


def one_fit(n_basins: int, way: str) -> None:
    """Print what a fit in this process takes, for the process that asked."""
    scan, compiler, gaps, max_loss = WAYS[way]
    with backend.using("numba"):  # compile, or load
        fit(draw(100), scan)
    basins = draw(n_basins, gaps)
    drawn = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    with backend.using(compiler):
        history, seconds = timed(fit, basins, scan, max_loss)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    note = f"{note_of(history)}; peak {peak:.2f} GiB, drawing {drawn:.2f}"
    print(json.dumps([seconds, note]))


def whole_fits(n_basins: int, ways: Iterable[str] = SCANNED) -> None:
    """Print the fits of one size."""
    _, floor = timed(separate_fits, draw(n_basins))
    show(f"{n_basins} basins: separate least squares (floor)", floor, floor)
    for scan in ways:
        command = [sys.executable, __file__, str(n_basins), "--fit", scan]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        seconds, note = json.loads(printed.splitlines()[-1])
        show(f"  {scan}, graph, whole fit", seconds, floor, note)


def searches(n_basins: int, *, with_path: bool) -> None:
    """Print what the searches alone take, with and without the compiler."""
    basins = draw(n_basins)
    _, floor = timed(separate_fits, basins)
    for scan in SCANNED:
        taken = []
        for name in ("numba", "numpy"):
            with backend.using(name):
                space, built = timed(space_of, basins)
                history, seconds = timed(search, space, scan, basins.connectivity)
            if not taken:
                show(f"{n_basins} basins: space", built, floor)
            show(f"  {scan}, graph, search alone, {name}", seconds, floor, note_of(history))
            taken.append(seconds)
        print(f"    without the compiler {taken[1] / taken[0]:.1f} times")
        if with_path:
            _, seconds = timed(path, basins, scan)
            show(f"  {scan}, graph, {PATH.size} values of max_loss", seconds, floor)


def path(basins: Any, scan: str) -> list[int]:
    """Groups at every limit: of nested cuts, or each by a search of its own."""
    if scan == "best-first":
        history = search(space_of(basins), scan, basins.connectivity, PATH.max())
        return [history.partition(limit + TIE).n_groups for limit in PATH]
    return [
        search(space_of(basins), scan, basins.connectivity, limit).partition().n_groups
        for limit in PATH
    ]


def among_all(n_basins: int, scan: str, name: str) -> float:
    """Print a search among all pairs."""
    basins = draw(n_basins)
    _, floor = timed(separate_fits, basins)
    with backend.using(name):
        space = space_of(basins)
        del basins
        history, taken = timed(search, space, scan, None)
    show(f"{n_basins} basins: {scan}, all pairs, {name}", taken, floor, note_of(history))
    return taken


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("n_basins", nargs="?", type=int, default=29_934)
    parser.add_argument("--all-pairs", action="store_true", help="of all basins, strongest first")
    parser.add_argument("--paths", action="store_true", help="many values of max_loss")
    parser.add_argument("--more", action="store_true", help="by numpy, with gaps, on folds")
    parser.add_argument("--quick", action="store_true", help="whole fits of one size only")
    parser.add_argument("--fit", choices=list(WAYS), help="one fit, printed as JSON")
    options = parser.parse_args()
    with threadpool_limits(1):
        if options.fit:
            one_fit(options.n_basins, options.fit)
            return
        print(f"{'':52s} {'seconds':>9s} {'/ floor':>8s}")
        smaller = [] if options.quick else [n for n in SIZES if n < options.n_basins]
        for n_basins in (*smaller, options.n_basins):
            more = options.more and n_basins == options.n_basins
            whole_fits(n_basins, WAYS if more else SCANNED)
        if options.quick:
            return
        with backend.using("numba"):  # compile, or load
            small = draw(100)
            for scan in SCANNED:
                search(space_of(small), scan, small.connectivity)
        searches(min(5_000, options.n_basins), with_path=options.paths)
        for scan in SCANNED:
            taken = [among_all(2_000, scan, name) for name in ("numba", "numpy")]
            print(f"    without the compiler {taken[1] / taken[0]:.1f} times")
        if options.all_pairs:
            among_all(options.n_basins, "correlation", "numba")


if __name__ == "__main__":
    main()
