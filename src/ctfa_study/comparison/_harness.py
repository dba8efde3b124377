"""The harness of every study: runs that are stored as they end, and gone on with when stopped."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import joblib
import numpy as np
import scipy
import sklearn
from threadpoolctl import threadpool_limits

import ctfa
from ctfa._text import write_whole

Row = dict[str, Any]


# ---------------------------------------------------------------------------------- going through


class Step(NamedTuple):
    """A run that has ended, or was there already."""

    number: int
    total: int
    row: Row
    stored: bool


class Keyed(Protocol):
    """A run that has a name by all that decides its result."""

    @property
    def key(self) -> str:
        """The name."""


Run = TypeVar("Run", bound=Keyed)


def go_through(
    runs: Sequence[Run],
    run_one: Callable[[Run], Row],
    store: Store,
    *,
    n_jobs: int | None,
    again: Callable[[Run], bool],
) -> Iterator[Step]:
    """Rows that are stored, unless they are to be run ``again``; then the others, as they end.

    A row with an "error" is not stored, so that its run is tried again the next time.
    """
    missing, number = [], 0
    for run in runs:
        key = run.key
        if key in store and not again(run):
            number += 1
            yield Step(number, len(runs), store[key], stored=True)
        else:
            missing.append(run)
    if joblib.effective_n_jobs(n_jobs) > 1:
        jobs = (joblib.delayed(run_one)(run) for run in missing)
        made = joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered")(jobs)
    else:
        made = map(run_one, missing)
    for row in made:
        if "error" not in row:
            store.add(row)
        number += 1
        yield Step(number, len(runs), row, stored=False)


# --------------------------------------------------------------------------------------- one run


class Attempt(NamedTuple):
    """What some work gave, or the error it ended in; how long it took, and what it warned of."""

    result: Any
    error: Exception | None
    seconds: float
    warnings: list[str]

    @property
    def why(self) -> str:
        """The error in words."""
        return f"{type(self.error).__name__}: {self.error}"


def attempt(work: Callable[[], Any], *, n_threads: int | None = None) -> Attempt:
    """Do some work; an error is part of the answer, and so are warnings, each said once."""
    result, failed = None, None
    limits = nullcontext() if n_threads is None else threadpool_limits(n_threads)
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as said, limits:
        warnings.simplefilter("always")
        try:
            result = work()
        except Exception as error:
            failed = error
    seconds = time.perf_counter() - start
    told = sorted({f"{w.category.__name__}: {w.message}" for w in said})
    return Attempt(result, failed, seconds, told)


def versions() -> dict[str, str]:
    """What the figures may depend on besides the data."""
    return {
        "ctfa": f"{ctfa.__version__} (source {source()})",
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
    }


def made_with() -> dict[str, str]:
    """The same with the version of Python, which is told and decides nothing."""
    return versions() | {"python": platform.python_version()}


@cache
def source() -> str:
    """A short hash of the source: between two releases there is no version to go by."""
    digest = hashlib.sha256()
    for folder in (Path(ctfa.__file__).parent, Path(__file__).parents[1]):
        for path in sorted(folder.rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:8]


# ---------------------------------------------------------------------------------- what is stored


def key_of(**what: Any) -> str:
    """Name of a run by all that decides its result."""
    return hashlib.sha256(json.dumps(what, sort_keys=True, default=str).encode()).hexdigest()[:24]


def _own_key(row: Row) -> str:
    return str(row["key"])


class Store:
    """Rows of finished runs, in a file of JSON lines or, without one, in memory.

    A line is written and flushed when its run ends, so that a comparison that is stopped loses only
    what was under way. Of rows with the same key the last one counts.
    """

    def __init__(self, path: Path | None = None, key: Callable[[Row], str] = _own_key) -> None:
        self.path = path
        self.rows: dict[str, Row] = {}
        self._key = key
        if path is not None and path.exists():
            self.rows = dict(self._read(path))

    def __contains__(self, key: str) -> bool:
        return key in self.rows

    def __getitem__(self, key: str) -> Row:
        return self.rows[key]

    def add(self, row: Row) -> None:
        """Keep a finished run."""
        self.rows[self._key(row)] = row
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # A last line that lost its end must not swallow this one.
        start = "" if _ends_a_line(self.path) else "\n"
        with self.path.open("a", encoding="utf-8") as file:
            file.write(start + json.dumps(row, allow_nan=True) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def _read(self, path: Path) -> Iterator[tuple[str, Row]]:
        lines = path.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines, start=1):
            try:
                row = json.loads(line)
                key = self._key(row)
            except (ValueError, KeyError, TypeError) as error:
                if number == len(lines) and not line.endswith("}"):
                    # A run that was stopped while it wrote: its line is taken away, and run again.
                    whole = "".join(f"{kept}\n" for kept in lines[:-1])
                    write_whole(whole.encode(), path)
                    return
                why = error if isinstance(error, ValueError) else "not a stored run"
                raise ValueError(
                    f"line {number} of {path} is not a stored run ({why}): remove the line, or use "
                    "another folder."
                ) from error
            yield key, row


def _ends_a_line(path: Path) -> bool:
    if not path.exists() or path.stat().st_size == 0:
        return True
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
