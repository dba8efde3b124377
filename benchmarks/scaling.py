"""How far it goes: time and peak memory against rows, targets, features and workers.

    python benchmarks/scaling.py rows [--upto 1e7] [--chunk 1e5]
    python benchmarks/scaling.py targets | features | workers
    python benchmarks/scaling.py all

Each line is a fit of ``CTFARegressor`` in a process of its own, so that its peak memory is its own;
both sides of a ratio are run one after the other, three times, and the medians are compared (data
of more than 1e7 rows: once).

- *floor*, out of core: Dask alone computes X'X, X'Y and Y'Y over the same chunks. In memory: one
  least-squares fit of all targets by numpy.
- *naive*: every comparison that the fit made as three regressions by scikit-learn, as the paper's
  authors make them; the time of one is the median of a few. Out of core it reads all chunks for
  each, so it is that number of floors.

Rows out of core are drawn chunk by chunk: 50 features, 20 targets in four groups. Results go to
``results/scaling/``, one file a table.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster
from scipy import sparse
from sklearn.linear_model import LinearRegression

from ctfa import CTFARegressor, TargetAggregator

N_FEATURES, N_TARGETS, N_GROUPS = 50, 20, 4
RESULTS = Path(__file__).parents[1] / "results" / "scaling"
#: Beyond so many rows one run has to do.
LONG = 10**7
ROWS = (10**4, 10**5, 10**6, 10**7, 10**8)
TARGETS = (10, 100, 1_000, 10_000, 100_000)
#: More targets than this are compared with their neighbours only.
ALL_PAIRS = 10_000
FEATURES = (10, 50, 200, 500, 1_000, 2_000)


def draw(told: np.ndarray, n_rows: int) -> np.ndarray:
    """A chunk of rows, features then targets, from its number alone."""
    rng = np.random.default_rng(int(told[0]))
    rows = rng.standard_normal((n_rows, N_FEATURES + N_TARGETS))
    slopes = np.random.default_rng(0).normal(size=(N_FEATURES, N_GROUPS)) * 0.3
    rows[:, N_FEATURES:] += (rows[:, :N_FEATURES] @ slopes)[:, np.arange(N_TARGETS) % N_GROUPS]
    return rows


def collection(n_rows: int, chunk: int) -> tuple[Any, Any]:
    """Features and targets in chunks that are not drawn yet."""
    chunk = min(chunk, n_rows)
    n_chunks = n_rows // chunk
    rows = da.from_array(np.arange(n_chunks), chunks=1).map_blocks(
        draw,
        n_rows=chunk,
        new_axis=1,
        chunks=((chunk,) * n_chunks, (N_FEATURES + N_TARGETS,)),
        dtype=float,
        meta=np.empty((0, 0)),
    )
    return rows[:, :N_FEATURES], rows[:, N_FEATURES:]


def table(n_rows: int, n_features: int, n_targets: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows in memory; features five by five alike, groups of about ten targets."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, n_features))
    X += 2.0 * rng.standard_normal((n_rows, n_features // 5 + 1))[:, np.arange(n_features) // 5]
    slopes = rng.normal(size=(n_features, max(2, n_targets // 10))) / np.sqrt(n_features)
    Y = X @ slopes[:, np.minimum(np.arange(n_targets) // 10, slopes.shape[1] - 1)]
    Y += rng.standard_normal(Y.shape)
    return X, Y


# -- One run, in a process of its own --------------------------------------------------------------


def run_floor(lazy: tuple[Any, Any] | None, rows: tuple[Any, Any] | None) -> dict[str, Any]:
    if lazy is not None:
        X, Y = lazy
        dask.compute(X.T @ X, X.T @ Y, Y.T @ Y)
    else:
        X, Y = rows
        np.linalg.lstsq(np.column_stack((np.ones(len(X)), X)), Y, rcond=None)
    return {}


def run_fit(
    lazy: tuple[Any, Any] | None, rows: tuple[Any, Any] | None, asked: dict[str, Any]
) -> dict[str, Any]:
    graph = None
    if asked["graph"]:  # a ring: three neighbours to either side
        n_targets = asked["n_targets"]
        bands = [np.ones(n_targets - k) for k in (1, 2, 3)]
        graph = sparse.diags_array((*bands, *bands), offsets=(1, 2, 3, -1, -2, -3)).tocsr()
    targets = TargetAggregator(max_loss=asked["max_loss"], connectivity=graph)
    model = CTFARegressor(targets=targets, features=asked["features"])
    model.fit(*(lazy if lazy is not None else rows))
    comparisons = model.history_.n_comparisons
    comparisons += sum(features.history_.n_comparisons for features in model.features_)
    return {"groups": int(model.n_groups_), "comparisons": int(comparisons)}


def one_run(asked: dict[str, Any]) -> None:
    """Do what another process asks for, and print what it took."""
    sizes = asked["n_rows"], asked["n_features"], asked["n_targets"]
    lazy, rows = None, None
    if asked["chunk"]:
        lazy = collection(asked["n_rows"], asked["chunk"])
    else:
        rows = table(*sizes)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    scheduler = {"scheduler": "threads", "num_workers": asked["workers"]}
    if asked["processes"]:
        cluster = LocalCluster(
            n_workers=asked["workers"], threads_per_worker=1, dashboard_address=None
        )
        client = Client(cluster)
        scheduler = {}
    with dask.config.set(**scheduler):
        start = time.perf_counter()
        found = run_floor(lazy, rows) if asked["what"] == "floor" else run_fit(lazy, rows, asked)
        found["seconds"] = time.perf_counter() - start
    if asked["processes"]:
        client.close()
        cluster.close()
    found["peak_gib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    found["before_gib"] = before
    print(json.dumps(found))


def ask(**asked: Any) -> dict[str, Any]:
    """Run in a process of its own."""
    defaults = {
        "n_features": N_FEATURES,
        "n_targets": N_TARGETS,
        "chunk": 0,
        "workers": 2,
        "processes": False,
        "max_loss": "auto",
        "graph": False,
        "features": None,
    }
    command = [sys.executable, __file__, "--run", json.dumps(defaults | asked)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(printed.splitlines()[-1])


def compared(n_times: int, **asked: Any) -> dict[str, Any]:
    """Floor and fit in turn; medians."""
    floors, fits = [], []
    for _ in range(n_times):
        floors.append(ask(what="floor", **asked))
        fits.append(ask(what="fit", **asked))
    found = dict(fits[-1])
    for name in ("seconds", "peak_gib"):
        found[name] = statistics.median(run[name] for run in fits)
    found["floor"] = statistics.median(run["seconds"] for run in floors)
    found["floor_peak_gib"] = statistics.median(run["peak_gib"] for run in floors)
    found["ratio"] = found["seconds"] / found["floor"]
    return found


def one_regression(n_rows: int, n_features: int) -> float:
    """Median time of one regression of one target."""
    X, Y = table(n_rows, n_features, 1)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        LinearRegression().fit(X, Y[:, 0])
        times.append(time.perf_counter() - start)
    return statistics.median(times)


# -- Tables ----------------------------------------------------------------------------------------


def show(name: str, lines: list[dict[str, Any]]) -> None:
    """Print a table, and write it down."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(lines, indent=1) + "\n")
    columns = list(lines[0])
    print(f"\n{name}\n| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
    for line in lines:
        cells = (f"{v:.3g}" if isinstance(v, float) else str(v) for v in line.values())
        print("| " + " | ".join(cells) + " |", flush=True)


def line_of(size: dict[str, Any], found: dict[str, Any], naive: float) -> dict[str, Any]:
    return size | {
        "fit_s": found["seconds"],
        "floor_s": found["floor"],
        "fit/floor": found["ratio"],
        "naive/fit": naive / found["seconds"],
        "peak_GiB": found["peak_gib"],
        "floor_peak_GiB": found["floor_peak_gib"],
        "groups": found["groups"],
        "comparisons": found["comparisons"],
    }


def rows(upto: int, chunk: int) -> None:
    lines = []
    for n_rows in (size for size in ROWS if size <= upto):
        found = compared(1 if n_rows > LONG else 3, n_rows=n_rows, chunk=chunk)
        # Each regression would read every chunk again, three times a comparison.
        naive = 3 * found["comparisons"] * found["floor"]
        lines.append(line_of({"rows": n_rows, "GB": n_rows * 560 / 1e9}, found, naive))
        show("rows", lines)


def targets() -> None:
    lines = []
    for n_targets in TARGETS:
        # Folds are left out where all pairs of targets are too many to search eleven times, and
        # Phase II, one search per group, where there are a thousand groups or more.
        limit = "auto" if n_targets <= 1_000 else 1.5
        sizes = {"n_rows": 500, "n_features": 20, "n_targets": n_targets, "max_loss": limit}
        sizes |= {"graph": n_targets > ALL_PAIRS}
        sizes |= {"features": None if n_targets <= 1_000 else "passthrough"}
        found = compared(3 if n_targets <= 1_000 else 1, **sizes)
        naive = 3 * found["comparisons"] * one_regression(500, 20)
        merged = "neighbours" if sizes["graph"] else "all pairs"
        size = {"targets": n_targets, "max_loss": str(limit), "asked": merged}
        lines.append(line_of(size, found, naive))
        show("targets", lines)


def features() -> None:
    lines = []
    for n_features in FEATURES:
        n_rows = 10 * n_features if n_features > 500 else 5_000
        sizes = {"n_rows": n_rows, "n_features": n_features, "n_targets": 10, "max_loss": 1.5}
        found = compared(1 if n_features > 500 else 3, **sizes)
        naive = 3 * found["comparisons"] * one_regression(n_rows, n_features)
        lines.append(line_of({"features": n_features, "rows": n_rows}, found, naive))
        show("features", lines)


def workers(chunk: int) -> None:
    lines = []
    for processes in (False, True):
        for n_workers in (1, 2):
            sizes = {"n_rows": 4 * 10**6, "chunk": chunk, "workers": n_workers}
            found = compared(3, processes=processes, **sizes)
            kind = "processes" if processes else "threads"
            line = {"workers": n_workers, "kind": kind}
            line |= {"fit_s": found["seconds"], "floor_s": found["floor"]}
            lines.append(line | {"fit/floor": found["ratio"], "peak_GiB": found["peak_gib"]})
            show("workers", lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("table", nargs="?", default="all")
    parser.add_argument("--upto", type=float, default=1e7, help="rows, at most")
    parser.add_argument("--chunk", type=float, default=1e5, help="rows of a chunk")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run:
        one_run(json.loads(given.run))
        return
    chunk = int(given.chunk)
    work = {
        "rows": lambda: rows(int(given.upto), chunk),
        "targets": targets,
        "features": features,
        "workers": lambda: workers(chunk),
    }
    if given.table not in (*work, "all"):
        parser.error(f"table {given.table!r} is none of {', '.join(work)}, all")
    for name in work if given.table == "all" else (given.table,):
        work[name]()


if __name__ == "__main__":
    main()
