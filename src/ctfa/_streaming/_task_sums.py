"""The sums that an estimator of tasks keeps of the rows it has seen, by task and fold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ctfa import _validation as check
from ctfa._collections import (
    SUMS_LIMIT,
    Classes,
    Sums,
    TaskCollection,
    TaskSample,
    deal_tasks,
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
from ctfa._streaming._sums import KEPT_LIMIT, name_of
from ctfa.core.stand_ins import Summary
from ctfa.core.types import FloatArray


@dataclass(frozen=True, eq=False)
class TaskSums:
    """Summaries of all rows that came, of those of one task and fold together.

    The rows of each task are dealt to folds as they come (``deal_rows``), whatever pieces they come
    in; with folds, pieces go as they came, which is known of each.
    """

    n_columns: int  # inputs and target
    n_dealt: int  # folds; 0 for none
    classes: Mapping[tuple[Any, int], Summary]  # by task and fold
    most: Mapping[tuple[Any, int], FloatArray]  # that centred squares of each have been
    largest: FloatArray  # the same of all rows
    #: Which came and went; None in files that do not say. With folds: for the digest of a piece,
    #: and each time that it came, how many rows of each of its tasks had come before.
    pieces: Pieces | None = None
    #: Rows of each task that have come where there are folds, also those that went again; in the
    #: order in which the tasks came.
    arrived: Mapping[Any, int] = field(default_factory=dict)

    @classmethod
    def begin(cls, n_columns: int, n_dealt: int) -> TaskSums:
        """No rows yet."""
        return cls(n_columns, n_dealt, {}, {}, np.zeros(n_columns))

    @classmethod
    def of_sample(
        cls,
        sample: check.Sample,
        target: FloatArray,
        tasks: check.Tasks,
        sample_weight: Any,
        n_dealt: int,
    ) -> TaskSums | None:
        """Sums of the rows of a fit in memory, where they are no larger than these."""
        inputs = sample.inputs
        n_columns = inputs.shape[1] + 1
        task = tasks.of_row
        if n_dealt:
            task = task * n_dealt + deal_tasks(task, n_dealt)
        counts = np.unique(task, return_counts=True)[1]
        if counts.min() <= n_columns + 1 or 8 * counts.size * n_columns**2 > KEPT_LIMIT:
            return None
        weights = check.read_weights(sample_weight, sample.n_given)
        if weights is not None and sample.used is not None:
            weights = weights[sample.used]
        ids = check.as_ids(tasks.ids)[tasks.of_row]
        return cls.of_fit(
            TaskCollection.of_rows(inputs, target, ids, weights).sums(n_dealt), n_dealt
        )

    @classmethod
    def of_fit(cls, sums: Sums, n_dealt: int) -> TaskSums | None:
        """Go on from the sums of a fit; None where some of them would be rows.

        A model that was fitted holds no data.
        """
        parts = sums.classes.values()
        if any(part.rows is not None for part in parts):
            return None
        return cls.begin(next(iter(parts)).n_columns, n_dealt).plus(sums)

    @property
    def n_rows(self) -> int:
        """Rows that count."""
        return _rows_in(self)

    @property
    def folds(self) -> dict[str, int]:
        """How many folds, by what they are for."""
        return {"limit": self.n_dealt} if self.n_dealt else {}

    def sums_of(self, data: TaskCollection) -> Sums:
        """Sums of a piece, its rows dealt after those that came."""
        return data.sums(self.n_dealt, self.arrived, digested=self.n_dealt > 0)

    def sums_of_known(self, data: TaskCollection) -> Sums:
        """Sums of a piece, its rows dealt as when it came last; without folds of any rows."""
        sums = self.sums_of(data)
        check.require_more_rows_than(_rows_in(sums), self.n_rows)
        if not self.n_dealt:
            return sums
        times = (self.pieces or {}).get(name_of(sums), ())
        check.require_known_piece(bool(times))
        before = dict(zip(_tasks_of(sums), times[-1], strict=True))
        return data.sums(self.n_dealt, {**self.arrived, **before}, digested=True)

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
        pieces, arrived = dict(self.pieces or {}), dict(self.arrived)
        if not self.n_dealt:
            pieces = with_piece(pieces, sums)
        elif sums.digests:  # not those of a fit, which are no piece
            before = tuple(arrived.get(task, 0) for task in _tasks_of(sums))
            pieces[name_of(sums)] = (*pieces.get(name_of(sums), ()), before)
        if self.n_dealt:
            for (task, _), summary in sums.classes.items():
                arrived[task] = arrived.get(task, 0) + summary.n_samples
        return replace(
            self, classes=classes, most=most, largest=largest, pieces=pieces, arrived=arrived
        )

    def minus(self, sums: Sums) -> TaskSums:
        """Without rows that were added before; a task without rows is none any more."""
        if not self.n_dealt:
            pieces = without_piece(self.pieces or {}, sums)
        else:
            pieces = dict(self.pieces or {})
            times = pieces.pop(name_of(sums))[:-1]
            pieces |= {name_of(sums): times} if times else {}
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


def _tasks_of(sums: Sums) -> list[Any]:
    """Tasks in the order in which they came."""
    return list(dict.fromkeys(task for task, _ in sums.classes))


def _rows_in(sums: Sums | TaskSums) -> int:
    """Rows that count."""
    return sum(summary.n_samples for summary in sums.classes.values())
