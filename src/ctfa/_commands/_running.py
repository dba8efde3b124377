"""How a command ends: one sentence for what is wrong, an exit code, and nothing half said."""

from __future__ import annotations

import argparse
import functools
import os
import re
import signal
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ctfa._commands._terminal import OutputLost, note
from ctfa.core.libraries import lacks_memory
from ctfa.core.progress import SearchStopped

#: Exit codes: a problem with the data, Ctrl-C, being told to end, and nobody left to read.
PROBLEM, INTERRUPTED, TERMINATED, UNREAD = 1, 130, 143, 141
#: Errors whose text is written for people; any other is ours to mend.
TOLD = (ValueError, TypeError, KeyError, LookupError, OSError, ImportError, MemoryError)
#: An aggregator that Python's users are told to pass, for the sake of its options.
AGGREGATOR = re.compile(r"(?:targets=)?TargetAggregator\(([^()]*)\)")
#: Options as Python has them, in sentences that are raised for both.
OPTION = re.compile(
    r"\b(masked|sample|task|anomalies|weights|solver|aggregate|head|neighbours|max_loss|held_out)"
    r"='?([\w:.+-]+)'?"
)
#: What a command does: its options to its exit code.
Work = Callable[[argparse.Namespace], int]


class Terminated(KeyboardInterrupt):
    """The process was told to end (SIGTERM): treated as Ctrl-C, so that nothing is left behind."""


def guarded(name: str) -> Callable[[Work], Callable[[argparse.Namespace], int]]:
    """Let a command end in words: results on stdout, one sentence on stderr."""

    def guard(work: Work) -> Callable[[argparse.Namespace], int]:
        @functools.wraps(work)
        def run(options: argparse.Namespace) -> int:
            show = not getattr(options, "quiet", False)
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

    return guard


def complain(name: str, sentence: str) -> None:
    """Print one line on standard error, options as they are given here."""
    said = AGGREGATOR.sub(r"\1", " ".join(sentence.split()))
    said = OPTION.sub(_as_given_here, said)
    note(f"ctfa {name}: {said}")


def _as_given_here(found: re.Match[str]) -> str:
    value = "none" if found[2] == "None" else found[2]
    return f"--{found[1].replace('_', '-')} {value}"


def in_words(error: BaseException) -> str:
    """What an error says, in one line without the name of its class."""
    if lacks_memory(error):
        return _of_memory(error)
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename is not None else ""
        return f"{where}{error.strerror}"
    # str() of a KeyError is the repr of its text.
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    if isinstance(error, TOLD) and text.strip():
        return text
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
        text = str(message)
        if show and text not in told:
            told.add(text)
            complain(name, f"note: {text}")

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
