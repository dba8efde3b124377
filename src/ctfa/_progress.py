"""Watching a long fit, and stopping it without losing what it found."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from numbers import Real
from typing import Any, TextIO

from ctfa.core.progress import Listener, Reporter, ScanProgress, reporting_to

#: Seconds between reports: to a person or a program, and to a file that keeps every line.
LIVELY, SPARING = 0.1, 10.0


@contextmanager
def progress(
    callback: Callable[[ScanProgress], object] | None = None,
    *,
    show: bool | None = None,
    every: float | None = None,
) -> Iterator[None]:
    """Show the progress of the fits in this block, and let Ctrl-C end a search, not the program.

    The first Ctrl-C during a search ends it: the fit continues with the groups found so far,
    ``history_.complete`` is False, and a ``SearchStopped`` warning says so. While
    ``max_loss="auto"`` goes over its folds, the folds finished so far choose the limit (none: it is
    1.5) and the search with that limit follows. A second Ctrl-C, and one outside a search, raises
    KeyboardInterrupt as usual. Searches in other threads and processes report nothing: with
    ``n_jobs``, folds are judged in rounds, with reports and stops after each round.

    Parameters
    ----------
    callback : callable or None, default=None
        Called with a ``ScanProgress``; returning False ends the search as Ctrl-C does. By default a
        bar is shown, by rich if it is installed, otherwise one line of text.
    show : bool or None, default=None
        Whether to show a bar; None shows one where standard error is a terminal. In a file it is a
        line now and then. ``show=True`` goes with no callback.
    every : float or None, default=None
        Least number of seconds between two reports; by default 0.1, and 10 for a file.

    Returns
    -------
    context manager
        For a ``with`` block that holds the fits.

    Examples
    --------
    >>> import ctfa
    >>> from ctfa.datasets import make_gauges
    >>> gauges = make_gauges(random_state=0)
    >>> def first_merges_only(now):
    ...     return now.n_merges < 3
    >>> import warnings
    >>> with ctfa.progress(first_merges_only, every=0), warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", ctfa.SearchStopped)
    ...     groups = ctfa.TargetAggregator().fit(gauges.data, gauges.target)
    >>> groups.n_groups_, groups.history_.complete
    (9, False)
    """
    if callback is not None and not callable(callback):
        raise TypeError(
            f"progress was given callback={callback!r}, which cannot be called: give a function of "
            "one argument, or nothing for a bar."
        )
    if callback is not None and show:
        raise ValueError("progress shows a bar or calls a callback: leave out callback or show.")
    if every is not None and not _is_number(every):
        raise TypeError(f"every={every!r} is not a number: give seconds, zero or more.")
    if every is not None and not every >= 0.0:
        raise ValueError(f"every={every!r}: give a number of seconds, zero or more.")
    terminal = sys.stderr is not None and sys.stderr.isatty()
    in_file = callback is None and not terminal
    pace = every if every is not None else SPARING if in_file else LIVELY
    with (
        _listening(callback, show=terminal if show is None else show) as listener,
        reporting_to(listener, every=pace) as reporter,
        _gentle_interrupts(reporter),
    ):
        yield


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _listening(
    callback: Callable[[ScanProgress], object] | None, *, show: bool
) -> AbstractContextManager[Listener]:
    """The listener: the callback, a bar, a line of text, or none."""
    if callback is not None or not show:
        return nullcontext(callback or _silence)
    if sys.stderr.isatty():
        try:
            rich = importlib.import_module("rich.progress")
        except ImportError:
            return _text(sys.stderr)
        return _bar(rich, importlib.import_module("rich.console").Console(stderr=True))
    return _text(sys.stderr)


def _silence(now: ScanProgress) -> None:
    """Nothing to show; a search can still be stopped."""


@contextmanager
def _bar(rich: Any, console: Any) -> Iterator[Listener]:
    """One bar for all the work, whose total is known from the start."""
    columns = (
        rich.TextColumn("{task.description}", markup=False),
        rich.BarColumn(),
        rich.TaskProgressColumn(),
        rich.TimeElapsedColumn(),
    )
    with rich.Progress(*columns, console=console, transient=True) as bars:
        task = bars.add_task("scan", total=1.0)

        def tell(now: ScanProgress) -> None:
            bars.update(task, description=_words(now), completed=now.done)

        yield tell


@contextmanager
def _text(stream: TextIO) -> Iterator[Listener]:
    """One line, written over where that can be."""
    terminal = stream.isatty()
    width = 0

    def tell(now: ScanProgress) -> None:
        nonlocal width
        line = f"{now.done:.0%}, {_words(now)}, {now.seconds:.0f} s"
        stream.write(f"\r{line.ljust(width)}" if terminal else f"{line}\n")
        stream.flush()
        width = len(line)

    try:
        yield tell
    finally:
        if terminal and width:
            stream.write("\r" + " " * width + "\r")
            stream.flush()


def _words(now: ScanProgress) -> str:
    if not now.n_comparisons:  # searched elsewhere
        return now.stage
    return (
        f"{now.stage}: {now.n_groups:,} groups of {now.n_variables:,}, "
        f"{now.n_comparisons:,} comparisons"
    )


def leave_interrupts_to(process: int) -> None:
    """Ignore Ctrl-C in this worker: the main process, which gets it as well, answers it."""
    if os.getpid() != process and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _gentle_interrupts(reporter: Reporter) -> Iterator[None]:
    """Let the first Ctrl-C of a search stop it; any other does what it did before."""
    before = signal.getsignal(signal.SIGINT)
    # Python delivers signals to its main thread only; a signal that is ignored, or handled by
    # other code, is left alone.
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    spent = False

    def press(number: int, frame: Any) -> None:
        nonlocal spent
        if not spent and reporter.request_stop():
            spent = True
        else:
            before(number, frame)

    signal.signal(signal.SIGINT, press)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
