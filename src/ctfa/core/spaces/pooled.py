"""Tasks that have rows of their own and may share coefficients (Phase I, own rows)."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, reduce
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from ctfa.core.design import about_means
from ctfa.core.fit import Evidence, Fit
from ctfa.core.small_fits import (
    about_mean,
    chunks,
    coefficients,
    judge_gram,
    moments_of,
    replace,
)
from ctfa.core.spaces.base import MergeSpace, unit_vectors
from ctfa.core.types import BoolArray, FloatArray, IntArray


class Pool(NamedTuple):
    """Groups of tasks, as their pooled fits need them; arrays over groups."""

    explained: FloatArray
    residual: FloatArray
    rank: FloatArray
    n_samples: FloatArray
    n_tasks: FloatArray
    weight: FloatArray  # sum over its tasks of weight * (1 + 1/n): new rows, about old means

    @property
    def dof(self) -> FloatArray:
        """Rows less slopes less one intercept per task."""
        return np.asarray(self.n_samples - self.rank - self.n_tasks)


class Balance(NamedTuple):
    """What pooling the rows of two groups of tasks does to their risk, and where it breaks even.

    Let ``q = r_P + r_Q - r`` be the number of slopes that both groups can estimate. For Gaussian
    inputs everything else, intercepts and slopes that only one of them sees, can be projected out:
    the Gram matrices of the shared inputs are Wishart with ``v_P = dof_P + q`` and
    ``v_Q = dof_Q + q`` degrees of freedom, ``v = v_P + v_Q``. For slopes that differ by ``d`` (in
    units of the inputs' covariance), noise of unit variance and groups that weigh ``w_P`` and
    ``w_Q``, moments of Wishart and of matrix beta variables give

    - the rise of the residual: ``q + |d|^2 v_P v_Q (v-q) / ((v-1)(v+2))``;
    - the bias of pooled slopes: ``|d|^2 (w_P B_P + w_Q B_Q)``, ``B_P = v_Q/v - C``,
      ``B_Q = v_P/v - C``, ``C = v_P v_Q (v^2 - 2vq - v + 2) / (v (v-1)(v+2)(v-q-1))``;
    - the variance saved: ``q (w_P/(v_P-q-1) + w_Q/(v_Q-q-1) - (w_P+w_Q)/(v-q-1))``.

    ``F_star`` is the rise over ``q`` where the last two are equal. A group's weight is the sum over
    its tasks of ``1 + 1/n`` (a new row is predicted about old means), times
    ``(n - T - 1)/(v_P - 1)`` for the slopes that are its own and err with the shared ones; tasks
    count alike unless weights are given. Checked by simulation in
    ``tests/core/test_pooled_space.py``.
    """

    rise: FloatArray  # of the residual, for a unit of difference
    bias: tuple[FloatArray, FloatArray]  # of each side, for a unit of difference
    saved: tuple[FloatArray, FloatArray]  # variance of each side, for a slope and a unit of noise
    shared: BoolArray  # whether there is a slope that both can estimate

    @classmethod
    def of(cls, first: Pool, second: Pool, lost: FloatArray) -> Balance:
        """Weigh groups that share as many slopes as would be lost."""
        shared = lost > 0.0
        # Any number in place of zero degrees of freedom: they are overruled by ``shared``.
        v_first, v_second = (np.where(shared, side.dof + lost, 4.0) for side in (first, second))
        v = np.where(shared, first.dof + second.dof + 2.0 * lost, 4.0)
        spare = np.maximum(v - lost - 1.0, NEARLY_NO_DOF)
        common = v_first * v_second * (v * v - 2.0 * v * lost - v + 2.0)
        common = common / (v * (v - 1.0) * (v + 2.0) * spare)
        bias, saved = [], []
        for side, own, other in ((first, v_first, v_second), (second, v_second, v_first)):
            weight = side.weight * (side.n_samples - side.n_tasks - 1.0)
            weight = weight / np.maximum(own - 1.0, NEARLY_NO_DOF)
            own_spare = np.maximum(own - lost - 1.0, NEARLY_NO_DOF)
            bias.append(weight * (other / v - common))
            saved.append(weight * (1.0 / own_spare - 1.0 / spare))
        rise = v_first * v_second * (v - lost) / ((v - 1.0) * (v + 2.0))
        return cls(rise, (bias[0], bias[1]), (saved[0], saved[1]), shared)


def break_even(first: Pool, second: Pool, lost: FloatArray) -> tuple[FloatArray, FloatArray]:
    """F at which pooling pays as much as it costs, and the risk per unit of the rise."""
    balance = Balance.of(first, second, lost)
    bias, saved = sum(balance.bias), sum(balance.saved)
    credit = balance.rise * saved / np.where(bias > 0.0, bias, 1.0)
    f_star = np.where(balance.shared, 1.0 + np.maximum(credit, NEARLY_NO_DOF), np.inf)
    return f_star, np.where(balance.shared, bias / balance.rise, 0.0)


class PooledSpace(MergeSpace):
    """Tasks to merge by pooling their rows: common slopes, one intercept for each task.

    Moments centred within each task add over tasks, so a group is a small triangle: with
    ``X = U A`` for its centred rows, ``A`` of at most as many rows as inputs, and ``c = U'y``, all
    that its fit can say is ``A``, ``c`` and the residual sum of squares. Two groups stacked,
    ``[A_P; A_Q]`` against ``[c_P; c_Q]``, leave what pooling adds to the residual: the numerator of
    Chow's F, never a difference of two large sums. Triangles and not Gram matrices, whose condition
    is squared; ranks by singular values where a pivot is small (dummy variables that a task does
    not use).

    Where a merge breaks even is derived in ``Balance``.

    Two limits. A group that has no degree of freedom left errs without bound alone, so pooling
    always pays: its ``F_star`` is as good as infinite (one over ``NEARLY_NO_DOF``) and its losses
    are next to zero, still in the order of F; where neither group has one, nothing is known of the
    noise and F is one. Groups that share no slope, ``q = 0``, gain and lose nothing: their loss is
    zero.

    Ridge regression (``penalised``). Triangles have the target's own row too, and the sums of their
    Gram matrices answer nearly every question; the rows themselves do where hardly one is spared or
    hardly anything is left of the target. Each fit has the penalty that generalised
    cross-validation prefers, so that a task may have fewer rows than inputs.

    The value of a group is then minus its residual sum of squares as if each of its rows were left
    out: every row counts alike, and tasks by their rows (up to terms of order ``1/n`` what each
    task weighs does not move where pooling breaks even, ``Balance``). A merge gains ``res_P +
    res_Q - res_PQ``. ``cross_validated_risk`` reads that as what separate slopes explain, against
    the noise they leave: its loss is ``1 - gain/(q s)``, with ``s = (res_P + res_Q)/(n-1)`` and
    ``q = r_P + r_Q - r_PQ`` effective coefficients that a merge frees, at least one. For least
    squares a gain is ``q s (2 - F)`` with Chow's F, up to terms of order ``r/n``, and the loss
    ``F - 1``: that of ``target_risk``, whose ``F_star`` is 2 in the same limit. A group with no
    more rows than intercepts says nothing of slopes and errs without bound alone: pooling costs
    nothing, and its loss is zero.
    """

    def __init__(
        self, triangle: FloatArray, pool: Pool, n_inputs: int, *, penalised: bool = False
    ) -> None:
        self._triangle = triangle  # (groups, rows, inputs then target); owned and changed
        self.n_variables, self.n_inputs = triangle.shape[0], n_inputs
        self._gram = triangle.swapaxes(1, 2) @ triangle
        self._pool, self._penalty = pool, np.zeros(self.n_variables) if penalised else None
        if penalised:
            self._pool, self._penalty = self._judged(np.arange(self.n_variables))
        # Of the inputs over the rows of all tasks.
        inputs = triangle[:, :, :-1].reshape(-1, triangle.shape[2] - 1)
        self._metric = np.asarray(np.linalg.qr(inputs, mode="r"))
        self._predicted = np.zeros((self.n_variables, self._metric.shape[0]))
        self._outdated = set(range(self.n_variables))
        self._apart: dict[int, list[int]] = {}  # whose triangles are still to become a group's

    def __ctfa_fields__(self) -> dict[str, Any]:
        """What files keep, by name."""
        self._stack(list(self._apart))
        return {
            "n_inputs": self.n_inputs,
            "n_variables": self.n_variables,
            "coordinates": self._triangle[:, :, -1],
            "metric": self._metric,
            "pool": self._pool,
            "prediction": self._prediction,
            "root": self._triangle[:, :, :-1],
        }

    @classmethod
    def __ctfa_restored__(cls, fields: Mapping[str, Any]) -> PooledSpace:
        """Tasks as a file has kept them."""
        triangle = np.concatenate((fields["root"], fields["coordinates"][:, :, None]), axis=2)
        made = cls(triangle, fields["pool"], fields["n_inputs"])
        made._metric, made._predicted = fields["metric"], fields["prediction"]
        made._outdated.clear()
        return made

    @classmethod
    def of(
        cls,
        inputs: Sequence[FloatArray],
        targets: Sequence[FloatArray],
        *,
        weights: FloatArray | None = None,
        groups: Sequence[Sequence[int]] | None = None,
        row_weights: Sequence[FloatArray] | None = None,
        n_samples: FloatArray | None = None,
        penalised: bool = False,
    ) -> PooledSpace:
        """Build from each task's rows, ``(samples, inputs)`` and ``(samples,)``.

        ``weights`` say how much each task counts in the total risk, by default all alike (their
        numbers of rows make every row count alike). ``groups`` of tasks are pooled from the start.
        ``row_weights`` are analytic: a row's noise has a variance that is so many times smaller.
        ``n_samples`` is given where the rows of each task stand in for so many. By ridge regression
        rows of weight zero do not count, and ``weights`` are those of the rows.
        """
        counts = n_samples
        row_weights = [np.ones(len(y)) for y in targets] if row_weights is None else row_weights
        if counts is None:
            count = np.count_nonzero if penalised else len
            counts = np.array([float(count(rows)) for rows in row_weights])
        weights = np.ones(len(inputs)) if weights is None else weights
        totals = np.array([rows.sum() for rows in row_weights])
        groups = [[task] for task in range(len(inputs))] if groups is None else groups
        pooled, lengths = pooled_rows(inputs, targets, groups, row_weights)
        n_tasks = np.array([float(len(group)) for group in groups])
        n_rows, weight = np.empty((2, len(groups)))
        for slot, group in enumerate(groups):
            members = list(group)
            n_rows[slot] = counts[members].sum()
            weight[slot] = weights[members] @ (1.0 + 1.0 / totals[members])
        if not penalised:
            return cls._of_tables(pooled, lengths, n_rows, n_tasks, weight)
        width = lengths.size
        scale = np.where(lengths > 0.0, lengths, 1.0)
        scale[-1] = 1.0
        triangles = np.zeros((len(groups), width, width))
        for slot, rows in enumerate(pooled):
            triangle = np.asarray(np.linalg.qr(rows / scale, mode="r"))
            triangles[slot, : triangle.shape[0]] = triangle
        nothing = np.zeros(len(groups))
        pool = Pool(nothing, nothing, nothing, n_rows, n_tasks, weight)
        return cls(triangles, pool, width - 1, penalised=True)

    @classmethod
    def of_centred(
        cls, tables: FloatArray, n_rows: FloatArray, totals: FloatArray, weights: FloatArray | None
    ) -> PooledSpace:
        """Build from centred rows ``[X, y]`` of each task, zero where they do not count.

        ``totals`` are sums of the rows' weights, whose roots the rows are multiplied by.
        """
        lengths = np.sqrt(np.einsum("tij,tij->j", tables, tables))
        weight = (1.0 if weights is None else weights) * (1.0 + 1.0 / totals)
        return cls._of_tables(tables, lengths, n_rows, np.ones(len(tables)), weight)

    @classmethod
    def _of_tables(
        cls,
        tables: Sequence[FloatArray] | FloatArray,
        lengths: FloatArray,
        n_rows: FloatArray,
        n_tasks: FloatArray,
        weight: FloatArray,
    ) -> PooledSpace:
        """Build from the rows of each group, and the lengths of the columns over all of them."""
        length = lengths[:-1]
        used = length > 0.0
        used[0] |= not used.any()
        scale = np.where(length > 0.0, length, 1.0)[used]
        used, scale = np.append(used, True), np.append(scale, 1.0)
        count, width = len(tables), scale.size - 1
        triangle = np.zeros((count, width, width + 1))
        rank, residual = np.empty((2, count))
        for at in _alike(tables):
            rows = (
                tables[at]
                if isinstance(tables, np.ndarray)
                else np.stack([tables[slot] for slot in at.tolist()])
            )
            rows = rows[:, :, used] / scale
            triangle[at], residual[at], rank[at] = _factor(rows)
        # Without a degree of freedom nothing is left, not even rounding.
        residual[n_rows - rank - n_tasks <= 0.0] = 0.0
        explained = np.einsum("tj,tj->t", triangle[:, :, -1], triangle[:, :, -1])
        pool = Pool(explained, residual, rank, n_rows, n_tasks, weight)
        return cls(triangle, pool, lengths.size - 1)

    def evidence(self, block: int | IntArray, others: IntArray) -> Evidence:
        """Both pooled fits, the one of all rows, and the slopes that would become one."""
        first, second, both, rise, lost = self._compared(block, others)
        compared = first, second, both, rise, lost
        fits = (lambda: (self._fit(first), self._fit(second))), (lambda: self._fit(both))
        if self._penalty is not None:
            return Evidence(*fits, lambda: self._as_if_left_out(*compared))
        terms = cache(lambda: break_even(first, second, lost))
        return Evidence(
            *fits,
            lambda: self._difference(*compared),
            lambda: terms()[0],
            lambda: terms()[1],
        )

    def side_gains(self, block: int, other: int) -> tuple[float, float]:
        """Predicted fall of the risk of each side of a merge, for a task of weight one.

        They add up, by the sides' weights, to the gain of the merge (``core/gains.py``).
        """
        first, second, both, rise, lost = self._compared(block, np.array([other]))
        balance = Balance.of(first, second, lost)
        if not balance.shared[0]:
            return 0.0, 0.0
        fit = self._difference(first, second, both, rise, lost)
        noise = np.asarray(fit.residual / fit.dof)
        apart = (rise - lost * noise) / balance.rise
        gains = (
            (lost * noise * saved - apart * bias) / side.weight
            for saved, bias, side in zip(balance.saved, balance.bias, (first, second), strict=True)
        )
        return float(next(gains)[0]), float(next(gains)[0])

    @property
    def _prediction(self) -> FloatArray:
        """Unit vectors of what groups' slopes predict, worked out when they are asked for."""
        if self._outdated:
            outdated = np.array(sorted(self._outdated))
            self._predicted[outdated] = self._predict(outdated)
            self._outdated.clear()
        return self._predicted

    def start(self) -> tuple[FloatArray, Pool] | None:
        """What compiled code asks and merges by itself; None by ridge regression.

        Gram matrices with the target, and what else fits need.
        """
        return None if self._penalty is not None else (self._gram, self._pool)

    @property
    def weight(self) -> FloatArray:
        """What each group counts in the total risk."""
        return self._pool.weight

    @property
    def is_estimable(self) -> BoolArray:
        """Whether a group has degrees of freedom of its own."""
        return np.asarray(self._pool.dof > 0.0)

    def one_by_one(self, members: IntArray, task: int) -> PooledSpace:
        """A task, in slot 0, and the other members of its group pooled, in slot 1."""
        rest = copy.deepcopy(self)
        others = [int(member) for member in members if member != task]
        for member in others[1:]:
            rest.merge(others[0], member)
        at = np.array([task, others[0]])
        rest._stack(at.tolist())
        pool = Pool(*(column[at].copy() for column in rest._pool))
        return PooledSpace(rest._triangle[at], pool, self.n_inputs)

    def correlation(self, block: int | IntArray, others: IntArray) -> FloatArray:
        """Correlation of what two groups' slopes predict, over the rows of all tasks.

        Their targets have no rows in common to be correlated over.
        """
        mine, theirs = self._prediction[block], self._prediction[others]
        return np.asarray(np.einsum("...j,...j->...", mine, theirs))

    def merge(self, block: int, other: int) -> None:
        """Pool the rows of two groups."""
        pair = np.array([block]), np.array([other])
        rows = self._stacked(*pair)
        if self._penalty is None:
            first, second = map(self._at, pair)
            self._triangle[block], rise, rank = (part[0] for part in _factor(rows))
            both = self._union(first, second, np.array([rise]), np.array([rank]))
        else:
            self._triangle[block] = np.linalg.qr(rows[0], mode="r")
        self._gram[block] = self._triangle[block].T @ self._triangle[block]
        if self._penalty is not None:
            self._pool.n_samples[block] += self._pool.n_samples[other]
            self._pool.n_tasks[block] += self._pool.n_tasks[other]
            both, self._penalty[pair[0]] = self._judged(pair[0])
        for column, value in zip(self._pool, both, strict=True):
            column[block] = value[0]
        self._outdated.add(block)

    def merged(self, block: int, other: int) -> None:
        """Record that two groups were merged in the arrays of ``groups``."""
        apart = self._apart
        apart[block] = [*apart.pop(block, [block]), *apart.pop(other, [other])]
        self._outdated.add(block)

    def mean_correlation(self) -> FloatArray:
        """Average correlation of each task's predictions with those of all of them."""
        return np.asarray(self._prediction @ self._prediction.mean(axis=0))

    def _compared(
        self, block: int | IntArray, others: IntArray
    ) -> tuple[Pool, Pool, Pool, FloatArray, FloatArray]:
        """Groups as they are, pooled; the rise of the residual, and the coefficients lost."""
        at = block if isinstance(block, np.ndarray) else slice(block, block + 1)
        first, second = self._at(at), self._at(others)
        if self._penalty is None:
            rise, rank = self._joined(block, others)
            both = self._union(first, second, rise, rank)
        else:
            both = self._judged_together(np.broadcast_to(block, others.shape), others)
            rise = both.residual - (first.residual + second.residual)
        return first, second, both, rise, first.rank + second.rank - both.rank

    def _at(self, at: IntArray | slice) -> Pool:
        return Pool(*(column[at] for column in self._pool))

    def _union(self, first: Pool, second: Pool, rise: FloatArray, rank: FloatArray) -> Pool:
        return Pool(
            first.explained + second.explained - rise,
            first.residual + second.residual + rise,
            rank,
            first.n_samples + second.n_samples,
            first.n_tasks + second.n_tasks,
            first.weight + second.weight,
        )

    def _fit(self, pool: Pool) -> Fit:
        explained, residual, rank, n_samples, n_tasks, _ = pool
        dof = pool.dof if self._penalty is None else np.maximum(n_samples - n_tasks, 1.0)
        return Fit(explained, residual, n_samples, self.n_inputs, rank, dof, n_tasks)

    def _difference(
        self, first: Pool, second: Pool, both: Pool, rise: FloatArray, lost: FloatArray
    ) -> Fit:
        """Chow's comparison: what separate slopes explain, against the noise they leave."""
        dof = first.dof + second.dof
        known = dof > 0.0
        residual = np.where(known, first.residual + second.residual, rise)
        shared = np.maximum(lost, 1.0)
        dof = np.where(known, dof, shared)
        # One exactly: otherwise rounding would decide which merge comes first.
        explained = np.where(known, rise, shared * (residual / dof))
        return Fit(explained, residual, both.n_samples, self.n_inputs, lost, dof, both.n_tasks)

    def _as_if_left_out(
        self, first: Pool, second: Pool, both: Pool, rise: FloatArray, lost: FloatArray
    ) -> Fit:
        """What separate slopes explain of rows left out, against the noise that they leave.

        A unit is gained where a side has no row to spare: nothing else is known.
        """
        free = (first.n_samples <= first.n_tasks) | (second.n_samples <= second.n_tasks)
        residual, freed = first.residual + second.residual, np.maximum(lost, 1.0)
        residual = np.where(free, np.where(both.residual > 0.0, both.residual, 1.0), residual)
        explained = np.where(free, -residual * freed / (both.n_samples - 1.0), rise)
        fit = self._fit(both)
        return fit._replace(explained=explained, residual=residual, rank=freed)

    def _judged_together(self, blocks: IntArray, others: IntArray) -> Pool:
        """Ridge regressions of the rows of two groups together, in pairs."""
        found = Pool(*np.empty((len(Pool._fields), others.size)))
        for chunk in chunks(others.size, self._gram[0].size):
            replace(found, chunk, self._judged(blocks[chunk], others[chunk])[0])
        return found

    def _judged(self, *sides: IntArray) -> tuple[Pool, FloatArray]:
        """Ridge regressions of the rows of groups, or of two groups together, and penalties."""
        held = (self._gram, *self._pool[3:])
        gram, n_rows, n_tasks, weight = (
            reduce(np.add, (column[side] for side in sides)) for column in held
        )

        def columns(weak: IntArray) -> FloatArray:
            rows = np.concatenate([self._triangle[side[weak]] for side in sides], axis=1)
            return rows.swapaxes(1, 2)

        found = judge_gram(gram, n_rows, n_tasks, columns)
        explained = about_mean(gram[:, -1, -1], n_rows, n_tasks) - found.residual
        pool = Pool(explained, found.residual, found.used, n_rows, n_tasks, weight)
        return pool, found.penalty

    def _stacked(self, blocks: IntArray, others: IntArray) -> FloatArray:
        """Triangles of blocks above those of the others."""
        if self._apart:
            self._stack([*blocks.tolist(), *others.tolist()])
        return np.concatenate((self._triangle[blocks], self._triangle[others]), axis=1)

    def _stack(self, blocks: Sequence[int]) -> None:
        """Bring the triangles of groups up to date; Gram matrices alone answer most questions."""
        for block in blocks:
            if (members := self._apart.pop(block, None)) is not None:
                rows = self._triangle[members]
                self._triangle[block] = _factor(rows.reshape(1, -1, rows.shape[2]))[0][0]

    def _joined(self, block: int | IntArray, others: IntArray) -> tuple[FloatArray, FloatArray]:
        """Rise of the residual when pooled, and rank, for each of the others."""
        rise, rank = np.empty(others.size), np.empty(others.size)
        blocks = np.broadcast_to(block, others.shape)
        for chunk in chunks(others.size, 2 * self._triangle.shape[1] ** 2):
            rise[chunk], rank[chunk] = self._regressed(blocks[chunk], others[chunk])
        explained = self._pool.explained[blocks] + self._pool.explained[others]
        return np.where(rise > ROUNDING * explained, rise, 0.0), rank

    def _regressed(self, blocks: IntArray, others: IntArray) -> tuple[FloatArray, FloatArray]:
        """Rise and rank of pairs: from their Gram matrices where these keep the digits.

        Most questions are far from both a dependence of inputs and a perfect fit, and a Cholesky
        factor of the sum is a tenth of the work of a triangle of the rows.
        """
        width = self._triangle.shape[2] - 1
        full = (self._pool.rank[blocks] == width) & (self._pool.rank[others] == width)
        if not full.all():
            return _regress(self._stacked(blocks, others))
        gram = self._gram[blocks] + self._gram[others]
        square = np.einsum("kii->ki", gram)
        unit = 1.0 / np.sqrt(np.where(square > 0.0, square, 1.0))
        try:
            factor = np.linalg.cholesky(gram * (unit[:, :, None] * unit[:, None, :]))
        except np.linalg.LinAlgError:  # of one pair
            return _regress(self._stacked(blocks, others))
        pivots = np.einsum("kii->ki", factor) ** 2
        rise, rank = pivots[:, -1] * square[:, -1], np.full(blocks.size, float(width))
        weak = np.flatnonzero(~(pivots[:, :-1].min(axis=1) * pivots[:, -1] > TRUSTED_DIGITS))
        if weak.size:
            rise[weak], rank[weak] = _regress(self._stacked(blocks[weak], others[weak]))
        return rise, rank

    def _predict(self, blocks: IntArray) -> FloatArray:
        """Unit vectors of what groups' slopes predict; zero where they are zero."""
        if self._penalty is not None:
            counts = self._pool.n_samples[blocks], self._pool.n_tasks[blocks]
            slopes = coefficients(moments_of(self._gram[blocks], *counts), self._penalty[blocks])
            predicted = slopes @ self._metric.T
        else:
            self._stack(blocks.tolist())
            predicted = np.zeros((blocks.size, self._metric.shape[0]))
            for row, table, rank in zip(
                predicted, self._triangle[blocks], self._pool.rank[blocks].astype(int), strict=True
            ):
                if rank:
                    inputs, target = table[:rank, :-1], table[:rank, -1]
                    row[:] = self._metric @ linalg.lstsq(inputs, target, check_finite=False)[0]
        return unit_vectors(predicted, np.einsum("bk,bk->b", predicted, predicted))


def pooled_rows(
    inputs: Sequence[FloatArray],
    targets: Sequence[FloatArray],
    groups: Sequence[Sequence[int]],
    row_weights: Sequence[FloatArray],
) -> tuple[list[FloatArray], FloatArray]:
    """Rows ``[X, y]`` of each group, every task about its own means, and lengths of the columns.

    Rows are multiplied by the roots of their weights; those of weight zero are left out.
    """
    centred = []
    for rows, target, weights in zip(inputs, targets, row_weights, strict=True):
        counts = weights > 0.0
        table, root = np.column_stack((rows, target))[counts], np.sqrt(weights[counts])
        centred.append(about_means(table, root)[1] * root[:, None] if table.size else table)
    squares = sum(np.einsum("ij,ij->j", rows, rows) for rows in centred)
    pooled = [
        centred[group[0]] if len(group) == 1 else np.concatenate([centred[task] for task in group])
        for group in groups
    ]
    return pooled, np.sqrt(squares)


def _alike(tables: Sequence[FloatArray] | FloatArray) -> Iterator[IntArray]:
    """Tables of one shape, some at a time."""
    lengths = np.array([len(table) for table in tables])
    for length in np.unique(lengths).tolist():
        at = np.flatnonzero(lengths == length)
        for chunk in chunks(at.size, 2 * length * tables[0].shape[1]):
            yield at[chunk]


def _factor(rows: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Turn regressions of the last column on the others so that inputs have as few rows as rank.

    Inputs and coordinates of the target, in as many rows as inputs, zeros behind the rank; residual
    sums of squares, and ranks. By triangles where every pivot is firm, else by singular values.
    """
    count, n_rows, width = rows.shape[0], rows.shape[1], rows.shape[2] - 1
    length = np.sqrt(np.einsum("kij,kij->kj", rows, rows))
    unit = np.append(np.where(length > 0.0, length, 1.0)[:, :-1], np.ones((count, 1)), axis=1)
    table = rows / unit[:, None, :]
    weak = np.arange(count)
    found = np.zeros((count, width, width + 1))
    root, coordinates = found[:, :, :-1], found[:, :, -1]
    residual, rank = np.empty(count), np.full(count, float(width))
    if n_rows > width:
        triangle = np.asarray(np.linalg.qr(table, mode="r"))
        pivots = np.abs(np.diagonal(triangle, axis1=1, axis2=2))
        root[:] = triangle[:, :-1, :-1] * unit[:, None, :-1]
        coordinates[:], residual[:] = triangle[:, :-1, -1], pivots[:, -1] ** 2
        weak = np.flatnonzero(~(pivots[:, :-1] > TRUSTED_PIVOT).all(axis=1))
    for at in weak.tolist():
        left, values, right = linalg.svd(table[at, :, :-1], full_matrices=False, check_finite=False)
        kept = values > RANK_CUTOFF * values.max(initial=0.0)
        basis, target = left[:, kept], table[at, :, -1]
        fitted = basis.T @ target
        rest = target - basis @ fitted
        again = basis.T @ rest  # once more: the first sweep leaves rounding of the fit
        rest -= basis @ again
        rank[at], residual[at] = fitted.size, rest @ rest
        root[at], coordinates[at] = 0.0, 0.0
        # Times a length of zero: rounding in the place of a column would pass for a direction.
        root[at, : fitted.size] = values[kept, None] * right[kept] * length[at, :-1]
        coordinates[at, : fitted.size] = fitted + again
    return found, residual, rank


def _regress(table: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Residual sums of squares and ranks of many small regressions of the last column."""
    rows, target = table[:, :, :-1], table[:, :, -1]
    length = np.sqrt(np.einsum("kij,kij->kj", rows, rows))
    unit = rows / np.where(length > 0.0, length, 1.0)[:, None, :]
    table = np.concatenate((unit, target[:, :, None]), axis=2)
    pivots = np.abs(np.diagonal(np.linalg.qr(table, mode="r"), axis1=1, axis2=2))
    firm = pivots[:, :-1] > TRUSTED_PIVOT
    residual, rank = pivots[:, -1] ** 2, firm.sum(axis=1).astype(float)
    weak = np.flatnonzero(~firm.all(axis=1))
    if weak.size:
        residual[weak], settled = _regress_on_firm(table[weak], firm[weak])
        weak = weak[~settled]
    if weak.size:
        left, values, _ = np.linalg.svd(unit[weak], full_matrices=False)
        kept = values > RANK_CUTOFF * values[:, :1]
        basis = left * kept[:, None, :]
        rest = target[weak, :, None]
        for _ in range(2):
            rest = rest - basis @ (basis.swapaxes(1, 2) @ rest)
        residual[weak], rank[weak] = np.einsum("kij,kij->k", rest, rest), kept.sum(axis=1)
    return residual, rank


def _regress_on_firm(table: FloatArray, firm: BoolArray) -> tuple[FloatArray, BoolArray]:
    """Residual on the firm columns alone, and where the others are seen to depend on them.

    A second triangle, the target before the columns in doubt, is a quarter of the work of singular
    values. It settles the rank where nothing of those columns is left below the firm ones.
    """
    n_columns = table.shape[2]
    place = np.column_stack((np.where(firm, 0, 2), np.ones(firm.shape[0], dtype=int)))
    order = np.argsort(place, axis=1, kind="stable")
    triangle = np.linalg.qr(np.take_along_axis(table, order[:, None, :], axis=2), mode="r")
    rank = firm.sum(axis=1)
    step = np.arange(n_columns)
    doubted = (step[:, None] >= rank[:, None, None]) & (step > rank[:, None, None])
    left_over = np.abs(np.where(doubted, triangle, 0.0)).max(axis=(1, 2))
    pivots = np.abs(np.diagonal(triangle, axis1=1, axis2=2))
    firm_still = ((pivots > TRUSTED_PIVOT) | (step >= rank[:, None])).all(axis=1)
    residual = pivots[np.arange(rank.size), rank] ** 2
    return residual, np.asarray((left_over < DEPENDENT) & firm_still)


#: Stands for no degrees of freedom: a risk a million times the noise, but a number.
NEARLY_NO_DOF = 1e-6
#: Singular values of unit columns below this share of the largest are rounding.
RANK_CUTOFF = 1e-12
#: Gram matrices are trusted where their smallest pivot times that of the target exceeds this: ten
#: digits of a rise are left.
TRUSTED_DIGITS = 1e-6
#: A pivot of unit columns below this puts its column in doubt.
TRUSTED_PIVOT = 1e-6
#: A unit column of which less than this is left depends on the others; more, and singular values
#: decide.
DEPENDENT = 1e-12
#: A rise below this share of what was explained is rounding.
ROUNDING = 1e-26
