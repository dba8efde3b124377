"""Data that the project may not carry: where files lie, and whether they are the right ones."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import os
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.io import loadmat

from ctfa.core.libraries import imported
from ctfa.core.types import AnyArray

#: The environment variable that names the folder, and the folder where it names none.
VARIABLE, DEFAULT_HOME = "CTFA_DATA", "~/ctfa_data"


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


class Found(NamedTuple):
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


def place(file: DataFile, home: Path) -> Path | None:
    """Where a file lies, as it is or gzipped; None if it is absent."""
    plain = home / file.path
    packed = plain.with_name(f"{plain.name}.gz")
    return next((path for path in (plain, packed) if path.is_file()), None)


def find(
    file: DataFile, *, data_home: Any = None, download_if_missing: bool = True, source: str
) -> Found:
    """Read a file and check it; download it where that is possible and wanted.

    ``source`` tells a reader of the error where the file comes from.
    """
    home = get_data_home(data_home)
    path = place(file, home)
    if path is None:
        reason = _download(file, home) if download_if_missing else "It was not to be downloaded."
        if reason:
            raise FileNotFoundError(_absent(file, home, reason, source))
        path = home / file.path
    found = Found(path, _unpacked(path, source))
    checksum = _checksum(found, file, source)
    if checksum != file.sha256:
        raise OSError(
            f"{path} is not the file that this loader knows: the sha256 of its content is "
            f"{checksum} and should be {file.sha256}. It may be damaged, or another edition. Move "
            f"it away and {_get_it(file, source)}"
        )
    return found


def checksum_of_arrays(arrays: Any, names: Sequence[str]) -> str:
    """The sha256 of arrays by name, shape and value, whatever types of number they are kept in.

    Numbers are taken as 64-bit floats and texts as UTF-8, in C order.
    """
    total = hashlib.sha256()
    for name in sorted(names):
        values = np.asarray(arrays[name])
        total.update(f"{name}{values.shape}".encode())
        total.update(_canonical(values))
    return total.hexdigest()


def _canonical(values: AnyArray) -> bytes:
    if values.dtype.kind in "US":
        return "\0".join(values.astype(str).ravel().tolist()).encode()
    numbers = values.astype("<f8")
    # There are many NaN, and only one of them is ours.
    return np.where(np.isnan(numbers), np.nan, numbers).astype("<f8").tobytes()


def _checksum(found: Found, file: DataFile, source: str) -> str:
    if not file.arrays:
        return hashlib.sha256(found.content).hexdigest()
    try:
        with found.arrays() as arrays:
            missing = [name for name in file.arrays if name not in arrays]
            if not missing:
                return checksum_of_arrays(arrays, file.arrays)
    except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
        raise OSError(
            f"{found.path} cannot be read as an npz file ({error}): it is damaged. Move it away "
            f"and {_get_it(file, source)}"
        ) from error
    raise OSError(
        f"{found.path} holds no array {', '.join(missing)}; it should hold "
        f"{', '.join(file.arrays)}. Move it away and {_get_it(file, source)}"
    )


def _unpacked(path: Path, source: str) -> bytes:
    content = path.read_bytes()
    if path.suffix != ".gz":
        return content
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise OSError(
            f"{path} cannot be unpacked ({error}): it is damaged. Move it away and get it again: "
            f"{source}"
        ) from error


@contextmanager
def written_whole(wanted: Path) -> Iterator[Path]:
    """Give a path to write to, and move what is there to its place when it is whole.

    Nobody reads half a file. It is in a folder that was there, so that a failure leaves none.
    """
    there = next(folder for folder in wanted.parents if folder.exists())
    with tempfile.TemporaryDirectory(dir=there, prefix=".making-") as folder:
        path = Path(folder, wanted.name)
        yield path
        wanted.parent.mkdir(parents=True, exist_ok=True)
        os.replace(path, wanted)


def _download(file: DataFile, home: Path) -> str:
    """Fetch a file into its place; return why not, or nothing."""
    if file.address is None:
        return "There is no address from which it could be downloaded as it is."
    try:
        pooch = imported("pooch", "Downloading it needs pooch: pip install 'ctfa[datasets]'.")
    except ImportError as error:
        return str(error)
    try:
        with written_whole(home / file.path) as path:
            known_hash = f"sha256:{file.sha256}"
            pooch.retrieve(file.address, known_hash=known_hash, fname=path.name, path=path.parent)
    except (OSError, ValueError) as error:
        return f"It could not be downloaded from {file.address}: {str(error).rstrip('. ')}."
    return ""


def _absent(file: DataFile, home: Path, reason: str, source: str) -> str:
    return (
        f"{file.path} is not in {home} (nor is {file.path}.gz). {reason} "
        f"Where it comes from: {source} Place it as {home / file.path}, or say where it lies by "
        f"data_home=... or the environment variable {VARIABLE}: the folder above "
        f"{Path(file.path).parent.as_posix()}/."
    )


def _get_it(file: DataFile, source: str) -> str:
    again = "load it to download it again, or get it" if file.address else "get it"
    return f"{again} from where it comes from: {source}"
