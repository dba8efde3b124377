"""Between a scan and the compiled code: what is compiled, what goes in and what comes out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import numba
import numpy as np

from ctfa.core.backend import Questions, interrupted
from ctfa.core.criteria import Loss, criterion_of
from ctfa.core.history import MergeHistory
from ctfa.core.types import FloatArray, IntArray

F = TypeVar("F", bound=Callable[..., Any])

#: Sums may be taken in another order and with fused products: what vector instructions need.
#: Infinities and what is not a number keep their meaning.
REORDER = {"contract", "reassoc"}


def compiled(function: F) -> F:
    """Compile at the first call, as written.

    The cache knows a kernel by its own file: functions that a kernel calls belong in the same file,
    and what is defined elsewhere is passed to it.
    """
    return _compile(function, False)


def reordered(function: F) -> F:
    """Compile with sums in any order."""
    return _compile(function, REORDER)


def _compile(function: F, fastmath: bool | set[str]) -> F:
    def build(*, cache: bool) -> F:
        # Division by zero gives infinity, as in numpy.
        kernel: F = numba.njit(
            function, cache=cache, error_model="numpy", fastmath=fastmath, nogil=True
        )
        return kernel

    try:
        return build(cache=True)
    except RuntimeError:
        # Neither the package's folder nor the user's cache can be written: compile every time.
        return build(cache=False)


#: Block and other of each merge, its loss; the block that each refused at the smallest loss, and
#: that loss; the number of comparisons, and the smallest loss refused.
Result: TypeAlias = tuple[IntArray, FloatArray, IntArray, FloatArray, int, float]


class CompiledQuestions(Questions):
    """Losses and merges of a space by compiled functions, in arrays that the space owns.

    ``state`` are these arrays and a rule. ``losses(*state, blocks, others)`` gives losses of pairs,
    not a number where the space has to be asked, and how often that is; ``join(*state, block,
    other)`` merges two, or changes nothing and says so where the space has to do it.
    """

    def __init__(
        self,
        space: Any,
        criterion: Loss,
        losses: Callable[..., tuple[FloatArray, int]],
        join: Callable[..., bool],
        state: tuple[Any, ...],
    ) -> None:
        super().__init__(space, criterion)
        self._losses, self._join, self.state = losses, join, state

    def losses(self, block: int | IntArray, others: IntArray) -> FloatArray:
        """Loss of merging a block with each of the others, or pair by pair."""
        others = others.astype(np.int64, copy=False)
        blocks = np.full(others.size, block, dtype=np.int64)
        try:
            losses, n_doubtful = self._losses(*self.state, blocks, others)
        except SystemError as error:
            raise interrupted(error) from None
        if n_doubtful:
            doubtful = np.isnan(losses)
            losses[doubtful] = self.of_the_space(blocks[doubtful], others[doubtful])
        return np.asarray(losses)

    def merge(self, block: int, other: int) -> None:
        """Merge in the space."""
        try:
            joined = self._join(*self.state, block, other)
        except SystemError as error:
            raise interrupted(error) from None
        if joined:
            self.space.merged(block, other)
        else:
            self.space.merge(block, other)


def place_of(criterion: Loss, known: tuple[str, ...]) -> int | None:
    """Place of a criterion among those with a compiled form, none for a user's own."""
    name = criterion_of(criterion).kernel
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
