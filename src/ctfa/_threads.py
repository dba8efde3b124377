"""How many threads BLAS has while groups are searched: one.

A search is thousands of small products and factorizations. Sharing each of them among threads costs
more than it saves, the more so the busier the machine; cores are better spent on folds and groups
(``n_jobs``). And rounding depends on how a product is shared out: with one thread it does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock, get_ident
from typing import Any

from threadpoolctl import ThreadpoolController

#: Multiplications, ``rows * columns**2``, above which a table's factorization keeps its threads.
#: Below, one thread factors it within about a second.
LARGE = 1e10


class _Limit:
    """The limit itself, which belongs to the thread of the program that came first.

    BLAS has one number of threads a process. If each of two threads of a program restored what it
    had found, the one that came second and left last would leave the limit behind.
    """

    def __init__(self) -> None:
        self._lock, self._owner, self._depth = Lock(), 0, 0
        self._limiter: Any = None

    def enter(self) -> bool:
        """Set the limit, unless it is set; whether there is something to leave."""
        with self._lock:
            if self._depth == 0:
                self._owner, self._limiter = get_ident(), _blas().limit(limits=1)
            elif self._owner != get_ident():
                return False
            self._depth += 1
            return True

    def leave(self) -> None:
        """Lift the limit where the thread that set it leaves for good."""
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                self._limiter.restore_original_limits()


@cache
def _blas() -> Any:
    """Libraries that numpy and scipy have loaded by now; looking for them takes milliseconds."""
    return ThreadpoolController().select(user_api="blas")


_LIMIT = _Limit()


@contextmanager
def one_thread(*shapes: tuple[int, ...]) -> Iterator[None]:
    """Give BLAS one thread in a block or a function, unless tables so large are factored there.

    Shapes are those of tables that have the same rows, side by side.
    """
    n_columns = sum(shape[1] if len(shape) > 1 else 1 for shape in shapes)
    if shapes and float(shapes[0][0]) * n_columns**2 > LARGE:
        yield
        return
    is_mine = _LIMIT.enter()
    try:
        yield
    finally:
        if is_mine:
            _LIMIT.leave()
