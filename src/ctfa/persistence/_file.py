"""Models in files: a zip of ``model.json`` and ``arrays.npz``."""

from __future__ import annotations

import io
import json
import os
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import sklearn

from ctfa._whole_file import write_whole
from ctfa.persistence._classes import name_of
from ctfa.persistence._codec import Kind, Reader, Writer
from ctfa.persistence._errors import PersistenceError, damaged, described
from ctfa.persistence._numbers import NUMBERS
from ctfa.persistence._objects import OBJECTS, SAVED_WITH
from ctfa.persistence._plain import PLAIN
from ctfa.persistence._shelf import ShelfReader

SCHEMA = 1
TREE, ARRAYS = "model.json", "arrays.npz"
#: What a file may unpack to, unless more is asked for.
MAX_BYTES = 2**31
_KINDS: tuple[Kind, ...] = (*PLAIN, *NUMBERS, *OBJECTS)
_BY_TAG = {kind.tag: kind for kind in _KINDS}
_EPOCH = (1980, 1, 1, 0, 0, 0)


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


def load(path: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES) -> Any:
    """Load a model that ``save`` has written; no code from the file is run.

    Parameters
    ----------
    path : str or path
    max_bytes : int, default=2**31
        What the file may unpack to: one that claims more is refused. Raise it for a large model
        whose origin you know.

    Returns
    -------
    object
        The model, equal to the one that was saved: it predicts the same to the last bit under the
        same versions of numpy and scikit-learn. The versions it was saved with are in its attribute
        ``_saved_with``.

    Raises
    ------
    PersistenceError
        Where the file is damaged, was not written by ``save``, or by a later version.
    """
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
    writer = Writer(_KINDS)
    tree = {
        "format": "ctfa",
        "schema": SCHEMA,
        "class": name,
        "versions": _versions(),
        "model": writer.write(model, ""),
    }
    text = json.dumps(tree, allow_nan=False, separators=(",", ":"))
    arrays = {f"{at}.npy": file for at, file in enumerate(writer.shelf.files())}
    # The arrays are compressed inside, and stored as they are.
    packed = _zip(arrays, zipfile.ZIP_DEFLATED)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        _add(file, TREE, text.encode("ascii"), zipfile.ZIP_DEFLATED)
        _add(file, ARRAYS, packed, zipfile.ZIP_STORED)
    return stream.getvalue()


def from_stream(stream: IO[bytes], *, max_bytes: int = MAX_BYTES) -> Any:
    """The model of an open file."""
    try:
        return _read(stream, max_bytes)
    except PersistenceError:
        raise
    except Exception as error:  # whatever zip, JSON and numpy raise for what they cannot read
        raise damaged(f"{type(error).__name__}: {error}") from error


def _read(stream: IO[bytes], max_bytes: int) -> Any:
    if not zipfile.is_zipfile(stream):
        raise damaged("it is no zip file, or its end is missing")
    with zipfile.ZipFile(stream) as file:
        names = _names(file, max_bytes)
        if TREE not in names:
            raise damaged(f"it has no {TREE}")
        tree = json.loads(file.read(TREE), parse_constant=_no_constant)
        versions = _require_schema(tree)
        if sorted(names) != sorted((TREE, ARRAYS)):
            raise damaged(f"it holds {', '.join(names)} instead of {TREE} and {ARRAYS}")
        arrays = file.read(ARRAYS)
    with zipfile.ZipFile(io.BytesIO(arrays)) as file:
        names = _names(file, max_bytes)
        wanted = [f"{at}.npy" for at in range(len(names))]
        if sorted(names) != sorted(wanted):
            raise damaged(f"{ARRAYS} holds members that ctfa does not write")
        shelf = ShelfReader([file.read(name) for name in wanted])
    model = Reader(_BY_TAG, shelf).read(tree["model"], "")
    if name_of(type(model)) is None or isinstance(model, tuple):
        raise damaged("it holds no model")
    object.__setattr__(model, SAVED_WITH, versions)
    return model


def _names(file: zipfile.ZipFile, max_bytes: int) -> Sequence[str]:
    """Names of the members, once it is known that they unpack to no more than allowed."""
    members = file.infolist()
    total = sum(member.file_size for member in members)
    if total > max_bytes:
        raise PersistenceError(
            f"This file unpacks to {total:,} bytes, more than the {max_bytes:,} allowed: if you "
            f"know where it comes from, load(path, max_bytes={total})."
        )
    return [member.filename for member in members]


def _require_schema(tree: Any) -> dict[str, str]:
    """Refuse what is not ours, or later than this; return the versions it was written with."""
    if not isinstance(tree, dict) or tree.get("format") != "ctfa":
        raise damaged(f"{TREE} does not say that it is a model of ctfa")
    schema, versions = tree.get("schema"), tree.get("versions")
    if type(schema) is not int or schema < 1:
        raise damaged(f"{TREE} does not say which schema it follows")
    known = isinstance(versions, dict) and all(type(v) is str for v in versions.values())
    if not isinstance(versions, dict) or not known:
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


def _zip(members: dict[str, bytes], compression: int) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        for name, data in members.items():
            _add(file, name, data, compression)
    return stream.getvalue()


def _add(file: zipfile.ZipFile, name: str, data: bytes, compression: int) -> None:
    # A fixed time and system: the same model gives the same bytes.
    member = zipfile.ZipInfo(name, _EPOCH)
    member.compress_type, member.create_system = compression, 3
    member.external_attr = 0o644 << 16
    file.writestr(member, data)
