"""How long a fit will take, from fits of a few of its tasks on this machine."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ctfa import labelled
from ctfa.core.types import IntArray
from ctfa.labelled._arrays import Arrays, arrange
from ctfa.labelled._extras import need
from ctfa.labelled._gather import Gathered
from ctfa.report._held_out import BLOCKS, MANY

#: Tasks that are timed: few, and some more, to tell what grows from what does not.
FEW, MORE = 20, 60
#: With neighbours a merge is asked of edges, about as many as tasks; without, of all pairs.
ON_A_GRAPH, ALL_PAIRS = 1.0, 2.0


@dataclass(frozen=True)
class Estimate:
    """An estimate, and what it rests on."""

    seconds: float
    n_tasks: int
    n_timed: int

    @property
    def words(self) -> str:
        """In words, no more exact than it is."""
        if self.n_timed >= self.n_tasks:
            them = "its one task" if self.n_tasks == 1 else f"all {self.n_tasks:,} tasks"
        else:
            them = f"{self.n_timed:,} of the {self.n_tasks:,} tasks"
        return f"about {spoken(self.seconds)} on this machine (an estimate, from fits of {them})"


def spoken(seconds: float) -> str:
    """A time as people say it."""
    if seconds < 10:
        return f"{max(seconds, 1):.0f} s"
    if seconds < 90:
        return f"{round(seconds, -1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def estimate(gathered: Gathered, graph: Any, given: dict[str, Any], masked: str) -> Estimate:
    """Fit a few tasks that lie together, then some more, and go on from there."""
    arrays = arrange(gathered, masked)
    n_tasks = arrays.tasks.n_tasks
    power = ALL_PAIRS if graph is None else ON_A_GRAPH
    sizes = sorted({min(FEW, max(n_tasks // 2, 2), n_tasks), min(MORE, n_tasks)})
    seconds = [_timed(gathered, arrays, graph, given, size) for size in sizes]
    whole = extrapolated(sizes, seconds, n_tasks, power)
    # Each block that is held out is one fit more; rivals without merges cost little beside it.
    return Estimate((1 + _n_blocks(given["held_out"], n_tasks)) * whole, n_tasks, sizes[-1])


def _n_blocks(held_out: Any, n_tasks: int) -> int:
    if held_out == "auto":
        return BLOCKS if n_tasks <= MANY else 1
    return 0 if held_out is None else int(held_out)


def extrapolated(sizes: list[int], seconds: list[float], n_tasks: int, power: float) -> float:
    """Go on by a fixed part and one that grows with a power of the tasks."""
    if len(sizes) == 1:
        return float(seconds[0] * (n_tasks / sizes[0]) ** power)
    few, more = (float(size) ** power for size in sizes)
    rate = max(seconds[1] - seconds[0], 0.0) / (more - few)
    fixed = max(seconds[1] - rate * more, 0.0)
    if rate == 0.0:  # too quick to tell: all of it grows
        rate, fixed = seconds[1] / more, 0.0
    return float(fixed + rate * float(n_tasks) ** power)


def _timed(
    gathered: Gathered, arrays: Arrays, graph: Any, given: dict[str, Any], size: int
) -> float:
    chosen = together(graph, arrays.tasks.n_tasks, size)
    stacked = _stacked(gathered, arrays, chosen)
    own = dict(given) | {"neighbours": None if graph is None else graph[chosen][:, chosen]}
    own["held_out"] = None
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        labelled.fit(stacked, target=gathered.plan.target, sample=gathered.plan.sample, **own)
    return time.perf_counter() - began


def together(graph: Any, n_tasks: int, size: int) -> IntArray:
    """Tasks that lie together, from the middle one on; without a graph any."""
    if graph is None:
        return np.linspace(0, n_tasks - 1, size).astype(np.intp)
    order, _ = sparse.csgraph.breadth_first_order(graph, n_tasks // 2, directed=False)
    rest = np.setdiff1d(np.arange(n_tasks), order)  # of other components, or islands
    return np.sort(np.concatenate([order, rest])[:size]).astype(np.intp)


def _stacked(gathered: Gathered, arrays: Arrays, chosen: IntArray) -> Any:
    """Some of the tasks along one dimension, with everything of theirs."""
    tasks, sample = arrays.tasks, gathered.plan.sample

    def some(array: Any) -> Any:
        dims = [dim for dim in tasks.dims if dim in array.dims]
        values = array.transpose(sample, *dims).values
        if not dims:
            return ((sample,), values)
        flat = values.reshape(values.shape[0], -1)
        return ((sample, "task"), flat[:, tasks.kept[chosen]])

    held = {gathered.plan.target: some(gathered.target)}
    held |= {str(slot.name): some(slot) for slot in gathered.features}
    xarray = need("xarray")
    samples = gathered.target.indexes.get(sample)
    return xarray.Dataset(held, coords={} if samples is None else {sample: samples})
