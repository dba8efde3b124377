"""What every merge of a history was predicted to gain, asked again of a fresh space."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ctfa.core.gains import gain
from ctfa.core.history import MergeHistory
from ctfa.core.spaces.base import MergeSpace
from ctfa.core.types import FloatArray, IntArray


class Replayed(NamedTuple):
    """The evidence of each merge."""

    f_statistic: FloatArray
    f_star: FloatArray
    gain: FloatArray
    standard_error: FloatArray


def replay(space: MergeSpace, history: MergeHistory) -> Replayed:
    """Merge again, and write down the evidence just before each merge; the space is used up.

    Merges that do not wait for each other are asked about together.
    """
    found = Replayed(*np.full((4, len(history)), np.nan))
    for steps in levels(history):
        blocks, others = history.block[steps], history.other[steps]
        evidence = space.evidence(blocks, others)
        predicted = gain(evidence)
        found.f_statistic[steps] = evidence.difference.f_statistic
        found.f_star[steps] = evidence.f_star
        found.gain[steps] = predicted.value
        found.standard_error[steps] = predicted.standard_error
        for block, other in zip(blocks.tolist(), others.tolist(), strict=True):
            space.merge(block, other)
    return found


def levels(history: MergeHistory) -> list[IntArray]:
    """Merges by how many must come before them: none of a level waits for another of it."""
    height = np.zeros(history.n_variables, dtype=np.intp)
    level = np.empty(len(history), dtype=np.intp)
    for step, (block, other) in enumerate(
        zip(history.block.tolist(), history.other.tolist(), strict=True)
    ):
        level[step] = max(height[block], height[other])
        height[block] = level[step] + 1
    order = np.argsort(level, kind="stable")
    counts = np.bincount(level) if level.size else np.empty(0, dtype=np.intp)
    return [part for part in np.split(order, np.cumsum(counts)[:-1]) if part.size]
