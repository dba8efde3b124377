"""Tasks that have rows of their own and may share coefficients (Phase I, own rows)."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from ctfa.core.design import about_means
from ctfa.core.fit import Evidence, Fit
from ctfa.core.small_fits import (
    Judged,
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
    """

    def __init__(
        self, root: FloatArray, coordinates: FloatArray, pool: Pool, n_inputs: int
    ) -> None:
        self._root, self._coordinates = root, coordinates  # owned and changed
        self._pool = pool
        self.n_variables, self.n_inputs = root.shape[0], n_inputs
        self._gram = _with_target(root, coordinates)
        # Of the inputs over the rows of all tasks.
        self._metric = np.asarray(np.linalg.qr(root.reshape(-1, root.shape[2]), mode="r"))
        self._prediction = np.zeros((self.n_variables, self._metric.shape[0]))
        self._outdated = set(range(self.n_variables))
        self._apart: dict[int, list[int]] = {}  # whose triangles are still to become a group's

    def __ctfa_fields__(self) -> dict[str, Any]:
        """What files keep, by name."""
        self._stack(list(self._apart))
        return {name: getattr(self, attribute) for name, attribute in KEPT.items()}

    @classmethod
    def __ctfa_restored__(cls, fields: Mapping[str, Any]) -> PooledSpace:
        """Tasks as a file has kept them."""
        made = object.__new__(cls)
        for name, attribute in KEPT.items():
            setattr(made, attribute, fields[name])
        made._gram, made._apart = _with_target(made._root, made._coordinates), {}
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
    ) -> PooledSpace:
        """Build from each task's rows, ``(samples, inputs)`` and ``(samples,)``.

        ``weights`` say how much each task counts in the total risk, by default all alike (their
        numbers of rows make every row count alike). ``groups`` of tasks are pooled from the start.
        ``row_weights`` are analytic: a row's noise has a variance that is so many times smaller.
        ``n_samples`` is given where the rows of each task stand in for so many.
        """
        counts = n_samples
        if counts is None:
            counts = np.array([len(rows) for rows in targets], dtype=float)
        weights = np.ones(len(inputs)) if weights is None else weights
        row_weights = [np.ones(len(y)) for y in targets] if row_weights is None else row_weights
        totals = np.array([rows.sum() for rows in row_weights])
        groups = [[task] for task in range(len(inputs))] if groups is None else groups
        pooled, lengths = pooled_rows(inputs, targets, groups, row_weights)
        n_tasks = np.array([float(len(group)) for group in groups])
        n_rows, weight = np.empty((2, len(groups)))
        for slot, group in enumerate(groups):
            members = list(group)
            n_rows[slot] = counts[members].sum()
            weight[slot] = weights[members] @ (1.0 + 1.0 / totals[members])
        return cls._of_tables(pooled, lengths, n_rows, n_tasks, weight)

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
        root, coordinates = np.zeros((count, width, width)), np.zeros((count, width))
        rank, residual = np.empty((2, count))
        for at in _alike(tables):
            rows = (
                tables[at]
                if isinstance(tables, np.ndarray)
                else np.stack([tables[slot] for slot in at.tolist()])
            )
            rows = rows[:, :, used] / scale
            root[at], coordinates[at], residual[at], rank[at] = _factor(rows)
        # Without a degree of freedom nothing is left, not even rounding.
        residual[n_rows - rank - n_tasks <= 0.0] = 0.0
        explained = np.einsum("tj,tj->t", coordinates, coordinates)
        pool = Pool(explained, residual, rank, n_rows, n_tasks, weight)
        return cls(root, coordinates, pool, lengths.size - 1)

    def evidence(self, block: int | IntArray, others: IntArray) -> Evidence:
        """Both pooled fits, the one of all rows, and the slopes that would become one."""
        first, second, both, rise, lost = self._compared(block, others)
        terms = cache(lambda: break_even(first, second, lost))
        return Evidence(
            lambda: (self._fit(first), self._fit(second)),
            lambda: self._fit(both),
            lambda: self._difference(first, second, both, rise, lost),
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
        for block in self._outdated:
            self._predicted[block] = self._predict(block)
        self._outdated.clear()
        return self._predicted

    @_prediction.setter
    def _prediction(self, vectors: FloatArray) -> None:
        self._predicted, self._outdated = vectors, set[int]()

    def groups(self) -> tuple[FloatArray, Pool]:
        """Gram matrices with the target, and what else fits need, as merges change them."""
        return self._gram, self._pool

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
        return PooledSpace(rest._root[at], rest._coordinates[at], pool, self.n_inputs)

    def correlation(self, block: int | IntArray, others: IntArray) -> FloatArray:
        """Correlation of what two groups' slopes predict, over the rows of all tasks.

        Their targets have no rows in common to be correlated over.
        """
        mine, theirs = self._prediction[block], self._prediction[others]
        return np.asarray(np.einsum("...j,...j->...", mine, theirs))

    def merge(self, block: int, other: int) -> None:
        """Pool the rows of two groups."""
        pair = np.array([block]), np.array([other])
        first, second = map(self._at, pair)
        root, coordinates = self._stacked(*pair)
        rows = np.concatenate((root, coordinates[:, :, None]), axis=2)
        self._root[block], self._coordinates[block], rise, rank = (
            part[0] for part in _factor(rows)
        )
        both = self._union(first, second, np.array([rise]), np.array([rank]))
        for column, value in zip(self._pool, both, strict=True):
            column[block] = value[0]
        table = np.column_stack((self._root[block], self._coordinates[block]))
        self._gram[block] = table.T @ table
        self._outdated.add(block)

    def merged(self, block: int, other: int) -> None:
        """Be told that somebody merged two groups in the arrays of ``groups``."""
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
        rise, rank = self._joined(block, others)
        lost = first.rank + second.rank - rank
        return first, second, self._union(first, second, rise, rank), rise, lost

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
        return Fit(explained, residual, n_samples, self.n_inputs, rank, pool.dof, n_tasks)

    def _difference(
        self, first: Pool, second: Pool, both: Pool, rise: FloatArray, lost: FloatArray
    ) -> Fit:
        """Chow's comparison: what separate slopes explain, against the noise they leave."""
        dof = first.dof + second.dof
        known = dof > 0.0
        residual = np.where(known, first.residual + second.residual, rise)
        shared = np.maximum(lost, 1.0)
        dof = np.where(known, dof, shared)
        # One exactly: whom to merge first would else be decided by rounding.
        explained = np.where(known, rise, shared * (residual / dof))
        return Fit(explained, residual, both.n_samples, self.n_inputs, lost, dof, both.n_tasks)

    def _stacked(self, blocks: IntArray, others: IntArray) -> tuple[FloatArray, FloatArray]:
        """Triangles of blocks above those of the others, and what they are regressed on."""
        if self._apart:
            self._stack([*blocks.tolist(), *others.tolist()])
        root = np.concatenate((self._root[blocks], self._root[others]), axis=1)
        return root, np.concatenate((self._coordinates[blocks], self._coordinates[others]), axis=1)

    def _stack(self, blocks: Sequence[int]) -> None:
        """Bring the triangles of groups up to date; Gram matrices alone answer most questions."""
        for block in blocks:
            if (members := self._apart.pop(block, None)) is not None:
                rows = np.concatenate((self._root[members], self._coordinates[members, :, None]), 2)
                found = _factor(rows.reshape(1, -1, rows.shape[2]))
                self._root[block], self._coordinates[block] = found[0][0], found[1][0]

    def _joined(self, block: int | IntArray, others: IntArray) -> tuple[FloatArray, FloatArray]:
        """Rise of the residual when pooled, and rank, for each of the others."""
        rise, rank = np.empty(others.size), np.empty(others.size)
        blocks = np.broadcast_to(block, others.shape)
        for chunk in chunks(others.size, 2 * self._root.shape[1] ** 2):
            rise[chunk], rank[chunk] = self._regressed(blocks[chunk], others[chunk])
        explained = self._pool.explained[blocks] + self._pool.explained[others]
        return np.where(rise > ROUNDING * explained, rise, 0.0), rank

    def _regressed(self, blocks: IntArray, others: IntArray) -> tuple[FloatArray, FloatArray]:
        """Rise and rank of pairs: from their Gram matrices where these keep the digits.

        Most questions are far from both a dependence of inputs and a perfect fit, and a Cholesky
        factor of the sum is a tenth of the work of a triangle of the rows.
        """
        width = self._root.shape[2]
        full = (self._pool.rank[blocks] == width) & (self._pool.rank[others] == width)
        if not full.all():
            return _regress(*self._stacked(blocks, others))
        gram = self._gram[blocks] + self._gram[others]
        square = np.einsum("kii->ki", gram)
        unit = 1.0 / np.sqrt(np.where(square > 0.0, square, 1.0))
        try:
            factor = np.linalg.cholesky(gram * (unit[:, :, None] * unit[:, None, :]))
        except np.linalg.LinAlgError:  # of one pair
            return _regress(*self._stacked(blocks, others))
        pivots = np.einsum("kii->ki", factor) ** 2
        rise, rank = pivots[:, -1] * square[:, -1], np.full(blocks.size, float(width))
        weak = np.flatnonzero(~(pivots[:, :-1].min(axis=1) * pivots[:, -1] > TRUSTED_DIGITS))
        if weak.size:
            rise[weak], rank[weak] = _regress(*self._stacked(blocks[weak], others[weak]))
        return rise, rank

    def _predict(self, block: int) -> FloatArray:
        """Unit vector of what a group's slopes predict; zero where they are zero."""
        self._stack([block])
        root, rank = self._root[block], int(self._pool.rank[block])
        shortest = linalg.lstsq(root[:rank], self._coordinates[block, :rank], check_finite=False)
        predicted = self._metric @ shortest[0] if rank else np.zeros(self._metric.shape[0])
        length = float(np.sqrt(predicted @ predicted))
        return np.asarray(predicted / length if length > 0.0 else predicted)


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


def _factor(rows: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Turn regressions of the last column on the others so that inputs have as few rows as rank.

    Inputs and coordinates of the target, in as many rows as inputs, zeros behind the rank; residual
    sums of squares, and ranks. By triangles where every pivot is firm, else by singular values.
    """
    count, n_rows, width = rows.shape[0], rows.shape[1], rows.shape[2] - 1
    length = np.sqrt(np.einsum("kij,kij->kj", rows, rows))
    unit = np.append(np.where(length > 0.0, length, 1.0)[:, :-1], np.ones((count, 1)), axis=1)
    table = rows / unit[:, None, :]
    weak = np.arange(count)
    root, coordinates = np.zeros((count, width, width)), np.zeros((count, width))
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
    return root, coordinates, residual, rank


def _regress(rows: FloatArray, target: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Residual sums of squares and ranks of many small regressions."""
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


def _with_target(root: FloatArray, coordinates: FloatArray) -> FloatArray:
    """Cross-products of inputs and, last, the target along them."""
    table = np.concatenate((root, coordinates[:, :, None]), axis=2)
    return np.asarray(table.swapaxes(1, 2) @ table)


#: What files keep of a space, and what it is called here.
KEPT = {"n_inputs": "n_inputs", "n_variables": "n_variables"} | {
    name: f"_{name}" for name in ("coordinates", "metric", "pool", "prediction", "root")
}
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


class PenalisedPooledSpace(MergeSpace):
    """Tasks to merge by pooling their rows, as in ``PooledSpace``, fitted by ridge regression.

    Common slopes, one intercept for each task. Cross-products of ``[X, y]`` about each task's means
    add over tasks, and so do their triangles, stacked: the first answer nearly every question, the
    second where hardly a row is spared or hardly anything is left of the target. Each fit has the
    penalty that generalised cross-validation prefers, so that a task may have fewer rows than
    inputs.

    The value of a group is minus its residual sum of squares as if each of its rows were left out:
    every row counts alike, and tasks by their rows (up to terms of order ``1/n`` what each task
    weighs does not move where pooling breaks even, ``Balance``). A merge gains ``res_P +
    res_Q - res_PQ``. ``cross_validated_risk`` reads that as what separate slopes explain, against
    the noise they leave: its loss is ``1 - gain/(q s)``, with ``s = (res_P + res_Q)/(n-1)`` and
    ``q = r_P + r_Q - r_PQ`` effective coefficients that a merge frees, at least one. For least
    squares a gain is ``q s (2 - F)`` with Chow's F, up to terms of order ``r/n``, and the loss
    ``F - 1``: that of ``target_risk``, whose ``F_star`` is 2 in the same limit.

    A group with no more rows than intercepts says nothing of slopes and errs without bound alone:
    pooling costs nobody anything, and its loss is zero.
    """

    def __init__(
        self, triangles: FloatArray, n_rows: FloatArray, n_levels: FloatArray, n_inputs: int
    ) -> None:
        self._triangle = triangles  # (groups, rows, inputs then target); owned and changed
        self._gram = triangles.swapaxes(1, 2) @ triangles
        self._n_rows, self._n_levels = n_rows, n_levels
        self.n_variables, self.n_inputs = int(triangles.shape[0]), n_inputs
        everyone = np.arange(self.n_variables)
        self._fitted = self._judge(everyone)
        spare = np.maximum(n_rows - n_levels, 1.0)
        #: Mean variance of the targets as they stand, the scale of losses in target units.
        self.total_variance = float((self._gram[:, -1, -1] / spare).mean())
        # Of the inputs over the rows of all groups.
        inputs = self._gram[:, :-1, :-1].sum(axis=0)
        values, vectors = np.linalg.eigh(inputs)
        self._metric = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
        self._prediction = self._predict(everyone)

    @classmethod
    def of(
        cls,
        inputs: Sequence[FloatArray],
        targets: Sequence[FloatArray],
        *,
        groups: Sequence[Sequence[int]] | None = None,
        row_weights: Sequence[FloatArray] | None = None,
    ) -> PenalisedPooledSpace:
        """Build from each task's rows, ``(samples, inputs)`` and ``(samples,)``.

        ``groups`` of tasks are pooled from the start. ``row_weights`` are analytic: a row's noise
        has a variance that is so many times smaller; rows of weight zero do not count.
        """
        n_inputs = inputs[0].shape[1]
        groups = [[task] for task in range(len(inputs))] if groups is None else groups
        row_weights = [np.ones(len(y)) for y in targets] if row_weights is None else row_weights
        counts = np.array([float(np.count_nonzero(weight)) for weight in row_weights])
        pooled, length = pooled_rows(inputs, targets, groups, row_weights)
        scale = np.where(length > 0.0, length, 1.0)
        scale[-1] = 1.0
        triangles = np.zeros((len(groups), n_inputs + 1, n_inputs + 1))
        for slot, rows in enumerate(pooled):
            triangle = np.asarray(np.linalg.qr(rows / scale, mode="r"))
            triangles[slot, : triangle.shape[0]] = triangle
        n_rows = np.array([counts[list(group)].sum() for group in groups])
        n_levels = np.array([float(len(group)) for group in groups])
        return cls(triangles, n_rows, n_levels, n_inputs)

    def evidence(self, block: int | IntArray, others: IntArray) -> Evidence:
        """Both pooled fits, the one of all rows, and what separate slopes explain."""
        blocks = np.broadcast_to(block, others.shape)
        both = cache(lambda: self._joined(blocks, others))

        def after() -> Fit:
            square = self._gram[blocks, -1, -1] + self._gram[others, -1, -1]
            return self._fit(both(), square, *self._counts(blocks, others))

        return Evidence(
            lambda: (self._fit_of(blocks), self._fit_of(others)),
            after,
            lambda: self._difference(blocks, others, both()),
        )

    def correlation(self, block: int | IntArray, others: IntArray) -> FloatArray:
        """Correlation of what two groups' slopes predict, over the rows of all tasks."""
        mine, theirs = self._prediction[block], self._prediction[others]
        return np.asarray(np.einsum("...j,...j->...", mine, theirs))

    def merge(self, block: int, other: int) -> None:
        """Pool the rows of two groups."""
        stacked = np.concatenate((self._triangle[block], self._triangle[other]))
        self._triangle[block] = np.linalg.qr(stacked, mode="r")
        self._gram[block] = self._triangle[block].T @ self._triangle[block]
        self._n_rows[block] += self._n_rows[other]
        self._n_levels[block] += self._n_levels[other]
        at = np.array([block])
        replace(self._fitted, at, self._judge(at))
        self._prediction[at] = self._predict(at)

    def mean_correlation(self) -> FloatArray:
        """Average correlation of each task's predictions with those of all of them."""
        return np.asarray(self._prediction @ self._prediction.mean(axis=0))

    def _counts(self, blocks: IntArray, others: IntArray) -> tuple[FloatArray, FloatArray]:
        """Rows and intercepts of two groups together."""
        n_rows = self._n_rows[blocks] + self._n_rows[others]
        return n_rows, self._n_levels[blocks] + self._n_levels[others]

    def _joined(self, blocks: IntArray, others: IntArray) -> Judged:
        """Fits of the rows of two groups together."""
        found = Judged(*(np.empty(others.size) for _ in Judged._fields))
        for chunk in chunks(others.size, self._gram[0].size):
            replace(found, chunk, self._judge(blocks[chunk], others[chunk]))
        return found

    def _judge(self, blocks: IntArray, others: IntArray | None = None) -> Judged:
        """Fits of the rows of groups, or of two groups together in pairs."""
        if others is None:
            gram, counts = self._gram[blocks], (self._n_rows[blocks], self._n_levels[blocks])
        else:
            gram, counts = self._gram[blocks] + self._gram[others], self._counts(blocks, others)

        def columns(weak: IntArray) -> FloatArray:
            sides = [self._triangle[side[weak]] for side in (blocks, others) if side is not None]
            return np.concatenate(sides, axis=1).swapaxes(1, 2)

        return judge_gram(gram, *counts, columns)

    def _fit_of(self, blocks: IntArray) -> Fit:
        found = Judged(*(column[blocks] for column in self._fitted))
        square = self._gram[blocks, -1, -1]
        return self._fit(found, square, self._n_rows[blocks], self._n_levels[blocks])

    def _fit(
        self, found: Judged, square: FloatArray, n_rows: FloatArray, n_levels: FloatArray
    ) -> Fit:
        explained = about_mean(square, n_rows, n_levels) - found.residual
        dof = np.maximum(n_rows - n_levels, 1.0)
        return Fit(explained, found.residual, n_rows, self.n_inputs, found.used, dof, n_levels)

    def _difference(self, blocks: IntArray, others: IntArray, both: Judged) -> Fit:
        """What separate slopes explain of rows left out, against the noise that they leave."""
        first, second = (
            Judged(*(column[at] for column in self._fitted)) for at in (blocks, others)
        )
        n_rows, n_levels = self._counts(blocks, others)
        residual = first.residual + second.residual
        explained = both.residual - residual
        freed = np.maximum(first.used + second.used - both.used, 1.0)
        # A unit is gained where a side has no row to spare: nothing else is known.
        alone = self._n_rows <= self._n_levels
        free = alone[blocks] | alone[others]
        residual = np.where(free, np.where(both.residual > 0.0, both.residual, 1.0), residual)
        explained = np.where(free, -residual * freed / (n_rows - 1.0), explained)
        dof = np.maximum(n_rows - n_levels, 1.0)
        return Fit(explained, residual, n_rows, self.n_inputs, freed, dof, n_levels)

    def _predict(self, blocks: IntArray) -> FloatArray:
        """Unit vectors of what groups' slopes predict; zero where they are zero."""
        moments = moments_of(self._gram[blocks], self._n_rows[blocks], self._n_levels[blocks])
        predicted = coefficients(moments, self._fitted.penalty[blocks]) @ self._metric.T
        return unit_vectors(predicted, np.einsum("bk,bk->b", predicted, predicted))
