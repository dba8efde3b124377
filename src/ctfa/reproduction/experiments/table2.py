"""Table 2: QM9."""

from __future__ import annotations

from collections.abc import Iterator

from ctfa.reproduction._case import Case, Experiment, Plan

NAME = "table2"


def cases(plan: Plan) -> Iterator[Case]:
    """What is run."""
    yield from ()


TABLE2 = Experiment(NAME, "Table 2: QM9", {}, cases)
