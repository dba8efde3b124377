"""Sums of one chunk of rows, of any array library, and their addition."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from ctfa import _validation as check
from ctfa._collections._devices import (
    is_foreign,
    join_on_device,
    moments_on_device,
    namespace,
    to_numpy,
)
from ctfa.core.moments import Moments, add_up
from ctfa.core.stand_ins import Summary
from ctfa.core.types import BoolArray, FloatArray, IntArray

Added = TypeVar("Added", Summary, Moments)


class Trouble(NamedTuple):
    """The first number that cannot be summed up."""

    row: int
    column: int
    value: float
    is_local: bool = False  # whether the row is the chunk's own, nobody knowing which of all


@dataclass(frozen=True, eq=False)
class Sums:
    """Summaries of the classes of some rows; ``a + b`` are those of both."""

    n_rows: int  # rows read, also those of weight zero
    classes: dict[Any, Summary]
    #: Per table (baseline, inputs, targets): what was found first that is no finite number.
    trouble: tuple[Trouble | None, ...]
    has_gaps: bool = False  # whether a target is missing somewhere
    digests: tuple[bytes, ...] = ()  # of each chunk's bytes, where they were wanted

    @property
    def n_samples(self) -> int:
        """Rows that count."""
        return sum(summary.n_samples for summary in self.classes.values())

    @property
    def are_moments(self) -> bool:
        """Whether rows of some class are gone, and only their sums are left."""
        return any(summary.rows is None for summary in self.classes.values())

    @property
    def total(self) -> Moments:
        """Moments of all rows."""
        return add_up(summary.moments for summary in self.classes.values())

    def __add__(self, other: Sums) -> Sums:
        trouble = tuple(
            min(filter(None, found), default=None)
            for found in zip(self.trouble, other.trouble, strict=True)
        )
        gaps = self.has_gaps or other.has_gaps
        classes = joined(self.classes, other.classes)
        digests = self.digests + other.digests
        return Sums(self.n_rows + other.n_rows, classes, trouble, gaps, digests)


def joined(classes: Mapping[Any, Added], more: Mapping[Any, Added]) -> dict[Any, Added]:
    """What both have of each class, added where both have something."""
    both = dict(classes)
    for key, part in more.items():
        both[key] = both[key] + part if key in both else part
    return both


class Parted(Protocol):
    """Whoever knows the classes of the rows of a chunk."""

    def parts(self, n_rows: int) -> Iterable[tuple[Any, slice | IntArray]]:
        """Classes, and which rows these are."""


def sum_up(
    tables: Sequence[Any],
    weights: Any,
    start: int | None,
    classes: Parted,
    *,
    digested: bool = False,
) -> Sums:
    """Sums of a chunk: baseline (or None), inputs and targets, and weights or None.

    ``start`` is the row of the data set that the chunk begins with, None where nobody knows, and
    ``classes`` are those of the chunk's own rows.
    """
    given = [table for table in tables if table is not None]
    n_rows = _same_height(tables, weights)
    columns = [as_column(table) for table in given]
    rows = _side_by_side(columns)
    each = None if weights is None else np.asarray(to_numpy(weights), dtype=np.float64)
    if each is not None:
        check.require_weights(each)
    found: dict[Any, Summary] = {}
    with np.errstate(invalid="ignore", over="ignore"):
        for number, where in classes.parts(n_rows):
            part = None if each is None else each[where]
            found[number] = _summary(rows, where, part)
    digests = (_digest(rows, each),) if digested else ()
    if all(_is_finite(summary) for summary in found.values()):
        return Sums(n_rows, found, (None,) * len(tables), digests=digests)
    return _with_trouble(Sums(n_rows, found, (), digests=digests), tables, start)


def as_column(table: Any) -> Any:
    """A table, where it lies; a vector becomes one of a single column."""
    if table.ndim == 2:
        return table
    shape = (int(table.shape[0]), 1)
    # Arrays of the standard have no method for it.
    return namespace(table).reshape(table, shape) if is_foreign(table) else table.reshape(shape)


def _digest(rows: Any, weights: FloatArray | None) -> bytes:
    """What a chunk is known by: its bytes, in short."""
    digest = hashlib.blake2b(np.ascontiguousarray(to_numpy(rows)).data, digest_size=16)
    if weights is not None:
        digest.update(np.ascontiguousarray(weights).data)
    return digest.digest()


def _summary(rows: Any, where: Any, weights: Any) -> Summary:
    if is_foreign(rows):
        return moments_on_device(rows, where, weights)
    return Summary.of(rows[where], weights)


def _side_by_side(columns: Sequence[Any]) -> Any:
    """All columns of a chunk in one float64 array, where they lie."""
    first = next((table for table in columns if is_foreign(table)), None)
    if first is not None:
        return join_on_device(columns, first)
    widths = [table.shape[1] for table in columns]
    rows = np.empty((columns[0].shape[0], sum(widths)))
    for end, table in zip(np.cumsum(widths), columns, strict=True):
        rows[:, end - table.shape[1] : end] = table
    return rows


def _same_height(tables: Sequence[Any], weights: Any) -> int:
    named = zip(("baseline", "X", "y", "sample_weight"), (*tables, weights), strict=True)
    heights = {name: int(table.shape[0]) for name, table in named if table is not None}
    check.require_same_heights(heights)
    return heights["X"]


def _is_finite(summary: Summary) -> bool:
    if summary.rows is not None:
        return bool(np.isfinite(summary.rows).all())
    sums = summary.moments
    return bool(np.isfinite(sums.mean).all() and np.isfinite(np.diagonal(sums.cross)).all())


def _with_trouble(sums: Sums, tables: Sequence[Any], start: int | None) -> Sums:
    """Say where the first number is that is not finite, table by table."""
    values = [None if table is None else _in_memory(table) for table in tables]
    trouble = [None if v is None else first_of(~np.isfinite(v), v, start) for v in values]
    gaps = False
    last = values[-1]
    if trouble[-1] is not None and last is not None:
        gaps = bool(np.isnan(last).any())
        # Infinity is refused even where missing values are not.
        trouble[-1] = first_of(np.isinf(last), last, start) or trouble[-1]
    return Sums(sums.n_rows, sums.classes, tuple(trouble), gaps, sums.digests)


def _in_memory(table: Any) -> FloatArray:
    return np.asarray(as_column(np.asarray(to_numpy(table), dtype=np.float64)))


def first_of(bad: BoolArray, values: FloatArray, start: int | None) -> Trouble | None:
    """The first of the numbers that are bad."""
    found = np.argwhere(bad)
    if not found.size:
        return None
    row, column = map(int, found[0])
    return Trouble((start or 0) + row, column, float(values[row, column]), start is None)


def magnitude(classes: Sequence[Summary]) -> FloatArray:
    """Root mean square of each column."""
    total: Any = 0.0
    weight = 0.0
    for summary in classes:
        sums = summary.moments
        total = total + np.diagonal(sums.cross) + sums.weight * sums.mean**2
        weight += sums.weight
    return np.asarray(np.sqrt(total / max(weight, np.finfo(float).tiny)))
