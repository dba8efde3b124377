"""What each task with inputs of its own gains by its group, over a model of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ctfa.core.gains import Gain
from ctfa.core.history import MergeHistory
from ctfa.core.own_fits import OwnFit
from ctfa.core.partition import Partition
from ctfa.core.series import Series
from ctfa.core.types import FloatArray, IntArray


def gain_over_single(
    fit: Callable[[Series, str], OwnFit], aggregate: str, series: Series, partition: Partition
) -> Gain:
    """Risk that each task saves by its group's model instead of its own.

    Standard errors are those of a mean over rows of the difference of squared errors, as if rows
    were independent; of rows that stand in for others, as if errors were Gaussian, too. Some groups
    at a time: what fits need is many times the data.
    """
    value, error = np.zeros((2, series.n_tasks))
    for groups in _batches(partition):
        tasks = np.concatenate(groups)
        part = fit(series.of_tasks(tasks), aggregate)
        labels = np.repeat(np.arange(len(groups)), [group.size for group in groups])
        alone = part.squares(Partition.singletons(tasks.size))
        value[tasks], error[tasks] = alone.less(part.squares(Partition(labels)))
    return Gain(value, error)


def gains_along(fit: OwnFit, history: MergeHistory) -> Iterator[tuple[IntArray, FloatArray]]:
    """Members of each merge, and what each of them gains by it."""
    members = [np.array([task]) for task in range(history.n_variables)]
    risk = fit.squares(Partition.singletons(history.n_variables)).mean()
    for block, other in zip(history.block.tolist(), history.other.tolist(), strict=True):
        both = np.concatenate((members[block], members[other]))
        together = Partition(np.zeros(both.size, dtype=np.intp))
        after = fit.take(both).squares(together).mean()
        yield both, risk[both] - after
        risk[both] = after
        members[block], members[other] = both, both[:0]


def _batches(partition: Partition) -> Iterator[list[IntArray]]:
    """Groups of more than one, some thousand tasks at a time."""
    batch: list[IntArray] = []
    count = 0
    for group in partition.groups:
        if group.size > 1:
            batch.append(group)
            count += group.size
        if count >= TASKS_AT_ONCE:
            yield batch
            batch, count = [], 0
    if batch:
        yield batch


#: Tasks whose fits are worked out together.
TASKS_AT_ONCE = 1000
