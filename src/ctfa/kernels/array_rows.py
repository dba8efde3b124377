"""The questions of ``PairedSpace`` answered on a device, where whole rows of answers stay.

One block asks all others at once; a scan needs only the first few of the answers, and only these
come back. What the device left open is asked of the space, and so are questions about few pairs,
for which the transfer to a device takes too long.

All blocks stand in one table, one column each, so that a merge rewrites one column and every step
of a factorization goes along memory. The Gram matrix of two blocks' added rows is
``G + G' + C + C.T`` with ``C`` the products of one's rows with the other's. One product of matrices
gives half of that for a few blocks with all others, because the Gram matrices are rows like those
of samples; one step per row, for all pairs at once, then leads to their last pivots. Where few are
asked a device waits for launches, not for numbers: steps are as few as can be, and what each would
check is checked at the end.

The identity loses digits where rows cancel, and sums of squares lose them where targets are alike.
By tighter limits than the space's own such pairs are left open, as not a number, for the space.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ctfa.core.backend import Questions
from ctfa.core.judge import LARGEST
from ctfa.core.rows import Row
from ctfa.core.spaces.paired import LEAST_NOISE, ROUNDING, TRUSTED_PIVOT, PairedSpace, credit
from ctfa.core.types import AnyArray, FloatArray, IntArray
from ctfa.kernels.devices import Device

#: Pairs of a row that come back.
REMEMBERED = 64
#: Share of columns that may be of blocks that are gone, and where a new shape is compiled again.
GONE, GONE_COMPILED = 0.1, 0.6
#: Others for which a device is asked.
MANY = 1024
#: Parts of the table with which first rows are asked: each leaves out blocks that come later.
PANELS = 16
#: A pivot below this share of its two parts' squares is left to the space. Added rows are at most
#: twice as long, so whatever the space would not trust is among them.
FIRM = 2.0 * TRUSTED_PIVOT
#: Squared differences of mean targets below this share of their squares are left to the space.
ALIKE = 1e-5
#: Decimals of a correlation, as ``core.rows`` rounds them.
DIGITS = 1e13
#: Numbers of the products at once: two gigabytes, and a quarter of that for steps.
AT_ONCE = 1 << 28
#: Single numbers of a block, the last rows of its column. The clock says when it changed.
SIZE, TOTAL, RESIDUAL, RANK, CLOCK = range(-5, 0)


class ArrayQuestions(Questions):
    """Losses and merges of a space whose blocks also stand on a device, once many are asked."""

    def __init__(self, space: PairedSpace, host: Questions, device: Device) -> None:
        super().__init__(space, host.criterion)
        self._host, self._device = host, device
        n_rows, length = blocks_of(space)[0].shape[1:]
        full_rank = bool((blocks_of(space)[-1] == n_rows - 1).all())
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
        if self._shape.full_rank and blocks_of(self.space)[-1][block] < self._shape.n_rows - 1:
            self._shape = self._shape._replace(full_rank=False)
            self._compile()
        if self._table is None:
            return
        put, device = self._device.put, self._device
        column = device.array(column_of(self.space, block, self._clock[block]))
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

    def refusals(self) -> tuple[IntArray, IntArray, FloatArray]:
        """The block nearest to each block that is left, and its loss."""
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
        return slots, slots[found[:, 1].astype(np.intp)], found[:, 0]

    def _begin(self) -> None:
        """Bring the blocks to the device."""
        if self._table is not None:
            return
        self._table = table_of(self.space, self._clock, self._device)
        self._slots = np.arange(self._clock.size)
        self._place = self._slots.copy()
        self._n_gone = 0
        self._clear()

    def _clear(self) -> None:
        """Leave out columns of blocks that are gone."""
        kept = np.flatnonzero(self._clock[self._slots] < np.inf)
        if kept.size < self._slots.size:
            self._replay = None  # it keeps a reference to the old table
            self._table = self._device.xp.take(self._table, self._device.places(kept), axis=1)
            self._slots = self._slots[kept]
            self._place[self._slots] = np.arange(kept.size)
            self._n_gone = 0
        self._compile()

    def _compile(self) -> None:
        """Compile the arithmetic again, for the rank and the limit that hold now."""
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
        """Ask about some places; padded, where another number of them would be compiled again."""
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
        """Rows of the answers; computed by the host where some of a row was left open, or ties."""
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
        return Row(others, keys, REMEMBERED)

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


class Shape(NamedTuple):
    """What the arithmetic needs besides the table."""

    n_samples: float
    length: int  # numbers of a series
    n_rows: int  # inputs, then the target
    full_rank: bool  # whether every block has the rank of all inputs


def blocks_of(space: PairedSpace) -> tuple[FloatArray, ...]:
    """Sums, sizes, squares, totals, residuals and ranks; spaces without them are not taken."""
    blocks = space.start()
    assert blocks is not None
    return blocks


def table_of(space: PairedSpace, clock: FloatArray, device: Device) -> Any:
    """All blocks of a space: sums by sample and row, Gram matrices, unit matrices, numbers."""
    xp = device.xp
    sums, size, _, total, residual, rank = blocks_of(space)
    n_blocks, n_rows, length = sums.shape
    rows = device.array(sums)
    gram = xp.matmul(rows, xp.permute_dims(rows, (0, 2, 1)))
    unit = device.array(np.eye(n_rows).reshape(-1, 1))
    parts = (
        xp.reshape(xp.permute_dims(rows, (2, 1, 0)), (length * n_rows, n_blocks)),
        xp.reshape(xp.permute_dims(gram, (1, 2, 0)), (n_rows * n_rows, n_blocks)),
        xp.broadcast_to(unit, (n_rows * n_rows, n_blocks)),
        device.array(np.stack((size, total, residual, rank, clock))),
    )
    return xp.concat(parts, axis=0)


def column_of(space: PairedSpace, block: int, clock: float) -> FloatArray:
    """A block's column, as it stands now."""
    sums, size, _, total, residual, rank = blocks_of(space)
    rows = sums[block]
    numbers = size[block], total[block], residual[block], rank[block], clock
    parts = rows.T, rows @ rows.T, np.eye(rows.shape[0])
    return np.concatenate((*(part.ravel() for part in parts), numbers))


def width_of(n_rows: int, n_blocks: int) -> int:
    """Blocks that may be asked about at once."""
    return min(n_blocks, max(1, AT_ONCE // (n_rows * n_rows * n_blocks)))


def answers(device: Device, shape: Shape, table: Any, places: Any) -> tuple[Any, Any]:
    """Losses and correlations of the blocks at some places with those at all.

    A loss is not a number where the space has to be asked.
    """
    xp = device.xp
    n_rows, n_asked, n_blocks = shape.n_rows, places.shape[0], table.shape[1]
    ends = [shape.length * n_rows + k * n_rows * n_rows for k in range(3)]
    mine = xp.take(table, places, axis=1)
    rows = xp.reshape(mine[: ends[0], :], (shape.length, n_rows * n_asked))
    halves = (mine[ends[1] : ends[2], :], mine[ends[0] : ends[1], :])
    left = (rows, *(xp.reshape(0.5 * half, (n_rows, n_rows * n_asked)) for half in halves))
    flat_table = xp.reshape(table[: ends[2], :], (shape.length + 2 * n_rows, n_rows * n_blocks))
    half_grams = xp.matmul(xp.permute_dims(xp.concat(left, axis=0), (1, 0)), flat_table)
    half_grams = xp.reshape(half_grams, (n_rows, n_asked, n_rows, n_blocks))
    of_targets = xp.matmul(
        xp.permute_dims(rows[:, -n_asked:], (1, 0)), flat_table[: shape.length, -n_blocks:]
    )
    squares = (
        xp.reshape(mine[ends[0] : ends[1] : n_rows + 1, :], (n_rows, n_asked, 1)),
        xp.reshape(table[ends[0] : ends[1] : n_rows + 1, :], (n_rows, 1, n_blocks)),
    )
    before = squares[0] + squares[1]
    pivots = _pivots(device, half_grams, full_rank=shape.full_rank)
    first = [xp.reshape(mine[k, :], (n_asked, 1)) for k in (SIZE, TOTAL, RESIDUAL, RANK)]
    second = [xp.reshape(table[k, :], (1, n_blocks)) for k in (SIZE, TOTAL, RESIDUAL, RANK)]
    gap = first[1] + second[1] - 2.0 * of_targets / (first[0] * second[0])
    firm = xp.all(pivots >= FIRM * before, axis=0) & (gap > ALIKE * (first[1] + second[1]))
    rank: Any = float(n_rows - 1)
    if not shape.full_rank:
        rank = xp.sum(xp.astype(before[:-1, :, :] > 0.0, xp.float64), axis=0)
        # Without any input there is nothing to weigh: let one rounding decide, the space's.
        firm = firm & (rank > 0.0)
    losses = _risk(xp, shape, (first, second), gap, pivots[-1, :, :], rank)
    scale = xp.sqrt(squares[0][-1, :, :] * squares[1][-1, :, :])
    correlation = xp.where(scale > 0.0, of_targets / xp.where(scale > 0.0, scale, 1.0), 0.0)
    return xp.where(firm, losses, xp.nan), xp.round(correlation * DIGITS) / DIGITS


def _pivots(device: Device, half_grams: Any, *, full_rank: bool) -> Any:
    """Pivots of the Cholesky factorizations of matrices ``H + H.T``, H at rows 0 and 2.

    Column by column, each less what those before explain; columns of the factor take the place of
    numbers that are no longer wanted. An input that neither block has leaves zeros; a matrix that
    is not positive definite ends in what is not a number, or in pivots that are not trusted.
    """
    xp, n_rows = device.xp, half_grams.shape[0]
    pivots = []
    for j in range(n_rows):
        column = xp.permute_dims(half_grams[j, :, j:, :], (1, 0, 2)) + half_grams[j:, :, j, :]
        if j:
            factor = half_grams[j:, :, :j, :]
            column = column - xp.sum(factor * factor[:1, :, :, :], axis=2)
        pivot = column[0, :, :]
        pivots.append(pivot)
        if j < n_rows - 1:
            root = xp.sqrt(pivot if full_rank else xp.where(pivot > 0.0, pivot, 1.0))
            below = (slice(j + 1, None), slice(None), j, slice(None))
            half_grams = device.put(half_grams, below, column[1:, :, :] / root)
    return xp.stack(pivots)


def _risk(xp: Any, shape: Shape, blocks: Any, gap: Any, pivot: Any, joint_rank: Any) -> Any:
    """``(F - 1)/(F_star - 1)`` of what a merge gives up, as ``PairedSpace`` splits it."""
    (a, total, mine, rank_a), (b, total_other, theirs, rank_b) = blocks
    n, both = shape.n_samples, a + b
    share = a * b / both
    residual = (a * mine + b * theirs - pivot / both) / share
    explained = gap - residual
    rank = joint_rank if shape.full_rank else xp.where(joint_rank > 1.0, joint_rank, 1.0)
    dof = n - rank - 1.0
    if not shape.full_rank:
        unit, reference = credit(rank, n), rank / dof
        extra: Any = 0.0
        shift: Any = 0.0
        for noise, its_rank in ((a / share * mine, rank_a), (b / share * theirs, rank_b)):
            extra = extra + noise * (credit(its_rank, n) / unit - 1.0)
            shift = shift + noise * (its_rank / (n - its_rank - 1.0) - reference)
        explained, residual = explained + reference * extra - shift, residual + extra
    least = LEAST_NOISE * xp.maximum(gap, ROUNDING * (total + total_other))
    saves_none = residual < least
    raised = xp.where(saves_none, least - residual, 0.0)
    f_star = 1.0 + (n - 1.0) / (dof - 1.0)
    explained = explained + rank / dof * f_star * raised
    f_statistic = explained / (rank * (xp.where(saves_none, least, residual) / dof))
    return (f_statistic - 1.0) / ((n - 1.0) / (dof - 1.0))
