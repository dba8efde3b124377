"""Arrays of torch, CuPy, JAX and others of the array API standard, on whatever device they lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ctfa._errors import InputError
from ctfa.core.libraries import imported
from ctfa.core.moments import Moments, Summary, add_up
from ctfa.core.types import FloatArray
from ctfa.kernels.devices import is_foreign, to_numpy

#: Numbers centred at once on a device: half a gigabyte.
AT_ONCE = 1 << 26


def like(values: FloatArray, template: Any) -> Any:
    """Numbers as an array of the library and on the device of another one."""
    space = namespace(template)
    return space.asarray(values, device=_compat(template).device(template))


def namespace(data: Any) -> Any:
    """The functions of an array's library, by their standard names."""
    return _compat(data).array_namespace(data)


def join_on_device(columns: Sequence[Any], first: Any) -> Any:
    """Columns side by side as float64, on the device of one of them."""
    compat, space = _compat(first), namespace(first)
    device = compat.device(first)
    placed = []
    for table in columns:
        if is_foreign(table):
            own = table.detach() if hasattr(table, "detach") else table
            own = compat.to_device(own, device)
        else:
            own = space.asarray(np.asarray(table, dtype=np.float64), device=device)
        placed.append(_in_double(space, own))
    return placed[0] if len(placed) == 1 else space.concat(placed, axis=1)


def moments_on_device(rows: Any, where: Any, weights: FloatArray | None) -> Summary:
    """Summary of some of the rows, which stay where they are; their moments come back.

    ``weights`` are those of these rows, or None.
    """
    space = namespace(rows)
    width = int(rows.shape[1])
    device = _compat(rows).device(rows)
    if isinstance(where, np.ndarray):
        index = space.asarray(where, device=device)
        rows = space.take(rows, index, axis=0)
    else:
        rows = rows[where, :]
    n_rows = int(rows.shape[0])
    if n_rows <= width + 1 or (weights is not None and not (weights > 0.0).all()):
        return Summary.of(np.asarray(to_numpy(rows)), weights)
    height = max(1, AT_ONCE // max(width, 1))
    pieces = []
    for start in range(0, n_rows, height):
        stop = min(start + height, n_rows)
        piece = rows[start:stop, :]
        own = None if weights is None else weights[start:stop]
        pieces.append(_piece(space, piece, own, device))
    return Summary.of_moments(add_up(pieces))


def _piece(space: Any, rows: Any, weights: FloatArray | None, device: Any) -> Moments:
    """Moments of rows on a device, as those of rows in memory are taken."""
    n_rows = int(rows.shape[0])
    each = space.asarray(np.ones(n_rows) if weights is None else weights, device=device)
    total = float(space.sum(each))
    mean = space.matmul(each, rows) / total
    centred = rows - mean[None, :]
    shift = space.matmul(each, centred) / total  # the mean's own rounding
    centred = (centred - shift[None, :]) * space.sqrt(each)[:, None]
    sums = (mean + shift, space.matmul(centred.T, centred))
    return Moments(n_rows, total, *(np.asarray(to_numpy(s), dtype=np.float64) for s in sums))


def _in_double(space: Any, table: Any) -> Any:
    if table.dtype == space.float64:
        return table
    cause = None
    try:
        table = space.astype(table, space.float64)
    except Exception as error:
        cause = error
    if table.dtype == space.float64:
        return table
    library = type(table).__module__.split(".")[0]
    advice = (
        "set jax.config.update('jax_enable_x64', True) before arrays are made"
        if library.startswith("jax")
        else "move the array to a device that has them, or to the CPU"
    )
    raise InputError(
        f"an array of {library} with numbers of {table.dtype} cannot be turned into 64-bit floats "
        f"where it lies, and sums of squares need them: {advice}."
    ) from cause


def _compat(data: Any) -> Any:
    library = type(data).__module__.split(".")[0]
    return imported(
        "array_api_compat",
        f"an array of {library} was given, which needs array-api-compat: "
        "pip install 'ctfa[arrays]', or pass numpy arrays.",
    )
