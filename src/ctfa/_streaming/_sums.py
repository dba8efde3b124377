"""The sums that estimators keep of the rows they have seen, and the pieces that these came in."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from ctfa import _validation as check
from ctfa._collections import (
    SUMS_LIMIT,
    TEST,
    TRAIN,
    Classes,
    Collection,
    Sums,
    TaskCollection,
    TaskSample,
    Wanted,
    joined,
    stand_in,
    stand_in_tasks,
)
from ctfa._streaming._remainders import (
    of_possible_rank,
    require_directions,
    require_remainder,
    squares_of,
    without_rounding,
)
from ctfa._validation import chunks
from ctfa.core.stand_ins import Summary
from ctfa.core.types import BoolArray, FloatArray, IntArray

#: Where the rows of a piece lie in blocks, one a fold, and were not dealt one by one.
IN_BLOCKS = -1
#: Pieces that are remembered without folds; the oldest are let go first.
MOST_KNOWN = 1 << 14
#: What the names of rows begin with that went without having come as one piece.
SLICE = "slice "

Times = tuple[tuple[int, ...], ...]
#: For the name of a piece: an entry for each time that it is there.
Pieces = Mapping[str, Times]


class Dealt(NamedTuple):
    """Which rows of a piece are in which folds."""

    classes: Classes
    keys: IntArray  # what each of these classes is called in the running sums
    starts: tuple[int, ...]  # fold that the first row was dealt to, for each purpose; or IN_BLOCKS


@dataclass(frozen=True, eq=False)
class RunningSums:
    """Summaries of all rows that came, of those in the same folds together.

    Every piece of rows is divided like the rows of a fit: fold ``i`` is the ``i``-th block of all
    pieces. A row's class is numbered by its folds for all purposes, the last purpose fastest.
    """

    widths: tuple[int, int, int]  # columns of the baseline, of the inputs, of the targets
    targets: check.Targets  # names, container and weights; no values
    folds: Mapping[str, int]  # how many, for each purpose
    classes: Mapping[int, Summary]
    #: Most that the centred squares of each column have ever been: rounding is a share of these.
    largest: FloatArray
    next_fold: tuple[int, ...]  # where the next row of a short piece is dealt to, by purpose
    #: For the digest of a piece: ``Dealt.starts`` of each time that it was added. Without folds
    #: see ``_with_piece``.
    pieces: Pieces

    @classmethod
    def begin(
        cls, widths: tuple[int, int, int], targets: check.Targets, wanted: Sequence[Wanted]
    ) -> RunningSums:
        """No rows yet."""
        for want in wanted:
            chunks.require_fold_number(want.cv, want.purpose)
        folds = {want.purpose: int(want.cv) for want in wanted}
        nothing = np.zeros(sum(widths))
        targets = targets._replace(values=np.empty((0, widths[2])))
        return cls(widths, targets, folds, {}, nothing, (0,) * len(folds), {})

    @property
    def n_rows(self) -> int:
        """Rows that count."""
        return sum(summary.n_samples for summary in self.classes.values())

    def deal(self, data: Collection, used: BoolArray | None, starts: Any = None) -> Dealt:
        """Say in which folds the rows of a piece are, or were where these ``starts`` are known."""
        if not self.folds:
            return Dealt(data.classes(), np.zeros(1, dtype=np.intp), ())
        n_given = data.n_rows
        n_rows = n_given if used is None else int(used.sum())
        if starts is None:
            pairs = zip(self.folds.values(), self.next_fold, strict=True)
            starts = tuple(IN_BLOCKS if n_rows >= 2 * number else at for number, at in pairs)
        if used is None and set(starts) == {IN_BLOCKS}:
            wanted = [Wanted(purpose, number) for purpose, number in self.folds.items()]
            classes = Classes.of(wanted, n_rows, None, None)
            return Dealt(classes, _keys_of(classes, self.folds), starts)
        keys = np.zeros(n_rows, dtype=np.intp)
        for number, start in zip(self.folds.values(), starts, strict=True):
            if start == IN_BLOCKS:
                blocks = np.array_split(np.arange(n_rows), number)
                fold = np.repeat(np.arange(number), [block.size for block in blocks])
            else:
                fold = (start + np.arange(n_rows)) % number
            keys = keys * number + fold
        ids = np.full(n_given, -1, dtype=np.intp)
        ids[slice(None) if used is None else used] = keys
        n_keys = int(np.prod(list(self.folds.values())))
        return Dealt(Classes(n_given, None, ids, {}), np.arange(n_keys), starts)

    def plus(self, sums: Sums, dealt: Dealt) -> RunningSums:
        """With the rows of one more piece."""
        more = {int(dealt.keys[at]): part for at, part in sums.classes.items() if part.n_samples}
        classes = joined(self.classes, more)
        following = tuple(
            at if start == IN_BLOCKS else (start + sums.n_samples) % number
            for at, start, number in zip(
                self.next_fold, dealt.starts, self.folds.values(), strict=True
            )
        )
        return replace(
            self,
            classes=classes,
            largest=np.maximum(self.largest, squares_of(classes.values())),
            next_fold=following,
            pieces=_with_piece(self.pieces, sums, dealt.starts if self.folds else None),
        )

    def minus(self, sums: Sums, dealt: Dealt) -> RunningSums:
        """Without the rows of a piece that was added before."""
        chunks.require_more_rows_than(sums.n_samples, self.n_rows)
        pieces = _without_piece(self.pieces, sums, dealt.starts if self.folds else None)
        left = dict(self.classes)
        for number, summary in sums.classes.items():
            key = int(dealt.keys[number])
            rest = require_remainder(left.pop(key, None), summary)
            if rest is not None:
                left[key] = rest
        chunks.require_digits_left(squares_of(left.values()), self.largest, self._column_names())
        return replace(self, classes=left, pieces=pieces)

    def require_known(self, together: Sequence[IntArray] | None = None) -> None:
        """Refuse sums that have forgotten so much that columns cannot be told from each other.

        ``together`` are the inputs of each fit, where these are not all.
        """
        n_baseline = self.widths[0]
        if together is not None:
            first = np.arange(n_baseline)
            together = [np.concatenate((first, n_baseline + inputs)) for inputs in together]
        parts = list(self.classes.values())
        require_directions(parts, self.largest, self._column_names(), together)

    def stand_in(
        self, together: Sequence[IntArray] | None = None
    ) -> tuple[check.Sample, check.Targets]:
        """Rows that stand in for all that came, with their folds.

        ``together`` are the inputs of each fit, where these are not all.
        """
        chunks.require_some_rows(self.n_rows)
        classes = Classes(None, None, None, self._roles())
        sums = Sums(self.n_rows, dict(self.classes), ())
        return stand_in(sums, classes, self.widths, self.targets, weighed=True, together=together)

    def _roles(self) -> dict[str, IntArray]:
        """Role of every class in every fold; folds of less than two rows are joined."""
        n_keys = int(np.prod([1, *self.folds.values()]))
        held = np.zeros(n_keys, dtype=np.intp)
        for key, summary in self.classes.items():
            held[key] = summary.n_samples
        roles, slower = {}, n_keys
        for purpose, number in self.folds.items():
            slower //= number
            fold = np.arange(n_keys) // slower % number
            together = _joined(np.bincount(fold, weights=held, minlength=number))
            n_folds = int(together.max()) + 1
            # Folds that choose a limit may be joined, as long as there are two.
            if n_folds < 2 or (purpose != "limit" and n_folds < number):
                chunks.refuse_folds(number, self.n_rows)
            roles[purpose] = np.where(together[fold] == np.arange(n_folds)[:, None], TEST, TRAIN)
        return roles

    def _column_names(self) -> list[str]:
        n_baseline, n_inputs, _ = self.widths
        first = [f"column {i} of the baseline" for i in range(n_baseline)]
        inputs = [f"column {i} of X" for i in range(n_inputs)]
        return [*first, *inputs, *(f"target {name!r}" for name in self.targets.names)]


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
    def begin(cls, n_columns: int, folds: Mapping[str, Any]) -> TaskSums:
        """No rows yet."""
        for purpose, cv in folds.items():
            chunks.require_fold_number(cv, purpose)
        return cls(n_columns, int(folds.get("limit", 0)), {}, {}, np.zeros(n_columns))

    @property
    def n_rows(self) -> int:
        """Rows that count."""
        return sum(summary.n_samples for summary in self.classes.values())

    @property
    def folds(self) -> dict[str, int]:
        """How many folds, by what they are for."""
        return {"limit": self.n_dealt} if self.n_dealt else {}

    def sums_of(self, data: TaskCollection, *, adding: bool) -> Sums:
        """Sums of a piece, its rows dealt after those that came, or as when it came last."""
        sums = data.sums(self.n_dealt, self.arrived, digested=self.n_dealt > 0)
        if adding:
            return sums
        chunks.require_more_rows_than(sums.n_samples, self.n_rows)
        if not self.n_dealt:
            return sums
        times = (self.pieces or {}).get(name_of(sums), ())
        chunks.refuse_unless(times, chunks.NOT_ONE_PIECE)
        before = dict(zip(_tasks_of(sums), times[-1], strict=True))
        return data.sums(self.n_dealt, {**self.arrived, **before}, digested=True)

    def plus(self, sums: Sums) -> TaskSums:
        """With the rows of one more piece."""
        classes, most = joined(self.classes, sums.classes), dict(self.most)
        for key in sums.classes:
            squares = np.maximum(np.diagonal(classes[key].moments.cross), 0.0)
            most[key] = np.maximum(most[key], squares) if key in most else squares
        n_summed = sum(summary.rows is None for summary in classes.values())
        chunks.require_room_for_sums(self.n_columns, n_summed, SUMS_LIMIT)
        before, arrived = None, dict(self.arrived)
        if self.n_dealt:
            before = tuple(arrived.get(task, 0) for task in _tasks_of(sums))
            for (task, _), summary in sums.classes.items():
                arrived[task] = arrived.get(task, 0) + summary.n_samples
        return replace(
            self,
            classes=classes,
            most=most,
            largest=np.maximum(self.largest, squares_of(classes.values())),
            pieces=_with_piece(self.pieces or {}, sums, before),
            arrived=arrived,
        )

    def minus(self, sums: Sums) -> TaskSums:
        """Without rows that were added before; a task without rows is none any more."""
        pieces = self.pieces or {}
        last = pieces[name_of(sums)][-1] if self.n_dealt else None
        pieces = _without_piece(pieces, sums, last)
        classes, most = dict(self.classes), dict(self.most)
        for key, summary in sums.classes.items():
            rest = require_remainder(classes.pop(key, None), summary)
            if rest is None:
                del most[key]
                continue
            classes[key] = without_rounding(rest, most[key], self._names(key[0]))
        chunks.require_digits_left(squares_of(classes.values()), self.largest, self._names())
        return replace(self, classes=classes, most=most, pieces=pieces)

    def require_known(self) -> None:
        """Refuse sums that have forgotten so much that columns cannot be told from each other."""
        require_directions(list(self.classes.values()), self.largest, self._names())

    def stand_in(self) -> TaskSample:
        """Rows that stand in for all that came, with their tasks and folds."""
        chunks.require_some_rows(self.n_rows)
        parts = {key: of_possible_rank(summary) for key, summary in self.classes.items()}
        return stand_in_tasks(parts, Classes.one(), self.n_dealt, weighed=True)

    def _names(self, *task: Any) -> list[str]:
        of_task = f", task {task[0]!r}," if task else ""
        inputs = [f"column {number} of X{of_task}" for number in range(self.n_columns - 1)]
        return [*inputs, f"y{of_task}"]


def _keys_of(classes: Classes, folds: Mapping[str, int]) -> IntArray:
    """Number of every class by its folds, which divide the rows."""
    keys: Any = 0
    for purpose, number in folds.items():
        keys = keys * number + (classes.roles[purpose] == TEST).argmax(axis=0)
    return np.atleast_1d(np.asarray(keys, dtype=np.intp))


def _joined(held: Any) -> IntArray:
    """Number of each fold when those of less than two rows go together with the next ones."""
    numbers, number, rows = np.zeros(held.size, dtype=np.intp), 0, 0.0
    for fold, more in enumerate(held):
        if rows >= 2.0 and held[fold:].sum() >= 2.0:
            number, rows = number + 1, 0.0
        numbers[fold] = number
        rows += more
    return numbers


def _tasks_of(sums: Sums) -> list[Any]:
    """Tasks in the order in which they came."""
    return list(dict.fromkeys(task for task, _ in sums.classes))


def name_of(sums: Sums) -> str:
    """What a piece is known by where there are folds; of several chunks what all of them are."""
    if len(sums.digests) == 1:
        return sums.digests[0].hex()
    return hashlib.blake2b(b"".join(sums.digests), digest_size=16).hexdigest()


def _with_piece(known: Pieces, sums: Sums, dealt: tuple[int, ...] | None) -> dict[str, Times]:
    """With one more piece, and how its rows were ``dealt`` to folds; None where there are none.

    Without folds it may have brought back any rows, so slices may go again.
    """
    if dealt is not None:
        name = name_of(sums)
        return {**known, name: (*known.get(name, ()), dealt)}
    name = _name_by_sums(sums)
    pieces = {one: times for one, times in known.items() if not one.startswith(SLICE)}
    pieces[name] = (*pieces.pop(name, ()), ())
    return _youngest(pieces)


def _without_piece(known: Pieces, sums: Sums, dealt: tuple[int, ...] | None) -> dict[str, Times]:
    """Without a piece, or a slice of those that came; what went already is refused."""
    if dealt is not None:
        pieces, name = dict(known), name_of(sums)
        left = list(pieces.pop(name))
        left.remove(dealt)
        return pieces | ({name: tuple(left)} if left else {})
    name = _name_by_sums(sums)
    times = known.get(name)
    is_there = times != () and SLICE + name not in known
    chunks.refuse_unless(is_there, chunks.GONE_ALREADY)
    if times is None:
        return _youngest({**known, SLICE + name: ()})
    return {**known, name: times[1:]}


def _youngest(pieces: dict[str, Times]) -> dict[str, Times]:
    if len(pieces) > MOST_KNOWN:
        del pieces[next(iter(pieces))]
    return pieces


def _name_by_sums(sums: Sums) -> str:
    """What a piece is known by without folds, its rows in whichever order.

    Hashing all numbers of a piece takes longer than summing them, and on a device they would have
    to come back. Its sums are there anyway, and are as good a name: count, weight, means and
    squares, in half the digits, which rounding leaves alone.
    """
    digest = hashlib.blake2b(digest_size=16)
    for key in sorted(sums.classes, key=str):
        part = sums.classes[key]
        if not part.n_samples:
            continue
        digest.update(str(key).encode())
        moments, squares = part.moments, squares_of([part])
        # A mean alone may be nothing but rounding.
        high = moments.mean + 3.0 * np.sqrt(squares / moments.weight)
        numbers = np.concatenate(([moments.n_samples, moments.weight], high, squares))
        with np.errstate(over="ignore", under="ignore"):
            digest.update(numbers.astype(np.float32).data)
    return digest.hexdigest()
