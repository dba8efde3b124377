"""Inner products between the sums of blocks, kept current as blocks merge.

Every question of Phase I is a few of these numbers. A block is known by its slot, the index of
one of its members; ``merge(block, other)`` leaves the sum of both in ``block`` and retires
``other``'s slot.
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

    def merge(self, block: int, other: int) -> None:
        """Put the sum of both in ``block``."""

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

    def merge(self, block: int, other: int) -> None:
        """Add row and column ``other`` to those of ``block``."""
        row = self.matrix[block]
        length = self.diagonal[block] + 2.0 * row[other] + self.diagonal[other]
        row += self.matrix[other]
        row[block] = length
        self.matrix[:, block] = row
        self.diagonal[block] = length

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
        self._panel = np.empty((0, 0))
        self._first = 0
        self._unused = 0

    def products(self, block: int | IntArray, others: IntArray) -> FloatArray:
        """Take the products from the prepared rows, or multiply."""
        if isinstance(block, np.ndarray):
            return np.einsum("ij,ij->i", self.vectors[block], self.vectors[others])
        row = self._row_of.get(block)
        if row is None:
            return np.asarray(self.vectors[others] @ self.vectors[block])
        return np.asarray(self._panel[row].take(others - self._first))

    def merge(self, block: int, other: int) -> None:
        """Add the vectors; prepared rows of other blocks stay valid, those of these two do not."""
        self.vectors[block] += self.vectors[other]
        self.diagonal[block] = self.vectors[block] @ self.vectors[block]
        self._row_of.pop(block, None)
        self._unused += self._row_of.pop(other, None) is not None
        width = self._panel.shape[1]
        a, b = block - self._first, other - self._first
        if 0 <= a < width and 0 <= b < width:
            self._panel[:, a] += self._panel[:, b]
        elif 0 <= a < width:
            self._row_of.clear()

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
        self._panel = self.vectors[chosen] @ self.vectors[self._first : last].T
        self._row_of = {int(block): row for row, block in enumerate(chosen)}
        self._unused = 0

    def row_sums(self, scale: FloatArray) -> FloatArray:
        """Sum scaled rows without forming them."""
        return np.asarray((self.vectors @ ((1.0 / scale) @ self.vectors)) / scale)
