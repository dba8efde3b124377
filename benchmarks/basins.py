"""Tasks with inputs of their own: the search against as many separate least-squares fits.

    python benchmarks/basins.py [n_basins] [--all-pairs] [--quick]

Basins of ``make_basins``, 16 inputs and 102 samples, about six neighbours each. *floor* is one
``numpy.linalg.lstsq`` for each basin. Seconds are those of the processor in this process, one
thread, so that ratios do not feel what else the machine does. A fit is the space (gathering,
centring, each basin's own regression) and the search. ``--all-pairs`` adds the search among all
pairs of all basins, strongest first, which takes minutes.
"""

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import ctfa.kernels  # noqa: F401  # lets the scans know of them
from ctfa.core import backend
from ctfa.core.criteria import target_risk
from ctfa.core.graph import Neighbours
from ctfa.core.history import MergeHistory
from ctfa.core.scans import SCANS
from ctfa.core.series import Series
from ctfa.core.spaces import PairedSpace
from ctfa.datasets import make_basins

N_SAMPLES, N_INPUTS, MAX_LOSS, TIE = 102, 16, 1.5, 1e-10
PATH = np.linspace(0.1, 2.0, 20)
SCANNED = ("best-first", "correlation")


def timed(work: Callable[..., Any], *given: Any) -> tuple[Any, float]:
    """Return what work returns, and the seconds that it took."""
    start = time.process_time()
    found = work(*given)
    return found, time.process_time() - start


def draw(n_basins: int) -> Any:
    """Basins whose targets have one unit."""
    regions = max(12, n_basins // 150)
    basins = make_basins(
        n_basins, N_SAMPLES, N_INPUTS, n_regions=regions, polygons=False, random_state=0
    )
    basins.target -= basins.target.mean(axis=0)
    basins.target /= basins.target.std(axis=0)
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


def on_the_graph(n_basins: int, *, with_numpy: bool, with_path: bool) -> None:
    """Print the fits of one size."""
    basins = draw(n_basins)
    graph = basins.connectivity
    _, floor = timed(separate_fits, basins)
    show(f"{n_basins} basins: separate least squares (floor)", floor, floor)
    for scan in SCANNED:
        seconds = {}
        for name in ("numba", "numpy") if with_numpy else ("numba",):
            with backend.using(name):
                space, built = timed(space_of, basins)
                history, seconds[name] = timed(search, space, scan, graph)
            if scan == SCANNED[0] and name == "numba":
                show("  space", built, floor)
            show(f"  {scan}, graph, {name}", seconds[name], floor, note_of(history))
            if name == "numba":
                show(f"  {scan}, graph, whole fit", built + seconds[name], floor)
        if with_numpy:
            print(f"    without the compiler {seconds['numpy'] / seconds['numba']:.1f} times")
        if with_path:
            _, taken = timed(path, basins, scan)
            show(f"  {scan}, graph, {PATH.size} values of max_loss", taken, floor)


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


def peak_of_one_fit(n_basins: int) -> None:
    """Print the memory of a process that draws the data and fits once."""
    basins = draw(n_basins)
    drawn = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    search(space_of(basins), "best-first", basins.connectivity)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    size = (basins.data.nbytes + basins.target.nbytes) / 2**30
    print(f"peak memory of one fit {peak:.2f} GiB, of drawing alone {drawn:.2f}, data {size:.2f}")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("n_basins", nargs="?", type=int, default=29_934)
    parser.add_argument("--all-pairs", action="store_true", help="of all basins, strongest first")
    parser.add_argument("--quick", action="store_true", help="one size on its graph, no paths")
    parser.add_argument("--memory", action="store_true", help="only the peak memory of one fit")
    options = parser.parse_args()
    with threadpool_limits(1):
        if options.memory:
            peak_of_one_fit(options.n_basins)
            return
        with backend.using("numba"):  # compile, or load
            small = draw(100)
            for scan in SCANNED:
                search(space_of(small), scan, small.connectivity)
        print(f"{'':52s} {'seconds':>9s} {'/ floor':>8s}")
        on_the_graph(options.n_basins, with_numpy=True, with_path=not options.quick)
        subprocess.run([sys.executable, __file__, str(options.n_basins), "--memory"], check=True)
        if options.quick:
            return
        for n_basins in (2_000, 5_000, 10_000):
            if n_basins < options.n_basins:
                on_the_graph(n_basins, with_numpy=False, with_path=False)
        for scan in SCANNED:
            taken = [among_all(2_000, scan, name) for name in ("numba", "numpy")]
            print(f"    without the compiler {taken[1] / taken[0]:.1f} times")
        if options.all_pairs:
            among_all(options.n_basins, "correlation", "numba")


if __name__ == "__main__":
    main()
