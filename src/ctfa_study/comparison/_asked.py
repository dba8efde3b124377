"""What a comparison is asked for: which methods, which splits; all that is refused in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ctfa._names import nearest
from ctfa_study.comparison._methods import Method, as_method
from ctfa_study.comparison._problem import Problem
from ctfa_study.comparison._registry import METHODS
from ctfa_study.comparison._splits import SPLITS


@dataclass(frozen=True)
class Setting:
    """How rows are divided."""

    split: str
    test_size: float
    gap: int


def read_methods(
    methods: Any, problem: Problem, *, quick: bool = False
) -> tuple[dict[str, Method], dict[str, str]]:
    """Methods by name, all of which can serve the problem; and why others were left out."""
    if methods is None:
        reasons = {
            name: method.why_not(problem) or ("slow" if quick and method.slow else None)
            for name, method in METHODS.items()
        }
        chosen = {name: METHODS[name] for name, reason in reasons.items() if reason is None}
        return chosen, {name: reason for name, reason in reasons.items() if reason is not None}
    if isinstance(methods, str):
        methods = [methods]
    asked: Mapping[str, Any] = (
        methods if isinstance(methods, Mapping) else dict.fromkeys(_names(methods))
    )
    chosen = {}
    for name, value in asked.items():
        if value is None and name not in METHODS:
            raise ValueError(f"there is no method {name!r}{nearest(name, METHODS)}.")
        method = METHODS[name] if value is None else as_method(value, name)
        reason = method.why_not(problem)
        if reason is not None:
            wrap = problem.kind != "shared" and value is not None
            hint = "; SingleTaskRegressor(...) around it serves each task by itself" * wrap
            raise ValueError(f"method {name!r} cannot serve {problem.name}: it {reason}{hint}.")
        chosen[name] = method
    if not chosen:
        raise ValueError("methods is empty: give one or more.")
    return chosen, {}


def read_setting(split: str, test_size: float, gap: int) -> Setting:
    if split not in SPLITS:
        raise ValueError(f"split={split!r} is not one of {', '.join(map(repr, SPLITS))}.")
    if not 0.0 < test_size < 1.0:
        raise ValueError(f"test_size={test_size!r}: give a share of the rows, between 0 and 1.")
    if gap < 0 or (gap and split != "blocked"):
        raise ValueError(
            f"gap={gap!r} with split={split!r}: a gap is a number of rows beside the block of "
            "split='blocked', zero or more; leave it out for other splits."
        )
    return Setting(split, float(test_size), int(gap))


def _names(methods: Iterable[Any]) -> list[str]:
    names = list(methods)
    strangers = [name for name in names if not isinstance(name, str)]
    if strangers:
        raise TypeError(
            f"methods holds {strangers[0]!r}, which is not a name: pass a mapping, such as "
            f"{{'mine': {type(strangers[0]).__name__}()}}."
        )
    return names
