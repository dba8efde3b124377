"""Inner products between the sums of blocks, kept current as blocks merge.

Every question of Phase I is a few of these numbers, of two kinds: of fitted values and of
residuals. Kinds are kept side by side along the first axis, because a question is small and both
kinds take part in it alike. A block is known by its slot, the index of one of its members;
``merge(block, others)`` leaves the sum of all in ``block`` and retires the others' slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from ctfa.core.types import FloatArray, IntArray

#: Rows computed ahead by one matrix product, at most.
MAX_AHEAD = 128


class DenseGram:
    """The whole matrices: each product is a look-up, each merge one row and one column."""

    def __init__(self, matrices: FloatArray, vectors: Sequence[FloatArray] = ()) -> None:
        self.matrices = matrices  # (kinds, n_variables, n_variables); owned and changed
        # What was multiplied, a row for each variable of each kind, if kept. For differences, where
        # look-ups have lost the digits: seldom wanted, so summed then.
        self.vectors = tuple(vectors)
        self.has_merged = False
        self._members = [[variable] for variable in range(matrices.shape[1])]
        self.diagonal = matrices.diagonal(axis1=1, axis2=2).copy()

    @classmethod
    def of(cls, columns: Sequence[FloatArray]) -> DenseGram:
        """Multiply out the columns of each kind."""
        width = columns[0].shape[1]
        matrices = np.empty((len(columns), width, width))
        for matrix, part in zip(matrices, columns, strict=True):
            np.matmul(part.T, part, out=matrix)
        # Copies, whatever the order of the columns: a block that is turned round changes them.
        return cls(matrices, [np.array(part.T, order="C") for part in columns])

    def products(self, block: int | IntArray, others: IntArray) -> FloatArray:
        """Products ``(kinds, others)`` of a block with others, or of blocks and others in pairs."""
        if isinstance(block, np.ndarray):
            return np.asarray(self.matrices[:, block, others])
        return np.asarray(self.matrices[:, block].take(others, axis=1))

    def merge(self, block: int, others: IntArray) -> None:
        """Put the sum of them all in ``block``: add the others' rows and columns to its own."""
        added = self.matrices[:, others].sum(axis=1)
        length = self.diagonal[:, block] + 2.0 * added[:, block] + added[:, others].sum(axis=1)
        row = self.matrices[:, block]
        row += added
        row[:, block] = length
        self.matrices[:, :, block] = row
        self.diagonal[:, block] = length
        self.has_merged = True
        for other in others.tolist():
            self._members[block] += self._members[other]

    def negate(self, block: int) -> None:
        """Change the sign of a block's sum: of a row, a column and the members' vectors."""
        self.matrices[:, block] *= -1.0
        self.matrices[:, :, block] *= -1.0
        for part in self.vectors:
            part[self._members[block]] *= -1.0

    def foresee(
        self, block: int, sequence: IntArray, others: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        """Diagonal ``(kinds, K+1, 1)`` and products ``(kinds, K+1, others)`` of a growing block.

        Row k is what ``merge`` of the first k of the sequence would leave.
        """
        grown = np.concatenate(([block], sequence))
        rows = self.matrices[:, grown]
        within = rows.take(sequence, axis=2).cumsum(axis=1)
        steps = self.diagonal[:, grown]
        steps[:, 1:] += 2.0 * within[:, :-1].diagonal(axis1=1, axis2=2)
        return steps.cumsum(axis=1)[:, :, None], rows.take(others, axis=2).cumsum(axis=1)

    def expect(self, blocks: IntArray, others: IntArray) -> None:
        """Prepare for coming questions about these blocks and others. Changes no answer."""

    def sums(self, blocks: IntArray) -> list[FloatArray]:
        """The block sums themselves, one row per block, of each kind."""
        members = [self._members[block] for block in blocks.tolist()]
        return [np.stack([part[group].sum(axis=0) for group in members]) for part in self.vectors]

    def row_sums(self, scale: FloatArray) -> FloatArray:
        """Sum over all columns of ``product / (scale_i * scale_j)``, one row per kind."""
        return np.asarray((self.matrices @ (1.0 / scale)) / scale)


class FactoredGram:
    """Only the vectors whose inner products they are: for too many blocks to hold a matrix.

    A single row is limited by memory speed, a few dozen rows at once by arithmetic: rows that will
    be asked for next are computed ahead in one matrix product. How far ahead adapts: twice as far
    while every prepared row is used, half as far when merges made some of them useless.
    """

    def __init__(self, columns: Sequence[FloatArray]) -> None:
        # Each (n_variables, length), copies that are changed.
        self.vectors = tuple(np.array(part.T, order="C") for part in columns)
        self.diagonal = np.stack([np.einsum("ij,ij->i", part, part) for part in self.vectors])
        self._ahead = 1
        self._row_of: dict[int, int] = {}
        self._panel = np.empty((len(self.vectors), 0, 0))
        self._panel_blocks = np.empty(0, dtype=np.intp)
        self._first = 0
        self._unused = 0

    def products(self, block: int | IntArray, others: IntArray) -> FloatArray:
        """Take the products from the prepared rows, or multiply."""
        if isinstance(block, np.ndarray):
            pairs = ((part[block], part[others]) for part in self.vectors)
            return np.stack([np.einsum("ij,ij->i", *pair) for pair in pairs])
        row = self._row_of.get(block)
        if row is None or not self._covers(others):
            return np.stack([part[others] @ part[block] for part in self.vectors])
        return np.asarray(self._panel[:, row].take(others - self._first, axis=1))

    def _covers(self, others: IntArray) -> bool:
        """Whether the prepared rows reach all of the others."""
        if others.size == 0:
            return True
        last = self._first + self._panel.shape[2]
        return bool(others.min() >= self._first and others.max() < last)

    def merge(self, block: int, others: IntArray) -> None:
        """Add the vectors; prepared rows of other blocks stay valid, those of these do not."""
        for part in self.vectors:
            part[block] += part[others].sum(axis=0)
        self.diagonal[:, block] = [part[block] @ part[block] for part in self.vectors]
        self._row_of.pop(block, None)
        self._unused += sum(self._row_of.pop(int(other), None) is not None for other in others)
        column = block - self._first
        if self._row_of and 0 <= column < self._panel.shape[2]:
            for panel, part in zip(self._panel, self.vectors, strict=True):
                panel[:, column] = part[self._panel_blocks] @ part[block]

    def negate(self, block: int) -> None:
        """Change the sign of a vector; prepared rows of it are dropped."""
        for part in self.vectors:
            part[block] *= -1.0
        self._row_of.pop(block, None)
        column = block - self._first
        if 0 <= column < self._panel.shape[2]:
            self._panel[:, :, column] *= -1.0

    def foresee(
        self, block: int, sequence: IntArray, others: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        """Accumulate vectors of the sequence."""
        grown = np.concatenate(([block], sequence))
        sums = [part[grown].cumsum(axis=0) for part in self.vectors]
        diagonal = np.stack([np.einsum("ij,ij->i", part, part) for part in sums])
        products = [s @ part[others].T for s, part in zip(sums, self.vectors, strict=True)]
        return diagonal[:, :, None], np.stack(products)

    def expect(self, blocks: IntArray, others: IntArray) -> None:
        """Prepare rows for the next blocks, unless the first of them is ready."""
        if blocks.size == 0 or others.size == 0:
            return
        if int(blocks[0]) in self._row_of and self._covers(others):
            return
        if self._unused * 2 > self._panel.shape[1]:
            self._ahead = max(1, self._ahead // 2)
        else:
            self._ahead = min(MAX_AHEAD, self._ahead * 2)
        chosen = blocks[: self._ahead]
        self._first, last = int(others.min()), int(others.max()) + 1
        self._panel = np.stack([part[chosen] @ part[self._first : last].T for part in self.vectors])
        self._panel_blocks = chosen
        self._row_of = {int(block): row for row, block in enumerate(chosen)}
        self._unused = 0

    def sums(self, blocks: IntArray) -> list[FloatArray]:
        """They are what is kept."""
        return [part[blocks] for part in self.vectors]

    def row_sums(self, scale: FloatArray) -> FloatArray:
        """Sum scaled rows without forming them."""
        return np.stack([(part @ ((1.0 / scale) @ part)) / scale for part in self.vectors])


#: Of a few blocks or of many.
Gram: TypeAlias = DenseGram | FactoredGram
