"""One thread for BLAS while groups are searched.

A search is thousands of small products and factorizations. Sharing each of them among threads costs
more than it saves, the more so the busier the machine; cores are better spent on folds and groups
(``n_jobs``). And rounding depends on how a product is shared out: with one thread it does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import RLock
from typing import Any

from threadpoolctl import ThreadpoolController

#: Multiplications, ``rows * columns**2``, above which a table's factorization keeps its threads.
#: Below, one thread factors it within about a second.
LARGE = 1e10
#: Belongs to the thread of the program that came first. BLAS has one number of threads per process:
#: if two threads of a program each restored the number they found, the one that came second and
#: left last would leave the limit behind.
_OWNER = RLock()
#: What lifts the limit again, while it is set.
_LIMITERS: list[Any] = []


@cache
def _blas() -> Any:
    """Libraries that numpy and scipy have loaded by now; looking for them takes milliseconds."""
    return ThreadpoolController().select(user_api="blas")


@contextmanager
def one_thread(*shapes: tuple[int, ...]) -> Iterator[None]:
    """Give BLAS one thread in a block or a function, unless tables so large are factored there.

    Shapes are those of tables that have the same rows, side by side.
    """
    n_columns = sum(shape[1] if len(shape) > 1 else 1 for shape in shapes)
    is_large = shapes and float(shapes[0][0]) * n_columns**2 > LARGE
    if is_large or not _OWNER.acquire(blocking=False):
        yield
        return
    limiter = None
    try:
        if not _LIMITERS:
            limiter = _blas().limit(limits=1)
            _LIMITERS.append(limiter)
        yield
    finally:
        if limiter is not None:
            _LIMITERS.clear()
            limiter.restore_original_limits()
        _OWNER.release()
