"""Compiled scans, for those whose questions are too small for numpy's cost a call.

Optional: they need numba (``pip install 'ctfa[fast]'``), which is imported at the first scan that
uses one. Each is the scan of ``ctfa.core.scans`` asked one candidate at a time, as the algorithm is
printed; decisions, losses (to rounding) and counts are those of the numpy code.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
from functools import cache
from typing import Any

from ctfa.core.backend import BACKENDS, Backend
from ctfa.core.criteria import Criterion
from ctfa.core.history import MergeHistory
from ctfa.core.spaces import FeatureSpace, FoldedFeatureSpace, MergeSpace, TargetSpace
from ctfa.core.types import IntArray

__all__ = ["grow"]

#: Numbers of variables for which a kernel pays. Fewer are done in a few milliseconds without, and
#: numba takes 0.3 s to import; of more features, products of matrices beat updates one by one.
TARGETS_THAT_PAY = range(50, 5_001)
FEATURES_THAT_PAY = range(50, 401)


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
        return importlib.import_module(f"ctfa.kernels.{module}").grow
    except ImportError as error:
        logging.getLogger("ctfa").info("compiled scans are not available: %s", error)
        return error


def grow(
    space: MergeSpace,
    criterion: Criterion,
    *,
    limit: float,
    order: IntArray,
    restart: bool,
    where_it_pays: bool,
) -> MergeHistory | None:
    """Run a scan that grows one group after another; None for a space without a kernel."""
    # By exact type: a subclass may answer differently.
    if type(space) is TargetSpace:
        module, sizes = "targets", TARGETS_THAT_PAY
    elif type(space) in (FeatureSpace, FoldedFeatureSpace):
        module, sizes = "features", FEATURES_THAT_PAY
    else:
        return None
    if where_it_pays and space.n_variables not in sizes:
        return None
    kernel = kernel_of(module)
    if isinstance(kernel, ImportError):
        # An installed numba may be too old for the numpy beside it.
        if where_it_pays:
            return None
        raise kernel
    history: MergeHistory | None = kernel(
        space, criterion, limit=limit, order=order, restart=restart
    )
    return history


BACKENDS["numba"] = Backend(has_numba, "fast", grow)
