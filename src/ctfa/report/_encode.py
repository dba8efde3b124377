"""Page data as text that can stand inside a page: numbers in base64, no character that ends it."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import numpy as np

from ctfa.core.types import AnyArray

#: Characters that mean something to a parser of HTML or of scripts, though not inside JSON.
UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def as_json(data: Any) -> str:
    """JSON in which arrays are base64, without a character that could end the script around it."""
    text = json.dumps(_plain(data), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character, escaped in UNSAFE.items():
        text = text.replace(character, escaped)
    # Half of a pair of surrogates is no text that a file could hold.
    return text.encode("utf-8", "replace").decode("utf-8")


def packed(values: AnyArray) -> AnyArray:
    """The same numbers in the smallest type that a browser has: wholes exactly, others in four."""
    if values.dtype.kind == "f":
        return values.astype("<f4")
    if values.dtype.kind == "b":
        return values.astype("u1")
    low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
    kinds = ("u1", "<u2", "<u4") if low >= 0 else ("i1", "<i2", "<i4")
    return values.astype(next(k for k in kinds if _fits(k, low, high)))


def _fits(kind: str, low: int, high: int) -> bool:
    info = np.iinfo(kind)
    return bool(info.min <= low and high <= info.max)


def _plain(data: Any) -> Any:
    if isinstance(data, np.ndarray):
        small = packed(data)
        text = base64.b64encode(np.ascontiguousarray(small).tobytes()).decode("ascii")
        return {"dtype": small.dtype.str.lstrip("<|"), "shape": list(small.shape), "base64": text}
    if isinstance(data, dict):
        return {str(key): _plain(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_plain(value) for value in data]
    if isinstance(data, np.generic):
        return _plain(data.item())
    if isinstance(data, float) and not math.isfinite(data):
        # As JavaScript's Number reads them.
        return "NaN" if math.isnan(data) else "Infinity" if data > 0 else "-Infinity"
    return data
