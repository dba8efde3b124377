"""Arrays of other libraries and the devices they lie on, by the array API standard.

A backend is named by its library and, after a colon, a device as the library calls it: ``"torch"``,
``"torch:cuda"``, ``"cupy"``, ``"jax"``. Only what the standard leaves open is written here library
by library: how arrays come back to numpy, writing into one, the smallest few of many, and how a
function of arrays is made one launch instead of hundreds.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ctfa.core.types import AnyArray

#: Libraries whose arrays are known, and where their functions of the standard are.
NAMESPACES = {
    "torch": "array_api_compat.torch",
    "cupy": "array_api_compat.cupy",
    "jax": "jax.numpy",
    "array_api_strict": "array_api_strict",
}
#: Numbers of a segment, where the smallest of a long row are wanted.
SEGMENT = 32
#: Calls of a function before it is recorded: libraries choose their algorithms in these.
WARM_UP = 2


@cache
def has_library(library: str) -> bool:
    """Whether a library is installed, of arrays with what makes it standard; imports neither."""
    needed = {library, NAMESPACES.get(library, library).partition(".")[0]}
    try:
        return all(importlib.util.find_spec(name) is not None for name in needed)
    except ImportError:
        return False


def is_foreign(data: Any) -> bool:
    """Whether something is an array of another library than numpy."""
    library = type(data).__module__.partition(".")[0]
    return (library in NAMESPACES or library == "jaxlib") and hasattr(data, "shape")


def to_numpy(data: Any) -> Any:
    """The numbers of an array, on the host; anything else as it is."""
    if not is_foreign(data):
        return data
    if hasattr(data, "detach"):  # torch
        held = data.detach().cpu()
        # numpy has no bfloat16, and scikit-learn would continue with half the digits.
        is_short = held.is_floating_point() and held.element_size() < 4
        return (held.double() if is_short else held).numpy()
    if type(data).__module__.startswith("array_api_strict"):
        strict = importlib.import_module("array_api_strict")
        data = data.to_device(strict.Device("CPU_DEVICE"))
    return data.get() if hasattr(data, "get") else np.asarray(data)  # CuPy is explicit


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


class Device:
    """A library of arrays and a place for them, where numbers have 64 bits."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.library, _, where = name.partition(":")
        self.xp: Any = importlib.import_module(NAMESPACES[self.library])
        self.device: Any = self._find(where) if where else None
        self._require_float64()

    def array(self, values: AnyArray) -> Any:
        """Numbers of numpy, copied there."""
        return self.xp.asarray(
            np.ascontiguousarray(values), dtype=self.xp.float64, device=self.device, copy=True
        )

    def places(self, values: AnyArray) -> Any:
        """Indices, copied there."""
        return self.xp.asarray(values.astype(np.int64), device=self.device, copy=True)

    def numpy(self, array: Any) -> AnyArray:
        """Numbers from there."""
        return np.asarray(to_numpy(array))

    def put(self, array: Any, index: Any, values: Any) -> Any:
        """Write into an array; return it, or another one where arrays never change."""
        if self.library == "jax":
            return array.at[index].set(values)
        array[index] = values
        return array

    def smallest(self, keys: Any, count: int) -> tuple[Any, Any]:
        """Smallest keys of each row, ascending, and where they are; ties in any order.

        Only the segments of a row that begin smallest are sorted: so many of them hold all that
        are wanted, and short sorts are one launch.
        """
        xp = self.xp
        n_rows, length = keys.shape
        if length <= 2 * SEGMENT * count:
            order = xp.argsort(keys, axis=1)[:, :count]
            return self._at(keys, order), order
        n_segments = -(-length // SEGMENT)
        spare = n_segments * SEGMENT - length
        if spare:
            rest = xp.full_like(keys[:, :spare], xp.inf)
            keys = xp.concat((keys, rest), axis=1)
        # Strided, not consecutive, so that minima go along memory.
        least = xp.min(xp.reshape(keys, (n_rows, SEGMENT, n_segments)), axis=1)
        segments = xp.argsort(least, axis=1)[:, :count]
        steps = self._range(SEGMENT, segments) * n_segments
        places = xp.reshape(segments, (n_rows, 1, count)) + xp.reshape(steps, (1, SEGMENT, 1))
        places = xp.reshape(places, (n_rows, SEGMENT * count))
        among = self._at(keys, places)
        order = xp.argsort(among, axis=1)[:, :count]
        return self._at(among, order), self._at(places, order)

    def _at(self, values: Any, places: Any) -> Any:
        """Values of each row at places of its own."""
        xp = self.xp
        n_rows, length = values.shape
        starts = self._range(n_rows, places) * length
        flat = xp.reshape(places + xp.reshape(starts, (n_rows, 1)), (-1,))
        return xp.reshape(xp.take(xp.reshape(values, (-1,)), flat), places.shape)

    def _range(self, count: int, like: Any) -> Any:
        # Compiled by JAX, an array does not say where it lies.
        device = None if self.library == "jax" else like.device
        return self.xp.arange(count, dtype=like.dtype, device=device)

    def records(self, array: Any) -> bool:
        """Whether functions of such arrays can be recorded."""
        return bool(self.library == "torch" and array.device.type == "cuda")

    def recorded(self, function: Callable[..., Any], *given: Any) -> Callable[[], Any]:
        """One launch for a function of arrays that stay where they are, and change."""
        return _cuda_graph(function, given)

    @property
    def compiles(self) -> bool:
        """Whether each new shape of arrays costs a compilation."""
        return self.library == "jax"

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Compile a function of arrays alone, where the library does that.

        Divisions by zero give no warnings: pairs that have them are left to the space.
        """
        if self.compiles:
            compiled: Callable[..., Any] = importlib.import_module("jax").jit(function)
            return compiled
        return np.errstate(divide="ignore", invalid="ignore")(function)

    def _find(self, where: str) -> Any:
        """A device by the name that its library gives it."""
        try:
            if self.library == "jax":
                kind, _, number = where.partition(":")
                return importlib.import_module("jax").devices(kind)[int(number or 0)]
            if self.library == "cupy":
                return importlib.import_module("cupy").cuda.Device(int(where.rpartition(":")[2]))
            if self.library == "array_api_strict":
                return self.xp.Device(where)
            self.xp.zeros(1, device=where)
            return where
        except Exception as error:  # each library has errors of its own
            raise ValueError(
                f"The backend {self.name!r} names the device {where!r}, which {self.library} does "
                f"not find here: {error}"
            ) from error

    def _require_float64(self) -> None:
        try:
            known = self.xp.zeros(1, dtype=self.xp.float64, device=self.device)
            has_float64 = known.dtype == self.xp.float64
        except (TypeError, ValueError, RuntimeError):
            has_float64 = False
        if has_float64:
            return
        what_to_do = (
            "call jax.config.update('jax_enable_x64', True) before anything else"
            if self.library == "jax"
            else "choose a device that has them ('cpu', 'cuda')"
        )
        raise ValueError(
            f"The backend {self.name!r} has no numbers of 64 bits, without which merges would be "
            f"decided by rounding: {what_to_do}, or use the backend 'auto'."
        )


def _cuda_graph(function: Callable[..., Any], given: tuple[Any, ...]) -> Callable[[], Any]:
    """Record the launches of a function of torch arrays, to be replayed as one."""
    cuda = importlib.import_module("torch").cuda
    with cuda.device(given[0].device):
        aside = cuda.Stream()
        aside.wait_stream(cuda.current_stream())
        with cuda.stream(aside):
            for _ in range(WARM_UP):
                function(*given)
        cuda.current_stream().wait_stream(aside)
        graph = cuda.CUDAGraph()
        with cuda.graph(graph):
            answer = function(*given)

    def replay() -> Any:
        graph.replay()
        return answer

    return replay
