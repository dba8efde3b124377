"""Inner products between the sums of blocks, kept current as blocks merge.

Every question of Phase I is a few of these numbers. A block is known by its slot, the index of
one of its members; ``merge(block, others)`` leaves the sum of all in ``block`` and retires the
others' slots.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from ctfa.core.types import FloatArray, IntArray

#: Rows computed ahead by one matrix product, at most.
MAX_AHEAD = 128


class Gram(Protocol):
    """Inner products of block sums."""

    diagonal: FloatArray

    def products(self, block: int | IntArray, others: IntArray) -> FloatArray:
        """Inner products of a block with others, or of blocks and others pairwise."""

    def merge(self, block: int, others: int | IntArray) -> None:
        """Put the sum of them all in ``block``."""

    def foresee(
        self, block: int, sequence: IntArray, others: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        """Diagonal ``(K+1, 1)`` and products ``(K+1, others)`` of a block that grows.

        Row k is what ``merge`` of the first k of the sequence would leave.
        """

    def expect(self, blocks: IntArray, others: IntArray) -> None:
        """Be told which blocks will be asked about next, against whom. Changes no answer."""

    def row_sums(self, scale: FloatArray) -> FloatArray:
        """Sum over all columns of ``product / (scale_i * scale_j)``."""


class DenseGram:
    """The whole matrix: each product is a look-up, each merge one row and one column."""

    def __init__(self, matrix: FloatArray) -> None:
        self.matrix = matrix
        self.diagonal = matrix.diagonal().copy()

    def products(self, block: int | IntArray, others: IntArray) -> FloatArray:
        """Look the products up."""
        if isinstance(block, np.ndarray):
            return np.asarray(self.matrix[block, others])
        return np.asarray(self.matrix[block].take(others))

    def merge(self, block: int, others: int | IntArray) -> None:
        """Add the others' rows and columns to those of ``block``."""
        others = np.atleast_1d(others)
        added = self.matrix[others].sum(axis=0)
        length = self.diagonal[block] + 2.0 * added[block] + added.take(others).sum()
        row = self.matrix[block]
        row += added
        row[block] = length
        self.matrix[:, block] = row
        self.diagonal[block] = length

    def foresee(
        self, block: int, sequence: IntArray, others: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        """Accumulate rows of the sequence."""
        rows = self.matrix[np.concatenate(([block], sequence))]
        within = np.cumsum(rows.take(sequence, axis=1), axis=0)
        steps = 2.0 * within[:-1].diagonal() + self.diagonal[sequence]
        diagonal = np.cumsum(np.concatenate(([self.diagonal[block]], steps)))
        return diagonal[:, None], np.cumsum(rows.take(others, axis=1), axis=0)

    def expect(self, blocks: IntArray, others: IntArray) -> None:
        """Nothing to prepare."""

    def row_sums(self, scale: FloatArray) -> FloatArray:
        """Sum scaled rows."""
        return np.asarray((self.matrix @ (1.0 / scale)) / scale)


class FactoredGram:
    """Only the vectors whose inner products they are: for too many blocks to hold a matrix.

    A single row is limited by memory speed, a few dozen rows at once by arithmetic: rows that will
    be asked for next are computed ahead in one matrix product. How far ahead adapts: twice as far
    while every prepared row is used, half as far when merges made some of them useless.
    """

    def __init__(self, vectors: FloatArray) -> None:
        self.vectors = vectors  # (n_variables, length), one row a block sum; owned and changed
        self.diagonal = np.einsum("ij,ij->i", vectors, vectors)
        self._ahead = 1
        self._row_of: dict[int, int] = {}
        self._panel, self._panel_vectors = np.empty((0, 0)), np.empty((0, 0))
        self._first = 0
        self._unused = 0

    def products(self, block: int | IntArray, others: IntArray) -> FloatArray:
        """Take the products from the prepared rows, or multiply."""
        if isinstance(block, np.ndarray):
            pairs = self.vectors[block], self.vectors[others]
            return np.asarray(np.einsum("ij,ij->i", *pairs))
        row = self._row_of.get(block)
        if row is None:
            return np.asarray(self.vectors[others] @ self.vectors[block])
        return np.asarray(self._panel[row].take(others - self._first))

    def merge(self, block: int, others: int | IntArray) -> None:
        """Add the vectors; prepared rows of other blocks stay valid, those of these do not."""
        others = np.atleast_1d(others)
        self.vectors[block] += self.vectors[others].sum(axis=0)
        self.diagonal[block] = self.vectors[block] @ self.vectors[block]
        self._row_of.pop(block, None)
        self._unused += sum(self._row_of.pop(int(other), None) is not None for other in others)
        if self._row_of:
            column = block - self._first
            if 0 <= column < self._panel.shape[1]:
                self._panel[:, column] = self._panel_vectors @ self.vectors[block]

    def foresee(
        self, block: int, sequence: IntArray, others: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        """Accumulate vectors of the sequence."""
        sums = np.cumsum(self.vectors[np.concatenate(([block], sequence))], axis=0)
        return np.einsum("ij,ij->i", sums, sums)[:, None], sums @ self.vectors[others].T

    def expect(self, blocks: IntArray, others: IntArray) -> None:
        """Prepare rows for the next blocks, unless the first of them is ready."""
        if blocks.size == 0 or others.size == 0 or int(blocks[0]) in self._row_of:
            return
        if self._unused * 2 > self._panel.shape[0]:
            self._ahead = max(1, self._ahead // 2)
        else:
            self._ahead = min(MAX_AHEAD, self._ahead * 2)
        chosen = blocks[: self._ahead]
        self._first = int(others.min())
        last = int(others.max()) + 1
        self._panel_vectors = self.vectors[chosen]
        self._panel = self._panel_vectors @ self.vectors[self._first : last].T
        self._row_of = {int(block): row for row, block in enumerate(chosen)}
        self._unused = 0

    def row_sums(self, scale: FloatArray) -> FloatArray:
        """Sum scaled rows without forming them."""
        return np.asarray((self.vectors @ ((1.0 / scale) @ self.vectors)) / scale)
