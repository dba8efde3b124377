"""Baselines: climatology and persistence, which predict without features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ctfa import _calendar as calendar
from ctfa import _reading as check
from ctfa.core.confounds import climatology_of, solved
from ctfa.core.types import BoolArray, FloatArray, IntArray

#: Their names, beside models.
CLIMATOLOGY, PERSISTENCE, ANOMALIES = "climatology", "persistence", "anomaly persistence"
ZEROS = (CLIMATOLOGY, PERSISTENCE, ANOMALIES)
#: Seasons of rows of months or finer steps.
SEASONS = ("DJF", "MAM", "JJA", "SON")
QUARTERS = ("January-March", "April-June", "July-September", "October-December")
#: What a mean without a calendar is called.
OF_TRAINING = "of the training rows"


class Zeros(NamedTuple):
    """What is known of rows without features: their part of the calendar, and the row before.

    Climatology is a mean of the training rows, or what regressions on ``columns`` say there.
    Persistence is the target's value one step before each row: a forecaster knows it, whether that
    row is held out or not. Where it is missing, and in the first row, climatology stands for it.
    """

    columns: FloatArray | None = None  # (n, p) of the calendar; None: those of the confounds
    before: IntArray | None = None  # (n,): the row one step before each, -1 where there is none
    season: IntArray | None = None  # (n,)
    seasons: tuple[str, ...] = ()  # their names
    climatology: str = f"the mean {OF_TRAINING}"
    persistence: str = "rows without times have no order"  # what it is, or why there is none
    labels: Sequence[str] = ()  # of the rows
    #: Of rows that others stand in for: squared errors, ``(n_blocks, m)``, and what blocks are.
    squares: Mapping[str, FloatArray] | None = None
    blocks: Sequence[str] = ()

    @classmethod
    def of(cls, times: Any, labels: Sequence[str] | None = None) -> Zeros:
        """Those of rows at these times: dates of any calendar, or numbers."""
        index = calendar.index_of(times)
        try:
            days = calendar.days_of(index)
        except TypeError:
            return cls()
        labels = list(map(str, index)) if labels is None else labels
        before = calendar.rows_before(days)
        known: dict[str, Any] = {"before": before, "labels": labels}
        if before is None:
            known["persistence"] = "several rows have the same time, or one has none"
        else:
            known["persistence"] = f"of the {calendar.step_words(index)} before"
        cycles = calendar.cycles_of(index)
        if cycles:
            parts = [calendar.columns_of(index, part) for part in cycles]
            known["columns"] = np.concatenate(parts, axis=1)
            said = {"dayofyear": "yearly cycle"}
            words = " and ".join(said.get(part, f"{part} means") for part in cycles)
            known["climatology"] = f"the {words} {OF_TRAINING}"
        step = calendar.step_of(days)
        # Of months and finer steps; quarters where steps are longer.
        if (
            calendar.is_dated(index)
            and 0.0 < step < 0.4 * calendar.YEAR
            and np.isfinite(days).all()
        ):
            by_month = step < 1.5 * 31.0
            month = calendar.part_of(index, "month").astype(np.intp)
            known["season"] = month % 12 // 3 if by_month else (month - 1) // 3
            known["seasons"] = SEASONS if by_month else QUARTERS
        return cls(**known)

    @property
    def persistence_words(self) -> str:
        """What persistence is, or why there is none."""
        return f"{'none: ' if self.before is None else 'the value '}{self.persistence}"

    @property
    def words(self) -> dict[str, str]:
        """What each of them predicts."""
        return words_of(self.climatology, self.persistence)

    def take(self, rows: Any) -> Zeros:
        """The same of some of the rows, a mask."""
        if rows is None:
            return self
        place = np.where(rows, np.cumsum(rows) - 1, -1)
        before = None if self.before is None else self.before[rows]
        return self._replace(
            columns=None if self.columns is None else self.columns[rows],
            before=None if before is None else np.where(before >= 0, place[before], -1),
            season=None if self.season is None else self.season[rows],
            labels=[one for one, kept in zip(self.labels, rows, strict=True) if kept]
            if self.labels
            else (),
        )

    def predict(
        self,
        values: FloatArray,
        train: IntArray,
        test: IntArray,
        weights: FloatArray | None,
        confounds: FloatArray | None,
    ) -> dict[str, FloatArray]:
        """Predictions of some rows by each of them, learned from others."""
        columns = confounds if self.columns is None else self.columns
        if columns is None:
            columns = np.empty((len(values), 0))
        lines = climatology_of(
            values[train], columns[train], None if weights is None else weights[train]
        )
        level = lines.at(columns[test])
        found = {CLIMATOLOGY: level}
        if self.before is None:
            return found
        before = self.before[test]
        last = np.where((before >= 0)[:, None], values[before], np.nan)
        known = np.isfinite(last)
        found[PERSISTENCE] = np.where(known, last, level)
        if columns.shape[1]:
            anomaly = last - lines.at(columns[before])
            found[ANOMALIES] = level + np.where(known, anomaly, 0.0)
        return found

    def span(self, rows: IntArray, number: int) -> str:
        """What a held-out block is called: its first and last row, where it is one."""
        rows = np.sort(rows)
        if not len(self.labels) or not rows.size or rows[-1] - rows[0] + 1 != rows.size:
            return f"fold {number + 1}"
        return f"{self.labels[rows[0]]} to {self.labels[rows[-1]]}"


def words_of(climatology: str, before: str) -> dict[str, str]:
    """What each of them predicts, by name."""
    said = (climatology, f"the value {before}", f"the anomaly {before}")
    return dict(zip(ZEROS, said, strict=True))


def read_zeros(times: Any, X: Any, y: Any, sample: check.Sample) -> Zeros:
    """Those of the rows of a fit that count, from times that are given, or those of its tables."""
    times = times_of(y, X) if times is None else times
    said = "" if sample.confounds is None else " and what their confounds say"
    climatology = f"the mean {OF_TRAINING}{said}"
    if times is None:
        return Zeros(climatology=climatology)
    check.require_same_rows(len(times), sample.n_given, "times")
    found = Zeros.of(times).take(sample.used)
    if not found.labels:
        raise ValueError(
            "times holds neither dates nor numbers: give one of them for each row, such as "
            "pandas.to_datetime(times), or leave times out."
        )
    if sample.confounds is None:
        return found
    return found._replace(columns=None, climatology=climatology)


def beside_zeros(error: FloatArray, zeros: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """Errors of what predicts without features, and what a model saves of them, by column."""
    columns = {f"{name.replace(' ', '_')}_error": found for name, found in zeros.items()}
    for name, found in zeros.items():
        share = np.divide(error, found, out=np.full(error.shape, np.nan), where=found > 0.0)
        over = "" if name == CLIMATOLOGY else f"_over_{name.replace(' ', '_')}"
        columns[f"skill{over}"] = 1.0 - share
    return columns


def times_of(*tables: Any) -> Any:
    """Dates that the first of some tables has for an index; None where none has."""
    for table in tables:
        index = getattr(table, "index", None)
        if hasattr(table, "indexes") and hasattr(table, "dims"):  # of xarray
            index = table.indexes.get(table.dims[0])
        # Not those of Dask, whose labels are not known before they are computed.
        is_here = type(index).__module__.partition(".")[0] in ("pandas", "xarray")
        if is_here and (calendar.is_dated(index) or hasattr(index, "to_timestamp")):
            return index
    return None


# -- The same from sums, of rows that are not in memory


@dataclass(frozen=True, eq=False)
class Summing:
    """What chunks of rows are asked, so that squared errors follow from sums.

    Errors are linear in the coefficients of climatology, which are known at the end: their squares
    follow from products of series with ``(1, columns)``. So do those of persistence, of steps from
    row to row; the step into a chunk is made where chunks are added.
    """

    columns: FloatArray  # (n, q): ones, and those of climatology
    steps: FloatArray  # (n, q): from the row before; where there is none, the columns themselves
    has_before: BoolArray  # (n,)
    block: IntArray  # (n,): in which each row is held out

    @classmethod
    def of(cls, zeros: Zeros, confounds: FloatArray | None, block: IntArray) -> Summing:
        """Ask for these blocks of rows, which are in the order of time."""
        given = confounds if zeros.columns is None else zeros.columns
        ones = np.ones((block.size, 1))
        whole = ones if given is None else np.concatenate([ones, given], axis=1)
        has = np.zeros(block.size, dtype=bool)
        if zeros.before is not None:
            has = zeros.before == np.arange(block.size) - 1
            has[0] = False
        steps = np.where(has[:, None], whole - np.roll(whole, 1, axis=0), whole)
        return cls(whole, steps, has, block)

    @np.errstate(invalid="ignore", over="ignore")  # reading the rows refuses bad values
    def __call__(self, start: int, values: FloatArray) -> Summed:
        """Sums of a chunk that begins with this row."""
        values = np.asarray(values, dtype=np.float64)
        rows = start + np.arange(len(values))
        moved = np.diff(values, axis=0, prepend=values[:1])
        moved = np.where(self.has_before[rows, None], moved, values)
        # The step into a chunk is known where another one ends.
        has = self.has_before[rows]
        stepped = has & (rows > start)
        sums = {}
        for block in np.unique(self.block[rows]).tolist():
            own = self.block[rows] == block
            sums[block] = np.array(
                [
                    _products(table[kept], columns[rows[kept]])
                    for table, columns, kept in (
                        (values, self.columns, own),
                        (moved, self.steps, own & stepped),
                        (moved, self.steps, own & ~has),
                    )
                ]
            )
        into = self.steps[start] if has[0] else None
        ends = values[0], values[-1]
        return Summed(start, start + len(values), *ends, int(self.block[start]), into, sums)

    def errors(self, found: Summed, zeros: Zeros) -> Zeros:
        """With squared errors, climatology learned on the rows that are not in the block.

        Models are judged by block alone then.
        """
        each: list[tuple[FloatArray, ...]] = []
        blocks = [np.flatnonzero(self.block == n) for n in range(int(self.block.max()) + 1)]
        whole = np.sum(list(found.sums.values()), axis=0)[0]
        for number, rows in enumerate(blocks):
            sums, has = found.sums[number], self.has_before[rows]
            coef = _coefficients(whole - sums[0], np.delete(self.columns, rows, axis=0))
            steps = self.steps[rows]
            level = _squares(sums[0], self.columns[rows], coef)
            moved, begun = _squares(sums[1], steps[has], coef), _squares(sums[2], steps[~has], coef)
            each.append((level, sums[1, 0] + begun, moved + begun))
        n_zeros = 1 if zeros.before is None else 3 if self.columns.shape[1] > 1 else 2
        squares = dict(zip(ZEROS[:n_zeros], map(np.array, zip(*each, strict=True)), strict=False))
        spans = [zeros.span(rows, n) for n, rows in enumerate(blocks)]
        return zeros._replace(season=None, seasons=(), squares=squares, blocks=spans)


@dataclass(frozen=True, eq=False)
class Summed:
    """Sums of consecutive rows by block; ``a + b`` are those of both, b beginning where a ends.

    Of squares, and of products with columns: of the rows themselves, of steps into rows, and of
    rows without one before.
    """

    start: int
    stop: int
    first: FloatArray
    last: FloatArray
    block: int  # of the first row
    into: FloatArray | None  # the step of the columns into it; None where no row is before
    sums: dict[int, FloatArray]  # (3, 1 + q, m)

    @np.errstate(invalid="ignore", over="ignore")
    def __add__(self, other: Summed) -> Summed:
        if self.stop != other.start:
            raise RuntimeError(f"row {self.stop} of the data is not followed by {other.start}.")
        sums = dict(self.sums)
        for block, more in other.sums.items():
            sums[block] = sums[block] + more if block in sums else more
        if other.into is not None:
            stepped = np.zeros_like(sums[other.block])
            stepped[1] = _products((other.first - self.last)[None], other.into[None])
            sums[other.block] = sums[other.block] + stepped
        return Summed(self.start, other.stop, self.first, other.last, self.block, self.into, sums)


def _products(values: FloatArray, columns: FloatArray) -> FloatArray:
    """Squares of series, and their products with columns: ``(1 + q, m)``."""
    return np.concatenate([np.einsum("nm,nm->m", values, values)[None], columns.T @ values])


def _squares(sums: FloatArray, columns: FloatArray, coef: FloatArray) -> FloatArray:
    """Squared errors of ``columns @ coef``, from sums."""
    explained = (coef * (columns.T @ columns @ coef)).sum(axis=0)
    left = sums[0] - 2.0 * (coef * sums[1:]).sum(axis=0) + explained
    return np.asarray(np.maximum(left, 0.0))


def _coefficients(sums: FloatArray, columns: FloatArray) -> FloatArray:
    """Of ones and columns ``(q, m)``, by least squares from sums over the rows to learn from."""
    n_rows, others = len(columns), columns[:, 1:]
    level, centre = sums[1] / n_rows, others.mean(axis=0)
    product = sums[2:] - np.outer(centre * n_rows, level)
    total = np.array([float(n_rows)])
    found = solved(total, level, centre[None], (others.T @ others)[None], product.T)
    return np.concatenate([found.levels[None], found.slopes.T])
