"""Data that lie on a device are searched there."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from ctfa._collections import is_foreign
from ctfa.core import backend

Fit = TypeVar("Fit", bound=Callable[..., Any])


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
