"""Chunks that are refused before they count, and errors told apart: of the data, or of a chunk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ctfa import _validation as check


class BadData(ValueError):
    """What our own code says of the data of a chunk; other errors are the chunk's."""


@contextmanager
def refusals() -> Iterator[None]:
    """Mark what is refused in here as said by us."""
    try:
        yield
    except BadData:
        raise
    except ValueError as error:
        raise BadData(str(error)) from error


@contextmanager
def reading() -> Iterator[None]:
    """Let refusals of data through; one clear error for whatever else fails in a chunk."""
    try:
        yield
    except BadData as error:
        raise ValueError(str(error)) from error
    except Exception as error:
        raise RuntimeError(
            f"the data could not be read in chunks ({type(error).__name__}: {error}). Nothing was "
            "fitted: mend the chunk or the cluster it was computed on, and fit again."
        ) from error


def guarded(array: Any, what: str) -> Any:
    """A Dask array of ours whose chunks are plain numbers, or are refused when they are read.

    What an array says of itself is refused at once; what a chunk is instead, when it is there.
    """
    check.refuse_kind(array.dtype, what)
    meta = array._meta
    kind = np.dtype(np.float64) if array.dtype.kind in "OSU" else array.dtype
    if isinstance(meta, np.ndarray):  # a mask is refused, and not handed on
        meta = np.empty((0,) * array.ndim, dtype=kind)
    return array.map_blocks(read_block, what, dtype=kind, meta=meta)


def read_block(block: Any, what: str) -> Any:
    """A chunk of a table as numbers where it lies; masks, dates and text are refused."""
    with refusals():
        check.refuse_mask(block, what)
        check.refuse_kind(getattr(block, "dtype", None), what)
        if not isinstance(block, np.ndarray):
            return block  # of another library, perhaps on a device
        values = np.asarray(block)
        check.refuse_rounded(values, what)
        return check.read_numbers(values, what) if values.dtype.kind in "OSU" else values
