"""Tasks that have rows of their own and may share coefficients (Phase I, own rows)."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from scipy import linalg

from ctfa.core.design import about_means
from ctfa.core.fit import Evidence, Fit
from ctfa.core.pooling import Balance, Pool, break_even
from ctfa.core.small_fits import chunks
from ctfa.core.spaces.base import MergeSpace
from ctfa.core.types import BoolArray, FloatArray, IntArray


class PooledSpace(MergeSpace):
    """Tasks to merge by pooling their rows: common slopes, one intercept for each task.

    Moments centred within each task add over tasks, so a group is a small triangle: with
    ``X = U A`` for its centred rows, ``A`` of at most as many rows as inputs, and ``c = U'y``, all
    that its fit can say is ``A``, ``c`` and the residual sum of squares. Two groups stacked,
    ``[A_P; A_Q]`` against ``[c_P; c_Q]``, leave what pooling adds to the residual: the numerator of
    Chow's F, never a difference of two large sums. Triangles and not Gram matrices, whose condition
    is squared; ranks by singular values where a pivot is small (dummy variables that a task does
    not use).

    Where a merge breaks even is derived in ``core/pooling.py``.

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
        # Of the inputs over the rows of all tasks.
        self._metric = np.asarray(np.linalg.qr(root.reshape(-1, root.shape[2]), mode="r"))
        self._prediction = np.stack([self._predict(block) for block in range(self.n_variables)])

    def __ctfa_fields__(self) -> dict[str, Any]:
        """What files keep, by name."""
        return {
            "coordinates": self._coordinates,
            "metric": self._metric,
            "n_inputs": self.n_inputs,
            "n_variables": self.n_variables,
            "pool": self._pool,
            "prediction": self._prediction,
            "root": self._root,
        }

    @classmethod
    def __ctfa_restored__(cls, fields: Mapping[str, Any]) -> PooledSpace:
        """Tasks as a file has kept them."""
        made = object.__new__(cls)
        made._coordinates, made._metric = fields["coordinates"], fields["metric"]
        made.n_inputs, made.n_variables = fields["n_inputs"], fields["n_variables"]
        made._pool, made._prediction = fields["pool"], fields["prediction"]
        made._root = fields["root"]
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
        length = lengths[:-1]
        used = length > 0.0
        used[0] |= not used.any()
        scale = np.where(length > 0.0, length, 1.0)[used]
        width = int(used.sum())
        root, coordinates = np.zeros((len(groups), width, width)), np.zeros((len(groups), width))
        columns = np.empty((len(Pool._fields), len(groups)))
        for slot, (group, rows) in enumerate(zip(groups, pooled, strict=True)):
            members = list(group)
            triangle, fitted, residual = _factor(rows[:, :-1][:, used] / scale, rows[:, -1])
            rank, n = fitted.size, counts[members].sum()
            root[slot, :rank], coordinates[slot, :rank] = triangle, fitted
            # Without a degree of freedom nothing is left, not even rounding.
            residual = residual if n - rank - len(members) > 0 else 0.0
            weight = float(weights[members] @ (1.0 + 1.0 / totals[members]))
            columns[:, slot] = fitted @ fitted, residual, rank, n, len(members), weight
        return cls(root, coordinates, Pool(*columns), inputs[0].shape[1])

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
        root, coordinates = self._stacked(*pair)
        triangle, fitted, rise = _factor(root[0], coordinates[0])
        rank = fitted.size
        first, second = map(self._at, pair)
        both = self._union(first, second, np.array([rise]), np.array([float(rank)]))
        for column, value in zip(self._pool, both, strict=True):
            column[block] = value[0]
        self._root[block], self._coordinates[block] = 0.0, 0.0
        self._root[block, :rank], self._coordinates[block, :rank] = triangle, fitted
        self._prediction[block] = self._predict(block)

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
        root = np.concatenate((self._root[blocks], self._root[others]), axis=1)
        return root, np.concatenate((self._coordinates[blocks], self._coordinates[others]), axis=1)

    def _joined(self, block: int | IntArray, others: IntArray) -> tuple[FloatArray, FloatArray]:
        """Rise of the residual when pooled, and rank, for each of the others."""
        rise, rank = np.empty(others.size), np.empty(others.size)
        blocks = np.broadcast_to(block, others.shape)
        for chunk in chunks(others.size, 2 * self._root.shape[1] ** 2):
            rise[chunk], rank[chunk] = _regress(*self._stacked(blocks[chunk], others[chunk]))
        explained = self._pool.explained[blocks] + self._pool.explained[others]
        return np.where(rise > ROUNDING * explained, rise, 0.0), rank

    def _predict(self, block: int) -> FloatArray:
        """Unit vector of what a group's slopes predict; zero where they are zero."""
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
    return [np.concatenate([centred[task] for task in group]) for group in groups], np.sqrt(squares)


def _factor(rows: FloatArray, target: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Turn a regression so that its inputs have as many rows as rank, by singular values.

    Inputs, coordinates of the target, and the residual sum of squares.
    """
    length = np.sqrt(np.einsum("ij,ij->j", rows, rows))
    unit = rows / np.where(length > 0.0, length, 1.0)
    left, values, right = linalg.svd(unit, full_matrices=False, check_finite=False)
    kept = values > RANK_CUTOFF * values.max(initial=0.0)
    basis = left[:, kept]
    coordinates = basis.T @ target
    rest = target - basis @ coordinates
    again = basis.T @ rest  # once more: the first sweep leaves rounding of the fit
    rest -= basis @ again
    root = values[kept, None] * right[kept] * length
    return root, coordinates + again, float(rest @ rest)


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


#: Singular values of unit columns below this share of the largest are rounding.
RANK_CUTOFF = 1e-12
#: A pivot of unit columns below this puts its column in doubt.
TRUSTED_PIVOT = 1e-6
#: A unit column of which less than this is left depends on the others; more, and singular values
#: decide.
DEPENDENT = 1e-12
#: A rise below this share of what was explained is rounding.
ROUNDING = 1e-26
