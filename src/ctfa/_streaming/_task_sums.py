"""The sums that an estimator of tasks keeps of the rows it has seen, by task and fold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ctfa import _validation as check
from ctfa._collections import (
    SUMS_LIMIT,
    Classes,
    Sums,
    TaskSample,
    stand_in_tasks,
)
from ctfa._streaming._known import Pieces, with_piece, without_piece
from ctfa._streaming._remainders import (
    of_possible_rank,
    require_directions,
    require_remainder,
    squares_of,
    without_rounding,
)
from ctfa.core.stand_ins import Summary
from ctfa.core.types import FloatArray


@dataclass(frozen=True, eq=False)
class TaskSums:
    """Summaries of all rows that came, of those of one task and fold together.

    A row is dealt to its fold by a hash of its numbers: whichever piece it comes in, and goes in.
    """

    n_columns: int  # inputs and target
    n_dealt: int  # folds; 0 for none
    classes: Mapping[tuple[Any, int], Summary]  # by task and fold
    most: Mapping[tuple[Any, int], FloatArray]  # that centred squares of each have been
    largest: FloatArray  # the same of all rows
    pieces: Pieces | None = None  # which came and went; None in files that do not say

    @classmethod
    def begin(cls, n_columns: int, n_dealt: int) -> TaskSums:
        """No rows yet."""
        return cls(n_columns, n_dealt, {}, {}, np.zeros(n_columns))

    @property
    def n_rows(self) -> int:
        """Rows that count."""
        return sum(summary.n_samples for summary in self.classes.values())

    @property
    def folds(self) -> dict[str, int]:
        """How many folds, by what they are for."""
        return {"limit": self.n_dealt} if self.n_dealt else {}

    def plus(self, sums: Sums) -> TaskSums:
        """With the rows of one more piece."""
        classes, most = dict(self.classes), dict(self.most)
        for key, summary in sums.classes.items():
            classes[key] = classes[key] + summary if key in classes else summary
            squares = np.maximum(np.diagonal(classes[key].moments.cross), 0.0)
            most[key] = np.maximum(most[key], squares) if key in most else squares
        n_summed = sum(summary.rows is None for summary in classes.values())
        check.require_room_for_sums(self.n_columns, n_summed, SUMS_LIMIT)
        largest = np.maximum(self.largest, squares_of(classes.values()))
        pieces = with_piece(self.pieces or {}, sums)
        return replace(self, classes=classes, most=most, largest=largest, pieces=pieces)

    def minus(self, sums: Sums) -> TaskSums:
        """Without rows that were added before; a task without rows is none any more."""
        n_rows = sum(summary.n_samples for summary in sums.classes.values())
        check.require_more_rows_than(n_rows, self.n_rows)
        pieces = without_piece(self.pieces or {}, sums)
        classes, most = dict(self.classes), dict(self.most)
        for key, summary in sums.classes.items():
            rest = require_remainder(classes.pop(key, None), summary)
            if rest is None:
                del most[key]
                continue
            classes[key] = without_rounding(rest, most[key], self._names(key[0]))
        check.require_digits_left(squares_of(classes.values()), self.largest, self._names())
        return replace(self, classes=classes, most=most, pieces=pieces)

    def require_known(self) -> None:
        """Refuse sums that have forgotten so much that columns cannot be told from each other."""
        require_directions(list(self.classes.values()), self.largest, self._names())

    def stand_in(self) -> TaskSample:
        """Rows that stand in for all that came, with their tasks and folds."""
        check.require_some_rows(self.n_rows)
        parts = {key: of_possible_rank(summary) for key, summary in self.classes.items()}
        return stand_in_tasks(parts, Classes.one(), self.n_dealt, weighed=True)

    def _names(self, *task: Any) -> list[str]:
        of_task = f", task {task[0]!r}," if task else ""
        inputs = [f"column {number} of X{of_task}" for number in range(self.n_columns - 1)]
        return [*inputs, f"y{of_task}"]
