"""How a command speaks to a terminal, and how it ends: one sentence for what is wrong, a code."""

from __future__ import annotations

import argparse
import datetime
import functools
import importlib
import json
import math
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

from ctfa._errors import UNSAID, InputError, Message, Option
from ctfa._progress import progress
from ctfa._text import UNSEEN, visible
from ctfa.core.libraries import lacks_memory
from ctfa.core.progress import SearchStopped

#: Says what a command is at.
Steps = Callable[[str], None]
#: Exit codes: a problem with the data, Ctrl-C, being told to end, and no reader left.
PROBLEM, INTERRUPTED, TERMINATED, UNREAD = 1, 130, 143, 141
#: Errors whose text is written for people; any other is a bug.
TOLD = (ValueError, TypeError, KeyError, LookupError, OSError, ImportError, MemoryError)
#: Options of Python that are options here, in sentences that are said to both.
FLAGS = {
    *("aggregate", "anomalies", "cv", "head", "held_out", "masked", "max_loss", "min_size"),
    *("n_groups", "n_regions", "neighbours", "own_past", "sample", "solver", "task"),
    *("tolerance", "weights"),
}
#: What Python's users are told to pass where one option is enough here.
CALLED: dict[str, str | Option] = {
    "targets=": "",
    "TargetAggregator(regressor=LinearRegression())": Option("solver", "ols"),
    "TargetAggregator(regressor=RidgeCV())": Option("solver", "ridge"),
}
#: What a command does: its options to its exit code.
Work = Callable[[argparse.Namespace], int]


class OutputLost(Exception):
    """Standard output cannot be written to: not a fault of a file, and not reported as one."""


def say(*lines: str) -> None:
    """Print lines on standard output; names in them cannot steer the terminal."""
    with _output():
        print("\n".join(map(visible, lines)))


def note(*lines: str) -> None:
    """Print lines on standard error; where they are not read, no result is lost."""
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
    """Print exactly one JSON document: NaN is null, infinite numbers are words."""
    text = json.dumps(plain(document), indent=2, ensure_ascii=False, allow_nan=False)
    say(*(UNSEEN.sub(lambda found: json.dumps(found[0])[1:-1], line) for line in text.split("\n")))


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
        table.add_row(*map(text, row))  # as it stands: [red] is not a colour here
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


@contextmanager
def watched(options: Any) -> Iterator[Steps]:
    """A bar for searches and a line for each step, on standard error where that is a terminal."""
    quiet = options.quiet or options.json
    show = not quiet and sys.stderr is not None and sys.stderr.isatty()
    before = signal.getsignal(signal.SIGINT)
    with progress(show=show):
        # Ctrl-C ends a command at once. Left to progress it would end a search, whose groups nobody
        # wants then; and a press that comes just as one ends would be lost.
        if callable(before) and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)
        yield lambda step: note(f"ctfa {options.command}: {step}") if show else None


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


class Terminated(KeyboardInterrupt):
    """The process was told to end (SIGTERM): treated as Ctrl-C, so that nothing is left behind."""


def guarded(work: Work) -> Work:
    """Let a command end in words: results on stdout, one sentence on stderr."""

    @functools.wraps(work)
    def run(options: argparse.Namespace) -> int:
        name, show = options.command, not getattr(options, "quiet", False)
        # A request to end unwinds the command as Ctrl-C does, so that it tidies up.
        is_default = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        unanswered = [signal.SIGTERM] if is_default else []
        try:
            with _warnings_in_words(name, show=show), answering(_end, *unanswered):
                return work(options)
        except OutputLost:
            raise  # cli.main knows how to end
        except (Exception, KeyboardInterrupt) as error:
            if options.debug or os.environ.get("CTFA_DEBUG", "") not in ("", "0"):
                note(*traceback.format_exc().split("\n"))
            if not isinstance(error, KeyboardInterrupt | SearchStopped):
                complain(name, in_words(error))
                return PROBLEM
            complain(name, "stopped; nothing was written.")
            return TERMINATED if isinstance(error, Terminated) else INTERRUPTED

    return run


def complain(name: str, sentence: str) -> None:
    """Print one line on standard error, options as they are given here."""
    note(" ".join(f"ctfa {name}: {as_given_here(sentence)}".split()))


def as_given_here(said: str) -> str:
    """A message with its options as they are written here."""
    return said.renamed(CALLED).written(_flag) if isinstance(said, Message) else said


def _flag(option: Option) -> str:
    """An option as it is written here, where it is one."""
    name, value = option
    if name not in FLAGS:
        return str(option)
    flag = "--" + name.removeprefix("n_").replace("_", "-")
    if value is UNSAID:
        return flag
    if isinstance(value, tuple):
        return f"{flag} {(',' if name == 'task' else ':').join(map(str, value))}"
    return f"{flag} {'none' if value is None else value}"


def in_words(error: BaseException) -> str:
    """What an error says, in one line without the name of its class."""
    if lacks_memory(error):
        return _of_memory(error)
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename is not None else ""
        return f"{where}{error.strerror}"
    # str() of a KeyError is the repr of its text.
    keeps = isinstance(error, KeyError | InputError) and error.args
    text = error.args[0] if keeps and isinstance(error.args[0], str) else str(error)
    if isinstance(error, TOLD) and text.strip():
        return as_given_here(text)
    return (
        f"something went wrong that ctfa did not expect ({type(error).__name__}: {text}); "
        "--debug shows where."
    )


def _of_memory(error: BaseException) -> str:
    """What there was not enough memory for, as far as the error says, and what to do."""
    said = " ".join(str(error).split()).rstrip(".")
    if said.startswith("there is not enough memory"):
        return f"{said}."
    what = f" ({said})" if said else ""
    return f"there is not enough memory for this{what}; take fewer tasks or fewer samples."


@contextmanager
def _warnings_in_words(name: str, *, show: bool) -> Iterator[None]:
    """Print each warning that is meant for users as one line; a stopped search is an end."""
    told: set[str] = set()

    def tell(message: Any, category: Any, *_: Any, **__: Any) -> None:
        text = message.args[0] if isinstance(message, Warning) else message
        if show and text not in told:
            told.add(text)
            complain(name, Message("note: ", text))

    with warnings.catch_warnings():
        warnings.resetwarnings()
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        warnings.simplefilter("error", SearchStopped)
        warnings.showwarning = tell
        yield


def _end(*_: Any) -> None:
    raise Terminated


@contextmanager
def answering(answer: Callable[..., None], *numbers: signal.Signals) -> Iterator[None]:
    """Answer signals in this way for a while; none can be where another thread runs the command."""
    main = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, answer) for number in numbers if main}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
