"""Sums of a chunk of rows, of any array library; their addition, and the digits they keep."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ctfa import _reading as check
from ctfa._errors import InputError
from ctfa._reading.sums.devices import join_on_device, moments_on_device, namespace
from ctfa.core.moments import DOUBTFUL_SQUARE, Moments, Summary, add_up
from ctfa.core.types import BoolArray, FloatArray, IntArray
from ctfa.kernels.devices import is_foreign, to_numpy

#: Columns of confounds that depend on each other by construction leave no more than this.
DEPENDENT = 1e-12
#: Rows that stand in for others carry their means, in whose digits deviations are written.
FAR = 1e9


class Trouble(NamedTuple):
    """The first number that cannot be summed up."""

    row: int
    column: int
    value: float
    is_local: bool = False  # whether the row is counted within its chunk


@dataclass(frozen=True, eq=False)
class Sums:
    """Summaries of the classes of some rows; ``a + b`` are those of both."""

    n_rows: int  # rows read, also those of weight zero
    classes: dict[Any, Summary]
    #: Per table (confounds, inputs, targets): the first number that is not finite.
    trouble: tuple[Trouble | None, ...]
    has_gaps: bool = False  # whether a target is missing somewhere
    more: Any = None  # what else was computed from the same rows, of each chunk in turn

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

    @property
    def magnitude(self) -> FloatArray:
        """Root mean square of each column."""
        with np.errstate(over="ignore", invalid="ignore"):
            total = self.total
            return np.sqrt(np.diagonal(total.cross) / total.weight + total.mean**2)

    def __add__(self, other: Sums) -> Sums:
        trouble = tuple(
            min(filter(None, found), default=None)
            for found in zip(self.trouble, other.trouble, strict=True)
        )
        gaps = self.has_gaps or other.has_gaps
        classes = joined(self.classes, other.classes)
        more = None if self.more is None else self.more + other.more
        return Sums(self.n_rows + other.n_rows, classes, trouble, gaps, more)


def joined(classes: Mapping[Any, Any], more: Mapping[Any, Any]) -> dict[Any, Any]:
    """What both have of each class, added where both have something."""
    both = dict(classes)
    for key, part in more.items():
        both[key] = both[key] + part if key in both else part
    return both


def sum_up(
    tables: Sequence[Any],
    weights: Any,
    start: int | None,
    parts: Iterable[tuple[Any, slice | IntArray]],
) -> Sums:
    """Sums of a chunk: confounds (or None), inputs and targets, and weights or None.

    ``start`` is the row of the data set that the chunk begins with, None where that is unknown, and
    ``parts`` are the classes of the chunk's own rows, and which rows these are.
    """
    named = zip(("confounds", "X", "y", "sample_weight"), (*tables, weights), strict=True)
    heights = {name: int(table.shape[0]) for name, table in named if table is not None}
    for name, n_rows in heights.items():
        if n_rows != heights["X"]:
            raise InputError(
                f"a chunk of {name} has {n_rows} rows where that of X has {heights['X']}: pass "
                "the same samples in all, in chunks of the same rows."
            )
    rows = _side_by_side([as_column(table) for table in tables if table is not None])
    each = None if weights is None else np.asarray(to_numpy(weights), dtype=np.float64)
    if each is not None:
        check.require_weights(each)
    found: dict[Any, Summary] = {}
    with np.errstate(invalid="ignore", over="ignore"):
        for number, where in parts:
            own = None if each is None else each[where]
            found[number] = (
                moments_on_device(rows, where, own)
                if is_foreign(rows)
                else Summary.of(rows[where], own)
            )
    trouble: tuple[Trouble | None, ...] = (None,) * len(tables)
    gaps = False
    if not all(map(_is_finite, found.values())):
        trouble, gaps = _trouble(tables, start)
    return Sums(heights["X"], found, trouble, gaps)


def as_column(table: Any) -> Any:
    """A table, where it lies; a vector becomes one of a single column."""
    if table.ndim == 2:
        return table
    shape = (int(table.shape[0]), 1)
    # Arrays of the standard have no method for it.
    return namespace(table).reshape(table, shape) if is_foreign(table) else table.reshape(shape)


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


def _is_finite(summary: Summary) -> bool:
    if summary.rows is not None:
        return bool(np.isfinite(summary.rows).all())
    sums = summary.moments
    return bool(np.isfinite(sums.mean).all() and np.isfinite(np.diagonal(sums.cross)).all())


def _trouble(tables: Sequence[Any], start: int | None) -> tuple[tuple[Trouble | None, ...], bool]:
    """Where the first number is that is not finite, table by table; whether a target is missing."""
    values = [
        None if table is None else as_column(np.asarray(to_numpy(table), dtype=np.float64))
        for table in tables
    ]
    first = [None if v is None else first_of(~np.isfinite(v), v, start) for v in values]
    last = values[-1]
    if last is None or first[-1] is None:
        return tuple(first), False
    # Infinity is refused even where missing values are not.
    first[-1] = first_of(np.isinf(last), last, start) or first[-1]
    return tuple(first), bool(np.isnan(last).any())


def first_of(bad: BoolArray, values: FloatArray, start: int | None) -> Trouble | None:
    """The first of the numbers that are bad."""
    found = np.argwhere(bad)
    if not found.size:
        return None
    row, column = map(int, found[0])
    return Trouble((start or 0) + row, column, float(values[row, column]), start is None)


class Digits(NamedTuple):
    """Smallest eigenvalues of cross-products at unit length, of which rounding is about 1e-16."""

    inputs: float  # of the inputs of a fit
    targets: float  # of targets among each other, and of what inputs leave of them
    offset: float  # largest mean of a column in units of its spread

    @classmethod
    def of(
        cls, total: Moments, widths: tuple[int, int, int], together: Sequence[IntArray] | None
    ) -> Digits:
        """Of the sums of all rows; ``together`` are the inputs of each fit, where not all are."""
        n_confounds, n_inputs, n_targets = widths
        # Indicators of all months add up to one, as expected: inputs are judged alone.
        is_dependent = n_confounds > 0 and total.weakest(np.arange(n_confounds)) < DEPENDENT
        known = np.arange(0 if is_dependent else n_confounds)
        inputs = n_confounds + np.arange(n_inputs)
        targets = n_confounds + n_inputs + np.arange(n_targets)
        every = [inputs] if together is None else [n_confounds + own for own in together]
        asked = [np.concatenate((known, own)) for own in every]
        if together is None:
            judged = [np.concatenate((inputs, targets))]
        else:
            pairs = zip(every, targets, strict=True)
            judged = [targets, *(np.append(own, target) for own, target in pairs)]
        spread = np.sqrt(np.maximum(np.diagonal(total.cross), 0.0) / max(total.weight, 1.0))
        varies = spread > 0.0
        offset = np.abs(total.mean[varies]) / spread[varies]
        return cls(_weakest(total, asked), _weakest(total, judged), float(offset.max(initial=0.0)))

    @property
    def are_doubtful(self) -> bool:
        """Whether the rows could decide differently."""
        return min(self.inputs, self.targets) < DOUBTFUL_SQUARE or self.offset > FAR

    def warn_if_doubtful(self) -> None:
        """Warn when sums of squares have lost digits that rows would have kept."""
        if not self.are_doubtful:
            return
        if self.inputs < DOUBTFUL_SQUARE:
            what, instead = "columns of X (and of the confounds) depend on each other", "columns"
        elif self.targets < DOUBTFUL_SQUARE:
            what, instead = "targets depend on each other, or on columns of X,", "targets"
        else:
            digits = max(16 - round(np.log10(self.offset)), 0)
            check.warn(
                f"a column has a mean of {self.offset:.0e} times its spread: rows that stand in "
                f"for others have {digits} digits of its spread left, and merges may differ from "
                "those of the rows. Subtract a number near its mean first."
            )
            return
        share = np.sqrt(max(min(self.inputs, self.targets), 0.0))
        check.warn(
            f"{what} up to {max(share, 1e-8):.0e} of their spread: sums of squares see a part "
            "below 1e-5 with few digits and below 1e-7 not at all, where rows in memory would, and "
            f"merges may differ. Where {instead} depend on each other by construction (indicators "
            "of all months) nothing is wrong; drop one to stop this warning."
        )


def _weakest(total: Moments, sets: Iterable[IntArray]) -> float:
    known = (total.weakest(at) for at in sets if total.n_samples > at.size + 1)
    return min(known, default=1.0)
