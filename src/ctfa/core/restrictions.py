"""Least squares under restrictions ``coef_a = coef_b``, kept current one restriction at a time.

A block's column is the *sum* of its members, so its coefficient is the one they share, and merging
two blocks is the restriction ``coef_a - coef_b = 0`` whatever their sizes. With ``inv(X'X) = B'B``
and ``d = b_a - b_b`` (columns of ``B``), the restricted coefficients are ``w - t B'd`` with
``t = (w_a - w_b) / |d|^2``, and the restricted root is ``B - d (B'd)' / |d|^2``.

This is the square-root form: ``B`` and not ``inv(X'X)`` is stored. Features that are about to be
merged are nearly collinear, and the inverse loses twice the digits that its root loses.

Several fits run side by side (one a fold) on stacked arrays, because each is small and the cost
of a question would otherwise be the calls and not the arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ctfa.core.design import Design
from ctfa.core.types import BoolArray, FloatArray, IntArray

#: A contrast with a larger part in the null space than this is not determined by the data.
NULL_TOLERANCE = 1e-22
#: When a difference of two vectors keeps less than this of their squared lengths, it is taken
#: explicitly: the expanded square would have lost the digits.
CANCELLATION = 1e-3
#: Updates collected before they are applied in one matrix product.
MAX_PENDING = 48
#: Rows computed ahead by one matrix product, at most.
MAX_AHEAD = 64


class Roots(NamedTuple):
    """One training set, factored, one row an input; nothing here depends on the target."""

    root: FloatArray  # (D, rank): columns of B
    null: FloatArray  # (D, D - rank): orthonormal directions that the inputs cannot see
    response: FloatArray  # (D, m): what held-out predictions do, judged inputs times B'B
    null_response: FloatArray  # (D, m): the same for the null space

    @classmethod
    def of(cls, design: Design, judged: FloatArray | None = None) -> Roots:
        """Take them from a design and held-out inputs about its mean (none: judge in sample)."""
        if judged is None:
            judged = np.empty((0, design.n_inputs))
        root, null = design.root, design.null
        return cls(root.T, null.T, root.T @ (root @ judged.T), null.T @ (null @ judged.T))


class Answer(NamedTuple):
    """What restricting a block to agree with each candidate would do, one row a fit."""

    rise: FloatArray  # of the residual sum of squares on the training rows
    judged_rise: FloatArray  # of the squared error on the held-out rows
    absorbed: BoolArray  # the null space takes the restriction: nothing changes on training rows


class Restrictions:
    """The current restricted fits, one column a block."""

    def __init__(
        self, roots: Sequence[Roots], coef: Sequence[FloatArray], error: Sequence[FloatArray]
    ) -> None:
        n_blocks = coef[0].size
        self._root = _stack([part.root for part in roots])
        self._null = _stack([part.null for part in roots])
        self._response = _stack([part.response for part in roots])
        self._null_response = _stack([part.null_response for part in roots])
        self._coef = np.stack(coef)
        self._error = _stack([part[None, :] for part in error])[:, 0]
        self._is_deficient = self._null.shape[2] > 0
        self._position = np.arange(n_blocks)
        self._alive = np.ones(n_blocks, dtype=bool)
        self._slots = np.arange(n_blocks)
        self._ahead = 0
        # Pending: each column c has moved by -weight[c] * move, for each of these in turn.
        self._weights: list[FloatArray] = []
        self._moves_root: list[FloatArray] = []
        self._moves_response: list[FloatArray] = []
        # Products of one block's column with everybody's, by position; valid until a merge.
        self._prepared: dict[int, tuple[FloatArray, FloatArray]] = {}
        self._settle()

    def ask(self, block: int | IntArray, others: IntArray) -> Answer:
        """Answer for one block against others, or for blocks and others in pairs."""
        p, c = np.atleast_1d(self._position[block]), self._position[others]
        gap = self._coef[:, p] - self._coef[:, c]
        if isinstance(block, np.ndarray):
            d = self._columns(p) - self._columns(c)
            e = self._responses(p) - self._responses(c)
            length, reach, pull = _square(d), _square(e), _dot(e, self._error)
        else:
            length, reach, pull = self._expanded(int(p[0]), c)
        if not self._is_deficient:
            step = gap / length
            return Answer(
                step * gap, step * (2.0 * pull + step * reach), np.zeros(gap.shape, dtype=bool)
            )
        return self._ask_deficient(p, c, gap, length, reach, pull)

    def merge(self, block: int, other: int) -> None:
        """Restrict two blocks to one coefficient; ``block`` keeps it, ``other`` is dropped."""
        p, j = int(self._position[block]), int(self._position[other])
        if self._is_deficient:
            self._merge_deficient(p, j)
        else:
            self._merge_full(p, j)
        self._alive[j] = False
        self._ahead = 0
        if self._is_deficient or len(self._weights) == MAX_PENDING:
            self._settle()

    def expect(self, blocks: IntArray) -> None:
        """Prepare the next blocks' products while nothing merges, twice as many each time."""
        if blocks.size == 0 or int(self._position[blocks[0]]) in self._prepared:
            return
        self._ahead = min(MAX_AHEAD, max(1, 2 * self._ahead))
        if self._ahead > 1 and not self._weights:
            chosen = self._position[blocks[: self._ahead]]
            near = self._root @ self._root[:, chosen].transpose(0, 2, 1)
            far = self._response @ self._response[:, chosen].transpose(0, 2, 1)
            self._prepared = {int(p): (near[..., k], far[..., k]) for k, p in enumerate(chosen)}

    def retire(self, block: int) -> None:
        """Drop a finished block; the others' coefficients already allow for it."""
        self._alive[self._position[block]] = False
        self._prepared.pop(int(self._position[block]), None)
        if np.count_nonzero(self._alive) < 0.75 * self._alive.size:
            self._settle()

    # ------------------------------------------------------------------ asking

    def _expanded(self, p: int, c: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """``|d|^2``, ``|e|^2`` and ``e'error`` for one block, from products with its column."""
        near, far = self._products(p)
        length_scale = self._length[:, [p]] + self._length[:, c]
        length = length_scale - 2.0 * near[:, c]
        reach = self._reach[:, [p]] + self._reach[:, c] - 2.0 * far[:, c]
        pull = self._pull[:, [p]] - self._pull[:, c]
        lost = np.flatnonzero((length < CANCELLATION * length_scale).any(axis=0))
        if lost.size:
            d = self._columns(np.array([p])) - self._columns(c[lost])
            e = self._responses(np.array([p])) - self._responses(c[lost])
            length[:, lost], reach[:, lost] = _square(d), _square(e)
            pull[:, lost] = _dot(e, self._error)
        return length, reach, pull

    def _products(self, p: int) -> tuple[FloatArray, FloatArray]:
        """Inner products of one block's column (and response) with everybody's."""
        if p not in self._prepared:
            at = np.array([p])
            near = self._times(self._root, self._moves_root, self._columns(at)[:, 0])
            far = self._times(self._response, self._moves_response, self._responses(at)[:, 0])
            self._prepared[p] = (near, far)
        return self._prepared[p]

    def _ask_deficient(
        self,
        p: IntArray,
        c: IntArray,
        gap: FloatArray,
        length: FloatArray,
        reach: FloatArray,
        pull: FloatArray,
    ) -> Answer:
        free = _square(self._null[:, p] - self._null[:, c])
        absorbed = free > NULL_TOLERANCE
        step = gap / np.where(absorbed, free, np.where(length > 0.0, length, 1.0))
        e = self._null_response[:, p] - self._null_response[:, c]
        reach = np.where(absorbed, _square(e), reach)
        pull = np.where(absorbed, _dot(e, self._error), pull)
        rise = np.where(absorbed, 0.0, step * gap)
        return Answer(rise, step * (2.0 * pull + step * reach), absorbed)

    # ------------------------------------------------------------------ merging

    def _merge_full(self, p: int, j: int) -> None:
        near, far = self._products(p)
        pair = np.array([p, j])
        columns, responses = self._columns(pair), self._responses(pair)
        d, e = columns[:, 0] - columns[:, 1], responses[:, 0] - responses[:, 1]
        h = self._times(self._root, self._moves_root, d)
        g = self._times(self._response, self._moves_response, e)
        length, reach = _sum_squares(d), _sum_squares(e)
        weight = h / length
        step = (self._coef[:, [p]] - self._coef[:, [j]]) / length
        pull = np.sum(e * self._error, axis=1, keepdims=True)

        self._coef -= step * h
        self._error += step * e
        self._pull += step * g - weight * (pull + step * reach)
        before = self._length.copy()
        self._length -= weight * h
        self._reach += weight * (weight * reach - 2.0 * g)
        self._weights.append(weight)
        self._moves_root.append(d)
        self._moves_response.append(e)
        self._restore_lost_digits(before)

        # The block's own products follow by the same rule, unless its column lost digits.
        own = weight[:, [p]]
        kept = self._length[:, p] > CANCELLATION * before[:, p]
        self._prepared.clear()
        if kept.all():
            rest = np.sum(e * (responses[:, 0] - own * e), axis=1, keepdims=True)
            self._prepared[p] = (near - own * h, far - own * g - weight * rest)

    def _restore_lost_digits(self, before: FloatArray) -> None:
        """Recompute lengths of columns that shrank so much that updating lost their digits."""
        shrunk = self._alive & (self._length < CANCELLATION * before).any(axis=0)
        lost = np.flatnonzero(shrunk)
        if lost.size:
            responses = self._responses(lost)
            self._length[:, lost] = _square(self._columns(lost))
            self._reach[:, lost] = _square(responses)
            self._pull[:, lost] = _dot(responses, self._error)

    def _merge_deficient(self, p: int, j: int) -> None:
        """The same where some fit is rank deficient; there the null space may take the step."""
        d, e = self._root[:, p] - self._root[:, j], self._response[:, p] - self._response[:, j]
        v = self._null[:, p] - self._null[:, j]
        free_e = self._null_response[:, p] - self._null_response[:, j]
        length, free = _sum_squares(d), _sum_squares(v)
        absorbed = free > NULL_TOLERANCE
        free = np.where(absorbed, free, 1.0)
        length_or_one = np.where(length > 0.0, length, 1.0)
        h, q = (self._root @ d[..., None])[..., 0], (self._null @ v[..., None])[..., 0]
        gap = self._coef[:, [p]] - self._coef[:, [j]]

        step = gap / np.where(absorbed, free, length_or_one)
        self._coef -= step * np.where(absorbed, q, h)
        self._error += step * np.where(absorbed, free_e, e)
        # First update: of everything, along the direction that gives way.
        weight = np.where(absorbed, q / free, h / length_or_one)
        shift = np.where(absorbed, e - free_e * (length / free), e)
        self._root -= weight[..., None] * d[:, None]
        self._response -= weight[..., None] * shift[:, None]
        # Second: what an absorbed restriction does to held-out rows and to the null space itself.
        weight = np.where(absorbed, h / free, 0.0)
        self._response -= weight[..., None] * free_e[:, None]
        weight = np.where(absorbed, q / free, 0.0)
        self._null_response -= weight[..., None] * free_e[:, None]
        self._null -= weight[..., None] * v[:, None]

    # ------------------------------------------------------------------ pending updates

    def _columns(self, c: IntArray) -> FloatArray:
        """Current columns of the root, ``(fits, len(c), rank)``."""
        return self._current(self._root, self._moves_root, c)

    def _responses(self, c: IntArray) -> FloatArray:
        """Current columns of the response, ``(fits, len(c), m)``."""
        return self._current(self._response, self._moves_response, c)

    def _current(self, stored: FloatArray, moves: list[FloatArray], c: IntArray) -> FloatArray:
        columns = stored[:, c]
        if moves:
            weights = np.stack([weight[:, c] for weight in self._weights], axis=2)
            columns -= weights @ np.stack(moves, axis=1)
        return columns

    def _times(self, stored: FloatArray, moves: list[FloatArray], vector: FloatArray) -> FloatArray:
        """Products of all current columns with one vector a fit."""
        products = (stored @ vector[..., None])[..., 0]
        for weight, move in zip(self._weights, moves, strict=True):
            products -= weight * np.sum(move * vector, axis=1, keepdims=True)
        return np.asarray(products)

    def _settle(self) -> None:
        """Apply pending updates, drop dead columns, and compute what is kept of each afresh."""
        keep = np.flatnonzero(self._alive)
        if self._weights or keep.size < self._alive.size:
            self._root = self._current(self._root, self._moves_root, keep)
            self._response = self._current(self._response, self._moves_response, keep)
            self._null, self._null_response = self._null[:, keep], self._null_response[:, keep]
            self._coef = self._coef[:, keep]
            self._slots = self._slots[keep]
            self._position[:] = -1
            self._position[self._slots] = np.arange(keep.size)
            self._alive = np.ones(keep.size, dtype=bool)
        self._weights.clear()
        self._moves_root.clear()
        self._moves_response.clear()
        self._prepared.clear()
        self._length = _square(self._root)
        self._reach = _square(self._response)
        self._pull = _dot(self._response, self._error)


def _stack(parts: list[FloatArray]) -> FloatArray:
    """Stack arrays of unequal widths, padded with zeros, which no product notices."""
    width = max(part.shape[1] for part in parts)
    stacked = np.zeros((len(parts), parts[0].shape[0], width))
    for target, part in zip(stacked, parts, strict=True):
        target[:, : part.shape[1]] = part
    return stacked


def _square(vectors: FloatArray) -> FloatArray:
    return np.einsum("fcm,fcm->fc", vectors, vectors)


def _dot(vectors: FloatArray, other: FloatArray) -> FloatArray:
    return np.asarray((vectors @ other[..., None])[..., 0])


def _sum_squares(vector: FloatArray) -> FloatArray:
    return np.sum(vector * vector, axis=1, keepdims=True)
