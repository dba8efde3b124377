"""Who belongs to which group, and the means that follow from it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ctfa.core.types import AnyArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Partition:
    """Groups of variables; labels count the groups in the order of their first members.

    Canonical labels make two partitions equal exactly when they hold the same groups, whatever
    scan found them.
    """

    labels: IntArray

    def __post_init__(self) -> None:
        given = np.asarray(self.labels)
        if given.ndim != 1:
            raise ValueError(
                f"labels must be one per variable, got an array of shape {given.shape}"
            )
        _, first, inverse = np.unique(given, return_index=True, return_inverse=True)
        rank = np.empty(first.size, dtype=np.intp)  # by first appearance
        rank[np.argsort(first, kind="stable")] = np.arange(first.size)
        object.__setattr__(self, "labels", rank[inverse.reshape(-1)])
        self.labels.setflags(write=False)

    @classmethod
    def singletons(cls, n_variables: int) -> Partition:
        """Return the partition in which nothing is merged."""
        return cls(np.arange(n_variables))

    @classmethod
    def from_groups(cls, groups: Iterable[Sequence[int]]) -> Partition:
        """Build from lists of members; every variable must be in exactly one list."""
        members = [np.asarray(group, dtype=np.intp) for group in groups]
        flat = np.concatenate(members) if members else np.empty(0, dtype=np.intp)
        if not np.array_equal(np.sort(flat), np.arange(flat.size)):
            raise ValueError("groups must contain each variable 0, 1, ... exactly once")
        labels = np.empty(flat.size, dtype=np.intp)
        for label, group in enumerate(members):
            labels[group] = label
        return cls(labels)

    @property
    def n_variables(self) -> int:
        """How many variables were partitioned."""
        return int(self.labels.size)

    @cached_property
    def n_groups(self) -> int:
        """How many groups there are."""
        return int(self.labels.max()) + 1 if self.labels.size else 0

    @cached_property
    def sizes(self) -> IntArray:
        """Members per group."""
        return np.bincount(self.labels, minlength=self.n_groups).astype(np.intp)

    @cached_property
    def groups(self) -> tuple[IntArray, ...]:
        """Members of each group, ascending."""
        order = np.argsort(self.labels, kind="stable")
        return tuple(np.split(order, np.cumsum(self.sizes)[:-1])) if self.labels.size else ()

    @cached_property
    def merged(self) -> tuple[IntArray, IntArray, IntArray]:
        """Groups of two and more, their members group by group, and the group of each of these."""
        groups = np.flatnonzero(self.sizes > 1)
        order = np.argsort(self.labels, kind="stable")
        members = order[self.sizes[self.labels[order]] > 1]
        return groups, members, np.repeat(np.arange(groups.size), self.sizes[groups])

    def mean(self, columns: FloatArray, weights: FloatArray | None = None) -> FloatArray:
        """Average the columns of each group: ``(n, n_variables) -> (n, n_groups)``.

        With ``weights`` (n_variables,) each member counts by its own.
        """
        counts = self.sizes if weights is None else np.bincount(self.labels, weights)
        return np.asarray(self.sum(columns, weights) / counts)

    def sum(self, columns: FloatArray, weights: FloatArray | None = None) -> FloatArray:
        """Add up the columns of each group, by their weights where these are given."""
        # Sorted by group once and summed by slices: no n_variables x n_groups matrix, so 30,000
        # targets cost one pass over the data.
        order = np.argsort(self.labels, kind="stable")
        starts = np.concatenate(([0], np.cumsum(self.sizes)[:-1])).astype(np.intp)
        members = columns[:, order] if weights is None else columns[:, order] * weights[order]
        return np.asarray(np.add.reduceat(members, starts, axis=1))

    def spread(self, columns: AnyArray) -> AnyArray:
        """Give each member its group's column: ``(n, n_groups) -> (n, n_variables)``."""
        return np.asarray(columns[:, self.labels])

    def share_out(self, slopes: FloatArray) -> FloatArray:
        """Slopes on the means as those on the members: ``(..., n_groups) -> (..., n_variables)``.

        One unit of a member moves the mean of k by a k-th.
        """
        return np.asarray((slopes / self.sizes)[..., self.labels])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Partition):
            return NotImplemented
        return bool(np.array_equal(self.labels, other.labels))

    def __hash__(self) -> int:
        return hash(self.labels.tobytes())

    def __repr__(self) -> str:
        return f"Partition({self.n_variables} variables in {self.n_groups} groups)"
