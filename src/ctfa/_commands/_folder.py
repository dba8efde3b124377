"""A folder of results that appears whole or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

#: What `ctfa fit` writes; a folder with anything else in it is never replaced.
FILES = (
    "model.ctfa",
    "regions.nc",
    "regions.gpkg",
    "regions.csv",
    "coefficients.csv",
    "coefficients.nc",
    "merges.csv",
    "errors.csv",
    "report.html",
    "run.toml",
)


class OutputFolder:
    """Where results go: looked at before the work, filled aside, and put in place at the end.

    Parameters
    ----------
    path : path
        The folder to make, or to replace.
    force : bool
        Whether to replace a folder that holds an earlier run.
    """

    def __init__(self, path: Path, *, force: bool = False) -> None:
        self.given, self.force = path, force
        self.path = Path(os.path.realpath(path))
        self._refuse()

    def write(self, fill: Callable[[Path], None]) -> list[str]:
        """Fill a folder aside, then put it in place; return the names of its files, as listed."""
        made = _made_parents(self.path.parent)
        draft = self._aside("part")
        try:
            draft.mkdir()
            fill(draft)
            names = sorted(file.name for file in draft.iterdir())
            self._refuse()  # what is there now may have come meanwhile
            self._put_in_place(draft)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            for folder in reversed(made):
                _remove_if_empty(folder)
            raise
        return _in_order(names)

    def _put_in_place(self, draft: Path) -> None:
        if not self.path.exists():
            draft.rename(self.path)
            return
        old = self._aside("old")
        with undisturbed():
            self.path.rename(old)
            try:
                draft.rename(self.path)
            except OSError:
                old.rename(self.path)
                raise
            shutil.rmtree(old, ignore_errors=True)

    def _aside(self, what: str) -> Path:
        return self.path.parent / f".{self.path.name}.{secrets.token_hex(4)}.{what}"

    def _refuse(self) -> None:
        """Say in one sentence why results cannot go there."""
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"{self.given} is a file: name a folder with -o.")
        if self.path == Path.cwd():
            raise ValueError("-o is the folder you are in: name a new one, such as -o run.")
        if self.path.is_dir():
            self._refuse_what_is_there()
        parent = next(p for p in self.path.parents if p.exists())
        if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
            raise ValueError(f"{self.given} cannot be made: {parent} cannot be written to.")

    def _refuse_what_is_there(self) -> None:
        names = {entry.name for entry in self.path.iterdir()}
        if names and not self.force:
            raise ValueError(
                f"{self.given} exists and is not empty: name another folder, or add --force to "
                "replace it."
            )
        foreign = sorted(names - set(FILES))
        if foreign:
            raise ValueError(
                f"{self.given} also holds {foreign[0]}, which ctfa fit does not write, and is not "
                "replaced: move that away, or name another folder."
            )


@contextmanager
def undisturbed() -> Iterator[None]:
    """Let Ctrl-C wait for a few renames: by then the work is done, and it has nothing to stop."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [signal.SIGINT, signal.SIGTERM]
    before = {number: signal.signal(number, lambda *_: None) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _in_order(names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: FILES.index(name) if name in FILES else len(FILES))


def _made_parents(folder: Path) -> list[Path]:
    """Make a folder with all above it; return those that were not there."""
    missing = [p for p in (folder, *folder.parents) if not p.exists()][::-1]
    for made in missing:
        made.mkdir(exist_ok=True)
    return missing


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):  # somebody else put something there
        folder.rmdir()
