"""What people see: tables and text, with rich in a terminal where it is installed; or JSON."""

from __future__ import annotations

import datetime
import importlib
import json
import math
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ctfa._progress import progress


def print_json(document: Any) -> None:
    """Print exactly one JSON document: numbers that are none are null, infinite ones words."""
    print(json.dumps(plain(document), indent=2, ensure_ascii=False, allow_nan=False))


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        # Not through Python's own dates: numbers of nanoseconds come out of those.
        return plain(value.astype(str).tolist() if value.dtype.kind == "M" else value.tolist())
    if isinstance(value, list | tuple | set):
        return [plain(item) for item in value]
    return _one(value)


def _one(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    if value is None or isinstance(value, str | int | float):
        return value
    return value.isoformat() if isinstance(value, datetime.date) else str(value)


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, words: Sequence[str] = ()
) -> None:
    """Print rows under headings; columns of words start at the left, others end at the right."""
    console = _console()
    if console is None:
        print(table_text(columns, rows, words=words))
        return
    rich = importlib.import_module("rich.table")
    table = rich.Table(box=importlib.import_module("rich.box").SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="left" if column in words else "right", overflow="fold")
    for row in rows:
        table.add_row(*map(_escaped, row))
    console.print(table)


def table_text(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, words: Sequence[str] = ()
) -> str:
    """The same as plain text."""
    widths = [max(map(len, (name, *(row[i] for row in rows)))) for i, name in enumerate(columns)]
    left = [name in words for name in columns]

    def line(cells: Sequence[str]) -> str:
        parts = (
            cell.ljust(width) if starts else cell.rjust(width)
            for cell, width, starts in zip(cells, widths, left, strict=True)
        )
        return "  ".join(parts).rstrip()

    return "\n".join(map(line, (columns, *rows)))


def print_heading(text: str) -> None:
    """Print a line that is a heading."""
    print_styled(text, "bold")


def print_styled(text: str, style: str, *, rest: str = "") -> None:
    """Print a line whose first part stands out in a terminal."""
    console = _console()
    if console is None:
        print(text + rest)
    else:
        # As it stands: rich would colour numbers and fold the line at a width of its own.
        written = importlib.import_module("rich.text").Text(text, style=style)
        console.print(written.append(rest, style="not bold"), soft_wrap=True, highlight=False)


def number(value: float, digits: int = 4) -> str:
    """A number for a table."""
    if value is None or math.isnan(value):
        return "-"
    return f"{value:.{digits}g}"


@contextmanager
def watched(name: str, *, quiet: bool) -> Iterator[Steps]:
    """A bar for searches and a line for each step, on standard error where that is a terminal."""
    show = not quiet and sys.stderr is not None and sys.stderr.isatty()
    before = signal.getsignal(signal.SIGINT)
    with progress(show=show):
        # Ctrl-C ends a command at once. Left to progress it would end a search, whose groups nobody
        # wants then; and a press that comes just as one ends would be lost.
        if callable(before) and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)
        yield Steps(name, show)


class Steps:
    """Says what a command is at."""

    def __init__(self, name: str, show: bool) -> None:
        self.name, self.show = name, show

    def __call__(self, step: str) -> None:
        """Print a line."""
        if self.show:
            print(f"ctfa {self.name}: {step}", file=sys.stderr, flush=True)


def path_text(path: Path) -> str:
    """A path as a person would type it."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _console() -> Any:
    """What rich draws on, where standard output is a terminal and rich is there."""
    if not sys.stdout.isatty():
        return None
    try:
        return importlib.import_module("rich.console").Console()
    except ImportError:
        return None


def _escaped(cell: str) -> Any:
    return importlib.import_module("rich.markup").escape(cell)
