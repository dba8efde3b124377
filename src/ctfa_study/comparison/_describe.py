"""What an estimator is, with every number in it, as something that JSON can hold.

The printed form is for people: it shortens long lists and arrays, rounds numbers, leaves out what
has its default, and shows a sparse matrix by its size. Two estimators that print alike may differ.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Mapping
from functools import cached_property, partial
from types import CodeType, FunctionType
from typing import Any

import numpy as np
from scipy import sparse

#: Packages whose classes are what their version says.
VERSIONED = ("builtins", "ctfa", "ctfa_study", "numpy", "scipy", "sklearn")
#: What a class says about itself and not about what it does.
ABOUT = frozenset(
    ("__annotations__", "__dict__", "__doc__", "__firstlineno__", "__module__", "__qualname__",
     "__static_attributes__", "__weakref__")
)  # fmt: skip


def describe(value: Any) -> Any:
    """The same for equal parameters, another for others, in this process and in the next.

    Parameters
    ----------
    value : object
        An estimator, by its class and its parameters; or a parameter: numbers and texts as they
        are, arrays by their bytes, functions by their code and what it has hold of, anything else
        by its pickle. What cannot be pickled is taken as new each time it is printed again.

    Examples
    --------
    >>> import numpy as np
    >>> first, second = np.zeros(2000), np.zeros(2000)
    >>> second[1000] = 1.0
    >>> str(first) == str(second), describe(first) == describe(second)
    (True, False)
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, np.ndarray) or sparse.issparse(value):
        return _array(value)
    if isinstance(value, Mapping):
        return ["mapping", [[describe(name), describe(held)] for name, held in value.items()]]
    if isinstance(value, list | tuple | range):
        return ["sequence", [describe(held) for held in value]]
    if hasattr(value, "get_params") and not isinstance(value, type):
        return [_name(type(value)), _own_code(type(value)), describe(value.get_params(deep=False))]
    return _object(value)


def _array(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        table = value.tocsr(copy=True)
        table.sum_duplicates()
        parts = (table.indptr.astype(np.int64), table.indices.astype(np.int64), table.data)
        return ["sparse", list(table.shape), *map(describe, parts)]
    if value.dtype.hasobject:
        return ["array", list(value.shape), describe(value.ravel().tolist())]
    return ["array", value.dtype.str, list(value.shape), _digest(value.tobytes())]


def _object(value: Any) -> Any:
    if isinstance(value, type):
        return _name(value)
    if isinstance(value, partial):
        return ["partial", describe(value.func), describe(value.args), describe(value.keywords)]
    if isinstance(value, FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        # The class of a method that calls super() is held too: by its name, or it would never end.
        held = [_name(cell) if isinstance(cell, type) else cell for cell in cells]
        given = (value.__defaults__, value.__kwdefaults__)
        return [_name(value), _code(value.__code__), describe(given), describe(held)]
    try:
        return [_name(type(value)), _digest(pickle.dumps(value))]
    except Exception:  # whatever a user's class raises
        return [_name(type(value)), repr(value)]


def _own_code(kind: type) -> Any:
    """Methods and values of a user's class, which does not have a version to go by."""
    return [
        [name, _member(held)]
        for base in kind.__mro__
        if base.__module__.partition(".")[0] not in VERSIONED
        for name, held in sorted(vars(base).items())
        if name not in ABOUT and _decides(held)
    ]


def _decides(held: Any) -> bool:
    """Whether it is a method of any kind or a constant; anything else may be a class's memory."""
    methods = (FunctionType, staticmethod, classmethod, property, cached_property)
    return isinstance(held, (*methods, str, bool, int, float, tuple))


def _member(held: Any) -> Any:
    """What a class has: a method of any kind, by its code, or a value."""
    for part in ("__func__", "fget", "func"):  # static and class methods, properties, cached ones
        held = getattr(held, part, held)
    return describe(held)


def _code(code: CodeType) -> Any:
    """Instructions, names and constants; not where it stands in its file."""
    constants = [
        _code(held) if isinstance(held, CodeType) else repr(held) for held in code.co_consts
    ]
    return [_digest(code.co_code), list(code.co_names), constants]


def _name(value: Any) -> str:
    return f"{value.__module__}.{value.__qualname__}"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:24]
