"""Maps on which Table 3 is rebuilt: their series, and the blocks of time that judge."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from ctfa import datasets
from ctfa.core.types import BoolArray, FloatArray, IntArray

CRU, CRU_SHORT, PO = "CRU Iberia", "CRU Iberia, 102 months", "Po basins"
EUROPE, SMALL_MAP = "29,934 basins", "1,000 basins"
#: Months and inputs of the paper's basins.
N_MONTHS, N_INPUTS = 102, 16
#: Of the generated maps. The noise makes single tasks err as in the paper (1.06 of the variance).
NOISE, SEED = 1.4, 0
#: Months left out on each side of a fold, as in the library's comparisons: inputs hold that many
#: months of the past. Those of the generated maps hold none, but remember.
MONTHS_APART, WEEKS_APART = 2, 24


class Setting(NamedTuple):
    """A map, and how it is asked."""

    load: Callable[[bool], Any]  # from whether it is to be quick
    recipe: str
    n_folds: int
    gap: int
    #: Whether the main curve asks neighbours only, because all pairs are too many.
    by_graph: bool = False


class Fold(NamedTuple):
    """Series in standard units of the rows to learn from; gaps are NaN."""

    layout: IntArray  # (tasks, slots), -1 for none
    connectivity: Any
    X: FloatArray
    Y: FloatArray
    X_test: FloatArray
    Y_test: FloatArray

    @property
    def n_tasks(self) -> int:
        """Tasks."""
        return int(self.layout.shape[0])


def _cru(quick: bool, *, n_months: int | None = None) -> Any:
    data = datasets.load_cru_iberia()
    months = slice(-(N_MONTHS if quick else n_months or len(data.data)), None)
    cells = slice(40 if quick else None)
    return {
        "data": data.data[months], "target": data.target[months, cells],
        "layout": data.layout[cells], "connectivity": data.connectivity[cells, cells],
    }  # fmt: skip


def _po(quick: bool) -> Any:
    return datasets.load_po_basins()


def _generated(quick: bool, *, n_basins: int, n_regions: int) -> Any:
    if quick:
        n_basins, n_regions = 120, 6
    return datasets.make_basins(
        n_basins, N_MONTHS, N_INPUTS, n_regions=n_regions, noise=NOISE, polygons=False,
        random_state=SEED,
    )  # fmt: skip


def _on_generated_map(n_basins: int, n_regions: int) -> Setting:
    recipe = (
        f"make_basins({n_basins}, {N_MONTHS}, {N_INPUTS}, n_regions={n_regions}, noise={NOISE}, "
        f"random_state={SEED})"
    )
    load = partial(_generated, n_basins=n_basins, n_regions=n_regions)
    return Setting(load, recipe, n_folds=3, gap=MONTHS_APART, by_graph=True)


#: In the order in which they are run: the longest first, so that two jobs end together.
SETTINGS: dict[str, Setting] = {
    EUROPE: _on_generated_map(29_934, 100),
    CRU: Setting(_cru, "load_cru_iberia()", n_folds=5, gap=MONTHS_APART),
    SMALL_MAP: _on_generated_map(1_000, 20),
    CRU_SHORT: Setting(
        partial(_cru, n_months=N_MONTHS), f"load_cru_iberia(), last {N_MONTHS} months", n_folds=5,
        gap=MONTHS_APART,
    ),
    PO: Setting(_po, "load_po_basins()", n_folds=5, gap=WEEKS_APART),
}  # fmt: skip


@lru_cache(maxsize=1)  # one map of 29,934 basins is 0.4 GB
def _load(setting: str, quick: bool) -> Any:
    return SETTINGS[setting].load(quick)


@lru_cache(maxsize=1)
def make_fold(setting: str, fold: int, quick: bool) -> Fold:
    """One block of consecutive rows to be judged by, the rest less a gap to learn from."""
    data, known = _load(setting, quick), SETTINGS[setting]
    train, test = rows_of(len(data["target"]), fold, known.n_folds, known.gap)
    X, X_test = _in_units(data["data"], train, test)
    Y, Y_test = _in_units(data["target"], train, test)
    return Fold(data["layout"], data.get("connectivity"), X, Y, X_test, Y_test)


def rows_of(n_rows: int, fold: int, n_folds: int, gap: int) -> tuple[IntArray, IntArray]:
    """Rows to learn from and rows to be judged by, of one of ``n_folds`` blocks."""
    test = np.array_split(np.arange(n_rows), n_folds)[fold]
    rows = np.arange(n_rows)
    near = (rows >= test[0] - gap) & (rows <= test[-1] + gap)
    return rows[~near], test


def _in_units(values: FloatArray, train: IntArray, test: IntArray) -> tuple[FloatArray, FloatArray]:
    """Both parts about the mean of the first and over its standard deviation, column by column."""
    seen = values[train]
    mean, spread = np.nanmean(seen, axis=0), np.nanstd(seen, axis=0)
    spread = np.where(spread > 0.0, spread, 1.0)
    return (seen - mean) / spread, (values[test] - mean) / spread


def known(X: FloatArray, Y: FloatArray, layout: IntArray) -> BoolArray:
    """Where a task has its target and all inputs of its own, in the shape of Y."""
    found = ~np.isnan(Y)
    missing = np.isnan(X)
    if missing.any():
        for task, columns in enumerate(layout):
            found[:, task] &= ~missing[:, columns[columns >= 0]].any(axis=1)
    return found


def error_of(predicted: FloatArray, fold: Fold) -> float:
    """Mean squared error of a task over the rows where it is judged, mean over tasks."""
    judged = known(fold.X_test, fold.Y_test, fold.layout)
    squares = np.where(judged, (predicted - fold.Y_test) ** 2, 0.0).sum(axis=0)
    return float(np.mean(squares / judged.sum(axis=0)))
