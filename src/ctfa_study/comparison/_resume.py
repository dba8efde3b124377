"""Runs gone through: what is stored is taken from there, all else is run and stored as it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol, TypeVar

import joblib

from ctfa_study.comparison._store import Row, Store


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
