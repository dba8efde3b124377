"""How far predictions err: intervals calibrated on held-out rows.

Errors of held-out rows are put in units of each target's own size of error, which is drawn towards
that of its group, and their quantiles are pooled within groups: short series borrow the residuals
of their group. Where the size of errors can be predicted from what is known of a row before its
target (the prediction, the confounds, the inputs), and held-out blocks of rows agree, errors are in
units of that size, too: locally scaled conformal prediction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from ctfa.core.types import BoolArray, FloatArray, IntArray

#: Normal scores at which quantiles of errors are kept: from 1 in 9,000 to its opposite.
SCORES = np.linspace(-3.7, 3.7, 75)
#: Errors of other groups count, all together, as this many of a group's own.
BORROWED = 50.0
#: Size of errors about a target's own: from a quarter to four times.
LEAST, MOST = 0.25, 4.0
#: Largest number of entries to learn from; more would say little new.
ENOUGH = 6000
#: Largest number of columns that the size of errors may follow; and their ridge penalty per row.
MOST_COLUMNS, PENALTY = 10, 0.02
#: Standard errors by which such columns must pay on held-out blocks.
PAYS = 0.5
#: Inputs of a target up to which errors may follow them.
MOST_INPUTS = 100
#: Spreads of an input at which its distance is cut off.
FAR = 4.0
#: Mean absolute error of a normal one of standard deviation one.
NORMAL = float(np.sqrt(2.0 / np.pi))

#: What is known of rows for targets, which are broadcast against each other.
Column = Callable[[IntArray, IntArray], FloatArray]


class Errors(NamedTuple):
    """Errors on held-out rows, one entry per row and target."""

    error: FloatArray  # (N,): true less predicted
    predicted: FloatArray  # (N,)
    target: IntArray  # (N,)
    row: IntArray  # (N,): of those that are told about
    fold: IntArray  # (N,): which block of rows it was in
    weight: FloatArray | None = None  # (N,)

    def take(self, at: IntArray | BoolArray) -> Errors:
        """Some of the entries."""
        return Errors(*(None if one is None else one[at] for one in self))  # type: ignore[arg-type]


class Known(NamedTuple):
    """What is known of a row besides predictions, in units of its spread: confounds and inputs.

    Errors may grow with a confound (a season), with how far inputs are from their means, or with
    the inputs themselves; with those of a target, and with what those of all targets are like.
    """

    centre: FloatArray  # of confounds, then of columns of inputs
    unit: FloatArray
    layout: IntArray | None = None  # (L, K): columns of each target, -1 where it has none

    @classmethod
    def of(
        cls, inputs: FloatArray, confounds: FloatArray | None, layout: IntArray | None = None
    ) -> Known:
        """Means and spreads over some rows; of inputs only where a target has few."""
        width = inputs.shape[1] if layout is None else layout.shape[1]
        tables = [] if confounds is None else [confounds]
        tables += [inputs] if width <= MOST_INPUTS else []
        if not tables:
            return cls(np.empty(0), np.empty(0), layout)
        rows = np.ma.masked_invalid(np.concatenate(tables, axis=1))
        centre, unit = (np.ma.filled(one, 0.0) for one in (rows.mean(axis=0), rows.std(axis=0)))
        return cls(centre, np.where(unit > 0.0, unit, np.inf), layout)

    def blocks(self, inputs: FloatArray, confounds: FloatArray | None) -> list[list[Column]]:
        """Columns of some rows: those of confounds, of distances, and of inputs themselves."""

        def standard(values: FloatArray, at: IntArray) -> FloatArray:
            """In units of their spread; zero where nothing is known."""
            place = (values - self.centre[at]) / self.unit[at]
            return np.asarray(np.clip(np.nan_to_num(place), -FAR, FAR))

        def of_row(column: FloatArray) -> Column:
            """What all targets have in common."""
            return lambda row, target: column[row]

        def of_slot(columns: IntArray) -> Column:
            """What targets have in a slot; zero where they have none."""

            def own(row: IntArray, target: IntArray) -> FloatArray:
                at = columns[target]
                return np.where(at < 0, 0.0, standard(inputs[row, at], first + at))

            return own

        def far(own: Column) -> Column:
            """How far inputs are from their means."""
            return lambda row, target: np.abs(own(row, target)) - NORMAL

        first = 0 if confounds is None else confounds.shape[1]
        blocks: list[list[Column]] = [[], [], []]
        if confounds is not None:
            blocks[0] = [of_row(one) for one in standard(confounds, np.arange(first)).T]
        if self.centre.size == first:
            return blocks
        if self.layout is None:
            every = standard(inputs, first + np.arange(inputs.shape[1]))
            blocks[2] = [of_row(one) for one in every.T]
            blocks[1] = [far(one) for one in blocks[2]]
            return blocks
        for columns in self.layout.T:
            at = columns[columns >= 0]
            standardised = standard(inputs[:, at], first + at)
            away = np.abs(standardised).mean(axis=1) - NORMAL if at.size else np.zeros(len(inputs))
            blocks[1] += [far(of_slot(columns)), of_row(away)]
            blocks[2].append(of_slot(columns))
        return blocks


class Calibration(NamedTuple):
    """Known errors of a model: their quantiles, their sizes, and the columns these follow."""

    scale: FloatArray  # (L,): mean absolute error of each target
    labels: IntArray  # (L,): row of the table of each
    table: FloatArray  # (groups, scores): quantiles of errors in units of their size
    level: FloatArray  # (L,): mean of held-out predictions
    spread: FloatArray  # (L,): their standard deviation
    slopes: FloatArray  # (columns,): of the size of errors; none where it is the same everywhere
    known: Known
    how: str  # what it was calibrated on, in words

    def bounds(
        self,
        predicted: FloatArray,
        coverage: float,
        inputs: FloatArray,
        confounds: FloatArray | None = None,
        target: IntArray | None = None,
    ) -> tuple[FloatArray, FloatArray]:
        """Ends of intervals of predictions ``(n, L)``; ``(n,)`` where each has a ``target``."""
        row = np.arange(len(predicted))
        if target is None:
            row, target = row[:, None], np.arange(self.scale.size)
        blocks = self.known.blocks(inputs, confounds) if self.slopes[2:].any() else []
        size = self.scale[target] * self.size(predicted, row, target, blocks)
        score = float(ndtri(0.5 - coverage / 2.0))
        low, high = (quantile(self.table, at)[self.labels[target]] for at in (score, -score))
        return predicted + low * size, predicted + high * size

    def size(
        self,
        predicted: FloatArray,
        row: IntArray,
        target: IntArray,
        blocks: Sequence[Sequence[Column]],
    ) -> FloatArray:
        """Size of errors in terms of each target's own."""
        if not self.slopes.size:
            return np.ones(predicted.shape)
        place = self.place(predicted, target)
        told = place * self.slopes[0] + (np.abs(place) - NORMAL) * self.slopes[1]
        every = (column for block in blocks for column in block)
        for slope, column in zip(self.slopes[2:].tolist(), every, strict=False):
            if slope:
                told = told + slope * column(row, target)
        return np.asarray(np.clip(1.0 + told, LEAST, MOST))

    def place(self, predicted: FloatArray, target: IntArray) -> FloatArray:
        """Where predictions lie among others of their targets."""
        place = (predicted - self.level[target]) / self.spread[target]
        return np.asarray(np.clip(place, -FAR, FAR))


def calibrated(
    errors: Errors,
    labels: IntArray,
    how: str,
    inputs: FloatArray | None = None,
    confounds: FloatArray | None = None,
    layout: IntArray | None = None,
) -> Calibration | None:
    """Intervals from held-out errors of targets in groups; None where nothing was predicted.

    ``inputs`` and ``confounds`` are those of the rows of the errors. Rows that stand in for others
    have the moments of these and nothing else (no inputs): errors are taken for normal.
    """
    known, blocks = Known(np.empty(0), np.empty(0)), []
    if inputs is not None:
        known = Known.of(inputs, confounds, layout)
        blocks = known.blocks(inputs, confounds)
    n_targets = labels.size
    errors = errors.take(np.isfinite(errors.error) & np.isfinite(errors.predicted))
    if not errors.error.size:
        return None
    weight = np.ones(errors.error.size) if errors.weight is None else errors.weight
    total = np.bincount(errors.target, weight, n_targets)

    def mean(values: FloatArray) -> FloatArray:
        sums = np.bincount(errors.target, weight * values, n_targets)
        return np.asarray(sums / np.where(total > 0.0, total, 1.0))

    level = mean(errors.predicted)
    spread = np.sqrt(mean((errors.predicted - level[errors.target]) ** 2))
    spread = np.where(spread > 0.0, spread, np.inf)
    true = errors.predicted + errors.error
    unit = np.sqrt(mean((true - mean(true)[errors.target]) ** 2))
    same, nothing = np.zeros(n_targets, dtype=np.intp), np.empty(0)
    if inputs is None:
        scale = np.sqrt(mean(errors.error**2)) * NORMAL
        table = SCORES[None] / NORMAL
        return Calibration(scale, same, table, level, spread, nothing, known, how)
    scale = _shrunken(errors, mean(np.abs(errors.error)), unit, labels)
    relative = errors.error / np.where(scale > 0.0, scale, 1.0)[errors.target]
    found = Calibration(scale, labels, np.empty((0, 0)), level, spread, nothing, known, how)
    found = found._replace(slopes=_slopes(errors, relative, weight, blocks, found))
    relative = relative / found.size(errors.predicted, errors.row, errors.target, blocks)
    counted = weight * (weight.size / weight.sum())
    n_groups = int(labels.max()) + 1
    return found._replace(table=_table(relative, counted, labels[errors.target], n_groups))


def _shrunken(errors: Errors, own: FloatArray, unit: FloatArray, labels: IntArray) -> FloatArray:
    """Size of the errors of each target, drawn towards its group's as far as chance goes.

    Shares of the target's spread, on a logarithmic scale. What is chance in a target's own is told
    by how it changes from block to block of rows, which holds for autocorrelated series.
    """
    usable = (own > 0.0) & (unit > 0.0)
    n_targets, n_folds = own.size, int(errors.fold.max()) + 1
    if n_folds < 2 or np.count_nonzero(usable) < 2:
        return own
    where, shape = errors.fold * n_targets + errors.target, (n_folds, n_targets)
    count = np.bincount(where, minlength=n_folds * n_targets).reshape(shape)
    sums = np.bincount(where, np.abs(errors.error), n_folds * n_targets).reshape(shape)
    total = np.maximum(count.sum(axis=0), 1)
    average = sums.sum(axis=0) / total
    gap = sums / np.where(average > 0.0, average, 1.0) - count
    seen = np.maximum((count > 0).sum(axis=0), 2)
    chance = (gap**2).sum(axis=0) / total**2 * seen / (seen - 1)
    # One number per row for all targets: a target's own would be mostly chance, too.
    chance = np.average(chance[usable] * total[usable], weights=total[usable]) / total
    share = np.log(np.where(usable, own, 1.0) / np.where(usable, unit, 1.0))
    size = np.bincount(labels, usable)[labels]
    together = size > 1.0
    towards = np.full(n_targets, share[usable].mean())
    sums_of_groups = np.bincount(labels, share * usable)[labels]
    towards[together] = (sums_of_groups / np.maximum(size, 1.0))[together]
    kept = np.ones(n_targets)
    for some in (usable & together, usable & ~together):
        if some.any():
            left = np.mean(1.0 - 1.0 / size[some]) if together[some].all() else 1.0
            between = np.mean((share[some] - towards[some]) ** 2) / left
            between = max(between - float(np.mean(chance[some])), 0.0)
            kept[some] = between / np.maximum(between + chance[some], 1e-300)
    return np.where(usable, np.exp(towards + kept * (share - towards)) * unit, own)


def _slopes(
    errors: Errors,
    relative: FloatArray,
    weight: FloatArray,
    blocks: Sequence[Sequence[Column]],
    found: Calibration,
) -> FloatArray:
    """Regression of absolute errors on few columns, where it pays on blocks left out.

    Columns are taken in turn, the one that explains most first. How many, and of which kind, is
    said by the likelihood of errors in blocks that nothing was learned from, which has to gain more
    than its standard error.
    """
    n_folds, some = int(errors.fold.max()) + 1, np.arange(weight.size)
    if weight.size > ENOUGH:  # by chance, so that no target and no season is left out
        some = np.sort(np.random.default_rng(0).choice(weight.size, ENOUGH, replace=False))
    if n_folds < 3 or some.size < 10 * n_folds:
        return np.empty(0)
    few = errors.take(some)
    place = found.place(few.predicted, few.target)
    first, *more = [[column(few.row, few.target) for column in block] for block in blocks]
    first = [place, np.abs(place) - NORMAL, *first]
    table = np.column_stack([*first, *(column for block in more for column in block)])
    size, counted = np.abs(relative[some]), weight[some] / weight[some].mean()
    sides = [few.fold == number for number in range(n_folds)]
    moments = []
    for side in sides:
        rows = table[side] * counted[side, None]
        moments.append((rows.T @ table[side], rows.T @ (size[side] - 1.0)))
    gram, product = (np.sum([one[at] for one in moments], axis=0) for at in range(2))
    penalty, best, slopes = PENALTY * some.size, 0.0, np.empty(0)
    start = len(first)
    # Predictions and confounds alone; with distances of inputs; with inputs.
    for block in ((), *more):
        at = np.r_[: len(first), start : start + len(block)]
        start += len(block)
        gains = np.zeros((n_folds, min(MOST_COLUMNS, at.size)))
        for gain, side, (own, mine) in zip(gains, sides, moments, strict=True):
            known = (gram - own)[np.ix_(at, at)], (product - mine)[at], penalty
            for step, found_slopes in enumerate(_forward(*known, gain.size) if side.any() else ()):
                told = np.clip(1.0 + table[side][:, at] @ found_slopes, LEAST, MOST)
                score = size[side] - size[side] / told - np.log(told)
                gain[step] = np.average(score, weights=counted[side])
        mean, error = gains.mean(axis=0), gains.std(axis=0, ddof=1) / np.sqrt(n_folds)
        step = int(mean.argmax())
        if mean[step] > max(best, PAYS * float(error[step])):
            best, slopes = float(mean[step]), np.zeros(table.shape[1])
            slopes[at] = _forward(gram[np.ix_(at, at)], product[at], penalty, step + 1)[-1]
    return slopes


def _forward(
    gram: FloatArray, product: FloatArray, penalty: float, n_steps: int
) -> list[FloatArray]:
    """Slopes of a regression with one column more at each step, the one that explains most."""
    gram = gram + penalty * np.eye(len(gram))
    taken: list[int] = []
    slopes, path = np.zeros(len(gram)), []
    for _ in range(n_steps):
        rest = np.diag(gram).copy()
        if taken:
            known = gram[taken]
            rest -= np.einsum("ij,ij->j", known, np.linalg.solve(known[:, taken], known))
        gain = (product - gram @ slopes) ** 2 / np.maximum(rest, penalty)
        gain[taken] = -1.0
        taken.append(int(gain.argmax()))
        slopes = np.zeros(len(gram))
        slopes[taken] = np.linalg.solve(gram[np.ix_(taken, taken)], product[taken])
        path.append(slopes)
    return path


def _table(relative: FloatArray, weight: FloatArray, group: IntArray, n_groups: int) -> FloatArray:
    """Quantiles of errors of each group at the normal scores, a few of others' among them.

    So that a new one is as likely beyond: the j-th of n has the level ``j / (n + 1)``, the
    finite-sample correction of conformal prediction. Beyond the first and the last quantiles grow
    as normal ones do.
    """
    order = np.argsort(relative, kind="stable")
    values, weight, group = relative[order], weight[order], group[order]
    lent = values
    if values.size > ENOUGH:
        lent = values[np.linspace(0, values.size - 1, ENOUGH).astype(np.intp)]
    share = np.full(lent.size, min(BORROWED / lent.size, 1.0))
    by_group = np.argsort(group, kind="stable")
    ends = np.cumsum(np.bincount(group, minlength=n_groups))
    table = np.empty((n_groups, SCORES.size))
    for found, mine in zip(table, np.split(by_group, ends[:-1]), strict=True):
        own, counts = values[mine], weight[mine]
        if n_groups > 1:
            own, counts = np.concatenate((own, lent)), np.concatenate((counts, share))
            again = np.argsort(own, kind="stable")
            own, counts = own[again], counts[again]
        level = (np.cumsum(counts) - counts / 2.0 + 0.5) / (counts.sum() + 1.0)
        scores = ndtri(level)
        found[:] = np.interp(SCORES, scores, own)
        for end, beyond in ((0, scores[0] > SCORES), (-1, scores[-1] < SCORES)):
            slope = abs(own[end] / scores[end]) if scores[end] else 0.0
            found[beyond] = own[end] + slope * (SCORES[beyond] - scores[end])
    return table


def quantile(table: FloatArray, score: float) -> FloatArray:
    """Quantiles of each row of a table at a normal score, beyond its ends as normal ones grow."""
    at = float(np.clip(score, SCORES[0], SCORES[-1]))
    place = (at - SCORES[0]) / (SCORES[1] - SCORES[0])
    low = min(int(place), SCORES.size - 2)
    share = place - low
    found = table[:, low] * (1.0 - share) + table[:, low + 1] * share
    return np.asarray(found * (score / at) if score != at else found)
