"""Which rows are in which folds, of rows that are not in memory.

Rows that are trained on in the same folds and tested on in the same folds are one class, and are
summed up together. Contiguous folds make classes that are runs of rows; any other splitter gives
each row the number of its class.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, NoReturn

import numpy as np

from ctfa import _reading as check
from ctfa._errors import InputError
from ctfa.core.types import BoolArray, IntArray

Split = tuple[IntArray, IntArray]
Stretch = tuple[int, int]  # first row, and first row behind

#: Role of a row in a fold: none, training or test.
TRAIN, TEST = 1, 2
#: Largest number of classes; more are not folds any more.
MOST_CLASSES = 1_000


@dataclass(frozen=True, eq=False)
class Wanted:
    """A splitter, and what its folds are for."""

    purpose: str
    cv: Any
    lowered: bool = False  # whether a number of folds may be lowered until each holds two rows
    is_last_alone: bool = False  # whether of a number of folds the last alone is tested
    within: Wanted | None = None  # folds, a number of them, in each of which these are wanted again

    def inside(self, fold: int) -> str:
        """What the folds are for, of the rows that an outer fold learns from."""
        return f"{self.purpose}, fold {fold} of {self.within.purpose}" if self.within else ""

    def n_folds(self, n_rows: int) -> int | None:
        """Folds of so many rows; None where they cannot be divided into a number of them."""
        if not is_number(self.cv):
            return None
        number = min(int(self.cv), max(2, n_rows // 2)) if self.lowered else int(self.cv)
        return number if 2 <= number <= n_rows // 2 else None

    @property
    def n_parts(self) -> int:
        """Classes of rows that the folds make, about."""
        number = int(self.cv) if is_number(self.cv) else 10
        if self.within is None:
            return number
        return (number + 1) * (1 if self.within.is_last_alone else self.within.n_parts)


@dataclass(frozen=True, eq=False)
class Classes:
    """Classes of the rows of a data set, and the role of each class in every fold."""

    n_rows: int | None  # None where they are not counted; there is one class then
    starts: IntArray | None  # first row of each class, where classes are runs of rows
    ids: IntArray | None  # class of each row, where they are not; -1 for rows that do not count
    roles: Mapping[str, IntArray]  # purpose: (folds, classes)
    #: Folds to which the rows of each task are dealt in their order, instead; 0 for none.
    n_dealt: int = 0

    @classmethod
    def one(cls, n_rows: int | None = None, n_dealt: int = 0) -> Classes:
        """No folds, but for those that rows of tasks are dealt to."""
        return cls(n_rows, np.zeros(1, dtype=np.intp), None, {}, n_dealt)

    @classmethod
    def of(
        cls, wanted: Sequence[Wanted], n_rows: int, used: BoolArray | None, groups: Any
    ) -> Classes:
        """Find the classes of so many rows; ``used`` says which of them count."""
        if not wanted:
            return cls.one(n_rows)
        if used is None and groups is None and all(is_number(want.cv) for want in wanted):
            return cls._contiguous(wanted, n_rows)
        if any(want.within is not None for want in wanted):
            raise InputError("folds inside folds are read of consecutive rows alone: use numbers.")
        return cls._scattered(wanted, n_rows, used, groups)

    @classmethod
    def _contiguous(cls, wanted: Sequence[Wanted], n_rows: int) -> Classes:
        """Of blocks of consecutive rows, each tested in turn; perhaps outside one stretch.

        That stretch is what another fold is judged by: its own folds know nothing of it, and go on
        behind it as if it were not there.
        """
        blocks: dict[str, tuple[IntArray, IntArray, Stretch]] = {}
        for want in wanted:
            if want.within is None:
                blocks[want.purpose] = *_blocks(want, n_rows), (0, 0)
                continue
            edges, tested = _blocks(want.within, n_rows)
            for fold, block in enumerate(tested):
                outer = int(edges[block]), int(edges[block + 1])
                blocks[want.inside(fold)] = *_blocks(want, n_rows, outer), outer
        cuts = np.concatenate([(*edges, *outer) for edges, _, outer in blocks.values()])
        starts = np.unique(cuts[cuts < n_rows]).astype(np.intp)
        roles = {}
        for purpose, (edges, tested, (first, behind)) in blocks.items():
            block = np.searchsorted(edges, starts, side="right") - 1
            role = np.where(block == tested[:, None], TEST, TRAIN)
            roles[purpose] = np.where((starts >= first) & (starts < behind), 0, role)
        return cls(n_rows, starts, None, roles)

    @classmethod
    def _scattered(
        cls, wanted: Sequence[Wanted], n_rows: int, used: BoolArray | None, groups: Any
    ) -> Classes:
        n_used = n_rows if used is None else int(used.sum())
        nothing = np.broadcast_to(0.0, (n_used, 1))
        sample = check.Sample(nothing, None, used)
        ids = np.zeros(n_used, dtype=np.intp)
        found: dict[str, list[IntArray]] = {}
        for want in wanted:
            cv = _number(want, n_used) if is_number(want.cv) else want.cv
            found[want.purpose] = []
            for train, test in check.read_folds(cv, sample, nothing, groups):
                if np.unique(train).size < train.size:
                    raise InputError(
                        f"cv={want.cv!r} draws rows several times, which sums of rows cannot "
                        "follow: use folds that divide the rows."
                    )
                role = np.zeros(n_used, dtype=np.intp)
                role[train] = TRAIN
                role[test] += TEST
                found[want.purpose].append(role)
                ids = np.unique(ids * (TRAIN + TEST + 1) + role, return_inverse=True)[1]
                if ids.max() >= MOST_CLASSES:
                    raise InputError(
                        f"the folds of cv={want.cv!r} divide the rows into more than "
                        f"{MOST_CLASSES} classes that would be summed up one by one: use fewer "
                        "folds."
                    )
        first = np.unique(ids, return_index=True)[1]
        roles = {
            purpose: np.array([role[first] for role in each]) for purpose, each in found.items()
        }
        if used is not None:
            every = np.full(n_rows, -1, dtype=np.intp)
            every[used] = ids
            ids = every
        return cls(n_rows, None, ids, roles)

    @property
    def n_classes(self) -> int:
        """How many there are."""
        return int(self.starts.size if self.ids is None else self.ids.max() + 1)  # type: ignore[union-attr]

    def tested(self, purpose: str, n_rows: int) -> IntArray:
        """In which fold each row is held out, where classes are runs of rows; -1 in none."""
        assert self.starts is not None
        roles = self.roles[purpose] == TEST
        fold = np.where(roles.any(axis=0), roles.argmax(axis=0), -1)
        return np.asarray(np.repeat(fold, np.diff(np.append(self.starts, n_rows))))

    def of_rows(self, start: int, n_rows: int) -> Classes:
        """The same for a chunk of rows by itself, for a worker that gets that chunk alone."""
        if self.ids is not None:
            return Classes(n_rows, None, self.ids[start : start + n_rows], {})
        assert self.starts is not None
        return Classes(n_rows, self.starts - start, None, {}, self.n_dealt)

    def parts(self, n_rows: int) -> Iterator[tuple[int, slice | IntArray]]:
        """Classes of the rows of a chunk, and which rows these are."""
        if self.ids is not None:
            for number in np.unique(self.ids[self.ids >= 0]).tolist():
                yield number, np.flatnonzero(self.ids == number)
            return
        assert self.starts is not None
        ends = np.append(self.starts[1:], np.iinfo(np.intp).max)
        for number, (first, last) in enumerate(zip(self.starts, ends, strict=True)):
            if first < n_rows and last > 0:
                yield number, slice(max(int(first), 0), min(int(last), n_rows))

    def folds(self, of_row: IntArray) -> dict[str, list[Split]]:
        """Folds of the rows that stand in, from the class of each."""
        return {
            purpose: [
                (np.flatnonzero(role & TRAIN), np.flatnonzero(role & TEST))
                for role in roles[:, of_row]
            ]
            for purpose, roles in self.roles.items()
        }


def is_number(cv: Any) -> bool:
    """Whether folds are given by how many there are."""
    return isinstance(cv, Integral) and not isinstance(cv, bool)


def _number(want: Wanted, n_rows: int) -> int:
    """Folds, checked as those of rows in memory are."""
    number = want.n_folds(n_rows)
    if number is None:
        refuse_folds(want.cv, n_rows)
    return number


def refuse_folds(cv: Any, n_rows: int) -> NoReturn:
    """Refuse folds of less than two rows."""
    raise InputError(
        f"cv={cv!r} cannot split {n_rows} rows: two folds or more are needed, of two rows or more "
        "each."
    )


def _blocks(want: Wanted, n_rows: int, left_out: Stretch = (0, 0)) -> tuple[IntArray, IntArray]:
    """Edges of blocks of the rows outside a stretch, and which are tested; they differ by a row."""
    first, behind = left_out
    n_divided = n_rows - (behind - first)
    n_folds = _number(want, n_divided)
    sizes = np.full(n_folds, n_divided // n_folds)
    sizes[: n_divided % n_folds] += 1
    edges = np.concatenate(([0], np.cumsum(sizes)))
    edges = np.where(edges >= first, edges + (behind - first), edges)
    return edges, np.arange(n_folds)[-1:] if want.is_last_alone else np.arange(n_folds)
