"""Numbers that the baselines take: prices, counts, tolerances."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from ctfa import _validation as check


def read_positive(value: Any, what: str) -> float:
    """A finite number above zero."""
    number = check.read_number(value, what, " above 0")
    if not 0.0 < number < np.inf:
        raise ValueError(f"{what}={value!r} must be finite and above 0: pass a positive number.")
    return number


def read_at_least_zero(value: Any, what: str, *, infinite: bool = False) -> float:
    """A number that may be zero, and infinite where that means something."""
    number = check.read_number(value, what, ", 0 or more")
    if number < 0.0 or (np.isinf(number) and not infinite):
        limits = "not negative" if infinite else "finite and not negative"
        raise ValueError(f"{what}={value!r} must be {limits}: pass 0 or more.")
    return number


def read_count(value: Any, what: str) -> int:
    """A whole number, 1 or more."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{what}={value!r} is not a count: pass a whole number, 1 or more.")
    return int(value)


def read_count_up_to(value: Any, largest: int, what: str, of: str) -> int:
    """A whole number from 1 to the largest there can be."""
    number = check.read_number(value, what, " or 'cv'")
    if number != int(number) or not 1 <= number <= largest:
        raise ValueError(
            f"{what}={value!r} is not possible with {largest} {of}: pass a whole number from 1 to "
            f"{largest}, or 'cv' to choose it on folds."
        )
    return int(number)
