"""Labelled data that lie in chunks: tables that stay where they are, chunks of rows.

A chunk of a table holds whole rows. Those of the data may be cut through rows (places apart) and be
of any height: they are joined and cut to pieces that fit in memory several times over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ctfa import _validation as check
from ctfa._collections import compute, is_dask
from ctfa.core.types import FloatArray
from ctfa.labelled._facts import Facts
from ctfa.labelled._gather import Gathered
from ctfa.labelled._plan import Plan

#: Bytes of a piece of all tables, in double precision.
PIECE = 64 << 20


def in_chunks(gathered: Gathered) -> bool:
    """Whether the tables of these data stay in chunks."""
    # Not whether anything is Dask's: coordinates may be where the numbers are in memory.
    return any(array.chunks is not None for array in (gathered.target, *gathered.features))


def tables_of(gathered: Gathered) -> tuple[Any, list[Any]]:
    """The target and each feature as tables of rows, in the same chunks; nothing is computed.

    Features that all tasks share are one table.
    """
    plan, target = gathered.plan, gathered.target
    sample, dims = plan.sample, plan.task_dims
    first = next(a for a in (target, *gathered.features) if a.chunks is not None)
    n_numbers = sum(array.size for array in (target, *gathered.features))
    rows = row_chunks(first.chunksizes[sample], n_numbers // max(target.sizes[sample], 1))
    Y = _table(target, sample, dims, rows)
    if gathered.whole is not None:
        return Y, [_table(gathered.whole, sample, (str(plan.feature_dim),), rows)]
    slots = [
        _table(array, sample, () if slot.shared else dims, rows)
        for array, slot in zip(gathered.features, plan.slots, strict=True)
    ]
    return Y, [side_by_side(slots)] if plan.is_shared else slots


def side_by_side(tables: Sequence[Any]) -> Any:
    """Columns of several tables in one, whole rows in a chunk."""
    joined: Any = np.concatenate(tables, axis=1)
    return joined.rechunk({1: -1}) if is_dask(joined) else joined


def row_chunks(sizes: Sequence[int], width: int) -> tuple[int, ...]:
    """Heights of chunks: as they are, neighbours joined and high ones cut to fit a piece."""
    most = max(PIECE // (8 * max(width, 1)), 1)
    found: list[int] = []
    for size in sizes:
        if found and found[-1] + size <= most:
            found[-1] += size
            continue
        n_parts = -(-size // most)
        found += [size // n_parts + (part < size % n_parts) for part in range(n_parts)]
    return tuple(found)


def _table(array: Any, sample: str, dims: Sequence[str], rows: tuple[int, ...]) -> Any:
    ordered = array.transpose(sample, *dims)
    if ordered.chunks is None:
        check.refuse_rounded(ordered.values, str(array.name))
        return np.asarray(ordered.values, dtype=np.float64).reshape(ordered.sizes[sample], -1)
    data = ordered.data.rechunk({0: rows, **dict.fromkeys(range(1, ordered.ndim), -1)})
    return data.reshape(data.shape[0], int(np.prod(data.shape[1:])))


def first_rows(Y: Any, slots: Sequence[Any]) -> tuple[FloatArray, list[FloatArray]]:
    """The first piece of the tables, in memory."""
    height = next(table for table in (Y, *slots) if is_dask(table)).chunks[0][0]
    first = slice(0, max(int(height), 2))
    target, *features = compute(*(table[first] for table in (Y, *slots)))
    return np.asarray(target, dtype=np.float64), [np.asarray(f, dtype=np.float64) for f in features]


def facts_by_first_rows(
    Y: Any, slots: Sequence[Any], plan: Plan, first: tuple[FloatArray, list[FloatArray]]
) -> Facts | None:
    """Facts of all rows, judged by the first piece; None where that has to be seen.

    A task that is there throughout the first piece and changes in it is none without data. Gaps
    that come later are found by whoever sums the rows up.
    """
    found = Facts.of(*first, plan)
    return Facts.presumed(Y, slots, found.flat) if found.is_plain else None
