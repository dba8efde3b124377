"""Restrictions ``coef_a = coef_b`` where a fit has less than full rank.

The same questions as in ``ctfa.core.restrictions``, one restriction at a time and from explicit
differences. Coefficients are the shortest that fit: a restriction that the data do not determine
is absorbed by the null space ``N`` and costs nothing on the training rows, though it moves the
predictions of held-out ones. With ``v = n_a - n_b`` the coefficients move by ``-t N'v``,
``t = (w_a - w_b) / |v|^2``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ctfa.core.restrictions import Answer, Restrictions, Roots
from ctfa.core.stacked import stack_padded
from ctfa.core.types import FloatArray, IntArray

#: A contrast with a larger part in the null space than this is not determined by the data.
NULL_TOLERANCE = 1e-22


class DeficientRestrictions:
    """The current restricted fits, one column a block, of any rank."""

    foresees = False

    def __init__(
        self, roots: Sequence[Roots], coef: Sequence[FloatArray], error: Sequence[FloatArray]
    ) -> None:
        self._root = stack_padded([part.root for part in roots])
        self._null = stack_padded([part.null for part in roots])
        self._response = stack_padded([part.response for part in roots])
        self._null_response = stack_padded([part.null_response for part in roots])
        self._coef = np.stack(coef)
        self._error = stack_padded([part[None, :] for part in error])
        self._position = np.arange(coef[0].size)
        self._slots = np.arange(coef[0].size)
        self._alive = np.ones(coef[0].size, dtype=bool)

    def start(self) -> None:
        """Nothing: compiled scans are for full rank."""

    def ask(self, block: int | IntArray, others: IntArray) -> Answer:
        """Answer for one block against others, or for blocks and others in pairs."""
        p, c = np.atleast_1d(self._position[block]), self._position[others]
        gap = self._coef[:, p] - self._coef[:, c]
        length, free = _square(self._root, p, c), _square(self._null, p, c)
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
        length, free = _sum_squares(d), _sum_squares(v)
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


def restrictions(
    roots: Sequence[Roots], coef: Sequence[FloatArray], error: Sequence[FloatArray]
) -> Restrictions | DeficientRestrictions:
    """By runs where every fit has full rank, one by one where not."""
    is_deficient = any(part.null.shape[1] for part in roots)
    kind = DeficientRestrictions if is_deficient else Restrictions
    return kind(roots, coef, error)


def _square(columns: FloatArray, p: IntArray, c: IntArray) -> FloatArray:
    d = columns[:, p] - columns[:, c]
    return np.asarray(np.einsum("fcm,fcm->fc", d, d))


def _sum_squares(vector: FloatArray) -> FloatArray:
    return np.asarray(np.sum(vector * vector, axis=1, keepdims=True))
