"""Compiled scans, for those whose questions are too small for numpy's cost a call.

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
import importlib.util
import logging
from functools import cache, partial
from typing import Any

from ctfa.core.backend import BACKENDS, Backend, Edges, Questions, named
from ctfa.core.criteria import Loss, criterion_of
from ctfa.core.history import Ledger, MergeHistory
from ctfa.core.spaces import (
    FeatureSpace,
    FoldedFeatureSpace,
    MergeSpace,
    PairedSpace,
    TargetSpace,
)
from ctfa.core.types import IntArray
from ctfa.kernels.array_rows import ArrayQuestions, PlainQuestions
from ctfa.kernels.devices import NAMESPACES, Device, has_library

__all__ = ["ask_device", "grow", "on_graph", "questions"]

#: Numbers of variables for which a kernel pays. Fewer are done in a few milliseconds without, and
#: numba takes 0.3 s to import; of more features, products of matrices beat updates one by one.
TARGETS_THAT_PAY = range(50, 5_001)
FEATURES_THAT_PAY = range(50, 401)
TASKS_THAT_PAY = 100
#: Turns on a graph take longest to compile; a few hundred tasks are done in less.
WALKS_THAT_PAY = 500


@cache
def has_numba() -> bool:
    """Whether numba is installed; does not import it."""
    try:
        return importlib.util.find_spec("numba") is not None
    except ImportError:
        return False


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


def grow(
    space: MergeSpace, criterion: Loss, *, where_it_pays: bool, **given: Any
) -> MergeHistory | None:
    """Run a scan that grows one group after another; None for a space without a kernel."""
    # By exact type: a subclass may answer differently.
    if type(space) is TargetSpace:
        module, pays = "targets", space.n_variables in TARGETS_THAT_PAY
    elif type(space) in (FeatureSpace, FoldedFeatureSpace):
        module, pays = "features", space.n_variables in FEATURES_THAT_PAY
    else:
        return None
    kernel = _loaded(module, pays, where_it_pays=where_it_pays)
    return None if kernel is None else kernel.grow(space, criterion, **given)


def questions(space: MergeSpace, criterion: Loss, *, where_it_pays: bool) -> Questions | None:
    """Take over the questions of a scan; None for a space without a kernel."""
    if type(space) is not PairedSpace:
        return None
    pays = space.n_variables >= TASKS_THAT_PAY
    kernel = _loaded("paired", pays, where_it_pays=where_it_pays)
    return None if kernel is None else kernel.questions(space, criterion)


def on_graph(
    space: MergeSpace,
    criterion: Loss,
    ledger: Ledger,
    edges: Edges,
    *,
    where_it_pays: bool,
    **given: Any,
) -> tuple[IntArray, IntArray] | None:
    """Run a scan on a graph, from its first keys on; None for a space without a kernel."""
    if type(space) is not PairedSpace:
        return None
    pays = space.n_variables >= WALKS_THAT_PAY
    kernel = _loaded("paired_scan", pays, where_it_pays=where_it_pays)
    return None if kernel is None else kernel.on_graph(space, criterion, ledger, edges, **given)


def _loaded(module: str, pays: bool, *, where_it_pays: bool) -> Any:
    """Return a kernel; None if it does not pay or cannot be had, and was not asked for by name."""
    if where_it_pays and not pays:
        return None
    kernel = kernel_of(module)
    if not isinstance(kernel, ImportError):
        return kernel
    # An installed numba may be too old for the numpy beside it.
    if where_it_pays:
        return None
    raise kernel


def ask_device(space: MergeSpace, criterion: Loss, **_: Any) -> Questions | None:
    """Take over the questions of a scan, on the device that the backend's name says."""
    if type(space) is not PairedSpace or criterion_of(criterion).kernel != "target_risk":
        return None
    host = questions(space, criterion, where_it_pays=True) if has_numba() else None
    return ArrayQuestions(space, host or PlainQuestions(space, criterion), device_of(named()))


@cache
def device_of(name: str) -> Device:
    """A device by the name of its backend, found once."""
    return Device(name)


def _declines(*_: Any, **__: Any) -> None:
    """Leave a scan to others."""


BACKENDS["numba"] = Backend(has_numba, "'ctfa[fast]'", grow, questions, on_graph)
for _library in NAMESPACES:
    BACKENDS[_library] = Backend(
        partial(has_library, _library),
        f"'ctfa[arrays]' {_library.replace('_', '-')}",
        _declines,
        ask_device,
        _declines,
        is_automatic=False,
    )
