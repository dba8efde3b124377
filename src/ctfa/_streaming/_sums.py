"""The sums that an estimator keeps of the rows it has seen, by their folds."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ctfa import _validation as check
from ctfa._collections import (
    TEST,
    TRAIN,
    Classes,
    Collection,
    Sums,
    Wanted,
    stand_in,
)
from ctfa._streaming._known import Pieces, with_piece, without_piece
from ctfa._streaming._remainders import require_directions, require_remainder, squares_of
from ctfa.core.stand_ins import Summary
from ctfa.core.types import BoolArray, FloatArray, IntArray

#: Where the rows of a piece lie in blocks, one a fold, and were not dealt one by one.
IN_BLOCKS = -1


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
    #: see ``with_piece``.
    pieces: Pieces

    @classmethod
    def begin(
        cls, widths: tuple[int, int, int], targets: check.Targets, wanted: Sequence[Wanted]
    ) -> RunningSums:
        """No rows yet."""
        for want in wanted:
            check.require_fold_number(want.cv, want.purpose)
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
        more = self._with(sums, dealt.keys)
        if not self.folds:
            return replace(more, pieces=with_piece(self.pieces, sums))
        n_rows = sum(summary.n_samples for summary in sums.classes.values())
        following = tuple(
            at if start == IN_BLOCKS else (start + n_rows) % number
            for at, start, number in zip(
                self.next_fold, dealt.starts, self.folds.values(), strict=True
            )
        )
        name = name_of(sums)
        pieces = {**self.pieces, name: (*self.pieces.get(name, ()), dealt.starts)}
        return replace(more, next_fold=following, pieces=pieces)

    def minus(self, sums: Sums, dealt: Dealt) -> RunningSums:
        """Without the rows of a piece that was added before."""
        n_rows = sum(summary.n_samples for summary in sums.classes.values())
        check.require_more_rows_than(n_rows, self.n_rows)
        pieces = dict(self.pieces) if self.folds else without_piece(self.pieces, sums)
        if self.folds:
            name = name_of(sums)
            times = list(pieces.pop(name))
            times.remove(dealt.starts)
            if times:
                pieces[name] = tuple(times)
        left = dict(self.classes)
        for number, summary in sums.classes.items():
            key = int(dealt.keys[number])
            rest = require_remainder(left.pop(key, None), summary)
            if rest is not None:
                left[key] = rest
        check.require_digits_left(squares_of(left.values()), self.largest, self._column_names())
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
        check.require_some_rows(self.n_rows)
        classes = Classes(None, None, None, self._roles())
        sums = Sums(self.n_rows, dict(self.classes), ())
        return stand_in(sums, classes, self.widths, self.targets, weighed=True, together=together)

    def _with(self, sums: Sums, keys: IntArray) -> RunningSums:
        classes = dict(self.classes)
        for number, summary in sums.classes.items():
            if summary.n_samples:
                key = int(keys[number])
                classes[key] = classes[key] + summary if key in classes else summary
        if not classes:
            return self
        largest = np.maximum(self.largest, squares_of(classes.values()))
        return replace(self, classes=classes, largest=largest)

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
            joined = _joined(np.bincount(fold, weights=held, minlength=number))
            n_folds = int(joined.max()) + 1
            check.require_folds_held(n_folds, number, self.n_rows, purpose)
            roles[purpose] = np.where(joined[fold] == np.arange(n_folds)[:, None], TEST, TRAIN)
        return roles

    def _column_names(self) -> list[str]:
        n_baseline, n_inputs, _ = self.widths
        first = [f"column {i} of the baseline" for i in range(n_baseline)]
        inputs = [f"column {i} of X" for i in range(n_inputs)]
        return [*first, *inputs, *(f"target {name!r}" for name in self.targets.names)]


def name_of(sums: Sums) -> str:
    """What a piece is known by; of several chunks what all of them are."""
    if len(sums.digests) == 1:
        return sums.digests[0].hex()
    return hashlib.blake2b(b"".join(sums.digests), digest_size=16).hexdigest()


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
