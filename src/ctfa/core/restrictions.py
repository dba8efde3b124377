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

Several fits (one a fold) run side by side on stacked arrays: one by one, the calls would cost more
than the arithmetic. All have full rank; ``ctfa.core.deficient`` serves where one has not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ctfa.core.design import Design
from ctfa.core.stacked import dot, orthonormal, square, stack_padded, turned
from ctfa.core.types import BoolArray, FloatArray, IntArray

#: A squared length that keeps less than this of what it was taken from is computed explicitly.
CANCELLATION = 1e-3
#: Directions collected before they are removed from the root in one matrix product.
MAX_PENDING = 48
#: Blocks whose products are computed ahead by one matrix product, at most.
MAX_AHEAD = 64


class Roots(NamedTuple):
    """One training set, factored, one row an input; nothing here depends on the target."""

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
    """What restricting a block to agree with each candidate would do, one row a fit."""

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


class Start(NamedTuple):
    """Fits without restrictions, one a fold."""

    root: FloatArray  # (fits, D, rank): columns of B
    response: FloatArray  # (fits, D, m): what they do to held-out predictions
    coef: FloatArray  # (fits, D)
    error: FloatArray  # (fits, m)


class Restrictions:
    """The current restricted fits, one column a block."""

    foresees = True

    def __init__(
        self, roots: Sequence[Roots], coef: Sequence[FloatArray], error: Sequence[FloatArray]
    ) -> None:
        n_blocks = coef[0].size
        self._root = stack_padded([part.root for part in roots])
        self._response = stack_padded([part.response for part in roots])
        self._judged = stack_padded([part.judged.T for part in roots])
        self._error = stack_padded([part[None, :] for part in error])[:, 0]
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
        # Products of blocks' columns with everybody's, by position; valid until a merge.
        self._prepared: dict[int, tuple[FloatArray, FloatArray]] = {}
        self._ahead = 0
        self._foreseen: tuple[Run, FloatArray] | None = None
        self._settle()

    def start(self) -> Start | None:
        """Copies of what a compiled scan starts from; None after a merge."""
        if not self._alive.all() or self._slots.size < self._position.size:
            return None
        parts = (self._root, self._response, self._own[3], self._error)
        return Start(*(part.copy() for part in parts))

    def ask(self, block: int | IntArray, others: IntArray) -> Answer:
        """Answer for one block against others, or for blocks and others in pairs."""
        c = self._position[others]
        if isinstance(block, np.ndarray):
            return _answer(self._explicit(self._position[block], c))
        return _answer(self._open(int(self._position[block])).take(c, axis=2))

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
        known = self._n_foreseen(p, c)
        if self._foreseen is not None and known:
            run, states = self._foreseen
            self._impose(run.first(known), states[:, :, known].copy())
        else:
            run, known = self._plan(p, c), c.size
            self._impose(run, self._states(run)[:, :, known] if self._active == p else None)
        answer = run.first(known).answer
        if known < c.size:
            rest = self.absorb(block, sequence[known:])
            answer = Answer(*(np.hstack(pair) for pair in zip(answer, rest, strict=True)))
        return answer

    def _n_foreseen(self, p: int, c: IntArray) -> int:
        """How many of a run were the last to be foreseen."""
        if self._foreseen is None or self._foreseen[0].block != p:
            return 0
        sequence = self._foreseen[0].sequence
        same = sequence[: c.size] == c[: sequence.size]
        return same.size if same.all() else int(same.argmin())

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
        lost = _lost(self._gaps[0], self._scale, self._alive)
        lost = lost[lost != self._active]
        if lost.size:
            self._gaps[:, :, lost] = self._explicit(np.array([self._active]), lost)
            self._scale[:, lost] = self._gaps[0][:, lost]

    def _explicit(self, p: IntArray, c: IntArray) -> FloatArray:
        """Do the same from the columns' differences, in pairs."""
        d, e = self._columns(p) - self._columns(c), self._responses(p) - self._responses(c)
        coef = self._own[3]
        return np.stack((square(d), square(e), dot(e, self._error), coef[:, p] - coef[:, c]))

    def _products(self, p: IntArray) -> tuple[FloatArray, FloatArray]:
        """Inner products of blocks' columns, and responses, with everybody's."""
        columns, responses = self._columns(p), self._responses(p)
        near, far = columns @ turned(self._root), responses @ turned(self._response)
        if self._directions.shape[1]:
            near -= (columns @ turned(self._directions)) @ self._weights
            far -= (responses @ turned(self._shifts)) @ self._weights
        return near, far

    # ------------------------------------------------------------------ a run of restrictions

    def _plan(self, p: int, c: IntArray) -> Run:
        """Work out the directions of a run and what they do to everybody."""
        columns = self._columns(np.concatenate(([p], c)))
        differences = columns[:, :1] - columns[:, 1:]
        # Twice: what rounding left of the pending directions is large beside a small d, and again
        # beside what the earlier directions of the run leave of it.
        directions, triangle = orthonormal(self._clear(differences))
        directions = self._clear(directions)
        shifts = directions @ self._judged
        products = directions @ turned(self._root)
        responses = shifts @ turned(self._response)
        if self._directions.shape[1]:
            responses -= (shifts @ turned(self._shifts)) @ self._weights
        overlap = shifts @ turned(shifts)
        before, reach = np.tril(overlap), overlap.diagonal(axis1=1, axis2=2)[..., None]
        if c.size > 1:
            responses -= before @ products - reach * products
        coef = self._own[3]
        step = np.linalg.solve(triangle, (coef[:, p, None] - coef[:, c])[..., None])
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
            weights = turned(part.products[:, :, pair])
            d, e = self._columns(pair), self._responses(pair)
            weights, d, e = (each[:, :1] - each[:, 1:] for each in (weights, d, e))
            d -= weights @ part.directions
            e -= weights @ part.shifts
            error = self._error + (part.step * part.shifts).sum(axis=1)
            states[:3, :, k, lost] = np.stack((square(d), square(e), dot(e, error)))

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
        self._ahead = 0
        self._forget()
        if self._directions.shape[1] >= MAX_PENDING:
            self._settle()
            return
        self._restore_own()
        if gaps is not None:
            self._active, self._gaps = run.block, gaps
            self._restore_gaps()

    def _restore_own(self) -> None:
        """Recompute what is kept of columns that shrank so much that updating lost the digits."""
        lost = _lost(self._own[0], self._own_scale, self._alive)
        if lost.size:
            columns, responses = self._columns(lost), self._responses(lost)
            self._own[0][:, lost] = self._own_scale[:, lost] = square(columns)
            self._own[1][:, lost] = square(responses)
            self._own[2][:, lost] = dot(responses, self._error)

    # ------------------------------------------------------------------ pending directions

    def _columns(self, c: IntArray) -> FloatArray:
        """Current columns of the root, ``(fits, len(c), rank)``."""
        return _removed(self._root[:, c], self._weights[:, :, c], self._directions)

    def _responses(self, c: IntArray) -> FloatArray:
        """Current columns of the response, ``(fits, len(c), m)``."""
        return _removed(self._response[:, c], self._weights[:, :, c], self._shifts)

    def _clear(self, vectors: FloatArray) -> FloatArray:
        """Take out of vectors what rounding left of the pending directions."""
        if not self._directions.shape[1]:
            return vectors
        return vectors - (vectors @ turned(self._directions)) @ self._directions

    def _settle(self) -> None:
        """Remove pending directions, drop dead columns, and compute what is kept of each afresh."""
        keep = np.flatnonzero(self._alive)
        if keep.size < self._alive.size:
            self._root, self._response = self._columns(keep), self._responses(keep)
            self._own = self._own[:, :, keep]
            self._slots = self._slots[keep]
            self._position[:] = -1
            self._position[self._slots] = np.arange(keep.size)
            self._alive = np.ones(keep.size, dtype=bool)
        n_fits, n_blocks, rank = self._root.shape
        self._directions = np.empty((n_fits, 0, rank))
        self._shifts = np.empty((n_fits, 0, self._response.shape[2]))
        self._weights = np.empty((n_fits, 0, n_blocks))
        self._own[0], self._own[1] = square(self._root), square(self._response)
        self._own[2] = dot(self._response, self._error)
        self._own_scale = self._own[0].copy()
        self._forget()

    def _forget(self) -> None:
        """Drop what was prepared for a state that is no more."""
        self._active = -1
        self._prepared.clear()
        self._foreseen = None


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


def _lost(squares: FloatArray, scale: FloatArray, alive: BoolArray) -> IntArray:
    return np.flatnonzero((squares < CANCELLATION * scale).any(axis=0) & alive)


def _removed(columns: FloatArray, weights: FloatArray, directions: FloatArray) -> FloatArray:
    """Take the pending directions out of columns."""
    if directions.shape[1]:
        columns -= turned(weights) @ directions
    return columns
