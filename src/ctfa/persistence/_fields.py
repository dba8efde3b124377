"""Whether the fields of an object are what its class says: numbers, arrays of numbers, names."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from ctfa.persistence._errors import damaged

#: Kinds of numpy's numbers that serve where a type is asked for.
KINDS = {"f": "fiu", "i": "iu", "u": "u", "b": "b"}
#: Classes some of whose fields are None where the data have no such thing.
MAY_LACK = ("LabelledFit",)

Test = Callable[[Any], bool]


def check_fields(kind: type, state: Mapping[str, Any]) -> None:
    """Refuse an object of ours with a field of another type than its class says."""
    for name, fits in _tests(kind):
        value = state[name]
        if not fits(value) and not (value is None and kind.__name__ in MAY_LACK):
            raise damaged(f"{name} of a {kind.__name__} is of the wrong type")


@cache
def _tests(kind: type) -> tuple[tuple[str, Test], ...]:
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind)]
    else:
        names = list(getattr(kind, "_fields", ()))
    hints = get_type_hints(kind) if names else {}
    found = ((name, _test(hints[name])) for name in names)
    return tuple((name, test) for name, test in found if test is not None)


def _test(hint: Any) -> Test | None:
    """What tells whether a value is of a type; None where anything is."""
    origin, parts = get_origin(hint), get_args(hint)
    found: Test | None = None
    if origin in (Union, types.UnionType):
        found = _any_of([_test(part) for part in parts])
    elif origin is np.ndarray:
        (number,) = get_args(parts[1])
        found = None if number is Any else _numbers(KINDS[np.dtype(number).kind])
    elif origin is tuple and parts[-1] is not ...:
        found = _tuple([_test(part) for part in parts])
    elif origin in (tuple, list, Sequence):
        kinds = (list, tuple, np.ndarray) if origin is Sequence else origin
        found = _sequence(kinds, _test(parts[0]))
    elif origin in (dict, Mapping):
        found = _dictionary(*map(_test, parts))
    elif hint in (float, int):
        found = _number("fiu" if hint is float else "iu")
    elif hint is not Any and isinstance(hint, type):
        kinds = (bool, np.bool_) if hint is bool else hint
        found = _instance(kinds)
    return found


def _instance(kinds: Any) -> Test:
    return lambda value: isinstance(value, kinds)


def _any_of(tests: list[Test | None]) -> Test | None:
    some = [test for test in tests if test is not None]
    return (lambda value: any(t(value) for t in some)) if len(some) == len(tests) else None


def _number(kinds: str) -> Test:
    plain = (float, int) if "f" in kinds else (int,)
    return lambda value: (
        type(value) in plain or (isinstance(value, np.generic) and value.dtype.kind in kinds)
    )


def _numbers(kinds: str) -> Test:
    single = _number(kinds)
    return lambda value: (
        value.dtype.kind in kinds if isinstance(value, np.ndarray) else single(value)
    )


def _tuple(tests: list[Test | None]) -> Test:
    def fits(value: Any) -> bool:
        same = isinstance(value, tuple) and len(value) == len(tests)
        return same and all(t is None or t(v) for t, v in zip(tests, value, strict=True))

    return fits


def _sequence(kind: Any, test: Test | None) -> Test:
    return lambda value: isinstance(value, kind) and (test is None or all(map(test, value)))


def _dictionary(key: Test | None, entry: Test | None) -> Test:
    return lambda value: (
        isinstance(value, dict)
        and (key is None or all(map(key, value)))
        and (entry is None or all(map(entry, value.values())))
    )
