"""Least squares under restrictions ``coef_a = coef_b``, kept current run by run.

A block's column is the *sum* of its members, so its coefficient is the one they share, and merging
two blocks is the restriction ``coef_a - coef_b = 0`` whatever their sizes. With ``inv(X'X) = B'B``
and ``d = b_a - b_b`` (columns of ``B``), the restricted coefficients are ``w - t B'd`` with
``t = (w_a - w_b) / |d|^2``, and the restricted root is ``B - q q'B`` with ``q = d / |d|``: what
remains of ``B`` orthogonal to ``q``. A run of restrictions is a set of orthonormal directions, and
its first k members are the first k restrictions, so one factorization answers for every state
that a growing block goes through.

This is the square-root form: ``B`` and not ``inv(X'X)`` is stored. Features that are about to be
merged are nearly collinear, and the inverse loses twice the digits that its root loses.

Several fits (one per fold) run side by side on stacked arrays: one by one, the calls would cost
more than the arithmetic. ``Restrictions`` serves full rank, ``DeficientRestrictions`` any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ctfa.core.design import Design
from ctfa.core.types import BoolArray, FloatArray, IntArray

#: A squared length that keeps less than this of what it was taken from is computed explicitly.
CANCELLATION = 1e-3
#: Directions collected before they are removed from the root in one matrix product.
MAX_PENDING = 48
#: Blocks whose products are computed ahead by one matrix product, at most.
MAX_AHEAD = 64
#: A contrast with a larger part in the null space than this is not determined by the data.
NULL_TOLERANCE = 1e-22
#: Squared length of each row, of every fit.
SQUARE = "fcm,fcm->fc"


class Roots(NamedTuple):
    """One training set, factored, one row per input; nothing here depends on the target."""

    root: FloatArray  # (D, rank): columns of B
    null: FloatArray  # (D, D - rank): orthonormal directions that the inputs cannot see
    judged: FloatArray  # (m, rank): held-out inputs times B', the coordinates of their predictions
    response: FloatArray  # (D, m): what held-out predictions do, held-out inputs times B'B
    null_response: FloatArray  # (D, m): the same for the null space

    @classmethod
    def of(cls, design: Design, judged: FloatArray | None = None) -> Roots:
        """Take them from a design and held-out inputs about its mean (none: judge in sample)."""
        if judged is None:
            judged = np.empty((0, design.n_inputs))
        root, null = design.root.T, design.null.T
        seen = judged @ root
        # From the same root, though substitution would be closer: a restriction moves root and
        # response together, and their rounding must belong together too.
        return cls(root, null, seen, root @ seen.T, null @ (judged @ null).T)


class Answer(NamedTuple):
    """What restricting a block to agree with each candidate would do, one row per fit."""

    rise: FloatArray  # of the residual sum of squares on the training rows
    judged_rise: FloatArray  # of the squared error on the held-out rows
    absorbed: BoolArray  # the null space takes the restriction: nothing changes on training rows


class Run(NamedTuple):
    """Restrictions of one block to a sequence of others, worked out and not yet imposed.

    Direction i is what the first i directions leave of ``b_block - b_other``, at unit length.
    """

    block: int
    sequence: IntArray
    directions: FloatArray  # (fits, K, rank): q
    shifts: FloatArray  # (fits, K, m): held-out predictions of q
    products: FloatArray  # (fits, K, blocks): q'B
    responses: FloatArray  # (fits, K, blocks): shift'M, in the state before each restriction
    reach: FloatArray  # (fits, K, 1): |shift|^2
    step: FloatArray  # (fits, K, 1): how far the coefficients move, in units of q'B
    pull: FloatArray  # (fits, K, 1): shift'error, in the state after each restriction

    def first(self, k: int) -> Run:
        """The first k restrictions."""
        return Run(self.block, self.sequence[:k], *(part[:, :k] for part in self[2:]))

    @property
    def answer(self) -> Answer:
        """What each restriction does when its turn comes."""
        step, pull, reach = self.step[..., 0], self.pull[..., 0], self.reach[..., 0]
        judged_rise = step * (2.0 * pull - step * reach)
        return Answer(step * step, judged_rise, np.zeros(step.shape, dtype=bool))


class Restrictions:
    """The current restricted fits, one column per block."""

    foresees = True

    def __init__(
        self, roots: Sequence[Roots], coef: Sequence[FloatArray], error: Sequence[FloatArray]
    ) -> None:
        n_blocks = coef[0].size
        self._root = _stack_padded([part.root for part in roots])
        self._response = _stack_padded([part.response for part in roots])
        self._judged = _stack_padded([part.judged.T for part in roots])
        self._error = _stack_padded([part[None, :] for part in error])[:, 0]
        # Of each block's column: |b|^2, |m|^2, m'error, and its coefficient.
        self._own = np.stack([np.stack(coef)] * 4)
        self._position = np.arange(n_blocks)
        self._slots = np.arange(n_blocks)
        self._alive = np.ones(n_blocks, dtype=bool)
        # Directions to be removed from the root, their shifts, and how much of each a column has.
        self._directions = self._shifts = self._weights = np.empty((len(roots), 0, 0))
        # The block that was asked about last, its gaps to all, and what these were taken from.
        self._active = -1
        self._gaps = self._scale = self._own_scale = np.empty(0)
        # Products of blocks' columns with all columns, by position; valid until a merge.
        self._prepared: dict[int, tuple[FloatArray, FloatArray]] = {}
        self._ahead = 0
        self._foreseen: tuple[Run, FloatArray] | None = None
        self._settle()

    def start(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray] | None:
        """Copies of what a compiled scan starts from; None after a merge."""
        if not self._alive.all() or self._slots.size < self._position.size:
            return None
        own = self._own[3].copy()
        return self._root.copy(), self._response.copy(), own, self._error.copy()

    def ask(self, block: int | IntArray, others: IntArray) -> Answer:
        """Answer for one block against others, or for blocks and others in pairs."""
        p, c = self._position[block], self._position[others]
        if isinstance(block, np.ndarray):
            return _answer(self._explicit(p, c))
        return _answer(self._open(int(p)).take(c, axis=2))

    def foresee(self, block: int, sequence: IntArray, others: IntArray) -> tuple[Answer, Answer]:
        """Answers after the first k of a sequence, ``(fits, k, others)``, and those of its own."""
        run = self._plan(int(self._position[block]), self._position[sequence])
        states = self._states(run)
        self._restore_states(run, states)
        self._foreseen = run, states
        gaps = states.take(self._position[others], axis=3)
        # Of others that are absorbed by then only rounding is left, which must not be divided by.
        gaps[0][gaps[0] <= 0.0] = np.inf
        return _answer(gaps), run.answer

    def absorb(self, block: int, sequence: IntArray) -> Answer:
        """Restrict blocks to one coefficient, in turn; ``block`` keeps it, the others go."""
        p, c = int(self._position[block]), self._position[sequence]
        known = 0  # how many of them were the last to be foreseen
        if self._foreseen is not None and self._foreseen[0].block == p:
            run, states = self._foreseen
            same = run.sequence[: c.size] == c[: run.sequence.size]
            known = same.size if same.all() else int(same.argmin())
        if known:
            run = run.first(known)
            self._impose(run, states[:, :, known].copy())
        else:
            run, known = self._plan(p, c), c.size
            self._impose(run, self._states(run)[:, :, known] if self._active == p else None)
        answer = run.answer
        if known < c.size:
            rest = self.absorb(block, sequence[known:])
            answer = Answer(*(np.hstack(pair) for pair in zip(answer, rest, strict=True)))
        return answer

    def expect(self, blocks: IntArray) -> None:
        """Prepare the next blocks' products while nothing merges, twice as many each time."""
        if blocks.size == 0 or int(self._position[blocks[0]]) in self._prepared:
            return
        self._ahead = min(MAX_AHEAD, max(1, 2 * self._ahead))
        if self._ahead > 1:
            chosen = self._position[blocks[: self._ahead]]
            near, far = self._products(chosen)
            self._prepared = {int(p): (near[:, k], far[:, k]) for k, p in enumerate(chosen)}

    def retire(self, block: int) -> None:
        """Drop a finished block; the others' coefficients already allow for it."""
        p = int(self._position[block])
        self._alive[p] = False
        self._prepared.pop(p, None)
        if np.count_nonzero(self._alive) < 0.75 * self._alive.size:
            self._settle()

    # ------------------------------------------------------------------ asking

    def _open(self, p: int) -> FloatArray:
        """``|d|^2``, ``|e|^2``, ``e'error`` and the coefficients' gap, of one block to all."""
        if self._active != p:
            near, far = self._prepared.pop(p, (None, None))
            if near is None or far is None:
                near, far = (part[:, 0] for part in self._products(np.array([p])))
            self._active = p
            self._gaps = self._own[:, :, p, None] - self._own
            self._scale = self._own[0, :, p, None] + self._own[0]
            np.subtract(self._scale, 2.0 * near, out=self._gaps[0])
            np.subtract(self._own[1, :, p, None] + self._own[1], 2.0 * far, out=self._gaps[1])
            self._restore_gaps()
        return self._gaps

    def _restore_gaps(self) -> None:
        """Take differences explicitly where expanding the square has lost the digits."""
        doubtful = (self._gaps[0] < CANCELLATION * self._scale).any(axis=0) & self._alive
        doubtful[self._active] = False
        lost = np.flatnonzero(doubtful)
        if lost.size:
            self._gaps[:, :, lost] = self._explicit(np.array([self._active]), lost)
            self._scale[:, lost] = self._gaps[0][:, lost]

    def _explicit(self, p: IntArray, c: IntArray) -> FloatArray:
        """Do the same from the columns' differences, in pairs."""
        d, e = (mine - theirs for mine, theirs in zip(self._now(p), self._now(c), strict=True))
        coef = self._own[3]
        return np.stack((*_kept(d, e, self._error), coef[:, p] - coef[:, c]))

    def _products(self, p: IntArray) -> tuple[FloatArray, FloatArray]:
        """Inner products of blocks' columns, and responses, with those of all blocks."""
        columns, responses = self._now(p)
        near = columns @ self._root.swapaxes(1, 2)
        far = responses @ self._response.swapaxes(1, 2)
        if self._directions.shape[1]:
            near -= (columns @ self._directions.swapaxes(1, 2)) @ self._weights
            far -= (responses @ self._shifts.swapaxes(1, 2)) @ self._weights
        return near, far

    # ------------------------------------------------------------------ a run of restrictions

    def _plan(self, p: int, c: IntArray) -> Run:
        """Compute the directions of a run and their effect on all blocks."""
        columns, _ = self._now(np.concatenate(([p], c)))
        pending = self._directions
        differences = columns[:, :1] - columns[:, 1:]
        differences -= (differences @ pending.swapaxes(1, 2)) @ pending
        # Twice: what rounding left of the pending directions is large beside a small d, and again
        # beside what the earlier directions of the run leave of it.
        if c.size == 1:
            triangle = np.sqrt(np.einsum(SQUARE, differences, differences))[..., None]
            directions = differences / triangle
        else:
            directions, triangle = (
                part.swapaxes(1, 2) for part in np.linalg.qr(differences.swapaxes(1, 2))
            )
        directions = directions - (directions @ pending.swapaxes(1, 2)) @ pending
        shifts = directions @ self._judged
        products = directions @ self._root.swapaxes(1, 2)
        responses = shifts @ self._response.swapaxes(1, 2)
        if self._directions.shape[1]:
            responses -= (shifts @ self._shifts.swapaxes(1, 2)) @ self._weights
        overlap, coef = shifts @ shifts.swapaxes(1, 2), self._own[3]
        gap = (coef[:, p, None] - coef[:, c])[..., None]
        if c.size == 1:  # the same, without calls that cost more than the arithmetic
            before = reach = overlap
            step = gap / triangle
        else:
            before, reach = np.tril(overlap), overlap.diagonal(axis1=1, axis2=2)[..., None]
            responses -= before @ products - reach * products
            step = np.linalg.solve(triangle, gap)
        pull = shifts @ self._error[..., None] + before @ step
        return Run(p, c, directions, shifts, products, responses, reach, step, pull)

    def _states(self, run: Run) -> FloatArray:
        """What ``_open`` gives, ``(4, fits, K + 1, blocks)``, after the first k restrictions."""
        gaps, p = self._open(run.block), run.block
        states = np.empty((4, gaps.shape[1], run.sequence.size + 1, gaps.shape[2]))
        states[:, :, 0] = gaps
        products = run.products[:, :, p, None] - run.products
        responses = run.responses[:, :, p, None] - run.responses
        _moves(run, products, responses, states[:, :, 1:])
        for k in range(run.sequence.size):  # faster than cumsum, which goes against the grain
            states[:, :, k + 1] += states[:, :, k]
        return states

    def _restore_states(self, run: Run, states: FloatArray) -> None:
        """Take differences explicitly in the states where subtracting has lost the digits."""
        doubtful = (states[0] < CANCELLATION * self._scale[:, None]).any(axis=0) & self._alive
        doubtful[:, run.block] = False
        n_absorbed = np.arange(doubtful.shape[0])[:, None]
        doubtful[:, run.sequence] &= n_absorbed <= np.arange(run.sequence.size)
        for k in np.flatnonzero(doubtful.any(axis=1)).tolist():
            part, lost = run.first(k), np.flatnonzero(doubtful[k])
            pair = np.concatenate(([run.block], lost))
            weights = part.products[:, :, pair].swapaxes(1, 2)
            weights, d, e = (each[:, :1] - each[:, 1:] for each in (weights, *self._now(pair)))
            d -= weights @ part.directions
            e -= weights @ part.shifts
            error = self._error + (part.step * part.shifts).sum(axis=1)
            states[:3, :, k, lost] = _kept(d, e, error)

    def _impose(self, run: Run, gaps: FloatArray | None) -> None:
        """Make a run of restrictions the current state, in which the gaps are known or not."""
        moves = np.empty((4, *run.products.shape))
        _moves(run, run.products, run.responses, moves)
        self._own += moves.sum(axis=2)
        self._error += (run.step * run.shifts).sum(axis=1)
        self._directions = np.concatenate((self._directions, run.directions), axis=1)
        self._shifts = np.concatenate((self._shifts, run.shifts), axis=1)
        self._weights = np.concatenate((self._weights, run.products), axis=1)
        self._alive[run.sequence] = False
        self._ahead, self._active, self._foreseen = 0, -1, None
        self._prepared.clear()
        if self._directions.shape[1] >= MAX_PENDING:
            self._settle()
            return
        # Columns may have shrunk so much that updating what is kept of them lost the digits.
        doubtful = (self._own[0] < CANCELLATION * self._own_scale).any(axis=0) & self._alive
        lost = np.flatnonzero(doubtful)
        if lost.size:
            self._own[:3, :, lost] = _kept(*self._now(lost), self._error)
            self._own_scale[:, lost] = self._own[0][:, lost]
        if gaps is not None:
            self._active, self._gaps = run.block, gaps
            self._restore_gaps()

    # ------------------------------------------------------------------ pending directions

    def _now(self, c: IntArray) -> tuple[FloatArray, FloatArray]:
        """Current columns of the root and of the response, ``(fits, len(c), rank or m)``."""
        columns, responses = self._root[:, c], self._response[:, c]
        if self._directions.shape[1]:
            weights = self._weights[:, :, c].swapaxes(1, 2)
            columns -= weights @ self._directions
            responses -= weights @ self._shifts
        return columns, responses

    def _settle(self) -> None:
        """Remove pending directions, drop dead columns, and compute what is kept of each afresh."""
        keep = np.flatnonzero(self._alive)
        if keep.size < self._alive.size:
            self._root, self._response = self._now(keep)
            self._own = self._own[:, :, keep]
            self._slots = self._slots[keep]
            self._position[:] = -1
            self._position[self._slots] = np.arange(keep.size)
            self._alive = np.ones(keep.size, dtype=bool)
        n_fits, n_blocks, rank = self._root.shape
        self._directions = np.empty((n_fits, 0, rank))
        self._shifts = np.empty((n_fits, 0, self._response.shape[2]))
        self._weights = np.empty((n_fits, 0, n_blocks))
        self._own[:3] = _kept(self._root, self._response, self._error)
        self._own_scale = self._own[0].copy()
        # What was prepared is of a state that is gone.
        self._active, self._foreseen = -1, None
        self._prepared.clear()


class DeficientRestrictions:
    """The current restricted fits, one column per block, of any rank.

    The same questions, one restriction at a time and from explicit differences. Coefficients are
    the shortest that fit: a restriction that the data do not determine is absorbed by the null
    space ``N`` and costs nothing on the training rows, though it moves the predictions of held-out
    ones. With ``v = n_a - n_b`` the coefficients move by ``-t N'v``, ``t = (w_a - w_b) / |v|^2``.
    """

    foresees = False

    def __init__(
        self, roots: Sequence[Roots], coef: Sequence[FloatArray], error: Sequence[FloatArray]
    ) -> None:
        self._root = _stack_padded([part.root for part in roots])
        self._null = _stack_padded([part.null for part in roots])
        self._response = _stack_padded([part.response for part in roots])
        self._null_response = _stack_padded([part.null_response for part in roots])
        self._coef = np.stack(coef)
        self._error = _stack_padded([part[None, :] for part in error])
        self._position = np.arange(coef[0].size)
        self._slots = np.arange(coef[0].size)
        self._alive = np.ones(coef[0].size, dtype=bool)

    def start(self) -> None:
        """Nothing: compiled scans are for full rank."""

    def ask(self, block: int | IntArray, others: IntArray) -> Answer:
        """Answer for one block against others, or for blocks and others in pairs."""
        p, c = np.atleast_1d(self._position[block]), self._position[others]
        gap = self._coef[:, p] - self._coef[:, c]
        d, v = (part[:, p] - part[:, c] for part in (self._root, self._null))
        length, free = np.einsum(SQUARE, d, d), np.einsum(SQUARE, v, v)
        absorbed = free > NULL_TOLERANCE
        step = gap / np.where(absorbed, free, np.where(length > 0.0, length, 1.0))
        e = np.where(
            absorbed[..., None],
            self._null_response[:, p] - self._null_response[:, c],
            self._response[:, p] - self._response[:, c],
        )
        judged_rise = step * ((2.0 * self._error[:, None, 0] + step[..., None] * e) * e).sum(axis=2)
        return Answer(np.where(absorbed, 0.0, step * gap), judged_rise, absorbed)

    def foresee(self, block: int, sequence: IntArray, others: IntArray) -> tuple[Answer, Answer]:
        """Not offered: a run has no orthonormal directions when some steps are absorbed."""
        raise NotImplementedError

    def absorb(self, block: int, sequence: IntArray) -> Answer:
        """Restrict blocks to one coefficient, in turn; ``block`` keeps it, the others go."""
        answers = [self._merge(block, other) for other in sequence]
        self._drop_dead()
        return Answer(*(np.hstack(part) for part in zip(*answers, strict=True)))

    def expect(self, blocks: IntArray) -> None:
        """Do nothing: answers come from explicit differences."""

    def retire(self, block: int) -> None:
        """Drop a finished block; the others' coefficients already allow for it."""
        self._alive[self._position[block]] = False
        self._drop_dead()

    def _merge(self, block: int, other: int) -> Answer:
        answer = self.ask(block, np.array([other]))
        p, j = int(self._position[block]), int(self._position[other])
        d, e = self._root[:, p] - self._root[:, j], self._response[:, p] - self._response[:, j]
        v = self._null[:, p] - self._null[:, j]
        free_e = self._null_response[:, p] - self._null_response[:, j]
        length, free = (np.sum(part * part, axis=1, keepdims=True) for part in (d, v))
        absorbed = answer.absorbed
        free = np.where(absorbed, free, 1.0)
        length_or_one = np.where(length > 0.0, length, 1.0)
        h, q = (self._root @ d[..., None])[..., 0], (self._null @ v[..., None])[..., 0]
        gap = self._coef[:, [p]] - self._coef[:, [j]]

        step = gap / np.where(absorbed, free, length_or_one)
        self._coef -= step * np.where(absorbed, q, h)
        self._error[:, 0] += step * np.where(absorbed, free_e, e)
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
        self._alive[j] = False
        return answer

    def _drop_dead(self) -> None:
        keep = np.flatnonzero(self._alive)
        if keep.size > 0.75 * self._alive.size:
            return
        self._root, self._null = self._root[:, keep], self._null[:, keep]
        self._response = self._response[:, keep]
        self._null_response = self._null_response[:, keep]
        self._coef = self._coef[:, keep]
        self._slots = self._slots[keep]
        self._position[self._slots] = np.arange(keep.size)
        self._alive = np.ones(keep.size, dtype=bool)


def _answer(gaps: FloatArray) -> Answer:
    """``gap^2 / |d|^2`` and ``t (2 e'error + t |e|^2)`` with ``t = gap / |d|^2``."""
    length, reach, pull, gap = gaps
    step = gap / length
    judged_rise = step * (2.0 * pull + step * reach)
    return Answer(step * gap, judged_rise, np.zeros(gap.shape, dtype=bool))


def _moves(run: Run, products: FloatArray, responses: FloatArray, out: FloatArray) -> None:
    """How ``|b|^2``, ``|m|^2``, ``m'error`` and a coefficient change with each restriction."""
    np.multiply(products, -products, out=out[0])
    np.multiply(products, products * run.reach - 2.0 * responses, out=out[1])
    np.subtract(run.step * responses, run.pull * products, out=out[2])
    np.multiply(products, -run.step, out=out[3])


def _kept(d: FloatArray, e: FloatArray, error: FloatArray) -> FloatArray:
    """``|d|^2``, ``|e|^2`` and ``e'error`` of each row."""
    pull = (e @ error[..., None])[..., 0]
    return np.stack((np.einsum(SQUARE, d, d), np.einsum(SQUARE, e, e), pull))


def _stack_padded(parts: list[FloatArray]) -> FloatArray:
    """Stack arrays of unequal widths, padded with zeros, which no product notices."""
    width = max(part.shape[1] for part in parts)
    stacked = np.zeros((len(parts), parts[0].shape[0], width))
    for target, part in zip(stacked, parts, strict=True):
        target[:, : part.shape[1]] = part
    return stacked
