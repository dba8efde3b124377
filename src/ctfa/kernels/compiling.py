"""How kernels are compiled: once on a machine, then read from disk."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])

#: Sums may be taken in another order and with fused products: what vector instructions need.
#: Infinities and what is not a number keep their meaning.
REORDER = {"contract", "reassoc"}


def compiled(function: F) -> F:
    """Compile at the first call, as written.

    The cache knows a kernel by its own file and by what it closes over: functions that a kernel
    calls belong in the same file, what is defined elsewhere is passed to it, and where that cannot
    be it closes over the ``digest_of`` the other files.
    """
    return _compile(function, False)


def reordered(function: F) -> F:
    """Compile with sums in any order."""
    return _compile(function, REORDER)


def digest_of(*modules: ModuleType) -> str:
    """Tell whether files that a kernel calls into have changed since it was compiled."""
    digest = hashlib.sha256()
    for module in modules:
        digest.update(inspect.getsource(module).encode())
    return digest.hexdigest()


def _compile(function: F, fastmath: bool | set[str]) -> F:
    def build(*, cache: bool) -> F:
        # Division by zero gives infinity, as in numpy.
        kernel: F = numba.njit(
            function, cache=cache, error_model="numpy", fastmath=fastmath, nogil=True
        )
        return kernel

    try:
        return build(cache=True)
    except RuntimeError:
        # Neither the package's folder nor the user's cache can be written: compile every time.
        return build(cache=False)
