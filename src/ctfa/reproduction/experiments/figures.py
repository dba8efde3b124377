"""Figures 1 to 4."""

from __future__ import annotations

from collections.abc import Iterator

from ctfa.reproduction._case import Case, Experiment, Plan

NAME = "figures"


def cases(plan: Plan) -> Iterator[Case]:
    """What is run."""
    yield from ()


FIGURES = Experiment(NAME, "Figures 1 to 4", {}, cases)
