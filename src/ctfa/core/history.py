"""All merges made, the nearest refusals, and what follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ctfa.core.libraries import imported
from ctfa.core.partition import Partition
from ctfa.core.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class MergeHistory:
    """One row per accepted merge, in the order they were made.

    ``block`` and ``other`` are slots: the index of the member by which each block was known.
    ``refused`` and ``refused_loss`` hold, for each variable that leads a final group, the candidate
    that it refused at the smallest loss, and that loss (-1 and infinity if it refused none). Where
    groups grow one after another that is the candidate, and the group, as they were when asked.

    ``complete`` is False where the search was stopped before its end. The merges are then those
    that the whole search would have made first; refusals are those known by then, and the interval
    of limits that give the same groups is empty, because it is not known. The first ``joined``
    merges were wished, and no limit undoes them.

    Examples
    --------
    >>> import numpy as np
    >>> from ctfa import TargetAggregator
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 3))
    >>> Y = np.column_stack([X[:, 0], X[:, 0], -X[:, 1]]) + rng.normal(size=(60, 3))
    >>> history = TargetAggregator(max_loss=np.inf).fit(X, Y).history_
    >>> [(block, other) for block, other, loss in history.merges()]
    [(0, 1), (0, 2)]
    >>> history.cut(2).labels
    array([0, 0, 1])
    """

    n_variables: int
    block: IntArray
    other: IntArray
    loss: FloatArray
    size: IntArray
    refused: IntArray
    refused_loss: FloatArray
    n_comparisons: int
    loss_interval: tuple[float, float]
    names: Sequence[str] | None = None
    complete: bool = True
    joined: int = 0

    def __len__(self) -> int:
        return int(self.block.size)

    def partition(self, max_loss: float = np.inf) -> Partition:
        """Return the groups after all merges, or after those before the first above ``max_loss``.

        Parameters
        ----------
        max_loss : float, default=inf
            The limit. For a smaller one than that of the scan the answer is exact if the order of
            merges does not depend on it: for the best-first scan.

        Returns
        -------
        Partition
        """
        return self.after(self.stop(max_loss))

    def stop(self, max_loss: float) -> int:
        """Number of merges before the first above ``max_loss``.

        Parameters
        ----------
        max_loss : float
            The limit.

        Returns
        -------
        int
        """
        above = np.flatnonzero(self.loss[self.joined :] > max_loss)
        return self.joined + int(above[0]) if above.size else len(self)

    def after(self, n_merges: int) -> Partition:
        """Return the groups after the first merges.

        Parameters
        ----------
        n_merges : int
            Number of merges.

        Returns
        -------
        Partition
        """
        labels = np.arange(self.n_variables)
        merges = slice(0, n_merges)
        # Backwards, so that each slot points at where its block ended up by then.
        for block, other in zip(self.block[merges][::-1], self.other[merges][::-1], strict=True):
            labels[other] = labels[block]
        return Partition(labels)

    def cut(self, n_groups: int) -> Partition:
        """Return the groups at the point where there were ``n_groups`` of them.

        Parameters
        ----------
        n_groups : int
            Number of groups; it must be one that the merges passed.

        Returns
        -------
        Partition
        """
        fewest = self.n_variables - len(self)
        if not fewest <= n_groups <= self.n_variables - self.joined:
            raise ValueError(
                f"there were never {n_groups} groups: the merges go from "
                f"{self.n_variables - self.joined} to {fewest}."
            )
        return self.after(self.n_variables - n_groups)

    def merges(self, n_merges: int | None = None) -> list[tuple[int, int, float]]:
        """Return the first merges, one by one.

        Parameters
        ----------
        n_merges : int or None, default=None
            Number of merges; None is all.

        Returns
        -------
        list of (int, int, float)
            ``block``, ``other`` and ``loss`` of each merge.
        """
        columns = (column[:n_merges].tolist() for column in (self.block, self.other, self.loss))
        return list(zip(*columns, strict=True))

    def leaf_order(self) -> IntArray:
        """Variables in an order in which every block, at any time, is a slice from its slot on.

        Returns
        -------
        ndarray of int of shape (n_variables,)
        """
        members = [[variable] for variable in range(self.n_variables)]
        for block, other in zip(self.block.tolist(), self.other.tolist(), strict=True):
            members[block] += members[other]
            members[other] = []
        return np.array([variable for group in members for variable in group], dtype=np.intp)

    def interval(self, max_loss: float = np.inf) -> tuple[float, float]:
        """Return the range of ``max_loss`` that gives the same partition, best-first.

        Parameters
        ----------
        max_loss : float, default=inf
            The limit.

        Returns
        -------
        low, high : float
            Any limit from ``low`` up to (not including) ``high``.
        """
        stop = self.stop(max_loss)
        if stop == len(self):
            return self.loss_interval
        worst = float(self.loss[self.joined : stop].max(initial=-np.inf))
        return worst, float(self.loss[stop])

    def linkage(self) -> FloatArray:
        """Return the merges as scipy's linkage rows: two clusters, height, members.

        Heights are the running maximum of the losses, shifted to start at zero. With more than one
        group left the rows describe a forest; scipy's plots need the whole tree, which
        ``max_loss=inf`` gives.

        Returns
        -------
        ndarray of shape (n_merges, 4)
        """
        rows = np.empty((len(self), 4))
        cluster = np.arange(self.n_variables)
        heights = np.maximum.accumulate(self.loss) if len(self) else self.loss
        lift = max(0.0, -float(heights[0])) if len(self) else 0.0
        for step, (block, other) in enumerate(zip(self.block, self.other, strict=True)):
            pair = sorted((cluster[block], cluster[other]))
            rows[step] = (*pair, heights[step] + lift, self.size[step])
            cluster[block] = self.n_variables + step
        return rows

    def columns(self) -> dict[str, Any]:
        """Return one array per column: block, other, loss, size; and names where there are any.

        Returns
        -------
        dict of ndarray
            Each of shape (n_merges,).
        """
        columns: dict[str, Any] = {
            name: getattr(self, name) for name in ("block", "other", "loss", "size")
        }
        if self.names is not None:
            named = np.array(self.names, dtype=object)
            columns |= {"block_name": named[self.block], "other_name": named[self.other]}
        return columns

    def to_frame(self) -> Any:
        """Return the merges as a pandas DataFrame.

        Returns
        -------
        DataFrame
            One row per merge, with the columns of ``columns``.
        """
        # By name: the core itself stands on numpy and scipy alone.
        pandas = imported("pandas", "MergeHistory.to_frame needs pandas: pip install pandas")
        return pandas.DataFrame(self.columns())


class Ledger:
    """A history that a scan is writing."""

    def __init__(self, n_variables: int) -> None:
        self.n_variables = n_variables
        self.n_comparisons = 0
        self.best_refused = np.inf
        self.n_joined = 0  # number of first merges that were wished
        self.merges: list[tuple[int, int, float, int]] = []
        self._size = np.ones(n_variables, dtype=np.intp)
        #: The block that each block refused at the smallest loss, and that loss.
        self.refused = np.full(n_variables, -1, dtype=np.intp)
        self.refused_loss = np.full(n_variables, np.inf)

    @property
    def n_merges(self) -> int:
        """Merges recorded so far."""
        return len(self.merges)

    def accept(self, block: int, other: int, loss: float, *, forget: bool = False) -> None:
        """Record a merge; ``forget`` what the block refused where all are asked again."""
        self._size[block] += self._size[other]
        self.merges.append((block, other, loss, int(self._size[block])))
        if forget:
            self.refused[block], self.refused_loss[block] = -1, np.inf

    def refuse(self, block: int, others: IntArray, losses: FloatArray) -> None:
        """Record refusals of one block; only the nearest is kept."""
        if not others.size:
            return
        nearest = int(np.argmin(losses))
        loss = float(losses[nearest])
        self.best_refused = min(self.best_refused, loss)
        if loss < self.refused_loss[block]:
            self.refused_loss[block], self.refused[block] = loss, others[nearest]

    def refuse_pairs(self, first: IntArray, second: IntArray, losses: FloatArray) -> None:
        """Record refusals of many pairs, on both sides."""
        for block, other, loss in zip(
            first.tolist(), second.tolist(), losses.tolist(), strict=True
        ):
            for one, two in ((block, other), (other, block)):
                if loss < self.refused_loss[one]:
                    self.refused_loss[one], self.refused[one] = loss, two
        self.best_refused = min(self.best_refused, float(losses.min(initial=np.inf)))

    def close(self, *, complete: bool = True) -> MergeHistory:
        """Return the history, finished or cut short."""
        worst = max((loss for _, _, loss, _ in self.merges[self.n_joined :]), default=-np.inf)
        block, other, loss, size = zip(*self.merges, strict=True) if self.merges else ((),) * 4
        return MergeHistory(
            self.n_variables,
            np.array(block, dtype=np.intp),
            np.array(other, dtype=np.intp),
            np.array(loss, dtype=float),
            np.array(size, dtype=np.intp),
            self.refused,
            self.refused_loss,
            self.n_comparisons,
            (worst, self.best_refused if complete else worst),
            complete=complete,
            joined=self.n_joined,
        )
