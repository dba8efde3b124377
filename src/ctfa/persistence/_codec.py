"""Values as a tree of JSON and a shelf of arrays, and back; how a refusal reads.

A value is a JSON scalar or an object with one tag, such as ``{"tuple": [1, 2]}``; the kinds of
values are in ``_values`` and ``_objects``. One that is met again is written once, with an ``"id"``,
and then ``{"same": id}``.
"""

from __future__ import annotations

import io
import reprlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, TypeAlias

import numpy as np

from ctfa.core.types import AnyArray

#: Where in a model a value is: the place of what holds it, and the step from there. A text is made
#: of it only where one is raised: one for each of a million values would cost more than they do.
Place: TypeAlias = tuple[Any, ...]
#: The model itself.
TOP: Place = ()
#: The longest that what is wrong with a file may read, and where in it that is.
LONGEST, LONGEST_PLACE = 400, 150
#: What can be saved, for those whose model cannot.
SAVED_KINDS = (
    "files hold plain values, numpy arrays, sparse matrices, ctfa's own estimators, and the "
    "estimators of scikit-learn whose state is plain (linear models, scalers, pipelines: "
    "ctfa.persistence.classes() names them)"
)


class PersistenceError(ValueError):
    """A model that cannot be saved, or a file that cannot be loaded.

    ``save`` and ``load`` raise it, a ``ValueError``; its text says what, where and what to do.

    Parameters
    ----------
    *args
        The text.

    Examples
    --------
    >>> import io
    >>> from ctfa.persistence import PersistenceError, save
    >>> try:
    ...     save(io.StringIO(), "model.ctfa")
    ... except PersistenceError as error:
    ...     print(str(error).partition(":")[0])
    save was given something of the class _io.StringIO
    """


def refused(value: Any, where: Place, why: str = "", part: str = "") -> PersistenceError:
    """Say what cannot be saved, where it is, and what to do."""
    return PersistenceError(
        f"This model cannot be saved: {part}{named(where)} is {described(value)}{why}; "
        f"{SAVED_KINDS}. For anything else use joblib or skops."
    )


def damaged(what: str) -> PersistenceError:
    """Say what is wrong with a file, in one line of moderate length whatever the file holds."""
    said = " ".join(what[: 2 * LONGEST].split())
    said = said if len(said) <= LONGEST else f"{said[:LONGEST]}..."
    return PersistenceError(f"This file is damaged or was not written by ctfa: {said}.")


def named(where: Place) -> str:
    """A place in words: ``regressors_[0].coef_``."""
    text = ""
    while where:
        where, step = where
        if isinstance(step, str):
            text = f".{step}{text}"
        elif isinstance(step, tuple):  # a key of a dictionary
            text = f"[{shown(step[0])}]{text}"
        else:
            text = f"[{step}]{text}"
    text = text.removeprefix(".") or "the model"
    return text if len(text) <= LONGEST_PLACE else f"{text[:60]}...{text[-60:]}"


def shown(value: Any) -> str:
    """A value of a file, as much of it as a sentence can hold."""
    try:
        return reprlib.repr(value)
    except ValueError:  # Python writes no whole number of more than 4,300 digits
        return "a number of thousands of digits"


def described(value: Any) -> str:
    """Name the kind of a value in words."""
    kind = type(value)
    if isinstance(value, type):
        return f"the class {value.__module__}.{value.__qualname__}"
    if callable(value) and hasattr(value, "__name__"):
        return f"the function {value.__name__}"
    return f"of the class {kind.__module__}.{kind.__qualname__}"


#: Kinds of numbers and text whose bytes are their value: no objects, no records.
STORED = "biufcSUMm"
#: Bytes of an entry of which a file may speak without having one.
LONGEST_ENTRY = 2**16
#: The most directions that numpy gives an array.
MOST_DIRECTIONS = 64
#: The largest code point of a character.
LAST_CHARACTER = 0x10FFFF


def is_storable(dtype: np.dtype) -> bool:
    """Whether an array of this type is its bytes, the same on every machine."""
    return dtype.kind in STORED and dtype.itemsize > 0 and dtype.char not in "gG"


def _long_array(file: bytes) -> AnyArray:
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
        raise damaged("an array does not have the length that it says")
    array = np.frombuffer(file, dtype, offset=at)
    if dtype.kind == "b" and array.size and array.view(np.uint8).max() > 1:
        raise damaged("an array of yes and no holds something else")
    if dtype.kind == "U" and array.size:
        letters = array.view(np.dtype(np.uint32).newbyteorder(dtype.byteorder))
        if letters.max() > LAST_CHARACTER:
            raise damaged("a text holds what is not a character")
    return array


#: Levels of values within values.
DEEPEST = 60
#: What JSON has a form for, nearly.
SCALARS = frozenset((type(None), bool, int, float, str))
#: Whole numbers that every reader of JSON takes for what they are.
SAFE_INT = 2**53
#: How many times what was read a file may mean by naming it again, and how much any file may. Each
#: name costs one value and can mean two that are names again: sixty levels of that never end.
MEANT_AGAIN, MEANT_ALWAYS = 8, 10**6


@dataclass(frozen=True)
class Kind:
    """How values of one kind are written under a tag, and read."""

    tag: str
    fits: Callable[[Any], bool]
    write: Callable[[Writer, Any, Place], Any]
    read: Callable[[Reader, Any, Place], Any]
    shared: bool = False  # whether it matters that two places hold the very same one


@dataclass
class Writer:
    """Turns a value into a tree; raises for one that cannot be saved, and where it is.

    Arrays are laid end to end, by type, so that thousands of groups stay one file member: a model
    of 30,000 targets holds some hundred thousand arrays of a few numbers each, and as members of a
    zip they would cost more than they hold.
    """

    scalars: tuple[Kind, ...]  # those that JSON would not keep exactly
    kinds: tuple[Kind, ...]
    depth: int = 0
    n_shared: int = 0
    #: What may be met again, alive so that no identity is used twice, and how it was written.
    met: dict[int, tuple[Any, Any]] = field(default_factory=dict)
    of_type: dict[type, Kind] = field(default_factory=dict)
    arrays: dict[str, list[bytes]] = field(default_factory=dict)  # by type
    sizes: dict[str, int] = field(default_factory=dict)

    def write(self, value: Any, where: Place) -> Any:
        """Write one value."""
        if type(value) in SCALARS:
            found = next((kind for kind in self.scalars if kind.fits(value)), None)
            return value if found is None else {found.tag: found.write(self, value, where)}
        kind = self.of_type.get(type(value)) or self._kind_of(value, where)
        if not kind.shared:
            return self._tagged(kind, value, where)
        if id(value) not in self.met:
            self.met[id(value)] = value, None
            node = self._tagged(kind, value, where)
            self.met[id(value)] = value, node
            return node
        known = self.met[id(value)][1]
        if known is None:
            raise refused(value, where, " and holds itself")
        if "id" not in known:
            known["id"] = self.n_shared
            self.n_shared += 1
        return {"same": known["id"]}

    def write_all(self, values: Any, where: Place) -> list[Any]:
        """Write several values, named by their positions."""
        return [self.write(value, (where, at)) for at, value in enumerate(values)]

    def _kind_of(self, value: Any, where: Place) -> Kind:
        found = next((kind for kind in self.kinds if kind.fits(value)), None)
        if found is None:
            raise refused(value, where)
        if found.shared:  # of these the type says it all
            self.of_type[type(value)] = found
        return found

    def _tagged(self, kind: Kind, value: Any, where: Place) -> Any:
        if self.depth >= DEEPEST:
            raise refused(value, where, f", more than {DEEPEST} levels deep")
        self.depth += 1
        written = kind.write(self, value, where)
        self.depth -= 1
        return {kind.tag: written}

    def put(self, values: AnyArray, order: str) -> tuple[int, int]:
        """Append an array; return the number of the long one and where in it this one begins."""
        kind = values.dtype.str
        start = self.sizes.get(kind, 0)
        self.arrays.setdefault(kind, []).append(values.tobytes(order))  # type: ignore[arg-type]
        self.sizes[kind] = start + values.size
        return list(self.arrays).index(kind), start

    def files(self) -> list[bytes]:
        """The long arrays as files of numpy."""
        files = []
        for kind, parts in self.arrays.items():
            file = io.BytesIO()
            header = {"descr": kind, "fortran_order": False, "shape": (self.sizes[kind],)}
            np.lib.format.write_array_header_1_0(file, header)
            files.append(b"".join([file.getvalue(), *parts]))
        return files


class Reader:
    """Turns a tree back into the value.

    Each number of the long arrays is handed out once, so that a file cannot make more of its arrays
    than it holds.
    """

    def __init__(self, kinds: dict[str, Kind], files: Sequence[bytes], schema: int) -> None:
        self.kinds, self.schema, self.depth = kinds, schema, 0
        self.known: dict[int, tuple[Any, int]] = {}  # with how much each means
        self.n_read = self.n_again = 0
        self._arrays = [_long_array(file) for file in files]
        self._left = [array.size for array in self._arrays]

    def read(self, node: Any, where: Place) -> Any:
        """Read one value."""
        self.n_read += 1
        if node is None or isinstance(node, (bool, int, float, str)):
            return node
        if not isinstance(node, dict):
            raise damaged(f"{named(where)} has no tag")
        tags = [tag for tag in node if tag != "id"]
        if tags == ["same"]:
            return self._same(node["same"], where)
        kind = self.kinds.get(tags[0]) if len(tags) == 1 else None
        if kind is None or self.depth >= DEEPEST:
            raise damaged(f"{named(where)} is of no known kind, or too deep")
        self.depth += 1
        before = self.n_read + self.n_again
        try:
            value = kind.read(self, node[kind.tag], where)
        except (PersistenceError, MemoryError):
            raise
        except Exception as error:  # whatever a hostile file makes fail
            raise damaged(f"{named(where)} cannot be read ({error})") from error
        self.depth -= 1
        if "id" in node:
            number = node["id"]
            if not kind.shared or type(number) is not int or not 0 <= number < SAFE_INT:
                raise damaged(f"{named(where)} cannot be named again")
            self.known[number] = (value, 1 + self.n_read + self.n_again - before)
        return value

    def read_all(self, nodes: Any, where: Place) -> Iterator[Any]:
        """Read several values."""
        if not isinstance(nodes, list):
            raise damaged(f"{named(where)} is not a list")
        return (self.read(node, (where, at)) for at, node in enumerate(nodes))

    def _same(self, number: Any, where: Place) -> Any:
        if not isinstance(number, int) or number not in self.known:
            raise damaged(f"{named(where)} is said to be what was not met before")
        value, size = self.known[number]
        self.mean(size, where)
        return value

    def mean(self, size: int, where: Place) -> None:
        """Count values that are not written out: those met before, the numbers of a range."""
        self.n_again += size
        if self.n_again > MEANT_AGAIN * self.n_read + MEANT_ALWAYS:
            raise damaged(f"with {named(where)} it means far more values than it holds")

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
