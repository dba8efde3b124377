"""Targets that have inputs of their own, sample by sample in pairs (Phase I, own inputs)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from ctfa.core.design import EPS
from ctfa.core.fit import Evidence, Fit
from ctfa.core.series import Series, centre
from ctfa.core.small_fits import chunks
from ctfa.core.spaces.base import MergeSpace, correlations, unit_vectors
from ctfa.core.types import AnyArray, BoolArray, FloatArray, IntArray, Number


class Joint(NamedTuple):
    """Regressions of blocks' mean targets on their mean inputs."""

    total: FloatArray
    residual: FloatArray
    rank: FloatArray
    n_inputs: Number  # columns given, as the `mse` criterion counts them

    def fit(self, n_samples: Number, size: Number) -> Fit:
        """Return the same as a criterion is told."""
        explained, dof = self.total - self.residual, n_samples - self.rank - 1.0
        return Fit(explained, self.residual, n_samples, self.n_inputs, self.rank, dof, size)


class PairedSpace(MergeSpace):
    """Targets to merge by their mean, each regressed on inputs of its own, which are averaged too.

    Inputs go by name (the rain of its own basin, say), over the same samples. A block is the sum
    ``[X; y]`` of its members: the regression of a mean target on mean inputs does not feel the
    scale of the inputs, and its sums of squares are those of the sums over the squared size. An
    input that a task lacks is a row of zeros, so that the sum is that of the members that have it;
    a block has an input if one of its members does. One Cholesky factorization of a small Gram
    matrix, target last, is a whole regression: its last pivot is the residual sum of squares.

    The risk. A block of k members predicts each of them by the fit of its mean, so that its value,
    what it takes off the total risk of its members, is ``k (var(mean target) - risk of its fit)``.
    With ``explained`` and ``s`` of that fit an unbiased estimate for jointly Gaussian data is
    ``V = k (explained - r s F_star) / (n-1)``, ``F_star = 1 + m (n-1)/(n-r-2)`` at ``m = 1``: the
    averaged inputs need not be right for any member, what they miss is noise to them. (With the
    noise of the members' own residuals for ``s`` the variance of that part would be left out.) A
    merge gains ``V(both) - V(P) - V(Q)``, and because ``a total_P + b total_Q - (a+b) total_both``
    is ``ab/(a+b)`` times the squared difference of the mean targets, what a merge loses of
    ``explained`` and of ``residual``, over ``ab/(a+b)``, splits that square as a regression of the
    difference would, which with shared inputs it is. The gain is then
    ``ab/(a+b) r s(d) (F_star - F(d)) / (n-1)`` here too. Two things differ: ``F`` is negative where
    averaged inputs explain more than the members' own; and a merge may raise the residual
    variance, so that it loses both ways and no ``m`` pays for it.
    """

    def __init__(
        self,
        sums: FloatArray,
        sizes: FloatArray,
        n_inputs: int,
        has: BoolArray | None = None,
        n_samples: int | None = None,
    ) -> None:
        self._sums = sums  # (tasks, inputs then target, rows), centred; owned and changed
        self._size = sizes
        self.n_variables = int(sums.shape[0])
        # Another number than that of the rows, where these stand in for so many.
        self.n_samples = int(sums.shape[2]) if n_samples is None else n_samples
        self.n_inputs = n_inputs
        self._has = has  # (tasks, inputs): which a block has, where they differ; owned and changed
        self._square = np.einsum("ijk,ijk->ij", sums, sums)
        self._total, self._residual, self._rank = (np.empty(self.n_variables) for _ in range(3))
        # What the inputs of a block leave of its target, kept where a difference once cancelled.
        self._left: dict[int, FloatArray] = {}
        for chunk in chunks(self.n_variables, sums[0].size):
            self._store(chunk)

    @classmethod
    def of(
        cls, inputs: FloatArray, targets: FloatArray, *, sizes: IntArray | None = None
    ) -> PairedSpace:
        """Build from inputs ``(tasks, samples, inputs)`` and targets ``(samples, tasks)``.

        With ``sizes``, each is the mean of so many tasks already.
        """
        rows = np.concatenate((inputs.swapaxes(1, 2), targets.T[:, None]), axis=1)
        series = Series(rows, np.ones(rows[:, :-1, 0].shape, dtype=bool))
        return cls.of_series(series, sizes=sizes, overwrite=True)

    @classmethod
    def of_series(
        cls, series: Series, *, sizes: AnyArray | None = None, overwrite: bool = False
    ) -> PairedSpace:
        """Build from complete series; with ``overwrite`` their array becomes that of the space.

        Rows of weight zero are left out, so that the samples are those that count; the others are
        centred by their weights, then scaled by the roots of these. With ``sizes``, each task is
        the mean of so many already, or counts for so much.
        """
        if not series.is_complete:
            raise ValueError(
                "PairedSpace was given series with missing values, but it compares tasks on all "
                "rows: use GappyPairedSpace, or leave out the rows that are not complete."
            )
        weights = series.weights
        if weights is not None and not weights.all():
            series, weights, overwrite = series.take(weights > 0.0), weights[weights > 0.0], True
        sums = series.values if overwrite else series.values.copy()
        each = np.ones(sums.shape[2]) if weights is None else weights
        members = np.ones(series.n_tasks) if sizes is None else np.array(sizes, dtype=float)
        for chunk in chunks(len(sums), sums[0].size):
            rows = sums[chunk]
            rows[:, :-1][~series.has[chunk]] = 0.0
            if not series.is_centred:
                centre(rows, each)
            if weights is not None:
                rows *= np.sqrt(weights)
            if sizes is not None:
                rows *= members[chunk, None, None]
        has = None if series.has.all() else series.has.copy()
        return cls(sums, members, series.n_slots, has, series.n_samples)

    def evidence(self, block: int | IntArray, others: IntArray) -> Evidence:
        """Fits of both means, of the mean of all members, and what tells the two apart."""
        at = block if isinstance(block, np.ndarray) else slice(block, block + 1)
        a, b = self._size[at], self._size[others]
        first, second = self._joint(at), self._joint(others)
        joint = cache(lambda: self._joined(block, others))
        return Evidence(
            lambda: (first.fit(self.n_samples, a), second.fit(self.n_samples, b)),
            lambda: joint().fit(self.n_samples, a + b),
            lambda: self._difference(block, others, (first, second, joint())),
        )

    def correlation(self, block: int | IntArray, others: IntArray) -> FloatArray:
        """Correlation of the mean targets."""
        products = np.einsum("...j,...j->...", self._sums[block, -1], self._sums[others, -1])
        return correlations(products, self._square[block, -1], self._square[others, -1])

    def merge(self, block: int, other: int) -> None:
        """Average two blocks, targets and inputs, each member with the same weight."""
        self._sums[block] = self._added(block, other)
        self._square[block] = np.einsum("ij,ij->i", self._sums[block], self._sums[block])
        self._size[block] += self._size[other]
        self.merged(block, other)
        self._store(slice(block, block + 1))

    def directions(self, blocks: IntArray | slice) -> FloatArray:
        """Mean targets of unit length: their inner products are the correlations."""
        return unit_vectors(self._sums[blocks, -1], self._square[blocks, -1])

    @property
    def has_all_inputs(self) -> bool:
        """Whether no task lacks an input that another has."""
        return self._has is None

    def blocks(self) -> tuple[FloatArray, ...]:
        """Sums, sizes, squares, totals, residuals and ranks, for those that merge by themselves."""
        return self._sums, self._size, self._square, self._total, self._residual, self._rank

    def merged(self, block: int, other: int) -> None:
        """Be told that somebody merged two blocks in these arrays."""
        if self._has is not None:
            self._has[block] |= self._has[other]
        self._left.pop(block, None)
        self._left.pop(other, None)

    def mean_correlation(self) -> FloatArray:
        """Average correlation of each target with all of them."""
        targets = self.directions(slice(None))
        return np.asarray(targets @ targets.mean(axis=0))

    @property
    def total_variance(self) -> float:
        """Mean variance of the targets as they stand, the scale of losses in target units."""
        total = self._square[:, -1] / self._size**2
        return float(total.mean()) / (self.n_samples - 1)

    def _store(self, blocks: slice) -> None:
        total, residual, self._rank[blocks] = fits(self._sums[blocks])
        scale = self._size[blocks] ** 2
        self._total[blocks], self._residual[blocks] = total / scale, residual / scale

    def _joint(self, at: IntArray | slice) -> Joint:
        columns: Number = self.n_inputs
        if self._has is not None:
            columns = self._has[at].sum(axis=1).astype(float)
        return Joint(self._total[at], self._residual[at], self._rank[at], columns)

    def _joined(self, block: int | IntArray, others: IntArray) -> Joint:
        """Regressions after the block is merged with each of the others."""
        columns: Number = self.n_inputs
        if self._has is not None:
            columns = (self._has[block] | self._has[others]).sum(axis=1).astype(float)
        total, residual, rank = np.empty((3, others.size))
        blocks = np.broadcast_to(block, others.shape)
        for chunk in chunks(others.size, self._sums[0].size):
            mine, theirs = blocks[chunk], others[chunk]
            shared = block if isinstance(block, int) else mine  # one row, not a copy for each
            rows = self._sums[theirs] + self._sums[shared]
            scale = (self._size[mine] + self._size[theirs]) ** 2
            square, left, rank[chunk] = self._solved(rows, mine, theirs)
            total[chunk], residual[chunk] = square / scale, left / scale
        return Joint(total, residual, rank, columns)

    def _solved(self, rows: FloatArray, mine: IntArray, theirs: IntArray) -> FloatArray:
        """Regressions of the sums of pairs of blocks."""
        before = self._square[mine] + self._square[theirs]
        return fits(rows, before, lambda weak: self._added(mine[weak], theirs[weak]))

    def _added(self, block: int | IntArray, other: int | IntArray) -> FloatArray:
        """Sum two blocks, or pairs of them; rows that cancelled are zero, not rounding."""
        rows = self._sums[block] + self._sums[other]
        before = self._square[block] + self._square[other]
        rows[np.einsum("...ij,...ij->...i", rows, rows) <= CANCELLED * before] = 0.0
        return np.asarray(rows)

    def _difference(
        self, block: int | IntArray, others: IntArray, fitted: tuple[Joint, Joint, Joint]
    ) -> Fit:
        """Split the squared difference of two mean targets as a merge would."""
        first, second, both = fitted
        blocks = np.broadcast_to(block, others.shape)
        a, b = self._size[blocks], self._size[others]
        gap = self._sums[blocks, -1] / a[:, None] - self._sums[others, -1] / b[:, None]
        total = np.einsum("ij,ij->i", gap, gap)
        scale = first.total + second.total
        near = np.flatnonzero(total < NEARLY_EQUAL * scale)
        left = (self._all_left(int(blocks[k]), int(others[k])) for k in near)
        residual = first.residual, second.residual, both.residual
        lost = residual_lost((a, b), residual, total, scale, near, left)
        return difference(fitted, (a, b), total, lost, self.n_samples)

    def _all_left(self, block: int, other: int) -> Iterator[FloatArray]:
        """What fits leave of the mean targets of two blocks, and of the mean of all members."""
        for each in (block, other):
            if each not in self._left:
                self._left[each] = residual_of(self._sums[each])[0]
            yield self._left[each] / self._size[each]
        both = residual_of(self._added(block, other))[0]
        yield both / (self._size[block] + self._size[other])


def difference(
    fitted: tuple[Joint, Joint, Joint],
    sizes: tuple[FloatArray, FloatArray],
    total: FloatArray,
    lost: FloatArray,
    n_samples: Number,
) -> Fit:
    """Put what a merge loses as a regression that it gives up.

    ``fitted`` are both blocks and what would replace them, of ``sizes`` a and b. ``total`` is what
    a merge loses of the members' total sums of squares, ``lost`` what it loses of the residual
    ones, both over ``ab/(a+b)``: the squared difference of two means, split into what inputs
    explain of it and the rest.
    """
    first, second, both = fitted
    a, b = sizes
    share = a * b / (a + b)
    explained, residual = total - lost, lost
    rank = np.maximum(both.rank, 1.0)
    dof = n_samples - rank - 1.0
    ranks = np.stack(np.broadcast_arrays(first.rank, second.rank, both.rank))
    if (ranks != rank).any():
        # Fits of different rank pay differently for their noise: count it in units of the
        # merged fit's, so that the gain is the same.
        weights = np.stack((a, b, -(a + b))) / share
        noise = weights * np.stack(
            np.broadcast_arrays(first.residual, second.residual, both.residual)
        )
        per_residual, unit = ranks / (n_samples - ranks - 1.0), credit(rank, n_samples)
        reference = rank / dof
        extra = (noise * (credit(ranks, n_samples) / unit - 1.0)).sum(axis=0)
        explained = explained + reference * extra
        explained -= (noise * (per_residual - reference)).sum(axis=0)
        # Two blocks without inputs are told apart by nothing, which rounding must not decide.
        empty = ~ranks.any(axis=0)
        explained, residual = (
            np.where(empty, 0.0, explained),
            np.where(empty, total, residual + extra),
        )
    # Where a merge saves no noise variance no credit decides, only the gain itself: hold that
    # at m = 1 and let the noise be the least there is, so that losses stay numbers in order.
    least = LEAST_NOISE * np.maximum(total, ROUNDING * (first.total + second.total))
    none_saved = (residual < least) & ((explained != 0.0) | (residual != 0.0))
    if none_saved.any():
        f_star = 1.0 + (n_samples - 1.0) / (dof - 1.0)
        raised = np.where(none_saved, least - residual, 0.0)
        explained = explained + rank / dof * f_star * raised
        residual = np.where(none_saved, least, residual)
    return Fit(explained, residual, n_samples, both.n_inputs, rank, dof, a + b)


def credit(rank: Any, n_samples: Any) -> Any:
    """Rise of the risk per residual sum of squares, ``r/(n-r-1) (n-1)/(n-r-2)``."""
    spare = n_samples - rank - 1.0
    return rank / spare * (n_samples - 1.0) / (spare - 1.0)


def residual_lost(
    sizes: tuple[FloatArray, FloatArray],
    residual: Sequence[FloatArray] | FloatArray,
    total: FloatArray,
    scale: FloatArray,
    near: IntArray,
    left: Iterable[Iterable[FloatArray]],
) -> FloatArray:
    """What merges lose of residual squares, over ``ab/(a+b)``.

    ``residual`` are those of both means and of the mean that would replace them. Of those that are
    ``near``, tasks alike, ``left`` says what fits leave of the three, row by row: sums of squares
    have lost the digits. There it is exactly zero where it is rounding of squares of this
    ``scale``, and so is ``total``, which is changed.
    """
    a, b = sizes
    share = a * b / (a + b)
    lost = (a * residual[0] + b * residual[1] - (a + b) * residual[2]) / share
    for k, (mine, theirs, joint) in zip(near.tolist(), left, strict=True):
        mean, gap = (a[k] * mine + b[k] * theirs) / (a[k] + b[k]), mine - theirs
        square = float(gap @ gap + (a[k] + b[k]) / share[k] * ((mean - joint) @ (mean + joint)))
        lost[k] = square if abs(square) > ROUNDING * scale[k] / share[k] else 0.0
        total[k] = total[k] if abs(total[k]) > ROUNDING**2 * scale[k] else 0.0
    return lost


def fits(
    rows: FloatArray,
    before: FloatArray | None = None,
    again: Callable[[IntArray], FloatArray] | None = None,
) -> FloatArray:
    """Regress the last row on the others, for each of ``(blocks, rows, samples)``.

    Total and residual sums of squares and ranks, ``(3, blocks)``. By Gram matrices, and by singular
    values of the rows where these lose too many digits. ``before`` are squared lengths of what was
    added up: a row that cancelled is not trusted, and ``again`` gives the rows of such blocks with
    zeros for rounding. A row of zeros, an input that a block lacks or that is constant, counts for
    nothing and costs nothing: it is an orthogonal direction of its own, whose pivot is one.
    """
    gram = rows @ rows.swapaxes(1, 2)
    diagonal = np.arange(rows.shape[1])
    square = gram[:, diagonal, diagonal]
    empty = square == 0.0
    scale = np.sqrt(np.where(empty, 1.0, square))
    gram /= scale[:, :, None] * scale[:, None, :]
    gram[:, diagonal, diagonal] += empty
    pivot = pivots(gram)
    trusted = np.asarray((pivot > TRUSTED_PIVOT).all(axis=1))
    if before is not None:
        trusted &= ((square > CANCELLED * before) | empty).all(axis=1)
    rank = np.count_nonzero(~empty[:, :-1], axis=1).astype(float)
    total = square[:, -1]
    found = np.stack((total, pivot[:, -1] * total, rank))
    weak = np.flatnonzero(~trusted)
    if weak.size:
        found[1:, weak] = squares_left(rows[weak] if again is None else again(weak))
    return found


def pivots(unit: FloatArray) -> FloatArray:
    """Pivots of the Cholesky factorizations of matrices of unit diagonal; zero where one fails."""
    with suppress(np.linalg.LinAlgError):
        return np.asarray(np.diagonal(np.linalg.cholesky(unit), axis1=1, axis2=2) ** 2)
    # One failure fails the batch. Find the weak ones on matrices lifted out of reach of rounding.
    found = np.zeros(unit.shape[:2])
    lifted = np.linalg.cholesky(unit + LIFT * np.eye(unit.shape[1]))
    firm = np.flatnonzero((np.diagonal(lifted, axis1=1, axis2=2) ** 2 > TRUSTED_PIVOT).all(axis=1))
    # Should the lift have hidden one, all are left to singular values, slowly.
    with suppress(np.linalg.LinAlgError):
        found[firm] = np.diagonal(np.linalg.cholesky(unit[firm]), axis1=1, axis2=2) ** 2
    return found


def squares_left(rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Residual sums of squares and ranks by singular values, for many blocks at once.

    Those of the triangles, which have as many rows as columns; the decisions of ``residual_of``.
    """
    inputs = rows[:, :-1]
    length = np.sqrt(np.einsum("kij,kij->ki", inputs, inputs))
    columns = rows.copy()
    columns[:, :-1] /= np.where(length > 0.0, length, 1.0)[:, :, None]
    triangle: FloatArray = np.asarray(np.linalg.qr(columns.swapaxes(1, 2), mode="r"))
    left, values, _ = np.linalg.svd(triangle[:, :, :-1], full_matrices=False)
    larger = np.maximum(rows.shape[2], np.count_nonzero(length, axis=1))
    kept = values > EPS * larger[:, None] * values[:, :1]
    basis, target = left * kept[:, None], triangle[:, :, -1:]
    for _ in range(2):  # twice: the first sweep leaves rounding of the fit
        target = target - basis @ (basis.swapaxes(1, 2) @ target)
    residual = np.einsum("kij,kij->k", target, target)
    return np.asarray(residual), kept.sum(axis=1).astype(float)


def residual_of(rows: FloatArray) -> tuple[FloatArray, int]:
    """What the other rows leave of the last one, by singular values, and their rank."""
    inputs, target = rows[:-1], rows[-1]
    length = np.sqrt(np.einsum("ij,ij->i", inputs, inputs))
    columns = (inputs[length > 0.0] / length[length > 0.0, None]).T
    if columns.shape[1] == 0:
        return target, 0
    left, values, _ = linalg.svd(columns, full_matrices=False, check_finite=False)
    basis = left[:, values > max(columns.shape) * EPS * values[0]]
    for _ in range(2):  # twice: the first sweep leaves rounding of the fit
        target = target - basis @ (basis.T @ target)
    return np.asarray(target), int(basis.shape[1])


#: A pivot below this share of its diagonal, the target's too, and the Gram matrix has lost too many
#: digits: singular values of the rows decide.
TRUSTED_PIVOT = 1e-6
#: Added to a unit diagonal to tell the singular ones in a batch; far below what is trusted.
LIFT = 1e-9
#: A squared length below this share of its parts' is rounding.
CANCELLED = 1e-24
#: Mean targets whose squared difference is below this share of their own squares: what a merge
#: loses is then taken from vectors, not from sums of squares.
NEARLY_EQUAL = 1e-6
#: What rounding leaves of a difference taken from vectors, relative to the squares of the targets.
ROUNDING = 1e-14
#: Noise credited at least, relative to the squared difference of the two mean targets.
LEAST_NOISE = 1e-12
