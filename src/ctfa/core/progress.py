"""Progress of a long search, and how it is asked to stop.

By default nothing listens, and a tick costs one look at a variable. ``reporting_to`` names a
listener for a block of code in the current thread; ``ctfa.progress`` is its public face, with a bar
and with Ctrl-C.

A *search* is what is stopped as a whole: one scan, or one fold with all its scans. It calls
``tick`` now and then and stops when the answer is no; what was merged until then stays.
A *part* is a share of the work, named ahead, so that a progress bar has one total from the start
and never goes back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ctfa.core.history import Ledger  # numpy, which help and --version do without


class Stopped(Exception):
    """The way out of a scan that was asked to stop, with what it had found; not an error."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__("The search was asked to stop.")
        self.ledger = ledger


class SearchStopped(UserWarning):
    """Warns that a search was stopped before its end; the fit continued with what it had found.

    Examples
    --------
    >>> import warnings
    >>> from ctfa import CTFARegressor, SearchStopped, progress
    >>> from ctfa.datasets import make_paper_synthetic
    >>> X, Y = make_paper_synthetic(n_samples=100, n_features=5, n_targets=6, random_state=0)
    >>> with warnings.catch_warnings(record=True) as caught, progress(lambda now: False, every=0):
    ...     warnings.simplefilter("always")
    ...     model = CTFARegressor().fit(X, Y)
    >>> any(issubclass(one.category, SearchStopped) for one in caught)
    True
    """


@dataclass(frozen=True)
class ScanProgress:
    """How far a search has come.

    Parameters
    ----------
    stage : str
        What is searched: ``"scan"``, or ``"fold 3 of 10"``.
    n_variables, n_groups, n_merges, n_comparisons : int
        Targets or features, groups they form by now, merges made and pairs asked about.
    seconds : float
        Time since the search began.
    done : float
        Share of the whole work, from 0 to 1, that is done so far: of one fit, or of a command
        with its fits on held-out rows. Counted in searches, not in time; it never decreases.

    Examples
    --------
    >>> from ctfa import ScanProgress
    >>> now = ScanProgress("scan", 20, 15, 5, n_comparisons=120, seconds=0.5, done=0.25)
    >>> f"{now.done:.0%}: {now.n_groups} groups of {now.n_variables}"
    '25%: 15 groups of 20'
    """

    stage: str
    n_variables: int
    n_groups: int
    n_merges: int
    n_comparisons: int
    seconds: float
    done: float = 0.0


class Counts(NamedTuple):
    """Counts for a tick of a search without a ledger."""

    n_variables: int
    n_merges: int
    n_comparisons: int


#: Gets a record, and returns False to stop the search.
Listener = Callable[[ScanProgress], object]


@dataclass
class Search:
    """One search under way."""

    stage: str
    began: float = field(default_factory=time.monotonic)
    stopped: bool = False


class Reporter:
    """Tells a listener how far the search is, and the search whether to go on."""

    def __init__(self, listener: Listener, every: float) -> None:
        self.listener, self.every = listener, every
        self.search: Search | None = None
        self.done = 0.0
        self.reach: float | None = None  # end of the current part; None where no total is known
        self.stages: tuple[str, ...] = ()
        self._told = -float("inf")
        self.asked_to_stop = False
        self._shown = 0.0

    @property
    def _end(self) -> float:
        return 1.0 if self.reach is None else self.reach

    @contextmanager
    def part(self, share: float, stage: str) -> Iterator[None]:
        """Work that is a share of what is left; done when it ends, whatever it came to."""
        before = self.reach, self.stages
        if self.reach is None:
            self.done = self._shown = 0.0
        self.reach = self.done + share * (self._end - self.done)
        self.stages = (*self.stages, stage) if stage else self.stages
        try:
            yield
        finally:
            self.done = self._end
            self.reach, self.stages = before

    def request_stop(self) -> bool:
        """Ask the search under way to stop; False if there is none. Safe in a signal handler."""
        self.asked_to_stop = self.search is not None
        return self.asked_to_stop

    def tick(self, counts: Counts | Ledger) -> bool:
        """Report if it is time to; say whether to go on."""
        search = self.search
        if search is None:
            return True
        if search.stopped:
            return False
        if self.asked_to_stop:
            search.stopped = True
            return False
        now = time.monotonic()
        if now - self._told < self.every:
            return True
        self._told = now
        n_variables, n_merges = counts.n_variables, counts.n_merges
        done = self.done + (self._end - self.done) * n_merges / max(n_variables - 1, 1)
        self._shown = max(done, self._shown)
        record = ScanProgress(
            ", ".join((*self.stages, search.stage)),
            n_variables,
            n_variables - n_merges,
            n_merges,
            counts.n_comparisons,
            now - search.began,
            self._shown,
        )
        # Exactly False: a listener that returns None, like print, does not ask to stop.
        search.stopped = self.listener(record) is False
        return not search.stopped


_reporter: ContextVar[Reporter | None] = ContextVar("ctfa_progress", default=None)


@contextmanager
def reporting_to(listener: Listener, *, every: float = 0.1) -> Iterator[Reporter]:
    """Report searches to a listener, at most once in so many seconds, in the current thread."""
    reporter = Reporter(listener, every)
    token = _reporter.set(reporter)
    try:
        yield reporter
    finally:
        _reporter.reset(token)


def is_reported() -> bool:
    """Whether a listener is set; without one a scan need not be cut into slices."""
    return _reporter.get() is not None


def tick(counts: Counts | Ledger) -> bool:
    """Say how far the search is; return whether to go on."""
    reporter = _reporter.get()
    return reporter is None or reporter.tick(counts)


def go_on(ledger: Ledger) -> None:
    """Say how far a scan is, and leave it if it was asked to stop."""
    reporter = _reporter.get()
    if reporter is not None and not reporter.tick(ledger):
        raise Stopped(ledger)


def part(share: float = 1.0, stage: str = "") -> AbstractContextManager[None]:
    """Work that is a share of what is left of the work under way, or the whole where none is."""
    reporter = _reporter.get()
    return nullcontext() if reporter is None else reporter.part(share, stage)


@contextmanager
def searching(stage: str) -> Iterator[tuple[Search, bool]]:
    """Open a search, or take part in the one that is open; also say whether it was opened here."""
    reporter = _reporter.get()
    if reporter is None:
        yield Search(stage), True
    elif reporter.search is not None:
        yield reporter.search, False
    else:
        reporter.search = Search(stage)
        try:
            with part() if reporter.reach is None else nullcontext():
                yield reporter.search, True
        finally:
            # A request that came too late for this search does not stop the next.
            reporter.search, reporter.asked_to_stop = None, False
