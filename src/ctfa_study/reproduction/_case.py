"""What an experiment is made of: cases to run, each by itself, and the figures they give."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ctfa_study.comparison._harness import key_of

if TYPE_CHECKING:
    from ctfa_study.reproduction._results import Results

#: How a figure came about, in stored results: the authors' way, or the same rows and one measure
#: for every method, with nothing learnt from the rows that judge.
AUTHORS, HONEST = "as the authors ran it", "honest"
#: What people read.
SHOWN = {AUTHORS: AUTHORS, HONEST: "common protocol"}


class Plan(NamedTuple):
    """What is asked of an experiment."""

    quick: bool = False  # a few small cases, to see that everything runs
    seeds: int | None = None  # None: as many as the experiment's protocol says


class Case(NamedTuple):
    """One method on one data set or split; ``measure`` gives its figures by name.

    Figures are numbers, or None where a method has none. ``seconds`` is the time of ``measure``
    unless it gives its own; ``models`` is the number of regressors trained.
    """

    experiment: str
    protocol: str
    setting: str
    method: str
    seed: int
    measure: Callable[[], Mapping[str, float | None]]
    #: All else that decides the result; two cases that differ in it are never taken for the same.
    recipe: str = ""
    quick: bool = False
    #: Run only when asked for: needs what few machines have.
    network: bool = False

    @property
    def key(self) -> str:
        """Name of the case by what decides its result; the code behind it is not looked at."""
        return key_of(
            experiment=self.experiment, protocol=self.protocol, setting=self.setting,
            method=self.method, seed=self.seed, recipe=self.recipe, quick=self.quick,
        )  # fmt: skip


class Finding(NamedTuple):
    """In which of the cases that a statement of the paper speaks of it holds, and what they show.

    A case is a setting, a regressor or a step of a sweep, named for people to read.
    """

    cases: Mapping[str, bool]
    shown: str
    #: Whether these cases are of other data than the paper's, which cannot be had.
    elsewhere: bool = False

    @property
    def holds(self) -> bool:
        """Whether it holds in all of them."""
        return all(self.cases.values())


@dataclass(frozen=True)
class Experiment:
    """One part of the paper: how it is run, drawn and read.

    Attributes
    ----------
    name, title : str
        As the command line calls it; as a heading.
    protocols : mapping
        What each protocol does, in a sentence or two.
    cases : callable
        From a ``Plan`` to the cases of this experiment, in the order in which they are to be run.
    checks : mapping
        Statements of the paper by the name that ``claims.toml`` gives them.
    choices : mapping
        What was chosen and not measured, such as the number of seeds, by quantity.
    draw : callable or None
        From results and a folder to the pictures written there.
    """

    name: str
    title: str
    protocols: Mapping[str, str]
    cases: Callable[[Plan], Iterable[Case]]
    checks: Mapping[str, Callable[[Results], Finding]] = field(default_factory=dict)
    draw: Callable[[Results, Path], list[Path]] | None = None
    choices: Mapping[str, float] = field(default_factory=dict)
