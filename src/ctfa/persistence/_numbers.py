"""Values of numpy, scipy and pandas: arrays, scalars, sparse matrices, column labels."""

from __future__ import annotations

import sys
from math import prod
from typing import Any

import numpy as np
from scipy import sparse
from scipy.interpolate import BSpline

from ctfa.core.libraries import imported
from ctfa.persistence._codec import Kind, Reader, Writer
from ctfa.persistence._errors import Place, damaged, named, refused, shown
from ctfa.persistence._plain import require_apart
from ctfa.persistence._shelf import LONGEST_ENTRY, is_storable

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


def _write_array(writer: Writer, value: Any, where: Place) -> Any:
    shape, writeable = list(value.shape), bool(value.flags.writeable)
    if value.dtype == object:
        return {"items": writer.write_all(value.flat, where), "shape": shape, "free": writeable}
    if not is_storable(value.dtype):
        raise refused(value, where, f" and type {value.dtype}")
    # Products of matrices depend in their last bit on the order in memory.
    order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
    number, start = writer.shelf.put(value, order)
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
        array = reader.shelf.take(node["of"], node["at"], shape, node["order"])
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
    return list(writer.shelf.put(values, "C"))


def _read_scalar(reader: Reader, node: Any, where: Place) -> Any:
    number, start = node
    if type(number) is not int or type(start) is not int:
        raise damaged(f"{named(where)} has no whole position")
    return reader.shelf.take(number, start, (1,), "C")[0]


def _write_sparse(writer: Writer, value: Any, where: Place) -> Any:
    kept = value.asformat(WRITTEN_AS[value.format])
    parts: tuple[Any, ...]
    if kept.format in COMPRESSED:
        parts = (kept.data, kept.indices, kept.indptr)
    elif kept.format == "dia":
        parts = (kept.data, kept.offsets)
    else:
        # Versions before 1.13 have no coords.
        parts = (kept.data, *getattr(kept, "coords", (kept.row, kept.col)))
    is_array = isinstance(value, sparse.sparray)
    shape = list(map(int, value.shape))
    return [value.format, is_array, shape, writer.write_all(parts, where)]


def _read_sparse(reader: Reader, node: Any, where: Place) -> Any:
    form, is_array, shape, nodes = node
    stored = WRITTEN_AS[form]
    make = getattr(sparse, f"{stored}_{'array' if is_array else 'matrix'}")
    data, *parts = reader.read_all(nodes, where)
    if not all(type(part) is int and part >= 0 for part in shape):
        raise damaged(f"{named(where)} has no whole shape")
    # Whatever is next done with a matrix costs a number for each row and column.
    reader.mean(sum(shape), where)
    if stored == "coo":
        found = make((data, tuple(parts)), shape=tuple(shape))
    else:
        found = make((data, *parts), shape=tuple(shape))
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


def _is_index(value: Any) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, pandas.Index)


def _is_frame(value: Any) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and type(value) is pandas.DataFrame


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


def _is_timestamp(value: Any) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and type(value) is pandas.Timestamp and value.tzinfo is None


def _pandas() -> Any:
    absent = "its targets were columns of pandas, which is not installed: pip install ctfa[frames]"
    try:
        return imported("pandas", absent)
    except ImportError as error:
        raise damaged(str(error)) from error


def _write_spline(writer: Writer, value: Any, where: Place) -> Any:
    return writer.write_all((value.t, value.c, value.k, value.extrapolate, value.axis), where)


def _write_random(writer: Writer, value: Any, where: Place) -> Any:
    return writer.write_all(value.get_state(), where)


def _read_random(reader: Reader, node: Any, where: Place) -> Any:
    generator = np.random.RandomState(0)  # what scikit-learn takes
    state = tuple(reader.read_all(node, where))
    if type(state[2]) is not int or not 0 <= state[2] <= RANDOM_WORDS:
        raise damaged(f"{named(where)} is not the state of a generator")
    generator.set_state(state)
    return generator


def _is_function(value: Any) -> bool:
    return isinstance(value, np.ufunc) and FUNCTIONS.get(value.__name__) is value


def _type_named(name: Any) -> Any:
    dtype = np.dtype(name)
    if not is_storable(dtype) or dtype.itemsize > LONGEST_ENTRY:
        raise damaged(f"{shown(name)} is not a type of numbers")
    return dtype


NUMBERS = (
    Kind("array", lambda v: type(v) is np.ndarray, _write_array, _read_array, shared=True),
    Kind("scalar", lambda v: isinstance(v, np.generic), _write_scalar, _read_scalar),
    Kind("sparse", sparse.issparse, _write_sparse, _read_sparse, shared=True),
    Kind("index", _is_index, _write_index, _read_index, shared=True),
    Kind("frame", _is_frame, _write_frame, _read_frame, shared=True),
    Kind(
        "timestamp",
        _is_timestamp,
        lambda w, value, at: w.write(value.to_datetime64(), at),
        lambda r, node, at: _pandas().Timestamp(r.read(node, at)),
    ),
    Kind(
        "spline",
        lambda value: type(value) is BSpline,
        _write_spline,
        lambda r, node, at: BSpline(*r.read_all(node, at)),
        shared=True,
    ),
    Kind(
        "random",
        lambda value: type(value) is np.random.RandomState,
        _write_random,
        _read_random,
        shared=True,
    ),
    Kind(
        "function",
        _is_function,
        lambda w, value, at: value.__name__,
        lambda r, node, at: FUNCTIONS[node],
    ),
    Kind(
        "dtype",
        lambda value: isinstance(value, np.dtype) and is_storable(value),
        lambda w, value, at: value.str,
        lambda r, node, at: _type_named(node),
    ),
    Kind(
        "type",
        lambda v: isinstance(v, type) and issubclass(v, np.generic) and is_storable(np.dtype(v)),
        lambda w, value, at: np.dtype(value).str,
        lambda r, node, at: _type_named(node).type,
    ),
)
