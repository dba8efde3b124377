"""Compiled scans, for questions too small for numpy's cost per call.

Optional: they need numba (``pip install 'ctfa[fast]'``), which is imported at the first scan that
uses one. Each is the scan of ``ctfa.core.scans`` asked one candidate at a time, as the algorithm is
printed; decisions, losses (to rounding) and counts are those of the numpy code. Tasks with inputs
of their own have their questions compiled, and on a graph of neighbours the scans that take pairs
in turn; among all pairs, where a call asks many at once, these are numpy's.

Arrays of another library, named as a backend, answer what pairs of such tasks cost among all of
them (``array_rows``), on a GPU if its device is one.
"""

from __future__ import annotations

import importlib
import logging
import math
import os
import sys
import threading
from functools import cache, partial
from typing import Any

from ctfa.core.backend import BACKENDS, Backend, Questions, interrupted, named
from ctfa.core.criteria import Loss, criterion_of
from ctfa.core.spaces.features import FeatureSpace
from ctfa.core.spaces.paired import PairedSpace
from ctfa.core.spaces.pooled import PooledSpace
from ctfa.core.spaces.targets import TargetSpace
from ctfa.kernels.array_rows import ArrayQuestions
from ctfa.kernels.devices import NAMESPACES, Device, has_library

__all__ = ["ask_device", "grow", "on_graph", "questions"]

#: What kernels do for which spaces, by exact type: a subclass may answer differently. Each with its
#: module and the numbers of variables for which it pays. Fewer are done in a few milliseconds
#: without, and numba takes 0.3 s to import; of more features, products of matrices beat updates one
#: by one.
KERNELS: dict[tuple[str, type], tuple[str, range]] = {
    ("grow", TargetSpace): ("targets", range(50, 5_001)),
    ("grow", FeatureSpace): ("features", range(50, 401)),
    ("questions", PairedSpace): ("paired", range(100, sys.maxsize)),
    ("questions", PooledSpace): ("pooled", range(100, sys.maxsize)),
    ("on_graph", PairedSpace): ("paired", range(500, sys.maxsize)),
}


#: Seconds that numpy takes to ask about a pair and to merge, roughly.
SECONDS_A_PAIR = 3e-5
#: Work for so many seconds waits for a kernel that is being compiled, as long as it would take.
WORTH_WAITING = 1.0

#: Whether numba is installed; does not import it.
has_numba = partial(has_library, "numba")


@cache
def kernel_of(module: str) -> Any:
    """Import a kernel, and numba with it; what went wrong if that fails.

    By name and late: importing numba takes longer than most fits.
    """
    try:
        return importlib.import_module(f"ctfa.kernels.{module}")
    except ImportError as error:
        logging.getLogger("ctfa").info("compiled scans are not available: %s", error)
        return error


@cache
def in_background(module: str) -> threading.Thread:
    """A thread that compiles the questions of a kernel, or finds them compiled.

    That takes seconds, once on a machine, and many fits are done in less: numpy answers meanwhile.
    """
    thread = threading.Thread(target=_warm_up, args=(module,), name=f"ctfa compiles {module}")
    if hasattr(os, "register_at_fork"):  # a child process must not inherit a locked compiler
        os.register_at_fork(before=lambda: thread.join() if thread.is_alive() else None)
    thread.start()
    return thread


def _warm_up(module: str) -> None:
    kernel = kernel_of(module)
    if not isinstance(kernel, ImportError):
        kernel.warm_up()


def _is_ready(module: str, seconds: float) -> bool:
    """Whether a kernel is compiled, or soon will be beside so much work."""
    thread = in_background(module)
    if seconds > WORTH_WAITING:
        thread.join(min(seconds, threading.TIMEOUT_MAX))
    return not thread.is_alive()


def _run(
    what: str,
    space: Any,
    *given: Any,
    where_it_pays: bool,
    n_pairs: float = math.inf,
    **options: Any,
) -> Any:
    """Run a kernel; None where there is none, or none that pays."""
    module, pays = KERNELS.get((what, type(space)), (None, range(0)))
    if module is None or (where_it_pays and space.n_variables not in pays):
        return None
    if what != "grow" and where_it_pays:
        known = criterion_of(given[0]).kernel is not None and space.start() is not None
        if not (known and _is_ready(module, n_pairs * SECONDS_A_PAIR)):
            return None
    kernel = kernel_of(module)
    if not isinstance(kernel, ImportError):
        try:
            return getattr(kernel, what)(space, *given, **options)
        except SystemError as error:
            raise interrupted(error) from None
    # An installed numba may be too old for the numpy beside it; asked for by name, it is an error.
    if where_it_pays:
        return None
    raise kernel


grow, questions, on_graph = (partial(_run, what) for what in ("grow", "questions", "on_graph"))


def ask_device(space: Any, criterion: Loss, **_: Any) -> Questions | None:
    """Take over the questions of a scan, on the device that the backend's name says."""
    if type(space) is not PairedSpace or criterion_of(criterion).kernel != "target_risk":
        return None
    if space.start() is None:
        return None
    host = questions(space, criterion, where_it_pays=True) if has_numba() else None
    return ArrayQuestions(space, host or Questions(space, criterion), device_of(named()))


@cache
def device_of(name: str) -> Device:
    """A device by the name of its backend, found once."""
    return Device(name)


BACKENDS["numba"] = Backend(has_numba, "'ctfa[fast]'", questions, grow, on_graph)
for _library in NAMESPACES:
    BACKENDS[_library] = Backend(
        partial(has_library, _library),
        f"'ctfa[arrays]' {_library.replace('_', '-')}",
        ask_device,
        is_automatic=False,
    )
