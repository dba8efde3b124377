"""Values as a tree of JSON and a shelf of arrays, and back.

A value is a JSON scalar or an object with one tag, such as ``{"tuple": [1, 2]}``; the kinds of
values are in ``_plain``, ``_numbers`` and ``_objects``. One that is met again is written once, with
an ``"id"``, and then ``{"same": id}``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ctfa.persistence._errors import PersistenceError, Place, damaged, named, refused
from ctfa.persistence._shelf import ShelfReader, ShelfWriter

#: Levels of values within values.
DEEPEST = 60
#: What JSON has a form for, nearly.
SCALARS = frozenset((type(None), bool, int, float, str))
#: Whole numbers that every reader of JSON takes for what they are.
SAFE_INT = 2**53
#: How many times what was read a file may mean by naming it again, and how much any file may. Each
#: name costs one value and can mean two that are names again: sixty levels of that never end.
MEANT_AGAIN, ALWAYS = 8, 10**6
#: Halves of characters.
_HALVES = re.compile("[\ud800-\udfff]")
_UNFINISHED: dict[str, Any] = {}


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
    """Turns a value into a tree; raises for one that cannot be saved, and where it is."""

    kinds: tuple[Kind, ...]
    shelf: ShelfWriter = field(default_factory=ShelfWriter)
    depth: int = 0
    n_shared: int = 0
    met: dict[int, Any] = field(default_factory=dict)
    kept: list[Any] = field(default_factory=list)  # alive, so that no identity is used twice
    of_type: dict[type, Kind] = field(default_factory=dict)

    def write(self, value: Any, where: Place) -> Any:
        """Write one value."""
        if type(value) in SCALARS:
            return _scalar(value)
        kind = self.of_type.get(type(value)) or self._kind_of(value, where)
        if not kind.shared:
            return self._tagged(kind, value, where)
        known = self.met.get(id(value))
        if known is _UNFINISHED:
            raise refused(value, where, " and holds itself")
        if known is not None:
            if "id" not in known:
                known["id"] = self.n_shared
                self.n_shared += 1
            return {"same": known["id"]}
        self.met[id(value)] = _UNFINISHED
        self.kept.append(value)
        self.met[id(value)] = node = self._tagged(kind, value, where)
        return node

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


@dataclass
class Reader:
    """Turns a tree back into the value."""

    kinds: dict[str, Kind]
    shelf: ShelfReader
    depth: int = 0
    known: dict[int, tuple[Any, int]] = field(default_factory=dict)  # with how much each means
    n_read: int = 0
    n_again: int = 0

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
            raise damaged(f"{named(where)} is no list")
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
        if self.n_again > MEANT_AGAIN * self.n_read + ALWAYS:
            raise damaged(f"with {named(where)} it means far more values than it holds")


def _scalar(value: Any) -> Any:
    """A scalar, by a tag where JSON would not keep it exactly."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    if isinstance(value, str) and not value.isascii() and _HALVES.search(value):
        # A reader of JSON would join them.
        return {"text": value.encode("utf-8", "surrogatepass").hex()}
    if isinstance(value, int) and abs(value) > SAFE_INT:
        return {"int": hex(value)}
    return value
