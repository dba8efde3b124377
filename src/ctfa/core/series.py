"""Tasks that have inputs of their own: all their series in one array."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ctfa.core.confounds import Confounds, Lines
from ctfa.core.design import EPS, row_scales
from ctfa.core.moments import Moments, StandIns
from ctfa.core.types import AnyArray, BoolArray, FloatArray, IntArray

#: Numbers handled at once: eight megabytes.
CHUNK = 1 << 20
#: A standard deviation below this share of the largest value is rounding.
CONSTANT = 8.0 * EPS
#: What stands in for a slot that a task does not have.
NO_COLUMN = -1


class Units(NamedTuple):
    """Offset and scale of every series, ``(tasks, slots + 1)``, the target last.

    A standardised value is ``(value - offset) / scale``, with confounds
    ``(value - offset - (columns - centre) @ slopes) / scale``. A series that a task lacks has
    offset 0 and scale 1.
    """

    offsets: FloatArray
    scales: FloatArray
    slopes: FloatArray | None = None  # (tasks, slots + 1, columns of the confounds)
    centre: FloatArray | None = None  # (columns,)

    def of_targets(self) -> tuple[FloatArray, FloatArray, Lines | None]:
        """Offsets and scales of the targets, and what confounds say of them."""
        offsets, lines = self.offsets[:, -1], None
        if self.slopes is not None and self.centre is not None:
            lines = Lines(offsets, self.slopes[:, -1], self.centre)
        return offsets, self.scales[:, -1], lines


@dataclass(frozen=True, eq=False)
class Series:
    """The slots of each task (its rain, its temperature ...) and its target, over the same rows.

    Parameters
    ----------
    values : array of shape (tasks, slots + 1, rows)
        The slots and, last, the target; NaN is missing.
    has : boolean array of shape (tasks, slots)
        Which slots a task has at all; one that it lacks is NaN in every row.
    weights : array of shape (rows,), optional
        How much each row counts, summing to the number of rows.
    is_centred : bool
        Whether every series is known to have mean zero over what it has.
    confounds : array of shape (rows, columns), optional
        What every series is regressed on before anything else (``standardised``).
    task_weights : array of shape (tasks,), optional
        How much each task counts in a mean of tasks and in their total risk, of mean one.
    counts : array of shape (rows,), optional
        How many rows each stands for, where rows stand in for others (``core/stand_ins.py``); the
        weights then sum to their number.
    """

    values: FloatArray
    has: BoolArray
    weights: FloatArray | None = None
    is_centred: bool = False
    confounds: FloatArray | None = None
    task_weights: FloatArray | None = None
    counts: FloatArray | None = None

    @classmethod
    def of(
        cls,
        X: AnyArray,
        layout: IntArray,
        Y: AnyArray,
        weights: FloatArray | None = None,
        confounds: FloatArray | None = None,
        task_weights: FloatArray | None = None,
        counts: FloatArray | None = None,
    ) -> Series:
        """Gather from a table of inputs ``(rows, columns)`` and targets ``(rows, tasks)``.

        ``layout[task, slot]`` is the column of ``X``, -1 where the task has no such slot. A column
        may serve many tasks. A column without a single value counts as no slot at all.
        """
        layout = np.asarray(layout)
        n_rows, n_columns = X.shape
        n_tasks, n_slots = layout.shape
        values = np.empty((n_tasks, n_slots + 1, n_rows))
        has = layout != NO_COLUMN
        for part in _chunks(values):
            if n_slots and n_columns:
                values[part, :-1] = X.T[layout[part]]  # the last column where there is none
            values[part, :-1][~has[part]] = np.nan
            values[part, -1] = Y.T[part]
        return cls(
            values,
            has & _seen(values),
            _normalised(weights, counts),
            confounds=confounds,
            task_weights=task_weights,
            counts=counts,
        )

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return int(self.values.shape[0])

    @property
    def n_slots(self) -> int:
        """Number of slots, of the task that has most and more where tasks differ."""
        return int(self.has.shape[1])

    @property
    def n_rows(self) -> int:
        """Number of rows, those of weight zero too."""
        return int(self.values.shape[2])

    @property
    def n_samples(self) -> int:
        """Number of rows that count, or that these stand for."""
        if self.counts is not None:
            return round(float(self.counts.sum()))
        return self.n_rows if self.weights is None else int(np.count_nonzero(self.weights))

    @cached_property
    def is_complete(self) -> bool:
        """Whether every slot that a task has, and its target, is observed in every row."""
        for part in _chunks(self.values):
            known = np.asarray(~np.isnan(self.values[part]).any(axis=2))
            if not (known[:, -1].all() and known[:, :-1][self.has[part]].all()):
                return False
        return True

    def take(self, rows: IntArray | BoolArray | slice) -> Series:
        """Return some of the rows; a slot without a value there is one that the task lacks."""
        values = np.take(self.values, np.arange(self.n_rows)[rows], axis=2)
        counts = None if self.counts is None else self.counts[rows]
        weights = None if self.weights is None else _normalised(self.weights[rows], counts)
        confounds = None if self.confounds is None else self.confounds[rows]
        return replace(
            self,
            values=values,
            has=self.has & _seen(values),
            weights=weights,
            is_centred=False,
            confounds=confounds,
            counts=counts,
        )

    def of_tasks(self, tasks: IntArray) -> Series:
        """Return some of the tasks."""
        own = None if self.task_weights is None else self.task_weights[tasks]
        return replace(self, values=self.values[tasks], has=self.has[tasks], task_weights=own)

    def standardised(self, scale: str, *, overwrite: bool = False) -> tuple[Series, Units]:
        """Bring every series to its own units, over the values it has (by their weights).

        ``"standard"`` takes off the mean and divides by the standard deviation (that of the rows,
        not of a population), ``"center"`` takes off the mean, ``"none"`` does nothing. With
        confounds their fit takes the place of the mean, the residuals that of the centred series. A
        constant series, whose spread is rounding beside its values, becomes zeros with scale 1, so
        that its own units give the constant back. The mean is taken in two sweeps, the second about
        the first, so that a large offset costs no digits. With ``overwrite`` the array is changed.
        """
        shape = self.values.shape[:2]
        offsets, scales = np.zeros(shape), np.ones(shape)
        if scale == "none":
            if self.confounds is not None:
                raise ValueError("scale is 'none', and confounds take levels off: use 'center'.")
            return self, Units(offsets, scales)
        values = self.values if overwrite else self.values.copy()
        weights = np.ones(self.n_rows) if self.weights is None else self.weights
        factored, slopes = self.factored_confounds, None
        if factored is not None:
            slopes = np.zeros((*shape, factored.centre.size))
        for part in _chunks(values):
            rows = values[part]
            if factored is None or slopes is None or not factored.rank:
                offsets[part], spread = centre(rows, weights)
            else:
                flat = rows.reshape(-1, self.n_rows)  # a view: the array is changed
                lines, left = factored.take_off(flat)
                offsets[part] = lines.levels.reshape(rows.shape[:2])
                slopes[part] = lines.slopes.reshape(*rows.shape[:2], -1)
                spread = left.reshape(rows.shape[:2])
            if scale == "standard":
                scales[part] = np.where(spread > 0.0, spread, 1.0)
                rows /= scales[part][:, :, None]
        found = replace(self, values=values, is_centred=True)
        middle = None if factored is None else factored.centre
        return found, Units(offsets, scales, slopes, middle)

    def in_units(self, units: Units, *, overwrite: bool = False) -> Series:
        """Return the same in units that were found on other rows."""
        values = self.values if overwrite else self.values.copy()
        if units.slopes is None or units.centre is None:
            values -= units.offsets[:, :, None]
            values /= units.scales[:, :, None]
            return replace(self, values=values, is_centred=False)
        assert self.confounds is not None
        about = (self.confounds - units.centre).T
        for part in _chunks(values):
            values[part] -= units.offsets[part][:, :, None] + units.slopes[part] @ about
            values[part] /= units.scales[part][:, :, None]
        return replace(self, values=values, is_centred=False)

    @cached_property
    def factored_confounds(self) -> Confounds | None:
        """The confounds over the rows that count; None without one."""
        if self.confounds is None:
            return None
        return Confounds.of(self.confounds, self.weights, self.n_samples)

    @property
    def n_spent(self) -> int:
        """Degrees of freedom that the confounds take of every series, beside the mean.

        Zero with gaps, where rows are counted as they are: each series has rows of its own.
        """
        factored = self.factored_confounds
        return 0 if factored is None or not self.is_complete else factored.rank

    def free_rows(self) -> Series:
        """Return the same, standardised, with as many rows as the confounds leave free.

        The number of rows then counts the confounds' degrees of freedom (``Confounds.free_rows``);
        every inner product is what it was, by the weights, which are used up. As they are where
        there are no confounds, or a gap.
        """
        factored = self.factored_confounds
        if factored is None or not self.n_spent:
            return self
        free = factored.free_rows(self.values)
        counts = None
        if self.counts is not None:
            # Of rows that stand in for others each stands for fewer, by the share that is spent.
            counts = np.full(free.shape[2], (self.n_samples - factored.rank) / free.shape[2])
            free /= np.sqrt(counts)
        own = self.task_weights
        return Series(free, self.has, counts, is_centred=True, task_weights=own, counts=counts)

    def compressed(self) -> Series:
        """Return rows that stand in for others in as few as all series need, moments as they were.

        Rows that were summed up fold by fold are that many for every fold: to compare tasks, all
        folds together need one. Rows that are themselves stay.
        """
        known = np.concatenate((self.has, np.ones((self.n_tasks, 1), dtype=bool)), axis=1)
        n_series = int(np.count_nonzero(known))
        if self.counts is None or self.n_rows <= n_series + 1 or not self.is_complete:
            return self
        moments = replace(Moments.of(self.values[known].T, self.weights), n_samples=self.n_samples)
        rows, counts, weights = StandIns.of(moments)
        values = np.full((*known.shape, rows.shape[0]), np.nan)
        values[known] = rows.T
        return replace(self, values=values, weights=weights, counts=counts, confounds=None)


def centre(rows: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Centre the last axis in place over what is observed; return means and standard deviations.

    A constant series becomes zeros, with a deviation of zero.
    """
    gaps = np.isnan(rows)
    weight: FloatArray = np.where(gaps, 0.0, weights)
    total = np.maximum(weight.sum(axis=-1), np.finfo(np.float64).tiny)
    largest = np.where(gaps | (weight == 0.0), 0.0, np.abs(rows)).max(axis=-1, initial=0.0)
    mean = np.zeros(rows.shape[:-1])
    for _ in range(2):
        step = np.where(gaps, 0.0, weight * rows).sum(axis=-1) / total
        rows -= step[..., None]
        mean += step
    spread = np.sqrt(np.where(gaps, 0.0, weight * rows**2).sum(axis=-1) / total)
    constant = spread <= CONSTANT * largest
    rows[constant[..., None] & ~gaps & (weight > 0.0)] = 0.0
    return mean, np.where(constant, 0.0, spread)


def _normalised(weights: FloatArray | None, counts: FloatArray | None = None) -> FloatArray | None:
    """Weights that sum to the number of rows that count, zeros kept."""
    if weights is None:
        return None
    weights = np.asarray(weights, dtype=float)
    n_samples = None if counts is None else round(float(counts.sum()))
    used, row_scale = row_scales(weights.size, weights, n_samples)
    normalised = np.zeros(weights.size)
    normalised[used] = row_scale**2
    return normalised


def _seen(values: FloatArray) -> BoolArray:
    """Whether a slot has a value in any row."""
    seen = np.empty((values.shape[0], values.shape[1] - 1), dtype=bool)
    for part in _chunks(values):
        seen[part] = ~np.isnan(values[part, :-1]).all(axis=2)
    return seen


def _chunks(values: AnyArray) -> Iterator[slice]:
    """Tasks, so many at once that temporary arrays stay small."""
    width = max(1, CHUNK // max(1, values.shape[1] * values.shape[2]))
    for start in range(0, values.shape[0], width):
        yield slice(start, min(start + width, values.shape[0]))
