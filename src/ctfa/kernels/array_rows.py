"""The questions of ``PairedSpace`` answered on a device, where whole rows of answers stay.

One block asks everybody at once; of the answers a scan wants only the first few, and only these
come back. What the device left open is asked of the space, and so are questions about few pairs,
for which the way to a device is too long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ctfa.core.backend import Questions, Refusals
from ctfa.core.criteria import Loss
from ctfa.core.rows import Row, first_of
from ctfa.core.spaces import PairedSpace
from ctfa.core.types import AnyArray, FloatArray, IntArray
from ctfa.kernels.array_paired import CLOCK, Shape, answers, column_of, table_of, width_of
from ctfa.kernels.devices import Device

#: Pairs of a row that come back.
REMEMBERED = 64
#: Share of columns that may be of blocks that are gone, and where a new shape is compiled anew.
GONE, GONE_COMPILED = 0.1, 0.6
#: Others for which a device is asked.
MANY = 1024
#: Parts of the table with which first rows are asked: each leaves out blocks that come later.
PANELS = 16
#: Stands for an infinite loss, as ``core.judge`` says it.
LARGEST = float(np.finfo(np.float64).max)


class PlainQuestions:
    """Losses and merges of a space by itself."""

    def __init__(self, space: PairedSpace, criterion: Loss) -> None:
        self._space, self._criterion = space, criterion
        self.merge = space.merge

    def losses(self, block: int | IntArray, others: IntArray) -> FloatArray:
        """Loss of merging a block with each of the others, or pair by pair."""
        return np.asarray(self._criterion(self._space.evidence(block, others)), dtype=float)


class ArrayQuestions:
    """Losses and merges of a space whose blocks also stand on a device, once many are asked."""

    def __init__(self, space: PairedSpace, host: Questions, device: Device) -> None:
        self._space, self._host, self._device = space, host, device
        n_rows, length = space.blocks()[0].shape[1:]
        full_rank = bool((space.blocks()[-1] == n_rows - 1).all())
        self._shape = Shape(float(space.n_samples), length, n_rows, full_rank)
        # When each block changed last, as ``RankedRows`` counts; infinite for those that are gone.
        self._clock = np.arange(space.n_variables, dtype=float)
        self._now = float(space.n_variables)
        self._limit: float | None = None
        self._table: Any = None
        self._replay: Callable[[], Any] | None = None
        #: Smallest loss above the limit in all rows so far.
        self.best_refused = np.inf

    def losses(self, block: int | IntArray, others: IntArray) -> FloatArray:
        """Loss of merging a block with each of the others, or pair by pair."""
        if isinstance(block, np.ndarray) or others.size < MANY:
            return self._host.losses(block, others)
        self._begin()
        losses, _ = self._whole(self._place[[block]])
        return self._filled(block, others, losses[0, self._place[others]])

    def merge(self, block: int, other: int) -> None:
        """Merge in the space, and on the device if its blocks stand there."""
        self._host.merge(block, other)
        self._clock[block], self._clock[other] = self._now, np.inf
        self._now += 1.0
        if self._shape.full_rank and self._space.blocks()[-1][block] < self._shape.n_rows - 1:
            self._shape = self._shape._replace(full_rank=False)
            self._compile()
        if self._table is None:
            return
        put, device = self._device.put, self._device
        column = device.array(column_of(self._space, block, self._clock[block]))
        self._table = put(self._table, (slice(None), int(self._place[block])), column)
        self._table = put(self._table, (CLOCK, int(self._place[other])), np.inf)
        self._n_gone += 1
        if self._n_gone > (GONE_COMPILED if device.compiles else GONE) * self._slots.size:
            self._clear()

    def rank_by(self, limit: float | None) -> None:
        """Rows by loss (None), or by correlation those pairs whose loss is within a limit."""
        self._limit = limit
        self._begin()
        self._compile()

    def first_rows(self) -> Iterator[tuple[int, Row]]:
        """The first pairs of each block with earlier ones, before merges."""
        n_blocks = self._slots.size
        panel = n_blocks if self._device.compiles else -(-n_blocks // PANELS)
        for start in range(0, n_blocks, panel):
            stop = min(start + panel, n_blocks)
            earlier = self._device.xp.asarray(self._table[:, :stop], copy=True)
            for places in self._tiles(start, stop):
                rows = self._read(places, self._asked(self._select, earlier, places))
                yield from zip(places.tolist(), rows, strict=True)

    def row(self, block: int) -> Row:
        """The first pairs of a block with those that changed before it."""
        place = self._place[[block]]
        if not self._device.records(self._table):
            packed = self._select(self._table, self._device.places(place))
        else:
            if self._replay is None:
                self._row_place = self._device.places(place)
                self._replay = self._device.recorded(self._select, self._table, self._row_place)
            self._device.put(self._row_place, 0, int(place[0]))
            packed = self._replay()
        return self._read(place, self._device.numpy(packed))[0]

    def n_candidates(self, block: int) -> int:
        """Length of a block's row: how many changed before it."""
        return int(np.count_nonzero(self._clock < self._clock[block]))

    def refusals(self) -> Refusals:
        """Whom each block that is left is nearest to, and at what loss."""
        self._clear()
        slots = self._slots
        found = np.empty((slots.size, 3))
        for places in self._tiles(0, slots.size):
            found[places] = self._asked(self._nearest, self._table, places)
        for place in np.flatnonzero(found[:, 2]):
            losses = self._whole(np.array([place]))[0][0]
            others = np.delete(np.arange(slots.size), place)
            losses = self._filled(int(slots[place]), slots[others], losses[others])
            best = int(np.argmin(losses))
            found[place, :2] = min(losses[best], LARGEST), others[best]
        return Refusals(slots, slots[found[:, 1].astype(np.intp)], found[:, 0])

    def _begin(self) -> None:
        """Bring the blocks to the device."""
        if self._table is not None:
            return
        self._table = table_of(self._space, self._clock, self._device)
        self._slots = np.arange(self._clock.size)
        self._place = self._slots.copy()
        self._n_gone = 0
        self._clear()

    def _clear(self) -> None:
        """Leave out columns of blocks that are gone."""
        kept = np.flatnonzero(self._clock[self._slots] < np.inf)
        if kept.size < self._slots.size:
            self._replay = None  # it holds on to the old table
            self._table = self._device.xp.take(self._table, self._device.places(kept), axis=1)
            self._slots = self._slots[kept]
            self._place[self._slots] = np.arange(kept.size)
            self._n_gone = 0
        self._compile()

    def _compile(self) -> None:
        """Take the arithmetic anew, for the rank and the limit that hold now."""
        self._replay = None
        self._select = self._device.compiled(self._selected)
        self._nearest = self._device.compiled(self._nearest_of)
        self._ask = self._device.compiled(self._answers)

    def _tiles(self, start: int, stop: int) -> Iterator[IntArray]:
        """Places to be asked about at once."""
        width = width_of(self._shape.n_rows, stop)
        for k in range(start, stop, width):
            yield np.arange(k, min(k + width, stop))

    def _asked(self, function: Callable[..., Any], table: Any, places: IntArray) -> AnyArray:
        """Ask about some places; as many as ever, where another number would be compiled anew."""
        given = places
        if self._device.compiles:
            width = width_of(self._shape.n_rows, table.shape[1])
            given = np.pad(places, (0, max(0, width - places.size)), mode="edge")
        return self._device.numpy(function(table, self._device.places(given)))[: places.size]

    def _answers(self, table: Any, places: Any) -> tuple[Any, Any]:
        """Losses, of which the largest stands for infinite ones, and correlations."""
        xp = self._device.xp
        losses, correlation = answers(self._device, self._shape, table, places)
        return xp.where(losses > LARGEST, LARGEST, losses), correlation

    def _selected(self, table: Any, places: Any) -> Any:
        """Of each block the smallest keys, where they are, how many are open, what is refused."""
        xp = self._device.xp
        losses, correlation = self._answers(table, places)
        clock = xp.reshape(table[CLOCK, :], (1, -1))
        is_candidate = clock < xp.reshape(xp.take(table[CLOCK, :], places), (-1, 1))
        keys, refused = losses, xp.full_like(losses[:, :1], xp.inf)
        if self._limit is not None:
            accepted = losses <= self._limit
            keys = xp.where(accepted, -correlation, xp.inf)
            refused = xp.where(is_candidate & (losses > self._limit), losses, xp.inf)
        is_open = xp.astype(is_candidate & xp.isnan(losses), xp.float64)
        keys = xp.where(is_candidate, keys, xp.inf)
        smallest, where = self._device.smallest(keys, min(REMEMBERED, keys.shape[1]))
        return xp.concat(
            (
                smallest,
                xp.astype(where, xp.float64),
                xp.sum(is_open, axis=1, keepdims=True),
                xp.min(refused, axis=1, keepdims=True),
            ),
            axis=1,
        )

    def _nearest_of(self, table: Any, places: Any) -> Any:
        """Of each block the smallest loss with any other, where it is, and how many are open."""
        xp = self._device.xp
        losses, _ = self._answers(table, places)
        clock = xp.reshape(table[CLOCK, :], (1, -1))
        is_other = clock != xp.reshape(xp.take(table[CLOCK, :], places), (-1, 1))
        is_open = xp.astype(is_other & xp.isnan(losses), xp.float64)
        losses = xp.where(is_other, losses, xp.inf)
        least = xp.min(losses, axis=1, keepdims=True)
        nearest = xp.astype(xp.argmin(losses, axis=1, keepdims=True), xp.float64)
        return xp.concat((least, nearest, xp.sum(is_open, axis=1, keepdims=True)), axis=1)

    def _read(self, places: IntArray, packed: AnyArray) -> list[Row]:
        """Rows of what came back; by the host where some of a row was left open, or ties."""
        count = (packed.shape[1] - 2) // 2
        rows = []
        for place, found in zip(places, packed, strict=True):
            keys, others = found[:count], found[count:-2].astype(np.intp)
            row = None if found[-2] else _row_of(self._slots, others, keys)
            if row is None:
                row = self._row_by_host(int(place))
            else:
                self.best_refused = min(self.best_refused, float(found[-1]))
            rows.append(row)
        return rows

    def _row_by_host(self, place: int) -> Row:
        """A row of which all answers come back, and what was left open is asked."""
        losses, correlation = (both[0] for both in self._whole(np.array([place])))
        block = int(self._slots[place])
        near = np.flatnonzero(self._clock[self._slots] < self._clock[block])
        others = self._slots[near]
        keys = np.minimum(self._filled(block, others, losses[near]), LARGEST)
        if self._limit is not None:
            refused = keys > self._limit
            self.best_refused = min(self.best_refused, keys.min(initial=np.inf, where=refused))
            keys = np.where(refused, np.inf, -correlation[near])
        return first_of(others, keys, REMEMBERED)

    def _whole(self, places: IntArray) -> tuple[FloatArray, FloatArray]:
        losses, correlation = self._ask(self._table, self._device.places(places))
        return np.array(self._device.numpy(losses)), self._device.numpy(correlation)

    def _filled(self, block: int, others: IntArray, losses: FloatArray) -> FloatArray:
        """Losses with what was left open asked of the space."""
        is_open = np.isnan(losses)
        if is_open.any():
            first = np.full(int(is_open.sum()), block)
            losses[is_open] = self._host.losses(first, others[is_open])
        return losses


def _row_of(slots: IntArray, places: IntArray, keys: FloatArray) -> Row | None:
    """A row of the smallest keys; None where all that is remembered tie with what is not."""
    whole = not keys[-1] < np.inf
    # What ties with the last may be behind it, with a smaller index.
    kept = keys < keys[-1]
    others, keys = slots[places[kept]], keys[kept]
    if not (whole or keys.size):
        return None
    order = np.lexsort((others, keys))
    return Row(others[order], keys[order], whole=whole)
