"""The data sets by name; adding one is one line here, or an entry of ``DATA`` at run time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ctfa import datasets
from ctfa.comparison._problem import Problem, read_problem


class Data(NamedTuple):
    """Where a data set comes from, and how its rows are to be divided unless said otherwise."""

    load: Callable[[], Any]
    split: str = "random"


DATA: dict[str, Data] = {
    "paper": Data(lambda: datasets.make_paper_synthetic(500, random_state=0)),
}


def read_data(data: Any) -> tuple[Problem, str]:
    """A problem and its split, from a name or from the data themselves."""
    if not isinstance(data, str):
        return read_problem(data), "random"
    if data not in DATA:
        raise ValueError(f"there is no data set {data!r}: choose from {', '.join(DATA)}.")
    entry = DATA[data]
    return read_problem(entry.load(), data), entry.split
