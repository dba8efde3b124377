"""Who runs a scan: numpy, or a compiled kernel that makes the same decisions.

The code of ``scans`` and ``runs`` serves everything and is what a kernel is tested against. A
kernel serves some spaces and criteria and declines the rest, and then numpy runs. Which backend is
used is named by the environment variable ``CTFA_BACKEND`` or, within a block of code, by ``using``:

- ``"auto"`` (the default): a kernel where its package is installed and the problem is large enough;
- ``"numpy"``: never a kernel;
- a backend's own name (``"numba"``): its kernel wherever there is one, an error if not installed;
- a library of arrays, with a device after a colon if it has several (``"torch:cuda"``): what many
  pairs cost is answered there, and what it has no code for is left to ``"auto"``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple, Protocol, TypeAlias

from ctfa.core.criteria import Loss
from ctfa.core.history import Ledger, MergeHistory
from ctfa.core.rows import Row
from ctfa.core.spaces.base import MergeSpace
from ctfa.core.types import FloatArray, IntArray

VARIABLE = "CTFA_BACKEND"

#: First and second block of each edge, and its key; infinite keys never have their turn.
Edges: TypeAlias = tuple[IntArray, IntArray, FloatArray]


class Grow(Protocol):
    """The scans that grow one group after another, where any two variables may meet."""

    def __call__(
        self,
        space: MergeSpace,
        criterion: Loss,
        *,
        limit: float,
        order: IntArray,
        restart: bool,
        where_it_pays: bool,
    ) -> MergeHistory | None:
        """Run the scan, or return None to decline; the space stays as it is."""


class Questions(Protocol):
    """What pairs of blocks cost, and merges, for scans that stay as they are."""

    def losses(self, block: int | IntArray, others: IntArray) -> FloatArray:
        """Loss of merging a block with each of the others, or pair by pair."""

    def merge(self, block: int, other: int) -> None:
        """Merge in the space."""


class Refusals(NamedTuple):
    """Blocks, whom each is nearest to, and at what loss (infinite where there is nobody)."""

    blocks: IntArray
    others: IntArray
    losses: FloatArray


class RankedQuestions(Questions, Protocol):
    """Questions that rank their answers where they find them, for scans among all pairs."""

    best_refused: float  # smallest loss above the limit in all rows so far

    def rank_by(self, limit: float | None) -> None:
        """Rank pairs by loss (None), or by correlation those whose loss is within a limit."""

    def first_rows(self) -> Iterator[tuple[int, Row]]:
        """Each block's first pairs with earlier ones, before merges."""

    def row(self, block: int) -> Row:
        """The first pairs of a block with those that changed before it."""

    def n_candidates(self, block: int) -> int:
        """Length of that row, had it come whole."""

    def refusals(self) -> Refusals:
        """Whom each block that is left is nearest to."""


class Ask(Protocol):
    """Takes over the questions of a scan that is left to numpy otherwise."""

    def __call__(
        self, space: MergeSpace, criterion: Loss, *, where_it_pays: bool
    ) -> Questions | None:
        """Return who answers for the space from now on, or None to decline."""


class OnGraph(Protocol):
    """The scans that take the edges of a graph in turn, by strength or by loss."""

    def __call__(
        self,
        space: MergeSpace,
        criterion: Loss,
        ledger: Ledger,
        edges: Edges,
        *,
        limit: float,
        min_correlation: float,
        by_loss: bool,
        where_it_pays: bool,
    ) -> tuple[IntArray, IntArray] | None:
        """Merge until nothing more is accepted; return the edges left, or None to decline.

        The ledger has what was refused at the start, and is written on.
        """


class Backend(NamedTuple):
    """A package of kernels; nothing heavy is imported before its first scan."""

    is_installed: Callable[[], bool]
    extra: str  # what to install, as pip is told
    grow: Grow
    ask: Ask
    on_graph: OnGraph
    is_automatic: bool = True  # whether "auto" means it too


#: Filled by ``ctfa.kernels``: the core knows of no compiler.
BACKENDS: dict[str, Backend] = {}

_named: ContextVar[str | None] = ContextVar("ctfa_backend", default=None)


@contextmanager
def using(name: str) -> Iterator[None]:
    """Name the backend for a block of code, in the current thread."""
    _require(name, "using")
    token = _named.set(name)
    try:
        yield
    finally:
        _named.reset(token)


def named() -> str:
    """Name of the backend asked for."""
    return _named.get() or os.environ.get(VARIABLE) or "auto"


def grow(
    space: MergeSpace, criterion: Loss, *, limit: float, order: IntArray, restart: bool
) -> MergeHistory | None:
    """Run the scan by a kernel; None where there is none for it."""
    for backend, where_it_pays in _offered():
        history = backend.grow(
            space,
            criterion,
            limit=limit,
            order=order,
            restart=restart,
            where_it_pays=where_it_pays,
        )
        if history is not None:
            return history
    return None


def questions(space: MergeSpace, criterion: Loss) -> Questions | None:
    """Have the questions of a space answered by a kernel; None where there is none for them."""
    for backend, where_it_pays in _offered():
        compiled = backend.ask(space, criterion, where_it_pays=where_it_pays)
        if compiled is not None:
            return compiled
    return None


def on_graph(
    space: MergeSpace,
    criterion: Loss,
    ledger: Ledger,
    edges: Edges,
    *,
    limit: float,
    min_correlation: float,
    by_loss: bool,
) -> tuple[IntArray, IntArray] | None:
    """Run a scan on a graph by a kernel, from its first keys on; None where there is none."""
    for backend, where_it_pays in _offered():
        left = backend.on_graph(
            space,
            criterion,
            ledger,
            edges,
            limit=limit,
            min_correlation=min_correlation,
            by_loss=by_loss,
            where_it_pays=where_it_pays,
        )
        if left is not None:
            return left
    return None


def _offered() -> list[tuple[Backend, bool]]:
    """Backends that may be used now, each with whether only where it pays."""
    name = named()
    if name == "numpy":
        return []
    offered: list[tuple[Backend, bool]] = []
    if name != "auto":
        _require(name, VARIABLE)
        offered.append((BACKENDS[library_of(name)], False))
        if offered[0][0].is_automatic:
            return offered
    automatic = (one for one in BACKENDS.values() if one.is_automatic and one.is_installed())
    return offered + [(backend, True) for backend in automatic]


def library_of(name: str) -> str:
    """A backend's name without that of a device."""
    return name.partition(":")[0]


def _require(name: str, asked_by: str) -> None:
    """Refuse a name that is unknown, or whose package is not installed."""
    known = ["auto", "numpy", *BACKENDS]
    library = library_of(name)
    has_device = library != name
    if library not in known or (has_device and not _has_devices(library)):
        names = ", ".join(map(repr, known))
        raise ValueError(f"{asked_by} names the backend {name!r}, which is none of {names}.")
    if library in BACKENDS and not BACKENDS[library].is_installed():
        raise ImportError(
            f"{asked_by} names the backend {name!r}, which is not installed: "
            f"pip install {BACKENDS[library].extra}, or choose 'auto' or 'numpy'."
        )


def _has_devices(library: str) -> bool:
    return library in BACKENDS and not BACKENDS[library].is_automatic
