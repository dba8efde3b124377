"""Between a scan and the compiled code: which criterion goes in, which history comes out."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from ctfa.core.criteria import Loss
from ctfa.core.history import MergeHistory
from ctfa.core.types import FloatArray, IntArray

#: Block and other of each merge, its loss; whom each block refused at the smallest loss, and that
#: loss; the number of comparisons, and the smallest loss refused.
Result: TypeAlias = tuple[IntArray, FloatArray, IntArray, FloatArray, int, float]


def place_of(criterion: Loss, known: tuple[str, ...]) -> int | None:
    """Place of a criterion among those with a compiled form, none for a user's own."""
    name = getattr(criterion, "kernel", None)
    return known.index(name) if name in known else None


def as_history(result: Result) -> MergeHistory:
    """Put the history of blocks that grew one after another together."""
    merges, losses, refused, refused_loss, n_comparisons, best_refused = result
    block, other = np.ascontiguousarray(merges.T)
    # Counted from the first merge of each block, which left it with two members.
    is_first = np.diff(block, prepend=-1) != 0
    rows = np.arange(block.size)
    size = rows - np.maximum.accumulate(np.where(is_first, rows, 0)) + 2
    interval = float(losses.max(initial=-np.inf)), best_refused
    return MergeHistory(
        refused.size, block, other, losses, size, refused, refused_loss, n_comparisons, interval
    )
