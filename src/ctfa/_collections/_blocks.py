"""Folds that divide rows in order, said by the rows at which they begin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ctfa.core.types import IntArray

#: A row is none of a fold's, one it learns from, or one it is judged by.
TRAIN, TEST = 1, 2


@dataclass(frozen=True, eq=False)
class Blocks:
    """Blocks of consecutive rows, each tested in turn; perhaps of the rows outside one stretch.

    That stretch is what another fold is judged by: its own folds know nothing of it, and go on
    behind it as if it were not there.
    """

    ends: IntArray  # first row of each block, among the rows that are divided, and their number
    tested: IntArray  # blocks that are tested
    left_out: tuple[int, int] = (0, 0)  # first row of the stretch, and first row behind it

    @classmethod
    def of(
        cls, n_folds: int, n_rows: int, *, is_last_alone: bool, left_out: tuple[int, int] = (0, 0)
    ) -> Blocks:
        """Divide rows into blocks that differ by a row at most."""
        n_divided = n_rows - (left_out[1] - left_out[0])
        sizes = np.full(n_folds, n_divided // n_folds)
        sizes[: n_divided % n_folds] += 1
        tested = np.arange(n_folds)[-1:] if is_last_alone else np.arange(n_folds)
        return cls(np.concatenate(([0], np.cumsum(sizes))), tested, left_out)

    @property
    def stretches(self) -> list[tuple[int, int]]:
        """First row of each tested block, and first row behind it."""
        return [(int(self.ends[k]), int(self.ends[k + 1])) for k in self.tested]

    @property
    def starts(self) -> IntArray:
        """Rows at which the role of rows changes in some fold, sorted or not."""
        first, behind = self.left_out
        own = self.ends[:-1]
        n_rows = int(self.ends[-1]) + behind - first
        placed = np.where(own >= first, own + (behind - first), own)
        cuts = np.concatenate((placed, [first, behind]))
        return np.asarray(cuts[cuts < n_rows], dtype=np.intp)

    def roles(self, rows: IntArray) -> IntArray:
        """Role of some rows in each fold, ``(folds, rows)``; zero for those left out."""
        first, behind = self.left_out
        place = np.where(rows >= behind, rows - (behind - first), rows)
        block = np.searchsorted(self.ends, place, side="right") - 1
        role = np.where(block == self.tested[:, None], TEST, TRAIN)
        return np.asarray(np.where((rows >= first) & (rows < behind), 0, role))
