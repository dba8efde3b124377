"""Values of Python, numpy, scipy and pandas: how each is written in a file, and read."""

from __future__ import annotations

import datetime
import math
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any

import numpy as np
from scipy import sparse
from scipy.interpolate import BSpline

from ctfa.core.libraries import imported
from ctfa.persistence._codec import (
    LONGEST_ENTRY,
    SAFE_INT,
    SCALARS,
    Kind,
    Place,
    Reader,
    Writer,
    damaged,
    is_storable,
    named,
    refused,
    shown,
)

#: How many keys may have one hash: -1 and -2 have, others hardly ever.
SAME_HASH = 32
#: Numbers that JSON has no form for.
NOT_IN_JSON = {text: float(text) for text in ("nan", "inf", "-inf")}
#: Halves of characters.
HALVES = re.compile("[\ud800-\udfff]")
#: What may be in a set, or name an entry of a dictionary.
SIMPLE = SCALARS | {complex, bytes, datetime.date, datetime.datetime}
#: Functions of numpy that transform targets and features, by name.
UFUNCS = (
    np.absolute, np.arcsinh, np.arctanh, np.cbrt, np.ceil, np.cos, np.degrees, np.exp, np.exp2,
    np.expm1, np.floor, np.log, np.log10, np.log1p, np.log2, np.negative, np.radians,
    np.reciprocal, np.rint, np.sign, np.sin, np.sinh, np.sqrt, np.square, np.tan, np.tanh,
)  # fmt: skip
FUNCTIONS: dict[str, Any] = {function.__name__: function for function in UFUNCS}
#: Words in the state of a generator: one that begins beyond them would read other memory.
RANDOM_WORDS = 624
#: Sparse formats, and in which each is written: one that holds as many numbers as its shape needs.
COMPRESSED = ("csr", "csc", "bsr")
WRITTEN_AS = {form: form for form in (*COMPRESSED, "dia", "coo")} | {"lil": "csr", "dok": "coo"}


def is_simple(value: Any) -> bool:
    """Whether a value can be a key: a plain one, or a tuple of those."""
    if type(value) is tuple:
        return all(map(is_simple, value))
    return type(value) in SIMPLE or type(value).__module__ == "numpy"


def require_keys(keys: Sequence[Any], where: Place) -> Sequence[Any]:
    """Refuse what no dictionary of ours has as keys, or what would make looking them up endless."""
    if not all(map(is_simple, keys)):
        raise damaged(f"{named(where)} has a key that is not a plain value")
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


def _write_array(writer: Writer, value: Any, where: Place) -> Any:
    shape, writeable = list(value.shape), bool(value.flags.writeable)
    if value.dtype == object:
        return {"items": writer.write_all(value.flat, where), "shape": shape, "free": writeable}
    if not is_storable(value.dtype):
        raise refused(value, where, f" and type {value.dtype}")
    # Products of matrices depend in their last bit on the order in memory.
    order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
    number, start = writer.put(value, order)
    return {"of": number, "at": start, "shape": shape, "order": order, "free": writeable}


def _read_array(reader: Reader, node: Any, where: Place) -> Any:
    shape = node["shape"]
    if "items" in node:
        # As long as the list that is there, whatever the shape promises.
        array = np.empty(len(node["items"]), dtype=object)
        for at, item in enumerate(reader.read_all(node["items"], where)):
            array[at] = item
        array = array.reshape(shape)
    else:
        if not all(type(part) is int for part in (node["of"], node["at"], *shape)):
            raise damaged(f"{named(where)} has no whole position and shape")
        array = reader.take(node["of"], node["at"], shape, node["order"])
        reader.n_read += array.size
        if not array.size:  # of nothing there can be any number of rows
            reader.mean(prod(max(length, 1) for length in shape), where)
    array.flags.writeable = bool(node["free"])
    return array


def _write_scalar(writer: Writer, value: Any, where: Place) -> Any:
    values = np.asarray(value)
    if values.dtype.itemsize == 0:
        values = values.astype(f"{values.dtype.kind}1")
    if not is_storable(values.dtype):
        raise refused(value, where)
    return list(writer.put(values, "C"))


def _read_scalar(reader: Reader, node: Any, where: Place) -> Any:
    number, start = node
    if type(number) is not int or type(start) is not int:
        raise damaged(f"{named(where)} has no whole position")
    return reader.take(number, start, (1,), "C")[0]


def _write_sparse(writer: Writer, value: Any, where: Place) -> Any:
    kept = value.asformat(WRITTEN_AS[value.format])
    parts: tuple[Any, ...]
    if kept.format in COMPRESSED:
        parts = (kept.indices, kept.indptr)
    elif kept.format == "dia":
        parts = (kept.offsets,)
    else:  # versions before 1.13 have no coords
        parts = getattr(kept, "coords", (kept.row, kept.col))
    is_array, shape = isinstance(value, sparse.sparray), list(map(int, value.shape))
    return [value.format, is_array, shape, writer.write_all((kept.data, *parts), where)]


def _read_sparse(reader: Reader, node: Any, where: Place) -> Any:
    form, is_array, shape, nodes = node
    stored = WRITTEN_AS[form]
    make = getattr(sparse, f"{stored}_{'array' if is_array else 'matrix'}")
    data, *parts = reader.read_all(nodes, where)
    if not all(type(part) is int and part >= 0 for part in shape):
        raise damaged(f"{named(where)} has no whole shape")
    # Whatever is next done with a matrix costs a number for each row and column.
    reader.mean(sum(shape), where)
    held = (data, tuple(parts)) if stored == "coo" else (data, *parts)
    found = make(held, shape=tuple(shape))
    if stored in COMPRESSED:
        # Positions beyond the matrix would be read from memory that is not its own.
        found.check_format(full_check=True)
    return found.asformat(form)


def _write_index(writer: Writer, value: Any, where: Place) -> Any:
    pandas = sys.modules["pandas"]
    if isinstance(value, pandas.MultiIndex):
        return ["tuples", writer.write_all((list(value), list(value.names)), where)]
    if isinstance(value, pandas.RangeIndex):
        parts = (value.start, value.stop, value.step, value.name)
        return ["range", writer.write_all(parts, where)]
    dtype = str(value.dtype)
    if not isinstance(value.dtype, np.dtype) and dtype not in ("str", "string", "category"):
        raise refused(value, where, f" with labels of type {dtype}")
    if dtype in ("str", "string", "object", "category"):
        labels = np.empty(len(value), dtype=object)
        labels[:] = list(value)
        # The labels of a category are all that a table of predictions needs.
        dtype = "object" if dtype == "category" else dtype
    else:
        labels = value.to_numpy()
    return [dtype, writer.write_all((labels, value.name), where)]


def _read_index(reader: Reader, node: Any, where: Place) -> Any:
    pandas = _pandas()
    form, parts = node
    found = list(reader.read_all(parts, where))
    if form == "tuples":
        require_apart((part for label in found[0] for part in label), where)
        return pandas.MultiIndex.from_tuples(found[0], names=found[1])
    if form == "range":
        labels = pandas.RangeIndex(*found[:3], name=found[3])
        reader.mean(len(labels), where)
        return labels
    if form == "str" and pandas.__version__.startswith("2."):
        form = "object"
    text = form in ("str", "string", "object")
    return pandas.Index(found[0], dtype=form if text else found[0].dtype, name=found[1])


def _of_pandas(name: str) -> Callable[[Any], bool]:
    """Whether a value is of this very class of pandas: nothing is where that was not imported."""
    return lambda value: type(value) is getattr(sys.modules.get("pandas"), name, None)


def _is_index(value: Any) -> bool:
    return "pandas" in sys.modules and isinstance(value, sys.modules["pandas"].Index)


def _write_frame(writer: Writer, value: Any, where: Place) -> Any:
    columns = []
    for at in range(value.shape[1]):
        values = value.iloc[:, at].to_numpy()
        columns.append(values if is_storable(values.dtype) else values.astype(object))
    return writer.write_all((value.index, value.columns, columns), where)


def _read_frame(reader: Reader, node: Any, where: Place) -> Any:
    index, labels, columns = reader.read_all(node, where)
    frame = _pandas().DataFrame(dict(enumerate(columns)), index=index)
    frame.columns = labels
    return frame


def _pandas() -> Any:
    absent = "its targets were columns of pandas, which is not installed: pip install ctfa[frames]"
    try:
        return imported("pandas", absent)
    except ImportError as error:
        raise damaged(str(error)) from error


def _read_random(reader: Reader, node: Any, where: Place) -> Any:
    generator = np.random.RandomState(0)  # what scikit-learn takes
    state = tuple(reader.read_all(node, where))
    if type(state[2]) is not int or not 0 <= state[2] <= RANDOM_WORDS:
        raise damaged(f"{named(where)} is not the state of a generator")
    generator.set_state(state)
    return generator


def _type_named(name: Any) -> Any:
    dtype = np.dtype(name)
    if not is_storable(dtype) or dtype.itemsize > LONGEST_ENTRY:
        raise damaged(f"{shown(name)} is not a type of numbers")
    return dtype


def _is_datetime(value: Any) -> bool:
    # A zone by name is not written by isoformat.
    return type(value) is datetime.datetime and (
        value.tzinfo is None or type(value.tzinfo) is datetime.timezone
    )


def _read_range(reader: Reader, node: Any, where: Place) -> range:
    found = range(*reader.read_all(node, where))
    reader.mean(len(found), where)
    return found


def _bounds(value: slice | range) -> tuple[Any, ...]:
    return value.start, value.stop, value.step


Fits = Callable[[Any], bool]
One = Callable[[Any], Any]


def _as_json(tag: str, fits: Fits, write: One, read: One) -> Kind:
    """Values that are written as a text, or as numbers of their own."""
    return Kind(tag, fits, lambda w, value, at: write(value), lambda r, node, at: read(node))


def _as_parts(tag: str, kind: type, parts: One, make: One, **shared: bool) -> Kind:
    """Values of a type that are made of others."""
    return Kind(
        tag, _exactly(kind),
        lambda w, value, at: w.write_all(parts(value), at),
        lambda r, node, at: make(r.read_all(node, at)), **shared,
    )  # fmt: skip


#: Scalars by a tag, where JSON would not keep them exactly.
SCALAR_KINDS = (
    _as_json("int", lambda v: type(v) is int and abs(v) > SAFE_INT, hex, lambda n: int(n, 16)),
    _as_json("float", lambda v: type(v) is float and not math.isfinite(v),
             repr, NOT_IN_JSON.__getitem__),
    # A reader of JSON would join halves of characters.
    _as_json("text", lambda v: type(v) is str and not v.isascii() and bool(HALVES.search(v)),
             lambda v: v.encode("utf-8", "surrogatepass").hex(),
             lambda n: bytes.fromhex(n).decode("utf-8", "surrogatepass")),
)  # fmt: skip
KINDS = (
    _as_json("bytes", _exactly(bytes), bytes.hex, bytes.fromhex),
    _as_json("date", _exactly(datetime.date),
             datetime.date.isoformat, datetime.date.fromisoformat),
    _as_json("datetime", _is_datetime, lambda v: [v.isoformat(), v.fold],
             lambda n: datetime.datetime.fromisoformat(n[0]).replace(fold=n[1])),
    _as_json("timedelta", _exactly(datetime.timedelta),
             lambda v: [v.days, v.seconds, v.microseconds], lambda n: datetime.timedelta(*n)),
    _as_json("function", lambda v: isinstance(v, np.ufunc) and FUNCTIONS.get(v.__name__) is v,
             lambda v: v.__name__, FUNCTIONS.__getitem__),
    _as_json("dtype", lambda v: isinstance(v, np.dtype) and is_storable(v),
             lambda v: v.str, _type_named),
    _as_json("type",
             lambda v: isinstance(v, type) and issubclass(v, np.generic)
             and is_storable(np.dtype(v)),
             lambda v: np.dtype(v).str, lambda n: _type_named(n).type),
    _as_parts("complex", complex, lambda v: (v.real, v.imag), lambda parts: complex(*parts)),
    _as_parts("list", list, iter, list, shared=True),
    _as_parts("tuple", tuple, iter, tuple),
    _as_parts("slice", slice, _bounds, lambda parts: slice(*parts)),
    _as_parts("spline", BSpline, lambda v: (v.t, v.c, v.k, v.extrapolate, v.axis),
              lambda parts: BSpline(*parts), shared=True),
    Kind("range", _exactly(range), lambda w, v, at: w.write_all(_bounds(v), at), _read_range),
    Kind("dict", _exactly(dict), _write_dict, _read_dict, shared=True),
    Kind("set", _exactly(set), _write_set, _read_set, shared=True),
    Kind("frozenset", _exactly(frozenset), _write_set, lambda *at: frozenset(_read_set(*at))),
    Kind("array", _exactly(np.ndarray), _write_array, _read_array, shared=True),
    Kind("scalar", lambda v: isinstance(v, np.generic), _write_scalar, _read_scalar),
    Kind("sparse", sparse.issparse, _write_sparse, _read_sparse, shared=True),
    Kind("index", _is_index, _write_index, _read_index, shared=True),
    Kind("frame", _of_pandas("DataFrame"), _write_frame, _read_frame, shared=True),
    Kind("timestamp", lambda v: _of_pandas("Timestamp")(v) and v.tzinfo is None,
         lambda w, v, at: w.write(v.to_datetime64(), at),
         lambda r, node, at: _pandas().Timestamp(r.read(node, at))),
    Kind("random", _exactly(np.random.RandomState),
         lambda w, v, at: w.write_all(v.get_state(), at), _read_random, shared=True),
)  # fmt: skip
