"""Targets with missing values that share their inputs (Phase I), and what serves each of them."""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ctfa.core.design import Design
from ctfa.core.fit import Evidence, Fit
from ctfa.core.history import MergeHistory
from ctfa.core.members import Gain, MergeGain, best_weight, gain
from ctfa.core.partition import Partition
from ctfa.core.small_fits import observed_mean, patterns, subset_design
from ctfa.core.spaces.base import MergeSpace
from ctfa.core.spaces.targets import CANCELLATION
from ctfa.core.types import AnyArray, BoolArray, FloatArray, IntArray, Number

#: A squared difference smaller than this, relative to what is subtracted, is rounding: copies, and
#: means of copies, differ by nothing.
ROUNDING = 1e-26
#: So many candidates of one question with the same common rows have their inputs factored and
#: their coordinates kept; fewer are solved in a batch with the others.
SHARED = 4
#: Bytes of coordinates kept; the sets of rows asked about longest ago go first.
KEPT_BYTES = 2**28
#: Keeps the mean of no rows at zero instead of zero over zero.
TINY = float(np.finfo(np.float64).tiny)
#: Below this reciprocal condition of all rows each subset is factored by itself: normal equations
#: would have to trust the weak directions of all rows.
SAFE_RCOND = 1e-7
#: Largest norm of the inverse that is trusted. It is at least one over the smallest eigenvalue, and
#: that is one where all rows are kept: above it the rows kept hardly see some direction.
LARGEST_INVERSE = 1e4
#: Added to the diagonal, so that a subset of lower rank gives a huge inverse instead of an error.
#: One more step with the explicit residual removes what it does to the others.
RIDGE = 1e-12
#: Numbers held at once by the batched solver.
BATCH = 4_000_000
#: Largest table of products of two basis columns; with more inputs each subset is factored.
LARGEST_TABLE = 20_000_000
#: With fewer rows there is nothing to regress: an intercept and a residual take two.
FEWEST_ROWS = 3


class GappyTargetSpace(MergeSpace):
    """Targets to merge by the mean of those observed, regressed on the same complete inputs.

    The series of a block is, row by row, the mean of its observed members. Two blocks are compared
    on the rows that both have: the difference of their series is regressed on the inputs over
    these rows alone, exactly as if they were all there is, so rows, rank and degrees of freedom
    are each candidate's own. Two blocks with too few common rows to judge, ``n <= rank + 2``,
    differ infinitely. The fits of the two series and of their mean, weighted by sizes, are those on
    the common rows too.

    Where many pairs have the same common rows, the inputs are factored once for these rows, and
    answers are inner products of coordinates; pairs with rows of their own are solved many at once.
    """

    def __init__(
        self, inputs: RowSubsets, series: FloatArray, counts: FloatArray, sizes: FloatArray
    ) -> None:
        self._inputs = inputs
        self._counts = counts  # (n_variables, n): observed members, row by row
        self._series = series  # (n_variables, n): their mean, zero where there are none
        self._has = counts > 0
        self._size = sizes
        self.n_variables = int(sizes.size)
        self.n_samples, self.n_inputs, self.rank = inputs.n_samples, inputs.n_inputs, inputs.rank
        self._changed = np.zeros(self.n_variables, dtype=np.intp)  # how often a block did
        self._pattern_of: dict[bytes, int] = {}
        self._patterns: list[BoolArray] = []
        self._pattern = np.array([self._numbered(has) for has in self._has], dtype=np.intp)
        # Common rows by their name, those asked about last at the end, and the bytes they hold.
        self._kept: OrderedDict[bytes, CommonRows] = OrderedDict()
        self._kept_bytes = 0

    def __getstate__(self) -> dict[str, Any]:
        """What a copy starts with: nothing kept for later."""
        return {**vars(self), "_kept": OrderedDict(), "_kept_bytes": 0}

    @classmethod
    def of(
        cls,
        X: FloatArray,
        values: FloatArray,
        *,
        row_scale: FloatArray | None = None,
        counts: AnyArray | None = None,
        sizes: IntArray | None = None,
    ) -> GappyTargetSpace:
        """Build from complete inputs and targets ``(n, L)`` in their units, NaN where missing.

        ``row_scale`` holds the square roots of the rows' weights, all positive. Targets that are
        means of several already come with ``sizes``, their members, and ``counts`` ``(n, L)``,
        how many of these were observed in each row: a mean of few weighs less than one of many.
        """
        observed = ~np.isnan(values)
        series = np.ascontiguousarray(np.where(observed, values, 0.0).T)
        present = observed if counts is None else np.where(observed, counts, 0)
        members = np.ones(values.shape[1]) if sizes is None else np.asarray(sizes, dtype=float)
        return cls(
            RowSubsets(X, row_scale), series, np.ascontiguousarray(present.T, dtype=float), members
        )

    def evidence(self, block: int | IntArray, others: IntArray) -> Evidence:
        """Fits on common rows: of both series, of the mean of all members, of the difference."""
        a, b = self._size[block], self._size[others]
        fit = partial(self._fit, block, others, self._sort(block, others))
        difference = fit(1.0, -1.0, a + b)
        refused = np.less_equal(difference.n_samples, difference.rank + 2)
        if refused.any():
            # Too few rows for a break-even to exist. All explained and nothing left is an infinite
            # F, whatever these rows would say.
            difference = difference._replace(
                explained=np.where(refused, 1.0, difference.explained),
                residual=np.where(refused, 0.0, difference.residual),
            )
        share = a / (a + b)
        return Evidence(
            lambda: (fit(1.0, 0.0, a), fit(0.0, 1.0, b)),
            lambda: fit(share, 1.0 - share, a + b),
            difference,
        )

    def correlation(self, block: int | IntArray, others: IntArray) -> FloatArray:
        """Correlation over the common rows; zero where one is constant there, or hardly a row."""
        shared, single, kept = self._sort(block, others)
        found = np.zeros(others.size)
        for here, where in shared:
            found[where] = here.correlation(_picked(block, where), others[where])
        if not single.size:
            return found
        weight = kept * self._inputs.row_scale**2
        total = np.maximum(weight.sum(axis=1), TINY)
        scaled = []
        for blocks in (_picked(block, single), others[single]):
            series = np.broadcast_to(self._series[blocks], weight.shape)
            mean = np.einsum("ki,ki->k", weight, series) / total
            spread = np.sqrt(weight) * (series - mean[:, None])
            length = np.einsum("ki,ki->k", spread, spread)
            constant = length <= ROUNDING * (length + mean**2 * total)
            length[constant | (kept.sum(axis=1) < FEWEST_ROWS)] = np.inf
            scaled.append(spread / np.sqrt(length)[:, None])
        found[single] = np.einsum("ki,ki->k", *scaled)
        return found

    def merge(self, block: int, other: int) -> None:
        """Average two blocks, each observed member with the same weight."""
        mine, theirs = self._counts[block], self._counts[other]
        both = mine + theirs
        total = mine * self._series[block] + theirs * self._series[other]
        self._series[block] = total / np.maximum(both, 1.0)
        self._counts[block] = both
        self._has[block] = both > 0
        self._size[block] += self._size[other]
        self._pattern[block] = self._numbered(self._has[block])
        self._changed[block] += 1

    @property
    def total_variance(self) -> float:
        """Mean variance of the targets as they stand, each over its own rows."""
        weight = self._has * self._inputs.row_scale**2
        total = np.maximum(weight.sum(axis=1), TINY)
        mean = np.einsum("ki,ki->k", weight, self._series) / total
        squares = np.einsum("ki,ki->k", weight, (self._series - mean[:, None]) ** 2) / total
        n_rows = self._has.sum(axis=1)
        return float((squares * n_rows / np.maximum(n_rows - 1, 1)).mean())

    def _numbered(self, has: BoolArray) -> int:
        """Give the same number to the same rows."""
        number = self._pattern_of.setdefault(has.tobytes(), len(self._patterns))
        if number == len(self._patterns):
            self._patterns.append(has.copy())
        return number

    def _sort(self, block: int | IntArray, others: IntArray) -> Sorted:
        """Sort the candidates by the rows that they have in common with the block."""
        if isinstance(block, np.ndarray):
            which = np.arange(others.size)
            common = self._has[block] & self._has[others]
        else:
            # As many intersections as patterns, which are often few.
            numbers, which = np.unique(self._pattern[others], return_inverse=True)
            rows = [self._patterns[number] for number in numbers.tolist()]
            common = self._has[block] & np.reshape(rows, (-1, self.n_samples)).astype(bool)
        packed = np.packbits(common, axis=1)
        names = [row.tobytes() for row in packed]
        number_of = {name: k for k, name in enumerate(dict.fromkeys(names))}
        rows_of = np.array([number_of[name] for name in names], dtype=np.intp)[which]
        candidates = np.bincount(rows_of, minlength=len(number_of))
        first_of = {name: k for k, name in reversed(list(enumerate(names)))}
        shared = []
        alone = np.ones(others.size, dtype=bool)
        for name, number in number_of.items():
            here = self._kept.pop(name, None)
            if here is None:
                few = candidates[number] < SHARED and self._inputs.solves_batches
                kept = common[first_of[name]]
                if few or kept.sum() < FEWEST_ROWS:
                    continue
                here = CommonRows(self._inputs, kept, self.n_variables)
                self._kept_bytes += here.n_bytes
            self._kept[name] = here
            while self._kept_bytes > KEPT_BYTES and len(self._kept) > 1:
                self._kept_bytes -= self._kept.popitem(last=False)[1].n_bytes
            where = np.flatnonzero(rows_of == number)
            alone[where] = False
            asked = np.append(others[where], _picked(block, where))
            here.refresh(self._series, self._changed, np.unique(asked))
            shared.append((here, where))
        single = np.flatnonzero(alone)
        return shared, single, common[which[single]]

    def _fit(
        self, block: int | IntArray, others: IntArray, rows: Sorted, u: Number, v: Number, size: Any
    ) -> Fit:
        """Fit ``u`` times the block's series plus ``v`` times each candidate's."""
        shared, single, kept = rows
        u, v = (np.broadcast_to(weight, others.shape) for weight in (u, v))
        found, counts = np.zeros((2, 2, others.size))
        for here, where in shared:
            at = _picked(block, where)
            found[:, where] = here.squares(at, others[where], u[where], v[where])
            counts[:, where] = [[here.n_samples], [here.rank]]
        if single.size:
            first, second = self._series[_picked(block, single)], self._series[others[single]]
            series = u[single, None] * first + v[single, None] * second
            squares, counts[:, single] = self._inputs.squares(series, kept)
            length = np.abs(second) * kept * self._inputs.row_scale
            rounding = ROUNDING * np.einsum("ki,ki->k", length, length)
            found[:, single] = squares * (squares > rounding)
        n_samples, rank = counts
        # At least two, where it does not matter: fewer are refused, and no division fails.
        dof = np.maximum(n_samples - rank - 1, 2)
        n_samples = np.maximum(n_samples, 2)
        return Fit(found[0], found[1], n_samples, self.n_inputs, rank, dof, size)


class CommonRows:
    """Inputs factored on one set of rows, and the coordinates there of blocks asked about."""

    def __init__(self, inputs: RowSubsets, kept: BoolArray, n_blocks: int) -> None:
        self._design = inputs.design(kept)
        self._rows = np.flatnonzero(kept)
        self.n_samples, self.rank = self._rows.size, self._design.rank
        spare = self.n_samples
        if self._design.reflectors is not None:
            spare -= self.rank
        self._vectors = (np.zeros((n_blocks, self.rank)), np.zeros((n_blocks, spare)))
        self._lengths = np.zeros((2, n_blocks))
        self._rounding = np.zeros(n_blocks)
        self._changed = np.full(n_blocks, -1, dtype=np.intp)

    @property
    def n_bytes(self) -> int:
        """Memory held, roughly."""
        return 8 * (self.n_samples + 3) * (self._changed.size + self.rank)

    def refresh(self, series: FloatArray, changed: IntArray, blocks: IntArray) -> None:
        """Take the coordinates of the blocks that have changed since they were last asked."""
        stale = blocks[self._changed[blocks] != changed[blocks]]
        if not stale.size:
            return
        columns = series[np.ix_(stale, self._rows)].T
        parts = self._design.coordinates(self._design.centre(columns))
        for k, part in enumerate(parts):
            self._vectors[k][stale] = part.T
            self._lengths[k, stale] = np.einsum("ij,ij->j", part, part)
        size = columns * self._design.row_scale[:, None]
        self._rounding[stale] = ROUNDING * np.einsum("ij,ij->j", size, size)
        self._changed[stale] = changed[stale]

    def squares(
        self, block: int | IntArray, others: IntArray, u: FloatArray, v: FloatArray
    ) -> FloatArray:
        """Squared lengths ``(2, others)`` of ``u`` times one series plus ``v`` times the other."""
        first = np.atleast_1d(self._lengths.T[block]).reshape(-1, 2).T
        parts = u**2 * first + v**2 * self._lengths[:, others]
        products = np.stack([_products(part, block, others) for part in self._vectors])
        squares: FloatArray = np.maximum(parts + 2.0 * u * v * products, 0.0)
        # Where the expanded square has lost its digits it is taken explicitly.
        lost = np.flatnonzero((squares < CANCELLATION * parts).any(axis=0))
        if lost.size:
            mine = _picked(block, lost)
            for k, part in enumerate(self._vectors):
                gap = u[lost, None] * part[mine] + v[lost, None] * part[others[lost]]
                squares[k, lost] = np.einsum("ij,ij->i", gap, gap)
            squares[:, lost] *= squares[:, lost] > self._rounding[others[lost]]
        return squares

    def correlation(self, block: int | IntArray, others: IntArray) -> FloatArray:
        """Correlation of a block's series with the others', or in pairs."""
        lengths = self._lengths.sum(axis=0)
        lengths = np.where(lengths > self._rounding, lengths, np.inf)
        products = sum(_products(part, block, others) for part in self._vectors)
        scale = np.sqrt(lengths)
        return np.asarray(products / scale[block] / scale[others])


#: Candidates of rows that are shared by many, the other candidates, and the rows of each.
Sorted: TypeAlias = tuple[list[tuple[CommonRows, IntArray]], IntArray, BoolArray]


def _picked(block: int | IntArray, where: IntArray) -> int | IntArray:
    """The block of each of these candidates: one for all, or one each."""
    return block[where] if isinstance(block, np.ndarray) else block


def _products(vectors: FloatArray, block: int | IntArray, others: IntArray) -> FloatArray:
    """Inner products of a block's vector with the others', or in pairs."""
    if isinstance(block, np.ndarray):
        return np.asarray(np.einsum("ij,ij->i", vectors[block], vectors[others]))
    if 2 * others.size < vectors.shape[0]:
        return np.asarray(vectors[others] @ vectors[block])
    # All of them, because picking rows would copy them.
    return np.asarray((vectors @ vectors[block])[others])


class RowSubsets:
    """Inputs with an intercept, for least squares on any subset of their rows.

    With ``B`` an orthonormal basis of the inputs and the intercept over all rows, the Gram matrix
    of its kept rows, ``B'MB``, is close to a multiple of the identity as long as the rows dropped
    are not special. Its entries are sums of products of two columns over the rows kept: for many
    subsets at once, one matrix product of masks and products. Fitted values and residuals are
    then formed row by row and squared, never subtracted from a total. Subsets that lose a
    direction, or nearly, are factored by themselves.
    """

    def __init__(self, X: FloatArray, row_scale: FloatArray | None = None) -> None:
        self._weights = None if row_scale is None else row_scale**2
        design = Design.of(X, self._weights)
        self._X = X
        self.row_scale = design.row_scale
        self.n_samples, self.n_inputs, self.rank = design.n_samples, design.n_inputs, design.rank
        spanned = design.centre(X) @ design.root.T
        self._basis = np.linalg.qr(np.column_stack((self.row_scale, spanned)))[0]
        width = self._basis.shape[1]
        n_products = width * (width + 1) // 2
        self.solves_batches = (
            design.rcond > SAFE_RCOND
            and width < self.n_samples
            and self.n_samples * n_products <= LARGEST_TABLE
        )
        if self.solves_batches:
            upper, lower = np.triu_indices(width)
            self._products = self._basis[:, upper] * self._basis[:, lower]
            self._place = np.empty((width, width), dtype=np.intp)
            self._place[upper, lower] = self._place[lower, upper] = np.arange(n_products)

    def design(self, kept: BoolArray) -> Design:
        """Factor the inputs on the rows kept."""
        return Design.of(self._X[kept], None if self._weights is None else self._weights[kept])

    def squares(self, series: FloatArray, kept: BoolArray) -> tuple[FloatArray, IntArray]:
        """Regress each series ``(m, n)`` on the inputs over its own rows ``kept`` ``(m, n)``.

        Explained and residual sums of squares about the mean of the rows kept, ``(2, m)``; numbers
        of rows and ranks alike. What a series holds in other rows plays no part, but must be a
        number. Series with fewer than ``FEWEST_ROWS`` rows get zeros.
        """
        n_kept = kept.sum(axis=1)
        found = np.zeros((2, n_kept.size))
        rank = np.zeros(n_kept.size, dtype=np.intp)
        alone = n_kept >= FEWEST_ROWS
        if self.solves_batches:
            batched = np.flatnonzero(n_kept > self.rank + 2)
            step = max(1, BATCH // (2 * self._place.size + 4 * self.n_samples))
            for start in range(0, batched.size, step):
                which = batched[start : start + step]
                squares, trusted = self._solve(series[which], kept[which])
                which = which[trusted]
                found[:, which], rank[which], alone[which] = squares[:, trusted], self.rank, False
        for k in np.flatnonzero(alone):
            design = self.design(kept[k])
            fitted, left = design.coordinates(design.centre(series[k, kept[k], None]))
            found[:, k] = np.sum(fitted**2), np.sum(left**2)
            rank[k] = design.rank
        return found, np.stack((n_kept, rank))

    def _solve(self, series: FloatArray, kept: BoolArray) -> tuple[FloatArray, BoolArray]:
        """Solve the normal equations of many subsets; also say which of them can be trusted."""
        mask = kept.astype(float)
        gram = (mask @ self._products)[:, self._place]
        gram += RIDGE * np.eye(gram.shape[1])
        # Inverted, because it is used twice and its norm tells which subsets to trust.
        inverse = np.linalg.inv(gram)
        trusted = np.einsum("kij,kij->k", inverse, inverse) < LARGEST_INVERSE**2
        weight = mask * self.row_scale**2
        total = weight.sum(axis=1, keepdims=True)
        mask *= self.row_scale  # the intercept, from here on
        mean = np.einsum("ki,ki->k", weight, series)[:, None] / total
        left = (series - mean) * mask
        coefficients = np.zeros((left.shape[0], self._basis.shape[1]))
        for _ in range(2):  # twice: the second removes the rounding and the ridge of the first
            step = np.einsum("kij,kj->ki", inverse, left @ self._basis)
            coefficients += step
            left -= (step @ self._basis.T) * kept
        fitted = (coefficients[:, 1:] @ self._basis[:, 1:].T) * kept
        fitted -= np.einsum("ki,ki->k", fitted, mask)[:, None] / total * mask
        squares = np.stack([np.einsum("ki,ki->k", part, part) for part in (fitted, left)])
        # Weights count as many as there are rows, as in a fit of these rows alone.
        return squares * (kept.sum(axis=1) / total[:, 0]), trusted


class _Beside(NamedTuple):
    """Targets beside one series each, on the targets' rows."""

    bias: FloatArray  # unbiased mean square of what the inputs predict of the difference
    bias_error: FloatArray
    noise: FloatArray  # residual variance of the target
    shared: FloatArray  # residual covariance of target and series
    series: FloatArray  # residual variance of the series
    dof: FloatArray


class GappyMembers:
    """Predicted risk of each target under the mean of any group, where some rows are missing.

    A target and a group are compared on the target's own rows, which are all rows that both have.
    The group's model is fitted to more rows than the target's, so its noise costs less: with ``r``
    coefficients and ``n`` rows a model of noise variance ``N`` costs ``c N``, ``c = r/(n-r-2)``,
    each with rows of its own. For complete targets every number is that of ``MemberRisk``.
    """

    def __init__(self, X: FloatArray, values: FloatArray, row_scale: FloatArray | None) -> None:
        self._values, self._inputs, self._row_scale = values, X, row_scale
        observed = ~np.isnan(values)
        self._n_rows = observed.sum(axis=0)
        self._patterns: list[tuple[BoolArray, Design]] = []
        self._pattern = np.empty(values.shape[1], dtype=np.intp)
        for number, (rows, members) in enumerate(patterns(observed)):
            self._pattern[members] = number
            # Of a target without a row there is nothing to say, and nothing to factor.
            kept = rows if rows.any() else ~rows
            self._patterns.append((rows, subset_design(X, kept, row_scale)))
        ranks = np.array([design.rank for _, design in self._patterns])
        self._rank = ranks[self._pattern]
        self._full_rank = int(ranks.max(initial=0))

    @property
    def n_targets(self) -> int:
        """How many targets there are."""
        return int(self._values.shape[1])

    def flipped(self, signs: FloatArray) -> GappyMembers:
        """The same: targets with gaps are not turned round."""
        return self

    def trust(self, partition: Partition) -> FloatArray:
        """Weight on the group's model that minimises each target's predicted risk, in [0, 1]."""
        beside, own, group = self._of_groups(partition)
        slope = own * beside.noise - group * beside.shared
        curve = beside.bias + own * beside.noise + group * (beside.series - 2.0 * beside.shared)
        return best_weight(slope, curve, partition)

    def gain_over_single(self, partition: Partition) -> Gain:
        """Risk that each target saves by its group's model instead of its own.

        Errors leave out what the parts have in common.
        """
        beside, own, group = self._of_groups(partition)
        value = own * beside.noise - beside.bias - group * beside.series
        noise = 2.0 * ((own * beside.noise) ** 2 + (group * beside.series) ** 2) / beside.dof
        error = np.sqrt(beside.bias_error**2 + noise)
        alone = partition.sizes[partition.labels] == 1
        return Gain(np.where(alone, 0.0, value), np.where(alone, 0.0, error))

    def along(self, history: MergeHistory) -> list[MergeGain]:
        """What each member of each merge saves compared with just before it, and all together."""
        space = GappyTargetSpace.of(self._inputs, self._values, row_scale=self._row_scale)
        members = [[i] for i in range(self.n_targets)]
        steps = []
        for block, other in zip(history.block.tolist(), history.other.tolist(), strict=True):
            evidence = space.evidence(block, np.array([other]))
            f_star = float(np.ravel(evidence.f_star)[0])
            f = float(np.ravel(evidence.difference.f_statistic)[0])
            space.merge(block, other)
            sides = [np.array(members[slot]) for slot in (block, other)]
            members[block] += members[other]
            both = np.concatenate(sides)
            before = np.concatenate([self._risk(side, side) for side in sides])
            value = before - self._risk(both, both)
            total = Gain(np.asarray(value.sum()), np.ravel(gain(evidence).standard_error)[0])
            steps.append(MergeGain(both, sides[0].size, value, total, f, f_star))
        return steps

    def _risk(self, targets: IntArray, group: IntArray) -> FloatArray:
        """Risk of targets under the mean of a group of targets."""
        values = self._values[:, group]
        series = observed_mean(Partition(np.zeros(group.size, dtype=np.intp)), values)[:, 0]
        cost = self._cost(np.array([np.count_nonzero(~np.isnan(series))]))
        beside = self._beside(
            targets, np.broadcast_to(series[:, None], (series.size, targets.size))
        )
        return np.asarray(beside.bias + cost * beside.series)

    def _of_groups(self, partition: Partition) -> tuple[_Beside, FloatArray, FloatArray]:
        means = observed_mean(partition, self._values)
        beside = self._beside(np.arange(self.n_targets), means[:, partition.labels])
        rows = np.count_nonzero(~np.isnan(means), axis=0)[partition.labels]
        return beside, self._cost(self._n_rows, self._rank), self._cost(rows)

    def _cost(self, n_rows: IntArray, rank: IntArray | None = None) -> FloatArray:
        """What each unit of noise costs a model of so many rows."""
        coefficients = np.full(n_rows.shape, self._full_rank) if rank is None else rank
        return np.asarray(coefficients / np.maximum(n_rows - coefficients - 2.0, 1.0))

    def _beside(self, targets: IntArray, series: FloatArray) -> _Beside:
        numbers = np.zeros((5, targets.size))
        dof = np.ones(targets.size)
        for number in np.unique(self._pattern[targets]):
            rows, design = self._patterns[number]
            if not rows.any():
                continue
            here = np.flatnonzero(self._pattern[targets] == number)
            own = design.centre(self._values[np.ix_(rows, targets[here])])
            gap = design.centre(series[np.ix_(rows, here)]) - own
            explained, unexplained = design.coordinates(gap)
            left = design.coordinates(own)[1]
            freedom = max(design.n_samples - design.rank - 1, 1)
            dof[here] = freedom
            squares = np.einsum("ij,ij->j", unexplained, unexplained) / freedom
            noise = np.einsum("ij,ij->j", left, left) / freedom
            cross = np.einsum("ij,ij->j", left, unexplained) / freedom
            rank = design.rank
            fitted = np.einsum("ij,ij->j", explained, explained)
            signal = fitted - rank * squares
            spread = 2.0 * squares * (rank * squares + 2.0 * np.maximum(signal, 0.0))
            spread += 2.0 * (rank * squares) ** 2 / freedom
            n_less_one = max(design.n_samples - 1, 1)
            numbers[:, here] = (
                signal / n_less_one,
                np.sqrt(spread) / n_less_one,
                noise,
                noise + cross,
                noise + 2.0 * cross + squares,
            )
        bias, bias_error, noises, shared, of_series = numbers
        return _Beside(bias, bias_error, noises, shared, of_series, dof)
