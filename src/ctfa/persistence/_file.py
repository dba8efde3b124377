"""Models in files: a zip of ``model.json`` and ``arrays.npz``."""

from __future__ import annotations

import io
import json
import os
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import sklearn

from ctfa._text import write_whole
from ctfa.persistence._codec import (
    TOP,
    Kind,
    PersistenceError,
    Reader,
    Writer,
    damaged,
    described,
    shown,
)
from ctfa.persistence._objects import OBJECTS, SAVED_WITH, name_of
from ctfa.persistence._trial import try_out
from ctfa.persistence._values import KINDS, SCALAR_KINDS

SCHEMA = 4
TREE, ARRAYS = "model.json", "arrays.npz"
#: What a file may unpack to, unless more is asked for: so much, or where it is large so many times
#: its own size, but never more than the last. A model of 29,934 groups takes 36 times its file.
ALWAYS, TIMES, MOST = 2**28, 64, 2**31
#: What a value of the tree takes in memory, about: counted by the signs that part them.
BYTES_A_VALUE = 64
_SIGNS = (b"[", b"{", b",")
#: How members may be compressed: of these it can be told how much they give before they do.
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
#: The most types of numbers and text, and what each entry of a zip's directory begins with.
MOST_ARRAYS, _ENTRY = 10_000, b"PK\x01\x02"
_KINDS: tuple[Kind, ...] = (*KINDS, *OBJECTS)
_BY_TAG = {kind.tag: kind for kind in (*SCALAR_KINDS, *_KINDS)}
_EPOCH = (1980, 1, 1, 0, 0, 0)
Room = Callable[[int], None]


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Save a model to a file that holds no code.

    Parameters
    ----------
    model : estimator of ctfa, or a labelled fit
        Fitted or not. What it holds must be of the kinds that files know: ctfa's own estimators,
        those of scikit-learn in ``classes()``, numpy arrays and plain values. Anything else, such
        as a random forest or a function of your own, is refused before anything is written.
    path : str or path
        Any name; ``.ctfa`` is customary. The file appears whole or not at all, and the same model
        gives the same bytes.

    Returns
    -------
    None

    Raises
    ------
    PersistenceError
        Where the model holds something that cannot be saved; it says what and where.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from ctfa import CTFARegressor
    >>> from ctfa.datasets import make_paper_synthetic
    >>> from ctfa.persistence import load, save
    >>> X, Y = make_paper_synthetic(n_samples=150, n_features=20, n_targets=6, random_state=0)
    >>> model = CTFARegressor().fit(X, Y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "model.ctfa")
    ...     save(model, file)
    ...     again = load(file)
    >>> bool((again.predict(X) == model.predict(X)).all())
    True
    """
    write_whole(to_bytes(model), Path(path))


def load(path: str | os.PathLike[str], *, max_bytes: int | None = None) -> Any:
    """Load a model that ``save`` has written; no code from the file is run.

    Parameters
    ----------
    path : str or path
        The file that ``save`` has written.
    max_bytes : int, default=None
        What the file may unpack to, text, arrays and values together: one that claims more is
        refused before it is unpacked. None is 256 MiB, or 64 times the size of the file where that
        is more, but at most 2 GiB. Give more for a large model whose origin you know.

    Returns
    -------
    object
        The model, equal to the one that was saved: it predicts the same to the last bit under the
        same versions of numpy and scikit-learn. The versions it was saved with are in its attribute
        ``_saved_with``.

    Raises
    ------
    PersistenceError
        Where the file is damaged, was not written by ``save``, or by a later version, or where it
        was changed so that the model could not predict.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from ctfa import FeatureAggregator
    >>> from ctfa.persistence import load, save
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "model.ctfa")
    ...     save(FeatureAggregator(max_loss=2.0), file)
    ...     load(file).max_loss
    2.0
    """
    if Path(path).is_dir():
        raise PersistenceError(f"{path} is a folder: give the file that save has written.")
    with Path(path).open("rb") as file:
        return from_stream(file, max_bytes=max_bytes)


def to_bytes(model: Any) -> bytes:
    """A model as the bytes of a file."""
    name = name_of(type(model))
    if name is None or isinstance(model, tuple):
        raise PersistenceError(
            f"save was given something {described(model)}: give an estimator of ctfa, such as a "
            "CTFARegressor, or a labelled fit. For other objects use joblib or skops."
        )
    writer = Writer(SCALAR_KINDS, _KINDS)
    tree = {
        "format": "ctfa",
        "schema": SCHEMA,
        "class": name,
        "versions": _versions(),
        "model": writer.write(model, TOP),
    }
    text = json.dumps(tree, allow_nan=False, separators=(",", ":"))
    arrays = {f"{at}.npy": file for at, file in enumerate(writer.files())}
    # The arrays are compressed inside, and stored as they are.
    packed = _zipped(arrays)
    return _zipped({TREE: text.encode("ascii"), ARRAYS: packed}, stored=ARRAYS)


def from_stream(stream: IO[bytes], *, max_bytes: int | None = None) -> Any:
    """The model of an open file."""
    try:
        size = stream.seek(0, os.SEEK_END)
        usual = min(MOST, max(ALWAYS, TIMES * size))
        return _read(stream, size, _room(usual if max_bytes is None else max_bytes))
    except PersistenceError:
        raise
    except MemoryError as error:
        raise PersistenceError(
            "This file needs more memory than there is: load it on a machine that has more."
        ) from error
    except Exception as error:  # whatever zip, JSON and numpy raise for what they cannot read
        raise damaged(f"{type(error).__name__}: {error}") from error


def _room(allowed: int) -> Room:
    """What takes account of what is unpacked, and refuses more than is allowed before it is."""
    taken = 0

    def take(n_bytes: int) -> None:
        nonlocal taken
        taken += n_bytes
        if taken > allowed:
            raise PersistenceError(
                f"This file unpacks to {taken:,} bytes or more, more than the {allowed:,} allowed: "
                f"if you know where it comes from, load(path, max_bytes={2 * taken})."
            )

    return take


def _read(stream: IO[bytes], size: int, take: Room) -> Any:
    if not zipfile.is_zipfile(stream):
        raise damaged("it is not a zip file, or its end is missing")
    with zipfile.ZipFile(stream) as file:
        names = _names(file, size, take)
        if TREE not in names:
            raise damaged(f"it has no {TREE}")
        tree = _tree(_unpacked(file, TREE), take)
        versions = _require_schema(tree)
        if sorted(names) != sorted((TREE, ARRAYS)):
            raise damaged(f"it holds {', '.join(names)} instead of {TREE} and {ARRAYS}")
        arrays = _unpacked(file, ARRAYS)
    # Before the directory is read: an entry of 46 bytes is made an object of many hundreds.
    if arrays.count(_ENTRY) > MOST_ARRAYS:
        raise damaged(f"{ARRAYS} has more members than there are types of numbers")
    with zipfile.ZipFile(io.BytesIO(arrays)) as file:
        names = _names(file, len(arrays), take)
        wanted = [f"{at}.npy" for at in range(len(names))]
        if sorted(names) != sorted(wanted):
            raise damaged(f"{ARRAYS} holds members that ctfa does not write")
        reader = Reader(_BY_TAG, [_unpacked(file, name) for name in wanted], tree["schema"])
    del arrays
    model = reader.read(tree["model"], TOP)
    if name_of(type(model)) is None or isinstance(model, tuple):
        raise damaged("it holds no model")
    del tree
    try_out(model)
    object.__setattr__(model, SAVED_WITH, versions)
    return model


def _names(file: zipfile.ZipFile, size: int, take: Room) -> Sequence[str]:
    """Names of the members, once it is known that they unpack to no more than allowed."""
    members = file.infolist()
    take(sum(member.file_size for member in members))
    if sum(member.compress_size for member in members) > size:
        raise damaged("its members are longer than the file, or lie over each other")
    for member in members:
        if member.compress_type not in METHODS:
            raise damaged(
                f"{shown(member.filename)} is compressed by method {member.compress_type}, and "
                "ctfa stores or deflates"
            )
    return [member.filename for member in members]


def _unpacked(file: zipfile.ZipFile, name: str) -> bytes:
    """A member, which must be as long as it says; of a longer one a single byte more is read."""
    member = file.getinfo(name)
    said = member.file_size
    member.file_size += 1  # zipfile would cut a longer one and not tell
    with file.open(member) as stream:
        data = stream.read(said + 1)
    if len(data) != said:
        raise damaged(f"{name} does not have the length that it says")
    return data


def _tree(text: bytes, take: Room) -> Any:
    """What the text says, once it is known what it takes."""
    n_values = sum(text.count(sign) for sign in _SIGNS)
    # With one character beyond the first 256 all take up to four bytes.
    take(BYTES_A_VALUE * n_values + (0 if text.isascii() else 4 * len(text)))
    return json.loads(text, parse_constant=_no_constant)


def _require_schema(tree: Any) -> dict[str, str]:
    """Refuse what is not ours, or later than this; return the versions it was written with."""
    if not isinstance(tree, dict) or tree.get("format") != "ctfa":
        raise damaged(f"{TREE} does not say that it is a model of ctfa")
    schema, versions = tree.get("schema"), tree.get("versions")
    if type(schema) is not int or schema < 1:
        raise damaged(f"{TREE} does not say which schema it follows")
    if not isinstance(versions, dict) or {*map(type, versions.values())} - {str}:
        raise damaged(f"{TREE} does not say which versions wrote it")
    if schema > SCHEMA:
        raise PersistenceError(
            f"This file was written by ctfa {versions.get('ctfa', 'of a later version')}, schema "
            f"{schema}; this is ctfa {_versions()['ctfa']}, which reads up to schema {SCHEMA}: "
            "upgrade ctfa to load it."
        )
    return versions


def _versions() -> dict[str, str]:
    # The package itself is above this layer; it is loaded whenever this module is.
    ours = str(sys.modules["ctfa"].__version__)
    return {"ctfa": ours, "numpy": np.__version__, "scikit-learn": sklearn.__version__}


def _no_constant(name: str) -> Any:
    raise damaged(f"{TREE} holds {name}")


def _zipped(members: dict[str, bytes], stored: str = "") -> bytes:
    """A zip of these; one of them stored as it is."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        for name, data in members.items():
            # A fixed time and system: the same model gives the same bytes.
            member = zipfile.ZipInfo(name, _EPOCH)
            member.compress_type = zipfile.ZIP_STORED if name == stored else zipfile.ZIP_DEFLATED
            member.create_system, member.external_attr = 3, 0o644 << 16
            file.writestr(member, data)
    return stream.getvalue()
