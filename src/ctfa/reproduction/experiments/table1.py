"""Table 1: SARCOS and School."""

from __future__ import annotations

from collections.abc import Iterator

from ctfa.reproduction._case import Case, Experiment, Plan

NAME = "table1"


def cases(plan: Plan) -> Iterator[Case]:
    """What is run."""
    yield from ()


TABLE1 = Experiment(NAME, "Table 1: SARCOS and School", {}, cases)
