"""What runs a scan: numpy, or a compiled kernel that makes the same decisions.

The code of ``scans`` handles everything, and kernels are tested against it. A kernel handles some
spaces and criteria and declines the rest; then numpy runs. Which backend is
used is named by the environment variable ``CTFA_BACKEND`` or, within a block of code, by ``using``:

- ``"auto"`` (the default): a kernel where its package is installed and the problem is large enough;
- ``"numpy"``: never a kernel;
- a backend's own name (``"numba"``): its kernel wherever there is one, an error if not installed;
- a library of arrays, with a device after a colon if it has several (``"torch:cuda"``): what many
  pairs cost is answered there, and what it has no code for is left to ``"auto"``.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from ctfa.core.criteria import Loss
from ctfa.core.history import MergeHistory
from ctfa.core.rows import Row
from ctfa.core.types import FloatArray, IntArray

VARIABLE = "CTFA_BACKEND"

#: First and second block of each edge, and its key; infinite keys never have their turn.
Edges: TypeAlias = tuple[IntArray, IntArray, FloatArray]


def interrupted(error: SystemError) -> BaseException:
    """The Ctrl-C that came while compiled code ran, which Python takes for a fault of that code."""
    cause = error.__cause__
    return cause if isinstance(cause, KeyboardInterrupt) else error


class Questions:
    """What pairs of blocks cost, and merges: by the space itself, unless a kernel takes over."""

    def __init__(self, space: Any, criterion: Loss) -> None:
        self.space, self.criterion = space, criterion

    def of_the_space(self, block: int | IntArray, others: IntArray) -> FloatArray:
        """Loss of merging a block with each of the others, or pair by pair."""
        return np.asarray(self.criterion(self.space.evidence(block, others)), dtype=float)

    losses = of_the_space

    def merge(self, block: int, other: int) -> None:
        """Merge in the space."""
        self.space.merge(block, other)


class RankedQuestions(Protocol):
    """Questions whose answers are ranked where they are computed, for scans among all pairs."""

    best_refused: float  # smallest loss above the limit in all rows so far

    def rank_by(self, limit: float | None) -> None:
        """Rank pairs by loss (None), or by correlation those whose loss is within a limit."""

    def first_rows(self) -> Iterator[tuple[int, Row]]:
        """Each block's first pairs with earlier ones, before merges."""

    def row(self, block: int) -> Row:
        """The first pairs of a block with those that changed before it."""

    def n_candidates(self, block: int) -> int:
        """Length of the whole row."""

    def refusals(self) -> tuple[IntArray, IntArray, FloatArray]:
        """Blocks left, the one nearest to each, and its loss (infinite where there is none)."""


def _declines(*_: Any, **__: Any) -> None:
    """Decline."""


class Backend(NamedTuple):
    """A package of kernels; nothing heavy is imported before its first scan.

    Its kernels take a space, a criterion and what is said of them here, and ``where_it_pays``,
    whether to decline problems too small for it. They return None to decline, and leave the space
    as it is then. ``n_pairs`` says about how many pairs will be asked: a kernel that has to be
    compiled first declines where numpy will be done by then.
    """

    is_installed: Callable[[], bool]
    extra: str  # what to install, as pip is told
    #: Have the questions of a space answered.
    questions: Callable[..., Questions | None]
    #: Grow one group after another, any two variables being free to meet: a limit, the order and
    #: whether to restart after each merge.
    grow: Callable[..., MergeHistory | None] = _declines
    #: Take the edges of a graph in turn, from first keys on: a ledger, which has what was refused
    #: at the start and is written on, the edges, a limit, the least correlation, and whether by
    #: loss or by strength. Returns the edges left.
    on_graph: Callable[..., tuple[IntArray, IntArray] | None] = _declines
    is_automatic: bool = True  # whether "auto" means it too


#: Filled by ``ctfa.kernels``, which is loaded when a backend is first asked for: the core knows of
#: no compiler.
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


def _first(what: str, *given: Any, **options: Any) -> Any:
    """The answer of the first backend that does not decline, of those that may be used now."""
    name = named()
    if name == "numpy":
        return None
    importlib.import_module("ctfa.kernels")  # which register themselves
    if name != "auto":
        _require(name, VARIABLE)
        chosen = BACKENDS[library_of(name)]
        answer = getattr(chosen, what)(*given, **options, where_it_pays=False)
        if answer is not None or chosen.is_automatic:
            return answer
    automatic = (one for one in BACKENDS.values() if one.is_automatic and one.is_installed())
    answers = (getattr(one, what)(*given, **options, where_it_pays=True) for one in automatic)
    return next((answer for answer in answers if answer is not None), None)


#: What a backend is asked to do, as ``Backend`` says it; None where there is no kernel for it.
grow, questions, on_graph = (partial(_first, what) for what in ("grow", "questions", "on_graph"))


def library_of(name: str) -> str:
    """A backend's name without that of a device."""
    return name.partition(":")[0]


def _require(name: str, asked_by: str) -> None:
    """Refuse a name that is unknown, or whose package is not installed."""
    importlib.import_module("ctfa.kernels")
    known = ["auto", "numpy", *BACKENDS]
    library = library_of(name)
    has_device = library != name
    has_devices = library in BACKENDS and not BACKENDS[library].is_automatic
    if library not in known or (has_device and not has_devices):
        names = ", ".join(map(repr, known))
        raise ValueError(f"{asked_by} names the backend {name!r}, which is none of {names}.")
    if library in BACKENDS and not BACKENDS[library].is_installed():
        raise ImportError(
            f"{asked_by} names the backend {name!r}, which is not installed: "
            f"pip install {BACKENDS[library].extra}, or choose 'auto' or 'numpy'."
        )
