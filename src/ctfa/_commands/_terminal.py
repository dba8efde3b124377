"""What people see: tables and text, with rich in a terminal where it is installed; or JSON."""

from __future__ import annotations

import datetime
import importlib
import json
import math
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

from ctfa._names import UNSEEN, visible
from ctfa._progress import progress

#: Says what a command is at.
Steps = Callable[[str], None]


class OutputLost(Exception):
    """Standard output cannot be written to: no fault of a file, and not to be taken for one."""

    @property
    def unread(self) -> bool:
        """Whether who read it has left (``ctfa ... | head``)."""
        return isinstance(self.__cause__, BrokenPipeError)


def say(*lines: str) -> None:
    """Print lines on standard output; names in them cannot steer the terminal."""
    with _output():
        print("\n".join(map(visible, lines)))


def note(*lines: str) -> None:
    """Print lines on standard error; where nobody reads them, no result is lost."""
    try:
        print("\n".join(map(visible, lines)), file=sys.stderr, flush=True)
    except OSError:
        lead_nowhere(sys.stderr)


@contextmanager
def _output() -> Iterator[None]:
    try:
        yield
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        raise OutputLost(str(error)) from error


def flush() -> None:
    """Write out what is said so far."""
    with _output():
        pass


def lead_nowhere(stream: Any) -> None:
    """Let the rest of a stream that cannot be written to vanish, also when Python ends."""
    with suppress(OSError):  # a stream without a file
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


@contextmanager
def open_streams() -> Iterator[None]:
    """Put something in the place of standard streams that were closed (``ctfa ... >&-``)."""
    closed = [name for name in ("stdout", "stderr") if getattr(sys, name) is None]
    if not closed:
        yield
        return
    # All of 0, 1 and 2 are taken: what is written to them must not end up in a file of results.
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        for name in closed:
            setattr(sys, name, nowhere)
        try:
            yield
        finally:
            for name in closed:
                setattr(sys, name, None)


def print_json(document: Any) -> None:
    """Print exactly one JSON document: numbers that are none are null, infinite ones words."""
    text = json.dumps(plain(document), indent=2, ensure_ascii=False, allow_nan=False)
    say(*(UNSEEN.sub(_in_json, line) for line in text.split("\n")))


def _in_json(found: re.Match[str]) -> str:
    return json.dumps(found[0])[1:-1]


def plain(value: Any) -> Any:
    """A value as JSON has it; a record by the names of its fields."""
    if is_dataclass(value):
        value = vars(value)
    elif hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if type(value).__module__.partition(".")[0] == "numpy":  # which most commands do not need
        # Not through Python's own dates: numbers of nanoseconds come out of those.
        return plain(value.astype(str).tolist() if value.dtype.kind == "M" else value.tolist())
    if isinstance(value, list | tuple | set):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    if value is None or isinstance(value, str | int | float):
        return value
    return value.isoformat() if isinstance(value, datetime.date) else str(value)


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, words: Sequence[str] = ()
) -> None:
    """Print rows under headings; columns of words start at the left, others end at the right."""
    rows = [[visible(cell) for cell in row] for row in rows]
    console = _console()
    if console is None:
        say(*table_text(columns, rows, words=words).split("\n"))
        return
    text = importlib.import_module("rich.text").Text
    rich = importlib.import_module("rich.table")
    table = rich.Table(box=importlib.import_module("rich.box").SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="left" if column in words else "right", overflow="fold")
    for row in rows:
        table.add_row(*map(text, row))  # as it stands: [red] is no colour here
    with _output():
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


def print_styled(text: str, style: str = "bold", *, rest: str = "") -> None:
    """Print a line whose first part stands out in a terminal."""
    console = _console()
    if console is None:
        say(text + rest)
    else:
        # As it stands: rich would colour numbers and fold the line at a width of its own.
        written = importlib.import_module("rich.text").Text(visible(text), style=style)
        written.append(visible(rest), style="not bold")
        with _output():
            console.print(written, soft_wrap=True, highlight=False)


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
        yield lambda step: note(f"ctfa {name}: {step}") if show else None


def path_text(path: Path) -> str:
    """A path as a person would type it."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _console() -> Any:
    """What rich draws on, where standard output is a terminal and rich is there."""
    if sys.stdout is None or not sys.stdout.isatty():
        return None
    try:
        return importlib.import_module("rich.console").Console()
    except ImportError:
        return None
