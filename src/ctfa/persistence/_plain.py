"""Values of Python: lists, dictionaries, sets, dates, and scalars that JSON has no form for."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ctfa.persistence._codec import SCALARS, Kind, Reader, Writer
from ctfa.persistence._errors import Place, damaged, named, refused

#: How many keys may have one hash: -1 and -2 have, others hardly ever.
SAME_HASH = 32
#: What may be in a set, or name an entry of a dictionary.
SIMPLE = SCALARS | {complex, bytes, datetime.date, datetime.datetime}


def is_simple(value: Any) -> bool:
    """Whether a value can be a key: a plain one, or a tuple of those."""
    if type(value) is tuple:
        return all(map(is_simple, value))
    return type(value) in SIMPLE or type(value).__module__ == "numpy"


def require_keys(keys: Sequence[Any], where: Place) -> Sequence[Any]:
    """Refuse what no dictionary of ours has as keys, or what would make looking them up endless."""
    if not all(map(is_simple, keys)):
        raise damaged(f"{named(where)} has a key that is no plain value")
    require_apart(keys, where)
    return keys


def require_apart(keys: Iterable[Any], where: Place) -> None:
    """Refuse many different keys of one hash: each would be compared with all before it.

    Python gives a whole number, and a tuple of them, the same hash in every process, so a file can
    choose a hundred thousand of one.
    """
    by_hash: dict[int, list[Any]] = {}
    for key in keys:
        alike = by_hash.setdefault(hash(key), [])
        if key not in alike:
            alike.append(key)
        if len(alike) > SAME_HASH:
            raise damaged(f"{named(where)} has keys that are too alike to be told apart")


def _exactly(kind: type) -> Callable[[Any], bool]:
    return lambda value: type(value) is kind


def _write_dict(writer: Writer, value: dict[Any, Any], where: Place) -> Any:
    pairs = []
    for key, entry in value.items():
        if not is_simple(key):
            raise refused(key, where, part="a key of ")
        place = (where, (key,))
        pairs.append([writer.write(key, place), writer.write(entry, place)])
    return pairs


def _read_dict(reader: Reader, node: Any, where: Place) -> Any:
    found = {}
    names = require_keys([reader.read(key, (where, at)) for at, (key, _) in enumerate(node)], where)
    for name, (_, entry) in zip(names, node, strict=True):
        found[name] = reader.read(entry, (where, (name,)))
    return found


def _read_set(reader: Reader, node: Any, where: Place) -> set[Any]:
    return set(require_keys(list(reader.read_all(node, where)), where))


def _write_set(writer: Writer, value: Any, where: Place) -> Any:
    wrong = [entry for entry in value if not is_simple(entry)]
    if wrong:
        raise refused(wrong[0], where, part="an entry of ")
    # Sets have no order: sorted, so that the same set gives the same file.
    ordered = sorted(value, key=lambda entry: (type(entry).__name__, repr(entry)))
    return writer.write_all(ordered, where)


def _write_slice(writer: Writer, value: slice, where: Place) -> Any:
    return writer.write_all((value.start, value.stop, value.step), where)


def _read_range(reader: Reader, node: Any, where: Place) -> range:
    found = range(*reader.read_all(node, where))
    reader.mean(len(found), where)
    return found


def _write_range(writer: Writer, value: range, where: Place) -> Any:
    return writer.write_all((value.start, value.stop, value.step), where)


def _fits_datetime(value: Any) -> bool:
    # A zone by name is not written by isoformat.
    return type(value) is datetime.datetime and (
        value.tzinfo is None or type(value.tzinfo) is datetime.timezone
    )


def _write_datetime(writer: Writer, value: datetime.datetime, where: Place) -> Any:
    return [value.isoformat(), value.fold]


def _read_datetime(reader: Reader, node: Any, where: Place) -> Any:
    text, fold = node
    return datetime.datetime.fromisoformat(text).replace(fold=fold)


def _never(value: Any) -> bool:
    return False


def _unwritten(writer: Writer, value: Any, where: Place) -> Any:
    raise damaged("a scalar is written by its own rule")


def _read_float(reader: Reader, node: Any, where: Place) -> float:
    if node not in ("nan", "inf", "-inf"):
        raise damaged(f"{named(where)} is no number")
    return float(node)


PLAIN = (
    Kind("int", _never, _unwritten, lambda r, node, at: int(node, 16)),
    Kind("float", _never, _unwritten, _read_float),
    Kind(
        "text",
        _never,
        _unwritten,
        lambda r, node, at: bytes.fromhex(node).decode("utf-8", "surrogatepass"),
    ),
    Kind(
        "complex",
        _exactly(complex),
        lambda w, value, at: w.write_all((value.real, value.imag), at),
        lambda r, node, at: complex(*r.read_all(node, at)),
    ),
    Kind(
        "bytes",
        _exactly(bytes),
        lambda w, value, at: value.hex(),
        lambda r, node, at: bytes.fromhex(node),
    ),
    Kind(
        "list",
        _exactly(list),
        lambda w, value, at: w.write_all(value, at),
        lambda r, node, at: list(r.read_all(node, at)),
        shared=True,
    ),
    Kind(
        "tuple",
        _exactly(tuple),
        lambda w, value, at: w.write_all(value, at),
        lambda r, node, at: tuple(r.read_all(node, at)),
    ),
    Kind("dict", _exactly(dict), _write_dict, _read_dict, shared=True),
    Kind("set", _exactly(set), _write_set, _read_set, shared=True),
    Kind(
        "frozenset",
        _exactly(frozenset),
        _write_set,
        lambda r, node, at: frozenset(_read_set(r, node, at)),
    ),
    Kind("slice", _exactly(slice), _write_slice, lambda r, n, at: slice(*r.read_all(n, at))),
    Kind("range", _exactly(range), _write_range, _read_range),
    Kind(
        "date",
        _exactly(datetime.date),
        lambda w, value, at: value.isoformat(),
        lambda r, node, at: datetime.date.fromisoformat(node),
    ),
    Kind("datetime", _fits_datetime, _write_datetime, _read_datetime),
    Kind(
        "timedelta",
        _exactly(datetime.timedelta),
        lambda w, value, at: [value.days, value.seconds, value.microseconds],
        lambda r, node, at: datetime.timedelta(*node),
    ),
)
