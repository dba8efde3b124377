"""What callers of loaders and generators give, checked."""

from __future__ import annotations

from collections.abc import Collection
from numbers import Integral, Real
from typing import Any


def require_count(name: str, value: Any, *, least: int, most: int | None = None) -> None:
    """Refuse what is not a whole number in a range."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name}={value!r} is not a whole number: give how many.")
    value = int(value)
    if value < least or (most is not None and value > most):
        limits = f"at least {least}" if most is None else f"from {least} to {most}"
        raise ValueError(f"{name}={value}: give a whole number, {limits}.")


def require_number(name: str, value: Any, *, least: float, most: float | None = None) -> None:
    """Refuse what is not a number in a range; NaN is in none."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name}={value!r} is not a number.")
    value = float(value)
    if not (value >= least and (most is None or value <= most)):
        limits = f"{least} or more" if most is None else f"from {least} to {most}"
        raise ValueError(f"{name}={value}: give a number, {limits}.")


def require_choice(name: str, value: Any, choices: Collection[str]) -> None:
    """Refuse what is not one of some words."""
    if value not in choices:
        words = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"{name}={value!r} is unknown: give one of {words}.")
