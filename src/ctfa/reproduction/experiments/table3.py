"""Table 3: basins."""

from __future__ import annotations

from collections.abc import Iterator

from ctfa.reproduction._case import Case, Experiment, Plan

NAME = "table3"


def cases(plan: Plan) -> Iterator[Case]:
    """What is run."""
    yield from ()


TABLE3 = Experiment(NAME, "Table 3: basins", {}, cases)
