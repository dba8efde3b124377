"""What a fit does with the data it is given, and asks of them: rows or sums, and which folds."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from ctfa import _validation as check
from ctfa._collections import (
    OF_SUMS,
    Collection,
    Wanted,
    is_collection,
    is_foreign,
    learns_from_sums,
)
from ctfa.core import backend
from ctfa.core.criteria import TARGET_CRITERIA
from ctfa.core.scans import SCANS

Fit = TypeVar("Fit", bound=Callable[..., Any])


def collection_of(*data: Any, gaps: bool = False) -> Collection | None:
    """Data that come in chunks or lie on a device, as one; None for rows in memory."""
    if not is_collection(*data):
        return None
    return Collection.of(*data, gaps=gaps)


def asks_of(
    targets: Any, features: Any, n_targets: int = 1, *, chooses: bool = False
) -> tuple[list[Wanted], str | None]:
    """Folds that two phases, of which one may be None, want; and what sums cannot tell them.

    ``chooses``: whether folds choose something even where the limit of Phase I is given.
    """
    wanted = []
    if targets is not None:
        check.read_criterion(targets.criterion, TARGET_CRITERIA)
        check.require(targets.scan, SCANS, "scan")
        limit = check.read_limit(targets, TARGET_CRITERIA)
        if n_targets > 1 and (limit is None or chooses):
            wanted.append(Wanted("limit", targets.cv, lowered=True))
    if features is not None and features.cv is not None:
        wanted.append(Wanted("features", features.cv))
    for phase, kind, variables in (
        (targets, "TargetAggregator", "targets"),
        (features, "FeatureAggregator", "features"),
    ):
        if phase is not None and phase.solver == "ridge":
            return wanted, f"solver='ridge' of {kind}, which is judged row by row,"
        if phase is not None and callable(phase.connectivity):
            return wanted, f"connectivity that is a function of the {variables}"
    return wanted, None


def require_streamable(regressor: Any, needs_rows: str | None) -> None:
    """Refuse to go on from sums with a regressor, or an option, that needs rows."""
    if not learns_from_sums(regressor):
        check.refuse_streamed_regressor(regressor, OF_SUMS)
    check.refuse_streaming(needs_rows)


def whole(fit: Fit) -> Fit:
    """Leave an estimator as it was where its fit fails, whatever had been set by then."""

    @functools.wraps(fit)
    def run(self: Any, *data: Any, **known: Any) -> Any:
        before = dict(vars(self))
        try:
            return fit(self, *data, **known)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    return run  # type: ignore[return-value]


def searched_where_data_lie(fit: Fit) -> Fit:
    """Let a fit search on the device of the first of its arrays that lies on one.

    Data on a CPU are searched as numpy's are: there compiled loops are faster. A backend that was
    named stays the one that is used.
    """

    @functools.wraps(fit)
    def run(self: Any, *data: Any, **known: Any) -> Any:
        given = [one for one in (*data, *known.values()) if is_foreign(one)]
        if not given:
            return fit(self, *data, **known)
        names = (name for name in map(backend_of, given) if name is not None)
        name = next(names, "auto") if backend.named() == "auto" else backend.named()
        with backend.using(name):
            return fit(self, *data, **known)

    return run  # type: ignore[return-value]


def backend_of(array: Any) -> str | None:
    """Name of the backend of an array of another library; None for one on a CPU."""
    library = type(array).__module__.split(".")[0].replace("jaxlib", "jax")
    if library == "jax":
        (device, *_) = array.devices()
        return None if device.platform == "cpu" else f"jax:{device.platform}:{device.id}"
    if library == "cupy":
        return f"cupy:{array.device.id}"
    # The strict library's devices are all in the memory of the host.
    on_host = library == "array_api_strict" or array.device.type == "cpu"
    return None if on_host else f"{library}:{array.device}"
