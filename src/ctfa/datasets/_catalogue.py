"""All data sets that have a loader: their records in ``records.toml``, and their files."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import os
import tempfile
import textwrap
import tomllib
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.io import loadmat

from ctfa._text import write_whole
from ctfa.core.libraries import imported

#: The environment variable that names the folder, and the folder where it names none.
VARIABLE, DEFAULT_HOME = "CTFA_DATA", "~/ctfa_data"
#: What reading a damaged file raises.
DAMAGED = (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True)
class DataFile:
    """One file of a data set, told by its content and not by how it is packed."""

    #: Place in the folder of data, such as ``"mulan/andro.arff"``; ``.gz`` after it is found too.
    path: str
    #: Of the content: unpacked if gzipped; of an npz file, of the arrays that are read from it.
    sha256: str
    #: Where exactly this content can be downloaded, or None.
    address: str | None = None
    #: Of an npz file, what is read from it. Two people who save the same arrays do not write the
    #: same bytes, so such a file is known by ``checksum_of_arrays``.
    arrays: tuple[str, ...] = ()

    def place(self, home: Path) -> Path | None:
        """Where the file lies, as it is or gzipped; None if it is absent."""
        plain = home / self.path
        packed = plain.with_name(f"{plain.name}.gz")
        return next((path for path in (plain, packed) if path.is_file()), None)


class FoundFile(NamedTuple):
    """A file and its content, unpacked and checked: what is read is what was checked."""

    path: Path
    content: bytes

    def arrays(self) -> Any:
        """Open the content of an npz file, a mapping of names to arrays; nothing is unpickled."""
        return np.load(io.BytesIO(self.content), allow_pickle=False)

    def columns(self) -> dict[str, list[str]]:
        """Read the columns of a csv file as text, by name."""
        names, *rows = csv.reader(self.content.decode().splitlines())
        return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))

    def matlab(self) -> dict[str, Any]:
        """Read the variables of a MATLAB file."""
        stream: Any = io.BytesIO(self.content)
        return dict(loadmat(stream))


def get_data_home(data_home: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder in which the loaders look for files, and into which they download.

    Parameters
    ----------
    data_home : path, default=None
        The folder. None takes the one named by the environment variable ``CTFA_DATA``, and
        ``~/ctfa_data`` if there is none.

    Returns
    -------
    pathlib.Path
        The folder. It need not exist; a download creates it.

    Examples
    --------
    >>> from ctfa.datasets import get_data_home
    >>> get_data_home("somewhere/else").name
    'else'
    """
    return Path(data_home or os.environ.get(VARIABLE) or DEFAULT_HOME).expanduser()


def find(
    file: DataFile, *, data_home: Any = None, download_if_missing: bool = True, source: str
) -> FoundFile:
    """Read a file and check it; download it where that is possible and wanted.

    ``source`` tells a reader of the error where the file comes from.
    """
    home = get_data_home(data_home)
    path = file.place(home)
    if path is None:
        path = home / file.path
        reason = _download(file, path) if download_if_missing else "It was not to be downloaded."
        if reason:
            raise FileNotFoundError(
                f"{file.path} is not in {home} (nor is {file.path}.gz). {reason} "
                f"Where it comes from: {source} Place it as {path}, or say where it lies by "
                f"data_home=... or the environment variable {VARIABLE}: the folder above "
                f"{Path(file.path).parent.as_posix()}/."
            )
    again = "load it to download it again, or get it" if file.address else "get it"
    advice = f"Move it away and {again} from where it comes from: {source}"
    content, how = path.read_bytes(), "unpacked"
    try:
        if path.suffix == ".gz":
            content = gzip.decompress(content)
        found, how = FoundFile(path, content), "read as an npz file"
        if file.arrays:
            checksum = checksum_of_arrays(found.arrays(), file.arrays)
        else:
            checksum = hashlib.sha256(content).hexdigest()
    except DAMAGED as error:
        raise OSError(f"{path} cannot be {how} ({error}): it is damaged. {advice}") from error
    if checksum != file.sha256:
        raise OSError(
            f"{path} is not the file that this loader knows: the sha256 of its content is "
            f"{checksum} and should be {file.sha256}. It may be damaged, or another edition. "
            f"{advice}"
        )
    return found


def _download(file: DataFile, wanted: Path) -> str:
    """Fetch a file into its place; return why not, or nothing."""
    if file.address is None:
        return "There is no address from which it could be downloaded as it is."
    try:
        pooch = imported("pooch", "Downloading it needs pooch: pip install 'ctfa[datasets]'.")
    except ImportError as error:
        return str(error)
    try:
        # Not in its place: half a file must never be read.
        with tempfile.TemporaryDirectory() as folder:
            path, known_hash = Path(folder, wanted.name), f"sha256:{file.sha256}"
            pooch.retrieve(file.address, known_hash=known_hash, fname=path.name, path=path.parent)
            wanted.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path.read_bytes(), wanted)
    except (OSError, ValueError) as error:
        return f"It could not be downloaded from {file.address}: {str(error).rstrip('. ')}."
    return ""


def checksum_of_arrays(arrays: Any, names: Sequence[str]) -> str:
    """The sha256 of arrays by name, shape and value, whatever types of number they are kept in.

    Numbers are taken as 64-bit floats and texts as UTF-8, in C order.
    """
    total = hashlib.sha256()
    for name in sorted(names):
        values = np.asarray(arrays[name])
        total.update(f"{name}{values.shape}".encode())
        if values.dtype.kind in "US":
            total.update("\0".join(values.astype(str).ravel().tolist()).encode())
        else:
            numbers = values.astype("<f8")
            # There are many NaN, and only one of them is ours.
            total.update(np.where(np.isnan(numbers), np.nan, numbers).astype("<f8").tobytes())
    return total.hexdigest()


#: One X for all targets; rows of its own for every task; inputs of its own for every target.
Kind = Literal["shared", "own rows", "own inputs", "extra features"]
MEANING: dict[Kind, str] = {
    "shared": "shared: all targets have the same inputs (CTFARegressor).",
    "own rows": "own rows: every task has samples of its own, of the same features, as many as it "
    "has (PooledCTFARegressor).",
    "own inputs": "own inputs: every target has inputs of its own on common dates "
    "(MultiInputCTFARegressor).",
    "extra features": "extra features: series to join to others by date.",
}


@dataclass(frozen=True)
class Record:
    """One data set: what it is, whose it is, and the files it consists of."""

    name: str
    #: How it is loaded, such as ``"load_mulan('andro')"``.
    loader: str
    title: str
    kind: Kind
    #: Samples, targets and features in words, of what the loader gives by default.
    shape: str
    #: What it is.
    about: str
    files: tuple[DataFile, ...]
    #: Where a user gets it and, if the file is made from something else, how it is made.
    source: str
    #: As the source states it.
    licence: str
    #: Who may pass it on.
    redistribution: str
    citation: str
    #: What one should know before believing a result.
    facts: str = ""
    #: The part of it that every figure on these data should be read with.
    leak: str = ""

    def present(self, data_home: Any = None) -> bool:
        """Whether all its files are there; they are not read."""
        home = get_data_home(data_home)
        return all(file.place(home) is not None for file in self.files)

    @property
    def description(self) -> str:
        """The text that a loader gives as ``DESCR``."""
        paths = " and ".join(file.path for file in self.files)
        sections = {
            "What it is": self.about,
            "Shape": self.shape,
            "Kind": MEANING[self.kind],
            "Worth knowing": self.facts,
            "Where to get it": f"{self.source} In the folder of data (data_home, or CTFA_DATA) it "
            f"is {paths}, gzipped or not.",
            "Licence": self.licence,
            "Redistribution": self.redistribution,
            "Citation": self.citation,
        }
        text = [self.title, "=" * len(self.title), ""]
        for heading, body in sections.items():
            if body:
                filled = textwrap.fill(body, 88, break_on_hyphens=False)
                text += [heading, "-" * len(heading), filled, ""]
        return "\n".join(text)


@cache
def records() -> dict[str, Record]:
    """Every set by its name; read at the first call."""
    text = (resources.files("ctfa.datasets") / "records.toml").read_text(encoding="utf-8")
    return read_records(text)


def read_records(text: str) -> dict[str, Record]:
    """Records as TOML tells them; a field that is unknown or missing is an error.

    White space is one space, and ``{name}`` is what the field of that name says.
    """
    told = tomllib.loads(text)
    found = {}
    for name, own in told["sets"].items():
        family = told["families"][own.pop("family")] if "family" in own else {}
        files = [file | {"arrays": tuple(file.get("arrays", ()))} for file in own.pop("files")]
        texts = {"name": name, **family, **own}
        fields = {key: " ".join(value.split()) for key, value in texts.items()}
        filled: dict[str, Any] = {key: value.format_map(fields) for key, value in fields.items()}
        found[name] = Record(**filled, files=tuple(DataFile(**file) for file in files))
    return found


class ListedDataset(NamedTuple):
    """One line of ``list_datasets``."""

    name: str
    loader: str
    kind: str
    shape: str
    present: bool
    licence: str


def list_datasets(data_home: Any = None) -> list[ListedDataset]:
    """Return what there is to load, and whether its files are there.

    Parameters
    ----------
    data_home : path, default=None
        The folder of data; None takes the environment variable ``CTFA_DATA``, or ``~/ctfa_data``.

    Returns
    -------
    list of ListedDataset
        Named tuples with ``name``, ``loader`` (how it is called), ``kind``, ``shape``, ``present``
        (all files are there; they are not read) and ``licence`` as the source states it.

    Examples
    --------
    >>> from ctfa.datasets import list_datasets
    >>> school = next(line for line in list_datasets() if line.name == "school")
    >>> school.loader, school.kind
    ('load_school()', 'own rows')
    """
    return [
        ListedDataset(r.name, r.loader, r.kind, r.shape, r.present(data_home), r.licence)
        for r in records().values()
    ]


def describe_dataset(name: str) -> str:
    """Return the ``DESCR`` of a data set, which need not be there.

    Parameters
    ----------
    name : str
        One of the names of ``list_datasets``.

    Returns
    -------
    str

    Examples
    --------
    >>> from ctfa.datasets import describe_dataset
    >>> print(describe_dataset("school").splitlines()[0])
    School: exam scores in London
    """
    known = records()
    if name not in known:
        raise ValueError(f"There is no data set {name!r}: give one of {', '.join(known)}.")
    return known[name].description


def dataset_table(data_home: Any = None) -> str:
    """What ``list_datasets`` gives, as a table to print."""
    lines = list_datasets(data_home)
    rows = [("name", "loader", "kind", "here", "shape")]
    rows += [(r.name, r.loader, r.kind, "yes" if r.present else "no", r.shape) for r in lines]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = (map(str.ljust, row, widths) for row in rows)
    table = ["  ".join(row).rstrip() for row in padded]
    n_here = sum(line.present for line in lines)
    table += ["", f"{n_here} of {len(lines)} are in {get_data_home(data_home)}"]
    table += ["ctfa datasets NAME says what one is, its licence and where to get it"]
    return "\n".join(table)
