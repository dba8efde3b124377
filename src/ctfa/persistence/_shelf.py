"""All arrays of a model in a few long ones, one a type: thousands of groups stay one file member.

A model of 30,000 targets holds some hundred thousand arrays of a few numbers each; as members of a
zip they would cost more than they hold.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from math import prod

import numpy as np

from ctfa.core.types import AnyArray
from ctfa.persistence._errors import damaged, shown

#: Kinds of numbers and text whose bytes are their value: no objects, no records.
KINDS = "biufcSUMm"
#: Bytes of an entry of which a file may speak without having one.
LONGEST_ENTRY = 2**16
#: The most directions that numpy gives an array.
MOST_DIRECTIONS = 64
#: The largest code point of a character.
LAST_CHARACTER = 0x10FFFF


def is_storable(dtype: np.dtype) -> bool:
    """Whether an array of this type is its bytes, the same on every machine."""
    return dtype.kind in KINDS and dtype.itemsize > 0 and dtype.char not in "gG"


class ShelfWriter:
    """Arrays laid end to end, by type."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._parts: list[list[bytes]] = []
        self._sizes: list[int] = []

    def put(self, values: AnyArray, order: str) -> tuple[int, int]:
        """Append an array; return the number of the long one and where in it this one begins."""
        number = self._numbers.setdefault(values.dtype.str, len(self._parts))
        if number == len(self._parts):
            self._parts.append([])
            self._sizes.append(0)
        start = self._sizes[number]
        self._parts[number].append(values.tobytes(order))  # type: ignore[arg-type]
        self._sizes[number] += values.size
        return number, start

    def files(self) -> list[bytes]:
        """The long arrays as files of numpy."""
        files = []
        for dtype, number in self._numbers.items():
            file = io.BytesIO()
            header = {"descr": dtype, "fortran_order": False, "shape": (self._sizes[number],)}
            np.lib.format.write_array_header_1_0(file, header)
            files.append(b"".join([file.getvalue(), *self._parts[number]]))
        return files


class ShelfReader:
    """The long arrays, to take others from; each number is handed out once.

    So a file cannot make more of its arrays than it holds.
    """

    def __init__(self, files: Sequence[bytes]) -> None:
        self._arrays = [_read(file) for file in files]
        self._left = [array.size for array in self._arrays]

    def take(self, number: int, start: int, shape: Sequence[int], order: str) -> AnyArray:
        """Copy out an array."""
        if not 0 <= number < len(self._arrays):
            raise damaged(f"it has no array {shown(number)}")
        if len(shape) > MOST_DIRECTIONS:
            raise damaged(f"an array has {len(shape):,} directions")
        whole, size = self._arrays[number], prod(shape)
        if min(shape, default=0) < 0 or start < 0 or start + size > whole.size:
            raise damaged(f"an array of shape {shown(tuple(shape))} reaches beyond what is stored")
        self._left[number] -= size
        if self._left[number] < 0:
            raise damaged("an array is used twice")
        flat = whole[start : start + size].copy()
        return flat.reshape(tuple(shape), order=order)  # type: ignore[call-overload,no-any-return]


def _read(file: bytes) -> AnyArray:
    """One long array; anything but plain numbers and text is refused before it is looked at."""
    stream = io.BytesIO(file)
    if np.lib.format.read_magic(stream) != (1, 0):
        raise damaged("an array has a version of numpy's format that ctfa does not write")
    shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    if dtype.hasobject or dtype.names is not None or not is_storable(dtype):
        raise damaged(f"it holds an array of type {dtype}, which is not plain numbers or text")
    if dtype.itemsize > max(len(file), LONGEST_ENTRY):
        raise damaged(f"it holds no array of type {dtype}, but says so")
    at = stream.tell()
    if len(shape) != 1 or is_fortran or shape[0] * dtype.itemsize != len(file) - at:
        raise damaged("an array has not the length that it says")
    array = np.frombuffer(file, dtype, offset=at)
    if dtype.kind == "b" and array.size and array.view(np.uint8).max() > 1:
        raise damaged("an array of yes and no holds something else")
    if dtype.kind == "U" and array.size:
        letters = array.view(np.dtype(np.uint32).newbyteorder(dtype.byteorder))
        if letters.max() > LAST_CHARACTER:
            raise damaged("a text holds what is no character")
    return array
